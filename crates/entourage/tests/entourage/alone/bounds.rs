//! Floods of profile views and of viewers who ask for suggestions, through the running server: what it remembers stays within
//! its named limits, and so do its bytes.

use std::{
    fmt::Write as _,
    thread,
    time::{Duration, Instant},
};

use entourage_service::{CACHE_BYTES_MAX, COUNTERS_MAX, SIGNALS_MAX, VIEWED_MAX};
use serde_json::json;

use crate::resp_kit::resident_bytes;
use crate::server_kit::{Client, Folder, Serving, check, text};

const PEOPLE: usize = 150_000;
/// Views of so many others by each of them: twice what the server keeps.
const VIEWS_EACH: usize = 2 * COUNTERS_MAX / PEOPLE + 1;
const FOLLOWS_EACH: usize = 12;
/// A viewer's counters take more than the counter: an entry of a table and what the allocator adds, shared by few.
const COUNTER_BYTES: u64 = 160;
/// What requests take besides: buffers, connections, pages that the allocator has not given back.
const SLACK_BYTES: u64 = 64 << 20;

fn import(folder: &Folder) -> std::path::PathBuf {
    let (data, file) = (folder.join("data"), folder.join("edges.csv"));
    let mut lines = String::from("follower,target\n");
    for user in 0..PEOPLE {
        for step in 1..=FOLLOWS_EACH {
            writeln!(lines, "{user},{}", (user + step * step * 7) % PEOPLE).unwrap();
        }
    }
    std::fs::write(&file, lines).unwrap();
    let imported = crate::server_kit::run(&["import", text(&file), "--data", text(&data)]);
    assert!(imported.status.success(), "{imported:?}");
    data
}

fn metric(client: &Client, name: &str) -> u64 {
    let metrics = client.text("/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |number| number.parse::<f64>().unwrap() as u64)
}

/// Everybody looks at many others, a few at a time. The bound is asserted on the way.
fn flood_signals(client: &Client) {
    let mut sent = 0;
    let pairs = (0..VIEWS_EACH).flat_map(|step| (0..PEOPLE).map(move |viewer| (viewer, (viewer + 1 + step) % PEOPLE)));
    let views = pairs.map(|(viewer, viewed)| {
        json!({ "viewer": viewer.to_string(), "viewed": viewed.to_string(), "type": "profile_view" })
    });
    let mut views = views.peekable();
    while views.peek().is_some() {
        let batch: Vec<_> = views.by_ref().take(SIGNALS_MAX).collect();
        let heard = client.ask("POST", "/api/v1/signals", &json!({ "signals": batch }).to_string()).expect("an answer");
        assert_eq!((heard.status, heard.body["accepted"].as_u64()), (200, Some(batch.len() as u64)), "{heard:?}");
        sent += batch.len();
        if sent % (50 * SIGNALS_MAX) == 0 {
            assert!(metric(client, "entourage_signal_counters") <= COUNTERS_MAX as u64);
        }
    }
    assert!(sent > COUNTERS_MAX + COUNTERS_MAX / 2);
    let kept = metric(client, "entourage_signal_counters");
    assert!((COUNTERS_MAX as u64 * 8 / 10..=COUNTERS_MAX as u64).contains(&kept), "{kept} counters");
    println!("{sent} views of distinct pairs, {kept} counters");
}

/// One viewer who looks at very many.
fn flood_of_one(client: &Client) {
    for first in (1..=10 * VIEWED_MAX).step_by(SIGNALS_MAX) {
        let view = |viewed: usize| json!({ "viewer": "0", "viewed": viewed.to_string(), "type": "profile_view" });
        let batch: Vec<_> = (first..first + SIGNALS_MAX).map(view).collect();
        let heard = client.ask("POST", "/api/v1/signals", &json!({ "signals": batch }).to_string()).expect("an answer");
        assert_eq!(heard.status, 200, "{heard:?}");
    }
    assert!(metric(client, "entourage_signal_counters") <= COUNTERS_MAX as u64);
}

fn flood_suggestions(base: &str) {
    thread::scope(|scope| {
        for part in 0..4 {
            scope.spawn(move || {
                let client = Client::new(base);
                for viewer in (part..PEOPLE / 8).step_by(4) {
                    let heard = client.get(&format!("/api/v1/users/{viewer}/suggestions?limit=50"));
                    assert_eq!(heard.status, 200, "{heard:?}");
                    assert!(heard.body["data"].as_array().unwrap().len() <= 50);
                }
            });
        }
    });
}

#[test]
fn signals_and_answers_stay_within_their_bounds_under_a_flood() {
    let folder = Folder::new();
    let data = import(&folder);
    let mut server = Serving::start(&data);
    let client = Client::new(&server.base);
    let before = resident_bytes(server.id());
    flood_signals(&client);
    flood_of_one(&client);
    let signals = resident_bytes(server.id()).saturating_sub(before);
    println!("signals: {} MiB more than before", signals >> 20);
    assert!(signals <= COUNTERS_MAX as u64 * COUNTER_BYTES + SLACK_BYTES, "{signals} bytes");
    let before = resident_bytes(server.id());
    let mut after = 0;
    for round in 0..3 {
        flood_suggestions(&server.base);
        after = resident_bytes(server.id()).saturating_sub(before);
        println!("suggestions, round {round}: {} MiB more than before", after >> 20);
    }
    assert!(after <= CACHE_BYTES_MAX as u64 + SLACK_BYTES, "{after} bytes");
    // All of them are saved, and the next server has as many.
    let kept = metric(&client, "entourage_signal_counters");
    server.signal("-TERM");
    let (code, said) = server.wait();
    assert_eq!(code, Some(0), "{said}");
    let server = Serving::start(&data);
    let (client, began) = (Client::new(&server.base), Instant::now());
    while metric(&client, "entourage_signal_counters") != kept {
        let there = metric(&client, "entourage_signal_counters");
        assert!(began.elapsed() < Duration::from_secs(60), "{kept} counters were kept, {there} are there");
        thread::sleep(Duration::from_millis(50));
    }
    drop(server);
    check(&["verify", "--data", text(&data)], 0, &["clean"], &[]);
}
