//! `entourage serve`: starts, prints its addresses, stops on a signal.

use std::{
    io::Write,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use anyhow::{Context, bail};
use clap::Args;
use entourage_server::{
    Front, Listeners, Stopped, bind, bind_resp,
    config::Settings,
    how_it_ended, serve,
    wire::{Wired, wire_to_serve},
    work,
};
use entourage_service::{Role, Roles};
use entourage_store::SystemClock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use super::demo;
use crate::{logs, settings::SettingsArguments};

/// Polls between socket checks: tasks that yield and are ready at once must not starve I/O.
const TURNS_BETWEEN_LOOKS: u32 = 8;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Fill an empty store with ten thousand people who follow each other and go on talking.
    #[arg(long)]
    demo: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut raw = arguments.settings.raw()?;
    if arguments.demo {
        demo::settle(&mut raw)?;
    }
    let settings = Settings::check(&raw)?;
    let _logs = logs::start(&settings);
    raise_file_limit(settings.connections_max + settings.resp_listen.map_or(0, |_| settings.resp.connections.max));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .event_interval(TURNS_BETWEEN_LOOKS)
        .enable_all()
        .build()
        .context("starting threads")?;
    runtime.block_on(run_until_stopped(&settings, arguments.demo))
}

async fn run_until_stopped(settings: &Settings, with_demo: bool) -> anyhow::Result<()> {
    let front = Arc::new(Front::open(settings, Arc::new(SystemClock))?);
    let http = match settings.roles.has(Role::Http) {
        true => Some(bind(settings.http_listen, &front).await?),
        false => None,
    };
    let resp = match settings.resp_listen.filter(|_| settings.roles.has(Role::Resp)) {
        Some(address) => Some(bind_resp(address, &front).await?),
        None => None,
    };
    let mut terminate = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("waiting for SIGINT")?;
    let mut hangup = signal(SignalKind::hangup()).context("waiting for SIGHUP")?;
    let of_reload = Arc::clone(&front);
    let mut reloading = tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            entourage_store::fail_point("reload");
            of_reload.reload();
        }
    });
    let Wired { store, service, place } = wire_to_serve(settings).await?;
    let demo = if with_demo { Some(demo::load(&service).await?) } else { None };
    let scheme = if front.tls.is_some() { "https" } else { "http" };
    let http_address = http.as_ref().map(tokio::net::TcpListener::local_addr).transpose()?;
    let base = http_address.map(|address| format!("{scheme}://{address}"));
    let resp_address = resp.as_ref().map(tokio::net::TcpListener::local_addr).transpose()?;
    print_banner(base.as_deref(), resp_address, &place, settings.roles, &front)?;
    if let (Some(loaded), Some(base)) = (&demo, &base) {
        demo::print(loaded, settings.feed.celebrity_followers, base)?;
    }
    let (stop_working, stopped) = tokio::sync::watch::channel(());
    let working = Arc::clone(&service);
    let mut worker = tokio::spawn(async move {
        // It never changes, and ends with its sender.
        let stop = |mut stopped: tokio::sync::watch::Receiver<()>| async move { drop(stopped.changed().await) };
        tokio::join!(work(&working, stop(stopped.clone())), demo::talk(demo.as_ref(), &working, stop(stopped)),);
    });
    let ended_early = OnceLock::new();
    let shutdown = async {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
            ended = &mut worker => {
                let _ = ended_early.set(("the worker for jobs", how_it_ended(ended)));
                return;
            }
            ended = &mut reloading => {
                let _ = ended_early.set(("the task that reads files again", how_it_ended(ended)));
                return;
            }
        };
        tracing::info!(signal = name, "stopping");
        drop(stop_working);
        if let Err(error) = worker.await {
            tracing::error!(%error, "the worker ended early");
        }
    };
    let stopped = serve(Listeners { http, resp }, service, store, front, shutdown).await;
    if let Some((what, reason)) = ended_early.into_inner() {
        bail!("{what} ended: {reason}; start again, and what had begun goes on");
    }
    match stopped {
        Stopped::WorkEnded(reason) => {
            bail!("the work beside requests ended: {reason}; start again, and it goes on where it was")
        }
        Stopped::AsAsked => {
            tracing::info!("stopped");
            Ok(())
        }
        Stopped::Poisoned(reason) => {
            tracing::error!(reason, "the store takes no more writes; start again to recover");
            bail!("the store takes no more writes: {reason}")
        }
        Stopped::CloseFailed(error) => Err(error).context("closing the store"),
    }
}

/// Raises the limit of open files, which connections need, to the hard limit.
fn raise_file_limit(connections_max: usize) {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    if limit.maximum.is_some_and(|files| files < connections_max as u64) {
        tracing::warn!(files = limit.maximum, connections_max, "fewer files than connections can be open");
    }
}

fn print_banner(
    base: Option<&str>,
    resp: Option<SocketAddr>,
    place: &str,
    roles: Roles,
    front: &Front,
) -> std::io::Result<()> {
    let (mode, header) = match (front.access.is_development(), &front.tls) {
        (true, _) => ("development: loopback only, the header Entourage-Actor names the acting user", ""),
        (false, Some(_)) => ("credentials are asked for", "-H \"Authorization: Bearer $KEY\" "),
        (false, None) => (
            "credentials are asked for, without TLS: put a proxy with TLS in front, or set tls.cert_file",
            "-H \"Authorization: Bearer $KEY\" ",
        ),
    };
    let resp = resp.map_or("off".to_owned(), |address| format!("redis://{address}"));
    let mut err = std::io::stderr();
    let version = env!("CARGO_PKG_VERSION");
    let http = base.map_or("off".to_owned(), |base| format!("{base}/api/v1"));
    writeln!(err, "entourage {version}\n  resp   {resp}\n  http   {http}\n  data   {place}\n  mode   {mode}")?;
    if roles != Roles::ALL {
        writeln!(err, "  roles  {roles}")?;
    }
    let Some(base) = base else { return Ok(()) };
    writeln!(
        err,
        "  try    curl -X PUT {base}/api/v1/users/alice {header}-H 'Content-Type: application/json' \
         -d '{{\"name\": \"Alice\"}}'",
    )
}
