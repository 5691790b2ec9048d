//! Decides on posts: each comes and goes with the record that leads from its id to its author.

use smallvec::smallvec;

use super::{View, actor};
use crate::{
    Change, Decision, Key, RECORD_MAX_BYTES, RecordChange, RecordId, Refusal, Reply, Space, Version, post_author_value,
};

pub(super) fn publish(view: &impl View, author: Key, value: &[u8], version: Version) -> Result<Decision, Refusal> {
    actor(view, author)?;
    if value.len() > RECORD_MAX_BYTES {
        return Err(Refusal::RecordTooLarge);
    }
    let made =
        |space, owner, id, value| Change::Record(RecordChange { space, owner, id, before: None, after: Some(value) });
    let post = made(Space::Post, author, RecordId::of_version(version), value.into());
    let id = RecordId::of_post_author(version);
    let index = made(Space::PostAuthor, Key::SERVER, id, post_author_value(author));
    let reply = Reply::Record { version, created: true, changed: true, owner: Some(author) };
    Ok(Decision { reply, changes: smallvec![post, index] })
}

/// The end of a post that stands as of `known`.
pub(super) fn removal(author: Key, id: &RecordId, known: Version) -> impl Iterator<Item = Change> + use<> {
    let gone =
        |space, owner, id, before| Change::Record(RecordChange { space, owner, id, before: Some(before), after: None });
    // Who wrote a post never changes, so that record has the version of the post's beginning.
    let index = id.version().map(|made| gone(Space::PostAuthor, Key::SERVER, RecordId::of_post_author(made), made));
    [gone(Space::Post, author, id.clone(), known)].into_iter().chain(index)
}

pub(super) fn are_left(view: &impl View, author: Key) -> bool {
    !view.records(Space::Post, author, &[], 1).is_empty()
}
