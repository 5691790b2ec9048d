//! One value that every front holds: the store, the rules' settings, and what is derived from the store's secret.

use std::{path::Path, sync::Arc};

use entourage_log::EventLog;
use entourage_model::{
    Code, Error, IdempotencyKey, KeyHasher, Operation, Outcome, Reply, Result, RetryHasher, Signer, Token, Version,
    Write,
};
use entourage_store::{Health, Maintenance, Store};

use crate::{Call, Retry, leaderboard::Leaderboard, running::Running};

/// What an operator can set about the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Ids exist on their first use in a write.
    pub auto_create: bool,
    /// Active + pending + parked follows of one user; `None` is no bound.
    pub following_max: Option<u64>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { auto_create: false, following_max: Some(10_000) }
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
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) rules: Rules,
    pub(crate) signer: Signer,
    pub(crate) keys: KeyHasher,
    retries: RetryHasher,
    pub(crate) running: Running,
    pub(crate) leaderboard: Leaderboard,
    maintenance: Option<Arc<dyn Maintenance>>,
}

impl Service {
    pub fn new(store: Arc<dyn Store>, log: Arc<dyn EventLog>, rules: Rules) -> Self {
        let secret = &store.identity().secret;
        let (signer, keys, retries) = (Signer::new(secret), KeyHasher::new(secret), RetryHasher::new(secret));
        let (running, leaderboard) = (Running::default(), Leaderboard::default());
        Self { store, log, rules, signer, keys, retries, running, leaderboard, maintenance: None }
    }

    /// With what the store offers to operators.
    #[must_use]
    pub fn with_maintenance(self, maintenance: Option<Arc<dyn Maintenance>>) -> Self {
        Self { maintenance, ..self }
    }

    /// Copies the store into an empty folder of this machine while it goes on serving.
    pub async fn backup(&self, call: &Call, folder: &Path) -> Result<u64> {
        call.must_be_service()?;
        let Some(maintenance) = &self.maintenance else {
            return Err(Error::invalid("this server's store is backed up with its own tools, not through Entourage"));
        };
        maintenance.backup(folder).await
    }

    pub async fn health(&self) -> Health {
        self.store.health().await
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.store.identity().epoch
    }

    pub(crate) fn token(&self, call: &Call) -> Result<Option<Token>> {
        call.token.as_deref().map(|text| Token::decode(text, &self.signer, self.epoch())).transpose()
    }

    /// Every read starts here: it sees what its token saw, or says that it does not.
    pub(crate) async fn catch_up(&self, call: &Call) -> Result<()> {
        match self.token(call)? {
            Some(token) if !self.store.covers(token.watermark()).await? => {
                Err(Error::new(Code::Stale, "this server has not seen the write that the token comes from"))
            }
            _ => Ok(()),
        }
    }

    /// Every write ends here.
    pub(crate) async fn commit(&self, call: &Call, operation: Operation) -> Result<(Reply, Receipt)> {
        let floor = self.token(call)?.map_or(Version::ZERO, |token| token.version());
        let idempotency = call.retry.as_ref().map(|retry| self.retry_key(call, retry, None));
        let _running = idempotency.map(|key| self.running.enter(key.scope)).transpose()?;
        let outcome = self.store.commit(Write { operation: operation.clone(), idempotency, floor }).await?;
        let token = self.committed(&operation, &outcome).encode(&self.signer);
        Ok((outcome.reply, Receipt { version: outcome.version, token, replayed: outcome.replayed }))
    }

    /// What recognises a retry of the request, or of one part of it.
    pub(crate) fn retry_key(&self, call: &Call, retry: &Retry, part: Option<usize>) -> IdempotencyKey {
        let part = part.map(|index| index.to_string()).unwrap_or_default();
        let scope = retry.scope(&call.actor);
        let scope: Vec<&[u8]> = scope.into_iter().chain((!part.is_empty()).then_some(part.as_bytes())).collect();
        self.retries.key(&scope, retry.body())
    }

    /// Every outcome passes here before anybody hears of it; its token.
    pub(crate) fn committed(&self, operation: &Operation, outcome: &Outcome) -> Token {
        if outcome.is_logged() {
            metrics::counter!("entourage_commits_total", "operation" => operation_name(operation)).increment(1);
        }
        self.leaderboard.saw(outcome);
        Token::new(self.epoch(), outcome.watermark, outcome.version)
    }
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
        Operation::Import { .. } => "import",
        Operation::Suspend { .. } => "suspend",
        Operation::PutRecord { .. } => "put_record",
        Operation::GroupMember { .. } => "group_member",
        Operation::Erase { .. } => "erase",
        Operation::EraseEdges { .. } => "erase_edges",
    }
}
