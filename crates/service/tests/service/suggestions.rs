//! Suggestions: rankers and bounds against brute force, what a cache may hold back and what it may not, imported ones.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_model::{Clock, ManualClock, Secret, UserId, UserPatch};
use entourage_service::{
    Actor, Call, Limits, NEWCOMER_FOLLOWS, RankerName, Reason, Rules, SUGGESTIONS_MAX, Service, SuggestionRules,
    import::{Contents, Form, Import, Source, Tally},
};
use entourage_store::{Identity, Store, SystemClock};
use entourage_testkit::crash_disk::CrashDisk;
use rand::{RngExt, SeedableRng, rngs::StdRng};

fn identity() -> Identity {
    Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) }
}

fn on_memory() -> Arc<dyn Store> {
    Arc::new(memory::Store::new(identity(), Arc::new(SystemClock)))
}

fn on_disk() -> Arc<dyn Store> {
    let options = embedded::Options { checkpoint_entries: 3_000, ..embedded::Options::default() };
    let disk = Arc::new(CrashDisk::new());
    Arc::new(embedded::Store::open(disk, "the test disk", options, Arc::new(SystemClock)).unwrap())
}

fn rules(max_age: Duration) -> Rules {
    let suggestions = SuggestionRules { max_age, ..SuggestionRules::default() };
    Rules { limits: Limits::NONE, audit_interval: None, suggestions, following_max: None, ..Rules::default() }
}

fn uncached(store: Arc<dyn Store>) -> Service {
    Service::new(store, rules(Duration::ZERO))
}

fn id(number: i64) -> UserId {
    UserId::from(number)
}

async fn people(service: &Service, count: i64) {
    for number in 0..count {
        service.graph.put_user(&Call::default(), id(number), UserPatch::default()).await.unwrap();
    }
}

async fn follow(service: &Service, from: i64, to: i64) {
    service.graph.follow(&Call::default(), &id(from), &id(to), false).await.unwrap();
}

async fn suggested(service: &Service, user: i64, ranker: RankerName) -> Vec<(i64, Reason)> {
    let found = service.suggestions.suggestions(&Call::default(), &id(user), Some(ranker), SUGGESTIONS_MAX).await;
    let row = |one: entourage_service::Suggestion| (one.person.id.as_str().parse().unwrap(), one.reason);
    found.unwrap().into_iter().map(row).collect()
}

async fn ids(service: &Service, user: i64) -> Vec<i64> {
    suggested(service, user, RankerName::Common).await.into_iter().map(|(id, _)| id).collect()
}

/// Friends of friends as the description has them, with floats where it has fractions.
fn brute_force(follows: &BTreeMap<i64, Vec<i64>>, user: i64, ranker: RankerName) -> Vec<(i64, u32)> {
    let newest = |of: i64| follows.get(&of).map(|list| list.iter().rev().take(500).copied().collect::<Vec<i64>>());
    let first = newest(user).unwrap_or_default();
    let own: BTreeSet<i64> = follows.get(&user).into_iter().flatten().copied().collect();
    let mut followers: HashMap<i64, u64> = HashMap::new();
    follows.values().flatten().for_each(|target| *followers.entry(*target).or_default() += 1);
    let mut found: BTreeMap<i64, (u64, u32)> = BTreeMap::new();
    for (place, hop) in first.iter().enumerate() {
        let following = follows.get(hop).map_or(0, Vec::len).max(2) as f64;
        let weight = match ranker {
            RankerName::Common => 1,
            RankerName::AdamicAdar => (f64::from(1 << 20) / following.ln()) as u64,
            RankerName::Recent => 500 - place as u64,
        };
        for other in newest(*hop).unwrap_or_default() {
            let (score, common) = found.entry(other).or_default();
            *score += weight;
            *common += 1;
        }
    }
    let jaccard = |other: i64, common: u32| {
        let common = f64::from(common);
        common / (first.len() as f64 + followers.get(&other).copied().unwrap_or_default() as f64 - common)
    };
    let mut rows: Vec<(i64, (u64, u32))> =
        found.into_iter().filter(|(other, _)| *other != user && !own.contains(other)).collect();
    rows.sort_by(|(a, (score_a, common_a)), (b, (score_b, common_b))| {
        let by_score = Reverse(score_a).cmp(&Reverse(score_b));
        let by_rest = match ranker {
            RankerName::Common => jaccard(*b, *common_b).partial_cmp(&jaccard(*a, *common_a)).unwrap(),
            _ => followers.get(a).cmp(&followers.get(b)),
        };
        by_score.then(by_rest).then(a.cmp(b))
    });
    rows.into_iter().map(|(other, (_, common))| (other, common)).take(SUGGESTIONS_MAX).collect()
}

async fn compare_with_brute_force(store: Arc<dyn Store>, seed: u64) {
    const PEOPLE: i64 = 160;
    let service = uncached(store);
    people(&service, PEOPLE).await;
    let mut random = StdRng::seed_from_u64(seed);
    let mut follows: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for user in 0..PEOPLE {
        let count = random.random_range(NEWCOMER_FOLLOWS as usize..40);
        for _ in 0..count {
            // A few are followed by many.
            let other = random.random_range(0..PEOPLE).min(random.random_range(0..PEOPLE));
            let list = follows.entry(user).or_default();
            if other != user && !list.contains(&other) {
                follow(&service, user, other).await;
                list.push(other);
            }
        }
    }
    for user in (0..PEOPLE).step_by(7) {
        if follows.get(&user).map_or(0, Vec::len) < NEWCOMER_FOLLOWS as usize {
            continue;
        }
        for ranker in RankerName::ALL {
            let found = suggested(&service, user, ranker).await;
            let friends = found.iter().filter_map(|(id, reason)| match reason {
                Reason::FollowedBy { common, people } => {
                    assert_eq!(people.len(), (*common).min(2) as usize);
                    Some((*id, *common))
                }
                _ => None,
            });
            let expected = brute_force(&follows, user, ranker);
            assert_eq!(friends.collect::<Vec<_>>(), expected, "seed {seed}, user {user}, {ranker:?}");
            if expected.len() == SUGGESTIONS_MAX {
                assert_eq!(found.len(), SUGGESTIONS_MAX);
            }
        }
    }
}

#[tokio::test]
async fn rankers_agree_with_brute_force_on_memory() {
    for seed in 0..3 {
        compare_with_brute_force(on_memory(), seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rankers_agree_with_brute_force_on_an_embedded_store() {
    for seed in 3..5 {
        compare_with_brute_force(on_disk(), seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rankers_agree_with_brute_force_on_homes() {
    let store = entourage_testkit::service::homes::settled(Arc::new(SystemClock));
    compare_with_brute_force(store, 5).await;
}

/// Of each list the 500 newest count, and a row that a block hides takes no place among them.
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_500_that_are_shown_count() {
    for store in [on_memory(), on_disk()] {
        let service = uncached(store);
        people(&service, 620).await;
        let call = Call::default();
        follow(&service, 0, 1).await;
        for other in 10..611 {
            follow(&service, 1, other).await;
        }
        for other in 20..30 {
            follow(&service, 0, other).await;
        }
        let shows = async |other: i64| ids(&service, 0).await.contains(&other);
        // 10 to 110 are behind the newest 500; with the same common and followers the lesser key comes first.
        assert!(!shows(110).await && shows(111).await);
        service.graph.block(&call, &id(0), &id(600)).await.unwrap();
        assert!(shows(110).await && !shows(109).await);
        service.graph.block(&call, &id(601), &id(0)).await.unwrap();
        assert!(shows(109).await && !shows(108).await);
        service.graph.unblock(&call, &id(0), &id(600)).await.unwrap();
        assert!(!shows(109).await && shows(110).await);
        // A quiet row takes none either.
        service.graph.follow(&call, &id(1), &id(602), true).await.unwrap();
        assert!(shows(109).await);
    }
}

fn by(user: i64) -> Call {
    Call { actor: Actor::User(id(user)), admin: false, ..Call::default() }
}

/// 0 follows 1; 1 follows 2 and 3.
async fn few(service: &Service) {
    people(service, 8).await;
    for (from, to) in [(0, 1), (1, 2), (1, 3)] {
        follow(service, from, to).await;
    }
}

#[tokio::test]
async fn what_a_viewer_does_shows_in_the_next_answer() {
    let service = Service::new(on_memory(), rules(Duration::from_secs(60)));
    few(&service).await;
    assert_eq!(ids(&service, 0).await, [2, 3]);
    service.suggestions.dismiss(&by(0), &id(0), &id(2)).await.unwrap();
    assert_eq!(ids(&service, 0).await, [3]);
    service.graph.block(&by(0), &id(0), &id(3)).await.unwrap();
    assert!(ids(&service, 0).await.is_empty());
    service.graph.unblock(&by(0), &id(0), &id(3)).await.unwrap();
    assert_eq!(ids(&service, 0).await, [3]);
    service.graph.mute(&by(0), &id(0), &id(3), None).await.unwrap();
    assert!(ids(&service, 0).await.is_empty());
    service.graph.unmute(&by(0), &id(0), &id(3)).await.unwrap();
    service.graph.follow(&by(0), &id(0), &id(3), false).await.unwrap();
    assert!(ids(&service, 0).await.is_empty());
    service.graph.unfollow(&by(0), &id(0), &id(3)).await.unwrap();
    assert_eq!(ids(&service, 0).await, [3]);
    // Being blocked happens to the viewer as well.
    service.graph.block(&by(3), &id(3), &id(0)).await.unwrap();
    assert!(ids(&service, 0).await.is_empty());
    service.graph.unblock(&by(3), &id(3), &id(0)).await.unwrap();
    service.graph.unfollow(&by(0), &id(0), &id(1)).await.unwrap();
    // Nobody is left to lead anywhere: the leaderboard.
    assert_eq!(ids(&service, 0).await, [3]);
    let again = service.suggestions.dismiss(&by(0), &id(0), &id(2)).await.unwrap();
    assert!(!again.changed);
}

#[tokio::test]
async fn what_others_do_shows_within_two_seconds_and_to_a_token_at_once() {
    let service = Service::new(on_memory(), rules(Duration::from_secs(60)));
    few(&service).await;
    assert_eq!(ids(&service, 0).await, [2, 3]);
    let began = Instant::now();
    let written = service.graph.follow(&by(1), &id(1), &id(4), false).await.unwrap();
    let call = Call { token: written.receipt.map(|receipt| receipt.token), ..Call::default() };
    let found = service.suggestions.suggestions(&call, &id(0), None, 50).await.unwrap();
    assert_eq!(found.len(), 3);
    follow(&service, 1, 5).await;
    while ids(&service, 0).await != [2, 3, 4, 5] {
        assert!(began.elapsed() < Duration::from_secs(2), "others' steps show within two seconds");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn whoever_is_erased_or_suspended_is_gone_at_once() {
    let service = Service::new(on_memory(), rules(Duration::from_secs(60)));
    few(&service).await;
    assert_eq!(ids(&service, 0).await, [2, 3]);
    service.graph.suspend(&Call::default(), id(2), true).await.unwrap();
    assert_eq!(ids(&service, 0).await, [3]);
    service.jobs.erase(&Call::default(), &id(3)).await.unwrap();
    assert!(ids(&service, 0).await.is_empty());
    service.graph.suspend(&Call::default(), id(2), false).await.unwrap();
    while service.jobs.work().await.unwrap() {}
    tokio::time::sleep(Duration::from_millis(1_600)).await;
    assert_eq!(ids(&service, 0).await, [2]);
    // Who leads there is no longer to be named.
    service.jobs.erase(&Call::default(), &id(1)).await.unwrap();
    let left = suggested(&service, 0, RankerName::Common).await;
    assert!(left.iter().all(|(_, reason)| *reason == Reason::Popular), "{left:?}");
}

#[tokio::test]
async fn only_newcomers_get_the_leaderboard_and_nobody_comes_twice() {
    let service = uncached(on_memory());
    people(&service, 40).await;
    for from in 11..16 {
        follow(&service, from, 30).await;
    }
    follow(&service, 20, 0).await;
    let found = suggested(&service, 0, RankerName::Common).await;
    assert_eq!(found, [(20, Reason::FollowsYou), (30, Reason::Popular)]);
    // 0 follows ten: no newcomer any more.
    for to in 1..=NEWCOMER_FOLLOWS as i64 {
        follow(&service, 0, to).await;
    }
    assert_eq!(suggested(&service, 0, RankerName::Common).await, [(20, Reason::FollowsYou)]);
    follow(&service, 1, 20).await;
    let found = suggested(&service, 0, RankerName::Common).await;
    assert!(matches!(found.as_slice(), [(20, Reason::FollowedBy { common: 1, .. })]), "{found:?}");
    let refused = service.suggestions.suggestions(&by(1), &id(0), None, 5).await.unwrap_err();
    assert_eq!(refused.code(), entourage_model::Code::Forbidden);
}

async fn import(service: &Service, lines: &str, contents: Option<Contents>) -> Tally {
    let file = std::env::temp_dir().join(format!("entourage-suggestions-{:016x}", rand::random::<u64>()));
    std::fs::write(&file, lines).unwrap();
    let import = Import {
        sources: vec![Source::File(file.clone())],
        form: Form { contents, ..Form::default() },
        create_users: true,
        following_max: None,
        now: SystemClock.now(),
    };
    let done = import.run(&service.transfer, None, None, |_| {}).await;
    std::fs::remove_file(&file).unwrap();
    done.unwrap().total()
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_ones_are_shown_behind_friends_of_friends_until_they_are_over() {
    for store in [on_memory(), on_disk()] {
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let service = uncached(store).with_clock(Arc::clone(&clock) as _);
        few(&service).await;
        follow(&service, 6, 0).await;
        let tally = import(&service, "user,suggested,score\n0,4,0.5\n0,5,2\n0,3,9\n0,1,9\n", None).await;
        assert_eq!((tally.lines, tally.suggestions_created, tally.rejected), (4, 4, 0));
        let found = suggested(&service, 0, RankerName::Common).await;
        let shown: Vec<i64> = found.iter().map(|(id, _)| *id).collect();
        assert_eq!(shown, [2, 3, 5, 4, 6], "{found:?}");
        assert_eq!(found[2].1, Reason::Imported);
        // A later line about the same pair replaces the one before; without a header, and as JSON.
        let tally = import(&service, "0,4,7\n0,5,2.5\n", Some(Contents::Suggestions)).await;
        assert_eq!(tally.suggestions_updated, 2);
        let json = r#"{"type": "suggestion", "user": 0, "suggested": "7", "score": -1}
{"user": "0", "suggested": "7"}
{"user": "0", "suggested": "0", "score": 1}
{"user": "0", "suggested": "nobody", "score": 1}
{"user": "nobody", "suggested": "1", "score": 1}
{"user": "0", "suggested": "7", "score": "high"}
"#;
        let tally = import(&service, json, None).await;
        assert_eq!((tally.lines, tally.suggestions_created, tally.suggestions_updated, tally.rejected), (6, 1, 1, 4));
        let reasons: Vec<&str> = tally.rejected_by_reason.keys().map(String::as_str).collect();
        assert_eq!(reasons, ["actor_not_found", "invalid_score", "self_suggestion", "user_not_found"]);
        assert_eq!(tally.users_added, 0, "a file of suggestions makes nobody");
        assert_eq!(ids(&service, 0).await, [2, 3, 4, 5, 7, 6]);
        service.suggestions.dismiss(&by(0), &id(0), &id(4)).await.unwrap();
        assert_eq!(ids(&service, 0).await, [2, 3, 5, 7, 6]);
        clock.advance(24 * 60 * 60 * 1_000 + 60_000);
        assert_eq!(ids(&service, 0).await, [2, 3, 6]);
        // Those that are over make room.
        let many: String = (0..203).map(|number| format!("0,{},{number}\n", number % 2 + 4)).collect();
        let tally = import(&service, &many, Some(Contents::Suggestions)).await;
        assert_eq!(tally.rejected, 0, "{tally:?}");
    }
}

/// How many are kept for one user is bounded, whatever a file has.
#[tokio::test]
async fn a_user_has_so_many_imported_ones_and_no_more() {
    let service = uncached(on_memory());
    people(&service, 260).await;
    let lines: String = (1..260).map(|other| format!("0,{other},{other}\n")).collect();
    let tally = import(&service, &lines, Some(Contents::Suggestions)).await;
    assert_eq!((tally.suggestions_created, tally.rejected), (200, 59));
    assert_eq!(tally.rejected_by_reason.get("too_many_suggestions"), Some(&59));
    let expected: Vec<i64> = (0..50).map(|place| 200 - place).collect();
    assert_eq!(ids(&service, 0).await, expected);
}
