//! `user get` and `user put`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use ureq::http::Method;

use super::{
    connection::{Connection, part},
    table,
};

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Show a user with counts.
    Get(GetArguments),
    /// Create a user, or replace name and picture.
    Put(PutArguments),
}

#[derive(Args, Debug)]
pub(crate) struct GetArguments {
    /// The user.
    id: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args, Debug)]
pub(crate) struct PutArguments {
    /// The user.
    id: String,
    #[arg(long)]
    name: Option<String>,
    #[arg(long, value_name = "URL")]
    avatar_url: Option<String>,
    /// Whether followers must be accepted.
    #[arg(long, value_name = "true|false")]
    private: Option<bool>,
    /// Whether nobody else sees the lists.
    #[arg(long, value_name = "true|false")]
    hide_lists: Option<bool>,
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn run(verb: &Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Get(GetArguments { id, connection }) => {
            connection.print(&connection.get(&format!("/users/{}", part(id)))?, table::fields)
        }
        Verb::Put(arguments) => put(arguments),
    }
}

fn put(arguments: &PutArguments) -> anyhow::Result<()> {
    let PutArguments { id, name, avatar_url, private, hide_lists, connection } = arguments;
    let texts = [("name", name), ("avatar_url", avatar_url)];
    let flags = [("private", private), ("hide_lists", hide_lists)];
    let texts = texts.into_iter().filter_map(|(field, text)| Some((field.to_owned(), Value::from(text.clone()?))));
    let flags = flags.into_iter().filter_map(|(field, flag)| Some((field.to_owned(), Value::from((*flag)?))));
    let body = Value::Object(texts.chain(flags).collect::<Map<_, _>>());
    let answer = connection.ask(Method::PUT, &format!("/users/{}", part(id)), Some(&body))?;
    connection.print(&answer, table::fields)
}
