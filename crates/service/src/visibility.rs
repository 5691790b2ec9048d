//! Who sees what: quiet edges, blocks, private accounts, hidden lists. `None` as a viewer is a service and sees
//! everything.

use entourage_model::{Code, Edge, EdgeValue, Error, Key, Kind, List, Page, Place, Plane, Result, Side, State, User};
use entourage_store::{Answer, Derived, StoreExt as _};
use hashbrown::{HashMap, HashSet};

use crate::{Context, Order};

/// How many rows one look at the store takes when the first did not fill the page.
const HIDDEN_CHUNK: usize = 1_000;
/// Lists of at most so many are read whole instead of asking for many pairs.
const SHORT_LIST: usize = 64;
/// As quick as two lists.
const FEW_PAIRS: usize = 8;

/// A quiet edge is there for its follower and for services only.
pub(crate) fn shows_edge(viewer: Option<Key>, follower: Key, value: &EdgeValue) -> bool {
    !value.quiet || viewer.is_none_or(|viewer| viewer == follower)
}

/// A list as a viewer pages through it. Quiet follows are in lists of their own, which services and the followers
/// themselves see: nobody else's pages walk past them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VisibleList {
    pub(crate) list: List,
    /// The viewer's own quiet follow among the followers of somebody else.
    own: Option<Edge>,
    order: Order,
}

impl VisibleList {
    const fn new(list: List, own: Option<Edge>) -> Self {
        Self { list, own, order: Order::NewestFirst }
    }

    /// The same, read from that end.
    pub(crate) const fn in_order(self, order: Order) -> Self {
        Self { order, ..self }
    }
}

pub(crate) fn lists_hidden() -> Error {
    Error::new(Code::ListsHidden, "this account does not show its lists to the acting user")
}

/// What one viewer may see. Asks in batches, and nothing twice within one request.
pub(crate) struct Visibility<'a> {
    context: &'a Context,
    viewer: Option<Key>,
    /// Whether a block stands between the viewer and this user, in either direction.
    apart: HashMap<Key, bool>,
    /// Whether this user's lists are open to the viewer.
    open: HashMap<Key, bool>,
}

impl Context {
    pub(crate) fn visibility(&self, viewer: Option<Key>) -> Visibility<'_> {
        Visibility { context: self, viewer, apart: HashMap::new(), open: HashMap::new() }
    }

    /// Whether an active edge stands between each pair.
    pub(crate) async fn are_active(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<bool>> {
        let mut answers = vec![Answer::Unknown; pairs.len()];
        self.store.peek_all(kind, pairs, &mut answers);
        let mut found: Vec<bool> = answers.iter().map(|answer| *answer == Answer::Yes).collect();
        let is_open = |(_, (answer, _)): &(_, (&Answer, _))| **answer == Answer::Unknown;
        let open: Vec<_> = found.iter_mut().zip(answers.iter().zip(pairs)).filter(is_open).collect();
        if !open.is_empty() {
            let asked: Vec<_> = open.iter().map(|(_, (_, pair))| **pair).collect();
            for ((slot, _), edge) in open.into_iter().zip(self.store.get_edges(kind, &asked).await?) {
                *slot = edge.is_some_and(|edge| edge.state == State::Active);
            }
        }
        Ok(found)
    }

    /// Everybody on these lists, ascending. `None` where asking for each pair is quicker: a list is long, or the store has
    /// to be waited for.
    pub(crate) async fn all_on(&self, lists: &[List]) -> Result<Option<Vec<Key>>> {
        let guarantees = self.store.guarantees();
        if !guarantees.peeks || guarantees.derived != Derived::InCommit {
            return Ok(None);
        }
        let mut found = Vec::new();
        for list in lists {
            let page = self.store.scan(*list, None, SHORT_LIST).await?;
            if page.more {
                return Ok(None);
            }
            found.extend(page.edges.iter().map(|edge| list.other(edge)));
        }
        found.sort_unstable();
        Ok(Some(found))
    }

    /// Whether a block stands between the user and each of these, in either direction.
    pub(crate) async fn are_apart(&self, user: Key, keys: &[Key]) -> Result<Vec<bool>> {
        if keys.len() > FEW_PAIRS
            && let Some(apart) = self.all_on(&Side::BOTH.map(|side| List::new(user, Plane::Block, side))).await?
        {
            return Ok(keys.iter().map(|key| apart.binary_search(key).is_ok()).collect());
        }
        // The user's own are one look at one row.
        let own = keys.iter().map(|key| (user, *key));
        let pairs: Vec<_> = own.chain(keys.iter().map(|key| (*key, user))).collect();
        let blocks = self.are_active(Kind::Block, &pairs).await?;
        let (own, others) = blocks.split_at(keys.len());
        Ok(own.iter().zip(others).map(|(own, other)| *own || *other).collect())
    }

    /// The list as the viewer may see it, where they may look at it at all.
    pub(crate) async fn visible_list(&self, viewer: Option<Key>, list: List) -> Result<VisibleList> {
        let Some(viewer) = viewer.filter(|_| list.plane == Plane::Follow) else {
            return Ok(VisibleList::new(list, None));
        };
        match list.side {
            Side::Following if viewer == list.user => Ok(VisibleList::new(list, None)),
            Side::Following => Ok(VisibleList::new(list.open(), None)),
            Side::Followers => {
                let own = self.follow_edges(&[(viewer, list.user)]).await?.into_iter().flatten().next();
                Ok(VisibleList::new(list.open(), own.filter(|edge| edge.value.quiet)))
            }
        }
    }

    /// As the store's scan; the total is everybody's, without the viewer's own quiet follow.
    pub(crate) async fn scan_visible(&self, of: &VisibleList, after: Option<Place>, limit: usize) -> Result<Page> {
        let mut page = match of.order {
            Order::NewestFirst => self.store.scan(of.list, after, limit).await?,
            Order::OldestFirst => self.store.scan_up(of.list, after, limit).await?,
        };
        let place = |edge: &Edge| of.list.place(edge);
        let is_before = |one: Place, other: Place| match of.order {
            Order::NewestFirst => one > other,
            Order::OldestFirst => one < other,
        };
        if let Some(own) = of.own.filter(|own| after.is_none_or(|after| is_before(after, place(own)))) {
            let at = page.edges.partition_point(|edge| is_before(place(edge), place(&own)));
            if at < page.edges.len() || !page.more {
                page.edges.insert(at, own);
                page.more |= page.edges.len() > limit;
                page.edges.truncate(limit);
            }
        }
        Ok(page)
    }

    /// As [`Self::scan_visible`], without rows that a block hides: full unless it is the last, and `more` only if another
    /// row follows that is shown. Where hidden rows lie does not show.
    pub(crate) async fn scan_shown(
        &self,
        visibility: &mut Visibility<'_>,
        of: &VisibleList,
        mut after: Option<Place>,
        limit: usize,
    ) -> Result<Page> {
        let mut shown: Option<Page> = None;
        loop {
            let known = shown.as_ref().map_or(0, |page| page.edges.len());
            let wanted = if shown.is_none() { limit.saturating_add(1) } else { HIDDEN_CHUNK };
            let page = self.scan_visible(of, after, wanted.max(limit + 1 - known)).await?;
            after = page.edges.last().map(|edge| of.list.place(edge));
            let Page { edges, more, total, quiet } = page;
            let shown = shown.get_or_insert(Page { total, quiet, ..Page::default() });
            shown.edges.extend(visibility.rows(of.list, edges).await?);
            shown.more = shown.edges.len() > limit;
            if shown.more || !more || after.is_none() {
                shown.edges.truncate(limit);
                return Ok(std::mem::take(shown));
            }
            // Those whom a block keeps apart from the viewer may be very many in a row.
            tokio::task::yield_now().await;
        }
    }

    /// Whether each of these follows openly: what a private account was asked for and has accepted. A quiet
    /// follower from before it went private is a stranger to it.
    pub(crate) async fn are_let_in(&self, pairs: &[(Key, Key)]) -> Result<Vec<bool>> {
        let edges = self.follow_edges(pairs).await?;
        Ok(edges.into_iter().map(|edge| edge.is_some_and(|edge| !edge.value.quiet)).collect())
    }

    /// Whether an active follow stands between each pair that its being quiet does not hide from the viewer; and how
    /// many of them the store had to be asked for.
    pub(crate) async fn visible_follows(
        &self,
        viewer: Option<Key>,
        pairs: &[(Key, Key)],
    ) -> Result<(Vec<bool>, usize)> {
        let mut answers = vec![Answer::Unknown; pairs.len()];
        match viewer {
            None => self.store.peek_all(Kind::Follow, pairs, &mut answers),
            Some(_) => self.store.peek_open(pairs, &mut answers),
        }
        let mut told: Vec<bool> = answers.iter().map(|answer| *answer == Answer::Yes).collect();
        // The viewer's own quiet follows are there for them.
        let is_open = |(answer, pair): (&Answer, &(Key, Key))| match answer {
            Answer::Yes => false,
            Answer::No => Some(pair.0) == viewer,
            Answer::Unknown => true,
        };
        let open: Vec<usize> =
            answers.iter().zip(pairs).enumerate().filter(|(_, of)| is_open(*of)).map(|(index, _)| index).collect();
        if open.is_empty() {
            return Ok((told, 0));
        }
        let asked: Vec<(Key, Key)> = open.iter().filter_map(|index| pairs.get(*index)).copied().collect();
        for (index, edge) in open.iter().zip(self.follow_edges(&asked).await?) {
            if let Some(slot) = told.get_mut(*index) {
                *slot = edge.is_some_and(|edge| shows_edge(viewer, edge.follower, &edge.value));
            }
        }
        Ok((told, asked.len()))
    }

    /// The active follow edge of each pair. Most pairs have none, and memory knows that.
    pub(crate) async fn follow_edges(&self, pairs: &[(Key, Key)]) -> Result<Vec<Option<Edge>>> {
        let mut found = vec![None; pairs.len()];
        let mut open = Vec::new();
        for (slot, &(from, to)) in found.iter_mut().zip(pairs) {
            if self.store.peek(Kind::Follow, from, to) != Answer::No {
                open.push((slot, (from, to)));
            }
        }
        if !open.is_empty() {
            let asked: Vec<_> = open.iter().map(|(_, pair)| *pair).collect();
            let values = self.store.get_edges(Kind::Follow, &asked).await?;
            for ((slot, (follower, target)), value) in open.into_iter().zip(values) {
                let value = value.filter(|value| value.state == State::Active);
                *slot = value.map(|value| Edge { kind: Kind::Follow, follower, target, value });
            }
        }
        Ok(found)
    }
}

impl Visibility<'_> {
    /// Whether the viewer may look at an account's lists.
    pub(crate) async fn are_lists_open(&mut self, owner: &User) -> Result<bool> {
        self.learn(std::slice::from_ref(owner)).await?;
        Ok(self.is_open(owner.key))
    }

    /// The rows of a list that the viewer may see, where they may look at the list at all. Whom somebody blocks or
    /// mutes they see whatever blocks stand: those lists are nobody else's.
    pub(crate) async fn rows(&mut self, list: List, edges: Vec<Edge>) -> Result<Vec<Edge>> {
        if self.viewer.is_none() || !matches!(list.plane, Plane::Follow) {
            return Ok(edges);
        }
        let others: Vec<Key> = edges.iter().map(|edge| list.other(edge)).collect();
        self.ask_blocks(&others).await?;
        let is_shown =
            |edge: &Edge| shows_edge(self.viewer, edge.follower, &edge.value) && !self.is_apart(list.other(edge));
        Ok(edges.into_iter().filter(is_shown).collect())
    }

    /// Which edges some list would show the viewer: what a check may tell.
    pub(crate) async fn shown(&mut self, edges: &[Edge]) -> Result<Vec<bool>> {
        self.look(edges).await?;
        let is_shown = |edge: &Edge| self.tells(edge) && (self.is_open(edge.follower) || self.is_open(edge.target));
        Ok(edges.iter().map(|edge| self.is_own(edge) || is_shown(edge)).collect())
    }

    /// Which edges may stand behind an answer about others: their ends are the viewer, or show the viewer their lists.
    pub(crate) async fn evidence(&mut self, edges: &[Edge]) -> Result<Vec<bool>> {
        self.look(edges).await?;
        let is_shown = |edge: &Edge| self.tells(edge) && self.is_open(edge.follower) && self.is_open(edge.target);
        Ok(edges.iter().map(|edge| self.is_own(edge) || is_shown(edge)).collect())
    }

    /// As [`Self::evidence`], of edges that are not hidden for being quiet.
    pub(crate) async fn evidence_of(&mut self, pairs: &[(Key, Key)]) -> Result<Vec<bool>> {
        let Some(viewer) = self.viewer else { return Ok(vec![true; pairs.len()]) };
        let is_own = |(follower, target): &(Key, Key)| [*follower, *target].contains(&viewer);
        let others = pairs.iter().filter(|pair| !is_own(pair));
        self.look_at(others.flat_map(|(follower, target)| [*follower, *target]).collect()).await?;
        let tells = |key: Key| !self.is_apart(key) && self.is_open(key);
        Ok(pairs.iter().map(|pair| is_own(pair) || (tells(pair.0) && tells(pair.1))).collect())
    }

    /// Whether a block keeps this user and the viewer apart; only for users asked about before.
    pub(crate) fn is_apart(&self, key: Key) -> bool {
        self.apart.get(&key).is_some_and(|apart| *apart)
    }

    pub(crate) fn is_open(&self, key: Key) -> bool {
        self.viewer.is_none_or(|viewer| viewer == key) || self.open.get(&key).is_some_and(|open| *open)
    }

    /// The viewer's own edges are in the viewer's own lists.
    fn is_own(&self, edge: &Edge) -> bool {
        match self.viewer {
            None => true,
            Some(viewer) => viewer == edge.follower || (viewer == edge.target && !edge.value.quiet),
        }
    }

    fn tells(&self, edge: &Edge) -> bool {
        !edge.value.quiet && !self.is_apart(edge.follower) && !self.is_apart(edge.target)
    }

    /// Learns what has to be known of the ends of edges that are not the viewer's own.
    async fn look(&mut self, edges: &[Edge]) -> Result<()> {
        let others = edges.iter().filter(|edge| !self.is_own(edge) && !edge.value.quiet);
        self.look_at(others.flat_map(|edge| [edge.follower, edge.target]).collect()).await
    }

    async fn look_at(&mut self, mut keys: Vec<Key>) -> Result<()> {
        keys.retain(|key| !self.open.contains_key(key));
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            return Ok(());
        }
        // Who is no longer there shows nothing.
        self.open.extend(keys.iter().map(|key| (*key, false)));
        let users: Vec<User> = self.context.store.get_users(&keys).await?.into_iter().flatten().collect();
        self.learn(&users).await
    }

    /// Takes in users that were read anyway.
    pub(crate) async fn learn(&mut self, users: &[User]) -> Result<()> {
        let Some(viewer) = self.viewer else { return Ok(()) };
        let keys: Vec<Key> = users.iter().map(|user| user.key).collect();
        self.ask_blocks(&keys).await?;
        let asks = |user: &&User| user.private && !user.hide_lists && !self.is_apart(user.key);
        let pairs: Vec<_> = users.iter().filter(asks).map(|user| (viewer, user.key)).collect();
        let accepted = self.context.are_let_in(&pairs).await?;
        let accepted: HashSet<Key> =
            pairs.iter().zip(accepted).filter(|(_, yes)| *yes).map(|(pair, _)| pair.1).collect();
        for user in users {
            let shows = !user.hide_lists && (!user.private || accepted.contains(&user.key));
            self.open.insert(user.key, user.key == viewer || (shows && !self.is_apart(user.key)));
        }
        Ok(())
    }

    pub(crate) async fn ask_blocks(&mut self, keys: &[Key]) -> Result<()> {
        let Some(viewer) = self.viewer else { return Ok(()) };
        let fresh: Vec<Key> = keys.iter().copied().filter(|key| !self.apart.contains_key(key)).collect();
        let apart = self.context.are_apart(viewer, &fresh).await?;
        self.apart.extend(fresh.iter().copied().zip(apart));
        Ok(())
    }
}
