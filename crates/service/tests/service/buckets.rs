//! What the server keeps of people is spread over the homes of a store that has several, and found again.

use std::{collections::BTreeMap, sync::Arc};

use entourage_memory::partitioned::Store;
use entourage_model::{Clock as _, Code, Key, ManualClock, Millis, Secret, Space, UserId, UserPatch, Version};
use entourage_service::{Actor, Call, JobState, Limit, Limits, Rules, Service};
use entourage_store::{Identity, Store as _, StoreExt as _};

const HOMES: u16 = 16;
const PEOPLE: i64 = 60;

/// How many records of a space each owner among the server's has.
async fn owners(store: &Store, space: Space) -> BTreeMap<Key, u64> {
    let all: Vec<Key> = store.guarantees().buckets.all().chain([Key::SERVER]).collect();
    let counts = store.count_each(space, &all).await.unwrap();
    all.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect()
}

async fn assert_spread(store: &Store, space: Space, expected: u64) {
    let owners = owners(store, space).await;
    assert_eq!(owners.values().sum::<u64>(), expected, "{space:?}");
    assert!(owners.len() >= usize::from(HOMES) / 2 && !owners.contains_key(&Key::SERVER), "{space:?}: {owners:?}");
}

#[tokio::test]
async fn posts_mutes_and_jobs_of_many_are_in_many_homes() {
    let clock = Arc::new(ManualClock::new(Millis::from_since_2000(800_000_000_000)));
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([7; 32]) };
    let store = Arc::new(Store::new(identity, Arc::clone(&clock) as _, HOMES));
    let rules = Rules { limits: Limits::NONE, ..Rules::default() };
    let service = Service::new(Arc::clone(&store) as _, rules).with_clock(Arc::clone(&clock) as _);
    let (call, ends) = (Call::default(), clock.now().plus(60_000));
    let people: Vec<UserId> = (1..=PEOPLE).map(UserId::from).collect();
    for person in &people {
        let patch = UserPatch { private: Some(true), ..UserPatch::default() };
        service.graph.put_user(&call, person.clone(), patch).await.unwrap();
    }
    let mut posts: Vec<(Version, UserId)> = Vec::new();
    for (index, person) in people.iter().enumerate() {
        let next = &people[(index + 1) % people.len()];
        service.graph.mute(&call, person, next, Some(ends)).await.unwrap();
        let by = Call { actor: Actor::User(person.clone()), ..Call::default() };
        posts.push((service.feeds.create_post(&by, r#"{"says": "hello"}"#).await.unwrap().post.id, person.clone()));
    }
    assert_spread(&store, Space::PostAuthor, PEOPLE as u64).await;
    assert_spread(&store, Space::Job, PEOPLE as u64).await;
    for (post, author) in &posts {
        assert_eq!(service.feeds.post(&call, *post).await.unwrap().author, *author);
    }
    // Mutes end, whatever bucket tells of it.
    clock.set(ends.plus(1_000));
    while service.jobs.work().await.unwrap() {}
    assert!(owners(&store, Space::Job).await.is_empty());
    // A job lies with whom it is about, and all are listed newest first.
    let mut started = Vec::new();
    for person in &people {
        started.push(service.jobs.accept_all(&call, person).await.unwrap().job.id);
    }
    assert_spread(&store, Space::Job, PEOPLE as u64).await;
    while service.jobs.work().await.unwrap() {}
    let (mut listed, mut cursor) = (Vec::new(), None);
    loop {
        let page = service.jobs.list(&call, cursor.as_deref(), Limit::parse(Some("7")).unwrap()).await.unwrap();
        assert!(page.rows.iter().all(|job| job.state == JobState::Done));
        listed.extend(page.rows.into_iter().map(|job| job.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert!(listed.is_sorted_by(|one, other| one > other));
    started.sort_unstable();
    listed.reverse();
    assert_eq!(listed, started);
    for job in started {
        assert_eq!(service.jobs.get(&call, job).await.unwrap().state, JobState::Done);
    }
    let unknown = service.jobs.get(&call, Version::from_bits(7)).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    assert!(store.verify().await.unwrap().is_clean());
    assert_eq!(store.sweep_all().await.unwrap().len() as i64, PEOPLE);
}
