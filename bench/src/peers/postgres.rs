//! Follows in PostgreSQL as a function that keeps both sides, both counts and an event in one transaction; asked by
//! `pgbench`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

const CLIENTS: &str = "64";
/// Connecting takes its time.
const SECONDS_MIN: u64 = 3;

const SCHEMA: &str = "
DROP SCHEMA IF EXISTS bench CASCADE;
CREATE SCHEMA bench;
CREATE TABLE bench.following (follower bigint, target bigint, at timestamptz NOT NULL, PRIMARY KEY (follower, target));
CREATE TABLE bench.followers (target bigint, at timestamptz, follower bigint, PRIMARY KEY (target, at, follower));
CREATE TABLE bench.counts (id bigint PRIMARY KEY, followers bigint NOT NULL DEFAULT 0, following bigint NOT NULL DEFAULT 0);
CREATE TABLE bench.events (id bigserial PRIMARY KEY, type text NOT NULL, follower bigint, target bigint, at timestamptz);
INSERT INTO bench.counts SELECT generate_series(0, $USERS);
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
VACUUM ANALYZE bench.counts;
";

pub(crate) struct Postgres {
    url: String,
    folder: PathBuf,
    users: u32,
}

impl Postgres {
    /// The one the tests use, with settings as Debian ships them: every commit is synced.
    pub(crate) fn start(folder: &Path, users: u32) -> Result<Self> {
        let output = Command::new("scripts/postgres").arg("start").stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "PostgreSQL does not start");
        let url = String::from_utf8(output.stdout)?.trim().to_owned();
        fs::create_dir_all(folder)?;
        let schema = folder.join("schema.sql");
        fs::write(&schema, SCHEMA.replace("$USERS", &users.to_string()))?;
        let output =
            Command::new("psql").args(["-q", "-v", "ON_ERROR_STOP=1", "-f"]).arg(&schema).arg(&url).output()?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        Ok(Self { url, folder: folder.to_owned(), users })
    }

    /// Follows a second, between any two or all of one.
    pub(crate) fn follows(&self, target: Option<u32>, seconds: u64) -> Result<f64> {
        let last = self.users - 1;
        let target = target.map_or_else(|| format!("random(0, {last})"), |target| target.to_string());
        let script = self.folder.join("follow.sql");
        fs::write(&script, format!("\\set a random(0, {last})\n\\set b {target}\nSELECT bench.follow(:a, :b);\n"))?;
        let output = pgbench()?
            .args(["-n", "-M", "prepared", "-c", CLIENTS, "-j", "2", "-T", &seconds.max(SECONDS_MIN).to_string(), "-f"])
            .arg(&script)
            .arg(&self.url)
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "pgbench: {}", String::from_utf8_lossy(&output.stderr));
        let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")).and_then(|rest| rest.split(' ').next());
        rate.and_then(|rate| rate.parse().ok()).with_context(|| format!("pgbench: {said}"))
    }

    pub(crate) fn stop(self) -> Result<()> {
        ensure!(Command::new("scripts/postgres").arg("stop").status()?.success(), "PostgreSQL does not stop");
        crate::place::remove(&self.folder).map_err(Into::into)
    }
}

/// Debian keeps it beside the server, not on the path.
fn pgbench() -> Result<Command> {
    let found = Command::new("find").args(["/usr/lib/postgresql", "-name", "pgbench"]).output()?;
    let path = String::from_utf8(found.stdout)?.lines().last().map(str::to_owned);
    Ok(Command::new(path.unwrap_or_else(|| "pgbench".to_owned())))
}
