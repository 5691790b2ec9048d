//! Histories with one lie each, which the check must find, and with gaps it must accept.

use std::sync::Arc;

use entourage_model::{Key, KeyHasher, Operation, Overwrite, Secret, Sequence, UserPatch, Version};

use super::{Ending, Load, Record, Verb, check, drive};
use crate::conformance::{block_on, world::own_id};
use entourage_memory as memory;
use entourage_store::{Identity, Store, StoreExt as _, SystemClock};

/// A store, and the history of its only writers.
async fn truthful(seed: u64) -> (Arc<dyn Store>, Vec<Record>) {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([9; 32]) };
    let hasher = KeyHasher::new(&identity.secret);
    let store: Arc<dyn Store> = Arc::new(memory::Store::new(identity, Arc::new(SystemClock)));
    let mut users: Vec<Key> = Vec::new();
    for _ in 0..4 {
        let (key, id) = own_id(&hasher);
        let put = Operation::PutUser { key, id, patch: UserPatch::default(), overwrite: Overwrite::Replace };
        store.commit(put.into()).await.expect("the user is made");
        users.push(key);
    }
    let records = drive(&store, &users, Load { seed, clients: 6, requests: 50 }).await;
    (store, records)
}

/// The problems of a history after `lie` changed one record: the first for which it returns true.
fn problems_after(lie: impl Fn(&mut Record) -> bool) -> Vec<String> {
    block_on(async {
        let (store, mut records) = truthful(1).await;
        assert!(records.iter_mut().any(lie), "no record to lie in");
        check(&records, &*store, Sequence::ZERO).await
    })
}

fn is_change(record: &Record, verb: Verb) -> bool {
    record.action.verb == verb && matches!(record.ending, Ending::Ok { changed: true, .. })
}

#[test]
fn the_truth_has_no_problems() {
    for seed in 0..20 {
        let problems = block_on(async {
            let (store, records) = truthful(seed).await;
            check(&records, &*store, Sequence::ZERO).await
        });
        assert_eq!(problems, Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn an_unheard_reply_is_forgiven_with_or_without_effect() {
    for verb in Verb::ALL {
        let problems = problems_after(|record| {
            let fits = is_change(record, verb);
            if fits {
                (record.ending, record.completed) = (Ending::Info, None);
            }
            fits
        });
        assert_eq!(problems, Vec::<String>::new(), "{verb:?}");
    }
    let problems = problems_after(|record| {
        let fits = matches!(record.ending, Ending::Fail(_));
        if fits {
            (record.ending, record.completed) = (Ending::Info, None);
        }
        fits
    });
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn a_client_that_hears_no_versions_is_judged_by_what_is_left() {
    for hears_watermarks in [false, true] {
        let problems = problems_after(|record| {
            if let Ending::Ok { version, watermark, .. } = &mut record.ending {
                *version = None;
                *watermark = watermark.filter(|_| hears_watermarks);
            }
            record.client == 5
        });
        assert_eq!(problems, Vec::<String>::new());
    }
    let deaf_and_lying = problems_after(|record| {
        if let Ending::Ok { version, watermark, .. } = &mut record.ending {
            (*version, *watermark) = (None, None);
        }
        let fits = record.client == 5 && matches!(record.ending, Ending::Ok { changed: false, .. });
        if fits {
            record.ending = Ending::Ok { changed: true, version: None, watermark: None };
        }
        fits
    });
    assert!(!deaf_and_lying.is_empty(), "one change too many was believed");
}

#[test]
fn lies_are_noticed() {
    type Lie = fn(&mut Record) -> bool;
    let lies: [(&str, Lie); 7] = [
        ("an acked change that was never made", |record| {
            let fits = matches!(record.ending, Ending::Ok { changed: false, .. });
            if fits {
                record.ending = Ending::Ok { changed: true, version: Some(Version::from_bits(77)), watermark: None };
            }
            fits
        }),
        ("a change that was called a refusal", |record| {
            let fits = is_change(record, Verb::Follow);
            if fits {
                record.ending = Ending::Fail("rate_limited".to_owned());
            }
            fits
        }),
        ("a change that was called none", |record| {
            let fits = is_change(record, Verb::Unfollow);
            if let Ending::Ok { changed, .. } = &mut record.ending {
                *changed &= !fits;
            }
            fits
        }),
        ("a block that never was", |record| {
            let fits = record.action.verb == Verb::Unblock;
            if fits {
                record.ending = Ending::Fail("blocked".to_owned());
            }
            fits
        }),
        ("a refusal that nothing explains", |record| {
            let fits = matches!(record.ending, Ending::Ok { changed: false, .. });
            if fits {
                record.ending = Ending::Fail("actor_not_found".to_owned());
            }
            fits
        }),
        ("a change before it was asked for", |record| {
            let fits = is_change(record, Verb::Follow);
            if fits {
                (record.invoked, record.completed) = (1_000_000, Some(1_000_001));
            }
            fits
        }),
        ("another's version", |record| {
            let fits = is_change(record, Verb::Block);
            if let Ending::Ok { version, .. } = &mut record.ending
                && fits
            {
                *version = version.map(|version| Version::from_bits(version.bits() + 1));
            }
            fits
        }),
    ];
    for (name, lie) in lies {
        assert!(!problems_after(lie).is_empty(), "{name} was believed");
    }
}

#[test]
fn a_history_reads_back_as_written() {
    let (_, records) = block_on(truthful(2));
    let text = serde_json::to_string(&records).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Record>>(&text).unwrap(), records);
}
