//! A consumer that keeps a copy of the graph by the events alone, beside a server that erases people: the copy is what
//! the server exports, whether it was read along the way or in one go at the end, and nothing of the erased is in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use entourage_service::{Limits, Rules};
use entourage_store::Store;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use super::server::Server;

/// Named and numeric, so that both ways from a key to an id are taken.
const PEOPLE: [&str; 8] = ["ada", "7", "grace/hopper", "4711", "naïve", "12", "did:plc:x", "90071992547409930"];

/// Where a person is kept: by id, between ids, by owner and group, by the id of a post.
type Pair = (String, String);

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Copy {
    users: BTreeMap<String, Value>,
    /// State and flag.
    follows: BTreeMap<Pair, (String, bool)>,
    blocks: BTreeSet<Pair>,
    mutes: BTreeMap<Pair, Value>,
    groups: BTreeMap<Pair, (Value, BTreeSet<String>)>,
    posts: BTreeMap<String, (String, Value)>,
}

/// What a consumer could get wrong, or be told wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Twist {
    ErasedUnnamed,
    EdgesOfErasedUnnamed,
    FlagIsCreation,
    ExpiryMissing,
    GroupUnnamed,
    SuspensionUntold,
}

fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("{value} is no text"))
}

impl Copy {
    /// Takes one event in. What cannot be applied is said.
    fn apply(&mut self, event: &Value) -> Result<(), String> {
        let name = event["type"].as_str().ok_or("an event without a type")?;
        let (subject, what) = name.split_once('.').ok_or("a type without a dot")?;
        match subject {
            "user" => self.apply_user(what, &event["user"]),
            "follow" | "block" | "mute" => self.apply_edge(subject, what, event),
            "group" => self.apply_group(what, event),
            "post" => {
                let id = text(&event["post_id"])?;
                match what {
                    "deleted" => self.posts.remove(&id).map(drop).ok_or(format!("no post {id}")),
                    _ => {
                        let author = text(&event["author"])?;
                        let known = self.posts.insert(id, (author, event["body"].clone()));
                        if known.is_some() == (what == "updated") { Ok(()) } else { Err(format!("{known:?}")) }
                    }
                }
            }
            _ => Err(format!("nobody knows {name}")),
        }
    }

    fn apply_user(&mut self, what: &str, user: &Value) -> Result<(), String> {
        let id = text(&user["id"])?;
        let known = self.users.remove(&id);
        if known.is_some() == (what == "created") {
            return Err(format!("user.{what} of {known:?}"));
        }
        if what == "erased" {
            // Groups end with their owner and their members.
            self.groups.retain(|(owner, _), _| *owner != id);
            for (_, members) in self.groups.values_mut() {
                members.remove(&id);
            }
            return Ok(());
        }
        let was = known.as_ref().map_or(&Value::Bool(false), |known| &known["follow_suspended"]);
        let is = &user["follow_suspended"];
        let fits = match what {
            "suspended" => (was, is) == (&json!(false), &json!(true)),
            "restored" => (was, is) == (&json!(true), &json!(false)),
            _ => was == is,
        };
        self.users.insert(id, user.clone());
        if fits { Ok(()) } else { Err(format!("user.{what} from {known:?} to {user}")) }
    }

    fn apply_edge(&mut self, kind: &str, what: &str, event: &Value) -> Result<(), String> {
        let pair = (text(&event["follower"])?, text(&event["target"])?);
        let is_there = match kind {
            "follow" => {
                let before = self.follows.remove(&pair);
                let was = before.as_ref().map_or(Value::Null, |(state, _)| json!(state));
                if was != event["before"] || (what == "updated") != (was == event["after"]) {
                    return Err(format!("follow.{what} of {pair:?} as {before:?}"));
                }
                if let Some(after) = event["after"].as_str() {
                    let quiet = event["quiet"].as_bool().ok_or("quiet is no flag")?;
                    self.follows.insert(pair, (after.to_owned(), quiet));
                }
                return Ok(());
            }
            "block" if what == "created" => !self.blocks.insert(pair.clone()),
            "block" => self.blocks.remove(&pair),
            _ if what == "removed" => self.mutes.remove(&pair).is_some(),
            _ => {
                let expires_at = event.get("expires_at").ok_or("a mute does not say when it ends")?;
                self.mutes.insert(pair.clone(), expires_at.clone()).is_some()
            }
        };
        if is_there == (what != "created") { Ok(()) } else { Err(format!("{kind}.{what} of {pair:?}")) }
    }

    fn apply_group(&mut self, what: &str, event: &Value) -> Result<(), String> {
        let key = (text(&event["owner"])?, text(&event["group"])?);
        match what {
            "created" => {
                let known = self.groups.insert(key, (event["name"].clone(), BTreeSet::new()));
                return known.map_or(Ok(()), |known| Err(format!("{known:?} is there already")));
            }
            // Its members follow.
            "removed" => return self.groups.remove(&key).map(drop).ok_or(format!("no group {key:?}")),
            _ => {}
        }
        let Some((name, members)) = self.groups.get_mut(&key) else {
            let is_end = what == "member_removed";
            return if is_end { Ok(()) } else { Err(format!("group.{what} of none: {key:?}")) };
        };
        match what {
            "updated" => name.clone_from(&event["name"]),
            "member_added" => drop(members.insert(text(&event["member"])?)),
            _ => drop(members.remove(&text(&event["member"])?)),
        }
        Ok(())
    }

    /// Whoever is in a group is shown while one of the two follows the other.
    fn shown(mut self) -> Self {
        let follows = |a: &String, b: &String| {
            self.follows.get(&(a.clone(), b.clone())).is_some_and(|(state, _)| state == "active")
        };
        for ((owner, _), (_, members)) in &mut self.groups {
            members.retain(|member| follows(owner, member) || follows(member, owner));
        }
        self
    }
}

/// A consumer with its copy and its cursor.
#[derive(Default)]
struct Consumer {
    copy: Copy,
    after: String,
    events: u64,
    read: String,
}

impl Consumer {
    fn read(&mut self, server: &Server, limit: usize, twist: Option<Twist>) -> Result<bool, String> {
        let reply = server.check(&format!("GET /events?limit={limit}{}", self.after), "200 {}");
        for event in reply.body["data"].as_array().unwrap() {
            let mut event = event.clone();
            distort(&mut event, twist);
            self.copy.apply(&event).map_err(|why| format!("{event} cannot be applied: {why}"))?;
            self.events += 1;
        }
        self.read.push_str(&reply.text);
        if let Some(cursor) = reply.body["next_cursor"].as_str() {
            self.after = format!("&after={cursor}");
        }
        Ok(reply.body["has_more"].as_bool().unwrap())
    }
}

fn distort(event: &mut Value, twist: Option<Twist>) {
    let name = event["type"].as_str().unwrap_or_default().to_owned();
    match twist {
        Some(Twist::ErasedUnnamed) if name == "user.erased" => event["user"] = Value::Null,
        Some(Twist::EdgesOfErasedUnnamed) if name == "follow.removed" => event["target"] = Value::Null,
        Some(Twist::FlagIsCreation) if name == "follow.updated" => event["type"] = json!("follow.created"),
        Some(Twist::ExpiryMissing) if name.starts_with("mute.") => {
            drop(event.as_object_mut().unwrap().remove("expires_at"))
        }
        Some(Twist::GroupUnnamed) if name == "group.updated" => event["name"] = Value::Null,
        Some(Twist::SuspensionUntold) if name == "user.suspended" => event["type"] = json!("user.updated"),
        _ => {}
    }
}

fn part(id: &str) -> String {
    id.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Everything a service may see of these people, through the routes that show it.
fn export(server: &Server) -> Copy {
    let mut copy = Copy::default();
    let pages = |path: String| {
        let (mut rows, mut cursor) = (Vec::new(), String::new());
        loop {
            let reply = server.ask(&format!("GET {path}?limit=3{cursor}"));
            assert_eq!(reply.status, 200, "{}", reply.text);
            rows.extend(reply.body["data"].as_array().unwrap().iter().cloned());
            match reply.body["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return rows,
            }
        }
    };
    for id in PEOPLE {
        let own = format!("/users/{}", part(id));
        let user = server.ask(&format!("GET {own}"));
        if user.status == 404 {
            continue;
        }
        let names = ["id", "name", "avatar_url", "private", "hide_lists", "registered_at", "created_at"];
        let mut profile: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), user.body[*name].clone())).collect();
        let is_suspended = user.body["follow_suspended"].as_bool().unwrap_or_default();
        profile.insert("follow_suspended".to_owned(), is_suspended.into());
        copy.users.insert(id.to_owned(), profile.into());
        for other in PEOPLE {
            let edge = server.ask(&format!("GET {own}/following/{}", part(other)));
            if edge.status == 200 {
                let edge = (text(&edge.body["state"]).unwrap(), edge.body["quiet"].as_bool().unwrap());
                copy.follows.insert((id.to_owned(), other.to_owned()), edge);
            }
        }
        let to = |row: &Value| (id.to_owned(), text(&row["id"]).unwrap());
        copy.blocks.extend(pages(format!("{own}/blocks")).iter().map(to));
        copy.mutes.extend(pages(format!("{own}/mutes")).iter().map(|row| (to(row), row["expires_at"].clone())));
        for group in server.ask(&format!("GET {own}/groups")).body["data"].as_array().unwrap() {
            let group_id = text(&group["id"]).unwrap();
            let members = pages(format!("{own}/groups/{group_id}/members"));
            let members = members.iter().map(|row| text(&row["id"]).unwrap()).collect();
            copy.groups.insert((id.to_owned(), group_id), (group["name"].clone(), members));
        }
        for post in pages(format!("{own}/posts")) {
            copy.posts.insert(text(&post["id"]).unwrap(), (id.to_owned(), post["body"].clone()));
        }
    }
    copy
}

struct Run {
    server: Option<Server>,
    rng: StdRng,
    /// What each person said of themselves: words that nobody else says.
    said: BTreeMap<&'static str, Vec<String>>,
    /// What must not be read any more.
    unsaid: Vec<String>,
    words: u64,
}

impl Run {
    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn word(&mut self, of: &'static str) -> String {
        self.words += 1;
        let word = format!("word-{}-", self.words);
        self.said.entry(of).or_default().push(word.clone());
        word
    }

    fn nth(&mut self, path: &str) -> Option<String> {
        let reply = self.server().ask(&format!("GET {path}"));
        let rows = reply.body["data"].as_array()?;
        rows.choose(&mut self.rng).and_then(|row| row["id"].as_str()).map(str::to_owned)
    }

    fn step(&mut self) {
        let (a, b) = (*PEOPLE.choose(&mut self.rng).unwrap(), *PEOPLE.choose(&mut self.rng).unwrap());
        let (me, other) = (part(a), part(b));
        let own = format!("/users/{me}");
        let request = match self.rng.random_range(0..100) {
            0..12 => {
                let (name, picture, private) = (self.word(a), self.word(a), self.rng.random_ratio(1, 4));
                let body = json!({ "name": name, "avatar_url": format!("https://{picture}"), "private": private });
                format!("PUT {own} {body}")
            }
            12..16 => format!("PATCH {own} {}", json!({ "private": self.rng.random::<bool>() })),
            16..40 => format!("PUT {own}/following/{other} {}", json!({ "quiet": self.rng.random_ratio(1, 3) })),
            40..46 => format!("DELETE {own}/following/{other}"),
            46..52 => format!("POST {own}/follow-requests/{other}/accept"),
            52..54 => format!("POST {own}/follow-requests/{other}/reject"),
            54..56 => format!("DELETE {own}/followers/{other}"),
            56..59 => format!("PUT {own}/blocks/{other}"),
            59..62 => format!("DELETE {own}/blocks/{other}"),
            62..68 => match self.rng.random_range(0..3) {
                0 => format!("PUT {own}/mutes/{other}"),
                years => format!("PUT {own}/mutes/{other} {{\"expires_at\": \"209{years}-01-01T00:00:00Z\"}}"),
            },
            68..70 => format!("DELETE {own}/mutes/{other}"),
            70..74 => format!("POST {own}/groups {}", json!({ "name": self.word(a) })),
            74..84 => {
                let Some(group) = self.nth(&format!("{own}/groups")) else { return };
                let group = format!("{own}/groups/{group}");
                match self.rng.random_range(0..10) {
                    0 => format!("DELETE {group}"),
                    1 | 2 => format!("PATCH {group} {}", json!({ "name": self.word(a) })),
                    3 => format!("DELETE {group}/members/{other}"),
                    _ => format!("PUT {group}/members/{other}"),
                }
            }
            84..90 if a.is_ascii() => format!("@{a} POST /posts {}", json!({ "body": { "text": self.word(a) } })),
            84..90 => return,
            90..93 => {
                let Some(post) = self.nth(&format!("{own}/posts")) else { return };
                match self.rng.random_range(0..3) {
                    0 => format!("DELETE /posts/{post}"),
                    _ => format!("PATCH /posts/{post} {}", json!({ "body": { "text": self.word(a) } })),
                }
            }
            93 => format!("PUT /admin/users/{me}/suspend"),
            94 | 95 => format!("DELETE /admin/users/{me}/suspend"),
            96 => {
                let reply = self.server().ask(&format!("DELETE {own}"));
                if reply.status == 202 {
                    self.unsaid.extend(self.said.remove(a).into_iter().flatten());
                }
                return;
            }
            97 => format!("POST {own}/follow-requests:accept-all"),
            _ => return self.server().work_now(),
        };
        self.server().ask(&request);
    }
}

/// The lines that only one of the two has.
fn difference(copy: &Copy, exported: &Copy) -> String {
    let lines = |copy: &Copy| -> BTreeSet<String> {
        let users = copy.users.iter().map(|entry| format!("{entry:?}"));
        let follows = copy.follows.iter().map(|entry| format!("follow {entry:?}"));
        let blocks = copy.blocks.iter().map(|entry| format!("block {entry:?}"));
        let mutes = copy.mutes.iter().map(|entry| format!("mute {entry:?}"));
        let groups = copy.groups.iter().map(|entry| format!("group {entry:?}"));
        let posts = copy.posts.iter().map(|entry| format!("post {entry:?}"));
        users.chain(follows).chain(blocks).chain(mutes).chain(groups).chain(posts).collect()
    };
    let (copy, exported) = (lines(copy), lines(exported));
    format!("copied {:#?}, stored {:#?}", copy.difference(&exported), exported.difference(&copy))
}

/// One run; what went wrong. `open` gives the store anew: the server is stopped and started in the middle.
pub(crate) fn run(
    mut open: impl FnMut() -> Arc<dyn Store>,
    seed: u64,
    steps: usize,
    twist: Option<Twist>,
) -> Result<(), String> {
    let rules = || Rules { limits: Limits::NONE, ..Rules::default() };
    let mut store = open();
    let server = Some(Server::with(Arc::clone(&store), rules()));
    let (rng, said, unsaid) = (StdRng::seed_from_u64(seed), BTreeMap::new(), Vec::new());
    let mut run = Run { server, rng, said, unsaid, words: 0 };
    let mut along = Consumer::default();
    for step in 0..steps {
        run.step();
        if run.rng.random_ratio(1, 15) {
            let limit = run.rng.random_range(1..9);
            along.read(run.server(), limit, twist)?;
        }
        if step == steps / 2 {
            // Nobody may hold the store while it is opened anew.
            drop(run.server.take());
            drop(store);
            store = open();
            run.server = Some(Server::with(Arc::clone(&store), rules()));
        }
    }
    run.server().work_now();
    while along.read(run.server(), 7, twist)? {}
    let mut late = Consumer::default();
    while late.read(run.server(), 50, twist)? {}
    let exported = export(run.server());
    for (how, consumer) in [("along the way", along), ("at the end", late)] {
        if how == "at the end" {
            if let Some(word) = run.unsaid.iter().find(|word| consumer.read.contains(*word)) {
                return Err(format!("{word} was said by somebody who is erased, and is read"));
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let report = runtime.block_on(store.verify()).unwrap();
            if !report.is_clean() || report.events != consumer.events {
                return Err(format!("{} events were read; verify says {report:?}", consumer.events));
            }
        }
        let copy = consumer.copy.shown();
        if copy != exported {
            return Err(format!("read {how} the copy differs: {}", difference(&copy, &exported)));
        }
    }
    let met = !exported.users.is_empty() && !run.unsaid.is_empty() && !exported.follows.is_empty();
    if met { Ok(()) } else { Err(format!("the run met too little: {exported:#?}")) }
}
