//! Fail points: places at which a test makes a thread panic, to see that others notice. Absent from release builds.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// Names the place that panics: `place`, or `place:7` from the seventh pass on, or `place:7:once` on the seventh only.
const VARIABLE: &str = "ENTOURAGE_TEST_PANIC";

struct Wanted {
    place: String,
    left: AtomicU64,
    is_once: bool,
}

/// Panics if the environment of a build with debug assertions names this place.
#[allow(clippy::panic, reason = "that is what it is for")]
pub fn fail_point(place: &str) {
    static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();
    if !cfg!(debug_assertions) {
        return;
    }
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok()?;
        let (text, is_once) = text.strip_suffix(":once").map_or((&*text, false), |text| (text, true));
        let (place, times) = text.split_once(':').unwrap_or((text, "1"));
        Some(Wanted { place: place.to_owned(), left: AtomicU64::new(times.parse().ok()?), is_once })
    });
    if let Some(wanted) = wanted
        && wanted.place == place
        && wanted.left.fetch_sub(1, Ordering::Relaxed) <= 1
    {
        wanted.left.store(if wanted.is_once { u64::MAX } else { 1 }, Ordering::Relaxed);
        panic!("asked for at {place}");
    }
}
