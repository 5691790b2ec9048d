//! The service over PostgreSQL.

mod accept;
mod clock;
mod feed;
mod mistakes;
mod notifications;
mod quarantine;
mod random;
mod scheduler;
