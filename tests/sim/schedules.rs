//! Schedules on a disk that crashes, beside a model in plain values: whatever dies when, every
//! nominal time has made one child or is counted as missed, as the documents say of its policy,
//! of a tube that is full or was dropped, and of a key that is taken. The keys of the children
//! and the next fires are exactly the ones that the model foresees. Of the tasks of a tube a take
//! gets exactly those whose gates are open. A merge moves them, and their schedules stay.

mod gates;
mod merge;
mod model;
mod times;

use crate::crash::{crash, durability};
use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::seeds;
use gates::{CONDITIONS, Needs, THROTTLES};
use merge::Places;
use model::{Model, Said, SeenSchedule, Serial, Shown, Sight, Step, Task, Verb, word};
use std::collections::BTreeMap;
use std::mem::take;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use times::{CHANGES, CRONS, Cron, Timing};
use tubewell::{
    Clock, Conflict, Durability, ErrorKind, HistoryLimits, ManualClock, Merged, Missed, Overlap,
    Queue, Result, Retention, ScheduleInfo, State, Task as Lease, TaskId, Tube, TubeOptions,
};

/// Steps between two crashes, at most.
const STEPS: usize = 40;
/// Steps between two looks at everything.
const LOOK_EVERY: usize = 10;
/// Crashes of each seed.
const GENERATIONS: usize = 4;
const SEEDS: u64 = 400;

/// The tubes, and how many tasks each holds at most; 0: any number. The fourth one is
/// dropped and made again.
const TUBES: [(&str, usize); 5] = [("t", 0), ("full", 3), ("tight", 1), ("gone", 0), ("few", 2)];
/// Whether they keep finished tasks.
const KEEPS: [bool; TUBES.len()] = [true, false, false, true, false];
const GONE: usize = 3;

/// What a schedule of the simulation is.
#[derive(Clone, Copy)]
struct Plan {
    missed: Missed,
    overlap: Overlap,
    tube: usize,
    /// In units.
    offset: u64,
    /// The cron text that it begins with. None: an interval.
    cron: Option<usize>,
    needs: Needs,
}

const ALL: Missed = Missed::CatchUp(u32::MAX);
/// A tube that may be full has one schedule: in which order two of them fire is not promised. Those
/// with cron texts come last.
const SCHEDULES: [Plan; 15] = [
    every(ALL, Overlap::Allow, 0, 0),
    every(Missed::CatchUp(2), Overlap::Allow, 0, 25).needs([true, false], [false, false]),
    every(Missed::Coalesce, Overlap::Allow, 0, 0).needs([false, false], [true, false]),
    every(Missed::Skip, Overlap::Allow, 0, 4),
    every(ALL, Overlap::Skip, 0, 0).needs([true, false], [true, false]),
    every(Missed::Coalesce, Overlap::Replace, 0, 0).needs([false, false], [false, true]),
    every(ALL, Overlap::Allow, 1, 0).needs([false, false], [true, false]),
    every(Missed::CatchUp(2), Overlap::Replace, 2, 7).needs([false, true], [false, false]),
    every(ALL, Overlap::Allow, 3, 0).needs([true, true], [false, false]),
    every(Missed::CatchUp(2), Overlap::Skip, 3, 2).needs([false, true], [false, true]),
    cron(ALL, Overlap::Allow, 0, 0, 0).needs([false, false], [true, false]),
    cron(Missed::Skip, Overlap::Allow, 0, 9, 1).needs([true, false], [false, false]),
    cron(Missed::Coalesce, Overlap::Replace, 0, 0, 2),
    cron(Missed::CatchUp(2), Overlap::Skip, 3, 0, 3).needs([false, false], [true, true]),
    cron(Missed::CatchUp(3), Overlap::Allow, 4, 30, 4).needs([true, false], [false, true]),
];
/// Those of intervals, which every build has.
const INTERVALS: usize = 10;

const fn every(missed: Missed, overlap: Overlap, tube: usize, offset: u64) -> Plan {
    Plan { missed, overlap, tube, offset, cron: None, needs: NONE }
}

const fn cron(missed: Missed, overlap: Overlap, tube: usize, offset: u64, text: usize) -> Plan {
    Plan { missed, overlap, tube, offset, cron: Some(text), needs: NONE }
}

const NONE: Needs =
    Needs { conditions: [false; CONDITIONS.len()], throttles: [false; THROTTLES.len()] };

impl Plan {
    /// The gates of its children.
    const fn needs(self, conditions: [bool; 2], throttles: [bool; 2]) -> Self {
        Self { needs: Needs { conditions, throttles }, ..self }
    }
}

/// The seconds of a unit of time. With minutes some hours pass, in which the clocks change.
const UNITS: [u64; 2] = [1, 60];
/// A fire by hand tries so many keys.
const KEYS_OF_RUN: usize = 8;
/// By so much a fire may be late with [`Missed::Skip`].
const LATE: Duration = Duration::from_secs(60);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn name(schedule: usize) -> String {
    format!("s{schedule}")
}

type Tubes = [Option<Tube>; TUBES.len()];

struct Story {
    disk: SimDisk,
    clock: ManualClock,
    rng: Rng,
    durability: Durability,
    model: Model,
    held: BTreeMap<Serial, Lease>,
    /// From the last take.
    taken: Vec<Lease>,
    /// From the last take, and the last merge.
    shown: Shown,
    /// The steps, for the report of a failure.
    trace: Vec<String>,
}

fn options(tube: usize) -> TubeOptions {
    let options = TubeOptions::default().capacity(TUBES[tube].1 as u64);
    let options = options.history(HistoryLimits::none()).max_attempts(1000).if_not_exists();
    if KEEPS[tube] { options.keep_finished(Retention::new()) } else { options }
}

impl Story {
    fn open(&self, is_first: bool) -> (Queue, Tubes) {
        let builder = Queue::builder().durability(self.durability).journal_bytes(64 << 10);
        let builder = builder.by_hand(true).clock(self.clock.clone()).disk(self.disk.lend());
        let queue = builder.open_disk().unwrap();
        for (no, name) in THROTTLES.into_iter().enumerate().filter(|_| is_first) {
            queue.set_throttle(name, self.model.gates.limits[no]).unwrap();
        }
        let tubes = std::array::from_fn(|tube| {
            let name = TUBES[tube].0;
            match is_first {
                true => Some(queue.create_tube(name, options(tube)).unwrap()),
                false => queue.find_tube(name).unwrap(),
            }
        });
        (queue, tubes)
    }

    fn now(&self) -> SystemTime {
        self.clock.wall()
    }

    /// A key for a task of another put: perhaps that of the next child there, or of a child that
    /// may be in any tube, so that they meet in a merge.
    fn key(&mut self, tube: usize) -> String {
        let is_any = self.rng.one_in(3);
        let of_tube = |no: &usize| is_any || SCHEDULES[*no].tube == tube;
        let found = self.model.schedules.iter().filter(|(no, _)| of_tube(no));
        let found: Vec<_> = found.map(|(no, it)| (*no, it.children)).collect();
        if found.is_empty() || self.rng.one_in(3) {
            return format!("own-{}", self.model.next);
        }
        let (no, children) = self.rng.of(&found);
        let number = children + self.rng.below(if is_any { 2 } else { 4 });
        format!("{}-{number}", name(no))
    }

    fn end(&mut self) -> Option<Step> {
        let model = &self.model;
        let place = |task: &Task| model.tubes.iter().position(|tube| *tube == Some(task.tube));
        let ready = model.tasks.values().filter(|task| task.state == State::Ready);
        let ready: Vec<_> = ready.map(|task| (place(task).unwrap(), task.key.clone())).collect();
        if ready.is_empty() {
            return None;
        }
        let (tube, key) = self.rng.of(&ready);
        let verb = self.rng.of(&[Verb::Ack, Verb::Ack, Verb::Ack, Verb::Bury, Verb::Delete]);
        Some(Step::End(verb, tube, key))
    }

    /// The timing that a schedule has, or begins with.
    fn timing(&self, no: usize) -> Timing {
        let begins = match SCHEDULES[no].cron {
            Some(text) => Timing::Cron(text),
            None => Timing::Every((3 + no as u64) * self.unit()),
        };
        self.model.schedules.get(&no).map_or(begins, |it| it.timing)
    }

    /// Another one; rarely of another kind.
    fn other(&mut self, no: usize, units: &[u64]) -> Timing {
        let is_other_kind = self.rng.one_in(8) && cfg!(feature = "cron");
        match SCHEDULES[no].cron.is_some() != is_other_kind {
            true => Timing::Cron(self.rng.below(CRONS.len() as u64) as usize),
            false => Timing::Every(self.rng.of(units) * self.unit()),
        }
    }

    fn needs(&mut self) -> Needs {
        let rng = &mut self.rng;
        let needs = Needs {
            conditions: CONDITIONS.map(|_| rng.one_in(3)),
            throttles: THROTTLES.map(|_| rng.one_in(3)),
        };
        // An update that gives none changes none.
        if needs == NONE { Needs { conditions: [true, false], ..NONE } } else { needs }
    }

    /// What becomes of a task in hand.
    fn settle(&mut self) -> Option<Step> {
        let held: Vec<_> = self.held.keys().copied().collect();
        let verb = self.rng.of(&[Verb::Ack, Verb::Ack, Verb::Bury, Verb::Release]);
        (!held.is_empty()).then(|| Step::Settle(verb, self.rng.of(&held)))
    }

    fn merge(&mut self, from: usize) -> Option<Step> {
        let into: Vec<_> =
            (0..TUBES.len()).filter(|it| self.model.foresees_merge(from, *it)).collect();
        (!into.is_empty()).then(|| Step::Merge(from, self.rng.of(&into)))
    }

    fn unit(&self) -> u64 {
        self.model.unit
    }

    fn draw(&mut self) -> Option<Step> {
        let schedules = if cfg!(feature = "cron") { SCHEDULES.len() } else { INTERVALS };
        let no = self.rng.below(schedules as u64) as usize;
        let tube = self.rng.below(TUBES.len() as u64) as usize;
        let has = |tube: usize| self.model.tubes[tube].is_some();
        let (has_tube, has_own) = (has(tube), has(SCHEDULES[no].tube));
        let has_gone = has(GONE);
        Some(match self.rng.below(62) {
            0..=9 => Step::Advance((1 + self.rng.below(9)) * self.unit()),
            10 => Step::Advance(self.rng.of(&[20, 45, 75]) * self.unit()),
            11..=15 if has_own => match self.rng.below(5) {
                0..=2 => Step::Make(no, self.timing(no)),
                _ => Step::Make(no, self.other(no, &[4, 200])),
            },
            16..=17 => Step::Update(no, self.other(no, &[1, 2, 5, 11, 90])),
            18 => Step::Pause(no),
            19..=20 => Step::Resume(no),
            21..=22 => Step::RunNow(no),
            23 => Step::Remove(no),
            24..=26 if has_tube => Step::Put(tube, self.key(tube)),
            27..=33 => self.end()?,
            34 if has_tube && self.rng.one_in(2) => Step::Truncate(tube),
            35 => match has_gone {
                true => Step::Drop,
                false => Step::MakeTube,
            },
            36 if !has_gone => Step::MakeTube,
            37 if has_tube => Step::Count(tube),
            38 => Step::Checkpoint,
            39 => Step::Tick,
            40..=45 if has_tube => Step::Take(tube, self.rng.of(&[1, 1, 3, 8])),
            46..=50 => self.settle()?,
            51..=53 => {
                let to = self.rng.of(&[Some(true), Some(true), Some(false), None]);
                Step::Condition(self.rng.below(2) as usize, to)
            }
            54..=55 => Step::Throttle(self.rng.below(2) as usize, self.rng.of(&[0, 1, 1, 2, 3])),
            56..=57 => Step::Gate(no, self.needs()),
            58..=61 => self.merge(tube)?,
            _ => return None,
        })
    }

    /// Runs a step. The clock moves last: what was due before is on the disk then, so that a
    /// power cut takes back only what is due at the same time again.
    fn run(&mut self, queue: &Queue, tubes: &mut Tubes, step: &Step) -> Result<Said> {
        let named = |no: &usize| queue.schedule_named(&name(*no));
        let of = |tube: usize| tubes[tube].as_ref().unwrap();
        match step {
            Step::Advance(seconds) => {
                queue.tick()?;
                queue.flush()?;
                self.clock.advance(secs(*seconds));
            }
            Step::Make(no, timing) => {
                let Plan { missed, overlap, tube, offset, needs, .. } = SCHEDULES[*no];
                let (name, offset) = (name(*no), secs(offset * self.unit()));
                let made = needs.give(timing.give(queue.schedule(&name))).offset(offset);
                made.missed(missed).overlap(overlap).to(of(tube)).payload(b"x").make()?;
            }
            Step::Update(no, timing) => named(no).update(|it| timing.give(it))?,
            Step::Gate(no, needs) => named(no).update(|it| needs.give(it))?,
            Step::Pause(no) => return named(no).pause().map(Said::Is),
            Step::Resume(no) => return named(no).resume().map(Said::Is),
            Step::RunNow(no) => drop(named(no).run_now()?),
            Step::Remove(no) => return named(no).remove().map(Said::Is),
            Step::Put(tube, key) => drop(own(of(*tube), key)?),
            Step::End(verb, tube, key) => end(of(*tube), *verb, key)?,
            Step::Condition(no, Some(is_set)) => {
                queue.set_condition(CONDITIONS[*no], *is_set)?;
            }
            Step::Condition(no, None) => drop(queue.remove_condition(CONDITIONS[*no])?),
            Step::Throttle(no, limit) => drop(queue.set_throttle(THROTTLES[*no], *limit)?),
            Step::Take(tube, most) => return self.take(of(*tube), *most).map(Said::Took),
            Step::Settle(verb, serial) => {
                // A verdict comes before fires that are due.
                queue.tick()?;
                settle(self.held.remove(serial).unwrap(), *verb)?;
            }
            Step::Merge(from, into) => {
                // Fires that are due in other tubes than these two are not its own.
                queue.tick()?;
                let merged = queue.merge(TUBES[*from].0, TUBES[*into].0)?;
                return self.merged(&merged, [of(*from), of(*into)]);
            }
            Step::Truncate(tube) => drop(of(*tube).truncate()?),
            Step::Drop => {
                queue.force_drop_tube(TUBES[GONE].0)?;
                tubes[GONE] = None;
            }
            Step::MakeTube => {
                tubes[GONE] = Some(queue.create_tube(TUBES[GONE].0, options(GONE))?);
            }
            Step::Count(tube) => drop(of(*tube).len()?),
            Step::Checkpoint => queue.checkpoint()?,
            Step::Tick => queue.tick()?,
        }
        Ok(Said::Is(true))
    }

    /// Takes at most so many. Returns their keys.
    fn take(&mut self, tube: &Tube, most: usize) -> Result<Vec<String>> {
        self.taken = match most {
            1 => tube.try_take()?.into_iter().collect(),
            _ => tube.take_many(most)?,
        };
        let mut all = Vec::new();
        for task in [State::Ready, State::Taken].into_iter().flat_map(|it| tube.summaries(it)) {
            let task = task?;
            all.push((task.id, task.key.unwrap()));
        }
        all.sort_unstable();
        let key = |id: TaskId| all[all.binary_search_by_key(&id, |(id, _)| *id).unwrap()].1.clone();
        let taken = self.taken.iter().map(|task| key(task.id())).collect();
        self.shown.order = all.into_iter().map(|(_, key)| key).collect();
        Ok(taken)
    }

    /// What a merge of these tubes has done.
    fn merged(&mut self, merged: &Merged, tubes: [&Tube; 2]) -> Result<Said> {
        assert!(!merged.is_cut_short);
        (self.shown.places, self.shown.is_whole) = (places(tubes)?, true);
        let (moved, is_stopped) = (merged.moved, merged.stopped_at.is_some());
        let clashed = if is_stopped { 0 } else { merged.clashed };
        Ok(Said::Merged { moved, clashed, is_stopped })
    }

    /// Keeps what was taken beside its numbers in the model, and drops what is lost.
    fn keep(&mut self, queue: &Queue, step: &Step, said: &Said) {
        if let (Step::Take(tube, _), Said::Took(keys)) = (step, said) {
            let taken = take(&mut self.taken);
            let number = |key: &String| self.model.of_key(*tube, key, State::Taken).unwrap();
            self.held.extend(keys.iter().map(number).zip(taken));
        }
        let model = &self.model;
        let is_taken = |serial: &Serial| {
            model.tasks.get(serial).is_some_and(|task| task.state == State::Taken)
        };
        let (held, lost) = take(&mut self.held).into_iter().partition(|(it, _)| is_taken(it));
        self.held = held;
        if BTreeMap::is_empty(&lost) || queue.tick().is_err() {
            return;
        }
        for (serial, task) in lost {
            let Err(error) = task.renew() else { panic!("task {serial} is still taken") };
            let is_dropped = error.kind() == ErrorKind::TubeNotFound && matches!(step, Step::Drop);
            assert!(error.is_lease_lost() || is_dropped, "task {serial}: {error}");
        }
    }

    fn fail(&self, seed: u64, what: &str) -> ! {
        panic!("seed {seed}: {}\n{what}", self.trace.join("\n"))
    }

    /// Runs one step beside the model. Returns `false` if the disk died in it.
    fn step(&mut self, seed: u64, (queue, tubes): (&Queue, &mut Tubes), step: &Step) -> bool {
        let since = self.now().duration_since(UNIX_EPOCH).unwrap();
        self.trace.push(format!("{since:?} {step:?}"));
        let answer = self.run(queue, tubes, step);
        let ticked = if self.model.has_strangers() { queue.tick() } else { Ok(()) };
        if (answer.is_err() || ticked.is_err()) && self.disk.is_dead() {
            return false;
        }
        let answer = answer.map_err(|error| error.kind());
        let now = self.now();
        let expected = self.model.apply(step, now, &self.shown);
        if answer != expected {
            self.fail(seed, &format!("{answer:?}, expected {expected:?}"));
        }
        if let Ok(said) = answer {
            self.keep(queue, step, &said);
        }
        true
    }
}

/// A task that no schedule has made.
fn own(tube: &Tube, key: &str) -> Result<TaskId> {
    tube.task(b"own").key(key).on_conflict(Conflict::Reject).put()
}

/// Where the tasks of two tubes are.
fn places(tubes: [&Tube; 2]) -> Result<Places> {
    let mut all = Vec::new();
    for (is_left, tube) in [true, false].into_iter().zip(tubes) {
        let states = [State::Ready, State::Taken, State::Buried];
        for task in states.into_iter().flat_map(|state| tube.summaries(state)) {
            let task = task?;
            all.push((task.id, is_left, task.key.unwrap()));
        }
    }
    all.sort_unstable();
    Ok(all.into_iter().map(|(_, is_left, key)| (is_left, key)).collect())
}

/// Ends the ready task of this key.
fn end(tube: &Tube, verb: Verb, key: &str) -> Result<()> {
    let ready = tube.summaries(State::Ready).collect::<Result<Vec<_>>>()?;
    let task = ready.iter().find(|task| task.key.as_deref() == Some(key)).unwrap();
    match verb {
        Verb::Ack => tube.claim(task.id)?.ack(),
        Verb::Bury => tube.bury(task.id, "no"),
        Verb::Delete => tube.delete(task.id),
        Verb::Release => unreachable!("it is not in hand"),
    }
}

/// Settles a task in hand.
fn settle(task: Lease, verb: Verb) -> Result<()> {
    match verb {
        Verb::Ack => task.ack(),
        Verb::Bury => task.bury("no"),
        Verb::Release => task.release(),
        Verb::Delete => unreachable!("it is in hand"),
    }
}

fn timing(info: &ScheduleInfo) -> Timing {
    let cron = (info.cron.as_deref(), info.zone.as_deref());
    let is_cron = |it: &Cron| cron == (Some(it.text), Some(it.zone.name));
    match info.every {
        Some(every) => Timing::Every(every.as_secs()),
        None => Timing::Cron(CRONS.iter().position(is_cron).unwrap()),
    }
}

/// What the queue shows. Its own check finds nothing.
fn look(queue: &Queue, tubes: &Tubes) -> Result<Sight> {
    queue.tick()?;
    assert_eq!(queue.check()?, Vec::<String>::new());
    let mut schedules = BTreeMap::new();
    for info in queue.schedules() {
        let info = info?;
        let seen = SeenSchedule {
            has_tube: info.has_tube,
            timing: timing(&info),
            next: info.next,
            is_paused: info.is_paused,
            children: info.children,
            missed: info.missed_fires,
            last: info.last_nominal,
            needs: Needs::of(&info.requires, &info.throttles),
        };
        schedules.insert(info.name, seen);
    }
    let mut tasks = Vec::new();
    let mut counts = [None; TUBES.len()];
    for (place, tube) in tubes.iter().enumerate() {
        counts[place] = tube.as_ref().map(|tube| tube.stats()).transpose()?.map(|it| it.schedules);
        for state in [State::Ready, State::Taken, State::Buried, State::Done] {
            for task in tube.iter().flat_map(|tube| tube.summaries(state)) {
                let task = task?;
                let needs = Needs::of(&task.requires, &task.throttles);
                let (by, state) = (task.spawned_from, word(state));
                tasks.push((place, task.key.unwrap(), by, task.nominal, needs, state));
            }
        }
    }
    tasks.sort_unstable();
    let declared = queue.conditions()?;
    let conditions = CONDITIONS.map(|name| {
        let condition = declared.iter().find(|condition| condition.name == name);
        condition.map(|condition| condition.is_set)
    });
    let mut slots = [(0, 0); THROTTLES.len()];
    for (slot, name) in slots.iter_mut().zip(THROTTLES) {
        let throttle = queue.throttle(name)?.unwrap();
        *slot = (throttle.limit, throttle.in_flight);
    }
    let tubes = tubes.each_ref().map(Option::is_some);
    Ok(Sight { tubes, counts, schedules, tasks, conditions, slots })
}

impl Story {
    fn new(seed: u64) -> Self {
        let (disk, mut rng, durability) = (SimDisk::new(seed), Rng::new(seed), durability(seed));
        let unit = UNITS[(seed / 2 % 2) as usize];
        let before = secs(unit * (30 + rng.below(400)) + rng.below(unit));
        let clock = ManualClock::at(UNIX_EPOCH + secs(60 * rng.of(&CHANGES)) - before);
        let (model, trace) = (Model::new(unit), Vec::new());
        let (held, taken, shown) = Default::default();
        Self { disk, clock, rng, durability, model, held, taken, shown, trace }
    }
}

fn play(seed: u64) {
    let mut story = Story::new(seed);
    let durability = story.durability;
    let mut cut_off: Option<Step> = None;
    for generation in 0..=GENERATIONS {
        story.disk.plan(Fault::None);
        let (queue, mut tubes) = story.open(generation == 0);
        let seen = look(&queue, &tubes).unwrap();
        let mut models = vec![story.model.clone()];
        if let Some(step) = cut_off.take() {
            let mut after = story.model.clone();
            let mut shown = Shown::default();
            if let Step::Merge(from, into) = step {
                shown.places = places([from, into].map(|no| tubes[no].as_ref().unwrap())).unwrap();
            }
            let _answer = after.apply(&step, story.now(), &shown);
            models.push(after);
        }
        models.iter_mut().for_each(Model::crash);
        let Some(found) = models.iter().find(|model| model.sight() == seen) else {
            let all: Vec<_> = models.iter().map(Model::sight).collect();
            story.fail(seed, &format!("{seen:#?}, expected one of {all:#?}"))
        };
        story.model = found.clone();
        if generation == GENERATIONS {
            break;
        }
        let at = 1 + story.rng.below(100);
        story.disk.plan(Fault::Die(at));
        for no in 0..STEPS {
            let Some(step) = story.draw() else { continue };
            if !story.step(seed, (&queue, &mut tubes), &step) {
                cut_off = Some(step);
                break;
            }
            if no % LOOK_EVERY == LOOK_EVERY - 1 {
                let seen = look(&queue, &tubes);
                if seen.is_err() && story.disk.is_dead() {
                    break;
                }
                let (seen, expected) = (seen.unwrap(), story.model.sight());
                if seen != expected {
                    story.fail(seed, &format!("{seen:#?}, expected {expected:#?}"));
                }
            }
        }
        story.trace.push("crash".into());
        crash(&mut story.disk, durability, &mut story.rng);
        (story.held, story.taken) = Default::default();
        drop((tubes, queue));
    }
}

#[test]
fn a_crash_loses_no_fire_and_makes_none_twice() {
    seeds(SEEDS).for_each(play);
}
