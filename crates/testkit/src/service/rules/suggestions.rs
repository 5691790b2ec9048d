//! Whom to follow, by brute force: everybody is looked at with every reason there is.

use super::{
    question::{Id, suggestion_words},
    reference::{Reference, Twist},
};

/// How many are named for a suggestion.
const NAMED: usize = 2;

/// A number is its own key; other keys are below all numbers, in an order of their own.
type KeyOrder = Option<i64>;

fn key_order(id: Id) -> KeyOrder {
    id.parse().ok()
}

impl Reference {
    /// For a user, as that user may know it.
    pub(super) fn suggestions(&self, user: Id) -> String {
        let mut rows = Vec::new();
        let mut known = Vec::new();
        for group in [self.friends_of_friends(user), self.not_followed_back(user), self.popular(user)].concat() {
            let fresh = group.into_iter().filter(|(id, _)| !known.contains(id) && self.may_suggest(user, id));
            let (ids, words): (Vec<Id>, Vec<String>) = fresh.unzip();
            known.extend(ids);
            if !words.is_empty() {
                rows.push(words.join("|"));
            }
        }
        format!("200 [{}]", rows.join(" "))
    }

    fn may_suggest(&self, user: Id, other: Id) -> bool {
        let blocks = |a: Id, b: Id| self.blocks.contains_key(&(a, b));
        let is_muted = self.standing_mute(user, other).is_some() && self.twist != Some(Twist::MutedAreSuggested);
        let is_dismissed = self.dismissed.contains(&(user, other)) && self.twist != Some(Twist::DismissedAreSuggested);
        user != other
            && self.people.get(other).is_some_and(|person| !person.suspended)
            && !self.follows.contains_key(&(user, other))
            && !blocks(user, other)
            && !blocks(other, user)
            && !is_muted
            && !is_dismissed
    }

    /// By how many of those whom the user follows follow them, then by the fewest followers: groups of equals.
    fn friends_of_friends(&self, user: Id) -> Vec<Vec<(Id, String)>> {
        let hops: Vec<Id> = self.targets(user).into_iter().filter(|hop| self.open(Some(user), hop)).collect();
        let shows = |hop: &&Id, other: Id| {
            self.active(hop, other).is_some_and(|follow| !self.quiet_to(Some(user), hop, follow))
        };
        let mut found = Vec::new();
        for &other in self.people.keys() {
            let by: Vec<Id> = hops.iter().filter(|hop| shows(hop, other)).copied().collect();
            if !by.is_empty() {
                let named = &by[..by.len().min(NAMED)];
                let words = suggestion_words(other, "followed_by", by.len() as u64, named);
                // Jaccard falls with the followers of somebody.
                found.push(((-(by.len() as i64), self.open_followers(other), key_order(other)), (other, words)));
            }
        }
        grouped(found)
    }

    /// Newest first.
    fn not_followed_back(&self, user: Id) -> Vec<Vec<(Id, String)>> {
        let is_open = |from: &Id| self.active(from, user).is_some_and(|follow| !follow.quiet);
        let sources = self.sources(user).into_iter().filter(is_open);
        sources.map(|from| vec![(from, suggestion_words(from, "follows_you", 0, &[]))]).collect()
    }

    /// Everybody of these runs follows few, and is a newcomer.
    fn popular(&self, _user: Id) -> Vec<Vec<(Id, String)>> {
        let followers = |other: Id| self.open_followers(other) as i64;
        let some = self.people.keys().filter(|other| followers(other) > 0);
        let rows = some.map(|other| {
            let words = suggestion_words(other, "popular", 0, &[]);
            ((-followers(other), 0, key_order(other)), (*other, words))
        });
        grouped(rows.collect())
    }
}

type Ranked = ((i64, usize, KeyOrder), (Id, String));

/// Those of one rank together.
fn grouped(mut rows: Vec<Ranked>) -> Vec<Vec<(Id, String)>> {
    rows.sort();
    let groups = rows.chunk_by(|(one, _), (other, _)| one == other);
    groups.map(|group| group.iter().map(|(_, row)| row.clone()).collect()).collect()
}
