//! What must hold at every moment, and what must hold once everything has settled.

use std::collections::{BTreeMap, BTreeSet};

use entourage_model::{Edge, EdgeValue, Key, Kind, Outcome, Reply, State, Version};

use entourage_memory::partitioned::{engine::Engine, home::End};

/// The previous state, and the promises made.
#[derive(Default)]
pub(super) struct Memory {
    /// Who followed a private account without a request: those who followed before it went private.
    let_in: BTreeMap<(Key, Version), BTreeSet<Key>>,
    /// Whose follows return with a home that went back, until everything has settled.
    come_back: BTreeSet<Key>,
    /// Imports bring followers without a request.
    pub(super) has_imports: bool,
    /// Blocks that were acked.
    blocks: BTreeMap<(Key, Key), Promise>,
}

/// An acked block. It is kept for as long as the block stands, between the same two people.
struct Promise {
    version: Version,
    between: [Option<Version>; 2],
    /// The progress of both homes.
    seen: [End; 2],
}

impl Memory {
    /// A home went back, and with it the followers it accepted or refused since.
    pub(super) fn forked(&mut self, engine: &Engine, home: usize, people: i64) {
        self.let_in.retain(|(key, _), _| engine.home_of(*key) != home);
        self.come_back.extend((0..people).map(Key).filter(|key| engine.home_of(*key) == home));
    }

    pub(super) fn settled(&mut self) {
        self.come_back.clear();
    }

    /// A block was acked, for the first time or again. Both its halves are in place.
    pub(super) fn blocked(
        &mut self,
        (actor, target): (Key, Key),
        outcome: &Outcome,
        engine: &Engine,
    ) -> Result<(), String> {
        let Reply::Edge { value, .. } = outcome.reply else { return Ok(()) };
        let link = (Kind::Block, actor, target);
        let known = engine.home(target).lock().inbound.known(link);
        let truth = engine.home(actor).lock().out.known_edge(link).map(|truth| truth.version);
        let is_there = known.is_some_and(|known| known.version >= value.version && Some(known.version) <= truth);
        if !is_there && !engine.corrected.lock().contains(&(link, value.version)) {
            let target = engine.user(target);
            return Err(format!("{outcome:?} was acked, and its in-half is {known:?}, the target {target:?}"));
        }
        if truth == Some(value.version) && is_there {
            let seen = [actor, target].map(|key| engine.home(key).lock().end());
            let between = people(engine, actor, target);
            self.blocks.insert((actor, target), Promise { version: value.version, between, seen });
        }
        Ok(())
    }

    pub(super) fn look(&mut self, engine: &Engine) -> Result<(), String> {
        for home in &engine.homes {
            if let Some(wrong) = home.lock().inbound.wrong_totals().first() {
                return Err(format!("a total is not its list: {wrong}"));
            }
        }
        if !self.has_imports {
            self.unasked(engine)?;
        }
        self.blocks.retain(|(actor, target), promise| {
            let block = truth(engine, (Kind::Block, *actor, *target));
            let stands = block.is_some_and(|block| block.version == promise.version);
            let is_lost = promise.seen.iter().any(|end| engine.forks.lock().lost_of(end));
            stands && people(engine, *actor, *target) == promise.between && !is_lost
        });
        for &(actor, target) in self.blocks.keys() {
            for (follower, target) in [(actor, target), (target, actor)] {
                let link = (Kind::Follow, follower, target);
                // One that means another person reads as absent, and is reverted.
                let means = engine.home(follower).lock().origin(link);
                let is_meant = engine.user(target).map(|user| user.created) == means;
                if let Some(edge) = truth(engine, link).filter(|_| is_meant) {
                    return Err(format!("{follower} follows {target} beside an acked block: {edge:?}"));
                }
            }
        }
        let refused = engine.refused.lock();
        for (home, version) in refused.iter() {
            if engine.homes[*home].lock().events.iter().any(|event| event.version == *version) {
                return Err(format!("a write of home {home} was refused and made: version {version}"));
            }
        }
        Ok(())
    }

    fn unasked(&mut self, engine: &Engine) -> Result<(), String> {
        let mut now = BTreeMap::new();
        for home in &engine.homes {
            let home = home.lock();
            for user in home.out.users_above(None).filter(|user| user.private) {
                let edges = home.inbound.edges_to(user.key, 1_000);
                let unasked = |edge: &Edge| {
                    edge.kind == Kind::Follow && edge.value.state == State::Active && !edge.value.accepted
                };
                let followers: BTreeSet<Key> = edges.into_iter().filter(unasked).map(|edge| edge.follower).collect();
                let before = self.let_in.get(&(user.key, user.created));
                let is_new = |key: &&Key| !self.come_back.contains(key);
                if let Some(new) = before.and_then(|before| followers.difference(before).find(is_new)) {
                    return Err(format!("{new} follows {}, who is private, and never asked", user.key));
                }
                now.insert((user.key, user.created), followers);
            }
        }
        self.let_in = now;
        Ok(())
    }
}

fn people(engine: &Engine, one: Key, other: Key) -> [Option<Version>; 2] {
    [one, other].map(|key| engine.user(key).map(|user| user.created))
}

fn truth(engine: &Engine, link: (Kind, Key, Key)) -> Option<EdgeValue> {
    engine.home(link.1).lock().out.known_edge(link).filter(EdgeValue::is_live)
}

pub(super) fn settled(engine: &Engine) -> Result<(), String> {
    let (mut out, mut inbound) = (BTreeMap::new(), BTreeMap::new());
    for (index, home) in engine.homes.iter().enumerate() {
        let home = home.lock();
        if let Some(block) = home.unmirrored.first_key_value() {
            return Err(format!("a block is not mirrored: {block:?}"));
        }
        for (link, value) in home.out.known_edges().filter(|(_, value)| value.is_live()) {
            if !engine.is_home(index, link.1) {
                return Err(format!("{link:?} lies in home {index}"));
            }
            out.insert(link, (value, home.origin(link)));
        }
        for (link, value) in home.inbound.all_known().filter(|(_, value)| value.is_live()) {
            inbound.insert(link, value);
        }
    }
    for (link, (value, created)) in &out {
        if inbound.get(link) != Some(value) {
            return Err(format!("{link:?} is {value:?}, its in-half {:?}", inbound.get(link)));
        }
        let (kind, follower, target) = *link;
        let blocks = |by, whom| out.contains_key(&(Kind::Block, by, whom));
        if kind == Kind::Follow && (blocks(follower, target) || blocks(target, follower)) {
            return Err(format!("{follower} follows {target} beside a block"));
        }
        let there = engine.user(target);
        if engine.user(follower).is_none() || there.is_none_or(|there| Some(there.created) != *created) {
            return Err(format!("{link:?} means somebody who was created at {created:?}, and one of them is gone"));
        }
    }
    match inbound.keys().find(|link| !out.contains_key(link)) {
        Some(link) => Err(format!("the in-half of {link:?} has no other: {:?}", inbound.get(link))),
        None => Ok(()),
    }
}
