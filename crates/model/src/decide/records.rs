//! Decides records: conditions, caps, and who may be in a group.

use smallvec::{SmallVec, smallvec};

use super::{View, actor, erase, posts};
use crate::{
    CHUNK_MAX, Change, Condition, Decision, ExternalId, GROUP_MEMBERS_MAX, Key, Kind, RECORD_MAX_BYTES, Record,
    RecordChange, RecordId, Refusal, Reply, Space, State, Version, member_value, tally,
};

#[allow(clippy::too_many_arguments, reason = "the fields of one operation")]
pub(super) fn put(
    view: &impl View,
    space: Space,
    owner: Key,
    id: &RecordId,
    value: Option<&[u8]>,
    condition: Condition,
    cap: Option<u32>,
    version: Version,
) -> Result<Decision, Refusal> {
    let is_about = |id: &RecordId| id.key().is_some_and(|key| owner == view.buckets().of(key));
    let is_writable = match space {
        Space::GroupMember | Space::PostAuthor | Space::PostExternal => false,
        Space::Group => id.as_bytes().len() <= RecordId::GROUP_MAX_BYTES,
        Space::Fanout => is_about(id),
        // It can only be removed.
        Space::Erased => is_about(id) && value.is_none(),
        _ => true,
    };
    if !is_writable || !has_place(view, space, owner) {
        return Err(Refusal::RecordNotWritable);
    }
    if !owner.is_server() {
        actor(view, owner)?;
    }
    let is_about_nobody = || !id.key().is_some_and(|author| view.user_exists(author));
    if space == Space::Fanout && value.is_some() && is_about_nobody() {
        return Err(Refusal::UserNotFound);
    }
    if space == Space::Erased && id.key().is_some_and(|key| erase::is_unfinished(view, key)) {
        return Err(Refusal::BeingErased);
    }
    let before = view.record(space, owner, id);
    let known = before.as_ref().map(|record| record.version);
    if !holds(condition, known) {
        return Err(Refusal::RecordChanged);
    }
    let Some(value) = value else { return Ok(remove(view, space, owner, id, before.as_ref())) };
    // A post has an operation of its own, and keeps the external id it was given then.
    let is_renamed = |before: &Record| ExternalId::of_post(&before.value) != ExternalId::of_post(value);
    if space == Space::Post && before.as_ref().is_none_or(is_renamed) {
        return Err(Refusal::RecordNotWritable);
    }
    if value.len() > RECORD_MAX_BYTES {
        return Err(Refusal::RecordTooLarge);
    }
    if let Some(before) = before.filter(|before| *before.value == *value) {
        let reply = Reply::Record { version: before.version, created: false, changed: false, owner: Some(owner) };
        return Ok(Decision { reply, changes: SmallVec::new() });
    }
    let full = || cap.is_some_and(|cap| view.record_count(space, owner) >= u64::from(cap));
    if known.is_none() && full() {
        return Err(over_cap(space));
    }
    let members = || view.records(Space::GroupMember, owner, &RecordId::member_prefix(id), 1);
    if known.is_none() && space == Space::Group && !members().is_empty() {
        return Err(Refusal::GroupBeingRemoved);
    }
    Ok(write(space, owner, id.clone(), known, value.into(), version))
}

pub(super) fn holds(condition: Condition, known: Option<Version>) -> bool {
    match condition {
        Condition::Any => true,
        Condition::Absent => known.is_none(),
        Condition::Version(version) => known == Some(version),
    }
}

/// A new record: its id is that of the commit's version, which is unique.
pub(super) fn add(
    view: &impl View,
    space: Space,
    owner: Key,
    value: &[u8],
    cap: Option<u32>,
    version: Version,
) -> Result<Decision, Refusal> {
    if matches!(
        space,
        Space::GroupMember | Space::Post | Space::PostAuthor | Space::PostExternal | Space::Fanout | Space::Erased
    ) || !has_place(view, space, owner)
    {
        return Err(Refusal::RecordNotWritable);
    }
    if !owner.is_server() {
        actor(view, owner)?;
    }
    if value.len() > RECORD_MAX_BYTES {
        return Err(Refusal::RecordTooLarge);
    }
    if cap.is_some_and(|cap| view.record_count(space, owner) >= u64::from(cap)) {
        return Err(over_cap(space));
    }
    Ok(write(space, owner, RecordId::of_version(version), None, value.into(), version))
}

/// Server records about users lie in buckets, those written rarely under one key.
fn has_place(view: &impl View, space: Space, owner: Key) -> bool {
    match owner.is_server() {
        true if space.is_spread() => view.buckets().has(owner),
        true => owner == Key::SERVER || view.buckets().has(owner),
        false => true,
    }
}

/// Adds the number of changes of a write to a tally of the server.
pub(super) fn count(view: &impl View, home: Key, id: &RecordId, reply: &Reply) -> Option<Change> {
    let changed = match reply {
        Reply::EdgesErased { removed, .. } => u64::from(*removed),
        other => u64::from(other.changed()),
    };
    let (space, owner) = (Space::Job, view.buckets().of(home));
    let known = view.record(space, owner, id);
    let sum = known.as_ref().map_or(0, |record| tally(&record.value)).saturating_add(changed);
    let (before, after) = (known.map(|record| record.version), Some(Box::from(sum.to_be_bytes().as_slice())));
    (changed > 0).then(|| Change::Record(RecordChange { space, owner, id: id.clone(), before, after }))
}

const fn over_cap(space: Space) -> Refusal {
    match space {
        Space::Group => Refusal::GroupLimit,
        _ => Refusal::RecordLimit,
    }
}

fn write(
    space: Space,
    owner: Key,
    id: RecordId,
    before: Option<Version>,
    value: Box<[u8]>,
    version: Version,
) -> Decision {
    let reply = Reply::Record { version, created: before.is_none(), changed: true, owner: Some(owner) };
    let change = RecordChange { space, owner, id, before, after: Some(value) };
    Decision { reply, changes: smallvec![Change::Record(change)] }
}

/// Members that do not fit into one commit are left behind; without the group nobody sees them.
fn remove(view: &impl View, space: Space, owner: Key, id: &RecordId, before: Option<&Record>) -> Decision {
    let known = before.map(|record| record.version);
    if let (Space::Post, Some(post)) = (space, before) {
        let changes =
            posts::removal(view.buckets(), owner, id, post.version, ExternalId::of_post(&post.value)).collect();
        return Decision { reply: Reply::Gone { changed: true }, changes };
    }
    let gone = |space, id, before| Change::Record(RecordChange { space, owner, id, before: Some(before), after: None });
    let mut changes: SmallVec<[Change; 1]> = known.map(|known| gone(space, id.clone(), known)).into_iter().collect();
    if space == Space::Group {
        let members = view.records(Space::GroupMember, owner, &RecordId::member_prefix(id), CHUNK_MAX);
        changes.extend(members.into_iter().map(|(id, version)| gone(Space::GroupMember, id, version)));
    }
    Decision { reply: Reply::Gone { changed: !changes.is_empty() }, changes }
}

pub(super) fn member(
    view: &impl View,
    owner: Key,
    group: &RecordId,
    member: Key,
    present: bool,
    version: Version,
) -> Result<Decision, Refusal> {
    const SPACE: Space = Space::GroupMember;
    actor(view, owner)?;
    let id = RecordId::of_member(group, member).ok_or(Refusal::GroupNotFound)?;
    view.record(Space::Group, owner, group).ok_or(Refusal::GroupNotFound)?;
    let before = view.record(SPACE, owner, &id);
    if !present {
        return Ok(remove(view, SPACE, owner, &id, before.as_ref()));
    }
    let value = member_value(&view.user(member).ok_or(Refusal::UserNotFound)?);
    if let Some(before) = before.as_ref().filter(|before| before.value == value) {
        let reply = Reply::Record { version: before.version, created: false, changed: false, owner: Some(owner) };
        return Ok(Decision { reply, changes: SmallVec::new() });
    }
    let follow =
        |follower, target| view.edge(Kind::Follow, follower, target).filter(|value| value.state == State::Active);
    // This must not reveal whether somebody follows quietly.
    if follow(owner, member).is_none() && follow(member, owner).is_none_or(|value| value.quiet) {
        return Err(Refusal::NotConnected);
    }
    if before.is_none() && is_full(view, owner, group) {
        return Err(Refusal::GroupMemberLimit);
    }
    Ok(write(SPACE, owner, id, before.map(|record| record.version), value, version))
}

/// Members are counted one by one only when all groups of the owner together have this many.
fn is_full(view: &impl View, owner: Key, group: &RecordId) -> bool {
    let limit = GROUP_MEMBERS_MAX as usize;
    view.record_count(Space::GroupMember, owner) >= GROUP_MEMBERS_MAX
        && view.records(Space::GroupMember, owner, &RecordId::member_prefix(group), limit).len() >= limit
}
