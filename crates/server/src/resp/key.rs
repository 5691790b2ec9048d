//! Virtual keys: names that teams commonly use in Redis, each mapped to a query of the graph.

use entourage_model::{Result, UserId};

use super::encode::WRONG_TYPE;

/// What a key means. Ids are as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Virtual<'a> {
    Following(&'a [u8]),
    Followers(&'a [u8]),
    Blocks(&'a [u8]),
    Mutual(&'a [u8]),
    CommonFollowing(&'a [u8], &'a [u8]),
    IsFollowing(&'a [u8], &'a [u8]),
    FollowerCount(&'a [u8]),
    FollowingCount(&'a [u8]),
    Feed(&'a [u8]),
    Suggestions(&'a [u8]),
}

impl Virtual<'_> {
    pub(super) const fn is_string(&self) -> bool {
        matches!(self, Self::IsFollowing(..) | Self::FollowerCount(_) | Self::FollowingCount(_))
    }
}

/// One row per family of keys, for the reference page.
pub(super) const FAMILIES: &[(&str, &str, &str)] = &[
    (
        "following:{a}",
        "set and sorted set",
        "whom `a` follows; the score is the time in milliseconds; `follows:{a}` is the same",
    ),
    ("followers:{b}", "set and sorted set", "who follows `b`; the score is the time in milliseconds"),
    ("block:{a}", "set", "whom `a` blocks; for `a` and services"),
    ("mutual:{a}", "set", "whom `a` follows and is followed by"),
    ("common_following:{a}:{b}", "set", "whom both follow; only for ids without `:`"),
    (
        "feed:{u}",
        "sorted set",
        "ids of the posts in `u`'s feed; the score is the time in milliseconds; for `u` and services",
    ),
    ("suggestions:{u}", "list", "ids of whom `u` may want to follow, best first; for `u` and services"),
    ("is_following:{a}:{b}", "string", "`1` or `0`; only for ids without `:`"),
    ("follower_count:{u}", "string", "how many follow `u`; no value when there is no such user"),
    ("following_count:{u}", "string", "how many `u` follows; no value when there is no such user"),
];

/// Why a key is invalid, as an error with its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoKey {
    Unknown,
    /// A key with two ids has other than one colon between them.
    CheckColon,
    CommonColon,
    WrongType,
}

impl NoKey {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Unknown => {
                "ERR no such key: keys are following:{id}, follows:{id}, followers:{id}, block:{id}, mutual:{id}, \
                 common_following:{id}:{id}, feed:{id}, suggestions:{id}, is_following:{id}:{id}, follower_count:{id} \
                 and following_count:{id}"
            }
            Self::CheckColon => {
                "ERR is_following:{a}:{b} takes two ids without ':'; for others there is SISMEMBER following:{a} b"
            }
            Self::CommonColon => {
                "ERR common_following:{a}:{b} takes two ids without ':'; for others there is SINTER following:{a} \
                 following:{b}"
            }
            Self::WrongType => WRONG_TYPE,
        }
    }
}

pub(super) fn parse<'a>(key: &'a [u8]) -> std::result::Result<Virtual<'a>, NoKey> {
    // Most frequent first.
    if let Some(id) = key.strip_prefix(b"following:") {
        return Ok(Virtual::Following(id));
    }
    if let Some(id) = key.strip_prefix(b"followers:") {
        return Ok(Virtual::Followers(id));
    }
    if let Some(ids) = key.strip_prefix(b"is_following:") {
        return two(ids).map(|(follower, target)| Virtual::IsFollowing(follower, target)).ok_or(NoKey::CheckColon);
    }
    if let Some(ids) = key.strip_prefix(b"common_following:") {
        return two(ids).map(|(one, other)| Virtual::CommonFollowing(one, other)).ok_or(NoKey::CommonColon);
    }
    type Family<'a> = (&'static [u8], fn(&'a [u8]) -> Virtual<'a>);
    let families: [Family<'a>; 7] = [
        (b"follower_count:", Virtual::FollowerCount),
        (b"following_count:", Virtual::FollowingCount),
        (b"feed:", Virtual::Feed),
        (b"suggestions:", Virtual::Suggestions),
        (b"follows:", Virtual::Following),
        (b"mutual:", Virtual::Mutual),
        (b"block:", Virtual::Blocks),
    ];
    families.into_iter().find_map(|(name, family)| key.strip_prefix(name).map(family)).ok_or(NoKey::Unknown)
}

/// Two ids with the one colon between them.
fn two(ids: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = ids.split(|byte| *byte == b':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(one), Some(other), None) => Some((one, other)),
        _ => None,
    }
}

/// Ids as the service takes them.
pub(super) fn user_id(bytes: &[u8]) -> Result<UserId> {
    UserId::try_from(UserId::text(bytes)?)
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
        assert_eq!(parse(b"suggestions:did:plc:a"), Ok(Virtual::Suggestions(b"did:plc:a")));
        assert_eq!(parse(b"is_following:1:2"), Ok(Virtual::IsFollowing(b"1", b"2")));
        assert_eq!(parse(b"common_following:1:2"), Ok(Virtual::CommonFollowing(b"1", b"2")));
        assert_eq!(parse(b"follows:did:plc:a"), Ok(Virtual::Following(b"did:plc:a")));
        assert_eq!(parse(b"mutual:a:b"), Ok(Virtual::Mutual(b"a:b")));
        assert_eq!(parse(b"block:7"), Ok(Virtual::Blocks(b"7")));
        for ids in ["1", "1:2:3", ""] {
            assert_eq!(parse(format!("is_following:{ids}").as_bytes()), Err(NoKey::CheckColon), "{ids}");
            assert_eq!(parse(format!("common_following:{ids}").as_bytes()), Err(NoKey::CommonColon), "{ids}");
        }
        for key in ["", "following", "Following:1", "friends:1", "blocks:1", "mutuals:1", "follow:1"] {
            assert_eq!(parse(key.as_bytes()), Err(NoKey::Unknown), "{key}");
        }
    }

    #[test]
    fn what_is_no_text_is_no_id() {
        assert!(user_id(b"\xff").is_err() && user_id(b"").is_err() && user_id(b"a").is_ok());
    }
}
