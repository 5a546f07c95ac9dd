//! Tests that the audit finds faults: a queue with every kind of row is sound, and with any row
//! removed, added or changed it is not. Where a fault cannot be seen, the test says why.

mod dropped;
mod edited;
mod firing;
mod following;
mod kinds;
mod mended;
mod pieces;
mod reads;
mod slots;
mod tags;

use crate::api::queue::Queue;
use crate::engine::context::damaged;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{follow, query};
use crate::format::key::{self, Direction, Key, Range, ReportPart, Run, Work};
use crate::format::piece::PieceWork;
use crate::format::row::{
    self, CascadeRow, DayRow, EdgeCounts, EdgeRow, LinkingRow, PayloadPlace, PendingGroups,
    PendingOptions, PendingSum, SettingRow, TaskEnds, TaskRow, TubeRow, WorkRow,
};
use crate::format::{Deadline, Met, Tag, Value, View};
use crate::words::clock::{Clock, ManualClock, NEVER};
use crate::words::dependency::{On, Orphaned};
use crate::words::error::Result;
use crate::words::options::TubeOptions;
use crate::words::retention::Retention;
use crate::words::setting::SettingValue;
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
        let copied = tube.hold.core.look(|view, _| {
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
        tube.task(b"failed").priority(-99).put().unwrap();
        tube.take().unwrap().fail("smtp", "550").unwrap();
        let later = tube.task(b"later").delay(HOUR).ttl(HOUR).kind("film");
        later.tags(["red", "blue"]).put().unwrap();
        tube.task(b"at noon").run_at(clock.wall() + HOUR).put().unwrap();
        let keyed = tube.task(b"keyed").key("key").ttl(HOUR).put().unwrap();
        tube.task(b"urgent").priority(-1).put().unwrap();
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
    rows.set(follow::work_of(&tube), follow::work_row(&tube).encode());
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

/// Says of a task that its payload was not kept.
fn drop_payload(rows: &mut Rows, at: Key, payload: PayloadPlace<'_>) {
    let row = rows.get(&at).unwrap().unwrap();
    let row = TaskRow::decode(&row).unwrap();
    let section = row::dropped_section(row.extension).unwrap();
    rows.set(at, TaskRow { payload, extension: &section, ..row }.encode());
}

/// Plants an edge.
fn edge_of(rows: &mut Rows, (earlier, later): (TaskId, TaskId)) {
    let row = EdgeRow { on: On::AnyEnd, orphaned: Orphaned::Hold, tube: 0 }.encode();
    let run = Run::QUEUE;
    rows.set(key::edge(Direction::Dependent, run, (earlier, later), false), row.clone());
    rows.set(key::edge(Direction::Dependency, run, (later, earlier), false), row);
}

/// The work of a put that has written so many open edges.
fn linking(open: u32) -> Value {
    let counts = EdgeCounts { open, met: 0 };
    LinkingRow { counts, is_cancelled: false }.encode()
}

/// Every line that the audit can report, each caused by one fault.
#[test]
fn every_fault_has_its_line() {
    type Spoil = fn(&mut Rows);
    let faults: [(&str, Spoil); 100] = [
        ("Day: a damaged row", |rows| {
            let key = rows.in_tube("first", Tag::Day);
            rows.set(key, Value::from([1]));
        }),
        ("Day: an invalid key", |rows| {
            let key = key::after(&rows.in_tube("first", Tag::Day));
            rows.set(key, DayRow::new(0).encode());
        }),
        ("Day: a damaged row", |rows| {
            let key = rows.in_tube("first", Tag::Day);
            let (run, day) = key::of_day(&key).unwrap();
            let row = rows.rows[&key].clone().unwrap();
            rows.set(key::day(run, day + 1), row);
        }),
        // A day that would never be too old.
        ("Day: an invalid key", |rows| {
            let (run, _) = key::of_day(&rows.in_tube("first", Tag::Day)).unwrap();
            rows.set(key::day(run, u32::MAX), DayRow::new(0).encode());
        }),
        ("Schedule: it cannot be read and is lost", |rows| {
            rows.set(key::schedule("plan"), Value::from([1]));
        }),
        ("Firing: a row without a schedule", |rows| {
            rows.rows.remove(&key::schedule("paused"));
        }),
        ("Fire: a row without a schedule", |rows| {
            rows.rows.remove(&key::schedule("plan"));
        }),
        ("how far it has come is damaged, not its copy", |rows| {
            rows.set(key::firing("plan"), Value::from([1]));
        }),
        ("how far it has come is lost, and it is paused", |rows| {
            rows.rows.remove(&key::firing("paused"));
        }),
        ("Fire: \"paused\" does not fire then", |rows| {
            let row = rows.rows[&key::firing("paused")].clone().unwrap();
            rows.set(key::fire(1, key::FireClock::Queue, 7, "paused"), row);
        }),
        ("Fire: a wrong copy of how far \"plan\" has come", |rows| {
            let key = rows.keys(Tag::Fire).remove(0);
            rows.set(key, Value::from([1]));
        }),
        ("schedule \"plan\": the row of its next fire is missing", |rows| {
            let key = rows.keys(Tag::Fire).remove(0);
            rows.rows.remove(&key);
        }),
        ("a row without its other one", |rows| {
            let key = rows.keys(Tag::Dependent).remove(0);
            rows.rows.remove(&key);
        }),
        ("a row that cannot be read", |rows| {
            for tag in [Tag::Dependency, Tag::Dependent] {
                rows.keys(tag).into_iter().for_each(|key| rows.set(key, Value::from([1])));
            }
        }),
        ("its other row says something else", |rows| {
            let key = rows.keys(Tag::Dependency).remove(0);
            let row = EdgeRow::decode(rows.rows[&key].as_ref().unwrap()).unwrap();
            rows.set(key, EdgeRow { orphaned: Orphaned::Ignore, ..row }.encode());
        }),
        ("Dependency: a wrong row", |rows| {
            let key = rows.keys(Tag::Dependency).remove(0);
            let row = EdgeRow::decode(rows.rows[&key].as_ref().unwrap()).unwrap();
            rows.set(key, EdgeRow { tube: 77, ..row }.encode());
        }),
        ("an edge that is both open and met", |rows| {
            let open = rows.keys(Tag::Dependency).remove(0);
            let ((later, earlier), _) = key::of_edge(&open).unwrap();
            let row = rows.rows[&open].clone().unwrap();
            let run = Run::QUEUE;
            let back = key::edge(Direction::Dependent, run, (earlier, later), true);
            rows.set(key::edge(Direction::Dependency, run, (later, earlier), true), row.clone());
            rows.set(back, row);
        }),
        ("Dependency: an invalid key", |rows| {
            let mut key = rows.keys(Tag::Dependency).remove(0);
            let row = rows.rows[&key].clone().unwrap();
            key[9] = 7;
            rows.set(key, row);
        }),
        ("it is gone, and no work removes its edges", |rows| {
            edge_of(rows, (TaskId::new(800), TaskId::new(801)));
        }),
        ("it is gone, and no work removes its edges", |rows| {
            rows.set(key::work(Work::Unlink, Run::QUEUE, TaskId::new(801)), Value::EMPTY);
            edge_of(rows, (TaskId::new(800), TaskId::new(802)));
        }),
        ("it has ended, and no work lets task", |rows| {
            rows.set(key::work(Work::Linking, Run::QUEUE, TaskId::new(801)), linking(1));
            edge_of(rows, (TaskId::new(800), TaskId::new(801)));
        }),
        ("the work of its put counts other edges", |rows| {
            rows.set(key::work(Work::Linking, Run::QUEUE, TaskId::new(801)), linking(2));
            edge_of(rows, (TaskId::new(800), TaskId::new(801)));
        }),
        ("but has EdgeCounts", |rows| {
            for tag in [Tag::Dependent, Tag::Dependency] {
                let key = rows.keys(tag).remove(0);
                rows.rows.remove(&key);
            }
        }),
        ("Work: on the edges of task 7: it cannot be read", |rows| {
            rows.set(key::work(Work::Cascade, Run::QUEUE, TaskId::new(7)), Value::from([0]));
        }),
        ("Work: on the edges of task 7: it cannot be read", |rows| {
            rows.set(key::work(Work::Unlink, Run::QUEUE, TaskId::new(7)), Value::from([0]));
        }),
        ("Work: on the edges of task 7: it cannot be read", |rows| {
            rows.set(key::work(Work::Linking, Run::QUEUE, TaskId::new(7)), Value::from([0]));
        }),
        ("the task has not ended so", |rows| {
            let ((earlier, _), _) = key::of_edge(&rows.keys(Tag::Dependent)[0]).unwrap();
            let ended = TaskEnds { done: true, ..TaskEnds::default() };
            let work = CascadeRow { ended, tube: 1, from: 0, buried_to: 0 };
            rows.set(key::work(Work::Cascade, Run::QUEUE, earlier), work.encode());
        }),
        ("the task has not ended", |rows| {
            let ((later, _), _) = key::of_edge(&rows.keys(Tag::Dependency)[0]).unwrap();
            rows.set(key::work(Work::Unlink, Run::QUEUE, later), Value::EMPTY);
        }),
        ("the task is there", |rows| {
            let ((later, _), _) = key::of_edge(&rows.keys(Tag::Dependency)[0]).unwrap();
            rows.set(key::work(Work::Linking, Run::QUEUE, later), linking(1));
        }),
        ("Work: an invalid key", |rows| {
            rows.set(key::work(Work::Cascade, Run(1), TaskId::new(7)), Value::EMPTY);
        }),
        ("the row of its tags is missing", |rows| {
            let key = rows.keys(Tag::TaskTags).remove(0);
            rows.rows.remove(&key);
        }),
        ("the row of its tags is damaged", |rows| {
            let key = rows.keys(Tag::TaskTags).remove(0);
            rows.set(key, Value::from([1, 2]));
        }),
        ("no row of its tag \"red\" leads to it", |rows| {
            let mut keys = rows.keys(Tag::Tagged).into_iter();
            let key =
                keys.find(|key| key::tag_in(key).is_some_and(|(tag, _)| tag == "red")).unwrap();
            rows.set(key, row::number(99));
        }),
        ("TaskTags: a row without a task", |rows| {
            let row = rows.rows[&rows.keys(Tag::TaskTags)[0]].clone().unwrap();
            rows.set(key::task_tags(Run(1), TaskId::new(77)), row);
        }),
        ("Tagged: a row without a task", |rows| {
            rows.set(key::tagged_task(Run(1), "red", 7, TaskId::new(77)), row::number(1));
        }),
        ("tag \"red\": 2 tasks have it, stored Some(3)", |rows| {
            rows.set(key::tag_count(Run(1), "red"), row::number(3));
        }),
        ("tag \"blue\": 2 tasks have it, and no row counts them", |rows| {
            rows.rows.remove(&key::tag_count(Run(1), "blue"));
        }),
        ("TopTagged: a row is missing", |rows| {
            rows.rows.remove(&key::top_tag(Run(1), 2, "red"));
        }),
        ("TopTaggedTemporary: a tag at a wrong place", |rows| {
            rows.set(key::top_tag(Run(Run::TEMPORARY), 2, "red"), Value::from([]));
        }),
        ("Tracked: it cannot be read", |rows| {
            let key = rows.keys(Tag::Tracked).remove(0);
            rows.set(key, Value::from([1]));
        }),
        ("Kind: a row is missing", |rows| {
            let key = rows.in_tube("first", Tag::Kind);
            rows.rows.remove(&key);
        }),
        ("Kind: a row without a task", |rows| {
            let key = rows.in_tube("first", Tag::Kind);
            rows.rows.remove(&key);
            let (run, id) = (rows.tube("first").run(), key::id_of(&key).unwrap());
            rows.set(key::kind(run, "another", id), Value::from([]));
        }),
        ("its payload was not kept, but it is Taken and has 5 bytes", |rows| {
            let (at, payload) = (rows.in_tube("first", Tag::Fresh), PayloadPlace::Inline(b"alone"));
            drop_payload(rows, at, payload);
        }),
        ("its payload was not kept, but it is Done and has 4 bytes", |rows| {
            let id = key::id_of(&rows.in_tube("first", Tag::Done)).unwrap();
            let task = rows.keys(Tag::Task).into_iter().find(|key| key::id_of(key) == Some(id));
            let fresh = rows.keys(Tag::Fresh).into_iter().find(|key| key::id_of(key) == Some(id));
            drop_payload(rows, task.or(fresh).unwrap(), PayloadPlace::Inline(b"done"));
        }),
        ("tube \"first\": its name row does not refer to it", |rows| {
            rows.set(key::name("first"), row::number(2))
        }),
        ("name \"first\": there is no such tube", |rows| {
            rows.set(key::name("first"), row::number(99));
        }),
        ("consumer \"ada\": its name row does not refer to it", |rows| {
            rows.set(key::consumer_name("ada"), row::number(2));
        }),
        ("a name of a consumer that does not exist", |rows| {
            rows.set(key::consumer_name("eve"), row::number(1))
        }),
        ("is the last that was assigned", |rows| drop(rows.rows.remove(&key::meta(1)))),
        ("an unknown row", |rows| rows.set(key::meta(9), row::number(1))),
        ("a sweep would clear tube", |rows| {
            let run = rows.tube("first").run();
            rows.set(work(Work::Clear, run), WorkRow::default().encode());
        }),
        ("a sweep of tube 9 under the run", |rows| {
            let run = rows.tube("voided").run();
            rows.set(work(Work::Release, run), WorkRow { tube: 9, ..WorkRow::default() }.encode());
        }),
        ("Work: a damaged row", |rows| {
            let run = rows.tube("voided").run();
            rows.set(work(Work::Release, run), row::number(9));
        }),
        ("its lease is void, and no sweep returns it", |rows| {
            let run = rows.tube("voided").run();
            rows.rows.remove(&work(Work::Release, run));
        }),
        ("its consumer 1 does not exist", |rows| drop(rows.rows.remove(&key::consumer(1)))),
        ("payload bytes, but", |rows| rows.bytes += 1),
        ("an invalid key", |rows| {
            rows.set(Key::from_slice(&[Tag::Held as u8, 0]), Value::from([]));
        }),
        ("a ready row cannot be decoded", |rows| {
            let ready = rows.in_tube("first", Tag::Ready);
            rows.set(ready, Value::from([u8::MAX]));
        }),
        ("it is in two states", |rows| {
            let delayed = rows.in_tube("first", Tag::Delayed);
            let (id, run) = (key::id_of(&delayed).unwrap(), rows.tube("first").run());
            let tasks = rows.keys(Tag::Task).into_iter();
            let mut own = tasks.filter(|key| key::id_of(key) == Some(id) && key[4] == run.0 as u8);
            let home = key::place_of(&own.next().unwrap(), key::RUN_PREFIX).unwrap();
            rows.set(key::ready(run, &home, id), Value::from([]));
        }),
        ("its position row is wrong", |rows| {
            let key = rows.in_tube("first", Tag::Position);
            let mut place = rows.rows[&key].clone().unwrap().to_vec();
            place[8] ^= 1;
            rows.set(key, Value::from(place.as_slice()));
        }),
        ("a task row cannot be decoded", |rows| {
            let task = rows.in_tube("first", Tag::Task);
            rows.set(task, Value::from([u8::MAX]));
        }),
        ("its rows do not agree", |rows| {
            let taken = rows.in_tube("first", Tag::Taken);
            let mut row = rows.rows[&taken].clone().unwrap().to_vec();
            row[20] ^= 1;
            rows.set(taken, Value::from(row.as_slice()));
        }),
        ("not the bytes of its number", |rows| {
            let piece = rows.keys(Tag::Piece).remove(0);
            rows.set(piece, Value::from([7; 9]));
        }),
        ("a payload is not the one that was put", |rows| {
            let piece = rows.keys(Tag::Piece).remove(0);
            let mut row = rows.rows[&piece].clone().unwrap().to_vec();
            row[9] ^= 1;
            rows.set(piece, Value::from(row.as_slice()));
        }),
        ("a piece is missing", |rows| {
            let piece = rows.keys(Tag::Piece).remove(0);
            rows.rows.remove(&piece);
        }),
        ("PieceTemporary: a row that no task accounts for", |rows| {
            rows.set(key::piece(Run(Run::TEMPORARY), TaskId::new(77), 1, 0), Value::from([7]));
        }),
        ("two rows name the pieces", |rows| {
            let (id, generation, number) = key::of_piece(&rows.keys(Tag::Piece)[0]).unwrap();
            let work = PieceWork::new(generation, number..number + 1);
            rows.set(key::work(Work::Pieces, Run(1), id), work.encode());
        }),
        ("its pieces are of another generation", |rows| {
            let id = key::of_piece(&rows.keys(Tag::Piece)[0]).unwrap().0;
            let is_it = |row: &&Key| key::id_of(row) == Some(id);
            let tasks = Tag::TASKS.map(|tag| rows.keys(tag)).concat();
            let task = tasks.iter().find(is_it).unwrap().clone();
            let raw = rows.rows[&task].clone().unwrap();
            let section = row::replaced_section(&[], 1).unwrap();
            let own = row::TaskRow { extension: &section, ..row::TaskRow::decode(&raw).unwrap() };
            rows.set(task, own.encode());
        }),
        ("Work: on the pieces of another payload", |rows| {
            let work = key::piece_work(Work::Pieces, Run(1), TaskId::new(901), 7);
            rows.set(work, PieceWork::new(6, 2..3).encode());
        }),
        ("Key: a row is missing", |rows| {
            let key = rows.in_tube("first", Tag::Key);
            rows.rows.remove(&key);
        }),
        ("the queue's row of its failure is missing", |rows| {
            let key = rows.keys(Tag::Failed).remove(0);
            rows.rows.remove(&key);
        }),
        ("Work: an unknown kind of work", |rows| {
            let mut key = work(Work::Clear, Run(77));
            key[1] = 99;
            rows.set(key, WorkRow::default().encode());
        }),
        ("Work: an invalid key", |rows| {
            let key = key::work(Work::Clear, Run(77), TaskId::new(1));
            rows.set(key, WorkRow::default().encode());
        }),
        ("Failed: a row without a task", |rows| {
            rows.set(key::failed(Run(1), "g", 1, TaskId::new(1)), Value::from([]));
        }),
        ("a row of its reports is missing: Checkpoint", |rows| {
            let key = rows.keys(Tag::Report).into_iter().find(|key| key.ends_with(&[2]));
            rows.rows.remove(&key.unwrap());
        }),
        ("a damaged row of its reports: Report", |rows| {
            let key = rows.keys(Tag::Report).into_iter().find(|key| key.ends_with(&[1]));
            rows.set(key.unwrap(), row::number(1));
        }),
        ("Report: a row without a task", |rows| {
            rows.set(key::report(Run(1), TaskId::new(77), ReportPart::Checkpoint), row::number(1));
        }),
        ("Setting: \"ttl\" of tube 99, which does not exist", |rows| {
            rows.set(key::setting(99, "ttl"), SettingRow::of(SettingValue::Nothing).encode());
        }),
        ("a tube has no setting \"tll\"", |rows| {
            rows.set(key::setting(1, "tll"), SettingRow::of(SettingValue::Nothing).encode());
        }),
        ("the setting ttr takes a length of time, or Nothing, and not", |rows| {
            rows.set(key::setting(1, "ttr"), SettingRow::of(7.into()).encode());
        }),
        ("the setting flush_interval takes a length of time, and not", |rows| {
            rows.set(key::setting(0, "flush_interval"), SettingRow::of(7.into()).encode());
        }),
        ("a name of the application goes on behind", |rows| {
            rows.set(key::setting(0, "app."), SettingRow::of(7.into()).encode());
        }),
        ("Setting: a damaged row", |rows| {
            rows.set(key::setting(0, "app.a"), Value::from([11, 0, 0]));
        }),
        ("Setting: an invalid key", |rows| {
            let mut key = key::settings_of(0);
            key.push(0xff);
            rows.set(key, SettingRow::of(7.into()).encode());
        }),
        ("Condition: it cannot be read", |rows| {
            rows.set(key::condition("stored", true), Value::from([2]));
        }),
        ("Throttle: it cannot be read", |rows| {
            rows.set(key::throttle("throttle"), Value::from([2]));
        }),
        ("Throttle: an invalid key", |rows| {
            let row = rows.get(&key::throttle("throttle")).unwrap().unwrap();
            rows.set(key::throttle("a\nb"), row);
        }),
        ("Throttle: another one has its slots", |rows| {
            let row = rows.get(&key::throttle("throttle")).unwrap().unwrap();
            rows.set(key::throttle("twin"), row);
        }),
        ("Slot: no task holds it", |rows| {
            let slot = rows.keys(Tag::Slot).swap_remove(0);
            let (id, tube) = key::of_slot(&slot).unwrap();
            let run = Range::holding(&slot).unwrap().run.unwrap();
            rows.set(key::slot(run, TaskId::new(id.get() ^ 1), tube), Value::EMPTY);
        }),
        ("Slot: no task holds it", |rows| {
            let slot = rows.keys(Tag::Slot).swap_remove(0);
            rows.set(key::slot(Run(77), key::of_slot(&slot).unwrap().0, 1), Value::EMPTY);
        }),
        ("Slot: a wrong row", |rows| {
            let slot = rows.keys(Tag::Slot).swap_remove(0);
            rows.set(slot, Value::from([1]));
        }),
        ("Slot: an invalid key", |rows| {
            let mut slot = rows.keys(Tag::Slot).swap_remove(0);
            slot.push(0);
            rows.set(slot, Value::EMPTY);
        }),
        ("Slot: 1 rows under run", |rows| {
            let slot = rows.keys(Tag::Slot).swap_remove(0);
            let mut counts = rows.counted();
            *counts.get_mut(&Range::holding(&slot).unwrap()).unwrap() += 1;
            rows.counts = Some(counts);
        }),
        ("a slot that it holds is missing", |rows| {
            let slot = rows.keys(Tag::Slot).swap_remove(0);
            rows.rows.remove(&slot);
        }),
        ("Condition: an invalid key", |rows| {
            rows.set(key::condition("a\nb", false), Value::from([1]));
        }),
        ("1 in flight, stored Some(2)", |rows| {
            let group = rows.in_tube("first", Tag::Group);
            rows.set(group, row::number(2));
        }),
        ("a damaged row", |rows| {
            let due = rows.in_tube("first", Tag::Due);
            rows.rows.insert(due, None);
        }),
        ("a row without a task", |rows| {
            let run = rows.tube("first").run();
            rows.set(key::due(run, Deadline::Ttl, 1, TaskId::new(1)), Value::from([]));
        }),
        ("Turn: a row is missing", |rows| {
            let turn = rows.in_tube("first", Tag::Turn);
            rows.rows.remove(&turn);
        }),
        ("the stored count is", |rows| {
            let range = rows.tube("first").range(Tag::Ready);
            let mut counts = rows.counted();
            *counts.get_mut(&range).unwrap() += 1;
            rows.counts = Some(counts);
        }),
    ];
    let sound = filled();
    for (line, spoil) in faults {
        let mut spoilt = sound.clone();
        spoil(&mut spoilt);
        let reported = spoilt.faults();
        assert!(reported.iter().any(|reported| reported.contains(line)), "{line}: {reported:?}");
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
