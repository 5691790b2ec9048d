//! Versions of this process: above everything it issued and everything a write is decided on, and never far ahead of the
//! database's time.
//!
//! A clock that was wrong once leaves versions behind that lie ahead. What is written on such a row goes just above it, as
//! it must; nothing else does. This process issues its other versions by the time, and a token that names a moment ahead
//! raises nothing.

use entourage_model::{Millis, Version, VersionClock};

use super::time::latest;

pub(super) struct Versions {
    clock: VersionClock,
    number: u16,
    /// Keeps versions above different rows of one millisecond apart.
    counter: u16,
}

/// The time is ahead of the database's by more than a clock may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooFarAhead;

impl Versions {
    /// Replaced by the first lease, before any version is made.
    pub(super) const fn none_yet() -> Self {
        Self { clock: VersionClock::new(0, Version::ZERO), number: 0, counter: 0 }
    }

    /// With another server number, above the greatest version stored, unless that lies ahead.
    pub(super) fn renumber(&mut self, number: u16, high_water: Version, database: Millis) {
        let is_ahead = |version: &Version| version.millis() > latest(database);
        if is_ahead(&high_water) {
            tracing::warn!(
                until = %high_water.millis(),
                "some rows of the schema have versions that are ahead of PostgreSQL's clock"
            );
        }
        let known = [high_water, self.clock.last()].into_iter().filter(|version| !is_ahead(version));
        self.clock = VersionClock::new(number, known.max().unwrap_or(Version::ZERO));
        self.number = number;
    }

    /// Above `stored`, what the write is decided on, and above the `floor` that its caller names.
    pub(super) fn next(
        &mut self,
        now: Millis,
        database: Millis,
        stored: Version,
        floor: Version,
    ) -> Result<Version, TooFarAhead> {
        let latest = latest(database);
        if stored.millis() > latest {
            self.counter = self.counter.wrapping_add(1);
            return Ok(Version::new(stored.millis().plus(1), self.number, self.counter));
        }
        if now > latest {
            return Err(TooFarAhead);
        }
        if self.clock.last().millis() > latest {
            // The database's clock was set back.
            self.clock = VersionClock::new(self.number, Version::ZERO);
        }
        Ok(self.clock.next(now, stored.max(obeyed(floor, database))))
    }
}

/// A floor that lies ahead counts for nothing: obeyed, it would carry a wrong clock from row to row.
pub(super) fn obeyed(floor: Version, database: Millis) -> Version {
    if floor.millis() > latest(database) { Version::ZERO } else { floor }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis::from_since_2000(1_000_000_000);
    const AHEAD: Millis = Millis::from_since_2000(1_000_600_000);

    fn versions() -> Versions {
        let mut versions = Versions::none_yet();
        versions.renumber(3, Version::ZERO, NOW);
        versions
    }

    #[test]
    fn a_row_that_is_ahead_takes_writes_and_infects_nothing() {
        let mut versions = versions();
        let first = versions.next(NOW, NOW, Version::ZERO, Version::ZERO).unwrap();
        let row = Version::new(AHEAD, 9, 4_095);
        let above = versions.next(NOW, NOW, row, Version::ZERO).unwrap();
        assert!(above > row && above.millis() == AHEAD.plus(1), "just above it");
        // Another row that was written in the same millisecond gets another version.
        assert_ne!(versions.next(NOW, NOW, row, Version::ZERO).unwrap(), above);
        // Neither the process nor the token of that write goes on from there.
        let next = versions.next(NOW, NOW, Version::ZERO, above).unwrap();
        assert!(next > first && next.millis() == NOW);
        assert_eq!([first, above, next].map(Version::server), [3; 3]);
    }

    #[test]
    fn floors_up_to_five_seconds_ahead_are_obeyed() {
        let mut versions = versions();
        let floor = Version::new(NOW.plus(4_999), 9, 7);
        assert!(versions.next(NOW, NOW, Version::ZERO, floor).unwrap() > floor);
        let floor = Version::new(NOW.plus(5_000), 9, 0);
        let next = versions.next(NOW.plus(1), NOW.plus(1), Version::ZERO, floor).unwrap();
        assert!(next > floor && next.millis() <= latest(NOW.plus(1)));
    }

    #[test]
    fn a_time_that_is_ahead_makes_no_version_and_leaves_no_trace() {
        let mut versions = versions();
        assert_eq!(versions.next(AHEAD, NOW, Version::ZERO, Version::ZERO), Err(TooFarAhead));
        assert_eq!(versions.next(NOW, NOW, Version::ZERO, Version::ZERO).unwrap().millis(), NOW);
    }

    #[test]
    fn versions_go_on_above_what_is_stored_unless_that_is_ahead() {
        let (mut versions, near) = (versions(), Version::new(NOW.plus(4_000), 1, 0));
        versions.renumber(4, near, NOW);
        assert!(versions.next(NOW, NOW, Version::ZERO, Version::ZERO).unwrap() > near);
        versions.renumber(5, Version::of_millis(AHEAD), NOW);
        let next = versions.next(NOW, NOW, Version::ZERO, Version::ZERO).unwrap();
        assert!(next > near && next.millis() < AHEAD, "above what this process issued");
    }

    #[test]
    fn a_database_whose_clock_was_set_back_is_followed() {
        let mut versions = versions();
        versions.next(AHEAD, AHEAD, Version::ZERO, Version::ZERO).unwrap();
        assert_eq!(versions.next(NOW, NOW, Version::ZERO, Version::ZERO).unwrap().millis(), NOW);
    }
}
