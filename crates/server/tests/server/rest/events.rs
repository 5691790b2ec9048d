use super::server::Server;

#[test]
fn every_change_has_one_event_and_nothing_else_has() {
    let server = Server::start();
    for request in [
        r#"PUT /users/a {"name": "A"}"#,
        "PUT /users/b",
        r#"PUT /users/p {"private": true}"#,
        r#"PUT /users/a {"name": "A"}"#,
        "@a POST /users/b/follow",
        "@a POST /users/b/follow",
        "@a POST /users/a/follow",
        r#"@b POST /users/a/follow {"quiet": true}"#,
        "@a POST /users/p/follow",
        "@a DELETE /users/p/follow",
        "@a PUT /users/a/blocks/b",
        "@a DELETE /users/a/blocks/b",
        "@a DELETE /users/a/blocks/b",
        r#"PATCH /users/a {"name": null}"#,
    ] {
        server.ask(request);
    }
    let reply = server.check("GET /events", r#"200 {"has_more": false, "next_cursor": "*"}"#);
    let expected = [
        ("user.created", "", "", ""),
        ("user.created", "", "", ""),
        ("user.created", "", "", ""),
        ("follow.created", "a>b", "", "active"),
        ("follow.created", "b>a", "", "active"),
        ("follow.requested", "a>p", "", "pending"),
        ("follow.cancelled", "a>p", "pending", ""),
        ("block.created", "a>b", "", "active"),
        ("follow.removed", "a>b", "active", ""),
        ("follow.removed", "b>a", "active", ""),
        ("block.removed", "a>b", "active", ""),
        ("user.updated", "", "", ""),
    ];
    let rows = reply.body["data"].as_array().unwrap();
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            let ends = [text(row, "follower"), text(row, "target")].join(">");
            let ends = if ends == ">" { String::new() } else { ends };
            (text(row, "type"), ends, text(row, "before"), text(row, "after"))
        })
        .collect();
    let expected: Vec<_> = expected
        .map(|(name, ends, before, after)| (name.to_owned(), ends.to_owned(), before.to_owned(), after.to_owned()))
        .into();
    assert_eq!(found, expected);
    assert_eq!(rows[0]["user"]["name"], "A");
    assert_eq!(rows[11]["user"]["name"], serde_json::Value::Null);
    assert_eq!(rows[3]["quiet"], false);
    assert_eq!(rows[4]["quiet"], true);
    for row in rows {
        for name in ["cursor", "version", "time"] {
            assert!(row[name].is_string(), "{row}");
        }
    }
}

#[test]
fn events_page_from_any_cursor_and_tail_at_the_end() {
    let server = Server::start();
    server.check("GET /events", r#"200 {"data": [], "next_cursor": null, "has_more": false}"#);
    for number in 0..7 {
        server.check(&format!("PUT /users/u{number}"), "201");
    }
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let reply = server.check(&format!("GET /events?limit=3{after}"), "200 {}");
        seen.extend(reply.body["data"].as_array().unwrap().iter().map(|row| row["user"]["id"].clone()));
        let cursor = reply.body["next_cursor"].as_str().unwrap();
        after = format!("&after={cursor}");
        let has_link = reply.header("link").contains(cursor);
        assert_eq!(reply.body["has_more"], has_link);
        if !has_link {
            break;
        }
    }
    let expected: Vec<_> = (0..7).map(|number| format!("u{number}")).collect();
    assert_eq!(seen, expected);
    // The last cursor waits for what comes next.
    server.check(&format!("GET /events?limit=3{after}"), r#"200 {"data": [], "next_cursor": "*"}"#);
    server.check("PUT /users/next", "201");
    server.check(&format!("GET /events?limit=3{after}"), r#"200 {"data": [{"user": {"id": "next"}}]}"#);
    server.check("@u1 GET /events", "403 forbidden");
    server.check("GET /events?after=x", "400 invalid_cursor");
}
