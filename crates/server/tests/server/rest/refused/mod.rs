//! Bad input on every operation of the document: a clear refusal, and a store that is afterwards what it was before.

mod bodies;
mod cursors;
mod ids;
use entourage_testkit::portrait;
mod sizes;

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{Arc, LazyLock},
    time::Duration,
};

use entourage_model::{Event, EventBody, Key, KeyHasher, Operation, RecordId, Sequence, Space, UserId};
use entourage_service::{AbuseRules, Limits, Rules};
use entourage_store::{Store, StoreExt as _};
use serde_json::Value;

use super::{
    matrix::{MATRIX, NAMES},
    server::{Server, memory_store},
};

static DOCUMENT: LazyLock<Value> = LazyLock::new(entourage_server::http::document);

/// A server whose user `own` has at least two rows in every list, and what its store looked like then.
pub(super) struct Ground {
    pub(super) server: Server,
    store: Arc<dyn Store>,
    before: String,
    group: String,
    job: String,
    post: String,
}

/// One operation with a request for it that would be good.
pub(super) struct Sample {
    pub(super) id: &'static str,
    pub(super) described: &'static Value,
    /// Headers in front of the method, each with a space after it.
    pub(super) head: String,
    pub(super) method: &'static str,
    /// As in the document, below `/api/v1`; outside of it with one slash more.
    pub(super) template: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) body: String,
}

/// As if fresh accounts had surged.
fn park(store: &dyn Store, followers: &[&str], target: &str) {
    let hasher = KeyHasher::new(&store.identity().secret);
    let key = |name: &str| hasher.key(&UserId::try_from(name).unwrap());
    let follow = |name: &&str| {
        let (follower, target) = (key(name), key(target));
        Operation::Follow { follower, target, quiet: None, cap: None, park: true }.into()
    };
    let parked = store.commit_all(followers.iter().map(follow).collect());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(parked).into_iter().for_each(|result| drop(result.unwrap()));
}

impl Ground {
    pub(super) fn new() -> Self {
        let store = memory_store(1);
        let rules = Rules { limits: Limits::NONE, ..Rules::default() };
        let server = Server::with(Arc::clone(&store), rules);
        for user in NAMES.iter().chain(&["x1", "x2", "x3", "b1", "b2", "p1", "p2"]) {
            server.check(&format!("PUT /users/{user}"), "201");
        }
        let follow = |follower: &str, target: &str| {
            server.check(&format!("PUT /users/{follower}/following/{target}"), "201");
        };
        for target in ["pal", "fan", "x1", "x2", "x3", "boss", "other"] {
            follow("own", target);
        }
        for target in ["boss", "other"] {
            server.check(&format!("DELETE /users/own/following/{target}"), "200");
        }
        for follower in ["fan", "x1", "x2"] {
            follow(follower, "own");
        }
        for target in ["pal", "fan", "x2"] {
            follow("x1", target);
        }
        for target in ["pal", "x2"] {
            follow("fan", target);
        }
        follow("x2", "fan");
        server.check(r#"PATCH /users/own {"private": true}"#, "200");
        for from in ["asker", "other", "boss"] {
            server.check(&format!("PUT /users/{from}/following/own"), "202");
        }
        park(&*store, &["p1", "p2"], "own");
        for (list, others) in [("blocks", ["foe", "b1", "b2"]), ("mutes", ["pal", "x3", "boss"])] {
            for other in others {
                server.check(&format!("PUT /users/own/{list}/{other}"), "201");
            }
        }
        let made = ["one", "two", "three"]
            .map(|name| server.check(&format!(r#"POST /users/own/groups {{"name": "{name}"}}"#), "201"));
        let group = made[0].body["id"].as_str().unwrap().to_owned();
        for member in ["pal", "fan", "x1"] {
            server.check(&format!("PUT /users/own/groups/{group}/members/{member}"), "201");
        }
        let posts = ["own", "own", "fan", "x1", "own"]
            .map(|author| server.check(&format!(r#"@{author} POST /posts {{"body": {{"by": "{author}"}}}}"#), "201"));
        let post = posts[0].body["id"].as_str().unwrap().to_owned();
        let started = ["x1", "x2", "x3"]
            .map(|user| server.check(&format!("POST /users/{user}/follow-requests:accept-all"), "202"));
        let job = started[0].body["job"]["id"].as_str().unwrap().to_owned();
        // Two cases of suspected abuse.
        for target in ["pal", "x1"] {
            for _ in 0..AbuseRules::default().pair_flips {
                follow("x3", target);
                server.check(&format!("DELETE /users/x3/following/{target}"), "200");
            }
        }
        server.detect_now();
        server.work_now();
        wait_for_deliveries(&*store);
        let before = portrait_of(&*store);
        Self { server, store, before, group, job, post }
    }

    /// Every operation there is.
    pub(super) fn samples(&self) -> impl Iterator<Item = Sample> + '_ {
        MATRIX.iter().map(|(id, request, _)| self.sample(id, request))
    }

    fn sample(&self, id: &'static str, request: &'static str) -> Sample {
        let filled = NAMES.iter().fold(request.to_owned(), |text, name| text.replace(&format!("{{{name}}}"), name));
        let filled = filled.replace("groups/7", &format!("groups/{}", self.group));
        let filled = filled.replace("jobs/7", &format!("jobs/{}", self.job)).replace("{post}", &self.post);
        let mut words = filled.splitn(3, ' ');
        let (_, address, body) = (words.next(), words.next().unwrap(), words.next().unwrap_or_default());
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        let (template, method, described) = described(id);
        let head = match id {
            "follow" | "unfollow" | "create_post" => "@other ",
            "list_followers_you_know" => "@x1 ",
            _ => "",
        };
        let template = match template.strip_prefix("/api/v1") {
            Some(below) => below.to_owned(),
            None => format!("/{template}"),
        };
        let (path, query, body) = (path.to_owned(), query.to_owned(), body.to_owned());
        Sample { id, described, head: head.to_owned(), method, template, path, query, body }
    }

    /// Each of them refused as expected, and nothing different afterwards.
    pub(super) fn refuses(&self, table: impl IntoIterator<Item = (String, String)>) {
        let mut asked = 0;
        for (request, expected) in table {
            assert!(expected.starts_with('4'), "{request}: {expected} is no refusal");
            self.server.check(&request, &expected);
            asked += 1;
        }
        assert!(asked > 0, "nothing was asked");
        self.is_untouched();
    }

    pub(super) fn is_untouched(&self) {
        assert_eq!(portrait_of(&*self.store), self.before);
    }
}

impl Sample {
    /// The same request with another query.
    pub(super) fn with_query(&self, query: &str) -> String {
        let joined = [self.query.as_str(), query].map(str::to_owned).into_iter().filter(|part| !part.is_empty());
        let query = joined.collect::<Vec<_>>().join("&");
        format!("{}{} {}?{query} {}", self.head, self.method, self.path, self.body)
    }

    /// The same request with another body.
    pub(super) fn with_body(&self, body: &str) -> String {
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        format!("{}{} {}{query} {body}", self.head, self.method, self.path)
    }

    /// The names of its parameters in the query.
    pub(super) fn query_names(&self) -> impl Iterator<Item = &'static str> {
        let parameters = self.described["parameters"].as_array().unwrap().iter();
        parameters.filter(|parameter| parameter["in"] == "query").map(|parameter| parameter["name"].as_str().unwrap())
    }
}

/// Path, method and description of an operation.
fn described(id: &str) -> (&'static str, &'static str, &'static Value) {
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    let all = paths.flat_map(|(path, methods)| methods.as_object().unwrap().iter().map(move |each| (path, each)));
    let mut found =
        all.filter(|(_, (_, operation))| operation["operationId"] == id).map(|(path, (method, operation))| {
            let upper =
                ["GET", "PUT", "POST", "PATCH", "DELETE"].into_iter().find(|name| name.eq_ignore_ascii_case(method));
            (path.as_str(), upper.unwrap(), operation)
        });
    found.next().unwrap_or_else(|| panic!("{id} is not described"))
}

/// The fan-out writes down how far it has come; then it is done with the posts there are.
fn wait_for_deliveries(store: &dyn Store) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let events = store.events_after(Sequence::ZERO, 10_000).await.unwrap();
        let is_post = |event: &&Event| matches!(event.body, EventBody::Record { space: Space::Post, .. });
        let last = events.iter().rfind(is_post).unwrap().sequence.0;
        let offset = RecordId::new(b"offset").unwrap();
        for _ in 0..400 {
            let found = store.get_record(Space::FanoutQueue, Key::SERVER, &offset).await.unwrap();
            let reached = found.map_or(0, |record| u64::from_be_bytes(record.value.as_ref().try_into().unwrap()));
            if reached >= last {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("posts are not delivered");
    });
}

fn portrait_of(store: &dyn Store) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(portrait::portrait(store)).unwrap()
}

impl Server {
    /// Status and JSON of what bytes on a fresh connection are answered with.
    pub(super) fn raw(&self, bytes: &[u8]) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        // The server may hang up as soon as it has seen enough.
        let _ = stream.write_all(bytes);
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        let text = String::from_utf8_lossy(&reply);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no answer: {text}")), serde_json::from_str(body).unwrap_or_default())
    }
}

#[test]
fn a_difference_is_seen() {
    let ground = Ground::new();
    ground.server.check("@pal POST /users/fan/follow", "201");
    assert_ne!(portrait_of(&*ground.store), ground.before);
    assert_eq!(ground.samples().count(), MATRIX.len());
}
