//! PostgreSQL: one transaction for the writes of a moment, and nothing in memory that could be stale.
//!
//! Any number of processes may use one schema. The rules are not here: a commit loads what [`entourage_model::resolve`]
//! reads and stores what it returns.

mod breaker;
mod chunks;
mod commit;
mod connect;
mod copy;
mod counts;
mod edge_rows;
mod error;
mod events;
mod forget;
mod heartbeat;
mod lanes;
mod lease;
mod lineage;
mod load;
mod lock;
mod look;
mod migrations;
mod numbering;
mod options;
mod put;
mod queue;
mod read;
mod records;
mod recount;
mod row;
mod schema;
mod statements;
mod tidy;
mod time;
mod unknown;
mod upgrade;
mod verify;
mod versions;
mod view;
mod wants;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use entourage_model::{
    Buckets, Clock, Counts, EdgeValue, Ended, Error, Event, EventPosition, IdempotencyKey, Key, Kind, Lineage, List,
    Outcome, Page, Place, Quota, Record, RecordId, Result, Sequence, Side, Space, User, Version, Watermark, Write,
};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::timeout};

use self::{
    breaker::Breaker,
    connect::Target,
    error::{Failure, retrying},
    lanes::{Lanes, Subject},
    lease::Lease,
    lineage::Lineages,
    lock::Locks,
    queue::Queue,
    time::{Time, database_millis},
    versions::Versions,
};
pub use self::{
    look::look,
    options::Options,
    time::{SKEW_MAX, TimeSource},
    upgrade::{PendingMigration, SchemaStatus, migrate_schema, schema_status},
};
use entourage_store::{
    Answer, CommitOrder, Covered, Derived, EdgeRow, Guarantees, Health, Identity, Mirrors, NewestFollows, Progress,
    Report, Server, SweepCursor, Swept, Unhealthy, Whose, Writers,
};

/// How many commits wait for locks of other servers at a time, each with a connection.
const SLOW_LANE: usize = 4;
const CONNECTION_WAIT: Duration = Duration::from_secs(5);
/// Shorter than the fronts' own deadline.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);
/// Health checks do not wait for long.
const HEALTH_WITHIN: Duration = Duration::from_secs(2);
/// How long the system waits for an acknowledgement of what it sent, before it gives up a connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);
/// Settings of every session: where the tables are, and timeouts. Nobody waits for a lock for longer than for an answer.
const SESSION: &str = "-c default_transaction_isolation=read\\ committed -c lock_timeout=6s \
     -c idle_in_transaction_session_timeout=60s";
/// Commits read and write by key: a plan made while a table was small must not read all of it later.
const WRITING: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off \
     -c enable_mergejoin=off -c jit=off";

/// How many locks PostgreSQL has room for.
const LOCK_TABLE: &str = "SELECT current_setting('max_locks_per_transaction')::bigint * \
     (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint)";
/// A follow has two users, a pair, a load and an idempotency key.
const LOCKS_EACH: usize = 5;
const SERVERS_EXPECTED: usize = 4;
/// Whether this PostgreSQL takes writes, from which version of the schema on, and the time.
const HEALTH: &str = concat!(
    "SELECT current_setting('transaction_read_only') = 'off', writers_from, ",
    database_millis!(),
    " FROM meta"
);

/// A graph in one PostgreSQL schema.
pub struct Store {
    engine: Arc<Engine>,
}

/// Shared with the tasks that write.
struct Engine {
    identity: Identity,
    options: Options,
    time: Arc<Time>,
    breaker: Arc<Breaker>,
    lanes: Lanes,
    schema: String,
    /// From this version of the schema on a server may write.
    writers_from: AtomicI32,
    pool: Pool,
    /// Only for commits: nothing else can take their connections.
    writes: Pool,
    queue: Arc<Queue>,
    slow_lane: Semaphore,
    locks: Locks,
    /// Of one chunk.
    locks_max: usize,
    lineages: Arc<Lineages>,
    versions: Mutex<Versions>,
    lease: tokio::sync::Mutex<Option<Lease>>,
    /// Count deltas this process has written since it last folded.
    unfolded: AtomicU64,
    /// When this process last deleted what is past retention, and whether there was nothing.
    tidied: AtomicU64,
    tidied_nothing: AtomicBool,
    closed: AtomicBool,
    /// Names this process in the application name of its connections.
    session: i64,
    application: String,
}

impl Store {
    /// Opens the store in `schema`, creating and migrating it as needed.
    pub async fn connect(url: &str, schema: &str, options: Options, clock: Arc<dyn Clock>) -> Result<Self> {
        schema::check_name(schema)?;
        let mut target = Target::parse(url)?;
        let config = &mut target.config;
        let asked = config.get_options().unwrap_or_default();
        let session = format!("{asked} {SESSION} -c search_path={schema}");
        let number: i64 = rand::random();
        config
            .options(session.clone())
            .application_name(heartbeat::application_of(schema, number))
            .tcp_user_timeout(UNACKNOWLEDGED);
        let identity = match options.read_only {
            true => schema::read(&target, schema).await?,
            false => schema::prepare(&target, schema).await?,
        };
        let mut writing = target.clone();
        writing.config.options(format!("{session} {WRITING}"));
        let options = Options {
            writers: options.writers.max(1),
            batch: options.batch.max(1),
            connections: options.connections.max(1),
            ..options
        };
        let breaker = Arc::new(Breaker::new(target.clone()));
        let locks = Locks::new(identity.epoch);
        let lineages = Arc::new(Lineages::new(locks, options.read_only));
        let mut engine = Engine {
            locks,
            locks_max: 0,
            identity,
            options,
            time: Arc::new(Time::new(clock, options.time)),
            schema: schema.to_owned(),
            writers_from: AtomicI32::new(0),
            lanes: Lanes::new(options.connections),
            pool: pool(target, options.connections, (&lineages, &breaker), false)?,
            writes: pool(writing, options.writers + SLOW_LANE, (&lineages, &breaker), true)?,
            lineages,
            breaker,
            queue: Arc::default(),
            slow_lane: Semaphore::new(SLOW_LANE),
            versions: Mutex::new(Versions::none_yet()),
            lease: tokio::sync::Mutex::new(None),
            unfolded: AtomicU64::new(0),
            tidied: AtomicU64::new(0),
            tidied_nothing: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            session: number,
            application: heartbeat::application(schema),
        };
        if options.read_only {
            engine.read_progress().await?;
            return Ok(Self { engine: Arc::new(engine) });
        }
        engine.fit_lock_table().await?;
        engine.keep_lease().await?;
        engine.fold_or_warn().await;
        engine.tidy_sometimes().await;
        Ok(Self { engine: Arc::new(engine) })
    }

    /// The database's time, as far as this process knows it: what expires is judged by it.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.engine.time) as _
    }
}

fn pool(
    target: Target,
    size: usize,
    (lineages, breaker): (&Arc<Lineages>, &Arc<Breaker>),
    is_for_writes: bool,
) -> Result<Pool> {
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let (met, known) = (Arc::clone(lineages), Arc::clone(lineages));
    let meet = Hook::async_fn(move |client, metrics| {
        let (lineages, created) = (Arc::clone(&met), metrics.created);
        Box::pin(async move {
            let met = lineages.meet(client, created, is_for_writes).await;
            met.map_err(|failure| HookError::message(failure.error.to_string()))
        })
    });
    let breaker = Arc::clone(breaker);
    let retire =
        Hook::sync_fn(move |_, metrics| match known.is_current(metrics.created) && breaker.trusts(metrics.created) {
            true => Ok(()),
            false => Err(HookError::message("PostgreSQL is another one now, or was away")),
        });
    Pool::builder(Manager::from_config(target.config, target.tls, manager))
        .post_create(meet)
        .pre_recycle(retire)
        .max_size(size)
        .wait_timeout(Some(CONNECTION_WAIT))
        .create_timeout(Some(CONNECTION_WAIT))
        .recycle_timeout(Some(CONNECTION_WAIT))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| Error::internal("no connection pool").caused_by(error))
}

impl Engine {
    async fn client(&self) -> Result<Object, Failure> {
        self.connection(&self.pool).await
    }

    /// At once refused while PostgreSQL is away.
    async fn connection(&self, pool: &Pool) -> Result<Object, Failure> {
        self.breaker.check()?;
        let object = pool.get().await.inspect_err(|error| self.breaker.saw(error))?;
        // It may have waited for another one to notice.
        self.breaker.check()?;
        Ok(object)
    }

    fn refuse_when_it_only_reads(&self) -> Result<()> {
        match self.options.read_only {
            true => Err(Error::unavailable("this server only reads (server.roles = read): send writes to another one")),
            false => Ok(()),
        }
    }

    fn refuse_when_closed(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::unavailable("the store is closed"));
        }
        Ok(())
    }

    async fn ask_health(&self) -> Result<Health, Failure> {
        let client = self.client().await?;
        let statement = client.prepare_cached(HEALTH).await?;
        let began = self.time.begin();
        let found = client.query_one(&statement, &[]).await?;
        self.time.learn(began, found.get(2));
        if !found.get::<_, bool>(0) && !self.options.read_only {
            return Ok(Health::Degraded(Unhealthy::ReadOnly("PostgreSQL only reads".to_owned())));
        }
        if let Err(error) = self.learn_who_writes(found.get(1)) {
            return Ok(Health::Degraded(Unhealthy::ReadOnly(error.detail().to_owned())));
        }
        Ok(self.time.wrong().map_or(Health::Ready, |detail| Health::Degraded(Unhealthy::WrongClock(detail))))
    }

    /// All batches of all servers must fit the lock table of PostgreSQL; chunks of one caller are made to fit.
    async fn fit_lock_table(&mut self) -> Result<(), Failure> {
        let client = self.client().await?;
        let room: i64 = client.query_one(LOCK_TABLE, &[]).await?.get(0);
        let wanted = (SERVERS_EXPECTED * self.options.writers * self.options.batch * LOCKS_EACH) as i64;
        if wanted > room {
            tracing::warn!(
                wanted,
                room,
                "the lock table of PostgreSQL is small for as many batches of writes; raise max_locks_per_transaction"
            );
        }
        // A third of the room is left to others.
        self.locks_max = usize::try_from(room).unwrap_or_default() * 2 / 3 / self.options.writers;
        Ok(())
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
        &self.engine.identity
    }

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        if let Err(error) = self.engine.refuse_when_it_only_reads() {
            return vec![Err(error); writes.len()];
        }
        self.engine.commit_all(writes).await
    }

    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>> {
        match self.engine.ask(Subject::Records, || self.engine.read_replies(keys)).await {
            Ok(replies) => replies,
            Err(error) => vec![Err(error); keys.len()],
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

    fn is_away(&self) -> bool {
        self.engine.breaker.is_open()
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        self.engine.ask(Subject::Edges, || self.engine.read_edges(kind, pairs)).await
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        self.engine.ask(Subject::Users, || self.engine.read_users(keys)).await
    }

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        self.engine.ask(Subject::Users, || self.engine.read_counts(users)).await
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.engine.ask(Subject::Edges, || self.engine.read_page(list, after, false, limit)).await
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.engine.ask(Subject::Edges, || self.engine.read_page(list, after, true, limit)).await
    }

    async fn newest_follows(
        &self,
        users: &[Key],
        limit: usize,
        without: &[Key],
        found: &mut NewestFollows,
    ) -> Result<()> {
        let rows = self.engine.ask(Subject::Edges, || self.engine.read_newest_follows(users, limit, without)).await?;
        let mut rows = rows.into_iter().peekable();
        for index in 0..users.len() {
            while let Some((_, key)) = rows.next_if(|(place, _)| *place == index) {
                found.push_key(key);
            }
            found.end_list();
        }
        Ok(())
    }

    async fn get_rows(&self, kind: Kind, side: Side, users: &[Key], limit: usize) -> Result<Vec<Option<EdgeRow>>> {
        self.engine.ask(Subject::Edges, || self.engine.read_rows(kind, side, users, limit)).await
    }

    async fn sweep(&self, range: u16, after: Option<&SweepCursor>, limit: usize) -> Result<Swept> {
        if range > 0 {
            return Ok(Swept::default());
        }
        let after = after.map(SweepCursor::key).transpose()?;
        let users = self.engine.ask(Subject::Users, || self.engine.read_users_above(after, limit)).await?;
        Ok(Swept::by_key(users, limit))
    }

    async fn count_each(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>> {
        self.engine.ask(Subject::Records, || self.engine.read_record_counts(space, owners)).await
    }

    async fn get_records(&self, space: Space, ids: &[(Key, RecordId)]) -> Result<Vec<Option<Record>>> {
        self.engine.ask(Subject::Records, || self.engine.read_all_records(space, ids)).await
    }

    async fn scan_each(
        &self,
        space: Space,
        owners: &[Key],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<Record>>> {
        self.engine.ask(Subject::Records, || self.engine.read_each(space, owners, after, limit)).await
    }

    async fn scan_history(&self, follower: Key, before: Option<Version>, limit: usize) -> Result<Vec<Ended>> {
        self.engine.ask(Subject::Edges, || self.engine.read_history(follower, before, limit)).await
    }

    async fn get_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>> {
        self.engine.ask(Subject::Users, || self.engine.read_quotas(actors)).await
    }

    async fn events(&self, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        if !self.engine.options.read_only {
            self.engine.tidy_sometimes().await;
        }
        self.engine.ask(Subject::Log, || self.engine.read_events(after, limit)).await
    }

    fn lineage(&self) -> Lineage {
        self.engine.lineage()
    }

    async fn last_event(&self, _partition: u16) -> Result<Sequence> {
        self.engine.ask(Subject::Log, || self.engine.read_last_event()).await
    }

    async fn progress(&self, _partition: u16) -> Result<Progress> {
        self.engine.ask(Subject::Log, || self.engine.read_progress()).await
    }

    async fn covers(&self, watermark: &Watermark, _whose: Whose<'_>) -> Result<Covered> {
        self.engine.ask(Subject::Log, || self.engine.covers(watermark)).await
    }

    async fn verify(&self) -> Result<Report> {
        Ok(retrying(|| self.engine.check_everything()).await?)
    }

    async fn health(&self) -> Health {
        if let Err(error) = self.engine.refuse_when_closed() {
            return Health::Degraded(Unhealthy::Unreachable(error.to_string()));
        }
        match timeout(HEALTH_WITHIN, retrying(|| self.engine.ask_health())).await {
            Ok(Ok(health)) => health,
            Ok(Err(failure)) => Health::Degraded(Unhealthy::Unreachable(failure.error.to_string())),
            Err(_) => Health::Degraded(Unhealthy::Unreachable("PostgreSQL does not answer".to_owned())),
        }
    }

    async fn heartbeat(&self, id: u64, about: &str) -> Result<Vec<Server>> {
        self.engine.refuse_when_closed()?;
        if self.engine.options.read_only {
            return Ok(Vec::new());
        }
        self.engine.ask(Subject::Servers, || self.engine.beat(id, about)).await
    }

    async fn disconnect(&self, id: u64) -> Result<()> {
        self.engine.ask(Subject::Servers, || self.engine.end_connections_of(id)).await
    }

    async fn close(&self) -> Result<()> {
        if self.engine.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let released = match self.engine.options.read_only {
            true => Ok(()),
            false => tokio::try_join!(self.engine.release_lease(), self.engine.leave()).map(drop),
        };
        self.engine.pool.close();
        self.engine.writes.close();
        Ok(released?)
    }
}
