//! Statistics of days on a disk that crashes, beside plain sums: whatever dies when, each step of a
//! task counts once, on its day, and counts exactly if the step itself has lasted.

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

/// The number of a task, which is its payload.
type Serial = u64;

/// Where a task is, with the second in which it came there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ready(u64),
    Taken(u64),
    Buried(u64),
}

/// Of one day: waits, their seconds, runs, their seconds, failures, failed, retries.
type Sums = [u64; 7];

#[derive(Clone, Debug, Default)]
struct Model {
    tasks: BTreeMap<Serial, Place>,
    days: BTreeMap<u64, Sums>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(Serial),
    Take(Serial),
    Ack(Serial),
    Retry(Serial),
    Release(Serial),
    Bury(Serial),
    Kick(Serial),
    Delete(Serial),
    Truncate,
    Checkpoint,
    Advance(u64),
}

impl Model {
    fn add(&mut self, now: u64, at: usize, by: u64) {
        self.days.entry(now / DAY).or_default()[at] += by;
    }

    fn apply(&mut self, step: Step, now: u64) {
        use Place::{Buried, Ready, Taken};
        match step {
            Step::Put(task) | Step::Release(task) | Step::Kick(task) => {
                self.tasks.insert(task, Ready(now));
            }
            Step::Take(task) => {
                if let Some(Ready(since)) = self.tasks.insert(task, Taken(now)) {
                    self.add(now, 0, 1);
                    self.add(now, 1, now - since);
                }
            }
            Step::Ack(task) => {
                if let Some(Taken(since)) = self.tasks.remove(&task) {
                    self.add(now, 2, 1);
                    self.add(now, 3, now - since);
                }
            }
            Step::Retry(task) => {
                self.tasks.insert(task, Ready(now));
                self.add(now, 6, 1);
            }
            Step::Bury(task) => {
                self.tasks.insert(task, Buried(now));
                self.add(now, 4, 1);
            }
            Step::Delete(task) => drop(self.tasks.remove(&task)),
            Step::Truncate => *self = Self::default(),
            Step::Checkpoint | Step::Advance(_) => {}
        }
    }

    /// The process dies: what was taken comes back, with the attempt counted.
    fn crash(&mut self, now: u64) {
        let taken = |place: &Place| matches!(place, Place::Taken(_));
        let taken: Vec<_> =
            self.tasks.iter().filter(|(_, place)| taken(place)).map(|(task, _)| *task).collect();
        taken.into_iter().for_each(|task| self.apply(Step::Retry(task), now));
    }

    /// What the tube is to show.
    fn expected(&self, now: u64) -> (BTreeMap<Serial, State>, BTreeMap<u64, Sums>) {
        let mut days = self.days.clone();
        let mut states = BTreeMap::new();
        for (task, place) in &self.tasks {
            let state = match place {
                Place::Ready(_) => State::Ready,
                Place::Taken(_) => State::Taken,
                Place::Buried(at) => {
                    days.entry(at / DAY).or_default()[5] += 1;
                    State::Buried
                }
            };
            states.insert(*task, state);
        }
        days.retain(|day, _| (day + u64::from(KEPT_DAYS)) * DAY > now);
        (states, days)
    }
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

impl Story {
    fn open(&self) -> (Queue, Tube) {
        let builder = Queue::builder().durability(self.durability).journal_bytes(64 << 10);
        let builder = builder.by_hand(true).clock(self.clock.clone()).disk(self.disk.lend());
        let queue = builder.open_disk().unwrap();
        let options = TubeOptions::default().keep_days(KEPT_DAYS).max_attempts(1000);
        let options = options.backoff(Backoff::NONE).if_not_exists();
        let tube = queue.create_tube("t", options).unwrap();
        (queue, tube)
    }

    fn now(&self) -> u64 {
        self.clock.wall().duration_since(UNIX_EPOCH).unwrap().as_secs()
    }

    fn draw(&mut self) -> Option<Step> {
        let is_in = |state: State| {
            move |place: &Place| match place {
                Place::Ready(_) => state == State::Ready,
                Place::Taken(_) => state == State::Taken,
                Place::Buried(_) => state == State::Buried,
            }
        };
        let (tasks, rng) = (&self.model.tasks, &mut self.rng);
        let mut pick = |state| {
            let some = tasks.iter().filter(|(_, place)| is_in(state)(place));
            let some: Vec<_> = some.map(|(task, _)| *task).collect();
            (!some.is_empty()).then(|| rng.of(&some))
        };
        // A take is served by the order of the puts: a claim takes any.
        let (ready, taken, buried) = (pick(State::Ready), pick(State::Taken), pick(State::Buried));
        Some(match self.rng.below(40) {
            0..=7 => Step::Put(self.next),
            8..=15 => Step::Take(ready?),
            16..=20 => Step::Ack(taken?),
            21..=22 => Step::Retry(taken?),
            23 => Step::Release(taken?),
            24..=26 => Step::Bury(ready.or(taken)?),
            27 => Step::Kick(buried?),
            28 => Step::Delete(buried.or(ready)?),
            29 if self.rng.one_in(6) => Step::Truncate,
            30..=31 => Step::Checkpoint,
            32..=38 => Step::Advance(1 + self.rng.below(9000)),
            _ => Step::Advance(DAY / 2 + self.rng.below(DAY)),
        })
    }

    fn run(&mut self, queue: &Queue, tube: &Tube, step: Step) -> Result<()> {
        let id = |task: &Serial| self.ids[task];
        match step {
            Step::Put(task) => {
                let id = tube.put(&task.to_be_bytes())?;
                self.ids.insert(task, id);
                Ok(())
            }
            Step::Take(task) => {
                let held = tube.claim(id(&task))?;
                self.held.insert(task, held);
                Ok(())
            }
            Step::Ack(task) => self.held.remove(&task).unwrap().ack(),
            Step::Retry(task) => self.held.remove(&task).unwrap().retry("no"),
            Step::Release(task) => self.held.remove(&task).unwrap().release(),
            Step::Bury(task) => match self.held.remove(&task) {
                Some(held) => held.bury("no"),
                None => tube.bury(id(&task), "no"),
            },
            Step::Kick(task) => tube.kick_task(id(&task)),
            Step::Delete(task) => tube.delete(id(&task)),
            Step::Truncate => tube.truncate().map(drop),
            Step::Checkpoint => queue.checkpoint(),
            Step::Advance(by) => {
                self.clock.advance(Duration::from_secs(by));
                queue.tick()
            }
        }
    }

    /// What the tube shows. Its own check finds nothing.
    fn look(
        &mut self,
        queue: &Queue,
        tube: &Tube,
    ) -> (BTreeMap<Serial, State>, BTreeMap<u64, Sums>) {
        queue.tick().unwrap();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
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
        let (queue, tube) = story.open();
        let (seen, now) = (story.look(&queue, &tube), story.now());
        let mut models = std::mem::take(&mut story.unsynced);
        models.insert(0, story.model.clone());
        if let Some(step) = cut_off.take() {
            let mut after = story.model.clone();
            after.apply(step, now);
            models.push(after);
        }
        models.iter_mut().for_each(|model| model.crash(now));
        let found = models.iter().find(|model| model.expected(now) == seen);
        let all: Vec<_> = models.iter().map(|model| model.expected(now)).collect();
        let found = found.unwrap_or_else(|| {
            let trace = story.trace.join("\n");
            panic!("seed {seed}: {trace}\n{seen:?}, expected one of {all:?}")
        });
        story.model = found.clone();
        story.next = story.ids.keys().next_back().map_or(0, |last| last + 1);
        if generation == GENERATIONS {
            break;
        }
        let at = 1 + story.rng.below(100);
        story.disk.plan(Fault::Die(at));
        for _ in 0..STEPS {
            let Some(step) = story.draw() else { continue };
            story.trace.push(format!("{} {step:?}", story.now()));
            match story.run(&queue, &tube, step) {
                Err(_) if story.disk.is_dead() => {
                    cut_off = Some(step);
                    break;
                }
                answer => answer.unwrap_or_else(|error| panic!("seed {seed}: {step:?}: {error}")),
            }
            let (now, before) = (story.now(), story.model.clone());
            story.model.apply(step, now);
            match step {
                Step::Take(_) | Step::Release(_) => story.unsynced.push(before),
                Step::Advance(_) => {}
                _ => story.unsynced.clear(),
            }
            story.next += u64::from(matches!(step, Step::Put(_)));
            if matches!(step, Step::Truncate) {
                // Their leases are over.
                story.held.clear();
            }
        }
        story.trace.push("crash".into());
        if !crash(&mut story.disk, durability, &mut story.rng) {
            story.unsynced.clear();
        }
        story.held.clear();
        drop((tube, queue));
    }
}

#[test]
fn a_crash_counts_no_step_twice_and_none_that_did_not_last() {
    seeds(SEEDS).for_each(play);
}
