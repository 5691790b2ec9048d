//! Random runs of feeds over the wire: written over REST; read by `EG.FEED` and REST page by page, or as a sorted set
//! in every form there is.

use std::{cell::RefCell, collections::HashMap, net::SocketAddr, sync::Arc};

use entourage_embedded as embedded;
use entourage_model::{Clock, ManualClock, Millis, UserId, Version};
use entourage_server::Front;
use entourage_service::Call;
use entourage_store::{Store, SystemClock};
use entourage_testkit::crash_disk::CrashDisk;
use redis_protocol::resp3::types::OwnedFrame;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::kit::{
    server::{Server, memory_store},
    wire::{Wire, encoded, shown},
};
use entourage_testkit::service::feed::{
    Act, Asked, FeedFront, Id, Row, body,
    service::{import, rules},
};

const MINUTE: u64 = 60_000;

/// How a feed is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Pages,
    Sorted,
}

pub(crate) struct Wires {
    read: Read,
    /// What it gives is what was there when the one before was closed.
    open: Box<dyn Fn() -> Arc<dyn Store>>,
    clock: Arc<ManualClock>,
    server: Option<Server>,
    groups: HashMap<Id, String>,
    /// One connection for each reader, and for each server there was.
    wires: RefCell<HashMap<(SocketAddr, Id), Wire>>,
}

/// What REST says of a page.
#[derive(Deserialize)]
struct Page {
    data: Vec<Line>,
    next_cursor: Option<String>,
    partial: bool,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    author: String,
    body: Box<RawValue>,
}

impl Wires {
    /// In memory, or on an embedded store.
    pub(crate) fn new(read: Read, seed: u64) -> Self {
        let (memory, disk) = (memory_store(seed as u8), CrashDisk::new());
        let embedded = move || {
            let options = embedded::Options { checkpoint_entries: 100, ..embedded::Options::default() };
            let disk = Arc::new(disk.clone());
            Arc::new(embedded::Store::open(disk, "the test disk", options, Arc::new(SystemClock)).unwrap()) as _
        };
        let open: Box<dyn Fn() -> Arc<dyn Store>> =
            if seed.is_multiple_of(2) { Box::new(move || Arc::clone(&memory)) } else { Box::new(embedded) };
        Self::over(read, open)
    }

    pub(crate) fn over(read: Read, open: Box<dyn Fn() -> Arc<dyn Store>>) -> Self {
        let whole = SystemClock.now().since_2000() / 1_000 * 1_000;
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(whole)));
        let (groups, wires) = (HashMap::new(), RefCell::default());
        let mut front = Self { read, open, clock, server: None, groups, wires };
        front.restart();
        front
    }

    fn restart(&mut self) {
        drop(self.server.take());
        let door = Front::development(Arc::new(SystemClock));
        self.server = Some(Server::at(Arc::clone(&self.clock) as _, door, (self.open)(), rules()));
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// The body of a success, or the code of a refusal.
    fn rest(&self, request: &str) -> Result<serde_json::Value, String> {
        let reply = self.server().ask(request);
        if reply.status < 300 { Ok(reply.body) } else { Err(reply.text) }
    }

    fn resp(&self, reader: Id, words: &[&str]) -> Result<OwnedFrame, String> {
        let mut wires = self.wires.borrow_mut();
        let address = self.server().resp;
        let wire = wires.entry((address, reader)).or_insert_with(|| Wire::acting(address, Some(&reader.to_string())));
        wire.send(&encoded(words));
        match wire.frame().expect("an answer") {
            OwnedFrame::SimpleError { data, .. } => Err(data.clone()),
            frame => Ok(frame),
        }
    }

    fn group(&mut self, owner: Id) -> Result<String, String> {
        if let Some(group) = self.groups.get(&owner) {
            return Ok(group.clone());
        }
        let made = self.rest(&format!(r#"POST /users/{owner}/groups {{"name": "friends"}}"#))?;
        let id = made["id"].as_str().unwrap().to_owned();
        self.groups.insert(owner, id.clone());
        Ok(id)
    }

    fn page_by_rest(
        &self,
        path: &str,
        reader: Id,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Row>, Option<String>), String> {
        let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let reply = self.server().ask(&format!("@{reader} GET {path}?limit={limit}{after}"));
        if reply.status != 200 {
            return Err(reply.text);
        }
        let page: Page = serde_json::from_str(&reply.text).unwrap();
        assert!(!page.partial);
        let row = |line: Line| (line.id.parse().unwrap(), line.author.parse().unwrap(), line.body.get().to_owned());
        Ok((page.data.into_iter().map(row).collect(), page.next_cursor))
    }

    fn page_by_resp(
        &self,
        reader: Id,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Row>, Option<String>), String> {
        let (user, limit) = (reader.to_string(), limit.to_string());
        let mut words = vec!["EG.FEED", &user, "LIMIT", &limit];
        words.extend(cursor.into_iter().flat_map(|cursor| ["CURSOR", cursor]));
        let page = array(self.resp(reader, &words)?);
        let [next, rows, OwnedFrame::Number { data: 0, .. }] = page.as_slice() else { panic!("{page:?}") };
        let row = |row: OwnedFrame| {
            let row = array(row);
            let [id, author, OwnedFrame::Number { data: millis, .. }, body, _] = row.as_slice() else {
                panic!("{row:?}")
            };
            let id: u64 = text(id).parse().unwrap();
            assert_eq!(Version::from_bits(id).millis().to_unix(), *millis);
            (id, text(author).parse().unwrap(), text(body))
        };
        let next = (!matches!(next, OwnedFrame::Null)).then(|| text(next));
        Ok((array(rows.clone()).into_iter().map(row).collect(), next))
    }

    /// The whole feed as a sorted set; the cursor is the last id that was shown.
    fn page_by_rank(
        &self,
        reader: Id,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Row>, Option<String>), String> {
        let key = format!("feed:{reader}");
        let ask = |words: &[&str]| self.resp(reader, &[&[words[0], &key], &words[1..]].concat());
        let whole = texts(ask(&["ZREVRANGE", "0", "-1"])?);
        for words in [
            ["ZREVRANGEBYSCORE", "+inf", "-inf"].as_slice(),
            &["ZRANGE", "0", "-1", "REV"],
            &["ZREVRANGE", "0", "9999"],
        ] {
            assert_eq!(texts(ask(words)?), whole, "{words:?}");
        }
        assert_eq!(shown(&ask(&["ZCARD"])?), whole.len().to_string());
        assert_eq!(shown(&ask(&["EXISTS"])?), usize::from(!whole.is_empty()).to_string());
        let is_below = |id: &&String| cursor.is_none_or(|last| number(id) < last.parse().unwrap());
        let below: Vec<&String> = whole.iter().filter(is_below).collect();
        let skipped = whole.len() - below.len();
        let some = below.iter().take(limit).map(|id| (*id).clone()).collect::<Vec<_>>();
        if let Some(newest) = some.first() {
            let score = Version::from_bits(number(newest)).millis().to_unix().to_string();
            assert_eq!(text(&ask(&["ZSCORE", newest])?), score);
            let (first, last) = (skipped.to_string(), (skipped + limit - 1).to_string());
            assert_eq!(texts(ask(&["ZREVRANGE", &first, &last])?), some);
            // What has the same millisecond comes with it.
            let same = whole.iter().filter(|id| Version::from_bits(number(id)).millis().to_unix().to_string() >= score);
            assert_eq!(texts(ask(&["ZREVRANGEBYSCORE", "+inf", &score])?), same.cloned().collect::<Vec<_>>());
        }
        let (all, more) = self.page_by_resp(reader, None, 200)?;
        assert!(more.is_none(), "the run is too long for one page");
        let rows: Vec<Row> = all.into_iter().filter(|row| some.contains(&row.0.to_string())).collect();
        assert_eq!(rows.iter().map(|row| row.0.to_string()).collect::<Vec<_>>(), some);
        let next = (below.len() > limit).then(|| some.last().cloned()).flatten();
        Ok((rows, next))
    }
}

fn number(id: &str) -> u64 {
    id.parse().unwrap()
}

fn text(frame: &OwnedFrame) -> String {
    let OwnedFrame::BlobString { data, .. } = frame else { panic!("{frame:?}") };
    String::from_utf8(data.clone()).unwrap()
}

fn array(frame: OwnedFrame) -> Vec<OwnedFrame> {
    let OwnedFrame::Array { data, .. } = frame else { panic!("{frame:?}") };
    data
}

fn texts(frame: OwnedFrame) -> Vec<String> {
    array(frame).iter().map(text).collect()
}

impl FeedFront for Wires {
    async fn act(&mut self, act: Act, post: Option<u64>) -> Result<Option<u64>, String> {
        let post = post.unwrap_or_default();
        let request = match act {
            Act::Put(user) => format!("PUT /users/{user}"),
            Act::Follow(a, b) => format!("PUT /users/{a}/following/{b}"),
            Act::Unfollow(a, b) => format!("DELETE /users/{a}/following/{b}"),
            Act::Block(a, b) => format!("PUT /users/{a}/blocks/{b}"),
            Act::Unblock(a, b) => format!("DELETE /users/{a}/blocks/{b}"),
            Act::Mute(a, b, None) => format!("PUT /users/{a}/mutes/{b}"),
            Act::Mute(a, b, Some(minutes)) => {
                let until = self.clock.now().plus(minutes * MINUTE).to_rfc3339();
                format!("PUT /users/{a}/mutes/{b} {}", json!({ "expires_at": until }))
            }
            Act::Unmute(a, b) => format!("DELETE /users/{a}/mutes/{b}"),
            Act::Post(author, number) => {
                let made = self.rest(&format!(r#"@{author} POST /posts {{"body":{}}}"#, body(number)))?;
                return Ok(Some(made["id"].as_str().unwrap().parse().unwrap()));
            }
            Act::Import(author, number, _, before) => {
                let (service, author) = (Arc::clone(self.server().service()), UserId::from(author));
                let other = (post > 0).then(|| Version::from_bits(post));
                let made = import(&service, &author, number, other, before).await;
                return made.map(Some).map_err(|error| error.to_string());
            }
            Act::Replace(_, number) => format!(r#"PATCH /posts/{post} {{"body":{}}}"#, body(number)),
            Act::Delete(_) => format!("DELETE /posts/{post}"),
            Act::Pin(author, mode) => format!("PUT /admin/users/{author}/fanout {}", json!({ "mode": mode })),
            Act::Member(owner, member, present) => {
                let group = self.group(owner)?;
                format!("{} /users/{owner}/groups/{group}/members/{member}", if present { "PUT" } else { "DELETE" })
            }
            Act::Erase(user) => {
                self.rest(&format!("DELETE /users/{user}"))?;
                self.groups.remove(&user);
                return Ok(None);
            }
            Act::Evict(Some(reader)) => {
                // Who is not there has no inbox to lose.
                let _ = self.rest(&format!("DELETE /admin/users/{reader}/feed"));
                return Ok(None);
            }
            Act::Evict(None) => {
                self.server().service().feeds.clear_feeds(&Call::default(), None).await.unwrap();
                return Ok(None);
            }
            Act::Deliver => {
                self.server().service().feeds.deliver_all().await.unwrap();
                return Ok(None);
            }
            Act::Work => {
                self.server().work().await;
                return Ok(None);
            }
            Act::Wait(minutes) => {
                self.clock.advance(minutes * MINUTE);
                return Ok(None);
            }
            Act::Restart => {
                self.restart();
                return Ok(None);
            }
        };
        self.rest(&request).map(|_| None)
    }

    async fn page(
        &self,
        asked: Asked,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Row>, Option<String>), String> {
        match (asked, self.read) {
            (Asked::Group(reader), _) => match self.groups.get(&reader) {
                Some(group) => {
                    self.page_by_rest(&format!("/users/{reader}/groups/{group}/feed"), reader, cursor, limit)
                }
                None => Ok((Vec::new(), None)),
            },
            (Asked::Feed(reader), Read::Sorted) => self.page_by_rank(reader, cursor, limit),
            (Asked::Feed(reader), Read::Pages) => {
                let page = self.page_by_resp(reader, cursor, limit)?;
                // The same viewer's cursor is as good there.
                let by_rest = self.page_by_rest(&format!("/users/{reader}/feed"), reader, cursor, limit)?;
                assert_eq!((&by_rest.0, by_rest.1.is_some()), (&page.0, page.1.is_some()));
                Ok(page)
            }
        }
    }
}
