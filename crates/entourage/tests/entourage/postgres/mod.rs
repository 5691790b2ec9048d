//! The binary over PostgreSQL.

mod commands;
mod migrate_schema;
mod panics;
mod quotas;
mod servers;
