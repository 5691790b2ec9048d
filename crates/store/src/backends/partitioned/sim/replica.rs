//! A reader of events, who keeps a copy of the edges by them alone, and resyncs where a position is no good any more.

use std::collections::BTreeMap;

use entourage_model::{EventBody, EventPosition, Lineage, Sequence, State};

use crate::backends::partitioned::{engine::Engine, inbound::Link};

type Copy = BTreeMap<Link, (State, bool)>;

pub(super) struct Replica {
    standing: Vec<EventPosition>,
    copies: Vec<Copy>,
}

impl Replica {
    pub(super) fn new(homes: usize) -> Self {
        let start = |partition| EventPosition { lineage: Lineage(0), partition, offset: Sequence::ZERO };
        Self { standing: (0..homes as u16).map(start).collect(), copies: vec![Copy::new(); homes] }
    }

    pub(super) fn read(&mut self, engine: &Engine, limit: usize) {
        for (standing, copy) in self.standing.iter_mut().zip(&mut self.copies) {
            match engine.read_events(*standing, limit) {
                Ok(events) => {
                    for event in events {
                        standing.offset = event.sequence;
                        if let EventBody::Edge { kind, follower, target, after, quiet, .. } = event.body {
                            let link = (kind, follower, target);
                            match after {
                                Some(state) => copy.insert(link, (state, quiet)),
                                None => copy.remove(&link),
                            };
                        }
                    }
                }
                Err(_) => (*standing, *copy) = resync(engine, usize::from(standing.partition)),
            }
        }
    }

    pub(super) fn catch_up(&mut self, engine: &Engine) -> Result<(), String> {
        self.read(engine, usize::MAX);
        self.read(engine, usize::MAX);
        for (home, copy) in self.copies.iter().enumerate() {
            let (_, truth) = resync(engine, home);
            if *copy != truth {
                return Err(format!("events of home {home} come to {copy:?}, the edges are {truth:?}"));
            }
        }
        Ok(())
    }
}

fn resync(engine: &Engine, home: usize) -> (EventPosition, Copy) {
    let lineage = engine.lineage();
    let state = engine.homes[home].lock();
    let edges = state.out.edges();
    let copy = edges.map(|edge| ((edge.kind, edge.follower, edge.target), (edge.value.state, edge.value.quiet)));
    (EventPosition { lineage, partition: home as u16, offset: state.last() }, copy.collect())
}
