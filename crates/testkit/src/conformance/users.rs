//! Putting, patching and reading users.

use entourage_model::{Code, Key, Kind, Millis, Operation, Overwrite, Reply, User, UserId, UserPatch};

use super::{
    operations::{block, follow, suspend, unfollow},
    world::World,
};

fn put(key: Key, id: &UserId, patch: UserPatch, overwrite: Overwrite) -> Operation {
    Operation::PutUser { key, id: id.clone(), patch, overwrite }
}

fn named(name: &str) -> UserPatch {
    UserPatch { name: Some(Some(name.into())), ..UserPatch::default() }
}

fn full(name: &str) -> UserPatch {
    UserPatch {
        name: Some(Some(name.into())),
        avatar_url: Some(Some("https://example.org/a.png".into())),
        private: Some(true),
        hide_lists: Some(true),
        registered_at: Some(Millis::from_since_2000(77)),
    }
}

impl World {
    async fn read_user(&self, key: Key) -> User {
        let users = self.store.get_users(&[key]).await.expect("users can be read");
        users.into_iter().next().flatten().expect("the user exists")
    }
}

pub(super) async fn put_creates_and_replaces(world: World) {
    let (key, id) = world.own_id();
    let created = world.done(put(key, &id, full("Ada"), Overwrite::Replace)).await;
    assert_eq!(created.reply, Reply::User { created: true, changed: true });
    let expected = User {
        key,
        id: id.clone(),
        name: Some("Ada".into()),
        avatar_url: Some("https://example.org/a.png".into()),
        private: true,
        hide_lists: true,
        follow_suspended: false,
        registered_at: Millis::from_since_2000(77),
        created: created.version,
        version: created.version,
    };
    assert_eq!(world.read_user(key).await, expected);

    let replaced = world.done(put(key, &id, named("Grace"), Overwrite::Replace)).await;
    assert_eq!(replaced.reply, Reply::User { created: false, changed: true });
    let after = world.read_user(key).await;
    assert_eq!((after.name.as_deref(), after.avatar_url.as_deref()), (Some("Grace"), None));
    assert_eq!((after.created, after.version), (created.version, replaced.version));
}

pub(super) async fn omitted_fields_keep_their_value(world: World) {
    let (key, id) = world.own_id();
    world.done(put(key, &id, full("Ada"), Overwrite::Replace)).await;
    world.done(put(key, &id, named("Ada L."), Overwrite::Replace)).await;
    let user = world.read_user(key).await;
    assert!(user.private && user.hide_lists);
    assert_eq!(user.registered_at, Millis::from_since_2000(77));

    let (plain, plain_id) = world.own_id();
    let outcome = world.done(put(plain, &plain_id, UserPatch::default(), Overwrite::Replace)).await;
    let user = world.read_user(plain).await;
    assert!(!user.private && !user.hide_lists);
    assert_eq!(user.registered_at, outcome.version.millis(), "registration is creation unless said otherwise");
}

pub(super) async fn patch_merges_and_needs_a_user(world: World) {
    let (key, id) = world.own_id();
    world.refused(put(key, &id, named("Ada"), Overwrite::Merge), Code::UserNotFound).await;
    world.done(put(key, &id, full("Ada"), Overwrite::Replace)).await;
    let nameless = UserPatch { name: Some(None), private: Some(false), ..UserPatch::default() };
    world.done(put(key, &id, nameless, Overwrite::Merge)).await;
    let user = world.read_user(key).await;
    assert_eq!((user.name, user.avatar_url.as_deref()), (None, Some("https://example.org/a.png")));
    assert!(!user.private && user.hide_lists);
}

pub(super) async fn keep_creates_once(world: World) {
    let (key, id) = world.own_id();
    let first = world.done(put(key, &id, named("Ada"), Overwrite::Keep)).await;
    assert_eq!(first.reply, Reply::User { created: true, changed: true });
    let second = world.done(put(key, &id, named("Grace"), Overwrite::Keep)).await;
    assert_eq!(second.reply, Reply::User { created: false, changed: false });
    let user = world.read_user(key).await;
    assert_eq!((user.name.as_deref(), user.version), (Some("Ada"), first.version));
}

pub(super) async fn a_second_id_with_the_same_key_is_refused(world: World) {
    let (key, id) = world.own_id();
    let (_, other) = world.own_id();
    world.done(put(key, &id, named("Ada"), Overwrite::Replace)).await;
    for overwrite in [Overwrite::Replace, Overwrite::Merge, Overwrite::Keep] {
        world.refused(put(key, &other, named("Eve"), overwrite), Code::IdTaken).await;
    }
    let user = world.read_user(key).await;
    assert_eq!((user.id, user.name.as_deref()), (id, Some("Ada")));
}

pub(super) async fn the_same_user_again_changes_nothing(world: World) {
    let (key, id) = world.own_id();
    let first = world.done(put(key, &id, full("Ada"), Overwrite::Replace)).await;
    for overwrite in [Overwrite::Replace, Overwrite::Merge, Overwrite::Keep] {
        let again = world.done(put(key, &id, full("Ada"), overwrite)).await;
        assert_eq!(again.reply, Reply::User { created: false, changed: false });
    }
    assert_eq!(world.read_user(key).await.version, first.version);
    assert_eq!(world.event_names(world.end_of(&first).await, &[key]).await, Vec::<&str>::new());
}

pub(super) async fn unknown_users_are_none(world: World) {
    let user = world.user().await;
    let (early, late) = (world.stranger(), world.stranger());
    let users = world.store.get_users(&[early, user, late, user]).await.expect("users can be read");
    let keys: Vec<_> = users.iter().map(|user| user.as_ref().map(|user| user.key)).collect();
    assert_eq!(keys, [None, Some(user), None, Some(user)]);
    for kind in Kind::ALL {
        assert_eq!(world.edge(kind, early, user).await, None);
        assert_eq!(world.edge(kind, user, late).await, None);
        assert_eq!(world.edge(kind, early, late).await, None);
    }
}

pub(super) async fn the_suspended_may_not_follow(world: World) {
    let [a, b] = world.users().await;
    let (c, mark) = world.user_at_mark().await;
    world.done(follow(c, a)).await;
    assert_eq!(world.done(suspend(c, true)).await.reply, Reply::User { created: false, changed: true });
    assert_eq!(world.done(suspend(c, true)).await.reply, Reply::User { created: false, changed: false });
    world.refused(suspend(world.stranger(), true), Code::UserNotFound).await;
    world.refused(follow(c, b), Code::FollowSuspended).await;
    world.refused(follow(c, a), Code::FollowSuspended).await;
    world.done(follow(b, c)).await;
    world.done(unfollow(c, a)).await;
    world.done(block(c, a)).await;
    let stored = world.store.get_users(&[c]).await.expect("users can be read").pop().flatten().expect("a user");
    assert!(stored.follow_suspended);
    let patch = UserPatch { name: Some(Some("new".into())), ..UserPatch::default() };
    world.done(Operation::PutUser { key: c, id: stored.id, patch, overwrite: Overwrite::Replace }).await;
    world.refused(follow(c, b), Code::FollowSuspended).await;
    world.done(suspend(c, false)).await;
    world.done(follow(c, b)).await;
    assert_eq!(world.event_names(mark, &[c]).await, ["user.suspended", "user.updated", "user.restored"]);
}
