//! A task's share of its thread. Work answered from memory never awaits, so the runtime cannot preempt it: a long run
//! spends from the runtime's cooperative budget of the task, and yields when it is used up.

use tokio::task::consume_budget;

/// Rows that cost about as much as one socket operation, some 8 µs.
const ROWS: usize = 16;
/// Rows or pairs of one call that are looked up before the task yields.
pub const CHUNK: usize = 256;

/// Spends this many of the 128 units of a task's turn, about a millisecond; waits for the next turn when none is left.
pub async fn spend(units: usize) {
    for _ in 0..units {
        consume_budget().await;
    }
}

/// Spends the cost of this many rows, whole units only.
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
