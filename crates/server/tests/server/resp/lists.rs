//! Lists by rank, by time and piece by piece; keys and values; what commands say about themselves.

use std::time::Duration;

use crate::kit::{server::Server, wire::Wire};

/// `star` followed by 1 to `count`, each in a millisecond of its own; their times, oldest first.
fn followed(count: usize) -> (Server, Wire, Vec<i64>) {
    let server = Server::start();
    server.check("PUT /users/star", "201");
    let mut wire = Wire::connect(server.resp);
    let mut times = Vec::new();
    for id in 1..=count {
        server.check(&format!("PUT /users/{id}"), "201");
        wire.check(&format!("SADD following:{id} star"), "1");
        let score = wire.ask(&format!("ZSCORE followers:star {id}"));
        times.push(score.trim_matches('"').parse().unwrap());
        std::thread::sleep(Duration::from_millis(2));
    }
    (server, wire, times)
}

fn ids(range: impl Iterator<Item = usize>) -> String {
    format!("[{}]", range.map(|id| format!("\"{id}\"")).collect::<Vec<_>>().join(" "))
}

#[test]
fn ranks_count_from_the_newest() {
    let (_server, mut wire, times) = followed(6);
    let cases: [(&str, String); 14] = [
        ("0 -1", ids((1..=6).rev())),
        ("0 0", ids([6].into_iter())),
        ("0 100", ids((1..=6).rev())),
        ("2 3", ids([4, 3].into_iter())),
        ("4 100000", ids([2, 1].into_iter())),
        ("6 9", ids(0..0)),
        ("3 2", ids(0..0)),
        ("-2 -1", ids([2, 1].into_iter())),
        ("0 -5", ids([6, 5].into_iter())),
        ("-100 1", ids([6, 5].into_iter())),
        ("-1 -3", ids(0..0)),
        ("10001 10002", ids(0..0)),
        ("a 1", "-ERR value is not an integer or out of range".to_owned()),
        ("0 1 SOMETHING", "-ERR syntax error".to_owned()),
    ];
    for (range, expected) in cases {
        wire.check(&format!("ZREVRANGE followers:star {range}"), &expected);
    }
    wire.check("ZREVRANGE followers:star 0 1 WITHSCORES", &format!("[\"6\" \"{}\" \"5\" \"{}\"]", times[5], times[4]));
    wire.check("ZRANGE followers:star 0 1 REV", &ids([6, 5].into_iter()));
    wire.check("ZRANGE followers:star 0 1", &ids([1, 2].into_iter()));
    wire.check("ZRANGE followers:star 0 1 BYLEX", "-ERR BYLEX is not supported…");
    wire.check("ZRANGE followers:star 0 1 REV LIMIT 0 1", "-ERR syntax error, LIMIT…");
    wire.check("HELLO 3", "{…");
    wire.check(
        "ZREVRANGE followers:star 0 1 WITHSCORES",
        &format!("[[\"6\" {:?}] [\"5\" {:?}]]", times[5] as f64, times[4] as f64),
    );
    wire.check("ZSCORE followers:star 6", &format!("{:?}", times[5] as f64));
    wire.check("SMEMBERS following:1", "<\"star\">");
}

#[test]
fn times_bound_a_range() {
    let (_server, mut wire, times) = followed(5);
    let at = |index: usize| times[index];
    let cases: Vec<(String, String)> = vec![
        ("+inf -inf".to_owned(), ids((1..=5).rev())),
        (format!("{} -inf", at(2)), ids((1..=3).rev())),
        (format!("({} -inf", at(2)), ids((1..=2).rev())),
        (format!("+inf {}", at(2)), ids((3..=5).rev())),
        (format!("+inf ({}", at(2)), ids((4..=5).rev())),
        (format!("{} {}", at(3), at(1)), ids((2..=4).rev())),
        (format!("{} {}", at(1), at(3)), ids(0..0)),
        ("0 -inf".to_owned(), ids(0..0)),
        ("-inf +inf".to_owned(), ids(0..0)),
        ("+inf -inf LIMIT 1 2".to_owned(), ids((3..=4).rev())),
        ("+inf -inf LIMIT 1 -1".to_owned(), ids((1..=4).rev())),
        ("+inf -inf LIMIT -1 2".to_owned(), ids(0..0)),
        ("+inf -inf LIMIT 10001 2".to_owned(), ids(0..0)),
        ("+inf -inf LIMIT 1".to_owned(), "-ERR syntax error".to_owned()),
        ("x -inf".to_owned(), "-ERR min or max is not a float".to_owned()),
    ];
    for (range, expected) in cases {
        wire.check(&format!("ZREVRANGEBYSCORE followers:star {range}"), &expected);
        if !expected.contains("LIMIT") && !range.ends_with("LIMIT 1") {
            let (bounds, rest) = range.split_once(" LIMIT").map_or((range.as_str(), ""), |(a, b)| (a, b));
            let rest = if rest.is_empty() { String::new() } else { format!(" LIMIT{rest}") };
            wire.check(&format!("ZRANGE followers:star {bounds} BYSCORE REV{rest}"), &expected);
        }
    }
}

#[test]
fn pieces_and_pages_make_the_whole_list() {
    let (server, mut wire, _) = followed(25);
    let whole: Vec<String> = (1..=25).rev().map(|id| format!("\"{id}\"")).collect();
    for count in [1, 2, 5, 10, 24, 25, 26, 1_000] {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let reply = wire.ask(&format!("SSCAN followers:star {cursor} COUNT {count}"));
            let (next, rows) = reply.trim_matches(['[', ']']).split_once(" [").unwrap();
            found.extend(rows.split_whitespace().map(str::to_owned));
            cursor = next.trim_matches('"').to_owned();
            assert!(cursor.parse::<u64>().unwrap() < 1 << 53, "not every client has more bits");
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found, whole, "COUNT {count}");
    }
    wire.check("SSCAN followers:star 0 MATCH 2? COUNT 1000", &format!("[\"0\" {}]", ids((20..=25).rev())));
    wire.check("SSCAN followers:star 0 MATCH none* COUNT 1000", "[\"0\" []]");
    for (line, expected) in [
        ("SSCAN followers:star x", "-ERR invalid cursor"),
        ("SSCAN followers:star 0 COUNT 0", "-ERR syntax error"),
        ("SSCAN followers:star 0 COUNT", "-ERR syntax error"),
        ("SSCAN followers:star 0 LIKE x", "-ERR syntax error"),
        ("SSCAN followers:nobody 0", "[\"0\" []]"),
        ("SSCAN follower_count:star 0", "-WRONGTYPE …"),
    ] {
        wire.check(line, expected);
    }
    // Somebody who leaves while it is read keeps nobody else out.
    let reply = wire.ask("SSCAN followers:star 0 COUNT 5");
    let cursor = reply.split('"').nth(1).unwrap();
    server.check("DELETE /users/21/following/star", "200");
    server.check("DELETE /users/22/following/star", "200");
    wire.check(&format!("SSCAN followers:star {cursor} COUNT 3"), "[\"…");
    let rows = wire.ask(&format!("SSCAN followers:star {cursor} COUNT 3"));
    assert!(rows.ends_with(&format!("{}]", ids((18..=20).rev()))), "{rows}");
    // By cursor.
    let (mut cursor, mut found) = (String::new(), Vec::new());
    loop {
        let from = if cursor.is_empty() { String::new() } else { format!(" CURSOR {cursor}") };
        let reply = wire.ask(&format!("EG.LIST followers:star LIMIT 7{from}"));
        let (next, rows) = reply.trim_matches(['[', ']']).split_once(" [").unwrap();
        found.extend(rows.split_whitespace().step_by(2).map(str::to_owned));
        cursor = next.trim_matches('"').to_owned();
        if next == "nil" {
            break;
        }
    }
    assert_eq!(found.len(), 23);
}

#[test]
fn rows_of_one_millisecond_come_together() {
    let server = Server::with(
        crate::kit::server::memory_store(1),
        entourage_service::Rules { auto_create: true, limits: entourage_service::Limits::NONE, ..Default::default() },
    );
    let mut wire = Wire::connect(server.resp);
    let members: Vec<String> = (1..=500).map(|id| id.to_string()).collect();
    wire.check(&format!("SADD following:a {}", members.join(" ")), "500");
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let reply = wire.ask(&format!("SSCAN following:a {cursor} COUNT 1"));
        let (next, rows) = reply.trim_matches(['[', ']']).split_once(" [").unwrap();
        found.extend(rows.split_whitespace().map(str::to_owned));
        cursor = next.trim_matches('"').to_owned();
        if cursor == "0" {
            break;
        }
    }
    let all = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!((all, found.len()), (500, 500));
}

#[test]
fn keys_and_values() {
    let (server, mut wire, _) = followed(2);
    wire.check_all(&[
        ("EXISTS followers:star", "1"),
        ("EXISTS following:star followers:star follower_count:star is_following:1:star is_following:star:1 x", "3"),
        ("EXISTS follower_count:nobody followers:nobody", "0"),
        ("EXPIRE followers:star 60", "1"),
        ("EXPIRE friends:star 60", "-ERR no such key…"),
        ("EXPIRE followers:star soon", "-ERR value is not an integer or out of range"),
        ("EXPIRE followers:star 60 NX", "1"),
        ("EXPIRE followers:star 60 xx", "0"),
        ("EXPIRE followers:star 60 GT", "0"),
        ("EXPIRE followers:star 60 LT", "1"),
        ("EXPIRE followers:star 60 XX LT", "0"),
        ("EXPIRE followers:star 60 ZZ", "-ERR Unsupported option ZZ"),
        ("EXPIRE followers:star 60 NX more", "-ERR Unsupported option more"),
        ("EXPIRE followers:star soon ZZ", "-ERR Unsupported option ZZ"),
        ("EXPIRE followers:star 60 NX GT", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("EXPIRE followers:star 60 GT LT", "-ERR GT and LT options at the same time are not compatible"),
        ("EXPIRE followers:star 99999999999999999", "-ERR invalid expire time in 'expire' command"),
        ("TTL followers:star", "-1"),
        ("TTL friends:star", "-2"),
        ("TYPE followers:star", "set"),
        ("TYPE feed:star", "none"),
        ("TYPE following:star", "none"),
        ("TYPE follower_count:star", "string"),
        ("TYPE x", "none"),
        ("GET followers:star", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("GET friends:star", "-ERR no such key…"),
        ("GET is_following:1:2:3", "-ERR is_following:{a}:{b} takes two ids…"),
        ("GET follower_count:star", "\"2\""),
        (
            "MGET follower_count:star followers:star is_following:1:star friends:1 following_count:x",
            "[\"2\" nil \"1\" nil nil]",
        ),
        ("SISMEMBER follower_count:star 1", "-WRONGTYPE …"),
        ("SMEMBERS is_following:1:star", "-WRONGTYPE …"),
        ("SINTER followers:star following:1", "[]"),
        ("SINTER following:1 following:2 following:star", "[]"),
        ("SINTER following:1 block:1", "-ERR block:{a} is read by itself…"),
        ("SINTER following:1", "[\"star\"]"),
        ("SINTER following:1 following:2", "[\"star\"]"),
        ("SINTERCARD 2 following:1 following:2 LIMIT 5", "1"),
        ("SINTERCARD 1 followers:star", "2"),
        ("SINTERCARD 1 followers:star LIMIT 1", "1"),
        ("SINTERCARD 0 following:1", "-ERR numkeys should be greater than 0"),
        ("SINTERCARD 3 following:1 following:2", "-ERR Number of keys can't be greater than number of args"),
        ("SINTERCARD x following:1", "-ERR numkeys should be greater than 0"),
        ("SINTERCARD 2 following:1 following:2 LIMIT -1", "-ERR LIMIT can't be negative"),
        ("SINTERCARD 2 following:1 following:2 LIMIT x", "-ERR LIMIT can't be negative"),
        ("SINTERCARD 2 following:1 following:2 MORE", "-ERR syntax error"),
    ]);
    drop(server);
}

#[test]
fn the_table_tells_about_itself() {
    let server = Server::start();
    let mut wire = Wire::connect(server.resp);
    let count: usize = wire.ask("COMMAND COUNT").parse().unwrap();
    let list = wire.ask("COMMAND LIST");
    assert_eq!(list.split_whitespace().count(), count);
    assert!(list.contains("\"sismember\"") && !list.contains("flushall"));
    wire.check("COMMAND INFO get nothing", "[[\"get\" 2 [readonly] 1 1 1 [] [] [] []] nil]");
    wire.check("COMMAND INFO SADD", "[[\"sadd\" -3 [write no_multi] 1 1 1 …");
    wire.check("COMMAND DOCS GET", "[\"get\" [\"summary\" \"GET key…");
    wire.check("COMMAND GETKEYS MGET follower_count:1 follower_count:2", "[\"follower_count:1\" \"follower_count:2\"]");
    wire.check("COMMAND GETKEYS PING", "-ERR The command has no key arguments");
    wire.check("COMMAND GETKEYS SINTERCARD 2 a b", "[\"a\" \"b\"]");
    wire.check("COMMAND GETKEYS SINTERCARD 2 a b LIMIT 3", "[\"a\" \"b\"]");
    for words in ["3 a b", "x a b", "0 a", "18446744073709551615 a"] {
        wire.check(&format!("COMMAND GETKEYS SINTERCARD {words}"), "-ERR Invalid arguments specified for command");
    }
    wire.check("COMMAND INFO SINTERCARD", "[[\"sintercard\" -3 [readonly movablekeys] 0 0 0 …");
    wire.check("COMMAND COUNT x", "-ERR wrong number of arguments for 'command|count' command");
    wire.check("COMMAND GETKEYS", "-ERR wrong number of arguments for 'command|getkeys' command");
    wire.check("COMMAND LIST x", "-ERR syntax error");
    wire.check("COMMAND FOO", "-ERR unknown subcommand 'FOO'. Try …");
    wire.check("CONFIG GET", "-ERR wrong number of arguments for 'config|get' command");
    wire.check("CONFIG", "-ERR wrong number of arguments for 'config' command");
    wire.check("COMMAND GETKEYS FLUSHALL", "-ERR Invalid command specified");
    assert!(wire.ask("COMMAND").len() > 1_000);
    assert!(wire.ask("COMMAND DOCS").len() > 1_000);
    assert!(wire.ask("EG.HELP").contains("EG.FOLLOW follower target"));
    wire.check("EG.HELP ping", "[\"Connection\" \"  PING [text]\" …");
    wire.check("CONFIG GET save appendonly", "[\"appendonly\" \"yes\" \"save\" \"\"]");
    wire.check("CONFIG GET max*", "[\"maxclients\" \"10000\" \"maxmemory\" \"0\"]");
    wire.check("CONFIG SET save x", "-ERR unknown subcommand 'SET'…");
    assert!(wire.ask("INFO").contains("connected_clients:1"));
    assert!(!wire.ask("INFO server").contains("connected_clients"));
    for line in ["FLUSHALL", "DEBUG SLEEP 1", "SHUTDOWN", "SET a b", "KEYS *"] {
        wire.check(line, &format!("-ERR unknown command '{}'…", line.split(' ').next().unwrap()));
    }
    wire.check("SISMEMBER following:1", "-ERR wrong number of arguments for 'sismember' command");
}
