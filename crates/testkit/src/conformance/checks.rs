//! Checks: the exact read, and what memory answers without waiting.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use entourage_model::{EdgeValue, Key, Kind, Operation, Overwrite, State, UserId, UserPatch};

use super::{operations::*, world::World};
use entourage_store::{Answer, Store, StoreExt as _};

pub(super) async fn answers_come_in_the_order_asked(world: World) {
    let (a, b, private) = (world.user().await, world.user().await, world.private_user().await);
    let unknown = world.stranger();
    world.done(follow(a, b)).await;
    world.done(follow(a, private)).await;
    world.done(follow(b, a)).await;
    world.done(unfollow(b, a)).await;
    let pairs = [(a, b), (b, a), (a, private), (a, a), (unknown, b), (a, unknown), (a, b)];
    let expected = [Some(State::Active), None, Some(State::Pending), None, None, None, Some(State::Active)];
    let values = world.store.get_edges(Kind::Follow, &pairs).await.expect("edges can be read");
    assert_eq!(values.iter().map(|value| value.map(|value| value.state)).collect::<Vec<_>>(), expected);
    let blocks = world.store.get_edges(Kind::Block, &pairs).await.expect("edges can be read");
    assert!(blocks.iter().all(Option::is_none), "kinds are apart");
    assert!(world.store.get_edges(Kind::Follow, &[]).await.expect("edges can be read").is_empty());
    let many = vec![(a, b); 1_000];
    let values = world.store.get_edges(Kind::Follow, &many).await.expect("edges can be read");
    assert!(values.len() == 1_000 && values.iter().all(Option::is_some));
}

pub(super) async fn peek_agrees_with_the_exact_read(world: World) {
    let (a, b, private) = (world.user().await, world.user().await, world.private_user().await);
    let steps = [
        follow(a, b),
        follow(a, private),
        follow_quietly(a, b),
        accept(private, a),
        unfollow(a, b),
        mute(a, b),
        block(b, a),
        unmute(a, b),
        unblock(b, a),
        follow(b, a),
    ];
    for operation in steps {
        world.done(operation).await;
        // `edge` compares both reads.
        for kind in Kind::ALL {
            for (follower, target) in [(a, b), (b, a), (a, private), (private, a), (a, world.stranger())] {
                world.edge(kind, follower, target).await;
            }
        }
    }
}

pub(super) async fn peek_agrees_while_others_write(world: World) {
    let pairs = world.many_users(32).await;
    let results = world
        .race(16, |index, store| {
            let (a, b) = (pairs[index * 2], pairs[index * 2 + 1]);
            async move {
                for round in 0..60 {
                    let (operation, wrong) = match round % 2 {
                        0 => (follow(a, b), Answer::No),
                        _ => (unfollow(a, b), Answer::Yes),
                    };
                    store.commit(operation.into()).await.expect("the write is taken");
                    assert_ne!(store.peek(Kind::Follow, a, b), wrong, "an acked write is seen by every later read");
                    let exact = store.get_edges(Kind::Follow, &[(a, b)]).await.expect("edges can be read")[0];
                    assert_eq!(exact.is_some(), round % 2 == 0);
                }
            }
        })
        .await;
    assert_eq!(results.len(), 16);
}

pub(super) async fn peeks_at_many_are_those_of_each(world: World) {
    let users = world.many_users(40).await;
    for (index, &user) in users.iter().enumerate() {
        for step in 1..=index % 7 {
            world.done(follow(user, users[(index + step * 3) % 40])).await;
        }
    }
    let (private, gone) = (world.private_user().await, world.user().await);
    world.done(follow(users[0], private)).await;
    world.done(block(users[1], users[39])).await;
    world.done(follow(gone, users[2])).await;
    world.done(follow(users[3], gone)).await;
    world.done(erase(gone)).await;
    let others = [private, gone, world.stranger()];
    let all: Vec<_> = users.iter().chain(&others).copied().collect();
    let pairs: Vec<_> = all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b))).collect();
    for kind in Kind::ALL {
        world.check_peek_all(kind, &pairs).await;
        for length in [0, 1, 15, 16, 17, 33] {
            world.check_peek_all(kind, &pairs[..length]).await;
        }
    }
}

pub(super) async fn peeks_at_open_follows_take_quiet_ones_for_none(world: World) {
    let users = world.many_users(12).await;
    let (private, gone) = (world.private_user().await, world.user().await);
    for (index, &user) in users.iter().enumerate().skip(1) {
        let follows = if index % 3 == 0 { follow_quietly } else { follow };
        world.done(follows(users[0], user)).await;
        world.done(follows(user, users[0])).await;
    }
    // One becomes quiet, one open.
    world.done(follow_quietly(users[0], users[1])).await;
    world.done(follow(users[0], users[3])).await;
    for (follower, target) in [(users[0], private), (gone, users[1]), (users[1], gone)] {
        world.done(follow(follower, target)).await;
    }
    world.done(erase(gone)).await;
    let everybody: Vec<Key> = users.iter().copied().chain([private, gone, world.stranger()]).collect();
    let pairs: Vec<_> = everybody.iter().flat_map(|&one| everybody.iter().map(move |&other| (one, other))).collect();
    let edges = world.store.get_edges(Kind::Follow, &pairs).await.expect("edges can be read");
    let is_open = |edge: &EdgeValue| edge.state == State::Active && !edge.quiet;
    let mut answers = vec![Answer::Yes; pairs.len()];
    world.store.peek_open(&pairs, &mut answers);
    for ((pair, edge), answer) in pairs.iter().zip(&edges).zip(&answers) {
        let is_left = [pair.0, pair.1].contains(&gone);
        match answer {
            Answer::Yes => assert!(edge.is_some_and(|edge| is_open(&edge)) && !is_left, "{pair:?} {edge:?}"),
            Answer::No => assert!(!edge.is_some_and(|edge| is_open(&edge)), "{pair:?} {edge:?}"),
            Answer::Unknown => assert!(is_left || !world.store.guarantees().peeks, "{pair:?} {edge:?}"),
        }
    }
}

/// Pairs of one follower, few and many, in a list that is shorter than they are and in one that is much longer.
pub(super) async fn peeks_at_many_of_one_follower(world: World) {
    let users = world.many_users(150).await;
    let (busy, calm, private, gone) =
        (world.user().await, world.user().await, world.private_user().await, world.user().await);
    let mut follows: Vec<_> = users.iter().step_by(2).map(|user| follow(busy, *user)).collect();
    follows.extend(users.iter().step_by(40).map(|user| follow(calm, *user)));
    follows.extend([busy, calm].into_iter().flat_map(|follower| [follow(follower, private), follow(follower, gone)]));
    follows.push(follow(gone, users[0]));
    world.all_done(follows).await;
    let others = [private, gone, busy, calm, world.stranger(), users[0], users[0]];
    let asked: Vec<_> = others.iter().chain(&users).copied().collect();
    for is_erased in [false, true] {
        if is_erased {
            world.done(erase(gone)).await;
        }
        for follower in [busy, calm, users[0], gone, world.stranger()] {
            let pairs: Vec<_> = asked.iter().map(|target| (follower, *target)).collect();
            for length in [7, 8, 9, 50, 64, 65, pairs.len()] {
                world.check_peek_all(Kind::Follow, &pairs[..length]).await;
            }
            let between = [(busy, gone), (calm, users[0])];
            let mixed = [&between, &pairs[..20], &between, &pairs[3..13], &between].concat();
            world.check_peek_all(Kind::Follow, &mixed).await;
        }
    }
    world.done(unfollow(calm, users[0])).await;
    let pairs: Vec<_> = asked.iter().map(|target| (calm, *target)).collect();
    world.check_peek_all(Kind::Follow, &pairs).await;
}

pub(super) async fn common_follows_are_in_both_lists(world: World) {
    let users = world.many_users(60).await;
    let (one, other, private, gone) =
        (world.user().await, world.user().await, world.private_user().await, world.user().await);
    for (index, &user) in users.iter().enumerate() {
        if index % 2 == 0 {
            world.done(follow(one, user)).await;
        }
        if index % 3 == 0 {
            world.done(follow_quietly(other, user)).await;
        }
    }
    for follower in [one, other] {
        world.done(follow(follower, gone)).await;
        world.done(follow(follower, private)).await;
    }
    world.done(accept(private, one)).await;
    world.done(erase(gone)).await;
    let common = |a, b, limit| {
        let mut found = vec![gone];
        let knows = world.store.peek_common(a, b, limit, &mut found);
        assert!(knows || !world.store.guarantees().peeks);
        assert!(found[0] == gone && (knows || found.len() == 1), "found is appended to, by who knows");
        knows.then(|| found.split_off(1))
    };
    let mut expected: Vec<_> = users.iter().step_by(6).copied().collect();
    expected.sort_unstable();
    for is_asked_for in [false, true] {
        if is_asked_for {
            for follower in [one, other, users[1]] {
                world.follows(follower, users[0]).await;
            }
        }
        for (a, b) in [(one, other), (other, one)] {
            if let Some(mut found) = common(a, b, 1_000) {
                found.sort_unstable();
                assert_eq!(found, expected, "a request is no follow, and who is erased is nobody");
            }
        }
        if let Some(some) = common(one, other, 3) {
            assert!(some.len() == 3 && some.iter().all(|key| expected.contains(key)), "{some:?}");
        }
        for (a, b) in [(one, world.stranger()), (gone, one), (users[1], one)] {
            assert_eq!(common(a, b, 10).unwrap_or_default(), []);
        }
    }
    world.done(unfollow(other, users[6])).await;
    assert!(!common(one, other, 1_000).unwrap_or_default().contains(&users[6]));
    world.done(follow(other, users[2])).await;
    assert!(common(one, other, 1_000).is_none_or(|found| found.contains(&users[2])));
}

/// Also when another id has the same key, as a hash may.
pub(super) async fn peeks_at_ids_know_the_very_id(world: World) {
    let peeks = world.store.guarantees().peeks;
    for (key, first) in [world.own_id(), world.own_id()] {
        let knows = |id: &UserId| world.store.peek_id(key, id.as_str().as_bytes());
        assert!(!knows(&first), "nobody was created yet");
        // The key passes from one user to another.
        for (id, other) in [(&first, world.own_id().1), (&world.own_id().1, first.clone())] {
            let put = |patch, overwrite| Operation::PutUser { key, id: id.clone(), patch, overwrite };
            // Everything that may be stored beside an id.
            let patch = UserPatch { name: Some(Some("Ada".into())), private: Some(true), ..UserPatch::default() };
            for (patch, overwrite) in [(UserPatch::default(), Overwrite::Replace), (patch, Overwrite::Merge)] {
                world.done(put(patch, overwrite)).await;
                for is_read in [false, true] {
                    if is_read {
                        world.store.get_users(&[key]).await.expect("users can be read");
                    }
                    assert!(knows(id) || !peeks, "{id} is there");
                    assert!(!knows(&other), "{other} is another than {id}");
                    for other in [&b""[..], b"\xff", &id.as_str().as_bytes()[1..]] {
                        assert!(!world.store.peek_id(key, other), "{other:?} is another than {id}");
                    }
                }
            }
            world.done(erase(key)).await;
            assert!(!knows(id) && !knows(&other), "whoever is erased has no id");
        }
    }
}

/// The two never follow the same one user at the same time, though each does repeatedly; another they always both
/// follow.
pub(super) async fn common_follows_are_those_of_one_moment(world: World) {
    let [one, other, always, now_and_then] = world.users().await;
    world.all_done([one, other].map(|follower| follow(follower, always)).to_vec()).await;
    // Rows held before the writing begins are changed by it; rows read meanwhile may never be held.
    assert!(world.follows(one, always).await && world.follows(other, always).await);
    let is_over = Arc::new(AtomicBool::new(false));
    world
        .race(3, move |index, store| {
            let is_over = Arc::clone(&is_over);
            async move {
                if index > 0 {
                    // The first reader that finishes, or finds something wrong, also ends the writing.
                    let _over = Over(&is_over);
                    return look_at_common(&*store, one, other, always).await;
                }
                for follower in [one, other].into_iter().cycle() {
                    for operation in [follow(follower, now_and_then), unfollow(follower, now_and_then)] {
                        store.commit(operation.into()).await.expect("the write is taken");
                    }
                    if is_over.load(Ordering::Acquire) {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
        })
        .await;
}

/// Signalled however a reader ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

async fn look_at_common(store: &dyn Store, one: Key, other: Key, always: Key) {
    let (mut found, mut known) = (Vec::new(), 0);
    for _ in 0..60 {
        for follower in [one, other] {
            store.get_edges(Kind::Follow, &[(follower, always)]).await.expect("edges can be read");
        }
        for _ in 0..100 {
            found.clear();
            if store.peek_common(one, other, 10, &mut found) {
                assert_eq!(found, [always]);
                known += 1;
            }
        }
        tokio::task::yield_now().await;
    }
    assert!(known > 0 || !store.guarantees().peeks);
}

/// Readers fill the caches while a writer changes what they read; afterwards memory must be right.
pub(super) async fn a_row_that_is_read_while_it_changes_is_not_believed(world: World) {
    for _ in 0..40 {
        let [a, b, c] = world.users().await;
        world.done(follow(a, c)).await;
        world
            .race(4, |index, store| async move {
                if index == 0 {
                    for operation in [follow(a, b), unfollow(a, b), follow(a, b), unfollow(a, c)] {
                        store.commit(operation.into()).await.expect("the write is taken");
                        tokio::task::yield_now().await;
                    }
                    return;
                }
                for _ in 0..6 {
                    store.get_edges(Kind::Follow, &[(a, b), (a, c)]).await.expect("edges can be read");
                    tokio::task::yield_now().await;
                }
            })
            .await;
        assert_ne!(world.store.peek(Kind::Follow, a, b), Answer::No, "the last write made it");
        assert_ne!(world.store.peek(Kind::Follow, a, c), Answer::Yes, "the last write took it away");
        assert!(world.follows(a, b).await && !world.follows(a, c).await);
    }
}

pub(super) async fn peeks_at_many_go_on_while_others_write(world: World) {
    let (a, b, gone) = (world.user().await, world.user().await, world.user().await);
    world.done(follow(a, gone)).await;
    world.done(erase(gone)).await;
    let results = world
        .race(4, |index, store| async move {
            for round in 0..200 {
                if index < 2 {
                    let operation = if round % 2 == 0 { follow(a, b) } else { unfollow(a, b) };
                    store.commit(operation.into()).await.expect("the write is taken");
                    continue;
                }
                let mut answers = [Answer::Yes; 4];
                for _ in 0..50 {
                    store.peek_all(Kind::Follow, &[(a, b), (a, gone), (gone, b), (a, b)], &mut answers);
                    assert!(answers[1] != Answer::Yes && answers[2] != Answer::Yes);
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
    assert_eq!(results.len(), 4);
}
