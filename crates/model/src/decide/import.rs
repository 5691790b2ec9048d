//! Decides imported edges: existing ones stay as they are, and new ones get the position of their time.

use super::{View, edge, may_mark, pair, parted, unchanged};
use crate::{Cause, Decision, EdgeValue, Expiry, Key, Kind, Millis, Refusal, State, Version};

/// The position of an edge of that time. Never newer than the commit that brings it: a reader who has seen everything
/// up to now would have seen it as well.
fn position(at: Millis, version: Version) -> Version {
    Version::of_millis(at).min(version)
}

fn bring(view: &impl View, kind: Kind, follower: Key, target: Key, at: Millis, value: EdgeValue) -> Decision {
    match view.edge(kind, follower, target) {
        Some(known) => unchanged(known),
        None => {
            let value = EdgeValue { position: position(at, value.version), ..value };
            edge(kind, follower, target, Cause::Import, None, value)
        }
    }
}

pub(super) fn follow(
    view: &impl View,
    follower: Key,
    target: Key,
    at: Millis,
    quiet: bool,
    version: Version,
) -> Result<Decision, Refusal> {
    pair(view, follower, target)?;
    let value = EdgeValue { quiet, ..EdgeValue::active(version) };
    Ok(bring(view, Kind::Follow, follower, target, at, value))
}

pub(super) fn request(
    view: &impl View,
    follower: Key,
    target: Key,
    at: Millis,
    version: Version,
) -> Result<Decision, Refusal> {
    pair(view, follower, target)?;
    // Nobody could ever answer it.
    if !view.is_private(target) && view.edge(Kind::Follow, follower, target).is_none() {
        return Err(Refusal::NotPrivate);
    }
    let value = EdgeValue { state: State::Pending, ..EdgeValue::active(version) };
    Ok(bring(view, Kind::Follow, follower, target, at, value))
}

pub(super) fn block(view: &impl View, by: Key, target: Key, at: Millis, version: Version) -> Result<Decision, Refusal> {
    may_mark(view, Kind::Block, by, target)?;
    let brought = bring(view, Kind::Block, by, target, at, EdgeValue::active(version));
    Ok(parted(view, by, target, brought, version))
}

pub(super) fn mute(
    view: &impl View,
    by: Key,
    target: Key,
    at: Millis,
    expires_at: Option<Millis>,
    version: Version,
) -> Result<Decision, Refusal> {
    may_mark(view, Kind::Mute, by, target)?;
    let value = EdgeValue { expires: expires_at.map(Expiry::at), ..EdgeValue::active(version) };
    Ok(bring(view, Kind::Mute, by, target, at, value))
}
