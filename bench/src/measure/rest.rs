//! Over the wire: the release binary as a process of its own, driven by `wrk` on the same machine.

use std::{
    fs,
    io::{BufWriter, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::{Bench, Subject};
use crate::{
    graph::Graph,
    peers::{binary, free_address, processor_seconds, serve},
    place,
    table::Row,
};

const START_TIMEOUT: Duration = Duration::from_secs(30);
/// A server that used less than this share of a processor for so long has nothing left to do.
const SETTLED_BELOW: f64 = 0.05;
const SETTLED_FOR: Duration = Duration::from_millis(500);
pub(super) const CONNECTIONS: usize = 64;
/// Requests a second.
const HALF_LOAD: u32 = 25_000;
const CHECKS_A_REQUEST: usize = 1_000;
/// Random pairs: nearly all checks are misses, and nearly all follows are new.
const SCRIPT_HEAD: &str = "local users = %USERS%\nmath.randomseed(os.time())\n";

struct Question {
    name: &'static str,
    goal: f64,
    /// How many counted items one request holds.
    each: f64,
    script: String,
}

pub(super) fn measure(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let server = Server::start(&["--data", &subject.folder.display().to_string()])?;
    let mut rows = Vec::new();
    for question in questions() {
        rows.push(put(bench, &server, &question, subject.graph.users)?);
    }
    rows.push(half_load(bench, &server, subject.graph.users)?);
    server.stop()?;
    rows.push(import_csv(bench, subject.graph)?);
    rows.extend(demo(bench)?);
    Ok(rows)
}

/// Repeats one query for a while, for each round.
fn put(bench: &Bench<'_>, server: &Server, question: &Question, users: u32) -> Result<Row> {
    let script = bench.place.root().join("question.lua");
    fs::write(&script, SCRIPT_HEAD.replace("%USERS%", &users.to_string()) + &question.script)?;
    let (mut rates, mut latencies) = (Vec::new(), Vec::new());
    for _ in 0..bench.arguments.repeat {
        let said = ask(server, &script, bench.arguments.seconds)?;
        rates.push(said.rate * question.each);
        latencies.push(said.p99);
    }
    let note = format!(
        "wrk, {CONNECTIONS} connections kept open, client and server on these cores; 99th percentiles {}",
        latencies.join(", ")
    );
    Ok(Row::new(question.name, "/s", rates).at_least(question.goal).note(note))
}

fn questions() -> Vec<Question> {
    vec![
        Question {
            name: "single checks over REST",
            goal: 50e3,
            each: 1.0,
            script: "request = function() return wrk.format('GET', string.format('/api/v1/users/%d/is-following/%d', \
                     math.random(users) - 1, math.random(users) - 1)) end"
                .to_owned(),
        },
        Question {
            name: "checks over REST, 1,000 in a request",
            goal: 2e6,
            each: CHECKS_A_REQUEST as f64,
            script: format!(
                "local bodies = {{}}\nfor b = 1, 64 do local pairs = {{}} for p = 1, {CHECKS_A_REQUEST} do pairs[p] = \
                 string.format('[\"%d\",\"%d\"]', math.random(users) - 1, math.random(users) - 1) end\n bodies[b] = \
                 '{{\"pairs\":[' .. table.concat(pairs, ',') .. ']}}' end\nrequest = function() return \
                 wrk.format('POST', '/api/v1/checks', {{['content-type'] = 'application/json'}}, \
                 bodies[math.random(64)]) end"
            ),
        },
        Question {
            name: "durable follows over REST",
            goal: 15e3,
            each: 1.0,
            script: "request = function() local a = math.random(users) - 1\n local b = (a + math.random(users - 1)) % users\n \
                     return wrk.format('PUT', string.format('/api/v1/users/%d/following/%d', a, b)) end"
                .to_owned(),
        },
    ]
}

pub(super) struct Said {
    pub(super) rate: f64,
    pub(super) p99: String,
}

pub(super) fn ask(server: &Server, script: &Path, seconds: f64) -> Result<Said> {
    let output = Command::new("wrk")
        .args(["-t", "1", "-c", &CONNECTIONS.to_string(), "--latency"])
        .args(["-d", &format!("{}s", seconds.ceil() as u64), "-s"])
        .arg(script)
        .arg(format!("http://{}", server.address))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success() && !text.contains("Non-2xx"), "wrk: {text}");
    let find = |name: &str| text.lines().find_map(|line| Some(line.trim().strip_prefix(name)?.trim().to_owned()));
    let rate = find("Requests/sec:").with_context(|| format!("wrk: {text}"))?.parse()?;
    Ok(Said { rate, p99: find("99%").unwrap_or_default() })
}

/// Half of the goal, on a schedule: latency with headroom.
fn half_load(bench: &Bench<'_>, server: &Server, users: u32) -> Result<Row> {
    let (mut within, mut outside) = (Vec::new(), Vec::new());
    for _ in 0..bench.arguments.repeat {
        let output = binary()?
            .args(["bench", "--json", "--server", &format!("http://{}", server.address)])
            .args(["--rate", &HALF_LOAD.to_string(), "--connections", &CONNECTIONS.to_string()])
            .args(["--users", &users.to_string(), "--seconds", &bench.arguments.seconds.ceil().to_string()])
            .output()?;
        ensure!(output.status.success(), "bench: {}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        within.push(report["server"]["p99_within"].as_f64().context("the server has no measures")? / 1e3);
        outside.push(format!("{:.1} ms", report["total"]["p99"].as_f64().unwrap_or_default() / 1e3));
    }
    let note = format!(
        "{CONNECTIONS} connections on a schedule, one check in five a yes; the bound of the server's own histogram; \
         from when each was due, as the client on the same cores saw it: {}",
        outside.join(", ")
    );
    let name = format!("single checks over REST at {HALF_LOAD} a second, 99th percentile");
    Ok(Row::new(name, "ms", within).at_most(1.0).note(note))
}

/// A CSV file through `entourage import` into a new store, from the start of the process to its end.
fn import_csv(bench: &Bench<'_>, graph: &Graph) -> Result<Row> {
    let (file, folder) = (bench.place.root().join("edges.csv"), bench.place.fresh("store-csv")?);
    let mut writer = BufWriter::new(fs::File::create(&file)?);
    writeln!(writer, "follower,target,created_at")?;
    for index in 0..graph.edges() as usize {
        let (follower, target) = graph.edge(index);
        writeln!(writer, "{},{},{}", follower.0, target.0, graph.time(index, graph.edges() as usize).to_unix())?;
    }
    writer.flush()?;
    drop(writer);
    let mut rates = Vec::new();
    for _ in 0..bench.arguments.repeat {
        let started = Instant::now();
        let output = binary()?.args(["import", "--data"]).arg(&folder).arg(&file).output()?;
        ensure!(output.status.success(), "import: {}", String::from_utf8_lossy(&output.stderr));
        rates.push(graph.edges() as f64 / started.elapsed().as_secs_f64());
        place::remove(&folder)?;
    }
    fs::remove_file(&file)?;
    let note = "the whole command with its last checkpoint, users made on the way";
    Ok(Row::new("import of a CSV file", "/s", rates).at_least(400e3).note(note))
}

/// The demo has people with names, so pages are read there.
fn demo(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let folder = bench.place.fresh("store-demo")?;
    let load = || -> Result<(Server, f64)> {
        let started = Instant::now();
        let server = Server::start(&["--demo", "--data", &folder.display().to_string()])?;
        Ok((server, started.elapsed().as_secs_f64()))
    };
    let mut times = Vec::new();
    for _ in 1..bench.arguments.repeat {
        let (server, seconds) = load()?;
        times.push(seconds);
        server.stop()?;
        place::remove(&folder)?;
    }
    let (server, seconds) = load()?;
    times.push(seconds);
    let loaded = Row::new("demo, to the first answer", "s", times).at_most(3.0);
    let (_, body) = server.get("/api/v1/leaderboards/followers?limit=50")?;
    let board: serde_json::Value = serde_json::from_str(&body)?;
    let rows = board["data"].as_array().context("the leaderboard has no rows")?;
    let ids: Vec<&str> = rows.iter().filter_map(|row| row["id"].as_str()).collect();
    ensure!(!ids.is_empty(), "the leaderboard is empty: {body}");
    let pages = Question {
        name: "pages of 50 with names over REST",
        goal: 15e3,
        each: 1.0,
        script: format!(
            "local ids = {{ '{}' }}\nrequest = function() return wrk.format('GET', '/api/v1/users/' .. \
             ids[math.random(#ids)] .. '/followers?limit=50') end",
            ids.join("', '")
        ),
    };
    let pages = put(bench, &server, &pages, 0)?;
    server.stop()?;
    place::remove(&folder)?;
    Ok(vec![loaded, pages])
}

pub(super) struct Server {
    child: Child,
    pub(super) address: String,
}

impl Server {
    pub(super) fn start(arguments: &[&str]) -> Result<Self> {
        let (address, resp) = (free_address()?, free_address()?);
        let child = serve(&address, &resp)?.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let server = Self { child, address };
        let started = Instant::now();
        while TcpStream::connect(&server.address).is_err() || !server.is_ready() {
            ensure!(started.elapsed() < START_TIMEOUT, "the server did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    fn is_ready(&self) -> bool {
        self.get("/readyz").is_ok_and(|(head, _)| head.starts_with("HTTP/1.1 200"))
    }

    /// Waits until what a start leaves for later is done.
    pub(super) fn settle(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            let before = processor_seconds(self.child.id())?;
            std::thread::sleep(SETTLED_FOR);
            let busy = (processor_seconds(self.child.id())? - before) / SETTLED_FOR.as_secs_f64();
            if busy < SETTLED_BELOW {
                return Ok(());
            }
            ensure!(started.elapsed() < START_TIMEOUT, "the server does not come to rest");
        }
    }

    /// The answer's head and body.
    fn get(&self, path: &str) -> Result<(String, String)> {
        let mut stream = TcpStream::connect(&self.address)?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address)?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
        Ok((head.to_owned(), body.to_owned()))
    }

    pub(super) fn stop(mut self) -> Result<()> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        ensure!(self.child.wait()?.success(), "the server ended otherwise than asked");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
