//! How authors' posts reach their readers: pushed into inboxes, or pulled at read. The authors who have pulled posts
//! are all in memory, so that a read knows whom to pull.

use std::collections::{HashMap, HashSet};

use entourage_model::{Code, Condition, Error, Key, Operation, RecordId, Result, Space, UserId, Version};
use entourage_store::StoreExt as _;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::{Call, Feeds, Receipt};

const SCAN: usize = 1_000;
/// How often one request asks again because somebody else wrote.
const ROUNDS_MAX: usize = 8;

/// What an administrator decided for an author.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pin {
    /// By the number of followers.
    #[default]
    Auto,
    Push,
    Pull,
}

impl Pin {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Push => "push",
            Self::Pull => "pull",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Auto, Self::Push, Self::Pull].into_iter().find(|pin| pin.as_str() == text)
    }
}

/// An author's mode, as stored. An author without one is pushed and always was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mode {
    pub(super) pin: Pin,
    /// New posts are pulled.
    pub(super) pulls: bool,
    /// Some posts may be pulled ones. Never taken back.
    pub(super) has_pulled: bool,
}

impl Mode {
    /// The mode of a new post of an author with this many followers. Between the threshold and nine tenths of it
    /// everything stays as it is.
    pub(super) fn next(self, followers: u64, threshold: u64, is_behind: bool) -> Self {
        let pulls = match self.pin {
            Pin::Push => false,
            Pin::Pull => true,
            Pin::Auto if followers >= threshold || is_behind => true,
            Pin::Auto if u128::from(followers) * 10 < u128::from(threshold) * 9 => false,
            Pin::Auto => self.pulls,
        };
        Self { pulls, has_pulled: self.has_pulled || pulls, ..self }
    }
}

#[derive(Debug, Default)]
struct Known {
    /// With the version of the record; `None` where there is none any more.
    modes: HashMap<Key, (Version, Option<Mode>)>,
    /// Everybody who may have pulled posts.
    pulled: HashSet<Key>,
}

#[derive(Debug, Default)]
pub(super) struct Modes {
    known: RwLock<Known>,
    loaded: tokio::sync::OnceCell<()>,
}

impl Modes {
    pub(super) fn get(&self, author: Key) -> Mode {
        self.known.read().modes.get(&author).and_then(|(_, mode)| *mode).unwrap_or_default()
    }

    /// Everybody who may have pulled posts, unless they are more than `max`.
    pub(super) fn pulled(&self, max: usize) -> Option<Vec<Key>> {
        let known = self.known.read();
        (known.pulled.len() <= max).then(|| known.pulled.iter().copied().collect())
    }

    pub(super) fn is_pulled(&self, author: Key) -> bool {
        self.known.read().pulled.contains(&author)
    }

    pub(super) fn pulled_count(&self) -> usize {
        self.known.read().pulled.len()
    }

    /// Unless something newer is known.
    pub(super) fn set(&self, author: Key, version: Version, mode: Option<Mode>) {
        let mut known = self.known.write();
        let slot = known.modes.entry(author).or_default();
        if slot.0 > version {
            return;
        }
        *slot = (version, mode);
        match mode.is_some_and(|mode| mode.has_pulled) {
            true => known.pulled.insert(author),
            false => known.pulled.remove(&author),
        };
    }
}

fn read(value: &[u8]) -> Result<Mode> {
    serde_json::from_slice(value).map_err(|error| Error::internal(format!("an author's way cannot be read: {error}")))
}

impl Feeds {
    /// Learns all stored modes once.
    pub(crate) async fn load_modes(&self) -> Result<()> {
        self.feed.modes.loaded.get_or_try_init(|| self.read_modes()).await.copied()
    }

    /// Learns all stored modes, however much is known.
    pub(super) async fn read_modes(&self) -> Result<()> {
        let mut after: Option<RecordId> = None;
        loop {
            let from = after.as_ref().map(RecordId::as_bytes);
            let records = self.context.store.scan_server_records(Space::Fanout, from, SCAN).await?;
            for (_, record) in &records {
                if let Some(author) = record.id.key() {
                    self.feed.modes.set(author, record.version, Some(read(&record.value)?));
                }
            }
            match records.last() {
                Some((_, last)) if records.len() == SCAN => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Another server wrote it, or the author was erased.
    pub(super) async fn reload_mode(&self, author: Key, seen: Version) -> Result<()> {
        let owner = self.context.store.guarantees().buckets.of(author);
        let record = self.context.store.get_record(Space::Fanout, owner, &RecordId::of_key(author)).await?;
        match record {
            Some(record) => self.feed.modes.set(author, record.version, Some(read(&record.value)?)),
            None => self.feed.modes.set(author, seen, None),
        }
        Ok(())
    }

    /// Changes an author's mode. Durable before the first post that has it, so that every read knows of it.
    pub(super) async fn change_mode(
        &self,
        call: &Call,
        author: Key,
        change: impl Fn(Mode) -> Mode,
    ) -> Result<(Mode, Receipt)> {
        let (space, owner, id) =
            (Space::Fanout, self.context.store.guarantees().buckets.of(author), RecordId::of_key(author));
        for _ in 0..ROUNDS_MAX {
            let stored = self.context.store.get_record(space, owner, &id).await?;
            let condition = stored.as_ref().map_or(Condition::Absent, |record| Condition::Version(record.version));
            let mode = change(stored.map(|record| read(&record.value)).transpose()?.unwrap_or_default());
            let value = serde_json::to_vec(&mode).map_err(|error| Error::internal(error.to_string()))?;
            let value = Some(value.into_boxed_slice());
            let operation = Operation::PutRecord { space, owner, id: id.clone(), value, condition, cap: None };
            match self.context.writer.write(call, operation).await {
                Err(error) if error.code() == Code::RequestInProgress => {}
                Err(error) => return Err(error),
                Ok((_, receipt)) => {
                    self.feed.modes.set(author, receipt.version, Some(mode));
                    return Ok((mode, receipt));
                }
            }
        }
        Err(Error::new(Code::RequestInProgress, "others change the same author's fan-out; try again"))
    }

    /// Whether a new post of an author with this many followers is pulled.
    pub(crate) async fn pulls_new_post(&self, author: Key, followers: u64) -> Result<bool> {
        let (threshold, is_behind) = (self.context.rules.feed.celebrity_followers, self.feed.queue.is_behind());
        let known = self.feed.modes.get(author);
        let next = known.next(followers, threshold, is_behind);
        if next == known {
            return Ok(next.pulls);
        }
        // What is stored decides: somebody may have changed it meanwhile.
        let change = |mode: Mode| mode.next(followers, threshold, is_behind);
        Ok(self.change_mode(&Call::default(), author, change).await?.0.pulls)
    }

    /// Decides how an author's posts travel, whatever the number of followers.
    pub async fn pin_fanout(&self, call: &Call, id: &UserId, pin: Pin) -> Result<Receipt> {
        call.must_be_admin()?;
        self.load_modes().await?;
        let author = self.context.stored_user(id).await?.key;
        let pinned = |mode: Mode| {
            let pulls = match pin {
                Pin::Auto => mode.pulls,
                Pin::Push => false,
                Pin::Pull => true,
            };
            Mode { pin, pulls, has_pulled: mode.has_pulled || pulls }
        };
        Ok(self.change_mode(call, author, pinned).await?.1)
    }

    /// What an administrator decided, and whether new posts are pulled.
    pub async fn fanout(&self, call: &Call, id: &UserId) -> Result<(Pin, bool)> {
        call.must_be_admin()?;
        self.load_modes().await?;
        let author = self.context.stored_user(id).await?.key;
        let followers = self.followers_of(author).await?;
        let mode = self.feed.modes.get(author).next(followers, self.context.rules.feed.celebrity_followers, false);
        Ok((mode.pin, mode.pulls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_has_a_band_in_which_nothing_changes() {
        let after = |pulls, followers| Mode { pulls, ..Mode::default() }.next(followers, 100, false).pulls;
        assert_eq!([99, 100, 101].map(|followers| after(false, followers)), [false, true, true]);
        assert_eq!([89, 90, 91, 99].map(|followers| after(true, followers)), [false, true, true, true]);
        assert_eq!([89, 90, 91].map(|followers| after(false, followers)), [false; 3]);
    }

    #[test]
    fn a_pin_beats_numbers_and_pulled_posts_are_not_forgotten() {
        let pinned = |pin| Mode { pin, ..Mode::default() };
        assert!(!pinned(Pin::Push).next(1_000, 100, true).pulls);
        assert!(pinned(Pin::Pull).next(0, 100, false).pulls);
        let mode = Mode::default().next(100, 100, false).next(0, 100, false);
        assert_eq!((mode.pulls, mode.has_pulled), (false, true));
        assert!(Mode::default().next(0, 100, true).pulls);
    }
}
