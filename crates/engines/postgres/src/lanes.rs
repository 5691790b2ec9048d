//! Reads by subject: those of one table that somebody has locked cannot take every connection.

use entourage_model::{Error, Result};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::{
    CONNECTION_WAIT, Engine,
    error::{Failure, answering, retrying},
};

/// What a read is about: one table, or a few that are used together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Edges,
    Users,
    Records,
    Log,
    Servers,
}

pub(super) struct Lanes([Semaphore; 5]);

impl Lanes {
    /// Each may take three quarters of the connections.
    pub(super) fn new(connections: usize) -> Self {
        let most = (connections * 3 / 4).max(1);
        Self([(); 5].map(|()| Semaphore::new(most)))
    }

    async fn turn(&self, subject: Subject) -> Result<Option<SemaphorePermit<'_>>, Failure> {
        let Some(lane) = self.0.get(subject as usize) else { return Ok(None) };
        match timeout(CONNECTION_WAIT, lane.acquire()).await {
            // They are never closed.
            Ok(turn) => Ok(turn.ok()),
            Err(_) => Err(Error::unavailable("reads of PostgreSQL wait for a lock that somebody has").into()),
        }
    }
}

impl Engine {
    /// A read, with an answer in time or an error.
    pub(super) async fn ask<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        subject: Subject,
        attempt: impl Fn() -> F,
    ) -> Result<T> {
        self.breaker.check()?;
        let work = async {
            let _turn = self.lanes.turn(subject).await?;
            retrying(attempt).await
        };
        Ok(answering(self.breaker.guard(work)).await?)
    }
}
