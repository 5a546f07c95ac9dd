//! Bytes of the journal that a plain task takes from its put to its ack. Format 1 gained extension
//! sections, features and tokens; this holds that plain tasks do not pay for them.

use tubewell::{Durability, Queue};

/// What each piece of a long payload may cost more than one row for all of it: its key, written by
/// the put and by the ack.
const PIECE: u64 = 24;
/// Length of the payload; bytes of put, take and ack; the sum before the format had extensions.
const CYCLES: [(usize, [u64; 3], u64); 10] = [
    (0, [152, 160, 112], 432),
    (32, [184, 160, 112], 496),
    (64, [216, 160, 112], 560),
    (100, [248, 160, 112], 632),
    (256, [408, 160, 112], 944),
    (512, [664, 160, 112], 1456),
    (513, [664, 160, 112], 992),
    (3500, [3656, 160, 112], 3976),
    (4096, [4312, 160, 152], 4576 + 2 * PIECE),
    (10_000, [10_216, 160, 152], 10_480 + 2 * PIECE),
];

#[test]
fn a_plain_task_writes_no_more_than_before_extensions() {
    for (length, most, before) in CYCLES {
        let folder = tempfile::tempdir().unwrap();
        let builder = Queue::builder().durability(Durability::Relaxed).by_hand(true);
        let queue = builder.open(folder.path().join("queue")).unwrap();
        let tube = queue.tube("t").unwrap();
        let payload = vec![1; length];
        // The first record after an opening also reserves numbers.
        tube.put(&payload).unwrap();
        tube.take().unwrap().ack().unwrap();
        let mut used = queue.space().unwrap().journal_used;
        let mut written = || {
            let now = queue.space().unwrap().journal_used;
            now - std::mem::replace(&mut used, now)
        };
        tube.put(&payload).unwrap();
        let put = written();
        let task = tube.take().unwrap();
        let take = written();
        task.ack().unwrap();
        let cycle = [put, take, written()];
        assert!(cycle.iter().zip(most).all(|(now, most)| *now <= most), "{length}: {cycle:?}");
        assert!(cycle.iter().sum::<u64>() <= before, "{length}: {cycle:?}");
    }
}
