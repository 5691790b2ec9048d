//! Reads that have much to look through. Each has a figure, for a release build; asserted is four times that, and the time
//! is printed.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use crate::resp_kit::{Wire, encoded};
use crate::server_kit::{Client, Folder, Serving, command, run, text};

/// Whom everybody followed, and most do not any more.
const LEFT: u64 = 9;
const LEFT_BY: u64 = 300_000;
const GONE: u64 = 200_000;
const MUTUALS: u64 = 3_000;
/// Whom 4 and 5 follow: of the longer list nobody waits longer.
const FEW: u64 = 2_500;
const MANY: u64 = 20_000;

fn graph() -> String {
    let mut lines = String::from("follower,target\n");
    let mut add = |follower: u64, target: u64| writeln!(lines, "{follower},{target}").unwrap();
    for number in 0..30_000 {
        add(1, 1_000_000 + number);
    }
    // 200 of them are common with 2's.
    for number in 0..20_000 {
        add(2, if number % 100 == 0 { 1_000_000 + number } else { 2_000_000 + number });
    }
    for number in 0..MUTUALS {
        add(3, 3_000_000 + number);
        add(3_000_000 + number, 3);
    }
    for number in 0..FEW {
        add(4, 4_000_000 + number);
    }
    for number in 0..MANY {
        add(5, 4_000_000 + number);
    }
    for number in 0..LEFT_BY {
        add(5_000_000 + number, LEFT);
    }
    lines
}

/// In the middle of several times.
fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..15)
        .map(|_| {
            let began = Instant::now();
            work();
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// What took longer than four times its figure.
#[derive(Default)]
struct Late(Vec<String>);

impl Late {
    fn look(&mut self, name: &str, figure: Duration, time: Duration) {
        println!("{time:>9.1?} of {figure:?}: {name}");
        if time > 4 * figure {
            self.0.push(format!("{name}: {time:?}, and {figure:?} is the figure"));
        }
    }
}

fn check_all(server: &Serving, late: &mut Late) {
    let (client, mut wire) = (Client::new(&server.base), Wire::connect(&server.resp));
    let millis = Duration::from_millis;
    let common = median(|| {
        let heard = client.get("/api/v1/users/1/common-following/2?limit=200");
        assert_eq!(heard.body["data"].as_array().unwrap().len(), 200);
    });
    late.look("common following of 30,000 and 20,000", millis(2), common);
    let mutuals = median(|| {
        let (mut found, mut cursor) = (0, String::new());
        loop {
            let heard = client.get(&format!("/api/v1/users/3/mutuals?limit=200{cursor}"));
            found += heard.body["data"].as_array().unwrap().len() as u64;
            let Some(next) = heard.body["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found, MUTUALS);
    });
    late.look("all pages of 3,000 mutuals", millis(10), mutuals);
    let sinter = median(|| {
        assert_eq!(wire.ask("SINTER following:3 followers:3"), format!("*{MUTUALS}"));
        for _ in 0..MUTUALS {
            wire.reply().unwrap();
        }
    });
    late.look("SINTER of 3,000 mutuals", millis(3), sinter);
    let mut scores = |key: u64, among: u64| {
        // As far apart as the list is long.
        let lines: Vec<String> =
            (0..100).map(|number| format!("ZSCORE following:{key} {}", 4_000_000 + number * among / 100)).collect();
        let bytes: Vec<u8> = lines.iter().flat_map(|line| encoded(line)).collect();
        median(|| {
            wire.send(&bytes);
            for line in &lines {
                assert!(wire.reply().unwrap().parse::<u64>().is_ok(), "{line}");
            }
        })
    };
    let (few, many) = (scores(4, FEW), scores(5, MANY));
    late.look("100 ZSCORE among 20,000, as among 2,500", few, many);
}

#[test]
fn reads_that_have_much_to_look_through_are_quick() {
    let folder = Folder::new();
    let (data, file) = (folder.join("data"), folder.join("graph.csv"));
    std::fs::write(&file, graph()).unwrap();
    assert!(run(&["import", text(&file), "--data", text(&data)]).status.success());
    let mut serve = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
    serve.env("ENTOURAGE_LOGGING__LEVEL", "error").env("ENTOURAGE_LIMITS__FOLLOWING_MAX", "0");
    let server = Serving::start_as(&mut serve);
    let mut late = Late::default();
    check_all(&server, &mut late);

    let (client, mut wire) = (Client::new(&server.base), Wire::connect(&server.resp));
    let began = Instant::now();
    // The newest ones, which every page would have to pass.
    for part in (LEFT_BY - GONE..LEFT_BY).collect::<Vec<_>>().chunks(10_000) {
        let lines = part.iter().flat_map(|number| encoded(&format!("SREM following:{} {LEFT}", 5_000_000 + number)));
        wire.send(&lines.collect::<Vec<u8>>());
        assert!(part.iter().all(|_| wire.reply().as_deref() == Some(":1")));
    }
    println!("{GONE} unfollows in {:.1?}", began.elapsed());
    let page = median(|| {
        let heard = client.get(&format!("/api/v1/users/{LEFT}/followers?limit=50"));
        assert_eq!(heard.body["data"][0]["id"], (5_000_000 + LEFT_BY - GONE - 1).to_string());
        assert_eq!(heard.body["total"], LEFT_BY - GONE);
    });
    late.look("a page after 200,000 unfollows", Duration::from_millis(1), page);
    assert!(late.0.is_empty(), "{:#?}", late.0);
}
