//! Blocks remove edges and refuse new ones; mutes do neither.

use entourage_model::{Code, Expiry, Key, Kind, List, Millis, Operation, Plane, RecordId, Reply, Side, Space, State};

use super::{follows::edge_of, operations::*, world::World};
use entourage_store::StoreExt as _;

pub(super) async fn block_removes_follows_both_ways(world: World) {
    let [a, b, c] = world.users().await;
    for (follower, target) in [(a, b), (b, a), (a, c), (c, b)] {
        world.done(follow(follower, target)).await;
    }
    let (value, created, changed) = edge_of(world.done(block(a, b)).await.reply);
    assert!(created && changed && value.state == State::Active);
    assert_eq!(world.edge(Kind::Block, a, b).await, Some(value));
    assert_eq!(world.edge(Kind::Block, b, a).await, None);
    assert!(!world.follows(a, b).await && !world.follows(b, a).await);
    assert!(world.follows(a, c).await && world.follows(c, b).await, "edges with others stay");
    assert_eq!((world.totals(a).await, world.totals(b).await), ((0, 1), (1, 0)));
    assert_eq!(world.shown(List::following(a)).await, [c]);
    assert_eq!(world.shown(List::followers(b)).await, [c]);
}

pub(super) async fn block_removes_requests_both_ways(world: World) {
    let (a, b) = (world.private_user().await, world.private_user().await);
    for blocker_asks in [true, false] {
        world.done(follow(a, b)).await;
        world.done(follow(b, a)).await;
        let (by, target) = if blocker_asks { (a, b) } else { (b, a) };
        world.done(block(by, target)).await;
        for (follower, target) in [(a, b), (b, a)] {
            assert_eq!(world.edge(Kind::Follow, follower, target).await, None);
        }
        for user in [a, b] {
            assert_eq!(world.counts(user).await, entourage_model::Counts::default());
        }
        world.done(unblock(by, target)).await;
    }
}

pub(super) async fn block_refuses_follows_both_ways(world: World) {
    let (a, b) = (world.user().await, world.private_user().await);
    world.done(block(a, b)).await;
    for (follower, target) in [(a, b), (b, a)] {
        world.refused(follow(follower, target), Code::Blocked).await;
        world.refused(follow_quietly(follower, target), Code::Blocked).await;
        assert_eq!(world.edge(Kind::Follow, follower, target).await, None);
    }
    assert_eq!(world.done(unfollow(b, a)).await.reply, Reply::Gone { changed: false }, "unfollowing is no follow");
}

pub(super) async fn block_again_changes_nothing(world: World) {
    let [a, b] = world.users().await;
    let (value, ..) = edge_of(world.done(block(a, b)).await.reply);
    assert_eq!(edge_of(world.done(block(a, b)).await.reply), (value, false, false));
    assert_eq!(world.edge(Kind::Block, a, b).await, Some(value));
}

pub(super) async fn unblock_restores_nothing(world: World) {
    let [a, b] = world.users().await;
    world.done(follow(a, b)).await;
    world.done(follow(b, a)).await;
    world.done(block(a, b)).await;
    assert_eq!(world.done(unblock(b, a)).await.reply, Reply::Gone { changed: false }, "only the blocker can unblock");
    world.refused(follow(b, a), Code::Blocked).await;
    assert_eq!(world.done(unblock(a, b)).await.reply, Reply::Gone { changed: true });
    assert_eq!(world.done(unblock(a, b)).await.reply, Reply::Gone { changed: false });
    assert!(!world.follows(a, b).await && !world.follows(b, a).await);
    assert_eq!((world.totals(a).await, world.totals(b).await), ((0, 0), (0, 0)));
    assert!(edge_of(world.done(follow(b, a)).await.reply).1, "a new follow is a new edge");
}

pub(super) async fn both_may_block(world: World) {
    let [a, b] = world.users().await;
    world.done(block(a, b)).await;
    assert!(edge_of(world.done(block(b, a)).await.reply).1);
    world.done(unblock(a, b)).await;
    world.refused(follow(a, b), Code::Blocked).await;
    world.done(unblock(b, a)).await;
    world.done(follow(a, b)).await;
    assert!(world.follows(a, b).await);
}

pub(super) async fn mute_leaves_follows(world: World) {
    let [a, b] = world.users().await;
    world.done(follow(a, b)).await;
    let (value, created, _) = edge_of(world.done(mute(a, b)).await.reply);
    assert!(created);
    assert_eq!(edge_of(world.done(mute(a, b)).await.reply), (value, false, false));
    assert!(world.follows(a, b).await);
    assert_eq!(world.edge(Kind::Mute, a, b).await, Some(value));
    world.done(follow(b, a)).await;
    assert_eq!(world.done(unmute(a, b)).await.reply, Reply::Gone { changed: true });
    assert_eq!(world.done(unmute(a, b)).await.reply, Reply::Gone { changed: false });
    assert!(world.follows(a, b).await && world.follows(b, a).await);
    assert_eq!(world.totals(a).await, (1, 1));
}

pub(super) async fn from_a_file_they_stand_where_their_time_says(world: World) {
    let [b, c] = world.users().await;
    let private = world.private_user().await;
    let (a, mark) = world.user_at_mark().await;
    let at = Millis::from_since_2000(500_000_000_000);
    let until = Some(Millis::from_since_2000(2_000_000_000_000));
    let request = |follower, target, at| Operation::ImportRequest { follower, target, at };
    let block_at = |actor, target, at| Operation::ImportBlock { actor, target, at };
    let mute_at = |actor, target, at, expires_at| Operation::ImportMute { actor, target, at, expires_at };
    world.done(follow(b, a)).await;
    for (operation, kind, target, state) in [
        (request(a, private, at), Kind::Follow, private, State::Pending),
        (block_at(a, b, at.plus(1)), Kind::Block, b, State::Active),
        (mute_at(a, c, at.plus(2), until), Kind::Mute, c, State::Active),
    ] {
        let outcome = world.done(operation.clone()).await;
        let (value, created, changed) = edge_of(outcome.reply);
        assert!(created && changed && value.state == state, "{operation:?} made {value:?}");
        assert!(value.version == outcome.version && value.position < value.version, "{value:?}");
        assert_eq!(world.edge(kind, a, target).await, Some(value));
        assert_eq!(edge_of(world.done(operation).await.reply), (value, false, false), "what stands stays");
    }
    let position = async |kind, target| world.edge(kind, a, target).await.map(|value| value.position.millis());
    assert_eq!(position(Kind::Follow, private).await, Some(at));
    assert_eq!(position(Kind::Block, b).await, Some(at.plus(1)));
    assert_eq!(position(Kind::Mute, c).await, Some(at.plus(2)));
    let stands = world.edge(Kind::Mute, a, c).await;
    assert_eq!(stands.and_then(|value| value.expires).map(Expiry::time), until);
    world.done(mute_at(a, c, at, None)).await;
    assert_eq!(world.edge(Kind::Mute, a, c).await, stands);
    assert!(!world.follows(b, a).await, "a block is a block");
    assert_eq!((world.counts(a).await.requested, world.counts(private).await.requests), (1, 1));
    let names = world.event_names(mark, &[a, b, c, private]).await;
    let expected = ["follow.created", "follow.requested", "block.created", "follow.removed", "mute.created"];
    assert_eq!(names, expected);

    for operation in [request(a, b, at), request(b, a, at)] {
        world.refused(operation, Code::Blocked).await;
    }
    // Nobody would answer a request to a public account; an existing follow stays.
    world.refused(request(b, c, at), Code::InvalidRequest).await;
    world.done(follow(b, c)).await;
    assert!(!edge_of(world.done(request(b, c, at)).await.reply).2);
    world.refused(request(c, c, at), Code::SelfFollow).await;
    world.refused(block_at(c, c, at), Code::SelfBlock).await;
    world.refused(mute_at(c, c, at, None), Code::InvalidRequest).await;
    world.refused(block_at(c, world.stranger(), at), Code::UserNotFound).await;
    world.refused(mute_at(world.stranger(), c, at, None), Code::ActorNotFound).await;
    // Nothing is newer than the commit that brings it.
    let ahead = Millis::from_since_2000(2_100_000_000_000);
    let outcome = world.done(import(a, c, ahead)).await;
    assert_eq!(edge_of(outcome.reply).0.position, outcome.version);
}

pub(super) async fn refusals(world: World) {
    let (a, unknown) = (world.user().await, world.stranger());
    let cases = [
        (block(a, a), Code::SelfBlock),
        (mute(a, a), Code::InvalidRequest),
        (block(a, unknown), Code::UserNotFound),
        (mute(a, unknown), Code::UserNotFound),
        (block(unknown, a), Code::ActorNotFound),
        (mute(unknown, a), Code::ActorNotFound),
        (unblock(unknown, a), Code::ActorNotFound),
        (unmute(unknown, a), Code::ActorNotFound),
    ];
    for (operation, code) in cases {
        world.refused(operation, code).await;
    }
}

pub(super) async fn blocks_and_mutes_are_listed(world: World) {
    let users = world.many_users(4).await;
    let a = users[0];
    for (plane, mark) in [(Plane::Block, block as fn(_, _) -> _), (Plane::Mute, mute)] {
        for &target in &users[1..] {
            world.done(mark(a, target)).await;
        }
        let own = List::new(a, plane, Side::Following);
        assert_eq!(world.shown(own).await, [users[3], users[2], users[1]]);
        assert_eq!(world.shown(List::new(users[1], plane, Side::Followers)).await, [a]);
    }
    assert_eq!(world.counts(a).await, entourage_model::Counts::default(), "neither is a follow");
}

/// Created, changed and removed with the mute.
pub(super) async fn the_record_of_a_mutes_end_goes_with_it(world: World) {
    let [a, b, c] = [world.user().await, world.user().await, world.user().await];
    let time = |seconds: u64| Millis::from_since_2000(seconds * 1000);
    let ends = async |world: &World, actor: Key, target: Key| {
        let (mut found, mut after) = (Vec::new(), Box::from(RecordId::MUTE_ENDS));
        loop {
            let page = world.store.scan_records(Space::Job, world.server(actor), Some(&after), 100).await;
            let page = page.expect("records can be read");
            let Some(last) = page.last() else { return found };
            after = last.id.as_bytes().into();
            let ends = page.iter().filter_map(|record| record.id.mute_end());
            found.extend(ends.filter(|end| (end.1, end.2) == (actor, target)).map(|end| end.0.time()));
        }
    };
    for seconds in 900_000_001..900_000_020 {
        world.done(mute_until(a, b, time(seconds))).await;
        assert_eq!(ends(&world, a, b).await, [time(seconds)], "muting again leaves nothing of before");
    }
    world.done(mute(a, b)).await;
    assert_eq!(ends(&world, a, b).await, []);
    let at = time(800_000_000);
    for (actor, target) in [(a, c), (c, a), (b, a)] {
        world.done(Operation::ImportMute { actor, target, at, expires_at: Some(time(900_000_001)) }).await;
        assert_eq!(ends(&world, actor, target).await, [time(900_000_001)]);
    }
    world.done(Operation::ExpireMute { actor: b, target: a, now: time(900_000_000) }).await;
    assert_eq!(ends(&world, b, a).await.len(), 1, "it is not over");
    world.done(Operation::ExpireMute { actor: b, target: a, now: time(900_000_001) }).await;
    assert_eq!(ends(&world, b, a).await, []);
    world.done(mute_until(b, c, time(900_000_002))).await;
    world.done(unmute(b, c)).await;
    assert_eq!(ends(&world, b, c).await, []);
    world.done(Operation::Erase { key: a, created: None }).await;
    while let Reply::EdgesErased { left: true, .. } = world.done(Operation::EraseEdges { key: a, limit: 2 }).await.reply
    {
    }
    assert_eq!((ends(&world, a, c).await, ends(&world, c, a).await), (vec![], vec![]), "nothing of the erased is left");
    for user in [b, c] {
        world.done(Operation::Erase { key: user, created: None }).await;
        world.done(Operation::EraseEdges { key: user, limit: 10 }).await;
    }
}

pub(super) async fn a_mute_may_end_by_itself(world: World) {
    let (a, mark) = world.user_at_mark().await;
    let b = world.user().await;
    let time = |seconds: u64| Millis::from_since_2000(seconds * 1000);
    let first = world.done(mute_until(a, b, time(900_000_001))).await;
    let expires = async |world: &World| world.edge(Kind::Mute, a, b).await.and_then(|value| value.expires);
    assert_eq!(expires(&world).await.map(|expires| expires.time()), Some(time(900_000_001)));
    assert!(!world.done(mute_until(a, b, time(900_000_001))).await.reply.changed());
    let second = world.done(mute_until(a, b, time(5))).await;
    let Reply::Edge { value, created: false, changed: true } = second.reply else { panic!("{:?}", second.reply) };
    assert_eq!((value.position, value.version), (first.version, second.version), "the row stays where it is");
    // It stays until it is removed: readers compare the time.
    assert_eq!(expires(&world).await.map(|expires| expires.time()), Some(time(5)));
    let listed = world.paged(List::new(a, Plane::Mute, Side::Following), 5).await;
    assert_eq!(listed[0].value, value);
    let third = world.done(mute(a, b)).await;
    assert!(third.reply.changed() && expires(&world).await.is_none());
    world.done(unmute(a, b)).await;
    let names = world.event_names(mark, &[a, b]).await;
    assert_eq!(names, ["user.created", "mute.created", "mute.updated", "mute.updated", "mute.removed"]);
}
