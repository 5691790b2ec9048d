//! Single-item forms of the store's methods. They follow from the contract, and no store overrides them.

use std::time::Duration;

use entourage_model::{
    Code, Counts, Error, Event, EventPosition, EventPositions, IdempotencyKey, Key, Kind, Outcome, Record, RecordId,
    Result, Sequence, Space, User, Watermark, Write,
};

use crate::{Answer, Covered, Store, Sweep, Whose, merged};

pub trait StoreExt: Store {
    fn commit(&self, write: Write) -> impl Future<Output = Result<Outcome>> + Send {
        async move { self.commit_all(vec![write]).await.pop().unwrap_or_else(|| Err(unanswered())) }
    }

    fn replay(&self, key: IdempotencyKey) -> impl Future<Output = Result<Option<Outcome>>> + Send {
        async move { self.replay_all(&[key]).await.pop().unwrap_or_else(|| Err(unanswered())) }
    }

    fn peek(&self, kind: Kind, follower: Key, target: Key) -> Answer {
        let mut answer = [Answer::Unknown];
        self.peek_all(kind, &[(follower, target)], &mut answer);
        answer[0]
    }

    fn get_counts(&self, user: Key) -> impl Future<Output = Result<Option<Counts>>> + Send {
        async move { Ok(self.get_all_counts(&[user]).await?.pop().flatten()) }
    }

    fn get_record(
        &self,
        space: Space,
        owner: Key,
        id: &RecordId,
    ) -> impl Future<Output = Result<Option<Record>>> + Send {
        async move { Ok(self.get_records(space, &[(owner, id.clone())]).await?.pop().flatten()) }
    }

    fn scan_records(
        &self,
        space: Space,
        owner: Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>>> + Send {
        async move { Ok(self.scan_each(space, &[owner], after, limit).await?.pop().unwrap_or_default()) }
    }

    fn count_records(&self, space: Space, owner: Key) -> impl Future<Output = Result<u64>> + Send {
        async move { Ok(self.count_each(space, &[owner]).await?.pop().unwrap_or_default()) }
    }

    /// A record of the server, in whichever bucket it lies, with its owner.
    fn get_server_record(
        &self,
        space: Space,
        id: &RecordId,
    ) -> impl Future<Output = Result<Option<(Key, Record)>>> + Send {
        async move {
            let places: Vec<(Key, RecordId)> =
                self.guarantees().buckets.all().map(|owner| (owner, id.clone())).collect();
            let found = self.get_records(space, &places).await?;
            Ok(places.into_iter().zip(found).find_map(|((owner, _), record)| Some((owner, record?))))
        }
    }

    /// Records of the server over all buckets in the order of their ids, with their owners. Equal ids are adjacent.
    fn scan_server_records(
        &self,
        space: Space,
        after: Option<&[u8]>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Key, Record)>>> + Send {
        async move {
            let owners: Vec<Key> = self.guarantees().buckets.all().collect();
            let lists = self.scan_each(space, &owners, after, limit).await?;
            let owned = |(owner, list): (Key, Vec<Record>)| list.into_iter().map(move |record| (owner, record));
            let mut records: Vec<(Key, Record)> = owners.into_iter().zip(lists).flat_map(owned).collect();
            records.sort_by(|(_, one), (_, other)| one.id.cmp(&other.id));
            records.truncate(limit);
            Ok(records)
        }
    }

    /// All users, by key: for small stores.
    fn sweep_all(&self) -> impl Future<Output = Result<Vec<User>>> + Send {
        async move {
            let (mut sweep, mut users) = (Sweep::default(), Vec::new());
            while let Some(page) = sweep.next(self, usize::MAX).await? {
                users.extend(page);
            }
            users.sort_unstable_by_key(|user| user.key);
            Ok(users)
        }
    }

    /// Events of a store with one partition.
    fn events_after(&self, after: Sequence, limit: usize) -> impl Future<Output = Result<Vec<Event>>> + Send {
        async move { self.events(EventPosition::at(after), limit).await }
    }

    /// The end of every partition, once everything that was acked before the call is listed.
    fn last_events(&self) -> impl Future<Output = Result<EventPositions>> + Send {
        async move {
            let mut ends = EventPositions::start(self.lineage(), self.guarantees().partitions);
            for partition in ends.partitions() {
                ends.advance(partition, self.last_event(partition).await?);
            }
            Ok(ends)
        }
    }

    /// How long ago nothing lay above these positions, where the store knows that without being asked.
    fn quiet_for(&self, after: &EventPositions) -> Option<Duration> {
        let mut oldest = Duration::ZERO;
        for position in after.positions() {
            let heard = self.heard_end(position.partition)?;
            if heard.at.lineage != position.lineage || heard.at.offset > position.offset {
                return None;
            }
            oldest = oldest.max(heard.age);
        }
        Some(oldest)
    }

    /// Events of all partitions after these positions, each with its partition: within a partition in its order, across
    /// partitions by version. Where some are gone, the error says where to resume in all of them. Otherwise the positions are
    /// those of the store's lineage from then on: a reader that went on with those of an earlier one would be above its end.
    fn events_since(
        &self,
        after: &mut EventPositions,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(u16, Event)>>> + Send {
        merged::events_between(self, after, None, limit)
    }

    /// As [`Self::events_since`], up to and including `up_to`.
    fn events_between(
        &self,
        after: &mut EventPositions,
        up_to: &EventPositions,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(u16, Event)>>> + Send {
        merged::events_between(self, after, Some(up_to), limit)
    }

    /// A reader that has seen this has seen every write that was acked before the call.
    fn newest(&self) -> impl Future<Output = Result<Watermark>> + Send {
        async move {
            let (lineage, partitions) = (self.lineage(), self.guarantees().partitions);
            let mut offsets = Vec::with_capacity(usize::from(partitions));
            for partition in 0..partitions {
                let progress = self.progress(partition).await?;
                offsets.push(progress.covered.max(progress.newest));
            }
            Ok(Watermark::new(lineage, offsets))
        }
    }

    /// Whether every read that starts now sees everything up to this watermark.
    fn has_seen(&self, watermark: &Watermark) -> impl Future<Output = Result<bool>> + Send {
        async move { Ok(self.covers(watermark, Whose::Everybody).await? == Covered::Yes) }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

fn unanswered() -> Error {
    Error::new(Code::Internal, "the store did not answer")
}
