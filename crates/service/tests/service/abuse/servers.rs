//! Two servers of one store: both see the same events, one case comes of them, and each knows what the other did.

use entourage_memory::partitioned;
use entourage_store::StoreExt as _;

use super::*;

async fn pair(abuse: AbuseRules) -> (World, World, Arc<dyn Store>) {
    let clock = clock();
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([1; 32]) };
    let store: Arc<dyn Store> = Arc::new(partitioned::Store::new(identity, Arc::clone(&clock) as _, 4));
    let one = World::over(Arc::clone(&store), Arc::clone(&clock), abuse).await;
    let other = World::over(Arc::clone(&store), clock, abuse).await;
    (one, other, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_open_one_case_and_both_know_it() {
    let (one, other, _store) = pair(AbuseRules::default()).await;
    for fresh in 0..300_u64 {
        one.user(fresh, HOUR).await;
    }
    one.user(5_000, 100 * DAY).await;
    for fresh in 0..300_u64 {
        let world = if fresh.is_multiple_of(2) { &one } else { &other };
        world.follow(fresh, 5_000).await.unwrap();
        one.clock.advance(1_000);
    }
    tokio::join!(one.detect(), other.detect());
    tokio::join!(one.detect(), other.detect());
    let cases = one.list(None, None).await;
    assert_eq!(cases.iter().map(|case| case.kind).collect::<Vec<_>>(), [CaseKind::Surge]);
    let target = entourage_model::Key(5_000);
    assert!(one.service.abuse.open_surge(target) && other.service.abuse.open_surge(target));
    other.service.abuse.close(&Call::default(), cases[0].id, CaseState::Dismissed).await.unwrap();
    one.detect().await;
    assert!(!one.service.abuse.open_surge(target));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_set_on_one_server_holds_on_the_other() {
    let (one, other, store) = pair(AbuseRules::default()).await;
    for user in ["star", "x", "y", "z"] {
        one.user(user, 90 * DAY).await;
    }
    one.service.abuse.set_target_quota(&Call::default(), &id("star"), Some(1)).await.unwrap();
    assert!(store.last_events().await.unwrap().positions().count() > 0);
    other.detect().await;
    assert_eq!(other.follow("x", "star").await, Ok(()));
    assert_eq!(other.follow("y", "star").await, Err(Code::RateLimited));
    other.service.abuse.set_target_quota(&Call::default(), &id("star"), None).await.unwrap();
    one.detect().await;
    assert_eq!(one.follow("y", "star").await, Ok(()));
    assert_eq!(one.follow("z", "star").await, Ok(()));
}
