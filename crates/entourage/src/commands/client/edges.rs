//! `follow`, `unfollow`, `block`, `unblock`, `check`, `relation`.

use clap::Args;
use serde_json::{Value, json};
use ureq::http::Method;

use super::{
    connection::{Connection, part},
    table,
};

#[derive(Args, Debug)]
pub(crate) struct PairArguments {
    /// Who does it.
    user: String,
    /// To whom.
    target: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args, Debug)]
pub(crate) struct FollowArguments {
    #[command(flatten)]
    pair: PairArguments,
    /// Unseen by everybody else; `--quiet=false` shows a quiet follow. Without it, what is there stays.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    quiet: Option<bool>,
}

#[derive(Args, Debug)]
pub(crate) struct ManyArguments {
    /// Who is asked about.
    user: String,
    /// The others.
    #[arg(required = true)]
    targets: Vec<String>,
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn follow(arguments: &FollowArguments) -> anyhow::Result<()> {
    let FollowArguments { pair, quiet } = arguments;
    change(pair, Method::PUT, "following", quiet.map(|quiet| json!({ "quiet": quiet })))
}

pub(super) fn unfollow(arguments: &PairArguments) -> anyhow::Result<()> {
    change(arguments, Method::DELETE, "following", None)
}

pub(super) fn block(arguments: &PairArguments) -> anyhow::Result<()> {
    change(arguments, Method::PUT, "blocks", None)
}

pub(super) fn unblock(arguments: &PairArguments) -> anyhow::Result<()> {
    change(arguments, Method::DELETE, "blocks", None)
}

fn change(arguments: &PairArguments, method: Method, list: &str, body: Option<Value>) -> anyhow::Result<()> {
    let PairArguments { user, target, connection } = arguments;
    let path = format!("/users/{}/{list}/{}", part(user), part(target));
    connection.print(&connection.ask(method, &path, body.as_ref())?, table::fields)
}

pub(super) fn check(arguments: &ManyArguments) -> anyhow::Result<()> {
    let ManyArguments { user, targets, connection } = arguments;
    let path = format!("/users/{}/is-following", part(user));
    let answer = connection.ask(Method::POST, &path, Some(&json!({ "targets": targets })))?;
    connection.print(&answer, |answer| {
        let line = |target: &String| format!("{user} {} {target}", verb(&answer["results"][target.as_str()]));
        targets.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}

fn verb(following: &Value) -> &'static str {
    if *following == true { "follows" } else { "does not follow" }
}

pub(super) fn relation(arguments: &ManyArguments) -> anyhow::Result<()> {
    let ManyArguments { user, targets, connection } = arguments;
    let path = format!("/users/{}/relationships", part(user));
    let answer = connection.ask(Method::POST, &path, Some(&json!({ "ids": targets })))?;
    connection.print(&answer, |answer| {
        let rows = answer["data"].as_array().or(answer.as_array()).cloned().unwrap_or_default();
        rows.iter().map(table::fields).collect::<Vec<_>>().join("\n\n")
    })
}
