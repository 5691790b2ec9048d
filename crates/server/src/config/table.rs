//! The one table of settings: names, defaults, what each is for.

#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its path in TOML; in the environment `ENTOURAGE_SECTION__NAME`.
    pub name: &'static str,
    pub default: &'static str,
    pub help: &'static str,
    /// Several values: an array in TOML, or comma-separated text.
    pub is_list: bool,
}

const fn setting(name: &'static str, default: &'static str, help: &'static str) -> Setting {
    Setting { name, default, help, is_list: false }
}

const fn list(name: &'static str, help: &'static str) -> Setting {
    Setting { name, default: "", help, is_list: true }
}

/// Every setting has an effect.
pub const SETTINGS: &[Setting] = &[
    setting("users.auto_create", "false", "ids exist on their first use in a write"),
    setting("limits.following_max", "10000", "active, pending and parked follows of one user; 0 is no bound"),
    setting("limits.follows_per_hour", "200", "new follows of one user an hour; 0 is no limit"),
    setting("limits.follow_burst", "100", "how many of them at once; 0 is as many as an hour has"),
    setting("limits.requests_per_minute", "600", "requests of one end user a minute; 0 is no limit"),
    setting("limits.follows_per_target_per_minute", "0", "new follows of one target a minute; 0 is no limit"),
    setting("limits.challenge_after", "50", "follows in an hour after which more need a solved challenge; 0 is never"),
    setting("limits.challenge_key_file", "", "secret that proofs of solved challenges are signed with; empty is none"),
    setting("limits.flips_per_day", "3", "how often an edge may be followed and unfollowed a day; 0 is no limit"),
    setting(
        "abuse.quarantine",
        "false",
        "follows of fresh accounts are parked while their target sees a surge of them",
    ),
    setting("auth.jwt.algorithm", "", "how users' tokens are signed, such as RS256; empty is no tokens"),
    list("auth.jwt.key_file", "secret or public keys of tokens; several files with commas between"),
    setting("auth.jwt.issuer", "", "the claim iss of every token"),
    setting("auth.jwt.audience", "", "what the claim aud of every token must name"),
    setting("auth.service_keys_file", "", "service keys as `entourage key` writes them; empty is none"),
    list("auth.service_keys", "service keys as `entourage key new --print` prints them, besides those of the file"),
    Setting {
        name: "server.roles",
        default: "http,resp,fanout,jobs",
        help: "what this server is there for: http, resp, fanout, jobs, or some of them; or read: it only answers reads",
        is_list: true,
    },
    setting("http.listen", "127.0.0.1:7070", "where HTTP listens; loopback only while there are no credentials"),
    list("http.cors_origins", "sites whose pages may call, such as https://app.example; empty is none"),
    setting("http.connections_max", "8192", "open connections; more of them wait"),
    setting("http.connections_per_address", "256", "open connections of one address, loopback apart; 0 is no limit"),
    setting("http.streams_per_user", "16", "open streams of one acting user; 0 is no limit"),
    setting("http.streams_per_address", "128", "open streams of one address, loopback apart; 0 is no limit"),
    setting("resp.listen", "127.0.0.1:7071", "where RESP listens, as http.listen; empty is nowhere"),
    setting("resp.connections_max", "10000", "open connections; more of them are told so and closed"),
    setting("resp.connections_per_address", "256", "open connections of one address, loopback apart; 0 is no limit"),
    setting("resp.idle_timeout", "10m", "how long a connection may be silent; 0s is for ever"),
    setting("resp.arguments_max", "1024", "words of one command"),
    setting("resp.bulk_bytes", "16KiB", "bytes of one word"),
    setting("tls.cert_file", "", "certificates for HTTPS in PEM, the server's own first; empty is no TLS"),
    setting("tls.key_file", "", "the certificate's private key in PEM"),
    setting("audit.file", "", "where the audit log is written; empty is standard error"),
    setting("data.dir", "./entourage-data", "where the embedded store keeps its files"),
    setting(
        "store.url",
        "embedded:",
        "where truth lives: embedded: (data.dir), postgres://user@host/database, or memory: (gone with the process; memory:?homes=16 in 16 homes that settle)",
    ),
    setting("log.retention", "7d", "how long events are kept"),
    setting("log.retain_bytes", "16GiB", "how many bytes of log are kept at most"),
    setting("log.segment_bytes", "64MiB", "size of one file of the log, taken from the disk ahead"),
    setting("logging.format", "auto", "how the process logs: text, json, or auto: text on a terminal, json elsewhere"),
    setting("logging.level", "info", "how much the process logs: off, error, warn, info, debug or trace"),
    setting("logging.access", "true", "one line at info for each request"),
    setting("checkpoint.entries", "2000000", "changes after which they are folded into blocks, at the least"),
    setting("history.retention", "90d", "how long a follow that ended stays in its follower's history"),
    setting("notifications.retention", "30d", "how long a notification is shown"),
    setting(
        "feed.celebrity_followers",
        "100000",
        "from so many followers on an author's posts are read from the author",
    ),
    setting("feed.inbox_cap", "1000", "posts of one inbox; older ones are read from their authors"),
    setting("feed.active_days", "7", "who was not seen for so many days has no inbox until they read again"),
    setting("feed.pull_above_following", "5000", "who follows more than these has no inbox; 0 is nobody"),
    setting("feed.own_posts", "true", "a feed has its reader's own posts too"),
    setting("feed.resp_member", "id", "what names a post in feed:{u} over RESP: id, or external_id where there is one"),
    setting("feed.inbox_budget", "auto", "bytes all inboxes may take; auto is a quarter of memory.budget"),
    setting("suggestions.ttl", "24h", "how long imported suggestions count"),
    setting("suggestions.ranker", "common", "what orders friends of friends: common, adamic_adar or recent"),
    setting("abuse.detect", "true", "whether this server looks for abuse"),
    setting("abuse.auto_suspend", "false", "an open case pauses its actors' right to follow until it is closed"),
    setting("abuse.fresh_account", "7d", "accounts that registered less than this ago are fresh"),
    setting("abuse.cool_down", "7d", "for so long after it was closed a case is not opened again"),
    setting("abuse.pair_flips", "10", "how often one edge ends within 7 days until that is a case; 0 is never"),
    setting("abuse.follows_per_hour", "250", "new follows of one user an hour that are a case; 0 is none"),
    setting("abuse.churn_follows", "50", "follows of one user over within 48 hours that are a case; 0 is none"),
    setting("abuse.churn_percent", "50", "their share of what the user followed in that time, at the least"),
    setting("abuse.requests_per_hour", "100", "requests of one user an hour that are a case; 0 is none"),
    setting("abuse.look_alikes", "10", "how many of a user's last targets are compared, up to 16; 0 is none"),
    setting("abuse.look_alike_window", "24h", "within which time all of them registered"),
    setting("abuse.surge_followers", "200", "new followers of one target an hour that may be a case; 0 is none"),
    setting("abuse.surge_fresh_percent", "70", "the share of fresh accounts among them, at the least"),
    setting("abuse.cluster_size", "20", "accounts that follow the same targets and are a case; 0 is none"),
    setting("suggestions.signal_days", "30", "days for which a reported profile view counts, halving five times"),
    setting("audit.interval", "1h", "time in which everybody's lists and counts are compared once; 0s is never"),
    setting("idempotency.ttl", "24h", "how long an Idempotency-Key replays its reply"),
    setting("cache.budget", "256MiB", "bytes of PostgreSQL's rows and ids held in memory; 0 is none"),
    setting("cache.ttl", "1h", "age at which a row that is held is read again, whatever is known of it"),
    setting("cache.max_stale", "60s", "how old an answer from memory may be while PostgreSQL is away; 0s is none"),
    setting("store.connections", "16", "connections to PostgreSQL besides those of commits"),
    setting("memory.budget", "auto", "bytes the embedded store may hold in memory; auto is half of the machine's"),
];

/// Names of earlier versions, for an error that says what to write instead.
const RENAMED: &[(&str, &str)] =
    &[("log.format", "logging.format"), ("log.level", "logging.level"), ("log.access", "logging.access")];

/// The present name of a setting that was renamed.
pub(super) fn renamed(name: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(old, _)| *old == name).map(|(_, new)| *new)
}

pub(super) fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}
