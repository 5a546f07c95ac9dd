//! Gates on a disk that crashes, beside a model in plain values: whatever dies when, a take gets
//! exactly the best tasks whose gates are all open, those of their tube and their own, and
//! `explain` names exactly the closed ones.

use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::seeds;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};
use tubewell::{
    Backoff, Clock, Durability, ErrorKind, Hours, ManualClock, Queue, Rate, Result, SettingValue,
    State, Task, TaskId, Tube, TubeOptions, WhyNot,
};

/// Steps between two crashes, at most.
const STEPS: usize = 80;
/// Crashes of each seed.
const GENERATIONS: usize = 4;
const SEEDS: u64 = 500;
const SECOND: u64 = 1_000_000;
const TUBES: [&str; 2] = ["a", "b"];
/// The last one is set for the run of the process.
const CONDITIONS: [&str; 3] = ["online", "paid", "run"];
const THROTTLES: [&str; 2] = ["api", "gpu"];
const HOURS: &str = "06:00-18:00";

/// The number of a task, which is its payload.
type Serial = u64;
/// Tasks, interval in seconds, burst.
type Pace = (u32, u64, u32);

/// Gates with names, of a tube or of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Named {
    conditions: [bool; CONDITIONS.len()],
    throttles: [bool; THROTTLES.len()],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gates {
    named: Named,
    has_hours: bool,
    /// 0: none.
    limit: u64,
    rate: Option<Pace>,
    /// Until when the rate has let tasks through, in nanoseconds.
    paced: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Throttle {
    /// 0: none.
    limit: u64,
    /// When the limit ends.
    ends: Option<u64>,
    /// One that is made again has another one.
    number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Ready,
    /// With the numbers of the throttles of which it holds a slot.
    Taken(Vec<u64>),
    Buried,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    tube: usize,
    priority: i64,
    own: Named,
    place: Place,
    deliveries: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    tubes: [Gates; TUBES.len()],
    tasks: BTreeMap<Serial, Stored>,
    conditions: [Option<bool>; CONDITIONS.len()],
    throttles: [Option<Throttle>; THROTTLES.len()],
    /// The throttles that ever were.
    made: u64,
}

#[derive(Clone, Debug)]
enum Gate {
    Required([bool; CONDITIONS.len()]),
    Throttled([bool; THROTTLES.len()]),
    Hours(bool),
    Limit(u64),
    Rate(Option<Pace>),
}

#[derive(Clone, Debug)]
enum Step {
    Put {
        tube: usize,
        task: Serial,
        priority: i64,
        own: Named,
    },
    Take {
        tube: usize,
        most: usize,
    },
    /// From the first tube that has one.
    TakeAny,
    Claim(Serial),
    Ack(Serial),
    Release(Serial),
    Retry(Serial),
    Bury(Serial),
    Kick(Serial),
    Delete(Serial),
    Tune(usize, Gate),
    Condition(usize, Option<bool>),
    /// With a limit, perhaps for so many seconds; none: it is removed.
    Throttle(usize, Option<(u64, Option<u64>)>),
    ReleaseSlots(usize),
    Checkpoint,
    Advance(u64),
}

/// What a step answers: the tasks that it takes, or that it is refused.
type Answer = std::result::Result<Vec<Serial>, ErrorKind>;

/// The names that are chosen.
fn chosen<const N: usize>(names: [&'static str; N], are: [bool; N]) -> BTreeSet<String> {
    let chosen = names.into_iter().zip(are).filter(|(_, is)| *is);
    chosen.map(|(name, _)| name.to_owned()).collect()
}

/// The time from one task to the next, in nanoseconds.
fn spacing((tasks, per, _): Pace) -> u128 {
    (u128::from(per * SECOND) * 1000).div_ceil(u128::from(tasks))
}

impl Model {
    fn in_flight(&self, number: u64) -> u64 {
        let holds =
            |task: &&Stored| matches!(&task.place, Place::Taken(held) if held.contains(&number));
        self.tasks.values().filter(holds).count() as u64
    }

    /// The limit of a throttle that is in force.
    fn limit(&self, no: usize, now: u64) -> Option<(u64, u64)> {
        let throttle = self.throttles[no]?;
        let is_over = throttle.ends.is_some_and(|ends| ends <= now);
        (throttle.limit > 0 && !is_over).then(|| (throttle.limit, self.in_flight(throttle.number)))
    }

    /// Which of these are closed.
    fn closed_named(&self, named: &Named, now: u64) -> (Vec<WhyNot>, Vec<WhyNot>) {
        let (mut conditions, mut throttles) = (Vec::new(), Vec::new());
        // In the order of their names.
        for (no, name) in CONDITIONS.into_iter().enumerate() {
            if named.conditions[no] && self.conditions[no] != Some(true) {
                let is_declared = self.conditions[no].is_some();
                conditions.push(WhyNot::Requires { condition: name.into(), is_declared });
            }
        }
        for (no, name) in THROTTLES.into_iter().enumerate() {
            let limit = self.limit(no, now).filter(|_| named.throttles[no]);
            if let Some((limit, in_flight)) = limit.filter(|(limit, held)| held >= limit) {
                throttles.push(WhyNot::Throttled { throttle: name.into(), in_flight, limit });
            }
        }
        (conditions, throttles)
    }

    /// The closed gates of a tube.
    fn closed(&self, tube: usize, now: u64) -> Vec<WhyNot> {
        let gates = &self.tubes[tube];
        let (mut closed, throttles) = self.closed_named(&gates.named, now);
        let second = now / SECOND % 86_400;
        let hour = Duration::from_secs(3600);
        if gates.has_hours && !(6 * 3600..18 * 3600).contains(&second) {
            let since = Duration::from_micros(now % (86_400 * SECOND));
            let opens = if since < 6 * hour { 6 * hour } else { 30 * hour };
            closed.push(WhyNot::OutOfHours { left: opens - since });
        }
        let taken = |task: &&Stored| task.tube == tube && matches!(task.place, Place::Taken(_));
        let in_flight = self.tasks.values().filter(taken).count() as u64;
        if gates.limit > 0 && in_flight >= gates.limit {
            closed.push(WhyNot::TubeLimit { in_flight, limit: gates.limit });
        }
        closed.extend(throttles);
        if let Some(rate) = gates.rate {
            let (now, step) = (u128::from(now) * 1000, spacing(rate));
            let ahead = gates.paced.clamp(now, now + step * u128::from(rate.2)) - now;
            let most = step * u128::from(rate.2 - 1);
            if ahead > most {
                // Tasks come at whole microseconds of queue time.
                let left = (now + ahead - most).div_ceil(1000) - now / 1000;
                closed.push(WhyNot::TubeRate { left: Duration::from_micros(left as u64) });
            }
        }
        closed
    }

    /// The closed gates before a ready task.
    fn why(&self, task: &Stored, now: u64) -> Vec<WhyNot> {
        let mut all = self.closed(task.tube, now);
        let (conditions, throttles) = self.closed_named(&task.own, now);
        let own = conditions.into_iter().chain(throttles);
        let own: Vec<_> = own.filter(|why| !all.contains(why)).collect();
        all.extend(own);
        all
    }

    /// The best task of a tube whose gates are all open.
    fn best(&self, tube: usize, now: u64) -> Option<Serial> {
        let here = self.tasks.iter().filter(|(_, task)| task.tube == tube);
        let open = here.filter(|(_, task)| task.place == Place::Ready);
        let open = open.filter(|(_, task)| self.why(task, now).is_empty());
        open.min_by_key(|(serial, task)| (task.priority, **serial)).map(|(serial, _)| *serial)
    }

    fn take(&mut self, serial: Serial, now: u64) {
        let Stored { tube, own, .. } = self.tasks[&serial];
        let gates = &mut self.tubes[tube];
        if let Some(rate) = gates.rate {
            let (now, step) = (u128::from(now) * 1000, spacing(rate));
            gates.paced = gates.paced.clamp(now, now + step * u128::from(rate.2)) + step;
        }
        let (of_tube, all) = (gates.named.throttles, self.throttles.iter().enumerate());
        let held = all.filter(|(no, _)| of_tube[*no] || own.throttles[*no]);
        let held = held.filter_map(|(_, throttle)| throttle.map(|it| it.number)).collect();
        if let Some(task) = self.tasks.get_mut(&serial) {
            task.place = Place::Taken(held);
            task.deliveries += 1;
        }
    }

    fn put_at(&mut self, serial: Serial, place: Place) {
        if let Some(task) = self.tasks.get_mut(&serial) {
            task.place = place;
        }
    }

    fn apply(&mut self, step: &Step, now: u64) -> Answer {
        match *step {
            Step::Put { tube, task, priority, own } => {
                let (place, deliveries) = (Place::Ready, 0);
                self.tasks.insert(task, Stored { tube, priority, own, place, deliveries });
            }
            Step::Take { tube, most } => {
                let mut taken = Vec::new();
                while taken.len() < most
                    && let Some(best) = self.best(tube, now)
                {
                    self.take(best, now);
                    taken.push(best);
                }
                return Ok(taken);
            }
            Step::TakeAny => {
                let best = (0..TUBES.len()).find_map(|tube| self.best(tube, now));
                best.into_iter().for_each(|best| self.take(best, now));
                return Ok(best.into_iter().collect());
            }
            Step::Claim(serial) => {
                let task = &self.tasks[&serial];
                if matches!(task.place, Place::Taken(_)) || !self.why(task, now).is_empty() {
                    return Err(ErrorKind::WrongState);
                }
                self.take(serial, now);
                return Ok(vec![serial]);
            }
            Step::Ack(serial) | Step::Delete(serial) => drop(self.tasks.remove(&serial)),
            Step::Release(serial) | Step::Retry(serial) | Step::Kick(serial) => {
                self.put_at(serial, Place::Ready);
            }
            Step::Bury(serial) => self.put_at(serial, Place::Buried),
            Step::Tune(tube, ref gate) => {
                let gates = &mut self.tubes[tube];
                match gate {
                    Gate::Required(names) => gates.named.conditions = *names,
                    Gate::Throttled(names) => gates.named.throttles = *names,
                    Gate::Hours(has_hours) => gates.has_hours = *has_hours,
                    Gate::Limit(limit) => gates.limit = *limit,
                    Gate::Rate(rate) => gates.rate = *rate,
                }
                if let Some(rate) = gates.rate.filter(|_| gates.paced > 0) {
                    let now = u128::from(now) * 1000;
                    let most = now + spacing(rate) * u128::from(rate.2);
                    gates.paced = gates.paced.clamp(now, most);
                }
            }
            Step::Condition(no, to) => self.conditions[no] = to,
            Step::Throttle(no, to) => {
                self.throttles[no] = to.map(|(limit, seconds)| {
                    let old = self.throttles[no].map(|old| old.number);
                    let number = old.unwrap_or(self.made);
                    self.made = self.made.max(number + 1);
                    let ends = seconds.map(|seconds| now + seconds * SECOND);
                    Throttle { limit, ends, number }
                });
            }
            Step::ReleaseSlots(no) => {
                let Some(Throttle { number, .. }) = self.throttles[no] else { return Ok(vec![]) };
                for task in self.tasks.values_mut() {
                    if let Place::Taken(held) = &mut task.place {
                        held.retain(|held| *held != number);
                    }
                }
            }
            Step::Checkpoint | Step::Advance(_) => {}
        }
        Ok(Vec::new())
    }

    /// The process dies: what was taken comes back, and what was set for its run is not.
    fn crash(&mut self) {
        self.conditions[2] = None;
        for task in self.tasks.values_mut() {
            if matches!(task.place, Place::Taken(_)) {
                task.place = Place::Ready;
            }
        }
    }

    fn sight(&self, now: u64) -> Sight {
        let state = |task: &Stored| match task.place {
            Place::Ready => State::Ready,
            Place::Taken(_) => State::Taken,
            Place::Buried => State::Buried,
        };
        let why = |task: &Stored| match task.place {
            Place::Ready => self.why(task, now),
            Place::Taken(_) | Place::Buried => Vec::new(),
        };
        let tasks = self.tasks.iter();
        let tasks = tasks
            .map(|(serial, task)| (*serial, (state(task), task.deliveries, why(task))))
            .collect();
        let tubes = self.tubes.iter().map(Gates::settings).collect();
        let throttles = (0..THROTTLES.len()).map(|no| {
            let throttle = self.throttles[no]?;
            let limit = self.limit(no, now).map_or(0, |(limit, _)| limit);
            let left = throttle.ends.filter(|ends| *ends > now);
            let left = left.map(|ends| Duration::from_micros(ends - now));
            Some((limit, left, self.in_flight(throttle.number)))
        });
        let (throttles, conditions) = (throttles.collect(), self.conditions.to_vec());
        Sight { tubes, tasks, throttles, conditions }
    }
}

/// What is seen of a queue.
#[derive(Debug, PartialEq, Eq)]
struct Sight {
    /// The gates of the tubes.
    tubes: Vec<Vec<(&'static str, SettingValue)>>,
    /// The state of each task, how often it was taken, and the closed gates before a ready one.
    tasks: BTreeMap<Serial, (State, u32, Vec<WhyNot>)>,
    /// The limit, how long it lasts, and how many hold a slot.
    throttles: Vec<Option<(u64, Option<Duration>, u64)>>,
    conditions: Vec<Option<bool>>,
}

struct Story {
    disk: SimDisk,
    clock: ManualClock,
    rng: Rng,
    durability: Durability,
    model: Model,
    next: Serial,
    ids: BTreeMap<Serial, TaskId>,
    held: BTreeMap<Serial, Task>,
    /// What a power cut may leave: a take and a release do not wait for the sync.
    unsynced: Vec<Model>,
    /// The steps, for the report of a failure.
    trace: Vec<String>,
}

fn serial(payload: &[u8]) -> Serial {
    Serial::from_be_bytes(payload.try_into().unwrap())
}

impl Story {
    fn open(&self) -> (Queue, [Tube; TUBES.len()]) {
        let builder = Queue::builder().durability(self.durability).journal_bytes(64 << 10);
        let builder = builder.by_hand(true).clock(self.clock.clone()).disk(self.disk.lend());
        let queue = builder.open_disk().unwrap();
        let options = TubeOptions::default().max_attempts(1000).backoff(Backoff::NONE);
        let tubes =
            TUBES.map(|name| queue.create_tube(name, options.clone().if_not_exists()).unwrap());
        (queue, tubes)
    }

    fn now(&self) -> u64 {
        self.clock.wall().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
    }

    fn named(&mut self, rare: u64) -> Named {
        let rng = &mut self.rng;
        Named {
            conditions: [(); CONDITIONS.len()].map(|()| rng.one_in(rare)),
            throttles: [(); THROTTLES.len()].map(|()| rng.one_in(rare)),
        }
    }

    fn gate(&mut self) -> Gate {
        match self.rng.below(5) {
            0 => Gate::Required(self.named(4).conditions),
            1 => Gate::Throttled(self.named(2).throttles),
            2 => Gate::Hours(self.rng.one_in(2)),
            3 => Gate::Limit(self.rng.of(&[0, 0, 1, 2])),
            _ => Gate::Rate(self.rng.of(&[
                None,
                Some((1, 10, 1)),
                Some((3, 70, 2)),
                Some((7, 3600, 3)),
            ])),
        }
    }

    fn draw(&mut self) -> Option<Step> {
        let (tasks, rng) = (&self.model.tasks, &mut self.rng);
        let mut pick = |is_in: fn(&Place) -> bool| {
            let some: Vec<_> = tasks.iter().filter(|(_, task)| is_in(&task.place)).collect();
            (!some.is_empty()).then(|| *rng.of(&some).0)
        };
        let ready = pick(|place| *place == Place::Ready);
        let taken = pick(|place| matches!(place, Place::Taken(_)));
        let buried = pick(|place| *place == Place::Buried);
        let tube = self.rng.below(TUBES.len() as u64) as usize;
        Some(match self.rng.below(60) {
            0..=9 => {
                let own = if self.rng.one_in(2) { self.named(3) } else { Named::default() };
                let priority = self.rng.of(&[-1, 0, 0, 0, 1]);
                Step::Put { tube, task: self.next, priority, own }
            }
            10..=23 => Step::Take { tube, most: self.rng.of(&[1, 1, 2, 5]) },
            24..=26 => Step::TakeAny,
            27..=28 => Step::Claim(ready.or(buried)?),
            29..=34 => Step::Ack(taken?),
            35..=36 => Step::Release(taken?),
            37 => Step::Retry(taken?),
            38 => Step::Bury(ready.or(taken)?),
            39 => Step::Kick(buried?),
            40 => Step::Delete(ready.or(buried)?),
            41..=44 => {
                let gate = self.gate();
                Step::Tune(tube, gate)
            }
            45..=48 => {
                let to = self.rng.of(&[Some(true), Some(true), Some(false), None]);
                Step::Condition(self.rng.below(3) as usize, to)
            }
            49..=51 => {
                let limit = self.rng.of(&[0, 1, 1, 2, 3]);
                let seconds = self.rng.of(&[None, None, Some(30), Some(100_000)]);
                let to = (!self.rng.one_in(6)).then_some((limit, seconds));
                Step::Throttle(self.rng.below(2) as usize, to)
            }
            52 => Step::ReleaseSlots(self.rng.below(2) as usize),
            53..=54 => Step::Checkpoint,
            55..=58 => Step::Advance(self.rng.of(&[SECOND / 2, 7 * SECOND, 40 * SECOND])),
            _ => Step::Advance(self.rng.below(86_400) * SECOND),
        })
    }

    fn run(&mut self, queue: &Queue, tubes: &[Tube], step: &Step) -> Result<Vec<Serial>> {
        let id = |task: &Serial| self.ids[task];
        let of = |task: &Serial| &tubes[self.model.tasks[task].tube];
        let mut held = |task: &Serial| self.held.remove(task).unwrap();
        match step {
            Step::Put { tube, task, priority, own } => {
                let payload = task.to_be_bytes();
                let conditions = chosen(CONDITIONS, own.conditions);
                let throttles = chosen(THROTTLES, own.throttles);
                let mut new = tubes[*tube].task(&payload[..]).priority(*priority);
                for name in &conditions {
                    new = new.require(name);
                }
                for name in &throttles {
                    new = new.throttle(name);
                }
                let id = new.put()?;
                self.ids.insert(*task, id);
            }
            Step::Take { tube, most } => {
                let taken = if *most == 1 {
                    tubes[*tube].try_take()?.into_iter().collect()
                } else {
                    tubes[*tube].take_many(*most)?
                };
                return Ok(self.keep(taken));
            }
            Step::TakeAny => {
                let all = queue.tubes_of(TUBES)?;
                let taken = all.try_take()?;
                return Ok(self.keep(taken));
            }
            Step::Claim(task) => {
                let taken = of(task).claim(id(task))?;
                return Ok(self.keep([taken]));
            }
            Step::Ack(task) => held(task).ack()?,
            Step::Release(task) => held(task).release()?,
            Step::Retry(task) => held(task).retry("no")?,
            Step::Bury(task) => match self.held.remove(task) {
                Some(held) => held.bury("no")?,
                None => of(task).bury(id(task), "no")?,
            },
            Step::Kick(task) => of(task).kick_task(id(task))?,
            Step::Delete(task) => of(task).delete(id(task))?,
            Step::Tune(tube, gate) => {
                let (name, value) = setting(gate);
                tubes[*tube].set(name, value)?;
            }
            Step::Condition(no, to) => drop(match to {
                Some(is_set) if *no == 2 => queue.set_condition_for_run(CONDITIONS[2], *is_set)?,
                Some(is_set) => queue.set_condition(CONDITIONS[*no], *is_set)?,
                None => queue.remove_condition(CONDITIONS[*no])?,
            }),
            Step::Throttle(no, Some((limit, None))) => {
                queue.set_throttle(THROTTLES[*no], *limit)?;
            }
            Step::Throttle(no, Some((limit, Some(seconds)))) => {
                let length = Duration::from_secs(*seconds);
                queue.set_throttle_for(THROTTLES[*no], *limit, length)?;
            }
            Step::Throttle(no, None) => drop(queue.remove_throttle(THROTTLES[*no])?),
            Step::ReleaseSlots(no) => {
                let held = queue.throttle_holders(THROTTLES[*no]).collect::<Result<Vec<_>>>()?;
                let _released = queue.release_throttle(THROTTLES[*no], &held)?;
            }
            Step::Checkpoint => queue.checkpoint()?,
            Step::Advance(by) => {
                self.clock.advance(Duration::from_micros(*by));
                queue.tick()?;
            }
        }
        Ok(Vec::new())
    }

    /// Keeps leases. Returns their tasks.
    fn keep(&mut self, taken: impl IntoIterator<Item = Task>) -> Vec<Serial> {
        let taken = taken.into_iter().map(|task| (serial(&task), task));
        let taken: Vec<_> = taken.collect();
        let serials = taken.iter().map(|(serial, _)| *serial).collect();
        self.held.extend(taken);
        serials
    }

    /// What the queue shows. Its own check finds nothing.
    fn look(&mut self, queue: &Queue, tubes: &[Tube]) -> Result<Sight> {
        queue.tick()?;
        assert_eq!(queue.check()?, Vec::<String>::new());
        let mut tasks = BTreeMap::new();
        for tube in tubes {
            for state in [State::Ready, State::Taken, State::Buried] {
                for task in tube.tasks(state) {
                    let task = task?;
                    let serial = serial(&task.payload);
                    self.ids.insert(serial, task.id);
                    let mut why = queue.explain(task.id)?.reasons;
                    let is_gate =
                        |why: &WhyNot| !matches!(why, WhyNot::Behind { .. } | WhyNot::IsNext);
                    why.retain(|why| state == State::Ready && is_gate(why));
                    tasks.insert(serial, (state, task.deliveries, why));
                }
            }
        }
        let (mut throttles, mut conditions) = (Vec::new(), Vec::new());
        for name in THROTTLES {
            let info = queue.throttle(name)?;
            throttles.push(info.map(|info| (info.limit, info.left, info.in_flight)));
        }
        let declared = queue.conditions()?;
        for name in CONDITIONS {
            let condition = declared.iter().find(|condition| condition.name == name);
            conditions.push(condition.map(|condition| condition.is_set));
        }
        let mut of_tubes = Vec::new();
        for tube in tubes {
            let names = Gates::default().settings().into_iter().map(|(name, _)| name);
            let values = names.map(|name| Ok((name, tube.setting(name)?.value)));
            of_tubes.push(values.collect::<Result<Vec<_>>>()?);
        }
        Ok(Sight { tubes: of_tubes, tasks, throttles, conditions })
    }

    fn fail(&self, seed: u64, what: &str) -> ! {
        panic!("seed {seed}: {}\n{what}", self.trace.join("\n"))
    }

    /// Runs one step beside the model. Returns `false` if the disk died in it.
    fn step(&mut self, seed: u64, (queue, tubes): (&Queue, &[Tube]), step: &Step) -> bool {
        self.trace.push(format!("{} {step:?}", self.now()));
        let before = self.model.clone();
        let answer = self.run(queue, tubes, step);
        if answer.is_err() && self.disk.is_dead() {
            return false;
        }
        let answer = answer.map_err(|error| error.kind());
        let expected = self.model.apply(step, self.now());
        if answer != expected {
            self.fail(seed, &format!("{answer:?}, expected {expected:?}"));
        }
        match step {
            Step::Checkpoint => self.unsynced.clear(),
            // What changes nothing writes nothing.
            _ if before == self.model => {}
            Step::Take { .. } | Step::TakeAny | Step::Claim(_) | Step::Release(_) => {
                self.unsynced.push(before);
            }
            // It is not stored.
            Step::Condition(2, _) => {}
            _ => self.unsynced.clear(),
        }
        self.next += u64::from(matches!(step, Step::Put { .. }));
        true
    }
}

/// The name of a gate among the settings of a tube, and its value.
fn setting(gate: &Gate) -> (&'static str, SettingValue) {
    match *gate {
        Gate::Required(names) => ("require", chosen(CONDITIONS, names).into()),
        Gate::Throttled(names) => ("throttle", chosen(THROTTLES, names).into()),
        Gate::Hours(has_hours) => {
            let hours: Option<Hours> = has_hours.then(|| HOURS.parse().unwrap());
            ("hours", hours.into())
        }
        Gate::Limit(limit) => ("limit", Some(limit).filter(|limit| *limit > 0).into()),
        Gate::Rate(rate) => {
            let rate = rate.map(|(tasks, per, burst)| {
                Rate::new(tasks).per(Duration::from_secs(per)).burst(burst)
            });
            ("rate", rate.into())
        }
    }
}

impl Gates {
    /// As settings.
    fn settings(&self) -> Vec<(&'static str, SettingValue)> {
        let Self { named, has_hours, limit, rate, .. } = *self;
        let Named { conditions, throttles } = named;
        let named = [Gate::Required(conditions), Gate::Throttled(throttles)];
        let others = [Gate::Hours(has_hours), Gate::Limit(limit), Gate::Rate(rate)];
        named.iter().chain(&others).map(setting).collect()
    }
}

fn play(seed: u64) {
    let hour = Duration::from_secs(3600);
    let clock = ManualClock::at(UNIX_EPOCH + 24 * 365 * 50 * hour + 11 * hour);
    let (disk, rng) = (SimDisk::new(seed), Rng::new(seed));
    let durability = [Durability::Durable, Durability::Relaxed][(seed % 2) as usize];
    let (model, ids, held) = Default::default();
    let mut story = Story {
        disk,
        clock,
        rng,
        durability,
        model,
        next: 0,
        ids,
        held,
        unsynced: Vec::new(),
        trace: Vec::new(),
    };
    let mut cut_off = None;
    for generation in 0..=GENERATIONS {
        story.disk.plan(Fault::None);
        let (queue, tubes) = story.open();
        let (seen, now) = (story.look(&queue, &tubes).unwrap(), story.now());
        let mut models = std::mem::take(&mut story.unsynced);
        models.insert(0, story.model.clone());
        if let Some(step) = cut_off.take() {
            let mut after = story.model.clone();
            let _answer = after.apply(&step, now);
            models.push(after);
        }
        models.iter_mut().for_each(Model::crash);
        let found = models.iter().find(|model| model.sight(now) == seen);
        let found = found.unwrap_or_else(|| {
            let all: Vec<_> = models.iter().map(|model| model.sight(now)).collect();
            story.fail(seed, &format!("{seen:#?}, expected one of {all:#?}"))
        });
        story.model = found.clone();
        story.next = story.ids.keys().next_back().map_or(0, |last| last + 1);
        if generation == GENERATIONS {
            break;
        }
        let at = 1 + story.rng.below(150);
        story.disk.plan(Fault::Die(at));
        for no in 0..STEPS {
            let Some(step) = story.draw() else { continue };
            if !story.step(seed, (&queue, &tubes), &step) {
                cut_off = Some(step);
                break;
            }
            if no % 16 == 15 {
                let (seen, expected) = (story.look(&queue, &tubes), story.model.sight(story.now()));
                if seen.is_err() && story.disk.is_dead() {
                    break;
                }
                let seen = seen.unwrap();
                if seen != expected {
                    story.fail(seed, &format!("{seen:#?}, expected {expected:#?}"));
                }
            }
        }
        story.trace.push("crash".into());
        // A power cut takes back relaxed changes, which the model does not know.
        match durability == Durability::Relaxed || story.rng.one_in(2) {
            true => {
                story.unsynced.clear();
                story.disk.kill();
            }
            false => story.disk.cut_power(),
        }
        story.held.clear();
        drop((tubes, queue));
    }
}

#[test]
fn a_take_gets_the_best_tasks_whose_gates_are_open_whatever_dies() {
    seeds(SEEDS).for_each(play);
}
