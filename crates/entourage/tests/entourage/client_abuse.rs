//! `abuse` against a real server: what is listed, shown and decided, and how it ends.

use std::time::{Duration, Instant};

use crate::server_kit::{Folder, Serving, check, command, run, text};
use serde_json::Value;

fn json(base: &str, arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--server", base, "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?} {output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
}

#[test]
fn cases_are_listed_shown_and_decided() {
    let folder = Folder::new();
    let server = Serving::start(&folder.join("data"));
    let base = server.base.as_str();
    json(base, &["user", "put", "fan"]);
    assert_eq!(json(base, &["abuse", "list"])["data"], Value::Array(Vec::new()));
    for number in 0..10 {
        let (id, name) = (format!("like{number}"), format!("Acme Support {number}"));
        json(base, &["user", "put", &id, "--name", &name]);
        json(base, &["follow", "fan", &id]);
    }
    let began = Instant::now();
    let case = loop {
        let page = json(base, &["abuse", "list", "--state", "open", "--kind", "look_alikes"]);
        if let Some(id) = page["data"][0]["id"].as_str() {
            break id.to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(30), "no case: {page}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let at = ["--server", base];
    let words = |words: &[&'static str]| -> Vec<String> { words.iter().map(ToString::to_string).collect() };
    let ask = |arguments: Vec<String>, code: i32, stdout: &[&str], stderr: &[&str]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(at).collect();
        check(&arguments, code, stdout, stderr);
    };
    ask(words(&["abuse", "list"]), 0, &["CASE", "KIND", "look_alikes", "open", "fan"], &[]);
    ask(vec!["abuse".into(), "show".into(), case.clone()], 0, &["figures.similar_names", "like9", "FOLLOWER"], &[]);
    assert!(json(base, &["abuse", "show", &case])["evidence"].as_array().is_some_and(|evidence| evidence.len() >= 8));
    ask(vec!["abuse".into(), "dismiss".into(), case.clone()], 0, &["dismissed"], &[]);
    assert_eq!(json(base, &["abuse", "confirm", &case])["case"]["state"], "confirmed");
    assert_eq!(json(base, &["abuse", "list", "--state", "confirmed"])["data"][0]["id"], Value::from(case));
    ask(words(&["abuse", "show", "7"]), 3, &[], &["not_found"]);
    ask(words(&["abuse", "list", "--state", "done"]), 2, &[], &["state"]);
    ask(words(&["abuse", "dismiss"]), 2, &[], &["ID"]);
    ask(words(&["events"]), 0, &["abuse.opened", "abuse.dismissed"], &[]);
}

/// A surge of fresh accounts on one user, and the follows after it in quarantine.
#[test]
fn parked_follows_are_listed_accepted_and_dropped() {
    let folder = Folder::new();
    let data = folder.join("data");
    let mut serve = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
    for (name, value) in [("QUARANTINE", "true"), ("SURGE_FOLLOWERS", "5"), ("LOOK_ALIKES", "0")] {
        serve.env(format!("ENTOURAGE_ABUSE__{name}"), value);
    }
    let server = Serving::start_as(serve.env("ENTOURAGE_USERS__AUTO_CREATE", "true"));
    let base = server.base.as_str();
    let patience = Duration::from_secs(30);
    // One more might be parked already.
    for follower in 0..5 {
        json(base, &["follow", &format!("fresh{follower}"), "star"]);
    }
    let began = Instant::now();
    while json(base, &["abuse", "list", "--kind", "surge"])["data"][0].is_null() {
        assert!(began.elapsed() < patience, "no surge after five follows");
    }
    let park = |names: [&str; 2]| {
        for name in names {
            assert_eq!(json(base, &["follow", name, "star"])["state"], "parked");
        }
        let listed = json(base, &["abuse", "parked", "star"]);
        assert_eq!((&listed["total"], &listed["data"][0]["id"]), (&2.into(), &names[1].into()), "{listed}");
    };
    park(["late1", "late2"]);
    check(&["abuse", "parked", "star", "--limit", "1", "--server", base], 0, &["late2", "2 parked", "--cursor"], &[]);
    let all = json(base, &["abuse", "parked", "star", "--limit", "1", "--all"]);
    assert_eq!(all["data"].as_array().map(Vec::len), Some(2), "{all}");
    let ends = |verb: &str, kind: &str| {
        assert_eq!(json(base, &["abuse", verb, "star"])["kind"], kind);
        let began = Instant::now();
        while json(base, &["abuse", "parked", "star"])["total"] != 0 {
            assert!(began.elapsed() < patience, "{verb} does not come to its end");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    ends("accept-parked", "accept_parked");
    assert_eq!(json(base, &["check", "late1", "star"])["results"]["star"], true);
    park(["late3", "late4"]);
    ends("drop-parked", "drop_parked");
    assert_eq!(json(base, &["check", "late3", "star"])["results"]["star"], false);
    check(&["abuse", "parked", "nobody", "--server", base], 3, &[], &["user_not_found"]);
    check(&["abuse", "drop-parked", "--server", base], 2, &[], &["USER"]);
}
