//! Pseudo-random numbers, the same in every run.

/// SplitMix64: the value at `index` of the stream `seed`, without going through the ones before it.
pub(crate) const fn at(seed: u64, index: u64) -> u64 {
    let mut value = seed.wrapping_add((index.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A stream of them.
pub(crate) struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        let value = at(self.seed, self.drawn);
        self.drawn += 1;
        value
    }

    /// Below `bound`.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        scale(self.next(), bound)
    }

    /// At least 0 and below 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Maps a random value below `bound`.
pub(crate) const fn scale(value: u64, bound: u64) -> u64 {
    ((value as u128 * bound as u128) >> 64) as u64
}

pub(crate) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut random = Random::new(seed);
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}
