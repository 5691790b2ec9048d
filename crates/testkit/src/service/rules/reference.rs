//! A second implementation of the rules, from their description alone: maps, loops, no cleverness, no code of the
//! product.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    beyond::{Ended, Group, Job, Mute},
    question::{Id, Read, Relation, Write, board_words, list_words},
};

/// A rule deliberately left out, to prove that a run would find it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Twist {
    QuietIsSeen,
    BlocksHideNothing,
    PrivateIsOpen,
    HiddenListsAreOpen,
    EvidenceIsWhatAnyListShows,
    RequestsCountAsFollows,
    MutesNeverEnd,
    ErasedAreListed,
    SuspendedMayFollow,
    HistoryForgetsBlocks,
    StrangersStayInGroups,
    DismissedAreSuggested,
    MutedAreSuggested,
}

#[derive(Clone, Copy, Default)]
pub struct Person {
    pub private: bool,
    pub hide_lists: bool,
    pub suspended: bool,
}

#[derive(Clone, Copy)]
pub struct Follow {
    pub active: bool,
    pub quiet: bool,
    /// When it became active; while it waits, when it was requested.
    pub at: u64,
}

pub struct Reference {
    pub people: BTreeMap<Id, Person>,
    pub follows: BTreeMap<(Id, Id), Follow>,
    pub blocks: BTreeMap<(Id, Id), u64>,
    pub mutes: BTreeMap<(Id, Id), Mute>,
    pub groups: BTreeMap<Id, Vec<Group>>,
    pub history: Vec<Ended>,
    /// Whom somebody does not want suggested.
    pub dismissed: BTreeSet<(Id, Id)>,
    pub jobs: Vec<Job>,
    pub now: u64,
    pub minutes: u64,
    following_max: u64,
    pub twist: Option<Twist>,
}

pub type Said = Result<String, &'static str>;

impl Reference {
    pub fn new(following_max: u64, twist: Option<Twist>) -> Self {
        Self {
            people: BTreeMap::new(),
            follows: BTreeMap::new(),
            blocks: BTreeMap::new(),
            mutes: BTreeMap::new(),
            groups: BTreeMap::new(),
            history: Vec::new(),
            dismissed: BTreeSet::new(),
            jobs: Vec::new(),
            now: 0,
            minutes: 0,
            following_max,
            twist,
        }
    }

    /// Who waits for whom.
    pub fn requests(&self) -> Vec<(Id, Id)> {
        self.follows.iter().filter(|(_, follow)| !follow.active).map(|(pair, _)| *pair).collect()
    }

    pub fn write(&mut self, actor: Option<Id>, write: &Write) -> String {
        self.now += 1;
        self.try_write(actor, write).unwrap_or_else(str::to_owned)
    }

    fn try_write(&mut self, actor: Option<Id>, write: &Write) -> Said {
        let own = |owner: Id| if actor.is_none_or(|actor| actor == owner) { Ok(()) } else { Err("403 forbidden") };
        match *write {
            Write::Put { user, private, hide_lists } => {
                own(user)?;
                let before = self.people.get(user).copied();
                if before.is_none() && self.has_edges(user) {
                    return Err("409 request_in_progress");
                }
                let suspended = before.is_some_and(|person| person.suspended);
                self.people.insert(user, Person { private, hide_lists, suspended });
                if before.is_some() && !private {
                    self.jobs.push(Job::Opened(user));
                }
                Ok(if before.is_none() { "201" } else { "200" }.to_owned())
            }
            Write::Follow { follower, target, quiet } => {
                own(follower)?;
                self.follow(follower, target, quiet)
            }
            Write::Unfollow { follower, target } => {
                own(follower)?;
                self.acts(follower)?;
                Ok(gone(self.end(follower, target, ["unfollowed", "cancelled"]).is_some()))
            }
            Write::Accept { target, follower } => {
                own(target)?;
                self.acts(target)?;
                let now = self.now;
                match self.follows.get_mut(&(follower, target)) {
                    Some(follow) if follow.active && !follow.quiet => Ok(stands("200", follow)),
                    Some(follow) if !follow.active => {
                        *follow = Follow { active: true, at: now, ..*follow };
                        Ok(stands("200", follow))
                    }
                    _ => Err("404 not_found"),
                }
            }
            Write::Reject { target, follower } => {
                own(target)?;
                self.acts(target)?;
                match self.follows.get(&(follower, target)) {
                    Some(follow) if !follow.active => {
                        self.end(follower, target, ["rejected"; 2]);
                        Ok(gone(true))
                    }
                    _ => Err("404 not_found"),
                }
            }
            Write::RemoveFollower { target, follower } => {
                own(target)?;
                self.acts(target)?;
                let removed = self.end(follower, target, ["removed", "rejected"]);
                Ok(gone(removed.is_some_and(|follow| !follow.quiet || actor.is_none())))
            }
            Write::Block { user, target } => {
                own(user)?;
                self.mark(user, target, "400 self_block")?;
                let now = self.now;
                let is_new = !self.blocks.contains_key(&(user, target));
                self.blocks.entry((user, target)).or_insert(now);
                if is_new {
                    self.end(user, target, ["blocked"; 2]);
                    self.end(target, user, ["blocked"; 2]);
                }
                Ok(if is_new { "201" } else { "200" }.to_owned())
            }
            Write::Mute { user, target, minutes } => {
                own(user)?;
                self.mark(user, target, "400 invalid_request")?;
                let is_new = self.standing_mute(user, target).is_none();
                let at = self.standing_mute(user, target).map_or(self.now, |mute| mute.at);
                let until = minutes.map(|minutes| self.minutes + minutes);
                self.mutes.insert((user, target), Mute { at, until });
                Ok(if is_new { "201" } else { "200" }.to_owned())
            }
            Write::Unblock { user, target } => {
                own(user)?;
                self.acts(user)?;
                Ok(gone(self.blocks.remove(&(user, target)).is_some()))
            }
            Write::Unmute { user, target } => {
                own(user)?;
                self.acts(user)?;
                let stands = self.standing_mute(user, target).is_some();
                self.mutes.remove(&(user, target));
                Ok(gone(stands))
            }
            Write::Batch(ref operations) => {
                if actor.is_some() {
                    return Err("403 forbidden");
                }
                let said: Vec<String> = operations.iter().map(|operation| self.write(None, operation)).collect();
                Ok(said.join("; "))
            }
            ref other => self.write_beyond(actor, other),
        }
    }

    pub fn acts(&self, user: Id) -> Result<(), &'static str> {
        if self.people.contains_key(user) { Ok(()) } else { Err("404 actor_not_found") }
    }

    /// What a block and a mute need.
    fn mark(&self, user: Id, target: Id, of_oneself: &'static str) -> Result<(), &'static str> {
        if user == target {
            return Err(of_oneself);
        }
        self.acts(user)?;
        self.person(target).map(|_| ())
    }

    fn follow(&mut self, follower: Id, target: Id, quiet: Option<bool>) -> Said {
        if follower == target {
            return Err("400 self_follow");
        }
        self.acts(follower)?;
        let private = self.person(target)?.private;
        if self.blocks.contains_key(&(follower, target)) || self.blocks.contains_key(&(target, follower)) {
            return Err("403 blocked");
        }
        if self.people[follower].suspended && self.twist != Some(Twist::SuspendedMayFollow) {
            return Err("403 follow_suspended");
        }
        let load = self.follows.keys().filter(|(from, _)| *from == follower).count() as u64;
        match self.follows.get_mut(&(follower, target)) {
            Some(follow) => {
                if quiet == Some(true) && (private || !follow.active) {
                    return Err("422 quiet_private");
                }
                if follow.quiet && quiet == Some(false) && private {
                    *follow = Follow { active: false, quiet: false, at: self.now };
                }
                follow.quiet = quiet.unwrap_or(follow.quiet);
                Ok(stands(if follow.active { "200" } else { "202" }, follow))
            }
            None if quiet == Some(true) && private => Err("422 quiet_private"),
            None if load >= self.following_max => Err("422 following_limit"),
            None => {
                let follow = Follow { active: !private, quiet: quiet == Some(true), at: self.now };
                self.follows.insert((follower, target), follow);
                Ok(stands(if private { "202" } else { "201" }, &follow))
            }
        }
    }

    pub fn person(&self, user: Id) -> Result<&Person, &'static str> {
        self.people.get(user).ok_or("404 user_not_found")
    }

    pub fn active(&self, from: Id, to: Id) -> Option<&Follow> {
        let both = self.people.contains_key(from) && self.people.contains_key(to);
        self.follows.get(&(from, to)).filter(|follow| both && self.counts(follow))
    }

    /// Edges of erased users count until they are gone.
    fn counts(&self, follow: &Follow) -> bool {
        follow.active || self.twist == Some(Twist::RequestsCountAsFollows)
    }

    /// Whether a user has a row in lists.
    pub fn is_listed(&self, user: Id) -> bool {
        self.people.contains_key(user) || self.twist == Some(Twist::ErasedAreListed)
    }

    fn apart(&self, viewer: Option<Id>, user: Id) -> bool {
        let blocks = |a, b| self.blocks.contains_key(&(a, b));
        self.twist != Some(Twist::BlocksHideNothing)
            && viewer.is_some_and(|viewer| blocks(viewer, user) || blocks(user, viewer))
    }

    /// Whether a viewer may see a user's lists.
    pub fn open(&self, viewer: Option<Id>, user: Id) -> bool {
        let Some(viewer) = viewer else { return true };
        let Some(person) = self.people.get(user) else { return false };
        if viewer == user {
            return true;
        }
        let private = person.private && self.twist != Some(Twist::PrivateIsOpen);
        let hidden = person.hide_lists && self.twist != Some(Twist::HiddenListsAreOpen);
        !self.apart(Some(viewer), user)
            && !hidden
            && (!private || self.active(viewer, user).is_some_and(|follow| !follow.quiet))
    }

    pub fn quiet_to(&self, viewer: Option<Id>, from: Id, follow: &Follow) -> bool {
        follow.quiet && viewer.is_some_and(|viewer| viewer != from) && self.twist != Some(Twist::QuietIsSeen)
    }

    /// Whether some list would show the edge.
    fn told(&self, viewer: Option<Id>, from: Id, to: Id) -> bool {
        self.seen(viewer, from, to, |open_from, open_to| open_from || open_to)
    }

    /// Whether the edge may be evidence in an answer about others.
    fn evidence(&self, viewer: Option<Id>, from: Id, to: Id) -> bool {
        let lenient = self.twist == Some(Twist::EvidenceIsWhatAnyListShows);
        self.seen(viewer, from, to, |open_from, open_to| (open_from && open_to) || (lenient && (open_from || open_to)))
    }

    fn seen(&self, viewer: Option<Id>, from: Id, to: Id, enough: impl Fn(bool, bool) -> bool) -> bool {
        let Some(follow) = self.active(from, to) else { return false };
        if self.quiet_to(viewer, from, follow) {
            return false;
        }
        let is_end = viewer.is_none_or(|viewer| viewer == from || viewer == to);
        let hidden = self.apart(viewer, from) || self.apart(viewer, to);
        is_end || (!hidden && enough(self.open(viewer, from), self.open(viewer, to)))
    }

    /// Whom somebody follows, newest first.
    pub fn targets(&self, user: Id) -> Vec<Id> {
        let edges = self.follows.iter().filter(|((from, to), _)| *from == user && self.active(from, to).is_some());
        newest(edges.map(|((_, to), follow)| (follow.at, *to)))
    }

    /// Who follows somebody, newest first.
    pub fn sources(&self, user: Id) -> Vec<Id> {
        let edges = self.follows.iter().filter(|((from, to), _)| *to == user && self.active(from, to).is_some());
        newest(edges.map(|((from, _), follow)| (follow.at, *from)))
    }

    /// The public number of followers. Edges of the erased count until they are gone.
    pub fn open_followers(&self, user: Id) -> usize {
        let is_open = |((_, to), follow): &(&(Id, Id), &Follow)| *to == user && self.counts(follow) && !follow.quiet;
        self.follows.iter().filter(is_open).count()
    }

    pub fn read(&self, viewer: Option<Id>, read: &Read) -> String {
        self.try_read(viewer, read).unwrap_or_else(str::to_owned)
    }

    fn try_read(&self, viewer: Option<Id>, read: &Read) -> Said {
        let own = |owner: Id| if viewer.is_none_or(|viewer| viewer == owner) { Ok(()) } else { Err("403 forbidden") };
        let lists_of = |user: Id| {
            self.person(user)?;
            if self.open(viewer, user) { Ok(()) } else { Err("403 lists_hidden") }
        };
        match *read {
            Read::Followers(user) => {
                lists_of(user)?;
                let all = self.follows.iter().filter(|((_, to), follow)| *to == user && self.counts(follow));
                Ok(self.rows(viewer, all.map(|((from, _), follow)| (*from, *from, follow))))
            }
            Read::Following(user) => {
                lists_of(user)?;
                let all = self.follows.iter().filter(|((from, _), follow)| *from == user && self.counts(follow));
                Ok(self.rows(viewer, all.map(|((from, to), follow)| (*from, *to, follow))))
            }
            Read::Requests(user) => {
                own(user)?;
                self.person(user)?;
                let all = self.follows.iter().filter(|((_, to), follow)| *to == user && !follow.active);
                Ok(self.whole(all.map(|((from, _), follow)| (follow.at, *from, true))))
            }
            Read::Blocks(user) => {
                own(user)?;
                self.person(user)?;
                let all = self.blocks.iter().filter(|((by, _), _)| *by == user);
                Ok(self.whole(all.map(|((_, target), at)| (*at, *target, true))))
            }
            Read::Mutes(user) => {
                own(user)?;
                self.person(user)?;
                let all = self.mutes.iter().filter(|((by, _), _)| *by == user);
                Ok(self.whole(all.map(|((_, target), mute)| (mute.at, *target, !self.is_over(mute)))))
            }
            Read::Mutuals(user) => {
                lists_of(user)?;
                Ok(self.chosen(viewer, user, |other| self.evidence(viewer, other, user)))
            }
            Read::NotFollowingBack(user) => {
                lists_of(user)?;
                Ok(self.chosen(viewer, user, |other| !self.evidence(viewer, other, user)))
            }
            Read::CommonFollowing(user, with) => {
                self.person(user)?;
                self.person(with)?;
                lists_of(user)?;
                lists_of(with)?;
                Ok(self.chosen(viewer, user, |other| self.evidence(viewer, with, other)))
            }
            Read::CommonFollowers(user, with) => {
                self.person(user)?;
                self.person(with)?;
                lists_of(user)?;
                lists_of(with)?;
                // The shorter list drives, by its public length.
                let (driver, other) =
                    if self.open_followers(with) < self.open_followers(user) { (with, user) } else { (user, with) };
                let of_both = |from: &&Id| self.evidence(viewer, from, driver) && self.evidence(viewer, from, other);
                let rows: Vec<String> =
                    self.sources(driver).iter().filter(of_both).map(|id| (*id).to_owned()).collect();
                Ok(list_words(&rows, None))
            }
            Read::FollowersYouKnow(user) => {
                let you = viewer.ok_or("400 invalid_request")?;
                lists_of(user)?;
                Ok(self.chosen(viewer, you, |other| self.evidence(viewer, other, user)))
            }
            Read::Distance(from, to) => {
                self.person(from)?;
                self.person(to)?;
                Ok(format!("200 {}", self.distance(viewer, from, to)))
            }
            Read::Relationships(of, ref others) => {
                self.person(of)?;
                let words: Vec<String> = others.iter().map(|other| self.relation(viewer, of, other).words()).collect();
                Ok(format!("200 {}", words.join(" ")))
            }
            Read::Guarantees(user) => {
                self.person(user)?;
                let relation = viewer.filter(|viewer| *viewer != user && self.people.contains_key(viewer));
                let words = relation.map(|viewer| self.relation(Some(viewer), viewer, user).words());
                let shown = |own: bool, quiet: bool| own || viewer.is_none() || !quiet;
                let own = viewer == Some(user);
                let counted = |pick: &dyn Fn(&(Id, Id), &Follow) -> bool| {
                    self.follows.iter().filter(|(pair, follow)| follow.active && pick(pair, follow)).count()
                };
                let followers = counted(&|(_, to), follow| *to == user && shown(false, follow.quiet));
                let following = counted(&|(from, _), follow| *from == user && shown(own, follow.quiet));
                Ok(format!("200 {followers} {following} {}", words.unwrap_or_default()))
            }
            Read::IsFollowing(from, to) => {
                let known = self.people.contains_key(from) && self.people.contains_key(to);
                Ok(format!("200 {}", known && self.told(viewer, from, to)))
            }
            Read::Edge(from, to) if !self.people.contains_key(from) || !self.people.contains_key(to) => {
                Err("404 not_found")
            }
            Read::Edge(from, to) => match self.follows.get(&(from, to)) {
                Some(follow) if follow.active && self.told(viewer, from, to) => Ok(stands("200", follow)),
                Some(follow) if !follow.active && viewer.is_none_or(|viewer| viewer == from || viewer == to) => {
                    Ok(stands("200", follow))
                }
                _ => Err("404 not_found"),
            },
            Read::Leaderboard => {
                let followers = |user: Id| {
                    let all = self.follows.iter().filter(|((_, to), follow)| *to == user && follow.active);
                    all.filter(|(_, follow)| !follow.quiet).count() as u64
                };
                let shown = self.people.keys().filter(|user| !self.apart(viewer, user));
                let rows = shown.map(|user| (followers(user), (*user).to_owned())).filter(|(count, _)| *count > 0);
                Ok(board_words(rows.collect()))
            }
            ref other => self.read_beyond(viewer, other),
        }
    }

    /// A list that only its owner sees as (time, row, whether it is shown).
    fn whole(&self, rows: impl Iterator<Item = (u64, Id, bool)>) -> String {
        let rows: Vec<_> = rows.collect();
        let shown = rows.iter().filter(|(_, row, shown)| *shown && self.is_listed(row));
        let ids: Vec<String> = newest(shown.map(|(at, row, _)| (*at, *row))).into_iter().map(str::to_owned).collect();
        list_words(&ids, Some(rows.len() as u64))
    }

    /// A list of edges as (follower, row, edge).
    fn rows<'a>(&self, viewer: Option<Id>, edges: impl Iterator<Item = (Id, Id, &'a Follow)>) -> String {
        let counted: Vec<_> = edges.filter(|(from, _, follow)| !self.quiet_to(viewer, from, follow)).collect();
        // A quiet follower sees their own row in another's list, yet the total there stays the public one.
        let own_list = counted.iter().all(|(from, row, _)| from != row);
        let public = |follow: &Follow| viewer.is_none() || own_list || !follow.quiet;
        let total = counted.iter().filter(|(_, _, follow)| public(follow)).count() as u64;
        let shown = counted.iter().filter(|(_, row, _)| self.is_listed(row) && !self.apart(viewer, row));
        let ids = newest(shown.map(|(_, row, follow)| (follow.at, *row)));
        list_words(&ids.into_iter().map(str::to_owned).collect::<Vec<_>>(), Some(total))
    }

    /// The rows of a following list that pass, by edges that may be evidence.
    fn chosen(&self, viewer: Option<Id>, driver: Id, passes: impl Fn(Id) -> bool) -> String {
        let targets = self.targets(driver);
        let rows = targets.into_iter().filter(|other| self.evidence(viewer, driver, other) && passes(other));
        list_words(&rows.map(str::to_owned).collect::<Vec<_>>(), None)
    }

    fn distance(&self, viewer: Option<Id>, from: Id, to: Id) -> String {
        let mut reached = BTreeSet::from([from]);
        for steps in 0..=3 {
            if reached.contains(to) {
                return steps.to_string();
            }
            let next = self.follows.keys().filter(|(a, b)| reached.contains(a) && self.evidence(viewer, a, b));
            let next: Vec<Id> = next.map(|(_, b)| *b).collect();
            reached.extend(next);
        }
        "none".to_owned()
    }

    fn relation(&self, viewer: Option<Id>, of: Id, other: Id) -> Relation {
        if !self.people.contains_key(other) {
            return Relation { unknown: true, ..Relation::default() };
        }
        let is_end = viewer.is_none_or(|viewer| viewer == of || viewer == other);
        let (following, followed_by) = (self.told(viewer, of, other), self.told(viewer, other, of));
        Relation {
            unknown: false,
            following,
            followed_by,
            mutual: following && followed_by,
            requested: is_end && self.follows.get(&(of, other)).is_some_and(|follow| !follow.active),
            blocking: is_end && self.blocks.contains_key(&(of, other)),
            blocked_by: is_end && self.blocks.contains_key(&(other, of)),
            muting: viewer.is_none_or(|viewer| viewer == of) && self.standing_mute(of, other).is_some(),
            quiet: following && self.active(of, other).is_some_and(|follow| follow.quiet),
            since: following,
        }
    }
}

pub fn gone(changed: bool) -> String {
    format!("200 changed {changed}")
}

fn stands(status: &str, follow: &Follow) -> String {
    let state = if follow.active { "active" } else { "pending" };
    format!("{status} {state}{}", if follow.quiet { " quiet" } else { "" })
}

fn newest(rows: impl Iterator<Item = (u64, Id)>) -> Vec<Id> {
    let mut rows: Vec<(u64, Id)> = rows.collect();
    rows.sort_unstable_by(|a, b| b.cmp(a));
    rows.into_iter().map(|(_, id)| id).collect()
}
