//! The engine under every fault between two homes, driven by a seed.

mod checks;
mod chronicle;
mod clients;
mod driven;
mod explain;
mod faults;
mod feed;
mod history;
mod lists;
#[cfg(test)]
mod proof;
mod replica;
mod run;
mod schedule;
mod settle;
mod tokens;
mod window;
mod world;

pub use self::{
    driven::{forgetful_store, store},
    run::{Coverage, run},
};

/// `ENTOURAGE_SEED=n` replays one seed, `ENTOURAGE_SOAK=1` runs twenty times as many. Always the same ones first, so
/// that the same seed finds a planted bug on every machine.
pub fn seeds(count: u64) -> Vec<u64> {
    let variable = |name| std::env::var(name).ok();
    match variable("ENTOURAGE_SEED") {
        Some(text) => vec![text.parse().expect("ENTOURAGE_SEED is a number")],
        None if variable("ENTOURAGE_SOAK").is_some_and(|soak| soak == "1") => (0..count * 20).collect(),
        None => (0..count).collect(),
    }
}
