//! One world for each kind of abuse, where it is found; and one for each kind of crowd, where nothing is.

use entourage_service::import::{Form, Import, Source};

use super::*;

/// Accounts of all ages up to three years, one in ten of them fresh.
fn mixed_age(number: u64) -> u64 {
    if number.is_multiple_of(10) { number % 7 * DAY / 2 } else { (number * 7_919) % (3 * 365) * DAY + 8 * DAY }
}

#[tokio::test]
async fn one_actor_who_follows_a_thousand_is_found() {
    let world = World::new().await;
    world.user("busy", 400 * DAY).await;
    for target in 0..1_000_u64 {
        world.user(target, mixed_age(target)).await;
    }
    world.over_time(HOUR / 2, 1_000, async |target| world.follow("busy", target).await.unwrap()).await;
    let case = world.only_case().await;
    assert_eq!((case.kind, case.state), (CaseKind::MassFollow, CaseState::Open));
    assert_eq!(ids(&case.actors), ["busy"]);
    assert!(figure(&case, "follows_in_hour") >= 900.0, "{case:?}");
    let full = world.service.abuse.get(&Call::default(), case.id).await.unwrap();
    assert!(!full.evidence.is_empty() && full.evidence.len() <= entourage_service::CASE_EVIDENCE_MAX);
    assert!(full.evidence.iter().all(|trace| trace.follower == Some(id("busy"))));
    assert!(case.first_seen <= case.last_seen);
}

#[tokio::test]
async fn a_thousand_fresh_accounts_on_one_target_are_found() {
    let world = World::new().await;
    world.user("target", 100 * DAY).await;
    for fresh in 0..1_000_u64 {
        world.user(fresh, fresh % 48 * HOUR).await;
    }
    assert!(!world.service.abuse.open_surge(entourage_model::Key(7)));
    world.over_time(HOUR / 2, 1_000, async |fresh| world.follow(fresh, "target").await.unwrap()).await;
    let case = world.only_case().await;
    assert_eq!((case.kind, ids(&case.targets)), (CaseKind::Surge, vec!["target".to_owned()]));
    assert!(figure(&case, "fresh_percent") > 99.0 && case.actors.len() >= 200, "{case:?}");
}

/// The room that quarantine asks.
#[tokio::test]
async fn a_surge_is_known_by_its_target_while_its_case_is_open() {
    let world = World::new().await;
    world.user(5_000, 100 * DAY).await;
    let target = entourage_model::Key(5_000);
    for fresh in 0..300_u64 {
        world.user(fresh, HOUR).await;
        world.follow(fresh, 5_000).await.unwrap();
    }
    let case = world.only_case().await;
    assert!(world.service.abuse.open_surge(target) && !world.service.abuse.open_surge(entourage_model::Key(1)));
    world.service.abuse.close(&Call::default(), case.id, CaseState::Dismissed).await.unwrap();
    assert!(!world.service.abuse.open_surge(target));
}

#[tokio::test]
async fn two_hundred_flips_of_one_edge_are_found() {
    let world = World::new().await;
    world.user("a", 90 * DAY).await;
    world.user("b", 90 * DAY).await;
    world
        .over_time(5 * HOUR, 200, async |_| {
            world.follow("a", "b").await.unwrap();
            world.unfollow("a", "b").await;
        })
        .await;
    let case = world.only_case().await;
    assert_eq!(
        (case.kind, ids(&case.actors), ids(&case.targets)),
        (CaseKind::PairChurn, vec!["a".into()], vec!["b".into()])
    );
    assert!(figure(&case, "flips_in_7d") >= 190.0, "{case:?}");
}

#[tokio::test]
async fn an_actor_who_follows_ten_look_alikes_is_found_by_their_names() {
    let world = World::new().await;
    for other in 0..100_u64 {
        world.named(format!("other{other}"), mixed_age(other), Some(&format!("{} Person", words(other)))).await;
    }
    world.user("fan", 90 * DAY).await;
    for other in 0..7 {
        world.follow("fan", format!("other{other}")).await.unwrap();
    }
    let names = ["Acme Support", "acme_support", "Acme Supp0rt", "ACME Support 7", "acme.support", "Acme-Support"];
    for number in 0..10_u64 {
        let name = names[number as usize % names.len()];
        world.named(format!("like{number}"), (number * 31 + 1) * DAY, Some(name)).await;
        world.follow("fan", format!("like{number}")).await.unwrap();
    }
    let case = world.only_case().await;
    assert_eq!((case.kind, ids(&case.actors)), (CaseKind::LookAlikes, vec!["fan".to_owned()]));
    assert!(figure(&case, "similar_names") >= 8.0 && case.targets.len() == 10, "{case:?}");
    // What the names are is not in the case.
    assert!(!format!("{:?}", case.figures).to_lowercase().contains("acme"));
}

#[tokio::test]
async fn an_actor_whose_last_ten_targets_registered_together_is_found() {
    let world = World::new().await;
    for other in 0..100_u64 {
        world.user(format!("other{other}"), mixed_age(other)).await;
    }
    world.user("fan", 90 * DAY).await;
    for number in 0..10_u64 {
        world.user(format!("like{number}"), 40 * DAY + number * 2 * HOUR).await;
        world.follow("fan", format!("like{number}")).await.unwrap();
    }
    let case = world.only_case().await;
    assert_eq!((case.kind, ids(&case.actors)), (CaseKind::LookAlikes, vec!["fan".to_owned()]));
    assert!(figure(&case, "registered_within_seconds") <= 24.0 * 3_600.0, "{case:?}");
}

#[tokio::test]
async fn a_flood_of_requests_is_found() {
    let world = World::new().await;
    world.user("eager", 90 * DAY).await;
    for target in 0..150_u64 {
        let registered_at = Some(Millis::from_since_2000(START - mixed_age(target)));
        let patch = UserPatch { registered_at, private: Some(true), ..UserPatch::default() };
        world.service.graph.put_user(&Call::default(), id(target), patch).await.unwrap();
        world.follow("eager", target).await.unwrap();
    }
    let case = world.only_case().await;
    assert_eq!((case.kind, ids(&case.actors)), (CaseKind::RequestFlood, vec!["eager".to_owned()]));
}

#[tokio::test]
async fn an_actor_whose_follows_do_not_last_is_found_and_one_who_tidies_up_is_not() {
    let world = World::new().await;
    world.user("churner", 90 * DAY).await;
    world.user("tidy", 900 * DAY).await;
    for target in 0..400_u64 {
        world.user(target, mixed_age(target)).await;
    }
    for target in 0..100 {
        world.follow("tidy", target).await.unwrap();
        world.clock.advance(HOUR);
    }
    world.clock.advance(100 * DAY);
    // Old follows end, all within an hour; the other ends what began yesterday.
    for target in 0..100 {
        world.unfollow("tidy", target).await;
    }
    for day in 0..4_u64 {
        for target in 0..20 {
            world.follow("churner", day * 20 + target).await.unwrap();
            world.clock.advance(10 * MINUTE);
        }
        for target in 0..20 {
            world.unfollow("churner", day * 20 + target).await;
            world.clock.advance(10 * MINUTE);
        }
    }
    let case = world.only_case().await;
    assert_eq!((case.kind, ids(&case.actors)), (CaseKind::FollowChurn, vec!["churner".to_owned()]));
    assert!(figure(&case, "share_percent") >= 50.0 && figure(&case, "ended_within_48h") >= 50.0, "{case:?}");
}

#[tokio::test]
async fn a_ring_of_fifty_is_found_and_so_is_one_that_follows_each_other() {
    for follows_each_other in [true, false] {
        let world = World::new().await;
        for other in 0..500_u64 {
            world.user(other, mixed_age(other)).await;
        }
        crowd(&world, 500).await;
        for member in 0..50_u64 {
            world.user(format!("ring{member}"), 30 * DAY + member * HOUR).await;
        }
        for member in 0..50_u64 {
            for other in 0..50_u64 {
                match follows_each_other {
                    true if other != member => {
                        world.follow(format!("ring{member}"), format!("ring{other}")).await.unwrap()
                    }
                    false if other < 12 => world.follow(format!("ring{member}"), 400 + other).await.unwrap(),
                    _ => {}
                }
            }
            // Something else to look like anybody.
            for other in 0..4 {
                world.follow(format!("ring{member}"), (member * 37 + other * 11) % 400).await.unwrap();
            }
            world.clock.advance(5 * MINUTE);
        }
        let found = world.service.abuse.find_clusters().await.unwrap();
        assert_eq!((found.clusters, found.users), (1, 550), "{follows_each_other}");
        let cases = world.list(None, Some(CaseKind::Cluster)).await;
        assert_eq!(cases.len(), 1);
        let members = ids(&cases[0].actors);
        assert!(members.len() >= 45 && members.iter().all(|member| member.starts_with("ring")), "{members:?}");
        // Found again, it is the same case, on the same evidence.
        world.service.abuse.find_clusters().await.unwrap();
        let again = world.list(None, Some(CaseKind::Cluster)).await;
        assert_eq!((again.len(), again[0].id, again[0].count), (1, cases[0].id, 1));
    }
}

/// Where nobody else is.
#[tokio::test]
async fn a_ring_alone_in_its_world_is_found() {
    for follows_each_other in [true, false] {
        let world = World::new().await;
        for user in 0..60_u64 {
            world.user(user, mixed_age(user)).await;
        }
        for member in 0..50_u64 {
            let targets = if follows_each_other { 0..50 } else { 50..60 };
            for target in targets.filter(|target| *target != member) {
                world.follow(member, target).await.unwrap();
            }
            world.clock.advance(MINUTE);
        }
        assert_eq!(world.service.abuse.find_clusters().await.unwrap().clusters, 1, "{follows_each_other}");
    }
}

/// People with their own taste, who also follow some that everybody follows, over weeks.
async fn crowd(world: &World, people: u64) {
    for person in 0..people {
        for number in 0..8 {
            let target = match number {
                0..3 => (person + number) % 10,
                _ => (person * 7_919 + number * 104_729) % people,
            };
            if target != person {
                world.follow(person, target).await.unwrap();
            }
        }
        world.clock.advance(30 * DAY / people);
    }
}

#[tokio::test]
async fn a_viral_moment_is_not_flagged() {
    let world = World::new().await;
    world.user("viral", 200 * DAY).await;
    for follower in 0..10_000_u64 {
        world.user(follower, mixed_age(follower)).await;
    }
    world.over_time(HOUR, 10_000, async |follower| world.follow(follower, "viral").await.unwrap()).await;
    assert_eq!(world.kinds().await, []);
}

#[tokio::test]
async fn a_popular_newcomers_first_day_is_not_flagged() {
    let world = World::new().await;
    for person in 0..5_000_u64 {
        world.user(person, mixed_age(person)).await;
    }
    world.user("newcomer", 0).await;
    world
        .over_time(DAY, 5_000, async |person| {
            world.follow(person, "newcomer").await.unwrap();
            if person.is_multiple_of(40) {
                world.follow("newcomer", person).await.unwrap();
            }
        })
        .await;
    assert_eq!(world.kinds().await, []);
}

#[tokio::test]
async fn a_mass_import_is_not_flagged_and_neither_is_who_follows_what_came() {
    let world = World::new().await;
    let mut lines = String::from("follower,target\n");
    for person in 0..3_000_u64 {
        lines += &format!("{person},star\nstar,{person}\n");
        for other in 0..5 {
            lines += &format!("{person},{}\n", person / 50 * 50 + other + 3_000);
        }
    }
    let file = scratch("import").join("edges.csv");
    std::fs::write(&file, lines).unwrap();
    let import = Import {
        sources: vec![Source::File(file)],
        form: Form::default(),
        create_users: true,
        following_max: None,
        now: Millis::from_since_2000(world.clock_now()),
    };
    let imported = import.run(&world.service.transfer, None, None, |_| {}).await.unwrap();
    assert_eq!((imported.total().edges_created, imported.total().rejected), (21_000, 0));
    // Everybody registered within a second of each other, as far as anybody knows.
    for person in 0..30_u64 {
        for other in 1..12 {
            world.follow(person, 1_000 + person * 20 + other).await.unwrap();
        }
        world.clock.advance(5 * MINUTE);
    }
    assert_eq!(world.kinds().await, []);
    assert_eq!(world.service.abuse.find_clusters().await.unwrap().clusters, 0);
}

#[tokio::test]
async fn friends_who_come_together_over_weeks_are_no_ring() {
    let world = World::new().await;
    for other in 0..400_u64 {
        world.user(other, mixed_age(other)).await;
    }
    crowd(&world, 400).await;
    for friend in 0..30_u64 {
        world.user(format!("friend{friend}"), 10 * DAY + friend * 9 * DAY).await;
    }
    for friend in 0..30_u64 {
        for other in (0..30_u64).filter(|other| *other != friend) {
            world.follow(format!("friend{friend}"), format!("friend{other}")).await.unwrap();
        }
        world.clock.advance(2 * DAY);
    }
    assert_eq!(world.service.abuse.find_clusters().await.unwrap().clusters, 0);
}

fn words(number: u64) -> String {
    let syllables = ["ka", "lo", "mi", "ne", "ru", "sa", "te", "vo", "wi", "zu", "dra", "fen"];
    let part = |shift: u64| syllables[((number * 7_919 + shift * 104_729) / (shift + 1) % 12) as usize];
    format!("{}{}{}{number}", part(0), part(1), part(2))
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("entourage-abuse-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
