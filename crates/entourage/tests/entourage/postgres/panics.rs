//! Every thread of a server is made to panic in turn: the server says so and ends, or goes on where only one request was
//! concerned. It never hangs, and nothing that was answered is lost. `ENTOURAGE_SOAK=1` tries each at many moments.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::import_kit::report;
use crate::postgres_kit::Database;
use crate::resp_kit::Wire;
use crate::server_kit::{Client, Folder, Serving, command, run, text};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// The server says what happened and ends with an error, for whoever watches it to start it again.
    Ends,
    /// One request is answered with an error, or its connection ends; nobody else notices.
    GoesOn,
}

const PLACES: &[(&str, Then)] = &[
    ("tail", Then::Ends),
    ("audit", Then::Ends),
    ("healer", Then::Ends),
    ("consumer", Then::Ends),
    ("fan-out", Then::Ends),
    ("sweep", Then::Ends),
    ("jobs", Then::Ends),
    ("sequencer:500", Then::Ends),
    ("commit:500", Then::Ends),
    ("checkpoint", Then::Ends),
    ("segments:2", Then::Ends),
    ("reload", Then::Ends),
    ("http:2:once", Then::GoesOn),
    ("resp:3:once", Then::GoesOn),
    ("log", Then::GoesOn),
    ("audit-writer", Then::GoesOn),
    ("leaderboard", Then::GoesOn),
    ("window", Then::GoesOn),
];

/// What keeps rows of PostgreSQL in memory. Reads ask PostgreSQL where a row or a snapshot could not be made.
const PLACES_OF_THE_CACHE: &[(&str, Then)] = &[
    ("cache-tail:20", Then::Ends),
    ("scheduler", Then::Ends),
    ("cache-snapshot", Then::GoesOn),
    ("cache-fill", Then::GoesOn),
];

/// Generous: the longest of them waits for an audit to begin.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store to be served: a folder, and where that holds only notes, a database.
#[derive(Clone, Copy)]
struct Place<'a> {
    data: &'a Path,
    url: Option<&'a str>,
}

impl Place<'_> {
    fn command(self, arguments: &[&str]) -> Command {
        let mut command = command(&[arguments, &["--data", text(self.data)]].concat());
        command.envs(self.url.map(|url| ("ENTOURAGE_STORE__URL", url)));
        command
    }
}

fn serve(store: Place<'_>, place: Option<&str>) -> Serving {
    let mut serve = store.command(&["serve", "--http", "127.0.0.1:0"]);
    let level = if place == Some("log") { "info" } else { "error" };
    for (name, value) in [
        ("USERS__AUTO_CREATE", "true"),
        ("LOGGING__LEVEL", level),
        ("LOG__SEGMENT_BYTES", "1MiB"),
        ("CHECKPOINT__ENTRIES", "1000"),
        ("AUDIT__INTERVAL", "5s"),
    ] {
        serve.env(format!("ENTOURAGE_{name}"), value);
    }
    if let Some(place) = place {
        serve.env("ENTOURAGE_TEST_PANIC", place);
    }
    Serving::start_as(&mut serve)
}

/// Uses everything there is until the server ends, or has had its time; how many follows were answered.
fn use_it(server: &mut Serving, until_it_ends: bool) -> u64 {
    let client = Client::new(&server.base);
    let ask = |actor: &str, method: &str, path: &str, body: &str| {
        client
            .ask_with(&[("entourage-actor", actor)], method, &format!("/api/v1{path}"), body)
            .map(|heard| heard.status)
    };
    let mut stream = TcpStream::connect(server.base.trim_start_matches("http://")).ok();
    if let Some(stream) = &mut stream {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let _ = stream.write_all(b"GET /api/v1/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    ask("reader", "POST", "/users/author/follow", "");
    ask("reader", "GET", "/users/reader/feed", "");
    client.ask("PUT", "/api/v1/users/shy", r#"{"private": true}"#);
    let (mut answered, began) = (0, Instant::now());
    while began.elapsed() < PATIENCE && (until_it_ends || answered < 2_000) {
        ask("author", "POST", "/posts", r#"{"body": {}}"#);
        ask("reader", "POST", "/users/shy/follow", "");
        ask("shy", "POST", "/users/shy/follow-requests:accept-all", "");
        ask("reader", "GET", "/leaderboards/followers", "");
        ask("author", "PUT", "/users/author/blocks/enemy", "");
        ask("author", "DELETE", "/users/author/blocks/enemy", "");
        ask("reader", "GET", "/users/reader/following/hub", "");
        let Some(mut wire) = Wire::try_connect(&server.resp) else { break };
        let mut window = Wire::try_connect(&server.resp);
        if let Some(window) = &mut window {
            let _ = window.try_ask("ZREVRANGE followers:author 0 -1");
        }
        for _ in 0..100 {
            match wire.try_ask(&format!("SADD following:{} hub", answered + 1)) {
                Some(reply) if reply == ":1" => answered += 1,
                _ => break,
            }
        }
        if server.has_ended() {
            break;
        }
        server.signal("-HUP");
    }
    // What was said on the stream does not matter, only that nobody waits for it.
    drop(stream.map(|mut stream| stream.read(&mut [0; 1])));
    answered
}

#[test]
fn whoever_panics_is_noticed_and_nothing_is_lost() {
    let folder = Folder::new();
    for (place, then) in PLACES {
        for place in moments(place) {
            panic_at(Place { data: &folder.join(&place), url: None }, &place, *then);
        }
    }
}

#[test]
fn whoever_panics_in_the_cache_over_postgres_is_noticed_and_nothing_is_lost() {
    let folder = Folder::new();
    for (place, then) in PLACES_OF_THE_CACHE {
        for place in moments(place) {
            let database = Database::new();
            panic_at(Place { data: &folder.join(&place), url: Some(&database.url) }, &place, *then);
        }
    }
}

/// Without the thread that writes audit records admins are refused, and nobody else.
#[test]
fn without_a_writer_of_audit_records_admins_are_refused() {
    let folder = Folder::new();
    let mut server = serve(Place { data: &folder.join("data"), url: None }, Some("audit-writer"));
    let client = Client::new(&server.base);
    for user in ["a", "b"] {
        assert_eq!(client.put_user(user, user).unwrap().status, 201);
    }
    for _ in 0..2 {
        let refused = client.ask("PUT", "/api/v1/admin/users/a/suspend", "").unwrap();
        assert_eq!((refused.status, refused.code()), (503, "unavailable"), "{}", refused.body);
    }
    assert_eq!(client.ask("PUT", "/api/v1/users/a/blocks/b", "").unwrap().status, 201);
    let metrics = client.text("/metrics");
    let unwritten = metrics.lines().find_map(|line| line.strip_prefix("entourage_audit_unwritten_total "));
    assert!(unwritten.is_some_and(|count| count.parse::<u64>().unwrap() >= 3), "{unwritten:?}");
    server.signal("-TERM");
    let (code, said) = server.wait();
    assert!(code == Some(0) && said.contains("asked for at audit-writer"), "{code:?} {said}");
}

fn is_long() -> bool {
    std::env::var_os("ENTOURAGE_SOAK").is_some_and(|value| value == "1")
}

/// The place as it is listed, and in the long run each of many times that it is passed.
fn moments(place: &str) -> Vec<String> {
    let (name, once) = (place.split(':').next().unwrap(), if place.ends_with(":once") { ":once" } else { "" });
    let others = [1, 2, 3, 5, 10, 20, 50, 100, 1_000].map(|times| format!("{name}:{times}{once}"));
    let others = others.into_iter().filter(|other| is_long() && other != place);
    std::iter::once(place.to_owned()).chain(others).collect()
}

fn panic_at(store: Place<'_>, place: &str, then: Then) {
    let began = Instant::now();
    let mut server = serve(store, Some(place));
    let answered = use_it(&mut server, then == Then::Ends);
    // It may be on its way out.
    while then == Then::Ends && !server.has_ended() && began.elapsed() < 2 * PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let is_alive = !server.has_ended();
    if is_alive {
        server.signal("-TERM");
    }
    let (code, said) = server.wait();
    if is_long() && is_alive && !said.contains("asked for at") {
        return println!("{place}: not that often in {:.1?}", began.elapsed());
    }
    assert_eq!(is_alive, then == Then::GoesOn, "{place}: {then:?} after {:?}", began.elapsed());
    match then {
        Then::Ends => assert_eq!(code, Some(1), "{place}: {said}"),
        Then::GoesOn => assert_eq!(code, Some(0), "{place}: {said}"),
    }
    let name = place.split(':').next().unwrap();
    assert!(said.contains(&format!("asked for at {name}")), "{place}: {said}");
    println!("{place}: {then:?}, {answered} follows in {:.1?}", began.elapsed());
    let verified = report(&store.command(&["verify", "--json"]).output().unwrap(), 0);
    assert_eq!(verified["clean"], true, "{place}");
    let server = serve(store, None);
    let total = Client::new(&server.base).get("/api/v1/users/hub").body["counts"]["followers"].as_u64().unwrap_or(0);
    // The last one may have been stored without an answer.
    assert!(total == answered || total == answered + 1, "{place}: {answered} answered, {total} there");
}

#[test]
fn an_import_whose_reader_panics_fails() {
    let folder = Folder::new();
    let (data, file) = (folder.join("data"), folder.join("edges.csv"));
    std::fs::write(&file, "follower,target\n1,2\n").unwrap();
    let output = command(&["import", text(&file), "--data", text(&data)])
        .env("ENTOURAGE_TEST_PANIC", "import")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("broke off"), "{said}");
    assert!(run(&["import", text(&file), "--data", text(&data)]).status.success());
}
