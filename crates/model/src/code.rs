//! The closed table of error codes: one row each for HTTP, RESP and the documentation.

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($variant:ident $text:literal $http:literal $title:literal;)*) => {
        /// Every refusal and failure a client can see.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($variant),* }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            pub const fn http_status(self) -> u16 {
                match self { $(Self::$variant => $http),* }
            }

            /// One sentence for people, the same for every occurrence.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),* }
            }
        }
    };
}

codes! {
    InvalidRequest "invalid_request" 400 "The request is not valid";
    InvalidId "invalid_id" 400 "The id is not valid";
    InvalidCursor "invalid_cursor" 400 "The cursor is not valid here";
    InvalidToken "invalid_token" 400 "The consistency token is not valid here";
    SelfFollow "self_follow" 400 "Nobody can follow themselves";
    SelfBlock "self_block" 400 "Nobody can block themselves";
    Unauthenticated "unauthenticated" 401 "Credentials are missing or not valid";
    Forbidden "forbidden" 403 "These credentials do not allow this";
    Blocked "blocked" 403 "One of the two blocks the other";
    ChallengeRequired "challenge_required" 403 "Proof of a solved challenge is required";
    FollowSuspended "follow_suspended" 403 "This account may not follow for now";
    ListsHidden "lists_hidden" 403 "This account's lists are hidden";
    NotFound "not_found" 404 "There is nothing here";
    UserNotFound "user_not_found" 404 "The user does not exist";
    ActorNotFound "actor_not_found" 404 "The acting user does not exist";
    PostNotFound "post_not_found" 404 "The post does not exist";
    GroupNotFound "group_not_found" 404 "The group does not exist";
    MethodNotAllowed "method_not_allowed" 405 "The method is not allowed here";
    RequestInProgress "request_in_progress" 409 "A request with this key is still running";
    IdTaken "id_taken" 409 "The id cannot be used";
    EventsExpired "events_expired" 410 "These events are no longer kept";
    PayloadTooLarge "payload_too_large" 413 "The body is too large";
    UriTooLong "uri_too_long" 414 "The address is too long";
    UnsupportedMediaType "unsupported_media_type" 415 "The content type is not supported";
    FollowingLimit "following_limit" 422 "The account follows as many as it may";
    GroupLimit "group_limit" 422 "The account has as many groups as it may";
    IdempotencyMismatch "idempotency_mismatch" 422 "The idempotency key was used with another request";
    QuietPrivate "quiet_private" 422 "A private account cannot be followed quietly";
    RateLimited "rate_limited" 429 "Too many requests";
    CoolingDown "cooling_down" 429 "This edge changed too often";
    Internal "internal" 500 "Something went wrong on our side";
    Unavailable "unavailable" 503 "The store is not available";
    Stale "stale" 503 "This server has not caught up with the token";
    StorageFull "storage_full" 503 "The disk is full";
    MemoryFull "memory_full" 503 "The memory budget is used up";
    Overloaded "overloaded" 503 "The server is overloaded";
}

impl Code {
    /// The first word of a RESP error: the code in capitals.
    pub fn resp_prefix(self) -> String {
        self.as_str().replace('_', "").to_ascii_uppercase()
    }

    /// Where the documentation explains this code.
    pub fn docs_anchor(self) -> String {
        format!("/docs#code-{}", self.as_str().replace('_', "-"))
    }

    /// Whether the same request may succeed later without being changed.
    pub const fn is_retryable(self) -> bool {
        matches!(self.http_status(), 429 | 503) || matches!(self, Self::RequestInProgress)
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_text_prefix_and_anchor() {
        let mut seen = std::collections::HashSet::new();
        for code in Code::ALL {
            assert!(seen.insert(code.as_str().to_owned()));
            assert!(seen.insert(code.resp_prefix()));
            assert!(seen.insert(code.docs_anchor()));
            assert_eq!(Code::parse(code.as_str()), Some(*code));
            assert!((400..600).contains(&code.http_status()));
        }
        assert_eq!(Code::ALL.len(), 36);
    }
}
