//! Mistakes that similar graphs have made, each as a test that would find it here. The list is at the end; every store
//! runs all of it.

use std::{collections::BTreeSet, sync::Arc};

use entourage_model::{EventPositions, Key, Millis, Operation, Overwrite, UserId, UserPatch, Write};
use entourage_service::{Call, Limit, Limits, Rules, Service};
use entourage_store::{Maintenance, Store, StoreExt as _};

/// One more than a reconciler once read.
const MANY: i64 = 10_001;
const CHUNK: usize = 1_000;

pub struct World {
    pub service: Arc<Service>,
    pub store: Arc<dyn Store>,
    /// Whether it has counts beside its lists that could be recounted.
    recounts: bool,
}

#[derive(Clone, Copy)]
enum Side {
    Followers,
    Following,
}

fn id(number: i64) -> UserId {
    UserId::from(number)
}

impl World {
    pub fn new(store: Arc<dyn Store>, maintenance: Option<Arc<dyn Maintenance>>) -> Self {
        let rules = Rules { following_max: None, limits: Limits::NONE, audit_interval: None, ..Rules::default() };
        let recounts = maintenance.is_some();
        let service = Arc::new(Service::new(Arc::clone(&store), rules).with_maintenance(maintenance));
        Self { service, store, recounts }
    }

    async fn commit(&self, operations: impl Iterator<Item = Operation>) {
        let writes: Vec<Write> = operations.map(Write::from).collect();
        let tasks = writes.chunks(CHUNK).map(|chunk| {
            let (store, chunk) = (Arc::clone(&self.store), chunk.to_vec());
            tokio::spawn(async move { store.commit_all(chunk).await })
        });
        for task in tasks.collect::<Vec<_>>() {
            for result in task.await.unwrap() {
                result.expect("the write is taken");
            }
        }
    }

    /// Users 0 to `count`.
    async fn people(&self, count: i64) {
        let put = |number| {
            let (patch, overwrite) = (UserPatch::default(), Overwrite::Keep);
            Operation::PutUser { key: Key(number), id: id(number), patch, overwrite }
        };
        self.commit((0..count).map(put)).await;
    }

    async fn follow(&self, follower: i64, target: i64) -> bool {
        let done = self.service.graph.follow(&Call::default(), &id(follower), &id(target), false).await;
        done.expect("the follow is taken").created
    }

    async fn unfollow(&self, follower: i64, target: i64) -> bool {
        let done = self.service.graph.unfollow(&Call::default(), &id(follower), &id(target)).await;
        done.expect("the unfollow is taken").changed
    }

    /// Followers and following, as the profile says.
    async fn counts(&self, user: i64) -> (u64, u64) {
        let counts = self.service.graph.get_user(&Call::default(), &id(user)).await.expect("a profile").counts;
        (counts.followers, counts.following)
    }

    /// Everybody that paging shows, and the total of the first page.
    async fn paged(&self, side: Side, user: i64, limit: usize) -> (Vec<String>, u64) {
        let (call, limit) = (Call::default(), Limit::parse(Some(&limit.to_string())).expect("a limit"));
        let (mut ids, mut total, mut cursor) = (Vec::new(), None, None::<String>);
        loop {
            let cursor_text = cursor.as_deref();
            let page = match side {
                Side::Followers => self.service.graph.followers(&call, &id(user), cursor_text, limit).await,
                Side::Following => self.service.graph.following(&call, &id(user), cursor_text, limit).await,
            };
            let page = page.expect("a page");
            total = total.or(page.total);
            ids.extend(page.rows.iter().map(|row| row.id.as_str().to_owned()));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return (ids, total.expect("a total"));
            }
        }
    }

    async fn events_between(&self, follower: i64, target: i64) -> Vec<&'static str> {
        let mut names = Vec::new();
        let mut after = EventPositions::start(self.store.lineage(), self.store.guarantees().partitions);
        loop {
            let events = self.store.events_since(&mut after, CHUNK).await.expect("events");
            if events.is_empty() {
                return names;
            }
            events.iter().for_each(|(partition, event)| after.advance(*partition, event.sequence));
            let is_between = |event: &&entourage_model::Event| {
                matches!(event.body, entourage_model::EventBody::Edge { follower: a, target: b, .. }
                    if (a, b) == (Key(follower), Key(target)))
            };
            names.extend(events.iter().map(|(_, event)| event).filter(is_between).map(entourage_model::Event::name));
        }
    }

    /// At the end nothing contradicts itself.
    pub async fn is_sound(&self) {
        let report = self.service.upkeep.audit(&Call::default()).await.expect("an audit");
        assert_eq!((report.drifted, report.unsettled), (0, 0), "{report:?}");
        assert!(self.service.upkeep.verify(&Call::default()).await.expect("a whole check").is_clean());
    }
}

pub async fn unfollow_of_an_absent_edge_leaves_the_count(world: &World) {
    world.people(3).await;
    assert!(!world.unfollow(0, 1).await, "nothing was there");
    world.follow(2, 1).await;
    for _ in 0..3 {
        assert!(!world.unfollow(0, 1).await);
    }
    assert_eq!((world.counts(0).await, world.counts(1).await), ((0, 0), (1, 0)));
    assert_eq!(world.events_between(0, 1).await, [""; 0], "what changed nothing is no event");
}

pub async fn unfollows_at_once_take_one_away(world: &World) {
    world.people(3).await;
    world.follow(2, 1).await;
    for _ in 0..10 {
        world.follow(0, 1).await;
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let service = Arc::clone(&world.service);
                tokio::spawn(
                    async move { service.graph.unfollow(&Call::default(), &id(0), &id(1)).await.unwrap().changed },
                )
            })
            .collect();
        let mut changed = 0;
        for task in tasks {
            changed += usize::from(task.await.unwrap());
        }
        assert_eq!((changed, world.counts(1).await), (1, (1, 0)));
    }
}

pub async fn follows_at_once_add_one(world: &World) {
    world.people(2).await;
    for _ in 0..10 {
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let service = Arc::clone(&world.service);
                tokio::spawn(async move {
                    service.graph.follow(&Call::default(), &id(0), &id(1), false).await.unwrap().created
                })
            })
            .collect();
        let mut created = 0;
        for task in tasks {
            created += usize::from(task.await.unwrap());
        }
        assert_eq!((created, world.counts(1).await, world.counts(0).await), (1, (1, 0), (0, 1)));
        world.unfollow(0, 1).await;
    }
}

/// A reconciler that read the first 10,000 followers found the others missing and removed their edges.
pub async fn an_account_with_10_001_followers_is_looked_at_to_its_end(world: &World) {
    world.people(MANY + 1).await;
    let follow = |follower| Operation::Follow {
        follower: Key(follower),
        target: Key(0),
        quiet: Some(false),
        cap: None,
        park: false,
    };
    world.commit((1..=MANY).map(follow)).await;
    let before = world.paged(Side::Followers, 0, 200).await;
    assert_eq!((before.0.len() as i64, before.1 as i64), (MANY, MANY));
    let report = world.service.upkeep.audit(&Call::default()).await.expect("an audit");
    assert_eq!((report.drifted, report.edges), (0, MANY as u64), "{report:?}");
    if world.recounts {
        for user in [None, Some(&id(0))] {
            assert_eq!(world.service.upkeep.recount(&Call::default(), user).await.expect("a recount").corrected, 0);
            let healed = world.service.upkeep.heal(&Call::default(), user).await.expect("a look at edges");
            assert_eq!((healed.healed, healed.unclear), (0, 0));
        }
    }
    assert_eq!(world.paged(Side::Followers, 0, 200).await, before, "somebody was taken away");
    assert_eq!(world.counts(0).await, (MANY as u64, 0));
    for follower in [1, 10_000, MANY] {
        assert_eq!(world.counts(follower).await, (0, 1));
    }
}

/// With the time in the key, two follows were two rows, and an unfollow had to know the time of the follow.
pub async fn a_follow_at_another_time_is_the_same_edge(world: &World) {
    world.people(2).await;
    let import = |seconds: u64| {
        let at = Millis::from_since_2000(seconds * 1_000);
        Operation::Import { follower: Key(0), target: Key(1), at, quiet: false }
    };
    world.commit([import(7), import(9), import(7)].into_iter()).await;
    assert!(!world.follow(0, 1).await, "it is followed already");
    for _ in 0..3 {
        let (ids, total) = world.paged(Side::Followers, 1, 10).await;
        assert_eq!((ids, total), (vec!["0".to_owned()], 1), "one row, whatever the times");
        assert!(world.unfollow(0, 1).await, "nobody says when it began");
        assert_eq!(world.paged(Side::Followers, 1, 10).await, (Vec::new(), 0));
        assert_eq!(world.paged(Side::Following, 0, 10).await, (Vec::new(), 0));
        assert!(world.follow(0, 1).await);
    }
}

/// A cursor of the time alone skips rows of the same time as the last row of a page.
pub async fn equal_times_are_paged_without_a_gap(world: &World) {
    const FOLLOWERS: i64 = 60;
    world.people(FOLLOWERS + 1).await;
    // Twenty at each of three moments.
    let import = |follower: i64| {
        let at = Millis::from_since_2000(1_000 * (follower as u64 % 3));
        Operation::Import { follower: Key(follower), target: Key(0), at, quiet: false }
    };
    world.commit((1..=FOLLOWERS).map(import)).await;
    let everybody: BTreeSet<String> = (1..=FOLLOWERS).map(|follower| follower.to_string()).collect();
    let whole = world.paged(Side::Followers, 0, 200).await.0;
    for limit in [1, 2, 5, 16, 19, 20, 21, 53, 100] {
        let (ids, total) = world.paged(Side::Followers, 0, limit).await;
        assert_eq!(ids, whole, "pages of {limit} have another order");
        assert_eq!((ids.len() as i64, total as i64), (FOLLOWERS, FOLLOWERS), "pages of {limit}");
        assert_eq!(ids.into_iter().collect::<BTreeSet<_>>(), everybody, "pages of {limit}");
    }
}

/// A count that was stored beside the list and drifted: the profile said one number, paging another.
pub async fn the_count_is_the_number_that_paging_shows(world: &World) {
    const PEOPLE: i64 = 12;
    world.people(PEOPLE).await;
    let call = Call::default();
    let private = UserPatch { private: Some(true), ..UserPatch::default() };
    world.service.graph.patch_user(&call, id(3), private).await.unwrap();
    for step in 0..600_i64 {
        let (a, b) = (step * 7 % PEOPLE, step * 5 % 11);
        // A refusal is as good as a success here.
        match step % 9 {
            0..5 => drop(world.service.graph.follow(&call, &id(a), &id(b), step % 4 == 0).await),
            5 => drop(world.service.graph.unfollow(&call, &id(a), &id(b)).await),
            6 => drop(world.service.graph.block(&call, &id(a), &id(b)).await),
            7 => drop(world.service.graph.unblock(&call, &id(a), &id(b)).await),
            _ => drop(world.service.graph.accept(&call, &id(3), &id(a)).await),
        }
    }
    world.service.jobs.erase(&call, &id(5)).await.unwrap();
    while world.service.jobs.work().await.unwrap() {}
    let mut edges = 0;
    for user in (0..PEOPLE).filter(|user| *user != 5) {
        let (followers, following) = world.counts(user).await;
        for (side, count) in [(Side::Followers, followers), (Side::Following, following)] {
            for limit in [1, 7, 200] {
                let (ids, total) = world.paged(side, user, limit).await;
                let different: BTreeSet<&String> = ids.iter().collect();
                assert_eq!((ids.len() as u64, different.len() as u64), (total, total), "pages of {limit} of {user}");
            }
            let total = world.paged(side, user, 200).await.1;
            assert!(count <= total, "without the quiet ones there are not more");
            edges += total;
        }
    }
    assert!(edges > 40, "too little was left to mean anything");
}

/// With store first and publish afterwards, an edge existed without ever having an event.
pub async fn each_change_has_one_event_and_a_repeat_has_none(world: &World) {
    world.people(2).await;
    for _ in 0..3 {
        world.follow(0, 1).await;
    }
    world.unfollow(0, 1).await;
    world.unfollow(0, 1).await;
    world.follow(0, 1).await;
    assert_eq!(world.events_between(0, 1).await, ["follow.created", "follow.removed", "follow.created"]);
}

/// An unblock that restored the edges which the block had removed.
pub async fn unblock_gives_no_edge_back(world: &World) {
    world.people(2).await;
    world.follow(0, 1).await;
    world.follow(1, 0).await;
    world.service.graph.block(&Call::default(), &id(0), &id(1)).await.unwrap();
    world.service.graph.unblock(&Call::default(), &id(0), &id(1)).await.unwrap();
    assert_eq!((world.counts(0).await, world.counts(1).await), ((0, 0), (0, 0)));
    assert!(world.follow(1, 0).await, "it is new");
}

/// Stamps each mistake as a test on the world that a function makes. In brackets are the numbers of docs/invariants.md.
#[macro_export]
macro_rules! mistakes {
    ($world:path) => {
        $crate::mistakes! { $world:
            unfollow_of_an_absent_edge_leaves_the_count [I8 I15 I24];
            unfollows_at_once_take_one_away [I8 I15];
            follows_at_once_add_one [I9 I15];
            an_account_with_10_001_followers_is_looked_at_to_its_end [I7 I9];
            a_follow_at_another_time_is_the_same_edge [I9];
            equal_times_are_paged_without_a_gap [I22];
            the_count_is_the_number_that_paging_shows [I7];
            each_change_has_one_event_and_a_repeat_has_none [I2 I24];
            unblock_gives_no_edge_back [I14];
        }
    };
    ($world:path: $($name:ident [$($number:ident)+];)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let (world, _guard) = $world().await;
                $crate::service::mistakes::$name(&world).await;
                world.is_sound().await;
            }
        )+
    };
}
