//! What an edge costs on disk, after the final checkpoint.

use anyhow::Result;

use super::Subject;
use crate::{
    place::{self, Weight},
    table::Row,
};

pub(super) fn measure(subject: &Subject<'_>) -> Result<Vec<Row>> {
    let Weight { edges, users, rest, log } = place::weigh(subject.folder)?;
    let each = |bytes: u64| vec![bytes as f64 / subject.graph.edges() as f64];
    // The allowance grows with the users, whose lists get shorter.
    let goal = if subject.graph.edges() / u64::from(subject.graph.users) >= 20 { 20.0 } else { 28.0 };
    Ok(vec![
        Row::new("disk, both directions with times", "bytes an edge", each(edges + rest))
            .at_most(goal)
            .note("blocks with their dead space, and the manifest; without users and log"),
        Row::new("disk, with users", "bytes an edge", each(edges + rest + users)),
        Row::new("disk, manifest alone", "bytes an edge", each(rest)),
        Row::new("disk, retained log", "bytes an edge", each(log)).note("whole segments"),
    ])
}
