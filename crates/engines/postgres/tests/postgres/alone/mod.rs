//! Suites with transactions that are held open. Events of every schema wait behind an open transaction of the same server, so
//! these run one test after the other, and no others beside them.

mod held_transactions;
mod races;
