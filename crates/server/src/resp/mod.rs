//! RESP2 and RESP3: the graph for any Redis client, under the key names teams already use. The front parses, asks the
//! service and encodes; it decides nothing.

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
mod measures;
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
    clients::{Client, Clients, LOOK_INTERVAL},
    measures::Measures,
    session::Session,
};
use crate::{
    front::Front,
    places::{Place, Places},
};

const FULL: &[u8] = b"-ERR max number of clients reached\r\n";

/// What all connections have in common.
struct Shared {
    service: Arc<Service>,
    front: Arc<Front>,
    clients: Clients,
    measures: Measures,
}

/// The front on its port.
pub(crate) struct Resp {
    shared: Arc<Shared>,
    addresses: Arc<Places<IpAddr>>,
    /// Every connection has one of these until it has ended.
    alive: mpsc::Sender<()>,
    ended: mpsc::Receiver<()>,
}

impl Resp {
    pub(crate) fn new(service: Arc<Service>, front: Arc<Front>) -> Self {
        let (clients, measures) = (Clients::new(), Measures::new());
        let shared = Arc::new(Shared { service, front, clients, measures });
        let (alive, ended) = mpsc::channel(1);
        Self { shared, addresses: Arc::default(), alive, ended }
    }

    /// Accepts for ever.
    pub(crate) async fn accept(&self, listener: &TcpListener) {
        let mut looking = interval(LOOK_INTERVAL);
        looking.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let accepted = tokio::select! {
                _ = looking.tick() => {
                    self.shared.clients.look(&self.shared.front.resp, &self.shared.front.access);
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
        let place = Places::enter_from(&self.addresses, address.ip(), connections.per_address);
        let is_known = self.shared.front.access.is_development();
        let client =
            place.and_then(|place| Some((self.shared.clients.enter(address, is_known, connections.max)?, place)));
        let Some((client, place)) = client else {
            self.shared.measures.refused();
            // Nobody waits for a client that may not stay.
            let _ = stream.into_std().and_then(|mut stream| stream.write_all(FULL));
            return;
        };
        let (shared, alive) = (Arc::clone(&self.shared), self.alive.clone());
        let stay = Stay { shared, client, _place: place, _alive: alive };
        stay.shared.measures.connected();
        tokio::spawn(async move {
            entourage_store::fail_point("resp");
            if let Err(error) = stay.serve(stream).await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }

    /// Lets every connection finish what it is at.
    pub(crate) async fn stop(mut self) {
        self.shared.clients.end_all();
        drop(self.alive);
        let _ = self.ended.recv().await;
    }
}

/// A connection from its beginning to its end, however it ends.
struct Stay {
    shared: Arc<Shared>,
    client: Arc<Client>,
    _place: Place<IpAddr>,
    _alive: mpsc::Sender<()>,
}

impl Stay {
    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        connection::run(stream, Session::new(Arc::clone(&self.shared), Arc::clone(&self.client))).await
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.shared.clients.leave(&self.client);
        self.shared.measures.disconnected();
    }
}
