//! Schedules on a disk that crashes, beside a model in plain values: whatever dies when, every
//! nominal time has made one child or is counted as missed, as the documents say of its policy,
//! of a tube that is full or was dropped, and of a key that is taken. The keys of the children
//! and the next fires are exactly the ones that the model foresees.

mod model;
mod times;

use crate::crash::{crash, durability};
use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::seeds;
use model::{Model, SeenSchedule, Sight, Step, Task, Verb, word};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use times::{CHANGES, CRONS, Cron, Timing};
use tubewell::{
    Clock, Conflict, Durability, HistoryLimits, ManualClock, Missed, Overlap, Queue, Result,
    Retention, ScheduleInfo, State, TaskId, Tube, TubeOptions,
};

/// Steps between two crashes, at most.
const STEPS: usize = 40;
/// Steps between two looks at everything.
const LOOK_EVERY: usize = 10;
/// Crashes of each seed.
const GENERATIONS: usize = 4;
const SEEDS: u64 = 300;

/// The tubes, and how many tasks each holds at most; 0: any number. The first one keeps finished
/// tasks, and the fourth one is dropped and made again.
const TUBES: [(&str, usize); 5] = [("t", 0), ("full", 3), ("tight", 1), ("gone", 0), ("few", 2)];
const KEPT: usize = 0;
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
}

const ALL: Missed = Missed::CatchUp(u32::MAX);
/// A tube that may be full has one schedule: in which order two of them fire is not promised. Those
/// with cron texts come last.
const SCHEDULES: [Plan; 15] = [
    every(ALL, Overlap::Allow, 0, 0),
    every(Missed::CatchUp(2), Overlap::Allow, 0, 25),
    every(Missed::Coalesce, Overlap::Allow, 0, 0),
    every(Missed::Skip, Overlap::Allow, 0, 4),
    every(ALL, Overlap::Skip, 0, 0),
    every(Missed::Coalesce, Overlap::Replace, 0, 0),
    every(ALL, Overlap::Allow, 1, 0),
    every(Missed::CatchUp(2), Overlap::Replace, 2, 7),
    every(ALL, Overlap::Allow, 3, 0),
    every(Missed::CatchUp(2), Overlap::Skip, 3, 2),
    cron(ALL, Overlap::Allow, 0, 0, 0),
    cron(Missed::Skip, Overlap::Allow, 0, 9, 1),
    cron(Missed::Coalesce, Overlap::Replace, 0, 0, 2),
    cron(Missed::CatchUp(2), Overlap::Skip, 3, 0, 3),
    cron(Missed::CatchUp(3), Overlap::Allow, 4, 30, 4),
];
/// Those of intervals, which every build has.
const INTERVALS: usize = 10;

const fn every(missed: Missed, overlap: Overlap, tube: usize, offset: u64) -> Plan {
    Plan { missed, overlap, tube, offset, cron: None }
}

const fn cron(missed: Missed, overlap: Overlap, tube: usize, offset: u64, text: usize) -> Plan {
    Plan { missed, overlap, tube, offset, cron: Some(text) }
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
    /// The steps, for the report of a failure.
    trace: Vec<String>,
}

fn options(tube: usize) -> TubeOptions {
    let options = TubeOptions::default().capacity(TUBES[tube].1 as u64);
    let options = options.history(HistoryLimits::none()).if_not_exists();
    if tube == KEPT { options.keep_finished(Retention::new()) } else { options }
}

impl Story {
    fn open(&self, is_first: bool) -> (Queue, Tubes) {
        let builder = Queue::builder().durability(self.durability).journal_bytes(64 << 10);
        let builder = builder.by_hand(true).clock(self.clock.clone()).disk(self.disk.lend());
        let queue = builder.open_disk().unwrap();
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

    /// A key for a task of another put: perhaps that of the next child.
    fn key(&mut self, tube: usize) -> String {
        let of_tube: Vec<_> =
            self.model.schedules.iter().filter(|(no, _)| SCHEDULES[**no].tube == tube).collect();
        if of_tube.is_empty() || self.rng.one_in(2) {
            return format!("own-{}", self.model.next);
        }
        let (no, schedule) = self.rng.of(&of_tube);
        let number = schedule.children + 1 + self.rng.below(3);
        format!("{}-{number}", name(*no))
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
        Some(match self.rng.below(40) {
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
            _ => return None,
        })
    }

    /// Runs a step. The clock moves last: what was due before is on the disk then, so that a
    /// power cut takes back only what is due at the same time again.
    fn run(&mut self, queue: &Queue, tubes: &mut Tubes, step: &Step) -> Result<bool> {
        let named = |no: &usize| queue.schedule_named(&name(*no));
        let of = |tube: usize| tubes[tube].as_ref().unwrap();
        match step {
            Step::Advance(seconds) => {
                queue.tick()?;
                queue.flush()?;
                self.clock.advance(secs(*seconds));
            }
            Step::Make(no, timing) => {
                let (Plan { missed, overlap, tube, offset, .. }, name) =
                    (SCHEDULES[*no], name(*no));
                let made = timing.give(queue.schedule(&name)).offset(secs(offset * self.unit()));
                made.missed(missed).overlap(overlap).to(of(tube)).payload(b"x").make()?;
            }
            Step::Update(no, timing) => named(no).update(|it| timing.give(it))?,
            Step::Pause(no) => return named(no).pause(),
            Step::Resume(no) => return named(no).resume(),
            Step::RunNow(no) => drop(named(no).run_now()?),
            Step::Remove(no) => return named(no).remove(),
            Step::Put(tube, key) => drop(own(of(*tube), key)?),
            Step::End(verb, tube, key) => end(of(*tube), *verb, key)?,
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
        Ok(true)
    }

    fn fail(&self, seed: u64, what: &str) -> ! {
        panic!("seed {seed}: {}\n{what}", self.trace.join("\n"))
    }

    /// Runs one step beside the model. Returns `false` if the disk died in it.
    fn step(&mut self, seed: u64, (queue, tubes): (&Queue, &mut Tubes), step: &Step) -> bool {
        let since = self.now().duration_since(UNIX_EPOCH).unwrap();
        self.trace.push(format!("{since:?} {step:?}"));
        let answer = self.run(queue, tubes, step);
        if answer.is_err() && self.disk.is_dead() {
            return false;
        }
        let answer = answer.map_err(|error| error.kind());
        let now = self.now();
        let expected = self.model.apply(step, now);
        if answer != expected {
            self.fail(seed, &format!("{answer:?}, expected {expected:?}"));
        }
        true
    }
}

/// A task that no schedule has made.
fn own(tube: &Tube, key: &str) -> Result<TaskId> {
    tube.task(b"own").key(key).on_conflict(Conflict::Reject).put()
}

/// Ends the ready task of this key.
fn end(tube: &Tube, verb: Verb, key: &str) -> Result<()> {
    let ready = tube.summaries(State::Ready).collect::<Result<Vec<_>>>()?;
    let task = ready.iter().find(|task| task.key.as_deref() == Some(key)).unwrap();
    match verb {
        Verb::Ack => tube.claim(task.id)?.ack(),
        Verb::Bury => tube.bury(task.id, "no"),
        Verb::Delete => tube.delete(task.id),
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
        };
        schedules.insert(info.name, seen);
    }
    let mut tasks = Vec::new();
    for (place, tube) in tubes.iter().enumerate() {
        for state in [State::Ready, State::Taken, State::Buried, State::Done] {
            for task in tube.iter().flat_map(|tube| tube.summaries(state)) {
                let task = task?;
                let key = task.key.clone().unwrap();
                tasks.push((place, key, task.spawned_from.clone(), task.nominal, word(state)));
            }
        }
    }
    tasks.sort_unstable();
    Ok(Sight { tubes: tubes.each_ref().map(Option::is_some), schedules, tasks })
}

impl Story {
    fn new(seed: u64) -> Self {
        let (disk, mut rng, durability) = (SimDisk::new(seed), Rng::new(seed), durability(seed));
        let unit = UNITS[(seed / 2 % 2) as usize];
        let before = secs(unit * (30 + rng.below(400)) + rng.below(unit));
        let clock = ManualClock::at(UNIX_EPOCH + secs(60 * rng.of(&CHANGES)) - before);
        let (model, trace) = (Model::new(unit), Vec::new());
        Self { disk, clock, rng, durability, model, trace }
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
        // The clock has not moved in a step that did not return.
        if let Some(step) = cut_off.take() {
            let mut after = story.model.clone();
            let _answer = after.apply(&step, story.now());
            models.push(after);
        }
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
        drop((tubes, queue));
    }
}

#[test]
fn a_crash_loses_no_fire_and_makes_none_twice() {
    seeds(SEEDS).for_each(play);
}
