//! An import killed again and again in the middle: it ends as if nothing had happened, with the same account.

use std::{fmt::Write, fs, path::Path, process::Stdio, time::Duration};

use crate::import_kit::{exported, import, numbers, piped, report, verify};
use crate::postgres_kit::Database;
use crate::server_kit::{Folder, command, run, text};
use serde_json::{Value, json};

const KINDS: [&str; 6] = ["--edges", "--requests", "--blocks", "--mutes", "--members", "--posts"];

/// Edges with duplicates, users and everything else among them, garbage: one in ten lines each.
fn lines(count: u32) -> String {
    let mut lines = String::new();
    // What others need comes before them, as in every export: lines that are read again find what came later, too.
    for number in 0..101 {
        let group = format!("group {}", number % 50);
        for line in [
            json!({ "type": "user", "id": format!("p{number}"), "private": true }),
            json!({ "follower": "u1", "target": number % 50, "created_at": 1_500_000_000 }),
            json!({ "type": "group", "owner": "u1", "name": group, "created_at": 1_500_000_000 }),
        ] {
            writeln!(lines, "{line}").unwrap();
        }
    }
    for index in 0..count {
        match index % 10 {
            3 => writeln!(lines, "{{\"id\": \"u{}\", \"name\": \"name {index}\"}}", index % 997).unwrap(),
            5 => writeln!(lines, "garbage {index}").unwrap(),
            9 => writeln!(lines, "{}", of_another_kind(index / 10)).unwrap(),
            7 => {
                let (target, time) = (index % 50, 1_500_000_000 + index);
                writeln!(lines, "{{\"follower\": \"u1\", \"target\": {target}, \"created_at\": {time}}}").unwrap();
            }
            _ => {
                let (follower, target) = (index % 1_999, index.wrapping_mul(2_654_435_761) % 1_777);
                writeln!(
                    lines,
                    "{{\"follower\": \"u{follower}\", \"target\": \"u{target}\", \"created_at\": {}}}",
                    1_600_000_000 + index
                )
                .unwrap();
            }
        }
    }
    lines
}

/// Requests, blocks, mutes, groups with members and posts, each with a time; some twice, some refused.
fn of_another_kind(index: u32) -> String {
    let (one, other, millis) = (index % 101, index % 97, 1_500_000_000_000u64 + u64::from(index % 9_000));
    let (one, other) = (format!("p{one}"), format!("u{other}"));
    let line = match index % 7 {
        0 => json!({ "type": "user", "id": one, "private": true }),
        1 => json!({ "type": "request", "requester": other, "target": one, "created_at": millis }),
        2 => json!({ "type": "block", "blocker": one, "blocked": other, "created_at": millis }),
        3 => json!({ "type": "mute", "muter": one, "muted": other, "created_at": millis }),
        4 => json!({ "type": "group", "owner": "u1", "name": format!("group {}", index % 50), "created_at": millis }),
        5 => {
            json!({ "type": "group_member", "owner": "u1", "group": format!("group {}", index % 50), "member": index % 50 })
        }
        _ => json!({ "type": "post", "author": other, "created_at": millis, "body": { "n": index % 2_000 } }),
    };
    line.to_string()
}

#[test]
fn a_killed_import_ends_as_one_that_was_not() {
    let folder = Folder::new();
    let (file, packed) = (folder.join("lines.ndjson"), folder.join("lines.ndjson.gz"));
    let content = lines(300_000);
    fs::write(&file, &content).unwrap();
    fs::write(&packed, piped(&["gzip", "-1", "-c"], content.as_bytes())).unwrap();
    let (whole, whole_rejects) = (folder.join("whole"), folder.join("whole.rejects"));
    let wanted = import(&whole, &[text(&file), "--rejects", text(&whole_rejects)], 0);
    assert_eq!(numbers(&wanted, ["lines"]), [content.lines().count() as u64]);
    assert_eq!(wanted["total"]["rejected_by_reason"]["invalid_json"], 30_000);
    for (name, file) in [("plain", &file), ("packed", &packed)] {
        let (data, rejects) = (folder.join(name), folder.join(&format!("{name}.rejects")));
        let account = killed_in_the_middle(&data, file, &rejects, None);
        assert_eq!(account["total"], wanted["total"], "{name}");
        assert_eq!(account["resumed"], true, "{name}");
        for kind in KINDS {
            let found = comparable(&data, kind);
            assert!(!found.is_empty(), "{kind}");
            assert_eq!(found, comparable(&whole, kind), "{name} {kind}");
        }
        assert_eq!(names(&data), names(&whole), "{name}");
        assert_eq!(verify(&data)["clean"], true, "{name}");
        assert_eq!(listed(&rejects), listed(&whole_rejects), "{name}");
    }
}

/// Into PostgreSQL chunks of a file are committed side by side: what was done is not always a beginning of the file.
#[test]
fn a_killed_import_into_postgresql_ends_as_one_that_was_not() {
    let (folder, whole, other) = (Folder::new(), Database::new(), Database::new());
    let [file, notes, rejects, whole_rejects] =
        ["lines.ndjson", "notes", "rejects", "whole.rejects"].map(|name| folder.join(name));
    fs::write(&file, lines(40_000)).unwrap();
    let arguments = ["import", "--json", "--data", text(&notes), text(&file), "--rejects", text(&whole_rejects)];
    let wanted = report(&whole.run(&arguments), 0);
    let account = killed_in_the_middle(&notes, &file, &rejects, Some(&other.url));
    assert_eq!(account["total"], wanted["total"]);
    assert_eq!(account["resumed"], true);
    let export = |database: &Database, kind: &str| {
        let output = database.run(&["export", "--data", text(&notes), kind]);
        assert!(output.status.success(), "{output:?}");
        let lines = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<String> = lines.lines().skip(1).map(|line| without_post_id(line, kind)).collect();
        lines.sort();
        lines
    };
    for kind in KINDS {
        let found = export(&other, kind);
        assert!(!found.is_empty(), "{kind}");
        assert_eq!(found, export(&whole, kind), "{kind}");
    }
    let verified = report(&other.run(&["verify", "--json", "--data", text(&notes)]), 0);
    assert_eq!(verified["clean"], true);
    assert_eq!(listed(&rejects), listed(&whole_rejects));
}

/// Kills the same command after ever longer lives, until one run comes to its end; the account of that one.
fn killed_in_the_middle(data: &Path, file: &Path, rejects: &Path, url: Option<&str>) -> Value {
    let arguments = ["import", "--json", "--data", text(data), text(file), "--rejects", text(rejects)];
    let mut middle_kills = 0;
    for round in 0..60u32 {
        let mut command = command(&arguments);
        command.envs(url.map(|url| ("ENTOURAGE_STORE__URL", url)));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let life = Duration::from_millis(if middle_kills < 4 { 150 + 80 * u64::from(round) } else { 60_000 });
        let began = std::time::Instant::now();
        let ended = loop {
            match child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if began.elapsed() > life => break None,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        match ended {
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                middle_kills += u32::from(data.join("imports").exists());
            }
            Some(status) => {
                assert!(status.success());
                assert!(middle_kills > 0, "it was never killed in the middle");
                let output = child.wait_with_output().unwrap();
                return serde_json::from_slice(&output.stdout).unwrap();
            }
        }
    }
    panic!("it does not come to an end");
}

fn comparable(data: &Path, kind: &str) -> Vec<String> {
    exported(data, kind).iter().map(|line| without_post_id(line, kind)).collect()
}

/// Every store gives ids to posts in its own way.
fn without_post_id(line: &str, kind: &str) -> String {
    match line.splitn(3, ',').collect::<Vec<_>>()[..] {
        [author, _, rest] if kind == "--posts" => format!("{author},{rest}"),
        _ => line.to_owned(),
    }
}

fn names(data: &Path) -> Vec<String> {
    let users = exported(data, "--users");
    users.iter().map(|line| line.rsplit_once(',').unwrap().0.to_owned()).collect()
}

/// Without the column of the file, which differs.
fn listed(rejects: &Path) -> Vec<String> {
    let text = fs::read_to_string(rejects).unwrap();
    text.lines().map(|line| line.split_once(',').unwrap().1.to_owned()).collect()
}

#[test]
fn another_file_or_other_flags_are_another_import() {
    let folder = Folder::new();
    let (one, two, data) = (folder.join("one.csv"), folder.join("two.csv"), folder.join("data"));
    fs::write(&one, "follower,target\n1,2\n").unwrap();
    fs::write(&two, "follower,target\n1,2\n1,3\n").unwrap();
    let report = import(&data, &[text(&one), text(&two)], 0);
    assert_eq!(numbers(&report, ["lines", "edges_created", "edges_unchanged"]), [3, 2, 1]);
    let files = report["files"].as_array().unwrap();
    assert_eq!((files.len(), &files[1]["edges_created"]), (2, &1.into()));
    assert_eq!(run(&["import", "--data", text(&data), text(&two)]).status.code(), Some(0));
}
