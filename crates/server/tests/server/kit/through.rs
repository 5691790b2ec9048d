//! Random runs through REST: a store whose writes go over HTTP where there is a route, and whose reads are believed
//! only when HTTP says the same. The driver and the reference model are those of the conformance suite.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use entourage_model::{
    Counts, Edge, EdgeValue, Ended, Event, EventPosition, EventPositions, IdempotencyKey, Key, KeyHasher, Kind,
    Lineage, List, Millis, Operation, Outcome, Overwrite, Page, Place, Plane, Quota, Record, RecordId, Reply as Said,
    Result, Sequence, Side, Space, State, User, UserId, UserPatch, Version, Watermark, Write,
};
use entourage_server::Stopped;
use entourage_service::{Limits, Rules};
use entourage_store::{
    Answer, Covered, Guarantees, Health, Identity, Progress, Report, Store, StoreExt as _, SweepCursor, Swept, Whose,
};
use entourage_testkit::conformance::{Fixture, hooked::Hooked};
use serde_json::{Map, Value, json};

use super::{
    recorded::{Lie, Recorded},
    server::Server,
    table::Reply,
};

/// Everybody who exists, and nobody else: the others have no id to ask for. Without an id are those whom a run put
/// under somebody else's: a store takes that, and no request can name them.
type Ids = Arc<Mutex<HashMap<Key, Option<UserId>>>>;

/// Stores of one place behind servers: closing stops the server, which closes the store; both come again when it is
/// opened again.
pub(crate) async fn restarted<O>(open: impl Fn() -> O + Send + Sync + 'static) -> Fixture
where
    O: Future<Output = Arc<dyn Store>> + Send + 'static,
{
    let ids = Ids::default();
    let first: Arc<dyn Store> = Arc::new(RestStore::serve(open().await, None, Arc::clone(&ids)));
    let open = Arc::new(open);
    Fixture::from(first).reopened_by(move |closed| {
        drop(closed);
        let (open, ids) = (Arc::clone(&open), Arc::clone(&ids));
        async move { Arc::new(RestStore::serve(open().await, None, ids)) as Arc<dyn Store> }
    })
}

/// Of many pairs that are asked for at once so many are asked for over REST as well.
const CHECKS_COMPARED: usize = 200;

pub(crate) struct RestStore {
    server: Mutex<Server>,
    /// What the server was given.
    served: Arc<Hooked<Recorded>>,
    /// What is behind that.
    store: Arc<dyn Store>,
    hasher: KeyHasher,
    ids: Ids,
    steps: Mutex<usize>,
}

impl RestStore {
    pub(crate) fn new(store: Arc<dyn Store>, lie: Option<Lie>) -> Self {
        Self::serve(store, lie, Ids::default())
    }

    fn serve(store: Arc<dyn Store>, lie: Option<Lie>, ids: Ids) -> Self {
        let served = Recorded::over(Arc::clone(&store), lie);
        let rules = Rules { following_max: None, limits: Limits::NONE, ..Rules::default() };
        let server = Mutex::new(Server::with(Arc::clone(&served) as _, rules));
        let hasher = KeyHasher::new(&store.identity().secret);
        Self { server, served, store, hasher, ids, steps: Mutex::default() }
    }

    /// The id of a key as it stands in a path.
    fn path_id(&self, key: Key) -> Option<String> {
        let id = match self.ids.lock().unwrap().get(&key) {
            Some(known) => known.clone()?,
            None => (key >= Key(0)).then(|| UserId::from(key.0))?,
        };
        Some(id.as_str().bytes().map(|byte| format!("%{byte:02X}")).collect())
    }

    /// The request that asks for this write, if there is one. Requests by the actor and for them take turns.
    fn request(&self, write: &Write) -> Option<String> {
        if write.idempotency.is_some() || write.floor != Version::ZERO || write.limits.is_some() {
            return None;
        }
        let turn = {
            let mut steps = self.steps.lock().unwrap();
            *steps += 1;
            steps.is_multiple_of(2)
        };
        let pair = |a, b| Some((self.path_id(a)?, self.path_id(b)?));
        match &write.operation {
            // Opening an account starts a job, of which the reference of the graph knows nothing.
            Operation::PutUser { patch, .. } if patch.private == Some(false) => None,
            Operation::PutUser { key, id, patch, overwrite } => {
                let method = match overwrite {
                    Overwrite::Replace => "PUT",
                    Overwrite::Merge => "PATCH",
                    Overwrite::Keep => return None,
                };
                (self.hasher.key(id) == *key)
                    .then(|| Some(format!("{method} /users/{} {}", self.path_id(*key)?, patch_json(patch))))?
            }
            Operation::Follow { follower, target, quiet, cap: None, park: false } => {
                let (a, b) = pair(*follower, *target)?;
                let body = quiet.map_or(json!({}), |quiet| json!({ "quiet": quiet }));
                Some(match numeric(*follower).filter(|_| turn) {
                    Some(actor) => format!("@{actor} POST /users/{b}/follow {body}"),
                    None => format!("PUT /users/{a}/following/{b} {body}"),
                })
            }
            Operation::Unfollow { follower, target } => {
                let (a, b) = pair(*follower, *target)?;
                Some(match numeric(*follower).filter(|_| turn) {
                    Some(actor) => format!("@{actor} DELETE /users/{b}/follow"),
                    None => format!("DELETE /users/{a}/following/{b}"),
                })
            }
            Operation::RemoveFollower { target, follower, sees_quiet: true } => {
                pair(*target, *follower).map(|(a, b)| format!("DELETE /users/{a}/followers/{b}"))
            }
            Operation::Accept { target, follower } => {
                pair(*target, *follower).map(|(a, b)| format!("POST /users/{a}/follow-requests/{b}/accept"))
            }
            Operation::Reject { target, follower } => {
                pair(*target, *follower).map(|(a, b)| format!("POST /users/{a}/follow-requests/{b}/reject"))
            }
            Operation::Mute { actor, target, expires_at: None } => {
                pair(*actor, *target).map(|(a, b)| format!("PUT /users/{a}/mutes/{b}"))
            }
            Operation::Unmute { actor, target } => {
                pair(*actor, *target).map(|(a, b)| format!("DELETE /users/{a}/mutes/{b}"))
            }
            Operation::Block { actor, target } => {
                pair(*actor, *target).map(|(a, b)| format!("PUT /users/{a}/blocks/{b}"))
            }
            Operation::Unblock { actor, target } => {
                pair(*actor, *target).map(|(a, b)| format!("DELETE /users/{a}/blocks/{b}"))
            }
            _ => None,
        }
    }

    fn exist(&self, one: Key, other: Key) -> bool {
        let ids = self.ids.lock().unwrap();
        ids.contains_key(&one) && ids.contains_key(&other)
    }

    fn get(&self, path: &str) -> Reply {
        self.server.lock().unwrap().ask(&format!("GET {path}"))
    }

    /// Panics unless the list reads the same over HTTP, page by page. Where some of it ends by itself, what comes after the
    /// page may be over: the store leaves that to whoever reads.
    fn compare_list(&self, list: List, page: &Page, limit: usize, after: Option<Place>, some_end: bool) {
        let name = match (list.plane, list.side) {
            // A service sees all of it.
            _ if list.open => return,
            (Plane::Follow, Side::Followers) => "followers",
            (Plane::Follow, Side::Following) => "following",
            (Plane::Request, Side::Followers) => "follow-requests",
            (Plane::Block, Side::Following) => "blocks",
            (Plane::Mute, Side::Following) => "mutes",
            _ => return,
        };
        let ends = page.edges.iter().any(|edge| edge.value.expires.is_some());
        let Some(id) = self.path_id(list.user).filter(|_| after.is_none() && !ends) else { return };
        let reply = self.get(&format!("/users/{id}/{name}?limit={limit}"));
        if !self.ids.lock().unwrap().contains_key(&list.user) {
            assert_eq!(reply.body["code"], "user_not_found");
            return;
        }
        let ids = self.ids.lock().unwrap();
        let row = |edge: &Edge| {
            let id = ids.get(&list.other(edge))?.as_ref()?;
            Some(json!([id.as_str(), edge.value.position.millis().to_rfc3339()]))
        };
        let Some(expected) = page.edges.iter().map(row).collect::<Option<Vec<Value>>>() else { return };
        let rows = reply.body["data"].as_array().unwrap_or_else(|| panic!("{}", reply.text));
        let found: Vec<Value> = rows.iter().map(|row| json!([row["id"], row["created_at"]])).collect();
        assert_eq!(found, expected, "{list:?}");
        assert_eq!(reply.body["total"], page.total, "{list:?}");
        if !some_end {
            assert_eq!(reply.body["has_more"], page.more, "{list:?}");
        }
    }
}

impl RestStore {
    async fn commit_one(&self, write: Write) -> Result<Outcome> {
        if let Operation::Erase { key, .. } = write.operation {
            let result = self.store.commit(write).await;
            if result.is_ok() {
                self.ids.lock().unwrap().remove(&key);
            }
            return result;
        }
        // Over REST a mute that is over is as good as gone; the reference keeps it until somebody takes it away.
        if let Operation::Mute { actor, target, .. } | Operation::Unmute { actor, target } = write.operation {
            let edges = self.store.get_edges(Kind::Mute, &[(actor, target)]).await?;
            if edges.into_iter().flatten().any(|edge| edge.expires.is_some()) {
                return self.store.commit(write).await;
            }
        }
        let Operation::PutUser { key, id, .. } = &write.operation else { return self.commit_as(&write).await };
        if self.hasher.key(id) == *key {
            self.ids.lock().unwrap().entry(*key).or_insert_with(|| Some(id.clone()));
        }
        let result = self.commit_as(&write).await;
        // A refusal makes nobody, and neither does the replay of another request's reply.
        let stored = self.store.get_users(&[*key]).await?.pop().flatten();
        let mut ids = self.ids.lock().unwrap();
        match stored {
            Some(user) => ids.insert(*key, Some(user.id).filter(|id| self.hasher.key(id) == *key)),
            None => ids.remove(key),
        };
        result
    }

    fn compare_check(&self, follower: Key, target: Key, answer: Answer) {
        let (Some(a), Some(b)) = (self.path_id(follower), self.path_id(target)) else { return };
        let reply = self.get(&format!("/users/{a}/is-following/{b}"));
        match answer {
            // Edges of the erased are forgotten at once, though stores may have them for a while.
            _ if !self.exist(follower, target) => assert_eq!(reply.body["following"], false),
            Answer::Unknown => assert!(reply.body["following"].is_boolean(), "{follower} → {target}"),
            known => assert_eq!(reply.body["following"], known == Answer::Yes, "{follower} → {target}"),
        }
    }
}

#[async_trait]
impl Store for RestStore {
    fn guarantees(&self) -> Guarantees {
        self.store.guarantees()
    }

    fn identity(&self) -> &Identity {
        self.store.identity()
    }

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let mut results = Vec::new();
        for write in writes {
            results.push(self.commit_one(write).await);
        }
        results
    }

    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>> {
        self.store.replay_all(keys).await
    }

    fn peek_all(&self, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        let first = answers.len();
        self.store.peek_all(kind, pairs, answers);
        for (&(follower, target), answer) in pairs.iter().zip(answers.iter().skip(first)).take(CHECKS_COMPARED) {
            if kind == Kind::Follow {
                self.compare_check(follower, target, *answer);
            }
        }
    }

    fn peek_id(&self, key: Key, id: &[u8]) -> bool {
        self.store.peek_id(key, id)
    }

    fn peek_open(&self, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.store.peek_open(pairs, answers);
    }

    fn peek_common(&self, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        self.store.peek_common(one, other, limit, found)
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        let edges = self.store.get_edges(kind, pairs).await?;
        if kind != Kind::Follow {
            return Ok(edges);
        }
        for (&(follower, target), edge) in pairs.iter().zip(&edges) {
            let (Some(a), Some(b)) = (self.path_id(follower), self.path_id(target)) else { continue };
            let reply = self.get(&format!("/users/{a}/following/{b}"));
            match edge {
                _ if !self.exist(follower, target) => assert_eq!(reply.status, 404, "{}", reply.text),
                Some(edge) => assert_edge(&reply, edge),
                None => assert_eq!(reply.body["code"], "not_found"),
            }
        }
        Ok(edges)
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        let users = self.store.get_users(keys).await?;
        for (key, user) in keys.iter().zip(&users) {
            let Some(id) = self.path_id(*key) else { continue };
            let reply = self.get(&format!("/users/{id}"));
            match user {
                Some(user) => assert_user(&reply, user),
                None => assert_eq!(reply.body["code"], "user_not_found"),
            }
        }
        Ok(users)
    }

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        let all = self.store.get_all_counts(users).await?;
        for (&user, counts) in users.iter().zip(&all) {
            if let (Some(counts), Some(id)) = (counts, self.path_id(user)) {
                let reply = self.get(&format!("/users/{id}"));
                assert_eq!(reply.body["counts"], serde_json::to_value(counts).unwrap());
            }
        }
        Ok(all)
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        let page = self.store.scan(list, after, limit).await?;
        let whole =
            if list.plane == Plane::Mute { self.store.scan(list, None, 10_000).await? } else { Page::default() };
        let some_end = whole.edges.iter().any(|edge| edge.value.expires.is_some());
        self.compare_list(list, &page, limit, after, some_end);
        Ok(page)
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.store.scan_up(list, after, limit).await
    }

    async fn sweep(&self, range: u16, after: Option<&SweepCursor>, limit: usize) -> Result<Swept> {
        self.store.sweep(range, after, limit).await
    }

    async fn count_each(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>> {
        self.store.count_each(space, owners).await
    }

    async fn get_records(&self, space: Space, ids: &[(Key, RecordId)]) -> Result<Vec<Option<Record>>> {
        self.store.get_records(space, ids).await
    }

    async fn scan_each(
        &self,
        space: Space,
        owners: &[Key],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<Record>>> {
        self.store.scan_each(space, owners, after, limit).await
    }

    async fn scan_history(&self, follower: Key, before: Option<Version>, limit: usize) -> Result<Vec<Ended>> {
        self.store.scan_history(follower, before, limit).await
    }

    async fn get_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>> {
        self.store.get_quotas(actors).await
    }

    async fn events(&self, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        let events = self.store.events(after, limit).await?;
        if after.offset == Sequence::ZERO && after.partition == 0 {
            let mut start = EventPositions::start(self.store.lineage(), self.store.guarantees().partitions);
            let all = self.store.events_since(&mut start, limit).await?;
            let reply = self.get(&format!("/events?limit={}", limit.min(200)));
            // What tells of a mute's end is the server's own.
            let public = all.iter().map(|(_, event)| event).filter(|event| event.name() != "record.changed");
            let expected: Vec<_> =
                public.take(200).map(|event| json!([event.name(), event.version.to_string()])).collect();
            let rows = reply.body["data"].as_array().unwrap_or_else(|| panic!("{}", reply.text));
            let found: Vec<_> = rows.iter().map(|row| json!([row["type"], row["version"]])).collect();
            assert_eq!(found.get(..expected.len()), Some(&expected[..]), "{}", reply.text);
        }
        Ok(events)
    }

    fn lineage(&self) -> Lineage {
        self.store.lineage()
    }

    async fn last_event(&self, partition: u16) -> Result<Sequence> {
        self.store.last_event(partition).await
    }

    async fn progress(&self, partition: u16) -> Result<Progress> {
        self.store.progress(partition).await
    }

    async fn covers(&self, watermark: &Watermark, whose: Whose<'_>) -> Result<Covered> {
        self.store.covers(watermark, whose).await
    }

    async fn verify(&self) -> Result<Report> {
        self.store.verify().await
    }

    async fn health(&self) -> Health {
        self.store.health().await
    }

    async fn heartbeat(&self, id: u64, about: &str) -> Result<Vec<entourage_store::Server>> {
        self.store.heartbeat(id, about).await
    }

    async fn disconnect(&self, id: u64) -> Result<()> {
        self.store.disconnect(id).await
    }

    async fn close(&self) -> Result<()> {
        let mut server = self.server.lock().unwrap();
        server.ask_to_stop();
        match server.wait() {
            Stopped::AsAsked => Ok(()),
            other => panic!("the server ended otherwise: {other:?}"),
        }
    }
}

impl RestStore {
    /// Over HTTP where there is a route; then the reply must say what the commit behind it came to.
    async fn commit_as(&self, write: &Write) -> Result<Outcome> {
        let Some(request) = self.request(write) else { return self.store.commit(write.clone()).await };
        let reply = self.server.lock().unwrap().ask(&request);
        let (committed, result) =
            self.served.hooks.take().unwrap_or_else(|| panic!("{request}: nothing was committed"));
        assert_eq!(committed, *write, "{request}");
        match &result {
            Ok(outcome) => assert_said(&request, &reply, outcome),
            Err(error) => {
                assert_eq!(reply.body["code"], error.code().as_str(), "{request}: {}", reply.text);
                assert_eq!(reply.status, error.code().http_status());
            }
        }
        result
    }
}

fn assert_said(request: &str, reply: &Reply, outcome: &Outcome) {
    assert!(!reply.token().is_empty(), "{request}");
    match outcome.reply {
        Said::User { created, changed } => {
            assert_eq!(reply.status, if created { 201 } else { 200 }, "{request}");
            assert_eq!(reply.body["changed"], changed, "{request}");
            if changed {
                assert_eq!(reply.body["version"], outcome.version.to_string(), "{request}");
            }
        }
        Said::Edge { value, created, .. } if reply.body["blocking"] == true || reply.body["muting"] == true => {
            assert_eq!(reply.status, if created { 201 } else { 200 }, "{request}");
            assert_eq!(reply.body["version"], value.version.to_string(), "{request}");
        }
        Said::Edge { value, created, .. } => {
            assert_edge(reply, &value);
            let status = if value.state != State::Active {
                202
            } else if created {
                201
            } else {
                200
            };
            assert_eq!(reply.status, status, "{request}");
        }
        Said::Gone { changed } => {
            assert_eq!(reply.status, 200, "{request}");
            assert_eq!(reply.body["changed"], changed, "{request}");
        }
        Said::Record { .. } | Said::EdgesErased { .. } => panic!("{request}: no request asks for this"),
    }
}

fn assert_edge(reply: &Reply, edge: &EdgeValue) {
    let expected = json!({
        "following": edge.state == State::Active,
        "state": edge.state.as_str(),
        "created_at": edge.position.millis().to_rfc3339(),
        "version": edge.version.to_string(),
        "quiet": edge.quiet,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(reply.body[name], *value, "{name} of {}", reply.text);
    }
}

fn assert_user(reply: &Reply, user: &User) {
    let expected = json!({
        "id": user.id.as_str(),
        "name": user.name,
        "avatar_url": user.avatar_url,
        "private": user.private,
        "hide_lists": user.hide_lists,
        "registered_at": user.registered_at.to_rfc3339(),
        "created_at": user.created.millis().to_rfc3339(),
        "version": user.version.to_string(),
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(reply.body[name], *value, "{name} of {}", reply.text);
    }
}

/// Headers are plain here, so only numbers act for themselves.
fn numeric(key: Key) -> Option<i64> {
    (key >= Key(0)).then_some(key.0)
}

fn patch_json(patch: &UserPatch) -> Value {
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    put("name", patch.name.as_ref().map(|name| json!(name)));
    put("avatar_url", patch.avatar_url.as_ref().map(|url| json!(url)));
    put("private", patch.private.map(Value::from));
    put("hide_lists", patch.hide_lists.map(Value::from));
    put("registered_at", patch.registered_at.map(Millis::to_rfc3339).map(Value::from));
    Value::Object(body)
}
