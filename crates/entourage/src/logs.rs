//! Logs on standard error: for people on a terminal, as JSON elsewhere. `RUST_LOG` chooses what is logged.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// The migration library tells of each step, with paths of the machine that built it.
const WHAT_IS_LOGGED: &str = "info,refinery=warn,refinery_core=warn";

pub(crate) fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(WHAT_IS_LOGGED));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process keeps the first one's logs.
    let _ = if std::io::stderr().is_terminal() {
        logs.with_target(false).try_init()
    } else {
        logs.json().flatten_event(true).try_init()
    };
}
