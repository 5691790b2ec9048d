//! What a chunk asks of the store: users that its edges need, then its rows, in the order of the file.

use std::{collections::HashSet, sync::Arc};

use entourage_model::{Code, Key, Millis, Operation, Overwrite, Result, UserPatch, Write};

use super::{
    again::{Again, Done},
    known::{Known, Standing},
    limits,
    person::Person,
    read::Chunk,
    row::{Entry, Reason, Reject},
    tally::Tally,
};
use crate::Service;

/// What a write is for; the number is the row's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    AddUser,
    Edge(usize),
    /// Makes the user if it is missing, with all that the row says.
    KeepUser,
    /// Changes the user if it was there.
    MergeUser(usize),
}

pub(super) struct Plan {
    pub(super) chunk: Chunk,
    pub(super) steps: Vec<Step>,
    /// Rows that need no write, because an earlier run did them.
    pub(super) done: Tally,
    /// Accounts that an earlier run made public.
    pub(super) opened: Vec<Key>,
    /// Nothing after this chunk was done by an earlier run.
    pub(super) is_caught_up: bool,
}

pub(super) struct Planner {
    pub(super) service: Arc<Service>,
    pub(super) known: Known,
    pub(super) create_users: bool,
    pub(super) following_max: Option<u64>,
    /// The position of edges that have no time of their own.
    pub(super) now: Millis,
    pub(super) again: Again,
}

impl Planner {
    pub(super) async fn plan(&mut self, mut chunk: Chunk) -> Result<(Plan, Vec<Write>)> {
        self.known.look_up_names(&self.service, &chunk.rows).await?;
        let over = match self.following_max {
            Some(cap) => limits::over(&self.service, &chunk.rows, cap, self.create_users).await?,
            None => HashSet::new(),
        };
        let mut writes: Vec<Write> = Vec::with_capacity(chunk.rows.len() * 2);
        let mut steps = Vec::with_capacity(chunk.rows.len() * 2);
        let mut rejects: Vec<Reject> = Vec::new();
        let (mut done, mut opened) = (Tally::default(), Vec::new());
        self.again.pass(chunk.rows.len() as u64);
        for (index, row) in chunk.rows.iter().enumerate() {
            match &row.entry {
                Entry::Edge { follower, target, at, quiet } => {
                    let standings = [self.known.standing(follower), self.known.standing(target)];
                    let refused = if follower.key == target.key {
                        Some(Code::SelfFollow)
                    } else if standings.contains(&Standing::Taken) {
                        Some(Code::IdTaken)
                    } else if over.contains(&index) {
                        Some(Code::FollowingLimit)
                    } else {
                        None
                    };
                    if let Some(code) = refused {
                        rejects.push(chunk.reject(row, Reason::Refused(code)));
                        continue;
                    }
                    for (person, standing) in [follower, target].into_iter().zip(standings) {
                        if self.create_users && self.again.take_added(person.key) {
                            self.known.add(person);
                            done.users_added += 1;
                        } else if self.create_users && standing == Standing::Unknown {
                            self.known.add(person);
                            steps.push(Step::AddUser);
                            writes.push(put(person, &UserPatch::default(), Overwrite::Keep));
                        }
                    }
                    let (follower, target) = (follower.key, target.key);
                    if self.again.take_edge(follower, target) {
                        done.edges_created += 1;
                        continue;
                    }
                    let (at, quiet) = (at.unwrap_or(self.now), *quiet);
                    steps.push(Step::Edge(index));
                    writes.push(Operation::Import { follower, target, at, quiet }.into());
                }
                Entry::User { person, patch } => {
                    if self.known.standing(person) == Standing::Taken {
                        rejects.push(chunk.reject(row, Reason::Refused(Code::IdTaken)));
                        continue;
                    }
                    self.known.add(person);
                    if let Some(earlier) = self.again.take_row(person.key, patch) {
                        let count = match earlier {
                            Done::Created => &mut done.users_created,
                            Done::Updated => {
                                opened.extend(row.entry.opens());
                                &mut done.users_updated
                            }
                            Done::Unchanged => &mut done.users_unchanged,
                        };
                        *count += 1;
                        continue;
                    }
                    steps.extend([Step::KeepUser, Step::MergeUser(index)]);
                    writes.extend([Overwrite::Keep, Overwrite::Merge].map(|how| put(person, patch, how)));
                }
            }
        }
        chunk.rejects.append(&mut rejects);
        let is_caught_up = self.again.is_over();
        Ok((Plan { chunk, steps, done, opened, is_caught_up }, writes))
    }
}

fn put(person: &Person, patch: &UserPatch, overwrite: Overwrite) -> Write {
    Operation::PutUser { key: person.key, id: person.id(), patch: patch.clone(), overwrite }.into()
}
