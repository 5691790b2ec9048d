//! From events that are numbered later to events that are numbered by their commit, once, when no older server is left.

use entourage_model::{Error, Result};
use tokio_postgres::Client;

use super::{
    error::translate,
    lock::{Locks, Name},
};

/// Of a server whose commits number their events.
pub(super) const LEVEL: i16 = 1;

const IS_DIRECT: &str = "SELECT is_direct FROM relay";
const OLDER_SERVERS: &str = "SELECT count(*) FROM servers WHERE level < $1 AND leased_until > clock_timestamp()";
/// No transaction that writes to the outbox is left once the table is locked: what is in it is all there will ever be.
const SWITCH: &str = "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE; \
     WITH moved AS (DELETE FROM outbox RETURNING xid, id, version, change), \
     advanced AS (\
         UPDATE relay SET sequence = relay.sequence + sums.moved, \
             high_water = greatest(high_water, coalesce(sums.version, 0)) \
         FROM (SELECT count(*) AS moved, max(version) AS version FROM moved) sums) \
     INSERT INTO events (sequence, version, change) \
     SELECT (SELECT sequence FROM relay) + row_number() OVER (ORDER BY xid, id), version, change FROM moved; \
     ALTER TABLE outbox ADD CONSTRAINT outbox_is_closed CHECK (false) NOT VALID; \
     UPDATE relay SET is_direct = true";

/// An older server that comes back from a pause finds the outbox closed: its writes fail, and nothing is mixed up.
pub(super) async fn make_direct(client: &mut Client, epoch: u64) -> Result<()> {
    if client.query_one(IS_DIRECT, &[]).await.map_err(translate)?.get(0) {
        return Ok(());
    }
    let transaction = client.transaction().await.map_err(translate)?;
    let relay = Locks::new(epoch).number(Name::Relay);
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&relay]).await.map_err(translate)?;
    let older: i64 = transaction.query_one(OLDER_SERVERS, &[&LEVEL]).await.map_err(translate)?.get(0);
    if older > 0 {
        return Err(Error::unavailable(format!(
            "{older} older Entourage servers still write to this schema: stop them first; one that was killed is \
             forgotten after two minutes"
        )));
    }
    transaction.batch_execute(SWITCH).await.map_err(translate)?;
    transaction.commit().await.map_err(translate)
}
