//! Concurrent clients that follow, unfollow and block at random.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use entourage_model::{Key, Operation, Write};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::sync::Barrier;

use super::{Action, Ending, Record, Verb};
use entourage_store::{CommitOrder, Store, StoreExt as _};

#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub seed: u64,
    pub clients: usize,
    /// Requests of each client.
    pub requests: usize,
}

/// The order of requests and replies.
#[derive(Debug, Default)]
pub struct Ticks(AtomicU64);

impl Ticks {
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

impl Action {
    /// One of the verbs, between two of `users`.
    pub fn draw(rng: &mut StdRng, users: &[Key]) -> Self {
        let verb = match rng.random_range(0..20) {
            0..8 => Verb::Follow,
            8..10 => Verb::FollowQuietly,
            10..13 => Verb::Unfollow,
            13..15 => Verb::Block,
            // More often than blocks: most are no-ops, and edges must have a chance.
            _ => Verb::Unblock,
        };
        let actor = rng.random_range(0..users.len());
        let target = (actor + rng.random_range(1..users.len())) % users.len();
        Self { verb, actor: users[actor], target: users[target] }
    }

    pub fn operation(&self) -> Operation {
        let Self { verb, actor, target } = *self;
        match verb {
            Verb::Follow => Operation::Follow { follower: actor, target, quiet: Some(false), cap: None, park: false },
            Verb::FollowQuietly => {
                Operation::Follow { follower: actor, target, quiet: Some(true), cap: None, park: false }
            }
            Verb::Unfollow => Operation::Unfollow { follower: actor, target },
            Verb::Block => Operation::Block { actor, target },
            Verb::Unblock => Operation::Unblock { actor, target },
        }
    }
}

/// Runs the clients on `users`, who exist, are public, and have no edges. Nobody else may write to them.
pub async fn drive(store: &Arc<dyn Store>, users: &[Key], load: Load) -> Vec<Record> {
    let (ticks, barrier) = (Arc::new(Ticks::default()), Arc::new(Barrier::new(load.clients)));
    let mut clients = Vec::with_capacity(load.clients);
    for client in 0..load.clients {
        let (store, ticks, barrier) = (Arc::clone(store), Arc::clone(&ticks), Arc::clone(&barrier));
        let users = users.to_vec();
        clients.push(tokio::spawn(async move {
            let mut rng = StdRng::seed_from_u64(load.seed.wrapping_mul(1_000_003).wrapping_add(client as u64));
            let mut records = Vec::with_capacity(load.requests);
            barrier.wait().await;
            for _ in 0..load.requests {
                let action = Action::draw(&mut rng, &users);
                let invoked = ticks.next();
                let ending = Ending::of(
                    &store.commit(Write::from(action.operation())).await,
                    store.guarantees().order == CommitOrder::Known,
                );
                let completed = (ending != Ending::Info).then(|| ticks.next());
                records.push(Record { client, action, invoked, completed, ending });
                tokio::task::yield_now().await;
            }
            records
        }));
    }
    let mut records = Vec::new();
    for client in clients {
        records.extend(client.await.expect("the client ends"));
    }
    records
}
