//! REST as a front for the random runs of the rules.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use entourage_model::{Clock, ManualClock, Millis};
use entourage_server::Front as Door;
use entourage_service::{Limits, Rules};
use entourage_store::{Store, SystemClock};
use serde_json::{Value, json};

use super::{server::Server, table::Reply};
use entourage_testkit::service::{
    front::uncached,
    rules::{
        FOLLOWING_MAX, Front,
        question::{Id, Read, Relation, Write, board_words, list_words, members_words, suggestion_words},
    },
};

pub(crate) struct RestFront {
    server: Mutex<Option<Arc<Server>>>,
    open: Box<dyn Fn() -> Arc<dyn Store>>,
    clock: Arc<ManualClock>,
    writes: AtomicUsize,
}

const MINUTE: u64 = 60_000;
/// After so many writes the server is stopped and another one started on the same place.
const RESTART_AFTER: usize = 40;

impl RestFront {
    /// What `open` gives must be what was there when it was closed.
    pub(crate) fn restarted(open: impl Fn() -> Arc<dyn Store> + 'static) -> Self {
        // Mutes end at whole seconds.
        let whole = SystemClock.now().since_2000() / 1_000 * 1_000;
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(whole)));
        let front = Self { server: Mutex::default(), open: Box::new(open), clock, writes: AtomicUsize::new(0) };
        front.restart();
        front
    }

    fn restart(&self) {
        let mut server = self.server.lock().unwrap();
        // The one before closes its store first.
        drop(server.take());
        let (limits, suggestions) = (Limits::NONE, uncached());
        let rules = Rules { following_max: Some(FOLLOWING_MAX), limits, suggestions, ..Rules::default() };
        let door = Door::development(Arc::new(SystemClock));
        *server = Some(Arc::new(Server::at(Arc::clone(&self.clock) as _, door, (self.open)(), rules)));
    }

    fn server(&self) -> Arc<Server> {
        Arc::clone(self.server.lock().unwrap().as_ref().unwrap())
    }

    #[allow(dead_code, reason = "asked by the tests of RESP")]
    pub(crate) fn resp(&self) -> std::net::SocketAddr {
        self.server().resp
    }

    fn ask(&self, actor: Option<Id>, request: &str) -> Reply {
        match actor {
            Some(actor) => self.server().ask(&format!("@{actor} {request}")),
            None => self.server().ask(request),
        }
    }

    fn group(&self, owner: Id, nth: usize) -> String {
        let reply = self.ask(None, &format!("GET /users/{owner}/groups"));
        let id = reply.body["data"].get(nth).and_then(|group| group["id"].as_str());
        format!("/users/{owner}/groups/{}", id.unwrap_or("0"))
    }

    /// A list to its end, by its own links.
    fn pages(&self, viewer: Option<Id>, path: &str, limit: usize, mut take: impl FnMut(&Reply)) -> Result<(), String> {
        let mut path = format!("{path}?limit={limit}");
        for _ in 0..100 {
            let reply = self.ask(viewer, &format!("GET {path}"));
            if reply.status != 200 {
                return Err(refused(&reply));
            }
            take(&reply);
            let next = reply.header("link").split(", ").find_map(|link| link.strip_suffix(">; rel=\"next\""));
            assert_eq!(reply.body["has_more"], next.is_some());
            match next {
                Some(link) => path = link.strip_prefix("</api/v1").unwrap().to_owned(),
                None => return Ok(()),
            }
        }
        panic!("a short list has more than a hundred pages");
    }

    fn list(&self, viewer: Option<Id>, path: &str, limit: usize) -> String {
        let (mut ids, mut total) = (Vec::new(), None);
        let read = self.pages(viewer, path, limit, |reply| {
            ids.extend(reply.ids().into_iter().map(str::to_owned));
            total = reply.body["total"].as_u64();
        });
        read.err().unwrap_or_else(|| list_words(&ids, total))
    }

    /// A list that follows from others, with the number of its rows.
    fn derived(&self, viewer: Option<Id>, path: &str, limit: usize) -> String {
        let words = self.list(viewer, path, limit);
        let reply = self.ask(viewer, &format!("GET {path}?limit=1&count=true"));
        if reply.status == 200 {
            let rows = words.trim_start_matches("200 [").trim_end_matches(']').split_whitespace().count();
            let counted = (reply.body["total"].as_u64(), reply.body["total_is_exact"].as_bool());
            assert_eq!(counted, (Some(rows as u64), Some(true)), "{path} is {words}");
        }
        words
    }
}

impl Front for RestFront {
    async fn write(&self, actor: Option<Id>, write: &Write) -> String {
        if self.writes.fetch_add(1, Ordering::Relaxed) % RESTART_AFTER == RESTART_AFTER - 1 {
            self.restart();
        }
        let request = match write {
            Write::Put { user, private, hide_lists } => {
                format!("PUT /users/{user} {}", json!({ "private": private, "hide_lists": hide_lists }))
            }
            Write::Follow { follower, target, quiet } => {
                let body = quiet.map_or(json!({}), |quiet| json!({ "quiet": quiet }));
                match actor {
                    Some(actor) if actor == *follower => format!("POST /users/{target}/follow {body}"),
                    _ => format!("PUT /users/{follower}/following/{target} {body}"),
                }
            }
            Write::Unfollow { follower, target } => match actor {
                Some(actor) if actor == *follower => format!("DELETE /users/{target}/follow"),
                _ => format!("DELETE /users/{follower}/following/{target}"),
            },
            Write::Accept { target, follower } => format!("POST /users/{target}/follow-requests/{follower}/accept"),
            Write::Reject { target, follower } => format!("POST /users/{target}/follow-requests/{follower}/reject"),
            Write::RemoveFollower { target, follower } => format!("DELETE /users/{target}/followers/{follower}"),
            Write::Block { user, target } => format!("PUT /users/{user}/blocks/{target}"),
            Write::Unblock { user, target } => format!("DELETE /users/{user}/blocks/{target}"),
            Write::Mute { user, target, minutes } => {
                let until = minutes.map(|minutes| self.clock.now().plus(minutes * MINUTE).to_rfc3339());
                format!("PUT /users/{user}/mutes/{target} {}", json!({ "expires_at": until }))
            }
            Write::Unmute { user, target } => format!("DELETE /users/{user}/mutes/{target}"),
            Write::Batch(operations) => {
                let operations: Vec<Value> = operations.iter().map(operation).collect();
                format!("POST /follows:batch {}", json!({ "operations": operations }))
            }
            Write::Erase { user } => format!("DELETE /users/{user}"),
            Write::AcceptAll { user } => format!("POST /users/{user}/follow-requests:accept-all"),
            Write::Suspend { user, suspended } => {
                format!("{} /admin/users/{user}/suspend", if *suspended { "PUT" } else { "DELETE" })
            }
            Write::CreateGroup { owner, name } => format!("POST /users/{owner}/groups {}", json!({ "name": name })),
            Write::RenameGroup { owner, nth, name } => {
                format!("PATCH {} {}", self.group(owner, *nth), json!({ "name": name }))
            }
            Write::DeleteGroup { owner, nth } => format!("DELETE {}", self.group(owner, *nth)),
            Write::Member { owner, nth, member, present } => {
                let method = if *present { "PUT" } else { "DELETE" };
                format!("{method} {}/members/{member}", self.group(owner, *nth))
            }
            Write::Dismiss { user, target } => format!("DELETE /users/{user}/suggestions/{target}"),
            Write::Work => {
                self.server().work().await;
                return String::new();
            }
            Write::Wait { minutes } => {
                self.clock.advance(minutes * MINUTE);
                return String::new();
            }
        };
        let reply = self.ask(actor, &request);
        if let Some(results) = reply.body["results"].as_array() {
            let said = results.iter().map(|result| match result["code"].as_str() {
                Some(code) => format!("{} {code}", result["status"]),
                None => said(result["status"].as_u64().unwrap(), &result["body"]),
            });
            return said.collect::<Vec<_>>().join("; ");
        }
        if reply.status >= 400 { refused(&reply) } else { said(u64::from(reply.status), &reply.body) }
    }

    async fn read(&self, viewer: Option<Id>, read: &Read, limit: usize) -> String {
        let list = |path: String| self.list(viewer, &path, limit);
        let derived = |path: String| self.derived(viewer, &path, limit);
        let get = |path: String| {
            let reply = self.ask(viewer, &format!("GET {path}"));
            if reply.status == 200 { Ok(reply) } else { Err(refused(&reply)) }
        };
        let read = match read {
            Read::Followers(user) => Ok(list(format!("/users/{user}/followers"))),
            Read::Following(user) => Ok(list(format!("/users/{user}/following"))),
            Read::Requests(user) => Ok(list(format!("/users/{user}/follow-requests"))),
            Read::Blocks(user) => Ok(list(format!("/users/{user}/blocks"))),
            Read::Mutes(user) => Ok(list(format!("/users/{user}/mutes"))),
            Read::Mutuals(user) => Ok(derived(format!("/users/{user}/mutuals"))),
            Read::NotFollowingBack(user) => Ok(derived(format!("/users/{user}/not-following-back"))),
            Read::CommonFollowing(a, b) => Ok(derived(format!("/users/{a}/common-following/{b}"))),
            Read::CommonFollowers(a, b) => Ok(derived(format!("/users/{a}/common-followers/{b}"))),
            Read::FollowersYouKnow(user) => Ok(derived(format!("/users/{user}/followers-you-know"))),
            Read::Distance(a, b) => {
                get(format!("/users/{a}/distance/{b}")).map(|reply| match &reply.body["distance"] {
                    Value::Null => "200 none".to_owned(),
                    Value::String(word) => format!("200 {word}"),
                    number => format!("200 {number}"),
                })
            }
            Read::Relationships(user, others) => {
                let reply = if limit.is_multiple_of(2) {
                    self.ask(viewer, &format!("POST /users/{user}/relationships {}", json!({ "ids": others })))
                } else {
                    let query: Vec<String> = others.iter().map(|other| format!("id={other}")).collect();
                    self.ask(viewer, &format!("GET /users/{user}/relationships?{}", query.join("&")))
                };
                match reply.body["data"].as_array() {
                    Some(rows) => Ok(format!("200 {}", rows.iter().map(relation).collect::<Vec<_>>().join(" "))),
                    None => Err(refused(&reply)),
                }
            }
            Read::Guarantees(user) => get(format!("/users/{user}")).map(|reply| {
                let words = reply.body.get("relationship").map(relation).unwrap_or_default();
                let counts = &reply.body["counts"];
                format!("200 {} {} {words}", counts["followers"], counts["following"])
            }),
            Read::IsFollowing(a, b) => {
                get(format!("/users/{a}/is-following/{b}")).map(|reply| format!("200 {}", reply.body["following"]))
            }
            Read::Edge(a, b) => get(format!("/users/{a}/following/{b}")).map(|reply| said(200, &reply.body)),
            Read::History(user) => {
                let mut rows = Vec::new();
                let read = self.pages(viewer, &format!("/users/{user}/history"), limit, |reply| {
                    let found = reply.body["data"].as_array().unwrap().iter();
                    let word = |value: &Value| value.as_str().unwrap().to_owned();
                    rows.extend(found.map(|row| format!("{}:{}", word(&row["user"]["id"]), word(&row["how"]))));
                });
                read.map(|()| format!("200 [{}]", rows.join(" ")))
            }
            Read::Groups(user) => get(format!("/users/{user}/groups")).map(|reply| {
                let names = reply.body["data"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap());
                format!("200 [{}]", names.collect::<Vec<_>>().join(" "))
            }),
            Read::Members(user, nth) => {
                let mut ids = Vec::new();
                let path = format!("{}/members", self.group(user, *nth));
                let read = self.pages(viewer, &path, limit, |reply| {
                    ids.extend(reply.ids().into_iter().map(str::to_owned));
                });
                read.map(|()| members_words(ids))
            }
            Read::Suggestions(user) => get(format!("/users/{user}/suggestions")).map(|reply| {
                let rows = reply.body["data"].as_array().unwrap().iter().map(suggested);
                format!("200 [{}]", rows.collect::<Vec<_>>().join(" "))
            }),
            Read::Leaderboard => {
                let mut rows = Vec::new();
                let read = self.pages(viewer, "/leaderboards/followers", limit, |reply| {
                    let found = reply.body["data"].as_array().unwrap().iter();
                    rows.extend(
                        found.map(|row| (row["followers"].as_u64().unwrap(), row["id"].as_str().unwrap().to_owned())),
                    );
                });
                read.map(|()| board_words(rows))
            }
        };
        read.unwrap_or_else(|refused| refused)
    }
}

fn suggested(row: &Value) -> String {
    let (text, reason) = (|value: &Value| value.as_str().unwrap().to_owned(), &row["reason"]);
    let named: Vec<String> = reason["followed_by"]
        .as_array()
        .map_or(Vec::new(), |people| people.iter().map(|one| text(&one["id"])).collect());
    let common = reason["common"].as_u64().unwrap_or_default();
    assert_eq!(reason["and_more"].as_u64().unwrap_or_default(), common - named.len() as u64, "{row}");
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    suggestion_words(&text(&row["id"]), &text(&reason["type"]), common, &named)
}

fn operation(write: &Write) -> Value {
    match write {
        Write::Follow { follower, target, quiet } => {
            let mut operation = json!({ "op": "follow", "follower": follower, "target": target });
            if let Some(quiet) = quiet {
                operation["quiet"] = json!(quiet);
            }
            operation
        }
        Write::Unfollow { follower, target } => json!({ "op": "unfollow", "follower": follower, "target": target }),
        other => panic!("{other:?} is not for a batch"),
    }
}

fn refused(reply: &Reply) -> String {
    format!("{} {}", reply.status, reply.body["code"].as_str().unwrap_or_default())
}

fn said(status: u64, body: &Value) -> String {
    if let Some(state) = body["state"].as_str() {
        assert_eq!(body["following"], state == "active");
        return format!("{status} {state}{}", if body["quiet"] == true { " quiet" } else { "" });
    }
    if body["member"] == true {
        return status.to_string();
    }
    match (&body["changed"], body["created"].as_bool()) {
        (Value::Bool(changed), None) => format!("{status} changed {changed}"),
        _ => status.to_string(),
    }
}

fn relation(row: &Value) -> String {
    let is = |name: &str| row[name] == true;
    let relation = Relation {
        unknown: is("unknown"),
        following: is("following"),
        followed_by: is("followed_by"),
        mutual: is("mutual"),
        requested: is("requested"),
        blocking: is("blocking"),
        blocked_by: is("blocked_by"),
        muting: is("muting"),
        quiet: is("quiet"),
        since: row["since"].is_string(),
    };
    relation.words()
}
