//! Posts: found by their author and by their id, and gone with both.

use std::collections::HashSet;

use entourage_model::{
    Code, Condition, EventBody, ExternalId, Key, Millis, Operation, Overwrite, Record, RecordId, Reply, Space,
    UserPatch, Version, external_post, post_author,
};

use super::{
    operations::*,
    pages,
    world::{World, own_request},
};
use entourage_store::StoreExt as _;

async fn listed(world: &World, author: Key) -> Vec<Record> {
    pages::read_records(&*world.store, Space::Post, author, 3).await.unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// The author that the id of a post leads to.
async fn found_by_id(world: &World, post: Version) -> Option<Key> {
    let id = RecordId::of_post_author(post);
    let (owner, record) = world.store.get_server_record(Space::PostAuthor, &id).await.expect("records can be read")?;
    let author = post_author(&record.value).expect("the author can be read");
    assert_eq!((owner, record.version), (world.server(author), post));
    Some(author)
}

fn replace(author: Key, post: Version, value: &[u8], condition: Condition) -> Operation {
    put_record_if(Space::Post, author, RecordId::of_version(post).as_bytes(), Some(value), condition)
}

fn take_away(author: Key, post: Version) -> Operation {
    remove_record(Space::Post, author, RecordId::of_version(post).as_bytes())
}

pub(super) async fn written_under_an_id_of_their_own(world: World) {
    let (author, mark) = world.user_at_mark().await;
    let first = world.done(post(author, b"one")).await;
    let second = world.done(post(author, b"one")).await;
    assert!(second.version > first.version);
    for outcome in [&first, &second] {
        let version = outcome.version;
        assert_eq!(outcome.reply, Reply::Record { version, created: true, changed: true, owner: Some(author) });
        assert_eq!(outcome.changes.len(), 2);
        assert_eq!(found_by_id(&world, version).await, Some(author));
    }
    let expected = [&second, &first].map(|outcome| {
        let (id, version) = (RecordId::of_version(outcome.version), outcome.version);
        Record { id, version, value: Box::from(*b"one") }
    });
    assert_eq!(listed(&world, author).await, expected, "newest first");
    assert_eq!(world.store.count_records(Space::Post, author).await.expect("records are counted"), 2);
    let events = world.events(mark, &[author]).await;
    for (event, outcome) in events.iter().zip([&first, &second]) {
        assert!(event.name() == "post.created" && event.is_public() && event.version == outcome.version);
        let EventBody::Record { id, after, .. } = &event.body else { panic!("{event:?} is of no record") };
        assert_eq!((id.version(), after.as_deref()), (Some(outcome.version), Some(&b"one"[..])));
    }
    assert_eq!(events.len(), 2);
    // The record of the author is internal to the server.
    let all = pages::read_events(&*world.store, mark).await.expect("events can be read");
    let index = all.iter().filter(|event| match &event.body {
        EventBody::Record { space: Space::PostAuthor, id, after, .. } => {
            assert!(!event.is_public() && after.as_deref().is_none_or(<[u8]>::is_empty));
            *id == RecordId::of_post_author(second.version)
        }
        _ => false,
    });
    assert_eq!(index.count(), 1);
}

pub(super) async fn refusals(world: World) {
    let (author, mark) = world.user_at_mark().await;
    let other = world.user().await;
    world.refused(post(world.stranger(), b"x"), Code::ActorNotFound).await;
    world.refused(post(Key::SERVER, b"x"), Code::ActorNotFound).await;
    world.refused(post(author, &vec![1; 65_537]), Code::InvalidRequest).await;
    let made = world.done(post(author, b"x")).await.version;
    // Only the post operation makes a post, or the record of its author.
    let free = Version::from_bits(made.bits() - 1);
    world.refused(replace(author, free, b"y", Condition::Any), Code::InvalidRequest).await;
    world.refused(replace(author, free, b"y", Condition::Absent), Code::InvalidRequest).await;
    world.refused(replace(other, made, b"y", Condition::Any), Code::InvalidRequest).await;
    world.refused(replace(author, free, b"y", Condition::Version(made)), Code::RequestInProgress).await;
    world.refused(replace(author, made, &vec![1; 65_537], Condition::Any), Code::InvalidRequest).await;
    let add = |space, owner| Operation::AddRecord { space, owner, value: Box::from(*b"y"), cap: None };
    world.refused(add(Space::Post, author), Code::InvalidRequest).await;
    let server = world.server(author);
    world.refused(add(Space::PostAuthor, server), Code::InvalidRequest).await;
    let index = RecordId::of_post_author(made);
    world.refused(put_record(Space::PostAuthor, server, index.as_bytes(), b"y"), Code::InvalidRequest).await;
    world.refused(remove_record(Space::PostAuthor, server, index.as_bytes()), Code::InvalidRequest).await;
    assert_eq!(world.done(take_away(other, made)).await.reply, Reply::Gone { changed: false });
    assert_eq!(found_by_id(&world, made).await, Some(author));
    assert_eq!(listed(&world, author).await.len(), 1);
    assert_eq!(world.event_names(mark, &[author]).await, ["post.created"]);
}

pub(super) async fn replaced_and_taken_away(world: World) {
    let (author, mark) = world.user_at_mark().await;
    let made = world.done(post(author, b"one")).await.version;
    let kept = world.done(post(author, b"kept")).await.version;
    let same = world.done(replace(author, made, b"one", Condition::Version(made))).await;
    assert_eq!(same.reply, Reply::Record { version: made, created: false, changed: false, owner: Some(author) });
    let replaced = world.done(replace(author, made, b"two", Condition::Version(made))).await;
    let version = replaced.version;
    assert_eq!(replaced.reply, Reply::Record { version, created: false, changed: true, owner: Some(author) });
    world.refused(replace(author, made, b"three", Condition::Version(made)), Code::RequestInProgress).await;
    let id = RecordId::of_version(made);
    let stored = world.store.get_record(Space::Post, author, &id).await.expect("records can be read");
    assert_eq!(stored, Some(Record { id: id.clone(), version, value: Box::from(*b"two") }));
    assert_eq!(found_by_id(&world, made).await, Some(author));
    assert_eq!(found_by_id(&world, version).await, None);
    assert_eq!(listed(&world, author).await.len(), 2);

    let gone = world.done(take_away(author, made)).await;
    assert_eq!((gone.reply, gone.changes.len()), (Reply::Gone { changed: true }, 2));
    assert_eq!(world.done(take_away(author, made)).await.reply, Reply::Gone { changed: false });
    world.refused(replace(author, made, b"four", Condition::Any), Code::InvalidRequest).await;
    assert_eq!(found_by_id(&world, made).await, None);
    assert_eq!(found_by_id(&world, kept).await, Some(author));
    let left: Vec<RecordId> = listed(&world, author).await.into_iter().map(|record| record.id).collect();
    assert_eq!(left, [RecordId::of_version(kept)]);
    let names = world.event_names(mark, &[author]).await;
    assert_eq!(names, ["post.created", "post.created", "post.updated", "post.deleted"]);
}

pub(super) async fn a_retry_is_the_same_post(world: World) {
    let author = world.user().await;
    let key = own_request();
    let first = world.done(keyed(post(author, b"once"), key)).await;
    let again = world.done(keyed(post(author, b"once"), key)).await;
    assert!(again.replayed && again.changes.is_empty());
    assert_eq!((again.reply, again.version), (first.reply, first.version));
    assert_eq!(listed(&world, author).await.len(), 1);
    world.done(take_away(author, first.version)).await;
    assert_eq!(world.done(keyed(post(author, b"once"), key)).await.reply, first.reply, "what came of it then");
    assert!(listed(&world, author).await.is_empty());
    let at_once = own_request();
    let replies = world
        .race(16, |_, store| async move {
            store.commit(keyed(post(author, b"race"), at_once)).await.expect("the post is written").reply
        })
        .await;
    assert!(replies.iter().all(|reply| *reply == replies[0]), "{replies:?}");
    assert_eq!(listed(&world, author).await.len(), 1);
}

pub(super) async fn written_at_once_each_has_its_id(world: World) {
    let author = world.user().await;
    let versions = world
        .race(64, |index, store| async move {
            store.commit(post(author, &[index as u8]).into()).await.expect("the post is written").version
        })
        .await;
    let ids: HashSet<Version> = versions.iter().copied().collect();
    assert_eq!(ids.len(), 64);
    let listed = listed(&world, author).await;
    assert_eq!(listed.iter().map(|record| record.version).collect::<HashSet<_>>(), ids);
    for (index, version) in versions.into_iter().enumerate() {
        assert_eq!(found_by_id(&world, version).await, Some(author));
        let stored = listed.iter().find(|record| record.version == version).expect("it is listed");
        assert_eq!(*stored.value, [index as u8]);
    }
}

pub(super) async fn an_erased_author_leaves_them_to_chunks(world: World) {
    let (_, mark) = world.user_at_mark().await;
    let (author, id) = world.own_id();
    let put = Operation::PutUser { key: author, id, patch: UserPatch::default(), overwrite: Overwrite::Replace };
    world.done(put.clone()).await;
    let others = world.many_users(3).await;
    for &other in &others {
        world.done(follow(other, author)).await;
    }
    let mut posts = Vec::new();
    for number in 0..7 {
        posts.push(world.done(post(author, &[number])).await.version);
    }
    world.done(replace(author, posts[0], b"again", Condition::Any)).await;
    world.done(erase(author)).await;
    assert_eq!(listed(&world, author).await.len(), 7, "posts stay for the moment");
    world.refused(post(author, b"late"), Code::ActorNotFound).await;
    world.refused(take_away(author, posts[0]), Code::ActorNotFound).await;
    // The edges first, then posts, half as many: each has the record of its author.
    let chunks = [(2, 2, true), (5, 1, true), (0, 0, true), (1, 1, true), (4, 2, true), (5, 3, true), (9, 1, false)];
    for (limit, removed, left) in chunks.into_iter().chain([(9, 0, false)]) {
        if left || removed > 0 {
            world.refused(put.clone(), Code::RequestInProgress).await;
        }
        let reply = world.done(erase_edges(author, limit)).await.reply;
        assert_eq!(reply, Reply::EdgesErased { removed, left }, "at {limit}");
        world.assert_sound().await;
    }
    assert!(listed(&world, author).await.is_empty());
    for &version in &posts {
        assert_eq!(found_by_id(&world, version).await, None);
    }
    let names = world.event_names(mark, &[author]).await;
    assert_eq!(names.iter().filter(|name| **name == "post.deleted").count(), 7);
    assert_eq!(names.iter().filter(|name| **name == "user.erased").count(), 1);

    world.done(put).await;
    assert!(listed(&world, author).await.is_empty());
    let new = world.done(post(author, b"new")).await.version;
    let late = world.done(erase_edges(author, 100)).await;
    assert_eq!(late.reply, Reply::EdgesErased { removed: 0, left: false });
    assert_eq!(found_by_id(&world, new).await, Some(author));
    assert_eq!(listed(&world, author).await.len(), 1);
}

pub(super) async fn how_they_spread_is_forgotten_with_the_author(world: World) {
    let (author, id) = world.own_id();
    let put = Operation::PutUser { key: author, id, patch: UserPatch::default(), overwrite: Overwrite::Replace };
    let about = RecordId::of_key(author);
    let stored = async || {
        let found =
            world.store.get_record(Space::Fanout, world.server(author), &about).await.expect("records can be read");
        found.map(|record| record.value)
    };
    world.refused(fan_out(world.server(author), author, Some(b"push")), Code::UserNotFound).await;
    world.done(put.clone()).await;
    world.refused(put_record(Space::Fanout, author, about.as_bytes(), b"push"), Code::InvalidRequest).await;
    world.refused(put_record(Space::Fanout, world.server(author), b"name", b"push"), Code::InvalidRequest).await;
    let add =
        Operation::AddRecord { space: Space::Fanout, owner: world.server(author), value: Box::default(), cap: None };
    world.refused(add, Code::InvalidRequest).await;
    world.done(fan_out(world.server(author), author, Some(b"push"))).await;
    world.done(fan_out(world.server(author), author, Some(b"pull"))).await;
    assert_eq!(stored().await.as_deref(), Some(&b"pull"[..]));
    world.done(erase(author)).await;
    assert_eq!(stored().await, None);
    world.refused(fan_out(world.server(author), author, Some(b"late")), Code::UserNotFound).await;
    assert_eq!(world.done(fan_out(world.server(author), author, None)).await.reply, Reply::Gone { changed: false });
    world.done(put).await;
    assert_eq!(stored().await, None);
}

/// Which post of an author has an external id.
async fn found_by_name(world: &World, author: Key, name: &str) -> Option<Version> {
    let id = ExternalId::new(name).expect("the id is valid").record_id();
    let record = world.store.get_record(Space::PostExternal, author, &id).await.expect("records can be read")?;
    Some(external_post(&record.value).expect("the post can be read"))
}

pub(super) async fn an_external_id_names_one_post_of_its_author(world: World) {
    let (author, id) = world.own_id();
    let put = Operation::PutUser { key: author, id, patch: UserPatch::default(), overwrite: Overwrite::Replace };
    world.done(put.clone()).await;
    let (other, mark) = world.user_at_mark().await;
    let first = world.done(named_post(author, "a", "{}")).await;
    assert_eq!(
        first.reply,
        Reply::Record { version: first.version, created: true, changed: true, owner: Some(author) }
    );
    let again = world.done(named_post(author, "a", "{ }")).await;
    assert_eq!(
        again.reply,
        Reply::Record { version: first.version, created: false, changed: false, owner: Some(author) }
    );
    assert!(again.changes.is_empty());
    let second = world.done(named_post(author, "b", "{}")).await.version;
    let others = world.done(named_post(other, "a", "{}")).await.version;
    assert_eq!(found_by_name(&world, author, "a").await, Some(first.version));
    assert_eq!(found_by_name(&world, author, "b").await, Some(second));
    assert_eq!(found_by_name(&world, other, "a").await, Some(others));
    assert_eq!(listed(&world, author).await.len(), 2);

    // It is part of the post: only the post changes it, and the post keeps it.
    let name = |name: &str, body: &str| match named_post(author, name, body) {
        Operation::Post { value, .. } => value,
        _ => unreachable!("a post is a post"),
    };
    world.refused(replace(author, first.version, &name("c", "{}"), Condition::Any), Code::InvalidRequest).await;
    world.refused(replace(author, first.version, b"x", Condition::Any), Code::InvalidRequest).await;
    world.done(replace(author, first.version, &name("a", "{ }"), Condition::Any)).await;
    let record = ExternalId::new("a").expect("the id is valid").record_id();
    world.refused(put_record(Space::PostExternal, author, record.as_bytes(), b"x"), Code::InvalidRequest).await;
    world.refused(remove_record(Space::PostExternal, author, record.as_bytes()), Code::InvalidRequest).await;
    let add = Operation::AddRecord { space: Space::PostExternal, owner: author, value: Box::default(), cap: None };
    world.refused(add, Code::InvalidRequest).await;
    world.refused(named_post(world.stranger(), "a", "{}"), Code::ActorNotFound).await;

    let gone = world.done(take_away(author, first.version)).await;
    assert_eq!((gone.reply, gone.changes.len()), (Reply::Gone { changed: true }, 3));
    assert_eq!(found_by_name(&world, author, "a").await, None);
    let new = world.done(named_post(author, "a", "{}")).await;
    assert!(new.reply.changed() && new.version > first.version);
    assert_eq!(found_by_name(&world, author, "a").await, Some(new.version));

    // It is gone with its author at once, though the posts go later; the next owner of the id has none.
    world.done(erase(author)).await;
    assert_eq!(found_by_name(&world, author, "a").await, None);
    world.assert_sound().await;
    world.done(erase_edges(author, 100)).await;
    world.done(put).await;
    assert!(world.done(named_post(author, "b", "{}")).await.reply.changed());
    assert_eq!(found_by_name(&world, other, "a").await, Some(others));
    let names = world.event_names(mark, &[other]).await;
    assert_eq!(names, ["post.created", "record.changed"]);
}

pub(super) async fn equal_external_ids_at_once_are_one_post(world: World) {
    let [author, other] = world.users().await;
    let replies = world
        .race(32, |index, store| async move {
            let by = if index % 4 == 3 { other } else { author };
            let made = store.commit(named_post(by, "same", &format!("{{\"n\":{index}}}")).into()).await;
            (by, made.expect("the post is written, or there").reply)
        })
        .await;
    for by in [author, other] {
        let own: Vec<Reply> = replies.iter().filter(|(whose, _)| *whose == by).map(|(_, reply)| *reply).collect();
        let posts = listed(&world, by).await;
        let [post] = &posts[..] else { panic!("{posts:?} should be one") };
        for reply in &own {
            let Reply::Record { version, .. } = reply else { panic!("{reply:?}") };
            assert_eq!(RecordId::of_version(*version), post.id);
        }
        assert_eq!(own.iter().filter(|reply| reply.changed()).count(), 1, "{own:?}");
    }
}

/// A millisecond in which nobody else has posts.
fn own_time(author: Key) -> Millis {
    Millis::from_since_2000(300_000_000_000 + author.0.unsigned_abs() % 300_000_000_000)
}

fn id_of(reply: &Reply) -> Version {
    match reply {
        Reply::Record { version, .. } => *version,
        other => panic!("{other:?} is of no post"),
    }
}

pub(super) async fn from_a_file_they_have_their_time(world: World) {
    let (author, mark) = world.user_at_mark().await;
    let other = world.user().await;
    let at = own_time(author);
    let first = world.done(import_post(author, at, b"one")).await;
    let second = world.done(import_post(author, at, b"two")).await;
    let others = world.done(import_post(other, at, b"one")).await;
    let ids = [&first, &second, &others].map(|outcome| id_of(&outcome.reply));
    assert!(ids[0] < ids[1] && ids[2] != ids[0] && ids[2] != ids[1], "{ids:?}");
    for ((outcome, id), owner) in [&first, &second, &others].into_iter().zip(ids).zip([author, author, other]) {
        assert_eq!(outcome.reply, Reply::Record { version: id, created: true, changed: true, owner: Some(owner) });
        assert!(id.millis() == at && id < outcome.version);
    }
    let by_id = async |id: Version| {
        let index = RecordId::of_post_author(id);
        let found = world.store.get_server_record(Space::PostAuthor, &index).await.expect("records can be read");
        found.map(|(_, record)| post_author(&record.value).expect("the author can be read"))
    };
    assert_eq!(
        [by_id(ids[0]).await, by_id(ids[1]).await, by_id(ids[2]).await],
        [Some(author), Some(author), Some(other)]
    );
    let expected = [(&second, &b"two"[..]), (&first, b"one")].map(|(outcome, value)| {
        let (id, version) = (RecordId::of_version(id_of(&outcome.reply)), outcome.version);
        Record { id, version, value: value.into() }
    });
    assert_eq!(listed(&world, author).await, expected, "newest first");
    // The same again is the existing one.
    for (value, id) in [(&b"one"[..], ids[0]), (b"two", ids[1])] {
        let again = world.done(import_post(author, at, value)).await;
        assert_eq!(again.reply, Reply::Record { version: id, created: false, changed: false, owner: Some(author) });
    }
    // Under its old id; the author decides.
    let exact = |author, id: Version, value: &[u8]| Operation::ImportPost {
        author,
        at: id.millis(),
        id: Some(id),
        value: value.into(),
    };
    let free = Version::from_bits(Version::of_millis(at.plus(5)).bits() + 77);
    assert_eq!(id_of(&world.done(exact(author, free, b"kept")).await.reply), free);
    let again = world.done(exact(author, free, b"another")).await;
    assert_eq!(again.reply, Reply::Record { version: free, created: false, changed: false, owner: Some(author) });
    world.refused(exact(other, free, b"kept"), Code::IdTaken).await;
    world.refused(exact(author, Version::MAX, b"x"), Code::InvalidRequest).await;
    world.refused(import_post(author, Millis::from_since_2000(2_100_000_000_000), b"x"), Code::InvalidRequest).await;
    world.refused(import_post(world.stranger(), at, b"x"), Code::ActorNotFound).await;
    // Its external id is as good as any other.
    let Operation::Post { value, .. } = named_post(author, "a", "{}") else { unreachable!("a post is a post") };
    let named = id_of(&world.done(import_post(author, at, &value)).await.reply);
    let again = world.done(import_post(author, at.plus(9), &value)).await;
    assert_eq!(again.reply, Reply::Record { version: named, created: false, changed: false, owner: Some(author) });
    assert_eq!(world.done(named_post(author, "a", "{ }")).await.reply, again.reply);
    assert_eq!(found_by_name(&world, author, "a").await, Some(named));
    // What is written now is above all of them, and they are removed as others are.
    let now = world.done(post(author, b"now")).await.version;
    assert_eq!(listed(&world, author).await[0].id, RecordId::of_version(now));
    world.done(replace(author, ids[0], b"three", Condition::Any)).await;
    assert_eq!(world.done(take_away(author, ids[0])).await.changes.len(), 2);
    assert_eq!(world.done(take_away(author, named)).await.changes.len(), 3);
    assert_eq!(by_id(ids[0]).await, None);
    assert_eq!(listed(&world, author).await.len(), 3);
    let names = world.event_names(mark, &[author]).await;
    let created = names.iter().filter(|name| **name == "post.created").count();
    // One was replaced and two deleted, and with one of those its external id came and went.
    assert_eq!((created, names.len()), (5, 10), "{names:?}");
    world.done(erase(author)).await;
    let reply = world.done(erase_edges(author, 100)).await.reply;
    assert_eq!(reply, Reply::EdgesErased { removed: 3, left: false });
}

pub(super) async fn from_a_file_at_once_each_has_its_id(world: World) {
    let authors: [Key; 4] = world.users().await;
    let at = own_time(authors[0]);
    // Half of them twice, and others under one id that they all had.
    let exact = Version::from_bits(Version::of_millis(at).bits() + 9);
    let done = world
        .race(32, |index, store| async move {
            let author = authors[index % 4];
            let id = (index >= 28).then_some(exact);
            let value: Box<[u8]> = Box::new([if id.is_some() { 99 } else { (index % 16) as u8 }]);
            let made = store.commit(Operation::ImportPost { author, at, id, value }.into()).await;
            (author, made.map(|outcome| (id_of(&outcome.reply), outcome.reply.changed())))
        })
        .await;
    let mut whose = std::collections::HashMap::new();
    for (author, made) in &done[..28] {
        let (id, _) = made.as_ref().expect("there is room");
        assert_eq!(*whose.entry(*id).or_insert(*author), *author, "{id} is of two authors");
    }
    assert_eq!(whose.len(), 16);
    assert_eq!(done[..28].iter().filter(|(_, made)| made.as_ref().is_ok_and(|(_, is_new)| *is_new)).count(), 16);
    let exact: Vec<_> = done[28..].iter().filter_map(|(_, made)| made.as_ref().ok()).collect();
    assert_eq!(exact.len(), 1, "one author has the id");
    let mut found = 0;
    for author in authors {
        found += listed(&world, author).await.len();
    }
    assert_eq!(found, 17);
}

pub(super) async fn they_survive_reopening(world: World) {
    let [author, gone] = world.users().await;
    let mut posts = Vec::new();
    for number in 0..40 {
        // As posts begin, or some would look as if they had an external id.
        let value = [&[2][..], &[number; 899]].concat();
        posts.push(world.done(post(author, &value)).await.version);
        world.done(post(gone, &value)).await;
    }
    world.done(take_away(author, posts[7])).await;
    world.done(replace(author, posts[8], b"replaced", Condition::Any)).await;
    world.done(erase(gone)).await;
    world.done(erase_edges(gone, 20)).await;
    let before = listed(&world, author).await;
    let mut world = world;
    for left in [30, 20] {
        world = world.reopened().await;
        assert_eq!(listed(&world, author).await, before);
        assert_eq!(found_by_id(&world, posts[7]).await, None);
        assert_eq!(found_by_id(&world, posts[8]).await, Some(author));
        assert_eq!(listed(&world, gone).await.len(), left);
        assert_eq!(world.done(erase_edges(gone, 20)).await.reply, Reply::EdgesErased { removed: 10, left: true });
    }
    let newest = world.done(post(author, b"newest")).await.version;
    assert_eq!(listed(&world, author).await[0].id, RecordId::of_version(newest));
}
