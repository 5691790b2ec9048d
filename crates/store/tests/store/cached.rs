//! The cached layer under the whole suite: with room, without, restarted, restarted with a damaged snapshot.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use entourage_model::{Key, Lineage, Operation, Overwrite, Result, UserId, UserPatch, Watermark};
use entourage_store::{Covered, Store, StoreExt as _, Whose, disk::Disk as _, layers::cached::Options};
use entourage_testkit::cached::{Witness, memory, over, over_with_disk, slow, tiny};
use entourage_testkit::{
    conformance::{
        block_on,
        hooked::{Hooked, Hooks},
        random,
    },
    crash_disk::CrashDisk,
};

async fn roomy() -> Arc<dyn Store> {
    Arc::new(over(memory(), Options::default()).await)
}

async fn cramped() -> Arc<dyn Store> {
    Arc::new(over(memory(), tiny()).await)
}

mod with_room {
    use super::roomy;

    entourage_testkit::conformance!(
        fresh = roomy,
        skips = [
            "sweeps::a_cursor_stays_good_after_reopening",
            "parked::parked_follows_survive_reopening",
            "races::cap_is_exact_at_9_999",
            "quotas::what_was_taken_survives_reopening",
            "records::a_large_group_goes_in_chunks",
            "records::records_survive_reopening",
            "fences::they_survive_reopening",
            "posts::they_survive_reopening",
            "erasing::erasing_survives_reopening",
            "life::a_closed_store_refuses_writes",
            "life::acked_writes_survive_reopening",
            "life::retries_are_recognised_after_reopening",
            "life::versions_and_sequences_go_on_after_reopening",
        ]
    );
}

mod evicting_all_the_time {
    use super::cramped;

    entourage_testkit::conformance!(
        fresh = cramped,
        skips = [
            "sweeps::a_cursor_stays_good_after_reopening",
            "parked::parked_follows_survive_reopening",
            "races::cap_is_exact_at_9_999",
            "quotas::what_was_taken_survives_reopening",
            "records::a_large_group_goes_in_chunks",
            "records::records_survive_reopening",
            "fences::they_survive_reopening",
            "posts::they_survive_reopening",
            "erasing::erasing_survives_reopening",
            "life::a_closed_store_refuses_writes",
            "life::acked_writes_survive_reopening",
            "life::retries_are_recognised_after_reopening",
            "life::versions_and_sequences_go_on_after_reopening",
        ]
    );
}

#[test]
fn random_operations_agree_with_the_reference() {
    random::run_seeds(8, 1_500, roomy);
}

#[test]
fn random_operations_agree_while_everything_is_evicted() {
    random::run_seeds(6, 1_200, cramped);
}

/// A comparison of what nobody knew would show nothing.
#[test]
fn what_random_operations_compare_comes_from_memory() {
    block_on(async {
        let steps = 1_000;
        for (options, is_cramped) in [(Options::default(), false), (tiny(), true)] {
            let layer = Arc::new(over(memory(), options).await);
            let witness = Witness::of(Arc::clone(&layer) as _);
            let run = random::run(Arc::clone(&witness) as _, random::Plan::new(1, steps), random::straight_on).await;
            run.unwrap_or_else(|wrong| panic!("{wrong}"));
            let ((checks, intersections), figures) = (witness.hooks.known(), layer.figures());
            if is_cramped {
                assert!(figures.evictions > steps as u64 && figures.misses > figures.hits, "{figures:?}");
                assert!(checks > 100, "{checks} checks were answered by memory");
            } else {
                assert!(figures.evictions == 0 && figures.hits > 4 * figures.misses, "{figures:?}");
                assert!(checks > 10_000 && intersections > 2_000, "{checks} checks, {intersections} intersections");
            }
        }
    });
}

#[test]
fn random_operations_agree_over_a_slow_store() {
    let slow = || slow::Slow::over(memory());
    random::run_seeds(2, 300, async || Arc::new(over(slow(), Options::default()).await) as Arc<dyn Store>);
    random::run_seeds(2, 300, async || Arc::new(over(slow(), tiny()).await) as Arc<dyn Store>);
}

#[test]
fn two_servers_on_a_slow_store() {
    block_on(slow::two_servers_on_a_slow_store(memory(), 300));
}

/// What happens to the snapshot between two lives of the layer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meanwhile {
    Nothing,
    Damaged,
    Cut,
    /// Writes go to the store without the layer's knowledge.
    OldSnapshot,
}

#[test]
fn the_same_operations_have_the_same_answers_on_off_and_restarted() {
    for seed in 0..4 {
        let plan = random::Plan::new(seed, 1_000);
        let bare = block_on(random::run(memory(), plan, random::straight_on)).unwrap_or_else(|wrong| panic!("{wrong}"));
        assert!(!bare.outcomes.is_empty());
        for meanwhile in [Meanwhile::Nothing, Meanwhile::Damaged, Meanwhile::Cut, Meanwhile::OldSnapshot] {
            let met = block_on(restarted_now_and_then(plan, meanwhile));
            assert_eq!(met, bare.outcomes.len(), "{meanwhile:?}");
        }
    }
}

async fn restarted_now_and_then(plan: random::Plan, meanwhile: Meanwhile) -> usize {
    let (inner, disk) = (memory(), CrashDisk::new());
    let open = async |disk: &CrashDisk| -> Arc<dyn Store> {
        let layer = over_with_disk(Arc::clone(&inner), Options::default(), Arc::new(disk.clone())).await;
        let is_there = disk.contents("cache.snapshot").is_ok();
        let is_whole = matches!(meanwhile, Meanwhile::Nothing | Meanwhile::OldSnapshot);
        assert_eq!(layer.figures().rows > 0, is_there && is_whole, "{meanwhile:?}: what is held at the start");
        Arc::new(layer) as Arc<dyn Store>
    };
    let first = open(&disk).await;
    let mut kept: Option<Vec<u8>> = None;
    let run = random::run(first, plan, async |step, store| {
        if step % 60 != 59 {
            return store;
        }
        store.close().await.unwrap();
        drop(store);
        let bytes = disk.contents("cache.snapshot").unwrap();
        let put = |bytes: &[u8]| disk.create("cache.snapshot").unwrap().write_at(bytes, 0).unwrap();
        match meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::Damaged => {
                let mut bytes = bytes;
                let at = (step * 7_919) % bytes.len();
                bytes[at] ^= 1 << (step % 8);
                put(&bytes);
            }
            Meanwhile::Cut => put(&bytes[..bytes.len() * (step % 7) / 7]),
            Meanwhile::OldSnapshot => put(kept.get_or_insert(bytes)),
        }
        open(&disk).await
    });
    run.await.unwrap_or_else(|wrong| panic!("{meanwhile:?}: {wrong}")).outcomes.len()
}

/// A store that was promoted from an earlier moment: what came after it is lost.
#[derive(Default)]
struct Forks {
    is_forked: AtomicBool,
}

const FORKED: Lineage = Lineage(77);

#[async_trait]
impl Hooks for Forks {
    fn lineage(&self, inner: &dyn Store) -> Lineage {
        if self.is_forked.load(Ordering::SeqCst) { FORKED } else { inner.lineage() }
    }

    async fn covers(&self, inner: &dyn Store, watermark: &Watermark, whose: Whose<'_>) -> Result<Covered> {
        if self.is_forked.load(Ordering::SeqCst) && watermark.lineage() != FORKED {
            return Ok(Covered::OtherLineage);
        }
        inner.covers(watermark, whose).await
    }
}

/// Memory has the write, and no pass has noticed the fork: the token is asked of the store all the same.
#[test]
fn a_token_of_a_lost_write_is_refused_as_soon_as_the_store_knows() {
    block_on(async {
        let store = Arc::new(Hooked::new(memory(), Forks::default()));
        let options = Options { interval: Duration::from_secs(3_600), ..Options::default() };
        let cached = over(Arc::clone(&store) as Arc<dyn Store>, options).await;
        let (key, id, patch) = (Key(1), UserId::from(1), UserPatch::default());
        let put = Operation::PutUser { key, id, patch, overwrite: Overwrite::Replace };
        let token = cached.commit(put.into()).await.unwrap().watermark;
        cached.catch_up().await.unwrap();
        let covers = async || cached.covers(&token, Whose::Everybody).await.unwrap();
        assert_eq!(covers().await, Covered::Yes);
        store.hooks.is_forked.store(true, Ordering::SeqCst);
        assert_eq!(covers().await, Covered::OtherLineage);
    });
}
