//! Imports, from the rules alone: edges and posts with their own times, beside what exists.

use entourage_model::{
    Cause, Code, Error, Expiry, Key, Kind, Millis, Operation, Outcome, Reply, Space, State, Version,
};

use super::{Becomes, Expected, Link, Reference, Told, begin};

/// Later than every clock of a run, floors included.
const FUTURE: Millis = Millis::from_since_2000(2_000_000_000_000);

impl Reference {
    pub(super) fn expect_imported(&self, operation: &Operation) -> Result<Expected, Code> {
        match *operation {
            Operation::ImportRequest { follower, target, at } => {
                self.may_follow(follower, target)?;
                let link = (Kind::Follow, follower, target);
                if !self.links.contains_key(&link) && !self.users.get(&target).is_some_and(|user| user.private) {
                    return Err(Code::InvalidRequest);
                }
                Ok(self.brought(link, "follow.requested", at, Becomes { state: State::Pending, ..Becomes::ACTIVE }))
            }
            Operation::ImportBlock { actor, target, at } => {
                self.may_mark(Kind::Block, actor, target)?;
                let mut expected = self.brought((Kind::Block, actor, target), "block.created", at, Becomes::ACTIVE);
                if !expected.effects.is_empty() {
                    for link in [(Kind::Follow, actor, target), (Kind::Follow, target, actor)] {
                        expected.effects.extend(self.end(link, "follow.rejected", Cause::Block).effects);
                    }
                }
                Ok(expected)
            }
            Operation::ImportMute { actor, target, at, expires_at } => {
                self.may_mark(Kind::Mute, actor, target)?;
                let becomes = Becomes { expires: expires_at.map(Expiry::at), ..Becomes::ACTIVE };
                Ok(self.brought((Kind::Mute, actor, target), "mute.created", at, becomes))
            }
            _ => unreachable!("what no file brings is expected elsewhere"),
        }
    }

    fn brought(&self, link: Link, event: &'static str, at: Millis, becomes: Becomes) -> Expected {
        if self.links.contains_key(&link) {
            return Expected { told: Told::Link { link, created: false }, effects: Vec::new() };
        }
        begin(link, event, true, Becomes { position: Some(Version::of_millis(at)), ..becomes })
    }

    /// Which id of its millisecond a post gets is up to the store; it must be free and above the author's others.
    pub(super) fn import_post(
        &self,
        author: Key,
        at: Millis,
        id: Option<Version>,
        value: &[u8],
        result: &Result<Outcome, Error>,
    ) -> Result<Expected, Code> {
        self.known(author)?;
        if value.len() > 65_536 {
            return Err(Code::InvalidRequest);
        }
        let known = |id| Expected { told: Told::Post { author, id, created: false }, effects: Vec::new() };
        if let Some(named) = self.named(author, value) {
            return Ok(known(named));
        }
        if id.map_or(at, Version::millis) >= FUTURE {
            return Err(Code::InvalidRequest);
        }
        if let Some(id) = id {
            return match self.whose(id).map(|record| *record.value == author.0.to_be_bytes()) {
                None => Ok(self.written_post(author, id, value)),
                Some(true) => Ok(known(id)),
                Some(false) => Err(Code::IdTaken),
            };
        }
        let own = self.list_records(Space::Post, author).into_iter();
        let own: Vec<_> = own.filter(|post| post.id.version().is_some_and(|id| id.millis() == at)).collect();
        // By id the newest come first; of equal ones the oldest is meant.
        if let Some(same) = own.iter().rev().find(|post| *post.value == *value) {
            return Ok(known(same.id.version().unwrap_or_default()));
        }
        let chosen = match result {
            Ok(Outcome { reply: Reply::Record { version, .. }, .. }) => *version,
            _ => Version::ZERO,
        };
        let is_above = own.iter().filter_map(|post| post.id.version()).all(|known| known < chosen);
        let is_free = self.whose(chosen).is_none();
        match is_above && is_free && chosen.millis() == at {
            true => Ok(self.written_post(author, chosen, value)),
            false => Ok(known(Version::MAX)),
        }
    }
}
