//! Every rule about follows, tried by every way in: a rule that one of them walks around is no rule.
//! `ENTOURAGE_SOAK=1` also tries every two rules together.

mod way;

use crate::kit::server;

use std::sync::Arc;

use entourage_service::{Limits, Rules};
use entourage_store::Store;
use server::{Server, memory_store};
use way::{Asked, Way};

/// A rule that says no.
struct Rule {
    name: &'static str,
    rules: Rules,
    /// What was there before, as requests of a service.
    before: &'static [&'static str],
    asked: Asked,
    code: &'static str,
    /// What a file is told: it says what was, and is not asked for quotas.
    of_a_file: Option<&'static str>,
}

fn limited(limits: Limits) -> Rules {
    Rules { limits, ..Rules::default() }
}

fn unlimited() -> Rules {
    limited(Limits::NONE)
}

const ASKED: Asked = Asked { follower: "ann", target: "ben", quiet: None };
const FOLLOWS_CID: &str = "@ann POST /users/cid/follow";

fn rules() -> Vec<Rule> {
    let quiet = Asked { quiet: Some(true), ..ASKED };
    let rule = |name, code| Rule { name, rules: unlimited(), before: &[], asked: ASKED, code, of_a_file: Some(code) };
    vec![
        Rule { asked: Asked { target: "ann", ..ASKED }, ..rule("nobody follows themselves", "self_follow") },
        Rule { before: &["PUT /users/ann/blocks/ben"], ..rule("who blocks does not follow", "blocked") },
        Rule { before: &["PUT /users/ben/blocks/ann"], ..rule("who is blocked does not follow", "blocked") },
        Rule {
            asked: Asked { target: "nobody", ..ASKED },
            of_a_file: None,
            ..rule("nobody is followed who is not there", "user_not_found")
        },
        Rule {
            asked: Asked { follower: "nobody", ..ASKED },
            of_a_file: None,
            ..rule("nobody follows who is not there", "actor_not_found")
        },
        Rule {
            before: &[r#"PATCH /users/ben {"private": true}"#],
            asked: quiet,
            of_a_file: None,
            ..rule("nobody follows a private account quietly", "quiet_private")
        },
        Rule {
            before: &["PUT /admin/users/ann/suspend"],
            of_a_file: None,
            ..rule("who is suspended does not follow", "follow_suspended")
        },
        Rule {
            rules: Rules { following_max: Some(1), ..unlimited() },
            before: &[FOLLOWS_CID],
            of_a_file: None,
            ..rule("nobody follows more than the bound", "following_limit")
        },
        Rule {
            rules: limited(Limits { follows_per_hour: 1, follow_burst: 1, ..Limits::NONE }),
            before: &[FOLLOWS_CID],
            of_a_file: None,
            ..rule("nobody follows too many in an hour", "rate_limited")
        },
        Rule {
            rules: limited(Limits { follows_per_target_per_minute: 1, ..Limits::NONE }),
            before: &["@cid POST /users/ben/follow"],
            of_a_file: None,
            ..rule("nobody is followed by too many in a minute", "rate_limited")
        },
        Rule {
            rules: limited(Limits { flips_per_day: 1, ..Limits::NONE }),
            before: &["@ann POST /users/ben/follow", "@ann DELETE /users/ben/follow"],
            of_a_file: None,
            ..rule("nobody follows again and again", "cooling_down")
        },
        Rule {
            rules: limited(Limits { challenge_after: 1, ..Limits::NONE }),
            before: &[FOLLOWS_CID],
            of_a_file: None,
            ..rule("who follows many solves a challenge", "challenge_required")
        },
    ]
}

fn started(rules: &Rules, before: &[&str]) -> (Server, Arc<dyn Store>) {
    let store = memory_store(1);
    let server = Server::with(Arc::clone(&store), *rules);
    for user in ["ann", "ben", "cid", "dan"] {
        server.check(&format!("PUT /users/{user}"), "201");
    }
    for request in before {
        let reply = server.ask(request);
        assert!(reply.status < 300, "{request}: {}", reply.text);
    }
    (server, store)
}

/// Two rules at once, in the order of what came before; `None` where they cannot be.
fn together(one: &Rule, other: &Rule) -> Option<(Rules, Vec<&'static str>, Asked)> {
    let rules = match (one.rules == unlimited(), other.rules == unlimited()) {
        (_, true) => one.rules,
        (true, false) => other.rules,
        (false, false) => return None,
    };
    let asked = match (one.asked == ASKED, other.asked == ASKED) {
        (_, true) => one.asked,
        (true, false) => other.asked,
        (false, false) => return None,
    };
    let mut before = one.before.to_vec();
    before.extend(other.before.iter().filter(|request| !one.before.contains(request)));
    // Whoever may not follow has not followed before.
    let (server, _) = started(&rules, &[]);
    before.iter().all(|request| server.ask(request).status < 300).then_some((rules, before, asked))
}

/// All that a refusal must leave as it is.
fn standing(server: &Server) -> String {
    let lists = ["ann", "ben", "cid"].map(|user| server.ask(&format!("GET /users/{user}/following")).text);
    let waiting = server.ask("GET /users/ben/follow-requests").text;
    let events: Vec<String> = server.ask("GET /events?limit=200").body["data"]
        .as_array()
        .unwrap()
        .iter()
        // A file that was refused was read all the same.
        .filter(|event| event["type"] != "import.finished")
        .map(|event| event["version"].to_string())
        .collect();
    format!("{lists:?} {waiting} {events:?}")
}

#[test]
fn no_way_in_walks_around_a_rule() {
    for rule in rules() {
        for way in Way::ALL {
            if rule.asked.quiet.is_some() && !way.can_be_quiet() {
                continue;
            }
            let (server, store) = started(&rule.rules, rule.before);
            let before = standing(&server);
            let said = way.follow(&server, &store, rule.asked);
            let wanted = match way {
                Way::Import => rule.of_a_file,
                // Nobody hears what it comes to.
                Way::HangUp => None,
                Way::Transaction => Some("ERR"),
                _ => Some(rule.code),
            };
            assert_eq!(said.as_deref(), wanted, "{} by {way:?}", rule.name);
            if wanted.is_some() || way == Way::HangUp {
                assert_eq!(standing(&server), before, "{} by {way:?}", rule.name);
            }
        }
    }
}

#[test]
fn two_rules_say_no_together() {
    let rules = rules();
    let is_long = std::env::var_os("ENTOURAGE_SOAK").is_some_and(|value| value == "1");
    // Each rule with the next ones, or with each.
    let reach = if is_long { rules.len() } else { 4 };
    let mut tried = 0;
    for (index, one) in rules.iter().enumerate() {
        for other in (1..reach).map(|step| &rules[(index + step) % rules.len()]) {
            let Some((limits, before, asked)) = together(one, other) else { continue };
            tried += 1;
            for way in Way::ALL {
                // A file is asked for some of the rules, and nobody hears what a hang-up comes to.
                if way == Way::Import || (asked.quiet.is_some() && !way.can_be_quiet()) {
                    continue;
                }
                let (server, store) = started(&limits, &before);
                let standing_before = standing(&server);
                let said = way.follow(&server, &store, asked);
                let is_said = match way {
                    Way::HangUp => said.is_none(),
                    Way::Transaction => said.as_deref() == Some("ERR"),
                    _ => [Some(one.code), Some(other.code)].contains(&said.as_deref()),
                };
                assert!(is_said, "{} and {} by {way:?}: {said:?}", one.name, other.name);
                assert_eq!(standing(&server), standing_before, "{} and {} by {way:?}", one.name, other.name);
            }
        }
    }
    assert!(tried > rules.len() / 2, "{tried} pairs");
}

#[test]
fn every_way_in_is_counted() {
    let rules = limited(Limits { follows_per_hour: 1, follow_burst: 1, ..Limits::NONE });
    for way in Way::ALL {
        let (server, store) = started(&rules, &[]);
        assert_eq!(
            way.follow(&server, &store, ASKED).as_deref(),
            (way == Way::Transaction).then_some("ERR"),
            "{way:?}"
        );
        let follows = server.ask("GET /users/ann/is-following/ben").body["following"] == true;
        assert_eq!(follows, way != Way::Transaction, "{way:?}");
        // What a file says was no request of ann's.
        let is_counted = !matches!(way, Way::Import | Way::Transaction);
        let expected = if is_counted { "429 rate_limited" } else { "201" };
        server.check("@ann POST /users/dan/follow", expected);
    }
}

#[test]
fn a_private_account_is_asked_whichever_way() {
    for way in Way::ALL {
        let (server, store) = started(&unlimited(), &[r#"PATCH /users/ben {"private": true}"#]);
        way.follow(&server, &store, ASKED);
        let follows = server.ask("GET /users/ann/is-following/ben").body["following"] == true;
        let waiting = server.ask("GET /users/ben/follow-requests").ids().len();
        let wanted = match way {
            // A file tells what was, it does not ask.
            Way::Import => (true, 0),
            Way::Transaction => (false, 0),
            _ => (false, 1),
        };
        assert_eq!((follows, waiting), wanted, "{way:?}");
    }
}
