//! Group commit on a disk: no caller returns before a sync that began after its write, a failed
//! sync fails all waiting callers, and the flusher syncs everything.

use crate::disk::Disk;
use crate::{below, explore, still, unless_closed};
use shuttle::thread::spawn;
use tubewell::{Durability, ErrorKind, Tube};

const NAMES: [&[u8]; 3] = [b"first payload", b"second payload", b"third payload"];

#[test]
fn a_durable_put_returns_after_a_sync_that_began_after_its_write() {
    explore(|| {
        let disk = Disk::new();
        let (builder, _clock) = still();
        let queue = disk.builder(builder).by_hand(true).open_disk().unwrap();
        let tube = queue.tube("t").unwrap();
        let putters: Vec<_> = NAMES
            .into_iter()
            .map(|name| {
                let (tube, disk) = (tube.clone(), disk.clone());
                spawn(move || {
                    tube.put(name).unwrap();
                    assert!(disk.is_durable(name), "{name:?} was answered too early");
                })
            })
            .collect();
        putters.into_iter().for_each(|putter| putter.join().unwrap());
        queue.close().unwrap();
    });
}

#[test]
fn a_failed_sync_fails_every_waiting_caller() {
    explore(|| {
        let disk = Disk::new();
        let (builder, _clock) = still();
        let queue = disk.builder(builder).by_hand(true).open_disk().unwrap();
        let tube = queue.tube("t").unwrap();
        disk.fail_after(below(3));
        let before = disk.syncs();
        let put = |tube: &Tube, disk: &Disk, name: &[u8]| match tube.put(name) {
            Ok(_) => {
                assert!(disk.is_durable(name), "{name:?} was answered too early");
                true
            }
            Err(error) => {
                let kinds = [ErrorKind::Unknown, ErrorKind::Broken];
                assert!(kinds.contains(&error.kind()), "{error}");
                false
            }
        };
        let putters: Vec<_> = NAMES
            .into_iter()
            .map(|name| {
                let (tube, disk) = (tube.clone(), disk.clone());
                spawn(move || put(&tube, &disk, name))
            })
            .collect();
        let answers: Vec<bool> = putters.into_iter().map(|putter| putter.join().unwrap()).collect();
        // The last one may have come after the failure, or have caused it.
        if disk.has_failed() {
            assert!(answers.contains(&false), "a sync failed and no caller got an error");
            let refused = tube.put(b"later").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Broken, "{refused}");
        } else {
            assert!(disk.syncs() > before && !answers.contains(&false));
        }
        let _ = queue.close();
    });
}

#[test]
fn the_flusher_syncs_everything() {
    explore(|| {
        let disk = Disk::new();
        let (queue, tube, _clock) = disk.serve(Durability::Relaxed);
        let writers: Vec<_> = NAMES[..2]
            .iter()
            .map(|name| {
                let (tube, disk) = (tube.clone(), disk.clone());
                spawn(move || {
                    let put = unless_closed(tube.put(name));
                    // No other thread syncs, because the clock does not move.
                    if put.is_some() {
                        disk.until_durable(name);
                    }
                })
            })
            .collect();
        let early = below(2) == 0;
        if early {
            queue.close().unwrap();
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        queue.close().unwrap();
    });
}
