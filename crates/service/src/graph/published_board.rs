//! The leaderboard of several servers: the one that has the lease sweeps the store and publishes the board, the others read
//! it. A board that is too old is nobody's: then a server makes its own.

use std::{cmp::Reverse, time::Duration};

use entourage_model::{CHUNK_MAX, Condition, Error, Key, Millis, Operation, RecordId, Result, Space};
use entourage_store::StoreExt as _;

use super::leaderboard::{LEADERBOARD_MAX, Rank, SHARED_MAX_AGE};
use crate::{Context, Duty, Graph, leases::is_taken};

/// From this age on, the holder of the lease makes a new one: half of what others accept.
const REFRESH_MILLIS: u64 = 30_000;
const SPACE: Space = Space::Schedule;
const OWNER: Key = Key::SERVER;
const ROW_BYTES: usize = size_of::<u64>() + size_of::<i64>();

const _: () = assert!(LEADERBOARD_MAX * ROW_BYTES < entourage_model::RECORD_MAX_BYTES && LEADERBOARD_MAX <= CHUNK_MAX);

/// A board as of a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) as_of: Millis,
    pub(super) ranks: Vec<Rank>,
}

fn record_id() -> Result<RecordId> {
    RecordId::new(b"leaderboard")
}

impl Published {
    fn encode(&self) -> Box<[u8]> {
        let mut bytes = self.as_of.since_2000().to_be_bytes().to_vec();
        for (Reverse(followers), key) in &self.ranks {
            bytes.extend_from_slice(&followers.to_be_bytes());
            bytes.extend_from_slice(&key.0.to_be_bytes());
        }
        bytes.into_boxed_slice()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (as_of, rows) = bytes.split_first_chunk::<8>()?;
        let (rows, []) = rows.as_chunks::<ROW_BYTES>() else { return None };
        let rank = |row: &[u8; ROW_BYTES]| {
            let (followers, key) = row.split_first_chunk::<8>()?;
            Some((Reverse(u64::from_be_bytes(*followers)), Key(i64::from_be_bytes(key.try_into().ok()?))))
        };
        let ranks = rows.iter().map(rank).collect::<Option<Vec<Rank>>>()?;
        Some(Self { as_of: Millis::from_since_2000(u64::from_be_bytes(*as_of)), ranks })
    }

    /// A clock that was set back makes it old, too.
    fn age_millis(&self, now: Millis) -> u64 {
        now.since_2000().abs_diff(self.as_of.since_2000())
    }
}

impl Graph {
    /// Most followers first.
    pub(crate) async fn current_ranks(&self) -> Result<Vec<Rank>> {
        if !self.leases.has_company() {
            return Ok(self.own_board(SHARED_MAX_AGE).await?.ranks);
        }
        let found = self.context.store.get_record(SPACE, OWNER, &record_id()?).await?;
        let published = found.and_then(|record| Published::decode(&record.value));
        let age = published.as_ref().map_or(u64::MAX, |board| board.age_millis(self.context.clock.now()));
        let held = if age < REFRESH_MILLIS { None } else { self.leases.hold(Duty::Leaderboard).await? };
        match (published, held) {
            (Some(board), None) if u128::from(age) < SHARED_MAX_AGE.as_millis() => Ok(board.ranks),
            (_, None) => Ok(self.own_board(SHARED_MAX_AGE).await?.ranks),
            (before, Some(held)) => {
                let board = self.own_board(Duration::from_millis(REFRESH_MILLIS)).await?;
                if before.is_some_and(|before| before.as_of == board.as_of) {
                    return Ok(board.ranks);
                }
                let operation = put(Some(board.encode()))?;
                match held.run(self.context.writer.write_one(operation)).await {
                    Err(error) if is_taken(&error) => self.leases.lost(&held),
                    Err(error) => tracing::debug!(%error, "the leaderboard was not published"),
                    Ok(_) => {}
                }
                Ok(board.ranks)
            }
        }
    }
}

impl Context {
    /// Nothing is kept of anybody's place.
    pub(crate) async fn drop_published_board(&self) -> Result<()> {
        if self.store.get_record(SPACE, OWNER, &record_id()?).await?.is_some() {
            self.writer.write_one(put(None)?).await?;
        }
        Ok::<(), Error>(())
    }
}

fn put(value: Option<Box<[u8]>>) -> Result<Operation> {
    let (id, condition) = (record_id()?, Condition::Any);
    Ok(Operation::PutRecord { space: SPACE, owner: OWNER, id, value, condition, cap: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_reads_back_and_half_of_one_does_not() {
        let ranks = vec![(Reverse(7), Key(-3)), (Reverse(u64::MAX), Key(i64::MAX)), (Reverse(0), Key(0))];
        let board = Published { as_of: Millis::from_since_2000(9), ranks };
        let bytes = board.encode();
        assert_eq!(Published::decode(&bytes), Some(board));
        for length in 0..bytes.len() {
            let whole = length >= 8 && (length - 8).is_multiple_of(ROW_BYTES);
            assert_eq!(Published::decode(&bytes[..length]).is_some(), whole, "{length}");
        }
    }
}
