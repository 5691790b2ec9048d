//! Bytes to and from a server, in clear text or over TLS.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};

pub(super) enum Channel {
    Plain(TcpStream),
    Tls(Box<ClientConnection>, TcpStream),
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(stream) | Self::Tls(_, stream) => stream.as_fd(),
        }
    }
}

impl Channel {
    /// With its handshake done, so that none is measured.
    pub(super) fn connect(
        address: &str,
        tls: Option<&(ServerName<'static>, Arc<ClientConfig>)>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let Some((name, config)) = tls else { return Ok(Self::Plain(stream)) };
        let mut session = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        // Encrypt everything before sending.
        session.set_buffer_limit(None);
        session.complete_io(&mut stream)?;
        Ok(Self::Tls(Box::new(session), stream))
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes),
            Self::Tls(session, stream) => {
                session.writer().write_all(bytes)?;
                while session.wants_write() {
                    session.write_tls(stream)?;
                }
                Ok(())
            }
        }
    }

    /// One read from the socket and all its plaintext, because buffered data causes no readiness event. Over TLS that may
    /// be nothing while a record is incomplete. `None` is the end.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, end: usize, more: usize) -> io::Result<Option<usize>> {
        let room = |buffer: &mut Vec<u8>, end: usize| {
            if end == buffer.len() {
                buffer.resize(end + more, 0);
            }
        };
        match self {
            Self::Plain(stream) => {
                room(buffer, end);
                let count = stream.read(&mut buffer[end..])?;
                Ok((count > 0).then_some(count))
            }
            Self::Tls(session, stream) => {
                if session.read_tls(stream)? == 0 {
                    return Ok(None);
                }
                let state = session.process_new_packets().map_err(io::Error::other)?;
                let (mut left, mut at) = (state.plaintext_bytes_to_read(), end);
                while left > 0 {
                    room(buffer, at);
                    let count = session.reader().read(&mut buffer[at..])?;
                    at += count;
                    left = left.saturating_sub(count);
                }
                Ok(Some(at - end))
            }
        }
    }
}
