//! Compares both directions, the counts, the rows in memory and the log, edge by edge, while no batch runs.

use entourage_model::{
    Edge, Expiry, ExternalId, Key, Kind, List, Place, Plane, RECORD_MAX_BYTES, RecordId, Sequence, Side, Space,
    Version, external_post, post_author,
};
use hashbrown::HashMap;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::{
    blocks::files::file_name,
    documents::{
        document_block::{Collection, CollectionKey, Document},
        history,
    },
    engine::Engine,
    fault::Fault,
    log::frames::Frames,
    reads::edges,
    state::{delta::Direction, plane::StoredPlane},
    upkeep::left_out::Check,
};
use entourage_store::{Report, disk::read_exact_at};

const PAGE: usize = 4096;
/// Bytes per read.
const PIECE: u64 = 1 << 20;

/// How many edges point at a user, and the sum of their digests.
type Mirror = HashMap<(Plane, Key), (u64, u64)>;

pub(crate) fn verify(engine: &Engine) -> Result<Report, Fault> {
    let mut report = Report::default();
    files_are_whole(engine)?;
    let _still = engine.gate.lock();
    let mut keys: Vec<Key> = engine.state.keys().to_vec();
    keys.sort_unstable();
    keys.dedup();
    report.users = engine.state.live_users();
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
    documents(engine, &mut report)?;
    replaced(engine, &mut report);
    log_is_whole(engine, &mut report)?;
    Ok(report)
}

/// Every file matches its checksum, including blocks that nothing reads any more. Needs no lock: finished files do not
/// change.
fn files_are_whole(engine: &Engine) -> Result<(), Fault> {
    engine.idempotency.verify()?;
    for (number, file) in engine.files.all() {
        let Some(wanted) = file.sum else { continue };
        let (mut sum, mut at) = (Xxh3::new(), 0);
        while at < file.size {
            let piece = read_exact_at(&*file.file, (file.size - at).min(PIECE) as usize, at)?;
            sum.update(&piece);
            at += piece.len() as u64;
        }
        if sum.digest() != wanted && Check::BlockFiles.is_done() {
            return Err(Fault::damaged(file_name(file.family, number), 0, "checksum of the file"));
        }
    }
    Ok(())
}

fn digest(edge: &Edge) -> u64 {
    let mut bytes = [0; 39];
    bytes[..8].copy_from_slice(&edge.follower.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&edge.target.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&edge.value.position.bits().to_le_bytes());
    bytes[24..32].copy_from_slice(&edge.value.version.bits().to_le_bytes());
    bytes[32] = edge.value.state as u8;
    bytes[33] = u8::from(edge.value.quiet);
    bytes[34] = u8::from(edge.value.accepted);
    bytes[35..].copy_from_slice(&edge.value.expires.map_or(0, Expiry::seconds).to_le_bytes());
    xxh3_64(&bytes)
}

/// Passes each edge of a list to `each`; checks order, total and quiet count.
fn walk(
    engine: &Engine,
    list: List,
    report: &mut Report,
    mut each: impl FnMut(&Edge, &mut Report),
) -> Result<u64, Fault> {
    let mut after: Option<Place> = None;
    let (mut count, mut quiet) = (0, 0);
    loop {
        let page = edges::scan(&engine.state, &engine.files, list, after, Direction::Down, PAGE)?;
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
    let list = List::new(user, plane, Side::Following);
    let edges = walk(engine, list, report, |edge, report| {
        let (count, sum) = mirror.entry((plane, edge.target)).or_default();
        *count += 1;
        *sum = sum.wrapping_add(digest(edge));
        let is_in = |stored| engine.state.has_active(stored, user, edge.target);
        let apart = plane == Plane::Follow && is_in(StoredPlane::Quiet);
        if !is_in(plane.into()) || apart != edge.value.quiet {
            report.problem("row", format!("{edge:?} is in the list and not in memory"));
        }
        if edge.follower == edge.target {
            report.problem("self", format!("{edge:?}"));
        }
        if plane.kind() == Kind::Follow && blocks_either(engine, edge) {
            report.problem("block", format!("{edge:?} though one blocks the other"));
        }
    })?;
    report.edges += edges;
    Ok(())
}

/// Every list of documents reads back, in order, with the right count.
fn documents(engine: &Engine, report: &mut Report) -> Result<(), Fault> {
    let (mut authors, mut names) = (HashMap::new(), HashMap::new());
    for key in engine.state.documents.keys() {
        let (mut count, mut after) = (0, Vec::new());
        loop {
            let page = engine.state.documents.scan(&engine.files, key, &after, PAGE)?;
            let Some((last, _)) = page.last() else { break };
            after = last.to_vec();
            count += page.len() as u64;
            let whole = |document: &Document| match key.collection {
                Collection::History => history::decode(document.version, &document.value).is_ok(),
                Collection::Records(_) => document.value.len() <= RECORD_MAX_BYTES,
            };
            for (id, _) in page.iter().filter(|(_, document)| !whole(document)) {
                report.problem("record", format!("{key:?} {} cannot be read", id.escape_ascii()));
            }
            for (id, document) in &page {
                note_author(key, id, &document.value, &mut authors);
                note_name(engine, key, id, &document.value, &mut names);
            }
        }
        let counted = engine.state.documents.count(key);
        if counted != count {
            report.problem("record", format!("{key:?} has {count} documents; the count says {counted}"));
        }
        // Posts of erased users stay for a while.
        let owner_is_known = match key.collection {
            Collection::Records(Space::Post) => engine.state.ordinal_of_edges(key.owner).is_some(),
            _ => engine.state.ordinal(key.owner).is_some(),
        };
        let orphaned = !key.owner.is_server() && !owner_is_known;
        if orphaned && count > 0 {
            report.problem("record", format!("{key:?} has {count} documents and no user"));
        }
        if let Collection::Records(_) = key.collection {
            report.records += count;
        }
    }
    for (post, authors) in authors.into_iter().filter(|(_, [by_post, by_id])| by_post != by_id) {
        report.problem("post", format!("{post:?} is of {:?}; by its id it is of {:?}", authors[0], authors[1]));
    }
    for ((owner, _), posts) in names.into_iter().filter(|(_, [by_post, by_name])| by_post != by_name) {
        let detail = format!("an external id of {owner} is of {:?}; by its record of {:?}", posts[0], posts[1]);
        report.problem("post", detail);
    }
    Ok(())
}

/// The author of a post, by the list it is in and by its id.
type Authors = HashMap<Option<Version>, [Option<Key>; 2]>;

fn note_author(key: CollectionKey, id: &[u8], value: &[u8], authors: &mut Authors) {
    match key.collection {
        Collection::Records(Space::Post) => {
            let post = RecordId::new(id).ok().and_then(|id| id.version());
            authors.entry(post).or_default()[0] = Some(key.owner);
        }
        Collection::Records(Space::PostAuthor) => {
            let post = id.try_into().ok().map(|bytes| Version::from_bits(u64::from_be_bytes(bytes)));
            authors.entry(post).or_default()[1] = post_author(value).ok();
        }
        _ => {}
    }
}

/// The post with an external id, by its own value and by the record of that id.
type Names = HashMap<(Key, RecordId), [Option<Version>; 2]>;

fn note_name(engine: &Engine, key: CollectionKey, id: &[u8], value: &[u8], names: &mut Names) {
    let Ok(id) = RecordId::new(id) else { return };
    match key.collection {
        // External ids of erased users are gone before their posts.
        Collection::Records(Space::Post) if engine.state.ordinal(key.owner).is_some() => {
            if let Some(name) = ExternalId::of_post(value) {
                names.entry((key.owner, name.record_id())).or_default()[0] = id.version();
            }
        }
        Collection::Records(Space::PostExternal) => {
            names.entry((key.owner, id)).or_default()[1] = external_post(value).ok();
        }
        _ => {}
    }
}

/// A key's former users have no edges left.
fn replaced(engine: &Engine, report: &mut Report) {
    if engine.state.erased().total() == 0 {
        return;
    }
    let keys = engine.state.keys();
    for (ordinal, &key) in keys.iter().enumerate() {
        let ordinal = ordinal as u32;
        if engine.state.ordinal_of_edges(key) == Some(ordinal) {
            continue;
        }
        let shard = engine.state.shard(ordinal).read();
        let totals = |plane: Plane| Side::BOTH.map(|side| shard.totals(plane, side, ordinal).0).iter().sum::<u64>();
        let left: u64 = Plane::ALL.into_iter().map(totals).sum();
        if left > 0 {
            report.problem("erased", format!("ordinal {ordinal}, once of {key}, has {left} edges"));
        }
    }
}

fn blocks_either(engine: &Engine, edge: &Edge) -> bool {
    engine.state.has_active(StoredPlane::Block, edge.follower, edge.target)
        || engine.state.has_active(StoredPlane::Block, edge.target, edge.follower)
}

fn followers(engine: &Engine, user: Key, plane: Plane, mirror: &mut Mirror, report: &mut Report) -> Result<(), Fault> {
    let list = List::new(user, plane, Side::Followers);
    let mut found = (0, 0u64);
    walk(engine, list, report, |edge, _| found = (found.0 + 1, found.1.wrapping_add(digest(edge))))?;
    let expected = mirror.remove(&(plane, user)).unwrap_or_default();
    if found != expected {
        report.problem("mirror", format!("{list:?} has (count, digest) {found:?}, its followers' lists {expected:?}"));
    }
    Ok(())
}

/// Every kept frame reads back, and sequences have no gap up to what readers see.
fn log_is_whole(engine: &Engine, report: &mut Report) -> Result<(), Fault> {
    let segments: Vec<_> = engine.segments.lock().all.iter().cloned().collect();
    let mut last: Option<Sequence> = None;
    for segment in &segments {
        if last.is_some_and(|last| last != segment.before) {
            report.problem("events", format!("sequence {} follows {last:?}", segment.before));
        }
        last = Some(segment.last);
        let mut frames = Frames::new(segment.whole());
        while let Some(frame) = frames.next_above(Sequence::ZERO)? {
            let outcomes = frame.outcomes().map_err(|corrupt| frames.corrupt(corrupt))?;
            let changes = outcomes.iter().flat_map(|outcome| &outcome.changes);
            report.events += changes.filter(|change| change.is_public()).count() as u64;
        }
    }
    let published = engine.state.published();
    if last.is_some_and(|last| last != published) {
        report.problem("events", format!("the log ends at {last:?}, readers see {published}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use entourage_model::{
        Cause, Change, EdgeChange, EdgeValue, ManualClock, Millis, Operation, Outcome, Overwrite, Reply, Secret,
        UserId, UserPatch, Watermark,
    };

    use super::*;
    use crate::{
        Options, Store,
        state::{
            ListKey,
            delta::{Delta, DeltaValue},
            lists::Lists,
        },
    };
    use entourage_store::{Identity, Recounted, Store as _, StoreExt as _};
    use entourage_testkit::{conformance::block_on, crash_disk::CrashDisk};

    fn follow(follower: i64, target: i64, quiet: bool) -> Operation {
        Operation::Follow { follower: Key(follower), target: Key(target), quiet: Some(quiet), cap: None, park: false }
    }

    /// Users 1 to 5. Two follows in blocks, three in the delta, and one block.
    async fn small_store() -> Store {
        let identity = || Identity { epoch: 7, secret: Secret::from_bytes([7; 32]) };
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(800_000_000_000)));
        let store = Store::open_as(Arc::new(CrashDisk::new()), "disk", Options::tiny(), clock, identity).unwrap();
        for key in 1..=5 {
            let (id, patch) = (UserId::from(key), UserPatch::default());
            let put = Operation::PutUser { key: Key(key), id, patch, overwrite: Overwrite::Replace };
            store.commit(put.into()).await.unwrap();
        }
        for operation in [follow(1, 2, false), follow(1, 3, true)] {
            store.commit(operation.into()).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        let block = Operation::Block { actor: Key(5), target: Key(4) };
        for operation in [follow(2, 3, false), follow(4, 3, true), follow(4, 2, false), block] {
            store.commit(operation.into()).await.unwrap();
        }
        assert_eq!(checks(&store).await, Vec::<&str>::new());
        store
    }

    async fn checks(store: &Store) -> Vec<&'static str> {
        store.verify().await.unwrap().problems.iter().map(|problem| problem.check).collect()
    }

    fn ordinal(engine: &Engine, key: i64) -> u32 {
        engine.state.ordinal(Key(key)).unwrap()
    }

    fn change_lists(engine: &Engine, key: i64, change: impl FnOnce(&mut Lists)) {
        change_stored(engine, StoredPlane::Follow, key, change);
    }

    fn change_stored(engine: &Engine, plane: StoredPlane, key: i64, change: impl FnOnce(&mut Lists)) {
        let ordinal = ordinal(engine, key);
        change(engine.state.shard(ordinal).write().lists_mut(plane, ordinal).unwrap());
    }

    /// Replaces the entries of a delta by what `change` makes of them.
    fn change_delta(
        engine: &Engine,
        key: i64,
        side: Side,
        mut change: impl FnMut(Place, DeltaValue) -> Option<(Place, DeltaValue)>,
    ) {
        let ordinal = ordinal(engine, key);
        let list = ListKey::new(StoredPlane::Follow, side, ordinal);
        let mut shard = engine.state.shard(ordinal).write();
        let mut changed = Delta::default();
        for (place, value) in shard.delta[&list].live(None, Direction::Down) {
            if let Some((place, value)) = change(place, value) {
                changed.come(place, value, side == Side::Following);
            }
        }
        shard.delta.insert(list, changed);
    }

    /// An edge that no rule allows, in both directions and counted, so that only the rule is broken.
    fn apply_edge(engine: &Engine, kind: Kind, follower: i64, target: i64) {
        let version = Version::new(Millis::from_since_2000(800_000_000_001), 0, 0);
        let after = EdgeValue::active(version);
        let (follower, target) = (Key(follower), Key(target));
        let change = EdgeChange { kind, follower, target, cause: Cause::Follower, before: None, after };
        engine.state.apply_logged(&[Outcome {
            reply: Reply::Gone { changed: true },
            version,
            watermark: Watermark::at(Sequence::ZERO),
            changes: vec![Change::Edge(change)].into(),
            idempotency: None,
            quota: None,
            replayed: false,
        }]);
    }

    const SOONER: Version = Version::new(Millis::from_since_2000(800_000_000_000), 9, 9);

    type Plant = (&'static str, &'static str, fn(&Engine));

    const PLANTS: &[Plant] = &[
        ("row", "a row lacks an ordinal", |engine| {
            change_lists(engine, 1, |lists| lists.remove(ordinal(engine, 3)));
        }),
        ("count", "a row has one too many", |engine| {
            change_lists(engine, 1, |lists| lists.insert(ordinal(engine, 5)));
        }),
        ("row", "a row has one for another", |engine| {
            change_lists(engine, 4, |lists| {
                lists.remove(ordinal(engine, 3));
                lists.insert(ordinal(engine, 5));
            });
        }),
        ("count", "followers_total is too high", |engine| {
            change_lists(engine, 3, |lists| lists.followers_total += 1);
        }),
        ("count", "followers_total is too low", |engine| {
            change_lists(engine, 2, |lists| lists.followers_total -= 1);
        }),
        ("count", "the quiet ones of following are off", |engine| {
            change_stored(engine, StoredPlane::Quiet, 4, |lists| lists.remove(ordinal(engine, 3)));
        }),
        ("count", "the quiet ones of followers are off", |engine| {
            change_stored(engine, StoredPlane::Quiet, 2, |lists| lists.followers_total += 1);
        }),
        ("mirror", "only the follower's delta has the edge", |engine| {
            change_delta(engine, 2, Side::Followers, |_, _| None);
        }),
        ("mirror", "only the target's delta has the edge", |engine| {
            change_delta(engine, 2, Side::Following, |_, _| None);
        }),
        ("mirror", "the position differs on one side", |engine| {
            change_delta(engine, 2, Side::Following, |place, value| Some((Place { position: SOONER, ..place }, value)));
        }),
        ("mirror", "the version differs on one side", |engine| {
            change_delta(engine, 3, Side::Followers, |place, value| {
                Some((place, DeltaValue { version: SOONER, ..value }))
            });
        }),
        ("mirror", "the flag differs on one side", |engine| {
            change_delta(engine, 4, Side::Following, |place, value| {
                Some((place, DeltaValue { quiet: !value.quiet, ..value }))
            });
        }),
        ("mirror", "blocks of one side are lost", |engine| {
            change_lists(engine, 2, |lists| lists.followers = Default::default());
        }),
        ("events", "readers see a sequence that is not there", |engine| {
            engine.state.publish(engine.state.published().next());
        }),
        ("events", "readers do not see the last sequence", |engine| {
            engine.state.publish(Sequence(engine.state.published().0 - 1));
        }),
        ("self", "somebody follows themselves", |engine| apply_edge(engine, Kind::Follow, 5, 5)),
        ("block", "the follower is blocked", |engine| apply_edge(engine, Kind::Block, 3, 2)),
        ("block", "the follower blocks", |engine| apply_edge(engine, Kind::Block, 1, 2)),
    ];

    #[test]
    fn each_planted_disagreement_is_found_by_its_check() {
        block_on(async {
            for (check, what, plant) in PLANTS {
                let store = small_store().await;
                plant(&store.engine);
                let found = checks(&store).await;
                assert!(found.contains(check), "{what}: {found:?}");
                if ["self", "block", "events"].contains(check) {
                    assert!(found.iter().all(|other| other == check), "{what}: {found:?}");
                }
            }
        });
    }

    #[test]
    fn each_planted_count_is_set_right_by_a_recount() {
        block_on(async {
            for (_, what, plant) in PLANTS.iter().filter(|(check, ..)| ["count", "row"].contains(check)) {
                for one_by_one in [false, true] {
                    let store = small_store().await;
                    plant(&store.engine);
                    let keys = if one_by_one { (1..=5).map(|key| Some(Key(key))).collect() } else { vec![None] };
                    let mut corrected = 0;
                    for key in keys {
                        corrected += store.recount(key).await.unwrap().corrected;
                    }
                    assert_eq!((corrected, checks(&store).await), (1, vec![]), "{what}");
                    assert_eq!(store.recount(None).await.unwrap(), Recounted { users: 5, corrected: 0 }, "{what}");
                }
            }
        });
    }

    #[test]
    fn a_missing_segment_is_a_gap_in_the_events() {
        block_on(async {
            let store = small_store().await;
            while store.engine.segments.lock().all.len() < 3 {
                store.commit(follow(5, 1, false).into()).await.unwrap();
                store.commit(Operation::Unfollow { follower: Key(5), target: Key(1) }.into()).await.unwrap();
            }
            assert_eq!(checks(&store).await, Vec::<&str>::new());
            store.engine.segments.lock().all.remove(1);
            assert_eq!(checks(&store).await, ["events"]);
        });
    }
}
