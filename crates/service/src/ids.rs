//! From ids to keys and back. A key that belongs to another id makes the asked id unknown.

use entourage_model::{Code, Error, Key, Operation, Overwrite, Result, User, UserId, UserPatch};
use hashbrown::HashMap;

use crate::{Actor, CHECKS_MAX, Call, Context};

impl Context {
    /// The key of each id, `None` where that key is another id's. A number is its own key and cannot collide.
    pub(crate) async fn own_keys(&self, ids: &[&UserId]) -> Result<Vec<Option<Key>>> {
        let keys: Vec<Key> = ids.iter().map(|id| self.keys.key(id)).collect();
        let hashed: Vec<Key> = keys.iter().copied().filter(|key| *key < Key(0)).collect();
        let stored = self.users_by_key(&hashed).await?;
        let is_other = |key: Key, id: &UserId| stored.get(&key).is_some_and(|user| user.id != *id);
        Ok(keys.into_iter().zip(ids).map(|(key, id)| (!is_other(key, id)).then_some(key)).collect())
    }

    pub(crate) async fn users_by_key(&self, keys: &[Key]) -> Result<HashMap<Key, User>> {
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let users = self.store.get_users(keys).await?;
        Ok(users.into_iter().flatten().map(|user| (user.key, user)).collect())
    }

    /// The key of each id, `None` where there is no such user.
    pub(crate) async fn present_keys(&self, ids: &[UserId]) -> Result<Vec<Option<Key>>> {
        if ids.len() > CHECKS_MAX {
            return Err(Error::invalid("too many ids in one request").at("/ids", format!("at most {CHECKS_MAX}")));
        }
        let keys: Vec<Key> = ids.iter().map(|id| self.keys.key(id)).collect();
        let users = self.users_by_key(&keys).await?;
        let is_there = |key: &Key, id: &UserId| users.get(key).is_some_and(|user| user.id == *id);
        Ok(keys.into_iter().zip(ids).map(|(key, id)| is_there(&key, id).then_some(key)).collect())
    }

    /// The user with this very id.
    pub(crate) async fn find_user(&self, id: &UserId) -> Result<Option<User>> {
        let user = self.store.get_users(&[self.keys.key(id)]).await?.into_iter().flatten().next();
        Ok(user.filter(|user| user.id == *id))
    }

    pub(crate) async fn stored_user(&self, id: &UserId) -> Result<User> {
        self.find_user(id).await?.ok_or_else(user_not_found)
    }

    /// Both keys of a write by `actor` on `target`, with the users made first where ids exist on first use.
    pub(crate) async fn write_keys(&self, actor: &UserId, target: &UserId, creates_target: bool) -> Result<(Key, Key)> {
        let [actor_key, target_key] = self.own_keys(&[actor, target]).await?[..] else {
            return Err(Error::internal("two ids have two keys"));
        };
        let actor_key = actor_key.ok_or_else(actor_not_found)?;
        let target_key = target_key.ok_or_else(user_not_found)?;
        if self.rules.auto_create && actor_key != target_key {
            self.create_missing(actor_key, actor).await?;
            if creates_target {
                self.create_missing(target_key, target).await?;
            }
        }
        Ok((actor_key, target_key))
    }

    pub(crate) async fn create_missing(&self, key: Key, id: &UserId) -> Result<()> {
        if self.users_by_key(&[key]).await?.contains_key(&key) {
            return Ok(());
        }
        let (patch, overwrite) = (UserPatch::default(), Overwrite::Keep);
        self.writer.write(&Call::default(), Operation::PutUser { key, id: id.clone(), patch, overwrite }).await?;
        Ok(())
    }

    /// The key of a user whose own things are written.
    pub(crate) async fn owner_key(&self, owner: &UserId) -> Result<Key> {
        let key = self.own_keys(&[owner]).await?.into_iter().flatten().next().ok_or_else(actor_not_found)?;
        if self.rules.auto_create {
            self.create_missing(key, owner).await?;
        }
        Ok(key)
    }

    /// Whose view a read has: `None` is the service's view.
    pub(crate) async fn viewer(&self, call: &Call) -> Result<Option<Key>> {
        match &call.actor {
            Actor::Service => Ok(None),
            Actor::User(id) => {
                let key = self.own_keys(&[id]).await?.into_iter().flatten().next();
                key.map(Some).ok_or_else(actor_not_found)
            }
        }
    }
}

/// The id to show for a key: the stored one, or the number that is its own key.
pub(crate) fn shown_id(key: Key, user: Option<&User>) -> Option<UserId> {
    user.map(|user| user.id.clone()).or_else(|| (key >= Key(0)).then(|| UserId::from(key.0)))
}

pub(crate) fn user_not_found() -> Error {
    Error::new(Code::UserNotFound, "no user with this id; create it with PUT /api/v1/users/{id}")
}

pub(crate) fn actor_not_found() -> Error {
    Error::new(Code::ActorNotFound, "the acting user was never created; create it with PUT /api/v1/users/{id}")
}
