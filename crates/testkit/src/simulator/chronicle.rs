//! The logs of all homes as they were written, including what is past retention: the state at every moment.

use std::collections::BTreeMap;

use entourage_model::{Event, EventBody, Key, Sequence, State, User, Version};

use super::explain::Ever;
use entourage_memory::partitioned::{engine::Engine, inbound::Link};

/// An event, and when the person its edge meant was created.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    pub(super) event: Event,
    pub(super) means: Option<Version>,
    pub(super) step: u64,
}

/// The state of an edge by its last event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) version: Version,
    pub(super) state: Option<State>,
    pub(super) means: Option<Version>,
}

#[derive(Default)]
pub(super) struct Chronicle {
    logs: Vec<Vec<Noted>>,
    standing: BTreeMap<Link, Standing>,
    pub(super) ever: Ever,
}

impl Chronicle {
    pub(super) fn new(homes: usize) -> Self {
        Self { logs: vec![Vec::new(); homes], ..Self::default() }
    }

    pub(super) fn lasts(&self) -> Vec<Sequence> {
        self.logs.iter().map(|log| Sequence(log.len() as u64)).collect()
    }

    pub(super) fn log(&self, home: usize) -> &[Noted] {
        &self.logs[home]
    }

    /// The version of an event, unique in that home.
    pub(super) fn version_at(&self, home: usize, sequence: Sequence) -> Option<Version> {
        let index = usize::try_from(sequence.0).ok()?.checked_sub(1)?;
        self.logs[home].get(index).map(|noted| noted.event.version)
    }

    /// Records new events. Earlier ones must still be there, and each edge must continue from its last state.
    pub(super) fn follow(&mut self, engine: &Engine, step: u64) -> Result<(), String> {
        for (index, log) in self.logs.iter_mut().enumerate() {
            let home = engine.homes[index].lock();
            let (noted, dropped) = (log.len() as u64, home.dropped.0);
            if home.last().0 < noted || dropped > noted {
                return Err(format!("home {index} has events from {dropped} to {}, of {noted}", home.last()));
            }
            let last = home.events.iter().find(|event| event.sequence.0 == noted);
            if let (Some(last), Some(known)) = (last, log.last())
                && *last != known.event
            {
                return Err(format!("home {index} wrote {last:?} over {:?}", known.event));
            }
            for event in home.events.iter().skip((noted - dropped) as usize) {
                if event.sequence.0 != log.len() as u64 + 1 {
                    return Err(format!("home {index} has a gap before {event:?}"));
                }
                let means = link_of(event).and_then(|link| home.origin(link));
                go_on(&mut self.standing, event, means).map_err(|wrong| format!("home {index}: {wrong}"))?;
                self.ever.note(event);
                log.push(Noted { event: event.clone(), means, step });
            }
        }
        Ok(())
    }

    /// A home has lost what it wrote after `last`.
    pub(super) fn fork(&mut self, home: usize, last: Sequence) {
        self.logs[home].truncate(last.0 as usize);
        self.ever.forks += 1;
        self.standing.clear();
        for noted in self.logs.iter().flatten() {
            let _was_right_before = go_on(&mut self.standing, &noted.event, noted.means);
        }
    }

    /// The event of an edge's change.
    pub(super) fn find(&self, home: usize, link: Link, version: Version) -> Option<&Event> {
        let mut events = self.logs[home].iter().map(|noted| &noted.event);
        events.find(|event| event.version == version && link_of(event) == Some(link))
    }

    /// All states of an edge in its home, from the moment after `low` until now.
    pub(super) fn edge_since(&self, home: usize, link: Link, low: Sequence) -> Vec<Standing> {
        let events = self.logs[home].iter().filter(|noted| link_of(&noted.event) == Some(link));
        since(low, Standing::default(), events, |Noted { event, means, .. }| match event.body {
            EventBody::Edge { after: state, .. } => Standing { version: event.version, state, means: *means },
            _ => Standing::default(),
        })
    }

    /// All states of a user.
    pub(super) fn user_since(&self, home: usize, key: Key, low: Sequence) -> Vec<Option<User>> {
        let is_of = |noted: &&Noted| matches!(noted.event.body, EventBody::User { key: of, .. } if of == key);
        since(low, None, self.logs[home].iter().filter(is_of), |noted| match &noted.event.body {
            EventBody::User { after, .. } => after.as_deref().cloned(),
            _ => None,
        })
    }
}

fn since<'a, T>(
    low: Sequence,
    first: T,
    events: impl Iterator<Item = &'a Noted>,
    read: impl Fn(&Noted) -> T,
) -> Vec<T> {
    let mut was = vec![first];
    for noted in events {
        if noted.event.sequence <= low {
            was.clear();
        }
        was.push(read(noted));
    }
    was
}

pub(super) fn link_of(event: &Event) -> Option<Link> {
    match event.body {
        EventBody::Edge { kind, follower, target, .. } => Some((kind, follower, target)),
        _ => None,
    }
}

/// An edge begins anew only if it had ended, or if it means another person than before.
fn go_on(standing: &mut BTreeMap<Link, Standing>, event: &Event, means: Option<Version>) -> Result<(), String> {
    let EventBody::Edge { kind, follower, target, before, after, .. } = event.body else { return Ok(()) };
    let was = standing.entry((kind, follower, target)).or_default();
    let is_another = was.means.is_some() && was.means != means;
    if event.version <= was.version || (before != was.state && !(before.is_none() && is_another)) {
        return Err(format!("{event:?}, which means {means:?}, comes after {was:?}"));
    }
    *was = Standing { version: event.version, state: after, means };
    Ok(())
}

#[cfg(test)]
mod tests {
    use entourage_model::{Cause, Kind};

    use super::*;

    fn event(version: u64, before: Option<State>, after: Option<State>) -> Event {
        let (kind, follower, target, cause) = (Kind::Follow, Key(1), Key(2), Cause::Follower);
        let body = EventBody::Edge { kind, follower, target, cause, before, after, quiet: false, expires: None };
        Event { sequence: Sequence(version), version: Version::from_bits(version), body }
    }

    #[test]
    fn an_edge_begins_anew_only_after_its_end_or_for_another_person() {
        use State::{Active, Pending};
        let (one, other) = (Some(Version::from_bits(1)), Some(Version::from_bits(2)));
        let begin = |means, next: (u64, Option<State>, Option<State>, Option<Version>)| {
            let mut standing = BTreeMap::new();
            go_on(&mut standing, &event(5, None, Some(Active)), means).unwrap();
            go_on(&mut standing, &event(next.0, next.1, next.2), next.3).is_ok()
        };
        assert!(begin(one, (6, Some(Active), None, one)));
        assert!(begin(one, (6, Some(Active), Some(Active), one)));
        assert!(begin(one, (6, None, Some(Active), other)), "another person");
        assert!(!begin(one, (6, None, Some(Active), one)), "the same person, whom it follows already");
        assert!(!begin(one, (6, Some(Pending), None, one)), "it was no request");
        assert!(!begin(one, (5, Some(Active), None, one)), "the version does not rise");
        let mut standing = BTreeMap::new();
        go_on(&mut standing, &event(5, None, Some(Active)), one).unwrap();
        go_on(&mut standing, &event(6, Some(Active), None), one).unwrap();
        assert!(go_on(&mut standing, &event(7, None, Some(Active)), one).is_ok(), "after its end");
    }
}
