//! Full disks and failed syncs: no removed row comes back, and no confirmed row is lost.

use super::disk::{Plan, SimDisk};
use super::*;
use crate::words::error::ErrorKind;

#[test]
fn a_failed_sync_stops_the_store() {
    let disk = SimDisk::new(7);
    let mut store = open(&disk).unwrap();
    write(&mut store, vec![add(1, b"x")]).unwrap();
    disk.plan(0, Plan::FailOnce);
    sync(&store).unwrap_err();
    disk.no_plan();
    let error = write(&mut store, vec![add(2, b"x")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Broken);
    sync(&store).unwrap_err();
    store.close().unwrap();
    // Reads still show the pages, but they are not on the medium: the opening writes them again.
    let store = open(&disk).unwrap();
    assert_eq!(numbers(&store), [1]);
    disk.power_cut();
    drop(store);
    assert_eq!(numbers(&open(&disk).unwrap()), [1]);
}

#[test]
fn a_full_disk_lets_removals_through() {
    for room in (0..600).step_by(37) {
        full_disk(room);
    }
}

fn full_disk(room: u64) {
    let disk = SimDisk::new(8);
    let mut store = open(&disk).unwrap();
    let mut number = 0;
    disk.quota(Some(disk.blocks() + room));
    // Until the store reports that it is full.
    while !store.is_full() && number < 40_000 {
        if write(&mut store, vec![add(number, &[3; 400])]).is_err() {
            break;
        }
        number += 1;
    }
    assert!(store.is_full(), "{number} rows went in");
    let rows = numbers(&store);
    for number in &rows {
        write(&mut store, vec![remove(*number)]).unwrap();
    }
    assert_eq!(numbers(&store), [] as [u64; 0]);
    store.checkpoint().unwrap();
    checked(&mut store);
    if store.is_full() {
        store.compact().unwrap();
        assert!(store.restore_reserve(), "service resumes");
    }
    write(&mut store, vec![add(1, &[3; 400])]).unwrap();
    disk.kill();
    drop(store);
    assert_eq!(numbers(&open(&disk).unwrap()), [1]);
}

/// A store with rows of so many bytes on a disk that they have filled.
fn filled(blocks: u64, bytes: usize) -> (SimDisk, Store) {
    let disk = SimDisk::new(8);
    let mut store = open(&disk).unwrap();
    let mut number = 0;
    disk.quota(Some(disk.blocks() + blocks));
    while !store.is_full() && write(&mut store, vec![add(number, &vec![3; bytes])]).is_ok() {
        number += 1;
    }
    assert!(store.is_full(), "{number} rows went in");
    (disk, store)
}

/// A queue was emptied on a full disk while a reader had a snapshot of the base, and then no put
/// came back: redb frees pages in a commit after the reader has gone, and each checkpoint from
/// there on wanted more than the few pages that were free before, so that no commit came.
#[test]
fn pages_of_removed_rows_are_free_though_the_next_rows_do_not_fit() {
    let (_disk, mut store) = filled(600, 4000);
    let reader = store.base().unwrap().share();
    for rows in numbers(&store).chunks(50) {
        write(&mut store, rows.iter().copied().map(remove).collect()).unwrap();
    }
    // What the reader may read is not free, so each checkpoint takes other pages.
    let is_refused = (0..1000).any(|number| {
        write(&mut store, vec![add(number, &[3; 4000])]).unwrap();
        store.checkpoint().is_err()
    });
    assert!(is_refused, "the pages of the reader are in use");
    drop(reader);
    let done: Vec<_> = (0..3).map(|_| store.checkpoint().is_ok()).collect();
    assert!(done.contains(&true), "{done:?}");
    checked(&mut store);
}

#[test]
fn a_failed_checkpoint_brings_nothing_back() {
    // Slices had written rows that were then removed while the anchor stayed: after that, the
    // removal of a row from the frozen layer needs a tombstone.
    let disk = SimDisk::new(9);
    let mut store = open(&disk).unwrap();
    for number in 0..300 {
        write(&mut store, vec![add(number, &[3; 40])]).unwrap();
    }
    let before = disk.calls();
    store.freeze().unwrap().unwrap().run(None).map_err(|failed| failed.error).unwrap();
    let calls = disk.calls() - before;
    disk.kill();
    drop(store);
    for at in 0..calls {
        let disk = SimDisk::new(at);
        let mut store = open(&disk).unwrap();
        for number in 0..300 {
            write(&mut store, vec![add(number, &[3; 40])]).unwrap();
        }
        let checkpoint = store.freeze().unwrap().unwrap();
        write(&mut store, vec![remove(0), add(300, b"x")]).unwrap();
        disk.plan(at, Plan::FullOnce);
        match checkpoint.run(None) {
            Ok(renewed) => drop(store.renew(renewed)),
            Err(failure) => match store.checkpoint_failed(failure) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Broken => continue,
                Err(_) => {}
            },
        }
        write(&mut store, vec![remove(1)]).unwrap();
        assert_eq!(numbers(&store), (2..301).collect::<Vec<_>>(), "call {at}");
        store.checkpoint().unwrap();
        assert_eq!(numbers(&store), (2..301).collect::<Vec<_>>(), "call {at}");
        checked(&mut store);
        disk.kill();
        drop(store);
        assert_eq!(numbers(&open(&disk).unwrap()), (2..301).collect::<Vec<_>>());
    }
}

#[test]
fn a_checkpoint_adopted_late_undoes_nothing() {
    let disk = SimDisk::new(17);
    let mut store = open(&disk).unwrap();
    write(&mut store, vec![add(1, b"x")]).unwrap();
    let checkpoint = store.freeze().unwrap().unwrap();
    let renewed = checkpoint.run(None).map_err(|failed| failed.error).unwrap();
    write(&mut store, vec![add(2, b"x")]).unwrap();
    let app = BaseTransaction::begin(store.opening().unwrap()).unwrap();
    finish(&mut store, app, vec![add(3, b"x"), remove(1)]).unwrap();
    drop(store.renew(renewed));
    assert_eq!(numbers(&store), [2, 3]);
    checked(&mut store);
}

/// The disk is full in the middle of the slices: the base holds some later rows, the anchor is old.
/// A later removal must hide them, in this process and, after a replay, in the next.
#[test]
fn slices_that_fail_half_way_bring_nothing_back() {
    let low = |number: u8, op| RowWrite { key: Key::from_slice(&[0x03, number]), op };
    let mut failed = 0;
    for at in 0..60 {
        let disk = SimDisk::new(at);
        let mut store = open(&disk).unwrap();
        // Through a first checkpoint, so that there are free pages.
        write(&mut store, vec![add(1000, &[1; 4_000])]).unwrap();
        store.checkpoint().unwrap();
        for number in 0..8 {
            write(&mut store, vec![low(number, RowOp::Add(Value::from([])))]).unwrap();
        }
        for number in 0..200 {
            write(&mut store, vec![add(number, &[3; 50])]).unwrap();
        }
        let anchored = store.base().unwrap().anchor.serial;
        sync(&store).unwrap();
        disk.plan(0, Plan::FullOnce);
        let failure = store.freeze().unwrap().unwrap().run(None).map(drop).unwrap_err();
        disk.plan(at, Plan::FullOnce);
        // Nor is there room for a smaller step.
        disk.quota(Some(disk.blocks()));
        let done = store.checkpoint_failed(failure);
        disk.no_plan();
        disk.quota(None);
        // All of this is still in the journal.
        assert!(
            done.is_ok()
                || store.ensure_running().is_err()
                || store.base().unwrap().anchor.serial == anchored
        );
        // The failed call was a sync.
        if store.ensure_running().is_err() {
            continue;
        }
        failed += u64::from(done.is_err());
        write(&mut store, (0..100).map(remove).collect()).unwrap();
        write(&mut store, vec![low(1, RowOp::Remove)]).unwrap();
        assert_eq!(numbers(&store), (100..200).chain([1000]).collect::<Vec<_>>());
        disk.kill();
        drop(store);
        let mut store = open(&disk).unwrap();
        assert_eq!(numbers(&store), (100..200).chain([1000]).collect::<Vec<_>>());
        checked(&mut store);
    }
    assert!(failed > 3, "{failed}");
}

#[test]
fn a_failed_sync_of_the_base_stops_the_store() {
    a_failed_sync_stops_it(Store::checkpoint, 2);
}

/// The sync of a piece is like any other: after it failed, the file shows bytes that are not on the
/// medium.
#[test]
fn a_piece_that_is_not_synced_stops_the_store() {
    a_failed_sync_stops_it(checkpoint_in_pieces, 7);
}

fn a_failed_sync_stops_it(checkpoint: fn(&mut Store) -> Result<()>, least: u64) {
    let mut failed = 0;
    for at in 0..60 {
        let disk = SimDisk::new(at);
        prepared(&disk);
        let mut store = open(&disk).unwrap();
        disk.plan(at, Plan::FailSync);
        let done = checkpoint(&mut store);
        assert_eq!(done.is_err(), disk.sync_failed());
        if let Err(error) = done {
            failed += 1;
            assert_eq!(error.kind(), ErrorKind::Broken);
            let refused = write(&mut store, vec![add(900, b"x")]).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Broken);
        }
        disk.power_cut();
        drop(store);
        stands(&disk, true);
    }
    assert!(failed >= least, "{failed}");
}

/// A kill after the failed sync of a commit's last step: reads show the new root, the medium has
/// the old one. The opening must write the shown pages before it builds on them.
#[test]
fn what_a_failed_sync_of_the_base_shows_is_made_true() {
    for at in 0..40 {
        for seed in seeds(6) {
            let disk = SimDisk::new(seed);
            prepared(&disk);
            let mut store = open(&disk).unwrap();
            disk.plan(at, Plan::FailSync);
            let _ = store.checkpoint();
            disk.kill();
            drop(store);
            let mut store = open(&disk).unwrap();
            for number in 1000..1300 {
                // Once around the ring, over records that the base seems to hold.
                write(&mut store, vec![add(number, &[1; 100])]).unwrap();
                write(&mut store, vec![remove(number)]).unwrap();
                if number % 50 == 0 {
                    sync(&store).unwrap();
                }
            }
            sync(&store).unwrap();
            disk.power_cut();
            drop(store);
            stands(&disk, true);
        }
    }
}

/// Regression: after an opening on a disk that was still full, of a base whose reserve was used up,
/// puts were accepted.
#[test]
fn an_opening_without_the_reserve_is_full() {
    let (disk, mut store) = filled(300, 400);
    // Another program takes what is left.
    disk.quota(Some(disk.blocks()));
    assert!(!store.restore_reserve(), "there is no space for it");
    disk.kill();
    drop(store);
    let mut store = open(&disk).unwrap();
    assert!(store.is_full(), "nothing has changed but the process");
    disk.quota(None);
    assert!(store.restore_reserve() && !store.is_full(), "service resumes");
}

/// Regression: a commit with the application's tables failed after a checkpoint had committed and
/// before it was renewed. The base that was opened again had the checkpoint's serial, and the
/// frozen layer stayed: no later checkpoint began.
#[test]
fn a_checkpoint_renewed_after_a_failed_commit_ends() {
    let disk = SimDisk::new(17);
    let mut store = open(&disk).unwrap();
    write(&mut store, vec![add(1, b"x")]).unwrap();
    let checkpoint = store.freeze().unwrap().unwrap();
    let renewed = checkpoint.run(None).map_err(|failed| failed.error).unwrap();
    write(&mut store, vec![add(2, b"x")]).unwrap();
    // So that the first call that fails is a write of the base.
    sync(&store).unwrap();
    let app = BaseTransaction::begin(store.opening().unwrap()).unwrap();
    disk.plan(0, Plan::FullOnce);
    let failed = finish(&mut store, app, vec![add(3, b"x")]);
    assert!(matches!(failed, Err(StoreFailure::Refused(_))), "{failed:?}");
    drop(store.renew(renewed));
    assert!(!store.is_checkpointing(), "the base has what was frozen");
    assert_eq!(numbers(&store), [1, 2]);
    store.checkpoint().unwrap();
    assert_eq!(store.ring.as_ref().unwrap().floor, store.ring.as_ref().unwrap().last);
    checked(&mut store);
}
