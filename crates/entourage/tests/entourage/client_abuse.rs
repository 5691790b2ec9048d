//! `abuse` against a real server: what is listed, shown and decided, and how it ends.

use std::time::{Duration, Instant};

use crate::server_kit::{Folder, Serving, check, run};
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
