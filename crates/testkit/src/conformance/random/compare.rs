//! Reads everything a store says about a few people, and compares it with the reference.

use std::collections::HashSet;

use entourage_model::{
    EdgeValue, EventBody, FollowLimits, Key, Kind, List, Outcome, Plane, RecordId, Sequence, Side, Space, State,
    UserId, Version, Watermark,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::conformance::{
    pages,
    reference::{Entry, Reference},
};
use entourage_store::{Answer, Derived, Store, StoreExt as _, Sweep};

pub(super) struct Comparison {
    rng: StdRng,
    everyone: Vec<Key>,
    /// Every id that ever had a user.
    ids: HashSet<UserId>,
    /// The last event read, once the first write has fixed the start of the log.
    read_to: Option<Sequence>,
    compared: usize,
    watermark: Option<Watermark>,
    /// Whether watermarks are sequences of events.
    numbered: bool,
}

impl Comparison {
    pub(super) fn new(seed: u64, everyone: Vec<Key>, numbered: bool) -> Self {
        let rng = StdRng::seed_from_u64(seed ^ 2);
        Self { rng, everyone, ids: HashSet::new(), read_to: None, compared: 0, watermark: None, numbered }
    }

    pub(super) fn saw(&mut self, outcome: &Outcome) {
        let counted = || outcome.watermark.sequence().0 - outcome.changes.len() as u64;
        let before = Sequence(if self.numbered { counted() } else { 0 });
        self.read_to.get_or_insert(before);
        let known = self.watermark.get_or_insert_with(|| outcome.watermark.clone());
        if !known.merge(&outcome.watermark) {
            *known = outcome.watermark.clone();
        }
    }

    /// One pair, or everything.
    pub(super) async fn look(&mut self, store: &dyn Store, reference: &Reference, full: bool) -> Result<(), String> {
        if !full {
            let pick = |rng: &mut StdRng, everyone: &[Key]| everyone[rng.random_range(0..everyone.len())];
            let pair = (pick(&mut self.rng, &self.everyone), pick(&mut self.rng, &self.everyone));
            pairs(store, reference, &[pair]).await?;
            return self.common(store, reference, pair.0, pair.1);
        }
        let crossed: Vec<(Key, Key)> =
            self.everyone.iter().flat_map(|&a| self.everyone.iter().map(move |&b| (a, b))).collect();
        pairs(store, reference, &crossed).await?;
        crossed.iter().try_for_each(|&(one, other)| self.common(store, reference, one, other))?;
        self.lists(store, reference).await?;
        self.users(store, reference).await?;
        self.records(store, reference).await?;
        self.history(store, reference).await?;
        self.quotas(store, reference).await?;
        self.events(store, reference).await?;
        match store.verify().await {
            Ok(report) if report.is_clean() => Ok(()),
            other => Err(format!("C15: verify says {other:?}")),
        }
    }

    fn common(&self, store: &dyn Store, reference: &Reference, one: Key, other: Key) -> Result<(), String> {
        let mut found = Vec::new();
        if !store.peek_common(one, other, usize::MAX, &mut found) {
            return Ok(());
        }
        let follows = |from, to| {
            let edge = reference.edge(Kind::Follow, from, to);
            edge.is_some_and(|edge| edge.state == State::Active) && reference.user(from).is_some()
        };
        let is_common = |key: &Key| follows(one, *key) && follows(other, *key) && reference.user(*key).is_some();
        let mut expected: Vec<Key> = self.everyone.iter().copied().filter(is_common).collect();
        found.sort_unstable();
        expected.sort_unstable();
        if found != expected {
            return Err(format!("C8: {one} and {other} both follow {expected:?}, not {found:?}"));
        }
        Ok(())
    }

    async fn lists(&mut self, store: &dyn Store, reference: &Reference) -> Result<(), String> {
        for &user in &self.everyone {
            for plane in Plane::ALL {
                for side in Side::BOTH {
                    let open = plane == Plane::Follow && self.rng.random_bool(0.5);
                    let list = List { open, ..List::new(user, plane, side) };
                    let size = self.rng.random_range(1..6);
                    let (seen, expected) = (pages::read_list(store, list, size).await?, reference.list(list));
                    if seen != expected {
                        return Err(format!("C10: {list:?} must be {expected:?}, not {seen:?}"));
                    }
                    let mut up = pages::read_list_up(store, list, size).await?;
                    up.reverse();
                    if up != expected {
                        return Err(format!(
                            "C10: {list:?} from its oldest edge up must end with {expected:?}, not {up:?}"
                        ));
                    }
                }
            }
            let (counts, expected) = (store.get_counts(user).await, reference.counts(user));
            if !counts.as_ref().is_ok_and(|counts| *counts == expected) {
                return Err(format!("C11: counts of {user} must be {expected:?}, not {counts:?}"));
            }
        }
        Ok(())
    }

    async fn users(&mut self, store: &dyn Store, reference: &Reference) -> Result<(), String> {
        let expected: Vec<_> = self.everyone.iter().map(|&key| reference.user(key).cloned()).collect();
        self.ids.extend(expected.iter().flatten().map(|user| user.id.clone()));
        // First: what is remembered of a user is as new as the last read.
        for (key, user) in self.everyone.iter().zip(&expected) {
            for id in &self.ids {
                let knows = store.peek_id(*key, id.as_str().as_bytes());
                let is = user.as_ref().is_some_and(|user| user.id == *id);
                if knows != is && (knows || store.guarantees().peeks) {
                    return Err(format!("C8: peek_id of {key} as {id} is {knows}"));
                }
            }
        }
        let seen = store.get_users(&self.everyone).await.map_err(|error| error.to_string())?;
        if seen != expected {
            return Err(format!("C2: users must be {expected:?}, not {seen:?}"));
        }
        let (mut sweep, mut swept) = (Sweep::default(), Vec::new());
        let mut size = self.rng.random_range(1..40);
        while let Some(page) = sweep.next(store, size).await.map_err(|error| error.to_string())? {
            if page.len() > size {
                return Err(format!("C23: a sweep of {size} gave {page:?}"));
            }
            swept.extend(page.into_iter().filter(|user| self.everyone.contains(&user.key)));
            size = self.rng.random_range(1..40);
        }
        swept.sort_by_key(|user| user.key);
        let mut expected: Vec<_> = expected.into_iter().flatten().collect();
        expected.sort_by_key(|user| user.key);
        if swept != expected {
            return Err(format!("C23: the sweep must show {expected:?}, not {swept:?}"));
        }
        Ok(())
    }

    async fn records(&mut self, store: &dyn Store, reference: &Reference) -> Result<(), String> {
        for &owner in &self.everyone {
            for space in Space::ALL {
                let size = self.rng.random_range(1..5);
                let seen = pages::read_records(store, space, owner, size).await?;
                let expected = reference.list_records(space, owner);
                if seen != expected {
                    return Err(format!("C16: {space:?} of {owner} must be {expected:?}, not {seen:?}"));
                }
            }
        }
        let buckets = store.guarantees().buckets;
        let about: Vec<(Key, RecordId)> =
            self.everyone.iter().map(|key| (buckets.of(*key), RecordId::of_key(*key))).collect();
        for (space, ids) in
            [(Space::PostAuthor, reference.indexes()), (Space::Erased, about.clone()), (Space::Fanout, about)]
        {
            let seen = store.get_records(space, &ids).await.map_err(|error| error.to_string())?;
            let expected: Vec<_> = ids.iter().map(|(owner, id)| reference.record(space, *owner, id).cloned()).collect();
            if seen != expected {
                return Err(format!("C19: {space:?} of {ids:?} must be {expected:?}, not {seen:?}"));
            }
        }
        let (space, limit) = (Space::ALL[self.rng.random_range(0..Space::ALL.len())], self.rng.random_range(0..4));
        let seen = store.scan_each(space, &self.everyone, None, limit).await.map_err(|error| error.to_string())?;
        let first = |owner: &Key| reference.list_records(space, *owner).into_iter().take(limit).collect::<Vec<_>>();
        let expected: Vec<_> = self.everyone.iter().map(first).collect();
        if seen != expected {
            return Err(format!("C19: {limit} of {space:?} of each must be {expected:?}, not {seen:?}"));
        }
        Ok(())
    }

    async fn history(&mut self, store: &dyn Store, reference: &Reference) -> Result<(), String> {
        for &user in &self.everyone {
            let size = self.rng.random_range(1..6);
            let (seen, expected) = (pages::read_history(store, user, size).await?, reference.history(user));
            if seen != expected {
                return Err(format!("C17: the history of {user} must be {expected:?}, not {seen:?}"));
            }
        }
        Ok(())
    }

    async fn quotas(&mut self, store: &dyn Store, reference: &Reference) -> Result<(), String> {
        let seen = store.get_quotas(&self.everyone).await.map_err(|error| error.to_string())?;
        let (per_hour, burst) = (self.rng.random_range(1..200), self.rng.random_range(0..9));
        let limits = FollowLimits { per_hour, burst, ..FollowLimits::none(reference.time()) };
        for (actor, quota) in self.everyone.iter().zip(&seen) {
            let left = quota.left(&limits).map(|left| (left.remaining, left.reset));
            let expected = reference.left(*actor, &limits);
            if seen.len() != self.everyone.len() || left != Some(expected) {
                return Err(format!("C22: {actor} must have {expected:?} left by {limits:?}, not {left:?}"));
            }
        }
        Ok(())
    }

    async fn events(&mut self, store: &dyn Store, reference: &Reference) -> Result<(), String> {
        let Some(from) = self.read_to else { return Ok(()) };
        let events = pages::read_events(store, from).await?;
        let indexes: HashSet<RecordId> = reference.indexes().into_iter().map(|(_, id)| id).collect();
        let last = events.last().map_or(from, |event| event.sequence);
        if let Some(watermark) = &self.watermark {
            let short = self.numbered && last < watermark.sequence();
            if short || !store.has_seen(watermark).await.is_ok_and(|seen| seen) {
                return Err(format!("C2: the log ends at {last}, before an acked watermark {watermark:?}"));
            }
        }
        let is_own = |key: &Key| self.everyone.contains(key);
        let own = events.iter().filter(|event| match &event.body {
            EventBody::Edge { follower, .. } => is_own(follower),
            EventBody::User { key, .. } => is_own(key),
            // Of the server's records those about these people.
            EventBody::Record { space: Space::Fanout | Space::Erased, id, .. } => id.key().as_ref().is_some_and(is_own),
            EventBody::Record { space: Space::PostAuthor, id, .. } => indexes.contains(id),
            EventBody::Record { space: Space::Job, owner, id, .. } if owner.is_server() => {
                let worker = || Key(i64::from_be_bytes(*id.as_bytes().last_chunk().unwrap_or(&[0; 8])));
                is_own(&id.mute_end().map_or_else(worker, |(_, actor, _)| actor))
            }
            EventBody::Record { owner, .. } => is_own(owner),
        });
        let mut seen: Vec<_> = own.map(Entry::of).collect();
        let mut expected: Vec<_> = reference.log()[self.compared..].to_vec();
        if store.guarantees().derived == Derived::Settling {
            unordered(&mut seen);
            unordered(&mut expected);
        }
        if seen != expected {
            return Err(format!("C12: events after {from} must be {expected:#?}, not {seen:#?}"));
        }
        self.compared += expected.len();
        self.read_to = Some(last);
        Ok(())
    }
}

/// A write that changes several homes has a version in each, without an order between them.
fn unordered(entries: &mut [Entry]) {
    for entry in entries.iter_mut() {
        entry.version = Version::ZERO;
    }
    entries.sort_by_key(|entry| format!("{entry:?}"));
}

async fn pairs(store: &dyn Store, reference: &Reference, pairs: &[(Key, Key)]) -> Result<(), String> {
    for kind in Kind::ALL {
        let seen = store.get_edges(kind, pairs).await.map_err(|error| error.to_string())?;
        let expected: Vec<_> = pairs.iter().map(|&(a, b)| reference.edge(kind, a, b)).collect();
        if seen != expected {
            return Err(format!("C9: {kind:?} of {pairs:?} must be {expected:?}, not {seen:?}"));
        }
        let mut answers = vec![Answer::Yes; pairs.len()];
        store.peek_all(kind, pairs, &mut answers);
        let is_there = |key| reference.user(key).is_some();
        let allowed = expected.iter().zip(pairs).map(|(value, &(a, b))| match value {
            Some(value) if value.state == State::Active && is_there(a) && is_there(b) => Answer::Yes,
            Some(value) if value.state == State::Active => Answer::Unknown,
            _ => Answer::No,
        });
        let is_fine =
            |(seen, due): (&Answer, Answer)| *seen == due || (*seen == Answer::Unknown && !store.guarantees().peeks);
        if !answers.iter().zip(allowed).all(is_fine) {
            return Err(format!("C8: peek_all of {kind:?} {pairs:?} is {answers:?}; the edges are {expected:?}"));
        }
        if kind == Kind::Follow {
            let open = |(seen, value): (&Answer, &Option<EdgeValue>)| match (seen, value) {
                (Answer::Unknown, Some(_)) => true,
                (Answer::Unknown, None) => !store.guarantees().peeks,
                (seen, value) => {
                    let is_open = value.is_some_and(|value| value.state == State::Active && !value.quiet);
                    (*seen == Answer::Yes) == is_open
                }
            };
            answers.fill(Answer::Yes);
            store.peek_open(pairs, &mut answers);
            if !answers.iter().zip(&expected).all(open) {
                return Err(format!("C8: peek_open of {pairs:?} is {answers:?}; the edges are {expected:?}"));
            }
        }
    }
    Ok(())
}
