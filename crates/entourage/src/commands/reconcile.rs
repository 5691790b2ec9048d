//! `entourage reconcile`: compares counts with lists and both directions of edges, and repairs them on request.

use std::io::Write;

use anyhow::bail;
use clap::Args;
use entourage_server::{
    config::Settings,
    wire::{Wired, wire},
};
use entourage_service::{AuditReport, Call, EdgesHealed, Service};
use entourage_store::{Recounted, Store};
use serde_json::{Value, json};

use super::{offline, progress};
use crate::{output::Output, settings::DataArguments};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: DataArguments,
    /// Set counts right that are not those of their lists.
    #[arg(long)]
    counts: bool,
    /// Set the target's side of edges right, from the follower's.
    #[arg(long)]
    edges: bool,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let settings = Settings::check(&arguments.data.raw()?)?;
    let done = offline::block_on(async {
        if settings.store_url == "embedded:" {
            // Fails in an empty folder instead of creating a store.
            offline::open(&settings)?.close().await?;
        }
        let Wired { store, service, .. } = wire(&settings).await?;
        let spinner = progress::spinner("comparing");
        let found = reconcile(&service, arguments).await;
        spinner.finish_and_clear();
        store.close().await?;
        found
    })?;
    arguments.output.print(|| as_json(&done), |out| write_text(&done, out))?;
    if done.report.drifted > 0 {
        bail!(
            "the store does not agree with itself; `entourage reconcile --edges --counts` sets directions of edges and \
             counts right, and nothing else"
        );
    }
    Ok(())
}

struct Reconciled {
    healed: Option<EdgesHealed>,
    recounted: Option<Recounted>,
    report: AuditReport,
}

/// Edges first, because counts follow from lists.
async fn reconcile(service: &Service, arguments: &Arguments) -> anyhow::Result<Reconciled> {
    let call = Call::default();
    let healed = if arguments.edges { Some(service.upkeep.heal(&call, None).await?) } else { None };
    let recounted = if arguments.counts { Some(service.upkeep.recount(&call, None).await?) } else { None };
    Ok(Reconciled { healed, recounted, report: service.upkeep.audit(&call).await? })
}

fn as_json(Reconciled { healed, recounted, report }: &Reconciled) -> Value {
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
        "healed": healed.map(|healed| healed.healed),
        "unclear": healed.map(|healed| healed.unclear),
        "corrected": recounted.map(|recounted| recounted.corrected),
        "drifts": drifts,
    })
}

fn write_text(Reconciled { healed, recounted, report }: &Reconciled, out: &mut impl Write) -> std::io::Result<()> {
    if let Some(EdgesHealed { users, healed, unclear, .. }) = healed {
        writeln!(out, "looked at the edges of {users} users, set {healed} right and left {unclear} that are unclear")?;
    }
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
