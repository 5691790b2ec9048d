//! `INFO` and `CONFIG GET`, which clients send when they connect.

use std::fmt::Write;

use entourage_store::Health;

use super::no_subcommand;
use crate::resp::{
    args::Args,
    encode::Out,
    fail::Done,
    glob,
    session::Session,
    table::{Run, commands},
};

commands! {
    CONFIG "CONFIG" -2 Plain None Server "GET pattern …"
        "What clients ask for when they start; nothing can be set"
        Run::Now(Session::config);
    INFO "INFO" -1 Plain None Server "[section …]"
        "About the server, in lines"
        Run::Later(|session, args, out| Box::pin(session.info(args, out)));
}

/// Some clients choose features by version.
const REDIS_VERSION: &str = "7.4.0";

impl Session {
    async fn info(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let shared = &self.shared;
        let health = match self.service().health().await {
            Health::Ready => "ready",
            Health::Degraded(_) => "degraded",
        };
        let connected = shared.clients.count();
        let max = shared.front.resp.connections.max;
        let sections = [
            (
                "Server",
                format!(
                    "redis_version:{REDIS_VERSION}\r\nentourage_version:{}\r\nredis_mode:standalone\r\n\
                     process_id:{}\r\nuptime_in_seconds:{}\r\nhealth:{health}\r\n",
                    env!("CARGO_PKG_VERSION"),
                    std::process::id(),
                    shared.clients.uptime().as_secs(),
                ),
            ),
            ("Clients", format!("connected_clients:{connected}\r\nmaxclients:{max}\r\n")),
            ("Stats", format!("total_commands_processed:{}\r\n", shared.metrics.total())),
            ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
            ("Keyspace", String::new()),
        ];
        let is_asked = |name: &str| {
            args.len() == 1
                || args.rest(1).any(|word| {
                    [name, "all", "default", "everything"].iter().any(|one| word.eq_ignore_ascii_case(one.as_bytes()))
                })
        };
        let mut page = String::new();
        for (name, lines) in sections.iter().filter(|(name, _)| is_asked(name)) {
            let gap = if page.is_empty() { "" } else { "\r\n" };
            let _ = write!(page, "{gap}# {name}\r\n{lines}");
        }
        out.verbatim(&page);
        Ok(())
    }

    fn config(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        if !args.is(1, "GET") || args.len() < 3 {
            return Err(no_subcommand(args, &["GET"]));
        }
        let limits = &self.shared.front.resp;
        let settings = [
            // Writes are durable when answered, and there are no snapshots.
            ("appendonly", "yes".to_owned()),
            ("appendfsync", "always".to_owned()),
            ("save", String::new()),
            ("databases", "1".to_owned()),
            ("maxclients", limits.connections.max.to_string()),
            ("maxmemory", "0".to_owned()),
            ("proto-max-bulk-len", limits.bulk_bytes.to_string()),
            ("timeout", limits.idle.map_or(0, |idle| idle.as_secs()).to_string()),
        ];
        let is_asked =
            |name: &str| args.rest(2).any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()));
        let found: Vec<_> = settings.iter().filter(|(name, _)| is_asked(name)).collect();
        out.map(found.len());
        for (name, value) in found {
            out.text(name);
            out.text(value);
        }
        Ok(())
    }
}
