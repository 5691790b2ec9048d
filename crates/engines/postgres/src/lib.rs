//! PostgreSQL: one transaction for each write, and nothing in memory that could be stale.
//!
//! Any number of processes may use one schema. The rules are not here: a commit loads what [`entourage_model::resolve`]
//! reads and stores what it returns.

mod commit;
mod counts;
mod error;
mod events;
mod forget;
mod heartbeat;
mod lease;
mod lock;
mod look;
mod options;
mod read;
mod records;
mod recount;
mod row;
mod schema;
mod tidy;
mod verify;
mod view;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use entourage_model::{
    Buckets, Clock, Counts, EdgeValue, Ended, Error, Event, EventPosition, IdempotencyKey, Key, Kind, Lineage, List,
    Outcome, Page, Place, Quota, Record, RecordId, Result, Sequence, Space, User, Version, VersionClock, Watermark,
    Write,
};
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_postgres::NoTls;

use self::{
    error::{Failure, answering, retrying},
    lease::Lease,
    lock::Locks,
};
pub use self::{look::look, options::Options};
use entourage_store::{
    Answer, CommitOrder, Covered, Derived, Guarantees, Health, Identity, Mirrors, NewestFollows, Progress, Report,
    Server, SweepCursor, Swept, Unhealthy, Whose, Writers,
};

const CONNECTIONS_MAX: usize = 16;
const CONNECTION_WAIT: Duration = Duration::from_secs(5);
/// Health checks do not wait for long.
const HEALTH_WITHIN: Duration = Duration::from_secs(2);
/// How long the system waits for an acknowledgement of what it sent, before it gives up a connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);
/// Settings of every session: where the tables are, and timeouts.
const SESSION: &str = "-c default_transaction_isolation=read\\ committed -c lock_timeout=10s \
     -c idle_in_transaction_session_timeout=60s";

fn parse(url: &str) -> Result<tokio_postgres::Config> {
    let wrong = |error| Error::invalid("store.url is not a PostgreSQL URL").caused_by(error);
    url.parse().map_err(wrong)
}

/// A graph in one PostgreSQL schema.
pub struct Store {
    identity: Identity,
    options: Options,
    clock: Arc<dyn Clock>,
    pool: Pool,
    locks: Locks,
    versions: Mutex<VersionClock>,
    lease: tokio::sync::Mutex<Option<Lease>>,
    /// Count deltas this process has written since it last folded.
    unfolded: AtomicU64,
    /// When this process last deleted what is past retention, by its clock.
    tidied: AtomicU64,
    closed: AtomicBool,
    /// Names this process in the application name of its connections.
    session: i64,
    application: String,
}

impl Store {
    /// Opens the store in `schema`, creating and migrating it as needed.
    pub async fn connect(url: &str, schema: &str, options: Options, clock: Arc<dyn Clock>) -> Result<Self> {
        schema::check_name(schema)?;
        let mut config = parse(url)?;
        let asked = config.get_options().unwrap_or_default();
        let session = format!("{asked} {SESSION} -c search_path={schema}");
        let number: i64 = rand::random();
        config.options(session).application_name(heartbeat::application_of(schema, number));
        config.connect_timeout(CONNECTION_WAIT);
        config.tcp_user_timeout(UNACKNOWLEDGED);
        let identity = schema::prepare(&config, schema).await?;
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(config, NoTls, manager))
            .max_size(CONNECTIONS_MAX)
            .wait_timeout(Some(CONNECTION_WAIT))
            .create_timeout(Some(CONNECTION_WAIT))
            .recycle_timeout(Some(CONNECTION_WAIT))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| Error::internal("no connection pool").caused_by(error))?;
        let store = Self {
            locks: Locks::new(identity.epoch),
            identity,
            options,
            clock,
            pool,
            versions: Mutex::new(lease::no_versions_yet()),
            lease: tokio::sync::Mutex::new(None),
            unfolded: AtomicU64::new(0),
            tidied: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            session: number,
            application: heartbeat::application(schema),
        };
        store.keep_lease().await?;
        store.fold_or_warn().await;
        store.tidy_sometimes().await;
        Ok(store)
    }

    async fn client(&self) -> Result<Object, Failure> {
        Ok(self.pool.get().await?)
    }

    fn refuse_when_closed(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::unavailable("the store is closed"));
        }
        Ok(())
    }

    async fn ask_whether_writable(&self) -> Result<bool, Failure> {
        let client = self.client().await?;
        let statement = client.prepare_cached("SELECT current_setting('transaction_read_only') = 'off'").await?;
        Ok(client.query_one(&statement, &[]).await?.get(0))
    }
}

#[async_trait]
impl entourage_store::Store for Store {
    fn guarantees(&self) -> Guarantees {
        Guarantees {
            name: "postgres",
            durable: true,
            peeks: false,
            writers: Writers::Many,
            order: CommitOrder::Unknown,
            derived: Derived::InCommit,
            mirrors: Mirrors::OneRow,
            partitions: 1,
            ranges: 1,
            buckets: Buckets::ONE,
        }
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in &writes {
            outcomes.push(self.commit_one(write).await);
        }
        outcomes
    }

    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>> {
        match answering(retrying(|| self.read_replies(keys))).await {
            Ok(replies) => replies,
            Err(error) => vec![Err(error.into()); keys.len()],
        }
    }

    /// Nothing is kept in memory, so nothing is known without a query.
    fn peek_all(&self, _kind: Kind, _pairs: &[(Key, Key)], answers: &mut [Answer]) {
        answers.fill(Answer::Unknown);
    }

    fn peek_open(&self, _pairs: &[(Key, Key)], answers: &mut [Answer]) {
        answers.fill(Answer::Unknown);
    }

    fn peek_common(&self, _one: Key, _other: Key, _limit: usize, _found: &mut Vec<Key>) -> bool {
        false
    }

    fn peek_id(&self, _key: Key, _id: &[u8]) -> bool {
        false
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        Ok(answering(retrying(|| self.read_edges(kind, pairs))).await?)
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        Ok(answering(retrying(|| self.read_users(keys))).await?)
    }

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        Ok(answering(retrying(|| self.read_counts(users))).await?)
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        Ok(answering(retrying(|| self.read_page(list, after, false, limit))).await?)
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        Ok(answering(retrying(|| self.read_page(list, after, true, limit))).await?)
    }

    async fn newest_follows(
        &self,
        users: &[Key],
        limit: usize,
        without: &[Key],
        found: &mut NewestFollows,
    ) -> Result<()> {
        let rows = answering(retrying(|| self.read_newest_follows(users, limit, without))).await?;
        let mut rows = rows.into_iter().peekable();
        for index in 0..users.len() {
            while let Some((_, key)) = rows.next_if(|(place, _)| *place == index) {
                found.push_key(key);
            }
            found.end_list();
        }
        Ok(())
    }

    async fn sweep(&self, range: u16, after: Option<&SweepCursor>, limit: usize) -> Result<Swept> {
        if range > 0 {
            return Ok(Swept::default());
        }
        let after = after.map(SweepCursor::key).transpose()?;
        let users = answering(retrying(|| self.read_users_above(after, limit))).await?;
        Ok(Swept::by_key(users, limit))
    }

    async fn count_each(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>> {
        Ok(answering(retrying(|| self.read_record_counts(space, owners))).await?)
    }

    async fn get_records(&self, space: Space, ids: &[(Key, RecordId)]) -> Result<Vec<Option<Record>>> {
        Ok(answering(retrying(|| self.read_all_records(space, ids))).await?)
    }

    async fn scan_each(
        &self,
        space: Space,
        owners: &[Key],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<Record>>> {
        Ok(answering(retrying(|| self.read_each(space, owners, after, limit))).await?)
    }

    async fn scan_history(&self, follower: Key, before: Option<Version>, limit: usize) -> Result<Vec<Ended>> {
        Ok(answering(retrying(|| self.read_history(follower, before, limit))).await?)
    }

    async fn get_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>> {
        Ok(answering(retrying(|| self.read_quotas(actors))).await?)
    }

    async fn events(&self, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        answering(retrying(|| self.relay())).await?;
        self.tidy_sometimes().await;
        Ok(answering(retrying(|| self.read_events(after.offset, limit))).await?)
    }

    fn lineage(&self) -> Lineage {
        Lineage::default()
    }

    async fn last_event(&self, _partition: u16) -> Result<Sequence> {
        answering(retrying(|| self.relay())).await?;
        Ok(answering(retrying(|| self.read_last_event())).await?)
    }

    async fn progress(&self, _partition: u16) -> Result<Progress> {
        Ok(answering(retrying(|| self.read_progress())).await?)
    }

    /// The watermark is a transaction's number: it is covered when a snapshot taken now sees that transaction.
    async fn covers(&self, watermark: &Watermark, _whose: Whose<'_>) -> Result<Covered> {
        Ok(answering(retrying(|| self.sees(watermark.sequence().0))).await?.into())
    }

    async fn verify(&self) -> Result<Report> {
        retrying(|| self.relay()).await?;
        Ok(retrying(|| self.check_everything()).await?)
    }

    async fn health(&self) -> Health {
        if let Err(error) = self.refuse_when_closed() {
            return Health::Degraded(Unhealthy::Unreachable(error.to_string()));
        }
        match timeout(HEALTH_WITHIN, retrying(|| self.ask_whether_writable())).await {
            Ok(Ok(true)) => Health::Ready,
            Ok(Ok(false)) => Health::Degraded(Unhealthy::ReadOnly("PostgreSQL only reads".to_owned())),
            Ok(Err(failure)) => Health::Degraded(Unhealthy::Unreachable(failure.error.to_string())),
            Err(_) => Health::Degraded(Unhealthy::Unreachable("PostgreSQL does not answer".to_owned())),
        }
    }

    async fn heartbeat(&self, id: u64, about: &str) -> Result<Vec<Server>> {
        self.refuse_when_closed()?;
        Ok(answering(retrying(|| self.beat(id, about))).await?)
    }

    async fn disconnect(&self, id: u64) -> Result<()> {
        Ok(answering(retrying(|| self.end_connections_of(id))).await?)
    }

    async fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let released = tokio::try_join!(self.release_lease(), self.leave()).map(drop);
        self.pool.close();
        Ok(released?)
    }
}
