//! Servers that are measured side by side, each a process of its own on loopback: Entourage, Redis, PostgreSQL, and a
//! no-op server.

mod function;
mod null;
mod postgres;
mod redis;
mod two_hops;
mod usual;

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

pub(crate) use self::{
    function::Function,
    null::run as run_null,
    postgres::Postgres,
    usual::{Usual, ask_usually, processor_seconds},
};
use crate::place;

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// One server under load.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) address: String,
    child: Child,
    /// Its files are removed with it.
    folder: Option<PathBuf>,
}

impl Peer {
    /// The embedded store in `folder`, over RESP.
    pub(crate) fn entourage(folder: &Path) -> Result<Self> {
        let (address, http) = (free_address()?, free_address()?);
        let mut command = serve(&http, &address)?;
        command.arg("--data").arg(folder);
        Self::start("Entourage", command, address, None)
    }

    /// PostgreSQL at `url`, over RESP, with a cache of that size in front of it.
    pub(crate) fn entourage_before(url: &str, folder: PathBuf, cache: &str) -> Result<Self> {
        let (address, http) = (free_address()?, free_address()?);
        let mut command = serve(&http, &address)?;
        command.arg("--data").arg(&folder).env("ENTOURAGE_STORE__URL", url).env("ENTOURAGE_CACHE__BUDGET", cache);
        Self::start("Entourage", command, address, Some(folder))
    }

    pub(crate) fn null() -> Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["null", &address]);
        Self::start("nothing", command, address, None)
    }

    /// Redis without persistence, as it is fastest.
    pub(crate) fn redis(folder: PathBuf) -> Result<Self> {
        let address = free_address()?;
        let port = address.rsplit(':').next().unwrap_or_default().to_owned();
        std::fs::create_dir_all(&folder)?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--dir"]).arg(&folder);
        Self::start("Redis", command, address, Some(folder)).context("install it with: apt-get install redis-server")
    }

    fn start(name: &'static str, mut command: Command, address: String, folder: Option<PathBuf>) -> Result<Self> {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().with_context(|| name.to_owned())?;
        let peer = Self { name, address, child, folder };
        let began = Instant::now();
        while peer.ping().is_err() {
            ensure!(began.elapsed() < START_TIMEOUT, "{name} did not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(peer)
    }

    fn ping(&self) -> Result<()> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer)?;
        Ok(())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stop(mut self) -> Result<()> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        self.child.wait()?;
        if let Some(folder) = self.folder.take() {
            place::remove(&folder)?;
        }
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// Released at once; nothing else on this machine is likely to take it in between.
pub(crate) fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// `entourage serve` without limits that load would hit.
pub(crate) fn serve(http: &str, resp: &str) -> Result<Command> {
    let mut command = binary()?;
    for name in ["FOLLOWS_PER_HOUR", "FLIPS_PER_DAY"] {
        command.env(format!("ENTOURAGE_LIMITS__{name}"), "0");
    }
    command.args(["serve", "--http", http, "--resp", resp]);
    Ok(command)
}

/// Built beside this program.
pub(crate) fn binary() -> Result<Command> {
    let path: PathBuf = std::env::current_exe()?.with_file_name("entourage");
    ensure!(path.exists(), "{} is missing: cargo build --release -p entourage", path.display());
    Ok(Command::new(path))
}

/// The result of one load run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Answers a second.
    pub(crate) rate: f64,
    /// Microseconds of the server's processor time for each.
    pub(crate) processor: f64,
    /// The 99th percentile in microseconds.
    pub(crate) p99: f64,
}

/// The same client for every server: `entourage bench`, as fast as answers come. Nothing may be refused.
pub(crate) fn ask(peer: &Peer, command: &str, connections: usize, pipeline: usize, more: &[&str]) -> Result<Load> {
    let (load, errors) = ask_anyway(peer, command, connections, pipeline, more)?;
    ensure!(errors.is_empty(), "{} refused: {errors}", peer.name);
    Ok(load)
}

/// The same where some are refused, such as a follow of oneself; and what was refused.
pub(crate) fn ask_anyway(
    peer: &Peer,
    command: &str,
    connections: usize,
    pipeline: usize,
    more: &[&str],
) -> Result<(Load, String)> {
    let output = binary()?
        .args(["bench", "--json", "--rate", "0", "--resp", &peer.address, "--command", command])
        .args(["--connections", &connections.to_string(), "--pipeline", &pipeline.to_string()])
        .args(["--pid", &peer.id().to_string()])
        .args(more)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} under load: {said}", peer.name);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let errors = report["total"]["errors"].as_object().filter(|errors| !errors.is_empty());
    let errors = errors.map(|errors| format!("{errors:?}")).unwrap_or_default();
    let number = |value: &serde_json::Value| value.as_f64().context("the client told nothing");
    let load = Load {
        rate: number(&report["rate"])?,
        processor: number(&report["server"]["processor"])?,
        p99: number(&report["total"]["p99"])?,
    };
    Ok((load, errors))
}
