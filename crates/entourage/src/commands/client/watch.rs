//! `watch`: follows a feed across reconnects and server restarts.

use std::{collections::VecDeque, io::Write, time::Duration};

use clap::Args;
use entourage_model::{Code, Error};
use serde_json::Value;

use super::{
    connection::{Connection, part},
    feed::page,
    paging::query,
    posts, sse, table,
};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How many posts are read to fill a gap; there may be more.
const GAP_MAX: usize = 1_000;
const GAP_PAGE: u32 = 200;
/// How many shown posts are remembered, to show none twice.
const SHOWN_KEPT: usize = 2_000;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Whose feed.
    user: String,
    /// End after so many posts.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    connection: Connection,
}

struct Watch<'a> {
    user: &'a str,
    connection: &'a Connection,
    left: Option<u64>,
    /// Where the stream resumes.
    last_event: Option<String>,
    /// The newest post at the start, or shown since.
    newest: u64,
    shown: VecDeque<u64>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { user, count, connection } = arguments;
    let newest = page(connection, user, &query(1, None))?["data"].get(0).map_or(0, id);
    let mut watch = Watch { user, connection, left: *count, last_event: None, newest, shown: VecDeque::new() };
    let (mut pause, mut is_first) = (FIRST_PAUSE, true);
    while watch.left != Some(0) {
        match watch.follow() {
            Ok(()) => pause = FIRST_PAUSE,
            // Do not retry a server that was never reached.
            Err(error) if is_first || !is_passing(&error) => return Err(error),
            Err(error) => {
                tell(&format!("{error:#}; trying again"))?;
                std::thread::sleep(pause);
                pause = LONGEST_PAUSE.min(2 * pause);
            }
        }
        is_first = false;
    }
    Ok(())
}

impl Watch<'_> {
    /// Reads the stream until it ends or enough was shown.
    fn follow(&mut self) -> anyhow::Result<()> {
        let path = format!("/users/{}/feed/stream", part(self.user));
        let mut events = sse::Events::new(self.connection.stream(&path, self.last_event.as_deref())?);
        if self.last_event.is_none() {
            self.fill_gap()?;
        }
        while self.left != Some(0) {
            // The next stream resumes here.
            let Ok(Some(event)) = events.next() else { return Ok(()) };
            if !event.id.is_empty() {
                self.last_event = Some(event.id);
            }
            match event.name.as_str() {
                "post" => match serde_json::from_str(&event.data) {
                    Ok(post) => self.show(&post)?,
                    // One bad post must not hide the next ones.
                    Err(error) => tell(&format!("a post was skipped, which cannot be read: {error}"))?,
                },
                "resync" => self.fill_gap()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Shows posts newer than the newest shown.
    fn fill_gap(&mut self) -> anyhow::Result<()> {
        let (mut missed, mut cursor) = (Vec::new(), None::<String>);
        let newest = self.newest;
        while missed.len() < GAP_MAX {
            let mut page = page(self.connection, self.user, &query(GAP_PAGE, cursor.as_deref()))?;
            let Value::Array(mut rows) = page["data"].take() else { break };
            let is_reached = rows.iter().any(|post| id(post) <= newest);
            rows.retain(|post| id(post) > newest);
            missed.append(&mut rows);
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if is_reached || cursor.is_none() {
                break;
            }
        }
        if missed.len() >= GAP_MAX {
            tell(&format!("more than {GAP_MAX} posts came meanwhile; entourage feed {} has all", self.user))?;
        }
        missed.iter().rev().try_for_each(|post| self.show(post))
    }

    fn show(&mut self, post: &Value) -> anyhow::Result<()> {
        let id = id(post);
        if self.shown.contains(&id) || self.left == Some(0) {
            return Ok(());
        }
        self.shown.truncate(SHOWN_KEPT - 1);
        self.shown.push_front(id);
        self.newest = self.newest.max(id);
        self.left = self.left.map(|left| left - 1);
        self.connection.print(post, |post| {
            let author = posts::printable(&table::text(&post["author"]));
            format!("{} {author}: {}", table::text(&post["created_at"]), posts::words(post))
        })
    }
}

fn id(post: &Value) -> u64 {
    post["id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_default()
}

/// Whether a retry may help.
fn is_passing(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref::<Error>().map(Error::code);
    code.is_some_and(|code| matches!(code, Code::RateLimited) || code.http_status() >= 500)
}

fn tell(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stderr(), "{text}")
}
