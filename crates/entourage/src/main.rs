//! The one binary: parses arguments, runs one command, and exits with its code.

mod commands;
mod exit;
mod logs;
mod output;
mod settings;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    backup, bench, client, completions, config, doctor, export, import, key, migrate_schema, reconcile, restore, serve,
    token, verify, version,
};

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
    /// Read follows and users from files into a store.
    Import(import::Arguments),
    /// Write follows and users of a store into a file.
    Export(export::Arguments),
    /// Check a store: both directions, counts, digests, the log.
    Verify(verify::Arguments),
    /// Compare counts with lists and both directions of edges, and set counts right.
    Reconcile(reconcile::Arguments),
    /// Bring the schema of a database to the version of this server, or say what is pending.
    MigrateSchema(migrate_schema::Arguments),
    /// Copy a store into a folder, also while a server runs on it.
    Backup(backup::Arguments),
    /// Make a store from a backup, and check it.
    Restore(restore::Arguments),
    /// Show the configuration.
    Config(config::Arguments),
    /// Make, list and revoke service keys.
    Key(key::Arguments),
    /// Put load on a running server and show how long its answers take.
    Bench(bench::Arguments),
    /// Look for what would keep a server from running well, and say what to do.
    Doctor(doctor::Arguments),
    /// Make a token for trying things out.
    Token(token::Arguments),
    /// Print what a shell needs to complete commands.
    Completions(completions::Arguments),
    #[command(flatten)]
    Client(client::Verb),
    /// Say which version this is.
    Version(version::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Reconcile(arguments) => reconcile::run(&arguments),
        Command::MigrateSchema(arguments) => migrate_schema::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Key(arguments) => key::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Token(arguments) => token::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Client(verb) => verb.run(),
        Command::Version(arguments) => version::run(&arguments),
    };
    exit::code(result)
}
