//! Which rows of tags an op reads and writes, and what becomes of damaged ones.

use super::edited::{NOW, Played};
use super::mended::NoTubes;
use super::{NOTHING, Rows};
use crate::api::queue::Queue;
use crate::api::tube::Tube;
use crate::engine::by_id::DeleteMany;
use crate::engine::context::{Op, OpContext, Repaired, Reserve};
use crate::engine::decision::Decision;
use crate::engine::dependents::Together;
use crate::engine::due::WorkOff;
use crate::engine::log::Logged;
use crate::engine::move_failed::MoveFailed;
use crate::engine::moves::{Move, Which};
use crate::engine::new_row::NewRow;
use crate::engine::restore::EmptyTrash;
use crate::engine::tag_counts;
use crate::engine::tag_task::TagTask;
use crate::engine::update::Changes;
use crate::format::key::{self, Key, Run};
use crate::format::{Tag, Value, View, row};
use crate::words::clock::{ManualClock, NEVER};
use crate::words::error::ErrorKind;
use crate::words::limits::{SWEEP_ROWS, SWEEP_TASKS};
use crate::words::numbers::Numbers;
use crate::words::options::TubeOptions;
use crate::words::task::TaskId;
use std::time::Duration;

/// A queue with the tubes "first" and "to", and that many tags.
fn queue_and_tags(tags: usize) -> (Queue, [Tube; 2], Vec<String>) {
    let queue = Queue::builder().by_hand(true).clock(ManualClock::new()).in_memory().unwrap();
    let tubes = ["first", "to"].map(|name| queue.tube(name).unwrap());
    (queue, tubes, (0..tags).map(|number| number.to_string()).collect())
}

/// What an op answers, and the tags of the rows that it writes.
fn written<O: Op>(rows: &Rows, op: &O) -> (O::Done, Vec<Tag>) {
    let (repaired, mut decision) = (Repaired::new(), Decision::default());
    let (next, end) = (Numbers::both(1_000), Numbers::both(u64::MAX));
    let (mut numbers, wants, now) = (Reserve { next, end }, None, NOW);
    let (view, known, decision_of) = (rows, &NoTubes, &mut decision);
    let (numbers, repaired) = (&mut numbers, &repaired);
    let mut ctx = OpContext { view, known, numbers, decision: decision_of, wants, repaired, now };
    let (done, mut tags) = (op.decide(&mut ctx).unwrap(), Vec::new());
    decision.rows.layer.drain_into(|(key, _)| tags.extend(Tag::of(key[0])));
    (done, tags)
}

fn of(tags: &[Tag], tag: Tag) -> usize {
    tags.iter().filter(|other| **other == tag).count()
}

/// A move wrote all rows of the tags twice, with their counts.
#[test]
fn a_move_writes_one_row_for_each_tag_and_an_unchanged_tag_none() {
    let (queue, [first, to], names) = queue_and_tags(10);
    let tags = || names.iter().map(String::as_str);
    let id = first.task(b"x").tags(tags()).put().unwrap();
    first.task(b"x").tags(tags()).put().unwrap();
    let (from, to) = (first.number, to.number);
    let (which, changes) = (Which::ById(id, &NewRow::PLAIN), Changes::default());
    let (others_wait, puts_wait, after) = (false, false, None);
    let step = Move { from, to, which, changes, others_wait, puts_wait, after };
    let (_, rows) = written(&Rows::of(&queue), &step);
    let counts =
        [Tag::Tagged, Tag::TaskTags, Tag::TaggedCount, Tag::TopTagged].map(|tag| of(&rows, tag));
    assert_eq!(counts, [10, 0, 0, 0]);
    let step = Move { to: from, ..step };
    let (_, rows) = written(&Rows::of(&queue), &step);
    assert_eq!(of(&rows, Tag::Tagged) + of(&rows, Tag::TaskTags), 0, "in its tube");
    // One more tag is one more row of each kind.
    let (tube, which, tags) = (from, Logged::ById(id), &["new", "1"][..]);
    let (after, rows) = written(&Rows::of(&queue), &TagTask { tube, which, tags, is_added: true });
    assert_eq!((after.len(), of(&rows, Tag::Tagged), of(&rows, Tag::TaggedCount)), (11, 1, 1));
}

/// Tasks with many tags took 64 times as long as others, in one step.
#[test]
fn a_step_takes_up_fewer_tasks_with_many_tags() {
    let options = TubeOptions::default();
    let (clock, names) = (ManualClock::new(), queue_and_tags(64).2);
    let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory().unwrap();
    let tubes = ["first", "trash", "failed", "to"]
        .map(|name| queue.create_tube(name, options.clone()).unwrap());
    let [first, trash, failed, to] = &tubes;
    let mut ids = Vec::new();
    for _ in 0..SWEEP_TASKS {
        let tags = || names.iter().map(String::as_str);
        first.task(b"x").tags(tags()).ttl(Duration::from_micros(1)).put().unwrap();
        let id = trash.task(b"x").tags(tags()).put().unwrap();
        trash.trash(id, "no").unwrap();
        let id = failed.task(b"x").tags(tags()).put().unwrap();
        failed.fail_by_id(id, "g", "no").unwrap();
        ids.push((failed.number, id));
    }
    let rows = Rows { counts: Some(Rows::of(&queue).counted()), ..Rows::of(&queue) };
    // Each goes on with what it has begun.
    let fits = |rows: &[Tag]| rows.len() > SWEEP_ROWS / 2 && rows.len() < 2 * SWEEP_ROWS;
    let empty = EmptyTrash { tube: trash.number, until: NEVER, from: None };
    let ((removed, next), written_by) = written(&rows, &empty);
    assert!(removed < SWEEP_TASKS as u64 && next.is_some() && fits(&written_by), "{removed}");
    let (to, group, others_wait) = (to.number, "g", false);
    let moves = MoveFailed { to, group, tasks: &ids, others_wait };
    let (done, written_by) = written(&rows, &moves);
    assert!(done.looked < SWEEP_TASKS && fits(&written_by), "{}", done.looked);
    clock.advance(Duration::from_secs(1));
    let work = WorkOff { may_draw: false, ..WorkOff::of_dropped(first.number) };
    let mut steps = 0;
    while first.inner.core.run(&work, crate::Durability::Relaxed).unwrap() {
        steps += 1;
    }
    assert!(steps > 2, "{steps}");
    assert_eq!(queue.tag_count("0").unwrap(), 2 * SWEEP_TASKS as u64);
}

/// The count of a tag that cannot be read was counted again under the lock, by every op.
#[test]
fn no_op_counts_the_tasks_of_a_tag_and_a_repair_does() {
    let reads = |tasks: usize| {
        let (queue, [first, _], _) = queue_and_tags(0);
        for _ in 0..tasks {
            first.task(b"x").tag("red").put().unwrap();
        }
        let id = first.put(b"x").unwrap();
        let mut rows = Rows::of(&queue);
        rows.rows.insert(key::tag_count(Run(1), "red"), None);
        rows.counts = Some(rows.counted());
        rows.reads.set(0);
        let (tube, which, tags) = (first.number, Logged::ById(id), &["red"][..]);
        let (after, of_rows) = written(&rows, &TagTask { tube, which, tags, is_added: true });
        assert_eq!((after.len(), of(&of_rows, Tag::Tagged)), (1, 1));
        assert_eq!(of(&of_rows, Tag::TaggedCount) + of(&of_rows, Tag::TopTagged), 0, "it stays");
        let error = tag_counts::tasks(&rows, "red").unwrap_err();
        assert!(error.kind() == ErrorKind::Damaged && error.to_string().contains("call repair"));
        rows.reads.get()
    };
    assert_eq!(reads(10), reads(1000));
}

/// Three tasks, of which one has lost the row of its tags, or has a damaged one.
fn lost(lose: impl Fn(&mut Rows, Key)) -> (Played, TaskId) {
    let (queue, [first, _], _) = queue_and_tags(0);
    let id = first.task(b"x").tags(["b", "a"]).put().unwrap();
    for _ in 0..2 {
        first.task(b"x").tags(["a", "c"]).put().unwrap();
    }
    let mut played = Played::over(&queue);
    lose(&mut played.rows, key::task_tags(Run(1), id));
    (played, id)
}

const LOSSES: [fn(&mut Rows, Key); 3] = [
    |rows, key| drop(rows.rows.remove(&key)),
    |rows, key| drop(rows.rows.insert(key, None)),
    |rows, key| rows.set(key, Value::from([9])),
];

/// Rows that led to it stayed behind, and its tags were counted without end.
#[test]
fn a_task_that_has_lost_the_row_of_its_tags_keeps_them_and_ends_with_them() {
    for lose in LOSSES {
        let (played, id) = lost(lose);
        let mut ended = played.again();
        let ids = &[id];
        let all = Together::in_its_tube(ids);
        ended.run(&DeleteMany { tube: 1, ids, all, is_check: false }).unwrap();
        assert_eq!(ended.rows.faults(), NOTHING);
        let mut tagged = played.again();
        let op = TagTask { tube: 1, which: Logged::ById(id), tags: &["d"], is_added: true };
        assert_eq!(tagged.run(&op).unwrap(), ["a", "b", "d"]);
        assert_eq!(tagged.rows.faults(), NOTHING);
    }
}

/// Also where so many rows lead to tasks that no op looks at all.
#[test]
fn a_repair_writes_the_tags_of_a_task_again() {
    for (lose, others) in LOSSES.into_iter().flat_map(|lose| [(lose, 0), (lose, 5000)]) {
        let (mut played, id) = lost(lose);
        for number in 0..others {
            let key = key::tagged_task(Run(Run::TEMPORARY), "t", number, TaskId::new(7));
            played.rows.set(key, row::number(1));
            let key = key::tagged_task(Run(1), "z", number, TaskId::new(number + 10_000));
            played.rows.set(key, row::number(1));
        }
        let steps = super::mended::mend(&mut played.rows, &mut Default::default());
        let at = key::task_tags(Run(1), id);
        let row = played.rows.get(&at).unwrap().expect("a row of its tags");
        let row = row::TagsRow::decode(&row).unwrap();
        let tags: Vec<_> = row.tags.iter().map(|(tag, _)| *tag).collect();
        assert_eq!(tags, ["a", "b"], "{steps:?}");
        assert_eq!(played.rows.faults(), NOTHING);
    }
}
