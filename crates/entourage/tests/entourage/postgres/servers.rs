//! Several servers on one PostgreSQL: roles, bounds that hold over all of them, and races between them.

use std::{sync::Barrier, time::Duration};

use serde_json::{Value, json};

use crate::{
    cluster_kit::{Cluster, follow, follows_all, id_of, is_soak, lease, wait_for},
    server_kit::{Client, Folder, check, text},
};

const ALL: &str = "http,resp,fanout,jobs";
const PATIENCE: Duration = Duration::from_secs(60);
/// Following that many, less one, 64 follows race for the last place; 10,000 in a soak.
const CAP: usize = 500;
const SOAK_CAP: usize = 10_000;
const RACING: usize = 64;
/// Of block against follow; 10,000 in a soak.
const RACES: usize = 200;
const SOAK_RACES: usize = 10_000;
const RETRIES: usize = 25;

#[test]
fn roles_say_what_a_server_does() {
    let mut cluster = Cluster::start(&["http"], &[]);
    assert_eq!(cluster.servers[0].resp, "", "no RESP without its role");
    let front = cluster.client(0);
    assert_eq!(front.ask("PUT", "/api/v1/users/star", r#"{"private": true}"#).expect("an answer").status, 201);
    assert_eq!(follow(&front, "fan", "star").0, 202);
    assert_eq!(front.ask("POST", "/api/v1/users/star/follow-requests:accept-all", "").expect("an answer").status, 202);
    // Whoever reads a feed here is answered, without an inbox.
    let post = json!({ "body": { "text": "hello" } }).to_string();
    assert_eq!(follow(&front, "reader", "writer").0, 201);
    let wrote = front.ask_with(&[("entourage-actor", "writer")], "POST", "/api/v1/posts", &post).expect("an answer");
    assert_eq!(wrote.status, 201, "{wrote:?}");
    assert_eq!(front.get("/api/v1/users/reader/feed").body["data"][0]["body"]["text"], "hello");
    assert_eq!(front.get("/api/v1/admin/feed").body["inboxes"], 0);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(lease(&front, "jobs"), (0, String::new()), "nobody does jobs");
    let state = |client: &Client| client.get("/api/v1/admin/jobs").body["data"][0]["state"].clone();
    assert_eq!(state(&front), "running");
    cluster.add("jobs", &[]);
    assert_eq!((cluster.servers[1].base.as_str(), cluster.servers[1].resp.as_str()), ("off", ""));
    wait_for("the job ends", PATIENCE, || (state(&front) == "done").then_some(()));
    // A slow machine takes the leases one after the other.
    let all = json!(["jobs", "scheduler", "audit"]);
    let has_all = |seen: &Value| seen["data"].as_array().unwrap().iter().any(|server| server["leases"] == all);
    let look = || Some(front.get("/api/v1/admin/servers").body).filter(&has_all);
    let (seen, _) = wait_for("one has all leases", PATIENCE, look);
    let worker = seen["data"].as_array().unwrap().iter().find(|server| server["this"] == false).unwrap();
    assert_eq!((&worker["roles"], &worker["state"]), (&json!(["jobs"]), &json!("alive")), "{seen}");
    assert_eq!(worker["leases"], json!(["jobs", "scheduler", "audit"]), "{seen}");
    assert!(worker["number"].is_u64() && worker["heartbeat_age_seconds"].as_f64().unwrap() < 5.0, "{seen}");
    assert_eq!(lease(&front, "jobs").1, worker["id"]);
    let printed = ["servers", "--server", &cluster.servers[0].base];
    check(&printed, 0, &["HEARTBEAT_AGE_SECONDS", &id_of(&front), "scheduler"], &[]);
    let shared = front.text("/metrics");
    for (limit, is_shared) in [("follows", 1), ("flips", 1), ("challenge", 1), ("requests", 0), ("target", 0)] {
        assert!(shared.contains(&format!("entourage_limiter_shared{{limit=\"{limit}\"}} {is_shared}\n")), "{limit}");
    }
    assert!(shared.contains("entourage_servers{state=\"alive\"} 2\n"));
}

#[test]
fn sixty_four_follows_race_for_the_last_place_over_two_servers() {
    let cap = if is_soak() { SOAK_CAP } else { CAP };
    let cluster = Cluster::start(&[ALL, ALL], &[("LIMITS__FOLLOWING_MAX", &cap.to_string())]);
    let targets: Vec<String> = (0..cap - 1).map(|number| number.to_string()).collect();
    follows_all(&cluster, "fan", &targets);
    for round in 0..3 {
        let heard = race(&cluster, RACING, |client, index| follow(client, "fan", &format!("t{round}-{index}")));
        let made: Vec<_> = heard.iter().filter(|(status, _)| *status == 201).collect();
        assert_eq!(made.len(), 1, "{heard:?}");
        assert!(heard.iter().all(|(status, code)| *status == 201 || code == "following_limit"), "{heard:?}");
        for index in 0..2 {
            assert_eq!(cluster.client(index).get("/api/v1/users/fan/following?limit=1").body["total"], cap);
        }
        let gone = cluster.client(round % 2).ask("DELETE", &format!("/api/v1/users/fan/following/{round}"), "");
        assert_eq!(gone.expect("an answer").status, 200);
    }
    cluster.verify();
}

#[test]
fn a_request_that_is_repeated_at_another_server_is_recognised() {
    let cluster = Cluster::start(&[ALL, ALL], &[]);
    for round in 0..RETRIES {
        let (path, key) = (format!("/api/v1/users/fan{round}/following/star"), format!("key-{round}"));
        let ask = |client: &Client, body: &str| {
            let headers = [("idempotency-key", key.as_str())];
            client.ask_with(&headers, "PUT", &path, body).expect("an answer")
        };
        let heard = race(&cluster, 8, |client, _| {
            // One that still runs is asked for again.
            loop {
                let heard = ask(client, r#"{"quiet": false}"#);
                if heard.code() != "request_in_progress" {
                    return (
                        heard.status,
                        heard.body["version"].clone(),
                        heard.header("idempotent-replayed") == "true",
                    );
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let first = heard[0].1.clone();
        assert!(heard.iter().all(|(status, version, _)| *status == 201 && *version == first), "{heard:?}");
        assert_eq!(heard.iter().filter(|(.., replayed)| !replayed).count(), 1, "{heard:?}");
        for index in 0..2 {
            let other = ask(&cluster.client(index), r#"{"quiet": true}"#);
            assert_eq!((other.status, other.code()), (422, "idempotency_mismatch"));
        }
    }
    let client = cluster.client(1);
    wait_for("the other server has heard of all", PATIENCE, || {
        (client.get("/api/v1/users/star").body["counts"]["followers"] == RETRIES).then_some(())
    });
    cluster.verify();
}

/// Below the bound by one, at it, above it by one: each time one of three servers is asked, and then all three at once.
#[test]
fn quotas_end_where_they_say_over_three_servers() {
    const BURST: usize = 7;
    const FLIPS: usize = 3;
    let burst = BURST.to_string();
    let settings =
        [("LIMITS__FOLLOWS_PER_HOUR", "1"), ("LIMITS__FOLLOW_BURST", burst.as_str()), ("LIMITS__FLIPS_PER_DAY", "3")];
    let cluster = Cluster::start(&[ALL, ALL, ALL], &settings);
    let clients = [0, 1, 2].map(|index| cluster.client(index));
    for number in 0..BURST - 1 {
        assert_eq!(follow(&clients[number % 3], "fan", &format!("t{number}")).0, 201);
    }
    let heard = race(&cluster, 12, |client, index| follow(client, "fan", &format!("last{index}")));
    assert_eq!(heard.iter().filter(|(status, _)| *status == 201).count(), 1, "{heard:?}");
    assert!(heard.iter().all(|(status, code)| *status == 201 || code == "rate_limited"), "{heard:?}");
    for client in &clients {
        assert_eq!(follow(client, "fan", "one-more"), (429, "rate_limited".to_owned()));
        assert_eq!(follow(client, "fan", "t0").0, 200, "what is there takes nothing");
    }
    // An edge that ended as often as it may is not followed again, wherever it ended.
    for flip in 0..FLIPS {
        assert_eq!(follow(&clients[flip % 3], "flipper", "star").0, 201, "flip {flip}");
        let gone = clients[(flip + 1) % 3].ask("DELETE", "/api/v1/users/flipper/following/star", "");
        assert_eq!(gone.expect("an answer").status, 200);
    }
    for client in &clients {
        assert_eq!(follow(client, "flipper", "star"), (429, "cooling_down".to_owned()));
    }
    assert_eq!(follow(&clients[0], "flipper", "somebody-else").0, 201);
}

#[test]
fn a_challenge_is_asked_for_after_as_many_follows_over_three_servers() {
    const AFTER: usize = 5;
    let folder = Folder::new();
    let key = folder.join("challenge");
    std::fs::write(&key, "a secret of thirty-two bytes or more").unwrap();
    let after = AFTER.to_string();
    let settings = [("LIMITS__CHALLENGE_AFTER", after.as_str()), ("LIMITS__CHALLENGE_KEY_FILE", text(&key))];
    let cluster = Cluster::start(&[ALL, ALL, ALL], &settings);
    let clients = [0, 1, 2].map(|index| cluster.client(index));
    for number in 0..AFTER - 1 {
        assert_eq!(follow(&clients[number % 3], "fan", &format!("t{number}")).0, 201);
    }
    let heard = race(&cluster, 12, |client, index| follow(client, "fan", &format!("last{index}")));
    assert_eq!(heard.iter().filter(|(status, _)| *status == 201).count(), 1, "{heard:?}");
    assert!(heard.iter().all(|(status, code)| *status == 201 || code == "challenge_required"), "{heard:?}");
    for client in &clients {
        assert_eq!(follow(client, "fan", "one-more"), (403, "challenge_required".to_owned()));
    }
}

/// Whichever is first, a follow that races a block ends without an edge, in both directions and on both servers.
#[test]
fn a_block_against_a_follow_over_two_servers_ends_without_an_edge() {
    const AT_ONCE: usize = 8;
    let races = if is_soak() { SOAK_RACES } else { RACES };
    let cluster = Cluster::start(&[ALL, ALL], &[]);
    let refused: usize = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..AT_ONCE)
            .map(|lane| {
                let (one, other) = (cluster.client(lane % 2), cluster.client((lane + 1) % 2));
                scope.spawn(move || {
                    (lane..races).step_by(AT_ONCE).filter(|race| is_refused(&one, &other, *race)).count()
                })
            })
            .collect();
        lanes.into_iter().map(|lane| lane.join().expect("the lane ends")).sum()
    });
    println!("{races} races: {refused} follows came after the block");
    assert!((1..races).contains(&refused) || races < 20, "{refused} of {races}: they did not race");
    cluster.verify();
    let edges = "SELECT count(*) FROM edges WHERE kind = 0 AND state <> 3";
    assert_eq!(cluster.database.value(edges), "0", "a follow outlived a block");
    let blocks = "SELECT count(*) FROM edges WHERE kind = 1 AND state <> 3";
    assert_eq!(cluster.database.value(blocks), races.to_string());
}

/// One race of a pair of its own; whether the follow was refused.
fn is_refused(one: &Client, other: &Client, race: usize) -> bool {
    let [a, b] = ["a", "b"].map(|name| format!("{name}{race}"));
    for (id, client) in [(&a, one), (&b, other)] {
        assert_eq!(client.put_user(id, "somebody").expect("an answer").status, 201);
    }
    let begin = Barrier::new(2);
    let (followed, blocked) = std::thread::scope(|scope| {
        let following = scope.spawn(|| {
            begin.wait();
            // Every other race is against the direction of the block.
            if race.is_multiple_of(2) { follow(one, &a, &b) } else { follow(one, &b, &a) }
        });
        begin.wait();
        let blocked = other.ask("PUT", &format!("/api/v1/users/{a}/blocks/{b}"), "").expect("an answer");
        (following.join().expect("the follow is answered"), blocked)
    });
    assert_eq!(blocked.status, 201, "{blocked:?}");
    assert!(followed.0 == 201 || followed.1 == "blocked", "{followed:?}");
    // Both see it at once with the token of the block.
    let token = [("entourage-token", blocked.header("entourage-token"))];
    for client in [one, other] {
        let path = format!("/api/v1/users/{a}/relationships?id={b}");
        let heard = client.ask_with(&token, "GET", &path, "").expect("an answer");
        let relation = &heard.body["data"][0];
        let shown = ["following", "followed_by", "blocking"].map(|name| relation[name] == true);
        assert_eq!(shown, [false, false, true], "race {race}: {heard:?}");
    }
    followed.0 != 201
}

/// Asks from so many threads at once, over all servers in turn.
fn race<T: Send>(cluster: &Cluster, count: usize, ask: impl Fn(&Client, usize) -> T + Sync) -> Vec<T> {
    let (begin, ask) = (&Barrier::new(count), &ask);
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..count)
            .map(|index| {
                let client = cluster.client(index % cluster.servers.len());
                scope.spawn(move || {
                    begin.wait();
                    ask(&client, index)
                })
            })
            .collect();
        asking.into_iter().map(|asking| asking.join().expect("an answer")).collect()
    })
}
