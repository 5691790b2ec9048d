//! Decides the two halves of an edge where each lies in the home of its user: what the target's home does with a half
//! that arrives, and what the follower's home then does with its own.

use smallvec::SmallVec;

use super::{View, answer_request, edge, mutes, remove};
use crate::{Cause, Change, Decision, EdgeChange, EdgeValue, Key, Kind, Refusal, Reply, State, User, Version};

/// What the target's home is told about an edge that the follower's home changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Half {
    pub kind: Kind,
    pub follower: Key,
    pub target: Key,
    pub cause: Cause,
    pub after: EdgeValue,
    /// When the intended target was created: an id created again is another person.
    pub created: Version,
    /// The version of the target's record that the follower's home read.
    pub decided_on: Version,
}

/// The judgement of a half in the target's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    Take,
    /// Decided before the account went private: the follower's home turns it into a request.
    Demote,
    /// Decided before the account went public: the follower's home turns it into a follow.
    Accept,
    /// Meant for a person who no longer exists: the follower's home reverts it.
    TakeBack,
}

impl Half {
    /// `target` is the user of that key in the target's home. Only for halves that are newer than the edge known there:
    /// a follower accepted before the account went private stays.
    pub fn judge(&self, target: Option<&User>) -> Judgement {
        if !self.after.is_live() {
            return Judgement::Take;
        }
        let Some(target) = target.filter(|target| target.created == self.created) else {
            return Judgement::TakeBack;
        };
        if self.kind != Kind::Follow || target.version == self.decided_on {
            return Judgement::Take;
        }
        match self.after.state {
            // An import needs no consent.
            State::Active if target.private && !self.after.accepted && self.cause != Cause::Import => Judgement::Demote,
            State::Pending if !target.private => Judgement::Accept,
            _ => Judgement::Take,
        }
    }

    /// Carries out a judgement in the follower's home, unless the edge has changed since: then another half describes
    /// it.
    pub fn correct(&self, view: &impl View, judgement: Judgement, version: Version) -> Result<Decision, Refusal> {
        let Self { kind, follower, target, after: before, .. } = *self;
        if view.edge(kind, follower, target) != Some(before) {
            return Ok(nothing());
        }
        let mut decision = match judgement {
            Judgement::Take => nothing(),
            Judgement::TakeBack => remove(view, kind, follower, target, Cause::Erase, version),
            Judgement::Accept => answer_request(view, follower, target, State::Active, version)?,
            Judgement::Demote => {
                let asks = EdgeValue { state: State::Pending, ..EdgeValue::active(version) };
                edge(kind, follower, target, Cause::Follower, Some(before), asks)
            }
        };
        mutes::follow_ends(view, &mut decision);
        Ok(decision)
    }

    /// The target's side of a block: it ends the target's own follow. `known` is the version of this block in the
    /// target's home, lifted or not. `None`: it is no newer, so a late block never follows its unblock.
    pub fn mirror(&self, view: &impl View, known: Option<Version>, version: Version) -> Option<Decision> {
        if known.is_some_and(|known| known >= self.after.version) {
            return None;
        }
        if !self.after.is_live() {
            return Some(nothing());
        }
        Some(remove(view, Kind::Follow, self.target, self.follower, Cause::Block, version))
    }

    /// States again what the follower's home has of an edge, at a version above that of `self`, which it lost: so that
    /// the lost write does not win for good where it was heard.
    pub fn restate(&self, view: &impl View, version: Version) -> Decision {
        let Self { kind, follower, target, after: lost, .. } = *self;
        let before = view.edge(kind, follower, target);
        let after = match before {
            Some(value) => EdgeValue { version, ..value },
            None => EdgeValue { state: State::Removed, version, ..lost },
        };
        let change = EdgeChange { kind, follower, target, cause: Cause::Follower, before, after };
        Decision { reply: Reply::Gone { changed: true }, changes: SmallVec::from_iter([Change::Edge(change)]) }
    }
}

fn nothing() -> Decision {
    Decision { reply: Reply::Gone { changed: false }, changes: SmallVec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buckets, IdempotencyRecord, Millis, Moments, Quota, Record, RecordId, Space, UserId};

    /// One edge, as the queried home has it.
    struct One(Option<(Kind, Key, Key, EdgeValue)>);

    impl View for One {
        fn buckets(&self) -> Buckets {
            Buckets::ONE
        }

        fn user_exists(&self, _: Key) -> bool {
            true
        }
        fn is_private(&self, _: Key) -> bool {
            false
        }
        fn is_suspended(&self, _: Key) -> bool {
            false
        }
        fn user(&self, _: Key) -> Option<User> {
            None
        }
        fn has_edge(&self, kind: Kind, follower: Key, target: Key) -> bool {
            self.edge(kind, follower, target).is_some()
        }
        fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue> {
            self.0.filter(|edge| (edge.0, edge.1, edge.2) == (kind, follower, target)).map(|edge| edge.3)
        }
        fn following_load(&self, _: Key) -> u64 {
            0
        }
        fn idempotency(&self, _: &[u8; 16], _: Version) -> Option<IdempotencyRecord> {
            None
        }
        fn quota(&self, _: Key) -> Quota {
            Quota::default()
        }
        fn ends(&self, _: Key, _: Key) -> Moments {
            Moments::default()
        }
        fn record(&self, _: Space, _: Key, _: &RecordId) -> Option<Record> {
            None
        }
        fn record_count(&self, _: Space, _: Key) -> u64 {
            0
        }
        fn records(&self, _: Space, _: Key, _: &[u8], _: usize) -> Vec<(RecordId, Version)> {
            Vec::new()
        }
        fn edges_of(&self, _: Key, _: usize) -> Vec<crate::Edge> {
            Vec::new()
        }
    }

    const A: Key = Key(1);
    const B: Key = Key(2);

    fn version(bits: u64) -> Version {
        Version::from_bits(bits)
    }

    fn target(private: bool, changed: u64) -> User {
        User {
            key: B,
            id: UserId::from(2),
            name: None,
            avatar_url: None,
            private,
            hide_lists: false,
            follow_suspended: false,
            registered_at: Millis::from_since_2000(1),
            created: version(5),
            version: version(changed),
        }
    }

    fn half(state: State) -> Half {
        let after = EdgeValue { state, ..EdgeValue::active(version(50)) };
        let (created, decided_on) = (version(5), version(10));
        Half { kind: Kind::Follow, follower: A, target: B, cause: Cause::Follower, after, created, decided_on }
    }

    #[test]
    fn a_half_is_judged_by_the_target_as_it_is_now() {
        use Judgement::{Accept, Demote, Take, TakeBack};
        let (follow, request) = (half(State::Active), half(State::Pending));
        let accepted = Half { after: EdgeValue { accepted: true, ..follow.after }, ..follow };
        let mute = Half { kind: Kind::Mute, ..follow };
        let cases = [
            (follow, Some(target(false, 10)), Take),
            (follow, Some(target(true, 20)), Demote),
            (follow, Some(target(false, 20)), Take),
            (request, Some(target(true, 10)), Take),
            (request, Some(target(true, 20)), Take),
            (request, Some(target(false, 20)), Accept),
            (accepted, Some(target(true, 20)), Take),
            (Half { cause: Cause::Import, ..follow }, Some(target(true, 20)), Take),
            (mute, Some(target(true, 20)), Take),
            (follow, None, TakeBack),
            (mute, None, TakeBack),
            (follow, Some(User { created: version(40), ..target(false, 40) }), TakeBack),
            (half(State::Removed), None, Take),
        ];
        for (half, target, expected) in cases {
            assert_eq!(half.judge(target.as_ref()), expected, "{half:?} {target:?}");
        }
    }

    #[test]
    fn only_the_edge_that_was_judged_is_corrected() {
        let (follow, now) = (half(State::Active), version(60));
        let stands = One(Some((Kind::Follow, A, B, follow.after)));
        let after = |judgement| match follow.correct(&stands, judgement, now).unwrap().changes.as_slice() {
            [Change::Edge(change)] => Some((change.after, change.cause)),
            _ => None,
        };
        assert_eq!(after(Judgement::Take), None);
        let asks = EdgeValue { state: State::Pending, ..EdgeValue::active(now) };
        assert_eq!(after(Judgement::Demote), Some((asks, Cause::Follower)));
        let gone = EdgeValue { state: State::Removed, version: now, ..follow.after };
        assert_eq!(after(Judgement::TakeBack), Some((gone, Cause::Erase)));
        let (changed, request) = (EdgeValue { version: version(55), ..follow.after }, half(State::Pending));
        for view in [One(None), One(Some((Kind::Follow, A, B, changed)))] {
            for judgement in [Judgement::Demote, Judgement::Accept, Judgement::TakeBack] {
                assert_eq!(follow.correct(&view, judgement, now).unwrap().changes.len(), 0);
            }
        }
        let asked = One(Some((Kind::Follow, A, B, request.after)));
        let accepted = request.correct(&asked, Judgement::Accept, now).unwrap();
        let expected = EdgeValue { accepted: true, ..EdgeValue::active(now) };
        assert_eq!(accepted.reply, Reply::Edge { value: expected, created: false, changed: true });
    }

    #[test]
    fn a_late_block_does_not_follow_its_unblock() {
        let block = Half { kind: Kind::Block, ..half(State::Active) };
        let back = One(Some((Kind::Follow, B, A, EdgeValue::active(version(30)))));
        let changes = |known, half: Half| half.mirror(&back, known, version(60)).map(|decision| decision.changes.len());
        assert_eq!(changes(None, block), Some(1));
        assert_eq!(changes(Some(version(49)), block), Some(1));
        assert_eq!(changes(Some(version(50)), block), None);
        assert_eq!(changes(Some(version(51)), block), None);
        let lifted = Half { after: EdgeValue { state: State::Removed, ..block.after }, ..block };
        assert_eq!(changes(Some(version(49)), lifted), Some(0));
    }

    #[test]
    fn what_was_lost_is_said_again_at_a_greater_version() {
        let lost = half(State::Active);
        let stood = EdgeValue { quiet: true, ..EdgeValue::active(version(20)) };
        for (known, state) in [(None, State::Removed), (Some(stood), State::Active)] {
            let view = One(known.map(|value| (Kind::Follow, A, B, value)));
            let decision = lost.restate(&view, version(60));
            let Some(Change::Edge(change)) = decision.changes.first() else { panic!("an edge changes") };
            assert_eq!((change.before, change.after.version, change.after.state), (known, version(60), state));
            assert_eq!(change.after.merge(lost.after), change.after);
        }
    }
}
