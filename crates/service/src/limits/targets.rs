//! Quotas of targets: one for all of them, and one for each target that has its own.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use entourage_model::{Key, Uptime};
use parking_lot::RwLock;

use super::{MINUTE, quota::Quota};

pub(super) struct Targets {
    uptime: Arc<dyn Uptime>,
    everybody: Option<Arc<Quota<Key>>>,
    /// `None`: no limit for this one.
    own: RwLock<HashMap<Key, Option<Arc<Quota<Key>>>>>,
    /// How many have their own: mostly nobody, and then nobody waits for the lock.
    owners: AtomicUsize,
}

impl Targets {
    pub(super) fn new(per_minute: u32, uptime: &Arc<dyn Uptime>) -> Self {
        Self {
            everybody: quota(per_minute, uptime),
            uptime: Arc::clone(uptime),
            own: RwLock::default(),
            owners: AtomicUsize::new(0),
        }
    }

    pub(super) fn of(&self, target: Key) -> Option<Arc<Quota<Key>>> {
        if self.owners.load(Ordering::Acquire) > 0
            && let Some(own) = self.own.read().get(&target)
        {
            return own.clone();
        }
        self.everybody.clone()
    }

    /// Setting what is set already keeps what was counted.
    pub(super) fn set(&self, target: Key, per_minute: Option<u32>) {
        let mut own = self.own.write();
        match per_minute {
            None => drop(own.remove(&target)),
            Some(per_minute) => {
                let limit = |quota: &Option<Arc<Quota<Key>>>| quota.as_ref().map_or(0, |quota| quota.limit());
                if own.get(&target).is_none_or(|known| limit(known) != per_minute) {
                    own.insert(target, quota(per_minute, &self.uptime));
                }
            }
        }
        self.owners.store(own.len(), Ordering::Release);
    }
}

fn quota(per_minute: u32, uptime: &Arc<dyn Uptime>) -> Option<Arc<Quota<Key>>> {
    Quota::new("target", per_minute, MINUTE, per_minute, uptime).map(Arc::new)
}
