//! `followers` and `following`.

use clap::Args;
use serde_json::{Value, json};

use super::{
    connection::{Connection, part},
    paging::Paging,
    table,
};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Whose list.
    user: String,
    /// Rows of a page, 200 at most.
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn run(arguments: &Arguments, list: &str) -> anyhow::Result<()> {
    let Arguments { user, limit, paging, connection } = arguments;
    let mut total = Value::Null;
    let found = paging.collect(*limit, |query| {
        let page = connection.get(&format!("/users/{}/{list}?{query}", part(user)))?;
        if total.is_null() {
            total = page["total"].clone();
        }
        Ok(page)
    })?;
    let (next_cursor, hint) = (&found.next_cursor, found.hint());
    let answer =
        json!({ "data": found.rows, "next_cursor": next_cursor, "has_more": next_cursor.is_some(), "total": total });
    connection.print(&answer, |answer| {
        let shown = table::rows(&found.rows, &["id", "name", "created_at"]);
        format!("{shown}\n{} in all{hint}", table::text(&answer["total"]))
    })
}
