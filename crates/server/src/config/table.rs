//! The one table of settings: names, defaults, what each is for.

#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its path in TOML; in the environment `ENTOURAGE_SECTION__NAME`.
    pub name: &'static str,
    pub default: &'static str,
    pub help: &'static str,
}

const fn setting(name: &'static str, default: &'static str, help: &'static str) -> Setting {
    Setting { name, default, help }
}

/// Only what has an effect.
pub const SETTINGS: &[Setting] = &[
    setting("users.auto_create", "false", "ids exist on their first use in a write"),
    setting("limits.following_max", "10000", "active, pending and parked follows of one user; 0 is no bound"),
    setting("http.listen", "127.0.0.1:7070", "where HTTP listens; loopback only while there are no credentials"),
    setting("data.dir", "./entourage-data", "where the embedded store keeps its files"),
    setting(
        "store.url",
        "embedded:",
        "where truth lives: embedded: (data.dir), postgres://user@host/database, or memory: (gone with the process)",
    ),
    setting("log.retention", "7d", "how long events are kept"),
    setting("log.retain_bytes", "16GiB", "how many bytes of log are kept at most"),
    setting("log.segment_bytes", "64MiB", "size of one file of the log, taken from the disk ahead"),
    setting("checkpoint.entries", "2000000", "changes after which they are folded into blocks, at the least"),
    setting("history.retention", "90d", "how long a follow that ended stays in its follower's history"),
    setting("idempotency.ttl", "24h", "how long an Idempotency-Key replays its reply"),
    setting("memory.budget", "auto", "bytes the embedded store may hold in memory; auto is half of the machine's"),
];

pub(super) fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}
