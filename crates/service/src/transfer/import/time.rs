//! Times in files: RFC 3339, or seconds or milliseconds since 1970, also with a fraction. A number that is no time since
//! 2000, such as a weight, is none at all.

use entourage_model::Millis;

use super::row::Reason;

/// Whole numbers from here on are milliseconds, below they are seconds: the year 5138, or 1973.
const SECONDS_BELOW: f64 = 100_000_000_000.0;

/// Which times are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// What lies after it has not happened.
    pub(super) now: Millis,
    /// What is out of range becomes 2000, or now, instead of a reject.
    pub(super) clamps: bool,
}

impl Times {
    /// When something happened.
    pub(super) fn past(self, text: &[u8]) -> Result<Millis, Reason> {
        self.bounded(unix(text)?)
    }

    /// As a number of JSON.
    pub(super) fn past_number(self, number: f64) -> Result<Millis, Reason> {
        self.bounded(of_number(number)?)
    }

    /// When something will end.
    pub(super) fn end(self, text: &[u8]) -> Result<Millis, Reason> {
        self.coming(unix(text)?)
    }

    /// As a number of JSON.
    pub(super) fn end_number(self, number: f64) -> Result<Millis, Reason> {
        self.coming(of_number(number)?)
    }

    fn coming(self, unix: i64) -> Result<Millis, Reason> {
        let time = Millis::from_unix(unix);
        match () {
            () if time <= self.now => Err(Reason::AlreadyOver),
            () if unix > time.to_unix() && !self.clamps => Err(Reason::TimeInFuture),
            () => Ok(time),
        }
    }

    fn bounded(self, unix: i64) -> Result<Millis, Reason> {
        let time = Millis::from_unix(unix);
        match () {
            () if unix < time.to_unix() && !self.clamps => Err(Reason::TimeBefore2000),
            () if unix > self.now.to_unix() && !self.clamps => Err(Reason::TimeInFuture),
            () => Ok(time.min(self.now)),
        }
    }
}

/// Whether it could be when something happened. Without a header nothing else tells a time from a weight.
pub(super) fn is_time(text: &[u8]) -> bool {
    unix(text).is_ok()
}

/// Milliseconds since 1970.
fn unix(text: &[u8]) -> Result<i64, Reason> {
    let text = std::str::from_utf8(text).map_err(|_| Reason::NotUtf8)?;
    match text.parse::<f64>() {
        Ok(number) => of_number(number),
        Err(_) => Millis::unix_of_rfc3339(text).map_err(|_| Reason::InvalidTime),
    }
}

fn of_number(number: f64) -> Result<i64, Reason> {
    // Beyond these limits a conversion would be a guess.
    if !number.is_finite() || number.abs() > 1e18 {
        return Err(Reason::InvalidTime);
    }
    let millis = if number < SECONDS_BELOW { number * 1_000.0 } else { number };
    let unix = millis.round() as i64;
    if unix < Millis::default().to_unix() { Err(Reason::InvalidTime) } else { Ok(unix) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_750_000_000_000;

    fn past(text: &str, clamps: bool) -> Result<i64, &'static str> {
        let times = Times { now: Millis::from_unix(NOW), clamps };
        times.past(text.as_bytes()).map(Millis::to_unix).map_err(Reason::as_str)
    }

    #[test]
    fn every_form_is_the_same_moment() {
        for text in ["1700000000.123", "1700000000123", "1700000000123.4", "1.700000000123e12"] {
            assert_eq!(past(text, false), Ok(1_700_000_000_123), "{text}");
        }
        assert_eq!(past("1289241911.72836", false), Ok(1_289_241_911_728));
        assert_eq!(past("2023-11-14T22:13:20.123Z", false), Ok(1_700_000_000_123));
        assert_eq!(past("2023-11-14 22:13:20.123+00", false), Ok(1_700_000_000_123));
        assert_eq!(past("946684800", false), Ok(946_684_800_000));
        assert_eq!(past(&NOW.to_string(), false), Ok(NOW));
    }

    #[test]
    fn what_ends_ends_later() {
        let times = Times { now: Millis::from_unix(NOW), clamps: true };
        assert_eq!(times.end(b"2025-07-01T00:00:00Z").map(Millis::to_unix), Ok(1_751_328_000_000));
        assert_eq!(times.end(NOW.to_string().as_bytes()), Err(Reason::AlreadyOver));
        assert_eq!(times.end(b"5"), Err(Reason::InvalidTime));
    }

    #[test]
    fn what_is_no_time_since_2000_is_refused() {
        let extremes = ["-9223372036854775808", "9223372036854775807", "-1", "inf", "nan", "1e300", "-1e300"];
        for text in ["0", "5", "-10", "0.35", "946684799", "tomorrow", ""].into_iter().chain(extremes) {
            let text_is = past(text, false);
            assert_eq!(text_is, Err("invalid_time"), "{text}");
            assert_eq!(past(text, true), text_is, "{text} is no time that could be clamped");
        }
        for (text, reason, clamped) in [
            ("1999-12-31T23:59:59Z", "time_before_2000", 946_684_800_000),
            ("1750000000.001", "time_in_future", NOW),
            ("1700000000000000", "time_in_future", NOW),
            ("2099-01-01T00:00:00Z", "time_in_future", NOW),
        ] {
            assert_eq!(past(text, false), Err(reason), "{text}");
            assert_eq!(past(text, true), Ok(clamped), "{text}");
        }
    }
}
