//! Durations such as `7d`, sizes such as `16GiB`, and comma-separated lists.

use std::time::Duration;

const DURATIONS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZES: &[(&str, u64)] =
    &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("B", 1), ("", 1)];

/// The longest duration, a hundred years: adding it to any time, or subtracting it, does not overflow.
pub const DURATION_MAX: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);
/// The largest size, 1 PiB, and the largest count: sums and products of a few do not overflow.
const SIZE_MAX: u64 = 1 << 50;
const COUNT_MAX: u64 = 1_000_000_000_000;

/// A duration such as 7d; `None` also above [`DURATION_MAX`].
pub fn duration(text: &str) -> Option<Duration> {
    in_units(text, DURATIONS).map(Duration::from_millis).filter(|time| *time <= DURATION_MAX)
}

pub(super) fn bytes(text: &str) -> Option<u64> {
    in_units(text, SIZES).filter(|size| *size <= SIZE_MAX)
}

pub(super) fn count(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|count| is_number && *count <= COUNT_MAX)
}

/// Items separated by commas or newlines; empty text is an empty list.
pub(super) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', '\n']).map(str::trim).filter(|item| !item.is_empty())
}

fn in_units(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_exactly() {
        let cases =
            [("7d", Some(604_800_000)), ("24h", Some(86_400_000)), ("5m", Some(300_000)), ("90s", Some(90_000))];
        for (text, millis) in cases.into_iter().chain([("20ms", Some(20)), ("7", None), ("d", None), ("-1d", None)]) {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text}");
        }
        assert_eq!(duration("1w"), None);
        assert_eq!(duration("36500d"), Some(DURATION_MAX));
        for text in ["36501d", "3153600000001ms", "213503982334d", "18446744073709551615ms", "18446744073709551616ms"] {
            assert_eq!(duration(text), None, "{text}");
        }
        for (text, number) in [("0", Some(0)), ("1000000000000", Some(COUNT_MAX)), ("1000000000001", None)] {
            assert_eq!(count(text), number, "{text}");
        }
        for text in ["", "-1", "+1", " 1", "1e3", "18446744073709551615", "99999999999999999999"] {
            assert_eq!(count(text), None, "{text}");
        }
        let cases = [("16GiB", Some(16 << 30)), ("1024", Some(1024)), ("3 MiB", Some(3 << 20)), ("10GB", None)];
        for (text, size) in cases.into_iter().chain([
            ("", None),
            ("1.5GiB", None),
            ("99999999999TiB", None),
            ("1024TiB", Some(SIZE_MAX)),
            ("1025TiB", None),
        ]) {
            assert_eq!(bytes(text), size, "{text}");
        }
    }
}
