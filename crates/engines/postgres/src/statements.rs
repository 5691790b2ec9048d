//! The statements of a commit, prepared once for each connection: a statement of a pipeline must not wait for another
//! one to be prepared.

use deadpool_postgres::Object;
use tokio_postgres::Statement;

use super::{commit, copy, counts, error::Failure, load, lock, put, records};

macro_rules! statements {
    ($($name:ident: $text:expr,)*) => {
        pub(super) struct Statements {
            $(pub(super) $name: Statement,)*
        }

        impl Statements {
            /// One round trip for a new connection, none for another.
            pub(super) async fn of(client: &Object) -> Result<Self, Failure> {
                let ($($name,)*) = tokio::join!($(client.prepare_cached($text),)*);
                Ok(Self { $($name: $name?,)* })
            }
        }
    };
}

statements! {
    try_locks: lock::TRY,
    wait_for_locks: lock::WAIT,
    load_users: load::USERS,
    load_edges: load::EDGES,
    load_loads: load::LOADS,
    load_ends: load::ENDS,
    load_idempotency: load::IDEMPOTENCY,
    load_records: load::RECORDS,
    load_counts: load::COUNTS,
    load_lists: load::LISTS,
    load_edges_of: load::EDGES_OF,
    load_range: load::RANGE,
    load_erased: load::ERASED,
    put_users: put::USERS,
    put_quotas: put::QUOTAS,
    put_edges: put::EDGES,
    copy_edges: copy::EDGES,
    put_history: put::HISTORY,
    put_counts: counts::PUT,
    put_deltas: counts::PUT_DELTAS,
    put_records: put::RECORDS,
    remove_records: put::REMOVE_RECORDS,
    put_idempotency: put::IDEMPOTENCY,
    erase_user: records::ERASE[0],
    erase_records: records::ERASE[1],
    erase_history: records::ERASE[2],
    put_erased: records::ERASED,
    put_events: put::EVENTS,
    read_end: commit::END,
}
