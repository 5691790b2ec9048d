//! Everything a store says, as text: two stores with one portrait are the same store.

use std::fmt::Write as _;

use entourage_model::{Key, Kind, List, Place, Plane, Quota, Result, Sequence, Side, Space};
use entourage_store::{Store, StoreExt as _};

pub async fn portrait(store: &dyn Store) -> Result<String> {
    let mut text = graph(store).await?;
    text += &beyond(store).await?;
    text += &quotas(store).await?;
    text += &events(store).await?;
    Ok(text)
}

/// Of actors whose quota is not full.
async fn quotas(store: &dyn Store) -> Result<String> {
    let mut text = String::new();
    let users: Vec<Key> = store.sweep_all().await?.iter().map(|user| user.key).collect();
    for (user, quota) in users.iter().zip(store.get_quotas(&users).await?) {
        if quota != Quota::default() {
            let _ = writeln!(text, "  {user} {quota:?}");
        }
    }
    Ok(text)
}

/// What stores of the first format could say, in the terms of that time.
pub async fn first_portrait(store: &dyn Store) -> Result<String> {
    let text = graph(store).await? + &earlier_events(store).await?;
    Ok(text.replace("accepted: false, expires: None, ", "").replace("follow_suspended: false, ", ""))
}

/// The same of the second format.
pub async fn second_portrait(store: &dyn Store) -> Result<String> {
    Ok(graph(store).await? + &beyond(store).await? + &earlier_events(store).await?)
}

/// Before the third format events did not say when a mute ends, nor who was erased or suspended.
async fn earlier_events(store: &dyn Store) -> Result<String> {
    let mut text = String::new();
    for line in events(store).await?.lines() {
        match line.rsplit_once(", expires: ") {
            Some((before, _)) if line.contains("body: Edge") => text += &format!("{before} }} }}\n"),
            _ => text += &format!("{}\n", line.replace(", is_suspension: false, erased: None", "")),
        }
    }
    Ok(text)
}

async fn events(store: &dyn Store) -> Result<String> {
    let mut text = String::new();
    let mut after = Sequence::ZERO;
    loop {
        let events = store.events_after(after, 7).await?;
        let Some(last) = events.last() else { return Ok(text) };
        after = last.sequence;
        for event in &events {
            let _ = writeln!(text, "{event:?}");
        }
    }
}

/// Records and history of everybody and of the server, page by page and one by one.
async fn beyond(store: &dyn Store) -> Result<String> {
    let mut text = String::new();
    let users = store.sweep_all().await?;
    for owner in users.iter().map(|user| user.key).chain([Key::SERVER]) {
        for space in Space::ALL {
            let mut after = None;
            loop {
                let page = store.scan_records(space, owner, after.as_deref(), 3).await?;
                let Some(last) = page.last() else { break };
                after = Some(last.id.as_bytes().to_vec());
                for record in &page {
                    let single = store.get_record(space, owner, &record.id).await?;
                    assert_eq!(single.as_ref(), Some(record));
                }
                let _ = writeln!(text, "  {space:?} {owner} {page:?}");
            }
            let count = store.count_records(space, owner).await?;
            if count > 0 {
                let _ = writeln!(text, "  {count} {space:?} of {owner}");
            }
        }
        let past = store.scan_history(owner, None, 1_000).await?;
        if !past.is_empty() {
            let _ = writeln!(text, "  {owner} {past:?}");
        }
    }
    Ok(text)
}

/// All but the events.
pub async fn graph(store: &dyn Store) -> Result<String> {
    let mut text = String::new();
    let users = store.sweep_all().await?;
    let keys: Vec<Key> = users.iter().map(|user| user.key).collect();
    for user in &users {
        let _ = writeln!(text, "{user:?} {:?}", store.get_counts(user.key).await?);
        for plane in Plane::ALL {
            for side in Side::BOTH {
                list(store, List::new(user.key, plane, side), &mut text).await?;
            }
        }
        for kind in Kind::ALL {
            let pairs: Vec<(Key, Key)> = keys.iter().map(|other| (user.key, *other)).collect();
            let _ = writeln!(text, "  {kind:?} {:?}", store.get_edges(kind, &pairs).await?);
            for &(follower, target) in &pairs {
                let _ = write!(text, "{:?}", store.peek(kind, follower, target));
            }
        }
    }
    Ok(text)
}

async fn list(store: &dyn Store, list: List, text: &mut String) -> Result<()> {
    let mut after: Option<Place> = None;
    loop {
        let page = store.scan(list, after, 3).await?;
        if page.edges.is_empty() {
            return Ok(());
        }
        let _ = writeln!(text, "  {:?} {:?} {page:?}", list.plane, list.side);
        after = page.edges.last().map(|edge| list.place(edge));
    }
}
