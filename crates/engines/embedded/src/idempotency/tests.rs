use entourage_model::{IdempotencyKey, Reply};

use super::*;
use entourage_testkit::crash_disk::CrashDisk;

const EPOCH: u64 = 7;
const DAY: u64 = 24 * HOUR_MILLIS;

fn at(millis: u64) -> Version {
    Version::new(Millis::from_since_2000(millis), 0, 0)
}

fn scope(number: u64) -> [u8; 16] {
    let mut scope = [0; 16];
    // Like hashes, scopes differ from the first byte on; some share a prefix.
    scope[..8].copy_from_slice(&(number / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    scope[8..].copy_from_slice(&number.to_be_bytes());
    scope
}

fn record(number: u64, millis: u64) -> IdempotencyRecord {
    let key = IdempotencyKey { scope: scope(number), request: number };
    IdempotencyRecord { key, version: at(millis), reply: Reply::Gone { changed: number.is_multiple_of(3) } }
}

fn open(disk: &CrashDisk, runs: &[RunEntry]) -> Result<Idempotency, Fault> {
    let opened = Idempotency::default();
    opened.open(disk, EPOCH, runs).map(|()| opened)
}

/// Makes checkpoints with some records each, a minute apart. Returns the runs of the last.
fn write(disk: &CrashDisk, idempotency: &Idempotency, checkpoints: u64, each: u64) -> Vec<RunEntry> {
    let mut runs = Vec::new();
    for number in 1..=checkpoints {
        let now = number * 60_000;
        (0..each).for_each(|index| idempotency.insert(record(number * each + index, now)));
        idempotency.freeze();
        let written = idempotency.checkpoint(disk, EPOCH, number, Millis::from_since_2000(now), DAY).unwrap();
        written.obsolete.iter().for_each(|name| disk.remove(name).unwrap());
        runs = written.runs;
    }
    runs
}

/// A keyed write looks into every run: a day of checkpoints must not make a thousand of them.
#[test]
fn runs_are_merged_and_nothing_is_lost() {
    let disk = CrashDisk::new();
    let idempotency = Idempotency::default();
    let runs = write(&disk, &idempotency, 1_000, 3);
    println!("{} runs after 1,000 checkpoints", runs.len());
    assert!(runs.len() <= 12, "{} runs", runs.len());
    assert_eq!(disk.list().unwrap().len(), runs.len());
    for idempotency in [&idempotency, &open(&disk, &runs).unwrap()] {
        assert_eq!(idempotency.len(), 3_000);
        for number in 3..3_003 {
            let millis = number / 3 * 60_000;
            let found = idempotency.get(&scope(number), at(1_000 * 60_000), DAY).unwrap();
            assert_eq!(found, Some(record(number, millis)), "{number}");
        }
        assert_eq!(idempotency.get(&scope(5_000), at(0), DAY).unwrap(), None);
        idempotency.verify().unwrap();
    }
}

#[test]
fn a_key_that_is_used_again_has_its_newest_record() {
    let (disk, idempotency) = (CrashDisk::new(), Idempotency::default());
    let mut runs = Vec::new();
    for number in 1..=20 {
        // The same scope, days apart, among others that make runs merge.
        idempotency.insert(record(0, number * 3 * DAY));
        idempotency.insert(record(number, number * 3 * DAY));
        idempotency.freeze();
        let now = Millis::from_since_2000(number * 3 * DAY);
        runs = idempotency.checkpoint(&disk, EPOCH, number, now, 90 * DAY).unwrap().runs;
        let found = idempotency.get(&scope(0), at(number * 3 * DAY), 90 * DAY).unwrap();
        assert_eq!(found, Some(record(0, number * 3 * DAY)));
    }
    let opened = open(&disk, &runs).unwrap();
    assert_eq!(opened.get(&scope(0), at(60 * DAY), 90 * DAY).unwrap(), Some(record(0, 60 * DAY)));
}

#[test]
fn old_records_go_with_merges_and_old_runs_whole() {
    let (disk, idempotency) = (CrashDisk::new(), Idempotency::default());
    let runs = write(&disk, &idempotency, 8, 4);
    assert_eq!((runs.len(), idempotency.len()), (1, 32));
    // Two days later everything older has expired.
    let now = Millis::from_since_2000(2 * DAY);
    idempotency.insert(record(900, 2 * DAY));
    idempotency.freeze();
    let written = idempotency.checkpoint(&disk, EPOCH, 9, now, DAY).unwrap();
    assert_eq!((written.runs.len(), written.obsolete.len(), idempotency.len()), (1, 1, 1));
    // The longest time to live does not overflow.
    assert_eq!(idempotency.checkpoint(&disk, EPOCH, 10, now, u64::MAX).unwrap().runs.len(), 1);
}

#[test]
fn files_that_are_cut_swapped_or_gone_are_refused_by_name() {
    let (disk, idempotency) = (CrashDisk::new(), Idempotency::default());
    let mut runs = write(&disk, &idempotency, 3, 8);
    runs.sort_by_key(|run| std::cmp::Reverse(run.whole));
    assert_eq!(runs.iter().map(|run| run.whole.unwrap().0).collect::<Vec<_>>(), [16 * 96, 8 * 96]);
    let [large, small] = [0, 1].map(|index| runs[index].name.clone());
    let refused = |disk: &CrashDisk, name: &str| {
        let refused = open(disk, &runs).err().expect("it is refused").to_string();
        assert!(refused.contains(name), "{refused}");
    };
    for records in 0..16 {
        let cut = disk.deep_clone();
        cut.truncate(&large, records * RECORD_BYTES as u64).unwrap();
        refused(&cut, &large);
    }
    let put = |disk: &CrashDisk, name: &str, bytes: &[u8]| disk.create(name).unwrap().write_at(bytes, 0).unwrap();
    let [large_bytes, small_bytes] = [&large, &small].map(|name| read_all(&*disk.open(name).unwrap()).unwrap());
    let swapped = disk.deep_clone();
    put(&swapped, &large, &small_bytes);
    put(&swapped, &small, &large_bytes);
    refused(&swapped, &large);
    // As many records, of other requests.
    let other = CrashDisk::new();
    let others = write(&other, &Idempotency::default(), 1, 16);
    let older = disk.deep_clone();
    put(&older, &large, &read_all(&*other.open(&others[0].name).unwrap()).unwrap());
    refused(&older, &large);
    let gone = disk.deep_clone();
    gone.remove(&small).unwrap();
    refused(&gone, &small);
    // Damage to an open file is noticed as well.
    let open = open(&disk, &runs).unwrap();
    disk.flip_bit(&small, 96 * 8 + 3).unwrap();
    assert!(open.verify().unwrap_err().to_string().contains(&small));
}

/// A run that cannot be read is left alone: only reads of its records fail.
#[test]
fn a_rotten_run_stops_no_checkpoint() {
    let (disk, idempotency) = (CrashDisk::new(), Idempotency::default());
    let runs = write(&disk, &idempotency, 1, 4);
    disk.flip_bit(&runs[0].name, 40).unwrap();
    (100..110).for_each(|number| idempotency.insert(record(number, 60_000)));
    idempotency.freeze();
    let written = idempotency.checkpoint(&disk, EPOCH, 2, Millis::from_since_2000(60_000), DAY).unwrap();
    assert_eq!((written.runs.len(), written.obsolete.len()), (2, 0));
    for number in 100..110 {
        assert_eq!(idempotency.get(&scope(number), at(60_000), DAY).unwrap(), Some(record(number, 60_000)));
    }
}
