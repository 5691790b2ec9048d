//! A store that pauses at every step, and what two layers over it must guarantee meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::conformance::hooked::{Hooked, Hooks};
use async_trait::async_trait;
use entourage_model::{
    EdgeValue, Event, EventPosition, Key, Kind, List, Operation, Outcome, Page, Place, Result, User, Write,
};
use entourage_store::{
    Answer, Progress, Store, StoreExt as _,
    layers::cached::{self, Options},
};

use super::{block, done, follow, over, people, unfollow};

/// Pauses before and after each step, of random length.
#[derive(Default)]
pub struct Slow {
    drawn: AtomicU64,
}

impl Slow {
    pub fn over(store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Hooked::new(store, Self::default()))
    }

    /// Mostly nothing, now and then long enough for everybody else to get ahead.
    async fn pause(&self) {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        match drawn % 16 {
            0 => tokio::time::sleep(Duration::from_millis(1 + drawn / 16 % 6)).await,
            1..=6 => tokio::task::yield_now().await,
            _ => {}
        }
    }
}

#[async_trait]
impl Hooks for Slow {
    fn peek_all(&self, _: &dyn Store, _: Kind, _: &[(Key, Key)], answers: &mut [Answer]) {
        answers.fill(Answer::Unknown);
    }

    fn peek_id(&self, _: &dyn Store, _: Key, _: &[u8]) -> bool {
        false
    }

    async fn get_users(&self, inner: &dyn Store, keys: &[Key]) -> Result<Vec<Option<User>>> {
        self.pause().await;
        let users = inner.get_users(keys).await;
        self.pause().await;
        users
    }

    /// A commit is acked late: its events may come first, and those of later writes.
    async fn commit(&self, inner: &dyn Store, write: Write) -> Result<Outcome> {
        self.pause().await;
        let outcome = inner.commit(write).await;
        self.pause().await;
        outcome
    }

    async fn get_edges(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        self.pause().await;
        let edges = inner.get_edges(kind, pairs).await;
        self.pause().await;
        edges
    }

    async fn scan(&self, inner: &dyn Store, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.pause().await;
        let page = inner.scan(list, after, limit).await;
        self.pause().await;
        page
    }

    async fn events(&self, inner: &dyn Store, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        self.pause().await;
        let events = inner.events(after, limit).await;
        self.pause().await;
        events
    }

    async fn progress(&self, inner: &dyn Store, partition: u16) -> Result<Progress> {
        self.pause().await;
        let progress = inner.progress(partition).await;
        self.pause().await;
        progress
    }
}

const WRITERS: i64 = 6;
const TARGETS: std::ops::RangeInclusive<i64> = 101..=108;

/// Two servers on one slow store. Each writer changes edges of its own, alternating between the two, and sees its own
/// writes at once on the server that took them, and with the token on the other. In the end both agree with the store,
/// mostly from memory.
pub async fn two_servers_on_a_slow_store(store: Arc<dyn Store>, rounds: u64) {
    people(&*store, 1..=WRITERS).await;
    people(&*store, TARGETS).await;
    let options = Options { interval: Duration::from_millis(3), ..Options::default() };
    let slow = Slow::over(Arc::clone(&store));
    let servers = [Arc::new(over(Arc::clone(&slow), options).await), Arc::new(over(slow, options).await)];
    let writers: Vec<_> = (1..=WRITERS)
        .map(|writer| {
            let servers = servers.clone();
            tokio::spawn(async move {
                for round in 0..rounds {
                    write_and_look(&servers, writer, round).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    for server in &servers {
        server.catch_up().await.unwrap();
        agrees(server, &*store).await;
        let figures = server.figures();
        assert!(figures.fills > 6 && figures.hits > rounds, "memory was asked: {figures:?}");
    }
}

async fn write_and_look(servers: &[Arc<cached::Store>; 2], writer: i64, round: u64) {
    let (first, last) = (*TARGETS.start(), *TARGETS.end());
    let target = first + (round as i64 * 5 + writer) % (last - first + 1);
    let (mine, other) = match round % 3 {
        0 => (&servers[1], &servers[0]),
        _ => (&servers[0], &servers[1]),
    };
    let (operation, kind, is_there) = match round % 7 {
        0 | 2 | 5 => (follow(writer, target), Kind::Follow, true),
        1 | 6 => (unfollow(writer, target), Kind::Follow, false),
        3 => (block(writer, target), Kind::Block, true),
        _ => (Operation::Unblock { actor: Key(writer), target: Key(target) }, Kind::Block, false),
    };
    // Unblocked first: a blocked user cannot be followed.
    if kind == Kind::Follow {
        done(&**mine, Operation::Unblock { actor: Key(writer), target: Key(target) }).await;
    }
    let outcome = done(&**mine, operation).await;
    let pair = (Key(writer), Key(target));
    let look = async |server: &cached::Store, who: &str| {
        let wrong = if is_there { Answer::No } else { Answer::Yes };
        assert_ne!(server.peek(kind, pair.0, pair.1), wrong, "{who}: {kind:?} {pair:?} in round {round}");
        let exact = server.get_edges(kind, &[pair]).await.unwrap()[0];
        assert_eq!(exact.is_some(), is_there, "{who}: {kind:?} {pair:?} in round {round}");
        assert_ne!(server.peek(kind, pair.0, pair.1), wrong, "{who}: {kind:?} {pair:?} in round {round}, once read");
        let mut common = Vec::new();
        if kind == Kind::Follow && server.peek_common(pair.0, pair.0, 100, &mut common) {
            assert_eq!(common.contains(&pair.1), is_there, "{who}: {pair:?} in round {round}");
        }
    };
    look(mine, "where it was written").await;
    assert!(other.has_seen(&outcome.watermark).await.unwrap());
    look(other, "with the token").await;
    // Another row is filled while they write.
    let neighbour = (Key(1 + (writer + round as i64) % WRITERS), Key(target));
    other.get_edges(Kind::Follow, &[neighbour]).await.unwrap();
}

/// Whatever memory answers is what the store answers.
pub async fn agrees(server: &cached::Store, store: &dyn Store) {
    for kind in [Kind::Follow, Kind::Block] {
        for writer in (1..=WRITERS).map(Key) {
            for target in TARGETS.map(Key) {
                let exact = store.get_edges(kind, &[(writer, target)]).await.unwrap()[0].is_some();
                let seen = server.peek(kind, writer, target);
                assert!(seen == Answer::Unknown || (seen == Answer::Yes) == exact, "{kind:?} {writer} → {target}");
                assert_eq!(server.get_edges(kind, &[(writer, target)]).await.unwrap()[0].is_some(), exact);
            }
        }
    }
}
