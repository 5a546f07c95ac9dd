//! Each fault that a test can plant in a row of each tag is mended, and no task is lost: a missing
//! row, an extra one, a damaged and a wrong value. Where something stays, the table says what.

use super::super::strays::has_id;
use super::edited::play;
use super::lines::drop_payload;
use super::{NOTHING, Rows, filled, is_swept};
use crate::engine::audit::Fix;
use crate::engine::cascade::FollowEnds;
use crate::engine::context::{Repaired, Reserve};
use crate::engine::effects::NextDue;
use crate::engine::mend::{Mend, RepairPlan};
use crate::engine::repair::Repair;
use crate::engine::stored::TaskState;
use crate::engine::sweep::Sweep;
use crate::engine::tube_cache::{KnownTubes, TubeEntry};
use crate::engine::{lookup, state_rows};
use crate::format::key::{self, Key, Range, Run, Work};
use crate::format::piece::{PIECE_BYTES_MAX, PieceWork};
use crate::format::row::PayloadPlace;
use crate::format::{Tag, Value, View};
use crate::words::error::DamagedRow;
use crate::words::limits::FIXES_OF_OP;
use crate::words::numbers::Numbers;
use crate::words::task::TaskId;
use std::collections::BTreeSet;

pub(super) struct NoTubes;

impl KnownTubes for NoTubes {
    fn known(&self, _number: u32) -> Option<&TubeEntry> {
        None
    }

    fn bound(&self, _number: u32) -> Option<NextDue> {
        None
    }
}

/// The name of a fix.
fn kind(fix: &Fix) -> String {
    let text = format!("{fix:?}");
    text.split('(').next().unwrap_or_default().to_owned()
}

/// The rows that a repair looks at.
pub(super) fn durable() -> Rows {
    let mut rows = Rows { has_temporary: false, ..filled() };
    rows.rows.retain(|key, _| !key::is_temporary(key));
    rows.counts = rows.counts.is_some().then(|| rows.counted());
    rows
}

/// Mends a plan. Returns the steps. What an op changes, a step names.
fn carry_out(rows: &mut Rows, plan: &RepairPlan, all: bool) -> Vec<String> {
    let (mut steps, repaired) = (Vec::new(), Repaired::new());
    let mut numbers = Reserve { next: Numbers::both(10_000), end: Numbers::both(u64::MAX) };
    plan.each_op(all, |findings| {
        assert!(findings.len() <= FIXES_OF_OP);
        rows.counts = Some(rows.counted());
        let before = (rows.rows.clone(), rows.bytes);
        let op = Mend { findings };
        let done = play(rows, &NoTubes, (&mut numbers, &repaired), &op).unwrap().0;
        assert_eq!(before != (rows.rows.clone(), rows.bytes), !done.is_empty(), "{done:?}");
        let is_mended = !done.is_empty();
        steps.extend(done);
        Ok(is_mended)
    })
    .unwrap();
    steps
}

/// Repairs until nothing is done any more. Returns the steps. Adds the kinds of fixes that there
/// were.
pub(super) fn mend(rows: &mut Rows, kinds: &mut BTreeSet<String>) -> Vec<String> {
    let (mut steps, mut all) = (Vec::new(), false);
    for _ in 0..20 {
        rows.counts = Some(rows.counted());
        let plan = RepairPlan::of(rows).unwrap();
        let done = carry_out(rows, &plan, all);
        all = plan.changes_tubes() && done.is_empty() && !all;
        kinds.extend(plan.all().iter().map(|planned| kind(planned.fix())));
        if done.is_empty() && !all {
            return steps;
        }
        steps.extend(done);
    }
    steps.push("there is no end".to_owned());
    steps
}

pub(super) fn recounted(rows: &mut Rows) -> Vec<String> {
    rows.counts = Some(rows.counted());
    rows.faults()
}

pub(super) fn sweep(rows: &mut Rows) {
    let mut numbers = Reserve { next: Numbers::both(20_000), end: Numbers::both(u64::MAX) };
    rows.counts = None;
    while play(rows, &NoTubes, (&mut numbers, &Repaired::new()), &Sweep).unwrap().0 {}
    for kind in [Work::Unlink, Work::Cascade] {
        let op = FollowEnds { kind, of: None };
        while play(rows, &NoTubes, (&mut numbers, &Repaired::new()), &op).unwrap().0.is_any {}
    }
}

/// The tasks, without those that a sweep removes.
pub(super) fn tasks(rows: &Rows) -> BTreeSet<TaskId> {
    let keys = Tag::TASKS.into_iter().flat_map(|tag| rows.keys(tag));
    keys.filter(|key| !is_swept(rows, key)).filter_map(|key| key::id_of(&key)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    Missing,
    Extra,
    Damaged,
    /// The last byte of the value is another.
    Wrong,
    /// The value of another row of the tag, or none.
    Other,
    /// Another row with the id of a task of another tube.
    Double,
}

const PLANTS: [Plant; 6] =
    [Plant::Missing, Plant::Extra, Plant::Damaged, Plant::Wrong, Plant::Other, Plant::Double];

/// A task of another tube than that of this key.
fn of_other_tube(rows: &Rows, key: &[u8]) -> Option<(Run, TaskId)> {
    let range = Range::holding(key).filter(|range| has_id(range.tag))?;
    // What a sweep clears goes before a repair.
    let run = range.run.filter(|run| !run.is_temporary() && !is_swept(rows, key))?;
    key::id_of(key)?;
    let others = ["first", "unique"].map(|name| (rows.tube(name).run(), name));
    let (run, name) = others.into_iter().find(|(other, _)| *other != run)?;
    Some((run, key::id_of(&rows.in_tube(name, Tag::Buried))?))
}

/// The same key with another id.
fn with_id(key: &Key, id: TaskId) -> Key {
    let mut other = key.clone();
    let at = other.len() - 8;
    other[at..].copy_from_slice(&id.get().to_be_bytes());
    other
}

/// The rows of a task, under its run and beside that.
fn rows_of(rows: &Rows, (run, id): (Run, TaskId)) -> Vec<(Key, Option<Value>)> {
    let is_of = |key: &Key| match Range::holding(key).and_then(|range| range.run) {
        Some(of) => of == run && key::id_of(key) == Some(id),
        None => [key::history_of(Run::QUEUE, id), key::pieces_of(Run::QUEUE, id)]
            .iter()
            .any(|of| key.starts_with(of)),
    };
    let rows = rows.rows.iter().filter(|(key, _)| is_of(key));
    rows.map(|(key, row)| (key.clone(), row.clone())).collect()
}

/// The ids of tasks that two tubes have.
fn doubles(rows: &Rows) -> Vec<TaskId> {
    let (mut ids, mut doubles) = (BTreeSet::new(), Vec::new());
    for key in Tag::TASKS.into_iter().flat_map(|tag| rows.keys(tag)) {
        let id = key::id_of(&key).unwrap();
        if !ids.insert(id) {
            doubles.push(id);
        }
    }
    doubles
}

/// Plants a fault. `None` if there is no such fault in this row.
fn planted(sound: &Rows, key: &Key, plant: Plant) -> Option<Rows> {
    let mut rows = sound.clone();
    let value = rows.rows[key].clone()?;
    match plant {
        Plant::Missing => drop(rows.rows.remove(key)),
        Plant::Damaged => drop(rows.rows.insert(key.clone(), None)),
        Plant::Extra => {
            let mut stray = key.clone();
            *stray.last_mut()? ^= 0x40;
            rows.set(stray, value);
        }
        Plant::Wrong => {
            let mut wrong = value.to_vec();
            match wrong.last_mut() {
                Some(last) => *last ^= 1,
                None => wrong.push(7),
            }
            rows.set(key.clone(), Value::from(wrong.as_slice()));
        }
        Plant::Other => {
            let tag = Tag::of(key[0]).unwrap();
            let others = sound.keys(tag).into_iter().map(|key| sound.rows[&key].clone());
            let other = others.flatten().find(|other| *other != value)?;
            rows.set(key.clone(), other);
        }
        Plant::Double => {
            let (_, id) = of_other_tube(sound, key)?;
            rows.set(with_id(key, id), value);
        }
    }
    Some(rows)
}

/// What stays: a payload that is damaged is not known any more. Its task is buried.
fn stays(tag: Tag, plant: Plant, left: &[String]) -> bool {
    let lines =
        ["a payload is not the one", "a piece is missing", "not the bytes of", "Piece: a dam"];
    let is_of_payload = |line: &String| {
        lines.iter().any(|of| line.contains(of)) || line.contains("PieceTemporary: a damaged row")
    };
    let is_about = plant != Plant::Double
        && match tag {
            Tag::Piece | Tag::PieceTemporary => plant != Plant::Extra,
            tag => Tag::TASKS.contains(&tag),
        };
    is_about && left.iter().all(is_of_payload)
}

/// Whether it is of a task that a sweep removes, with all that is left of it.
pub(super) fn is_beside_swept(rows: &Rows, key: &[u8]) -> bool {
    let is_beside = Range::holding(key).is_some_and(|range| range.run.is_none());
    let mut tasks = Tag::TASKS.into_iter().flat_map(|tag| rows.keys(tag));
    let id = key.get(1..9).filter(|_| is_beside);
    id.is_some_and(|id| tasks.any(|task| task.ends_with(id) && is_swept(rows, &task)))
}

/// Whether nothing else says that there was this task.
fn is_all_of_task(rows: &Rows, key: &Key) -> bool {
    let Some((run, id)) = Range::holding(key).and_then(|range| range.run).zip(key::id_of(key))
    else {
        return false;
    };
    let pieces = key::pieces_of(run, id);
    !rows.rows.keys().any(|other| {
        let of_run = Range::holding(other).is_some_and(|range| range.run == Some(run));
        other != key && (of_run && key::id_of(other) == Some(id) || other.starts_with(&pieces))
    })
}

/// Plants one fault and repairs. Returns what is wrong after that.
fn wrong_after(
    sound: &Rows,
    (key, plant): (&Key, Plant),
    kinds: &mut BTreeSet<String>,
) -> Option<String> {
    let mut rows = planted(sound, key, plant)?;
    let (tag, found) = (Range::holding(key)?.tag, recounted(&mut rows));
    let mut steps = mend(&mut rows, kinds);
    let is_of_swept = is_beside_swept(sound, key);
    if found.is_empty() != steps.is_empty() && !is_of_swept && !stays(tag, plant, &found) {
        return Some(format!("found {found:?}, done {steps:?}"));
    }
    let double = of_other_tube(sound, key).filter(|_| plant == Plant::Double);
    if let Some(double) = double
        && rows_of(&rows, double) != rows_of(sound, double)
    {
        return Some(format!("the other task has changed: {steps:?}"));
    }
    let there = tasks(&rows);
    let is_unknown = plant == Plant::Missing && tag == Tag::Fresh && is_all_of_task(sound, key);
    let all = tasks(sound);
    let lost: Vec<_> = all.difference(&there).filter(|_| !is_unknown).collect();
    for round in 0..2 {
        let left = recounted(&mut rows);
        if !lost.is_empty()
            || !doubles(&rows).is_empty()
            || left != NOTHING && !stays(tag, plant, &left) && !(is_of_swept && round == 0)
        {
            return Some(format!("left {left:?}, lost {lost:?}, done {steps:?}"));
        }
        sweep(&mut rows);
        steps.extend(mend(&mut rows, kinds));
    }
    None
}

/// Every kind of fix, by one fault in each row of each tag, and by some more.
#[test]
fn every_planted_fault_is_mended() {
    let sound = durable();
    let (mut wrong, mut kinds) = (Vec::new(), BTreeSet::new());
    for key in sound.rows.keys() {
        for plant in PLANTS {
            if let Some(why) = wrong_after(&sound, (key, plant), &mut kinds) {
                let tag = Tag::of(key[0]);
                wrong.push(format!("{plant:?} {tag:?} {key:02x?}: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let all = "Bytes Counters Day Double Edges Fresh Lease Payload Pieces Remains Remove Reports \
               RollBack Run Set Stated Sum Tags Task Tube Twin";
    assert_eq!(kinds, all.split(' ').map(str::to_owned).collect());
}

/// What an op finds is not what the audit found: it leaves it.
#[test]
fn a_finding_whose_rows_have_changed_is_left() {
    let sound = durable();
    let mut left = 0;
    for key in sound.rows.keys() {
        for plant in PLANTS {
            let Some(mut rows) = planted(&sound, key, plant) else { continue };
            rows.counts = Some(rows.counted());
            let plan = RepairPlan::of(&rows).unwrap();
            // These do not look at the row, and cannot harm: of a count the difference is added,
            // because every other op adds differences too and only a repair makes it right, and no
            // two repairs run at a time. Counters only grow: numbers that seemed in use are left
            // out.
            let is_difference = |fix: &Fix| {
                matches!(fix, Fix::Sum(_) | Fix::Day(_) | Fix::Bytes(_) | Fix::Counters(_))
            };
            let again = RepairPlan::of(&rows).unwrap().all();
            if again.iter().any(|planned| is_difference(planned.fix())) {
                continue;
            }
            left += again.len();
            // The row is as it should be by now.
            let mut rows = sound.clone();
            let done = carry_out(&mut rows, &plan, false);
            assert_eq!(done, NOTHING, "{plant:?} {key:02x?}");
            assert!(rows.rows == sound.rows);
        }
    }
    assert!(left > 100, "{left}");
}

/// A name row that leads to another tube with the same run, and two consumers with one name.
#[test]
fn of_two_with_one_name_one_stays() {
    let mut rows = durable();
    let tube = rows.tube("first").row;
    let number = rows.tube("first").number;
    rows.set(key::tube(number + 40), tube.encode());
    let ada = rows.rows[&key::consumer(1)].clone().unwrap();
    rows.set(key::consumer(9), ada);
    let before = tasks(&rows);
    let steps = mend(&mut rows, &mut BTreeSet::new());
    assert!(steps.iter().any(|step| step.contains("every task stays in the other one")));
    assert_eq!((recounted(&mut rows), tasks(&rows)), (vec![], before), "{steps:?}");
    assert!(!rows.rows.contains_key(&key::consumer(9)));
}

/// Of a task that has neither its own row nor one of its state, the other rows say that it was.
#[test]
fn a_task_of_which_only_an_index_is_left_is_brought_back() {
    let sound = durable();
    let mut brought = 0;
    for key in sound.keys(Tag::Task).into_iter().chain(sound.keys(Tag::Fresh)) {
        let Some(Range { run: Some(run), .. }) = Range::holding(&key) else { continue };
        let id = key::id_of(&key).unwrap();
        if is_swept(&sound, &key) {
            continue;
        }
        let mut rows = sound.clone();
        rows.rows.retain(|other, _| {
            let range = Range::holding(other).filter(|range| range.run == Some(run));
            let is_task = |tag: Tag| tag.state().is_some() || Tag::TASKS.contains(&tag);
            !(range.is_some_and(|range| is_task(range.tag)) && key::id_of(other) == Some(id))
        });
        let left = |other: &Key| {
            let of_run = Range::holding(other).is_some_and(|range| range.run == Some(run));
            let pieces = key::pieces_of(run, id);
            of_run && key::id_of(other) == Some(id) || other.starts_with(&pieces)
        };
        let has_left = rows.rows.keys().any(left);
        let steps = mend(&mut rows, &mut BTreeSet::new());
        if has_left {
            brought += 1;
            assert!(tasks(&rows).contains(&id), "{id}: {steps:?}");
            let named = format!("task {id}: only");
            assert!(steps.iter().any(|step| step.contains(&named)), "{id}: {steps:?}");
        }
        assert_eq!(recounted(&mut rows), NOTHING, "{id}: {steps:?}");
    }
    assert!(brought > 10, "{brought}");
}

/// A put that is not finished is rolled back, and what no work row names comes back only if it is
/// the whole payload of a task.
#[test]
fn pieces_of_a_put_that_was_not_finished_make_no_task() {
    let (sound, id) = (durable(), TaskId::new(950));
    let bytes = 3 * PIECE_BYTES_MAX;
    let rolled = "the pieces of a payload that task 950 does not have yet are removed".to_owned();
    let removed = format!("3 pieces with {bytes} bytes were removed");
    let back = "the task was brought back, buried, in the tube \"recovered\"".to_owned();
    let staged = key::work(Work::Staged, Run(1), id);
    let other = PieceWork::new(7, 0..3).encode();
    let works = [(Some(None), &rolled), (Some(Some(other)), &rolled), (None, &removed)];
    for (end, (work, step)) in
        [false, true].into_iter().flat_map(|end| works.clone().map(|work| (end, work)))
    {
        let mut rows = sound.clone();
        for number in 0..3 {
            let length = if end && number == 2 { 77 } else { PIECE_BYTES_MAX };
            let piece = vec![7; length];
            rows.set(key::piece(Run(1), id, 1, number), Value::from(piece.as_slice()));
        }
        let has_work = work.is_some();
        if let Some(row) = work {
            rows.rows.insert(staged.clone(), row);
        }
        assert_ne!(recounted(&mut rows), NOTHING);
        let steps = mend(&mut rows, &mut BTreeSet::new());
        let step = if end && !has_work { &back } else { step };
        assert!(steps.iter().any(|done| done.contains(step)), "{step}: {steps:?}");
        assert_eq!(recounted(&mut rows), NOTHING, "{steps:?}");
        sweep(&mut rows);
        assert_eq!(recounted(&mut rows), NOTHING, "{steps:?}");
        let is_back = end && !has_work;
        assert_eq!(tasks(&rows).contains(&id), is_back);
        let left = rows.keys(Tag::Piece).into_iter().filter(|piece| is_of(piece, id)).count();
        assert_eq!(left, if is_back { 3 } else { 0 });
    }
}

fn is_of(piece: &Key, id: TaskId) -> bool {
    key::of_piece(piece).is_some_and(|(of, _, _)| of == id)
}

/// A row that wrongly says that the payload was not kept: the payload is kept, or the task without
/// one is buried and stays in the report. A taken one keeps its holder.
#[test]
fn a_payload_that_seems_not_kept_is_kept_or_its_task_buried() {
    for (payload, is_taken, buries) in
        [(&b"alone"[..], true, 0), (b"alone", false, 0), (b"", true, 0), (b"", false, 1)]
    {
        let mut rows = durable();
        let first = Range::holding(&rows.in_tube("first", Tag::Fresh)).unwrap();
        let taken = |at: &Key| {
            let run = first.run.unwrap();
            rows.rows.contains_key(&key::taken(run, key::id_of(at).unwrap()))
        };
        let mut fresh = rows.keys(Tag::Fresh).into_iter();
        let at = fresh.find(|at| Range::holding(at) == Some(first) && taken(at) == is_taken);
        let at = at.unwrap();
        let id = key::id_of(&at).unwrap();
        let (left, state) = match payload {
            b"" => (1, if is_taken { "Taken" } else { "Buried" }),
            _ => (0, ""),
        };
        drop_payload(&mut rows, at, PayloadPlace::Inline(payload));
        let steps = mend(&mut rows, &mut BTreeSet::new());
        let faults = recounted(&mut rows);
        assert_eq!(faults.len(), left, "{faults:?}");
        assert!(
            faults.iter().all(|line| line.contains(&format!("not kept, but it is {state}"))),
            "{faults:?}"
        );
        assert!(tasks(&rows).contains(&id), "{steps:?}");
        let buried = steps.iter().filter(|step| step.ends_with("its payload is lost")).count();
        assert_eq!(buried, buries, "{steps:?}");
    }
}

/// A finished task without its payload that has lost the row of its state is done again.
#[test]
fn a_finished_task_without_its_payload_stays_done() {
    let mut rows = durable();
    let done = rows.in_tube("first", Tag::Done);
    let id = key::id_of(&done).unwrap();
    let own = rows.keys(Tag::Task).into_iter().find(|key| key::id_of(key) == Some(id));
    let fresh = rows.keys(Tag::Fresh).into_iter().find(|key| key::id_of(key) == Some(id));
    drop_payload(&mut rows, own.or(fresh).unwrap(), PayloadPlace::Inline(b""));
    mend(&mut rows, &mut BTreeSet::new());
    assert_eq!(recounted(&mut rows), NOTHING);
    rows.rows.remove(&done);
    let steps = mend(&mut rows, &mut BTreeSet::new());
    assert_eq!(recounted(&mut rows), NOTHING, "{steps:?}");
    assert!(rows.rows.contains_key(&done), "{steps:?}");
}

/// Of two states of a task the one that must not run again, or that has a holder, stays.
#[test]
fn of_two_states_the_later_one_stays() {
    for tag in [Tag::Done, Tag::Taken, Tag::Buried] {
        let mut rows = durable();
        let kept = rows.in_tube("first", tag);
        let (tube, id) = (rows.tube("first"), key::id_of(&kept).unwrap());
        let (stored, state) = lookup::find(&rows, &tube, id).unwrap();
        let stored = stored.whole(&rows, &tube).unwrap();
        let ready = TaskState::Ready(state.progress().clone());
        let row = state_rows::state_row(&stored.task(&tube).unwrap(), &ready);
        let (key, value) = row.unwrap();
        rows.set(key.clone(), value);
        let steps = mend(&mut rows, &mut BTreeSet::new());
        assert_eq!(recounted(&mut rows), NOTHING, "{tag:?}: {steps:?}");
        let stays = (rows.rows.contains_key(&kept), rows.rows.contains_key(&key));
        assert_eq!(stays, (true, false), "{tag:?}: {steps:?}");
    }
}

/// A damaged row with the id of a task of another tube: an op that meets it makes no second task,
/// and a repair removes it. With its own row, which of the two is damaged too, the task stays
/// there.
#[test]
fn a_damaged_row_makes_no_second_task() {
    let sound = durable();
    for tag in Tag::states() {
        let range = sound.tube("first").range(tag);
        let key = sound.first(&range.start(), &range.end()).unwrap().map(|(key, _)| key);
        let Some(key) = key else { continue };
        let other = of_other_tube(&sound, &key).unwrap();
        let double = with_id(&key, other.1);
        let mut rows = sound.clone();
        assert!(rows.rows.insert(double.clone(), None).is_none());
        rows.counts = Some(rows.counted());
        let before = rows.rows.clone();
        let mut numbers = Reserve { next: Numbers::both(10_000), end: Numbers::both(u64::MAX) };
        let tube = rows.tube("first").number;
        let row = DamagedRow { tube, key: double.as_slice().into() };
        let op = Repair::Row(row);
        play(&mut rows, &NoTubes, (&mut numbers, &Repaired::new()), &op).unwrap();
        assert!(rows.rows == before, "{tag:?}");
        let mut damaged = rows.clone();
        let own = rows_of(&sound, other).into_iter().map(|(key, _)| key);
        let own = own.filter(|key| Tag::TASKS.iter().any(|tag| key.starts_with(&[*tag as u8])));
        for own in own.collect::<Vec<_>>() {
            damaged.rows.insert(own, None);
        }
        let steps = mend(&mut rows, &mut BTreeSet::new());
        assert!(rows.rows == sound.rows, "{tag:?}: {steps:?}");
        let steps = mend(&mut damaged, &mut BTreeSet::new());
        assert_eq!((recounted(&mut damaged), doubles(&damaged)), (vec![], vec![]), "{steps:?}");
        assert_eq!(tasks(&damaged), tasks(&sound), "{steps:?}");
    }
}

/// A second name leads to a tube that is sound, and a run has lost its tube: the run gets a number
/// of its own.
#[test]
fn an_adopted_tube_does_not_get_the_number_of_a_sound_one() {
    let mut rows = durable();
    let (first, names) = (rows.tube("first"), rows.keys(Tag::Name));
    let other = names.iter().find(|name| {
        let number = rows.rows[*name].as_deref().and_then(crate::format::row::read_number);
        number.is_some_and(|number| number != u64::from(first.number))
    });
    let number = rows.rows[other.unwrap()].clone().unwrap();
    let other = crate::format::row::read_number(&number).unwrap() as u32;
    let before = (tasks(&rows), rows.rows[&key::tube(other)].clone());
    rows.rows.remove(&key::tube(first.number));
    rows.set(key::name("first"), number);
    let steps = mend(&mut rows, &mut BTreeSet::new());
    assert_eq!(recounted(&mut rows), NOTHING, "{steps:?}");
    assert_eq!((tasks(&rows), rows.rows[&key::tube(other)].clone()), before, "{steps:?}");
}

/// A finished task of which the own row is damaged is still done, with its result.
#[test]
fn a_finished_task_with_a_damaged_own_row_keeps_its_result() {
    for is_missing in [false, true] {
        let mut rows = durable();
        let done = rows.in_tube("first", Tag::Done);
        let (tube, id) = (rows.tube("first"), key::id_of(&done).unwrap());
        let (stored, _) = lookup::find(&rows, &tube, id).unwrap();
        let own = key::task(tube.run(), &stored.home, id);
        match is_missing {
            true => drop(rows.rows.remove(&own)),
            false => drop(rows.rows.insert(own.clone(), None)),
        }
        let steps = mend(&mut rows, &mut BTreeSet::new());
        assert_eq!(recounted(&mut rows), NOTHING, "{steps:?}");
        let (_, state) = lookup::find(&rows, &tube, id).unwrap();
        let TaskState::Done(row) = state else { panic!("{steps:?}") };
        assert_eq!(row.result_bytes(), 6, "{steps:?}");
        assert!(steps.iter().any(|step| step.contains("and the task is done")), "{steps:?}");
    }
}

/// The row of a tube is that of another one: its tasks come back under its own name and number.
#[test]
fn a_tube_with_the_row_of_another_one_gets_its_name_back() {
    let mut rows = durable();
    let (first, other) = (rows.tube("first"), rows.tube("source"));
    rows.set(key::tube(first.number), other.row.encode());
    let before = tasks(&rows);
    let steps = mend(&mut rows, &mut BTreeSet::new());
    assert_eq!((recounted(&mut rows), tasks(&rows)), (vec![], before), "{steps:?}");
    let again = rows.tube("first");
    assert_eq!((again.number, again.run()), (first.number, first.run()), "{steps:?}");
}

/// A tube whose row is damaged waits for its repair with its voided leases. What others have to
/// clear goes on.
#[test]
fn a_sweep_of_a_damaged_tube_stops_no_other_sweep() {
    let mut rows = filled();
    let voided = rows.tube("voided").number;
    rows.rows.insert(key::tube(voided), None);
    let (repaired, clears) = (Repaired::new(), key::work_of(Work::Clear));
    let mut numbers = Reserve { next: Numbers::both(10_000), end: Numbers::both(u64::MAX) };
    let is_left = |rows: &Rows| rows.keys(Tag::Work).iter().any(|at| at.starts_with(&clears));
    assert!(is_left(&rows));
    for _ in 0..100 {
        // It is damaged as soon as there is nothing else to do.
        let swept = play(&mut rows, &NoTubes, (&mut numbers, &repaired), &Sweep);
        assert!(swept.is_ok() || !is_left(&rows));
    }
    assert!(!is_left(&rows));
}
