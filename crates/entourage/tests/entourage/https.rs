//! Every command that asks a server, against one with TLS and credentials. Which those are comes from the binary's own
//! help, so that a new one without a row here fails.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

use crate::server_kit::{Folder, Serving, command, run, text};

/// Commands that ask a server, with what they need besides it, in an order in which each succeeds.
const ASKING: &[(&str, &[&str])] = &[
    ("user put", &["alice", "--name", "Alice"]),
    ("user put", &["bob"]),
    ("user get", &["alice"]),
    ("follow", &["alice", "bob"]),
    ("followers", &["bob"]),
    ("following", &["alice", "--all"]),
    ("check", &["alice", "bob"]),
    ("relation", &["alice", "bob"]),
    ("post", &["bob", "Good morning"]),
    ("feed", &["alice"]),
    ("feed show", &["alice"]),
    ("feed explain", &["alice", "{post}"]),
    ("feed rebuild", &["alice"]),
    ("feed clear", &["alice"]),
    ("watch", &["alice", "--count", "1"]),
    ("unfollow", &["alice", "bob"]),
    ("block", &["alice", "bob"]),
    ("unblock", &["alice", "bob"]),
    ("suggest", &["alice"]),
    ("abuse list", &[]),
    ("abuse show", &["7"]),
    ("abuse dismiss", &["7"]),
    ("abuse confirm", &["7"]),
    ("abuse parked", &["bob"]),
    ("abuse accept-parked", &["bob"]),
    ("abuse drop-parked", &["bob"]),
    ("jobs", &[]),
    ("jobs run", &["retention"]),
    ("servers", &[]),
    ("events", &["--limit", "5"]),
    ("stats", &[]),
    ("bench", &["--users", "20", "--warm-up", "0", "--seconds", "1", "--rate", "100", "--connections", "2", "--json"]),
    ("backup", &["--to", "{folder}/copy"]),
    ("doctor", &["--config", "{folder}/entourage.toml", "--http", "{address}"]),
    ("erase", &["alice"]),
    ("erase", &["bob", "--now"]),
];

/// Commands that change a file and ask whether the server has noticed, which anybody may.
const NOTICED: &[(&str, &[&str])] = &[
    ("key new", &["other", "--file", "{folder}/keys"]),
    ("key list", &["--file", "{folder}/keys"]),
    ("key revoke", &["other", "--file", "{folder}/keys"]),
];

/// Commands that ask none.
const LOCAL: &[&str] = &[
    "serve",
    "import",
    "export",
    "verify",
    "reconcile",
    "restore",
    "migrate-schema",
    "config print",
    "token",
    "completions",
    "version",
];

/// These name a case that is not there.
const NOT_FOUND: &[&str] = &["abuse show", "abuse dismiss", "abuse confirm"];

/// These show nothing that needs a credential to somebody on this machine.
const OPEN: &[&str] = &["stats", "doctor"];

/// Every command there is, with its help.
fn commands(path: &str) -> Vec<(String, String)> {
    let words: Vec<&str> = path.split_whitespace().chain(["--help"]).collect();
    let help = String::from_utf8(run(&words).stdout).unwrap();
    let listed = help.split("\nCommands:\n").nth(1).map(|rest| rest.split("\n\n").next().unwrap()).unwrap_or_default();
    // Descriptions may go on over further lines, which are indented more.
    let name =
        |line: &str| Some(line.strip_prefix("  ")?.split(' ').next()?.to_owned()).filter(|name| !name.is_empty());
    let below: Vec<String> = listed.lines().filter_map(name).filter(|name| name != "help").collect();
    let mut found: Vec<_> = below.iter().flat_map(|name| commands(format!("{path} {name}").trim())).collect();
    if below.is_empty() || help.contains("--server") {
        found.push((path.to_owned(), help));
    }
    found
}

#[test]
fn every_command_that_asks_a_server_has_a_row_and_the_flags_for_it() {
    let found = commands("");
    assert!(found.len() > 25, "{found:?}");
    for (name, help) in &found {
        let is_noticed = NOTICED.iter().any(|(row, _)| row == name);
        let has_row = is_noticed || ASKING.iter().any(|(row, _)| row == name);
        assert_eq!(help.contains("--server"), has_row, "does `{name}` ask a server? Then it has a row here");
        assert_eq!(has_row, !LOCAL.contains(&name.as_str()), "`{name}` is in both lists, or in none");
        assert_eq!(help.contains("--ca-file"), has_row, "`{name}` cannot be told whom to trust");
        assert_eq!(help.contains("ENTOURAGE_KEY"), has_row && !is_noticed && name != "doctor", "`{name}` and a key");
    }
    for name in ASKING.iter().chain(NOTICED).map(|(name, _)| name).chain(LOCAL) {
        assert!(found.iter().any(|(found, _)| found == name), "there is no command `{name}`");
    }
}

struct Guarded {
    folder: Folder,
    server: Serving,
    post: String,
}

impl Guarded {
    fn start() -> Self {
        Self::named(&["localhost", "127.0.0.1"])
    }

    /// With a certificate for these names.
    fn named(names: &[&str]) -> Self {
        let folder = Folder::new();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let key = run(&["key", "new", "tests", "--admin", "--file", text(&folder.join("keys"))]);
        std::fs::write(folder.join("key"), key.stdout).unwrap();
        let place = |name: &str| format!("{:?}", text(&folder.join(name)));
        let settings = format!(
            "[auth]\nservice_keys_file = {}\n[tls]\ncert_file = {}\nkey_file = {}\n[data]\ndir = {}\n",
            place("keys"),
            place("cert.pem"),
            place("key.pem"),
            place("data")
        );
        let config = folder.join("entourage.toml");
        std::fs::write(&config, settings).unwrap();
        let server = Serving::start_as(&mut command(&["serve", "--http", "127.0.0.1:0", "--config", text(&config)]));
        assert!(server.base.starts_with("https://127.0.0.1:"), "{}", server.base);
        Self { folder, server, post: String::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// As a row has it, without key and authority.
    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let address = self.server.base.trim_start_matches("https://");
        let fill = |word: &&str| {
            let word = word.replace("{folder}", text(&self.path("")).trim_end_matches('/'));
            word.replace("{address}", address).replace("{post}", &self.post)
        };
        let mut command = command(&name.split_whitespace().collect::<Vec<_>>());
        command.args(arguments.iter().map(fill)).args(["--server", &self.server.base]);
        command
    }

    fn trusting(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(name, arguments);
        command.args(["--ca-file", text(&self.path("cert.pem"))]);
        command
    }

    fn whole(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = self.trusting(name, arguments);
        if name != "doctor" {
            command.args(["--key-file", text(&self.path("key"))]);
        }
        command
    }

    /// Posts until the watching ends.
    fn watch(&self, arguments: &[&str]) -> Output {
        let mut watching =
            self.whole("watch", arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while watching.try_wait().unwrap().is_none() {
            let posted = self.whole("post", &["bob", "Look"]).output().unwrap();
            assert!(posted.status.success(), "{posted:?}");
            sleep(Duration::from_millis(200));
        }
        watching.wait_with_output().unwrap()
    }
}

#[test]
fn every_command_speaks_https_and_shows_its_key() {
    let mut guarded = Guarded::start();
    for (name, arguments) in ASKING {
        let refused = guarded.command(name, arguments).output().unwrap();
        let said = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
        assert_eq!(refused.status.code(), Some(if *name == "doctor" { 1 } else { 4 }), "{name}: {said}");
        assert!(said.contains("certificate") && said.contains("--ca-file"), "{name} trusts anybody: {said}");
        if !OPEN.contains(name) {
            let refused = guarded.trusting(name, arguments).output().unwrap();
            let said = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
            assert!(said.contains("unauthenticated") || said.contains("\"401\""), "{name} needs no key: {said}");
        }
        let output = match *name {
            "watch" => guarded.watch(arguments),
            _ => guarded.whole(name, arguments).output().unwrap(),
        };
        if NOT_FOUND.contains(name) {
            assert_eq!(output.status.code(), Some(3), "{name} {arguments:?}: {output:?}");
            continue;
        }
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && !said.is_empty(), "{name} {arguments:?}: {output:?}");
        match *name {
            "post" => {
                let posted = guarded.whole(name, &["bob", "Again", "--json"]).output().unwrap();
                let posted: serde_json::Value = serde_json::from_slice(&posted.stdout).unwrap();
                guarded.post = posted["id"].as_str().unwrap().to_owned();
            }
            "watch" => assert!(said.contains("Look"), "{said}"),
            "bench" => {
                let report: serde_json::Value = serde_json::from_str(&said).unwrap();
                // The schedule is random: about a hundred fall into its second.
                assert!(report["total"]["count"].as_u64().is_some_and(|count| (50..=200).contains(&count)), "{said}");
                assert_eq!(report["total"]["errors"], serde_json::json!({}), "{said}");
                assert!(report["server"]["p99_within"].is_f64(), "metrics are read over https as well: {said}");
            }
            "doctor" => {
                assert!(said.contains(&format!("answers at {} and is ready", guarded.server.base)), "{said}");
                assert!(said.contains("clients") && said.contains("open in a running server"), "{said}");
            }
            _ => {}
        }
    }
    assert!(guarded.path("copy").join("BACKUP").exists(), "the server was asked for a backup");
}

#[test]
fn whether_a_server_has_noticed_is_asked_over_https() {
    let guarded = Guarded::start();
    for (name, arguments) in NOTICED {
        let output = guarded.trusting(name, arguments).output().unwrap();
        let is_said = ![&output.stdout[..], &output.stderr].concat().is_empty();
        assert!(output.status.success() && is_said, "{name}: {output:?}");
    }
    // Gone from the file, and whether the server knows is not known.
    let added = guarded.trusting(NOTICED[0].0, NOTICED[0].1).output().unwrap();
    assert!(added.status.success(), "{added:?}");
    let (name, arguments) = NOTICED[2];
    let refused = guarded.command(name, arguments).output().unwrap();
    let said = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
    assert!(refused.status.code() == Some(4) && said.contains("certificate"), "{:?} {said}", refused.status);
}

#[test]
fn a_certificate_is_for_its_name_and_a_file_of_authorities_has_some() {
    let guarded = Guarded::start();
    let port = guarded.server.base.rsplit(':').next().unwrap();
    let ask = |server: &str, authorities: &str| {
        let output = run(&["stats", "--server", server, "--ca-file", authorities]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let cert = guarded.path("cert.pem");
    assert_eq!(ask(&format!("https://localhost:{port}"), text(&cert)).0, Some(0));
    let elsewhere = Guarded::named(&["elsewhere.example"]);
    let (code, said) = ask(&elsewhere.server.base, text(&elsewhere.path("cert.pem")));
    assert!(code == Some(4) && said.contains("by a name that its certificate has"), "{said}");
    let (code, said) = ask(&guarded.server.base, text(&guarded.path("missing")));
    assert!(code == Some(1) && said.contains("--ca-file") && said.contains("missing"), "{said}");
    let (code, said) = ask(&guarded.server.base, text(&guarded.path("keys")));
    assert!(code == Some(1) && said.contains("there is no certificate"), "{said}");
    let (code, said) = ask(&format!("http://127.0.0.1:{port}"), text(&cert));
    assert!(code == Some(4) && said.contains("no server answers"), "{said}");
    let mut from_environment = command(&["stats", "--server", &guarded.server.base]);
    assert!(from_environment.env("ENTOURAGE_CA_FILE", &cert).output().unwrap().status.success());
}
