//! Two worlds that differ only in what one viewer may not see, and that viewer's requests to both. Everything comes from
//! one seed, and everything they are told must be the same.
//!
//! `ENTOURAGE_SEED=n` replays one seed, `ENTOURAGE_SOAK=1` runs twenty times as many.

mod answer;
mod cast;
mod commands;
mod fill;
mod opaque;
mod plan;
pub(crate) mod planted;
mod questions;
mod routes;
mod row;
mod secrets;
mod streams;
mod world;

use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

pub(crate) use self::world::Open;
use self::{
    answer::Sealed,
    cast::Cast,
    opaque::Known,
    plan::{Plan, Step},
    planted::Leak,
    world::{By, Common, World},
};

/// How the stores of a pair are opened.
pub(crate) struct Stores {
    pub(crate) open: [Open; 2],
    /// They have secrets of their own, and so other keys for names.
    pub(crate) are_strangers: bool,
    /// They still have everything when they are opened again.
    pub(crate) are_durable: bool,
}

struct Pair {
    common: Rc<Common>,
    cast: Cast,
    plan: Plan,
    worlds: [World; 2],
    sealed: [Sealed; 2],
    /// Ids of all posts, whoever may see them.
    posts: Vec<[String; 2]>,
    random: SmallRng,
    /// The viewer's last requests, for whoever looks into a failure.
    recent: VecDeque<String>,
    /// What told the worlds apart, by route or command.
    found: BTreeMap<String, String>,
}

/// What the viewer does.
enum Part {
    Looking,
    Changing,
    Listening,
    Leaving,
}

/// How many requests that came before, and how many of the differences, a message about a failure has.
const RECENT: usize = 12;
const SHOWN: usize = 10;

/// Runs one seed; says what told the worlds apart.
pub(crate) fn run(seed: u64, stores: Stores, leak: Option<Leak>) -> Result<(), String> {
    let mut random = SmallRng::seed_from_u64(seed);
    let cast = Cast::draw(&mut random, stores.are_strangers);
    let plan = Plan::draw(&cast, seed);
    // What is planted is planted in RESP2.
    let is_resp3 = leak.is_none() && random.random_bool(0.5);
    let common = Common::new(&cast.viewer, is_resp3, leak);
    let worlds = stores.open.map(|open| World::new(&common, open));
    let (sealed, posts, recent, found) = (Default::default(), Vec::new(), VecDeque::new(), BTreeMap::new());
    let mut pair = Pair { common, cast, plan, worlds, sealed, posts, random, recent, found };
    pair.run(stores.are_durable).map_err(|why| format!("seed {seed}: {why}"))?;
    if pair.found.is_empty() { Ok(()) } else { Err(pair.failure(seed)) }
}

impl Pair {
    /// Says why the worlds could not be made; what tells them apart is found on the way.
    fn run(&mut self, are_durable: bool) -> Result<(), String> {
        for step in self.plan.steps.clone() {
            self.take(&step)?;
        }
        self.settle();
        if are_durable {
            self.worlds.iter_mut().for_each(World::restart);
        }
        for part in [Part::Looking, Part::Looking, Part::Changing, Part::Looking, Part::Listening, Part::Leaving] {
            match part {
                Part::Looking => self.look_around(),
                Part::Changing => self.change_everything(),
                Part::Listening => self.listen()?,
                Part::Leaving => self.leave(),
            }
            if self.is_decided() {
                return Ok(());
            }
        }
        self.look_inside();
        Ok(())
    }

    /// Of what was not planted as much as can be found is of use.
    fn is_decided(&self) -> bool {
        self.common.leak.is_some() && !self.found.is_empty()
    }

    /// Both worlds take a step, at the same moments.
    fn take(&mut self, step: &Step) -> Result<(), String> {
        self.common.clock.advance(step.pause_millis);
        let [first, second] = &step.acts;
        for index in 0..first.len().max(second.len()) {
            self.common.clock.advance(1);
            let mut acts = step.acts.iter();
            let done = self.worlds.each_mut().map(|world| acts.next()?.get(index).map(|line| world.act(line)));
            let accepted = done.each_ref().map(|done| done.as_ref().map(|done| done.is_accepted));
            let is_fine =
                if step.secret.is_some() { !accepted.contains(&Some(false)) } else { accepted[0] == accepted[1] };
            if !is_fine {
                return Err(format!("{step:?}, act {index}: accepted {accepted:?}"));
            }
            // What only one has made is asked for in the other by the same id.
            match done.map(|done| done?.post) {
                [Some(first), Some(second)] => self.posts.push([first, second]),
                [Some(one), None] | [None, Some(one)] => self.posts.push([one.clone(), one]),
                [None, None] => {}
            }
        }
        Ok(())
    }

    /// What can be read out of cursors and tokens.
    fn look_inside(&mut self) {
        let people = [self.cast.everybody(), self.cast.heralds.clone()].concat();
        let known = self.worlds.each_ref().map(|world| Known::of(world, &people));
        assert_ne!(known[0], known[1], "the worlds are the same to everybody");
        for (sealed, known) in self.sealed.iter().zip(known) {
            if let Err(what) = opaque::check(sealed, &known) {
                self.found.entry("cursors and tokens".to_owned()).or_insert(what);
            }
        }
    }

    fn settle(&self) {
        self.worlds.iter().for_each(World::settle);
    }

    /// What both worlds said to the same request; of each topic the first difference is kept.
    fn compare(&mut self, topic: &str, asked: String, first: &str, second: &str) {
        if first != second {
            let before: Vec<&str> = self.recent.iter().map(String::as_str).collect();
            let what = format!("--- the first world says\n{first}\n--- the second says\n{second}");
            let what = format!("{asked}\n{what}\n--- asked before\n{}", before.join("\n"));
            self.found.entry(topic.to_owned()).or_insert(what);
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(asked);
    }

    fn failure(&self, seed: u64) -> String {
        let parted = self.plan.steps.iter().filter(|step| step.secret.is_some());
        let parted: Vec<String> = parted.map(|step| format!("{}: {:?}", step.secret.unwrap(), step.acts)).collect();
        let topics: Vec<&str> = self.found.keys().map(String::as_str).collect();
        let found: Vec<&str> = self.found.values().map(String::as_str).take(SHOWN).collect();
        format!(
            "the viewer {} can tell the worlds apart by\n{}\n\n{}\n\nthe worlds differ in\n{}\n\nreplay with \
             ENTOURAGE_SEED={seed}",
            self.cast.viewer,
            topics.join("\n"),
            found.join("\n\n"),
            parted.join("\n")
        )
    }
}

/// Runs `count` seeds: half of them always the same ones, half drawn anew.
pub(crate) fn run_seeds(count: u64, stores: impl Fn() -> Stores) {
    let variable = |name| std::env::var(name).ok();
    let count = if variable("ENTOURAGE_SOAK").is_some_and(|soak| soak == "1") { count * 20 } else { count };
    let seeds: Vec<u64> = match variable("ENTOURAGE_SEED") {
        Some(text) => vec![text.parse().expect("ENTOURAGE_SEED is a number")],
        None => (0..count).map(|seed| if seed < count.div_ceil(2) { seed } else { rand::rng().random() }).collect(),
    };
    for seed in seeds {
        println!("seed {seed}");
        if let Err(failure) = run(seed, stores(), None) {
            panic!("{failure}");
        }
    }
}

/// A command without a row fails.
pub(crate) fn check_commands(stores: Stores) {
    let [open, _] = stores.open;
    let mut names = World::new(&Common::new("viewer", false, None), open).command_names();
    names.sort_unstable();
    assert_eq!(names, commands::ROWS.iter().map(|row| row.name).collect::<Vec<_>>());
}

fn by(random: &mut SmallRng) -> By {
    if random.random_bool(0.75) { By::Token } else { By::Service }
}
