//! The binary over PostgreSQL.

mod commands;
mod growing;
mod migrate_schema;
mod panics;
mod quotas;
mod servers;
