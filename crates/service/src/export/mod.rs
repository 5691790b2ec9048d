//! Export: every user and every follow, in the form that import reads, page by page.

mod packed;

use std::{
    collections::HashMap,
    io::{self, Write},
};

use entourage_model::{Edge, Error, Key, List, Result, User, UserId};
use serde::Serialize;

pub use self::packed::{Packed, Packing};
use crate::{Service, csv};

const PAGE: usize = 1_000;
const EDGE_HEADER: &str = "follower,target,created_at,quiet\n";
const USER_HEADER: &str = "id,name,avatar_url,private,hide_lists,registered_at\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    Csv,
    Ndjson,
}

/// What is written, and how. CSV holds one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    pub format: ExportFormat,
    pub users: bool,
    pub edges: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    pub users: u64,
    pub edges: u64,
}

#[derive(Serialize)]
struct EdgeJson<'a> {
    follower: &'a str,
    target: &'a str,
    created_at: String,
    quiet: bool,
}

#[derive(Serialize)]
struct UserJson<'a> {
    id: &'a str,
    name: Option<&'a str>,
    avatar_url: Option<&'a str>,
    private: bool,
    hide_lists: bool,
    registered_at: String,
}

impl Export {
    /// Users first, so that an import of both finds them. Holds no more than a page at a time.
    pub async fn run(
        &self,
        service: &Service,
        out: &mut (dyn Write + Send),
        mut seen: impl FnMut(&Exported),
    ) -> Result<Exported> {
        if self.format == ExportFormat::Csv {
            if self.users == self.edges {
                return Err(Error::invalid("a file of CSV holds users or edges; choose one, or NDJSON for both"));
            }
            let header = if self.users { USER_HEADER } else { EDGE_HEADER };
            out.write_all(header.as_bytes()).map_err(unwritable)?;
        }
        let mut done = Exported::default();
        if self.users {
            let mut pages = Users::default();
            while let Some(users) = pages.next(service).await? {
                users.iter().try_for_each(|user| self.put_user(user, out))?;
                done.users += users.len() as u64;
                seen(&done);
            }
        }
        if self.edges {
            let mut pages = Users::default();
            while let Some(users) = pages.next(service).await? {
                for user in &users {
                    done.edges += self.put_edges(service, user, out).await?;
                }
                seen(&done);
            }
        }
        Ok(done)
    }

    async fn put_edges(&self, service: &Service, user: &User, out: &mut (dyn Write + Send)) -> Result<u64> {
        let (list, mut after, mut count) = (List::following(user.key), None, 0);
        loop {
            let page = service.store.scan(list, after, PAGE).await?;
            let names = names(service, &page.edges).await?;
            for edge in &page.edges {
                // Edges of the erased are left for a while; whoever imported one would bring the person back.
                if let Some(target) = names.get(&edge.target) {
                    self.put_edge(&user.id, target, edge, out)?;
                    count += 1;
                }
            }
            after = page.edges.last().map(|edge| list.place(edge)).filter(|_| page.more);
            if after.is_none() {
                return Ok(count);
            }
        }
    }

    fn put_user(&self, user: &User, out: &mut (dyn Write + Send)) -> Result<()> {
        let (name, avatar_url) = (user.name.as_deref(), user.avatar_url.as_deref());
        let (private, hide_lists, registered_at) = (user.private, user.hide_lists, user.registered_at.to_rfc3339());
        let line = match self.format {
            ExportFormat::Ndjson => {
                json(&UserJson { id: user.id.as_str(), name, avatar_url, private, hide_lists, registered_at })?
            }
            ExportFormat::Csv => {
                let mut line = String::new();
                for text in [user.id.as_str(), name.unwrap_or_default(), avatar_url.unwrap_or_default()] {
                    csv::put(&mut line, text);
                    line.push(',');
                }
                line.push_str(&format!("{private},{hide_lists},{registered_at}\n"));
                line
            }
        };
        out.write_all(line.as_bytes()).map_err(unwritable)
    }

    fn put_edge(&self, follower: &UserId, target: &UserId, edge: &Edge, out: &mut (dyn Write + Send)) -> Result<()> {
        let (created_at, quiet) = (edge.value.position.millis().to_rfc3339(), edge.value.quiet);
        let (follower, target) = (follower.as_str(), target.as_str());
        let line = match self.format {
            ExportFormat::Ndjson => json(&EdgeJson { follower, target, created_at, quiet })?,
            ExportFormat::Csv => {
                let mut line = String::new();
                csv::put(&mut line, follower);
                line.push(',');
                csv::put(&mut line, target);
                line.push_str(&format!(",{created_at},{quiet}\n"));
                line
            }
        };
        out.write_all(line.as_bytes()).map_err(unwritable)
    }
}

/// All users, in the order of their keys.
#[derive(Default)]
struct Users {
    after: Option<Key>,
}

impl Users {
    async fn next(&mut self, service: &Service) -> Result<Option<Vec<User>>> {
        let users = service.store.sweep_users(self.after, PAGE).await?;
        self.after = users.last().map(|user| user.key);
        Ok((!users.is_empty()).then_some(users))
    }
}

/// The ids of targets that are there.
async fn names(service: &Service, edges: &[Edge]) -> Result<HashMap<Key, UserId>> {
    let keys: Vec<Key> = edges.iter().map(|edge| edge.target).collect();
    Ok(service.users_by_key(&keys).await?.into_iter().map(|(key, user)| (key, user.id)).collect())
}

fn json(object: &impl Serialize) -> Result<String> {
    let mut line = serde_json::to_string(object).map_err(|error| Error::internal(error.to_string()))?;
    line.push('\n');
    Ok(line)
}

fn unwritable(error: io::Error) -> Error {
    Error::internal(format!("the output cannot be written: {error}"))
}
