//! What becomes of a case: grouped, closed, not opened again; pauses of `abuse.auto_suspend`; nobody named who is gone.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use entourage_model::{Error, Operation, Outcome, Space, Write};
use entourage_service::Actor;
use entourage_store::StoreExt as _;
use entourage_testkit::conformance::hooked::{Hooked, Hooks};

use super::*;

/// Flips one edge so often.
async fn flip(world: &World, follower: &str, target: &str, times: u64) {
    for _ in 0..times {
        world.follow(follower, target).await.unwrap();
        world.unfollow(follower, target).await;
        world.clock.advance(1_000);
    }
}

async fn two(world: &World) {
    world.user("a", 90 * DAY).await;
    world.user("b", 90 * DAY).await;
}

#[tokio::test]
async fn one_case_for_each_subject_with_bounded_writes() {
    let world = World::new().await;
    two(&world).await;
    world.user("c", 90 * DAY).await;
    flip(&world, "a", "b", 12).await;
    let first = world.only_case().await;
    // More of the same within a minute waits, and is written once when it is due.
    flip(&world, "a", "b", 30).await;
    world.detect().await;
    let second = world.only_case().await;
    assert_eq!((second.id, second.first_seen), (first.id, first.first_seen));
    assert!(second.count > first.count && second.last_seen > first.last_seen);
    assert!(second.count < 10, "{} writes for 42 flips", second.count);
    flip(&world, "a", "c", 12).await;
    world.detect().await;
    assert_eq!(world.list(None, None).await.len(), 2);
}

#[tokio::test]
async fn a_closed_case_is_not_opened_again_until_its_cool_down_is_over() {
    for state in [CaseState::Dismissed, CaseState::Confirmed] {
        let world = World::new().await;
        two(&world).await;
        flip(&world, "a", "b", 12).await;
        let case = world.only_case().await;
        let closed = world.service.abuse.close(&Call::default(), case.id, state).await.unwrap();
        assert_eq!((closed.changed, closed.case.state), (true, state));
        assert!(closed.case.closed_at.is_some());
        let again = world.service.abuse.close(&Call::default(), case.id, state).await.unwrap();
        assert!(!again.changed && again.case.closed_at == closed.case.closed_at);
        flip(&world, "a", "b", 40).await;
        assert_eq!(world.only_case().await.state, state);
        assert_eq!(world.list(Some(CaseState::Open), None).await, []);
        world.clock.advance(8 * DAY);
        flip(&world, "a", "b", 12).await;
        world.detect().await;
        let open = world.list(Some(CaseState::Open), None).await;
        assert_eq!(open.len(), 1);
        assert_ne!(open[0].id, case.id);
    }
}

#[tokio::test]
async fn cases_are_listed_newest_first_by_state_and_kind_and_only_to_admins() {
    let world = World::new().await;
    for user in 0..30 {
        world.user(user, 90 * DAY).await;
    }
    for user in 0..15_u64 {
        flip(&world, &user.to_string(), &(user + 1).to_string(), 12).await;
        world.detect().await;
    }
    let all = world.list(None, Some(CaseKind::PairChurn)).await;
    assert_eq!(all.len(), 15);
    assert!(all.is_sorted_by(|newer, older| newer.id > older.id));
    assert_eq!(world.list(None, Some(CaseKind::Surge)).await, []);
    for case in &all[..5] {
        world.service.abuse.close(&Call::default(), case.id, CaseState::Dismissed).await.unwrap();
    }
    assert_eq!(world.list(Some(CaseState::Dismissed), None).await.len(), 5);
    let (filter, limit) = (CaseFilter { state: Some(CaseState::Open), kind: None }, Limit::parse(Some("4")).unwrap());
    let (mut seen, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = world.service.abuse.list(&Call::default(), filter, cursor.as_deref(), limit).await.unwrap();
        assert!(page.rows.len() <= 4);
        seen.extend(page.rows.iter().map(|case| case.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
        // It belongs to its filter.
        let other = world.service.abuse.list(&Call::default(), CaseFilter::default(), cursor.as_deref(), limit).await;
        assert_eq!(other.unwrap_err().code(), Code::InvalidCursor);
    }
    assert_eq!(seen, all[5..].iter().map(|case| case.id).collect::<Vec<_>>());
    let user = Call { actor: Actor::User(id(1)), admin: false, ..Call::default() };
    let refused = world.service.abuse.list(&user, filter, None, limit).await.unwrap_err();
    let closed = world.service.abuse.close(&user, all[6].id, CaseState::Dismissed).await.unwrap_err();
    let quota = world.service.abuse.set_target_quota(&user, &id(1), Some(1)).await.unwrap_err();
    for error in [refused, closed, quota] {
        assert_eq!(error.code(), Code::Forbidden);
    }
}

fn pausing() -> AbuseRules {
    AbuseRules { auto_suspend: true, ..AbuseRules::default() }
}

#[tokio::test]
async fn an_open_case_pauses_its_actors_until_it_is_closed() {
    for state in [CaseState::Dismissed, CaseState::Confirmed] {
        let world = World::with(pausing()).await;
        two(&world).await;
        flip(&world, "a", "b", 12).await;
        let case = world.only_case().await;
        assert!(case.actors[0].paused);
        assert_eq!(world.follow("a", "b").await, Err(Code::FollowSuspended));
        assert_eq!(world.follow("b", "a").await, Ok(()));
        let closed = world.service.abuse.close(&Call::default(), case.id, state).await.unwrap();
        assert!(!closed.case.actors[0].paused);
        assert_eq!(world.follow("a", "b").await, Ok(()));
    }
    // Off by default.
    let world = World::new().await;
    two(&world).await;
    flip(&world, "a", "b", 12).await;
    assert!(!world.only_case().await.actors[0].paused);
    assert_eq!(world.follow("a", "b").await, Ok(()));
}

#[tokio::test]
async fn what_an_admin_decides_outlives_the_case() {
    let admin = Call::default();
    // Suspended before there is a case, and while it is open: dismissing it gives nothing back.
    for is_before in [true, false] {
        let world = World::with(pausing()).await;
        two(&world).await;
        flip(&world, "a", "b", 12).await;
        if is_before {
            world.service.graph.suspend(&admin, id("a"), true).await.unwrap();
        }
        let case = world.only_case().await;
        assert_eq!(case.actors[0].paused, !is_before);
        if !is_before {
            world.service.graph.suspend(&admin, id("a"), true).await.unwrap();
        }
        world.service.abuse.close(&admin, case.id, CaseState::Dismissed).await.unwrap();
        assert_eq!(world.follow("a", "b").await, Err(Code::FollowSuspended));
        world.service.graph.suspend(&admin, id("a"), false).await.unwrap();
        assert_eq!(world.follow("a", "b").await, Ok(()));
    }
    // Given back while the case is open: new evidence does not take it again.
    let world = World::with(pausing()).await;
    two(&world).await;
    flip(&world, "a", "b", 12).await;
    world.only_case().await;
    world.service.graph.suspend(&admin, id("a"), false).await.unwrap();
    flip(&world, "a", "b", 30).await;
    world.clock.advance(2 * MINUTE);
    let case = world.only_case().await;
    assert!(!case.actors[0].paused && case.count > 1);
    assert_eq!(world.follow("a", "b").await, Ok(()));
}

#[tokio::test]
async fn two_cases_hold_one_actor_until_both_are_closed() {
    let world = World::with(pausing()).await;
    two(&world).await;
    world.user("c", 90 * DAY).await;
    flip(&world, "a", "b", 12).await;
    flip(&world, "a", "c", 12).await;
    world.detect().await;
    let cases = world.list(None, None).await;
    assert!(cases.len() == 2 && cases.iter().all(|case| case.actors[0].paused), "{cases:?}");
    world.service.abuse.close(&Call::default(), cases[0].id, CaseState::Dismissed).await.unwrap();
    assert_eq!(world.follow("a", "b").await, Err(Code::FollowSuspended));
    world.service.abuse.close(&Call::default(), cases[1].id, CaseState::Dismissed).await.unwrap();
    assert_eq!(world.follow("a", "b").await, Ok(()));
}

#[tokio::test]
async fn a_case_names_nobody_who_is_erased_nor_who_has_their_id_now() {
    let world = World::with(pausing()).await;
    two(&world).await;
    flip(&world, "a", "b", 12).await;
    let case = world.only_case().await;
    world.service.jobs.erase(&Call::default(), &id("a")).await.unwrap();
    while world.service.jobs.work().await.unwrap() {}
    let shown = world.service.abuse.get(&Call::default(), case.id).await.unwrap();
    assert_eq!((ids(&shown.actors), ids(&shown.targets)), (vec![String::new()], vec!["b".to_owned()]));
    assert!(shown.evidence.iter().all(|trace| trace.follower.is_none() && trace.target == Some(id("b"))));
    world.user("a", 0).await;
    let shown = world.service.abuse.get(&Call::default(), case.id).await.unwrap();
    assert_eq!(ids(&shown.actors), [""]);
    // Nor is the new person restored, whom an admin suspended.
    world.service.graph.suspend(&Call::default(), id("a"), true).await.unwrap();
    world.service.abuse.close(&Call::default(), case.id, CaseState::Dismissed).await.unwrap();
    assert_eq!(world.follow("a", "b").await, Err(Code::FollowSuspended));
}

#[tokio::test]
async fn events_tell_of_cases() {
    let world = World::new().await;
    two(&world).await;
    flip(&world, "a", "b", 12).await;
    let case = world.only_case().await;
    flip(&world, "a", "b", 20).await;
    world.clock.advance(2 * MINUTE);
    world.detect().await;
    world.service.abuse.close(&Call::default(), case.id, CaseState::Confirmed).await.unwrap();
    let (mut told, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let limit = Limit::parse(Some("200")).unwrap();
        let page = world.service.events.events(&Call::default(), cursor.as_deref(), limit).await.unwrap();
        told.extend(page.rows.into_iter().filter(|row| row.event.name().starts_with("abuse.")));
        cursor = page.next_cursor;
        if !page.has_more {
            break;
        }
    }
    let names: Vec<&str> = told.iter().map(|row| row.event.name()).collect();
    assert_eq!((names.first(), names.last()), (Some(&"abuse.opened"), Some(&"abuse.confirmed")));
    assert!(names[1..names.len() - 1].iter().all(|name| *name == "abuse.updated") && names.len() > 2, "{names:?}");
    for row in &told {
        assert_eq!((&row.follower, &row.target), (&Some(id("a")), &Some(id("b"))));
        assert_eq!(row.case.as_ref().map(|case| case.kind), Some(CaseKind::PairChurn));
    }
}

/// What a server writes by itself is no follow of anybody's.
#[tokio::test]
async fn nothing_is_found_in_what_others_do_to_an_edge() {
    let world = World::new().await;
    two(&world).await;
    for _ in 0..30 {
        world.follow("a", "b").await.unwrap();
        world.service.graph.remove_follower(&Call::default(), &id("b"), &id("a")).await.unwrap();
    }
    assert_eq!(world.kinds().await, []);
    let nothing = Operation::Nothing;
    assert_eq!(nothing.parties().1, None);
}

/// A store that has no space for cases.
#[derive(Default)]
struct Full(AtomicBool);

#[async_trait]
impl Hooks for Full {
    async fn commit(&self, inner: &dyn Store, write: Write) -> entourage_model::Result<Outcome> {
        let is_case = matches!(write.operation, Operation::PutRecord { space: Space::Case, .. });
        match is_case && self.0.load(Ordering::Relaxed) {
            true => Err(Error::new(Code::StorageFull, "there is no space")),
            false => inner.commit(write).await,
        }
    }
}

#[tokio::test]
async fn a_case_that_could_not_be_written_is_written_when_there_is_space() {
    let clock = clock();
    let store = Arc::new(Hooked::new(memory(&clock), Full::default()));
    let world = World::over(Arc::clone(&store) as _, clock, AbuseRules::default()).await;
    two(&world).await;
    world.user("c", 90 * DAY).await;
    store.hooks.0.store(true, Ordering::Relaxed);
    flip(&world, "a", "b", 12).await;
    flip(&world, "c", "b", 12).await;
    for _ in 0..3 {
        assert_eq!(world.service.abuse.detect().await.unwrap_err().code(), Code::StorageFull);
    }
    store.hooks.0.store(false, Ordering::Relaxed);
    assert_eq!(world.kinds().await, [CaseKind::PairChurn, CaseKind::PairChurn]);
}
