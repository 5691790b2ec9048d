//! `post`, `feed` and `watch` against a real server: what they print, how they end, and that watching goes on over a
//! restart.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use crate::server_kit::{Client, Folder, Serving, check, command, run, text};
use serde_json::Value;

struct Asking {
    base: String,
}

impl Asking {
    fn all<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        arguments.iter().copied().chain(["--server", &self.base]).collect()
    }

    /// Both forms of an answer; JSON is asked for first.
    fn ok(&self, arguments: &[&str], stdout: &[&str]) -> Value {
        let json = self.json(arguments);
        check(&self.all(arguments), 0, stdout, &[]);
        json
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = run(&[&self.all(arguments)[..], &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?} {output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
    }

    fn fails(&self, arguments: &[&str], code: i32, said: &str) {
        check(&self.all(arguments), code, &[], &[said]);
    }

    fn people(&self) {
        for id in ["alice", "bob", "rebuild"] {
            self.json(&["user", "put", id]);
        }
        self.json(&["follow", "alice", "bob"]);
    }
}

#[test]
fn posts_are_written_and_feeds_are_read() {
    let folder = Folder::new();
    let server = Serving::start(&folder.join("data"));
    let client = Asking { base: server.base.clone() };
    client.people();
    let made = client.json(&["post", "bob", "good morning"]);
    assert_eq!((&made["author"], &made["body"]["text"]), (&"bob".into(), &"good morning".into()));
    let kept = client.json(&["post", "bob", r#"{ "n" :1, "a": [ ] }"#]);
    assert_eq!(kept["body"]["n"], 1);
    // Kept as it was written.
    let page = Client::new(&server.base).text("/api/v1/users/alice/feed");
    assert!(page.contains(r#""body":{ "n" :1, "a": [ ] }"#), "{page}");
    let from_stdin = |words: &str| {
        let mut child = command(&client.all(&["post", "bob", "-", "--json"]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["body"].clone()
    };
    assert_eq!(from_stdin("two\nlines \u{1b}[31m\n"), serde_json::json!({ "text": "two\nlines \u{1b}[31m" }));
    assert_eq!(from_stdin("{\"x\": 2}\n"), serde_json::json!({ "x": 2 }));
    check(&client.all(&["post", "bob", "last"]), 0, &["author", "bob", "body.text", "last"], &[]);
    // Others wrote it: it stays on its line and changes no colours.
    let feed =
        client.ok(&["feed", "alice"], &["CREATED_AT", "AUTHOR", "POST", "ID", "good morning", "two lines  [31m"]);
    assert_eq!((feed["data"].as_array().unwrap().len(), &feed["partial"]), (5, &false.into()));
    assert!(client.ok(&["feed", "alice", "--limit", "2"], &["more with --cursor"])["next_cursor"].is_string());
    let cursor = client.json(&["feed", "alice", "--limit", "4"])["next_cursor"].as_str().unwrap().to_owned();
    let rest = client.json(&["feed", "alice", "--cursor", &cursor]);
    assert_eq!(
        (rest["data"][0]["body"]["text"].as_str(), rest["data"].as_array().unwrap().len()),
        (Some("good morning"), 1)
    );
    assert_eq!(client.json(&["feed", "alice", "--all", "--limit", "1"])["data"], feed["data"]);
    // A user may be called as a verb is.
    assert_eq!(client.ok(&["feed", "show", "rebuild"], &["POST"])["data"], serde_json::json!([]));
    client.ok(&["feed", "rebuild", "alice"], &["rebuilt", "true"]);
    client.ok(&["feed", "clear", "alice"], &["forgotten", "true"]);
    let post = made["id"].as_str().unwrap();
    client.json(&["feed", "alice"]);
    let why = client.ok(&["feed", "explain", "alice", post], &["because", "pushed", "shown"]);
    assert_eq!((&why["author"], &why["shown"]), (&"bob".into(), &true.into()));
    assert_eq!(client.ok(&["feed", "explain", "rebuild", post], &["not_followed"])["shown"], false);
    client.fails(&["feed", "explain", "alice", "7"], 3, "post_not_found");
    client.fails(&["feed", "nobody"], 3, "user_not_found");
    client.fails(&["feed", "rebuild", "nobody"], 3, "user_not_found");
    client.fails(&["feed", "alice", "--actor", "bob"], 1, "forbidden");
    client.fails(&["feed", "alice", "--limit", "201"], 2, "limit");
    client.fails(&["feed"], 2, "whose feed");
    client.fails(&["feed", "rebuild"], 2, "USER");
    client.fails(&["post", "nobody", "hello"], 3, "actor_not_found");
    client.fails(&["post", "bob", "hello", "--actor", "alice"], 2, "--actor");
    client.fails(&["post", "bob"], 2, "BODY");
    client.fails(&["watch", "nobody"], 3, "user_not_found");
    check(&["watch", "alice", "--server", "http://127.0.0.1:1"], 4, &[], &["no server answers"]);
}

/// `entourage watch`, running.
struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
}

/// The same command with the default action of SIGINT, which whatever runs in the background of a script inherits as
/// ignored. `watch` leaves it so, as others do: a background job is not ended by an interrupt of its script.
fn interruptible(command: &Command) -> Command {
    let mut reset = Command::new("env");
    reset.arg("--default-signal=INT").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => reset.env(name, value),
            None => reset.env_remove(name),
        };
    }
    reset
}

impl Watching {
    /// Returns when the server has the stream.
    fn start(base: &str, arguments: &[&str]) -> Self {
        let all = [&["watch", "alice", "--server", base], arguments].concat();
        let mut child = interruptible(&command(&all)).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let (client, began) = (Client::new(base), Instant::now());
        while client.get("/api/v1/admin/feed").body["streams"] == 0 {
            assert!(began.elapsed() < Duration::from_secs(20), "nobody watches");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    fn post(&mut self) -> String {
        let line = self.line();
        let post: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        post["body"]["text"].as_str().unwrap().to_owned()
    }

    fn ends(mut self) {
        assert_eq!(self.line(), "");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn restart(mut server: Serving, data: &Path) -> Serving {
    let address = server.base.trim_start_matches("http://").to_owned();
    server.kill();
    Serving::start_as(&mut command(&["serve", "--http", &address, "--data", text(data)]))
}

#[test]
fn a_post_has_the_name_that_was_given_to_it() {
    let folder = Folder::new();
    let server = Serving::start(&folder.join("data"));
    let client = Asking { base: server.base.clone() };
    client.people();
    let first = client.json(&["post", "bob", "one", "--external-id", "blog/1"]);
    assert_eq!(first["external_id"], "blog/1");
    // The same name again is the same post, as it is.
    let again = client.json(&["post", "bob", "two", "--external-id", "blog/1"]);
    assert_eq!((&again["id"], &again["body"]), (&first["id"], &first["body"]));
    assert_eq!(client.json(&["feed", "alice"])["data"][0]["external_id"], "blog/1");
    let found = Client::new(&server.base).get("/api/v1/users/bob/posts?external_id=blog/1").body;
    assert_eq!((&found["data"][0]["id"], &found["total"]), (&first["id"], &1.into()));
    let events = Client::new(&server.base).get("/api/v1/events?limit=200").body;
    let written = events["data"].as_array().unwrap().iter().find(|event| event["type"] == "post.created").unwrap();
    assert_eq!((&written["post_id"], &written["external_id"]), (&first["id"], &"blog/1".into()));
    client.fails(&["post", "bob", "three", "--external-id", ""], 2, "external");
}

#[test]
fn watching_shows_every_post_once_over_restarts() {
    let folder = Folder::new();
    let data = folder.join("data");
    let server = Serving::start(&data);
    let client = Asking { base: server.base.clone() };
    client.people();
    client.json(&["post", "bob", "before"]);
    let mut first = Watching::start(&server.base, &["--count", "1"]);
    client.json(&["post", "rebuild", "not followed"]);
    client.json(&["post", "bob", "one"]);
    let line = first.line();
    assert!(line.ends_with(" bob: one\n"), "{line}");
    first.ends();
    let began = Instant::now();
    while Client::new(&server.base).get("/api/v1/admin/feed").body["streams"] != 0 {
        // Who went away is noticed when something is sent.
        client.json(&["post", "bob", "is anybody there"]);
        assert!(began.elapsed() < Duration::from_secs(20), "a stream does not end");
    }
    // Killed before the stream has said anything.
    let mut watching = Watching::start(&server.base, &["--json", "--count", "4"]);
    let server = restart(server, &data);
    client.json(&["post", "bob", "two"]);
    assert_eq!(watching.post(), "two");
    client.json(&["post", "bob", "three"]);
    assert_eq!(watching.post(), "three");
    // And after it has.
    let _server = restart(server, &data);
    client.json(&["post", "bob", "four"]);
    client.json(&["post", "alice", "five"]);
    assert_eq!((watching.post(), watching.post()), ("four".to_owned(), "five".to_owned()));
    watching.ends();
}

/// Ends of lines between the tokens of a body are ends of lines in the stream as well.
#[test]
fn a_post_breaks_nobodys_stream_or_feed() {
    let folder = Folder::new();
    let server = Serving::start(&folder.join("data"));
    let client = Asking { base: server.base.clone() };
    client.people();
    let mut watching = Watching::start(&server.base, &["--json", "--count", "5"]);
    let http = Client::new(&server.base);
    let post = |body: &str| {
        let body = format!(r#"{{"body":{body}}}"#);
        http.ask_with(&[("entourage-actor", "bob")], "POST", "/api/v1/posts", &body).unwrap()
    };
    for (number, end) in ["\r", "\n", "\r\n", "\r\r"].into_iter().enumerate() {
        assert_eq!(post(&format!(r#"{{{end}"text"{end}:{end}"{number}"{end}}}"#)).status, 201);
    }
    let deep = |depth: usize| format!(r#"{{"text":"deep","a":{}{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1));
    for depth in [33, 126, 5_000] {
        let refused = post(&deep(depth));
        assert_eq!((refused.status, refused.code()), (400, "invalid_request"), "{}", refused.body);
        assert_eq!(refused.body["errors"][0]["pointer"], "/body", "{}", refused.body);
    }
    assert_eq!(post(&deep(32)).status, 201);
    let shown: Vec<String> = (0..5).map(|_| watching.post()).collect();
    assert_eq!(shown, ["0", "1", "2", "3", "deep"]);
    watching.ends();
    assert_eq!(client.json(&["feed", "alice"])["data"].as_array().unwrap().len(), 5);
    assert_eq!(client.json(&["events", "--limit", "200"])["data"].as_array().unwrap().last().unwrap()["author"], "bob");
}

#[test]
fn an_interrupt_ends_the_watching() {
    let folder = Folder::new();
    let server = Serving::start(&folder.join("data"));
    Asking { base: server.base.clone() }.people();
    let mut watching = Watching::start(&server.base, &[]);
    let id = watching.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let began = Instant::now();
    while watching.child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(10), "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}
