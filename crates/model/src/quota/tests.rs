//! Quotas and moments on times set by the test.

use proptest::prelude::*;

use super::*;

const START: u64 = 800_000_000_000;

fn at(millis: u64) -> Millis {
    Millis::from_since_2000(START + millis)
}

fn rate(now: u64, per_hour: u32, burst: u32) -> FollowLimits {
    FollowLimits { per_hour, burst, ..FollowLimits::none(at(now)) }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// How large a burst is left.
fn burst(quota: &Quota, limits: &FollowLimits) -> u32 {
    let mut quota = quota.clone();
    let taken = (0..1_000).take_while(|_| match quota.take(limits) {
        Ok(after) => {
            quota = after;
            true
        }
        Err(_) => false,
    });
    taken.count() as u32
}

fn used_up(limits: &FollowLimits) -> Quota {
    let mut quota = Quota::default();
    while let Ok(after) = quota.take(limits) {
        quota = after;
    }
    quota
}

#[test]
fn a_burst_goes_through_and_one_comes_back_at_a_time() {
    let limits = rate(0, 3_600, 3);
    assert_eq!(burst(&Quota::default(), &limits), 3);
    let quota = used_up(&limits);
    assert_eq!(quota.take(&limits), Err(seconds(1)));
    let left = quota.left(&limits).unwrap();
    assert_eq!(left, FollowsLeft { limit: 3, window: seconds(3), remaining: 0, reset: seconds(3) });
    assert_eq!(quota.take(&rate(999, 3_600, 3)), Err(Duration::from_millis(1)));
    assert_eq!(burst(&quota, &rate(1_000, 3_600, 3)), 1);
    assert_eq!(burst(&quota, &rate(3_000, 3_600, 3)), 3);
    assert!(!quota.is_idle(at(2_999)) && quota.is_idle(at(3_000)));
    assert_eq!(burst(&Quota::default(), &rate(0, 7, 0)), 7, "as many as an hour has");
    assert_eq!(burst(&quota, &rate(0, 0, 5)), 1_000, "there is no limit");
    assert_eq!(quota.left(&rate(0, 0, 5)), None);
}

#[test]
fn a_clock_that_was_set_back_locks_nobody_out_and_refills_nothing() {
    let quota = used_up(&rate(3 * DAY_MILLIS, 200, 100));
    // Servers differ by a little: it is waited for.
    assert_eq!(quota.take(&rate(3 * DAY_MILLIS - 60_000, 200, 100)), Err(seconds(18 + 60)));
    // More than that: one follow, and everything is used up as of now.
    let limits = rate(0, 200, 100);
    assert_eq!(quota.left(&limits).unwrap().remaining, 1);
    assert_eq!(burst(&quota, &limits), 1);
    let after = quota.take(&limits).unwrap();
    assert_eq!(after.take(&limits), Err(seconds(18)));
    assert_eq!(burst(&after, &rate(HOUR_MILLIS / 2, 200, 100)), 100);
    // The same for challenges.
    let limits = |now| FollowLimits { challenge_after: 3, ..FollowLimits::none(at(now)) };
    let mut quota = Quota::default();
    for _ in 0..3 {
        quota = quota.take(&limits(3 * DAY_MILLIS)).unwrap();
    }
    assert!(quota.needs_challenge(&limits(3 * DAY_MILLIS)));
    assert!(quota.needs_challenge(&limits(3 * DAY_MILLIS - 60_000)));
    assert!(!quota.needs_challenge(&limits(0)));
    let after = quota.take(&limits(0)).unwrap();
    assert!(after.needs_challenge(&limits(HOUR_MILLIS - 1)) && !after.needs_challenge(&limits(HOUR_MILLIS)));
}

#[test]
fn lowered_limits_are_waited_for_no_longer_than_their_own_window() {
    let quota = used_up(&rate(0, 1, 100));
    let lowered = rate(0, 3_600, 10);
    assert_eq!(burst(&quota, &lowered), 1);
    assert_eq!(quota.take(&lowered).unwrap().take(&lowered), Err(seconds(1)));
}

#[test]
fn challenges_count_follows_of_the_last_hour_with_and_without_a_proof() {
    let limits = |now, proved| FollowLimits { challenge_after: 2, proved, ..FollowLimits::none(at(now)) };
    let mut quota = Quota::default();
    quota = quota.take(&limits(0, false)).unwrap();
    quota = quota.take(&limits(10, true)).unwrap();
    assert!(quota.needs_challenge(&limits(10, false)) && !quota.needs_challenge(&limits(10, true)));
    quota = quota.take(&limits(20, true)).unwrap();
    assert!(quota.needs_challenge(&limits(HOUR_MILLIS, false)), "two of them are left");
    assert!(!quota.needs_challenge(&limits(HOUR_MILLIS + 10, false)));
    assert!(!quota.is_idle(at(HOUR_MILLIS + 19)) && quota.is_idle(at(HOUR_MILLIS + 20)));
}

#[test]
fn an_edge_cools_down_until_its_oldest_end_is_a_day_ago() {
    let hours = |hours: u64| at(hours * HOUR_MILLIS);
    let wait = |ends: &Moments, now, version, flips_per_day| {
        let limits = FollowLimits { flips_per_day, ..FollowLimits::none(now) };
        ends.cools_down(&limits, version).map(|wait| wait.as_secs() / 3_600)
    };
    let ends = Moments::of_ends([hours(0), hours(1), hours(2)]);
    for (flips, waits) in [(3, Some(22)), (2, Some(23)), (4, None), (0, None)] {
        assert_eq!(wait(&ends, hours(2), hours(2), flips), waits);
    }
    assert_eq!(wait(&ends, hours(24), hours(24), 3), None);
    // The clock was set forward for a while: versions are ahead, and continue from there.
    assert_eq!(wait(&ends, hours(1), hours(2), 3), Some(22));
    assert_eq!(wait(&ends, hours(24), hours(3), 3), None, "time has passed all the same");
    // It was wrong: nobody waits for it.
    let ahead = Moments::of_ends([hours(900); 3]);
    assert_eq!(wait(&ahead, hours(0), hours(900), 3), None);
}

#[test]
fn bytes_that_are_no_quota_are_none() {
    for bytes in [&[][..], &[0x80], &[1, 2], &[0xff; 11], &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1]]
    {
        assert!(Quota::from_bytes(bytes).is_none_or(|quota| quota.followed.is_empty()), "{bytes:?}");
    }
    assert_eq!(Quota::from_bytes(&[0]), Some(Quota::default()));
    assert_eq!(Quota::from_bytes(&[0, 5]), None);
    assert_eq!(Quota::from_bytes(&[0].iter().chain(&[1; 130]).copied().collect::<Vec<u8>>()), None, "too many");
}

proptest! {
    /// Few are kept, whatever their number, and nobody may do more than with all of them.
    #[test]
    fn many_moments_take_little_room(gaps in prop::collection::vec(0u64..90_000, 0..400), bound in 1u32..300) {
        let (mut moments, mut all, mut now) = (Moments::default(), Vec::new(), 0);
        for gap in gaps {
            now += gap;
            moments.push(at(now), HOUR_MILLIS);
            all.push(now);
            prop_assert!(moments.len() <= MOMENTS_MAX);
            let exact = all.iter().filter(|then| **then + HOUR_MILLIS > now).count();
            let waits = moments.wait(at(now), HOUR_MILLIS, bound).is_some();
            prop_assert!(waits || exact < bound as usize);
            prop_assert!(!waits || exact >= bound as usize || exact > MOMENTS_MAX / 2);
        }
        let quota = Quota { arrival: now, followed: moments };
        prop_assert_eq!(Quota::from_bytes(&quota.to_bytes()), Some(quota));
    }

    /// No hour admits more than an hour's worth and the burst, whatever the times of the requests.
    #[test]
    fn a_window_never_has_more_than_the_limit_and_the_burst(
        gaps in prop::collection::vec(0u64..400_000, 1..300),
        per_hour in 1u32..40,
        burst in 1u32..10,
    ) {
        let (mut quota, mut times, mut now) = (Quota::default(), Vec::new(), 0);
        for gap in gaps {
            now += gap;
            if let Ok(after) = quota.take(&rate(now, per_hour, burst)) {
                quota = after;
                times.push(now);
            }
        }
        for start in &times {
            let within = times.iter().filter(|time| (*start..*start + HOUR_MILLIS).contains(*time)).count();
            prop_assert!(within <= (per_hour + burst) as usize);
        }
    }
}
