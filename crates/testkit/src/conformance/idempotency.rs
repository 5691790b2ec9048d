//! A retry is recognised, and has no effect of its own.

use entourage_model::{Code, IdempotencyKey, Kind, Outcome, Reply};

use super::{
    follows::edge_of,
    operations::*,
    world::{World, own_request},
};
use entourage_store::StoreExt as _;

pub(super) async fn a_retry_replays_the_first_reply(world: World) {
    let [a, b] = world.users().await;
    let key = own_request();
    let first = world.done(keyed(follow(a, b), key)).await;
    assert!(!first.replayed);
    world.done(follow_quietly(a, b)).await;
    for _ in 0..2 {
        let retry = world.done(keyed(follow(a, b), key)).await;
        assert_eq!((retry.replayed, retry.reply), (true, first.reply));
        assert!(retry.changes.is_empty());
    }
    assert!(world.edge(Kind::Follow, a, b).await.is_some_and(|value| value.quiet), "the retry did not follow again");
    let names = world.event_names(world.end_of(&first).await, &[a, b]).await;
    assert_eq!(names, ["follow.updated"], "the changed flag alone");
}

pub(super) async fn another_body_is_refused(world: World) {
    let [a, b, c] = world.users().await;
    let key = own_request();
    world.done(keyed(follow(a, b), key)).await;
    let other = IdempotencyKey { request: key.request + 1, ..key };
    world.refused(keyed(follow(a, c), other), Code::IdempotencyMismatch).await;
    assert!(!world.follows(a, c).await);
    world.done(keyed(follow(a, c), own_request())).await;
    assert!(world.done(keyed(follow(a, b), key)).await.replayed, "the first is still known");
}

pub(super) async fn only_success_is_recorded(world: World) {
    let [a, b] = world.users().await;
    let key = own_request();
    world.done(block(b, a)).await;
    world.refused(keyed(follow(a, b), key), Code::Blocked).await;
    world.refused(keyed(follow(a, b), key), Code::Blocked).await;
    world.done(unblock(b, a)).await;
    let other = IdempotencyKey { request: key.request + 1, ..key };
    let outcome = world.done(keyed(follow(a, b), other)).await;
    assert!(!outcome.replayed && edge_of(outcome.reply).1, "a refusal leaves the key free, for another body too");
}

pub(super) async fn a_late_retry_does_not_undo_an_unfollow(world: World) {
    let [a, b] = world.users().await;
    let key = own_request();
    let first = world.done(keyed(follow(a, b), key)).await;
    world.done(unfollow(a, b)).await;
    let retry = world.done(keyed(follow(a, b), key)).await;
    assert_eq!((retry.replayed, retry.reply), (true, first.reply));
    assert!(!world.follows(a, b).await);
    assert_eq!((world.totals(a).await, world.totals(b).await), ((0, 0), (0, 0)));
    assert!(edge_of(world.done(follow(a, b)).await.reply).1, "a bare follow is a new one");
}

pub(super) async fn a_success_without_change_is_recorded(world: World) {
    let [a, b] = world.users().await;
    let key = own_request();
    let first = world.done(keyed(unfollow(a, b), key)).await;
    assert_eq!((first.reply, first.replayed), (Reply::Gone { changed: false }, false));
    world.done(follow(a, b)).await;
    let retry = world.done(keyed(unfollow(a, b), key)).await;
    assert_eq!((retry.reply, retry.replayed), (Reply::Gone { changed: false }, true));
    assert!(world.follows(a, b).await);
}

pub(super) async fn equal_keys_at_once_have_one_effect(world: World) {
    let users = world.many_users(65).await;
    let a = users[0];
    for round in 0..8 {
        let key = own_request();
        // The same key and body; a store that checked the key before its commit would follow many times.
        let outcomes = world
            .race(64, |index, store| {
                let target = users[1 + (index + round) % 64];
                async move { store.commit(keyed(follow_quietly(a, target), key)).await }
            })
            .await;
        let outcomes: Vec<_> = outcomes.into_iter().map(|outcome| outcome.expect("the write is taken")).collect();
        assert_eq!(outcomes.iter().filter(|outcome| !outcome.replayed).count(), 1);
        assert!(outcomes.iter().all(|outcome| outcome.reply == outcomes[0].reply), "all hear the same");
        assert!(world.totals(a).await.1 <= round as u64 + 1, "one effect for each key");
    }
}

pub(super) async fn what_a_key_came_to_can_be_looked_up(world: World) {
    let [a, b] = world.users().await;
    let [first, unused, refused] = [own_request(), own_request(), own_request()];
    let done = world.done(keyed(follow(a, b), first)).await;
    world.refused(keyed(follow(a, a), refused), Code::SelfFollow).await;
    let other = IdempotencyKey { request: first.request + 1, ..first };
    let mark = world.end_of(&done).await;
    let found = world.store.replay_all(&[unused, first, refused, other, first]).await;
    let reply = |found: &entourage_model::Result<Option<Outcome>>| match found {
        Ok(found) => Ok(found.as_ref().map(|outcome| outcome.reply)),
        Err(error) => Err(error.code()),
    };
    let replies: Vec<_> = found.iter().map(reply).collect();
    let replayed = Ok(Some(done.reply));
    assert_eq!(replies, [Ok(None), replayed, Ok(None), Err(Code::IdempotencyMismatch), replayed]);
    let found = found.into_iter().nth(1).expect("five were asked for").expect("it is known").expect("it is there");
    assert_eq!((found.replayed, found.version, found.changes.len()), (true, done.version, 0));
    assert!(world.store.has_seen(&found.watermark).await.expect("watermarks can be compared"));
    assert!(world.events(mark, &[a, b]).await.is_empty(), "looking changes nothing");
}
