//! The decision: the outcome of an operation, given what is stored. Plain code without clock, disk or threads, run once
//! inside every store's commit; what it returns is what gets stored.

mod erase;
mod fences;
mod halves;
mod import;
mod limits;
mod mutes;
mod posts;
mod records;

use smallvec::{SmallVec, smallvec};

pub use self::halves::{Half, Judgement};
use crate::{
    Buckets, Cause, Change, Decision, Edge, EdgeChange, EdgeValue, Expiry, IdempotencyKey, IdempotencyRecord, Key,
    Kind, Millis, Moments, Operation, Outcome, Overwrite, Quota, Record, RecordId, Refusal, Reply, Sequence, Space,
    State, User, UserChange, UserId, UserPatch, Version, Watermark, Write,
};

/// What a decision may read: a stable view of the state its commit will change.
pub trait View {
    /// Over how many owners the server's own records are spread.
    fn buckets(&self) -> Buckets;
    fn user_exists(&self, key: Key) -> bool;
    fn is_private(&self, key: Key) -> bool;
    /// Whether a user's right to follow is suspended.
    fn is_suspended(&self, key: Key) -> bool;
    fn user(&self, key: Key) -> Option<User>;
    /// Whether there is a live edge of this kind, in any state.
    fn has_edge(&self, kind: Kind, follower: Key, target: Key) -> bool;
    /// The live edge of this kind.
    fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue>;
    /// Active + pending + parked follows of a user.
    fn following_load(&self, follower: Key) -> u64;
    /// The outcome of an earlier request with this key, unless it has expired by `now`.
    fn idempotency(&self, scope: &[u8; 16], now: Version) -> Option<IdempotencyRecord>;
    /// The quota state of this actor. Read only when a write has limits.
    fn quota(&self, actor: Key) -> Quota;
    /// When follows and requests between the two ended within the last day, other than by erasure. Read only when a
    /// write has limits.
    fn ends(&self, follower: Key, target: Key) -> Moments;
    fn record(&self, space: Space, owner: Key, id: &RecordId) -> Option<Record>;
    fn record_count(&self, space: Space, owner: Key) -> u64;
    /// The records whose ids begin with `prefix`, by id, at most `limit`: their ids and versions. The empty prefix
    /// matches all.
    fn records(&self, space: Space, owner: Key, prefix: &[u8], limit: usize) -> Vec<(RecordId, Version)>;
    /// At most `limit` live edges of every kind, in both directions; also for a key without a user.
    fn edges_of(&self, key: Key, limit: usize) -> Vec<Edge>;
}

/// Resolves one write: a fenced one is refused, a known idempotency key replays, anything else is decided. `last` is
/// the log's last sequence so far. Changes nothing.
pub fn resolve(view: &impl View, write: &Write, version: Version, last: Sequence) -> Result<Outcome, Refusal> {
    let home = write.operation.home();
    let fence = write.fence.as_ref().map(|fence| fences::check(view, home, fence)).transpose()?.flatten();
    if let Some(key) = &write.idempotency
        && let Some(record) = view.idempotency(&key.scope, version)
    {
        return replay(record, *key, Watermark::at(last));
    }
    let decided = decide(view, &write.operation, version);
    let quota = limits::take(view, &write.operation, write.limits.as_ref(), &decided, version)?;
    let Decision { reply, mut changes } = decided?;
    changes.extend(write.tally.as_ref().and_then(|id| records::count(view, home, id, &reply)));
    let progress = write.progress.as_ref().map(|progress| fences::advance(view, home, progress)).transpose()?;
    changes.extend(progress.flatten().into_iter().chain(fence));
    let watermark = Watermark::at(last.plus(changes.len() as u64));
    let idempotency = write.idempotency.map(|key| Box::new(IdempotencyRecord { key, version, reply }));
    Ok(Outcome { watermark, version, reply, changes, idempotency, quota, replayed: false })
}

/// The reply of a request with this key, given the outcome of an earlier one; a reader at `watermark` has seen it.
pub fn replay(record: IdempotencyRecord, key: IdempotencyKey, watermark: Watermark) -> Result<Outcome, Refusal> {
    if record.key.request != key.request {
        return Err(Refusal::IdempotencyMismatch);
    }
    let (version, reply, changes) = (record.version, record.reply, SmallVec::new());
    Ok(Outcome { watermark, version, reply, changes, idempotency: Some(Box::new(record)), quota: None, replayed: true })
}

/// Decides one operation at `version`, regardless of the limits of its write. Changes nothing.
pub fn decide(view: &impl View, operation: &Operation, version: Version) -> Result<Decision, Refusal> {
    let mut decision = decide_one(view, operation, version)?;
    mutes::follow_ends(view, &mut decision);
    Ok(decision)
}

fn decide_one(view: &impl View, operation: &Operation, version: Version) -> Result<Decision, Refusal> {
    match *operation {
        Operation::PutUser { key, ref id, ref patch, overwrite } => put_user(view, key, id, patch, overwrite, version),
        Operation::Follow { follower, target, quiet, cap, park } => {
            follow(view, follower, target, quiet, cap, park, version)
        }
        Operation::Unfollow { follower, target } => {
            actor(view, follower)?;
            Ok(remove(view, Kind::Follow, follower, target, Cause::Follower, version))
        }
        Operation::RemoveFollower { target, follower, sees_quiet } => {
            actor(view, target)?;
            let is_secret = |edge: EdgeValue| edge.quiet || edge.state == State::Parked;
            let hidden = !sees_quiet && view.edge(Kind::Follow, follower, target).is_some_and(is_secret);
            let mut decision = remove(view, Kind::Follow, follower, target, Cause::Target, version);
            if hidden {
                decision.reply = Reply::Gone { changed: false };
            }
            Ok(decision)
        }
        Operation::Accept { target, follower } => {
            actor(view, target)?;
            answer_request(view, follower, target, State::Active, version)
        }
        Operation::Reject { target, follower } => {
            actor(view, target)?;
            answer_request(view, follower, target, State::Removed, version)
        }
        Operation::Release { target, follower, accept } => release(view, follower, target, accept, version),
        Operation::Block { actor: by, target } => block(view, by, target, version),
        Operation::Mute { actor: by, target, expires_at } => mark(view, Kind::Mute, by, target, expires_at, version),
        Operation::Unblock { actor: by, target } => {
            actor(view, by)?;
            Ok(remove(view, Kind::Block, by, target, Cause::Follower, version))
        }
        Operation::Unmute { actor: by, target } => {
            actor(view, by)?;
            Ok(remove(view, Kind::Mute, by, target, Cause::Follower, version))
        }
        Operation::ExpireMute { actor: by, target, now } => Ok(expire_mute(view, by, target, now, version)),
        Operation::Import { follower, target, at, quiet } => import::follow(view, follower, target, at, quiet, version),
        Operation::ImportRequest { follower, target, at } => import::request(view, follower, target, at, version),
        Operation::ImportBlock { actor: by, target, at } => import::block(view, by, target, at, version),
        Operation::ImportMute { actor: by, target, at, expires_at } => {
            import::mute(view, by, target, at, expires_at, version)
        }
        Operation::ImportPost { author, at, id, ref value } => posts::import(view, author, at, id, value, version),
        Operation::Suspend { key, suspended } => suspend(view, key, suspended, version),
        Operation::PutRecord { space, owner, ref id, ref value, condition, cap } => {
            records::put(view, space, owner, id, value.as_deref(), condition, cap, version)
        }
        Operation::AddRecord { space, owner, ref value, cap } => records::add(view, space, owner, value, cap, version),
        Operation::Post { author, ref value } => posts::publish(view, author, value, version),
        Operation::GroupMember { owner, ref group, member, present } => {
            records::member(view, owner, group, member, present, version)
        }
        Operation::Erase { key, created } => Ok(erase::user(view, key, created)),
        Operation::EraseEdges { key, limit } => Ok(erase::edges(view, key, limit, version)),
        Operation::Nothing => Ok(Decision { reply: Reply::Gone { changed: false }, changes: SmallVec::new() }),
    }
}

fn actor(view: &impl View, key: Key) -> Result<(), Refusal> {
    if view.user_exists(key) { Ok(()) } else { Err(Refusal::ActorNotFound) }
}

/// Both exist, differ, and neither blocks the other: what every new follow edge needs.
fn pair(view: &impl View, follower: Key, target: Key) -> Result<(), Refusal> {
    if follower == target {
        return Err(Refusal::SelfFollow);
    }
    actor(view, follower)?;
    if !view.user_exists(target) {
        return Err(Refusal::UserNotFound);
    }
    if view.has_edge(Kind::Block, follower, target) || view.has_edge(Kind::Block, target, follower) {
        return Err(Refusal::Blocked);
    }
    Ok(())
}

fn follow(
    view: &impl View,
    follower: Key,
    target: Key,
    quiet: Option<bool>,
    cap: Option<u64>,
    park: bool,
    version: Version,
) -> Result<Decision, Refusal> {
    pair(view, follower, target)?;
    if view.is_suspended(follower) {
        return Err(Refusal::FollowSuspended);
    }
    let private = view.is_private(target);
    if let Some(before) = view.edge(Kind::Follow, follower, target) {
        if quiet == Some(true) && (private || before.state != State::Active) {
            return Err(Refusal::QuietPrivate);
        }
        let quiet = quiet.unwrap_or(before.quiet);
        if before.quiet == quiet {
            return Ok(unchanged(before));
        }
        // Another `quiet` changes the flag only: the position stays. But a follower who was quiet when the account went
        // private was never accepted, and must ask like anybody. In quarantine, to be seen is as good as to be new.
        let after = match before.state {
            State::Active if park && !quiet => EdgeValue { state: State::Parked, ..EdgeValue::active(version) },
            State::Active if private => EdgeValue { state: State::Pending, ..EdgeValue::active(version) },
            _ => EdgeValue { quiet, version, ..before },
        };
        return Ok(edge(Kind::Follow, follower, target, Cause::Follower, Some(before), after));
    }
    let quiet = quiet.unwrap_or(false);
    if quiet && private {
        return Err(Refusal::QuietPrivate);
    }
    if cap.is_some_and(|cap| view.following_load(follower) >= cap) {
        return Err(Refusal::FollowingLimit);
    }
    let state = match private {
        _ if park && !quiet => State::Parked,
        true => State::Pending,
        false => State::Active,
    };
    let after = EdgeValue { state, quiet, ..EdgeValue::active(version) };
    Ok(edge(Kind::Follow, follower, target, Cause::Follower, None, after))
}

fn answer_request(
    view: &impl View,
    follower: Key,
    target: Key,
    state: State,
    version: Version,
) -> Result<Decision, Refusal> {
    match view.edge(Kind::Follow, follower, target) {
        Some(before) if before.state == State::Pending => {
            let accepted = state == State::Active;
            let position = if accepted { version } else { before.position };
            let after = EdgeValue { state, version, position, accepted, ..before };
            Ok(edge(Kind::Follow, follower, target, Cause::Target, Some(before), after))
        }
        // Accepting is idempotent. The target does not learn of a quiet follower this way.
        Some(before) if before.state == State::Active && state == State::Active && !before.quiet => {
            Ok(unchanged(before))
        }
        _ => Err(Refusal::NoSuchRequest),
    }
}

/// The target has not answered: on a private account they still do, and an active follow does not count as accepted.
fn release(view: &impl View, follower: Key, target: Key, accept: bool, version: Version) -> Result<Decision, Refusal> {
    if !view.user_exists(target) {
        return Err(Refusal::UserNotFound);
    }
    let parked = view.edge(Kind::Follow, follower, target).filter(|edge| edge.state == State::Parked);
    let before = parked.ok_or(Refusal::NotParked)?;
    let after = match (accept, view.is_private(target)) {
        (false, _) => EdgeValue { state: State::Removed, version, ..before },
        (true, true) => EdgeValue { state: State::Pending, ..EdgeValue::active(version) },
        (true, false) => EdgeValue::active(version),
    };
    Ok(edge(Kind::Follow, follower, target, Cause::Target, Some(before), after))
}

fn block(view: &impl View, by: Key, target: Key, version: Version) -> Result<Decision, Refusal> {
    Ok(parted(view, by, target, mark(view, Kind::Block, by, target, None, version)?, version))
}

/// A new block, and the removal of what it forbids.
fn parted(view: &impl View, by: Key, target: Key, mut decision: Decision, version: Version) -> Decision {
    if !decision.reply.changed() {
        return decision;
    }
    for (follower, target) in [(by, target), (target, by)] {
        let removed = remove(view, Kind::Follow, follower, target, Cause::Block, version);
        decision.changes.extend(removed.changes);
    }
    decision
}

/// A block or a mute: the target must exist, but need not consent.
fn mark(
    view: &impl View,
    kind: Kind,
    by: Key,
    target: Key,
    expires_at: Option<Millis>,
    version: Version,
) -> Result<Decision, Refusal> {
    may_mark(view, kind, by, target)?;
    let expires = expires_at.map(Expiry::at);
    match view.edge(kind, by, target) {
        Some(before) if before.expires == expires => Ok(unchanged(before)),
        Some(before) => {
            let after = EdgeValue { expires, version, ..before };
            Ok(edge(kind, by, target, Cause::Follower, Some(before), after))
        }
        None => {
            let after = EdgeValue { expires, ..EdgeValue::active(version) };
            Ok(edge(kind, by, target, Cause::Follower, None, after))
        }
    }
}

fn may_mark(view: &impl View, kind: Kind, by: Key, target: Key) -> Result<(), Refusal> {
    if by == target {
        return Err(if kind == Kind::Mute { Refusal::SelfMute } else { Refusal::SelfBlock });
    }
    actor(view, by)?;
    if view.user_exists(target) { Ok(()) } else { Err(Refusal::UserNotFound) }
}

fn expire_mute(view: &impl View, by: Key, target: Key, now: Millis, version: Version) -> Decision {
    if view.edge(Kind::Mute, by, target).is_some_and(|value| value.is_over(now)) {
        return remove(view, Kind::Mute, by, target, Cause::Follower, version);
    }
    Decision { reply: Reply::Gone { changed: false }, changes: SmallVec::new() }
}

fn remove(view: &impl View, kind: Kind, follower: Key, target: Key, cause: Cause, version: Version) -> Decision {
    let Some(before) = view.edge(kind, follower, target) else {
        return Decision { reply: Reply::Gone { changed: false }, changes: SmallVec::new() };
    };
    let after = EdgeValue { state: State::Removed, version, ..before };
    let mut decision = edge(kind, follower, target, cause, Some(before), after);
    decision.reply = Reply::Gone { changed: true };
    decision
}

fn edge(kind: Kind, follower: Key, target: Key, cause: Cause, before: Option<EdgeValue>, after: EdgeValue) -> Decision {
    let reply = match after.state {
        State::Removed => Reply::Gone { changed: true },
        _ => Reply::Edge { value: after, created: before.is_none(), changed: true },
    };
    let change = EdgeChange { kind, follower, target, cause, before, after };
    Decision { reply, changes: smallvec![Change::Edge(change)] }
}

fn unchanged(value: EdgeValue) -> Decision {
    Decision { reply: Reply::Edge { value, created: false, changed: false }, changes: SmallVec::new() }
}

fn put_user(
    view: &impl View,
    key: Key,
    id: &UserId,
    patch: &UserPatch,
    overwrite: Overwrite,
    version: Version,
) -> Result<Decision, Refusal> {
    let before = view.user(key);
    if key.is_server() {
        return Err(Refusal::IdTaken);
    }
    if before.as_ref().is_some_and(|user| user.id != *id) {
        return Err(Refusal::IdTaken);
    }
    let same = Decision { reply: Reply::User { created: false, changed: false }, changes: SmallVec::new() };
    let (mut user, existed) = match (before.clone(), overwrite) {
        (Some(_), Overwrite::Keep) => return Ok(same),
        (None, Overwrite::Merge) => return Err(Refusal::UserNotFound),
        (Some(user), Overwrite::Merge) => (user, true),
        (Some(user), Overwrite::Replace) => (User { name: None, avatar_url: None, ..user }, true),
        (None, _) if erase::is_unfinished(view, key) => return Err(Refusal::BeingErased),
        (None, _) => (new_user(key, id, version), false),
    };
    if let Some(name) = &patch.name {
        user.name.clone_from(name);
    }
    if let Some(avatar_url) = &patch.avatar_url {
        user.avatar_url.clone_from(avatar_url);
    }
    user.private = patch.private.unwrap_or(user.private);
    user.hide_lists = patch.hide_lists.unwrap_or(user.hide_lists);
    user.registered_at = patch.registered_at.unwrap_or(user.registered_at);
    if before.as_ref() == Some(&user) {
        return Ok(same);
    }
    user.version = version;
    let change = UserChange::put(key, existed, Box::new(user));
    Ok(Decision { reply: Reply::User { created: !existed, changed: true }, changes: smallvec![Change::User(change)] })
}

fn suspend(view: &impl View, key: Key, suspended: bool, version: Version) -> Result<Decision, Refusal> {
    let user = view.user(key).ok_or(Refusal::UserNotFound)?;
    let changed = user.follow_suspended != suspended;
    let mut changes = SmallVec::new();
    if changed {
        let after = User { follow_suspended: suspended, version, ..user };
        let change = UserChange { is_suspension: true, ..UserChange::put(key, true, Box::new(after)) };
        changes.push(Change::User(change));
    }
    Ok(Decision { reply: Reply::User { created: false, changed }, changes })
}

fn new_user(key: Key, id: &UserId, version: Version) -> User {
    User {
        key,
        id: id.clone(),
        name: None,
        avatar_url: None,
        private: false,
        hide_lists: false,
        follow_suspended: false,
        registered_at: version.millis(),
        created: version,
        version,
    }
}
