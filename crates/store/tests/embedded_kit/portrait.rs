//! Everything a store says, as text: two stores with one portrait are the same store.

use std::fmt::Write as _;

use entourage_model::{Key, Kind, List, Place, Plane, Result, Sequence, Side};
use entourage_store::Store;

pub(crate) async fn portrait(store: &dyn Store) -> Result<String> {
    let mut text = graph(store).await?;
    let mut after = Sequence::ZERO;
    loop {
        let events = store.events(after, 7).await?;
        let Some(last) = events.last() else { return Ok(text) };
        after = last.sequence;
        for event in &events {
            let _ = writeln!(text, "{event:?}");
        }
    }
}

/// All but the events.
pub(crate) async fn graph(store: &dyn Store) -> Result<String> {
    let mut text = String::new();
    let users = store.sweep_users(None, usize::MAX).await?;
    let keys: Vec<Key> = users.iter().map(|user| user.key).collect();
    for user in &users {
        let _ = writeln!(text, "{user:?} {:?}", store.get_counts(user.key).await?);
        for plane in Plane::ALL {
            for side in Side::BOTH {
                list(store, List { user: user.key, plane, side }, &mut text).await?;
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
