//! Checks of data read from files. A test can leave one out, to show that it is needed; a server does all of them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(test, feature = "planted")), allow(unreachable_pub, reason = "only tests name it from outside"))]
pub enum Check {
    /// Checksums of blocks.
    Blocks = 1,
    /// Sizes and checksums of whole idempotency files.
    RecordFiles,
    /// Each frame follows the one before.
    Continuity,
    /// The log reaches as far as its seal says.
    Seal,
    /// The checkpoint that the seal names exists.
    SealedCheckpoint,
    /// Checksums of whole block files, by `verify`.
    BlockFiles,
}

impl Check {
    #[cfg(any(test, feature = "planted"))]
    pub const ALL: [Self; 6] =
        [Self::Blocks, Self::RecordFiles, Self::Continuity, Self::Seal, Self::SealedCheckpoint, Self::BlockFiles];

    #[cfg(not(any(test, feature = "planted")))]
    pub(crate) const fn is_done(self) -> bool {
        true
    }

    #[cfg(any(test, feature = "planted"))]
    pub(crate) fn is_done(self) -> bool {
        LEFT_OUT.load(std::sync::atomic::Ordering::Relaxed) != self as u8
    }
}

#[cfg(any(test, feature = "planted"))]
static LEFT_OUT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Leaves a check out in all stores of this process; `None`: does all of them.
#[cfg(any(test, feature = "planted"))]
pub fn leave_out(check: Option<Check>) {
    LEFT_OUT.store(check.map_or(0, |check| check as u8), std::sync::atomic::Ordering::Relaxed);
}
