//! One of two worlds: a server on a store of its own, made by services and then asked by the viewer.

use std::{
    collections::HashSet,
    rc::Rc,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use entourage_model::{Clock, Key, KeyHasher, ManualClock, Millis, Uptime, UserId};
use entourage_service::{AbuseRules, FeedRules, Rules, Surges};
use entourage_store::Store;
use serde_json::Value;

use super::{
    answer::Answer,
    planted::{self, Forged, Leak},
};
use crate::kit::{
    credentials::Credentials,
    server::Server,
    streaming::Stream,
    table::Reply,
    wire::{Wire, encoded},
};

/// From so many followers on posts are pulled: few enough that a secret could reach it.
const CELEBRITY_FOLLOWERS: u64 = 9;

/// What both worlds have in common.
pub(crate) struct Common {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) credentials: Credentials,
    pub(crate) viewer: String,
    /// The viewer's connections speak RESP3.
    pub(crate) is_resp3: bool,
    pub(crate) leak: Option<Leak>,
}

impl Common {
    pub(crate) fn new(viewer: &str, is_resp3: bool, leak: Option<Leak>) -> Rc<Self> {
        let clock = Arc::new(ManualClock::new(Millis::parse_rfc3339("2026-03-04T05:06:07.890Z").unwrap()));
        Rc::new(Self { clock, credentials: Credentials::new(), viewer: viewer.to_owned(), is_resp3, leak })
    }
}

/// Opens a store, again after it was closed.
pub(crate) type Open = Box<dyn Fn(Arc<dyn Clock>) -> Arc<dyn Store>>;

/// With which credential the viewer asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum By {
    Token,
    Service,
}

/// Whose followers are parked at this moment.
#[derive(Default)]
struct Forced(Mutex<HashSet<Key>>);

impl Surges for Forced {
    fn is_surging(&self, target: Key) -> bool {
        self.0.lock().unwrap().contains(&target)
    }
}

/// What came of a line of a step.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) is_accepted: bool,
    pub(crate) post: Option<String>,
}

/// A server, and how to start another one on the same place.
pub(crate) struct World {
    pub(crate) common: Rc<Common>,
    open: Open,
    server: Option<Server>,
    surges: Arc<Forced>,
    store: Option<Arc<dyn Store>>,
    wire: Option<Wire>,
    /// What a planted leak has to remember.
    pub(crate) forged: Forged,
    /// Of the viewer's last write.
    token: String,
    asked: usize,
}

impl World {
    pub(crate) fn new(common: &Rc<Common>, open: Open) -> Self {
        let mut world = Self {
            common: Rc::clone(common),
            open,
            server: None,
            surges: Arc::default(),
            store: None,
            wire: None,
            forged: Forged::default(),
            token: String::new(),
            asked: 0,
        };
        world.restart();
        world
    }

    /// Stops the server, if there is one, and starts another one.
    pub(crate) fn restart(&mut self) {
        (self.wire, self.server, self.store) = (None, None, None);
        let store = (self.open)(Arc::clone(&self.common.clock) as _);
        let feed = FeedRules { celebrity_followers: CELEBRITY_FOLLOWERS, ..FeedRules::default() };
        // Everybody is fresh.
        let abuse = AbuseRules { quarantine: true, fresh_account: Duration::MAX, ..AbuseRules::default() };
        let rules = Rules { audit_interval: None, feed, abuse, ..Rules::default() };
        let clock = Arc::clone(&self.common.clock);
        let passing: Arc<dyn Uptime> = Arc::clone(&clock) as _;
        let surges = Arc::clone(&self.surges);
        let server = Server::serving(self.common.credentials.front(), Arc::clone(&store), rules, |service| {
            service.with_uptime(&passing).with_clock(clock).with_surges(surges)
        });
        (self.server, self.store) = (Some(server), Some(store));
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.store.as_ref().unwrap()
    }

    /// A request by nobody in particular, who sees everything; `@user` acts for them.
    pub(crate) fn service(&self, line: &str) -> Reply {
        let credentials = &self.common.credentials;
        let key = if line.contains(" /admin/") { &credentials.admin_key } else { &credentials.service_key };
        self.server().ask(&format!("!{key} {line}"))
    }

    /// Does what a line of a step says.
    pub(crate) fn act(&mut self, line: &str) -> Done {
        let line = planted::act(self.common.leak, line);
        if let Some(command) = line.strip_prefix("resp ") {
            return Done { is_accepted: !self.service_wire().ask(command).starts_with('-'), post: None };
        }
        if let Some((owner, member)) = line.split_once(" GROUP ") {
            return Done { is_accepted: self.add_to_group(owner, member), post: None };
        }
        if let Some((from, to)) = line.split_once(" PARK ") {
            return Done { is_accepted: self.park(from, to), post: None };
        }
        let reply = self.service(&line);
        assert!(reply.status < 500, "{line}: {} {}", reply.status, reply.text);
        let post = reply.body["id"].as_str().filter(|_| line.contains("POST /posts")).map(str::to_owned);
        let refused = |result: &Value| result["status"].as_u64() >= Some(400);
        let results = reply.body["results"].as_array();
        Done { is_accepted: reply.status < 300 && !results.is_some_and(|results| results.iter().any(refused)), post }
    }

    /// A follow while its target sees a surge.
    fn park(&self, from: &str, to: &str) -> bool {
        let target = KeyHasher::new(&self.store().identity().secret).key(&UserId::try_from(to).unwrap());
        self.surges.0.lock().unwrap().insert(target);
        let reply = self.service(&format!("PUT /users/{from}/following/{to}"));
        self.surges.0.lock().unwrap().remove(&target);
        reply.body["state"] == "parked"
    }

    fn add_to_group(&self, owner: &str, member: &str) -> bool {
        let path = format!("/users/{}/groups", owner.trim_start_matches('@'));
        let group = self.service(&format!(r#"{owner} POST {path} {{"name": "followers"}}"#));
        let id = group.body["id"].as_str().unwrap();
        self.service(&format!("{owner} PUT {path}/{id}/members/{member}")).status < 300
    }

    fn service_wire(&self) -> Wire {
        let mut wire = Wire::connect(self.server().resp);
        wire.check(&format!("AUTH {}", self.common.credentials.service_key), "OK");
        wire
    }

    /// Lets jobs and deliveries come to their end.
    pub(crate) fn settle(&self) {
        self.server().work_now();
        let begun = Instant::now();
        loop {
            let lanes = self.service("GET /admin/feed").body["lanes"].clone();
            if lanes.as_array().unwrap().iter().all(|lane| lane["depth"] == 0) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "posts do not arrive: {lanes}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The viewer's request: `[^header=value …] METHOD path [body]`; `{token}` is that of their last write.
    pub(crate) fn ask(&mut self, by: By, line: &str) -> Answer {
        match self.common.leak {
            None => self.ask_plainly(by, line),
            Some(leak) => planted::ask(self, leak, by, line),
        }
    }

    pub(crate) fn ask_plainly(&mut self, by: By, line: &str) -> Answer {
        self.asked += 1;
        let Common { credentials, viewer, .. } = &*self.common;
        let credential = match by {
            By::Token => format!("!{}", credentials.token(viewer)),
            By::Service => format!("!{} @{viewer}", credentials.service_key),
        };
        let line = line.replace("{token}", &self.token);
        let reply = self.server().ask(&format!("{credential} ^x-request-id=request-{} {line}", self.asked));
        if !reply.token().is_empty() {
            self.token = reply.token();
        }
        Answer::of(&reply)
    }

    /// The viewer's command over a connection of their own, and the bytes of its reply.
    pub(crate) fn command(&mut self, words: &[&str]) -> Vec<u8> {
        match self.common.leak {
            None => self.command_plainly(words),
            Some(leak) => planted::command(self, leak, words),
        }
    }

    pub(crate) fn command_plainly(&mut self, words: &[&str]) -> Vec<u8> {
        if self.wire.is_none() {
            let mut wire = self.service_wire();
            wire.check(&format!("EG.AS {}", self.common.viewer), "OK");
            if self.common.is_resp3 {
                wire.check("HELLO 3", "{…");
            }
            self.wire = Some(wire);
        }
        let wire = self.wire.as_mut().unwrap();
        wire.send(&encoded(words));
        wire.bytes().unwrap_or_else(|| panic!("no answer to {words:?}"))
    }

    /// One of the viewer's streams: `[^header=value …] path`.
    pub(crate) fn stream(&self, line: &str) -> Stream {
        let token = self.common.credentials.token(&self.common.viewer);
        self.server().stream(&format!("!{token} {line}"))
    }
}
