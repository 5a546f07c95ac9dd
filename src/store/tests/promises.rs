//! What a store guarantees while its disk works correctly.

use super::disk::{SimDisk, Stored};
use super::*;
use crate::format::key::after;
use crate::store::Retired;
use crate::store::disk::FileName;
use crate::words::error::ErrorKind;
use std::cell::Cell;

#[test]
fn rows_survive_a_close_and_a_kill() {
    let disk = SimDisk::new(1);
    let mut store = open(&disk).unwrap();
    write(&mut store, vec![add(1, b"one"), add(2, b"two")]).unwrap();
    write(&mut store, vec![remove(1), add(3, b"three")]).unwrap();
    assert_eq!(numbers(&store), [2, 3]);
    disk.kill();
    drop(store);
    let mut store = open(&disk).unwrap();
    assert_eq!(numbers(&store), [2, 3]);
    store.checkpoint().unwrap();
    write(&mut store, vec![remove(2)]).unwrap();
    checked(&mut store);
    store.close().unwrap();
    let mut store = open(&disk).unwrap();
    assert_eq!(numbers(&store), [3]);
    assert_eq!(&*store.get(&key(3)).unwrap().unwrap(), b"three");
    checked(&mut store);
}

#[test]
fn an_open_store_is_locked_and_close_releases_it() {
    let disk = SimDisk::new(1);
    let mut store = open(&disk).unwrap();
    let journal = store.journal().unwrap();
    assert_eq!(refused(open(&disk)).kind(), ErrorKind::Locked);
    store.close().unwrap();
    open(&disk).unwrap().close().unwrap();
    assert_eq!(journal.sync().unwrap(), journal.synced(), "it changes no file");
}

#[test]
fn a_newer_format_is_left_as_it_is() {
    let disk = SimDisk::new(1);
    open(&disk).unwrap().close().unwrap();
    disk.poke(FileName::Journal, |bytes| {
        bytes[11] = 2;
        let lead = (xxhash_rust::xxh3::xxh3_64(&bytes[..12]) >> 32) as u32;
        bytes[12..16].copy_from_slice(&lead.to_be_bytes());
    });
    let calls = disk.calls();
    assert_eq!(refused(open(&disk)).kind(), ErrorKind::NewerFormat);
    assert_eq!(disk.calls(), calls, "no write and no sync");
}

#[test]
fn files_of_two_times_or_two_queues_are_refused() {
    let disk = SimDisk::new(5);
    let mut store = open(&disk).unwrap();
    let mut at = Vec::new();
    for round in 0..3 {
        for number in 0..200 {
            write(&mut store, vec![add(round * 1000 + number, &[1; 100])]).unwrap();
        }
        store.checkpoint().unwrap();
        for number in 200..230 {
            write(&mut store, vec![add(round * 1000 + number, &[1; 100])]).unwrap();
        }
        sync(&store).unwrap();
        at.push((disk.file(FileName::Base), disk.file(FileName::Journal)));
    }
    disk.kill();
    drop(store);
    let try_pair = |base: &Stored, journal: &Stored| {
        disk.set_file(FileName::Base, base.clone());
        disk.set_file(FileName::Journal, journal.clone());
        let opened = open(&disk);
        disk.kill();
        opened.map(|store| numbers(&store))
    };
    for (number, (base, journal)) in at.iter().enumerate() {
        let rows = try_pair(base, journal).unwrap();
        assert_eq!(rows.len(), 230 * (number + 1));
    }
    let newest = &at[2];
    // An older base: everything since is in the journal, or the queue is refused.
    for older in &at[..2] {
        match try_pair(&older.0, &newest.1) {
            Ok(rows) => assert_eq!(rows.len(), 690),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged),
        }
        let error = refused(try_pair(&newest.0, &older.1));
        assert_eq!(error.kind(), ErrorKind::Damaged, "a newer base");
    }
    assert_eq!(refused(try_pair(&at[0].0, &newest.1)).kind(), ErrorKind::Damaged);
    let other = SimDisk::new(6);
    drop(open(&other).unwrap());
    other.kill();
    let error = refused(try_pair(&other.file(FileName::Base), &newest.1));
    assert_eq!(error.kind(), ErrorKind::Damaged, "another queue's base");
    let error = refused(try_pair(&newest.1, &newest.0));
    assert_eq!(error.kind(), ErrorKind::NotAQueue, "swapped");
    for (name, len) in [(FileName::Journal, 5000), (FileName::Base, 5000), (FileName::Base, 0)] {
        try_pair(&newest.0, &newest.1).unwrap();
        disk.poke(name, |bytes| bytes.truncate(len));
        assert_eq!(refused(open(&disk)).kind(), ErrorKind::Damaged, "{name:?} cut at {len}");
        disk.kill();
    }
    disk.set_file(FileName::Base, newest.0.clone());
    disk.poke(FileName::Journal, |bytes| bytes.truncate(0));
    assert_eq!(refused(open(&disk)).kind(), ErrorKind::NotAQueue);
}

#[test]
fn app_tables_and_rows_are_one_commit() {
    let app_row = |store: &mut Store| {
        let read = store.opening().unwrap().begin_read().unwrap();
        let table = read.open_table(APP_ROWS).ok();
        table.and_then(|table| table.get(1).unwrap().map(|value| value.value()))
    };
    for frozen in [false, true] {
        let disk = SimDisk::new(10);
        let mut store = open(&disk).unwrap();
        let other = RowWrite {
            key: Key::from_slice(&[0x12, 0, 0, 0, 0, 9]),
            op: RowOp::Add(Value::from([])),
        };
        // In a run of its own: its counts must also change with the frozen rows.
        write(&mut store, vec![add(1, b"x"), other.clone()]).unwrap();
        let pending = if frozen { store.freeze().unwrap() } else { None };
        write(&mut store, vec![RowWrite { op: RowOp::Change(Value::from([])), ..other }]).unwrap();
        write(&mut store, vec![add(2, b"x")]).unwrap();

        let app = BaseTransaction::begin(store.opening().unwrap()).unwrap();
        app.transaction().unwrap().open_table(APP_ROWS).unwrap().insert(1, 1).unwrap();
        drop(app);
        assert_eq!(app_row(&mut store), None);
        assert_eq!(numbers(&store), [1, 2]);

        let app = BaseTransaction::begin(store.opening().unwrap()).unwrap();
        app.transaction().unwrap().open_table(APP_ROWS).unwrap().insert(1, 7).unwrap();
        finish(&mut store, app, vec![add(3, b"x"), remove(1)]).unwrap();
        if let Some(pending) = pending {
            let failure = pending.run(None).map(|_| ()).unwrap_err();
            store.checkpoint_failed(failure).unwrap();
        }
        assert_eq!(app_row(&mut store), Some(7));
        assert_eq!(numbers(&store), [2, 3]);
        write(&mut store, vec![remove(2)]).unwrap();
        checked(&mut store);
        sync(&store).unwrap();
        disk.power_cut();
        drop(store);
        let mut store = open(&disk).unwrap();
        assert_eq!(app_row(&mut store), Some(7));
        assert_eq!(numbers(&store), [3]);
        checked(&mut store);
    }
}

#[test]
fn temporary_rows_never_touch_the_disk() {
    let disk = SimDisk::new(11);
    let mut store = open(&disk).unwrap();
    let row =
        |number: u8, op| RowWrite { key: Key::from_slice(&[0x12, 0x80, 0, 0, 1, number]), op };
    let calls = disk.calls();
    let number = write(&mut store, vec![row(1, RowOp::Add(Value::from([1])))]).unwrap();
    assert_eq!(number, store.written());
    assert_eq!(disk.calls(), calls);
    write(&mut store, vec![row(2, RowOp::Add(Value::from([1]))), add(1, b"x")]).unwrap();
    let range = crate::format::Range::in_run(crate::format::Tag::Ready, Run(1 << 31 | 1));
    assert_eq!(store.count(range), 2);
    assert_eq!(all(&store).len(), 3);
    let large = RowOp::Add(vec![0; 1 << 20].as_slice().into());
    let refused = store.admit_temporary(&written(&[row(3, large), add(2, b"x")]).layer, 1 << 20);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Full);
    let same = [row(3, RowOp::Add(Value::from([1]))), row(1, RowOp::Remove)];
    store.admit_temporary(&written(&same).layer, 1 << 20).unwrap();
    write(&mut store, vec![row(1, RowOp::Remove)]).unwrap();
    store.checkpoint().unwrap();
    checked(&mut store);
    store.close().unwrap();
    let store = open(&disk).unwrap();
    assert_eq!(numbers(&store), [1]);
    assert_eq!(store.count(range), 0);
}

#[test]
fn a_store_in_memory_does_the_same() {
    let clocks = Clocks { clock: &ManualClock::new(), gap_max: 0 };
    let mut store = Store::in_memory(config(), &clocks).unwrap().store;
    assert!(store.journal().is_none());
    for number in 0..2000 {
        write(&mut store, vec![add(number, &[1; 100])]).unwrap();
        if store.wants_checkpoint() {
            store.checkpoint().unwrap();
        }
    }
    write(&mut store, (0..1990).map(remove).collect()).unwrap();
    store.checkpoint().unwrap();
    assert_eq!(numbers(&store), (1990..2000).collect::<Vec<_>>());
    checked(&mut store);
    // One row in a hundred stays, and keeps the memory that it shares with the removed ones.
    let mut came = 0;
    for number in 2000.. {
        write(&mut store, vec![add(number, &[1; 100])]).unwrap();
        if number % 100 != 0 {
            write(&mut store, vec![remove(number)]).unwrap();
        }
        came += 100;
        if store.wants_checkpoint() {
            break;
        }
    }
    assert!(came <= config().journal_bytes, "{came}");
    write(&mut store, (2000..2000 + came / 100).step_by(100).map(remove).collect()).unwrap();
    store.checkpoint().unwrap();
    let app = BaseTransaction::begin(store.opening().unwrap()).unwrap();
    finish(&mut store, app, vec![add(1, b"x")]).unwrap();
    store.compact().unwrap();
    assert_eq!(numbers(&store).len(), 11);
    store.close().unwrap();
}

#[test]
fn an_opening_can_be_stopped() {
    let disk = SimDisk::new(13);
    prepared(&disk);
    let before = (disk.file(FileName::Base).shown, disk.file(FileName::Journal).shown);
    for stop in 0..5 {
        let mut reports = 0;
        let opened = opened(&disk, config(), &mut |_| {
            reports += 1;
            if reports > stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match opened {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
        }
        disk.kill();
        if stop < 2 {
            assert!(disk.file(FileName::Journal).shown == before.1);
        }
    }
    disk.kill();
    stands(&disk, true);
}

#[test]
fn a_damaged_row_is_named_and_other_rows_are_not_affected() {
    let disk = SimDisk::new(14);
    let mut store = open(&disk).unwrap();
    write(&mut store, vec![add(1, b"first"), add(2, b"sought-for"), add(3, b"third")]).unwrap();
    store.close().unwrap();
    disk.poke(FileName::Base, |bytes| {
        let sought = b"sought-for";
        for at in 0..bytes.len() - sought.len() {
            if bytes[at..].starts_with(sought) {
                bytes[at] ^= 1;
            }
        }
    });
    let mut store = open(&disk).unwrap();
    assert_eq!(store.get(&key(2)).unwrap_err().kind(), ErrorKind::Damaged);
    assert_eq!(store.first(&key(2), &key(9)).unwrap(), Some((key(2), None)));
    assert_eq!(&*store.get(&key(3)).unwrap().unwrap(), b"third");
    write(&mut store, vec![remove(2)]).unwrap();
    assert_eq!(numbers(&store), [1, 3]);
}

#[test]
fn compaction_gives_space_back_and_comes_to_an_end() {
    let disk = SimDisk::new(15);
    let mut store = open(&disk).unwrap();
    for number in 0..20_000 {
        write(&mut store, vec![add(number, &[1; 200])]).unwrap();
    }
    store.checkpoint().unwrap();
    for number in 0..19_990 {
        write(&mut store, vec![remove(number)]).unwrap();
    }
    let before = store.space().base_bytes;
    let mut rounds = 0;
    while store.compact().unwrap() {
        rounds += 1;
    }
    assert!((1..4).contains(&rounds), "{rounds}");
    assert!(store.space().base_bytes < before / 2);
    checked(&mut store);
    disk.kill();
    drop(store);
    assert_eq!(numbers(&open(&disk).unwrap()).len(), 10);
}

/// Regression: takes from a long backlog waited for the disk again and again, and longest during a
/// checkpoint, which keeps the disk busy.
#[test]
fn sequential_scans_are_read_ahead_after_a_checkpoint() {
    let disk = SimDisk::new(19);
    let config = || Config { cache_bytes: 8 << 20, ..config() };
    let mut store = open_with(&disk, config()).unwrap();
    for number in 0..60_000 {
        write(&mut store, vec![add(number, &[1; 200])]).unwrap();
    }
    store.close().unwrap();
    // The cache is empty.
    let mut store = open_with(&disk, config()).unwrap();
    // Reads from two places in turns, as in a tube with groups. Returns the number of disk reads.
    let read = |store: &Store, rows: std::ops::Range<u64>| {
        let before = disk.reads();
        for number in rows.flat_map(|number| [number, 30_000 + number]) {
            let from = number.checked_sub(1).map_or(key(0), |last| after(&key(last)));
            let met = store.first(&from, &key(90_000)).unwrap();
            assert_eq!(met.map(|(found, _)| found), Some(key(number)));
        }
        disk.reads() - before
    };
    let checkpoint = |store: &mut Store, number: u64| {
        write(store, vec![add(number, b"x")]).unwrap();
        let checkpoint = store.freeze().unwrap().unwrap();
        let renewed = checkpoint.run(None).map_err(|failed| failed.error).unwrap();
        store.renew(renewed)
    };
    let fetched = |retired: Retired| {
        let before = disk.reads();
        retired.read_ahead(&|| true).unwrap();
        disk.reads() - before
    };
    assert!(read(&store, 0..256) > 0);
    drop(checkpoint(&mut store, 60_000));
    assert!(read(&store, 256..512) > 0, "nothing was read ahead");
    let pages = fetched(checkpoint(&mut store, 60_001));
    assert_eq!(read(&store, 512..960), 0, "nearly twice as much as was read");
    assert!((20..60).contains(&pages), "{pages} pages");
    drop(checkpoint(&mut store, 60_002));
    assert!(store.first(&key(5_000), &key(5_001)).unwrap().is_some());
    assert_eq!(fetched(checkpoint(&mut store, 60_003)), 0, "no scan reads in order");
    read(&store, 1000..1200);
    let before = disk.reads();
    checkpoint(&mut store, 60_006).read_ahead(&|| false).unwrap();
    assert!(disk.reads() - before < 4, "a caller waits from the start");
    read(&store, 1200..1400);
    let (before, asked) = (disk.reads(), Cell::new(0));
    let twice = || asked.replace(asked.get() + 1) < 2;
    checkpoint(&mut store, 60_005).read_ahead(&twice).unwrap();
    assert!(disk.reads() - before < 8, "a caller waits");
    read(&store, 1400..15_000);
    let pages = fetched(checkpoint(&mut store, 60_004));
    assert!((400..700).contains(&pages), "{pages} pages: more than a quarter of the cache");
    assert_eq!(read(&store, 15_000..19_000), 0, "each scan has its share");
}

#[test]
fn a_closed_store_takes_nothing() {
    let disk = SimDisk::new(16);
    let mut store = open(&disk).unwrap();
    store.close().unwrap();
    store.close().unwrap();
    assert_eq!(write(&mut store, vec![add(1, b"x")]).unwrap_err().kind(), ErrorKind::Closed);
}

/// Found by tests/race: a caller whose record was written before a close and whose sync came after
/// it got the error of a failed sync.
#[test]
fn a_sync_after_a_close_returns_the_close_sync() {
    let disk = SimDisk::new(1);
    let mut store = open(&disk).unwrap();
    let number = write(&mut store, vec![add(1, b"a")]).unwrap();
    let journal = store.journal().unwrap();
    store.close().unwrap();
    assert!(journal.sync().unwrap() >= number);
}
