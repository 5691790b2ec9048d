//! Cursors and tokens say nothing: whoever holds them finds no key, time or number in their bytes, and two of them are
//! alike no more than random bytes are.

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use entourage_model::{KeyHasher, Millis};

use super::{answer::Sealed, cast::Id, world::World};

/// How many bytes may be the same in all of a kind: a format, the number of a key.
const HEAD_MAX_BYTES: usize = 8;
/// Two strings of a hundred random bytes have more equal ones at the same places less than once in 10^15 times.
const EQUAL_MAX_BYTES: usize = 12;
/// How many of a kind are compared with each other.
const COMPARED_MAX: usize = 300;
/// Sequences, epochs and counters of a small world are below; of random bytes one in 2^44 is.
const SMALL_NUMBER: u64 = 1 << 20;
/// The bits of a version below its milliseconds.
const VERSION_LOW_BITS: u32 = 22;

/// What is in a world, as services see it: keys and ids of people, rows of their lists, times of edges and posts.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Known {
    keys: BTreeSet<u64>,
    ids: Vec<Id>,
    lists: Vec<String>,
    millis: BTreeSet<u64>,
}

impl Known {
    pub(crate) fn of(world: &World, people: &[Id]) -> Self {
        let hasher = KeyHasher::new(&world.store().identity().secret);
        let keys = people.iter().map(|id| hasher.key(&id.as_str().try_into().unwrap()).0 as u64).collect();
        let (mut lists, mut millis) = (Vec::new(), BTreeSet::new());
        for id in people {
            for list in ["followers", "following", "posts"] {
                let rows = world.service(&format!("GET /users/{id}/{list}?limit=200")).body["data"].clone();
                lists.push(rows.to_string());
                let times = rows.as_array().into_iter().flatten().filter_map(|row| row["created_at"].as_str());
                millis.extend(times.map(|time| Millis::parse_rfc3339(time).unwrap().since_2000()));
            }
        }
        Self { keys, ids: people.to_vec(), lists, millis }
    }

    /// What can be read in these bytes.
    fn read(&self, bytes: &[u8]) -> Option<String> {
        for window in bytes.windows(8) {
            let eight: [u8; 8] = window.try_into().unwrap();
            for number in [u64::from_be_bytes(eight), u64::from_le_bytes(eight)] {
                if self.keys.contains(&number) {
                    return Some(format!("the key {number}"));
                }
                if self.millis.contains(&number) || self.millis.contains(&(number >> VERSION_LOW_BITS)) {
                    return Some(format!("the time {number}"));
                }
                if number < SMALL_NUMBER {
                    return Some(format!("the number {number}"));
                }
            }
        }
        let id = self.ids.iter().find(|id| bytes.windows(id.len()).any(|window| window == id.as_bytes()))?;
        (id.len() > 5).then(|| format!("the id {id}"))
    }
}

fn decoded(text: &str) -> Vec<u8> {
    if text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        return text.as_bytes().chunks(2).map(byte).collect();
    }
    URL_SAFE_NO_PAD.decode(text).unwrap_or_else(|_| text.as_bytes().to_vec())
}

/// Says what tells anything about any of these.
pub(crate) fn check(sealed: &Sealed, known: &Known) -> Result<(), String> {
    for (kind, texts) in &sealed.by_kind {
        let all: Vec<Vec<u8>> = texts.iter().map(|text| decoded(text)).collect();
        let fail = |what: String| Err(format!("a {kind} tells something: {what}"));
        let lengths: BTreeSet<usize> = texts.iter().map(String::len).collect();
        if lengths.len() > 1 {
            return fail(format!("they have {lengths:?} characters"));
        }
        for (text, bytes) in texts.iter().zip(&all) {
            if let Some(what) = known.read(bytes) {
                return fail(format!("{text} has {what}"));
            }
        }
        if let Some(what) = likeness(&all[..all.len().min(COMPARED_MAX)]) {
            return fail(what);
        }
    }
    Ok(())
}

/// What makes two of them more alike than chance would; few are not judged.
fn likeness(all: &[Vec<u8>]) -> Option<String> {
    let (first, rest) = all.split_first()?;
    if rest.len() < 3 {
        return None;
    }
    let is_head = |at: usize| all.iter().all(|bytes| bytes.get(at) == first.get(at));
    let free: Vec<usize> = (0..first.len()).filter(|at| !is_head(*at)).collect();
    if first.len() - free.len() > HEAD_MAX_BYTES {
        return Some(format!("{} of {} bytes are the same in all", first.len() - free.len(), first.len()));
    }
    for (index, one) in all.iter().enumerate() {
        for other in &all[..index] {
            let equal = free.iter().filter(|at| one.get(**at) == other.get(**at)).count();
            if equal > EQUAL_MAX_BYTES {
                return Some(format!("two of them have {equal} of {} bytes in common", free.len()));
            }
        }
    }
    None
}

#[test]
fn a_byte_that_tells_is_noticed() {
    let sealed = |texts: Vec<Vec<u8>>| {
        let mut sealed = Sealed::default();
        texts.iter().for_each(|bytes| drop(sealed.hide("cursor", &URL_SAFE_NO_PAD.encode(bytes))));
        sealed
    };
    let known = Known {
        keys: [77_000_000_000].into(),
        ids: vec!["somebody".to_owned()],
        millis: [800_000_000_000].into(),
        ..Known::default()
    };
    let random = || (0..48).map(|_| rand::random()).collect::<Vec<u8>>();
    let with = |at: usize, part: &[u8]| {
        let mut bytes = random();
        bytes[at..at + part.len()].copy_from_slice(part);
        bytes
    };
    let many = |one: Vec<u8>| vec![random(), random(), random(), one];
    assert_eq!(check(&sealed(many(random())), &known), Ok(()));
    let version = (800_000_000_000_u64 << VERSION_LOW_BITS) + 5;
    for (texts, why) in [
        (many(with(3, &77_000_000_000_u64.to_be_bytes())), "the key"),
        (many(with(9, &77_000_000_000_u64.to_le_bytes())), "the key"),
        (many(with(20, &version.to_be_bytes())), "the time"),
        (many(with(20, &800_000_000_000_u64.to_be_bytes())), "the time"),
        (many(with(1, &41_u64.to_be_bytes())), "the number"),
        (many(with(7, b"somebody")), "the id"),
        (many(random()[..40].to_vec()), "characters"),
        ((0..4).map(|_| with(0, b"the same in all")).collect(), "the same in all"),
        (vec![random(), random(), with(4, b"much like another one"), with(4, b"much like another one")], "in common"),
    ] {
        let found = check(&sealed(texts), &known).unwrap_err();
        assert!(found.contains(why), "{found} and not {why}");
    }
}
