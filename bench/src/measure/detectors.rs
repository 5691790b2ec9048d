//! The processor time of the detectors of abuse.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use entourage_model::UserId;
use entourage_service::{BatchOperation, Call, Limits, Rules, Service};
use entourage_store::Store;

use super::Bench;
use crate::{machine, random::Random, table::Row};

/// Follows of one run, sent as a client does that does not wait for each.
const FOLLOWS: usize = 400_000;
const AT_ONCE: usize = 1_000;
/// At the rate of the goal, a quarter of a second has so many: a pass of the detectors.
const PASS: usize = 25_000;
/// Follows a second for which the goal is.
const RATE: f64 = 100_000.0;
const SEED: u64 = 23;

/// Follows of random users. The users have the numbers below `users`.
pub(super) async fn measure(bench: &Bench<'_>, store: &Arc<entourage_embedded::Store>, users: i64) -> Result<Row> {
    let mut random = Random::new(SEED);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut shares = Vec::new();
    for _ in 0..bench.arguments.repeat {
        shares.push(processor_time(store, users, &mut random).await? * RATE / cores as f64 * 100.0);
    }
    let note = format!(
        "processor time of the detectors alone, after every {PASS} of {FOLLOWS} durable follows of {users} users, for \
         100,000 a second on {cores} cores"
    );
    Ok(Row::new("detectors at 100,000 follows a second", "%", shares).at_most(3.0).note(note))
}

/// Seconds a follow, of the thread in which the detectors run: in the processor time of everything their share is lost in
/// the noise of commits and checkpoints.
async fn processor_time(store: &Arc<entourage_embedded::Store>, users: i64, random: &mut Random) -> Result<f64> {
    let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
    let service = Arc::new(Service::new(Arc::clone(store) as Arc<dyn Store>, rules));
    // What earlier runs left in the log is counted before.
    service.abuse.detect().await?;
    let mut draw = || UserId::from(random.below(users as u64) as i64);
    let mut follow = || BatchOperation::Follow { follower: draw(), target: draw(), quiet: None };
    let mut passed = Duration::ZERO;
    for _ in 0..FOLLOWS / PASS {
        for _ in 0..PASS / AT_ONCE {
            let some: Vec<BatchOperation> = (0..AT_ONCE).map(|_| follow()).collect();
            let written = service.graph.pipeline(&Call::default(), some).await;
            // Nobody can follow themselves.
            let made = written.results.iter().filter(|result| result.is_ok()).count();
            ensure!(made + AT_ONCE / 100 >= AT_ONCE, "{made} of {AT_ONCE} follows were made");
        }
        let began = machine::thread_time();
        service.abuse.detect().await?;
        passed += machine::thread_time() - began;
    }
    Ok(passed.as_secs_f64() / FOLLOWS as f64)
}
