//! A run of concurrent clients from its seed to its end.

use super::{
    clients::{Clients, Lie},
    world::World,
};
use entourage_memory::partitioned::bug::Bug;

/// What a run covered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coverage {
    /// The greatest number of buckets of a list.
    pub buckets_max: usize,
    /// How often a reader of events was told to resync.
    pub resumed: usize,
}

/// A run of concurrent clients. `Err` says what went wrong.
pub fn run(seed: u64, bug: Option<Bug>) -> Result<Coverage, String> {
    run_with(seed, bug, None).map(|(coverage, _)| coverage)
}

/// As [`run`], with a lie about a reply. Returns whether it is still to be told.
pub(super) fn run_with(seed: u64, bug: Option<Bug>, lie: Option<Lie>) -> Result<(Coverage, bool), String> {
    let mut world = World::new(seed, bug);
    world.has_clients = true;
    let mut clients = Clients::new(seed);
    clients.begin(&mut world);
    world.settle(&mut clients)?;
    clients.lie = lie;
    for _ in 0..3 {
        for _ in 0..400 {
            world.turn(&mut clients).map_err(|wrong| world.told(&wrong))?;
        }
        world.settle(&mut clients).map_err(|wrong| world.told(&wrong))?;
    }
    world.coverage.resumed = world.replica.resumed;
    Ok((world.coverage, clients.lie.is_some()))
}
