//! Places at which a test makes a thread panic, to see that the others notice. There are none in a release build.

use std::sync::OnceLock;

/// Names the place that is to panic.
const VARIABLE: &str = "ENTOURAGE_TEST_PANIC";

/// Panics if the environment of a build with debug assertions names this place.
#[allow(clippy::panic, reason = "that is what it is for")]
pub fn fail_point(place: &str) {
    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    if cfg!(debug_assertions) && NAMED.get_or_init(|| std::env::var(VARIABLE).ok()).as_deref() == Some(place) {
        panic!("asked for at {place}");
    }
}
