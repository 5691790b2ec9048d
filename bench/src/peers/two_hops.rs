//! The same two hops elsewhere: one statement in PostgreSQL, one script in Redis. Neither knows who may see what, nor why
//! somebody is suggested.

use std::{
    fs,
    io::{BufWriter, Write as _},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};

use super::{Peer, Postgres};
use crate::tools::postgres_program;

const TABLES: &str = "
CREATE SCHEMA hops;
CREATE UNLOGGED TABLE hops.following (follower bigint NOT NULL, target bigint NOT NULL, at bigint NOT NULL);
CREATE UNLOGGED TABLE hops.counts (id bigint NOT NULL, followers bigint NOT NULL);
COPY hops.following FROM STDIN;
";
const INDEXES: &str = "
CREATE UNIQUE INDEX ON hops.following (follower, at DESC, target);
CREATE INDEX ON hops.following (follower, target);
INSERT INTO hops.counts SELECT target, count(*) FROM hops.following GROUP BY target;
CREATE UNIQUE INDEX ON hops.counts (id);
VACUUM ANALYZE hops.following, hops.counts;
";
const STATEMENT: &str = "
WITH first AS (SELECT target FROM hops.following WHERE follower = :v ORDER BY at DESC LIMIT 500),
second AS (
    SELECT other.target FROM first CROSS JOIN LATERAL
        (SELECT target FROM hops.following f WHERE f.follower = first.target ORDER BY at DESC LIMIT 500) other)
SELECT second.target, count(*) AS common, min(counts.followers) AS followers FROM second
    JOIN hops.counts counts ON counts.id = second.target
    WHERE second.target <> :v
        AND NOT EXISTS (SELECT 1 FROM hops.following own WHERE own.follower = :v AND own.target = second.target)
    GROUP BY second.target ORDER BY common DESC, followers ASC, second.target ASC LIMIT 50;
";

const SCRIPT: &str = "local own, counts, found = {}, {}, {} \
    local first = redis.call('ZREVRANGE', 'following:' .. ARGV[1], 0, 499) \
    for _, id in ipairs(first) do own[id] = true end \
    own[ARGV[1]] = true \
    for _, id in ipairs(first) do \
        for _, other in ipairs(redis.call('ZREVRANGE', 'following:' .. id, 0, 499)) do \
            counts[other] = (counts[other] or 0) + 1 end end \
    for id, common in pairs(counts) do if not own[id] then found[#found + 1] = { id, common } end end \
    table.sort(found, function(a, b) if a[2] ~= b[2] then return a[2] > b[2] end return a[1] < b[1] end) \
    return math.min(#found, 50)";

impl Postgres {
    /// Fills tables with these follows, each list oldest first.
    pub(crate) fn fill_hops(&self, lists: impl Iterator<Item = (i64, Vec<i64>)>) -> Result<()> {
        let mut psql = Command::new("psql")
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1"])
            .arg(self.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("psql: install it with: apt-get install postgresql")?;
        let mut out = BufWriter::with_capacity(1 << 20, psql.stdin.take().context("psql has no input")?);
        out.write_all(TABLES.as_bytes())?;
        for (follower, targets) in lists {
            for (at, target) in targets.into_iter().enumerate() {
                writeln!(out, "{follower}\t{target}\t{at}")?;
            }
        }
        writeln!(out, "\\.")?;
        out.write_all(INDEXES.as_bytes())?;
        drop(out);
        let output = psql.wait_with_output()?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Milliseconds of an answer for one of these viewers, one client.
    pub(crate) fn two_hops(&self, viewers: std::ops::Range<i64>, seconds: u64) -> Result<f64> {
        let script = self.folder().join("hops.sql");
        fs::write(
            &script,
            format!("\\set v random({}, {})\n{}", viewers.start, viewers.end - 1, STATEMENT.trim_start()),
        )?;
        let output = Command::new(postgres_program("pgbench"))
            .args(["-n", "-M", "prepared", "-c", "1", "-T", &seconds.max(3).to_string(), "-f"])
            .arg(&script)
            .arg(self.url())
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "pgbench: {}", String::from_utf8_lossy(&output.stderr));
        let average = said.lines().find_map(|line| line.strip_prefix("latency average = "));
        let average = average.and_then(|rest| rest.split(' ').next()).and_then(|number| number.parse().ok());
        average.with_context(|| format!("pgbench: {said}"))
    }
}

impl Peer {
    /// A sorted set for each of these lists, oldest first.
    pub(crate) fn fill_hops(&self, lists: impl Iterator<Item = (i64, Vec<i64>)>) -> Result<()> {
        self.send(lists.map(|(follower, targets)| {
            let mut words = vec!["ZADD".to_owned(), format!("following:{follower}")];
            words.extend(targets.iter().enumerate().flat_map(|(at, target)| [at.to_string(), target.to_string()]));
            words
        }))
    }

    /// Milliseconds of an answer for each of these viewers, on average.
    pub(crate) fn two_hops(&self, viewers: std::ops::Range<i64>) -> Result<f64> {
        let (count, began) = ((viewers.end - viewers.start) as f64, Instant::now());
        for viewer in viewers {
            ensure!(self.number(&["EVAL", SCRIPT, "0", &viewer.to_string()])? == 50, "Redis found too few");
        }
        Ok(began.elapsed().as_secs_f64() * 1e3 / count)
    }
}
