//! Everything at once: follows, unfollows, posts, deletions, reads, lost inboxes, fan-out, and requests that are given up
//! half-way. Once it is quiet every feed is what posts and edges say.

use entourage_testkit::service::homes as homes_kit;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_model::{Secret, UserId, UserPatch, Version};
use entourage_service::{Actor, Call, FeedRules, Limit, Limits, Rules, Service};
use entourage_store::{Identity, Store, SystemClock, disk::RealDisk};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const PEOPLE: i64 = 12;
const RUN: Duration = Duration::from_secs(3);

fn id(number: i64) -> UserId {
    UserId::from(number)
}

fn limit(rows: usize) -> Limit {
    Limit::parse(Some(&rows.to_string())).unwrap()
}

async fn act(service: &Service, random: &mut StdRng) {
    let (call, [a, b]) = (Call::default(), [(); 2].map(|()| id(random.random_range(0..PEOPLE))));
    // Refusals are as good as successes here.
    match random.random_range(0..20) {
        0..6 => drop(service.graph.follow(&call, &a, &b, false).await),
        6..10 => drop(service.graph.unfollow(&call, &a, &b).await),
        10..15 => {
            let call = Call { actor: Actor::User(a), ..call };
            drop(service.feeds.create_post(&call, "{}").await);
        }
        15 => {
            let page = service.feeds.posts(&call, &a, None, limit(5)).await.unwrap();
            if let Some(post) = page.rows.last() {
                drop(service.feeds.delete_post(&call, post.id).await);
            }
        }
        16 => drop(service.feeds.clear_feeds(&call, Some(&a)).await),
        _ => drop(service.feeds.feed(&call, &a, None, limit(3)).await),
    }
}

/// Some requests are given up while they are under way, as when a client goes away.
async fn act_all_the_time(service: Arc<Service>, seed: u64) {
    let (mut random, began) = (StdRng::seed_from_u64(seed), Instant::now());
    while began.elapsed() < RUN {
        if random.random_ratio(1, 4) {
            let patience = Duration::from_micros(random.random_range(0..300));
            drop(tokio::time::timeout(patience, act(&service, &mut random)).await);
        } else {
            act(&service, &mut random).await;
        }
        tokio::task::yield_now().await;
    }
}

async fn feed(service: &Service, reader: i64) -> Vec<Version> {
    let (mut posts, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = service.feeds.feed(&Call::default(), &id(reader), cursor.as_deref(), limit(53)).await.unwrap();
        posts.extend(page.rows.iter().map(|row| row.post.id));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return posts,
        }
    }
}

async fn plain_feed(service: &Service, reader: i64) -> Vec<Version> {
    let call = Call::default();
    let followed = service.graph.following(&call, &id(reader), None, limit(200)).await.unwrap().rows;
    let mut posts = Vec::new();
    for author in followed.into_iter().map(|row| row.id).chain([id(reader)]) {
        let mut cursor = None::<String>;
        loop {
            let page = service.feeds.posts(&call, &author, cursor.as_deref(), limit(200)).await.unwrap();
            posts.extend(page.rows.iter().map(|post| post.id));
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
    }
    posts.sort_unstable_by(|one, other| other.cmp(one));
    posts
}

async fn everything_at_once(store: Arc<dyn Store>) {
    let feed_rules = FeedRules { celebrity_followers: 5, inbox_cap: 40, ..FeedRules::default() };
    let rules = Rules { limits: Limits::NONE, audit_interval: None, feed: feed_rules, ..Rules::default() };
    let service = Arc::new(Service::new(store, rules));
    for person in 0..PEOPLE {
        service.graph.put_user(&Call::default(), id(person), UserPatch::default()).await.unwrap();
    }
    let background = Arc::clone(&service);
    let background = tokio::spawn(async move { background.run().await });
    let actors: Vec<_> = (0..6).map(|seed| tokio::spawn(act_all_the_time(Arc::clone(&service), seed))).collect();
    for actor in actors {
        actor.await.unwrap();
    }
    // Commits of requests that were given up come to their end as well.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut compared = 0;
    for reader in 0..PEOPLE {
        let expected = plain_feed(&service, reader).await;
        compared += expected.len();
        assert_eq!(feed(&service, reader).await, expected, "the feed of {reader}");
    }
    assert!(compared > 100, "{compared} posts");
    service.end_streams();
    background.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn feeds_on_memory_come_to_what_posts_and_edges_say() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    everything_at_once(Arc::new(memory::Store::new(identity, Arc::new(SystemClock)))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn feeds_on_homes_that_settle_come_to_what_posts_and_edges_say() {
    everything_at_once(homes_kit::settling()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn feeds_on_an_embedded_store_come_to_what_posts_and_edges_say() {
    let folder = std::env::temp_dir().join(format!("entourage-feed-races-{:016x}", rand::random::<u64>()));
    std::fs::create_dir_all(&folder).unwrap();
    let disk = Arc::new(RealDisk::new(&folder).unwrap());
    let options = embedded::Options { checkpoint_entries: 500, ..embedded::Options::default() };
    let store = Arc::new(embedded::Store::open(disk, "the test's folder", options, Arc::new(SystemClock)).unwrap());
    everything_at_once(Arc::clone(&store) as _).await;
    store.close().await.unwrap();
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}
