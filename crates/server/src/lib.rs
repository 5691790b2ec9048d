//! The fronts as a library: HTTP, configuration, wiring, serving.

pub mod config;
pub mod http;
mod metrics;
mod patience;
mod serve;
pub mod wire;

pub use serve::{Stopped, bind, serve};
