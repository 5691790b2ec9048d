//! Judges a history.

use std::collections::{HashMap, HashSet};

use entourage_model::{Code, Key, Kind, List, Plane, Sequence, Side, State};

use super::{
    Ending, Record, Verb,
    timeline::{Bounds, Link, Moment, Timeline},
};
use crate::conformance::pages;
use entourage_store::{Store, StoreExt as _};

/// The problems of a history, given the final state of the store. `mark` is a watermark from before the first record;
/// only the recorded clients wrote to these users, who had no edges before.
///
/// - The log has no gap, its versions rise on each edge, and no follow begins beside a block.
/// - Each acked change has exactly one event, its own; other events come from requests with an unknown outcome.
/// - Each edge is what the acked change of the greatest version made it; lists and counts agree.
/// - A write acked before another was sent comes first. Replies of no-ops and blocks were true meanwhile.
pub async fn check(records: &[Record], store: &dyn Store, mark: Sequence) -> Vec<String> {
    let mut problems = Vec::new();
    let events = match pages::read_events(store, mark).await {
        Ok(events) => events,
        Err(wrong) => return vec![wrong],
    };
    let users: HashSet<Key> = records.iter().flat_map(|record| [record.action.actor, record.action.target]).collect();
    let timeline = Timeline::replay(&events, mark, &users, &mut problems);
    let matched = match_events(records, &timeline, &mut problems);
    in_real_time(records, &matched, &timeline, mark, &mut problems);
    winners_stand(records, &timeline, &mut problems);
    final_state(store, &timeline, &users, &mut problems).await;
    problems
}

/// The event of each acked change, by the index of its record; `None` if there is one but it is ambiguous.
type Matched = HashMap<usize, Option<Moment>>;

fn match_events(records: &[Record], timeline: &Timeline, problems: &mut Vec<String>) -> Matched {
    let mut matched = Matched::new();
    let mut taken: HashSet<Sequence> = HashSet::new();
    // Those with a known event come first: the others take what is left.
    for certain_ones in [true, false] {
        for (index, record) in records.iter().enumerate() {
            let Ending::Ok { changed: true, version, watermark } = record.ending else { continue };
            let certain = version.is_some() || watermark.is_some();
            if certain != certain_ones {
                continue;
            }
            // A block may have removed two edges after its own event.
            let others = if record.action.verb == Verb::Block { 2 } else { 0 };
            let near = |watermark: Sequence, at: Sequence| at <= watermark && watermark.0 - at.0 <= others;
            let fits = |moment: &&Moment| {
                version.is_none_or(|version| moment.version == version)
                    && (version.is_some() || watermark.is_none_or(|watermark| near(watermark, moment.sequence)))
                    && moment.state.is_some() == record.action.verb.makes()
                    && !moment.by_block
                    && !taken.contains(&moment.sequence)
            };
            match timeline.moments(record.action.link()).iter().rev().find(fits) {
                Some(moment) => {
                    taken.insert(moment.sequence);
                    matched.insert(index, certain.then_some(*moment));
                }
                None => problems.push(format!("an acked change has no event of its own: {record:?}")),
            }
        }
    }
    let mut unheard: HashMap<(Link, bool), usize> = HashMap::new();
    for record in records.iter().filter(|record| record.ending == Ending::Info) {
        *unheard.entry((record.action.link(), record.action.verb.makes())).or_default() += 1;
    }
    for (link, moments) in timeline.links() {
        for moment in moments.iter().filter(|moment| !taken.contains(&moment.sequence)) {
            if moment.by_block {
                let (_, follower, target) = link;
                let blocks = [(Kind::Block, follower, target), (Kind::Block, target, follower)];
                let same = |block: &Moment| block.version == moment.version && block.state.is_some();
                if !blocks.iter().any(|&block| timeline.moments(block).iter().any(same)) {
                    problems.push(format!("event {} blames a block that never was: {link:?}", moment.sequence));
                }
                continue;
            }
            match unheard.get_mut(&(link, moment.state.is_some())) {
                Some(left) if *left > 0 => *left -= 1,
                _ => problems.push(format!("event {} on {link:?} is nobody's doing", moment.sequence)),
            }
        }
    }
    matched
}

fn in_real_time(
    records: &[Record],
    matched: &Matched,
    timeline: &Timeline,
    mark: Sequence,
    problems: &mut Vec<String>,
) {
    let acked = records.iter().enumerate().filter_map(|(index, record)| {
        let Ending::Ok { watermark, .. } = record.ending else { return None };
        let known = matched.get(&index).copied().flatten().map(|moment| moment.sequence);
        Some((record.completed?, known.or(watermark)?))
    });
    let acked = Bounds::acked(acked.collect());
    let asked = matched.iter().filter_map(|(&index, moment)| Some((records[index].invoked, moment.as_ref()?.sequence)));
    let asked = Bounds::asked(asked.collect());
    for (index, record) in records.iter().enumerate() {
        let low = acked.before(record.invoked).unwrap_or(mark).max(mark);
        if let Some(moment) = matched.get(&index) {
            if let Some(moment) = moment
                && moment.sequence <= low
            {
                problems.push(format!("logged at {}, before what was acked at {low}: {record:?}", moment.sequence));
            }
            continue;
        }
        let Some(completed) = record.completed else { continue };
        let high = asked.after(completed).map_or(timeline.last, |next| Sequence(next.0 - 1));
        if !was_true(record, timeline, low, high) {
            problems.push(format!("not so at any moment from {low} to {high}: {record:?}"));
        }
        if let Ending::Ok { watermark: Some(watermark), .. } = record.ending
            && watermark < low
        {
            problems.push(format!("the watermark is older than one acked before, {low}: {record:?}"));
        }
    }
}

/// Whether a no-op or a refusal was right at some moment between the two.
fn was_true(record: &Record, timeline: &Timeline, low: Sequence, high: Sequence) -> bool {
    let (_, actor, target) = record.action.link();
    match &record.ending {
        Ending::Ok { changed: false, .. } => timeline.was(record.action.link(), record.action.verb.makes(), low, high),
        refusal if refusal.is_refusal(Code::Blocked) => {
            let follows = matches!(record.action.verb, Verb::Follow | Verb::FollowQuietly);
            let blocked = |by, whom| timeline.was((Kind::Block, by, whom), true, low, high);
            follows && (blocked(actor, target) || blocked(target, actor))
        }
        // Quotas and the like are rules beyond the graph; that they changed nothing shows in the events.
        Ending::Fail(code) => matches!(
            Code::parse(code),
            Some(Code::RateLimited | Code::CoolingDown | Code::FollowSuspended | Code::ChallengeRequired)
        ),
        Ending::Ok { .. } | Ending::Info => true,
    }
}

/// Without the log: the acked change of the greatest version decides, and at equal versions the removal.
fn winners_stand(records: &[Record], timeline: &Timeline, problems: &mut Vec<String>) {
    let mut winners = HashMap::new();
    let (mut unsure, mut versions) = (HashSet::new(), HashSet::new());
    for record in records {
        let (_, actor, target) = record.action.link();
        let mut touched = vec![(record.action.link(), record.action.verb.makes())];
        if record.action.verb == Verb::Block {
            touched.extend([((Kind::Follow, actor, target), false), ((Kind::Follow, target, actor), false)]);
        }
        match record.ending {
            Ending::Ok { changed: true, version: Some(version), .. } => {
                if !versions.insert((record.action.link(), version)) {
                    problems.push(format!("two acked changes share a version: {record:?}"));
                }
                for (link, makes) in touched {
                    let rank = (version, !makes);
                    let winner = winners.entry(link).or_insert(rank);
                    *winner = rank.max(*winner);
                }
            }
            Ending::Info | Ending::Ok { changed: true, version: None, .. } => {
                unsure.extend(touched.into_iter().map(|(link, _)| link));
            }
            _ => {}
        }
    }
    for (link, (version, removed)) in winners {
        let there = timeline.end(link).is_some_and(|moment| moment.state.is_some());
        if !unsure.contains(&link) && there == removed {
            problems.push(format!("{link:?} is not what the acked change of version {version} made it"));
        }
    }
}

async fn final_state(store: &dyn Store, timeline: &Timeline, users: &HashSet<Key>, problems: &mut Vec<String>) {
    for kind in [Kind::Follow, Kind::Block] {
        let pairs: Vec<(Key, Key)> = users.iter().flat_map(|&a| users.iter().map(move |&b| (a, b))).collect();
        let values = match store.get_edges(kind, &pairs).await {
            Ok(values) => values,
            Err(error) => return problems.push(format!("edges cannot be read: {error}")),
        };
        for (&(a, b), value) in pairs.iter().zip(values) {
            let end = timeline.end((kind, a, b));
            let expected = end.and_then(|end| Some((end.state?, end.version, end.quiet)));
            let seen = value.map(|value| (value.state, value.version, value.quiet));
            if seen != expected {
                problems.push(format!("{kind:?} {a} → {b} ended as {seen:?}; the log says {expected:?}"));
            }
        }
    }
    for &user in users {
        if let Err(wrong) = lists_and_counts(store, timeline, user).await {
            problems.push(wrong);
        }
    }
}

async fn lists_and_counts(store: &dyn Store, timeline: &Timeline, user: Key) -> Result<(), String> {
    let mut totals = HashMap::new();
    for plane in [Plane::Follow, Plane::Request, Plane::Block] {
        for side in Side::BOTH {
            let list = List::new(user, plane, side);
            let edges = pages::read_list(store, list, 7).await?;
            let seen: HashSet<Key> = edges.iter().map(|edge| list.other(edge)).collect();
            let expected: HashSet<Key> =
                timeline.links().filter_map(|(link, _)| stands(timeline, list, link)).collect();
            if seen != expected {
                return Err(format!("{list:?} shows {seen:?}; the log says {expected:?}"));
            }
            totals.insert((plane, side), edges.len() as u64);
        }
    }
    let counts = store.get_counts(user).await.map_err(|error| error.to_string())?;
    let counts = counts.ok_or_else(|| format!("{user} is gone"))?;
    let seen = [counts.followers, counts.following, counts.requests, counts.requested];
    let lists = [
        (Plane::Follow, Side::Followers),
        (Plane::Follow, Side::Following),
        (Plane::Request, Side::Followers),
        (Plane::Request, Side::Following),
    ]
    .map(|list| totals.get(&list).copied().unwrap_or_default());
    if seen != lists {
        return Err(format!("counts of {user} are {seen:?}, its lists have {lists:?}"));
    }
    Ok(())
}

/// The row that this list must show because of this edge.
fn stands(timeline: &Timeline, list: List, link: Link) -> Option<Key> {
    let (kind, follower, target) = link;
    let state: State = timeline.end(link)?.state?;
    let (user, other) = match list.side {
        Side::Following => (follower, target),
        Side::Followers => (target, follower),
    };
    (user == list.user && Plane::of(kind, state) == Some(list.plane)).then_some(other)
}
