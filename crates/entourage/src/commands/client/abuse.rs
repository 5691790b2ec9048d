//! `abuse list`, `abuse show`, `abuse dismiss`, `abuse confirm`: cases of suspected abuse. `abuse parked`, `abuse accept-parked`,
//! `abuse drop-parked`: follows in quarantine.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use ureq::http::Method;

use super::{
    connection::{Connection, part},
    paging::Paging,
    table,
};

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// List cases, newest first.
    List(ListArguments),
    /// Show a case with its evidence.
    Show(CaseArguments),
    /// Say that a case is no abuse.
    Dismiss(CaseArguments),
    /// Say that a case is abuse.
    Confirm(CaseArguments),
    /// List whose follows of a user are in quarantine, newest first.
    Parked(ParkedArguments),
    /// Accept every follow of a user that was parked so far.
    AcceptParked(WaveArguments),
    /// Drop every follow of a user that was parked so far.
    DropParked(WaveArguments),
}

#[derive(Args, Debug)]
pub(crate) struct ListArguments {
    /// Only these: open, dismissed or confirmed.
    #[arg(long)]
    state: Option<String>,
    /// Only these, such as surge or mass_follow.
    #[arg(long)]
    kind: Option<String>,
    /// How many, 200 at most.
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args, Debug)]
pub(crate) struct CaseArguments {
    /// The case.
    id: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args, Debug)]
pub(crate) struct ParkedArguments {
    /// Whom they want to follow.
    user: String,
    /// How many, 200 at most.
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args, Debug)]
pub(crate) struct WaveArguments {
    /// Whom they want to follow.
    user: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn run(verb: &Verb) -> anyhow::Result<()> {
    match verb {
        Verb::List(arguments) => list(arguments),
        Verb::Show(CaseArguments { id, connection }) => {
            connection.print(&connection.get(&format!("/admin/abuse/{}", part(id)))?, shown)
        }
        Verb::Dismiss(arguments) => close(arguments, "dismiss"),
        Verb::Confirm(arguments) => close(arguments, "confirm"),
        Verb::Parked(arguments) => parked(arguments),
        Verb::AcceptParked(arguments) => release(arguments, "accept"),
        Verb::DropParked(arguments) => release(arguments, "drop"),
    }
}

fn list(arguments: &ListArguments) -> anyhow::Result<()> {
    let ListArguments { state, kind, limit, paging, connection } = arguments;
    let filter = |name: &str, value: &Option<String>| {
        value.as_deref().map(|value| format!("{name}={}&", part(value))).unwrap_or_default()
    };
    let filters = filter("state", state) + &filter("kind", kind);
    let found = paging.collect(*limit, |query| connection.get(&format!("/admin/abuse?{filters}{query}")))?;
    let page = json!({ "data": found.rows, "next_cursor": found.next_cursor });
    connection.print(&page, |page| {
        let rows: Vec<Value> = page["data"].as_array().map_or(&[][..], Vec::as_slice).iter().map(row).collect();
        let columns = ["case", "kind", "state", "actors", "first", "target", "count", "last_seen"];
        format!("{}{}", table::rows(&rows, &columns), found.hint())
    })
}

/// The first account and the first target stand for all.
fn row(case: &Value) -> Value {
    json!({
        "case": case["id"],
        "kind": case["kind"],
        "state": case["state"],
        "actors": case["actor_count"],
        "first": case["actors"][0]["id"],
        "target": case["targets"][0]["id"],
        "count": case["count"],
        "last_seen": case["last_seen"],
    })
}

fn shown(case: &Value) -> String {
    let mut fields = case.clone();
    let names = |users: &Value| {
        let users = users.as_array().map_or(&[][..], Vec::as_slice).iter();
        users.map(|user| table::text(&user["id"])).collect::<Vec<_>>().join(" ")
    };
    (fields["actors"], fields["targets"]) = (names(&case["actors"]).into(), names(&case["targets"]).into());
    let evidence = fields.as_object_mut().and_then(|fields| fields.remove("evidence"));
    let evidence = evidence.as_ref().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    format!("{}\n\n{}", table::fields(&fields), table::rows(evidence, &["time", "follower", "target", "version"]))
}

fn close(arguments: &CaseArguments, verb: &str) -> anyhow::Result<()> {
    let CaseArguments { id, connection } = arguments;
    let answer = connection.ask(Method::POST, &format!("/admin/abuse/{}/{verb}", part(id)), None)?;
    connection.print(&answer, |closed| {
        let (id, state) = (table::text(&closed["case"]["id"]), table::text(&closed["case"]["state"]));
        format!("case {id} is {state}")
    })
}

fn parked(arguments: &ParkedArguments) -> anyhow::Result<()> {
    let ParkedArguments { user, limit, paging, connection } = arguments;
    let path = format!("/admin/users/{}/parked", part(user));
    let mut total = Value::Null;
    let found = paging.collect(*limit, |query| {
        let page = connection.get(&format!("{path}?{query}"))?;
        total = page["total"].clone();
        Ok(page)
    })?;
    let page = json!({ "data": found.rows, "total": total, "next_cursor": found.next_cursor });
    connection.print(&page, |page| {
        let rows = table::rows(&found.rows, &["id", "name", "created_at"]);
        format!("{rows}\n{} parked{}", table::text(&page["total"]), found.hint())
    })
}

/// A job does it in chunks; `jobs` shows how far it is.
fn release(arguments: &WaveArguments, verb: &str) -> anyhow::Result<()> {
    let WaveArguments { user, connection } = arguments;
    let answer = connection.ask(Method::POST, &format!("/admin/users/{}/parked:{verb}", part(user)), None)?;
    connection.print(&answer["job"], table::fields)
}
