//! Streams of events and of notifications.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use entourage_embedded as embedded;
use entourage_model::{Key, Operation, Overwrite, UserId, UserPatch, Write};
use entourage_service::Rules;
use entourage_store::{Store, SystemClock, disk::RealDisk};

use super::{
    credentials::Credentials,
    faulty::{Fault, Faulty},
    server::{Server, memory_store},
    streaming::Stream,
};

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("entourage-streams-{:016x}", rand::random::<u64>()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn open(&self) -> Arc<dyn Store> {
        let disk = Arc::new(RealDisk::new(&self.0).unwrap());
        let options =
            embedded::Options { segment_bytes: 1 << 20, frame_bytes: 1 << 18, ..embedded::Options::default() };
        Arc::new(embedded::Store::open(disk, "the test's folder", options, Arc::new(SystemClock)).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Users that each `PUT` of a writer made.
fn write_until(server: &Server, name: &'static str, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let (agent, address, stop) = (server.agent.clone(), server.address, Arc::clone(stop));
    std::thread::spawn(move || {
        for number in 0.. {
            if stop.load(Ordering::SeqCst) {
                return;
            }
            let url = format!("http://{address}/api/v1/users/{name}{number}");
            assert_eq!(agent.put(url).send_empty().unwrap().status().as_u16(), 201);
        }
    })
}

#[test]
fn a_reader_that_connects_again_misses_nothing_and_gets_nothing_twice() {
    let folder = Folder::new();
    let mut server = Server::with(folder.open(), Rules::default());
    server.check("PUT /users/first", "201");
    let reply = server.check("GET /events", "200");
    let mut last = reply.body["next_cursor"].as_str().unwrap().to_owned();
    let mut seen: Vec<(String, String)> = Vec::new();
    for round in 0..3 {
        let stop = Arc::new(AtomicBool::new(false));
        let names = [["a", "b", "c"], ["d", "e", "f"], ["g", "h", "i"]][round];
        let writers = names.map(|name| write_until(&server, name, &stop));
        for connection in 0..5 {
            // By the header, as browsers do it, and by the query.
            let mut stream = match connection % 2 {
                0 => server.stream(&format!("^last-event-id={last} /events/stream?after=ignored")),
                _ => server.stream(&format!("/events/stream?after={last}")),
            };
            assert_eq!(stream.status, 200, "{}", stream.problem);
            for _ in 0..40 {
                let message = stream.next().unwrap();
                assert_eq!((&message.data["cursor"], message.name.as_str()), (&message.id.clone().into(), ""));
                last.clone_from(&message.id);
                seen.push((message.id, message.data["user"]["id"].as_str().unwrap().to_owned()));
            }
        }
        stop.store(true, Ordering::SeqCst);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        // What is left is read to the end by a reader that stays, and it hears of the next one at once.
        let mut stream = server.stream(&format!("^last-event-id={last} /events/stream"));
        server.check(&format!("PUT /users/end{round}"), "201");
        loop {
            let message = stream.next().unwrap();
            last.clone_from(&message.id);
            let id = message.data["user"]["id"].as_str().unwrap().to_owned();
            let is_end = id.starts_with("end");
            seen.push((message.id, id));
            if is_end {
                break;
            }
        }
        // Another server on the same folder goes on where this one was.
        server.ask_to_stop();
        assert_eq!(stream.next(), None);
        server.wait();
        server = Server::with(folder.open(), Rules::default());
    }
    let mut expected = Vec::new();
    let mut after = reply.body["next_cursor"].as_str().unwrap().to_owned();
    loop {
        let page = server.check(&format!("GET /events?limit=200&after={after}"), "200");
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        expected.extend(
            page.body["data"].as_array().unwrap().iter().map(|row| (text(&row["cursor"]), text(&row["user"]["id"]))),
        );
        after = text(&page.body["next_cursor"]);
        if page.body["has_more"] == false {
            break;
        }
    }
    assert!(expected.len() > 600, "{}", expected.len());
    assert_eq!(seen, expected);
}

#[test]
fn without_a_cursor_a_stream_begins_with_what_comes_next() {
    let server = Server::start();
    server.check("PUT /users/a", "201");
    let mut stream = server.stream("/events/stream");
    assert!(stream.headers.contains("content-type: text/event-stream"), "{}", stream.headers);
    assert!(stream.headers.contains("cache-control: no-cache") && stream.headers.contains("x-accel-buffering: no"));
    server.check("PUT /users/b", "201");
    server.check("POST /users/b/notifications/seen", "200");
    server.check("@b POST /users/a/follow", "201");
    let found: Vec<_> = (0..2).map(|_| stream.next().unwrap().data["type"].clone()).collect();
    assert_eq!(found, ["user.created", "follow.created"], "what is the store's own is not shown");
    for (request, status, code) in [
        ("/events/stream?after=x", 400, "invalid_cursor"),
        ("^last-event-id=x /events/stream", 400, "invalid_cursor"),
        ("/events/stream?from=x", 400, "invalid_request"),
        ("@a /events/stream", 403, "forbidden"),
        ("@a /users/b/notifications/stream", 403, "forbidden"),
        ("/users/nobody/notifications/stream", 404, "user_not_found"),
        ("^last-event-id=x /users/b/notifications/stream", 400, "invalid_cursor"),
    ] {
        let refused = server.stream(request);
        assert_eq!((refused.status, &refused.problem["code"]), (status, &code.into()), "{request}");
    }
}

#[test]
fn events_that_are_gone_are_said_to_be() {
    let store = Faulty::over(memory_store(1));
    let server = Server::with(Arc::clone(&store) as _, Rules::default());
    for number in 0..9 {
        server.check(&format!("PUT /users/{number}"), "201");
    }
    let first = server.check("GET /events?limit=1", "200").body["next_cursor"].as_str().unwrap().to_owned();
    store.hooks.set(Fault::Expired(5));
    let refused = server.stream(&format!("/events/stream?after={first}"));
    assert_eq!((refused.status, &refused.problem["code"]), (410, &"events_expired".into()));
    let resume = refused.problem["resume_cursor"].as_str().unwrap();
    let mut stream = server.stream(&format!("/events/stream?after={resume}"));
    assert_eq!(stream.next().unwrap().data["user"]["id"], "5");
}

#[test]
fn a_reader_that_does_not_read_is_dropped_and_holds_no_memory() {
    let store = memory_store(1);
    let server = Server::with(Arc::clone(&store), Rules::default());
    server.check("PUT /users/a", "201");
    let mut stream = server.stream("/events/stream");
    let put = |number: i64| {
        let avatar_url = Some(Some(format!("https://{}", "a".repeat(2_000)).into()));
        let (patch, overwrite) = (UserPatch { avatar_url, ..UserPatch::default() }, Overwrite::Keep);
        Write::from(Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite })
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.commit_all((0..20_000).map(put).collect()));
    // More than the system's buffers take; then the server gives up.
    std::thread::sleep(Duration::from_secs(14));
    let mut heard = 0;
    while stream.next().is_some() {
        heard += 1;
    }
    assert!(heard > 0 && heard < 20_000, "{heard}");
}

#[test]
fn notifications_are_streamed_to_whoever_has_a_ticket_or_a_token() {
    let credentials = Credentials::new();
    let server = Server::behind(credentials.front(), memory_store(1), Rules::default());
    let service = format!("!{}", credentials.service_key);
    for user in ["alice", "bob", "carol"] {
        server.check(&format!("{service} PUT /users/{user}"), "201");
    }
    let alice = format!("!{}", credentials.token("alice"));
    let ticket = server.check(&format!("{alice} POST /tickets"), "201").body["ticket"].as_str().unwrap().to_owned();
    let stream_path = "/users/alice/notifications/stream";
    let mut by_ticket = server.stream(&format!("{stream_path}?ticket={ticket}"));
    let mut by_token = server.stream(&format!("{alice} {stream_path}"));
    assert_eq!(server.stream(&format!("{stream_path}?ticket={ticket}")).status, 401, "a ticket is good once");
    assert_eq!(server.stream(stream_path).status, 401);
    assert_eq!(server.stream(&format!("!{} {stream_path}", credentials.token("bob"))).status, 403);
    server.check(&format!(r#"{service} PUT /users/carol/following/alice {{"quiet": true}}"#), "201");
    server.check(&format!("{service} PUT /users/bob/following/alice"), "201");
    for stream in [&mut by_ticket, &mut by_token] {
        let unseen = stream.next().unwrap();
        assert_eq!((unseen.name.as_str(), &unseen.data["unseen"], unseen.id.as_str()), ("unseen", &0.into(), ""));
        let told = stream.next().unwrap();
        assert_eq!((told.name.as_str(), &told.data["id"]), ("notification", &told.id.clone().into()));
        assert_eq!((&told.data["type"], &told.data["count"]), (&"follow".into(), &1.into()));
        assert_eq!(told.data["actors"][0]["id"], "bob");
        assert_eq!(stream.next().unwrap().data["unseen"], 1);
    }
    server.check(&format!("{alice} POST /users/alice/notifications/seen"), r#"200 {"changed": true}"#);
    assert_eq!(by_ticket.next().unwrap().data["unseen"], 0);
    assert!(by_token.next().is_some() && by_token.is_silent(Duration::from_millis(700)));
    // A key acts for whom it names, or for nobody.
    let mut by_service = server.stream(&format!("{service} {stream_path}"));
    assert_eq!(by_service.next().unwrap().data["unseen"], 0);
}

/// What opened it is no longer good.
fn ends_within_a_second(mut stream: Stream, what: &str) {
    let began = Instant::now();
    while stream.next().is_some() {
        assert!(began.elapsed() < Duration::from_secs(10), "{what}: it goes on");
    }
    println!("{what}: the stream ended after {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(4), "{what}: {:?}", began.elapsed());
}

#[test]
fn a_stream_ends_with_the_credential_that_opened_it() {
    let credentials = Credentials::new();
    let server = Server::behind(credentials.front(), memory_store(1), Rules::default());
    let (web, boss) = (format!("!{}", credentials.service_key), format!("!{}", credentials.admin_key));
    server.check(&format!("{web} PUT /users/alice"), "201");
    let soon = format!("!{}", credentials.token_with("exp", (credentials.now() + 30).into()));
    let late = format!("!{}", credentials.token_with("exp", (credentials.now() + 3_000).into()));
    let ticket = |bearer: &str| {
        let reply = server.check(&format!("{bearer} POST /tickets"), "201");
        format!("/users/alice/feed/stream?ticket={}", reply.body["ticket"].as_str().unwrap())
    };
    let open = |request: String| {
        let stream = server.stream(&request);
        assert_eq!(stream.status, 200, "{request}");
        stream
    };
    let expiring = [open(format!("{soon} /users/alice/notifications/stream")), open(ticket(&soon))];
    let mut lasting = open(format!("{late} /users/alice/notifications/stream"));
    assert_eq!(lasting.next().unwrap().data["unseen"], 0);
    credentials.clock.advance(31_000);
    expiring.into_iter().for_each(|stream| ends_within_a_second(stream, "a token expired"));
    assert!(lasting.is_silent(Duration::from_millis(700)), "others go on");
    let revoked = [open(format!("{web} /events/stream")), open(ticket(&format!("^entourage-actor=alice {web}")))];
    let unused = ticket(&format!("^entourage-actor=alice {web}"));
    let mut kept = open(format!("{boss} /events/stream"));
    let path = credentials.path("service-keys");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("web ")).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    revoked.into_iter().for_each(|stream| ends_within_a_second(stream, "a key was revoked"));
    assert_eq!(server.stream(&unused).status, 401, "a ticket is no better than the key it was given to");
    assert!(lasting.is_silent(Duration::from_millis(300)) && kept.is_silent(Duration::from_millis(300)));
}
