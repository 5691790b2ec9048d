//! The one door for writes. Every commit of this process passes here: quotas before the store, observers behind it.
//! Once the store was asked, the outcome reaches every observer, also when the caller is gone by then.

use std::sync::Arc;

use entourage_model::{
    Error, Fence, IdempotencyKey, KeyHasher, Operation, Outcome, Reply, Result, RetryHasher, Sealer, Token, Version,
    Write,
};
use entourage_store::{Store, StoreExt as _};

use crate::{
    Call, Removed, Retry,
    abuse::Buffer,
    events::StreamHub,
    feed::Feed,
    graph::Leaderboard,
    in_flight::{Guard, InFlight},
    limits::{Hold, Limited, Limiter},
    signals::SharedCounters,
    suggestions::Cache as SuggestionCache,
    uncancellable::Uncancellable,
};

tokio::task_local! {
    /// That of the work which runs in this task.
    static FENCE: Fence;
}

/// Runs work under a lease: every write in it carries the fence, so that none can be forgotten.
pub(crate) async fn fenced<T>(fence: Fence, work: impl Future<Output = T>) -> T {
    FENCE.scope(fence, work).await
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

pub(crate) struct Writer {
    store: Arc<dyn Store>,
    sealer: Sealer,
    keys: KeyHasher,
    retries: RetryHasher,
    in_flight: InFlight,
    limiter: Arc<Limiter>,
    observers: Arc<Observers>,
}

/// Everything in this process that follows from outcomes.
pub(crate) struct Observers {
    pub(crate) feed: Arc<Feed>,
    pub(crate) leaderboard: Arc<Leaderboard>,
    pub(crate) suggestions: Arc<SuggestionCache>,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) hub: Arc<StreamHub>,
    pub(crate) signals: SharedCounters,
    pub(crate) abuse: Arc<Buffer>,
}

impl Observers {
    /// Called with every outcome before its caller has it. `names` are those of the operations, in the same order.
    fn saw(&self, names: &[&'static str], outcomes: &[Result<Outcome>], audience: Option<u64>) {
        // One look at the registry for each kind of operation, however many writes there are.
        let mut logged: Vec<(&'static str, u64)> = Vec::new();
        for (name, outcome) in names.iter().zip(outcomes) {
            let Ok(outcome) = outcome else { continue };
            self.feed.saw(outcome, audience);
            self.limiter.saw(outcome);
            self.leaderboard.saw(outcome);
            self.signals.saw(outcome);
            self.suggestions.saw(outcome);
            if outcome.is_logged() {
                match logged.iter_mut().find(|(known, _)| known == name) {
                    Some((_, count)) => *count += 1,
                    None => logged.push((name, 1)),
                }
            }
        }
        for (operation, count) in logged {
            metrics::counter!("entourage_commits_total", "operation" => operation).increment(count);
        }
        self.abuse.saw(outcomes);
        self.hub.wake();
    }
}

impl Writer {
    pub(crate) fn new(store: &Arc<dyn Store>, sealer: &Sealer, observers: Observers) -> Self {
        let secret = &store.identity().secret;
        Self {
            store: Arc::clone(store),
            sealer: sealer.clone(),
            keys: KeyHasher::new(secret),
            retries: RetryHasher::new(secret),
            in_flight: InFlight::default(),
            limiter: Arc::clone(&observers.limiter),
            observers: Arc::new(observers),
        }
    }

    /// One write of a request: within its limits, and recognised when it is repeated.
    pub(crate) async fn write(&self, call: &Call, operation: Operation) -> Result<(Reply, Receipt)> {
        self.write_to(call, operation, None).await
    }

    /// One write that takes something away.
    pub(crate) async fn remove(&self, call: &Call, operation: Operation) -> Result<Removed> {
        match self.write(call, operation).await? {
            (Reply::Gone { changed }, receipt) => Ok(Removed { changed, receipt }),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// A post of an author with this many followers.
    pub(crate) async fn write_post(
        &self,
        call: &Call,
        operation: Operation,
        followers: u64,
    ) -> Result<(Reply, Receipt)> {
        self.write_to(call, operation, Some(followers)).await
    }

    async fn write_to(&self, call: &Call, operation: Operation, audience: Option<u64>) -> Result<(Reply, Receipt)> {
        let floor = self.floor(call)?;
        let idempotency = self.retry_key(call, None);
        let _in_flight = self.enter(idempotency)?;
        let mut write = Write { idempotency, floor, ..Write::from(operation) };
        let limited = self.within_limits(call, &mut write);
        let outcome = self.commit(vec![write], audience, |outcomes| limited.end(only(outcomes))).await?;
        let token = self.token(&outcome).encode(&self.sealer);
        Ok((outcome.reply, Receipt { version: outcome.version, token, replayed: outcome.replayed }))
    }

    /// The writes of one request, each by itself, in order and within the limits. Quotas of targets are held for all
    /// before it is known which of them make a new edge; one that was refused for a hold that was released is tried again.
    pub(crate) async fn write_each(&self, call: &Call, writes: &[Write]) -> Vec<Result<Outcome>> {
        let mut results: Vec<Option<Result<Outcome>>> = vec![None; writes.len()];
        let mut open: Vec<usize> = (0..writes.len()).collect();
        while !open.is_empty() {
            let mut tried: Vec<Write> = open.iter().filter_map(|&index| writes.get(index).cloned()).collect();
            let limited: Vec<_> = tried.iter_mut().map(|write| self.within_limits(call, write)).collect();
            let end = |outcomes: Vec<Result<Outcome>>| -> Vec<(Result<Outcome>, Hold)> {
                limited.into_iter().zip(outcomes).map(|(limited, outcome)| limited.end_with_hold(outcome)).collect()
            };
            let outcomes = self.commit(tried, None, end).await;
            let (mut refused, mut is_released) = (Vec::new(), false);
            for (index, (result, hold)) in open.into_iter().zip(outcomes) {
                is_released |= hold == Hold::Released;
                if hold == Hold::Refused && !is_written_later(writes, index) {
                    refused.push(index);
                }
                if let Some(slot) = results.get_mut(index) {
                    *slot = Some(result);
                }
            }
            open = if is_released { refused } else { Vec::new() };
        }
        results.into_iter().map(|result| result.unwrap_or_else(|| Err(unanswered()))).collect()
    }

    /// Writes of the server itself, each by itself and without limits: jobs, imports, fan-out. With the first poll they
    /// have their place in the store's queue.
    pub(crate) fn write_all(
        &self,
        writes: Vec<Write>,
    ) -> impl Future<Output = Vec<Result<Outcome>>> + Send + 'static + use<> {
        self.commit(writes, None, |outcomes| outcomes)
    }

    /// One of them.
    pub(crate) async fn write_one(&self, write: impl Into<Write>) -> Result<Outcome> {
        self.commit(vec![write.into()], None, only).await
    }

    /// The only place that asks a store to commit.
    fn commit<T: Send + 'static, E: FnOnce(Vec<Result<Outcome>>) -> T + Send + 'static>(
        &self,
        mut writes: Vec<Write>,
        audience: Option<u64>,
        end: E,
    ) -> Uncancellable<impl Future<Output = T> + Send + 'static + use<T, E>> {
        let (store, observers) = (Arc::clone(&self.store), Arc::clone(&self.observers));
        if let Ok(fence) = FENCE.try_with(|fence| Box::new(fence.clone())) {
            writes.iter_mut().for_each(|write| write.fence = Some(fence.clone()));
        }
        let names: Vec<&'static str> = writes.iter().map(|write| operation_name(&write.operation)).collect();
        Uncancellable::new(async move {
            let outcomes = store.commit_all(writes).await;
            observers.saw(&names, &outcomes, audience);
            end(outcomes)
        })
    }

    /// Takes the idempotency key of a request that has several writes, before any of them: it belongs to this body and
    /// to no other. The guard is held until the request is answered.
    pub(crate) async fn claim(&self, call: &Call) -> Result<Option<Guard<'_>>> {
        let idempotency = self.retry_key(call, None);
        let guard = self.enter(idempotency)?;
        if idempotency.is_some() {
            let claim = Write { idempotency, ..Write::from(Operation::Nothing) };
            self.commit(vec![claim], None, only).await?;
        }
        Ok(guard)
    }

    /// What an earlier request with the same key was told: for requests that would be refused before they get to a
    /// commit, because of what the first one did.
    pub(crate) async fn replay(&self, call: &Call) -> Result<Option<(Reply, Receipt)>> {
        let Some(key) = self.retry_key(call, None) else { return Ok(None) };
        let _in_flight = self.in_flight.enter(key.scope)?;
        let Some(outcome) = self.store.replay(key).await? else { return Ok(None) };
        let token = Token::new(self.epoch(), outcome.watermark, outcome.version).encode(&self.sealer);
        Ok(Some((outcome.reply, Receipt { version: outcome.version, token, replayed: true })))
    }

    /// What recognises a retry of the request, or of one part of it; `None` when it cannot be repeated.
    pub(crate) fn retry_key(&self, call: &Call, part: Option<usize>) -> Option<IdempotencyKey> {
        let retry: &Retry = call.retry.as_ref()?;
        let part = part.map(|index| index.to_string()).unwrap_or_default();
        let scope = retry.scope(call);
        let scope: Vec<&[u8]> = scope.into_iter().chain((!part.is_empty()).then_some(part.as_bytes())).collect();
        Some(self.retries.key(&scope, retry.body()))
    }

    /// The version that every write of the call must exceed.
    pub(crate) fn floor(&self, call: &Call) -> Result<Version> {
        Ok(self.read_token(call)?.map_or(Version::ZERO, |token| token.version()))
    }

    /// The token that a call carries.
    pub(crate) fn read_token(&self, call: &Call) -> Result<Option<Token>> {
        call.token.as_deref().map(|text| Token::decode_all(text, &self.sealer, self.epoch())).transpose()
    }

    /// The token of an outcome: reads that carry it see the write.
    pub(crate) fn token(&self, outcome: &Outcome) -> Token {
        Token::new(self.epoch(), outcome.watermark.clone(), outcome.newest())
    }

    fn epoch(&self) -> u64 {
        self.store.identity().epoch
    }

    fn enter(&self, idempotency: Option<IdempotencyKey>) -> Result<Option<Guard<'_>>> {
        idempotency.map(|key| self.in_flight.enter(key.scope)).transpose()
    }

    fn within_limits(&self, call: &Call, write: &mut Write) -> Limited {
        let solver = call.challenge.as_ref().map(|solver| self.keys.key(solver));
        self.limiter.begin(write, |follower| solver == Some(follower))
    }
}

fn only(mut outcomes: Vec<Result<Outcome>>) -> Result<Outcome> {
    outcomes.pop().unwrap_or_else(|| Err(unanswered()))
}

fn unanswered() -> Error {
    Error::internal("the store left a write unanswered")
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
        Operation::Release { .. } => "release",
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
