//! Repair by a process that ends: a queue with every kind of task, rows of whose base are damaged,
//! is repaired by a process that ends at each call of the disk in turn, by a kill or a power cut.
//! The next process repairs it again. Then nothing is left but what the repair said that it cannot
//! mend, each task that was sound is as it was, a task is gone only if a line says so, and all are
//! as a repair leaves them that did not end.

use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::{are_all, seeds, wants_more};
use crate::trust::builder;
use redb::{Database, ReadableTable, TableDefinition};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::Duration;
use tubewell::testing::FileName;
use tubewell::{
    Durability, ErrorKind, ManualClock, Queue, Repairs, Retention, Retry, State, Task, TaskId,
    Tube, TubeOptions, Unique,
};
use xxhash_rust::xxh3::xxh3_64;

/// As in `src/format/FORMAT.md`.
const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("tubewell rows");
const META: u8 = 0x01;
/// Rows about the whole queue, a tube or a consumer: what they say of many tasks is lost with them.
const OF_MANY: [u8; 7] = [0x02, 0x03, 0x04, 0x05, 0x06, 0x08, 0x09];
const HOUR: Duration = Duration::from_secs(3600);
const NAMES: [&str; 4] = ["plain", "groups", "kept", "gated"];
const WORDS: [&str; 3] = ["x", "y", "a longer word"];
const TASKS: u64 = 26;
/// Scenes, each of other tasks and damage.
const SCENES: u64 = 36;
/// Those that an opening refuses are few.
const OPENED_MIN: u64 = 30;
/// Of so many calls a usual run ends the process at one; odd, so that kills and cuts take turns.
const STEP: u64 = 11;
/// Ends of the repairing process, over all scenes.
const ENDS_MIN: u64 = 150;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// A task before the damage.
#[derive(Debug, PartialEq)]
struct Seen {
    tube: String,
    state: State,
    payload: Vec<u8>,
    /// Priority, group, key, kind, tags, gates, what it waits for.
    rest: String,
}

/// What a repair has left: its lines, and each task, if it is there and can be read.
struct Left {
    lines: Vec<String>,
    tasks: BTreeMap<TaskId, Option<Result<Seen, ErrorKind>>>,
}

/// A damaged folder, to be repaired again and again.
struct Scene {
    disk: SimDisk,
    clock: ManualClock,
    files: [(FileName, Vec<u8>); 2],
    before: BTreeMap<TaskId, Seen>,
    /// The damage, in words.
    damage: Vec<String>,
    /// Tasks that a damaged row is about.
    hurt: BTreeSet<TaskId>,
    /// Whether a row is damaged that many tasks need.
    is_of_many: bool,
}

fn payload(number: u64, length: usize) -> Vec<u8> {
    number.to_be_bytes().into_iter().cycle().take(8 + length).collect()
}

/// Tubes with all that a task may have.
fn tubes(queue: &Queue) -> [Tube; 4] {
    queue.set_throttle("few", 2).unwrap();
    queue.set_condition("open", true).unwrap();
    let options = TubeOptions::default;
    let keeps = || options().keep_finished(Retention::new()).keep_buried(Retention::new());
    let all = [
        options().max_attempts(3).keep_days(9),
        options().in_flight(2).hold_group_while_delayed(true),
        keeps().unique(Unique::new().in_queue(true)).index_kinds(true),
        options().require("open").throttle("few"),
    ];
    let mut all = NAMES.into_iter().zip(all);
    [(); 4].map(|()| {
        let (name, options) = all.next().unwrap();
        queue.create_tube(name, options).unwrap()
    })
}

/// Puts a task with some of what a task may have.
fn put(tube: &Tube, number: u64, before: &[TaskId], rng: &mut Rng) -> Option<TaskId> {
    let payload = payload(number, rng.of(&[0, 40, 300, 5000]));
    let (word, key) = (rng.of(&WORDS), number.to_string());
    let mut task = tube.task(&payload).priority(rng.below(3) as i64);
    if rng.one_in(3) {
        task = task.group(word);
    }
    if rng.one_in(3) {
        task = task.key(&key);
    }
    if rng.one_in(3) {
        task = task.kind(word).tags(["red", word]);
    }
    if rng.one_in(4) {
        task = task.delay(HOUR);
    }
    if rng.one_in(4) {
        task = task.ttl(2 * HOUR).ttr(HOUR);
    }
    if rng.one_in(4) && !before.is_empty() {
        task = task.after([rng.of(before)]);
    }
    if rng.one_in(6) {
        task = task.throttle("few");
    }
    task.put().ok()
}

/// Takes some of the tasks and does to them what a holder may.
fn work(queue: &Queue, tubes: &[Tube], rng: &mut Rng) {
    let ada = queue.consumer_with_grace("ada", HOUR).unwrap();
    for tube in tubes {
        let taken: Vec<Task> = tube.by(&ada).take_many(5).unwrap();
        for task in taken {
            let _may_be_refused = match rng.below(8) {
                0 => task.ack_with(b"result"),
                1 => task.bury("aside"),
                2 => task.fail("post", "no stamp"),
                3 => task.retry_with(Retry::new("later").after(HOUR)),
                4 => task.trash("away"),
                5 => task.release(),
                _ => {
                    task.progress(40, "so far").unwrap();
                    task.checkpoint(b"half").unwrap();
                    task.detach();
                    Ok(())
                }
            };
        }
    }
    let schedule = queue.schedule("hourly").every(HOUR).offset(HOUR).to(&tubes[0]);
    schedule.payload(b"child").make().unwrap();
}

fn open(disk: &SimDisk, clock: &ManualClock) -> tubewell::Result<Queue> {
    builder(disk.lend(), Durability::Durable).clock(clock.clone()).open_disk()
}

impl Scene {
    /// A queue of which most rows are in the base, some in the journal, and damage to the base.
    fn new(seed: u64) -> Self {
        let (disk, clock) = (SimDisk::new(seed), ManualClock::new());
        let mut rng = Rng::new(seed ^ 0x4e9a);
        let queue = open(&disk, &clock).unwrap();
        let tubes = tubes(&queue);
        let mut ids = Vec::new();
        for number in 0..TASKS {
            let tube = rng.of(&tubes);
            ids.extend(put(&tube, number, &ids, &mut rng));
        }
        work(&queue, &tubes, &mut rng);
        queue.checkpoint().unwrap();
        ids.extend((TASKS..TASKS + 4).filter_map(|number| {
            let tube = rng.of(&tubes);
            put(&tube, number, &[], &mut rng)
        }));
        disk.kill();
        drop((tubes, queue));
        // What an opening ends has ended before the damage.
        let queue = open(&disk, &clock).unwrap();
        let before = ids.iter().filter_map(|id| Some((*id, seen(&queue, *id)?))).collect();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        disk.kill();
        drop(queue);
        let files = FileName::ALL.map(|name| (name, disk.bytes(name)));
        let (hurt, damage, is_of_many) = (BTreeSet::new(), Vec::new(), false);
        let mut scene = Self { disk, clock, files, before, damage, hurt, is_of_many };
        scene.spoil(&mut rng);
        scene
    }

    /// Damages some rows of the base.
    fn spoil(&mut self, rng: &mut Rng) {
        let at = self.files.iter().position(|(name, _)| *name == FileName::Base).unwrap();
        let (sound, mut flipped) = (self.files[at].1.clone(), Vec::new());
        let mut base = edited(&sound, |rows| {
            let all = rows.iter().unwrap().map(|row| {
                let (key, value) = row.unwrap();
                (key.value().to_vec(), value.value().to_vec())
            });
            let keys: Rows = all.collect();
            for _ in 0..1 + rng.below(4) {
                let (key, sealed) = rng.of(&keys);
                match rng.below(4) {
                    0 => {
                        self.note("removed", &key);
                        rows.remove(&*key).unwrap();
                    }
                    1 if sealed.len() > 4 && key[0] != META => {
                        self.note("changed", &key);
                        let at = rng.below(sealed.len() as u64 - 4) as usize;
                        let mut value = sealed[..sealed.len() - 4].to_vec();
                        value[at] ^= 1 << rng.below(8);
                        rows.insert(&*key, &*seal(&key, &value)).unwrap();
                    }
                    2 if key.len() > 5 => {
                        self.note("copied", &key);
                        let (mut other, last) = (key.clone(), key.len() - 1);
                        other[last] ^= 1 << rng.below(3);
                        self.note("over", &other);
                        let value = &sealed[..sealed.len() - 4];
                        rows.insert(&*other, &*seal(&other, value)).unwrap();
                    }
                    // Shorter ones may stand in other rows too.
                    3 if sealed.len() >= 12 => {
                        self.note("flipped", &key);
                        flipped.push(sealed);
                    }
                    _ => {}
                }
            }
        });
        // redb does not know of these: its own checksums are wrong then.
        for sealed in &flipped {
            let places: Vec<_> =
                (0..base.len()).filter(|at| base[*at..].starts_with(sealed)).collect();
            places.into_iter().for_each(|at| base[at] ^= 0x20);
        }
        self.files[at].1 = base;
    }

    /// Notes that the row of this key is damaged.
    fn note(&mut self, how: &str, key: &[u8]) {
        self.damage.push(format!("{how}: {key:02x?}"));
        self.is_of_many |= OF_MANY.contains(&key[0]) || key[0] == META;
        let about = |id: &&TaskId| key.windows(8).any(|part| part == id.get().to_be_bytes());
        self.hurt.extend(self.before.keys().filter(about));
    }

    fn restore(&self) {
        for (name, bytes) in &self.files {
            self.disk.set_bytes(*name, bytes.clone());
        }
        self.disk.plan(Fault::None);
    }

    /// Repairs what an ended process has left. A task is gone then only if a line says so, of this
    /// repair or of the whole one, and each is as the whole one has left it.
    fn repaired(&self, whole: Option<&Left>, ended: &str) -> Left {
        let queue = open(&self.disk, &self.clock)
            .unwrap_or_else(|error| panic!("{ended}: {error}; {:#?}", self.damage));
        let repairs = queue.repair().unwrap();
        self.look(&queue, &repairs, ended);
        let lines = [&repairs.steps[..], &repairs.left].concat();
        let tasks = self.before.keys().map(|id| (*id, seen_or_damaged(&queue, *id))).collect();
        self.disk.kill();
        let left = Left { lines, tasks };
        let said = whole.map_or(&[][..], |whole| &whole.lines);
        for (id, seen) in &left.tasks {
            let mut lines = left.lines.iter().chain(said);
            let why = || format!("{ended}: task {id}: {:#?}; {:#?}", left.lines, self.damage);
            assert!(seen.is_some() || lines.any(|line| names(line, *id)), "{}", why());
            if let Some(whole) = whole {
                assert_eq!(*seen, whole.tasks[id], "{}; {:#?}", why(), whole.lines);
            }
        }
        left
    }

    /// The rows agree but for what the repair has said, and the sound tasks are as they were.
    fn look(&self, queue: &Queue, repairs: &Repairs, ended: &str) {
        let why = || format!("{ended}: {repairs:#?}; {:#?}", self.damage);
        assert_eq!(repairs.stopped_by, None, "{}", why());
        let checked = queue.check().unwrap();
        let unknown: Vec<_> = checked.iter().filter(|line| !is_left(repairs, line)).collect();
        assert!(unknown.is_empty(), "{unknown:#?}; {}", why());
        let again = queue.repair().unwrap();
        assert!(again.steps.is_empty(), "{again:#?} after {}", why());
        for (id, was) in self.before.iter().filter(|(id, _)| !self.hurt.contains(id)) {
            let Some(is) = seen(queue, *id) else { panic!("task {id} is gone; {}", why()) };
            assert_eq!(is.payload, was.payload, "task {id}; {}", why());
            if !self.is_of_many {
                assert_eq!((&is.tube, is.state), (&was.tube, was.state), "task {id}; {}", why());
            }
        }
    }

    /// Repairs it by a process that ends at this call. Returns whether it ended.
    fn ends_at(&self, at: u64, is_cut: bool, whole: &Left) -> bool {
        self.restore();
        let queue = open(&self.disk, &self.clock).unwrap();
        self.disk.plan(Fault::Die(at));
        let _its_report_is_lost = queue.repair();
        let has_ended = self.disk.is_dead();
        if is_cut {
            self.disk.cut_power()
        } else {
            self.disk.kill()
        }
        drop(queue);
        self.disk.plan(Fault::None);
        let ended = format!("ended at call {at}, {}", if is_cut { "cut" } else { "killed" });
        self.repaired(Some(whole), &ended);
        has_ended
    }
}

/// Whether a line of a check is one of those that the repair has left. The files name a damaged row
/// by its key alone, and redb its own pages.
fn is_left(repairs: &Repairs, line: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_hexdigit).collect::<String>();
    let row = line.strip_prefix("the row ").and_then(|row| row.strip_suffix(" is damaged"));
    let is_of = |left: &String| match row {
        Some(row) => digits(left).contains(row),
        None => left.starts_with(line),
    };
    line.contains("redb's own check") || repairs.left.iter().any(is_of)
}

/// Whether a line is about this task. Of a fresh task whose one row is gone only a count says so.
fn names(line: &str, id: TaskId) -> bool {
    let key = format!("{:02x?}", id.get().to_be_bytes());
    line.contains(&format!("task {id}:"))
        || line.contains(key.trim_matches(['[', ']']))
        || line.starts_with("Range { tag: Fresh") && line.ends_with("the count was corrected")
}

/// A task as it is found, if it can be read; `None` if it is gone.
fn seen_or_damaged(queue: &Queue, id: TaskId) -> Option<Result<Seen, ErrorKind>> {
    match queue.find(id) {
        Err(error) if error.kind() == ErrorKind::TaskNotFound => None,
        found => Some(found.map_err(|error| error.kind()).map(|info| {
            let (tube, state) = (info.tube.to_string(), info.state);
            let named = (&info.group, &info.key, &info.kind, &info.tags, info.priority);
            let waits = (&info.requires, &info.throttles, &info.dependencies, &info.dependents);
            Seen { tube, state, rest: format!("{named:?} {waits:?}"), payload: info.payload }
        })),
    }
}

fn seen(queue: &Queue, id: TaskId) -> Option<Seen> {
    let seen = seen_or_damaged(queue, id)?;
    Some(seen.unwrap_or_else(|error| panic!("task {id}: {error:?}")))
}

/// A value as the base stores it.
fn seal(key: &[u8], value: &[u8]) -> Vec<u8> {
    let checksum = (xxh3_64(value) ^ xxh3_64(key).rotate_left(32)) as u32;
    [value, &checksum.to_be_bytes()].concat()
}

/// The file of a base after a change of its rows, which redb commits.
fn edited(base: &[u8], edit: impl FnOnce(&mut redb::Table<'_, &[u8], &[u8]>)) -> Vec<u8> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    // A reserve may follow redb's part.
    let part = base.len() / 4096 * 4096 - base.len() % 4096 / 2 * 131_072;
    file.write_all(&base[..part]).unwrap();
    let database = Database::builder().create_file(file.reopen().unwrap()).unwrap();
    let mut transaction = database.begin_write().unwrap();
    transaction.set_quick_repair(true);
    edit(&mut transaction.open_table(ROWS).unwrap());
    transaction.commit().unwrap();
    // Its own end would write the file once more, without what a quick repair needs.
    let mut bytes = Vec::new();
    file.as_file_mut().seek(SeekFrom::Start(0)).unwrap();
    file.as_file_mut().read_to_end(&mut bytes).unwrap();
    drop(database);
    bytes
}

#[test]
fn s1_s2_a_repair_that_ends_at_any_call_is_repaired_by_the_next() {
    let (mut opened, mut ends) = (0, 0);
    for seed in seeds(SCENES) {
        let scene = Scene::new(seed);
        scene.restore();
        let queue = match open(&scene.disk, &scene.clock) {
            Ok(queue) => queue,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "{error}: {:#?}", scene.damage);
                continue;
            }
        };
        opened += 1;
        scene.disk.kill();
        drop(queue);
        scene.restore();
        let whole = scene.repaired(None, "whole");
        // A usual run has time for some calls of each scene, and for one end at each.
        let step = if wants_more() { 1 } else { STEP };
        for at in (1 + seed % step..).step_by(step as usize) {
            let is_cut = (seed / step + at).is_multiple_of(2);
            let mut has_ended = scene.ends_at(at, is_cut, &whole);
            if wants_more() {
                has_ended |= scene.ends_at(at, !is_cut, &whole);
            }
            if !has_ended {
                break;
            }
            ends += 1;
        }
    }
    println!("{opened} scenes, {ends} ends");
    assert!(!are_all() || opened >= OPENED_MIN && ends >= ENDS_MIN, "{opened}, {ends} ends");
}
