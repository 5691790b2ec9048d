//! RESP2 and RESP3: the graph for Redis clients, under common key names. It parses, calls the service and encodes; it
//! decides nothing.

mod args;
mod checks;
mod clients;
mod commands;
mod connection;
mod encode;
mod fail;
mod glob;
mod key;
mod limits;
mod metrics;
mod parse;
mod session;
mod table;
#[cfg(test)]
mod tests;
mod transaction;
mod writes;

use std::{
    io::Write,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use entourage_service::Service;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep},
};

pub use self::limits::{FeedMember, RespLimits};
use self::{
    clients::{CHECK_INTERVAL, Client, Clients},
    metrics::Metrics,
    session::Session,
};
use crate::{
    connection_limits::{CountLimit, Permit},
    front::Front,
};

const FULL: &[u8] = b"-ERR max number of clients reached\r\n";

/// State shared by all connections.
struct Shared {
    service: Arc<Service>,
    front: Arc<Front>,
    clients: Clients,
    metrics: Metrics,
}

/// The front on its port.
pub(crate) struct Resp {
    shared: Arc<Shared>,
    addresses: Arc<CountLimit<IpAddr>>,
    /// Cloned by every connection until it has ended.
    alive: mpsc::Sender<()>,
    ended: mpsc::Receiver<()>,
}

impl Resp {
    pub(crate) fn new(service: Arc<Service>, front: Arc<Front>) -> Self {
        let (clients, metrics) = (Clients::new(), Metrics::new());
        let shared = Arc::new(Shared { service, front, clients, metrics });
        let (alive, ended) = mpsc::channel(1);
        Self { shared, addresses: Arc::default(), alive, ended }
    }

    /// Accepts forever.
    pub(crate) async fn accept(&self, listener: &TcpListener) {
        let mut checking = interval(CHECK_INTERVAL);
        checking.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let accepted = tokio::select! {
                _ = checking.tick() => {
                    self.shared.clients.end_overdue(&self.shared.front.resp, &self.shared.front.access);
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => self.begin(stream, address),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn begin(&self, stream: TcpStream, address: SocketAddr) {
        let connections = self.shared.front.resp.connections;
        let permit = CountLimit::acquire_from(&self.addresses, address.ip(), connections.per_address);
        let is_known = self.shared.front.access.is_development();
        let client =
            permit.and_then(|permit| Some((self.shared.clients.enter(address, is_known, connections.max)?, permit)));
        let Some((client, permit)) = client else {
            self.shared.metrics.refused();
            // Does not wait for a rejected client.
            let _ = stream.into_std().and_then(|mut stream| stream.write_all(FULL));
            return;
        };
        let (shared, alive) = (Arc::clone(&self.shared), self.alive.clone());
        let guard = ConnectionGuard { shared, client, _permit: permit, _alive: alive };
        guard.shared.metrics.connected();
        tokio::spawn(async move {
            entourage_store::fail_point("resp");
            if let Err(error) = guard.serve(stream).await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }

    /// Lets every connection finish its current commands.
    pub(crate) async fn stop(mut self) {
        self.shared.clients.end_all();
        drop(self.alive);
        let _ = self.ended.recv().await;
    }
}

/// Held by a connection; releases what it counts in when dropped.
struct ConnectionGuard {
    shared: Arc<Shared>,
    client: Arc<Client>,
    _permit: Permit<IpAddr>,
    _alive: mpsc::Sender<()>,
}

impl ConnectionGuard {
    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        connection::run(stream, Session::new(Arc::clone(&self.shared), Arc::clone(&self.client))).await
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.shared.clients.leave(&self.client);
        self.shared.metrics.disconnected();
    }
}
