//! Logging to standard error as configured; `RUST_LOG` overrides the filter.

use std::io::{IsTerminal, Stderr, Write};

use entourage_server::config::{LogFormat, Settings};
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// Lines beyond these are lost if the reader is slow: a server must not block on its log.
const LINES_WAITING_MAX: usize = 16_384;

/// Lines are written by a thread that ends when the guard is dropped.
pub(crate) fn start(settings: &Settings) -> WorkerGuard {
    let terminal = std::io::stderr().is_terminal();
    let (writer, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(LINES_WAITING_MAX).finish(Lines(std::io::stderr()));
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(what_is_logged(settings)));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let text = match settings.logging_format {
        LogFormat::Auto => terminal,
        LogFormat::Json => false,
        LogFormat::Text => true,
    };
    // A second start in one process keeps the first subscriber.
    let _ = if text {
        logs.with_ansi(terminal).with_target(false).try_init()
    } else {
        logs.json().flatten_event(true).try_init()
    };
    guard
}

/// Writes whole lines, because other threads write to standard error too.
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
    // The migration library logs each step, with paths of the build machine.
    let quiet = settings.logging_level.min(LevelFilter::WARN);
    let access = if settings.logging_access { "" } else { ",entourage::access=off" };
    format!("{},refinery={quiet},refinery_core={quiet}{access}", settings.logging_level)
}
