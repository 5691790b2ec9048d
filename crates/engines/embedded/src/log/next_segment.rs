//! Creates the next log segment ahead of need: zeroing must not stall a batch, and a full disk shows before anything is
//! half written.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::{
    engine::Engine,
    fault::Fault,
    log::{self, SegmentFile},
};

const RETRY: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(crate) struct NextSegment {
    state: Mutex<NextSegmentState>,
    changed: Condvar,
}

#[derive(Default)]
struct NextSegmentState {
    wanted: Option<u64>,
    ready: Option<SegmentFile>,
    error: Option<Fault>,
}

impl NextSegment {
    /// Requests segment `number`.
    pub(crate) fn want(&self, number: u64) {
        let mut state = self.state.lock();
        state.wanted = Some(number);
        state.error = None;
        self.changed.notify_all();
    }

    /// Waits for segment `number`.
    pub(crate) fn take(&self, engine: &Engine, number: u64) -> Result<SegmentFile, Fault> {
        if !engine.options.prepare_ahead {
            return make(engine, number);
        }
        let mut state = self.state.lock();
        loop {
            if let Some(file) = state.ready.take_if(|ready| ready.number == number) {
                return Ok(file);
            }
            if let Some(fault) = &state.error {
                return Err(fault.clone());
            }
            if engine.is_stopping() {
                return Err(Fault::Closed);
            }
            engine.poisoned()?;
            if state.wanted.is_none() {
                state.wanted = Some(number);
                self.changed.notify_all();
            }
            self.changed.wait_for(&mut state, Duration::from_millis(100));
        }
    }

    pub(crate) fn stop(&self) {
        self.changed.notify_all();
    }
}

fn make(engine: &Engine, number: u64) -> Result<SegmentFile, Fault> {
    Ok(log::prepare(&*engine.disk, &engine.identity, number, engine.options.segment_bytes)?)
}

/// The thread that creates segments.
pub(crate) fn run(engine: &Engine) {
    loop {
        let number = {
            let mut state = engine.next_segment.state.lock();
            loop {
                if engine.is_stopping() {
                    return;
                }
                if let Some(number) = state.wanted.filter(|_| state.ready.is_none()) {
                    break number;
                }
                engine.next_segment.changed.wait_for(&mut state, Duration::from_millis(200));
            }
        };
        entourage_store::fail_point("segments");
        let made = make(engine, number);
        let mut state = engine.next_segment.state.lock();
        match made {
            Ok(file) => {
                state.wanted = None;
                state.error = None;
                state.ready = Some(file);
                engine.has_segment();
            }
            // Retried soon: nothing announces that space is free again.
            Err(fault) => {
                state.error = Some(fault);
                engine.next_segment.changed.notify_all();
                engine.next_segment.changed.wait_for(&mut state, RETRY);
            }
        }
        engine.next_segment.changed.notify_all();
    }
}
