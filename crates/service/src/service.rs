//! One value that every front holds: the store, the rules' settings, and what is derived from the store's secret.

use std::{
    hash::{BuildHasher, RandomState},
    path::Path,
    sync::Arc,
    time::Duration,
};

use entourage_model::{Clock, Error, KeyHasher, Reply, Result, Sealer, Uptime, Version};
use entourage_store::{Health, Maintenance, Store, SystemClock, SystemUptime};

use crate::{
    Actor, Call, Caller, Credential, FeedRules, Inboxes, Limits, QuotaStatus,
    audit::Auditor,
    feed::Feed,
    healer::Healer,
    jobs::Jobs,
    leaderboard::Leaderboard,
    limits::Limiter,
    stream_hub::StreamHub,
    writer::{Observers, Writer},
};

/// What an operator can set about the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Ids exist on their first use in a write.
    pub auto_create: bool,
    /// Active + pending + parked follows of one user; `None` is no bound.
    pub following_max: Option<u64>,
    pub limits: Limits,
    /// How long a notification is shown.
    pub notification_retention: Duration,
    /// Within which time everybody is audited once; `None` is never.
    pub audit_interval: Option<Duration>,
    pub feed: FeedRules,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            auto_create: false,
            following_max: Some(10_000),
            limits: Limits::default(),
            notification_retention: Duration::from_secs(30 * 24 * 60 * 60),
            audit_interval: Some(Duration::from_secs(60 * 60)),
            feed: FeedRules::default(),
        }
    }
}

/// What every write returns besides its own reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub version: Version,
    /// Reads that carry it see this write.
    pub token: String,
    /// The reply is that of an earlier request with the same key.
    pub replayed: bool,
}

pub struct Service {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) rules: Rules,
    pub(crate) sealer: Sealer,
    pub(crate) keys: KeyHasher,
    pub(crate) writer: Writer,
    pub(crate) leaderboard: Arc<Leaderboard>,
    limiter: Arc<Limiter>,
    pub(crate) jobs: Jobs,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hub: Arc<StreamHub>,
    pub(crate) auditor: Auditor,
    pub(crate) healer: Healer,
    pub(crate) feed: Arc<Feed>,
    pub(crate) maintenance: Option<Arc<dyn Maintenance>>,
    parts: Parts,
}

/// What a service is made of.
struct Parts {
    store: Arc<dyn Store>,
    rules: Rules,
    clock: Arc<dyn Clock>,
    uptime: Arc<dyn Uptime>,
    inboxes: Option<Arc<dyn Inboxes>>,
    maintenance: Option<Arc<dyn Maintenance>>,
}

impl Parts {
    fn build(self) -> Service {
        let Self { store, rules, clock, uptime, inboxes, maintenance } = &self;
        let secret = &store.identity().secret;
        let sealer = Sealer::new(secret, nonce_seed());
        let keys = KeyHasher::new(secret);
        let (limiter, leaderboard) = (Arc::new(Limiter::new(rules.limits, clock, uptime)), Arc::default());
        let hub = Arc::default();
        let feed = Feed::new(rules.feed, store.guarantees().is_alone());
        let feed = Arc::new(match inboxes {
            Some(inboxes) => feed.keeping(Arc::clone(inboxes)),
            None => feed,
        });
        let observers = Observers {
            feed: Arc::clone(&feed),
            leaderboard: Arc::clone(&leaderboard),
            limiter: Arc::clone(&limiter),
            hub: Arc::clone(&hub),
        };
        Service {
            store: Arc::clone(store),
            rules: *rules,
            writer: Writer::new(store, &sealer, observers),
            sealer,
            keys,
            leaderboard,
            limiter,
            jobs: Jobs::default(),
            clock: Arc::clone(clock),
            hub,
            auditor: Auditor::default(),
            healer: Healer::default(),
            feed,
            maintenance: maintenance.clone(),
            parts: self,
        }
    }
}

impl Service {
    pub fn new(store: Arc<dyn Store>, rules: Rules) -> Self {
        let clock = Arc::new(SystemClock);
        let uptime = Arc::new(SystemUptime::start());
        Parts { store, rules, clock, uptime, inboxes: None, maintenance: None }.build()
    }

    /// What goes on beside requests, until [`Self::end_streams`].
    pub async fn run(&self) {
        tokio::join!(self.run_hub(), self.run_audits(), self.run_healer(), self.run_feed());
    }

    /// Streams end, and with them what they need.
    pub fn end_streams(&self) {
        self.hub.close();
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

    /// With what the store offers to operators.
    #[must_use]
    pub fn with_maintenance(self, maintenance: Option<Arc<dyn Maintenance>>) -> Self {
        Parts { maintenance, ..self.parts }.build()
    }

    /// Copies the store into an empty folder of this machine while it goes on serving.
    pub async fn backup(&self, call: &Call, folder: &Path) -> Result<u64> {
        call.must_be_admin()?;
        let Some(maintenance) = &self.maintenance else {
            return Err(Error::invalid("this server's store is backed up with its own tools, not through Entourage"));
        };
        maintenance.backup(folder).await
    }

    /// Every request begins here, also one that is then refused: an end user has so many of them a minute.
    pub fn count_request(&self, caller: &Caller) -> Result<()> {
        if let Actor::User(user) = &caller.actor {
            self.feed.seen(self.keys.key(user), self.clock.now());
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
        let follows = self.limiter.follow_quota(&*self.store, self.keys.key(user)).await;
        requests.into_iter().chain(follows).collect()
    }

    pub async fn health(&self) -> Health {
        self.store.health().await
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.store.identity().epoch
    }

    /// Whether the call's token is one of this store's.
    pub fn check_token(&self, call: &Call) -> Result<()> {
        self.writer.read_token(call).map(|_| ())
    }
}

/// Another one in each process: nonces are not to be used twice.
fn nonce_seed() -> u64 {
    RandomState::new().hash_one(0)
}

/// A store that answers another question than the one asked is broken; saying so beats guessing.
pub(crate) fn unexpected(reply: &Reply) -> Error {
    Error::internal(format!("the store answered with {reply:?}"))
}
