//! Checks of what is read from files. A test can leave one out, to see that it is missed; a server does all of them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(test, feature = "planted")), allow(unreachable_pub, reason = "only tests name it from outside"))]
pub enum Check {
    /// Checksums of blocks.
    Blocks = 1,
    /// Sizes and checksums of whole idempotency files.
    RecordFiles,
    /// That each frame follows the one before.
    Continuity,
    /// That the log reaches as far as its seal says.
    Seal,
    /// That the checkpoint is there that the seal names.
    SealedCheckpoint,
    /// Checksums of whole files of blocks, by `verify`.
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

/// Leaves a check out, in all stores of this process; `None`: none.
#[cfg(any(test, feature = "planted"))]
pub fn leave_out(check: Option<Check>) {
    LEFT_OUT.store(check.map_or(0, |check| check as u8), std::sync::atomic::Ordering::Relaxed);
}
