//! One suite for every store and every stack of layers.
//!
//! A backend stamps it in an integration test of its own:
//!
//! ```text
//! async fn fresh() -> Arc<dyn Store> { … }          // or -> Fixture, with `reopened_by` when durable
//!
//! entourage_testkit::conformance!(fresh = fresh, skips = ["life::acked_writes_survive_reopening"]);
//! ```
//!
//! The macro makes one `#[test]` for each case of [`CASES`], so none can be forgotten, and one that compares the
//! skipped cases with `skips`. Only the store's [`entourage_store::Guarantees`] skip a case. `fresh` may make a new
//! store each time or reopen a shared place: cases create their own users and read nobody else's. (Cases of durable
//! stores close what `fresh` opened, so only a store that is not durable can be shared itself.) All run on one runtime
//! that outlives them, so a shared connection pool does too. Each case names the clauses of [`entourage_store::Store`]
//! it tests and ends with a clean `verify`.
//!
//! Beside the cases: [`random`] compares a long random run with [`reference`], a graph written from the rules alone;
//! [`history`] judges the replies to concurrent writers, also after a crash. Both come from a seed, which they print
//! when they fail. A backend stamps the first like this, and reopens now and then if its fixture can:
//!
//! ```text
//! #[test]
//! fn random_operations_agree_with_the_reference() {
//!     random::run_seeds(20, 2_000, fresh);
//! }
//! ```

mod blocks;
mod checks;
mod counts;
mod erasing;
mod events;
mod fences;
mod follows;
pub mod history;
pub mod hooked;
mod idempotency;
mod life;
mod list;
mod lists;
mod operations;
mod pages;
mod parked;
mod past;
#[cfg(test)]
mod planted;
mod posts;
mod promise;
mod quotas;
mod races;
pub mod random;
mod records;
pub mod reference;
mod requests;
mod runtime;
pub(crate) mod settled;
mod sweeps;
mod users;
mod versions;
mod world;

use std::{future::Future, pin::Pin};

use self::world::World;
pub use self::{list::CASES, runtime::block_on, world::Fixture};
use entourage_store::Guarantees;

type Run = fn(World) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// One behaviour of a store.
pub struct Case {
    /// `topic::behaviour`.
    pub name: &'static str,
    /// The clauses of the store's contract that it tests.
    pub clauses: &'static [&'static str],
    /// Whether a store with these guarantees promises it.
    applies: fn(&Guarantees) -> bool,
    run: Run,
}

impl Case {
    pub fn named(name: &str) -> &'static Self {
        CASES.iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case is named {name}"))
    }

    /// Panics if the store misbehaves; says so if the case is not among its promises.
    pub async fn run(&self, fixture: impl Into<Fixture>) {
        let world = World::new(fixture.into());
        let guarantees = world.store.guarantees();
        if !(self.applies)(&guarantees) {
            println!("skipped on {}: {} ({})", guarantees.name, self.name, self.clauses.join(" "));
            return;
        }
        (self.run)(world).await;
    }
}

/// The names of the cases that a store with these guarantees skips.
pub fn skipped(guarantees: &Guarantees) -> Vec<&'static str> {
    CASES.iter().filter(|case| !(case.applies)(guarantees)).map(|case| case.name).collect()
}

/// A fixture that is being made.
pub type Making = Pin<Box<dyn Future<Output = Fixture>>>;

/// Runs one case. Not generic: hundreds of stamped tests call it, and each would be compiled with a runtime of its own.
pub fn run_case(name: &str, fresh: fn() -> Making) {
    block_on(async { Case::named(name).run(fresh().await).await });
}

/// Compares what a store's guarantees leave out with what is expected.
pub fn compare_skips(fresh: fn() -> Making, expected: &[&str]) {
    block_on(async { assert_eq!(skipped(&fresh().await.guarantees()), expected) });
}

/// Stamps every case on a store: `fresh` is an async function without arguments that returns an `Arc<dyn Store>` or a
/// [`Fixture`], `skips` the names of the cases that its guarantees leave out.
#[macro_export]
macro_rules! conformance {
    (fresh = $fresh:path, skips = [$($skip:literal),* $(,)?]) => {
        fn conformance_fixture() -> $crate::conformance::Making {
            Box::pin(async { $crate::conformance::Fixture::from($fresh().await) })
        }

        #[test]
        fn skips_are_the_expected_ones() {
            $crate::conformance::compare_skips(conformance_fixture, &[$($skip),*]);
        }
        $crate::conformance_cases! { conformance_stamp() }
    };
}

/// One test for each case.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_stamp {
    (() $($topic:ident { $($name:ident [$($clause:ident)+] $(if $promise:ident)?;)+ })+) => {
        $(mod $topic {
            $(#[test]
            fn $name() {
                let case = concat!(stringify!($topic), "::", stringify!($name));
                $crate::conformance::run_case(case, super::conformance_fixture);
            })+
        })+
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clause_is_shown_and_every_name_is_its_own() {
        for number in 1..=31 {
            let clause = format!("C{number}");
            assert!(CASES.iter().any(|case| case.clauses.contains(&clause.as_str())), "nothing shows {clause}");
        }
        let names: std::collections::HashSet<_> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
    }
}
