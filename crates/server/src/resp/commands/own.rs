//! `EG.FOLLOW EG.UNFOLLOW EG.RELATION EG.LIST EG.AS EG.TOKEN`.

use entourage_model::{Code, Error, Side};
use entourage_service::{Actor, BatchOperation, Call, Limit};

use super::{members::Members, page, text};
use crate::resp::{
    args::Args,
    encode::Out,
    fail::{Done, SYNTAX},
    key::user_id,
    session::Session,
    writes::followed,
};

impl Session {
    /// With what sets it apart from others, or with something wrong: else it would have been collected.
    pub(super) async fn follow(&mut self, args: Args<'_>, out: &mut Out) -> Done {
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
        let written = self.service().pipeline(&call, vec![BatchOperation::Follow { follower, target, quiet }]).await;
        self.last_token = written.token.or(self.last_token.take());
        let result = written.results.into_iter().next();
        followed(&result.unwrap_or_else(|| Err(Error::internal("a write has no result")))?, out);
        Ok(())
    }

    /// What could not be collected has something wrong with it.
    pub(super) fn no_unfollow(&self, args: Args<'_>) -> Done {
        user_id(args.get(1))?;
        user_id(args.get(2))?;
        Err(SYNTAX.into())
    }

    pub(super) async fn relation(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let (of, other) = (user_id(args.get(1))?, user_id(args.get(2))?);
        let found = self.service().relationships(&self.call, &of, std::slice::from_ref(&other)).await?;
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

    pub(super) async fn list(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let of = Members::named(args.get(1))?;
        let (cursor, limit) = page(args, 2)?;
        let limit = Limit::parse(limit)?;
        let (service, call) = (self.service(), &self.call);
        let found = match &of {
            Members::List((Side::Following, id)) => service.following(call, id, cursor, limit).await?,
            Members::List((Side::Followers, id)) => service.followers(call, id, cursor, limit).await?,
            Members::Blocks(id) => service.blocks(call, id, cursor, limit).await?,
            Members::Shared([(_, one), (Side::Following, other)]) => {
                service.common_following(call, one, other, cursor, limit).await?
            }
            Members::Shared([(_, id), _]) => service.mutuals(call, id, cursor, limit).await?,
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

    pub(super) fn act_as(&mut self, args: Args<'_>, out: &mut Out) -> Done {
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

    pub(super) fn token(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        match args.len() {
            1 => match &self.last_token {
                Some(token) => out.text(&self.service().show_token(token)),
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
