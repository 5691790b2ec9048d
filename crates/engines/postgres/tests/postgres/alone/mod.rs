//! Suites with transactions that are held open, connections that are cut, and counted sessions: one test after the
//! other, and no others beside them.

mod away;
mod chunks;
mod failover;
mod group_commit;
mod held_transactions;
mod lost_answers;
mod one_lock;
mod races;
mod restore;
mod standby_reads;
mod tls;
