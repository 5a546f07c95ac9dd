//! What records contain besides rows: numbers, marks, and the note that all is synced.

use super::disk::SimDisk;
use super::*;
use crate::format::key::Tag;
use crate::store::disk::FileName;
use crate::words::error::ErrorKind;

const BLOCK: Numbers = Numbers::both(65_536);

fn reopened(disk: &SimDisk) -> Opened {
    opened(disk, config(), &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn each_opening_reserves_numbers_and_a_close_returns_the_unused() {
    let disk = SimDisk::new(12);
    let first = reopened(&disk);
    assert_eq!((first.first, first.reserved), (Numbers::FIRST, Numbers::both(65_537)));
    disk.power_cut();
    drop(first);
    let mut second = reopened(&disk);
    assert_eq!((second.first, second.reserved), (Numbers::both(65_537), Numbers::both(131_073)));
    let list = vec![add(1, b"x")];
    let reserved = Numbers { ids: 500_000, tokens: 0 };
    second
        .store
        .append(&mut written(&list), MetaDelta { reserved, ..moving(&list, 77) }, None)
        .unwrap();
    // The next record does not repeat it.
    append(&mut second.store, &mut vec![add(2, b"x")]).unwrap();
    disk.kill();
    drop(second);
    let mut third = reopened(&disk);
    let begun = Numbers { ids: 500_000, tokens: 131_073 };
    assert_eq!((third.first, third.reserved), (begun, begun.plus(BLOCK)));
    let unused = begun.plus(Numbers { ids: 3, tokens: 7 });
    third.store.settle(unused, ClockMarks { queue: u64::MAX >> 8, wall: 5 });
    third.store.close().unwrap();
    let fourth = reopened(&disk);
    assert_eq!((fourth.first, fourth.reserved), (unused, unused.plus(BLOCK)));
    assert!(fourth.queue_clock.marks.queue >= u64::MAX >> 8, "the last checkpoint has the marks");
}

/// Regression: writes of temporary tubes have no record, but their metadata was kept. The next
/// record seemed to contain the reservation, and after a power cut the numbers were given again.
#[test]
fn numbers_without_a_record_are_not_reserved() {
    let disk = SimDisk::new(3);
    let mut store = open(&disk).unwrap();
    let reserved = Numbers::both(1 << 20);
    let advance = MetaDelta { reserved, ..MetaDelta::default() };
    let mut key = Key::from_slice(&[Tag::Ready as u8]);
    key.extend_from_slice(&(Run::TEMPORARY | 1).to_be_bytes());
    assert!(is_temporary(&key));
    let temporary = RowWrite { key, op: RowOp::Add(Value::from(b"t".as_slice())) };
    store.append(&mut written(&[temporary]), advance, None).unwrap();
    let durable = vec![add(1, b"d")];
    store
        .append(&mut written(&durable), MetaDelta { reserved, ..moving(&durable, 1) }, None)
        .unwrap();
    sync(&store).unwrap();
    disk.power_cut();
    drop(store);
    assert_eq!(reopened(&disk).first, reserved);
}

/// A plain record has a fixed part of 24 bytes and its rows; a reservation is added when it
/// changes.
#[test]
fn a_plain_record_contains_no_numbers() {
    let disk = SimDisk::new(3);
    let mut store = open(&disk).unwrap();
    let mut size = |reserved: u64| {
        let list = vec![add(reserved, b"12345678")];
        let reserved = Numbers::both(reserved);
        store
            .append(&mut written(&list), MetaDelta { reserved, ..moving(&list, 1) }, None)
            .unwrap();
        let span = store.ring.as_ref().unwrap().last;
        span.end - span.start
    };
    let plain = (40 + 24 + 3 + 13 + 4 + 8_u64).next_multiple_of(8);
    assert_eq!([size(1), size(2), size(1 << 30), size(3)], [plain, plain, plain + 16, plain]);
}

/// Regression: up to 28 of 1 500 flushed relaxed tasks were lost without an error. The journal did
/// not show that its last records were synced, so damage to them counted as the torn tail of a
/// power cut.
#[test]
fn damage_to_flushed_records_is_reported() {
    for flipped in [0, 7, 18, 19] {
        for idle in [true, false] {
            let disk = SimDisk::new(4);
            let mut store = open(&disk).unwrap();
            let mut starts = Vec::new();
            for number in 0..20 {
                write(&mut store, vec![add(number, b"value")]).unwrap();
                starts.push(store.ring.as_ref().unwrap().last.start);
            }
            store.idle().unwrap();
            let written = store.written();
            assert_eq!(written, 21, "damage to unsynced records is not reported");
            sync(&store).unwrap();
            if idle {
                store.idle().unwrap();
                store.idle().unwrap();
                assert_eq!(store.written(), written + 1, "once");
            }
            disk.kill();
            drop(store);
            let at = HEAD_BYTES + starts[flipped] as usize + 50;
            disk.poke(FileName::Journal, |bytes| bytes[at] ^= 1);
            let before = disk.file(FileName::Journal).shown;
            match open(&disk) {
                Err(error) if idle => assert_eq!(error.kind(), ErrorKind::Damaged),
                Ok(store) if !idle => assert_eq!(numbers(&store).len(), flipped),
                _ => panic!("record {flipped}, idle: {idle}"),
            }
            assert!(!idle || disk.file(FileName::Journal).shown == before, "nothing is changed");
        }
    }
}

#[test]
fn idle_records_and_notes_go_into_the_space_that_a_full_ring_keeps_free() {
    let disk = SimDisk::new(4);
    let mut store = open(&disk).unwrap();
    let opened = store.written();
    store.idle().unwrap();
    assert_eq!(store.written(), opened, "an opening is synced and needs no idle record");
    for number in 0.. {
        match append(&mut store, &mut vec![add(number, &[7; 100])]) {
            Ok(_) => {}
            Err(StoreFailure::NoRoom) => break,
            Err(_) => panic!("a full ring"),
        }
    }
    sync(&store).unwrap();
    let before = store.written();
    store.idle().unwrap();
    assert_eq!(store.written(), before + 1);
    store.note(MetaDelta { reserved: Numbers::both(1 << 40), ..MetaDelta::default() }).unwrap();
    store.checkpoint().unwrap();
    store.idle().unwrap();
    assert_eq!(store.written(), before + 2, "the base holds it all");
    write(&mut store, vec![add(10_000, b"x")]).unwrap();
    sync(&store).unwrap();
    store.idle().unwrap();
    assert_eq!(store.written(), before + 4);
    disk.kill();
    drop(store);
    checked(&mut open(&disk).unwrap());
    disk.kill();
    assert_eq!(reopened(&disk).first.plus(Numbers::default()), Numbers::both((1 << 40) + 65_536));
}

/// Regression: while a durable caller's sync took longer than the flush interval, the note that all
/// is synced was skipped, and was never written.
#[test]
fn the_idle_record_is_written_after_the_sync() {
    let disk = SimDisk::new(3);
    let mut store = open(&disk).unwrap();
    append(&mut store, &mut vec![add(1, b"a")]).unwrap();
    let last = |store: &Store| store.ring.as_ref().unwrap().last.link.number;
    let number = last(&store);
    assert!(!store.idle().unwrap() && last(&store) == number, "it is not synced yet");
    sync(&store).unwrap();
    assert!(store.idle().unwrap() && last(&store) == number + 1);
    assert!(store.idle().unwrap() && last(&store) == number + 1, "once");
}
