//! Following and unfollowing, case by case.

use entourage_model::{Code, EdgeValue, Kind, List, Millis, Operation, Reply, State, Version, Write};

use super::{operations::*, world::World};

/// The edge of a reply, and whether the write made it or changed it.
pub(super) fn edge_of(reply: Reply) -> (EdgeValue, bool, bool) {
    match reply {
        Reply::Edge { value, created, changed } => (value, created, changed),
        other => panic!("an edge was expected, not {other:?}"),
    }
}

pub(super) async fn new_follow_is_active_at_its_version(world: World) {
    let [a, b] = world.users().await;
    let outcome = world.done(follow(a, b)).await;
    let (value, created, changed) = edge_of(outcome.reply);
    let expected = EdgeValue::active(outcome.version);
    assert_eq!((value, created, changed, outcome.replayed), (expected, true, true, false));
    assert_eq!(world.edge(Kind::Follow, a, b).await, Some(value));
    assert_eq!(world.edge(Kind::Follow, b, a).await, None, "an edge has one direction");
    assert_eq!((world.totals(a).await, world.totals(b).await), ((0, 1), (1, 0)));
    assert_eq!(world.shown(List::following(a)).await, [b]);
    assert_eq!(world.shown(List::followers(b)).await, [a]);
}

pub(super) async fn repeated_follow_changes_nothing(world: World) {
    let [a, b, c] = world.users().await;
    let (first, ..) = edge_of(world.done(follow(a, b)).await.reply);
    world.done(follow(a, c)).await;
    for _ in 0..3 {
        assert_eq!(edge_of(world.done(follow(a, b)).await.reply), (first, false, false));
    }
    assert_eq!(world.edge(Kind::Follow, a, b).await, Some(first));
    assert_eq!(world.shown(List::following(a)).await, [c, b]);
    assert_eq!(world.totals(a).await, (0, 2));
}

pub(super) async fn quiet_changes_the_flag_only(world: World) {
    let [a, b, c] = world.users().await;
    let (first, ..) = edge_of(world.done(follow(a, b)).await.reply);
    world.done(follow(a, c)).await;
    for quiet in [true, false, true] {
        let outcome = world
            .done(Operation::Follow { follower: a, target: b, quiet: Some(quiet), cap: Some(0), park: false })
            .await;
        let expected = EdgeValue { quiet, version: outcome.version, ..first };
        assert_eq!(edge_of(outcome.reply), (expected, false, true));
        assert!(outcome.version > first.version);
        assert_eq!(world.edge(Kind::Follow, a, b).await, Some(expected));
        let (counts, quiet) = (world.counts(a).await, u64::from(quiet));
        assert_eq!((counts.following, counts.following_quiet), (2, quiet));
        assert_eq!(world.counts(b).await.followers_quiet, quiet);
        assert_eq!(world.shown(List::following(a)).await, [c, b], "the position stays");
        assert_eq!(world.shown(List::followers(b)).await, [a]);
    }
}

pub(super) async fn refusals(world: World) {
    let [a, b] = world.users().await;
    let unknown = world.stranger();
    let at = Millis::from_since_2000(5);
    let cases = [
        (follow(a, a), Code::SelfFollow),
        (follow(unknown, unknown), Code::SelfFollow),
        (follow(a, unknown), Code::UserNotFound),
        (follow(unknown, a), Code::ActorNotFound),
        (unfollow(unknown, a), Code::ActorNotFound),
        (remove_follower(unknown, a), Code::ActorNotFound),
        (accept(unknown, a), Code::ActorNotFound),
        (reject(unknown, a), Code::ActorNotFound),
        (import(a, a, at), Code::SelfFollow),
        (import(a, unknown, at), Code::UserNotFound),
        (import(unknown, a, at), Code::ActorNotFound),
    ];
    let (_, mark) = world.user_at_mark().await;
    for (operation, code) in cases {
        world.refused(operation, code).await;
    }
    assert_eq!((world.totals(a).await, world.totals(b).await), ((0, 0), (0, 0)));
    assert_eq!(world.event_names(mark, &[a, b, unknown]).await, Vec::<&str>::new());
}

pub(super) async fn cap_below_at_and_above(world: World) {
    let users = world.many_users(5).await;
    let a = users[0];
    for &target in &users[1..3] {
        world.done(follow_within(a, target, 3)).await;
    }
    world.refused(follow_within(a, users[3], 1), Code::FollowingLimit).await;
    world.refused(follow_within(a, users[3], 2), Code::FollowingLimit).await;
    world.done(follow_within(a, users[3], 3)).await;
    world.refused(follow_within(a, users[4], 3), Code::FollowingLimit).await;
    let (_, created, changed) = edge_of(world.done(follow_within(a, users[1], 3)).await.reply);
    assert!(!created && !changed, "a follow that stands is within every cap");
    world.done(unfollow(a, users[1])).await;
    world.done(follow_within(a, users[4], 3)).await;
    world.refused(follow_within(users[4], a, 0), Code::FollowingLimit).await;
    assert_eq!(world.totals(a).await, (0, 3));
}

pub(super) async fn unfollow_present_absent_and_self(world: World) {
    let [a, b] = world.users().await;
    let unknown = world.stranger();
    world.done(follow(a, b)).await;
    let cases = [(b, true), (b, false), (a, false), (unknown, false)];
    for (target, changed) in cases {
        assert_eq!(world.done(unfollow(a, target)).await.reply, Reply::Gone { changed }, "{target}");
        assert_eq!(world.edge(Kind::Follow, a, target).await, None);
        assert_eq!((world.totals(a).await, world.totals(b).await), ((0, 0), (0, 0)));
    }
    assert_eq!(world.shown(List::following(a)).await, []);
    assert_eq!(world.shown(List::followers(b)).await, []);
}

pub(super) async fn following_again_takes_a_new_position(world: World) {
    let [a, b, c] = world.users().await;
    let (first, ..) = edge_of(world.done(follow(a, b)).await.reply);
    world.done(follow(a, c)).await;
    let removal = world.done(unfollow(a, b)).await.version;
    let (again, created, _) = edge_of(world.done(follow(a, b)).await.reply);
    assert!(created && first.version < removal && removal < again.version);
    assert_eq!(again.position, again.version);
    assert_eq!(world.shown(List::following(a)).await, [b, c]);
}

pub(super) async fn removed_follower_is_gone(world: World) {
    let [a, b] = world.users().await;
    world.done(follow(a, b)).await;
    world.done(follow(b, a)).await;
    assert_eq!(world.done(remove_follower(b, a)).await.reply, Reply::Gone { changed: true });
    assert_eq!(world.done(remove_follower(b, a)).await.reply, Reply::Gone { changed: false });
    assert!(!world.follows(a, b).await && world.follows(b, a).await, "the other direction stays");
    assert_eq!((world.totals(a).await, world.totals(b).await), ((1, 0), (0, 1)));
    world.done(follow(a, b)).await;
    assert!(world.follows(a, b).await, "a removed follower may come back");
}

pub(super) async fn going_private_keeps_followers(world: World) {
    let (a, (key, id)) = (world.user().await, world.own_id());
    let put = |private| Operation::PutUser {
        key,
        id: id.clone(),
        patch: privacy(private),
        overwrite: entourage_model::Overwrite::Replace,
    };
    world.done(put(false)).await;
    let (first, ..) = edge_of(world.done(follow(a, key)).await.reply);
    world.done(put(true)).await;
    assert_eq!(edge_of(world.done(follow(a, key)).await.reply), (first, false, false));
    world.refused(follow_quietly(a, key), Code::QuietPrivate).await;
    assert_eq!(world.totals(key).await, (1, 0));
}

pub(super) async fn import_keeps_the_time_of_the_file(world: World) {
    let [a, b, c, d] = world.users().await;
    world.done(follow(a, b)).await;
    let at = Millis::parse_rfc3339("2012-03-04T05:06:07.089Z").expect("a time");
    let outcome = world.done(import(a, c, at)).await;
    let (value, created, changed) = edge_of(outcome.reply);
    assert!(created && changed);
    assert_eq!((value.position.millis(), value.version), (at, outcome.version));
    assert!(outcome.version.millis() > at, "the version is from now");
    let later = Operation::Import { follower: a, target: d, at: at.plus(1), quiet: true };
    assert!(edge_of(world.done(later).await.reply).0.quiet);
    assert_eq!(world.shown(List::following(a)).await, [b, d, c]);
    assert_eq!(world.edge(Kind::Follow, a, c).await, Some(value));
}

pub(super) async fn import_leaves_an_existing_edge(world: World) {
    let (a, b, private) = (world.user().await, world.user().await, world.private_user().await);
    world.done(follow(a, b)).await;
    world.done(follow(a, private)).await;
    for target in [b, private] {
        let before = world.edge(Kind::Follow, a, target).await.expect("the edge stands");
        let again = Operation::Import { follower: a, target, at: Millis::from_since_2000(9), quiet: true };
        assert_eq!(edge_of(world.done(again).await.reply), (before, false, false));
        assert_eq!(world.edge(Kind::Follow, a, target).await, Some(before));
    }
}

pub(super) async fn import_needs_no_request_and_no_cap_but_minds_blocks(world: World) {
    let (a, b, private) = (world.user().await, world.user().await, world.private_user().await);
    let at = Millis::from_since_2000(9);
    let (value, ..) = edge_of(world.done(import(a, private, at)).await.reply);
    assert_eq!(value.state, State::Active);
    world.done(block(b, a)).await;
    world.refused(import(a, b, at), Code::Blocked).await;
    world.refused(import(b, a, at), Code::Blocked).await;
    assert_eq!(world.totals(b).await, (0, 0));
}

pub(super) async fn commit_all_is_in_order_and_goes_on_after_a_refusal(world: World) {
    let [a, b, c] = world.users().await;
    let unknown = world.stranger();
    let writes: Vec<Write> = [
        follow(a, b),
        follow(a, unknown),
        unfollow(a, b),
        follow(a, a),
        follow(a, c),
        follow(a, b),
        follow_within(a, b, 0),
    ]
    .map(Write::from)
    .into();
    let results = world.store.commit_all(writes).await;
    let codes: Vec<Option<Code>> =
        results.iter().map(|result| result.as_ref().err().map(entourage_model::Error::code)).collect();
    let refused = [None, Some(Code::UserNotFound), None, Some(Code::SelfFollow), None, None, None];
    assert_eq!(codes, refused);
    let versions: Vec<Version> =
        results.iter().flatten().filter(|outcome| outcome.reply.changed()).map(|outcome| outcome.version).collect();
    assert!(versions.len() == 4 && versions.is_sorted_by(|before, after| before < after), "{versions:?}");
    assert_eq!(world.shown(List::following(a)).await, [b, c]);
    assert_eq!(world.store.commit_all(Vec::new()).await.len(), 0);
}
