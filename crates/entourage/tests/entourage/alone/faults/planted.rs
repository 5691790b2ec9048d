//! Histories with a lie in them: the judge finds each, and nothing in the honest one.

use std::{collections::HashSet, time::Duration};

use super::{history::*, judge::*};

const EDGE: Edge = Edge { follower: 1, target: 2 };

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn write(follows: bool, invoked: u64, ending: Ending<String>) -> Write {
    let (invoked, completed) = (at(invoked), at(invoked + 10));
    Write { server: 0, edge: EDGE, follows, invoked, completed, ending }
}

fn acked(follows: bool, invoked: u64) -> Write {
    write(follows, invoked, Ending::Done("token".to_owned()))
}

fn read(token_of: Option<usize>, invoked: u64, ending: Ending<Check>) -> Read {
    Read { server: 1, edge: EDGE, token_of, invoked: at(invoked), completed: at(invoked + 10), ending }
}

fn answer(follows: bool) -> Ending<Check> {
    Ending::Done(Check { follows, age: None })
}

fn aged(follows: bool, age: u64) -> Ending<Check> {
    Ending::Done(Check { follows, age: Some(age) })
}

fn refused(code: &str) -> Ending<Check> {
    Ending::Refused(code.to_owned())
}

fn allowed(loses: bool) -> Allowed {
    Allowed {
        refusals: Box::new(|refusal| refusal.request == Request::Read || refusal.server == 0),
        is_noticed: false,
        noticed_within: at(1_000),
        longest_refusal: at(1_000),
        back_within: at(1_000),
        loses,
    }
}

/// The fault is there from 5 s to 10 s.
fn moments(cut: Option<u64>) -> Moments {
    Moments { injected: at(5_000), healed: at(10_000), back: at(10_100), cut: cut.map(at) }
}

/// Follows, unfollows during the fault, and reads both on the other server.
fn honest() -> History {
    History {
        writes: vec![
            acked(true, 1_000),
            write(false, 6_000, Ending::Refused("unavailable".to_owned())),
            acked(false, 6_100),
        ],
        reads: vec![
            read(Some(0), 1_020, answer(true)),
            read(None, 6_050, answer(true)),
            read(Some(2), 6_200, refused("stale")),
        ],
        last_reads: vec![read(Some(2), 11_000, answer(false))],
    }
}

fn problems(history: &History, moments: &Moments, allowed: &Allowed, stored: &[Edge]) -> Vec<String> {
    judge(history, moments, allowed, &stored.iter().copied().collect::<HashSet<_>>()).problems
}

fn finds(history: &History, stored: &[Edge], what: &str) {
    let found = problems(history, &moments(None), &allowed(false), stored);
    assert!(found.iter().any(|problem| problem.contains(what)), "{what}: {found:?}");
}

#[test]
fn an_honest_history_has_no_problems() {
    let verdict = judge(&honest(), &moments(None), &allowed(false), &HashSet::new());
    assert_eq!(verdict.problems, Vec::<String>::new());
    assert_eq!((verdict.acked, verdict.lost, verdict.stale_answers, verdict.refused), (2, 0, 0, 2));
}

#[test]
fn a_lost_ack_is_found() {
    finds(&honest(), &[EDGE], "an acked write is lost");
    let history = History { writes: vec![acked(true, 1_000)], ..History::default() };
    finds(&history, &[], "an acked write is lost");
}

#[test]
fn an_old_answer_is_found() {
    let with = |read: Read| History { reads: vec![read], ..honest() };
    // With a token, however soon; without one, past two seconds; with an age, past that age.
    finds(&with(read(Some(2), 6_120, answer(true))), &[], "silently old");
    finds(&with(read(None, 8_200, answer(true))), &[], "silently old");
    finds(&with(read(None, 9_200, aged(true, 1))), &[], "silently old");
    for fine in [read(None, 8_050, answer(true)), read(None, 9_200, aged(true, 3)), read(Some(0), 9_200, answer(false))]
    {
        assert_eq!(problems(&with(fine), &moments(None), &allowed(false), &[]), Vec::<String>::new());
    }
    let last = History { last_reads: vec![read(Some(2), 11_000, answer(true))], ..honest() };
    finds(&last, &[], "silently old");
}

#[test]
fn refusals_at_the_wrong_time_or_place_are_found() {
    let with = |read: Read| History { reads: vec![read], ..honest() };
    finds(&with(read(None, 4_000, refused("unavailable"))), &[], "refused without need");
    finds(&with(read(None, 11_500, refused("unavailable"))), &[], "refused without need");
    let mut history = honest();
    history.writes[1].server = 1;
    finds(&history, &[], "refused without need");
    history.writes[1] = write(false, 6_000, Ending::Unexpected("500 internal".to_owned()));
    finds(&history, &[], "500 internal");
    finds(&with(read(None, 6_000, Ending::Unexpected("404".to_owned()))), &[], "404");
    let mut history = honest();
    history.writes[1].completed = at(7_500);
    finds(&history, &[], "a refusal took");
    for last in [refused("unavailable"), Ending::Unanswered] {
        let history = History { last_reads: vec![read(Some(2), 11_000, last)], ..honest() };
        finds(&history, &[], "after healing");
    }
}

#[test]
fn a_fault_that_nobody_notices_or_that_heals_too_late_is_found() {
    let noticed = |within| Allowed { is_noticed: true, noticed_within: at(within), ..allowed(false) };
    assert_eq!(problems(&honest(), &moments(None), &noticed(1_100), &[]), Vec::<String>::new());
    assert_eq!(problems(&honest(), &moments(None), &noticed(900), &[]).len(), 1);
    let quiet = History { writes: vec![acked(true, 1_000)], ..History::default() };
    assert_eq!(problems(&quiet, &moments(None), &noticed(900), &[EDGE]), ["nobody noticed"]);
    let late = Moments { back: at(12_000), ..moments(None) };
    assert_eq!(problems(&honest(), &late, &allowed(false), &[]).len(), 1);
}

#[test]
fn what_an_asynchronous_failover_lost_is_stale_and_nothing_else_is() {
    let lossy = |last: Ending<Check>| History {
        writes: vec![acked(true, 1_000), acked(false, 6_000)],
        reads: vec![read(None, 9_500, answer(true))],
        last_reads: vec![read(Some(0), 11_000, answer(true)), read(Some(1), 11_000, last)],
    };
    let judged = |history: &History, cut| problems(history, &moments(Some(cut)), &allowed(true), &[EDGE]);
    assert_eq!(judged(&lossy(refused("stale")), 5_500), Vec::<String>::new());
    // It is not told; it was acked before the cut; a write that is there is refused; nothing is lost at all.
    let told = judged(&lossy(answer(false)), 5_500);
    assert!(told.iter().any(|problem| problem.contains("a lost write's token is answered")), "{told:?}");
    let old = judged(&lossy(answer(true)), 5_500);
    assert!(old.iter().any(|problem| problem.contains("silently old")), "{old:?}");
    let early = judged(&lossy(refused("stale")), 7_000);
    assert!(early.iter().any(|problem| problem.contains("an acked write is lost")), "{early:?}");
    let mut history = lossy(refused("stale"));
    history.last_reads[0].ending = refused("stale");
    assert!(judged(&history, 5_500).iter().any(|problem| problem.contains("that is there is stale")));
    let kept = History {
        last_reads: vec![read(Some(0), 11_000, answer(true))],
        writes: vec![acked(true, 1_000)],
        ..History::default()
    };
    assert!(judged(&kept, 5_500).iter().any(|problem| problem.contains("nothing was lost")));
}
