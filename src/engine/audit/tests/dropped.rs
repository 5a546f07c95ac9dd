//! Repairs of finished tasks that were kept without their payloads: none comes back without one.

use super::edited::Played;
use super::{NOTHING, Rows};
use crate::api::queue::Queue;
use crate::engine::by_id::DeleteMany;
use crate::engine::dependents::Together;
use crate::engine::repair::Repair;
use crate::format::Tag;
use crate::format::key;
use crate::words::clock::ManualClock;
use crate::words::error::DamagedRow;
use crate::words::options::TubeOptions;
use crate::words::retention::Retention;
use crate::words::task::{State, TaskId};
use std::time::Duration;

/// One finished task, put with a group or without one.
fn finished(group: bool) -> (Played, TaskId) {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let options = TubeOptions::default().keep_finished(Retention::new()).drop_payloads(true);
    let tube = queue.create_tube("first", options).unwrap();
    let task = tube.task(&[7; 5000]).key("k");
    let id = if group { task.group("g").put() } else { task.put() }.unwrap();
    tube.take().unwrap().ack_with(b"r").unwrap();
    (Played::over(&queue), id)
}

fn of_task(rows: &Rows, tags: &[Tag], id: TaskId) -> key::Key {
    let mut keys = tags.iter().flat_map(|tag| rows.keys(*tag));
    keys.find(|key| key::id_of(key) == Some(id)).unwrap()
}

/// Its history and its reports stayed behind when it was deleted, and its age had no limit any
/// more.
#[test]
fn a_task_that_is_repaired_as_done_keeps_what_hangs_on_it_and_its_limit() {
    let clock = ManualClock::new();
    let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory().unwrap();
    let kept = Retention::new().age(Duration::from_secs(60));
    let options = TubeOptions::default().keep_finished(kept).drop_payloads(true);
    let tube = queue.create_tube("first", options).unwrap();
    let id = tube.put(b"x").unwrap();
    tube.take().unwrap().retry_after("no", Duration::ZERO).unwrap();
    let task = tube.take().unwrap();
    task.progress(50, "half").unwrap();
    task.ack().unwrap();
    let mut played = Played::over(&queue);
    let at = of_task(&played.rows, &[Tag::Done], id);
    let due = |played: &Played| played.rows.keys(Tag::Due).len();
    assert_eq!(due(&played), 1);
    played.rows.rows.insert(at.clone(), None);
    let row = DamagedRow { tube: played.tube, key: at.as_slice().into() };
    played.run(&Repair::Row(row)).unwrap();
    assert_eq!(played.state(id), State::Done);
    assert!(due(&played) > 0);
    let ids = &[id];
    let all = Together::in_its_tube(ids);
    let op = DeleteMany { tube: played.tube, ids, all, is_check: false };
    played.run(&op).unwrap();
    for tag in [Tag::History, Tag::Report] {
        assert_eq!(played.rows.keys(tag).len(), 0, "{tag:?}");
    }
}

#[test]
fn a_damaged_state_is_repaired_as_done() {
    for group in [false, true] {
        let (mut played, id) = finished(group);
        let at = of_task(&played.rows, &[Tag::Done], id);
        played.rows.rows.insert(at.clone(), None);
        assert_ne!(played.rows.faults(), NOTHING);
        let row = DamagedRow { tube: played.tube, key: at.as_slice().into() };
        played.run(&Repair::Row(row)).unwrap();
        assert_eq!(played.state(id), State::Done);
        assert_eq!(played.rows.faults(), NOTHING);
    }
}
