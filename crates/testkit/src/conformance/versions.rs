//! Versions only grow.

use entourage_model::{Kind, Operation, Overwrite, Version};

use super::{operations::*, world::World};

pub(super) async fn versions_strictly_increase(world: World) {
    let [a, b] = world.users().await;
    let mut last = Version::ZERO;
    for _ in 0..20 {
        for operation in [follow(a, b), follow_quietly(a, b), unfollow(a, b), block(b, a), unblock(b, a)] {
            let outcome = world.done(operation).await;
            assert!(outcome.version > last, "{} after {last}", outcome.version);
            last = outcome.version;
        }
    }
    let (key, id) = world.own_id();
    let mut last = Version::ZERO;
    for private in [false, true, false, true] {
        let put = Operation::PutUser { key, id: id.clone(), patch: privacy(private), overwrite: Overwrite::Replace };
        let outcome = world.done(put).await;
        assert!(outcome.version > last);
        last = outcome.version;
    }
}

pub(super) async fn versions_exceed_the_floor(world: World) {
    let [a, b] = world.users().await;
    let now = world.done(follow(a, b)).await.version;
    // Another server's clock may be ahead; its token carries the floor here.
    let floors = [now, Version::new(now.millis().plus(40), 1023, 4095), Version::new(now.millis().plus(60), 7, 4095)];
    for floor in floors {
        for operation in [unfollow(a, b), follow(a, b)] {
            let outcome = world.done(above(operation, floor)).await;
            assert!(outcome.version > floor, "{} is not above {floor}", outcome.version);
        }
        let value = world.edge(Kind::Follow, a, b).await.expect("the edge stands");
        assert!(value.version > floor && value.position > floor);
    }
}

pub(super) async fn a_floor_far_ahead_does_not_reorder_later_writes(world: World) {
    let [a, b] = world.users().await;
    let now = world.done(follow(a, b)).await.version;
    let ahead = Version::new(now.millis().plus(500), 1, 0);
    let high = world.done(above(unfollow(a, b), ahead)).await.version;
    let next = world.done(follow(a, b)).await.version;
    assert!(next > high && high > ahead, "a write is never older than what it replaces");
    assert!(world.follows(a, b).await, "a new follow after an unfollow wins");
}
