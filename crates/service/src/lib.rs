//! The rules: users, follow, requests, block, mute, groups, lists and what follows from them, checks, counts, history,
//! events, limits, and the jobs that do what is too much for one request.
//! Each rule lives here once; what must hold under
//! races goes down to the store as data. Nothing here knows how a request arrived or how its answer is encoded.

mod audit;
mod batch;
mod block;
mod call;
mod catch_up;
mod check;
mod csv;
mod demo;
mod derived;
mod distance;
mod events;
mod export;
mod feed;
mod follow;
mod group;
mod healer;
mod history;
mod ids;
pub mod import;
mod in_flight;
mod intersection;
mod jobs;
mod leaderboard;
mod limits;
mod list;
mod list_stream;
mod mute;
mod notification;
mod pipeline;
mod post;
mod range;
mod relationship;
mod request;
mod scan_cursor;
mod service;
mod set_scan;
mod stream;
mod stream_hub;
mod uncancellable;
mod user;
mod visibility;
mod writer;

pub use audit::{AuditReport, Drift};
pub use batch::{BATCH_MAX, Batch, BatchDone, BatchOperation};
pub use block::Marked;
pub use call::{Actor, Call, Caller, Credential, Retry};
pub use check::{CHECKS_MAX, Checked};
pub use demo::{Demo, DemoTraffic, demo_ids};
pub use derived::{Counted, Derived};
pub use distance::{DISTANCE_EDGES_MAX, DISTANCE_ENDS_MAX, Distance};
pub use events::{EventPage, EventRow};
pub use export::{Export, ExportFormat, ExportKind, Exported, Packed, Packing};
pub use feed::{
    Because, Entry, Explained, FeedMessage, FeedPage, FeedPost, FeedRow, FeedRules, FeedStatus, FeedStream,
    FeedWindowed, Inboxes, LaneStatus, Pin, Slice, Ticket,
};
pub use follow::{Followed, Removed};
pub use group::{GROUP_NAME_MAX_CHARS, GROUPS_MAX, GroupWritten, MemberAdded, UserGroup};
pub use healer::EdgesHealed;
pub use history::{Ending, HistoryPage, HistoryRow};
pub use intersection::{LISTS_MAX, ListName, Shared};
pub use jobs::{Job, JobKind, JobPage, JobStarted, JobState};
pub use leaderboard::{LEADERBOARD_MAX, LeaderboardPage, Ranked};
pub use limits::{Limits, QuotaStatus};
pub use list::{Limit, UserPage, UserRow};
pub use list_stream::ListStream;
pub use notification::{
    ACTORS_SHOWN, GROUP_LOOK_MAX, GROUP_ROWS_MAX, Notification, NotificationKind, NotificationPage, NotificationsSeen,
};
pub use pipeline::{EdgeWritten, Pipelined};
pub use post::{NewPost, PostPage, PostView, PostWritten};
pub use range::{Order, Window, Windowed};
pub use relationship::{RELATIONSHIPS_MAX, Relationship};
pub use scan_cursor::{ScanCursor, ScanPage};
pub use service::{Receipt, Rules, Service};
pub use set_scan::DRIVING_ROWS_MAX;
pub use stream::{EventStream, NotificationMessage, NotificationStream};
pub use user::{AVATAR_URL_MAX_BYTES, NAME_MAX_BYTES, Suspended, UserView, UserWritten, VisibleCounts};
