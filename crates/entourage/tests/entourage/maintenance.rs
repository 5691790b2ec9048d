//! `verify`, `backup` and `restore` as a person runs them: what they print, how they end, what they leave alone.

use std::{fs, path::Path};

use crate::server_kit::{Client, Folder, Serving, check, run, text};
use serde_json::Value;

/// Writes a small graph through a server: 6 users who follow and block each other. 6 + 10 + 1 events.
fn fill(client: &Client) {
    for user in 1..=6 {
        assert_eq!(client.put_user(&user.to_string(), "somebody").unwrap().status, 201);
    }
    for user in 2..=6 {
        for target in [1, user % 6 + 1] {
            if target != user {
                client.ask("PUT", &format!("/api/v1/users/{user}/following/{target}"), "").unwrap();
            }
        }
    }
    assert_eq!(client.ask("PUT", "/api/v1/users/1/blocks/6", "").unwrap().status, 201);
}

fn json(arguments: &[&str], code: i32) -> Value {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stopped_store(data: &Path) {
    let mut server = Serving::start(data);
    fill(&Client::new(&server.base));
    server.signal("-TERM");
    assert_eq!(server.wait().0, Some(0));
}

#[test]
fn verify_says_what_it_saw_and_makes_nothing() {
    let folder = Folder::new();
    let (data, missing, empty) = (folder.join("data"), folder.join("missing"), folder.join("empty"));
    stopped_store(&data);
    check(&["verify", "--data", text(&data)], 0, &["clean: 6 users, "], &[]);
    let report = json(&["verify", "--json", "--data", text(&data)], 0);
    assert_eq!((&report["clean"], &report["users"]), (&true.into(), &6.into()), "{report}");
    assert!(report["edges"].as_u64() > Some(5) && report["events"].as_u64() > Some(11), "{report}");
    check(&["verify", "--data", text(&missing)], 3, &[], &["there is no folder", "--data"]);
    assert!(!missing.exists());
    fs::create_dir(&empty).unwrap();
    check(&["verify", "--data", text(&empty)], 3, &[], &["there is no store in", "--data"]);
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    let server = Serving::start(&data);
    check(&["verify", "--data", text(&data)], 4, &[], &["in use by another process", "stop it first"]);
    drop(server);
    check(&["verify", "--data", text(&data)], 0, &["clean"], &[]);
}

#[test]
fn verify_fails_on_damage_and_names_the_file() {
    let folder = Folder::new();
    let data = folder.join("data");
    stopped_store(&data);
    let names = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let checkpoint = names.filter(|name| name.starts_with("checkpoint-")).max().unwrap();
    let mut bytes = fs::read(data.join(&checkpoint)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(data.join(&checkpoint), bytes).unwrap();
    check(&["verify", "--data", text(&data)], 1, &[], &[&checkpoint, "damaged", "restore a backup"]);
}

#[test]
fn reconcile_compares_and_recounts_what_is_there() {
    let folder = Folder::new();
    let data = folder.join("data");
    check(&["reconcile", "--data", text(&folder.join("missing"))], 3, &[], &["there is no folder"]);
    assert!(!folder.join("missing").exists());
    stopped_store(&data);
    check(&["reconcile", "--data", text(&data)], 0, &["clean: 6 users, "], &[]);
    let counted = ["counted the lists of 6 users and set 0 counts right", "clean: 6 users, "];
    check(&["reconcile", "--counts", "--data", text(&data)], 0, &counted, &[]);
    let looked = "looked at the edges of 6 users, set 0 right and left 0 that are unclear";
    check(&["reconcile", "--edges", "--data", text(&data)], 0, &[looked, "clean: 6 users, "], &[]);
    let report = json(&["reconcile", "--json", "--edges", "--counts", "--data", text(&data)], 0);
    assert_eq!((&report["clean"], &report["corrected"], &report["drifted"]), (&true.into(), &0.into(), &0.into()));
    assert_eq!((&report["healed"], &report["unclear"]), (&0.into(), &0.into()));
    assert_eq!(report["edges"], json(&["verify", "--json", "--data", text(&data)], 0)["edges"]);
    let server = Serving::start(&data);
    check(&["reconcile", "--data", text(&data)], 4, &[], &["in use by another process"]);
    let client = Client::new(&server.base);
    for route in ["recount", "heal"] {
        let heard = client.ask("POST", &format!("/api/v1/admin/{route}"), "").unwrap();
        assert_eq!(heard.status, 200, "{heard:?}");
    }
}

#[test]
fn a_stopped_store_is_copied_and_comes_back() {
    let folder = Folder::new();
    let [data, to, back] = ["data", "copy", "back"].map(|name| folder.join(name));
    stopped_store(&data);
    check(&["backup", "--data", text(&folder.join("missing")), "--to", text(&to)], 3, &[], &["there is no folder"]);
    assert!(!to.exists() && !folder.join("missing").exists());
    check(&["backup", "--data", text(&data), "--to", text(&to)], 0, &["bytes copied to"], &[]);
    check(&["backup", "--data", text(&data), "--to", text(&to)], 2, &[], &["is not empty", "--to"]);
    check(&["restore", "--from", text(&folder.join("missing")), "--data", text(&back)], 3, &[], &["--from"]);
    let clean = ["bytes restored into", "clean: 6 users, "];
    check(&["restore", "--from", text(&to), "--data", text(&back)], 0, &clean, &[]);
    check(&["restore", "--from", text(&to), "--data", text(&back)], 2, &[], &["is not empty", "--data"]);
    let report = json(&["verify", "--json", "--data", text(&data)], 0);
    assert_eq!(json(&["verify", "--json", "--data", text(&back)], 0), report);
    let again = json(&["restore", "--json", "--from", text(&to), "--data", text(&folder.join("again"))], 0);
    assert_eq!((&again["edges"], &again["clean"]), (&report["edges"], &true.into()));
    let server = Serving::start(&back);
    let client = Client::new(&server.base);
    assert_eq!(client.get("/api/v1/users/2/following/1").status, 200);
    assert_eq!(client.get("/api/v1/users/6/following/1").status, 404);
}

#[test]
fn a_damaged_backup_is_refused_by_name_and_leaves_no_store() {
    let folder = Folder::new();
    let [data, to, back] = ["data", "copy", "back"].map(|name| folder.join(name));
    stopped_store(&data);
    check(&["backup", "--data", text(&data), "--to", text(&to)], 0, &["bytes copied to"], &[]);
    let identity = fs::read(to.join("identity")).unwrap();
    fs::write(to.join("identity"), &identity[1..]).unwrap();
    let restore = ["restore", "--from", text(&to), "--data", text(&back)];
    check(&restore, 1, &[], &["identity is damaged", text(&to)]);
    check(&["verify", "--data", text(&back)], 3, &[], &["there is no store in"]);
    fs::write(to.join("identity"), &identity).unwrap();
    fs::rename(to.join("BACKUP"), folder.join("elsewhere")).unwrap();
    check(&restore, 1, &[], &["BACKUP is damaged", "not a whole backup"]);
    fs::rename(folder.join("elsewhere"), to.join("BACKUP")).unwrap();
    check(&restore, 0, &["clean"], &[]);
}

#[test]
fn a_running_server_is_copied_by_asking_it() {
    let folder = Folder::new();
    let [data, to, back] = ["data", "copy", "back"].map(|name| folder.join(name));
    let server = Serving::start(&data);
    let client = Client::new(&server.base);
    fill(&client);
    let in_use = ["in use by another process", "--server"];
    check(&["backup", "--data", text(&data), "--to", text(&folder.join("no"))], 4, &[], &in_use);
    check(&["backup", "--server", &server.base, "--to", text(&to)], 0, &["bytes copied to", text(&to)], &[]);
    let again = ["backup", "--json", "--server", &server.base, "--to", text(&to)];
    check(&again, 2, &[], &["is not empty; choose an empty or a new folder"]);
    let heard = client.ask("POST", "/api/v1/admin/backup", r#"{"to": "somewhere"}"#).unwrap();
    assert_eq!((heard.status, heard.code()), (400, "invalid_request"), "{heard:?}");
    assert_eq!(client.put_user("7", "later").unwrap().status, 201);
    let base = server.base.clone();
    drop(server);
    check(&["restore", "--from", text(&to), "--data", text(&back)], 0, &["clean: 6 users, "], &[]);
    let unreachable = ["no server answers at", "--server"];
    check(&["backup", "--server", &base, "--to", text(&folder.join("no"))], 4, &[], &unreachable);
    check(&["backup", "--server", &base, "--data", "x", "--to", "y"], 2, &[], &["--server", "--data"]);
}

/// Whatever keeps a store from opening, the message says which path it is about.
#[test]
fn an_error_at_start_names_the_path() {
    type Break = fn(&Path);
    let cases: [(&str, Break); 5] = [
        ("", |data| fs::write(data, "a file where a folder should be").unwrap()),
        ("LOCK", |data| fs::create_dir_all(data.join("LOCK")).unwrap()),
        ("identity", |data| fs::create_dir_all(data.join("identity")).unwrap()),
        ("identity", |data| {
            fs::create_dir(data).unwrap();
            fs::write(data.join("identity"), "damaged").unwrap();
        }),
        ("unfinished-identity", |data| fs::create_dir_all(data.join("unfinished-identity")).unwrap()),
    ];
    for (index, (name, damage)) in cases.into_iter().enumerate() {
        let folder = Folder::new();
        let data = folder.join("data");
        damage(&data);
        let path = if name.is_empty() { data.clone() } else { data.join(name) };
        let serve = ["serve", "--http", "127.0.0.1:0", "--data", text(&data)];
        check(&serve, 1, &[], &[text(&path)]);
        if index == 3 {
            check(&["verify", "--data", text(&data)], 1, &[], &[text(&path)]);
        }
    }
}
