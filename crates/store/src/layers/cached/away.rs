//! While the store is away: what memory knew last, with its age.

use std::time::Duration;

use entourage_model::Kind;

use super::{Shared, answer, measures::Measures};
use crate::{Answer, Named};

impl Shared {
    /// Nothing is asked of the store, and nothing is filled.
    pub(super) fn peek_away(
        &self,
        kind: Kind,
        pairs: &[(Named<'_>, Named<'_>)],
        answers: &mut [Answer],
    ) -> Option<Duration> {
        let now = self.gate.now();
        if !self.inner.is_away() {
            return None;
        }
        let age = self.gate.age_while_away(now)?;
        // A number is its own key; a hash could be that of another id.
        let has_id = |user: &Named<'_>| user.key.0 >= 0 || self.rows.ids.has(user.key, user.id);
        for (slot, (follower, target)) in answers.iter_mut().zip(pairs) {
            *slot = match answer(self.rows.look_between_users(kind, follower.key, target.key, now)) {
                Answer::Yes if !(has_id(follower) && has_id(target)) => Answer::Unknown,
                known => known,
            };
        }
        let known = answers.iter().filter(|answer| **answer != Answer::Unknown).count();
        Measures::add(&self.measures.stale, known as u64);
        Some(age)
    }
}
