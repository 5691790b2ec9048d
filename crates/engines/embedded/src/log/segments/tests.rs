use entourage_model::Secret;

use super::*;
use entourage_store::Identity;
use entourage_testkit::crash_disk::CrashDisk;

fn segment() -> Segment {
    let identity = Identity { epoch: 7, secret: Secret::from_bytes([7; 32]) };
    let file = crate::log::prepare(&CrashDisk::new(), &identity, 3, 4 << 20).unwrap();
    Segment::new(file, Sequence(10))
}

#[test]
fn points_are_learned_in_any_order_and_stay_apart() {
    let mut segment = segment();
    segment.last = Sequence(10_000);
    let offset = |index: u64| SEGMENT_HEADER + index * 1_000;
    let point = |index: u64| (Sequence(10 + index), offset(index));
    for index in [500, 100, 900, 101, 0, 499, 700, 1_000] {
        segment.learn(point(index));
    }
    for index in 0..1_500 {
        segment.learn(point(index));
    }
    assert!(segment.points.array_windows().all(|[one, next]| next.1 - one.1 >= INDEX_BYTES));
    for after in 10..1_500 {
        let reading = segment.reading(Sequence(after));
        assert!(reading.expected <= Sequence(after), "{after}");
        assert!(offset(after - 10) - reading.offset < 3 * INDEX_BYTES, "{after}");
        assert_eq!(reading.offset, offset(reading.expected.0 - 10));
    }
    assert_eq!(segment.reading(Sequence(3)).offset, SEGMENT_HEADER);
    assert_eq!((segment.whole().offset, segment.whole().expected), (SEGMENT_HEADER, Sequence(10)));
}
