//! The partitioned engine under every fault of its simulator, and the simulator under every planted bug of the engine.

use entourage_memory::partitioned::Bug;
use entourage_testkit::{
    conformance::{block_on, random},
    simulator as sim,
    simulator::seeds,
};

#[test]
fn concurrent_clients_and_every_fault() {
    let (mut buckets_max, mut resumed) = (0, 0);
    for seed in seeds(400) {
        match sim::run(seed, None) {
            Ok(met) => (buckets_max, resumed) = (met.buckets_max.max(buckets_max), resumed + met.resumed),
            Err(wrong) => panic!("seed {seed}: {wrong}\nreplay with ENTOURAGE_SEED={seed}"),
        }
    }
    println!("lists had up to {buckets_max} buckets, readers of events were sent on {resumed} times");
    let is_one = std::env::var_os("ENTOURAGE_SEED").is_some();
    assert!(is_one || (buckets_max > 2 && resumed > 100), "splits, merges and ends of retention are met");
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let found = seeds(400).into_iter().find_map(|seed| Some((seed, sim::run(seed, Some(bug)).err()?)));
        match found {
            Some((seed, wrong)) => println!("{bug:?}: seed {seed}: {wrong}"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn one_client_hears_and_finds_what_the_reference_says() {
    for seed in seeds(40) {
        let plan = random::Plan::new(seed, 150);
        let run = block_on(async { random::run(sim::store(seed), plan, random::straight_on).await });
        if let Err(failure) = run {
            panic!("{failure}");
        }
    }
}
