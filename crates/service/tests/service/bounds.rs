//! Bounded work: what a distance says when its bounds are reached.

use std::sync::Arc;

use entourage_memory as memory;
use entourage_model::{Key, Operation, Overwrite, Secret, UserId, UserPatch, Write};
use entourage_service::{Call, DISTANCE_EDGES_MAX, DISTANCE_ENDS_MAX, Distance, Limits, Rules, Service};
use entourage_store::{Identity, Store, SystemClock};

struct World {
    store: Arc<dyn Store>,
    service: Service,
}

impl World {
    /// Users 0 to `people`.
    async fn new(people: i64) -> Self {
        let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
        let store: Arc<dyn Store> = Arc::new(memory::Store::new(identity, Arc::new(SystemClock)));
        let rules = Rules { following_max: None, limits: Limits::NONE, ..Rules::default() };
        let world = Self { service: Service::new(Arc::clone(&store), rules), store };
        let put = |number| {
            let (patch, overwrite) = (UserPatch::default(), Overwrite::Keep);
            Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite }
        };
        world.commit((0..people).map(put)).await;
        world
    }

    async fn commit(&self, operations: impl Iterator<Item = Operation>) {
        for result in self.store.commit_all(operations.map(Write::from).collect()).await {
            result.unwrap();
        }
    }

    async fn follow(&self, pairs: impl Iterator<Item = (i64, i64)>) {
        let follow =
            |(a, b)| Operation::Follow { follower: Key(a), target: Key(b), quiet: Some(false), cap: None, park: false };
        self.commit(pairs.map(follow)).await;
    }

    async fn distance(&self, from: i64, to: i64) -> Distance {
        self.service.graph.distance(&Call::default(), &UserId::from(from), &UserId::from(to)).await.unwrap()
    }
}

#[tokio::test]
async fn long_lists_at_both_ends_leave_two_steps_unknown_and_one_is_enough() {
    let people = 2 * DISTANCE_ENDS_MAX as i64 + 2_004;
    let (from, to, bridge) = (people - 1, people - 2, people - 3);
    let world = World::new(people).await;
    // The bridge is the oldest row of both lists: past the bound of each.
    world.follow([(from, bridge), (bridge, to)].into_iter()).await;
    let first = 0..DISTANCE_ENDS_MAX as i64 + 1_000;
    let last = first.end..people - 3;
    world.follow(first.clone().map(|other| (from, other))).await;
    assert_eq!(world.distance(from, to).await, Distance::Steps(2), "a list that is cut is made up for by the other");
    world.follow(last.map(|other| (other, to))).await;
    assert_eq!(world.distance(from, to).await, Distance::Unknown);
    assert_eq!(world.distance(from, bridge).await, Distance::Steps(1));
}

#[tokio::test]
async fn an_end_with_nobody_leads_nowhere_however_long_the_other_is() {
    let people = DISTANCE_ENDS_MAX as i64 + 1_003;
    let (crowded, lonely) = (people - 1, people - 2);
    let world = World::new(people).await;
    let crowd = || 0..people - 2;
    world.follow(crowd().map(|other| (crowded, other))).await;
    assert_eq!(world.distance(crowded, lonely).await, Distance::None, "nobody follows the target");
    world.follow(crowd().map(|other| (other, crowded))).await;
    assert_eq!(world.distance(lonely, crowded).await, Distance::None, "the first follows nobody");
}

#[tokio::test]
async fn too_many_edges_between_the_ends_leave_three_steps_unknown() {
    let (middle, crowd, noise) = (120, 1_000, 900);
    let world = World::new(2 + middle + crowd + noise).await;
    let (from, to) = (0, 1);
    let firsts = 2..2 + middle;
    let crowd = firsts.end..firsts.end + crowd;
    let noise = crowd.end..crowd.end + noise;
    world.follow(firsts.clone().map(|first| (from, first))).await;
    world.follow(crowd.clone().map(|last| (last, to))).await;
    // Too many pairs to ask one by one, and few edges to walk along.
    assert!((firsts.end - firsts.start) * (crowd.end - crowd.start) > DISTANCE_EDGES_MAX as i64);
    assert_eq!(world.distance(from, to).await, Distance::None);
    world.follow([(firsts.start, crowd.start)].into_iter()).await;
    assert_eq!(world.distance(from, to).await, Distance::Steps(3));
    for first in firsts.clone() {
        world.follow(noise.clone().map(|other| (first, other))).await;
    }
    assert!((firsts.end - firsts.start) * (noise.end - noise.start) > DISTANCE_EDGES_MAX as i64);
    assert_eq!(world.distance(from, to).await, Distance::Unknown);
}
