//! The idempotency keys of requests that are still running on this server.

use std::collections::HashSet;

use entourage_model::{Code, Error, Result};
use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<HashSet<[u8; 16]>>);

impl Running {
    /// Held until the request is answered, or given up by its client.
    pub(crate) fn enter(&self, scope: [u8; 16]) -> Result<Guard<'_>> {
        if self.0.lock().insert(scope) {
            return Ok(Guard { running: self, scope });
        }
        Err(Error::new(Code::RequestInProgress, "a request with this Idempotency-Key has not been answered yet"))
    }
}

#[derive(Debug)]
pub(crate) struct Guard<'a> {
    running: &'a Running,
    scope: [u8; 16],
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.running.0.lock().remove(&self.scope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_runs_once_at_a_time() {
        let running = Running::default();
        let first = running.enter([1; 16]).unwrap();
        assert_eq!(running.enter([1; 16]).unwrap_err().code(), Code::RequestInProgress);
        let _other = running.enter([2; 16]).unwrap();
        drop(first);
        running.enter([1; 16]).unwrap();
    }
}
