//! Progress on standard error, if it is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TICK: Duration = Duration::from_millis(100);

/// Bytes done of a total that is known with the first step.
pub(super) fn bytes(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()).with_message(what);
    let template = "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Without a known total.
pub(super) fn spinner(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_message(what);
    bar.enable_steady_tick(TICK);
    bar
}

/// Bytes read of the total; the message says what they contained.
pub(super) fn import(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("importing {bar:30} {percent} % {msg}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
