//! The client's verbs against a real server, and the commands for whoever runs one: what they print, how they end.

use std::process::Command;

use crate::server_kit::{Folder, Serving, check, command, run, text};
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?} {output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
}

#[test]
fn verbs_ask_the_server_and_end_with_their_code() {
    let folder = Folder::new();
    let server = Serving::start(&folder.join("data"));
    let base = server.base.as_str();
    let to = |arguments: &[&'static str]| [arguments, &["--server"]].concat();
    let ok = |arguments: &[&'static str], stdout: &[&str]| {
        let all: Vec<&str> = to(arguments).into_iter().chain([base]).collect();
        check(&all, 0, stdout, &[]);
        json(&[&all[..], &["--json"]].concat())
    };
    let fails = |arguments: &[&'static str], code: i32, said: &str| {
        let all: Vec<&str> = to(arguments).into_iter().chain([base]).collect();
        check(&all, code, &[], &[said]);
    };
    ok(&["user", "put", "alice", "--name", "Alice"], &["created", "true"]);
    ok(&["user", "put", "bob", "--private", "false"], &["bob"]);
    ok(&["user", "put", "a/ü?.."], &["a/ü?.."]);
    assert_eq!(ok(&["user", "get", "a/ü?.."], &["counts.followers"])["id"], "a/ü?..");
    let followed = ok(&["follow", "alice", "bob"], &["following", "true"]);
    assert_eq!((&followed["state"], &followed["quiet"]), (&"active".into(), &false.into()));
    ok(&["follow", "a/ü?..", "bob", "--quiet"], &["true"]);
    let page = ok(&["followers", "bob", "--all", "--limit", "1"], &["ID", "alice", "Alice", "2 in all"]);
    assert_eq!((page["data"].as_array().unwrap().len(), &page["total"]), (2, &2.into()));
    assert!(ok(&["followers", "bob", "--limit", "1"], &["more with --cursor"])["next_cursor"].is_string());
    assert_eq!(ok(&["followers", "bob", "--actor", "bob"], &["1 in all"])["total"], 1);
    ok(&["following", "alice"], &["bob"]);
    let checked = ok(&["check", "alice", "bob", "carol"], &["alice follows bob\nalice does not follow carol"]);
    assert_eq!(checked["results"]["bob"], true);
    let relation = ok(&["relation", "alice", "bob", "carol"], &["following", "mutual"]);
    assert_eq!((&relation["data"][0]["following"], &relation["data"][1]["unknown"]), (&true.into(), &true.into()));
    ok(&["unfollow", "alice", "bob"], &["changed"]);
    ok(&["block", "bob", "alice"], &["blocking"]);
    fails(&["follow", "alice", "bob"], 1, "blocked");
    ok(&["unblock", "bob", "alice"], &["changed"]);
    let events = ok(&["events", "--limit", "3"], &["user.created alice", "next with --after"]);
    assert_eq!(events["data"].as_array().unwrap().len(), 3);
    let stats = ok(&["stats"], &["ready", "since_start.requests"]);
    assert_eq!(stats["ready"], true);
    assert!(stats["since_start"]["commits"].as_u64() > Some(5), "{stats}");
    fails(&["user", "get", "nobody"], 3, "user_not_found");
    fails(&["followers", "nobody"], 3, "user_not_found");
    fails(&["follow", "nobody", "bob"], 3, "actor_not_found");
    fails(&["followers", "bob", "--limit", "999"], 2, "limit");
    fails(&["user", "put", "x", "--actor", "alice"], 1, "forbidden");
    check(&["user", "get", "alice", "--server", "http://127.0.0.1:1"], 4, &[], &["no server answers", "--server"]);
    check(&["user", "get"], 2, &[], &["ID"]);
}

#[test]
fn doctor_says_what_is_wrong_and_what_to_do() {
    let folder = Folder::new();
    let data = folder.join("data");
    let look = |extra: &[&str]| {
        let output = run(&[&["doctor", "--json", "--data", text(&data)], extra].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error} {output:?}"));
        let code = output.status.code();
        (code, report)
    };
    let verdict = |report: &Value, check: &str| -> String {
        let checks = report["checks"].as_array().unwrap();
        let found = checks.iter().find(|found| found["check"] == check);
        found.unwrap_or_else(|| panic!("no {check} in {report}"))["verdict"].as_str().unwrap().to_owned()
    };
    let (code, report) = look(&["--http", "127.0.0.1:0"]);
    assert_eq!((code, report["healthy"].as_bool()), (Some(0), Some(true)), "{report}");
    assert!(!data.exists(), "looking makes nothing");
    let server = Serving::start(&data);
    let address = server.base.trim_start_matches("http://").to_owned();
    let (code, report) = look(&["--http", &address]);
    assert_eq!(code, Some(0), "{report}");
    assert!(report.to_string().contains("answers at") && report.to_string().contains("open in a running server"));
    let (code, report) = look(&["--http", "127.0.0.1:0"]);
    assert_eq!((code, verdict(&report, "store").as_str()), (Some(1), "fail"), "{report}");
    drop(server);
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, report) = look(&["--http", &busy.local_addr().unwrap().to_string()]);
    assert_eq!((code, verdict(&report, "address").as_str()), (Some(1), "fail"));
    assert_eq!((verdict(&report, "store"), verdict(&report, "data folder")), ("ok".into(), "ok".into()));
    let (code, report) = look(&["--http", "127.0.0.1:0", "--resp", &busy.local_addr().unwrap().to_string()]);
    assert_eq!((code, verdict(&report, "RESP address").as_str()), (Some(1), "fail"));
    std::fs::write(data.join("identity"), "damaged").unwrap();
    let (code, report) = look(&["--http", "127.0.0.1:0"]);
    assert_eq!((code, verdict(&report, "store").as_str()), (Some(1), "fail"), "{report}");
    check(&["doctor", "--http", "nowhere"], 1, &["FAIL", "http.listen"], &["1 of 1 checks failed"]);
    let left: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("doctor")), "{left:?}");
}

#[test]
fn completions_are_scripts_that_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["import", "doctor", "followers", "dry-run"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    let folder = Folder::new();
    let file = folder.join("entourage.bash");
    std::fs::write(&file, run(&["completions", "bash"]).stdout).unwrap();
    assert!(Command::new("bash").args(["-n", text(&file)]).status().unwrap().success());
    check(&["completions", "cobol"], 2, &[], &["bash"]);
}

#[test]
fn tokens_are_signed_with_the_secret_of_the_file() {
    let folder = Folder::new();
    let (key, short) = (folder.join("secret"), folder.join("short"));
    std::fs::write(&key, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::write(&short, "too short").unwrap();
    let flags = ["--algorithm", "HS256", "--issuer", "me", "--audience", "you", "--key-file"];
    let made =
        json(&[&["token", "--json", "--sub", "alice", "--admin", "--ttl", "5m"], &flags[..], &[text(&key)]].concat());
    let token = made["token"].as_str().unwrap();
    let mut rules = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::HS256);
    rules.set_issuer(&["me"]);
    rules.set_audience(&["you"]);
    let secret = jsonwebtoken::DecodingKey::from_secret(b"0123456789abcdef0123456789abcdef");
    let claims = jsonwebtoken::decode::<Value>(token, &secret, &rules).unwrap().claims;
    assert_eq!((&claims["sub"], &claims["scope"]), (&"alice".into(), &"admin".into()));
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 300);
    let plain = run(&[&["token", "--sub", "bob"], &flags[..], &[text(&key)]].concat());
    assert_eq!(String::from_utf8(plain.stdout).unwrap().trim().split('.').count(), 3);
    check(&[&["token", "--sub", "bob"], &flags[..], &[text(&short)]].concat(), 2, &[], &["at least 32 bytes"]);
    check(&["token", "--sub", "bob"], 2, &[], &["auth.jwt.algorithm"]);
    check(&["token", "--sub", "", "--algorithm", "HS256"], 2, &[], &["id"]);
    check(&["token", "--sub", "bob", "--ttl", "soon"], 2, &[], &["such as 1h"]);
}

#[test]
fn keys_come_from_a_file_or_the_environment_only() {
    let folder = Folder::new();
    let server = Serving::start(&folder.join("data"));
    let key = folder.join("key");
    std::fs::write(&key, "some-key\n").unwrap();
    let asked = ["stats", "--json", "--server", &server.base];
    assert_eq!(json(&[&asked[..], &["--key-file", text(&key)]].concat())["ready"], true);
    assert!(command(&asked).env("ENTOURAGE_KEY", "some-key").output().unwrap().status.success());
    check(&[&asked[..], &["--key", "some-key"]].concat(), 2, &[], &["--key"]);
    let gone = folder.join("gone");
    check(&[&asked[..], &["--key-file", text(&gone)]].concat(), 1, &[], &["gone"]);
}
