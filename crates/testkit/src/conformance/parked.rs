//! Parked follows: quarantined until they are released.

use entourage_model::{Code, Counts, EdgeValue, Key, Kind, List, Operation, Plane, Reply, Side, State};
use entourage_store::StoreExt as _;

use super::{follows::edge_of, operations::*, world::World};

fn held(user: Key) -> List {
    List::new(user, Plane::Parked, Side::Followers)
}

fn waiting(user: Key) -> List {
    List::new(user, Plane::Parked, Side::Following)
}

impl World {
    /// Two users, and a parked follow of the second by the first.
    async fn parked(&self) -> (Key, Key, EdgeValue) {
        let [a, b] = self.users().await;
        let (value, ..) = edge_of(self.done(follow_parked(a, b)).await.reply);
        (a, b, value)
    }

    async fn set_privacy(&self, key: Key, private: bool) {
        let user = self.store.get_users(&[key]).await.expect("users can be read").remove(0).expect("the user exists");
        let overwrite = entourage_model::Overwrite::Merge;
        self.done(Operation::PutUser { key, id: user.id, patch: privacy(private), overwrite }).await;
    }

    /// Neither of them has a count, and nothing of the other is in a list but that of parked follows.
    async fn assert_uncounted(&self, a: Key, b: Key) {
        for (user, side) in [(a, Side::Following), (b, Side::Followers)] {
            assert_eq!(self.counts(user).await, Counts::default());
            for plane in [Plane::Follow, Plane::Request] {
                assert_eq!(self.shown(List::new(user, plane, side)).await, []);
            }
        }
        assert!(!self.follows(a, b).await);
    }
}

pub(super) async fn a_parked_follow_is_in_nothing_else(world: World) {
    let (b, mark) = world.user_at_mark().await;
    let a = world.user().await;
    let outcome = world.done(follow_parked(a, b)).await;
    let parked = EdgeValue { state: State::Parked, ..EdgeValue::active(outcome.version) };
    assert_eq!(edge_of(outcome.reply), (parked, true, true));
    assert_eq!(edge_of(world.done(follow_parked(a, b)).await.reply), (parked, false, false), "twice is once");
    assert_eq!(edge_of(world.done(follow(a, b)).await.reply), (parked, false, false), "it stays until it is released");
    assert_eq!(world.edge(Kind::Follow, a, b).await, Some(parked));
    world.assert_uncounted(a, b).await;
    assert_eq!(world.shown(held(b)).await, [a]);
    assert_eq!(world.shown(waiting(a)).await, [b]);
    assert_eq!(world.paged(held(b), 1).await[0].value, parked);
    world.refused(follow_quietly(a, b), Code::QuietPrivate).await;
    let names = world.event_names(mark, &[a, b]).await;
    assert_eq!(names, ["user.created", "follow.parked"]);
}

pub(super) async fn only_what_others_would_see_is_parked(world: World) {
    let [a, b, c] = world.users().await;
    world.done(follow(a, b)).await;
    let (value, ..) = edge_of(world.done(follow_parked(a, b)).await.reply);
    assert_eq!(value.state, State::Active, "an edge that is there stays");
    let quietly = Operation::Follow { follower: c, target: b, quiet: Some(true), cap: None, park: true };
    let (quiet, ..) = edge_of(world.done(quietly.clone()).await.reply);
    assert_eq!((quiet.state, quiet.quiet), (State::Active, true));
    assert_eq!(edge_of(world.done(quietly).await.reply), (quiet, false, false));
    let openly = Operation::Follow { follower: c, target: b, quiet: Some(false), cap: None, park: true };
    let outcome = world.done(openly).await;
    let parked = EdgeValue { state: State::Parked, ..EdgeValue::active(outcome.version) };
    assert_eq!(edge_of(outcome.reply), (parked, false, true), "a follower who wants to be seen is parked like others");
    assert_eq!(world.shown(List::followers(b)).await, [a]);
    assert_eq!(world.counts(c).await, Counts::default());
}

pub(super) async fn accepted_it_is_active_from_now(world: World) {
    let (a, b, parked) = world.parked().await;
    let between = world.user().await;
    world.done(follow(a, between)).await;
    let outcome = world.done(release(b, a, true)).await;
    let active = EdgeValue::active(outcome.version);
    assert_eq!(edge_of(outcome.reply), (active, false, true));
    assert!(outcome.version > parked.version && !active.accepted, "the target was not asked");
    assert_eq!(world.edge(Kind::Follow, a, b).await, Some(active));
    assert_eq!(world.shown(List::following(a)).await, [b, between], "the place is that of the release");
    assert_eq!((world.totals(b).await, world.totals(a).await), ((1, 0), (0, 2)));
    assert_eq!((world.shown(held(b)).await, world.shown(waiting(a)).await), (vec![], vec![]));
    world.refused(release(b, a, true), Code::NotFound).await;
}

pub(super) async fn accepted_on_a_private_account_it_is_a_request(world: World) {
    let (a, b) = (world.user().await, world.private_user().await);
    let (later, open) = (world.user().await, world.user().await);
    world.done(follow_parked(a, b)).await;
    world.assert_uncounted(a, b).await;
    let outcome = world.done(release(b, a, true)).await;
    let pending = EdgeValue { state: State::Pending, ..EdgeValue::active(outcome.version) };
    assert_eq!(edge_of(outcome.reply), (pending, false, true));
    assert_eq!((world.counts(b).await.requests, world.counts(a).await.requested), (1, 1));
    let (accepted, ..) = edge_of(world.done(accept(b, a)).await.reply);
    assert!(accepted.accepted && accepted.state == State::Active);
    // The account counts as it is when the edge is released.
    world.done(follow_parked(later, b)).await;
    world.done(follow_parked(a, open)).await;
    world.set_privacy(b, false).await;
    world.set_privacy(open, true).await;
    assert_eq!(edge_of(world.done(release(b, later, true)).await.reply).0.state, State::Active);
    assert_eq!(edge_of(world.done(release(open, a, true)).await.reply).0.state, State::Pending);
}

pub(super) async fn dropped_or_taken_back_it_is_gone(world: World) {
    for way in 0..6 {
        let (b, mark) = world.user_at_mark().await;
        let a = world.user().await;
        world.done(follow_parked(a, b)).await;
        let (operation, name) = match way {
            0 => (release(b, a, false), "follow.rejected"),
            1 => (unfollow(a, b), "follow.cancelled"),
            2 => (remove_follower(b, a), "follow.rejected"),
            3 => (Operation::RemoveFollower { target: b, follower: a, sees_quiet: false }, "follow.rejected"),
            4 => (block(b, a), "follow.rejected"),
            _ => (block(a, b), "follow.rejected"),
        };
        // The target does not learn that there was one.
        let reply = Reply::Gone { changed: way != 3 };
        let outcome = world.done(operation.clone()).await;
        assert!(matches!(outcome.reply, Reply::Edge { .. }) || outcome.reply == reply, "{operation:?}");
        assert_eq!(world.edge(Kind::Follow, a, b).await, None, "{operation:?}");
        assert_eq!((world.shown(held(b)).await, world.shown(waiting(a)).await), (vec![], vec![]));
        world.assert_uncounted(a, b).await;
        world.refused(release(b, a, true), Code::NotFound).await;
        let names = world.event_names(mark, &[a, b]).await;
        assert!(names.contains(&name) && !names.contains(&"follow.removed"), "{operation:?}: {names:?}");
        let ended = world.store.scan_history(a, None, 5).await.expect("history can be read");
        assert_eq!(ended.iter().map(|end| end.state).collect::<Vec<_>>(), [State::Parked], "{operation:?}");
    }
}

pub(super) async fn nothing_else_is_released(world: World) {
    let (a, b) = (world.user().await, world.private_user().await);
    let (c, unknown) = (world.user().await, world.stranger());
    for accept in [true, false] {
        world.refused(release(b, a, accept), Code::NotFound).await;
        world.refused(release(b, unknown, accept), Code::NotFound).await;
        world.refused(release(unknown, a, accept), Code::UserNotFound).await;
    }
    world.done(follow(a, b)).await;
    world.done(follow(a, c)).await;
    for (target, accept) in [(b, true), (b, false), (c, true), (c, false)] {
        world.refused(release(target, a, accept), Code::NotFound).await;
    }
    world.done(follow_parked(c, b)).await;
    world.refused(accept(b, c), Code::NotFound).await;
    world.refused(reject(b, c), Code::NotFound).await;
    assert!(world.edge(Kind::Follow, c, b).await.is_some_and(|value| value.state == State::Parked));
}

pub(super) async fn parked_follows_count_towards_the_cap(world: World) {
    let (a, b, _) = world.parked().await;
    let other = world.user().await;
    world.refused(follow_within(a, other, 1), Code::FollowingLimit).await;
    world.done(release(b, a, true)).await;
    world.refused(follow_within(a, other, 1), Code::FollowingLimit).await;
    world.done(unfollow(a, b)).await;
    world.done(follow_within(a, other, 1)).await;
    let parked = Operation::Follow { follower: a, target: b, quiet: None, cap: Some(1), park: true };
    world.refused(parked, Code::FollowingLimit).await;
}

pub(super) async fn an_erased_end_takes_it_along(world: World) {
    let [a, b, c] = world.users().await;
    world.done(follow_parked(a, b)).await;
    world.done(follow_parked(b, c)).await;
    world.done(erase(b)).await;
    world.refused(release(b, a, true), Code::UserNotFound).await;
    let outcome = world.done(erase_edges(b, 10)).await;
    assert_eq!(outcome.reply, Reply::EdgesErased { removed: 2, left: false });
    assert_eq!((world.shown(waiting(a)).await, world.shown(held(c)).await), (vec![], vec![]));
}

pub(super) async fn accepting_against_dropping_has_one_winner(world: World) {
    for round in 0..30 {
        let (a, b, _) = world.parked().await;
        let outcomes = world
            .race(3, move |index, store| async move {
                let operation = match index {
                    0 => release(b, a, true),
                    1 => release(b, a, false),
                    _ if round % 2 == 0 => unfollow(a, b),
                    _ => release(b, a, true),
                };
                store.commit(operation.into()).await
            })
            .await;
        let won = outcomes.iter().take(2).filter(|outcome| outcome.is_ok()).count();
        assert!(won <= 1, "{outcomes:?}");
        let edge = world.edge(Kind::Follow, a, b).await;
        assert!(edge.is_none_or(|value| value.state == State::Active), "{outcomes:?}");
        let count = u64::from(edge.is_some());
        assert_eq!((world.totals(b).await, world.totals(a).await), ((count, 0), (0, count)));
        assert_eq!(world.shown(held(b)).await, []);
    }
}

pub(super) async fn parked_follows_survive_reopening(world: World) {
    let [a, b, c, d] = world.users().await;
    for fan in [a, c, d] {
        world.done(follow_parked(fan, b)).await;
    }
    let world = world.reopened().await;
    assert_eq!(world.shown(held(b)).await, [d, c, a]);
    world.assert_uncounted(a, b).await;
    world.done(release(b, c, true)).await;
    world.done(release(b, d, false)).await;
    let world = world.reopened().await;
    assert_eq!(world.shown(held(b)).await, [a]);
    assert_eq!(world.shown(List::followers(b)).await, [c]);
    world.refused(follow_within(a, c, 1), Code::FollowingLimit).await;
}
