//! The queue by the documents, in plain values: its schedules, their children and other tasks.

use super::gates::{CONDITIONS, Gates, Needs, THROTTLES};
use super::merge::Places;
use super::times::Timing;
use super::{GONE, KEEPS, KEYS_OF_RUN, LATE, Plan, SCHEDULES, TUBES, name, secs};
use std::collections::BTreeMap;
use std::time::SystemTime;
use tubewell::{ErrorKind, Missed, Overlap, State};

/// The number of a task in the model.
pub type Serial = u64;
/// Whether a verb has done something, or why it is refused.
type Answer = std::result::Result<bool, ErrorKind>;

/// What a step answers.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    Is(bool),
    /// The keys of the tasks that it has taken.
    Took(Vec<String>),
    Merged {
        moved: u64,
        /// 0 if it is stopped.
        clashed: u64,
        is_stopped: bool,
    },
    /// No order that the documents allow: what is wrong with it.
    OutOfOrder(String),
}

/// What the queue shows after a step, which the documents leave open.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The keys of a tube in the order of takes.
    pub order: Vec<String>,
    pub places: Places,
    /// Whether the step has ended in the same process.
    pub is_whole: bool,
}

#[derive(Clone, Debug)]
pub struct Task {
    /// The number of its tube.
    pub tube: u64,
    pub key: String,
    /// The schedule that has made it, and when that should have been.
    pub spawned: Option<(usize, SystemTime)>,
    pub needs: Needs,
    pub state: State,
    /// When it was put.
    pub made: SystemTime,
}

#[derive(Clone, Debug)]
pub struct Schedule {
    pub timing: Timing,
    /// Also while it is paused.
    pub next: SystemTime,
    /// No fire was due since its timing was given.
    pub is_fresh: bool,
    pub is_paused: bool,
    /// The number in the last key that it has used, or has found taken.
    pub children: u64,
    pub missed: u64,
    pub last: Option<(Serial, SystemTime)>,
    /// The number of its tube.
    pub tube: u64,
    /// The gates of its next children.
    pub needs: Needs,
}

/// The queue by the documents.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The number of each tube that there is. One that is made again has another one.
    pub tubes: [Option<u64>; TUBES.len()],
    pub made: u64,
    pub schedules: BTreeMap<usize, Schedule>,
    pub tasks: BTreeMap<Serial, Task>,
    pub next: Serial,
    pub gates: Gates,
    /// The seconds by which the times of steps and schedules are multiplied.
    pub unit: u64,
}

#[derive(Clone, Copy, Debug)]
pub enum Verb {
    Ack,
    Bury,
    Delete,
    Release,
}

#[derive(Clone, Debug)]
pub enum Step {
    Advance(u64),
    Make(usize, Timing),
    Update(usize, Timing),
    Pause(usize),
    Resume(usize),
    RunNow(usize),
    Remove(usize),
    /// A task of another put, with this key.
    Put(usize, String),
    /// What becomes of the ready task of this key.
    End(Verb, usize, String),
    /// Its next children need these gates and no others.
    Gate(usize, Needs),
    Condition(usize, Option<bool>),
    Throttle(usize, u64),
    /// From this tube, at most so many.
    Take(usize, usize),
    /// What becomes of a taken task.
    Settle(Verb, Serial),
    /// All tasks of this tube to that one.
    Merge(usize, usize),
    Truncate(usize),
    Drop,
    MakeTube,
    /// A read does what is due in the tube.
    Count(usize),
    Checkpoint,
    Tick,
}

impl Model {
    /// With all tubes.
    pub fn new(unit: u64) -> Self {
        let mut model = Self { unit, ..Self::default() };
        (0..TUBES.len()).for_each(|tube| model.make_tube(tube));
        model
    }

    fn make_tube(&mut self, tube: usize) {
        self.made += 1;
        self.tubes[tube] = Some(self.made);
    }

    pub fn in_tube(&self, number: u64) -> impl Iterator<Item = (&Serial, &Task)> {
        self.tasks.iter().filter(move |(_, task)| task.tube == number)
    }

    /// The ready task of this key.
    pub fn ready(&self, tube: usize, key: &str) -> Option<Serial> {
        self.of_key(tube, key, State::Ready)
    }

    /// The task of this key and state.
    pub fn of_key(&self, tube: usize, key: &str, state: State) -> Option<Serial> {
        let mut all = self.in_tube(self.tubes[tube]?);
        let found = all.find(|(_, task)| task.key == key && task.state == state)?;
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

    fn put(&mut self, task: Task) {
        self.tasks.insert(self.next, task);
        self.next += 1;
    }

    /// The last child of a schedule, if it has not ended.
    pub fn alive(&self, schedule: &Schedule) -> Option<Serial> {
        let (last, _) = schedule.last?;
        self.tasks
            .get(&last)
            .filter(|task| matches!(task.state, State::Ready | State::Taken))
            .map(|_| last)
    }

    /// Makes a child, or says why there is none. A key that is taken is passed over.
    fn spawn(&mut self, no: usize, nominal: SystemTime, now: SystemTime) -> Answer {
        let schedule = &self.schedules[&no];
        let Schedule { tube, needs, .. } = *schedule;
        let number = schedule.children + 1;
        let replaced = self.alive(schedule).filter(|_| SCHEDULES[no].overlap == Overlap::Replace);
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
        let (spawned, state) = (Some((no, nominal)), State::Ready);
        self.put(Task { tube, key, spawned, needs, state, made: now });
        Ok(true)
    }

    /// A fire that is not passed over.
    fn fire(&mut self, no: usize, nominal: SystemTime, now: SystemTime) {
        let overlaps =
            SCHEDULES[no].overlap == Overlap::Skip && self.alive(&self.schedules[&no]).is_some();
        if overlaps || self.spawn(no, nominal, now).is_err() {
            self.schedules.get_mut(&no).unwrap().missed += 1;
        }
    }

    /// Makes all fires that are due.
    fn work_off(&mut self, now: SystemTime) {
        for (no, Plan { missed, .. }) in SCHEDULES.into_iter().enumerate() {
            let Some(schedule) = self.schedules.get_mut(&no) else { continue };
            let mut due = Vec::new();
            while !schedule.is_paused && schedule.next <= now {
                due.push(schedule.next);
                schedule.next = schedule.timing.following(schedule.next);
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
                    false => self.fire(no, nominal, now),
                }
            }
        }
    }

    /// It is made, or made again: with the same timing its next fire stands.
    fn make(&mut self, no: usize, timing: Timing, now: SystemTime) {
        let Plan { tube, offset, needs, .. } = SCHEDULES[no];
        let tube = self.tubes[tube].unwrap();
        let next = timing.first(now + secs(offset * self.unit));
        let begins = Schedule {
            timing,
            next,
            is_fresh: true,
            is_paused: false,
            children: 0,
            missed: 0,
            last: None,
            tube,
            needs,
        };
        let made = match self.schedules.remove(&no) {
            None => begins,
            Some(old) if old.timing == timing => Schedule { tube, needs, ..old },
            Some(old) => Schedule { timing, next, is_fresh: true, tube, needs, ..old },
        };
        self.schedules.insert(no, made);
    }

    /// A schedule that an update may change.
    fn changed(&mut self, no: usize) -> std::result::Result<&mut Schedule, ErrorKind> {
        let schedule = self.schedules.get_mut(&no).ok_or(ErrorKind::ScheduleNotFound)?;
        match self.tubes.contains(&Some(schedule.tube)) {
            true => Ok(schedule),
            false => Err(ErrorKind::TubeNotFound),
        }
    }

    /// Of another interval the next fire moves by the difference, and the first one of all does not
    /// come earlier. Another cron text, or kind of timing, begins now.
    fn update(&mut self, no: usize, timing: Timing, now: SystemTime) -> Answer {
        let schedule = self.changed(no)?;
        match (schedule.timing, timing) {
            (old, new) if old == new => {}
            (Timing::Every(old), Timing::Every(new)) => {
                let next = schedule.next - secs(old) + secs(new);
                schedule.next = if schedule.is_fresh { next.max(schedule.next) } else { next };
            }
            _ => (schedule.next, schedule.is_fresh) = (timing.first(now), true),
        }
        schedule.timing = timing;
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
            schedule.next = schedule.timing.following(schedule.next);
        }
        Ok(true)
    }

    fn run_now(&mut self, no: usize, now: SystemTime) -> Answer {
        let before = self.schedules.get(&no).ok_or(ErrorKind::ScheduleNotFound)?.clone();
        let mut made = Err(ErrorKind::KeyExists);
        for _ in 0..KEYS_OF_RUN {
            made = self.spawn(no, now, now);
            if made != Err(ErrorKind::KeyExists) {
                break;
            }
        }
        if made.is_err() {
            self.schedules.insert(no, before);
        }
        made
    }

    /// Ends a ready task. A claim needs open gates.
    fn end(&mut self, verb: Verb, tube: usize, key: &str) -> Answer {
        let serial = self.ready(tube, key).unwrap();
        if matches!(verb, Verb::Ack) && !self.is_open(self.tasks[&serial].needs) {
            return Err(ErrorKind::WrongState);
        }
        self.settle(verb, serial);
        Ok(true)
    }

    /// It counts by the rules of the tube where it is.
    fn settle(&mut self, verb: Verb, serial: Serial) {
        let tubes = self.tubes;
        let task = self.tasks.get_mut(&serial).unwrap();
        let is_kept = (0..TUBES.len()).any(|no| KEEPS[no] && tubes[no] == Some(task.tube));
        match verb {
            Verb::Ack if is_kept => task.state = State::Done,
            Verb::Bury => task.state = State::Buried,
            Verb::Release => task.state = State::Ready,
            Verb::Ack | Verb::Delete => drop(self.tasks.remove(&serial)),
        }
    }

    /// The process dies: what was taken comes back.
    pub fn crash(&mut self) {
        for task in self.tasks.values_mut().filter(|task| task.state == State::Taken) {
            task.state = State::Ready;
        }
    }

    /// Does a step. What is due before it is done.
    pub fn apply(
        &mut self,
        step: &Step,
        now: SystemTime,
        shown: &Shown,
    ) -> std::result::Result<Said, ErrorKind> {
        let answer = match step {
            Step::Take(tube, most) => Ok(self.take(*tube, *most, &shown.order)),
            Step::Merge(from, into) => {
                Ok(self.merge((*from, *into), &shown.places, shown.is_whole))
            }
            _ => self.change(step, now).map(Said::Is),
        };
        self.work_off(now);
        answer
    }

    fn change(&mut self, step: &Step, now: SystemTime) -> Answer {
        let mut answer = Ok(true);
        match step {
            Step::Make(no, timing) => self.make(*no, *timing, now),
            Step::Update(no, timing) => answer = self.update(*no, *timing, now),
            Step::Pause(no) => answer = self.pause(*no, true, now),
            Step::Resume(no) => answer = self.pause(*no, false, now),
            Step::RunNow(no) => answer = self.run_now(*no, now),
            Step::Remove(no) => answer = Ok(self.schedules.remove(no).is_some()),
            Step::Put(tube, key) => {
                let tube = self.tubes[*tube].unwrap();
                answer = self.admits(tube, key, None);
                if answer.is_ok() {
                    let (spawned, needs, state) = (None, Needs::default(), State::Ready);
                    self.put(Task { tube, key: key.clone(), spawned, needs, state, made: now });
                }
            }
            Step::End(verb, tube, key) => answer = self.end(*verb, *tube, key),
            Step::Gate(no, needs) => {
                answer = self.changed(*no).map(|it| it.needs = *needs).and(Ok(true))
            }
            Step::Condition(no, to) => self.gates.conditions[*no] = *to,
            Step::Throttle(no, limit) => self.gates.limits[*no] = *limit,
            Step::Settle(verb, serial) => self.settle(*verb, *serial),
            Step::Truncate(tube) => {
                let number = self.tubes[*tube].unwrap();
                self.tasks.retain(|_, task| task.tube != number);
            }
            Step::Drop => {
                let number = self.tubes[GONE].take().unwrap();
                self.tasks.retain(|_, task| task.tube != number);
            }
            Step::MakeTube => self.make_tube(GONE),
            Step::Take(..)
            | Step::Merge(..)
            | Step::Advance(_)
            | Step::Count(_)
            | Step::Checkpoint
            | Step::Tick => {}
        }
        answer
    }

    pub fn sight(&self) -> Sight {
        let place = |number: u64| self.tubes.iter().position(|tube| *tube == Some(number));
        let shown = |it: &Schedule| SeenSchedule {
            has_tube: place(it.tube).is_some(),
            timing: it.timing,
            next: (!it.is_paused).then_some(it.next),
            is_paused: it.is_paused,
            children: it.children,
            missed: it.missed,
            last: it.last.map(|(_, nominal)| nominal),
            needs: it.needs,
        };
        let schedules = self.schedules.iter().map(|(no, it)| (name(*no), shown(it))).collect();
        let shown = |task: &Task| {
            let by = task.spawned.map(|(no, _)| name(no));
            let nominal = task.spawned.map(|(_, nominal)| nominal);
            let state = word(task.state);
            (place(task.tube).unwrap(), task.key.clone(), by, nominal, task.needs, state)
        };
        let mut tasks: Vec<_> = self.tasks.values().map(shown).collect();
        tasks.sort_unstable();
        let slots = std::array::from_fn(|no| (self.gates.limits[no], self.in_flight(no)));
        let count = |number: u64| self.schedules.values().filter(|it| it.tube == number).count();
        let counts = self.tubes.map(|tube| tube.map(|number| count(number) as u64));
        let (tubes, conditions) = (self.tubes.map(|tube| tube.is_some()), self.gates.conditions);
        Sight { tubes, counts, schedules, tasks, conditions, slots }
    }
}

pub fn word(state: State) -> String {
    format!("{state:?}")
}

/// The tube of a task, its key, its schedule, its nominal time, its gates and its state.
pub type SeenTask = (usize, String, Option<String>, Option<SystemTime>, Needs, String);

#[derive(Debug, PartialEq, Eq)]
pub struct SeenSchedule {
    pub has_tube: bool,
    pub timing: Timing,
    pub next: Option<SystemTime>,
    pub is_paused: bool,
    pub children: u64,
    pub missed: u64,
    /// The nominal time of the last child.
    pub last: Option<SystemTime>,
    pub needs: Needs,
}

/// What is seen of a queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Sight {
    pub tubes: [bool; TUBES.len()],
    /// How many schedules have each.
    pub counts: [Option<u64>; TUBES.len()],
    pub schedules: BTreeMap<String, SeenSchedule>,
    pub tasks: Vec<SeenTask>,
    pub conditions: [Option<bool>; CONDITIONS.len()],
    /// The limit of each throttle, and how many slots of it are held.
    pub slots: [(u64, u64); THROTTLES.len()],
}
