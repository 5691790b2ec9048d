//! The cause of each change: a client got a reply for it, a client got none, or a home had to make it.

use std::collections::BTreeSet;

use entourage_model::{Cause, Event, EventBody, Key, Kind, Operation, State};

use super::{
    chronicle::Chronicle,
    history::{History, own_link},
};
use entourage_memory::partitioned::inbound::Link;

/// Every state that people ever had, including lost ones.
#[derive(Default)]
pub(super) struct Ever {
    erased: BTreeSet<Key>,
    private: BTreeSet<Key>,
    public: BTreeSet<Key>,
    blocks: BTreeSet<(Key, Key)>,
    pub(super) forks: u64,
}

impl Ever {
    pub(super) fn note(&mut self, event: &Event) {
        match &event.body {
            EventBody::User { key, after: None, .. } => self.erased.insert(*key),
            EventBody::User { key, after: Some(user), .. } if user.private => self.private.insert(*key),
            EventBody::User { key, .. } => self.public.insert(*key),
            EventBody::Edge { kind: Kind::Block, follower, target, after: Some(_), .. } => {
                self.blocks.insert((*follower, *target))
            }
            _ => false,
        };
    }

    /// Whether the homes may have done this by themselves.
    fn is_by_homes(&self, (_, follower, target): Link, body: &EventBody) -> bool {
        let EventBody::Edge { cause, before, after, .. } = *body else { return true };
        match (cause, before, after) {
            (Cause::Erase, _, None) => self.erased.contains(&follower) || self.erased.contains(&target),
            (Cause::Block, _, None) => {
                self.blocks.contains(&(follower, target)) || self.blocks.contains(&(target, follower))
            }
            (Cause::Follower, Some(State::Active), Some(State::Pending)) => self.private.contains(&target),
            (Cause::Target, Some(State::Pending), Some(State::Active)) => self.public.contains(&target),
            // Republished after a fork.
            _ => self.forks > 0 && before == after,
        }
    }
}

/// A change without a cause.
pub(super) fn nobodys(history: &History, chronicle: &Chronicle, homes: usize) -> Option<String> {
    let is_heard = |scope| history.claimed.values().any(|claimed| claimed.is_some() && *claimed == scope);
    let unheard = history.unheard.iter().filter(|(_, scope)| !is_heard(*scope));
    let mut unheard: Vec<&Operation> = unheard.map(|(operation, _)| operation).collect();
    for Event { version, body, .. } in (0..homes).flat_map(|home| chronicle.log(home)).map(|noted| &noted.event) {
        let EventBody::Edge { kind, follower, target, .. } = *body else { continue };
        let link = (kind, follower, target);
        if history.claimed.contains_key(&(link, *version)) {
            continue;
        }
        match unheard.iter().position(|operation| own_link(operation) == Some(link) && fits(operation, body)) {
            Some(at) => {
                unheard.swap_remove(at);
            }
            None if chronicle.ever.is_by_homes(link, body) => {}
            None => return Some(format!("{link:?} of version {version} is nobody's doing: {body:?}")),
        }
    }
    None
}

fn fits(operation: &Operation, body: &EventBody) -> bool {
    let EventBody::Edge { cause, after, .. } = *body else { return false };
    match operation {
        Operation::Follow { .. } | Operation::Block { .. } | Operation::Mute { .. } => {
            cause == Cause::Follower && after.is_some()
        }
        Operation::Unfollow { .. } | Operation::Unblock { .. } | Operation::Unmute { .. } => {
            cause == Cause::Follower && after.is_none()
        }
        Operation::Accept { .. } | Operation::Release { accept: true, .. } => cause == Cause::Target && after.is_some(),
        Operation::Reject { .. } | Operation::RemoveFollower { .. } | Operation::Release { accept: false, .. } => {
            cause == Cause::Target && after.is_none()
        }
        _ => false,
    }
}
