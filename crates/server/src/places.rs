//! How many of something each has: connections of an address on one port, streams of a user.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use crate::front::{is_this_machine, network};

/// How many each has.
pub(crate) struct Places<K>(Mutex<HashMap<K, usize>>);

impl<K> Default for Places<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Places<K> {
    /// `None` when it has as many as it may; without a bound nothing is counted.
    pub(crate) fn enter(places: &Arc<Self>, key: K, max: Option<usize>) -> Option<Place<K>> {
        let Some(max) = max else { return Some(Place(None)) };
        let mut counts = places.0.lock().ok()?;
        let count = counts.entry(key.clone()).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Place(Some((Arc::clone(places), key))))
    }
}

impl Places<IpAddr> {
    /// This machine has as many as it likes; whoever has one address of a network has the others.
    pub(crate) fn enter_from(places: &Arc<Self>, address: IpAddr, max: Option<usize>) -> Option<Place<IpAddr>> {
        Self::enter(places, network(address), max.filter(|_| !is_this_machine(address)))
    }
}

/// Given back when it goes.
pub(crate) struct Place<K: Eq + Hash>(Option<(Arc<Places<K>>, K)>);

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let Some((places, key)) = &self.0 else { return };
        let Ok(mut counts) = places.0.lock() else { return };
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
        let addresses = Arc::new(Places::default());
        let enter = |text: &str| Places::enter_from(&addresses, text.parse().unwrap(), Some(2));
        let first = enter("192.0.2.1");
        let second = enter("::ffff:192.0.2.1");
        assert!(first.is_some() && second.is_some() && enter("192.0.2.1").is_none());
        assert!(enter("192.0.2.2").is_some());
        drop(second);
        assert!(enter("192.0.2.1").is_some());
        let six = [enter("2001:db8::1"), enter("2001:db8::2")];
        assert!(
            six.iter().all(Option::is_some) && enter("2001:db8::3").is_none() && enter("2001:db8:0:1::3").is_some()
        );
        let many: Vec<_> = (0..5).map(|_| enter("127.0.0.1")).collect();
        assert!(many.iter().all(Option::is_some));
        drop((first, six));
        assert!(addresses.0.lock().unwrap().is_empty());
        assert!(Places::enter_from(&addresses, "192.0.2.1".parse().unwrap(), None).is_some());
    }
}
