//! A reader of events that keeps a copy of the edges from them alone, and resyncs where its position is no longer
//! valid.

use std::collections::BTreeMap;

use entourage_model::{EventBody, EventPosition, Lineage, Sequence, State};

use entourage_memory::partitioned::{engine::Engine, inbound::Link};

type Copy = BTreeMap<Link, (State, bool)>;

pub(super) struct Replica {
    standing: Vec<EventPosition>,
    copies: Vec<Copy>,
    /// How often it was told to resync.
    pub(super) resumed: usize,
}

impl Replica {
    pub(super) fn new(homes: usize) -> Self {
        let start = |partition| EventPosition { lineage: Lineage(0), partition, offset: Sequence::ZERO };
        Self { standing: (0..homes as u16).map(start).collect(), copies: vec![Copy::new(); homes], resumed: 0 }
    }

    pub(super) fn read(&mut self, engine: &Engine, limit: usize) -> Result<(), String> {
        for (standing, copy) in self.standing.iter_mut().zip(&mut self.copies) {
            match engine.read_events(*standing, limit) {
                Ok(events) => {
                    for event in events {
                        if event.sequence != standing.offset.next() {
                            return Err(format!("{event:?} is not the next after {standing:?}"));
                        }
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
                Err(resume) => {
                    self.resumed += 1;
                    is_where_to_go_on(engine, *standing, resume)?;
                    (*standing, *copy) = resync(engine, usize::from(standing.partition));
                }
            }
        }
        Ok(())
    }

    pub(super) fn catch_up(&mut self, engine: &Engine) -> Result<(), String> {
        self.read(engine, usize::MAX)?;
        self.read(engine, usize::MAX)?;
        for (home, copy) in self.copies.iter().enumerate() {
            let (_, truth) = resync(engine, home);
            if *copy != truth {
                return Err(format!("events of home {home} come to {copy:?}, the edges are {truth:?}"));
            }
        }
        Ok(())
    }
}

/// A reader is redirected only if its position is gone, and to where no kept event is missed.
fn is_where_to_go_on(engine: &Engine, asked: EventPosition, resume: EventPosition) -> Result<(), String> {
    let (dropped, last) = {
        let home = engine.homes[usize::from(asked.partition)].lock();
        (home.dropped, home.last())
    };
    let is_kept = asked.lineage == resume.lineage && asked.offset >= dropped && asked.offset <= last;
    let rest = engine.read_events(resume, usize::MAX).map(|events| events.len() as u64);
    match !is_kept && rest == Ok(last.0 - resume.offset.0) && resume.offset <= last {
        true => Ok(()),
        false => Err(format!("from {asked:?} one is sent to {resume:?}, of events from {dropped} to {last}")),
    }
}

fn resync(engine: &Engine, home: usize) -> (EventPosition, Copy) {
    let lineage = engine.lineage();
    let state = engine.homes[home].lock();
    let edges = state.out.edges();
    let copy = edges.map(|edge| ((edge.kind, edge.follower, edge.target), (edge.value.state, edge.value.quiet)));
    (EventPosition { lineage, partition: home as u16, offset: state.last() }, copy.collect())
}
