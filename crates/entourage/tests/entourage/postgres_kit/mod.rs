//! A real PostgreSQL, with a database of its own for each test.

/// PostgreSQL servers of a test's own.
#[allow(dead_code, reason = "tests of the engine do more with them")]
#[path = "../../../../engines/postgres/tests/postgres/postgres_kit/cluster.rs"]
pub(crate) mod cluster;

/// A network before one of them.
#[path = "../../../../engines/postgres/tests/postgres/postgres_kit/network.rs"]
pub(crate) mod network;

use std::process::Output;

use crate::server_kit::command;

/// A database of a test's own: commands have a schema of one name.
pub(crate) struct Database {
    pub(crate) url: String,
    name: String,
    server: String,
}

fn query(url: &str, statement: &str) -> Vec<tokio_postgres::SimpleQueryMessage> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("PostgreSQL answers");
        let talking = tokio::spawn(connection);
        let rows = client.simple_query(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        drop(client);
        talking.await.unwrap().unwrap();
        rows
    })
}

impl Database {
    pub(crate) fn new() -> Self {
        // A suite that cannot run is red, not skipped.
        let server = std::env::var("ENTOURAGE_TEST_POSTGRES")
            .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
        let name = format!("commands_{:016x}", rand::random::<u64>());
        query(&server, &format!("CREATE DATABASE {name}"));
        let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
        Self { url, name, server }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        command(arguments).env("ENTOURAGE_STORE__URL", &self.url).output().unwrap()
    }

    pub(crate) fn value(&self, statement: &str) -> String {
        let rows = query(&self.url, &format!("SET search_path TO entourage; {statement}"));
        let row = rows.iter().rev().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        row.expect("a row").get(0).unwrap_or_default().to_owned()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        query(&self.server, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}
