//! Virtual keys: the names teams give such keys in Redis, each a question to the graph.

use entourage_model::{Result, UserId};
use entourage_service::{Call, Service, UserView};

use super::encode::WRONG_TYPE;

/// What a key asks for. Ids are as they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Virtual<'a> {
    Following(&'a [u8]),
    Followers(&'a [u8]),
    IsFollowing(&'a [u8], &'a [u8]),
    FollowerCount(&'a [u8]),
    FollowingCount(&'a [u8]),
    Feed(&'a [u8]),
}

/// One row for each family of keys, for the reference page.
pub(super) const FAMILIES: &[(&str, &str, &str)] = &[
    ("following:{a}", "set and sorted set", "whom `a` follows; the score is the time in milliseconds"),
    ("followers:{b}", "set and sorted set", "who follows `b`; the score is the time in milliseconds"),
    (
        "feed:{u}",
        "sorted set",
        "ids of the posts in `u`'s feed; the score is the time in milliseconds; for `u` and services",
    ),
    ("is_following:{a}:{b}", "string", "`1` or `0`; only for ids without `:`"),
    ("follower_count:{u}", "string", "how many follow `u`; no value when there is no such user"),
    ("following_count:{u}", "string", "how many `u` follows; no value when there is no such user"),
];

/// Why a key is not one, as a whole error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoKey {
    Unknown,
    Colon,
    WrongType,
}

impl NoKey {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Unknown => {
                "ERR no such key: keys are following:{id}, followers:{id}, feed:{id}, is_following:{id}:{id}, \
                 follower_count:{id} and following_count:{id}"
            }
            Self::Colon => {
                "ERR is_following:{a}:{b} takes two ids without ':'; for others there is SISMEMBER following:{a} b"
            }
            Self::WrongType => WRONG_TYPE,
        }
    }
}

pub(super) fn parse(key: &[u8]) -> std::result::Result<Virtual<'_>, NoKey> {
    if let Some(id) = key.strip_prefix(b"following:") {
        return Ok(Virtual::Following(id));
    }
    if let Some(id) = key.strip_prefix(b"followers:") {
        return Ok(Virtual::Followers(id));
    }
    if let Some(ids) = key.strip_prefix(b"is_following:") {
        let mut parts = ids.split(|byte| *byte == b':');
        return match (parts.next(), parts.next(), parts.next()) {
            (Some(follower), Some(target), None) => Ok(Virtual::IsFollowing(follower, target)),
            _ => Err(NoKey::Colon),
        };
    }
    if let Some(id) = key.strip_prefix(b"follower_count:") {
        return Ok(Virtual::FollowerCount(id));
    }
    if let Some(id) = key.strip_prefix(b"feed:") {
        return Ok(Virtual::Feed(id));
    }
    key.strip_prefix(b"following_count:").map(Virtual::FollowingCount).ok_or(NoKey::Unknown)
}

/// Ids as the service takes them.
pub(super) fn user_id(bytes: &[u8]) -> Result<UserId> {
    UserId::try_from(UserId::text(bytes)?)
}

/// How long a list is, as far as the viewer may know.
pub(super) async fn count(service: &Service, call: &Call, id: &[u8], of: fn(&UserView) -> u64) -> Result<u64> {
    Ok(of(&service.get_user(call, &user_id(id)?).await?))
}

pub(super) const fn followers(view: &UserView) -> u64 {
    view.counts.followers
}

pub(super) const fn following(view: &UserView) -> u64 {
    view.counts.following
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_everything_after_the_first_colon() {
        assert_eq!(parse(b"following:did:plc:a"), Ok(Virtual::Following(b"did:plc:a")));
        assert_eq!(parse(b"followers:7"), Ok(Virtual::Followers(b"7")));
        assert_eq!(parse(b"follower_count:a:b"), Ok(Virtual::FollowerCount(b"a:b")));
        assert_eq!(parse(b"following_count:"), Ok(Virtual::FollowingCount(b"")));
        assert_eq!(parse(b"feed:did:plc:a"), Ok(Virtual::Feed(b"did:plc:a")));
        assert_eq!(parse(b"is_following:1:2"), Ok(Virtual::IsFollowing(b"1", b"2")));
        for key in ["is_following:1", "is_following:1:2:3", "is_following:"] {
            assert_eq!(parse(key.as_bytes()), Err(NoKey::Colon), "{key}");
        }
        for key in ["", "following", "Following:1", "friends:1"] {
            assert_eq!(parse(key.as_bytes()), Err(NoKey::Unknown), "{key}");
        }
    }

    #[test]
    fn what_is_no_text_is_no_id() {
        assert!(user_id(b"\xff").is_err() && user_id(b"").is_err() && user_id(b"a").is_ok());
    }
}
