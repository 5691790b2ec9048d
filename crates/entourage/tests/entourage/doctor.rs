//! `doctor` complains of whatever `serve` refuses: every setting with values that may be wrong, and everything around
//! a server that may be.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::server_kit::{Folder, Serving, command, run, text};

type Settings = Vec<(String, String)>;

fn with(base: &Settings, more: &[(&str, &str)]) -> Settings {
    let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    base.iter().cloned().chain(more).collect()
}

fn set(command: &mut Command, settings: &Settings) {
    // Files that a setting names without a folder are made where the command runs.
    let data = settings.iter().find(|(name, _)| name == "data.dir").and_then(|(_, value)| Path::new(value).parent());
    command.current_dir(data.filter(|folder| folder.is_dir()).unwrap_or_else(|| Path::new("/")));
    for (name, value) in settings {
        command.env(format!("ENTOURAGE_{}", name.to_uppercase().replace('.', "__")), value);
    }
}

/// What `serve` says when it refuses; `None` where it starts.
fn refusal(settings: &Settings) -> Option<String> {
    let mut serve = command(&["serve"]);
    set(&mut serve, settings);
    let mut child = serve.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while errors.read_line(&mut said).unwrap() > 0 {
        if said.lines().any(|line| line.trim_start().starts_with("http ")) {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
    }
    errors.read_to_string(&mut said).unwrap();
    assert!(!child.wait().unwrap().success(), "{settings:?} {said}");
    Some(said)
}

/// Whether `doctor` fails, and what it says.
fn complaint(settings: &Settings) -> (bool, String) {
    let mut doctor = command(&["doctor"]);
    set(&mut doctor, settings);
    let output = doctor.output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    (output.status.code() == Some(1), String::from_utf8(output.stdout).unwrap())
}

/// Both agree that a server would not start.
fn both_refuse(settings: &Settings) {
    let refused = refusal(settings);
    assert!(refused.is_some(), "serve starts with {settings:?}");
    let (complains, said) = complaint(settings);
    assert!(complains && said.contains("FAIL"), "serve refuses {settings:?}: {refused:?}\nand doctor says\n{said}");
}

fn base(folder: &Folder) -> Settings {
    with(&Settings::new(), &[("data.dir", text(&folder.join("data"))), ("http.listen", "127.0.0.1:0")])
}

/// Nothing that a setting can be makes a server refuse to start and a doctor content.
#[test]
fn every_setting_that_serve_refuses_is_complained_of() {
    let folder = Folder::new();
    std::fs::write(folder.join("short"), "short").unwrap();
    let [nowhere, short, here] = ["nowhere/file", "short", ""].map(|name| text(&folder.join(name)).to_owned());
    let values = [
        "",
        "x",
        "0",
        "-1",
        "99999999999999999999",
        "1",
        "1s",
        "0.0.0.0:0",
        "x:",
        "https://a",
        &nowhere,
        &short,
        &here,
    ];
    let printed: serde_json::Value = serde_json::from_slice(&run(&["config", "print", "--json"]).stdout).unwrap();
    let names: Vec<&String> = printed.as_object().unwrap().keys().collect();
    assert!(names.len() > 40);
    let cases: Vec<(&str, &str)> =
        names.iter().flat_map(|name| values.iter().map(move |value| (name.as_str(), *value))).collect();
    let (next, refused) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (next, refused, cases, folder) = (&next, &refused, &cases, &folder);
            scope.spawn(move || {
                while let Some((name, value)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // A store in memory where the folder says nothing, because it starts sooner.
                    let embedded =
                        ["data.", "log.", "checkpoint.", "memory."].iter().any(|part| name.starts_with(part));
                    let store = if embedded { "embedded:" } else { "memory:" };
                    let data = folder.join(&format!("data-{worker}-{}", next.load(Ordering::Relaxed)));
                    let around = [("data.dir", text(&data)), ("http.listen", "127.0.0.1:0"), ("store.url", store)];
                    let settings = with(&Settings::new(), &[&around[..], &[(name, value)]].concat());
                    if refusal(&settings).is_some() {
                        let (complains, said) = complaint(&settings);
                        assert!(complains, "serve refuses {name} = {value:?}, and doctor says\n{said}");
                        refused.lock().unwrap().push(*name);
                    }
                    let _ = std::fs::remove_dir_all(&data);
                }
            });
        }
    });
    let refused = refused.into_inner().unwrap();
    assert!(refused.len() > 300, "only {} values were refused", refused.len());
    let never: Vec<_> = names.iter().filter(|name| !refused.contains(&name.as_str())).collect();
    assert!(never.is_empty(), "nothing was wrong for {never:?}");
}

#[test]
fn credentials_and_certificates_that_cannot_be_used_are_complained_of() {
    let folder = Folder::new();
    let base = base(&folder);
    let file = |name: &str, content: &str| {
        std::fs::write(folder.join(name), content).unwrap();
        text(&folder.join(name)).to_owned()
    };
    let missing = text(&folder.join("missing")).to_owned();
    let short = file("short", "too short");
    let broken = file("broken", "web sha256:nothing service now\n");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let cert = file("cert.pem", &made.cert.pem());
    let key = file("key.pem", &made.signing_key.serialize_pem());
    let other = file("other.pem", &other.signing_key.serialize_pem());
    let printed = String::from_utf8(run(&["key", "new", "web", "--print"]).stdout).unwrap();
    let entry = printed.lines().nth(1).unwrap();
    let keys = file("keys", &format!("{entry}\n"));
    let jwt = |algorithm: &'static str, key_file: &str| {
        let rest = [("auth.jwt.issuer", "me"), ("auth.jwt.audience", "you")];
        with(&with(&base, &[("auth.jwt.algorithm", algorithm), ("auth.jwt.key_file", key_file)]), &rest)
    };
    let audit = text(&folder.join("no/audit.log")).to_owned();
    for settings in [
        jwt("HS256", &missing),
        jwt("HS256", &short),
        jwt("RS256", &short),
        with(&base, &[("auth.service_keys_file", &missing)]),
        with(&base, &[("auth.service_keys_file", &broken)]),
        with(&base, &[("auth.service_keys_file", &keys), ("auth.service_keys", entry)]),
        with(&base, &[("limits.challenge_key_file", &short)]),
        with(&base, &[("tls.cert_file", &cert), ("tls.key_file", &missing)]),
        with(&base, &[("tls.cert_file", &keys), ("tls.key_file", &key)]),
        with(&base, &[("tls.cert_file", &cert), ("tls.key_file", &other)]),
        with(&base, &[("audit.file", &audit)]),
        with(&base, &[("http.listen", "0.0.0.0:0")]),
        with(&base, &[("resp.listen", "0.0.0.0:0")]),
    ] {
        both_refuse(&settings);
    }
    let fine = with(
        &base,
        &[
            ("auth.service_keys", entry),
            ("http.listen", "0.0.0.0:0"),
            ("tls.cert_file", &cert),
            ("tls.key_file", &key),
            ("audit.file", text(&folder.join("audit.log"))),
        ],
    );
    let (complains, said) = complaint(&fine);
    assert!(!complains, "{said}");
    assert!(!folder.join("audit.log").exists() && !folder.join("data").exists(), "looking makes nothing");
    assert_eq!(refusal(&fine), None);
    assert!(folder.join("audit.log").exists());
}

#[test]
fn places_and_addresses_that_cannot_be_used_are_complained_of() {
    let folder = Folder::new();
    let base = base(&folder);
    std::fs::write(folder.join("file"), "").unwrap();
    std::os::unix::fs::symlink(folder.join("nowhere"), folder.join("link")).unwrap();
    std::fs::create_dir(folder.join("alien")).unwrap();
    std::fs::write(folder.join("alien/letter.txt"), "Dear Sir").unwrap();
    for place in ["file", "file/below", "link", "link/below", "alien"] {
        both_refuse(&with(&base, &[("data.dir", text(&folder.join(place)))]));
    }
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    both_refuse(&with(&base, &[("http.listen", &address)]));
    both_refuse(&with(&base, &[("resp.listen", &address)]));
    drop(busy);
    both_refuse(&with(&base, &[("http.listen", &address), ("resp.listen", &address)]));
    both_refuse(&with(&base, &[("http.listen", "192.0.2.1:7070"), ("auth.service_keys", &entry())]));
    for url in [
        "mysql://host/db",
        "embedded:here",
        "memory:1",
        "memory:?homes=0",
        "memory:?homes=257",
        "memory:?houses=4",
        "postgres://127.0.0.1:1/nobody",
        "postgres://[",
        "redis:",
    ] {
        both_refuse(&with(&base, &[("store.url", url)]));
    }
    let mut server = Serving::start(&folder.join("data"));
    both_refuse(&base);
    let running = server.base.trim_start_matches("http://").to_owned();
    let (complains, said) = complaint(&with(&base, &[("http.listen", &running)]));
    assert!(!complains && said.contains("open in a running server"), "{said}");
    let other = folder.join("other");
    both_refuse(&with(&base, &[("http.listen", &running), ("data.dir", text(&other))]));
    assert!(!other.exists());
    server.kill();
    damage(&folder.join("data"));
    both_refuse(&base);
}

fn entry() -> String {
    let printed = String::from_utf8(run(&["key", "new", "web", "--print"]).stdout).unwrap();
    printed.lines().nth(1).unwrap().to_owned()
}

fn damage(data: &Path) {
    std::fs::write(data.join("identity"), "damaged").unwrap();
}
