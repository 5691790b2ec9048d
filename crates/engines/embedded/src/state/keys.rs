//! Keys by ordinal, and two bytes of each (its print) in an array of their own: small enough to stay in cache, they
//! rule out nearly every other key.

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

    /// `count` keys still to be set, with the capacity they would have if pushed.
    pub(crate) fn unset(count: usize) -> Self {
        let room = count.next_power_of_two();
        let mut keys = Vec::with_capacity(room);
        keys.resize(count, Key(0));
        let mut prints = vec![0; room];
        prints.truncate(count);
        Self { keys, prints }
    }

    /// All keys with their prints, in parts of this size.
    pub(crate) fn parts_mut(&mut self, size: usize) -> impl Iterator<Item = (&mut [Key], &mut [u16])> {
        self.keys.chunks_mut(size).zip(self.prints.chunks_mut(size))
    }

    /// The [`print`] of each ordinal's key.
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

/// Two bytes of a key. Upper bits of a product spread both sequential and hashed ids.
#[inline]
pub(crate) const fn print(key: Key) -> u16 {
    ((key.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - u16::BITS)) as u16
}
