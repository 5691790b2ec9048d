//! One value that every front holds. It makes the rooms, and what they share, from a store and the rules.

use std::{
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::Arc,
};

use entourage_model::{Clock, KeyHasher, Lineage, Result, Sealer, Uptime};
use entourage_store::{Health, Maintenance, Snapshots, Store, SystemClock, SystemUptime, Whose};
use tokio::task::JoinSet;

use crate::{
    Abuse, Actor, Call, Caller, Clusters, Context, Credential, Events, Feeds, Graph, Inboxes, Jobs, Leases,
    Notifications, QuotaStatus, Role, Rules, Scheduler, ServerInfo, Signals, Suggestions, Surges, Transfer, Upkeep,
    abuse::{Buffer, Index as CaseIndex},
    feed::Feed,
    limits::Limiter,
    signals::SignalCounters,
    suggestions::Cache as SuggestionCache,
    writer::{Observers, Writer},
};

pub struct Service {
    pub graph: Arc<Graph>,
    pub feeds: Arc<Feeds>,
    pub notifications: Notifications,
    pub events: Events,
    pub jobs: Arc<Jobs>,
    pub upkeep: Arc<Upkeep>,
    pub transfer: Arc<Transfer>,
    pub suggestions: Suggestions,
    pub abuse: Arc<Abuse>,
    pub signals: Arc<Signals>,
    pub scheduler: Scheduler,
    pub leases: Arc<Leases>,
    context: Arc<Context>,
    limiter: Arc<Limiter>,
    parts: Parts,
}

/// One of the things that go on beside requests.
type Background = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a service is made of.
struct Parts {
    store: Arc<dyn Store>,
    rules: Rules,
    clock: Arc<dyn Clock>,
    uptime: Arc<dyn Uptime>,
    inboxes: Option<Arc<dyn Inboxes>>,
    surges: Option<Arc<dyn Surges>>,
    clusters: Option<Arc<dyn Clusters>>,
    maintenance: Option<Arc<dyn Maintenance>>,
    cache: Option<Arc<dyn Snapshots>>,
    info: ServerInfo,
}

impl Parts {
    fn build(self) -> Service {
        let Self { store, rules, clock, uptime, inboxes, surges, clusters, maintenance, cache, info } = &self;
        let secret = &store.identity().secret;
        let sealer = Sealer::new(secret, nonce_seed());
        let (limiter, leaderboard) = (Arc::new(Limiter::new(rules.limits, clock, uptime)), Arc::default());
        let hub = Arc::default();
        let suggested: Arc<SuggestionCache> = Arc::default();
        let buffer: Arc<Buffer> = Arc::default();
        let cases: Arc<CaseIndex> = Arc::default();
        let signals = Arc::new(SignalCounters::new(&rules.signals));
        let rules = &if info.roles.has(Role::Fanout) { *rules } else { Rules { feed: rules.feed.pulled(), ..*rules } };
        let feed = Feed::new(rules.feed, store.guarantees().is_alone(), info.roles.has(Role::Fanout));
        let feed = Arc::new(match inboxes {
            Some(inboxes) => feed.keeping(Arc::clone(inboxes)),
            None => feed,
        });
        let observers = Observers {
            feed: Arc::clone(&feed),
            leaderboard: Arc::clone(&leaderboard),
            suggestions: Arc::clone(&suggested),
            limiter: Arc::clone(&limiter),
            hub: Arc::clone(&hub),
            abuse: Arc::clone(&buffer),
            signals: Arc::clone(&signals),
        };
        let context = Arc::new(Context {
            store: Arc::clone(store),
            writer: Writer::new(store, &sealer, observers),
            rules: *rules,
            sealer,
            keys: KeyHasher::new(secret),
            clock: Arc::clone(clock),
            surges: surges.clone().unwrap_or_else(|| Arc::clone(&cases) as _),
            hub,
        });
        let share = || Arc::clone(&context);
        let leases = Arc::new(Leases::new(share(), info.clone()));
        let jobs = Arc::new(Jobs::new(share(), Arc::clone(&leases), maintenance.clone()));
        let abuse = Arc::new(Abuse::new(share(), Arc::clone(&limiter), buffer, cases));
        let upkeep = Arc::new(Upkeep::new(share(), Arc::clone(&leaderboard), maintenance.clone()));
        let signals = Arc::new(Signals::new(share(), signals));
        let graph =
            Graph::new(share(), Arc::clone(&jobs), Arc::clone(&leaderboard), Arc::clone(&leases), Arc::clone(&abuse));
        let graph = Arc::new(graph);
        let feeds = Arc::new(Feeds::new(share(), feed));
        let transfer =
            Transfer::new(share(), Arc::clone(&graph), Arc::clone(&feeds), Arc::clone(&jobs), maintenance.clone());
        Service {
            notifications: Notifications::new(share()),
            events: Events::new(share()),
            scheduler: Scheduler::new(
                share(),
                Arc::clone(&leases),
                Arc::clone(&jobs),
                Arc::clone(&upkeep),
                Arc::clone(&signals),
                clusters.clone().or_else(|| abuse.periodic()),
                cache.clone(),
            ),
            upkeep,
            transfer: Arc::new(transfer),
            suggestions: Suggestions::new(share(), Arc::clone(&graph), Arc::clone(&signals), suggested),
            abuse,
            signals,
            graph,
            feeds,
            jobs,
            leases,
            context,
            limiter,
            parts: self,
        }
    }
}

impl Service {
    pub fn new(store: Arc<dyn Store>, rules: Rules) -> Self {
        let clock = Arc::new(SystemClock);
        let uptime = Arc::new(SystemUptime::start());
        let (inboxes, surges, clusters, maintenance, cache) = (None, None, None, None, None);
        let info = ServerInfo::default();
        Parts { store, rules, clock, uptime, inboxes, surges, clusters, maintenance, cache, info }.build()
    }

    /// What goes on beside requests, until [`Self::end_streams`]. Each in a task of its own: in one task a pass of the
    /// detectors would hold up the fan-out.
    pub async fn run(self: &Arc<Self>) {
        let mut tasks = JoinSet::new();
        let mut start = |work: fn(Arc<Self>) -> Background| drop(tasks.spawn(work(Arc::clone(self))));
        start(|service| Box::pin(async move { service.events.run_hub().await }));
        start(|service| Box::pin(async move { service.feeds.run_feed().await }));
        // Everything else writes, sooner or later.
        if !self.parts.info.roles.has(Role::Read) {
            start(|service| Box::pin(async move { service.leases.run().await }));
            start(|service| Box::pin(async move { service.scheduler.run().await }));
            start(|service| Box::pin(async move { service.upkeep.run_healer().await }));
            start(|service| Box::pin(async move { service.abuse.run().await }));
            start(|service| Box::pin(async move { service.signals.run().await }));
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }

    /// Streams end, and with them what they need.
    pub fn end_streams(&self) {
        self.context.hub.close();
    }

    /// With another measure of how time passes for the limits. What time it is now, the clock says.
    #[must_use]
    pub fn with_uptime(self, uptime: &Arc<dyn Uptime>) -> Self {
        Parts { uptime: Arc::clone(uptime), ..self.parts }.build()
    }

    /// With another clock to tell what is over.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Parts { clock, ..self.parts }.build()
    }

    /// With inboxes that are kept elsewhere.
    #[must_use]
    pub fn with_inboxes(self, inboxes: Arc<dyn Inboxes>) -> Self {
        Parts { inboxes: Some(inboxes), ..self.parts }.build()
    }

    /// With somebody else than the cases who knows of surges.
    #[must_use]
    pub fn with_surges(self, surges: Arc<dyn Surges>) -> Self {
        Parts { surges: Some(surges), ..self.parts }.build()
    }

    /// With somebody who looks for clusters of accounts that follow the same people, now and then.
    #[must_use]
    pub fn with_clusters(self, clusters: Arc<dyn Clusters>) -> Self {
        Parts { clusters: Some(clusters), ..self.parts }.build()
    }

    /// With what the store offers to operators.
    #[must_use]
    pub fn with_maintenance(self, maintenance: Option<Arc<dyn Maintenance>>) -> Self {
        Parts { maintenance, ..self.parts }.build()
    }

    /// With a cache in front of the store, which is saved now and then.
    #[must_use]
    pub fn with_cache(self, cache: Option<Arc<dyn Snapshots>>) -> Self {
        Parts { cache, ..self.parts }.build()
    }

    /// With what this server says of itself, and its roles.
    #[must_use]
    pub fn with_info(self, info: ServerInfo) -> Self {
        Parts { info, ..self.parts }.build()
    }

    /// Every request begins here, also one that is then refused: an end user has a quota of requests.
    pub fn count_request(&self, caller: &Caller) -> Result<()> {
        if let Actor::User(user) = &caller.actor {
            self.feeds.seen(user);
        }
        match (&caller.actor, &caller.credential) {
            (Actor::User(user), Credential::User) => self.limiter.count_request(user),
            _ => Ok(()),
        }
    }

    /// What the acting user has left of each quota.
    pub async fn quotas(&self, caller: &Caller) -> Vec<QuotaStatus> {
        let Actor::User(user) = &caller.actor else { return Vec::new() };
        let is_end_user = caller.credential == Credential::User;
        let requests = is_end_user.then(|| self.limiter.request_quota(user)).flatten();
        let follows = self.limiter.follow_quota(&*self.context.store, self.context.keys.key(user)).await;
        requests.into_iter().chain(follows).collect()
    }

    /// The lineage in which a call that reads begins, if it has a token.
    pub fn begin_read(&self, call: &Call) -> Option<Lineage> {
        call.token.as_ref().map(|_| self.context.store.lineage())
    }

    /// Before the answer of a read goes out. The store may have begun another lineage after it was asked about the token, and
    /// the read may have seen that one: then it is asked again.
    pub async fn confirm_read(&self, call: &Call, began: Option<Lineage>) -> Result<()> {
        match began {
            Some(began) if began != self.context.store.lineage() => self.context.catch_up(call, Whose::NOBODY).await,
            _ => Ok(()),
        }
    }

    pub async fn health(&self) -> Health {
        self.context.store.health().await
    }

    /// Whether the call's token is one of this store's.
    pub fn check_token(&self, call: &Call) -> Result<()> {
        self.context.writer.read_token(call).map(|_| ())
    }
}

/// Another one in each process: nonces are not to be used twice.
fn nonce_seed() -> u64 {
    RandomState::new().hash_one(0)
}
