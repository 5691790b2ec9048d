//! The breaker: once PostgreSQL was found to be away, requests fail at once, and one probe at a time finds out when it
//! is back.
//!
//! Only a new connection decides. One that is refused, or not answered, opens the breaker; a statement that takes long,
//! a connection that is lost and a pool that is used up are reasons to try one, no more: a slow statement, a held lock,
//! a lost race and a terminated session leave the breaker closed.

use std::{
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use deadpool_postgres::{PoolError, TimeoutType};
use entourage_model::Error;
use metrics::{Counter, Gauge, counter, gauge};
use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout};
use tokio_postgres::error::SqlState;

use super::{
    connect::{self, Target},
    error::Failure,
};

/// A statement without an answer for so long makes the breaker try a connection.
pub(super) const SUSPICIOUS_AFTER: Duration = Duration::from_secs(1);
/// How long a connection may take while PostgreSQL is believed to be there; a busy one takes its time.
const FIRST_PROBE_WITHIN: Duration = Duration::from_secs(2);
/// The same while it is known to be away, for each of its hosts.
const PROBE_WITHIN: Duration = Duration::from_secs(1);
/// Between two probes, doubling.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// After a probe that was answered no other one is needed for so long.
const TRUSTED_FOR: Duration = Duration::from_secs(1);
/// A probe whose connection was closed without a word is repeated this often.
const CLOSED_MAX: u32 = 3;

pub(super) struct Breaker {
    target: Target,
    hosts: u32,
    is_open: watch::Sender<bool>,
    is_probing: AtomicBool,
    answered: Mutex<Option<Instant>>,
    /// Connections from before the last time it was closed are not used.
    closed: Mutex<Option<Instant>>,
    state: Gauge,
    trips: Counter,
}

impl Breaker {
    pub(super) fn new(mut target: Target) -> Self {
        target.config.connect_timeout(PROBE_WITHIN);
        let hosts = u32::try_from(target.config.get_hosts().len()).unwrap_or(u32::MAX).clamp(1, 8);
        let state = gauge!("entourage_breaker_open");
        state.set(0.0);
        Self {
            target,
            hosts,
            is_open: watch::Sender::new(false),
            is_probing: AtomicBool::new(false),
            answered: Mutex::default(),
            closed: Mutex::default(),
            state,
            trips: counter!("entourage_breaker_trips_total"),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        *self.is_open.borrow()
    }

    /// Fails at once while PostgreSQL is away.
    pub(super) fn check(self: &Arc<Self>) -> Result<(), Failure> {
        if !self.is_open() {
            return Ok(());
        }
        // The last one may have ended with its runtime.
        self.probe();
        Err(away().into())
    }

    /// Until it opens.
    pub(super) async fn opened(&self) {
        let mut is_open = self.is_open.subscribe();
        // The sender is `self`: it is not dropped meanwhile.
        let _ = is_open.wait_for(|is_open| *is_open).await;
    }

    /// Whether a connection that was made then may be used: what was sent before an outage may still be on its way.
    pub(super) fn trusts(&self, created: Instant) -> bool {
        self.closed.lock().is_none_or(|closed| created >= closed)
    }

    /// Work that ends when PostgreSQL is found to be away. What was sent last may have happened.
    pub(super) async fn guard<T>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::pin!(work);
        let done = match timeout(SUSPICIOUS_AFTER, &mut work).await {
            Ok(done) => done,
            Err(_) => {
                self.suspect();
                tokio::select! {
                    biased;
                    done = &mut work => done,
                    () = self.opened() => Err(Failure { is_lost: true, ..Error::unavailable("PostgreSQL went away").into() }),
                }
            }
        };
        if done.as_ref().is_err_and(|failure| failure.is_lost) {
            self.suspect();
        }
        done
    }

    /// Why there was no connection.
    pub(super) fn saw(self: &Arc<Self>, error: &PoolError) {
        match error {
            PoolError::Backend(source) if was_terminated(source) => self.suspect(),
            PoolError::Backend(source) if is_unreachable(source) => self.open(&reason(source)),
            PoolError::Timeout(TimeoutType::Create) => self.open("a connection was not answered"),
            PoolError::Timeout(_) | PoolError::PostCreateHook(_) => self.suspect(),
            PoolError::Backend(_) | PoolError::Closed | PoolError::NoRuntimeSpecified => {}
        }
    }

    /// Tries a connection, unless that is under way or was done a moment ago.
    pub(super) fn suspect(self: &Arc<Self>) {
        if self.answered.lock().is_none_or(|answered| answered.elapsed() >= TRUSTED_FOR) {
            self.probe();
        }
    }

    fn open(self: &Arc<Self>, reason: &str) {
        // The gauge is set inside: set afterwards, it could overwrite that of a probe which closes at this moment.
        self.is_open.send_if_modified(|is_open| {
            let opens = !std::mem::replace(is_open, true);
            if opens {
                self.state.set(1.0);
                self.trips.increment(1);
                tracing::warn!(reason, "PostgreSQL is away; requests fail at once until it answers");
            }
            opens
        });
        self.probe();
    }

    fn close(&self) {
        let now = Instant::now();
        *self.answered.lock() = Some(now);
        self.is_open.send_if_modified(|is_open| {
            let closes = std::mem::replace(is_open, false);
            if closes {
                *self.closed.lock() = Some(now);
                self.state.set(0.0);
                tracing::warn!("PostgreSQL is back");
            }
            closes
        });
    }

    /// Until PostgreSQL answers; one at a time.
    fn probe(self: &Arc<Self>) {
        if self.is_probing.swap(true, Ordering::AcqRel) {
            return;
        }
        let probing = Probing(Arc::clone(self));
        tokio::spawn(async move {
            let breaker = &probing.0;
            let (mut within, mut pause) = (FIRST_PROBE_WITHIN * breaker.hosts, PAUSE);
            loop {
                let reason = match timeout(within, breaker.ask()).await {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) if !is_unreachable(&error) => {
                        tracing::debug!(%error, "PostgreSQL answers, and refuses a connection");
                        break;
                    }
                    Ok(Err(error)) => reason(&error),
                    Err(_) => "a connection was not answered".to_owned(),
                };
                // This task is the probe: opening does not begin another one.
                breaker.open(&reason);
                if Arc::strong_count(breaker) == 1 {
                    // Nobody is left to be told.
                    return;
                }
                tokio::time::sleep(pause).await;
                (within, pause) = (PROBE_WITHIN * breaker.hosts, (pause * 2).min(PAUSE_MAX));
            }
            breaker.close();
            let breaker = Arc::clone(breaker);
            drop(probing);
            // Somebody may have opened it again, trusting in this probe.
            if breaker.is_open() {
                breaker.probe();
            }
        });
    }

    /// Somebody may have killed the session: another one may be answered.
    async fn ask(&self) -> Result<(), tokio_postgres::Error> {
        let mut closed = 0;
        loop {
            match self.ask_once().await {
                Err(error) if closed < CLOSED_MAX && was_terminated(&error) => {
                    closed += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                answered => return answered,
            }
        }
    }

    async fn ask_once(&self) -> Result<(), tokio_postgres::Error> {
        let (client, connection) = self.target.config.connect(self.target.tls.clone()).await?;
        let connection = tokio::spawn(connection);
        let answered = client.simple_query("SELECT 1").await;
        drop(client);
        match answered {
            // What PostgreSQL said at the end, such as that an administrator ended the session, is the connection's.
            Err(error) if error.is_closed() => match connection.await {
                Ok(Err(said)) => Err(said),
                _ => Err(error),
            },
            answered => answered.map(drop),
        }
    }
}

/// The right to probe, given back however the task ends.
struct Probing(Arc<Breaker>);

impl Drop for Probing {
    fn drop(&mut self) {
        self.0.is_probing.store(false, Ordering::Release);
    }
}

fn reason(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

pub(super) fn away() -> Error {
    Error::unavailable("PostgreSQL is away; the request was not sent to it")
}

/// Of an error of a new connection: nobody is there, or PostgreSQL starts, stops or recovers. Everything else is an
/// answer.
fn is_unreachable(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(state) => *state == SqlState::CANNOT_CONNECT_NOW,
        None => connect::explain(error).is_none() && (error.is_closed() || is_of_network(error)),
    }
}

/// The session ended: by an operator's word, or because PostgreSQL goes.
pub(super) fn was_terminated(error: &tokio_postgres::Error) -> bool {
    let states = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN];
    let cuts =
        [ErrorKind::ConnectionReset, ErrorKind::ConnectionAborted, ErrorKind::BrokenPipe, ErrorKind::UnexpectedEof];
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    error.is_closed()
        || error.code().is_some_and(|state| states.contains(state))
        || source.is_some_and(|source| cuts.contains(&source.kind()))
}

pub(super) fn is_of_network(error: &tokio_postgres::Error) -> bool {
    error.code().is_none() && std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}
