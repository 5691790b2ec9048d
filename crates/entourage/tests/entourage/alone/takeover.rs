//! Two servers on one PostgreSQL: the one that does a job is killed, or paused for a while. The other one takes over soon,
//! every edge changes once, and the count is exact.

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    cluster_kit::{Cluster, id_of, is_soak, lease, wait_for},
    import_kit::{numbers, report},
    server_kit::{Client, Folder, text},
};

/// So many that the job is in the middle when its server goes, and the test ends within a minute; 100,000 in a soak.
const EDGES: usize = 20_000;
const SOAK_EDGES: usize = 100_000;
/// Edges of one commit at most.
const CHUNK: u64 = 1_000;
/// What is promised after a kill and after a pause. Machines that run tests are busy: four times as much is allowed.
const AFTER_KILL: Duration = Duration::from_secs(5);
const AFTER_PAUSE: Duration = Duration::from_secs(15);
const ALLOWED: u32 = 4;
const SETTINGS: &[(&str, &str)] = &[("LIMITS__FOLLOWING_MAX", "0"), ("AUDIT__INTERVAL", "0s")];
const ALL: &str = "http,resp,fanout,jobs";

fn edges() -> usize {
    if is_soak() { SOAK_EDGES } else { EDGES }
}

fn patience() -> Duration {
    Duration::from_secs(if is_soak() { 3_600 } else { 300 })
}

fn job(client: &Client) -> Value {
    let jobs = client.get("/api/v1/admin/jobs").body["data"].as_array().unwrap().clone();
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_ne!(jobs[0]["state"], "failed", "{jobs:?}");
    jobs[0].clone()
}

fn done_edges(client: &Client) -> u64 {
    job(client)["edges"].as_u64().unwrap()
}

/// How often each request was accepted, by the events.
fn accepted(client: &Client) -> HashMap<String, usize> {
    let (mut accepted, mut after) = (HashMap::new(), String::new());
    loop {
        let page = client.get(&format!("/api/v1/events?limit=200{after}")).body;
        let events = page["data"].as_array().unwrap();
        for event in events.iter().filter(|event| event["type"] == "follow.accepted") {
            *accepted.entry(event["follower"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        let Some(cursor) = page["next_cursor"].as_str().filter(|_| page["has_more"] == true) else { return accepted };
        after = format!("&after={cursor}");
    }
}

/// Everybody asks to follow the star, by a file, while the servers run.
fn ask_to_follow(cluster: &Cluster) {
    let folder = Folder::new();
    let (notes, file) = (folder.join("notes"), folder.join("requests.csv"));
    let mut lines = String::from("requester,target\n");
    for number in 0..edges() {
        let _ = writeln!(lines, "{number},star");
    }
    fs::write(&file, lines).expect("a file");
    let began = Instant::now();
    let imported = report(&cluster.database.run(&["import", "--json", "--data", text(&notes), text(&file)]), 0);
    assert_eq!(numbers(&imported, ["requests_created"]), [edges() as u64]);
    println!("{} requests imported in {:.1} s", edges(), began.elapsed().as_secs_f64());
}

/// Two servers, and a job that one of them does; the index of that one.
fn working() -> (Cluster, usize) {
    let cluster = Cluster::start(&[ALL, ALL], SETTINGS);
    let client = cluster.client(0);
    assert_eq!(client.ask("PUT", "/api/v1/users/star", r#"{"private": true}"#).expect("an answer").status, 201);
    ask_to_follow(&cluster);
    assert_eq!(client.ask("POST", "/api/v1/users/star/follow-requests:accept-all", "").expect("an answer").status, 202);
    wait_for("the job begins", patience(), || (done_edges(&client) > edges() as u64 / 20).then_some(()));
    let (_, holder) = lease(&client, "jobs");
    let index = (0..2).find(|index| id_of(&cluster.client(*index)) == holder).expect("one of them has it");
    (cluster, index)
}

/// Waits until the other one has the lease and the job goes on; how long that took.
fn taken_over(client: &Client, allowed: Duration) -> Duration {
    let (own, began) = (id_of(client), Instant::now());
    let before = done_edges(client);
    wait_for("another server takes over", allowed, || (lease(client, "jobs").1 == own).then_some(()));
    let taken = began.elapsed();
    wait_for("the job goes on", patience(), || {
        let now = job(client);
        (now["edges"].as_u64().unwrap() > before || now["state"] == "done").then_some(())
    });
    println!(
        "taken over after {:.1} s, the next edge after {:.1} s",
        taken.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    taken
}

fn assert_whole(cluster: &Cluster, client: &Client) {
    wait_for("the job ends", patience(), || (job(client)["state"] == "done").then_some(()));
    assert_eq!(done_edges(client), edges() as u64);
    let accepted = accepted(client);
    assert_eq!(accepted.len(), edges());
    assert!(accepted.values().all(|times| *times == 1), "a request was accepted twice");
    let counts = client.get("/api/v1/users/star").body["counts"].clone();
    assert_eq!((&counts["followers"], &counts["requests"]), (&edges().into(), &0.into()));
    cluster.verify();
}

#[test]
fn a_job_goes_on_when_its_server_is_killed() {
    let (mut cluster, index) = working();
    cluster.servers[index].kill();
    let client = cluster.client(1 - index);
    let taken = taken_over(&client, ALLOWED * AFTER_KILL);
    println!("killed: {:.1} s (promised {:.0} s)", taken.as_secs_f64(), AFTER_KILL.as_secs_f64());
    assert_whole(&cluster, &client);
}

#[test]
fn a_job_goes_on_when_its_server_is_paused_and_that_one_writes_nothing_when_it_wakes() {
    let (cluster, index) = working();
    let (paused, client) = (cluster.client(index), cluster.client(1 - index));
    cluster.servers[index].signal("-STOP");
    let taken = taken_over(&client, ALLOWED * AFTER_PAUSE);
    println!("paused: {:.1} s (promised {:.0} s)", taken.as_secs_f64(), AFTER_PAUSE.as_secs_f64());
    let (epoch, _) = lease(&client, "jobs");
    cluster.servers[index].signal("-CONT");
    wait_for("it answers again", patience(), || paused.ask("GET", "/healthz", ""));
    assert_whole(&cluster, &client);
    // It has heard of it, and each edge is the commit of one of the two; the answer to one commit may be lost.
    assert_eq!(lease(&paused, "jobs"), (epoch, id_of(&client)));
    let commits: u64 = [&paused, &client].iter().map(|client| accept_commits(client)).sum();
    assert!((edges() as u64 - CHUNK..=edges() as u64).contains(&commits), "{commits} commits for {} edges", edges());
    let held = |client: &Client| metric(client, r#"entourage_lease_held{lease="jobs"}"#);
    wait_for("the metrics say so", Duration::from_secs(10), || (held(&paused) == 0.0).then_some(()));
    assert_eq!(held(&client), 1.0);
}

#[test]
fn a_server_that_stops_as_asked_leaves_its_leases_to_others_at_once() {
    let mut cluster = Cluster::start(&[ALL, ALL], SETTINGS);
    let ids = [0, 1].map(|index| id_of(&cluster.client(index)));
    let client = cluster.client(0);
    let ((_, holder), _) = wait_for("somebody has it", patience(), || {
        let held = lease(&client, "jobs");
        (!held.1.is_empty()).then_some(held)
    });
    let index = ids.iter().position(|id| *id == holder).unwrap();
    let client = cluster.client(1 - index);
    cluster.servers[index].signal("-TERM");
    assert_eq!(cluster.servers[index].wait().0, Some(0));
    let (epoch, taken) = wait_for("the other one takes over", ALLOWED * AFTER_KILL, || {
        let (epoch, holder) = lease(&client, "jobs");
        (holder == ids[1 - index]).then_some(epoch)
    });
    println!("stopped: {:.1} s, epoch {epoch}", taken.as_secs_f64());
    let seen = client.get("/api/v1/admin/servers").body;
    assert_eq!(seen["data"].as_array().unwrap().len(), 1, "one that stopped is not listed: {seen}");
}

fn metric(client: &Client, name: &str) -> f64 {
    let text = client.text("/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    line.unwrap_or_default()
}

fn accept_commits(client: &Client) -> u64 {
    metric(client, r#"entourage_commits_total{operation="accept"}"#) as u64
}
