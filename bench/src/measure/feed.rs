//! Feeds in process: deliveries beside those of a Redis sorted set for each reader, delivery latency of a post, pages,
//! and rebuilt inboxes.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use entourage_embedded as embedded;
use entourage_model::{Key, Operation, Overwrite, UserId, UserPatch, Write};
use entourage_service::{Actor, Because, Call, Limit, Limits, Pin, Rules, Service};
use entourage_store::Store;
use hdrhistogram::Histogram;

use super::{Bench, import::commit_chunks, rest::Server};
use crate::{
    peers::{Peer, binary},
    place,
    table::Row,
};

/// The most followers of an author whose posts are pushed.
const FOLLOWERS: i64 = 99_999;
const LARGE: i64 = 1_000_000;
const MEDIUM: i64 = 1_000_001;
const MEDIUM_FOLLOWERS: i64 = 1_000;
/// The first of those who follow the authors.
const READER: i64 = 1_000_002;
const READERS: i64 = 50;
/// Requests a second.
const RATE: u32 = 2_000;
const CONNECTIONS: usize = 64;
/// Whom the readers follow.
const AUTHORS: std::ops::Range<i64> = 2_000_000..2_000_500;
const PULLED: usize = 20;
const POSTS_EACH: usize = 40;
const CHUNK: usize = 10_000;
const PAGES: usize = 5_000;
const BODY: &str = r#"{"text":"A post of about the length that people write, with a link https://example.org/a/b/c"}"#;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let folder = bench.place.fresh("store-feed")?;
    let rows = bench.with_store(&folder, async |store| {
        let feeds = Feeds::fill(store).await?;
        let mut rows = feeds.pages().await?;
        rows.extend(feeds.rebuilds().await?);
        rows.push(feeds.inbox_size().await?);
        feeds.open_inboxes().await?;
        rows.extend(feeds.deliveries(bench).await?);
        rows.extend(feeds.arrivals().await?);
        Ok(rows)
    })?;
    let mut rows = rows;
    rows.push(pages_over_rest(bench, &folder)?);
    place::remove(&folder)?;
    Ok(rows)
}

/// On a schedule, so that waiting behind a slow answer counts.
fn pages_over_rest(bench: &Bench<'_>, folder: &Path) -> Result<Row> {
    let ids = bench.place.root().join("readers.txt");
    let readers: Vec<String> = (READER..READER + READERS).map(|reader| reader.to_string()).collect();
    std::fs::write(&ids, readers.join("\n"))?;
    let server = Server::start(&["--data", &folder.display().to_string()])?;
    let (mut runs, mut within) = (Vec::new(), Vec::new());
    for _ in 0..bench.arguments.repeat {
        let output = binary()?
            .args(["bench", "--json", "--workload", "feeds", "--server", &format!("http://{}", server.address)])
            .args(["--rate", &RATE.to_string(), "--connections", &CONNECTIONS.to_string()])
            .args(["--seconds", &bench.arguments.seconds.ceil().to_string(), "--ids"])
            .arg(&ids)
            .output()?;
        ensure!(output.status.success(), "bench: {}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        ensure!(report["total"]["errors"].as_object().is_none_or(|errors| errors.is_empty()), "errors: {report}");
        runs.push(report["total"]["p99"].as_f64().context("no percentile")? / 1e3);
        within.push(format!("{:.2} ms", report["server"]["p99_within"].as_f64().unwrap_or_default() / 1e3));
    }
    server.stop()?;
    let note = format!(
        "99th percentile from when each was due, as the client on the same cores saw it; {CONNECTIONS} connections; \
         the bound of the server's own histogram: {}",
        within.join(", ")
    );
    Ok(Row::new(format!("feed page of 20 over REST at {RATE} a second"), "ms", runs).at_most(10.0).note(note))
}

struct Feeds {
    service: Arc<Service>,
}

fn put(id: i64) -> Write {
    let (key, id, patch) = (Key(id), UserId::from(id), UserPatch::default());
    Write::from(Operation::PutUser { key, id, patch, overwrite: Overwrite::Keep })
}

fn follow(follower: i64, target: i64) -> Write {
    let (follower, target) = (Key(follower), Key(target));
    Write::from(Operation::Follow { follower, target, quiet: Some(false), cap: None, park: false })
}

fn acting(id: i64) -> Call {
    Call { actor: Actor::User(UserId::from(id)), ..Call::default() }
}

fn milliseconds(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e3
}

impl Feeds {
    async fn fill(store: &Arc<embedded::Store>) -> Result<Self> {
        let users: Vec<Write> =
            (0..FOLLOWERS).chain([LARGE, MEDIUM]).chain(READER..READER + READERS).chain(AUTHORS).map(put).collect();
        commit_chunks(store, users.chunks(CHUNK).map(<[Write]>::to_vec)).await?;
        let follows = (0..FOLLOWERS).map(|follower| follow(follower, LARGE));
        let follows = follows.chain((0..MEDIUM_FOLLOWERS).map(|follower| follow(follower, MEDIUM)));
        let follows: Vec<Write> = follows
            .chain((READER..READER + READERS).flat_map(|reader| AUTHORS.map(move |author| follow(reader, author))))
            .collect();
        commit_chunks(store, follows.chunks(CHUNK).map(<[Write]>::to_vec)).await?;
        let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
        let service = Arc::new(Service::new(Arc::clone(store) as Arc<dyn Store>, rules));
        for author in AUTHORS.take(PULLED) {
            service.feeds.pin_fanout(&Call::default(), &UserId::from(author), Pin::Pull).await?;
        }
        for round in 0..POSTS_EACH {
            let posts = AUTHORS.map(|author| {
                let service = Arc::clone(&service);
                tokio::spawn(async move { service.feeds.create_post(&acting(author), BODY).await })
            });
            for post in posts.collect::<Vec<_>>() {
                post.await??;
            }
            if round % 10 == 0 {
                service.feeds.deliver_all().await?;
            }
        }
        service.feeds.deliver_all().await?;
        store.checkpoint().await?;
        Ok(Self { service })
    }

    async fn page(&self, reader: i64, limit: usize) -> Result<usize> {
        let limit = Limit::parse(Some(&limit.to_string()))?;
        Ok(self.service.feeds.feed(&Call::default(), &UserId::from(reader), None, limit).await?.rows.len())
    }

    async fn pages(&self) -> Result<Vec<Row>> {
        let mut times = Histogram::<u64>::new(3)?;
        ensure!(self.page(READER, 20).await? == 20, "the page is full");
        for _ in 0..PAGES {
            let began = Instant::now();
            self.page(READER, 20).await?;
            times.record(began.elapsed().as_micros() as u64)?;
        }
        let note = format!("99th percentile of {PAGES}; 500 followed, {PULLED} of them pulled; with posts and authors");
        let middle = format!("median {:.3} ms; ", milliseconds(&times, 0.5));
        Ok(vec![Row::new("feed page of 20", "ms", vec![milliseconds(&times, 0.99)]).at_most(2.0).note(middle + &note)])
    }

    /// Nothing of feeds is in memory before any of them.
    async fn rebuilds(&self) -> Result<Vec<Row>> {
        let mut runs = Vec::new();
        for _ in 0..20 {
            self.service.feeds.clear_feeds(&Call::default(), None).await?;
            let began = Instant::now();
            self.page(READER, 20).await?;
            runs.push(began.elapsed().as_secs_f64() * 1e3);
        }
        let note = "first page of a returning reader, 500 followed, nothing of feeds in memory";
        Ok(vec![Row::new("inbox rebuilt", "ms", runs).at_most(20.0).note(note)])
    }

    async fn inbox_size(&self) -> Result<Row> {
        self.service.feeds.clear_feeds(&Call::default(), None).await?;
        self.page(READER, 20).await?;
        let standing = self.service.feeds.feed_status(&Call::default())?;
        ensure!(standing.inboxes == 1, "one inbox");
        let row = Row::new("memory of an inbox of 1,000", "bytes", vec![standing.inbox_bytes as f64]);
        Ok(row.at_most(10_240.0).note("its own estimate: entries, their table, its place in a map"))
    }

    async fn open_inboxes(&self) -> Result<()> {
        for reader in 0..FOLLOWERS {
            self.page(reader, 1).await?;
        }
        Ok(())
    }

    async fn deliveries(&self, bench: &Bench<'_>) -> Result<Vec<Row>> {
        let redis = Peer::redis(bench.place.fresh("redis-feed")?)?;
        let (mut single, mut together, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for round in 0..bench.arguments.repeat {
            single.push(self.deliver(1).await?);
            together.push(self.deliver(10).await?);
            theirs.push(redis.deliver(FOLLOWERS, round as u64)?);
            ratios.push(single[round] / theirs[round]);
        }
        redis.stop()?;
        let note = format!("{FOLLOWERS} followers, each with an inbox; their list is read from the store");
        Ok(vec![
            Row::new("inbox deliveries", "/s", single).at_least(1e6).note(format!("one post; {note}")),
            Row::new("inbox deliveries, ten posts at once", "/s", together).note(note),
            Row::new("the same in Redis", "/s", theirs).note("ZADD and ZREMRANGEBYRANK for each, 1,000 at once"),
            Row::new("inbox deliveries beside Redis", "×", ratios).at_least(5.0).note("one post"),
        ])
    }

    async fn deliver(&self, posts: usize) -> Result<f64> {
        for _ in 0..posts {
            self.service.feeds.create_post(&acting(LARGE), BODY).await?;
        }
        let began = Instant::now();
        self.service.feeds.deliver_all().await?;
        Ok(posts as f64 * FOLLOWERS as f64 / began.elapsed().as_secs_f64())
    }

    /// From the call that writes a post to its delivery to the author's oldest follower.
    async fn arrivals(&self) -> Result<Vec<Row>> {
        // After a start the detectors read again what was followed lately; that is not measured.
        self.service.abuse.detect().await?;
        let background = Arc::clone(&self.service);
        let background = tokio::spawn(async move { background.run().await });
        let mut rows = Vec::new();
        for (author, followers, posts, goal) in
            [(MEDIUM, MEDIUM_FOLLOWERS, 500, 100.0), (LARGE, FOLLOWERS, 50, 1_000.0)]
        {
            let mut times = Histogram::<u64>::new(3)?;
            for _ in 0..posts {
                let began = Instant::now();
                let post = self.service.feeds.create_post(&acting(author), BODY).await?.post.id;
                let (call, reader) = (Call::default(), UserId::from(0));
                while self.service.feeds.explain(&call, &reader, post).await?.because != Because::Pushed {
                    tokio::time::sleep(Duration::from_micros(200)).await;
                }
                times.record(began.elapsed().as_micros() as u64)?;
            }
            let what = format!("post in the last inbox of {followers} followers");
            let note = format!("99th percentile of {posts}; a read shows it from its ack on");
            rows.push(Row::new(what, "ms", vec![milliseconds(&times, 0.99)]).at_most(goal).note(note));
        }
        self.service.end_streams();
        background.await?;
        Ok(rows)
    }
}
