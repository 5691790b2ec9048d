//! Users: create, replace, merge, show, suspend.

use entourage_model::{
    Code, Counts, Error, Key, Operation, Overwrite, Reply, Result, User, UserId, UserPatch, Version,
};
use entourage_store::{StoreExt as _, Whose};

use crate::{Actor, Call, Graph, Receipt, Relationship, ids::user_not_found, writer::unexpected};

pub const NAME_MAX_BYTES: usize = 512;
pub const AVATAR_URL_MAX_BYTES: usize = 2_048;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserWritten {
    /// As the writer may see them.
    pub view: UserView,
    pub created: bool,
    pub changed: bool,
    pub receipt: Receipt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspended {
    pub id: UserId,
    pub changed: bool,
    pub receipt: Receipt,
}

/// A user as the viewer may see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserView {
    pub user: User,
    pub counts: VisibleCounts,
    /// Whether an admin took the right to follow, as far as the viewer may know.
    pub follow_suspended: bool,
    /// How the viewer stands to them; `None` for services and for the user themselves.
    pub relationship: Option<Relationship>,
}

/// Counts as the viewer may see them; what is `None` is not the viewer's to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisibleCounts {
    pub followers: u64,
    pub following: u64,
    pub followers_quiet: Option<u64>,
    pub following_quiet: Option<u64>,
    pub requests: Option<u64>,
    pub requested: Option<u64>,
}

impl Graph {
    pub async fn put_user(&self, call: &Call, id: UserId, patch: UserPatch) -> Result<UserWritten> {
        self.write_user(call, id, patch, Overwrite::Replace).await
    }

    pub async fn patch_user(&self, call: &Call, id: UserId, patch: UserPatch) -> Result<UserWritten> {
        self.write_user(call, id, patch, Overwrite::Merge).await
    }

    async fn write_user(&self, call: &Call, id: UserId, patch: UserPatch, overwrite: Overwrite) -> Result<UserWritten> {
        call.may_change(&id)?;
        if patch.registered_at.is_some() && call.must_be_service().is_err() {
            let error = Error::new(Code::Forbidden, "only a service may say when a user registered");
            return Err(error.at("/registered_at", "leave it out"));
        }
        check_text(&patch.name, "/name", NAME_MAX_BYTES)?;
        check_text(&patch.avatar_url, "/avatar_url", AVATAR_URL_MAX_BYTES)?;
        let opens = patch.private == Some(false);
        let (key, asked) = (self.context.keys.key(&id), patch.clone());
        let operation = Operation::PutUser { key, id: id.clone(), patch, overwrite };
        let job = self.jobs.prepare_opening(&id, opens).await?;
        let written = self.context.writer.write(call, operation).await;
        let opened = match &written {
            Ok((reply, receipt)) => Some(reply.changed() && !receipt.replayed),
            Err(error) if error.code().is_retryable() => None,
            Err(_) => Some(false),
        };
        self.jobs.settle_opening(job, opened).await;
        let written = written?;
        if opens && job.is_none() {
            self.jobs.accept_overtaken(&id).await?;
        }
        let (Reply::User { created, changed }, receipt) = written else { return Err(unexpected(&written.0)) };
        let now = self.user_view(call, &id).await?.filter(|view| view.user.created <= receipt.version);
        let view = match now {
            Some(view) if !receipt.replayed => view,
            // A retry hears what was said first, as far as its own words tell; a user who is gone by now is what it asked for.
            Some(view) if !created => {
                let version = if changed { receipt.version } else { view.user.version };
                UserView { user: as_written(view.user, asked, overwrite, version), ..view }
            }
            _ => fresh_view(call, key, id, asked, receipt.version),
        };
        Ok(UserWritten { view, created, changed, receipt })
    }

    /// Takes the right to follow away, or gives it back.
    pub async fn suspend(&self, call: &Call, id: UserId, suspended: bool) -> Result<Suspended> {
        call.must_be_admin()?;
        let key = self.context.own_keys(&[&id]).await?.into_iter().flatten().next().ok_or_else(user_not_found)?;
        self.abuse.load().await?;
        self.abuse.leave_to_admin(key).await?;
        match self.context.writer.write(call, Operation::Suspend { key, suspended }).await? {
            (Reply::User { changed, .. }, receipt) => Ok(Suspended { id, changed, receipt }),
            (other, _) => Err(unexpected(&other)),
        }
    }

    pub async fn get_user(&self, call: &Call, id: &UserId) -> Result<UserView> {
        self.context.catch_up(call, Whose::Of(&[self.context.keys.key(id)])).await?;
        self.user_view(call, id).await?.ok_or_else(user_not_found)
    }

    async fn user_view(&self, call: &Call, id: &UserId) -> Result<Option<UserView>> {
        let Some(user) = self.context.find_user(id).await? else { return Ok(None) };
        let counts = self.context.store.get_counts(user.key).await?.unwrap_or_default();
        let counts = shown_counts(call, id, counts);
        let viewer = self.context.viewer(call).await?;
        let relationship = self.viewers_relationship(viewer, &user).await?;
        let is_own = viewer.is_none_or(|viewer| viewer == user.key);
        let follow_suspended = is_own && user.follow_suspended;
        Ok(Some(UserView { user, counts, follow_suspended, relationship }))
    }
}

/// A user as this write left them.
fn as_written(user: User, asked: UserPatch, overwrite: Overwrite, version: Version) -> User {
    let is_merged = overwrite == Overwrite::Merge;
    User {
        name: asked.name.unwrap_or_else(|| user.name.filter(|_| is_merged)),
        avatar_url: asked.avatar_url.unwrap_or_else(|| user.avatar_url.filter(|_| is_merged)),
        private: asked.private.unwrap_or(user.private),
        hide_lists: asked.hide_lists.unwrap_or(user.hide_lists),
        registered_at: asked.registered_at.unwrap_or(user.registered_at),
        version,
        ..user
    }
}

/// A user as they were when they were created with this.
fn fresh_view(call: &Call, key: Key, id: UserId, asked: UserPatch, version: Version) -> UserView {
    let counts = shown_counts(call, &id, Counts::default());
    let blank = User {
        key,
        id,
        name: None,
        avatar_url: None,
        private: false,
        hide_lists: false,
        follow_suspended: false,
        registered_at: version.millis(),
        created: version,
        version,
    };
    let user = as_written(blank, asked, Overwrite::Replace, version);
    UserView { user, counts, follow_suspended: false, relationship: None }
}

fn shown_counts(call: &Call, id: &UserId, counts: Counts) -> VisibleCounts {
    match &call.actor {
        Actor::Service => service_counts(counts),
        Actor::User(viewer) if viewer == id => own_counts(counts),
        Actor::User(_) => public_counts(counts),
    }
}

fn service_counts(counts: Counts) -> VisibleCounts {
    VisibleCounts {
        followers: counts.followers,
        following: counts.following,
        followers_quiet: Some(counts.followers_quiet),
        following_quiet: Some(counts.following_quiet),
        requests: Some(counts.requests),
        requested: Some(counts.requested),
    }
}

fn own_counts(counts: Counts) -> VisibleCounts {
    VisibleCounts {
        followers: counts.followers.saturating_sub(counts.followers_quiet),
        followers_quiet: None,
        ..service_counts(counts)
    }
}

fn public_counts(counts: Counts) -> VisibleCounts {
    VisibleCounts {
        followers: counts.followers.saturating_sub(counts.followers_quiet),
        following: counts.following.saturating_sub(counts.following_quiet),
        followers_quiet: None,
        following_quiet: None,
        requests: None,
        requested: None,
    }
}

fn check_text(field: &Option<Option<Box<str>>>, pointer: &str, max_bytes: usize) -> Result<()> {
    let Some(Some(text)) = field else { return Ok(()) };
    if is_text_fine(text, max_bytes) {
        return Ok(());
    }
    let problem =
        if text.len() > max_bytes { format!("at most {max_bytes} bytes") } else { "no control characters".to_owned() };
    Err(Error::invalid("a field of the user is not valid").at(pointer, problem))
}

pub(crate) fn is_text_fine(text: &str, max_bytes: usize) -> bool {
    text.len() <= max_bytes && !text.chars().any(char::is_control)
}
