//! What the viewer asks over REST: lines for every operation of the document. One without a row fails.
//!
//! `{v}` is the viewer, `{u}` and `{w}` are anybody, `{known}` is whoever is not kept apart by a block of the viewer's,
//! `{all}` is everybody as a JSON array, `{pairs}` many pairs, `{g}` a group of the viewer's, `{p}` a post and `{n}` the id of a
//! notification. A line may begin with `pages`: then it is a list, read to its end with limits of every size.

use std::collections::BTreeSet;

use super::row::{Asks, Row, elsewhere, reads, refused, writes};

pub(crate) const ROWS: &[Row] = &[
    writes("put_user", &[r#"PUT /users/{v} {"name": "Viewer"}"#, r#"PUT /users/{v} {"private": true}"#]),
    writes("patch_user", &[r#"PATCH /users/{v} {"private": false}"#, r#"PATCH /users/{v} {"hide_lists": true}"#]),
    reads("get_user", &["GET /users/{u}", "GET /users/{v}", "HEAD /users/{u}"]),
    elsewhere("erase_user"),
    writes("follow", &["POST /users/{u}/follow", r#"POST /users/{u}/follow {"quiet": true}"#]),
    writes("unfollow", &["DELETE /users/{u}/follow"]),
    writes("put_follow", &["PUT /users/{v}/following/{u}", r#"PUT /users/{u}/following/{v} {"quiet": false}"#]),
    writes("delete_follow", &["DELETE /users/{v}/following/{u}", "DELETE /users/{u}/following/{v}"]),
    reads("get_follow", &["GET /users/{u}/following/{w}", "GET /users/{u}/following/{v}"]),
    reads("list_follow_requests", &["pages GET /users/{v}/follow-requests", "GET /users/{u}/follow-requests"]),
    writes("accept_request", &["POST /users/{v}/follow-requests/{u}/accept"]),
    writes("accept_all_requests", &["POST /users/{v}/follow-requests:accept-all"]),
    writes("reject_request", &["POST /users/{v}/follow-requests/{u}/reject"]),
    // Often, since few of those whom the viewer could remove are hidden.
    writes("remove_follower", &["DELETE /users/{v}/followers/{u}"; 4]),
    // The others may not; a service that acts for the viewer may, within what is the viewer's.
    writes(
        "batch_follows",
        &[
            r#"POST /follows:batch {"operations": [{"op": "follow", "follower": "{v}", "target": "{u}"}, {"op": "unfollow", "follower": "{v}", "target": "{w}"}]}"#,
        ],
    ),
    reads(
        "list_followers",
        &[
            "pages GET /users/{u}/followers",
            "pages GET /users/{v}/followers",
            "HEAD /users/{u}/followers?limit=2",
            "^accept=application/x-ndjson GET /users/{u}/followers",
            "^entourage-token={token} GET /users/{u}/followers",
        ],
    ),
    reads(
        "list_following",
        &[
            "pages GET /users/{u}/following",
            "pages GET /users/{v}/following",
            "^accept=application/x-ndjson GET /users/{u}/following",
        ],
    ),
    reads("is_following", &["GET /users/{u}/is-following/{w}", "GET /users/{u}/is-following/{v}"]),
    reads(
        "is_following_each",
        &[r#"POST /users/{u}/is-following {"targets": {all}}"#, r#"POST /users/{v}/is-following {"targets": {all}}"#],
    ),
    reads("check_pairs", &[r#"POST /checks {"pairs": {pairs}}"#]),
    reads("get_relationships", &["GET /users/{u}/relationships?id={v}&id={w}", "GET /users/{v}/relationships?id={u}"]),
    reads(
        "ask_relationships",
        &[r#"POST /users/{v}/relationships {"ids": {all}}"#, r#"POST /users/{u}/relationships {"ids": {all}}"#],
    ),
    reads(
        "list_mutuals",
        &[
            "pages GET /users/{u}/mutuals",
            "pages GET /users/{v}/mutuals",
            "GET /users/{u}/mutuals?count=true",
            "GET /users/{v}/mutuals?count=true",
        ],
    ),
    reads(
        "list_not_following_back",
        &["pages GET /users/{u}/not-following-back", "pages GET /users/{v}/not-following-back"],
    ),
    reads(
        "list_common_following",
        &[
            "pages GET /users/{u}/common-following/{w}",
            "pages GET /users/{v}/common-following/{u}",
            "GET /users/{u}/common-following/{w}?count=true&limit=1",
        ],
    ),
    reads(
        "list_common_followers",
        &[
            "pages GET /users/{u}/common-followers/{w}",
            "pages GET /users/{v}/common-followers/{u}",
            "GET /users/{u}/common-followers/{v}?count=true&limit=1",
        ],
    ),
    reads(
        "list_followers_you_know",
        &["pages GET /users/{u}/followers-you-know", "GET /users/{u}/followers-you-know?count=true"],
    ),
    reads("distance", &["GET /users/{u}/distance/{w}", "GET /users/{v}/distance/{u}", "GET /users/{u}/distance/{v}"]),
    reads("list_leaderboard", &["pages GET /leaderboards/followers"]),
    reads(
        "list_suggestions",
        &[
            "GET /users/{v}/suggestions",
            "GET /users/{v}/suggestions?limit=1",
            "GET /users/{v}/suggestions?ranker=adamic_adar",
            "GET /users/{v}/suggestions?ranker=recent&limit=3",
            "GET /users/{u}/suggestions",
        ],
    ),
    writes("dismiss_suggestion", &["DELETE /users/{v}/suggestions/{u}"]),
    writes("block", &["PUT /users/{v}/blocks/{u}"]),
    // What is hidden by the viewer's own block is theirs to see again.
    writes("unblock", &["DELETE /users/{v}/blocks/{known}"]),
    reads("list_blocks", &["pages GET /users/{v}/blocks", "GET /users/{u}/blocks"]),
    writes("mute", &["PUT /users/{v}/mutes/{u}"]),
    writes("unmute", &["DELETE /users/{v}/mutes/{u}"]),
    reads("list_mutes", &["pages GET /users/{v}/mutes", "GET /users/{u}/mutes"]),
    writes("create_group", &[r#"POST /users/{v}/groups {"name": "another"}"#]),
    reads("list_groups", &["GET /users/{v}/groups", "GET /users/{u}/groups"]),
    writes("rename_group", &[r#"PATCH /users/{v}/groups/{g} {"name": "renamed"}"#]),
    writes("delete_group", &["DELETE /users/{v}/groups/{g}"]),
    writes("put_member", &["PUT /users/{v}/groups/{g}/members/{u}"]),
    writes("delete_member", &["DELETE /users/{v}/groups/{g}/members/{u}"]),
    reads("list_members", &["pages GET /users/{v}/groups/{g}/members"]),
    reads("list_history", &["pages GET /users/{v}/history", "GET /users/{u}/history"]),
    writes("create_post", &[r#"POST /posts {"body": {"text": "hello"}}"#]),
    reads("get_post", &["GET /posts/{p}", "HEAD /posts/{p}"]),
    writes("replace_post", &[r#"PATCH /posts/{p} {"body": {}}"#]),
    writes("delete_post", &["DELETE /posts/{p}"]),
    reads(
        "list_posts",
        &["pages GET /users/{u}/posts", "pages GET /users/{v}/posts", "GET /users/{u}/posts?external_id=own-1"],
    ),
    reads("get_feed", &["pages GET /users/{v}/feed", "GET /users/{u}/feed"]),
    reads("get_group_feed", &["pages GET /users/{v}/groups/{g}/feed"]),
    reads("explain_post", &["GET /users/{v}/feed/explain/{p}"]),
    elsewhere("stream_feed"),
    reads("list_notifications", &["pages GET /users/{v}/notifications", "GET /users/{u}/notifications"]),
    writes(
        "see_notifications",
        &["POST /users/{v}/notifications/seen", r#"POST /users/{v}/notifications/seen {"up_to": "{n}"}"#],
    ),
    elsewhere("stream_notifications"),
    refused("list_events", &["GET /events?limit=1"]),
    refused("stream_events", &["GET /events/stream"]),
    reads("make_ticket", &["POST /tickets"]),
    refused("signal", &[r#"POST /signals {"signals": [{"viewer": "{v}", "viewed": "{u}", "type": "profile_view"}]}"#]),
    refused("backup", &[r#"POST /admin/backup {"to": "/nowhere"}"#]),
    refused("erase_now", &["POST /admin/erase-now"]),
    refused("suspend_user", &["PUT /admin/users/{u}/suspend"]),
    refused("unsuspend_user", &["DELETE /admin/users/{u}/suspend"]),
    refused("list_parked", &["GET /admin/users/{v}/parked"]),
    refused("accept_parked", &["POST /admin/users/{v}/parked:accept"]),
    refused("drop_parked", &["POST /admin/users/{v}/parked:drop"]),
    refused("feed_standing", &["GET /admin/feed"]),
    refused("pin_fanout", &[r#"PUT /admin/users/{u}/fanout {"mode": "pull"}"#]),
    refused("list_cases", &["GET /admin/abuse"]),
    refused("get_case", &["GET /admin/abuse/7"]),
    refused("dismiss_case", &["POST /admin/abuse/7/dismiss"]),
    refused("confirm_case", &["POST /admin/abuse/7/confirm"]),
    refused("set_follow_quota", &[r#"PUT /admin/users/{u}/follow-quota {"per_minute": 9}"#]),
    refused("get_follow_quota", &["GET /admin/users/{u}/follow-quota"]),
    refused("remove_follow_quota", &["DELETE /admin/users/{u}/follow-quota"]),
    refused("get_fanout", &["GET /admin/users/{u}/fanout"]),
    refused("rebuild_feed", &["POST /admin/users/{u}/feed/rebuild"]),
    refused("forget_feed", &["DELETE /admin/users/{u}/feed"]),
    refused("list_jobs", &["GET /admin/jobs"]),
    refused("get_job", &["GET /admin/jobs/7"]),
    refused("run_task", &["POST /admin/jobs/retention/run"]),
    refused("list_servers", &["GET /admin/servers"]),
    refused("last_audit", &["GET /admin/audit"]),
    refused("verify", &["POST /admin/verify"]),
    refused("recount", &["POST /admin/recount"]),
    refused("heal", &["POST /admin/heal"]),
    reads("healthz", &["GET //healthz"]),
    reads("readyz", &["GET //readyz"]),
    reads("version", &["GET //version"]),
    // It counts what the process did, both worlds being in one here; away from loopback it is the admins'.
    elsewhere("metrics"),
    reads("openapi", &["HEAD //openapi.json"]),
    reads("docs", &["HEAD //docs"]),
];

#[test]
fn every_operation_has_a_row_and_every_row_an_operation() {
    let document = entourage_server::http::document();
    let methods = document["paths"].as_object().unwrap().values().flat_map(|methods| methods.as_object().unwrap());
    let operations: BTreeSet<&str> = methods.map(|(_, one)| one["operationId"].as_str().unwrap()).collect();
    let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
    assert_eq!(rows.len(), ROWS.len(), "an operation has two rows");
    assert_eq!(rows, operations, "what is in one of them only has no row, or no operation");
    for row in ROWS {
        assert_eq!(row.lines.is_empty(), row.asks == Asks::Elsewhere, "{}", row.name);
    }
}
