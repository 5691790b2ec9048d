//! What a store promises beyond the clauses of its contract, each promise with a name of its own. The service asks for
//! these by name, and the conformance suite leaves out a case for one of these and for nothing else.

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
    /// How many logs of events there are; each counts its own events 1, 2, 3 …
    pub partitions: u16,
    /// In how many ranges a sweep can be divided, so that several can share the work.
    pub ranges: u16,
    /// Over how many owners the server's own records are spread (C24).
    pub buckets: Buckets,
}

/// Who changes what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// This process alone, so that whoever hears of its outcomes knows of every change.
    Sole,
    /// Others as well, of whom only the events tell.
    Many,
}

/// What is known of the order of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOrder {
    /// Commits are decided in the order in which they were handed in, and an outcome's watermark is the sequence of its
    /// last change.
    Known,
    /// Commits overtake each other, and the watermark is another number than the sequence of an event.
    Unknown,
}

/// When the side of an edge that its owner does not own (followers, requests, their totals) is up to date.
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
    /// Apart, so that they could disagree, and can be compared.
    Compared,
    /// One row is both.
    OneRow,
}

impl Guarantees {
    /// What a store promises that keeps everything in the memory of one process.
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

    /// Whether this process hears of every change by its own outcomes, in the order of the log.
    pub fn is_alone(&self) -> bool {
        self.writers == Writers::Sole && self.order == CommitOrder::Known
    }
}
