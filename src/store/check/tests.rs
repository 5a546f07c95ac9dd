//! Tests that the check of the files finds faults: every line that it reports, each caused by one
//! fault.

use super::super::base::Base;
use super::super::head::HEAD_BYTES;
use super::super::record::MetaDelta;
use super::super::redb_errors::fenced;
use super::super::tables::{ROWS, seal};
use super::super::{Access, BaseTransaction, Clocks, Config, Folder, Store};
use crate::format::key::{self, Key, Range, Run};
use crate::format::layer::WriteSet;
use crate::format::{RowOp, Tag, Value, View};
use crate::words::clock::ManualClock;
use crate::words::limits::JOURNAL_BYTES_MIN;
use crate::words::sync::Arc;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use tempfile::TempDir;

const NEEDLE: [u8; 64] = [0xa5; 64];

fn open(path: &Path) -> Store {
    let config = Config {
        journal_bytes: JOURNAL_BYTES_MIN,
        cache_bytes: 1 << 20,
        accept_loss: false,
        access: Access::Write,
        known: &[],
    };
    let disk = Arc::new(Folder::at(path));
    let clocks = Clocks { clock: &ManualClock::new(), gap_max: 0 };
    Store::open(disk, config, &clocks, &mut |_| ControlFlow::Continue(())).unwrap().store
}

fn write(store: &mut Store, writes: impl IntoIterator<Item = (Key, RowOp)>) {
    let mut set = WriteSet::default();
    writes.into_iter().for_each(|row| set.write(row));
    let advance = MetaDelta { durable_bytes: 7, ..MetaDelta::default() };
    store.append(&mut set, advance, None).unwrap();
}

fn add(value: &[u8]) -> RowOp {
    RowOp::Add(Value::from(value))
}

/// A row of a tube, as the store sees it.
fn ready(number: u8) -> Key {
    Key::from_slice(&[Tag::Ready as u8, 0, 0, 0, 1, number])
}

/// Ten rows of a tube and one that is kept in memory, in the base; three of them removed since.
fn made() -> (TempDir, Store) {
    let home = tempfile::tempdir().unwrap();
    let mut store = open(&home.path().join("q"));
    write(&mut store, (0..10).map(|number| (ready(number), add(&NEEDLE))));
    write(&mut store, [(key::tube(1), add(b"a tube"))]);
    store.checkpoint().unwrap();
    write(&mut store, (3..6).map(|number| (ready(number), RowOp::Remove)));
    (home, store)
}

fn check_report(store: &mut Store) -> Vec<String> {
    let mut lines = Vec::new();
    store.check(&mut |line| lines.push(line), |_, _| Ok(())).unwrap();
    lines
}

/// Puts a row into the base directly, without the store.
fn plant(store: &mut Store, key: &[u8], sealed: &[u8]) {
    let opening = store.base.take().unwrap().into_opening();
    let txn = opening.begin_write().unwrap();
    fenced(&opening.health, || {
        txn.open_table(ROWS)?.insert(key, sealed)?;
        Ok(txn.commit()?)
    })
    .unwrap();
    store.base = Some(Base::over(opening).unwrap());
}

fn plant_sound(store: &mut Store, key: &[u8]) {
    let mut buffer = Vec::new();
    let sealed = seal(key, b"planted", &mut buffer).to_vec();
    plant(store, key, &sealed);
}

#[test]
fn every_fault_of_the_rows_has_its_line() {
    type Spoil = fn(&mut Store);
    let faults: [(&str, Spoil); 10] = [
        ("the row 60 has no tag or no run", |store| plant_sound(store, &[0x60])),
        ("the row 1200 has no tag or no run", |store| plant_sound(store, &[0x12, 0])),
        ("the row 12000000010407 is inside a dead range", |store| {
            store.first(&ready(3), &ready(9)).unwrap().expect("a row after the dead ones");
            plant_sound(store, &[ready(4).as_slice(), &[7]].concat());
        }),
        ("the row 128000000100 of a temporary tube is in the base", |store| {
            plant_sound(store, &[Tag::Ready as u8, 0x80, 0, 0, 1, 0]);
        }),
        ("the row 120000000107 is damaged", |store| plant(store, &ready(7), b"no seal")),
        ("the row 0300000001 in memory differs from the stored one", |store| {
            plant_sound(store, &key::tube(1));
        }),
        ("the rows kept in memory are not those stored", |store| {
            plant_sound(store, &key::tube(2));
        }),
        ("counts 7 rows and has 8", |store| plant_sound(store, &ready(70))),
        ("counts 8 rows and has 7", |store| {
            store.rows.counts.step(Range::in_run(Tag::Ready, Run(1)), 1);
        }),
        ("counts 1 rows and has 0", |store| {
            store.rows.counts.step(Range::in_run(Tag::Due, Run(9)), 1);
        }),
    ];
    for (line, spoil) in faults {
        let (_home, mut store) = made();
        assert_eq!(check_report(&mut store), Vec::<String>::new());
        spoil(&mut store);
        let lines = check_report(&mut store);
        assert!(lines.iter().any(|fault| fault.contains(line)), "{line}: {lines:?}");
    }
}

#[test]
fn a_changed_record_is_reported() {
    let (_home, mut store) = made();
    let ring = store.ring.as_ref().unwrap();
    let (number, at) = (ring.last.link.number, HEAD_BYTES as u64 + ring.last.start + 50);
    let mut byte = [0];
    ring.file.read_at(at, &mut byte).unwrap();
    ring.file.write_at(at, &[byte[0] ^ 1]).unwrap();
    let line = format!("journal: record {number} is missing or damaged");
    assert_eq!(check_report(&mut store), [line]);
    store.ring.as_ref().unwrap().file.write_at(at, &byte).unwrap();
    assert_eq!(check_report(&mut store), Vec::<String>::new());
}

/// A copy of the journal that was written further: the same chain up to the copy, then another.
#[test]
fn a_chain_that_ends_elsewhere_is_reported() {
    let (home, mut store) = made();
    let copy = home.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["base.redb", "journal"] {
        fs::copy(home.path().join("q").join(name), copy.join(name)).unwrap();
    }
    write(&mut store, [(ready(3), add(b"back"))]);
    drop(open(&copy));
    let other = fs::read(copy.join("journal")).unwrap();
    store.ring.as_ref().unwrap().file.write_at(0, &other).unwrap();
    let lines = check_report(&mut store);
    assert!(
        lines.contains(&"journal: its last record is not at the expected place".into()),
        "{lines:?}"
    );
}

#[test]
fn a_total_that_differs_from_the_last_record_is_reported() {
    let (_home, mut store) = made();
    store.meta.durable_bytes += 1;
    let lines = check_report(&mut store);
    assert_eq!(lines, ["journal: its last record states 21 payload bytes, expected 22"]);
}

#[test]
fn a_changed_page_of_redb_is_reported() {
    let (home, mut store) = made();
    let base = home.path().join("q").join("base.redb");
    let mut bytes = fs::read(&base).unwrap();
    let at = bytes.windows(NEEDLE.len()).position(|part| part == NEEDLE).unwrap();
    bytes[at] ^= 1;
    fs::write(&base, bytes).unwrap();
    let lines = check_report(&mut store);
    assert!(lines.iter().any(|line| line.contains("redb's own check")), "{lines:?}");
}

/// Regression: a reader or a writer of the base prevented its verification.
#[test]
fn a_base_in_use_is_verified() {
    let (home, mut store) = made();
    let reader = store.opening().unwrap().begin_read().unwrap();
    let writer = BaseTransaction::begin(store.opening().unwrap()).unwrap();
    assert_eq!(check_report(&mut store), Vec::<String>::new());
    let base = home.path().join("q").join("base.redb");
    let mut bytes = fs::read(&base).unwrap();
    let at = bytes.windows(NEEDLE.len()).position(|part| part == NEEDLE).unwrap();
    bytes[at] ^= 1;
    fs::write(&base, bytes).unwrap();
    let lines = check_report(&mut store);
    assert!(lines.iter().any(|line| line.contains("redb's own check")), "{lines:?}");
    drop((reader, writer));
}
