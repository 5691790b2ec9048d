//! An account with as many followers as a machine holds: built in a process of its own, then opened, checked, followed
//! and read.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use entourage_embedded::{Options, Store};
use entourage_model::{Key, Kind, List, Millis, Operation, Place, Version};
use entourage_store::{Answer, Store as _, StoreExt as _};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{
    Bench,
    import::{CHUNK, commit_chunks},
    short,
};
use crate::{
    arguments::Measurement,
    child, graph, machine, place,
    random::Random,
    results::Results,
    table::{Row, number},
};

const PAGE: usize = 50;
/// The offset of a deep page.
const DEEP: u64 = 1_000_000;
/// How much is read at a time on the way there.
const STRIDE: usize = 10_000;
const READS: usize = 5_000;
const CHECKS: usize = 2_000_000;
/// As many as a command of fifty members has.
const AT_ONCE: usize = 50;
const FOLLOWS: u64 = 300;
/// What a follower takes on disk and in the log, roughly.
const DISK_BYTES: u64 = 250;
const PAGE_GOAL_MICROS: f64 = 1_000.0;

/// The followers come first, then those who do not follow, then the account.
#[derive(Clone, Copy)]
struct Giant {
    followers: u64,
    start: Millis,
}

/// The report of the building process.
#[derive(Debug, Serialize, Deserialize)]
struct Built {
    users: f64,
    follows: f64,
    close: f64,
    resident: u64,
    peak: u64,
}

impl Giant {
    fn new(followers: u64) -> Result<Self> {
        Ok(Self { followers, start: Millis::parse_rfc3339(graph::START)? })
    }

    /// A user who does not follow it.
    const fn others(&self) -> u64 {
        let some = self.followers / 100;
        if some < 2 * FOLLOWS { 2 * FOLLOWS } else { some }
    }

    const fn account(&self) -> Key {
        Key((self.followers + self.others()) as i64)
    }

    const fn list(&self) -> List {
        List::followers(self.account())
    }

    fn time(&self, follower: u64) -> Millis {
        graph::rising(self.start, follower, self.followers)
    }

    fn place(&self, follower: u64) -> Place {
        Place { position: Version::of_millis(self.time(follower)), key: Key(follower as i64) }
    }

    async fn build(&self, store: &Arc<Store>) -> Result<(f64, f64)> {
        let chunks = |count: u64| (0..count).step_by(CHUNK).map(move |from| from..(from + CHUNK as u64).min(count));
        let users = self.followers + self.others() + 1;
        let started = Instant::now();
        let writes = chunks(users).map(|numbers| numbers.map(|number| graph::put_user(number as u32)).collect());
        let made = commit_chunks(store, writes).await?;
        ensure!(made == users, "{made} of {users} users were made");
        let made = users as f64 / started.elapsed().as_secs_f64();
        let started = Instant::now();
        let import = |number: u64| graph::import(Key(number as i64), self.account(), self.time(number));
        let writes = chunks(self.followers).map(|numbers| numbers.map(import).collect());
        let followed = commit_chunks(store, writes).await?;
        ensure!(followed == self.followers, "{followed} of {} followers were imported", self.followers);
        Ok((made, self.followers as f64 / started.elapsed().as_secs_f64()))
    }

    /// Pairs with this account, one in five an edge.
    fn pairs(&self) -> (Vec<(Key, Key)>, usize) {
        let mut random = Random::new(61);
        let mut yes = 0;
        let pairs = (0..CHECKS).map(|_| {
            let follows = random.below(5) == 0;
            yes += usize::from(follows);
            let number =
                if follows { random.below(self.followers) } else { self.followers + random.below(self.others()) };
            (Key(number as i64), self.account())
        });
        (pairs.collect(), yes)
    }
}

/// The building process: its memory is freed with it.
pub(crate) async fn run_build(folder: &Path, followers: u64) -> Result<()> {
    let giant = Giant::new(followers)?;
    let store = place::open(folder, Options::default())?;
    let (users, follows) = giant.build(&store).await?;
    let started = Instant::now();
    store.close().await?;
    let close = started.elapsed().as_secs_f64();
    let (resident, peak) = (machine::resident_bytes(), machine::peak_resident_bytes());
    child::tell(&Built { users, follows, close, resident, peak })
}

impl Bench<'_> {
    pub(crate) fn giant(&self, followers: u64, results: &mut Results) -> Result<()> {
        ensure!((10_000..1 << 31).contains(&followers), "from 10,000 to 2 billion followers");
        let free = machine::free_disk_bytes(self.place.root())?;
        let needed = followers * DISK_BYTES;
        ensure!(free >= needed, "this needs {} MiB of free disk, there are {}", needed >> 20, free >> 20);
        let data = format!("{} followers of one", short(followers));
        eprintln!("{data}");
        let giant = Giant::new(followers)?;
        let folder = self.place.fresh(&format!("store-giant-{followers}"))?;
        results.of(Measurement::Giant).extend(&data, build(followers, &folder)?);
        results.of(Measurement::Giant).extend(&data, self.giant_opened(giant, &folder)?);
        if !self.arguments.keep {
            place::remove(&folder)?;
        }
        Ok(())
    }

    fn giant_opened(&self, giant: Giant, folder: &Path) -> Result<Vec<Row>> {
        let started = Instant::now();
        let store = place::open(folder, Options::default())?;
        let seconds = started.elapsed().as_secs_f64();
        let mut rows = vec![Row::new("giant: reopen after close", "s", vec![seconds]).note(format!(
            "{} MB resident, {} bytes a user",
            number(machine::resident_bytes() as f64 / 1e6),
            number(machine::resident_bytes() as f64 / (giant.followers + giant.others()) as f64)
        ))];
        ensure!(store.edges() == giant.followers, "{} edges came back", store.edges());
        rows.extend(check(&store, &giant)?);
        self.runtime.block_on(async {
            rows.extend(read(&store, &giant).await?);
            rows.extend(follow(&store, &giant).await?);
            let started = Instant::now();
            store.close().await?;
            rows.push(Row::new("giant: close after those follows", "s", vec![started.elapsed().as_secs_f64()]));
            Ok(rows)
        })
    }
}

fn build(followers: u64, folder: &Path) -> Result<Vec<Row>> {
    let output = child::run(&["giant".as_ref(), folder.as_os_str(), followers.to_string().as_ref()])?;
    let built: Built = serde_json::from_slice(&output).context("the building process told nothing")?;
    let mut rows = built.rows();
    let weight = place::weigh(folder)?;
    let megabytes = |bytes: u64| number(bytes as f64 / 1e6);
    let (users, rest, log) = (megabytes(weight.users), megabytes(weight.rest), megabytes(weight.log));
    let note = format!("users {users} MB, checkpoint {rest} MB, log {log} MB");
    rows.push(Row::new("giant: edges on disk", "MB", vec![weight.edges as f64 / 1e6]).note(note));
    Ok(rows)
}

impl Built {
    fn rows(&self) -> Vec<Row> {
        vec![
            Row::new("giant: creation of users", "/s", vec![self.users]),
            Row::new("giant: import of followers", "/s", vec![self.follows]).note("durable when counted"),
            Row::new("giant: close after the import", "s", vec![self.close]).note("the final checkpoint"),
            Row::new("giant: most memory while it was built", "MB", vec![self.peak as f64 / 1e6])
                .note(format!("{} MB after the last checkpoint", number(self.resident as f64 / 1e6))),
        ]
    }
}

fn check(store: &Arc<Store>, giant: &Giant) -> Result<Vec<Row>> {
    let (pairs, expected) = giant.pairs();
    let mut rows = Vec::new();
    for at_once in [1, AT_ONCE] {
        let mut answers = vec![Answer::Unknown; at_once];
        let mut yes = 0;
        let started = Instant::now();
        for some in pairs.chunks(at_once) {
            let answers = &mut answers[..some.len()];
            store.peek_all(Kind::Follow, some, answers);
            yes += answers.iter().filter(|answer| **answer == Answer::Yes).count();
        }
        let rate = CHECKS as f64 / started.elapsed().as_secs_f64();
        ensure!(yes == expected, "{yes} checks said yes, {expected} are edges");
        let what = if at_once == 1 { "one at a time".to_owned() } else { format!("{at_once} members at once") };
        rows.push(Row::new(format!("giant: checks, {what}"), "/s", vec![rate]).note("any user, one in five a yes"));
    }
    Ok(rows)
}

async fn read(store: &Arc<Store>, giant: &Giant) -> Result<Vec<Row>> {
    let deep = DEEP.min(giant.followers / 2);
    let started = Instant::now();
    let (mut after, mut walked) = (None, 0);
    while walked < deep {
        let page = store.scan(giant.list(), after, STRIDE.min((deep - walked) as usize)).await?;
        after = page.edges.last().map(|edge| giant.list().place(edge));
        walked += page.edges.len() as u64;
        ensure!(after.is_some(), "the list ends after {walked}");
    }
    let walk = format!("reached in {:.2} s by pages of {STRIDE}", started.elapsed().as_secs_f64());
    ensure!(after == Some(giant.place(giant.followers - deep)), "another follower stands after {deep}");
    Ok(vec![
        pages(store, giant, "giant: first page of 50", None, "").await?,
        pages(store, giant, &format!("giant: page of 50 after {deep}"), after, &walk).await?,
        pages(store, giant, "giant: last page of 50", Some(giant.place(PAGE as u64)), "").await?,
    ])
}

/// The same page many times, with its users.
async fn pages(store: &Arc<Store>, giant: &Giant, what: &str, after: Option<Place>, note: &str) -> Result<Row> {
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..READS {
        let started = Instant::now();
        let page = store.scan(giant.list(), after, PAGE).await?;
        let keys: Vec<Key> = page.edges.iter().map(|edge| edge.follower).collect();
        let users = store.get_users(&keys).await?;
        times.record(started.elapsed().as_nanos() as u64)?;
        ensure!(users.iter().flatten().count() == PAGE, "a page of {}", keys.len());
        ensure!(page.total >= giant.followers, "{} followers are counted", page.total);
    }
    let micros = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    let note = if note.is_empty() { String::new() } else { format!("; {note}") };
    let note = format!("users read too; 99th percentile {:.1} µs{note}", micros(0.99));
    Ok(Row::new(what, "µs", vec![micros(0.5)]).at_most(PAGE_GOAL_MICROS).note(note))
}

/// A new follower comes and leaves again, one write after the other, alone and while pages of it are read.
async fn follow(store: &Arc<Store>, giant: &Giant) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for reading in [false, true] {
        let stop = Arc::new(AtomicBool::new(false));
        let reader = reading.then(|| tokio::spawn(read_on(Arc::clone(store), *giant, Arc::clone(&stop))));
        let (mut follows, mut unfollows) = (Histogram::<u64>::new(3)?, Histogram::<u64>::new(3)?);
        for number in 0..FOLLOWS {
            let (follower, target) = (Key((giant.followers + number) as i64), giant.account());
            let unfollow = Operation::Unfollow { follower, target }.into();
            for (write, times) in [(graph::follow(follower, target), &mut follows), (unfollow, &mut unfollows)] {
                let started = Instant::now();
                let outcome = store.commit(write).await?;
                times.record(started.elapsed().as_nanos() as u64)?;
                ensure!(outcome.reply.changed(), "{follower} changed nothing");
            }
        }
        stop.store(true, Ordering::Relaxed);
        let state = match reader {
            Some(reader) => format!("while one reader read {} pages", reader.await??),
            None => "alone".to_owned(),
        };
        for (what, times) in [("follow", follows), ("unfollow", unfollows)] {
            let micros = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
            let name = format!("giant: durable {what}{}", if reading { " while pages are read" } else { "" });
            let note = format!("{state}; 99th percentile {:.0} µs of {FOLLOWS}", micros(0.99));
            rows.push(Row::new(name, "µs", vec![micros(0.5)]).note(note));
        }
    }
    Ok(rows)
}

/// How many pages were read.
async fn read_on(store: Arc<Store>, giant: Giant, stop: Arc<AtomicBool>) -> Result<u64> {
    let mut random = Random::new(62);
    let mut read = 0;
    while !stop.load(Ordering::Relaxed) {
        let after = (read % 2 == 1).then(|| giant.place(PAGE as u64 + random.below(giant.followers - PAGE as u64)));
        let page = store.scan(giant.list(), after, PAGE).await?;
        ensure!(page.edges.len() == PAGE, "a page of {}", page.edges.len());
        read += 1;
        tokio::task::yield_now().await;
    }
    Ok(read)
}
