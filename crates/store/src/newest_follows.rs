//! The newest follows of several users at once: what people have in common is counted over them.

use std::collections::HashMap;

use entourage_model::{Key, List, Place, Result};

use crate::Store;

/// Whom several users follow, one list behind the other, to be filled by [`Store::newest_follows`] as often as wanted.
///
/// Users are numbers here: a store that numbers them anyway hands out its own, so that counting touches no key.
#[derive(Debug, Default)]
pub struct NewestFollows {
    targets: Vec<u32>,
    ends: Vec<usize>,
    /// All numbers are below this.
    bound: u32,
    /// Keys by number, and back: for stores without numbers of their own.
    keys: Vec<Key>,
    numbers: HashMap<Key, u32>,
}

impl NewestFollows {
    /// Empty, with the room it has.
    pub fn clear(&mut self) {
        self.targets.clear();
        self.ends.clear();
        self.bound = 0;
        self.keys.clear();
        self.numbers.clear();
    }

    /// Everybody in all lists.
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// Above every number.
    pub const fn bound(&self) -> u32 {
        self.bound
    }

    /// The lists in the order they were asked for.
    pub fn lists(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| self.targets.get(start..*end).unwrap_or_default())
    }

    /// Adds to the list that is being filled, by the store's own number.
    pub fn extend(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.targets.extend(numbers);
    }

    /// Adds to it by key.
    pub fn push_key(&mut self, key: Key) {
        let next = self.keys.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.keys.push(key);
            self.bound = next + 1;
        }
        self.targets.push(number);
    }

    /// The list is complete.
    pub fn end_list(&mut self) {
        self.ends.push(self.targets.len());
    }

    /// Of a store with numbers of its own.
    pub fn raise_bound(&mut self, bound: u32) {
        self.bound = self.bound.max(bound);
    }

    /// The key of a number that [`Self::push_key`] gave.
    pub fn key(&self, number: u32) -> Option<Key> {
        self.keys.get(number as usize).copied()
    }
}

/// [`Store::newest_follows`] of one user, page by page.
pub(crate) async fn push_newest<S: Store + ?Sized>(
    store: &S,
    user: Key,
    limit: usize,
    without: &[Key],
    found: &mut Vec<Key>,
) -> Result<()> {
    let list = List::following(user).open();
    let (mut after, mut left): (Option<Place>, usize) = (None, limit);
    while left > 0 {
        let page = store.scan(list, after, left).await?;
        after = page.edges.last().map(|edge| list.place(edge)).filter(|_| page.more);
        let shown = page.edges.iter().map(|edge| edge.target).filter(|target| without.binary_search(target).is_err());
        let before = found.len();
        found.extend(shown);
        left -= (found.len() - before).min(left);
        if after.is_none() {
            break;
        }
    }
    Ok(())
}
