//! One event for each change, in order, without a gap.

use std::collections::HashMap;

use entourage_model::{
    Cause, EventBody, Key, Kind, Millis, Operation, Overwrite, Sequence, State, UserPatch, Version, Watermark,
};

use super::{
    operations::*,
    pages, settled,
    world::{World, own_request},
};
use entourage_store::{CommitOrder, StoreExt as _};

pub(super) async fn the_last_event_is_the_end(world: World) {
    let (a, b) = (world.user().await, world.user().await);
    let before = world.store.last_event(0).await.unwrap();
    assert!(before > Sequence::ZERO);
    world.done(follow(a, b)).await;
    let last = world.store.last_event(0).await.unwrap();
    assert!(last > before);
    let events = world.store.events_after(before, usize::MAX).await.unwrap();
    assert!(events.iter().any(|event| event.sequence == last), "{last} {events:?}");
}

pub(super) async fn each_change_has_its_event_in_order(world: World) {
    let (a, mark) = world.user_at_mark().await;
    let (b, id) = world.own_id();
    let put =
        |private| Operation::PutUser { key: b, id: id.clone(), patch: privacy(private), overwrite: Overwrite::Replace };
    let at = Millis::from_since_2000(3);
    let steps: [(Operation, &[&str]); 22] = [
        (put(true), &["user.created"]),
        (follow(a, b), &["follow.requested"]),
        (accept(b, a), &["follow.accepted"]),
        (remove_follower(b, a), &["follow.removed"]),
        (follow(a, b), &["follow.requested"]),
        (reject(b, a), &["follow.rejected"]),
        (follow(a, b), &["follow.requested"]),
        (unfollow(a, b), &["follow.cancelled"]),
        (put(false), &["user.updated"]),
        (follow(a, b), &["follow.created"]),
        (follow_quietly(a, b), &["follow.updated"]),
        (unfollow(a, b), &["follow.removed"]),
        (import(a, b, at), &["follow.created"]),
        (follow(b, a), &["follow.created"]),
        (mute(a, b), &["mute.created"]),
        (block(b, a), &["block.created", "follow.removed", "follow.removed"]),
        (unmute(a, b), &["mute.removed"]),
        (unblock(b, a), &["block.removed"]),
        (put(true), &["user.updated"]),
        (follow(a, b), &["follow.requested"]),
        (block(a, b), &["block.created", "follow.rejected"]),
        (unblock(a, b), &["block.removed"]),
    ];
    let mut expected = Vec::new();
    let mut versions = Vec::new();
    for (operation, names) in steps {
        let outcome = world.done(operation.clone()).await;
        assert_eq!(outcome.changes.len(), names.len(), "{operation:?}");
        expected.extend_from_slice(names);
        versions.extend(settled::versions(&outcome, world.store.guarantees().derived));
        assert_eq!(world.event_names(mark, &[a, b]).await, expected, "after {operation:?}");
    }
    let events = world.events(mark, &[a, b]).await;
    assert_eq!(events.iter().map(|event| event.version).collect::<Vec<_>>(), versions);
    let flag = &events[10].body;
    let (active, cause) = (Some(State::Active), Cause::Follower);
    let expected = EventBody::Edge {
        kind: Kind::Follow,
        follower: a,
        target: b,
        cause,
        before: active,
        after: active,
        quiet: true,
        expires: None,
    };
    assert_eq!(flag, &expected, "a changed flag goes from active to active");
}

pub(super) async fn nothing_changed_is_no_event(world: World) {
    let (a, b) = (world.user().await, world.user().await);
    let key = own_request();
    world.done(keyed(follow(a, b), key)).await;
    world.done(block(b, world.user().await)).await;
    let (c, mark) = world.user_at_mark().await;
    for operation in [follow(a, b), unfollow(b, a), unfollow(a, a), unfollow(a, c), unblock(a, b), unmute(a, b)] {
        let outcome = world.done(operation.clone()).await;
        assert!(!outcome.reply.changed() && outcome.changes.is_empty(), "{operation:?}");
    }
    world.done(keyed(follow(a, b), key)).await;
    for operation in [follow(a, a), follow(a, world.stranger()), accept(a, b), block(a, a), follow_within(b, a, 0)] {
        world.commit(operation).await.expect_err("the write is refused");
    }
    assert_eq!(world.event_names(mark, &[a, b, c]).await, Vec::<&str>::new());
}

pub(super) async fn events_are_gapless_under_concurrent_writes(world: World) {
    let (first, mark) = world.user_at_mark().await;
    let mut users = world.many_users(23).await;
    users.push(first);
    let everyone = users.clone();
    let changes = world
        .race(12, |index, store| {
            let (a, b) = (everyone[index], everyone[(index + 7) % everyone.len()]);
            async move {
                let (mut changes, mut seen, mut last) = (0, 0, mark);
                for round in 0..30 {
                    let operation = if round % 2 == 0 { follow(a, b) } else { unfollow(a, b) };
                    let outcome = store.commit(operation.into()).await.expect("the write is taken");
                    changes += outcome.changes.len();
                    // Concurrent readers: the list has no gap at any moment.
                    for event in store.events_after(last, 40).await.expect("events can be read") {
                        assert_eq!(event.sequence, last.next(), "an event is listed before an earlier one");
                        last = event.sequence;
                        seen += 1;
                    }
                }
                assert!(seen > 0);
                changes
            }
        })
        .await;
    let edges = world.events(mark, &users).await;
    let edges = edges.iter().filter(|event| matches!(event.body, EventBody::Edge { .. })).count();
    assert_eq!(edges, changes.iter().sum::<usize>(), "one event for each change");
}

pub(super) async fn order_on_each_edge_is_version_order(world: World) {
    let (a, mark) = world.user_at_mark().await;
    let b = world.user().await;
    world
        .race(16, |index, store| async move {
            for round in 0..12 {
                let operation = match (index + round) % 4 {
                    0 => unfollow(a, b),
                    1 => follow_quietly(a, b),
                    2 => remove_follower(b, a),
                    _ => follow(a, b),
                };
                store.commit(operation.into()).await.expect("the write is taken");
            }
        })
        .await;
    let mut last: HashMap<(Kind, Key, Key), (Version, Option<State>)> = HashMap::new();
    for event in world.events(mark, &[a, b]).await {
        let EventBody::Edge { kind, follower, target, before, after, .. } = event.body else { continue };
        let (version, state) = last.get(&(kind, follower, target)).copied().unwrap_or_default();
        assert!(event.version > version, "event {} has version {} after {version}", event.sequence, event.version);
        assert_eq!(before, state, "event {} starts where the one before ended", event.sequence);
        last.insert((kind, follower, target), (event.version, after));
    }
    let end = last.get(&(Kind::Follow, a, b)).and_then(|&(_, state)| state);
    assert_eq!(world.edge(Kind::Follow, a, b).await.map(|value| value.state), end);
}

pub(super) async fn pages_of_events_go_on_where_they_ended(world: World) {
    let (a, mark) = world.user_at_mark().await;
    let users = world.many_users(30).await;
    world.all_done(users.iter().map(|&user| follow(a, user)).collect()).await;
    let all = pages::read_events(&*world.store, mark).await.expect("events can be read");
    for size in [1, 7, 64] {
        let (mut paged, mut after) = (Vec::new(), mark);
        while paged.len() < all.len() {
            let page = world.store.events_after(after, size).await.expect("events can be read");
            assert!(!page.is_empty() && page.len() <= size);
            after = page.last().map_or(after, |event| event.sequence);
            paged.extend(page);
        }
        assert_eq!(paged[..all.len()], all[..]);
    }
    let end = Sequence(all.last().map_or(mark.0, |event| event.sequence.0) + 1_000_000);
    assert!(world.store.events_after(end, 10).await.expect("events can be read").is_empty(), "nothing yet after {end}");
}

pub(super) async fn watermarks_cover_their_outcome(world: World) {
    let [a, b] = world.users().await;
    let patched = UserPatch { name: Some(Some("A".into())), ..UserPatch::default() };
    let (key, id) = world.own_id();
    let steps = [
        follow(a, b),
        follow(a, b),
        unfollow(a, b),
        block(a, b),
        Operation::PutUser { key, id, patch: patched, overwrite: Overwrite::Keep },
    ];
    for operation in steps {
        let outcome = world.done(operation).await;
        assert!(world.store.has_seen(&outcome.watermark).await.expect("watermarks can be compared"));
        if world.store.guarantees().order == CommitOrder::Unknown {
            continue;
        }
        let events = world.store.events_after(Sequence(outcome.watermark.sequence().0 - 1), 1).await;
        let event = events.expect("events can be read").remove(0);
        assert_eq!(event.sequence, outcome.watermark.sequence());
        if !outcome.changes.is_empty() {
            assert_eq!(event.version, outcome.version, "the watermark is that of the last change");
        }
    }
    let far = Watermark::at(Sequence(u64::MAX >> 2));
    assert!(!world.store.has_seen(&far).await.expect("watermarks can be compared"), "nobody has written that far");
}

pub(super) async fn progress_tells_which_outcomes_are_listed(world: World) {
    let users = world.many_users(16).await;
    let seen = world
        .race(8, |index, store| {
            let (a, b) = (users[index * 2], users[index * 2 + 1]);
            async move {
                let mut seen = Vec::new();
                for round in 0..12 {
                    let operation = if round % 2 == 0 { follow(a, b) } else { unfollow(a, b) };
                    let outcome = store.commit(operation.into()).await.expect("the write is taken");
                    let progress = store.progress(0).await.expect("progress can be asked for");
                    seen.push((outcome, progress));
                }
                seen
            }
        })
        .await;
    let seen: Vec<_> = seen.into_iter().flatten().collect();
    let events = pages::read_events(&*world.store, Sequence::ZERO).await.expect("events can be read");
    let sequences: HashMap<Version, Sequence> = events.iter().map(|event| (event.version, event.sequence)).collect();
    for (acked, progress) in &seen {
        let is_listed = sequences.get(&acked.version).is_some_and(|last| *last <= progress.listed);
        assert!(is_listed || acked.watermark.sequence() <= progress.newest, "C13: {progress:?} forgets {acked:?}");
        for (outcome, _) in seen.iter().filter(|(outcome, _)| outcome.watermark.sequence() <= progress.covered) {
            let listed = sequences.get(&outcome.version).is_some_and(|last| *last <= progress.listed);
            assert!(listed, "C13: {progress:?} covers {outcome:?}");
        }
    }
    let mut last = world.store.progress(0).await.expect("progress can be asked for");
    // Another transaction may hold the end back for a moment.
    for _ in 0..200 {
        if seen.iter().all(|(outcome, _)| outcome.watermark.sequence() <= last.covered) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        last = world.store.progress(0).await.expect("progress can be asked for");
    }
    assert!(
        seen.iter().all(|(outcome, _)| outcome.watermark.sequence() <= last.covered),
        "C13: never covered by {last:?}"
    );
    assert!(events.last().is_some_and(|event| event.sequence <= last.listed));
}
