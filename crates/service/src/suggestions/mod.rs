//! Whom to follow, answered when it is asked, with reasons.
//!
//! Sources are asked in this order, and the first that offers somebody gives the reason: friends of friends, imported
//! suggestions, whose profiles the viewer looked at, who follows the viewer without being followed back, and for newcomers
//! the leaderboard. Within a source its own order counts. So the order of all suggestions is total: equal stores give
//! equal answers.
//!
//! Everything is seen with the eyes of the user for whom suggestions are, whoever asks.

mod cache;
mod count;
mod dismiss;
mod exclusions;
mod friends_of_friends;
pub(crate) mod imported;
mod not_followed_back;
mod popular;
mod profile_views;
mod ranker;
pub(crate) mod source;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_model::{Error, Key, Millis, Result, UserId};
use entourage_store::Whose;
use hashbrown::HashSet;

pub(crate) use self::cache::Cache;
use self::{
    cache::Answer,
    friends_of_friends::FriendsOfFriends,
    imported::Imported,
    not_followed_back::NotFollowedBack,
    popular::Popular,
    profile_views::ProfileViews,
    source::{Asked, Candidate, Evidence, People, Source},
};
pub use self::{
    cache::CACHE_BYTES_MAX,
    dismiss::DISMISSED_MAX,
    friends_of_friends::{FIRST_HOPS_MAX, NAMED_MAX, SECOND_HOPS_MAX},
    imported::IMPORTED_MAX,
    popular::NEWCOMER_FOLLOWS,
    ranker::RankerName,
};
use crate::{Call, Context, Graph, Signals};

/// How many suggestions there are for one user.
pub const SUGGESTIONS_MAX: usize = 50;
/// How many are shown unless a request says otherwise.
const DEFAULT_LIMIT: usize = SUGGESTIONS_MAX;
/// How many candidates a source is asked for at first: some are left out.
const CANDIDATES_FIRST: usize = 96;
/// How many it is asked for at last, growing by [`GROWTH`]. Whoever has no suggestion among those has none of it.
const CANDIDATES_MAX: usize = 8_192;
const GROWTH: usize = 4;
/// How many candidates are looked at together.
const JUDGED_AT_ONCE: usize = 64;

/// What an operator can set about suggestions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuggestionRules {
    /// How long imported suggestions count.
    pub ttl: Duration,
    /// The ranker of requests that name none.
    pub ranker: RankerName,
    /// For how long an answer is given again while nothing happens to its user; zero is never. What others do shows
    /// within two seconds.
    pub max_age: Duration,
}

impl Default for SuggestionRules {
    fn default() -> Self {
        let (ttl, max_age) = (Duration::from_secs(24 * 60 * 60), cache::MAX_AGE);
        Self { ttl, ranker: RankerName::default(), max_age }
    }
}

/// Somebody to follow, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    pub person: Person,
    /// When this user was created.
    pub created_at: Millis,
    pub reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    pub id: UserId,
    pub name: Option<Box<str>>,
    pub avatar_url: Option<Box<str>>,
}

/// Why somebody is suggested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// So many whom the user follows follow them. Some are named: those whom the user followed last.
    FollowedBy {
        common: u32,
        people: Vec<Person>,
    },
    Imported,
    Signal,
    FollowsYou,
    Popular,
}

/// Suggestions, and what a user made of them.
pub struct Suggestions {
    context: Arc<Context>,
    sources: Vec<Box<dyn Source>>,
    cache: Arc<Cache>,
}

impl Suggestions {
    pub(crate) fn new(context: Arc<Context>, graph: Arc<Graph>, signals: Arc<Signals>, cache: Arc<Cache>) -> Self {
        let share = || Arc::clone(&context);
        let sources: Vec<Box<dyn Source>> = vec![
            Box::new(FriendsOfFriends::new(share())),
            Box::new(Imported { context: share() }),
            Box::new(ProfileViews(signals)),
            Box::new(NotFollowedBack { context: share() }),
            Box::new(Popular { context: share(), graph }),
        ];
        Self { context, sources, cache }
    }

    /// The best for a user, at most `limit`.
    pub async fn suggestions(
        &self,
        call: &Call,
        user: &UserId,
        ranker: Option<RankerName>,
        limit: usize,
    ) -> Result<Vec<Suggestion>> {
        let asked = self.begin(call, user, ranker).await?;
        if let Some(answer) = self.cached(call, &asked) {
            let best = first(&answer, limit);
            let people = self.people(best.iter().flat_map(Candidate::people)).await?;
            if best.iter().all(|candidate| people.may_show(candidate)) {
                return Ok(best.iter().filter_map(|candidate| people.suggestion(candidate)).collect());
            }
        }
        let (answer, people) = self.answer(&asked).await?;
        Ok(first(&answer, limit).iter().filter_map(|candidate| people.suggestion(candidate)).collect())
    }

    /// The ids alone, of the best `limit`.
    pub async fn suggested_ids(&self, call: &Call, user: &UserId, limit: usize) -> Result<Vec<UserId>> {
        let asked = self.begin(call, user, None).await?;
        if let Some(answer) = self.cached(call, &asked) {
            let keys: Vec<Key> = first(&answer, limit).iter().map(|candidate| candidate.key).collect();
            let users = self.context.store.get_users(&keys).await?;
            if users.iter().all(|user| user.as_ref().is_some_and(|user| !user.follow_suspended)) {
                return Ok(users.into_iter().flatten().map(|user| user.id).collect());
            }
        }
        let (answer, people) = self.answer(&asked).await?;
        let id = |candidate: &Candidate| people.get(candidate.key).map(|user| user.id.clone());
        Ok(first(&answer, limit).iter().filter_map(id).collect())
    }

    async fn begin(&self, call: &Call, user: &UserId, ranker: Option<RankerName>) -> Result<Asked> {
        call.may_change(user)?;
        // Public totals are anybody's.
        self.context.catch_up(call, Whose::Everybody).await?;
        let viewer = self.context.stored_user(user).await?.key;
        Ok(Asked { viewer, ranker: ranker.unwrap_or(self.context.rules.suggestions.ranker) })
    }

    /// An answer of a moment ago. A read with a token sees its write, whoever's that was: it gets a new one.
    fn cached(&self, call: &Call, asked: &Asked) -> Option<Answer> {
        call.token.is_none().then(|| self.cache.get(asked, self.context.rules.suggestions.max_age)).flatten()
    }

    /// A new answer, and everybody in it.
    async fn answer(&self, asked: &Asked) -> Result<(Answer, People)> {
        let (began, version, mut people) = (Instant::now(), self.cache.version(asked.viewer), People::default());
        let answer: Answer = self.pick(asked, &mut people).await?.into();
        self.cache.put(asked, version, began, &answer);
        Ok((answer, people))
    }

    async fn pick(&self, asked: &Asked, people: &mut People) -> Result<Vec<Candidate>> {
        let mut picked: Vec<Candidate> = Vec::with_capacity(SUGGESTIONS_MAX);
        let mut known: HashSet<Key> = HashSet::from([asked.viewer]);
        for source in &self.sources {
            let mut limit = CANDIDATES_FIRST;
            while picked.len() < SUGGESTIONS_MAX {
                let offered = source.candidates(asked, limit, people).await?;
                let is_all = offered.len() < limit;
                let fresh: Vec<Candidate> =
                    offered.into_iter().filter(|candidate| known.insert(candidate.key)).collect();
                self.judge(asked, fresh, people, &mut picked).await?;
                if is_all || limit >= CANDIDATES_MAX {
                    break;
                }
                limit = (limit * GROWTH).min(CANDIDATES_MAX);
            }
        }
        Ok(picked)
    }

    /// Takes those of them who may be suggested, as long as there is room.
    async fn judge(
        &self,
        asked: &Asked,
        fresh: Vec<Candidate>,
        people: &mut People,
        picked: &mut Vec<Candidate>,
    ) -> Result<()> {
        let mut fresh = fresh.into_iter();
        while picked.len() < SUGGESTIONS_MAX {
            let some: Vec<Candidate> = fresh.by_ref().take(JUDGED_AT_ONCE).collect();
            if some.is_empty() {
                break;
            }
            let keys: Vec<Key> = some.iter().map(|candidate| candidate.key).collect();
            let may = self.context.may_be_suggested(asked.viewer, &keys, people).await?;
            let room = SUGGESTIONS_MAX - picked.len();
            picked.extend(some.into_iter().zip(may).filter(|(_, may)| *may).map(|(one, _)| one).take(room));
        }
        Ok(())
    }

    async fn people(&self, keys: impl Iterator<Item = Key>) -> Result<People> {
        let mut keys: Vec<Key> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        let mut people = People::default();
        people.learn(self.context.store.get_users(&keys).await?.into_iter().flatten());
        Ok(people)
    }
}

fn first(answer: &Answer, limit: usize) -> &[Candidate] {
    answer.get(..limit.min(answer.len())).unwrap_or_default()
}

impl Candidate {
    /// Everybody whom the suggestion names.
    fn people(&self) -> impl Iterator<Item = Key> + '_ {
        let named = match &self.evidence {
            Evidence::FollowedBy { first, .. } => first.as_slice(),
            _ => &[],
        };
        std::iter::once(self.key).chain(named.iter().copied())
    }
}

impl People {
    /// Nobody whom it names was erased since, nor the candidate suspended.
    fn may_show(&self, candidate: &Candidate) -> bool {
        candidate.people().all(|key| self.get(key).is_some())
            && self.get(candidate.key).is_some_and(|user| !user.follow_suspended)
    }

    fn person(&self, key: Key) -> Option<Person> {
        let user = self.get(key)?;
        Some(Person { id: user.id.clone(), name: user.name.clone(), avatar_url: user.avatar_url.clone() })
    }

    fn suggestion(&self, candidate: &Candidate) -> Option<Suggestion> {
        let reason = match &candidate.evidence {
            Evidence::FollowedBy { common, first } => {
                let people = first.iter().filter_map(|key| self.person(*key)).collect();
                Reason::FollowedBy { common: *common, people }
            }
            Evidence::Imported => Reason::Imported,
            Evidence::Signal => Reason::Signal,
            Evidence::FollowsYou => Reason::FollowsYou,
            Evidence::Popular => Reason::Popular,
        };
        let created_at = self.get(candidate.key)?.created.millis();
        Some(Suggestion { person: self.person(candidate.key)?, created_at, reason })
    }
}

/// How many suggestions somebody wants.
pub fn parse_suggestion_limit(text: Option<&str>) -> Result<usize> {
    let Some(text) = text else { return Ok(DEFAULT_LIMIT) };
    match text.parse() {
        Ok(number @ 1..=SUGGESTIONS_MAX) => Ok(number),
        _ => {
            let fine = format!("a whole number from 1 to {SUGGESTIONS_MAX}");
            Err(Error::invalid("the limit is not valid").at("/limit", fine))
        }
    }
}
