//! What bounds the work after the ends of tasks: a call does its own, a step does its share, and
//! neither damage nor a full disk stops the rest.

use super::{CHILDREN, alone, complete, count, follow, open, tree};
use crate::engine::by_id::{Tool, Verb};
use crate::engine::repair::Repair;
use crate::engine::{Op, OpContext, lookup};
use crate::format::key::{self, Key, Run, Work};
use crate::format::row::{LinkingRow, PayloadPlace, TaskRow, dropped_section};
use crate::format::{Tag, Value};
use crate::runtime::commit::Attempts;
use crate::runtime::shared::Shared;
use crate::words::durability::Durability;
use crate::words::error::{DamagedRow, Result};
use crate::words::limits::{EDGES_OF_STEP, SWEEP_TASKS};
use crate::{ManualClock, Orphaned, Queue, Retention, State, TaskId, Tube, TubeOptions};
use std::time::Duration;

/// Writes a row as a fault would; `None` removes it.
struct Plant(Key, Option<Value>);

impl Op for Plant {
    type Done = ();

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        match &self.1 {
            Some(value) => ctx.set(key::copy(&self.0), value.clone()),
            None => {
                ctx.remove(key::copy(&self.0));
                Ok(())
            }
        }
    }
}

fn by_hand() -> (Queue, ManualClock) {
    let clock = ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
    (queue, clock)
}

fn plant(core: &Shared, at: Key, row: Option<Value>) {
    core.run(&Plant(at, row), Durability::Durable).unwrap();
}

fn garbage() -> Option<Value> {
    Some([255].into())
}

/// The key of a task's own row.
fn own_row(tube: &Tube, id: TaskId) -> Key {
    let core = &tube.inner.core;
    let found = core.look(|view, _| {
        let entry = crate::engine::query::tube(view, tube.number)?;
        let (stored, _) = lookup::find(view, &entry, id)?;
        Ok(key::task(entry.run(), &stored.home, id))
    });
    found.unwrap()
}

fn run_of(tube: &Tube) -> Run {
    let core = &tube.inner.core;
    core.look(|view, _| Ok(crate::engine::query::tube(view, tube.number)?.run())).unwrap()
}

fn bury(tube: &Tube, id: TaskId) {
    let verb = Verb::Bury(crate::Reason::Buried("no".into()));
    alone(&tube.inner.core, &Tool { tube: tube.number, id, verb });
}

#[test]
fn a_damaged_task_stops_no_other_cascade() {
    for row in [garbage(), None] {
        let (queue, _) = by_hand();
        let tube = queue.tube("t").unwrap();
        let parents = [tube.put(b"p").unwrap(), tube.put(b"q").unwrap()];
        let child = |parent| tube.task(b"c").orphaned(Orphaned::Cancel).after([parent]).put();
        let cancelled = [(); 3].map(|()| child(parents[0]).unwrap());
        let released = child(parents[1]).unwrap();
        let core = &tube.inner.core;
        plant(core, own_row(&tube, cancelled[1]), row);
        bury(&tube, parents[0]);
        assert!(alone(core, &complete(&tube, parents[1])));
        queue.tick().unwrap();
        for id in cancelled {
            assert!(tube.peek(id).unwrap_err().is_not_found());
        }
        assert_eq!(tube.peek(released).unwrap().state, State::Ready);
        assert_eq!(count(core, Tag::Work), 0);
        // The byte of the payload that was lost.
        assert_eq!(queue.check().unwrap().len(), 1);
        assert_eq!(queue.repair().unwrap().left, [""; 0]);
    }
}

/// The state of the child cannot be repaired as long as another row gives one.
#[test]
fn a_task_that_no_repair_mends_is_passed_by() {
    let (queue, _) = by_hand();
    let tube = queue.tube("t").unwrap();
    let parents = [tube.put(b"p").unwrap(), tube.put(b"q").unwrap()];
    let child = |parent| tube.task(b"c").orphaned(Orphaned::Cancel).after([parent]).put();
    let cancelled = [(); 3].map(|()| child(parents[0]).unwrap());
    let released = child(parents[1]).unwrap();
    let core = &tube.inner.core;
    plant(core, own_row(&tube, cancelled[1]), None);
    plant(core, key::done(run_of(&tube), cancelled[1]), garbage());
    bury(&tube, parents[0]);
    assert!(alone(core, &complete(&tube, parents[1])));
    queue.tick().unwrap();
    for id in [cancelled[0], cancelled[2]] {
        assert!(tube.peek(id).unwrap_err().is_not_found());
    }
    assert_eq!(tube.peek(released).unwrap().state, State::Ready);
    assert_eq!(count(core, Tag::Work), 0);
    assert_eq!(queue.repair().unwrap().left, [""; 0]);
}

#[test]
fn a_call_works_off_what_it_began_and_nothing_else() {
    let (queue, _) = by_hand();
    let (tube, parent, _) = tree(&queue, Orphaned::Hold);
    let core = &tube.inner.core;
    assert!(alone(core, &complete(&tube, parent)));
    let own = tube.put(b"p").unwrap();
    let child = tube.task(b"c").after([own]).put().unwrap();
    let last = tube.task(b"c").orphaned(Orphaned::Cancel).after([child]).put().unwrap();
    assert!(tube.complete_by_id(own).unwrap());
    assert_eq!(tube.peek(child).unwrap().state, State::Ready);
    // Also what follows from that.
    tube.force_delete(child).unwrap();
    assert!(tube.peek(last).unwrap_err().is_not_found());
    assert_eq!(count(core, Tag::Work), 1);
    assert_eq!(count(core, Tag::Blocked), CHILDREN as u64);
    queue.tick().unwrap();
    assert_eq!((count(core, Tag::Work), count(core, Tag::Blocked)), (0, 0));
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn a_step_goes_on_to_the_next_tasks() {
    let (queue, _) = by_hand();
    let tube = queue.tube("t").unwrap();
    let pairs: Vec<_> = (0..2 * EDGES_OF_STEP)
        .map(|_| {
            let parent = tube.put(b"p").unwrap();
            (parent, tube.task(b"c").after([parent]).put().unwrap())
        })
        .collect();
    let core = &tube.inner.core;
    pairs.iter().for_each(|(parent, _)| assert!(alone(core, &complete(&tube, *parent))));
    assert_eq!(count(core, Tag::Work), pairs.len() as u64);
    for left in [EDGES_OF_STEP, 0] {
        assert!(follow(core));
        assert_eq!((count(core, Tag::Blocked), count(core, Tag::Work)), (left as u64, left as u64));
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }
    assert!(!follow(core));
    // So does the removal of their edges.
    let kept = TubeOptions::default().keep_finished(Retention::new().count(1000));
    let tube = queue.create_tube("kept", kept).unwrap();
    let parent = tube.put(b"p").unwrap();
    let children = tube.batch(vec![&b"c"[..]; 2 * EDGES_OF_STEP]).after([parent]).put().unwrap();
    tube.complete_by_id(parent).unwrap();
    children.iter().for_each(|id| assert!(alone(core, &complete(&tube, *id))));
    for left in [EDGES_OF_STEP, 0] {
        assert!(follow(core));
        assert_eq!(
            (count(core, Tag::Dependent), count(core, Tag::Work)),
            (left as u64, left as u64)
        );
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }
    assert_eq!(count(core, Tag::HeldTime), 0);
}

/// An opening leaves a cascade that a kill has cut off to the timer, also if it begins such work.
#[test]
fn an_opening_works_off_no_cascade() {
    let home = tempfile::tempdir().unwrap();
    let (path, copy) = (home.path().join("queue"), home.path().join("copy"));
    let queue = open(&path);
    let (tube, parent, _) = tree(&queue, Orphaned::Hold);
    let core = &tube.inner.core;
    assert!(alone(core, &complete(&tube, parent)));
    let id = tube.put(b"x").unwrap();
    tube.delete(id).unwrap();
    let scope = crate::engine::edges::scope(run_of(&tube));
    plant(core, key::work(Work::Linking, scope, id), Some(LinkingRow::default().encode()));
    queue.flush().unwrap();
    std::fs::create_dir(&copy).unwrap();
    for name in ["base.redb", "journal"] {
        std::fs::copy(path.join(name), copy.join(name)).unwrap();
    }
    let opened = open(&copy);
    let core = &opened.tube("t").unwrap().inner.core.clone();
    assert_eq!((count(core, Tag::Work), count(core, Tag::Blocked)), (2, CHILDREN as u64));
    opened.tick().unwrap();
    assert_eq!((count(core, Tag::Work), count(core, Tag::Blocked)), (0, 0));
    assert_eq!(opened.check().unwrap(), [""; 0]);
    opened.close().unwrap();
    queue.close().unwrap();
}

/// Repairs the row in which a task is done, as a rule does that meets it.
fn repair_done(tube: &Tube, id: TaskId) {
    let (core, at) = (&tube.inner.core, key::done(run_of(tube), id));
    plant(core, key::copy(&at), garbage());
    alone(core, &Repair::Row(DamagedRow { tube: tube.number, key: at.as_slice().into() }));
}

#[test]
fn a_damaged_task_that_is_kept_for_others_is_repaired() {
    for is_told in [false, true] {
        let (queue, _) = by_hand();
        let (tube, parent, children) = tree(&queue, Orphaned::Hold);
        let core = &tube.inner.core;
        assert!(alone(core, &complete(&tube, parent)));
        if is_told {
            queue.tick().unwrap();
        }
        assert_eq!(count(core, Tag::HeldTime), 1);
        repair_done(&tube, parent);
        assert_eq!(tube.peek(parent).unwrap().state, State::Buried);
        assert_eq!(count(core, Tag::HeldTime), 0);
        assert_eq!(queue.check().unwrap(), [""; 0]);
        queue.tick().unwrap();
        assert_eq!(tube.peek(children[0]).unwrap().state, State::Ready);
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }
}

/// The edges of a task that has ended are not its own any more, while work removes them.
#[test]
fn a_repair_gives_no_task_edges_that_go() {
    let (queue, _) = by_hand();
    let (tube, parent, children) = tree(&queue, Orphaned::Hold);
    tube.complete_by_id(parent).unwrap();
    let core = &tube.inner.core;
    assert!(alone(core, &complete(&tube, children[0])));
    repair_done(&tube, children[0]);
    let summary = tube.peek(children[0]).unwrap();
    assert_eq!((summary.state, summary.dependencies.count), (State::Buried, 0));
    assert_eq!(queue.check().unwrap(), [""; 0]);
    tube.kick(1).unwrap();
    queue.tick().unwrap();
    assert_eq!(tube.peek(children[0]).unwrap().state, State::Ready);
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn a_blocked_task_without_its_payload_is_set_aside() {
    let (queue, _) = by_hand();
    let tube = queue.tube("t").unwrap();
    let parent = tube.put(b"p").unwrap();
    let child = tube.task(b"c").after([parent]).put().unwrap();
    let (core, at) = (&tube.inner.core, own_row(&tube, child));
    let raw = core.look(|view, _| view.get(&at)).unwrap().unwrap();
    let row = TaskRow::decode(&raw).unwrap();
    let (payload, extension) = (PayloadPlace::Inline(&[]), dropped_section(row.extension).unwrap());
    plant(core, at, Some(TaskRow { payload, extension: &extension, ..row }.encode()));
    let left = queue.repair().unwrap().left;
    assert!(left.len() == 1 && left[0].contains("the payload of task 2 is lost"), "{left:?}");
    assert_eq!(tube.peek(child).unwrap().state, State::Buried);
    tube.delete(child).unwrap();
    tube.complete_by_id(parent).unwrap();
    assert_eq!(queue.repair().unwrap().left, [""; 0]);
}

/// On a full disk a cascade waits for room, and nothing waits for it.
#[test]
fn a_cascade_on_a_full_disk_holds_up_nothing() {
    let (queue, clock) = by_hand();
    let (tube, parent, children) = tree(&queue, Orphaned::Hold);
    let (first, other) = (tube.put(b"p").unwrap(), queue.tube("other").unwrap());
    let child = tube.task(b"c").after([first]).put().unwrap();
    tube.complete_by_id(first).unwrap();
    other.put_many((0..20 * SWEEP_TASKS).map(|_| b"x".to_vec())).unwrap();
    let core = &tube.inner.core;
    assert!(alone(core, &complete(&tube, parent)));
    assert!(alone(core, &complete(&tube, child)));
    other.truncate().unwrap();
    let works = |kind| {
        let from = key::work_of(kind);
        let met = core.look(|view, _| view.first(&from, &key::end_of(&from)));
        met.unwrap().is_some()
    };
    let kinds = [Work::Clear, Work::Unlink, Work::Cascade];
    assert_eq!(kinds.map(works), [true; 3]);
    {
        let mut state = core.state.lock();
        state.store.set_full();
        let now = state.now(&clock);
        assert!(state.tries_for_room(now), "it has just been looked for");
    }
    queue.tick().unwrap();
    assert_eq!(kinds.map(works), [false, false, true]);
    assert_eq!(tube.peek(children[0]).unwrap().state, State::Blocked);
    let until = crate::runtime::timer::next_look(core, crate::engine::effects::NextDue::NONE).0;
    assert!(until < crate::words::clock::NEVER, "the timer looks again");
    clock.advance(Duration::from_secs(1));
    queue.tick().unwrap();
    assert_eq!((kinds.map(works), count(core, Tag::Blocked)), ([false; 3], 0));
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// A dropped tube whose task had ended stopped all other ends that were left: the step failed at it
/// each time.
#[test]
fn an_end_in_a_tube_that_was_dropped_stops_no_other() {
    let (queue, _) = by_hand();
    let [a, b] = ["a", "b"].map(|name| queue.tube(name).unwrap());
    let parents = [a.put(b"p").unwrap(), b.put(b"q").unwrap()];
    let children = parents.map(|parent| b.task(b"c").after([parent]).put().unwrap());
    let core = &a.inner.core;
    assert!(alone(core, &complete(&a, parents[0])));
    queue.force_drop_tube("a").unwrap();
    assert!(alone(core, &complete(&b, parents[1])));
    assert_eq!(count(core, Tag::Work), 3, "two ends, and the sweep of the tube");
    queue.tick().unwrap();
    let states = children.map(|id| b.peek(id).unwrap().state);
    assert_eq!((states, count(core, Tag::Work)), ([State::Ready; 2], 0));
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// On a full disk an end needs no more room than without others after it.
#[test]
fn an_end_on_a_full_disk_follows_nothing_at_once() {
    let (queue, _) = by_hand();
    let (tube, parent, children) = tree(&queue, Orphaned::Hold);
    let core = &tube.inner.core;
    core.state.lock().store.set_full();
    let mut state = core.state.lock();
    let op = complete(&tube, parent);
    assert!(state.execute(&op, &mut Attempts::default(), &core.env()).is_ok());
    let left = state.derived.edges.take().map_or(0, |left| left.rows.len());
    drop(core.release(state));
    assert_eq!((left, count(core, Tag::Blocked)), (1, children.len() as u64));
}
