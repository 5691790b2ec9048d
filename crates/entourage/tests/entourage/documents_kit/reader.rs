//! A reader with two terminals: in one a server runs while a command needs it, in the other commands are typed.

use std::{net::TcpListener, os::unix::fs::symlink, path::PathBuf, process::Command};

use super::{
    blocks::{Example, examples, settled},
    shell::{Shell, Variables, clear_settings},
};
use crate::server_kit::{Folder, Serving, text};

/// Places that documents name; here each is below the test's own folder.
const PLACES: &[&str] = &["/var/lib/entourage", "/etc/entourage", "/backups", "/tmp/"];
/// Stands before a place until all are found, because the test's own folder may be in one of them.
const FOUND: &str = "\u{1}";

pub(crate) struct Reader {
    folder: Folder,
    http: u16,
    resp: u16,
    variables: Variables,
    shell: Shell,
    /// How a server is started, and the one that runs.
    serve: String,
    server: Option<Serving>,
    pub(crate) commands: usize,
}

impl Reader {
    /// In an empty folder that has the binary where a build leaves it and on the path.
    pub(crate) fn new() -> Self {
        let folder = Folder::new();
        for place in ["target/release", "bin", "var/lib", "etc/entourage", "backups", "tmp", "home"] {
            std::fs::create_dir_all(folder.join(place)).unwrap();
        }
        let binary = env!("CARGO_BIN_EXE_entourage");
        symlink(binary, folder.join("target/release/entourage")).unwrap();
        symlink(binary, folder.join("bin/entourage")).unwrap();
        let [http, resp] = free_ports();
        let path = format!("{}:{}", text(&folder.join("bin")), std::env::var("PATH").unwrap());
        let variables = vec![
            ("PATH", path),
            ("ENTOURAGE_SERVER", format!("http://127.0.0.1:{http}")),
            ("ENTOURAGE_HTTP__LISTEN", format!("127.0.0.1:{http}")),
            ("ENTOURAGE_RESP__LISTEN", format!("127.0.0.1:{resp}")),
            ("HOME", text(&folder.join("home")).to_owned()),
        ];
        // On a terminal there is no bar.
        std::fs::write(folder.join("home/.curlrc"), "silent\nshow-error\n").unwrap();
        let shell = Shell::start(&folder.join(""), &variables);
        let serve = format!("entourage serve --data {}", text(&folder.join("var/lib/entourage")));
        Self { folder, http, resp, variables, shell, serve, server: None, commands: 0 }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What is typed before a document is read, for what it takes for granted.
    pub(crate) fn prepare(&mut self, commands: &[&str]) {
        for command in commands {
            self.try_out(&Example { command: (*command).to_owned(), printed: None });
        }
        self.commands = 0;
    }

    /// Tries every example out. With ENTOURAGE_TEST_WRITE_PAGES, what a command prints now is written into the document.
    pub(crate) fn read(&mut self, name: &str) {
        let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
        let markdown = std::fs::read_to_string(&path).unwrap();
        let is_writing = std::env::var_os("ENTOURAGE_TEST_WRITE_PAGES").is_some();
        let mut written = markdown.clone();
        for example in super::blocks::blocks(&markdown).iter().flat_map(examples) {
            let printed = self.try_out(&example);
            self.commands += 1;
            let Some(wanted) = &example.printed else { continue };
            if is_writing && settled(&printed) != settled(wanted) {
                let place = |printed: &str| format!("$ {}\n{printed}", example.command);
                written = written.replacen(&place(wanted), &place(&format!("{}\n", printed.trim())), 1);
            } else {
                assert_eq!(settled(&printed), settled(wanted), "{name}: {}\nprinted\n{printed}", example.command);
            }
        }
        if written != markdown {
            std::fs::write(&path, written).unwrap();
        }
    }

    /// What it printed, with the document's own places.
    fn try_out(&mut self, example: &Example) -> String {
        let typed = self.here(&example.command);
        if typed.starts_with("make ") {
            try_make(&typed);
            return String::new();
        }
        if is_serve(&typed) {
            // Where one runs already, this is how the reader starts it the next time.
            self.stop();
            self.serve = typed;
            self.start();
            return String::new();
        }
        self.make_room_for(&typed);
        let (code, printed) = self.shell.run(&typed);
        assert_eq!(code, 0, "{}\nprinted\n{printed}", example.command);
        if typed.starts_with("kill ") {
            // The reader sees it end.
            let mut server = self.server.take().expect("nothing runs that could be killed");
            assert_eq!(server.wait().0, None, "it was not killed");
        }
        self.there(&printed)
    }

    /// A server runs while a command asks one, and none while a command opens its folder itself.
    fn make_room_for(&mut self, typed: &str) {
        let folder = self.serve.split("--data ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        let opens = typed.split_whitespace().any(|word| word == folder) && !typed.contains("doctor");
        let asks = ["curl ", "redis-cli ", "entourage "].iter().any(|word| typed.contains(word));
        if opens {
            self.stop();
        } else if asks && self.server.is_none() {
            self.start();
        }
    }

    fn start(&mut self) {
        let mut serve = Command::new("bash");
        serve.args(["-c", &format!("exec {}", with_variables(&self.serve))]).current_dir(self.path(""));
        clear_settings(&mut serve);
        serve.envs(self.variables.iter().map(|(name, value)| (name, value)));
        self.server = Some(Serving::start_as(&mut serve));
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.signal("-TERM");
            assert_eq!(server.wait().0, Some(0));
        }
    }

    /// Places and ports of the document, as they are here.
    fn here(&self, text_there: &str) -> String {
        let mut typed = text_there.replace(":7070", &format!(":{}", self.http));
        typed = typed.replace(":7071", &format!(":{}", self.resp)).replace("-p 7071", &format!("-p {}", self.resp));
        for place in PLACES {
            typed = typed.replace(place, &format!("{FOUND}{}", place.trim_start_matches('/')));
        }
        typed.replace(FOUND, text(&self.path("")))
    }

    fn there(&self, printed: &str) -> String {
        let printed = printed.replace(&format!(":{}", self.http), ":7070").replace(text(&self.path("")), "/");
        printed.replace(&format!(":{}", self.resp), ":7071")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.server = None;
    }
}

/// `NAME=value command` as `env NAME=value command`, which can be waited for.
fn with_variables(line: &str) -> String {
    let is_variable = line.split(' ').next().is_some_and(|word| word.contains('='));
    if is_variable { format!("env {line}") } else { line.to_owned() }
}

fn is_serve(typed: &str) -> bool {
    let mut words = typed.split_whitespace().skip_while(|word| word.contains('='));
    words.next().is_some_and(|word| word.ends_with("entourage")) && words.next() == Some("serve")
}

/// These build for an hour or run this very test; whether they are there can be asked.
fn try_make(typed: &str) {
    let typed = typed.split(" #").next().unwrap_or(typed).replacen("make", "make --dry-run", 1);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let output = Command::new("bash").args(["-c", &typed]).current_dir(root).output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty(), "{typed}: {output:?}");
}

/// Both at once, so that they differ.
fn free_ports() -> [u16; 2] {
    let held = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}
