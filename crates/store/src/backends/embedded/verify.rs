//! Compares both directions, the counts, the rows in memory and the log, edge by edge, while no batch runs.

use entourage_model::{Edge, Key, List, Place, Plane, Sequence, Side};
use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::{engine::Engine, events::Frames, fault::Fault, log, read};
use crate::Report;

const PAGE: usize = 4096;

/// How many edges point at a user, and the sum of their digests.
type Mirror = HashMap<(Plane, Key), (u64, u64)>;

pub(super) fn verify(engine: &Engine) -> Result<Report, Fault> {
    let _still = engine.gate.lock();
    let mut report = Report::default();
    let keys: Vec<Key> = engine.state.keys().clone();
    report.users = keys.len() as u64;
    let mut mirror = Mirror::new();
    for &user in &keys {
        for plane in Plane::ALL {
            following(engine, user, plane, &mut mirror, &mut report)?;
        }
    }
    for &user in &keys {
        for plane in Plane::ALL {
            followers(engine, user, plane, &mut mirror, &mut report)?;
        }
    }
    for ((plane, key), (count, _)) in mirror {
        report.problem("mirror", format!("{count} {plane:?} edges point at {key}, whose list has none"));
    }
    log_is_whole(engine, &mut report)?;
    Ok(report)
}

fn digest(edge: &Edge) -> u64 {
    let mut bytes = [0; 34];
    bytes[..8].copy_from_slice(&edge.follower.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&edge.target.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&edge.value.position.bits().to_le_bytes());
    bytes[24..32].copy_from_slice(&edge.value.version.bits().to_le_bytes());
    bytes[32] = edge.value.state as u8;
    bytes[33] = u8::from(edge.value.quiet);
    xxh3_64(&bytes)
}

/// Walks a whole list and gives each edge to `each`; checks order, total and quiet count on the way.
fn walk(
    engine: &Engine,
    list: List,
    report: &mut Report,
    mut each: impl FnMut(&Edge, &mut Report),
) -> Result<u64, Fault> {
    let mut after: Option<Place> = None;
    let (mut count, mut quiet) = (0, 0);
    loop {
        let page = read::scan(&engine.state, &engine.files, list, after, PAGE)?;
        for edge in &page.edges {
            let place = list.place(edge);
            if after.is_some_and(|after| place >= after) {
                report.problem("order", format!("{list:?} shows {place:?} after {after:?}"));
            }
            after = Some(place);
            count += 1;
            quiet += u64::from(edge.value.quiet);
            each(edge, report);
        }
        if page.more {
            continue;
        }
        if (count, quiet) != (page.total, page.quiet) {
            let stored = (page.total, page.quiet);
            report.problem("count", format!("{list:?} has {count} edges, {quiet} quiet; the counts say {stored:?}"));
        }
        return Ok(count);
    }
}

fn following(engine: &Engine, user: Key, plane: Plane, mirror: &mut Mirror, report: &mut Report) -> Result<(), Fault> {
    let list = List { user, plane, side: Side::Following };
    let edges = walk(engine, list, report, |edge, report| {
        let (count, sum) = mirror.entry((plane, edge.target)).or_default();
        *count += 1;
        *sum = sum.wrapping_add(digest(edge));
        if !engine.state.has_active(plane, user, edge.target) {
            report.problem("row", format!("{edge:?} is in the list and not in memory"));
        }
        if edge.follower == edge.target {
            report.problem("self", format!("{edge:?}"));
        }
    })?;
    report.edges += edges;
    Ok(())
}

fn followers(engine: &Engine, user: Key, plane: Plane, mirror: &mut Mirror, report: &mut Report) -> Result<(), Fault> {
    let list = List { user, plane, side: Side::Followers };
    let mut found = (0, 0u64);
    walk(engine, list, report, |edge, _| found = (found.0 + 1, found.1.wrapping_add(digest(edge))))?;
    let expected = mirror.remove(&(plane, user)).unwrap_or_default();
    if found != expected {
        report.problem("mirror", format!("{list:?} has (count, digest) {found:?}, its followers' lists {expected:?}"));
    }
    Ok(())
}

/// Every kept frame reads back, and sequences count on without a gap up to what readers see.
fn log_is_whole(engine: &Engine, report: &mut Report) -> Result<(), Fault> {
    let segments: Vec<_> = engine.segments.lock().all.iter().cloned().collect();
    let mut last: Option<Sequence> = None;
    for segment in &segments {
        let mut frames = Frames::new(segment, engine.epoch(), log::SEGMENT_HEADER);
        while let Some(frame) = frames.next()? {
            if last.is_some_and(|last| last != frame.last) {
                report.problem("events", format!("sequence {} follows {last:?}", frame.last));
            }
            let outcomes = frame.outcomes().map_err(|c| Fault::corrupt(log::segment_name(segment.number), 0, c))?;
            report.events += outcomes.iter().map(|outcome| outcome.changes.len() as u64).sum::<u64>();
            last = Some(frame.last.plus(u64::from(frame.changes)));
        }
    }
    let published = engine.state.published();
    if last.is_some_and(|last| last != published) {
        report.problem("events", format!("the log ends at {last:?}, readers see {published}"));
    }
    Ok(())
}
