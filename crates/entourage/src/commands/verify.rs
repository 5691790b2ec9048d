//! `entourage verify`: checks everything in a store and reports inconsistencies.

use std::io::Write;

use anyhow::{anyhow, bail};
use clap::Args;
use entourage_server::{
    config::Settings,
    wire::{Wired, wire},
};
use entourage_store::{Report, Store};
use serde_json::{Value, json};

use super::{offline, progress};
use crate::{output::Output, settings::DataArguments};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: DataArguments,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let settings = Settings::check(&arguments.data.raw()?)?;
    let report = offline::block_on(async {
        if settings.store_url == "embedded:" {
            return check(&offline::open(&settings)?).await;
        }
        let Wired { store, .. } = wire(&settings).await?;
        check(&*store).await
    })?;
    arguments.output.print(|| as_json(&report), |out| write_text(&report, out))?;
    judge(&report)
}

pub(super) async fn check(store: &dyn Store) -> anyhow::Result<Report> {
    let spinner = progress::spinner("verifying");
    let report = store.verify().await;
    spinner.finish_and_clear();
    report.map_err(|error| anyhow!("{}", error.detail()))
}

pub(super) fn as_json(report: &Report) -> Value {
    let Report { users, edges, records, events, problems } = report;
    let clean = report.is_clean();
    json!({
        "clean": clean, "users": users, "edges": edges, "records": records, "events": events, "problems": problems
    })
}

pub(super) fn write_text(report: &Report, out: &mut impl Write) -> std::io::Result<()> {
    let verdict = match report.problems.len() {
        0 => "clean".to_owned(),
        count => format!("{count} problems"),
    };
    let Report { users, edges, records, events, .. } = report;
    writeln!(out, "{verdict}: {users} users, {edges} edges, {records} records, {events} events")?;
    report.problems.iter().try_for_each(|problem| writeln!(out, "  {}: {}", problem.check, problem.detail))
}

/// Fails if the store has problems.
pub(super) fn judge(report: &Report) -> anyhow::Result<()> {
    if !report.is_clean() {
        bail!("the store does not agree with itself; keep a copy of it, and restore the last backup that verifies");
    }
    Ok(())
}
