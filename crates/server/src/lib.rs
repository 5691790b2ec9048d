//! The fronts as a library: HTTP and RESP, who may use it, configuration, wiring, serving.

mod audit;
pub mod auth;
pub mod config;
mod front;
pub mod http;
mod keep_alive;
mod metrics;
mod patience;
mod places;
mod resp;
mod serve;
mod stopping;
mod strangers;
mod streams;
mod tls;
mod watched;
pub mod wire;
mod work;

pub use audit::Audit;
pub use front::{Connections, Front};
pub use resp::{FeedMember, RespLimits};
pub use serve::{Listeners, Stopped, bind, bind_resp, how_it_ended, serve};
pub use streams::{StreamLimits, Streams};
pub use tls::Tls;
pub use work::work;
