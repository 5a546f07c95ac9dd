//! Failure groups over all tubes, copies and settings of the queue on a disk that crashes, beside a
//! model, and the consumers that it remembers. A call that was cut off in the middle has done its
//! first steps, and those only.

use crate::crash::{crash, durability};
use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::seeds;
use crate::trust::builder;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use tubewell::{
    Clock, Durability, ManualClock, Queue, Reason, Result, SettingValue, State, TaskId, Tube,
    TubeOptions, Unique,
};

/// Steps between two crashes, at most.
const STEPS: usize = 60;
/// Crashes of each seed.
const GENERATIONS: usize = 4;
const SEEDS: u64 = 100;
const TUBES: usize = 3;
const GROUPS: [&str; 2] = ["timeout", "address"];
/// The queue's own setting, and two of the application's.
const SETTINGS: [&str; 3] = ["consumer_keep", "app.limit", "app.name"];
const CONSUMERS: [&str; 2] = ["ada", "bob"];
/// A consumer is remembered for less than this.
const KEEP_MAX: Duration = Duration::from_secs(20);

/// What is compared of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    tube: usize,
    /// Of a buried one its failure group, and when it was buried.
    failed: Option<(String, SystemTime)>,
    key: Option<String>,
    kind: Option<String>,
    priority: i64,
    attempts: u32,
    payload: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct Model {
    tasks: BTreeMap<TaskId, Seen>,
    /// Where each stands among those of its priority.
    places: BTreeMap<TaskId, u64>,
    settings: BTreeMap<&'static str, SettingValue>,
    /// The consumers whose sessions have ended, and until when the queue remembers them.
    remembered: BTreeMap<&'static str, SystemTime>,
}

#[derive(Clone, Debug)]
enum Step {
    /// With a key, perhaps.
    Put {
        tube: usize,
        key: Option<u8>,
        priority: i64,
        payload: u8,
    },
    Fail {
        tube: usize,
        group: usize,
    },
    Unfail {
        group: usize,
        most: u64,
    },
    UnfailInto {
        group: usize,
        most: u64,
        to: usize,
    },
    Copy {
        id: TaskId,
        to: usize,
    },
    Set {
        name: usize,
        value: SettingValue,
    },
    Unset {
        name: usize,
    },
    /// A consumer begins and ends its session.
    Visit {
        who: usize,
    },
    Advance(u64),
    Checkpoint,
}

/// What a step answers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    count: u64,
    /// In the order of their ids.
    clashes: Vec<TaskId>,
}

impl Model {
    /// The tasks of a failure group, those that were buried first; of one instant those of the tube
    /// that was made first.
    fn of_group(&self, group: usize) -> Vec<TaskId> {
        let found = |(id, seen): (&TaskId, &Seen)| {
            let (of, at) = seen.failed.as_ref()?;
            (of == GROUPS[group]).then_some((*at, seen.tube, *id))
        };
        let mut found: Vec<_> = self.tasks.iter().filter_map(found).collect();
        found.sort_unstable();
        found.into_iter().map(|(.., id)| id).collect()
    }

    /// Whether another task of the tube has the key of this one. A buried one does not keep it.
    fn clashes(&self, id: TaskId, tube: usize) -> bool {
        let key = &self.tasks[&id].key;
        let has_it = |(other, seen): (&TaskId, &Seen)| {
            *other != id && seen.tube == tube && seen.failed.is_none() && seen.key == *key
        };
        key.is_some() && self.tasks.iter().any(has_it)
    }

    /// The first task that a take gets.
    fn next(&self, tube: usize) -> Option<TaskId> {
        let is_ready = |(_, seen): &(&TaskId, &Seen)| seen.tube == tube && seen.failed.is_none();
        let ready = self.tasks.iter().filter(is_ready);
        ready.min_by_key(|(id, seen)| (seen.priority, self.places[id])).map(|(id, _)| *id)
    }

    fn make_ready(&mut self, id: TaskId, tube: usize) {
        let seen = self.tasks.get_mut(&id).unwrap();
        (seen.tube, seen.failed, seen.attempts) = (tube, None, 0);
    }

    /// This model after a part of an `unfail`, of which `all` is left after the whole: it works
    /// tube by tube, in each on those first that were buried first. `None` if what is shown is no
    /// such part.
    fn partly_unfailed(&self, group: usize, all: &Self, shown: &Self) -> Option<Self> {
        let (mut part, mut ends) = (self.clone(), [false; TUBES]);
        let is_ready = |model: &Self, id| model.tasks.get(id).is_some_and(|it| it.failed.is_none());
        for id in self.of_group(group).iter().filter(|id| is_ready(all, id)) {
            let tube = self.tasks[id].tube;
            match is_ready(shown, id) {
                true if ends[tube] => return None,
                true => part.make_ready(*id, tube),
                false => ends[tube] = true,
            }
        }
        Some(part)
    }

    /// Puts a task behind all others of its priority.
    fn put_last(&mut self, id: TaskId) {
        let last = self.places.values().max().copied().unwrap_or(0);
        self.places.insert(id, last + 1);
    }

    /// Does a step to which the queue gave this id, if it made a task.
    fn apply(&mut self, step: &Step, now: SystemTime, id: TaskId) -> Answer {
        let mut answer = Answer::default();
        match step {
            Step::Put { tube, key, priority, payload } => {
                let seen = Seen {
                    tube: *tube,
                    failed: None,
                    key: key.map(|key| format!("key {key}")),
                    kind: Some(format!("kind {payload}")),
                    priority: *priority,
                    attempts: 0,
                    payload: bytes(*payload),
                };
                self.tasks.insert(id, seen);
                self.put_last(id);
            }
            Step::Fail { tube, group } => {
                if let Some(next) = self.next(*tube) {
                    let seen = self.tasks.get_mut(&next).unwrap();
                    seen.attempts += 1;
                    seen.failed = Some((GROUPS[*group].to_owned(), now));
                    answer.count = 1;
                }
            }
            Step::Unfail { group, most } | Step::UnfailInto { group, most, .. } => {
                for id in self.of_group(*group) {
                    if answer.count == *most {
                        break;
                    }
                    let own = self.tasks[&id].tube;
                    let to = if let Step::UnfailInto { to, .. } = step { *to } else { own };
                    if self.clashes(id, to) {
                        answer.clashes.push(id);
                        continue;
                    }
                    self.make_ready(id, to);
                    if matches!(step, Step::UnfailInto { .. }) {
                        self.put_last(id);
                    }
                    answer.count += 1;
                }
                answer.clashes.sort_unstable();
            }
            Step::Copy { id: of, to } => {
                let of = self.tasks[of].clone();
                let copy = Seen { tube: *to, failed: None, key: None, attempts: 0, ..of };
                self.tasks.insert(id, copy);
                self.put_last(id);
            }
            Step::Set { name, value } => {
                self.settings.insert(SETTINGS[*name], value.clone());
            }
            Step::Unset { name } => {
                let was_set = self.settings.remove(SETTINGS[*name]).is_some();
                answer.count = u64::from(was_set);
            }
            Step::Visit { who } => {
                let keep = match self.settings.get(SETTINGS[0]) {
                    Some(SettingValue::Duration(keep)) => *keep,
                    _ => Duration::ZERO,
                };
                self.remembered.insert(CONSUMERS[*who], now + keep);
            }
            Step::Advance(_) | Step::Checkpoint => {}
        }
        self.remembered.retain(|_, until| *until > now);
        answer
    }
}

fn bytes(payload: u8) -> Vec<u8> {
    // Some are more than one piece.
    vec![payload; if payload % 8 == 7 { 40_000 } else { 40 }]
}

struct Story {
    disk: SimDisk,
    clock: ManualClock,
    rng: Rng,
    durability: Durability,
    model: Model,
    trace: Vec<String>,
}

impl Story {
    fn open(&self) -> (Queue, Vec<Tube>) {
        let builder = builder(self.disk.lend(), self.durability).clock(self.clock.clone());
        let queue = builder.open_disk().unwrap();
        let options = TubeOptions::default().unique(Unique::new().buried(false)).if_not_exists();
        let tube = |no| queue.create_tube(&format!("tube {no}"), options.clone()).unwrap();
        let tubes = (0..TUBES).map(tube).collect();
        (queue, tubes)
    }

    fn now(&self) -> SystemTime {
        self.clock.wall()
    }

    fn draw(&mut self) -> Option<Step> {
        let (rng, tasks) = (&mut self.rng, &self.model.tasks);
        let [tube, to] = [0; 2].map(|_| rng.below(TUBES as u64) as usize);
        let (group, most) = (rng.below(2) as usize, rng.of(&[1, 2, 3, 100, u64::MAX]));
        let ids: Vec<_> = tasks.keys().copied().collect();
        Some(match rng.below(40) {
            0..10 => {
                let key = rng.one_in(3).then(|| rng.below(4) as u8);
                let priority = rng.of(&[0, 0, 1, -1]);
                let wanted = key.map(|key| format!("key {key}"));
                let is_taken =
                    |seen: &Seen| seen.tube == tube && seen.failed.is_none() && seen.key == wanted;
                if key.is_some() && tasks.values().any(is_taken) {
                    return None;
                }
                Step::Put { tube, key, priority, payload: rng.below(32) as u8 }
            }
            10..20 => Step::Fail { tube, group },
            20..23 => Step::Unfail { group, most },
            23..26 => Step::UnfailInto { group, most, to },
            26..30 if !ids.is_empty() => Step::Copy { id: rng.of(&ids), to },
            30..33 => {
                let name = rng.below(3) as usize;
                let value = match name {
                    0 => SettingValue::from(Duration::from_secs(rng.below(KEEP_MAX.as_secs()))),
                    1 => SettingValue::from(rng.below(1000)),
                    _ => SettingValue::from(format!("name {}", rng.below(9))),
                };
                Step::Set { name, value }
            }
            33 => Step::Unset { name: rng.below(3) as usize },
            34..36 => Step::Visit { who: rng.below(2) as usize },
            36..39 => Step::Advance(1 + rng.below(9)),
            _ => Step::Checkpoint,
        })
    }

    /// Runs a step. Returns its answer, and the id of the task that it made.
    fn run(&self, (queue, tubes): (&Queue, &[Tube]), step: &Step) -> Result<(Answer, TaskId)> {
        let (mut answer, mut made) = (Answer::default(), TaskId::new(0));
        let sorted = |mut ids: Vec<TaskId>| {
            ids.sort_unstable();
            ids
        };
        match step {
            Step::Put { tube, key, priority, payload } => {
                let (key, kind) = (key.map(|key| format!("key {key}")), format!("kind {payload}"));
                let payload = bytes(*payload);
                let mut task = tubes[*tube].task(&payload).priority(*priority).kind(&kind);
                if let Some(key) = &key {
                    task = task.key(key);
                }
                made = task.put()?;
            }
            Step::Fail { tube, group } => {
                if let Some(task) = tubes[*tube].try_take()? {
                    task.fail(GROUPS[*group], "it failed")?;
                    answer.count = 1;
                }
            }
            Step::Unfail { group, most } => {
                let done = queue.unfail(GROUPS[*group], *most)?;
                answer = Answer { count: done.kicked, clashes: sorted(done.clashes) };
            }
            Step::UnfailInto { group, most, to } => {
                let done = queue.unfail_into(GROUPS[*group], *most, &tubes[*to])?;
                assert!(!done.is_full);
                answer = Answer { count: done.moved, clashes: sorted(done.clashes) };
            }
            Step::Copy { id, to } => {
                made = tubes[self.model.tasks[id].tube].copy_to(*id, &tubes[*to])?;
            }
            Step::Set { name, value } => queue.set(SETTINGS[*name], value.clone())?,
            Step::Unset { name } => answer.count = u64::from(queue.unset(SETTINGS[*name])?),
            Step::Visit { who } => drop(queue.consumer(CONSUMERS[*who])?),
            Step::Advance(by) => {
                self.clock.advance(Duration::from_secs(*by));
                queue.tick()?;
            }
            Step::Checkpoint => queue.checkpoint()?,
        }
        Ok((answer, made))
    }

    /// What the queue shows. Its own check finds nothing.
    fn look(&self, queue: &Queue, tubes: &[Tube]) -> Model {
        queue.tick().unwrap();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        let mut shown = Model::default();
        for (number, tube) in tubes.iter().enumerate() {
            for task in [State::Ready, State::Buried].into_iter().flat_map(|it| tube.tasks(it)) {
                let task = task.unwrap();
                let group = match &task.reason {
                    Some(Reason::Failed { group, .. }) => Some(group.clone()),
                    _ => None,
                };
                let seen = Seen {
                    tube: number,
                    failed: group.map(|group| (group, task.buried.unwrap())),
                    key: task.key.clone(),
                    kind: task.kind.clone(),
                    priority: task.priority,
                    attempts: task.attempts,
                    payload: task.payload.clone(),
                };
                assert!(shown.tasks.insert(task.id, seen).is_none(), "{} twice", task.id);
            }
        }
        let groups = queue.failure_groups().unwrap();
        let counted = groups.iter().map(|group| (group.group.as_str(), group.tasks));
        let counted: BTreeMap<_, _> = counted.collect();
        for (number, name) in GROUPS.into_iter().enumerate() {
            let here = shown.of_group(number);
            assert_eq!(counted.get(name).copied().unwrap_or(0), here.len() as u64);
            let listed = queue.failed(name).map(|task| Ok(task?.id)).collect::<Result<Vec<_>>>();
            assert_eq!(listed.unwrap(), here.into_iter().rev().collect::<Vec<_>>());
        }
        for name in SETTINGS {
            let setting = queue.setting(name).unwrap();
            shown.settings.extend(setting.stored.map(|value| (name, value)));
        }
        for consumer in queue.consumers().unwrap() {
            let name = CONSUMERS.into_iter().find(|name| *name == consumer.name).unwrap();
            shown.remembered.insert(name, self.now());
        }
        shown
    }

    fn trace(&self) -> String {
        self.trace.join("\n")
    }
}

impl Story {
    /// What the model may be after a step that was cut off: nothing of it has happened, all, or of
    /// one that works on many tasks what it does to the first ones.
    fn cut_off(&self, step: &Step, shown: &Model) -> Vec<Model> {
        let (before, now) = (&self.model, self.now());
        let is_new = |id: &&TaskId| !before.tasks.contains_key(id);
        let made = shown.tasks.keys().find(is_new).copied().unwrap_or(TaskId::new(0));
        let apply = |step: &Step| {
            let mut model = before.clone();
            model.apply(step, now, made);
            model
        };
        let mut models = vec![before.clone(), apply(step)];
        match step {
            Step::Unfail { group, .. } => {
                models.extend(before.partly_unfailed(*group, &apply(step), shown));
            }
            Step::UnfailInto { group, to, .. } => {
                let (group, to) = (*group, *to);
                let parts = 1..before.of_group(group).len() as u64;
                models.extend(parts.map(|most| apply(&Step::UnfailInto { group, most, to })));
            }
            // Taken, and back after the crash: the attempt counts.
            Step::Fail { tube, .. } => models.extend(before.next(*tube).map(|id| {
                let mut model = before.clone();
                model.tasks.get_mut(&id).unwrap().attempts += 1;
                model
            })),
            _ => {}
        }
        models
    }

    /// The model that an opening shows, after a step that was cut off, perhaps.
    fn reopened(&self, shown: &Model, unfinished: Option<&Step>) -> Option<Model> {
        let models = match unfinished {
            None => vec![self.model.clone()],
            Some(step) => self.cut_off(step, shown),
        };
        let now = self.now();
        // One whose session ended with the crash is remembered from the opening on.
        let is_remembered = |model: &Model| {
            let until = |name| model.remembered.get(name).copied();
            let visits =
                |name| matches!(unfinished, Some(Step::Visit { who }) if CONSUMERS[*who] == name);
            CONSUMERS.iter().all(|name| {
                visits(*name)
                    || until(*name).is_none_or(|until| until <= now)
                    || shown.remembered.contains_key(name)
            })
        };
        models.into_iter().find(|model| {
            (&model.tasks, &model.settings) == (&shown.tasks, &shown.settings)
                && is_remembered(model)
        })
    }
}

fn play(seed: u64) -> u64 {
    let (disk, clock, rng) = (SimDisk::new(seed), ManualClock::new(), Rng::new(seed));
    let durability = durability(seed);
    let model = Model::default();
    let mut story = Story { disk, clock, rng, durability, model, trace: Vec::new() };
    let (mut unfinished, mut strikes) = (None, 0);
    for generation in 0..=GENERATIONS {
        story.disk.plan(Fault::None);
        let (queue, tubes) = story.open();
        let shown = story.look(&queue, &tubes);
        let Some(found) = story.reopened(&shown, unfinished.take().as_ref()) else {
            panic!("seed {seed}\n{}\n{shown:?}\nexpected {:?}", story.trace(), story.model)
        };
        story.model = Model { remembered: BTreeMap::new(), ..found };
        if generation == GENERATIONS {
            break;
        }
        // By then those of before are forgotten.
        story.clock.advance(KEEP_MAX);
        assert_eq!(story.look(&queue, &tubes).remembered, BTreeMap::new(), "{}", story.trace());
        story.disk.plan(Fault::Die(1 + story.rng.below(120)));
        for _ in 0..STEPS {
            let Some(step) = story.draw() else { continue };
            story.trace.push(format!("{step:?}"));
            let (answer, made) = match story.run((&queue, &tubes), &step) {
                Err(_) if story.disk.is_dead() => {
                    unfinished = Some(step);
                    strikes += 1;
                    break;
                }
                done => done.unwrap_or_else(|error| panic!("{}\n{error}", story.trace())),
            };
            let now = story.now();
            let expected = story.model.apply(&step, now, made);
            assert_eq!(answer, expected, "seed {seed}\n{}", story.trace());
            if !story.disk.is_dead() && story.rng.one_in(8) {
                let shown = story.look(&queue, &tubes);
                assert_eq!(shown.tasks, story.model.tasks, "seed {seed}\n{}", story.trace());
                assert_eq!(shown.settings, story.model.settings);
                let names = |model: &Model| model.remembered.keys().copied().collect::<Vec<_>>();
                assert_eq!(names(&shown), names(&story.model), "seed {seed}\n{}", story.trace());
            }
        }
        story.trace.push("crash".into());
        crash(&mut story.disk, durability, &mut story.rng);
        drop((tubes, queue));
    }
    strikes
}

#[test]
fn failures_of_all_tubes_copies_and_settings_last() {
    let strikes: u64 = seeds(SEEDS).map(play).sum();
    assert!(!crate::are_all() || strikes > SEEDS, "{strikes} crashes in a step");
}
