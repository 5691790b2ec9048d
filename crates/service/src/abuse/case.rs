//! A case: what is suspected of whom, since when, and on what evidence. As stored it has keys, not ids or names, so that
//! nothing of a person who is erased stays in it.

use std::collections::BTreeMap;

use entourage_model::{CaseMark, Error, Event, EventBody, Key, Millis, Record, Result, Space, User, UserId, Version};
use hashbrown::{HashMap, HashSet};
use serde::{Deserialize, Serialize};

use crate::ids::shown_id;

/// How many accounts one case names, and pauses.
pub const CASE_ACTORS_MAX: usize = 500;
/// How many targets it names.
pub const CASE_TARGETS_MAX: usize = 50;
/// How many events it shows, the newest ones.
pub const CASE_EVIDENCE_MAX: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseKind {
    /// One edge is made and ended again and again.
    PairChurn,
    /// An actor follows very many in an hour.
    MassFollow,
    /// Most follows of an actor end within 48 hours.
    FollowChurn,
    /// An actor sends very many requests in an hour.
    RequestFlood,
    /// An actor's last targets registered together, or have nearly the same name.
    LookAlikes,
    /// Most of a target's many new followers are fresh accounts.
    Surge,
    /// A ring of accounts follows the same targets.
    Cluster,
}

impl CaseKind {
    pub const ALL: [Self; 7] = [
        Self::PairChurn,
        Self::MassFollow,
        Self::FollowChurn,
        Self::RequestFlood,
        Self::LookAlikes,
        Self::Surge,
        Self::Cluster,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PairChurn => "pair_churn",
            Self::MassFollow => "mass_follow",
            Self::FollowChurn => "follow_churn",
            Self::RequestFlood => "request_flood",
            Self::LookAlikes => "look_alikes",
            Self::Surge => "surge",
            Self::Cluster => "cluster",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseState {
    Open,
    Dismissed,
    Confirmed,
}

impl CaseState {
    pub const ALL: [Self; 3] = [Self::Open, Self::Dismissed, Self::Confirmed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Dismissed => "dismissed",
            Self::Confirmed => "confirmed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What there is at most one open case of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Subject {
    pub(super) kind: CaseKind,
    pub(super) actor: Option<Key>,
    pub(super) target: Option<Key>,
}

impl Subject {
    pub(super) const fn actor(kind: CaseKind, actor: Key) -> Self {
        Self { kind, actor: Some(actor), target: None }
    }

    pub(super) const fn target(kind: CaseKind, target: Key) -> Self {
        Self { kind, actor: None, target: Some(target) }
    }
}

/// An event that speaks for a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Trace {
    pub(super) version: Version,
    pub(super) follower: Key,
    pub(super) target: Key,
}

/// What a detector found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) subject: Subject,
    pub(super) actors: Vec<Key>,
    pub(super) targets: Vec<Key>,
    /// The newest last.
    pub(super) traces: Vec<Trace>,
    pub(super) figures: Vec<(&'static str, f64)>,
    pub(super) at: Millis,
}

/// A person, not an id: who is created under it later is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Person {
    #[serde(rename = "k")]
    pub(super) key: Key,
    #[serde(rename = "c")]
    pub(super) created: Version,
    /// The case holds this person's right to follow.
    #[serde(rename = "p", default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) paused: bool,
    /// An administrator has decided about this person since, so that the case does not.
    #[serde(rename = "a", default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_left_to_admin: bool,
}

impl Person {
    pub(super) fn is(&self, user: &User) -> bool {
        self.key == user.key && self.created == user.created
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Document {
    pub(super) subject: Subject,
    pub(super) state: CaseState,
    pub(super) actors: Vec<Person>,
    pub(super) targets: Vec<Person>,
    pub(super) traces: Vec<Trace>,
    pub(super) figures: BTreeMap<Box<str>, f64>,
    /// How often it was found.
    pub(super) count: u64,
    pub(super) first_seen: Millis,
    pub(super) last_seen: Millis,
    pub(super) closed_at: Option<Millis>,
}

impl Document {
    pub(super) fn new(finding: &Finding, users: &HashMap<Key, User>) -> Self {
        let mut document = Self {
            subject: finding.subject,
            state: CaseState::Open,
            actors: Vec::new(),
            targets: Vec::new(),
            traces: Vec::new(),
            figures: BTreeMap::new(),
            count: 0,
            first_seen: finding.at,
            last_seen: finding.at,
            closed_at: None,
        };
        document.merge(finding, users);
        document
    }

    /// Adds what was found, within the bounds. Figures are the greatest there were.
    pub(super) fn merge(&mut self, finding: &Finding, users: &HashMap<Key, User>) {
        add(&mut self.actors, &finding.actors, users, CASE_ACTORS_MAX);
        add(&mut self.targets, &finding.targets, users, CASE_TARGETS_MAX);
        let known: HashSet<Version> = self.traces.iter().map(|trace| trace.version).collect();
        self.traces.extend(finding.traces.iter().filter(|trace| !known.contains(&trace.version)));
        self.traces.sort_by_key(|trace| trace.version);
        let surplus = self.traces.len().saturating_sub(CASE_EVIDENCE_MAX);
        self.traces.drain(..surplus);
        for (name, value) in &finding.figures {
            let figure = self.figures.entry((*name).into()).or_insert(*value);
            *figure = figure.max(*value);
        }
        self.count += 1;
        self.last_seen = self.last_seen.max(finding.at);
    }

    pub(super) fn read(record: &Record) -> Result<Self> {
        Self::decode(&record.value).ok_or_else(|| Error::internal("the record of a case cannot be read"))
    }

    fn decode(value: &[u8]) -> Option<Self> {
        CaseMark::of(value)?;
        serde_json::from_slice(value.get(1..)?).ok()
    }

    pub(super) fn encode(&self, mark: CaseMark) -> Result<Box<[u8]>> {
        let mut bytes = vec![mark.byte()];
        serde_json::to_writer(&mut bytes, self).map_err(|_| Error::internal("a case cannot be written"))?;
        Ok(bytes.into_boxed_slice())
    }

    /// Everybody it names.
    pub(super) fn people(&self) -> impl Iterator<Item = &Person> {
        self.actors.iter().chain(&self.targets)
    }

    pub(super) fn shown(&self, id: Version, updated: Version, users: &HashMap<Key, User>) -> Case {
        let user = |person: &Person| {
            let user = users.get(&person.key).filter(|user| person.is(user));
            CaseUser { id: shown_id(person.key, user), paused: person.paused }
        };
        // A trace of somebody who is no longer there names nobody.
        let known: HashMap<Key, Option<UserId>> = self.people().map(|person| (person.key, user(person).id)).collect();
        let named = |key: Key| match known.get(&key) {
            Some(id) => id.clone(),
            None => shown_id(key, users.get(&key)),
        };
        let evidence = |trace: &Trace| CaseEvidence {
            version: trace.version,
            follower: named(trace.follower),
            target: named(trace.target),
        };
        Case {
            id,
            kind: self.subject.kind,
            state: self.state,
            actors: self.actors.iter().map(user).collect(),
            targets: self.targets.iter().map(user).collect(),
            evidence: self.traces.iter().rev().map(evidence).collect(),
            figures: self.figures.iter().map(|(name, value)| (name.clone(), *value)).collect(),
            count: self.count,
            first_seen: self.first_seen,
            last_seen: self.last_seen,
            closed_at: self.closed_at,
            updated_at: updated.millis(),
        }
    }
}

fn add(people: &mut Vec<Person>, found: &[Key], users: &HashMap<Key, User>, max: usize) {
    let mut known: HashSet<Key> = people.iter().map(|person| person.key).collect();
    for user in found.iter().filter_map(|key| users.get(key)) {
        if people.len() >= max {
            return;
        }
        if known.insert(user.key) {
            people.push(Person { key: user.key, created: user.created, paused: false, is_left_to_admin: false });
        }
    }
}

/// Somebody in a case; nobody is named once they are erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseUser {
    pub id: Option<UserId>,
    /// This case pauses their right to follow.
    pub paused: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseEvidence {
    /// That of the event.
    pub version: Version,
    pub follower: Option<UserId>,
    pub target: Option<UserId>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub id: Version,
    pub kind: CaseKind,
    pub state: CaseState,
    pub actors: Vec<CaseUser>,
    pub targets: Vec<CaseUser>,
    /// Newest first.
    pub evidence: Vec<CaseEvidence>,
    /// What was counted, at its greatest.
    pub figures: Vec<(Box<str>, f64)>,
    /// How often it was found.
    pub count: u64,
    pub first_seen: Millis,
    pub last_seen: Millis,
    pub closed_at: Option<Millis>,
    pub updated_at: Millis,
}

/// What the event of a case tells of it; its ends are the case's first actor and its first target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseSummary {
    pub kind: CaseKind,
    pub state: CaseState,
    pub actors: usize,
    pub count: u64,
    pub(crate) ends: [Option<Key>; 2],
}

impl CaseSummary {
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let EventBody::Record { space: Space::Case, after: Some(value), .. } = &event.body else { return None };
        let document = Document::decode(value)?;
        let first = |people: &[Person]| people.first().map(|person| person.key);
        Some(Self {
            kind: document.subject.kind,
            state: document.state,
            actors: document.actors.len(),
            count: document.count,
            ends: [first(&document.actors), first(&document.targets)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(key: i64) -> (Key, User) {
        let version = Version::from_bits(77);
        let (id, registered_at) = (UserId::from(key), version.millis());
        let flags = (false, false, false);
        let (private, hide_lists, follow_suspended) = flags;
        let (name, avatar_url, created) = (None, None, version);
        let key = Key(key);
        (
            key,
            User { key, id, name, avatar_url, private, hide_lists, follow_suspended, registered_at, created, version },
        )
    }

    #[test]
    fn a_case_keeps_within_its_bounds_and_fits_into_a_record() {
        let users: HashMap<Key, User> = (i64::MAX - 2_000..i64::MAX).map(user).collect();
        let keys: Vec<Key> = users.keys().copied().collect();
        let trace = |number: u64| Trace { version: Version::from_bits(number), follower: keys[0], target: keys[1] };
        let finding = |from: u64| Finding {
            subject: Subject::target(CaseKind::Surge, keys[1]),
            actors: keys.clone(),
            targets: keys.clone(),
            traces: (from..from + 100).map(trace).collect(),
            figures: vec![("followers_in_hour", from as f64)],
            at: Millis::from_since_2000(from),
        };
        let mut document = Document::new(&finding(500), &users);
        document.merge(&finding(540), &users);
        document.merge(&finding(100), &users);
        assert_eq!((document.actors.len(), document.targets.len()), (CASE_ACTORS_MAX, CASE_TARGETS_MAX));
        assert_eq!(document.traces.last().map(|trace| trace.version.bits()), Some(639));
        assert_eq!((document.traces.len(), document.count), (CASE_EVIDENCE_MAX, 3));
        assert_eq!(document.figures.get("followers_in_hour"), Some(&540.0));
        document.actors.iter_mut().for_each(|person| person.paused = true);
        let bytes = document.encode(CaseMark::Open).unwrap();
        assert!(bytes.len() < entourage_model::RECORD_MAX_BYTES, "{} bytes", bytes.len());
        assert_eq!(Document::decode(&bytes).unwrap().actors, document.actors);
        assert!(Document::decode(b"").is_none() && Document::decode(b"{}").is_none());
    }
}
