//! One row of an export, as JSON or as CSV.

use entourage_model::{Edge, Error, ExternalId, Result, User, UserId, Version};
use serde::Serialize;
use serde_json::value::RawValue;

use super::ExportKind;
use crate::{PostView, UserGroup, transfer::csv};

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Row<'a> {
    User {
        id: &'a str,
        name: Option<&'a str>,
        avatar_url: Option<&'a str>,
        private: bool,
        hide_lists: bool,
        registered_at: String,
    },
    Follow {
        follower: &'a str,
        target: &'a str,
        created_at: String,
        quiet: bool,
    },
    Request {
        requester: &'a str,
        target: &'a str,
        created_at: String,
    },
    Block {
        blocker: &'a str,
        blocked: &'a str,
        created_at: String,
    },
    Mute {
        muter: &'a str,
        muted: &'a str,
        created_at: String,
        expires_at: Option<String>,
    },
    Group {
        owner: &'a str,
        id: String,
        name: &'a str,
        created_at: String,
    },
    GroupMember {
        owner: &'a str,
        group: String,
        member: &'a str,
    },
    Post {
        author: &'a str,
        id: String,
        created_at: String,
        edited_at: Option<String>,
        external_id: Option<&'a str>,
        body: Box<RawValue>,
    },
}

pub(super) const fn header(kind: ExportKind) -> &'static str {
    match kind {
        ExportKind::Users => "id,name,avatar_url,private,hide_lists,registered_at\n",
        ExportKind::Follows => "follower,target,created_at,quiet\n",
        ExportKind::Requests => "requester,target,created_at\n",
        ExportKind::Blocks => "blocker,blocked,created_at\n",
        ExportKind::Mutes => "muter,muted,created_at,expires_at\n",
        ExportKind::Groups => "owner,id,name,created_at\n",
        ExportKind::Members => "owner,group,member\n",
        ExportKind::Posts => "author,id,created_at,edited_at,external_id,body\n",
    }
}

impl<'a> Row<'a> {
    pub(super) fn user(user: &'a User) -> Self {
        Self::User {
            id: user.id.as_str(),
            name: user.name.as_deref(),
            avatar_url: user.avatar_url.as_deref(),
            private: user.private,
            hide_lists: user.hide_lists,
            registered_at: user.registered_at.to_rfc3339(),
        }
    }

    pub(super) fn edge(kind: ExportKind, from: &'a UserId, to: &'a UserId, edge: &Edge) -> Self {
        let (from, to, created_at) = (from.as_str(), to.as_str(), edge.value.position.millis().to_rfc3339());
        match kind {
            ExportKind::Requests => Self::Request { requester: from, target: to, created_at },
            ExportKind::Blocks => Self::Block { blocker: from, blocked: to, created_at },
            ExportKind::Mutes => {
                let expires_at = edge.value.expires.map(|expires| expires.time().to_rfc3339());
                Self::Mute { muter: from, muted: to, created_at, expires_at }
            }
            _ => Self::Follow { follower: from, target: to, created_at, quiet: edge.value.quiet },
        }
    }

    pub(super) fn group(owner: &'a UserId, group: &'a UserGroup) -> Self {
        let (id, created_at) = (group.id.to_string(), group.created_at().to_rfc3339());
        Self::Group { owner: owner.as_str(), id, name: &group.name, created_at }
    }

    pub(super) fn member(owner: &'a UserId, group: Version, member: &'a UserId) -> Self {
        Self::GroupMember { owner: owner.as_str(), group: group.to_string(), member: member.as_str() }
    }

    pub(super) fn post(post: &'a PostView) -> Result<Self> {
        // No text of JSON has a line break in it, so that each one stands between tokens, where a space says the same.
        let body = post.body.replace(['\n', '\r'], " ");
        let body = RawValue::from_string(body)
            .map_err(|error| Error::internal("a post's body is no JSON").caused_by(error))?;
        Ok(Self::Post {
            author: post.author.as_str(),
            id: post.id.to_string(),
            created_at: post.created_at().to_rfc3339(),
            edited_at: post.edited_at.map(|at| at.to_rfc3339()),
            external_id: post.external_id.as_ref().map(ExternalId::as_str),
            body,
        })
    }

    pub(super) fn json(&self) -> Result<String> {
        let mut line = serde_json::to_string(self).map_err(|error| Error::internal(error.to_string()))?;
        line.push('\n');
        Ok(line)
    }

    /// In the order of its [`header`].
    pub(super) fn csv(&self) -> String {
        let flag = |flag: bool| if flag { "true" } else { "false" };
        match self {
            Self::User { id, name, avatar_url, private, hide_lists, registered_at } => fields(&[
                id,
                name.unwrap_or_default(),
                avatar_url.unwrap_or_default(),
                flag(*private),
                flag(*hide_lists),
                registered_at,
            ]),
            Self::Follow { follower, target, created_at, quiet } => {
                fields(&[follower, target, created_at, flag(*quiet)])
            }
            Self::Request { requester, target, created_at } => fields(&[requester, target, created_at]),
            Self::Block { blocker, blocked, created_at } => fields(&[blocker, blocked, created_at]),
            Self::Mute { muter, muted, created_at, expires_at } => {
                fields(&[muter, muted, created_at, expires_at.as_deref().unwrap_or_default()])
            }
            Self::Group { owner, id, name, created_at } => fields(&[owner, id, name, created_at]),
            Self::GroupMember { owner, group, member } => fields(&[owner, group, member]),
            Self::Post { author, id, created_at, edited_at, external_id, body } => fields(&[
                author,
                id,
                created_at,
                edited_at.as_deref().unwrap_or_default(),
                external_id.unwrap_or_default(),
                body.get(),
            ]),
        }
    }
}

fn fields(texts: &[&str]) -> String {
    let mut line = String::new();
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        csv::put(&mut line, text);
    }
    line.push('\n');
    line
}
