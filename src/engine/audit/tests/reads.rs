//! No verb scans over tasks that it may not take. The rows count how often they are read: each verb
//! reads the same number with ten tasks in the way as with ten thousand.

use super::Rows;
use crate::api::queue::Queue;
use crate::api::tube::Tube as Handle;
use crate::engine::by_id::{Kick, Tool, Verb};
use crate::engine::context::{Op, OpContext, Repaired, Reserve};
use crate::engine::decision::Decision;
use crate::engine::effects::NextDue;
use crate::engine::new_row::NewRow;
use crate::engine::put::PutTasks;
use crate::engine::settle::Settle;
use crate::engine::take::{Claim, Take};
use crate::engine::tube_cache::{KnownTubes, TubeEntry};
use crate::engine::{description, due};
use crate::words::clock::{ManualClock, Now};
use crate::words::error::Result;
use crate::words::numbers::Numbers;
use crate::words::task::{Reason, State, TaskId, Ticket};
use crate::words::verb::{Conflict, Extend, Release, Verdict};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Puts so many tasks into a tube, all of them before the one that can be taken.
type InTheWay = fn(&Handle, usize);

const WAYS: [(&str, InTheWay); 9] = [
    ("locked, in one group", |tube, tasks| {
        (0..=tasks).for_each(|_| first(tube, Some("locked"), None));
        taken(tube, 1);
    }),
    ("locked, in a group each", |tube, tasks| {
        for group in 0..tasks {
            (0..2).for_each(|_| first(tube, Some(&group.to_string()), None));
        }
        taken(tube, tasks);
    }),
    ("buried", |tube, tasks| {
        (0..tasks).for_each(|_| first(tube, None, None));
        let all = tube.take_many(tasks).unwrap();
        all.into_iter().for_each(|task| task.bury("in the way").unwrap());
    }),
    ("buried, in a group each", |tube, tasks| {
        (0..tasks).for_each(|group| first(tube, Some(&group.to_string()), None));
        let all = tube.take_many(tasks).unwrap();
        all.into_iter().for_each(|task| task.bury("in the way").unwrap());
    }),
    ("delayed", |tube, tasks| (0..tasks).for_each(|_| first(tube, None, Some(HOUR)))),
    ("delayed, in a group each", |tube, tasks| {
        (0..tasks).for_each(|group| first(tube, Some(&group.to_string()), Some(HOUR)));
    }),
    ("taken", |tube, tasks| {
        (0..tasks).for_each(|_| first(tube, None, None));
        taken(tube, tasks);
    }),
    ("ready after it", |tube, tasks| {
        tube.put_many((0..tasks).map(|_| b"behind".to_vec())).unwrap();
    }),
    ("ready after it, in a group each", |tube, tasks| {
        for group in 0..tasks {
            tube.task(b"behind").group(&group.to_string()).ttl(HOUR).put().unwrap();
        }
    }),
];

/// Puts a task before all others, with every deadline that a task can have.
fn first(tube: &Handle, group: Option<&str>, delay: Option<Duration>) {
    let mut task = tube.task(b"in the way").priority(-1).ttl(2 * HOUR).ttr(HOUR);
    if let Some(group) = group {
        task = task.group(group);
    }
    if let Some(delay) = delay {
        task = task.delay(delay);
    }
    task.put().unwrap();
}

fn taken(tube: &Handle, tasks: usize) {
    let taken = tube.take_many(tasks).unwrap();
    assert_eq!(taken.len(), tasks);
    taken.into_iter().for_each(|task| _ = task.detach());
}

/// A tube with tasks in the way, and the few tasks that the verbs use.
struct Scene {
    rows: Rows,
    tube: TubeEntry,
    now: Now,
    /// In a group of its own, where another task waits for it.
    held: Ticket,
    /// The task that a take must return.
    free: TaskId,
    /// Before all tasks in the way.
    buried: TaskId,
}

/// The one tube of a scene.
struct TubeCache(TubeEntry);

impl KnownTubes for TubeCache {
    fn known(&self, number: u32) -> Option<&TubeEntry> {
        (self.0.number == number).then_some(&self.0)
    }

    fn bound(&self, _number: u32) -> Option<NextDue> {
        None
    }
}

impl Scene {
    fn with(in_the_way: InTheWay, tasks: usize) -> Self {
        let clock = ManualClock::new();
        let queue = Queue::builder().clock(clock).by_hand(true).in_memory().unwrap();
        let tube = queue.tube("first").unwrap();
        let buried = tube.task(b"buried").priority(i64::MIN).put().unwrap();
        tube.bury(buried, "buried").unwrap();
        tube.task(b"held").group("own").put().unwrap();
        tube.task(b"next of the group").group("own").put().unwrap();
        let held = tube.take().unwrap().detach();
        let free = tube.task(b"free").put().unwrap();
        in_the_way(&tube, tasks);
        let now = tube.inner.core.look(|_, now| Ok(now)).unwrap();
        let rows = Rows::of(&queue).with_kept_counts();
        // With the border of the fresh tasks: after an opening the first verb searches it.
        let known = tube.inner.core.state.lock().tube(tube.number).unwrap().clone();
        Self { rows, tube: known, now, held, free, buried }
    }

    /// How many rows `read` reads.
    fn reads(&self, read: impl FnOnce(&Self) -> Result<()>) -> u64 {
        self.rows.reads.set(0);
        read(self).unwrap();
        self.rows.reads.get()
    }

    /// How many rows an op reads, with the checks that every verb makes on its tube before; and its
    /// answer.
    fn run<O: Op>(&self, op: &O) -> (u64, O::Done) {
        let mut done = None;
        let reads = self.reads(|scene| {
            assert!(due::work(&scene.rows, scene.tube.run())?.is_none());
            let (known, mut decision) = (TubeCache(scene.tube.clone()), Decision::default());
            let (next, end) = (Numbers::both(1 << 40), Numbers::both(1 << 41));
            let mut numbers = Reserve { next, end };
            let (view, now, repaired) = (&scene.rows, scene.now, &Repaired::new());
            let (known, numbers, decision) = (&known, &mut numbers, &mut decision);
            let mut ctx = OpContext { view, known, numbers, decision, wants: None, repaired, now };
            done = Some(op.decide(&mut ctx)?);
            Ok(())
        });
        (reads, done.unwrap())
    }

    fn settle(&self, verdict: Verdict<'_>) -> u64 {
        let tickets = &[self.held];
        let (reads, lost) = self.run(&Settle { tube: self.tube.number, tickets, verdict });
        assert_eq!(lost, []);
        reads
    }

    fn tool(&self, id: TaskId, verb: Verb) -> u64 {
        self.run(&Tool { tube: self.tube.number, id, verb }).0
    }

    fn put(&self, task: NewRow<'_>) -> u64 {
        let put = PutTasks {
            earlier: None,
            staged: &[],
            is_batch: false,
            tube: self.tube.number,
            tasks: &[task],
            payload_bytes_max: 1 << 20,
            durable_bytes_max: u64::MAX,
            others_wait: false,
        };
        self.run(&put).0
    }

    /// The rows that each verb reads.
    fn all(&self) -> Vec<(&'static str, u64)> {
        let tube = self.tube.number;
        let (take, handed) = self.run(&Take::new(tube, 1, 0));
        assert_eq!(handed[0].id, self.free);
        let (kick, kicked) = self.run(&Kick { tube, failed: None, most: 1, from: None });
        assert_eq!(kicked.0.kicked, 1);
        let new = NewRow { payload: b"x", ..NewRow::PLAIN };
        let keyed = NewRow { key: Some("key"), conflict: Conflict::Reject, ..new };
        let next =
            |state| self.reads(|it| description::next(&it.rows, &it.tube, state, it.now).map(drop));
        vec![
            ("take", take),
            ("claim", self.run(&Claim { tube, id: self.free, holder: 0 }).0),
            ("ack", self.settle(Verdict::Ack)),
            ("release", self.settle(Verdict::Release(Release::new()))),
            ("release to the back", self.settle(Verdict::Release(Release::new().to_back()))),
            ("retry", self.settle(Verdict::Retry { error: "no", group: "", after: Some(HOUR) })),
            ("bury", self.settle(Verdict::bury(Reason::Buried("no".into())))),
            ("trash", self.settle(Verdict::bury(Reason::Trashed("no".into())))),
            ("drop", self.settle(Verdict::Lost)),
            ("renew", self.settle(Verdict::Touch(Extend::RenewFor(HOUR)))),
            ("kick", kick),
            ("kick by id", self.tool(self.buried, Verb::Kick)),
            ("bury by id", self.tool(self.free, Verb::Bury(Reason::Buried("no".into())))),
            ("delete", self.tool(self.free, Verb::Delete { only_if: None, by_force: false })),
            ("put", self.put(new)),
            ("put before all", self.put(NewRow { priority: Some(i64::MIN), ..new })),
            ("put in a group", self.put(NewRow { group: Some("own"), ..new })),
            ("put with a key", self.put(keyed)),
            (
                "peek",
                self.reads(|it| description::info(&it.rows, &it.tube, self.free, it.now).map(drop)),
            ),
            ("peek at the next ready", next(State::Ready)),
            ("peek at the next delayed", next(State::Delayed)),
            ("peek at the next taken", next(State::Taken)),
            ("peek at the next buried", next(State::Buried)),
        ]
    }
}

#[test]
fn no_verb_scans_over_tasks_that_it_may_not_take() {
    for (way, in_the_way) in WAYS {
        let [few, many] = [10, 10_000].map(|tasks| Scene::with(in_the_way, tasks).all());
        assert_eq!(few, many, "{way}");
        let most = few.iter().map(|(_, reads)| *reads).max();
        assert!(most <= Some(20), "{way}: {few:?}");
    }
}

/// A take of several tasks reads rows for these only, wherever the others are.
#[test]
fn a_take_of_several_reads_as_many_rows_however_many_there_are() {
    for (way, in_the_way) in &WAYS[7..] {
        let [few, many] = [100, 10_000].map(|tasks| {
            let scene = Scene::with(*in_the_way, tasks);
            let (reads, handed) = scene.run(&Take::new(scene.tube.number, 50, 0));
            assert_eq!(handed.len(), 50);
            reads
        });
        assert_eq!(few, many, "{way}");
    }
}
