//! The one table of commands: what is checked before a command runs, what `COMMAND` and `EG.HELP` say, and the rows of
//! the reference page.

use super::verb::Verb;

/// When a command is let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Asks the graph.
    Read,
    /// Changes the graph: not inside `MULTI`.
    Write,
    /// About the connection or the server.
    Plain,
    /// As `Plain`, also before `AUTH`.
    Open,
    /// Part of a transaction's frame: never queued.
    Frame,
}

#[derive(Debug)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) verb: Verb,
    /// Words with the name; below zero: at least so many.
    pub(super) arity: i8,
    pub(super) class: Class,
    /// First key, last key (-1: the last word), step.
    pub(super) keys: (i8, i8, i8),
    pub(super) group: Group,
    /// What follows the name.
    pub(super) syntax: &'static str,
    pub(super) summary: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Sets,
    SortedSets,
    Strings,
    Keys,
    Own,
    Transactions,
    Connection,
    Server,
}

impl Group {
    pub(super) const ALL: [Self; 8] = [
        Self::Sets,
        Self::SortedSets,
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
            Self::Strings => "Strings",
            Self::Keys => "Keys",
            Self::Own => "Entourage's own",
            Self::Transactions => "Transactions",
            Self::Connection => "Connection",
            Self::Server => "Server",
        }
    }
}

impl Spec {
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
            Class::Plain => &["loading", "stale", "fast"],
            Class::Open => &["loading", "stale", "fast", "no_auth"],
            Class::Frame => &["loading", "stale", "fast"],
        }
    }
}

const NONE: (i8, i8, i8) = (0, 0, 0);
const FIRST: (i8, i8, i8) = (1, 1, 1);
const ALL: (i8, i8, i8) = (1, -1, 1);

macro_rules! commands {
    ($($name:literal $verb:ident $arity:literal $class:ident $keys:ident $group:ident $syntax:literal $summary:literal;)*) => {
        /// In the order of their names.
        pub(super) const COMMANDS: &[Spec] = &[$(Spec {
            name: $name,
            verb: Verb::$verb,
            arity: $arity,
            class: Class::$class,
            keys: $keys,
            group: Group::$group,
            syntax: $syntax,
            summary: $summary,
        }),*];
    };
}

commands! {
    "AUTH" Auth -2 Open NONE Connection "[name] key"
        "Shows a service key; the name, if one is given, is `default` or the key's own";
    "CLIENT" Client -2 Plain NONE Connection "ID | GETNAME | SETNAME name | SETINFO field text | INFO | LIST [TYPE type | ID id …] | NO-EVICT ON|OFF | NO-TOUCH ON|OFF"
        "What the server knows of this connection; `LIST` shows this one alone";
    "COMMAND" Command -1 Plain NONE Server "[COUNT | LIST | INFO [name …] | DOCS [name …] | GETKEYS command …]"
        "The commands of this table";
    "CONFIG" Config -2 Plain NONE Server "GET pattern …"
        "What clients ask for when they start; nothing can be set";
    "DISCARD" Discard 1 Frame NONE Transactions ""
        "Forgets what was queued";
    "ECHO" Echo 2 Plain NONE Connection "text"
        "The text";
    "EG.AS" As -1 Plain NONE Own "[user]"
        "Acts and looks as this user from now on; an empty id is nobody, the service's view; without one: who it is, or no value";
    "EG.FEED" Feed -2 Read NONE Own "user [CURSOR cursor] [LIMIT count]"
        "A page of a user's feed, newest first: the next cursor, or no value at the end; posts, each an array of id, author, time in milliseconds, body and external id or no value; 1 if not everybody's posts could be looked at in time. At most 200, 20 if not said";
    "EG.FOLLOW" Follow -3 Write NONE Own "follower target [QUIET | OPEN] [CHALLENGE proof]"
        "Follows; answers with `state` (`active` or `pending`), `created`, `created_at` in milliseconds, `quiet` and `version`";
    "EG.HELP" Help -1 Plain NONE Own "[name …]"
        "A line for each command";
    "EG.LIST" List -2 Read FIRST Own "key [CURSOR cursor] [LIMIT count]"
        "A page of a list or of another set of users, newest first: the next cursor, or no value at the end, and ids each with its time in milliseconds; at most 200, 50 if not said";
    "EG.RELATION" Relation 3 Read NONE Own "user other"
        "How one user stands to another: `following followed_by mutual requested blocking blocked_by muting quiet since`; an error when there is no such other";
    "EG.TOKEN" Token -1 Plain NONE Own "[token]"
        "The token of this connection's last write, or no value; or the one that every read from now on must not be older than, empty for none";
    "EG.UNFOLLOW" Unfollow 3 Write NONE Own "follower target"
        "Unfollows, and cancels a request: 1 if that changed anything";
    "EXEC" Exec 1 Frame NONE Transactions ""
        "Answers what was queued, one after the other; others may write in between";
    "EXISTS" Exists -2 Read ALL Keys "key …"
        "How many of these keys have anything: a list that is not empty, a count of a user who is there, one who follows";
    "EXPIRE" Expire -3 Plain FIRST Keys "key seconds [NX|XX|GT|LT]"
        "Accepted, without effect: 1, or 0 with `XX` or `GT`, or where there is nothing. Nothing here expires";
    "GET" Get 2 Read FIRST Strings "key"
        "`is_following:{a}:{b}`, `follower_count:{u}` or `following_count:{u}`";
    "HELLO" Hello -1 Open NONE Connection "[2|3 [AUTH name key] [SETNAME name]]"
        "Chooses the protocol and tells about the server";
    "INFO" Info -1 Plain NONE Server "[section …]"
        "About the server, in lines";
    "MGET" MGet -2 Read ALL Strings "key …"
        "As `GET`, for each key";
    "MULTI" Multi 1 Frame NONE Transactions ""
        "Queues what follows until `EXEC`; a write is an error, and nothing is answered then; `WATCH` is one, too";
    "PING" Ping -1 Plain NONE Connection "[text]"
        "`PONG`, or the text";
    "QUIT" Quit -1 Open NONE Connection ""
        "Ends the connection";
    "RESET" Reset 1 Open NONE Connection ""
        "The connection as it was at first: nobody's, RESP2, no transaction";
    "SADD" SAdd -3 Write FIRST Sets "following:{a} b …"
        "Follows each: how many were added to the list; a request to a private account is made, but added only when it is accepted; if one is refused an error that says how many were applied, and those stay";
    "SCARD" SCard 2 Read FIRST Sets "key"
        "How many, as far as the viewer may know; members of `mutual:` and `common_following:` are counted one by one";
    "SELECT" Select 2 Plain NONE Connection "0"
        "There is one database";
    "SINTER" SInter -2 Read ALL Sets "key …"
        "Who is in all of these lists, in any order: `following:{a} following:{b}` are those both follow, `following:{a} followers:{a}` mutuals, `followers:{a} followers:{b}` those who follow both. Up to 16 lists, of which the shortest has at most 100,000 members; `mutual:` and `common_following:` are two lists each. At most 10,000";
    "SINTERCARD" SInterCard -3 Read NONE Sets "numkeys key … [LIMIT count]"
        "How many `SINTER` would answer with";
    "SISMEMBER" SIsMember 3 Read FIRST Sets "key id"
        "1 if the key has this member: `following:{a} b` and `followers:{b} a` if `a` follows `b`";
    "SMEMBERS" SMembers 2 Read FIRST Sets "key"
        "All of at most 10,000; of a list newest first";
    "SMISMEMBER" SMIsMember -3 Read FIRST Sets "key id …"
        "As `SISMEMBER`, for at most 1,000 ids";
    "SREM" SRem -3 Write FIRST Sets "following:{a} b …"
        "Unfollows each: how many were taken out of the list; a request is cancelled, but was in no list; errors as of `SADD`";
    "SSCAN" SScan -3 Read FIRST Sets "key cursor [MATCH pattern] [COUNT count]"
        "A list piece by piece from cursor 0 until it is 0 again, newest first; all of one millisecond come together, or, of more than 10,000, parts of them, so that there may be more than asked for. Other sets come in one piece of at most 10,000";
    "TTL" Ttl 2 Read FIRST Keys "key"
        "-1: nothing here expires; -2 where there is nothing";
    "TYPE" Type 2 Read FIRST Keys "key"
        "`set`, `zset` or `string`; lists are `set`, and sorted sets as well; `none` where there is nothing, and for other names";
    "UNWATCH" Unwatch 1 Plain NONE Transactions ""
        "Nothing is watched";
    "WATCH" Watch -2 Frame ALL Transactions "key …"
        "An error: there are no transactions with writes";
    "ZCARD" ZCard 2 Read FIRST SortedSets "key"
        "As `SCARD`; posts of a feed are counted one by one, up to 10,000, and that is the answer where there are more";
    "ZINTER" ZInter -3 Read NONE SortedSets "numkeys key … [WEIGHTS weight …] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]"
        "Who is in all of these lists, by the sum of their times; keys as of `SINTER`, of which sets count 1. At most 10,000";
    "ZINTERCARD" ZInterCard -3 Read NONE SortedSets "numkeys key … [LIMIT count]"
        "As `SINTERCARD`";
    "ZRANGE" ZRange -4 Read FIRST SortedSets "key start stop [BYSCORE] [REV] [LIMIT offset count] [WITHSCORES]"
        "By rank, 0 the oldest, -1 the newest, or by time, oldest first; with `REV` newest first, and then the greater time comes first. No rank above 10,000: for what lies between there are `EG.LIST` and `EG.FEED`";
    "ZRANGEBYSCORE" ZRangeByScore -4 Read FIRST SortedSets "key min max [WITHSCORES] [LIMIT offset count]"
        "By time in milliseconds, oldest first; `(` before a time leaves it out, `+inf` and `-inf` are the ends; at most 10,000";
    "ZREVRANGE" ZRevRange -4 Read FIRST SortedSets "key start stop [WITHSCORES]"
        "By rank, 0 the newest, -1 the oldest; ranks as of `ZRANGE`";
    "ZREVRANGEBYSCORE" ZRevRangeByScore -4 Read FIRST SortedSets "key max min [WITHSCORES] [LIMIT offset count]"
        "As `ZRANGEBYSCORE`, newest first";
    "ZSCORE" ZScore 3 Read FIRST SortedSets "key id"
        "Since when, in milliseconds; no value when there is no such edge to see, or no such post in the feed";
}

/// The longest name; what is longer is none.
const NAME_MAX_BYTES: usize = 16;

/// Finds a command by its name, however its letters are written.
pub(super) fn find(name: &[u8]) -> Option<usize> {
    let mut capitals = [0; NAME_MAX_BYTES];
    let room = capitals.get_mut(..name.len())?;
    room.copy_from_slice(name);
    room.make_ascii_uppercase();
    let wanted: &[u8] = room;
    COMMANDS.binary_search_by(|spec| spec.name.as_bytes().cmp(wanted)).ok()
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
            for spec in COMMANDS.iter().filter(|spec| spec.group == group) {
                let line = format!("{} {}", spec.name, spec.syntax);
                page.push_str(&format!("| `{}` | {} |\n", cell(line.trim_end()), cell(spec.summary)));
            }
        }
        page
    }

    #[test]
    fn names_are_in_order_and_found_however_written() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.name < b.name));
        for (index, spec) in COMMANDS.iter().enumerate() {
            assert_eq!(find(spec.name.as_bytes()), Some(index));
            assert_eq!(find(spec.name.to_lowercase().as_bytes()), Some(index));
            assert!(spec.arity != 0 && !spec.takes(0) && !spec.summary.is_empty() && spec.name.len() <= NAME_MAX_BYTES);
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
