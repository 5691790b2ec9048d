//! `suggest USER`, and `--dismiss`.

use clap::Args;
use serde_json::{Value, json};
use ureq::http::Method;

use super::{
    connection::{Connection, part},
    table,
};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// For whom.
    user: String,
    /// How many, 50 at most.
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// What orders friends of friends: common, adamic_adar or recent.
    #[arg(long)]
    ranker: Option<String>,
    /// Never suggest this user again.
    #[arg(long, value_name = "USER", conflicts_with_all = ["limit", "ranker"])]
    dismiss: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { user, limit, ranker, dismiss, connection } = arguments;
    if let Some(other) = dismiss {
        let path = format!("/users/{}/suggestions/{}", part(user), part(other));
        return connection.print(&connection.ask(Method::DELETE, &path, None)?, table::fields);
    }
    let ranker = ranker.as_ref().map(|ranker| format!("&ranker={}", part(ranker))).unwrap_or_default();
    let answer = connection.get(&format!("/users/{}/suggestions?limit={limit}{ranker}", part(user)))?;
    connection.print(&answer, |answer| {
        let rows = answer["data"].as_array().cloned().unwrap_or_default();
        let row = |row: &Value| json!({ "id": row["id"], "name": row["name"], "why": why(&row["reason"]) });
        table::rows(&rows.iter().map(row).collect::<Vec<_>>(), &["id", "name", "why"])
    })
}

/// "followed by X, Y and 3 more"
fn why(reason: &Value) -> String {
    let named = |person: &Value| table::text(if person["name"].is_null() { &person["id"] } else { &person["name"] });
    match reason["type"].as_str().unwrap_or_default() {
        "followed_by" => {
            let people: Vec<String> =
                reason["followed_by"].as_array().map_or(Vec::new(), |people| people.iter().map(named).collect());
            match (reason["and_more"].as_u64().unwrap_or_default(), people.as_slice()) {
                (0, [one, other]) => format!("followed by {one} and {other}"),
                (0, people) => format!("followed by {}", people.join(", ")),
                (more, people) => format!("followed by {} and {more} more", people.join(", ")),
            }
        }
        "imported" => "from an imported list".to_owned(),
        "signal" => "looked at".to_owned(),
        "follows_you" => "follows you".to_owned(),
        "popular" => "has many followers".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_sentences() {
        let by = |names: &[&str], more: u64| {
            let people: Vec<Value> =
                names.iter().map(|name| json!({ "id": name.to_lowercase(), "name": name })).collect();
            why(&json!({ "type": "followed_by", "followed_by": people, "and_more": more }))
        };
        assert_eq!(by(&["Xenia"], 0), "followed by Xenia");
        assert_eq!(by(&["Xenia", "Yuri"], 0), "followed by Xenia and Yuri");
        assert_eq!(by(&["Xenia", "Yuri"], 3), "followed by Xenia, Yuri and 3 more");
        let nameless = json!({ "type": "followed_by", "followed_by": [{ "id": "x", "name": null }], "and_more": 0 });
        assert_eq!(why(&nameless), "followed by x");
        assert_eq!(why(&json!({ "type": "follows_you" })), "follows you");
    }
}
