//! Lies about replies, which the history must reveal, and missing replies, which it must accept.

use entourage_model::{Change, Code, Error, Outcome, Reply, Result as Answer, Version};

use super::{clients::Lie, run::run_with};
use entourage_memory::partitioned::engine::{NOT_WRITTEN, unknown};

const SEEDS: u64 = 30;

fn is_edge(outcome: &Outcome, changed: bool) -> bool {
    let is_edge = matches!(outcome.changes.first(), Some(Change::Edge(_)));
    !outcome.replayed && outcome.reply.changed() == changed && (is_edge || !changed)
}

fn lie_if(result: &mut Answer<Outcome>, fits: impl Fn(&Outcome) -> bool, lie: impl Fn(&mut Outcome)) -> bool {
    let Ok(outcome) = result else { return false };
    let is_told = fits(outcome);
    if is_told {
        lie(outcome);
    }
    is_told
}

fn say(result: &mut Answer<Outcome>, error: Error) -> bool {
    let is_told = result.as_ref().is_ok_and(|outcome| is_edge(outcome, true));
    if is_told {
        *result = Err(error);
    }
    is_told
}

/// How many of the seeds tell the lie, and in how many it is found.
fn told_and_found(lie: Lie) -> (usize, usize) {
    let (mut told, mut found) = (0, 0);
    for seed in 0..SEEDS {
        match run_with(seed, None, Some(lie)) {
            Ok((_, is_left)) => told += usize::from(!is_left),
            Err(_) => (told, found) = (told + 1, found + 1),
        }
    }
    (told, found)
}

#[test]
fn lies_are_noticed() {
    let lies: [(&str, Lie); 7] = [
        ("a change that was never made", |result| {
            lie_if(
                result,
                |outcome| is_edge(outcome, true),
                |outcome| {
                    if let Some(Change::Edge(edge)) = outcome.changes.first_mut() {
                        edge.after.version = Version::from_bits(edge.after.version.bits() - 1);
                    }
                },
            )
        }),
        ("one that was there before", |result| {
            let is_found = |outcome: &Outcome| matches!(outcome.reply, Reply::Edge { changed: false, .. });
            lie_if(
                result,
                |outcome| is_edge(outcome, false) && is_found(outcome),
                |outcome| {
                    if let Reply::Edge { changed, .. } = &mut outcome.reply {
                        *changed = true;
                    }
                },
            )
        }),
        ("nothing was there to remove", |result| {
            lie_if(
                result,
                |outcome| is_edge(outcome, true) && outcome.reply == Reply::Gone { changed: true },
                |outcome| {
                    outcome.reply = Reply::Gone { changed: false };
                },
            )
        }),
        ("a block that never was", |result| say(result, Error::new(Code::Blocked, "one blocks the other"))),
        ("a refusal that nothing explains", |result| say(result, Error::new(Code::RateLimited, "too fast"))),
        ("not written, and it was", |result| say(result, Error::unavailable(NOT_WRITTEN))),
        ("a replay of another reply", |result| {
            lie_if(
                result,
                |outcome| outcome.replayed && outcome.reply.changed(),
                |outcome| {
                    outcome.reply =
                        Reply::Record { version: outcome.version, created: true, changed: true, owner: None };
                },
            )
        }),
    ];
    for (name, lie) in lies {
        let (told, found) = told_and_found(lie);
        println!("{name}: told {told} times, found {found} times");
        assert!(found > 0, "{name} was believed {told} times");
    }
}

#[test]
fn silence_is_forgiven() {
    let (told, found) = told_and_found(|result| say(result, unknown()));
    assert!(told > 0 && found == 0, "of {told} silent answers {found} were taken for lies");
}
