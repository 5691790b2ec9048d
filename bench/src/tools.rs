//! The programs that a measurement starts: whether they exist, and their versions.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result};

use crate::arguments::Measurement;

#[derive(Clone, Copy)]
enum Tool {
    Redis,
    Postgres,
    Wrk,
}

const fn tools(measurement: Measurement) -> &'static [Tool] {
    match measurement {
        Measurement::Rest => &[Tool::Wrk],
        Measurement::Resp | Measurement::Structures => &[Tool::Redis, Tool::Postgres],
        Measurement::Postgres | Measurement::Cached => &[Tool::Postgres],
        Measurement::Feed => &[Tool::Redis],
        Measurement::Suggest => &[Tool::Wrk, Tool::Redis, Tool::Postgres],
        _ => &[],
    }
}

/// The versions of what a measurement starts; an error says what to install.
pub(crate) fn versions(measurement: Measurement) -> Result<Vec<String>> {
    tools(measurement).iter().map(|tool| tool.version()).collect()
}

impl Tool {
    fn version(self) -> Result<String> {
        let (program, argument, package) = match self {
            Self::Redis => (PathBuf::from("redis-server"), "--version", "redis-server"),
            Self::Postgres => (postgres_program("postgres"), "--version", "postgresql"),
            Self::Wrk => (PathBuf::from("wrk"), "--version", "wrk"),
        };
        let output = Command::new(&program).arg(argument).output();
        let output =
            output.with_context(|| format!("{}: install it with: apt-get install {package}", program.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        self.read(&said).with_context(|| format!("{} says {said:?}", program.display()))
    }

    /// Redis says `Redis server v=7.0.15 sha=…`, PostgreSQL `postgres (PostgreSQL) 15.1 (…)`, wrk `wrk 4.1.0 […`.
    fn read(self, said: &str) -> Option<String> {
        let mut words = said.split_whitespace();
        match self {
            Self::Redis => words.find_map(|word| word.strip_prefix("v=")).map(|version| format!("Redis {version}")),
            Self::Postgres => words.nth(2).map(|version| format!("PostgreSQL {version}")),
            Self::Wrk => words.nth(1).map(|version| format!("wrk {version}")),
        }
    }
}

/// A program of the newest PostgreSQL installed; Debian keeps some of them beside the server, not on the path.
pub(crate) fn postgres_program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.filter_map(|version| {
        let number: u32 = version.file_name().to_str()?.parse().ok()?;
        let path = version.path().join("bin").join(name);
        path.exists().then_some((number, path))
    });
    found.max().map_or_else(|| PathBuf::from(name), |(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_programs_say() {
        for (tool, said, version) in [
            (Tool::Redis, "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", Some("Redis 7.0.15")),
            (Tool::Postgres, "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", Some("PostgreSQL 15.18")),
            (Tool::Wrk, "wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer", Some("wrk debian/4.1.0-3+b2")),
            (Tool::Redis, "", None),
        ] {
            assert_eq!(tool.read(said).as_deref(), version);
        }
    }
}
