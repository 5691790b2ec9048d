//! Consecutive writes are submitted together, so that one sync covers them; replies keep their order.

use entourage_model::{Error, Result, Token};
use entourage_service::{BATCH_MAX, BatchOperation, Call, EdgeWritten, Service};

use super::encode::Out;

/// Answers a command from the next results, as many as it has operations.
type Say = fn(&mut Results, usize, &mut Out);

#[derive(Debug, Default)]
pub(super) struct Writes {
    operations: Vec<BatchOperation>,
    /// For each command its reply, and how many operations it has.
    commands: Vec<(Say, usize)>,
}

impl Writes {
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Collects a command if all its words are valid and there is room.
    pub(super) fn add(&mut self, say: Say, operations: impl ExactSizeIterator<Item = Option<BatchOperation>>) -> bool {
        let (before, count) = (self.operations.len(), operations.len());
        if before + count > BATCH_MAX {
            return false;
        }
        self.operations.extend(operations.map_while(|operation| operation));
        if self.operations.len() < before + count {
            self.operations.truncate(before);
            return false;
        }
        self.commands.push((say, count));
        true
    }

    /// The token of the last of them, if any was applied.
    pub(super) async fn answer(&mut self, service: &Service, call: &Call, out: &mut Out) -> Option<Token> {
        let operations = std::mem::take(&mut self.operations);
        let written = service.graph.pipeline(call, operations).await;
        let mut results = Results::new(written.results);
        for (say, count) in self.commands.drain(..) {
            say(&mut results, count, out);
        }
        written.token
    }

    /// No answer came in time: each is told that its outcome is unknown.
    pub(super) fn give_up(&mut self, error: &Error, out: &mut Out) {
        self.operations.clear();
        for _ in self.commands.drain(..) {
            out.refusal(error);
        }
    }
}

/// Outcomes of writes, in their order.
pub(super) struct Results(std::vec::IntoIter<Result<EdgeWritten>>);

impl Results {
    pub(super) fn new(results: Vec<Result<EdgeWritten>>) -> Self {
        Self(results.into_iter())
    }

    pub(super) fn next(&mut self) -> Result<EdgeWritten> {
        self.0.next().unwrap_or_else(|| Err(Error::internal("a write has no result")))
    }
}
