//! `events`.

use clap::Args;
use serde_json::Value;

use super::{
    connection::{Connection, part},
    table,
};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Go on from the next_cursor of an earlier answer.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// How many, 200 at most.
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { after, limit, connection } = arguments;
    let after = after.as_deref().map(|cursor| format!("&after={}", part(cursor))).unwrap_or_default();
    connection.print(&connection.get(&format!("/events?limit={limit}{after}"))?, |page| {
        let lines: Vec<String> = page["data"].as_array().map_or(&[][..], Vec::as_slice).iter().map(line).collect();
        let next = page["next_cursor"].as_str().map(|cursor| format!("next with --after {cursor}"));
        lines.into_iter().chain(next).collect::<Vec<_>>().join("\n")
    })
}

fn line(event: &Value) -> String {
    let names = ["follower", "target", "owner", "group", "name", "member", "author", "post_id"];
    let case = ["id", "kind", "actor", "target"].map(|name| &event["case"][name]);
    let ends = [&event["user"]["id"]].into_iter().chain(case).chain(names.iter().map(|name| &event[*name]));
    let ends: Vec<&str> = ends.filter_map(Value::as_str).collect();
    let until = event["expires_at"].as_str().map(|time| format!(" until {time}")).unwrap_or_default();
    format!("{} {} {}{until}", table::text(&event["time"]), table::text(&event["type"]), ends.join(" "))
}
