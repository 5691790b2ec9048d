//! A hundred worlds of people who do what people do, with some among them who abuse the service: how much of what is
//! reported is true, and how much of what is true is reported.

use std::collections::{BTreeMap, HashSet};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::*;

const WORLDS: u64 = 100;
const PEOPLE: u64 = 400;

#[derive(Default)]
struct Tally {
    planted: u64,
    found: u64,
    reported: u64,
    right: u64,
}

struct Play {
    world: World,
    random: StdRng,
    /// Who is up to something, with what: the actor, or the target of a surge.
    planted: Vec<(CaseKind, String)>,
    bad: HashSet<String>,
}

impl Play {
    async fn new(seed: u64) -> Self {
        let mut play = Self {
            world: World::new().await,
            random: StdRng::seed_from_u64(seed),
            planted: Vec::new(),
            bad: HashSet::new(),
        };
        for person in 0..PEOPLE {
            let age = play.age();
            let name = play.name();
            play.world.named(person, age, Some(&name)).await;
        }
        play
    }

    /// Most have been here for long; a few came this week.
    fn age(&mut self) -> u64 {
        match self.random.random_range(0..12) {
            0 => self.random.random_range(0..7 * DAY),
            _ => self.random.random_range(7 * DAY..3 * 365 * DAY),
        }
    }

    fn name(&mut self) -> String {
        let syllables =
            ["an", "bo", "cla", "dre", "el", "fi", "gus", "hei", "io", "ka", "lu", "mo", "nor", "pe", "ras"];
        let count = self.random.random_range(2..5);
        let mut word = || syllables[self.random.random_range(0..syllables.len())];
        let first: String = (0..count).map(|_| word()).collect();
        format!("{first} {}{}", word(), word())
    }

    fn person(&mut self) -> u64 {
        // A few are known to all.
        match self.random.random_range(0..4) {
            0 => self.random.random_range(0..10),
            _ => self.random.random_range(0..PEOPLE),
        }
    }

    async fn newcomer(&mut self, prefix: &str, number: u64, age: u64) -> String {
        let user = format!("{prefix}{number}");
        let name = self.name();
        self.world.named(&user, age, Some(&name)).await;
        user
    }

    fn plant(&mut self, kind: CaseKind, subject: &str) {
        self.planted.push((kind, subject.to_owned()));
        self.bad.insert(subject.to_owned());
    }

    /// What people do in two weeks.
    async fn everyday(&mut self) {
        for person in 0..PEOPLE {
            for _ in 0..self.random.random_range(2..12) {
                let target = self.person();
                if target != person {
                    self.world.follow(person, target).await.unwrap();
                }
            }
            self.world.clock.advance(14 * DAY / PEOPLE);
        }
        // Somebody cannot decide.
        let times = self.random.random_range(1..6);
        for _ in 0..times {
            self.world.follow(20, 21).await.unwrap();
            self.world.unfollow(20, 21).await;
            self.world.clock.advance(HOUR);
        }
        // Somebody tidies up what is weeks old.
        for target in 0..60 {
            self.world.follow(22, 100 + target).await.unwrap();
        }
        self.world.clock.advance(20 * DAY);
        for target in 0..60 {
            self.world.unfollow(22, 100 + target).await;
        }
    }

    async fn enthusiast(&mut self) {
        let who = self.newcomer("enthusiast", 0, HOUR).await;
        for target in 0..self.random.random_range(100..200_u64) {
            self.world.follow(&who, 150 + target).await.unwrap();
            self.world.clock.advance(20_000);
        }
    }

    async fn viral(&mut self) {
        let many = self.random.random_range(220..380_u64);
        for person in 0..many {
            self.world.follow(person, 399).await.unwrap();
            self.world.clock.advance(HOUR / many);
        }
    }

    async fn friends(&mut self) {
        let count = self.random.random_range(20..30_u64);
        for friend in 0..count {
            let age = self.age();
            self.newcomer("friend", friend, age).await;
        }
        for friend in 0..count {
            for other in (0..count).filter(|other| *other != friend) {
                self.world.follow(format!("friend{friend}"), format!("friend{other}")).await.unwrap();
            }
            self.world.clock.advance(self.random.random_range(DAY..3 * DAY));
        }
    }

    async fn abuse(&mut self, kind: CaseKind) {
        match kind {
            CaseKind::MassFollow => {
                let who = self.newcomer("mass", 0, 30 * DAY).await;
                for target in 0..self.random.random_range(260..390_u64) {
                    self.world.follow(&who, target).await.unwrap();
                    self.world.clock.advance(7_000);
                }
                self.plant(kind, &who);
            }
            CaseKind::FollowChurn => {
                let who = self.newcomer("churn", 0, 30 * DAY).await;
                for target in 0..self.random.random_range(60..150_u64) {
                    self.world.follow(&who, target).await.unwrap();
                    self.world.clock.advance(5 * MINUTE);
                    if target >= 20 {
                        self.world.unfollow(&who, target - 20).await;
                    }
                }
                for target in 0..150 {
                    self.world.unfollow(&who, target).await;
                }
                self.plant(kind, &who);
            }
            CaseKind::PairChurn => {
                let who = self.newcomer("flipper", 0, 300 * DAY).await;
                for _ in 0..self.random.random_range(12..60) {
                    self.world.follow(&who, 30).await.unwrap();
                    self.world.clock.advance(20 * MINUTE);
                    self.world.unfollow(&who, 30).await;
                }
                self.plant(kind, &who);
            }
            CaseKind::RequestFlood => {
                let who = self.newcomer("flood", 0, 3 * DAY).await;
                for number in 0..self.random.random_range(110..200_u64) {
                    let user = id(format!("private{number}"));
                    let registered_at = Some(Millis::from_since_2000(self.world.clock_now() - self.age()));
                    let patch = UserPatch { registered_at, private: Some(true), ..UserPatch::default() };
                    self.world.service.graph.put_user(&Call::default(), user, patch).await.unwrap();
                    self.world.follow(&who, format!("private{number}")).await.unwrap();
                    self.world.clock.advance(10_000);
                }
                self.plant(kind, &who);
            }
            CaseKind::LookAlikes => {
                let who = self.newcomer("fan", 0, 60 * DAY).await;
                let (brand, together) = (self.name(), self.random.random_range(0..2) == 0);
                for number in 0..self.random.random_range(10..15_u64) {
                    let (user, age) = match together {
                        true => (self.name(), 50 * DAY + self.random.random_range(0..20 * HOUR)),
                        false => (format!("{brand} {}", ["_", "1", "xx", ".", "7"][number as usize % 5]), self.age()),
                    };
                    self.world.named(format!("like{number}"), age, Some(&user)).await;
                    self.world.follow(&who, format!("like{number}")).await.unwrap();
                    self.world.clock.advance(HOUR);
                }
                self.plant(kind, &who);
            }
            CaseKind::Surge => {
                let target = "40";
                for number in 0..self.random.random_range(210..400_u64) {
                    let fresh = self.random.random_range(0..100) < 90;
                    let age = if fresh { self.random.random_range(0..6 * DAY) } else { 100 * DAY };
                    let who = self.newcomer("wave", number, age).await;
                    self.world.follow(&who, target).await.unwrap();
                    self.bad.insert(who);
                    self.world.clock.advance(8_000);
                }
                self.plant(kind, target);
            }
            CaseKind::Cluster => {
                let count = self.random.random_range(25..60_u64);
                for member in 0..count {
                    let age = 40 * DAY + self.random.random_range(0..40 * DAY);
                    let who = self.newcomer("ring", member, age).await;
                    self.bad.insert(who);
                }
                for member in 0..count {
                    for target in 0..15_u64 {
                        self.world.follow(format!("ring{member}"), 300 + target * 6).await.unwrap();
                    }
                    for _ in 0..self.random.random_range(0..5) {
                        let noise = self.person();
                        self.world.follow(format!("ring{member}"), noise).await.unwrap();
                    }
                    self.world.clock.advance(10 * MINUTE);
                }
                self.plant(kind, "ring");
            }
        }
    }

    async fn judge(&mut self, tallies: &mut BTreeMap<CaseKind, Tally>) {
        self.world.service.abuse.find_clusters().await.unwrap();
        self.world.detect().await;
        let cases = self.world.list(None, None).await;
        for case in &cases {
            let tally = tallies.entry(case.kind).or_default();
            tally.reported += 1;
            let named = if case.kind == CaseKind::Surge { ids(&case.targets) } else { ids(&case.actors) };
            let is_right = named.iter().any(|user| self.bad.contains(user));
            tally.right += u64::from(is_right);
        }
        for (kind, subject) in &self.planted {
            let tally = tallies.entry(*kind).or_default();
            tally.planted += 1;
            let is_found = cases.iter().filter(|case| case.kind == *kind).any(|case| match kind {
                CaseKind::Surge => ids(&case.targets).contains(subject),
                CaseKind::Cluster => ids(&case.actors).iter().any(|member| member.starts_with("ring")),
                _ => ids(&case.actors).contains(subject),
            });
            tally.found += u64::from(is_found);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn precision_and_recall_over_a_hundred_worlds() {
    let mut tallies: BTreeMap<CaseKind, Tally> = BTreeMap::new();
    for seed in 0..WORLDS {
        let mut play = Play::new(seed).await;
        play.everyday().await;
        let organic = play.random.random_range(0..8_u32);
        if organic & 1 > 0 {
            play.enthusiast().await;
            play.world.clock.advance(DAY);
        }
        if organic & 2 > 0 {
            play.viral().await;
            play.world.clock.advance(DAY);
        }
        if organic & 4 > 0 {
            play.friends().await;
        }
        for kind in CaseKind::ALL {
            if play.random.random_range(0..3) == 0 {
                play.abuse(kind).await;
                play.world.detect().await;
                play.world.clock.advance(3 * HOUR);
            }
        }
        play.judge(&mut tallies).await;
    }
    let share = |part: u64, of: u64| if of == 0 { 1.0 } else { part as f64 / of as f64 };
    let mut all = Tally::default();
    for (kind, tally) in &tallies {
        let (precision, recall) = (share(tally.right, tally.reported), share(tally.found, tally.planted));
        println!(
            "{:>14}: planted {:>3}, found {:>3}, reported {:>3}: precision {precision:.3}, recall {recall:.3}",
            kind.as_str(),
            tally.planted,
            tally.found,
            tally.reported,
        );
        all.planted += tally.planted;
        all.found += tally.found;
        all.reported += tally.reported;
        all.right += tally.right;
    }
    let (precision, recall) = (share(all.right, all.reported), share(all.found, all.planted));
    println!("{WORLDS} worlds: precision {precision:.3}, recall {recall:.3}");
    assert!(all.planted > 150, "{} planted", all.planted);
    assert!(precision >= 0.95 && recall >= 0.95, "precision {precision:.3}, recall {recall:.3}");
}
