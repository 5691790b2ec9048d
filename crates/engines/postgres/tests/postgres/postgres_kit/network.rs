//! A network before a PostgreSQL that a test can cut: connections stay open, and nothing comes through.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

pub(crate) struct Network {
    swallows: Arc<AtomicBool>,
    pub(crate) port: u16,
}

impl Network {
    /// Listens on a port of its own and relays to this one.
    pub(crate) async fn before(port: u16) -> Self {
        let behind: SocketAddr = ([127, 0, 0, 1], port).into();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let swallows = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&swallows);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let seen = Arc::clone(&seen);
                tokio::spawn(async move {
                    waits_while(&seen).await;
                    let Ok(server) = TcpStream::connect(behind).await else { return };
                    let ((from, to), (back, forth)) = (client.into_split(), server.into_split());
                    tokio::join!(relay(from, forth, &seen), relay(back, to, &seen));
                });
            }
        });
        Self { swallows, port }
    }

    pub(crate) fn swallow(&self, swallows: bool) {
        self.swallows.store(swallows, Ordering::SeqCst);
    }
}

async fn waits_while(swallows: &AtomicBool) {
    while swallows.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn relay(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, swallows: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        waits_while(swallows).await;
        if to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}
