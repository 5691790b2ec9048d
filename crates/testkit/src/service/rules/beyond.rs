//! The rules for what is beside the edges: erasing, jobs, suspension, groups, history, mutes that end.

use super::{
    question::{Id, Read, Write, members_words},
    reference::{Person, Reference, Said, Twist, gone},
};

#[derive(Clone, Copy)]
pub struct Mute {
    pub at: u64,
    /// In minutes of the run.
    pub until: Option<u64>,
}

pub struct Group {
    name: Id,
    members: Vec<Member>,
}

struct Member {
    id: Id,
    /// Another person has, or may have, the id by now.
    erased: bool,
}

pub struct Ended {
    follower: Id,
    target: Id,
    how: Id,
}

/// What waits until the jobs run.
pub enum Job {
    /// Requests from before this step.
    AcceptAll(Id, u64),
    Opened(Id),
    Erase(Id),
}

impl Reference {
    pub fn is_over(&self, mute: &Mute) -> bool {
        mute.until.is_some_and(|until| until <= self.minutes) && self.twist != Some(Twist::MutesNeverEnd)
    }

    pub fn standing_mute(&self, user: Id, target: Id) -> Option<Mute> {
        self.mutes.get(&(user, target)).copied().filter(|mute| !self.is_over(mute))
    }

    /// Whether edges of an erased user are still there.
    pub fn has_edges(&self, user: Id) -> bool {
        let of = |(a, b): &(Id, Id)| *a == user || *b == user;
        self.follows.keys().any(of) || self.blocks.keys().any(of) || self.mutes.keys().any(of)
    }

    /// An erased user whose edges are still there.
    pub fn is_leaving(&self, user: Id) -> bool {
        !self.people.contains_key(user) && self.has_edges(user)
    }

    /// Owners of groups, each with a possible member.
    pub fn possible_members(&self) -> Vec<(Id, Id)> {
        let owners = self.groups.iter().filter(|(_, groups)| !groups.is_empty()).map(|(owner, _)| *owner);
        let pairs = owners.flat_map(|owner| self.people.keys().map(move |member| (owner, *member)));
        pairs.filter(|(owner, member)| self.connected(true, owner, member)).collect()
    }

    /// Ends a follow or a request; `how` is for the one and for the other.
    pub fn end(&mut self, follower: Id, target: Id, how: [Id; 2]) -> Option<super::reference::Follow> {
        let follow = self.follows.remove(&(follower, target))?;
        let how = if follow.active { how[0] } else { how[1] };
        let forgets = self.twist == Some(Twist::HistoryForgetsBlocks) && how == "blocked";
        if self.people.contains_key(follower) && self.people.contains_key(target) && !forgets {
            self.history.push(Ended { follower, target, how });
        }
        Some(follow)
    }

    pub fn write_beyond(&mut self, actor: Option<Id>, write: &Write) -> Said {
        let own = |owner: Id| if actor.is_none_or(|actor| actor == owner) { Ok(()) } else { Err("403 forbidden") };
        match *write {
            Write::Erase { user } => {
                own(user)?;
                self.person(user)?;
                self.erase(user);
                Ok("202".to_owned())
            }
            Write::AcceptAll { user } => {
                own(user)?;
                self.person(user)?;
                self.jobs.push(Job::AcceptAll(user, self.now));
                Ok("202".to_owned())
            }
            Write::Suspend { user, suspended } => {
                if actor.is_some() {
                    return Err("403 forbidden");
                }
                self.person(user)?;
                let before = self.people.get(user).copied().unwrap_or_default();
                self.people.insert(user, Person { suspended, ..before });
                Ok(gone(before.suspended != suspended))
            }
            Write::CreateGroup { owner, name } => {
                own(owner)?;
                self.acts(owner)?;
                self.groups.entry(owner).or_default().insert(0, Group { name, members: Vec::new() });
                Ok("201".to_owned())
            }
            Write::RenameGroup { owner, nth, name } => {
                own(owner)?;
                self.acts(owner)?;
                let group = self.groups.entry(owner).or_default().get_mut(nth).ok_or("404 group_not_found")?;
                group.name = name;
                Ok("200".to_owned())
            }
            Write::DeleteGroup { owner, nth } => {
                own(owner)?;
                self.acts(owner)?;
                let groups = self.groups.entry(owner).or_default();
                let is_there = nth < groups.len();
                if is_there {
                    groups.remove(nth);
                }
                Ok(gone(is_there))
            }
            Write::Member { owner, nth, member, present } => {
                own(owner)?;
                self.acts(owner)?;
                if present { self.add_member(owner, nth, member) } else { self.remove_member(owner, nth, member) }
            }
            Write::Dismiss { user, target } => {
                own(user)?;
                self.person(target)?;
                self.acts(user)?;
                Ok(gone(self.dismissed.insert((user, target))))
            }
            Write::Work => {
                self.work();
                Ok(String::new())
            }
            Write::Wait { minutes } => {
                self.minutes += minutes;
                Ok(String::new())
            }
            ref other => unreachable!("{other:?} is among the edges"),
        }
    }

    fn erase(&mut self, user: Id) {
        self.people.remove(user);
        self.groups.remove(user);
        // Whoever has the id next is somebody else.
        self.dismissed.retain(|(by, whom)| *by != user && *whom != user);
        for member in self.groups.values_mut().flatten().flat_map(|group| &mut group.members) {
            member.erased |= member.id == user;
        }
        self.history.retain(|ended| ended.follower != user && ended.target != user);
        self.jobs.push(Job::Erase(user));
    }

    /// Whether the viewer may know that the two are connected.
    fn connected(&self, sees_quiet: bool, owner: Id, member: Id) -> bool {
        let follows = |from: Id, to: Id| self.follows.get(&(from, to)).filter(|follow| follow.active);
        follows(owner, member).is_some() || follows(member, owner).is_some_and(|follow| sees_quiet || !follow.quiet)
    }

    fn add_member(&mut self, owner: Id, nth: usize, member: Id) -> Said {
        let is_connected = self.connected(false, owner, member);
        let exists = self.people.contains_key(member);
        let group = self.groups.entry(owner).or_default().get_mut(nth).ok_or("404 group_not_found")?;
        if !exists {
            return Err("404 user_not_found");
        }
        match group.members.iter_mut().find(|known| known.id == member) {
            Some(known) if !known.erased => Ok("200".to_owned()),
            _ if !is_connected => Err("400 invalid_request"),
            Some(known) => {
                known.erased = false;
                Ok("200".to_owned())
            }
            None => {
                group.members.push(Member { id: member, erased: false });
                Ok("201".to_owned())
            }
        }
    }

    fn remove_member(&mut self, owner: Id, nth: usize, member: Id) -> Said {
        let group = self.groups.entry(owner).or_default().get_mut(nth).ok_or("404 group_not_found")?;
        let before = group.members.len();
        group.members.retain(|known| known.id != member);
        Ok(gone(group.members.len() < before))
    }

    /// Jobs in the order they were started; ended mutes go first.
    fn work(&mut self) {
        let over: Vec<_> = self.mutes.iter().filter(|(_, mute)| self.is_over(mute)).map(|(pair, _)| *pair).collect();
        self.mutes.retain(|pair, _| !over.contains(pair));
        for job in std::mem::take(&mut self.jobs) {
            match job {
                Job::AcceptAll(user, before) => self.accept_all(user, before),
                // Without time passing it waits for the account to be opened after all.
                Job::Opened(user) => match self.people.get(user).map(|person| person.private) {
                    Some(false) => self.accept_all(user, u64::MAX),
                    Some(true) if self.minutes == 0 => self.jobs.push(Job::Opened(user)),
                    _ => {}
                },
                Job::Erase(user) if self.people.contains_key(user) => {}
                Job::Erase(user) => {
                    let stays = |(a, b): &(Id, Id)| *a != user && *b != user;
                    self.follows.retain(|pair, _| stays(pair));
                    self.blocks.retain(|pair, _| stays(pair));
                    self.mutes.retain(|pair, _| stays(pair));
                }
            }
        }
    }

    /// The oldest first, so that the last request is on top.
    fn accept_all(&mut self, user: Id, before: u64) {
        if !self.people.contains_key(user) {
            return;
        }
        let waits = self.follows.iter().filter(|((_, to), follow)| *to == user && !follow.active && follow.at < before);
        let mut waits: Vec<_> = waits.map(|(pair, follow)| (follow.at, *pair)).collect();
        waits.sort_unstable();
        for (_, pair) in waits {
            self.now += 1;
            let now = self.now;
            self.follows.entry(pair).and_modify(|follow| (follow.active, follow.at) = (true, now));
        }
    }

    pub fn read_beyond(&self, viewer: Option<Id>, read: &Read) -> Said {
        let own = |owner: Id| if viewer.is_none_or(|viewer| viewer == owner) { Ok(()) } else { Err("403 forbidden") };
        let groups = |owner: Id| self.groups.get(owner).map(Vec::as_slice).unwrap_or_default();
        match *read {
            Read::History(user) => {
                own(user)?;
                self.person(user)?;
                let rows = self.history.iter().rev().filter(|ended| ended.follower == user);
                let words: Vec<String> = rows.map(|ended| format!("{}:{}", ended.target, ended.how)).collect();
                Ok(format!("200 [{}]", words.join(" ")))
            }
            Read::Groups(user) => {
                own(user)?;
                self.person(user)?;
                let names: Vec<&str> = groups(user).iter().map(|group| group.name).collect();
                Ok(format!("200 [{}]", names.join(" ")))
            }
            Read::Members(user, nth) => {
                own(user)?;
                self.person(user)?;
                let group = groups(user).get(nth).ok_or("404 group_not_found")?;
                let stays = self.twist == Some(Twist::StrangersStayInGroups);
                let shown = group.members.iter().filter(|member| {
                    let is_there = !member.erased && self.people.contains_key(member.id);
                    is_there && (stays || self.connected(viewer.is_none(), user, member.id))
                });
                Ok(members_words(shown.map(|member| member.id.to_owned()).collect()))
            }
            Read::Suggestions(user) => {
                own(user)?;
                self.person(user)?;
                Ok(self.suggestions(user))
            }
            ref other => unreachable!("{other:?} is among the edges"),
        }
    }
}
