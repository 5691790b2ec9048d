//! The binary with credentials: keys from their making to their end, and secrets that never show.

use std::{
    io::{Read, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    process::Command,
    time::Duration,
};

use crate::server_kit::{Client, Folder, Serving, check, command, run, text};

const CANARY: &str = "canary-1c9f4e0b7a5d2638-which-signs-tokens-and-is-never-shown";

fn status(base: &str, key: Option<&str>, path: &str) -> u16 {
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let mut request = config.new_agent().get(format!("{base}{path}"));
    if let Some(key) = key {
        request = request.header("Authorization", format!("Bearer {key}"));
    }
    request.call().unwrap().status().as_u16()
}

#[test]
fn keys_are_made_listed_and_revoked() {
    let folder = Folder::new();
    let keys = folder.join("keys");
    let key = |arguments: &[&'static str]| [&["key"], arguments, &["--file", text(&keys)]].concat();
    check(&["key", "new", "web"], 2, &[], &["--file", "auth.service_keys_file"]);
    let made = run(&key(&["new", "web"]));
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let secret = String::from_utf8(made.stdout).unwrap();
    let secret = secret.trim();
    assert!(secret.starts_with("eg_") && secret.len() == 67, "{secret}");
    assert_eq!(std::fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!std::fs::read_to_string(&keys).unwrap().contains(&secret[3..]), "the key itself is kept");
    check(&key(&["new", "web"]), 2, &[], &["there is a key web already"]);
    check(&key(&["new", "a b"]), 2, &[], &["a name has"]);
    check(&key(&["new", "boss", "--admin", "--json"]), 0, &["\"admin\":true", "\"key\":\"eg_"], &["boss"]);
    check(&key(&["list"]), 0, &["web", "boss", "admin"], &[]);
    check(&key(&["list", "--json"]), 0, &[r#""name":"web","scope":"service""#], &[]);
    check(&key(&["revoke", "nobody"]), 3, &[], &["there is no key nobody"]);
    check(&key(&["revoke", "web"]), 0, &[], &["revoked web"]);
    let listed = String::from_utf8(run(&key(&["list"])).stdout).unwrap();
    assert!(!listed.contains("web") && listed.contains("boss"), "{listed}");
    std::fs::OpenOptions::new().append(true).open(&keys).unwrap().write_all(b"broken\n").unwrap();
    check(&key(&["list"]), 1, &[], &["line 2"]);
    let config = folder.join("entourage.toml");
    std::fs::write(&config, format!("[auth]\nservice_keys_file = {:?}\n", text(&folder.join("others")))).unwrap();
    check(&["key", "new", "web", "--config", text(&config)], 0, &["eg_"], &["others"]);
}

/// A container needs no file: hashes are settings.
#[test]
fn keys_can_be_settings() {
    let folder = Folder::new();
    let made = run(&["key", "new", "web", "--print"]);
    let lines = String::from_utf8(made.stdout).unwrap();
    let (secret, entry) = lines.trim().split_once('\n').unwrap();
    assert!(secret.starts_with("eg_") && entry.starts_with("web sha256:") && entry.contains(" service "), "{lines}");
    let made: serde_json::Value =
        serde_json::from_slice(&run(&["key", "new", "boss", "--admin", "--print", "--json"]).stdout).unwrap();
    let both = format!("{entry}, {}", made["entry"].as_str().unwrap());
    let with_both = |arguments: &[&str]| {
        let mut command = command(arguments);
        command.env("ENTOURAGE_AUTH__SERVICE_KEYS", &both);
        command
    };
    let (keys, data) = (folder.join("keys"), folder.join("data"));
    let server = Serving::start_as(&mut with_both(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]));
    for (key, path, wanted) in [
        (Some(secret), "/api/v1/users/nobody", 404),
        (made["key"].as_str(), "/api/v1/admin/jobs", 200),
        (Some(secret), "/api/v1/admin/jobs", 403),
        (Some(&entry[4..]), "/api/v1/users/nobody", 401),
        (None, "/api/v1/users/nobody", 401),
    ] {
        assert_eq!(status(&server.base, key, path), wanted, "{path}");
    }
    let mut resp = std::net::TcpStream::connect(&server.resp).unwrap();
    write!(resp, "AUTH {secret}\r\n").unwrap();
    let mut answer = [0; 5];
    resp.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK\r\n");
    let said = |arguments: &[&str]| {
        let output = with_both(arguments).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text)
    };
    let (code, listed) = said(&["key", "list"]);
    assert!(
        code == Some(0) && listed.contains("web") && listed.contains("boss") && listed.contains("settings"),
        "{listed}"
    );
    assert!(!listed.contains("sha256"), "{listed}");
    let (code, refused) = said(&["key", "revoke", "web"]);
    assert!(code == Some(2) && refused.contains("auth.service_keys"), "{refused}");
    let (code, refused) = said(&["key", "new", "web", "--file", text(&keys)]);
    assert!(code == Some(2) && refused.contains("there is a key web already"), "{refused}");
    let (code, made) = said(&["key", "new", "app", "--file", text(&keys)]);
    assert!(code == Some(0) && made.contains("eg_"), "{made}");
    let (_, listed) = said(&["key", "list", "--json", "--file", text(&keys)]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let from: Vec<_> = listed.as_array().unwrap().iter().map(|key| (&key["name"], &key["from"])).collect();
    let wanted = ["web", "boss", "app"].into_iter().zip(["settings", "settings", "file"]);
    assert!(from.iter().map(|(name, from)| (name.as_str().unwrap(), from.as_str().unwrap())).eq(wanted), "{listed}");
    check(&["key", "new", "web", "--print", "--file", "keys"], 2, &[], &["--print"]);
}

fn settings(folder: &Folder, keys: &std::path::Path) -> Vec<String> {
    let config = folder.join("entourage.toml");
    std::fs::write(&config, format!("[auth]\nservice_keys_file = {:?}\n", text(keys))).unwrap();
    vec!["--config".to_owned(), text(&config).to_owned()]
}

/// As `check`, with more arguments.
fn key(arguments: &[&str], more: &[String], code: i32, stderr: &[&str]) {
    let output = command(&["key"]).args(arguments).args(more).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?} {said}");
    assert!(stderr.iter().all(|part| said.contains(part)) && said.is_empty() == stderr.is_empty(), "{said}");
}

/// Root changes the file of a server that runs as somebody else, through a link.
#[test]
fn a_key_file_keeps_its_owner_and_mode_and_links_stay_links() {
    let folder = Folder::new();
    let (keys, link) = (folder.join("keys"), folder.join("link"));
    std::os::unix::fs::symlink("keys", &link).unwrap();
    let file = ["--file".to_owned(), text(&link).to_owned()];
    for name in ["web", "boss"] {
        key(&["new", name], &file, 0, &[name]);
    }
    let own = std::fs::metadata(&keys).unwrap();
    let (owner, group) = if own.uid() == 0 { (65_534, 65_533) } else { (own.uid(), own.gid()) };
    std::os::unix::fs::chown(&keys, Some(owner), Some(group)).unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o640)).unwrap();
    // What a command that was killed has left.
    std::fs::write(folder.join("keys.new"), "left over").unwrap();
    key(&["revoke", "web"], &file, 0, &["revoked web"]);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    let now = std::fs::metadata(&keys).unwrap();
    assert_eq!((now.uid(), now.gid(), now.mode() & 0o7777), (owner, group, 0o640));
    let rest = std::fs::read_to_string(&keys).unwrap();
    assert!(rest.starts_with("boss ") && rest.lines().count() == 1, "{rest}");
    assert!(!folder.join("keys.new").exists());
}

#[test]
fn keys_that_are_made_and_revoked_at_once_are_all_made_and_revoked() {
    let folder = Folder::new();
    let keys = folder.join("keys");
    std::thread::scope(|scope| {
        for number in 0..8 {
            let keys = &keys;
            scope.spawn(move || {
                let (kept, gone) = (format!("kept-{number}"), format!("gone-{number}"));
                check(&["key", "new", &gone, "--file", text(keys)], 0, &["eg_"], &[&gone]);
                check(&["key", "new", &kept, "--file", text(keys)], 0, &["eg_"], &[&kept]);
                check(&["key", "revoke", &gone, "--file", text(keys)], 0, &[], &[&gone]);
            });
        }
    });
    let left = std::fs::read_to_string(&keys).unwrap();
    assert!(left.lines().count() == 8 && left.lines().all(|line| line.starts_with("kept-")), "{left}");
}

/// Whether a key was taken away is what the server says, not what the file has.
#[test]
fn a_revoked_key_is_refused_by_the_server_or_the_command_says_that_it_is_not() {
    let folder = Folder::new();
    let (keys, data) = (folder.join("keys"), folder.join("data"));
    let file = settings(&folder, &keys);
    let made = |name: &str| {
        let output = command(&["key", "new", name]).args(&file).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let [web, app, _] = ["web", "app", "boss"].map(made);
    let mut serve = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
    let server = Serving::start_as(serve.args(&file));
    let there = [&file[..], &["--server".to_owned(), server.base.clone()]].concat();
    let ready = || Client::new(&server.base).get("/readyz").body;
    assert_eq!(status(&server.base, Some(&web), "/api/v1/users/nobody"), 404);
    key(&["revoke", "web"], &there, 0, &["revoked web", "takes it no more"]);
    assert_eq!(status(&server.base, Some(&web), "/api/v1/users/nobody"), 401);
    key(&["list"], &there, 0, &[]);
    assert_eq!((ready()["status"].as_str(), ready().get("reason")), (Some("ready"), None));
    // The server's file is one it cannot make sense of, and another lies where the command looks.
    let (hidden, shown) = (folder.join("hidden"), folder.join("shown"));
    std::fs::copy(&keys, &shown).unwrap();
    std::fs::rename(&keys, &hidden).unwrap();
    std::fs::create_dir(&keys).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let said = ready();
    assert_eq!(said["status"], "ready");
    assert!(said["reason"].as_str().unwrap().contains("auth.service_keys_file"), "{said}");
    let elsewhere = ["--file", text(&shown), "--server", &server.base].map(str::to_owned);
    key(&["revoke", "app"], &elsewhere, 1, &["app is out of", "still takes it", "auth.service_keys_file"]);
    assert_eq!(status(&server.base, Some(&app), "/api/v1/users/nobody"), 404, "what was there before stays");
    key(&["list"], &elsewhere, 0, &["holds an older file"]);
    assert!(
        Client::new(&server.base)
            .text("/metrics")
            .contains("entourage_credentials_stale{setting=\"auth.service_keys_file\"} 1")
    );
    // It is the same file as before: nothing about it but its place has changed.
    std::fs::remove_dir(&keys).unwrap();
    std::fs::rename(&shown, &keys).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(status(&server.base, Some(&app), "/api/v1/users/nobody"), 401);
    assert_eq!(ready().get("reason"), None);
    key(&["list"], &there, 0, &[]);
    key(&["revoke", "boss", "--server", "http://127.0.0.1:1"], &file, 4, &["revoked boss", "no server answers"]);
}

/// A password can stand in an address in more than one place.
#[test]
fn no_form_of_a_password_is_printed() {
    for address in [
        "postgres://me:canary@127.0.0.1:1/db",
        "postgres://me@127.0.0.1:1/db?password=canary",
        "postgres://127.0.0.1:1/db?user=me&password=canary",
        "postgres://me@127.0.0.1:1/db?sslpassword=canary",
        "postgres://me:can@ary@127.0.0.1:1/db",
        "postgres://me@127.0.0.1:1/db?password=can@ary",
        "host=127.0.0.1 password=canary:1",
        "canary-password=canary",
    ] {
        let folder = Folder::new();
        let (config, data) = (folder.join("entourage.toml"), folder.join("data"));
        std::fs::write(&config, format!("[store]\nurl = \"{address}\"\n")).unwrap();
        let commands: [&[&str]; 5] = [
            &["config", "print", "--origin"],
            &["config", "print", "--json"],
            &["doctor", "--data", text(&data)],
            &["serve", "--http", "127.0.0.1:0", "--data", text(&data)],
            &["export", "--data", text(&data)],
        ];
        for arguments in commands {
            let mut command = command(arguments);
            let output = command.args(["--config", text(&config)]).env("RUST_LOG", "trace").output().unwrap();
            let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert!(
                !said.contains("canary") && !said.contains("ary@") && !said.contains("@ary"),
                "{arguments:?}: {said}"
            );
            assert!(!said.is_empty());
        }
        // A mistake elsewhere in the line.
        std::fs::write(&config, format!("[store]\nurl = \"{address}\" \"\n")).unwrap();
        let output = command(&["config", "print", "--config", text(&config)]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains("line 2") && !said.contains("canary"), "{said}");
    }
    check(&["users", "get", "a", "--server", "http://me:canary@127.0.0.1:1"], 2, &[], &["users"]);
    let output = run(&["user", "get", "a", "--server", "http://me:canary@127.0.0.1:1"]);
    assert!(!String::from_utf8(output.stderr).unwrap().contains("canary"));
}

#[test]
fn a_server_that_cannot_read_its_credentials_does_not_start() {
    let folder = Folder::new();
    let data = folder.join("data");
    let serve = |name: &str, value: &str| {
        let mut command = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
        let output = command.env(name, value).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = serve("ENTOURAGE_AUTH__SERVICE_KEYS_FILE", text(&folder.join("missing")));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("missing"), "{said}");
    let (code, said) = serve("ENTOURAGE_AUTH__JWT__ISSUER", "me");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("auth.jwt.algorithm"), "{said}");
    let (code, said) = serve("ENTOURAGE_TLS__CERT_FILE", "cert.pem");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("tls.key_file"), "{said}");
    assert!(!data.exists());
}

/// A secret that is in every place a secret can be, and everything that comes out of the server while it is used well
/// and badly.
#[test]
fn secrets_are_never_shown() {
    let folder = Folder::new();
    let [keys, secret, config, audit, data] =
        ["keys", "secret", "entourage.toml", "audit.log", "data"].map(|name| folder.join(name));
    std::fs::write(&secret, CANARY).unwrap();
    let made = run(&["key", "new", "boss", "--admin", "--file", text(&keys)]);
    let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let toml = format!(
        "[auth]\nservice_keys_file = {:?}\n[auth.jwt]\nalgorithm = \"HS256\"\nkey_file = {:?}\nissuer = \"me\"\n\
         audience = \"you\"\n[limits]\nchallenge_key_file = {:?}\n[audit]\nfile = {:?}\n",
        text(&keys),
        text(&secret),
        text(&secret),
        text(&audit),
    );
    std::fs::write(&config, toml).unwrap();
    let mut shown = String::new();
    let mut serve = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data), "--config", text(&config)]);
    let mut server = Serving::start_as(serve.env("RUST_LOG", "trace"));
    let base = server.base.clone();
    assert_eq!(status(&base, Some(&key), "/api/v1/users/nobody"), 404);
    assert_eq!(status(&base, Some(&format!("{key}x")), "/api/v1/users/nobody"), 401);
    assert_eq!(status(&base, Some(CANARY), "/api/v1/users/nobody"), 401);
    assert_eq!(status(&base, None, &format!("/api/v1/users/nobody?ticket={CANARY}")), 401);
    assert_eq!(status(&base, None, "/api/v1/users/nobody"), 401);
    shown += &ureq::get(format!("{base}/metrics")).call().unwrap().body_mut().read_to_string().unwrap();
    // What cannot be read again is reported, too, and does not show either.
    std::fs::write(&keys, format!("{key} {CANARY}\n")).unwrap();
    server.signal("-HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(status(&base, Some(&key), "/api/v1/users/nobody"), 404, "what was there before stays");
    server.signal("-TERM");
    let (code, said) = server.wait();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("cannot be read again"), "{said}");
    shown += &said;
    shown += &std::fs::read_to_string(&audit).unwrap();
    assert_eq!(shown.matches("\"action\":\"authenticate\"").count(), 4);
    let print = Command::new(env!("CARGO_BIN_EXE_entourage"))
        .args(["config", "print", "--origin", "--config", text(&config)])
        .output()
        .unwrap();
    shown += &String::from_utf8_lossy(&print.stdout);
    assert!(shown.contains("auth.service_keys_file") && shown.contains("entourage_http_requests_total"));
    for secret in [CANARY, &key, &key[3..], &key[10..40]] {
        assert!(!shown.contains(secret), "a secret was shown");
    }
}
