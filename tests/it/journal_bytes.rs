//! Bytes of the journal that a plain task takes from its put to its ack. Format 1 gained extension
//! sections, features and tokens; this holds that plain tasks do not pay for them.

use tubewell::{Durability, Queue};

/// Length of the payload; bytes of put, take and ack; the sum before the format had extensions.
const CYCLES: [(usize, [u64; 3], u64); 9] = [
    (0, [152, 160, 112], 432),
    (32, [184, 160, 112], 496),
    (64, [216, 160, 112], 560),
    (100, [248, 160, 112], 632),
    (256, [408, 160, 112], 944),
    (512, [664, 160, 112], 1456),
    (513, [696, 160, 128], 992),
    (4096, [4272, 160, 128], 4576),
    (10_000, [10_176, 160, 128], 10_480),
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
