//! What one server of a store does at a time, and the right to do it.

use entourage_model::{Fence, Lease, Result};

use crate::writer::fenced;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Duty {
    /// Jobs, and mutes that end.
    Jobs,
    /// Scheduled tasks but the audit.
    Scheduler,
    /// The audit of counts.
    Audit,
    /// The sweep behind the leaderboard.
    Leaderboard,
}

impl Duty {
    pub const ALL: [Self; 4] = [Self::Jobs, Self::Scheduler, Self::Audit, Self::Leaderboard];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Scheduler => "scheduler",
            Self::Audit => "audit",
            Self::Leaderboard => "leaderboard",
        }
    }
}

/// The right to a duty as of an epoch. It is not given back: it ends when another server takes a greater epoch.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(super) duty: Duty,
    /// `None` where one process has the store.
    fence: Option<Fence>,
}

impl Held {
    pub(crate) const fn alone(duty: Duty) -> Self {
        Self { duty, fence: None }
    }

    pub(super) fn at(duty: Duty, epoch: u64) -> Result<Self> {
        let lease = Lease::new(duty.as_str().as_bytes())?;
        Ok(Self { duty, fence: Some(Fence { lease, epoch }) })
    }

    pub(super) fn epoch(&self) -> u64 {
        self.fence.as_ref().map_or(0, |fence| fence.epoch)
    }

    /// Every write of this work carries the epoch as its fence.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.fence {
            Some(fence) => fenced(fence.clone(), work).await,
            None => work.await,
        }
    }
}
