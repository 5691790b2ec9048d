//! What each command does, one file for each family.

mod connection;
mod docs;
mod feed;
mod intersections;
mod keys;
mod members;
mod own;
mod ranges;
mod server;

use entourage_model::Code;
use entourage_service::Order;

use self::ranges::By;
use super::{
    args::Args,
    encode::Out,
    fail::{Done, Fail, NOT_AN_INTEGER, SYNTAX},
    session::Session,
    table::Spec,
    verb::Verb,
};

impl Session {
    /// Answers one command by itself. What is in `out` after a failure is taken back.
    pub(super) async fn run(&mut self, spec: &'static Spec, args: Args<'_>, out: &mut Out) -> Done {
        match spec.verb {
            Verb::SIsMember | Verb::SMIsMember => self.members(spec.verb, args, out).await,
            Verb::SCard => self.card(args, out).await,
            Verb::ZCard => self.sorted_card(args, out).await,
            Verb::SMembers => self.all_members(args.get(1), out).await,
            Verb::SScan => self.scan(args, out).await,
            Verb::SInter => self.inter(args, out).await,
            Verb::SInterCard => self.inter_card(args, out).await,
            Verb::ZInter => self.sorted_inter(args, out).await,
            Verb::ZInterCard => self.sorted_inter_card(args, out).await,
            Verb::SAdd | Verb::SRem => self.no_write(args),
            Verb::ZScore => self.score(args, out).await,
            Verb::ZRange => self.range(args, None, out).await,
            Verb::ZRevRange => self.range(args, Some((By::Rank, Order::NewestFirst)), out).await,
            Verb::ZRangeByScore => self.range(args, Some((By::Score, Order::OldestFirst)), out).await,
            Verb::ZRevRangeByScore => self.range(args, Some((By::Score, Order::NewestFirst)), out).await,
            Verb::Get => self.get(args.get(1), out).await,
            Verb::MGet => self.get_all(args, out).await,
            Verb::Exists => self.exist(args, out).await,
            Verb::Expire => self.expire(args, out).await,
            Verb::Ttl => self.time_to_live(args, out).await,
            Verb::Type => self.key_type(args, out).await,
            Verb::Follow => self.follow(args, out).await,
            Verb::Unfollow => self.no_unfollow(args),
            Verb::Relation => self.relation(args, out).await,
            Verb::List => self.list(args, out).await,
            Verb::Feed => self.feed(args, out).await,
            Verb::As => self.act_as(args, out),
            Verb::Token => self.token(args, out),
            Verb::Help => docs::help(args, out),
            Verb::Ping | Verb::Echo => Self::echo(args, out),
            Verb::Hello => self.hello(args, out),
            Verb::Auth => self.authenticate_as(args, out),
            Verb::Select => Self::select(args, out),
            Verb::Client => self.client_command(args, out),
            Verb::Reset => self.reset(out),
            Verb::Quit => self.quit(out),
            Verb::Info => self.info(args, out).await,
            Verb::Command => docs::command(args, out),
            Verb::Config => self.config(args, out),
            Verb::Unwatch => {
                out.ok();
                Ok(())
            }
            // Never get here: they are what a transaction is made with.
            Verb::Multi | Verb::Exec | Verb::Discard | Verb::Watch => Err("ERR out of place".into()),
        }
    }
}

/// A whole number as Redis takes it: in the one way it is written.
fn integer(digits: &[u8]) -> Done<i64> {
    let number: Option<i64> = text(digits).parse().ok();
    number.filter(|number| number.to_string().as_bytes() == digits).ok_or(Fail::from(NOT_AN_INTEGER))
}

/// Who is not there has nothing, as a key in Redis that is not there.
fn or_missing<T: Default>(found: Done<T>) -> Done<T> {
    match found {
        Err(Fail::Refused(error)) if error.code() == Code::UserNotFound => Ok(T::default()),
        found => found,
    }
}

/// What `CURSOR` and `LIMIT` say, from this word on.
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

/// What is wrong with a subcommand: there is none of that name, or it takes another number of words.
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
