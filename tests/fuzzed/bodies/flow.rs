//! Bytes as a program of dependencies, steps, keys, gates, schedules, tags, merges, transactions
//! and takes from several tubes, on a queue in memory with a manual clock. It checks all that can
//! be checked without a model: a task is handed out after those that it waits for, through open
//! gates and by the tube in which it is; slots, tags and statistics are counted as they are
//! listed, a removed task stays removed, and in the end nothing is stuck.

use super::{Bytes, fine, play};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};
use tubewell::{
    Advance, Clock, Conflict, Distribution, ErrorKind, ManualClock, Missed, NewSchedule, Orphaned,
    Overlap, PauseTerms, PutOutcome, Queue, Rate, Result, Retention, SettingValue, State, Task,
    TaskId, Tube, TubeOptions,
};

const STATES: [State; 6] =
    [State::Blocked, State::Delayed, State::Ready, State::Taken, State::Buried, State::Done];
const STEPS_MAX: usize = 512;
/// Steps between two looks at everything.
const LOOK_EVERY: usize = 32;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const NAMES: [&str; 6] = ["plain", "kept", "gated", "throttled", "temporary", "timed"];
/// The one that keeps days, the one with the condition, and the one with a limit, a rate and
/// hours.
const KEPT: usize = 1;
const GATED: usize = 2;
const TIMED: usize = 5;
/// Those with the throttle "few".
const THROTTLED: [usize; 3] = [GATED, 3, 4];
/// Longer than all steps take.
const KEEP_DAYS: u32 = 3660;
/// Of the tube with a limit, a rate of one a second and hours.
const LIMIT: u64 = 3;
const BURST: u32 = 2;
const OPENS_AT: u64 = 12;
const CLOSES_AT: u64 = 18;
const TAGS: [&str; 3] = ["red", "green", "a longer name of a tag"];
const SCHEDULES: [&str; 2] = ["hourly", "often"];
/// Each half of an hour, and once a day in an hour that summer time skips or doubles.
const CRON: [&str; 2] = ["*/30 * * * *", "30 2 * * *"];
const ZONES: [&str; 2] = ["UTC", "Europe/Berlin"];
const KEYS: [&str; 2] = ["ada", "bob"];

pub fn flow(bytes: &[u8]) {
    let mut bytes = Bytes::of(bytes);
    let clock = ManualClock::new();
    let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory().unwrap();
    let tubes = (0..NAMES.len()).map(|at| {
        let options = TubeOptions::default().max_attempts(3);
        let options = match at {
            KEPT => options.keep_finished(Retention::new().count(3)).keep_days(KEEP_DAYS),
            GATED => options.require("open").throttle("few"),
            3 => options.throttle("few").throttle("other"),
            4 => options.temporary(true).throttle("few"),
            TIMED => timed(options),
            _ => options,
        };
        queue.create_tube(NAMES[at], options).unwrap()
    });
    let tubes = tubes.collect();
    let mut world = World {
        queue,
        clock,
        tubes,
        held: Vec::new(),
        known: BTreeMap::new(),
        gates: BTreeMap::new(),
        waits: BTreeMap::new(),
        done: BTreeSet::new(),
        gone: BTreeSet::new(),
        is_open: false,
        is_timed: true,
        pace: Duration::ZERO,
        unready: 0,
        runs: 0,
        brought: 0,
    };
    let limits = (STEPS_MAX, LOOK_EVERY);
    play(&mut world, &mut bytes, limits, World::step, |world| world.look());
    world.end();
}

/// With the gates that time opens, and a limit.
fn timed(options: TubeOptions) -> TubeOptions {
    let hours = format!("{OPENS_AT}:00-{CLOSES_AT}:00").parse().unwrap();
    options.limit(LIMIT).rate(Rate::new(1).burst(BURST)).hours(hours)
}

struct World {
    queue: Queue,
    clock: ManualClock,
    tubes: Vec<Tube>,
    held: Vec<Task>,
    /// Every id that was answered, and the tube it was put into or has come to.
    known: BTreeMap<u64, usize>,
    /// Which tasks require the condition themselves, and which have the throttle.
    gates: BTreeMap<u64, (bool, bool)>,
    /// The tasks that wait for the success of others, or have waited.
    waits: BTreeMap<u64, BTreeSet<u64>>,
    /// What was acked or completed.
    done: BTreeSet<u64>,
    /// What was deleted.
    gone: BTreeSet<u64>,
    /// Whether the condition is set.
    is_open: bool,
    /// Whether the last tube still has its gates.
    is_timed: bool,
    /// Up to when its takes have used its rate.
    pace: Duration,
    /// Of the tube that keeps days: claims of tasks that were not ready, ends of taken tasks, and
    /// tasks that a merge has brought.
    unready: u64,
    runs: u64,
    brought: u64,
}

/// What stands in the buckets is all that was counted, and as long as that.
fn is_whole(of: &Distribution) {
    assert_eq!(of.buckets().iter().sum::<u64>(), of.count());
    let at_least = of
        .buckets()
        .iter()
        .enumerate()
        .map(|(at, tasks)| Distribution::bucket_start(at) * u32::try_from(*tasks).unwrap());
    assert!(at_least.sum::<Duration>() <= of.total(), "{of:?}");
}

/// The refusal of a verb inside of a transaction.
fn of_closure<T>(done: Result<T>) -> Result<T> {
    done.map_err(|error| match error.kind() {
        ErrorKind::Rejected => *error.into_source().unwrap().downcast().unwrap(),
        _ => error,
    })
}

fn number_of(tube: &str) -> usize {
    NAMES.iter().position(|name| *name == tube).expect("a tube of this world")
}

impl World {
    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let at = bytes.below(NAMES.len());
        match bytes.choice(29) {
            0..=3 => self.put(at, bytes),
            4..=6 => self.take(at, bytes),
            7 => self.take_from_several(bytes),
            8..=10 => self.settle(bytes),
            11 | 12 => self.by_id(bytes),
            13 => self.depend(bytes),
            14 => self.condition(bytes),
            15 => self.throttle(bytes),
            16 => self.schedule(at, bytes),
            17 => self.tag(bytes),
            18 => self.advance(bytes.byte()),
            19 => drop(fine(self.queue.tick())),
            20 => self.merge(at, bytes),
            21 => self.next_step(at, bytes),
            22 => self.put_again(at, bytes),
            23 => self.transact(at, bytes),
            29 => self.more(at, bytes),
            _ => {
                self.take_from_several(bytes);
                for task in std::mem::take(&mut self.held) {
                    self.ack(task);
                }
            }
        }
    }

    /// Seconds, or now and then hours.
    fn advance(&self, by: u8) {
        let unit = if by >= 224 { HOUR } else { SECOND };
        self.clock.advance(unit * u32::from(by % 8));
    }

    /// Acks a task. Returns whether it was still in hand.
    fn ack(&mut self, task: Task) -> bool {
        let id = task.id().get();
        let is_done = fine(task.ack()).is_some();
        if is_done {
            self.done.insert(id);
            self.count_run(id);
        }
        is_done
    }

    /// Counts the end of a taken task, if it is in the tube that keeps days.
    fn count_run(&mut self, id: u64) {
        self.runs += u64::from(self.known.get(&id) == Some(&KEPT));
    }

    /// Moves all tasks of a tube to another one. Those that are known are there then, and no
    /// others stay than those that it names: the children of a schedule that was made again have
    /// the keys of earlier ones.
    fn merge(&mut self, from: usize, bytes: &mut Bytes<'_>) {
        let into = bytes.below(NAMES.len());
        let Some(merged) = fine(self.queue.merge(NAMES[from], NAMES[into])) else { return };
        assert!(merged.stopped_at.is_none() && !merged.is_cut_short, "{merged:?}");
        let mut moved = 0;
        for (id, at) in self.known.iter_mut().filter(|(_, at)| **at == from) {
            let Ok(task) = self.queue.find(TaskId::new(*id)) else { continue };
            let stays = merged.clashes.contains(&task.id);
            assert_eq!(number_of(&task.tube), if stays { from } else { into }, "task {id}");
            if !stays {
                (*at, moved) = (into, moved + 1);
            }
        }
        assert!(merged.moved >= moved, "{moved} are there: {merged:?}");
        assert_eq!(self.tubes[from].info().unwrap().merges_into, None);
        if into == KEPT {
            self.brought += merged.moved;
        }
    }

    fn some_id(&self, bytes: &mut Bytes<'_>) -> Option<TaskId> {
        let back = bytes.below(self.known.len().min(16));
        self.known.keys().rev().nth(back).map(|id| TaskId::new(*id))
    }

    /// The tube of a task, now and then another one.
    fn tube_of(&self, id: TaskId, bytes: &mut Bytes<'_>) -> Tube {
        let own = self.known.get(&id.get()).copied().unwrap_or_default();
        let at = if bytes.byte().is_multiple_of(8) { bytes.below(NAMES.len()) } else { own };
        self.tubes[at].clone()
    }

    /// Some tasks, an id that was never given among them now and then.
    fn some_ids(&self, bytes: &mut Bytes<'_>) -> Vec<TaskId> {
        (0..bytes.below(4))
            .filter_map(|_| match bytes.byte() {
                255 => Some(TaskId::new(1 << 40)),
                _ => self.some_id(bytes),
            })
            .collect()
    }

    /// Those of the tasks that are there and have not succeeded. What is due is done before, so
    /// that a put finds the same.
    fn open(&self, ids: &[TaskId]) -> BTreeSet<u64> {
        self.queue.tick().unwrap();
        let is_open = |id: &&TaskId| match self.queue.find(**id) {
            Ok(task) => task.state != State::Done,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TaskNotFound, "{error}");
                false
            }
        };
        ids.iter().filter(is_open).map(|id| id.get()).collect()
    }

    fn put(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let which = bytes.byte();
        let before = if which & 1 != 0 { self.some_ids(bytes) } else { Vec::new() };
        let open = self.open(&before);
        let policy = [Orphaned::Hold, Orphaned::Cancel, Orphaned::Ignore][bytes.below(3)];
        let tube = self.tubes[at].clone();
        let mut task = tube.task(b"payload").orphaned(policy);
        if which & 2 != 0 {
            task = task.delay(SECOND * u32::from(bytes.byte() % 4));
        }
        if which & 4 != 0 {
            task = task.tag(TAGS[bytes.below(TAGS.len())]);
        }
        if which & 8 != 0 {
            task = task.missing(tubewell::Missing::Ignore);
        }
        let (task, is_strict) = match which >> 4 & 3 {
            0 | 1 => (task.after(before), policy != Orphaned::Ignore),
            2 => (task.after_any_end(before), false),
            _ => (task.after_failure(before), false),
        };
        let (requires, throttled) = (which & 64 != 0, which & 128 != 0);
        let task = if requires { task.require("open") } else { task };
        let task = if throttled { task.throttle("few") } else { task };
        if let Some(id) = fine(task.put()) {
            self.known.insert(id.get(), at);
            self.gates.insert(id.get(), (requires, throttled));
            if is_strict {
                self.waits.insert(id.get(), open);
            }
        }
    }

    /// Sends a task in hand on to another tube, where it may wait for others.
    fn next_step(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        if self.held.is_empty() {
            return;
        }
        let mut task = self.held.swap_remove(bytes.below(self.held.len()));
        let before = self.some_ids(bytes);
        let open = self.open(&before);
        let terms = Advance::new().after(before).delay(SECOND * u32::from(bytes.byte() % 2));
        let is_done = match bytes.flag() {
            true => fine(task.advance_with(&self.tubes[at], terms)).is_some(),
            false => {
                let tube = &self.tubes[at];
                let done = self.queue.transact(|tx| tx.advance_with(&task, tube, terms));
                fine(of_closure(done)).is_some()
            }
        };
        if is_done {
            self.stepped(task.id().get(), at, open);
        } else {
            self.held.push(task);
        }
    }

    /// A task has gone on to this tube, where it waits for these.
    fn stepped(&mut self, id: u64, at: usize, open: BTreeSet<u64>) {
        self.count_run(id);
        self.known.insert(id, at);
        self.waits.insert(id, open);
    }

    /// Puts the task of a key, or puts it again. What it waits for is given again, what is finished
    /// gets another id.
    fn put_again(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let key = KEYS[bytes.below(KEYS.len())];
        let conflict = [Conflict::Replace, Conflict::Keep][bytes.below(2)];
        let before = self.some_ids(bytes);
        let open = self.open(&before);
        let tube = self.tubes[at].clone();
        let task = tube.task(b"payload").key(key).on_conflict(conflict);
        let Some(put) = fine(task.orphaned(Orphaned::Hold).after(before).put_outcome()) else {
            return;
        };
        if put.outcome != PutOutcome::Existing {
            assert!(!self.done.contains(&put.id.get()), "task {} was done", put.id);
            self.known.insert(put.id.get(), at);
            self.waits.insert(put.id.get(), open);
        }
    }

    /// What came after the first inputs were kept.
    fn more(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let tube = self.tubes[at].clone();
        let held = bytes.below(self.held.len());
        match bytes.byte() % 8 {
            0 if !self.held.is_empty() => {
                fine(self.held.swap_remove(held).snooze(SECOND));
            }
            1 if !self.held.is_empty() => {
                let task = self.held.swap_remove(held);
                fine(task.bury_with_priority("aside", i64::from(bytes.byte() % 4)));
            }
            2 if !self.held.is_empty() => self.put_while_holding(held),
            3 => {
                let before = self.slots();
                let taken = fine(tube.try_take_group(KEYS[bytes.below(KEYS.len())])).flatten();
                self.took(taken.into_iter().collect(), before);
            }
            4 | 5 => self.put_batch(at, bytes),
            6 => {
                let terms = PauseTerms::new().length(SECOND * u32::from(1 + bytes.byte() % 3));
                let terms = if bytes.flag() { terms.time_out_running() } else { terms };
                tube.pause_with(terms).unwrap();
                assert!(tube.try_take().unwrap().is_none(), "a task came through a pause");
            }
            _ => self.put_others(at, bytes),
        }
    }

    /// The holder of a task puts it again, under the key that it has or gets a new one with.
    fn put_while_holding(&mut self, held: usize) {
        let held = &self.held[held];
        let at = number_of(held.tube());
        let found = self.queue.find(held.id()).ok();
        let key = found.and_then(|found| found.summary.key).unwrap_or_else(|| KEYS[0].to_owned());
        let tube = self.tubes[at].clone();
        let task = tube.task(b"payload").key(&key).on_conflict(Conflict::Replace);
        let Some(put) = fine(task.holding(held).put_outcome()) else { return };
        assert!(!self.done.contains(&put.id.get()), "task {} was done", put.id);
        if put.id == held.id() {
            assert!(held.is_lost().unwrap(), "task {} was put again and is in hand", put.id);
        }
        // What it waits for is kept, if it was there.
        self.known.insert(put.id.get(), at);
    }

    /// Tasks of a batch, some in a group, some after others: all or none.
    fn put_batch(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let tube = self.tubes[at].clone();
        let mut opens = Vec::new();
        let mut tasks = Vec::new();
        for _ in 0..bytes.below(4) {
            let before = self.some_ids(bytes);
            opens.push(self.open(&before));
            let task = tube.task(b"payload").orphaned(Orphaned::Hold).after(before);
            let task = if bytes.flag() { task.group(KEYS[bytes.below(KEYS.len())]) } else { task };
            tasks.push(task);
        }
        let Some(ids) = fine(tube.batch_of(tasks).put()) else { return };
        assert_eq!(ids.len(), opens.len());
        for (id, open) in ids.into_iter().zip(opens) {
            self.known.insert(id.get(), at);
            self.gates.insert(id.get(), (false, false));
            self.waits.insert(id.get(), open);
        }
    }

    fn put_others(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let tube = self.tubes[at].clone();
        if bytes.flag() {
            let count = bytes.below(4) as u64;
            let put = fine(tube.put_all((0..count).map(|_| b"payload".to_vec())));
            assert!(put.is_none_or(|put| put == count));
        } else if let Some(id) = fine(tube.put_front(b"payload")) {
            self.known.insert(id.get(), at);
            self.gates.insert(id.get(), (false, false));
        }
    }

    /// A put and the end of a task that it comes after, as one commit or not at all.
    fn transact(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        if self.held.is_empty() {
            return;
        }
        let task = self.held.swap_remove(bytes.below(self.held.len()));
        let (tube, id) = (self.tubes[at].clone(), task.id());
        let mut before = self.some_ids(bytes);
        before.push(id);
        let open = self.open(&before);
        let (is_first, fails) = (bytes.flag(), bytes.byte().is_multiple_of(4));
        let put = self.queue.transact(|tx| {
            if is_first {
                tx.ack(&task)?;
            }
            let put = tube.task(b"payload").after(before).put_in(tx)?;
            if !is_first {
                tx.ack(&task)?;
            }
            // Refused for a reason of its own, and all of it.
            if fails {
                tube.put_in(tx, b"payload").and(tube.peek(put).map(|_| put))
            } else {
                Ok(put)
            }
        });
        match fine(of_closure(put)) {
            Some(put) => {
                self.done.insert(id.get());
                self.count_run(id.get());
                self.known.insert(put.get(), at);
                self.waits.insert(put.get(), open);
                self.are_followed();
            }
            None => self.held.push(task),
        }
    }

    /// The slots of the throttle that are in use, and its limit. What is due is done before, as a
    /// take does.
    fn slots(&self) -> (u64, u64) {
        self.queue.tick().unwrap();
        let throttle = self.queue.throttle("few").unwrap();
        throttle.map_or((0, 0), |it| (it.in_flight, it.limit))
    }

    fn take(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let before = self.slots();
        let tube = self.tubes[at].clone();
        let taken = match bytes.byte() % 4 {
            0 => self.claim(at, bytes).into_iter().collect(),
            1 => fine(tube.take_many(bytes.below(5))).unwrap_or_default(),
            _ => fine(tube.try_take()).flatten().into_iter().collect(),
        };
        self.took(taken, before);
    }

    fn claim(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<Task> {
        let id = self.some_id(bytes)?;
        let before = self.queue.find(id).ok()?.state;
        let task = fine(self.tubes[at].claim(id))?;
        self.unready += u64::from(at == KEPT && before != State::Ready);
        Some(task)
    }

    fn take_from_several(&mut self, bytes: &mut Bytes<'_>) {
        let before = self.slots();
        let some = 1 + bytes.below(NAMES.len());
        let tubes = self.queue.tubes_of(&NAMES[NAMES.len() - some..]).unwrap();
        let tubes = match bytes.byte() % 5 {
            0 => tubes.in_order(),
            1 => tubes.round_robin(),
            2 => tubes.by_priority(),
            3 => tubes.shuffled(u64::from(bytes.byte())),
            _ => tubes.weighted(&vec![2; some]).unwrap(),
        };
        let taken = fine(tubes.take_many(bytes.below(5))).unwrap_or_default();
        self.took(taken, before);
    }

    fn took(&mut self, tasks: Vec<Task>, (mut used, limit): (u64, u64)) {
        let in_time = tasks.iter().filter(|task| number_of(task.tube()) == TIMED).count();
        self.came_in_time(in_time);
        for task in tasks {
            let id = task.id().get();
            assert!(!self.gone.contains(&id), "task {id} is handed out and was gone");
            assert!(!self.done.contains(&id), "task {id} is handed out and was done");
            // A child of a schedule is met here first.
            let of = number_of(task.tube());
            let at = *self.known.entry(id).or_insert(of);
            assert_eq!(of, at, "task {id} is handed out by another tube");
            for earlier in self.waits.get(&id).into_iter().flatten() {
                assert!(self.done.contains(earlier), "task {id} came before {earlier}");
            }
            let (requires, throttled) = self.gates_of(&task);
            let is_open = self.is_open || !(requires || at == GATED);
            assert!(is_open, "task {id} came through a closed gate");
            if throttled || THROTTLED.contains(&at) {
                assert!(limit == 0 || used < limit, "task {id} is one more than {limit}");
                used += 1;
            }
            self.held.push(task);
        }
    }

    /// So many tasks were taken from the tube with a limit, a rate and hours.
    fn came_in_time(&mut self, tasks: usize) {
        if tasks == 0 || !self.is_timed {
            return;
        }
        let taken = self.tubes[TIMED].stats().unwrap().taken;
        assert!(taken <= LIMIT, "{taken} are taken");
        let second = self.clock.wall().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let hour = second / 3600 % 24;
        assert!((OPENS_AT..CLOSES_AT).contains(&hour), "one is taken at {hour} o'clock");
        let now = self.clock.monotonic();
        self.pace = self.pace.max(now) + SECOND * tasks as u32;
        assert!(self.pace <= now + SECOND * BURST, "one is taken before its time");
    }

    /// Which gates a task has itself. The children of the first schedule have both.
    fn gates_of(&self, task: &Task) -> (bool, bool) {
        let of_put = self.gates.get(&task.id().get()).copied();
        of_put.unwrap_or_else(|| {
            let info = self.queue.find(task.id()).unwrap();
            let is_gated = info.spawned_from.as_deref() == Some(SCHEDULES[0]);
            (is_gated, is_gated)
        })
    }

    fn settle(&mut self, bytes: &mut Bytes<'_>) {
        let at = bytes.below(self.held.len());
        if self.held.is_empty() {
            return;
        }
        let task = self.held.swap_remove(at);
        match bytes.byte() % 8 {
            0..=3 => {
                if self.ack(task) {
                    self.are_followed();
                }
            }
            4 => drop(fine(task.release())),
            5 => drop(fine(task.retry_after("failed", SECOND))),
            6 => drop(fine(task.fail("kind", "failed"))),
            _ => drop(task),
        }
    }

    fn by_id(&mut self, bytes: &mut Bytes<'_>) {
        let Some(id) = self.some_id(bytes) else { return };
        let tube = self.tube_of(id, bytes);
        match bytes.byte() % 8 {
            0 => {
                if fine(tube.delete(id)).is_some() {
                    self.gone.insert(id.get());
                }
            }
            1 => {
                if fine(tube.force_delete(id)).is_some() {
                    self.gone.insert(id.get());
                }
            }
            2 => drop(fine(tube.bury(id, "by hand"))),
            3 => drop(fine(tube.kick_task(id))),
            4 => {
                let is_taken = self.queue.find(id).is_ok_and(|task| task.state == State::Taken);
                if fine(tube.complete_by_id(id)) == Some(true) {
                    self.done.insert(id.get());
                    if is_taken {
                        self.count_run(id.get());
                    }
                    self.are_followed();
                }
            }
            5 => {
                if fine(self.queue.explain(id)).is_some() {
                    assert!(!self.gone.contains(&id.get()), "task {id} is seen and was gone");
                }
            }
            6 => drop(fine(self.queue.dependencies(id))),
            _ => {
                if bytes.byte().is_multiple_of(8) && fine(self.queue.cancel_tree(id)).is_some() {
                    self.gone.insert(id.get());
                }
            }
        }
    }

    fn depend(&mut self, bytes: &mut Bytes<'_>) {
        let Some(id) = self.some_id(bytes) else { return };
        let others = self.some_ids(bytes);
        let tube = self.tube_of(id, bytes);
        match bytes.byte() % 4 {
            0 | 1 => {
                let open = self.open(&others);
                let done = fine(tube.depend(id, others));
                if let (Some(()), Some(waits)) = (done, self.waits.get_mut(&id.get())) {
                    waits.extend(open);
                }
            }
            2 => {
                let ids: Vec<u64> = others.iter().map(|id| id.get()).collect();
                if fine(tube.undepend(id, others)).is_some()
                    && let Some(waits) = self.waits.get_mut(&id.get())
                {
                    waits.retain(|earlier| !ids.contains(earlier));
                }
            }
            _ => {
                if fine(tube.undepend_all(id)).is_some() {
                    self.waits.remove(&id.get());
                }
            }
        }
    }

    fn condition(&mut self, bytes: &mut Bytes<'_>) {
        let is_set = bytes.flag();
        let done = match bytes.byte() % 4 {
            0 => self.queue.remove_condition("open").map(|_| false),
            1 => self.queue.set_condition_for_run("open", is_set).map(|_| is_set),
            _ => self.queue.set_condition("open", is_set).map(|_| is_set),
        };
        if let Some(is_open) = fine(done) {
            self.is_open = is_open;
        }
        assert_eq!(self.queue.condition("open").unwrap(), self.is_open);
    }

    fn throttle(&mut self, bytes: &mut Bytes<'_>) {
        let limit = bytes.below(4) as u64;
        match bytes.byte() % 8 {
            0 => drop(fine(self.queue.remove_throttle("few"))),
            1 => drop(fine(self.queue.set_throttle_for("few", limit, SECOND))),
            2 => drop(fine(self.queue.set_throttle("other", limit))),
            3 => {
                let ids: Vec<TaskId> = self.some_id(bytes).into_iter().collect();
                fine(self.queue.release_throttle("few", &ids));
            }
            _ => drop(fine(self.queue.set_throttle("few", limit))),
        }
    }

    fn schedule(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let name = SCHEDULES[bytes.below(SCHEDULES.len())];
        let schedule = self.queue.schedule_named(name);
        match bytes.byte() % 6 {
            0 => drop(fine(schedule.remove())),
            1 => drop(fine(schedule.pause())),
            2 => drop(fine(schedule.resume())),
            3 => {
                if let Some(id) = fine(schedule.run_now())
                    && let Some(task) = fine(self.queue.find(id))
                {
                    self.known.insert(id.get(), number_of(&task.tube));
                }
            }
            _ => {
                let overlap = [Overlap::Allow, Overlap::Skip, Overlap::Replace][bytes.below(3)];
                let missed = [Missed::Skip, Missed::Coalesce, Missed::CatchUp(2)][bytes.below(3)];
                let new = self.timing(name, bytes).to(&self.tubes[at]);
                let is_gated = name == SCHEDULES[0];
                let new = if is_gated { new.require("open").throttle("few") } else { new };
                fine(new.overlap(overlap).missed(missed).tag(TAGS[0]).make());
            }
        }
    }

    /// When a schedule fires: with the feature `cron` now and then by a wall clock.
    fn timing<'n>(&self, name: &'n str, bytes: &mut Bytes<'_>) -> NewSchedule<'n> {
        let new = self.queue.schedule(name);
        match bytes.choice(4) {
            #[cfg(feature = "cron")]
            4 => new.cron(CRON[bytes.below(2)]).zone(ZONES[bytes.below(2)]),
            seconds => new.every(SECOND * (1 + u32::from(seconds))),
        }
    }

    fn tag(&mut self, bytes: &mut Bytes<'_>) {
        let Some(id) = self.some_id(bytes) else { return };
        let tube = self.tube_of(id, bytes);
        let tag = TAGS[bytes.below(TAGS.len())];
        match bytes.byte() % 4 {
            0 => drop(fine(tube.untag(id, [tag]))),
            1 => drop(fine(self.queue.track(id))),
            2 => drop(fine(self.queue.untrack(id))),
            _ => drop(fine(tube.tag(id, [tag]))),
        }
    }

    /// Looks at everything from outside.
    fn look(&self) {
        assert_eq!(self.queue.check().unwrap(), Vec::<String>::new());
        for throttle in self.queue.throttles().unwrap() {
            let holders = self.queue.throttle_holders(&throttle.name);
            let holders: Vec<_> = holders.map(Result::unwrap).collect();
            assert_eq!(holders.len() as u64, throttle.in_flight, "{}", throttle.name);
        }
        for tag in TAGS {
            let tagged = self.queue.tagged(tag).map(Result::unwrap).count();
            assert_eq!(self.queue.tag_count(tag).unwrap(), tagged as u64, "{tag}");
        }
        self.days_add_up();
        for tube in &self.tubes {
            let stats = tube.stats().unwrap();
            for state in STATES {
                let tasks: Vec<_> = tube.tasks(state).map(Result::unwrap).collect();
                let counted = match state {
                    State::Blocked => stats.blocked,
                    State::Delayed => stats.delayed,
                    State::Ready => stats.ready,
                    State::Taken => stats.taken,
                    State::Buried => stats.buried,
                    _ => stats.finished,
                };
                assert_eq!(counted, tasks.len() as u64, "{state:?} of {}", tube.name());
                for task in tasks {
                    assert_eq!(task.state, state);
                    assert!(!self.gone.contains(&task.id.get()), "task {} is back", task.id);
                }
            }
        }
    }

    /// Each step of a task of the tube that keeps days is counted once.
    fn days_add_up(&self) {
        let tube = &self.tubes[KEPT];
        let (stats, days) = (tube.stats().unwrap(), tube.days().unwrap());
        assert!(days.is_sorted_by(|one, next| one < next), "{days:?}");
        let days = days.into_iter().map(|day| tube.statistics(day).unwrap().unwrap());
        let mut all = [0; 5];
        for day in days {
            [&day.waits, &day.runs].into_iter().for_each(is_whole);
            let of = [day.waits.count(), day.runs.count(), day.failures, day.failed, day.retries];
            all.iter_mut().zip(of).for_each(|(all, of)| *all += of);
        }
        let [waits, runs, failures, failed, retries] = all;
        let calls = &stats.calls;
        assert_eq!((waits + self.unready, runs), (calls.take, self.runs), "{stats:?}");
        assert!(retries <= calls.retry + calls.lost, "{retries} retries: {stats:?}");
        let ends = runs + retries + stats.taken;
        assert!(ends <= waits + self.unready + self.brought, "{all:?} of {stats:?}");
        // What a merge has brought may have failed before the days here began.
        let others = stats.buried.checked_sub(failed).expect("it is buried");
        assert!(others <= self.brought && failed <= failures + self.brought, "{all:?}");
    }

    /// Opens all gates, and ends everything: nothing is stuck.
    fn end(mut self) {
        SCHEDULES.iter().for_each(|name| _ = self.queue.schedule_named(name).remove().unwrap());
        self.queue.set_condition("open", true).unwrap();
        ["few", "other"].iter().for_each(|name| _ = self.queue.remove_throttle(name).unwrap());
        self.tubes[TIMED].set("limit", 0).unwrap();
        ["rate", "hours"].iter().for_each(|name| {
            self.tubes[TIMED].set(name, SettingValue::Nothing).unwrap();
        });
        self.held.clear();
        (self.is_open, self.is_timed) = (true, false);
        for tube in &self.tubes {
            tube.release_all().unwrap();
            tube.kick(u64::MAX).unwrap();
        }
        self.clock.advance(SECOND * 60);
        self.work_off();
        // What is left waits for what was deleted, or for an end of another kind.
        self.are_followed();
        for tube in &self.tubes {
            let blocked: Vec<_> = tube.tasks(State::Blocked).map(Result::unwrap).collect();
            for task in blocked {
                tube.undepend_all(task.id).unwrap();
                self.waits.remove(&task.id.get());
            }
        }
        self.work_off();
        self.look();
        for tube in &self.tubes {
            let stats = tube.stats().unwrap();
            assert_eq!(stats.total, 0, "{}: {stats:?}", tube.name());
        }
        self.queue.close().unwrap();
    }

    /// Takes and acks all that can be taken.
    fn work_off(&mut self) {
        let all = self.queue.tubes_of(NAMES).unwrap().round_robin();
        while let Some(task) = all.try_take().unwrap() {
            self.took(vec![task], (0, 0));
            for task in std::mem::take(&mut self.held) {
                assert!(self.ack(task));
            }
        }
    }

    /// Right after an end: what has waited for it alone is released before the call returns.
    fn are_followed(&self) {
        for tube in &self.tubes {
            for task in tube.tasks(State::Blocked).map(Result::unwrap) {
                let Some(waits) = self.waits.get(&task.id.get()) else { continue };
                let is_over = waits.iter().all(|earlier| self.done.contains(earlier));
                assert!(!is_over, "task {} waits for none and is blocked", task.id);
            }
        }
    }
}
