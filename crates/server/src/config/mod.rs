//! Configuration in two steps: raw text by name with its origin, then checked values.
//! Flag beats environment beats file beats default.

mod checked;
mod credentials;
mod raw;
mod secrets;
mod table;
mod units;

pub use checked::{LogFormat, Settings};
pub use credentials::{AuthSettings, TlsSettings};
pub use raw::{Origin, Raw, RawValue};
pub use secrets::without_secrets;
pub use table::{SETTINGS, Setting};
pub use units::{DURATION_MAX, duration};

/// What is wrong with a configuration, and how to correct it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{origin}: there is no setting {name}; `entourage config print` lists them all")]
    Unknown { name: String, origin: String },
    #[error("{origin}: {name} is called {new} now")]
    Renamed { name: String, new: &'static str, origin: String },
    #[error("{origin}: {name} = {text:?} is not valid: expected {expected}")]
    Invalid { name: &'static str, text: String, expected: &'static str, origin: String },
    #[error("{file}: {detail}")]
    File { file: String, detail: String },
}
