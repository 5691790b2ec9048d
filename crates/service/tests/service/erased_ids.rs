//! The id of somebody who was erased: named by events for as long as there are any that need it, and then on no disk.

use std::sync::Arc;

use entourage_embedded::{Options, Store};
use entourage_model::{Clock as _, Code, Key, ManualClock, Millis, Space, UserId, UserPatch};
use entourage_service::{Actor, Call, EventPage, Limit, Limits, Rules, Service, Task};
use entourage_store::{Store as _, StoreExt as _, disk::Disk as _};
use entourage_testkit::crash_disk::CrashDisk;

const ID: &str = "serinus/canaria-4711";
const NAME: &str = "Tweety the Canary";
const HOUR_MILLIS: u64 = 60 * 60 * 1_000;

struct World {
    disk: CrashDisk,
    store: Arc<Store>,
    service: Service,
    clock: Arc<ManualClock>,
}

fn id(text: &str) -> UserId {
    UserId::try_from(text).unwrap()
}

impl World {
    fn open(disk: CrashDisk, clock: Arc<ManualClock>) -> Self {
        let options = Options { segment_bytes: 4 << 10, frame_bytes: 1 << 10, ..Options::tiny() };
        let store = Store::open(Arc::new(disk.clone()), "the test disk", options, Arc::clone(&clock) as _);
        let store = Arc::new(store.unwrap());
        let rules = Rules { limits: Limits::NONE, ..Rules::default() };
        let service = Service::new(Arc::clone(&store) as _, rules).with_clock(Arc::clone(&clock) as _);
        let service = service.with_maintenance(Some(Arc::clone(&store) as _));
        Self { disk, store, service, clock }
    }

    /// Somebody who follows, is followed and writes, and was erased.
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(800_000_000_000)));
        let world = Self::open(CrashDisk::new(), clock);
        let call = Call::default();
        for (person, name) in [(ID, NAME), ("bob", "Bob"), ("cleo", "Cleo")] {
            let patch = UserPatch { name: Some(Some(name.into())), ..UserPatch::default() };
            world.service.graph.put_user(&call, id(person), patch).await.unwrap();
        }
        for (follower, target) in [(ID, "bob"), ("bob", ID), ("bob", "cleo")] {
            world.service.graph.follow(&call, &id(follower), &id(target), false).await.unwrap();
        }
        let by_canary = Call { actor: Actor::User(id(ID)), ..Call::default() };
        world.service.feeds.create_post(&by_canary, r#"{"says": "tweet"}"#).await.unwrap();
        world.service.jobs.erase(&call, &id(ID)).await.unwrap();
        while world.service.jobs.work().await.unwrap() {}
        world.store.checkpoint().await.unwrap();
        world
    }

    async fn events(&self) -> EventPage {
        self.service.events.events(&Call::default(), None, Limit::parse(Some("200")).unwrap()).await.unwrap()
    }

    /// The files that have a text in them.
    fn files_with(&self, text: &str) -> Vec<String> {
        let has = |name: &String| {
            let bytes = self.disk.contents(name).unwrap();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        };
        self.disk.list().unwrap().into_iter().filter(has).collect()
    }

    async fn kept_ids(&self) -> u64 {
        self.store.count_records(Space::Erased, Key::SERVER).await.unwrap()
    }

    /// Bob changes his mind until the log has nothing older than this.
    async fn fill_the_log(&self) {
        let (call, [bob, cleo]) = (Call::default(), ["bob", "cleo"].map(id));
        for _ in 0..100 {
            self.service.graph.unfollow(&call, &bob, &cleo).await.unwrap();
            self.service.graph.follow(&call, &bob, &cleo, false).await.unwrap();
        }
        self.store.checkpoint().await.unwrap();
    }
}

fn canary_events(page: &EventPage) -> usize {
    let canary = id(ID);
    page.rows.iter().filter(|row| [&row.follower, &row.target].into_iter().flatten().any(|id| *id == canary)).count()
}

#[tokio::test]
async fn events_name_the_erased_after_a_restart_and_say_nothing_else() {
    let world = World::new().await;
    let before = world.events().await;
    let World { disk, store, service, clock } = world;
    drop(service);
    drop(store);
    let world = World::open(disk, clock);
    let page = world.events().await;
    assert_eq!(page, before);
    // Created, twice a follow, a post; erased, twice a follow removed, the post deleted.
    assert_eq!(canary_events(&page), 8, "{page:?}");
    let text = format!("{:?}", page.rows);
    assert!(!text.contains(NAME) && !text.contains("tweet"), "{text}");
    assert!(text.contains("Bob"));
}

#[tokio::test]
async fn an_id_goes_when_the_last_event_does_that_needs_it() {
    let world = World::new().await;
    assert_eq!(world.kept_ids().await, 1);
    assert!(world.files_with(ID).iter().any(|name| name.starts_with("documents-")), "{:?}", world.files_with(ID));
    // A day short of log.retention nothing is to go.
    world.clock.advance(6 * 24 * HOUR_MILLIS);
    world.fill_the_log().await;
    assert!(!world.service.jobs.work().await.unwrap());
    world.service.scheduler.run_to_end(&Call::default(), Task::Retention).await.unwrap();
    assert_eq!((world.kept_ids().await, canary_events(&world.events().await)), (1, 8));
    // A segment goes with the newest of its records, and the first one has some of Bob's by now.
    world.clock.advance(7 * 24 * HOUR_MILLIS + 1);
    world.fill_the_log().await;
    assert_eq!(canary_events(&world.events().await), 0);
    world.clock.advance(HOUR_MILLIS);
    let released = world.service.scheduler.run_to_end(&Call::default(), Task::Retention).await.unwrap();
    assert_eq!(released.detail.as_deref(), Some("1 ids of erased users released"));
    assert_eq!(world.kept_ids().await, 0);
    world.store.checkpoint().await.unwrap();
    let left = world.files_with(ID);
    assert!(left.iter().all(|name| name.starts_with("log-")), "{left:?}");
    let report = world.store.verify().await.unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

#[tokio::test]
async fn erasing_now_leaves_no_id_and_readers_without_a_cursor_begin_behind_it() {
    let world = World::new().await;
    let admin = Call { admin: true, ..Call::default() };
    let old = world.events().await.rows[0].cursor.clone();
    world.service.jobs.erase_now(&admin).await.unwrap();
    assert_eq!(world.kept_ids().await, 0);
    for text in [ID, NAME, "tweet"] {
        assert_eq!(world.files_with(text), Vec::<String>::new(), "{text}");
    }
    let page = world.events().await;
    assert!(page.rows.is_empty() && !page.has_more);
    let next = page.next_cursor.unwrap();
    let gone = world.service.events.events(&admin, Some(&old), Limit::DEFAULT).await.unwrap_err();
    assert_eq!((gone.code(), gone.resume()), (Code::EventsExpired, Some(next.as_str())));
    world.service.graph.put_user(&admin, id("dora"), UserPatch::default()).await.unwrap();
    let after = world.service.events.events(&admin, Some(&next), Limit::DEFAULT).await.unwrap();
    assert_eq!((after.rows.len(), after.rows[0].follower.clone()), (1, Some(id("dora"))));
    assert_eq!(world.events().await.rows, after.rows);
}

/// Whose id is a number: that is what stands in other people's records.
#[tokio::test]
async fn erasing_now_leaves_nobody_in_other_peoples_groups_and_no_end_of_a_mute() {
    const NUMBER: i64 = 0x0123_4567_89ab_cdef;
    let clock = Arc::new(ManualClock::new(Millis::from_since_2000(800_000_000_000)));
    let world = World::open(CrashDisk::new(), clock);
    let (call, admin) = (Call::default(), Call { admin: true, ..Call::default() });
    let (somebody, bob) = (UserId::from(NUMBER), id("bob"));
    for person in [somebody.clone(), bob.clone(), id("cleo")] {
        world.service.graph.put_user(&call, person, UserPatch::default()).await.unwrap();
    }
    world.service.graph.follow(&call, &bob, &somebody, false).await.unwrap();
    world.service.graph.follow(&call, &bob, &id("cleo"), false).await.unwrap();
    let group = world.service.graph.create_group(&call, &bob, "friends").await.unwrap().group.id;
    for member in [&somebody, &id("cleo")] {
        world.service.graph.add_member(&call, &bob, group, member).await.unwrap();
    }
    let ends = async || {
        let found = world.store.scan_records(Space::Job, Key::SERVER, Some(b"m"), 100).await.unwrap();
        found.iter().filter(|record| record.id.mute_end().is_some()).count()
    };
    // However often somebody changes their mind.
    for hours in 1..50 {
        for (actor, target) in [(&somebody, &bob), (&bob, &somebody)] {
            let until = world.clock.now().plus(hours * HOUR_MILLIS);
            world.service.graph.mute(&call, actor, target, Some(until)).await.unwrap();
        }
    }
    assert_eq!(ends().await, 2);
    world.service.jobs.erase(&call, &somebody).await.unwrap();
    while world.service.jobs.work().await.unwrap() {}
    assert_eq!(ends().await, 0, "with the mutes went what tells of their end");
    world.store.checkpoint().await.unwrap();
    world.service.jobs.erase_now(&admin).await.unwrap();
    let owner = world.store.sweep_all().await.unwrap().into_iter().find(|user| user.id == bob).unwrap().key;
    assert_eq!(world.store.count_records(Space::GroupMember, owner).await.unwrap(), 1, "the other is still a member");
    for bytes in [NUMBER.to_be_bytes(), (NUMBER ^ i64::MIN).to_be_bytes(), NUMBER.to_le_bytes()] {
        let has = |name: &String| world.disk.contents(name).unwrap().windows(8).any(|window| window == bytes);
        let left: Vec<String> = world.disk.list().unwrap().into_iter().filter(has).collect();
        assert_eq!(left, Vec::<String>::new());
    }
    let report = world.store.verify().await.unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}
