//! An audit beside writers finds nothing that is not there, and looks at everybody.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_model::{Code, Secret, UserId, UserPatch};
use entourage_service::{Actor, Call, Limits, Rules, Service};
use entourage_store::{Identity, Store, SystemClock, disk::RealDisk};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const PEOPLE: i64 = 12;
const AUDITS: usize = 12;
/// How many writes there are beside them at the least.
const WRITES: usize = 3_000;

fn service(store: Arc<dyn Store>) -> Arc<Service> {
    Arc::new(Service::new(store, Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() }))
}

async fn audit_beside_writers(service: &Arc<Service>) {
    let call = Call::default();
    for person in 0..PEOPLE {
        service.graph.put_user(&call, UserId::from(person), UserPatch::default()).await.unwrap();
    }
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let (service, stop, written) = (Arc::clone(service), Arc::clone(&stop), Arc::clone(&written));
            tokio::spawn(async move {
                let (mut random, call) = (StdRng::seed_from_u64(writer), Call::default());
                while !stop.load(Ordering::SeqCst) {
                    let [a, b] = [(); 2].map(|()| UserId::from(random.random_range(0..PEOPLE)));
                    if random.random_ratio(2, 3) {
                        // A refusal is as good as a success here.
                        drop(service.graph.follow(&call, &a, &b, random.random_ratio(1, 3)).await);
                    } else {
                        drop(service.graph.unfollow(&call, &a, &b).await);
                    }
                    written.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let mut audits = 0;
    while audits < AUDITS || written.load(Ordering::SeqCst) < WRITES {
        audits += 1;
        let report = service.upkeep.audit(&call).await.unwrap();
        assert_eq!((report.users, report.drifted), (PEOPLE as u64, 0), "{report:?}");
    }
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    let report = service.upkeep.audit(&call).await.unwrap();
    assert_eq!((report.drifted, report.unsettled), (0, 0));
    assert!(report.edges > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_on_memory_cause_no_alarm() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    audit_beside_writers(&service(Arc::new(memory::Store::new(identity, Arc::new(SystemClock))))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_on_an_embedded_store_cause_no_alarm_and_recounts_are_no_harm() {
    let folder = std::env::temp_dir().join(format!("entourage-audit-{:016x}", rand::random::<u64>()));
    std::fs::create_dir_all(&folder).unwrap();
    let disk = Arc::new(RealDisk::new(&folder).unwrap());
    let options = embedded::Options { checkpoint_entries: 200, ..embedded::Options::default() };
    let store = Arc::new(embedded::Store::open(disk, "the test's folder", options, Arc::new(SystemClock)).unwrap());
    let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
    let service =
        Arc::new(Service::new(Arc::clone(&store) as _, rules).with_maintenance(Some(Arc::clone(&store) as _)));
    let recounting = Arc::clone(&service);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let recounts = tokio::spawn(async move {
        while !stopped.load(Ordering::SeqCst) {
            assert_eq!(recounting.upkeep.recount(&Call::default(), None).await.unwrap().corrected, 0);
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    audit_beside_writers(&service).await;
    stop.store(true, Ordering::SeqCst);
    recounts.await.unwrap();
    assert!(service.upkeep.verify(&Call::default()).await.unwrap().is_clean());
    // Until it is closed a checkpoint may still write into its folder.
    store.close().await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn only_an_admin_audits_and_repairs() {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    let service = service(Arc::new(memory::Store::new(identity, Arc::new(SystemClock))));
    let user = Call { actor: Actor::User(UserId::from(1)), admin: false, ..Call::default() };
    assert_eq!(service.upkeep.audit(&user).await.unwrap_err().code(), Code::Forbidden);
    assert_eq!(service.upkeep.verify(&user).await.unwrap_err().code(), Code::Forbidden);
    assert_eq!(service.upkeep.recount(&user, None).await.unwrap_err().code(), Code::Forbidden);
    assert_eq!(service.upkeep.last_audit(&user).unwrap_err().code(), Code::Forbidden);
    assert_eq!(service.upkeep.last_audit(&Call::default()).unwrap(), None);
}
