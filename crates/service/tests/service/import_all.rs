//! A whole product as files and back: users, follows, requests, blocks, mutes, groups and posts with their times.

use entourage_testkit::service::{homes as homes_kit, import as import_kit};

use std::{sync::Arc, time::Duration};

use entourage_model::{Clock, ExternalId, Kind, Millis, Space, UserId, UserPatch, Version};
use entourage_service::{Actor, Call, Export, ExportFormat, ExportKind, Limit, NewPost, import::Form};
use entourage_store::{StoreExt as _, SystemClock};

use self::import_kit::Place;

fn id(text: &str) -> UserId {
    UserId::try_from(text).unwrap()
}

fn acting(user: &str) -> Call {
    Call { actor: Actor::User(id(user)), ..Call::default() }
}

fn everything() -> Export {
    Export { format: ExportFormat::Ndjson, kinds: ExportKind::ALL.to_vec() }
}

/// Everything that can be exported, made as people make it.
async fn product() -> Place {
    product_on(Place::default()).await
}

async fn product_on(place: Place) -> Place {
    let (service, call) = (&place.service, Call::default());
    for (user, private) in [("ann", false), ("bob", false), ("7", true), ("c, \"d\" é", false), ("gone", false)] {
        let patch = UserPatch { private: Some(private), name: Some(Some("N, ☂".into())), ..UserPatch::default() };
        service.graph.put_user(&call, id(user), patch).await.unwrap();
    }
    let far = SystemClock.now().plus(86_400_000);
    for (a, b, quiet) in [("ann", "bob", false), ("bob", "ann", true), ("ann", "gone", false), ("gone", "ann", false)] {
        service.graph.follow(&call, &id(a), &id(b), quiet).await.unwrap();
    }
    service.graph.follow(&call, &id("ann"), &id("7"), false).await.unwrap();
    service.graph.follow(&call, &id("bob"), &id("7"), false).await.unwrap();
    service.graph.accept(&call, &id("7"), &id("bob")).await.unwrap();
    service.graph.block(&call, &id("7"), &id("c, \"d\" é")).await.unwrap();
    service.graph.block(&call, &id("gone"), &id("bob")).await.unwrap();
    service.graph.mute(&call, &id("ann"), &id("bob"), None).await.unwrap();
    service.graph.mute(&call, &id("bob"), &id("ann"), Some(far)).await.unwrap();
    let group = service.graph.create_group(&call, &id("ann"), "Friends, \"close\"").await.unwrap().group.id;
    service.graph.create_group(&call, &id("ann"), "Empty").await.unwrap();
    for member in ["bob", "gone"] {
        service.graph.add_member(&call, &id("ann"), group, &id(member)).await.unwrap();
    }
    let named = |body| NewPost { body, external_id: ExternalId::new("status, \"1\"").ok() };
    service.feeds.create_post(&acting("ann"), "{\"text\": \"plain ☂\"}").await.unwrap();
    let edited = service.feeds.create_post(&acting("ann"), named("{}")).await.unwrap().post.id;
    service.feeds.replace_post(&call, edited, "{\n  \"text\" :\t1.50\r\n}").await.unwrap();
    service.feeds.create_post(&acting("bob"), named("{\"a\": \"\\n\"}")).await.unwrap();
    let deleted = service.feeds.create_post(&acting("7"), named("{}")).await.unwrap().post.id;
    service.feeds.delete_post(&call, deleted).await.unwrap();
    service.feeds.create_post(&acting("gone"), "{}").await.unwrap();
    // Erased, and none of the work of that is done: nothing of it may come back.
    service.jobs.erase(&call, &id("gone")).await.unwrap();
    place
}

fn homes() -> Place {
    Place::on(homes_kit::settled(Arc::new(SystemClock)))
}

#[tokio::test]
async fn an_export_of_everything_imported_and_exported_is_the_same() {
    // Keys of names are others there, and so is the order of the lines.
    there_and_back(product().await, Place::with_secret([9; 32])).await;
}

#[tokio::test]
async fn everything_goes_into_homes_that_settle_and_out_of_them() {
    there_and_back(product().await, homes()).await;
    there_and_back(product_on(homes()).await, Place::with_secret([9; 32])).await;
}

async fn there_and_back(place: Place, back: Place) {
    // Posts of a file are from the past: all of this can happen within one millisecond.
    let made = SystemClock.now();
    while SystemClock.now() <= made {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let lines = place.export(everything()).await;
    let count = |kind: &str| lines.iter().filter(|line| line.contains(&format!("\"type\":\"{kind}\""))).count();
    let kinds = ["user", "follow", "request", "block", "mute", "group", "group_member", "post"];
    assert_eq!(kinds.map(count), [4, 3, 1, 1, 2, 2, 1, 3], "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("gone")), "{lines:#?}");

    let order = |kind: &&str| kinds.iter().position(|known| known == kind).unwrap();
    let mut text: Vec<(usize, &String)> = Vec::new();
    for kind in kinds {
        let wanted = format!("\"type\":\"{kind}\"");
        text.extend(lines.iter().filter(|line| line.contains(&wanted)).map(|line| (order(&kind), line)));
    }
    text.sort();
    let text: String = text.into_iter().map(|(_, line)| format!("{line}\n")).collect();
    let (tally, rejects) = back.import_with_rejects(&text, Form::default()).await;
    assert!(rejects.is_empty(), "{rejects:?}");
    assert_eq!((tally.lines, tally.users_added), (lines.len() as u64, 0));
    assert_eq!(back.export(everything()).await, lines);
    assert!(back.store.verify().await.unwrap().problems.is_empty());
    // Once more changes nothing.
    let again = back.import(&text, Form::default()).await;
    let created = [again.edges_created, again.requests_created, again.blocks_created, again.mutes_created];
    assert_eq!(created, [0; 4]);
    assert_eq!((again.groups_unchanged, again.members_unchanged, again.posts_unchanged), (2, 1, 3));
    assert_eq!(back.export(everything()).await, lines);
}

#[tokio::test]
async fn csv_by_kind_says_the_same() {
    let place = product().await;
    let back = Place::with_secret([9; 32]);
    for kind in ExportKind::ALL {
        let export = Export { format: ExportFormat::Csv, kinds: vec![kind] };
        let mut out = Vec::new();
        export.run(&place.service.transfer, &mut out, |_| {}).await.unwrap();
        let (_, rejects) = back.import_with_rejects(&String::from_utf8(out).unwrap(), Form::default()).await;
        assert!(rejects.is_empty(), "{kind:?}: {rejects:?}");
    }
    assert_eq!(back.export(everything()).await, place.export(everything()).await);
}

#[tokio::test]
async fn times_and_ends_are_kept_and_what_is_over_is_not_exported() {
    let place = Place::default();
    let text = r#"{"type":"user","id":"p","private":true}
{"type":"request","requester":"a","target":"p","created_at":"2020-01-01T00:00:00.001Z"}
{"type":"request","requester":"a","target":"b"}
{"type":"block","blocker":"a","blocked":"b","created_at":"2020-01-01T00:00:00.002Z"}
{"type":"mute","muter":"a","muted":"c","created_at":"2020-01-01T00:00:00.003Z","expires_at":"2040-01-01T00:00:00Z"}
{"type":"mute","muter":"a","muted":"d","expires_at":"2020-01-01T00:00:00Z"}
{"type":"mute","muter":"a","muted":"a"}
{"type":"group","owner":"a","name":"Old","created_at":"2020-01-01T00:00:00.004Z"}
{"type":"follow","follower":"c","target":"a","created_at":"2020-01-01T00:00:00.005Z"}
{"type":"group_member","owner":"a","group":"Old","member":"c"}
{"type":"group_member","owner":"a","group":"Old","member":"d"}
{"type":"group_member","owner":"a","group":"None","member":"c"}
{"type":"post","author":"a","created_at":"2020-01-01T00:00:00.006Z","body":{"n":1}}
{"type":"post","author":"a","created_at":"2020-01-01T00:00:00.006Z","body":{"n":2}}
{"type":"post","author":"a","created_at":"2020-01-01T00:00:00.006Z","body":{"n":1}}
"#;
    let (tally, rejects) = place.import_with_rejects(text, Form::default()).await;
    let reasons: Vec<(u64, &str)> = rejects.iter().map(|(line, reason)| (*line, reason.as_str())).collect();
    let wanted =
        [(3, "not_private"), (6, "already_over"), (7, "self_mute"), (11, "not_connected"), (12, "group_not_found")];
    assert_eq!(reasons, wanted);
    assert_eq!((tally.posts_created, tally.posts_unchanged), (2, 1));
    let at = |millis: u64| Millis::parse_rfc3339("2020-01-01T00:00:00Z").unwrap().plus(millis);
    let [a, b, c, p] = ["a", "b", "c", "p"].map(|user| place.key(user));
    let position =
        async |kind, from, to| place.store.get_edges(kind, &[(from, to)]).await.unwrap()[0].unwrap().position.millis();
    assert_eq!(position(Kind::Follow, a, p).await, at(1));
    assert_eq!(position(Kind::Block, a, b).await, at(2));
    assert_eq!(position(Kind::Mute, a, c).await, at(3));
    let groups = place.service.graph.groups(&Call::default(), &id("a")).await.unwrap();
    assert_eq!(groups.iter().map(|group| group.created_at()).collect::<Vec<_>>(), [at(4)]);
    let posts =
        place.service.feeds.posts(&Call::default(), &id("a"), None, Limit::parse(None).unwrap()).await.unwrap().rows;
    let shown: Vec<_> = posts.iter().map(|post| (&*post.body, post.created_at(), post.edited_at)).collect();
    assert_eq!(shown, [("{\"n\":2}", at(6), None), ("{\"n\":1}", at(6), None)]);
    // Somebody takes the mute away when it is over.
    let due = place.store.scan_records(Space::Job, entourage_model::Key::SERVER, None, 9).await.unwrap();
    assert_eq!(due.len(), 1, "{due:?}");
    let late = Millis::parse_rfc3339("2040-01-02T00:00:00Z").unwrap();
    place.commit(entourage_model::Operation::ExpireMute { actor: a, target: c, now: late }).await;
    assert!(!place.export(everything()).await.iter().any(|line| line.contains("\"mute\"")));
}

#[tokio::test]
async fn an_edited_post_keeps_when_it_was_edited_until_it_is_edited_here() {
    let place = Place::default();
    let text = r#"{"type":"post","author":"a","created_at":"2020-01-01T00:00:00Z","edited_at":"2021-01-01T00:00:00Z","external_id":"x","body":{}}"#;
    place.import(text, Form::default()).await;
    let name = ExternalId::new("x").unwrap();
    let found =
        async || place.service.feeds.posts_named(&Call::default(), &id("a"), &name).await.unwrap().rows[0].clone();
    let post = found().await;
    assert_eq!(post.edited_at, Some(Millis::parse_rfc3339("2021-01-01T00:00:00Z").unwrap()));
    let same = place.service.feeds.replace_post(&Call::default(), post.id, "{}").await.unwrap();
    assert_eq!((same.changed, same.post.edited_at), (false, post.edited_at));
    let edited = place.service.feeds.replace_post(&Call::default(), post.id, "{ }").await.unwrap();
    assert!(edited.changed && edited.post.edited_at > post.edited_at);
    assert_eq!(found().await, edited.post);
    // The application's name finds it, whichever way it is asked for.
    let again =
        place.service.feeds.create_post(&acting("a"), NewPost { body: "{}", external_id: Some(name) }).await.unwrap();
    assert_eq!((again.created, again.post.id), (false, post.id));
}

/// What a reader has in the inbox is complete above its floor, whatever a file brings later.
#[tokio::test]
async fn posts_from_a_file_are_in_feeds_in_their_place_and_are_no_news() {
    let place = Place::default();
    let (service, call) = (&place.service, Call::default());
    for user in ["ann", "bob"] {
        service.graph.put_user(&call, id(user), UserPatch::default()).await.unwrap();
    }
    service.graph.follow(&call, &id("ann"), &id("bob"), false).await.unwrap();
    let first = service.feeds.create_post(&acting("bob"), "{\"n\":1}").await.unwrap().post;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let last = service.feeds.create_post(&acting("bob"), "{\"n\":9}").await.unwrap().post;
    let feed = async || -> Vec<Version> {
        let page = service.feeds.feed(&acting("ann"), &id("ann"), None, Limit::parse(None).unwrap()).await.unwrap();
        page.rows.into_iter().map(|row| row.post.id).collect()
    };
    assert_eq!(feed().await, [last.id, first.id]);
    let between = Millis::from_since_2000(first.created_at().since_2000() + 2).to_rfc3339();
    let line = |at: &str, n: u32| {
        format!("{{\"type\":\"post\",\"author\":\"bob\",\"created_at\":\"{at}\",\"body\":{{\"n\":{n}}}}}\n")
    };
    place.import(&(line(&between, 5) + &line("2001-01-01T00:00:00Z", 0)), Form::default()).await;
    let found = feed().await;
    assert_eq!((found.len(), found[0], found[2]), (4, last.id, first.id));
    assert_eq!(found[1].millis().to_rfc3339(), between);
    assert_eq!(found[3].millis().to_rfc3339(), "2001-01-01T00:00:00.000Z");
    // Nothing waits to be delivered, and what is written next is above all of them.
    assert!(service.feeds.feed_status(&call).unwrap().lanes.iter().all(|lane| lane.depth <= 2));
    let next = service.feeds.create_post(&acting("bob"), "{}").await.unwrap().post.id;
    assert_eq!(feed().await[0], next);
}
