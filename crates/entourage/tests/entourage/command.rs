//! The binary as a person or a supervisor sees it: what it prints, how it ends.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("entourage-command-{:032x}", rand::random::<u128>()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entourage"));
    command.args(arguments).env_remove("RUST_LOG");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ENTOURAGE_") {
            command.env_remove(name);
        }
    }
    // Several servers run at once.
    command.env("ENTOURAGE_RESP__LISTEN", "127.0.0.1:0");
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn check(arguments: &[&str], code: i32, stdout: &[&str], stderr: &[&str]) {
    check_output(arguments, run(arguments), code, stdout, stderr);
}

fn check_output(arguments: &[&str], output: Output, code: i32, stdout: &[&str], stderr: &[&str]) {
    let texts = [(&output.stdout, stdout), (&output.stderr, stderr)];
    assert_eq!(output.status.code(), Some(code), "{arguments:?} {output:?}");
    for (bytes, wanted) in texts {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(text.is_empty(), wanted.is_empty(), "{arguments:?} printed {text}");
        for part in wanted {
            assert!(text.contains(part), "{arguments:?} printed {text}, not {part}");
        }
    }
}

#[test]
fn commands_print_data_on_stdout_and_end_with_their_code() {
    let folder = Folder::new();
    let [fine, unknown, wrong] = ["fine.toml", "unknown.toml", "wrong.toml"].map(|name| folder.path(name));
    std::fs::write(&fine, "[users]\nauto_create = true\n[log]\nretention = \"2d\"\n").unwrap();
    std::fs::write(&unknown, "[users]\nauto_creat = true\n").unwrap();
    std::fs::write(&wrong, "[log]\nretention = \"2 fortnights\"\n").unwrap();
    check(&["version"], 0, &["entourage 0."], &[]);
    check(&["version", "--json"], 0, &["\"version\":\"0."], &[]);
    check(&["config", "print"], 0, &["http.listen = \"127.0.0.1:7070\"", "limits.following_max = \"10000\""], &[]);
    let print = ["config", "print", "--origin", "--http", "127.0.0.1:1", "--config", &fine];
    check(
        &print,
        0,
        &["# from: flag --http\nhttp.listen = \"127.0.0.1:1\"", "users.auto_create = \"true\"", "fine.toml"],
        &[],
    );
    check(&["config", "print", "--config", &unknown], 2, &[], &["users.auto_creat;", "unknown.toml"]);
    check(&["serve", "--config", &unknown], 2, &[], &["users.auto_creat;"]);
    check(&["config", "print", "--config", &wrong], 2, &[], &["log.retention", "2 fortnights", "7d"]);
    check(&["config", "print", "--config", &folder.path("missing.toml")], 2, &[], &["missing.toml"]);
    check(&["serve", "--http", "0.0.0.0:0"], 1, &[], &["no credentials are configured", "--http 127.0.0.1"]);
    let resp = ["serve", "--http", "127.0.0.1:0", "--resp", "0.0.0.0:0"];
    check(&resp, 1, &[], &["no credentials are configured", "--resp 127.0.0.1"]);
    check(&["serve", "--resp", "somewhere"], 2, &[], &["resp.listen", "somewhere"]);
    check(&["serve", "--http", "somewhere"], 2, &[], &["http.listen", "somewhere"]);
    check(&["serve", "--roles", "http,cook"], 2, &[], &["server.roles", "http,cook", "fanout", "flag --roles"]);
    check(&["serve", "--roles", ""], 2, &[], &["server.roles", "one or more of http"]);
    let mut with_variable = command(&["serve", "--http", "127.0.0.1:0"]);
    let output = with_variable.env("ENTOURAGE_STORE__URL", "mysql://me:hush@host/db").output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("hush"));
    check_output(&["with an unknown store"], output, 2, &[], &["there is no store mysql:"]);
    let mut with_variable = command(&["config", "print"]);
    let output = with_variable.env("ENTOURAGE_STORE__URL", "postgres://me:hush@host/db").output().unwrap();
    check_output(&["with a password"], output, 0, &["postgres://me:…@host/db"], &[]);
    check(&["serve", "--surprise"], 2, &[], &["--surprise"]);
    check(&["surprise"], 2, &[], &["surprise"]);
    let mut with_variable = command(&["config", "print"]);
    let output = with_variable.env("ENTOURAGE_HTTP__LISTEN", "127.0.0.1:2").output().unwrap();
    check_output(&["with a variable"], output, 0, &["http.listen = \"127.0.0.1:2\""], &[]);
    let mut with_variable = command(&["config", "print"]);
    let output = with_variable.env("ENTOURAGE_HTTP__LISTN", "x").output().unwrap();
    check_output(&["with a wrong variable"], output, 2, &[], &["ENTOURAGE_HTTP__LISTN"]);
}

#[test]
fn what_config_print_prints_can_be_read_back() {
    let folder = Folder::new();
    let file = folder.path("printed.toml");
    let printed = run(&["config", "print"]).stdout;
    std::fs::write(&file, &printed).unwrap();
    assert_eq!(run(&["config", "print", "--config", &file]).stdout, printed);
}

struct Serving {
    child: Child,
    lines: BufReader<std::process::ChildStderr>,
    url: String,
}

impl Serving {
    fn start(data: &str) -> Self {
        let mut child = command(&["serve", "--data", data, "--http", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.trim_start().starts_with("http ") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "no banner");
        }
        let url = line.split_whitespace().last().unwrap().to_owned();
        Self { child, lines, url }
    }

    fn stop(mut self, signal: &str) -> (Option<i32>, String) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn serving_starts_with_a_banner_stops_on_a_signal_and_keeps_what_it_acked() {
    let folder = Folder::new();
    let data = folder.path("data");
    for (round, signal) in ["-TERM", "-INT", "-KILL", "-TERM"].into_iter().enumerate() {
        let server = Serving::start(&data);
        for earlier in 0..round {
            let reply = ureq::get(format!("{}/users/u{earlier}", server.url)).call().unwrap();
            assert_eq!(reply.status(), 200);
        }
        let reply = ureq::put(format!("{}/users/u{round}", server.url)).send_empty().unwrap();
        assert_eq!(reply.status(), 201);
        if round == 1 {
            let second = run(&["serve", "--data", &data, "--http", "127.0.0.1:0"]);
            let wanted = format!("error: {data} is in use by another process; stop it first, or choose another --data");
            check_output(&["a second process"], second, 4, &[], &[&wanted]);
        }
        let (code, log) = server.stop(signal);
        match signal {
            "-KILL" => assert_eq!(code, None),
            _ => {
                assert_eq!(code, Some(0), "{log}");
                assert!(log.contains("Entourage-Actor") && log.contains("curl ") && log.contains(&data), "{log}");
                let name = signal.replace('-', "SIG");
                assert!(log.contains(&format!(r#""message":"stopping","signal":"{name}""#)), "{log}");
            }
        }
    }
}
