//! The real binary in a folder of its own: started, asked over HTTP, killed.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Output, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::Value;

/// A folder that goes when the test ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("entourage-test-{:032x}", rand::random::<u128>()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The binary with nothing of this process's own settings.
pub(crate) fn command(arguments: &[&str]) -> Command {
    wrapped(&[env!("CARGO_BIN_EXE_entourage")], arguments)
}

/// As `command`, started by another program whose arguments come first. These tests write faster than people may.
pub(crate) fn wrapped(program: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args(arguments).env_remove("RUST_LOG");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ENTOURAGE_") {
            command.env_remove(name);
        }
    }
    // Several servers run at once.
    command.env("ENTOURAGE_RESP__LISTEN", "127.0.0.1:0");
    for limit in ["FOLLOWS_PER_HOUR", "FLIPS_PER_DAY"] {
        command.env(format!("ENTOURAGE_LIMITS__{limit}"), "0");
    }
    command
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs a command and compares its code and what it prints.
pub(crate) fn check(arguments: &[&str], code: i32, stdout: &[&str], stderr: &[&str]) {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?} {output:?}");
    for (bytes, wanted) in [(&output.stdout, stdout), (&output.stderr, stderr)] {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(text.is_empty(), wanted.is_empty(), "{arguments:?} printed {text}");
        for part in wanted {
            assert!(text.contains(part), "{arguments:?} printed {text}, not {part}");
        }
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What a process says on standard error after its banner.
enum Errors {
    /// Somebody reads it, as somebody does of every server: what is written down for auditors has to go somewhere.
    Read(Option<JoinHandle<String>>),
    Unread(BufReader<ChildStderr>),
}

fn read_to_end(mut errors: BufReader<ChildStderr>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        errors.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// `entourage serve`, running.
pub(crate) struct Serving {
    child: Child,
    errors: Errors,
    /// `http://127.0.0.1:port`
    pub(crate) base: String,
    /// `127.0.0.1:port`, where RESP is answered.
    pub(crate) resp: String,
    /// From the start of the process to its banner.
    pub(crate) started_in: Duration,
}

impl Serving {
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_as(&mut command(&["serve", "--http", "127.0.0.1:0", "--data", text(data)]))
    }

    pub(crate) fn start_as(command: &mut Command) -> Self {
        let mut serving = Self::start_unread(command);
        serving.read_errors();
        serving
    }

    /// Nobody reads what it says until `read_errors`.
    pub(crate) fn start_unread(command: &mut Command) -> Self {
        let began = Instant::now();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let (mut line, mut all, mut resp) = (String::new(), String::new(), String::new());
        while !line.trim_start().starts_with("http ") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "no banner, but {all}");
            all.push_str(&line);
            if let Some((_, address)) = line.split_once("redis://") {
                resp = address.trim().to_owned();
            }
        }
        let url = line.split_whitespace().last().unwrap();
        let base = url.trim_end_matches("/api/v1").to_owned();
        let errors = Errors::Unread(errors);
        Self { child, errors, base, resp, started_in: began.elapsed() }
    }

    /// Starts the binary and kills it again, most likely before it is done with starting.
    pub(crate) fn start_and_kill(command: &mut Command, after: Duration) {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// From now on somebody reads what it says.
    pub(crate) fn read_errors(&mut self) {
        let errors = std::mem::replace(&mut self.errors, Errors::Read(None));
        self.errors = match errors {
            Errors::Unread(errors) => Errors::Read(Some(read_to_end(errors))),
            read @ Errors::Read(_) => read,
        };
    }

    /// The exit code of a process that ends by itself or was told to, and what it said.
    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        self.read_errors();
        let rest = match &mut self.errors {
            Errors::Read(reader) => reader.take().map(|reader| reader.join().unwrap()).unwrap_or_default(),
            Errors::Unread(_) => String::new(),
        };
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that keeps its connection.
pub(crate) struct Client {
    agent: ureq::Agent,
    base: String,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) headers: ureq::http::HeaderMap,
    pub(crate) body: Value,
}

impl Heard {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }
}

impl Client {
    pub(crate) fn new(base: &str) -> Self {
        let config =
            ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(30)));
        Self { agent: config.build().new_agent(), base: base.to_owned() }
    }

    /// `None` when no whole answer came: whatever was asked may or may not have happened.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Option<Heard> {
        self.ask_with(&[], method, path, body)
    }

    pub(crate) fn ask_with(&self, headers: &[(&str, &str)], method: &str, path: &str, body: &str) -> Option<Heard> {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut reply = self.agent.run(request.body(body.to_owned()).unwrap()).ok()?;
        let retry_after = reply.headers().get("retry-after").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let text = reply.body_mut().read_to_string().ok()?;
        let body = serde_json::from_str(&text).ok()?;
        Some(Heard { status: reply.status().as_u16(), retry_after, headers: reply.headers().clone(), body })
    }

    pub(crate) fn get(&self, path: &str) -> Heard {
        self.ask("GET", path, "").unwrap_or_else(|| panic!("no answer to GET {path}"))
    }

    /// What is no JSON.
    pub(crate) fn text(&self, path: &str) -> String {
        self.agent.get(format!("{}{path}", self.base)).call().unwrap().body_mut().read_to_string().unwrap()
    }

    pub(crate) fn put_user(&self, id: &str, name: &str) -> Option<Heard> {
        self.ask("PUT", &format!("/api/v1/users/{id}"), &serde_json::json!({ "name": name }).to_string())
    }
}
