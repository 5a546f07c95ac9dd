//! The journal as a ring: wraps, torn tails, and records of an earlier pass.

use super::disk::{Dice, SimDisk};
use super::*;
use crate::store::disk::FileName;
use crate::store::record::{HEADER_BYTES, Span};
use crate::words::error::ErrorKind;

#[test]
fn a_ring_that_wraps_many_times_keeps_every_record() {
    let disk = SimDisk::new(2);
    let mut store = open(&disk).unwrap();
    let mut dice = Dice(2);
    for number in 0..4_000 {
        let value = vec![number as u8; dice.below(600) as usize];
        let mut writes = vec![add(number, &value)];
        if number >= 10 {
            writes.push(remove(number - 10));
        }
        write(&mut store, writes).unwrap();
        // After a sync a record may begin the next page.
        if dice.one_in(2) {
            store.journal().unwrap().sync().unwrap();
        }
        if dice.one_in(300) {
            disk.kill();
            drop(store);
            store = open(&disk).unwrap();
            checked(&mut store);
        }
    }
    assert_eq!(numbers(&store), (3_990..4_000).collect::<Vec<_>>());
    checked(&mut store);
}

/// Regression: an idle queue wrote into pages that the system had evicted, which it first had to
/// read from the disk: 0.6 ms for each page, for all callers.
#[test]
fn the_first_write_to_a_page_covers_all_its_free_bytes() {
    const PAGE: u64 = 4096;
    let disk = SimDisk::new(5);
    let mut store = open(&disk).unwrap();
    let mut dice = Dice(5);
    let mut came = 0;
    for number in 0..4_000 {
        let value = vec![7; dice.below(3_000) as usize];
        let mut writes = vec![add(number, &value)];
        if number >= 10 {
            writes.push(remove(number - 10));
        }
        write(&mut store, writes).unwrap();
        let ring = store.ring.as_ref().unwrap();
        let (Span { start, end, .. }, used, size) = (ring.last, ring.used(), ring.size);
        let (at, data) = disk.last_write(FileName::Journal).unwrap();
        let at = at - HEAD_BYTES as u64;
        let to = at + data.len() as u64;
        assert_eq!(at, start);
        // Up to the page's end, or to the protected records: one byte always stays free.
        let page_end = end.next_multiple_of(PAGE);
        let protected = (end + size - used) % size;
        let free = if protected > start { page_end.min(protected - 1) } else { page_end };
        let comes = start / PAGE != (end - 1) / PAGE || start % PAGE == 0;
        assert_eq!(to, if comes { free } else { end }, "record {number}, {start} to {end}");
        assert!(data[(end - start) as usize..].iter().all(|&byte| byte == 0));
        came += u64::from(comes);
        if dice.one_in(3) {
            store.journal().unwrap().sync().unwrap();
        }
        if dice.one_in(100) {
            disk.kill();
            drop(store);
            store = open(&disk).unwrap();
            checked(&mut store);
        }
    }
    assert!(came > 1_000, "{came} pages");
    assert_eq!(numbers(&store), (3_990..4_000).collect::<Vec<_>>());
}

#[test]
fn the_largest_record_fits_after_every_checkpoint() {
    let mut dice = Dice(3);
    let disk = SimDisk::new(3);
    let mut store = open(&disk).unwrap();
    let most = JOURNAL_BYTES_MIN as usize / 5;
    for number in 0..200 {
        let len = if dice.one_in(2) { most / 4 - 60 } else { dice.below(800) as usize };
        let rows = (0..4).map(|row| add(number * 4 + row, &vec![7; len]));
        write(&mut store, rows.collect()).unwrap();
    }
    let mut writes = (0..4).map(|row| add(5_000 + row, &vec![7; most / 4])).collect();
    assert!(matches!(append(&mut store, &mut writes), Err(StoreFailure::TooLarge)));
    assert_eq!(writes.len(), 4, "the list is the caller's still");
    // A carry could not split it.
    let mut writes = vec![add(999, &vec![7; most / 2])];
    assert!(matches!(append(&mut store, &mut writes), Err(StoreFailure::TooLarge)));
    let app = BaseTransaction::begin(store.opening().unwrap()).unwrap();
    finish(&mut store, app, writes).unwrap();
    assert_eq!(store.get(&key(999)).unwrap().unwrap().len(), most / 2);
    disk.kill();
    drop(store);
    let mut store = open(&disk).unwrap();
    assert_eq!(numbers(&store).len(), 801);
    checked(&mut store);
}

/// Regression: without a chain, an old record came back in a third of the runs with two power cuts:
/// records of one size are at the same places, and the second record of the first pass followed the
/// first one of the second pass by number.
#[test]
fn two_power_cuts_bring_nothing_back() {
    for seed in seeds(300) {
        let disk = SimDisk::new(seed);
        let mut store = open(&disk).unwrap();
        write(&mut store, vec![add(1, b"a")]).unwrap();
        sync(&store).unwrap();
        for life in 0..3 {
            for number in 0..6 {
                write(&mut store, vec![add(100 * (life + 1) + number, b"a")]).unwrap();
            }
            disk.power_cut();
            drop(store);
            store = open(&disk).unwrap();
            let found = numbers(&store);
            for life in 0..=life {
                let first = 100 * (life + 1);
                let own = found.iter().filter(|n| (first..first + 6).contains(*n));
                let own: Vec<u64> = own.copied().collect();
                let prefix: Vec<u64> = (first..first + own.len() as u64).collect();
                assert_eq!(own, prefix, "seed {seed}: a suffix is lost, never a middle");
            }
            checked(&mut store);
        }
    }
}

#[test]
fn a_torn_tail_is_cut_and_a_synced_record_is_not() {
    let disk = SimDisk::new(4);
    let starts = rows_then_kill(&disk, 20);
    let whole = disk.file(FileName::Journal);
    // The last record: no other record proves that it was synced.
    disk.poke(FileName::Journal, |bytes| bytes[HEAD_BYTES + starts[19] as usize + 50] ^= 1);
    let store = open(&disk).unwrap();
    assert_eq!(numbers(&store), (0..19).collect::<Vec<_>>());
    disk.kill();
    drop(store);
    for flipped in [0, 7, 18] {
        disk.set_file(FileName::Journal, whole.clone());
        disk.poke(FileName::Journal, |bytes| {
            bytes[HEAD_BYTES + starts[flipped] as usize + 50] ^= 1
        });
        let before = disk.file(FileName::Journal).shown;
        assert_eq!(refused(open(&disk)).kind(), ErrorKind::Damaged, "record {flipped}");
        assert!(disk.file(FileName::Journal).shown == before, "nothing is changed");
        let lossy = Config { accept_loss: true, ..config() };
        let store = open_with(&disk, lossy).unwrap();
        assert_eq!(numbers(&store), (0..flipped as u64).collect::<Vec<_>>());
        disk.kill();
        drop(store);
        let store = open(&disk).unwrap();
        assert_eq!(numbers(&store), (0..flipped as u64).collect::<Vec<_>>(), "asked once only");
        disk.kill();
        drop(store);
    }
}

/// Regression: a write failed after the record was on the medium, and so did the sync of the zeros
/// over its header. Reads showed the zeros, and the next opening began the next page. After a power
/// cut the refused record was there again, and all records after it were missing.
#[test]
fn a_refused_record_does_not_come_back() {
    for filler in (0..4096).step_by(100) {
        let disk = SimDisk::new(1);
        let mut store = open(&disk).unwrap();
        write(&mut store, vec![add(1, &vec![7; filler])]).unwrap();
        sync(&store).unwrap();
        write(&mut store, vec![add(2, b"refused")]).unwrap();
        let start = HEAD_BYTES + store.ring.as_ref().unwrap().last.start as usize;
        disk.poke(FileName::Journal, |_| {});
        let mut journal = disk.file(FileName::Journal);
        journal.shown[start..start + HEADER_BYTES].fill(0);
        disk.set_file(FileName::Journal, journal);
        disk.kill();
        drop(store);
        let mut store = open(&disk).unwrap();
        write(&mut store, vec![add(3, b"accepted")]).unwrap();
        sync(&store).unwrap();
        disk.power_cut();
        drop(store);
        let mut store = open(&disk).unwrap();
        assert_eq!(numbers(&store), [1, 3], "filler {filler}");
        checked(&mut store);
    }
}
