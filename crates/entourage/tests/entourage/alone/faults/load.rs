//! A small load on two servers: writers that follow and unfollow, and readers of what they wrote, with its token on the other
//! server and without one on both. Everything that was heard is kept.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rand::RngExt as _;

use super::history::*;
use crate::server_kit::{Client, Heard};

/// Of each server.
const WRITERS: usize = 2;
/// Edges that a writer changes in turn: each changes several times a second, so that an old answer shows.
const EDGES: usize = 4;
const RECENT: usize = 64;
const PAUSE: Duration = Duration::from_millis(15);
/// Users of a run are numbered from here; each run has numbers of its own.
const RUN: u64 = 10_000_000;
/// Whom the writers of hot edges follow, in each run.
const HOT: u64 = 1;

pub(super) const fn hot(run: u64) -> u64 {
    run * RUN + HOT
}

pub(super) const fn is_hot(edge: Edge) -> bool {
    edge.target % RUN == HOT
}

/// Users that no writer names.
pub(super) const fn bystander(run: u64, number: u64) -> u64 {
    run * RUN + 100 + number
}

/// An ack that somebody may read with its token.
#[derive(Clone)]
struct Ack {
    place: usize,
    server: usize,
    edge: Edge,
    token: String,
}

struct Shared {
    began: Instant,
    bases: Vec<String>,
    run: u64,
    history: Mutex<History>,
    recent: Mutex<VecDeque<Ack>>,
    /// When each writer began its last acked write.
    last_acked: Mutex<Vec<Option<Duration>>>,
    next_user: AtomicU64,
    stop: AtomicBool,
}

pub(super) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(super) fn start(bases: &[String], run: u64) -> Self {
        let writers = bases.len() * (WRITERS + 1);
        let shared = Arc::new(Shared {
            began: Instant::now(),
            bases: bases.to_vec(),
            run,
            history: Mutex::default(),
            recent: Mutex::default(),
            last_acked: Mutex::new(vec![None; writers]),
            next_user: AtomicU64::new(run * RUN + 1_000),
            stop: AtomicBool::new(false),
        });
        let mut threads = Vec::new();
        let mut spawn = |run: Box<dyn FnOnce(Arc<Shared>) + Send>| {
            let shared = Arc::clone(&shared);
            threads.push(std::thread::spawn(move || run(shared)));
        };
        for writer in 0..writers {
            spawn(Box::new(move |shared| write(&shared, writer)));
        }
        for server in 0..bases.len() {
            spawn(Box::new(move |shared| read(&shared, server, true)));
            spawn(Box::new(move |shared| read(&shared, server, false)));
        }
        Self { shared, threads }
    }

    pub(super) fn now(&self) -> Duration {
        self.shared.began.elapsed()
    }

    pub(super) fn began(&self) -> Instant {
        self.shared.began
    }

    /// Whether every writer has an acked write that it began after this moment.
    pub(super) fn all_acked_since(&self, since: Duration) -> bool {
        self.shared.last_acked.lock().unwrap().iter().all(|acked| acked.is_some_and(|acked| acked >= since))
    }

    /// How many writes were acked, of those that one server was asked for.
    pub(super) fn acked_by(&self, server: usize) -> usize {
        let history = self.shared.history.lock().unwrap();
        history.writes.iter().filter(|write| write.server == server && write.is_acked()).count()
    }

    pub(super) fn stop(mut self) -> History {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in std::mem::take(&mut self.threads) {
            thread.join().expect("a caller ends");
        }
        std::mem::take(&mut *self.shared.history.lock().unwrap())
    }
}

/// A run that fails leaves no callers behind.
impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
    }
}

/// Changes an edge until that is acked. Then nobody knows when the attempts before it take effect, if ever, so an edge
/// that needed more than one is not changed again: all of them wanted the same.
fn write(shared: &Shared, writer: usize) {
    let (server, is_hot) = (writer % shared.bases.len(), writer >= shared.bases.len() * WRITERS);
    let client = Client::new(&shared.bases[server]);
    let own = shared.next_user.fetch_add(1, Ordering::SeqCst);
    let fresh = || {
        let other = shared.next_user.fetch_add(1, Ordering::SeqCst);
        let edge = Edge { follower: own, target: other };
        (if is_hot { Edge { follower: other, target: hot(shared.run) } } else { edge }, false)
    };
    let mut edges: Vec<(Edge, bool)> = (0..EDGES).map(|_| fresh()).collect();
    for turn in (0..EDGES).cycle() {
        let (edge, follows) = (edges[turn].0, !edges[turn].1);
        let mut attempts = 0;
        loop {
            if shared.stop.load(Ordering::SeqCst) {
                return;
            }
            attempts += 1;
            let is_acked = write_once(shared, &client, writer, server, edge, follows);
            std::thread::sleep(PAUSE);
            if is_acked {
                break;
            }
        }
        edges[turn] = if attempts == 1 { (edge, follows) } else { fresh() };
    }
}

fn write_once(shared: &Shared, client: &Client, writer: usize, server: usize, edge: Edge, follows: bool) -> bool {
    let invoked = shared.began.elapsed();
    // In the history before it is sent: a reader may see it before it is answered.
    let place = {
        let ending = Ending::Unanswered;
        let write = Write { server, edge, follows, invoked, completed: Duration::MAX, ending };
        let mut history = shared.history.lock().unwrap();
        history.writes.push(write);
        history.writes.len() - 1
    };
    let path = format!("/api/v1/users/{}/following/{}", edge.follower, edge.target);
    let heard = client.ask(if follows { "PUT" } else { "DELETE" }, &path, "");
    let completed = shared.began.elapsed();
    let ending = ending(heard, |heard| heard.header("entourage-token").to_owned());
    let token = if let Ending::Done(token) = &ending { Some(token.clone()) } else { None };
    {
        let mut history = shared.history.lock().unwrap();
        let write = &mut history.writes[place];
        (write.completed, write.ending) = (completed, ending);
    }
    let Some(token) = token else { return false };
    let mut recent = shared.recent.lock().unwrap();
    recent.push_back(Ack { place, server, edge, token });
    if recent.len() > RECENT {
        recent.pop_front();
    }
    drop(recent);
    shared.last_acked.lock().unwrap()[writer] = Some(invoked);
    true
}

fn read(shared: &Shared, server: usize, with_token: bool) {
    let client = Client::new(&shared.bases[server]);
    let mut random = rand::rng();
    while !shared.stop.load(Ordering::SeqCst) {
        std::thread::sleep(PAUSE);
        let recent = shared.recent.lock().unwrap();
        let ack = if with_token {
            recent.iter().rev().find(|ack| ack.server != server).cloned()
        } else {
            (!recent.is_empty()).then(|| recent[random.random_range(0..recent.len())].clone())
        };
        drop(recent);
        let Some(ack) = ack else { continue };
        let token_of = with_token.then_some((ack.place, ack.token.as_str()));
        let read = read_once(shared.began, &client, server, ack.edge, token_of);
        shared.history.lock().unwrap().reads.push(read);
    }
}

/// One check, with the token of a write or without one.
pub(super) fn read_once(
    began: Instant,
    client: &Client,
    server: usize,
    edge: Edge,
    token_of: Option<(usize, &str)>,
) -> Read {
    let invoked = began.elapsed();
    let headers: Vec<(&str, &str)> = token_of.iter().map(|(_, token)| ("entourage-token", *token)).collect();
    let path = format!("/api/v1/users/{}/is-following/{}", edge.follower, edge.target);
    let heard = client.ask_with(&headers, "GET", &path, "");
    let completed = began.elapsed();
    let ending = ending(heard, |heard| Check {
        follows: heard.body["following"] == true,
        age: Some(heard.header("entourage-age")).filter(|age| !age.is_empty()).map(|age| age.parse().unwrap()),
    });
    Read { server, edge, token_of: token_of.map(|(place, _)| place), invoked, completed, ending }
}

fn ending<T>(heard: Option<Heard>, done: impl FnOnce(&Heard) -> T) -> Ending<T> {
    let Some(heard) = heard else { return Ending::Unanswered };
    match (heard.status, heard.code()) {
        (200 | 201, _) => Ending::Done(done(&heard)),
        (503, code @ ("unavailable" | "stale" | "overloaded")) => Ending::Refused(code.to_owned()),
        (status, code) => Ending::Unexpected(format!("{status} {code} {}", heard.body["detail"])),
    }
}
