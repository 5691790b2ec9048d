//! The fronts as a library: HTTP and RESP, who may use it, configuration, wiring, serving.

mod audit;
mod audit_throttle;
pub mod auth;
mod background;
pub mod config;
mod connection_limits;
mod file_watcher;
mod front;
pub mod http;
mod keep_alive;
mod metrics;
mod resp;
mod serve;
mod shutdown;
mod streams;
mod tls;
pub mod wire;
mod write_timeout;

pub use audit::Audit;
pub use background::work;
pub use front::{Connections, Front};
pub use resp::{FeedMember, RespLimits};
pub use serve::{Listeners, Stopped, bind, bind_resp, how_it_ended, serve};
pub use streams::{StreamLimits, Streams};
pub use tls::Tls;
