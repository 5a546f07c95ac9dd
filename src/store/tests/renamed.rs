//! The folder of an open queue is renamed, and another queue is made at its path. Regression: after
//! a full disk and after each failed read or write the base was opened again by its path. Without a
//! queue there the store stopped. With one, it went on over the base of the other queue.

use super::*;
use crate::store::Folder;

fn at(path: &std::path::Path) -> Store {
    let clocks = Clocks { clock: &ManualClock::new(), gap_max: u64::MAX };
    let disk = Arc::new(Folder::at(path));
    Store::open(disk, config(), &clocks, &mut |_| ControlFlow::Continue(())).unwrap().store
}

#[test]
fn a_base_is_opened_again_where_it_is() {
    let home = tempfile::tempdir().unwrap();
    let [path, moved] = ["q", "moved"].map(|name| home.path().join(name));
    let mut store = at(&path);
    write(&mut store, vec![add(1, b"own"), add(2, b"own")]).unwrap();
    store.checkpoint().unwrap();
    std::fs::rename(&path, &moved).unwrap();
    store.reopen().unwrap();
    assert_eq!(numbers(&store), [1, 2]);

    let mut other = at(&path);
    write(&mut other, vec![add(7, b"of the other")]).unwrap();
    other.close().unwrap();
    let before = std::fs::read(path.join("base.redb")).unwrap();
    store.reopen().unwrap();
    write(&mut store, vec![add(3, b"own")]).unwrap();
    store.checkpoint().unwrap();
    assert!(std::fs::read(path.join("base.redb")).unwrap() == before);
    store.close().unwrap();
    drop(store);
    assert_eq!((numbers(&at(&moved)), numbers(&at(&path))), (vec![1, 2, 3], vec![7]));
}
