//! Resident memory of a process that has just opened the store, against one that opened the users alone, and an empty
//! one.

use anyhow::Result;

use super::{Bench, Subject, import};
use crate::{
    child::{self, Freed},
    table::{Row, number},
};

pub(super) fn measure(bench: &Bench<'_>, subject: &Subject<'_>) -> Result<Vec<Row>> {
    let empty = bench.place.fresh("store-empty")?;
    bench.with_store(&empty, async |_| Ok(()))?;
    let alone = bench.place.fresh("store-users")?;
    import::users_only(bench, subject, &alone)?;

    let (edges, users) = (subject.graph.edges() as f64, f64::from(subject.graph.users));
    let resident = |folder| -> Result<f64> { Ok(child::open(folder, Freed::Returned)?.resident as f64) };
    let (nothing, alone, all) = (resident(&empty)?, resident(&alone)?, resident(subject.folder)?);
    let usual = child::open(subject.folder, Freed::Kept)?.resident as f64;
    let allowed = 8.0 * edges + 60.0 * users;
    Ok(vec![
        Row::new("memory, following side", "MB", vec![(all - alone) / 1e6]).at_most(allowed / 1e6).note(format!(
            "with edges less without: rows, references; {} bytes an edge",
            number((all - alone) / edges)
        )),
        Row::new("memory, whole store", "MB", vec![(all - nothing) / 1e6]).at_most(allowed / 1e6).note(format!(
            "against the same allowance of 8 bytes an edge and 60 a user; {} MB resident",
            number(all / 1e6)
        )),
        Row::new("memory, users without edges", "bytes a user", vec![(alone - nothing) / users])
            .note("records, keys, ordinals, empty lists"),
        Row::new("memory right after the start", "MB", vec![usual / 1e6])
            .note("resident, with what the allocator has not yet given back"),
    ])
}
