//! The holder of a lease gets a wrong clock: another server does its work, mutes that end among it, by the database's time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use entourage_model::{Clock, Code, Millis, UserId, UserPatch};
use entourage_postgres as postgres;
use entourage_service::{Call, Duty, Limits, Rules, Service};
use entourage_store::SystemClock;

const DAY: i64 = 24 * 60 * 60 * 1_000;
/// After ten seconds of silence another server takes over.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(25);

#[derive(Default)]
struct OffClock(AtomicI64);

impl Clock for OffClock {
    fn now(&self) -> Millis {
        Millis::from_since_2000(SystemClock.now().since_2000().saturating_add_signed(self.0.load(Ordering::SeqCst)))
    }
}

async fn open(schema: &str, clock: Arc<dyn Clock>) -> Service {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    let store = postgres::Store::connect(&url, schema, postgres::Options::default(), clock).await;
    let store = Arc::new(store.expect("the store opens"));
    let clock = store.clock();
    Service::new(store, Rules { limits: Limits::NONE, ..Rules::default() }).with_clock(clock)
}

async fn epoch(service: &Service) -> u64 {
    let seen = service.leases.servers(&Call::default()).await.unwrap();
    seen.leases.iter().find(|lease| lease.duty == Duty::Jobs).unwrap().epoch
}

#[tokio::test(flavor = "multi_thread")]
async fn work_goes_on_without_a_server_whose_clock_is_wrong() {
    let schema = format!("test_{:016x}", rand::random::<u64>());
    let clock = Arc::new(OffClock::default());
    let (wrong, right) = (open(&schema, Arc::clone(&clock) as _).await, open(&schema, Arc::new(SystemClock)).await);
    let (call, [ann, ben]) = (Call::default(), ["ann", "ben"].map(|id| UserId::try_from(id).unwrap()));
    for person in [&ann, &ben] {
        right.graph.put_user(&call, person.clone(), UserPatch::default()).await.unwrap();
    }
    assert!(!wrong.jobs.work().await.unwrap());
    assert_eq!(epoch(&wrong).await, 1);
    // In a day, and that is not now, whatever this server thinks.
    right.graph.mute(&call, &ann, &ben, Some(SystemClock.now().plus(DAY as u64))).await.unwrap();
    clock.0.store(8 * DAY, Ordering::SeqCst);
    let began = Instant::now();
    loop {
        if let Err(error) = wrong.jobs.work().await {
            assert_eq!(error.code(), Code::Unavailable, "{error}");
        }
        right.jobs.work().await.unwrap();
        if epoch(&right).await == 2 {
            break;
        }
        assert!(began.elapsed() < TAKEN_OVER_WITHIN, "nobody takes over");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    println!("taken over after {:?}", began.elapsed());
    let is_muted = async |service: &Service| {
        let seen = service.graph.relationships(&call, &ann, std::slice::from_ref(&ben)).await.unwrap();
        seen[0].muting
    };
    assert!(is_muted(&right).await && is_muted(&wrong).await, "the mute stands on both");
    clock.0.store(0, Ordering::SeqCst);
    let began = Instant::now();
    while let Err(error) = wrong.graph.follow(&call, &ben, &ann, false).await {
        assert!(error.code() == Code::Unavailable && began.elapsed() < TAKEN_OVER_WITHIN, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(wrong.upkeep.verify(&call).await.unwrap().is_clean());
}
