//! Lists that were imported without times: everybody in them has the same one.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use entourage_model::{
    Key, KeyHasher, List, Millis, Operation, Overwrite, Page, Place, Result, Secret, UserId, UserPatch,
};
use entourage_service::Rules;
use entourage_store::Store;
use entourage_testkit::conformance::hooked::{Hooked, Hooks};

use crate::kit::{
    server::{Server, memory_store},
    wire::Wire,
};

const CROWD: usize = 15_000;

/// Numbers and names: their keys are made differently.
fn member(number: usize) -> String {
    if number.is_multiple_of(2) { number.to_string() } else { format!("name-{number}") }
}

fn user_id(text: &str) -> UserId {
    UserId::try_from(text).unwrap()
}

/// `star`, followed by a crowd at one moment, by a few before it and by a few after it.
fn crowded() -> Server {
    let store = memory_store(1);
    let keys = KeyHasher::new(&Secret::from_bytes([1; 32]));
    let star = user_id("star");
    let put = |id: &UserId| Operation::PutUser {
        key: keys.key(id),
        id: id.clone(),
        patch: UserPatch::default(),
        overwrite: Overwrite::Replace,
    };
    let import = |id: &UserId, at: u64| Operation::Import {
        follower: keys.key(id),
        target: keys.key(&star),
        at: Millis::from_since_2000(at),
        quiet: false,
    };
    let mut writes = vec![put(&star).into()];
    for number in 0..CROWD {
        let id = user_id(&member(number));
        writes.extend([put(&id).into(), import(&id, 1_000_000).into()]);
    }
    for number in 1..=25 {
        for (name, at) in [("older", 1_000_000 - number), ("newer", 1_000_000 + number)] {
            let id = user_id(&format!("{name}-{number}"));
            writes.extend([put(&id).into(), import(&id, at).into()]);
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for done in runtime.block_on(store.commit_all(writes)) {
        done.unwrap();
    }
    Server::with(store, Rules::default())
}

/// Reads the list to its end; what happens between two pieces is the caller's.
fn scanned(wire: &mut Wire, count: usize, mut between: impl FnMut(&[String])) -> BTreeMap<String, usize> {
    let (mut cursor, mut found) = ("0".to_owned(), BTreeMap::new());
    for piece in 0.. {
        assert!(piece < 1_000, "it does not end");
        let reply = wire.ask(&format!("SSCAN followers:star {cursor} COUNT {count}"));
        let (next, rows) = reply.trim_matches(['[', ']']).split_once(" [").unwrap_or_else(|| panic!("{reply}"));
        let rows: Vec<String> = rows.split_whitespace().map(|id| id.trim_matches('"').to_owned()).collect();
        assert!(rows.len() <= 2_000, "{} rows at once", rows.len());
        for id in &rows {
            *found.entry(id.clone()).or_default() += 1;
        }
        between(&rows);
        cursor = next.trim_matches('"').to_owned();
        assert!(cursor.parse::<u64>().unwrap() < 1 << 53, "not every client has more bits");
        if cursor == "0" {
            break;
        }
    }
    found
}

#[test]
fn a_crowd_of_one_moment_is_scanned_to_its_end() {
    let server = crowded();
    let mut wire = Wire::connect(server.resp);
    wire.check("SCARD followers:star", "15050");
    wire.check("SMEMBERS followers:star", "-ERR there are more than 10000 members; read them with SSCAN or EG.LIST");
    for count in [1, 10, 25, 1_000] {
        let found = scanned(&mut wire, count, |_| {});
        assert_eq!(found.len(), CROWD + 50, "COUNT {count}");
        assert!(found.values().all(|times| *times == 1), "COUNT {count}: somebody twice");
    }
    for cursor in ["18446744073709551615", "9007199254740992", "4398046511104", "-1"] {
        wire.check(&format!("SSCAN followers:star {cursor}"), "-ERR invalid cursor");
    }
}

#[test]
fn whoever_leaves_between_two_pieces_keeps_nobody_out() {
    let server = crowded();
    let (mut wire, mut other) = (Wire::connect(server.resp), Wire::connect(server.resp));
    let mut gone = 0;
    let mut left = Vec::new();
    let found = scanned(&mut wire, 10, |rows| {
        // The row that a piece ended with, one before it, and some that may or may not have been read.
        let mut leaving: Vec<String> = rows.last().into_iter().chain(rows.first()).cloned().collect();
        leaving.extend((0..300).map(|step| member((gone + step * 47) % CROWD)));
        gone += 13;
        for id in leaving {
            other.ask(&format!("SREM following:{id} star"));
            left.push(id);
        }
    });
    let mut stayed = 0;
    for number in 0..CROWD {
        let id = member(number);
        if !left.contains(&id) {
            stayed += 1;
            assert_eq!(found.get(&id), Some(&1), "{id}");
        }
    }
    assert!(stayed > CROWD / 2 && left.len() > 3_000, "{stayed} stayed, {} left", left.len());
}

/// In every list the first row so many times, each time of somebody else.
struct Multitude(i64);

#[async_trait]
impl Hooks for Multitude {
    async fn scan(&self, inner: &dyn Store, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        let first = inner.scan(list, None, 1).await?.edges[0];
        let is_begun = after.is_some_and(|place| place.position == first.value.position);
        let last = after.filter(|_| is_begun).map_or(self.0 + 1, |place| place.key.0);
        let keys = (1..last).rev().take(limit).map(Key);
        let edges: Vec<_> = keys.map(|follower| entourage_model::Edge { follower, ..first }).collect();
        let more = edges.last().is_some_and(|edge| edge.follower.0 > 1);
        Ok(Page { edges, more, total: self.0 as u64, quiet: 0 })
    }
}

#[test]
fn a_millisecond_is_read_up_to_a_million_rows() {
    for (rows, is_read) in [(1_000_000, true), (1_002_000, false)] {
        let store = memory_store(1);
        let keys = KeyHasher::new(&Secret::from_bytes([1; 32]));
        let [star, fan] = ["star", "fan"].map(user_id);
        let put = |id: &UserId| {
            let (patch, overwrite) = (UserPatch::default(), Overwrite::Replace);
            Operation::PutUser { key: keys.key(id), id: id.clone(), patch, overwrite }.into()
        };
        let follow = Operation::Follow {
            follower: keys.key(&fan),
            target: keys.key(&star),
            quiet: Some(false),
            cap: None,
            park: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for done in runtime.block_on(store.commit_all(vec![put(&star), put(&fan), follow.into()])) {
            done.unwrap();
        }
        let server = Server::with(Arc::new(Hooked::new(store, Multitude(rows))), Rules::default());
        let mut wire = Wire::connect(server.resp);
        let reply = wire.ask("SSCAN followers:star 0");
        let refused = "-INVALIDREQUEST too many rows have the same time for reading the list in pieces; page through it with a cursor";
        assert_eq!(reply == refused, !is_read, "{rows}: {reply}");
        assert!(!is_read || !reply.starts_with('-'), "{rows}: {reply}");
        wire.check("PING", "PONG");
    }
}

#[test]
fn no_rank_above_ten_thousand_is_answered() {
    const TOO_FAR: &str = "-ERR ranks go up to 10000, and so do replies; page through more with EG.LIST or EG.FEED";
    let server = crowded();
    let mut wire = Wire::connect(server.resp);
    let cases = [
        ("9999 10000", Some(2)),
        ("10000 10000", Some(1)),
        ("1 10000", Some(10_000)),
        ("0 9999", Some(10_000)),
        ("0 10000", None),
        ("9999 10001", None),
        ("10000 10001", None),
        ("10000 -1", None),
        ("10001 10001", None),
        ("0 -1", None),
        ("-1 -1", Some(1)),
        ("-10000 -1", Some(10_000)),
        ("-10001 -10001", Some(1)),
        ("-10001 -1", None),
        ("-10002 -10002", None),
        ("-10 5", None),
        ("20000 20001", None),
    ];
    for (ranks, expected) in cases {
        for line in [
            format!("ZREVRANGE followers:star {ranks}"),
            format!("ZRANGE followers:star {ranks} REV"),
            format!("ZRANGE followers:star {ranks}"),
        ] {
            match expected {
                Some(rows) => assert_eq!(wire.ask(&line).split(' ').count(), rows, "{line}"),
                None => wire.check(&line, TOO_FAR),
            }
        }
    }
    let oldest: Vec<String> = (1..=25).rev().map(|number| format!("\"older-{number}\"")).collect();
    wire.check("ZRANGE followers:star 0 24", &format!("[{}]", oldest.join(" ")));
    wire.check(
        "ZREVRANGE followers:star -25 -1",
        &format!("[{}]", oldest.iter().rev().cloned().collect::<Vec<_>>().join(" ")),
    );
    wire.check("ZRANGEBYSCORE followers:star -inf +inf LIMIT 0 2", &format!("[{} {}]", oldest[0], oldest[1]));
    wire.check("ZRANGE followers:star 15050 15060", TOO_FAR);
    wire.check("ZREVRANGE followers:star -15060 -15051", TOO_FAR);
    wire.check("ZRANGE followers:star 0 -1 LIMIT 0 -1", TOO_FAR);
}
