//! `entourage doctor`: checks what a server needs without changing anything, and says what to do.

mod data_folder;
mod machine;
mod server;

use std::{io::Write, sync::Arc};

use anyhow::bail;
use clap::Args;
use entourage_server::{
    Front,
    config::{ConfigError, Settings},
};
use entourage_store::SystemClock;
use serde::Serialize;
use serde_json::json;

use super::client::Authorities;
use crate::settings::SettingsArguments;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Look also whether a server answers at the address that its clients use.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    authorities: Authorities,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    /// Works, but could be better.
    Warn,
    /// A server would not start or not be safe.
    Fail,
}

/// What was checked, what was found, and what to do about it.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, detail: detail.into(), next: None }
    }

    fn warn(check: &'static str, detail: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Warn, detail: detail.into(), next: Some(next.into()) }
    }

    fn fail(check: &'static str, detail: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Fail, detail: detail.into(), next: Some(next.into()) }
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut findings = match arguments.settings.raw().and_then(|raw| Settings::check(&raw)) {
        Ok(settings) => look(&settings),
        Err(error) => vec![configuration(&error)],
    };
    findings.extend(arguments.server.as_deref().map(|server| server::ask(server, &arguments.authorities)));
    let failed = findings.iter().filter(|finding| finding.verdict == Verdict::Fail).count();
    let mut out = std::io::stdout();
    if arguments.json {
        writeln!(out, "{}", json!({ "healthy": failed == 0, "checks": findings }))?;
    } else {
        findings.iter().try_for_each(|finding| write_text(finding, &mut out))?;
    }
    if failed > 0 {
        bail!("{failed} of {} checks failed", findings.len());
    }
    Ok(())
}

/// Everything that `serve` checks at startup, with the same code.
fn look(settings: &Settings) -> Vec<Finding> {
    let front = match Front::check(settings, Arc::new(SystemClock)) {
        Ok(front) => front,
        Err(error) => return vec![configuration(&error)],
    };
    let mut findings = vec![Finding::ok("configuration", "every setting is valid, and the files it names can be used")];
    let addresses = server::Addresses::look(settings, &front);
    if settings.store_url == "embedded:" {
        findings.extend(data_folder::look(settings, addresses.is_running()));
    } else {
        findings.push(server::store(settings));
    }
    findings.extend(machine::look(settings));
    findings.extend(addresses.findings);
    findings
}

fn configuration(error: &ConfigError) -> Finding {
    let next = match error {
        ConfigError::File { .. } => "put the file right, or the setting that names it",
        _ => "put the setting right; `entourage config print --origin` shows where each comes from",
    };
    Finding::fail("configuration", error.to_string(), next)
}

fn write_text(finding: &Finding, out: &mut impl Write) -> std::io::Result<()> {
    let verdict = match finding.verdict {
        Verdict::Ok => "ok  ",
        Verdict::Warn => "warn",
        Verdict::Fail => "FAIL",
    };
    writeln!(out, "{verdict}  {:<14} {}", finding.check, finding.detail)?;
    match &finding.next {
        Some(next) => writeln!(out, "      {:<14} {next}", ""),
        None => Ok(()),
    }
}
