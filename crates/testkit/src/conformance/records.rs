//! Records beside the graph: written under conditions, read back by id, counted.

use entourage_model::{
    CHUNK_MAX, Change, Code, Condition, Key, Operation, RECORD_MAX_BYTES, Reply, Space, Version, Write,
};

use super::{
    operations::*,
    pages,
    world::{World, own_request},
};
use entourage_store::StoreExt as _;

pub(super) async fn written_read_back_and_removed(world: World) {
    let (owner, mark) = world.user_at_mark().await;
    let first = world.done(put_record(Space::Seen, owner, b"a", b"one")).await;
    assert_eq!(first.reply, Reply::Record { version: first.version, created: true, changed: true, owner: Some(owner) });
    let second = world.done(put_record(Space::Seen, owner, b"a", b"two")).await;
    assert_eq!(
        second.reply,
        Reply::Record { version: second.version, created: false, changed: true, owner: Some(owner) }
    );
    let same = world.done(put_record(Space::Seen, owner, b"a", b"two")).await;
    assert_eq!(
        same.reply,
        Reply::Record { version: second.version, created: false, changed: false, owner: Some(owner) }
    );
    let stored = world.store.get_record(Space::Seen, owner, &id(b"a")).await.expect("records can be read");
    let stored = stored.expect("the record stands");
    assert_eq!((stored.version, &*stored.value), (second.version, &b"two"[..]));
    assert_eq!(world.store.count_records(Space::Seen, owner).await.expect("records are counted"), 1);
    for (space, owner, name) in
        [(Space::Job, owner, b"a"), (Space::Seen, world.user().await, b"a"), (Space::Seen, owner, b"b")]
    {
        let other = world.store.get_record(space, owner, &id(name)).await.expect("records can be read");
        assert_eq!(other, None, "{space:?} {owner}");
    }
    assert_eq!(world.done(remove_record(Space::Seen, owner, b"a")).await.reply, Reply::Gone { changed: true });
    assert_eq!(world.done(remove_record(Space::Seen, owner, b"a")).await.reply, Reply::Gone { changed: false });
    assert_eq!(pages::read_records(&*world.store, Space::Seen, owner, 5).await, Ok(Vec::new()));
    let events = world.events(mark, &[owner]).await;
    let names: Vec<_> = events.iter().map(entourage_model::Event::name).collect();
    assert_eq!(names, ["record.changed"; 3]);
    assert!(events.iter().all(|event| !event.is_public()), "{events:?}");
    let shown = format!("{events:?}");
    assert!(!shown.contains("111, 110, 101"), "an event tells a value: {shown}");
}

pub(super) async fn listed_by_id_from_anywhere(world: World) {
    let owner = world.user().await;
    let mut names: Vec<Vec<u8>> = vec![vec![0], vec![0, 0], vec![1; 32], vec![255; 32], vec![255], vec![1]];
    names.extend((0..60u8).map(|number| vec![9, number]));
    let puts = names.iter().map(|name| put_record(Space::Notification, owner, name, &name.repeat(40)));
    world.all_done(puts.collect()).await;
    names.sort();
    for size in [1, 2, 7, 100] {
        let listed = pages::read_records(&*world.store, Space::Notification, owner, size).await.expect("a list");
        let ids: Vec<_> = listed.iter().map(|record| record.id.as_bytes().to_vec()).collect();
        assert_eq!(ids, names, "at {size} a page");
        assert!(listed.iter().all(|record| *record.value == record.id.as_bytes().repeat(40)));
    }
    for (after, first) in [(&[9][..], &[9, 0][..]), (&[9, 58, 3], &[9, 59]), (&[0; 40], &[1]), (&[], &[0])] {
        let page = world.store.scan_records(Space::Notification, owner, Some(after), 1).await.expect("a page");
        assert_eq!(page[0].id.as_bytes(), first, "after {after:?}");
    }
    let none = world.store.scan_records(Space::Notification, owner, None, 0).await.expect("a page");
    assert!(none.is_empty());
}

pub(super) async fn conditions_hold_inside_the_commit(world: World) {
    let owner = world.user().await;
    let put = |value: &[u8], condition| put_record_if(Space::Job, owner, b"job", Some(value), condition);
    world.refused(put(b"1", Condition::Version(Version::MAX)), Code::RequestInProgress).await;
    let first = world.done(put(b"1", Condition::Absent)).await;
    world.refused(put(b"2", Condition::Absent), Code::RequestInProgress).await;
    let second = world.done(put(b"2", Condition::Version(first.version))).await;
    world.refused(put(b"3", Condition::Version(first.version)), Code::RequestInProgress).await;
    let gone = put_record_if(Space::Job, owner, b"job", None, Condition::Version(first.version));
    world.refused(gone, Code::RequestInProgress).await;
    let gone = put_record_if(Space::Job, owner, b"job", None, Condition::Version(second.version));
    assert!(world.done(gone).await.reply.changed());
    // Of many who read one version, one may continue from it.
    let start = world.done(put(b"start", Condition::Any)).await.version;
    let results = world
        .race(12, |index, store| {
            let value = [index as u8];
            let write = put_record_if(Space::Job, owner, b"job", Some(&value), Condition::Version(start));
            async move { store.commit(write.into()).await.is_ok() }
        })
        .await;
    assert_eq!(results.iter().filter(|won| **won).count(), 1);
}

pub(super) async fn refusals(world: World) {
    let (owner, mark) = world.user_at_mark().await;
    let stranger = world.stranger();
    world.refused(put_record(Space::Seen, stranger, b"a", b"x"), Code::ActorNotFound).await;
    world.refused(remove_record(Space::Seen, stranger, b"a"), Code::ActorNotFound).await;
    let large = vec![1; RECORD_MAX_BYTES + 1];
    world.refused(put_record(Space::Seen, owner, b"a", &large), Code::InvalidRequest).await;
    world.refused(put_record(Space::GroupMember, owner, b"a", b"x"), Code::InvalidRequest).await;
    world.refused(put_record(Space::Group, owner, &[1; 24], b"x"), Code::InvalidRequest).await;
    assert!(world.events(mark, &[owner]).await.is_empty());
    let largest = &large[1..];
    world.done(put_record(Space::Seen, owner, b"a", largest)).await;
    let stored = world.store.get_record(Space::Seen, owner, &id(b"a")).await.expect("records can be read");
    assert_eq!(*stored.expect("the record stands").value, *largest);
}

pub(super) async fn the_server_has_records_of_its_own(world: World) {
    let name = own_request().scope;
    let buckets = world.store.guarantees().buckets;
    for server in buckets.all().chain([Key::SERVER]) {
        let space = if server == Key::SERVER { Space::FanoutQueue } else { Space::Job };
        world.done(put_record(space, server, &name, b"work")).await;
        let stored = world.store.get_record(space, server, &id(&name)).await.expect("records can be read");
        assert_eq!(*stored.expect("the record stands").value, *b"work");
        let put = Operation::PutUser {
            key: server,
            id: world.own_id().1,
            patch: Default::default(),
            overwrite: entourage_model::Overwrite::Replace,
        };
        world.refused(put, Code::IdTaken).await;
        world.done(remove_record(space, server, &name)).await;
    }
}

/// Where each lies follows from the user it is about, and nothing of a spread space lies anywhere else.
pub(super) async fn what_is_about_somebody_lies_in_their_bucket(world: World) {
    let users = world.many_users(40).await;
    let buckets = world.store.guarantees().buckets;
    for space in Space::ALL.into_iter().filter(|space| space.is_spread()) {
        let elsewhere = if buckets.has(Key::SERVER) { Key(Key::SERVER.0 + 1) } else { Key::SERVER };
        world.refused(put_record(space, elsewhere, &own_request().scope, b"x"), Code::InvalidRequest).await;
        let add = Operation::AddRecord { space, owner: elsewhere, value: Box::default(), cap: None };
        world.refused(add, Code::InvalidRequest).await;
    }
    let seldom: Vec<Space> = Space::ALL.into_iter().filter(|space| !space.is_spread()).collect();
    use Space::*;
    let known = [Group, GroupMember, Seen, Notification, Import, Post, FanoutQueue, PostExternal];
    let since = [Dismissed, Suggested, Case, Schedule, Signal, TargetQuota];
    assert_eq!(seldom, [known.as_slice(), &since].concat());
    let ends = entourage_model::Millis::from_since_2000(900_000_000_000);
    let tally = id(&own_request().scope);
    let mut owners: Vec<Key> = Vec::new();
    for pair in users.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let counted = Write { tally: Some(tally.clone()), ..Write::from(follow(a, b)) };
        for write in [
            counted,
            post(a, b"x").into(),
            mute_until(a, b, ends).into(),
            fan_out(world.server(a), a, Some(b"p")).into(),
            Operation::AddRecord { space: Job, owner: world.server(a), value: Box::default(), cap: None }.into(),
        ] {
            let outcome = world.done(write).await;
            for change in &outcome.changes {
                if let Change::Record(record) = change
                    && record.space.is_spread()
                {
                    assert_eq!(record.owner, buckets.of(a), "{record:?} is about {a}");
                    owners.push(record.owner);
                }
            }
        }
    }
    assert_eq!(owners.len(), 5 * 39);
    let mut counted = 0;
    for (_, record) in world.store.scan_server_records(Job, Some(&tally.as_bytes()[..15]), 1_000).await.expect("a scan")
    {
        counted += if record.id == tally { entourage_model::tally(&record.value) } else { 0 };
    }
    assert_eq!(counted, 39);
    owners.sort_unstable();
    owners.dedup();
    let least = buckets.all().count().min(8);
    assert!(owners.len() >= least, "{} buckets of {buckets:?} are used", owners.len());
}

pub(super) async fn caps_are_exact(world: World) {
    let owner = world.user().await;
    let put = |name: u8, space, cap| Operation::PutRecord {
        space,
        owner,
        id: id(&[name]),
        value: Some([name].into()),
        condition: Condition::Any,
        cap: Some(cap),
    };
    world.refused(put(1, Space::Group, 0), Code::GroupLimit).await;
    world.refused(put(1, Space::Seen, 0), Code::InvalidRequest).await;
    let results = world
        .race(16, |index, store| {
            let write = put(index as u8, Space::Group, 5);
            async move { store.commit(write.into()).await.map(|_| index as u8).map_err(|error| error.code()) }
        })
        .await;
    let made: Vec<u8> = results.iter().flatten().copied().collect();
    assert_eq!(made.len(), 5, "{results:?}");
    assert!(results.iter().flatten().count() + results.iter().filter(|r| **r == Err(Code::GroupLimit)).count() == 16);
    // Changing one takes no more room; removing one makes some.
    let rename = Operation::PutRecord {
        space: Space::Group,
        owner,
        id: id(&[made[0]]),
        value: Some([99].into()),
        condition: Condition::Any,
        cap: Some(5),
    };
    world.done(rename).await;
    world.refused(put(50, Space::Group, 5), Code::GroupLimit).await;
    world.done(remove_record(Space::Group, owner, &[made[1]])).await;
    world.done(put(50, Space::Group, 5)).await;
    assert_eq!(world.store.count_records(Space::Group, owner).await.expect("records are counted"), 5);
}

pub(super) async fn groups_have_members_among_the_connected(world: World) {
    let (owner, mark) = world.user_at_mark().await;
    let [followed, follower, other] = world.users().await;
    let private = world.private_user().await;
    for operation in [follow(owner, followed), follow(follower, owner), follow(owner, private)] {
        world.done(operation).await;
    }
    world.refused(member(owner, b"g", followed, true), Code::GroupNotFound).await;
    world.done(put_record(Space::Group, owner, b"g", b"friends")).await;
    world.refused(member(owner, &[1; 24], followed, true), Code::GroupNotFound).await;
    world.refused(member(world.stranger(), b"g", followed, true), Code::ActorNotFound).await;
    world.refused(member(owner, b"g", world.stranger(), true), Code::UserNotFound).await;
    for unconnected in [other, private, owner] {
        world.refused(member(owner, b"g", unconnected, true), Code::InvalidRequest).await;
    }
    for connected in [followed, follower] {
        let added = world.done(member(owner, b"g", connected, true)).await;
        assert_eq!(
            added.reply,
            Reply::Record { version: added.version, created: true, changed: true, owner: Some(owner) }
        );
    }
    world.done(unfollow(owner, followed)).await;
    // A member stays in; that the two are strangers now is for readers to see.
    assert!(!world.done(member(owner, b"g", followed, true)).await.reply.changed());
    let listed = pages::read_records(&*world.store, Space::GroupMember, owner, 10).await.expect("members");
    let mut members: Vec<Key> = listed.iter().filter_map(|record| Some(record.id.member()?.1)).collect();
    members.sort_unstable();
    let mut expected = [followed, follower];
    expected.sort_unstable();
    assert_eq!(members, expected);
    assert!(world.done(member(owner, b"g", followed, false)).await.reply.changed());
    assert!(!world.done(member(owner, b"g", followed, false)).await.reply.changed());
    world.done(put_record(Space::Group, owner, b"g", b"old friends")).await;
    world.done(remove_record(Space::Group, owner, b"g")).await;
    assert_eq!(pages::read_records(&*world.store, Space::GroupMember, owner, 10).await, Ok(Vec::new()));
    let events = world.events(mark, &[owner]).await;
    let own = events.iter().map(entourage_model::Event::name).filter(|name| name.starts_with("group."));
    let expected =
        ["created", "member_added", "member_added", "member_removed", "updated", "removed", "member_removed"];
    assert_eq!(own.collect::<Vec<_>>(), expected.map(|name| format!("group.{name}")));
    assert!(events.iter().all(entourage_model::Event::is_public));
}

pub(super) async fn a_large_group_goes_in_chunks(world: World) {
    let owner = world.user().await;
    let others = world.many_users(CHUNK_MAX + 10).await;
    world.done(put_record(Space::Group, owner, b"g", b"many")).await;
    world.done(put_record(Space::Group, owner, b"gg", b"few")).await;
    world.all_done(others.iter().map(|&other| follow(owner, other)).collect()).await;
    world.all_done(others.iter().map(|&other| member(owner, b"g", other, true)).collect()).await;
    world.done(member(owner, b"gg", others[0], true)).await;
    let gone = world.done(remove_record(Space::Group, owner, b"g")).await;
    assert_eq!((gone.reply, gone.changes.len()), (Reply::Gone { changed: true }, CHUNK_MAX + 1));
    world.refused(put_record(Space::Group, owner, b"g", b"again"), Code::RequestInProgress).await;
    world.refused(member(owner, b"g", others[0], true), Code::GroupNotFound).await;
    let rest = world.done(remove_record(Space::Group, owner, b"g")).await;
    assert_eq!((rest.reply, rest.changes.len()), (Reply::Gone { changed: true }, 10));
    assert!(!world.done(remove_record(Space::Group, owner, b"g")).await.reply.changed());
    world.done(put_record(Space::Group, owner, b"g", b"again")).await;
    assert_eq!(world.store.count_records(Space::GroupMember, owner).await.expect("records are counted"), 1);
}

pub(super) async fn records_survive_reopening(world: World) {
    let [owner, other] = world.users().await;
    world.done(follow(owner, other)).await;
    world.done(put_record(Space::Group, owner, b"g", b"friends")).await;
    world.done(member(owner, b"g", other, true)).await;
    let puts = (0..200u8).map(|number| put_record(Space::Notification, owner, &[number], &[number; 900]));
    world.all_done(puts.collect()).await;
    world.done(remove_record(Space::Notification, owner, &[7])).await;
    world.done(unfollow(owner, other)).await;
    let mut seen = Vec::new();
    let mut world = world;
    for round in 0..3u8 {
        let mut drawn = String::new();
        for space in Space::ALL {
            let list = pages::read_records(&*world.store, space, owner, 30).await.expect("a list");
            drawn += &format!("{list:?}");
        }
        drawn += &format!("{:?}", pages::read_history(&*world.store, owner, 30).await);
        seen.push(drawn);
        world = world.reopened().await;
        // Elsewhere in the list, and back again: folding into old blocks leaves the rest as it was.
        world.done(put_record(Space::Notification, owner, &[round, 1], b"new")).await;
        world.done(remove_record(Space::Notification, owner, &[round, 1])).await;
    }
    assert!(seen.iter().all(|drawn| *drawn == seen[0]), "{seen:#?}");
}

/// A retry gets the first one's record, and eight concurrent ones never exceed the cap.
pub(super) async fn added_under_an_id_of_their_own(world: World) {
    let owner = world.user().await;
    let add = |cap| Operation::AddRecord { space: Space::Group, owner, value: Box::from(*b"g"), cap };
    let key = own_request();
    let first = world.done(keyed(add(Some(5)), key)).await;
    assert_eq!(first.reply, Reply::Record { version: first.version, created: true, changed: true, owner: Some(owner) });
    let again = world.done(keyed(add(Some(5)), key)).await;
    assert!(again.replayed && again.reply == first.reply, "{again:?}");
    let made = world
        .race(8, |_, store| {
            let write = add(Some(5)).into();
            async move { store.commit(write).await.map(|outcome| outcome.version).ok() }
        })
        .await;
    let mut versions: Vec<Version> = made.into_iter().flatten().chain([first.version]).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(versions.len(), 5);
    world.refused(add(Some(5)), Code::GroupLimit).await;
    let listed = pages::read_records(&*world.store, Space::Group, owner, 2).await.expect("a list");
    let ids: Vec<_> = listed.iter().filter_map(|record| record.id.version()).collect();
    assert_eq!(ids, versions, "newest first");
    let elsewhere = Operation::AddRecord { space: Space::GroupMember, owner, value: Box::default(), cap: None };
    world.refused(elsewhere, Code::InvalidRequest).await;
    let nobodys =
        Operation::AddRecord { space: Space::Seen, owner: world.stranger(), value: Box::default(), cap: None };
    world.refused(nobodys, Code::ActorNotFound).await;
}

pub(super) async fn many_at_once_are_those_of_each(world: World) {
    let owners = world.many_users(6).await;
    let puts = owners.iter().enumerate().flat_map(|(index, &owner)| {
        (0..index as u8 * 2)
            .map(move |number| put_record(Space::Notification, owner, &[number], &[index as u8, number]))
    });
    world.all_done(puts.collect()).await;
    world.done(put_record(Space::Seen, owners[5], &[0], b"elsewhere")).await;
    // Out of order, one of them twice, and one without a user.
    let asked = [owners[5], world.stranger(), owners[0], owners[3], owners[5], owners[1]];
    let ids: Vec<_> = asked.iter().flat_map(|&owner| [0, 4, 99].map(|number| (owner, id(&[number])))).collect();
    let many = world.store.get_records(Space::Notification, &ids).await.expect("records can be read");
    assert_eq!(many.len(), ids.len());
    for ((owner, id), found) in ids.iter().zip(&many) {
        let single = world.store.get_record(Space::Notification, *owner, id).await.expect("records can be read");
        assert_eq!(*found, single, "{id:?} of {owner}");
    }
    assert_eq!(many.iter().flatten().count(), 2 + 2 + 2 + 1);
    for (after, limit) in [(None, 0), (None, 1), (None, 3), (None, 100), (Some(&[2][..]), 2), (Some(&[2, 0]), 100)] {
        let lists = world.store.scan_each(Space::Notification, &asked, after, limit).await.expect("lists can be read");
        assert_eq!(lists.len(), asked.len());
        for (&owner, list) in asked.iter().zip(&lists) {
            let single = world.store.scan_records(Space::Notification, owner, after, limit).await.expect("a list");
            assert_eq!(*list, single, "of {owner} after {after:?} at {limit}");
        }
    }
    assert!(world.store.get_records(Space::Seen, &[]).await.expect("records can be read").is_empty());
    assert!(world.store.scan_each(Space::Seen, &[], None, 5).await.expect("lists can be read").is_empty());
}
