//! Logs on standard error, as the settings say. `RUST_LOG`, where it is set, chooses what is logged instead.

use std::io::{IsTerminal, Stderr, Write};

use entourage_server::config::{LogFormat, Settings};
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// When whoever reads the logs is slower than they come, lines beyond these are lost: a server that waits for its
/// log is down.
const LINES_WAITING_MAX: usize = 16_384;

/// What is logged is written by a thread of its own, until what is returned goes.
pub(crate) fn start(settings: &Settings) -> WorkerGuard {
    let terminal = std::io::stderr().is_terminal();
    let (writer, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(LINES_WAITING_MAX).finish(Lines(std::io::stderr()));
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(what_is_logged(settings)));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let text = match settings.log_format {
        LogFormat::Auto => terminal,
        LogFormat::Json => false,
        LogFormat::Text => true,
    };
    // A second start in one process keeps the first one's logs.
    let _ = if text {
        logs.with_ansi(terminal).with_target(false).try_init()
    } else {
        logs.json().flatten_event(true).try_init()
    };
    guard
}

/// Whole lines, as standard error takes them: others write to it, too.
struct Lines(Stderr);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        entourage_store::fail_point("log");
        self.0.write_all(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn what_is_logged(settings: &Settings) -> String {
    // The migration library tells of each step, with paths of the machine that built it.
    let quiet = settings.log_level.min(LevelFilter::WARN);
    let access = if settings.log_access { "" } else { ",entourage::access=off" };
    format!("{},refinery={quiet},refinery_core={quiet}{access}", settings.log_level)
}
