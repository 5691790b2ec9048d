//! Requests and replies, compared with the logs: each write takes effect once, between request and reply, in the order
//! of its home, and the reply was true at some moment between the two.

use std::collections::{BTreeMap, BTreeSet};

use entourage_model::{
    Change, Code, EdgeChange, Error, Event, EventBody, Key, Kind, Operation, Outcome, Reply, Result as Answer, State,
    Version, Write,
};

use super::{
    chronicle::Chronicle,
    window::{Asked, Window},
};
use entourage_memory::partitioned::{engine::Engine, engine::NOT_WRITTEN, inbound::Link};

type Scope = [u8; 16];

#[derive(Default)]
pub(super) struct History {
    /// The request of each change; those with a key may see theirs again.
    pub(super) claimed: BTreeMap<(Link, Version), Option<Scope>>,
    /// When each was reported.
    acked: BTreeMap<(Link, Version), u64>,
    replies: BTreeMap<Scope, (usize, Reply)>,
    /// Homes that went back since everything had settled: others may have seen what is lost, and act on it.
    went_back: BTreeSet<usize>,
    /// Writes that may have been made, and may still be.
    pub(super) unheard: Vec<(Operation, Option<Scope>)>,
}

impl History {
    pub(super) fn heard(
        &mut self,
        write: &Write,
        asked: &Asked,
        result: &Answer<Outcome>,
        (engine, chronicle, step): (&Engine, &Chronicle, u64),
    ) -> Result<(), String> {
        let went_back = self.went_back.clone();
        let window = Window { engine, chronicle, asked, went_back: &went_back };
        let scope = write.idempotency.map(|key| key.scope);
        let wrong = match result {
            Ok(outcome) if outcome.replayed => self.replayed(&write.operation, scope, outcome, &window),
            Ok(outcome) => {
                let home = engine.home_of(write.operation.home());
                self.replies.extend(scope.map(|scope| (scope, (home, outcome.reply))));
                self.acked(outcome, scope, step, &window).or_else(|| was_so(&write.operation, outcome, &window))
            }
            Err(error) if error.code().http_status() >= 500 => {
                self.lost(write, error.detail() == NOT_WRITTEN);
                None
            }
            Err(error) => (!self.was_refused_rightly(&write.operation, error, &window)).then(|| error.to_string()),
        };
        match wrong {
            Some(wrong) => Err(format!("{wrong}: {write:?}, asked at step {}, heard {result:?}", asked.step)),
            None => Ok(()),
        }
    }

    /// No reply. `is_not_made`: a reply that it was not made, and never will be.
    pub(super) fn lost(&mut self, write: &Write, is_not_made: bool) {
        let scope = write.idempotency.map(|key| key.scope);
        let is_known = scope.is_some() && self.unheard.iter().any(|(_, known)| *known == scope);
        let is_whole = !matches!(write.operation, Operation::EraseEdges { .. });
        if !(is_known || is_not_made && is_whole) {
            self.unheard.push((write.operation.clone(), scope));
        }
    }

    /// A home has lost what came after `last`.
    pub(super) fn forked(&mut self, home: usize, engine: &Engine, chronicle: &Chronicle) {
        let is_there = |link: Link, version| chronicle.find(engine.home_of(link.1), link, version).is_some();
        self.claimed.retain(|(link, version), _| is_there(*link, *version));
        self.acked.retain(|(link, version), _| is_there(*link, *version));
        self.replies.retain(|_, (of, _)| *of != home);
        self.went_back.insert(home);
    }

    pub(super) fn settled(&mut self) {
        self.went_back.clear();
    }

    /// Each change has an event of its own, after the request.
    fn acked(&mut self, outcome: &Outcome, scope: Option<Scope>, step: u64, window: &Window<'_>) -> Option<String> {
        for change in &outcome.changes {
            let Change::Edge(edge) = change else { continue };
            let (link, version) = ((edge.kind, edge.follower, edge.target), edge.after.version);
            let home = window.engine.home_of(edge.follower);
            let Some(event) = window.chronicle.find(home, link, version) else {
                return Some(format!("an acked change of {link:?} has no event"));
            };
            if event.sequence <= window.low(home) {
                return Some(format!("{event:?} was there before"));
            }
            if self.claimed.insert((link, version), scope).is_some() {
                return Some(format!("{event:?} is somebody else's"));
            }
            self.acked.insert((link, version), step);
        }
        None
    }

    fn replayed(
        &mut self,
        operation: &Operation,
        scope: Option<Scope>,
        outcome: &Outcome,
        window: &Window<'_>,
    ) -> Option<String> {
        let known = scope.and_then(|scope| self.replies.get(&scope));
        if known.is_some_and(|(_, reply)| *reply != outcome.reply) {
            return Some(format!("the first one heard {known:?}"));
        }
        let version = match outcome.reply {
            Reply::Edge { value, .. } => value.version,
            _ => outcome.version,
        };
        let link = own_link(operation).filter(|_| outcome.reply.changed())?;
        let event = window.chronicle.find(window.engine.home_of(link.1), link, version);
        let fits = |event: &Event| match (&event.body, outcome.reply) {
            (EventBody::Edge { after, .. }, Reply::Edge { value, .. }) => *after == Some(value.state),
            (EventBody::Edge { after, .. }, Reply::Gone { .. }) => after.is_none(),
            _ => false,
        };
        if !event.is_some_and(fits) {
            return Some(format!("{link:?} has no such event of version {version}: {event:?}"));
        }
        match self.claimed.insert((link, version), scope) {
            Some(other) if other != scope => Some(format!("{link:?} of version {version} is somebody else's")),
            _ => None,
        }
    }

    fn was_refused_rightly(&self, operation: &Operation, error: &Error, window: &Window<'_>) -> bool {
        let (one, other) = operation.parties();
        let is_gone = window.was_gone(one) || other.is_some_and(|other| window.was_gone(other));
        let was = |state| {
            let was =
                |link: Link| window.may_be_lost(link.1) || window.edge(link).iter().any(|edge| edge.state == state);
            own_link(operation).is_some_and(was)
        };
        match error.code() {
            Code::UserNotFound | Code::ActorNotFound | Code::RequestInProgress => is_gone,
            Code::Blocked => other.is_some_and(|other| {
                [(Kind::Block, one, other), (Kind::Block, other, one)]
                    .iter()
                    .any(|link| self.was_blocked(*link, window))
            }),
            // There was nothing to answer, or something else.
            Code::NotFound => {
                let is_release = matches!(operation, Operation::Release { .. });
                let other = if is_release { State::Pending } else { State::Parked };
                let was_another = was(Some(State::Active)) || was(Some(other));
                own_link(operation).is_some_and(|link| window.was_absent(link) || was_another)
            }
            Code::QuietPrivate => {
                let was_waiting = was(Some(State::Pending)) || was(Some(State::Parked));
                other.is_some_and(|other| window.was_private(other, true)) || was_waiting
            }
            _ => false,
        }
    }

    /// It was, or its end was not reported before this request: the other home may not have it.
    fn was_blocked(&self, link: Link, window: &Window<'_>) -> bool {
        window.may_be_lost(link.1)
            || window.edge(link).iter().any(|block| {
                let is_acked = self.acked.get(&(link, block.version)).is_some_and(|step| *step < window.asked.step);
                block.state.is_some() || (block.version > Version::ZERO && !is_acked)
            })
    }
}

pub(super) fn own_link(operation: &Operation) -> Option<Link> {
    match *operation {
        Operation::Follow { follower, target, .. }
        | Operation::Unfollow { follower, target }
        | Operation::RemoveFollower { target, follower, .. }
        | Operation::Release { target, follower, .. }
        | Operation::Accept { target, follower }
        | Operation::Reject { target, follower } => Some((Kind::Follow, follower, target)),
        Operation::Block { actor, target } | Operation::Unblock { actor, target } => Some((Kind::Block, actor, target)),
        Operation::Mute { actor, target, .. } | Operation::Unmute { actor, target } => {
            Some((Kind::Mute, actor, target))
        }
        _ => None,
    }
}

/// Whether a first reply fits its change, or the state. `None`: it does.
fn was_so(operation: &Operation, outcome: &Outcome, window: &Window<'_>) -> Option<String> {
    let link = own_link(operation)?;
    let made = outcome.changes.iter().find_map(|change| match change {
        Change::Edge(edge) if (edge.kind, edge.follower, edge.target) == link => Some(edge),
        _ => None,
    });
    let is_right = match (outcome.reply, made) {
        (Reply::Edge { value, created, changed: true }, Some(edge)) => {
            edge.after == value && created == edge.before.is_none() && is_let_in(operation, edge, window)
        }
        (Reply::Gone { changed: true }, Some(edge)) => !edge.after.is_live() && was_parked(operation, edge),
        (Reply::Edge { value, changed: false, .. }, None) => {
            window.edge(link).iter().any(|edge| (edge.version, edge.state) == (value.version, Some(value.state)))
        }
        (Reply::Gone { changed: false }, None) => window.was_absent(link),
        _ => false,
    };
    (!is_right).then(|| "it was not so at any moment".to_owned())
}

/// A follow of a private account is a request, a new one that is to be seen is parked where that was asked for, and what is
/// released is a request or a follow, as if it came then.
fn is_let_in(operation: &Operation, edge: &EdgeChange, window: &Window<'_>) -> bool {
    let (state, is_seen) = (edge.after.state, !edge.after.quiet);
    let is_as_private = |target: Key| window.was_private(target, state == State::Pending);
    match *operation {
        Operation::Follow { park, .. } if park && is_seen => state == State::Parked,
        Operation::Follow { target, .. } => state != State::Parked && (edge.before.is_some() || is_as_private(target)),
        Operation::Release { target, .. } => was_parked(operation, edge) && is_as_private(target),
        _ => true,
    }
}

/// Only a parked follow is released.
fn was_parked(operation: &Operation, edge: &EdgeChange) -> bool {
    let is_release = matches!(operation, Operation::Release { .. });
    !is_release || edge.before.is_some_and(|before| before.state == State::Parked)
}
