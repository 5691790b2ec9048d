//! What a case may need of a store beyond the clauses.

use entourage_store::{Derived, Guarantees};

pub(super) const fn durable(guarantees: &Guarantees) -> bool {
    guarantees.durable
}

pub(super) const fn peeks(guarantees: &Guarantees) -> bool {
    guarantees.peeks
}

/// One log orders all writes, and both sides of an edge change with it.
pub(super) fn one_order(guarantees: &Guarantees) -> bool {
    guarantees.partitions == 1 && guarantees.derived == Derived::InCommit
}
