//! `entourage completions`: what a shell needs to complete commands and flags.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    clap_complete::generate(arguments.shell, &mut crate::Arguments::command(), "entourage", &mut std::io::stdout());
    Ok(())
}
