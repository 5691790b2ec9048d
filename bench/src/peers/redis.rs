//! The same graph in Redis: one set for each user, as teams keep it; and follows as a script that keeps both sides,
//! counts and a stream of events.

use std::{
    io::{BufReader, BufWriter, Read as _, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::Peer;
use crate::{graph::Graph, table::number};

const COMMANDS_AT_ONCE: usize = 1_000;
const MEMBERS_AT_ONCE: usize = 500;
const READERS_AT_ONCE: usize = 1_000;
/// For all edges of a graph.
const LOG_TIMEOUT: Duration = Duration::from_secs(600);

/// A follow elsewhere: both directions, both counts and an event, or nothing when it exists.
const FOLLOW: &str = "local a, b = ARGV[1], ARGV[2] \
                      if redis.call('SADD', 'following:' .. a, b) == 0 then return 0 end \
                      local t = redis.call('TIME') \
                      redis.call('ZADD', 'followers:' .. b, t[1] * 1000 + math.floor(t[2] / 1000), a) \
                      redis.call('INCR', 'following_count:' .. a) \
                      redis.call('INCR', 'follower_count:' .. b) \
                      redis.call('XADD', 'events', '*', 'type', 'follow', 'follower', a, 'target', b) \
                      return 1";

impl Peer {
    /// Inserts everybody's follows.
    pub(crate) fn fill(&self, graph: &Graph) -> Result<()> {
        let each = graph.edges() as usize / graph.users as usize;
        self.send((0..graph.users).map(|user| {
            let mut words = vec!["SADD".to_owned(), format!("following:{user}")];
            words.extend((0..each).map(|step| graph.edge(user as usize * each + step).1.0.to_string()));
            words
        }))
    }

    /// Inserts everybody's follows as the script of a follow keeps them: both sides and both counts; no events.
    pub(crate) fn fill_both_sides(&self, graph: &Graph) -> Result<()> {
        eprintln!("  Redis is given both sides of {} edges", number(graph.edges() as f64));
        self.fill(graph)?;
        let each = graph.edges() / u64::from(graph.users);
        let followers = graph.by_target();
        self.send(followers.iter().enumerate().flat_map(|(target, edges)| {
            edges.chunks(MEMBERS_AT_ONCE).map(move |some| {
                let mut words = vec!["ZADD".to_owned(), format!("followers:{target}")];
                for &index in some {
                    let at = graph.time(index as usize, graph.edges() as usize).to_unix();
                    words.extend([at.to_string(), graph.edge(index as usize).0.0.to_string()]);
                }
                words
            })
        }))?;
        self.send(followers.iter().enumerate().map(|(user, edges)| {
            let counts = [("following", each.to_string()), ("follower", edges.len().to_string())];
            let counts = counts.into_iter().flat_map(|(side, count)| [format!("{side}_count:{user}"), count]);
            ["MSET".to_owned()].into_iter().chain(counts).collect()
        }))
    }

    /// From now on a write is on the disk before its answer; so is everything written before when this returns.
    pub(crate) fn sync_every_write(&self) -> Result<()> {
        eprintln!("  Redis writes its first log");
        self.set("appendonly", "yes")?;
        let began = Instant::now();
        while !self.has_written_its_log()? {
            ensure!(began.elapsed() < LOG_TIMEOUT, "Redis does not finish its first log");
            thread::sleep(Duration::from_millis(100));
        }
        self.set("appendfsync", "always")
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        self.send([vec!["CONFIG".to_owned(), "SET".to_owned(), name.to_owned(), value.to_owned()]].into_iter())
    }

    fn has_written_its_log(&self) -> Result<bool> {
        let info = self.info("persistence")?;
        let is = |field: &str| info.lines().any(|line| line == field);
        ensure!(is("aof_last_bgrewrite_status:ok"), "Redis could not write its first log: {info}");
        Ok(is("aof_enabled:1") && is("aof_rewrite_in_progress:0") && is("aof_rewrite_scheduled:0"))
    }

    /// Bytes that Redis has allocated.
    pub(crate) fn used_memory(&self) -> Result<f64> {
        let info = self.info("memory")?;
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        used.and_then(|used| used.parse().ok()).context("Redis does not tell its memory")
    }

    fn info(&self, section: &str) -> Result<String> {
        let stream = TcpStream::connect(&self.address)?;
        let (mut answers, mut out) = (BufReader::new(stream.try_clone()?), stream);
        command(&mut out, &["INFO", section])?;
        let length = line(&mut answers)?;
        let length = length.strip_prefix('$').and_then(|length| length.parse().ok()).context("INFO has a length")?;
        let mut info = vec![0; length];
        answers.read_exact(&mut info)?;
        Ok(String::from_utf8(info)?)
    }

    /// Sends pipelined commands, each of which must succeed.
    pub(super) fn send(&self, commands: impl Iterator<Item = Vec<String>>) -> Result<()> {
        let stream = TcpStream::connect(&self.address)?;
        let (mut answers, mut out) = (BufReader::new(stream.try_clone()?), BufWriter::new(stream));
        let mut commands = commands.peekable();
        while commands.peek().is_some() {
            let mut sent = 0;
            for words in commands.by_ref().take(COMMANDS_AT_ONCE) {
                command(&mut out, &words)?;
                sent += 1;
            }
            out.flush()?;
            for _ in 0..sent {
                let answer = line(&mut answers)?;
                ensure!(answer.starts_with([':', '+']), "Redis refused: {answer}");
            }
        }
        Ok(())
    }

    /// The number that a command answers with.
    pub(crate) fn number(&self, words: &[&str]) -> Result<i64> {
        let stream = TcpStream::connect(&self.address)?;
        let (mut answers, mut out) = (BufReader::new(stream.try_clone()?), stream);
        command(&mut out, words)?;
        let answer = line(&mut answers)?;
        let number = answer.strip_prefix(':').and_then(|number| number.parse().ok());
        number.with_context(|| format!("{words:?}: {answer}"))
    }

    /// One post into a sorted set for each of this many readers, each trimmed to a thousand; deliveries a second.
    pub(crate) fn deliver(&self, readers: i64, post: u64) -> Result<f64> {
        let stream = TcpStream::connect(&self.address)?;
        let (mut answers, mut out) = (BufReader::new(stream.try_clone()?), BufWriter::new(stream));
        let began = Instant::now();
        for first in (0..readers).step_by(READERS_AT_ONCE) {
            let some = first..(first + READERS_AT_ONCE as i64).min(readers);
            for reader in some.clone() {
                let (feed, post) = (format!("feed:{reader}"), post.to_string());
                command(&mut out, &["ZADD", &feed, &post, &post])?;
                command(&mut out, &["ZREMRANGEBYRANK", &feed, "0", "-1001"])?;
            }
            out.flush()?;
            for _ in some {
                ensure!(line(&mut answers)?.starts_with(':') && line(&mut answers)?.starts_with(':'), "Redis refused");
            }
        }
        Ok(readers as f64 / began.elapsed().as_secs_f64())
    }

    /// Loads the script of a follow; returns the command that calls it, for any pair.
    pub(crate) fn follow_script(&self) -> Result<String> {
        let stream = TcpStream::connect(&self.address)?;
        let (mut answers, mut out) = (BufReader::new(stream.try_clone()?), stream);
        command(&mut out, &["SCRIPT", "LOAD", FOLLOW])?;
        ensure!(line(&mut answers)?.starts_with('$'), "Redis did not take the script");
        Ok(format!("EVALSHA {} 0", line(&mut answers)?))
    }
}

fn command(out: &mut impl Write, words: &[impl AsRef<str>]) -> Result<()> {
    write!(out, "*{}\r\n", words.len())?;
    for word in words {
        write!(out, "${}\r\n{}\r\n", word.as_ref().len(), word.as_ref())?;
    }
    Ok(())
}

fn line(from: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        from.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    line.truncate(line.len() - 2);
    Ok(String::from_utf8(line)?)
}
