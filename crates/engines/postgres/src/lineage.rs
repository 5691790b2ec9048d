//! Lineages: which history of PostgreSQL this process talks to, and what earlier ones have lost.
//!
//! After a standby was promoted, or files or a dump were restored, sequences of lost events are given out again. System
//! identifier and timeline do not tell two such histories apart, so the start of the postmaster counts as well, and whether
//! the row of the lineage is the one that was written or a copy of it. Every connection is asked before it is used, and every
//! statement that reads where the log ends asks again: tables can be replaced under an open connection.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use deadpool_postgres::{ClientWrapper, Object};
use entourage_model::{Error, EventPosition, Lineage, Sequence, Watermark};
use entourage_store::Covered;
use parking_lot::Mutex;
use tokio_postgres::Client;

use super::{
    Engine,
    error::Failure,
    lock::{Locks, Name},
};

/// What `written_by` is of the row itself.
macro_rules! own_mark {
    () => {
        "(SELECT oid::bigint << 32 FROM pg_database WHERE datname = current_database()) | lineages.xmin::text::bigint"
    };
}
/// What it is of a row that the current transaction writes.
macro_rules! new_mark {
    () => {
        "(SELECT oid::bigint << 32 FROM pg_database WHERE datname = current_database()) \
         | (pg_current_xact_id()::text::bigint & 4294967295)"
    };
}
/// The newest lineage, if its row is no copy: zero otherwise.
macro_rules! newest_lineage {
    () => {
        concat!(
            "coalesce((SELECT CASE WHEN written_by = ",
            $crate::lineage::own_mark!(),
            " THEN id END FROM lineages ORDER BY number DESC LIMIT 1), 0)"
        )
    };
}
pub(super) use {newest_lineage, own_mark};

/// With the lineage, if there is one already. The timeline is missing while PostgreSQL follows another one.
const ORIGIN: &str = concat!(
    "SELECT origin.*, id FROM (SELECT system_identifier AS system, CASE WHEN NOT pg_is_in_recovery() THEN \
         ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint END AS timeline, \
         (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS started FROM pg_control_system()) AS origin \
     LEFT JOIN lineages ON (lineages.system_identifier, lineages.timeline, lineages.started) \
         = (origin.system, origin.timeline, origin.started) AND written_by = ",
    own_mark!()
);
/// A row of a server that does not mark its own is taken as it is.
const MARK: &str = concat!(
    "UPDATE lineages SET written_by = ",
    new_mark!(),
    " WHERE (system_identifier, timeline, started) = ($1, $2, $3) AND written_by IS NULL"
);
/// The copy of a row gives its place up. Servers that know nothing of marks find the new one there.
const RETIRE: &str = concat!(
    "UPDATE lineages SET started = -number WHERE (system_identifier, timeline, started) = ($1, $2, $3) AND written_by <> ",
    own_mark!()
);
const ADD: &str = concat!(
    "INSERT INTO lineages (number, id, system_identifier, timeline, started, fork, written_by) \
     SELECT next.number, (next.number << 32) | $4::bigint, $1, $2, $3, CASE WHEN next.number > 1 THEN relay.sequence END, ",
    new_mark!(),
    " FROM relay, (SELECT coalesce(max(number), 0) + 1 AS number FROM lineages) next \
     WHERE NOT EXISTS (SELECT 1 FROM lineages WHERE (system_identifier, timeline, started) = ($1, $2, $3))"
);
const KNOWN: &str = "SELECT id FROM lineages WHERE (system_identifier, timeline, started) = ($1, $2, $3)";
const NEWEST: &str = "SELECT id FROM lineages ORDER BY number DESC LIMIT 1";
/// Where the log ends, and the lineage of that moment.
pub(super) const END: &str = concat!("SELECT sequence, ", newest_lineage!(), " FROM relay");
/// The same on a standby, as far as it was replayed: whose row is a copy is for others to say.
pub(super) const READ_END: &str =
    "SELECT sequence, coalesce((SELECT id FROM lineages ORDER BY number DESC LIMIT 1), 0) FROM relay";
/// The least fork after a lineage, where the log ends, the last event that is gone, and the newest lineage. Zero is before the
/// first one. An unknown lineage is of another history, which may have parted from this one at any fork.
const BOUND: &str = concat!(
    "SELECT (SELECT min(fork) FROM lineages WHERE number > CASE WHEN $1::bigint = 0 THEN 0 ELSE \
         coalesce((SELECT number FROM lineages WHERE id = $1), 1) END), \
     sequence, dropped, EXISTS (SELECT 1 FROM lineages WHERE id = $1), ",
    newest_lineage!(),
    " FROM relay"
);
/// Watermarks from before there were lineages are numbers of transactions.
const IS_VISIBLE: &str = "SELECT pg_visible_in_snapshot($1::text::xid8, pg_current_snapshot())";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    system: i64,
    timeline: i64,
    started: i64,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    lineage: Lineage,
    origin: Option<Origin>,
    /// Connections that were made earlier may lead to another history.
    since: Option<Instant>,
}

pub(super) struct Lineages {
    locks: Locks,
    /// Nothing is added: PostgreSQL may be a standby, and others write.
    only_reads: bool,
    /// Up to here somebody was told that everything is seen. A standby that is behind is not read.
    seen: AtomicU64,
    current: Mutex<Current>,
}

impl Lineages {
    pub(super) const fn new(locks: Locks, only_reads: bool) -> Self {
        let current = Current { lineage: Lineage(0), origin: None, since: None };
        Self { locks, only_reads, seen: AtomicU64::new(0), current: Mutex::new(current) }
    }

    pub(super) fn current(&self) -> Lineage {
        self.current.lock().lineage
    }

    /// Whether a connection that was made then belongs to the current lineage.
    pub(super) fn is_current(&self, created: Instant) -> bool {
        self.current.lock().since.is_none_or(|since| created >= since)
    }

    /// Of a new connection, before it is used. A lineage that nobody has met is added before anything is written.
    pub(super) async fn meet(
        &self,
        client: &mut ClientWrapper,
        created: Instant,
        is_for_writes: bool,
    ) -> Result<(), Failure> {
        let found = client.query_one(ORIGIN, &[]).await?;
        let (system, timeline, started): (i64, Option<i64>, i64) = (found.get(0), found.get(1), found.get(2));
        let known: Option<i64> = found.get(3);
        if self.only_reads {
            // A timeline of its own begins with its first write, which is not ours.
            return self.meet_to_read(client, Origin { system, timeline: 0, started }, created).await;
        }
        let Some(timeline) = timeline else {
            if is_for_writes {
                return Err(Error::unavailable("PostgreSQL only reads").into());
            }
            let newest = client.query_opt(NEWEST, &[]).await?;
            self.settle_on(newest.map_or(0, |row| row.get(0)), created);
            return Ok(());
        };
        let id = match known {
            Some(id) => id,
            None => self.add(client, Origin { system, timeline, started }).await?,
        };
        self.settle_on(id, created);
        Ok(())
    }

    /// All connections lead to one PostgreSQL, and to one that has everything that was read before.
    async fn meet_to_read(&self, client: &Client, origin: Origin, created: Instant) -> Result<(), Failure> {
        let found = client.query_one(READ_END, &[]).await?;
        let (end, lineage): (i64, i64) = (found.get(0), found.get(1));
        let mut current = self.current.lock();
        let is_same = current.lineage == Lineage(lineage.unsigned_abs());
        if is_same && end.unsigned_abs() < self.seen.load(Ordering::Acquire) {
            return Err(Error::unavailable("this standby of PostgreSQL is behind the one that was read before").into());
        }
        if !is_same {
            self.seen.store(0, Ordering::Release);
        }
        let since = if current.origin == Some(origin) { current.since } else { Some(created) };
        *current = Current { lineage: Lineage(lineage.unsigned_abs()), origin: Some(origin), since };
        Ok(())
    }

    /// As of a moment, where the log ended: of a standby that replays what others write.
    pub(super) fn read_up_to(&self, lineage: Lineage, end: Sequence) {
        let mut current = self.current.lock();
        if current.lineage != lineage {
            tracing::warn!(lineage = lineage.0, "PostgreSQL was restarted, promoted or restored");
            current.lineage = lineage;
            self.seen.store(0, Ordering::Release);
        }
        self.seen.fetch_max(end.0, Ordering::AcqRel);
    }

    pub(super) fn saw(&self, end: Sequence) {
        self.seen.fetch_max(end.0, Ordering::AcqRel);
    }

    async fn add(&self, client: &mut ClientWrapper, origin: Origin) -> Result<i64, Failure> {
        let Origin { system, timeline, started } = origin;
        let transaction = client.transaction().await?;
        let lock = self.locks.number(Name::Lineage);
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&lock]).await?;
        for statement in [MARK, RETIRE] {
            transaction.execute(statement, &[&system, &timeline, &started]).await?;
        }
        let random = i64::from(rand::random::<u32>());
        transaction.execute(ADD, &[&system, &timeline, &started, &random]).await?;
        let id = transaction.query_one(KNOWN, &[&system, &timeline, &started]).await?.get(0);
        transaction.commit().await?;
        Ok(id)
    }

    fn settle_on(&self, id: i64, created: Instant) {
        let lineage = Lineage(id.unsigned_abs());
        let mut current = self.current.lock();
        if current.lineage != lineage {
            if current.lineage != Lineage(0) {
                tracing::warn!(lineage = lineage.0, "PostgreSQL was restarted, promoted or restored");
            }
            *current = Current { lineage, origin: None, since: Some(created) };
        }
    }

    /// The tables are not those of this lineage any more: the next connection meets another one.
    fn leave(&self, lineage: Lineage) {
        let mut current = self.current.lock();
        if current.lineage == lineage {
            current.since = Some(Instant::now());
        }
    }
}

impl Engine {
    pub(super) fn lineage(&self) -> Lineage {
        self.lineages.current()
    }

    /// Of a connection. One that may lead to another history is not used.
    pub(super) fn lineage_of(&self, object: &Object) -> Result<Lineage, Failure> {
        let lineage = self.lineages.current();
        if self.lineages.is_current(Object::metrics(object).created) {
            return Ok(lineage);
        }
        Err(another())
    }

    /// As a statement on that connection has read it. Connections from before are not used any more if it is another one.
    pub(super) fn must_be_lineage(&self, lineage: Lineage, read: i64) -> Result<(), Failure> {
        if lineage == Lineage(read.unsigned_abs()) || self.options.read_only {
            return Ok(());
        }
        self.lineages.leave(lineage);
        Err(another())
    }

    pub(super) async fn covers(&self, watermark: &Watermark) -> Result<Covered, Failure> {
        let client = self.client().await?;
        if watermark.lineage() == Lineage(0) {
            let statement = client.prepare_cached(IS_VISIBLE).await?;
            let is_visible: bool = client.query_one(&statement, &[&watermark.sequence().to_string()]).await?.get(0);
            return Ok(is_visible.into());
        }
        let lineage = self.lineage_of(&client)?;
        let bound = self.bound(&client, lineage, watermark.lineage()).await?;
        if self.options.read_only && !bound.is_known {
            // Whoever writes in a lineage has added it before: a standby without it lacks the write, too.
            return Ok(Covered::NotYet);
        }
        if bound.fork.is_some_and(|fork| watermark.sequence() > fork) {
            return Ok(Covered::OtherLineage);
        }
        let is_covered = watermark.sequence() <= bound.end;
        if is_covered && self.options.read_only {
            self.lineages.saw(watermark.sequence());
        }
        Ok(is_covered.into())
    }

    /// Where to resume, if events up to this position of an earlier lineage are lost.
    pub(super) async fn lost(
        &self,
        client: &Client,
        lineage: Lineage,
        at: EventPosition,
    ) -> Result<Option<Sequence>, Failure> {
        let bound = self.bound(client, lineage, at.lineage).await?;
        // What is left below the fork may be past retention as well.
        Ok(bound.fork.filter(|fork| at.offset > *fork).map(|fork| fork.max(bound.dropped)))
    }

    /// Of an earlier lineage, on a connection of the current one.
    async fn bound(&self, client: &Client, current: Lineage, earlier: Lineage) -> Result<Bound, Failure> {
        let found = client.query_one(BOUND, &[&(earlier.0 as i64)]).await?;
        self.must_be_lineage(current, found.get(4))?;
        let sequence = |number: i64| Sequence(number.unsigned_abs());
        Ok(Bound {
            fork: found.get::<_, Option<i64>>(0).map(sequence),
            end: sequence(found.get(1)),
            dropped: sequence(found.get(2)),
            is_known: found.get(3),
        })
    }
}

struct Bound {
    fork: Option<Sequence>,
    end: Sequence,
    dropped: Sequence,
    is_known: bool,
}

fn another() -> Failure {
    Failure { again: true, is_lost: true, ..Error::unavailable("PostgreSQL is another one now").into() }
}
