//! `entourage import`: files of users, edges, groups and posts into a store that no server has open.

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::{ArgAction, Args, ValueEnum};
use entourage_model::{Clock, Error};
use entourage_server::{
    config::Settings,
    wire::{Wired, wire},
};
use entourage_service::import::{Contents, Form, Format, Import, Imported, ProgressFile, Rejects, Seen, Source, Tally};
use entourage_store::SystemClock;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{offline, progress};
use crate::settings::DataArguments;

const SAY_EVERY: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Files to read, also packed with gzip or zstd; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    data: DataArguments,
    /// How the files are written.
    #[arg(long, value_enum, default_value_t = FormatName::Auto)]
    format: FormatName,
    /// The files hold edges: for CSV without a header.
    #[arg(long, conflicts_with = "users")]
    edges: bool,
    /// The files hold users: for CSV without a header.
    #[arg(long)]
    users: bool,
    /// The files hold suggestions, as user,suggested,score: for CSV without a header.
    #[arg(long, conflicts_with_all = ["edges", "users"])]
    suggestions: bool,
    /// Which column is which, instead of a header: follower,target,created_at or author,created_at,body; _ passes over one.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with_all = ["edges", "users", "suggestions"])]
    columns: Option<Vec<String>>,
    /// With --columns: the first line is a header, pass over it.
    #[arg(long, requires = "columns")]
    header: bool,
    /// Each line is two edges, one in each direction.
    #[arg(long)]
    undirected: bool,
    /// Take times before 2000 as 2000 and times to come as now; otherwise such lines are rejected.
    #[arg(long)]
    clamp_times: bool,
    /// Make users that an edge names and nobody created; with false such edges are rejected.
    #[arg(long, value_name = "true|false", default_value_t = true, action = ArgAction::Set)]
    create_users: bool,
    /// Hold to limits.following_max, which imports otherwise do not.
    #[arg(long)]
    limits: bool,
    /// Only read and check the lines: the store is not opened and nothing changes.
    #[arg(long)]
    dry_run: bool,
    /// List rejected lines in this file: file, line, reason, text.
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatName {
    Auto,
    Csv,
    Ndjson,
    Snap,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let settings = Settings::check(&arguments.data.raw()?)?;
    let import = import(arguments, &settings);
    for source in &import.sources {
        if let Source::File(path) = source {
            std::fs::File::open(path).with_context(|| path.display().to_string())?;
        }
    }
    let began = Instant::now();
    let (imported, resumed, note) = if arguments.dry_run {
        (offline::block_on(check(arguments, &import))?, false, None)
    } else {
        offline::block_on(commit(arguments, &settings, &import))?
    };
    report(arguments, &import, &imported, resumed, began.elapsed())?;
    if let Some(note) = note {
        note.remove().context("removing the note of progress")?;
    }
    if imported.total().is_all_rejected() {
        bail!("every line was rejected");
    }
    Ok(())
}

fn import(arguments: &Arguments, settings: &Settings) -> Import {
    Import {
        sources: arguments.files.iter().map(|file| Source::named(file)).collect(),
        form: form(arguments),
        create_users: arguments.create_users,
        following_max: settings.following_max.filter(|_| arguments.limits),
        now: SystemClock.now(),
    }
}

fn form(arguments: &Arguments) -> Form {
    Form {
        format: match arguments.format {
            FormatName::Auto => Format::Auto,
            FormatName::Csv => Format::Csv,
            FormatName::Ndjson => Format::Ndjson,
            FormatName::Snap => Format::Snap,
        },
        contents: match (arguments.edges, arguments.users) {
            (true, _) => Some(Contents::Edges),
            (_, true) => Some(Contents::Users),
            _ => arguments.suggestions.then_some(Contents::Suggestions),
        },
        columns: arguments.columns.clone(),
        skips_header: arguments.header,
        undirected: arguments.undirected,
        clamps_times: arguments.clamp_times,
    }
}

async fn check(arguments: &Arguments, import: &Import) -> anyhow::Result<Imported> {
    let mut rejects = open_rejects(arguments, 0)?;
    let mut watch = Watch::new(import, 0);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let imported = import.check(&clock, rejects.as_mut(), |seen| watch.see(seen)).await?;
    watch.bar.finish_and_clear();
    Ok(imported)
}

async fn commit(
    arguments: &Arguments,
    settings: &Settings,
    import: &Import,
) -> anyhow::Result<(Imported, bool, Option<ProgressFile>)> {
    if settings.store_url.starts_with("memory:") {
        return Err(Error::invalid("store.url is memory:, where an import would be gone at its end").into());
    }
    let Wired { store, service, .. } = wire(settings).await.map_err(in_use)?;
    let folder = settings.data_dir.join("imports");
    let mut note = ProgressFile::open(&folder, import).with_context(|| folder.display().to_string())?;
    let resumed = note.as_ref().is_some_and(ProgressFile::is_resumed);
    if resumed {
        say("going on where an earlier run of this import was cut off")?;
    }
    let mut rejects = open_rejects(arguments, note.as_ref().map_or(0, ProgressFile::rejects_bytes))?;
    let mut watch = Watch::new(import, note.as_ref().map_or(0, ProgressFile::lines));
    let done = import.run(&service.transfer, note.as_mut(), rejects.as_mut(), |seen| watch.see(seen)).await;
    watch.bar.finish_and_clear();
    let closed = store.close().await;
    let imported = match done {
        Ok(imported) => imported,
        // Errors in a file will recur, so it is not retried.
        Err(error) if note.is_some() && error.code().is_retryable() => {
            return Err(anyhow::Error::from(error).context("the import stopped; the same command goes on from there"));
        }
        Err(error) => return Err(error.into()),
    };
    closed.context("closing the store")?;
    Ok((imported, resumed, note))
}

pub(super) fn in_use(error: Error) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    if offline::is_in_use(&error) {
        return error.context("a server is running on this store; stop it first, and start it again afterwards");
    }
    error
}

fn open_rejects(arguments: &Arguments, kept: u64) -> anyhow::Result<Option<Rejects>> {
    let open = |path: &PathBuf| Rejects::open(path, kept).with_context(|| path.display().to_string());
    arguments.rejects.as_ref().map(open).transpose()
}

/// A bar for people, lines for logs.
struct Watch {
    bar: ProgressBar,
    bytes: Option<u64>,
    began: Instant,
    said: Instant,
    /// Counted by an earlier run.
    lines_before: u64,
}

impl Watch {
    fn new(import: &Import, lines_before: u64) -> Self {
        let bytes: Option<u64> = import.sources.iter().map(Source::bytes).sum();
        let bar = match bytes {
            Some(bytes) => progress::import(bytes),
            None => progress::spinner("importing"),
        };
        Self { bar, bytes, began: Instant::now(), said: Instant::now(), lines_before }
    }

    fn see(&mut self, seen: &Seen<'_>) {
        let seconds = self.began.elapsed().as_secs_f64();
        let rate = seen.tally.lines.saturating_sub(self.lines_before) as f64 / seconds.max(1e-3);
        self.bar.set_position(seen.read_bytes);
        self.bar.set_message(format!("{} lines, {rate:.0}/s", seen.tally.lines));
        if std::io::stderr().is_terminal() || self.said.elapsed() < SAY_EVERY {
            return;
        }
        self.said = Instant::now();
        let share = self.bytes.filter(|bytes| *bytes > 0).map(|bytes| seen.read_bytes as f64 / bytes as f64);
        let left = share.filter(|share| *share > 0.0).map_or(String::new(), |share| {
            format!(", {:.0} %, {:.0} s left", share * 100.0, (seconds / share - seconds).max(0.0))
        });
        // Standard error may be closed.
        let _ = say(&format!("{} lines, {rate:.0}/s{left}", seen.tally.lines));
    }
}

fn say(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stderr(), "{text}")
}

fn report(
    arguments: &Arguments,
    import: &Import,
    imported: &Imported,
    resumed: bool,
    took: Duration,
) -> anyhow::Result<()> {
    let total = imported.total();
    let mut out = std::io::stdout();
    if arguments.json {
        let file = |(source, tally): (&Source, &Tally)| -> serde_json::Result<Value> {
            let mut value = serde_json::to_value(tally)?;
            value["file"] = source.name().into();
            Ok(value)
        };
        let files = import.sources.iter().zip(&imported.files).map(file).collect::<serde_json::Result<Vec<_>>>()?;
        let (dry_run, seconds) = (arguments.dry_run, took.as_secs_f64());
        let report =
            json!({ "dry_run": dry_run, "resumed": resumed, "files": files, "total": total, "seconds": seconds });
        writeln!(out, "{report}")?;
    } else {
        write_text(&total, arguments.dry_run, took, &mut out)?;
    }
    if total.rejected > 0 {
        match &arguments.rejects {
            Some(path) => say(&format!("{} rejected lines are listed in {}", total.rejected, path.display()))?,
            None => say("name a file with --rejects to see which lines were rejected, and why")?,
        }
    }
    Ok(())
}

/// Counts that most files do not have: created, updated, unchanged.
const fn others(total: &Tally) -> [(&'static str, [u64; 3]); 7] {
    [
        ("requests", [total.requests_created, 0, total.requests_unchanged]),
        ("blocks", [total.blocks_created, 0, total.blocks_unchanged]),
        ("mutes", [total.mutes_created, 0, total.mutes_unchanged]),
        ("groups", [total.groups_created, total.groups_updated, total.groups_unchanged]),
        ("members", [total.members_created, 0, total.members_unchanged]),
        ("posts", [total.posts_created, 0, total.posts_unchanged]),
        ("suggestions", [total.suggestions_created, total.suggestions_updated, total.suggestions_unchanged]),
    ]
}

fn write_text(total: &Tally, dry_run: bool, took: Duration, out: &mut impl Write) -> std::io::Result<()> {
    let seconds = took.as_secs_f64();
    writeln!(out, "lines     {} in {seconds:.1} s, {:.0}/s", total.lines, total.lines as f64 / seconds.max(1e-3))?;
    if dry_run {
        writeln!(out, "edges     {} are well-formed", total.edges_created)?;
        writeln!(out, "users     {} are well-formed", total.users_created)?;
        for (name, [created, ..]) in others(total).into_iter().filter(|(_, [created, ..])| *created > 0) {
            writeln!(out, "{name:<9} {created} are well-formed")?;
        }
    } else {
        writeln!(out, "edges     {} created, {} unchanged", total.edges_created, total.edges_unchanged)?;
        writeln!(
            out,
            "users     {} created, {} updated, {} unchanged; {} more because lines name them",
            total.users_created, total.users_updated, total.users_unchanged, total.users_added
        )?;
        for (name, counts) in others(total).into_iter().filter(|(_, counts)| counts.iter().any(|count| *count > 0)) {
            let [created, updated, unchanged] = counts;
            let updated = if updated > 0 { format!(", {updated} updated") } else { String::new() };
            writeln!(out, "{name:<9} {created} created{updated}, {unchanged} unchanged")?;
        }
    }
    let reasons: Vec<String> =
        total.rejected_by_reason.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    writeln!(out, "rejected  {}{reasons}", total.rejected)?;
    if dry_run {
        writeln!(out, "nothing was changed; what the store holds already was not looked at")?;
    }
    Ok(())
}
