//! Notifications once more, written from their description alone, and random runs that compare the two.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use entourage_log::backends::in_store;
use entourage_model::{Key, ManualClock, Millis, Operation, State, UserId, UserPatch, Version};
use entourage_service::{Call, Limit, Limits, NotificationKind, Rules, Service};
use entourage_store::Store;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

const PEOPLE: i64 = 7;
/// The last ones are private.
const FIRST_PRIVATE: i64 = 5;
const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
const KEPT_DAYS: u64 = 3;

#[derive(Clone, Copy)]
struct Follow {
    active: bool,
    quiet: bool,
    accepted: bool,
    at: Version,
}

/// A rule left out on purpose, to prove that a run would notice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Twist {
    QuietIsTold,
    MutesNeverEnd,
    ChurnIsNew,
    AcceptedAreFollowers,
}

#[derive(Default)]
struct Reference {
    twist: Option<Twist>,
    follows: BTreeMap<(i64, i64), Follow>,
    /// What ended, and on which day.
    ended: Vec<((i64, i64), Follow, u64)>,
    mutes: BTreeMap<(i64, i64), Option<u64>>,
    seen: BTreeMap<i64, Version>,
}

/// Kind, actors from the newest on, whether all of it was seen.
type Told = (NotificationKind, u64, Vec<i64>, bool);

fn day(at: Version) -> u64 {
    at.millis().since_2000() / DAY
}

impl Reference {
    fn end(&mut self, pair: (i64, i64), now: u64) {
        if let Some(follow) = self.follows.remove(&pair) {
            self.ended.push((pair, follow, now / DAY));
        }
    }

    fn rows(&self, user: i64, kind: NotificationKind, now: u64) -> Vec<(i64, (i64, i64), Follow)> {
        let mut rows = Vec::new();
        for (&(follower, target), &follow) in &self.follows {
            let is_follow = !follow.accepted || self.twist == Some(Twist::AcceptedAreFollowers);
            let actor = match kind {
                NotificationKind::Follow if target == user && follow.active && is_follow => follower,
                NotificationKind::FollowRequest if target == user && !follow.active => follower,
                NotificationKind::RequestAccepted if follower == user && follow.active && follow.accepted => target,
                _ => continue,
            };
            let muted = self
                .mutes
                .get(&(user, actor))
                .is_some_and(|end| self.twist == Some(Twist::MutesNeverEnd) || end.is_none_or(|end| end > now));
            let told = !follow.quiet || self.twist == Some(Twist::QuietIsTold);
            let young = follow.at.millis().since_2000() >= now - KEPT_DAYS * DAY;
            if told && !muted && young {
                rows.push((actor, (follower, target), follow));
            }
        }
        rows.sort_by_key(|(_, _, follow)| std::cmp::Reverse(follow.at));
        rows
    }

    /// Whether this is something new: it came after what was seen, and nothing of the same pair and day was seen before.
    fn is_new(&self, user: i64, kind: NotificationKind, pair: (i64, i64), follow: Follow) -> bool {
        let seen = self.seen.get(&user).copied().unwrap_or(Version::ZERO);
        let before = self.ended.iter().any(|(other, ended, ended_on)| {
            let same = *other == pair && *ended_on >= day(follow.at) && day(ended.at) == day(follow.at);
            same && match kind {
                NotificationKind::Follow => ended.active && !ended.quiet && !ended.accepted && ended.at <= seen,
                NotificationKind::FollowRequest => ended.accepted || (!ended.active && ended.at <= seen),
                NotificationKind::RequestAccepted => ended.active && ended.accepted && ended.at <= seen,
            }
        });
        let seen_today = day(seen) >= day(follow.at);
        follow.at > seen && (self.twist == Some(Twist::ChurnIsNew) || !(seen_today && before))
    }

    fn told(&self, user: i64, now: u64) -> Vec<Told> {
        let mut groups = Vec::new();
        for kind in NotificationKind::ALL {
            let rows = self.rows(user, kind, now);
            let days: BTreeSet<u64> = rows.iter().map(|(_, _, follow)| day(follow.at)).collect();
            for on in days {
                let rows: Vec<_> = rows.iter().filter(|(_, _, follow)| day(follow.at) == on).collect();
                let new = rows.iter().any(|(_, pair, follow)| self.is_new(user, kind, *pair, *follow));
                groups.push((rows[0].2.at, (kind, on, rows.iter().map(|(actor, ..)| *actor).collect(), !new)));
            }
        }
        groups.sort_by_key(|(newest, _)| std::cmp::Reverse(*newest));
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

pub(crate) fn service(store: &Arc<dyn Store>, clock: &Arc<ManualClock>) -> Service {
    let log = Arc::new(in_store::Log::new(Arc::clone(store)));
    let notification_retention = Duration::from_millis(KEPT_DAYS * DAY);
    let rules = Rules { limits: Limits::NONE, notification_retention, audit_interval: None, ..Rules::default() };
    Service::new(Arc::clone(store), log, rules).with_clock(Arc::clone(clock) as _)
}

/// Everything, in pages of `limit`: kind, day, count, the actors shown, whether seen; and the unseen count.
pub(crate) async fn pages(service: &Service, user: &UserId, limit: usize) -> (Vec<(Told, String)>, u64) {
    let limit = Limit::parse(Some(&limit.to_string())).unwrap();
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = service.notifications(&Call::default(), user, cursor.as_deref(), limit).await.unwrap();
        assert!(page.rows.len() <= limit.get() && (!page.rows.is_empty() || page.next_cursor.is_none()));
        for row in page.rows {
            assert!(row.count_is_exact && row.actors.len() == row.count.min(3) as usize, "{row:?}");
            let actors = row.actors.iter().map(|actor| actor.id.as_str().parse().unwrap());
            let told = (row.kind, day(row.newest), actors.collect(), row.seen);
            all.push((told, row.id()));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return (all, page.unseen);
        }
    }
}

/// Runs one seed and compares everybody's notifications after each step.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    seed: u64,
    steps: usize,
    twist: Option<Twist>,
) -> Result<(), String> {
    let service = service(&store, &clock);
    let mut random = StdRng::seed_from_u64(seed);
    let mut reference = Reference { twist, ..Reference::default() };
    let call = Call::default();
    for person in 0..PEOPLE {
        let patch = UserPatch { private: Some(person >= FIRST_PRIVATE), ..UserPatch::default() };
        service.put_user(&call, UserId::from(person), patch).await.unwrap();
    }
    for step in 0..steps {
        let now = entourage_model::Clock::now(&*clock).since_2000();
        let (a, b) = (random.random_range(0..PEOPLE), random.random_range(0..PEOPLE));
        let (x, y) = (UserId::from(a), UserId::from(b));
        match random.random_range(0..100) {
            0..35 => {
                let quiet = random.random_ratio(1, 5);
                if let Ok(done) = service.follow(&call, &x, &y, quiet).await {
                    let (active, at) = (done.edge.state == State::Active, done.edge.position);
                    let fresh = Follow { active, quiet, accepted: false, at };
                    reference.follows.entry((a, b)).or_insert(fresh).quiet = done.edge.quiet;
                }
            }
            35..50 => {
                service.unfollow(&call, &x, &y).await.unwrap();
                reference.end((a, b), now);
            }
            50..62 => {
                let waiting: Vec<(i64, i64)> =
                    reference.follows.iter().filter(|(_, follow)| !follow.active).map(|(pair, _)| *pair).collect();
                let Some(&pair) = waiting.choose(&mut random) else { continue };
                let (from, to) = (UserId::from(pair.0), UserId::from(pair.1));
                if random.random_ratio(2, 3) {
                    let at = service.accept(&call, &to, &from).await.unwrap().edge.position;
                    reference.follows.insert(pair, Follow { active: true, quiet: false, accepted: true, at });
                } else {
                    service.reject(&call, &to, &from).await.unwrap();
                    reference.end(pair, now);
                }
            }
            62..66 => {
                if service.block(&call, &x, &y).await.is_ok() {
                    reference.end((a, b), now);
                    reference.end((b, a), now);
                    service.unblock(&call, &x, &y).await.unwrap();
                }
            }
            66..72 => {
                // Whole seconds, as they are kept.
                let expires = random.random_ratio(1, 2).then(|| (now / 1_000 + random.random_range(1..50_000)) * 1_000);
                let expires_at = expires.map(Millis::from_since_2000);
                if store.commit(Operation::Mute { actor: Key(a), target: Key(b), expires_at }.into()).await.is_ok() {
                    reference.mutes.insert((a, b), expires);
                }
            }
            72..77 => {
                service.unmute(&call, &x, &y).await.unwrap();
                reference.mutes.remove(&(a, b));
            }
            77..85 => {
                let (all, _) = pages(&service, &x, 50).await;
                let chosen = all.choose(&mut random).map(|(_, id)| id.clone());
                service.see_notifications(&call, &x, chosen.as_deref()).await.unwrap();
                // Without an id everything that stands, shown or not.
                let newest =
                    reference.follows.iter().filter(|(pair, follow)| pair.1 == a || (pair.0 == a && follow.active));
                let newest = newest.map(|(_, follow)| follow.at).max().unwrap_or(Version::ZERO);
                let up_to =
                    chosen.map_or(newest, |id| Version::from_bits(id.split('.').next().unwrap().parse().unwrap()));
                let seen = reference.seen.entry(a).or_insert(Version::ZERO);
                *seen = up_to.max(*seen);
            }
            85..97 => clock.advance(random.random_range(1..3 * HOUR)),
            _ => clock.advance(random.random_range(1..DAY)),
        }
        clock.advance(1);
        let now = entourage_model::Clock::now(&*clock).since_2000();
        for person in 0..PEOPLE {
            let (found, unseen) = pages(&service, &UserId::from(person), random.random_range(1..5)).await;
            let mut expected = reference.told(person, now);
            let new = expected.iter().filter(|(.., seen)| !seen).count() as u64;
            expected.iter_mut().for_each(|(_, _, actors, _)| actors.truncate(3));
            let found: Vec<Told> = found.into_iter().map(|(told, _)| told).collect();
            if (&found, unseen) != (&expected, new) {
                return Err(format!(
                    "seed {seed} step {step}: {person} must be told {expected:?}, {new} unseen, not {found:?}, {unseen}"
                ));
            }
        }
    }
    let report = service.audit(&call).await.unwrap();
    assert_eq!((report.users, report.drifts), (PEOPLE as u64, vec![]));
    Ok(())
}

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Millis::parse_rfc3339("2026-05-01T22:00:00Z").unwrap()))
}
