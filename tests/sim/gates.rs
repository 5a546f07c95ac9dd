//! Gates on a disk that crashes, beside a model in plain values: whatever dies when, a take gets
//! exactly the best tasks whose gates are all open, those of their tube and their own, and whose
//! turn it is in their group; `explain` names exactly what holds each task back. A lease in its
//! grace holds its slots. The last tube is temporary: a crash removes its tasks.

mod model;

use crate::crash::{crash, durability};
use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::seeds;
use model::{
    CONDITIONS, GRACES, GROUPS, Gate, Gates, Ids, MEMORY, Model, Named, Place, SECOND, Serial,
    Sight, Step, Stored, THROTTLES, TUBES, Terms, chosen, setting,
};
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};
use tubewell::{
    Backoff, Clock, Durability, Lapse, ManualClock, Queue, Result, State, Task, TaskId, Tube,
    TubeOptions, WhyNot,
};

/// Steps between two crashes, at most.
const STEPS: usize = 80;
/// Crashes of each seed.
const GENERATIONS: usize = 4;
const SEEDS: u64 = 500;

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

fn put(tube: &Tube, task: Serial, terms: &Terms) -> Result<TaskId> {
    let Terms { priority, own, group, ttr, .. } = terms;
    let payload = task.to_be_bytes();
    let conditions = chosen(CONDITIONS, own.conditions);
    let throttles = chosen(THROTTLES, own.throttles);
    let mut new = tube.task(&payload[..]).priority(*priority);
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
    new.put()
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
        Some(match self.rng.below(65) {
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
            61..=63 => {
                let [from, into] = self.rng.of(&[[0, 1], [1, 0], [0, 1], [1, 0], [0, 2], [2, 1]]);
                Step::Merge(from, into)
            }
            _ => Step::Advance(self.rng.below(86_400) * SECOND),
        })
    }

    fn run(&mut self, queue: &Queue, tubes: &[Tube], step: &Step) -> Result<Vec<Serial>> {
        let id = |task: &Serial| self.ids[task];
        let of = |task: &Serial| &tubes[self.model.tasks[task].terms.tube];
        let mut held = |task: &Serial| self.held.remove(task).unwrap();
        match step {
            Step::Put(task, terms) => {
                let id = put(&tubes[terms.tube], *task, terms)?;
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
            Step::Merge(from, into) => {
                let merged = queue.merge(TUBES[*from], TUBES[*into])?;
                let moved = self.model.of_tube(*from);
                assert_eq!((merged.moved, merged.clashed), (moved.len() as u64, 0));
                return Ok(moved);
            }
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
        for (no, tube) in tubes.iter().enumerate() {
            for state in [State::Ready, State::Taken, State::Buried] {
                for task in tube.tasks(state) {
                    let task = task?;
                    let serial = serial(&task.payload);
                    self.ids.insert(serial, task.id);
                    let mut why = queue.explain(task.id)?.reasons;
                    let is_order =
                        |why: &WhyNot| matches!(why, WhyNot::Behind { .. } | WhyNot::IsNext);
                    why.retain(|why| state != State::Buried && !is_order(why));
                    tasks.insert(serial, (no, state, task.deliveries, why));
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
