//! One value that every front holds: the store, the rules' settings, and what is derived from the store's secret.

use std::{
    hash::{BuildHasher, RandomState},
    path::Path,
    sync::Arc,
    time::Duration,
};

use entourage_model::{
    Clock, Code, Error, IdempotencyKey, KeyHasher, Operation, Outcome, Reply, Result, RetryHasher, Sealer, Token,
    Uptime, Version, Write,
};
use entourage_store::{Health, Maintenance, Store, StoreExt as _, SystemClock, SystemUptime, Whose};

use crate::{
    Actor, Call, Caller, Credential, FeedRules, Inboxes, Limits, Retry, Standing,
    audit::Auditor,
    feed::Feed,
    healer::Healer,
    jobs::Jobs,
    leaderboard::Leaderboard,
    limits::{Hold, Limited, Limiter},
    running::Running,
    tail::Tail,
    to_the_end::ToTheEnd,
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
    retries: RetryHasher,
    pub(crate) running: Running,
    pub(crate) leaderboard: Leaderboard,
    limiter: Arc<Limiter>,
    uptime: Arc<dyn Uptime>,
    pub(crate) jobs: Jobs,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tail: Arc<Tail>,
    pub(crate) auditor: Auditor,
    pub(crate) healer: Healer,
    pub(crate) feed: Arc<Feed>,
    pub(crate) maintenance: Option<Arc<dyn Maintenance>>,
}

impl Service {
    pub fn new(store: Arc<dyn Store>, rules: Rules) -> Self {
        let secret = &store.identity().secret;
        let (sealer, keys, retries) =
            (Sealer::new(secret, nonce_seed()), KeyHasher::new(secret), RetryHasher::new(secret));
        let (running, leaderboard) = (Running::default(), Leaderboard::default());
        let uptime: Arc<dyn Uptime> = Arc::new(SystemUptime::start());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let limiter = Arc::new(Limiter::new(rules.limits, &clock, &uptime));
        let jobs = Jobs::default();
        let (tail, auditor, healer) = (Arc::default(), Auditor::default(), Healer::default());
        let maintenance = None;
        let feed = Arc::new(Feed::new(rules.feed, store.guarantees().is_alone()));
        Self {
            store,
            rules,
            sealer,
            keys,
            retries,
            running,
            leaderboard,
            limiter,
            uptime,
            jobs,
            clock,
            tail,
            auditor,
            healer,
            feed,
            maintenance,
        }
    }

    /// What goes on beside requests, until [`Self::end_streams`].
    pub async fn run(&self) {
        tokio::join!(self.run_tail(), self.run_audits(), self.run_healer(), self.run_feed());
    }

    /// Streams end, and with them what they need.
    pub fn end_streams(&self) {
        self.tail.close();
    }

    /// With another measure of how time passes for the limits. What time it is now, the clock says.
    #[must_use]
    pub fn with_uptime(self, uptime: &Arc<dyn Uptime>) -> Self {
        let limiter = Arc::new(Limiter::new(self.rules.limits, &self.clock, uptime));
        Self { limiter, uptime: Arc::clone(uptime), ..self }
    }

    /// With another clock to tell what is over.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        let limiter = Arc::new(Limiter::new(self.rules.limits, &clock, &self.uptime));
        Self { clock, limiter, ..self }
    }

    /// With inboxes that are kept elsewhere.
    #[must_use]
    pub fn with_inboxes(self, inboxes: Arc<dyn Inboxes>) -> Self {
        let feed = Feed::new(self.rules.feed, self.store.guarantees().is_alone()).keeping(inboxes);
        Self { feed: Arc::new(feed), ..self }
    }

    /// With what the store offers to operators.
    #[must_use]
    pub fn with_maintenance(self, maintenance: Option<Arc<dyn Maintenance>>) -> Self {
        Self { maintenance, ..self }
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
    pub async fn standing(&self, caller: &Caller) -> Vec<Standing> {
        let Actor::User(user) = &caller.actor else { return Vec::new() };
        let is_end_user = caller.credential == Credential::User;
        let requests = is_end_user.then(|| self.limiter.request_standing(user)).flatten();
        let follows = self.limiter.follow_standing(&*self.store, self.keys.key(user)).await;
        requests.into_iter().chain(follows).collect()
    }

    pub async fn health(&self) -> Health {
        self.store.health().await
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.store.identity().epoch
    }

    pub(crate) fn token(&self, call: &Call) -> Result<Option<Token>> {
        call.token.as_deref().map(|text| Token::decode_all(text, &self.sealer, self.epoch())).transpose()
    }

    /// Whether the call's token is one of this store's.
    pub fn check_token(&self, call: &Call) -> Result<()> {
        self.token(call).map(|_| ())
    }

    /// Every read starts here: it sees what its token saw, or says that it does not.
    pub(crate) async fn catch_up(&self, call: &Call, whose: Whose<'_>) -> Result<()> {
        let Some(token) = self.token(call)? else { return Ok(()) };
        for watermark in token.watermarks() {
            if !self.is_covered(watermark, whose).await? {
                let detail = "this server has not seen the write that the token comes from";
                return Err(Error::new(Code::Stale, detail));
            }
        }
        Ok(())
    }

    /// Every write ends here.
    pub(crate) async fn commit(&self, call: &Call, operation: Operation) -> Result<(Reply, Receipt)> {
        let floor = self.token(call)?.map_or(Version::ZERO, |token| token.version());
        let idempotency = call.retry.as_ref().map(|retry| self.retry_key(call, retry, None));
        let _running = idempotency.map(|key| self.running.enter(key.scope)).transpose()?;
        let mut write = Write { idempotency, floor, ..Write::from(operation.clone()) };
        let limited = self.within_limits(call, &mut write);
        let outcome = self.commit_to_the_end(write, |result| limited.end(result)).await?;
        let token = self.committed(&operation, &outcome).encode(&self.sealer);
        Ok((outcome.reply, Receipt { version: outcome.version, token, replayed: outcome.replayed }))
    }

    /// What an earlier request with the same key was told: for requests that would be refused before they get to a
    /// commit, because of what the first one did.
    pub(crate) async fn replay(&self, call: &Call) -> Result<Option<(Reply, Receipt)>> {
        let Some(retry) = &call.retry else { return Ok(None) };
        let key = self.retry_key(call, retry, None);
        let _running = self.running.enter(key.scope)?;
        let Some(outcome) = self.store.replay(key).await? else { return Ok(None) };
        let token = Token::new(self.epoch(), outcome.watermark, outcome.version).encode(&self.sealer);
        Ok(Some((outcome.reply, Receipt { version: outcome.version, token, replayed: true })))
    }

    /// What every write passes on its way to the store, alone or in a batch; `end` takes what came of it.
    pub(crate) fn within_limits(&self, call: &Call, write: &mut Write) -> Limited {
        let solver = call.challenge.as_ref().map(|solver| self.keys.key(solver));
        self.limiter.begin(write, |follower| solver == Some(follower))
    }

    /// Commits each by itself, in order and within the limits. Quotas of targets are held for all before it is known which
    /// of them make a new edge; whoever was refused for a hold that came to nothing is tried again.
    pub(crate) async fn commit_each(&self, call: &Call, writes: &[Write]) -> Vec<Result<Outcome>> {
        let mut results: Vec<Option<Result<Outcome>>> = vec![None; writes.len()];
        let mut open: Vec<usize> = (0..writes.len()).collect();
        while !open.is_empty() {
            let mut tried: Vec<Write> = open.iter().filter_map(|&index| writes.get(index).cloned()).collect();
            let limited: Vec<_> = tried.iter_mut().map(|write| self.within_limits(call, write)).collect();
            let outcomes = self.commit_all_to_the_end(tried, limited).await;
            let (mut refused, mut is_given_back) = (Vec::new(), false);
            for (index, (result, hold)) in open.into_iter().zip(outcomes) {
                is_given_back |= hold == Hold::GivenBack;
                if hold == Hold::Refused && !is_written_later(writes, index) {
                    refused.push(index);
                }
                if let Some(slot) = results.get_mut(index) {
                    *slot = Some(result);
                }
            }
            open = if is_given_back { refused } else { Vec::new() };
        }
        let left_out = || Err(Error::internal("the store left results of a batch out"));
        results.into_iter().map(|result| result.unwrap_or_else(left_out)).collect()
    }

    /// What recognises a retry of the request, or of one part of it.
    pub(crate) fn retry_key(&self, call: &Call, retry: &Retry, part: Option<usize>) -> IdempotencyKey {
        let part = part.map(|index| index.to_string()).unwrap_or_default();
        let scope = retry.scope(call);
        let scope: Vec<&[u8]> = scope.into_iter().chain((!part.is_empty()).then_some(part.as_bytes())).collect();
        self.retries.key(&scope, retry.body())
    }

    /// Whoever asked may go away meanwhile; what is committed then is known to feeds and limits all the same.
    async fn commit_to_the_end<T: Send + 'static>(
        &self,
        write: Write,
        end: impl FnOnce(Result<Outcome>) -> T + Send + 'static,
    ) -> T {
        let (store, hearing) = (Arc::clone(&self.store), self.hearing());
        ToTheEnd::new(async move {
            let outcome = store.commit(write).await;
            outcome.iter().for_each(&hearing);
            end(outcome)
        })
        .await
    }

    async fn commit_all_to_the_end(
        &self,
        mut writes: Vec<Write>,
        mut limited: Vec<Limited>,
    ) -> Vec<(Result<Outcome>, Hold)> {
        if writes.len() == 1
            && let (Some(write), Some(limited)) = (writes.pop(), limited.pop())
        {
            return vec![self.commit_to_the_end(write, |result| limited.end_with_hold(result)).await];
        }
        let (store, hearing) = (Arc::clone(&self.store), self.hearing());
        ToTheEnd::new(async move {
            let outcomes = store.commit_all(writes).await;
            outcomes.iter().flatten().for_each(&hearing);
            limited.into_iter().zip(outcomes).map(|(limited, outcome)| limited.end_with_hold(outcome)).collect()
        })
        .await
    }

    /// What hears of every outcome of this process.
    pub(crate) fn hearing(&self) -> impl Fn(&Outcome) + Send + Sync + 'static {
        let (feed, limiter) = (Arc::clone(&self.feed), Arc::clone(&self.limiter));
        move |outcome| {
            feed.saw(outcome);
            limiter.saw(outcome);
        }
    }

    /// Every outcome passes here before anybody hears of it; its token.
    pub(crate) fn committed(&self, operation: &Operation, outcome: &Outcome) -> Token {
        if outcome.is_logged() {
            metrics::counter!("entourage_commits_total", "operation" => operation_name(operation)).increment(1);
        }
        self.leaderboard.saw(outcome);
        self.tail.wake();
        Token::new(self.epoch(), outcome.watermark.clone(), outcome.newest())
    }
}

/// Another one in each process: nonces are not to be used twice.
fn nonce_seed() -> u64 {
    RandomState::new().hash_one(0)
}

/// Whether the same edge comes again: then trying this one again would change their order.
fn is_written_later(writes: &[Write], index: usize) -> bool {
    let parties = |write: &Write| write.operation.parties();
    let Some((this, later)) = writes.get(index..).and_then(<[Write]>::split_first) else { return false };
    later.iter().any(|write| parties(write) == parties(this))
}

/// A store that answers another question than the one asked is broken; saying so beats guessing.
pub(crate) fn unexpected(reply: &Reply) -> Error {
    Error::internal(format!("the store answered with {reply:?}"))
}

const fn operation_name(operation: &Operation) -> &'static str {
    match operation {
        Operation::PutUser { .. } => "put_user",
        Operation::Follow { .. } => "follow",
        Operation::Unfollow { .. } => "unfollow",
        Operation::RemoveFollower { .. } => "remove_follower",
        Operation::Accept { .. } => "accept",
        Operation::Reject { .. } => "reject",
        Operation::Block { .. } => "block",
        Operation::Unblock { .. } => "unblock",
        Operation::Mute { .. } => "mute",
        Operation::Unmute { .. } => "unmute",
        Operation::ExpireMute { .. } => "expire_mute",
        Operation::Import { .. } => "import",
        Operation::ImportRequest { .. } => "import_request",
        Operation::ImportBlock { .. } => "import_block",
        Operation::ImportMute { .. } => "import_mute",
        Operation::ImportPost { .. } => "import_post",
        Operation::Suspend { .. } => "suspend",
        Operation::PutRecord { .. } => "put_record",
        Operation::AddRecord { .. } => "add_record",
        Operation::Post { .. } => "post",
        Operation::GroupMember { .. } => "group_member",
        Operation::Erase { .. } => "erase",
        Operation::EraseEdges { .. } => "erase_edges",
        Operation::Nothing => "nothing",
    }
}
