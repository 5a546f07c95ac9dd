//! Checkpoints in parallel with callers: the journal is so small that it fills while they write.

use crate::disk::Disk;
use crate::{acked, explore, unless_closed};
use redb::TableDefinition;
use shuttle::thread::spawn;
use tubewell::{Durability, Error, ErrorKind, Result};

const NUMBERS: TableDefinition<u64, u64> = TableDefinition::new("numbers");

/// Four tasks fill what the journal admits between checkpoints.
const PAYLOAD_BYTES: usize = 5_000;

#[test]
fn checkpoints_beside_putters_takers_and_close() {
    explore(|| {
        let disk = Disk::new();
        let (queue, tube, _clock) = disk.serve(Durability::Relaxed);
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
        assert_eq!(disk.left() as usize, put - taken);
    });
}

/// Regression: a request that came after the freeze which answered it caused a second checkpoint of
/// almost nothing: two syncs of the base for each one that was wanted.
#[test]
fn a_request_causes_one_checkpoint() {
    explore(|| {
        let disk = Disk::new();
        let (queue, tube, _clock) = disk.serve(Durability::Relaxed);
        // Four or five records request one; at most two come after the record that stays.
        let putters = [tube.clone(), tube]
            .map(|tube| spawn(move || (0..3).for_each(|_| _ = tube.put(&[7; 1_600]).unwrap())));
        putters.into_iter().for_each(|putter| putter.join().unwrap());
        let space = queue.space().unwrap();
        assert!(space.checkpoints <= 1, "two for six records: {space:?}");
        queue.close().unwrap();
    });
}

#[test]
fn upkeep_and_readers_beside_transactions_and_close() {
    explore(|| {
        let disk = Disk::new();
        let (queue, tube, _clock) = disk.serve(Durability::Durable);
        let transact = |number: u64| {
            queue.transact(|tx| -> Result<()> {
                tx.table(NUMBERS)?.insert(number, number)?;
                tube.put_in(tx, b"with a number").map(drop)
            })
        };
        transact(1).unwrap();
        let upkeep = spawn({
            let queue = queue.clone();
            move || {
                unless_closed(queue.checkpoint())?;
                unless_closed(queue.compact())?;
                let mut faults = unless_closed(queue.check())?;
                // While a reader is active the base is not scanned, and the check reports that.
                faults.retain(|fault| !fault.contains("in use"));
                assert_eq!(faults, Vec::<String>::new());
                Some(())
            }
        });
        let reader = spawn({
            let queue = queue.clone();
            move || {
                let first = |read: &tubewell::Reading| -> Result<_> {
                    shuttle::thread::yield_now();
                    Ok(read.table(NUMBERS)?.get(1)?.map(|number| number.value()))
                };
                match queue.read(first) {
                    Ok(seen) => assert_eq!(seen, Some(1)),
                    // The close may come before it or during it.
                    Err(error) if error.kind() == ErrorKind::Rejected => {
                        let why = error.into_source().and_then(|why| why.downcast::<Error>().ok());
                        assert_eq!(why.map(|why| why.kind()), Some(ErrorKind::Closed));
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
                }
            }
        });
        let closer = spawn({
            let queue = queue.clone();
            move || queue.close().unwrap()
        });
        let put = unless_closed(tube.put(b"a")).is_some();
        let transacted = unless_closed(transact(2)).is_some();
        upkeep.join().unwrap();
        reader.join().unwrap();
        closer.join().unwrap();
        drop((tube, queue));
        assert_eq!(disk.left(), 1 + u64::from(put) + u64::from(transacted));
    });
}
