//! Random runs of notifications through REST, on an embedded store.

use std::sync::Arc;

use entourage_embedded as embedded;
use entourage_model::{ManualClock, Millis, Version};
use entourage_server::Front as Door;
use entourage_service::NotificationKind;
use entourage_store::SystemClock;
use entourage_testkit::crash_disk::CrashDisk;
use serde_json::{Value, json};

use super::{
    notification_kit::{Front, Shown, Told, Twist, clock, day, rules, run_through},
    server::Server,
    table::Reply,
};

struct RestFront(Server);

impl RestFront {
    /// Taken or not, but never anything else.
    fn is_taken(&self, request: &str) -> bool {
        let reply = self.0.ask(request);
        assert!(reply.status < 500, "{request}: {}", reply.text);
        reply.status < 300
    }

    fn must(&self, request: &str) -> Reply {
        let reply = self.0.ask(request);
        assert!(reply.status < 300, "{request}: {}", reply.text);
        reply
    }
}

fn version(body: &Value) -> Version {
    Version::from_bits(body["version"].as_str().unwrap().parse().unwrap())
}

impl Front for RestFront {
    async fn put(&self, person: i64, private: bool) {
        self.must(&format!("PUT /users/{person} {}", json!({ "private": private })));
    }

    async fn follow(&self, follower: i64, target: i64, quiet: bool) -> Option<Shown> {
        let body = json!({ "quiet": quiet });
        let reply = self.0.ask(&format!("@{follower} POST /users/{target}/follow {body}"));
        // Where it was there already, its place is known; a new one has its own version for it.
        (reply.status < 300)
            .then(|| (reply.body["state"] == "active", reply.body["quiet"] == true, version(&reply.body)))
    }

    async fn unfollow(&self, follower: i64, target: i64) {
        self.must(&format!("@{follower} DELETE /users/{target}/follow"));
    }

    async fn accept(&self, target: i64, follower: i64) -> Version {
        version(&self.must(&format!("@{target} POST /users/{target}/follow-requests/{follower}/accept")).body)
    }

    async fn reject(&self, target: i64, follower: i64) {
        self.must(&format!("@{target} POST /users/{target}/follow-requests/{follower}/reject"));
    }

    async fn block(&self, actor: i64, target: i64) -> bool {
        self.is_taken(&format!("@{actor} PUT /users/{actor}/blocks/{target}"))
    }

    async fn unblock(&self, actor: i64, target: i64) {
        self.must(&format!("@{actor} DELETE /users/{actor}/blocks/{target}"));
    }

    async fn mute(&self, actor: i64, target: i64, until: Option<Millis>) -> bool {
        let body = json!({ "expires_at": until.map(Millis::to_rfc3339) });
        self.is_taken(&format!("@{actor} PUT /users/{actor}/mutes/{target} {body}"))
    }

    async fn unmute(&self, actor: i64, target: i64) {
        self.must(&format!("@{actor} DELETE /users/{actor}/mutes/{target}"));
    }

    async fn pages(&self, user: i64, limit: usize) -> (Vec<(Told, String)>, u64) {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let reply = self.must(&format!("@{user} GET /users/{user}/notifications?limit={limit}{cursor}"));
            let rows = reply.body["data"].as_array().unwrap();
            assert!(rows.len() <= limit);
            all.extend(rows.iter().map(told));
            match reply.body["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return (all, reply.body["unseen"].as_u64().unwrap()),
            }
        }
    }

    async fn see(&self, user: i64, up_to: Option<&str>) {
        let body = up_to.map(|id| json!({ "up_to": id }).to_string()).unwrap_or_default();
        self.must(&format!("@{user} POST /users/{user}/notifications/seen {body}"));
    }
}

fn told(row: &Value) -> (Told, String) {
    let id = row["id"].as_str().unwrap();
    let newest = Version::from_bits(id.split('.').next().unwrap().parse().unwrap());
    let kind = match row["type"].as_str().unwrap() {
        "follow" => NotificationKind::Follow,
        "follow_request" => NotificationKind::FollowRequest,
        _ => NotificationKind::RequestAccepted,
    };
    let actors: Vec<i64> = row["actors"].as_array().unwrap().iter().map(number).collect();
    let count = row["count"].as_u64().unwrap();
    assert!(row["count_is_exact"] == true && actors.len() as u64 == count.min(3), "{row}");
    ((kind, day(newest), actors, row["seen"] == true), id.to_owned())
}

fn number(actor: &Value) -> i64 {
    actor["id"].as_str().unwrap().parse().unwrap()
}

fn front(clock: &Arc<ManualClock>) -> RestFront {
    let options = embedded::Options { checkpoint_entries: 100, ..embedded::Options::default() };
    let disk = Arc::new(CrashDisk::new());
    let store = embedded::Store::open(disk, "the test disk", options, Arc::clone(clock) as _).unwrap();
    let door = Door::development(Arc::new(SystemClock));
    RestFront(Server::at(Arc::clone(clock) as _, door, Arc::new(store), rules()))
}

#[tokio::test]
async fn notifications_over_rest_agree_with_the_reference() {
    for seed in [0, 1, rand::random()] {
        let clock = clock();
        run_through(&front(&clock), &clock, seed, 150, None).await.unwrap();
    }
}

#[tokio::test]
async fn a_rule_of_notifications_left_out_is_noticed_over_rest() {
    for twist in [Twist::QuietIsTold, Twist::AcceptedAreFollowers] {
        let clock = clock();
        let failure = run_through(&front(&clock), &clock, 1, 600, Some(twist)).await.expect_err("a run notices");
        assert!(failure.contains("seed 1 step"), "{twist:?}: {failure}");
    }
}
