//! The contract of every engine: the store trait with its numbered clauses, the guarantees an engine may add, and
//! layers over any store. Knows no engine.

pub mod adjacency;
mod clock;
pub mod disk;
mod edge_row;
mod ext;
mod fail_point;
mod guarantees;
mod health;
pub mod layers;
mod maintenance;
mod merged;
mod newest_follows;
mod report;
pub mod retention;
mod servers;
pub mod share;
mod store;
mod sweep;

pub use clock::{SystemClock, SystemUptime};
pub use edge_row::EdgeRow;
pub use ext::StoreExt;
pub use fail_point::fail_point;
pub use guarantees::{CommitOrder, Derived, Guarantees, Mirrors, Writers};
pub use health::{Health, Unhealthy};
pub use maintenance::{ChangedEdges, EdgeName, Healed, Maintenance, Recounted, Snapshots};
pub use newest_follows::NewestFollows;
pub use report::{Problem, Report};
pub use servers::Server;
pub use store::{Answer, Covered, HeardEnd, Identity, Named, Progress, Store, Whose};
pub use sweep::{Sweep, SweepCursor, Swept};
