//! From a line to an entry. A line stands for itself: whatever is wrong with it, the next one is read as if nothing was.

use entourage_model::{KeyHasher, Millis, UserPatch};

use super::{
    dialect::{Columns, Dialect},
    lines::LINE_MAX_BYTES,
    person::Person,
    row::{Entry, Reason},
};
use crate::user::{AVATAR_URL_MAX_BYTES, NAME_MAX_BYTES, is_text_fine};

mod json;

const COLUMNS_MAX: usize = 64;
/// Whole numbers from here on are milliseconds, below they are seconds: the year 5138, or 1973.
const SECONDS_BELOW: i64 = 100_000_000_000;

pub(super) struct Parser {
    dialect: Dialect,
    keys: KeyHasher,
    record: Box<Record>,
}

/// The fields of one line of CSV, in buffers that are used again.
struct Record {
    reader: csv_core::Reader,
    text: Vec<u8>,
    ends: [usize; COLUMNS_MAX],
    fields: usize,
}

impl Parser {
    pub(super) fn new(dialect: Dialect, keys: KeyHasher) -> Self {
        let delimiter = if let Dialect::Csv { delimiter, .. } = dialect { delimiter } else { b',' };
        let reader = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        let record = Record { reader, text: vec![0; LINE_MAX_BYTES + 1], ends: [0; COLUMNS_MAX], fields: 0 };
        Self { dialect, keys, record: Box::new(record) }
    }

    /// Whether a line says nothing at all.
    pub(super) fn is_blank(&self, line: &[u8]) -> bool {
        line.is_empty()
            || line.iter().all(u8::is_ascii_whitespace)
            || (self.dialect == Dialect::Snap && line.trim_ascii_start().starts_with(b"#"))
    }

    pub(super) fn parse(&mut self, line: &[u8]) -> Result<Entry, Reason> {
        match &self.dialect {
            Dialect::Ndjson => json::parse(line, &self.keys),
            Dialect::Snap => snap(line, &self.keys),
            Dialect::Csv { columns, .. } => {
                self.record.read(line)?;
                csv(&self.record, columns, &self.keys)
            }
        }
    }
}

impl Record {
    /// A field may be in quotes, but it ends on its line: no id and no name has a line break in it.
    fn read(&mut self, line: &[u8]) -> Result<(), Reason> {
        if memchr::memchr_iter(b'"', line).count() % 2 == 1 {
            return Err(Reason::BrokenQuotes);
        }
        self.reader.reset();
        let (result, _, text, fields) = self.reader.read_record(line, &mut self.text, &mut self.ends);
        if result != csv_core::ReadRecordResult::InputEmpty {
            return Err(Reason::TooManyColumns);
        }
        let (result, _, _, more) = self.reader.read_record(&[], &mut self.text[text..], &mut self.ends[fields..]);
        self.fields = fields + more;
        if result == csv_core::ReadRecordResult::Record { Ok(()) } else { Err(Reason::TooManyColumns) }
    }

    fn field(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.fields].get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.text.get(start..end)
    }
}

fn csv(record: &Record, columns: &Columns, keys: &KeyHasher) -> Result<Entry, Reason> {
    let must = |index: usize| record.field(index).ok_or(Reason::MissingColumns);
    let may = |index: Option<usize>| index.and_then(|index| record.field(index)).filter(|field| !field.is_empty());
    match *columns {
        Columns::Edges { follower, target, created_at, quiet } => Ok(Entry::Edge {
            follower: Person::parse(must(follower)?, keys)?,
            target: Person::parse(must(target)?, keys)?,
            at: may(created_at).map(time).transpose()?,
            quiet: may(quiet).map(flag).transpose()?.unwrap_or(false),
        }),
        Columns::Users { id, name, avatar_url, private, hide_lists, registered_at } => {
            // A column that is there says something of its field, also by being empty.
            let text = |index: Option<usize>| -> Result<Option<Option<Box<str>>>, Reason> {
                let Some(field) = index.and_then(|index| record.field(index)) else { return Ok(None) };
                let text = std::str::from_utf8(field).map_err(|_| Reason::NotUtf8)?;
                Ok(Some((!text.is_empty()).then(|| text.into())))
            };
            let patch = UserPatch {
                name: text(name)?,
                avatar_url: text(avatar_url)?,
                private: may(private).map(flag).transpose()?,
                hide_lists: may(hide_lists).map(flag).transpose()?,
                registered_at: may(registered_at).map(time).transpose()?,
            };
            user(Person::parse(must(id)?, keys)?, patch)
        }
    }
}

fn user(person: Person, patch: UserPatch) -> Result<Entry, Reason> {
    let is_fine = |text: &Option<Option<Box<str>>>, max: usize| {
        text.as_ref().and_then(|text| text.as_deref()).is_none_or(|text| is_text_fine(text, max))
    };
    if !is_fine(&patch.name, NAME_MAX_BYTES) {
        return Err(Reason::InvalidName);
    }
    if !is_fine(&patch.avatar_url, AVATAR_URL_MAX_BYTES) {
        return Err(Reason::InvalidAvatarUrl);
    }
    Ok(Entry::User { person, patch: Box::new(patch) })
}

/// A pair, perhaps with a time behind it.
fn snap(line: &[u8], keys: &KeyHasher) -> Result<Entry, Reason> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let follower = Person::parse(words.next().ok_or(Reason::MissingColumns)?, keys)?;
    let target = Person::parse(words.next().ok_or(Reason::MissingColumns)?, keys)?;
    let at = words.next().map(time).transpose()?;
    if words.next().is_some() {
        return Err(Reason::TooManyColumns);
    }
    Ok(Entry::Edge { follower, target, at, quiet: false })
}

fn flag(text: &[u8]) -> Result<bool, Reason> {
    match text.to_ascii_lowercase().as_slice() {
        b"true" | b"1" => Ok(true),
        b"false" | b"0" => Ok(false),
        _ => Err(Reason::InvalidFlag),
    }
}

/// RFC 3339, or seconds or milliseconds since 1970.
fn time(text: &[u8]) -> Result<Millis, Reason> {
    let text = std::str::from_utf8(text).map_err(|_| Reason::NotUtf8)?;
    match text.parse::<i64>() {
        Ok(number) => Ok(unix(number)),
        Err(_) => Millis::parse_rfc3339(text).map_err(|_| Reason::InvalidTime),
    }
}

fn unix(number: i64) -> Millis {
    Millis::from_unix(if number.abs() < SECONDS_BELOW { number * 1_000 } else { number })
}

#[cfg(test)]
mod tests {
    use entourage_model::Secret;

    use super::*;
    use crate::import::{Format, dialect::Contents};

    fn parser(header: &str) -> Parser {
        let (dialect, _) = Dialect::of(header.as_bytes(), Format::Auto, Some(Contents::Edges)).unwrap();
        Parser::new(dialect, KeyHasher::new(&Secret::from_bytes([1; 32])))
    }

    fn edge(entry: Result<Entry, Reason>) -> Result<(String, String, Option<i64>, bool), &'static str> {
        match entry.map_err(Reason::as_str)? {
            Entry::Edge { follower, target, at, quiet } => {
                Ok((follower.id().to_string(), target.id().to_string(), at.map(Millis::to_unix), quiet))
            }
            Entry::User { .. } => Err("a user"),
        }
    }

    type Wanted<'a> = Result<(&'a str, &'a str, Option<i64>, bool), &'static str>;

    #[test]
    fn lines_of_csv_stand_for_themselves() {
        let mut parser = parser("follower,target,created_at,quiet");
        let many = vec!["x"; COLUMNS_MAX + 1].join(",");
        let cases: &[(&[u8], Wanted<'_>)] = &[
            (b"1,2", Ok(("1", "2", None, false))),
            (b"1,2,,", Ok(("1", "2", None, false))),
            (b"alice,\"b,\"\"o\"\"b\",1700000000,1", Ok(("alice", "b,\"o\"b", Some(1_700_000_000_000), true))),
            (b"1,2,1700000000123,false", Ok(("1", "2", Some(1_700_000_000_123), false))),
            (b"1,2,2023-11-14T22:13:20Z,TRUE", Ok(("1", "2", Some(1_700_000_000_000), true))),
            (b"1", Err("missing_columns")),
            (b"1,", Err("invalid_id")),
            (b"1,2,tomorrow", Err("invalid_time")),
            (b"1,2,,maybe", Err("invalid_flag")),
            (b"1,\"2", Err("broken_quotes")),
            (b"1,caf\xe9", Err("not_utf8")),
            (b"1,a\x07b", Err("invalid_id")),
            (many.as_bytes(), Err("too_many_columns")),
            (b"3,4", Ok(("3", "4", None, false))),
        ];
        for (line, wanted) in cases {
            let wanted = wanted.map(|(a, b, at, quiet)| (a.to_owned(), b.to_owned(), at, quiet));
            assert_eq!(edge(parser.parse(line)), wanted, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn pairs_and_objects_are_edges_too() {
        let mut snap = parser("# x");
        assert!(snap.is_blank(b"  # comment") && snap.is_blank(b" \t") && !snap.is_blank(b"1 2"));
        assert_eq!(edge(snap.parse(b" 1\t2 ")), Ok(("1".into(), "2".into(), None, false)));
        assert_eq!(edge(snap.parse(b"1 2 5")), Ok(("1".into(), "2".into(), Some(946_684_800_000), false)));
        assert_eq!(edge(snap.parse(b"1")), Err("missing_columns"));
        assert_eq!(edge(snap.parse(b"1 2 3 4")), Err("too_many_columns"));
        let mut json = parser("{}");
        let line = br#"{"follower": 7, "target": "bob", "created_at": 1700000000, "quiet": true, "extra": [1]}"#;
        assert_eq!(edge(json.parse(line)), Ok(("7".into(), "bob".into(), Some(1_700_000_000_000), true)));
        for (line, reason) in [
            (r#"{"follower": 7}"#, "missing_columns"),
            (r#"{"follower": 7, "target": 8"#, "invalid_json"),
            (r#"{"follower": 7, "follower": 7, "target": 8}"#, "invalid_json"),
            (r#"{"follower": "", "target": 8}"#, "invalid_id"),
            (r#"{"follower": 7, "target": 8, "created_at": "x"}"#, "invalid_time"),
            (r#"{"id": 7}"#, "a user"),
            ("[1, 2]", "invalid_json"),
        ] {
            assert_eq!(edge(json.parse(line.as_bytes())), Err(reason), "{line}");
        }
        assert_eq!(edge(json.parse(b"{\"follower\": \"\xff\", \"target\": 8}")), Err("not_utf8"));
    }

    #[test]
    fn users_keep_what_a_file_does_not_mention() {
        let mut parser = parser("id,name,private");
        let Ok(Entry::User { person, patch }) = parser.parse(b"alice,,1") else { panic!() };
        assert_eq!(person.id().as_str(), "alice");
        assert_eq!(*patch, UserPatch { name: Some(None), private: Some(true), ..UserPatch::default() });
        assert_eq!(parser.parse(format!("a,{},", "n".repeat(513)).as_bytes()), Err(Reason::InvalidName));
    }
}
