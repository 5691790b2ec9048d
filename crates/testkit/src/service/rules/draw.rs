//! Draws requests: a few people who meet often, mostly for themselves, sometimes for others, sometimes a service.

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::{
    question::{Id, PEOPLE, Read, Write},
    reference::Reference,
};

const CREATED_FIRST: usize = 7;

pub struct Draw(StdRng);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    fn someone(&mut self) -> Id {
        PEOPLE.choose(&mut self.0).copied().unwrap_or_default()
    }

    pub fn write(&mut self, step: usize, reference: &Reference) -> (Option<Id>, Write) {
        if step < CREATED_FIRST {
            return (None, Write::Put { user: PEOPLE[step], private: step == 3, hide_lists: step == 5 });
        }
        let write = self.any_write(reference);
        let owner = match write {
            Write::Put { user, .. }
            | Write::Block { user, .. }
            | Write::Unblock { user, .. }
            | Write::Mute { user, .. }
            | Write::Unmute { user, .. }
            | Write::Erase { user }
            | Write::Dismiss { user, .. }
            | Write::AcceptAll { user } => Some(user),
            Write::CreateGroup { owner, .. }
            | Write::RenameGroup { owner, .. }
            | Write::DeleteGroup { owner, .. }
            | Write::Member { owner, .. } => Some(owner),
            Write::Follow { follower, .. } | Write::Unfollow { follower, .. } => Some(follower),
            Write::Accept { target, .. } | Write::Reject { target, .. } | Write::RemoveFollower { target, .. } => {
                Some(target)
            }
            Write::Work | Write::Wait { .. } => return (None, write),
            Write::Batch(_) | Write::Suspend { .. } => None,
        };
        let actor = match self.0.random_range(0..20) {
            0 => Some(self.someone()),
            1..8 => None,
            _ => owner,
        };
        (actor, write)
    }

    fn any_write(&mut self, reference: &Reference) -> Write {
        let (a, b) = (self.someone(), self.someone());
        match self.0.random_range(0..150) {
            145.. => Write::Dismiss { user: a, target: b },
            100.. => self.beyond(a, b, reference),
            0..40 => self.follow(a, b),
            40..48 => Write::Unfollow { follower: a, target: b },
            48..58 => {
                // Mostly a request that was made.
                let made = reference.requests();
                let (follower, target) = made.choose(&mut self.0).copied().unwrap_or((a, b));
                match self.0.random_range(0..4) {
                    0 => Write::Reject { target, follower },
                    _ => Write::Accept { target, follower },
                }
            }
            58..60 => Write::Accept { target: a, follower: b },
            60..64 => Write::RemoveFollower { target: a, follower: b },
            64..69 => Write::Block { user: a, target: b },
            69..77 => Write::Unblock { user: a, target: b },
            77..80 => {
                let minutes = self.0.random_ratio(1, 2).then(|| self.0.random_range(1..30));
                Write::Mute { user: a, target: b, minutes }
            }
            80..83 => Write::Unmute { user: a, target: b },
            83..90 => {
                let count = self.0.random_range(0..6);
                let operations = (0..count).map(|_| {
                    let (a, b) = (self.someone(), self.someone());
                    if self.0.random_ratio(1, 4) {
                        return Write::Unfollow { follower: a, target: b };
                    }
                    self.follow(a, b)
                });
                Write::Batch(operations.collect())
            }
            _ => {
                let user = PEOPLE[self.0.random_range(0..PEOPLE.len() - 1)];
                Write::Put { user, private: self.0.random_ratio(1, 3), hide_lists: self.0.random_ratio(1, 5) }
            }
        }
    }

    /// What is beside the edges.
    fn beyond(&mut self, a: Id, b: Id, reference: &Reference) -> Write {
        let nth = self.0.random_range(0..3);
        match self.0.random_range(0..45) {
            0..10 => Write::Work,
            10..13 => Write::Wait { minutes: self.0.random_range(1..20) },
            13..15 => Write::Erase { user: a },
            15..20 => Write::AcceptAll { user: a },
            20..24 => Write::Suspend { user: a, suspended: self.0.random_ratio(1, 3) },
            24..30 => Write::CreateGroup { owner: a, name: b },
            30..32 => Write::RenameGroup { owner: a, nth, name: b },
            32..33 => Write::DeleteGroup { owner: a, nth },
            _ => {
                // Mostly a possible member.
                let possible = reference.possible_members();
                let pair = possible.choose(&mut self.0).copied().filter(|_| !self.0.random_ratio(1, 4));
                let (owner, member) = pair.unwrap_or((a, b));
                let nth = if pair.is_some() { 0 } else { nth };
                Write::Member { owner, nth, member, present: !self.0.random_ratio(1, 6) }
            }
        }
    }

    fn follow(&mut self, follower: Id, target: Id) -> Write {
        let quiet = self.0.random_ratio(1, 5);
        Write::Follow { follower, target, quiet: (!self.0.random_ratio(1, 4)).then_some(quiet) }
    }

    /// What is read after a step: a few things by anybody, and now and then everything by one viewer.
    pub fn reads(&mut self, step: usize) -> Vec<(Option<Id>, Read, usize)> {
        if step % 20 == 19 {
            let viewer = self.viewer();
            return everything().into_iter().map(|read| (viewer, read, self.0.random_range(1..5))).collect();
        }
        let all = everything();
        let pick = |draw: &mut Self| {
            let read = all.choose(&mut draw.0).cloned().unwrap_or(Read::Leaderboard);
            (draw.viewer(), read, draw.0.random_range(1..5))
        };
        (0..12).map(|_| pick(self)).collect()
    }

    fn viewer(&mut self) -> Option<Id> {
        if self.0.random_ratio(1, 6) { None } else { Some(self.someone()) }
    }
}

fn everything() -> Vec<Read> {
    let mut all = vec![Read::Leaderboard];
    for a in PEOPLE {
        all.extend([Read::Followers(a), Read::Following(a), Read::Requests(a), Read::Blocks(a), Read::Mutes(a)]);
        all.extend([Read::Mutuals(a), Read::NotFollowingBack(a), Read::FollowersYouKnow(a), Read::Guarantees(a)]);
        all.extend([Read::Relationships(a, PEOPLE.to_vec()), Read::History(a), Read::Groups(a)]);
        all.extend([Read::Members(a, 0), Read::Members(a, 1)]);
        // As often as what is asked of pairs.
        all.extend(vec![Read::Suggestions(a); PEOPLE.len()]);
        for b in PEOPLE {
            all.extend([Read::CommonFollowing(a, b), Read::CommonFollowers(a, b), Read::Distance(a, b)]);
            all.extend([Read::IsFollowing(a, b), Read::Edge(a, b)]);
        }
    }
    all
}
