//! `entourage version`.

use std::io::Write;

use clap::Args;
use serde_json::json;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), option_env!("GIT_COMMIT"));
    let mut out = std::io::stdout();
    if arguments.json {
        writeln!(out, "{}", json!({ "name": "entourage", "version": version, "commit": commit }))?;
    } else {
        writeln!(out, "entourage {version}{}", commit.map(|commit| format!(" ({commit})")).unwrap_or_default())?;
    }
    Ok(())
}
