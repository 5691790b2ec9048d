//! `abuse.auto_suspend`: an open case holds its actors' right to follow until it is closed. A hold is written into the case
//! before it takes effect and taken out after it ended, so that a server that stops in between leaves nothing half done.
//! What an administrator decides about a user ends the holds of cases.

use entourage_model::{CaseMark, Code, Condition, Key, Operation, Result, User, Version, Write};
use hashbrown::HashMap;

use super::{
    Abuse, CaseState,
    case::{Document, Person},
    cases::put,
};

/// How many users are paused or released in one go.
const CHUNK: usize = 100;
const ROUNDS_MAX: usize = 8;

impl Abuse {
    /// Marks whom this case holds: everybody in it whom nobody but cases has suspended.
    pub(super) fn hold(&self, document: &mut Document, users: &HashMap<Key, User>) {
        if !self.context.rules.abuse.auto_suspend {
            return;
        }
        for person in document.actors.iter_mut().filter(|person| !person.paused && !person.is_left_to_admin) {
            let is_free = |user: &User| !user.follow_suspended || !self.index.holders(user.key).is_empty();
            person.paused = users.get(&person.key).is_some_and(|user| person.is(user) && is_free(user));
        }
    }

    pub(super) async fn pause_all(&self, document: &Document) -> Result<()> {
        let held: Vec<Person> = document.actors.iter().filter(|person| person.paused).copied().collect();
        self.suspend(&held, true).await
    }

    /// Ends the pauses of a closed case, apart from those that another open case wants, too.
    pub(super) async fn release_all(
        &self,
        id: Version,
        version: Version,
        mut document: Document,
    ) -> Result<(Version, Document)> {
        let held: Vec<Person> = document.actors.iter().filter(|person| person.paused).copied().collect();
        if held.is_empty() {
            return Ok((version, document));
        }
        let freed: Vec<Person> = held.into_iter().filter(|person| self.index.holders(person.key).is_empty()).collect();
        self.suspend(&freed, false).await?;
        document.actors.iter_mut().for_each(|person| person.paused = false);
        let operation = put(id, Some(document.encode(CaseMark::Closed)?), Condition::Version(version));
        let version = match self.context.writer.write_one(operation).await {
            // Another server has done the same.
            Err(error) if error.code() == Code::RequestInProgress => version,
            other => other?.version,
        };
        self.index.learn(id, version.millis(), &document);
        Ok((version, document))
    }

    /// An administrator decides about this user: no case does any more.
    pub(crate) async fn leave_to_admin(&self, user: Key) -> Result<()> {
        for id in self.index.holders(user) {
            for _ in 0..ROUNDS_MAX {
                let Some((record, mut document)) = self.known(id).await? else { break };
                if document.state != CaseState::Open {
                    break;
                }
                for person in document.actors.iter_mut().filter(|person| person.key == user) {
                    (person.paused, person.is_left_to_admin) = (false, true);
                }
                let operation = put(id, Some(document.encode(CaseMark::Open)?), Condition::Version(record.version));
                match self.context.writer.write_one(operation).await {
                    Err(error) if error.code() == Code::RequestInProgress => {}
                    Err(error) => return Err(error),
                    Ok(outcome) => {
                        self.index.learn(id, outcome.version.millis(), &document);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// What a server that stopped did not come to: pauses of open cases, releases of closed ones.
    pub(super) async fn finish_pauses(&self) -> Result<()> {
        for id in self.index.unreleased() {
            if let Some((record, document)) = self.known(id).await? {
                self.release_all(id, record.version, document).await?;
            }
        }
        for id in self.index.holding() {
            if let Some((_, document)) = self.known(id).await? {
                self.pause_all(&document).await?;
            }
        }
        Ok(())
    }

    /// Those of them who are still the same person, and do not stand so already.
    async fn suspend(&self, people: &[Person], suspended: bool) -> Result<()> {
        for chunk in people.chunks(CHUNK) {
            let keys: Vec<Key> = chunk.iter().map(|person| person.key).collect();
            let users = self.context.users_by_key(&keys).await?;
            let is_due = |person: &&Person| {
                users.get(&person.key).is_some_and(|user| person.is(user) && user.follow_suspended != suspended)
            };
            let write = |person: &Person| Write::from(Operation::Suspend { key: person.key, suspended });
            let writes: Vec<Write> = chunk.iter().filter(is_due).map(write).collect();
            for outcome in self.context.writer.write_all(writes).await {
                match outcome {
                    // Erased meanwhile.
                    Err(error) if error.code() == Code::UserNotFound => {}
                    other => drop(other?),
                }
            }
        }
        Ok(())
    }
}
