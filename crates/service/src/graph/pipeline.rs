//! Follows and unfollows of one caller that were sent without waiting for each other: decided in their order, made
//! durable together.

use entourage_model::{Change, EdgeValue, Error, Key, Operation, Outcome, Reply, Result, State, Token, UserId, Write};

use crate::{
    BatchOperation, Call, Graph,
    graph::quarantine::shown_edge,
    ids::{actor_not_found, user_not_found},
    writer::unexpected,
};

/// The outcome of a follow or an unfollow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeWritten {
    pub changed: bool,
    /// The follow list has one more or one less: a request changes something, but no list.
    pub listed: bool,
    /// This write made the edge.
    pub created: bool,
    /// The edge that stands; `None` after an unfollow.
    pub edge: Option<EdgeValue>,
}

#[derive(Clone, Debug)]
pub struct Pipelined {
    /// One for each operation, in their order.
    pub results: Vec<Result<EdgeWritten>>,
    /// The token of the last write, for [`Graph::show_token`]; `None` when nothing was committed.
    pub token: Option<Token>,
}

impl Graph {
    /// Each is what a request of its own would have been: the caller may change its follower or not, the limits count
    /// what the ones before it did.
    pub async fn pipeline(&self, call: &Call, operations: Vec<BatchOperation>) -> Pipelined {
        let mut last = None;
        let results = match self.write_all(call, &operations, &mut last).await {
            Ok(results) => results,
            Err(error) => operations.iter().map(|_| Err(error.clone())).collect(),
        };
        Pipelined { results, token: last }
    }

    /// A token as clients have it.
    pub fn show_token(&self, token: &Token) -> String {
        token.encode(&self.context.sealer)
    }

    async fn write_all(
        &self,
        call: &Call,
        operations: &[BatchOperation],
        last: &mut Option<Token>,
    ) -> Result<Vec<Result<EdgeWritten>>> {
        let floor = self.context.writer.floor(call)?;
        let ends: Vec<&UserId> = operations.iter().flat_map(BatchOperation::ends).collect();
        let keys = self.context.own_keys(&ends).await?;
        if self.context.rules.auto_create {
            // Nobody is made by a write that is refused for who asks.
            let may = |(index, key): (usize, &Option<Key>)| {
                let [follower, _] = operations.get(index / 2)?.ends();
                call.may_change(follower).ok().and(*key)
            };
            let keys: Vec<Option<Key>> = keys.iter().enumerate().map(may).collect();
            self.create_all_missing(operations, &keys).await?;
        }
        let parked = self.parked_of(call, operations, &keys).await?;
        let mut writes = Vec::with_capacity(operations.len());
        let mut results = Vec::with_capacity(operations.len());
        for (operation, keys) in operations.iter().zip(keys.chunks(2)) {
            let [follower, _] = operation.ends();
            let operation = call.may_change(follower).and_then(|()| match *keys {
                [Some(follower), Some(target)] => Ok(match *operation {
                    BatchOperation::Follow { quiet, .. } => {
                        let park = parked.contains(&(follower, target));
                        self.follow_operation(follower, target, quiet, park)
                    }
                    BatchOperation::Unfollow { .. } => Operation::Unfollow { follower, target },
                }),
                [None, _] => Err(actor_not_found()),
                _ => Err(user_not_found()),
            });
            results.push(operation.map(|operation| writes.push(Write { floor, ..Write::from(operation) })));
        }
        let mut outcomes = self.context.writer.write_each(call, &writes).await.into_iter();
        let mut written = Vec::with_capacity(operations.len());
        for result in results {
            written.push(result.and_then(|()| {
                let Some(outcome) = outcomes.next() else {
                    return Err(Error::internal("the store left results of a batch out"));
                };
                let outcome = outcome?;
                let token = self.context.writer.token(&outcome);
                *last = Some(match last.take() {
                    Some(last) => last.merge(token)?,
                    None => token,
                });
                edge_written(call, &outcome)
            }));
        }
        Ok(written)
    }
}

fn edge_written(call: &Call, outcome: &Outcome) -> Result<EdgeWritten> {
    let is_active = |value: &EdgeValue| value.state == State::Active;
    let listed = outcome.changes.iter().any(|change| match change {
        Change::Edge(edge) => edge.before.as_ref().is_some_and(is_active) != is_active(&edge.after),
        _ => false,
    });
    match &outcome.reply {
        Reply::Edge { value, created, .. } => {
            let changed = outcome.reply.changed();
            Ok(EdgeWritten { changed, listed, created: *created, edge: Some(shown_edge(call, *value)) })
        }
        Reply::Gone { changed } => Ok(EdgeWritten { changed: *changed, listed, created: false, edge: None }),
        other => Err(unexpected(other)),
    }
}
