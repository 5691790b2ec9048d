//! Live feeds: every post once and in order, across connections, and `resync` where that cannot be.

use std::{sync::Arc, time::Duration};

use entourage_model::{Key, Operation, Overwrite, UserId, UserPatch, Write};
use entourage_service::{FeedRules, Limits, Rules};

use super::{
    credentials::Credentials,
    faulty::{Fault, Faulty},
    feed::{post, users, with_rules},
    server::{Server, memory_store},
    streaming::{Message, Stream},
};

const STREAM: &str = "/users/me/feed/stream";

/// The next message, which is a post.
fn next_post(stream: &mut Stream) -> (String, Message) {
    let message = stream.next().unwrap();
    assert_eq!(message.name, "post", "{message:?}");
    assert!(!message.id.is_empty());
    (message.data["id"].as_str().unwrap().to_owned(), message)
}

fn started() -> Server {
    let server = with_rules(FeedRules::default());
    users(&server, &["me", "a", "b", "stranger"]);
    for author in ["a", "b"] {
        server.check(&format!("@me POST /users/{author}/follow"), "201");
    }
    server
}

#[test]
fn posts_arrive_as_they_are_written() {
    let server = started();
    let before = post(&server, "a");
    let mut stream = server.stream(&format!("@me {STREAM}"));
    assert!(stream.headers.contains("content-type: text/event-stream"), "{}", stream.headers);
    server.check("@me PUT /users/me/mutes/b", "201");
    let ids = ["a", "stranger", "me", "b", "a"].map(|author| post(&server, author));
    for expected in [&ids[0], &ids[2], &ids[4]] {
        let (id, message) = next_post(&mut stream);
        assert_eq!(&id, expected, "{before} was before, strangers and muted ones are not shown");
        let feed = server.check("@me GET /users/me/feed?limit=200", "200");
        let rows = feed.body["data"].as_array().unwrap();
        assert_eq!(rows.iter().find(|row| row["id"] == id.as_str()), Some(&message.data), "the same as in the feed");
    }
    // Line breaks between its parts are no end of an event.
    server.check("@a POST /posts {\"body\": {\n\n  \"x\": [1,\n 2]\n}}", "201");
    assert_eq!(next_post(&mut stream).1.data["body"]["x"], serde_json::json!([1, 2]));
    server.check("@me DELETE /users/a/follow", "200");
    post(&server, "a");
    assert!(stream.is_silent(Duration::from_millis(900)));
    server.check("DELETE /users/me", "202");
    server.check(r#"@b POST /posts {"body": {}}"#, "201");
    assert!(stream.is_silent(Duration::from_millis(900)) || stream.next().is_none());
}

#[test]
fn a_reader_that_connects_again_gets_what_was_missed_once_and_in_order() {
    let server = started();
    let (agent, address) = (server.agent.clone(), server.address);
    let mut stream = server.stream(&format!("@me {STREAM}"));
    const POSTS: usize = 300;
    let writer = std::thread::spawn(move || {
        let url = format!("http://{address}/api/v1/posts");
        let write = |number: usize| {
            let actor = if number.is_multiple_of(2) { "a" } else { "b" };
            let request = agent.post(&url).header("entourage-actor", actor).content_type("application/json");
            let mut made = request.send(r#"{"body": {}}"#).unwrap();
            let made: serde_json::Value = serde_json::from_str(&made.body_mut().read_to_string().unwrap()).unwrap();
            made["id"].as_str().unwrap().to_owned()
        };
        (0..POSTS).map(write).collect::<Vec<_>>()
    });
    let (mut seen, mut last) = (Vec::new(), String::new());
    while seen.len() < POSTS {
        for _ in 0..(17.min(POSTS - seen.len())) {
            let (id, message) = next_post(&mut stream);
            seen.push(id);
            last = message.id;
        }
        drop(stream);
        // A while in which nobody listens.
        std::thread::sleep(Duration::from_millis(7));
        stream = server.stream(&format!("@me ^last-event-id={last} {STREAM}"));
        assert_eq!(stream.status, 200, "{}", stream.problem);
    }
    assert_eq!(seen, writer.join().unwrap());
    assert!(stream.is_silent(Duration::from_millis(700)), "nothing is told twice");
}

#[test]
fn what_is_too_long_ago_is_a_resync() {
    let inner = memory_store(1);
    let store = Faulty::over(Arc::clone(&inner));
    let rules = Rules { limits: Limits::NONE, ..Rules::default() };
    let server = Server::with(Arc::clone(&store) as _, rules);
    users(&server, &["me", "a"]);
    server.check("@me POST /users/a/follow", "201");
    let mut stream = server.stream(&format!("@me {STREAM}"));
    let first = post(&server, "a");
    let (id, message) = next_post(&mut stream);
    assert_eq!(id, first);
    let old = format!("@me ^last-event-id={} {STREAM}", message.id);
    let resynced = |server: &Server| {
        let mut again = server.stream(&old);
        let told = again.next().unwrap();
        assert_eq!((told.name.as_str(), told.id.is_empty()), ("resync", false), "{told:?}");
        // It goes on from there, by this connection and by the next.
        let id = post(server, "a");
        assert_eq!(next_post(&mut again).0, id);
        let mut third = server.stream(&format!("@me ^last-event-id={} {STREAM}", told.id));
        assert_eq!(next_post(&mut third).0, id);
    };
    let between = [(); 3].map(|()| post(&server, "a"));
    let mut again = server.stream(&old);
    for id in &between {
        assert_eq!(&next_post(&mut again).0, id, "not yet");
        assert_eq!(&next_post(&mut stream).0, id);
    }
    // Between the first post and the last of them.
    store.hooks.set(Fault::Expired(6));
    resynced(&server);
    store.hooks.set(Fault::None);
    let put = |number: i64| {
        let (patch, overwrite) = (UserPatch::default(), Overwrite::Keep);
        Write::from(Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite })
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(inner.commit_all((0..10_001).map(put).collect()));
    resynced(&server);
}

#[test]
fn a_feed_is_streamed_to_whoever_has_a_ticket_or_a_token() {
    let credentials = Credentials::new();
    let server = Server::behind(credentials.front(), memory_store(1), Rules::default());
    let service = format!("!{}", credentials.service_key);
    for user in ["me", "a"] {
        server.check(&format!("{service} PUT /users/{user}"), "201");
    }
    server.check(&format!("{service} PUT /users/me/following/a"), "201");
    let me = format!("!{}", credentials.token("me"));
    let ticket = server.check(&format!("{me} POST /tickets"), "201").body["ticket"].as_str().unwrap().to_owned();
    let mut streams = [
        server.stream(&format!("{STREAM}?ticket={ticket}")),
        server.stream(&format!("{me} {STREAM}")),
        server.stream(&format!("{service} {STREAM}")),
    ];
    for (request, status) in [
        (format!("{STREAM}?ticket={ticket}"), 401),
        (STREAM.to_owned(), 401),
        (format!("!{} {STREAM}", credentials.token("a")), 403),
        (format!("{service} /users/nobody/feed/stream"), 404),
        (format!("{me} ^last-event-id=x {STREAM}"), 400),
        (format!("{me} {STREAM}?after=x"), 400),
    ] {
        assert_eq!(server.stream(&request).status, status, "{request}");
    }
    let made = server.check(&format!(r#"{service} @a POST /posts {{"body": {{}}}}"#), "201");
    for stream in &mut streams {
        assert_eq!(next_post(stream).0, made.body["id"].as_str().unwrap());
    }
    let standing = server.check(&format!("!{} GET /admin/feed", credentials.admin_key), "200");
    assert!(standing.body["streams"].as_u64() >= Some(3), "{}", standing.text);
}

/// What it was told before is in order; then it is told to read anew, or was given up on.
#[test]
fn a_reader_that_does_not_read_is_told_to_read_anew() {
    let server = started();
    let mut stream = server.stream(&format!("@me {STREAM}"));
    let body = "x".repeat(10_000);
    let ids: Vec<String> = (0..2_000)
        .map(|_| {
            let made = server.check(&format!(r#"@a POST /posts {{"body": {{"x":"{body}"}}}}"#), "201");
            made.body["id"].as_str().unwrap().to_owned()
        })
        .collect();
    let (mut told, mut resynced) = (Vec::new(), false);
    while let Some(message) = stream.next() {
        resynced = message.name == "resync";
        if resynced {
            break;
        }
        told.push(message.data["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(told, ids[..told.len()]);
    assert!(told.len() < ids.len(), "the system's buffers took everything");
    if resynced {
        let next = post(&server, "b");
        assert_eq!(next_post(&mut stream).0, next);
    }
}
