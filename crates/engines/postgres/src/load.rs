//! Loads what the writes of a batch read: one statement a table, however many writes there are.

use entourage_model::{
    Cause, Edge, Expiry, Key, Kind, Moments, Operation, Plane, RecordId, Side, Space, User, Version, Write,
    post_id_prefix, post_ids_at,
};
use tokio_postgres::{Client, Row};

use super::{
    error::{Failure, unreadable},
    row,
    statements::Statements,
    view::Loaded,
    wants::{ListName, RecordName, WantedEnds, Wants},
};

pub(super) const USERS: &str = "SELECT key, id, name, avatar_url, private, hide_lists, registered_at, created, version, \
     follow_suspended, quota FROM users WHERE key = ANY($1)";
pub(super) const EDGES: &str = "SELECT e.kind, e.follower, e.target, e.state, e.quiet, e.version, e.position, e.accepted, \
     e.expires FROM unnest($1::bigint[], $2::bigint[]) AS wanted (follower, target) \
     JOIN edges e ON e.follower = wanted.follower AND e.target = wanted.target";
/// How many each follows.
pub(super) const LOADS: &str = "SELECT user_key, sum(total)::bigint FROM count_parts \
     WHERE user_key = ANY($1) AND side = $2 AND plane = ANY($3) GROUP BY user_key";
/// When follows ended recently.
pub(super) const ENDS: &str = "SELECT wanted.follower, wanted.target, h.ended \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS wanted (follower, target, since, most) \
     CROSS JOIN LATERAL (SELECT ended FROM history WHERE follower = wanted.follower AND target = wanted.target \
         AND ended > wanted.since AND cause <> $5 ORDER BY ended DESC LIMIT wanted.most) h \
     ORDER BY h.ended";
pub(super) const IDEMPOTENCY: &str =
    "SELECT request, version, reply::text, scope FROM idempotency WHERE scope = ANY($1)";
pub(super) const RECORDS: &str = "SELECT r.id, r.version, r.value, r.space, r.owner \
     FROM unnest($1::bigint[], $2::smallint[], $3::bytea[]) AS wanted (owner, space, id) \
     JOIN records r ON r.owner = wanted.owner AND r.space = wanted.space AND r.id = wanted.id";
pub(super) const COUNTS: &str = "SELECT wanted.space, wanted.owner, \
     (SELECT count(*) FROM records r WHERE r.owner = wanted.owner AND r.space = wanted.space) \
     FROM unnest($1::bigint[], $2::smallint[]) AS wanted (owner, space)";
pub(super) const LISTS: &str = "SELECT wanted.place, r.id, r.version \
     FROM unnest($1::bigint[], $2::smallint[], $3::bytea[], $4::bigint[]) \
         WITH ORDINALITY AS wanted (owner, space, prefix, most, place) \
     CROSS JOIN LATERAL (SELECT id, version FROM records \
         WHERE owner = wanted.owner AND space = wanted.space AND id > wanted.prefix \
             AND substring(id from 1 for octet_length(wanted.prefix)) = wanted.prefix \
         ORDER BY id LIMIT wanted.most) r \
     ORDER BY wanted.place, r.id";
/// In the order of the index of each side: otherwise a plan that was made while there were no edges may read all of the
/// other side's.
pub(super) const EDGES_OF: &str = "SELECT e.kind, e.follower, e.target, e.state, e.quiet, e.version, e.position, \
     e.accepted, e.expires, wanted.key FROM unnest($1::bigint[], $2::bigint[]) AS wanted (key, most) \
     CROSS JOIN LATERAL (SELECT * FROM (\
         SELECT * FROM edges WHERE follower = wanted.key AND state <> 3 \
         ORDER BY kind, state, quiet, position DESC, target DESC LIMIT wanted.most) own \
     UNION ALL SELECT * FROM (\
         SELECT * FROM edges WHERE target = wanted.key AND state <> 3 \
         ORDER BY kind, state, quiet, position DESC, follower DESC LIMIT wanted.most) others \
     LIMIT wanted.most) e";
/// Of one owner, from an id to another.
pub(super) const RANGE: &str = "SELECT id, version, value, space, owner FROM records \
     WHERE owner = $1 AND space = $2 AND id BETWEEN $3 AND $4";
pub(super) const ERASED: &str = "SELECT key, version FROM erased WHERE key = ANY($1)";

/// Sends all of its statements at once.
pub(super) async fn load(client: &Client, statements: &Statements, wants: &[Wants]) -> Result<Loaded, Failure> {
    let lists: Vec<&(ListName, usize)> = wants.iter().filter_map(|wants| wants.list.as_ref()).collect();
    let records: Vec<&RecordName> = wants.iter().flat_map(|wants| &wants.records).collect();
    let loaded = tokio::join!(
        load_users(client, statements, wants),
        load_edges(client, statements, wants),
        load_loads(client, statements, wants),
        load_ends(client, statements, wants),
        load_idempotency(client, statements, wants),
        load_records(client, statements, &records),
        load_counts(client, statements, wants),
        load_lists(client, statements, &lists),
        load_edges_of(client, statements, wants),
        load_erased(client, statements, wants),
    );
    let mut state = Loaded::default();
    let parts = (loaded.0, loaded.1, loaded.2, loaded.3, loaded.4, loaded.5, loaded.6, loaded.7, loaded.8, loaded.9);
    match parts {
        (Ok(a), Ok(b), Ok(c), Ok(d), Ok(e), Ok(f), Ok(g), Ok(h), Ok(i), Ok(j)) => {
            take_users(&mut state, &a)?;
            take_edges(&mut state, &b)?;
            take_loads(&mut state, wants, &c)?;
            take_ends(&mut state, &d);
            take_idempotency(&mut state, &e)?;
            take_records(&mut state, &f)?;
            for found in &g {
                let name = (space(found.get(0))?, Key(found.get(1)));
                state.counts.insert(name, found.get(2));
            }
            take_lists(&mut state, &lists, &h)?;
            for found in &i {
                let edge = row::edge(found, 0)?;
                state.stored.insert((edge.kind, edge.follower, edge.target));
                state.edges_of.entry(Key(found.get(9))).or_default().push(edge);
            }
            state.erased.extend(j.iter().map(|found| (Key(found.get(0)), row::to_version(found.get(1)))));
            Ok(state)
        }
        (a, b, c, d, e, f, g, h, i, j) => Err(Failure::cause([
            a.err(),
            b.err(),
            c.err(),
            d.err(),
            e.err(),
            f.err(),
            g.err(),
            h.err(),
            i.err(),
            j.err(),
        ])),
    }
}

/// What depends on what was loaded: the ends of mutes that may change, the members of a large group, and posts near an
/// imported one. Most batches have nothing of that.
pub(super) async fn load_more(
    client: &Client,
    statements: &Statements,
    writes: &[&Write],
    wants: &mut [Wants],
    state: &mut Loaded,
) -> Result<(), Failure> {
    let (mut records, mut lists) = (Vec::new(), Vec::new());
    for (write, wants) in writes.iter().zip(wants) {
        let ends = mute_ends(write, state);
        records.extend(ends.iter().cloned());
        wants.records.extend(ends);
        for (space, owner, ids) in near_posts(write, state) {
            let (Some(first), Some(last)) = (ids.iter().min(), ids.iter().max()) else { continue };
            let (bounds, number) = ((first.as_bytes(), last.as_bytes()), space as i16);
            let rows = client.query(&statements.load_range, &[&owner.0, &number, &bounds.0, &bounds.1]).await?;
            take_records(state, &rows)?;
            wants.records.extend(ids.into_iter().map(|id| (space, owner, id)));
        }
        if let Some(count) = wants.count.and_then(|name| state.counts.get(&name)) {
            lists.extend(wants.members(&write.operation, count.unsigned_abs()));
        }
    }
    if !records.is_empty() {
        let records: Vec<&RecordName> = records.iter().collect();
        take_records(state, &load_records(client, statements, &records).await?)?;
    }
    if !lists.is_empty() {
        let lists: Vec<&(ListName, usize)> = lists.iter().collect();
        take_lists(state, &lists, &load_lists(client, statements, &lists).await?)?;
    }
    Ok(())
}

/// The records of the ends of mutes that the write may change: the record is removed with the mute.
fn mute_ends(write: &Write, state: &Loaded) -> Vec<RecordName> {
    let name = |at: Expiry, actor, target| (Space::Job, Key::SERVER, RecordId::of_mute_end(at, actor, target));
    let known = |edge: &Edge| {
        let is_muted = edge.kind == Kind::Mute && edge.value.is_live();
        edge.value.expires.filter(|_| is_muted).map(|at| name(at, edge.follower, edge.target))
    };
    let (actor, target, fresh) = match write.operation {
        Operation::Mute { actor, target, expires_at } | Operation::ImportMute { actor, target, expires_at, .. } => {
            (actor, target, expires_at)
        }
        Operation::Unmute { actor, target } | Operation::ExpireMute { actor, target, .. } => (actor, target, None),
        Operation::EraseEdges { key, .. } => {
            return state.edges_of.get(&key).into_iter().flatten().filter_map(known).collect();
        }
        _ => return Vec::new(),
    };
    let value = state.edges.get(&(Kind::Mute, actor, target)).copied();
    let edge = value.map(|value| Edge { kind: Kind::Mute, follower: actor, target, value });
    let fresh = fresh.map(|at| name(Expiry::at(at), actor, target));
    edge.as_ref().and_then(known).into_iter().chain(fresh).collect()
}

/// The records that lead to the authors of the ids that an imported post may get, and the author's posts that may be
/// the same one.
fn near_posts(write: &Write, state: &Loaded) -> Vec<(Space, Key, Vec<RecordId>)> {
    let Operation::ImportPost { author, at, id, .. } = write.operation else { return Vec::new() };
    let index = |ids: Vec<Version>| {
        (Space::PostAuthor, Key::SERVER, ids.into_iter().map(RecordId::of_post_author).collect::<Vec<_>>())
    };
    if let Some(id) = id {
        return vec![index(vec![id])];
    }
    let list = state.lists.get(&(Space::Post, author, post_id_prefix(at)));
    let own = list.into_iter().flatten().filter_map(|(id, _)| id.version()).filter(|id| id.millis() == at);
    let own: Vec<Version> = own.collect();
    let free = post_ids_at(author, at, own.iter().max().copied()).collect();
    vec![index(free), (Space::Post, author, own.into_iter().map(RecordId::of_version).collect())]
}

async fn load_users(client: &Client, statements: &Statements, wants: &[Wants]) -> Result<Vec<Row>, Failure> {
    let keys = distinct(wants.iter().flat_map(|wants| wants.users.iter().map(|key| key.0)));
    Ok(client.query(&statements.load_users, &[&keys]).await?)
}

fn take_users(state: &mut Loaded, rows: &[Row]) -> Result<(), Failure> {
    for found in rows {
        let user: User = row::user(found)?;
        state.quotas.insert(user.key, row::quota(found.get(10))?);
        state.users.insert(user.key, user);
    }
    Ok(())
}

async fn load_edges(client: &Client, statements: &Statements, wants: &[Wants]) -> Result<Vec<Row>, Failure> {
    let pairs = wants.iter().filter_map(|wants| wants.pair).flat_map(|(a, b)| [(a.0, b.0), (b.0, a.0)]);
    let (followers, targets): (Vec<i64>, Vec<i64>) = distinct(pairs).into_iter().unzip();
    if followers.is_empty() {
        return Ok(Vec::new());
    }
    Ok(client.query(&statements.load_edges, &[&followers, &targets]).await?)
}

fn take_edges(state: &mut Loaded, rows: &[Row]) -> Result<(), Failure> {
    for found in rows {
        let Edge { kind, follower, target, value } = row::edge(found, 0)?;
        state.stored.insert((kind, follower, target));
        state.edges.insert((kind, follower, target), value);
    }
    Ok(())
}

async fn load_loads(client: &Client, statements: &Statements, wants: &[Wants]) -> Result<Vec<Row>, Failure> {
    let keys = distinct(wants.iter().filter_map(|wants| wants.load).map(|key| key.0));
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let planes: Vec<i16> = Plane::of_kind(Kind::Follow).iter().map(|&plane| plane as i16).collect();
    Ok(client.query(&statements.load_loads, &[&keys, &(Side::Following as i16), &planes]).await?)
}

fn take_loads(state: &mut Loaded, wants: &[Wants], rows: &[Row]) -> Result<(), Failure> {
    // Whoever follows nobody has no row, and is counted all the same.
    state.loads.extend(wants.iter().filter_map(|wants| wants.load).map(|key| (key, 0)));
    for found in rows {
        let load: i64 = found.get(1);
        state.loads.insert(Key(found.get(0)), load);
        if load < 0 {
            return Err(unreadable("count").into());
        }
    }
    Ok(())
}

async fn load_ends(client: &Client, statements: &Statements, wants: &[Wants]) -> Result<Vec<Row>, Failure> {
    let ends: Vec<WantedEnds> = wants.iter().filter_map(|wants| wants.ends).collect();
    if ends.is_empty() {
        return Ok(Vec::new());
    }
    let unique = distinct(
        ends.iter().map(|ends| (ends.follower.0, ends.target.0, row::from_version(ends.since), i64::from(ends.limit))),
    );
    let followers: Vec<i64> = unique.iter().map(|ends| ends.0).collect();
    let targets: Vec<i64> = unique.iter().map(|ends| ends.1).collect();
    let since: Vec<i64> = unique.iter().map(|ends| ends.2).collect();
    let limits: Vec<i64> = unique.iter().map(|ends| ends.3).collect();
    let erasure = Cause::Erase as i16;
    Ok(client.query(&statements.load_ends, &[&followers, &targets, &since, &limits, &erasure]).await?)
}

/// Oldest first.
fn take_ends(state: &mut Loaded, rows: &[Row]) {
    let mut ends: hashbrown::HashMap<(Key, Key), Vec<i64>> = hashbrown::HashMap::new();
    for found in rows {
        ends.entry((Key(found.get(0)), Key(found.get(1)))).or_default().push(found.get(2));
    }
    for (pair, mut ended) in ends {
        // Two writes of one edge may have looked back from different moments.
        ended.dedup();
        let moments = Moments::of_ends(ended.into_iter().map(|ended| row::to_version(ended).millis()));
        state.ends.insert(pair, moments);
    }
}

async fn load_idempotency(client: &Client, statements: &Statements, wants: &[Wants]) -> Result<Vec<Row>, Failure> {
    let scopes: Vec<&[u8]> = wants.iter().filter_map(|wants| wants.scope.as_ref()).map(<[u8; 16]>::as_slice).collect();
    if scopes.is_empty() {
        return Ok(Vec::new());
    }
    Ok(client.query(&statements.load_idempotency, &[&scopes]).await?)
}

fn take_idempotency(state: &mut Loaded, rows: &[Row]) -> Result<(), Failure> {
    for found in rows {
        let scope: [u8; 16] = found.get::<_, &[u8]>(3).try_into().map_err(|_| unreadable("idempotency record"))?;
        state.idempotency.insert(scope, row::idempotency(found, scope)?);
    }
    Ok(())
}

async fn load_records(client: &Client, statements: &Statements, names: &[&RecordName]) -> Result<Vec<Row>, Failure> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let names = distinct(names.iter().map(|(space, owner, id)| (owner.0, *space as i16, id.as_bytes())));
    let owners: Vec<i64> = names.iter().map(|name| name.0).collect();
    let spaces: Vec<i16> = names.iter().map(|name| name.1).collect();
    let ids: Vec<&[u8]> = names.iter().map(|name| name.2).collect();
    Ok(client.query(&statements.load_records, &[&owners, &spaces, &ids]).await?)
}

fn take_records(state: &mut Loaded, rows: &[Row]) -> Result<(), Failure> {
    for found in rows {
        let record = row::record(found)?;
        state.records.insert((space(found.get(3))?, Key(found.get(4)), record.id.clone()), record);
    }
    Ok(())
}

async fn load_counts(client: &Client, statements: &Statements, wants: &[Wants]) -> Result<Vec<Row>, Failure> {
    let names = wants.iter().filter_map(|wants| wants.count).map(|(space, owner)| (owner.0, space as i16));
    let (owners, spaces): (Vec<i64>, Vec<i16>) = distinct(names).into_iter().unzip();
    if owners.is_empty() {
        return Ok(Vec::new());
    }
    Ok(client.query(&statements.load_counts, &[&owners, &spaces]).await?)
}

async fn load_lists(
    client: &Client,
    statements: &Statements,
    lists: &[&(ListName, usize)],
) -> Result<Vec<Row>, Failure> {
    if lists.is_empty() {
        return Ok(Vec::new());
    }
    let owners: Vec<i64> = lists.iter().map(|((_, owner, _), _)| owner.0).collect();
    let spaces: Vec<i16> = lists.iter().map(|((space, ..), _)| *space as i16).collect();
    let prefixes: Vec<&[u8]> = lists.iter().map(|((_, _, prefix), _)| &**prefix).collect();
    let limits: Vec<i64> = lists.iter().map(|(_, limit)| *limit as i64).collect();
    Ok(client.query(&statements.load_lists, &[&owners, &spaces, &prefixes, &limits]).await?)
}

/// A list that two writes want is there twice, and taken once.
fn take_lists(state: &mut Loaded, lists: &[&(ListName, usize)], rows: &[Row]) -> Result<(), Failure> {
    let mut found: Vec<Vec<(RecordId, Version)>> = vec![Vec::new(); lists.len()];
    for one in rows {
        let place = usize::try_from(one.get::<_, i64>(0) - 1).ok();
        let list = place.and_then(|place| found.get_mut(place)).ok_or_else(|| unreadable("place"))?;
        let id = RecordId::new(one.get(1)).map_err(|_| unreadable("record"))?;
        list.push((id, row::to_version(one.get(2))));
    }
    state.lists.extend(lists.iter().map(|(name, _)| name.clone()).zip(found));
    Ok(())
}

async fn load_edges_of(client: &Client, statements: &Statements, wants: &[Wants]) -> Result<Vec<Row>, Failure> {
    let wanted = wants.iter().filter_map(|wants| wants.edges_of).map(|(key, limit)| (key.0, limit as i64));
    let (keys, limits): (Vec<i64>, Vec<i64>) = distinct(wanted).into_iter().unzip();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    Ok(client.query(&statements.load_edges_of, &[&keys, &limits]).await?)
}

async fn load_erased(client: &Client, statements: &Statements, wants: &[Wants]) -> Result<Vec<Row>, Failure> {
    let keys = distinct(wants.iter().filter_map(|wants| wants.erased).map(|key| key.0));
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    Ok(client.query(&statements.load_erased, &[&keys]).await?)
}

fn distinct<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.sort_unstable();
    items.dedup();
    items
}

fn space(column: i16) -> Result<Space, Failure> {
    u8::try_from(column).ok().and_then(Space::from_number).ok_or_else(|| unreadable("record").into())
}
