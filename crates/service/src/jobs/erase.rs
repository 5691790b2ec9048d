//! The end of a person: gone from every read at once, their edges in chunks.

use std::time::Duration;

use entourage_model::{
    CHUNK_MAX, Code, Condition, Error, Key, Operation, Record, RecordId, Reply, Result, Space, UserId, Version, Write,
    is_member,
};
use entourage_store::{StoreExt as _, Sweep};

use super::{
    JobKind, JobStarted, JobState,
    stored::{Stored, tally_id},
    work::Step,
};
use crate::{Call, Jobs, Receipt, ids::user_not_found, writer::unexpected};

/// Between two looks at what another server erases.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

impl Jobs {
    pub async fn erase(&self, call: &Call, id: &UserId) -> Result<JobStarted> {
        call.may_change(id)?;
        let (job, first) = match self.context.find_user(id).await? {
            Some(user) => self.start_job(call, JobKind::Erase, &user, None).await?,
            None => self.started_before(call).await?.ok_or_else(user_not_found)?,
        };
        let stored = self.stored_job(job).await?;
        let mut receipt = first;
        if stored.state == JobState::Running
            && let Some(erased) = self.erase_subject(&stored).await?
        {
            receipt = Receipt { replayed: receipt.replayed, ..erased };
        }
        self.wake.notify_one();
        Ok(JobStarted { job: self.shown_job(job).await?, receipt })
    }

    /// Leaves no byte of erased users on the disk, as far as the store has one of its own.
    pub async fn erase_now(&self, call: &Call) -> Result<()> {
        call.must_be_admin()?;
        let maintenance = self.maintenance()?;
        self.finish_erasing().await?;
        self.drop_gone_members().await?;
        self.drop_all_stale_ends().await?;
        self.context.drop_published_board().await?;
        // With them goes every event that needs them.
        self.release_ids(None).await?;
        maintenance.erase_now().await
    }

    /// All erasures so far end, here or on the server that has the lease.
    async fn finish_erasing(&self) -> Result<()> {
        loop {
            while self.work().await? {}
            if self.unfinished_jobs().await?.iter().all(|job| job.kind != JobKind::Erase) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Takes those who are gone out of other people's groups. Nothing leads from a member to the groups, so all are looked
    /// at.
    async fn drop_gone_members(&self) -> Result<()> {
        let mut sweep = Sweep::default();
        while let Some(users) = sweep.next(&*self.context.store, CHUNK_MAX).await? {
            let owners: Vec<Key> = users.iter().map(|user| user.key).collect();
            let first = self.context.store.scan_each(Space::GroupMember, &owners, None, 1).await?;
            for (owner, _) in owners.into_iter().zip(first).filter(|(_, first)| !first.is_empty()) {
                self.drop_gone_members_of(owner).await?;
            }
        }
        Ok(())
    }

    async fn drop_gone_members_of(&self, owner: Key) -> Result<()> {
        let mut after: Option<RecordId> = None;
        loop {
            let from = after.as_ref().map(RecordId::as_bytes);
            let page = self.context.store.scan_records(Space::GroupMember, owner, from, CHUNK_MAX).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id.clone());
            let members: Vec<(RecordId, Key, Record)> = page.into_iter().filter_map(member).collect();
            let keys: Vec<Key> = members.iter().map(|(_, key, _)| *key).collect();
            for ((group, member, record), user) in members.into_iter().zip(self.context.store.get_users(&keys).await?) {
                if user.is_some_and(|user| is_member(&record.value, &user)) {
                    continue;
                }
                let gone = Operation::GroupMember { owner, group: group.clone(), member, present: false };
                match self.context.writer.write(&Call::default(), gone).await {
                    // Left by a group that was removed, or its owner was erased meanwhile.
                    Err(error) if error.code() == Code::GroupNotFound => {
                        let (space, condition) = (Space::Group, Condition::Any);
                        let rest = Operation::PutRecord { space, owner, id: group, value: None, condition, cap: None };
                        self.context.writer.write(&Call::default(), rest).await?;
                    }
                    Err(error) if error.code() == Code::ActorNotFound => return Ok(()),
                    other => drop(other?),
                }
            }
        }
    }

    /// What a repeated request started when it was made first; the user is gone since.
    async fn started_before(&self, call: &Call) -> Result<Option<(Version, Receipt)>> {
        match self.context.writer.replay(call).await? {
            Some((Reply::Record { version, .. }, receipt)) => Ok(Some((version, receipt))),
            Some((other, _)) => Err(unexpected(&other)),
            None => Ok(None),
        }
    }

    async fn erase_subject(&self, job: &Stored) -> Result<Option<Receipt>> {
        let Some(subject) = job.subject else { return Ok(None) };
        let operation = Operation::Erase { key: subject.key, created: Some(subject.created) };
        Ok(Some(self.context.writer.write(&Call::default(), operation).await?.1))
    }

    pub(super) async fn erase_chunk(&self, job: &mut Stored) -> Result<(Step, u64)> {
        let Some(subject) = job.subject else { return Ok((Step::Done, 0)) };
        if self.subject_of(job).await?.is_some() {
            self.erase_subject(job).await?;
        }
        let operation = Operation::EraseEdges { key: subject.key, limit: CHUNK_MAX };
        let write = Write { tally: Some(tally_id(job.id)?), ..Write::from(operation) };
        match self.context.writer.write_one(write).await?.reply {
            Reply::EdgesErased { removed, left } => {
                if left {
                    return Ok((Step::More, removed.into()));
                }
                // Not even the job remembers them.
                job.subject = None;
                Ok((Step::Done, removed.into()))
            }
            other => Err(unexpected(&other)),
        }
    }
}

impl Jobs {
    fn maintenance(&self) -> Result<&dyn entourage_store::Maintenance> {
        self.maintenance.as_deref().ok_or_else(|| {
            Error::invalid("this server's store is looked after with its own tools, not through Entourage")
        })
    }
}

fn member(record: Record) -> Option<(RecordId, Key, Record)> {
    let (group, key) = record.id.member()?;
    Some((group, key, record))
}
