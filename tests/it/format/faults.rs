//! Planted faults: one byte changed in a lead, a slot, a record, a seal; one row removed, or with
//! one byte more. The reader must find each.

use super::base::{self, Base, OWN, ROWS};
use super::journal::{Journal, RING_AT};
use super::rows::{Rows, is_of_run};
use super::tasks::Contents;
use super::{read, records};
use crate::golden;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::fs;
use std::path::Path;

fn turned(file: &[u8], at: usize) -> Vec<u8> {
    let mut file = file.to_vec();
    file[at] ^= 0x10;
    file
}

#[test]
fn a_turned_byte_of_the_lead_is_found() {
    let (_home, path) = golden::unpacked("killed");
    let file = fs::read(path.join("journal")).unwrap();
    for at in (0..48).chain([48, 4095]) {
        assert!(Journal::read(&turned(&file, at)).is_err(), "byte {at}");
    }
}

#[test]
fn a_turned_byte_of_a_slot_leaves_the_other() {
    let (_home, path) = golden::unpacked("killed");
    let file = fs::read(path.join("journal")).unwrap();
    for at in (0..18).chain([18, 4095]) {
        let one = turned(&file, 4096 + at);
        assert_eq!(Journal::read(&one).unwrap().slots, [false, true], "byte {at}");
        let other = turned(&file, 8192 + at);
        assert_eq!(Journal::read(&other).unwrap().slots, [true, false], "byte {at}");
        assert!(Journal::read(&turned(&one, 8192 + at)).is_err(), "byte {at}");
    }
}

/// The records end before it. It is damage if a later record proves that it was synced.
#[test]
fn a_turned_byte_of_a_record_is_found() {
    let (mut torn, mut damaged) = (0, 0);
    for name in ["killed", "unswept", "wrapped"] {
        let (_home, path) = golden::unpacked(name);
        let folder = read(&path).unwrap();
        let file = fs::read(path.join("journal")).unwrap();
        for (before, record) in folder.records.iter().enumerate() {
            let synced = folder.records.iter().any(|later| later.synced >= record.number);
            let length = (record.end - record.at) as usize;
            for offset in [0, 8, 16, 24, 32, 36, 40, 47, 48, length - 8] {
                let at = RING_AT + record.at as usize + offset;
                let journal = Journal::read(&turned(&file, at)).unwrap();
                match records(&journal, &folder.base) {
                    Ok(left) if !synced => {
                        assert_eq!(left.len(), before, "{name}: {} + {offset}", record.number);
                        torn += 1;
                    }
                    Ok(_) => panic!("{name}: byte {offset} of record {}", record.number),
                    Err(_) => damaged += 1,
                }
            }
        }
        let named = RING_AT + folder.base.anchor.at as usize;
        let journal = Journal::read(&turned(&file, named + 20)).unwrap();
        assert!(records(&journal, &folder.base).is_err(), "the record of the anchor");
    }
    assert!(torn > 0 && damaged > 0, "{torn} torn, {damaged} damaged");
}

/// A slot that is not valid does not count. The reader then begins at the anchor.
#[test]
fn a_turned_byte_of_the_carry_or_of_a_carried_record_is_found() {
    let (_home, path) = golden::unpacked("carried");
    let folder = read(&path).unwrap();
    let file = fs::read(path.join("journal")).unwrap();
    let slots = [12_288, 14_336].map(|at| file[at..at + 72].iter().any(|byte| *byte != 0));
    for slot in [12_288, 14_336] {
        assert!(Journal::read(&turned(&file, slot + 72)).is_err());
    }
    assert!(slots.contains(&true));
    for at in (0..72).step_by(8) {
        let one = turned(&turned(&file, 12_288 + at), 14_336 + at);
        assert_eq!(Journal::read(&one).unwrap().carry, None, "byte {at}");
    }
    for record in folder.records.iter().filter(|record| record.carried) {
        let journal = Journal::read(&turned(&file, RING_AT + record.at as usize + 40)).unwrap();
        assert!(records(&journal, &folder.base).is_err(), "record {}", record.number);
    }
}

/// Changes the byte that `byte` chooses in every value, one after the other.
fn turn_each(
    path: &Path,
    table: TableDefinition<'static, &'static [u8], &'static [u8]>,
    byte: fn(usize) -> usize,
) {
    let file = path.join("base.redb");
    let of = |base: &Database| {
        let rows = base.begin_read().unwrap().open_table(table).unwrap();
        let rows = rows.iter().unwrap().map(Result::unwrap);
        rows.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).collect::<Vec<_>>()
    };
    let base = base::database(&file).unwrap();
    for (key, sealed) in of(&base).into_iter().step_by(5) {
        let set = |value: &[u8]| {
            let write = base.begin_write().unwrap();
            write.open_table(table).unwrap().insert(&*key, value).unwrap();
            write.commit().unwrap();
        };
        set(&turned(&sealed, byte(sealed.len())));
        let error = Base::from(&base).err().expect("a broken seal");
        assert!(error.starts_with("the seal of"), "{error}");
        set(&sealed);
    }
    drop(base);
    Base::read(&file).unwrap();
}

#[test]
fn a_turned_byte_of_a_row_or_its_seal_is_found() {
    let (_home, path) = golden::unpacked("closed");
    for table in [OWN, ROWS] {
        turn_each(&path, table, |length| length - 1);
        turn_each(&path, table, |_| 0);
    }
    assert!(base::unsealed(b"key", b"abc").is_err());
}

/// Whether only the stored counts say that this row is missing: the row of a fresh task, or of the
/// state of one that would be fresh without it.
fn is_only_counted(rows: &Rows, key: &[u8]) -> bool {
    let is_of_task = |other: &&Vec<u8>| {
        other[1..5] == key[1..5] && other[other.len() - 8..] == key[key.len() - 8..]
    };
    let of_task = |tags: &[u8]| {
        rows.keys().filter(|other| tags.contains(&other[0])).filter(is_of_task).count() > 0
    };
    match key[0] {
        0x11 => !of_task(&[0x12, 0x16, 0x17, 0x18]),
        0x12 | 0x17 => of_task(&[0x11]),
        // Nothing leads to a tracked task, a condition or a throttle that no task holds, nor to a
        // setting.
        0x07..=0x09 | 0x31 => true,
        // Folders from before these counts have none.
        0x1f => rows.keys().filter(|other| other[0] == 0x1f).count() == 1,
        // Nothing says that anything happened on a day.
        0x44 => true,
        _ => false,
    }
}

#[test]
fn a_missing_row_and_a_byte_too_many_are_found() {
    for name in golden::NAMES {
        let (_home, path) = golden::unpacked(name);
        let rows = read(&path).unwrap().rows;
        for (key, value) in &rows {
            let mut fewer = rows.clone();
            fewer.remove(key);
            let is_cleared = |run: &u32| key.get(1..5) == Some(&run.to_be_bytes());
            let cleared = Contents::read(&rows).unwrap().cleared;
            let of_run = is_of_run(key[0]);
            let of_task = of_run && cleared.iter().any(is_cleared);
            if !of_task && !is_only_counted(&rows, key) {
                assert!(Contents::read(&fewer).is_err(), "{name}: without {key:02x?}");
            }
            // A payload in the row of its task or schedule has no length of its own, nor has a
            // checkpoint, nor a piece that goes.
            let is_checkpoint = key[0] == 0x2d && key[9] == 2;
            let is_work = |work: &[u8]| work[0] == 4 && work[1] >= 3 && work[6..14] == key[1..9];
            let goes = key[0] == 0x22 && rows.keys().any(|work| is_work(work));
            if ![0x11, 0x1e, 0x3b].contains(&key[0]) && !is_checkpoint && !goes && !of_task {
                let mut longer = rows.clone();
                longer.insert(key.clone(), [value, &[0][..]].concat());
                assert!(Contents::read(&longer).is_err(), "{name}: {key:02x?} and a byte");
            }
        }
    }
}
