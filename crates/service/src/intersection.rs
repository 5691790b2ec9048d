//! Who is in two lists: all of them at once, where pages would be too slow.

use entourage_model::{Key, Kind, Result, UserId};
use entourage_store::{Answer, share};

use crate::{Actor, Call, Limit, Service, UserRow};

/// What comparing two lists costs of a task's share, besides what is found.
const COMMON_UNITS: usize = 16;

/// Two lists of which what is in both is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intersection {
    /// Whom both follow.
    Common(UserId, UserId),
    /// Whom this user follows and is followed by.
    Mutuals(UserId),
    /// Whom the acting user follows among this user's followers.
    Known(UserId),
}

impl Service {
    /// Who is in both, in any order; what is beyond `max` is left out.
    pub async fn intersection(&self, call: &Call, of: &Intersection, max: usize) -> Result<Vec<UserId>> {
        if let Some(keys) = self.common_keys(call, of, max).await? {
            return self.ids_of(keys).await;
        }
        let mut ids = Vec::new();
        self.each_page(call, of, max, |rows| ids.extend(rows.into_iter().map(|row| row.id))).await?;
        ids.truncate(max);
        Ok(ids)
    }

    /// How many are in both; no more than `max` are counted.
    pub async fn count_intersection(&self, call: &Call, of: &Intersection, max: usize) -> Result<usize> {
        match self.common_keys(call, of, max).await? {
            Some(keys) => Ok(keys.len()),
            None => Ok(self.each_page(call, of, max, drop).await?.min(max)),
        }
    }

    /// Reads pages until they have `max` rows; how many that were.
    async fn each_page(
        &self,
        call: &Call,
        of: &Intersection,
        max: usize,
        mut take: impl FnMut(Vec<UserRow>),
    ) -> Result<usize> {
        let mut cursor: Option<String> = None;
        let mut count = 0;
        loop {
            let (from, limit) = (cursor.as_deref(), Limit::LARGEST);
            let page = match of {
                Intersection::Common(id, other) => self.common_following(call, id, other, from, limit).await?,
                Intersection::Mutuals(id) => self.mutuals(call, id, from, limit).await?,
                Intersection::Known(id) => self.followers_you_know(call, id, from, limit).await?,
            };
            count += page.rows.len();
            take(page.rows);
            cursor = page.next_cursor;
            if cursor.is_none() || count >= max {
                return Ok(count);
            }
        }
    }

    /// What memory knows at once, for a service: it sees every edge. `None` where pages have to be read.
    async fn common_keys(&self, call: &Call, of: &Intersection, max: usize) -> Result<Option<Vec<Key>>> {
        let (Intersection::Common(one, other), Actor::Service) = (of, &call.actor) else { return Ok(None) };
        let (_, [one, other]) = self.parties(call, [one, other]).await?;
        let mut keys = Vec::new();
        let is_known = self.store.peek_common(one.key, other.key, max, &mut keys);
        // Whoever is in one list alone was looked at, too.
        share::spend(COMMON_UNITS).await;
        share::spend_rows(keys.len()).await;
        if !is_known {
            return Ok(None);
        }
        // An edge may be left of somebody who is not there any more; only pages tell those apart.
        let pairs: Vec<(Key, Key)> = keys.iter().map(|key| (one.key, *key)).collect();
        let mut answers = Vec::with_capacity(pairs.len());
        self.store.peek_all(Kind::Follow, &pairs, &mut answers);
        Ok(answers.iter().all(|answer| *answer == Answer::Yes).then_some(keys))
    }

    /// A number is its own id; the others are with their users.
    async fn ids_of(&self, keys: Vec<Key>) -> Result<Vec<UserId>> {
        let (named, numbers): (Vec<Key>, Vec<Key>) = keys.into_iter().partition(|key| *key < Key(0));
        let mut ids: Vec<UserId> = numbers.into_iter().map(|key| UserId::from(key.0)).collect();
        ids.extend(self.users_by_key(&named).await?.into_values().map(|user| user.id));
        Ok(ids)
    }
}
