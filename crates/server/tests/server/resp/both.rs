//! Each line is asked over REST and over RESP of one server: both say the same of the graph, to the same viewer.

use std::sync::Arc;

use entourage_embedded as embedded;
use entourage_model::{Code, KeyHasher, Operation, Overwrite, UserPatch};
use entourage_service::Rules;
use entourage_store::{Store, SystemClock};
use entourage_testkit::crash_disk::CrashDisk;

use crate::kit::{
    server::{Server, memory_store},
    wire::{Wire, encoded, words},
};

/// Viewer, or nobody; the request over REST and a part of its answer; the command and its reply.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str);

fn people(server: &Server) {
    server.check_all(&[
        ("PUT /users/alice", "201"),
        ("PUT /users/bob", "201"),
        ("PUT /users/carol", "201"),
        ("PUT /users/7", "201"),
        (r#"PUT /users/priv {"private": true}"#, "201"),
        (r#"PUT /users/shy {"hide_lists": true}"#, "201"),
        ("PUT /users/a:b", "201"),
    ]);
}

fn check(server: &Server, rows: &[Row]) {
    for (viewer, request, expected, command, reply) in rows {
        let actor = Some(*viewer).filter(|viewer| !viewer.is_empty());
        let request = actor.map_or((*request).to_owned(), |actor| format!("@{actor} {request}"));
        server.check(&request, expected);
        Wire::acting(server.resp, actor).check(command, reply);
    }
}

#[test]
fn reads_say_the_same() {
    let server = Server::start();
    people(&server);
    server.check_all(&[
        ("@alice POST /users/bob/follow", "201"),
        ("@bob POST /users/alice/follow", "201"),
        (r#"@alice POST /users/carol/follow {"quiet": true}"#, "201"),
        ("@bob POST /users/carol/follow", "201"),
        ("@alice POST /users/priv/follow", "202"),
        ("@alice POST /users/7/follow", "201"),
        ("@shy POST /users/bob/follow", "201"),
        ("@alice POST /users/a:b/follow", "201"),
    ]);
    const YES: &str = r#"200 {"following": true}"#;
    const NO: &str = r#"200 {"following": false}"#;
    check(
        &server,
        &[
            ("", "GET /users/alice/is-following/bob", YES, "SISMEMBER following:alice bob", "1"),
            ("", "GET /users/alice/is-following/bob", YES, "SISMEMBER followers:bob alice", "1"),
            ("", "GET /users/alice/is-following/bob", YES, "GET is_following:alice:bob", "\"1\""),
            ("", "GET /users/alice/is-following/a:b", YES, "SISMEMBER following:alice a:b", "1"),
            ("", "GET /users/alice/is-following/a:b", YES, "SISMEMBER followers:a:b alice", "1"),
            ("", "GET /users/carol/is-following/bob", NO, "SISMEMBER following:carol bob", "0"),
            ("", "GET /users/carol/is-following/bob", NO, "GET is_following:carol:bob", "\"0\""),
            ("", "GET /users/alice/is-following/priv", NO, "SISMEMBER following:alice priv", "0"),
            ("", "GET /users/alice/is-following/nobody", NO, "SISMEMBER following:alice nobody", "0"),
            // A quiet edge is there for its follower and for services.
            ("", "GET /users/alice/is-following/carol", YES, "SISMEMBER following:alice carol", "1"),
            ("alice", "GET /users/alice/is-following/carol", YES, "SISMEMBER following:alice carol", "1"),
            ("carol", "GET /users/alice/is-following/carol", NO, "SISMEMBER following:alice carol", "0"),
            ("bob", "GET /users/alice/is-following/carol", NO, "GET is_following:alice:carol", "\"0\""),
            ("bob", "GET /users/alice/is-following/carol", NO, "ZSCORE following:alice carol", "nil"),
            (
                "",
                r#"POST /users/alice/is-following {"targets": ["bob", "x", "carol"]}"#,
                r#"200 {"results": {"bob": true, "x": false, "carol": true}}"#,
                "SMISMEMBER following:alice bob x carol",
                "[1 0 1]",
            ),
            (
                "bob",
                r#"POST /users/alice/is-following {"targets": ["bob", "x", "carol"]}"#,
                r#"200 {"results": {"bob": true, "x": false, "carol": false}}"#,
                "SMISMEMBER following:alice bob x carol",
                "[1 0 0]",
            ),
            (
                "",
                r#"POST /checks {"pairs": [["bob", "alice"], ["carol", "alice"]]}"#,
                r#"200 {"results": [true, false]}"#,
                "MGET is_following:bob:alice is_following:carol:alice",
                "[\"1\" \"0\"]",
            ),
            (
                "",
                r#"POST /checks {"pairs": [["bob", "alice"], ["carol", "alice"]]}"#,
                r#"200 {"results": [true, false]}"#,
                "SMISMEMBER followers:alice bob carol",
                "[1 0]",
            ),
            // Counts, as each may know them.
            ("", "GET /users/alice", r#"200 {"counts": {"following": 4}}"#, "SCARD following:alice", "4"),
            ("alice", "GET /users/alice", r#"200 {"counts": {"following": 4}}"#, "GET following_count:alice", "\"4\""),
            ("bob", "GET /users/alice", r#"200 {"counts": {"following": 3}}"#, "ZCARD following:alice", "3"),
            ("bob", "GET /users/carol", r#"200 {"counts": {"followers": 1}}"#, "GET follower_count:carol", "\"1\""),
            (
                "",
                "GET /users/carol",
                r#"200 {"counts": {"followers": 2}}"#,
                "MGET follower_count:carol follower_count:x",
                "[\"2\" nil]",
            ),
            ("", "GET /users/nobody/followers", "404 user_not_found", "SCARD followers:nobody", "0"),
            // Lists.
            (
                "",
                "GET /users/alice/following",
                r#"200 {"data": [{"id": "a:b"}, {"id": "7"}, {"id": "carol"}, {"id": "bob"}]}"#,
                "SMEMBERS following:alice",
                "[\"a:b\" \"7\" \"carol\" \"bob\"]",
            ),
            (
                "bob",
                "GET /users/alice/following",
                r#"200 {"data": [{"id": "a:b"}, {"id": "7"}, {"id": "bob"}]}"#,
                "ZREVRANGE following:alice 0 -1",
                "[\"a:b\" \"7\" \"bob\"]",
            ),
            (
                "",
                "GET /users/carol/followers",
                r#"200 {"data": [{"id": "bob"}, {"id": "alice"}]}"#,
                "SMEMBERS followers:carol",
                "[\"bob\" \"alice\"]",
            ),
            ("alice", "GET /users/shy/following", "403 lists_hidden", "SMEMBERS following:shy", "-LISTSHIDDEN …"),
            ("alice", "GET /users/shy/following", "403 lists_hidden", "SSCAN following:shy 0", "-LISTSHIDDEN …"),
            ("alice", "GET /users/shy/following", "403 lists_hidden", "EG.LIST following:shy", "-LISTSHIDDEN …"),
            ("alice", "GET /users/shy/is-following/bob", YES, "SISMEMBER following:shy bob", "1"),
            (
                "alice",
                "GET /users/priv/followers",
                "403 lists_hidden",
                "ZREVRANGE followers:priv 0 1",
                "-LISTSHIDDEN …",
            ),
            ("", "GET /users/nobody/followers", "404 user_not_found", "SMEMBERS followers:nobody", "[]"),
            (
                "",
                "GET /users/alice/followers?limit=0",
                "400 invalid_request /limit",
                "EG.LIST followers:alice LIMIT 0",
                "-INVALIDREQUEST …",
            ),
            (
                "",
                "GET /users/alice/followers?cursor=x",
                "400 invalid_cursor",
                "EG.LIST followers:alice CURSOR x",
                "-INVALIDCURSOR …",
            ),
            (
                "",
                "GET /users/alice/common-following/bob",
                r#"200 {"data": [{"id": "carol"}]}"#,
                "SINTER following:alice following:bob",
                "[\"carol\"]",
            ),
            (
                "bob",
                "GET /users/alice/common-following/bob",
                r#"200 {"data": []}"#,
                "SINTER following:alice following:bob",
                "[]",
            ),
            (
                "",
                "GET /users/alice/common-following/bob",
                r#"200 {"data": [{"id": "carol"}]}"#,
                "SINTERCARD 2 following:alice following:bob",
                "1",
            ),
            (
                "",
                "GET /users/alice/mutuals",
                r#"200 {"data": [{"id": "bob"}]}"#,
                "SINTER following:alice followers:alice",
                "[\"bob\"]",
            ),
            (
                "alice",
                "GET /users/carol/followers-you-know",
                r#"200 {"data": [{"id": "bob"}]}"#,
                "SINTER following:alice followers:carol",
                "[\"bob\"]",
            ),
            // Feeds, which are their readers' own.
            (
                "alice",
                "GET /users/alice/feed",
                r#"200 {"data": [], "next_cursor": null, "partial": false}"#,
                "EG.FEED alice",
                "[nil [] 0]",
            ),
            ("", "GET /users/alice/feed", r#"200 {"data": []}"#, "ZREVRANGE feed:alice 0 -1", "[]"),
            ("bob", "GET /users/alice/feed", "403 forbidden", "EG.FEED alice", "-FORBIDDEN …"),
            ("bob", "GET /users/alice/feed", "403 forbidden", "ZREVRANGE feed:alice 0 -1", "-FORBIDDEN …"),
            ("", "GET /users/nobody/feed", "404 user_not_found", "ZCARD feed:nobody", "0"),
            ("", "GET /users/nobody/feed", "404 user_not_found", "EG.FEED nobody", "-USERNOTFOUND …"),
            ("", "GET /users/nobody/followers", "404 user_not_found", "EG.LIST followers:nobody", "-USERNOTFOUND …"),
            (
                "",
                "GET /users/alice/feed?limit=0",
                "400 invalid_request /limit",
                "EG.FEED alice LIMIT 0",
                "-INVALIDREQUEST …",
            ),
            ("", "GET /users/alice/feed?cursor=x", "400 invalid_cursor", "EG.FEED alice CURSOR x", "-INVALIDCURSOR …"),
            ("bob", "GET /users/alice/feed/explain/7", "403 forbidden", "ZSCORE feed:alice 7", "-FORBIDDEN …"),
            // Ids.
            (
                "",
                "GET /users/alice/is-following/%00",
                "400 invalid_id",
                "SISMEMBER following:alice \"\"",
                "-INVALIDID …",
            ),
            ("", "GET /users/%00/is-following/bob", "400 invalid_id", "SISMEMBER following: bob", "-INVALIDID …"),
        ],
    );
    let mut wire = Wire::acting(server.resp, Some("alice"));
    let relation = wire.ask("EG.RELATION alice carol");
    server.check(
        "@alice GET /users/alice/relationships?id=carol",
        r#"200 {"data": [{"following": true, "followed_by": false, "mutual": false, "quiet": true, "since": "*"}]}"#,
    );
    assert!(
        relation.starts_with(
            "[\"following\" 1 \"followed_by\" 0 \"mutual\" 0 \"requested\" 0 \"blocking\" 0 \"blocked_by\" 0 \
             \"muting\" 0 \"quiet\" 1 \"since\" "
        ),
        "{relation}"
    );
    wire.check("EG.RELATION alice nobody", "-USERNOTFOUND …");
    wire.check("EG.RELATION nobody alice", "-USERNOTFOUND …");
}

#[test]
fn writes_say_the_same() {
    let server = Server::start();
    people(&server);
    server.check("PUT /users/carol/blocks/alice", "201");
    check(
        &server,
        &[
            ("alice", "POST /users/carol/follow", "403 blocked", "SADD following:alice carol", "-BLOCKED one of…"),
            ("carol", "POST /users/alice/follow", "403 blocked", "EG.FOLLOW carol alice", "-BLOCKED one of…"),
            ("alice", "POST /users/alice/follow", "400 self_follow", "EG.FOLLOW alice alice", "-SELFFOLLOW …"),
            ("alice", "DELETE /users/alice/follow", r#"200 {"changed": false}"#, "EG.UNFOLLOW alice alice", "0"),
            ("alice", "POST /users/nobody/follow", "404 user_not_found", "EG.FOLLOW alice nobody", "-USERNOTFOUND …"),
            ("nobody", "POST /users/alice/follow", "404 actor_not_found", "EG.FOLLOW nobody alice", "-ACTORNOTFOUND …"),
            ("alice", "PUT /users/bob/following/7", "403 forbidden", "EG.FOLLOW bob 7", "-FORBIDDEN …"),
            ("alice", "DELETE /users/bob/following/7", "403 forbidden", "SREM following:bob 7", "-FORBIDDEN …"),
            (
                "alice",
                r#"POST /users/priv/follow {"quiet": true}"#,
                "422 quiet_private",
                "EG.FOLLOW alice priv QUIET",
                "-QUIETPRIVATE …",
            ),
        ],
    );
    let mut service = Wire::connect(server.resp);
    let mut alice = Wire::acting(server.resp, Some("alice"));
    // What one front writes the other reads.
    alice.check("EG.FOLLOW alice bob", "[\"state\" \"active\" \"created\" 1 \"created_at\" …");
    server.check("GET /users/alice/following/bob", r#"200 {"state": "active", "quiet": false}"#);
    alice.check("EG.FOLLOW alice bob QUIET", "[\"state\" \"active\" \"created\" 0 \"created_at\" …");
    server.check("GET /users/alice/following/bob", r#"200 {"state": "active", "quiet": true}"#);
    alice.check("EG.FOLLOW alice priv", "[\"state\" \"pending\" \"created\" 1 \"created_at\" …");
    server.check("@priv GET /users/priv/follow-requests", r#"200 {"data": [{"id": "alice"}]}"#);
    alice.check("EG.UNFOLLOW alice priv", "1");
    alice.check("EG.UNFOLLOW alice priv", "0");
    server.check("@priv GET /users/priv/follow-requests", r#"200 {"data": []}"#);
    // The reply counts edges that changed; a refusal says how many were applied, and those stay.
    // A request is no follow: nothing is in the list before it is accepted, and nothing is taken out.
    service.check("SADD following:bob alice 7 priv", "2");
    service.check("SADD following:bob priv", "0");
    service.check("SISMEMBER following:bob priv", "0");
    server.check("@priv GET /users/priv/follow-requests", r#"200 {"data": [{"id": "bob"}]}"#);
    service.check("SREM following:bob priv", "0");
    server.check("@priv GET /users/priv/follow-requests", r#"200 {"data": []}"#);
    service.check("SADD follows:bob priv", "0");
    server.check("@priv POST /users/priv/follow-requests/bob/accept", "200");
    service.check("SISMEMBER follows:bob priv", "1");
    service.check("SADD following:bob priv", "0");
    service.check("SREM following:bob priv", "1");
    service.check("SADD following:bob alice 7 carol", "1");
    service.check("SREM following:bob carol carol nobody 7", "2");
    service.check("SMISMEMBER following:bob alice carol 7", "[1 0 0]");
    service.check(
        "SADD following:alice 7 carol shy alice",
        "-BLOCKED one of the two users blocks the other; 2 of 4 applied",
    );
    service.check("SMISMEMBER following:alice 7 carol shy alice", "[1 0 1 0]");
    service.check("SREM following:alice 7 shy bob", "3");
    server.check("GET /users/alice/following", r#"200 {"data": [], "total": 0}"#);
    for line in ["SADD followers:bob alice", "SREM followers:bob alice"] {
        service.check(line, "-ERR write the follower's side…");
    }
    service.check("SADD follower_count:bob alice", "-WRONGTYPE …");
    service.check("SADD following:alice bob \"\"", "-INVALIDID …");
    service.check("SISMEMBER following:alice bob", "0");
}

#[test]
fn every_code_has_its_prefix_on_the_wire() {
    for code in Code::ALL {
        let prefix = code.resp_prefix();
        assert!(prefix.bytes().all(|byte| byte.is_ascii_uppercase()), "{prefix}");
        assert!(!["ERR", "WRONGTYPE", "NOAUTH", "WRONGPASS", "NOPROTO", "EXECABORT"].contains(&prefix.as_str()));
    }
}

/// The key of a name is a hash. Somebody else has the victim's, follows bob and is followed by him.
#[test]
fn an_id_that_shares_its_key_with_another_follows_nobody() {
    let disk = Arc::new(CrashDisk::new());
    let options = embedded::Options::default();
    let embedded = embedded::Store::open(disk, "the test disk", options, Arc::new(SystemClock)).unwrap();
    for store in [memory_store(1), Arc::new(embedded) as Arc<dyn Store>] {
        let server = Server::with(Arc::clone(&store), Rules::default());
        server.check("PUT /users/bob", "201");
        let hasher = KeyHasher::new(&store.identity().secret);
        let [victim, bob] = ["victim", "bob"].map(|id| hasher.key(&id.try_into().unwrap()));
        let (id, patch) = ("squatter".try_into().unwrap(), UserPatch::default());
        let follow = |follower, target| {
            Operation::Follow { follower, target, quiet: Some(false), cap: None, park: false }.into()
        };
        let writes = vec![
            Operation::PutUser { key: victim, id, patch, overwrite: Overwrite::Keep }.into(),
            follow(victim, bob),
            follow(bob, victim),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.commit_all(writes)).into_iter().for_each(|done| drop(done.unwrap()));
        let table = [
            ("SISMEMBER following:victim bob", "0"),
            ("SISMEMBER followers:bob victim", "0"),
            ("SISMEMBER following:bob victim", "0"),
            ("SMISMEMBER following:bob bob victim", "[0 0]"),
            ("SMISMEMBER followers:bob victim bob victim", "[0 0 0]"),
            ("GET is_following:victim:bob", "\"0\""),
            ("MGET is_following:bob:victim is_following:victim:bob", "[\"0\" \"0\"]"),
        ];
        let mut wire = Wire::connect(server.resp);
        wire.check_all(&table);
        let inline = |line: &str| format!("{line}\r\n").into_bytes();
        let words = |line: &str| encoded(&words(line));
        for encode in [&inline as &dyn Fn(&str) -> Vec<u8>, &words] {
            wire.send(&table.iter().flat_map(|(line, _)| encode(line)).collect::<Vec<u8>>());
            for (line, expected) in table {
                assert_eq!(wire.reply().as_deref(), Some(expected), "{line}");
            }
        }
        wire.check("MULTI", "OK");
        table.iter().for_each(|(line, _)| wire.check(line, "QUEUED"));
        let all = table.map(|(_, expected)| expected).join(" ");
        wire.check("EXEC", &format!("[{all}]"));
    }
}
