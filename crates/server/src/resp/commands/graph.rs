//! `EG.FOLLOW EG.UNFOLLOW EG.RELATION EG.LIST EG.AS EG.TOKEN`.

use entourage_model::{Code, Error, Side, UserId};
use entourage_service::{Actor, BatchOperation, Call, Derived, EdgeWritten, Limit};

use super::{page, sets::Members, text};
use crate::resp::{
    args::Args,
    encode::Out,
    fail::{Done, SYNTAX},
    key::user_id,
    session::Session,
    table::{Answering, Run, commands},
    writes::{Results, Writes},
};

commands! {
    AS "EG.AS" -1 Plain None Own "[user]"
        "Acts and looks as this user from now on; an empty id is nobody, the service's view; without one: who it is, or no value"
        Run::Now(Session::act_as);
    FOLLOW "EG.FOLLOW" -3 Write None Own "follower target [QUIET | OPEN] [CHALLENGE proof]"
        "Follows; answers with `state` (`active` or `pending`), `created`, `created_at` in milliseconds, `quiet` and `version`"
        Run::Write { collect: collect_follow, alone: |session, args, out| Box::pin(session.follow(args, out)) };
    LIST "EG.LIST" -2 Read First Own "key [CURSOR cursor] [LIMIT count]"
        "A page of a list or of another set of users, newest first: the next cursor, or no value at the end, and ids each with its time in milliseconds; at most 200, 50 if not said"
        Run::Later(|session, args, out| Box::pin(session.list(args, out)));
    RELATION "EG.RELATION" 3 Read None Own "user other"
        "How one user stands to another: `following followed_by mutual requested blocking blocked_by muting quiet since`; an error when there is no such other"
        Run::Later(|session, args, out| Box::pin(session.relation(args, out)));
    TOKEN "EG.TOKEN" -1 Plain None Own "[token]"
        "The token of this connection's last write, or no value; or the one that every read from now on must not be older than, empty for none"
        Run::Now(Session::token);
    UNFOLLOW "EG.UNFOLLOW" 3 Write None Own "follower target"
        "Unfollows, and cancels a request: 1 if that changed anything"
        Run::Write { collect: collect_unfollow, alone: refuse_unfollow };
}

/// With options other than `QUIET` it is answered by itself.
fn collect_follow(writes: &mut Writes, args: Args<'_>) -> bool {
    let quiet = args.len() == 4 && args.is(3, "QUIET");
    if args.len() > 3 && !quiet {
        return false;
    }
    collect_pair(writes, args, say_next_followed, |follower, target| BatchOperation::Follow {
        follower,
        target,
        quiet: quiet.then_some(true),
    })
}

fn collect_unfollow(writes: &mut Writes, args: Args<'_>) -> bool {
    collect_pair(writes, args, say_next_unfollowed, |follower, target| BatchOperation::Unfollow { follower, target })
}

fn collect_pair(
    writes: &mut Writes,
    args: Args<'_>,
    say: fn(&mut Results, usize, &mut Out),
    operation: impl Fn(UserId, UserId) -> BatchOperation,
) -> bool {
    let (Ok(follower), Ok(target)) = (user_id(args.get(1)), user_id(args.get(2))) else { return false };
    writes.add(say, std::iter::once(Some(operation(follower, target))))
}

fn say_next_followed(results: &mut Results, _: usize, out: &mut Out) {
    match results.next() {
        Ok(edge) => say_followed(&edge, out),
        Err(error) => out.refusal(&error),
    }
}

fn say_next_unfollowed(results: &mut Results, _: usize, out: &mut Out) {
    match results.next() {
        Ok(edge) => out.flag(edge.changed),
        Err(error) => out.refusal(&error),
    }
}

fn say_followed(edge: &EdgeWritten, out: &mut Out) {
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

/// What could not be collected is invalid.
fn refuse_unfollow<'a>(_: &'a mut Session, args: Args<'a>, _: &'a mut Out) -> Answering<'a> {
    let wrong = || -> Done {
        user_id(args.get(1))?;
        user_id(args.get(2))?;
        Err(SYNTAX.into())
    };
    Box::pin(std::future::ready(wrong()))
}

impl Session {
    /// With options, or invalid: otherwise it would have been collected.
    async fn follow(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let (follower, target) = (user_id(args.get(1))?, user_id(args.get(2))?);
        let (mut quiet, mut challenge) = (None, None);
        let mut at = 3;
        while at < args.len() {
            if args.is(at, "QUIET") {
                quiet = Some(true);
            } else if args.is(at, "OPEN") {
                quiet = Some(false);
            } else if args.is(at, "CHALLENGE") && at + 1 < args.len() {
                at += 1;
                challenge = self.shared.front.access.solver(text(args.get(at)));
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        let call = Call { challenge, ..self.call.clone() };
        let written =
            self.service().graph.pipeline(&call, vec![BatchOperation::Follow { follower, target, quiet }]).await;
        self.last_token = written.token.or(self.last_token.take());
        say_followed(&Results::new(written.results).next()?, out);
        Ok(())
    }

    async fn relation(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let (of, other) = (user_id(args.get(1))?, user_id(args.get(2))?);
        let found = self.service().graph.relationships(&self.call, &of, std::slice::from_ref(&other)).await?;
        let Some(relation) = found.into_iter().next().filter(|relation| !relation.unknown) else {
            return Err(Error::new(Code::UserNotFound, "no user with the other id").into());
        };
        let flags = [
            ("following", relation.following),
            ("followed_by", relation.followed_by),
            ("mutual", relation.mutual),
            ("requested", relation.requested),
            ("blocking", relation.blocking),
            ("blocked_by", relation.blocked_by),
            ("muting", relation.muting),
            ("quiet", relation.quiet),
        ];
        out.map(flags.len() + 1);
        for (name, yes) in flags {
            out.text(name);
            out.boolean(yes);
        }
        out.text("since");
        match relation.since {
            Some(since) => out.integer(since.to_unix()),
            None => out.null(),
        }
        Ok(())
    }

    async fn list(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let of = Members::named(args.get(1))?;
        let (cursor, limit) = page(args, 2)?;
        let limit = Limit::parse(limit)?;
        let (service, call) = (self.service(), &self.call);
        let found = match &of {
            Members::List((Side::Following, id)) => service.graph.following(call, id, cursor, limit).await?,
            Members::List((Side::Followers, id)) => service.graph.followers(call, id, cursor, limit).await?,
            Members::Blocks(id) => service.graph.blocks(call, id, cursor, limit).await?,
            Members::Shared([(_, one), (Side::Following, other)]) => {
                service.graph.derived(call, Derived::CommonFollowing(one, other), cursor, limit).await?
            }
            Members::Shared([(_, id), _]) => service.graph.derived(call, Derived::Mutuals(id), cursor, limit).await?,
        };
        out.array(2);
        match &found.next_cursor {
            Some(cursor) => out.text(cursor),
            None => out.null(),
        }
        out.array(2 * found.rows.len());
        for row in &found.rows {
            out.text(row.id.as_str());
            out.integer(row.created_at.to_unix());
        }
        Ok(())
    }

    fn act_as(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        match args.len() {
            1 => match &self.call.actor {
                Actor::User(user) => out.text(user.as_str()),
                Actor::Service => out.null(),
            },
            2 => {
                let user = args.get(1);
                self.act_for(if user.is_empty() { Actor::Service } else { Actor::User(user_id(user)?) });
                out.ok();
            }
            _ => return Err(SYNTAX.into()),
        }
        Ok(())
    }

    fn token(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        match args.len() {
            1 => match &self.last_token {
                Some(token) => out.text(&self.service().graph.show_token(token)),
                None => out.null(),
            },
            2 => {
                let token = text(args.get(1));
                let token = (!args.get(1).is_empty()).then(|| token.to_owned());
                let call = Call { token, ..self.call.clone() };
                self.service().check_token(&call)?;
                self.call = call;
                out.ok();
            }
            _ => return Err(SYNTAX.into()),
        }
        Ok(())
    }
}
