//! How much a candidate counts: what each first hop that follows them adds to their score.
//!
//! Whatever the ranker, candidates are in the order of their score, then of their public followers, fewest first, then of
//! their keys. With `common` that is the order of `common`, then Jaccard, then key: Jaccard is `common / (n + followers −
//! common)`, and of two candidates with the same `common` the one with fewer followers has the greater one. So no
//! fraction is ever computed, and no two machines round it differently.

use entourage_model::{Error, Result};

use super::friends_of_friends::FIRST_HOPS_MAX;

/// Names a ranker in settings and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RankerName {
    /// How many of those whom the viewer follows follow them; then Jaccard.
    #[default]
    Common,
    /// Adamic–Adar: somebody who follows few says more than somebody who follows many.
    AdamicAdar,
    /// Those whom the viewer followed lately say more.
    Recent,
}

impl RankerName {
    pub const ALL: [Self; 3] = [Self::Common, Self::AdamicAdar, Self::Recent];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::AdamicAdar => "adamic_adar",
            Self::Recent => "recent",
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        let unknown = || {
            const NAMES: &str = "common, adamic_adar or recent";
            Error::invalid(format!("the ranker is not valid: it is {NAMES}")).at("/ranker", NAMES)
        };
        Self::ALL.into_iter().find(|ranker| ranker.as_str() == text).ok_or_else(unknown)
    }

    pub(super) fn ranker(self) -> &'static dyn Ranker {
        match self {
            Self::Common => &Common,
            Self::AdamicAdar => &AdamicAdar,
            Self::Recent => &Recent,
        }
    }
}

/// Somebody whom the viewer follows and whose follows they may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    /// From the newest follow of the viewer, 0.
    pub(super) place: usize,
    /// How many they follow, as everybody may know it. 0 for a ranker that does not ask.
    pub(super) following: u64,
}

pub(super) trait Ranker: Send + Sync {
    /// From 1 to [`WEIGHT_MAX`]. Scores are sums of whole numbers: their order is that of no addition.
    fn weight(&self, hop: &Hop) -> u32;

    /// Whether [`Hop::following`] has to be known.
    fn asks_following(&self) -> bool {
        false
    }
}

/// A score, the sum over all first hops, fits into 32 bits.
pub(super) const WEIGHT_MAX: u32 = u32::MAX / FIRST_HOPS_MAX as u32;

struct Common;

impl Ranker for Common {
    fn weight(&self, _hop: &Hop) -> u32 {
        1
    }
}

struct AdamicAdar;

/// A weight of 1 in fixed-point numbers.
const ONE: f64 = (1 << 20) as f64;

impl Ranker for AdamicAdar {
    fn weight(&self, hop: &Hop) -> u32 {
        // From 2 on the logarithm is above zero.
        ((ONE / (hop.following.max(2) as f64).ln()) as u32).clamp(1, WEIGHT_MAX)
    }

    fn asks_following(&self) -> bool {
        true
    }
}

struct Recent;

impl Ranker for Recent {
    fn weight(&self, hop: &Hop) -> u32 {
        FIRST_HOPS_MAX.saturating_sub(hop.place).max(1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_stay_within_their_bounds_and_fall() {
        for name in RankerName::ALL {
            assert_eq!(RankerName::parse(name.as_str()).unwrap(), name);
            let weight = |place, following| name.ranker().weight(&Hop { place, following });
            for (place, following) in [(0, 0), (0, 1), (1, 2), (7, 500), (499, 10_000), (10_000, u64::MAX)] {
                assert!((1..=WEIGHT_MAX).contains(&weight(place, following)), "{name:?}");
            }
            assert!(weight(0, 3) >= weight(400, 4_000));
        }
        assert!(RankerName::parse("jaccard").is_err());
        assert_eq!(RankerName::Common.ranker().weight(&Hop { place: 3, following: 9 }), 1);
    }
}
