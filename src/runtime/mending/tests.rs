//! Tests with a queue that is served while it is repaired, and of what a kill leaves of a repair.

mod tags;
use super::{look, repair, repair_with};
use crate::api::queue::Queue;
use crate::api::tube::Tube;
use crate::engine::effects::NextDue;
use crate::engine::mend::{Mend, Planned, RepairPlan};
use crate::engine::{Op, OpContext};
use crate::format::key::{self, Key, Range, Run};
use crate::format::row;
use crate::format::{Deadline, Scan, Tag, Value, View};
use crate::runtime::shared::Shared;
use crate::store::WrongCount;
use crate::words::clock::ManualClock;
use crate::words::durability::Durability;
use crate::words::error::Result;
use crate::words::lapse::Lapse;
use crate::words::limits::{FIXES_OF_OP, SWEEP_TASKS};
use crate::words::options::TubeOptions;
use crate::words::retention::Retention;
use crate::words::schedule::Overlap;
use crate::words::sync::Arc;
use crate::words::task::{Cause, State, TaskId};
use std::time::Duration;

/// Writes rows as a fault would; `None` removes one.
struct Plant(Vec<(Key, Option<Value>)>);

impl Op for Plant {
    type Done = ();

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        for (key, value) in &self.0 {
            match value {
                Some(value) => ctx.set(key::copy(key), value.clone())?,
                None if ctx.row(key)?.is_some() => ctx.remove(key::copy(key)),
                None => {}
            }
        }
        Ok(())
    }
}

fn plant(core: &Shared, rows: Vec<(Key, Option<Value>)>) {
    core.run(&Plant(rows), Durability::Durable).unwrap();
}

fn core_of(queue: &Queue) -> Arc<Shared> {
    queue.tube("first").unwrap().inner.core.clone()
}

/// A queue with a tube `groups` that has so many tasks in one group.
fn grouped(in_flight: u32, tasks: usize) -> (Queue, Arc<Shared>, Tube) {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let core = core_of(&queue);
    let options = TubeOptions::default().in_flight(in_flight);
    let tube = queue.create_tube("groups", options).unwrap();
    for _ in 0..tasks {
        tube.task(b"x").group("g").put().unwrap();
    }
    (queue, core, tube)
}

fn range(core: &Shared, name: &str, tag: Tag) -> Range {
    let found = core.look(|view, _| {
        let number = crate::engine::query::tube_named(view, name)?.unwrap();
        Ok(crate::engine::query::tube(view, number)?.range(tag))
    });
    found.unwrap()
}

/// Each op mends at most as many findings as it should, and between two of them another tube is
/// served by this same thread: nothing is held.
#[test]
fn a_neighbour_is_served_between_the_ops() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let (core, neighbour) = (core_of(&queue), queue.tube("neighbour").unwrap());
    let tube = queue.tube("first").unwrap();
    let ids: Vec<_> = (0..10 * FIXES_OF_OP).map(|_| tube.put(b"x").unwrap()).collect();
    let run = range(&core, "first", Tag::Due).run.unwrap();
    let stray = |id: &TaskId| (key::due(run, Deadline::Ttr, 7, *id), Some(Value::EMPTY));
    plant(&core, ids.iter().map(stray).collect());
    assert_eq!(queue.check().unwrap().len(), ids.len());
    let (mut ops, mut most) = (0, 0);
    let repairs = repair_with(&core, |findings| {
        (ops, most) = (ops + 1, most.max(findings));
        let id = neighbour.put(b"y").unwrap();
        let task = neighbour.take().unwrap();
        assert_eq!(task.id(), id);
        task.ack().unwrap();
        assert_eq!(tube.take().unwrap().id(), ids[0]);
    });
    let repairs = repairs.unwrap();
    assert_eq!((ops, most), (10, FIXES_OF_OP));
    assert_eq!(repairs.steps.len(), ids.len());
    assert_eq!((repairs.left, queue.check().unwrap()), (vec![], vec![]));
    assert_eq!(tube.stats().unwrap().ready as usize, ids.len());
}

/// A damaged task may need the rows of a whole tube: it has an op of its own.
#[test]
fn damaged_tasks_are_mended_one_by_one() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let (core, tube) = (core_of(&queue), queue.tube("first").unwrap());
    let ids = [(); 5].map(|()| tube.put(b"x").unwrap());
    let spoil = |id: &TaskId| (own_key(&core, "first", *id), Some(Value::from([9])));
    plant(&core, ids.iter().map(spoil).collect());
    let (_, plan) = look(&core).unwrap();
    let mut alone = 0;
    let is_long = |findings: &[Planned]| findings.iter().any(|one| one.fix().is_of_its_own());
    plan.each_op(true, |findings| {
        assert!(findings.len() == 1 || !is_long(findings));
        alone += usize::from(is_long(findings));
        Ok(false)
    })
    .unwrap();
    assert!(alone >= ids.len());
    repair(&core).unwrap();
    assert_eq!((tube.stats().unwrap().buried, queue.check().unwrap()), (5, vec![]));
}

/// Does what a plan says. Returns the steps.
fn carry_out(core: &Shared, plan: &RepairPlan) -> Vec<String> {
    let mut steps = Vec::new();
    let run = |findings: &[Planned]| {
        let done = core.run(&Mend { findings }, Durability::Durable)?;
        steps.extend(done.iter().cloned());
        Ok(!done.is_empty())
    };
    plan.each_op(true, run).unwrap();
    steps
}

/// A tube that is made after the look may get the run of rows that were without a tube then: they
/// were cleared, and its tasks with them.
#[test]
fn a_new_tube_does_not_get_the_run_of_stray_rows() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let core = core_of(&queue);
    queue.tube("first").unwrap().put(b"x").unwrap();
    let run = range(&core, "first", Tag::Fresh).run.unwrap();
    plant(&core, vec![(key::group(Run(run.0 + 1), "g"), Some(row::number(1)))]);
    let (_, plan) = look(&core).unwrap();
    let tube = queue.tube("new").unwrap();
    for _ in 0..3 {
        tube.put(b"x").unwrap();
    }
    carry_out(&core, &plan);
    queue.tick().unwrap();
    assert_eq!(tube.stats().unwrap().ready, 3);
    repair(&core).unwrap();
    assert_eq!((tube.stats().unwrap().ready, queue.check().unwrap()), (3, vec![]));
}

/// A count of the tasks in flight that was right was lowered twice: by the bury of a task that
/// cannot be read, and because that one had not been counted.
#[test]
fn a_count_is_mended_after_its_tasks() {
    let (queue, core, tube) = grouped(2, 9);
    let (one, two) = (tube.take().unwrap(), tube.take().unwrap());
    let run = range(&core, "groups", Tag::Group).run.unwrap();
    plant(&core, vec![(key::taken(run, two.id()), Some(Value::from([9])))]);
    two.detach();
    let mut taken = vec![one];
    let repairs = repair_with(&core, |_| taken.extend(tube.try_take().unwrap())).unwrap();
    taken.extend(tube.try_take().unwrap());
    assert_eq!(taken.len(), 2, "{repairs:?}");
    assert_eq!((repairs.left, queue.check().unwrap()), (vec![], vec![]));
}

/// The tube in which a lost task is brought back is made by an op of its own: the event of the task
/// has its name.
#[test]
fn the_event_of_a_task_that_comes_back_has_its_tube() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let (core, tube) = (core_of(&queue), queue.tube("first").unwrap());
    let id = tube.put(&[7; 9000]).unwrap();
    let own = own_key(&core, "first", id);
    let events = queue.events();
    plant(&core, vec![(own, None)]);
    let repairs = repair(&core).unwrap();
    assert!(!repairs.steps.iter().any(|step| step.contains("payload bytes")), "{repairs:?}");
    let found = std::iter::from_fn(|| events.try_recv()).find(|event| event.task == Some(id));
    let found = found.unwrap();
    assert_eq!((&*found.tube, found.cause), ("recovered", Cause::Bury));
}

/// The rows of temporary tubes are not looked at: nothing of them is found, and nothing else is
/// found because they are not there.
#[test]
fn temporary_tubes_are_left_as_they_are() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let core = core_of(&queue);
    let options = TubeOptions::default().temporary(true).in_flight(2);
    let tube = queue.create_tube("temporary", options).unwrap();
    for _ in 0..3 {
        tube.task(&[7; 9000]).group("g").key("k").kind("k").put().unwrap();
        tube.put(b"x").unwrap();
    }
    let held = tube.take().unwrap();
    tube.take().unwrap().bury("no").unwrap();
    held.progress(50, "half").unwrap();
    let (wrong, plan) = look(&core).unwrap();
    assert_eq!((wrong, plan.lines), (vec![], vec![]));
    assert!(repair(&core).unwrap().is_empty());
    let snapshot = core.running().unwrap().store.whole_snapshot().unwrap();
    assert!(snapshot.first(&[0], &[u8::MAX; 8]).is_ok());
    for tag in Tag::TASKS {
        let range = Range::of(tag);
        assert!(snapshot.first(&range.start(), &range.end()).unwrap().is_none(), "{tag:?}");
    }
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// An op leaves what it is given beyond its number.
#[test]
fn an_op_mends_no_more_than_its_number() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let core = core_of(&queue);
    let tube = queue.tube("first").unwrap();
    let ids: Vec<_> = (0..FIXES_OF_OP + 9).map(|_| tube.put(b"x").unwrap()).collect();
    let run = range(&core, "first", Tag::Due).run.unwrap();
    let stray = |id: &TaskId| (key::due(run, Deadline::Ttr, 7, *id), Some(Value::EMPTY));
    plant(&core, ids.iter().map(stray).collect());
    let (_, plan) = look(&core).unwrap();
    let findings = plan.all();
    assert_eq!(findings.len(), ids.len());
    let steps = core.run(&Mend { findings: &findings }, Durability::Durable).unwrap();
    assert_eq!((steps.len(), queue.check().unwrap().len()), (FIXES_OF_OP, 9));
}

/// Between the look at all rows and the op, counts have changed and a task has moved: the
/// difference is added, and what does not stand any more is left.
#[test]
fn ops_go_on_between_the_look_and_the_mending() {
    let (queue, core, tube) = grouped(9, 4);
    let held = tube.take().unwrap();
    let run = range(&core, "groups", Tag::Group).run.unwrap();
    let keyed = tube.task(b"x").key("k").priority(9).put().unwrap();
    plant(
        &core,
        vec![
            (key::group(run, "g"), Some(row::number(4))),
            (key::key(run, "k", true, keyed), None),
            (key::due(run, Deadline::Ttr, 7, keyed), Some(Value::EMPTY)),
        ],
    );
    let (wrong, plan) = look(&core).unwrap();
    assert_eq!(wrong, []);
    let second = tube.take().unwrap();
    held.ack().unwrap();
    let third = tube.take().unwrap();
    // The task of the key is not as it was found.
    plant(&core, vec![(key::key(run, "k", true, keyed), Some(Value::EMPTY))]);
    tube.claim(keyed).unwrap().detach();
    let steps = carry_out(&core, &plan);
    assert_eq!(steps.len(), 1, "{steps:?}");
    let group = core.look(|view, _| view.get(&key::group(run, "g"))).unwrap();
    assert_eq!(group.as_deref().and_then(row::read_number), Some(2));
    let repairs = repair(&core).unwrap();
    assert_eq!((repairs.steps.len(), repairs.left.len()), (1, 0), "{repairs:?}");
    assert_eq!(queue.check().unwrap(), [""; 0]);
    drop((second, third));
}

/// Removes the rows of the tube `first`, as a fault would. Returns its run, and the name that its
/// tasks get.
fn lose_tube(core: &Shared) -> (Run, String) {
    let run = range(core, "first", Tag::Fresh).run.unwrap();
    let number = core.look(|view, _| crate::engine::query::tube_named(view, "first"));
    let number = number.unwrap().unwrap();
    plant(core, vec![(key::tube(number), None), (key::name("first"), None)]);
    (run, format!("recovered-{}", run.0))
}

/// A tube that is made for tasks is served at once: what has left the fresh tasks is not taken,
/// although its own row stands among them.
#[test]
fn an_adopted_tube_gives_only_ready_tasks_from_the_first_commit_on() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let (core, tube) = (core_of(&queue), queue.tube("first").unwrap());
    let ids = [(); 3].map(|()| tube.put(b"x").unwrap());
    tube.take().unwrap().bury("no").unwrap();
    let (_, name) = lose_tube(&core);
    let mut taken = None;
    repair_with(&core, |_| {
        let found = core.look(|view, _| crate::engine::query::tube_named(view, &name)).unwrap();
        if found.is_some() && taken.is_none() {
            let task = queue.tube(&name).unwrap().take().unwrap();
            taken = Some(task.id());
            task.ack().unwrap();
        }
    })
    .unwrap();
    assert_eq!(taken, Some(ids[1]));
    let stats = queue.tube(&name).unwrap().stats().unwrap();
    assert_eq!((stats.ready, stats.buried), (1, 1));
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// Which leases were void is lost with the row of a tube: none stays, and none is charged.
#[test]
fn the_leases_of_an_adopted_tube_are_returned() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let (core, tube) = (core_of(&queue), queue.tube("first").unwrap());
    let id = tube.put(b"x").unwrap();
    tube.take().unwrap().detach();
    let (_, name) = lose_tube(&core);
    let repairs = repair(&core).unwrap();
    assert_eq!((repairs.left, queue.check().unwrap()), (vec![], vec![]));
    let tube = queue.tube(&name).unwrap();
    assert_eq!(tube.stats().unwrap().taken, 0);
    let task = tube.take().unwrap();
    assert_eq!((task.id(), task.attempt()), (id, 1));
    task.ack().unwrap();
}

/// A tube with a priority of its own: its plain tasks get no position rows.
#[test]
fn an_adopted_tube_has_the_priority_of_its_plain_tasks() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let core = core_of(&queue);
    queue.force_drop_tube("first").unwrap();
    queue.tick().unwrap();
    let tube = queue.create_tube("first", TubeOptions::default().priority(5)).unwrap();
    let ids = [(); 3].map(|()| tube.put(b"x").unwrap());
    let (_, name) = lose_tube(&core);
    let repairs = repair(&core).unwrap();
    assert!(repairs.left.is_empty(), "{repairs:?}");
    assert!(!repairs.steps.iter().any(|step| step.contains("osition")), "{repairs:?}");
    assert_eq!(queue.check().unwrap(), [""; 0]);
    assert_eq!(queue.tube(&name).unwrap().take().unwrap().id(), ids[0]);
}

/// Regression: a tube that was brought back has no option to keep finished tasks, and its due work
/// removed them all.
#[test]
fn an_adopted_tube_keeps_what_is_finished() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let core = core_of(&queue);
    queue.force_drop_tube("first").unwrap();
    queue.tick().unwrap();
    let options = TubeOptions::default().keep_finished(Retention::new().count(9));
    let tube = queue.create_tube("first", options).unwrap();
    tube.put_many([*b"x"; 3]).unwrap();
    tube.take().unwrap().ack_with(b"result").unwrap();
    let (_, name) = lose_tube(&core);
    assert!(repair(&core).unwrap().left.is_empty());
    queue.tick().unwrap();
    let stats = queue.tube(&name).unwrap().stats().unwrap();
    assert_eq!((stats.finished, stats.ready), (1, 2));
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// Regression: where as many damaged tasks as one sweep looks at stood first, the tube was due
/// without an end; and sound ones went in their place.
#[test]
fn damaged_tasks_that_are_kept_no_longer_make_no_endless_work() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let core = core_of(&queue);
    let all = Retention::new();
    let options = TubeOptions::default().keep_finished(all).keep_buried(all);
    let tube = queue.create_tube("kept", options).unwrap();
    let end = |tasks: usize| {
        let ids = tube.put_many(vec![*b"x"; 2 * tasks]).unwrap();
        tube.take_many(tasks).unwrap().into_iter().for_each(|task| task.ack().unwrap());
        ids.iter().skip(tasks).for_each(|id| tube.bury(*id, "no").unwrap());
        let spoil = |id: &TaskId| (own_key(&core, "kept", *id), Some(Value::from([9])));
        ids.iter().map(spoil).collect::<Vec<_>>()
    };
    let damaged = end(2 * SWEEP_TASKS);
    plant(&core, damaged);
    end(2);
    for name in ["keep_finished", "keep_buried"] {
        tube.set(name, Retention::new().count(1)).unwrap();
    }
    queue.tick().unwrap();
    let sound = |state| tube.tasks(state).filter(Result::is_ok).count();
    assert!(sound(State::Done) >= 1 && sound(State::Buried) >= 1);
}

/// The key of the own row of a task.
fn own_key(core: &Shared, name: &str, id: TaskId) -> Key {
    let ranges = [Tag::Fresh, Tag::Task].map(|tag| range(core, name, tag));
    let found = core.look(|view, _| {
        for range in ranges {
            let mut rows = Scan::over(range);
            while let Some((met, _)) = rows.next(view)? {
                if key::id_of(&met) == Some(id) {
                    return Ok(met);
                }
            }
        }
        Ok(Key::new())
    });
    found.unwrap()
}

/// Of a tube that keeps one buried task a repair removes none: those that it sets aside go with the
/// due work after it, each with an event.
#[test]
fn a_task_that_is_set_aside_retires_no_other_one() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let core = core_of(&queue);
    let options = TubeOptions::default().keep_buried(Retention::new().count(1));
    let tube = queue.create_tube("kept", options).unwrap();
    let ids = [(); 4].map(|()| tube.put(b"x").unwrap());
    tube.take().unwrap().bury("no").unwrap();
    let spoil = |id: &TaskId| (own_key(&core, "kept", *id), Some(Value::from([9])));
    plant(&core, ids[1..3].iter().map(spoil).collect());
    let repairs = repair(&core).unwrap();
    assert_eq!((repairs.left, queue.check().unwrap()), (vec![], vec![]));
    let buried = range(&core, "kept", Tag::Buried);
    assert_eq!(core.state.lock().store.count(buried), 3);
    let events = queue.events();
    queue.tick().unwrap();
    let gone: Vec<_> = std::iter::from_fn(|| events.try_recv()).map(|it| it.cause).collect();
    assert_eq!(gone, [Cause::Retention; 2]);
    let stats = tube.stats().unwrap();
    assert_eq!((stats.buried, stats.ready), (1, 1));
}

/// A payload that is lost of a task that is done or taken: it stays so, and in the report.
#[test]
fn a_lost_payload_buries_no_task_that_is_done_or_taken() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let core = core_of(&queue);
    let options = TubeOptions::default().keep_finished(Retention::new().count(9));
    let tube = queue.create_tube("kept", options).unwrap();
    let ids = [(); 3].map(|()| tube.put(&[7; 9000]).unwrap());
    tube.take().unwrap().ack_with(b"result").unwrap();
    let held = tube.take().unwrap();
    let run = range(&core, "kept", Tag::Fresh).run.unwrap();
    let spoil = |id: &TaskId| (key::piece(run, *id, 1, 0), Some(Value::from([9])));
    plant(&core, ids.iter().map(spoil).collect());
    let repairs = repair(&core).unwrap();
    for id in ids {
        let lost = format!("the payload of task {id} is lost");
        assert!(repairs.left.iter().any(|line| line.contains(&lost)), "{repairs:?}");
    }
    let stats = tube.stats().unwrap();
    assert_eq!((stats.done, stats.taken, stats.buried), (1, 1, 1), "{repairs:?}");
    held.ack().unwrap();
    assert!(repair(&core).unwrap().steps.is_empty());
}

/// After a count was corrected every deadline is searched again.
#[test]
fn a_corrected_count_makes_deadlines_looked_for_again() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let (core, tube) = (core_of(&queue), queue.tube("first").unwrap());
    tube.put(b"x").unwrap();
    queue.tick().unwrap();
    let due = Range { tag: Tag::Due, ..range(&core, "first", Tag::Fresh) };
    super::correct_counts(&core, &[WrongCount { range: due, stored: 0, rows: 3 }]).unwrap();
    assert_ne!(core.state.lock().derived.first_due(), NextDue::UNKNOWN);
    assert_eq!(repair(&core).unwrap().steps.len(), 1);
    assert_eq!(core.state.lock().derived.first_due(), NextDue::UNKNOWN);
    queue.tick().unwrap();
    assert_ne!(core.state.lock().derived.first_due(), NextDue::UNKNOWN);
}

/// A repair that brings a task back as a buried one counts that as a bury, and publishes it.
#[test]
fn a_task_that_is_buried_by_its_other_rows_has_an_event() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let (core, tube) = (core_of(&queue), queue.tube("first").unwrap());
    let id = tube.task(b"x").key("k").put().unwrap();
    let number = core.look(|view, _| crate::engine::query::tube_named(view, "first"));
    let number = number.unwrap().unwrap();
    plant(&core, vec![(own_key(&core, "first", id), None)]);
    assert!(!repair(&core).unwrap().steps.is_empty());
    assert_eq!(tube.stats().unwrap().buried, 1);
    let counted = core.state.lock().derived.counted(number);
    assert_eq!(counted[Cause::Bury as usize], 1);
}

/// An error in the middle keeps what was done before it.
#[test]
fn an_error_in_the_middle_keeps_the_steps() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let core = core_of(&queue);
    let tube = queue.tube("first").unwrap();
    let ids: Vec<_> = (0..2 * FIXES_OF_OP).map(|_| tube.put(b"x").unwrap()).collect();
    let run = range(&core, "first", Tag::Due).run.unwrap();
    let stray = |id: &TaskId| (key::due(run, Deadline::Ttr, 7, *id), Some(Value::EMPTY));
    plant(&core, ids.iter().map(stray).collect());
    let repairs = repair_with(&core, |_| core.health.break_down("planted", false)).unwrap();
    assert_eq!(repairs.steps.len(), FIXES_OF_OP);
    assert!(repairs.stopped_by.is_some_and(|why| why.contains("planted")));
}

/// Counts are corrected in a commit of the base: they are right after a kill.
#[test]
fn corrected_counts_survive_a_kill() {
    let home = tempfile::tempdir().unwrap();
    let (path, copy) = (home.path().join("q"), home.path().join("copy"));
    let queue = Queue::builder().by_hand(true).open(&path).unwrap();
    let (core, tube) = (core_of(&queue), queue.tube("first").unwrap());
    for _ in 0..3 {
        tube.put(b"x").unwrap();
    }
    tube.put(&[7; 9000]).unwrap();
    let fresh = range(&core, "first", Tag::Fresh);
    let wrong = [
        WrongCount { range: fresh, stored: 0, rows: 1 << 40 },
        WrongCount { range: Range::in_run(Tag::Done, fresh.run.unwrap()), stored: 0, rows: 5 },
        WrongCount { range: Range::of(Tag::Piece), stored: 1, rows: 0 },
        WrongCount { range: Range::in_run(Tag::Key, key::Run(77)), stored: 0, rows: 3 },
    ];
    // As a fault would have left them.
    super::correct_counts(&core, &wrong).unwrap();
    let found = queue.check().unwrap();
    assert!(found.len() >= wrong.len(), "{found:?}");
    let repairs = queue.repair().unwrap();
    assert_eq!(repairs.steps.len(), wrong.len(), "{repairs:?}");
    assert!(repairs.steps.iter().all(|step| step.ends_with("the count was corrected")));
    assert_eq!((repairs.left, queue.check().unwrap()), (vec![], vec![]));
    tube.put(b"after it").unwrap();
    // Killed: the files as they are now.
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(&path).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let queue = Queue::builder().by_hand(true).open(&copy).unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
    assert_eq!(queue.tube("first").unwrap().stats().unwrap().ready, 5);
    assert!(queue.repair().unwrap().is_empty());
}

/// Stalls are counted in memory: after its repair a lease that was damaged is not counted any more.
#[test]
fn stalls_are_counted_again() {
    let (clock, ten) = (ManualClock::new(), Duration::from_secs(10));
    let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
    let core = core_of(&queue);
    let options = TubeOptions::default().ttr(ten).lapse(Lapse::new().grace(ten));
    let tube = queue.create_tube("stalls", options).unwrap();
    let ids = [(); 3].map(|()| tube.put(b"x").unwrap());
    for _ in ids {
        tube.take().unwrap().detach();
    }
    clock.advance(ten);
    queue.tick().unwrap();
    let run = range(&core, "stalls", Tag::Taken).run.unwrap();
    plant(&core, vec![(key::taken(run, ids[1]), Some(Value::from([9])))]);
    let repairs = repair(&core).unwrap();
    let step = "2 stalled tasks, counted 3: the count was corrected";
    assert!(repairs.steps.iter().any(|done| done.ends_with(step)), "{repairs:?}");
    assert_eq!((repairs.left, queue.check().unwrap()), (vec![], vec![]));
    clock.advance(ten);
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
    assert_eq!(tube.stats().unwrap().ready, 2);
}

/// A last child whose own row is damaged holds up neither its schedule, nor its tube, nor the
/// timer. Regression: the tube's due work ended at it each time, and so did every verb of the tube.
#[test]
fn a_damaged_last_child_does_not_stop_its_tube() {
    let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
    let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
    let (core, tube) = (core_of(&queue), queue.tube("first").unwrap());
    let replace = queue.schedule("s").every(minute).overlap(Overlap::Replace).ttr(60 * minute);
    replace.to(&tube).payload(b"x").make().unwrap();
    let task = tube.take().unwrap();
    let id = task.id();
    task.detach();
    plant(&core, vec![(own_key(&core, "first", id), Some(Value::from([9])))]);
    let plain = tube.put(b"plain").unwrap();
    clock.advance(minute);
    queue.tick().unwrap();
    let taken = tube.take().unwrap();
    assert_eq!(taken.id(), plain);
    assert_eq!(queue.schedule_named("s").info().unwrap().children, 2);
}

/// Regression: one damaged lease of a session without a name stopped every verb of every tube: each
/// call first returns the leases of ended sessions, and that return was refused again and again.
#[test]
fn a_damaged_lease_of_a_session_without_a_name_stops_no_other_call() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let (core, tube) = (core_of(&queue), queue.tube("first").unwrap());
    let other = queue.tube("other").unwrap();
    let ids = [(); 2].map(|()| tube.put(b"x").unwrap());
    let session = queue.session();
    for id in ids {
        assert_eq!(tube.by(&session).take().unwrap().detach().id, id);
    }
    let run = range(&core, "first", Tag::Taken).run.unwrap();
    plant(&core, vec![(key::taken(run, ids[0]), Some(Value::from([9])))]);
    drop(session);

    other.put(b"y").unwrap();
    assert_eq!(&other.take().unwrap()[..], b"y");
    assert_eq!(queue.stats().unwrap()[1].taken, 0);
    queue.consumer("ada").unwrap();
    queue.tick().unwrap();
    // The sound lease beside the damaged one has returned.
    assert_eq!(tube.take().unwrap().id(), ids[1]);
}

/// The leases of such a session in a tube whose row is damaged return once that is mended, and stop
/// no call until then.
#[test]
fn leases_of_a_damaged_tube_wait_for_its_repair() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let (core, tube) = (core_of(&queue), queue.tube("first").unwrap());
    let other = queue.tube("other").unwrap();
    let id = tube.put(b"x").unwrap();
    let session = queue.session();
    assert_eq!(tube.by(&session).take().unwrap().detach().id, id);
    let at = key::tube(tube.number);
    let row = core.look(|view, _| view.get(&at)).unwrap();
    plant(&core, vec![(at.clone(), Some(Value::from([9])))]);
    drop(session);
    other.put(b"y").unwrap();
    assert_eq!(&other.take().unwrap()[..], b"y");
    plant(&core, vec![(at, row)]);
    other.put(b"z").unwrap();
    assert_eq!(tube.take().unwrap().id(), id);
}

/// Regression: the tube of a schedule with a damaged row counted it until a repair, also after it
/// was removed or its fire was due, and twice after it was made again.
#[test]
fn a_damaged_schedule_is_counted_once_at_most() {
    let second = Duration::from_secs(1);
    let damaged = |part: Key, falls_due: bool, is_made: bool| {
        let clock = ManualClock::new();
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let (core, tube) = (core_of(&queue), queue.tube("first").unwrap());
        let make = || queue.schedule("s").every(60 * second).offset(second).to(&tube).make();
        make().unwrap();
        plant(&core, vec![(part, Some(Value::from([9])))]);
        if falls_due {
            clock.advance(second);
            tube.try_take().unwrap();
        }
        let counted = || tube.stats().unwrap().schedules;
        let before = counted();
        if is_made {
            make().unwrap();
        } else {
            queue.schedule_named("s").remove().unwrap();
        }
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        (before, counted())
    };
    for (falls_due, is_made) in [(false, false), (false, true), (true, false), (true, true)] {
        // Without its definition it does not fire, and stands at no fire then.
        let definition = damaged(key::schedule("s"), falls_due, is_made);
        assert_eq!(definition, (u64::from(!falls_due), is_made.into()));
        assert_eq!(damaged(key::firing("s"), falls_due, is_made), (1, is_made.into()));
    }
}
