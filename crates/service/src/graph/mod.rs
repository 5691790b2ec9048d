//! The graph: users, follows, requests, blocks, mutes and groups; lists, checks and what follows from them.

mod batch;
mod block;
mod check;
mod derived;
mod distance;
mod follow;
pub(crate) mod group;
mod history;
mod intersection;
mod leaderboard;
mod list;
mod list_stream;
mod mute;
mod parked;
mod pipeline;
mod published_board;
mod quarantine;
mod range;
mod relationship;
mod request;
mod scan_cursor;
mod set_scan;
mod user;

use std::sync::Arc;

pub use self::{
    batch::{BATCH_MAX, Batch, BatchDone, BatchOperation},
    block::Marked,
    check::{CHECKS_MAX, Checked, Checks},
    derived::{Counted, Derived},
    distance::{DISTANCE_EDGES_MAX, DISTANCE_ENDS_MAX, Distance},
    follow::{Followed, Removed},
    group::{GROUP_NAME_MAX_CHARS, GROUPS_MAX, GroupWritten, MemberAdded, UserGroup},
    history::{Ending, HistoryPage, HistoryRow},
    intersection::{LISTS_MAX, ListName, Shared},
    leaderboard::{LEADERBOARD_MAX, LeaderboardPage, Ranked},
    list::{Limit, UserPage},
    list_stream::ListStream,
    pipeline::{EdgeWritten, Pipelined},
    quarantine::Surges,
    range::{Order, Window, Windowed},
    relationship::{RELATIONSHIPS_MAX, Relationship},
    scan_cursor::{ScanCursor, ScanPage},
    set_scan::DRIVING_ROWS_MAX,
    user::{AVATAR_URL_MAX_BYTES, NAME_MAX_BYTES, Suspended, UserView, UserWritten, VisibleCounts},
};
pub(crate) use self::{leaderboard::Leaderboard, user::is_text_fine};
use crate::{Abuse, Context, Jobs, Leases};

/// Who follows whom, who may see it, and how it changes.
pub struct Graph {
    context: Arc<Context>,
    /// What a change leaves to be done: requests to an account that is private no longer.
    jobs: Arc<Jobs>,
    leaderboard: Arc<Leaderboard>,
    leases: Arc<Leases>,
    /// Whom open cases hold, and which targets have a surge.
    abuse: Arc<Abuse>,
}

impl Graph {
    pub(crate) const fn new(
        context: Arc<Context>,
        jobs: Arc<Jobs>,
        leaderboard: Arc<Leaderboard>,
        leases: Arc<Leases>,
        abuse: Arc<Abuse>,
    ) -> Self {
        Self { context, jobs, leaderboard, leases, abuse }
    }
}
