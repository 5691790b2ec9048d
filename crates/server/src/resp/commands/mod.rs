//! The commands, one file per family: its rows of the table, parsing and execution.

pub(super) mod connection;
pub(super) mod docs;
pub(super) mod feed;
pub(super) mod graph;
pub(super) mod intersections;
pub(super) mod keys;
pub(super) mod ranges;
pub(super) mod server;
pub(super) mod sets;
pub(super) mod suggestions;
pub(super) mod transactions;

use entourage_model::Code;

use super::{
    args::Args,
    fail::{Done, Fail, NOT_AN_INTEGER, SYNTAX},
};

/// An integer in canonical form, as Redis requires.
fn integer(digits: &[u8]) -> Done<i64> {
    let number: Option<i64> = text(digits).parse().ok();
    number.filter(|number| number.to_string().as_bytes() == digits).ok_or(Fail::from(NOT_AN_INTEGER))
}

/// A user who does not exist has nothing, like a missing key in Redis.
fn or_missing<T: Default>(found: Done<T>) -> Done<T> {
    match found {
        Err(Fail::Refused(error)) if error.code() == Code::UserNotFound => Ok(T::default()),
        found => found,
    }
}

/// `CURSOR` and `LIMIT`, from this word on.
fn page<'a>(args: Args<'a>, from: usize) -> Done<(Option<&'a str>, Option<&'a str>)> {
    let (mut cursor, mut limit) = (None, None);
    for at in (from..args.len()).step_by(2) {
        match at + 1 < args.len() {
            true if args.is(at, "CURSOR") => cursor = Some(text(args.get(at + 1))),
            true if args.is(at, "LIMIT") => limit = Some(text(args.get(at + 1))),
            _ => return Err(SYNTAX.into()),
        }
    }
    Ok((cursor, limit))
}

/// The error for a subcommand that is unknown or has the wrong number of words.
fn no_subcommand(args: Args<'_>, known: &[&str]) -> Fail {
    let command = text(args.get(0)).to_ascii_lowercase();
    match known.iter().find(|name| args.is(1, name)) {
        Some(name) => {
            format!("ERR wrong number of arguments for '{command}|{}' command", name.to_ascii_lowercase()).into()
        }
        None => format!("ERR unknown subcommand '{}'. Try EG.HELP.", text(args.get(1))).into(),
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
