//! Serving: accept connections, answer on each, stop without losing an answer.

use std::{future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use entourage_model::Error;
use entourage_service::Service;
use entourage_store::{Health, Store};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use crate::{http, metrics, patience::Patience};

const CONNECTIONS_MAX: usize = 8_192;
const HEADERS_MAX: usize = 64;
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const HEALTH_INTERVAL: Duration = Duration::from_millis(200);
const METRICS_INTERVAL: Duration = Duration::from_secs(5);
/// How a store says that its writer will not take another write until the process starts anew.
const POISONED: &str = "poisoned";

/// Why serving ended.
#[derive(Debug)]
pub enum Stopped {
    /// The shutdown signal came; everything is on disk.
    AsAsked,
    /// The store's writer failed for good.
    Poisoned(String),
    /// The store could not be closed cleanly.
    CloseFailed(Error),
}

/// Without credentials anybody who can connect may do anything, so only this machine may connect.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "refusing to listen on {address}: no credentials are configured, so anybody who can connect could act \
                 for everybody. Listen on loopback (--http 127.0.0.1:{}) and put a proxy that authenticates in front",
                address.port()
            ),
        ));
    }
    let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
    TcpListener::bind(address).await.map_err(named)
}

/// Answers until `shutdown` completes or the store is poisoned, then finishes what has begun and closes the store.
pub async fn serve(
    listener: TcpListener,
    service: Arc<Service>,
    store: Arc<dyn Store>,
    shutdown: impl Future<Output = ()>,
) -> Stopped {
    metrics::install();
    let connections = GracefulShutdown::new();
    let poisoned = tokio::select! {
        () = accept(&listener, http::router(service), &connections) => None,
        () = shutdown => None,
        reason = poisoning(&*store) => Some(reason),
    };
    drop(listener);
    if timeout(STOP_TIMEOUT, connections.shutdown()).await.is_err() {
        tracing::warn!("some connections did not finish within {} s", STOP_TIMEOUT.as_secs());
    }
    let closed = store.close().await;
    match (poisoned, closed) {
        (Some(reason), _) => Stopped::Poisoned(reason),
        (None, Err(error)) => Stopped::CloseFailed(error),
        (None, Ok(())) => Stopped::AsAsked,
    }
}

async fn accept(listener: &TcpListener, router: axum::Router, connections: &GracefulShutdown) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed; past the bound, clients wait in the system's queue.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let answering = connections.watch(connection(stream, router.clone()));
                tokio::spawn(async move {
                    if let Err(error) = answering.await {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// HTTP/1 alone: looking for a preface of another version would wait without the header timeout.
fn connection(
    stream: TcpStream,
    router: axum::Router,
) -> http1::Connection<TokioIo<Patience>, TowerToHyperService<axum::Router>> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(Patience::new(stream, WRITE_TIMEOUT)), TowerToHyperService::new(router))
}

/// Ends when the store says that it is poisoned; keeps the measures in order meanwhile.
async fn poisoning(store: &dyn Store) -> String {
    let mut health = interval(HEALTH_INTERVAL);
    health.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut folding = pin!(fold_metrics());
    loop {
        tokio::select! {
            _ = health.tick() => {}
            () = &mut folding => {}
        }
        if let Health::Degraded(reason) = store.health().await
            && reason.starts_with(POISONED)
        {
            return reason;
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
