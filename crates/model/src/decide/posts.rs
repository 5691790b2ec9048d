//! Decides posts: each is created and removed with the record that leads from its id to its author, and the one that
//! leads from its external id to it.

use smallvec::SmallVec;

use super::{View, actor};
use crate::{
    Buckets, Change, Decision, ExternalId, Key, Millis, POSTS_AT_ONCE_MAX, RECORD_MAX_BYTES, Record, RecordChange,
    RecordId, Refusal, Reply, Space, Version, external_post, external_post_value, post_author, post_author_value,
    post_id_prefix, post_ids_at,
};

pub(super) fn publish(view: &impl View, author: Key, value: &[u8], version: Version) -> Result<Decision, Refusal> {
    may_post(view, author, value)?;
    Ok(named(view, author, value).unwrap_or_else(|| made(view, author, version, value)))
}

/// Under its old id, or under one in its millisecond, above those the author has there. An identical post is the
/// existing one.
pub(super) fn import(
    view: &impl View,
    author: Key,
    at: Millis,
    id: Option<Version>,
    value: &[u8],
    version: Version,
) -> Result<Decision, Refusal> {
    may_post(view, author, value)?;
    if let Some(known) = named(view, author, value) {
        return Ok(known);
    }
    let server = view.buckets().of(author);
    let whose = |id| view.record(Space::PostAuthor, server, &RecordId::of_post_author(id));
    let is_own = |index: &Record| post_author(&index.value).is_ok_and(|known| known == author);
    // Ids above this commit are reserved for future posts.
    let is_past = |id: Version| id < version;
    if let Some(id) = id {
        return match whose(id) {
            _ if !is_past(id) => Err(Refusal::PostTimeFull),
            None => Ok(made(view, author, id, value)),
            Some(index) if is_own(&index) => Ok(unchanged(author, id)),
            Some(_) => Err(Refusal::PostIdTaken),
        };
    }
    let own = view.records(Space::Post, author, &post_id_prefix(at), POSTS_AT_ONCE_MAX);
    if own.len() >= POSTS_AT_ONCE_MAX {
        return Err(Refusal::PostTimeFull);
    }
    let own: SmallVec<[Version; 4]> =
        own.iter().filter_map(|(id, _)| id.version()).filter(|id| id.millis() == at).collect();
    let is_same = |id: &&Version| {
        let known = view.record(Space::Post, author, &RecordId::of_version(**id));
        known.is_some_and(|known| *known.value == *value)
    };
    if let Some(same) = own.iter().rev().find(is_same) {
        return Ok(unchanged(author, *same));
    }
    let mut ids = post_ids_at(author, at, own.iter().max().copied()).take_while(|id| is_past(*id));
    ids.find(|id| whose(*id).is_none()).map(|id| made(view, author, id, value)).ok_or(Refusal::PostTimeFull)
}

fn may_post(view: &impl View, author: Key, value: &[u8]) -> Result<(), Refusal> {
    actor(view, author)?;
    if value.len() > RECORD_MAX_BYTES { Err(Refusal::RecordTooLarge) } else { Ok(()) }
}

/// The post that has this external id.
fn named(view: &impl View, author: Key, value: &[u8]) -> Option<Decision> {
    let id = ExternalId::of_post(value)?.record_id();
    let known = view.record(Space::PostExternal, author, &id)?;
    Some(unchanged(author, external_post(&known.value).unwrap_or(known.version)))
}

fn made(view: &impl View, author: Key, id: Version, value: &[u8]) -> Decision {
    let made =
        |space, owner, id, value| Change::Record(RecordChange { space, owner, id, before: None, after: Some(value) });
    let post = made(Space::Post, author, RecordId::of_version(id), value.into());
    let server = view.buckets().of(author);
    let index = made(Space::PostAuthor, server, RecordId::of_post_author(id), post_author_value(author));
    let name = ExternalId::of_post(value)
        .map(|name| made(Space::PostExternal, author, name.record_id(), external_post_value(id)));
    let reply = Reply::Record { version: id, created: true, changed: true, owner: Some(author) };
    Decision { reply, changes: [post, index].into_iter().chain(name).collect() }
}

fn unchanged(author: Key, id: Version) -> Decision {
    let reply = Reply::Record { version: id, created: false, changed: false, owner: Some(author) };
    Decision { reply, changes: SmallVec::new() }
}

/// The removal of a post that stands as of `known`. The records that lead to it never change, so their version does not
/// matter.
pub(super) fn removal(
    buckets: Buckets,
    author: Key,
    id: &RecordId,
    known: Version,
    name: Option<ExternalId>,
) -> impl Iterator<Item = Change> + use<> {
    let gone =
        |space, owner, id, before| Change::Record(RecordChange { space, owner, id, before: Some(before), after: None });
    let index =
        id.version().map(|made| gone(Space::PostAuthor, buckets.of(author), RecordId::of_post_author(made), made));
    let name = name.map(|name| gone(Space::PostExternal, author, name.record_id(), known));
    [gone(Space::Post, author, id.clone(), known)].into_iter().chain(index).chain(name)
}

pub(super) fn are_left(view: &impl View, author: Key) -> bool {
    !view.records(Space::Post, author, &[], 1).is_empty()
}
