//! `import` as a person runs it: every format and packing, and an exact account of every line.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::import_kit::{exported, import, numbers, piped, report, verify};
use crate::server_kit::{Client, Folder, Serving, check, command, run, text};

const EDGES: &str = "follower,target,created_at,quiet\n\
                     1,2,2024-05-01T10:00:00.500Z,false\n\
                     1,alice,1714557600,true\n\
                     alice,\"b,o\"\"b\",1714557600123,\n";
const STORED: [&str; 3] = [
    "1,2,2024-05-01T10:00:00.500Z,false",
    "1,alice,2024-05-01T10:00:00.000Z,true",
    "alice,\"b,o\"\"b\",2024-05-01T10:00:00.123Z,false",
];

#[test]
fn every_format_and_packing_says_the_same() {
    let folder = Folder::new();
    let ndjson = r#"{"follower": 1, "target": 2, "created_at": "2024-05-01T10:00:00.500Z"}
{"follower": "1", "target": "alice", "created_at": 1714557600, "quiet": true}

{"follower": "alice", "target": "b,o\"b", "created_at": 1714557600123, "quiet": false}
"#;
    let zstd = ["zstd", "-q", "-c"];
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("edges.csv", EDGES.into()),
        ("windows.csv", format!("\u{feff}{}", EDGES.replace('\n', "\r\n")).into()),
        ("semicolons", EDGES.replace("b,o", "b§o").replace(',', ";").replace('§', ",").into()),
        ("tabs", EDGES.replace("b,o", "b§o").replace(',', "\t").replace('§', ",").into()),
        ("edges.ndjson", ndjson.into()),
        ("edges.gz", piped(&["gzip", "-c"], EDGES.as_bytes())),
        ("edges.zst", piped(&zstd, EDGES.as_bytes())),
        ("ndjson.gz", piped(&["gzip", "-c"], ndjson.as_bytes())),
        ("ndjson.zst", piped(&zstd, ndjson.as_bytes())),
        // Two packed files one after the other are one file.
        ("two.gz", [&EDGES[..70], &EDGES[70..]].map(|part| piped(&["gzip", "-c"], part.as_bytes())).concat()),
        ("two.zst", [&EDGES[..70], &EDGES[70..]].map(|part| piped(&zstd, part.as_bytes())).concat()),
    ];
    for (name, bytes) in cases {
        let (file, data) = (folder.join(name), folder.join(&format!("{name}.data")));
        fs::write(&file, bytes).unwrap();
        let report = import(&data, &[text(&file)], 0);
        let counts = numbers(&report, ["lines", "edges_created", "edges_unchanged", "users_added", "rejected"]);
        assert_eq!(counts, [3, 3, 0, 4, 0], "{name}");
        assert_eq!(exported(&data, "--edges"), STORED, "{name}");
        let report = import(&data, &[text(&file)], 0);
        let counts = numbers(&report, ["lines", "edges_created", "edges_unchanged", "users_added", "rejected"]);
        assert_eq!(counts, [3, 0, 3, 0, 0], "{name} again");
        assert_eq!(report["resumed"], false);
        assert!(!data.join("imports").exists(), "{name} leaves notes behind");
    }
}

#[test]
fn edge_lists_and_standard_input_work() {
    let folder = Folder::new();
    let (file, data, other) = (folder.join("snap.txt"), folder.join("data"), folder.join("other"));
    let list = "# Directed graph\n# FromNodeId\tToNodeId\n0\t1\n0  2\n 1 2 \n2 0 1082040961\n";
    fs::write(&file, list).unwrap();
    let first = import(&data, &[text(&file)], 0);
    assert_eq!(numbers(&first, ["lines", "edges_created", "users_added"]), [4, 4, 3]);
    let edges = exported(&data, "--edges");
    assert_eq!(edges.len(), 4);
    assert!(edges.contains(&"2,0,2004-04-15T14:56:01.000Z,false".to_owned()), "{edges:?}");
    let input = piped(
        &[env!("CARGO_BIN_EXE_entourage"), "import", "-", "--json", "--data", text(&other)],
        &piped(&["gzip", "-c"], list.as_bytes()),
    );
    let from_input: serde_json::Value = serde_json::from_slice(&input).unwrap();
    assert_eq!(from_input["total"], first["total"]);
}

#[test]
fn the_end_of_an_import_is_an_event() {
    let folder = Folder::new();
    let (file, data) = (folder.join("edges.csv"), folder.join("data"));
    fs::write(&file, format!("{EDGES}7,7,,\n")).unwrap();
    let first = import(&data, &[text(&file)], 0);
    piped(&[env!("CARGO_BIN_EXE_entourage"), "import", "-", "--data", text(&data)], EDGES.as_bytes());
    let server = Serving::start(&data);
    let events = Client::new(&server.base).get("/api/v1/events?limit=200").body;
    let events = events["data"].as_array().unwrap();
    let ends: Vec<_> = events.iter().filter(|event| event["type"] == "import.finished").collect();
    assert_eq!(ends.len(), 2, "{events:?}");
    let mut total = first["total"].clone();
    total.as_object_mut().unwrap().remove("rejected_by_reason");
    assert_eq!((&ends[0]["import"], &ends[0]["import"]["rejected"]), (&total, &1.into()));
    assert_eq!((&ends[1]["import"]["lines"], &ends[1]["import"]["edges_unchanged"]), (&3.into(), &3.into()));
    let is_before = |name: &str| events.iter().position(|event| event["type"] == name).unwrap();
    assert!(is_before("follow.created") < is_before("import.finished"));
}

#[test]
fn users_are_created_updated_and_kept() {
    let folder = Folder::new();
    let (file, data) = (folder.join("users.csv"), folder.join("data"));
    let header = "id,name,avatar_url,private,hide_lists,registered_at\n";
    fs::write(
        &file,
        format!("{header}7,Seven,,true,false,2020-01-01T00:00:00.000Z\nalice,\"A, \"\"B\"\"\",http://a,0,1,\n"),
    )
    .unwrap();
    let counts = ["users_created", "users_updated", "users_unchanged", "rejected"];
    assert_eq!(numbers(&import(&data, &[text(&file)], 0), counts), [2, 0, 0, 0]);
    assert_eq!(numbers(&import(&data, &[text(&file)], 0), counts), [0, 0, 2, 0]);
    fs::write(&file, "id,name\n7,Sieben\nalice,\"A, \"\"B\"\"\"\n8,\n8,Eight\n").unwrap();
    assert_eq!(numbers(&import(&data, &[text(&file)], 0), counts), [1, 2, 1, 0]);
    let users = exported(&data, "--users");
    assert_eq!(users[0], "7,Sieben,,true,false,2020-01-01T00:00:00.000Z");
    assert!(users[1].starts_with("8,Eight,,false,false,"));
    assert!(users[2].starts_with("alice,\"A, \"\"B\"\"\",http://a,false,true,"));
    let mixed = folder.join("mixed.ndjson");
    fs::write(
        &mixed,
        "{\"id\":\"zed\",\"name\":\"Zed\"}\n{\"follower\":\"zed\",\"target\":7}\n{\"id\":7,\"name\":null}\n",
    )
    .unwrap();
    let report = import(&data, &[text(&mixed)], 0);
    assert_eq!(numbers(&report, ["users_created", "users_updated", "edges_created", "users_added"]), [1, 1, 1, 0]);
}

/// A file with every kind of broken line, and what becomes of each.
#[test]
fn broken_lines_are_rejected_one_by_one() {
    let folder = Folder::new();
    let (file, data, rejects) = (folder.join("broken.csv"), folder.join("data"), folder.join("rejects.csv"));
    let long = "x".repeat(70_000);
    let id_too_long = "y".repeat(129);
    let mut lines: Vec<(Vec<u8>, Option<&str>)> = vec![
        (b"1,2".to_vec(), None),
        (b"1".to_vec(), Some("missing_columns")),
        (b"1,1".to_vec(), Some("self_follow")),
        (b"same,same".to_vec(), Some("self_follow")),
        (b"caf\xe9,2".to_vec(), Some("not_utf8")),
        (b",2".to_vec(), Some("invalid_id")),
        (format!("1,{id_too_long}").into_bytes(), Some("invalid_id")),
        (b"1,2,yesterday".to_vec(), Some("invalid_time")),
        (b"1,3,,perhaps".to_vec(), Some("invalid_flag")),
        (b"1,\"3".to_vec(), Some("broken_quotes")),
        (long.clone().into_bytes(), Some("line_too_long")),
        (b"\x00\x01\x02\xff\xfe".to_vec(), Some("not_utf8")),
        (b"1,2".to_vec(), None),
        (b"3,\"2\"".to_vec(), None),
    ];
    for index in 0..20_000u32 {
        // One in five is garbage that looks like nothing.
        let garbage = index % 5 == 0;
        let line =
            if garbage { format!("\u{fffd}\u{fffd}{index}") } else { format!("{},{}", index % 300, 1_000 + index) };
        lines.push((line.into_bytes(), garbage.then_some("missing_columns")));
    }
    let mut bytes = b"follower,target,created_at,quiet\n".to_vec();
    for (line, _) in &lines {
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    fs::write(&file, &bytes).unwrap();
    let report = import(&data, &[text(&file), "--rejects", text(&rejects)], 0);
    let wanted: Vec<(usize, &str, &[u8])> = lines
        .iter()
        .enumerate()
        .filter_map(|(index, (line, reason))| Some((index + 2, (*reason)?, line.as_slice())))
        .collect();
    let good = (lines.len() - wanted.len()) as u64;
    let counts = numbers(&report, ["lines", "edges_created", "edges_unchanged", "rejected"]);
    assert_eq!(counts, [lines.len() as u64, good - 1, 1, wanted.len() as u64]);
    assert_eq!(report["total"]["rejected_by_reason"]["missing_columns"], 4_001);
    assert_eq!(exported(&data, "--edges").len() as u64, good - 1);
    assert_eq!(fs::metadata(&rejects).unwrap().permissions().mode() & 0o777, 0o600, "it has other people's data");
    let listed = fs::read(&rejects).unwrap();
    let listed = String::from_utf8(listed).unwrap();
    let mut listed = listed.lines();
    assert_eq!(listed.next(), Some("file,line,reason,text"));
    for (line, reason, content) in wanted {
        let found = listed.next().unwrap_or_else(|| panic!("line {line} is not listed"));
        let content = String::from_utf8_lossy(content);
        let start: String = content.chars().take(40).collect();
        assert!(found.contains(&format!(",{line},{reason},")), "{found}");
        assert!(found.replace("\"\"", "\"").contains(&start), "{found} for {start}");
        assert!(found.len() < 1_200);
    }
    assert_eq!(listed.next(), None);
    assert_eq!(verify(&data)["clean"], true);
}

#[test]
fn files_that_make_no_sense_fail() {
    let folder = Folder::new();
    let data = folder.join("data");
    let cases: [(&str, &[u8], &str); 5] = [
        ("all-bad.csv", b"follower,target\n1\n2\n", "every line was rejected"),
        ("no-header.csv", b"1,2\n3,4\n", "for CSV without a header say --edges, --users or --suggestions"),
        ("utf16.csv", b"\xff\xfef\0o\0l\0l\0o\0w\0e\0r\0,\0t\0\n\0", "first line is neither"),
        ("cut.gz", &piped(&["gzip", "-c"], &vec![b'7'; 100_000])[..40], "cannot be read"),
        ("folder", b"", "is a folder"),
    ];
    for (name, bytes, said) in cases {
        let file = folder.join(name);
        if name == "folder" {
            fs::create_dir(&file).unwrap()
        } else {
            fs::write(&file, bytes).unwrap()
        }
        let output = run(&["import", "--data", text(&data), text(&file)]);
        let error = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert_eq!(output.status.code(), Some(1), "{name} {output:?}");
        assert!(error.contains(&said.to_lowercase()), "{name} {error}");
    }
    check(&["import", "--data", text(&data), text(&folder.join("gone.csv"))], 1, &[], &["gone.csv", "No such file"]);
    check(&["import", "--data", text(&data)], 2, &[], &["FILE"]);
    let bare = folder.join("no-header.csv");
    assert_eq!(numbers(&import(&data, &["--edges", text(&bare)], 0), ["lines", "edges_created"]), [2, 2]);
    let empty = folder.join("empty.csv");
    fs::write(&empty, "").unwrap();
    assert_eq!(numbers(&import(&data, &[text(&empty)], 0), ["lines", "rejected"]), [0, 0]);
}

/// Data sets as they are published: understood, or refused with advice that works.
#[test]
fn files_of_other_people_are_understood_or_refused_with_the_right_advice() {
    let folder = Folder::new();
    let data = folder.join("data");
    let cases: [(&str, &str, &[&str], u64); 9] = [
        ("konect", "% asym positive\n%% x\n1 2 1 1289241911\n2 3 1\n", &[], 2),
        ("matrix", "%%MatrixMarket matrix coordinate pattern general\n9 9 2\n11 12\n12 13\n", &[], 2),
        ("fractions", "source,target,rating,time\n21,22,-3,1289241911.72836\n", &[], 1),
        ("musae", "id_1,id_2\n31,32\n", &[], 1),
        ("pairs", "from,to\n41,42\n", &[], 1),
        ("gephi", "Id,Source,Target,Type,Weight\n0,51,52,Directed,7\n", &[], 1),
        ("otc", "61,62,4,1289241911.72836\n", &["--columns", "follower,target,_,created_at"], 1),
        ("named", "user,friend\n71,72\n", &["--columns", "follower,target", "--header"], 1),
        ("undirected", "81 82\n", &["--undirected"], 2),
    ];
    for (name, content, flags, edges) in cases {
        let file = folder.join(name);
        fs::write(&file, content).unwrap();
        let report = import(&data, &[&[text(&file)], flags].concat(), 0);
        assert_eq!(numbers(&report, ["edges_created", "rejected"]), [edges, 0], "{name} {report}");
    }
    let edges = exported(&data, "--edges");
    assert!(edges.contains(&"1,2,2010-11-08T18:45:11.000Z,false".to_owned()), "{edges:?}");
    assert!(edges.contains(&"61,62,2010-11-08T18:45:11.728Z,false".to_owned()), "{edges:?}");
    assert!(
        edges.iter().all(|line| !line.contains(",2000-") && line.starts_with(|first: char| first.is_ascii_digit()))
    );
    let refused: [(&str, &str, &[&str], &str); 3] = [
        ("weights", "91 92 5\n92 93 6\n", &[], "--columns follower,target,_"),
        ("header", "user,friend\n91,92\n", &["--edges"], "--columns follower,target --header"),
        ("words", "user friend\n91 92\n", &[], "--columns follower,target --header"),
    ];
    for (name, content, flags, advice) in refused {
        let file = folder.join(name);
        fs::write(&file, content).unwrap();
        let output = run(&[&["import", "--data", text(&data), text(&file)], flags].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name} {output:?}");
        assert!(error.contains(advice) && !error.contains("the same command goes on"), "{name} {error}");
    }
    assert_eq!(exported(&data, "--edges"), edges);
}

/// A line that once broke the reader off: everything behind it is imported all the same.
#[test]
fn the_smallest_number_is_one_reject_and_no_end() {
    let folder = Folder::new();
    let (file, data) = (folder.join("edges.csv"), folder.join("data"));
    let mut lines = String::from("follower,target,created_at\n");
    for index in 0..19_995 {
        let time =
            if index == 12_000 { "-9223372036854775808".to_owned() } else { (1_600_000_000 + index).to_string() };
        lines.push_str(&format!("{},{},{time}\n", index % 500, 1_000 + index));
    }
    fs::write(&file, lines).unwrap();
    let report = import(&data, &[text(&file)], 0);
    assert_eq!(numbers(&report, ["lines", "edges_created", "rejected"]), [19_995, 19_994, 1]);
}

#[test]
fn a_dry_run_changes_nothing() {
    let folder = Folder::new();
    let (file, data) = (folder.join("edges.csv"), folder.join("data"));
    fs::write(&file, format!("{EDGES}5,5\n6\n")).unwrap();
    let report = import(&data, &["--dry-run", text(&file)], 0);
    assert_eq!(numbers(&report, ["lines", "edges_created", "rejected"]), [5, 3, 2]);
    assert_eq!(report["dry_run"], true);
    assert!(!data.exists());
    check(
        &["import", "--dry-run", "--data", text(&data), text(&file)],
        0,
        &["3 are well-formed", "nothing was changed"],
        &["--rejects"],
    );
}

#[test]
fn unknown_users_caps_and_blocks_refuse_edges() {
    let folder = Folder::new();
    let (users, edges, data) = (folder.join("users.csv"), folder.join("edges.csv"), folder.join("data"));
    fs::write(&users, "id\n1\n2\n3\n4\nalice\n").unwrap();
    fs::write(&edges, "follower,target\n1,2\n1,9\nnobody,1\n1,alice\n1,3\n1,2\n1,4\n").unwrap();
    import(&data, &[text(&users)], 0);
    let server = Serving::start(&data);
    let client = Client::new(&server.base);
    assert_eq!(client.ask("PUT", "/api/v1/users/alice/blocks/1", "").unwrap().status, 201);
    check(
        &["import", "--data", text(&data), text(&edges)],
        4,
        &[],
        &["a server is running", "in use by another process"],
    );
    drop(server);
    let mut limited =
        command(&["import", "--json", "--limits", "--create-users", "false", "--data", text(&data), text(&edges)]);
    let report = report(&limited.env("ENTOURAGE_LIMITS__FOLLOWING_MAX", "2").output().unwrap(), 0);
    let counts = numbers(&report, ["lines", "edges_created", "edges_unchanged", "users_added", "rejected"]);
    assert_eq!(counts, [7, 2, 1, 0, 4], "{report}");
    let reasons = &report["total"]["rejected_by_reason"];
    let wanted = serde_json::json!({ "user_not_found": 1, "actor_not_found": 1, "blocked": 1, "following_limit": 1 });
    assert_eq!(*reasons, wanted);
    assert_eq!(verify(&data)["users"], 5);
}
