//! `LRANGE suggestions:{u}` and `EG.SUGGEST`.

use entourage_model::UserId;
use entourage_service::{Reason, SUGGESTIONS_MAX, parse_suggestion_limit};

use super::{integer, or_missing, page};
use crate::resp::{
    args::Args,
    encode::Out,
    fail::{Done, SYNTAX},
    key::{NoKey, Virtual, parse, user_id},
    session::Session,
    table::{Run, commands},
};

commands! {
    LRANGE "LRANGE" 4 Read First Lists "key start stop"
        "Whom somebody may want to follow, from one place to another, both included: 0 is the best, -1 the last; there are 50 at most"
        Run::Later(|session, args, out| Box::pin(session.list_range(args, out)));
    SUGGEST "EG.SUGGEST" -2 Read None Own "user [LIMIT count]"
        "Whom a user may want to follow, best first, each an array of id, reason (`followed_by`, `imported`, `signal`, `follows_you` or `popular`), how many of those whom the user follows follow them, and ids of some of those. At most 50"
        Run::Later(|session, args, out| Box::pin(session.suggest(args, out)));
}

impl Session {
    async fn list_range(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let Virtual::Suggestions(id) = parse(args.get(1))? else { return Err(NoKey::WrongType.into()) };
        let (start, stop) = (integer(args.get(2))?, integer(args.get(3))?);
        // From the end only if a place counts from there.
        let limit =
            usize::try_from(stop).ok().filter(|_| start >= 0).map_or(SUGGESTIONS_MAX, |stop| stop.saturating_add(1));
        let ids = or_missing(self.suggested(id, limit.min(SUGGESTIONS_MAX)).await)?;
        let shown = between(&ids, start, stop);
        out.array(shown.len());
        shown.iter().for_each(|id| out.text(id.as_str()));
        Ok(())
    }

    async fn suggest(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let user = user_id(args.get(1))?;
        let (None, limit) = page(args, 2)? else { return Err(SYNTAX.into()) };
        let limit = parse_suggestion_limit(limit)?;
        let found = self.service().suggestions.suggestions(&self.call, &user, None, limit).await?;
        out.array(found.len());
        for suggestion in &found {
            out.array(4);
            out.text(suggestion.person.id.as_str());
            let (reason, common, people) = match &suggestion.reason {
                Reason::FollowedBy { common, people } => ("followed_by", *common, people.as_slice()),
                Reason::Imported => ("imported", 0, &[][..]),
                Reason::Signal => ("signal", 0, &[][..]),
                Reason::FollowsYou => ("follows_you", 0, &[][..]),
                Reason::Popular => ("popular", 0, &[][..]),
            };
            out.text(reason);
            out.integer(i64::from(common));
            out.array(people.len());
            people.iter().for_each(|person| out.text(person.id.as_str()));
        }
        Ok(())
    }

    /// The best `limit`.
    pub(super) async fn suggested(&self, id: &[u8], limit: usize) -> Done<Vec<UserId>> {
        Ok(self.service().suggestions.suggested_ids(&self.call, &user_id(id)?, limit).await?)
    }
}

/// From one place to another, the ends included, as Redis counts them.
fn between(ids: &[UserId], start: i64, stop: i64) -> &[UserId] {
    let length = ids.len() as i64;
    let place = |place: i64| if place < 0 { (length + place).max(-1) } else { place.min(length) };
    let (start, stop) = (place(start).max(0), place(stop).min(length - 1));
    match (usize::try_from(start), usize::try_from(stop)) {
        (Ok(start), Ok(stop)) => ids.get(start..=stop).unwrap_or_default(),
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_both_ends() {
        let ids: Vec<UserId> = (0..4).map(UserId::from).collect();
        let range = |start, stop| between(&ids, start, stop).iter().map(|id| id.as_str()).collect::<String>();
        assert_eq!(range(0, -1), "0123");
        assert_eq!(range(1, 2), "12");
        assert_eq!(range(-2, -1), "23");
        assert_eq!(range(-9, 0), "0");
        assert_eq!(range(2, 99), "23");
        for (start, stop) in [(4, 9), (2, 1), (0, -9), (-1, -2), (i64::MAX, i64::MAX), (i64::MIN, i64::MIN)] {
            assert_eq!(range(start, stop), "", "{start} {stop}");
        }
        assert_eq!(between(&[], 0, -1), []);
    }
}
