//! A fan-out that a stop interrupts goes on at its chunk, with inboxes that outlive the process.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use entourage_memory as memory;
use entourage_model::{Error, Key, Millis, Operation, Overwrite, Result, Secret, UserId, UserPatch, Version, Write};
use entourage_service::{Actor, Call, Entry, Inboxes, Limits, Rules, Service, Slice, Ticket};
use entourage_store::{Identity, Store, SystemClock};
use parking_lot::Mutex;

const FOLLOWERS: i64 = 25_000;
const CHUNKS: usize = 25;
const AUTHOR: i64 = 1_000_000;

/// Everybody's inbox, kept elsewhere. Takes so many deliveries, then none.
#[derive(Default)]
struct Elsewhere {
    inboxes: Mutex<HashMap<Key, HashSet<Version>>>,
    taken: AtomicUsize,
    takes: AtomicUsize,
}

#[async_trait]
impl Inboxes for Elsewhere {
    async fn deliver(&self, _author: Key, posts: &[Version], readers: &[Key]) -> Result<u64> {
        if self.taken.load(Ordering::SeqCst) >= self.takes.load(Ordering::SeqCst) {
            return Err(Error::unavailable("the inboxes are not to be reached"));
        }
        self.taken.fetch_add(1, Ordering::SeqCst);
        let mut inboxes = self.inboxes.lock();
        let mut made = 0;
        for reader in readers {
            let inbox = inboxes.entry(*reader).or_default();
            made += posts.iter().filter(|post| inbox.insert(**post)).count() as u64;
        }
        Ok(made)
    }

    async fn read(&self, _reader: Key, _below: Version, _limit: usize) -> Result<Option<Slice>> {
        Ok(None)
    }

    async fn begin(&self, _reader: Key) -> Result<Ticket> {
        Err(Error::unavailable("nobody reads here"))
    }

    async fn finish(&self, _reader: Key, _ticket: Ticket, _entries: &[Entry], _floor: Version) -> Result<()> {
        Ok(())
    }

    async fn fill(&self, _reader: Key, _followed: (Key, u64), _posts: &[Version]) -> Result<()> {
        Ok(())
    }

    async fn clean(&self, _reader: Key, _generation: u64, _posts: &[Version]) -> Result<()> {
        Ok(())
    }

    async fn clear(&self, _reader: Option<Key>) -> Result<()> {
        Ok(())
    }

    async fn sweep(&self, _now: Millis, _active: Duration) -> Result<()> {
        Ok(())
    }

    fn follows(&self, _reader: Key, _author: Key) {}

    fn seen(&self, _reader: Key, _now: Millis) {}

    fn size(&self) -> (u64, u64) {
        (0, 0)
    }
}

fn service(store: &Arc<dyn Store>, inboxes: &Arc<Elsewhere>) -> Service {
    let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
    Service::new(Arc::clone(store), rules).with_inboxes(Arc::clone(inboxes) as _)
}

async fn people(store: &dyn Store) {
    let put = |number: i64| {
        let (key, id, patch) = (Key(number), UserId::from(number), UserPatch::default());
        Write::from(Operation::PutUser { key, id, patch, overwrite: Overwrite::Keep })
    };
    let follow = |number: i64| {
        let (follower, target) = (Key(number), Key(AUTHOR));
        Write::from(Operation::Follow { follower, target, quiet: Some(false), cap: None, park: false })
    };
    let writes: Vec<Write> = (0..FOLLOWERS).chain([AUTHOR]).map(put).chain((0..FOLLOWERS).map(follow)).collect();
    for chunk in writes.chunks(10_000) {
        for result in store.commit_all(chunk.to_vec()).await {
            result.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_fan_out_goes_on_at_its_chunk_and_everybody_has_the_post_once() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let store: Arc<dyn Store> = Arc::new(memory::Store::new(identity, Arc::new(SystemClock)));
    people(&*store).await;
    let inboxes = Arc::new(Elsewhere::default());
    inboxes.takes.store(13, Ordering::SeqCst);
    let first = service(&store, &inboxes);
    let call = Call { actor: Actor::User(UserId::from(AUTHOR)), ..Call::default() };
    let post = first.feeds.create_post(&call, "{}").await.unwrap().post.id;
    first.feeds.deliver_all().await.unwrap_err();
    // As a kill leaves it: what was in memory is gone.
    drop(first);
    assert_eq!(inboxes.inboxes.lock().len(), 13_000);

    inboxes.takes.store(usize::MAX, Ordering::SeqCst);
    let second = Arc::new(service(&store, &inboxes));
    let background = Arc::clone(&second);
    let background = tokio::spawn(async move { background.run().await });
    let began = Instant::now();
    while inboxes.inboxes.lock().len() < FOLLOWERS as usize {
        assert!(began.elapsed() < Duration::from_secs(20), "it goes on by itself");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    second.end_streams();
    background.await.unwrap();
    assert!(inboxes.inboxes.lock().values().all(|posts| posts.len() == 1 && posts.contains(&post)));
    // The ten chunks that were marked are not delivered again.
    assert_eq!(inboxes.taken.load(Ordering::SeqCst), 13 + CHUNKS - 10);
}
