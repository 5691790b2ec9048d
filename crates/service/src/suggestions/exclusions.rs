//! Who is never suggested: the viewer, whom they follow or asked to follow, whom a block keeps apart from them, whom they
//! mute or dismissed, who is suspended, who is not there. Asked of the store for every answer that is made.

use entourage_model::{Key, Kind, List, Plane, RecordId, Result, Side, Space, User, is_member};
use entourage_store::StoreExt as _;

use super::source::People;
use crate::Context;

impl Context {
    /// Which of these may be suggested to the viewer; those are put with the people of the answer.
    pub(super) async fn may_be_suggested(&self, viewer: Key, keys: &[Key], people: &mut People) -> Result<Vec<bool>> {
        let mut open: Vec<Key> = keys.iter().copied().filter(|key| *key != viewer).collect();
        let to = |keys: &[Key]| -> Vec<(Key, Key)> { keys.iter().map(|key| (viewer, *key)).collect() };
        let followed = self.are_active(Kind::Follow, &to(&open)).await?;
        retain(&mut open, &followed);
        let asked = [Plane::Request, Plane::Parked].map(|plane| List::new(viewer, plane, Side::Following));
        if self.all_on(&asked).await?.is_none_or(|asked| !asked.is_empty()) {
            let edges = self.store.get_edges(Kind::Follow, &to(&open)).await?;
            retain(&mut open, &edges.iter().map(Option::is_some).collect::<Vec<_>>());
        }
        let apart = self.are_apart(viewer, &open).await?;
        retain(&mut open, &apart);
        let muted = self.are_muted(viewer, &open).await?;
        retain(&mut open, &muted);
        let users: Vec<User> = self.store.get_users(&open).await?.into_iter().flatten().collect();
        let dismissed = self.are_dismissed(viewer, &users).await?;
        let is_shown = |(user, is_dismissed): &(User, bool)| !user.follow_suspended && !is_dismissed;
        let shown: Vec<User> = users.into_iter().zip(dismissed).filter(is_shown).map(|(user, _)| user).collect();
        let mut keys_shown: Vec<Key> = shown.iter().map(|user| user.key).collect();
        keys_shown.sort_unstable();
        people.learn(shown);
        Ok(keys.iter().map(|key| keys_shown.binary_search(key).is_ok()).collect())
    }

    /// Mutes that are over stay until they are removed.
    async fn are_muted(&self, viewer: Key, keys: &[Key]) -> Result<Vec<bool>> {
        let list = List::new(viewer, Plane::Mute, Side::Following);
        if self.all_on(&[list]).await?.is_some_and(|muted| muted.is_empty()) {
            return Ok(vec![false; keys.len()]);
        }
        let pairs: Vec<(Key, Key)> = keys.iter().map(|key| (viewer, *key)).collect();
        let mut muted = self.are_active(Kind::Mute, &pairs).await?;
        if muted.contains(&true) {
            let now = self.clock.now();
            let edges = self.store.get_edges(Kind::Mute, &pairs).await?;
            for (slot, edge) in muted.iter_mut().zip(edges) {
                *slot = edge.is_some_and(|edge| !edge.is_over(now));
            }
        }
        Ok(muted)
    }

    /// Whom the viewer does not want suggested. An id created again is somebody else.
    async fn are_dismissed(&self, viewer: Key, users: &[User]) -> Result<Vec<bool>> {
        if self.store.count_records(Space::Dismissed, viewer).await? == 0 {
            return Ok(vec![false; users.len()]);
        }
        let ids: Vec<(Key, RecordId)> = users.iter().map(|user| (viewer, RecordId::of_key(user.key))).collect();
        let records = self.store.get_records(Space::Dismissed, &ids).await?;
        let is_dismissed = |(record, user): (Option<entourage_model::Record>, &User)| {
            record.is_some_and(|record| is_member(&record.value, user))
        };
        Ok(records.into_iter().zip(users).map(is_dismissed).collect())
    }
}

/// Leaves those of whom it is not true.
fn retain(keys: &mut Vec<Key>, left_out: &[bool]) {
    let mut left_out = left_out.iter();
    keys.retain(|_| left_out.next() == Some(&false));
}
