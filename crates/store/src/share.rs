//! A task's share of its thread. What is answered from memory never waits, and the runtime cannot take the thread away
//! from it: whoever works on and on spends from the runtime's own budget for a task, and gives way when it is used up.

use tokio::task::consume_budget;

/// Rows that cost about as much as one operation of a socket, some 8 µs.
const ROWS: usize = 16;
/// Rows or pairs of one call that are looked up before others get their turn.
pub const CHUNK: usize = 256;

/// Spends so many of the 128 units that a task has for one turn, about a millisecond; waits for the next turn when none
/// is left.
pub async fn spend(units: usize) {
    for _ in 0..units {
        consume_budget().await;
    }
}

/// Spends what so many rows cost, whole units only.
pub async fn spend_rows(rows: usize) {
    spend(rows.div_ceil(ROWS)).await;
}

#[cfg(test)]
mod tests {
    use std::{
        future::{Future, poll_fn},
        pin::pin,
    };

    use super::*;

    #[tokio::test]
    async fn whoever_goes_on_and_on_gives_way() {
        let mut turns = 0;
        let mut work = pin!(async {
            for _ in 0..1_000 {
                spend_rows(100).await;
            }
        });
        poll_fn(|context| {
            turns += 1;
            work.as_mut().poll(context)
        })
        .await;
        assert!((50..60).contains(&turns), "{turns} turns for 7,000 units");
    }
}
