//! How often somebody may follow, through real servers: what was used up stays used up when a server is killed, and two
//! servers on one PostgreSQL give no more than one.

use std::path::Path;

use crate::postgres_kit::Database;
use crate::server_kit::{Client, Folder, Heard, Serving, check, command, text};

/// Nothing comes back while the test runs: one follow an hour, and so many at once.
const BURST: usize = 100;
const RACING: usize = 200;

struct Settings<'a> {
    data: &'a Path,
    store: Option<&'a str>,
    others: &'a [(&'a str, &'a str)],
}

impl Settings<'_> {
    fn start(&self) -> Serving {
        let mut command = command(&["serve", "--http", "127.0.0.1:0", "--data", text(self.data)]);
        command.env("ENTOURAGE_USERS__AUTO_CREATE", "true").env("ENTOURAGE_LIMITS__FOLLOWS_PER_HOUR", "1");
        command.env("ENTOURAGE_LIMITS__FOLLOW_BURST", BURST.to_string());
        command.envs(self.store.map(|url| ("ENTOURAGE_STORE__URL", url)));
        command.envs(self.others.iter().map(|(name, value)| (format!("ENTOURAGE_LIMITS__{name}"), *value)));
        Serving::start_as(&mut command)
    }
}

fn follow(client: &Client, who: &str, target: &str) -> Heard {
    client.ask("PUT", &format!("/api/v1/users/{who}/following/{target}"), "").expect("an answer")
}

fn unfollow(client: &Client, who: &str, target: &str) {
    let gone = client.ask("DELETE", &format!("/api/v1/users/{who}/following/{target}"), "").expect("an answer");
    assert_eq!(gone.status, 200, "{gone:?}");
}

fn refused(heard: &Heard, code: &str, most_seconds: u64) {
    assert_eq!(heard.body["code"], code, "{heard:?}");
    let wait: u64 = heard.header("retry-after").parse().expect("it says how long to wait");
    assert!((1..=most_seconds).contains(&wait), "{heard:?}");
}

/// How many of the racing follows were made.
fn race(servers: &[Serving], who: &str) -> usize {
    std::thread::scope(|scope| {
        let clients = (0..8 * servers.len()).map(|client| {
            let base = &servers[client % servers.len()].base;
            scope.spawn(move || {
                let asking = Client::new(base);
                let targets = (0..RACING).filter(|target| target % 8 == client / servers.len());
                let made = targets.filter(|target| {
                    let heard = follow(&asking, who, &format!("t{}-{target}", client % servers.len()));
                    assert!(matches!(heard.status, 201 | 429), "{heard:?}");
                    heard.status == 201
                });
                made.count()
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().expect("the client ends")).sum()
    })
}

/// Uses everything up, kills the server, and asks the one that starts next.
fn used_up_stays_used_up(settings: &Settings<'_>) {
    let mut server = settings.start();
    let client = Client::new(&server.base);
    for _ in 0..2 {
        assert_eq!(follow(&client, "flipper", "star").status, 201);
        unfollow(&client, "flipper", "star");
    }
    refused(&follow(&client, "flipper", "star"), "cooling_down", 24 * 3_600);
    let servers = [server];
    assert_eq!(race(&servers, "fan"), BURST);
    [server] = servers;
    for _ in 0..3 {
        server.kill();
        server = settings.start();
        let client = Client::new(&server.base);
        refused(&follow(&client, "fan", "one-more"), "rate_limited", 3_600);
        refused(&follow(&client, "flipper", "star"), "cooling_down", 24 * 3_600);
        let read = client.ask_with(&[("entourage-actor", "fan")], "GET", "/api/v1/users/fan", "").expect("an answer");
        assert!(read.header("ratelimit").starts_with(r#""follows";r=0;t="#), "{read:?}");
        // What is there needs no quota, and others have their own.
        let there = client.get("/api/v1/users/fan/following?limit=1");
        let there = there.body["data"][0]["id"].as_str().expect("somebody is followed").to_owned();
        assert_eq!(follow(&client, "fan", &there).status, 200);
    }
    assert_eq!(follow(&Client::new(&server.base), "somebody-else", "star").status, 201);
    server.signal("-TERM");
    assert_eq!(server.wait().0, Some(0));
    let server = settings.start();
    refused(&follow(&Client::new(&server.base), "fan", "one-more"), "rate_limited", 3_600);
}

#[test]
fn a_killed_server_forgets_no_quota() {
    let folder = Folder::new();
    let data = folder.join("data");
    used_up_stays_used_up(&Settings { data: &data, store: None, others: &[("FLIPS_PER_DAY", "2")] });
    check(&["verify", "--data", text(&data)], 0, &["clean: "], &[]);
}

#[test]
fn a_killed_server_on_postgresql_forgets_no_quota() {
    let (database, folder) = (Database::new(), Folder::new());
    let data = folder.join("data");
    used_up_stays_used_up(&Settings { data: &data, store: Some(&database.url), others: &[("FLIPS_PER_DAY", "2")] });
}

#[test]
fn a_challenge_is_still_asked_for_after_a_restart() {
    let folder = Folder::new();
    let [data, key] = ["data", "challenge"].map(|name| folder.join(name));
    std::fs::write(&key, "a secret of thirty-two bytes or more").unwrap();
    let others = [("CHALLENGE_AFTER", "3"), ("CHALLENGE_KEY_FILE", text(&key))];
    let settings = Settings { data: &data, store: None, others: &others };
    let mut server = settings.start();
    for target in 0..3 {
        assert_eq!(follow(&Client::new(&server.base), "fan", &format!("t{target}")).status, 201);
    }
    for _ in 0..2 {
        let heard = follow(&Client::new(&server.base), "fan", "t3");
        assert_eq!((heard.status, &heard.body["code"]), (403, &"challenge_required".into()), "{heard:?}");
        server.kill();
        server = settings.start();
    }
}

#[test]
fn two_servers_on_one_postgresql_give_one_quota() {
    let (database, folder) = (Database::new(), Folder::new());
    let data = [folder.join("one"), folder.join("other")];
    let servers = data.each_ref().map(|data| Settings { data, store: Some(&database.url), others: &[] }.start());
    assert_eq!(race(&servers, "fan"), BURST, "2 x {RACING} follows");
    for server in &servers {
        let client = Client::new(&server.base);
        refused(&follow(&client, "fan", "one-more"), "rate_limited", 3_600);
        assert_eq!(client.get("/api/v1/users/fan/following?limit=1").body["total"], BURST);
    }
}
