//! The hybrid logical clock: 41 bits of milliseconds since 2000-01-01, 10 of server, 12 of counter.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

const COUNTER_BITS: u32 = 12;
const SERVER_BITS: u32 = 10;
const LOW_BITS: u32 = COUNTER_BITS + SERVER_BITS;
const MILLIS_BITS: u32 = 41;
const COUNTER_MAX: u64 = (1 << COUNTER_BITS) - 1;
const SERVER_MAX: u64 = (1 << SERVER_BITS) - 1;
const MILLIS_MAX: u64 = (1 << MILLIS_BITS) - 1;
/// 2000-01-01T00:00:00Z in Unix milliseconds.
const EPOCH_UNIX_MILLIS: i64 = 946_684_800_000;

/// A moment in milliseconds since 2000-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Millis(u64);

impl Millis {
    pub const fn from_since_2000(milliseconds: u64) -> Self {
        Self(if milliseconds > MILLIS_MAX { MILLIS_MAX } else { milliseconds })
    }

    pub const fn since_2000(self) -> u64 {
        self.0
    }

    /// Times before 2000 become 2000: nothing here is older than the clock's own origin.
    pub fn from_unix(milliseconds: i64) -> Self {
        Self::from_since_2000(milliseconds.saturating_sub(EPOCH_UNIX_MILLIS).max(0) as u64)
    }

    pub const fn to_unix(self) -> i64 {
        self.0 as i64 + EPOCH_UNIX_MILLIS
    }

    pub const fn plus(self, milliseconds: u64) -> Self {
        Self::from_since_2000(self.0.saturating_add(milliseconds))
    }

    /// RFC 3339 in UTC with milliseconds, the one form times have in JSON.
    pub fn to_rfc3339(self) -> String {
        jiff::Timestamp::from_millisecond(self.to_unix()).map_or_else(|_| String::new(), |time| format!("{time:.3}"))
    }

    /// A time that is too late is refused, not clamped.
    pub fn parse_rfc3339(text: &str) -> Result<Self> {
        let unix = Self::unix_of_rfc3339(text)?;
        let time = Self::from_unix(unix);
        if unix > time.to_unix() {
            return Err(Error::invalid(format!("{text:?} is after {time}, the last time there is here")));
        }
        Ok(time)
    }

    /// Unix milliseconds of any time, also of one that no `Millis` can hold.
    pub fn unix_of_rfc3339(text: &str) -> Result<i64> {
        let time: jiff::Timestamp = text.parse().map_err(|_| {
            Error::invalid(format!(
                "{text:?} is not an RFC 3339 time such as 2026-01-31T12:00:00.000Z, at most 9999-12-30"
            ))
        })?;
        Ok(time.as_millisecond())
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

/// When a write happened, in an order that never goes back. Fits a signed 64-bit column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version(u64);

/// The version at which an edge became active; lists are ordered by it.
pub type Position = Version;

impl Version {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self((1 << 63) - 1);

    pub const fn new(millis: Millis, server: u16, counter: u16) -> Self {
        Self((millis.0 << LOW_BITS) | ((server as u64 & SERVER_MAX) << COUNTER_BITS) | (counter as u64 & COUNTER_MAX))
    }

    /// The first version of a millisecond: the position of an imported edge.
    pub const fn of_millis(millis: Millis) -> Self {
        Self::new(millis, 0, 0)
    }

    /// Bits above the 63rd are dropped: no input makes a version that a signed column cannot hold.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & Self::MAX.0)
    }

    pub const fn bits(self) -> u64 {
        self.0
    }

    pub const fn millis(self) -> Millis {
        Millis(self.0 >> LOW_BITS)
    }

    pub const fn server(self) -> u16 {
        ((self.0 >> COUNTER_BITS) & SERVER_MAX) as u16
    }

    pub const fn counter(self) -> u16 {
        (self.0 & COUNTER_MAX) as u16
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of one change in a store's log: 1, 2, 3 … without a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sequence(pub u64);

impl Sequence {
    pub const ZERO: Self = Self(0);

    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    pub const fn plus(self, count: u64) -> Self {
        Self(self.0 + count)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Issues versions for one server. The caller passes the time and a floor.
#[derive(Clone, Debug)]
pub struct VersionClock {
    server: u16,
    last: Version,
}

impl VersionClock {
    /// `last` is the greatest version ever stored: after a restart with a clock set back, versions continue above it.
    pub const fn new(server: u16, last: Version) -> Self {
        Self { server, last }
    }

    pub const fn last(&self) -> Version {
        self.last
    }

    /// A version greater than every one issued before and than `floor`.
    pub fn next(&mut self, now: Millis, floor: Version) -> Version {
        let floor = floor.max(self.last);
        let wall = Version::new(now, self.server, 0);
        self.last = if wall > floor { wall } else { self.after(floor) };
        self.last
    }

    /// A version seen from elsewhere; later ones will exceed it.
    pub fn observe(&mut self, version: Version) {
        self.last = self.last.max(version);
    }

    /// A millisecond of another server is skipped: its counter is not ours to use.
    fn after(&self, floor: Version) -> Version {
        if floor.server() == self.server && u64::from(floor.counter()) < COUNTER_MAX {
            Version(floor.0 + 1)
        } else {
            Version::new(floor.millis().plus(1), self.server, 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_counter_borrows_the_next_millisecond() {
        let mut clock = VersionClock::new(3, Version::ZERO);
        let now = Millis::from_since_2000(1_000);
        let mut last = clock.next(now, Version::ZERO);
        for _ in 0..10_000 {
            let next = clock.next(now, Version::ZERO);
            assert!(next > last);
            assert_eq!(next.server(), 3);
            last = next;
        }
        assert_eq!(last.millis().since_2000(), 1_000 + 10_000 / 4_096);
    }

    #[test]
    fn another_servers_equal_millisecond_moves_to_the_next_one() {
        let now = Millis::from_since_2000(50);
        let mut clock = VersionClock::new(1, Version::ZERO);
        let next = clock.next(now, Version::new(now, 2, 7));
        assert_eq!(next, Version::new(now.plus(1), 1, 0));
    }

    #[test]
    fn a_restart_with_the_clock_an_hour_back_goes_on_above() {
        let stored = Version::new(Millis::from_since_2000(7_200_000), 0, 9);
        let mut clock = VersionClock::new(0, stored);
        assert!(clock.next(Millis::from_since_2000(3_600_000), Version::ZERO) > stored);
    }

    #[test]
    fn times_read_back_as_written() {
        let time = Millis::parse_rfc3339("2026-11-15T08:09:10.123Z").unwrap();
        assert_eq!(time.to_rfc3339(), "2026-11-15T08:09:10.123Z");
        assert_eq!(Millis::from_unix(time.to_unix()), time);
        assert_eq!(Millis::parse_rfc3339("1999-01-01T00:00:00Z").unwrap(), Millis::from_since_2000(0));
        assert!(Millis::parse_rfc3339("yesterday").is_err());
        let last = Millis::from_since_2000(u64::MAX);
        assert_eq!(Millis::parse_rfc3339(&last.to_rfc3339()).unwrap(), last);
        for late in ["2069-09-06T15:47:35.552Z", "2136-02-07T06:28:15Z", "9999-12-31T23:59:59.999Z"] {
            assert!(Millis::parse_rfc3339(late).is_err(), "{late}");
        }
    }

    proptest! {
        #[test]
        fn versions_never_go_back(jumps in prop::collection::vec((0u64..8_000_000, 0u64..(1 << 60)), 1..200)) {
            let mut clock = VersionClock::new(5, Version::ZERO);
            let mut last = Version::ZERO;
            for (now, floor) in jumps {
                let floor = if floor % 3 == 0 { Version::from_bits(floor % (9_000_000 << 22)) } else { Version::ZERO };
                let next = clock.next(Millis::from_since_2000(now), floor);
                prop_assert!(next > last && next > floor);
                prop_assert_eq!(next.server(), 5);
                last = next;
            }
        }

        #[test]
        fn parts_make_the_whole(millis in 0u64..(1 << 41), server in 0u16..1024, counter in 0u16..4096) {
            let version = Version::new(Millis::from_since_2000(millis), server, counter);
            prop_assert_eq!(version.millis().since_2000(), millis);
            prop_assert_eq!((version.server(), version.counter()), (server, counter));
            prop_assert!(version <= Version::MAX);
        }
    }
}
