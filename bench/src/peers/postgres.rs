//! Follows in PostgreSQL as a function that keeps both sides, both counts and an event in one transaction; driven by
//! `pgbench`.

use std::{
    fs,
    io::{BufWriter, Write},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{graph::Graph, table::number, tools::postgres_program};

/// Connecting takes its time.
const SECONDS_MIN: u64 = 3;
/// Warm-up: after the checkpoint that ends the filling, the first write of a page logs the whole page.
const WARM_UP_SECONDS: u64 = 10;
/// A cluster of this name, beside the tests' own.
const NAME: &str = "bench";
/// Room for the whole graph, and no checkpoint in the middle of every round; every commit is synced.
const OPTIONS: &str = "-c shared_buffers=1GB -c maintenance_work_mem=512MB -c max_wal_size=8GB";

const TABLES: &str = "
CREATE SCHEMA bench;
BEGIN;
CREATE TABLE bench.following (follower bigint NOT NULL, target bigint NOT NULL, at timestamptz NOT NULL);
CREATE TABLE bench.followers (target bigint NOT NULL, at timestamptz NOT NULL, follower bigint NOT NULL);
CREATE TABLE bench.counts (id bigint PRIMARY KEY, followers bigint NOT NULL DEFAULT 0, following bigint NOT NULL DEFAULT 0);
CREATE TABLE bench.events (id bigserial PRIMARY KEY, type text NOT NULL, follower bigint, target bigint, at timestamptz);
";

const FUNCTION: &str = "
COMMIT;
ALTER TABLE bench.following ADD PRIMARY KEY (follower, target);
ALTER TABLE bench.followers ADD PRIMARY KEY (target, at, follower);
CREATE FUNCTION bench.follow(a bigint, b bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE now timestamptz := clock_timestamp();
BEGIN
  INSERT INTO bench.following VALUES (a, b, now) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO bench.followers VALUES (b, now, a);
  UPDATE bench.counts SET following = following + 1 WHERE id = a;
  UPDATE bench.counts SET followers = followers + 1 WHERE id = b;
  INSERT INTO bench.events (type, follower, target, at) VALUES ('follow', a, b, now);
  RETURN true;
END $$;
VACUUM ANALYZE bench.following, bench.followers, bench.counts;
CHECKPOINT;
";

pub(crate) struct Postgres {
    url: String,
    folder: PathBuf,
    users: u32,
    clients: usize,
}

impl Postgres {
    /// Empty, and every commit synced.
    pub(crate) fn empty(folder: &Path) -> Result<Self> {
        // It runs as a user of its own, who needs access.
        fs::create_dir_all(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o1777))?;
        let folder = folder.canonicalize()?;
        // Leftovers of an interrupted run.
        ask_script("stop", &folder)?;
        let url = ask_script("start", &folder)?;
        Ok(Self { url, folder, users: 0, clients: 0 })
    }

    /// With the graph in it, for this many clients.
    pub(crate) fn start(folder: &Path, graph: &Graph, clients: usize) -> Result<Self> {
        let mut postgres = Self::empty(folder)?;
        postgres.users = graph.users;
        postgres.clients = clients;
        postgres.fill(graph)?;
        postgres.follows(None, WARM_UP_SECONDS)?;
        Ok(postgres)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn fill(&self, graph: &Graph) -> Result<()> {
        let mut psql = Command::new("psql")
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1"])
            .arg(&self.url)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("psql: install it with: apt-get install postgresql")?;
        let input = psql.stdin.take().context("psql has no input")?;
        let written = write_graph(BufWriter::with_capacity(1 << 20, input), graph);
        let output = psql.wait_with_output()?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        written
    }

    /// Follows a second, between any two or all of one.
    pub(crate) fn follows(&self, target: Option<u32>, seconds: u64) -> Result<f64> {
        let last = self.users - 1;
        let target = target.map_or_else(|| format!("random(0, {last})"), |target| target.to_string());
        self.run(&format!("\\set a random(0, {last})\n\\set b {target}\nSELECT bench.follow(:a, :b);\n"), seconds)
    }

    /// Checks a second, of any two.
    pub(crate) fn checks(&self, seconds: u64) -> Result<f64> {
        let last = self.users - 1;
        let check = "SELECT 1 FROM bench.following WHERE follower = :a AND target = :b;";
        self.run(&format!("\\set a random(0, {last})\n\\set b random(0, {last})\n{check}\n"), seconds)
    }

    /// Of a table with its indexes.
    pub(crate) fn bytes_of(&self, table: &str) -> Result<f64> {
        let statement = format!("SELECT pg_total_relation_size('{table}')");
        let output = Command::new("psql").args(["-X", "-A", "-t", "-c", &statement]).arg(&self.url).output()?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
    }

    fn run(&self, transaction: &str, seconds: u64) -> Result<f64> {
        pgbench(&self.url, &self.folder, transaction, self.clients, seconds)
    }

    pub(crate) fn stop(self) -> Result<()> {
        ask_script("stop", &self.folder)?;
        crate::place::remove(&self.folder).map_err(Into::into)
    }
}

impl Drop for Postgres {
    /// After `stop` there is nothing left to do.
    fn drop(&mut self) {
        let _ = ask_script("stop", &self.folder);
    }
}

/// Such transactions a second, of this many clients.
pub(super) fn pgbench(url: &str, folder: &Path, transaction: &str, clients: usize, seconds: u64) -> Result<f64> {
    let script = folder.join("transaction.sql");
    fs::write(&script, transaction)?;
    let output = Command::new(postgres_program("pgbench"))
        .args(["-n", "-M", "prepared", "-c", &clients.to_string(), "-j", &clients.min(2).to_string()])
        .args(["-T", &seconds.max(SECONDS_MIN).to_string(), "-f"])
        .arg(&script)
        .arg(url)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "pgbench: {}", String::from_utf8_lossy(&output.stderr));
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")).and_then(|rest| rest.split(' ').next());
    rate.and_then(|rate| rate.parse().ok()).with_context(|| format!("pgbench: {said}"))
}

fn ask_script(what: &str, folder: &Path) -> Result<String> {
    let output = Command::new("scripts/postgres")
        .arg(what)
        .env("ENTOURAGE_POSTGRES_NAME", NAME)
        .env("ENTOURAGE_POSTGRES_OPTIONS", OPTIONS)
        .env("TMPDIR", folder)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "scripts/postgres {what} failed");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Rows are inserted frozen, so that no vacuum visits them again: that is what the one transaction is for.
fn write_graph(mut out: impl Write, graph: &Graph) -> Result<()> {
    let edges = graph.edges() as usize;
    out.write_all(TABLES.as_bytes())?;
    eprintln!("  PostgreSQL is given {} rows of following", number(edges as f64));
    writeln!(out, "COPY bench.following FROM STDIN WITH (FREEZE);")?;
    for index in 0..edges {
        let (follower, target) = graph.edge(index);
        writeln!(out, "{}\t{}\t{}", follower.0, target.0, graph.time(index, edges))?;
    }
    eprintln!("  PostgreSQL is given {} rows of followers", number(edges as f64));
    writeln!(out, "\\.\nCOPY bench.followers FROM STDIN WITH (FREEZE);")?;
    let followers = graph.by_target();
    for (target, indices) in followers.iter().enumerate() {
        for &index in indices {
            let (follower, _) = graph.edge(index as usize);
            writeln!(out, "{target}\t{}\t{}", graph.time(index as usize, edges), follower.0)?;
        }
    }
    writeln!(out, "\\.\nCOPY bench.counts FROM STDIN WITH (FREEZE);")?;
    let following = edges / graph.users as usize;
    for (user, indices) in followers.iter().enumerate() {
        writeln!(out, "{user}\t{}\t{following}", indices.len())?;
    }
    eprintln!("  PostgreSQL makes its indexes");
    writeln!(out, "\\.")?;
    out.write_all(FUNCTION.as_bytes())?;
    out.flush()?;
    Ok(())
}
