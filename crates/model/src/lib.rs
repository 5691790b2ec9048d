//! The vocabulary of Entourage: ids, keys, edges, versions, cursors, operations, outcomes, events, errors.
//!
//! Nothing here does I/O, awaits, or reads the time: clocks and secrets are injected.

mod clock;
mod code;
mod cursor;
mod decide;
mod edge;
mod error;
mod event;
mod external_id;
mod fence;
mod history;
mod id;
mod key;
mod list;
mod operation;
mod outcome;
mod post;
mod quota;
mod record;
mod retry;
mod secret;
mod token;
mod user;
mod version;
mod watermark;

pub use clock::{Clock, ManualClock, Uptime};
pub use code::Code;
pub use cursor::{Cursor, CursorScope, Selection};
pub use decide::{Half, Judgement, View, decide, replay, resolve};
pub use edge::{Edge, EdgeChange, EdgeValue, Expiry, Kind, State};
pub use error::{Error, FieldError, Result};
pub use event::{Event, EventBody, EventCursor};
pub use external_id::{ExternalId, external_post, external_post_value};
pub use fence::{Fence, Lease, WorkProgress};
pub use history::Ended;
pub use id::UserId;
pub use key::{Buckets, Key, KeyHasher};
pub use list::{List, Page, Place, Plane, Side};
pub use operation::{Cause, IdempotencyKey, Operation, Overwrite, UserPatch, Write};
pub use outcome::{Change, Decision, IdempotencyRecord, Outcome, Refusal, Reply, UserChange};
pub use post::{
    ImportedPost, POST_BODY_MAX_BYTES, POST_BODY_MAX_DEPTH, POSTS_AT_ONCE_MAX, Post, post_author, post_author_value,
    post_id_prefix, post_ids_at,
};
pub use quota::{FollowLimits, FollowsLeft, Moments, Quota, QuotaChange};
pub use record::{
    CHUNK_MAX, CaseMark, Condition, GROUP_MEMBERS_MAX, RECORD_MAX_BYTES, Record, RecordChange, RecordId, Space,
    is_member, member_value, tally,
};
pub use retry::RetryHasher;
pub use secret::{Sealer, Secret};
pub use token::Token;
pub use user::{Counts, User};
pub use version::{Millis, Position, Sequence, Version, VersionClock};
pub use watermark::{EventPosition, EventPositions, Lineage, Watermark};
