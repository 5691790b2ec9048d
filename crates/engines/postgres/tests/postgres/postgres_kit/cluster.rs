//! PostgreSQL servers of a test's own, which it may kill and promote: on loopback, without passwords, in a temporary
//! folder.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub(crate) struct Server {
    folder: PathBuf,
    pub(crate) port: u16,
}

pub(crate) fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.exists()).max();
    newest.unwrap_or_else(|| PathBuf::from(name))
}

/// PostgreSQL does not run as root; its package brings a user of its own.
pub(crate) fn as_owner(program: &Path) -> Command {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let mut command = if is_root {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn run(name: &str, arguments: &[&str]) {
    let (is_done, said) = try_to(name, arguments);
    assert!(is_done, "{name} {arguments:?}: {said}");
}

fn try_to(name: &str, arguments: &[&str]) -> (bool, String) {
    let output = as_owner(&program(name)).args(arguments).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn fresh_folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("entourage-cluster-{:016x}", rand::random::<u64>()));
    std::fs::create_dir(&folder).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    std::fs::set_permissions(&folder, mode).unwrap();
    folder
}

impl Server {
    pub(crate) fn primary() -> Self {
        Self::primary_with("", &[])
    }

    /// With lines at the end of its configuration, and files beside it that it alone may read.
    pub(crate) fn primary_with(lines: &str, files: &[(&str, &str)]) -> Self {
        let folder = fresh_folder();
        run("initdb", &["-D", &data(&folder), "--username=entourage", "--auth=trust", "--locale=C.UTF-8", "-N"]);
        let server = Self { folder, port: free_port() };
        for (name, text) in files {
            server.put(name, text);
        }
        let configuration = server.folder.join("data").join("postgresql.conf");
        let before = std::fs::read_to_string(&configuration).unwrap();
        std::fs::write(&configuration, format!("{before}\n{lines}\n")).unwrap();
        server.start();
        server
    }

    /// Follows this one, asynchronously.
    pub(crate) fn standby(&self) -> Self {
        let folder = fresh_folder();
        let from = format!("host=127.0.0.1 port={} user=entourage", self.port);
        run("pg_basebackup", &["-D", &data(&folder), "-d", &from, "-R", "-X", "stream", "-c", "fast"]);
        let server = Self { folder, port: free_port() };
        server.start();
        server
    }

    pub(crate) fn start(&self) {
        let options = format!("-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories=", self.port);
        let log = self.folder.join("log");
        let (data, log) = (data(&self.folder), log.to_str().unwrap().to_owned());
        run("pg_ctl", &["start", "-w", "-D", &data, "-l", &log, "-o", &options]);
    }

    /// A file in its folder. Keys have to belong to whoever runs PostgreSQL.
    fn put(&self, name: &str, text: &str) {
        let data = self.folder.join("data");
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&data).unwrap());
        let file = data.join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&file, Some(owner), None).unwrap();
    }

    pub(crate) fn promote(&self) {
        run("pg_ctl", &["promote", "-w", "-D", &data(&self.folder)]);
    }

    /// The postmaster and everything it has started.
    fn processes(&self) -> Vec<String> {
        let file = std::fs::read_to_string(self.folder.join("data").join("postmaster.pid")).unwrap();
        let postmaster = file.lines().next().unwrap().trim().to_owned();
        let children = std::fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).unwrap();
        let children: Vec<String> = children.split_whitespace().map(str::to_owned).collect();
        std::iter::once(postmaster).chain(children).collect()
    }

    /// All of it, as a whole machine would stop.
    pub(crate) fn signal(&self, signal: &str) {
        // The postmaster first: it starts nothing then.
        for process in self.processes() {
            let _ = Command::new("kill").args([signal, &process]).stderr(Stdio::null()).status().unwrap();
        }
    }

    /// Without a chance to write anything.
    pub(crate) fn kill_nine(&self) {
        let processes = self.processes();
        self.signal("-KILL");
        while processes.iter().any(|process| {
            Path::new("/proc").join(process).join("fd").read_dir().is_ok_and(|mut open| open.next().is_some())
        }) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// As a crash would.
    pub(crate) fn kill(&self) {
        run("pg_ctl", &["stop", "-w", "-m", "immediate", "-D", &data(&self.folder)]);
    }

    /// As an operator does: sessions end, and everything is written.
    pub(crate) fn stop_fast(&self) {
        run("pg_ctl", &["stop", "-w", "-m", "fast", "-D", &data(&self.folder)]);
    }

    pub(crate) fn restart(&self) {
        self.kill();
        self.start();
    }

    /// A program of PostgreSQL's on this server: `pg_dump`, `pg_restore`, `psql`.
    pub(crate) fn tool(&self, name: &str, arguments: &[&str]) {
        let port = self.port.to_string();
        run(name, &[&["-h", "127.0.0.1", "-p", &port, "-U", "entourage"], arguments].concat());
    }

    /// A file beside its data.
    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://entourage@127.0.0.1:{}/{database}", self.port)
    }

    pub(crate) async fn raw(&self) -> tokio_postgres::Client {
        let config = format!("host=127.0.0.1 port={} user=entourage dbname=postgres", self.port);
        let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

/// One URL of several servers, of which one takes writes.
pub(crate) fn url_of(servers: &[&Server]) -> String {
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    format!("postgres://entourage@{}/postgres?target_session_attrs=read-write", hosts.join(","))
}

fn data(folder: &Path) -> String {
    folder.join("data").to_str().unwrap().to_owned()
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be killed already.
        try_to("pg_ctl", &["stop", "-w", "-m", "immediate", "-D", &data(&self.folder)]);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
