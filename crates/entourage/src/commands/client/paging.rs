//! Lists that come in pages: one of them, or all.

use clap::Args;
use serde_json::Value;

use super::connection::part;

#[derive(Args, Debug)]
pub(super) struct Paging {
    /// Go on from the next_cursor of another page.
    #[arg(long, conflicts_with = "all")]
    cursor: Option<String>,
    /// Page through to the end.
    #[arg(long)]
    all: bool,
}

pub(super) struct Rows {
    pub(super) rows: Vec<Value>,
    pub(super) next_cursor: Option<String>,
}

impl Paging {
    /// The rows of the pages that `read` returns for the query parameters that it is given.
    pub(super) fn collect(
        &self,
        limit: u32,
        mut read: impl FnMut(&str) -> anyhow::Result<Value>,
    ) -> anyhow::Result<Rows> {
        let mut found = Rows { rows: Vec::new(), next_cursor: self.cursor.clone() };
        loop {
            let mut page = read(&query(limit, found.next_cursor.as_deref()))?;
            if let Value::Array(rows) = page["data"].take() {
                found.rows.extend(rows);
            }
            found.next_cursor = page["next_cursor"].as_str().map(str::to_owned);
            if !self.all || found.next_cursor.is_none() {
                return Ok(found);
            }
        }
    }
}

impl Rows {
    /// How to get the next page, if there is one.
    pub(super) fn hint(&self) -> String {
        self.next_cursor.as_ref().map(|cursor| format!("\nmore with --cursor {cursor}")).unwrap_or_default()
    }
}

pub(super) fn query(limit: u32, cursor: Option<&str>) -> String {
    let after = cursor.map(|cursor| format!("&cursor={}", part(cursor))).unwrap_or_default();
    format!("limit={limit}{after}")
}
