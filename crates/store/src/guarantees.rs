//! What a store promises beyond the clauses of its contract, each promise with a name. The service checks these by
//! name, and the conformance suite leaves out a case for one of these and for nothing else.

use entourage_model::Buckets;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarantees {
    pub name: &'static str,
    /// Acked writes survive the process (C14).
    pub durable: bool,
    /// A peek never answers `Unknown`, and `peek_common` always can (C8).
    pub peeks: bool,
    pub writers: Writers,
    pub order: CommitOrder,
    pub derived: Derived,
    pub mirrors: Mirrors,
    /// The number of event logs; each counts its own events 1, 2, 3 …
    pub partitions: u16,
    /// The number of ranges of a sweep, so that several workers can share it.
    pub ranges: u16,
    /// Over how many owners the server's own records are spread (C24).
    pub buckets: Buckets,
}

/// Who writes to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// This process alone, so that its outcomes are all changes.
    Sole,
    /// Others as well, whose changes show only in the events.
    Many,
}

/// What is known about the order of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOrder {
    /// Commits are decided in the order of submission, and an outcome's watermark is the sequence of its last change.
    Known,
    /// Commits overtake each other, and the watermark is not the sequence of an event.
    Unknown,
}

/// When the derived side of an edge (followers, requests, their totals) is up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Derived {
    #[default]
    InCommit,
    /// Some time after the commit: [`crate::Store::covers`] says when.
    Settling,
}

/// How the two directions of an edge are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mirrors {
    /// Separately, so that they could disagree, and can be compared.
    Compared,
    /// One row is both.
    OneRow,
}

impl Guarantees {
    /// The guarantees of a store that keeps everything in the memory of one process.
    pub const fn in_one_process(name: &'static str) -> Self {
        Self {
            name,
            durable: false,
            peeks: true,
            writers: Writers::Sole,
            order: CommitOrder::Known,
            derived: Derived::InCommit,
            mirrors: Mirrors::Compared,
            partitions: 1,
            ranges: 1,
            buckets: Buckets::ONE,
        }
    }

    /// Whether this process sees every change in its own outcomes, in the order of the log.
    pub fn is_alone(&self) -> bool {
        self.writers == Writers::Sole && self.order == CommitOrder::Known
    }
}
