//! `entourage version`.

use std::io::Write;

use clap::Args;
use serde_json::json;

use crate::output::Output;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), option_env!("GIT_COMMIT"));
    let commit_text = commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
    arguments.output.print(
        || json!({ "name": "entourage", "version": version, "commit": commit }),
        |out| writeln!(out, "entourage {version}{commit_text}"),
    )
}
