//! What travels beside the rows: numbers, marks, and the word that all is synced.

use super::disk::SimDisk;
use super::*;
use crate::format::key::Tag;
use crate::store::disk::FileName;
use crate::words::error::ErrorKind;

const BLOCK: Numbers = Numbers::both(65_536);

fn anew(disk: &SimDisk) -> Opened {
    opened(disk, config(), &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn numbers_are_reserved_anew_at_each_opening_and_a_close_gives_back_what_is_unused() {
    let disk = SimDisk::new(12);
    let first = anew(&disk);
    assert_eq!((first.first, first.reserved), (Numbers::FIRST, Numbers::both(65_537)));
    disk.power_cut();
    drop(first);
    let mut second = anew(&disk);
    assert_eq!((second.first, second.reserved), (Numbers::both(65_537), Numbers::both(131_073)));
    let list = vec![add(1, b"x")];
    let reserved = Numbers { ids: 500_000, tokens: 0 };
    second
        .store
        .append(&mut written(&list), MetaDelta { reserved, ..moving(&list, 77) }, false)
        .unwrap();
    // The next record does not repeat it.
    append(&mut second.store, &mut vec![add(2, b"x")]).unwrap();
    disk.kill();
    drop(second);
    let mut third = anew(&disk);
    let begun = Numbers { ids: 500_000, tokens: 131_073 };
    assert_eq!((third.first, third.reserved), (begun, begun.plus(BLOCK)));
    let unused = begun.plus(Numbers { ids: 3, tokens: 7 });
    third.store.settle(unused, ClockMarks { queue: u64::MAX >> 8, wall: 5 });
    third.store.close().unwrap();
    let fourth = anew(&disk);
    assert_eq!((fourth.first, fourth.reserved), (unused, unused.plus(BLOCK)));
    assert!(fourth.reckoning.marks().queue >= u64::MAX >> 8, "the last checkpoint has the marks");
}

/// A list for temporary tubes has no record, but its stamp was kept: the next record passed for one
/// that tells of the reservation, and after a power cut the numbers were given again.
#[test]
fn what_no_record_carries_is_not_reserved() {
    let disk = SimDisk::new(3);
    let mut store = open(&disk).unwrap();
    let reserved = Numbers::both(1 << 20);
    let advance = MetaDelta { reserved, ..MetaDelta::default() };
    let mut key = Key::from_slice(&[Tag::Ready as u8]);
    key.extend_from_slice(&(Run::TEMPORARY | 1).to_be_bytes());
    assert!(is_temporary(&key));
    let temporary = RowWrite { key, op: RowOp::Add(Value::from(b"t".as_slice())) };
    store.append(&mut written(&[temporary]), advance, false).unwrap();
    let durable = vec![add(1, b"d")];
    store
        .append(&mut written(&durable), MetaDelta { reserved, ..moving(&durable, 1) }, false)
        .unwrap();
    sync(&store).unwrap();
    disk.power_cut();
    drop(store);
    assert_eq!(anew(&disk).first, reserved);
}

/// A plain record is 24 bytes of fixed part and its rows; the reservation comes where it moves.
#[test]
fn a_plain_record_tells_of_no_numbers() {
    let disk = SimDisk::new(3);
    let mut store = open(&disk).unwrap();
    let mut size = |reserved: u64| {
        let list = vec![add(reserved, b"12345678")];
        let reserved = Numbers::both(reserved);
        store
            .append(&mut written(&list), MetaDelta { reserved, ..moving(&list, 1) }, false)
            .unwrap();
        let span = store.ring.as_ref().unwrap().last();
        span.end - span.start
    };
    let plain = (40 + 24 + 3 + 13 + 4 + 8_u64).next_multiple_of(8);
    assert_eq!([size(1), size(2), size(1 << 30), size(3)], [plain, plain, plain + 16, plain]);
}

/// Up to 28 of 1 500 flushed relaxed tasks were gone silently: nothing in the journal told that the
/// last records had been synced, so damage to them passed for the torn tail of a power cut.
#[test]
fn damage_to_what_was_flushed_is_told() {
    for flipped in [0, 7, 18, 19] {
        for idle in [true, false] {
            let disk = SimDisk::new(4);
            let mut store = open(&disk).unwrap();
            let mut starts = Vec::new();
            for number in 0..20 {
                write(&mut store, vec![add(number, b"value")]).unwrap();
                starts.push(store.ring.as_ref().unwrap().last().start);
            }
            store.idle().unwrap();
            let written = store.written();
            assert_eq!(written, 21, "nothing is told of what is not synced");
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
fn idle_records_and_notes_go_into_what_a_full_ring_keeps_free() {
    let disk = SimDisk::new(4);
    let mut store = open(&disk).unwrap();
    let opened = store.written();
    store.idle().unwrap();
    assert_eq!(store.written(), opened, "an opening is synced, and nobody misses it");
    for number in 0.. {
        match append(&mut store, &mut vec![add(number, &[7; 100])]) {
            Ok(_) => {}
            Err(Failure::NoRoom) => break,
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
    assert_eq!(anew(&disk).first.plus(Numbers::default()), Numbers::both((1 << 40) + 65_536));
}

/// While a durable caller's sync took longer than the flush interval, the word that all is synced
/// was given up, and never came.
#[test]
fn the_word_that_all_is_synced_is_owed_until_it_is() {
    let disk = SimDisk::new(3);
    let mut store = open(&disk).unwrap();
    append(&mut store, &mut vec![add(1, b"a")]).unwrap();
    let last = |store: &Store| store.ring.as_ref().unwrap().last().link.number;
    let number = last(&store);
    assert!(!store.idle().unwrap() && last(&store) == number, "it is not synced yet");
    sync(&store).unwrap();
    assert!(store.idle().unwrap() && last(&store) == number + 1);
    assert!(store.idle().unwrap() && last(&store) == number + 1, "once");
}
