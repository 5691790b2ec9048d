//! Durations such as `7d`, sizes such as `16GiB`, and lists with commas between.

use std::time::Duration;

const DURATIONS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZES: &[(&str, u64)] =
    &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("B", 1), ("", 1)];

pub(super) fn duration(text: &str) -> Option<Duration> {
    in_units(text, DURATIONS).map(Duration::from_millis)
}

pub(super) fn bytes(text: &str) -> Option<u64> {
    in_units(text, SIZES)
}

/// Nothing is an empty list; a comma or a line's end is between two.
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
        let cases = [("16GiB", Some(16 << 30)), ("1024", Some(1024)), ("3 MiB", Some(3 << 20)), ("10GB", None)];
        for (text, size) in cases.into_iter().chain([("", None), ("1.5GiB", None), ("99999999999TiB", None)]) {
            assert_eq!(bytes(text), size, "{text}");
        }
    }
}
