//! Judges a history: what was acked is there, no answer is silently old, and nobody was refused who should not have been.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use super::history::*;

/// What a fault may do to callers.
pub(super) struct Allowed {
    /// Who may be refused while it lasts, and for as long as healing may take.
    pub(super) refusals: Box<dyn Fn(&Refusal) -> bool>,
    /// Whether somebody has to be refused: a fault that nobody notices was not there.
    pub(super) is_noticed: bool,
    /// From the fault to the first refusal.
    pub(super) noticed_within: Duration,
    pub(super) longest_refusal: Duration,
    pub(super) back_within: Duration,
    /// Whether acked writes are lost: then some have to be, only those after the cut, and their tokens are stale.
    pub(super) loses: bool,
}

#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) acked: usize,
    pub(super) lost: usize,
    pub(super) stale_answers: usize,
    /// Reads that said how old they are.
    pub(super) aged: usize,
    pub(super) refused: usize,
    pub(super) noticed: Option<Duration>,
    pub(super) longest_refusal: Duration,
    pub(super) back: Duration,
    pub(super) problems: Vec<String>,
}

/// The writes of each edge, in their order, by their places in the history.
type Places = HashMap<Edge, Vec<usize>>;

/// `stored` are the edges that PostgreSQL has in the end.
pub(super) fn judge(history: &History, moments: &Moments, allowed: &Allowed, stored: &HashSet<Edge>) -> Verdict {
    let mut places = Places::new();
    for (place, write) in history.writes.iter().enumerate() {
        places.entry(write.edge).or_default().push(place);
    }
    let mut verdict = Verdict {
        acked: history.writes.iter().filter(|write| write.is_acked()).count(),
        back: moments.back.saturating_sub(moments.healed),
        ..Verdict::default()
    };
    judge_stored(history, moments, allowed, stored, &places, &mut verdict);
    for read in history.reads.iter().chain(&history.last_reads) {
        judge_answer(history, moments, read, &places, &mut verdict);
    }
    judge_refusals(history, moments, allowed, &mut verdict);
    if verdict.back > allowed.back_within {
        verdict.problems.push(format!("back only after {:.1?}", verdict.back));
    }
    verdict
}

/// Nothing acked is lost, apart from what may be; then whoever has its token is told.
fn judge_stored(
    history: &History,
    moments: &Moments,
    allowed: &Allowed,
    stored: &HashSet<Edge>,
    places: &Places,
    verdict: &mut Verdict,
) {
    let mut lost_edges = HashSet::new();
    for (edge, places) in places {
        let last = &history.writes[places[places.len() - 1]];
        if last.is_acked() && stored.contains(edge) != last.follows {
            lost_edges.insert(*edge);
            let may_be_lost = allowed.loses && moments.cut.is_some_and(|cut| last.completed >= cut);
            if !may_be_lost {
                verdict.problems.push(format!("an acked write is lost: {last:?}"));
            }
        }
    }
    let mut stale = HashSet::new();
    for read in &history.last_reads {
        let Some((place, write)) = read.token_of.map(|place| (place, &history.writes[place])) else { continue };
        let is_last = places[&write.edge].last() == Some(&place);
        match &read.ending {
            Ending::Refused(code) if code == "stale" => {
                stale.insert(place);
                if !(allowed.loses && moments.cut.is_some_and(|cut| write.completed >= cut)) {
                    verdict.problems.push(format!("the token of a write that is there is stale: {write:?}"));
                }
            }
            Ending::Done(_) if is_last && lost_edges.contains(&write.edge) => {
                verdict.problems.push(format!("a lost write's token is answered: {read:?}"));
            }
            Ending::Done(_) => {}
            other => verdict.problems.push(format!("after healing {other:?}: {read:?}")),
        }
    }
    verdict.lost = lost_edges.len().max(stale.len());
    if allowed.loses && verdict.lost == 0 {
        verdict.problems.push("nothing was lost: this was no asynchronous failover".to_owned());
    }
}

/// An answer shows the state of a moment that it may be from: since the write of its token; without one, of the last two
/// seconds, or as far back as it says.
fn judge_answer(history: &History, moments: &Moments, read: &Read, places: &Places, verdict: &mut Verdict) {
    let check = match &read.ending {
        Ending::Done(check) => check,
        Ending::Unexpected(said) => return verdict.problems.push(format!("{said}: {read:?}")),
        Ending::Refused(_) | Ending::Unanswered => return,
    };
    verdict.aged += usize::from(check.age.is_some());
    let none = Vec::new();
    let writes = places.get(&read.edge).unwrap_or(&none);
    let base = read.token_of.or_else(|| {
        // Whole seconds: up to one more has passed.
        let age = check.age.map_or(FRESH, |age| FRESH.max(Duration::from_secs(age + 1)));
        let since = read.invoked.saturating_sub(age);
        // What was acked after the cut may be undone by the failover, without a token to tell by.
        let since = moments.cut.map_or(since, |cut| since.min(cut));
        let is_before = |place: &&usize| {
            let write = &history.writes[**place];
            write.is_acked() && write.completed <= since
        };
        writes.iter().rev().find(is_before).copied()
    });
    let mut possible: Vec<bool> = match base {
        Some(base) => vec![history.writes[base].follows],
        None => vec![false],
    };
    let later = writes.iter().filter(|place| base.is_none_or(|base| **place > base));
    possible.extend(
        later
            .map(|place| &history.writes[*place])
            .filter(|write| write.invoked < read.completed)
            .map(|write| write.follows),
    );
    if !possible.contains(&check.follows) {
        verdict.stale_answers += 1;
        verdict.problems.push(format!("silently old: {read:?}, after {:?}", base.map(|base| &history.writes[base])));
    }
}

fn judge_refusals(history: &History, moments: &Moments, allowed: &Allowed, verdict: &mut Verdict) {
    let mut refusals = Vec::new();
    for write in &history.writes {
        match &write.ending {
            Ending::Done(_) => {}
            Ending::Unexpected(said) => verdict.problems.push(format!("{said}: {write:?}")),
            Ending::Refused(_) | Ending::Unanswered => refusals.push(Refusal {
                request: Request::Write,
                server: write.server,
                edge: write.edge,
                invoked: write.invoked,
                completed: write.completed,
            }),
        }
    }
    for read in &history.reads {
        if matches!(read.ending, Ending::Refused(_) | Ending::Unanswered) {
            refusals.push(Refusal {
                request: Request::Read,
                server: read.server,
                edge: read.edge,
                invoked: read.invoked,
                completed: read.completed,
            });
        }
    }
    let until = moments.healed + allowed.back_within;
    for refusal in &refusals {
        let is_in_time = refusal.completed >= moments.injected && refusal.invoked <= until;
        if !is_in_time || !(allowed.refusals)(refusal) {
            verdict.problems.push(format!("refused without need: {refusal:?}"));
        }
    }
    verdict.refused = refusals.len();
    verdict.longest_refusal =
        refusals.iter().map(|refusal| refusal.completed.saturating_sub(refusal.invoked)).max().unwrap_or_default();
    let first = refusals.iter().map(|refusal| refusal.completed).min();
    verdict.noticed = first.map(|first| first.saturating_sub(moments.injected));
    if verdict.longest_refusal > allowed.longest_refusal {
        verdict.problems.push(format!("a refusal took {:.1?}", verdict.longest_refusal));
    }
    match verdict.noticed {
        None if allowed.is_noticed => verdict.problems.push("nobody noticed".to_owned()),
        Some(noticed) if allowed.is_noticed && noticed > allowed.noticed_within => {
            verdict.problems.push(format!("noticed only after {noticed:.1?}"));
        }
        _ => {}
    }
}
