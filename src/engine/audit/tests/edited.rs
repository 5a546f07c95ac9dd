//! Ops over rows that were edited between them, one after the other: what an option that changes
//! while the queue is open, or several works at a time, must not break.

use super::{NOTHING, Rows, work};
use crate::bytes::key::{self, Work};
use crate::bytes::{RowOp, Tag};
use crate::clock::Now;
use crate::engine::desk::{Desk, Op, Reserve};
use crate::engine::draft::Draft;
use crate::engine::known::{KnownTubes, Tube};
use crate::engine::look;
use crate::engine::put::{NewRow, Put};
use crate::engine::sweep::Sweep;
use crate::engine::take::Take;
use crate::engine::tools::{Tool, Verb};
use crate::engine::tubes::{ReleaseAll, Truncate};
use crate::error::Result;
use crate::numbers::Numbers;
use crate::queue::Queue;
use crate::task::{State, TaskId};

const NOW: Now = Now { queue: 1_000, wall: 1_000, lease: 1_000 };

/// One tube that is known.
struct One(Tube);

impl KnownTubes for One {
    fn known(&self, number: u32) -> Option<&Tube> {
        Some(&self.0).filter(|tube| tube.number == number)
    }
}

/// Rows with a tube "first", and what an op is given beside them.
struct Played {
    rows: Rows,
    tube: u32,
    numbers: Reserve,
}

impl Played {
    fn new() -> Self {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let tube = queue.tube("first").unwrap().at.number;
        let rows = Rows::of(&queue);
        let (next, end) = (Numbers::both(1_000), Numbers::both(u64::MAX));
        Self { rows, tube, numbers: Reserve { next, end } }
    }

    /// Decides an op and carries it out.
    fn run<O: Op>(&mut self, op: &O) -> Result<O::Done> {
        let (known, mut draft) = (One(look::tube(&self.rows, self.tube)?), Draft::default());
        let mut desk = Desk::new(&self.rows, &known, &mut self.numbers, &mut draft, None, NOW);
        let done = op.decide(&mut desk)?;
        self.rows.bytes = self.rows.bytes.saturating_add_signed(draft.effects.durable_bytes);
        let rows = &mut self.rows.rows;
        draft.writes().drain_into(|key, op| match op {
            RowOp::Add(row) => assert_eq!(rows.insert(key, Some(row)), None),
            RowOp::Change(row) => assert!(rows.insert(key, Some(row)).is_some()),
            RowOp::Remove => assert!(rows.remove(&key).is_some()),
        });
        Ok(done)
    }

    fn put(&mut self, task: NewRow<'_>) -> TaskId {
        let put = Put {
            tube: self.tube,
            tasks: &[task],
            payload_bytes_max: 1 << 20,
            durable_bytes_max: u64::MAX,
        };
        self.run(&put).unwrap()[0].id
    }

    fn state(&self, id: TaskId) -> State {
        let tube = look::tube(&self.rows, self.tube).unwrap();
        look::info(&self.rows, &tube, id, NOW).unwrap().state
    }
}

/// The place of a plain task was told by the tube's default priority. A tube whose default changes
/// lost sight of every plain task that it had.
#[test]
fn a_default_priority_that_changes_hides_no_task() {
    let mut played = Played::new();
    let before = played.put(NewRow::default());
    let buried = played.put(NewRow::default());
    let tool = |id, verb| Tool { tube: 1, id, verb };
    played.run(&tool(buried, Verb::Bury(crate::task::Reason::Buried("no".into())))).unwrap();

    let mut tube = played.rows.tube("first").row;
    tube.options.priority = -5;
    played.rows.set(key::tube(1), tube.encode());
    assert_eq!(played.rows.faults(), NOTHING);
    let after = played.put(NewRow::default());
    assert_eq!(played.rows.faults(), NOTHING);
    assert_eq!(played.state(before), State::Ready);
    let taken = played.run(&Take { tube: 1, most: 1, holder: 0 }).unwrap();
    assert_eq!(taken[0].id, after, "the new default is the better one");
    played.run(&tool(buried, Verb::Kick)).unwrap();
    for id in [before, buried, after] {
        played.run(&tool(id, Verb::Delete)).unwrap();
        assert_eq!(played.rows.faults(), NOTHING);
    }
}

/// There was one work row a run. A `release_all` that is asked for while another is under way, and
/// a truncate on top, each begin their own; every lease is back in the end and nothing is left.
#[test]
fn works_of_several_kinds_run_side_by_side_and_lose_nothing() {
    let mut played = Played::new();
    let take = |played: &mut Played, most| {
        (0..most).for_each(|_| _ = played.put(NewRow { group: Some("g"), ..NewRow::default() }));
        (0..most).for_each(|_| _ = played.put(NewRow::default()));
        played.run(&Take { tube: 1, most, holder: 0 }).unwrap().len()
    };
    assert_eq!(take(&mut played, 300), 300);
    played.run(&ReleaseAll { tube: 1 }).unwrap();
    assert!(played.run(&Sweep).unwrap());
    let run = played.rows.tube("first").run();
    assert!(played.rows.rows.contains_key(&work(Work::Release, run)), "more than one sweep");
    played.run(&Take { tube: 1, most: 9, holder: 0 }).unwrap();
    played.run(&ReleaseAll { tube: 1 }).unwrap();
    assert_eq!(played.rows.faults(), NOTHING);
    while played.run(&Sweep).unwrap() {}
    assert_eq!(played.rows.keys(Tag::Taken).len(), 0, "the new leases too, with lower ids");

    played.run(&Take { tube: 1, most: 200, holder: 0 }).unwrap();
    played.run(&ReleaseAll { tube: 1 }).unwrap();
    played.run(&Truncate { tube: 1 }).unwrap();
    assert_eq!(played.rows.keys(Tag::Work).len(), 2);
    assert_eq!(played.rows.faults(), NOTHING);
    played.run(&Sweep).unwrap();
    assert_eq!(played.rows.keys(Tag::Work).len(), 1, "nobody waits for a lease of the old run");
    while played.run(&Sweep).unwrap() {}
    assert_eq!(played.rows.faults(), NOTHING);
    for tag in Tag::in_runs().chain([Tag::Work]) {
        assert_eq!(played.rows.keys(tag), NOTHING_OF);
    }
}

const NOTHING_OF: [key::Key; 0] = [];
