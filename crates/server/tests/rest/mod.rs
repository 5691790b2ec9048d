//! Tables of request and reply, one file a topic.

mod blocks;
mod checks;
mod consistency;
mod events;
mod faults;
mod faulty;
mod follows;
mod idempotency;
mod limits;
mod lists;
mod page;
mod probes;
mod random;
mod recorded;
mod server;
mod stopping;
mod table;
mod through;
mod users;
mod visibility;
