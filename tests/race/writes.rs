//! A failed write of the journal or of the base while others wait: all results are correct, and no
//! thread sleeps without end.

use crate::disk::Disk;
use crate::{below, explore};
use shuttle::thread::spawn;
use tubewell::{Durability, ErrorKind, Result};

/// Five records fill the journal, so that the fault also strikes checkpoints.
const PAYLOAD_BYTES: usize = 12 << 10;

/// The known results of calls that may fail: how many succeeded, and how many are unknown.
#[derive(Default)]
struct Tally {
    done: u64,
    in_doubt: u64,
}

impl Tally {
    fn add<R>(&mut self, answer: &Result<R>) {
        match answer {
            Ok(_) => self.done += 1,
            Err(error) if error.is_outcome_unknown() => self.in_doubt += 1,
            Err(_) => {}
        }
    }
}

#[test]
fn a_write_that_fails_is_the_only_thing_that_is_lost() {
    explore(|| {
        let disk = Disk::new();
        let (queue, tube, _clock) = disk.serve(Durability::Durable);
        disk.fail_a_write_after(below(24));
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let tube = tube.clone();
                spawn(move || {
                    let mut acks = Tally::default();
                    loop {
                        match tube.take() {
                            Ok(task) => acks.add(&task.ack()),
                            Err(error) if error.kind() == ErrorKind::Io => {}
                            Err(error) => {
                                let kinds = [ErrorKind::Closed, ErrorKind::Broken];
                                assert!(kinds.contains(&error.kind()), "{error}");
                                return acks;
                            }
                        }
                    }
                })
            })
            .collect();
        let putters: Vec<_> = (0..2u8)
            .map(|name| {
                let tube = tube.clone();
                spawn(move || {
                    let mut puts = Tally::default();
                    (0..4).for_each(|_| puts.add(&tube.put(&[name; PAYLOAD_BYTES])));
                    puts
                })
            })
            .collect();
        let puts: Vec<Tally> = putters.into_iter().map(|putter| putter.join().unwrap()).collect();
        let closed = queue.close();
        let acks: Vec<Tally> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
        if !disk.has_failed_a_write() {
            assert!(closed.is_ok() && puts.iter().all(|puts| puts.done == 4));
        }
        drop((tube, queue));
        disk.mend();
        let sum = |tallies: &[Tally]| {
            tallies.iter().fold((0, 0), |sum, tally| (sum.0 + tally.done, sum.1 + tally.in_doubt))
        };
        let ((put, perhaps_put), (acked, perhaps_acked)) = (sum(&puts), sum(&acks));
        let left = disk.left();
        assert!(left + acked + perhaps_acked >= put, "{left} left of {put}, {acked} acked");
        assert!(left + acked <= put + perhaps_put, "{left} left of {put}, {acked} acked");
    });
}
