//! What the detectors of abuse add to the processor time of a follow.

use std::sync::Arc;

use anyhow::{Result, ensure};
use entourage_model::UserId;
use entourage_service::{AbuseRules, BatchOperation, Call, Limits, Rules, Service};
use entourage_store::Store;

use super::Bench;
use crate::{machine, random::Random, table::Row};

/// Follows of one run, sent as a client does that does not wait for each.
const FOLLOWS: usize = 400_000;
const AT_ONCE: usize = 1_000;
/// Follows a second for which the goal is.
const RATE: f64 = 100_000.0;
const SEED: u64 = 23;

/// Follows of random users, with detectors and without, in turn. The users have the numbers below `users`.
pub(super) async fn measure(bench: &Bench<'_>, store: &Arc<entourage_embedded::Store>, users: i64) -> Result<Row> {
    let mut random = Random::new(SEED);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut shares = Vec::new();
    for _ in 0..bench.arguments.repeat {
        let without = processor_time(store, users, false, &mut random).await?;
        let with = processor_time(store, users, true, &mut random).await?;
        shares.push((with - without) * RATE / cores as f64 * 100.0);
    }
    let note = format!(
        "processor time of {FOLLOWS} durable follows of {users} users, {AT_ONCE} at once, with detectors less without, for \
         100,000 a second on {cores} cores"
    );
    Ok(Row::new("detectors at 100,000 follows a second", "%", shares).at_most(3.0).note(note))
}

/// Seconds a follow.
async fn processor_time(
    store: &Arc<entourage_embedded::Store>,
    users: i64,
    detect: bool,
    random: &mut Random,
) -> Result<f64> {
    let abuse = AbuseRules { detect, ..AbuseRules::default() };
    let rules = Rules { limits: Limits::NONE, audit_interval: None, abuse, ..Rules::default() };
    let service = Arc::new(Service::new(Arc::clone(store) as Arc<dyn Store>, rules));
    // What earlier runs left in the log is counted before.
    service.abuse.detect().await?;
    let background = Arc::clone(&service);
    let background = tokio::spawn(async move { background.run().await });
    let mut draw = || UserId::from(random.below(users as u64) as i64);
    let mut follow = || BatchOperation::Follow { follower: draw(), target: draw(), quiet: None };
    let follows: Vec<BatchOperation> = (0..FOLLOWS).map(|_| follow()).collect();
    let began = machine::processor_time();
    for some in follows.chunks(AT_ONCE) {
        let written = service.graph.pipeline(&Call::default(), some.to_vec()).await;
        // Nobody can follow themselves.
        let made = written.results.iter().filter(|result| result.is_ok()).count();
        ensure!(made + AT_ONCE / 100 >= some.len(), "{made} of {} follows were made", some.len());
    }
    service.abuse.detect().await?;
    let passed = machine::processor_time() - began;
    service.end_streams();
    background.await?;
    Ok(passed.as_secs_f64() / FOLLOWS as f64)
}
