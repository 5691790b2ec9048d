//! Settings as every command reads them: file, then environment, then flags.

use std::path::PathBuf;

use clap::Args;
use entourage_server::config::{ConfigError, Origin, Raw};

#[derive(Args, Debug)]
pub(crate) struct SettingsArguments {
    /// Read settings from this TOML file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keep data in this folder (data.dir).
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Listen for HTTP here (http.listen).
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
}

impl SettingsArguments {
    pub(crate) fn raw(&self) -> Result<Raw, ConfigError> {
        let mut raw = Raw::default();
        if let Some(path) = &self.config {
            raw.read_file(path)?;
        }
        raw.read_environment(
            std::env::vars_os()
                .filter_map(|(name, text)| Some((name.into_string().ok()?, text.to_string_lossy().into_owned()))),
        )?;
        let flags = [("data.dir", "--data", &self.data), ("http.listen", "--http", &self.http)];
        for (name, flag, text) in flags {
            if let Some(text) = text {
                raw.set(name, text, Origin::Flag(flag))?;
            }
        }
        Ok(raw)
    }
}
