//! The rules: users, follow, block, lists, checks, counts, events, limits. Each rule lives here once; what must hold under
//! races goes down to the store as data. Nothing here knows how a request arrived or how its answer is encoded.

mod block;
mod call;
mod check;
mod events;
mod follow;
mod ids;
mod limits;
mod list;
mod running;
mod service;
mod user;
mod visibility;

pub use block::{Blocked, Unblocked};
pub use call::{Actor, Call, Caller, Credential, Retry};
pub use check::{CHECKS_MAX, Checked};
pub use events::{EventPage, EventRow};
pub use follow::{Followed, Unfollowed};
pub use limits::{Limits, Standing, SystemUptime, Uptime};
pub use list::{Limit, UserPage, UserRow};
pub use service::{Receipt, Rules, Service};
pub use user::{AVATAR_URL_MAX_BYTES, NAME_MAX_BYTES, UserView, UserWritten, VisibleCounts};
