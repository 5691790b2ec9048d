//! The binary over PostgreSQL.

mod commands;
mod panics;
mod quotas;
mod servers;
