//! Gates on a disk that crashes, beside a model in plain values: whatever dies when, a take gets
//! exactly the best tasks whose gates are all open, those of their tube and their own, and whose
//! turn it is in their group; `explain` names exactly what holds each task back. A lease in its
//! grace holds its slots. The last tube is temporary: a crash removes its tasks.

use crate::crash::{crash, durability};
use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::seeds;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};
use tubewell::{
    Backoff, Clock, Durability, ErrorKind, Hours, Lapse, ManualClock, Queue, Rate, Result,
    SettingValue, State, Task, TaskId, Tube, TubeOptions, WhyNot,
};

/// Steps between two crashes, at most.
const STEPS: usize = 80;
/// Crashes of each seed.
const GENERATIONS: usize = 4;
const SEEDS: u64 = 500;
const SECOND: u64 = 1_000_000;
/// The last one is temporary.
const TUBES: [&str; 3] = ["a", "b", "m"];
const MEMORY: usize = 2;
/// The grace of a lapse in each tube, in seconds.
const GRACES: [u64; TUBES.len()] = [20, 0, 60];
const GROUPS: [&str; 2] = ["g", "h"];
/// The last one is set for the run of the process.
const CONDITIONS: [&str; 3] = ["online", "paid", "run"];
const THROTTLES: [&str; 2] = ["api", "gpu"];
const HOURS: &str = "06:00-18:00";

/// The number of a task, which is its payload.
type Serial = u64;
/// Tasks, interval in seconds, burst.
type Pace = (u32, u64, u32);
type Ids = BTreeMap<Serial, TaskId>;

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
struct Lease {
    /// The numbers of the throttles of which it holds a slot.
    held: Vec<u64>,
    /// When its ttr ends.
    ends: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Ready,
    Taken(Lease),
    Buried,
}

/// How a task is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terms {
    tube: usize,
    priority: i64,
    own: Named,
    group: Option<usize>,
    /// Seconds.
    ttr: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    terms: Terms,
    place: Place,
    deliveries: u32,
}

/// What of its group keeps a task back.
enum InGroup {
    Busy(u64),
    Behind(Serial),
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
    Put(Serial, Terms),
    Take {
        tube: usize,
        most: usize,
    },
    /// From the first tube that has one.
    TakeAny,
    Claim(Serial),
    Ack(Serial),
    Release(Serial),
    /// Its ttr begins again, and a stall ends.
    Renew(Serial),
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
        let holds = |task: &&Stored| match &task.place {
            Place::Taken(lease) => lease.held.contains(&number),
            Place::Ready | Place::Buried => false,
        };
        self.tasks.values().filter(holds).count() as u64
    }

    /// The limit of a throttle that is in force, and how many slots of it are held.
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
        let in_flight = self.taken(tube).count() as u64;
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

    /// The taken tasks of a tube.
    fn taken(&self, tube: usize) -> impl Iterator<Item = &Stored> {
        let all = self.tasks.values().filter(move |task| task.terms.tube == tube);
        all.filter(|task| matches!(task.place, Place::Taken(_)))
    }

    /// A group has one task in flight, and nothing overtakes its first one.
    fn in_group(&self, serial: Serial) -> Option<InGroup> {
        let Terms { tube, group, .. } = self.tasks[&serial].terms;
        group?;
        let busy = self.taken(tube).filter(|task| task.terms.group == group).count() as u64;
        if busy > 0 {
            return Some(InGroup::Busy(busy));
        }
        let of_group = |task: &Stored| (task.terms.tube, task.terms.group) == (tube, group);
        let first = self.ready().filter(|(_, task)| of_group(task)).min_by_key(rank);
        let own = rank(&(&serial, &self.tasks[&serial]));
        first.filter(|first| rank(first) < own).map(|(first, _)| InGroup::Behind(*first))
    }

    fn ready(&self) -> impl Iterator<Item = (&Serial, &Stored)> {
        self.tasks.iter().filter(|(_, task)| task.place == Place::Ready)
    }

    /// Whether nothing of a task itself holds it back.
    fn has_turn(&self, serial: Serial, now: u64) -> bool {
        let (conditions, throttles) = self.closed_named(&self.tasks[&serial].terms.own, now);
        conditions.is_empty() && throttles.is_empty() && self.in_group(serial).is_none()
    }

    /// What holds a ready task back.
    fn why(&self, serial: Serial, now: u64, ids: &Ids) -> Vec<WhyNot> {
        let Terms { tube, own, group, .. } = self.tasks[&serial].terms;
        let mut all = self.closed(tube, now);
        let (conditions, throttles) = self.closed_named(&own, now);
        let own = conditions.into_iter().chain(throttles);
        let own: Vec<_> = own.filter(|why| !all.contains(why)).collect();
        all.extend(own);
        let group = GROUPS[group.unwrap_or_default()].to_owned();
        all.extend(self.in_group(serial).map(|why| match why {
            InGroup::Busy(in_flight) => WhyNot::GroupBusy { group, in_flight },
            InGroup::Behind(first) => {
                // One that was never seen is not in the queue.
                let first = ids.get(&first).copied().unwrap_or(TaskId::new(0));
                WhyNot::BehindInGroup { group, first }
            }
        }));
        all
    }

    /// The best task of a tube that nothing holds back.
    fn best(&self, tube: usize, now: u64) -> Option<Serial> {
        if !self.closed(tube, now).is_empty() {
            return None;
        }
        let here = self.ready().filter(|(_, task)| task.terms.tube == tube);
        let open = here.filter(|(serial, _)| self.has_turn(**serial, now));
        open.min_by_key(rank).map(|(serial, _)| *serial)
    }

    fn take(&mut self, serial: Serial, now: u64) {
        let Terms { tube, own, ttr, .. } = self.tasks[&serial].terms;
        let gates = &mut self.tubes[tube];
        if let Some(rate) = gates.rate {
            let (now, step) = (u128::from(now) * 1000, spacing(rate));
            gates.paced = gates.paced.clamp(now, now + step * u128::from(rate.2)) + step;
        }
        let (of_tube, all) = (gates.named.throttles, self.throttles.iter().enumerate());
        let held = all.filter(|(no, _)| of_tube[*no] || own.throttles[*no]);
        let held = held.filter_map(|(_, throttle)| throttle.map(|it| it.number)).collect();
        if let Some(task) = self.tasks.get_mut(&serial) {
            let ends = ttr.map(|seconds| now + seconds * SECOND);
            task.place = Place::Taken(Lease { held, ends });
            task.deliveries += 1;
        }
    }

    /// Leases whose grace is over return their tasks.
    fn lapse(&mut self, now: u64) {
        for task in self.tasks.values_mut() {
            if let Place::Taken(Lease { ends: Some(ends), .. }) = task.place
                && ends + GRACES[task.terms.tube] * SECOND <= now
            {
                task.place = Place::Ready;
            }
        }
    }

    fn put_at(&mut self, serial: Serial, place: Place) {
        if let Some(task) = self.tasks.get_mut(&serial) {
            task.place = place;
        }
    }

    fn apply(&mut self, step: &Step, now: u64) -> Answer {
        match *step {
            Step::Put(task, terms) => {
                let (place, deliveries) = (Place::Ready, 0);
                self.tasks.insert(task, Stored { terms, place, deliveries });
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
                let Stored { terms, place, .. } = &self.tasks[&serial];
                let is_open = self.closed(terms.tube, now).is_empty();
                if matches!(place, Place::Taken(_)) || !is_open || !self.has_turn(serial, now) {
                    return Err(ErrorKind::WrongState);
                }
                self.take(serial, now);
                return Ok(vec![serial]);
            }
            Step::Ack(serial) | Step::Delete(serial) => drop(self.tasks.remove(&serial)),
            Step::Release(serial) | Step::Retry(serial) | Step::Kick(serial) => {
                self.put_at(serial, Place::Ready);
            }
            Step::Renew(serial) => {
                let task = self.tasks.get_mut(&serial);
                if let Some(Stored { terms, place: Place::Taken(lease), .. }) = task {
                    lease.ends = terms.ttr.map(|seconds| now + seconds * SECOND);
                }
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
                    if let Place::Taken(lease) = &mut task.place {
                        lease.held.retain(|held| *held != number);
                    }
                }
            }
            Step::Advance(_) => self.lapse(now),
            Step::Checkpoint => {}
        }
        Ok(Vec::new())
    }

    /// The process dies: what was taken comes back, what is in memory only is gone, and what was
    /// set for its run is not.
    fn crash(&mut self) {
        self.conditions[2] = None;
        self.tasks.retain(|_, task| task.terms.tube != MEMORY);
        for task in self.tasks.values_mut() {
            if matches!(task.place, Place::Taken(_)) {
                task.place = Place::Ready;
            }
        }
    }

    /// The tube of a task that a step names, or of one that is put or taken.
    fn tube_of(&self, step: &Step) -> Option<usize> {
        match step {
            Step::Put(_, Terms { tube, .. }) | Step::Take { tube, .. } => Some(*tube),
            Step::Claim(task) | Step::Ack(task) | Step::Release(task) | Step::Renew(task) => {
                Some(self.tasks[task].terms.tube)
            }
            Step::Retry(task) | Step::Bury(task) | Step::Kick(task) | Step::Delete(task) => {
                Some(self.tasks[task].terms.tube)
            }
            _ => None,
        }
    }

    /// A taken task: how long its lease lasts, and then its grace.
    fn running(&self, task: &Stored, lease: &Lease, now: u64) -> Vec<WhyNot> {
        let micros = Duration::from_micros;
        let lease_left = lease.ends.map(|ends| micros(ends.saturating_sub(now)));
        let mut all = vec![WhyNot::Running { holder: None, lease_left }];
        let over = lease.ends.filter(|ends| *ends <= now);
        all.extend(over.map(|ends| {
            let left = micros(ends + GRACES[task.terms.tube] * SECOND - now);
            WhyNot::Stalled { grace_left: Some(left) }
        }));
        all
    }

    /// The ready tasks, those of them behind a gate of the tube, the taken and the stalled ones.
    fn counts(&self, tube: usize, now: u64) -> [u64; 4] {
        let ready = self.ready().filter(|(_, task)| task.terms.tube == tube).count() as u64;
        let limited = if self.closed(tube, now).is_empty() { 0 } else { ready };
        let is_stalled = |task: &&Stored| match task.place {
            Place::Taken(Lease { ends: Some(ends), .. }) => ends <= now,
            _ => false,
        };
        let stalled = self.taken(tube).filter(is_stalled).count() as u64;
        [ready, limited, self.taken(tube).count() as u64, stalled]
    }

    fn sight(&self, now: u64, ids: &Ids) -> Sight {
        let state = |task: &Stored| match task.place {
            Place::Ready => State::Ready,
            Place::Taken(_) => State::Taken,
            Place::Buried => State::Buried,
        };
        let why = |serial: Serial, task: &Stored| match &task.place {
            Place::Ready => self.why(serial, now, ids),
            Place::Taken(lease) => self.running(task, lease, now),
            Place::Buried => Vec::new(),
        };
        let tasks = self.tasks.iter();
        let tasks = tasks
            .map(|(serial, task)| (*serial, (state(task), task.deliveries, why(*serial, task))))
            .collect();
        let tubes = self.tubes.iter().map(Gates::settings).collect();
        let counts = (0..TUBES.len()).map(|tube| self.counts(tube, now)).collect();
        let throttles = (0..THROTTLES.len()).map(|no| {
            let throttle = self.throttles[no]?;
            let limit = self.limit(no, now).map_or(0, |(limit, _)| limit);
            let left = throttle.ends.filter(|ends| *ends > now);
            let left = left.map(|ends| Duration::from_micros(ends - now));
            Some((limit, left, self.in_flight(throttle.number)))
        });
        let (throttles, conditions) = (throttles.collect(), self.conditions.to_vec());
        Sight { tubes, counts, tasks, throttles, conditions }
    }
}

/// What the order of a tube goes by.
fn rank((serial, task): &(&Serial, &Stored)) -> (i64, Serial) {
    (task.terms.priority, **serial)
}

/// What is seen of a queue.
#[derive(Debug, PartialEq, Eq)]
struct Sight {
    /// The gates of the tubes.
    tubes: Vec<Vec<(&'static str, SettingValue)>>,
    /// Of each tube, see [`Model::counts`].
    counts: Vec<[u64; 4]>,
    /// The state of each task, how often it was taken, and what holds a ready or taken one back.
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
    ids: Ids,
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
        let tubes = std::array::from_fn(|no| {
            let lapse = Lapse::new().grace(Duration::from_secs(GRACES[no]));
            let options = TubeOptions::default().max_attempts(1000).backoff(Backoff::NONE);
            let options = options.lapse(lapse).temporary(no == MEMORY).if_not_exists();
            queue.create_tube(TUBES[no], options).unwrap()
        });
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

    fn terms(&mut self, tube: usize) -> Terms {
        let priority = self.rng.of(&[-1, 0, 0, 0, 1]);
        let ttr = self.rng.of(&[None, Some(5), Some(30)]);
        let (is_gated, is_grouped) = match self.rng.below(6) {
            0 => (false, false),
            1 => (false, true),
            2 | 3 => (true, true),
            _ => (true, false),
        };
        let group = is_grouped.then(|| self.rng.below(GROUPS.len() as u64) as usize);
        let own = if is_gated { self.named(3) } else { Named::default() };
        Terms { tube, priority, own, group, ttr }
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
        let is_turned = self.rng.one_in(2);
        let either = |one: Option<Serial>, other: Option<Serial>| match is_turned {
            true => other.or(one),
            false => one.or(other),
        };
        Some(match self.rng.below(62) {
            0..=9 => Step::Put(self.next, self.terms(tube)),
            10..=23 => Step::Take { tube, most: self.rng.of(&[1, 1, 2, 5]) },
            24..=26 => Step::TakeAny,
            27..=28 => Step::Claim(either(ready, buried)?),
            29..=34 => Step::Ack(taken?),
            35..=36 => Step::Release(taken?),
            37 => Step::Retry(taken?),
            38 => Step::Bury(either(ready, taken)?),
            39 => Step::Kick(buried?),
            40 => Step::Delete(either(ready, buried)?),
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
            59..=60 => Step::Renew(taken?),
            _ => Step::Advance(self.rng.below(86_400) * SECOND),
        })
    }

    fn run(&mut self, queue: &Queue, tubes: &[Tube], step: &Step) -> Result<Vec<Serial>> {
        let id = |task: &Serial| self.ids[task];
        let of = |task: &Serial| &tubes[self.model.tasks[task].terms.tube];
        let mut held = |task: &Serial| self.held.remove(task).unwrap();
        match step {
            Step::Put(task, Terms { tube, priority, own, group, ttr }) => {
                let payload = task.to_be_bytes();
                let conditions = chosen(CONDITIONS, own.conditions);
                let throttles = chosen(THROTTLES, own.throttles);
                let mut new = tubes[*tube].task(&payload[..]).priority(*priority);
                if let Some(group) = group {
                    new = new.group(GROUPS[*group]);
                }
                if let Some(ttr) = ttr {
                    new = new.ttr(Duration::from_secs(*ttr));
                }
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
            Step::Renew(task) => self.held[task].renew()?,
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
                let released = queue.release_throttle(THROTTLES[*no], &held)?;
                assert_eq!(released, held.len());
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
                    let is_order =
                        |why: &WhyNot| matches!(why, WhyNot::Behind { .. } | WhyNot::IsNext);
                    why.retain(|why| state != State::Buried && !is_order(why));
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
        let (mut of_tubes, mut counts) = (Vec::new(), Vec::new());
        for tube in tubes {
            let stats = tube.stats()?;
            counts.push([stats.ready, stats.limited, stats.taken, stats.stalled]);
            let names = Gates::default().settings().into_iter().map(|(name, _)| name);
            let values = names.map(|name| Ok((name, tube.setting(name)?.value)));
            of_tubes.push(values.collect::<Result<Vec<_>>>()?);
        }
        Ok(Sight { tubes: of_tubes, counts, tasks, throttles, conditions })
    }

    fn fail(&self, seed: u64, what: &str) -> ! {
        panic!("seed {seed}: {}\n{what}", self.trace.join("\n"))
    }

    /// Runs one step beside the model. Returns `false` if the disk died in it.
    fn step(&mut self, seed: u64, (queue, tubes): (&Queue, &[Tube]), step: &Step) -> bool {
        self.trace.push(format!("{} {step:?}", self.now()));
        let (before, syncs) = (self.model.clone(), self.syncs());
        let answer = self.run(queue, tubes, step);
        if answer.is_err() && self.disk.is_dead() {
            return false;
        }
        let answer = answer.map_err(|error| error.kind());
        let expected = self.model.apply(step, self.now());
        if answer != expected {
            self.fail(seed, &format!("{answer:?}, expected {expected:?}"));
        }
        let is_of_memory = before.tube_of(step) == Some(MEMORY);
        // The pace of a rate is stored: it may be time to flush.
        if is_of_memory && before.tubes[MEMORY].rate.is_none() && self.syncs() > syncs {
            self.fail(seed, "a step of the temporary tube waited for a sync");
        }
        if before != self.model {
            match is_of_memory || !self.is_synced(step, &before) {
                true => self.unsynced.push(before),
                false => self.unsynced.clear(),
            }
        }
        self.next += u64::from(matches!(step, Step::Put(..)));
        self.drop_lost();
        true
    }

    /// The syncs of the disk since the last crash.
    fn syncs(&self) -> usize {
        self.disk.syncs().into_iter().filter(|is_sync| *is_sync).count()
    }

    /// Whether a step of a durable tube, or of the queue, returns when it is synced.
    fn is_synced(&self, step: &Step, before: &Model) -> bool {
        match step {
            Step::Take { .. } | Step::TakeAny | Step::Claim(_) | Step::Release(_) => false,
            Step::Renew(_) | Step::Advance(_) => false,
            // It is not stored.
            Step::Condition(2, _) => false,
            // Those of the temporary tube are in memory only.
            Step::ReleaseSlots(_) => {
                let changed =
                    |(serial, task): (&Serial, &Stored)| self.model.tasks[serial] != *task;
                let mut durable = before.tasks.iter().filter(|(_, it)| it.terms.tube != MEMORY);
                durable.any(changed)
            }
            _ => true,
        }
    }

    /// Drops the leases that have lapsed: they are lost.
    fn drop_lost(&mut self) {
        let tasks = &self.model.tasks;
        let is_taken = |serial: &Serial| matches!(tasks[serial].place, Place::Taken(_));
        let lost: Vec<_> = self.held.keys().filter(|serial| !is_taken(serial)).copied().collect();
        for serial in lost {
            let task = self.held.remove(&serial).unwrap();
            assert!(task.renew().unwrap_err().is_lease_lost(), "task {serial}");
        }
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
    let durability = durability(seed);
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
        let found = models.iter().find(|model| model.sight(now, &story.ids) == seen);
        let found = found.unwrap_or_else(|| {
            let all: Vec<_> = models.iter().map(|model| model.sight(now, &story.ids)).collect();
            story.fail(seed, &format!("{seen:#?}, expected one of {all:#?}"))
        });
        story.model = found.clone();
        story.next = story.ids.keys().next_back().map_or(0, |last| last + 1);
        if generation == GENERATIONS {
            break;
        }
        // The pace of the temporary tube lasts, and no task shows it: so much time is over it.
        let paced = story.model.tubes[MEMORY].paced;
        if models.iter().any(|model| model.tubes[MEMORY].paced != paced) {
            assert!(story.step(seed, (&queue, &tubes), &Step::Advance(3600 * SECOND)));
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
                let seen = story.look(&queue, &tubes);
                let expected = story.model.sight(story.now(), &story.ids);
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
        if !crash(&mut story.disk, durability, &mut story.rng) {
            story.unsynced.clear();
        }
        story.held.clear();
        drop((tubes, queue));
    }
}

#[test]
fn a_take_gets_the_best_tasks_whose_gates_are_open_whatever_dies() {
    seeds(SEEDS).for_each(play);
}
