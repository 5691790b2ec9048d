//! What the viewer is told, in a form in which two worlds can be compared: everything but what a clock or chance decides.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::kit::table::Reply;

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In the order of their names.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

/// How long something took, and when it was sent.
const TIMES: [&str; 2] = ["date", "server-timing"];

impl Answer {
    pub(crate) fn of(reply: &Reply) -> Self {
        let pairs = reply.headers.iter();
        let mut headers: Vec<(String, String)> =
            pairs.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        headers.retain(|(name, _)| !TIMES.contains(&name.as_str()));
        headers.sort();
        Self { status: reply.status, headers, text: reply.text.clone() }
    }

    pub(crate) fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Where its list goes on.
    pub(crate) fn next_cursor(&self) -> Option<String> {
        self.body()["next_cursor"].as_str().map(str::to_owned)
    }

    pub(crate) fn replace(&mut self, from: &str, to: &str) {
        self.text = self.text.replace(from, to);
        self.headers.iter_mut().for_each(|(_, value)| *value = value.replace(from, to));
    }

    /// With a name in place of everything that is only to be given back.
    pub(crate) fn shown(&self, sealed: &mut Sealed) -> String {
        let mut lines = format!("{}\n", self.status);
        for (name, value) in &self.headers {
            let kind = if name == "entourage-token" { "token" } else { "cursor" };
            lines.push_str(&format!("{name}: {}\n", sealed.hide(kind, value)));
        }
        let kind = if self.text.contains("\"ticket\"") { "ticket" } else { "cursor" };
        lines + &sealed.hide(kind, &without_delivery(&self.text))
    }
}

/// When the last follower had a post is up to the threads that bring it.
fn without_delivery(text: &str) -> String {
    const FIELD: &str = "\"pushed_at\":\"";
    match text.split_once(FIELD).and_then(|(head, tail)| Some((head, tail.split_once('"')?))) {
        Some((head, (_, tail))) => format!("{head}{FIELD}…\"{tail}"),
        None => text.to_owned(),
    }
}

/// What the server handed out to be given back, by kind. Its bytes are chance; that one of them comes a second time is
/// not, so each is known by the request that brought it first.
#[derive(Default)]
pub(crate) struct Sealed {
    /// How many requests there were.
    pub(crate) asked: usize,
    first: HashMap<String, usize>,
    pub(crate) by_kind: BTreeMap<&'static str, Vec<String>>,
}

/// The bits of a version that count the commits of its millisecond: those of jobs and deliveries are among them, which
/// come when they come. No other number in an answer is as great.
const COUNTER_BITS: u32 = 12;
const VERSION_MIN: u64 = 1 << 60;
/// Nothing else in an answer has so many letters and digits in a row.
const SEALED_MIN_CHARS: usize = 36;

impl Sealed {
    pub(crate) fn hide(&mut self, kind: &'static str, text: &str) -> String {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let mut shown = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(length);
            match word.parse::<u64>() {
                Ok(number) if number > VERSION_MIN => shown.push_str(&format!("{}…", number >> COUNTER_BITS)),
                _ if length < SEALED_MIN_CHARS => shown.push_str(word),
                _ => shown.push_str(&self.name(kind, word)),
            }
            let other = tail.find(is_part).unwrap_or(tail.len());
            shown.push_str(&tail[..other]);
            rest = &tail[other..];
        }
        shown
    }

    fn name(&mut self, kind: &'static str, word: &str) -> String {
        let length = word.len();
        if let Some(first) = self.first.get(word).filter(|first| **first < self.asked) {
            return format!("<{kind} of {length} characters, known from request {first}>");
        }
        if self.first.insert(word.to_owned(), self.asked).is_none() {
            self.by_kind.entry(kind).or_default().push(word.to_owned());
        }
        format!("<{kind} of {length} characters>")
    }
}

#[test]
fn what_is_sealed_is_named_by_its_first_time() {
    let mut sealed = Sealed::default();
    let (one, other) = ("a".repeat(40), "b".repeat(41));
    assert_eq!(
        sealed.hide("cursor", &format!("\"{one}\", {one}")),
        "\"<cursor of 40 characters>\", <cursor of 40 characters>"
    );
    sealed.asked = 7;
    assert_eq!(sealed.hide("token", &other), "<token of 41 characters>");
    assert_eq!(sealed.hide("cursor", &format!("{one}&x")), "<cursor of 40 characters, known from request 0>&x");
    assert_eq!(sealed.by_kind["cursor"], [one]);
}
