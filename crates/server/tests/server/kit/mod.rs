//! What several suites need: servers to talk to, clients, tables of requests and replies, stores that lie.

pub(crate) mod credentials;
pub(crate) mod described;
pub(crate) mod faulty;
pub(crate) mod feed_random;
pub(crate) mod recorded;
pub(crate) mod redis_kit;
pub(crate) mod replayed;
pub(crate) mod rules_front;
pub(crate) mod server;
pub(crate) mod streaming;
pub(crate) mod table;
pub(crate) mod through;
pub(crate) mod wire;
