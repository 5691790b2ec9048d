//! What a command prints: text for people, or JSON for programs.

use std::io::{Stdout, Write};

use clap::Args;
use serde_json::Value;

#[derive(Args, Debug)]
pub(crate) struct Output {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Output {
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    pub(crate) fn print(
        &self,
        json: impl FnOnce() -> Value,
        text: impl FnOnce(&mut Stdout) -> std::io::Result<()>,
    ) -> anyhow::Result<()> {
        let mut out = std::io::stdout();
        if self.json {
            writeln!(out, "{}", json())?
        } else {
            text(&mut out)?
        }
        Ok(())
    }
}
