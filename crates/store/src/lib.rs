//! Where truth lives: the store trait, its backends, and the conformance suite they all pass.

mod adjacency;
pub mod backends;
mod clock;
pub mod conformance;
pub mod disk;
mod ext;
mod fail_point;
mod guarantees;
mod health;
pub mod layers;
mod maintenance;
mod merged;
mod report;
mod retention;
pub mod share;
mod store;
mod sweep;

pub use clock::{SystemClock, SystemUptime};
pub use ext::StoreExt;
pub use fail_point::fail_point;
pub use guarantees::{CommitOrder, Derived, Guarantees, Mirrors, Writers};
pub use health::{Health, Unhealthy};
pub use maintenance::{ChangedEdges, EdgeName, Healed, Maintenance, Recounted};
pub use report::{Problem, Report};
pub use store::{Answer, Covered, Identity, Progress, Store, Whose};
pub use sweep::{Sweep, SweepCursor, Swept};
