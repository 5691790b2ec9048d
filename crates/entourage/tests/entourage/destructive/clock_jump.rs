//! The real binary on a machine whose clock jumps by an hour, between starts and while it runs: versions go on rising,
//! nothing is lost, nobody gains or loses by it. `libfaketime` moves the clock.

use crate::clock_kit::{Offset, faked, libfaketime};
use crate::server_kit::{Client, Folder, Heard, Serving, check, command, run, text};
use entourage_model::Clock as _;
use entourage_store::SystemClock;
use serde_json::json;

#[test]
fn versions_rise_whatever_the_clock_does() {
    let library = libfaketime();
    let folder = Folder::new();
    let data = folder.join("data");
    let (mut versions, mut times) = (Vec::<u64>::new(), Vec::new());
    for (round, jump) in ["+0", "-1h", "+1h", "+0", "-1h", "+2h"].into_iter().enumerate() {
        let mut command = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
        let mut server = Serving::start_as(faked(&mut command, &library).env("FAKETIME", jump));
        let client = Client::new(&server.base);
        for number in 0..20 {
            let heard = client.put_user(&format!("u{round}-{number}"), "somebody").unwrap();
            assert_eq!(heard.status, 201, "{heard:?}");
            versions.push(heard.body["version"].as_str().unwrap().parse().unwrap());
        }
        for earlier in 0..=round {
            for number in 0..20 {
                assert_eq!(client.get(&format!("/api/v1/users/u{earlier}-{number}")).status, 200);
            }
        }
        let newest = client.get(&format!("/api/v1/users/u{round}-19"));
        times.push(newest.body["created_at"].as_str().unwrap().to_owned());
        // A clean stop and a kill recover by different ways.
        if round % 2 == 0 {
            server.kill();
        } else {
            server.signal("-TERM");
            assert_eq!(server.wait().0, Some(0));
        }
    }
    println!("times given: {times:?}");
    assert!(versions.is_sorted_by(|earlier, later| earlier < later), "{versions:?}");
    let hour = |text: &str| text[..13].to_owned();
    assert_ne!(hour(&times[1]), hour(&times[2]), "the clock did not jump: {times:?}");
    assert_ne!(hour(&times[4]), hour(&times[5]), "the clock did not jump: {times:?}");
    check(&["verify", "--data", text(&data)], 0, &["clean: 120 users"], &[]);
}

const SECRET: &str = "a-secret-of-these-tests-that-signs-tokens-of-users";
const MINUTE: u64 = 60_000;
/// What is open before the first jump: three follows at once, then one each eighteen seconds.
const BURST: usize = 3;

struct Graph {
    client: Client,
    key: String,
}

impl Graph {
    fn ask(&self, headers: &[(&str, &str)], method: &str, path: &str, body: &str) -> Heard {
        let bearer = format!("Bearer {}", self.key);
        let headers = [&[("authorization", bearer.as_str())], headers].concat();
        self.client.ask_with(&headers, method, &format!("/api/v1{path}"), body).expect("an answer")
    }

    fn status_of(&self, token: &str) -> u16 {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str())];
        self.client.ask_with(&headers, "GET", "/api/v1/users/a", "").expect("an answer").status
    }

    fn ids(&self, path: &str) -> Vec<String> {
        let heard = self.ask(&[], "GET", path, "");
        let rows = heard.body["data"].as_array().unwrap_or_else(|| panic!("{heard:?}"));
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    }
}

/// Versions, tokens, cursors, quotas, mutes and users' tokens while the clock of a running server is set.
#[test]
fn a_running_server_takes_a_jump_of_its_clock() {
    let (library, folder) = (libfaketime(), Folder::new());
    let [data, keys, secret, config, offset] =
        ["data", "keys", "secret", "toml", "offset"].map(|name| folder.join(name));
    std::fs::write(&secret, SECRET).unwrap();
    let key = String::from_utf8(run(&["key", "new", "web", "--file", text(&keys)]).stdout).unwrap().trim().to_owned();
    let toml = format!(
        "[auth]\nservice_keys_file = {:?}\n[auth.jwt]\nalgorithm = \"HS256\"\nkey_file = {:?}\nissuer = \"me\"\n\
         audience = \"you\"\n",
        text(&keys),
        text(&secret)
    );
    std::fs::write(&config, toml).unwrap();
    let offset = Offset::new(offset);
    let set = |by: &str| offset.set(by);
    let mut serve = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data), "--config", text(&config)]);
    offset.apply(&mut serve, &library);
    serve.env("ENTOURAGE_LIMITS__FOLLOWS_PER_HOUR", "200").env("ENTOURAGE_LIMITS__FOLLOW_BURST", BURST.to_string());
    let mut server = Serving::start_as(&mut serve);
    let graph = Graph { client: Client::new(&server.base), key };
    for user in ["a", "b", "c", "d", "e", "star"] {
        assert_eq!(graph.ask(&[], "PUT", &format!("/users/{user}"), "{}").status, 201);
    }
    let mut tokens = Vec::new();
    for target in ["b", "c", "d"] {
        let heard = graph.ask(&[], "PUT", &format!("/users/a/following/{target}"), "");
        assert_eq!(heard.status, 201, "{heard:?}");
        tokens.push((heard.header("entourage-token").to_owned(), format!("/users/a/is-following/{target}")));
    }
    for (target, minutes) in [("b", 30), ("c", 90)] {
        let until = SystemClock.now().plus(minutes * MINUTE).to_rfc3339();
        let body = json!({ "expires_at": until }).to_string();
        assert_eq!(graph.ask(&[], "PUT", &format!("/users/a/mutes/{target}"), &body).status, 201);
    }
    let first = graph.ask(&[], "GET", "/users/a/following?limit=1", "");
    let next = format!("/users/a/following?cursor={}", first.body["next_cursor"].as_str().unwrap());
    let made = run(&["token", "--sub", "a", "--ttl", "30m", "--config", text(&config)]);
    let bearer = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    assert_eq!(graph.status_of(&bearer), 200);

    let mut last: u64 = 0;
    for (round, (by, muted)) in
        [("+1h", &["c"][..]), ("-1h", &["c", "b"]), ("+0", &["c", "b"]), ("+1h", &["c"])].into_iter().enumerate()
    {
        set(by);
        let limited = graph.ask(&[], "PUT", "/users/a/following/e", "");
        assert_eq!(limited.code(), "rate_limited", "{by}: the jump gave something back");
        let wait: u64 = limited.retry_after.unwrap().parse().unwrap();
        assert!((1..=18).contains(&wait), "{by}: the jump took something away: {wait}");
        let fan = format!("fan-{round}");
        assert_eq!(graph.ask(&[], "PUT", &format!("/users/{fan}"), "{}").status, 201);
        let heard = graph.ask(&[], "PUT", &format!("/users/{fan}/following/star"), "");
        let version: u64 = heard.body["version"].as_str().unwrap().parse().unwrap();
        assert!(version > last, "{by}: {version} after {last}");
        last = version;
        tokens.push((heard.header("entourage-token").to_owned(), format!("/users/{fan}/is-following/star")));
        for (token, path) in &tokens {
            let heard = graph.ask(&[("entourage-token", token)], "GET", path, "");
            assert_eq!((heard.status, &heard.body["following"]), (200, &json!(true)), "{by} {path}: {heard:?}");
        }
        assert_eq!(graph.ids(&next), ["c", "b"], "{by}");
        assert_eq!(graph.ids("/users/a/mutes"), *muted, "{by}");
        assert_eq!(graph.status_of(&bearer), if by == "+1h" { 401 } else { 200 }, "{by}");
    }
    // A user's token is good for a minute beyond its end, and no longer.
    for (by, status) in [("+1700", 200), ("+1820", 200), ("+1900", 401)] {
        set(by);
        assert_eq!(graph.status_of(&bearer), status, "{by}");
    }
    set("-1h");
    server.kill();
    let server = Serving::start_as(&mut serve);
    let graph = Graph { client: Client::new(&server.base), key: graph.key };
    assert_eq!(graph.ids("/users/star/followers"), ["fan-3", "fan-2", "fan-1", "fan-0"]);
    for (token, path) in &tokens {
        assert_eq!(graph.ask(&[("entourage-token", token)], "GET", path, "").body["following"], true);
    }
    drop(server);
    check(&["verify", "--data", text(&data)], 0, &["clean: 10 users"], &[]);
}
