//! The events of several partitions as one sequence.

use entourage_model::{Code, Error, Event, EventPosition, EventPositions, Result, Sequence};

use crate::Store;

/// A lineage begins rarely: twice during one read is more than is to be expected.
const LINEAGES_MAX: usize = 3;

/// See [`crate::StoreExt::events_since`].
pub(crate) async fn events_between<S: Store + ?Sized>(
    store: &S,
    after: &mut EventPositions,
    up_to: Option<&EventPositions>,
    limit: usize,
) -> Result<Vec<(u16, Event)>> {
    for _ in 0..LINEAGES_MAX {
        let lineage = store.lineage();
        let events = read_between(store, after, up_to, limit).await?;
        if store.lineage() == lineage {
            // Everything was read in it, from these positions on: they are positions in it.
            after.enter(lineage);
            return Ok(events);
        }
    }
    Err(Error::unavailable("the store begins one lineage after the other; try again"))
}

async fn read_between<S: Store + ?Sized>(
    store: &S,
    after: &EventPositions,
    up_to: Option<&EventPositions>,
    limit: usize,
) -> Result<Vec<(u16, Event)>> {
    let end = |partition| up_to.map_or(Sequence(u64::MAX), |up_to| up_to.offset(partition));
    let mut pages = Vec::new();
    for position in after.positions().filter(|position| position.offset < end(position.partition)) {
        let mut page = match store.events(position, limit).await {
            Err(error) if error.code() == Code::EventsExpired => {
                let resumed = resume(store, after).await?;
                return Err(error.resume_from(resumed.to_text()));
            }
            other => other?,
        };
        page.truncate(page.partition_point(|event| event.sequence <= end(position.partition)));
        pages.push((position.partition, page.into_iter().peekable()));
    }
    let mut merged = Vec::new();
    while merged.len() < limit {
        let heads = pages.iter_mut().enumerate();
        let heads = heads.filter_map(|(index, (_, page))| page.peek().map(|event| (event.version, index)));
        let Some((_, first)) = heads.min() else { break };
        let Some((partition, page)) = pages.get_mut(first) else { break };
        merged.extend(page.next().map(|event| (*partition, event)));
    }
    Ok(merged)
}

/// Where to resume in each partition. What one has lost says nothing about the others, so all are queried.
async fn resume<S: Store + ?Sized>(store: &S, after: &EventPositions) -> Result<EventPositions> {
    let mut resumed = Vec::new();
    let mut lineage = store.lineage();
    for position in after.positions() {
        resumed.push(match store.events(position, 1).await {
            Ok(_) => position.offset,
            Err(error) if error.code() == Code::EventsExpired => {
                let at = error.resume().and_then(|text| EventPosition::from_text(position.partition, text));
                let at = at.ok_or(error)?;
                // What is left in a later lineage was in an earlier one, too.
                lineage = if at.lineage.0 < lineage.0 { at.lineage } else { lineage };
                at.offset
            }
            Err(error) => return Err(error),
        });
    }
    Ok(EventPositions::new(lineage, resumed))
}
