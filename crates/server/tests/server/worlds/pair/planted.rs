//! Leaks put back on purpose, between the server and the viewer: a front that knows the whole store and tells more of it
//! than it should. A comparison that lets one of them pass is not trusted.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hasher},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use entourage_model::{KeyHasher, Millis};
use serde_json::{Value, json};

use super::{
    answer::Answer,
    world::{By, World},
};
use crate::kit::streaming::Message;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Leak {
    /// The cursor of a list is signed, and says which row was looked at last, hidden or not.
    ReadableCursor,
    /// The same of `EG.LIST`.
    ReadableCursorOfResp,
    /// A list has more, and what it has more of is hidden.
    EmptyPage,
    EmptyPageOfList,
    EmptyPageOfScan,
    /// A token has the sequence of the store in clear.
    ReadableToken,
    /// A token is sealed, and the same for the same sequence.
    RepeatedToken,
    /// A follow that does not say whether it is quiet is an open one.
    OmittedQuietIsOpen,
    /// Who follows a private account quietly reads what it wrote,
    QuietReadsPosts,
    /// and its lists.
    QuietReadsLists,
    /// Taking a quiet follower away is not remembered by its Idempotency-Key.
    RetryOfQuietIsNew,
    /// Quiet followers are counted.
    QuietIsCounted,
    /// A cursor is longer where a hidden row was looked at last.
    LongerCursor,
    /// A header has the version of the whole store.
    TaggedAnswers,
    /// A quiet follow is nothing to tell, and so that is told.
    StreamStirs,
    /// Who follows the viewer quietly is suggested to them.
    QuietIsSuggested,
}

impl Leak {
    /// With a part of what a failure says when it was found by what it is.
    pub(crate) const ALL: [(Self, &'static str); 16] = [
        (Self::ReadableCursor, "a cursor tells something"),
        (Self::ReadableCursorOfResp, "a cursor tells something"),
        (Self::EmptyPage, "/follow"),
        (Self::EmptyPageOfList, "EG.LIST follow"),
        (Self::EmptyPageOfScan, "SSCAN follow"),
        (Self::ReadableToken, "a token tells something"),
        (Self::RepeatedToken, "entourage-token"),
        (Self::OmittedQuietIsOpen, "followers"),
        (Self::QuietReadsPosts, "/posts"),
        (Self::QuietReadsLists, "/follow"),
        (Self::RetryOfQuietIsNew, "idempotent-replayed"),
        (Self::QuietIsCounted, "\"counts\""),
        (Self::LongerCursor, "characters"),
        (Self::TaggedAnswers, "etag"),
        (Self::StreamStirs, "messages of a stream"),
        (Self::QuietIsSuggested, "/suggestions"),
    ];
}

/// What a leak has to remember.
#[derive(Default)]
pub(crate) struct Forged {
    /// What the viewer got, and what it is to the server; nothing for an empty page.
    real: HashMap<String, Option<String>>,
    /// Idempotency keys of requests that took a quiet follower away.
    quiet_keys: HashSet<String>,
}

/// A row as services see it.
struct Seen {
    id: String,
    created_at: String,
}

/// The list of a path or of a key, if it is one of followers or following.
fn list_of(line: &str) -> Option<(String, &'static str)> {
    for side in ["followers", "following"] {
        for part in line.split([' ', '?']) {
            let user = part.strip_prefix("/users/").and_then(|rest| rest.strip_suffix(&format!("/{side}")));
            let user = user.or_else(|| part.strip_prefix(&format!("{side}:")));
            if let Some(user) = user {
                return Some((user.to_owned(), side));
            }
        }
    }
    None
}

/// All of a list, newest first.
fn whole(world: &World, (user, side): &(String, &str)) -> Vec<Seen> {
    let rows = world.service(&format!("GET /users/{user}/{side}?limit=200")).body["data"].clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let seen = |row: &Value| Seen { id: text(&row["id"]), created_at: text(&row["created_at"]) };
    rows.as_array().into_iter().flatten().map(seen).collect()
}

/// The rows that come behind this one, or all.
fn behind(world: &World, list: &(String, &str), last: Option<&str>) -> Vec<Seen> {
    let mut rows = whole(world, list);
    let skip = last.map_or(0, |last| rows.iter().position(|row| row.id == last).map_or(rows.len(), |at| at + 1));
    rows.split_off(skip)
}

fn is_quiet(world: &World, follower: &str, target: &str) -> bool {
    world.service(&format!("GET /users/{follower}/following/{target}")).body["quiet"] == true
}

fn sealed(mut bytes: Vec<u8>, chars: usize) -> String {
    while bytes.len() < chars * 3 / 4 {
        bytes.push(rand::random());
    }
    URL_SAFE_NO_PAD.encode(&bytes[..chars * 3 / 4])
}

/// A cursor as it was when it was only signed: position and key of a row, in clear.
fn readable(world: &World, row: &Seen, chars: usize) -> String {
    let position = Millis::parse_rfc3339(&row.created_at).map_or(0, |at| at.since_2000() << 22);
    let key = KeyHasher::new(&world.store().identity().secret).key(&row.id.as_str().try_into().unwrap());
    let mut bytes = vec![1, rand::random(), rand::random()];
    bytes.extend(position.to_be_bytes().into_iter().chain(key.0.to_be_bytes()));
    sealed(bytes, chars)
}

fn sequence(world: &World) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(world.store().last_event(0)).unwrap().0
}

/// What the viewer got becomes what the server gave; `None` for a page that is not there.
fn given_back(world: &World, line: &str) -> Option<String> {
    let mut line = line.to_owned();
    for (forged, real) in &world.forged.real {
        if line.contains(forged.as_str()) {
            line = line.replace(forged, real.as_ref()?);
        }
    }
    Some(line)
}

pub(super) fn ask(world: &mut World, leak: Leak, by: By, line: &str) -> Answer {
    let viewer = world.common.viewer.clone();
    let Some(line) = given_back(world, line) else {
        let text = json!({ "data": [], "next_cursor": null, "has_more": false, "total": 0 }).to_string();
        return Answer { status: 200, headers: Vec::new(), text };
    };
    let follower = line.split_once(&format!("DELETE /users/{viewer}/followers/"));
    let follower = follower.and_then(|(_, rest)| rest.split(' ').next()).map(str::to_owned);
    let was_quiet = leak == Leak::RetryOfQuietIsNew && follower.is_some_and(|id| is_quiet(world, &id, &viewer));
    let mut answer = world.ask_plainly(by, &line);
    match leak {
        Leak::ReadableCursor | Leak::LongerCursor | Leak::EmptyPage => page(world, leak, &line, &mut answer),
        Leak::ReadableToken | Leak::RepeatedToken => token(world, leak, &mut answer),
        Leak::QuietReadsPosts | Leak::QuietReadsLists => private(world, leak, &line, &mut answer),
        Leak::RetryOfQuietIsNew => {
            let key = line.split(' ').next().unwrap_or_default().to_owned();
            if world.forged.quiet_keys.contains(&key) {
                answer.headers.retain(|(name, _)| name != "idempotent-replayed");
            }
            world.forged.quiet_keys.extend(was_quiet.then_some(key));
        }
        Leak::QuietIsCounted if line.starts_with("GET /users/") && answer.text.contains("\"counts\"") => {
            let counts = world.service(&line).body["counts"]["followers"].clone();
            let mut body = answer.body();
            body["counts"]["followers"] = counts;
            answer.text = body.to_string();
        }
        Leak::QuietIsSuggested if line.contains(&format!("GET /users/{viewer}/suggestions")) => {
            let mut body = answer.body();
            for row in whole(world, &(viewer.clone(), "followers")) {
                if is_quiet(world, &row.id, &viewer)
                    && let Some(data) = body["data"].as_array_mut()
                {
                    data.push(json!({ "id": row.id, "reason": { "type": "follows_you" } }));
                }
            }
            answer.text = body.to_string();
        }
        Leak::TaggedAnswers => answer.headers.push(("etag".to_owned(), sequence(world).to_string())),
        _ => {}
    }
    answer
}

/// Leaks of a page of a list.
fn page(world: &mut World, leak: Leak, line: &str, answer: &mut Answer) {
    let Some(list) = list_of(line).filter(|_| line.starts_with("GET ") && answer.status == 200) else { return };
    let body = answer.body();
    let rows = body["data"].as_array().cloned().unwrap_or_default();
    let last = rows.last().and_then(|row| row["id"].as_str());
    let next = behind(world, &list, last).into_iter().next();
    match (body["next_cursor"].as_str(), next) {
        (Some(real), Some(next)) => {
            let forged = match leak {
                Leak::ReadableCursor => readable(world, &next, real.len()),
                Leak::LongerCursor if !is_shown(world, &list, &next.id) => sealed(Vec::new(), real.len() + 8),
                _ => return,
            };
            world.forged.real.insert(forged.clone(), Some(real.to_owned()));
            answer.replace(real, &forged);
        }
        (None, Some(_)) if leak == Leak::EmptyPage => {
            let forged = sealed(Vec::new(), 88);
            let changed =
                json!({ "data": body["data"], "next_cursor": forged, "has_more": true, "total": body["total"] });
            world.forged.real.insert(forged, None);
            answer.text = changed.to_string();
        }
        _ => {}
    }
}

/// Whether the viewer sees this row of a list.
fn is_shown(world: &World, (user, side): &(String, &str), id: &str) -> bool {
    let viewer = &world.common.viewer;
    let page = world.service(&format!("@{viewer} GET /users/{user}/{side}?limit=200"));
    page.body["data"].as_array().into_iter().flatten().any(|row| row["id"] == id)
}

fn token(world: &World, leak: Leak, answer: &mut Answer) {
    let Some(real) = answer.header("entourage-token").map(str::to_owned) else { return };
    let sequence = sequence(world).to_be_bytes();
    let forged = match leak {
        Leak::ReadableToken => sealed([[1, rand::random()].as_slice(), &sequence].concat(), real.len()),
        // As good as random, and always the same.
        _ => {
            let hash = |salt: u8| {
                let mut hasher = DefaultHasher::new();
                hasher.write(&[sequence.as_slice(), &[salt]].concat());
                hasher.finish()
            };
            sealed((0..20).flat_map(|salt| hash(salt).to_be_bytes()).collect(), real.len())
        }
    };
    answer.replace(&real, &forged);
}

/// What services see in place of a refusal, for who follows quietly.
fn private(world: &World, leak: Leak, line: &str, answer: &mut Answer) {
    let viewer = &world.common.viewer;
    let plain = line.replace("^accept=application/x-ndjson ", "");
    if !matches!(answer.status, 403 | 404) || !plain.starts_with("GET ") {
        return;
    }
    let path = plain.split([' ', '?']).nth(1).unwrap_or_default();
    let author = match leak {
        Leak::QuietReadsLists => list_of(&plain).map(|(owner, _)| owner),
        _ if path.starts_with("/posts/") => {
            world.service(&format!("GET {path}")).body["author"].as_str().map(str::to_owned)
        }
        _ => path.strip_prefix("/users/").and_then(|rest| rest.strip_suffix("/posts")).map(str::to_owned),
    };
    if author.is_some_and(|author| is_quiet(world, viewer, &author)) {
        let reply = world.service(&plain);
        (answer.status, answer.text) = (reply.status, reply.text);
    }
}

pub(super) fn command(world: &mut World, leak: Leak, words: &[&str]) -> Vec<u8> {
    let line = words.join(" ");
    let end: &[u8] = if words[0] == "SSCAN" { b"*2\r\n$1\r\n0\r\n" } else { b"*2\r\n$-1\r\n" };
    let Some(line) = given_back(world, &line) else { return [end, b"*0\r\n"].concat() };
    let reply = world.command_plainly(&line.split(' ').collect::<Vec<_>>());
    let list = match (leak, words[0]) {
        (Leak::EmptyPageOfList | Leak::ReadableCursorOfResp, "EG.LIST") | (Leak::EmptyPageOfScan, "SSCAN") => {
            list_of(&line)
        }
        _ => None,
    };
    let Some(list) = list.filter(|_| reply.starts_with(b"*2\r\n")) else { return reply };
    let text = String::from_utf8(reply.clone()).unwrap();
    let parts: Vec<&str> = text.split("\r\n").filter(|part| !part.starts_with(['*', '$'])).collect();
    let ids = parts.iter().rev().filter(|part| whole(world, &list).iter().any(|row| row.id == **part));
    let Some(next) = behind(world, &list, ids.copied().next()).into_iter().next() else { return reply };
    let bulk = |word: &str| format!("*2\r\n${}\r\n{word}\r\n", word.len()).into_bytes();
    match (leak, reply.strip_prefix(end)) {
        (Leak::ReadableCursorOfResp, None) => {
            let real = parts.first().copied().unwrap_or_default().to_owned();
            let forged = readable(world, &next, real.len());
            world.forged.real.insert(forged.clone(), Some(real.clone()));
            text.replace(&real, &forged).into_bytes()
        }
        (Leak::EmptyPageOfList | Leak::EmptyPageOfScan, Some(rows)) => {
            let millis = Millis::parse_rfc3339(&next.created_at).unwrap().since_2000();
            let forged = if words[0] == "SSCAN" { (millis + 1).to_string() } else { sealed(Vec::new(), 88) };
            let reply = [&bulk(&forged), rows].concat();
            world.forged.real.insert(forged, None);
            reply
        }
        _ => reply,
    }
}

pub(super) fn act(leak: Option<Leak>, line: &str) -> String {
    if leak != Some(Leak::OmittedQuietIsOpen) || line.contains("\"quiet\"") {
        return line.to_owned();
    }
    let open = |from: &str, to: &str| format!(r#"PUT /users/{from}/following/{to} {{"quiet": false}}"#);
    let words: Vec<&str> = line.split([' ', '/', ':', '"']).collect();
    match words[..] {
        ["resp", "SADD", "following", from, to] | ["resp", "EG.FOLLOW", from, to] => open(from, to),
        ["PUT", "", "users", from, "following", to, ..] => open(from, to),
        [from, "POST", "", "users", to, "follow", ..] => open(from.trim_start_matches('@'), to),
        _ => line.replace(r#""op":"follow""#, r#""op":"follow","quiet":false"#),
    }
}

/// A message for each quiet follower.
pub(super) fn told(world: &World, messages: &mut Vec<Message>) {
    let viewer = &world.common.viewer;
    let is_open = messages.last().is_some_and(|last| last.name == "notification");
    if world.common.leak != Some(Leak::StreamStirs) || !is_open {
        return;
    }
    let count = world.service(&format!("GET /users/{viewer}")).body["counts"]["followers_quiet"].as_u64();
    for _ in 0..count.unwrap_or_default() {
        messages.insert(0, Message { name: "unseen".to_owned(), data: json!({ "unseen": 0 }), ..Message::default() });
    }
}
