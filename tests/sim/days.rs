//! Statistics of days on a disk that crashes, beside plain sums: whatever dies when, each step of a
//! task counts once, on its day and in the tube in which it was, and counts exactly if the step
//! itself has lasted. Of two tubes: tasks are moved and advanced from one to the other, one by one
//! or all together, leases lapse and ttls end.

use crate::crash::{crash, durability};
use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::seeds;
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};
use tubewell::{
    Backoff, Clock, Durability, ManualClock, Queue, Result, State, Task, TaskId, Tube, TubeOptions,
};

/// Steps between two crashes, at most.
const STEPS: usize = 60;
/// Crashes of each seed.
const GENERATIONS: usize = 4;
const SEEDS: u64 = 400;
const DAY: u64 = 86_400;
const KEPT_DAYS: u32 = 3;
const TUBES: [&str; 2] = ["t", "u"];
const NEVER: u64 = u64::MAX;

/// The number of a task, which is its payload.
type Serial = u64;

/// Where a task is, with the second in which it came there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ready(u64),
    Taken(u64),
    Buried(u64),
}

impl Place {
    fn state(self) -> State {
        match self {
            Self::Ready(_) => State::Ready,
            Self::Taken(_) => State::Taken,
            Self::Buried(_) => State::Buried,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct ModelTask {
    place: Place,
    tube: usize,
    /// Its ttl in seconds, and the second in which that ends.
    ttl: u64,
    ends: u64,
    /// How many seconds a taker may hold it.
    ttr: u64,
}

/// Of one day: waits, their seconds, runs, their seconds, failures, failed, retries.
type Sums = [u64; 7];

#[derive(Clone, Debug, Default, PartialEq)]
struct ModelDay {
    /// The second in which the first step of the day counted.
    begun: u64,
    sums: Sums,
}

/// What a tube shows: the states of its tasks, and its days.
type Shown = (BTreeMap<Serial, State>, BTreeMap<u64, Sums>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    tasks: BTreeMap<Serial, ModelTask>,
    days: [BTreeMap<u64, ModelDay>; TUBES.len()],
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Into this tube, with a ttl and a ttr in seconds.
    Put(Serial, usize, u64, u64),
    Take(Serial),
    Ack(Serial),
    Retry(Serial),
    Release(Serial),
    Bury(Serial),
    Kick(Serial),
    Delete(Serial),
    /// To the other tube, by id.
    Move(Serial),
    /// To the other tube, as the next step of what is held.
    Next(Serial),
    /// All tasks of this tube to the other one.
    Merge(usize),
    Truncate(usize),
    Checkpoint,
    Advance(u64),
}

impl Model {
    fn add(&mut self, (tube, now): (usize, u64), at: usize, by: u64) {
        let new = || ModelDay { begun: now, sums: Sums::default() };
        self.days[tube].entry(now / DAY).or_insert_with(new).sums[at] += by;
    }

    /// Brings a task to a place. Returns where it was, with its tube.
    fn bring(&mut self, task: Serial, place: Place) -> (Place, usize) {
        let task = self.tasks.get_mut(&task).expect("a task");
        (std::mem::replace(&mut task.place, place), task.tube)
    }

    /// A taken task is done with.
    fn count_run(&mut self, (place, tube): (Place, usize), now: u64) {
        if let Place::Taken(since) = place {
            self.add((tube, now), 2, 1);
            self.add((tube, now), 3, now - since);
        }
    }

    fn apply(&mut self, step: Step, now: u64) {
        use Place::{Buried, Ready, Taken};
        match step {
            Step::Put(task, tube, ttl, ttr) => {
                let ends = now.saturating_add(ttl);
                self.tasks.insert(task, ModelTask { place: Ready(now), tube, ttl, ends, ttr });
            }
            Step::Release(task) | Step::Kick(task) => drop(self.bring(task, Ready(now))),
            Step::Take(task) => {
                if let (Ready(since), tube) = self.bring(task, Taken(now)) {
                    self.add((tube, now), 0, 1);
                    self.add((tube, now), 1, now - since);
                }
            }
            Step::Ack(task) => {
                let ModelTask { place, tube, .. } = self.tasks.remove(&task).expect("a task");
                self.count_run((place, tube), now);
            }
            Step::Retry(task) => {
                let (_, tube) = self.bring(task, Ready(now));
                self.add((tube, now), 6, 1);
            }
            Step::Bury(task) => {
                let (_, tube) = self.bring(task, Buried(now));
                self.add((tube, now), 4, 1);
            }
            Step::Delete(task) => drop(self.tasks.remove(&task)),
            Step::Next(task) | Step::Move(task) => {
                let from = self.bring(task, Ready(now));
                if matches!(step, Step::Next(_)) {
                    self.count_run(from, now);
                }
                // Its ttl begins again.
                let task = self.tasks.get_mut(&task).expect("a task");
                (task.tube, task.ends) = (1 - from.1, now.saturating_add(task.ttl));
            }
            // They go on being ready, taken or buried.
            Step::Merge(from) => {
                let tasks = self.tasks.values_mut().filter(|task| task.tube == from);
                tasks.for_each(|task| task.tube = 1 - from);
            }
            Step::Truncate(tube) => {
                self.tasks.retain(|_, task| task.tube != tube);
                self.days[tube].clear();
            }
            Step::Checkpoint | Step::Advance(_) => {}
        }
    }

    /// The tasks of a tube for which this holds.
    fn some(&self, tube: usize, is_one: impl Fn(&ModelTask) -> bool) -> Vec<Serial> {
        let some = self.tasks.iter().filter(|(_, task)| task.tube == tube && is_one(task));
        some.map(|(task, _)| *task).collect()
    }

    /// What is due in a tube: ttls that end, and leases that lapse.
    fn fall_due(&mut self, tube: usize, now: u64) {
        self.some(tube, |task| task.ends <= now)
            .into_iter()
            .for_each(|task| self.apply(Step::Delete(task), now));
        let lapses = |task: &ModelTask| match task.place {
            Place::Taken(since) => since.saturating_add(task.ttr) <= now,
            _ => false,
        };
        self.some(tube, lapses).into_iter().for_each(|task| self.apply(Step::Retry(task), now));
    }

    /// A tick that may have died or does not wait for its sync: what it leaves, nothing first and
    /// all last. The tubes are looked at in any order.
    fn ticked(&self, now: u64) -> Vec<Self> {
        let after = |tubes: &[usize]| {
            let mut model = self.clone();
            tubes.iter().for_each(|tube| model.fall_due(*tube, now));
            model
        };
        [&[][..], &[0], &[1], &[0, 1]].map(after).into()
    }

    /// The process dies: what was taken comes back, with the attempt counted.
    fn crash(&mut self, now: u64) {
        for tube in 0..TUBES.len() {
            let taken = self.some(tube, |task| task.place.state() == State::Taken);
            taken.into_iter().for_each(|task| self.apply(Step::Retry(task), now));
            self.fall_due(tube, now);
        }
    }

    /// What the tubes are to show.
    fn expected(&self, now: u64) -> [Shown; TUBES.len()] {
        std::array::from_fn(|tube| {
            let mut days = self.days[tube].clone();
            let mut states = BTreeMap::new();
            for (serial, task) in self.tasks.iter().filter(|(_, task)| task.tube == tube) {
                // One that a merge has brought may have failed before the day began here.
                if let Place::Buried(at) = task.place
                    && let Some(day) = days.get_mut(&(at / DAY)).filter(|day| day.begun <= at)
                {
                    day.sums[5] += 1;
                }
                states.insert(*serial, task.place.state());
            }
            days.retain(|day, _| (day + u64::from(KEPT_DAYS)) * DAY > now);
            (states, days.into_iter().map(|(day, of)| (day, of.sums)).collect())
        })
    }
}

struct Story {
    disk: SimDisk,
    clock: ManualClock,
    rng: Rng,
    durability: Durability,
    /// All that may be so. They show the same: since when a task is ready comes to light with its
    /// next take.
    models: Vec<Model>,
    next: Serial,
    ids: BTreeMap<Serial, TaskId>,
    held: BTreeMap<Serial, Task>,
    /// What a power cut may leave: a take and a release do not wait for the sync.
    unsynced: Vec<Model>,
    /// The steps, for the report of a failure.
    trace: Vec<String>,
}

impl Story {
    fn open(&self) -> (Queue, [Tube; TUBES.len()]) {
        let builder = Queue::builder().durability(self.durability).journal_bytes(64 << 10);
        let builder = builder.by_hand(true).clock(self.clock.clone()).disk(self.disk.lend());
        let queue = builder.open_disk().unwrap();
        let options = TubeOptions::default().keep_days(KEPT_DAYS).max_attempts(1000);
        let options = options.backoff(Backoff::NONE).if_not_exists();
        let tubes = TUBES.map(|name| queue.create_tube(name, options.clone()).unwrap());
        (queue, tubes)
    }

    fn now(&self) -> u64 {
        self.clock.wall().duration_since(UNIX_EPOCH).unwrap().as_secs()
    }

    fn draw(&mut self) -> Option<Step> {
        let (tasks, rng) = (&self.models[0].tasks, &mut self.rng);
        let mut pick = |state| {
            let some = tasks.iter().filter(|(_, task)| task.place.state() == state);
            let some: Vec<_> = some.map(|(task, _)| *task).collect();
            (!some.is_empty()).then(|| rng.of(&some))
        };
        // A take is served by the order of the puts: a claim takes any.
        let (ready, taken, buried) = (pick(State::Ready), pick(State::Taken), pick(State::Buried));
        let tube = rng.below(TUBES.len() as u64) as usize;
        Some(match rng.below(48) {
            0..=7 => {
                // Not both: which of them comes first is not the matter here.
                let length = 1 + rng.below(30_000);
                let (ttl, ttr) = match rng.below(4) {
                    0 => (length, NEVER),
                    1 => (NEVER, length),
                    _ => (NEVER, NEVER),
                };
                Step::Put(self.next, tube, ttl, ttr)
            }
            8..=15 => Step::Take(ready?),
            16..=20 => Step::Ack(taken?),
            21..=22 => Step::Retry(taken?),
            23 => Step::Release(taken?),
            24..=26 => Step::Bury(ready.or(taken)?),
            27 => Step::Kick(buried?),
            28 => Step::Delete(buried.or(ready)?),
            29 if rng.one_in(6) => Step::Truncate(tube),
            30..=31 => Step::Checkpoint,
            32..=38 => Step::Advance(1 + rng.below(9000)),
            39 => Step::Advance(DAY / 2 + rng.below(DAY)),
            40..=42 => Step::Move(ready.or(buried)?),
            43..=45 => Step::Next(taken?),
            _ => Step::Merge(tube),
        })
    }

    fn run(&mut self, queue: &Queue, tubes: &[Tube; TUBES.len()], step: Step) -> Result<()> {
        let id = |task: &Serial| self.ids[task];
        let of = |task: &Serial| &tubes[self.models[0].tasks[task].tube];
        let other = |task: &Serial| &tubes[1 - self.models[0].tasks[task].tube];
        match step {
            Step::Put(task, tube, ttl, ttr) => {
                let bytes = task.to_be_bytes();
                let (mut new, seconds) = (tubes[tube].task(&bytes), Duration::from_secs);
                if ttl != NEVER {
                    new = new.ttl(seconds(ttl));
                }
                if ttr != NEVER {
                    new = new.ttr(seconds(ttr));
                }
                let id = new.put()?;
                self.ids.insert(task, id);
                Ok(())
            }
            Step::Take(task) => {
                let held = of(&task).claim(id(&task))?;
                self.held.insert(task, held);
                Ok(())
            }
            Step::Ack(task) => self.held.remove(&task).unwrap().ack(),
            Step::Retry(task) => self.held.remove(&task).unwrap().retry("no"),
            Step::Release(task) => self.held.remove(&task).unwrap().release(),
            Step::Bury(task) => match self.held.remove(&task) {
                Some(held) => held.bury("no"),
                None => of(&task).bury(id(&task), "no"),
            },
            Step::Kick(task) => of(&task).kick_task(id(&task)),
            Step::Delete(task) => of(&task).delete(id(&task)),
            Step::Move(task) => of(&task).move_to(id(&task), other(&task)).apply(),
            Step::Next(task) => self.held.remove(&task).unwrap().advance(other(&task)),
            Step::Merge(from) => queue.merge(TUBES[from], TUBES[1 - from]).map(drop),
            Step::Truncate(tube) => tubes[tube].truncate().map(drop),
            Step::Checkpoint => queue.checkpoint(),
            Step::Advance(by) => {
                self.clock.advance(Duration::from_secs(by));
                queue.tick()
            }
        }
    }

    /// What a step has done that was carried out.
    fn follow(&mut self, step: Step) {
        let now = self.now();
        match step {
            // They do not wait for the sync.
            Step::Take(_) | Step::Release(_) => self.unsynced.extend(self.models.iter().cloned()),
            Step::Advance(_) => {}
            _ => self.unsynced.clear(),
        }
        for model in &mut self.models {
            model.apply(step, now);
            if let Step::Advance(_) = step {
                self.unsynced.extend(model.ticked(now));
                *model = self.unsynced.pop().expect("what a whole tick leaves");
            }
        }
    }

    /// Drops the guards of tasks that are not held any more.
    fn drop_lost(&mut self) {
        let tasks = &self.models[0].tasks;
        let is_held =
            |task: &Serial| tasks.get(task).is_some_and(|it| it.place.state() == State::Taken);
        self.held.retain(|task, _| is_held(task));
    }

    /// What the tubes show. Their own check finds nothing.
    fn look(&mut self, queue: &Queue, tubes: &[Tube; TUBES.len()]) -> [Shown; TUBES.len()] {
        queue.tick().unwrap();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        tubes.each_ref().map(|tube| self.shown(tube))
    }

    fn shown(&mut self, tube: &Tube) -> Shown {
        let mut states = BTreeMap::new();
        for state in [State::Ready, State::Taken, State::Buried] {
            for task in tube.tasks(state) {
                let task = task.unwrap();
                let serial = Serial::from_be_bytes(task.payload[..].try_into().unwrap());
                self.ids.insert(serial, task.id);
                states.insert(serial, state);
            }
        }
        let mut days = BTreeMap::new();
        for day in tube.days().unwrap() {
            let of = tube.statistics(day).unwrap().unwrap();
            let (waits, runs) = (of.waits.total().as_secs(), of.runs.total().as_secs());
            for lengths in [&of.waits, &of.runs] {
                assert_eq!(lengths.buckets().iter().sum::<u64>(), lengths.count());
            }
            let counts = [of.waits.count(), waits, of.runs.count(), runs];
            let [a, b, c, d] = counts;
            days.insert(u64::from(day), [a, b, c, d, of.failures, of.failed, of.retries]);
        }
        (states, days)
    }
}

fn play(seed: u64) {
    let (disk, clock, rng) = (SimDisk::new(seed), ManualClock::new(), Rng::new(seed));
    let durability = durability(seed);
    let (ids, held) = Default::default();
    let mut story = Story {
        disk,
        clock,
        rng,
        durability,
        models: vec![Model::default()],
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
        let (seen, now) = (story.look(&queue, &tubes), story.now());
        let mut models = std::mem::take(&mut story.unsynced);
        models.extend(story.models.iter().cloned());
        if let Some(step) = cut_off.take() {
            for before in &story.models {
                let mut after = before.clone();
                after.apply(step, now);
                models.extend(after.ticked(now));
                if matches!(step, Step::Merge(_)) {
                    // It had begun and no more: it goes on after the leases are void.
                    let mut begun = before.clone();
                    begun.crash(now);
                    begun.apply(step, now);
                    models.push(begun);
                }
            }
        }
        models.iter_mut().for_each(|model| model.crash(now));
        let all: Vec<_> = models.iter().map(|model| model.expected(now)).collect();
        models.retain(|model| model.expected(now) == seen);
        models.dedup();
        if models.is_empty() {
            let trace = story.trace.join("\n");
            panic!("seed {seed}: {trace}\n{seen:?}, expected one of {all:?}");
        }
        story.models = models;
        story.next = story.ids.keys().next_back().map_or(0, |last| last + 1);
        if generation == GENERATIONS {
            break;
        }
        let at = 1 + story.rng.below(100);
        story.disk.plan(Fault::Die(at));
        for _ in 0..STEPS {
            let Some(step) = story.draw() else { continue };
            story.trace.push(format!("{} {step:?}", story.now()));
            match story.run(&queue, &tubes, step) {
                Err(_) if story.disk.is_dead() => {
                    cut_off = Some(step);
                    break;
                }
                answer => answer.unwrap_or_else(|error| panic!("seed {seed}: {step:?}: {error}")),
            }
            story.follow(step);
            story.next += u64::from(matches!(step, Step::Put(..)));
            story.drop_lost();
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
fn a_crash_counts_no_step_twice_and_none_that_did_not_last() {
    seeds(SEEDS).for_each(play);
}
