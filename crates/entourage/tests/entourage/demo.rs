//! `serve --demo`: loaded once, quickly, the same everywhere, and never over somebody's data.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::import_kit::{exported, verify};
use crate::server_kit::{Client, Folder, Serving, command, text};

/// The promise is three seconds with the optimised binary on an idle machine; here neither is given.
const LOADED_WITHIN: Duration = Duration::from_secs(12);

fn serve(data: &Path) -> Serving {
    Serving::start_as(&mut command(&["serve", "--demo", "--http", "127.0.0.1:0", "--data", text(data)]))
}

fn stop(mut server: Serving) -> String {
    server.signal("-TERM");
    let (code, said) = server.wait();
    assert_eq!(code, Some(0), "{said}");
    said
}

#[test]
fn the_demo_is_loaded_once_and_has_what_it_says() {
    let folder = Folder::new();
    let (data, again) = (folder.join("data"), folder.join("again"));
    let server = serve(&data);
    assert!(server.started_in < LOADED_WITHIN, "{:?}", server.started_in);
    let client = Client::new(&server.base);
    let hub = client.get("/api/v1/users/ada-abe");
    assert_eq!((hub.status, &hub.body["name"]), (200, &"Ada Abe".into()));
    for id in ["ada-abe", "alba-adams", "amir-ali"] {
        assert!(client.get(&format!("/api/v1/users/{id}")).body["counts"]["followers"].as_u64() > Some(1_000), "{id}");
    }
    let groups = client.get("/api/v1/users/ada-abe/groups").body;
    let names: Vec<_> = groups["data"].as_array().unwrap().iter().map(|group| &group["name"]).collect();
    assert_eq!(names, ["Work", "Friends"]);
    let group = groups["data"][0]["id"].as_str().unwrap();
    let members = client.get(&format!("/api/v1/users/ada-abe/groups/{group}/members")).body;
    assert!((4..=12).contains(&members["data"].as_array().unwrap().len()), "{members}");
    let feed = client.get("/api/v1/users/amir-ali/feed?limit=50").body;
    assert_eq!((feed["data"].as_array().unwrap().len(), &feed["has_more"]), (50, &true.into()));
    assert!(feed["data"][0]["body"]["text"].as_str().unwrap().len() > 10, "{feed}");
    // Suggestions have reasons, and nobody is suggested who is followed.
    let suggested = client.get("/api/v1/users/amir-ali/suggestions").body;
    let rows = suggested["data"].as_array().unwrap();
    assert_eq!(rows.len(), 50, "{suggested}");
    let named = |row: &serde_json::Value| row["reason"]["followed_by"].as_array().map_or(0, Vec::len);
    assert!(rows.iter().filter(|row| named(row) == 2).count() > 10, "{suggested}");
    // Who is a celebrity here, and who is not.
    for (id, pulls) in [("ada-abe", true), ("alba-adams", true), ("zoe-zhang", false)] {
        assert_eq!(client.get(&format!("/api/v1/admin/users/{id}/fanout")).body["pulls"], pulls, "{id}");
    }
    // Somebody says something about once a second, and not seldom it is somebody whom this one follows.
    let newest = || client.get("/api/v1/users/amir-ali/feed?limit=1").body["data"][0]["id"].clone();
    let (before, began) = (newest(), Instant::now());
    while newest() == before {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody says anything");
        std::thread::sleep(Duration::from_millis(100));
    }
    let said = stop(server);
    assert!(said.contains("10000 people with ") && said.contains("ada-abe") && said.contains("curl "), "{said}");
    assert!(said.contains("entourage suggest amir-ali --server http"), "{said}");
    assert!(said.contains(" and 8240 posts") && said.contains("feed.celebrity_followers is 2000"), "{said}");
    let report = verify(&data);
    let (users, edges) = (exported(&data, "--users"), exported(&data, "--edges"));
    assert_eq!((report["clean"].as_bool(), users.len()), (Some(true), 10_000));
    assert!((150_000..250_000).contains(&edges.len()), "{} follows", edges.len());
    // Follows, and 200 each of blocks, mutes and requests.
    assert_eq!(report["edges"], edges.len() + 600);
    assert_eq!(users.iter().filter(|line| line.contains(",true,")).count(), users_with_a_flag());
    let said = stop(serve(&data));
    assert!(said.contains("loaded by an earlier start"), "{said}");
    for counted in ["clean", "users", "edges"] {
        assert_eq!(verify(&data)[counted], report[counted]);
    }
    // Killed while it loads: the next start goes on, and it is the same.
    Serving::start_and_kill(
        &mut command(&["serve", "--demo", "--http", "127.0.0.1:0", "--data", text(&again)]),
        Duration::from_millis(250),
    );
    let server = serve(&again);
    // Nothing was written twice; what the demo's people say since then is new.
    let posts = Client::new(&server.base).get("/api/v1/users/ada-abe/posts?limit=1").body;
    assert!((30..34).contains(&posts["total"].as_u64().unwrap()), "{posts}");
    stop(server);
    assert_eq!(exported(&again, "--edges"), edges);
    assert_eq!(verify(&again)["edges"], report["edges"]);
}

#[test]
fn the_demo_leaves_other_data_alone() {
    let folder = Folder::new();
    let data = folder.join("data");
    let server = Serving::start(&data);
    assert_eq!(Client::new(&server.base).put_user("alice", "Alice").unwrap().status, 201);
    stop(server);
    let said = stop(serve(&data));
    assert!(said.contains("not loaded: this store has users of its own"), "{said}");
    assert!(!said.contains("once a second"), "{said}");
    assert_eq!(verify(&data)["users"], 1);
}

#[test]
fn who_is_a_celebrity_is_the_operators_to_say() {
    let folder = Folder::new();
    let data = folder.join("data");
    let mut serve = command(&["serve", "--demo", "--http", "127.0.0.1:0", "--data", text(&data)]);
    let server = Serving::start_as(serve.env("ENTOURAGE_FEED__CELEBRITY_FOLLOWERS", "50000"));
    assert_eq!(Client::new(&server.base).get("/api/v1/admin/users/ada-abe/fanout").body["pulls"], false);
    let said = stop(server);
    assert!(said.contains("feed.celebrity_followers is 50000"), "{said}");
}

/// The same people in homes whose follower lists settle, over REST and as a stream.
#[test]
fn the_demo_is_the_same_on_homes_that_settle() {
    let folder = Folder::new();
    let mut serve = command(&["serve", "--demo", "--http", "127.0.0.1:0", "--data", text(&folder.join("data"))]);
    let server = Serving::start_as(serve.env("ENTOURAGE_STORE__URL", "memory:?homes=16"));
    let client = Client::new(&server.base);
    let followers = |id: &str| client.get(&format!("/api/v1/users/{id}")).body["counts"]["followers"].clone();
    assert!(followers("ada-abe").as_u64() > Some(1_000));
    let list = client.get("/api/v1/users/ada-abe/followers?limit=1").body;
    assert_eq!(list["total"], followers("ada-abe"), "the number is the list");
    let feed = client.get("/api/v1/users/amir-ali/feed?limit=50").body;
    assert_eq!((feed["data"].as_array().unwrap().len(), &feed["has_more"]), (50, &true.into()));
    // Every event, over all homes, by one cursor.
    let (mut events, mut cursor) = (0, String::new());
    loop {
        let page = client.get(&format!("/api/v1/events?limit=200{cursor}")).body;
        events += page["data"].as_array().unwrap().len();
        if page["has_more"] == false {
            break;
        }
        cursor = format!("&after={}", page["next_cursor"].as_str().unwrap());
    }
    assert!(events > 160_000, "{events} events");
    let said = stop(server);
    assert!(said.contains("memory, 16 homes"), "{said}");
    assert!(!folder.join("data").exists() || std::fs::read_dir(folder.join("data")).unwrap().next().is_none());
}

/// Private ones are every twentieth from 7 on, hidden lists every fiftieth from 11 on; no number is both.
fn users_with_a_flag() -> usize {
    (0..10_000).filter(|person| person % 20 == 7 || person % 50 == 11).count()
}
