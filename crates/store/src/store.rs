//! The store's contract. Clauses are numbered; the conformance suite names the one it tests.

use std::time::Duration;

use async_trait::async_trait;
use entourage_model::{
    Counts, EdgeValue, Ended, Event, EventPosition, IdempotencyKey, Key, Kind, Lineage, List, Outcome, Page, Place,
    Quota, Record, RecordId, Result, Secret, Sequence, Side, Space, User, Version, Watermark, Write,
};

use crate::{
    EdgeRow, Guarantees, Health, NewestFollows, Report, Server, SweepCursor, Swept, edge_row::read_row,
    newest_follows::push_newest,
};

/// What memory knows of an edge without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    /// Ask [`Store::get_edges`]: absence from memory is never a "no".
    Unknown,
}

/// A key with the id that it was made from: two ids may have one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    pub key: Key,
    pub id: &'a [u8],
}

/// Created with the store and kept in it for good.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Distinguishes this store's tokens and cursors from another's.
    pub epoch: u64,
    pub secret: Secret,
}

/// Whose derived side a read uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    Everybody,
    Of(&'a [Key]),
}

impl Whose<'_> {
    /// Of a read that uses truth alone.
    pub const NOBODY: Self = Whose::Of(&[]);
}

/// Whether a read that starts now sees everything up to a watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covered {
    Yes,
    NotYet,
    /// The store has lost the watermark's writes, or never had them.
    OtherLineage,
}

impl From<bool> for Covered {
    fn from(is_covered: bool) -> Self {
        if is_covered { Self::Yes } else { Self::NotYet }
    }
}

/// How far the events of one partition had come at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Events up to here are listed.
    pub listed: Sequence,
    /// Every outcome up to this watermark has all its events among those.
    pub covered: Sequence,
    /// Every outcome that was acked before the call is listed, or has a watermark up to this one.
    pub newest: Sequence,
}

/// Where a log ended when the store last looked by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeardEnd {
    pub at: EventPosition,
    /// How long ago that was.
    pub age: Duration,
}

/// The source of truth: users, edges, records and their events.
///
/// # Writes
/// - **C1** A commit is atomic: both directions, both counts, the idempotency record and the event, or nothing.
/// - **C2** `Ok` means durable (as far as it guarantees that) and visible to every read that starts afterwards.
/// - **C3** [`entourage_model::resolve`] decides, against the state that the commit changes: no other commit intervenes
///   between read and change. A refusal changes nothing and makes no event.
/// - **C4** Versions strictly increase for each edge and each user, and exceed the write's `floor`. A store whose clock is
///   not this process's ignores a floor that is seconds ahead of that: a wrong clock must not go from row to row.
/// - **C5** Equal concurrent writes have one effect: one is `created`, the others find it done.
/// - **C6** An idempotency key replays the reply of its first success for `idempotency.ttl`, across restarts.
///   `replay_all` is what a commit with each key would replay, in request order, and commits nothing where there is
///   none.
/// - **C7** `commit_all` commits each write by itself, in order; a refused one does not stop the rest. Of some hundred
///   writes or more those that have nothing in common may become visible, and be numbered, in another order.
///
/// # Reads
/// - **C8** `peek_all` writes one answer a pair, in their order; both slices have one length. `Yes` or `No` (an
///   *active* edge of that kind) only if an exact read at some moment of the call says the same, and `Yes` only if both
///   users exist: an edge that an erased user left behind is `Unknown`. `peek_open` is `peek_all` of follows that are
///   not quiet: a quiet one is `No` or `Unknown`. `peek_common` appends everybody both actively follow at one moment,
///   in any order, at most `limit` of them, without erased users. It returns whether it could, and appends nothing if
///   not. `peek_id` is true only if an exact read at this moment says that the user with this key exists and has this
///   very id; false may also mean that memory does not know, unless peeks are guaranteed.
/// - **C9** `get_edges` returns live edges (active, pending, parked) in request order; unknown users have none.
/// - **C10** `scan` runs from the greatest place below `after` down; no edge twice, and none missed that is there
///   throughout, under concurrent writes. `total` is what paging through would count. Unknown users have an empty list.
///   An open list has no quiet follows, and a page of it costs the same however many were left out; in the whole list
///   an edge whose flag changes keeps its place. `scan_up` runs from the least place above `after` up, and is the same
///   otherwise.
/// - **C11** Counts equal the lists at every moment and are never negative. `get_all_counts` has those of each user in
///   request order, each as of some moment of the call.
///
/// # Events
/// - **C12** Each change has exactly one event; no-ops and refusals have none. Sequences count 1, 2, 3 … without a gap.
/// - **C13** An event is listed only when every earlier one is. Events past retention give `events_expired` with the
///   sequence to resume from. `progress` says which outcomes a reader of the events has seen, and whether any are still
///   to come: once writes stop, `covered` reaches `newest`.
///
/// # Life
/// - **C14** After `close`, or after a crash, a store reopened on the same place has every acked write.
/// - **C15** `verify` finds nothing wrong, at any time.
///
/// # Beside the graph
/// - **C16** Records are written by the same commits and read as the last one left them: single, by id from above
///   `after` up, and counted; count and list agree at every moment. Every change of a record is a change like any
///   other: it has its sequence and its one event (C12); that of a non-public space says so ([`Event::is_public`]) and
///   has no value. A front skips those.
/// - **C17** `scan_history` shows each follow and each request of a user that ended within `history.retention`, once,
///   newest first, and nothing from before the user was created. It is derived from the edges' changes alone.
/// - **C18** An erased user is gone with the commit: no user, no records, no history, one `user.erased`, which has the
///   id. That of a named user is also kept in [`Space::Erased`], for events that have the key alone. Edges and posts
///   stay, and are read like others, until they are erased in chunks, each with its event. Until the last one is gone
///   nobody can be created under that key; the next user under it has nothing of the previous one.
/// - **C19** `get_records`, `scan_each` and `count_each` answer in request order, each as of some moment of the call.
/// - **C20** Reads yield: one that is answered without waiting spends its task's [share](crate::share) by the rows it
///   reads, so that a long reader does not starve others.
/// - **C21** An external id names one post of its author at a time: a second post with it writes nothing and returns
///   the first. It is free again when the post is gone. An imported post keeps its id, or gets one in its millisecond
///   that no other post has; an identical post is the existing one.
/// - **C22** The quota that a new follow takes is part of its commit: concurrent follows on any number of servers get
///   what the limits say and no more. Refusals, retries, imports and existing follows take nothing. An edge that ended
///   too often within a day is not followed again; an end by erasure does not count. An erased user leaves no quota.
///   `get_quotas` has the quota of each in request order, each as of some moment of the call.
/// - **C23** `sweep` shows every user of a range who is there throughout, once, under concurrent writes, and each user
///   is in one of the [ranges](Guarantees::ranges). Its order is the store's own: a page costs what it reads, however
///   many users there are. A cursor stays valid when the store is reopened; one of another store is refused. A missing
///   range is empty.
/// - **C24** No place is touched by all writes. What the server keeps about a user (the author of a post, when a mute
///   ends, push or pull, the id of the erased, tallies of a job) lies in that user's [bucket](Guarantees::buckets), and
///   nowhere else; only spaces that are not [spread](Space::is_spread) may lie under [`Key::SERVER`] beside them.
/// - **C25** A write with a fence is refused with `fenced` if its lease has a greater epoch where the write is decided,
///   as of the commit; then it changes nothing. A greater epoch takes over with the first write that is not refused. In
///   a store with several buckets each has its own epoch of a lease: the new holder takes one over by writing there.
/// - **C26** The progress of a write is committed atomically with its effect. It is written also where the operation
///   was a no-op, and not by a refusal or a replay.
/// - **C27** `newest_follows` adds, for each user in request order, the list of whom their `limit` newest follows point at
///   that are not quiet and not onto one of `without` (ascending), in any order, each list as of some moment of the call.
///   `keys_of` has the key of each number in request order, and `public_followers` how many followers that are not quiet
///   they have (C11). Numbers hold for one [`NewestFollows`] from one `clear` to the next.
/// - **C28** A parked edge is in the two lists of its plane, takes its place under the cap, and is in nothing else: no
///   check, no other list, no count. It leaves them by [`entourage_model::Operation::Release`], or as a request does;
///   released, its position is that of the commit.
/// - **C29** `heartbeat` lists every process that sent one within the last minutes, with the time since then by the
///   store's own clock; it is empty where one process has the store. After `disconnect` no commit that the process had
///   under way succeeds, and nothing waits for it. A process that was only paused goes on with new connections.
/// - **C30** While a store is away, requests fail at once with `unavailable`, and a write that is refused like this has
///   not happened and will not. `peek_away` is then `peek_all` as of an earlier moment: it returns how long ago memory
///   was known to be right, `None` where memory has nothing to say, and always while the store is not away. `Yes` also
///   means that both users have the ids that are given with their keys.
/// - **C31** `get_rows` has for each user in request order everybody at the other end of their live edges of one kind, on
///   one side, as paging through the lists would show them at some moment of the call, and who of the active ones, and
///   whether the user, existed at a moment after that; `None` for a row of more than `limit` edges.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    fn guarantees(&self) -> Guarantees;

    fn identity(&self) -> &Identity;

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>>;

    /// The outcomes of earlier writes with these keys, as their replays; `None` is no such write, or an expired one.
    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>>;

    fn peek_all(&self, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]);

    fn peek_open(&self, pairs: &[(Key, Key)], answers: &mut [Answer]);

    fn peek_common(&self, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool;

    fn peek_id(&self, key: Key, id: &[u8]) -> bool;

    /// Whether what is behind the store is known not to answer.
    fn is_away(&self) -> bool {
        false
    }

    /// What memory knew of these edges before the store went away, and how long ago that was.
    fn peek_away(&self, _kind: Kind, _pairs: &[(Named<'_>, Named<'_>)], _answers: &mut [Answer]) -> Option<Duration> {
        None
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>>;

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>>;

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>>;

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page>;

    /// As [`Self::scan`], ascending.
    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page>;

    /// What paging through the open list of each would show.
    async fn newest_follows(
        &self,
        users: &[Key],
        limit: usize,
        without: &[Key],
        found: &mut NewestFollows,
    ) -> Result<()> {
        let mut keys = Vec::new();
        for &user in users {
            keys.clear();
            push_newest(self, user, limit, without, &mut keys).await?;
            keys.iter().for_each(|key| found.push_key(*key));
            found.end_list();
        }
        Ok(())
    }

    /// Whole rows: for a cache of checks.
    async fn get_rows(&self, kind: Kind, side: Side, users: &[Key], limit: usize) -> Result<Vec<Option<EdgeRow>>> {
        let mut rows = Vec::with_capacity(users.len());
        for &user in users {
            rows.push(read_row(self, kind, side, user, limit).await?);
        }
        Ok(rows)
    }

    fn keys_of(&self, found: &NewestFollows, numbers: &[u32]) -> Vec<Key> {
        numbers.iter().filter_map(|number| found.key(*number)).collect()
    }

    async fn public_followers(&self, found: &NewestFollows, numbers: &[u32]) -> Result<Vec<u64>> {
        let counts = self.get_all_counts(&self.keys_of(found, numbers)).await?;
        let public = |counts: Counts| counts.followers.saturating_sub(counts.followers_quiet);
        Ok(counts.into_iter().map(|counts| public(counts.unwrap_or_default())).collect())
    }

    /// Users of one range in the order of the store, after `after`.
    async fn sweep(&self, range: u16, after: Option<&SweepCursor>, limit: usize) -> Result<Swept>;

    async fn get_records(&self, space: Space, ids: &[(Key, RecordId)]) -> Result<Vec<Option<Record>>>;

    /// For each owner the records with ids above `after`, which need not exist, in the order of their ids.
    async fn scan_each(
        &self,
        space: Space,
        owners: &[Key],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<Record>>>;

    async fn count_each(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>>;

    /// A follower's ended edges, newest first, below `before`.
    async fn scan_history(&self, follower: Key, before: Option<Version>, limit: usize) -> Result<Vec<Ended>>;

    /// The quota of each actor. A full quota may be forgotten.
    async fn get_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>>;

    /// Events of a partition above `after`, oldest first, at most `limit`.
    async fn events(&self, after: EventPosition, limit: usize) -> Result<Vec<Event>>;

    /// The lineage of this store: positions above a place where an earlier one lost its newest writes mean nothing in
    /// it.
    fn lineage(&self) -> Lineage;

    /// The last event of a partition, once everything that was acked before the call is listed.
    async fn last_event(&self, partition: u16) -> Result<Sequence>;

    /// Where the log of a partition ended a moment ago, without asking; commits of this process are part of it. `None`
    /// where nobody looks all the time, or not lately. A reader in the background that stands there need not ask.
    fn heard_end(&self, _partition: u16) -> Option<HeardEnd> {
        None
    }

    /// Lists what can be listed of a partition, and reports how far that is. Does not wait for writers.
    async fn progress(&self, partition: u16) -> Result<Progress>;

    /// Whether a read that starts now sees everything up to this watermark of an [`Outcome`], and of the derived side
    /// at least what concerns these users.
    async fn covers(&self, watermark: &Watermark, whose: Whose<'_>) -> Result<Covered>;

    async fn verify(&self) -> Result<Report>;

    async fn health(&self) -> Health;

    /// Says that the process of this id is alive, and returns all of them, itself among them.
    async fn heartbeat(&self, id: u64, about: &str) -> Result<Vec<Server>>;

    /// Ends the connections of a process that is silent.
    async fn disconnect(&self, id: u64) -> Result<()>;

    /// Makes everything durable and releases files and connections. Later writes are refused.
    async fn close(&self) -> Result<()>;
}
