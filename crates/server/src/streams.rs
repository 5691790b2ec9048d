//! Open streams: limits per user and per address, and the end of streams whose credential is no longer valid.

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
    auth::{Access, Validity},
    connection_limits::{CountLimit, Permit},
};

/// How often the credentials of streams are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How many streams may be open; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Per acting user.
    pub per_user: Option<usize>,
    /// Per address, except loopback.
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
    users: Arc<CountLimit<UserId>>,
    addresses: Arc<CountLimit<IpAddr>>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    last: u64,
    streams: HashMap<u64, (Validity, Arc<End>)>,
}

#[derive(Default)]
struct End {
    is_ended: AtomicBool,
    ended: Notify,
}

impl Streams {
    pub fn new(limits: StreamLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Registers a stream of this user, if there is one, to this address.
    pub(crate) fn open(
        streams: &Arc<Self>,
        user: Option<&UserId>,
        address: Option<IpAddr>,
        validity: Validity,
    ) -> Result<StreamGuard> {
        let StreamLimits { per_user, per_address } = streams.limits;
        let full = |whose: &str, max: Option<usize>| {
            let detail = format!("{whose} has {} streams open, and may have no more", max.unwrap_or_default());
            Error::new(Code::RateLimited, detail).retry_after(Duration::from_secs(1))
        };
        let user = user.map(|user| CountLimit::acquire(&streams.users, user.clone(), per_user));
        let user = user.map(|permit| permit.ok_or_else(|| full("this user", per_user))).transpose()?;
        let address = address.map(|address| CountLimit::acquire_from(&streams.addresses, address, per_address));
        let address = address.map(|permit| permit.ok_or_else(|| full("this address", per_address))).transpose()?;
        Ok(Self::register(streams, validity, (user, address)))
    }

    /// For a long response that ends by itself: it does not count.
    pub(crate) fn watch(streams: &Arc<Self>, validity: Validity) -> StreamGuard {
        Self::register(streams, validity, (None, None))
    }

    fn register(streams: &Arc<Self>, validity: Validity, permits: OwnPermits) -> StreamGuard {
        let end = Arc::<End>::default();
        let mut open = streams.lock();
        open.last += 1;
        let id = open.last;
        open.streams.insert(id, (validity, Arc::clone(&end)));
        drop(open);
        StreamGuard { id, streams: Arc::clone(streams), end, _permits: permits }
    }

    /// Ends streams whose credential is no longer valid. Runs forever.
    pub(crate) async fn end_invalid(&self, access: &Access) {
        let mut every = interval(CHECK_INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            for (validity, end) in self.lock().streams.values() {
                if !access.is_valid(validity) {
                    end.is_ended.store(true, Ordering::Release);
                    end.ended.notify_one();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of its user and of its address.
type OwnPermits = (Option<Permit<UserId>>, Option<Permit<IpAddr>>);

/// Held by a stream while it is open.
pub(crate) struct StreamGuard {
    id: u64,
    streams: Arc<Streams>,
    end: Arc<End>,
    _permits: OwnPermits,
}

impl StreamGuard {
    /// Whether its credential is no longer valid.
    pub(crate) fn is_ended(&self) -> bool {
        self.end.is_ended.load(Ordering::Acquire)
    }

    /// Completes once the credential is no longer valid.
    pub(crate) async fn ended(&self) {
        while !self.is_ended() {
            self.end.ended.notified().await;
        }
    }
}

impl Drop for StreamGuard {
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
        let open = |user: Option<&str>, address: &str| {
            let user = user.map(|user| UserId::try_from(user).unwrap());
            Streams::open(&streams, user.as_ref(), Some(address.parse().unwrap()), Validity::default())
        };
        let first = [open(Some("a"), "192.0.2.1").unwrap(), open(Some("a"), "192.0.2.2").unwrap()];
        let refused = open(Some("a"), "192.0.2.3").err().unwrap();
        assert_eq!(
            (refused.code(), refused.detail()),
            (Code::RateLimited, "this user has 2 streams open, and may have no more")
        );
        assert!(refused.retry_delay().is_some());
        let second = [open(Some("b"), "192.0.2.1").unwrap(), open(None, "192.0.2.1").unwrap()];
        let refused = open(Some("c"), "192.0.2.1").err().unwrap();
        assert_eq!(refused.detail(), "this address has 3 streams open, and may have no more");
        // A stream refused for its address holds no permit of its user.
        drop(first);
        let third = [open(Some("c"), "192.0.2.1").unwrap(), open(Some("c"), "192.0.2.4").unwrap()];
        assert!(open(Some("c"), "192.0.2.5").is_err());
        let many: Vec<_> = (0..9).map(|_| open(None, "127.0.0.1").unwrap()).collect();
        drop((second, third, many));
        assert!(streams.lock().streams.is_empty());
    }
}
