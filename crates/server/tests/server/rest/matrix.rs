//! Who may do what: each operation of the document by each kind of caller. A route without a row fails.

use std::collections::BTreeMap;

use entourage_service::Rules;
use serde_json::json;

use super::{
    credentials::{Credentials, SECRET, hs256},
    server::{Server, memory_store},
    table::Reply,
};

/// The columns. Each cell has users of its own: `{own}` is a private account that `{fan}` follows, that blocks `{foe}`
/// and that `{asker}` asked to follow; it follows `{pal}`, who follows nobody, and wrote `{post}`. `{other}` is nobody to it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Anonymous,
    Own,
    Other,
    Blocked,
    Follower,
    Service,
    Admin,
}

const EVERYBODY: [Who; 7] =
    [Who::Anonymous, Who::Own, Who::Other, Who::Blocked, Who::Follower, Who::Service, Who::Admin];

pub(crate) const NAMES: [&str; 7] = ["own", "other", "foe", "fan", "asker", "pal", "boss"];

/// An operation, a request for it, and what each of `EVERYBODY` gets: a status, with a code or a part of the body.
pub(crate) type Row = (&'static str, &'static str, [&'static str; 7]);

const NOBODY: &str = "401 unauthenticated";
const NO: &str = "403 forbidden";
const NONE: &str = "404 group_not_found";
const NO_POST: &str = "404 post_not_found";
const HIDDEN: &str = "403 lists_hidden";
const YES: &str = r#"200 {"following": true}"#;

/// Without credentials.
const OPEN: [&str; 7] = ["200", "200", "200", "200", "200", "200", "200"];
/// Whoever shows a credential.
const ANYONE: [&str; 7] = [NOBODY, "200", "200", "200", "200", "200", "200"];
/// For what is a user's own: they, services and admins may.
const OWN: [&str; 7] = [NOBODY, "200", NO, NO, NO, "200", "200"];
const OWN_CREATES: [&str; 7] = [NOBODY, "201", NO, NO, NO, "201", "201"];
const OWN_STARTS: [&str; 7] = [NOBODY, "202", NO, NO, NO, "202", "202"];
const OWN_SEEKS: [&str; 7] = [NOBODY, NONE, NO, NO, NO, NONE, NONE];
/// For what a private account shows to itself, to those it accepted, and to services.
const SHOWN: [&str; 7] = [NOBODY, "200", HIDDEN, HIDDEN, "200", "200", HIDDEN];
const SERVICE: [&str; 7] = [NOBODY, NO, NO, NO, NO, "200", "200"];
const ADMIN: [&str; 7] = [NOBODY, NO, NO, NO, NO, NO, "200"];
const ADMIN_STARTS: [&str; 7] = [NOBODY, NO, NO, NO, NO, NO, "202"];

pub(crate) const MATRIX: &[Row] = &[
    ("put_user", r#"PUT /users/{own} {"private": true}"#, OWN),
    ("patch_user", r#"PATCH /users/{own} {"name": "Own"}"#, OWN),
    ("get_user", "GET /users/{own}", ANYONE),
    ("erase_user", "DELETE /users/{own}", OWN_STARTS),
    (
        "follow",
        "POST /users/{own}/follow",
        [
            NOBODY,
            "400 self_follow",
            r#"202 {"state": "pending"}"#,
            "403 blocked",
            "200",
            "400 invalid_request",
            r#"202 {"state": "pending"}"#,
        ],
    ),
    ("unfollow", "DELETE /users/{own}/follow", [NOBODY, "200", "200", "200", "200", "400 invalid_request", "200"]),
    ("put_follow", "PUT /users/{own}/following/{other}", OWN_CREATES),
    ("delete_follow", "DELETE /users/{own}/following/{pal}", OWN),
    // The fan's list is public, but nobody sees in it who blocks them.
    ("get_follow", "GET /users/{fan}/following/{own}", [NOBODY, YES, YES, "404 not_found", YES, YES, YES]),
    ("list_follow_requests", "GET /users/{own}/follow-requests", OWN),
    ("accept_request", "POST /users/{own}/follow-requests/{asker}/accept", OWN),
    ("accept_all_requests", "POST /users/{own}/follow-requests:accept-all", OWN_STARTS),
    ("reject_request", "POST /users/{own}/follow-requests/{asker}/reject", OWN),
    ("remove_follower", "DELETE /users/{own}/followers/{fan}", OWN),
    (
        "batch_follows",
        r#"POST /follows:batch {"operations": [{"op": "unfollow", "follower": "{own}", "target": "{pal}"}]}"#,
        SERVICE,
    ),
    ("list_followers", "GET /users/{own}/followers", SHOWN),
    ("list_following", "GET /users/{own}/following", SHOWN),
    (
        "is_following",
        "GET /users/{fan}/is-following/{own}",
        [NOBODY, YES, YES, r#"200 {"following": false}"#, YES, YES, YES],
    ),
    ("is_following_each", r#"POST /users/{own}/is-following {"targets": ["{fan}"]}"#, ANYONE),
    ("check_pairs", r#"POST /checks {"pairs": [["{own}", "{fan}"]]}"#, ANYONE),
    ("get_relationships", "GET /users/{own}/relationships?id={pal}", ANYONE),
    ("ask_relationships", r#"POST /users/{own}/relationships {"ids": ["{pal}"]}"#, ANYONE),
    ("list_mutuals", "GET /users/{own}/mutuals", SHOWN),
    ("list_not_following_back", "GET /users/{own}/not-following-back", SHOWN),
    ("list_common_following", "GET /users/{own}/common-following/{fan}", SHOWN),
    ("list_common_followers", "GET /users/{own}/common-followers/{fan}", SHOWN),
    (
        "list_followers_you_know",
        "GET /users/{own}/followers-you-know",
        [NOBODY, "200", HIDDEN, HIDDEN, "200", "400 invalid_request", HIDDEN],
    ),
    ("distance", "GET /users/{own}/distance/{pal}", ANYONE),
    ("list_leaderboard", "GET /leaderboards/followers", ANYONE),
    ("list_suggestions", "GET /users/{own}/suggestions", OWN),
    ("dismiss_suggestion", "DELETE /users/{own}/suggestions/{pal}", OWN),
    ("block", "PUT /users/{own}/blocks/{pal}", OWN_CREATES),
    ("unblock", "DELETE /users/{own}/blocks/{foe}", OWN),
    ("list_blocks", "GET /users/{own}/blocks", OWN),
    ("mute", "PUT /users/{own}/mutes/{pal}", OWN_CREATES),
    ("unmute", "DELETE /users/{own}/mutes/{pal}", OWN),
    ("list_mutes", "GET /users/{own}/mutes", OWN),
    ("create_group", r#"POST /users/{own}/groups {"name": "Friends"}"#, OWN_CREATES),
    ("list_groups", "GET /users/{own}/groups", OWN),
    // Nobody has a group of this id: whoever may ask hears that.
    ("rename_group", r#"PATCH /users/{own}/groups/7 {"name": "Friends"}"#, OWN_SEEKS),
    ("delete_group", "DELETE /users/{own}/groups/7", OWN),
    ("put_member", "PUT /users/{own}/groups/7/members/{pal}", OWN_SEEKS),
    ("delete_member", "DELETE /users/{own}/groups/7/members/{pal}", OWN_SEEKS),
    ("list_members", "GET /users/{own}/groups/7/members", OWN_SEEKS),
    ("list_history", "GET /users/{own}/history", OWN),
    (
        "create_post",
        r#"POST /posts {"body": {"text": "hello"}}"#,
        [NOBODY, "201", "201", "201", "201", "400 invalid_request", "201"],
    ),
    ("get_post", "GET /posts/{post}", [NOBODY, "200", NO_POST, NO_POST, "200", "200", NO_POST]),
    ("replace_post", r#"PATCH /posts/{post} {"body": {}}"#, [NOBODY, "200", NO_POST, NO_POST, NO, "200", "200"]),
    ("delete_post", "DELETE /posts/{post}", [NOBODY, "200", NO_POST, NO_POST, NO, "200", "200"]),
    ("list_posts", "GET /users/{own}/posts", SHOWN),
    ("get_feed", "GET /users/{own}/feed", OWN),
    ("get_group_feed", "GET /users/{own}/groups/7/feed", OWN_SEEKS),
    ("explain_post", "GET /users/{own}/feed/explain/{post}", OWN),
    ("stream_feed", "GET /users/{own}/feed/stream", OWN),
    ("list_notifications", "GET /users/{own}/notifications", OWN),
    ("see_notifications", "POST /users/{own}/notifications/seen", OWN),
    ("stream_notifications", "GET /users/{own}/notifications/stream", OWN),
    ("list_events", "GET /events?limit=1", SERVICE),
    ("stream_events", "GET /events/stream", SERVICE),
    ("make_ticket", "POST /tickets", [NOBODY, "201", "201", "201", "201", "201", "201"]),
    (
        "signal",
        r#"POST /signals {"signals": [{"viewer": "{own}", "viewed": "{pal}", "type": "profile_view"}]}"#,
        SERVICE,
    ),
    // The memory store has nothing to copy: whoever may ask hears that.
    ("backup", r#"POST /admin/backup {"to": "/nowhere"}"#, [NOBODY, NO, NO, NO, NO, NO, "400 invalid_request"]),
    ("erase_now", "POST /admin/erase-now", [NOBODY, NO, NO, NO, NO, NO, "400 invalid_request"]),
    ("suspend_user", "PUT /admin/users/{own}/suspend", ADMIN),
    ("unsuspend_user", "DELETE /admin/users/{own}/suspend", ADMIN),
    ("list_parked", "GET /admin/users/{own}/parked", ADMIN),
    ("accept_parked", "POST /admin/users/{own}/parked:accept", ADMIN_STARTS),
    ("drop_parked", "POST /admin/users/{own}/parked:drop", ADMIN_STARTS),
    ("feed_standing", "GET /admin/feed", ADMIN),
    ("pin_fanout", r#"PUT /admin/users/{own}/fanout {"mode": "pull"}"#, ADMIN),
    ("get_fanout", "GET /admin/users/{own}/fanout", ADMIN),
    ("rebuild_feed", "POST /admin/users/{own}/feed/rebuild", ADMIN),
    ("forget_feed", "DELETE /admin/users/{own}/feed", ADMIN),
    ("list_cases", "GET /admin/abuse?state=open&kind=surge", ADMIN),
    ("get_case", "GET /admin/abuse/7", [NOBODY, NO, NO, NO, NO, NO, "404 not_found"]),
    ("dismiss_case", "POST /admin/abuse/7/dismiss", [NOBODY, NO, NO, NO, NO, NO, "404 not_found"]),
    ("confirm_case", "POST /admin/abuse/7/confirm", [NOBODY, NO, NO, NO, NO, NO, "404 not_found"]),
    ("set_follow_quota", r#"PUT /admin/users/{own}/follow-quota {"per_minute": 9}"#, ADMIN),
    ("get_follow_quota", "GET /admin/users/{own}/follow-quota", ADMIN),
    ("remove_follow_quota", "DELETE /admin/users/{own}/follow-quota", ADMIN),
    ("list_jobs", "GET /admin/jobs", ADMIN),
    ("get_job", "GET /admin/jobs/7", [NOBODY, NO, NO, NO, NO, NO, "404 not_found"]),
    ("run_task", "POST /admin/jobs/retention/run", ADMIN_STARTS),
    ("list_servers", "GET /admin/servers", ADMIN),
    ("last_audit", "GET /admin/audit", ADMIN),
    ("verify", "POST /admin/verify", ADMIN),
    // Nor has it counts beside its lists, or directions apart.
    ("recount", "POST /admin/recount", [NOBODY, NO, NO, NO, NO, NO, "400 invalid_request"]),
    ("heal", "POST /admin/heal", [NOBODY, NO, NO, NO, NO, NO, "400 invalid_request"]),
    ("healthz", "GET //healthz", OPEN),
    ("readyz", "GET //readyz", OPEN),
    ("version", "GET //version", OPEN),
    // Open on loopback, where these tests are.
    ("metrics", "GET //metrics", OPEN),
    ("openapi", "GET //openapi.json", OPEN),
    ("docs", "GET //docs", OPEN),
];

#[test]
fn every_operation_has_a_row_and_every_row_an_operation() {
    let document = entourage_server::http::document();
    let operations = document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(move |(method, operation)| {
            (operation["operationId"].as_str().unwrap(), format!("{} {path}", method.to_ascii_uppercase()))
        })
    });
    let mut rows: BTreeMap<_, _> = MATRIX.iter().map(|(id, request, _)| (*id, *request)).collect();
    assert_eq!(rows.len(), MATRIX.len(), "an operation has two rows");
    for (id, route) in operations {
        let request = rows.remove(id).unwrap_or_else(|| panic!("{route} ({id}) has no row"));
        assert!(is_for(request, &route), "the row of {id} asks for {request}, which is not {route}");
    }
    assert!(rows.is_empty(), "rows without an operation: {rows:?}");
}

fn is_for(request: &str, route: &str) -> bool {
    let mut words = request.split(' ');
    let (method, path) = route.split_once(' ').unwrap();
    let is_method = words.next() == Some(method);
    let asked = words.next().unwrap().split('?').next().unwrap();
    let asked = match asked.strip_prefix("//") {
        Some(outside) => format!("/{outside}"),
        None => format!("/api/v1{asked}"),
    };
    is_method
        && path.split('/').count() == asked.split('/').count()
        && path.split('/').zip(asked.split('/')).all(|(part, given)| part.starts_with('{') || part == given)
}

#[test]
fn everybody_gets_what_the_matrix_says() {
    let credentials = Credentials::new();
    let server = Server::behind(credentials.front(), memory_store(1), Rules::default());
    let mut wrong = Vec::new();
    for (number, (id, request, expected)) in MATRIX.iter().enumerate() {
        for (who, expected) in EVERYBODY.iter().zip(expected) {
            let name = |name: &str| format!("{name}-{number}-{who:?}");
            let named = |text: &str| {
                NAMES.iter().fold(text.to_owned(), |text, each| text.replace(&format!("{{{each}}}"), &name(each)))
            };
            let post = prepare(&server, &credentials.service_key, named);
            let named = |text: &str| named(text).replace("{post}", &post);
            let credential = match who {
                Who::Anonymous => String::new(),
                Who::Own => format!("!{} ", credentials.token(&name("own"))),
                Who::Other => format!("!{} ", credentials.token(&name("other"))),
                Who::Blocked => format!("!{} ", credentials.token(&name("foe"))),
                Who::Follower => format!("!{} ", credentials.token(&name("fan"))),
                Who::Service => format!("!{} ", credentials.service_key),
                Who::Admin => {
                    let mut claims = credentials.claims(&name("boss"));
                    claims["scope"] = json!("admin");
                    format!("!{} ", hs256(SECRET, &claims.to_string()))
                }
            };
            let reply = match request.strip_prefix("GET ").filter(|path| path.ends_with("/stream")) {
                // It does not end: how it begins is enough.
                Some(path) => server.stream(&named(&format!("{credential}{path}"))).into_reply(),
                None => server.ask(&named(&format!("{credential}{request}"))),
            };
            if !fits(&reply, expected) {
                wrong.push(format!("{id} by {who:?}: expected {expected}, got {} {}", reply.status, reply.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Gives back the id of a post of `{own}`.
fn prepare(server: &Server, key: &str, named: impl Fn(&str) -> String) -> String {
    let ask = |line: &str, expected: &str| drop(server.check(&named(&format!("!{key} {line}")), expected));
    for user in NAMES {
        ask(&format!("PUT /users/{{{user}}}"), "201");
    }
    ask("PUT /users/{own}/following/{pal}", "201");
    ask("PUT /users/{fan}/following/{own}", "201");
    ask("PUT /users/{own}/blocks/{foe}", "201");
    ask(r#"PATCH /users/{own} {"private": true}"#, "200");
    ask("PUT /users/{asker}/following/{own}", "202");
    let post = server.check(&named(&format!(r#"!{key} @{{own}} POST /posts {{"body": {{}}}}"#)), "201");
    post.body["id"].as_str().unwrap().to_owned()
}

fn fits(reply: &Reply, expected: &str) -> bool {
    let (status, rest) = expected.split_once(' ').unwrap_or((expected, ""));
    let body = match rest.starts_with('{') {
        true => serde_json::from_str(rest).unwrap(),
        false if rest.is_empty() => json!({}),
        false => json!({ "code": rest }),
    };
    let same = body.as_object().unwrap().iter().all(|(name, value)| reply.body[name] == *value);
    reply.status.to_string() == status && same
}

#[test]
fn a_cell_can_be_wrong() {
    let reply =
        |status, body: serde_json::Value| Reply { status, headers: Default::default(), text: String::new(), body };
    assert!(fits(&reply(200, json!({ "following": true })), YES));
    assert!(!fits(&reply(200, json!({ "following": false })), YES));
    assert!(!fits(&reply(201, json!({ "following": true })), YES));
    assert!(fits(&reply(403, json!({ "code": "forbidden" })), NO));
    assert!(!fits(&reply(403, json!({ "code": "blocked" })), NO));
    assert!(is_for("GET /users/{own}/blocks?limit=1", "GET /api/v1/users/{id}/blocks"));
    assert!(!is_for("GET /users/{own}/mutes", "GET /api/v1/users/{id}/blocks"));
    assert!(!is_for("PUT /users/{own}/blocks", "GET /api/v1/users/{id}/blocks"));
}
