//! Export: everything that a file can hold, in the form that import reads, page by page.

mod packed;
mod row;

use std::{
    collections::HashMap,
    io::{self, Write},
};

use entourage_model::{
    Edge, Error, Key, Kind, List, Plane, Record, RecordId, Result, Side, Space, State, User, is_member,
};
use entourage_store::{StoreExt as _, Sweep};
use serde::Serialize;

pub use self::packed::{Packed, Packing};
use self::row::Row;
use crate::{Context, PostView, Transfer, graph::group};

const PAGE: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    Csv,
    Ndjson,
}

/// What a file can hold. Each needs only what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportKind {
    Users,
    Follows,
    Requests,
    Blocks,
    Mutes,
    Groups,
    Members,
    Posts,
}

impl ExportKind {
    pub const ALL: [Self; 8] = [
        Self::Users,
        Self::Follows,
        Self::Requests,
        Self::Blocks,
        Self::Mutes,
        Self::Groups,
        Self::Members,
        Self::Posts,
    ];

    /// Of the edges of a user.
    fn of(edge: &Edge) -> Option<Self> {
        match (edge.kind, edge.value.state) {
            (Kind::Follow, State::Active) => Some(Self::Follows),
            (Kind::Follow, State::Pending) => Some(Self::Requests),
            (Kind::Block, State::Active) => Some(Self::Blocks),
            (Kind::Mute, State::Active) => Some(Self::Mutes),
            _ => None,
        }
    }

    /// Where its edges stand.
    fn has(self, plane: Plane) -> bool {
        match self {
            Self::Follows => plane.kind() == Kind::Follow && plane.state() == State::Active,
            Self::Requests => plane.kind() == Kind::Follow && plane.state() == State::Pending,
            Self::Blocks => plane.kind() == Kind::Block,
            Self::Mutes => plane.kind() == Kind::Mute,
            _ => false,
        }
    }
}

/// What is written, and how. CSV holds one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    pub format: ExportFormat,
    pub kinds: Vec<ExportKind>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    pub users: u64,
    pub edges: u64,
    pub requests: u64,
    pub blocks: u64,
    pub mutes: u64,
    pub groups: u64,
    pub members: u64,
    pub posts: u64,
}

impl Exported {
    fn count(&mut self, kind: ExportKind) -> &mut u64 {
        match kind {
            ExportKind::Users => &mut self.users,
            ExportKind::Follows => &mut self.edges,
            ExportKind::Requests => &mut self.requests,
            ExportKind::Blocks => &mut self.blocks,
            ExportKind::Mutes => &mut self.mutes,
            ExportKind::Groups => &mut self.groups,
            ExportKind::Members => &mut self.members,
            ExportKind::Posts => &mut self.posts,
        }
    }
}

/// An export under way.
struct Work<'a> {
    export: &'a Export,
    context: &'a Context,
    out: &'a mut (dyn Write + Send),
    done: Exported,
}

impl Export {
    /// Users first, then edges, then what hangs on them, so that an import of all finds what it needs. Holds no more than
    /// a page at a time.
    pub async fn run(
        &self,
        transfer: &Transfer,
        out: &mut (dyn Write + Send),
        mut seen: impl FnMut(&Exported),
    ) -> Result<Exported> {
        if self.format == ExportFormat::Csv {
            let [kind] = self.kinds[..] else {
                return Err(Error::invalid("a file of CSV holds one kind; choose one, or NDJSON for several"));
            };
            out.write_all(row::header(kind).as_bytes()).map_err(unwritable)?;
        }
        let context = &*transfer.context;
        let mut work = Work { export: self, context, out, done: Exported::default() };
        let kinds = |wanted: &[ExportKind]| wanted.iter().any(|kind| self.kinds.contains(kind));
        let beyond = [ExportKind::Groups, ExportKind::Members, ExportKind::Posts];
        let planes: Vec<Plane> =
            Plane::ALL.into_iter().filter(|plane| self.kinds.iter().any(|kind| kind.has(*plane))).collect();
        if kinds(&[ExportKind::Users]) {
            let mut pages = Sweep::default();
            while let Some(users) = pages.next(&*context.store, PAGE).await? {
                users.iter().try_for_each(|user| work.put(ExportKind::Users, &Row::user(user)))?;
                seen(&work.done);
            }
        }
        if !planes.is_empty() {
            let mut pages = Sweep::default();
            while let Some(users) = pages.next(&*context.store, PAGE).await? {
                for user in &users {
                    for plane in &planes {
                        work.put_edges(user, *plane).await?;
                    }
                }
                seen(&work.done);
            }
        }
        if kinds(&beyond) {
            let mut pages = Sweep::default();
            while let Some(users) = pages.next(&*context.store, PAGE).await? {
                for user in &users {
                    work.put_groups(user).await?;
                    work.put_posts(user).await?;
                }
                seen(&work.done);
            }
        }
        Ok(work.done)
    }
}

impl Work<'_> {
    fn put(&mut self, kind: ExportKind, row: &Row<'_>) -> Result<()> {
        if !self.export.kinds.contains(&kind) {
            return Ok(());
        }
        let line = match self.export.format {
            ExportFormat::Ndjson => row.json()?,
            ExportFormat::Csv => row.csv(),
        };
        self.out.write_all(line.as_bytes()).map_err(unwritable)?;
        *self.done.count(kind) += 1;
        Ok(())
    }

    async fn put_edges(&mut self, user: &User, plane: Plane) -> Result<()> {
        let (list, mut after) = (List::new(user.key, plane, Side::Following), None);
        let now = self.context.clock.now();
        loop {
            let page = self.context.store.scan(list, after, PAGE).await?;
            let targets: Vec<Key> = page.edges.iter().map(|edge| edge.target).collect();
            // Edges of the erased are left for a while; importing one would bring the person back.
            let users = self.context.users_by_key(&targets).await?;
            for edge in page.edges.iter().filter(|edge| !edge.value.is_over(now)) {
                if let (Some(kind), Some(target)) = (ExportKind::of(edge), users.get(&edge.target)) {
                    self.put(kind, &Row::edge(kind, &user.id, &target.id, edge))?;
                }
            }
            after = page.edges.last().map(|edge| list.place(edge)).filter(|_| page.more);
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn put_groups(&mut self, owner: &User) -> Result<()> {
        if !self.export.kinds.iter().any(|kind| matches!(kind, ExportKind::Groups | ExportKind::Members)) {
            return Ok(());
        }
        let mut groups = HashMap::new();
        for record in self.records(Space::Group, owner.key).await? {
            let group = group::read(&record)?;
            self.put(ExportKind::Groups, &Row::group(&owner.id, &group))?;
            groups.insert(record.id, group.id);
        }
        if groups.is_empty() || !self.export.kinds.contains(&ExportKind::Members) {
            return Ok(());
        }
        let mut after: Option<RecordId> = None;
        loop {
            let from = after.as_ref().map(RecordId::as_bytes);
            let page = self.context.store.scan_records(Space::GroupMember, owner.key, from, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id.clone());
            self.put_members(owner, &groups, &page).await?;
        }
    }

    /// Those who are still who was meant, and still have to do with the owner: nobody sees the others.
    async fn put_members(
        &mut self,
        owner: &User,
        groups: &HashMap<RecordId, entourage_model::Version>,
        page: &[Record],
    ) -> Result<()> {
        let members: Vec<(RecordId, Key, &Record)> =
            page.iter().filter_map(|record| record.id.member().map(|(group, key)| (group, key, record))).collect();
        let keys: Vec<Key> = members.iter().map(|(_, key, _)| *key).collect();
        let users = self.context.users_by_key(&keys).await?;
        let pairs: Vec<(Key, Key)> = keys.iter().flat_map(|&key| [(owner.key, key), (key, owner.key)]).collect();
        let edges = self.context.store.get_edges(Kind::Follow, &pairs).await?;
        for ((group, key, record), edges) in members.iter().zip(edges.as_chunks::<2>().0) {
            let is_connected = edges.iter().flatten().any(|edge| edge.state == State::Active);
            let user = users.get(key).filter(|user| is_connected && is_member(&record.value, user));
            if let (Some(user), Some(group)) = (user, groups.get(group)) {
                self.put(ExportKind::Members, &Row::member(&owner.id, *group, &user.id))?;
            }
        }
        Ok(())
    }

    async fn put_posts(&mut self, author: &User) -> Result<()> {
        if !self.export.kinds.contains(&ExportKind::Posts) {
            return Ok(());
        }
        let mut after: Option<RecordId> = None;
        loop {
            let from = after.as_ref().map(RecordId::as_bytes);
            let page = self.context.store.scan_records(Space::Post, author.key, from, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id.clone());
            for record in &page {
                let post = PostView::of(record, author.id.clone())?;
                self.put(ExportKind::Posts, &Row::post(&post)?)?;
            }
        }
    }

    async fn records(&self, space: Space, owner: Key) -> Result<Vec<Record>> {
        self.context.store.scan_records(space, owner, None, PAGE).await
    }
}

fn unwritable(error: io::Error) -> Error {
    Error::internal(format!("the output cannot be written: {error}"))
}
