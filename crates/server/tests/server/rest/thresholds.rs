//! Each limit by the name of its setting, at one below, at and one above a number, over REST; and nobody is locked out
//! once its window has passed.

use std::sync::Arc;

use entourage_model::{Clock, ManualClock, Millis, Uptime};
use entourage_server::config::{Origin, Raw, Settings};
use entourage_service::Rules;

use super::{
    credentials::Credentials,
    server::{Server, memory_store_at},
    table::Reply,
};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const PEOPLE: u32 = 12;

const LIMITS: [&str; 7] = [
    "follows_per_hour",
    "follow_burst",
    "requests_per_minute",
    "follows_per_target_per_minute",
    "following_max",
    "challenge_after",
    "flips_per_day",
];

/// A server with nothing but the limits that are named, and time that passes when it is told to.
struct Limited {
    server: Server,
    credentials: Credentials,
    passing: Arc<ManualClock>,
}

impl Limited {
    fn by(settings: &[(&str, u32)]) -> Self {
        let credentials = Credentials::new();
        let mut raw = Raw::default();
        let mut set = |name: &str, text: String| raw.set(name, text, Origin::Flag("--set")).unwrap();
        set("limits.challenge_key_file", credentials.path("challenge").display().to_string());
        for name in LIMITS {
            let given = settings.iter().find(|(given, _)| *given == name).map_or(0, |(_, value)| *value);
            set(&format!("limits.{name}"), given.to_string());
        }
        let settings = Settings::check(&raw).unwrap();
        let rules = Rules { following_max: settings.following_max, limits: settings.limits, ..Rules::default() };
        let passing = Arc::new(ManualClock::new(Millis::from_since_2000(DAY)));
        let uptime: Arc<dyn Uptime> = Arc::clone(&passing) as _;
        // The store tells when an edge ended by its own clock.
        let clock: Arc<dyn Clock> = Arc::clone(&passing) as _;
        let store = memory_store_at(1, Arc::clone(&clock));
        let server = Server::timed(clock, &uptime, credentials.front(), store, rules);
        for user in ["a".to_owned(), "star".to_owned()].into_iter().chain((0..PEOPLE).map(|number| number.to_string()))
        {
            server.check(&format!("!{} PUT /users/{user}", credentials.service_key), "201");
        }
        Self { server, credentials, passing }
    }

    fn by_service(&self, request: &str) -> Reply {
        self.server.ask(&format!("!{} {request}", self.credentials.service_key))
    }

    /// How many of a kind are taken before one is refused, and that refusal.
    fn taken(&self, most: u32, ask: impl Fn(u32) -> Reply) -> (u32, Option<Reply>) {
        for number in 0..most {
            let reply = ask(number);
            if reply.status >= 400 {
                return (number, Some(reply));
            }
        }
        (most, None)
    }

    fn follows_of_a(&self, number: u32) -> Reply {
        self.by_service(&format!("PUT /users/a/following/{number}"))
    }

    fn follows_of_star(&self, number: u32) -> Reply {
        self.by_service(&format!("PUT /users/{number}/following/star"))
    }

    fn flips(&self, _: u32) -> Reply {
        let reply = self.by_service("PUT /users/a/following/star");
        if reply.status < 400 { self.by_service("DELETE /users/a/following/star") } else { reply }
    }

    fn requests(&self, _: u32) -> Reply {
        self.server.ask(&format!("!{} GET /users/star", self.credentials.token("a")))
    }

    fn forget_follows_of_a(&self) {
        for number in 0..PEOPLE {
            self.by_service(&format!("DELETE /users/a/following/{number}"));
        }
    }
}

/// One below, at and one above: so many are taken, the next is refused, and after `Retry-After` one more is taken; after
/// the whole window, as many as at first.
fn at_each_number(
    settings: fn(u32) -> Vec<(&'static str, u32)>,
    code: &str,
    window: u64,
    ask: fn(&Limited, u32) -> Reply,
) {
    for number in [2, 3, 4] {
        let world = Limited::by(&settings(number));
        let (taken, refused) = world.taken(PEOPLE, |which| ask(&world, which));
        let refused = refused.unwrap_or_else(|| panic!("{code}: {number} is no limit"));
        assert_eq!((taken, &refused.body["code"]), (number, &code.into()), "{}", refused.text);
        if let Ok(seconds) = refused.header("retry-after").parse::<u64>() {
            world.passing.advance(seconds * 1_000 - 1_000);
            world.passing.advance(1_000);
            let again = ask(&world, taken);
            assert!(again.status < 400, "{code} {number}: refused after Retry-After: {}", again.text);
        }
        world.forget_follows_of_a();
        world.passing.advance(window);
        let (taken, _) = world.taken(PEOPLE, |which| ask(&world, which));
        assert_eq!(taken, number, "{code}: as many as at first once the window has passed");
    }
    let world = Limited::by(&settings(0));
    assert_eq!(world.taken(PEOPLE, |which| ask(&world, which)).0, PEOPLE, "{code}: 0 is no limit");
}

#[test]
fn follows_per_hour_at_each_number() {
    at_each_number(|number| vec![("follows_per_hour", number)], "rate_limited", HOUR, Limited::follows_of_a);
}

#[test]
fn follow_burst_at_each_number() {
    let settings = |number| vec![("follows_per_hour", if number > 0 { 3_600 } else { 0 }), ("follow_burst", number)];
    at_each_number(settings, "rate_limited", HOUR, Limited::follows_of_a);
}

#[test]
fn requests_per_minute_at_each_number() {
    at_each_number(|number| vec![("requests_per_minute", number)], "rate_limited", MINUTE, Limited::requests);
}

#[test]
fn challenge_after_at_each_number() {
    at_each_number(|number| vec![("challenge_after", number)], "challenge_required", HOUR, Limited::follows_of_a);
}

#[test]
fn flips_per_day_at_each_number() {
    at_each_number(|number| vec![("flips_per_day", number)], "cooling_down", DAY, Limited::flips);
}

#[test]
fn follows_per_target_per_minute_at_each_number() {
    for number in [2, 3, 4] {
        let world = Limited::by(&[("follows_per_target_per_minute", number)]);
        let (taken, refused) = world.taken(PEOPLE, |which| world.follows_of_star(which));
        assert_eq!((taken, &refused.unwrap().body["code"]), (number, &"rate_limited".into()));
        // Another target has a quota of its own.
        assert_eq!(world.follows_of_a(0).status, 201);
        world.passing.advance(MINUTE);
        let (taken, _) = world.taken(PEOPLE - number, |which| world.follows_of_star(number + which));
        assert_eq!(taken, number, "as many as at first once the window has passed");
    }
    let world = Limited::by(&[]);
    assert_eq!(world.taken(PEOPLE, |which| world.follows_of_star(which)).0, PEOPLE, "0 is no limit");
}

#[test]
fn following_max_at_each_number() {
    for number in [2, 3, 4] {
        let world = Limited::by(&[("following_max", number)]);
        let (taken, refused) = world.taken(PEOPLE, |which| world.follows_of_a(which));
        assert_eq!((taken, &refused.unwrap().body["code"]), (number, &"following_limit".into()));
        // What is there is there; whoever lets one go may follow another.
        assert_eq!(world.follows_of_a(0).status, 200);
        world.by_service("DELETE /users/a/following/0");
        assert_eq!(world.follows_of_a(number).status, 201);
        assert_eq!(world.follows_of_a(number + 1).status, 422);
    }
    let world = Limited::by(&[]);
    assert_eq!(world.taken(PEOPLE, |which| world.follows_of_a(which)).0, PEOPLE, "0 is no bound");
}

/// A counter that was raised and never told when to end would refuse for good.
#[test]
fn nobody_is_locked_out_for_good_however_often_they_were_refused() {
    let world =
        Limited::by(&[("follows_per_hour", 3), ("requests_per_minute", 3), ("follows_per_target_per_minute", 3)]);
    for _ in 0..10 {
        let (taken, _) = world.taken(PEOPLE, |which| world.follows_of_a(which));
        assert_eq!(taken, 3);
        for _ in 0..50 {
            assert_eq!(world.follows_of_a(PEOPLE - 1).status, 429);
            world.requests(0);
        }
        assert_eq!(world.requests(0).status, 429);
        world.forget_follows_of_a();
        world.passing.advance(HOUR);
        assert_eq!(world.requests(0).status, 200);
    }
}
