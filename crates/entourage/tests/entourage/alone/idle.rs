//! What a server asks of PostgreSQL while nothing happens, also after PostgreSQL was restarted.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::{
    cluster_kit::{is_soak, serve, wait_for},
    postgres_kit::cluster::Server,
    server_kit::{Client, Folder, Serving},
};

/// Each with a server of its own, with and without a cache, and the statements a second that it may ask for while idle. Without a
/// cache everything that waits for events asks for itself.
const DATABASES: &[(&str, f64)] = &[("cached", 5.0), ("uncached", 15.0)];
/// A machine with other work is no reason to fail.
const ROOM: f64 = 4.0;
const WARM_UP: Duration = Duration::from_secs(10);
const MEASURED: Duration = Duration::from_secs(15);
const SOAK_MEASURED: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(30);
const ALL: &str = "http,resp,fanout,jobs";

fn query(postgres: &Server, statement: &str) -> Vec<(String, f64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let rows = postgres.raw().await.query(statement, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    })
}

/// How many statements there were in a second, by database.
fn asked(postgres: &Server) -> HashMap<String, f64> {
    query(postgres, "SELECT '', 0.0::double precision FROM (SELECT pg_stat_statements_reset()) AS reset");
    let began = Instant::now();
    std::thread::sleep(if is_soak() { SOAK_MEASURED } else { MEASURED });
    let each = "SELECT datname || ': ' || regexp_replace(query, '\\s+', ' ', 'g'), sum(calls)::double precision \
         FROM pg_stat_statements JOIN pg_database ON dbid = oid WHERE datname LIKE '%cache%' GROUP BY 1 ORDER BY 1";
    let seconds = began.elapsed().as_secs_f64();
    let mut all = HashMap::new();
    for (statement, calls) in query(postgres, each) {
        println!("    {:.2}/s  {statement:.150}", calls / seconds);
        let database = statement.split(':').next().unwrap_or_default().to_owned();
        *all.entry(database).or_default() += calls / seconds;
    }
    all
}

fn check(postgres: &Server, when: &str) {
    let asked = asked(postgres);
    for (database, goal) in DATABASES {
        let statements = asked[*database];
        println!("{database}, {when}: {statements:.1} statements/s");
        assert!(statements <= ROOM * goal, "{database}, {when}: {statements:.1} statements/s");
    }
}

#[test]
fn an_idle_server_asks_little() {
    let lines = "shared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.track = top";
    let (postgres, folder) = (Server::primary_with(lines, &[]), Folder::new());
    postgres.tool("psql", &["-q", "-d", "postgres", "-c", "CREATE EXTENSION pg_stat_statements"]);
    let settings = [&[][..], &[("CACHE__BUDGET", "0")]];
    let start = |((database, _), settings): (&(&str, f64), &[(&str, &str)])| {
        postgres.tool("createdb", &[database]);
        serve(&postgres.url(database), &folder.join(database), ALL, settings)
    };
    let servers: Vec<Serving> = DATABASES.iter().zip(settings).map(start).collect();
    let clients: Vec<Client> = servers.iter().map(|server| Client::new(&server.base)).collect();
    for client in &clients {
        assert_eq!(client.ask("PUT", "/api/v1/users/fan/following/star", "").expect("an answer").status, 201);
    }
    std::thread::sleep(WARM_UP);
    check(&postgres, "idle");
    postgres.restart();
    for client in &clients {
        wait_for("it is back", PATIENCE, || (client.get("/readyz").status == 200).then_some(()));
    }
    std::thread::sleep(WARM_UP);
    check(&postgres, "idle after a restart of PostgreSQL");
    // It hears of what happens all the same.
    for client in &clients {
        assert_eq!(client.ask("PUT", "/api/v1/users/fan/following/other", "").expect("an answer").status, 201);
        assert_eq!(client.get("/api/v1/users/fan/is-following/other").body["following"], true);
    }
}
