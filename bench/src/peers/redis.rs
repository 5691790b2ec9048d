//! The same graph in Redis: one set for each user, as teams keep it; and follows as a script that keeps both sides,
//! counts and a stream of events.

use std::{
    io::{BufReader, BufWriter, Read as _, Write},
    net::TcpStream,
    time::Instant,
};

use anyhow::{Context, Result, ensure};

use super::Peer;
use crate::graph::Graph;

const USERS_AT_ONCE: u32 = 1_000;
const READERS_AT_ONCE: usize = 1_000;

/// What a follow is elsewhere: both directions, both counts and an event, or nothing when it was there.
const FOLLOW: &str = "local a, b = ARGV[1], ARGV[2] \
                      if redis.call('SADD', 'following:' .. a, b) == 0 then return 0 end \
                      local t = redis.call('TIME') \
                      redis.call('ZADD', 'followers:' .. b, t[1] * 1000 + math.floor(t[2] / 1000), a) \
                      redis.call('INCR', 'following_count:' .. a) \
                      redis.call('INCR', 'follower_count:' .. b) \
                      redis.call('XADD', 'events', '*', 'type', 'follow', 'follower', a, 'target', b) \
                      return 1";

impl Peer {
    /// Puts everybody's follows in.
    pub(crate) fn fill(&self, graph: &Graph) -> Result<()> {
        let stream = TcpStream::connect(&self.address)?;
        let (mut answers, mut out) = (BufReader::new(stream.try_clone()?), BufWriter::new(stream));
        let each = graph.edges() as usize / graph.users as usize;
        for first in (0..graph.users).step_by(USERS_AT_ONCE as usize) {
            let users = first..(first + USERS_AT_ONCE).min(graph.users);
            for user in users.clone() {
                let mut words = vec!["SADD".to_owned(), format!("following:{user}")];
                words.extend((0..each).map(|step| graph.edge(user as usize * each + step).1.0.to_string()));
                command(&mut out, &words)?;
            }
            out.flush()?;
            for _ in users {
                ensure!(line(&mut answers)?.starts_with(':'), "Redis refused a set");
            }
        }
        Ok(())
    }

    /// What a command that answers with a number says.
    pub(crate) fn number(&self, words: &[&str]) -> Result<i64> {
        let stream = TcpStream::connect(&self.address)?;
        let (mut answers, mut out) = (BufReader::new(stream.try_clone()?), stream);
        command(&mut out, words)?;
        let answer = line(&mut answers)?;
        let number = answer.strip_prefix(':').and_then(|number| number.parse().ok());
        number.with_context(|| format!("{words:?}: {answer}"))
    }

    /// One post into a sorted set for each of so many readers, each kept to a thousand; deliveries a second.
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

    /// Loads the script of a follow; the command that calls it, for anybody and anybody.
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
