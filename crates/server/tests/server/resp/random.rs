//! The random runs of the rules, with what RESP has asked over RESP and the rest over REST.

use std::{cell::RefCell, collections::HashMap, net::SocketAddr, sync::Arc};

use entourage_embedded as embedded;
use entourage_model::Code;
use entourage_store::{Store, SystemClock};
use entourage_testkit::{crash_disk::CrashDisk, simulator as sim};
use redis_protocol::resp3::types::OwnedFrame;

use crate::kit::{
    rules_front::RestFront,
    server::memory_store,
    wire::{Wire, encoded, shown},
};
use entourage_testkit::service::rules::{
    Front,
    question::{Id, PEOPLE, Read, Relation, Write, list_words, suggestion_words},
    run, run_seeds,
};

pub(crate) struct RespFront {
    rest: RestFront,
    /// One connection for each who asks, and for each server there was.
    wires: RefCell<HashMap<(SocketAddr, Option<Id>), Wire>>,
}

/// A refusal in the words of REST.
fn refused(error: &str) -> String {
    let prefix = error.split(' ').next().unwrap_or_default();
    let code = Code::ALL.iter().find(|code| code.resp_prefix() == prefix);
    let code = code.unwrap_or_else(|| panic!("{error} has no code"));
    format!("{} {}", code.http_status(), code.as_str())
}

impl RespFront {
    /// On an embedded store, stopped and started now and then.
    fn new() -> Self {
        let disk = CrashDisk::new();
        Self::over(move || {
            let options = embedded::Options {
                segment_bytes: 256 << 10,
                frame_bytes: 64 << 10,
                checkpoint_entries: 100,
                ..embedded::Options::default()
            };
            let disk = Arc::new(disk.clone());
            Arc::new(embedded::Store::open(disk, "the test disk", options, Arc::new(SystemClock)).unwrap()) as _
        })
    }

    pub(crate) fn over(open: impl Fn() -> Arc<dyn Store> + 'static) -> Self {
        Self { rest: RestFront::restarted(open), wires: RefCell::default() }
    }

    fn ask(&self, viewer: Option<Id>, words: &[&str]) -> Result<OwnedFrame, String> {
        let mut wires = self.wires.borrow_mut();
        let address = self.rest.resp();
        let wire = wires.entry((address, viewer)).or_insert_with(|| Wire::acting(address, viewer));
        wire.send(&encoded(words));
        match wire.frame().expect("an answer") {
            OwnedFrame::SimpleError { data, .. } => Err(refused(&data)),
            frame => Ok(frame),
        }
    }

    fn list(&self, viewer: Option<Id>, key: &str, limit: usize) -> Result<String, String> {
        let (mut cursor, mut ids) = (None::<String>, Vec::new());
        let size = limit.to_string();
        loop {
            let mut words = vec!["EG.LIST", key, "LIMIT", &size];
            if let Some(cursor) = &cursor {
                words.extend(["CURSOR", cursor]);
            }
            let page = self.ask(viewer, &words)?;
            let OwnedFrame::Array { data, .. } = page else { panic!("{page:?}") };
            let OwnedFrame::Array { data: rows, .. } = &data[1] else { panic!("{data:?}") };
            ids.extend(rows.iter().step_by(2).map(text));
            match &data[0] {
                OwnedFrame::Null => break,
                next => cursor = Some(text(next)),
            }
        }
        // The same list in every other way there is to read it.
        for words in [
            ["SMEMBERS", key].as_slice(),
            &["SINTER", key],
            &["ZREVRANGE", key, "0", "-1"],
            &["ZREVRANGEBYSCORE", key, "+inf", "-inf"],
        ] {
            assert_eq!(texts(&self.ask(viewer, words)?), ids, "{words:?}");
        }
        let oldest_first: Vec<String> = ids.iter().rev().cloned().collect();
        for words in [["ZRANGE", key, "0", "-1"], ["ZRANGE", key, "-100", "-1"], ["ZRANGEBYSCORE", key, "-inf", "+inf"]]
        {
            assert_eq!(texts(&self.ask(viewer, &words)?), oldest_first, "{words:?}");
        }
        let first = texts(&self.ask(viewer, &["ZRANGE", key, "1", &size])?);
        assert_eq!(
            first,
            oldest_first.iter().skip(1).take(limit).cloned().collect::<Vec<_>>(),
            "ZRANGE {key} 1 {size}"
        );
        let (mut cursor, mut pieces) = ("0".to_owned(), Vec::new());
        loop {
            let OwnedFrame::Array { data, .. } = self.ask(viewer, &["SSCAN", key, &cursor, "COUNT", &size])? else {
                panic!("no piece")
            };
            pieces.extend(texts(&data[1]));
            cursor = text(&data[0]);
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(pieces, ids, "SSCAN {key}");
        let OwnedFrame::Number { data: total, .. } = self.ask(viewer, &["SCARD", key])? else { panic!("no number") };
        Ok(list_words(&ids, Some(total as u64)))
    }

    fn write_edge(&self, actor: Option<Id>, write: &Write) -> Result<String, String> {
        let (words, follows) = match write {
            Write::Follow { follower, target, quiet: Some(true) } => {
                (vec!["EG.FOLLOW", follower, target, "QUIET"], true)
            }
            Write::Follow { follower, target, quiet: Some(false) } => {
                (vec!["EG.FOLLOW", follower, target, "OPEN"], true)
            }
            Write::Follow { follower, target, quiet: None } => (vec!["EG.FOLLOW", follower, target], true),
            Write::Unfollow { follower, target } => (vec!["EG.UNFOLLOW", follower, target], false),
            other => panic!("{other:?} is no edge"),
        };
        let reply = self.ask(actor, &words)?;
        if !follows {
            return Ok(format!("200 changed {}", shown(&reply) == "1"));
        }
        let OwnedFrame::Array { data, .. } = &reply else { panic!("{reply:?}") };
        let (state, created, quiet) = (text(&data[1]), shown(&data[3]) == "1", shown(&data[7]) == "1");
        let status = match (state.as_str(), created) {
            ("active", true) => 201,
            ("active", false) => 200,
            _ => 202,
        };
        Ok(format!("{status} {state}{}", if quiet { " quiet" } else { "" }))
    }

    fn suggestions(&self, viewer: Option<Id>, user: Id, limit: usize) -> Result<String, String> {
        let OwnedFrame::Array { data: rows, .. } = self.ask(viewer, &["EG.SUGGEST", user])? else { panic!("no rows") };
        let mut ids = Vec::new();
        let words = rows.iter().map(|row| {
            let OwnedFrame::Array { data, .. } = row else { panic!("{row:?}") };
            let (id, named) = (text(&data[0]), texts(&data[3]));
            ids.push(id.clone());
            let named: Vec<&str> = named.iter().map(String::as_str).collect();
            suggestion_words(&id, &text(&data[1]), shown(&data[2]).parse().unwrap(), &named)
        });
        let words: Vec<String> = words.collect();
        let key = format!("suggestions:{user}");
        let range = |start: &str, stop: &str| self.ask(viewer, &["LRANGE", &key, start, stop]).map(|ids| texts(&ids));
        assert_eq!(range("0", "-1")?, ids);
        let last = (limit - 1).to_string();
        assert_eq!(range("0", &last)?, ids[..ids.len().min(limit)]);
        assert_eq!(range("-1", "-1")?, ids[ids.len().saturating_sub(1)..]);
        assert_eq!(shown(&self.ask(viewer, &["EXISTS", &key])?), if ids.is_empty() { "0" } else { "1" });
        Ok(format!("200 [{}]", words.join(" ")))
    }

    fn relation(&self, viewer: Option<Id>, of: Id, other: Id) -> Result<String, String> {
        let reply = match self.ask(viewer, &["EG.RELATION", of, other]) {
            Ok(OwnedFrame::Array { data, .. }) => data,
            Ok(other) => panic!("{other:?}"),
            // Which of the two is unknown is for the caller to find out.
            Err(error) => return Err(error),
        };
        let is = |index: usize| shown(&reply[2 * index + 1]) == "1";
        let relation = Relation {
            unknown: false,
            following: is(0),
            followed_by: is(1),
            mutual: is(2),
            requested: is(3),
            blocking: is(4),
            blocked_by: is(5),
            muting: is(6),
            quiet: is(7),
            since: !matches!(reply[17], OwnedFrame::Null),
        };
        Ok(relation.words())
    }
}

fn text(frame: &OwnedFrame) -> String {
    shown(frame).trim_matches('"').to_owned()
}

fn texts(frame: &OwnedFrame) -> Vec<String> {
    let OwnedFrame::Array { data, .. } = frame else { panic!("{frame:?}") };
    data.iter().map(text).collect()
}

impl Front for RespFront {
    async fn write(&self, actor: Option<Id>, write: &Write) -> String {
        match write {
            Write::Follow { .. } | Write::Unfollow { .. } => {
                self.write_edge(actor, write).unwrap_or_else(|refused| refused)
            }
            _ => self.rest.write(actor, write).await,
        }
    }

    async fn read(&self, viewer: Option<Id>, read: &Read, limit: usize) -> String {
        let intersection = |first: String, second: String, set: Option<String>| {
            // Over RESP somebody who is not there has nothing; the rules tell the two apart, but not of who asks.
            for key in [&first, &second].into_iter().skip(usize::from(set.is_none())) {
                let (_, id) = key.split_once(':').unwrap_or_default();
                if matches!(self.ask(viewer, &["GET", &format!("follower_count:{id}")])?, OwnedFrame::Null) {
                    return Err("404 user_not_found".to_owned());
                }
            }
            let found = texts(&self.ask(viewer, &["SINTER", &first, &second])?);
            let mut scored = texts(&self.ask(viewer, &["ZINTER", "2", &second, &first])?);
            for command in ["SINTERCARD", "ZINTERCARD"] {
                let count = shown(&self.ask(viewer, &[command, "2", &first, &second])?);
                assert_eq!(count, found.len().to_string());
            }
            // They come in any order; the rules have that of the first list.
            let mut ordered = texts(&self.ask(viewer, &["SMEMBERS", &first])?);
            ordered.retain(|id| found.contains(id));
            assert_eq!(ordered.len(), found.len(), "{found:?}");
            let sorted = |ids: &[String]| {
                let mut ids = ids.to_vec();
                ids.sort_unstable();
                ids
            };
            scored.sort_unstable();
            assert_eq!(scored, sorted(&found));
            if let Some(set) = set {
                assert_eq!(sorted(&texts(&self.ask(viewer, &["SMEMBERS", &set])?)), sorted(&found));
                assert_eq!(shown(&self.ask(viewer, &["SCARD", &set])?), found.len().to_string());
                let members: Vec<&str> = ["SMISMEMBER", set.as_str()].into_iter().chain(PEOPLE).collect();
                let flags: Vec<String> =
                    PEOPLE.iter().map(|id| u8::from(found.contains(&(*id).to_owned())).to_string()).collect();
                assert_eq!(shown(&self.ask(viewer, &members)?), format!("[{}]", flags.join(" ")), "{set}");
            }
            Ok(list_words(&ordered, None))
        };
        let said = match read {
            Read::Followers(user) => self.list(viewer, &format!("followers:{user}"), limit),
            Read::Following(user) => self.list(viewer, &format!("following:{user}"), limit),
            Read::Suggestions(user) => self.suggestions(viewer, user, limit),
            Read::CommonFollowing(a, b) => {
                let set = format!("common_following:{a}:{b}");
                intersection(format!("following:{a}"), format!("following:{b}"), Some(set))
            }
            Read::Mutuals(user) => {
                let set = format!("mutual:{user}");
                intersection(format!("following:{user}"), format!("followers:{user}"), Some(set))
            }
            // Their order is that of the list which drives, and that REST tells.
            Read::CommonFollowers(a, b) if limit.is_multiple_of(2) => {
                let rest = self.rest.read(viewer, read, limit).await;
                let (first, second) = (format!("followers:{a}"), format!("followers:{b}"));
                if rest.starts_with("200") {
                    let mut found = self.ask(viewer, &["SINTER", &first, &second]).map(|frame| texts(&frame)).unwrap();
                    let said = rest.trim_start_matches("200 [").trim_end_matches(']');
                    let mut expected: Vec<&str> = said.split_whitespace().collect();
                    found.sort_unstable();
                    expected.sort_unstable();
                    assert_eq!(found, expected, "{read:?}");
                }
                return rest;
            }
            Read::FollowersYouKnow(user) if viewer.is_some_and(|viewer| viewer != *user) => {
                let own = format!("following:{}", viewer.unwrap_or_default());
                intersection(own, format!("followers:{user}"), None)
            }
            Read::IsFollowing(a, b) => {
                let (following, followers) = (format!("following:{a}"), format!("followers:{b}"));
                let value = format!("is_following:{a}:{b}");
                let forms: [&[&str]; 4] = [
                    &["SISMEMBER", &following, b],
                    &["SISMEMBER", &followers, a],
                    &["SMISMEMBER", &following, b],
                    &["GET", &value],
                ];
                let said = forms.map(|words| self.ask(viewer, words).map(|frame| shown(&frame).contains('1')));
                assert!(said.windows(2).all(|two| two[0] == two[1]), "{said:?}");
                said[0].clone().map(|yes| format!("200 {yes}"))
            }
            Read::Relationships(user, others) if limit.is_multiple_of(2) => {
                let relation = |other: &Id| match self.relation(viewer, user, other) {
                    // An other who is not there, unless it is the one who was asked about.
                    Err(error) if error == "404 user_not_found" && self.relation(viewer, user, user).is_ok() => {
                        Ok(Relation { unknown: true, ..Relation::default() }.words())
                    }
                    said => said,
                };
                let rows: Result<Vec<String>, String> = others.iter().map(relation).collect();
                match rows {
                    Ok(rows) if !rows.is_empty() => Ok(format!("200 {}", rows.join(" "))),
                    Ok(_) => return self.rest.read(viewer, read, limit).await,
                    Err(error) => Err(error),
                }
            }
            _ => return self.rest.read(viewer, read, limit).await,
        };
        said.unwrap_or_else(|refused| refused)
    }
}

#[tokio::test]
async fn the_rules_hold_over_resp_on_memory() {
    run_seeds(2, 150, async || {
        let store = memory_store(1);
        RespFront::over(move || Arc::clone(&store))
    })
    .await;
}

#[tokio::test]
async fn the_rules_hold_over_resp_for_every_viewer() {
    run_seeds(4, 200, async || RespFront::new()).await;
}

/// Homes, relays and appliers, and everything that can befall them; the servers change, the homes stay.
#[tokio::test]
async fn the_rules_hold_over_resp_on_homes_that_settle() {
    for seed in sim::seeds(6) {
        let store = if seed % 2 == 0 { sim::store(seed) } else { sim::forgetful_store(seed) };
        let front = RespFront::over(move || Arc::clone(&store));
        if let Err(failure) = run(&front, seed, 150, None).await {
            panic!("{failure}");
        }
    }
}
