//! Events: a commit numbers its own in its last statement, so that what is committed is listed.

use entourage_model::{Change, Event, EventPosition, Lineage, Sequence};

use super::{
    Engine,
    error::{Failure, unreadable},
    lineage::{self, newest_lineage},
    row,
};
use entourage_store::{Progress, retention::events_expired_at};

pub(super) const STEP_ROWS: i64 = 5_000;

/// What is dropped and what is left, as of one moment: a step could come between two statements.
const READ: &str = concat!(
    "SELECT relay.dropped, found.sequence, found.version, found.change::text, ",
    newest_lineage!(),
    " FROM relay LEFT JOIN (SELECT * FROM events WHERE sequence > $1 ORDER BY sequence LIMIT $2) found ON true \
     ORDER BY found.sequence"
);

impl Engine {
    /// The number of the last event. A snapshot that sees it sees everything up to it: whoever numbers the next one
    /// waits for the commit of this one.
    pub(super) async fn read_last_event(&self) -> Result<Sequence, Failure> {
        let client = self.client().await?;
        let lineage = self.lineage_of(&client)?;
        let statement = client.prepare_cached(lineage::END).await?;
        let found = client.query_one(&statement, &[]).await?;
        self.must_be_lineage(lineage, found.get(1))?;
        Ok(Sequence(found.get::<_, i64>(0).unsigned_abs()))
    }

    pub(super) async fn read_progress(&self) -> Result<Progress, Failure> {
        let last = match self.options.read_only {
            true => self.read_replayed().await?,
            false => self.read_last_event().await?,
        };
        Ok(Progress { listed: last, covered: last, newest: last })
    }

    /// On a standby a new lineage comes with the log.
    async fn read_replayed(&self) -> Result<Sequence, Failure> {
        let client = self.client().await?;
        let statement = client.prepare_cached(lineage::READ_END).await?;
        let found = client.query_one(&statement, &[]).await?;
        let [end, lineage] = [0, 1].map(|column| found.get::<_, i64>(column).unsigned_abs());
        self.lineages.read_up_to(Lineage(lineage), Sequence(end));
        Ok(Sequence(end))
    }

    pub(super) async fn read_events(&self, at: EventPosition, limit: usize) -> Result<Vec<Event>, Failure> {
        let client = self.client().await?;
        let lineage = self.lineage_of(&client)?;
        if ![Lineage(0), lineage].contains(&at.lineage)
            && let Some(offset) = self.lost(&client, lineage, at).await?
        {
            return Err(events_expired_at(EventPosition { lineage, offset, ..at }).into());
        }
        let Ok(after) = i64::try_from(at.offset.0) else { return Ok(Vec::new()) };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let statement = client.prepare_cached(READ).await?;
        let rows = client.query(&statement, &[&after, &limit]).await?;
        let (dropped, newest) = rows.first().map_or((0, 0), |row| (row.get::<_, i64>(0), row.get::<_, i64>(4)));
        self.must_be_lineage(lineage, newest)?;
        if after < dropped && limit > 0 {
            let offset = Sequence(dropped.unsigned_abs());
            return Err(events_expired_at(EventPosition { offset, ..at }).into());
        }
        let event = |row: &tokio_postgres::Row| {
            let change: Change =
                serde_json::from_str(row.get(3)).map_err(|error| unreadable("event").caused_by(error))?;
            let sequence = Sequence(row.get::<_, i64>(1) as u64);
            Ok(Event::of(sequence, row::to_version(row.get(2)), &change))
        };
        rows.iter().filter(|row| row.get::<_, Option<i64>>(1).is_some()).map(event).collect()
    }
}
