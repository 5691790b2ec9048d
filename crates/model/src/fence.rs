//! What a worker's write carries besides its operation: its lease, and its progress.

use crate::{Condition, Error, RecordId, Result};

/// Names work that one worker does at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease(RecordId);

impl Lease {
    pub const MAX_BYTES: usize = RecordId::MAX_BYTES - RecordId::LEASES.len();

    pub fn new(name: &[u8]) -> Result<Self> {
        if name.is_empty() || name.len() > Self::MAX_BYTES {
            return Err(Error::invalid("the name of a lease has 1 to 31 bytes"));
        }
        RecordId::new(&[RecordId::LEASES, name].concat()).map(Self)
    }

    /// The server's record of the newest epoch, in [`crate::Space::Job`]: ordered below the ids made from versions, and
    /// below the ends of mutes.
    pub const fn record_id(&self) -> &RecordId {
        &self.0
    }
}

/// The holder of a lease, as of an epoch: each holder has a greater one than the previous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub lease: Lease,
    pub epoch: u64,
}

/// A server record in [`crate::Space::Job`] that stores the progress of work. It is written with the effect of the
/// work, in the bucket of [`crate::Operation::home`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkProgress {
    pub id: RecordId,
    /// `None`: removed.
    pub value: Option<Box<[u8]>>,
    pub condition: Condition,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expiry, Key};

    #[test]
    fn leases_lie_below_everything_else_of_their_space() {
        let longest = Lease::new(&[0xff; Lease::MAX_BYTES]).unwrap();
        let end = RecordId::of_mute_end(Expiry::from_seconds(1).unwrap(), Key::MIN, Key::MIN);
        assert!(*longest.record_id() < end && longest.record_id().as_bytes() < RecordId::BELOW_VERSIONS);
        assert!(Lease::new(b"").is_err() && Lease::new(&[0; Lease::MAX_BYTES + 1]).is_err());
        assert_ne!(Lease::new(b"a").unwrap(), Lease::new(b"b").unwrap());
    }
}
