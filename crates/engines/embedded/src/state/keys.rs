//! Keys by ordinal, and two bytes of each in a table of its own: small enough to stay near the processor, they tell
//! nearly always that a key is not the one that is looked for.

use std::ops::Deref;

use entourage_model::Key;

#[derive(Debug, Default)]
pub(crate) struct Keys {
    keys: Vec<Key>,
    prints: Vec<u16>,
}

impl Keys {
    pub(crate) fn push(&mut self, key: Key) {
        self.keys.push(key);
        self.prints.push(print(key));
    }

    /// So many that are still to be set, with room to grow as if each had been added.
    pub(crate) fn unset(count: usize) -> Self {
        let room = count.next_power_of_two();
        let mut keys = Vec::with_capacity(room);
        keys.resize(count, Key(0));
        let mut prints = vec![0; room];
        prints.truncate(count);
        Self { keys, prints }
    }

    /// All of them in parts of this size, with [`print`] of each.
    pub(crate) fn parts_mut(&mut self, size: usize) -> impl Iterator<Item = (&mut [Key], &mut [u16])> {
        self.keys.chunks_mut(size).zip(self.prints.chunks_mut(size))
    }

    /// [`print`] of the key at each ordinal.
    pub(crate) fn prints(&self) -> &[u16] {
        &self.prints
    }
}

impl Deref for Keys {
    type Target = [Key];

    fn deref(&self) -> &[Key] {
        &self.keys
    }
}

/// Two bytes of a key. Upper bits of a product: sequential ids and hashed ones both spread.
#[inline]
pub(crate) const fn print(key: Key) -> u16 {
    ((key.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - u16::BITS)) as u16
}
