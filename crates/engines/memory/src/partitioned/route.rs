//! Where things live: the home of a key. The bucket of a home lies in it.

use entourage_model::{Buckets, Key};

pub fn buckets(homes: usize) -> Buckets {
    Buckets::new(u16::try_from(homes).unwrap_or(u16::MAX))
}

pub fn home_of(key: Key, homes: usize) -> usize {
    usize::from(buckets(homes).index_of(key))
}
