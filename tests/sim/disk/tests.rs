//! Tests of the simulated disk, without which results over it have no value.

use super::*;
use crate::seeds::{are_all, seeds};
use std::ops::Range;
use std::slice;

fn created(disk: &SimDisk) -> Arc<dyn testing::Disk> {
    let lent = disk.lend();
    let staging = lent.stage().unwrap();
    staging.create(FileName::Base).unwrap();
    staging.create(FileName::Journal).unwrap();
    staging.settle().unwrap();
    lent
}

/// The files after power cuts: ones were synced, and twos were written over these ranges.
fn after_cuts(synced: usize, unsynced: &[Range<usize>], mut look: impl FnMut(&[u8])) {
    for seed in seeds(200) {
        let disk = SimDisk::new(seed);
        let file = created(&disk).open_base(Access::Read).unwrap();
        file.write_at(0, &vec![1; synced]).unwrap();
        file.sync().unwrap();
        for range in unsynced {
            file.write_at(range.start as u64, &vec![2; range.len()]).unwrap();
        }
        disk.cut_power();
        assert!(file.sync().is_err(), "the process is gone");
        look(&disk.bytes(FileName::Base));
    }
}

#[test]
fn a_cut_leaves_what_was_synced_and_any_part_of_the_rest() {
    let (mut lost, mut kept, mut torn) = (0, 0, 0);
    after_cuts(2048, slice::from_ref(&(512..1536)), |bytes| {
        assert_eq!(bytes.len(), 2048);
        assert!(bytes[..512].iter().chain(&bytes[1536..]).all(|byte| *byte == 1));
        match (bytes[512], bytes[1024]) {
            (1, 1) => lost += 1,
            (2, 2) => kept += 1,
            _ => torn += 1,
        }
    });
    assert!(!are_all() || lost > 20 && kept > 20 && torn > 10, "{lost} {kept} {torn}");
}

/// A later write may be kept where an earlier one is lost, and a new length without its data.
#[test]
fn what_was_not_synced_comes_out_in_any_order() {
    let (mut first, mut second, mut bare) = (0, 0, 0);
    after_cuts(1024, &[0..512, 512..1024, 1024..1536], |bytes| {
        match (bytes[0], bytes[512]) {
            (2, 1) => first += 1,
            (1, 2) => second += 1,
            _ => {}
        }
        bare += usize::from(bytes.get(1024) == Some(&0));
    });
    assert!(!are_all() || first > 10 && second > 10 && bare > 10, "{first} {second} {bare}");
}

#[test]
fn a_kill_takes_nothing() {
    let disk = SimDisk::new(0);
    let file = created(&disk).open_base(Access::Read).unwrap();
    file.write_at(0, &[7; 10]).unwrap();
    disk.kill();
    assert_eq!(disk.bytes(FileName::Base), [7; 10]);
}

#[test]
fn a_lost_sync_shows_unsynced_writes() {
    let disk = SimDisk::new(0);
    let file = created(&disk).open_base(Access::Read).unwrap();
    file.write_at(0, &[7; 10]).unwrap();
    disk.plan(Fault::LoseSync(1));
    assert!(file.sync().is_err());
    assert!(file.sync().is_ok(), "the second one has nothing to do");
    let mut seen = [0; 10];
    file.read_at(0, &mut seen).unwrap();
    assert_eq!(seen, [7; 10]);
    disk.cut_power();
    assert!(disk.bytes(FileName::Base).iter().all(|byte| *byte == 0));
}

#[test]
fn a_full_disk_refuses_new_blocks_only() {
    let disk = SimDisk::new(0);
    let file = created(&disk).open_base(Access::Read).unwrap();
    disk.set_quota(2);
    file.write_at(0, &[1; 8192]).unwrap();
    let refusal = file.write_at(8192, &[1]).unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::StorageFull);
    file.write_at(100, &[2; 100]).unwrap();
    file.set_len(4096).unwrap();
    file.write_at(40_960, &[1]).unwrap();
    assert_eq!(disk.blocks(), 2);
}

#[test]
fn a_creation_lasts_or_leaves_nothing() {
    for (at, seed) in (1..=9).flat_map(|at| seeds(20).map(move |seed| (at, seed))) {
        for (disk, calls) in [(SimDisk::new(seed), 6), (SimDisk::with_a_folder(seed), 9)] {
            if at > calls {
                continue;
            }
            let lent = disk.lend();
            disk.plan(Fault::Die(at));
            let created = lent.stage().and_then(|staging| {
                staging.create(FileName::Base)?.write_at(0, b"base")?;
                staging.create(FileName::Journal)?;
                staging.settle()
            });
            assert!(created.is_err());
            disk.cut_power();
            disk.plan(Fault::None);
            let found = disk.lend().found().unwrap();
            assert!(
                matches!(found, Found::Nothing | Found::Unfinished | Found::Whole),
                "{found:?}"
            );
            if found != Found::Nothing {
                assert_eq!(disk.bytes(FileName::Base), b"base");
            }
        }
    }
}

#[test]
fn a_lock_ends_with_its_holder() {
    let disk = SimDisk::new(0);
    let first = created(&disk);
    let held = first.open_journal(Access::Write).unwrap().unwrap();
    assert!(disk.lend_beside().open_journal(Access::Write).unwrap().is_none());
    drop(held);
    assert!(disk.lend_beside().open_journal(Access::Write).unwrap().is_some());
}
