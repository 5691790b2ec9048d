//! `entourage serve`: start, say where, stop when asked.

use std::io::Write;

use anyhow::{Context, bail};
use clap::Args;
use entourage_server::{
    Stopped, bind,
    config::Settings,
    serve,
    wire::{Wired, wire},
};
use tokio::signal::unix::{SignalKind, signal};

use super::demo;
use crate::{logs, settings::SettingsArguments};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Fill an empty store with ten thousand people who follow each other.
    #[arg(long)]
    demo: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let settings = Settings::check(&arguments.settings.raw()?)?;
    logs::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    runtime.block_on(run_until_stopped(&settings, arguments.demo))
}

async fn run_until_stopped(settings: &Settings, with_demo: bool) -> anyhow::Result<()> {
    let listener = bind(settings.http_listen).await?;
    let mut terminate = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("waiting for SIGINT")?;
    let Wired { store, service, place } = wire(settings).await?;
    let demo = if with_demo { Some(demo::load(&service).await?) } else { None };
    let address = listener.local_addr()?.to_string();
    print_banner(&address, &place)?;
    if let Some(said) = demo {
        demo::print(&said, &address)?;
    }
    let shutdown = async {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "stopping");
    };
    match serve(listener, service, store, shutdown).await {
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

fn print_banner(address: &str, place: &str) -> std::io::Result<()> {
    writeln!(
        std::io::stderr(),
        "entourage {version}\n  \
         http   http://{address}/api/v1\n  \
         data   {place}\n  \
         mode   development: loopback only, the header Entourage-Actor names the acting user\n  \
         try    curl -X PUT http://{address}/api/v1/users/alice -H 'Content-Type: application/json' \
         -d '{{\"name\": \"Alice\"}}'",
        version = env!("CARGO_PKG_VERSION"),
    )
}
