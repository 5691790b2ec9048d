//! Which of the un-synced changes survive a power cut.

/// What the disk holds after the cut, beyond what was made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// None of the un-synced changes.
    Nothing,
    /// All of them: what a process saw last. This is also what a killed process leaves behind.
    Everything,
    /// Some of them, the same ones for the same seed: every write sector by sector, so that writes are torn and seem
    /// reordered; sizes without their data; changes of names either up to some point in time or each by itself.
    Random(u64),
}

impl Image {
    pub(super) fn chance(self) -> Chance {
        Chance(match self {
            Self::Nothing | Self::Everything => 0,
            Self::Random(seed) => seed,
        })
    }
}

/// SplitMix64: a seed noted in a failure must mean the same image for ever, whatever crate version is in use.
pub(super) struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}
