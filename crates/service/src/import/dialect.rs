//! How a file says things: its format, its delimiter, which column is which. Found out from its first line.

use entourage_model::{Code, Error, Result};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Found out from the first line.
    #[default]
    Auto,
    Csv,
    Ndjson,
    /// Pairs with white space between them, comments behind `#`.
    Snap,
}

/// What a file without a header is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    Edges,
    Users,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Csv { delimiter: u8, columns: Columns },
    Ndjson,
    Snap,
}

/// Which column holds what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    Edges {
        follower: usize,
        target: usize,
        created_at: Option<usize>,
        quiet: Option<usize>,
    },
    Users {
        id: usize,
        name: Option<usize>,
        avatar_url: Option<usize>,
        private: Option<usize>,
        hide_lists: Option<usize>,
        registered_at: Option<usize>,
    },
}

impl Columns {
    const EDGES: Self = Self::Edges { follower: 0, target: 1, created_at: Some(2), quiet: Some(3) };
    const USERS: Self = Self::Users {
        id: 0,
        name: Some(1),
        avatar_url: Some(2),
        private: Some(3),
        hide_lists: Some(4),
        registered_at: Some(5),
    };

    fn of_header(line: &str, delimiter: u8) -> Option<Self> {
        let names: Vec<String> =
            line.split(char::from(delimiter)).map(|name| name.trim().trim_matches('"').to_ascii_lowercase()).collect();
        let find = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.as_str()));
        // The longer names are those that the REST answers use.
        if let (Some(follower), Some(target)) =
            (find(&["follower", "follower_id"]), find(&["target", "target_id", "followee_id"]))
        {
            return Some(Self::Edges { follower, target, created_at: find(&["created_at"]), quiet: find(&["quiet"]) });
        }
        Some(Self::Users {
            id: find(&["id"])?,
            name: find(&["name"]),
            avatar_url: find(&["avatar_url"]),
            private: find(&["private"]),
            hide_lists: find(&["hide_lists"]),
            registered_at: find(&["registered_at"]),
        })
    }
}

impl Dialect {
    /// From the first line that is not empty; whether that line is a header, and so no data.
    pub(super) fn of(first: &[u8], format: Format, contents: Option<Contents>) -> Result<(Self, bool)> {
        match format {
            Format::Ndjson => return Ok((Self::Ndjson, false)),
            Format::Snap => return Ok((Self::Snap, false)),
            Format::Auto if first.starts_with(b"{") => return Ok((Self::Ndjson, false)),
            Format::Auto if first.starts_with(b"#") => return Ok((Self::Snap, false)),
            Format::Auto | Format::Csv => {}
        }
        let delimiter = delimiter(first);
        let header = std::str::from_utf8(first).ok().and_then(|line| Columns::of_header(line, delimiter));
        if let Some(columns) = header {
            return Ok((Self::Csv { delimiter, columns }, true));
        }
        let is_pair = !first.iter().any(|byte| b",;\"".contains(byte))
            && (2..=3).contains(&first.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count());
        match (format, contents) {
            (Format::Auto, None | Some(Contents::Edges)) if is_pair => Ok((Self::Snap, false)),
            (_, Some(Contents::Edges)) => Ok((Self::Csv { delimiter, columns: Columns::EDGES }, false)),
            (_, Some(Contents::Users)) => Ok((Self::Csv { delimiter, columns: Columns::USERS }, false)),
            (_, None) => Err(unknown()),
        }
    }
}

fn delimiter(line: &[u8]) -> u8 {
    let count = |delimiter: u8| line.iter().filter(|byte| **byte == delimiter).count();
    [b',', b';', b'\t'].into_iter().rev().max_by_key(|delimiter| count(*delimiter)).unwrap_or(b',')
}

fn unknown() -> Error {
    Error::new(
        Code::UnsupportedMediaType,
        "the first line is neither a header (follower,target[,created_at][,quiet] or \
         id[,name][,avatar_url][,private][,hide_lists][,registered_at]) nor JSON nor a pair; \
         for CSV without a header say --edges or --users",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells() {
        let edges = |follower, target, created_at, quiet| Columns::Edges { follower, target, created_at, quiet };
        let csv = |delimiter, columns| Some((Dialect::Csv { delimiter, columns }, true));
        let cases = [
            ("follower,target", csv(b',', edges(0, 1, None, None))),
            ("quiet;target;follower;created_at", csv(b';', edges(2, 1, Some(3), Some(0)))),
            ("Follower_ID\tfollowee_id", csv(b'\t', edges(0, 1, None, None))),
            ("\"follower\",\"target\"", csv(b',', edges(0, 1, None, None))),
            ("# comment", Some((Dialect::Snap, false))),
            ("1 2", Some((Dialect::Snap, false))),
            ("1\t2\t1082040961", Some((Dialect::Snap, false))),
            ("{\"follower\":1}", Some((Dialect::Ndjson, false))),
            ("1,2", None),
            ("one two three four", None),
            ("\u{1}\u{2}", None),
        ];
        for (line, wanted) in cases {
            assert_eq!(Dialect::of(line.as_bytes(), Format::Auto, None).ok(), wanted, "{line}");
        }
        let (users, is_header) = Dialect::of(b"id,name", Format::Csv, None).unwrap();
        assert!(
            matches!(users, Dialect::Csv { columns: Columns::Users { id: 0, name: Some(1), .. }, .. }) && is_header
        );
        let (bare, is_header) = Dialect::of(b"1,2", Format::Auto, Some(Contents::Edges)).unwrap();
        assert_eq!((bare, is_header), (Dialect::Csv { delimiter: b',', columns: Columns::EDGES }, false));
    }
}
