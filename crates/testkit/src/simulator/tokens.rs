//! Watermarks that clients hold: what `covers` says about them must be true, under every fault.

use std::collections::BTreeMap;

use entourage_model::{Change, Key, Operation, Outcome, Sequence, Version, Watermark};
use rand::{RngExt, rngs::StdRng};

use super::chronicle::Chronicle;
use entourage_memory::partitioned::{engine::Engine, inbound::Link};
use entourage_store::{Covered, Whose};

/// Older ones are dropped.
const HELD_MAX: usize = 60;

#[derive(Default)]
pub(super) struct Tokens {
    held: Vec<Token>,
    /// Which homes a watermark named, for each pair of parties.
    named: BTreeMap<(Key, Option<Key>), Vec<bool>>,
}

#[derive(Clone)]
struct Token {
    watermark: Watermark,
    /// Up to here it has seen each home, and the version of the event there.
    seen: Vec<(usize, Sequence, Option<Version>)>,
    edges: Vec<(Link, Version)>,
}

impl Token {
    fn new(watermark: Watermark, edges: Vec<(Link, Version)>, chronicle: &Chronicle) -> Self {
        let offsets = watermark.offsets().enumerate().filter(|(_, offset)| *offset > Sequence::ZERO);
        let seen = offsets.map(|(home, offset)| (home, offset, chronicle.version_at(home, offset))).collect();
        Self { watermark, seen, edges }
    }

    /// Whether a home has lost something that it has seen.
    fn is_lost(&self, chronicle: &Chronicle) -> bool {
        self.seen.iter().any(|(home, sequence, version)| chronicle.version_at(*home, *sequence) != *version)
    }
}

impl Tokens {
    /// A client got this one.
    pub(super) fn hold(
        &mut self,
        operation: &Operation,
        outcome: &Outcome,
        engine: &Engine,
        chronicle: &Chronicle,
        rng: &mut StdRng,
    ) -> Result<(), String> {
        // Those of jobs go to nobody.
        let is_by_job = matches!(operation, Operation::EraseEdges { .. }) || operation.parties().0 == Key::SERVER;
        if !is_by_job {
            self.tells_nothing(operation, outcome, engine)?;
        }
        let edges = outcome.changes.iter().filter_map(|change| match change {
            Change::Edge(edge) => Some(((edge.kind, edge.follower, edge.target), edge.after.version)),
            _ => None,
        });
        let edges: Vec<(Link, Version)> = edges.collect();
        let mut token = Token::new(outcome.watermark.clone(), edges, chronicle);
        if let Some((home, offset, _)) = token.seen.iter().find(|(.., version)| version.is_none()) {
            return Err(format!("a watermark is at {offset} of home {home}, which has no such event"));
        }
        // Some hold one token for all their replies.
        if !self.held.is_empty() && rng.random_ratio(1, 3) {
            let other = &self.held[rng.random_range(0..self.held.len())];
            if !other.is_lost(chronicle) && token.watermark.merge(&other.watermark) {
                let edges = [&token.edges[..], &other.edges].concat();
                token = Token::new(token.watermark, edges, chronicle);
            }
        }
        self.held.push(token);
        if self.held.len() > HELD_MAX {
            self.held.swap_remove(rng.random_range(0..HELD_MAX));
        }
        Ok(())
    }

    /// Its size and the homes it names are those of any other write of these parties.
    fn tells_nothing(&mut self, operation: &Operation, outcome: &Outcome, engine: &Engine) -> Result<(), String> {
        let names: Vec<bool> = outcome.watermark.offsets().map(|offset| offset > Sequence::ZERO).collect();
        if names.len() != engine.homes.len() {
            return Err(format!("{:?} does not have the size of any other", outcome.watermark));
        }
        let (one, other) = operation.parties();
        // A home without any write has no offset to be named by.
        if [Some(one), other].into_iter().flatten().any(|key| engine.home(key).lock().last() == Sequence::ZERO) {
            return Ok(());
        }
        let known = self.named.entry((one, other)).or_insert_with(|| names.clone());
        match *known == names {
            true => Ok(()),
            false => {
                Err(format!("{operation:?} is told from another write by its watermark: {names:?}, not {known:?}"))
            }
        }
    }

    /// Checks one of them, at some moment.
    pub(super) fn ask(&self, engine: &Engine, chronicle: &Chronicle, rng: &mut StdRng) -> Result<(), String> {
        if self.held.is_empty() {
            return Ok(());
        }
        let token = &self.held[rng.random_range(0..self.held.len())];
        let targets: Vec<Key> = token.edges.iter().map(|((_, _, target), _)| *target).collect();
        let some = &targets[..targets.len().min(1)];
        let whose = if rng.random() { Whose::Of(some) } else { Whose::Everybody };
        ask(token, whose, engine, chronicle).map(|_| ())
    }

    /// Once everything has settled, all are covered, except lost ones.
    pub(super) fn settled(&self, engine: &Engine, chronicle: &Chronicle) -> Result<(), String> {
        for token in &self.held {
            if ask(token, Whose::Everybody, engine, chronicle)? == Covered::NotYet {
                return Err(format!("{:?} is never covered", token.watermark));
            }
        }
        Ok(())
    }
}

fn ask(token: &Token, whose: Whose<'_>, engine: &Engine, chronicle: &Chronicle) -> Result<Covered, String> {
    let covered = engine.covers(&token.watermark, whose);
    let is_lost = token.is_lost(chronicle);
    if is_lost != (covered == Covered::OtherLineage) {
        let lost = if is_lost { "lost" } else { "not lost" };
        return Err(format!("{:?} is {lost}, and said to be {covered:?}", token.watermark));
    }
    if covered != Covered::Yes {
        return Ok(covered);
    }
    for &(link, version) in &token.edges {
        let (_, follower, target) = link;
        let truth = engine.home(follower).lock().out.known_edge(link);
        if truth.is_none_or(|truth| truth.version < version) {
            return Err(format!("{link:?} is covered at {version}, and is {truth:?}"));
        }
        let is_asked = match whose {
            Whose::Everybody => true,
            Whose::Of(keys) => keys.contains(&target),
        };
        let known = engine.home(target).lock().inbound.known(link);
        let is_seen = known.is_some_and(|known| known.version >= version);
        // Or its later state is no in-half, but something else in the follower's home.
        let is_corrected = engine.corrected.lock().range((link, version)..=(link, Version::MAX)).next().is_some();
        if is_asked && !is_seen && !is_corrected {
            return Err(format!("{link:?} is covered at {version}, and its in-half is {known:?}"));
        }
    }
    Ok(covered)
}
