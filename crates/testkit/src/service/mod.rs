//! What the tests of the service and of the fronts share: references for rules, feeds and notifications, random runs
//! against them, and services over stores that settle.

#![allow(async_fn_in_trait, reason = "fronts of tests are used as they are, never as trait objects")]

pub mod feed;
pub mod front;
pub mod homes;
pub mod import;
pub mod mistakes;
pub mod notifications;
pub mod rules;
