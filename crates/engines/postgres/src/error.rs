//! The driver's errors stop here: each becomes one of ours, with its source attached.

use std::time::Duration;

use deadpool_postgres::PoolError;
use entourage_model::{Code, Error, Refusal};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use super::{
    ANSWER_WITHIN,
    breaker::{is_of_network, was_terminated},
    connect::explain,
};

const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// Why a step failed, and whether its whole transaction may simply be retried.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: Error,
    pub(super) again: bool,
    /// An earlier statement of the same transaction failed, and only that one has the cause.
    pub(super) echo: bool,
    /// The connection is gone: whatever was sent last may have happened.
    pub(super) is_lost: bool,
}

impl Failure {
    /// Of pipelined statements, the failure that made the others fail.
    pub(super) fn cause<const N: usize>(failures: [Option<Self>; N]) -> Self {
        let (echoes, causes): (Vec<_>, Vec<_>) = failures.into_iter().flatten().partition(|failure| failure.echo);
        let first = causes.into_iter().chain(echoes).next();
        first.unwrap_or_else(|| Error::internal("a transaction failed without a reason").into())
    }

    /// A failed `COMMIT`: unless the database reports a rollback, the outcome is unknown.
    pub(super) fn of_commit(source: tokio_postgres::Error) -> Self {
        let is_lost = lost_its_connection(&source);
        Self { again: lost_a_race(&source), echo: false, is_lost, error: translate(source) }
    }

    /// Of statements sent together with their `COMMIT`. If one was refused, so was the commit; if the connection is
    /// gone instead, the outcome is unknown.
    pub(super) fn of_batch<const N: usize>(failures: [Option<Self>; N]) -> Self {
        let (lost, refused): (Vec<_>, Vec<_>) = failures.into_iter().flatten().partition(|failure| failure.is_lost);
        let (echoes, causes): (Vec<_>, Vec<_>) = refused.into_iter().partition(|failure| failure.echo);
        let first = causes.into_iter().chain(echoes).chain(lost).next();
        first.unwrap_or_else(|| Error::internal("a transaction failed without a reason").into())
    }
}

impl From<tokio_postgres::Error> for Failure {
    /// A transaction that lost its connection before its `COMMIT` was sent has changed nothing.
    fn from(source: tokio_postgres::Error) -> Self {
        let is_lost = lost_its_connection(&source);
        let echo = source.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION);
        Self { again: lost_a_race(&source) || is_lost, echo, is_lost, error: translate(source) }
    }
}

impl From<PoolError> for Failure {
    fn from(source: PoolError) -> Self {
        match source {
            // Terminated as it began: another one may live longer.
            PoolError::Backend(source) => Self { again: was_terminated(&source), ..translate(source).into() },
            PoolError::Timeout(_) => {
                Error::unavailable("every connection to PostgreSQL is in use").caused_by(source).into()
            }
            PoolError::Closed => Error::unavailable("the store is closed").into(),
            PoolError::PostCreateHook(_) => {
                let error = Error::unavailable("no connection to PostgreSQL").caused_by(source);
                Self { again: true, ..error.into() }
            }
            other => Error::unavailable("no connection to PostgreSQL").caused_by(other).into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, again: false, echo: false, is_lost: false }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Error::from(refusal).into()
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// Retries a transaction that lost a race or its connection, a bounded number of times.
pub(super) async fn retrying<T, F: Future<Output = Result<T, Failure>>>(attempt: impl Fn() -> F) -> Result<T, Failure> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(failure) if failure.again => tracing::debug!(error = %failure.error, "a transaction is tried again"),
            done => return done,
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    attempt().await
}

/// Gives up on a database that accepts a request and never answers. Such a write may or may not happen.
pub(super) async fn answering<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(ANSWER_WITHIN, work).await.unwrap_or_else(|_| Err(Error::unavailable("PostgreSQL does not answer").into()))
}

/// The stored data is not what this version writes.
pub(super) fn unreadable(what: &str) -> Error {
    Error::internal(format!("a stored {what} cannot be read; run `entourage verify`"))
}

pub(super) fn translate(source: tokio_postgres::Error) -> Error {
    let code = match source.code() {
        Some(state) if *state == SqlState::DISK_FULL => Code::StorageFull,
        Some(state) if is_passing(state) => Code::Unavailable,
        Some(_) => Code::Internal,
        None => Code::Unavailable,
    };
    let detail = match code {
        Code::StorageFull => "PostgreSQL has no space left",
        Code::Unavailable => "PostgreSQL cannot answer now",
        _ => "PostgreSQL refused a statement",
    };
    explain(&source).unwrap_or_else(|| Error::new(code, detail)).caused_by(source)
}

/// Transient failures: connection, resources, shutdown, lost races, timeouts, a read-only server.
fn is_passing(state: &SqlState) -> bool {
    ["08", "40", "53", "57"].iter().any(|class| state.code().starts_with(class))
        || *state == SqlState::LOCK_NOT_AVAILABLE
        || *state == SqlState::READ_ONLY_SQL_TRANSACTION
        || *state == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
}

/// Division by zero: a row did not take its new version. A unique violation: a row was not as new as it seemed.
fn lost_a_race(source: &tokio_postgres::Error) -> bool {
    let races = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::DIVISION_BY_ZERO,
        SqlState::UNIQUE_VIOLATION,
    ];
    matches!(source.code(), Some(state) if races.contains(state))
}

fn lost_its_connection(source: &tokio_postgres::Error) -> bool {
    was_terminated(source) || is_of_network(source)
}
