//! Two real servers on a PostgreSQL of the test's own, which it may kill, cut off and promote.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet},
};

use tokio::runtime::Runtime;
use tokio_postgres::{Client as Session, NoTls, SimpleQueryMessage};

use super::history::Edge;
use crate::{
    clock_kit::{Offset, libfaketime},
    postgres_kit::{
        cluster::{Server, url_of},
        network::Network,
    },
    server_kit::{Client, Folder, Serving, command, text},
};

pub(super) const SERVERS: usize = 2;

/// What a fault needs of its world.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Setup {
    pub(super) standby: Option<Replication>,
    /// A network before PostgreSQL that can be cut.
    pub(super) network: bool,
    /// Servers whose clocks can be set.
    pub(super) clocks: bool,
    pub(super) settings: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Replication {
    Asynchronous,
    Synchronous,
}

/// Dropped in this order: servers before their PostgreSQL.
pub(super) struct World {
    pub(super) servers: Vec<Serving>,
    pub(super) clocks: Vec<Offset>,
    pub(super) network: Option<Network>,
    /// Sessions that a fault keeps open until it heals.
    pub(super) held: RefCell<Vec<Session>>,
    pub(super) standby: Option<Server>,
    pub(super) primary: Server,
    pub(super) is_promoted: Cell<bool>,
    /// What earlier faults left behind: whether each edge is there.
    pub(super) kept: RefCell<HashMap<Edge, bool>>,
    url: String,
    runtime: Runtime,
    folder: Folder,
}

impl World {
    pub(super) fn start(setup: Setup) -> Self {
        let (primary, folder) = (Server::primary(), Folder::new());
        let standby = setup.standby.map(|_| primary.standby());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let network = setup.network.then(|| runtime.block_on(Network::before(primary.port)));
        let servers: Vec<&Server> = std::iter::once(&primary).chain(&standby).collect();
        let url = network.as_ref().map_or_else(
            || url_of(&servers),
            |network| format!("postgres://entourage@127.0.0.1:{}/postgres", network.port),
        );
        let clocks = if setup.clocks { SERVERS } else { 0 };
        let clocks = (0..clocks).map(|index| Offset::new(folder.join(&format!("clock-{index}")))).collect();
        let mut world = Self {
            servers: Vec::new(),
            clocks,
            network,
            held: RefCell::default(),
            standby,
            primary,
            is_promoted: Cell::new(false),
            kept: RefCell::default(),
            url,
            runtime,
            folder,
        };
        if setup.standby == Some(Replication::Synchronous) {
            // After the standby was copied: it waits for nobody once it is promoted.
            world.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
            world.query("SELECT pg_reload_conf()");
        }
        for index in 0..SERVERS {
            let server = world.serve(index, setup.settings);
            world.servers.push(server);
        }
        world
    }

    fn serve(&self, index: usize, settings: &[(&str, &str)]) -> Serving {
        let data = self.folder.join(&format!("server-{index}"));
        let mut command = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
        command.env("ENTOURAGE_STORE__URL", &self.url).env("ENTOURAGE_USERS__AUTO_CREATE", "true");
        command.envs(settings.iter().map(|(name, value)| (format!("ENTOURAGE_{name}"), *value)));
        if let Some(clock) = self.clocks.get(index) {
            clock.apply(&mut command, &libfaketime());
        }
        Serving::start_as(&mut command)
    }

    pub(super) fn bases(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.base.clone()).collect()
    }

    pub(super) fn client(&self, server: usize) -> Client {
        Client::new(&self.servers[server].base)
    }

    /// A number that a server measures of itself.
    pub(super) fn metric(&self, server: usize, name: &str) -> u64 {
        let text = self.client(server).text("/metrics");
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no metric {name}"))
    }

    /// How many servers say that PostgreSQL is away.
    pub(super) fn open_breakers(&self) -> u64 {
        (0..SERVERS).map(|server| self.metric(server, "entourage_breaker_open ")).sum()
    }

    /// How often they have noticed that.
    pub(super) fn breaker_trips(&self) -> u64 {
        (0..SERVERS).map(|server| self.metric(server, "entourage_breaker_trips_total ")).sum()
    }

    /// The PostgreSQL that takes writes.
    fn current(&self) -> &Server {
        self.standby.as_ref().filter(|_| self.is_promoted.get()).unwrap_or(&self.primary)
    }

    pub(super) fn query(&self, statement: &str) -> Vec<String> {
        self.query_on(self.current(), statement)
    }

    pub(super) fn query_on(&self, postgres: &Server, statement: &str) -> Vec<String> {
        self.runtime.block_on(async {
            let rows = postgres.raw().await.simple_query(statement).await;
            let rows = rows.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
            let columns = |message: &SimpleQueryMessage| match message {
                SimpleQueryMessage::Row(row) => {
                    Some((0..row.len()).filter_map(|column| row.get(column)).collect::<Vec<_>>().join(" "))
                }
                _ => None,
            };
            rows.iter().filter_map(columns).collect()
        })
    }

    /// A session in one of its databases that runs this and stays open.
    pub(super) fn hold(&self, database: &str, statements: &str) {
        let config = format!("host=127.0.0.1 port={} user=entourage dbname={database}", self.current().port);
        let session = self.runtime.block_on(async {
            let (session, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
            tokio::spawn(connection);
            session.batch_execute(statements).await.unwrap();
            session
        });
        self.held.borrow_mut().push(session);
    }

    /// Ends what is held, which rolls it back.
    pub(super) fn release(&self) {
        for session in self.held.borrow_mut().drain(..) {
            self.runtime.block_on(session.batch_execute("ROLLBACK")).unwrap();
        }
    }

    /// Follows that are there.
    pub(super) fn stored(&self) -> HashSet<Edge> {
        let rows = self.query("SELECT follower, target FROM entourage.edges WHERE kind = 0 AND state <> 3");
        let edge = |row: &String| {
            let (follower, target) = row.split_once(' ').unwrap();
            Edge { follower: follower.parse().unwrap(), target: target.parse().unwrap() }
        };
        rows.iter().map(edge).collect()
    }

    /// What `entourage verify` finds wrong.
    pub(super) fn verify(&self) -> Option<String> {
        let output = command(&["verify"]).env("ENTOURAGE_STORE__URL", &self.url).output().unwrap();
        let is_clean = output.status.success() && String::from_utf8_lossy(&output.stdout).contains("clean");
        (!is_clean).then(|| format!("{output:?}"))
    }
}
