//! `followers` and `following`.

use clap::Args;
use serde_json::{Value, json};

use super::{
    connection::{Connection, part},
    table,
};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Whose list.
    user: String,
    /// Rows of a page, 200 at most.
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Go on from the next_cursor of another page.
    #[arg(long, conflicts_with = "all")]
    cursor: Option<String>,
    /// Page through to the end.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn run(arguments: &Arguments, list: &str) -> anyhow::Result<()> {
    let Arguments { user, limit, cursor, all, connection } = arguments;
    let mut cursor = cursor.clone();
    let (mut rows, mut total) = (Vec::new(), Value::Null);
    loop {
        let after = cursor.as_deref().map(|cursor| format!("&cursor={}", part(cursor))).unwrap_or_default();
        let mut page = connection.get(&format!("/users/{}/{list}?limit={limit}{after}", part(user)))?;
        if let Value::Array(data) = page["data"].take() {
            rows.extend(data);
        }
        if total.is_null() {
            total = page["total"].take();
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if !all || cursor.is_none() {
            break;
        }
    }
    let answer = json!({ "data": rows, "next_cursor": cursor, "has_more": cursor.is_some(), "total": total });
    connection.print(&answer, |answer| {
        let shown = table::rows(answer["data"].as_array().map_or(&[], Vec::as_slice), &["id", "name", "created_at"]);
        let more = cursor.map(|cursor| format!("\nmore with --cursor {cursor}")).unwrap_or_default();
        format!("{shown}\n{} in all{more}", table::text(&answer["total"]))
    })
}
