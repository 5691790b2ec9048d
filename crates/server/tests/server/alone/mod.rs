//! Suites that measure the memory of the whole process: one test after the other, and no others beside them.

mod slow_clients;
