//! Clients that write until their server dies and remember what they heard, and the judgement of it.

mod pipe;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use entourage_embedded::{Fault, Options, Store};
use entourage_model::{Key, Sequence, Version};
use entourage_store::{Store as _, SystemClock, disk::RealDisk};
use entourage_testkit::conformance::{
    block_on,
    history::{self, Action, Ending, Record, Ticks, Verb},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use self::pipe::Pipe;
use crate::server_kit::{Client, Heard, Serving};

/// Decimal ids are their own keys, so that records of requests can be compared with the log.
pub(crate) fn users_of(epoch: usize) -> Vec<Key> {
    (0..10).map(|user| Key(epoch as i64 * 100 + user + 1)).collect()
}

pub(crate) fn open(data: &Path) -> Store {
    for _ in 0..100 {
        let options = Options { prepare_ahead: false, seal_after: None, ..Options::default() };
        match Store::open(Arc::new(RealDisk::new(data).unwrap()), "data", options, Arc::new(SystemClock)) {
            // A process that another test starts has our lock between its fork and its exec.
            Err(Fault::InUse(_)) => std::thread::sleep(std::time::Duration::from_millis(20)),
            other => return other.unwrap(),
        }
    }
    panic!("the folder stays in use")
}

/// What is wrong with all that was heard so far, given what is on disk now.
pub(crate) fn judge(data: &Path, records: &[Record], close: bool) -> Vec<String> {
    block_on(async {
        let store = open(data);
        let mut problems = history::check(records, &store, Sequence::ZERO).await;
        let report = store.verify().await.expect("the store can be verified");
        problems.extend(report.problems.into_iter().map(|problem| format!("{problem:?}")));
        if close {
            store.close().await.expect("the store closes");
        }
        problems
    })
}

/// A user of a client's own, whose name is a number that it counts up.
#[derive(Clone, Copy, Debug, Default)]
struct Name {
    acked: u64,
    asked: u64,
}

pub(crate) struct Clients {
    ticks: Ticks,
    random: StdRng,
    names: Vec<Name>,
}

impl Clients {
    pub(crate) fn new(count: usize, seed: u64) -> Self {
        Self { ticks: Ticks::default(), random: StdRng::seed_from_u64(seed), names: vec![Name::default(); count] }
    }

    /// How often a client was told that its user has a new name.
    pub(crate) fn names_acked(&self) -> u64 {
        self.names.iter().map(|name| name.acked).sum()
    }

    pub(crate) fn make_users(&self, base: &str, users: &[Key]) {
        let client = Client::new(base);
        for user in users {
            let heard = client.put_user(&user.to_string(), "somebody").expect("an answer");
            assert!(matches!(heard.status, 200 | 201), "{heard:?}");
        }
    }

    /// Compares each client's own user with what that client was told, and goes on from there.
    pub(crate) fn find_names(&mut self, base: &str) -> Vec<String> {
        let server = Client::new(base);
        let mut problems = Vec::new();
        for (client, name) in self.names.iter_mut().enumerate() {
            let heard = server.get(&format!("/api/v1/users/own-{client}"));
            let found = match heard.status {
                404 => 0,
                _ => heard.body["name"].as_str().and_then(|name| name.parse().ok()).expect("a number"),
            };
            let Name { acked, asked } = *name;
            if !(acked..=asked).contains(&found) {
                problems.push(format!("client {client} was told {acked}, asked for {asked}, finds {found}"));
            }
            *name = Name { acked: found, asked: found };
        }
        problems
    }

    /// Lets all clients write while `meanwhile` runs, which ends the server; they stop when they get no answer.
    pub(crate) fn drive(
        &mut self,
        server: &mut Serving,
        users: &[Key],
        meanwhile: impl FnOnce(&mut Serving),
    ) -> Vec<Record> {
        let (base, resp) = (&server.base.clone(), &server.resp.clone());
        let (ticks, over) = (&self.ticks, &AtomicBool::new(false));
        let random = &mut self.random;
        // Every other client sends follows and unfollows over RESP, several at once.
        let mut pipes: Vec<Option<Pipe>> =
            (0..self.names.len()).map(|client| is_over_resp(client).then(|| Pipe::connect(resp))).collect();
        std::thread::scope(|scope| {
            let clients: Vec<_> = self
                .names
                .iter_mut()
                .zip(&mut pipes)
                .enumerate()
                .map(|(client, (name, pipe))| {
                    let mut random = StdRng::seed_from_u64(random.random());
                    scope.spawn(move || {
                        let server = Client::new(base);
                        let mut records = Vec::new();
                        while !over.load(Ordering::Relaxed) {
                            let answered = if random.random_range(0..8) == 0 {
                                rename(&server, client, name)
                            } else if let Some(pipe) = pipe {
                                let count = random.random_range(1..=8);
                                let actions: Vec<Action> = (0..count).map(|_| draw(&mut random, users)).collect();
                                let (edges, rest): (Vec<_>, Vec<_>) = actions
                                    .into_iter()
                                    .partition(|action| matches!(action.verb, Verb::Follow | Verb::Unfollow));
                                records.extend(pipe.write(client, edges, ticks));
                                records.extend(rest.into_iter().map(|action| write(&server, client, action, ticks)));
                                records.last().is_none_or(|record| record.completed.is_some())
                            } else {
                                let record = write(&server, client, draw(&mut random, users), ticks);
                                let answered = record.completed.is_some();
                                records.push(record);
                                answered
                            };
                            if !answered {
                                break;
                            }
                        }
                        records
                    })
                })
                .collect();
            meanwhile(server);
            over.store(true, Ordering::Relaxed);
            clients.into_iter().flat_map(|client| client.join().expect("the client ends")).collect()
        })
    }
}

const fn is_over_resp(client: usize) -> bool {
    client % 2 == 1
}

/// How many follows and unfollows were answered with success over RESP.
pub(crate) fn acked_over_resp(records: &[Record]) -> usize {
    let over_resp =
        |record: &&Record| is_over_resp(record.client) && matches!(record.action.verb, Verb::Follow | Verb::Unfollow);
    records.iter().filter(over_resp).filter(|record| matches!(record.ending, Ending::Ok { .. })).count()
}

fn rename(server: &Client, client: usize, name: &mut Name) -> bool {
    name.asked += 1;
    let heard = server.put_user(&format!("own-{client}"), &name.asked.to_string());
    match heard {
        Some(heard) if heard.status < 300 => {
            name.acked = name.asked;
            true
        }
        Some(heard) if heard.status < 500 => panic!("{heard:?}"),
        _ => false,
    }
}

fn draw(random: &mut StdRng, users: &[Key]) -> Action {
    let verb = match random.random_range(0..20) {
        0..10 => Verb::Follow,
        10..14 => Verb::Unfollow,
        14..16 => Verb::Block,
        _ => Verb::Unblock,
    };
    let actor = random.random_range(0..users.len());
    let target = (actor + random.random_range(1..users.len())) % users.len();
    Action { verb, actor: users[actor], target: users[target] }
}

fn write(server: &Client, client: usize, action: Action, ticks: &Ticks) -> Record {
    let Action { verb, actor, target } = action;
    let (method, list) = match verb {
        Verb::Follow | Verb::FollowQuietly => ("PUT", "following"),
        Verb::Unfollow => ("DELETE", "following"),
        Verb::Block => ("PUT", "blocks"),
        Verb::Unblock => ("DELETE", "blocks"),
    };
    let invoked = ticks.next();
    let ending = ending(server.ask(method, &format!("/api/v1/users/{actor}/{list}/{target}"), ""));
    let completed = (ending != Ending::Info).then(|| ticks.next());
    Record { client, action, invoked, completed, ending }
}

/// A reply without a version of its own says that, or whether, anything changed.
fn ending(heard: Option<Heard>) -> Ending {
    let Some(heard) = heard else { return Ending::Info };
    let version = heard.body["version"].as_str().and_then(|text| text.parse().ok()).map(Version::from_bits);
    match heard.status {
        201 => Ending::Ok { changed: true, version: Some(version.expect("a version")), watermark: None },
        200 => {
            let changed = heard.body["changed"].as_bool().unwrap_or(false);
            Ending::Ok { changed, version: None, watermark: None }
        }
        status if status >= 500 => Ending::Info,
        _ => Ending::Fail(heard.code().to_owned()),
    }
}
