//! Somebody who was erased is gone at once, also where their edges are still on their way out.

use entourage_model::{Key, Operation, UserId, UserPatch};
use entourage_service::Rules;
use entourage_store::StoreExt as _;

use super::{
    recorded::{Lie, Recorded},
    server::{Server, memory_store},
};

#[test]
fn nothing_shows_who_was_erased() {
    let store = memory_store(1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let commit = |operation: Operation| runtime.block_on(store.commit(operation.into())).map(|_| ()).unwrap();
    for number in [1, 2, 3, 7] {
        let (patch, overwrite) = (UserPatch::default(), entourage_model::Overwrite::Keep);
        commit(Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite });
    }
    for (a, b) in [(1, 7), (7, 1), (7, 2), (3, 7), (1, 3), (3, 1)] {
        commit(Operation::Follow { follower: Key(a), target: Key(b), quiet: Some(false), cap: None, park: false });
    }
    commit(Operation::Mute { actor: Key(3), target: Key(7), expires_at: None });
    let server = Server::with(Recorded::over(store, Some(Lie::Erased(Key(7)))), Rules::default());
    for viewer in ["", "@1 ", "@2 ", "@3 "] {
        for (request, expected) in [
            ("GET /users/7", "404 user_not_found"),
            ("GET /users/7/followers", "404 user_not_found"),
            ("GET /users/1/following", r#"200 {"data": [{"id": "3"}]}"#),
            ("GET /users/1/followers", r#"200 {"data": [{"id": "3"}]}"#),
            ("GET /users/2/followers", r#"200 {"data": []}"#),
            ("GET /users/1/is-following/7", r#"200 {"following": false}"#),
            ("GET /users/1/following/7", "404 not_found"),
            (
                r#"POST /checks {"pairs": [["1", "7"], ["7", "1"], ["1", "3"]]}"#,
                r#"200 {"results": [false, false, true]}"#,
            ),
            ("GET /users/1/relationships?id=7", r#"200 {"data": [{"unknown": true, "following": false}]}"#),
            ("GET /users/1/mutuals", r#"200 {"data": [{"id": "3"}]}"#),
            ("GET /users/3/not-following-back", r#"200 {"data": []}"#),
            ("GET /users/1/common-following/3", r#"200 {"data": []}"#),
            ("GET /users/1/distance/2", r#"200 {"distance": null}"#),
            ("GET /users/1/distance/7", "404 user_not_found"),
        ] {
            server.check(&format!("{viewer}{request}"), expected);
        }
        let board = server.check(&format!("{viewer}GET /leaderboards/followers"), "200 {}");
        assert!(!board.ids().contains(&"7"), "{}", board.text);
    }
    server.check("@1 GET /users/2/followers-you-know", r#"200 {"data": []}"#);
    server.check("GET /users/3/mutes", r#"200 {"data": []}"#);
    let whole = server.ask("^accept=application/x-ndjson GET /users/1/followers").text;
    assert!(whole.contains(r#""id":"3""#) && !whole.contains(r#""id":"7""#), "{whole}");
}
