//! Sweeps of all users: page by page in the order of the store, range by range, resumable.

use entourage_model::{Error, Key, Result, User};
use smallvec::SmallVec;

use crate::Store;

/// Where the sweep of a range continues. Only the store that made it can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepCursor(SmallVec<[u8; 8]>);

impl SweepCursor {
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// For a store ordered by key.
    pub fn of_key(key: Key) -> Self {
        Self::of_bytes(&key.0.to_be_bytes())
    }

    pub fn key(&self) -> Result<Key> {
        self.0.as_slice().try_into().map(|bytes| Key(i64::from_be_bytes(bytes))).map_err(|_| unreadable())
    }

    /// For a store ordered by creation.
    pub fn of_ordinal(ordinal: u32) -> Self {
        Self::of_bytes(&ordinal.to_be_bytes())
    }

    pub fn ordinal(&self) -> Result<u32> {
        self.0.as_slice().try_into().map(u32::from_be_bytes).map_err(|_| unreadable())
    }
}

fn unreadable() -> Error {
    Error::invalid("the cursor of a sweep is of another store; begin anew")
}

/// A page of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// At most as many as requested. May be empty before the end: places of erased users count as well.
    pub users: Vec<User>,
    /// `None`: this was the end of the range.
    pub next: Option<SweepCursor>,
}

impl Swept {
    /// For a store ordered by key: a page that is not full is the last.
    pub fn by_key(users: Vec<User>, limit: usize) -> Self {
        let next = users.last().filter(|_| users.len() >= limit).map(|user| SweepCursor::of_key(user.key));
        Self { users, next }
    }
}

/// A sweep of a whole store, one range after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    range: u16,
    after: Option<SweepCursor>,
}

impl Sweep {
    /// The next users, at least one of them; `None` after the last range. After an error it continues where it was.
    pub async fn next(&mut self, store: &(impl Store + ?Sized), limit: usize) -> Result<Option<Vec<User>>> {
        while self.range < store.guarantees().ranges {
            let Swept { users, next } = store.sweep(self.range, self.after.as_ref(), limit).await?;
            self.range += u16::from(next.is_none());
            self.after = next;
            if !users.is_empty() {
                return Ok(Some(users));
            }
        }
        Ok(None)
    }

    /// To resume later.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.range.to_be_bytes().to_vec();
        if let Some(after) = &self.after {
            bytes.push(1);
            bytes.extend_from_slice(after.as_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (range, rest) = bytes.split_first_chunk().ok_or_else(unreadable)?;
        let after = match rest {
            [] => None,
            [1, cursor @ ..] => Some(SweepCursor::of_bytes(cursor)),
            _ => return Err(unreadable()),
        };
        Ok(Self { range: u16::from_be_bytes(*range), after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_back_and_what_is_none_is_refused() {
        for after in [None, Some(SweepCursor::of_ordinal(7)), Some(SweepCursor::of_key(Key(-3)))] {
            let sweep = Sweep { range: 300, after };
            assert_eq!(Sweep::from_bytes(&sweep.to_bytes()).unwrap(), sweep);
        }
        assert_eq!(SweepCursor::of_key(Key(-3)).key().unwrap(), Key(-3));
        assert_eq!(SweepCursor::of_ordinal(7).ordinal().unwrap(), 7);
        assert!(SweepCursor::of_ordinal(7).key().is_err() && SweepCursor::of_key(Key(7)).ordinal().is_err());
        assert!(Sweep::from_bytes(&[0]).is_err() && Sweep::from_bytes(&[0, 0, 2]).is_err());
    }
}
