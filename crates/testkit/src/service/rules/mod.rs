//! Long random runs of the rules, through any front: the replies to each request and the results for each viewer are
//! compared with [`reference::Reference`] after every step. Everything comes from one seed.
//!
//! `ENTOURAGE_SEED=n` replays one seed, `ENTOURAGE_SOAK=1` makes runs fifty times as long.

mod beyond;
pub mod draw;
pub mod question;
pub mod reference;
mod suggestions;

use std::collections::VecDeque;

use rand::RngExt;

use self::{
    draw::Draw,
    question::{Id, Read, Write, agrees},
    reference::{Reference, Twist},
};

/// How many follows one user may have in these runs.
pub const FOLLOWING_MAX: u64 = 5;

/// A front that takes requests. Its replies are reduced to a few words, the same for every front.
pub trait Front {
    async fn write(&self, actor: Option<Id>, write: &Write) -> String;
    /// Lists are read to their end in pages of `limit`.
    async fn read(&self, viewer: Option<Id>, read: &Read, limit: usize) -> String;
}

/// Runs one seed; reports where the front and the rules differ.
pub async fn run(front: &impl Front, seed: u64, steps: usize, twist: Option<Twist>) -> Result<(), String> {
    let mut draw = Draw::new(seed);
    let mut reference = Reference::new(FOLLOWING_MAX, twist);
    let mut recent = VecDeque::new();
    for step in 0..steps {
        let (actor, write) = draw.write(step, &reference);
        let expected = reference.write(actor, &write);
        let said = front.write(actor, &write).await;
        if recent.len() == 30 {
            recent.pop_front();
        }
        recent.push_back(format!("{step}: {actor:?} {write:?} → {said}"));
        let fail = |what: String| {
            let lines: Vec<&str> = recent.iter().map(String::as_str).collect();
            format!("seed {seed} step {step}: {what}\n{}\nreplay with ENTOURAGE_SEED={seed}", lines.join("\n"))
        };
        if said != expected {
            return Err(fail(format!("{actor:?} {write:?} must be told {expected}, not {said}")));
        }
        for (viewer, read, limit) in draw.reads(step) {
            // What an erased user sees before the erasure completes is not a rule.
            if viewer.is_some_and(|viewer| reference.is_leaving(viewer)) {
                continue;
            }
            let (expected, shown) = (reference.read(viewer, &read), front.read(viewer, &read, limit).await);
            if !agrees(&expected, &shown) {
                return Err(fail(format!("{read:?} must show {viewer:?} {expected}, not {shown}")));
            }
        }
    }
    Ok(())
}

/// Runs `seeds` seeds, each on a front of its own: half of them fixed, half random.
pub async fn run_seeds<F: Front>(seeds: u64, steps: usize, fresh: impl AsyncFn() -> F) {
    let variable = |name| std::env::var(name).ok();
    let steps = if variable("ENTOURAGE_SOAK").is_some_and(|soak| soak == "1") { steps * 50 } else { steps };
    let chosen: Vec<u64> = match variable("ENTOURAGE_SEED") {
        Some(text) => vec![text.parse().expect("ENTOURAGE_SEED is a number")],
        None => (0..seeds).map(|seed| if seed < seeds / 2 { seed } else { rand::rng().random() }).collect(),
    };
    for seed in chosen {
        println!("seed {seed}, {steps} steps");
        if let Err(failure) = run(&fresh().await, seed, steps, None).await {
            panic!("{failure}");
        }
    }
}
