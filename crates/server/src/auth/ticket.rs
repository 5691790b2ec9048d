//! Tickets: what stands in for a credential where a browser cannot send a header. Good once, for a minute, on the server
//! that gave it out.

use std::{collections::HashMap, sync::Mutex};

use entourage_model::{Code, Error, Millis, Result};
use entourage_service::Caller;

const LIFE_MILLIS: u64 = 60_000;
const TICKETS_MAX: usize = 65_536;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) text: String,
    pub(crate) expires: Millis,
}

#[derive(Default)]
pub(super) struct Tickets(Mutex<HashMap<String, (Caller, Millis)>>);

impl Tickets {
    pub(super) fn issue(&self, caller: Caller, now: Millis) -> Result<Ticket> {
        let text = format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>());
        let expires = now.plus(LIFE_MILLIS);
        let mut tickets = self.0.lock().map_err(|_| Error::internal("the tickets are lost"))?;
        if tickets.len() >= TICKETS_MAX {
            tickets.retain(|_, (_, expires)| *expires > now);
        }
        if tickets.len() >= TICKETS_MAX {
            return Err(Error::new(Code::Overloaded, "too many tickets have not been used yet"));
        }
        tickets.insert(text.clone(), (caller, expires));
        Ok(Ticket { text, expires })
    }

    /// Whoever finds a ticket has taken it. The time between a guess and its answer tells nothing: 256 random bits are
    /// not found piece by piece in a map of hashes.
    pub(super) fn redeem(&self, text: &str, now: Millis) -> Option<Caller> {
        let (caller, expires) = self.0.lock().ok()?.remove(text)?;
        (expires > now).then_some(caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once_and_for_a_minute() {
        let (tickets, now) = (Tickets::default(), Millis::from_since_2000(1_000));
        let [first, late, last] = [(); 3].map(|()| tickets.issue(Caller::default(), now).unwrap());
        assert_ne!(first.text, late.text);
        assert_eq!(tickets.redeem(&first.text, now), Some(Caller::default()));
        assert_eq!(tickets.redeem(&first.text, now), None);
        assert_eq!(tickets.redeem(&late.text, now.plus(60_000)), None);
        assert_eq!(tickets.redeem(&late.text, now), None);
        assert_eq!(tickets.redeem(&last.text, now.plus(59_999)), Some(Caller::default()));
    }

    #[test]
    fn tickets_nobody_uses_have_a_bound() {
        let (tickets, now) = (Tickets::default(), Millis::from_since_2000(1_000));
        for _ in 0..TICKETS_MAX {
            tickets.issue(Caller::default(), now).unwrap();
        }
        assert_eq!(tickets.issue(Caller::default(), now).unwrap_err().code(), Code::Overloaded);
        tickets.issue(Caller::default(), now.plus(60_000)).unwrap();
    }
}
