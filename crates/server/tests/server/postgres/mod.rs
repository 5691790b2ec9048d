//! The fronts over PostgreSQL.

mod away;
mod clock;
mod down;
mod feed_wire;
mod http;
mod replays;
mod rules;
mod worlds;
