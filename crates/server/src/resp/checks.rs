//! Consecutive checks are answered together: from memory without waiting, with overlapping cache misses.

use entourage_model::{Error, Key, Result, UserId};
use entourage_service::{CHECKS_MAX, Call, Service};
use entourage_store::Answer;

use super::{args::Args, encode::Out, key::user_id, parse::Span};

/// The form of a command's reply.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Integer,
    Text,
    Integers(usize),
    Texts(usize),
}

impl Shape {
    /// How many checks it has.
    const fn count(self) -> usize {
        match self {
            Self::Integer | Self::Text => 1,
            Self::Integers(count) | Self::Texts(count) => count,
        }
    }
}

/// Follower and target of one check of a command.
type Ends = for<'a> fn(Args<'a>, usize) -> [&'a [u8]; 2];

/// A command that is collected.
#[derive(Clone, Copy, Debug)]
struct Question {
    shape: Shape,
    ends: Ends,
    /// Where it begins, and how many words it has.
    base: usize,
    words: usize,
}

/// The ids of every check of these commands, parsed on demand.
fn each<'a>(
    questions: &'a [Question],
    mut words: &'a [Span],
    bytes: &'a [u8],
) -> impl Iterator<Item = impl Fn() -> [&'a [u8]; 2]> {
    questions.iter().flat_map(move |question| {
        let (own, rest) = words.split_at_checked(question.words).unwrap_or_default();
        words = rest;
        let (ends, args) = (question.ends, Args::new(bytes, question.base, own));
        (0..question.shape.count()).map(move |index| move || ends(args, index))
    })
}

#[derive(Debug, Default)]
pub(super) struct Checks {
    pairs: Vec<(Key, Key)>,
    questions: Vec<Question>,
    /// The words of all of them, for checks that memory cannot answer.
    words: Vec<Span>,
    found: Vec<Answer>,
}

impl Checks {
    pub(super) fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    /// Collects a command if all its words name pairs and there is room.
    #[inline]
    pub(super) fn add<'a>(
        &mut self,
        args: Args<'_>,
        shape: Shape,
        ends: Ends,
        words: impl ExactSizeIterator<Item = &'a [u8]>,
        pair: impl Fn(&'a [u8]) -> Option<(Key, Key)>,
    ) -> bool {
        let before = self.pairs.len();
        if before + words.len() > CHECKS_MAX {
            return false;
        }
        let mut are_pairs = true;
        self.pairs.extend(words.map(|word| {
            pair(word).unwrap_or_else(|| {
                are_pairs = false;
                (Key(0), Key(0))
            })
        }));
        if !are_pairs {
            self.pairs.truncate(before);
            return false;
        }
        let (base, spans) = args.parts();
        self.words.extend_from_slice(spans);
        self.questions.push(Question { shape, ends, base, words: spans.len() });
        true
    }

    /// Answers from memory. False if memory cannot answer everything. The spans point into `bytes`.
    pub(super) fn answer_now(&mut self, service: &Service, bytes: &[u8], out: &mut Out) -> bool {
        self.found.resize(self.pairs.len(), Answer::Unknown);
        service.graph.peek_follows(&self.pairs, each(&self.questions, &self.words, bytes), &mut self.found);
        if self.found.contains(&Answer::Unknown) {
            return false;
        }
        self.encode(out);
        true
    }

    /// Answers what `answer_now` could not, or everything if it was not called.
    pub(super) async fn answer(&mut self, service: &Service, call: &Call, bytes: &[u8], out: &mut Out) {
        self.found.resize(self.pairs.len(), Answer::Unknown);
        let began = service.begin_read(call);
        let asked = match self.ask(service, call, bytes).await {
            Ok(()) => service.confirm_read(call, began).await,
            refused => refused,
        };
        match asked {
            Ok(()) => self.encode(out),
            Err(error) => self.give_up(&error, out),
        }
    }

    /// The same error for each.
    pub(super) fn give_up(&mut self, error: &Error, out: &mut Out) {
        for _ in &self.questions {
            out.refusal(error);
        }
        self.clear();
    }

    async fn ask(&mut self, service: &Service, call: &Call, bytes: &[u8]) -> Result<()> {
        let unknown = each(&self.questions, &self.words, bytes).zip(&self.found);
        let asked = unknown.filter(|(_, found)| **found == Answer::Unknown).map(|(ids, _)| {
            let [follower, target] = ids().map(user_id);
            Ok([follower?, target?])
        });
        let asked: Vec<[UserId; 2]> = asked.collect::<Result<_>>()?;
        let pairs: Vec<(&UserId, &UserId)> = asked.iter().map(|[follower, target]| (follower, target)).collect();
        let mut answers = service.graph.checks(call, &pairs).await?.following.into_iter();
        for slot in self.found.iter_mut().filter(|slot| **slot == Answer::Unknown) {
            *slot = if answers.next() == Some(true) { Answer::Yes } else { Answer::No };
        }
        Ok(())
    }

    fn encode(&mut self, out: &mut Out) {
        let mut rest = self.found.as_slice();
        let mut next = |count: usize| {
            let (some, after) = rest.split_at_checked(count).unwrap_or_default();
            rest = after;
            some.iter().map(|found| *found == Answer::Yes)
        };
        for question in &self.questions {
            match question.shape {
                Shape::Integer => next(1).for_each(|yes| out.flag(yes)),
                Shape::Text => next(1).for_each(|yes| out.flag_text(yes)),
                Shape::Integers(count) => {
                    out.array(count);
                    out.flags(next(count));
                }
                Shape::Texts(count) => {
                    out.array(count);
                    next(count).for_each(|yes| out.flag_text(yes));
                }
            }
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.pairs.clear();
        self.questions.clear();
        self.words.clear();
        self.found.clear();
    }
}
