//! Settings as every command reads them: file, then environment, then flags.

use std::path::PathBuf;

use clap::Args;
use entourage_server::config::{ConfigError, Origin, Raw};

#[derive(Args, Debug)]
pub(crate) struct SettingsArguments {
    #[command(flatten)]
    data: DataArguments,
    /// Listen for HTTP here (http.listen).
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Listen for RESP here (resp.listen).
    #[arg(long, value_name = "ADDR")]
    resp: Option<String>,
    /// Be there for these alone: http, resp, fanout, jobs; or read, which writes nothing (server.roles).
    #[arg(long, value_name = "ROLES")]
    roles: Option<String>,
}

/// For commands that work on the data alone.
#[derive(Args, Debug)]
pub(crate) struct DataArguments {
    /// Read settings from this TOML file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keep data in this folder (data.dir).
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
}

impl SettingsArguments {
    pub(crate) fn raw(&self) -> Result<Raw, ConfigError> {
        let mut raw = self.data.raw()?;
        if let Some(text) = &self.http {
            raw.set("http.listen", text, Origin::Flag("--http"))?;
        }
        if let Some(text) = &self.resp {
            raw.set("resp.listen", text, Origin::Flag("--resp"))?;
        }
        if let Some(text) = &self.roles {
            raw.set("server.roles", text, Origin::Flag("--roles"))?;
        }
        Ok(raw)
    }
}

impl DataArguments {
    /// Whether a flag says where the data is.
    pub(crate) const fn is_given(&self) -> bool {
        self.config.is_some() || self.data.is_some()
    }

    pub(crate) fn raw(&self) -> Result<Raw, ConfigError> {
        let mut raw = Raw::default();
        if let Some(path) = &self.config {
            raw.read_file(path)?;
        }
        raw.read_environment(
            std::env::vars_os()
                .filter_map(|(name, text)| Some((name.into_string().ok()?, text.to_string_lossy().into_owned()))),
        )?;
        if let Some(text) = &self.data {
            raw.set("data.dir", text, Origin::Flag("--data"))?;
        }
        Ok(raw)
    }
}
