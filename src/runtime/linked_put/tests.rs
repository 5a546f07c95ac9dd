//! What a put in several steps leaves behind when its last one is refused.

use super::LinkedPut;
use crate::engine::linked::Earlier;
use crate::engine::new_row::{Extras, NewRow};
use crate::engine::put::PutTasks;
use crate::format::{Range, Tag, View};
use crate::runtime::staged_put::StagedPut;
use crate::words::dependency::{After, On};
use crate::{
    Conflict, ErrorKind, Orphaned, PutOutcome, Queue, Retention, TaskId, Tube, TubeOptions,
};

/// A put of one task after these, which is made in several steps.
fn with_put<R>(
    tube: &Tube,
    after: &After,
    row: NewRow<'_>,
    then: impl FnOnce(&PutTasks<'_>, &[(TaskId, On)]) -> R,
) -> R {
    let tasks = after.each_once();
    let ids: Vec<_> = tasks.iter().map(|(id, _)| *id).collect();
    let mut extras = Extras::default();
    extras.after = Some(after.clone());
    let earlier = Earlier { found: tube.inner.core.find_all(&ids).unwrap(), linked: None };
    let put = PutTasks {
        tube: tube.number,
        tasks: &[NewRow { payload: b"c", extras: Some(&extras), ..row }],
        is_batch: false,
        staged: &[],
        payload_bytes_max: usize::MAX,
        durable_bytes_max: u64::MAX,
        others_wait: false,
        earlier: Some(&earlier),
    };
    then(&put, &tasks)
}

/// A put that may wait for room holds no edges while it waits.
#[test]
fn a_put_of_many_edges_that_finds_no_room_lets_the_earlier_tasks_go() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().capacity(301)).unwrap();
    let parents = tube.put_many(vec![&b"p"[..]; 300]).unwrap();
    let core = &tube.inner.core;
    let count = |tag| core.state.lock().store.count(Range::of(tag));
    with_put(&tube, &After::from(&parents), NewRow::PLAIN, |put, tasks| {
        let (mut staged, mut links) = (StagedPut::new(core), LinkedPut::new(core));
        for _ in 0..2 {
            links.write_some(put, tasks).unwrap();
        }
        assert_eq!(count(Tag::Dependency), 300);
        // Another one takes the room between two steps.
        let other = tube.put(b"other").unwrap();
        let refused = links.apply(put, |put| core.apply(put));
        for refused in [refused, staged.apply(put)] {
            assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Full));
            assert_eq!((count(Tag::Dependency), count(Tag::Work)), (0, 0));
        }
        tube.delete(parents[0]).unwrap();
        tube.delete(other).unwrap();
        let (done, _) = staged.apply(put).unwrap();
        assert_eq!(tube.peek(done[0].id).unwrap().dependencies.count, 299);
    });
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// Regression: between two steps of a put an earlier task ended so that the new one is cancelled:
/// the put learns it at its end, and until then a check reported that no work said so.
#[test]
fn a_check_beside_a_put_of_many_edges_that_is_cancelled_reports_nothing() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let parents = tube.put_many(vec![&b"p"[..]; 600]).unwrap();
    let mut after = After::from(&parents);
    after.orphaned = Some(Orphaned::Cancel);
    with_put(&tube, &after, NewRow::PLAIN, |put, tasks| {
        let mut links = LinkedPut::new(&tube.inner.core);
        links.write_some(put, tasks).unwrap();
        tube.force_delete(parents[0]).unwrap();
        queue.tick().unwrap();
        assert_eq!(queue.check().unwrap(), [""; 0]);
        assert_eq!(queue.repair().unwrap().steps, [""; 0]);
    });
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// Another call puts or ends the task of the key between two steps.
#[test]
fn a_put_of_many_edges_whose_key_is_given_meanwhile() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let kept = TubeOptions::default().keep_finished(Retention::new());
    let tube = queue.create_tube("t", kept).unwrap();
    let parents = tube.put_many(vec![&b"p"[..]; 300]).unwrap();
    let core = &tube.inner.core;
    let after = After::from(&parents);
    let count = |tag| core.state.lock().store.count(Range::of(tag));
    let kinds = [
        (Conflict::Keep, false, Ok(PutOutcome::Existing)),
        (Conflict::Reject, false, Err(ErrorKind::KeyExists)),
        (Conflict::Replace, false, Err(ErrorKind::Invalid)),
        // One that has ended is put again too.
        (Conflict::Replace, true, Err(ErrorKind::Invalid)),
    ];
    for (conflict, ends, expected) in kinds {
        let row = NewRow { key: Some("k"), conflict, ..NewRow::PLAIN };
        let (done, other) = with_put(&tube, &after, row, |put, tasks| {
            let mut links = LinkedPut::new(core);
            while links.linked.is_none_or(|linked| linked.done < tasks.len()) {
                assert!(links.write_some(put, tasks).unwrap());
            }
            assert_eq!(count(Tag::Dependency), 300);
            let other = tube.task(b"other").key("k").put().unwrap();
            if ends {
                assert!(tube.complete_by_id(other).unwrap());
            }
            (links.apply(put, |put| core.apply(put)), other)
        });
        let done = done.map(|(done, _)| done[0].outcome).map_err(|error| error.kind());
        assert_eq!((done, count(Tag::Dependency), count(Tag::Work)), (expected, 0, 0));
        tube.delete(other).unwrap();
    }
    assert_eq!(queue.check().unwrap(), [""; 0]);
}
