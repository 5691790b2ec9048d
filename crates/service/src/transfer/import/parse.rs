//! From a line to an entry. A line stands for itself: whatever is wrong with it, the next one is read as if nothing was.

use entourage_model::{ExternalId, ImportedPost, KeyHasher, Millis, Post, UserPatch, Version};

use super::{
    columns::{Columns, Field, Subject},
    dialect::Style,
    head::is_remark,
    lines::LINE_MAX_BYTES,
    person::Person,
    row::{Entry, Reason},
    time::Times,
};
use crate::{
    AVATAR_URL_MAX_BYTES, NAME_MAX_BYTES,
    feed::check_body,
    graph::{group::document, is_text_fine},
    suggestions::imported::ordered_score,
};

mod json;

const COLUMNS_MAX: usize = 64;

pub(super) struct Parser {
    style: Style,
    keys: KeyHasher,
    pub(super) times: Times,
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
    pub(super) fn new(style: Style, keys: KeyHasher, times: Times) -> Self {
        let delimiter = if let Style::Csv { delimiter, .. } = style { delimiter } else { b',' };
        Self { style, keys, times, record: Box::new(Record::new(delimiter)) }
    }

    /// Whether a line says nothing at all.
    pub(super) fn is_blank(&self, line: &[u8]) -> bool {
        line.is_empty()
            || line.iter().all(u8::is_ascii_whitespace)
            || (matches!(self.style, Style::Words { .. }) && is_remark(line))
    }

    pub(super) fn parse(&mut self, line: &[u8]) -> Result<Entry, Reason> {
        match &self.style {
            Style::Ndjson => json::parse(line, &self.keys, self.times),
            Style::Words { columns } => {
                let mut words: [&[u8]; COLUMNS_MAX] = [&[]; COLUMNS_MAX];
                let found = words_of(line, columns.width, &mut words)?;
                let field = |place: usize| words.get(..found)?.get(place).copied();
                Fields { columns, field, keys: &self.keys, times: self.times }.entry()
            }
            Style::Csv { columns, .. } => {
                self.record.read(line)?;
                let field = |place: usize| self.record.field(place);
                Fields { columns, field, keys: &self.keys, times: self.times }.entry()
            }
        }
    }
}

/// How many words there are. More than are named have no meaning.
fn words_of<'a>(line: &'a [u8], width: usize, words: &mut [&'a [u8]; COLUMNS_MAX]) -> Result<usize, Reason> {
    let mut found = 0;
    for word in line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
        let slot = words.get_mut(found).filter(|_| found < width).ok_or(Reason::TooManyColumns)?;
        *slot = word;
        found += 1;
    }
    Ok(found)
}

impl Record {
    fn new(delimiter: u8) -> Self {
        let reader = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        let mut record = Self { reader, text: vec![0; LINE_MAX_BYTES + 1], ends: [0; COLUMNS_MAX], fields: 0 };
        record.begin();
        record
    }

    /// The reader takes three bytes off the beginning of what it reads, and takes every reset for a beginning. What stands at
    /// the beginning of the file is not its business, and at the beginning of another line it is part of an id.
    fn begin(&mut self) {
        self.reader.reset();
        let _ = self.reader.read_record(b"\n", &mut self.text, &mut self.ends);
    }

    /// A field may be in quotes, but it ends on its line: no id and no name has a line break in it.
    fn read(&mut self, line: &[u8]) -> Result<(), Reason> {
        if memchr::memchr_iter(b'"', line).count() % 2 == 1 {
            return Err(Reason::BrokenQuotes);
        }
        let (result, _, text, fields) = self.reader.read_record(line, &mut self.text, &mut self.ends);
        if result != csv_core::ReadRecordResult::InputEmpty {
            self.begin();
            return Err(Reason::TooManyColumns);
        }
        let (result, _, _, more) = self.reader.read_record(b"\n", &mut self.text[text..], &mut self.ends[fields..]);
        self.fields = fields + more;
        if result == csv_core::ReadRecordResult::Record {
            return Ok(());
        }
        self.begin();
        Err(Reason::TooManyColumns)
    }

    fn field(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.fields].get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.text.get(start..end)
    }
}

/// The fields of one line, by the columns that hold them.
struct Fields<'a, F> {
    columns: &'a Columns,
    field: F,
    keys: &'a KeyHasher,
    times: Times,
}

impl<'a, F: Fn(usize) -> Option<&'a [u8]>> Fields<'a, F> {
    fn entry(&self) -> Result<Entry, Reason> {
        match self.columns.subject {
            Subject::Follow => Ok(Entry::Edge {
                follower: self.person(Field::Follower)?,
                target: self.person(Field::Target)?,
                at: self.past(Field::CreatedAt)?,
                quiet: self.may(Field::Quiet).map(flag).transpose()?.unwrap_or(false),
            }),
            Subject::Request => Ok(Entry::Request {
                follower: self.person(Field::Requester)?,
                target: self.person(Field::Target)?,
                at: self.past(Field::CreatedAt)?,
            }),
            Subject::Block => Ok(Entry::Block {
                actor: self.person(Field::Blocker)?,
                target: self.person(Field::Blocked)?,
                at: self.past(Field::CreatedAt)?,
            }),
            Subject::Mute => Ok(Entry::Mute {
                actor: self.person(Field::Muter)?,
                target: self.person(Field::Muted)?,
                at: self.past(Field::CreatedAt)?,
                expires_at: self.may(Field::ExpiresAt).map(|text| self.times.end(text)).transpose()?,
            }),
            Subject::Group => {
                let (owner, at) = (self.person(Field::Owner)?, self.past(Field::CreatedAt)?);
                group(owner, self.words(Field::Id)?, self.words(Field::Name)?.unwrap_or_default(), at, self.times)
            }
            Subject::GroupMember => Ok(Entry::Member {
                owner: self.person(Field::Owner)?,
                group: self.words(Field::Group)?.ok_or(Reason::MissingColumns)?.into(),
                member: self.person(Field::Member)?,
            }),
            Subject::Post => {
                let written = Written {
                    id: self.words(Field::Id)?,
                    at: self.past(Field::CreatedAt)?,
                    edited_at: self.past(Field::EditedAt)?,
                    external_id: self.words(Field::ExternalId)?,
                    body: self.words(Field::Body)?.ok_or(Reason::MissingColumns)?,
                };
                written.entry(self.person(Field::Author)?, self.times)
            }
            Subject::Suggestion => Ok(Entry::Suggestion {
                user: self.person(Field::User)?,
                suggested: self.person(Field::Suggested)?,
                score: self.words(Field::Score)?.map_or(Ok(NO_SCORE), score)?,
            }),
            Subject::User => {
                let patch = UserPatch {
                    name: self.text(Field::Name)?,
                    avatar_url: self.text(Field::AvatarUrl)?,
                    private: self.may(Field::Private).map(flag).transpose()?,
                    hide_lists: self.may(Field::HideLists).map(flag).transpose()?,
                    registered_at: self.past(Field::RegisteredAt)?,
                };
                user(self.person(Field::Id)?, patch)
            }
        }
    }

    fn get(&self, field: Field) -> Option<&'a [u8]> {
        (self.field)(self.columns.place(field)?)
    }

    fn may(&self, field: Field) -> Option<&'a [u8]> {
        self.get(field).filter(|text| !text.is_empty())
    }

    fn past(&self, field: Field) -> Result<Option<Millis>, Reason> {
        self.may(field).map(|text| self.times.past(text)).transpose()
    }

    fn words(&self, field: Field) -> Result<Option<&'a str>, Reason> {
        self.may(field).map(|text| std::str::from_utf8(text).map_err(|_| Reason::NotUtf8)).transpose()
    }

    fn person(&self, field: Field) -> Result<Person, Reason> {
        Person::parse(self.get(field).ok_or(Reason::MissingColumns)?, self.keys)
    }

    /// A column that is there says something of its field, also by being empty.
    fn text(&self, field: Field) -> Result<Option<Option<Box<str>>>, Reason> {
        let Some(text) = self.get(field) else { return Ok(None) };
        let text = std::str::from_utf8(text).map_err(|_| Reason::NotUtf8)?;
        Ok(Some((!text.is_empty()).then(|| text.into())))
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

fn group(owner: Person, id: Option<&str>, name: &str, at: Option<Millis>, times: Times) -> Result<Entry, Reason> {
    document(name).map_err(|_| Reason::InvalidName)?;
    let (id, at) = dated(id, at, times)?;
    Ok(Entry::Group { owner, id, name: name.into(), at })
}

/// A post as a file tells it.
struct Written<'a> {
    id: Option<&'a str>,
    at: Option<Millis>,
    edited_at: Option<Millis>,
    external_id: Option<&'a str>,
    body: &'a str,
}

impl Written<'_> {
    fn entry(self, author: Person, times: Times) -> Result<Entry, Reason> {
        check_body(self.body).map_err(|_| Reason::InvalidBody)?;
        let external_id = self.external_id.map(ExternalId::new).transpose().map_err(|_| Reason::InvalidExternalId)?;
        let (id, at) = dated(self.id, self.at, times)?;
        let imported = Some(ImportedPost { edited_at: self.edited_at });
        let value = Post { external_id, imported, ..Post::new(false, self.body) }.encode();
        Ok(Entry::Post { author, id, at, value })
    }
}

/// An id that an export wrote has its time in it. What has another time is somebody else's id, and none of ours.
fn dated(id: Option<&str>, at: Option<Millis>, times: Times) -> Result<(Option<Version>, Option<Millis>), Reason> {
    let Some(text) = id else { return Ok((None, at)) };
    let id = text.parse().map(Version::from_bits).map_err(|_| Reason::InvalidId)?;
    if id.to_string() != text || at.is_some_and(|at| at != id.millis()) {
        return Err(Reason::InvalidId);
    }
    if id.millis() > times.now { Err(Reason::TimeInFuture) } else { Ok((Some(id), Some(id.millis()))) }
}

/// Of a suggestion without one.
const NO_SCORE: u64 = ordered_score(0.0);

fn score(text: &str) -> Result<u64, Reason> {
    scored(text.trim().parse().map_err(|_| Reason::InvalidScore)?)
}

fn scored(score: f64) -> Result<u64, Reason> {
    if score.is_finite() { Ok(ordered_score(score)) } else { Err(Reason::InvalidScore) }
}

fn flag(text: &[u8]) -> Result<bool, Reason> {
    match text.to_ascii_lowercase().as_slice() {
        b"true" | b"1" => Ok(true),
        b"false" | b"0" => Ok(false),
        _ => Err(Reason::InvalidFlag),
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::Secret;

    use super::*;

    fn parser(style: Style) -> Parser {
        let times = Times { now: Millis::from_unix(1_750_000_000_000), clamps: false };
        Parser::new(style, KeyHasher::new(&Secret::from_bytes([1; 32])), times)
    }

    fn columns(names: &str) -> Columns {
        Columns::named(names.split(',')).unwrap()
    }

    fn csv(names: &str) -> Parser {
        parser(Style::Csv { delimiter: b',', columns: columns(names) })
    }

    fn edge(entry: Result<Entry, Reason>) -> Result<(String, String, Option<i64>, bool), &'static str> {
        match entry.map_err(Reason::as_str)? {
            Entry::Edge { follower, target, at, quiet } => {
                Ok((follower.id().to_string(), target.id().to_string(), at.map(Millis::to_unix), quiet))
            }
            Entry::User { .. } => Err("a user"),
            _ => Err("something else"),
        }
    }

    type Wanted<'a> = Result<(&'a str, &'a str, Option<i64>, bool), &'static str>;

    fn compare(parser: &mut Parser, cases: &[(&[u8], Wanted<'_>)]) {
        for (line, wanted) in cases {
            let wanted = wanted.map(|(a, b, at, quiet)| (a.to_owned(), b.to_owned(), at, quiet));
            assert_eq!(edge(parser.parse(line)), wanted, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn lines_of_csv_stand_for_themselves() {
        let many = vec!["x"; COLUMNS_MAX + 1].join(",");
        let marked = "\u{feff}1,\u{feff}2";
        compare(
            &mut csv("follower,target,created_at,quiet"),
            &[
                (b"1,2", Ok(("1", "2", None, false))),
                (b"1,2,,", Ok(("1", "2", None, false))),
                (b"alice,\"b,\"\"o\"\"b\",1700000000,1", Ok(("alice", "b,\"o\"b", Some(1_700_000_000_000), true))),
                (b"1,2,1700000000123,false", Ok(("1", "2", Some(1_700_000_000_123), false))),
                (b"1,2,1700000000.123,false", Ok(("1", "2", Some(1_700_000_000_123), false))),
                (b"1,2,2023-11-14T22:13:20Z,TRUE", Ok(("1", "2", Some(1_700_000_000_000), true))),
                (b"1", Err("missing_columns")),
                (b"1,", Err("invalid_id")),
                (b"1,2,tomorrow", Err("invalid_time")),
                (b"1,2,-9223372036854775808", Err("invalid_time")),
                (b"1,2,5", Err("invalid_time")),
                (b"1,2,1700000000000000", Err("time_in_future")),
                (b"1,2,,maybe", Err("invalid_flag")),
                (b"1,\"2", Err("broken_quotes")),
                (b"1,caf\xe9", Err("not_utf8")),
                (b"1,a\x07b", Err("invalid_id")),
                (many.as_bytes(), Err("too_many_columns")),
                // Only the first line of a file can have a mark of byte order; elsewhere it is part of an id.
                (marked.as_bytes(), Ok(("\u{feff}1", "\u{feff}2", None, false))),
                (b"3,4", Ok(("3", "4", None, false))),
            ],
        );
        let mut first = csv("follower,target");
        compare(&mut first, &[(marked.as_bytes(), Ok(("\u{feff}1", "\u{feff}2", None, false)))]);
    }

    #[test]
    fn words_are_edges_too() {
        let mut pairs = parser(Style::Words { columns: columns("follower,target,created_at") });
        assert!(pairs.is_blank(b"  # comment") && pairs.is_blank(b"% comment"));
        assert!(pairs.is_blank(b" \t") && !pairs.is_blank(b"1 2"));
        compare(
            &mut pairs,
            &[
                (b" 1\t2 ", Ok(("1", "2", None, false))),
                (b"1 2 1700000000", Ok(("1", "2", Some(1_700_000_000_000), false))),
                (b"1 2 5", Err("invalid_time")),
                (b"1", Err("missing_columns")),
                (b"1 2 3 4", Err("too_many_columns")),
            ],
        );
        let mut weighed = parser(Style::Words { columns: columns("follower,target,_,created_at") });
        compare(
            &mut weighed,
            &[
                (b"1 2", Ok(("1", "2", None, false))),
                (b"1 2 5", Ok(("1", "2", None, false))),
                (b"1 2 -0.5 1289241911.72836", Ok(("1", "2", Some(1_289_241_911_728), false))),
                (b"1 2 5 1700000000 6", Err("too_many_columns")),
            ],
        );
    }

    #[test]
    fn objects_are_edges_or_users() {
        let mut json = parser(Style::Ndjson);
        let line = br#"{"follower": 7, "target": "bob", "created_at": 1700000000, "quiet": true, "extra": [1]}"#;
        assert_eq!(edge(json.parse(line)), Ok(("7".into(), "bob".into(), Some(1_700_000_000_000), true)));
        let line = br#"{"follower": 7, "target": "bob", "created_at": 1700000000.25, "source": "mobile"}"#;
        assert_eq!(edge(json.parse(line)), Ok(("7".into(), "bob".into(), Some(1_700_000_000_250), false)));
        for (line, reason) in [
            (r#"{"follower": 7}"#, "missing_columns"),
            (r#"{"follower": 7, "target": 8"#, "invalid_json"),
            (r#"{"follower": 7, "follower": 7, "target": 8}"#, "invalid_json"),
            (r#"{"follower": "", "target": 8}"#, "invalid_id"),
            (r#"{"follower": 7.5, "target": 8}"#, "invalid_id"),
            (r#"{"follower": 7, "target": 8, "created_at": "x"}"#, "invalid_time"),
            (r#"{"follower": 7, "target": 8, "created_at": -9223372036854775808}"#, "invalid_time"),
            (r#"{"follower": 7, "target": 8, "created_at": 1700000000000000}"#, "time_in_future"),
            (r#"{"id": 7}"#, "a user"),
            ("[1, 2]", "invalid_json"),
        ] {
            assert_eq!(edge(json.parse(line.as_bytes())), Err(reason), "{line}");
        }
        assert_eq!(edge(json.parse(b"{\"follower\": \"\xff\", \"target\": 8}")), Err("not_utf8"));
    }

    #[test]
    fn every_kind_says_the_same_as_csv_and_as_an_object() {
        let id = Version::from_bits(Version::of_millis(Millis::from_unix(1_700_000_000_000)).bits() + 77);
        let (time, late) = ("2023-11-14T22:13:20.000Z", "2033-11-14T22:13:20.000Z");
        let cases = [
            (
                "follower,target,created_at,quiet",
                format!("a,b,{time},true"),
                format!(r#"{{"type":"follow","follower":"a","target":"b","created_at":"{time}","quiet":true}}"#),
            ),
            (
                "requester,target,created_at",
                format!("a,b,{time}"),
                format!(r#"{{"type":"request","requester":"a","target":"b","created_at":"{time}"}}"#),
            ),
            (
                "blocker,blocked,created_at",
                format!("a,b,{time}"),
                format!(r#"{{"type":"block","blocker":"a","blocked":"b","created_at":"{time}"}}"#),
            ),
            (
                "muter,muted,created_at,expires_at",
                format!("a,b,{time},{late}"),
                format!(r#"{{"type":"mute","muter":"a","muted":"b","created_at":"{time}","expires_at":"{late}"}}"#),
            ),
            (
                "owner,id,name,created_at",
                format!("a,{id},Friends,{time}"),
                format!(r#"{{"type":"group","owner":"a","id":"{id}","name":"Friends","created_at":"{time}"}}"#),
            ),
            (
                "owner,group,member",
                format!("a,{id},b"),
                format!(r#"{{"type":"group_member","owner":"a","group":"{id}","member":"b"}}"#),
            ),
            (
                "author,id,created_at,edited_at,external_id,body",
                format!("a,{id},{time},{time},x,\"{{\"\"t\"\": 1}}\""),
                format!(
                    r#"{{"type":"post","author":"a","id":"{id}","created_at":"{time}","edited_at":"{time}","external_id":"x","body":{{"t": 1}}}}"#
                ),
            ),
            ("id,name", "a,Ann".to_owned(), r#"{"type":"user","id":"a","name":"Ann"}"#.to_owned()),
        ];
        for (header, line, object) in cases {
            let by_csv = csv(header).parse(line.as_bytes()).unwrap();
            assert_eq!(parser(Style::Ndjson).parse(object.as_bytes()), Ok(by_csv), "{header}");
        }
    }

    #[test]
    fn posts_and_groups_are_looked_at() {
        let mut json = parser(Style::Ndjson);
        let id = Version::of_millis(Millis::from_unix(1_700_000_000_000));
        let future = Version::of_millis(Millis::from_unix(1_900_000_000_000));
        let long = "x".repeat(256);
        let post = |rest: &str| format!(r#"{{"type":"post","author":1,{rest}}}"#);
        let cases = [
            (post(r#""body":7"#), Reason::InvalidBody),
            (post(r#""text":"x""#), Reason::MissingColumns),
            (post(&format!(r#""body":{{}},"id":"{id}","created_at":1700000001"#)), Reason::InvalidId),
            (post(&format!(r#""body":{{}},"id":"{future}""#)), Reason::TimeInFuture),
            (post(r#""body":{},"id":"abc","created_at":1700000000"#), Reason::InvalidId),
            (post(r#""body":{},"id":12345,"created_at":1700000000"#), Reason::InvalidId),
            (post(&format!(r#""body":{{}},"external_id":"{long}""#)), Reason::InvalidExternalId),
            (r#"{"type":"group","owner":1}"#.to_owned(), Reason::MissingColumns),
            (r#"{"type":"group","owner":1,"name":""}"#.to_owned(), Reason::InvalidName),
            (
                r#"{"type":"mute","muter":1,"muted":2,"expires_at":"2020-01-01T00:00:00Z"}"#.to_owned(),
                Reason::AlreadyOver,
            ),
            (r#"{"type":"like","follower":1,"target":2}"#.to_owned(), Reason::UnknownType),
        ];
        for (line, reason) in cases {
            assert_eq!(json.parse(line.as_bytes()), Err(reason), "{line}");
        }
        let found = json.parse(post(r#""body": { "a" :  1.50 },"external_id":7"#).as_bytes()).unwrap();
        let Entry::Post { id: None, at: None, value, .. } = found else { panic!("{found:?}") };
        let post = Post::decode(&value).unwrap();
        assert_eq!((&*post.body, post.external_id.unwrap().as_str()), (r#"{ "a" :  1.50 }"#, "7"));
    }

    #[test]
    fn users_keep_what_a_file_does_not_mention() {
        let mut parser = csv("id,name,private");
        let Ok(Entry::User { person, patch }) = parser.parse(b"alice,,1") else { panic!() };
        assert_eq!(person.id().as_str(), "alice");
        assert_eq!(*patch, UserPatch { name: Some(None), private: Some(true), ..UserPatch::default() });
        assert_eq!(parser.parse(format!("a,{},", "n".repeat(513)).as_bytes()), Err(Reason::InvalidName));
    }
}
