//! Advisory locks: they keep other commits out between a decision's reads and its changes.
//!
//! A commit takes all its locks in one statement before it reads anything. A batch only tries them; whoever waits takes
//! them in the order of their numbers: two commits never deadlock. Nobody locks the target of a follow exclusively: the
//! followers of one celebrity do not queue.

use entourage_model::{Key, Operation, RecordId, Space, Write};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::{lineage::newest_lineage, time::database_millis};

/// What a commit begins with: what is locked first, and only then the time, who may write to this
/// schema, and its lineage.
macro_rules! first {
    ($missed:literal) => {
        concat!(
            "SELECT locked.transaction, locked.missed, ",
            database_millis!(),
            ", (SELECT writers_from FROM meta), ",
            newest_lineage!(),
            " FROM (SELECT pg_current_xact_id()::text AS transaction, ARRAY(",
            $missed,
            ") AS missed OFFSET 0) AS locked"
        )
    };
}

/// The transaction's number, and the locks that others have.
pub(super) const TRY: &str = first!(
    "SELECT number FROM unnest($1::bigint[], $2::boolean[]) AS wanted (number, exclusive) \
     WHERE NOT CASE WHEN exclusive THEN pg_try_advisory_xact_lock(number) \
         ELSE pg_try_advisory_xact_lock_shared(number) END"
);
/// The same, once it has them all.
pub(super) const WAIT: &str = first!(
    "SELECT number FROM unnest($1::bigint[], $2::boolean[]) AS wanted (number, exclusive) \
     WHERE CASE WHEN exclusive THEN pg_advisory_xact_lock(number)::text \
         ELSE pg_advisory_xact_lock_shared(number)::text END IS NULL"
);

/// Numbers to lock in the order to take them, each with whether it is exclusive.
pub(super) type Wanted = Vec<(i64, bool)>;

/// All of them once. Of equal numbers the exclusive one is kept: a lock is never upgraded later.
pub(super) fn union(wanted: impl Iterator<Item = (i64, bool)>) -> Wanted {
    let mut locks: Wanted = wanted.collect();
    locks.sort_unstable_by_key(|&(number, exclusive)| (number, !exclusive));
    locks.dedup_by_key(|&mut (number, _)| number);
    locks
}

/// What can be locked. The number is a hash: two names that collide wait for each other needlessly, no more.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name {
    /// A user's record: exclusive to change it, shared by everything decided on it.
    User(Key),
    /// All edges between two users, in both directions.
    Pair(Key, Key),
    /// What a user follows: shared by what makes it longer, exclusive where the cap depends on it.
    Load(Key),
    Scope([u8; 16]),
    /// All records of an owner: conditions and caps depend on them.
    Records(Key),
    /// One record of the server, which has no caps: the hash of its id.
    Record(Space, u64),
    Relay,
    Fold,
    Lease,
    Recount,
    Lineage,
}

/// Locks belong to the whole database; the store's epoch separates those of two stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Locks {
    epoch: u64,
}

impl Locks {
    pub(super) const fn new(epoch: u64) -> Self {
        Self { epoch }
    }

    pub(super) fn number(self, name: Name) -> i64 {
        let mut bytes = [0; 17];
        let mut put = |tag: u8, first: i64, second: i64| {
            bytes[0] = tag;
            bytes[1..9].copy_from_slice(&first.to_be_bytes());
            bytes[9..].copy_from_slice(&second.to_be_bytes());
        };
        match name {
            Name::User(key) => put(0, key.0, 0),
            Name::Pair(a, b) => put(1, a.min(b).0, a.max(b).0),
            Name::Load(key) => put(2, key.0, 0),
            Name::Scope(scope) => {
                bytes[0] = 3;
                bytes[1..].copy_from_slice(&scope);
            }
            Name::Relay => put(4, 0, 0),
            Name::Fold => put(5, 0, 0),
            Name::Lease => put(6, 0, 0),
            Name::Records(key) => put(7, key.0, 0),
            Name::Recount => put(8, 0, 0),
            Name::Lineage => put(10, 0, 0),
            Name::Record(space, id) => put(9, space as i64, id as i64),
        }
        xxh3_64_with_seed(&bytes, self.epoch) as i64
    }

    pub(super) fn of(self, write: &Write) -> Wanted {
        let mut locks = Vec::with_capacity(5);
        match write.operation.parties() {
            _ if write.operation == Operation::Nothing => {}
            (owner, None)
                if matches!(
                    write.operation,
                    Operation::PutRecord { .. }
                        | Operation::AddRecord { .. }
                        | Operation::Post { .. }
                        | Operation::ImportPost { .. }
                ) =>
            {
                locks.push((self.number(Name::User(owner)), false));
                locks.extend(subject(&write.operation).map(|subject| (self.number(Name::User(subject)), false)));
            }
            (key, None) => locks.push((self.number(Name::User(key)), true)),
            (actor, Some(other)) => {
                locks.push((self.number(Name::User(actor)), false));
                locks.push((self.number(Name::User(other)), false));
                locks.push((self.number(Name::Pair(actor, other)), true));
            }
        }
        match write.operation {
            Operation::Follow { follower, .. } => locks.push((self.number(Name::Load(follower)), true)),
            // They make it longer without asking how long it is: only who asks must wait for them.
            Operation::Import { follower, .. } | Operation::ImportRequest { follower, .. } => {
                locks.push((self.number(Name::Load(follower)), false));
            }
            _ => {}
        }
        if let Operation::PutRecord { owner, .. }
        | Operation::AddRecord { owner, .. }
        | Operation::Post { author: owner, .. }
        | Operation::ImportPost { author: owner, .. }
        | Operation::GroupMember { owner, .. } = write.operation
        {
            locks.push((self.number(records(&write.operation, owner)), true));
        }
        // Exclusive: no takeover may come between reading an epoch and the commit.
        let lease = write.fence.iter().map(|fence| fence.lease.record_id());
        for id in lease.chain(write.progress.iter().map(|progress| &progress.id)).chain(&write.tally) {
            locks.push((self.number(record(Space::Job, id)), true));
        }
        if let Some(key) = &write.idempotency {
            locks.push((self.number(Name::Scope(key.scope)), true));
        }
        union(locks.into_iter())
    }
}

/// What a write to records locks.
fn records(operation: &Operation, owner: Key) -> Name {
    match operation {
        Operation::PutRecord { space, id, cap: None, .. } if owner.is_server() => record(*space, id),
        _ => Name::Records(owner),
    }
}

fn record(space: Space, id: &RecordId) -> Name {
    Name::Record(space, xxh3_64(id.as_bytes()))
}

/// The user whom a record of the server is about, where that matters.
pub(super) fn subject(operation: &Operation) -> Option<Key> {
    match operation {
        Operation::PutRecord { space: Space::Fanout | Space::Erased, id, .. } => id.key(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_come_in_one_order_and_once() {
        let locks = Locks::new(7);
        let follow = |follower, target| {
            Write::from(Operation::Follow {
                follower: Key(follower),
                target: Key(target),
                quiet: Some(false),
                cap: None,
                park: false,
            })
        };
        for write in [follow(1, 2), follow(2, 1), follow(5, 5), follow(-9, i64::MAX)] {
            let taken = locks.of(&write);
            assert!(taken.is_sorted_by(|a, b| a.0 < b.0), "{taken:?}");
        }
        assert_eq!(locks.number(Name::Pair(Key(1), Key(2))), locks.number(Name::Pair(Key(2), Key(1))));
        assert_ne!(locks.number(Name::Relay), Locks::new(8).number(Name::Relay));
    }

    /// Jobs of all servers count into records of their own.
    #[test]
    fn what_is_the_servers_is_locked_record_by_record() {
        let locks = Locks::new(7);
        let tallied = |id: &[u8]| {
            let tally = Some(RecordId::new(id).unwrap());
            locks.of(&Write { tally, ..Write::from(Operation::Unfollow { follower: Key(1), target: Key(2) }) })
        };
        let (one, other) = (tallied(b"t1"), tallied(b"t2"));
        let plain = locks.of(&Write::from(Operation::Unfollow { follower: Key(1), target: Key(2) }));
        let own = |taken: &[(i64, bool)]| taken.iter().copied().find(|lock| !plain.contains(lock)).unwrap();
        assert_ne!(own(&one), own(&other));
        assert!(own(&one).1);
    }

    #[test]
    fn a_follow_shares_its_target_and_a_profile_change_does_not() {
        let locks = Locks::new(7);
        let target = locks.number(Name::User(Key(2)));
        let follow = Write::from(Operation::Follow {
            follower: Key(1),
            target: Key(2),
            quiet: Some(false),
            cap: Some(1),
            park: false,
        });
        assert!(locks.of(&follow).contains(&(target, false)));
        let put = Write::from(Operation::PutUser {
            key: Key(2),
            id: 2.into(),
            patch: Default::default(),
            overwrite: entourage_model::Overwrite::Replace,
        });
        assert_eq!(locks.of(&put), [(target, true)]);
    }
}
