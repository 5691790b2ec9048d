//! Suites that leave out checks for the whole process: one test after the other, and no others beside them.

mod damage;
mod damage_kit;
