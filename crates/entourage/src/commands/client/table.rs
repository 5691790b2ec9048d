//! Responses as text: rows with a header, or names with values.

use comfy_table::{Table, presets::NOTHING};
use serde_json::Value;

/// One row for each object; a column for each name.
pub(super) fn rows(rows: &[Value], columns: &[&str]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(columns.iter().map(|name| name.to_uppercase()));
    for row in rows {
        table.add_row(columns.iter().map(|name| text(&row[*name])));
    }
    table.trim_fmt()
}

/// One line per field of an object; nested fields have dotted names.
pub(super) fn fields(value: &Value) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    add(&mut table, "", value);
    table.trim_fmt()
}

fn add(table: &mut Table, prefix: &str, value: &Value) {
    let Value::Object(fields) = value else { return };
    for (name, value) in fields {
        match value {
            Value::Object(_) => add(table, &format!("{prefix}{name}."), value),
            _ => drop(table.add_row([format!("{prefix}{name}"), text(value)])),
        }
    }
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
