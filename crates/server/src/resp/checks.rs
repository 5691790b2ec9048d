//! Checks that follow each other are asked for together: what memory knows is answered without waiting, and their cache
//! misses overlap.

use entourage_model::{Error, Key, Result, UserId};
use entourage_service::{CHECKS_MAX, Call, Service};
use entourage_store::Answer;

use super::{
    args::{Args, piece},
    encode::Out,
    key::{Virtual, parse, user_id},
    parse::Span,
};

/// What the reply to one command looks like.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Integer,
    Text,
    Integers(usize),
    Texts(usize),
}

/// Which end of the edges a key names.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Follower,
    Target,
}

#[derive(Debug, Default)]
pub(super) struct Checks {
    pairs: Vec<(Key, Key)>,
    /// The ids of each pair, for when memory does not know.
    ids: Vec<[Span; 2]>,
    shapes: Vec<Shape>,
    found: Vec<Answer>,
}

impl Checks {
    pub(super) fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// `SISMEMBER`. False if this is none that can be answered so.
    pub(super) fn member(&mut self, service: &Service, args: Args<'_>) -> bool {
        self.members_as(service, args, Shape::Integer)
    }

    /// `SMISMEMBER`.
    pub(super) fn members(&mut self, service: &Service, args: Args<'_>) -> bool {
        self.members_as(service, args, Shape::Integers(args.len() - 2))
    }

    fn members_as(&mut self, service: &Service, args: Args<'_>, shape: Shape) -> bool {
        if !self.has_room(args.len() - 2) {
            return false;
        }
        let (owner, id) = match parse(args.get(1)) {
            Ok(Virtual::Following(id)) => (Owner::Follower, id),
            Ok(Virtual::Followers(id)) => (Owner::Target, id),
            _ => return false,
        };
        let Ok(key) = service.key_of(id) else { return false };
        let id = args.tail(1, id.len());
        let before = self.pairs.len();
        self.pairs.reserve(args.len());
        self.ids.reserve(args.len());
        for index in 2..args.len() {
            let member = args.get(index);
            let Ok(other) = service.key_of(member) else { return self.forget(before) };
            let member = args.tail(index, member.len());
            let (pair, ids) = match owner {
                Owner::Follower => ((key, other), [id, member]),
                Owner::Target => ((other, key), [member, id]),
            };
            self.pairs.push(pair);
            self.ids.push(ids);
        }
        self.shape(shape)
    }

    /// `GET is_following:…`.
    pub(super) fn value(&mut self, service: &Service, args: Args<'_>) -> bool {
        self.has_room(1) && self.add_value(service, args, 1).is_some() && self.shape(Shape::Text)
    }

    /// `MGET is_following:… …`.
    pub(super) fn values(&mut self, service: &Service, args: Args<'_>) -> bool {
        let count = args.len() - 1;
        if !self.has_room(count) {
            return false;
        }
        let before = self.pairs.len();
        for index in 1..args.len() {
            if self.add_value(service, args, index).is_none() {
                return self.forget(before);
            }
        }
        self.shape(Shape::Texts(count))
    }

    fn has_room(&self, count: usize) -> bool {
        self.pairs.len() + count <= CHECKS_MAX
    }

    fn shape(&mut self, shape: Shape) -> bool {
        self.shapes.push(shape);
        true
    }

    fn forget(&mut self, after: usize) -> bool {
        self.pairs.truncate(after);
        self.ids.truncate(after);
        false
    }

    fn add_value(&mut self, service: &Service, args: Args<'_>, index: usize) -> Option<()> {
        let Ok(Virtual::IsFollowing(follower, target)) = parse(args.get(index)) else { return None };
        self.pairs.push((service.key_of(follower).ok()?, service.key_of(target).ok()?));
        let end = args.tail(index, target.len());
        let colon = end.start - 1;
        self.ids.push([Span { start: colon - follower.len() as u32, end: colon }, end]);
        Some(())
    }

    /// Answers from memory. False if it does not know all of it.
    pub(super) fn answer_now(&mut self, service: &Service, out: &mut Out) -> bool {
        self.found.clear();
        service.peek_follows(&self.pairs, &mut self.found);
        if self.found.contains(&Answer::Unknown) {
            return false;
        }
        self.encode(out);
        true
    }

    /// Answers what `answer_now` did not, or everything when it was not asked. `bytes` are those the spans are of.
    pub(super) async fn answer(&mut self, service: &Service, call: &Call, bytes: &[u8], out: &mut Out) {
        self.found.resize(self.pairs.len(), Answer::Unknown);
        match self.ask(service, call, bytes).await {
            Ok(()) => self.encode(out),
            Err(error) => self.give_up(&error, out),
        }
    }

    /// The same answer for each.
    pub(super) fn give_up(&mut self, error: &Error, out: &mut Out) {
        for _ in &self.shapes {
            out.refusal(error);
        }
        self.clear();
    }

    async fn ask(&mut self, service: &Service, call: &Call, bytes: &[u8]) -> Result<()> {
        let mut asked: Vec<[UserId; 2]> = Vec::new();
        for (ids, found) in self.ids.iter().zip(&self.found) {
            if *found == Answer::Unknown {
                let [follower, target] = ids.map(|span| user_id(piece(bytes, span)));
                asked.push([follower?, target?]);
            }
        }
        let pairs: Vec<(&UserId, &UserId)> = asked.iter().map(|[follower, target]| (follower, target)).collect();
        let mut answers = service.checks(call, &pairs).await?.into_iter();
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
        for shape in &self.shapes {
            match *shape {
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
        self.ids.clear();
        self.shapes.clear();
        self.found.clear();
    }
}
