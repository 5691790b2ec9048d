//! Applies outcomes to the state, in log order for each list, both live and in recovery.

use entourage_model::{
    Change, EdgeChange, EdgeValue, Ended, Key, Outcome, Place, RecordChange, Side, Space, State as EdgeState,
    UserChange, Version,
};

use crate::{
    documents::document_block::{Collection, CollectionKey, Document},
    state::{ListKey, SHARDS, Shard, State, delta::DeltaValue, grouped::Grouped, plane::StoredPlane, quotas, shard_of},
    writes::committer::Parties,
};

/// From this many edges on, they are grouped by shard: fewer locks, and cache misses that overlap.
const MANY: usize = 512;
/// Changes under one lock: readers wait for no more.
const STEPS_A_LOCK: usize = 16;

/// What a change does to the lists of one end. Removal and insertion are one step: no reader misses the edge.
#[derive(Clone, Copy)]
struct Step {
    owner: u32,
    side: Side,
    gone: Option<Standing>,
    came: Option<Standing>,
}

/// Where an edge is or was.
#[derive(Clone, Copy)]
struct Standing {
    plane: StoredPlane,
    place: Place,
    value: DeltaValue,
}

impl State {
    /// Applies outcomes, given the known ordinals of their users.
    pub(crate) fn apply<'a>(&self, outcomes: impl Iterator<Item = (&'a Outcome, &'a Parties)>) {
        let mut edges: Vec<(&EdgeChange, &Parties)> = Vec::with_capacity(outcomes.size_hint().1.unwrap_or_default());
        for (outcome, parties) in outcomes {
            if let Some(quota) = &outcome.quota {
                self.quotas.put(quota);
            }
            for change in &outcome.changes {
                match change {
                    Change::Edge(edge) => edges.push((edge, parties)),
                    Change::Record(record) => self.apply_record(record, outcome.version),
                    Change::User(user) => {
                        // Earlier edges first: later ones may be this user's.
                        self.apply_edges(&edges);
                        edges.clear();
                        match &user.after {
                            Some(after) => self.put_user(after),
                            None => self.erase_user(user.key, outcome.version),
                        }
                    }
                }
            }
        }
        self.apply_edges(&edges);
    }

    fn apply_record(&self, record: &RecordChange, version: Version) {
        let key = CollectionKey { owner: record.owner, collection: Collection::Records(record.space) };
        let document = record.after.as_ref().map(|value| Document { version, value: value.clone() });
        let grows = i64::from(document.is_some()) - i64::from(record.before.is_some());
        if self.documents.set(key, record.id.as_bytes(), document, grows) {
            self.ask_for_checkpoint();
        }
        self.count(1, 0);
        let is_gone = |key: Key| self.ordinal(key).is_none();
        let is_of_erased = match record.space {
            Space::Post => is_gone(record.owner),
            Space::GroupMember => record.id.member().is_some_and(|(_, member)| is_gone(member)),
            Space::Job => record.id.mute_end().is_some_and(|(_, actor, target)| is_gone(actor) || is_gone(target)),
            space => space == Space::Erased,
        };
        if is_of_erased && record.after.is_none() {
            self.erased().left_traces();
        }
    }

    /// Records ended follows, unless the follower is erased.
    fn apply_ends(&self, edges: &[(&EdgeChange, &Parties)]) {
        let removals = edges.iter().map(|(edge, _)| edge).filter(|edge| edge.after.state == EdgeState::Removed);
        for edge in removals {
            if let Some(ended) = Ended::of(edge)
                && self.ordinal(edge.follower).is_some()
            {
                self.documents.remember(edge.follower, &ended);
                if let Some(flip) = quotas::flip(edge) {
                    self.quotas.flipped(edge.follower, &flip);
                }
                self.count(1, 0);
            }
        }
    }

    /// `apply` for outcomes of the log: their users are looked up in one go.
    pub(crate) fn apply_logged(&self, outcomes: &[Outcome]) {
        let keys: Vec<Key> = outcomes.iter().flat_map(named).collect();
        // A key may be erased and created again among these outcomes: then each is looked up by itself.
        let ordinals = match outcomes.iter().any(erases) {
            true => vec![None; keys.len()],
            false => self.ordinals_of(&keys),
        };
        let known: Vec<(Key, Option<u32>)> = keys.into_iter().zip(ordinals).collect();
        let (parties, _) = known.as_chunks::<2>();
        self.apply(outcomes.iter().zip(parties));
    }

    /// A user without an ordinal when the write was decided may have one by now.
    fn known_ordinal(&self, key: Key, parties: &Parties) -> Option<u32> {
        let known = parties.iter().find(|(known, _)| *known == key).and_then(|(_, ordinal)| *ordinal);
        known.or_else(|| self.ordinal_of_edges(key))
    }

    fn apply_edges(&self, edges: &[(&EdgeChange, &Parties)]) {
        self.apply_ends(edges);
        let mut steps = Vec::with_capacity(edges.len() * 2);
        for (edge, parties) in edges {
            let ordinal = |key| self.known_ordinal(key, parties);
            push_steps(edge, ordinal(edge.follower), ordinal(edge.target), &mut steps);
        }
        if edges.len() < MANY {
            for step in &steps {
                step.apply(&mut self.shard(step.owner).write());
            }
        } else {
            let grouped = Grouped::new(SHARDS, steps.iter().map(|step| shard_of(step.owner)));
            for (shard, group) in self.shards().iter().zip(grouped.groups()) {
                for some in group.chunks(STEPS_A_LOCK) {
                    let mut shard = shard.write();
                    some.iter().for_each(|&index| steps[index as usize].apply(&mut shard));
                }
            }
        }
        let entries: u64 = steps.iter().map(Step::entries).sum();
        let own = steps.iter().filter(|step| step.side == Side::Following);
        self.count(entries, own.map(|step| i64::from(step.came.is_some()) - i64::from(step.gone.is_some())).sum());
    }
}

/// The ends of its first edge; for other outcomes the keys do not matter.
fn named(outcome: &Outcome) -> [Key; 2] {
    match outcome.changes.first() {
        Some(Change::Edge(edge)) => [edge.follower, edge.target],
        Some(Change::User(user)) => [user.key; 2],
        Some(Change::Record(record)) => [record.owner; 2],
        None => [Key::default(); 2],
    }
}

fn erases(outcome: &Outcome) -> bool {
    outcome.changes.iter().any(|change| matches!(change, Change::User(UserChange { after: None, .. })))
}

fn push_steps(change: &EdgeChange, follower: Option<u32>, target: Option<u32>, steps: &mut Vec<Step>) {
    let (Some(follower), Some(target)) = (follower, target) else { return };
    let version = change.after.version;
    let standing = |value: &EdgeValue, (other, key): (u32, Key)| {
        let plane = StoredPlane::of(change.kind, value)?;
        let place = Place { position: value.position, key };
        Some(Standing { plane, place, value: DeltaValue::new(value, version, other) })
    };
    let step = |side, owner, other| Step {
        owner,
        side,
        gone: change.before.as_ref().and_then(|before| standing(before, other)),
        came: standing(&change.after, other),
    };
    steps.push(step(Side::Following, follower, (target, change.target)));
    steps.push(step(Side::Followers, target, (follower, change.follower)));
}

/// A count never goes below zero: if it would, something was miscounted long before, and a clamp only hides it.
fn step(total: &mut u32, up: bool) {
    if up {
        *total += 1;
    } else if let Some(less) = total.checked_sub(1) {
        *total = less;
    } else {
        debug_assert!(false, "a count would go below zero");
        metrics::counter!("entourage_count_clamp_total").increment(1);
        tracing::error!("a count would have gone below zero; run `entourage verify`");
    }
}

impl Step {
    /// Whether the new entry is at the place of the old one and overrides it.
    fn replaces(&self) -> bool {
        self.gone.zip(self.came).is_some_and(|(gone, came)| (gone.plane, gone.place) == (came.plane, came.place))
    }

    /// Delta entries that the step adds.
    fn entries(&self) -> u64 {
        u64::from(self.gone.is_some() && !self.replaces()) + u64::from(self.came.is_some())
    }

    fn apply(&self, shard: &mut Shard) {
        let [from, to] = [self.gone, self.came].map(|standing| standing.map(|standing| standing.plane));
        if from != to {
            match self.side {
                Side::Following => self.change_rows(shard, from, to),
                Side::Followers => self.change_totals(shard, from, to),
            }
        }
        let (key, replaces) = (|plane| ListKey::new(plane, self.side, self.owner), self.replaces());
        if let Some(Standing { plane, place, .. }) = self.gone.filter(|_| !replaces) {
            shard.take_edge(key(plane), place);
        }
        if let Some(Standing { plane, place, value }) = self.came {
            shard.put_edge(key(plane), place, value, replaces);
        }
    }

    fn change_rows(&self, shard: &mut Shard, from: Option<StoredPlane>, to: Option<StoredPlane>) {
        let Some(other) = self.came.or(self.gone).map(|standing| standing.value.other) else { return };
        let [old, new] = [from, to].map(|plane| plane.map_or(&[][..], StoredPlane::rows));
        for &plane in old.iter().filter(|plane| !new.contains(plane)) {
            if let Some(lists) = shard.lists_mut(plane, self.owner) {
                lists.remove(other);
            }
        }
        for &plane in new.iter().filter(|plane| !old.contains(plane)) {
            if let Some(lists) = shard.lists_mut(plane, self.owner) {
                lists.insert(other);
            }
        }
    }

    fn change_totals(&self, shard: &mut Shard, from: Option<StoredPlane>, to: Option<StoredPlane>) {
        for (plane, up) in from.map(|plane| (plane, false)).into_iter().chain(to.map(|plane| (plane, true))) {
            if let Some(lists) = shard.lists_mut(plane, self.owner) {
                step(&mut lists.followers_total, up);
            }
        }
    }
}
