//! Chance for the demo that is the same every time.

/// How steeply fame falls off with rank.
const EXPONENT: f64 = 0.8;

/// SplitMix64: the same numbers on every machine and in every version.
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A place in the order of fame.
    pub(super) fn rank(&mut self, people: usize) -> usize {
        let fraction = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let spread = (people as f64 + 1.0).powf(1.0 - EXPONENT) - 1.0;
        let rank = (spread * fraction + 1.0).powf(1.0 / (1.0 - EXPONENT)) as usize - 1;
        rank.min(people - 1)
    }
}
