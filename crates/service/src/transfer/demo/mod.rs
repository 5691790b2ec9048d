//! The demo: ten thousand people who follow, block, mute, group and ask each other, and what they say, for a store that
//! has nobody yet.

mod graph;
mod people;
mod posts;
mod random;

use std::collections::{HashMap, HashSet};

use entourage_model::{
    Code, Condition, Error, Key, Operation, Overwrite, Post, RecordId, Result, Space, UserId, UserPatch, Write,
};
use entourage_store::{StoreExt as _, Sweep};

pub use self::posts::DemoTraffic;
use self::{graph::Graph, people::people};
use crate::{Transfer, graph::group::document as group_document};

const CHUNK: usize = 5_000;
const SWEEP: usize = 1_000;

/// The outcome of loading the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demo {
    Loaded {
        users: u64,
        follows: u64,
        posts: u64,
    },
    /// A start before this one loaded it.
    IsThere,
    /// The store has people of its own, who are left alone.
    NotEmpty,
}

/// Who is in the store before the demo is loaded.
enum Found {
    Nobody,
    /// Of the demo's people.
    Some,
    Others,
}

/// The ids of the best known people, first the one with the most followers.
pub fn demo_ids(count: usize) -> Vec<String> {
    people().into_iter().take(count).map(|person| person.id).collect()
}

impl Transfer {
    /// Only into a store without users, or into one where an earlier load was cut off.
    pub async fn load_demo(&self) -> Result<Demo> {
        let ids: Vec<UserId> =
            people().into_iter().map(|person| UserId::try_from(person.id.as_str())).collect::<Result<_>>()?;
        // The last one follows nobody and is put last of all: who is there says that all the rest is.
        let Some(last) = ids.last() else { return Err(Error::internal("the demo has no people")) };
        if self.context.find_user(last).await?.is_some() {
            return Ok(Demo::IsThere);
        }
        let is_resumed = match self.look_for(&ids).await? {
            Found::Others => return Ok(Demo::NotEmpty),
            Found::Nobody => false,
            Found::Some => true,
        };
        let keys: Vec<Key> = ids.iter().map(|id| self.context.keys.key(id)).collect();
        let graph = Graph::new(ids.len() - 1);
        let mut users = put_users(&ids, &keys);
        let mark = users.pop();
        self.commit_chunks(users).await?;
        self.commit_chunks(edges(&graph, &keys)).await?;
        self.commit_chunks(groups(&graph, &keys)?).await?;
        let said = posts::posts();
        let posts = said.len() as u64;
        self.commit_chunks(self.demo_posts(said, &graph, &keys, is_resumed).await?).await?;
        self.commit_chunks(mark.into_iter().collect()).await?;
        Ok(Demo::Loaded { users: ids.len() as u64, follows: graph.follows.len() as u64, posts })
    }

    async fn look_for(&self, ids: &[UserId]) -> Result<Found> {
        let ids: HashSet<&UserId> = ids.iter().collect();
        let (mut sweep, mut found) = (Sweep::default(), Found::Nobody);
        while let Some(users) = sweep.next(&*self.context.store, SWEEP).await? {
            found = Found::Some;
            if users.iter().any(|user| !ids.contains(&user.id)) {
                return Ok(Found::Others);
            }
        }
        Ok(found)
    }

    /// Pushed or pulled as the author would be now. A post has no id of its own to recognise it by: of each author those
    /// are left out that an interrupted load has written.
    async fn demo_posts(
        &self,
        said: Vec<posts::Said>,
        graph: &Graph,
        keys: &[Key],
        is_resumed: bool,
    ) -> Result<Vec<Write>> {
        self.feeds.load_modes().await?;
        let mut followers: HashMap<usize, u64> = HashMap::new();
        for follow in &graph.follows {
            *followers.entry(follow.target).or_default() += 1;
        }
        let mut authors = Vec::with_capacity(posts::AUTHORS);
        for (author, key) in keys.iter().enumerate().take(posts::AUTHORS) {
            let pulls = self.feeds.pulls_new_post(*key, followers.get(&author).copied().unwrap_or_default()).await?;
            let written = if is_resumed { self.context.store.count_records(Space::Post, *key).await? } else { 0 };
            authors.push((*key, !pulls, written));
        }
        let mut writes = Vec::with_capacity(said.len());
        for posts::Said { author, body } in said {
            let Some((key, pushed, written)) = authors.get_mut(author) else { continue };
            if *written > 0 {
                *written -= 1;
                continue;
            }
            let value = Post::new(*pushed, &body).encode();
            writes.push(Operation::Post { author: *key, value }.into());
        }
        Ok(writes)
    }

    async fn commit_chunks(&self, writes: Vec<Write>) -> Result<()> {
        for chunk in writes.chunks(CHUNK) {
            for result in self.context.writer.write_all(chunk.to_vec()).await {
                match result {
                    Ok(_) => {}
                    // What an earlier load had done, and somebody blocked since.
                    Err(error) if error.code() == Code::Blocked => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

fn put_users(ids: &[UserId], keys: &[Key]) -> Vec<Write> {
    let put = |(index, ((id, key), person)): (usize, ((&UserId, &Key), people::Person))| {
        let patch = UserPatch {
            name: Some(Some(person.name.into())),
            private: Some(graph::is_private(index)),
            hide_lists: Some(graph::hides_lists(index)),
            registered_at: Some(graph::registered_at(index)),
            ..UserPatch::default()
        };
        Operation::PutUser { key: *key, id: id.clone(), patch, overwrite: Overwrite::Keep }.into()
    };
    ids.iter().zip(keys).zip(people()).enumerate().map(put).collect()
}

fn edges(graph: &Graph, keys: &[Key]) -> Vec<Write> {
    let key = |person: usize| keys.get(person).copied().unwrap_or_default();
    let follows = graph.follows.iter().map(|follow| Operation::Import {
        follower: key(follow.follower),
        target: key(follow.target),
        at: follow.at,
        quiet: follow.quiet,
    });
    let requests = graph.requests.iter().map(|&(follower, target)| Operation::Follow {
        follower: key(follower),
        target: key(target),
        quiet: Some(false),
        cap: None,
        park: false,
    });
    let blocks =
        graph.blocks.iter().map(|&(actor, target)| Operation::Block { actor: key(actor), target: key(target) });
    let mute = |&(actor, target)| Operation::Mute { actor: key(actor), target: key(target), expires_at: None };
    let mutes = graph.mutes.iter().map(mute);
    follows.chain(requests).chain(blocks).chain(mutes).map(Write::from).collect()
}

/// Groups under ids of their own, so that an interrupted load makes none of them twice.
fn groups(graph: &Graph, keys: &[Key]) -> Result<Vec<Write>> {
    let key = |person: usize| keys.get(person).copied().unwrap_or_default();
    let mut writes = Vec::new();
    for group in &graph.groups {
        let (owner, id) = (key(group.owner), RecordId::of_version(group.made));
        let value = Some(group_document(group.name)?);
        let (space, condition, cap) = (Space::Group, Condition::Any, None);
        writes.push(Operation::PutRecord { space, owner, id: id.clone(), value, condition, cap }.into());
        let member =
            |&member: &usize| Operation::GroupMember { owner, group: id.clone(), member: key(member), present: true };
        writes.extend(group.members.iter().map(member).map(Write::from));
    }
    Ok(writes)
}
