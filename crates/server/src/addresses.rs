//! How many connections each address has, on one port.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use crate::front::{is_this_machine, network};

/// How many connections each address has.
#[derive(Default)]
pub(crate) struct Addresses(Mutex<HashMap<IpAddr, usize>>);

impl Addresses {
    /// `None` when the address has as many as it may.
    pub(crate) fn enter(addresses: &Arc<Self>, address: IpAddr, max: Option<usize>) -> Option<Place> {
        let Some(max) = max.filter(|_| !is_this_machine(address)) else { return Some(Place(None)) };
        let address = network(address);
        let mut counts = addresses.0.lock().ok()?;
        let count = counts.entry(address).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Place(Some((Arc::clone(addresses), address))))
    }
}

pub(crate) struct Place(Option<(Arc<Addresses>, IpAddr)>);

impl Drop for Place {
    fn drop(&mut self) {
        let Some((addresses, address)) = &self.0 else { return };
        let Ok(mut counts) = addresses.0.lock() else { return };
        if let Some(count) = counts.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_gets_them_back() {
        let addresses = Arc::new(Addresses::default());
        let enter = |text: &str| Addresses::enter(&addresses, text.parse().unwrap(), Some(2));
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
        assert!(Addresses::enter(&addresses, "192.0.2.1".parse().unwrap(), None).is_some());
    }
}
