//! `feed USER`, and `feed rebuild|clear|explain` for whoever runs the server.

use clap::{Args, Subcommand};
use entourage_model::Error;
use serde_json::{Value, json};
use ureq::http::Method;

use super::{
    connection::{Connection, part},
    posts, table,
};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Whose feed.
    user: Option<String>,
    #[command(flatten)]
    page: PageArguments,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Show a user's feed; the same as without this word.
    Show(ShowArguments),
    /// Make a user's inbox anew from posts and follows.
    Rebuild(UserArguments),
    /// Forget a user's inbox; it is made anew when the feed is read next.
    Clear(UserArguments),
    /// Say why a post is in a user's feed, or is not.
    Explain(ExplainArguments),
}

#[derive(Args, Debug)]
struct ShowArguments {
    /// Whose feed.
    user: String,
    #[command(flatten)]
    page: PageArguments,
}

#[derive(Args, Debug)]
struct PageArguments {
    /// Posts of a page, 200 at most.
    #[arg(long, default_value_t = 20)]
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

#[derive(Args, Debug)]
struct UserArguments {
    /// Whose feed.
    user: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args, Debug)]
struct ExplainArguments {
    /// Whose feed.
    user: String,
    /// The id of a post.
    post: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match (&arguments.verb, &arguments.user) {
        (None, Some(user)) => show(user, &arguments.page),
        (None, None) => Err(Error::invalid("whose feed? entourage feed USER").into()),
        (Some(Verb::Show(ShowArguments { user, page })), _) => show(user, page),
        (Some(Verb::Rebuild(UserArguments { user, connection })), _) => {
            let path = format!("/admin/users/{}/feed/rebuild", part(user));
            connection.print(&connection.ask(Method::POST, &path, None)?, table::fields)
        }
        (Some(Verb::Clear(UserArguments { user, connection })), _) => {
            let path = format!("/admin/users/{}/feed", part(user));
            connection.print(&connection.ask(Method::DELETE, &path, None)?, table::fields)
        }
        (Some(Verb::Explain(ExplainArguments { user, post, connection })), _) => {
            let path = format!("/users/{}/feed/explain/{}", part(user), part(post));
            connection.print(&connection.get(&path)?, table::fields)
        }
    }
}

fn show(user: &str, arguments: &PageArguments) -> anyhow::Result<()> {
    let PageArguments { limit, cursor, all, connection } = arguments;
    let mut cursor = cursor.clone();
    let (mut rows, mut partial) = (Vec::new(), false);
    loop {
        let mut page = page(connection, user, cursor.as_deref(), *limit)?;
        if let Value::Array(data) = page["data"].take() {
            rows.extend(data);
        }
        partial |= page["partial"] == true;
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if !all || cursor.is_none() {
            break;
        }
    }
    let answer = json!({ "data": rows, "next_cursor": cursor, "has_more": cursor.is_some(), "partial": partial });
    connection.print(&answer, |answer| {
        let rows: Vec<Value> = answer["data"].as_array().map_or(&[][..], Vec::as_slice).iter().map(row).collect();
        let shown = table::rows(&rows, &["created_at", "author", "post", "id"]);
        let part = if partial { "\nnot everybody's posts could be looked at in time; ask again" } else { "" };
        let more = cursor.map(|cursor| format!("\nmore with --cursor {cursor}")).unwrap_or_default();
        format!("{shown}{part}{more}")
    })
}

/// A page of a feed as the server has it.
pub(super) fn page(connection: &Connection, user: &str, cursor: Option<&str>, limit: u32) -> anyhow::Result<Value> {
    let after = cursor.map(|cursor| format!("&cursor={}", part(cursor))).unwrap_or_default();
    connection.get(&format!("/users/{}/feed?limit={limit}{after}", part(user)))
}

fn row(post: &Value) -> Value {
    json!({
        "created_at": post["created_at"],
        "author": posts::printable(&table::text(&post["author"])),
        "post": posts::words(post),
        "id": post["id"],
    })
}
