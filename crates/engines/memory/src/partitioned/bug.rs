//! Bugs that this design could have, for the simulator to find. None can occur outside tests.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// A block is acked before the home of its target has it.
    AcksBlockEarly,
    /// An existing or replayed block is acked without checking that the target's home has it.
    ReplaySkipsSecondHalf,
    /// The target's home accepts a block that is older than its end.
    TakesLateBlock,
    /// The target's home accepts whichever half of a follow comes last.
    TakesOldFollow,
    /// A list changes in one step, its total in the next.
    TotalApart,
    /// A paused applier continues where it was.
    ZombieApplies,
    /// The followers of an erased person become those of the next one with that id.
    InheritsFollowers,
    /// A follow that was decided before the account went private is accepted.
    LetsUnaskedIn,
    /// An unanswered commit is refused without making sure that it never arrives.
    RefusesSleeping,
    /// A position from before a fork counts in the log after it.
    ReadsAcrossFork,
    /// An inbox names a new follow until it is read, though the author's home may not know the follower yet.
    FeedHole,
    /// A watermark names the other party only if something changed.
    TokenTells,
    /// A page of a list ends where a bucket does.
    StopsAtBucket,
    /// A watermark of lost writes counts in the new lineage.
    CoversLost,
    /// A commit succeeds though something of its user has changed since it was decided.
    CommitsOutrun,
    /// A parked follow whose release was decided before the account went private is accepted.
    ReleasesUnasked,
    /// The target's home lists a parked follow among the active ones.
    ShowsParked,
}

impl Bug {
    pub const ALL: [Self; 17] = [
        Self::AcksBlockEarly,
        Self::ReplaySkipsSecondHalf,
        Self::TakesLateBlock,
        Self::TakesOldFollow,
        Self::TotalApart,
        Self::ZombieApplies,
        Self::InheritsFollowers,
        Self::LetsUnaskedIn,
        Self::RefusesSleeping,
        Self::ReadsAcrossFork,
        Self::FeedHole,
        Self::TokenTells,
        Self::StopsAtBucket,
        Self::CoversLost,
        Self::CommitsOutrun,
        Self::ReleasesUnasked,
        Self::ShowsParked,
    ];
}

/// Which bug an engine has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted(Option<Bug>);

impl Planted {
    #[cfg(feature = "planted")]
    pub const fn new(bug: Option<Bug>) -> Self {
        Self(bug)
    }

    pub fn is(self, bug: Bug) -> bool {
        cfg!(feature = "planted") && self.0 == Some(bug)
    }
}
