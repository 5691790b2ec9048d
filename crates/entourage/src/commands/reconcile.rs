//! `entourage reconcile`: compares counts with lists and both directions with each other; sets counts right when told to.

use std::io::Write;

use anyhow::bail;
use clap::Args;
use entourage_server::{
    config::Settings,
    wire::{Wired, wire},
};
use entourage_service::{AuditReport, Call, Service};
use entourage_store::{Recounted, Store};
use serde_json::{Value, json};

use super::{offline, progress};
use crate::settings::DataArguments;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: DataArguments,
    /// Set counts right that are not those of their lists.
    #[arg(long)]
    counts: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let settings = Settings::check(&arguments.data.raw()?)?;
    let (recounted, report) = offline::block_on(async {
        if settings.store_url == "embedded:" {
            // Makes nothing in an empty folder.
            offline::open(&settings)?.close().await?;
        }
        let Wired { store, service, .. } = wire(&settings).await?;
        let spinner = progress::spinner("comparing");
        let found = reconcile(&service, arguments.counts).await;
        spinner.finish_and_clear();
        store.close().await?;
        found
    })?;
    let mut out = std::io::stdout();
    if arguments.json {
        writeln!(out, "{}", as_json(recounted, &report))?;
    } else {
        write_text(recounted, &report, &mut out)?;
    }
    if report.drifted > 0 {
        bail!(
            "the store does not agree with itself; `entourage reconcile --counts` sets counts right, and nothing else"
        );
    }
    Ok(())
}

async fn reconcile(service: &Service, counts: bool) -> anyhow::Result<(Option<Recounted>, AuditReport)> {
    let call = Call::default();
    let recounted = if counts { Some(service.recount(&call, None).await?) } else { None };
    Ok((recounted, service.audit(&call).await?))
}

fn as_json(recounted: Option<Recounted>, report: &AuditReport) -> Value {
    let drifts: Vec<Value> = report
        .drifts
        .iter()
        .map(|drift| {
            json!({ "user": drift.user.as_str(), "list": drift.list, "cause": drift.cause, "detail": drift.detail })
        })
        .collect();
    json!({
        "clean": report.drifted == 0,
        "users": report.users,
        "edges": report.edges,
        "drifted": report.drifted,
        "corrected": recounted.map(|recounted| recounted.corrected),
        "drifts": drifts,
    })
}

fn write_text(recounted: Option<Recounted>, report: &AuditReport, out: &mut impl Write) -> std::io::Result<()> {
    if let Some(Recounted { users, corrected }) = recounted {
        writeln!(out, "counted the lists of {users} users and set {corrected} counts right")?;
    }
    let verdict = match report.drifted {
        0 => "clean".to_owned(),
        count => format!("{count} users drifted"),
    };
    writeln!(out, "{verdict}: {} users, {} edges", report.users, report.edges)?;
    report.drifts.iter().try_for_each(|drift| {
        writeln!(out, "  {} {}: {}, {}", drift.user.as_str(), drift.list, drift.cause, drift.detail)
    })
}
