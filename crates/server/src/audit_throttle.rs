//! Limits audit records of rejected callers to a burst per address, then one every few seconds, so that guessing does
//! not fill a disk. Suppressed records are counted and reported with the address's next record. An address is
//! forgotten after a quiet hour; its count is then reported with the next record of any other.

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
/// Addresses beyond this share one entry.
const ADDRESSES_MAX: usize = 4_096;
/// How long an address with suppressed records is kept once its burst is restored.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// How often expired addresses are removed, at most.
const LOOK_EVERY: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct AuditThrottle(Mutex<Table>);

#[derive(Default)]
struct Table {
    addresses: HashMap<Option<IpAddr>, Seen>,
    looked: Option<Instant>,
    /// Suppressed records of addresses that were forgotten.
    left_out: u64,
}

struct Seen {
    /// When the burst is restored.
    paid: Instant,
    left_out: u64,
}

impl AuditThrottle {
    /// `None` to suppress this record; otherwise the number suppressed since the last one.
    pub(crate) fn admit(&self, address: Option<IpAddr>, now: Instant) -> Option<u64> {
        let Ok(mut table) = self.0.lock() else { return Some(0) };
        let table = &mut *table;
        table.forget(now);
        let mut address = address.map(network);
        if table.addresses.len() >= ADDRESSES_MAX && !table.addresses.contains_key(&address) {
            address = None;
        }
        let seen = table.addresses.entry(address).or_insert(Seen { paid: now, left_out: 0 });
        if seen.paid.saturating_duration_since(now) > EVERY * (AT_ONCE - 1) {
            seen.left_out += 1;
            counter!("entourage_audit_left_out_total").increment(1);
            return None;
        }
        seen.paid = seen.paid.max(now) + EVERY;
        Some(std::mem::take(&mut seen.left_out) + std::mem::take(&mut table.left_out))
    }
}

impl Table {
    /// Removes addresses whose burst is restored: at once, or later if records were suppressed.
    fn forget(&mut self, now: Instant) {
        let is_due = |looked: Instant| now.saturating_duration_since(looked) >= LOOK_EVERY;
        if !self.looked.is_none_or(is_due) {
            return;
        }
        self.looked = Some(now);
        self.addresses.retain(|_, seen| {
            let kept = if seen.left_out > 0 { KEPT } else { Duration::ZERO };
            let is_kept = seen.paid + kept > now;
            if !is_kept {
                self.left_out += seen.left_out;
            }
            is_kept
        });
        if self.addresses.is_empty() {
            self.addresses.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl AuditThrottle {
        fn addresses(&self) -> usize {
            self.0.lock().unwrap().addresses.len()
        }
    }

    fn address(number: u32) -> Option<IpAddr> {
        Some(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn an_address_is_written_so_often_and_then_now_and_then() {
        let (throttle, start) = (AuditThrottle::default(), Instant::now());
        let written = |address, now| throttle.admit(address, now);
        let first: Vec<_> = (0..1_000).filter_map(|_| written(address(1), start)).collect();
        assert_eq!(first, vec![0; AT_ONCE as usize]);
        assert_eq!(written(address(2), start), Some(0), "another address has its own");
        assert_eq!(written(address(1), start + EVERY - Duration::from_millis(1)), None);
        assert_eq!(written(address(1), start + EVERY), Some(981), "what was left out is said");
        assert_eq!(written(address(1), start + EVERY), None);
        // A day of guessing writes one record every ten seconds, whatever the rate of attempts.
        let tries = |step: u32| (0..100).filter(|_| written(address(3), start + EVERY * step).is_some()).count();
        assert_eq!((0..8_640).map(tries).sum::<usize>(), 8_639 + AT_ONCE as usize);
        // After a long pause the whole burst is back.
        let later = start + EVERY * 100_000;
        assert_eq!((0..100).filter(|_| written(address(1), later).is_some()).count(), AT_ONCE as usize);
    }

    #[test]
    fn neighbours_in_a_network_are_one_and_there_is_room_for_so_many() {
        let (throttle, now) = (AuditThrottle::default(), Instant::now());
        let six = |number: u16| Some(format!("2001:db8::{number:x}").parse().unwrap());
        let written = (0..100).filter(|number| throttle.admit(six(*number), now).is_some()).count();
        assert_eq!(written, AT_ONCE as usize);
        let many = (0..100_000).filter(|number| throttle.admit(address(*number), now).is_some()).count();
        assert_eq!(many, ADDRESSES_MAX - 1 + AT_ONCE as usize, "all others share what one has");
        assert!(throttle.addresses() <= ADDRESSES_MAX + 1);
    }

    #[test]
    fn an_address_is_forgotten_and_what_was_left_out_of_it_is_said() {
        let (throttle, start) = (AuditThrottle::default(), Instant::now());
        for number in 0..u32::try_from(ADDRESSES_MAX).unwrap() {
            for _ in 0..=AT_ONCE {
                throttle.admit(address(number), start);
            }
        }
        assert_eq!(throttle.addresses(), ADDRESSES_MAX);
        let soon = start + EVERY * AT_ONCE + LOOK_EVERY;
        assert_eq!(throttle.admit(address(100_000), soon), Some(0));
        assert!(throttle.addresses() > ADDRESSES_MAX, "those of which something is to be said stay for a while");
        let later = start + EVERY * AT_ONCE + KEPT;
        assert_eq!(throttle.admit(address(100_001), later), Some(ADDRESSES_MAX as u64), "all of it is said");
        assert_eq!(throttle.addresses(), 1);
        assert_eq!(throttle.admit(address(0), later), Some(0));
    }
}
