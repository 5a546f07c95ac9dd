//! Checkpoints beside the callers: a journal so small that it fills while they write.

use crate::disk::Disk;
use crate::{acked, explore, still, unless_closed};
use shuttle::thread::spawn;
use tubewell::{Durability, Queue};

/// Five records fill the journal.
const PAYLOAD_BYTES: usize = 12 << 10;

#[test]
fn checkpoints_beside_putters_takers_and_close() {
    explore(|| {
        let disk = Disk::new();
        let (builder, _clock) = still();
        let builder = builder.durability(Durability::Relaxed);
        let queue = disk.builder(builder).open_disk().unwrap();
        let tube = queue.tube("t").unwrap();
        let before = disk.base_syncs();
        let putters: Vec<_> = (0..2u8)
            .map(|name| {
                let tube = tube.clone();
                spawn(move || {
                    let put = |_| unless_closed(tube.put(&[name; PAYLOAD_BYTES])).is_some();
                    (0..4).map(put).filter(|put| *put).count()
                })
            })
            .collect();
        let taker = spawn({
            let tube = tube.clone();
            move || {
                let take = |_| {
                    let task = unless_closed(tube.take())?;
                    assert_eq!(task.len(), PAYLOAD_BYTES);
                    acked(task.ack()).then_some(())
                };
                (0..3).map_while(take).count()
            }
        });
        let put: usize = putters.into_iter().map(|putter| putter.join().unwrap()).sum();
        assert_eq!(put, 8);
        assert!(disk.base_syncs() > before, "no checkpoint");
        queue.close().unwrap();
        let taken = taker.join().unwrap();
        drop((tube, queue));
        let queue = disk.builder(Queue::builder()).by_hand(true).open_disk().unwrap();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        let tube = queue.tube("t").unwrap();
        assert_eq!(tube.len().unwrap() as usize, put - taken);
        queue.close().unwrap();
    });
}
