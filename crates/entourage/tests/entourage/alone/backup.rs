//! Backup and restore of PostgreSQL by the commands of the page for operators, while two servers write.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    cluster_kit::{serve, wait_for},
    documents_kit::{blocks::blocks, shell::clear_settings},
    postgres_kit::cluster::{Server, as_owner, program},
    server_kit::{Client, Folder, Heard, Serving, command, text},
};

const ALL: &str = "http,resp,fanout,jobs";
const PATIENCE: Duration = Duration::from_secs(30);
/// For so long servers write before the backup, and after it.
const WRITING: Duration = Duration::from_millis(1_200);
const WRITERS: usize = 4;
/// When a write was sent or answered: before the backup began, while it was made, after it was there, and no more writes.
const BEFORE: u8 = 0;
const MEANWHILE: u8 = 1;
const AFTER: u8 = 2;
const END: u8 = 3;

/// What the page says, as it says it, but for the names of machines and folders.
struct Operator<'a> {
    page: String,
    server: &'a Server,
    standby_port: u16,
}

impl<'a> Operator<'a> {
    fn of(server: &'a Server) -> Self {
        let page = std::fs::read_to_string(format!("{}/../../docs/operations.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let standby_port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { page, server, standby_port }
    }

    /// Every command of the block that has this one.
    fn runs(&self, known_by: &str) {
        let block =
            blocks(&self.page).into_iter().find(|block| block.language == "bash" && block.text.contains(known_by));
        let typed = block.unwrap_or_else(|| panic!("the page has no {known_by}")).text;
        let typed =
            typed.replace("/backups/", &self.server.file("")).replace("/var/lib/postgresql/", &self.server.file(""));
        let typed = typed
            .replace("@db1/", &format!("@127.0.0.1:{}/", self.server.port))
            .replace("db1", "127.0.0.1")
            .replace("5433", &self.standby_port.to_string());
        let folders = [program("pg_ctl"), Path::new(env!("CARGO_BIN_EXE_entourage")).to_owned()];
        let folders = folders.each_ref().map(|file| text(file.parent().unwrap_or(Path::new("/"))));
        let path = format!("{}:{}", folders.join(":"), std::env::var("PATH").unwrap());
        let mut shell = as_owner(Path::new("bash"));
        clear_settings(&mut shell);
        shell.args(["-e", "-c", &typed]).env("PATH", path).env("PGPORT", self.server.port.to_string());
        // What keeps running must not keep the pipe.
        let said = self.server.file("said");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&said).unwrap();
        let status = shell.stdout(file.try_clone().unwrap()).stderr(file).status().unwrap();
        assert!(status.success(), "{typed}\n{}", std::fs::read_to_string(said).unwrap());
    }
}

struct Acked {
    follower: String,
    target: String,
    token: String,
    sent: u8,
    answered: u8,
}

/// Everything that was written around a backup, and cursors of events of both sides.
struct History {
    acked: Vec<Acked>,
    before: String,
    after: String,
}

fn with_token(client: &Client, token: &str, path: &str) -> Heard {
    client.ask_with(&[("entourage-token", token)], "GET", path, "").expect("an answer")
}

fn events_to_the_end(client: &Client, mut after: String) -> (String, usize) {
    let mut count = 0;
    loop {
        let heard = client.get(&format!("/api/v1/events?limit=200{after}"));
        assert_eq!(heard.status, 200, "{heard:?}");
        count += heard.body["data"].as_array().unwrap().len();
        if let Some(cursor) = heard.body["next_cursor"].as_str() {
            after = format!("&after={cursor}");
        }
        if heard.body["has_more"] != true {
            return (after, count);
        }
    }
}

impl History {
    /// Follows over both servers, without a pause, while the backup is made.
    fn around(servers: &[Serving], back_up: impl FnOnce()) -> Self {
        let (phase, acked) = (AtomicU8::new(BEFORE), Mutex::new(Vec::new()));
        let client = Client::new(&servers[0].base);
        let mut before = String::new();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (client, phase, acked) = (Client::new(&servers[writer % servers.len()].base), &phase, &acked);
                scope.spawn(move || {
                    let follower = format!("fan{writer}");
                    for number in 0.. {
                        let (target, sent) = (format!("t{number}"), phase.load(Ordering::Acquire));
                        if sent == END {
                            return;
                        }
                        let path = format!("/api/v1/users/{follower}/following/{target}");
                        let heard = client.ask("PUT", &path, "").expect("an answer");
                        assert_eq!(heard.status, 201, "{heard:?}");
                        let (token, answered) =
                            (heard.header("entourage-token").to_owned(), phase.load(Ordering::Acquire));
                        acked.lock().unwrap().push(Acked { follower: follower.clone(), target, token, sent, answered });
                    }
                });
            }
            std::thread::sleep(WRITING);
            (before, _) = events_to_the_end(&client, String::new());
            phase.store(MEANWHILE, Ordering::Release);
            back_up();
            phase.store(AFTER, Ordering::Release);
            std::thread::sleep(WRITING);
            phase.store(END, Ordering::Release);
        });
        let (after, _) = events_to_the_end(&client, before.clone());
        let history = Self { acked: acked.into_inner().unwrap(), before, after };
        let (kept, lost) = (history.kept().count(), history.lost().count());
        println!("{} follows: {kept} before the backup, {lost} after it", history.acked.len());
        assert!(kept > 20 && lost > 20, "they wrote too little");
        history
    }

    fn kept(&self) -> impl Iterator<Item = &Acked> {
        self.acked.iter().filter(|acked| acked.answered == BEFORE)
    }

    fn lost(&self) -> impl Iterator<Item = &Acked> {
        self.acked.iter().filter(|acked| acked.sent == AFTER)
    }

    /// Of a server on what was restored.
    fn assert_restored(&self, client: &Client, url: &str) {
        self.assert_kept(client);
        self.assert_lost(client);
        // As many changes as were lost, and more: their numbers are given out again.
        let mut many = (0..self.acked.len()).map(|number| format!("later{number}"));
        loop {
            let follow = |target: String| json!({ "op": "follow", "follower": "later", "target": target });
            let operations: Vec<Value> = many.by_ref().take(200).map(follow).collect();
            if operations.is_empty() {
                break;
            }
            let body = json!({ "operations": operations }).to_string();
            assert_eq!(client.ask("POST", "/api/v1/follows:batch", &body).expect("an answer").status, 200);
        }
        self.assert_lost(client);
        self.assert_kept(client);
        let verified = command(&["verify"]).env("ENTOURAGE_STORE__URL", url).output().unwrap();
        assert!(verified.status.success(), "{verified:?}");
        assert!(String::from_utf8_lossy(&verified.stdout).contains("clean"), "{verified:?}");
    }

    fn assert_kept(&self, client: &Client) {
        let mut kept: HashMap<&str, Vec<&Acked>> = HashMap::new();
        for acked in self.kept() {
            kept.entry(&acked.follower).or_default().push(acked);
        }
        for (follower, acked) in kept {
            let (mut listed, mut total, mut cursor) = (HashSet::new(), Value::Null, String::new());
            loop {
                let page = client.get(&format!("/api/v1/users/{follower}/following?limit=200{cursor}"));
                assert_eq!(page.status, 200, "{page:?}");
                let ids =
                    page.body["data"].as_array().unwrap().iter().map(|user| user["id"].as_str().unwrap().to_owned());
                listed.extend(ids);
                total = if total.is_null() { page.body["total"].clone() } else { total };
                let Some(next) = page.body["next_cursor"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            assert_eq!(total, listed.len(), "the count of {follower} is that of the list");
            assert_eq!(client.get(&format!("/api/v1/users/{follower}")).body["counts"]["following"], listed.len());
            for one in &acked {
                assert!(listed.contains(&one.target), "{follower} lost {}", one.target);
            }
            let path = format!("/api/v1/users/{follower}/following?limit=1");
            for one in [acked[0], acked[acked.len() - 1]] {
                assert_eq!(with_token(client, &one.token, &path).status, 200, "a token from before is answered");
            }
        }
    }

    fn assert_lost(&self, client: &Client) {
        let lost: Vec<&Acked> = self.lost().collect();
        for one in [lost[0], lost[lost.len() / 2], lost[lost.len() - 1]] {
            for path in [
                format!("/api/v1/users/{}/is-following/{}", one.follower, one.target),
                format!("/api/v1/users/{}/following?limit=1", one.follower),
            ] {
                let heard = with_token(client, &one.token, &path);
                assert_eq!((heard.status, heard.code()), (503, "stale"), "{path}: {heard:?}");
            }
        }
        let heard = client.get(&format!("/api/v1/events?limit=1{}", self.after));
        assert_eq!((heard.status, heard.code()), (410, "events_expired"), "{heard:?}");
        let resumed = heard.body["resume_cursor"].as_str().expect("where to go on").to_owned();
        events_to_the_end(client, format!("&after={resumed}"));
        events_to_the_end(client, self.before.clone());
    }

    /// A server that ran before answers from what it holds, not at all, or `stale`; never with what was before the write.
    fn wait_until_noticed(&self, client: &Client) {
        let one = self.lost().last().unwrap();
        let path = format!("/api/v1/users/{}/is-following/{}", one.follower, one.target);
        let (_, took) = wait_for("it notices", PATIENCE, || {
            let heard = with_token(client, &one.token, &path);
            assert!(heard.status != 200 || heard.body["following"] == true, "silently old: {heard:?}");
            (heard.code() == "stale").then_some(())
        });
        wait_for("it is ready", PATIENCE, || (client.get("/readyz").status == 200).then_some(()));
        println!("a server that ran before noticed after {:.1} s", took.as_secs_f64());
    }
}

/// In the very same PostgreSQL, while it runs: nothing of it changes but the database.
#[test]
fn a_dump_is_restored_while_servers_write() {
    let (postgres, folder) = (Server::primary(), Folder::new());
    let operator = Operator::of(&postgres);
    postgres.tool("createdb", &["social"]);
    let live: Vec<Serving> =
        ["one", "two"].iter().map(|name| serve(&postgres.url("social"), &folder.join(name), ALL, &[])).collect();
    let history = History::around(&live, || operator.runs("pg_dump"));
    operator.runs("pg_restore");
    let mut restored = serve(&postgres.url("restored"), &folder.join("restored"), ALL, &[]);
    history.assert_restored(&Client::new(&restored.base), &postgres.url("restored"));
    // Those on the first one go on.
    let last = history.lost().last().unwrap();
    let path = format!("/api/v1/users/{}/is-following/{}", last.follower, last.target);
    for server in &live {
        assert_eq!(with_token(&Client::new(&server.base), &last.token, &path).body["following"], true);
    }
    // Then it takes the place of the first one, under servers that run.
    restored.signal("-TERM");
    assert_eq!(restored.wait().0, Some(0));
    operator.runs("RENAME TO");
    for server in &live {
        let client = Client::new(&server.base);
        history.wait_until_noticed(&client);
        history.assert_lost(&client);
        history.assert_kept(&client);
    }
}

#[test]
fn a_standby_is_promoted_as_the_restore() {
    let lines = "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''";
    let (postgres, folder) = (Server::primary_with(lines, &[]), Folder::new());
    let operator = Operator::of(&postgres);
    postgres.tool("createdb", &["social"]);
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", postgres.port, operator.standby_port);
    let url = format!("postgres://entourage@{hosts}/social?target_session_attrs=read-write");
    let live: Vec<Serving> = ["one", "two"].iter().map(|name| serve(&url, &folder.join(name), ALL, &[])).collect();
    let standby = Standby(postgres.file("standby"));
    let history = History::around(&live, || {
        operator.runs("pg_basebackup");
        // From here on it hears nothing: what comes is lost.
        standby.cut_off(operator.standby_port);
    });
    postgres.kill();
    operator.runs("promote");
    for server in &live {
        let client = Client::new(&server.base);
        history.wait_until_noticed(&client);
    }
    let promoted = format!("postgres://entourage@127.0.0.1:{}/social", operator.standby_port);
    history.assert_restored(&Client::new(&live[0].base), &promoted);
    history.assert_lost(&Client::new(&live[1].base));
    let fresh = serve(&promoted, &folder.join("fresh"), ALL, &[]);
    history.assert_lost(&Client::new(&fresh.base));
}

/// The data of a PostgreSQL that the page has started; stopped when the test ends.
struct Standby(String);

impl Standby {
    fn cut_off(&self, port: u16) {
        let port = port.to_string();
        let psql = |statement: &str| {
            let mut psql: Command = as_owner(&program("psql"));
            psql.args(["-h", "127.0.0.1", "-p", &port, "-U", "entourage", "-d", "postgres", "-Atc", statement]);
            let output = psql.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        psql("ALTER SYSTEM SET primary_conninfo = ''");
        psql("SELECT pg_reload_conf()");
        wait_for("it hears nothing", PATIENCE, || {
            (psql("SELECT count(*) FROM pg_stat_wal_receiver") == "0").then_some(())
        });
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        let _ = as_owner(&program("pg_ctl")).args(["stop", "-w", "-m", "immediate", "-D", &self.0]).output();
    }
}
