//! Stores of many homes: one whose writes wait until everything has settled, and one that settles when the test says
//! so.

use std::{sync::Arc, time::Duration};

use crate::conformance::hooked::{Hooked, Hooks};
use async_trait::async_trait;
use entourage_memory::partitioned::{self, Fate, Pace, Step};
use entourage_model::{Clock, Outcome, Result, Secret, Watermark, Write};
use entourage_store::{Covered, Identity, Store, StoreExt as _, SystemClock, Whose};
use tokio::sync::watch;

const HOMES: u16 = 16;

fn identity() -> Identity {
    Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) }
}

/// As it is: lists and totals settle after the answer.
pub fn settling() -> Arc<dyn Store> {
    Arc::new(partitioned::Store::new(identity(), Arc::new(SystemClock), HOMES))
}

/// A write is answered when everything has settled.
pub fn settled(clock: Arc<dyn Clock>) -> Arc<dyn Store> {
    Arc::new(Hooked::new(Arc::new(partitioned::Store::new(identity(), clock, HOMES)), Waiting))
}

struct Waiting;

#[async_trait]
impl Hooks for Waiting {
    async fn commit(&self, inner: &dyn Store, write: Write) -> Result<Outcome> {
        let outcome = inner.commit(write).await?;
        settle(inner).await;
        Ok(outcome)
    }
}

/// Returns when everything acked before has settled.
pub async fn settle(store: &dyn Store) {
    let newest = store.newest().await.unwrap();
    for turn in 0..100_000 {
        if store.covers(&newest, Whose::Everybody).await.unwrap() == Covered::Yes {
            return;
        }
        match turn {
            0..1_000 => tokio::task::yield_now().await,
            _ => tokio::time::sleep(Duration::from_micros(100)).await,
        }
    }
    panic!("{newest:?} never settles");
}

/// While it is shut nothing is published: lists and totals stay as they are.
#[derive(Clone)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    pub fn set(&self, is_open: bool) {
        self.0.send_replace(is_open);
    }
}

#[async_trait]
impl Pace for Gate {
    async fn pause(&self, step: Step) {
        if step == Step::Publish {
            let mut gate = self.0.subscribe();
            let _closed = gate.wait_for(|is_open| *is_open).await;
        }
    }

    fn fate(&self) -> Fate {
        Fate::Answered
    }
}

pub fn gated() -> (Arc<dyn Store>, Gate) {
    let gate = Gate(watch::Sender::new(true));
    let store = partitioned::Store::paced(identity(), Arc::new(SystemClock), HOMES, Arc::new(gate.clone()));
    (Arc::new(store), gate)
}

/// A store that claims to have settled.
pub fn hasty(store: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Hooked::new(store, Hasty))
}

struct Hasty;

#[async_trait]
impl Hooks for Hasty {
    async fn covers(&self, _inner: &dyn Store, _watermark: &Watermark, _whose: Whose<'_>) -> Result<Covered> {
        Ok(Covered::Yes)
    }
}
