//! What a repair keeps of tasks of which several rows are damaged, or one that stands in the trash:
//! where they are, and their own row.

use super::edited::Played;
use super::mended::{mend, recounted};
use super::{NOTHING, Rows};
use crate::api::queue::Queue;
use crate::format::{Tag, key};
use crate::words::options::TubeOptions;
use std::collections::BTreeSet;

fn still() -> Queue {
    Queue::builder().by_hand(true).in_memory().unwrap()
}

/// The rows with the one of each of these tags in the tube damaged.
fn damaged(queue: &Queue, tags: &[Tag]) -> Rows {
    let mut rows = Played::over(queue).rows;
    for tag in tags {
        let at = rows.in_tube("first", *tag);
        rows.rows.insert(at, None);
    }
    rows
}

/// Regression: its own row was mended first, as if it had no row of its state: the task came back
/// to the board, where a kick makes it ready.
#[test]
fn a_task_in_the_trash_whose_row_is_damaged_stays_there() {
    let queue = still();
    let tube = queue.tube("first").unwrap();
    tube.put(b"next").unwrap();
    let id = tube.put(b"x").unwrap();
    // By its id, so that its own row leaves the fresh ones.
    tube.trash(id, "no").unwrap();
    let mut rows = damaged(&queue, &[Tag::Trashed]);
    let steps = mend(&mut rows, &mut BTreeSet::new());
    assert_eq!(recounted(&mut rows), NOTHING, "{steps:?}");
    let ids = |tag| rows.keys(tag).iter().map(|at| key::id_of(at)).collect::<Vec<_>>();
    assert_eq!((ids(Tag::Trashed), ids(Tag::Buried)), (vec![Some(id)], vec![]), "{steps:?}");
}

/// Regression: an empty own row was written where the task was not put, and the sound one went.
#[test]
fn a_task_whose_state_and_position_are_damaged_keeps_its_own_row() {
    let queue = still();
    let tube = queue.tube("first").unwrap();
    tube.task(b"payload").key("k").group("g").priority(5).put().unwrap();
    tube.take().unwrap().detach();
    let mut rows = damaged(&queue, &[Tag::Taken, Tag::Position]);
    let own = rows.in_tube("first", Tag::Task);
    let raw = rows.rows[&own].clone();
    let steps = mend(&mut rows, &mut BTreeSet::new());
    assert_eq!(recounted(&mut rows), NOTHING, "{steps:?}");
    assert_eq!(rows.rows.get(&own), Some(&raw), "{steps:?}");
}

/// Regression: no op and no repair buried it, for its row of the kind could not be read.
#[test]
fn a_task_whose_own_row_and_kind_are_damaged_is_buried() {
    let queue = still();
    let tube = queue.create_tube("first", TubeOptions::default().index_kinds(true)).unwrap();
    let id = tube.task(b"x").kind("mail").put().unwrap();
    tube.take().unwrap().detach();
    let mut rows = damaged(&queue, &[Tag::Fresh, Tag::Kind]);
    let steps = mend(&mut rows, &mut BTreeSet::new());
    let buried: Vec<_> = rows.keys(Tag::Buried).iter().map(|at| key::id_of(at)).collect();
    assert_eq!(buried, [Some(id)], "{steps:?}");
}
