//! What a server asks of PostgreSQL while nothing happens.

use std::time::{Duration, Instant};

use crate::{cluster_kit::Cluster, postgres_kit::Database};

/// A second, that is what an idle server may ask.
const GOAL: f64 = 5.0;
/// A machine with other work is no reason to fail.
const ROOM: f64 = 4.0;
const WARM_UP: Duration = Duration::from_secs(15);
const MEASURED: Duration = Duration::from_secs(30);

/// Every statement outside of a transaction is one of its own.
fn transactions(database: &Database) -> f64 {
    let all = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    database.value(all).parse().unwrap()
}

#[test]
fn an_idle_server_asks_little() {
    let cluster = Cluster::start(&["http,resp,fanout,jobs"], &[]);
    std::thread::sleep(WARM_UP);
    let (began, before) = (Instant::now(), transactions(&cluster.database));
    std::thread::sleep(MEASURED);
    let asked = (transactions(&cluster.database) - before) / began.elapsed().as_secs_f64();
    println!("an idle server: {asked:.1} transactions/s");
    assert!(asked <= ROOM * GOAL, "{asked:.1} transactions/s");
    // It hears of others all the same.
    assert_eq!(cluster.client(0).get("/readyz").status, 200);
}
