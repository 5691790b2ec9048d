//! The one table of commands, collected from their families: what is checked before a command runs, how it runs, what
//! `COMMAND` and `EG.HELP` say, and the rows of the reference page.

use std::pin::Pin;

use entourage_service::Service;

use super::{
    args::Args,
    checks::Checks,
    commands::{connection, docs, feed, graph, intersections, keys, ranges, server, sets, suggestions, transactions},
    encode::Out,
    fail::Done,
    session::{Admitted, Session},
    writes::Writes,
};

/// When a command is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Reads the graph.
    Read,
    /// Changes the graph: not inside `MULTI`.
    Write,
    /// About the connection or the server.
    Plain,
    /// As `Plain`, also before `AUTH`.
    Open,
    /// As `Open`, and never queued.
    Always,
    /// Part of a transaction's frame: never queued.
    Frame,
}

/// Which words are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    None,
    First,
    All,
    /// The first word says how many follow it.
    Counted,
}

impl Keys {
    /// First key, last key (-1: the last word), step.
    pub(super) const fn positions(self) -> [i8; 3] {
        match self {
            Self::None | Self::Counted => [0, 0, 0],
            Self::First => [1, 1, 1],
            Self::All => [1, -1, 1],
        }
    }
}

pub(super) type Answering<'a> = Pin<Box<dyn Future<Output = Done> + Send + 'a>>;
pub(super) type Later = for<'a> fn(&'a mut Session, Args<'a>, &'a mut Out) -> Answering<'a>;

/// How a command is answered. A partial reply is discarded after a failure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Run {
    /// From what the connection knows.
    Now(fn(&mut Session, Args<'_>, &mut Out) -> Done),
    /// By the service.
    Later(Later),
    /// With other checks beside it; by itself if it cannot be collected.
    Check { collect: fn(&mut Checks, &Service, Args<'_>) -> bool, alone: Later },
    /// With other writes beside it; by itself if it cannot be collected.
    Write { collect: fn(&mut Writes, Args<'_>) -> bool, alone: Later },
    /// It begins or ends a transaction, which a wrong number of words aborts or not.
    Frame { enter: fn(&mut Session) -> Done<Admitted>, aborts_if_misused: bool },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    /// Words including the name; negative: at least this many.
    pub(super) arity: i8,
    pub(super) class: Class,
    pub(super) keys: Keys,
    pub(super) group: Group,
    /// What follows the name.
    pub(super) syntax: &'static str,
    pub(super) summary: &'static str,
    pub(super) run: Run,
}

/// Rows of the table: a constant, name, arity, class, keys, group, syntax, summary and how it runs.
macro_rules! commands {
    ($($id:ident $name:literal $arity:literal $class:ident $keys:ident $group:ident $syntax:literal $summary:literal $run:expr;)*) => {$(
        pub(in crate::resp) const $id: $crate::resp::table::Command = $crate::resp::table::Command {
            name: $name,
            arity: $arity,
            class: $crate::resp::table::Class::$class,
            keys: $crate::resp::table::Keys::$keys,
            group: $crate::resp::table::Group::$group,
            syntax: $syntax,
            summary: $summary,
            run: $run,
        };
    )*};
}
pub(super) use commands;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Sets,
    SortedSets,
    Lists,
    Strings,
    Keys,
    Own,
    Transactions,
    Connection,
    Server,
}

impl Group {
    pub(super) const ALL: [Self; 9] = [
        Self::Sets,
        Self::SortedSets,
        Self::Lists,
        Self::Strings,
        Self::Keys,
        Self::Own,
        Self::Transactions,
        Self::Connection,
        Self::Server,
    ];

    /// As `COMMAND DOCS` names it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Sets => "set",
            Self::SortedSets => "sorted-set",
            Self::Lists => "list",
            Self::Strings => "string",
            Self::Keys => "generic",
            Self::Own => "entourage",
            Self::Transactions => "transactions",
            Self::Connection => "connection",
            Self::Server => "server",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Sets => "Sets",
            Self::SortedSets => "Sorted sets",
            Self::Lists => "Lists",
            Self::Strings => "Strings",
            Self::Keys => "Keys",
            Self::Own => "Entourage's own",
            Self::Transactions => "Transactions",
            Self::Connection => "Connection",
            Self::Server => "Server",
        }
    }
}

impl Command {
    pub(super) const fn takes(&self, words: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= least } else { words == least }
    }

    pub(super) fn is_named(&self, name: &[u8]) -> bool {
        self.name.as_bytes().eq_ignore_ascii_case(name)
    }

    pub(super) const fn flags(&self) -> &'static [&'static str] {
        match self.class {
            Class::Read => &["readonly"],
            Class::Write => &["write", "no_multi"],
            Class::Plain | Class::Frame => &["loading", "stale", "fast"],
            Class::Open | Class::Always => &["loading", "stale", "fast", "no_auth"],
        }
    }
}

/// In the order of their names.
pub(super) static COMMANDS: &[Command] = &[
    connection::AUTH,
    connection::CLIENT,
    docs::COMMAND,
    server::CONFIG,
    transactions::DISCARD,
    connection::ECHO,
    graph::AS,
    feed::FEED,
    graph::FOLLOW,
    docs::HELP,
    graph::LIST,
    graph::RELATION,
    suggestions::SUGGEST,
    graph::TOKEN,
    graph::UNFOLLOW,
    transactions::EXEC,
    keys::EXISTS,
    keys::EXPIRE,
    keys::GET,
    connection::HELLO,
    server::INFO,
    suggestions::LRANGE,
    keys::MGET,
    transactions::MULTI,
    connection::PING,
    connection::QUIT,
    connection::RESET,
    sets::SADD,
    sets::SCARD,
    connection::SELECT,
    intersections::SINTER,
    intersections::SINTERCARD,
    sets::SISMEMBER,
    sets::SMEMBERS,
    sets::SMISMEMBER,
    sets::SREM,
    sets::SSCAN,
    keys::TTL,
    keys::TYPE,
    transactions::UNWATCH,
    transactions::WATCH,
    ranges::ZCARD,
    intersections::ZINTER,
    intersections::ZINTERCARD,
    ranges::ZRANGE,
    ranges::ZRANGEBYSCORE,
    ranges::ZREVRANGE,
    ranges::ZREVRANGEBYSCORE,
    ranges::ZSCORE,
];

/// The longest name.
const NAME_MAX_BYTES: usize = 16;

/// Finds a command by its name, in any case.
pub(super) fn find(name: &[u8]) -> Option<usize> {
    let mut capitals = [0; NAME_MAX_BYTES];
    let room = capitals.get_mut(..name.len())?;
    room.copy_from_slice(name);
    room.make_ascii_uppercase();
    let wanted: &[u8] = room;
    COMMANDS.binary_search_by(|command| command.name.as_bytes().cmp(wanted)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the reference page, by group.
    fn reference() -> String {
        let cell = |text: &str| text.replace('|', "\\|");
        let mut page = String::from("| key | type | value |\n|---|---|---|\n");
        for (key, kind, value) in crate::resp::key::FAMILIES {
            page.push_str(&format!("| `{key}` | {kind} | {value} |\n"));
        }
        for group in Group::ALL {
            page.push_str(&format!("\n### {}\n\n| command | |\n|---|---|\n", group.title()));
            for command in COMMANDS.iter().filter(|command| command.group == group) {
                let line = format!("{} {}", command.name, command.syntax);
                page.push_str(&format!("| `{}` | {} |\n", cell(line.trim_end()), cell(command.summary)));
            }
        }
        page
    }

    #[test]
    fn names_are_in_order_and_found_however_written() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.name < b.name));
        for (index, command) in COMMANDS.iter().enumerate() {
            assert_eq!(find(command.name.as_bytes()), Some(index));
            assert_eq!(find(command.name.to_lowercase().as_bytes()), Some(index));
            assert!(
                command.arity != 0
                    && !command.takes(0)
                    && !command.summary.is_empty()
                    && command.name.len() <= NAME_MAX_BYTES
            );
        }
        for name in ["", "FLUSHALL", "SET", "DEBUG", "SHUTDOWN", "SISMEMBERX", "AVERYLONGNAMEOFACOMMAND"] {
            assert_eq!(find(name.as_bytes()), None, "{name}");
        }
    }

    /// Set `ENTOURAGE_TEST_WRITE_PAGES` to write the page's tables anew.
    #[test]
    fn the_reference_page_has_this_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/resp.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (begin, end) = ("<!-- from the table of commands -->\n", "<!-- end of the table -->\n");
        let (head, rest) = page.split_once(begin).unwrap();
        let (tables, tail) = rest.split_once(end).unwrap();
        if std::env::var_os("ENTOURAGE_TEST_WRITE_PAGES").is_some() {
            std::fs::write(path, format!("{head}{begin}\n{}\n{end}{tail}", reference())).unwrap();
        } else {
            assert_eq!(tables.trim(), reference().trim());
        }
    }
}
