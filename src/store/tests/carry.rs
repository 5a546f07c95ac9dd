//! Carries: on a full disk the rows of the overlay are journaled once more, and a slot in the
//! journal's head says that an opening begins there.

use super::disk::{Plan, SimDisk};
use super::*;
use crate::store::carry::PAGE_AT;
use crate::store::disk::FileName;
use crate::store::head::PAGE;
use crate::words::error::ErrorKind;

/// Changes one row until the ring is full. Returns its last value.
fn fill_ring(store: &mut Store) -> u64 {
    for value in 1.. {
        let mut bytes = [7; 600];
        bytes[..8].copy_from_slice(&u64::to_be_bytes(value));
        let op = RowOp::Change(Value::from(&bytes[..]));
        match append(store, &mut vec![RowWrite { key: key(1), op }]) {
            Ok(_) => {}
            Err(StoreFailure::NoRoom) => {
                assert!(value > 50, "the ring was not free: {value}");
                sync(store).unwrap();
                return value - 1;
            }
            failed => panic!("{failed:?}"),
        }
    }
    unreachable!()
}

fn last_value(store: &Store) -> u64 {
    let row = store.get(&key(1)).unwrap().unwrap();
    u64::from_be_bytes(row[..8].try_into().unwrap())
}

/// A checkpoint that meets a full disk, and from then on the plan.
fn checkpoint_on_full_disk(disk: &SimDisk, store: &mut Store, then: Option<(u64, Plan)>) -> Error {
    let checkpoint = store.freeze().unwrap().unwrap();
    disk.plan(0, Plan::FullOnce);
    let failure = checkpoint.run(None).map(drop).unwrap_err();
    disk.no_plan();
    if let Some((at, plan)) = then {
        disk.plan(at, plan);
    }
    disk.quota(Some(disk.blocks()));
    let error = store.checkpoint_failed(failure).unwrap_err();
    disk.no_plan();
    error
}

/// A kill after the failed sync of a carry's slot: reads show the slot, the medium does not have
/// it. The opening must write the slot again before it lets the ring be overwritten.
#[test]
fn what_a_failed_sync_of_a_carry_shows_is_made_true() {
    let mut shown = 0;
    for at in 0..30 {
        let disk = SimDisk::new(at);
        let mut store = open(&disk).unwrap();
        write(&mut store, vec![add(1, b"a value")]).unwrap();
        fill_ring(&mut store);
        let error = checkpoint_on_full_disk(&disk, &mut store, Some((at, Plan::FailSync)));
        assert_eq!(error.kind() == ErrorKind::Broken, disk.sync_failed());
        disk.kill();
        drop(store);
        let journal = disk.file(FileName::Journal);
        let slots = PAGE_AT as usize..PAGE_AT as usize + PAGE;
        shown += u64::from(journal.shown[slots.clone()] != journal.medium[slots]);
        let mut store = open(&disk).unwrap();
        if store.ring().0 > config().journal_bytes / 4 {
            // The sync failed before the carry.
            continue;
        }
        let value = fill_ring(&mut store);
        disk.power_cut();
        drop(store);
        let mut store = open(&disk).unwrap();
        assert_eq!(last_value(&store), value, "call {at}");
        checked(&mut store);
    }
    assert_eq!(shown, 1);
}

/// Regression: after a checkpoint and an opening the carries were counted from 1 again. The slot of
/// a new carry then had a smaller sequence than an old one in the other slot, and the next opening
/// used neither.
#[test]
fn a_carry_counts_after_those_of_an_earlier_opening() {
    for carries in 1..4 {
        let disk = SimDisk::new(carries);
        let mut store = open(&disk).unwrap();
        write(&mut store, vec![add(1, b"a value")]).unwrap();
        for _ in 0..carries {
            fill_ring(&mut store);
            let error = checkpoint_on_full_disk(&disk, &mut store, None);
            assert_eq!(error.kind(), ErrorKind::DiskFull);
        }
        disk.quota(None);
        store.checkpoint().unwrap();
        store.close().unwrap();
        let mut store = open(&disk).unwrap();
        fill_ring(&mut store);
        let error = checkpoint_on_full_disk(&disk, &mut store, None);
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        let value = fill_ring(&mut store);
        disk.kill();
        drop(store);
        let mut store = open(&disk).unwrap();
        assert_eq!(last_value(&store), value, "after {carries} carries");
        checked(&mut store);
    }
}

/// Regression: a carry failed after it had written a short record. The next record began at the
/// next page, and an opening found the carried one before it: all later records were lost.
#[test]
fn a_failed_carry_hides_no_later_record() {
    let mut failed = 0;
    for (at, filler) in (0..24).flat_map(|at| (0..12).map(move |step| (at, step * 330))) {
        let disk = SimDisk::new(at);
        let mut store = open(&disk).unwrap();
        write(&mut store, vec![add(1, b"a value"), add(2, &vec![7; filler])]).unwrap();
        store.checkpoint().unwrap();
        write(&mut store, vec![add(3, b"a value")]).unwrap();
        sync(&store).unwrap();
        let error = checkpoint_on_full_disk(&disk, &mut store, Some((at, Plan::FailOnce)));
        if error.kind() == ErrorKind::Broken {
            continue;
        }
        failed += 1;
        for number in 4..8 {
            write(&mut store, vec![add(number, &[7; 1500])]).unwrap();
            sync(&store).unwrap();
        }
        checked(&mut store);
        disk.kill();
        drop(store);
        let mut store = open(&disk).unwrap();
        assert_eq!(numbers(&store), (1..8).collect::<Vec<_>>(), "call {at}, filler {filler}");
        checked(&mut store);
    }
    assert!(failed > 10, "{failed}");
}
