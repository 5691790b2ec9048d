//! Posts: what authors have to say, kept as it was sent. A post's id is the version of the commit that made it.

use entourage_model::{
    Code, Condition, Cursor, CursorScope, Error, ExternalId, Key, List, Millis, Operation, POST_BODY_MAX_BYTES,
    POST_BODY_MAX_DEPTH, Place, Post, Record, RecordId, Reply, Result, Selection, Space, User, UserId, Version,
    external_post, post_author,
};
use entourage_store::{StoreExt as _, Whose};

use crate::{Call, Feeds, Limit, Receipt, Removed, visibility::lists_hidden, writer::unexpected};

/// How often one request asks again because somebody else wrote.
const ROUNDS_MAX: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostView {
    pub id: Version,
    pub author: UserId,
    /// When the body was replaced last.
    pub edited_at: Option<Millis>,
    /// A JSON object, byte for byte as it was sent.
    pub body: Box<str>,
    /// The application's own name of it.
    pub external_id: Option<ExternalId>,
}

/// What is to be written.
#[derive(Clone, Debug)]
pub struct NewPost<'a> {
    pub body: &'a str,
    pub external_id: Option<ExternalId>,
}

impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for NewPost<'a> {
    fn from(body: &'a T) -> Self {
        Self { body: body.as_ref(), external_id: None }
    }
}

impl PostView {
    pub const fn created_at(&self) -> Millis {
        self.id.millis()
    }

    pub(crate) fn of(record: &Record, author: UserId) -> Result<Self> {
        let id = record.id.version().ok_or_else(|| Error::internal("a post has an id that is no version"))?;
        let Post { body, external_id, imported, .. } = Post::decode(&record.value)?;
        let edited_at = match imported {
            Some(imported) => imported.edited_at,
            None => (record.version != id).then(|| record.version.millis()),
        };
        Ok(Self { id, author, edited_at, body, external_id })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostWritten {
    pub post: PostView,
    pub created: bool,
    pub changed: bool,
    pub receipt: Receipt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostPage {
    pub rows: Vec<PostView>,
    pub next_cursor: Option<String>,
    pub total: u64,
}

impl Feeds {
    /// As the acting user. Whether it is pushed or pulled is part of the post. With an external id that one of the author's
    /// posts has already it is that post, as it is.
    pub async fn create_post<'a>(&self, call: &Call, post: impl Into<NewPost<'a>>) -> Result<PostWritten> {
        let NewPost { body, external_id } = post.into();
        let author_id = call.actor.user()?.clone();
        check_body(body)?;
        self.load_modes().await?;
        let author = self.context.owner_key(&author_id).await?;
        let followers = self.followers_of(author).await?;
        let pushed = !self.pulls_new_post(author, followers).await?;
        let value = Post { external_id: external_id.clone(), ..Post::new(pushed, body) }.encode();
        for _ in 0..ROUNDS_MAX {
            let operation = Operation::Post { author, value: value.clone() };
            match self.context.writer.write_post(call, operation, followers).await? {
                (Reply::Record { version: id, created: true, .. }, receipt) => {
                    let post = PostView { id, author: author_id, edited_at: None, body: body.into(), external_id };
                    return Ok(PostWritten { post, created: true, changed: true, receipt });
                }
                (Reply::Record { version: id, created: false, .. }, receipt) => match self.stored_post(id).await {
                    Ok((_, record)) => {
                        let post = PostView::of(&record, author_id)?;
                        return Ok(PostWritten { post, created: false, changed: false, receipt });
                    }
                    // It was deleted meanwhile, and its external id is free again.
                    Err(error) if error.code() == Code::PostNotFound && !receipt.replayed => {}
                    Err(error) => return Err(error),
                },
                (other, _) => return Err(unexpected(&other)),
            }
        }
        Err(Error::new(Code::RequestInProgress, "posts with this external id come and go; try again"))
    }

    /// For those who may see the author's posts; to the others it is not there.
    pub async fn post(&self, call: &Call, id: Version) -> Result<PostView> {
        self.context.catch_up(call, Whose::NOBODY).await?;
        let viewer = self.context.viewer(call).await?;
        let (author, record) = self.stored_post(id).await?;
        if !self.shows_posts(viewer, &author).await? {
            return Err(post_not_found());
        }
        PostView::of(&record, author.id)
    }

    /// Replaces the body; the author's to do.
    pub async fn replace_post(&self, call: &Call, id: Version, body: &str) -> Result<PostWritten> {
        check_body(body)?;
        let mut written = Err(post_not_found());
        for _ in 0..ROUNDS_MAX {
            let (author, record) = match self.own_post(call, id).await {
                Err(error) if error.code() == Code::PostNotFound => {
                    return self.replaced_before(call, id, body).await?.ok_or(error);
                }
                other => other?,
            };
            let post = Post::decode(&record.value)?;
            let external_id = post.external_id.clone();
            let imported = post.imported.filter(|_| *post.body == *body);
            let value = post.replaced(body).encode();
            let condition = Condition::Version(record.version);
            let (space, owner) = (Space::Post, author.key);
            let id = RecordId::of_version(id);
            let operation = Operation::PutRecord { space, owner, id, value: Some(value), condition, cap: None };
            match self.context.writer.write(call, operation).await {
                // Somebody else wrote it meanwhile.
                Err(error) if error.code() == Code::RequestInProgress => written = Err(error),
                other => {
                    written = other.map(|done| (author, external_id, imported, done));
                    break;
                }
            }
        }
        match written? {
            (author, external_id, imported, (Reply::Record { version, changed, .. }, receipt)) => {
                let edited_at = match imported {
                    Some(imported) => imported.edited_at,
                    None => (version != id).then(|| version.millis()),
                };
                let post = PostView { id, author: author.id, edited_at, body: body.into(), external_id };
                Ok(PostWritten { post, created: false, changed, receipt })
            }
            (.., (other, _)) => Err(unexpected(&other)),
        }
    }

    /// What a repeated request did when it was made first; the post is gone since.
    async fn replaced_before(&self, call: &Call, id: Version, body: &str) -> Result<Option<PostWritten>> {
        let Some((Reply::Record { version, changed, owner: Some(owner), .. }, receipt)) =
            self.context.writer.replay(call).await?
        else {
            return Ok(None);
        };
        // An erased user has no posts, and never had any.
        let author = self.context.users_by_key(&[owner]).await?.remove(&owner);
        let edited_at = (version != id).then(|| version.millis());
        let written = |author: User| PostWritten {
            post: PostView { id, author: author.id, edited_at, body: body.into(), external_id: None },
            created: false,
            changed,
            receipt,
        };
        Ok(author.map(written))
    }

    /// Gone at once from everywhere; the author's to do.
    pub async fn delete_post(&self, call: &Call, id: Version) -> Result<Removed> {
        let (author, _) = match self.own_post(call, id).await {
            Err(error) if error.code() == Code::PostNotFound => {
                // A retry of the request that deleted it is answered as that one was.
                return match self.context.writer.replay(call).await? {
                    Some((Reply::Gone { changed }, receipt)) => Ok(Removed { changed, receipt }),
                    _ => Err(error),
                };
            }
            other => other?,
        };
        let (space, owner, id) = (Space::Post, author.key, RecordId::of_version(id));
        let condition = Condition::Any;
        self.context
            .writer
            .remove(call, Operation::PutRecord { space, owner, id, value: None, condition, cap: None })
            .await
    }

    /// An author's posts, newest first, for those who may see them.
    pub async fn posts(&self, call: &Call, id: &UserId, cursor: Option<&str>, limit: Limit) -> Result<PostPage> {
        self.context.catch_up(call, Whose::NOBODY).await?;
        let viewer = self.context.viewer(call).await?;
        let author = self.context.stored_user(id).await?;
        if !self.shows_posts(viewer, &author).await? {
            return Err(lists_hidden());
        }
        let scope = CursorScope { list: List::followers(author.key), selection: Selection::Posts, viewer };
        let after = cursor.map(|text| Cursor::decode(text, &self.context.sealer, &scope)).transpose()?;
        let after = after.map(|Cursor(place)| RecordId::of_version(place.position));
        let after = after.as_ref().map_or(RecordId::BELOW_VERSIONS, RecordId::as_bytes);
        let mut records =
            self.context.store.scan_records(Space::Post, author.key, Some(after), limit.get() + 1).await?;
        let total = self.context.store.count_records(Space::Post, author.key).await?;
        let has_more = records.len() > limit.get();
        records.truncate(limit.get());
        let last = records.last().filter(|_| has_more).and_then(|record| record.id.version());
        let next_cursor =
            last.map(|position| Cursor(Place { position, key: Key(0) }).encode(&self.context.sealer, &scope));
        let rows = records.iter().map(|record| PostView::of(record, author.id.clone())).collect::<Result<_>>()?;
        Ok(PostPage { rows, next_cursor, total })
    }

    /// The author's post with this external id, as a list of one or none.
    pub async fn posts_named(&self, call: &Call, id: &UserId, name: &ExternalId) -> Result<PostPage> {
        self.context.catch_up(call, Whose::NOBODY).await?;
        let viewer = self.context.viewer(call).await?;
        let author = self.context.stored_user(id).await?;
        if !self.shows_posts(viewer, &author).await? {
            return Err(lists_hidden());
        }
        let found = self.records_named(&[author.key], name).await?;
        let rows: Vec<PostView> =
            found.iter().map(|(_, record)| PostView::of(record, author.id.clone())).collect::<Result<_>>()?;
        let total = rows.len() as u64;
        Ok(PostPage { rows, next_cursor: None, total })
    }

    /// The posts that these authors have under an external id.
    pub(crate) async fn records_named(&self, authors: &[Key], name: &ExternalId) -> Result<Vec<(Key, Record)>> {
        let id = name.record_id();
        let names: Vec<(Key, RecordId)> = authors.iter().map(|author| (*author, id.clone())).collect();
        let found = self.context.store.get_records(Space::PostExternal, &names).await?;
        let mut posts = Vec::new();
        for (author, record) in authors.iter().zip(found) {
            if let Some(record) = record {
                posts.push((*author, RecordId::of_version(external_post(&record.value)?)));
            }
        }
        let found = self.context.store.get_records(Space::Post, &posts).await?;
        let found = posts.into_iter().zip(found).filter_map(|((author, _), record)| Some((author, record?)));
        // Between the two looks one may have gone and another come.
        Ok(found.filter(|(_, record)| ExternalId::of_post(&record.value).as_ref() == Some(name)).collect())
    }

    /// A post with its author, for any caller.
    pub(crate) async fn stored_post(&self, id: Version) -> Result<(User, Record)> {
        let index = self.context.store.get_server_record(Space::PostAuthor, &RecordId::of_post_author(id)).await?;
        let (_, index) = index.ok_or_else(post_not_found)?;
        let author = post_author(&index.value)?;
        let record = self.context.store.get_record(Space::Post, author, &RecordId::of_version(id)).await?;
        let user = self.context.users_by_key(&[author]).await?.remove(&author);
        user.zip(record).ok_or_else(post_not_found)
    }

    async fn own_post(&self, call: &Call, id: Version) -> Result<(User, Record)> {
        let (author, record) = self.stored_post(id).await?;
        if call.may_change(&author.id).is_err() {
            // Who may not see it is not told that it is there.
            let viewer = self.context.viewer(call).await?;
            return Err(match self.shows_posts(viewer, &author).await? {
                true => Error::new(Code::Forbidden, "only its author may change a post"),
                false => post_not_found(),
            });
        }
        Ok((author, record))
    }

    /// A private account's posts are for those who follow it; a block hides everything.
    pub(crate) async fn shows_posts(&self, viewer: Option<Key>, author: &User) -> Result<bool> {
        let Some(viewer) = viewer.filter(|viewer| *viewer != author.key) else { return Ok(true) };
        let mut visibility = self.context.visibility(Some(viewer));
        visibility.ask_blocks(&[author.key]).await?;
        if visibility.is_apart(author.key) {
            return Ok(false);
        }
        Ok(!author.private || self.context.are_let_in(&[(viewer, author.key)]).await?.contains(&true))
    }
}

pub(crate) fn post_not_found() -> Error {
    Error::new(Code::PostNotFound, "there is no post with this id, or it is not for the acting user")
}

/// How deep objects and arrays lie in each other, of a text that may be no JSON.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => depth += 1,
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

pub(crate) fn check_body(body: &str) -> Result<()> {
    if body.len() > POST_BODY_MAX_BYTES {
        return Err(
            Error::invalid("the body of a post is too long").at("/body", "a JSON object of at most 10,240 bytes")
        );
    }
    if depth(body) > POST_BODY_MAX_DEPTH {
        let right = format!("objects and arrays at most {POST_BODY_MAX_DEPTH} deep");
        return Err(Error::invalid("the body of a post is nested too deep").at("/body", right));
    }
    let object: std::result::Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(body);
    object.map(|_| ()).map_err(|_| Error::invalid("the body of a post is not an object").at("/body", "a JSON object"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_32_deep_at_most() {
        let nested = |open: &str, close: &str, depth: usize| {
            format!(r#"{{"a":{}1{}}}"#, open.repeat(depth - 1), close.repeat(depth - 1))
        };
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), ("[ \r\n", "\t]")] {
            assert!(check_body(&nested(open, close, POST_BODY_MAX_DEPTH)).is_ok());
            for depth in [POST_BODY_MAX_DEPTH + 1, 126, 1_000] {
                let error = check_body(&nested(open, close, depth)).unwrap_err();
                assert!(error.detail().contains("too deep"), "{error:?}");
            }
        }
        let flat = format!(r#"{{"a":"{}\"{}","b":[[],[],{{}}]}}"#, "[".repeat(100), "{".repeat(100));
        assert!(check_body(&flat).is_ok() && depth(&flat) == 3);
    }
}
