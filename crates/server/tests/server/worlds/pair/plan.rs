//! How a pair of worlds is made: steps that both take, and among them steps in which they part.

use std::collections::{BTreeSet, VecDeque};

use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};
use serde_json::json;

use super::{
    cast::{Cast, Id, pick},
    secrets::{self, Secret},
};

/// What is done in the first world and what in the second, each line a request by a service (`@user` acts for them), or
/// `resp` and a command.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) acts: [Vec<String>; 2],
    /// Why nobody must notice that they differ; none of these may be refused.
    pub(crate) secret: Option<&'static str>,
    /// How long nothing happens before.
    pub(crate) pause_millis: u64,
}

impl Step {
    pub(crate) fn both(line: impl Into<String>) -> Self {
        let line = line.into();
        Self { acts: [vec![line.clone()], vec![line]], secret: None, pause_millis: 1_000 }
    }

    pub(crate) fn apart(why: &'static str, first: Vec<String>, second: Vec<String>) -> Self {
        Self { acts: [first, second], secret: Some(why), pause_millis: 1_000 }
    }
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// People of whom secrets are.
    pub(crate) focus: Vec<Id>,
}

/// Pairs between which nothing happens but a secret.
#[derive(Default)]
pub(crate) struct Reserved(BTreeSet<(Id, Id)>);

impl Reserved {
    /// Whether nobody has this pair, which is then taken.
    pub(crate) fn take(&mut self, from: &str, to: &str) -> bool {
        from != to && self.0.insert((from.to_owned(), to.to_owned()))
    }

    fn has(&self, from: &str, to: &str) -> bool {
        self.0.contains(&(from.to_owned(), to.to_owned()))
    }
}

impl Plan {
    pub(crate) fn draw(cast: &Cast, seed: u64) -> Self {
        let random = &mut SmallRng::seed_from_u64(seed ^ 0x91a7);
        let mut reserved = Reserved::default();
        for (one, other) in cast.private.iter().chain(&cast.lured).map(|closed| (&cast.viewer, closed)) {
            reserved.take(one, other);
        }
        let mut focus = vec![cast.viewer.clone()];
        let (mut early, mut late, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for Secret { early: before, late: after, last: at_last, about } in secrets::draw(random, cast, &mut reserved) {
            early.push(VecDeque::from(before));
            late.push(VecDeque::from(after));
            last.extend(at_last);
            focus.extend(about);
        }
        focus.sort_unstable();
        focus.dedup();
        let mut follows = Vec::new();
        early.extend(everyday(random, cast, &reserved, &mut follows));
        late.extend(later(random, cast, &reserved, &follows));
        let people = [cast.everybody(), cast.heralds.clone()].concat();
        let mut steps: Vec<Step> =
            people.iter().map(|id| Step::both(format!("PUT /users/{id} {}", json!({ "name": id })))).collect();
        steps.extend(woven(random, early));
        steps.extend(turn(random, cast));
        steps.extend(woven(random, late));
        steps.extend(last);
        for step in &mut steps {
            step.pause_millis = match random.random_range(0..100) {
                0..75 => random.random_range(1..2_000),
                75..97 => random.random_range(1..600_000),
                _ => random.random_range(1..20_000_000),
            };
        }
        Self { steps, focus }
    }
}

/// One after the other at random, each chain in its own order.
fn woven(random: &mut SmallRng, mut chains: Vec<VecDeque<Step>>) -> Vec<Step> {
    let mut steps = Vec::new();
    loop {
        let mut left: Vec<usize> = Vec::new();
        for (index, chain) in chains.iter().enumerate() {
            left.extend(std::iter::repeat_n(index, chain.len()));
        }
        let Some(index) = left.get(random.random_range(0..left.len().max(1))) else { return steps };
        steps.extend(chains[*index].pop_front());
    }
}

fn alone(line: String) -> VecDeque<Step> {
    VecDeque::from([Step::both(line)])
}

pub(crate) fn post_line(random: &mut SmallRng, author: &str) -> String {
    let mut post = json!({ "body": { "text": random.random_range(100_000..999_999) } });
    if random.random_bool(0.3) {
        post["external_id"] = format!("own-{}", random.random_range(0..3)).into();
    }
    format!("@{author} POST /posts {post}")
}

/// While everybody is public.
fn everyday(
    random: &mut SmallRng,
    cast: &Cast,
    reserved: &Reserved,
    follows: &mut Vec<(Id, Id)>,
) -> Vec<VecDeque<Step>> {
    let (viewer, all) = (&cast.viewer, cast.everybody());
    let mut chains = Vec::new();
    let follow = |from: &Id, to: &Id, quiet: bool| {
        alone(format!("PUT /users/{from}/following/{to} {}", json!({ "quiet": quiet })))
    };
    for author in cast
        .friends
        .iter()
        .chain(&cast.open[..3])
        .chain(&cast.hidden[..1])
        .chain(&cast.blocked)
        .chain(&cast.blocking[..2])
    {
        chains.push(follow(viewer, author, false));
    }
    chains.extend(cast.lured.iter().chain(&cast.open[3..4]).map(|author| follow(viewer, author, true)));
    let mut draw = |random: &mut SmallRng| loop {
        let pair = (pick(random, &all), pick(random, &all));
        if pair.0 != pair.1 && pair.0 != *viewer && !reserved.has(&pair.0, &pair.1) {
            follows.push(pair.clone());
            return pair;
        }
    };
    for _ in 0..70 {
        let (from, to) = draw(random);
        chains.push(follow(&from, &to, false));
    }
    // Many in one millisecond.
    for _ in 0..6 {
        let operations: Vec<_> = (0..random.random_range(2..7))
            .map(|_| draw(random))
            .map(|(follower, target)| json!({ "op": "follow", "follower": follower, "target": target, "quiet": false }))
            .collect();
        chains.push(alone(format!("POST /follows:batch {}", json!({ "operations": operations }))));
    }
    chains.extend(cast.hidden.iter().map(|id| alone(format!(r#"PATCH /users/{id} {{"hide_lists": true}}"#))));
    for author in cast.open.iter().chain(&cast.friends).chain(&cast.unread()).chain(&cast.blocked) {
        chains.extend((0..random.random_range(0..3)).map(|_| alone(post_line(random, author))));
    }
    for name in ["one", "two"] {
        chains.push(alone(format!("@{viewer} POST /users/{viewer}/groups {}", json!({ "name": name }))));
    }
    // So that there is an inbox for posts to come into.
    chains.extend((0..3).map(|_| alone(format!("@{viewer} GET /users/{viewer}/feed"))));
    chains
}

/// Some go private, and blocks are made.
fn turn(random: &mut SmallRng, cast: &Cast) -> Vec<Step> {
    let viewer = &cast.viewer;
    let mut lines: Vec<String> = cast
        .private
        .iter()
        .chain(&cast.lured)
        .chain(&cast.friends)
        .chain(cast.is_viewer_private.then_some(viewer))
        .map(|id| format!(r#"PATCH /users/{id} {{"private": true}}"#))
        .collect();
    lines.extend(cast.blocked.iter().map(|id| format!("PUT /users/{viewer}/blocks/{id}")));
    lines.extend(cast.blocking.iter().map(|id| format!("PUT /users/{id}/blocks/{viewer}")));
    lines.shuffle(random);
    lines.into_iter().map(Step::both).collect()
}

/// When some are private.
fn later(random: &mut SmallRng, cast: &Cast, reserved: &Reserved, follows: &[(Id, Id)]) -> Vec<VecDeque<Step>> {
    let (viewer, all) = (&cast.viewer, cast.everybody());
    let mut chains = Vec::new();
    for _ in 0..25 {
        let (from, to) = (pick(random, &all), pick(random, &all));
        if from == to || reserved.has(&from, &to) {
            continue;
        }
        let mut chain = alone(format!(r#"PUT /users/{from}/following/{to} {{"quiet": false}}"#));
        // Of a public account this is refused.
        match random.random_range(0..4) {
            0 if from != *viewer => {
                chain.push_back(Step::both(format!("POST /users/{to}/follow-requests/{from}/accept")))
            }
            1 => chain.push_back(Step::both(format!("POST /users/{to}/follow-requests/{from}/reject"))),
            2 => chain.push_back(Step::both(format!("DELETE /users/{from}/following/{to}"))),
            _ => {}
        }
        chains.push(chain);
    }
    for _ in 0..12 {
        let (from, to) = &follows[random.random_range(0..follows.len())];
        chains.push(alone(format!("DELETE /users/{from}/following/{to}")));
    }
    for _ in 0..4 {
        let (from, to) = (pick(random, &all), pick(random, &all));
        chains.push(alone(format!("PUT /users/{from}/mutes/{to}")));
        chains.push(alone(format!("PUT /users/{viewer}/mutes/{to}")));
    }
    for author in cast.open.iter().chain(&cast.friends) {
        chains.extend((0..random.random_range(0..3)).map(|_| alone(post_line(random, author))));
    }
    chains.push(alone(format!("@{viewer} POST /users/{viewer}/notifications/seen")));
    chains.push(alone(format!("@{viewer} GET /users/{viewer}/feed")));
    chains.push(alone(format!("DELETE /users/{}", cast.leaver)));
    chains
}
