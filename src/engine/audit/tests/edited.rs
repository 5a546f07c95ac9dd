//! Ops over rows that were edited between them, one after the other: what an option that changes
//! while the queue is open, or several works at a time, must not break.

use super::{NOTHING, Rows, work};
use crate::api::queue::Queue;
use crate::engine::by_id::{Tool, Verb};
use crate::engine::context::{Op, OpContext, Reserve};
use crate::engine::decision::Decision;
use crate::engine::put::{NewRow, PutTasks};
use crate::engine::settle::Settle;
use crate::engine::sweep::Sweep;
use crate::engine::take::Take;
use crate::engine::tube_cache::{KnownTubes, TubeEntry};
use crate::engine::tubes::{Pause, ReleaseAll, Truncate};
use crate::engine::{query, transition};
use crate::format::extension::Extension;
use crate::format::key::{self, Work};
use crate::format::row::{TaskProgress, TaskRow, WorkRow};
use crate::format::{RowOp, Tag};
use crate::words::clock::{NEVER, Now};
use crate::words::error::Result;
use crate::words::numbers::Numbers;
use crate::words::task::{State, TaskId};
use crate::words::verb::{Extend, Release, Verdict};

const NOW: Now = Now { queue: 1_000, wall: 1_000, lease: 1_000 };

/// One tube that is known.
struct One(TubeEntry);

impl KnownTubes for One {
    fn known(&self, number: u32) -> Option<&TubeEntry> {
        Some(&self.0).filter(|tube| tube.number == number)
    }
}

/// Rows with a tube "first", and what an op is given beside them.
struct Played {
    rows: Rows,
    tube: u32,
    numbers: Reserve,
    /// Of the row writes, as they are journaled.
    journaled: usize,
}

impl Played {
    fn new() -> Self {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let tube = queue.tube("first").unwrap().at.number;
        let rows = Rows::of(&queue);
        let (next, end) = (Numbers::both(1_000), Numbers::both(u64::MAX));
        Self { rows, tube, numbers: Reserve { next, end }, journaled: 0 }
    }

    /// Decides an op and carries it out.
    fn run<O: Op>(&mut self, op: &O) -> Result<O::Done> {
        let (known, mut draft) = (One(query::tube(&self.rows, self.tube)?), Decision::default());
        let mut ctx = OpContext::new(&self.rows, &known, &mut self.numbers, &mut draft, None, NOW);
        let done = op.decide(&mut ctx)?;
        self.rows.bytes = self.rows.bytes.saturating_add_signed(draft.effects.durable_bytes);
        let (rows, journaled) = (&mut self.rows.rows, &mut self.journaled);
        draft.writes().drain_into(|key, op| {
            *journaled += 3 + key.len() + op.value().map_or(0, |value| 4 + value.len());
            match op {
                RowOp::Add(row) => assert_eq!(rows.insert(key, Some(row)), None),
                RowOp::Change(row) => assert!(rows.insert(key, Some(row)).is_some()),
                RowOp::Remove => assert!(rows.remove(&key).is_some()),
            }
        });
        Ok(done)
    }

    fn put(&mut self, task: NewRow<'_>) -> TaskId {
        let put = PutTasks {
            tube: self.tube,
            tasks: &[task],
            payload_bytes_max: 1 << 20,
            durable_bytes_max: u64::MAX,
        };
        self.run(&put).unwrap()[0].id
    }

    fn state(&self, id: TaskId) -> State {
        let tube = query::tube(&self.rows, self.tube).unwrap();
        query::info(&self.rows, &tube, id, NOW).unwrap().summary.state
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
    played.run(&tool(buried, Verb::Bury(crate::words::task::Reason::Buried("no".into())))).unwrap();

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

/// A payload was journaled with the put and again with the take. Now it is once, and the rows
/// beside it are so small that no task of 64 bytes or more pays for that.
#[test]
fn put_take_and_ack_journal_a_payload_once() {
    for bytes in [0, 16, 64, 256, 512_usize] {
        let mut played = Played::new();
        played.put(NewRow { payload: &vec![7; bytes], ..NewRow::default() });
        let handed = played.run(&Take { tube: 1, most: 1, holder: 0 }).unwrap();
        assert_eq!(handed[0].payload.len(), bytes);
        let lost = {
            let (tickets, verdict) = ([handed[0].ticket()], Verdict::Ack);
            played.run(&Settle { tube: 1, tickets: &tickets, verdict }).unwrap()
        };
        assert_eq!((lost, played.rows.faults()), (vec![], vec![]));
        let with_it_twice = 206 + 2 * bytes;
        let spare = if bytes < 64 { 40 } else { 0 };
        let journaled = played.journaled;
        assert!(journaled <= with_it_twice + spare, "{bytes}: {journaled} of {with_it_twice}");
    }
}

/// A heartbeat wrote the whole task again.
#[test]
fn a_heartbeat_or_a_retry_journals_no_payload() {
    let mut played = Played::new();
    played.put(NewRow { payload: &[7; 500], ..NewRow::default() });
    let handed = played.run(&Take { tube: 1, most: 1, holder: 0 }).unwrap();
    let ticket = handed[0].ticket();
    let hour = std::time::Duration::from_secs(3600);
    for verdict in
        [Verdict::Touch(Extend::RenewFor(hour)), Verdict::Retry { error: "no", after: Some(hour) }]
    {
        let before = played.journaled;
        played.run(&Settle { tube: 1, tickets: &[ticket], verdict }).unwrap();
        assert_eq!(played.rows.faults(), NOTHING);
        assert!(played.journaled - before < 250, "{}", played.journaled - before);
    }
}

/// Released with another priority, or to the back, a task is found, handed out and removed at its
/// new place, from its first one.
#[test]
fn a_task_that_moves_leaves_what_was_said_at_its_home() {
    for (group, key) in [(None, None), (Some("g"), None), (None, Some("k"))] {
        let mut played = Played::new();
        let id = played.put(NewRow { payload: b"x", group, key, ..NewRow::default() });
        played.put(NewRow { payload: b"y", group, ..NewRow::default() });
        let terms = [Release::new().priority(-3), Release::new().to_back(), {
            Release::new().priority(0).delay(std::time::Duration::from_secs(1))
        }];
        for terms in terms {
            let handed = played.run(&Take { tube: 1, most: 1, holder: 0 }).unwrap();
            assert_eq!(handed[0].id, id);
            let (ticket, verdict) = (handed[0].ticket(), Verdict::Release(terms));
            played.run(&Settle { tube: 1, tickets: &[ticket], verdict }).unwrap();
            assert_eq!(played.rows.faults(), NOTHING);
        }
        assert_eq!(played.state(id), State::Delayed);
        let bury = Verb::Bury(crate::words::task::Reason::Buried("no".into()));
        for verb in [bury, Verb::Kick, Verb::Delete] {
            played.run(&Tool { tube: 1, id, verb }).unwrap();
            assert_eq!(played.rows.faults(), NOTHING);
        }
        assert_eq!(played.rows.keys(Tag::Task).len(), 1);
    }
}

/// One field that this version does not know.
fn unknown_field() -> Extension {
    let mut extension = Extension::default();
    assert!(extension.set(999, b"later"));
    extension
}

/// What a later version has written is there still when it comes back: a tube paused and resumed,
/// its leases released, and a task taken, retried, taken, buried and kicked.
#[test]
fn fields_of_a_later_version_survive_every_rewrite() {
    let mut played = Played::new();
    let mut row = played.rows.tube("first").row;
    row.extension = unknown_field();
    played.rows.set(key::tube(1), row.encode());
    let id = played.put(NewRow { payload: b"x", ..NewRow::default() });
    let head = TaskProgress { extension: unknown_field(), ..TaskProgress::fresh(NEVER, NEVER) };
    let ready = played.rows.in_tube("first", Tag::Ready);
    played.rows.set(ready, head.encode(None));
    let own = played.rows.in_tube("first", Tag::Task);
    let raw = played.rows.rows[&own].clone().unwrap();
    let section = [0, 9, 0x03, 0xe7, 0, 5, b'l', b'a', b't', b'e', b'r'];
    let task = TaskRow { extension: &section, ..TaskRow::decode(&raw).unwrap() }.encode();
    played.rows.set(own.clone(), task.clone());
    assert_eq!(played.rows.faults(), NOTHING);

    let kept = |played: &Played| {
        let tube = played.rows.tube("first");
        assert_eq!(tube.row.extension, unknown_field());
        assert_eq!(played.rows.rows[&own].as_ref(), Some(&task));
        let (_, standing) = transition::find(&played.rows, &tube, id).unwrap();
        assert_eq!(standing.head().extension, unknown_field(), "{:?}", standing.state());
        assert_eq!(played.rows.faults(), NOTHING);
    };
    for paused in [true, false] {
        played.run(&Pause { tube: 1, paused }).unwrap();
        kept(&played);
    }
    let take = Take { tube: 1, most: 1, holder: 0 };
    let retry = || Verdict::Retry { error: "no", after: Some(std::time::Duration::ZERO) };
    let bury = || Verdict::Bury(crate::words::task::Reason::Buried("no".into()));
    for verdict in [retry(), bury()] {
        let ticket = played.run(&take).unwrap()[0].ticket();
        kept(&played);
        played.run(&Settle { tube: 1, tickets: &[ticket], verdict }).unwrap();
        kept(&played);
    }
    played.run(&Tool { tube: 1, id, verb: Verb::Kick }).unwrap();
    kept(&played);
    let ticket = played.run(&take).unwrap()[0].ticket();
    played.run(&ReleaseAll { tube: 1 }).unwrap();
    let at = played.rows.keys(Tag::Work).remove(0);
    let mut work = WorkRow::decode(played.rows.rows[&at].as_ref().unwrap()).unwrap();
    work.extension = unknown_field();
    played.rows.set(at.clone(), work.encode());
    played.run(&ReleaseAll { tube: 1 }).unwrap();
    let again = WorkRow::decode(played.rows.rows[&at].as_ref().unwrap()).unwrap();
    assert_eq!(again.extension, unknown_field());
    assert!(
        played.run(&Settle { tube: 1, tickets: &[ticket], verdict: Verdict::Ack }).unwrap().len()
            == 1,
        "void"
    );
    while played.run(&Sweep).unwrap() {}
    kept(&played);
}
