//! Schedules on a disk that crashes, beside a model in plain values: whatever dies when, every
//! nominal time has made one child or is counted as missed, as the documents say of its policy,
//! of a tube that is full or was dropped, and of a key that is taken. The keys of the children
//! and the next fires are exactly the ones that the model foresees.

use crate::crash::{crash, durability};
use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::seeds;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use tubewell::{
    Clock, Conflict, Durability, ErrorKind, HistoryLimits, ManualClock, Missed, Overlap, Queue,
    Result, Retention, State, TaskId, Tube, TubeOptions,
};

/// Steps between two crashes, at most.
const STEPS: usize = 40;
/// Steps between two looks at everything.
const LOOK_EVERY: usize = 10;
/// Crashes of each seed.
const GENERATIONS: usize = 4;
const SEEDS: u64 = 400;

/// The tubes, and how many tasks each holds at most; 0: any number. The first one keeps finished
/// tasks, and the last one is dropped and made again.
const TUBES: [(&str, usize); 4] = [("t", 0), ("full", 3), ("tight", 1), ("gone", 0)];
const KEPT: usize = 0;
const GONE: usize = 3;

const ALL: Missed = Missed::CatchUp(u32::MAX);
/// The policies of each schedule, its tube, and its offset in seconds. A tube that may be full
/// has one schedule: in which order two of them fire is not promised.
const SCHEDULES: [(Missed, Overlap, usize, u64); 10] = [
    (ALL, Overlap::Allow, 0, 0),
    (Missed::CatchUp(2), Overlap::Allow, 0, 25),
    (Missed::Coalesce, Overlap::Allow, 0, 0),
    (Missed::Skip, Overlap::Allow, 0, 4),
    (ALL, Overlap::Skip, 0, 0),
    (Missed::Coalesce, Overlap::Replace, 0, 0),
    (ALL, Overlap::Allow, 1, 0),
    (Missed::CatchUp(2), Overlap::Replace, 2, 7),
    (ALL, Overlap::Allow, 3, 0),
    (Missed::CatchUp(2), Overlap::Skip, 3, 2),
];
/// A fire by hand tries so many keys.
const KEYS_OF_RUN: usize = 8;
/// By so much a fire may be late with [`Missed::Skip`].
const LATE: Duration = Duration::from_secs(60);

/// The number of a task in the model.
type Serial = u64;
/// What a verb answers.
type Answer = std::result::Result<bool, ErrorKind>;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn name(schedule: usize) -> String {
    format!("s{schedule}")
}

#[derive(Clone, Debug)]
struct Task {
    /// The number of its tube.
    tube: u64,
    key: String,
    /// The schedule that has made it, and when that should have been.
    spawned: Option<(usize, SystemTime)>,
    state: State,
}

#[derive(Clone, Debug)]
struct Schedule {
    every: u64,
    /// Also while it is paused.
    next: SystemTime,
    /// No fire was due since its timing was given.
    is_fresh: bool,
    is_paused: bool,
    /// The number in the last key that it has used, or has found taken.
    children: u64,
    missed: u64,
    last: Option<(Serial, SystemTime)>,
    /// The number of its tube.
    tube: u64,
}

/// The queue by the documents.
#[derive(Clone, Debug, Default)]
struct Model {
    /// The number of each tube that there is. One that is made again has another one.
    tubes: [Option<u64>; TUBES.len()],
    made: u64,
    schedules: BTreeMap<usize, Schedule>,
    tasks: BTreeMap<Serial, Task>,
    next: Serial,
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Ack,
    Bury,
    Delete,
}

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Make(usize, u64),
    Update(usize, u64),
    Pause(usize),
    Resume(usize),
    RunNow(usize),
    Remove(usize),
    /// A task of another put, with this key.
    Put(usize, String),
    /// What becomes of the ready task of this key.
    End(Verb, usize, String),
    Truncate(usize),
    Drop,
    MakeTube,
    /// A read does what is due in the tube.
    Count(usize),
    Checkpoint,
    Tick,
}

impl Model {
    fn make_tube(&mut self, tube: usize) {
        self.made += 1;
        self.tubes[tube] = Some(self.made);
    }

    fn in_tube(&self, number: u64) -> impl Iterator<Item = (&Serial, &Task)> {
        self.tasks.iter().filter(move |(_, task)| task.tube == number)
    }

    /// The ready task of this key.
    fn ready(&self, tube: usize, key: &str) -> Option<Serial> {
        let mut all = self.in_tube(self.tubes[tube]?);
        let found = all.find(|(_, task)| task.key == key && task.state == State::Ready)?;
        Some(*found.0)
    }

    /// Whether one more task may be put, beside all but the one that it replaces.
    fn admits(&self, number: u64, key: &str, replaced: Option<Serial>) -> Answer {
        let tube = self.tubes.iter().position(|tube| *tube == Some(number));
        let tube = tube.ok_or(ErrorKind::TubeNotFound)?;
        let counts = |(serial, task): &(&Serial, &Task)| {
            task.state != State::Done && Some(**serial) != replaced
        };
        if self.in_tube(number).filter(counts).any(|(_, task)| task.key == key) {
            return Err(ErrorKind::KeyExists);
        }
        let most = TUBES[tube].1;
        let is_full = most > 0 && self.in_tube(number).filter(counts).count() >= most;
        if is_full { Err(ErrorKind::Full) } else { Ok(true) }
    }

    fn put(&mut self, tube: u64, key: String, spawned: Option<(usize, SystemTime)>) {
        self.tasks.insert(self.next, Task { tube, key, spawned, state: State::Ready });
        self.next += 1;
    }

    /// The last child of a schedule, if it has not ended.
    fn alive(&self, schedule: &Schedule) -> Option<Serial> {
        let (last, _) = schedule.last?;
        self.tasks.get(&last).filter(|task| task.state == State::Ready).map(|_| last)
    }

    /// Makes a child, or says why there is none. A key that is taken is passed over.
    fn spawn(&mut self, no: usize, nominal: SystemTime) -> Answer {
        let schedule = &self.schedules[&no];
        let (tube, number) = (schedule.tube, schedule.children + 1);
        let replaced = self.alive(schedule).filter(|_| SCHEDULES[no].1 == Overlap::Replace);
        let key = format!("{}-{number}", name(no));
        let admitted = self.admits(tube, &key, replaced);
        let serial = self.next;
        let schedule = self.schedules.get_mut(&no).unwrap();
        if matches!(admitted, Ok(_) | Err(ErrorKind::KeyExists)) {
            schedule.children = number;
        }
        admitted?;
        schedule.last = Some((serial, nominal));
        replaced.map(|replaced| self.tasks.remove(&replaced));
        self.put(tube, key, Some((no, nominal)));
        Ok(true)
    }

    /// A fire that is not passed over.
    fn fire(&mut self, no: usize, nominal: SystemTime) {
        let overlaps =
            SCHEDULES[no].1 == Overlap::Skip && self.alive(&self.schedules[&no]).is_some();
        if overlaps || self.spawn(no, nominal).is_err() {
            self.schedules.get_mut(&no).unwrap().missed += 1;
        }
    }

    /// Makes all fires that are due.
    fn work_off(&mut self, now: SystemTime) {
        for (no, (missed, ..)) in SCHEDULES.into_iter().enumerate() {
            let Some(schedule) = self.schedules.get_mut(&no) else { continue };
            let mut due = Vec::new();
            while !schedule.is_paused && schedule.next <= now {
                due.push(schedule.next);
                schedule.next += secs(schedule.every);
                schedule.is_fresh = false;
            }
            let kept = match missed {
                Missed::CatchUp(most) => (most as usize).saturating_add(1),
                _ => 1,
            };
            let passed = due.len().saturating_sub(kept);
            schedule.missed += passed as u64;
            for nominal in due.into_iter().skip(passed) {
                let is_late = now.duration_since(nominal).unwrap() > LATE;
                match missed == Missed::Skip && is_late {
                    true => self.schedules.get_mut(&no).unwrap().missed += 1,
                    false => self.fire(no, nominal),
                }
            }
        }
    }

    /// It is made, or made again: with the same timing its next fire stands.
    fn make(&mut self, no: usize, every: u64, now: SystemTime) {
        let (.., tube, offset) = SCHEDULES[no];
        let (next, tube) = (now + secs(offset), self.tubes[tube].unwrap());
        let begins = Schedule {
            every,
            next,
            is_fresh: true,
            is_paused: false,
            children: 0,
            missed: 0,
            last: None,
            tube,
        };
        let made = match self.schedules.remove(&no) {
            None => begins,
            Some(old) if old.every == every => Schedule { tube, ..old },
            Some(old) => Schedule { every, next, is_fresh: true, tube, ..old },
        };
        self.schedules.insert(no, made);
    }

    /// The next fire moves by the difference, and the first one of all does not come earlier.
    fn update(&mut self, no: usize, every: u64) -> Answer {
        let tubes = self.tubes;
        let schedule = self.schedules.get_mut(&no).ok_or(ErrorKind::ScheduleNotFound)?;
        if !tubes.contains(&Some(schedule.tube)) {
            return Err(ErrorKind::TubeNotFound);
        }
        let next = schedule.next - secs(schedule.every) + secs(every);
        schedule.next = if schedule.is_fresh { next.max(schedule.next) } else { next };
        schedule.every = every;
        Ok(true)
    }

    /// What would have fired in a pause is not missed.
    fn pause(&mut self, no: usize, is_paused: bool, now: SystemTime) -> Answer {
        let schedule = self.schedules.get_mut(&no).ok_or(ErrorKind::ScheduleNotFound)?;
        if schedule.is_paused == is_paused {
            return Ok(false);
        }
        schedule.is_paused = is_paused;
        while !is_paused && schedule.next <= now {
            schedule.next += secs(schedule.every);
        }
        Ok(true)
    }

    fn run_now(&mut self, no: usize, now: SystemTime) -> Answer {
        let before = self.schedules.get(&no).ok_or(ErrorKind::ScheduleNotFound)?.clone();
        let mut made = Err(ErrorKind::KeyExists);
        for _ in 0..KEYS_OF_RUN {
            made = self.spawn(no, now);
            if made != Err(ErrorKind::KeyExists) {
                break;
            }
        }
        if made.is_err() {
            self.schedules.insert(no, before);
        }
        made
    }

    fn end(&mut self, verb: Verb, tube: usize, key: &str) {
        let serial = self.ready(tube, key).unwrap();
        let state = match verb {
            Verb::Ack if tube == KEPT => State::Done,
            Verb::Bury => State::Buried,
            Verb::Ack | Verb::Delete => return drop(self.tasks.remove(&serial)),
        };
        self.tasks.get_mut(&serial).unwrap().state = state;
    }

    /// Does a step. What is due before it is done.
    fn apply(&mut self, step: &Step, now: SystemTime) -> Answer {
        let mut answer = Ok(true);
        match step {
            Step::Make(no, every) => self.make(*no, *every, now),
            Step::Update(no, every) => answer = self.update(*no, *every),
            Step::Pause(no) => answer = self.pause(*no, true, now),
            Step::Resume(no) => answer = self.pause(*no, false, now),
            Step::RunNow(no) => answer = self.run_now(*no, now),
            Step::Remove(no) => answer = Ok(self.schedules.remove(no).is_some()),
            Step::Put(tube, key) => {
                let tube = self.tubes[*tube].unwrap();
                answer = self.admits(tube, key, None);
                if answer.is_ok() {
                    self.put(tube, key.clone(), None);
                }
            }
            Step::End(verb, tube, key) => self.end(*verb, *tube, key),
            Step::Truncate(tube) => {
                let number = self.tubes[*tube].unwrap();
                self.tasks.retain(|_, task| task.tube != number);
            }
            Step::Drop => {
                let number = self.tubes[GONE].take().unwrap();
                self.tasks.retain(|_, task| task.tube != number);
            }
            Step::MakeTube => self.make_tube(GONE),
            Step::Advance(_) | Step::Count(_) | Step::Checkpoint | Step::Tick => {}
        }
        self.work_off(now);
        answer
    }

    fn sight(&self) -> Sight {
        let place = |number: u64| self.tubes.iter().position(|tube| *tube == Some(number));
        let shown = |it: &Schedule| SeenSchedule {
            has_tube: place(it.tube).is_some(),
            every: secs(it.every),
            next: (!it.is_paused).then_some(it.next),
            is_paused: it.is_paused,
            children: it.children,
            missed: it.missed,
            last: it.last.map(|(_, nominal)| nominal),
        };
        let schedules = self.schedules.iter().map(|(no, it)| (name(*no), shown(it))).collect();
        let shown = |task: &Task| {
            let by = task.spawned.map(|(no, _)| name(no));
            let nominal = task.spawned.map(|(_, nominal)| nominal);
            (place(task.tube).unwrap(), task.key.clone(), by, nominal, word(task.state))
        };
        let mut tasks: Vec<_> = self.tasks.values().map(shown).collect();
        tasks.sort_unstable();
        Sight { tubes: self.tubes.map(|tube| tube.is_some()), schedules, tasks }
    }
}

fn word(state: State) -> String {
    format!("{state:?}")
}

/// The tube of a task, its key, its schedule, its nominal time and its state.
type SeenTask = (usize, String, Option<String>, Option<SystemTime>, String);

#[derive(Debug, PartialEq, Eq)]
struct SeenSchedule {
    has_tube: bool,
    every: Duration,
    next: Option<SystemTime>,
    is_paused: bool,
    children: u64,
    missed: u64,
    /// The nominal time of the last child.
    last: Option<SystemTime>,
}

/// What is seen of a queue.
#[derive(Debug, PartialEq, Eq)]
struct Sight {
    tubes: [bool; TUBES.len()],
    schedules: BTreeMap<String, SeenSchedule>,
    tasks: Vec<SeenTask>,
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
            self.model.schedules.iter().filter(|(no, _)| SCHEDULES[**no].2 == tube).collect();
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

    fn draw(&mut self) -> Option<Step> {
        let no = self.rng.below(SCHEDULES.len() as u64) as usize;
        let tube = self.rng.below(TUBES.len() as u64) as usize;
        let has = |tube: usize| self.model.tubes[tube].is_some();
        let (has_tube, has_own) = (has(tube), has(SCHEDULES[no].2));
        let has_gone = has(GONE);
        let every = self.model.schedules.get(&no).map_or(3 + no as u64, |it| it.every);
        Some(match self.rng.below(40) {
            0..=9 => Step::Advance(1 + self.rng.below(9)),
            10 => Step::Advance(self.rng.of(&[20, 45, 75])),
            11..=15 if has_own => {
                let other = self.rng.of(&[every, every, every, 4, 200]);
                Step::Make(no, other)
            }
            16..=17 => Step::Update(no, self.rng.of(&[1, 2, 5, 11, 90])),
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
            Step::Make(no, every) => {
                let ((missed, overlap, tube, offset), name) = (SCHEDULES[*no], name(*no));
                let made = queue.schedule(&name).every(secs(*every)).offset(secs(offset));
                made.missed(missed).overlap(overlap).to(of(tube)).payload(b"x").make()?;
            }
            Step::Update(no, every) => named(no).update(|it| it.every(secs(*every)))?,
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
        let since = self.now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
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

/// What the queue shows. Its own check finds nothing.
fn look(queue: &Queue, tubes: &Tubes) -> Result<Sight> {
    queue.tick()?;
    assert_eq!(queue.check()?, Vec::<String>::new());
    let mut schedules = BTreeMap::new();
    for info in queue.schedules() {
        let info = info?;
        let seen = SeenSchedule {
            has_tube: info.has_tube,
            every: info.every.unwrap(),
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

fn play(seed: u64) {
    let (disk, clock, rng) = (SimDisk::new(seed), ManualClock::new(), Rng::new(seed));
    let durability = durability(seed);
    let (mut model, trace) = (Model::default(), Vec::new());
    (0..TUBES.len()).for_each(|tube| model.make_tube(tube));
    let mut story = Story { disk, clock, rng, durability, model, trace };
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
