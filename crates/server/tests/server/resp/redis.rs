//! The same commands to Entourage and to a real Redis that holds the same lists: replies are equal, errors word for word.

use std::collections::{BTreeMap, BTreeSet};

use entourage_model::{KeyHasher, Millis, Operation, Overwrite, Secret, UserId, UserPatch};
use entourage_service::{Limits, Rules};

use crate::kit::{
    redis_kit::Redis,
    server::{Server, memory_store},
    wire::{Wire, encoded, shown, words},
};

/// In 2001, in milliseconds since 2000: every edge has a time of its own, as ties are ordered differently.
const FIRST_TIME: u64 = 40_000_000_000;

const PEOPLE: [&str; 8] = ["1", "ann", "22", "bob", "did:plc:x", "Zoë", "lonely", "9"];

/// Who follows whom, oldest first.
const FOLLOWS: [(usize, usize); 22] = [
    (0, 1),
    (1, 0),
    (2, 0),
    (0, 2),
    (3, 0),
    (4, 0),
    (5, 0),
    (0, 3),
    (1, 2),
    (1, 3),
    (2, 3),
    (3, 1),
    (0, 4),
    (4, 1),
    (4, 2),
    (5, 1),
    (2, 1),
    (0, 5),
    (3, 2),
    (1, 4),
    (7, 0),
    (7, 1),
];
const BLOCKS: [(usize, usize); 3] = [(2, 5), (2, 7), (3, 7)];

/// Lists as sorted sets, and lists as sets: Redis has one type for a key.
#[derive(Clone, Copy, Debug, PartialEq)]
enum As {
    SortedSets = 0,
    Sets = 1,
}

struct Both {
    /// Both run as long as they are asked.
    _server: Server,
    _redis: Redis,
    /// By protocol and database.
    wires: BTreeMap<(u8, u8), [Wire; 2]>,
    compared: usize,
    different: Vec<String>,
}

fn unix(time: u64) -> i64 {
    Millis::from_since_2000(time).to_unix()
}

fn time_of(edge: usize) -> u64 {
    FIRST_TIME + 10 * edge as u64
}

/// Members and scores of sorted sets, members of sets, by key.
type SortedSets = BTreeMap<String, Vec<(String, i64)>>;
type Sets = BTreeMap<String, BTreeSet<String>>;

fn keys() -> (SortedSets, Sets) {
    let mut sorted = SortedSets::new();
    for (edge, (from, to)) in FOLLOWS.into_iter().enumerate() {
        let (from, to, score) = (PEOPLE[from], PEOPLE[to], unix(time_of(edge)));
        for (key, member) in
            [(format!("following:{from}"), to), (format!("follows:{from}"), to), (format!("followers:{to}"), from)]
        {
            sorted.entry(key).or_default().push((member.to_owned(), score));
        }
    }
    let follows: BTreeSet<(&str, &str)> = FOLLOWS.into_iter().map(|(from, to)| (PEOPLE[from], PEOPLE[to])).collect();
    let mut sets = Sets::new();
    for one in PEOPLE {
        for two in PEOPLE {
            if follows.contains(&(one, two)) && follows.contains(&(two, one)) {
                sets.entry(format!("mutual:{one}")).or_default().insert(two.to_owned());
            }
            if one.contains(':') || two.contains(':') {
                continue;
            }
            for both in
                PEOPLE.into_iter().filter(|both| follows.contains(&(one, both)) && follows.contains(&(two, both)))
            {
                sets.entry(format!("common_following:{one}:{two}")).or_default().insert(both.to_owned());
            }
        }
    }
    for (user, target) in BLOCKS {
        sets.entry(format!("block:{}", PEOPLE[user])).or_default().insert(PEOPLE[target].to_owned());
    }
    (sorted, sets)
}

impl Both {
    fn new() -> Self {
        let store = memory_store(1);
        let hasher = KeyHasher::new(&Secret::from_bytes([1; 32]));
        let id = |name: &str| UserId::try_from(name).unwrap();
        let key = |name: &str| hasher.key(&id(name));
        let mut writes = Vec::new();
        for name in PEOPLE {
            let (patch, overwrite) = (UserPatch::default(), Overwrite::Replace);
            writes.push(Operation::PutUser { key: key(name), id: id(name), patch, overwrite }.into());
        }
        for (edge, (from, to)) in FOLLOWS.into_iter().enumerate() {
            let at = Millis::from_since_2000(time_of(edge));
            let (follower, target) = (key(PEOPLE[from]), key(PEOPLE[to]));
            writes.push(Operation::Import { follower, target, at, quiet: false }.into());
        }
        for (user, target) in BLOCKS {
            writes.push(Operation::Block { actor: key(PEOPLE[user]), target: key(PEOPLE[target]) }.into());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.commit_all(writes)).into_iter().for_each(|done| drop(done.unwrap()));
        let server = Server::with(store, Rules { limits: Limits::NONE, ..Rules::default() });
        let redis = Redis::start();
        let (sorted, sets) = keys();
        let mut wires = BTreeMap::new();
        for database in [As::SortedSets, As::Sets] {
            let mut redis = Wire::connect(redis.address);
            redis.check(&format!("SELECT {}", database as u8), "OK");
            let mut put = |words: Vec<String>| {
                redis.send(&encoded(&words));
                let reply = redis.reply().unwrap();
                assert!(!reply.starts_with('-'), "{words:?}: {reply}");
            };
            for (key, members) in &sorted {
                for (member, score) in members {
                    put(match database {
                        As::SortedSets => vec!["ZADD".into(), key.clone(), score.to_string(), member.clone()],
                        As::Sets => vec!["SADD".into(), key.clone(), member.clone()],
                    });
                }
            }
            for (key, members) in &sets {
                members.iter().for_each(|member| put(vec!["SADD".into(), key.clone(), member.clone()]));
            }
            for name in PEOPLE {
                for (count, list) in [("follower_count", "followers"), ("following_count", "following")] {
                    let length = sorted.get(&format!("{list}:{name}")).map_or(0, Vec::len);
                    put(vec!["SET".into(), format!("{count}:{name}"), length.to_string()]);
                }
            }
        }
        for protocol in [2, 3] {
            for database in [0, 1] {
                let both = [server.resp, redis.address].map(|address| {
                    let mut wire = Wire::connect(address);
                    wire.send(&encoded(&["HELLO", &protocol.to_string()]));
                    wire.reply().unwrap();
                    wire
                });
                let [ours, mut theirs] = both;
                theirs.check(&format!("SELECT {database}"), "OK");
                wires.insert((protocol, database), [ours, theirs]);
            }
        }
        Self { _server: server, _redis: redis, wires, compared: 0, different: Vec::new() }
    }

    /// Both say the same in both protocols. `any_order` where a set has none.
    fn same(&mut self, database: As, line: &str, any_order: bool) {
        for protocol in [2, 3] {
            let wires = self.wires.get_mut(&(protocol, database as u8)).unwrap();
            let [ours, theirs] = wires.each_mut().map(|wire| {
                wire.send(&encoded(&words(line)));
                let reply = shown(&wire.frame().unwrap());
                if !any_order || reply.starts_with('-') {
                    return reply;
                }
                let mut members: Vec<&str> = reply.split([' ', '[', ']', '<', '>']).collect();
                members.sort_unstable();
                members.join(" ")
            });
            self.compared += 1;
            if ours != theirs {
                self.different.push(format!("{line} in RESP{protocol}\n  ours:   {ours}\n  theirs: {theirs}"));
            }
        }
    }

    fn end(self, at_least: usize) {
        assert!(self.different.is_empty(), "{} replies differ:\n{}", self.different.len(), self.different.join("\n"));
        assert!(self.compared > at_least, "only {} were compared", self.compared);
    }

    fn sorted(&mut self, line: &str) {
        self.same(As::SortedSets, line, false);
    }

    fn set(&mut self, line: &str) {
        self.same(As::Sets, line, true);
    }
}

/// Lists that are long, short, empty and of nobody.
const LISTS: [&str; 7] = [
    "followers:1",
    "following:1",
    "follows:1",
    "followers:did:plc:x",
    "followers:Zoë",
    "following:lonely",
    "followers:nobody",
];

#[test]
fn ranges_by_rank_are_those_of_redis() {
    let mut both = Both::new();
    let ranks = ["0", "1", "2", "3", "5", "6", "7", "100", "-1", "-2", "-3", "-6", "-7", "-100"];
    for list in LISTS {
        for start in ranks {
            for stop in ranks {
                both.sorted(&format!("ZRANGE {list} {start} {stop}"));
                both.sorted(&format!("ZRANGE {list} {start} {stop} REV"));
                both.sorted(&format!("ZREVRANGE {list} {start} {stop} WITHSCORES"));
            }
        }
        for (start, stop) in [(i64::MIN, i64::MAX), (0, i64::MAX), (i64::MIN, -1), (-1, i64::MIN), (i64::MAX, 0)] {
            both.sorted(&format!("ZRANGE {list} {start} {stop} WITHSCORES"));
            both.sorted(&format!("ZREVRANGE {list} {start} {stop}"));
        }
        both.sorted(&format!("ZRANGE {list} 0 -1 WITHSCORES"));
        both.sorted(&format!("ZRANGE {list} 10001 10002"));
        both.sorted(&format!("ZREVRANGE {list} 10001 -1"));
        both.sorted(&format!("ZRANGE {list} 0 -1 WITHSCORES REV"));
    }
    both.end(4_000);
}

#[test]
fn ranges_by_score_are_those_of_redis() {
    let mut both = Both::new();
    // Edges of followers:1 and ones between, from both sides.
    let times: Vec<String> = [0, 1, 3, 6, 20, 21].into_iter().map(|edge| unix(time_of(edge)).to_string()).collect();
    let mut bounds = vec!["-inf".to_owned(), "+inf".to_owned(), "inf".to_owned(), "0".to_owned(), "-5".to_owned()];
    for time in &times {
        bounds.extend([time.clone(), format!("({time}"), format!("{time}.5"), format!("({time}.5")]);
    }
    bounds.extend(["(-inf".to_owned(), "(+inf".to_owned(), "1e3".to_owned(), "9e18".to_owned(), "-9e18".to_owned()]);
    for list in ["followers:1", "following:1", "followers:nobody"] {
        for one in &bounds {
            for other in &bounds {
                both.sorted(&format!("ZRANGEBYSCORE {list} {one} {other}"));
                both.sorted(&format!("ZREVRANGEBYSCORE {list} {one} {other} WITHSCORES"));
            }
        }
        for limit in ["0 0", "0 1", "1 2", "0 -1", "2 -1", "2 -7", "-1 2", "-1 -1", "5 5", "100 5", "1 100", "10001 1"]
        {
            both.sorted(&format!("ZRANGEBYSCORE {list} -inf +inf LIMIT {limit}"));
            both.sorted(&format!("ZREVRANGEBYSCORE {list} +inf -inf WITHSCORES LIMIT {limit}"));
            both.sorted(&format!("ZRANGE {list} ({} +inf BYSCORE LIMIT {limit}", times[0]));
            both.sorted(&format!("ZRANGE {list} +inf ({} REV BYSCORE LIMIT {limit} WITHSCORES", times[0]));
            both.sorted(&format!("ZRANGE {list} 0 -1 LIMIT {limit}"));
        }
    }
    both.end(6_000);
}

/// A line with a list and a string for `L` and `S`.
fn filled(line: &str, list: &str, string: &str) -> String {
    let word = |word| match word {
        "L" => list,
        "S" => string,
        word => word,
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_wrong_is_said_as_redis_says_it() {
    let mut both = Both::new();
    for (list, string) in [("followers:1", "follower_count:1"), ("followers:nobody", "following_count:ann")] {
        for line in
            "ZRANGE L; ZRANGE L 0; ZRANGE L a 1; ZRANGE L 0 1.5; ZRANGE L +1 2; ZRANGE L 01 2; ZRANGE L \"\" 2; \
            ZRANGE L 0 9223372036854775808; ZRANGE L 0 1 REV REV; ZRANGE L 0 1 BYSCORE BYSCORE; ZRANGE L 0 1 X; \
            ZRANGE L 0 1 LIMIT; ZRANGE L 0 1 LIMIT 0; ZRANGE L 0 1 LIMIT 0 1; ZRANGE L 0 1 LIMIT 0 -1; \
            ZRANGE L 0 1 LIMIT a 1; ZRANGE L 0 1 BYSCORE LIMIT 0 x; ZRANGE L a 1 LIMIT 0 1; \
            ZRANGE L x y BYSCORE; ZRANGE L (1 (x BYSCORE; ZRANGE L nan 5 BYSCORE; ZRANGE L [1 5 BYSCORE; \
            ZRANGE S 0 1; ZRANGE S x 1; ZRANGE S 0 1 BYSCORE; ZRANGE S 0 1 X; ZREVRANGE L 0 1 REV; \
            ZREVRANGE L 0 1 BYSCORE; ZREVRANGE L 0 1 LIMIT 0 1; ZREVRANGE L 0 1 WITHSCORES WITHSCORES; \
            ZREVRANGE S 0 1; ZREVRANGE L; ZRANGEBYSCORE L x 1; ZRANGEBYSCORE L 1 x; ZRANGEBYSCORE L 0 1 REV; \
            ZRANGEBYSCORE L 0 1 LIMIT 1; ZRANGEBYSCORE L 0 1 LIMIT a b; ZRANGEBYSCORE S 0 1; \
            ZREVRANGEBYSCORE L 1 0 BYSCORE; ZREVRANGEBYSCORE S 1 0; ZREVRANGEBYSCORE L 1; ZSCORE S 1; ZSCORE L; \
            ZSCORE L 1 2; ZSCORE L 22; ZSCORE L zz; ZCARD L; ZCARD S; ZCARD; ZCARD L L; EXISTS L S; \
            EXISTS; MGET L S; TYPE S"
                .split("; ")
        {
            both.sorted(&filled(line, list, string));
        }
        for line in "SCARD L; SCARD S; SCARD; SMEMBERS L; SMEMBERS S; SISMEMBER L 22; SISMEMBER L zz; SISMEMBER S 1; \
            SISMEMBER L; SMISMEMBER L 22 zz 1 ann; SMISMEMBER S 1; SMISMEMBER L; SSCAN L 0 COUNT 100; \
            SSCAN L x; SSCAN L 0 MATCH a* COUNT 100; SSCAN S 0; SSCAN L; TYPE L; TYPE S; TTL L; TTL S; \
            EXISTS L L S"
            .split("; ")
        {
            both.set(&filled(line, list, string));
        }
    }
    both.sorted("GET followers:1");
    for line in ["EXPIRE followers:1 100000", "EXPIRE followers:nobody 100000", "EXPIRE followers:lonely 100000 LT"] {
        both.set(line);
    }
    // Of a key that is not there Redis looks at nothing else.
    for line in
        "SSCAN L 0 COUNT 0; SSCAN L 0 COUNT -1; SSCAN L 0 COUNT x; SSCAN L 0 COUNT; SSCAN L 0 NONE 1".split("; ")
    {
        both.set(&filled(line, "followers:1", ""));
    }
    both.end(100);
}

#[test]
fn derived_sets_are_those_of_redis() {
    let mut both = Both::new();
    let mut keys: Vec<String> = ["block:22", "block:bob", "block:1", "block:nobody"].map(str::to_owned).to_vec();
    for one in PEOPLE.into_iter().chain(["nobody"]) {
        keys.push(format!("mutual:{one}"));
        for other in PEOPLE.into_iter().filter(|other| !(other.contains(':') || one.contains(':'))) {
            keys.push(format!("common_following:{one}:{other}"));
        }
    }
    for key in &keys {
        for line in
            "SMEMBERS L; SCARD L; SISMEMBER L 1; SISMEMBER L 9; SISMEMBER L zz; SMISMEMBER L 1 ann 22 bob zz 1; \
            SSCAN L 0 COUNT 100; SSCAN L 0 MATCH *b* COUNT 100; EXISTS L; TYPE L; TTL L; SINTER L; SINTERCARD 1 L; \
            SINTERCARD 1 L LIMIT 1"
                .split("; ")
        {
            both.set(&filled(line, key, ""));
        }
    }
    // Only where Redis has them: a key that is empty has no type there.
    for key in ["mutual:1", "common_following:1:ann", "block:22"] {
        for line in ["GET L", "ZCARD L", "ZSCORE L 1", "ZRANGE L 0 -1", "ZREVRANGEBYSCORE L 1 0"] {
            both.set(&filled(line, key, ""));
        }
    }
    both.end(1_000);
}

#[test]
fn intersections_are_those_of_redis() {
    let mut both = Both::new();
    let lists = ["following:1", "followers:1", "follows:ann", "followers:ann", "followers:22", "following:nobody"];
    let sets = ["mutual:1", "common_following:1:22"];
    for one in lists.into_iter().chain(sets) {
        for other in lists.into_iter().chain(sets) {
            both.set(&format!("SINTER {one} {other}"));
            both.set(&format!("SINTERCARD 2 {one} {other}"));
            both.set(&format!("SINTERCARD 2 {one} {other} LIMIT 1"));
            for options in "; WITHSCORES; WEIGHTS 2 1 WITHSCORES; WEIGHTS 0.5 -3 WITHSCORES; AGGREGATE MIN WITHSCORES; \
                AGGREGATE MAX; AGGREGATE max WITHSCORES WEIGHTS 1 0; WEIGHTS inf -inf WITHSCORES; \
                WEIGHTS 1024 0 WITHSCORES"
                .split("; ")
            {
                both.sorted(format!("ZINTER 2 {one} {other} {options}").trim_end());
            }
            both.sorted(&format!("ZINTERCARD 2 {one} {other}"));
            both.sorted(&format!("ZINTERCARD 2 {one} {other} LIMIT 2"));
            for third in ["followers:bob", "mutual:ann"] {
                both.set(&format!("SINTER {one} {other} {third}"));
                both.sorted(&format!("ZINTER 3 {one} {other} {third} WITHSCORES"));
                both.sorted(&format!("ZINTERCARD 3 {one} {other} {third}"));
            }
        }
    }
    for line in
        "ZINTER; ZINTER 1; ZINTER 0 L; ZINTER -1 L; ZINTER x L; ZINTER 2 L; ZINTER 1 L; ZINTER 1 S; ZINTER 2 L S X; \
        ZINTER 1 L X; ZINTER 1 L WEIGHTS; ZINTER 1 L WEIGHTS x; ZINTER 1 L WEIGHTS nan; ZINTER 1 L WEIGHTS 1 2; \
        ZINTER 1 L AGGREGATE; ZINTER 1 L AGGREGATE x; ZINTER 1 L LIMIT 1; ZINTER 1 L WITHSCORES WITHSCORES; \
        ZINTERCARD; ZINTERCARD 0 L; ZINTERCARD x L; ZINTERCARD 2 L; ZINTERCARD 1 L; ZINTERCARD 1 L LIMIT; \
        ZINTERCARD 1 L LIMIT -1; ZINTERCARD 1 L LIMIT x; ZINTERCARD 1 L LIMIT 0; ZINTERCARD 1 L LIMIT 1 LIMIT 2; \
        ZINTERCARD 1 L WITHSCORES; ZINTERCARD 1 S LIMIT x; ZINTER 9223372036854775807 L"
            .split("; ")
    {
        both.sorted(&filled(line, "followers:1", "follower_count:1"));
    }
    for line in "SINTER; SINTER S; SINTER L S; SINTERCARD; SINTERCARD 0 L; SINTERCARD x L; SINTERCARD 3 L L; \
        SINTERCARD 1 L LIMIT; SINTERCARD 1 L LIMIT x; SINTERCARD 1 L LIMIT -1; SINTERCARD 1 L X; SINTERCARD 1 S LIMIT x; \
        SINTERCARD 2 L S; SINTERCARD 1 L LIMIT 1 LIMIT 2; SINTERCARD 9223372036854775807 L"
        .split("; ")
    {
        both.set(&filled(line, "followers:1", "follower_count:1"));
    }
    both.end(2_000);
}
