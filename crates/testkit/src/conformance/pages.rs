//! Reads whole lists and whole logs page by page, and reports what is wrong with the pages.

use entourage_model::{Edge, Ended, Event, Key, List, Record, Sequence, Side, Space};

use entourage_store::{Store, StoreExt as _};

/// Every edge of a list that does not change meanwhile.
pub(super) async fn read_list(store: &dyn Store, list: List, size: usize) -> Result<Vec<Edge>, String> {
    let mut edges: Vec<Edge> = Vec::new();
    loop {
        let after = edges.last().map(|edge| list.place(edge));
        let page = store.scan(list, after, size).await.map_err(|error| format!("C10: {list:?}: {error}"))?;
        let wrong = |what: &str| Err(format!("C10: {list:?} after {after:?} at {size} a page: {what}: {page:?}"));
        if page.edges.len() > size || (page.edges.is_empty() && page.more) {
            return wrong("the page is too long, or empty with more to come");
        }
        if page.edges.iter().any(|edge| !belongs(list, edge)) {
            return wrong("an edge belongs to another list");
        }
        edges.extend(page.edges.iter().copied());
        if !edges.is_sorted_by(|above, below| list.place(above) > list.place(below)) {
            return wrong("the order is not from the greatest place down");
        }
        if !page.more {
            let quiet = edges.iter().filter(|edge| edge.value.quiet).count();
            if (page.total, page.quiet) != (edges.len() as u64, quiet as u64) {
                return wrong(&format!("paging through gives {} edges, {quiet} quiet", edges.len()));
            }
            return Ok(edges);
        }
    }
}

/// As [`read_list`], from the oldest edge up.
pub(super) async fn read_list_up(store: &dyn Store, list: List, size: usize) -> Result<Vec<Edge>, String> {
    let mut edges: Vec<Edge> = Vec::new();
    loop {
        let after = edges.last().map(|edge| list.place(edge));
        let page = store.scan_up(list, after, size).await.map_err(|error| format!("C10: {list:?}: {error}"))?;
        let wrong = |what: &str| Err(format!("C10: {list:?} up from {after:?} at {size} a page: {what}: {page:?}"));
        if page.edges.len() > size || (page.edges.is_empty() && page.more) {
            return wrong("the page is too long, or empty with more to come");
        }
        if page.edges.iter().any(|edge| !belongs(list, edge)) {
            return wrong("an edge belongs to another list");
        }
        edges.extend(page.edges.iter().copied());
        if !edges.is_sorted_by(|below, above| list.place(below) < list.place(above)) {
            return wrong("the order is not from the least place up");
        }
        if !page.more {
            if page.total != edges.len() as u64 {
                return wrong(&format!("paging through gives {} edges", edges.len()));
            }
            return Ok(edges);
        }
    }
}

fn belongs(list: List, edge: &Edge) -> bool {
    let user = match list.side {
        Side::Following => edge.follower,
        Side::Followers => edge.target,
    };
    user == list.user && edge.kind == list.plane.kind() && edge.value.state == list.plane.state()
}

/// Every event after `mark` up to some moment after the call.
pub(super) async fn read_events(store: &dyn Store, mark: Sequence) -> Result<Vec<Event>, String> {
    const PAGE: usize = 500;
    let mut events: Vec<Event> = Vec::new();
    let mut last = mark;
    loop {
        let page =
            store.events_after(last, PAGE).await.map_err(|error| format!("C12: events after {last}: {error}"))?;
        let full = page.len() == PAGE;
        if page.len() > PAGE {
            return Err(format!("C12: {} events where {PAGE} were asked for", page.len()));
        }
        for event in page {
            if event.sequence != last.next() {
                return Err(format!("C12: event {} comes after {last}", event.sequence));
            }
            last = event.sequence;
            events.push(event);
        }
        if !full {
            return Ok(events);
        }
    }
}

/// Every record of an owner whose records do not change meanwhile, each also read by itself, and all of them counted.
pub(super) async fn read_records(
    store: &dyn Store,
    space: Space,
    owner: Key,
    size: usize,
) -> Result<Vec<Record>, String> {
    let mut records: Vec<Record> = Vec::new();
    loop {
        let after = records.last().map(|record| record.id.clone());
        let after = after.as_ref().map(|id| id.as_bytes());
        let page = store.scan_records(space, owner, after, size).await.map_err(|error| format!("C16: {error}"))?;
        let ended = page.len() < size;
        let above = |record: &Record| after.is_none_or(|after| record.id.as_bytes() > after);
        if page.len() > size || !page.iter().all(above) || !page.is_sorted_by(|a, b| a.id < b.id) {
            return Err(format!("C16: {space:?} of {owner} after {after:?} at {size} a page: {page:?}"));
        }
        for record in &page {
            let single = store.get_record(space, owner, &record.id).await;
            if !matches!(&single, Ok(Some(single)) if single == record) {
                return Err(format!("C16: {space:?} of {owner} lists {record:?}; asked for it: {single:?}"));
            }
        }
        records.extend(page);
        if ended {
            break;
        }
    }
    match store.count_records(space, owner).await {
        Ok(count) if count == records.len() as u64 => Ok(records),
        other => Err(format!("C16: {space:?} of {owner} has {} records, counted are {other:?}", records.len())),
    }
}

/// The history of a follower.
pub(super) async fn read_history(store: &dyn Store, follower: Key, size: usize) -> Result<Vec<Ended>, String> {
    let mut past: Vec<Ended> = Vec::new();
    loop {
        let before = past.last().map(|ended| ended.ended);
        let page = store.scan_history(follower, before, size).await.map_err(|error| format!("C17: {error}"))?;
        let ended = page.len() < size;
        past.extend(page);
        if !past.is_sorted_by(|newer, older| newer.ended > older.ended) {
            return Err(format!("C17: the history of {follower} at {size} a page: {past:?}"));
        }
        if ended {
            return Ok(past);
        }
    }
}
