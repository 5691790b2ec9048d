//! Keys in the ordinal tables.

use std::hash::{Hash, Hasher};

use entourage_model::Key;

/// A key with an alignment of four: it takes twelve bytes with an ordinal, and there is one per user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedKey([u32; 2]);

impl PackedKey {
    #[inline]
    pub(crate) const fn of(key: Key) -> Self {
        Self([key.0 as u32, (key.0 as u64 >> 32) as u32])
    }
}

impl Hash for PackedKey {
    #[inline]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(u64::from(self.0[0]) | u64::from(self.0[1]) << 32);
    }
}
