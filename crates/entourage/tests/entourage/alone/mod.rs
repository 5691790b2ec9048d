//! Suites that measure time or memory beside a load: one test after the other, and no others beside them.

mod backup;
mod bounds;
mod fairness;
mod faults;
mod idle;
mod resp_flood;
mod resp_idle;
mod slow_reads;
mod standby;
mod takeover;
