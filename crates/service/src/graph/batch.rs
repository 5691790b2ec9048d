//! Many follows and unfollows in one request: each atomic by itself, each with its own result.

use std::collections::HashSet;

use entourage_model::{Error, Key, Operation, Overwrite, Reply, Result, Token, UserId, UserPatch, Write};

use crate::{
    Call, Followed, Graph, Receipt, Removed,
    graph::quarantine::shown_edge,
    ids::{actor_not_found, user_not_found},
    writer::unexpected,
};

/// How many operations one request may have.
pub const BATCH_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchOperation {
    /// `quiet` that is not said keeps what is there.
    Follow {
        follower: UserId,
        target: UserId,
        quiet: Option<bool>,
    },
    Unfollow {
        follower: UserId,
        target: UserId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchDone {
    Followed(Followed),
    Unfollowed(Removed),
}

#[derive(Clone, Debug)]
pub struct Batch {
    /// One for each operation, in their order.
    pub results: Vec<Result<BatchDone>>,
    /// The token of the last write; `None` when nothing was committed.
    pub token: Option<String>,
    /// At least one reply is that of an earlier request with the same key.
    pub replayed: bool,
}

impl BatchOperation {
    pub(crate) fn ends(&self) -> [&UserId; 2] {
        match self {
            Self::Follow { follower, target, .. } | Self::Unfollow { follower, target } => [follower, target],
        }
    }
}

impl Graph {
    pub async fn batch(&self, call: &Call, operations: Vec<BatchOperation>) -> Result<Batch> {
        call.must_be_service()?;
        if operations.len() > BATCH_MAX {
            return Err(
                Error::invalid("too many operations in one request").at("/operations", format!("at most {BATCH_MAX}"))
            );
        }
        let floor = self.context.writer.floor(call)?;
        let _claim = self.context.writer.claim(call).await?;
        let ends: Vec<&UserId> = operations.iter().flat_map(BatchOperation::ends).collect();
        let keys = self.context.own_keys(&ends).await?;
        if self.context.rules.auto_create {
            self.create_all_missing(&operations, &keys).await?;
        }
        let parked = self.parked_of(call, &operations, &keys).await?;
        let mut writes = Vec::with_capacity(operations.len());
        let mut results: Vec<Option<Result<BatchDone>>> = Vec::with_capacity(operations.len());
        for (index, (operation, keys)) in operations.iter().zip(keys.chunks(2)).enumerate() {
            let write = match *keys {
                [Some(follower), Some(target)] => {
                    let operation = match *operation {
                        BatchOperation::Follow { quiet, .. } => {
                            let park = parked.contains(&(follower, target));
                            self.follow_operation(follower, target, quiet, park)
                        }
                        BatchOperation::Unfollow { .. } => Operation::Unfollow { follower, target },
                    };
                    // Each has a record of its own: a retry repeats what was refused and replays the rest.
                    let idempotency = self.context.writer.retry_key(call, Some(index));
                    Ok(Write { idempotency, floor, ..Write::from(operation) })
                }
                [None, _] => Err(actor_not_found()),
                _ => Err(user_not_found()),
            };
            results.push(write.map(|write| writes.push(write)).err().map(Err));
        }
        self.commit_batch(call, operations, writes, results).await
    }

    /// Commits, and fills the results that are still open.
    async fn commit_batch(
        &self,
        call: &Call,
        operations: Vec<BatchOperation>,
        writes: Vec<Write>,
        mut results: Vec<Option<Result<BatchDone>>>,
    ) -> Result<Batch> {
        let mut outcomes = self.context.writer.write_each(call, &writes).await.into_iter();
        let mut last: Option<Token> = None;
        let mut replayed = false;
        for (operation, slot) in operations.into_iter().zip(results.iter_mut()).filter(|(_, slot)| slot.is_none()) {
            let Some(outcome) = outcomes.next() else {
                return Err(Error::internal("the store left results of a batch out"));
            };
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(error) => {
                    *slot = Some(Err(error));
                    continue;
                }
            };
            let token = self.context.writer.token(&outcome);
            replayed |= outcome.replayed;
            let receipt = Receipt {
                version: outcome.version,
                token: token.encode(&self.context.sealer),
                replayed: outcome.replayed,
            };
            last = Some(match last.take() {
                Some(last) => last.merge(token)?,
                None => token,
            });
            *slot = Some(done(call, operation, outcome.reply, receipt));
        }
        let token = last.map(|token| token.encode(&self.context.sealer));
        Ok(Batch { results: results.into_iter().flatten().collect(), token, replayed })
    }

    /// Which of the follows are parked if they are new.
    pub(super) async fn parked_of(
        &self,
        call: &Call,
        operations: &[BatchOperation],
        keys: &[Option<Key>],
    ) -> Result<HashSet<(Key, Key)>> {
        let pair = |(operation, keys): (&BatchOperation, &[Option<Key>])| match (operation, keys) {
            (BatchOperation::Follow { .. }, [Some(follower), Some(target)]) => Some((*follower, *target)),
            _ => None,
        };
        let pairs: Vec<(Key, Key)> = operations.iter().zip(keys.chunks(2)).filter_map(pair).collect();
        self.parked(call, &pairs).await
    }

    pub(crate) async fn create_all_missing(&self, operations: &[BatchOperation], keys: &[Option<Key>]) -> Result<()> {
        let mut wanted = Vec::new();
        for (operation, keys) in operations.iter().zip(keys.chunks(2)) {
            let [Some(follower), Some(target)] = *keys else { continue };
            if follower == target {
                continue;
            }
            let [follower_id, target_id] = operation.ends();
            wanted.push((follower, follower_id));
            if matches!(operation, BatchOperation::Follow { .. }) {
                wanted.push((target, target_id));
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        let known = self.context.users_by_key(&wanted.iter().map(|(key, _)| *key).collect::<Vec<_>>()).await?;
        wanted.retain(|(key, _)| !known.contains_key(key));
        let put = |(key, id): (Key, &UserId)| {
            let (patch, overwrite) = (UserPatch::default(), Overwrite::Keep);
            Write::from(Operation::PutUser { key, id: id.clone(), patch, overwrite })
        };
        let writes: Vec<Write> = wanted.into_iter().map(put).collect();
        if !writes.is_empty() {
            // A user that could not be made is missing, and what needs them says so.
            self.context.writer.write_all(writes).await;
        }
        Ok(())
    }
}

fn done(call: &Call, operation: BatchOperation, reply: Reply, receipt: Receipt) -> Result<BatchDone> {
    match (operation, reply) {
        (BatchOperation::Follow { follower, target, .. }, Reply::Edge { value, created, .. }) => {
            let edge = shown_edge(call, value);
            Ok(BatchDone::Followed(Followed { follower, target, edge, created, receipt: Some(receipt) }))
        }
        (BatchOperation::Unfollow { .. }, Reply::Gone { changed }) => {
            Ok(BatchDone::Unfollowed(Removed { changed, receipt }))
        }
        (_, other) => Err(unexpected(&other)),
    }
}
