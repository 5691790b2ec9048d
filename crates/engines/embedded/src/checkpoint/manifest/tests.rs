use super::*;
use entourage_testkit::crash_disk::CrashDisk;

const EPOCH: u64 = 7;
/// Enough for several writes.
const LISTS: u32 = 400_000;

fn block(number: u32) -> BlockRef {
    let length = NonZeroU32::new(10 + number % 300).unwrap();
    BlockRef::new(1 + number / 50_000, u64::from(number) * 400, length, 1 + number % 5)
}

fn entry(number: u32) -> ListEntry {
    let bound = |step: u32| Bounded {
        newest: Place { position: Version::from_bits(u64::from(number + step)), key: Key(i64::from(step) - 1) },
        block: block(number + step),
    };
    let several = |count| (0..count).map(bound).collect::<Vec<_>>().into();
    let plane = if number.is_multiple_of(7) { StoredPlane::Block } else { StoredPlane::Quiet };
    ListEntry {
        plane,
        ordinal: number,
        following: Refs::One(block(number)),
        followers: if number.is_multiple_of(1_000) { several(3) } else { Refs::default() },
        mixed: [false; 2],
    }
}

fn head() -> Head {
    let proof = Some(Proof { seed: u64::MAX, sum: 77 });
    let files = vec![
        FileEntry { number: 3, family: Family::Following, size: 99, proof },
        FileEntry { number: 4, family: Family::Users, size: 0, proof: None },
    ];
    let idempotency = vec![RunEntry { name: "idempotency-5".into(), whole: Some((96, 5)) }];
    let first_segment = Some(4);
    Head { number: 5, sequence: Sequence(8), users: LISTS, first_segment, files, idempotency, ..Head::default() }
}

#[test]
fn a_checkpoint_of_many_pieces_reads_back() {
    let disk = CrashDisk::new();
    let groups = [block(1), block(2)];
    let mut writer = Writer::begin(&disk, EPOCH, &head(), &groups, LISTS.into()).unwrap();
    (0..LISTS).for_each(|number| writer.list(&entry(number)).unwrap());
    assert!(writer.written > 2 * PIECE as u64);
    writer.finish(&Collections::new(), b"quotas").unwrap();

    let manifest = Manifest::read(&disk, EPOCH, 5).unwrap();
    let mut number = 0;
    let documents = manifest.lists(|list| {
        assert_eq!(list, entry(number));
        number += 1;
        Ok(())
    });
    assert_eq!((number, documents.unwrap()), (LISTS, (Collections::new(), &b"quotas"[..])));
    assert_eq!(manifest.into_parts(), (head(), groups.to_vec()));
    assert!(Manifest::read(&disk, EPOCH + 1, 5).is_err());
}

#[test]
fn lists_that_were_not_counted_make_no_checkpoint() {
    for (counted, written) in [(1, 2), (2, 1)] {
        let disk = CrashDisk::new();
        let mut writer = Writer::begin(&disk, EPOCH, &head(), &[], counted).unwrap();
        let listed = (0..written).try_for_each(|number| writer.list(&entry(number)));
        assert!(listed.and_then(|()| writer.finish(&Collections::new(), &[])).is_err(), "{counted} and {written}");
        assert!(Manifest::read(&disk, EPOCH, 5).is_err());
    }
}

/// An older checkpoint under a newer one's name would lose data silently.
#[test]
fn a_checkpoint_of_another_number_is_refused() {
    let disk = CrashDisk::new();
    Writer::begin(&disk, EPOCH, &head(), &[], 0).unwrap().finish(&Collections::new(), &[]).unwrap();
    disk.rename(&name(5), &name(6)).unwrap();
    let refused = Manifest::read(&disk, EPOCH, 6).err().unwrap().to_string();
    assert!(refused.contains(&name(6)) && refused.contains("this is checkpoint 5"), "{refused}");
}
