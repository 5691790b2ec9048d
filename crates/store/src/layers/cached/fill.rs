//! Misses: which rows to read, single-flight.

use std::sync::Arc;

use entourage_model::{Key, Kind, List, Plane, Result};
use hashbrown::{HashMap, HashSet};
use tokio::sync::watch;

use super::{
    Shared,
    look::Look,
    row::{Contents, RowKey},
    rows::{Begun, Reading},
};

/// Rows that one call reads before it asks for its edges directly instead.
const ROWS_A_CALL: usize = 4;
/// Page size when reading a row.
const PAGE: usize = 2_000;
const USERS_AT_ONCE: usize = 1_000;

/// Releases the row however its reader ends.
struct Leading {
    shared: Arc<Shared>,
    reading: Reading,
    _done: watch::Sender<()>,
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.shared.rows.end(self.reading);
    }
}

impl Shared {
    /// Fills rows for these edges. Waits only if memory can then answer for all of them.
    pub(super) async fn bring_in(self: &Arc<Self>, kind: Kind, missing: &[(Key, Key)]) {
        let wanted = self.rows_for(kind, missing);
        let is_all = wanted.len() <= ROWS_A_CALL;
        let mut under_way = Vec::new();
        for key in wanted.into_iter().take(ROWS_A_CALL) {
            under_way.extend(self.begin(key));
        }
        if is_all {
            for mut done in under_way {
                // The sender is dropped when the row is there.
                while done.changed().await.is_ok() {}
            }
        }
    }

    /// Has a row read, unless it is held; waiters are told when that is over.
    pub(super) fn begin(self: &Arc<Self>, key: RowKey) -> Option<watch::Receiver<()>> {
        match self.rows.begin(key, self.gate.now()) {
            Begun::Lead(reading, done) => {
                let over = done.subscribe();
                self.start(key, Leading { shared: Arc::clone(self), reading, _done: done });
                Some(over)
            }
            Begun::Join(over) => Some(over),
            Begun::Held => None,
        }
    }

    /// Rows that answer for as many of the edges as possible, those for the most first.
    fn rows_for(&self, kind: Kind, missing: &[(Key, Key)]) -> Vec<RowKey> {
        let now = self.gate.now();
        let mut uses: HashMap<RowKey, usize> = HashMap::new();
        let candidates = |&(follower, target): &(Key, Key)| RowKey::of_edge(kind, follower, target).map(|(key, _)| key);
        for key in missing.iter().flat_map(candidates) {
            *uses.entry(key).or_default() += 1;
        }
        uses.retain(|key, _| !self.rows.is_too_large(*key, now));
        let best = |pair: &(Key, Key)| {
            candidates(pair).filter_map(|key| Some((*uses.get(&key)?, key))).max_by_key(|(count, _)| *count)
        };
        let mut chosen: Vec<(usize, RowKey)> =
            missing.iter().filter_map(best).collect::<HashSet<_>>().into_iter().collect();
        chosen.sort_unstable_by(|one, other| other.cmp(one));
        chosen.into_iter().map(|(_, key)| key).collect()
    }

    /// In a task of its own: the caller may go away. Not at all over the limit of concurrent fills.
    fn start(self: &Arc<Self>, key: RowKey, leading: Leading) {
        let Ok(permit) = Arc::clone(&self.fills).try_acquire_owned() else { return };
        let shared = Arc::clone(self);
        self.runtime.spawn(async move {
            // The whole value, not only the used part: others wait until it is dropped.
            let (_permit, leading) = (permit, leading);
            crate::fail_point("cache-fill");
            match shared.read_row(key).await {
                Ok(contents) => shared.rows.fill(leading.reading, contents.as_ref(), shared.gate.now()),
                Err(error) => tracing::debug!(%error, "a row was not read"),
            }
        });
    }

    /// `None`: too large to be held.
    async fn read_row(&self, key: RowKey) -> Result<Option<Contents>> {
        let mut contents = Contents::default();
        // Waiting edges are read before active ones: an edge accepted in between is then in both, not in neither.
        for &plane in Plane::of_kind(key.kind).iter().rev() {
            let list = List::new(key.user, plane, key.side);
            let mut after = None;
            loop {
                let page = self.inner.scan(list, after, PAGE).await?;
                let members = page.edges.iter().map(|edge| list.other(edge));
                match plane {
                    Plane::Request | Plane::Parked => contents.waiting.extend(members),
                    Plane::Follow | Plane::Block | Plane::Mute => contents.active.extend(members),
                }
                let most = self.options.row_edges_max as u64;
                if page.total > most || (contents.active.len() + contents.waiting.len()) as u64 > most {
                    return Ok(None);
                }
                after = page.edges.last().map(|edge| list.place(edge));
                if !page.more || after.is_none() {
                    break;
                }
            }
        }
        self.ask_who_is_there(key.user, &mut contents).await?;
        Ok(Some(contents))
    }

    async fn ask_who_is_there(&self, owner: Key, contents: &mut Contents) -> Result<()> {
        if contents.active.is_empty() && contents.waiting.is_empty() {
            return Ok(());
        }
        contents.owner_there = self.inner.get_users(&[owner]).await?.iter().all(Option::is_some);
        for keys in contents.active.chunks(USERS_AT_ONCE) {
            let users = self.inner.get_users(keys).await?;
            let missing = keys.iter().zip(users).filter(|(_, user)| user.is_none()).map(|(key, _)| *key);
            contents.left_behind.extend(missing);
        }
        Ok(())
    }

    /// What is known of an edge, if memory may answer.
    pub(super) fn look(&self, kind: Kind, follower: Key, target: Key) -> Look {
        let now = self.gate.now();
        if self.gate.is_open(now) { self.rows.look(kind, follower, target, now) } else { Look::Missing }
    }
}
