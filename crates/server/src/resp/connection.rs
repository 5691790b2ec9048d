//! One connection: what a read brings is answered with one write. A connection that waits holds no buffer.

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

/// How many desks a thread keeps for whoever is next.
const SPARE_DESKS: usize = 64;

#[allow(clippy::vec_box, reason = "a desk is handed over, not moved")]
type Desks = Vec<Box<Desk>>;

thread_local! {
    static DESKS: RefCell<Desks> = const { RefCell::new(Vec::new()) };
}

/// Everything a connection needs while it has something to do.
#[derive(Default)]
struct Desk {
    input: Vec<u8>,
    filled: usize,
    parser: Parser,
    work: Work,
}

impl Desk {
    fn take(session: &Session) -> Box<Self> {
        let mut desk = DESKS.with_borrow_mut(Vec::pop).unwrap_or_default();
        if desk.input.is_empty() {
            desk.input.resize(READ_BYTES, 0);
        }
        desk.work.out.protocol = session.protocol;
        desk
    }

    /// Only where nothing is left on it.
    fn put_back(self: Box<Self>) {
        if self.input.len() <= READ_BYTES_MAX && self.work.out.bytes.capacity() <= OUTPUT_BYTES {
            DESKS.with_borrow_mut(|desks| {
                if desks.len() < SPARE_DESKS {
                    desks.push(self);
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

    /// Drops what was answered and makes room for what follows.
    fn advance(&mut self, answered: usize) {
        let was_full = self.filled == self.input.len();
        self.input.copy_within(answered..self.filled, 0);
        self.filled -= answered;
        // A long pipeline, or a command that does not fit: the parser bounds how long one can be.
        if (was_full && self.input.len() < READ_BYTES_MAX) || self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
    }
}

/// Answers until the client goes, or is told to.
pub(super) async fn run(mut stream: TcpStream, mut session: Session) -> io::Result<()> {
    let mut desk: Option<Box<Desk>> = None;
    let mut unfinished = false;
    while let Some(mut busy) = read(&mut stream, &mut desk, &session).await? {
        let began = Instant::now();
        session.client.was_active(session.shared.clients.now());
        let mut answered = 0;
        // By when the client has to take more of what is sent to it, once it has not.
        let mut deadline = None;
        loop {
            let Desk { input, filled, parser, work } = &mut *busy;
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
        session.shared.measures.answered(began.elapsed());
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
            desk = Some(busy);
        }
    }
    Ok(())
}

/// Waits for bytes; `None` when no more will come.
async fn read(
    stream: &mut TcpStream,
    desk: &mut Option<Box<Desk>>,
    session: &Session,
) -> io::Result<Option<Box<Desk>>> {
    let count = poll_fn(|context| {
        if session.client.is_told_to_end(context) {
            return Poll::Ready(Ok(0));
        }
        // Until there is something to read no buffer is needed.
        ready!(stream.poll_read_ready(context))?;
        let mut busy = desk.take().unwrap_or_else(|| Desk::take(session));
        let read = busy.poll_read(stream, context);
        if read.is_pending() && busy.filled == 0 {
            busy.put_back();
        } else {
            *desk = Some(busy);
        }
        read
    })
    .await?;
    Ok(desk.take().filter(|_| count > 0))
}

/// Takes what is still under way: a connection closed over unread bytes would take its last reply with it.
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

/// Sends everything, as long as the client takes some of it every now and then and was not told to end.
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
                // Whoever is told to end has what was left of its time, not more with each byte.
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
