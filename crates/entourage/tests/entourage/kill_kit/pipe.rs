//! A client that sends several writes over RESP before it waits for the first answer.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use entourage_model::{Code, Version};
use entourage_testkit::conformance::history::{Action, Ending, Record, Ticks, Verb};

pub(super) struct Pipe(BufReader<TcpStream>);

enum Reply {
    Error(String),
    Number(i64),
    Text(String),
    List(Vec<Reply>),
}

impl Pipe {
    pub(super) fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server takes connections over RESP");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        Self(BufReader::new(stream))
    }

    /// A record of each, in their order. Those that no answer came to may or may not have happened.
    pub(super) fn write(&mut self, client: usize, actions: Vec<Action>, ticks: &Ticks) -> Vec<Record> {
        let invoked = ticks.next();
        let mut bytes = Vec::new();
        for (number, Action { verb, actor, target }) in actions.iter().enumerate() {
            // Both ways to say it, in one pipeline.
            let follows = *verb == Verb::Follow;
            let words = if number % 2 == 0 {
                let name = if follows { "SADD" } else { "SREM" };
                [name.to_owned(), format!("following:{actor}"), target.to_string()]
            } else {
                let name = if follows { "EG.FOLLOW" } else { "EG.UNFOLLOW" };
                [name.to_owned(), actor.to_string(), target.to_string()]
            };
            bytes.extend_from_slice(b"*3\r\n");
            words.iter().for_each(|word| bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
        }
        let mut gone = self.0.get_mut().write_all(&bytes).is_err();
        let mut records = Vec::new();
        for action in actions {
            let reply = if gone { None } else { self.reply() };
            gone |= reply.is_none();
            let ending = reply.map_or(Ending::Info, ending);
            let completed = (ending != Ending::Info).then(|| ticks.next());
            records.push(Record { client, action, invoked, completed, ending });
        }
        records
    }

    fn reply(&mut self) -> Option<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        let (kind, rest) = line.strip_suffix("\r\n")?.split_at_checked(1)?;
        Some(match kind {
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Number(rest.parse().ok()?),
            "$" => {
                let mut text = vec![0; rest.parse::<usize>().ok()? + 2];
                self.0.read_exact(&mut text).ok()?;
                Reply::Text(String::from_utf8(text).ok()?.trim_end().to_owned())
            }
            "*" => {
                let mut list = Vec::new();
                for _ in 0..rest.parse::<usize>().ok()? {
                    list.push(self.reply()?);
                }
                Reply::List(list)
            }
            other => panic!("a reply of the kind {other}"),
        })
    }
}

fn ending(reply: Reply) -> Ending {
    match reply {
        Reply::Number(number) => Ending::Ok { changed: number == 1, version: None, watermark: None },
        Reply::List(fields) => {
            let Some([Reply::Number(created), .., Reply::Text(version)]) = fields.get(3..) else {
                panic!("a follow is answered with its fields");
            };
            let version = Version::from_bits(version.parse().expect("a version"));
            let changed = *created == 1;
            Ending::Ok { changed, version: changed.then_some(version), watermark: None }
        }
        Reply::Error(text) => {
            let prefix = text.split(' ').next().unwrap_or_default();
            let code = Code::ALL.iter().find(|code| code.resp_prefix() == prefix).unwrap_or_else(|| panic!("{text}"));
            if code.http_status() >= 500 { Ending::Info } else { Ending::Fail(code.as_str().to_owned()) }
        }
        Reply::Text(text) => panic!("a write is not answered with {text}"),
    }
}
