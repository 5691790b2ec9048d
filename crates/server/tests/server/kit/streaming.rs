//! A client of server-sent events that says what comes line by line, and when nothing does.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    net::TcpStream,
    time::Duration,
};

use serde_json::Value;

use super::{server::Server, table::Reply};

pub(crate) struct Stream {
    reader: BufReader<TcpStream>,
    pub(crate) status: u16,
    /// The headers, in lower case.
    pub(crate) headers: String,
    /// The body of an answer that is no stream.
    pub(crate) problem: Value,
}

/// One event, or the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Server {
    /// `[@actor] [!bearer] [^header=value …] path`, with the path below `/api/v1`.
    pub(crate) fn stream(&self, request: &str) -> Stream {
        let mut socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
        let mut headers = format!("host: localhost:{}\r\naccept: text/event-stream\r\n", self.address.port());
        let mut path = "";
        for word in request.split_whitespace() {
            if let Some(actor) = word.strip_prefix('@') {
                headers.push_str(&format!("entourage-actor: {actor}\r\n"));
            } else if let Some(bearer) = word.strip_prefix('!') {
                headers.push_str(&format!("authorization: Bearer {bearer}\r\n"));
            } else if let Some((name, value)) = word.strip_prefix('^').and_then(|pair| pair.split_once('=')) {
                headers.push_str(&format!("{name}: {value}\r\n"));
            } else {
                path = word;
            }
        }
        write!(socket, "GET /api/v1{path} HTTP/1.1\r\n{headers}\r\n").unwrap();
        let mut reader = BufReader::new(socket);
        let (mut line, mut headers) = (String::new(), String::new());
        reader.read_line(&mut line).unwrap();
        let status = line[9..12].parse().unwrap();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line == "\r\n" {
                break;
            }
            headers.push_str(&line.to_ascii_lowercase());
        }
        let mut problem = Value::Null;
        if status != 200 {
            let length = headers.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let mut body = vec![0; length.trim().parse().unwrap()];
            std::io::Read::read_exact(&mut reader, &mut body).unwrap();
            problem = serde_json::from_slice(&body).unwrap();
        }
        Stream { reader, status, headers, problem }
    }
}

impl Stream {
    /// How it began.
    pub(crate) fn into_reply(self) -> Reply {
        let (status, text) = (self.status, self.problem.to_string());
        Reply { status, headers: Default::default(), body: self.problem, text }
    }

    /// The next line that is not empty and no length of a chunk; `None` at the end of the stream.
    pub(crate) fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            match self.reader.read_line(&mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
            let text = line.trim_end();
            // The chunk that ends a response has no bytes.
            if text == "0" {
                return None;
            }
            if !says_nothing(text) {
                return Some(text.to_owned());
            }
        }
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Message> {
        let mut message = Message::default();
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some(("id", id)) => message.id = id.to_owned(),
                Some(("event", name)) => message.name = name.to_owned(),
                // Fields come in the order in which they are written here, data not always last.
                Some(("data", data)) => return self.rest_of(message, data.to_owned()),
                _ => assert!(line.starts_with(':'), "{line}"),
            }
        }
    }

    /// Reads up to the empty line that ends an event.
    fn rest_of(&mut self, mut message: Message, mut data: String) -> Option<Message> {
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim_end().is_empty() {
                // Where a connection is cut off, so may be a line.
                message.data = serde_json::from_str(&data).ok()?;
                return Some(message);
            }
            match line.trim_end_matches(['\r', '\n']).split_once(": ") {
                Some(("id", id)) => message.id = id.to_owned(),
                Some(("event", name)) => message.name = name.to_owned(),
                Some(("data", more)) => {
                    data.push('\n');
                    data.push_str(more);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Nothing but signs of life comes for a while.
    pub(crate) fn is_silent(&mut self, time: Duration) -> bool {
        self.reader.get_ref().set_read_timeout(Some(time)).unwrap();
        let silent = loop {
            let mut line = String::new();
            match self.reader.read_line(&mut line) {
                Ok(0) => break false,
                Ok(_) if says_nothing(line.trim_end()) || line.starts_with(':') => {}
                Ok(_) => break false,
                Err(_) => break true,
            }
        };
        self.reader.get_ref().set_read_timeout(Some(Duration::from_secs(40))).unwrap();
        silent
    }
}

/// An empty line, or the length of a chunk.
fn says_nothing(text: &str) -> bool {
    text.is_empty() || (text.len() <= 8 && u64::from_str_radix(text, 16).is_ok())
}
