//! Settings as values, each checked before anything starts.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use axum::http::Uri;
use entourage_service::{AbuseRules, FeedRules, Limits, RankerName, Roles, SignalRules, SuggestionRules};
use tracing::level_filters::LevelFilter;

use crate::{Connections, FeedMember, RespLimits, StreamLimits};

use super::{
    AuthSettings, ConfigError, Raw, TlsSettings, credentials,
    units::{bytes, count, duration, list},
};

/// If the machine's memory size is unknown.
const MEMORY_BUDGET_FALLBACK_BYTES: u64 = 2 << 30;

const ORIGINS: &str = "sites such as https://app.example or http://localhost:5173, without a path, a default port or *";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The format of the process log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    Json,
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub auto_create: bool,
    /// `None` is no bound.
    pub following_max: Option<u64>,
    pub limits: Limits,
    pub signals: SignalRules,
    pub auth: AuthSettings,
    pub roles: Roles,
    pub http_listen: SocketAddr,
    /// Origins whose pages may call, as browsers send them.
    pub cors_origins: Vec<String>,
    pub connections_max: usize,
    /// `None` is no limit.
    pub connections_per_address: Option<usize>,
    pub streams: StreamLimits,
    /// `None` is nowhere.
    pub resp_listen: Option<SocketAddr>,
    pub resp: RespLimits,
    pub tls: Option<TlsSettings>,
    pub audit_file: Option<PathBuf>,
    pub data_dir: PathBuf,
    pub store_url: String,
    pub log_retention: Duration,
    pub log_retain_bytes: u64,
    pub log_segment_bytes: u64,
    pub logging_format: LogFormat,
    pub logging_level: LevelFilter,
    pub logging_access: bool,
    pub checkpoint_entries: u64,
    pub idempotency_ttl: Duration,
    pub history_retention: Duration,
    pub notifications_retention: Duration,
    pub feed: FeedRules,
    pub suggestions: SuggestionRules,
    pub abuse: AbuseRules,
    /// `None` is never.
    pub audit_interval: Option<Duration>,
    pub memory_budget_bytes: u64,
    /// 0 is no cache.
    pub cache_budget_bytes: u64,
    pub cache_ttl: Duration,
    pub cache_max_stale: Duration,
    /// To PostgreSQL, besides those of commits.
    pub store_connections: usize,
}

impl Settings {
    pub fn check(raw: &Raw) -> Result<Self, ConfigError> {
        let above_zero = |time: &Duration| !time.is_zero();
        let following_max = raw.checked("limits.following_max", "a whole number up to 10^12, 0 for no bound", count)?;
        let auth = AuthSettings::check(raw)?;
        let memory_budget_bytes = raw.checked(
            "memory.budget",
            "auto, or a size such as 8GiB, above 0 and at most 1024TiB",
            |text| match text {
                "auto" => Some(half_of_memory()),
                _ => bytes(text).filter(|size| *size > 0),
            },
        )?;
        let up_to = |name| {
            let most = raw.checked(name, "a whole number up to 10^12, 0 for no limit", count)?;
            Ok((most > 0).then_some(most as usize))
        };
        let connections = |name| {
            raw.checked(name, "a whole number from 1 to 1000000", |text| {
                text.parse().ok().filter(|count| (1..=1_000_000).contains(count))
            })
        };
        Ok(Self {
            limits: limits(raw, &auth)?,
            auth,
            cors_origins: raw.checked("http.cors_origins", ORIGINS, origins)?,
            connections_max: connections("http.connections_max")?,
            connections_per_address: up_to("http.connections_per_address")?,
            streams: StreamLimits {
                per_user: up_to("http.streams_per_user")?,
                per_address: up_to("http.streams_per_address")?,
            },
            resp_listen: raw.checked("resp.listen", "an address such as 127.0.0.1:7071, or nothing", |text| {
                if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
            })?,
            resp: RespLimits {
                feed_member: raw.checked("feed.resp_member", "id or external_id", |text| match text {
                    "id" => Some(FeedMember::Id),
                    "external_id" => Some(FeedMember::ExternalId),
                    _ => None,
                })?,
                connections: Connections {
                    max: connections("resp.connections_max")?,
                    per_address: up_to("resp.connections_per_address")?,
                },
                idle: raw
                    .checked("resp.idle_timeout", "a time such as 10m, at most 36500d, 0s for ever", duration)
                    .map(|idle| Some(idle).filter(above_zero))?,
                arguments: raw.checked("resp.arguments_max", "a whole number from 16 to 65536", |text| {
                    text.parse().ok().filter(|count| (16..=65_536).contains(count))
                })?,
                bulk_bytes: raw.checked("resp.bulk_bytes", "a size from 1KiB to 1MiB", |text| {
                    bytes(text).filter(|size| (1 << 10..=1 << 20).contains(size)).map(|size| size as usize)
                })?,
            },
            tls: credentials::tls(raw)?,
            audit_file: credentials::file(raw, "audit.file")?,
            auto_create: raw.checked("users.auto_create", "true or false", |text| text.parse().ok())?,
            following_max: (following_max > 0).then_some(following_max),
            roles: raw.checked(
                "server.roles",
                "one or more of http, resp, fanout and jobs, with commas between, or read",
                Roles::parse,
            )?,
            http_listen: raw.checked("http.listen", "an address such as 127.0.0.1:7070", |text| text.parse().ok())?,
            data_dir: raw.checked("data.dir", "a path", |text| (!text.is_empty()).then(|| PathBuf::from(text)))?,
            store_url: raw.checked("store.url", "embedded:, memory: or postgres://…", |text| {
                text.contains(':').then(|| text.to_owned())
            })?,
            log_retention: raw.checked("log.retention", "a time such as 7d, above 0 and at most 36500d", |text| {
                duration(text).filter(above_zero)
            })?,
            log_retain_bytes: raw.checked("log.retain_bytes", "a size such as 16GiB, at most 1024TiB", bytes)?,
            log_segment_bytes: raw.checked("log.segment_bytes", "a size from 64KiB to 1GiB", |text| {
                bytes(text).filter(|size| (64 << 10..=1 << 30).contains(size))
            })?,
            logging_format: raw.checked("logging.format", "auto, json or text", |text| match text {
                "auto" => Some(LogFormat::Auto),
                "json" => Some(LogFormat::Json),
                "text" => Some(LogFormat::Text),
                _ => None,
            })?,
            logging_level: raw.checked("logging.level", "off, error, warn, info, debug or trace", |text| {
                text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_lowercase()))
            })?,
            logging_access: raw.checked("logging.access", "true or false", |text| text.parse().ok())?,
            checkpoint_entries: raw.checked("checkpoint.entries", "a whole number from 1 to 10^12", |text| {
                count(text).filter(|entries| *entries > 0)
            })?,
            idempotency_ttl: raw.checked(
                "idempotency.ttl",
                "a time such as 24h, above 0 and at most 36500d",
                |text| duration(text).filter(above_zero),
            )?,
            history_retention: raw.checked(
                "history.retention",
                "a time such as 90d, above 0 and at most 36500d",
                |text| duration(text).filter(above_zero),
            )?,
            notifications_retention: raw.checked(
                "notifications.retention",
                "a time such as 30d, above 0 and at most 36500d",
                |text| duration(text).filter(above_zero),
            )?,
            audit_interval: raw
                .checked("audit.interval", "a time such as 1h, at most 36500d, 0s for never", duration)
                .map(|interval| Some(interval).filter(above_zero))?,
            cache_budget_bytes: raw.checked(
                "cache.budget",
                "a size such as 256MiB, at most 1024TiB, 0 for none",
                bytes,
            )?,
            cache_ttl: raw.checked("cache.ttl", "a time such as 1h, above 0 and at most 36500d", |text| {
                duration(text).filter(above_zero)
            })?,
            cache_max_stale: raw.checked(
                "cache.max_stale",
                "a time such as 60s, at most 36500d, 0s for none",
                duration,
            )?,
            store_connections: raw.checked("store.connections", "a whole number from 1 to 1000", |text| {
                text.parse().ok().filter(|count| (1..=1_000).contains(count))
            })?,
            feed: feed(raw, memory_budget_bytes)?,
            suggestions: suggestions(raw)?,
            abuse: abuse(raw)?,
            signals: SignalRules {
                kept: raw.checked("suggestions.signal_days", "a whole number from 1 to 3650", |text| {
                    let days = text.parse().ok().filter(|days| (1..=3_650).contains(days))?;
                    Some(DAY * days)
                })?,
                ..SignalRules::default()
            },
            memory_budget_bytes,
        })
    }
}

/// As browsers write them, or they would never match: lower case, without default ports.
fn origins(text: &str) -> Option<Vec<String>> {
    let is_origin = |text: &str| {
        let uri: Uri = text.parse().ok()?;
        let (scheme, host) = (uri.scheme_str()?, uri.host()?);
        let written = match (scheme, uri.port_u16()) {
            ("http", Some(80)) | ("https", Some(443)) => return None,
            (_, Some(port)) => format!("{scheme}://{host}:{port}"),
            (_, None) => format!("{scheme}://{host}"),
        };
        (written == text && text == text.to_ascii_lowercase() && !text.contains('*')).then_some(())
    };
    list(text).map(|origin| is_origin(origin).map(|()| origin.to_owned())).collect()
}

/// Challenges need a key that verifies their proofs.
fn limits(raw: &Raw, auth: &AuthSettings) -> Result<Limits, ConfigError> {
    let limit = |name| {
        raw.checked(name, "a whole number up to 1000000, 0 for no limit", |text| {
            text.parse().ok().filter(|count| *count <= Limits::MAX)
        })
    };
    let challenge_after = limit("limits.challenge_after")?;
    Ok(Limits {
        follows_per_hour: limit("limits.follows_per_hour")?,
        follow_burst: limit("limits.follow_burst")?,
        requests_per_minute: limit("limits.requests_per_minute")?,
        follows_per_target_per_minute: limit("limits.follows_per_target_per_minute")?,
        challenge_after: if auth.challenge_key_file.is_some() { challenge_after } else { 0 },
        flips_per_day: limit("limits.flips_per_day")?,
    })
}

fn feed(raw: &Raw, memory_budget_bytes: u64) -> Result<FeedRules, ConfigError> {
    let above = raw.checked("feed.pull_above_following", "a whole number up to 10^12, 0 for nobody", count)?;
    let days: u32 = raw.checked("feed.active_days", "a whole number from 1 to 3650", |text| {
        text.parse().ok().filter(|days| (1..=3_650).contains(days))
    })?;
    Ok(FeedRules {
        celebrity_followers: raw.checked("feed.celebrity_followers", "a whole number from 1 to 10^12", |text| {
            count(text).filter(|followers| *followers > 0)
        })?,
        inbox_cap: raw.checked("feed.inbox_cap", "a whole number from 1 to 100000", |text| {
            text.parse().ok().filter(|cap| (1..=100_000).contains(cap))
        })?,
        active: DAY * days,
        pull_above_following: (above > 0).then_some(above),
        own_posts: raw.checked("feed.own_posts", "true or false", |text| text.parse().ok())?,
        inbox_budget_bytes: raw.checked(
            "feed.inbox_budget",
            "auto, or a size such as 1GiB, above 0 and at most 1024TiB",
            |text| match text {
                "auto" => Some((memory_budget_bytes / 4).max(1)),
                _ => bytes(text).filter(|size| *size > 0),
            },
        )?,
    })
}

fn suggestions(raw: &Raw) -> Result<SuggestionRules, ConfigError> {
    Ok(SuggestionRules {
        ttl: raw.checked("suggestions.ttl", "a time such as 24h, above 0 and at most 36500d", |text| {
            duration(text).filter(|time| !time.is_zero())
        })?,
        ranker: raw
            .checked("suggestions.ranker", "common, adamic_adar or recent", |text| RankerName::parse(text).ok())?,
        ..SuggestionRules::default()
    })
}

fn abuse(raw: &Raw) -> Result<AbuseRules, ConfigError> {
    let is = |name| raw.checked(name, "true or false", |text| text.parse().ok());
    let time = |name| {
        let right = "a time such as 7d, above 0 and at most 36500d";
        raw.checked(name, right, |text| duration(text).filter(|time| !time.is_zero()))
    };
    let threshold = |name| {
        raw.checked(name, "a whole number up to 1000000, 0 for none", |text| {
            count(text).filter(|count| *count <= AbuseRules::MAX.into()).map(|count| count as u32)
        })
    };
    let percent = |name| {
        raw.checked(name, "a whole number from 1 to 100", |text| {
            count(text).filter(|percent| (1..=100).contains(percent)).map(|percent| percent as u32)
        })
    };
    Ok(AbuseRules {
        detect: is("abuse.detect")?,
        auto_suspend: is("abuse.auto_suspend")?,
        quarantine: is("abuse.quarantine")?,
        fresh_account: time("abuse.fresh_account")?,
        cool_down: time("abuse.cool_down")?,
        pair_flips: threshold("abuse.pair_flips")?,
        follows_per_hour: threshold("abuse.follows_per_hour")?,
        churn_follows: threshold("abuse.churn_follows")?,
        churn_percent: percent("abuse.churn_percent")?,
        requests_per_hour: threshold("abuse.requests_per_hour")?,
        look_alikes: raw.checked("abuse.look_alikes", "a whole number from 2 to 16, or 0 for none", |text| {
            let is_fine = |compared: &u64| *compared != 1 && *compared <= AbuseRules::LOOK_ALIKES_MAX.into();
            count(text).filter(is_fine).map(|compared| compared as u32)
        })?,
        look_alike_window: time("abuse.look_alike_window")?,
        surge_followers: threshold("abuse.surge_followers")?,
        surge_fresh_percent: percent("abuse.surge_fresh_percent")?,
        cluster_size: threshold("abuse.cluster_size")?,
    })
}

fn half_of_memory() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo").ok();
    let total_kib = machine.as_deref().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    total_kib.map_or(MEMORY_BUDGET_FALLBACK_BYTES, |kib| kib * 1024 / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    #[test]
    fn the_defaults_are_valid() {
        let settings = Settings::check(&Raw::default()).unwrap();
        assert_eq!(settings.following_max, Some(10_000));
        assert_eq!(settings.limits, Limits::default());
        assert_eq!(settings.auth, AuthSettings::default());
        assert_eq!(settings.roles, Roles::ALL);
        assert_eq!(settings.http_listen.port(), 7070);
        assert_eq!(settings.resp_listen.map(|address| address.port()), Some(7071));
        assert_eq!(settings.resp, RespLimits::default());
        assert_eq!(settings.log_retain_bytes, 16 << 30);
        assert_eq!(settings.idempotency_ttl, Duration::from_secs(86_400));
        assert!(settings.memory_budget_bytes > 0);
        let inbox_budget_bytes = settings.memory_budget_bytes / 4;
        assert_eq!(settings.feed, FeedRules { inbox_budget_bytes, ..FeedRules::default() });
        assert_eq!(settings.abuse, AbuseRules::default());
    }

    #[test]
    fn wrong_values_are_refused_with_name_and_origin() {
        let cases = [
            ("users.auto_create", "yes"),
            ("limits.following_max", "-1"),
            ("limits.follows_per_hour", "many"),
            ("limits.follow_burst", "1000001"),
            ("limits.flips_per_day", "-1"),
            ("abuse.quarantine", "on"),
            ("suggestions.signal_days", "0"),
            ("suggestions.signal_days", "3651"),
            ("server.roles", ""),
            ("server.roles", "read,jobs"),
            ("store.connections", "0"),
            ("store.connections", "1001"),
            ("cache.max_stale", "60"),
            ("server.roles", "http,everything"),
            ("http.connections_max", "0"),
            ("http.connections_per_address", "few"),
            ("http.listen", "localhost"),
            ("http.cors_origins", "*"),
            ("http.cors_origins", "null"),
            ("http.cors_origins", "app.example"),
            ("http.cors_origins", "https://*.example"),
            ("http.cors_origins", "https://app.example/"),
            ("http.cors_origins", "https://App.example"),
            ("http.cors_origins", "https://app.example:443"),
            ("http.cors_origins", "https://me@app.example"),
            ("http.cors_origins", "https://app.example, http://"),
            ("resp.listen", "7071"),
            ("resp.connections_max", "0"),
            ("resp.idle_timeout", "10"),
            ("resp.arguments_max", "15"),
            ("resp.bulk_bytes", "2MiB"),
            ("data.dir", ""),
            ("store.url", "memory"),
            ("log.retention", "7"),
            ("log.retention", "0d"),
            ("log.retain_bytes", "16GB"),
            ("log.segment_bytes", "1KiB"),
            ("logging.format", "xml"),
            ("logging.level", "loud"),
            ("logging.level", "3"),
            ("logging.access", "1"),
            ("checkpoint.entries", "0"),
            ("idempotency.ttl", "a day"),
            ("memory.budget", "0"),
            ("feed.celebrity_followers", "0"),
            ("feed.celebrity_followers", "-5"),
            ("feed.inbox_cap", "0"),
            ("feed.inbox_cap", "100001"),
            ("feed.active_days", "0"),
            ("feed.active_days", "7d"),
            ("feed.pull_above_following", "some"),
            ("feed.own_posts", "yes"),
            ("feed.resp_member", "name"),
            ("feed.inbox_budget", "0"),
            ("feed.inbox_budget", "1GB"),
            ("abuse.detect", "yes"),
            ("abuse.auto_suspend", "on"),
            ("abuse.fresh_account", "0s"),
            ("abuse.cool_down", "7"),
            ("abuse.pair_flips", "-1"),
            ("abuse.follows_per_hour", "1000001"),
            ("abuse.churn_percent", "0"),
            ("abuse.surge_fresh_percent", "101"),
            ("abuse.look_alikes", "17"),
            ("abuse.look_alikes", "1"),
            ("abuse.cluster_size", "some"),
        ];
        for (name, text) in cases {
            let mut raw = Raw::default();
            raw.set(name, text, Origin::File("a.toml".to_owned())).unwrap();
            let error = Settings::check(&raw).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("a.toml"), "{error}");
        }
    }

    #[test]
    fn origins_are_those_that_browsers_send() {
        let mut raw = Raw::default();
        assert_eq!(Settings::check(&raw).unwrap().cors_origins, [""; 0]);
        let toml =
            "[http]\ncors_origins = [\"https://app.example\", \"http://localhost:5173\", \"capacitor://localhost\"]";
        raw.read_toml(toml, "a.toml").unwrap();
        let wanted = ["https://app.example", "http://localhost:5173", "capacitor://localhost"];
        assert_eq!(Settings::check(&raw).unwrap().cors_origins, wanted);
        raw.set("http.cors_origins", "https://app.example,http://[::1]:80443", Origin::Flag("--set")).unwrap();
        assert!(Settings::check(&raw).is_err(), "there is no such port");
        raw.set("http.cors_origins", "https://app.example,https://[::1]:8443", Origin::Flag("--set")).unwrap();
        assert_eq!(Settings::check(&raw).unwrap().cors_origins, ["https://app.example", "https://[::1]:8443"]);
    }

    #[test]
    fn no_bound_is_zero() {
        let mut raw = Raw::default();
        for name in ["limits.following_max", "feed.pull_above_following"] {
            raw.set(name, "0", Origin::Flag("--set")).unwrap();
        }
        let settings = Settings::check(&raw).unwrap();
        assert_eq!((settings.following_max, settings.feed.pull_above_following), (None, None));
    }

    #[test]
    fn inboxes_have_a_quarter_of_the_memory_unless_said_otherwise() {
        let mut raw = Raw::default();
        raw.set("memory.budget", "8GiB", Origin::Flag("--set")).unwrap();
        assert_eq!(Settings::check(&raw).unwrap().feed.inbox_budget_bytes, 2 << 30);
        raw.set("feed.inbox_budget", "64MiB", Origin::Flag("--set")).unwrap();
        raw.set("feed.active_days", "30", Origin::Flag("--set")).unwrap();
        let feed = Settings::check(&raw).unwrap().feed;
        assert_eq!((feed.inbox_budget_bytes, feed.active), (64 << 20, 30 * DAY));
    }

    #[test]
    fn challenges_need_a_key() {
        let mut raw = Raw::default();
        assert_eq!(Settings::check(&raw).unwrap().limits.challenge_after, 0);
        raw.set("limits.challenge_key_file", "secret", Origin::Flag("--set")).unwrap();
        assert_eq!(Settings::check(&raw).unwrap().limits.challenge_after, 50);
    }
}
