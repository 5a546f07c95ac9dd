//! One test a promise.

use super::disk::{Dice, Plan, SimDisk, Stored};
use super::*;
use crate::error::ErrorKind;
use crate::store::disk::FileName;

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
