//! Limits through the service, on a clock that the test moves: at one below, at, and one above each of them; and nobody
//! is locked out once its window has passed.

use std::{sync::Arc, time::Duration};

use entourage_memory as memory;
use entourage_model::{Code, ManualClock, Millis, Secret, Uptime, UserId, UserPatch};
use entourage_service::{Actor, BatchOperation, Call, Caller, Credential, Limits, Retry, Rules, Service};
use entourage_store::{Identity, Store};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

struct World {
    service: Arc<Service>,
    passing: Arc<ManualClock>,
    wall: Arc<ManualClock>,
}

fn id(text: impl ToString) -> UserId {
    UserId::try_from(text.to_string().as_str()).unwrap()
}

fn by(user: &str) -> Call {
    Call::from(end_user(user))
}

fn end_user(user: &str) -> Caller {
    Caller { actor: Actor::User(id(user)), admin: false, credential: Credential::User }
}

impl World {
    /// Users `a`, `b` and 0 to 299.
    async fn new(limits: Limits) -> Self {
        let clocks = [(); 2].map(|()| Arc::new(ManualClock::new(Millis::from_since_2000(800_000_000_000))));
        let [wall, passing] = clocks;
        let identity = Identity { epoch: 1, secret: Secret::from_bytes([1; 32]) };
        let store: Arc<dyn Store> = Arc::new(memory::Store::new(identity, Arc::clone(&wall) as _));
        let rules = Rules { limits, ..Rules::default() };
        let uptime: Arc<dyn Uptime> = Arc::clone(&passing) as _;
        let service = Service::new(store, rules).with_clock(Arc::clone(&wall) as _).with_uptime(&uptime);
        let service = Arc::new(service);
        for user in ["a".to_owned(), "b".to_owned()].into_iter().chain((0..300).map(|user| user.to_string())) {
            service.graph.put_user(&Call::default(), id(user), UserPatch::default()).await.unwrap();
        }
        Self { service, passing, wall }
    }

    async fn follow(&self, call: &Call, follower: &str, target: impl ToString) -> Result<bool, (Code, Duration)> {
        let done = self.service.graph.follow(call, &id(follower), &id(target), false).await;
        done.map(|done| done.created).map_err(|error| (error.code(), error.retry_delay().unwrap_or_default()))
    }

    async fn unfollow(&self, follower: &str, target: impl ToString) {
        self.service.graph.unfollow(&Call::default(), &id(follower), &id(target)).await.unwrap();
    }

    /// How many of these new follows succeed before the first refusal.
    async fn burst(&self, follower: &str, targets: std::ops::Range<u32>) -> (u32, Option<(Code, Duration)>) {
        let mut made = 0;
        for target in targets {
            match self.follow(&by(follower), follower, target).await {
                Ok(true) => made += 1,
                Ok(false) => panic!("{target} was followed already"),
                Err(refusal) => return (made, Some(refusal)),
            }
        }
        (made, None)
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn follows_have_a_burst_and_a_rate_for_each_actor() {
    for burst in [99, 100, 101] {
        let world = World::new(Limits { follow_burst: burst, ..Limits::default() }).await;
        let (made, refused) = world.burst("a", 0..300).await;
        assert_eq!((made, refused), (burst, Some((Code::RateLimited, seconds(18)))));
        // Others have their own, and whoever waits gets one more each 18 seconds, 200 an hour.
        assert_eq!(world.burst("b", 0..1).await, (1, None));
        world.passing.advance(17_999);
        assert!(world.follow(&by("a"), "a", 200).await.is_err());
        world.passing.advance(1);
        assert_eq!(world.follow(&by("a"), "a", 200).await, Ok(true));
        assert!(world.follow(&by("a"), "a", 201).await.is_err());
        world.passing.advance(HOUR);
        assert_eq!(world.burst("a", 201..300).await.0, 99.min(burst));
    }
}

#[tokio::test]
async fn a_rate_without_a_burst_of_its_own_is_one_hours_worth() {
    for rate in [9, 10, 11] {
        let limits = Limits { follows_per_hour: rate, follow_burst: 0, ..Limits::default() };
        let world = World::new(limits).await;
        assert_eq!(world.burst("a", 0..300).await.0, rate);
    }
}

#[tokio::test]
async fn zero_switches_a_limit_off_with_its_burst() {
    for limits in [Limits { follows_per_hour: 0, ..Limits::default() }, Limits::NONE] {
        let world = World::new(limits).await;
        assert_eq!(world.burst("a", 0..300).await, (300, None));
        assert!(world.service.quotas(&end_user("a")).await.iter().all(|quota| quota.name == "requests"));
    }
    let world = World::new(Limits::NONE).await;
    for _ in 0..2_000 {
        world.service.count_request(&end_user("a")).unwrap();
    }
    for _ in 0..10 {
        assert_eq!(world.follow(&by("a"), "a", 1).await, Ok(true));
        world.unfollow("a", 1).await;
    }
}

#[tokio::test]
async fn only_new_edges_count() {
    let world = World::new(Limits { follow_burst: 2, ..Limits::default() }).await;
    assert_eq!(world.follow(&by("a"), "a", 1).await, Ok(true));
    for _ in 0..10 {
        assert_eq!(world.follow(&by("a"), "a", 1).await, Ok(false));
        assert_eq!(world.follow(&by("a"), "a", "a").await.unwrap_err().0, Code::SelfFollow);
        assert_eq!(world.follow(&by("a"), "a", "nobody").await.unwrap_err().0, Code::UserNotFound);
    }
    assert_eq!(world.service.quotas(&end_user("a")).await[1].remaining, 1);
    assert_eq!(world.follow(&by("a"), "a", 2).await, Ok(true));
    assert_eq!(world.follow(&by("a"), "a", 3).await.unwrap_err().0, Code::RateLimited);
    // What needs no new edge is not limited, and what is wrong otherwise says so.
    assert_eq!(world.follow(&by("a"), "a", 2).await, Ok(false));
    assert_eq!(world.follow(&by("a"), "a", "nobody").await.unwrap_err().0, Code::UserNotFound);
    let quota = world.service.quotas(&end_user("a")).await[1];
    assert_eq!((quota.name, quota.limit, quota.remaining), ("follows", 2, 0));
    assert_eq!((quota.window, quota.reset), (seconds(36), seconds(36)));
}

#[tokio::test]
async fn every_door_is_limited() {
    let world = World::new(Limits { follow_burst: 1, ..Limits::default() }).await;
    let key = Caller { actor: Actor::Service, admin: true, credential: Credential::ServiceKey("web".into()) };
    assert_eq!(world.follow(&Call::default(), "a", 1).await, Ok(true));
    for call in [Call::default(), Call::from(key), by("a")] {
        assert_eq!(world.follow(&call, "a", 2).await.unwrap_err().0, Code::RateLimited);
    }
    assert_eq!(world.follow(&Call::default(), "b", 2).await, Ok(true));
}

#[tokio::test]
async fn a_replayed_follow_is_neither_limited_nor_counted() {
    let world = World::new(Limits { follow_burst: 1, ..Limits::default() }).await;
    let retry = |key: &str| Some(Retry::new(key, "POST", "/follow", b"").unwrap());
    let call = Call { retry: retry("k"), ..by("a") };
    assert_eq!(world.follow(&call, "a", 1).await, Ok(true));
    let again = world.service.graph.follow(&call, &id("a"), &id(1), false).await.unwrap();
    assert!(again.created && again.receipt.unwrap().replayed);
    let refused = Call { retry: retry("other"), ..by("a") };
    assert_eq!(world.follow(&refused, "a", 2).await.unwrap_err().0, Code::RateLimited);
    world.passing.advance(18_000);
    assert_eq!(world.follow(&refused, "a", 2).await, Ok(true), "a refusal was recorded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_at_once_stay_within_the_limits() {
    for limits in [
        Limits { follow_burst: 10, ..Limits::default() },
        Limits { follows_per_target_per_minute: 10, ..Limits::NONE },
        Limits { challenge_after: 10, ..Limits::NONE },
    ] {
        let world = Arc::new(World::new(limits).await);
        let one_target = limits.follows_per_target_per_minute > 0;
        let tasks = (0..64).map(|number| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                let (follower, target) = if one_target { (number.to_string(), 299) } else { ("a".to_owned(), number) };
                world.follow(&by(&follower), &follower, target).await == Ok(true)
            })
        });
        let mut made = 0;
        for task in tasks.collect::<Vec<_>>() {
            made += u32::from(task.await.unwrap());
        }
        assert_eq!(made, 10, "{limits:?}");
    }
}

#[tokio::test]
async fn a_target_has_a_quota_of_its_own() {
    for quota in [4, 5, 6] {
        let world = World::new(Limits { follows_per_target_per_minute: quota, ..Limits::default() }).await;
        for follower in 0..quota {
            assert_eq!(world.follow(&Call::default(), &follower.to_string(), "a").await, Ok(true));
        }
        let (code, wait) = world.follow(&Call::default(), "100", "a").await.unwrap_err();
        assert_eq!((code, wait), (Code::RateLimited, seconds(60) / quota));
        assert_eq!(world.follow(&Call::default(), "100", "b").await, Ok(true));
        // The refused one has lost nothing of the follower's own quota.
        assert_eq!(world.service.quotas(&end_user("100")).await[1].remaining, 99);
        world.passing.advance(60_000);
        assert_eq!(world.follow(&Call::default(), "100", "a").await, Ok(true));
    }
}

#[tokio::test]
async fn end_users_have_a_quota_of_requests_and_others_do_not() {
    for quota in [599, 600, 601] {
        let world = World::new(Limits { requests_per_minute: quota, ..Limits::default() }).await;
        let user = end_user("a");
        for left in (0..quota).rev() {
            world.service.count_request(&user).unwrap();
            assert_eq!(world.service.quotas(&user).await[0].remaining, left);
        }
        let error = world.service.count_request(&user).unwrap_err();
        assert_eq!(error.code(), Code::RateLimited);
        assert!(error.retry_delay().unwrap() <= seconds(60) / quota + Duration::from_millis(1));
        world.service.count_request(&end_user("b")).unwrap();
        world.passing.advance(60_000);
        for _ in 0..quota {
            world.service.count_request(&user).unwrap();
        }
    }
    let world = World::new(Limits { requests_per_minute: 1, ..Limits::default() }).await;
    for credential in [Credential::Development, Credential::ServiceKey("web".into())] {
        for actor in [Actor::Service, Actor::User(id("a"))] {
            let caller = Caller { actor, admin: false, credential: credential.clone() };
            for _ in 0..10 {
                world.service.count_request(&caller).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn past_so_many_follows_in_an_hour_a_challenge_must_be_solved() {
    for after in [49, 50, 51] {
        let world = World::new(Limits { challenge_after: after, ..Limits::default() }).await;
        let (made, refused) = world.burst("a", 0..300).await;
        assert_eq!((made, refused.unwrap().0), (after, Code::ChallengeRequired));
        let solved = |solver: &str| Call { challenge: Some(id(solver)), ..by("a") };
        assert_eq!(world.follow(&solved("b"), "a", 200).await.unwrap_err().0, Code::ChallengeRequired);
        assert_eq!(world.follow(&solved("a"), "a", 200).await, Ok(true));
        assert_eq!(world.follow(&by("a"), "a", 201).await.unwrap_err().0, Code::ChallengeRequired);
        assert_eq!(world.follow(&by("a"), "a", 200).await, Ok(false), "nothing new needs no proof");
        assert_eq!(world.follow(&by("b"), "b", 200).await, Ok(true));
        world.passing.advance(HOUR - 1);
        assert!(world.follow(&by("a"), "a", 201).await.is_err());
        world.passing.advance(1);
        assert_eq!(world.follow(&by("a"), "a", 201).await, Ok(true));
    }
}

#[tokio::test]
async fn an_edge_that_was_flipped_too_often_cools_down() {
    for flips in [2, 3, 4] {
        let world = World::new(Limits { flips_per_day: flips, ..Limits::default() }).await;
        for _ in 0..flips {
            assert_eq!(world.follow(&by("a"), "a", 1).await, Ok(true));
            world.unfollow("a", 1).await;
            // Nothing there, nothing flipped.
            world.unfollow("a", 1).await;
            world.passing.advance(HOUR);
        }
        let (code, wait) = world.follow(&by("a"), "a", 1).await.unwrap_err();
        assert_eq!((code, wait), (Code::CoolingDown, Duration::from_millis(DAY - u64::from(flips) * HOUR)));
        assert_eq!(world.follow(&by("a"), "a", 2).await, Ok(true));
        assert_eq!(world.follow(&by("1"), "1", "a").await, Ok(true));
        world.passing.advance(DAY - u64::from(flips) * HOUR - 1);
        assert_eq!(world.follow(&by("a"), "a", 1).await.unwrap_err().0, Code::CoolingDown);
        world.passing.advance(1);
        assert_eq!(world.follow(&by("a"), "a", 1).await, Ok(true));
    }
}

/// The wall clock set one hour back or forward neither gives anything back nor locks anybody out.
#[tokio::test]
async fn setting_the_clock_changes_no_limit() {
    for jump in [-3_600_000_i64, 3_600_000] {
        let world = World::new(Limits { follow_burst: 3, ..Limits::default() }).await;
        assert_eq!(world.burst("a", 0..10).await.0, 3);
        let now = 800_000_000_000_i64 + jump;
        world.wall.set(Millis::from_since_2000(u64::try_from(now).unwrap()));
        assert_eq!(world.follow(&by("a"), "a", 20).await.unwrap_err().1, seconds(18));
        world.passing.advance(18_000);
        assert_eq!(world.follow(&by("a"), "a", 20).await, Ok(true));
    }
}

/// Over many hours nobody gets more than the limit and the burst together, and whoever asks steadily gets what the limit says.
#[tokio::test]
async fn a_window_never_admits_more_than_the_limit_and_the_burst() {
    let world =
        World::new(Limits { follows_per_hour: 20, follow_burst: 5, flips_per_day: 0, ..Limits::default() }).await;
    let mut times = Vec::new();
    for step in 0..6 * 3_600 / 10 {
        if world.follow(&by("a"), "a", step % 300).await == Ok(true) {
            times.push(step * 10);
            world.unfollow("a", step % 300).await;
        }
        world.passing.advance(10_000);
    }
    let most = times.iter().map(|start| times.iter().filter(|time| (*start..start + 3_600).contains(*time)).count());
    assert!(most.max().unwrap() <= 25);
    assert!((120..=125).contains(&times.len()), "{}", times.len());
}

#[tokio::test]
async fn follows_that_are_there_take_no_room_from_new_ones_of_the_same_batch() {
    let limits = Limits { follows_per_hour: 10, follow_burst: 5, ..Limits::NONE };
    let follow = |target: u32| BatchOperation::Follow { follower: id("a"), target: id(target), quiet: Some(false) };
    let unfollow = |target: u32| BatchOperation::Unfollow { follower: id("a"), target: id(target) };
    for each in [false, true] {
        let world = World::new(limits).await;
        for target in 1..=3 {
            world.follow(&Call::default(), "a", target).await.unwrap();
        }
        // Room for two: those that are there come first, and somebody who is not there.
        let operations = vec![follow(1), follow(2), follow(3), follow(999), follow(10), follow(11), follow(12)];
        let found = if each {
            let written = world.service.graph.pipeline(&Call::default(), operations).await;
            written.results.into_iter().map(|result| result.err().map(|error| error.code())).collect::<Vec<_>>()
        } else {
            let batch = world.service.graph.batch(&Call::default(), operations).await.unwrap();
            batch.results.into_iter().map(|result| result.err().map(|error| error.code())).collect()
        };
        let (unknown, limited) = (Some(Code::UserNotFound), Some(Code::RateLimited));
        assert_eq!(found, [None, None, None, unknown, None, None, limited], "each by itself: {each}");
    }
    // What is taken back later in the same batch is not made after that.
    let world = World::new(Limits { follow_burst: 2, ..limits }).await;
    world.follow(&Call::default(), "a", 1).await.unwrap();
    let operations = vec![follow(1), follow(10), unfollow(10)];
    world.service.graph.batch(&Call::default(), operations).await.unwrap();
    let checked = world.service.graph.is_following(&Call::default(), &id("a"), &id(10)).await.unwrap();
    assert!(!checked.following);
}
