//! Events applied to a copy of the graph, on stores of this process.

use std::sync::Arc;

use entourage_embedded as embedded;
use entourage_store::{Store, SystemClock};
use entourage_testkit::crash_disk::CrashDisk;

use super::{
    replayed::{Twist, run},
    server::{Server, memory_store},
};

fn seeds(count: u64) -> std::ops::Range<u64> {
    0..if std::env::var_os("ENTOURAGE_SOAK").is_some() { count * 20 } else { count }
}

#[test]
fn a_copy_made_of_events_is_what_a_memory_store_exports() {
    for seed in seeds(3) {
        let store = memory_store(1);
        run(|| Arc::clone(&store), seed, 500, None).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn a_copy_made_of_events_is_what_an_embedded_store_exports() {
    for seed in seeds(3) {
        let disk = CrashDisk::new();
        let open = || {
            let options = embedded::Options {
                segment_bytes: 256 << 10,
                frame_bytes: 64 << 10,
                checkpoint_entries: 100,
                ..embedded::Options::default()
            };
            let store = embedded::Store::open(Arc::new(disk.clone()), "the test disk", options, Arc::new(SystemClock));
            Arc::new(store.unwrap()) as Arc<dyn Store>
        };
        run(open, 10 + seed, 500, None).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn events_that_cannot_be_applied_are_noticed() {
    for twist in [
        Twist::ErasedUnnamed,
        Twist::EdgesOfErasedUnnamed,
        Twist::FlagIsCreation,
        Twist::ExpiryMissing,
        Twist::GroupUnnamed,
        Twist::SuspensionUntold,
    ] {
        let store = memory_store(1);
        assert!(run(|| Arc::clone(&store), 1, 500, Some(twist)).is_err(), "{twist:?} goes unnoticed");
    }
}

/// Named and numeric ids alike, in every event from before and after the erasure.
#[test]
fn the_erased_are_named_and_nothing_else_is_said_of_them() {
    let server = Server::start();
    for id in ["ada", "7", "bob"] {
        server.check(
            &format!(r#"PUT /users/{id} {{"name": "Secret {id}", "avatar_url": "https://secret/{id}"}}"#),
            "201",
        );
    }
    for id in ["ada", "7"] {
        server.check(&format!("PUT /users/{id}/following/bob"), "201");
        server.check(&format!("PUT /users/bob/following/{id}"), "201");
        server.check(&format!("PUT /users/bob/mutes/{id}"), "201");
        server.check(&format!(r#"POST /users/{id}/groups {{"name": "Secret group"}}"#), "201");
        server.check(&format!(r#"@{id} POST /posts {{"body": {{"text": "Secret post"}}}}"#), "201");
        server.check(&format!("DELETE /users/{id}"), "202");
    }
    server.work_now();
    // Whoever has the id next is somebody else.
    server.check(r#"PUT /users/ada {"name": "Another"}"#, "201");
    let reply = server.check("GET /events?limit=200", "200 {}");
    assert!(
        !reply.text.replace("Secret bob", "").replace("https://secret/bob", "").contains("ecret"),
        "{}",
        reply.text
    );
    let events = reply.body["data"].as_array().unwrap();
    assert!(reply.text.contains("Another"));
    for id in ["ada", "7"] {
        let mut names: Vec<&str> = Vec::new();
        for event in events {
            let fields = ["follower", "target", "owner", "author"].map(|name| &event[name]);
            if fields.contains(&&id.into()) || event["user"]["id"] == id {
                names.push(event["type"].as_str().unwrap());
            }
        }
        names.sort_unstable();
        let mut expected = vec![
            "follow.created",
            "follow.created",
            "follow.removed",
            "follow.removed",
            "group.created",
            "mute.created",
            "mute.removed",
            "post.created",
            "post.deleted",
            "user.created",
            "user.erased",
        ];
        if id == "ada" {
            expected.insert(9, "user.created");
        }
        assert_eq!(names, expected, "{id}: {}", reply.text);
    }
}
