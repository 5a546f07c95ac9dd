//! Tubes with gates, their tasks and what holds each of them back, in plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tubewell::{ErrorKind, Hours, Rate, SettingValue, State, TaskId, WhyNot};

pub const SECOND: u64 = 1_000_000;
/// The last one is temporary.
pub const TUBES: [&str; 3] = ["a", "b", "m"];
pub const MEMORY: usize = 2;
/// The grace of a lapse in each tube, in seconds.
pub const GRACES: [u64; TUBES.len()] = [20, 0, 60];
pub const GROUPS: [&str; 2] = ["g", "h"];
/// The last one is set for the run of the process.
pub const CONDITIONS: [&str; 3] = ["online", "paid", "run"];
pub const THROTTLES: [&str; 2] = ["api", "gpu"];
pub const HOURS: &str = "06:00-18:00";

/// The number of a task, which is its payload.
pub type Serial = u64;
/// Tasks, interval in seconds, burst.
type Pace = (u32, u64, u32);
pub type Ids = BTreeMap<Serial, TaskId>;

/// Gates with names, of a tube or of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named {
    pub conditions: [bool; CONDITIONS.len()],
    pub throttles: [bool; THROTTLES.len()],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    pub named: Named,
    pub has_hours: bool,
    /// 0: none.
    pub limit: u64,
    pub rate: Option<Pace>,
    /// Until when the rate has let tasks through, in nanoseconds.
    pub paced: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// 0: none.
    pub limit: u64,
    /// When the limit ends.
    pub ends: Option<u64>,
    /// One that is made again has another one.
    pub number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The numbers of the throttles of which it holds a slot.
    pub held: Vec<u64>,
    /// When its ttr ends.
    pub ends: Option<u64>,
    /// Of a stalled one: when its grace ends, by the tube in which it began.
    pub grace: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Ready,
    Taken(Lease),
    Buried,
}

/// How a task is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub tube: usize,
    pub priority: i64,
    pub own: Named,
    pub group: Option<usize>,
    /// Seconds.
    pub ttr: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub terms: Terms,
    pub place: Place,
    pub deliveries: u32,
}

/// What of its group keeps a task back.
enum InGroup {
    Busy(u64),
    Behind(Serial),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub tubes: [Gates; TUBES.len()],
    pub tasks: BTreeMap<Serial, Stored>,
    pub conditions: [Option<bool>; CONDITIONS.len()],
    pub throttles: [Option<Throttle>; THROTTLES.len()],
    /// The throttles that ever were.
    pub made: u64,
}

#[derive(Clone, Debug)]
pub enum Gate {
    Required([bool; CONDITIONS.len()]),
    Throttled([bool; THROTTLES.len()]),
    Hours(bool),
    Limit(u64),
    Rate(Option<Pace>),
}

#[derive(Clone, Debug)]
pub enum Step {
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
    /// All tasks of a tube go to another one.
    Merge(usize, usize),
    Tune(usize, Gate),
    Condition(usize, Option<bool>),
    /// With a limit, perhaps for so many seconds; none: it is removed.
    Throttle(usize, Option<(u64, Option<u64>)>),
    ReleaseSlots(usize),
    Checkpoint,
    Advance(u64),
}

/// What a step answers: the tasks that it takes, or that it is refused.
pub type Answer = std::result::Result<Vec<Serial>, ErrorKind>;

/// The names that are chosen.
pub fn chosen<const N: usize>(names: [&'static str; N], are: [bool; N]) -> BTreeSet<String> {
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

    pub fn of_tube(&self, tube: usize) -> Vec<Serial> {
        let here = self.tasks.iter().filter(|(_, task)| task.terms.tube == tube);
        here.map(|(serial, _)| *serial).collect()
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
            task.place = Place::Taken(Lease { held, ends, grace: None });
            task.deliveries += 1;
        }
    }

    /// Leases whose grace is over return their tasks.
    fn lapse(&mut self, now: u64) {
        for task in self.tasks.values_mut() {
            if let Place::Taken(Lease { ends: Some(ends), grace, .. }) = &mut task.place
                && *ends <= now
            {
                let until = *ends + GRACES[task.terms.tube] * SECOND;
                if *grace.get_or_insert(until) <= now {
                    task.place = Place::Ready;
                }
            }
        }
    }

    fn put_at(&mut self, serial: Serial, place: Place) {
        if let Some(task) = self.tasks.get_mut(&serial) {
            task.place = place;
        }
    }

    /// The tasks stay as they are, and their leases too.
    fn merge(&mut self, from: usize, into: usize) -> Answer {
        if [from, into].contains(&MEMORY) {
            return Err(ErrorKind::Unsupported);
        }
        let moved = self.of_tube(from);
        for task in self.tasks.values_mut().filter(|task| task.terms.tube == from) {
            task.terms.tube = into;
        }
        Ok(moved)
    }

    fn tune(&mut self, tube: usize, gate: &Gate, now: u64) {
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

    pub fn apply(&mut self, step: &Step, now: u64) -> Answer {
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
                    lease.grace = None;
                }
            }
            Step::Merge(from, into) => return self.merge(from, into),
            Step::Bury(serial) => self.put_at(serial, Place::Buried),
            Step::Tune(tube, ref gate) => self.tune(tube, gate, now),
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
    pub fn crash(&mut self) {
        self.conditions[2] = None;
        self.tasks.retain(|_, task| task.terms.tube != MEMORY);
        for task in self.tasks.values_mut() {
            if matches!(task.place, Place::Taken(_)) {
                task.place = Place::Ready;
            }
        }
    }

    /// The tube of a task that a step names, or of one that is put or taken.
    pub fn tube_of(&self, step: &Step) -> Option<usize> {
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

    /// The ready tasks, those of them behind a gate of the tube, the taken and the stalled ones.
    fn counts(&self, tube: usize, now: u64) -> [u64; 4] {
        let ready = self.ready().filter(|(_, task)| task.terms.tube == tube).count() as u64;
        let limited = if self.closed(tube, now).is_empty() { 0 } else { ready };
        let is_stalled =
            |task: &&Stored| matches!(task.place, Place::Taken(Lease { grace: Some(_), .. }));
        let stalled = self.taken(tube).filter(is_stalled).count() as u64;
        [ready, limited, self.taken(tube).count() as u64, stalled]
    }

    pub fn sight(&self, now: u64, ids: &Ids) -> Sight {
        let state = |task: &Stored| match task.place {
            Place::Ready => State::Ready,
            Place::Taken(_) => State::Taken,
            Place::Buried => State::Buried,
        };
        let why = |serial: Serial, task: &Stored| match &task.place {
            Place::Ready => self.why(serial, now, ids),
            Place::Taken(lease) => running(lease, now),
            Place::Buried => Vec::new(),
        };
        let seen = |(serial, task): (&Serial, &Stored)| {
            let why = why(*serial, task);
            (*serial, (task.terms.tube, state(task), task.deliveries, why))
        };
        let tasks = self.tasks.iter().map(seen).collect();
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

/// A taken task: how long its lease lasts, and then its grace.
fn running(lease: &Lease, now: u64) -> Vec<WhyNot> {
    let micros = Duration::from_micros;
    let lease_left = lease.ends.map(|ends| micros(ends.saturating_sub(now)));
    let mut all = vec![WhyNot::Running { holder: None, lease_left }];
    let left = lease.grace.map(|ends| micros(ends - now));
    all.extend(left.map(|left| WhyNot::Stalled { grace_left: Some(left) }));
    all
}

/// What the order of a tube goes by.
fn rank((serial, task): &(&Serial, &Stored)) -> (i64, Serial) {
    (task.terms.priority, **serial)
}

/// What is seen of a queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Sight {
    /// The gates of the tubes.
    pub tubes: Vec<Vec<(&'static str, SettingValue)>>,
    /// Of each tube, see [`Model::counts`].
    pub counts: Vec<[u64; 4]>,
    /// The tube and the state of each task, how often it was taken, and what holds a ready or taken
    /// one back.
    pub tasks: BTreeMap<Serial, (usize, State, u32, Vec<WhyNot>)>,
    /// The limit, how long it lasts, and how many hold a slot.
    pub throttles: Vec<Option<(u64, Option<Duration>, u64)>>,
    pub conditions: Vec<Option<bool>>,
}

/// The name of a gate among the settings of a tube, and its value.
pub fn setting(gate: &Gate) -> (&'static str, SettingValue) {
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
    pub fn settings(&self) -> Vec<(&'static str, SettingValue)> {
        let Self { named, has_hours, limit, rate, .. } = *self;
        let Named { conditions, throttles } = named;
        let named = [Gate::Required(conditions), Gate::Throttled(throttles)];
        let others = [Gate::Hours(has_hours), Gate::Limit(limit), Gate::Rate(rate)];
        named.iter().chain(&others).map(setting).collect()
    }
}
