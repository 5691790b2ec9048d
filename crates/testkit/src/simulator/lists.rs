//! Derived lists, read page by page in both directions: for any buckets, each page is a part of the list, with the
//! total of this very moment.

use std::collections::BTreeMap;

use entourage_model::{Edge, Key, List, Place, Plane, Side};
use rand::{RngExt, rngs::StdRng};

use entourage_memory::partitioned::engine::Engine;

/// Reads one list to its end.
pub(super) fn read_one(engine: &Engine, people: i64, rng: &mut StdRng) -> Result<(), String> {
    let user = Key(rng.random_range(0..people));
    let planes = [Plane::Follow, Plane::Follow, Plane::Request, Plane::Parked, Plane::Block, Plane::Mute];
    let plane = planes[rng.random_range(0..planes.len())];
    let mut list = List::new(user, plane, Side::Followers);
    list.open = rng.random();
    let (limit, is_up): (usize, bool) = (rng.random_range(1..6), rng.random());
    let (mut expected, mut quiet): (BTreeMap<Place, Edge>, u64) = (BTreeMap::new(), 0);
    for ((kind, follower, target), value) in engine.home(user).lock().inbound.all_known() {
        if target == user && Plane::of(kind, value.state) == Some(plane) {
            quiet += u64::from(value.quiet);
            if !(list.open && value.quiet) {
                let place = Place { position: value.position, key: follower };
                expected.insert(place, Edge { kind, follower, target, value });
            }
        }
    }
    if list.open {
        quiet = 0;
    }
    let mut expected: Vec<Edge> = expected.into_values().collect();
    if !is_up {
        expected.reverse();
    }
    let (mut read, mut after) = (Vec::new(), None);
    loop {
        let page = engine.page(list, after, limit, is_up);
        let wrong = |what: &str| Err(format!("{list:?}, up {is_up}, {limit} after {after:?}: {what}: {page:?}"));
        if (page.total, page.quiet) != (expected.len() as u64, quiet) {
            return wrong("its total is not the list");
        }
        read.extend(page.edges.iter().copied());
        if page.more != (read.len() < expected.len()) {
            return wrong("there is more, or there is not");
        }
        match page.edges.last() {
            Some(last) if page.more => after = Some(Place { position: last.value.position, key: last.follower }),
            _ => break,
        }
    }
    match read == expected {
        true => Ok(()),
        false => Err(format!("{list:?}, up {is_up}, by {limit}: {read:?}, not {expected:?}")),
    }
}
