//! Live feeds: each post once and in order, also over reconnects; who is too slow reads anew.

use std::{sync::Arc, time::Duration};

use entourage_memory as memory;
use entourage_model::{Code, Secret, UserId, UserPatch, Version};
use entourage_service::{Actor, Call, FeedMessage, FeedStream, Limits, Rules, Service};
use entourage_store::{Identity, Store, SystemClock};
use tokio::task::JoinHandle;

struct World {
    service: Arc<Service>,
    background: JoinHandle<()>,
}

fn id(number: i64) -> UserId {
    UserId::from(number)
}

impl World {
    /// One reads, two and three are followed, four is not.
    async fn new() -> Self {
        let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
        let store: Arc<dyn Store> = Arc::new(memory::Store::new(identity, Arc::new(SystemClock)));
        let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
        let service = Arc::new(Service::new(store, rules));
        let call = Call::default();
        for number in 1..=4 {
            service.graph.put_user(&call, id(number), UserPatch::default()).await.unwrap();
        }
        for target in [2, 3] {
            service.graph.follow(&call, &id(1), &id(target), false).await.unwrap();
        }
        let background = Arc::clone(&service);
        let background = tokio::spawn(async move { background.run().await });
        Self { service, background }
    }

    async fn post(&self, author: i64) -> Version {
        let call = Call { actor: Actor::User(id(author)), ..Call::default() };
        self.service.feeds.create_post(&call, "{}").await.unwrap().post.id
    }

    async fn stream(&self, last: Option<&str>) -> FeedStream {
        self.service.feeds.feed_stream(&Call::default(), &id(1), last).await.unwrap()
    }

    async fn next(&self, stream: &mut FeedStream) -> FeedMessage {
        let told = tokio::time::timeout(Duration::from_secs(10), self.service.feeds.next_feed(stream)).await;
        told.expect("something is told").unwrap().expect("the server runs")
    }

    /// The post that is told next, and where to go on.
    async fn told(&self, stream: &mut FeedStream) -> (Version, String) {
        match self.next(stream).await {
            FeedMessage::Post { cursor, row } => (row.post.id, cursor),
            FeedMessage::Resync { .. } => panic!("nothing was left out"),
        }
    }

    async fn end(self) {
        self.service.end_streams();
        self.background.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn posts_are_told_once_in_order_to_those_whom_they_are_for() {
    let world = World::new().await;
    let mut stream = world.stream(None).await;
    world.post(4).await;
    let mut expected = Vec::new();
    for round in 0..100 {
        expected.push(world.post([1, 2, 3][round % 3]).await);
        world.post(4).await;
    }
    for post in expected {
        assert_eq!(world.told(&mut stream).await.0, post);
    }
    let call = Call::default();
    world.service.graph.mute(&call, &id(1), &id(2), None).await.unwrap();
    world.service.graph.block(&call, &id(3), &id(1)).await.unwrap();
    world.post(2).await;
    world.post(3).await;
    world.service.graph.unmute(&call, &id(1), &id(2)).await.unwrap();
    // Whether the muted post is told depends on when it was looked at; the blocked one never is.
    let last = world.post(1).await;
    let mut told = Vec::new();
    while told.last() != Some(&last) {
        told.push(world.told(&mut stream).await.0);
    }
    assert!(told.len() <= 2 && told.is_sorted());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_where_it_ended() {
    let world = World::new().await;
    let mut stream = world.stream(None).await;
    let first = world.post(2).await;
    let (told, cursor) = world.told(&mut stream).await;
    assert_eq!(told, first);
    drop(stream);
    let missed = [world.post(3).await, world.post(2).await];
    world.post(4).await;
    let mut stream = world.stream(Some(&cursor)).await;
    let live = world.post(2).await;
    let mut cursor = cursor;
    for post in missed.into_iter().chain([live]) {
        let (told, next) = world.told(&mut stream).await;
        assert_eq!(told, post);
        cursor = next;
    }
    drop(stream);
    // Nothing since: nothing is told again.
    let mut stream = world.stream(Some(&cursor)).await;
    let waited = tokio::time::timeout(Duration::from_millis(300), world.service.feeds.next_feed(&mut stream)).await;
    assert!(waited.is_err(), "{waited:?}");
    let error = world.service.feeds.feed_stream(&Call::default(), &id(1), Some("nonsense")).await.err().unwrap();
    assert_eq!(error.code(), Code::InvalidCursor);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_late_reads_anew_and_goes_on_from_there() {
    let world = World::new().await;
    let mut stream = world.stream(None).await;
    world.post(2).await;
    let (_, cursor) = world.told(&mut stream).await;
    drop(stream);
    // Each post is two changes.
    for _ in 0..5_001 {
        world.post(4).await;
    }
    let mut stream = world.stream(Some(&cursor)).await;
    let FeedMessage::Resync { cursor } = world.next(&mut stream).await else { panic!("told to read anew") };
    drop(stream);
    let missed = world.post(3).await;
    let mut stream = world.stream(Some(&cursor)).await;
    assert_eq!(world.told(&mut stream).await.0, missed);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_too_slowly_reads_anew() {
    let world = World::new().await;
    let mut stream = world.stream(None).await;
    for _ in 0..1_000 {
        world.post(2).await;
    }
    // Another stream has heard the last one, so this one was offered everything.
    let mut other = world.stream(None).await;
    let last = world.post(2).await;
    while world.told(&mut other).await.0 != last {}
    let mut resyncs = 0;
    loop {
        match world.next(&mut stream).await {
            FeedMessage::Resync { .. } => resyncs += 1,
            FeedMessage::Post { row, .. } if row.post.id == last => break,
            FeedMessage::Post { .. } => {}
        }
        let live = world.post(3).await;
        if resyncs > 0 {
            // From then on it is told everything again.
            while world.told(&mut stream).await.0 != live {}
            break;
        }
    }
    assert_eq!(resyncs, 1);
    assert_eq!(world.service.feeds.feed_status(&Call::default()).unwrap().streams, 2);
    drop((stream, other));
    assert_eq!(world.service.feeds.feed_status(&Call::default()).unwrap().streams, 0);
    world.end().await;
}
