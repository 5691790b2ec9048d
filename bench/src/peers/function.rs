//! Follows as one function call each in PostgreSQL, with the rules, tables and indexes of a follow in the store: both
//! users, blocks, privacy, the cap, the edge in both lists, both counts, the event.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::postgres::pgbench;

const TABLES: &str = "
CREATE SCHEMA peer;
SET search_path TO peer;
CREATE TABLE users (key bigint PRIMARY KEY, name text, private boolean NOT NULL);
CREATE TABLE edges (follower bigint NOT NULL, target bigint NOT NULL, kind smallint NOT NULL, state smallint NOT NULL,
  quiet boolean NOT NULL, version bigint NOT NULL, position bigint NOT NULL, PRIMARY KEY (follower, target, kind));
CREATE INDEX ON edges (follower, kind, state, quiet, position DESC, target DESC) WHERE state <> 3;
CREATE INDEX ON edges (target, kind, state, quiet, position DESC, follower DESC) WHERE state <> 3;
CREATE TABLE counts (key bigint PRIMARY KEY, followers bigint NOT NULL, following bigint NOT NULL) WITH (fillfactor = 80);
CREATE TABLE events (sequence bigserial PRIMARY KEY, version bigint NOT NULL, change jsonb NOT NULL);
CREATE SEQUENCE versions;
CREATE FUNCTION follow(a bigint, b bigint) RETURNS boolean LANGUAGE plpgsql SET search_path TO peer AS $$
DECLARE found_users bigint; hidden boolean; load bigint; made bigint; new_state smallint;
BEGIN
  SELECT count(*), bool_or(private) FILTER (WHERE key = b) INTO found_users, hidden
    FROM (SELECT key, private FROM users WHERE key IN (a, b) ORDER BY key FOR SHARE) both_users;
  IF found_users < 2 THEN RAISE 'no such user'; END IF;
  SELECT following INTO load FROM counts WHERE key = a FOR UPDATE;
  PERFORM 1 FROM edges WHERE kind = 1 AND state <> 3 AND follower IN (a, b) AND target IN (a, b);
  IF FOUND THEN RAISE 'blocked'; END IF;
  PERFORM 1 FROM edges WHERE follower = a AND target = b AND kind = 0 AND state <> 3;
  IF FOUND THEN RETURN false; END IF;
  IF load >= 10000000 THEN RAISE 'too many'; END IF;
  made := nextval('versions');
  new_state := CASE WHEN hidden THEN 1 ELSE 0 END;
  INSERT INTO edges VALUES (a, b, 0, new_state, false, made, made)
    ON CONFLICT (follower, target, kind) DO UPDATE SET state = excluded.state, version = excluded.version,
      position = excluded.position;
  UPDATE counts SET following = following + 1 WHERE key = a;
  UPDATE counts SET followers = followers + 1 WHERE key = b;
  INSERT INTO events (version, change) VALUES (made, jsonb_build_object('Edge', jsonb_build_object('kind', 'follow',
    'follower', a, 'target', b, 'cause', 'follower', 'before', NULL, 'after', jsonb_build_object('state', 'active',
    'quiet', false, 'version', made, 'position', made, 'accepted', false, 'expires', NULL))));
  RETURN true;
END $$;
";

pub(crate) struct Function {
    url: String,
    folder: PathBuf,
    users: u32,
}

impl Function {
    /// With users `0..users`, who follow nobody.
    pub(crate) fn create(url: &str, folder: &Path, users: u32) -> Result<Self> {
        let fill = format!(
            "INSERT INTO users SELECT key, NULL, false FROM generate_series(0, {0}) key; \
             INSERT INTO counts SELECT key, 0, 0 FROM generate_series(0, {0}) key;",
            users - 1
        );
        let vacuum = "VACUUM ANALYZE peer.users, peer.counts";
        let output = Command::new("psql")
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", &format!("{TABLES}{fill}"), "-c", vacuum, url])
            .output()
            .context("psql: install it with: apt-get install postgresql")?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        Ok(Self { url: url.to_owned(), folder: folder.to_owned(), users })
    }

    /// Follows a second of this many clients, between any two or all of one.
    pub(crate) fn follows(&self, clients: usize, target: Option<u32>, seconds: f64) -> Result<f64> {
        let last = self.users - 1;
        let target = target.map_or_else(|| format!("random(0, {last})"), |target| target.to_string());
        // Nobody follows themselves: the neighbour instead.
        let text = format!(
            "\\set one random(0, {last})\n\\set b {target}\n\\set a case when :one = :b then (:one + 1) % {} else :one end\n\
             SELECT peer.follow(:a, :b);\n",
            self.users
        );
        pgbench(&self.url, &self.folder, &text, clients, seconds.ceil() as u64)
    }
}
