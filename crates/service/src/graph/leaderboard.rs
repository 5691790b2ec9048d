//! Who has the most followers. The board is filled by one sweep when it is first asked for; after that, users whose
//! followers change through this service are looked at again before the next answer.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap, HashSet},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use entourage_model::{
    Change, Counts, Cursor, CursorScope, Key, Kind, List, Millis, Outcome, Place, Result, Selection, User, UserId,
    Version,
};
use entourage_store::{Sweep, Whose, Writers};
use parking_lot::Mutex;

use super::published_board::Published;
use crate::{Call, Graph, Limit};

/// How many ranks are shown.
pub const LEADERBOARD_MAX: usize = 1_000;
/// How many are kept, so that a few who lose followers do not make another sweep necessary.
const KEPT: usize = 4 * LEADERBOARD_MAX;
/// Past this many changed users a new sweep is cheaper than a look at each.
const TOUCHED_MAX: usize = 100_000;
/// How old a board may be where other servers write to the same store.
pub(super) const SHARED_MAX_AGE: Duration = Duration::from_secs(60);
const SWEEP_CHUNK: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    pub rank: usize,
    pub id: UserId,
    pub name: Option<Box<str>>,
    pub avatar_url: Option<Box<str>>,
    pub created_at: Millis,
    /// As everybody may know it: quiet ones are not counted.
    pub followers: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderboardPage {
    pub rows: Vec<Ranked>,
    pub next_cursor: Option<String>,
}

/// Most followers first, then the lesser key.
pub(crate) type Rank = (Reverse<u64>, Key);

#[derive(Debug, Default)]
pub(crate) struct Leaderboard {
    /// Nobody has asked yet: then nothing is kept.
    wanted: AtomicBool,
    /// Whose followers changed since the last look.
    touched: Mutex<HashSet<Key>>,
    /// One request at a time brings the board up to date.
    board: tokio::sync::Mutex<Board>,
}

#[derive(Debug, Default)]
struct Board {
    ranks: BTreeSet<Rank>,
    followers: HashMap<Key, u64>,
    /// Everybody who ranks above it is on the board; `None` when everybody is.
    floor: Option<Rank>,
    /// Where the sweep stands; a request that ran out of time leaves it to the next one.
    sweep: Stage,
    began: Option<Instant>,
    as_of: Millis,
    /// Whose followers changed, and may not have settled: looked at again with every answer until they have.
    settling: Vec<Key>,
    /// Who has to be looked at again.
    pending: Vec<Key>,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Due,
    Running(Sweep),
    Done,
}

impl Leaderboard {
    /// Called for every commit: cheap, and nothing at all until somebody asks for the board.
    pub(crate) fn saw(&self, outcome: &Outcome) {
        if !self.wanted.load(Ordering::SeqCst) {
            return;
        }
        let key = |change: &Change| match change {
            Change::Edge(edge) => (edge.kind == Kind::Follow).then_some(edge.target),
            Change::User(user) => user.after.is_none().then_some(user.key),
            Change::Record(_) => None,
        };
        self.touch(outcome.changes.iter().filter_map(key));
    }

    /// These are looked at again before the next answer.
    pub(crate) fn touch(&self, keys: impl Iterator<Item = Key>) {
        if !self.wanted.load(Ordering::SeqCst) {
            return;
        }
        let mut touched = self.touched.lock();
        if touched.len() < TOUCHED_MAX {
            touched.extend(keys);
        }
    }
}

impl Board {
    fn set(&mut self, key: Key, followers: u64) {
        if let Some(before) = self.followers.remove(&key) {
            self.ranks.remove(&(Reverse(before), key));
        }
        let rank = (Reverse(followers), key);
        if followers == 0 || self.floor.is_some_and(|floor| rank > floor) {
            return;
        }
        self.ranks.insert(rank);
        self.followers.insert(key, followers);
        if self.ranks.len() > KEPT {
            if let Some((_, last)) = self.ranks.pop_last() {
                self.followers.remove(&last);
            }
            self.floor = self.ranks.last().copied();
        }
    }

    /// Too few are left of those who were kept.
    fn is_short(&self) -> bool {
        self.floor.is_some() && self.ranks.len() < LEADERBOARD_MAX
    }
}

impl Graph {
    /// Users by followers, from the given place on.
    pub async fn leaderboard(&self, call: &Call, cursor: Option<&str>, limit: Limit) -> Result<LeaderboardPage> {
        entourage_store::fail_point("leaderboard");
        self.context.catch_up(call, Whose::Everybody).await?;
        let viewer = self.context.viewer(call).await?;
        let list = List::followers(Key::default());
        let scope = CursorScope { list, selection: Selection::Leaderboard, viewer };
        let after = cursor.map(|text| Cursor::decode(text, &self.context.sealer, &scope)).transpose()?;
        let after = after.map(|Cursor(place)| (Reverse(place.position.bits()), place.key));
        let ranks = self.current_ranks().await?;
        let below = |(_, rank): &(usize, Rank)| after.is_none_or(|after| *rank > after);
        let rest: Vec<(usize, Rank)> = (1..).zip(ranks).filter(below).collect();
        let mut visibility = self.context.visibility(viewer);
        let mut rows: Vec<(Place, Ranked)> = Vec::new();
        for some in rest.chunks(limit.get() + 1) {
            let keys: Vec<Key> = some.iter().map(|(_, (_, key))| *key).collect();
            visibility.ask_blocks(&keys).await?;
            let users = self.context.store.get_users(&keys).await?;
            let row = |(&(rank, (Reverse(followers), key)), user): (&(usize, Rank), Option<User>)| {
                let User { id, name, avatar_url, created, .. } = user.filter(|user| !visibility.is_apart(user.key))?;
                let place = Place { position: Version::from_bits(followers), key };
                Some((place, Ranked { rank, id, name, avatar_url, created_at: created.millis(), followers }))
            };
            rows.extend(some.iter().zip(users).filter_map(row));
            // One more than is shown tells whether there is more.
            if rows.len() > limit.get() {
                break;
            }
        }
        let more = rows.len() > limit.get();
        rows.truncate(limit.get());
        let next = rows.last().map(|(place, _)| *place).filter(|_| more);
        let next_cursor = next.map(|place| Cursor(place).encode(&self.context.sealer, &scope));
        Ok(LeaderboardPage { rows: rows.into_iter().map(|(_, row)| row).collect(), next_cursor })
    }

    /// The board that this server keeps, with what others wrote up to `max_age` ago.
    pub(super) async fn own_board(&self, max_age: Duration) -> Result<Published> {
        let board = &mut *self.leaderboard.board.lock().await;
        self.leaderboard.wanted.store(true, Ordering::SeqCst);
        let is_shared = self.context.store.guarantees().writers == Writers::Many;
        let is_old = board.began.is_some_and(|began| is_shared && began.elapsed() >= max_age);
        if (is_old && matches!(board.sweep, Stage::Done)) || self.leaderboard.touched.lock().len() >= TOUCHED_MAX {
            *board = Board::default();
        }
        loop {
            self.sweep(board).await?;
            board.settling.extend(self.leaderboard.touched.lock().drain());
            let have_settled = board.settling.is_empty() || self.context.are_settled(&board.settling).await?;
            board.pending.extend(&board.settling);
            if have_settled {
                board.settling.clear();
            }
            // Taken away only when done: the request may end at any await.
            while !board.pending.is_empty() {
                let first = board.pending.len().saturating_sub(SWEEP_CHUNK);
                let ranked = self.public_followers(board.pending.get(first..).unwrap_or_default()).await?;
                ranked.into_iter().for_each(|(key, followers)| board.set(key, followers));
                board.pending.truncate(first);
            }
            if !board.is_short() {
                let ranks = board.ranks.iter().take(LEADERBOARD_MAX).copied().collect();
                return Ok(Published { as_of: board.as_of, ranks });
            }
            *board = Board::default();
        }
    }

    async fn sweep(&self, board: &mut Board) -> Result<()> {
        loop {
            let mut sweep = match &board.sweep {
                Stage::Done => return Ok(()),
                Stage::Running(sweep) => sweep.clone(),
                Stage::Due => {
                    board.began = Some(Instant::now());
                    board.as_of = self.context.clock.now();
                    // What changed before is seen by the sweep.
                    if self.context.is_settled().await? {
                        self.leaderboard.touched.lock().clear();
                    }
                    Sweep::default()
                }
            };
            let Some(users) = sweep.next(&*self.context.store, SWEEP_CHUNK).await? else {
                board.sweep = Stage::Done;
                return Ok(());
            };
            let keys: Vec<Key> = users.iter().map(|user| user.key).collect();
            let ranked = self.public_followers(&keys).await?;
            ranked.into_iter().for_each(|(key, followers)| board.set(key, followers));
            board.sweep = Stage::Running(sweep);
        }
    }

    async fn public_followers(&self, keys: &[Key]) -> Result<Vec<(Key, u64)>> {
        let counts = self.context.store.get_all_counts(keys).await?;
        let public = |counts: Counts| counts.followers.saturating_sub(counts.followers_quiet);
        Ok(keys.iter().zip(counts).map(|(key, counts)| (*key, public(counts.unwrap_or_default()))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_board_is_exact_down_to_its_floor_whatever_comes_and_goes() {
        let mut board = Board::default();
        let mut truth: HashMap<Key, u64> = HashMap::new();
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..60_000 {
            let (key, followers) = (Key(random(9_000) as i64), random(50));
            board.set(key, followers);
            truth.insert(key, followers);
        }
        let mut expected: Vec<Rank> =
            truth.iter().filter(|(_, count)| **count > 0).map(|(key, count)| (Reverse(*count), *key)).collect();
        expected.sort_unstable();
        assert!(board.floor.is_some() && board.ranks.len() <= KEPT);
        let kept: Vec<Rank> = board.ranks.iter().copied().collect();
        assert_eq!(kept, expected[..kept.len()]);
        assert_eq!(kept.len(), board.followers.len());
    }

    #[test]
    fn too_many_losses_ask_for_a_new_sweep() {
        let mut board = Board::default();
        for key in 0..=KEPT as i64 {
            board.set(Key(key), 5);
        }
        assert_eq!((board.ranks.len(), board.is_short()), (KEPT, false));
        for key in 0..(KEPT - LEADERBOARD_MAX) as i64 {
            board.set(Key(key), 0);
        }
        assert_eq!((board.ranks.len(), board.is_short()), (LEADERBOARD_MAX, false));
        board.set(Key(KEPT as i64 - 1), 1);
        assert!(board.is_short());
    }
}
