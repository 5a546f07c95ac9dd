//! An opening after a close does not search the ring, and the note that allows this never hides
//! that a synced record is missing.

use super::disk::{Plan, SimDisk};
use super::*;
use crate::store::Stage;
use crate::store::disk::FileName;
use crate::words::error::ErrorKind;

/// Opens the store. Returns also whether the ring was searched.
fn searched(disk: &SimDisk) -> Result<(Store, bool)> {
    let mut has_searched = false;
    let opened = opened(disk, config(), &mut |progress| {
        has_searched |= progress.stage == Stage::Scan;
        ControlFlow::Continue(())
    })?;
    Ok((opened.store, has_searched))
}

/// A disk whose store was closed with two rows. The note of the close is on the medium.
fn closed() -> SimDisk {
    let disk = SimDisk::new(3);
    let mut store = open(&disk).unwrap();
    write(&mut store, vec![add(1, b"one"), add(2, b"two")]).unwrap();
    store.close().unwrap();
    disk.poke(FileName::Journal, |_| ());
    disk
}

/// Writes after an opening, so that a record says of all before it that they are synced. Then the
/// power fails, and the opening's record is damaged.
fn damage_the_opening(disk: &SimDisk, mut store: Store) {
    let opening = store.ring.as_ref().unwrap().last.start as usize;
    write(&mut store, vec![add(3, b"three")]).unwrap();
    sync(&store).unwrap();
    store.idle().unwrap();
    sync(&store).unwrap();
    disk.power_cut();
    drop(store);
    disk.poke(FileName::Journal, |bytes| bytes[HEAD_BYTES + opening + 50] ^= 1);
}

#[test]
fn an_opening_searches_the_ring_unless_the_last_close_was_clean() {
    let disk = closed();
    let (store, has_searched) = searched(&disk).unwrap();
    assert!(!has_searched, "after a close");
    assert_eq!(numbers(&store), [1, 2]);
    disk.kill();
    drop(store);
    let (mut store, has_searched) = searched(&disk).unwrap();
    assert!(has_searched, "after a kill");
    store.close().unwrap();
    assert!(!searched(&disk).unwrap().1, "after the next close");
}

#[test]
fn a_missing_record_after_a_clean_close_is_reported() {
    let disk = closed();
    let store = open(&disk).unwrap();
    damage_the_opening(&disk, store);
    assert_eq!(refused(open(&disk)).kind(), ErrorKind::Damaged);
}

/// The removal of the note may be in the system's memory only, after an opening that failed at its
/// sync.
#[test]
fn a_removal_that_was_not_synced_is_made_again() {
    let mut failed = 0;
    for at in 0..60 {
        let disk = closed();
        disk.plan(at, Plan::FailSync);
        let opened = open(&disk);
        disk.no_plan();
        let store = match opened {
            Ok(store) => store,
            Err(_) => {
                failed += 1;
                disk.kill();
                open(&disk).unwrap()
            }
        };
        damage_the_opening(&disk, store);
        assert_eq!(refused(open(&disk)).kind(), ErrorKind::Damaged, "at call {at}");
    }
    assert!(failed > 0);
}
