//! Random runs of feeds against the plain feed, on memory and on an embedded store.

use entourage_testkit::service::feed as feed_kit;

use std::{collections::BTreeSet, sync::Arc};

use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_model::{Clock as _, ManualClock, Secret, UserId, UserPatch, Version};
use entourage_service::{Actor, Call, FeedRules, Limits, Rules, Service};
use entourage_store::{Identity, Store, SystemClock, disk::RealDisk};
use entourage_testkit::simulator as sim;

use self::feed_kit::{Act, Asked, FeedFront as _, INBOX_CAP, Twist, run, service::ServiceFront};

fn on_memory() -> Arc<dyn Store> {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    Arc::new(memory::Store::new(identity, Arc::new(SystemClock)))
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    0..if std::env::var_os("ENTOURAGE_SOAK").is_some() { count * 20 } else { count }
}

#[tokio::test]
async fn feeds_on_memory_are_the_plain_feed() {
    for seed in seeds(30) {
        let mut front = ServiceFront::new(on_memory(), false);
        run(&mut front, seed, 400, None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn feeds_are_the_plain_feed_while_fan_out_runs() {
    for seed in seeds(12) {
        let mut front = ServiceFront::new(on_memory(), true);
        run(&mut front, seed, 300, None).await.unwrap();
        front.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn feeds_on_an_embedded_store_are_the_plain_feed() {
    let folder = std::env::temp_dir().join(format!("entourage-feeds-{:016x}", rand::random::<u64>()));
    for seed in seeds(6) {
        let place = folder.join(seed.to_string());
        std::fs::create_dir_all(&place).unwrap();
        let disk = Arc::new(RealDisk::new(&place).unwrap());
        let options = embedded::Options { checkpoint_entries: 100, ..embedded::Options::default() };
        let store = embedded::Store::open(disk, "the test's folder", options, Arc::new(SystemClock)).unwrap();
        let mut front = ServiceFront::new(Arc::new(store), seed % 2 == 0);
        run(&mut front, seed, 250, None).await.unwrap();
        front.stop().await;
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Homes, relays and appliers, and everything that can befall them; every second time fan-out runs beside.
#[tokio::test(flavor = "multi_thread")]
async fn feeds_on_homes_that_settle_are_the_plain_feed() {
    for seed in sim::seeds(60) {
        let store = if seed % 3 == 0 { sim::store(seed) } else { sim::forgetful_store(seed) };
        let mut front = ServiceFront::new(store, seed % 2 == 0);
        run(&mut front, seed, 250, None).await.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        front.stop().await;
    }
}

#[tokio::test]
async fn a_rule_left_out_is_noticed() {
    for twist in [
        Twist::MutesHideNothing,
        Twist::UnfollowsHideNothing,
        Twist::DeletedAreShown,
        Twist::OldestFirst,
        Twist::BelowTheFloorIsLost,
    ] {
        let mut failure = None;
        for seed in 0..6 {
            let mut front = ServiceFront::new(on_memory(), false);
            failure = run(&mut front, seed, 300, Some(twist)).await.err();
            if failure.is_some() {
                break;
            }
        }
        let failure = failure.unwrap_or_else(|| panic!("{twist:?} goes unnoticed"));
        assert!(failure.contains(" must "), "{twist:?}: {failure}");
    }
}

/// A cursor of time alone would skip them, and a page read upwards would begin with the oldest.
#[tokio::test]
async fn posts_of_one_millisecond_are_paged_one_by_one_newest_first() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let clock = Arc::new(ManualClock::new(SystemClock.now()));
    let mut front = ServiceFront::new(Arc::new(memory::Store::new(identity, clock)), false);
    for person in [1, 2] {
        front.act(Act::Put(person), None).await.unwrap();
    }
    front.act(Act::Follow(1, 2), None).await.unwrap();
    let mut posts = Vec::new();
    for number in 0..3 * INBOX_CAP as u32 {
        posts.push(front.act(Act::Post(2, number), None).await.unwrap().unwrap());
    }
    let millis: BTreeSet<_> = posts.iter().map(|post| Version::from_bits(*post).millis()).collect();
    assert_eq!(millis.len(), 1, "all in one millisecond");
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let (rows, next) = front.page(Asked::Feed(1), cursor.as_deref(), 1).await.unwrap();
        seen.extend(rows.iter().map(|row| row.0));
        match next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    posts.reverse();
    assert_eq!(seen, posts);
}

/// Thresholds at -1, 0 and +1 of the setting, and down again through the band.
#[tokio::test]
async fn an_author_is_pulled_from_the_threshold_on_and_pushed_below_nine_tenths_of_it() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let store: Arc<dyn Store> = Arc::new(memory::Store::new(identity, Arc::new(SystemClock)));
    let feed = FeedRules { celebrity_followers: 20, ..FeedRules::default() };
    let rules = Rules { limits: Limits::NONE, audit_interval: None, feed, ..Rules::default() };
    let service = Service::new(store, rules);
    let (call, author) = (Call::default(), UserId::from(1_000));
    service.graph.put_user(&call, author.clone(), UserPatch::default()).await.unwrap();
    let (mut pulls, acting) = (Vec::new(), Call { actor: Actor::User(author.clone()), ..Call::default() });
    for follower in 0..21 {
        service.graph.put_user(&call, UserId::from(follower), UserPatch::default()).await.unwrap();
        service.graph.follow(&call, &UserId::from(follower), &author, false).await.unwrap();
        service.feeds.create_post(&acting, "{}").await.unwrap();
        pulls.push(service.feeds.fanout(&call, &author).await.unwrap().1);
    }
    assert_eq!(pulls, (1..=21).map(|followers| followers >= 20).collect::<Vec<_>>());
    pulls.clear();
    for follower in (0..21).rev() {
        service.graph.unfollow(&call, &UserId::from(follower), &author).await.unwrap();
        service.feeds.create_post(&acting, "{}").await.unwrap();
        pulls.push(service.feeds.fanout(&call, &author).await.unwrap().1);
    }
    assert_eq!(pulls, (0..21).rev().map(|followers| followers >= 18).collect::<Vec<_>>());
}
