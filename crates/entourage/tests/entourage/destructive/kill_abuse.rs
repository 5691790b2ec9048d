//! The real binary killed right after it has answered: dismissed suggestions and cases are as they were answered.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::server_kit::{Client, Folder, Serving, check, command, text};

const PATIENCE: Duration = Duration::from_secs(60);
const KILLS: usize = 8;

fn start(data: &Path) -> (Serving, Client) {
    let mut serve = command(&["serve", "--http", "127.0.0.1:0", "--data", text(data)]);
    for (name, value) in [("USERS__AUTO_CREATE", "true"), ("ABUSE__PAIR_FLIPS", "3"), ("ABUSE__AUTO_SUSPEND", "true")] {
        serve.env(format!("ENTOURAGE_{name}"), value);
    }
    let server = Serving::start_as(&mut serve);
    let client = Client::new(&server.base);
    (server, client)
}

fn done(client: &Client, method: &str, path: &str) -> Value {
    let heard = client.ask(method, &format!("/api/v1{path}"), "").expect("an answer");
    assert!((200..300).contains(&heard.status), "{method} {path}: {heard:?}");
    heard.body
}

fn suggested(client: &Client) -> Vec<String> {
    let rows = done(client, "GET", "/users/viewer/suggestions")["data"].as_array().unwrap().clone();
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_was_dismissed_stays_dismissed() {
    let folder = Folder::new();
    let data = folder.join("data");
    let (mut server, mut client) = start(&data);
    done(&client, "PUT", "/users/viewer/following/hub");
    for number in 0..KILLS + 2 {
        done(&client, "PUT", &format!("/users/hub/following/{number}"));
    }
    let mut left = suggested(&client);
    assert_eq!(left.len(), KILLS + 2, "{left:?}");
    for _ in 0..KILLS {
        let gone = left.remove(0);
        done(&client, "DELETE", &format!("/users/viewer/suggestions/{gone}"));
        server.kill();
        (server, client) = start(&data);
        assert_eq!(suggested(&client), left, "{gone} was dismissed");
    }
    server.kill();
    check(&["verify", "--data", text(&data)], 0, &["clean"], &[]);
}

/// All cases, once there is one.
fn cases(client: &Client) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let rows = done(client, "GET", "/admin/abuse")["data"].as_array().unwrap().clone();
        if !rows.is_empty() {
            return rows;
        }
        assert!(began.elapsed() < PATIENCE, "there is no case");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn case(client: &Client, id: &str) -> Value {
    done(client, "GET", &format!("/admin/abuse/{id}"))
}

fn follow(client: &Client) -> u16 {
    client.ask("PUT", "/api/v1/users/a/following/b", "").expect("an answer").status
}

#[test]
fn a_case_its_pause_and_what_was_decided_about_it_survive() {
    let folder = Folder::new();
    let data = folder.join("data");
    for verb in ["dismiss", "confirm"] {
        let data = data.join(verb);
        let (mut server, client) = start(&data);
        for _ in 0..4 {
            done(&client, "PUT", "/users/a/following/b");
            done(&client, "DELETE", "/users/a/following/b");
        }
        let [found] = &cases(&client)[..] else { panic!("one case") };
        let id = found["id"].as_str().unwrap();
        // It is paused right after its case is written.
        let began = Instant::now();
        while client.get("/api/v1/users/a").body["follow_suspended"] != true {
            assert!(began.elapsed() < PATIENCE, "the actor is not paused");
            std::thread::sleep(Duration::from_millis(20));
        }
        let open = case(&client, id);
        assert_eq!((&open["kind"], &open["state"]), (&"pair_churn".into(), &"open".into()), "{open}");
        server.kill();
        let (mut server, client) = start(&data);
        let after = case(&client, id);
        for field in ["kind", "state", "actors", "targets", "first_seen", "evidence"] {
            assert_eq!(after[field], open[field], "{field}");
        }
        assert_eq!(follow(&client), 403, "paused until the case is closed");
        done(&client, "POST", &format!("/admin/abuse/{id}/{verb}"));
        server.kill();
        // Twice: what the log says again opens nothing.
        for _ in 0..2 {
            let (mut server, client) = start(&data);
            std::thread::sleep(Duration::from_millis(700));
            let all = cases(&client);
            assert_eq!(all.len(), 1, "{all:?}");
            assert_eq!(case(&client, id)["state"], if verb == "dismiss" { "dismissed" } else { "confirmed" });
            assert!([200, 201].contains(&follow(&client)), "no longer paused");
            server.kill();
        }
        check(&["verify", "--data", text(&data)], 0, &["clean"], &[]);
    }
}
