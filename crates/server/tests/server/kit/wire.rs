//! A client for tests: commands as lines, replies as lines, read by somebody else's decoder.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use redis_protocol::resp3::{decode::complete::decode, types::OwnedFrame};

pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

/// A command as clients send it.
pub(crate) fn encoded<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Words of a line; `""` is an empty one.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().map(|word| if word == "\"\"" { "" } else { word }).collect()
}

impl Wire {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, unread: Vec::new() }
    }

    /// Acting and looking as this user.
    pub(crate) fn acting(address: SocketAddr, user: Option<&str>) -> Self {
        let mut wire = Self::connect(address);
        if let Some(user) = user {
            wire.check(&format!("EG.AS {user}"), "OK");
        }
        wire
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(&encoded(&words(line)));
        self.reply().unwrap_or_else(|| panic!("no answer to {line}"))
    }

    /// `expected` may end with `…` where the rest does not matter.
    pub(crate) fn check(&mut self, line: &str, expected: &str) {
        let said = self.ask(line);
        let fits = match expected.strip_suffix('…') {
            Some(beginning) => said.starts_with(beginning),
            None => said == expected,
        };
        assert!(fits, "{line}\nexpected {expected}\ngot      {said}");
    }

    pub(crate) fn check_all(&mut self, table: &[(&str, &str)]) {
        for (line, expected) in table {
            self.check(line, expected);
        }
    }

    /// The next reply as a line; `None` when the connection ended first.
    pub(crate) fn reply(&mut self) -> Option<String> {
        self.frame().map(|frame| shown(&frame))
    }

    /// The bytes of the next reply.
    #[allow(dead_code, reason = "asked by the tests of non-interference")]
    pub(crate) fn bytes(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(length) = length(&self.unread) {
                return Some(self.unread.drain(..length).collect());
            }
            self.fill()?;
        }
    }

    pub(crate) fn frame(&mut self) -> Option<OwnedFrame> {
        loop {
            // RESP2's null is not in RESP3.
            for null in [b"$-1\r\n".as_slice(), b"*-1\r\n"] {
                if self.unread.starts_with(null) {
                    self.unread.drain(..null.len());
                    return Some(OwnedFrame::Null);
                }
            }
            let plain = replaced(&self.unread);
            if let Some((frame, _)) = decode(&plain).unwrap_or_else(|error| panic!("{error}: {}", plain.escape_ascii()))
            {
                let length = length(&self.unread).unwrap();
                self.unread.drain(..length);
                return Some(frame);
            }
            self.fill()?;
        }
    }

    /// Reads on; `None` when the connection ended.
    fn fill(&mut self) -> Option<()> {
        let mut more = [0; 65_536];
        match self.stream.read(&mut more) {
            Ok(0) => None,
            Ok(count) => {
                self.unread.extend_from_slice(&more[..count]);
                Some(())
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether the other side has closed, within a time.
    pub(crate) fn ends_within(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        loop {
            match self.stream.read(&mut [0; 4_096]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }
}

/// The decoder knows RESP3 alone: nulls of RESP2 inside of arrays become its own.
fn replaced(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    text.replace("\r\n$-1\r\n", "\r\n_\r\n").replace("\r\n$-1\r\n", "\r\n_\r\n").into_bytes()
}

/// How many bytes the first reply has, if all of it is there: counted line by line, and by nobody's decoder.
fn length(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|two| two == b"\r\n")? + 2;
    let number = || std::str::from_utf8(&bytes[1..line - 2]).unwrap().parse::<i64>().unwrap();
    let parts = match bytes.first()? {
        b'$' | b'=' => {
            let end = if number() < 0 { line } else { line + number() as usize + 2 };
            return (end <= bytes.len()).then_some(end);
        }
        b'*' | b'~' => number(),
        b'%' => 2 * number(),
        _ => 0,
    };
    (0..parts).try_fold(line, |at, _| Some(at + length(bytes.get(at..)?)?))
}

/// `OK`, `-ERR …`, `7`, `"text"`, `nil`, `[a b]`, `{k: v}`, `true`.
pub(crate) fn shown(frame: &OwnedFrame) -> String {
    let list = |frames: &[OwnedFrame]| frames.iter().map(shown).collect::<Vec<_>>().join(" ");
    match frame {
        OwnedFrame::SimpleString { data, .. } => String::from_utf8_lossy(data).into_owned(),
        OwnedFrame::SimpleError { data, .. } => format!("-{data}"),
        OwnedFrame::Number { data, .. } => data.to_string(),
        OwnedFrame::Double { data, .. } => format!("{data:?}"),
        OwnedFrame::Boolean { data, .. } => data.to_string(),
        OwnedFrame::BlobString { data, .. } => format!("\"{}\"", String::from_utf8_lossy(data)),
        OwnedFrame::VerbatimString { data, .. } => String::from_utf8_lossy(data).into_owned(),
        OwnedFrame::Null => "nil".to_owned(),
        OwnedFrame::Array { data, .. } => format!("[{}]", list(data)),
        OwnedFrame::Set { data, .. } => {
            let mut members: Vec<String> = data.iter().map(shown).collect();
            members.sort_unstable();
            format!("<{}>", members.join(" "))
        }
        OwnedFrame::Map { data, .. } => {
            let mut pairs: Vec<String> =
                data.iter().map(|(name, value)| format!("{}: {}", shown(name), shown(value))).collect();
            pairs.sort_unstable();
            format!("{{{}}}", pairs.join(", "))
        }
        other => panic!("{other:?} is not expected"),
    }
}
