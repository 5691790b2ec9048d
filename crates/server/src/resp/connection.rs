//! One connection: the commands of one read are answered with one write. An idle connection holds no buffers.

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use entourage_store::share;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf},
    net::TcpStream,
    time::{timeout, timeout_at},
};

use super::{
    clients::Client,
    limits::{
        COMMAND_BYTES_A_UNIT, LINGER_BYTES, LINGER_TIMEOUT, OUTPUT_BYTES, PIECE_BYTES, READ_BYTES, READ_BYTES_MAX,
        REPLY_BYTES_A_UNIT, WRITE_TIMEOUT,
    },
    parse::Parser,
    session::{Session, Work},
};

/// How many unused buffers a thread keeps.
const SPARE_MAX: usize = 64;

#[allow(clippy::vec_box, reason = "boxes are handed over, not moved")]
type Spare = Vec<Box<Buffers>>;

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Vec::new()) };
}

/// What a connection needs while it is active.
#[derive(Default)]
struct Buffers {
    input: Vec<u8>,
    filled: usize,
    parser: Parser,
    work: Work,
}

impl Buffers {
    fn take(session: &Session) -> Box<Self> {
        let mut buffers = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        if buffers.input.is_empty() {
            buffers.input.resize(READ_BYTES, 0);
        }
        buffers.work.out.protocol = session.protocol;
        buffers
    }

    /// Only when they are empty.
    fn put_back(self: Box<Self>) {
        if self.input.len() <= READ_BYTES_MAX && self.work.out.bytes.capacity() <= OUTPUT_BYTES {
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < SPARE_MAX {
                    spare.push(self);
                }
            });
        }
    }

    fn poll_read(&mut self, stream: &mut TcpStream, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(self.input.get_mut(self.filled..).unwrap_or_default());
        ready!(Pin::new(stream).poll_read(context, &mut room))?;
        let count = room.filled().len();
        self.filled += count;
        Poll::Ready(Ok(count))
    }

    /// Drops answered bytes and makes room for more.
    fn advance(&mut self, answered: usize) {
        let was_full = self.filled == self.input.len();
        self.input.copy_within(answered..self.filled, 0);
        self.filled -= answered;
        // A long pipeline, or a command that does not fit; the parser limits its length.
        if (was_full && self.input.len() < READ_BYTES_MAX) || self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
    }
}

/// Serves until the client disconnects or is told to end.
pub(super) async fn run(mut stream: TcpStream, mut session: Session) -> io::Result<()> {
    let mut buffers: Option<Box<Buffers>> = None;
    let mut unfinished = false;
    while let Some(mut busy) = read(&mut stream, &mut buffers, &session).await? {
        let began = Instant::now();
        session.client.was_active(session.shared.clients.now());
        let mut answered = 0;
        // The write deadline, once the client has not read.
        let mut deadline = None;
        loop {
            let Buffers { input, filled, parser, work } = &mut *busy;
            let mut at = 0;
            let more = session.answer(parser, input.get(..*filled).unwrap_or_default(), &mut at, work).await;
            write(&mut stream, &session.client, &mut work.out.bytes, &mut deadline).await?;
            busy.advance(at);
            answered += at;
            share::spend(at.div_ceil(COMMAND_BYTES_A_UNIT)).await;
            if session.client.was_cut_off() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            if !more {
                break;
            }
        }
        session.shared.metrics.answered(began.elapsed());
        if session.ending {
            return linger(&mut stream, &mut busy.input).await;
        }
        if busy.filled == 0 {
            if std::mem::take(&mut unfinished) {
                session.client.has_unfinished(None);
            }
            busy.put_back();
        } else {
            // Time runs from the command's first byte.
            if !std::mem::replace(&mut unfinished, true) || answered > 0 {
                session.client.has_unfinished(Some(session.shared.clients.now()));
            }
            buffers = Some(busy);
        }
    }
    Ok(())
}

/// Waits for bytes; `None` at the end.
async fn read(
    stream: &mut TcpStream,
    buffers: &mut Option<Box<Buffers>>,
    session: &Session,
) -> io::Result<Option<Box<Buffers>>> {
    let count = poll_fn(|context| {
        if session.client.is_told_to_end(context) {
            return Poll::Ready(Ok(0));
        }
        // No buffer is needed until there is something to read.
        ready!(stream.poll_read_ready(context))?;
        let mut busy = buffers.take().unwrap_or_else(|| Buffers::take(session));
        let read = busy.poll_read(stream, context);
        if read.is_pending() && busy.filled == 0 {
            busy.put_back();
        } else {
            *buffers = Some(busy);
        }
        read
    })
    .await?;
    Ok(buffers.take().filter(|_| count > 0))
}

/// Drains the input: closing a socket with unread bytes would discard the last reply.
async fn linger(stream: &mut TcpStream, into: &mut [u8]) -> io::Result<()> {
    stream.shutdown().await?;
    let drain = async {
        let mut left = LINGER_BYTES;
        while left > 0 {
            match stream.read(into).await? {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        Ok(())
    };
    timeout(LINGER_TIMEOUT, drain).await.unwrap_or(Ok(()))
}

/// Sends everything, as long as the client keeps reading.
async fn write(
    stream: &mut TcpStream,
    client: &Client,
    bytes: &mut Vec<u8>,
    deadline: &mut Option<tokio::time::Instant>,
) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        let piece = sent..bytes.len().min(sent + PIECE_BYTES);
        match stream.try_write(bytes.get(piece).unwrap_or_default()) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                sent += count;
                share::spend(count.div_ceil(REPLY_BYTES_A_UNIT)).await;
                // A client that was told to end gets no new deadline with each byte.
                *deadline = deadline.filter(|_| client.was_told_to_end());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let until = *deadline.get_or_insert_with(|| tokio::time::Instant::now() + WRITE_TIMEOUT);
                timeout_at(until, stream.writable()).await.map_err(|_| io::ErrorKind::TimedOut)??;
            }
            Err(error) => return Err(error),
        }
    }
    bytes.clear();
    Ok(())
}
