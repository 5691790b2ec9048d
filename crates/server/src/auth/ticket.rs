//! Tickets stand in for a credential where a browser cannot send a header. Each is valid once, for a minute, on the
//! server that issued it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use entourage_model::{Code, Error, Millis, Result, Uptime};

use super::Authenticated;

const LIFE: Duration = Duration::from_secs(60);
const TICKETS_MAX: usize = 65_536;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) text: String,
    /// Wall-clock time, for display. Expiry goes by `uptime`.
    pub(crate) expires: Millis,
}

pub(super) struct Tickets {
    /// The caller, and the expiry by `uptime`.
    issued: Mutex<HashMap<String, (Authenticated, Duration)>>,
    /// Monotonic: a wall clock that is set back would extend tickets.
    uptime: Arc<dyn Uptime>,
}

impl Tickets {
    pub(super) fn new(uptime: Arc<dyn Uptime>) -> Self {
        Self { issued: Mutex::default(), uptime }
    }

    pub(super) fn issue(&self, known: Authenticated, now: Millis) -> Result<Ticket> {
        let text = format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>());
        let passed = self.uptime.elapsed();
        let mut tickets = self.issued.lock().map_err(|_| Error::internal("the tickets are lost"))?;
        if tickets.len() >= TICKETS_MAX {
            tickets.retain(|_, (_, until)| *until > passed);
        }
        if tickets.len() >= TICKETS_MAX {
            return Err(Error::new(Code::Overloaded, "too many tickets have not been used yet"));
        }
        tickets.insert(text.clone(), (known, passed + LIFE));
        Ok(Ticket { text, expires: now.plus(LIFE.as_millis() as u64) })
    }

    /// Removes the ticket. No timing attack: a hash map does not reveal 256 random bits piece by piece.
    pub(super) fn redeem(&self, text: &str) -> Option<Authenticated> {
        let (known, until) = self.issued.lock().ok()?.remove(text)?;
        (until > self.uptime.elapsed()).then_some(known)
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::ManualClock;

    use super::*;

    const NOW: Millis = Millis::from_since_2000(1_000_000_000);

    fn tickets() -> (Tickets, Arc<ManualClock>) {
        let passing = Arc::new(ManualClock::new(Millis::from_since_2000(1_000)));
        (Tickets::new(Arc::clone(&passing) as _), passing)
    }

    #[test]
    fn a_ticket_is_good_once_and_for_a_minute() {
        let (tickets, passing) = tickets();
        let [first, last, late] = [(); 3].map(|()| tickets.issue(Authenticated::default(), NOW).unwrap());
        assert_ne!(first.text, late.text);
        assert_eq!(first.expires, NOW.plus(60_000));
        assert_eq!(tickets.redeem(&first.text), Some(Authenticated::default()));
        assert_eq!(tickets.redeem(&first.text), None);
        passing.advance(59_999);
        assert_eq!(tickets.redeem(&last.text), Some(Authenticated::default()));
        passing.advance(1);
        assert_eq!(tickets.redeem(&late.text), None);
        assert_eq!(tickets.redeem(&late.text), None);
    }

    /// The wall clock does not matter for expiry.
    #[test]
    fn tickets_keep_their_minute_when_the_clock_is_set() {
        let (tickets, passing) = tickets();
        let hour = 60 * 60 * 1000;
        for wall in [NOW, Millis::from_since_2000(NOW.since_2000() - hour), NOW.plus(hour), Millis::default()] {
            let [good, late] = [(); 2].map(|()| tickets.issue(Authenticated::default(), wall).unwrap());
            passing.advance(30_000);
            assert_eq!(tickets.redeem(&good.text), Some(Authenticated::default()), "{wall:?}");
            passing.advance(30_000);
            assert_eq!(tickets.redeem(&late.text), None, "{wall:?}");
        }
    }

    #[test]
    fn tickets_nobody_uses_have_a_bound() {
        let (tickets, passing) = tickets();
        for _ in 0..TICKETS_MAX {
            tickets.issue(Authenticated::default(), NOW).unwrap();
        }
        assert_eq!(tickets.issue(Authenticated::default(), NOW).unwrap_err().code(), Code::Overloaded);
        passing.advance(60_000);
        tickets.issue(Authenticated::default(), NOW).unwrap();
    }
}
