//! The closed table of error codes: one row each for HTTP, RESP and the documentation.

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($variant:ident $text:literal $http:literal $title:literal $meaning:literal $remedy:literal;)*) => {
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

            /// When it is answered, as Markdown.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning),* }
            }

            /// What the caller can do about it, as Markdown.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy),* }
            }
        }
    };
}

codes! {
    InvalidRequest "invalid_request" 400 "The request is not valid"
        "a body, query or header is not as described"
        "put right what `errors` points at";
    InvalidId "invalid_id" 400 "The id is not valid"
        "an id is empty, over 128 bytes, not UTF-8, or has control characters"
        "send an id of 1 to 128 bytes of UTF-8 without control characters";
    InvalidCursor "invalid_cursor" 400 "The cursor is not valid here"
        "the cursor is changed, or of another list, viewer or store"
        "start the list without a cursor";
    InvalidToken "invalid_token" 400 "The consistency token is not valid here"
        "the token is changed or of another store"
        "repeat the request without the token";
    SelfFollow "self_follow" 400 "Nobody can follow themselves"
        "follower and target are the same"
        "choose another target";
    SelfBlock "self_block" 400 "Nobody can block themselves"
        "actor and target are the same"
        "choose another target";
    Unauthenticated "unauthenticated" 401 "Credentials are missing or not valid"
        "the credential is missing, expired, or not one of this server's"
        "send `Authorization: Bearer` with a valid JWT or service key";
    Forbidden "forbidden" 403 "These credentials do not allow this"
        "the credential, or the acting user, may not do this to that user's things"
        "act as the user in the path, or with a service key or admin scope";
    Blocked "blocked" 403 "One of the two blocks the other"
        "one of the two blocks the other; both sides hear the same"
        "nothing until the block is lifted";
    ChallengeRequired "challenge_required" 403 "Proof of a solved challenge is required"
        "the account followed many in the last hour"
        "solve the application's challenge and send its proof in `Entourage-Challenge`";
    FollowSuspended "follow_suspended" 403 "This account may not follow for now"
        "an admin took the account's right to follow"
        "nothing until an admin gives it back";
    ListsHidden "lists_hidden" 403 "This account's lists are hidden"
        "the account does not show its lists to this viewer"
        "follow a private account and be accepted, or use a service key";
    NotFound "not_found" 404 "There is nothing here"
        "no such route, or no such edge"
        "compare the address with this page";
    UserNotFound "user_not_found" 404 "The user does not exist"
        "the user was never created, or is erased"
        "create the user first, or set `users.auto_create`";
    ActorNotFound "actor_not_found" 404 "The acting user does not exist"
        "the acting user, or the follower in the path, was never created"
        "create the user first, or set `users.auto_create`";
    PostNotFound "post_not_found" 404 "The post does not exist"
        "the post was never created, or is deleted"
        "take the post off the page";
    GroupNotFound "group_not_found" 404 "The group does not exist"
        "the user has no group of this id"
        "list the user's groups";
    MethodNotAllowed "method_not_allowed" 405 "The method is not allowed here"
        "the route is there, but not for this method"
        "use one of the methods that the header `Allow` lists";
    RequestInProgress "request_in_progress" 409 "A request with this key is still running"
        "the first request with this `Idempotency-Key` has not been answered yet"
        "repeat it after `Retry-After`";
    IdTaken "id_taken" 409 "The id cannot be used"
        "another id has the same key: one in 2⁶³"
        "choose a different id";
    Fenced "fenced" 409 "Another server has taken this work over"
        "a server goes on with work that another one has taken over; no request of a client hears it"
        "nothing: the other server goes on with it";
    EventsExpired "events_expired" 410 "These events are no longer kept"
        "events this old are no longer kept"
        "read what you need anew, then go on from `resume_cursor`";
    PayloadTooLarge "payload_too_large" 413 "The body is too large"
        "the body is over the limit of this route"
        "send less at once";
    UriTooLong "uri_too_long" 414 "The address is too long"
        "the address is over 8,192 bytes"
        "send ids in a body where the route has one";
    UnsupportedMediaType "unsupported_media_type" 415 "The content type is not supported"
        "a body is there without `Content-Type: application/json`"
        "send that header";
    FollowingLimit "following_limit" 422 "The account follows as many as it may"
        "the follower has reached `limits.following_max`"
        "unfollow somebody first";
    GroupLimit "group_limit" 422 "The account has as many groups as it may"
        "the user has as many groups as one may have"
        "delete a group first";
    IdempotencyMismatch "idempotency_mismatch" 422 "The idempotency key was used with another request"
        "the `Idempotency-Key` was used with another body"
        "use a new key for a new request";
    QuietPrivate "quiet_private" 422 "A private account cannot be followed quietly"
        "a private account cannot be followed quietly"
        "follow without `quiet`";
    RateLimited "rate_limited" 429 "Too many requests"
        "more requests, or more follows, than the quota allows"
        "wait for `Retry-After`";
    CoolingDown "cooling_down" 429 "This edge changed too often"
        "this edge was followed and unfollowed more than `limits.flips_per_day` times"
        "wait for `Retry-After`";
    Internal "internal" 500 "Something went wrong on our side"
        "a bug in the server; its log has more under the `request_id`"
        "report it with the `request_id`; a write may or may not have happened";
    Unavailable "unavailable" 503 "The store is not available"
        "the store does not answer"
        "repeat it after `Retry-After`, a write with its `Idempotency-Key`";
    Stale "stale" 503 "This server has not caught up with the token"
        "this server has not seen the write that the token comes from"
        "repeat it after `Retry-After`, or without the token";
    StorageFull "storage_full" 503 "The disk is full"
        "the disk is full; reads go on"
        "free or add disk space";
    MemoryFull "memory_full" 503 "The memory budget is used up"
        "`memory.budget` is used up; reads go on"
        "raise `memory.budget`";
    Overloaded "overloaded" 503 "The server is overloaded"
        "too many requests wait, or no answer came in time"
        "repeat it after `Retry-After`, a write with its `Idempotency-Key`";
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
        assert_eq!(Code::ALL.len(), 37);
    }
}
