//! The work after the ends of tasks goes in bounded steps, also after a kill, and until it is done
//! the tasks that wait say so.

mod bounds;
mod journal_space;

use crate::engine::by_id::{Tool, Verb};
use crate::engine::cascade::FollowEnds;
use crate::engine::linked::Earlier;
use crate::engine::{Op, OpContext};
use crate::format::key::Work;
use crate::format::{Range, Tag, View};
use crate::runtime::commit::{Attempts, Need, Undone};
use crate::runtime::pipeline::follow_ends;
use crate::runtime::shared::Shared;
use crate::words::error::Result;
use crate::words::limits::EDGES_OF_STEP;
use crate::words::numbers::Numbers;
use crate::{Conflict, Durability, Orphaned, Queue, Reason, Retention, State, TaskId, Tube};
use crate::{TubeOptions, WhyNot};

/// An op that leaves all work on the ends of tasks to others.
struct Leaving<'a, O>(&'a O);

impl<O: Op> Op for Leaving<'_, O> {
    type Done = O::Done;

    const FOLLOWS_ENDS: bool = false;

    fn tube(&self) -> Option<u32> {
        self.0.tube()
    }

    fn numbers(&self) -> Numbers {
        self.0.numbers()
    }

    fn adds(&self) -> bool {
        self.0.adds()
    }

    fn grows(&self) -> bool {
        self.0.grows()
    }

    fn brings_back(&self) -> bool {
        self.0.brings_back()
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<O::Done> {
        self.0.decide(ctx)
    }
}

/// Does an op, and nothing of the work after it.
fn alone<O: Op>(core: &Shared, op: &O) -> O::Done {
    loop {
        let mut state = core.state.lock();
        let done = state.execute(&Leaving(op), &mut Attempts::default(), &core.env());
        state.derived.edges = None;
        drop(core.release(state));
        match done {
            Ok((done, _)) => return done,
            Err(Undone::TryAfter(Need::Feature(write))) => core.sync_head(write).unwrap(),
            Err(_) => panic!("refused"),
        }
    }
}

/// One step of each kind of work after it. Returns whether there was any.
fn follow(core: &Shared) -> bool {
    let step = |kind| alone(core, &FollowEnds { kind, of: None }).is_any;
    step(Work::Unlink) | step(Work::Cascade)
}

fn count(core: &Shared, tag: Tag) -> u64 {
    core.state.lock().store.count(Range::of(tag))
}

fn open(path: &std::path::Path) -> Queue {
    Queue::builder().by_hand(true).open(path).unwrap()
}

const CHILDREN: usize = 3 * EDGES_OF_STEP;

fn tree(queue: &Queue, orphaned: Orphaned) -> (Tube, TaskId, Vec<TaskId>) {
    let kept = TubeOptions::default().keep_finished(Retention::new().count(1));
    let tube = queue.create_tube("t", kept).unwrap().durability(Durability::Relaxed);
    let parent = tube.put(b"p").unwrap();
    let children = tube.batch(vec![&b"c"[..]; CHILDREN]).after([parent]).orphaned(orphaned);
    (tube.clone(), parent, children.put().unwrap())
}

fn complete(tube: &Tube, id: TaskId) -> Tool<'static> {
    Tool { tube: tube.number, id, verb: Verb::Complete(None) }
}

#[test]
fn a_cascade_goes_in_steps_and_others_go_between() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let (tube, parent, children) = tree(&queue, Orphaned::Hold);
    let core = &tube.inner.core;
    assert!(alone(core, &complete(&tube, parent)));
    for step in 0..=3 {
        assert_eq!(count(core, Tag::Blocked), (CHILDREN - step * EDGES_OF_STEP) as u64);
        assert_eq!(queue.check().unwrap(), [""; 0], "step {step}");
        if step < 3 {
            let last = children[CHILDREN - 1];
            let reasons = queue.explain(last).unwrap().reasons;
            let (first, tasks) = (parent, 1);
            let waits = WhyNot::WaitsFor { tasks, first, has_ended: true, is_ending: true };
            assert_eq!(reasons, [waits]);
            // A take finds those that are told so far.
            assert_eq!(tube.try_take().unwrap().is_some(), step > 0);
        }
        assert_eq!(follow(core), step < 3);
    }
    assert_eq!((count(core, Tag::Work), count(core, Tag::HeldTime)), (0, 1));
    // The ends of the children go in steps, too.
    let taken: Vec<_> = tube.take_many(CHILDREN).unwrap();
    tube.ack_many(taken).unwrap();
    assert_eq!((count(core, Tag::Work), count(core, Tag::HeldTime)), (0, 0));
    assert_eq!(tube.stats().unwrap().finished, 1, "the one that has ended last");
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// What few tasks come after is worked off in the step of the end itself, and of many the first.
#[test]
fn an_end_is_followed_in_its_own_step() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let (tube, parent, children) = tree(&queue, Orphaned::Hold);
    let core = &tube.inner.core;
    let end = |id| {
        let mut state = core.state.lock();
        let op = complete(&tube, id);
        let done = state.execute(&op, &mut Attempts::default(), &core.env());
        assert!(done.is_ok_and(|(is_done, _)| is_done));
        let left = state.derived.edges.take().map_or(0, |left| left.rows.len());
        drop(core.release(state));
        left
    };
    assert_eq!(end(parent), 1);
    assert_eq!(count(core, Tag::Blocked), (CHILDREN - EDGES_OF_STEP) as u64);
    assert_eq!(queue.check().unwrap(), [""; 0]);
    queue.tick().unwrap();
    // The edges of one that was released go with it, and so do those to what comes after it.
    let last = tube.task(b"last").after([children[0]]).put().unwrap();
    assert_eq!((end(children[0]), count(core, Tag::Work)), (0, 0));
    assert_eq!(tube.peek(last).unwrap().state, State::Ready);
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// The timer, woken by each such end, waited for the lock that the call needed for the same work: a
/// step of a chain took a quarter longer. It is woken for what a call leaves.
#[test]
fn the_timer_follows_only_the_ends_that_a_call_leaves() {
    let queue = Queue::builder().in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let core = &tube.inner.core;
    let end = |is_left: bool| {
        let parent = tube.put(b"parent").unwrap();
        let child = tube.task(b"child").after([parent]).put().unwrap();
        let mut state = core.state.lock();
        let op = complete(&tube, parent);
        let done = state.execute(&Leaving(&op), &mut Attempts::default(), &core.env());
        assert!(done.is_ok_and(|(is_done, _)| is_done));
        assert!(!state.derived.outbox.sooner, "the timer has nothing to do");
        let began = if is_left { None } else { state.derived.edges.take() };
        drop(core.release(state));
        if let Some(began) = began {
            follow_ends(core, *began);
            assert_eq!(tube.peek(child).unwrap().state, State::Ready);
        }
        // What was left is there once the timer has made it ready.
        let task = tube.take().unwrap();
        assert_eq!(task.id(), child);
        task.ack().unwrap();
    };
    end(false);
    end(true);
}

#[test]
fn a_kill_between_the_steps_of_a_cascade_loses_none() {
    for orphaned in [Orphaned::Hold, Orphaned::Cancel] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("queue");
        let queue = open(&path);
        let (tube, parent, _) = tree(&queue, orphaned);
        let core = &tube.inner.core;
        match orphaned {
            Orphaned::Cancel => {
                let verb = Verb::Delete { only_if: None, by_force: true };
                alone(core, &Tool { tube: tube.number, id: parent, verb });
            }
            _ => _ = alone(core, &complete(&tube, parent)),
        }
        for steps in 0..4 {
            queue.flush().unwrap();
            let copy = home.path().join(steps.to_string());
            std::fs::create_dir(&copy).unwrap();
            for name in ["base.redb", "journal"] {
                std::fs::copy(path.join(name), copy.join(name)).unwrap();
            }
            let opened = open(&copy);
            assert_eq!(opened.check().unwrap(), [""; 0], "{steps} steps");
            opened.tick().unwrap();
            let again = opened.tube("t").unwrap();
            let stats = again.stats().unwrap();
            let ready = if orphaned == Orphaned::Hold { CHILDREN as u64 } else { 0 };
            assert_eq!((stats.blocked, stats.ready), (0, ready));
            assert_eq!(count(&again.inner.core, Tag::Work), 0);
            assert_eq!(opened.check().unwrap(), [""; 0]);
            opened.close().unwrap();
            follow(core);
        }
        queue.close().unwrap();
    }
}

/// What is told in another order than it happened: a bury, a kick and a success before the first
/// step.
#[test]
fn ends_that_come_before_the_first_step_are_told_in_their_order() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let parent = tube.put(b"p").unwrap();
    let child = |orphaned| tube.task(b"c").orphaned(orphaned).after([parent]).put().unwrap();
    let [held, cancelled, ignored] =
        [Orphaned::Hold, Orphaned::Cancel, Orphaned::Ignore].map(child);
    let on_failure = tube.task(b"c").after_failure([parent]).put().unwrap();
    let core = &tube.inner.core;
    let run = |verb| alone(core, &Tool { tube: tube.number, id: parent, verb });
    run(Verb::Bury(crate::Reason::Buried("no".into())));
    run(Verb::Kick);
    run(Verb::Complete(None));
    assert_eq!(queue.check().unwrap(), [""; 0]);
    queue.tick().unwrap();
    for id in [held, ignored, on_failure] {
        assert_eq!(tube.peek(id).unwrap().state, State::Ready);
    }
    assert!(tube.peek(cancelled).unwrap_err().is_not_found());
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// A finished task whose last edge goes before its cascade is kept by its retention again.
#[test]
fn an_edge_that_goes_before_its_cascade_holds_nothing() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let kept = TubeOptions::default().keep_finished(Retention::new().count(1));
    let tube = queue.create_tube("t", kept).unwrap();
    for way in 0..3 {
        let parent = tube.put(b"p").unwrap();
        let child = tube.task(b"c").key("k").after([parent]).put().unwrap();
        let core = &tube.inner.core;
        assert!(alone(core, &complete(&tube, parent)));
        assert_eq!(count(core, Tag::HeldTime), 1);
        match way {
            0 => tube.force_delete(child).unwrap(),
            1 => {
                let again = tube.task(b"c").key("k").on_conflict(Conflict::Replace).after([]);
                again.put().unwrap();
                tube.delete(child).unwrap();
            }
            _ => assert!(alone(core, &complete(&tube, child))),
        }
        queue.tick().unwrap();
        assert_eq!((tube.len().unwrap(), tube.stats().unwrap().finished), (0, 1), "{way}");
        assert_eq!(count(core, Tag::HeldTime), 0, "{way}");
        assert_eq!(queue.check().unwrap(), [""; 0], "{way}");
    }
}

/// A put of many edges is seen by no call before its last step, and a kill undoes it.
#[test]
fn a_kill_amid_a_long_put_leaves_nothing_of_it() {
    use crate::engine::linking::LinkSome;
    use crate::engine::new_row::{Extras, NewRow};
    use crate::engine::put::PutTasks;
    use crate::words::dependency::After;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("queue");
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let parents = tube.put_many(vec![&b"p"[..]; 600]).unwrap();
    let core = &tube.inner.core;
    let found = core.find_all(&parents).unwrap();
    let after = After::from(&parents);
    let tasks = after.each_once();
    let mut extras = Extras::default();
    extras.after = Some(after);
    let row = NewRow { payload: b"c", extras: Some(&extras), ..NewRow::PLAIN };
    let earlier = Earlier { found, linked: None };
    let put = PutTasks {
        tube: tube.number,
        tasks: &[row],
        is_batch: false,
        staged: &[],
        payload_bytes_max: usize::MAX,
        durable_bytes_max: u64::MAX,
        others_wait: false,
        earlier: Some(&earlier),
    };
    let mut before = None;
    for done in [256, 512, 600] {
        before = alone(core, &LinkSome { put: &put, tasks: &tasks, before });
        assert_eq!(before.map(|linked| linked.done), Some(done));
        let new = before.unwrap().id;
        assert_eq!(tube.stats().unwrap().blocked, 0, "no call sees it");
        assert_eq!(queue.check().unwrap(), [""; 0]);
        // The put is running: a task that its task will wait for goes by force only.
        let last = parents[done - 1];
        for refused in [tube.delete(last), tube.delete_many(&[last, new]).map(drop)] {
            assert_eq!(refused.unwrap_err().tasks(), [new]);
        }
        tube.force_delete(last).unwrap();
        tube.complete_by_id(parents[done - 2]).unwrap();
        assert_eq!(queue.check().unwrap(), [""; 0]);
        queue.flush().unwrap();
        let copy = home.path().join(done.to_string());
        std::fs::create_dir(&copy).unwrap();
        for name in ["base.redb", "journal"] {
            std::fs::copy(path.join(name), copy.join(name)).unwrap();
        }
        let opened = open(&copy);
        assert_eq!(opened.check().unwrap(), [""; 0], "{done}");
        opened.tick().unwrap();
        let again = opened.tube("t").unwrap();
        assert_eq!(count(&again.inner.core, Tag::Dependency), 0);
        assert_eq!(count(&again.inner.core, Tag::Work), 0);
        assert_eq!(again.peek(parents[0]).unwrap().dependents.count, 0);
        assert_eq!(opened.check().unwrap(), [""; 0], "{done}");
        opened.close().unwrap();
    }
    let done = alone(
        core,
        &PutTasks {
            earlier: Some(&Earlier { found: earlier.found.clone(), linked: before }),
            ..put
        },
    );
    let summary = tube.peek(done[0].id).unwrap();
    // Three have succeeded. It is held by the three that were removed by force.
    assert_eq!((summary.state, summary.dependencies.count), (State::Blocked, 600 - 3));
    assert_eq!(queue.check().unwrap(), [""; 0]);
    queue.close().unwrap();
}

/// A bury that was not told yet met tasks that were put after the kick: one that was to come after
/// the failure went on, and one to be cancelled by it was gone.
#[test]
fn a_bury_concerns_no_task_that_is_put_after_the_kick() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let (core, parent) = (&tube.inner.core, tube.put(b"p").unwrap());
    let puts = || {
        let puts = [Orphaned::Hold, Orphaned::Cancel, Orphaned::Ignore];
        let success = puts.map(|it| tube.task(b"c").after([parent]).orphaned(it).put().unwrap());
        let failure = tube.task(b"c").after_failure([parent]).put().unwrap();
        let any = tube.task(b"c").after_any_end([parent]).put().unwrap();
        [success.to_vec(), vec![failure, any]].concat()
    };
    let states = |ids: &[TaskId]| -> Vec<_> {
        ids.iter().map(|id| tube.peek(*id).ok().map(|task| task.state)).collect()
    };
    let (before, blocked) = (puts(), [Some(State::Blocked); 5]);
    assert!(alone(
        core,
        &Tool { verb: Verb::Bury(Reason::Buried("no".into())), ..complete(&tube, parent) }
    ));
    // Nothing is due, so that the kick follows no end.
    tube.kick_task(parent).unwrap();
    let after = puts();
    assert_eq!((states(&before), states(&after)), (blocked.to_vec(), blocked.to_vec()));
    queue.tick().unwrap();
    let ready = Some(State::Ready);
    assert_eq!(states(&before), [Some(State::Blocked), None, ready, ready, ready]);
    assert_eq!(states(&after), blocked);
    assert_eq!(queue.check().unwrap(), [""; 0]);
    assert!(tube.complete_by_id(parent).unwrap());
    assert_eq!(states(&after), [ready, ready, ready, Some(State::Blocked), ready]);
}
