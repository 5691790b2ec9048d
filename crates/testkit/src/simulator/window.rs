//! The moments between a request and its reply, and what held at any of them.

use std::collections::BTreeSet;

use entourage_model::{Key, Sequence, User};

use super::chronicle::{Chronicle, Standing};
use entourage_memory::partitioned::{engine::Engine, inbound::Link};

/// When a request was made: the progress of each home.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) step: u64,
    pub(super) lasts: Vec<Sequence>,
}

/// The moments between a request and its reply.
pub(super) struct Window<'a> {
    pub(super) engine: &'a Engine,
    pub(super) chronicle: &'a Chronicle,
    pub(super) asked: &'a Asked,
    pub(super) went_back: &'a BTreeSet<usize>,
}

impl Window<'_> {
    pub(super) fn low(&self, home: usize) -> Sequence {
        self.asked.lasts[home]
    }

    /// Whether somebody may have acted on what is lost of this user.
    pub(super) fn may_be_lost(&self, key: Key) -> bool {
        self.went_back.contains(&self.engine.home_of(key))
    }

    pub(super) fn edge(&self, link: Link) -> Vec<Standing> {
        let home = self.engine.home_of(link.1);
        self.chronicle.edge_since(home, link, self.low(home))
    }

    pub(super) fn users(&self, key: Key) -> Vec<Option<User>> {
        let home = self.engine.home_of(key);
        self.chronicle.user_since(home, key, self.low(home))
    }

    pub(super) fn was_gone(&self, key: Key) -> bool {
        self.may_be_lost(key) || self.users(key).iter().any(Option::is_none)
    }

    /// Whether there was no such edge, or one that meant another person.
    pub(super) fn was_absent(&self, link: Link) -> bool {
        let people: Vec<_> = self.users(link.2).into_iter().map(|user| user.map(|user| user.created)).collect();
        let is_another = |edge: &Standing| people.iter().any(|person| person.is_some() && *person != edge.means);
        self.edge(link).iter().any(|edge| edge.state.is_none() || is_another(edge))
    }

    pub(super) fn was_private(&self, key: Key, private: bool) -> bool {
        self.may_be_lost(key) || self.users(key).iter().flatten().any(|user| user.private == private)
    }
}
