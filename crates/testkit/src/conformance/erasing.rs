//! The erasure of a user: gone at once, edges in chunks, and nothing left for the next owner of the id.

use entourage_model::{
    Cause, Code, EventBody, Key, List, Operation, Overwrite, Plane, RecordId, Reply, Side, Space, UserPatch,
};

use super::{operations::*, pages, world::World};
use entourage_store::StoreExt as _;

/// A user with an edge of every kind and direction to and from others, with records and history.
async fn well_connected(world: &World) -> (Key, Operation, Vec<Key>) {
    let (key, id) = world.own_id();
    let patch = UserPatch { name: Some(Some("a name".into())), ..UserPatch::default() };
    let put = Operation::PutUser { key, id, patch, overwrite: Overwrite::Replace };
    world.done(put.clone()).await;
    let mut others = world.many_users(4).await;
    others.push(world.private_user().await);
    let [a, b, c, d, private] = *others else { unreachable!("five others") };
    for operation in [
        follow(key, a),
        follow_quietly(key, b),
        follow(a, key),
        follow(key, private),
        mute(key, c),
        mute(a, key),
        block(d, key),
        follow(key, c),
        unfollow(key, c),
        put_record(Space::Group, key, b"g", b"friends"),
        member(key, b"g", a, true),
        put_record(Space::Seen, key, b"s", b"seen"),
    ] {
        world.done(operation).await;
    }
    (key, put, others)
}

async fn edges_of(world: &World, key: Key) -> usize {
    let mut count = 0;
    for plane in Plane::ALL {
        for side in Side::BOTH {
            count += world.paged(List::new(key, plane, side), 3).await.len();
        }
    }
    count
}

pub(super) async fn a_user_is_gone_at_once_and_edges_in_chunks(world: World) {
    let (_, mark) = world.user_at_mark().await;
    let (key, put, others) = well_connected(&world).await;
    let everyone: Vec<Key> = others.iter().copied().chain([key]).collect();
    assert_eq!(world.done(erase(world.stranger())).await.reply, Reply::Gone { changed: false });
    assert_eq!(world.done(erase(key)).await.reply, Reply::Gone { changed: true });
    assert_eq!(world.done(erase(key)).await.reply, Reply::Gone { changed: false });
    assert_eq!(world.store.get_users(&[key]).await.expect("users can be read"), [None]);
    assert_eq!(world.store.get_counts(key).await.expect("counts can be read"), None);
    for space in Space::ALL {
        assert_eq!(pages::read_records(&*world.store, space, key, 5).await, Ok(Vec::new()));
    }
    assert_eq!(pages::read_history(&*world.store, key, 5).await, Ok(Vec::new()));
    world.refused(follow(key, others[0]), Code::ActorNotFound).await;
    world.refused(follow(others[0], key), Code::UserNotFound).await;
    world.refused(put.clone(), Code::RequestInProgress).await;
    assert!(world.follows(others[0], key).await, "edges stay for the moment");
    assert_eq!(edges_of(&world, key).await, 7);
    let mut left = 7;
    for (limit, removed) in [(3, 3), (0, 0), (2, 2), (10, 2), (10, 0)] {
        left -= removed as usize;
        let reply = world.done(erase_edges(key, limit)).await.reply;
        assert_eq!(reply, Reply::EdgesErased { removed, left: left > 0 }, "at {limit}");
        assert_eq!(edges_of(&world, key).await, left);
        world.assert_sound().await;
    }
    for &other in &others {
        assert_eq!(edges_of(&world, other).await, 0);
    }
    let events = world.events(mark, &everyone).await;
    assert_eq!(events.iter().filter(|event| event.name() == "user.erased").count(), 1);
    let by_erasing =
        |event: &&entourage_model::Event| matches!(event.body, EventBody::Edge { cause: Cause::Erase, .. });
    assert_eq!(events.iter().filter(by_erasing).count(), 7);
    // The history of the others' follows is theirs.
    let past = pages::read_history(&*world.store, others[0], 5).await.expect("a history");
    assert_eq!((past.len(), past[0].target, past[0].cause), (1, key, Cause::Erase));
    assert_eq!(pages::read_history(&*world.store, key, 5).await, Ok(Vec::new()));
}

pub(super) async fn whoever_comes_next_is_a_new_person(world: World) {
    let (key, put, others) = well_connected(&world).await;
    let before = world.store.get_users(&[key]).await.expect("users can be read").pop().flatten().expect("a user");
    let friend = others[0];
    world.done(follow(friend, key)).await;
    world.done(put_record(Space::Group, friend, b"g", b"friends")).await;
    world.done(member(friend, b"g", key, true)).await;
    world.done(erase(key)).await;
    while !matches!(world.done(erase_edges(key, 3)).await.reply, Reply::EdgesErased { left: false, .. }) {}
    let made = world.done(put).await;
    assert_eq!(made.reply, Reply::User { created: true, changed: true });
    let after = world.store.get_users(&[key]).await.expect("users can be read").pop().flatten().expect("a user");
    assert!(after.created > before.version, "{after:?} after {before:?}");
    assert_eq!(world.counts(key).await, Default::default());
    assert_eq!(edges_of(&world, key).await, 0);
    for space in Space::ALL {
        assert_eq!(pages::read_records(&*world.store, space, key, 5).await, Ok(Vec::new()));
    }
    assert_eq!(pages::read_history(&*world.store, key, 5).await, Ok(Vec::new()));
    // Another user's group holds the id of the predecessor, and says which of the two it means.
    let kept = pages::read_records(&*world.store, Space::GroupMember, friend, 5).await.expect("members");
    assert!(entourage_model::is_member(&kept[0].value, &before) && !entourage_model::is_member(&kept[0].value, &after));
    world.refused(member(friend, b"g", key, true), Code::InvalidRequest).await;
    // A job that repeats its last step finds nothing to do.
    world.done(follow(friend, key)).await;
    world.done(follow(key, friend)).await;
    let late = world.done(erase_edges(key, 100)).await;
    assert_eq!(late.reply, Reply::EdgesErased { removed: 0, left: false });
    assert!(world.follows(friend, key).await);
    assert_eq!(world.totals(key).await, (1, 1));
    assert!(world.done(member(friend, b"g", key, true)).await.reply.changed());
    let swept = world.store.sweep_all().await.expect("users can be swept");
    assert_eq!(swept.iter().filter(|user| user.key == key).count(), 1);
}

pub(super) async fn erasing_survives_reopening(world: World) {
    let (key, put, others) = well_connected(&world).await;
    let (gone, gone_put, _) = well_connected(&world).await;
    world.done(erase(key)).await;
    world.done(erase_edges(key, 3)).await;
    world.done(erase(gone)).await;
    world.done(erase_edges(gone, 100)).await;
    world.done(gone_put).await;
    world.done(follow(others[0], gone)).await;
    let mut world = world;
    for _ in 0..2 {
        world = world.reopened().await;
        assert_eq!(world.store.get_users(&[key]).await.expect("users can be read"), [None]);
        assert_eq!(edges_of(&world, key).await, 4);
        world.refused(put.clone(), Code::RequestInProgress).await;
        assert_eq!(world.totals(gone).await, (1, 0));
        assert_eq!(pages::read_records(&*world.store, Space::Group, gone, 5).await, Ok(Vec::new()));
    }
    world.done(erase_edges(key, 100)).await;
    world.done(put).await;
    let world = world.reopened().await;
    assert_eq!(edges_of(&world, key).await, 0);
    assert_eq!(world.counts(key).await, Default::default());
    world.done(follow(key, others[1])).await;
    world.assert_sound().await;
}

pub(super) async fn erasing_against_follows_leaves_no_edge_behind(world: World) {
    let target = world.user().await;
    let others = world.many_users(12).await;
    world
        .race(12, |index, store| {
            let other = others[index];
            async move {
                if index == 5 {
                    store.commit(erase(target).into()).await.expect("the user is erased");
                }
                for _ in 0..10 {
                    // Refused once the target is gone.
                    let _late = store.commit(follow(other, target).into()).await;
                    let _late = store.commit(unfollow(other, target).into()).await;
                    let _late = store.commit(follow(other, target).into()).await;
                }
            }
        })
        .await;
    let counted = world.paged(List::followers(target), 5).await.len() as u32;
    let reply = world.done(erase_edges(target, 1_000)).await.reply;
    assert_eq!(reply, Reply::EdgesErased { removed: counted, left: false });
    for &other in &others {
        world.refused(follow(other, target), Code::UserNotFound).await;
        assert_eq!(world.totals(other).await, (0, 0));
    }
}

/// A late repetition does not touch the new owner of the id.
pub(super) async fn only_the_person_who_is_meant_is_erased(world: World) {
    let (key, id) = world.own_id();
    let (patch, overwrite) = (UserPatch::default(), Overwrite::Replace);
    let put = Operation::PutUser { key, id, patch, overwrite };
    let first = world.done(put.clone()).await.version;
    let meant = |created| Operation::Erase { key, created: Some(created) };
    assert_eq!(world.done(meant(first)).await.reply, Reply::Gone { changed: true });
    let second = world.done(put).await.version;
    assert_eq!(world.done(meant(first)).await.reply, Reply::Gone { changed: false });
    assert!(world.store.get_users(&[key]).await.expect("users can be read")[0].is_some());
    assert_eq!(world.done(meant(second)).await.reply, Reply::Gone { changed: true });
}

/// Events that name a user by key outlive the user: the id of a named one is kept beside them, and removed on request,
/// but not before everything else of that user is gone.
pub(super) async fn the_erased_are_named_until_their_id_is_let_go_of(world: World) {
    for _ in 0..2 {
        let (_, mark) = world.user_at_mark().await;
        let (key, id) = world.own_id();
        let (patch, overwrite) = (UserPatch::default(), Overwrite::Replace);
        let put = Operation::PutUser { key, id: id.clone(), patch, overwrite };
        world.done(put.clone()).await;
        let others = world.many_users(3).await;
        for &other in &others {
            world.done(follow(other, key)).await;
        }
        world.done(post(key, b"a post")).await;
        let about = RecordId::of_key(key);
        let known =
            async || world.store.get_record(Space::Erased, world.server(key), &about).await.expect("it can be read");
        let let_go = || remove_record(Space::Erased, world.server(key), about.as_bytes());
        world.refused(put_record(Space::Erased, world.server(key), about.as_bytes(), b"x"), Code::InvalidRequest).await;
        assert_eq!(known().await, None);
        world.done(erase(key)).await;
        let events = world.events(mark, &[key]).await;
        let erased = events.iter().find(|event| event.name() == "user.erased").expect("an event");
        assert!(matches!(&erased.body, EventBody::User { erased: Some(told), .. } if *told == id), "{erased:?}");
        let is_named = id.as_number().is_none();
        let first = known().await;
        assert_eq!(first.as_ref().map(|record| &*record.value), is_named.then_some(id.as_str().as_bytes()));
        while let Reply::EdgesErased { left: true, .. } = world.done(erase_edges(key, 2)).await.reply {
            assert_eq!(known().await, first);
            world.refused(let_go(), Code::RequestInProgress).await;
        }
        let last = known().await;
        assert_eq!(last.as_ref().map(|record| &record.value), first.as_ref().map(|record| &record.value));
        let version = |record: &Option<entourage_model::Record>| record.as_ref().map(|record| record.version);
        assert!(
            !is_named || version(&last) > version(&first),
            "kept for as long as the last event: {first:?} {last:?}"
        );
        assert_eq!(world.done(let_go()).await.reply, Reply::Gone { changed: is_named });
        assert_eq!(known().await, None);
        // A recreated user has an id, and is erased like anybody else.
        world.done(put).await;
        world.done(follow(key, others[0])).await;
        assert_eq!(world.done(let_go()).await.reply, Reply::Gone { changed: false });
        world.done(erase(key)).await;
        assert_eq!(known().await.is_some(), is_named);
    }
}
