//! Publishes the halves of a home, each to the log of its target's home.

use super::{engine::Engine, pace::Step};

impl Engine {
    /// Drops what a home has applied from the log that only it reads.
    pub fn trim(&self, index: usize) {
        if let (Some(home), Some(log)) = (self.homes.get(index), self.halves.get(index)) {
            let applied = home.lock().applied;
            log.lock().truncate(applied);
        }
    }

    /// Publishes some halves, then notes it: a relay interrupted in between publishes them again. Returns whether there
    /// were any.
    pub async fn relay(&self, index: usize) -> bool {
        let Some(home) = self.homes.get(index) else { return false };
        let (lineage, batch) = {
            let home = home.lock();
            let waiting = home.outbox.iter().filter(|outgoing| outgoing.sequence > home.relayed);
            (home.lineage, waiting.take(self.batch).copied().collect::<Vec<_>>())
        };
        let Some(last) = batch.last().map(|outgoing| outgoing.sequence) else { return false };
        for outgoing in batch {
            self.pace.pause(Step::Publish).await;
            let target = self.home_of(outgoing.half.target);
            if let (Some(log), Some(applier)) = (self.halves.get(target), self.appliers.get(target)) {
                log.lock().append(outgoing);
                applier.notify_one();
            }
        }
        self.pace.pause(Step::Advance).await;
        let mut home = home.lock();
        // A home that went back has other halves to publish under these numbers.
        if home.lineage == lineage {
            home.relayed = home.relayed.max(last);
            let relayed = home.relayed;
            home.outbox.retain(|outgoing| outgoing.sequence > relayed);
        }
        true
    }
}
