//! The base never needs redb's repair, which reads the whole file and takes minutes for a large
//! one.

use crate::transact::{DONE, note};
use crate::{close_sound, drain, home, open};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use tubewell::Result;

/// Whether redb, opening a copy of the base, would have to scan all of it.
fn needs_repair(path: &Path) -> bool {
    let copy = tempfile::NamedTempFile::new().unwrap();
    let len = fs::copy(path.join("base.redb"), copy.path()).unwrap();
    copy.as_file().set_len(crate::format::part(len).unwrap()).unwrap();
    let opened = redb::Builder::new()
        .set_repair_callback(redb::RepairSession::abort)
        .create_file(copy.into_file());
    match opened {
        Ok(_) => false,
        Err(redb::DatabaseError::RepairAborted) => true,
        Err(error) => panic!("{error}"),
    }
}

/// redb keeps the pages of a transaction that a panic drops until a repair.
#[test]
fn no_repair_after_a_panic_a_close_or_a_kill() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    for text in ["a", "b", "c"] {
        tube.put(text.as_bytes()).unwrap();
    }
    note(&queue, "before", 1).unwrap();
    let task = tube.take().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        queue.transact(|tx| -> Result<()> {
            tx.table(DONE)?.insert("a", 1)?;
            tx.ack(&task)?;
            assert!(!needs_repair(&path), "killed in the middle of it");
            std::panic::resume_unwind(Box::new("a panic of the closure"));
        })
    }));
    let trouble = panicked.unwrap_err();
    assert_eq!(trouble.downcast_ref(), Some(&"a panic of the closure"));
    assert!(!needs_repair(&path), "killed after the panic");
    tube.put(b"d").unwrap();
    queue.checkpoint().unwrap();
    assert!(!needs_repair(&path), "killed after the next checkpoint");
    task.ack().unwrap();
    drop(tube);
    close_sound(queue);
    assert!(!needs_repair(&path), "closed");
    let queue = open(&path);
    assert!(!needs_repair(&path), "killed after the opening");
    assert_eq!(drain(&queue.tube("t").unwrap()), "b c d");
}

/// Checks the test above: a plain commit, and a transaction that a panic drops, would be found.
/// Only where a file that redb has locked can be copied.
#[test]
#[cfg(unix)]
fn a_repair_is_seen_where_redb_needs_one() {
    let (_home, path) = home();
    fs::create_dir(&path).unwrap();
    let db = redb::Database::create(path.join("base.redb")).unwrap();
    let commit = |quick| {
        let mut txn = db.begin_write().unwrap();
        txn.set_quick_repair(quick);
        txn.open_table(DONE).unwrap().insert("a", 1).unwrap();
        txn.commit().unwrap();
        needs_repair(&path)
    };
    assert_eq!((commit(true), commit(false), commit(true)), (false, true, false));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let txn = db.begin_write().unwrap();
        txn.open_table(DONE).unwrap().insert("b", 2).unwrap();
        std::panic::resume_unwind(Box::new("a panic of the closure"));
    }));
    assert!(panicked.is_err());
    assert!(commit(true), "after a panic");
    drop(db);
    assert!(needs_repair(&path), "the close does not repair it");
}
