//! Notifications: random runs against a plain reference, churn, bounds, and how far they were seen.

use entourage_testkit::service::{homes as homes_kit, notifications as notification_kit};

use std::sync::Arc;

use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_model::{Code, Key, ManualClock, Operation, Overwrite, Secret, UserId, UserPatch, Write};
use entourage_service::{Actor, Call, GROUP_ROWS_MAX, Limit, NotificationKind, NotificationMessage, Service};
use entourage_store::{Identity, Store, disk::RealDisk};

use self::notification_kit::{Twist, clock, pages, run, service};

fn on_memory(clock: &Arc<ManualClock>) -> Arc<dyn Store> {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    Arc::new(memory::Store::new(identity, Arc::clone(clock) as _))
}

/// The seeds to run: always the same ones and one drawn anew, or the one that is asked for.
fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("ENTOURAGE_SEED") {
        Ok(text) => vec![text.parse().expect("ENTOURAGE_SEED is a number")],
        Err(_) => (0..count).chain([rand::random()]).collect(),
    }
}

#[tokio::test]
async fn runs_on_memory_agree_with_the_reference() {
    for seed in seeds(8) {
        let clock = clock();
        run(on_memory(&clock), clock, seed, 400, None).await.unwrap();
    }
}

#[tokio::test]
async fn runs_on_homes_that_settle_agree_with_the_reference() {
    for seed in seeds(6) {
        let clock = clock();
        run(homes_kit::settled(Arc::clone(&clock) as _), clock, seed, 300, None).await.unwrap();
    }
}

#[tokio::test]
async fn a_rule_left_out_is_noticed() {
    for twist in [Twist::QuietIsTold, Twist::MutesNeverEnd, Twist::ChurnIsNew, Twist::AcceptedAreFollowers] {
        let clock = clock();
        let failure = run(on_memory(&clock), clock, 1, 2_000, Some(twist)).await.expect_err("a run notices");
        assert!(failure.contains("seed 1 step"), "{twist:?}: {failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_on_an_embedded_store_agree_with_the_reference() {
    let folder = std::env::temp_dir().join(format!("entourage-notifications-{:016x}", rand::random::<u64>()));
    for seed in seeds(2) {
        let (clock, place) = (clock(), folder.join(seed.to_string()));
        std::fs::create_dir_all(&place).unwrap();
        let disk = Arc::new(RealDisk::new(&place).unwrap());
        let options = embedded::Options { checkpoint_entries: 100, ..embedded::Options::default() };
        let store = embedded::Store::open(disk, "the test's folder", options, Arc::clone(&clock) as _).unwrap();
        run(Arc::new(store), clock, seed, 250, None).await.unwrap();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

struct World {
    store: Arc<dyn Store>,
    service: Arc<Service>,
    clock: Arc<ManualClock>,
}

fn id(number: i64) -> UserId {
    UserId::from(number)
}

impl World {
    /// Users 0 to `people`; the last one is private.
    async fn new(people: i64) -> Self {
        let clock = clock();
        let store = on_memory(&clock);
        let service = Arc::new(service(&store, &clock));
        let world = Self { store, service, clock };
        let put = |number| {
            let patch = UserPatch { private: Some(number == people - 1), ..UserPatch::default() };
            Operation::PutUser { key: Key(number), id: id(number), patch, overwrite: Overwrite::Keep }
        };
        world.commit((0..people).map(put)).await;
        world
    }

    async fn commit(&self, operations: impl Iterator<Item = Operation>) {
        for result in self.store.commit_all(operations.map(Write::from).collect()).await {
            result.unwrap();
        }
    }

    async fn follow(&self, follower: i64, target: i64) {
        self.clock.advance(1);
        self.service.graph.follow(&Call::default(), &id(follower), &id(target), false).await.unwrap();
    }

    async fn unfollow(&self, follower: i64, target: i64) {
        self.clock.advance(1);
        self.service.graph.unfollow(&Call::default(), &id(follower), &id(target)).await.unwrap();
    }

    async fn see(&self, user: i64, up_to: Option<&str>) -> u64 {
        self.service.notifications.see_notifications(&Call::default(), &id(user), up_to).await.unwrap();
        self.unseen(user).await
    }

    async fn unseen(&self, user: i64) -> u64 {
        pages(&self.service, &id(user), 50).await.1
    }
}

#[tokio::test]
async fn a_pair_is_new_once_a_day_whatever_the_churn() {
    let world = World::new(3).await;
    world.follow(1, 0).await;
    assert_eq!((world.unseen(0).await, world.see(0, None).await), (1, 0));
    for _ in 0..3 {
        world.unfollow(1, 0).await;
        assert_eq!(pages(&world.service, &id(0), 50).await, (vec![], 0));
        world.follow(1, 0).await;
        assert_eq!((pages(&world.service, &id(0), 50).await.0.len(), world.unseen(0).await), (1, 0));
    }
    // The next day it may be.
    world.unfollow(1, 0).await;
    world.clock.advance(24 * 3_600_000);
    world.follow(1, 0).await;
    assert_eq!(world.unseen(0).await, 1);
    // So may a request of the last one, who is private, and only once.
    for round in 0..3 {
        world.follow(1, 2).await;
        assert_eq!(world.unseen(2).await, u64::from(round == 0));
        world.see(2, None).await;
        world.unfollow(1, 2).await;
    }
}

#[tokio::test]
async fn marks_only_grow_and_never_reach_into_what_is_to_come() {
    let world = World::new(4).await;
    world.follow(1, 0).await;
    let (first, _) = pages(&world.service, &id(0), 50).await;
    world.clock.advance(24 * 3_600_000);
    world.follow(2, 0).await;
    assert_eq!(world.unseen(0).await, 2);
    assert_eq!(world.see(0, Some(&first[0].1)).await, 1);
    assert_eq!(world.see(0, None).await, 0);
    assert_eq!(world.see(0, Some(&first[0].1)).await, 0, "nothing becomes unseen again");
    world.see(0, Some("9223372036854775807.follow")).await;
    world.follow(3, 0).await;
    assert_eq!(world.unseen(0).await, 1, "what came later was not seen");
    for text in ["", "follow", "1.", "1.poke", "x.follow", "-1.follow", "+1.follow", "9223372036854775808.follow"] {
        let error =
            world.service.notifications.see_notifications(&Call::default(), &id(0), Some(text)).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidRequest, "{text:?}");
    }
    let other = Call { actor: Actor::User(id(1)), admin: false, ..Call::default() };
    for error in [
        world.service.notifications.notifications(&other, &id(0), None, Limit::DEFAULT).await.unwrap_err(),
        world.service.notifications.see_notifications(&other, &id(0), None).await.unwrap_err(),
        world.service.notifications.notification_stream(&other, &id(0), None).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), Code::Forbidden);
    }
}

#[tokio::test]
async fn concurrent_marks_lose_nothing() {
    let world = World::new(3).await;
    world.follow(1, 0).await;
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let service = Arc::clone(&world.service);
            tokio::spawn(async move {
                service.notifications.see_notifications(&Call::default(), &id(0), None).await.unwrap().changed
            })
        })
        .collect();
    let mut changed = 0;
    for task in tasks {
        changed += u32::from(task.await.unwrap());
    }
    assert_eq!((changed, world.unseen(0).await), (1, 0));
}

#[tokio::test]
async fn a_day_of_more_than_is_counted_says_so_and_hides_no_other_day() {
    let fans = GROUP_ROWS_MAX as i64 + 300;
    let world = World::new(fans + 2).await;
    world.follow(fans, 0).await;
    world.clock.advance(24 * 3_600_000);
    let follow = |follower| Operation::Follow {
        follower: Key(follower),
        target: Key(0),
        quiet: Some(false),
        cap: None,
        park: false,
    };
    world.commit((1..fans).map(follow)).await;
    let page = world.service.notifications.notifications(&Call::default(), &id(0), None, Limit::DEFAULT).await.unwrap();
    let said: Vec<_> = page.rows.iter().map(|row| (row.count_is_exact, row.actors.len(), row.seen)).collect();
    assert_eq!((said, page.unseen), (vec![(false, 3, false), (true, 1, false)], 2));
    assert!(page.rows[0].count >= GROUP_ROWS_MAX as u64 && page.rows[0].count < fans as u64, "{}", page.rows[0].count);
    assert_eq!(page.rows[0].actors[0].id, id(fans - 1));
    world.clock.advance(3 * 24 * 3_600_000 + 1_000);
    let page = world.service.notifications.notifications(&Call::default(), &id(0), None, Limit::DEFAULT).await.unwrap();
    assert_eq!((page.rows.len(), page.unseen), (0, 0), "past their retention");
}

/// What a stream says, each within five seconds.
async fn told(world: &World, stream: &mut entourage_service::NotificationStream) -> Option<NotificationMessage> {
    let next = world.service.notifications.next_notification(stream);
    tokio::time::timeout(std::time::Duration::from_secs(5), next).await.expect("something is told").unwrap()
}

#[tokio::test]
async fn a_stream_tells_what_is_new_and_once_for_each_pair_a_day() {
    let world = World::new(6).await;
    let running = Arc::clone(&world.service);
    let running = tokio::spawn(async move { running.run().await });
    let call = Call { actor: Actor::User(id(0)), admin: false, ..Call::default() };
    let mut stream = world.service.notifications.notification_stream(&call, &id(0), None).await.unwrap();
    assert_eq!(told(&world, &mut stream).await, Some(NotificationMessage::Unseen(0)));
    let muted = Operation::Mute { actor: Key(0), target: Key(3), expires_at: None };
    world.commit([muted].into_iter()).await;
    // A quiet one, one that is muted, one that is for somebody else; then one that counts, again and again.
    world.service.graph.follow(&Call::default(), &id(2), &id(0), true).await.unwrap();
    world.follow(3, 0).await;
    world.follow(1, 2).await;
    world.follow(1, 0).await;
    let Some(NotificationMessage::New(first)) = told(&world, &mut stream).await else { panic!("the first follow") };
    assert_eq!((first.kind, first.count, &first.actors[0].id), (NotificationKind::Follow, 1, &id(1)));
    assert_eq!(told(&world, &mut stream).await, Some(NotificationMessage::Unseen(1)));
    world.unfollow(1, 0).await;
    world.follow(1, 0).await;
    world.follow(4, 0).await;
    let Some(NotificationMessage::New(second)) = told(&world, &mut stream).await else { panic!("the next pair") };
    assert_eq!((second.count, &second.actors[0].id), (2, &id(4)));
    assert_eq!(told(&world, &mut stream).await, Some(NotificationMessage::Unseen(1)));
    world.see(0, None).await;
    assert_eq!(told(&world, &mut stream).await, Some(NotificationMessage::Unseen(0)));
    // The other way round: the private one accepts.
    world.follow(0, 5).await;
    world.clock.advance(1);
    world.service.graph.accept(&Call::default(), &id(5), &id(0)).await.unwrap();
    let Some(NotificationMessage::New(accepted)) = told(&world, &mut stream).await else {
        panic!("the request was accepted")
    };
    assert_eq!((accepted.kind, &accepted.actors[0].id), (NotificationKind::RequestAccepted, &id(5)));
    assert_eq!(told(&world, &mut stream).await, Some(NotificationMessage::Unseen(1)));
    // A pair that came again meanwhile is no news to whoever connects again, either.
    world.unfollow(4, 0).await;
    world.follow(4, 0).await;
    // Whoever had the second one is told the last one only.
    let last = second.id();
    let mut resumed = world.service.notifications.notification_stream(&call, &id(0), Some(&last)).await.unwrap();
    assert_eq!(told(&world, &mut resumed).await, Some(NotificationMessage::New(accepted)));
    assert_eq!(told(&world, &mut resumed).await, Some(NotificationMessage::Unseen(1)));
    let error = world.service.notifications.notification_stream(&call, &id(0), Some("x")).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidCursor);
    world.service.end_streams();
    assert_eq!(told(&world, &mut stream).await, None);
    assert_eq!(told(&world, &mut resumed).await, None);
    running.await.unwrap();
}

/// Rows that are not told of stand between those that are: however many there are, these are found.
#[tokio::test]
async fn rows_that_are_not_told_of_hide_nobody() {
    let silent = GROUP_ROWS_MAX as i64 + 500;
    let world = World::new(silent + 10).await;
    for fan in [1, 2] {
        world.follow(fan, 0).await;
    }
    assert_eq!(world.unseen(0).await, 1);
    let muted = 3..3 + silent;
    world.commit(muted.clone().map(|fan| Operation::Mute { actor: Key(0), target: Key(fan), expires_at: None })).await;
    let follow = |fan| Operation::Follow { follower: Key(fan), target: Key(0), quiet: None, cap: None, park: false };
    world.clock.advance(1);
    world.commit(muted.map(follow)).await;
    let page = world.service.notifications.notifications(&Call::default(), &id(0), None, Limit::DEFAULT).await.unwrap();
    assert_eq!((page.unseen, page.rows.len()), (1, 1));
    assert_eq!((page.rows[0].count, page.rows[0].count_is_exact), (2, true));
    world.follow(silent + 5, 0).await;
    let page = world.service.notifications.notifications(&Call::default(), &id(0), None, Limit::DEFAULT).await.unwrap();
    assert_eq!((page.rows[0].count, &page.rows[0].actors[0].id), (3, &id(silent + 5)));
}
