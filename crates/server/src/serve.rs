//! Serving: accepts connections, answers on each, and shuts down without losing a response.

use std::{future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use entourage_model::Error;
use entourage_service::Service;
use entourage_store::{Health, Store, Unhealthy, Writers};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::TokioIo,
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinError,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tower::Service as _;

use crate::{
    connection_limits::CountLimit,
    front::Front,
    http::{self, Peer, Reserved},
    keep_alive::{HeaderTimer, Received},
    metrics,
    resp::Resp,
    write_timeout::WriteTimeout,
};

const HEADERS_MAX: usize = 64;
/// Per connection: the head of a request, and output for a client that does not read.
const BUFFER_BYTES: usize = 128 << 10;
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Beyond `http.connections_max`, for probes and admins; they send their request soon.
const RESERVED_CONNECTIONS: usize = 16;
const RESERVED_HEADER_READ_TIMEOUT: Duration = Duration::from_secs(2);
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const HEALTH_INTERVAL: Duration = Duration::from_millis(200);
/// Where the question is a round trip.
const REMOTE_HEALTH_INTERVAL: Duration = Duration::from_secs(10);
const METRICS_INTERVAL: Duration = Duration::from_secs(5);

/// Why serving ended.
#[derive(Debug)]
pub enum Stopped {
    /// Shutdown was requested; everything is on disk.
    AsAsked,
    /// The store's writer failed for good.
    Poisoned(String),
    /// The background work ended before shutdown.
    WorkEnded(String),
    /// The store could not be closed cleanly.
    CloseFailed(Error),
}

/// Where a server listens.
pub struct Listeners {
    /// `None` is no HTTP.
    pub http: Option<TcpListener>,
    /// `None` is no RESP.
    pub resp: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(http: TcpListener) -> Self {
        Self { http: Some(http), resp: None }
    }
}

/// Listens for HTTP.
pub async fn bind(address: SocketAddr, front: &Front) -> io::Result<TcpListener> {
    bind_for(address, front, "--http").await
}

/// Listens for RESP.
pub async fn bind_resp(address: SocketAddr, front: &Front) -> io::Result<TcpListener> {
    bind_for(address, front, "--resp").await
}

async fn bind_for(address: SocketAddr, front: &Front, flag: &str) -> io::Result<TcpListener> {
    front.may_listen(address, flag).map_err(|refusal| io::Error::new(io::ErrorKind::PermissionDenied, refusal))?;
    let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
    TcpListener::bind(address).await.map_err(named)
}

/// Serves until `shutdown` completes or the store is poisoned, then finishes requests in flight and closes the store.
pub async fn serve(
    listeners: impl Into<Listeners>,
    service: Arc<Service>,
    store: Arc<dyn Store>,
    front: Arc<Front>,
    shutdown: impl Future<Output = ()>,
) -> Stopped {
    metrics::install();
    let listeners = listeners.into();
    let connections = GracefulShutdown::new();
    let background = Arc::clone(&service);
    let mut background = tokio::spawn(async move { background.run().await });
    let router = http::router(Arc::clone(&service), Arc::clone(&front));
    let resp = Resp::new(Arc::clone(&service), Arc::clone(&front));
    let early = tokio::select! {
        () = accept_http(listeners.http.as_ref(), &front, router, &connections) => None,
        () = accept_resp(listeners.resp.as_ref(), &resp) => None,
        () = front.streams.end_invalid(&front.access) => None,
        () = shutdown => None,
        reason = poisoning(&*store) => Some(Stopped::Poisoned(reason)),
        // Without it feeds would stand still unnoticed.
        ended = &mut background => Some(Stopped::WorkEnded(how_it_ended(ended))),
    };
    drop(listeners);
    front.shutdown.begin();
    service.end_streams();
    let finishing = async { tokio::join!(connections.shutdown(), resp.stop()) };
    if timeout(STOP_TIMEOUT, finishing).await.is_err() {
        tracing::warn!("some connections did not finish within {} s", STOP_TIMEOUT.as_secs());
    }
    // It was told to end; it finishes its current step before the store is closed.
    if !background.is_finished() && timeout(STOP_TIMEOUT, background).await.is_err() {
        tracing::warn!("some work in the background did not end within {} s", STOP_TIMEOUT.as_secs());
    }
    let closed = store.close().await;
    match (early, closed) {
        (Some(stopped), _) => stopped,
        (None, Err(error)) => Stopped::CloseFailed(error),
        (None, Ok(())) => Stopped::AsAsked,
    }
}

/// Why a task ended by itself.
pub fn how_it_ended(ended: Result<(), JoinError>) -> String {
    let Err(error) = ended else { return "nothing was left to do".to_owned() };
    match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("a panic: {}", text.unwrap_or("of unknown reason"))
        }
        Err(error) => error.to_string(),
    }
}

async fn accept_http(
    listener: Option<&TcpListener>,
    front: &Arc<Front>,
    router: axum::Router,
    connections: &GracefulShutdown,
) {
    match listener {
        Some(listener) => accept(listener, front, router, connections).await,
        None => std::future::pending().await,
    }
}

async fn accept_resp(listener: Option<&TcpListener>, resp: &Resp) {
    match listener {
        Some(listener) => resp.accept(listener).await,
        None => std::future::pending().await,
    }
}

/// Connection slots: open to everybody, and reserved ones.
struct Slots {
    open: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
}

struct Slot {
    is_reserved: bool,
    _permit: OwnedSemaphorePermit,
}

impl Slots {
    fn new(max: usize) -> Self {
        Self { open: Arc::new(Semaphore::new(max)), reserved: Arc::new(Semaphore::new(RESERVED_CONNECTIONS)) }
    }

    /// The semaphores are never closed; beyond both limits, clients wait in the listen backlog.
    async fn next(&self) -> Option<Slot> {
        let [open, reserved] = [&self.open, &self.reserved].map(Arc::clone);
        let (is_reserved, permit) = tokio::select! {
            biased;
            permit = open.acquire_owned() => (false, permit),
            permit = reserved.acquire_owned() => (true, permit),
        };
        Some(Slot { is_reserved, _permit: permit.ok()? })
    }

    /// Trades a reserved slot for an open one that was freed meanwhile.
    fn opened(&self, slot: Slot) -> Slot {
        match Arc::clone(&self.open).try_acquire_owned() {
            Ok(permit) if slot.is_reserved => Slot { is_reserved: false, _permit: permit },
            _ => slot,
        }
    }
}

async fn accept(listener: &TcpListener, front: &Arc<Front>, router: axum::Router, connections: &GracefulShutdown) {
    let slots = Slots::new(front.connections.max);
    let addresses = Arc::new(CountLimit::default());
    loop {
        let Some(slot) = slots.next().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Some(permit) = CountLimit::acquire_from(&addresses, peer.ip(), front.connections.per_address)
                else {
                    tracing::debug!(%peer, "an address has too many connections");
                    continue;
                };
                let slot = slots.opened(slot);
                let connection = Connection { peer, is_reserved: slot.is_reserved };
                let (front, router, watcher) = (Arc::clone(front), router.clone(), connections.watcher());
                tokio::spawn(async move {
                    entourage_store::fail_point("http");
                    if let Err(error) = connection.serve(stream, &front, router, watcher).await {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    drop((slot, permit));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Copy)]
struct Connection {
    peer: SocketAddr,
    is_reserved: bool,
}

impl Connection {
    /// In its own task from the first byte, so that a slow TLS handshake delays nobody else.
    async fn serve(
        self,
        stream: TcpStream,
        front: &Front,
        router: axum::Router,
        watcher: Watcher,
    ) -> Result<(), AnyError> {
        stream.set_nodelay(true)?;
        let received = Arc::<Received>::default();
        // Shutdown does not wait for connections without a request.
        let has_asked = Arc::clone(&received);
        let stopped = async {
            front.shutdown.after_grace().await;
            if has_asked.has_request() {
                std::future::pending().await
            }
        };
        let served = async {
            match &front.tls {
                Some(tls) => self.answer(tls.accept(stream).await?, received, router, watcher).await,
                None => self.answer(stream, received, router, watcher).await,
            }
        };
        tokio::select! {
            served = served => served,
            () = stopped => Ok(()),
        }
    }

    /// HTTP/1 only: waiting for an HTTP/2 preface would bypass the header timeout.
    async fn answer(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        received: Arc<Received>,
        router: axum::Router,
        watcher: Watcher,
    ) -> Result<(), AnyError> {
        let Self { peer, is_reserved } = self;
        let timeout = if is_reserved { RESERVED_HEADER_READ_TIMEOUT } else { HEADER_READ_TIMEOUT };
        let timer = HeaderTimer { received: Arc::clone(&received), timeout };
        let stream = WriteTimeout::new(stream, WRITE_TIMEOUT, Arc::clone(&received));
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            received.request();
            request.extensions_mut().insert(Peer(peer));
            if is_reserved {
                request.extensions_mut().insert(Reserved);
            }
            // A router is always ready.
            router.clone().call(request)
        });
        let connection = http1::Builder::new()
            .timer(timer)
            .header_read_timeout(timeout)
            .max_headers(HEADERS_MAX)
            .max_buf_size(BUFFER_BYTES)
            .keep_alive(!is_reserved)
            .serve_connection(TokioIo::new(stream), service);
        Ok(watcher.watch(connection).await?)
    }
}

/// Ends when the store is poisoned; folds metrics meanwhile.
async fn poisoning(store: &dyn Store) -> String {
    let is_remote = store.guarantees().writers == Writers::Many;
    let mut health = interval(if is_remote { REMOTE_HEALTH_INTERVAL } else { HEALTH_INTERVAL });
    health.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut folding = pin!(fold_metrics());
    loop {
        tokio::select! {
            _ = health.tick() => {}
            () = &mut folding => {}
        }
        if let Health::Degraded(reason @ Unhealthy::Poisoned(_)) = store.health().await {
            return reason.to_string();
        }
    }
}

async fn fold_metrics() {
    let mut every = interval(METRICS_INTERVAL);
    loop {
        every.tick().await;
        metrics::fold();
    }
}
