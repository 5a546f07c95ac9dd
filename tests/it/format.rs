//! A second reader of the files of format 1, written from `src/format/FORMAT.md` alone. It reads
//! every golden folder without the library, and must find what the library finds. If that page is
//! wrong or incomplete, the bytes disagree here.

mod base;
mod bytes;
mod days;
mod edges;
mod faults;
mod journal;
mod payloads;
mod rows;
mod schedules;
mod seen;
mod tasks;

use crate::golden;
use crate::{close_sound, killed, secs, still};
pub(crate) use base::part;
use base::{Base, Counts};
use bytes::{Bytes, Read, ensure};
use journal::{Carry, Journal, Record};
use rows::{Rows, State};
use std::fs;
use std::path::Path;
use tasks::Contents;
use tubewell::{Durability, Lapse, Retention, TubeOptions};

/// What is in a folder.
struct Folder {
    journal: Journal,
    base: Base,
    /// The records after the one that the carry or the anchor names.
    records: Vec<Record>,
    /// The rows after the last record.
    rows: Rows,
    contents: Contents,
}

fn apply(rows: &mut Rows, counted: &mut Counts, record: &Record) -> Read<()> {
    for write in &record.writes {
        let before = match write.kind {
            3 => rows.remove(&write.key),
            4 => {
                let run = Bytes(&write.key).u32()?;
                counted.retain(|(other, _), _| *other != run);
                base::counts(run, &write.value, counted)?;
                continue;
            }
            5 => {
                days::apply(rows, &write.key, &write.value)?;
                continue;
            }
            _ => rows.insert(write.key.clone(), write.value.clone()),
        };
        let fits = record.carried || before.is_some() == (write.kind != 1);
        ensure(fits, || {
            format!("record {}: kind {} of {:02x?}", record.number, write.kind, write.key)
        })?;
    }
    Ok(())
}

/// The counts and the payload bytes are those of the rows.
fn agree(rows: &Rows, counted: &Counts, payload_bytes: u64) -> Read<()> {
    let found = rows::counts(rows)?;
    ensure(found == *counted, || format!("rows {found:?}, counts {counted:?}"))?;
    let bytes = tasks::payload_bytes(rows)?;
    ensure(bytes == payload_bytes, || format!("{bytes} bytes, and not {payload_bytes}"))
}

/// The carry that counts.
fn carry(journal: &Journal, base: &Base) -> Read<Option<Carry>> {
    let carry = journal.carry.filter(|carry| carry.serial >= base.anchor.serial);
    let older = |carry: Carry| carry.serial > base.anchor.serial;
    ensure(!carry.is_some_and(older), || "the base is an older copy".into())?;
    Ok(carry)
}

/// The records after the anchor or the carry.
fn records(journal: &Journal, base: &Base) -> Read<Vec<Record>> {
    let anchor = &base.anchor;
    ensure(anchor.id == journal.id, || "the files are of two queues".into())?;
    if let Some(carry) = carry(journal, base)? {
        return journal.records((carry.number, carry.checksum, carry.end), carry.upto);
    }
    agree(&base.rows, &base.counted, anchor.payload_bytes)?;
    if anchor.number == 0 {
        let is_first = (anchor.checksum, anchor.at, anchor.end) == (journal.seed, 0, 0);
        ensure(is_first, || format!("{anchor:?}"))?;
    } else {
        let named = journal.record(anchor.at)?.ok_or("the record of the anchor is missing")?;
        let is_it = (named.number, named.checksum, named.end)
            == (anchor.number, anchor.checksum, anchor.end);
        ensure(is_it && named.at == anchor.at, || format!("the record of {anchor:?}"))?;
    }
    journal.records((anchor.number, anchor.checksum, anchor.end), 0)
}

/// The content of a folder, or the fault in it.
fn read(path: &Path) -> Read<Folder> {
    let journal = Journal::read(&fs::read(path.join("journal")).unwrap())?;
    let base = Base::read(&path.join("base.redb"))?;
    let records = records(&journal, &base)?;
    let upto = carry(&journal, &base)?.map_or(0, |carry| carry.upto);
    let anchor = &base.anchor;
    let (mut rows, mut counted) = (base.rows.clone(), base.counted.clone());
    let mut last = (anchor.queue_time, anchor.wall_clock, anchor.ids, anchor.tokens);
    for record in &records {
        apply(&mut rows, &mut counted, record)?;
        if record.number == upto {
            agree(&rows, &counted, record.payload_bytes)?;
        } else if record.number > upto {
            let bytes = tasks::payload_bytes(&rows)?;
            ensure(bytes == record.payload_bytes, || format!("{}: {bytes}", record.number))?;
        }
        let (ids, tokens) = record.reserved.unwrap_or((last.2, last.3));
        let next = (record.queue_time, record.wall_clock, ids, tokens);
        ensure(next.0 >= last.0 && next.2 >= last.2 && next.3 >= last.3, || {
            format!("record {}: {next:?} after {last:?}", record.number)
        })?;
        last = next;
    }
    let contents = Contents::read(&rows)?;
    for ((_, id), task) in &contents.tasks {
        ensure(*id < last.2, || format!("task {id}, and {} are reserved", last.2))?;
        if let State::Taken { token, .. } = task.state {
            ensure(token < last.3, || format!("token {token}, and {} are reserved", last.3))?;
        }
    }
    Ok(Folder { journal, base, records, rows, contents })
}

/// The features that the folder of the rest of the life of a task uses.
const LIVES: [&str; 11] = [
    "failures",
    "retention",
    "lapses",
    "trash",
    "history",
    "reports",
    "payloads",
    "unique",
    "settings",
    "dropped-payloads",
    "kind-index",
];

const FLOWS: [&str; 13] = [
    "failures",
    "retention",
    "history",
    "tags",
    "tracking",
    "schedules",
    "day-statistics",
    "dependencies",
    "gates",
    "conditions",
    "hours",
    "throttles",
    "task-gates",
];

const GROUPED: [&str; 7] =
    ["retention", "history", "schedules", "conditions", "throttles", "task-gates", "group-gates"];

const MERGING: [&str; 10] = [
    "failures",
    "moves",
    "retention",
    "trash",
    "history",
    "tags",
    "dependencies",
    "throttles",
    "merges",
    "task-gates",
];

#[test]
fn every_golden_folder_holds_what_the_library_finds() {
    for name in golden::NAMES {
        println!("{name}");
        let (_home, path) = golden::unpacked(name);
        let folder = read(&path).unwrap();
        assert_eq!(folder.journal.slots, [true; 2]);
        let features = folder.journal.features.iter().map(|feature| feature.name.as_str());
        let used: &[&str] = match name {
            "terms" => &["higher-first", "retry-terms"],
            "steps" => &["higher-first", "failures", "moves", "retention"],
            "lives" => &LIVES,
            "flows" => &FLOWS,
            "grouped" => &GROUPED,
            "cascading" => &["failures", "retention", "history", "dependencies"],
            "merging" => &MERGING,
            "cron" => &["tags", "schedules"],
            "hours" => &["gates", "hours", "zones"],
            _ => &[],
        };
        assert_eq!(features.collect::<Vec<_>>(), used);
        let others: &[&str] = if name == "guests" { &["an app's notes", "digests"] } else { &[] };
        assert_eq!(folder.base.others, others);

        let (queue, _clock, _home) = golden::opened(name);
        seen::compare(&folder.contents, tasks::payload_bytes(&folder.rows).unwrap(), &queue);
        close_sound(queue);
    }
}

/// After a clean close no record follows the one in the anchor; after a kill some may.
#[test]
fn records_follow_the_anchor_unless_the_queue_was_closed() {
    for (name, count) in
        [("closed", 0), ("sessions_closed", 0), ("tubes", 0), ("typed", 0), ("wrapped", 2)]
    {
        let (_home, path) = golden::unpacked(name);
        assert_eq!(read(&path).unwrap().records.len(), count, "{name}");
    }
}

/// The records after the anchor continue at the ring's beginning.
#[test]
fn the_wrapped_folder_crosses_the_end_of_the_ring() {
    let (_home, path) = golden::unpacked("wrapped");
    let Folder { base, records, .. } = read(&path).unwrap();
    let last = records.last().unwrap();
    assert!(last.at < base.anchor.at, "{} after {}", last.at, base.anchor.at);
}

/// The disk of this folder was full: the rows that the base lacks are in carried records. The first
/// of them has the reservation and the start of the machine.
#[test]
fn carried_records_are_where_reading_begins() {
    let (_home, path) = golden::unpacked("carried");
    let Folder { journal, base, records, .. } = read(&path).unwrap();
    let carry = carry(&journal, &base).unwrap().expect("a carry that counts");
    assert!(carry.number > base.anchor.number, "{carry:?}");
    let carried = records.iter().filter(|record| record.carried).count();
    assert_eq!((records[0].carried, records[0].reserved.is_some()), (true, true));
    assert_eq!(records[carried - 1].number, carry.upto);
    assert!(carried > 1 && carried < records.len(), "{carried} of {}", records.len());
}

/// Of a queue written by this version. Lease times count from the start of the machine.
#[test]
fn a_new_folder_is_read_as_the_golden_ones_are() {
    let (_home, path) = crate::home();
    let (builder, clock) = still();
    clock.advance(secs(7));
    let queue = builder.open(&path).unwrap();
    clock.advance(secs(20));
    let tube = queue.create_tube("t", TubeOptions::default().ttr(secs(1000))).unwrap();
    tube.put(b"a").unwrap();
    let held = tube.try_take().unwrap().unwrap();
    let (_copy, copy) = killed(&path);
    let contents = read(&copy).unwrap().contents;
    let State::Taken { token, since, deadline, .. } = contents.tasks[&(1, 1)].state else {
        panic!("it is taken")
    };
    assert_eq!((since, deadline), (27_000_000, Some(1_027_000_000)));
    assert!(contents.tubes[&1].void_to <= token);

    tube.release_all().unwrap();
    let (_copy, copy) = killed(&path);
    assert!(read(&copy).unwrap().contents.tubes[&1].void_to > token);
    drop(held);
    queue.close().unwrap();
    let Folder { journal, base, records, .. } = read(&path).unwrap();
    assert_eq!(records.len(), 0);
    assert_eq!(journal.clean_end, Some((base.anchor.number, base.anchor.checksum)));
    let _queue = crate::open(&path);
    let (_copy, copy) = killed(&path);
    assert_eq!(read(&copy).unwrap().journal.clean_end, None, "an opening removes it");
}

#[test]
fn details_and_reports_are_read_as_the_page_says() {
    let (_home, path) = crate::home();
    let queue = still().0.open(&path).unwrap();
    let options = TubeOptions::default().book("post").detail("é", "").detail("a", "1");
    let tube = queue.create_tube("t", options).unwrap();
    tube.task(b"x").book("own").detail("a", "2").kind("mail").put().unwrap();
    let task = tube.take().unwrap();
    task.start("pid 1").unwrap();
    task.progress(40, "so far").unwrap();
    task.checkpoint(&[7; 16 << 10]).unwrap();
    let (_copy, copy) = killed(&path);
    let contents = read(&copy).unwrap().contents;
    let (of_tube, stored) = (&contents.tubes[&1], &contents.tasks[&(1, 1)]);
    assert_eq!((of_tube.book.as_deref(), &of_tube.details["é"][..]), (Some("post"), ""));
    assert_eq!((stored.book.as_deref(), &stored.details["a"][..]), (Some("own"), "2"));
    assert_eq!(stored.progress.reports, 3);
}

#[test]
fn settings_are_read_as_the_page_says() {
    let (_home, path) = crate::home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().ttl(secs(1))).unwrap();
    tube.set("ttl", secs(2)).unwrap();
    let unusual = crate::settings::unusual();
    for (number, (_, value)) in unusual.iter().enumerate() {
        tube.set(&format!("app.{number}"), value.clone()).unwrap();
    }
    tube.set("details", std::collections::BTreeMap::new()).unwrap();
    tube.set("app.é", true).unwrap();
    queue.set("durability", Durability::Relaxed).unwrap();
    let (_copy, copy) = killed(&path);
    let contents = read(&copy).unwrap().contents;
    let stored = |owner: u32, name: &str| contents.settings[&(owner, name.to_owned())].clone();
    assert_eq!(contents.tubes[&1].ttl, 2_000_000);
    let made = 1_000_000_u64.to_be_bytes();
    assert_eq!(stored(1, "ttl"), (3, made.to_vec()), "what it was made with");
    assert_eq!(stored(1, "details"), (9, vec![]));
    assert_eq!(stored(1, "app.é"), (1, vec![1]));
    assert_eq!(stored(0, "durability"), (10, vec![1]));
    assert_eq!(contents.settings.len(), unusual.len() + 4);
}

/// The folder of a closed queue is as the page says.
pub(crate) fn assert_sound(path: &Path) {
    read(path).map(drop).unwrap();
}

/// After each kill, with the items of records behind the rows, and after a close.
#[test]
fn days_are_read_as_the_page_says() {
    let (_home, path) = crate::home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().keep_days(9)).unwrap();
    let mut copies = Vec::new();
    for number in 0..7_u64 {
        tube.put_many([b"a".to_vec(), b"b".to_vec()]).unwrap();
        clock.advance(secs(1 << (3 * number)));
        tube.take().unwrap().retry_after("no", secs(0)).unwrap();
        let task = tube.take().unwrap();
        clock.advance(secs(number * 50));
        task.ack().unwrap();
        tube.take().unwrap().fail("g", "no").unwrap();
        if number % 3 == 2 {
            tube.kick(1).unwrap();
            queue.checkpoint().unwrap();
        }
        copies.push((killed(&path), number));
    }
    let clock = clock.clone();
    drop(tube);
    close_sound(queue);
    copies.push(((tempfile::tempdir().unwrap(), path), 7));
    for ((_home, copy), number) in copies {
        let folder = read(&copy).unwrap();
        let days = &folder.contents.days;
        let retries: u64 = days.values().map(|day| day.retries).sum();
        assert_eq!(retries, (number + 1).min(7), "{number}");
        let queue = tubewell::Queue::builder().clock(clock.clone()).read_only(true);
        let queue = queue.open(&copy).unwrap();
        seen::compare(&folder.contents, tasks::payload_bytes(&folder.rows).unwrap(), &queue);
    }
}

#[test]
fn options_and_tasks_without_payloads_are_read_as_the_page_says() {
    let (_home, path) = crate::home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let options = TubeOptions::default().keep_finished(Retention::new()).drop_payloads(true);
    let options = options.index_kinds(true).ttr(secs(1)).lapse(Lapse::new().grace(secs(60)));
    let tube = queue.create_tube("t", options).unwrap();
    for length in [3, 1 << 20] {
        tube.kind("mail").put(&vec![7; length]).unwrap();
        // Stalled, of which nothing is left.
        let task = tube.take().unwrap();
        clock.advance(secs(5));
        queue.tick().unwrap();
        assert!(tube.peek(task.id()).unwrap().is_stalled());
        task.ack_with(b"r").unwrap();
    }
    let (_copy, copy) = killed(&path);
    let Folder { journal, contents, rows, .. } = read(&copy).unwrap();
    let features: Vec<_> = journal.features.iter().map(|feature| feature.name.as_str()).collect();
    assert_eq!(features, ["retention", "lapses", "dropped-payloads", "kind-index"]);
    assert!(contents.tubes[&1].drops && contents.tubes[&1].kinds);
    assert_eq!(rows.range(vec![0x32]..vec![0x33]).count(), 2);
    let dropped = |id| contents.tasks[&(1, id)].dropped;
    assert_eq!([1, 2].map(dropped), [true, true]);
    assert_eq!(tasks::payload_bytes(&rows).unwrap(), 0);
}

/// A kill between two steps of a change of options: the folder says how far the rows follow, and
/// after the opening they go on.
#[test]
fn a_change_of_options_is_read_after_each_of_its_steps() {
    const TASKS: usize = 130;
    let (_home, path) = crate::home();
    let queue = still().0.journal_bytes(1 << 19).open(&path).unwrap();
    let all = Retention::new().count(1000);
    let options = TubeOptions::default().keep_finished(all).keep_buried(all);
    let tube = queue.create_tube("t", options).unwrap().durability(Durability::Relaxed);
    let bob = queue.consumer_with_grace("bob", secs(1000)).unwrap();
    for _ in 0..TASKS {
        tube.put(b"done").unwrap();
        tube.take().unwrap().ack_with(b"result").unwrap();
        let id = tube.put(b"buried").unwrap();
        tube.bury(id, "no").unwrap();
    }
    for task in 0..TASKS {
        let group = "x".repeat(task % 3) + &task.to_string();
        (0..3).for_each(|_| _ = tube.task(b"x").group(&group).put().unwrap());
    }
    let held = tube.by(&bob).take_many(3 * TASKS).unwrap();
    assert_eq!(held.len(), TASKS);
    held.into_iter().for_each(|task| _ = task.detach());
    queue.checkpoint().unwrap();
    tube.set("in_flight", 2).unwrap();
    tube.set("keep_finished", all.bytes(1 << 20)).unwrap();
    tube.set("keep_buried", all.bytes(1 << 20)).unwrap();
    queue.flush().unwrap();
    let records = read(&killed(&path).1).unwrap().records;
    let mut followed = Vec::new();
    for cut in 0..10 {
        let (_copy, copy) = killed(&path);
        let mut file = fs::read(copy.join("journal")).unwrap();
        for record in &records[records.len() - cut..] {
            let at = journal::RING_AT + record.at as usize;
            file[at..at + 8].fill(0);
        }
        fs::write(copy.join("journal"), file).unwrap();
        let row = &read(&copy).unwrap().contents.tubes[&1];
        followed.push((row.groups_before.is_some(), row.unsummed.map(|sum| sum.is_some())));
        let queue = crate::open(&copy);
        assert_eq!(queue.check().unwrap(), [""; 0], "{cut}");
        queue.tick().unwrap();
        let again = queue.tube("t").unwrap();
        let turns = if again.setting("in_flight").unwrap().value == 2.into() { TASKS } else { 0 };
        assert_eq!(again.take_many(3 * TASKS).unwrap().len(), turns, "{cut}");
        drop(again);
        close_sound(queue);
        assert!(!read(&copy).unwrap().contents.tubes[&1].is_followed(), "{cut}");
    }
    let (none, groups) = ((false, [false; 2]), (true, [false; 2]));
    let (finished, buried) = ((false, [true, false]), (false, [false, true]));
    // The first step is the op of the change, and the last one leaves nothing.
    let count = |of| followed.iter().filter(|it| **it == of).count();
    assert_eq!([groups, finished, buried].map(count), [2; 3]);
    followed.dedup();
    assert_eq!(followed, [none, buried, none, finished, none, groups]);
}

#[test]
fn tags_and_tracked_tasks_are_read_as_the_page_says() {
    let (_home, path) = crate::home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
    let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
    memory.task(b"x").tag("red").put().unwrap();
    let id = tube.task(b"x").tags(["red", "é"]).put().unwrap();
    clock.advance(secs(1));
    let moved = tube.put(b"y").unwrap();
    tube.tag(moved, ["red"]).unwrap();
    tube.move_to(moved, &other).apply().unwrap();
    let gone = tube.task(b"z").tag("gone").put().unwrap();
    queue.track(gone).unwrap();
    tube.delete(gone).unwrap();
    let (_copy, copy) = killed(&path);
    let Folder { journal, contents, rows, .. } = read(&copy).unwrap();
    let features: Vec<_> = journal.features.iter().map(|feature| feature.name.as_str()).collect();
    assert_eq!(features, ["moves", "history", "tags", "tracking"]);
    let tags = |id: tubewell::TaskId| {
        let tags = contents.tags[&id.get()].iter();
        tags.map(|(tag, _)| tag.as_str()).collect::<Vec<_>>()
    };
    assert_eq!((tags(id), tags(moved)), (vec!["red", "é"], vec!["red"]));
    let times = [id, moved].map(|id| contents.tags[&id.get()][0].1);
    assert_eq!(times[1] - times[0], 1_000_000);
    assert_eq!(contents.tracked.keys().copied().collect::<Vec<_>>(), [gone.get()]);
    let count = |tag: u8| rows.range(vec![tag]..vec![tag + 1]).count();
    assert_eq!([0x33, 0x35, 0x37, 0x39].map(count), [2, 3, 2, 1]);
    assert_eq!([0x34, 0x36, 0x38, 0x3a].map(count), [0; 4]);
}

#[test]
fn edges_are_read_as_the_page_says() {
    let (_home, path) = crate::home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let kept = TubeOptions::default().keep_finished(Retention::new().count(10));
    let (tube, other) = (queue.create_tube("t", kept).unwrap(), queue.tube("other").unwrap());
    let parents: Vec<_> = (0..3).map(|_| tube.put(b"p").unwrap()).collect();
    let wall = tubewell::Clock::wall(&clock) + secs(1000);
    let late = other.task(b"late").after(parents.clone()).run_at(wall).ttl(secs(9)).put().unwrap();
    other.task(b"any").after_any_end([parents[0]]).put().unwrap();
    let failing = other.task(b"f").after_failure([parents[1]]);
    failing.orphaned(tubewell::Orphaned::Ignore).key("f").group("g").put().unwrap();
    let buried = other.task(b"b").after([parents[2]]).put().unwrap();
    other.bury(buried, "no").unwrap();
    let look = || {
        let (_copy, copy) = killed(&path);
        read(&copy).unwrap()
    };
    let count = |rows: &Rows, tag: u8| rows.range(vec![tag]..vec![tag + 1]).count();
    let Folder { journal, rows, .. } = look();
    let features: Vec<_> = journal.features.iter().map(|feature| feature.name.as_str()).collect();
    assert_eq!(features, ["retention", "history", "dependencies"]);
    assert_eq!([0x3e, 0x3f, 0x41, 0x43].map(|tag| count(&rows, tag)), [3, 6, 6, 0]);
    tube.take().unwrap().ack().unwrap();
    let Folder { rows, .. } = look();
    assert_eq!([0x3e, 0x3f, 0x41, 0x43].map(|tag| count(&rows, tag)), [2, 6, 6, 1]);
    assert_eq!(count(&rows, 4), 0);
    tube.take().unwrap().bury("no").unwrap();
    look();
    other.move_to(late, &tube).apply().unwrap();
    look();
    tube.force_delete(parents[2]).unwrap();
    let Folder { contents, .. } = look();
    let states = contents.tasks.values().filter(|task| matches!(task.state, State::Blocked { .. }));
    assert_eq!(states.count(), 1);
    let of_late = &contents.tasks.iter().find(|((_, id), _)| *id == late.get()).unwrap().1.state;
    let State::Blocked { due, .. } = of_late else { panic!("{of_late:?}") };
    let since_1970 = wall.duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as u64;
    assert_eq!(*due, Some((true, since_1970)));
    let held = contents.tasks.values().filter(|task| task.is_held());
    assert_eq!(held.count(), 1);
    queue.force_drop_tube("t").unwrap();
    look();
    queue.tick().unwrap();
    look();
    close_sound(queue);
}

#[test]
fn schedules_are_read_as_the_page_says() {
    let (_home, path) = crate::home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let full = queue
        .schedule("full")
        .every(secs(60))
        .missed(tubewell::Missed::CatchUp(3))
        .overlap(tubewell::Overlap::Replace)
        .to(&tube)
        .payload(b"x")
        .priority(-1)
        .group("g")
        .delay(secs(1))
        .ttl(secs(2))
        .ttr(secs(3))
        .kind("k")
        .book("b")
        .detail("d", "e")
        .max_attempts(4)
        .backoff(tubewell::Backoff::NONE)
        .tag("t");
    full.make().unwrap();
    queue.schedule("plain").every(secs(7)).to(&tube).make().unwrap();
    let paused = queue.schedule("paused").every(secs(7)).offset(secs(9)).to(&tube).make().unwrap();
    paused.pause().unwrap();
    assert_eq!(tube.len().unwrap(), 2);
    clock.advance(secs(8));
    assert_eq!(tube.len().unwrap(), 2);
    let (_copy, copy) = killed(&path);
    let Folder { journal, contents, rows, .. } = read(&copy).unwrap();
    assert!(journal.features.iter().any(|feature| feature.name == "schedules"));
    let Contents { schedules, tasks, .. } = contents;
    let planned = &schedules.planned["full"];
    assert_eq!((&planned.payload[..], planned.timing.clone()), (&b"x"[..], Ok(60_000_000)));
    assert_eq!(planned.fields.keys().copied().collect::<Vec<_>>(), (1..=11).collect::<Vec<_>>());
    let far = &schedules.progressed["plain"];
    assert_eq!((far.children, far.missed, far.paused), (2, 0, false));
    assert!(schedules.progressed["paused"].paused);
    let made: Vec<_> = tasks.values().filter_map(|task| task.spawned.clone()).collect();
    let of_plain: Vec<_> = made.iter().filter(|(_, name)| name == "plain").collect();
    assert_eq!(of_plain.len(), 2);
    assert_eq!(of_plain[1].0 - of_plain[0].0, 7_000_000);
    assert!(tasks.keys().any(|(_, id)| *id == far.last));
    let count = |tag: u8| rows.range(vec![tag]..vec![tag + 1]).count();
    assert_eq!([0x3b, 0x3c, 0x3d].map(count), [3, 3, 3]);
}

#[cfg(feature = "cron")]
#[test]
fn hours_of_a_time_zone_are_read_as_the_page_says() {
    let (_home, path) = crate::home();
    let queue = still().0.open(&path).unwrap();
    let zoned: tubewell::Hours = "Mon 09:00-10:00 Europe/Berlin".parse().unwrap();
    queue.create_tube("made", tubewell::TubeOptions::default().hours(zoned.clone())).unwrap();
    queue.tube("set").unwrap().set("hours", zoned).unwrap();
    let (_copy, copy) = killed(&path);
    let Folder { journal, contents, .. } = read(&copy).unwrap();
    assert!(journal.features.iter().any(|feature| feature.name == "zones"));
    for tube in contents.tubes.values() {
        assert_eq!(tube.hours, Some(("Europe/Berlin".to_owned(), vec![(540, 600)])));
    }
    assert_eq!(contents.tubes.len(), 2);
    drop(queue);
}

#[test]
fn gates_are_read_as_the_page_says() {
    let (_home, path) = crate::home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let rate = tubewell::Rate::new(2).per(secs(1)).burst(3);
    let options = TubeOptions::default().limit(7).rate(rate).require("paid").require("online");
    let always = "00:00-12:00, 12:00-24:00, Mon 00:00-12:00 -01:30".parse().unwrap();
    let options = options.hours(always);
    let office = "Sun 23:00-02:00, Tue 09:00-17:30 +02:00".parse().unwrap();
    queue.set_throttle("disk", 9).unwrap();
    queue.set_throttle_for("api", u64::MAX, secs(1_000_000)).unwrap();
    let shared = TubeOptions::default().hours(office).throttle("disk").throttle("else");
    queue.create_tube("office", shared).unwrap();
    let shared = TubeOptions::default().throttle("api").throttle("disk");
    let busy = queue.create_tube("busy", shared).unwrap();
    busy.put_many([&b"x"[..]; 2]).unwrap();
    busy.take().unwrap().detach();
    busy.take().unwrap().release().unwrap();
    let tube = queue.create_tube("t", options).unwrap();
    tube.put_many([&b"x"[..]; 2]).unwrap();
    queue.set_condition("paid", false).unwrap();
    queue.set_condition_for_run("online", true).unwrap();
    assert!(tube.try_take().unwrap().is_none());
    queue.set_condition("paid", true).unwrap();
    let pace = |path: &std::path::Path| {
        let (_copy, copy) = killed(path);
        let Folder { journal, contents, .. } = read(&copy).unwrap();
        assert!(journal.features.iter().any(|feature| feature.name == "gates"));
        let [office, busy, row] = contents.tubes.values().collect::<Vec<_>>()[..] else { panic!() };
        let (disk, api) = (contents.throttles["disk"], contents.throttles["api"]);
        assert_eq!((disk.1, disk.2, api.1), (9, u64::MAX, u64::MAX));
        assert_eq!(
            (&office.throttles[..], &busy.throttles[..]),
            (&["disk".into(), "else".into()][..], &["api".into(), "disk".into()][..])
        );
        let held: Vec<_> =
            contents.tasks.values().filter(|it| !it.progress.slots.is_empty()).collect();
        assert_eq!((held.len(), &held[0].progress.slots[..]), (1, &[disk.0, api.0][..]));
        let openings = vec![(0, 120), (1980, 2490), (10_020, 10_080)];
        assert_eq!(office.hours, Some(("+02:00".to_owned(), openings)));
        assert_eq!(row.hours, Some(("-01:30".to_owned(), vec![(0, 10_080)])));
        assert_eq!((row.limit, row.rate), (7, Some((1_000_000, 2, 3))));
        assert_eq!(row.required, ["online", "paid"]);
        assert_eq!(contents.conditions, [("paid".to_owned(), true)].into());
        row.pace
    };
    assert_eq!(pace(&path), None);
    let now = tube.peek_next(tubewell::State::Ready).unwrap().unwrap().created;
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    tube.take().unwrap().detach();
    assert_eq!(pace(&path), Some(now + 500_000_000));
    tube.take().unwrap().ack().unwrap();
    assert_eq!(pace(&path), Some(now + 1_000_000_000));
    clock.advance(secs(9));
    tube.set("rate", tubewell::Rate::new(1)).unwrap();
    assert!(tube.unset("rate").unwrap());
    close_sound(queue);
}
