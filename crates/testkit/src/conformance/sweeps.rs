//! Sweeps: range by range, page by page, resumable.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use entourage_model::{Code, Key};

use super::{
    operations::{erase, erase_edges},
    world::World,
};
use entourage_store::{Store, StoreExt as _, Sweep, SweepCursor};

/// How often a sweep of every range showed each user; its cursors are serialized.
async fn shown(store: &dyn Store, limit: usize) -> BTreeMap<Key, u32> {
    let mut shown = BTreeMap::new();
    for range in 0..store.guarantees().ranges {
        let mut after: Option<SweepCursor> = None;
        loop {
            let page = store.sweep(range, after.as_ref(), limit).await.expect("users can be swept");
            assert!(page.users.len() <= limit, "{} users of {limit}", page.users.len());
            for user in page.users {
                *shown.entry(user.key).or_default() += 1;
            }
            let Some(next) = page.next else { break };
            after = Some(SweepCursor::of_bytes(next.as_bytes()));
        }
    }
    shown
}

pub(super) async fn everybody_is_shown_once(world: World) {
    let mut own = world.many_users(60).await;
    for gone in own.split_off(40) {
        world.done(erase(gone)).await;
    }
    let store = &*world.store;
    for limit in [7, 100, usize::MAX] {
        let shown = shown(store, limit).await;
        assert!(own.iter().all(|key| shown.get(key) == Some(&1)), "pages of {limit}");
        let users = store.get_users(&own).await.expect("users can be read");
        let swept = store.sweep_all().await.expect("users can be swept");
        assert!(users.iter().flatten().all(|user| swept.contains(user)), "each as it is");
    }
    let past = store.sweep(store.guarantees().ranges, None, 9).await.expect("nobody is there");
    assert_eq!(past, Default::default());
    let foreign = SweepCursor::of_bytes(b"of another store");
    let refused = store.sweep(0, Some(&foreign), 9).await.expect_err("it cannot be read");
    assert_eq!(refused.code(), Code::InvalidRequest);
}

pub(super) async fn nobody_is_missed_while_others_come_and_go(world: World) {
    let own = world.many_users(50).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let (world, stop) = (world.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                // Bounded: users created behind the sweep are swept as well.
                for _ in (0..50).take_while(|_| !stop.load(Ordering::Relaxed)) {
                    for key in world.many_users(4).await {
                        world.done(erase(key)).await;
                        world.done(erase_edges(key, 9)).await;
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for limit in [5, 20, 64] {
        let shown = shown(&*world.store, limit).await;
        let wrong: Vec<_> = own.iter().filter(|key| shown.get(key) != Some(&1)).collect();
        assert!(wrong.is_empty(), "pages of {limit}: {wrong:?} were there throughout");
        tokio::task::yield_now().await;
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("the writer ends");
    }
}

pub(super) async fn a_cursor_stays_good_after_reopening(mut world: World) {
    let own = world.many_users(30).await;
    let mut shown: BTreeMap<Key, u32> = BTreeMap::new();
    let mut sweep = Sweep::default();
    for round in 0.. {
        let Some(page) = sweep.next(&*world.store, 11).await.expect("users can be swept") else { break };
        for user in page {
            *shown.entry(user.key).or_default() += 1;
        }
        sweep = Sweep::from_bytes(&sweep.to_bytes()).expect("it reads back");
        if round == 1 {
            world.many_users(3).await;
            world = world.reopened().await;
        }
    }
    assert!(own.iter().all(|key| shown.get(key) == Some(&1)));
}
