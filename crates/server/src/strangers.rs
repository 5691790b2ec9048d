//! How often callers who are not let in are written down: so many at once for each address, then one every few seconds.
//! What is left out is counted, and said with the next record of the address, so that nobody fills a disk by guessing.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::Mutex,
    time::{Duration, Instant},
};

use metrics::counter;

use crate::front::network;

const AT_ONCE: u32 = 20;
const EVERY: Duration = Duration::from_secs(10);
/// Beyond so many addresses all others are one.
const ADDRESSES_MAX: usize = 4_096;

#[derive(Default)]
pub(crate) struct Strangers(Mutex<HashMap<Option<IpAddr>, Seen>>);

struct Seen {
    /// When all that was written is paid for.
    paid: Instant,
    left_out: u64,
}

impl Strangers {
    /// Whether this one is written down, and then how many of the same address were not since the last.
    pub(crate) fn write_down(&self, address: Option<IpAddr>, now: Instant) -> Option<u64> {
        let Ok(mut all) = self.0.lock() else { return Some(0) };
        let mut address = address.map(network);
        if all.len() >= ADDRESSES_MAX && !all.contains_key(&address) {
            all.retain(|_, seen| seen.paid > now || seen.left_out > 0);
            if all.len() >= ADDRESSES_MAX {
                address = None;
            }
        }
        let seen = all.entry(address).or_insert(Seen { paid: now, left_out: 0 });
        if seen.paid.saturating_duration_since(now) > EVERY * (AT_ONCE - 1) {
            seen.left_out += 1;
            counter!("entourage_audit_left_out_total").increment(1);
            return None;
        }
        seen.paid = seen.paid.max(now) + EVERY;
        Some(std::mem::take(&mut seen.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> Option<IpAddr> {
        Some(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn an_address_is_written_so_often_and_then_now_and_then() {
        let (strangers, start) = (Strangers::default(), Instant::now());
        let written = |address, now| strangers.write_down(address, now);
        let first: Vec<_> = (0..1_000).filter_map(|_| written(address(1), start)).collect();
        assert_eq!(first, vec![0; AT_ONCE as usize]);
        assert_eq!(written(address(2), start), Some(0), "another address has its own");
        assert_eq!(written(address(1), start + EVERY - Duration::from_millis(1)), None);
        assert_eq!(written(address(1), start + EVERY), Some(981), "what was left out is said");
        assert_eq!(written(address(1), start + EVERY), None);
        // A day of guessing makes one record every ten seconds, however often somebody tries.
        let tries = |step: u32| (0..100).filter(|_| written(address(3), start + EVERY * step).is_some()).count();
        assert_eq!((0..8_640).map(tries).sum::<usize>(), 8_639 + AT_ONCE as usize);
        // Whoever was away for long has all of it again.
        let later = start + EVERY * 100_000;
        assert_eq!((0..100).filter(|_| written(address(1), later).is_some()).count(), AT_ONCE as usize);
    }

    #[test]
    fn neighbours_in_a_network_are_one_and_there_is_room_for_so_many() {
        let (strangers, now) = (Strangers::default(), Instant::now());
        let six = |number: u16| Some(format!("2001:db8::{number:x}").parse().unwrap());
        let written = (0..100).filter(|number| strangers.write_down(six(*number), now).is_some()).count();
        assert_eq!(written, AT_ONCE as usize);
        let many = (0..100_000).filter(|number| strangers.write_down(address(*number), now).is_some()).count();
        assert_eq!(many, ADDRESSES_MAX - 1 + AT_ONCE as usize, "all others share what one has");
        assert!(strangers.0.lock().unwrap().len() <= ADDRESSES_MAX + 1);
    }
}
