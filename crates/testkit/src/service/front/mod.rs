//! The service itself as a front.

use std::{sync::Arc, time::Duration};

use entourage_model::{Clock, EdgeValue, ManualClock, Millis, Result, State, UserId, UserPatch, Version};
use entourage_service::{
    Actor, BatchDone, BatchOperation, Call, Derived, Distance, Limit, Limits, Reason, Relationship, Removed, Rules,
    SUGGESTIONS_MAX, Service, Suggestion, SuggestionRules, UserPage,
};
use entourage_store::{Store, SystemClock};

use super::rules::{
    FOLLOWING_MAX, Front,
    question::{Id, Read, Relation, Write, board_words, list_words, members_words, suggestion_words},
};

pub struct ServiceFront(pub Service, Arc<ManualClock>);

const MINUTE: u64 = 60_000;

impl ServiceFront {
    pub fn new(store: Arc<dyn Store>) -> Self {
        let rules = Rules {
            following_max: Some(FOLLOWING_MAX),
            limits: Limits::NONE,
            suggestions: uncached(),
            ..Rules::default()
        };
        // Mutes end at whole seconds.
        let whole = SystemClock.now().since_2000() / 1_000 * 1_000;
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(whole)));
        Self(Service::new(store, rules).with_clock(Arc::clone(&clock) as _), clock)
    }

    async fn try_write(&self, call: &Call, write: &Write) -> Result<String> {
        let service = &self.0;
        let marked = |created: bool| if created { "201" } else { "200" }.to_owned();
        match *write {
            Write::Put { user, private, hide_lists } => {
                let patch = UserPatch { private: Some(private), hide_lists: Some(hide_lists), ..UserPatch::default() };
                Ok(marked(service.graph.put_user(call, id(user), patch).await?.created))
            }
            Write::Follow { follower, target, quiet } => {
                let done = service.graph.follow(call, &id(follower), &id(target), quiet).await?;
                Ok(written(&done.edge, done.created))
            }
            Write::Unfollow { follower, target } => {
                Ok(gone(&service.graph.unfollow(call, &id(follower), &id(target)).await?))
            }
            Write::Accept { target, follower } => {
                let done = service.graph.accept(call, &id(target), &id(follower)).await?;
                Ok(written(&done.edge, done.created))
            }
            Write::Reject { target, follower } => {
                Ok(gone(&service.graph.reject(call, &id(target), &id(follower)).await?))
            }
            Write::RemoveFollower { target, follower } => {
                Ok(gone(&service.graph.remove_follower(call, &id(target), &id(follower)).await?))
            }
            Write::Block { user, target } => {
                Ok(marked(service.graph.block(call, &id(user), &id(target)).await?.created))
            }
            Write::Unblock { user, target } => {
                let done = service.graph.unblock(call, &id(user), &id(target)).await?;
                Ok(format!("200 changed {}", done.changed))
            }
            Write::Mute { user, target, minutes } => {
                let until = minutes.map(|minutes| self.1.now().plus(minutes * MINUTE));
                Ok(marked(service.graph.mute(call, &id(user), &id(target), until).await?.created))
            }
            Write::Unmute { user, target } => Ok(gone(&service.graph.unmute(call, &id(user), &id(target)).await?)),
            Write::Batch(ref operations) => {
                let done = service.graph.batch(call, operations.iter().map(operation).collect()).await?;
                let said = done.results.into_iter().map(|result| match result {
                    Ok(BatchDone::Followed(done)) => written(&done.edge, done.created),
                    Ok(BatchDone::Unfollowed(done)) => gone(&done),
                    Err(error) => refused(&error),
                });
                Ok(said.collect::<Vec<_>>().join("; "))
            }
            Write::Erase { user } => service.jobs.erase(call, &id(user)).await.map(|_| "202".to_owned()),
            Write::AcceptAll { user } => service.jobs.accept_all(call, &id(user)).await.map(|_| "202".to_owned()),
            Write::Suspend { user, suspended } => {
                let done = service.graph.suspend(call, id(user), suspended).await?;
                Ok(format!("200 changed {}", done.changed))
            }
            Write::CreateGroup { owner, name } => {
                service.graph.create_group(call, &id(owner), name).await.map(|_| "201".to_owned())
            }
            Write::RenameGroup { owner, nth, name } => {
                let group = self.group(owner, nth).await;
                service.graph.rename_group(call, &id(owner), group, name).await.map(|_| "200".to_owned())
            }
            Write::DeleteGroup { owner, nth } => {
                let group = self.group(owner, nth).await;
                Ok(gone(&service.graph.delete_group(call, &id(owner), group).await?))
            }
            Write::Member { owner, nth, member, present } => {
                let (group, owner, member) = (self.group(owner, nth).await, id(owner), id(member));
                if present {
                    return Ok(marked(service.graph.add_member(call, &owner, group, &member).await?.created));
                }
                Ok(gone(&service.graph.remove_member(call, &owner, group, &member).await?))
            }
            Write::Dismiss { user, target } => {
                Ok(gone(&service.suggestions.dismiss(call, &id(user), &id(target)).await?))
            }
            Write::Work => {
                while service.jobs.work().await? {}
                Ok(String::new())
            }
            Write::Wait { minutes } => {
                self.1.advance(minutes * MINUTE);
                Ok(String::new())
            }
        }
    }

    async fn group(&self, owner: Id, nth: usize) -> Version {
        let groups = self.0.graph.groups(&Call::default(), &id(owner)).await.unwrap_or_default();
        groups.get(nth).map_or(Version::ZERO, |group| group.id)
    }

    /// The number is the list.
    async fn derived(&self, call: &Call, of: Derived<'_>, limit: Limit) -> Result<String> {
        let words = paged(async |cursor| self.0.graph.derived(call, of, cursor, limit).await).await?;
        let counted = self.0.graph.count_derived(call, of).await?;
        let rows = words.trim_matches(|c| c != '[' && c != ']').trim_matches(['[', ']']).split_whitespace().count();
        assert_eq!((counted.number, counted.is_exact), (rows as u64, true), "{of:?} is {words}");
        Ok(words)
    }

    async fn try_read(&self, call: &Call, read: &Read, limit: Limit) -> Result<String> {
        let service = &self.0;
        match *read {
            Read::Followers(user) => {
                paged(async |cursor| service.graph.followers(call, &id(user), cursor, limit).await).await
            }
            Read::Following(user) => {
                paged(async |cursor| service.graph.following(call, &id(user), cursor, limit).await).await
            }
            Read::Requests(user) => {
                paged(async |cursor| service.graph.follow_requests(call, &id(user), cursor, limit).await).await
            }
            Read::Blocks(user) => {
                paged(async |cursor| service.graph.blocks(call, &id(user), cursor, limit).await).await
            }
            Read::Mutes(user) => paged(async |cursor| service.graph.mutes(call, &id(user), cursor, limit).await).await,
            Read::Mutuals(user) => self.derived(call, Derived::Mutuals(&id(user)), limit).await,
            Read::NotFollowingBack(user) => self.derived(call, Derived::NotFollowingBack(&id(user)), limit).await,
            Read::CommonFollowing(a, b) => self.derived(call, Derived::CommonFollowing(&id(a), &id(b)), limit).await,
            Read::CommonFollowers(a, b) => self.derived(call, Derived::CommonFollowers(&id(a), &id(b)), limit).await,
            Read::FollowersYouKnow(user) => self.derived(call, Derived::FollowersYouKnow(&id(user)), limit).await,
            Read::Distance(a, b) => Ok(match service.graph.distance(call, &id(a), &id(b)).await? {
                Distance::Steps(steps) => format!("200 {steps}"),
                Distance::None => "200 none".to_owned(),
                Distance::Unknown => "200 unknown".to_owned(),
            }),
            Read::Relationships(user, ref others) => {
                let others: Vec<UserId> = others.iter().map(|other| id(other)).collect();
                let found = service.graph.relationships(call, &id(user), &others).await?;
                Ok(format!("200 {}", found.iter().map(relation).collect::<Vec<_>>().join(" ")))
            }
            Read::Guarantees(user) => {
                let view = service.graph.get_user(call, &id(user)).await?;
                let words = view.relationship.as_ref().map(relation).unwrap_or_default();
                Ok(format!("200 {} {} {words}", view.counts.followers, view.counts.following))
            }
            Read::IsFollowing(a, b) => {
                let one = service.graph.is_following(call, &id(a), &id(b)).await?;
                let many = service.graph.checks(call, &[(&id(a), &id(b))]).await?;
                assert_eq!(many.following, [one.following], "the two ways to check differ");
                assert_eq!(one.since.is_some(), one.following);
                Ok(format!("200 {}", one.following))
            }
            Read::Edge(a, b) => {
                let found = service.graph.get_follow(call, &id(a), &id(b)).await?;
                Ok(stands("200", &found.edge))
            }
            Read::History(user) => {
                let (mut rows, mut cursor): (Vec<String>, Option<String>) = (Vec::new(), None);
                loop {
                    let page = service.graph.history(call, &id(user), cursor.as_deref(), limit).await?;
                    rows.extend(page.rows.iter().map(|row| format!("{}:{}", row.id.as_str(), row.how.as_str())));
                    cursor = page.next_cursor;
                    if cursor.is_none() {
                        return Ok(format!("200 [{}]", rows.join(" ")));
                    }
                }
            }
            Read::Groups(user) => {
                let groups = service.graph.groups(call, &id(user)).await?;
                let names: Vec<&str> = groups.iter().map(|group| &*group.name).collect();
                Ok(format!("200 [{}]", names.join(" ")))
            }
            Read::Members(user, nth) => {
                let (group, mut ids, mut cursor) = (self.group(user, nth).await, Vec::new(), None::<String>);
                loop {
                    let page = service.graph.members(call, &id(user), group, cursor.as_deref(), limit).await?;
                    ids.extend(page.rows.iter().map(|row| row.id.as_str().to_owned()));
                    cursor = page.next_cursor;
                    if cursor.is_none() {
                        return Ok(members_words(ids));
                    }
                }
            }
            Read::Suggestions(user) => {
                let found = service.suggestions.suggestions(call, &id(user), None, SUGGESTIONS_MAX).await?;
                let ids = service.suggestions.suggested_ids(call, &id(user), SUGGESTIONS_MAX).await?;
                assert!(found.iter().map(|one| &one.person.id).eq(&ids), "the two ways to ask differ");
                Ok(format!("200 [{}]", found.iter().map(suggested).collect::<Vec<_>>().join(" ")))
            }
            Read::Leaderboard => {
                let (mut rows, mut cursor): (Vec<(u64, String)>, Option<String>) = (Vec::new(), None);
                loop {
                    let page = service.graph.leaderboard(call, cursor.as_deref(), limit).await?;
                    rows.extend(page.rows.into_iter().map(|row| (row.followers, row.id.as_str().to_owned())));
                    cursor = page.next_cursor;
                    if cursor.is_none() {
                        break;
                    }
                }
                assert!(rows.is_sorted_by(|a, b| a.0 >= b.0), "{rows:?}");
                Ok(board_words(rows))
            }
        }
    }
}

impl Front for ServiceFront {
    async fn write(&self, actor: Option<Id>, write: &Write) -> String {
        self.try_write(&call(actor), write).await.unwrap_or_else(|error| refused(&error))
    }

    async fn read(&self, viewer: Option<Id>, read: &Read, limit: usize) -> String {
        let limit = Limit::parse(Some(&limit.to_string())).unwrap();
        self.try_read(&call(viewer), read, limit).await.unwrap_or_else(|error| refused(&error))
    }
}

/// Rules without a cache: what others do shows at once.
pub fn uncached() -> SuggestionRules {
    SuggestionRules { max_age: Duration::ZERO, ..SuggestionRules::default() }
}

fn suggested(found: &Suggestion) -> String {
    let (reason, common, people) = match &found.reason {
        Reason::FollowedBy { common, people } => ("followed_by", u64::from(*common), people.as_slice()),
        Reason::Imported => ("imported", 0, &[][..]),
        Reason::Signal => ("signal", 0, &[][..]),
        Reason::FollowsYou => ("follows_you", 0, &[][..]),
        Reason::Popular => ("popular", 0, &[][..]),
    };
    let named: Vec<&str> = people.iter().map(|person| person.id.as_str()).collect();
    suggestion_words(found.person.id.as_str(), reason, common, &named)
}

pub fn call(actor: Option<Id>) -> Call {
    let actor = actor.map_or(Actor::Service, |actor| Actor::User(id(actor)));
    Call { admin: actor == Actor::Service, actor, ..Call::default() }
}

pub fn id(text: &str) -> UserId {
    UserId::try_from(text).unwrap()
}

fn operation(write: &Write) -> BatchOperation {
    match *write {
        Write::Follow { follower, target, quiet } => {
            BatchOperation::Follow { follower: id(follower), target: id(target), quiet }
        }
        Write::Unfollow { follower, target } => BatchOperation::Unfollow { follower: id(follower), target: id(target) },
        ref other => panic!("{other:?} is not for a batch"),
    }
}

fn refused(error: &entourage_model::Error) -> String {
    format!("{} {}", error.code().http_status(), error.code().as_str())
}

fn written(edge: &EdgeValue, created: bool) -> String {
    let status = match (edge.state, created) {
        (State::Active, true) => "201",
        (State::Active, false) => "200",
        _ => "202",
    };
    stands(status, edge)
}

fn stands(status: &str, edge: &EdgeValue) -> String {
    format!("{status} {}{}", edge.state.as_str(), if edge.quiet { " quiet" } else { "" })
}

fn gone(done: &Removed) -> String {
    format!("200 changed {}", done.changed)
}

fn relation(found: &Relationship) -> String {
    let relation = Relation {
        unknown: found.unknown,
        following: found.following,
        followed_by: found.followed_by,
        mutual: found.mutual,
        requested: found.requested,
        blocking: found.blocking,
        blocked_by: found.blocked_by,
        muting: found.muting,
        quiet: found.quiet,
        since: found.since.is_some(),
    };
    relation.words()
}

async fn paged(page: impl AsyncFn(Option<&str>) -> Result<UserPage>) -> Result<String> {
    let (mut ids, mut cursor) = (Vec::new(), None::<String>);
    for _ in 0..100 {
        let found = page(cursor.as_deref()).await?;
        ids.extend(found.rows.into_iter().map(|row| row.id.as_str().to_owned()));
        cursor = found.next_cursor;
        if cursor.is_none() {
            return Ok(list_words(&ids, found.total));
        }
    }
    panic!("a short list has more than a hundred pages");
}
