//! The real binary killed while clients send requests with keys, and the same requests sent again to whoever starts next:
//! each has its effect once, and a reply that was given is given again.

use crate::server_kit;

use std::{collections::HashMap, time::Duration};

use crate::server_kit::{Client, Folder, Heard, Serving, check, text};
use rand::RngExt;
use serde_json::Value;

const CLIENTS: usize = 8;
const ROUNDS: usize = 6;

/// A follow with a key, and what its client heard of it before the server died.
struct Asked {
    client: usize,
    number: usize,
    heard: Option<Value>,
}

fn follow(client: &Client, who: usize, number: usize) -> Option<Heard> {
    let key = format!("{who}-{number}");
    let path = format!("/api/v1/users/c{who}/following/t{number}");
    client.ask_with(&[("idempotency-key", &key)], "PUT", &path, "")
}

/// All of them follow on until nobody answers.
fn ask_until_killed(server: &mut Serving, first: usize) -> Vec<Asked> {
    let base = &server.base.clone();
    std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|who| {
            scope.spawn(move || {
                let (client, mut asked) = (Client::new(base), Vec::new());
                for number in first.. {
                    let heard = follow(&client, who, number).filter(|heard| heard.status < 500);
                    let body = heard.map(|heard| {
                        assert_eq!((heard.status, heard.header("idempotent-replayed")), (201, ""), "{heard:?}");
                        heard.body
                    });
                    let is_last = body.is_none();
                    asked.push(Asked { client: who, number, heard: body });
                    if is_last {
                        return asked;
                    }
                }
                asked
            })
        });
        let clients: Vec<_> = clients.collect();
        std::thread::sleep(Duration::from_millis(rand::rng().random_range(20..200)));
        server.kill();
        clients.into_iter().flat_map(|client| client.join().expect("the client ends")).collect()
    })
}

#[test]
fn a_request_with_a_key_has_its_effect_once_though_the_server_is_killed() {
    let folder = Folder::new();
    let data = folder.join("data");
    let start = || {
        let mut command = server_kit::command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
        Serving::start_as(command.env("ENTOURAGE_USERS__AUTO_CREATE", "true"))
    };
    let (mut asked, mut unheard, mut done_unheard) = (Vec::<Asked>::new(), 0, 0);
    for _ in 0..ROUNDS {
        let mut server = start();
        let first = asked.iter().map(|each| each.number + 1).max().unwrap_or(0);
        let fresh = ask_until_killed(&mut server, first);
        let server = start();
        let client = Client::new(&server.base);
        for each in &fresh {
            let there = client.get(&format!("/api/v1/users/c{}/is-following/t{}", each.client, each.number));
            let there = there.body["following"] == true;
            let again = follow(&client, each.client, each.number).expect("an answer");
            let replayed = again.header("idempotent-replayed") == "true";
            assert_eq!(again.status, 201, "{again:?}");
            assert_eq!(replayed, there, "a key without its effect, or an effect without its key: {again:?}");
            match &each.heard {
                Some(body) => assert_eq!((replayed, &again.body), (true, body), "another reply than the first"),
                None => {
                    unheard += 1;
                    done_unheard += usize::from(there);
                }
            }
        }
        asked.extend(fresh);
        drop(server);
    }
    println!("{} requests, {unheard} without an answer, {done_unheard} of which were done", asked.len());
    assert!(asked.len() > 200 && unheard > 0, "{} requests, {unheard} unheard", asked.len());
    let server = start();
    let client = Client::new(&server.base);
    let (mut events, mut after) = (HashMap::<(String, String), usize>::new(), String::new());
    loop {
        let page = client.get(&format!("/api/v1/events?limit=200{after}"));
        for event in page.body["data"].as_array().unwrap().iter().filter(|event| event["type"] == "follow.created") {
            let name = |field: &str| event[field].as_str().unwrap().to_owned();
            *events.entry((name("follower"), name("target"))).or_default() += 1;
        }
        match page.body["next_cursor"].as_str() {
            Some(cursor) if page.body["has_more"] == true => after = format!("&after={cursor}"),
            _ => break,
        }
    }
    assert_eq!(events.len(), asked.len());
    assert!(events.values().all(|count| *count == 1), "an effect was there twice");
    drop(server);
    check(&["verify", "--data", text(&data)], 0, &["clean"], &[]);
}
