//! Dependencies on a disk that crashes, beside a model in plain maps: whatever dies when, each task
//! waits for exactly those that have not ended as it wants, and no end is told twice or not at all.
//! A ttl ends tasks too, and stands still while they wait.

mod model;

use crate::crash::{crash, durability};
use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::seeds;
use model::{Ids, LATE, Model, On, Serial, Step, Task, Terms};
use std::collections::BTreeMap;
use std::time::Duration;
use tubewell::{
    Advance, After, Backoff, Clock, Conflict, Durability, HistoryLimits, ManualClock, NewTask,
    Orphaned, Queue, Result, Retention, State, TaskId, TaskInfo, Tube, TubeOptions,
};

/// Steps between two crashes, at most.
const STEPS: usize = 60;
/// Crashes of each seed.
const GENERATIONS: usize = 4;
const SEEDS: u64 = 500;
/// The error of a transaction that is given up.
type GivenUp = Box<dyn std::error::Error + Send + Sync>;

struct Story {
    disk: SimDisk,
    rng: Rng,
    durability: Durability,
    model: Model,
    ids: Ids,
    clock: ManualClock,
    /// What a power cut may leave: time that passes does not wait for the sync of what it ends.
    unsynced: Vec<Model>,
    /// The steps, for the report of a failure.
    trace: Vec<String>,
}

/// A task as it is visible: its tube, its state, the rest of its ttl, those that it waits for, and
/// all of which it reads the results.
type SeenTask = (usize, State, Option<u64>, u64, Vec<Serial>);

type Seen = BTreeMap<Serial, SeenTask>;

/// These tasks and ends, as the library takes them.
fn given(tasks: impl IntoIterator<Item = (TaskId, On)>, orphaned: Orphaned) -> After {
    tasks.into_iter().fold(After::new().orphaned(orphaned), |after, (id, on)| match on {
        On::Success => after.success([id]),
        On::Failure => after.failure([id]),
        On::AnyEnd => after.any_end([id]),
    })
}

impl Story {
    fn open(&self) -> (Queue, [Tube; 2]) {
        let builder = Queue::builder().durability(self.durability).journal_bytes(64 << 10);
        let builder = builder.by_hand(true).clock(self.clock.clone()).disk(self.disk.lend());
        let queue = builder.open_disk().unwrap();
        let tubes = ["a", "b"].map(|name| {
            let options = TubeOptions::default().max_attempts(1000).backoff(Backoff::NONE);
            let options = options.keep_finished(Retention::new()).if_not_exists();
            let options = options.history(HistoryLimits::none());
            queue.create_tube(name, options).unwrap()
        });
        (queue, tubes)
    }

    /// Seconds since the first opening.
    fn now(&self) -> u64 {
        let begin = ManualClock::new().wall();
        self.clock.wall().duration_since(begin).unwrap().as_secs()
    }

    /// A task in one of these states.
    fn pick(&mut self, states: &[State]) -> Option<Serial> {
        let is_one = |task: &Task| states.contains(&task.state);
        let some: Vec<_> =
            self.model.tasks.iter().filter(|(_, task)| is_one(task)).map(|(it, _)| *it).collect();
        (!some.is_empty()).then(|| self.rng.of(&some))
    }

    /// Tasks that were ever put, also ones that are gone.
    fn earlier(&mut self) -> Vec<(Serial, On)> {
        let mut after = BTreeMap::new();
        for _ in 0..self.rng.below(4) {
            let earlier = self.rng.below(self.model.next.max(1));
            let on = self.rng.of(&[On::Success, On::Success, On::Failure, On::AnyEnd]);
            if self.ids.contains_key(&earlier) {
                after.insert(earlier, on);
            }
        }
        after.into_iter().collect()
    }

    fn orphaned(&mut self) -> Orphaned {
        self.rng.of(&[Orphaned::Hold, Orphaned::Cancel, Orphaned::Ignore])
    }

    fn terms(&mut self) -> Terms {
        let orphaned = self.orphaned();
        let ttl = self.rng.of(&[None, None, Some(5), Some(20)]);
        Terms { after: Some(self.earlier()), orphaned, is_late: self.rng.one_in(6), ttl }
    }

    fn put(&mut self) -> Step {
        let (tube, has_key) = (self.rng.below(2) as usize, self.rng.one_in(2));
        Step::Put { tube, has_key, terms: self.terms() }
    }

    /// Any task with a key is put again.
    fn put_again(&mut self) -> Option<Step> {
        let keyed = self.model.tasks.iter().filter(|(_, task)| task.key.is_some());
        let keyed: Vec<_> = keyed.map(|(serial, _)| *serial).collect();
        let task = (!keyed.is_empty()).then(|| self.rng.of(&keyed))?;
        let mut terms = self.terms();
        if self.rng.one_in(4) {
            terms.after = None;
        }
        // The one that it replaces is no other task.
        if self.model.tasks[&task].state == State::Done {
            terms.after.iter_mut().for_each(|after| after.retain(|(it, _)| *it != task));
        }
        Some(Step::Again(task, terms))
    }

    /// Two puts, of which the second may come after the first.
    fn transact(&mut self) -> Option<Step> {
        let first = if self.rng.one_in(2) { self.put() } else { self.put_again()? };
        let mut second = self.put();
        if let Step::Put { terms: Terms { after: Some(after), .. }, .. } = &mut second
            && !after.iter().any(|(it, _)| *it == self.model.put_by(&first))
            && self.rng.one_in(2)
        {
            after.push((self.model.put_by(&first), On::Success));
        }
        Some(Step::Transact { puts: vec![first, second], commits: !self.rng.one_in(4) })
    }

    fn advance(&mut self) -> Option<Step> {
        let task = self.pick(&[State::Ready, State::Delayed])?;
        let after = (self.earlier(), self.orphaned());
        let (to, is_late) = (self.rng.below(2) as usize, self.rng.one_in(6));
        Some(Step::Advance { task, to, after, is_late })
    }

    fn draw(&mut self) -> Option<Step> {
        const WAITING: [State; 2] = [State::Ready, State::Delayed];
        const OPEN: [State; 4] = [State::Ready, State::Delayed, State::Blocked, State::Buried];
        const ANY: [State; 5] =
            [State::Ready, State::Delayed, State::Blocked, State::Buried, State::Done];
        Some(match self.rng.below(37) {
            0..=7 => self.put(),
            8..=11 => Step::Complete(self.pick(&WAITING)?),
            12..=13 => Step::Bury(self.pick(&OPEN[..3])?),
            14 => Step::Kick(self.pick(&[State::Buried])?),
            15..=16 => Step::Delete { task: self.pick(&ANY)?, by_force: self.rng.one_in(2) },
            17 => Step::Move(self.pick(&[State::Ready, State::Blocked])?),
            18..=19 => {
                let (task, earlier) = (self.pick(&[State::Blocked])?, self.pick(&ANY)?);
                let known = &self.model.tasks[&task];
                if known.open.contains_key(&earlier) || known.met.contains(&earlier) {
                    return None;
                }
                let on = self.rng.of(&[On::Success, On::Failure, On::AnyEnd]);
                Step::Depend(task, (earlier, on), self.orphaned())
            }
            20 => Step::UndependAll(self.pick(&[State::Blocked])?),
            21 => Step::CancelTree(self.pick(&OPEN)?),
            22 => Step::Checkpoint,
            23 => Step::Merge(self.rng.below(2) as usize),
            24..=27 => self.put_again()?,
            28..=29 => self.transact()?,
            30..=31 => self.advance()?,
            32 if self.rng.one_in(3) => Step::Truncate(self.rng.below(2) as usize),
            33..=35 => Step::Pass(self.rng.of(&[1, 4, 11])),
            _ => Step::Pass(0),
        })
    }

    fn run(&mut self, queue: &Queue, tubes: &[Tube; 2], step: &Step) -> Result<()> {
        let id = |serial: &Serial| self.ids[serial];
        let of = |serial: &Serial| (&tubes[self.model.tasks[serial].tube], self.ids[serial]);
        match step {
            Step::Put { .. } | Step::Again(..) => {
                let (model, ids) = (&self.model, &self.ids);
                let id = with_put((model, ids, tubes), step, |task| task.put())?;
                self.ids.insert(self.model.put_by(step), id);
                Ok(())
            }
            Step::Transact { puts, commits } => {
                let (mut model, mut ids) = (self.model.clone(), self.ids.clone());
                queue.transact(|tx| -> std::result::Result<(), GivenUp> {
                    for put in puts {
                        let id = with_put((&model, &ids, tubes), put, |task| task.put_in(tx))?;
                        ids.insert(model.put_by(put), id);
                        let _refused = model.apply(put);
                    }
                    if *commits { Ok(()) } else { Err("given up".into()) }
                })?;
                self.ids = ids;
                Ok(())
            }
            Step::Advance { task, to, after, is_late } => {
                let (after, orphaned) = after;
                let after = after.iter().map(|(earlier, on)| (id(earlier), *on));
                let (tube, id) = of(task);
                let terms = Advance::new().after(given(after, *orphaned));
                let terms = if *is_late { terms.delay(LATE) } else { terms };
                let mut taken = tube.claim(id)?;
                if let Err(error) = taken.advance_with(&tubes[*to], terms) {
                    taken.release()?;
                    return Err(error);
                }
                Ok(())
            }
            Step::Truncate(tube) => {
                tubes[*tube].truncate()?;
                // It leaves the ends of what it has removed.
                queue.tick()
            }
            Step::Complete(serial) => {
                let (tube, id) = of(serial);
                complete(tube, id, serial % 2 == 0)
            }
            Step::Bury(serial) => of(serial).0.bury(id(serial), "no"),
            Step::Kick(serial) => of(serial).0.kick_task(id(serial)),
            Step::Delete { task, by_force: true } => of(task).0.force_delete(id(task)),
            Step::Delete { task, by_force: false } => of(task).0.delete(id(task)),
            Step::Move(serial) => {
                let tube = self.model.tasks[serial].tube;
                tubes[tube].move_to(id(serial), &tubes[1 - tube]).apply()
            }
            Step::Merge(tube) => {
                let merged = queue.merge(tubes[*tube].name(), tubes[1 - tube].name())?;
                let before = self.model.tasks.values().filter(|task| task.tube == *tube).count();
                assert_eq!((merged.moved, merged.clashed), (before as u64, 0));
                Ok(())
            }
            Step::Depend(serial, (earlier, on), orphaned) => {
                let after = given([(id(earlier), *on)], *orphaned);
                of(serial).0.depend(id(serial), after)
            }
            Step::UndependAll(serial) => of(serial).0.undepend_all(id(serial)),
            Step::CancelTree(serial) => {
                let removed = queue.cancel_tree(id(serial))?;
                assert_eq!(removed, self.model.tree(*serial).len() as u64);
                Ok(())
            }
            Step::Checkpoint => queue.checkpoint(),
            Step::Pass(by) => {
                // What follows from ends is synced before time passes. Otherwise an opening does
                // it again, and a ttl begins to run later.
                queue.flush()?;
                self.clock.advance(Duration::from_secs(*by));
                queue.tick()
            }
        }
    }

    /// Runs one step beside the model. Returns `false` if the disk died in it.
    fn step(&mut self, seed: u64, (queue, tubes): (&Queue, &[Tube; 2]), step: &Step) -> bool {
        self.trace.push(format!("{} {step:?}", self.model.next));
        let mut after = self.model.clone();
        let expected = after.apply(step);
        let answer = self.run(queue, tubes, step);
        if answer.is_err() && self.disk.is_dead() {
            return false;
        }
        let answer = answer.map_err(|error| error.kind());
        if answer != expected {
            let trace = self.trace.join("\n");
            panic!("seed {seed}: {trace}\n{answer:?}, expected {expected:?}");
        }
        match step {
            Step::Pass(_) => self.unsynced.push(self.model.clone()),
            // A claim and a release wait for no sync.
            Step::Advance { .. } if answer.is_err() => self.unsynced.push(self.model.clone()),
            Step::Put { .. } | Step::Complete(_) | Step::Bury(_) => self.unsynced.clear(),
            _ => {}
        }
        // What is refused may have been taken before.
        self.model = after;
        true
    }

    /// What the queue shows. Its own check finds nothing.
    fn look(&mut self, queue: &Queue, tubes: &[Tube; 2]) -> Seen {
        queue.tick().unwrap();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        let mut found: Vec<(Serial, usize, TaskInfo)> = Vec::new();
        for (number, tube) in tubes.iter().enumerate() {
            for state in [
                State::Ready,
                State::Delayed,
                State::Blocked,
                State::Taken,
                State::Buried,
                State::Done,
            ] {
                for task in tube.tasks(state) {
                    let task = task.unwrap();
                    let serial = Serial::from_be_bytes(task.payload[..].try_into().unwrap());
                    self.ids.insert(serial, task.id);
                    found.push((serial, number, task));
                }
            }
        }
        let serials: BTreeMap<TaskId, Serial> =
            self.ids.iter().map(|(serial, id)| (*id, *serial)).collect();
        let mut seen = Seen::new();
        for (serial, tube, task) in found {
            let earlier = queue.dependencies(task.id).unwrap();
            let mut earlier: Vec<_> = earlier.iter().map(|id| serials[id]).collect();
            earlier.sort_unstable();
            let left = task.ttl_left.filter(|_| task.state != State::Done);
            let left = left.map(|left| left.as_secs());
            let shown = (tube, task.state, left, task.dependencies.count, earlier);
            assert!(seen.insert(serial, shown).is_none(), "task {serial} is there twice");
        }
        seen
    }

    /// The same by the model.
    fn expected(model: &Model) -> Seen {
        let of = |task: &Task| {
            let mut earlier: Vec<_> = task.open.keys().chain(&task.met).copied().collect();
            earlier.sort_unstable();
            let left = task.life.filter(|_| task.state != State::Done).map(|life| life.left);
            (task.tube, task.state, left, task.open.len() as u64, earlier)
        };
        model.tasks.iter().map(|(serial, task)| (*serial, of(task))).collect()
    }

    /// What a step that did not return may have left. A cancel of a tree works in steps, from the
    /// last tasks on.
    fn after(&self, step: &Step, seen: &Seen) -> Model {
        let mut after = self.model.clone();
        match step {
            Step::CancelTree(root) => {
                let tree = self.model.tree(*root);
                let gone = |serial: &Serial| tree.contains(serial) && !seen.contains_key(serial);
                for task in after.tasks.iter().filter(|(serial, _)| !gone(serial)) {
                    let left = task.1.open.keys().any(gone);
                    assert!(!left, "{} waits for one that was removed before it", task.0);
                }
                after.tasks.retain(|serial, _| !gone(serial));
            }
            // It may have ended before the clock moved.
            Step::Pass(_) => after.pass(self.now()),
            step => drop(after.apply(step)),
        }
        after
    }
}

/// A task succeeds: its worker acks it, or it is completed by its id alone.
fn complete(tube: &Tube, id: TaskId, is_acked: bool) -> Result<()> {
    let task = tube.claim(id)?;
    if is_acked {
        return task.ack();
    }
    task.split().1.detach();
    tube.complete_by_id(id).map(drop)
}

/// Passes the put of a step to `put`, as the caller describes it.
fn with_put(
    (model, ids, tubes): (&Model, &Ids, &[Tube; 2]),
    step: &Step,
    put: impl FnOnce(NewTask<'_>) -> Result<TaskId>,
) -> Result<TaskId> {
    let payload = model.put_by(step).to_be_bytes();
    let (tube, key, terms) = match step {
        Step::Put { tube, has_key, terms } => (*tube, has_key.then_some(model.next), terms),
        Step::Again(task, terms) => (model.tasks[task].tube, model.tasks[task].key, terms),
        step => panic!("{step:?} is no put"),
    };
    let key = key.map(|key| format!("k{key}"));
    let mut new = tubes[tube].task(&payload);
    if let Some(key) = &key {
        new = new.key(key.as_str()).on_conflict(Conflict::Replace);
    }
    if let Some(after) = &terms.after {
        new = new.after([]).orphaned(terms.orphaned);
        for (earlier, on) in after {
            new = match on {
                On::Success => new.after([ids[earlier]]),
                On::Failure => new.after_failure([ids[earlier]]),
                On::AnyEnd => new.after_any_end([ids[earlier]]),
            };
        }
    }
    if let Some(ttl) = terms.ttl {
        new = new.ttl(Duration::from_secs(ttl));
    }
    put(if terms.is_late { new.delay(LATE) } else { new })
}

/// A task that was claimed when the process died is ready again, however long it was to wait.
fn ended(step: &Step, model: &mut Model) {
    if let Step::Complete(serial) | Step::Advance { task: serial, .. } = step
        && let Some(task) = model.tasks.get_mut(serial).filter(|it| it.state == State::Delayed)
    {
        (task.state, task.is_late) = (State::Ready, false);
    }
}

fn own((serial, task): (&Serial, &SeenTask)) -> (Serial, SeenTask) {
    (*serial, task.clone())
}

fn play(seed: u64) {
    let (disk, rng) = (SimDisk::new(seed), Rng::new(seed));
    let durability = durability(seed);
    let (model, ids) = (Model::default(), BTreeMap::new());
    let (clock, unsynced, trace) = (ManualClock::new(), Vec::new(), Vec::new());
    let mut story = Story { disk, rng, durability, model, ids, clock, unsynced, trace };
    let mut cut_off: Option<Step> = None;
    for generation in 0..=GENERATIONS {
        story.disk.plan(Fault::None);
        let (queue, tubes) = story.open();
        let seen = story.look(&queue, &tubes);
        let (mut models, last) = (vec![story.model.clone()], cut_off.take());
        models.append(&mut story.unsynced);
        if let Some(step) = &last {
            let mut claimed = story.model.clone();
            ended(step, &mut claimed);
            models.extend([claimed, story.after(step, &seen)]);
        }
        let now = story.now();
        models.iter_mut().for_each(|model| model.pass(now));
        let found = models.iter().find(|model| Story::expected(model) == seen);
        let found = found.unwrap_or_else(|| {
            let first = Story::expected(&models[0]);
            let shows = seen.iter().filter(|(serial, task)| first.get(serial) != Some(task));
            let lacks = first.iter().filter(|(serial, task)| seen.get(serial) != Some(task));
            let (shows, lacks): (Seen, Seen) = (shows.map(own).collect(), lacks.map(own).collect());
            let trace = story.trace.join("\n");
            panic!("seed {seed}: {trace}\nthe queue has {shows:?}, expected {lacks:?}");
        });
        story.model = found.clone();
        story.model.next = story.ids.keys().next_back().map_or(0, |last| last + 1);
        if generation == GENERATIONS {
            break;
        }
        // What an edge waits for, and a delay after the wait, are not visible. So a put again that
        // may have been done is done once more.
        if let Some(step @ (Step::Again(..) | Step::Transact { .. })) = last
            && Story::expected(&models[0]) == seen
        {
            assert!(story.step(seed, (&queue, &tubes), &step));
        }
        let at = 1 + story.rng.below(100);
        story.disk.plan(Fault::Die(at));
        for _ in 0..STEPS {
            let Some(step) = story.draw() else { continue };
            if !story.step(seed, (&queue, &tubes), &step) {
                cut_off = Some(step);
                break;
            }
            // The call was done, and not all that follows from it.
            if story.disk.is_dead() {
                break;
            }
        }
        story.trace.push("crash".into());
        if !crash(&mut story.disk, durability, &mut story.rng) {
            story.unsynced.clear();
        }
        drop((tubes, queue));
    }
}

#[test]
fn a_crash_leaves_no_task_waiting_for_what_has_ended() {
    seeds(SEEDS).for_each(play);
}
