//! `feed USER`, and `feed rebuild|clear|explain` for whoever runs the server.

use clap::{Args, Subcommand};
use entourage_model::Error;
use serde_json::{Value, json};
use ureq::http::Method;

use super::{
    connection::{Connection, part},
    paging::Paging,
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
    #[command(flatten)]
    paging: Paging,
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
    let PageArguments { limit, paging, connection } = arguments;
    let mut partial = false;
    let found = paging.collect(*limit, |query| {
        let page = page(connection, user, query)?;
        partial |= page["partial"] == true;
        Ok(page)
    })?;
    let (next_cursor, hint) = (&found.next_cursor, found.hint());
    let answer = json!({
        "data": found.rows, "next_cursor": next_cursor, "has_more": next_cursor.is_some(), "partial": partial
    });
    connection.print(&answer, |_| {
        let rows: Vec<Value> = found.rows.iter().map(row).collect();
        let shown = table::rows(&rows, &["created_at", "author", "post", "id"]);
        let part = if partial { "\nnot everybody's posts could be looked at in time; ask again" } else { "" };
        format!("{shown}{part}{hint}")
    })
}

/// A page of a feed as the server has it.
pub(super) fn page(connection: &Connection, user: &str, query: &str) -> anyhow::Result<Value> {
    connection.get(&format!("/users/{}/feed?{query}", part(user)))
}

fn row(post: &Value) -> Value {
    json!({
        "created_at": post["created_at"],
        "author": posts::printable(&table::text(&post["author"])),
        "post": posts::words(post),
        "id": post["id"],
    })
}
