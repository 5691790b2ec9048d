//! What two worlds may differ in without the viewer being able to tell. Each function is a cell of the table of who sees
//! what, and says why nothing of the difference may be seen, and what therefore has to stay the same.
//!
//! | what | who sees it | the worlds differ in | equal in both |
//! |---|---|---|---|
//! | quiet edge A→B | A | whether it is there, when it was made, whether it was asked for again | nothing else: public totals leave it out |
//! | open edge that became quiet | A | that, against its having ended | that it was there before |
//! | quiet edge to an account that went private, then a request | A | the quiet edge | the request and its time |
//! | edge of somebody whom a block keeps from the viewer | others | who of them it is, and when | totals, which a block does not change |
//! | edge between two accounts whose lists are closed to the viewer (private, `hide_lists`, block) | its two ends, and who may look at either list | who with whom, and when | totals, which are shown all the same |
//! | block between two others | the two | whether it stands, and whose it is | that no edge is between them |
//! | mute, group, history, mark of what was seen | their owner | whether it is there | |
//! | request between two others | the two | whether it was made | |
//! | parked follow | its follower | whether it was made, taken back or removed by its target | |
//! | post of a private or blocked author | their followers | whether it was written | |
//!
//! A private account counts as closed to a viewer who follows it quietly. An edge with one open end is no secret: the
//! list of that end shows it.

use rand::{RngExt, rngs::SmallRng, seq::SliceRandom};
use serde_json::json;

use super::{
    cast::{Cast, Id, pick},
    plan::{Reserved, Step, post_line},
};

#[derive(Default)]
pub(crate) struct Secret {
    /// While everybody is public.
    pub(crate) early: Vec<Step>,
    /// When some are private, and blocks are made.
    pub(crate) late: Vec<Step>,
    /// When nobody does anything any more.
    pub(crate) last: Vec<Step>,
    /// Whose lists to look at.
    pub(crate) about: Vec<Id>,
}

pub(crate) fn draw(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved) -> Vec<Secret> {
    let mut secrets = Vec::new();
    // In every world: many next to each other, in a list of the viewer's and in somebody else's.
    secrets.push(quiet_crowd(random, cast, reserved, &cast.viewer));
    let target = pick(random, &cast.open);
    secrets.push(quiet_crowd(random, cast, reserved, &target));
    let target = pick(random, &cast.public());
    secrets.push(crowd_apart(random, cast, reserved, &target));
    for _ in 0..2 {
        secrets.extend(quiet_edge(random, cast, reserved));
        secrets.extend(turned_quiet(random, cast, reserved));
        secrets.extend(asked_after_quiet(random, cast, reserved));
        secrets.extend(swapped(random, cast, reserved));
        secrets.extend(shifted(random, cast, reserved));
        secrets.extend(block_of_others(random, cast, reserved));
        secrets.extend(request_of_others(random, cast, reserved));
        secrets.extend(parked(random, cast, reserved));
        secrets.extend(ended(random, cast, reserved));
        secrets.push(own_things(random, cast));
        secrets.push(unread_post(random, cast));
        secrets.push(unread_post(random, cast));
    }
    secrets.extend(erased_with_quiet_edges(random, cast, reserved));
    secrets
}

fn follow(from: &str, to: &str, quiet: bool) -> String {
    format!("PUT /users/{from}/following/{to} {}", json!({ "quiet": quiet }))
}

/// A follow that does not say whether it is quiet, by each way in: what is there stays as it is.
fn repeat(random: &mut SmallRng, from: &str, to: &str) -> String {
    let operations = json!({ "operations": [{ "op": "follow", "follower": from, "target": to }] });
    match random.random_range(0..7) {
        0 => format!("@{from} POST /users/{to}/follow"),
        1 => format!("@{from} POST /users/{to}/follow {{}}"),
        2 => format!("PUT /users/{from}/following/{to}"),
        3 => format!("PUT /users/{from}/following/{to} {{}}"),
        4 => format!("POST /follows:batch {operations}"),
        5 => format!("resp SADD following:{from} {to}"),
        _ => format!("resp EG.FOLLOW {from} {to}"),
    }
}

const QUIET: &str = "a quiet edge is there for its follower alone";

fn quiet_edge(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved) -> Option<Secret> {
    let from = pick(random, &cast.others());
    let to = if random.random_bool(0.2) { cast.viewer.clone() } else { pick(random, &cast.others()) };
    if !reserved.take(&from, &to) {
        return None;
    }
    let mut early = vec![Step::apart(QUIET, vec![follow(&from, &to, true)], vec![])];
    if random.random_bool(0.5) {
        early.push(Step::apart(QUIET, vec![repeat(random, &from, &to)], vec![]));
    }
    let mut late = match random.random_range(0..3) {
        0 => vec![Step::apart(QUIET, vec![format!("DELETE /users/{from}/following/{to}")], vec![])],
        _ => vec![],
    };
    let stays_public = cast.public().contains(&to) || (to == cast.viewer && !cast.is_viewer_private);
    // A block between the two refuses what comes later.
    let is_apart = to == cast.viewer && cast.apart().contains(&from);
    if stays_public && !is_apart && random.random_bool(0.5) {
        early.append(&mut late);
        std::mem::swap(&mut early, &mut late);
    }
    Some(Secret { early, late, about: vec![from, to], ..Secret::default() })
}

/// Several quiet followers in a row, asked for again by one of them.
fn quiet_crowd(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved, target: &str) -> Secret {
    let crowd: Vec<&Id> = cast.quiet.iter().filter(|from| reserved.take(from, target)).collect();
    let lines: Vec<String> = crowd.iter().map(|from| follow(from, target, true)).collect();
    let few = lines[..random.random_range(0..2)].to_vec();
    let mut early = vec![Step::apart(QUIET, lines, few)];
    for _ in 0..2 {
        // Not the first: the other world may have that one, too.
        let from = crowd[random.random_range(1..crowd.len())];
        early.push(Step::apart(QUIET, vec![repeat(random, from, target)], vec![]));
    }
    let mut about = vec![target.to_owned()];
    about.extend(crowd.into_iter().cloned());
    Secret { early, about, ..Secret::default() }
}

/// Open first in both worlds; then quiet in the one and ended in the other. Of the viewer's own followers it is one whom
/// they put into a group.
fn turned_quiet(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved) -> Option<Secret> {
    const WHY: &str = "to others an edge that became quiet is one that ended";
    let from = pick(random, &cast.public());
    let to = if random.random_bool(0.6) { cast.viewer.clone() } else { pick(random, &cast.public()) };
    if !reserved.take(&from, &to) {
        return None;
    }
    let mut early = vec![Step::both(follow(&from, &to, false))];
    if to == cast.viewer {
        early.push(Step::both(format!("@{to} GROUP {from}")));
    }
    let ended = format!("DELETE /users/{from}/following/{to}");
    early.push(Step::apart(WHY, vec![follow(&from, &to, true)], vec![ended]));
    Some(Secret { early, about: vec![from, to], ..Secret::default() })
}

/// Whoever follows an account quietly that then goes private asks like a stranger.
fn asked_after_quiet(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved) -> Option<Secret> {
    let mut targets = [cast.lured.clone(), cast.friends.clone()].concat();
    targets.extend(cast.is_viewer_private.then(|| cast.viewer.clone()));
    targets.extend(cast.is_viewer_private.then(|| cast.viewer.clone()));
    let (from, to) = (pick(random, &cast.public()), pick(random, &targets));
    if !reserved.take(&from, &to) {
        return None;
    }
    let early = vec![Step::apart(QUIET, vec![follow(&from, &to, true)], vec![])];
    let late = vec![Step::both(follow(&from, &to, false))];
    Some(Secret { early, late, about: vec![from, to], ..Secret::default() })
}

const CLOSED: &str = "an edge between two accounts whose lists are closed is shown by neither";
const APART: &str = "a block hides rows, not totals";

/// The same people, the same totals, other edges.
fn swapped(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved) -> Option<Secret> {
    let mut people = cast.closed();
    people.shuffle(random);
    let [a, b, c, d] = people.get(..4)?.as_array::<4>()?;
    if [(a, c), (b, d), (a, d), (b, c)].map(|(from, to)| reserved.take(from, to)).contains(&false) {
        return None;
    }
    let (first, second) =
        (vec![follow(a, c, false), follow(b, d, false)], vec![follow(b, c, false), follow(a, d, false)]);
    Some(Secret { early: vec![Step::apart(CLOSED, first, second)], about: people[..4].to_vec(), ..Secret::default() })
}

/// The same edge, sooner or later: between closed accounts, or between somebody apart and anybody.
fn shifted(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved) -> Option<Secret> {
    let (why, ends) = match random.random_bool(0.5) {
        true => (CLOSED, [pick(random, &cast.closed()), pick(random, &cast.closed())]),
        false => (APART, [pick(random, &cast.apart()), pick(random, &cast.others())]),
    };
    let [from, to] = if random.random_bool(0.5) { ends } else { [ends[1].clone(), ends[0].clone()] };
    if !reserved.take(&from, &to) {
        return None;
    }
    let line = follow(&from, &to, false);
    let early = vec![Step::apart(why, vec![line.clone()], vec![]), Step::apart(why, vec![], vec![line])];
    Some(Secret { early, about: vec![from, to], ..Secret::default() })
}

/// Everybody apart in a row in one list, sooner or later and in another order.
fn crowd_apart(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved, target: &str) -> Secret {
    let mut lines = Vec::new();
    for other in cast.apart() {
        if reserved.take(&other, target) {
            lines.push(follow(&other, target, false));
        }
        if reserved.take(target, &other) {
            lines.push(follow(target, &other, false));
        }
    }
    let sooner = Step::apart(APART, lines.clone(), vec![]);
    lines.shuffle(random);
    let later = Step::apart(APART, vec![], lines);
    Secret { early: vec![sooner, later], about: vec![target.to_owned()], ..Secret::default() }
}

fn block_of_others(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved) -> Option<Secret> {
    let (one, other) = (pick(random, &cast.others()), pick(random, &cast.others()));
    if !reserved.take(&one, &other) || !reserved.take(&other, &one) {
        return None;
    }
    let back = format!("PUT /users/{other}/blocks/{one}");
    let second = if random.random_bool(0.5) { vec![back] } else { vec![] };
    let first = vec![format!("PUT /users/{one}/blocks/{other}")];
    let early = vec![Step::apart("a block is for its two ends to know", first, second)];
    Some(Secret { early, about: vec![one, other], ..Secret::default() })
}

fn request_of_others(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved) -> Option<Secret> {
    let targets = [cast.private.clone(), cast.lured.clone(), cast.friends.clone()].concat();
    let (from, to) = (pick(random, &cast.others()), pick(random, &targets));
    if !reserved.take(&from, &to) {
        return None;
    }
    let asked = vec![follow(&from, &to, false)];
    let late = vec![Step::apart("a request is for its two ends to know", asked, vec![])];
    Some(Secret { late, about: vec![from, to], ..Secret::default() })
}

/// In quarantine, also where the viewer is the target.
fn parked(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved) -> Option<Secret> {
    const WHY: &str = "a parked follow is there for its follower alone";
    let from = pick(random, &cast.others());
    let to = if random.random_bool(0.5) { cast.viewer.clone() } else { pick(random, &cast.others()) };
    if !reserved.take(&from, &to) {
        return None;
    }
    let mut early = vec![Step::apart(WHY, vec![format!("{from} PARK {to}")], vec![])];
    match random.random_range(0..4) {
        0 => early.push(Step::apart(WHY, vec![format!("DELETE /users/{from}/following/{to}")], vec![])),
        1 => early.push(Step::apart(WHY, vec![format!("@{from} POST /users/{to}/follow")], vec![])),
        _ => {}
    }
    Some(Secret { early, about: vec![from, to], ..Secret::default() })
}

/// What somebody followed before is theirs to know.
fn ended(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved) -> Option<Secret> {
    let (from, to) = (pick(random, &cast.others()), pick(random, &cast.others()));
    if !reserved.take(&from, &to) {
        return None;
    }
    let lines = vec![follow(&from, &to, false), format!("DELETE /users/{from}/following/{to}")];
    let early = vec![Step::apart("history is its owner's", lines, vec![])];
    Some(Secret { early, about: vec![from, to], ..Secret::default() })
}

/// What belongs to one person, and to nobody else.
fn own_things(random: &mut SmallRng, cast: &Cast) -> Secret {
    let owner = pick(random, &[cast.open.clone(), cast.private.clone(), cast.apart()].concat());
    let (why, line) = match random.random_range(0..4) {
        0 => ("a mute is for who mutes", format!("PUT /users/{owner}/mutes/{}", cast.viewer)),
        1 => ("a mute is for who mutes", format!("PUT /users/{owner}/mutes/{}", pick(random, &cast.quiet))),
        2 => ("groups are their owner's", format!(r#"@{owner} POST /users/{owner}/groups {{"name": "mine"}}"#)),
        _ => ("what was seen is the reader's", format!("@{owner} POST /users/{owner}/notifications/seen")),
    };
    let last = vec![Step::apart(why, vec![line], vec![])];
    Secret { last, about: vec![owner], ..Secret::default() }
}

fn unread_post(random: &mut SmallRng, cast: &Cast) -> Secret {
    const WHY: &str = "posts of private accounts are for their followers, and a block hides them";
    let author = pick(random, &cast.unread());
    let step = Step::apart(WHY, vec![post_line(random, &author)], vec![]);
    let (early, late) = if random.random_bool(0.5) { (vec![step], vec![]) } else { (vec![], vec![step]) };
    Secret { early, late, about: vec![author], ..Secret::default() }
}

/// Quiet edges go with whom they are of, as everything does.
fn erased_with_quiet_edges(random: &mut SmallRng, cast: &Cast, reserved: &mut Reserved) -> Option<Secret> {
    let (from, to) = (pick(random, &cast.quiet), pick(random, &cast.open));
    if !reserved.take(&from, &cast.leaver) || !reserved.take(&cast.leaver, &to) {
        return None;
    }
    let lines = vec![follow(&from, &cast.leaver, true), follow(&cast.leaver, &to, true)];
    Some(Secret { early: vec![Step::apart(QUIET, lines, vec![])], about: vec![from, to], ..Secret::default() })
}
