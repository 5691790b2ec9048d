//! Writes that follow each other are under way together, so that one sync covers them; replies come in their order.

use entourage_model::{Error, Token};
use entourage_service::{BATCH_MAX, BatchOperation, Call, EdgeWritten, Service};

use super::{
    args::Args,
    encode::Out,
    key::{Virtual, parse, user_id},
    verb::Verb,
};

#[derive(Clone, Copy, Debug)]
enum Shape {
    Members(usize),
    Followed,
    Unfollowed,
}

#[derive(Debug, Default)]
pub(super) struct Writes {
    operations: Vec<BatchOperation>,
    shapes: Vec<Shape>,
}

impl Writes {
    pub(super) fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// False if this is none that can be taken with the others.
    pub(super) fn add(&mut self, verb: Verb, args: Args<'_>) -> bool {
        let before = self.operations.len();
        let added = match verb {
            Verb::SAdd | Verb::SRem => self.members(verb, args),
            Verb::Follow => self.pair(args, verb, args.len() == 4 && args.is(3, "QUIET")),
            Verb::Unfollow => self.pair(args, verb, false),
            _ => None,
        };
        match added {
            Some(shape) => self.shapes.push(shape),
            None => self.operations.truncate(before),
        }
        added.is_some()
    }

    fn members(&mut self, verb: Verb, args: Args<'_>) -> Option<Shape> {
        let count = args.len() - 2;
        let Ok(Virtual::Following(follower)) = parse(args.get(1)) else { return None };
        if self.operations.len() + count > BATCH_MAX {
            return None;
        }
        let follower = user_id(follower).ok()?;
        for member in args.rest(2) {
            let (follower, target) = (follower.clone(), user_id(member).ok()?);
            self.operations.push(match verb {
                Verb::SAdd => BatchOperation::Follow { follower, target, quiet: None },
                _ => BatchOperation::Unfollow { follower, target },
            });
        }
        Some(Shape::Members(count))
    }

    fn pair(&mut self, args: Args<'_>, verb: Verb, quiet: bool) -> Option<Shape> {
        if self.operations.len() == BATCH_MAX || (args.len() > 3 && !quiet) {
            return None;
        }
        let (follower, target) = (user_id(args.get(1)).ok()?, user_id(args.get(2)).ok()?);
        let (operation, shape) = match verb {
            Verb::Follow => {
                (BatchOperation::Follow { follower, target, quiet: quiet.then_some(true) }, Shape::Followed)
            }
            _ => (BatchOperation::Unfollow { follower, target }, Shape::Unfollowed),
        };
        self.operations.push(operation);
        Some(shape)
    }

    /// The token of the last of them, if any was applied.
    pub(super) async fn answer(&mut self, service: &Service, call: &Call, out: &mut Out) -> Option<Token> {
        let operations = std::mem::take(&mut self.operations);
        let written = service.pipeline(call, operations).await;
        let mut results = written.results.into_iter();
        for shape in self.shapes.drain(..) {
            match shape {
                Shape::Members(count) => members(&mut results, count, out),
                Shape::Followed => match next(&mut results) {
                    Ok(edge) => followed(&edge, out),
                    Err(error) => out.refusal(&error),
                },
                Shape::Unfollowed => match next(&mut results) {
                    Ok(edge) => out.flag(edge.changed),
                    Err(error) => out.refusal(&error),
                },
            }
        }
        written.token
    }

    /// No answer came in time: each is told so, and that nobody knows what came of it.
    pub(super) fn give_up(&mut self, error: &Error, out: &mut Out) {
        self.operations.clear();
        for _ in self.shapes.drain(..) {
            out.refusal(error);
        }
    }
}

type Written = entourage_model::Result<EdgeWritten>;

fn next(results: &mut impl Iterator<Item = Written>) -> Written {
    results.next().unwrap_or_else(|| Err(Error::internal("a write has no result")))
}

fn members(results: &mut impl Iterator<Item = Written>, count: usize, out: &mut Out) {
    let (mut changed, mut applied, mut refused) = (0, 0, None);
    for _ in 0..count {
        match next(results) {
            Ok(edge) => {
                applied += 1;
                // As of a set: a request is in no list before it is accepted.
                changed += usize::from(edge.listed);
            }
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        None => out.count(changed),
        Some(error) => out.refusal(&with_detail(&error, &format!("{applied} of {count} applied"))),
    }
}

fn with_detail(error: &Error, more: &str) -> Error {
    let fuller = Error::new(error.code(), format!("{}; {more}", error.detail()));
    match error.retry_delay() {
        Some(delay) => fuller.retry_after(delay),
        None => fuller,
    }
}

pub(super) fn followed(edge: &EdgeWritten, out: &mut Out) {
    let Some(value) = edge.edge else { return out.refusal(&Error::internal("a follow left no edge")) };
    out.map(5);
    out.text("state");
    out.text(value.state.as_str());
    out.text("created");
    out.boolean(edge.created);
    out.text("created_at");
    out.integer(value.position.millis().to_unix());
    out.text("quiet");
    out.boolean(value.quiet);
    out.text("version");
    out.text(&value.version.to_string());
}
