//! Follow requests and their outcomes.

use entourage_model::{Code, EdgeValue, Key, Kind, List, Millis, Operation, Plane, Reply, Side, State};

use super::{follows::edge_of, operations::*, world::World};

fn received(user: Key) -> List {
    List::new(user, Plane::Request, Side::Followers)
}

fn made(user: Key) -> List {
    List::new(user, Plane::Request, Side::Following)
}

impl World {
    /// A user, a private one, and the request of the first to the second.
    async fn request(&self) -> (Key, Key, EdgeValue) {
        let (a, b) = (self.user().await, self.private_user().await);
        let (value, ..) = edge_of(self.done(follow(a, b)).await.reply);
        (a, b, value)
    }

    /// (requests b received, requests a made, followers of b, following of a)
    async fn request_counts(&self, a: Key, b: Key) -> (u64, u64, u64, u64) {
        let (of_a, of_b) = (self.counts(a).await, self.counts(b).await);
        (of_b.requests, of_a.requested, of_b.followers, of_a.following)
    }
}

pub(super) async fn following_a_private_user_asks(world: World) {
    let (a, b) = (world.user().await, world.private_user().await);
    let outcome = world.done(follow(a, b)).await;
    let pending = EdgeValue { state: State::Pending, ..EdgeValue::active(outcome.version) };
    assert_eq!(edge_of(outcome.reply), (pending, true, true));
    assert_eq!(edge_of(world.done(follow(a, b)).await.reply), (pending, false, false), "asking twice is asking once");
    assert_eq!(world.edge(Kind::Follow, a, b).await, Some(pending));
    assert_eq!(world.request_counts(a, b).await, (1, 1, 0, 0));
}

pub(super) async fn accepting_makes_it_active_from_now(world: World) {
    let (a, b, asked) = world.request().await;
    let between = world.user().await;
    world.done(follow(a, between)).await;
    let outcome = world.done(accept(b, a)).await;
    let (value, created, changed) = edge_of(outcome.reply);
    assert!(!created && changed && outcome.version > asked.version);
    assert_eq!(value, EdgeValue { accepted: true, ..EdgeValue::active(outcome.version) });
    assert_eq!(world.edge(Kind::Follow, a, b).await, Some(value));
    assert_eq!(world.shown(List::following(a)).await, [b, between], "the place is that of the acceptance");
    assert_eq!(world.request_counts(a, b).await, (0, 0, 1, 2));
}

pub(super) async fn accepting_twice_is_accepting_once(world: World) {
    let (a, b, _) = world.request().await;
    let (value, ..) = edge_of(world.done(accept(b, a)).await.reply);
    assert_eq!(edge_of(world.done(accept(b, a)).await.reply), (value, false, false));
    assert_eq!(world.request_counts(a, b).await, (0, 0, 1, 1));
}

pub(super) async fn rejecting_removes_the_request(world: World) {
    let (a, b, _) = world.request().await;
    assert_eq!(world.done(reject(b, a)).await.reply, Reply::Gone { changed: true });
    assert_eq!(world.edge(Kind::Follow, a, b).await, None);
    assert_eq!(world.request_counts(a, b).await, (0, 0, 0, 0));
    world.refused(reject(b, a), Code::NotFound).await;
    world.refused(accept(b, a), Code::NotFound).await;
    world.done(follow(a, b)).await;
    assert_eq!(world.request_counts(a, b).await, (1, 1, 0, 0), "asking again is allowed");
}

pub(super) async fn unfollow_cancels_a_request(world: World) {
    let (a, b, _) = world.request().await;
    assert_eq!(world.done(unfollow(a, b)).await.reply, Reply::Gone { changed: true });
    assert_eq!(world.edge(Kind::Follow, a, b).await, None);
    assert_eq!(world.request_counts(a, b).await, (0, 0, 0, 0));
    world.refused(accept(b, a), Code::NotFound).await;
}

pub(super) async fn remove_follower_takes_a_request_away(world: World) {
    let (a, b, _) = world.request().await;
    assert_eq!(world.done(remove_follower(b, a)).await.reply, Reply::Gone { changed: true });
    assert_eq!(world.request_counts(a, b).await, (0, 0, 0, 0));
}

pub(super) async fn nothing_to_answer_is_refused(world: World) {
    let [a, b] = world.users().await;
    let unknown = world.stranger();
    for (target, follower) in [(b, a), (b, b), (b, unknown)] {
        world.refused(accept(target, follower), Code::NotFound).await;
        world.refused(reject(target, follower), Code::NotFound).await;
    }
    world.done(follow(a, b)).await;
    world.refused(reject(b, a), Code::NotFound).await;
    assert!(world.follows(a, b).await, "rejecting does not remove a follower");
}

pub(super) async fn requests_count_towards_the_cap(world: World) {
    let (a, b, _) = world.request().await;
    let other = world.user().await;
    world.refused(follow_within(a, other, 1), Code::FollowingLimit).await;
    world.done(accept(b, a)).await;
    world.refused(follow_within(a, other, 1), Code::FollowingLimit).await;
    world.done(unfollow(a, b)).await;
    world.done(follow_within(a, other, 1)).await;
    world.refused(follow_within(a, b, 1), Code::FollowingLimit).await;
}

pub(super) async fn a_private_user_is_not_followed_quietly(world: World) {
    let (a, b) = (world.user().await, world.private_user().await);
    world.refused(follow_quietly(a, b), Code::QuietPrivate).await;
    world.done(follow(a, b)).await;
    world.refused(follow_quietly(a, b), Code::QuietPrivate).await;
    world.done(accept(b, a)).await;
    world.refused(follow_quietly(a, b), Code::QuietPrivate).await;
    assert!(world.edge(Kind::Follow, a, b).await.is_some_and(|value| !value.quiet));
}

pub(super) async fn requests_are_listed_apart(world: World) {
    let (a, b, first) = world.request().await;
    let c = world.user().await;
    world.done(follow(c, b)).await;
    let at = Millis::from_since_2000(4);
    let d = world.user().await;
    world.done(Operation::Import { follower: d, target: b, at, quiet: false }).await;
    assert_eq!(world.shown(received(b)).await, [c, a]);
    assert_eq!(world.shown(made(a)).await, [b]);
    assert_eq!(world.shown(List::followers(b)).await, [d]);
    assert_eq!(world.shown(List::following(a)).await, []);
    assert_eq!(world.paged(made(a), 1).await[0].value, first);
    world.done(accept(b, a)).await;
    assert_eq!(world.shown(received(b)).await, [c]);
    assert_eq!(world.shown(made(a)).await, []);
    assert_eq!(world.shown(List::followers(b)).await, [a, d]);
}

pub(super) async fn an_accepted_follow_says_so(world: World) {
    let (a, private) = (world.user().await, world.private_user().await);
    let flag = async |world: &World| world.edge(Kind::Follow, a, private).await.map(|value| value.accepted);
    world.done(follow(a, private)).await;
    assert_eq!(flag(&world).await, Some(false));
    world.done(accept(private, a)).await;
    assert_eq!(flag(&world).await, Some(true));
    let listed = world.paged(List::followers(private), 5).await;
    assert!(listed[0].value.accepted);
    world.done(unfollow(a, private)).await;
    world.done(import(a, private, Millis::from_since_2000(5))).await;
    assert_eq!(flag(&world).await, Some(false));
}
