//! How a file says things: its format, its delimiter, which column is which. Found out from its first lines, as far as
//! nobody said it.

use entourage_model::{Code, Error, Result};

use super::{
    columns::{Columns, Field, Subject},
    head::Head,
    time::is_time,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Found out from the first lines.
    #[default]
    Auto,
    Csv,
    Ndjson,
    /// Words with white space between them, comments behind `#` or `%`.
    Snap,
}

/// What a file without a header is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    Edges,
    Users,
    Suggestions,
}

/// How files are to be read, as far as it is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    pub format: Format,
    /// What CSV without a header holds.
    pub contents: Option<Contents>,
    /// The names of the columns, instead of a header's; others than the known ones are passed over.
    pub columns: Option<Vec<String>>,
    /// The first line is a header whose names say nothing.
    pub skips_header: bool,
    /// Each pair is followed both ways.
    pub undirected: bool,
    /// Times before 2000 and times to come are taken as 2000 and as now; otherwise they are rejects.
    pub clamps_times: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) style: Style,
    /// The first line is no data.
    pub(super) skips_first: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Csv { delimiter: u8, columns: Columns },
    Ndjson,
    Words { columns: Columns },
}

impl Dialect {
    pub(super) fn of(head: &Head, form: &Form) -> Result<Self> {
        let first = head.first();
        if form.format == Format::Ndjson || (form.format == Format::Auto && first.starts_with(b"{")) {
            return Ok(Self { style: Style::Ndjson, skips_first: false });
        }
        let is_words = match form.format {
            Format::Snap => true,
            Format::Auto => !first.iter().any(|byte| b",;\"".contains(byte)),
            Format::Csv | Format::Ndjson => false,
        };
        let delimiter = delimiter(first);
        let style = |is_words: bool, columns: Columns| match is_words {
            true => Style::Words { columns },
            false => Style::Csv { delimiter, columns },
        };
        if let Some(names) = &form.columns {
            let columns = Columns::named(names.iter().map(String::as_str)).ok_or_else(no_row)?;
            return Ok(Self { style: style(is_words, columns), skips_first: form.skips_header });
        }
        if is_words && let Some(dialect) = Self::of_comment(head) {
            return Ok(dialect);
        }
        if let Some((is_words, columns)) = header(first, delimiter, is_words) {
            return Ok(Self { style: style(is_words, columns), skips_first: true });
        }
        let fields = |line| fields(line, delimiter, is_words);
        if head.second().is_some_and(|second| is_header_of(&fields(first), &fields(second))) {
            return Err(unknown_header(&fields(first)));
        }
        let is_pair = is_words && (2..=3).contains(&fields(first).len());
        let columns = match (form.format, form.contents) {
            (Format::Snap, _) | (_, Some(Contents::Edges)) => Columns::of_follows(),
            (Format::Auto, None) if is_pair => Columns::of_follows(),
            (_, Some(Contents::Users)) => Columns::of_users(),
            (_, Some(Contents::Suggestions)) => Columns::of_suggestions(),
            (_, None) => return Err(unknown()),
        };
        let is_words = form.format == Format::Snap || (is_pair && columns.subject == Subject::Follow);
        let columns = if is_words { pairs(columns) } else { columns };
        let time = columns.place(Field::CreatedAt).and_then(|place| fields(first).get(place).copied());
        match time.filter(|text| !text.is_empty() && !is_time(text)) {
            Some(text) => Err(no_time(text)),
            None => Ok(Self { style: style(is_words, columns), skips_first: form.skips_header }),
        }
    }

    /// What a comment says of the lines below: KONECT has a weight before the time, Matrix Market a line of sizes first.
    fn of_comment(head: &Head) -> Option<Self> {
        let comment = head.comment.as_deref().filter(|comment| comment.starts_with(b"%"))?;
        let is_matrix = comment.starts_with(b"%%MatrixMarket");
        let names = ["follower", "target", "weight", "created_at"];
        let columns = Columns::named(names.into_iter().take(if is_matrix { 3 } else { 4 }))?;
        Some(Self { style: Style::Words { columns }, skips_first: is_matrix })
    }
}

/// Two ids, perhaps a time behind them.
fn pairs(columns: Columns) -> Columns {
    Columns::named(["follower", "target", "created_at"].into_iter()).unwrap_or(columns)
}

/// The columns that a header names, and whether white space is between them.
fn header(first: &[u8], delimiter: u8, is_words: bool) -> Option<(bool, Columns)> {
    let line = std::str::from_utf8(first).ok()?;
    let columns = Columns::named(line.split(char::from(delimiter))).map(|columns| (false, columns));
    columns.or_else(|| Some((true, Columns::named(line.split_ascii_whitespace()).filter(|_| is_words)?)))
}

fn fields(line: &[u8], delimiter: u8, is_words: bool) -> Vec<&[u8]> {
    match is_words {
        true => line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect(),
        false => line.split(|byte| *byte == delimiter).map(<[u8]>::trim_ascii).collect(),
    }
}

/// Names over numbers are a header, whatever they mean.
fn is_header_of(first: &[&[u8]], second: &[&[u8]]) -> bool {
    let is_number = |field: &&[u8]| field.first().is_some_and(u8::is_ascii_digit);
    !first.iter().any(is_number) && second.iter().any(is_number)
}

fn delimiter(line: &[u8]) -> u8 {
    let count = |delimiter: u8| line.iter().filter(|byte| **byte == delimiter).count();
    [b',', b';', b'\t'].into_iter().rev().max_by_key(|delimiter| count(*delimiter)).unwrap_or(b',')
}

fn refused(detail: String) -> Error {
    Error::new(Code::UnsupportedMediaType, detail)
}

fn unknown() -> Error {
    refused(
        "the first line is neither a header (follower,target[,created_at][,quiet] or \
         id[,name][,avatar_url][,private][,hide_lists][,registered_at], or that of another kind of export) \
         nor JSON nor a pair; \
         for CSV without a header say --edges, --users or --suggestions; \
         for a header with other names say which column is which, as in --columns follower,target --header"
            .to_owned(),
    )
}

fn unknown_header(names: &[&[u8]]) -> Error {
    let names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
    refused(format!(
        "the first line ({}) looks like a header whose names are not known; say which column is which and pass over it, \
         as in --columns follower,target --header, with _ for a column that does not matter; \
         if these are ids, say --columns alone",
        names.join(", ")
    ))
}

fn no_time(text: &[u8]) -> Error {
    refused(format!(
        "the third column of the first line ({}) is no time since 2000; say which column is which, \
         as in --columns follower,target,_ or --columns follower,target,_,created_at",
        String::from_utf8_lossy(text)
    ))
}

fn no_row() -> Error {
    Error::invalid(
        "--columns names no row; name at least follower,target or requester,target or blocker,blocked or muter,muted \
         or owner,name or owner,group,member or author,body or user,suggested or id",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, form: &Form) -> Result<Dialect> {
        let mut lines = crate::import::lines::Lines::new(text.as_bytes(), Default::default());
        let head = Head::read(&mut lines, form.format).unwrap().unwrap();
        Dialect::of(&head, form)
    }

    fn csv(delimiter: u8, names: &str) -> Option<(Style, bool)> {
        Some((Style::Csv { delimiter, columns: Columns::named(names.split(',')).unwrap() }, true))
    }

    fn words(names: &str, skips_first: bool) -> Option<(Style, bool)> {
        Some((Style::Words { columns: Columns::named(names.split(',')).unwrap() }, skips_first))
    }

    #[test]
    fn the_first_lines_tell() {
        let pairs = words("follower,target,created_at", false);
        let cases = [
            ("follower,target", csv(b',', "follower,target")),
            ("quiet;target;follower;created_at", csv(b';', "quiet,target,follower,created_at")),
            ("Follower_ID\tfollowee_id", csv(b'\t', "follower,target")),
            ("\"follower\",\"target\"", csv(b',', "follower,target")),
            ("source,target\n1,2", csv(b',', "follower,target")),
            ("id_1,id_2\n1,2", csv(b',', "follower,target")),
            ("from,to\n1,2", csv(b',', "follower,target")),
            ("from to\n1 2", words("follower,target", true)),
            ("id,name", csv(b',', "id,name")),
            ("# comment\n\n#another\n1 2", pairs.clone()),
            ("# a comment\nsource,target", csv(b',', "follower,target")),
            ("1 2", pairs.clone()),
            ("1\t2\t1082040961", pairs.clone()),
            ("1 2 1289241911.72", pairs.clone()),
            ("% sym unweighted\n1 2", words("follower,target,_,created_at", false)),
            ("% asym weighted\n1 2 4 1289241911", words("follower,target,_,created_at", false)),
            ("%%MatrixMarket matrix coordinate\n% x\n9 9 2\n1 2\n", words("follower,target,_", true)),
            ("{\"follower\":1}", Some((Style::Ndjson, false))),
            ("# of nothing\n{\"follower\":1}", Some((Style::Ndjson, false))),
            ("alice bob\ncarol dave", pairs),
            ("1,2", None),
            ("one two three four", None),
            ("\u{1}\u{2}", None),
        ];
        for (text, wanted) in cases {
            let found = of(text, &Form::default()).ok().map(|dialect| (dialect.style, dialect.skips_first));
            assert_eq!(found, wanted, "{text}");
        }
        let bare = Form { contents: Some(Contents::Edges), ..Form::default() };
        let found = of("1,2", &bare).unwrap();
        let columns = Columns::of_follows();
        assert_eq!(found, Dialect { style: Style::Csv { delimiter: b',', columns }, skips_first: false });
        let said = Form { columns: Some(vec!["from".into(), "_".into(), "to".into()]), ..Form::default() };
        let found = of("a,b,c", &Form { skips_header: true, ..said.clone() }).unwrap();
        assert_eq!(Some((found.style, found.skips_first)), csv(b',', "from,_,to"));
        let found = of("a b c", &said).unwrap();
        assert_eq!(Some((found.style, found.skips_first)), words("from,_,to", false));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_the_right_advice() {
        let edges = Form { contents: Some(Contents::Edges), ..Form::default() };
        let plain = Form::default();
        let cases = [
            ("user,friend\n1,2", &plain, "(user, friend) looks like a header"),
            ("user,friend\n1,2", &edges, "--columns follower,target --header"),
            ("user friend\n1 2", &plain, "(user, friend) looks like a header"),
            ("1,2\n3,4", &plain, "say --edges, --users or --suggestions"),
            ("1 2 5", &plain, "the third column of the first line (5)"),
            ("6,2,4,1289241911.7", &edges, "--columns follower,target,_,created_at"),
        ];
        for (text, form, said) in cases {
            let error = of(text, form).unwrap_err();
            assert!(error.detail().contains(said), "{text}: {}", error.detail());
        }
        let nothing = Form { columns: Some(vec!["a".into()]), ..Form::default() };
        assert_eq!(of("1,2", &nothing).unwrap_err().code(), Code::InvalidRequest);
    }
}
