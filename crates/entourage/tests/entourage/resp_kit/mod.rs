//! A client of the RESP front of a real process, and what that process costs.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(crate) struct Wire(BufReader<TcpStream>);

/// A command as clients send it.
pub(crate) fn encoded(line: &str) -> Vec<u8> {
    let words: Vec<&str> = line.split(' ').collect();
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

impl Wire {
    pub(crate) fn connect(address: &str) -> Self {
        Self::try_connect(address).unwrap_or_else(|| panic!("nobody listens on {address}"))
    }

    /// `None` when nobody listens.
    pub(crate) fn try_connect(address: &str) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        Some(Self(BufReader::new(stream)))
    }

    /// `None` when the connection ended first.
    pub(crate) fn try_ask(&mut self, line: &str) -> Option<String> {
        self.stream().write_all(&encoded(line)).ok()?;
        self.reply()
    }

    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        self.0.get_mut()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream().write_all(bytes).unwrap();
    }

    /// The reply's first line, and the text of one that has a text.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(&encoded(line));
        self.reply().unwrap_or_else(|| panic!("no answer to {line}"))
    }

    /// `None` when the connection ended first.
    pub(crate) fn reply(&mut self) -> Option<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        let line = line.trim_end();
        let Some(length) = line.strip_prefix('$') else { return Some(line.to_owned()) };
        let mut text = vec![0; length.parse::<usize>().unwrap() + 2];
        self.0.read_exact(&mut text).ok()?;
        text.truncate(text.len() - 2);
        Some(String::from_utf8(text).unwrap())
    }

    /// How long it takes to be told that one does not follow another.
    pub(crate) fn timed_check(&mut self) -> Duration {
        let began = Instant::now();
        assert_eq!(self.ask("SISMEMBER following:1 2"), ":0");
        began.elapsed()
    }

    /// How many are connected, this one included.
    pub(crate) fn connected(&mut self) -> usize {
        let info = self.ask("INFO clients");
        let line = info.lines().find_map(|line| line.strip_prefix("connected_clients:"));
        line.unwrap_or_else(|| panic!("{info}")).trim().parse().unwrap()
    }

    /// Waits until nobody else is connected.
    pub(crate) fn wait_until_alone(&mut self) {
        let began = Instant::now();
        while self.connected() > 1 {
            assert!(began.elapsed() < Duration::from_secs(30), "{} connections are left behind", self.connected() - 1);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// What a process has in memory.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
}

pub(crate) fn p99(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

/// Lets this process, and those it starts, open as many files as they are allowed to.
pub(crate) fn need_files(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    let enough = limit.maximum.is_none_or(|files| files >= count);
    assert!(
        enough,
        "{count} files have to be open at once, and the hard limit is {:?}: raise it (ulimit -Hn)",
        limit.maximum
    );
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
}
