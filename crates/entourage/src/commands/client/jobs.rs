//! `jobs`: what runs in the background and what is scheduled; `jobs run TASK` runs a scheduled task now.

use clap::{Args, Subcommand};
use serde_json::Value;
use ureq::http::Method;

use super::{
    connection::{Connection, part},
    table,
};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Run a scheduled task now.
    Run(RunArguments),
}

#[derive(Args, Debug)]
struct RunArguments {
    /// Such as count_audit; `jobs` lists them.
    task: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.verb {
        Some(Verb::Run(RunArguments { task, connection })) => {
            let answer = connection.ask(Method::POST, &format!("/admin/jobs/{}/run", part(task)), None)?;
            connection.print(&answer["scheduled"], table::fields)
        }
        None => {
            let answer = arguments.connection.get("/admin/jobs")?;
            arguments.connection.print(&answer, shown)
        }
    }
}

fn shown(answer: &Value) -> String {
    let rows = |name: &str| answer[name].as_array().map_or(&[][..], Vec::as_slice).to_vec();
    let scheduled = table::rows(
        &rows("scheduled"),
        &["task", "every_seconds", "running", "last_finished_at", "result", "detail", "next_at"],
    );
    let jobs = table::rows(&rows("data"), &["id", "kind", "state", "subject", "edges", "updated_at", "error"]);
    format!("{scheduled}\n{jobs}")
}
