//! Statistics of days on a full disk: each item counts once, whatever fails, and what is collected
//! always fits into a carry.

use super::disk::{Plan, SimDisk};
use super::*;
use crate::format::key;
use crate::format::row::{DAY_ROW_BYTES_MAX, DayEntry, DayItem, DayRow};
use crate::store::carry::Burden;
use crate::words::error::ErrorKind;
use crate::words::limits::DAYS_COLLECTED_MAX;

const RUN: Run = Run(1);
const DAYS: u32 = 3;

/// Begins a day.
fn begin(store: &mut Store, day: u32) {
    let row = DayRow::new(u64::from(day)).encode();
    let writes = [RowWrite { key: key::day(RUN, day), op: RowOp::Add(row) }];
    step(store, &writes, &[(day, DayItem::Begun)]).unwrap();
}

/// Appends rows and items, with a checkpoint when there is no space.
fn step(
    store: &mut Store,
    writes: &[RowWrite],
    items: &[(u32, DayItem)],
) -> Result<u64, StoreFailure> {
    let mut set = written(writes);
    set.days = items
        .iter()
        .map(|(day, item)| DayEntry { tube: 0, run: RUN, day: *day, item: *item })
        .collect();
    match store.append(&mut set, moving(writes, 1), None) {
        Err(StoreFailure::NoRoom) => {
            store.checkpoint().map_err(StoreFailure::Refused)?;
            store.append(&mut set, moving(writes, 1), None)
        }
        done => done,
    }
}

/// Counts a retry of each of these days, with a row of its record.
fn retry(store: &mut Store, days: impl Iterator<Item = u32>) -> Result<u64, StoreFailure> {
    let writes = [RowWrite { key: super::key(1), op: RowOp::Change(Value::from([7; 100])) }];
    let items: Vec<_> = days.map(|day| (day, DayItem::Retry)).collect();
    step(store, &writes, &items)
}

fn retries(store: &Store) -> Vec<u64> {
    let row = |day| store.day_row(RUN, day).unwrap().unwrap();
    (0..DAYS).map(|day| DayRow::decode(&row(day)).unwrap().retries).collect()
}

/// A checkpoint that fails after it froze, with items in between, then a carry and slices of which
/// one call fails.
#[test]
fn items_count_once_whatever_fails_on_a_full_disk() {
    let (mut carried, mut not_carried) = (0, 0);
    for at in 0..30 {
        let disk = SimDisk::new(at);
        let mut store = open(&disk).unwrap();
        write(&mut store, vec![add(1, b"a value")]).unwrap();
        (0..DAYS).for_each(|day| begin(&mut store, day));
        store.checkpoint().unwrap();
        let mut expected = vec![0; DAYS as usize];
        let mut more = |store: &mut Store, times: u32| {
            for number in 0..times {
                let day = number % DAYS;
                retry(store, std::iter::once(day)).unwrap();
                expected[day as usize] += 1;
            }
            assert_eq!(retries(store), expected, "call {at}");
            expected.clone()
        };
        more(&mut store, 40);
        let checkpoint = store.freeze().unwrap().unwrap();
        more(&mut store, 11);
        sync(&store).unwrap();
        disk.plan(0, Plan::FullOnce);
        let failure = checkpoint.run(None).map(drop).unwrap_err();
        disk.no_plan();
        let used = store.ring().0;
        disk.plan(at, Plan::FailOnce);
        disk.quota(Some(disk.blocks()));
        let error = store.checkpoint_failed(failure).unwrap_err();
        disk.no_plan();
        if error.kind() == ErrorKind::Broken {
            continue;
        }
        if store.ring().0 < used {
            carried += 1;
        } else {
            not_carried += 1;
        }
        let before = more(&mut store, 5);
        sync(&store).unwrap();
        disk.kill();
        drop(store);
        // Killed at once again, what was read is read once more.
        for _ in 0..2 {
            let store = open(&disk).unwrap();
            assert_eq!(retries(&store), before, "call {at}");
            disk.kill();
            drop(store);
        }
        disk.quota(None);
        let mut store = open(&disk).unwrap();
        store.checkpoint().unwrap();
        let last = more(&mut store, 4);
        checked(&mut store);
        store.close().unwrap();
        assert_eq!(retries(&open(&disk).unwrap()), last, "call {at}");
    }
    assert!(carried > 5 && not_carried > 1, "{carried} {not_carried}");
}

/// A day that is removed leaves the base with a slice. What records before that have added to it
/// counts no more, also for a row that is made again.
#[test]
fn a_day_that_is_removed_on_a_full_disk_stays_removed() {
    let mut not_carried = 0;
    for at in 0..12 {
        let disk = SimDisk::new(3);
        let mut store = open(&disk).unwrap();
        write(&mut store, vec![add(1, b"a value")]).unwrap();
        (0..DAYS).for_each(|day| begin(&mut store, day));
        store.checkpoint().unwrap();
        retry(&mut store, 0..DAYS).unwrap();
        let gone = [RowWrite { key: key::day(RUN, 2), op: RowOp::Remove }];
        step(&mut store, &gone, &[]).unwrap();
        sync(&store).unwrap();
        let checkpoint = store.freeze().unwrap().unwrap();
        disk.plan(0, Plan::FullOnce);
        let failure = checkpoint.run(None).map(drop).unwrap_err();
        let used = store.ring().0;
        // The carry or a slice fails, or neither.
        disk.plan(at, Plan::FailOnce);
        disk.quota(Some(disk.blocks()));
        let error = store.checkpoint_failed(failure).unwrap_err();
        disk.no_plan();
        if error.kind() == ErrorKind::Broken {
            continue;
        }
        not_carried += u64::from(store.ring().0 >= used);
        begin(&mut store, 2);
        retry(&mut store, 1..DAYS).unwrap();
        assert_eq!(retries(&store), [1, 2, 1], "call {at}");
        sync(&store).unwrap();
        disk.kill();
        drop(store);
        let mut store = open(&disk).unwrap();
        assert_eq!(retries(&store), [1, 2, 1], "call {at}");
        checked(&mut store);
    }
    assert!(not_carried > 0);
}

/// The rows that items will take in a carry are admitted with their record.
#[test]
fn what_is_collected_fits_into_a_carry() {
    let disk = SimDisk::new(5);
    let mut store = open(&disk).unwrap();
    write(&mut store, vec![add(1, b"a value")]).unwrap();
    let mut full = DayRow::default();
    for index in 0..full.waits.buckets.len() {
        (full.waits.buckets[index], full.runs.buckets[index]) = (1, 1);
    }
    full.waits.count = full.waits.buckets.len() as u64;
    full.runs.count = full.waits.count;
    assert_eq!(full.encode().len(), DAY_ROW_BYTES_MAX);
    for day in 0..200 {
        let row = DayRow { begun: u64::from(day), ..full.clone() };
        let op = RowOp::Add(row.encode());
        write(&mut store, vec![RowWrite { key: key::day(RUN, day), op }]).unwrap();
    }
    store.checkpoint().unwrap();
    let mut done = 0;
    for (number, most) in (0..150).zip([1, 4, 2, 3].into_iter().cycle()) {
        let days = number..number + most;
        retry(&mut store, days).unwrap();
        let ring = store.ring.as_ref().unwrap();
        assert!(!ring.lacks(store.load(ring, Burden::Frees), 0), "{number}");
        let load = store.load(ring, Burden::Moves);
        assert!(load.carried <= load.most, "{number}: {load:?}");
        done += 1;
    }
    assert_eq!(done, 150);
    // More than a record may bring go to the base at once.
    store.checkpoint().unwrap();
    let refused = retry(&mut store, 0..DAYS_COLLECTED_MAX as u32);
    assert!(matches!(refused, Err(StoreFailure::TooLarge)), "{refused:?}");
    assert_eq!(DayRow::decode(&store.day_row(RUN, 0).unwrap().unwrap()).unwrap().retries, 1);
    checked(&mut store);
}
