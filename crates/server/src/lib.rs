//! The fronts as a library: HTTP and RESP, who may use it, configuration, wiring, serving.

mod addresses;
mod audit;
pub mod auth;
pub mod config;
mod front;
pub mod http;
mod metrics;
mod patience;
mod resp;
mod serve;
mod strangers;
mod tls;
mod watched;
pub mod wire;
mod work;

pub use audit::Audit;
pub use front::{Connections, Front};
pub use resp::RespLimits;
pub use serve::{Listeners, Stopped, bind, bind_resp, serve};
pub use tls::Tls;
pub use work::work;
