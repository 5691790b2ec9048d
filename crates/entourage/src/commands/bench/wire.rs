//! One connection of either protocol: requests are sent together, responses are split as they arrive.

use std::{
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use anyhow::{Context, bail};
use entourage_model::Error;

use super::{
    channel::Channel,
    draw::Question,
    resp,
    rest::{self, Rest},
};
use crate::commands::client::{Access, unreachable};

pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
const READ_BYTES: usize = 64 << 10;

/// The protocol and the address.
pub(super) enum Protocol {
    Rest(Rest),
    Resp { address: String, key: Option<String> },
}

/// A response: its length, and an error if there is one.
pub(super) struct Answer {
    pub(super) bytes: usize,
    pub(super) error: Option<String>,
}

impl Protocol {
    pub(super) fn new(server: &str, resp: Option<&str>, access: &Access) -> anyhow::Result<Self> {
        match resp {
            Some(address) => Ok(Self::Resp { address: address.to_owned(), key: access.key()? }),
            None => Rest::new(server, access).map(Self::Rest),
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Rest(_) => "REST",
            Self::Resp { .. } => "RESP",
        }
    }

    pub(super) fn address(&self) -> &str {
        match self {
            Self::Rest(rest) => rest.address(),
            Self::Resp { address, .. } => address,
        }
    }

    pub(super) fn connect(&self) -> anyhow::Result<Connection<'_>> {
        let tls = match self {
            Self::Rest(rest) => rest.tls(),
            Self::Resp { .. } => None,
        };
        let channel = Channel::connect(self.address(), tls, TIMEOUT)
            .map_err(|error| unreachable(self.address(), &error, "name it with --server or --resp"))?;
        let mut connection = Connection { protocol: self, channel, buffer: Vec::new(), start: 0, end: 0 };
        if let Self::Resp { key: Some(key), .. } = self {
            let greeting = Question::Command(vec!["AUTH".into(), key.into()]);
            connection.ask(std::slice::from_ref(&greeting))?;
            if let Some(error) = connection.answer()?.error {
                bail!("the service key is refused: {error}");
            }
        }
        Ok(connection)
    }

    /// The body of a REST resource.
    pub(super) fn get(&self, path: &str) -> anyhow::Result<String> {
        let Self::Rest(rest) = self else { bail!("RESP has no paths") };
        let mut connection = self.connect()?;
        connection.send(&rest.get(path))?;
        let (_, body) = connection.answer_with(|bytes| rest::body(bytes).to_vec())?;
        Ok(String::from_utf8(body)?)
    }

    pub(super) fn write(&self, question: &Question<'_>, out: &mut Vec<u8>) -> anyhow::Result<()> {
        match self {
            Self::Rest(server) => server.write(question, out),
            Self::Resp { .. } => {
                resp::write(question, out);
                Ok(())
            }
        }
    }

    fn read(&self, bytes: &[u8]) -> anyhow::Result<Option<Answer>> {
        match self {
            Self::Rest(_) => rest::read(bytes),
            Self::Resp { .. } => resp::read(bytes),
        }
    }
}

pub(super) struct Connection<'a> {
    protocol: &'a Protocol,
    channel: Channel,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    start: usize,
    end: usize,
}

impl AsFd for Connection<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl Connection<'_> {
    /// Sends everything with one write.
    pub(super) fn ask(&mut self, questions: &[Question<'_>]) -> anyhow::Result<()> {
        let mut out = Vec::new();
        questions.iter().try_for_each(|question| self.protocol.write(question, &mut out))?;
        self.send(&out)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.channel.write_all(bytes).context("the server closed a connection")
    }

    /// The next response, in the order of the requests.
    pub(super) fn answer(&mut self) -> anyhow::Result<Answer> {
        self.answer_with(|_| ()).map(|(answer, ())| answer)
    }

    /// The next response, mapped by `look`.
    pub(super) fn answer_with<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> anyhow::Result<(Answer, T)> {
        loop {
            if let Some(answer) = self.take()? {
                let looked = look(&self.buffer[self.start - answer.bytes..self.start]);
                return Ok((answer, looked));
            }
            self.receive()?;
        }
    }

    /// The next response in the buffer, if complete.
    pub(super) fn take(&mut self) -> anyhow::Result<Option<Answer>> {
        let answer = self.protocol.read(&self.buffer[self.start..self.end])?;
        self.start += answer.as_ref().map_or(0, |answer| answer.bytes);
        Ok(answer)
    }

    /// One read: buffered bytes, or else new ones.
    pub(super) fn receive(&mut self) -> anyhow::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let read = self.channel.read(&mut self.buffer, self.end, READ_BYTES);
        match read.context("the server did not answer in time")? {
            Some(count) => self.end += count,
            None => bail!(Error::unavailable("the server closed a connection")),
        }
        Ok(())
    }
}
