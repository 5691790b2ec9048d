//! The people of a pair of worlds, by what the viewer may see of them.

use rand::{RngExt, rngs::SmallRng, seq::IndexedRandom};

pub(crate) type Id = String;

#[derive(Clone, Debug)]
pub(crate) struct Cast {
    pub(crate) viewer: Id,
    /// Public accounts.
    pub(crate) open: Vec<Id>,
    /// Public accounts too; the quiet follows that the worlds differ in are theirs.
    pub(crate) quiet: Vec<Id>,
    /// Private accounts that the viewer does not follow.
    pub(crate) private: Vec<Id>,
    /// Accounts with `hide_lists`.
    pub(crate) hidden: Vec<Id>,
    /// Private accounts that the viewer followed quietly while they were public: to them the viewer is a stranger.
    pub(crate) lured: Vec<Id>,
    /// Private accounts that the viewer follows openly, and whose lists the viewer sees.
    pub(crate) friends: Vec<Id>,
    /// Accounts that the viewer blocks, and then accounts that block the viewer.
    pub(crate) blocked: Vec<Id>,
    pub(crate) blocking: Vec<Id>,
    /// Somebody who is erased.
    pub(crate) leaver: Id,
    /// Public accounts that do something everybody may see while streams are read, and nothing before.
    pub(crate) heralds: Vec<Id>,
    /// The viewer's account goes private, too.
    pub(crate) is_viewer_private: bool,
}

impl Cast {
    /// A store of its own secret gives names other keys, and what has one time is in the order of keys: such pairs have
    /// numbers for ids.
    pub(crate) fn draw(random: &mut SmallRng, numbers_only: bool) -> Self {
        let mut numbers: Vec<u64> = Vec::new();
        while numbers.len() < 60 {
            let number = random.random_range(1_000..99_999);
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        let mut named = numbers.into_iter();
        let mut many = |count: usize, word: &str| -> Vec<Id> {
            let mut id = || {
                let number = named.next().unwrap();
                if numbers_only || number.is_multiple_of(3) { number.to_string() } else { format!("{word}{number}") }
            };
            (0..count).map(|_| id()).collect()
        };
        Self {
            viewer: many(1, "viewer").remove(0),
            open: many(5, "open"),
            quiet: many(6, "quiet"),
            private: many(3, "private"),
            hidden: many(2, "hidden"),
            lured: many(2, "lured"),
            friends: many(2, "friend"),
            blocked: many(3, "blocked"),
            blocking: many(3, "blocking"),
            leaver: many(1, "leaver").remove(0),
            heralds: many(4, "herald"),
            is_viewer_private: random.random_bool(0.4),
        }
    }

    /// Who is there from the beginning to the end, without the viewer.
    pub(crate) fn others(&self) -> Vec<Id> {
        let Self { open, quiet, private, hidden, lured, friends, blocked, blocking, .. } = self;
        [open, quiet, private, hidden, lured, friends, blocked, blocking].into_iter().flatten().cloned().collect()
    }

    /// All but the heralds.
    pub(crate) fn everybody(&self) -> Vec<Id> {
        [&self.viewer, &self.leaver].into_iter().cloned().chain(self.others()).collect()
    }

    /// Between whom and the viewer a block stands.
    pub(crate) fn apart(&self) -> Vec<Id> {
        [self.blocked.clone(), self.blocking.clone()].concat()
    }

    /// Whose lists the viewer never sees.
    pub(crate) fn closed(&self) -> Vec<Id> {
        [self.private.clone(), self.hidden.clone(), self.lured.clone(), self.apart()].concat()
    }

    /// Whose posts the viewer never sees. Lists that are hidden do not hide posts; and of a post by somebody whom the
    /// viewer blocks they are told, when they ask why it is not in their feed, that it is because of their block.
    pub(crate) fn unread(&self) -> Vec<Id> {
        [self.private.clone(), self.lured.clone(), self.blocking.clone()].concat()
    }

    /// Public for as long as the worlds are made.
    pub(crate) fn public(&self) -> Vec<Id> {
        [self.open.clone(), self.quiet.clone(), self.hidden.clone()].concat()
    }
}

pub(crate) fn pick(random: &mut SmallRng, from: &[Id]) -> Id {
    from.choose(random).unwrap().clone()
}
