//! The follow quota of one target, set while the server runs.

use super::*;

async fn followed(world: &World, target: &str, followers: std::ops::Range<u64>) -> u64 {
    let mut made = 0;
    for follower in followers {
        match world.follow(follower, target).await {
            Ok(()) => made += 1,
            Err(code) => assert_eq!(code, Code::RateLimited),
        }
    }
    made
}

async fn set(world: &World, target: &str, per_minute: Option<u32>) {
    let done = world.service.abuse.set_target_quota(&Call::default(), &id(target), per_minute).await.unwrap();
    assert_eq!(done.quota.per_minute, per_minute);
    let quota = world.service.abuse.target_quota(&Call::default(), &id(target)).await.unwrap();
    assert_eq!(quota, done.quota);
}

async fn world_with(default: u32) -> World {
    let clock = clock();
    let limits = Limits { follows_per_target_per_minute: default, ..Limits::NONE };
    let rules = Rules { limits, ..rules(AbuseRules { detect: false, ..AbuseRules::default() }) };
    let service = Service::new(memory(&clock), rules).with_clock(Arc::clone(&clock) as _);
    let world = World { service, clock };
    for user in 0..100 {
        world.user(user, DAY).await;
    }
    for user in ["star", "other"] {
        world.user(user, DAY).await;
    }
    world
}

#[tokio::test]
async fn a_target_has_its_own_quota_from_the_moment_it_is_set() {
    let world = world_with(0).await;
    assert_eq!(followed(&world, "star", 0..20).await, 20);
    set(&world, "star", Some(5)).await;
    assert_eq!(followed(&world, "star", 20..40).await, 5);
    assert_eq!(followed(&world, "other", 0..40).await, 40);
    // The same again refills nothing; another one counts anew.
    set(&world, "star", Some(5)).await;
    assert_eq!(followed(&world, "star", 40..60).await, 0);
    set(&world, "star", None).await;
    assert_eq!(followed(&world, "star", 40..60).await, 20);
}

#[tokio::test]
async fn it_stands_in_place_of_everybodys_and_zero_is_no_limit() {
    let world = world_with(3).await;
    assert_eq!(followed(&world, "star", 0..20).await, 3);
    set(&world, "star", Some(10)).await;
    assert_eq!(followed(&world, "star", 20..40).await, 10);
    set(&world, "star", Some(0)).await;
    assert_eq!(followed(&world, "star", 40..70).await, 30);
    set(&world, "star", None).await;
    assert_eq!(followed(&world, "star", 70..90).await, 0);
    assert_eq!(followed(&world, "other", 70..90).await, 3);
}

#[tokio::test]
async fn it_belongs_to_a_person_and_is_refused_where_it_makes_no_sense() {
    let world = world_with(0).await;
    set(&world, "star", Some(1)).await;
    world.service.jobs.erase(&Call::default(), &id("star")).await.unwrap();
    while world.service.jobs.work().await.unwrap() {}
    world.user("star", 0).await;
    assert_eq!(followed(&world, "star", 0..10).await, 10);
    let quota = world.service.abuse.target_quota(&Call::default(), &id("star")).await.unwrap();
    assert_eq!(quota.per_minute, None);
    let abuse = &world.service.abuse;
    let unknown = abuse.set_target_quota(&Call::default(), &id("nobody"), Some(1)).await.unwrap_err();
    let large = abuse.set_target_quota(&Call::default(), &id("star"), Some(1_000_001)).await.unwrap_err();
    assert_eq!((unknown.code(), large.code()), (Code::UserNotFound, Code::InvalidRequest));
}
