//! The fronts as a library: HTTP, who may use it, configuration, wiring, serving.

mod audit;
pub mod auth;
pub mod config;
mod front;
pub mod http;
mod metrics;
mod patience;
mod serve;
mod strangers;
mod tls;
mod watched;
pub mod wire;
mod work;

pub use audit::Audit;
pub use front::{Connections, Front};
pub use serve::{Stopped, bind, serve};
pub use tls::Tls;
pub use work::work;
