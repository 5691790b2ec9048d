//! The reader behind the detectors. Where nobody else writes, it is handed what this process commits; elsewhere it reads the
//! log, and hears there of cases and quotas that other servers wrote. After a start it reads back as far as the longest
//! window reaches, so that what was counted is counted again; cases are known by then, and none is opened twice.

use std::time::{Duration, Instant};

use entourage_model::{
    Code, Event, EventBody, EventPosition, EventPositions, Key, Millis, RecordId, Result, Sequence, Space, Version,
};
use entourage_store::StoreExt as _;

use super::{
    Abuse, AbuseRules,
    buffer::{Act, Seen},
    detector::{CHURN_WINDOW, Detector, Suspicion},
    examine::Population,
    rules::PAIR_WINDOW,
    window::Window,
};

/// How long an event waits at most.
const PASS_EVERY: Duration = Duration::from_millis(250);
const CHUNK: usize = 1_000;
/// After this many events others get their turn.
const YIELD_EVERY: usize = 4_096;
/// Suspicions looked at in one pass: at most 400 a second.
const EXAMINED_MAX: usize = 100;
/// Events that are read again after a start, at most: the newest ones. What the log has dropped is not read either.
const REREAD_MAX: u64 = 1_000_000;
/// How often cases that were closed long ago are looked for.
const REMOVAL_EVERY: Duration = Duration::from_secs(60 * 60);

/// Where the reader stands, and what it has counted.
pub(super) struct Reader {
    detector: Detector,
    population: Population,
    /// `None` until the first pass.
    at: Option<EventPositions>,
    /// Of what happened before, only the ends of follows count: all else has a window of an hour.
    recent_since: Millis,
    /// Up to here the log was read, before what was committed was handed over.
    reread_to: Version,
    /// The log was read to its end, and what is committed is handed over from here on.
    is_handed_over: bool,
    spare: Vec<Seen>,
}

impl Reader {
    pub(super) fn new(rules: AbuseRules) -> Self {
        Self {
            detector: Detector::new(rules),
            population: Population::default(),
            at: None,
            recent_since: Millis::default(),
            reread_to: Version::ZERO,
            is_handed_over: false,
            spare: Vec::new(),
        }
    }
}

impl Abuse {
    /// Until the server stops.
    pub(crate) async fn run(&self) {
        let mut closed = self.context.hub.closed();
        let (mut said, mut removed) = (None, None::<Instant>);
        loop {
            match self.pass(false).await {
                Ok(()) => said = None,
                Err(error) => {
                    // A store that is unreachable for long is reported once.
                    if said != Some(error.code()) {
                        tracing::warn!(%error, "detectors of abuse wait; they are tried again");
                    }
                    said = Some(error.code());
                }
            }
            if said.is_none() && removed.is_none_or(|last| last.elapsed() >= REMOVAL_EVERY) {
                removed = Some(Instant::now());
                if let Err(error) = self.remove_old_cases().await {
                    tracing::warn!(%error, "cases closed long ago stay for now");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(PASS_EVERY) => {}
                _ = closed.wait_for(|closed| *closed) => break,
            }
        }
        if let Err(error) = self.flush(true).await {
            tracing::debug!(code = error.code().as_str(), "some evidence was not kept: {}", error.detail());
        }
        self.buffer.stop();
    }

    /// Looks at everything that was committed before the call, and writes what was found, however lately it was written.
    pub async fn detect(&self) -> Result<()> {
        self.pass(true).await
    }

    async fn pass(&self, is_final: bool) -> Result<()> {
        self.load().await?;
        let (rules, is_alone) = (self.context.rules.abuse, self.context.store.guarantees().is_alone());
        if is_alone && !rules.detect {
            return Ok(());
        }
        let mut reader = self.reader.lock().await;
        if reader.at.is_none() {
            let now = self.context.clock.now();
            reader.recent_since = before(now, Window::HOUR);
            let since = before(now, longest_window(&rules));
            reader.at = Some(match rules.detect {
                true => self.reread_from(since).await?,
                false => self.context.store.last_events().await?,
            });
        }
        // While nothing happens, a store that looks by itself is not asked as well.
        let store = &self.context.store;
        let is_quiet = !is_final && reader.at.as_ref().is_some_and(|at| store.quiet_for(at).is_some());
        if !reader.is_handed_over && !is_quiet && self.read_log(&mut reader).await? && is_alone {
            // What is committed from here on waits in the buffer; what came before is read from the log once more.
            self.buffer.start();
            reader.is_handed_over = self.read_log(&mut reader).await?;
        }
        if reader.is_handed_over {
            self.read_buffer(&mut reader).await;
        }
        self.examine_all(&mut reader, is_final).await?;
        drop(reader);
        self.flush(is_final).await
    }

    async fn read_buffer(&self, reader: &mut Reader) {
        let spare = std::mem::take(&mut reader.spare);
        let mut seen = self.buffer.take(spare);
        for chunk in seen.chunks(YIELD_EVERY) {
            for seen in chunk.iter().filter(|seen| seen.version > reader.reread_to) {
                reader.detector.saw(*seen);
            }
            tokio::task::yield_now().await;
        }
        seen.clear();
        reader.spare = seen;
    }

    /// Whether the end of the log was reached: a server that stops reads no further.
    async fn read_log(&self, reader: &mut Reader) -> Result<bool> {
        let Some(mut at) = reader.at.clone() else { return Ok(false) };
        let closed = self.context.hub.closed();
        loop {
            let events = match self.context.store.events_since(&mut at, CHUNK).await {
                Err(error) if error.code() == Code::EventsExpired => {
                    reader.at = Some(self.context.store.last_events().await?);
                    self.read_cases().await?;
                    self.read_target_quotas().await?;
                    return Ok(false);
                }
                other => other?,
            };
            for (partition, event) in &events {
                let counts = |seen: &Seen| seen.act == Act::Ended || seen.version.millis() >= reader.recent_since;
                if self.context.rules.abuse.detect
                    && let Some(seen) = Seen::of_event(event).filter(counts)
                {
                    reader.detector.saw(seen);
                }
                self.hear(event).await?;
                at.advance(*partition, event.sequence);
                reader.reread_to = reader.reread_to.max(event.version);
            }
            reader.at = Some(at.clone());
            if events.len() < CHUNK {
                return Ok(true);
            }
            if *closed.borrow() {
                return Ok(false);
            }
            tokio::task::yield_now().await;
        }
    }

    /// What another server wrote.
    async fn hear(&self, event: &Event) -> Result<()> {
        match &event.body {
            EventBody::Record { space: Space::Case, owner: Key::SERVER, id, after, .. } => {
                let Some(case) = id.version() else { return Ok(()) };
                let known = if after.is_some() { self.known(case).await? } else { None };
                match known {
                    Some((record, document)) => self.index.learn(case, record.version.millis(), &document),
                    None => self.index.forget(case),
                }
            }
            EventBody::Record { space: Space::TargetQuota, owner: Key::SERVER, id, .. } => {
                if let Some(target) = id.key() {
                    self.reload_target_quota(target).await?;
                }
            }
            // Long ago, perhaps: somebody else may have the id by now, and a quota.
            EventBody::User { key, after: None, .. } => self.reload_target_quota(*key).await?,
            _ => {}
        }
        Ok(())
    }

    async fn examine_all(&self, reader: &mut Reader, is_final: bool) -> Result<()> {
        let most = if is_final { usize::MAX } else { EXAMINED_MAX };
        for _ in 0..most {
            let next = reader.detector.next_suspicion().or_else(|| reader.detector.next_look());
            let Some(suspicion) = next else { break };
            self.examine_one(reader, suspicion).await?;
        }
        metrics::gauge!("entourage_abuse_remembered").set(reader.detector.remembered() as f64);
        metrics::gauge!("entourage_abuse_open_cases").set(self.index.open_cases() as f64);
        Ok(())
    }

    async fn examine_one(&self, reader: &mut Reader, suspicion: Suspicion) -> Result<()> {
        let Reader { detector, population, .. } = reader;
        match self.examine(suspicion, detector, population).await? {
            Some(finding) => self.found(finding, false).await,
            None => Ok(()),
        }
    }

    /// The first event since then in every partition, or one closer to the end.
    async fn reread_from(&self, since: Millis) -> Result<EventPositions> {
        let mut ends = self.context.store.last_events().await?;
        let offsets: Vec<u64> = ends.positions().map(|position| position.offset.0).collect();
        let most = REREAD_MAX / (offsets.len().max(1) as u64);
        let lineage = ends.lineage();
        let mut starts = Vec::with_capacity(offsets.len());
        for (partition, end) in (0..).zip(offsets) {
            let (mut low, mut high) = (end.saturating_sub(most), end);
            // The first event after `low` is from before `since`, unless it is the very first one looked at.
            while low < high {
                let middle = low + (high - low) / 2;
                let position = EventPosition { lineage, partition, offset: Sequence(middle) };
                match self.context.store.events(position, 1).await {
                    Ok(events) => match events.first() {
                        Some(event) if event.version.millis() < since => low = middle + 1,
                        _ => high = middle,
                    },
                    Err(error) if error.code() == Code::EventsExpired => low = middle + 1,
                    Err(error) => return Err(error),
                }
            }
            starts.push(Sequence(low));
        }
        ends = EventPositions::new(lineage, starts);
        Ok(ends)
    }
}

fn before(now: Millis, span: u64) -> Millis {
    Millis::from_since_2000(now.since_2000().saturating_sub(span))
}

/// How far back counts reach, in milliseconds.
fn longest_window(rules: &AbuseRules) -> u64 {
    let windows = [
        (rules.pair_flips, u64::try_from(PAIR_WINDOW.as_millis()).unwrap_or(u64::MAX)),
        (rules.churn_follows, CHURN_WINDOW),
    ];
    let used = windows.into_iter().filter(|(threshold, _)| *threshold > 0).map(|(_, window)| window);
    used.max().unwrap_or(Window::HOUR)
}

/// The record of a target's quota.
pub(super) fn quota_id(target: Key) -> RecordId {
    RecordId::of_key(target)
}
