//! The one binary: reads arguments, runs one command, says by its exit code how that went.

mod commands;
mod exit;
mod logs;
mod settings;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{backup, config, key, restore, serve, verify, version};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A social graph and feed server.
#[derive(Parser)]
#[command(name = "entourage", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server.
    Serve(serve::Arguments),
    /// Check a store: both directions, counts, digests, the log.
    Verify(verify::Arguments),
    /// Copy a store into a folder, also while a server runs on it.
    Backup(backup::Arguments),
    /// Make a store from a backup, and check it.
    Restore(restore::Arguments),
    /// Show the configuration.
    Config(config::Arguments),
    /// Make, list and revoke service keys.
    Key(key::Arguments),
    /// Say which version this is.
    Version(version::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Key(arguments) => key::run(&arguments),
        Command::Version(arguments) => version::run(&arguments),
    };
    exit::code(result)
}
