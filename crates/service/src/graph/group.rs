//! Groups: names that a user gives to some of those they follow or are followed by. Nobody else sees them.

use entourage_model::{
    Code, Condition, Cursor, CursorScope, Error, Key, Kind, List, Millis, Operation, Place, Record, RecordId, Refusal,
    Reply, Result, Selection, Space, State, User, UserId, Version, is_member,
};
use entourage_store::{Store, StoreExt as _, Whose};
use serde::{Deserialize, Serialize};

use crate::{Call, Graph, Limit, Receipt, Removed, UserPage, UserRow, writer::unexpected};

/// How many groups one user may have.
pub const GROUPS_MAX: u32 = 100;
pub const GROUP_NAME_MAX_CHARS: usize = 100;
/// How often one request asks again because somebody else wrote, or because no row may be shown.
const ROUNDS_MAX: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserGroup {
    /// The version of the commit that made it.
    pub id: Version,
    pub name: Box<str>,
}

impl UserGroup {
    pub const fn created_at(&self) -> Millis {
        self.id.millis()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupWritten {
    pub group: UserGroup,
    pub changed: bool,
    pub receipt: Receipt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberAdded {
    pub created: bool,
    pub receipt: Receipt,
}

#[derive(Serialize, Deserialize)]
struct Document {
    name: Box<str>,
}

impl Graph {
    pub async fn create_group(&self, call: &Call, owner: &UserId, name: &str) -> Result<GroupWritten> {
        call.may_change(owner)?;
        let value = document(name)?;
        let owner = self.context.owner_key(owner).await?;
        let operation = Operation::AddRecord { space: Space::Group, owner, value, cap: Some(GROUPS_MAX) };
        match self.context.writer.write(call, operation).await? {
            (Reply::Record { version: id, .. }, receipt) => {
                Ok(GroupWritten { group: UserGroup { id, name: name.into() }, changed: true, receipt })
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// All of them, newest first.
    pub async fn groups(&self, call: &Call, owner: &UserId) -> Result<Vec<UserGroup>> {
        call.may_change(owner)?;
        self.context.catch_up(call, Whose::NOBODY).await?;
        let owner = self.context.stored_user(owner).await?.key;
        let found = self.context.store.scan_records(Space::Group, owner, None, GROUPS_MAX as usize).await?;
        found.iter().map(read).collect()
    }

    pub async fn rename_group(&self, call: &Call, owner: &UserId, id: Version, name: &str) -> Result<GroupWritten> {
        call.may_change(owner)?;
        let value = document(name)?;
        let owner = self.context.owner_key(owner).await?;
        let mut renamed = Err(group_not_found());
        for _ in 0..ROUNDS_MAX {
            // Without a version there is no group; what was renamed before it went is still answered from then.
            let found =
                group_record(&*self.context.store, owner, id).await?.map_or(Version::ZERO, |record| record.version);
            let condition = Condition::Version(found);
            let value = Some(value.clone());
            let id = RecordId::of_version(id);
            let operation = Operation::PutRecord { space: Space::Group, owner, id, value, condition, cap: None };
            renamed = self.context.writer.write(call, operation).await;
            match &renamed {
                Err(error) if error.code() == Code::RequestInProgress && found == Version::ZERO => {
                    return Err(group_not_found());
                }
                Err(error) if error.code() == Code::RequestInProgress => {}
                _ => break,
            }
        }
        match renamed? {
            (Reply::Record { changed, .. }, receipt) => {
                Ok(GroupWritten { group: UserGroup { id, name: name.into() }, changed, receipt })
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Members go with it, a bounded number with each commit; as no group of theirs is there nobody sees the rest.
    pub async fn delete_group(&self, call: &Call, owner: &UserId, id: Version) -> Result<Removed> {
        call.may_change(owner)?;
        let owner = self.context.owner_key(owner).await?;
        let operation = Operation::PutRecord {
            space: Space::Group,
            owner,
            id: RecordId::of_version(id),
            value: None,
            condition: Condition::Any,
            cap: None,
        };
        let done = self.context.writer.remove(call, operation.clone()).await?;
        let mut more = done.changed && !done.receipt.replayed;
        while more {
            more = self.context.writer.remove(&Call::default(), operation.clone()).await?.changed;
        }
        Ok(done)
    }

    pub async fn add_member(&self, call: &Call, owner: &UserId, id: Version, member: &UserId) -> Result<MemberAdded> {
        call.may_change(owner)?;
        let (owner, member) = self.context.write_keys(owner, member, false).await?;
        let group = RecordId::of_version(id);
        match self.context.writer.write(call, Operation::GroupMember { owner, group, member, present: true }).await? {
            (Reply::Record { created, .. }, receipt) => Ok(MemberAdded { created, receipt }),
            (other, _) => Err(unexpected(&other)),
        }
    }

    pub async fn remove_member(&self, call: &Call, owner: &UserId, id: Version, member: &UserId) -> Result<Removed> {
        call.may_change(owner)?;
        let (owner, member) = self.context.write_keys(owner, member, false).await?;
        let group = RecordId::of_version(id);
        self.context.writer.remove(call, Operation::GroupMember { owner, group, member, present: false }).await
    }

    /// Who is in a group and still follows its owner or is followed by them.
    pub async fn members(
        &self,
        call: &Call,
        owner: &UserId,
        id: Version,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<UserPage> {
        call.may_change(owner)?;
        self.context.catch_up(call, Whose::NOBODY).await?;
        let viewer = self.context.viewer(call).await?;
        let owner = self.context.stored_user(owner).await?.key;
        group_record(&*self.context.store, owner, id).await?.ok_or_else(group_not_found)?;
        let scope = CursorScope { list: List::following(owner), selection: Selection::Members(id), viewer };
        let group = RecordId::of_version(id);
        let prefix = RecordId::member_prefix(&group);
        let mut after: Box<[u8]> = prefix.clone();
        if let Some(text) = cursor {
            let key = Cursor::decode(text, &self.context.sealer, &scope)?.0.key;
            after = RecordId::of_member(&group, key).ok_or_else(group_not_found)?.as_bytes().into();
        }
        // One more than is shown tells whether there is more.
        let mut rows: Vec<(Key, UserRow)> = Vec::new();
        while rows.len() <= limit.get() {
            let mut found =
                self.context.store.scan_records(Space::GroupMember, owner, Some(&after), Limit::MAX).await?;
            let is_last = found.len() < Limit::MAX;
            found.retain(|record| record.id.as_bytes().starts_with(&prefix));
            let Some(last) = found.last().map(|record| record.id.as_bytes().into()) else { break };
            after = last;
            rows.extend(self.connected(owner, viewer.is_none(), found).await?);
            if is_last {
                break;
            }
        }
        let more = rows.len() > limit.get();
        rows.truncate(limit.get());
        let last = rows.last().map(|(key, _)| *key).filter(|_| more);
        let place = |key| Cursor(Place { position: id, key }).encode(&self.context.sealer, &scope);
        let rows = rows.into_iter().map(|(_, row)| row).collect();
        Ok(UserPage { rows, next_cursor: last.map(place), total: None })
    }

    /// The rows of members that are still who was meant, and still have to do with the owner.
    async fn connected(&self, owner: Key, sees_quiet: bool, members: Vec<Record>) -> Result<Vec<(Key, UserRow)>> {
        let keys: Vec<Key> = members.iter().filter_map(|record| Some(record.id.member()?.1)).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let users = self.context.store.get_users(&keys).await?;
        let pairs: Vec<_> = keys.iter().flat_map(|&key| [(owner, key), (key, owner)]).collect();
        let edges = self.context.store.get_edges(Kind::Follow, &pairs).await?;
        let mut rows = Vec::new();
        for ((record, user), edges) in members.iter().zip(users).zip(edges.as_chunks::<2>().0) {
            let [out, back] = edges.map(|edge| edge.filter(|edge| edge.state == State::Active));
            let is_connected = out.is_some() || back.is_some_and(|edge| sees_quiet || !edge.quiet);
            let user = user.filter(|user: &User| is_connected && is_member(&record.value, user));
            rows.extend(user.map(|user| {
                let created_at = record.version.millis();
                let (name, avatar_url) = (user.name, user.avatar_url);
                (user.key, UserRow { id: user.id, name, avatar_url, created_at, expires_at: None })
            }));
        }
        Ok(rows)
    }
}

pub(crate) async fn group_record(store: &dyn Store, owner: Key, id: Version) -> Result<Option<Record>> {
    store.get_record(Space::Group, owner, &RecordId::of_version(id)).await
}

pub(crate) fn read(record: &Record) -> Result<UserGroup> {
    let unreadable = || Error::internal("the record of a group cannot be read");
    let id = record.id.version().ok_or_else(unreadable)?;
    let Document { name } = serde_json::from_slice(&record.value).map_err(|_| unreadable())?;
    Ok(UserGroup { id, name })
}

/// The name in a group's record.
pub(crate) fn name_in(value: &[u8]) -> Option<Box<str>> {
    serde_json::from_slice(value).ok().map(|Document { name }| name)
}

pub(crate) fn document(name: &str) -> Result<Box<[u8]>> {
    let count = name.chars().count();
    if count == 0 || count > GROUP_NAME_MAX_CHARS || name.chars().any(char::is_control) {
        let right = format!("1 to {GROUP_NAME_MAX_CHARS} characters, none of them a control character");
        return Err(Error::invalid("the name of the group is not valid").at("/name", right));
    }
    let bytes = serde_json::to_vec(&Document { name: name.into() });
    Ok(bytes.map_err(|_| Error::internal("a group cannot be written"))?.into_boxed_slice())
}

pub(crate) fn group_not_found() -> Error {
    Refusal::GroupNotFound.into()
}
