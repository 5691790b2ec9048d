//! Limits per key: connections of an address on one port, streams of a user.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use crate::front::{is_this_machine, network};

/// How many permits each key has.
pub(crate) struct CountLimit<K>(Mutex<HashMap<K, usize>>);

impl<K> Default for CountLimit<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> CountLimit<K> {
    /// `None` at the limit. Without a limit nothing is counted.
    pub(crate) fn acquire(limit: &Arc<Self>, key: K, max: Option<usize>) -> Option<Permit<K>> {
        let Some(max) = max else { return Some(Permit(None)) };
        let mut counts = limit.0.lock().ok()?;
        let count = counts.entry(key.clone()).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Permit(Some((Arc::clone(limit), key))))
    }
}

impl CountLimit<IpAddr> {
    /// Loopback has no limit; the addresses of a network count as one.
    pub(crate) fn acquire_from(limit: &Arc<Self>, address: IpAddr, max: Option<usize>) -> Option<Permit<IpAddr>> {
        Self::acquire(limit, network(address), max.filter(|_| !is_this_machine(address)))
    }
}

/// Released when dropped.
pub(crate) struct Permit<K: Eq + Hash>(Option<(Arc<CountLimit<K>>, K)>);

impl<K: Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        let Some((limit, key)) = &self.0 else { return };
        let Ok(mut counts) = limit.0.lock() else { return };
        if let Some(count) = counts.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_gets_them_back() {
        let addresses = Arc::new(CountLimit::default());
        let acquire = |text: &str| CountLimit::acquire_from(&addresses, text.parse().unwrap(), Some(2));
        let first = acquire("192.0.2.1");
        let second = acquire("::ffff:192.0.2.1");
        assert!(first.is_some() && second.is_some() && acquire("192.0.2.1").is_none());
        assert!(acquire("192.0.2.2").is_some());
        drop(second);
        assert!(acquire("192.0.2.1").is_some());
        let six = [acquire("2001:db8::1"), acquire("2001:db8::2")];
        assert!(
            six.iter().all(Option::is_some) && acquire("2001:db8::3").is_none() && acquire("2001:db8:0:1::3").is_some()
        );
        let many: Vec<_> = (0..5).map(|_| acquire("127.0.0.1")).collect();
        assert!(many.iter().all(Option::is_some));
        drop((first, six));
        assert!(addresses.0.lock().unwrap().is_empty());
        assert!(CountLimit::acquire_from(&addresses, "192.0.2.1".parse().unwrap(), None).is_some());
    }
}
