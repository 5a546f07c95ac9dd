//! Repairs of rows of tags and of tracked ids, of a queue that is served.

use super::{core_of, look, own_key, plant, repair};
use crate::api::queue::Queue;
use crate::api::tube::Tube;
use crate::engine::mend::Mend;
use crate::format::Value;
use crate::format::key::{self, Run};
use crate::format::row;
use crate::runtime::shared::Shared;
use crate::words::durability::Durability;
use crate::words::error::ErrorKind;
use crate::words::sync::Arc;
use crate::words::task::{Cause, TaskId};

/// A queue with three tasks that have the tag "red".
fn tagged() -> (Queue, Arc<Shared>, Tube, Vec<TaskId>) {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let (core, tube) = (core_of(&queue), queue.tube("first").unwrap());
    let ids = (0..3).map(|_| tube.task(b"x").tag("red").put().unwrap()).collect();
    (queue, core, tube, ids)
}

/// A place that was right when the audit looked was written again after a put had moved it, and a
/// count that was corrected left its tag at the old place.
#[test]
fn a_tag_that_moves_while_its_count_is_mended_stands_at_one_place() {
    let number = |tasks| Some(row::number(tasks));
    let run = Run(1);
    let faults = [
        vec![(key::top_tag(run, 3, "red"), None)],
        vec![(key::top_tag(run, 9, "red"), Some(Value::EMPTY))],
        vec![(key::tag_count(run, "red"), number(9))],
        vec![(key::tag_count(run, "red"), None)],
        vec![(key::tag_count(run, "red"), Some(Value::from([7])))],
        vec![
            (key::tag_count(run, "red"), number(2)),
            (key::top_tag(run, 3, "red"), None),
            (key::top_tag(run, 2, "red"), Some(Value::EMPTY)),
        ],
    ];
    let last = faults.len() - 1;
    for (at, fault) in faults.into_iter().enumerate() {
        let (queue, core, tube, _) = tagged();
        plant(&core, fault.clone());
        let (_, plan) = look(&core).unwrap();
        tube.task(b"x").tag("red").put().unwrap();
        let mut steps = Vec::new();
        let done = plan.each_op(true, |findings| {
            steps.extend(core.run(&Mend { findings }, Durability::Durable)?);
            Ok(false)
        });
        done.unwrap();
        let left = queue.check().unwrap();
        // What else was wrong is found by the next look.
        let is_left = at != 0 && at != last;
        assert!(left.is_empty() || is_left, "{fault:02x?}: {steps:?}: {left:?}");
        repair(&core).unwrap();
        assert_eq!(queue.check().unwrap(), [""; 0]);
        assert_eq!(queue.tag_count("red").unwrap(), 4);
        let top: Vec<_> = queue.top_tags().map(|top| top.unwrap().tasks).collect();
        assert_eq!(top, [4], "{fault:02x?}");
    }
}

#[test]
fn a_damaged_count_is_an_error_of_its_tag_alone() {
    let (queue, core, tube, ids) = tagged();
    for _ in 0..2 {
        tube.task(b"x").tag("blue").put().unwrap();
    }
    plant(&core, vec![(key::tag_count(Run(1), "red"), Some(Value::from([7])))]);
    let error = queue.tag_count("red").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("call repair"), "{error}");
    tube.delete(ids[0]).unwrap();
    tube.tag(ids[1], ["blue"]).unwrap();
    let top = || -> Vec<_> { queue.top_tags().map(|it| it.unwrap()).map(|it| it.tag).collect() };
    assert_eq!((queue.tagged("red").count(), top()), (2, vec!["blue".to_owned()]));
    assert!(!repair(&core).unwrap().steps.is_empty());
    assert_eq!((queue.tag_count("red").unwrap(), queue.check().unwrap()), (2, vec![]));
    assert_eq!(top(), ["blue", "red"]);
}

#[test]
fn a_damaged_row_of_a_tracked_id_is_written_again() {
    let (queue, core, tube, ids) = tagged();
    queue.track(ids[0]).unwrap();
    let spoil = || plant(&core, vec![(key::tracked(ids[0]), Some(Value::from([7])))]);
    spoil();
    assert_ne!(queue.check().unwrap(), [""; 0]);
    assert!(!queue.track(ids[0]).unwrap(), "it is tracked");
    assert_eq!(queue.check().unwrap(), [""; 0]);
    spoil();
    assert!(queue.untrack(ids[0]).unwrap() && tube.delete(ids[0]).is_ok());
    assert_eq!((queue.tracked().count(), queue.check().unwrap()), (0, vec![]));
}

/// No verb could end the tracking of a task that cannot be read.
#[test]
fn a_damaged_task_is_untracked_and_the_bury_of_a_repair_is_marked() {
    for is_untracked in [true, false] {
        let (queue, core, tube, ids) = tagged();
        let id = tube.task(b"x").key("k").put().unwrap();
        queue.track(id).unwrap();
        let own = own_key(&core, "first", id);
        plant(&core, vec![(own, is_untracked.then(|| Value::from([9])))]);
        let events = queue.events();
        if is_untracked {
            assert!(queue.untrack(id).unwrap());
            assert!(events.try_recv().is_none(), "nothing is known of it");
            assert_eq!(queue.tracked().count(), 0);
        }
        assert!(!repair(&core).unwrap().steps.is_empty());
        let mut found = std::iter::from_fn(|| events.try_recv());
        let bury = found.find(|event| event.cause == Cause::Bury).unwrap();
        assert_eq!((bury.task, bury.is_tracked()), (Some(id), !is_untracked));
        assert_eq!(ids.len(), 3);
    }
}
