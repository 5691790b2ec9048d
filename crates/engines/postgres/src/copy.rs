//! `COPY` of rows that were not there: PostgreSQL writes them a page at a time and looks for none of them.

use std::pin::pin;

use bytes::Bytes;
use entourage_model::{EdgeChange, Error};
use tokio_postgres::{Client, Statement, binary_copy::BinaryCopyInWriter, types::Type};

use super::{error::Failure, row};

/// From this many new edges on it pays.
pub(super) const EDGES_MIN: usize = 100;
pub(super) const EDGES: &str = "COPY edges (kind, follower, target, state, quiet, version, position, accepted, expires) \
     FROM STDIN (FORMAT binary)";
const TYPES: [Type; 9] =
    [Type::INT2, Type::INT8, Type::INT8, Type::INT2, Type::BOOL, Type::INT8, Type::INT8, Type::BOOL, Type::INT8];

/// Statements that are sent meanwhile come after it. If one of the rows exists, nothing of the transaction is stored.
pub(super) async fn put_edges(client: &Client, statement: &Statement, edges: &[EdgeChange]) -> Result<(), Failure> {
    if edges.is_empty() {
        return Ok(());
    }
    let sink = client.copy_in::<_, Bytes>(statement).await?;
    let mut rows = pin!(BinaryCopyInWriter::new(sink, &TYPES));
    for EdgeChange { kind, follower, target, after, .. } in edges {
        let (kind, state) = (*kind as i16, after.state as i16);
        let (version, position) = (row::from_version(after.version), row::from_version(after.position));
        let expires = after.expires.map(|expires| i64::from(expires.seconds()));
        rows.as_mut()
            .write(&[
                &kind,
                &follower.0,
                &target.0,
                &state,
                &after.quiet,
                &version,
                &position,
                &after.accepted,
                &expires,
            ])
            .await?;
    }
    match rows.finish().await? {
        copied if copied == edges.len() as u64 => Ok(()),
        _ => Err(Error::internal("PostgreSQL copied another number of edges").into()),
    }
}
