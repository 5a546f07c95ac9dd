//! Tests that the audit finds faults: a queue with every kind of row is sound, and with any row
//! removed, added or changed it is not. Where a fault cannot be seen, the test says why.

mod dropped;
mod edited;
mod firing;
mod following;
mod homes;
mod kept;
mod kinds;
mod lines;
mod mended;
mod pieces;
mod reads;
mod slots;
mod tags;
mod values;

use crate::api::queue::Queue;
use crate::engine::context::damaged;
use crate::engine::merge::BeginMerge;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{follow, query};
use crate::format::key::{self, Key, Range, Run, Work};
use crate::format::piece::PieceWork;
use crate::format::row::{PendingGroups, PendingOptions, PendingSum, TubeRow, WorkRow};
use crate::format::{Met, Tag, Value, View};
use crate::words::clock::{Clock, ManualClock, NEVER};
use crate::words::error::Result;
use crate::words::options::TubeOptions;
use crate::words::retention::Retention;
use crate::words::task::{State, TaskId};
use crate::words::unique::Unique;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

const NOTHING: [&str; 0] = [];
const HOUR: Duration = Duration::from_secs(3600);

/// Rows that a test can edit. A damaged one is `None`.
#[derive(Clone)]
struct Rows {
    rows: BTreeMap<Key, Option<Value>>,
    /// `None`: counted from the rows, as if a fault had changed the counts too.
    counts: Option<BTreeMap<Range, u64>>,
    bytes: u64,
    reads: Cell<u64>,
    has_temporary: bool,
}

impl View for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.reads.set(self.reads.get() + 1);
        match self.rows.get(key) {
            Some(Some(row)) => Ok(Some(row.clone())),
            Some(None) => Err(damaged("planted")),
            None => Ok(None),
        }
    }

    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        self.reads.set(self.reads.get() + 1);
        let next = self.rows.range(Key::from_slice(from)..Key::from_slice(to)).next();
        Ok(next.map(|(key, row)| (key.clone(), row.clone())))
    }

    fn count(&self, range: Range) -> u64 {
        match &self.counts {
            Some(counts) => counts.get(&range).copied().unwrap_or(0),
            None => self.counted().get(&range).copied().unwrap_or(0),
        }
    }

    fn durable_bytes(&self) -> u64 {
        self.bytes
    }

    fn has_temporary(&self) -> bool {
        self.has_temporary
    }
}

impl Rows {
    /// Copies the rows of a queue.
    fn of(queue: &Queue) -> Self {
        let tube = queue.tube("first").unwrap();
        // The rows of days are up to date after it.
        queue.checkpoint().unwrap();
        let copied = tube.inner.core.look(|view, _| {
            let (counts, reads, bytes) = (None, Cell::default(), view.durable_bytes());
            let rows = BTreeMap::new();
            let mut copy = Self { rows, counts, bytes, reads, has_temporary: true };
            let mut from = Key::new();
            while let Some((key, row)) = view.first(&from, &[u8::MAX])? {
                from = key::after(&key);
                copy.rows.insert(key, row);
            }
            Ok(copy)
        });
        copied.unwrap()
    }

    fn counted(&self) -> BTreeMap<Range, u64> {
        let mut counts = BTreeMap::new();
        for range in self.rows.keys().filter_map(|key| Range::holding(key)) {
            *counts.entry(range).or_default() += 1;
            if range.run.is_some() {
                *counts.entry(Range::of(range.tag)).or_default() += 1;
            }
        }
        counts
    }

    /// The same rows with counts that do not change when rows are edited.
    fn with_kept_counts(&self) -> Self {
        Self { counts: Some(self.counted()), ..self.clone() }
    }

    fn faults(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Err(error) = super::lines(self, &mut |line| lines.push(line)) {
            lines.push(error.to_string());
        }
        lines
    }

    /// The rows of a tag, in order.
    fn keys(&self, tag: Tag) -> Vec<Key> {
        let keys = self.rows.keys().filter(|key| key.first() == Some(&(tag as u8)));
        keys.cloned().collect()
    }

    fn tube(&self, name: &str) -> TubeEntry {
        query::tube(self, query::tube_named(self, name).unwrap().unwrap()).unwrap()
    }

    /// The first row of a tag in a tube.
    fn in_tube(&self, name: &str, tag: Tag) -> Key {
        let range = self.tube(name).range(tag);
        self.first(&range.start(), &range.end()).unwrap().expect("a row of the tag").0
    }

    fn set(&mut self, key: Key, row: Value) {
        self.rows.insert(key, Some(row));
    }
}

/// A queue with rows of every tag, also of a temporary tube, a sweep that clears a run, one that
/// returns leases, and one that lets rows follow a change of options.
fn filled() -> Rows {
    let clock = ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
    let kept = Retention::new().age(HOUR).bytes(1 << 40);
    let options = TubeOptions::default().keep_finished(kept).keep_buried(kept).index_kinds(true);
    let options = options.keep_days(9);
    let tubes = [
        queue.create_tube("first", options.clone()).unwrap(),
        queue.create_tube("temporary", options.clone().temporary(true)).unwrap(),
        queue.create_tube("cleared", options).unwrap(),
    ];
    let sources = [
        queue.tube("source").unwrap(),
        queue.create_tube("temporary source", TubeOptions::default().temporary(true)).unwrap(),
    ];
    let ada = queue.consumer_with_grace("ada", HOUR).unwrap();
    let bob = queue.consumer("bob").unwrap();
    for tube in &tubes {
        tube.task(b"held").ttr(HOUR).priority(-9).put().unwrap();
        let held = tube.by(&ada).take().unwrap();
        held.start("pid 1").unwrap();
        held.checkpoint(b"so far").unwrap();
        held.detach();
        tube.put(b"alone").unwrap();
        tube.take().unwrap().detach();
        for _ in 0..3 {
            tube.task(b"locked").group("locked").put().unwrap();
            tube.task(b"open").group("open").put().unwrap();
        }
        tube.take().unwrap().detach();
        let done = tube.task(b"done").key("done").kind("mail").put().unwrap();
        tube.claim(done).unwrap().ack_with(b"result").unwrap();
        let buried = tube.task(b"buried").ttl(HOUR).put().unwrap();
        tube.bury(buried, "no").unwrap();
        let trashed = tube.task(b"trashed").key("trashed").ttl(HOUR).put().unwrap();
        tube.trash(trashed, "no").unwrap();
        // The take of the next one puts its line behind the first gate.
        tube.task(b"urgent").priority(-100).require("online").throttle("gpu").put().unwrap();
        tube.task(b"failed").priority(-99).put().unwrap();
        tube.take().unwrap().fail("smtp", "550").unwrap();
        let later = tube.task(b"later").delay(HOUR).ttl(HOUR).kind("film");
        later.tags(["red", "blue"]).put().unwrap();
        tube.task(b"at noon").run_at(clock.wall() + HOUR).put().unwrap();
        let keyed = tube.task(b"keyed").key("key").ttl(HOUR).put().unwrap();
        tube.task(&[7; 5000]).put().unwrap();
        tube.put(b"alone").unwrap();
        let after = tube.task(b"after").key("after").ttl(HOUR).delay(HOUR).after([keyed]);
        match tube.name() {
            "temporary" => after.after([done]).put().unwrap(),
            _ => after.after_any_end([buried]).put().unwrap(),
        };
        let source = &sources[usize::from(tube.name() == "temporary")];
        let moved = source.put(b"moved").unwrap();
        source.move_to(moved, tube).apply().unwrap();
    }
    queue.tube("empty").unwrap();
    queue.set_condition("stored", true).unwrap();
    queue.set_condition_for_run("for the run", false).unwrap();
    queue.set_throttle("throttle", 2).unwrap();
    let options = TubeOptions::default().throttle("throttle");
    for options in [options.clone(), options.temporary(true)] {
        let name = format!("throttled {}", options.get_temporary());
        let throttled = queue.create_tube(&name, options).unwrap();
        throttled.put(b"in hand").unwrap();
        throttled.take().unwrap().detach();
    }
    let unique = TubeOptions::default().unique(Unique::new().in_queue(true).buried(false));
    let unique = queue.create_tube("unique", unique).unwrap();
    unique.task(b"counts").key("counts").put().unwrap();
    let buried = unique.task(b"does not").key("does not").put().unwrap();
    unique.bury(buried, "no").unwrap();
    tubes[2].truncate().unwrap();
    let voided = queue.tube("voided").unwrap();
    voided.put(b"in hand").unwrap();
    voided.take().unwrap().detach();
    voided.release_all().unwrap();
    let from = queue.tube("merged").unwrap().number;
    let merge = BeginMerge { from, into: voided.number };
    voided.inner.core.apply(&merge).unwrap();
    tubes[0].set("ttl", HOUR).unwrap();
    let followed = TubeOptions::default().keep_finished(Retention::new().count(9));
    let followed = queue.create_tube("followed", followed).unwrap();
    followed.put(b"done").unwrap();
    followed.take().unwrap().ack().unwrap();
    for _ in 0..2 {
        followed.task(b"locked").group("b").put().unwrap();
    }
    followed.take().unwrap().detach();
    queue.track(buried).unwrap();
    let planned = queue.tube("planned").unwrap();
    for name in ["plan", "paused"] {
        let plan = queue.schedule(name).every(HOUR).offset(HOUR).to(&planned);
        plan.payload(b"again").make().unwrap().run_now().unwrap();
    }
    queue.schedule_named("paused").pause().unwrap();
    let stopped = queue.tube("stopped").unwrap();
    stopped.task(b"first").group("g").require("online").put().unwrap();
    stopped.task(b"second").group("g").put().unwrap();
    assert!(stopped.try_take().unwrap().is_none());
    let mut rows = Rows::of(&queue);
    follows(&mut rows);
    drop((ada, bob));
    for (kind, id) in [(Work::Staged, TaskId::new(900)), (Work::Pieces, TaskId::new(901))] {
        rows.set(key::piece(Run(1), id, 1, 2), Value::from([7]));
        rows.set(key::work(kind, Run(1), id), PieceWork::new(1, 2..3).encode());
    }
    for tag in Tag::ALL {
        assert!(!rows.keys(tag).is_empty(), "no row of {tag:?}");
    }
    assert_eq!(rows.faults(), NOTHING);
    assert_eq!(rows.with_kept_counts().faults(), NOTHING);
    rows
}

/// The tube "followed" has changes of options that no row follows yet.
fn follows(rows: &mut Rows) {
    let mut tube = rows.tube("followed");
    let options = &mut tube.row.options;
    options.in_flight = 2;
    options.keep_finished = Some(Retention::new().bytes(1 << 40));
    let groups = Some(PendingGroups { before: 1, to: "a".into(), until: "b".into() });
    let finished = Some(PendingSum { to: (0, TaskId::new(0)), until: (NEVER, TaskId::new(0)) });
    tube.row.pending = PendingOptions { groups, finished, ..PendingOptions::default() };
    rows.set(key::tube(tube.number), tube.row.encode());
    rows.set(follow::work_of(&tube), WorkRow::of_tube(tube.number).encode());
}

/// Whether a sweep will remove the row, whatever its value is.
fn is_swept(rows: &Rows, key: &[u8]) -> bool {
    let Some(Range { run: Some(run), .. }) = Range::holding(key) else { return false };
    rows.rows.contains_key(&work(Work::Clear, run))
}

/// The key of the work of a kind under a run.
fn work(kind: Work, run: Run) -> Key {
    key::work(kind, run, TaskId::new(0))
}

/// The same, without rows that state payload bytes: those count until they are removed.
fn is_swept_unseen(rows: &Rows, key: &[u8]) -> bool {
    let states_bytes = Range::holding(key).is_some_and(|range| Tag::TASKS.contains(&range.tag));
    is_swept(rows, key) && !states_bytes
}

/// Whether it is an entry of the history of a task that a sweep removes, with what there is of it,
/// or a report of one. These stand under no tube, and only the count of all says that one is
/// missing.
fn is_history_of_swept(rows: &Rows, key: &[u8]) -> bool {
    let tag = Range::holding(key).map(|range| range.tag);
    let of_task = |task: &Key| {
        let is_task = Range::holding(task).is_some_and(|range| Tag::TASKS.contains(&range.tag));
        is_task && task.ends_with(&key[1..9]) && is_swept(rows, task)
    };
    let is_beside = matches!(
        tag,
        Some(Tag::History | Tag::HistoryTemporary | Tag::Report | Tag::ReportTemporary)
    );
    is_beside && rows.rows.keys().any(of_task)
}

/// Whether it is the queue's row of a task that a sweep removes; the sweep accepts that it is
/// missing.
fn is_failed_of_swept(rows: &Rows, key: &[u8]) -> bool {
    let is_failed = Range::holding(key).is_some_and(|range| range.run.is_none());
    let beside = key::buried_group_beside(key).filter(|_| is_failed);
    beside.is_some_and(|beside| rows.rows.contains_key(&beside) && is_swept(rows, &beside))
}

/// Whether only the counts say that this row is missing: it is a setting, a condition, a throttle,
/// of a day of statistics, which may be too old, of a tracked id, or all that there is of a fresh
/// task in a temporary tube, whose payload bytes are not counted, or without it the task would be
/// fresh.
fn is_only_counted(rows: &Rows, key: &Key) -> bool {
    let alone =
        [Tag::Setting, Tag::Tracked, Tag::Day, Tag::Condition, Tag::RunCondition, Tag::Throttle];
    if Range::holding(key).is_some_and(|range| alone.contains(&range.tag)) {
        return true;
    }
    let Some((Range { tag, run: Some(run) }, id)) = Range::holding(key).zip(key::id_of(key)) else {
        return false;
    };
    let pieces = key::pieces_of(run, id);
    let is_about = |other: &&Key| {
        let of_run = Range::holding(other).is_some_and(|range| range.run == Some(run));
        *other != key && (of_run && key::id_of(other) == Some(id) || other.starts_with(&pieces))
    };
    let others: Vec<_> = rows.rows.keys().filter(is_about).collect();
    match tag {
        Tag::Fresh => run.is_temporary() && others.is_empty(),
        // The slot of a lease says that there is one.
        Tag::Taken if rows.keys(Tag::Slot).iter().any(|it| key::of_slot(it).unwrap().0 == id) => {
            false
        }
        Tag::Ready | Tag::Taken => {
            others.len() == 1 && others.iter().all(|own| own.first() == Some(&(Tag::Fresh as u8)))
        }
        _ => false,
    }
}

#[test]
fn a_missing_row_is_reported() {
    let sound = filled();
    for (key, row) in &sound.rows {
        let mut less = sound.with_kept_counts();
        less.rows.remove(key);
        let leads = key.first() == Some(&(Tag::BuriedGroup as u8));
        let unseen = is_swept_unseen(&sound, key) && !leads;
        assert_eq!(less.faults().is_empty(), unseen, "{key:02x?}");
        // A fault in the engine would have changed the counts too.
        less.counts = None;
        let unseen = unseen
            || is_failed_of_swept(&sound, key)
            || is_history_of_swept(&sound, key)
            || is_only_counted(&sound, key);
        assert_eq!(less.faults().is_empty(), unseen, "{key:02x?}, counted");
        less.rows.insert(key.clone(), row.clone());
        assert_eq!(less.faults(), NOTHING);
    }
}

#[test]
fn a_damaged_row_is_reported() {
    let sound = filled();
    for key in sound.rows.keys() {
        let mut bad = sound.clone();
        bad.rows.insert(key.clone(), None);
        assert_eq!(bad.faults().is_empty(), is_swept(&sound, key), "{key:02x?}");
    }
}

/// Adds a second row for each row, with the last byte of its key changed: another id, name or
/// number.
#[test]
fn an_extra_row_is_reported() {
    let sound = filled();
    for (key, row) in &sound.rows {
        let mut stray = key.clone();
        if let Some(last) = stray.last_mut() {
            *last ^= 0x40;
        }
        let mut more = sound.clone();
        assert!(more.rows.insert(stray.clone(), row.clone()).is_none(), "{stray:02x?}");
        // The task of a tracked id may be gone, and a condition may have any name.
        let alone = [Tag::Tracked, Tag::Condition, Tag::RunCondition];
        let stands_alone = alone.iter().any(|tag| key.first() == Some(&(*tag as u8)));
        let unseen =
            is_swept_unseen(&sound, key) || is_history_of_swept(&sound, key) || stands_alone;
        assert_eq!(more.faults().is_empty(), unseen, "{stray:02x?}");
    }
    for tag in Tag::in_runs() {
        let mut more = sound.clone();
        more.set(Range::in_run(tag, Run(77)).start(), Value::from([]));
        let reported = more.faults();
        assert!(
            reported.iter().any(|line| line.contains("which belongs to no tube")),
            "{tag:?}: {reported:?}"
        );
    }
}

/// A tube whose row names another run loses all its tasks.
#[test]
fn the_tasks_of_a_run_without_a_tube_are_reported() {
    let mut rows = filled();
    // It keeps none for others.
    let mut held = rows.in_tube("first", Tag::DoneTime);
    held[0] = Tag::HeldTime as u8;
    rows.set(held, Value::EMPTY);
    let TubeEntry { number, row, .. } = rows.tube("first");
    let row = TubeRow { run: Run(1000), ..row };
    rows.set(key::tube(number), row.encode());
    let reported = rows.faults();
    for tag in Tag::in_runs() {
        let line = format!("{tag:?}: rows under run");
        assert!(
            reported.iter().any(|reported| reported.starts_with(&line)),
            "{line}: {reported:?}"
        );
    }
}

#[test]
fn counts_are_stored_so_statistics_read_no_task() {
    let reads = |tasks: usize| {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let tube = queue.tube("first").unwrap();
        tube.put_many((0..tasks).map(|_| b"x".to_vec())).unwrap();
        let rows = Rows::of(&queue);
        let rows = rows.with_kept_counts();
        let ready = query::count(&rows, &query::tube(&rows, tube.number).unwrap(), State::Ready);
        assert_eq!(ready, tasks as u64);
        rows.reads.get()
    };
    assert_eq!((reads(10), reads(10_000)), (1, 1), "the tube's own row");
}
