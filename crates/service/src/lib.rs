//! The rules, each of them once; what must hold under races goes down to the store as data. Nothing here knows how a
//! request arrived or how its answer is encoded.
//!
//! [`Service`] is what a front holds. It has a room for each subject: [`Graph`], [`Feeds`], [`Notifications`], [`Events`],
//! [`Jobs`], [`Upkeep`], [`Transfer`], [`Suggestions`], [`Abuse`], [`Leases`]. Rooms share a context: the store to read, and the writer, which every write goes
//! through.

mod abuse;
mod call;
mod catch_up;
mod context;
mod events;
mod feed;
mod graph;
mod ids;
mod in_flight;
mod jobs;
mod leases;
mod limits;
mod notifications;
mod rows;
mod rules;
mod scheduler;
mod service;
mod signals;
mod suggestions;
mod transfer;
mod uncancellable;
mod upkeep;
mod visibility;
mod writer;

pub use abuse::{
    Abuse, AbuseRules, CASE_ACTORS_MAX, CASE_EVIDENCE_MAX, CASE_TARGETS_MAX, CLUSTER_TARGETS_MIN, Case, CaseClosed,
    CaseEvidence, CaseFilter, CaseKind, CasePage, CaseState, CaseSummary, CaseUser, ClustersFound, OPEN_CASES_MAX,
    TargetQuota, TargetQuotaWritten,
};
pub use call::{Actor, Call, Caller, Credential, Retry};
pub(crate) use context::Context;
pub use events::{EventPage, EventRow, EventStream, Events};
pub use feed::{
    Because, Entry, Explained, FeedMessage, FeedPage, FeedPost, FeedRow, FeedRules, FeedStatus, FeedStream,
    FeedWindowed, Feeds, Inboxes, LaneStatus, NewPost, Pin, PostPage, PostView, PostWritten, Slice, Ticket,
};
pub use graph::{
    AVATAR_URL_MAX_BYTES, BATCH_MAX, Batch, BatchDone, BatchOperation, CHECKS_MAX, Checked, Checks, Counted,
    DISTANCE_EDGES_MAX, DISTANCE_ENDS_MAX, DRIVING_ROWS_MAX, Derived, Distance, EdgeWritten, Ending, Followed,
    GROUP_NAME_MAX_CHARS, GROUPS_MAX, Graph, GroupWritten, HistoryPage, HistoryRow, LEADERBOARD_MAX, LISTS_MAX,
    LeaderboardPage, Limit, ListName, ListStream, Marked, MemberAdded, NAME_MAX_BYTES, Order, Pipelined,
    RELATIONSHIPS_MAX, Ranked, Relationship, Removed, ScanCursor, ScanPage, Shared, Surges, Suspended, UserGroup,
    UserPage, UserView, UserWritten, VisibleCounts, Window, Windowed,
};
pub use jobs::{Job, JobKind, JobPage, JobStarted, JobState, Jobs};
pub use leases::{Duty, LeaseView, Leases, Presence, Role, Roles, ServerInfo, ServerView, ServersView};
pub use limits::{Limits, QuotaStatus};
pub use notifications::{
    ACTORS_SHOWN, GROUP_LOOK_MAX, GROUP_ROWS_MAX, Notification, NotificationKind, NotificationMessage,
    NotificationPage, NotificationStream, Notifications, NotificationsSeen,
};
pub use rows::UserRow;
pub use rules::Rules;
pub use scheduler::{Clusters, Scheduled, Scheduler, Task, TaskResult};
pub use service::Service;
pub use signals::{COUNTERS_MAX, SIGNAL_COUNT_MAX, SIGNALS_MAX, Signal, SignalRules, Signalled, Signals, VIEWED_MAX};
pub use suggestions::{
    CACHE_BYTES_MAX, DISMISSED_MAX, FIRST_HOPS_MAX, IMPORTED_MAX, NAMED_MAX, NEWCOMER_FOLLOWS, Person, RankerName,
    Reason, SECOND_HOPS_MAX, SUGGESTIONS_MAX, Suggestion, SuggestionRules, Suggestions, parse_suggestion_limit,
};
pub use transfer::{
    Demo, DemoTraffic, Export, ExportFormat, ExportKind, Exported, Packed, Packing, Transfer, demo_ids, import,
};
pub use upkeep::{AuditReport, Drift, EdgesHealed, Upkeep};
pub use writer::Receipt;
