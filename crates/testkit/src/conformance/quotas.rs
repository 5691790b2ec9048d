//! How often a user may follow: decided in the commit, by the times that the write carries.

use entourage_model::{
    Code, Error, FollowLimits, Key, Millis, Operation, Outcome, Overwrite, Quota, Reply, Result, UserId, UserPatch,
    Version, Write,
};

use super::{
    operations::*,
    world::{World, own_request},
};
use entourage_store::StoreExt as _;

const HOUR: u64 = 60 * 60 * 1_000;
const DAY: u64 = 24 * HOUR;
const WRITERS: usize = 64;

/// A moment unrelated to the clock of any store.
fn at(millis: u64) -> Millis {
    Millis::from_since_2000(900_000_000_000 + millis)
}

/// One a minute, with this burst.
fn one_a_minute(now: Millis, burst: u32) -> FollowLimits {
    FollowLimits { per_hour: 60, burst, ..FollowLimits::none(now) }
}

fn flips(now: Millis, flips_per_day: u32) -> FollowLimits {
    FollowLimits { flips_per_day, ..FollowLimits::none(now) }
}

fn put_user(key: Key, id: &UserId) -> Operation {
    Operation::PutUser { key, id: id.clone(), patch: UserPatch::default(), overwrite: Overwrite::Replace }
}

fn is_refused(result: &Result<Outcome>, code: Code) -> bool {
    result.as_ref().is_err_and(|error| error.code() == code)
}

impl World {
    async fn quota(&self, actor: Key) -> Quota {
        self.store.get_quotas(&[actor]).await.expect("quotas can be read").remove(0)
    }

    /// What is left of one follow a minute with a burst of three.
    async fn left(&self, actor: Key, now: Millis) -> u32 {
        self.quota(actor).await.left(&one_a_minute(now, 3)).expect("there is a limit").remaining
    }

    /// The wait that a refusal names.
    async fn waits(&self, write: Write, code: Code) -> u128 {
        let error: Error = self.commit(write.clone()).await.expect_err("it is refused");
        assert_eq!(error.code(), code, "{write:?}");
        error.retry_delay().expect("it says how long to wait").as_millis()
    }
}

pub(super) async fn a_burst_and_then_one_at_a_time(world: World) {
    let a = world.user().await;
    let targets = world.many_users(8).await;
    let write = |index: usize, now| limited(follow(a, targets[index]), one_a_minute(at(now), 3));
    for index in 0..3 {
        assert_eq!(world.left(a, at(0)).await, 3 - index as u32);
        world.done(write(index, 0)).await;
    }
    assert_eq!(world.waits(write(3, 0), Code::RateLimited).await, 60_000);
    assert_eq!(world.waits(write(3, 59_999), Code::RateLimited).await, 1);
    assert!(!world.follows(a, targets[3]).await);
    world.done(write(3, 60_000)).await;
    world.refused(write(4, 60_000), Code::RateLimited).await;
    let left = world.quota(a).await.left(&one_a_minute(at(60_000), 3)).expect("there is a limit");
    assert_eq!((left.remaining, left.reset.as_millis(), left.window.as_millis()), (0, 180_000, 180_000));
    // Everything is available again, and no more than that.
    for index in 4..7 {
        world.done(write(index, 10 * HOUR)).await;
    }
    world.refused(write(7, 10 * HOUR), Code::RateLimited).await;
    world.done(follow(a, targets[7])).await;
    assert_eq!(world.left(targets[0], at(0)).await, 3, "others have their own");
}

pub(super) async fn what_makes_no_new_follow_takes_nothing(world: World) {
    let [a, b, c, blocker, other] = world.users().await;
    let private = world.private_user().await;
    let limits = one_a_minute(at(0), 3);
    world.done(block(blocker, a)).await;
    let key = own_request();
    let first = Write { idempotency: Some(key), ..limited(follow(a, b), limits) };
    world.done(first.clone()).await;
    assert_eq!(world.left(a, at(0)).await, 2);
    assert!(world.done(first).await.replayed);
    for (target, code) in [(a, Code::SelfFollow), (world.stranger(), Code::UserNotFound), (blocker, Code::Blocked)] {
        world.refused(limited(follow(a, target), limits), code).await;
    }
    world.refused(limited(follow_quietly(a, private), limits), Code::QuietPrivate).await;
    world.refused(limited(follow_within(a, c, 1), limits), Code::FollowingLimit).await;
    let again = world.done(limited(follow(a, b), limits)).await;
    assert!(matches!(again.reply, Reply::Edge { created: false, changed: false, .. }));
    world.done(limited(follow_quietly(a, b), limits)).await;
    world.done(import(a, c, at(0))).await;
    world.done(unfollow(a, c)).await;
    world.done(follow(a, c)).await;
    assert_eq!(world.left(a, at(0)).await, 2);
    // A request is a new follow. One over the limit takes nothing either, and does not lengthen the wait.
    world.done(limited(follow(a, private), limits)).await;
    world.done(limited(follow(a, other), limits)).await;
    world.done(unfollow(a, b)).await;
    for _ in 0..3 {
        assert_eq!(world.waits(limited(follow(a, b), limits), Code::RateLimited).await, 60_000);
    }
    world.refused(limited(follow_within(a, b, 1), limits), Code::RateLimited).await;
    world.done(limited(follow(a, other), limits)).await;
    world.done(accept(private, a)).await;
    assert_eq!(world.left(a, at(60_000)).await, 1);
}

pub(super) async fn races_of_one_actor_get_exactly_the_limit(world: World) {
    let targets = world.many_users(WRITERS).await;
    let now = world.done(follow(targets[0], targets[1])).await.version.millis();
    let flipped = targets[0];
    for limits in [
        one_a_minute(now, 10),
        FollowLimits { challenge_after: 10, ..FollowLimits::none(now) },
        FollowLimits { challenge_after: 10, flips_per_day: 2, ..one_a_minute(now, 20) },
    ] {
        let a = world.user().await;
        let outcomes = world
            .race(WRITERS, |index, store| {
                let write = limited(follow(a, targets[index]), limits);
                async move { store.commit(write).await }
            })
            .await;
        let code = if limits.challenge_after > 0 { Code::ChallengeRequired } else { Code::RateLimited };
        let refused = outcomes.iter().filter(|result| is_refused(result, code)).count();
        assert_eq!((outcomes.iter().filter(|result| result.is_ok()).count(), refused), (10, WRITERS - 10));
        assert_eq!(world.totals(a).await, (0, 10));
    }
    // Many flip one edge concurrently: it ends no more often than it may.
    let a = world.user().await;
    world
        .race(8, |index, store| async move {
            for _ in 0..20 {
                let write = match index % 2 {
                    0 => limited(follow(a, flipped), flips(now, 3)),
                    _ => unfollow(a, flipped).into(),
                };
                let _noise = store.commit(write).await;
            }
        })
        .await;
    let ended = world.store.scan_history(a, None, 100).await.expect("a history").len();
    assert!(ended <= 3, "{ended} ends");
}

pub(super) async fn batches_get_exactly_the_limit_in_order(world: World) {
    let [a, b] = world.users().await;
    let targets = world.many_users(9).await;
    let limits = one_a_minute(at(0), 4);
    let new = |target: Key| limited(follow(a, target), limits);
    world.done(new(targets[0])).await;
    // Existing follows come first, and one that is refused for another reason.
    let mut writes = vec![new(targets[0]), new(a)];
    writes.extend(targets[1..].iter().map(|&target| new(target)));
    writes.push(limited(follow(b, a), limits));
    let results = world.store.commit_all(writes).await;
    let codes: Vec<Option<Code>> = results.iter().map(|result| result.as_ref().err().map(Error::code)).collect();
    let (own, limited_) = (Some(Code::SelfFollow), Some(Code::RateLimited));
    assert_eq!(codes[..5], [None, own, None, None, None]);
    assert!(codes[5..10].iter().all(|code| *code == limited_) && codes[10].is_none(), "{codes:?}");
    // Flips of one batch count as those of several.
    let now = world.done(follow(b, targets[0])).await.version.millis();
    let flip = || [limited(follow(a, b), flips(now, 3)), unfollow(a, b).into()];
    let results = world.store.commit_all((0..8).flat_map(|_| flip()).collect()).await;
    let cooled: Vec<bool> = results.iter().step_by(2).map(|result| is_refused(result, Code::CoolingDown)).collect();
    assert_eq!(cooled, [false, false, false, true, true, true, true, true]);
}

pub(super) async fn past_so_many_follows_a_proof_is_needed(world: World) {
    let a = world.user().await;
    let targets = world.many_users(8).await;
    let limits = |now, proved| FollowLimits { challenge_after: 3, proved, ..FollowLimits::none(at(now)) };
    let write = |index: usize, now, proved| limited(follow(a, targets[index]), limits(now, proved));
    for index in 0..3 {
        world.done(write(index, index as u64, false)).await;
    }
    world.refused(write(3, 3, false), Code::ChallengeRequired).await;
    world.done(write(3, 3, true)).await;
    world.refused(write(4, HOUR, false), Code::ChallengeRequired).await;
    world.done(write(4, HOUR + 1, false)).await;
    world.refused(write(5, HOUR + 1, false), Code::ChallengeRequired).await;
    world.done(write(4, HOUR + 1, false)).await;
    // The challenge is checked before the rate limit.
    let both = FollowLimits { per_hour: 1, burst: 1, ..limits(HOUR + 1, false) };
    world.done(limited(follow(a, targets[5]), FollowLimits { proved: true, ..both })).await;
    world.refused(limited(follow(a, targets[6]), both), Code::ChallengeRequired).await;
    world.refused(limited(follow(a, targets[6]), FollowLimits { proved: true, ..both }), Code::RateLimited).await;
}

pub(super) async fn an_edge_that_ended_too_often_cools_down(world: World) {
    let [a, b] = world.users().await;
    let private = world.private_user().await;
    // In whichever way it ends.
    world.done(follow(a, b)).await;
    let first = world.done(unfollow(a, b)).await.version;
    world.done(follow(a, b)).await;
    world.done(remove_follower(b, a)).await;
    world.done(follow(a, b)).await;
    world.done(block(b, a)).await;
    let last = world.done(unblock(b, a)).await.version.millis();
    let write = |now, times| limited(follow(a, b), flips(now, times));
    let wait = u128::from(first.millis().plus(DAY).since_2000() - last.since_2000());
    let waits = world.waits(write(last, 3), Code::CoolingDown).await;
    assert!((wait - 60_000..=wait).contains(&waits), "{waits} of {wait}");
    world.refused(write(last, 1), Code::CoolingDown).await;
    world.refused(limited(follow_within(a, b, 0), flips(last, 3)), Code::CoolingDown).await;
    world.done(limited(follow(b, a), flips(last, 1))).await;
    world.done(write(first.millis().plus(DAY), 3)).await;
    world.done(unfollow(a, b)).await;
    world.done(write(last, 5)).await;
    // A request that is cancelled or rejected ends, too. An accepted one has not ended.
    world.done(follow(a, private)).await;
    world.done(reject(private, a)).await;
    world.done(follow(a, private)).await;
    world.done(unfollow(a, private)).await;
    let now = world.done(follow(a, private)).await.version.millis();
    world.done(accept(private, a)).await;
    let request = |times| limited(follow(a, private), flips(now, times));
    world.done(request(1)).await;
    world.done(unfollow(a, private)).await;
    world.refused(request(3), Code::CoolingDown).await;
    world.done(request(4)).await;
}

pub(super) async fn an_end_by_erasure_is_no_flip(world: World) {
    let a = world.user().await;
    let (key, id) = world.own_id();
    let put = || put_user(key, &id);
    let mut now = world.done(put()).await.version.millis();
    for _ in 0..3 {
        world.done(limited(follow(a, key), flips(now, 1))).await;
        world.done(erase(key)).await;
        while matches!(world.done(erase_edges(key, 10)).await.reply, Reply::EdgesErased { left: true, .. }) {}
        now = world.done(put()).await.version.millis();
    }
    world.done(limited(follow(a, key), flips(now, 1))).await;
    world.done(unfollow(a, key)).await;
    world.refused(limited(follow(a, key), flips(now, 1)), Code::CoolingDown).await;
}

pub(super) async fn whoever_is_created_again_has_everything_left(world: World) {
    let [b, c] = world.users().await;
    let (key, id) = world.own_id();
    let now = world.done(put_user(key, &id)).await.version.millis();
    let limits = FollowLimits { flips_per_day: 1, challenge_after: 1, ..one_a_minute(now, 3) };
    world.done(limited(follow(key, b), limits)).await;
    world.done(unfollow(key, b)).await;
    assert_eq!(world.left(key, now).await, 2);
    world.refused(limited(follow(key, b), limits), Code::CoolingDown).await;
    world.refused(limited(follow(key, c), limits), Code::ChallengeRequired).await;
    world.done(erase(key)).await;
    assert_eq!(world.left(key, now).await, 3);
    while matches!(world.done(erase_edges(key, 10)).await.reply, Reply::EdgesErased { left: true, .. }) {}
    world.done(put_user(key, &id)).await;
    assert_eq!(world.left(key, now).await, 3);
    world.done(limited(follow(key, b), limits)).await;
}

pub(super) async fn of_many_they_are_those_of_each(world: World) {
    let users = world.many_users(5).await;
    for (index, &user) in users.iter().enumerate() {
        for target in users.iter().filter(|&&target| target != user).take(index) {
            world.done(limited(follow(user, *target), one_a_minute(at(0), 0))).await;
        }
    }
    let mut asked = users.clone();
    asked.extend([world.stranger(), users[2]]);
    let quotas = world.store.get_quotas(&asked).await.expect("quotas can be read");
    let left = quotas.iter().map(|quota| quota.left(&one_a_minute(at(0), 10)).expect("there is a limit").remaining);
    assert_eq!(left.collect::<Vec<_>>(), [10, 9, 8, 7, 6, 10, 8]);
    assert_eq!(world.store.get_quotas(&[]).await.expect("quotas can be read"), []);
}

pub(super) async fn what_was_taken_survives_reopening(world: World) {
    let [a, b] = world.users().await;
    let targets = world.many_users(6).await;
    world.done(follow(a, b)).await;
    let now = world.done(unfollow(a, b)).await.version.millis();
    let limits = FollowLimits { challenge_after: 4, flips_per_day: 1, ..one_a_minute(now, 3) };
    for &target in &targets[..3] {
        world.done(limited(follow(a, target), limits)).await;
    }
    let quota = world.quota(a).await;
    let mut world = world;
    for round in 0..3 {
        world = world.reopened().await;
        assert_eq!(world.quota(a).await, quota, "reopened {round} times");
        assert_eq!(world.waits(limited(follow(a, targets[3]), limits), Code::RateLimited).await, 60_000);
        world.refused(limited(follow(a, b), limits), Code::CoolingDown).await;
    }
    let later = FollowLimits { now: now.plus(60_000), ..limits };
    world.done(limited(follow(a, targets[3]), later)).await;
    world.refused(limited(follow(a, targets[4]), later), Code::ChallengeRequired).await;
    let world = world.reopened().await;
    world.refused(limited(follow(a, targets[4]), later), Code::ChallengeRequired).await;
    world.done(limited(follow(a, targets[4]), FollowLimits { now: now.plus(2 * HOUR), ..limits })).await;
    let ended = Version::of_millis(now.plus(DAY + 1));
    world.done(limited(follow(a, b), FollowLimits { now: ended.millis(), ..limits })).await;
    world.assert_sound().await;
}
