//! The idempotency keys of requests that are still running on this server.

use std::collections::HashSet;

use entourage_model::{Code, Error, Result};
use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<HashSet<[u8; 16]>>);

impl InFlight {
    /// Held until the request is answered, or given up by its client.
    pub(crate) fn enter(&self, scope: [u8; 16]) -> Result<Guard<'_>> {
        if self.0.lock().insert(scope) {
            return Ok(Guard { in_flight: self, scope });
        }
        Err(Error::new(Code::RequestInProgress, "a request with this Idempotency-Key has not been answered yet"))
    }
}

#[derive(Debug)]
pub(crate) struct Guard<'a> {
    in_flight: &'a InFlight,
    scope: [u8; 16],
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.in_flight.0.lock().remove(&self.scope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_runs_once_at_a_time() {
        let in_flight = InFlight::default();
        let first = in_flight.enter([1; 16]).unwrap();
        assert_eq!(in_flight.enter([1; 16]).unwrap_err().code(), Code::RequestInProgress);
        let _other = in_flight.enter([2; 16]).unwrap();
        drop(first);
        in_flight.enter([1; 16]).unwrap();
    }
}
