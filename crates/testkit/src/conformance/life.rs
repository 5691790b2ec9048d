//! Verifying, closing, and reopening.

use entourage_model::{Key, Kind, List, Sequence};

use super::{
    operations::*,
    pages,
    world::{World, own_request},
};
use entourage_store::{Answer, Health, Named, StoreExt as _, Writers};

/// Or nobody is listed: then one process has the store.
pub(super) async fn processes_that_share_a_store_hear_of_each_other(world: World) {
    let [one, other] = [own_request(), own_request()].map(|own| own.request);
    let beat = async |id: u64, about: &str| {
        let mut servers = world.store.heartbeat(id, about).await.expect("a heartbeat");
        servers.retain(|server| [one, other].contains(&server.id));
        servers.sort_unstable_by_key(|server| server.id != one);
        servers.into_iter().map(|server| (server.id, server.about, server.is_connected)).collect::<Vec<_>>()
    };
    let heard = [beat(one, "first").await, beat(other, "other").await, beat(one, "again").await];
    if world.store.guarantees().writers == Writers::Sole || heard.iter().all(Vec::is_empty) {
        assert!(heard.iter().all(Vec::is_empty), "one process has the store: {heard:?}");
        return;
    }
    assert_eq!(heard[0], [(one, "first".into(), true)]);
    assert_eq!(heard[1], [(one, "first".into(), true), (other, "other".into(), true)]);
    assert_eq!(heard[2], [(one, "again".into(), true), (other, "other".into(), true)]);
    // Nobody has heard of this one.
    let [unknown] = [own_request()].map(|own| own.request);
    world.store.disconnect(unknown).await.expect("there is nothing to do");
}

pub(super) async fn a_store_that_answers_is_not_away(world: World) {
    let [a, b] = world.users().await;
    world.store.commit(follow(a, b).into()).await.expect("a follow");
    for _ in 0..3 {
        assert!(world.store.get_edges(Kind::Follow, &[(a, b)]).await.expect("an edge")[0].is_some());
        let named = |key: Key| (key, key.0.to_string());
        let ((one, one_id), (other, other_id)) = (named(a), named(b));
        let pair = (Named { key: one, id: one_id.as_bytes() }, Named { key: other, id: other_id.as_bytes() });
        let mut answers = [Answer::Unknown];
        assert!(!world.store.is_away());
        let age = world.store.peek_away(Kind::Follow, &[pair], &mut answers);
        assert_eq!(age, None, "nothing old is said while there is somebody to ask");
    }
}

pub(super) async fn verify_is_clean_while_others_write(world: World) {
    let users = world.many_users(12).await;
    let everyone = users.clone();
    world
        .race(5, |index, store| {
            let users = everyone.clone();
            async move {
                for round in 0..20 {
                    if index == 0 {
                        let report = store.verify().await.expect("verify runs");
                        assert!(report.is_clean(), "{:#?}", report.problems);
                        continue;
                    }
                    let (a, b) = (users[(index + round) % 12], users[(index * 5 + round) % 12]);
                    for operation in [follow(a, b), block(b, a), unblock(b, a), follow(b, a), unfollow(a, b)] {
                        // Refusals among them are part of the noise.
                        let _noise = store.commit(operation.into()).await;
                    }
                }
            }
        })
        .await;
    assert_eq!(world.store.health().await, Health::Ready);
}

pub(super) async fn a_closed_store_refuses_writes(world: World) {
    let [a, b] = world.users().await;
    world.done(follow(a, b)).await;
    world.close().await;
    world.commit(unfollow(a, b)).await.expect_err("a closed store takes no writes");
    let writes = vec![unfollow(a, b).into(), follow(b, a).into()];
    assert!(world.store.commit_all(writes).await.iter().all(Result::is_err));
    let world = world.reopened().await;
    assert!(world.follows(a, b).await && !world.follows(b, a).await);
    world.assert_sound().await;
}

/// Everything a store says about these users.
async fn portrait(world: &World, users: &[Key], mark: Sequence) -> String {
    let mut lines = vec![format!("{:?}", world.store.get_users(users).await.expect("users"))];
    for &user in users {
        lines.push(format!("{:?}", world.counts(user).await));
        for list in [List::following(user), List::followers(user)] {
            lines.push(format!("{:?}", world.paged(list, 2).await));
        }
        for &other in users {
            for kind in Kind::ALL {
                lines.push(format!("{:?}", world.edge(kind, user, other).await));
            }
        }
    }
    lines.push(format!("{:?}", pages::read_events(&*world.store, mark).await.expect("events")));
    lines.join("\n")
}

pub(super) async fn acked_writes_survive_reopening(world: World) {
    let (first, mark) = world.user_at_mark().await;
    let mut users = world.many_users(4).await;
    users.extend([first, world.private_user().await]);
    for &a in &users {
        for &b in &users {
            if a != b {
                world.done(follow(a, b)).await;
            }
        }
    }
    world.done(accept(users[5], users[0])).await;
    world.done(unfollow(users[1], users[2])).await;
    world.done(block(users[2], users[3])).await;
    world.done(mute(users[0], users[3])).await;
    world.done(follow_quietly(users[0], users[1])).await;
    let identity = world.store.identity().clone();
    let before = portrait(&world, &users, mark).await;
    let mut world = world;
    for _ in 0..3 {
        world = world.reopened().await;
        assert_eq!(portrait(&world, &users, mark).await, before);
        assert_eq!(world.store.identity().epoch, identity.epoch);
        assert_eq!(world.store.identity().secret, identity.secret);
    }
    world.done(unfollow(users[0], users[1])).await;
    world.assert_sound().await;
}

pub(super) async fn retries_are_recognised_after_reopening(world: World) {
    let [a, b] = world.users().await;
    let key = own_request();
    let first = world.done(keyed(follow(a, b), key)).await;
    world.done(unfollow(a, b)).await;
    let world = world.reopened().await;
    let retry = world.done(keyed(follow(a, b), key)).await;
    assert_eq!((retry.replayed, retry.reply), (true, first.reply));
    assert!(!world.follows(a, b).await);
    world.assert_sound().await;
}

pub(super) async fn versions_and_sequences_go_on_after_reopening(world: World) {
    let [a, b] = world.users().await;
    let mut last = world.done(follow(a, b)).await;
    // Versions ahead of the wall clock must survive, too.
    let ahead = entourage_model::Version::new(last.version.millis().plus(5_000), 1, 1);
    last = world.done(above(unfollow(a, b), ahead)).await;
    let world = world.reopened().await;
    let next = world.done(follow(a, b)).await;
    assert!(next.version > last.version, "{} after {}", next.version, last.version);
    assert!(world.store.has_seen(&last.watermark).await.expect("watermarks can be compared"));
    let (end, next_end) = (world.end_of(&last).await, world.end_of(&next).await);
    let between = world.store.events_after(end, 100).await.expect("events can be read");
    assert!(between.iter().any(|event| event.sequence == next_end && event.version == next.version));
    assert_eq!(between[0].sequence, end.next());
    world.assert_sound().await;
}
