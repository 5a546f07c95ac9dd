//! Ops over rows that the test edited between them: an option that changes while the queue is open,
//! and several works at a time, must break nothing.

use super::{NOTHING, Rows, work};
use crate::api::queue::Queue;
use crate::engine::by_id::{Tool, Verb};
use crate::engine::consumers::{End, Join, LeasePlace, Leave, Leaving, Leftover, Resume};
use crate::engine::context::{Op, OpContext, Repaired, Reserve};
use crate::engine::decision::Decision;
use crate::engine::effects::NextDue;
use crate::engine::new_row::NewRow;
use crate::engine::payload::StoredPayload;
use crate::engine::pieces::Staged;
use crate::engine::put::PutTasks;
use crate::engine::settle::Settle;
use crate::engine::staging::{RollBack, StagePieces};
use crate::engine::sweep::Sweep;
use crate::engine::take::{Claim, Take};
use crate::engine::tube_cache::{KnownTubes, TubeEntry};
use crate::engine::tubes::{Pause, ReleaseAll, Truncate};
use crate::engine::{description, lookup, query};
use crate::format::extension::Extension;
use crate::format::key::{self, Home, Run, Work};
use crate::format::piece::{PIECE_BYTES_MAX, Pieces};
use crate::format::row::{
    Counters, DayDelta, DayItems, DayRow, StoredHome, TaskProgress, TaskRow, WorkRow,
};
use crate::format::{RowOp, Tag, Value};
use crate::words::clock::{NEVER, Now};
use crate::words::consumer::ConsumerOptions;
use crate::words::error::{DamagedRow, ErrorKind, Result};
use crate::words::history::HistoryLimits;
use crate::words::limits::SWEEP_TASKS;
use crate::words::numbers::Numbers;
use crate::words::options::TubeOptions;
use crate::words::task::{State, TaskId};
use crate::words::verb::{Extend, PauseTerms, Release, Verdict};
use std::time::Duration;

pub(super) const NOW: Now = Now { queue: 1_000, wall: 1_000, lease: 1_000 };

/// One known tube.
struct One(TubeEntry);

impl KnownTubes for One {
    fn known(&self, number: u32) -> Option<&TubeEntry> {
        Some(&self.0).filter(|tube| tube.number == number)
    }

    fn bound(&self, _number: u32) -> Option<NextDue> {
        None
    }
}

/// Decides an op and applies it. Returns the bytes of its row writes in the journal too.
pub(super) fn play<O: Op>(
    rows: &mut Rows,
    known: &dyn KnownTubes,
    (numbers, repaired): (&mut Reserve, &Repaired),
    op: &O,
) -> Result<(O::Done, usize)> {
    let (mut decision, mut journaled) = (Decision::default(), 0);
    let (wants, now, view) = (None, NOW, &*rows);
    let mut ctx = OpContext { view, known, numbers, decision: &mut decision, wants, repaired, now };
    let done = op.decide(&mut ctx)?;
    rows.bytes = rows.bytes.saturating_add_signed(decision.effects.durable_bytes);
    let rows = &mut rows.rows;
    decision.rows.layer.drain_into(|(key, op)| {
        journaled += 3 + key.len() + op.value().map_or(0, |value| 4 + value.len());
        match op {
            RowOp::Add(row) => assert_eq!(rows.insert(key, Some(row)), None),
            RowOp::Change(row) => assert!(rows.insert(key, Some(row)).is_some()),
            RowOp::Remove => assert!(rows.remove(&key).is_some(), "{key:02x?}"),
        }
    });
    for entry in decision.rows.days {
        let key = key::day(entry.run, entry.day);
        let row = rows.get(&key).cloned().flatten().and_then(|row| DayRow::decode(&row));
        if let Some(mut row) = row {
            let (mut items, mut sum) = (DayItems::default(), DayDelta::default());
            items.push(entry.item);
            sum.add(&items);
            row.add(&sum);
            rows.insert(key, Some(row.encode()));
        }
    }
    Ok((done, journaled))
}

/// Rows with a tube "first", and the other arguments of an op.
pub(super) struct Played {
    pub(super) rows: Rows,
    pub(super) tube: u32,
    numbers: Reserve,
    /// Bytes of the row writes in the journal.
    journaled: usize,
    repaired: Repaired,
}

impl Played {
    pub(super) fn new() -> Self {
        Self::of(TubeOptions::default())
    }

    /// With a first tube of these options.
    pub(super) fn of(options: TubeOptions) -> Self {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        queue.create_tube("first", options).unwrap();
        Self::over(&queue)
    }

    /// Over the rows of a queue whose first tube is "first".
    pub(super) fn over(queue: &Queue) -> Self {
        let rows = Rows::of(queue);
        let (next, end) = (Numbers::both(1_000), Numbers::both(u64::MAX));
        let numbers = Reserve { next, end };
        Self { tube: rows.tube("first").number, rows, numbers, journaled: 0, repaired: vec![] }
    }

    /// The same once more, to go on in another way.
    pub(super) fn again(&self) -> Self {
        Self { rows: self.rows.clone(), repaired: self.repaired.clone(), ..*self }
    }

    /// Decides an op and applies it.
    pub(super) fn run<O: Op>(&mut self, op: &O) -> Result<O::Done> {
        let known = One(query::tube(&self.rows, self.tube)?);
        let (done, bytes) = play(&mut self.rows, &known, (&mut self.numbers, &self.repaired), op)?;
        self.journaled += bytes;
        Ok(done)
    }

    pub(super) fn put(&mut self, task: NewRow<'_>) -> TaskId {
        self.put_up_to(task, 1 << 20)
    }

    /// With a payload of at most so many bytes.
    pub(super) fn put_up_to(&mut self, task: NewRow<'_>, payload_bytes_max: usize) -> TaskId {
        let put = PutTasks {
            earlier: None,
            tube: self.tube,
            tasks: &[task],
            staged: &[],
            is_batch: false,
            payload_bytes_max,
            durable_bytes_max: u64::MAX,
            others_wait: false,
        };
        self.run(&put).unwrap()[0].id
    }

    pub(super) fn state(&self, id: TaskId) -> State {
        let tube = query::tube(&self.rows, self.tube).unwrap();
        description::info(&self.rows, &tube, id, NOW).unwrap().summary.state
    }
}

/// Regression: the rank of a plain task followed from the tube's default priority. A tube whose
/// default changed no longer found its plain tasks.
#[test]
fn a_default_priority_that_changes_hides_no_task() {
    let mut played = Played::new();
    let before = played.put(NewRow::PLAIN);
    let buried = played.put(NewRow::PLAIN);
    let tool = |id, verb| Tool { tube: 1, id, verb };
    played.run(&tool(buried, Verb::Bury(crate::words::task::Reason::Buried("no".into())))).unwrap();

    let mut tube = played.rows.tube("first").row;
    tube.options.priority = -5;
    played.rows.set(key::tube(1), tube.encode());
    assert_eq!(played.rows.faults(), NOTHING);
    let after = played.put(NewRow::PLAIN);
    assert_eq!(played.rows.faults(), NOTHING);
    assert_eq!(played.state(before), State::Ready);
    let taken = played.run(&Take::new(1, 1, 0)).unwrap();
    assert_eq!(taken[0].id, after, "the new default is the better one");
    played.run(&tool(buried, Verb::Kick)).unwrap();
    for id in [before, buried, after] {
        played.run(&tool(id, Verb::Delete { only_if: None, by_force: false })).unwrap();
        assert_eq!(played.rows.faults(), NOTHING);
    }
}

/// Regression: each run had only one work row. A `release_all` during another one, and a truncate
/// after both, each begin a work of their own; at the end every lease has returned and no work is
/// left.
#[test]
fn works_of_several_kinds_run_side_by_side_and_lose_nothing() {
    let mut played = Played::new();
    let take = |played: &mut Played, most| {
        (0..most).for_each(|_| _ = played.put(NewRow { group: Some("g"), ..NewRow::PLAIN }));
        (0..most).for_each(|_| _ = played.put(NewRow::PLAIN));
        played.run(&Take::new(1, most, 0)).unwrap().len()
    };
    assert_eq!(take(&mut played, 300), 300);
    played.run(&ReleaseAll { tube: 1 }).unwrap();
    assert!(played.run(&Sweep).unwrap());
    let run = played.rows.tube("first").run();
    assert!(played.rows.rows.contains_key(&work(Work::Release, run)), "more than one sweep");
    played.run(&Take::new(1, 9, 0)).unwrap();
    played.run(&ReleaseAll { tube: 1 }).unwrap();
    assert_eq!(played.rows.faults(), NOTHING);
    while played.run(&Sweep).unwrap() {}
    assert_eq!(played.rows.keys(Tag::Taken).len(), 0, "the new leases too, with lower ids");

    played.run(&Take::new(1, 200, 0)).unwrap();
    played.run(&ReleaseAll { tube: 1 }).unwrap();
    played.run(&Truncate { tube: 1 }).unwrap();
    assert_eq!(played.rows.keys(Tag::Work).len(), 2);
    assert_eq!(played.rows.faults(), NOTHING);
    played.run(&Sweep).unwrap();
    assert_eq!(played.rows.keys(Tag::Work).len(), 1, "no lease of the old run is waited for");
    while played.run(&Sweep).unwrap() {}
    assert_eq!(played.rows.faults(), NOTHING);
    for tag in Tag::in_runs().chain([Tag::Work]) {
        assert_eq!(played.rows.keys(tag), NOTHING_OF);
    }
}

const NOTHING_OF: [key::Key; 0] = [];

/// A consumer whose grace has so many microseconds.
fn about(grace: u64) -> ConsumerOptions {
    ConsumerOptions::new().grace(Duration::from_micros(grace))
}

/// Regression: after a `release_all` whose sweep had not reached it, as on a full disk, a lease was
/// handed out again with a new token. The sweep then left it taken.
#[test]
fn a_resume_hands_out_no_lease_that_release_all_voided() {
    let mut played = Played::new();
    let join = Join { name: "ada", about: &about(1_000), pid: 1, is_known: false };
    let holder = played.run(&join).unwrap();
    let id = played.put(NewRow::PLAIN);
    assert_eq!(played.run(&Take::new(1, 1, holder)).unwrap().len(), 1);
    played.run(&Leave { consumer: holder, active: None, how: Leaving::InGrace }).unwrap();
    played.run(&ReleaseAll { tube: 1 }).unwrap();
    assert_eq!(played.run(&join).unwrap(), holder);
    let resume = Resume { tube: 1, consumer: holder, holder, from: TaskId::new(0) };
    assert!(played.run(&resume).unwrap().0.is_empty());
    while played.run(&Sweep).unwrap() {}
    assert_eq!((played.state(id), played.rows.faults()), (State::Ready, vec![]));
}

/// Regression: the last number of a row of counters that another program wrote overflowed, and the
/// next tube would have had the run of the whole queue.
#[test]
fn a_truncate_without_a_number_left_is_refused() {
    let mut played = Played::new();
    for run in [Run::TEMPORARY - 1, u32::MAX] {
        let counters = Counters { run, tube: 1, ..Counters::default() };
        played.rows.set(key::meta(Counters::WHAT), counters.encode());
        let refused = played.run(&Truncate { tube: 1 }).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
}

/// Regression: a damaged lease with the highest id, which only another program writes, kept the
/// sweep busy without end.
#[test]
fn a_damaged_lease_of_the_highest_id_does_not_keep_a_sweep_busy() {
    let mut played = Played::new();
    played.put(NewRow::PLAIN);
    played.run(&Take::new(1, 1, 0)).unwrap();
    let last = key::taken(played.rows.tube("first").run(), TaskId::new(u64::MAX));
    played.rows.set(last, Value::from([]));
    played.run(&ReleaseAll { tube: 1 }).unwrap();
    let sweeps = (0..9).take_while(|_| played.run(&Sweep).unwrap()).count();
    assert_eq!(sweeps, 1);
}

/// Regression: a payload was journaled with the put and again with the take. Now it is written
/// once, and the other rows are so small that the journal of a task of 64 bytes or more does not
/// grow.
#[test]
fn put_take_and_ack_journal_a_payload_once() {
    for bytes in [0, 16, 64, 256, 512_usize] {
        let mut played = Played::new();
        played.put(NewRow { payload: &vec![7; bytes], ..NewRow::PLAIN });
        let handed = played.run(&Take::new(1, 1, 0)).unwrap();
        let StoredPayload::Read(payload) = &handed[0].payload else { panic!("{handed:?}") };
        assert_eq!(payload.len(), bytes);
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

/// A sweep read each payload of 1 MiB that it removed: 3 000 of them took 1.5 s. Their keys follow
/// from the tasks' own rows.
#[test]
fn a_sweep_reads_no_piece() {
    let reads = |bytes: usize| {
        let mut played = Played::new();
        (0..3).for_each(|_| _ = played.put(NewRow { payload: &vec![7; bytes], ..NewRow::PLAIN }));
        played.run(&Truncate { tube: 1 }).unwrap();
        let before = played.rows.reads.get();
        while played.run(&Sweep).unwrap() {}
        assert_eq!((played.rows.keys(Tag::Piece), played.rows.faults()), (vec![], vec![]));
        played.rows.reads.get() - before
    };
    let small = reads(3501);
    assert_eq!(reads(PIECE_BYTES_MAX), small);
    // Each has a work row, of which a step looks for the next one.
    assert!(reads(1 << 20) <= small + 30, "{} and {small}", reads(1 << 20));
}

/// No turn of a put holds more than its few pieces, and a crash after any of them is rolled back.
#[test]
fn a_put_in_turns_holds_a_few_pieces_and_is_rolled_back() {
    let payload = vec![7; 1 << 20];
    let pieces = Pieces::of(&payload);
    let tasks = [NewRow { payload: &payload, ..NewRow::PLAIN }];
    for turns in 1.. {
        let mut played = Played::new();
        let mut put = PutTasks {
            earlier: None,
            tube: 1,
            tasks: &tasks,
            staged: &[],
            is_batch: false,
            payload_bytes_max: 1 << 20,
            durable_bytes_max: u64::MAX,
            others_wait: false,
        };
        let mut before: Option<Staged> = None;
        for _ in 0..turns {
            let (journaled, first) = (played.journaled, before.map(|staged| staged.first));
            let stage = StagePieces { put: &put, task: 0, pieces, most: 4, before, first };
            before = played.run(&stage).unwrap();
            assert!(played.journaled - journaled <= 4 * (PIECE_BYTES_MAX + 100) + 100);
            assert_eq!(played.rows.faults(), NOTHING);
            assert_eq!(played.rows.keys(Tag::Work).len(), 1);
        }
        let staged = before.unwrap();
        let mut opened = Played { rows: played.rows.clone(), ..Played::new() };
        while opened.run(&RollBack).unwrap() {}
        while opened.run(&Sweep).unwrap() {}
        assert_eq!(opened.rows.faults(), NOTHING);
        let left = [Tag::Piece, Tag::Work].map(|tag| opened.rows.keys(tag).len());
        assert_eq!(left, [0; 2]);
        // A sweep leaves it to the put.
        assert!(!played.run(&Sweep).unwrap());
        let all = [staged];
        put.staged = &all;
        let journaled = played.journaled;
        match played.run(&put) {
            Ok(done) => {
                assert_eq!(
                    (done[0].id, staged.payload.written),
                    (staged.payload.id, pieces.count())
                );
                assert!(played.journaled - journaled < 500);
                assert_eq!(played.rows.keys(Tag::Work), NOTHING_OF);
                return assert_eq!(played.rows.faults(), NOTHING);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "pieces are missing"),
        }
    }
}

/// Regression: a heartbeat wrote the whole task again.
#[test]
fn a_heartbeat_or_a_retry_journals_no_payload() {
    // The entry of a history is no part of the task that is written again.
    let mut played = Played::of(TubeOptions::default().history(HistoryLimits::none()));
    played.put(NewRow { payload: &[7; 500], ..NewRow::PLAIN });
    let handed = played.run(&Take::new(1, 1, 0)).unwrap();
    let ticket = handed[0].ticket();
    let hour = std::time::Duration::from_secs(3600);
    for verdict in [
        Verdict::Touch(Extend::RenewFor(hour)),
        Verdict::Retry { error: "no", group: "", after: Some(hour) },
    ] {
        let before = played.journaled;
        played.run(&Settle { tube: 1, tickets: &[ticket], verdict }).unwrap();
        assert_eq!(played.rows.faults(), NOTHING);
        assert!(played.journaled - before < 250, "{}", played.journaled - before);
    }
}

/// A task that is released with another priority or to the back is found, taken and removed at its
/// new rank, while its own row stays at the first one.
#[test]
fn a_task_that_moves_leaves_its_own_row_at_its_home() {
    for (group, key) in [(None, None), (Some("g"), None), (None, Some("k"))] {
        let mut played = Played::new();
        let id = played.put(NewRow { payload: b"x", group, key, ..NewRow::PLAIN });
        played.put(NewRow { payload: b"y", group, ..NewRow::PLAIN });
        let terms = [Release::new().priority(-3), Release::new().to_back(), {
            Release::new().priority(0).delay(std::time::Duration::from_secs(1))
        }];
        for terms in terms {
            let handed = played.run(&Take::new(1, 1, 0)).unwrap();
            assert_eq!(handed[0].id, id);
            let (ticket, verdict) = (handed[0].ticket(), Verdict::Release(terms));
            played.run(&Settle { tube: 1, tickets: &[ticket], verdict }).unwrap();
            assert_eq!(played.rows.faults(), NOTHING);
        }
        assert_eq!(played.state(id), State::Delayed);
        let bury = Verb::Bury(crate::words::task::Reason::Buried("no".into()));
        for verb in [bury, Verb::Kick, Verb::Delete { only_if: None, by_force: false }] {
            played.run(&Tool { tube: 1, id, verb }).unwrap();
            assert_eq!(played.rows.faults(), NOTHING);
        }
        let left = Tag::TASKS.map(|tag| played.rows.keys(tag).len());
        assert_eq!(left.iter().sum::<usize>(), 1);
    }
}

/// One field that this version does not know.
fn unknown_field() -> Extension {
    let mut extension = Extension::default();
    assert!(extension.set(999, b"later"));
    extension
}

/// Fields of a later version are kept: when a tube is paused and resumed and its leases are
/// released, and when a task is taken, retried, taken, buried and kicked.
#[test]
fn fields_of_a_later_version_survive_every_rewrite() {
    let mut played = Played::new();
    let mut row = played.rows.tube("first").row;
    row.extension = unknown_field();
    played.rows.set(key::tube(1), row.encode());
    let id = played.put(NewRow { payload: b"x", ..NewRow::PLAIN });
    let progress = TaskProgress { extension: unknown_field(), ..TaskProgress::fresh(NEVER, NEVER) };
    // As a later version may put it: with fields a task is not fresh.
    let fresh = played.rows.in_tube("first", Tag::Fresh);
    let raw = played.rows.rows.remove(&fresh).unwrap().unwrap();
    let (run, rank) = (row.run, key::place_of(&fresh, key::RUN_PREFIX).unwrap());
    played.rows.set(key::ready(run, &rank, id), progress.encode(&StoredHome::default()));
    let own = key::task(run, &Home { rank, is_fresh: false }, id);
    let section = [0, 9, 0x03, 0xe7, 0, 5, b'l', b'a', b't', b'e', b'r'];
    let task = TaskRow { extension: &section, ..TaskRow::decode(&raw).unwrap() }.encode();
    played.rows.set(own.clone(), task.clone());
    assert_eq!(played.rows.faults(), NOTHING);

    let kept = |played: &Played| {
        let tube = played.rows.tube("first");
        assert_eq!(tube.row.extension, unknown_field());
        assert_eq!(played.rows.rows[&own].as_ref(), Some(&task));
        let (_, state) = lookup::find(&played.rows, &tube, id).unwrap();
        let later = state.progress().extension.get(999);
        assert_eq!(later, unknown_field().get(999), "{:?}", state.state());
        assert_eq!(played.rows.faults(), NOTHING);
    };
    for terms in [Some(PauseTerms::new()), None] {
        played.run(&Pause { tube: 1, terms }).unwrap();
        kept(&played);
    }
    let take = Take::new(1, 1, 0);
    let retry =
        || Verdict::Retry { error: "no", group: "", after: Some(std::time::Duration::ZERO) };
    let bury = || Verdict::bury(crate::words::task::Reason::Buried("no".into()));
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

/// Regression: a take whose caller had looked up the consumer before its session ended got a lease
/// after it. The end of the session may have passed its tube by then.
#[test]
fn nothing_is_handed_to_a_session_that_has_ended() {
    let mut played = Played::new();
    let join = Join { name: "ada", about: &about(1_000), pid: 1, is_known: false };
    let consumer = played.run(&join).unwrap();
    let ids = [(); 3].map(|()| played.put(NewRow::PLAIN));
    let take = Take::new(1, 1, consumer);
    assert_eq!(played.run(&take).unwrap()[0].id, ids[0]);
    played.run(&Leave { consumer, active: None, how: Leaving::InGrace }).unwrap();
    let claim = Claim { tube: 1, id: ids[1], holder: consumer };
    let resume = Resume { tube: 1, consumer, holder: consumer, from: TaskId::new(0) };
    assert_eq!(played.run(&take).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(played.run(&claim).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(played.run(&resume).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(played.run(&join).unwrap(), consumer);
    assert_eq!(played.run(&resume).unwrap().0[0].id, ids[0]);
    assert_eq!(played.run(&claim).unwrap().id, ids[1]);
    assert_eq!(played.run(&take).unwrap()[0].id, ids[2]);
}

/// Leases that are so damaged that they stay were looked at in every step, and all in one step.
#[test]
fn the_end_of_a_session_passes_by_damaged_leases() {
    let mut played = Played::new();
    let join = Join { name: "ada", about: &about(0), pid: 1, is_known: false };
    let consumer = played.run(&join).unwrap();
    let ids: Vec<_> = (0..3 * SWEEP_TASKS).map(|_| played.put(NewRow::PLAIN)).collect();
    played.run(&Take::new(1, ids.len(), consumer)).unwrap();
    let run = played.rows.tube("first").run();
    for id in &ids[..2 * SWEEP_TASKS] {
        let key = key::taken(run, *id);
        played.rows.rows.insert(key.clone(), None);
        played.repaired.push(DamagedRow { tube: 1, key: key.as_slice().into() });
    }
    let leave = Leave { consumer, active: None, how: Leaving::InGrace };
    let left = played.run(&leave).unwrap().unwrap().number;
    let mut from = LeasePlace::default();
    for step in 1..3 {
        let end = End { consumer, left, charged: true, tube: None, from, keep: 0 };
        from = LeasePlace { tube: 1, task: ids[step * SWEEP_TASKS].get(), ..from };
        assert_eq!(played.run(&end).unwrap(), Leftover::Leases(from));
    }
    for tube in [Some(1), None] {
        let end = End { consumer, left, charged: true, tube, from, keep: 0 };
        assert_eq!(played.run(&end).unwrap(), Leftover::Nothing);
        assert_eq!(played.rows.keys(Tag::Ready).len(), SWEEP_TASKS);
        assert_eq!(played.rows.keys(Tag::OwnerLease).len(), 2 * SWEEP_TASKS);
        assert_eq!(played.rows.keys(Tag::Consumer).is_empty(), tube.is_none());
    }
}
