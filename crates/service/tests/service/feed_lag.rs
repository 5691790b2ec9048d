//! What others do does not slow a feed down: a large author who posts all the time does not keep a small one's posts
//! waiting, and posts of strangers on their way cost a reader nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use entourage_memory as memory;
use entourage_model::{
    EdgeValue, Key, Kind, List, Operation, Overwrite, Page, Place, Result, Secret, UserId, UserPatch, Write,
};
use entourage_service::{Actor, Because, Call, Limit, Limits, Rules, Service};
use entourage_store::{Answer, Identity, Store, SystemClock};
use entourage_testkit::conformance::hooked::{Hooked, Hooks};

/// As many as an author may have who is pushed.
const FOLLOWERS: i64 = 99_999;
const LARGE: i64 = 1_000_000;
const SMALL: i64 = 1_000_001;
/// Of the small author; the first ones follow the large one, too.
const FRIENDS: i64 = 50;
const CHUNK: usize = 10_000;
const PROMISED: Duration = Duration::from_secs(1);
const STRANGERS: i64 = 30_000;
/// Whom the reader of the second test follows.
const FOLLOWED: i64 = 10;

fn put(id: i64) -> Write {
    let (key, id, patch) = (Key(id), UserId::from(id), UserPatch::default());
    Write::from(Operation::PutUser { key, id, patch, overwrite: Overwrite::Keep })
}

fn follow(follower: i64, target: i64) -> Write {
    let (follower, target) = (Key(follower), Key(target));
    Write::from(Operation::Follow { follower, target, quiet: Some(false), cap: None, park: false })
}

async fn commit(store: &dyn Store, writes: impl Iterator<Item = Write>) {
    let writes: Vec<Write> = writes.collect();
    for chunk in writes.chunks(CHUNK) {
        for result in store.commit_all(chunk.to_vec()).await {
            result.unwrap();
        }
    }
}

/// Posts, and waits until a follower's inbox has it.
async fn lag(service: &Service, author: i64, follower: i64) -> Duration {
    let began = Instant::now();
    let call = Call { actor: Actor::User(UserId::from(author)), ..Call::default() };
    let post = service.feeds.create_post(&call, "{}").await.unwrap().post.id;
    let (call, reader) = (Call::default(), UserId::from(follower));
    let page = service.feeds.feed(&call, &reader, None, Limit::parse(Some("20")).unwrap()).await.unwrap();
    assert!(page.rows.iter().any(|row| row.post.id == post), "a feed has a post from the moment it was acked");
    while service.feeds.explain(&call, &reader, post).await.unwrap().because != Because::Pushed {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_small_author_does_not_wait_behind_a_large_one() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let store: Arc<dyn Store> = Arc::new(memory::Store::new(identity, Arc::new(SystemClock)));
    commit(&*store, (0..FOLLOWERS).chain([LARGE, SMALL]).map(put)).await;
    let large = (0..FOLLOWERS).map(|follower| follow(follower, LARGE));
    commit(&*store, large.chain((0..FRIENDS).map(|follower| follow(follower, SMALL)))).await;
    let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
    let service = Arc::new(Service::new(Arc::clone(&store), rules));
    // Everybody has an inbox.
    let (call, limit) = (Call::default(), Limit::parse(Some("1")).unwrap());
    for reader in 0..FOLLOWERS {
        service.feeds.feed(&call, &UserId::from(reader), None, limit).await.unwrap();
    }
    let background = Arc::clone(&service);
    let background = tokio::spawn(async move { background.run().await });
    let flood = Arc::clone(&service);
    let flood = tokio::spawn(async move {
        let call = Call { actor: Actor::User(UserId::from(LARGE)), ..Call::default() };
        let mut every = tokio::time::interval(Duration::from_millis(100));
        for _ in 0..30 {
            every.tick().await;
            flood.feeds.create_post(&call, "{}").await.unwrap();
        }
    });
    let mut lags = Vec::new();
    while !flood.is_finished() {
        lags.push(lag(&service, SMALL, 7).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    flood.await.unwrap();
    lags.sort_unstable();
    let worst = *lags.last().unwrap();
    println!("a small author's post arrives within {:?} (median), {worst:?} (worst)", lags[lags.len() / 2]);
    assert!(worst < 4 * PROMISED, "{worst:?}");
    let last = lag(&service, LARGE, FOLLOWERS - 1).await;
    println!("a post of the author with {FOLLOWERS} followers arrives everywhere within {last:?}");
    // Every inbox has each of the thirty-one once.
    let limit = Limit::parse(Some("100")).unwrap();
    for reader in (FRIENDS..FOLLOWERS).step_by(997) {
        let page = service.feeds.feed(&call, &UserId::from(reader), None, limit).await.unwrap();
        assert_eq!(page.rows.len(), 31);
        assert!(page.rows.is_sorted_by(|newer, older| newer.post.id > older.post.id));
    }
    service.end_streams();
    background.await.unwrap();
}

/// Counts the edges that are looked at.
#[derive(Default)]
struct Counting(AtomicUsize);

#[async_trait]
impl Hooks for Counting {
    fn peek_all(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.0.fetch_add(pairs.len(), Ordering::SeqCst);
        inner.peek_all(kind, pairs, answers);
    }

    async fn get_edges(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        self.0.fetch_add(pairs.len(), Ordering::SeqCst);
        inner.get_edges(kind, pairs).await
    }

    async fn scan(&self, inner: &dyn Store, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        let page = inner.scan(list, after, limit).await?;
        self.0.fetch_add(page.edges.len(), Ordering::SeqCst);
        Ok(page)
    }
}

#[tokio::test]
async fn posts_of_strangers_on_their_way_cost_a_reader_nothing() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let store = memory::Store::new(identity, Arc::new(SystemClock));
    let store = Arc::new(Hooked::new(Arc::new(store), Counting::default()));
    let reader = STRANGERS;
    commit(&*store, (0..=STRANGERS).map(put)).await;
    commit(&*store, (0..FOLLOWED).map(|author| follow(reader, author))).await;
    let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
    // Nobody delivers: everything stays on its way.
    let service = Service::new(Arc::clone(&store) as _, rules);
    let post = async |author: i64| {
        let call = Call { actor: Actor::User(UserId::from(author)), ..Call::default() };
        service.feeds.create_post(&call, "{}").await.unwrap();
    };
    let looked_at = async |expected: i64| {
        let before = store.hooks.0.load(Ordering::SeqCst);
        let page = service.feeds.feed(&Call::default(), &UserId::from(reader), None, Limit::DEFAULT).await.unwrap();
        assert_eq!(page.rows.len() as i64, expected);
        store.hooks.0.load(Ordering::SeqCst) - before
    };
    // The first read makes the inbox, so that what is posted then is found in the queue alone.
    looked_at(0).await;
    for author in 0..FOLLOWED {
        post(author).await;
    }
    let idle = looked_at(FOLLOWED).await;
    for author in FOLLOWED..STRANGERS {
        post(author).await;
    }
    let busy = looked_at(FOLLOWED).await;
    println!("a read looks at {idle} edges, and at {busy} while {STRANGERS} posts are on their way");
    assert!(busy <= 2 * idle, "{busy} edges instead of {idle}");
}
