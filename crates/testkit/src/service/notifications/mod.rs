//! A second implementation of notifications, written from their description alone, and random runs that compare the
//! two.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use entourage_model::{Clock as _, Key, ManualClock, Millis, Operation, State, UserId, UserPatch, Version};
use entourage_service::{Call, Limit, Limits, NotificationKind, Rules, Service};
use entourage_store::{Store, StoreExt as _};
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

/// A rule deliberately left out, to prove that a run would find it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Twist {
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
pub type Told = (NotificationKind, u64, Vec<i64>, bool);

pub fn day(at: Version) -> u64 {
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

    /// Whether this is new: it came after the seen mark, and nothing of the same pair and day was seen before.
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

pub fn rules() -> Rules {
    let notification_retention = Duration::from_millis(KEPT_DAYS * DAY);
    Rules { limits: Limits::NONE, notification_retention, audit_interval: None, ..Rules::default() }
}

pub fn service(store: &Arc<dyn Store>, clock: &Arc<ManualClock>) -> Service {
    Service::new(Arc::clone(store), rules()).with_clock(Arc::clone(clock) as _)
}

/// Everything, in pages of `limit`: kind, day, count, the actors shown, whether seen; and the unseen count.
pub async fn pages(service: &Service, user: &UserId, limit: usize) -> (Vec<(Told, String)>, u64) {
    let limit = Limit::parse(Some(&limit.to_string())).unwrap();
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = service.notifications.notifications(&Call::default(), user, cursor.as_deref(), limit).await.unwrap();
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

/// An edge as a front shows it: active or requested, quiet, since which version.
pub type Shown = (bool, bool, Version);

/// A front that takes requests, without an actor.
pub trait Front {
    async fn put(&self, person: i64, private: bool);
    async fn follow(&self, follower: i64, target: i64, quiet: bool) -> Option<Shown>;
    async fn unfollow(&self, follower: i64, target: i64);
    async fn accept(&self, target: i64, follower: i64) -> Version;
    async fn reject(&self, target: i64, follower: i64);
    async fn block(&self, actor: i64, target: i64) -> bool;
    async fn unblock(&self, actor: i64, target: i64);
    /// Until a time in whole seconds, or for good.
    async fn mute(&self, actor: i64, target: i64, until: Option<Millis>) -> bool;
    async fn unmute(&self, actor: i64, target: i64);
    /// As [`pages`].
    async fn pages(&self, user: i64, limit: usize) -> (Vec<(Told, String)>, u64);
    async fn see(&self, user: i64, up_to: Option<&str>);
}

struct ServiceFront<'a> {
    service: &'a Service,
    store: &'a Arc<dyn Store>,
    call: Call,
}

impl Front for ServiceFront<'_> {
    async fn put(&self, person: i64, private: bool) {
        let patch = UserPatch { private: Some(private), ..UserPatch::default() };
        self.service.graph.put_user(&self.call, UserId::from(person), patch).await.unwrap();
    }

    async fn follow(&self, follower: i64, target: i64, quiet: bool) -> Option<Shown> {
        let (follower, target) = (UserId::from(follower), UserId::from(target));
        let edge = self.service.graph.follow(&self.call, &follower, &target, quiet).await.ok()?.edge;
        Some((edge.state == State::Active, edge.quiet, edge.position))
    }

    async fn unfollow(&self, follower: i64, target: i64) {
        self.service.graph.unfollow(&self.call, &UserId::from(follower), &UserId::from(target)).await.unwrap();
    }

    async fn accept(&self, target: i64, follower: i64) -> Version {
        let accepted = self.service.graph.accept(&self.call, &UserId::from(target), &UserId::from(follower)).await;
        accepted.unwrap().edge.position
    }

    async fn reject(&self, target: i64, follower: i64) {
        self.service.graph.reject(&self.call, &UserId::from(target), &UserId::from(follower)).await.unwrap();
    }

    async fn block(&self, actor: i64, target: i64) -> bool {
        self.service.graph.block(&self.call, &UserId::from(actor), &UserId::from(target)).await.is_ok()
    }

    async fn unblock(&self, actor: i64, target: i64) {
        self.service.graph.unblock(&self.call, &UserId::from(actor), &UserId::from(target)).await.unwrap();
    }

    async fn mute(&self, actor: i64, target: i64, until: Option<Millis>) -> bool {
        let mute = Operation::Mute { actor: Key(actor), target: Key(target), expires_at: until };
        self.store.commit(mute.into()).await.is_ok()
    }

    async fn unmute(&self, actor: i64, target: i64) {
        self.service.graph.unmute(&self.call, &UserId::from(actor), &UserId::from(target)).await.unwrap();
    }

    async fn pages(&self, user: i64, limit: usize) -> (Vec<(Told, String)>, u64) {
        pages(self.service, &UserId::from(user), limit).await
    }

    async fn see(&self, user: i64, up_to: Option<&str>) {
        self.service.notifications.see_notifications(&self.call, &UserId::from(user), up_to).await.unwrap();
    }
}

/// Runs one seed through the service.
pub async fn run(
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    seed: u64,
    steps: usize,
    twist: Option<Twist>,
) -> Result<(), String> {
    let service = service(&store, &clock);
    let front = ServiceFront { service: &service, store: &store, call: Call::default() };
    run_through(&front, &clock, seed, steps, twist).await?;
    let report = service.upkeep.audit(&Call::default()).await.unwrap();
    assert_eq!((report.users, report.drifts), (PEOPLE as u64, vec![]));
    Ok(())
}

/// Runs one seed and compares everybody's notifications after each step.
pub async fn run_through(
    front: &impl Front,
    clock: &ManualClock,
    seed: u64,
    steps: usize,
    twist: Option<Twist>,
) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut reference = Reference { twist, ..Reference::default() };
    for person in 0..PEOPLE {
        front.put(person, person >= FIRST_PRIVATE).await;
    }
    for step in 0..steps {
        let now = clock.now().since_2000();
        let (a, b) = (random.random_range(0..PEOPLE), random.random_range(0..PEOPLE));
        match random.random_range(0..100) {
            0..35 => {
                let quiet = random.random_ratio(1, 5);
                if let Some((active, is_quiet, at)) = front.follow(a, b, quiet).await {
                    let fresh = Follow { active, quiet, accepted: false, at };
                    reference.follows.entry((a, b)).or_insert(fresh).quiet = is_quiet;
                }
            }
            35..50 => {
                front.unfollow(a, b).await;
                reference.end((a, b), now);
            }
            50..62 => {
                let waiting: Vec<(i64, i64)> =
                    reference.follows.iter().filter(|(_, follow)| !follow.active).map(|(pair, _)| *pair).collect();
                let Some(&pair) = waiting.choose(&mut random) else { continue };
                if random.random_ratio(2, 3) {
                    let at = front.accept(pair.1, pair.0).await;
                    reference.follows.insert(pair, Follow { active: true, quiet: false, accepted: true, at });
                } else {
                    front.reject(pair.1, pair.0).await;
                    reference.end(pair, now);
                }
            }
            62..66 => {
                if front.block(a, b).await {
                    reference.end((a, b), now);
                    reference.end((b, a), now);
                    front.unblock(a, b).await;
                }
            }
            66..72 => {
                // Whole seconds, as they are kept.
                let expires = random.random_ratio(1, 2).then(|| (now / 1_000 + random.random_range(1..50_000)) * 1_000);
                if front.mute(a, b, expires.map(Millis::from_since_2000)).await {
                    reference.mutes.insert((a, b), expires);
                }
            }
            72..77 => {
                front.unmute(a, b).await;
                reference.mutes.remove(&(a, b));
            }
            77..85 => {
                let (all, _) = front.pages(a, 50).await;
                let chosen = all.choose(&mut random).map(|(_, id)| id.clone());
                front.see(a, chosen.as_deref()).await;
                // Without an id everything that exists and is not quiet, shown or not.
                let newest =
                    reference.follows.iter().filter(|(pair, follow)| pair.1 == a || (pair.0 == a && follow.active));
                let newest = newest.filter(|(_, follow)| !follow.quiet);
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
        let now = clock.now().since_2000();
        for person in 0..PEOPLE {
            let (found, unseen) = front.pages(person, random.random_range(1..5)).await;
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
    Ok(())
}

pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Millis::parse_rfc3339("2026-05-01T22:00:00Z").unwrap()))
}
