//! Concurrent writers. Each race starts at a barrier, on several threads.

use entourage_model::{Code, Kind, List, Operation, Outcome, Overwrite, Reply, Result, UserPatch, Write};

use rand::RngExt;

use super::{
    history::{self, Load},
    operations::*,
    world::World,
};
use entourage_store::StoreExt as _;

const WRITERS: usize = 64;
const ROUNDS: usize = 10;

impl World {
    /// The same write by everyone concurrently.
    async fn race_equal(&self, operation: Operation) -> Vec<Reply> {
        let outcomes = self
            .race(WRITERS, |_, store| {
                let write = Write::from(operation.clone());
                async move { store.commit(write).await }
            })
            .await;
        outcomes.into_iter().map(|outcome| outcome.expect("the write is taken").reply).collect()
    }
}

pub(super) async fn equal_follows_create_once(world: World) {
    let [a, b, c] = world.users().await;
    world.done(follow(c, b)).await;
    for _ in 0..ROUNDS {
        let replies = world.race_equal(follow(a, b)).await;
        let value = world.edge(Kind::Follow, a, b).await.expect("the edge stands");
        let created = Reply::Edge { value, created: true, changed: true };
        let found = Reply::Edge { value, created: false, changed: false };
        assert_eq!(replies.iter().filter(|reply| **reply == created).count(), 1);
        assert_eq!(replies.iter().filter(|reply| **reply == found).count(), WRITERS - 1);
        assert_eq!((world.totals(a).await, world.totals(b).await), ((0, 1), (2, 0)));
        world.done(unfollow(a, b)).await;
    }
}

pub(super) async fn equal_unfollows_change_once(world: World) {
    let [a, b, c] = world.users().await;
    world.done(follow(c, b)).await;
    for _ in 0..ROUNDS {
        world.done(follow(a, b)).await;
        let replies = world.race_equal(unfollow(a, b)).await;
        assert_eq!(replies.iter().filter(|reply| **reply == Reply::Gone { changed: true }).count(), 1);
        assert_eq!(replies.iter().filter(|reply| **reply == Reply::Gone { changed: false }).count(), WRITERS - 1);
        assert_eq!((world.totals(a).await, world.totals(b).await), ((0, 0), (1, 0)));
    }
}

pub(super) async fn equal_blocks_create_once(world: World) {
    let [a, b] = world.users().await;
    world.done(follow(a, b)).await;
    let (_, mark) = world.user_at_mark().await;
    let replies = world.race_equal(block(b, a)).await;
    assert_eq!(replies.iter().filter(|reply| matches!(reply, Reply::Edge { created: true, .. })).count(), 1);
    assert_eq!(world.event_names(mark, &[a, b]).await, ["block.created", "follow.removed"]);
}

pub(super) async fn cap_is_exact_at_99(world: World) {
    cap_is_exact(world, 100).await;
}

pub(super) async fn cap_is_exact_at_9_999(world: World) {
    cap_is_exact(world, 10_000).await;
}

/// One short of the cap, everyone tries: one succeeds.
async fn cap_is_exact(world: World, cap: usize) {
    let targets = world.many_users(cap - 1 + WRITERS).await;
    let (a, limit) = (world.user().await, cap as u64);
    let (before, contested) = targets.split_at(cap - 1);
    world.all_done(before.iter().map(|&target| follow_within(a, target, limit)).collect()).await;
    assert_eq!(world.totals(a).await, (0, limit - 1));
    for _ in 0..3 {
        let outcomes = world
            .race(WRITERS, |index, store| {
                let target = contested[index];
                async move { store.commit(follow_within(a, target, limit).into()).await }
            })
            .await;
        let refused =
            |result: &Result<Outcome>| result.as_ref().is_err_and(|error| error.code() == Code::FollowingLimit);
        let winners: Vec<usize> = (0..WRITERS).filter(|&index| outcomes[index].is_ok()).collect();
        assert_eq!((winners.len(), outcomes.iter().filter(|result| refused(result)).count()), (1, WRITERS - 1));
        assert_eq!(world.totals(a).await, (0, limit));
        world.done(unfollow(a, contested[winners[0]])).await;
    }
    assert_eq!(world.paged(List::following(a), 200).await.len(), cap - 1);
}

pub(super) async fn block_against_follow_ends_with_no_edge(world: World) {
    for round in 0..60 {
        let [a, b] = world.users().await;
        let blocker_follows = round % 2 == 0;
        let outcomes = world
            .race(8, |index, store| async move {
                let operation = match index {
                    0 => block(b, a),
                    _ if blocker_follows => follow(b, a),
                    _ => follow(a, b),
                };
                store.commit(operation.into()).await
            })
            .await;
        assert!(outcomes[0].is_ok(), "a block is never refused for a follow");
        for result in &outcomes[1..] {
            let fine = result.as_ref().map_or_else(|error| error.code() == Code::Blocked, |_| true);
            assert!(fine, "{result:?}");
        }
        for (follower, target) in [(a, b), (b, a)] {
            assert_eq!(world.edge(Kind::Follow, follower, target).await, None, "a follow outlived the block");
        }
        assert_eq!((world.totals(a).await, world.totals(b).await), ((0, 0), (0, 0)));
    }
}

pub(super) async fn following_each_other_is_two_edges(world: World) {
    for _ in 0..30 {
        let [a, b] = world.users().await;
        let outcomes = world
            .race(2, |index, store| async move {
                let operation = if index == 0 { follow(a, b) } else { follow(b, a) };
                store.commit(operation.into()).await
            })
            .await;
        assert!(outcomes.iter().all(Result::is_ok), "neither waits for the other for ever: {outcomes:?}");
        assert_eq!((world.totals(a).await, world.totals(b).await), ((1, 1), (1, 1)));
    }
}

pub(super) async fn accept_against_cancel_has_one_winner(world: World) {
    for _ in 0..30 {
        let (a, b) = (world.user().await, world.private_user().await);
        world.done(follow(a, b)).await;
        let mut outcomes = world
            .race(2, |index, store| async move {
                let operation = if index == 0 { accept(b, a) } else { unfollow(a, b) };
                store.commit(operation.into()).await
            })
            .await;
        let cancelled = outcomes.remove(1).expect("an unfollow is never refused");
        assert_eq!(cancelled.reply, Reply::Gone { changed: true }, "there was a request or a follow to take away");
        let accepted = outcomes.remove(0);
        if let Err(error) = &accepted {
            assert_eq!(error.code(), Code::NotFound);
        }
        assert_eq!(world.edge(Kind::Follow, a, b).await, None);
        for user in [a, b] {
            assert_eq!(world.counts(user).await, entourage_model::Counts::default());
        }
    }
}

pub(super) async fn one_id_for_one_key(world: World) {
    let (key, _) = world.own_id();
    let ids: Vec<_> = (0..WRITERS).map(|_| world.own_id().1).collect();
    let outcomes = world
        .race(WRITERS, |index, store| {
            let (id, patch) = (ids[index].clone(), UserPatch::default());
            let put = Operation::PutUser { key, id, patch, overwrite: Overwrite::Replace };
            async move { store.commit(put.into()).await }
        })
        .await;
    let winners: Vec<usize> = (0..WRITERS).filter(|&index| outcomes[index].is_ok()).collect();
    assert_eq!(winners.len(), 1);
    assert!(outcomes.iter().filter_map(|result| result.as_ref().err()).all(|error| error.code() == Code::IdTaken));
    let users = world.store.get_users(&[key]).await.expect("users can be read");
    assert_eq!(users[0].as_ref().map(|user| &user.id), Some(&ids[winners[0]]));
}

pub(super) async fn histories_are_linear(world: World) {
    let seed: u64 = rand::rng().random();
    let load = Load { seed, clients: 8, requests: 60 };
    let (first, mark) = world.user_at_mark().await;
    let mut users = world.many_users(4).await;
    users.push(first);
    let records = history::drive(&world.store, &users, load).await;
    let problems = history::check(&records, &*world.store, mark).await;
    assert!(problems.is_empty(), "seed {seed}: {problems:#?}");
}
