//! The follow quota of one target, set while the server runs: in place of `limits.follows_per_target_per_minute`.

use entourage_model::{Condition, Error, Key, Operation, Record, RecordId, Result, Space, User, UserId, Version};
use entourage_store::{StoreExt as _, Whose};
use serde::{Deserialize, Serialize};

use super::{Abuse, consume::quota_id};
use crate::{Call, Limits, Receipt};

/// Quotas there can be at once.
const QUOTAS_MAX: u32 = 10_000;
const SCAN: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetQuota {
    /// What was set for this target; zero is no limit, `None` is that of everybody.
    pub per_minute: Option<u32>,
    /// What holds for those without their own; zero is no limit.
    pub default_per_minute: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetQuotaWritten {
    pub quota: TargetQuota,
    pub receipt: Receipt,
}

/// Of a person, not of an id.
#[derive(Serialize, Deserialize)]
struct Document {
    per_minute: u32,
    created: Version,
}

impl Document {
    fn of(record: &Record, user: Option<&User>) -> Option<Self> {
        let document: Self = serde_json::from_slice(&record.value).ok()?;
        user.is_some_and(|user| user.created == document.created).then_some(document)
    }
}

impl Abuse {
    pub async fn target_quota(&self, call: &Call, id: &UserId) -> Result<TargetQuota> {
        call.must_be_admin()?;
        let key = self.context.keys.key(id);
        self.context.catch_up(call, Whose::Of(&[key])).await?;
        let user = self.context.stored_user(id).await?;
        let record = self.context.store.get_record(Space::TargetQuota, Key::SERVER, &quota_id(key)).await?;
        let own = record.and_then(|record| Document::of(&record, Some(&user)));
        Ok(self.quota(own.map(|own| own.per_minute)))
    }

    /// In effect when it returns; on other servers of the same store within seconds. `None` removes it.
    pub async fn set_target_quota(
        &self,
        call: &Call,
        id: &UserId,
        per_minute: Option<u32>,
    ) -> Result<TargetQuotaWritten> {
        call.must_be_admin()?;
        if per_minute.is_some_and(|count| count > Limits::MAX) {
            let error = Error::invalid("the quota is too large");
            return Err(error.at("/per_minute", format!("a whole number from 0 to {}", Limits::MAX)));
        }
        let user = self.context.stored_user(id).await?;
        let document = |per_minute| serde_json::to_vec(&Document { per_minute, created: user.created });
        let value = per_minute.map(document).transpose();
        let value = value.map_err(|_| Error::internal("a quota cannot be written"))?.map(Vec::into_boxed_slice);
        let (space, owner, condition, cap) = (Space::TargetQuota, Key::SERVER, Condition::Any, Some(QUOTAS_MAX));
        let operation = Operation::PutRecord { space, owner, id: quota_id(user.key), value, condition, cap };
        let (_, receipt) = self.context.writer.write(call, operation).await?;
        // What is stored decides: a replayed request changes nothing.
        self.reload_target_quota(user.key).await?;
        Ok(TargetQuotaWritten { quota: self.quota(per_minute), receipt })
    }

    fn quota(&self, per_minute: Option<u32>) -> TargetQuota {
        TargetQuota { per_minute, default_per_minute: self.context.rules.limits.follows_per_target_per_minute }
    }

    /// Learns all quotas.
    pub(super) async fn read_target_quotas(&self) -> Result<()> {
        let mut after: Option<RecordId> = None;
        loop {
            let from = after.as_ref().map(RecordId::as_bytes);
            let page = self.context.store.scan_records(Space::TargetQuota, Key::SERVER, from, SCAN).await?;
            let keys: Vec<Key> = page.iter().filter_map(|record| record.id.key()).collect();
            let users = self.context.users_by_key(&keys).await?;
            for record in &page {
                let Some(target) = record.id.key() else { continue };
                let own = Document::of(record, users.get(&target));
                self.limiter.set_target_quota(target, own.map(|own| own.per_minute));
            }
            match page.last() {
                Some(last) if page.len() == SCAN => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
    }

    pub(super) async fn reload_target_quota(&self, target: Key) -> Result<()> {
        let record = self.context.store.get_record(Space::TargetQuota, Key::SERVER, &quota_id(target)).await?;
        let users = self.context.users_by_key(&[target]).await?;
        let own = record.and_then(|record| Document::of(&record, users.get(&target)));
        self.limiter.set_target_quota(target, own.map(|own| own.per_minute));
        Ok(())
    }
}
