//! Quotas that were read lately: headers show what is left with every answer, and a store that is far away is not asked
//! each time.

use std::{collections::HashMap, sync::Arc, time::Duration};

use entourage_model::{Key, Outcome, Quota, Uptime};
use entourage_store::Store;
use parking_lot::Mutex;

/// For so long others may have changed it.
const FRESH: Duration = Duration::from_secs(1);
/// Headers wait no longer than this; without an answer they say nothing of follows.
const ANSWERED_IN: Duration = Duration::from_millis(200);
const KEPT_MAX: usize = 16_384;

pub(super) struct QuotaCache {
    uptime: Arc<dyn Uptime>,
    /// `None`: the store did not say.
    quotas: Mutex<HashMap<Key, (Duration, Option<Quota>)>>,
}

impl QuotaCache {
    pub(super) fn new(uptime: &Arc<dyn Uptime>) -> Self {
        Self { uptime: Arc::clone(uptime), quotas: Mutex::default() }
    }

    pub(super) fn saw(&self, outcome: &Outcome) {
        if let Some(change) = &outcome.quota {
            self.keep(change.actor, Some(change.after.clone()));
        }
    }

    pub(super) async fn quota(&self, store: &dyn Store, actor: Key) -> Option<Quota> {
        // What is in memory is asked as it is.
        if store.guarantees().peeks {
            return store.get_quotas(&[actor]).await.ok()?.pop();
        }
        let now = self.uptime.elapsed();
        if let Some((read, quota)) = self.quotas.lock().get(&actor)
            && now.saturating_sub(*read) < FRESH
        {
            return quota.clone();
        }
        let asked = tokio::time::timeout(ANSWERED_IN, store.get_quotas(&[actor])).await;
        let quota = asked.ok().and_then(Result::ok).and_then(|mut quotas| quotas.pop());
        self.keep(actor, quota.clone());
        quota
    }

    fn keep(&self, actor: Key, quota: Option<Quota>) {
        let now = self.uptime.elapsed();
        let mut quotas = self.quotas.lock();
        if quotas.len() >= KEPT_MAX {
            quotas.retain(|_, (read, _)| now.saturating_sub(*read) < FRESH);
        }
        if quotas.len() >= KEPT_MAX {
            quotas.clear();
        }
        quotas.insert(actor, (now, quota));
    }
}
