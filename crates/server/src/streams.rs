//! Streams that are open: how many each user and each address has, and whether what let them in is still good.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use entourage_model::{Code, Error, Result, UserId};
use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval},
};

use crate::{
    auth::{Access, Pass},
    places::{Place, Places},
};

/// How often credentials of streams are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// How many streams may be open; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Of one acting user.
    pub per_user: Option<usize>,
    /// Of one address; loopback is not counted.
    pub per_address: Option<usize>,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { per_user: Some(16), per_address: Some(128) }
    }
}

#[derive(Default)]
pub struct Streams {
    limits: StreamLimits,
    users: Arc<Places<UserId>>,
    addresses: Arc<Places<IpAddr>>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    last: u64,
    streams: HashMap<u64, (Pass, Arc<End>)>,
}

#[derive(Default)]
struct End {
    has_come: AtomicBool,
    came: Notify,
}

impl Streams {
    pub fn new(limits: StreamLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// A seat for a stream of this user, if one is named, to this address.
    pub(crate) fn enter(
        streams: &Arc<Self>,
        user: Option<&UserId>,
        address: Option<IpAddr>,
        pass: Pass,
    ) -> Result<Seat> {
        let StreamLimits { per_user, per_address } = streams.limits;
        let full = |whose: &str, max: Option<usize>| {
            let detail = format!("{whose} has {} streams open, and may have no more", max.unwrap_or_default());
            Error::new(Code::RateLimited, detail).retry_after(Duration::from_secs(1))
        };
        let user = user.map(|user| Places::enter(&streams.users, user.clone(), per_user));
        let user = user.map(|place| place.ok_or_else(|| full("this user", per_user))).transpose()?;
        let address = address.map(|address| Places::enter_from(&streams.addresses, address, per_address));
        let address = address.map(|place| place.ok_or_else(|| full("this address", per_address))).transpose()?;
        Ok(Self::sit(streams, pass, (user, address)))
    }

    /// For an answer that goes on for long, and ends soon all the same: it is not counted.
    pub(crate) fn watch(streams: &Arc<Self>, pass: Pass) -> Seat {
        Self::sit(streams, pass, (None, None))
    }

    fn sit(streams: &Arc<Self>, pass: Pass, places: OwnPlaces) -> Seat {
        let end = Arc::<End>::default();
        let mut open = streams.lock();
        open.last += 1;
        let id = open.last;
        open.streams.insert(id, (pass, Arc::clone(&end)));
        drop(open);
        Seat { id, streams: Arc::clone(streams), end, _places: places }
    }

    /// Ends streams whose credential is no longer good, for ever.
    pub(crate) async fn look_after(&self, access: &Access) {
        let mut every = interval(LOOK_INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            for (pass, end) in self.lock().streams.values() {
                if !access.is_good(pass) {
                    end.has_come.store(true, Ordering::Release);
                    end.came.notify_one();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Among those of its user, and of its address.
type OwnPlaces = (Option<Place<UserId>>, Option<Place<IpAddr>>);

/// Held by a stream for as long as it is open.
pub(crate) struct Seat {
    id: u64,
    streams: Arc<Streams>,
    end: Arc<End>,
    _places: OwnPlaces,
}

impl Seat {
    /// Whether what let it in is no longer good.
    pub(crate) fn is_over(&self) -> bool {
        self.end.has_come.load(Ordering::Acquire)
    }

    /// Completes when it is over.
    pub(crate) async fn over(&self) {
        while !self.is_over() {
            self.end.came.notified().await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.streams.lock().streams.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_addresses_have_so_many_and_get_them_back() {
        let limits = StreamLimits { per_user: Some(2), per_address: Some(3) };
        let streams = Arc::new(Streams::new(limits));
        let enter = |user: Option<&str>, address: &str| {
            let user = user.map(|user| UserId::try_from(user).unwrap());
            Streams::enter(&streams, user.as_ref(), Some(address.parse().unwrap()), Pass::default())
        };
        let first = [enter(Some("a"), "192.0.2.1").unwrap(), enter(Some("a"), "192.0.2.2").unwrap()];
        let refused = enter(Some("a"), "192.0.2.3").err().unwrap();
        assert_eq!(
            (refused.code(), refused.detail()),
            (Code::RateLimited, "this user has 2 streams open, and may have no more")
        );
        assert!(refused.retry_delay().is_some());
        let second = [enter(Some("b"), "192.0.2.1").unwrap(), enter(None, "192.0.2.1").unwrap()];
        let refused = enter(Some("c"), "192.0.2.1").err().unwrap();
        assert_eq!(refused.detail(), "this address has 3 streams open, and may have no more");
        // Whoever was refused for the address holds no place of its user.
        drop(first);
        let third = [enter(Some("c"), "192.0.2.1").unwrap(), enter(Some("c"), "192.0.2.4").unwrap()];
        assert!(enter(Some("c"), "192.0.2.5").is_err());
        let many: Vec<_> = (0..9).map(|_| enter(None, "127.0.0.1").unwrap()).collect();
        drop((second, third, many));
        assert!(streams.lock().streams.is_empty());
    }
}
