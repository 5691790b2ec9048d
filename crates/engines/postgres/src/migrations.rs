//! The migrations of the schema, oldest first. A released one is never edited.
//!
//! Servers of two versions run on one schema during an upgrade, so a migration expands it first: it adds tables, columns with
//! a default, and indexes, and servers of the version before go on. Only a later version, when nobody uses what is to go,
//! contracts it. A migration that older servers would not survive says so: it is applied once they have stopped, and from its
//! version on they may not write.

use entourage_model::{Error, Result};
use refinery::Migration;

/// What a migration means to servers that do not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Older {
    /// They go on reading and writing.
    Survive,
    /// They must have stopped.
    #[allow(dead_code, reason = "no migration needs it so far")]
    MustStop,
}

pub(super) struct Step {
    /// As in the name of its file.
    pub(super) name: &'static str,
    sql: &'static str,
    pub(super) older: Older,
}

macro_rules! steps {
    ($($name:literal: $older:ident,)*) => {
        const STEPS: &[Step] = &[$(Step {
            name: $name,
            sql: include_str!(concat!("migrations/", $name, ".sql")),
            older: Older::$older,
        },)*];
    };
}

steps! {
    "V1__graph": Survive,
    "V2__retention": Survive,
    "V3__records": Survive,
    "V4__open_lists": Survive,
    "V5__quotas": Survive,
    "V6__event_numbers": Survive,
    "V7__lineages": Survive,
    "V8__heartbeats": Survive,
    "V9__rolling_upgrades": Survive,
    "V10__copied_lineages": Survive,
}

/// The first version that a schema can keep older servers from writing to.
const FENCES_FROM: i32 = 10;

impl Step {
    /// Keeps servers that do not know the version from writing: whoever has begun to write is waited for, and whoever
    /// begins later finds the version.
    fn sql(&self, version: i32) -> String {
        match self.older {
            Older::MustStop if version >= FENCES_FROM => format!(
                "LOCK TABLE meta IN ACCESS EXCLUSIVE MODE; UPDATE meta SET writers_from = {version};\n{}",
                self.sql
            ),
            _ => self.sql.to_owned(),
        }
    }

    pub(super) fn migration(&self, version: i32) -> Result<Migration> {
        let made = Migration::unapplied(self.name, &self.sql(version));
        made.map_err(|error| Error::internal("a migration of the schema cannot be used").caused_by(error))
    }
}

/// All with their versions.
pub(super) fn steps() -> impl Iterator<Item = (i32, &'static Step)> {
    (1..).zip(STEPS)
}

/// From which version on a server may write to a schema that has all of them.
pub(super) fn writers_from() -> i32 {
    let breaking = steps().filter(|(version, step)| step.older == Older::MustStop && *version >= FENCES_FROM);
    breaking.map(|(version, _)| version).max().unwrap_or_default()
}

/// The version this code brings a schema to.
pub(super) const fn newest() -> i32 {
    STEPS.len() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_from_one_without_a_gap() {
        for (version, step) in steps() {
            assert_eq!(step.migration(version).unwrap().version(), version, "{}", step.name);
        }
        assert_eq!(steps().last().unwrap().0, newest());
    }

    /// What an older server reads and writes must still be there.
    #[test]
    fn what_older_servers_survive_only_adds() {
        let harms = ["DROP TABLE", "DROP COLUMN", "RENAME", "ALTER COLUMN", "SET NOT NULL", "ADD CONSTRAINT"];
        for (_, step) in steps().filter(|(_, step)| step.older == Older::Survive) {
            let sql = step.sql.to_uppercase();
            for harm in harms {
                assert!(!sql.contains(harm), "{}: {harm}", step.name);
            }
            for added in sql.split(';').filter(|statement| statement.contains("ADD COLUMN")) {
                assert!(!added.contains("NOT NULL") || added.contains("DEFAULT"), "{}: {added}", step.name);
            }
        }
    }

    #[test]
    fn a_migration_that_older_servers_do_not_survive_keeps_them_from_writing() {
        let step = Step { name: "V11__contract", sql: "DROP TABLE outbox", older: Older::MustStop };
        let sql = step.sql(11);
        assert!(sql.starts_with("LOCK TABLE meta") && sql.contains("writers_from = 11;"), "{sql}");
        assert!(sql.ends_with("DROP TABLE outbox"));
    }
}
