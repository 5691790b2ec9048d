//! Who may do what: each operation of the document by each kind of caller. A route without a row fails.

use std::collections::BTreeMap;

use super::server::Server;

/// Each cell has users of its own: `{own}` is a private account that `{fan}` follows and that blocks `{foe}`; `{other}`
/// is nobody to it; `{pal}` is public. `{own}` follows `{pal}` and has blocked nobody but `{foe}`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Own,
    Other,
    Foe,
    Fan,
    Service,
}

const EVERYBODY: [Who; 5] = [Who::Own, Who::Other, Who::Foe, Who::Fan, Who::Service];

/// An operation, a request for it, and what own, other, blocked, accepted follower and service get.
type Row = (&'static str, &'static str, [&'static str; 5]);

/// For what is a user's own: they and services may.
const OWN: [&str; 5] = ["200", "403 forbidden", "403 forbidden", "403 forbidden", "200"];
const OWN_CREATES: [&str; 5] = ["201", "403 forbidden", "403 forbidden", "403 forbidden", "201"];
/// For what a private account shows to those it accepted.
const SHOWN: [&str; 5] = ["200", "403 lists_hidden", "403 lists_hidden", "200", "200"];
const ANYONE: [&str; 5] = ["200", "200", "200", "200", "200"];
const SERVICE: [&str; 5] = ["403 forbidden", "403 forbidden", "403 forbidden", "403 forbidden", "200"];
const YES: &str = r#"200 {"following": true}"#;

const MATRIX: &[Row] = &[
    ("put_user", r#"PUT /users/{own} {"private": true}"#, OWN),
    ("patch_user", r#"PATCH /users/{own} {"name": "Own"}"#, OWN),
    ("get_user", "GET /users/{own}", ANYONE),
    (
        "follow",
        "POST /users/{own}/follow",
        ["400 self_follow", r#"202 {"state": "pending"}"#, "403 blocked", "200", "400 invalid_request"],
    ),
    ("unfollow", "DELETE /users/{own}/follow", ["200", "200", "200", "200", "400 invalid_request"]),
    ("put_follow", "PUT /users/{own}/following/{other}", OWN_CREATES),
    ("delete_follow", "DELETE /users/{own}/following/{pal}", OWN),
    ("get_follow", "GET /users/{own}/following/{pal}", ["200", "200", "200", "200", "200"]),
    ("list_followers", "GET /users/{own}/followers", SHOWN),
    ("list_following", "GET /users/{own}/following", SHOWN),
    ("is_following", "GET /users/{fan}/is-following/{own}", [YES, YES, YES, YES, YES]),
    ("is_following_each", r#"POST /users/{own}/is-following {"targets": ["{fan}"]}"#, ANYONE),
    ("check_pairs", r#"POST /checks {"pairs": [["{own}", "{fan}"]]}"#, ANYONE),
    ("block", "PUT /users/{own}/blocks/{pal}", OWN_CREATES),
    ("unblock", "DELETE /users/{own}/blocks/{foe}", OWN),
    ("list_blocks", "GET /users/{own}/blocks", OWN),
    ("list_events", "GET /events?limit=1", SERVICE),
    (
        "backup",
        r#"POST /admin/backup {"to": "/nowhere"}"#,
        ["403 forbidden", "403 forbidden", "403 forbidden", "403 forbidden", "400 invalid_request"],
    ),
    ("healthz", "GET //healthz", ANYONE),
    ("readyz", "GET //readyz", ANYONE),
    ("version", "GET //version", ANYONE),
    ("metrics", "GET //metrics", ANYONE),
    ("openapi", "GET //openapi.json", ANYONE),
    ("docs", "GET //docs", ANYONE),
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
        let (method, path) = route.split_once(' ').unwrap();
        let asked = request.split(' ').nth(1).unwrap();
        let asked = match asked.strip_prefix("//") {
            Some(outside) => format!("/{outside}"),
            None => format!("/api/v1{asked}"),
        };
        let mut parts = path.split('/').zip(asked.split('?').next().unwrap().split('/'));
        assert!(
            request.starts_with(method)
                && path.split('/').count() == asked.split('/').count()
                && parts.all(|(part, given)| part.starts_with('{') || part == given),
            "the row of {id} asks for {request}, which is not {route}"
        );
    }
    assert!(rows.is_empty(), "rows without an operation: {rows:?}");
}

#[test]
fn everybody_gets_what_the_matrix_says() {
    let server = Server::start();
    for (number, (_, request, expected)) in MATRIX.iter().enumerate() {
        for (who, expected) in EVERYBODY.iter().zip(expected) {
            let names = |text: &str| {
                ["own", "other", "foe", "fan", "pal"].iter().fold(text.to_owned(), |text, name| {
                    text.replace(&format!("{{{name}}}"), &format!("{name}-{number}-{who:?}"))
                })
            };
            for line in [
                "PUT /users/{own}",
                "PUT /users/{other}",
                "PUT /users/{foe}",
                "PUT /users/{fan}",
                "PUT /users/{pal}",
                "PUT /users/{own}/following/{pal}",
                "PUT /users/{fan}/following/{own}",
                "PUT /users/{own}/blocks/{foe}",
            ] {
                server.check(&names(line), "201");
            }
            server.check(&names(r#"PATCH /users/{own} {"private": true}"#), "200");
            let actor = match who {
                Who::Own => "@{own} ",
                Who::Other => "@{other} ",
                Who::Foe => "@{foe} ",
                Who::Fan => "@{fan} ",
                Who::Service => "",
            };
            server.check(&names(&format!("{actor}{request}")), expected);
        }
    }
}
