//! What must be so at every moment, and what must be so once everything has settled.

use std::collections::{BTreeMap, BTreeSet};

use entourage_model::{Change, Edge, EventBody, Key, Kind, Outcome, State, Version};

use crate::backends::partitioned::{engine::Engine, inbound::Link};

/// What was so a moment ago, and what was promised.
#[derive(Default)]
pub(super) struct Memory {
    /// Who followed a private account unasked: whoever was there before it went private.
    let_in: BTreeMap<(Key, Version), BTreeSet<Key>>,
    /// Changes of edges that were acked, by home and version.
    acked: BTreeSet<(usize, Version)>,
    /// Files bring followers whom nobody asked for.
    pub(super) has_imports: bool,
    /// Blocks that were acked and that nobody has begun to lift.
    pub(super) blocks: BTreeSet<(Key, Key)>,
}

impl Memory {
    /// After a fork some of what was promised is lost.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(super) fn saw(&mut self, engine: &Engine, outcome: &Outcome) {
        let edges = outcome.changes.iter().filter_map(|change| match change {
            Change::Edge(edge) => Some((engine.home_of(edge.follower), edge.after.version)),
            _ => None,
        });
        self.acked.extend(edges);
    }

    /// What was acked is in the log of its home, and each edge goes on there from where it was.
    pub(super) fn logged(&self, engine: &Engine) -> Result<(), String> {
        let mut versions = BTreeSet::new();
        for (index, home) in engine.homes.iter().enumerate() {
            let mut last: BTreeMap<Link, (Version, Option<State>)> = BTreeMap::new();
            for event in &home.lock().events {
                let EventBody::Edge { kind, follower, target, before, after, .. } = event.body else { continue };
                versions.insert((index, event.version));
                let (version, state) = last.get(&(kind, follower, target)).copied().unwrap_or_default();
                // An edge to a person who was created again begins anew.
                let is_next = before == state || before.is_none();
                if event.version <= version || !is_next {
                    return Err(format!("home {index}: {event:?} comes after {state:?} of version {version}"));
                }
                last.insert((kind, follower, target), (event.version, after));
            }
        }
        match self.acked.difference(&versions).next() {
            Some((home, version)) => Err(format!("home {home} has lost version {version}, which was acked")),
            None => Ok(()),
        }
    }

    pub(super) fn look(&mut self, engine: &Engine, step: u64) -> Result<(), String> {
        self.look_now(engine).map_err(|wrong| format!("step {step}: {wrong}"))
    }

    fn look_now(&mut self, engine: &Engine) -> Result<(), String> {
        for home in &engine.homes {
            if let Some(wrong) = home.lock().inbound.wrong_totals().first() {
                return Err(format!("a total is not its list: {wrong}"));
            }
        }
        if !self.has_imports {
            self.unasked(engine)?;
        }
        for &(actor, target) in &self.blocks {
            for (follower, target) in [(actor, target), (target, actor)] {
                if let Some(edge) = truth(engine, Kind::Follow, follower, target) {
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
                if let Some(new) = before.and_then(|before| followers.difference(before).next()) {
                    return Err(format!("{new} follows {}, who is private, and never asked", user.key));
                }
                now.insert((user.key, user.created), followers);
            }
        }
        self.let_in = now;
        Ok(())
    }
}

pub(super) fn truth(engine: &Engine, kind: Kind, follower: Key, target: Key) -> Option<entourage_model::EdgeValue> {
    engine.home(follower).lock().out.known_edge((kind, follower, target)).filter(|edge| edge.is_live())
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
        // Edges of and to the erased stay until they are erased as well.
        if there.is_some_and(|there| Some(there.created) != *created) {
            return Err(format!("{link:?} means somebody who was created at {created:?}"));
        }
    }
    match inbound.keys().find(|link| !out.contains_key(link)) {
        Some(link) => Err(format!("the in-half of {link:?} has no other: {:?}", inbound.get(link))),
        None => Ok(()),
    }
}
