//! Long random runs, compared with [`super::reference`] after each step. Everything comes from one seed.
//!
//! `ENTOURAGE_SEED=n` replays one seed, `ENTOURAGE_SOAK=1` makes runs fifty times as long.

mod compare;
#[cfg(test)]
mod coverage;
mod draw;

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    sync::Arc,
};

use entourage_model::{Code, Error, Outcome, Write};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use self::{compare::Comparison, draw::Draw};
use super::{Fixture, block_on, reference::Reference, settled::settled};
use entourage_store::{CommitOrder, Store, StoreExt as _};

/// One run. The store must not have seen this seed before.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub steps: usize,
    /// After how many steps everything is read and compared.
    pub compare_every: usize,
    /// Whether records, groups, suspensions and erasures are among the writes.
    pub beyond_graph: bool,
}

impl Plan {
    pub fn new(seed: u64, steps: usize) -> Self {
        Self { seed, steps, compare_every: 40, beyond_graph: true }
    }
}

/// What a run covered.
#[derive(Debug, Default)]
pub struct Run {
    /// In the order of their commits.
    pub outcomes: Vec<Outcome>,
    pub refusals: HashSet<Code>,
}

/// Where the store and the rules differ.
#[derive(Debug)]
pub struct Failure {
    pub plan: Plan,
    pub step: usize,
    pub wrong: String,
    /// The last writes and their outcomes, oldest first.
    pub recent: VecDeque<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, step, wrong, recent } = self;
        writeln!(f, "seed {} step {step}: {wrong}", plan.seed)?;
        for line in recent {
            writeln!(f, "  {line}")?;
        }
        write!(f, "replay with ENTOURAGE_SEED={}", plan.seed)
    }
}

/// Nothing happens between steps.
pub async fn straight_on(_step: usize, store: Arc<dyn Store>) -> Arc<dyn Store> {
    store
}

/// Runs a plan. `between` gets the store before each step and returns one: the same, or another opened on the same
/// place.
pub async fn run(
    store: Arc<dyn Store>,
    plan: Plan,
    mut between: impl AsyncFnMut(usize, Arc<dyn Store>) -> Arc<dyn Store>,
) -> Result<Run, Failure> {
    let mut draw = Draw::new(plan.seed, &store.identity().secret, store.guarantees().buckets, plan.beyond_graph);
    let mut comparison = Comparison::new(plan.seed, draw.everyone(), store.guarantees().order == CommitOrder::Known);
    let (mut reference, mut met, mut recent) = (Reference::of(&store.guarantees()), Run::default(), VecDeque::new());
    let mut store = settled(store);
    for step in 0..plan.steps {
        store = between(step, store).await;
        let writes = draw.step(step);
        let results = commit(&*store, &writes).await;
        let mut wrong = (results.len() != writes.len()).then(|| format!("C7: {} results", results.len()));
        for (write, result) in writes.iter().zip(results) {
            if recent.len() == 25 {
                recent.pop_front();
            }
            recent.push_back(format!("{step}: {write:?} → {result:?}"));
            if wrong.is_none() {
                wrong = reference.step(write, &result).err();
            }
            // Later writes of a batch may have used the key. A server has other keys than the store.
            if wrong.is_none() && plan.beyond_graph && writes.len() == 1 {
                wrong = look_up(&*store, write, &result).await.err();
            }
            match result {
                Ok(outcome) => {
                    draw.saw(&outcome);
                    comparison.saw(&outcome);
                    met.outcomes.push(outcome);
                }
                Err(error) => {
                    met.refusals.insert(error.code());
                }
            }
        }
        let full = step % plan.compare_every == plan.compare_every - 1 || step + 1 == plan.steps;
        if wrong.is_none() {
            wrong = comparison.look(&*store, &reference, full).await.err();
        }
        if let Some(wrong) = wrong {
            return Err(Failure { plan, step, wrong, recent });
        }
    }
    Ok(met)
}

/// What was answered can be looked up by its key.
async fn look_up(store: &dyn Store, write: &Write, result: &Result<Outcome, Error>) -> Result<(), String> {
    let Some(key) = write.idempotency else { return Ok(()) };
    let told = |outcome: &Outcome| (outcome.version, outcome.reply);
    let due = match result {
        Ok(outcome) => Ok(Some(told(outcome))),
        Err(error) if error.code() == Code::IdempotencyMismatch => Err(Code::IdempotencyMismatch),
        Err(_) => Ok(None),
    };
    let found = store.replay(key).await;
    let found = found.as_ref().map(|found| found.as_ref().map(told)).map_err(Error::code);
    if found == due { Ok(()) } else { Err(format!("C6: {key:?} came to {due:?}, and {found:?} is found")) }
}

async fn commit(store: &dyn Store, writes: &[Write]) -> Vec<Result<Outcome, Error>> {
    match writes {
        [write] => vec![store.commit(write.clone()).await],
        many => store.commit_all(many.to_vec()).await,
    }
}

/// Runs `seeds` seeds of `steps` steps, each on a store of its own: half of them fixed, half random. A store that can
/// be reopened is closed and reopened now and then. Panics with the seed.
pub fn run_seeds<S: Into<Fixture>>(seeds: u64, steps: usize, fresh: impl AsyncFn() -> S) {
    run_plans(seeds, steps, true, fresh);
}

/// The same, with writes to the graph alone.
pub fn run_seeds_of_the_graph<S: Into<Fixture>>(seeds: u64, steps: usize, fresh: impl AsyncFn() -> S) {
    run_plans(seeds, steps, false, fresh);
}

fn run_plans<S: Into<Fixture>>(seeds: u64, steps: usize, beyond_graph: bool, fresh: impl AsyncFn() -> S) {
    let variable = |name| std::env::var(name).ok();
    let steps = if variable("ENTOURAGE_SOAK").is_some_and(|soak| soak == "1") { steps * 50 } else { steps };
    let chosen: Vec<u64> = match variable("ENTOURAGE_SEED") {
        Some(text) => vec![text.parse().expect("ENTOURAGE_SEED is a number")],
        None => (0..seeds).map(|seed| if seed < seeds / 2 { seed } else { rand::rng().random() }).collect(),
    };
    for seed in chosen {
        println!("seed {seed}, {steps} steps");
        block_on(async {
            let fixture: Fixture = fresh().await.into();
            let mut restarts = StdRng::seed_from_u64(seed ^ 1);
            let every = (steps / 8).max(1);
            let store = Arc::clone(&fixture.store);
            let reopen = fixture.into_reopen();
            let plan = Plan { beyond_graph, ..Plan::new(seed, steps) };
            let run = run(store, plan, async |_, store| match &reopen {
                Some(reopen) if restarts.random_range(0..every) == 0 => {
                    store.close().await.expect("the store closes");
                    reopen(store).await
                }
                _ => store,
            });
            if let Err(failure) = run.await {
                panic!("{failure}");
            }
        });
    }
}
