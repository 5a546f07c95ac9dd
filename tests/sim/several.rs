//! Takes from several tubes on a disk that crashes, beside a model in plain values: by a list or a
//! prefix, in each of their orders, a take gets exactly the task whose turn it is, of a shuffled
//! round one whose turn it may be. Tubes are closed and open again, tasks come back, tubes are made
//! and dropped. Whose turn it is stands in memory: after a crash each order begins at its start.

mod model;
mod turns;

use crate::crash::{crash, durability};
use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::seeds;
use model::{
    Answer, FIXED, HANDLES, HIGHER_FIRST, Model, NAMES, Of, PREFIXES, Place, SECOND, Serial, Sight,
    Step, Terms, WEIGHTS,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};
use tubewell::{
    Backoff, Clock, Durability, ManualClock, Queue, Result, SettingValue, State, Task, TaskId,
    Tube, TubeOptions, Tubes,
};
use turns::Way;

/// Steps between two crashes, at most.
const STEPS: usize = 120;
/// Crashes of each seed.
const GENERATIONS: usize = 4;
const SEEDS: u64 = 120;
const CONDITION: &str = "open";
/// The weight of tubes that are not named.
const OTHERS: u32 = 2;

struct Story {
    disk: SimDisk,
    clock: ManualClock,
    rng: Rng,
    durability: Durability,
    model: Model,
    next: Serial,
    ids: BTreeMap<Serial, TaskId>,
    held: BTreeMap<Serial, Task>,
    handles: BTreeMap<usize, Tubes>,
    /// What a power cut may leave: a take and a release do not wait for the sync.
    unsynced: Vec<Model>,
    /// The steps, for the report of a failure.
    trace: Vec<String>,
}

fn serial(payload: &[u8]) -> Serial {
    Serial::from_be_bytes(payload.try_into().unwrap())
}

fn make(queue: &Queue, no: usize) -> Result<Tube> {
    let options = TubeOptions::default().max_attempts(1000).backoff(Backoff::NONE);
    let options = options.higher_first(no == HIGHER_FIRST).if_not_exists();
    queue.create_tube(NAMES[no], options)
}

/// Puts tasks of these numbers.
fn put(tube: &Tube, serials: Range<Serial>, terms: &Terms) -> Result<Vec<TaskId>> {
    let payloads: Vec<_> = serials.map(u64::to_be_bytes).collect();
    let mut new = tube.batch(payloads.iter().map(|payload| &payload[..]));
    new = new.priority(terms.priority).delay(Duration::from_secs(terms.delay));
    if let Some(ttr) = terms.ttr {
        new = new.ttr(Duration::from_secs(ttr));
    }
    if terms.is_grouped {
        new = new.group("g");
    }
    if terms.requires {
        new = new.require(CONDITION);
    }
    new.put()
}

fn ordered(tubes: &Tubes, of: Option<&Of>, order: Way) -> Result<Tubes> {
    Ok(match (order, of) {
        (Way::InOrder, _) => tubes.in_order(),
        (Way::RoundRobin, _) => tubes.round_robin(),
        (Way::Shuffled(number), _) => tubes.shuffled(number),
        (Way::ByPriority, _) => tubes.by_priority(),
        (Way::Weighted, Some(Of::List(list))) => {
            let weights: Vec<_> = list.iter().map(|(_, weight)| *weight as u32).collect();
            tubes.weighted(&weights)?
        }
        (Way::Weighted, Some(Of::Prefix(_))) => {
            let named = NAMES.iter().zip(WEIGHTS.map(|weight| weight as u32));
            tubes.weighted_by_name(named.filter(|(_, weight)| *weight != OTHERS), OTHERS)?
        }
        (Way::Weighted, None) => panic!("a new handle has weights"),
    })
}

impl Story {
    fn open(&self) -> Queue {
        let builder = Queue::builder().durability(self.durability).journal_bytes(64 << 10);
        let builder = builder.by_hand(true).clock(self.clock.clone()).disk(self.disk.lend());
        builder.open_disk().unwrap()
    }

    fn now(&self) -> u64 {
        self.clock.wall().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
    }

    fn order(&mut self, is_new: bool) -> Way {
        let number = self.rng.of(&[7, 8]);
        let mut orders = vec![Way::InOrder, Way::RoundRobin, Way::RoundRobin];
        orders.extend([Way::Shuffled(number), Way::Shuffled(number), Way::ByPriority]);
        orders.extend([Way::Weighted, Way::Weighted].into_iter().filter(|_| is_new));
        self.rng.of(&orders)
    }

    fn handle(&mut self, no: usize) -> Step {
        let mut there = self.model.there();
        let is_list = self.rng.one_in(2);
        let of = if is_list {
            let count = 1 + self.rng.below(there.len() as u64);
            let mut tube = || there.swap_remove(self.rng.below(there.len() as u64) as usize);
            let tubes: Vec<_> = (0..count).map(|_| tube()).collect();
            let weighted = |tube| (tube, self.rng.of(&[1, 2, 3, 5]));
            Of::List(tubes.into_iter().map(weighted).collect())
        } else {
            Of::Prefix(self.rng.below(PREFIXES.len() as u64) as usize)
        };
        Step::Handle(no, of, self.order(true))
    }

    fn put(&mut self, tube: usize) -> Step {
        let rng = &mut self.rng;
        let terms = Terms {
            priority: rng.of(&[0, 0, 0, 1, -1, 3]),
            delay: rng.of(&[0, 0, 0, 0, 5, 30]),
            ttr: rng.of(&[None, None, Some(10)]),
            is_grouped: rng.one_in(5),
            requires: rng.one_in(8),
        };
        Step::Put { tube, first: self.next, count: rng.of(&[1, 1, 2, 4]), terms }
    }

    fn draw(&mut self) -> Option<Step> {
        let model = &self.model;
        let there: Vec<_> = model.tubes.keys().copied().collect();
        let (ready, buried) = (
            model.some(|place| *place == Place::Ready),
            model.some(|place| *place == Place::Buried),
        );
        let taken = model.some(|place| matches!(place, Place::Taken(_)));
        let tube = self.rng.of(&there);
        let is_paused = model.tubes[&tube].pause.is_some();
        let name = self.rng.below(NAMES.len() as u64) as usize;
        let mut one = |of: &[Serial]| (!of.is_empty()).then(|| self.rng.of(of));
        let (ready, buried, taken) = (one(&ready), one(&buried), one(&taken));
        let from = self.rng.below(HANDLES as u64) as usize;
        Some(match self.rng.below(80) {
            0..=15 => self.put(tube),
            16..=41 => Step::Take { from, most: self.rng.of(&[1, 1, 1, 2, 5]) },
            42..=49 => Step::Ack(taken?),
            50..=53 => Step::Release(taken?),
            54 => Step::Snooze(taken?, self.rng.of(&[4, 20])),
            55..=56 => Step::Bury(if self.rng.one_in(2) { taken? } else { ready? }),
            57 => Step::Kick(buried?),
            58..=59 if is_paused => Step::Resume(tube),
            58..=59 => Step::Pause(tube, self.rng.of(&[None, Some(6)])),
            60..=61 => Step::Limit(tube, self.rng.of(&[0, 0, 1, 2])),
            62 => Step::Require(tube, self.rng.one_in(3)),
            63..=64 => Step::Condition(self.rng.of(&[Some(true), Some(true), Some(false), None])),
            65..=67 if !there.contains(&name) => Step::Make(name),
            68 if tube >= FIXED => Step::Drop { tube, by_force: self.rng.one_in(2) },
            69 => self.handle(from),
            70 => Step::Reorder(from, self.order(false)),
            71 => Step::Checkpoint,
            72..=76 => Step::Advance(self.rng.of(&[SECOND, 5 * SECOND]), self.rng.one_in(2)),
            _ => return None,
        })
    }

    /// Keeps leases. Returns their tasks.
    fn keep(&mut self, taken: Vec<Task>) -> Vec<Serial> {
        let serials = taken.iter().map(|task| serial(task)).collect();
        self.held.extend(taken.into_iter().map(|task| (serial(&task), task)));
        serials
    }

    fn run(&mut self, queue: &Queue, step: &Step) -> Result<Vec<Serial>> {
        let tube = |no: usize| queue.tube(NAMES[no]);
        let of = |task: &Serial| Ok((tube(self.model.tasks[task].tube)?, self.ids[task]));
        let mut held = |task: &Serial| self.held.remove(task).unwrap();
        match step {
            Step::Make(no) => drop(make(queue, *no)?),
            Step::Drop { tube, by_force: false } => queue.drop_tube(NAMES[*tube])?,
            Step::Drop { tube, by_force: true } => queue.force_drop_tube(NAMES[*tube])?,
            Step::Put { tube: no, first, count, terms } => {
                let ids = put(&tube(*no)?, *first..first + count, terms)?;
                self.ids.extend((*first..).zip(ids));
            }
            Step::Handle(no, of, order) => {
                let tubes = match of {
                    Of::List(list) => queue.tubes_of(list.iter().map(|((no, _), _)| NAMES[*no]))?,
                    Of::Prefix(prefix) => queue.tubes_with_prefix(PREFIXES[*prefix])?,
                };
                self.handles.insert(*no, ordered(&tubes, Some(of), *order)?);
            }
            Step::Reorder(no, order) => {
                let again = ordered(&self.handles[no], None, *order)?;
                self.handles.insert(*no, again);
            }
            Step::Take { from, most } => {
                let tubes = self.handles[from].clone();
                let taken = match most {
                    1 => tubes.try_take()?.into_iter().collect(),
                    most => tubes.take_many(*most)?,
                };
                return Ok(self.keep(taken));
            }
            Step::Ack(task) => held(task).ack()?,
            Step::Release(task) => held(task).release()?,
            Step::Snooze(task, by) => held(task).snooze(Duration::from_secs(*by))?,
            Step::Bury(task) => match self.held.remove(task) {
                Some(held) => held.bury("no")?,
                None => of(task).and_then(|(tube, id)| tube.bury(id, "no"))?,
            },
            Step::Kick(task) => of(task).and_then(|(tube, id)| tube.kick_task(id))?,
            Step::Pause(no, None) => tube(*no)?.pause()?,
            Step::Pause(no, Some(by)) => tube(*no)?.pause_for(Duration::from_secs(*by))?,
            Step::Resume(no) => tube(*no)?.resume()?,
            Step::Limit(no, limit) => {
                let limit = Some(*limit).filter(|limit| *limit > 0);
                tube(*no)?.set("limit", limit)?;
            }
            Step::Require(no, requires) => {
                let names = requires.then(|| CONDITION.to_owned()).into_iter();
                tube(*no)?.set("require", names.collect::<BTreeSet<_>>())?;
            }
            Step::Condition(Some(is_set)) => drop(queue.set_condition(CONDITION, *is_set)?),
            Step::Condition(None) => drop(queue.remove_condition(CONDITION)?),
            Step::Checkpoint => queue.checkpoint()?,
            Step::Advance(by, ticks) => {
                self.clock.advance(Duration::from_micros(*by));
                if *ticks {
                    queue.tick()?;
                }
            }
        }
        Ok(Vec::new())
    }

    /// What the queue shows. Its own check finds nothing.
    fn look(&mut self, queue: &Queue) -> Result<Sight> {
        queue.tick()?;
        assert_eq!(queue.check()?, Vec::<String>::new());
        let (mut tubes, mut tasks) = (BTreeMap::new(), BTreeMap::new());
        for (no, name) in NAMES.into_iter().enumerate() {
            let Some(tube) = queue.find_tube(name)? else { continue };
            let info = tube.info()?;
            let micros = |left: Duration| left.as_micros() as u64;
            let ends = info.pause_left.map(|left| self.now() + micros(left));
            let limit = match tube.setting("limit")?.value {
                SettingValue::Integer(limit) => limit as u64,
                _ => 0,
            };
            let required: SettingValue = BTreeSet::from([CONDITION.to_owned()]).into();
            let requires = tube.setting("require")?.value == required;
            tubes.insert(no, (limit, requires, info.paused.then_some(ends)));
            for state in [State::Ready, State::Taken, State::Delayed, State::Buried] {
                for task in tube.tasks(state) {
                    let task = task?;
                    let serial = serial(&task.payload);
                    self.ids.insert(serial, task.id);
                    let seen = (no, task.state, task.deliveries);
                    assert_eq!(tasks.insert(serial, seen), None, "task {serial} is there twice");
                }
            }
        }
        let condition = queue.conditions()?.first().map(|condition| condition.is_set);
        Ok(Sight { tubes, tasks, condition })
    }

    fn fail(&self, seed: u64, what: &str) -> ! {
        panic!("seed {seed}: {}\n{what}", self.trace.join("\n"))
    }

    /// Runs one step beside the model. Returns `false` if the disk died in it.
    fn step(&mut self, seed: u64, queue: &Queue, step: &Step) -> bool {
        self.trace.push(format!("{} {step:?}", self.now()));
        let before = self.model.clone();
        let answer = self.run(queue, step);
        if answer.is_err() && self.disk.is_dead() {
            return false;
        }
        let answer: Answer = answer.map_err(|error| error.kind());
        let got = answer.as_deref().unwrap_or_default();
        let expected = self.model.apply(step, self.now(), got);
        if answer != expected {
            let is_of = |serial: &Serial| (*serial, self.model.tasks[serial].tube);
            let [got, wanted] =
                [&answer, &expected].map(|it| it.iter().flatten().map(is_of).collect::<Vec<_>>());
            self.fail(seed, &format!("{answer:?} {got:?}, expected {expected:?} {wanted:?}"));
        }
        if let Step::Handle(no, ..) | Step::Reorder(no, _) | Step::Take { from: no, .. } = step
            && !self.disk.is_dead()
        {
            assert_eq!(self.handles[no].names().unwrap(), self.model.names(*no), "seed {seed}");
        }
        if before != self.model {
            match step {
                Step::Take { .. } | Step::Release(_) | Step::Snooze(..) | Step::Advance(..) => {
                    self.unsynced.push(before);
                }
                // They write nothing.
                Step::Handle(..) | Step::Reorder(..) => {}
                _ => self.unsynced.clear(),
            }
        }
        if let Step::Put { count, .. } = step {
            self.next += count;
        }
        self.drop_lost();
        true
    }

    /// Drops the leases that have lapsed, or whose tubes are gone: they are lost.
    fn drop_lost(&mut self) {
        let all = self.held.keys().copied();
        let lost: Vec<_> = all.filter(|serial| !self.model.is_taken(*serial)).collect();
        for serial in lost {
            let task = self.held.remove(&serial).unwrap();
            let error = task.renew().unwrap_err();
            let is_lost = error.is_lease_lost() || error.is_not_found();
            assert!(is_lost || self.disk.is_dead(), "task {serial}: {error}");
        }
    }

    /// Finds what a crash has left. Returns the model of it.
    fn find(&mut self, seed: u64, queue: &Queue, cut_off: Option<Step>) -> Model {
        let (seen, now) = (self.look(queue).unwrap(), self.now());
        let mut models = std::mem::take(&mut self.unsynced);
        models.insert(0, self.model.clone());
        if let Some(step) = cut_off {
            let mut after = self.model.clone();
            let _answer = after.apply(&step, now, &[]);
            after.read_off(&step, &self.model, &seen);
            models.push(after);
        }
        for model in &mut models {
            model.crash();
            model.pass(now);
        }
        let found = models.iter().find(|model| model.sight() == seen);
        found.cloned().unwrap_or_else(|| {
            let all: Vec<_> = models.iter().map(Model::sight).collect();
            self.fail(seed, &format!("{seen:#?}, expected one of {all:#?}"))
        })
    }

    /// Steps up to the next crash. Returns the one in which the disk died.
    fn go_on(&mut self, seed: u64, queue: &Queue) -> Option<Step> {
        for no in 0..STEPS {
            let Some(step) = self.draw() else { continue };
            if !self.step(seed, queue, &step) {
                return Some(step);
            }
            if no % 24 == 23 {
                let seen = self.look(queue);
                if seen.is_err() && self.disk.is_dead() {
                    return None;
                }
                let (seen, expected) = (seen.unwrap(), self.model.sight());
                if seen != expected {
                    self.fail(seed, &format!("{seen:#?}, expected {expected:#?}"));
                }
            }
        }
        None
    }
}

fn play(seed: u64) {
    let (disk, rng) = (SimDisk::new(seed), Rng::new(seed));
    let durability = durability(seed);
    let (model, ids, held, handles) = Default::default();
    let mut story = Story {
        disk,
        clock: ManualClock::new(),
        rng,
        durability,
        model,
        next: 0,
        ids,
        held,
        handles,
        unsynced: Vec::new(),
        trace: Vec::new(),
    };
    let mut cut_off = None;
    for generation in 0..=GENERATIONS {
        story.disk.plan(Fault::None);
        let queue = story.open();
        story.model = story.find(seed, &queue, cut_off.take());
        story.next = story.ids.keys().next_back().map_or(0, |last| last + 1);
        if generation == GENERATIONS {
            break;
        }
        for tube in (0..FIXED).filter(|_| generation == 0) {
            assert!(story.step(seed, &queue, &Step::Make(tube)));
        }
        for no in 0..HANDLES {
            let handle = story.handle(no);
            assert!(story.step(seed, &queue, &handle));
        }
        let at = 1 + story.rng.below(200);
        story.disk.plan(Fault::Die(at));
        cut_off = story.go_on(seed, &queue);
        story.trace.push("crash".into());
        if !crash(&mut story.disk, durability, &mut story.rng) {
            story.unsynced.clear();
        }
        story.held.clear();
        story.handles.clear();
    }
}

#[test]
fn a_take_from_several_tubes_gets_the_task_whose_turn_it_is_whatever_dies() {
    seeds(SEEDS).for_each(play);
}
