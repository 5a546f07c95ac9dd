//! Schedules on a disk that crashes, beside a model of each: whatever dies when, every nominal time
//! has made one child or is counted as missed, and the children are numbered without a gap.

use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::seeds;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use tubewell::{
    Clock, Durability, HistoryLimits, ManualClock, Missed, Overlap, Queue, Result, Retention,
    State, TaskSummary, Tube, TubeOptions,
};

/// Steps between two crashes, at most.
const STEPS: usize = 40;
/// Crashes of each seed.
const GENERATIONS: usize = 4;
const SEEDS: u64 = 400;

const POLICIES: [(Missed, Overlap); 5] = [
    (Missed::CatchUp(u32::MAX), Overlap::Allow),
    (Missed::CatchUp(2), Overlap::Allow),
    (Missed::Coalesce, Overlap::Allow),
    (Missed::Skip, Overlap::Allow),
    (Missed::CatchUp(u32::MAX), Overlap::Skip),
];

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What a schedule has to do, from the documents alone.
struct Expected {
    every: u64,
    next: SystemTime,
    /// Nominal times so far, and those of the intervals that it had.
    fires: Vec<SystemTime>,
}

impl Expected {
    fn fire_until(&mut self, now: SystemTime) {
        while self.next <= now {
            self.fires.push(self.next);
            self.next += secs(self.every);
        }
    }

    fn change(&mut self, every: u64, now: SystemTime) {
        self.fire_until(now);
        self.next = self.next - secs(self.every) + secs(every);
        self.every = every;
    }
}

struct Story {
    disk: SimDisk,
    clock: ManualClock,
    rng: Rng,
    expected: BTreeMap<String, Expected>,
    durability: Durability,
}

impl Story {
    fn open(&self) -> Result<(Queue, Tube)> {
        let builder = Queue::builder().durability(self.durability).journal_bytes(64 << 10);
        let builder = builder.by_hand(true).clock(self.clock.clone()).disk(self.disk.lend());
        let queue = builder.open_disk()?;
        let options = TubeOptions::default().keep_finished(Retention::new());
        let tube =
            queue.create_tube("t", options.history(HistoryLimits::none()).if_not_exists())?;
        Ok((queue, tube))
    }

    /// Makes a schedule that there is not, or makes it again.
    fn make(&mut self, queue: &Queue, tube: &Tube, number: usize) -> Result<()> {
        let (missed, overlap) = POLICIES[number];
        let name = format!("s{number}");
        let every = self.expected.get(&name).map_or(3 + number as u64, |it| it.every);
        let made = queue.schedule(&name).every(secs(every)).missed(missed).overlap(overlap);
        made.to(tube).payload(b"x").make().map(drop)
    }

    /// One random step. An error is that of a disk that died.
    fn step(&mut self, queue: &Queue, tube: &Tube) -> Result<()> {
        let number = self.rng.below(POLICIES.len() as u64) as usize;
        let name = format!("s{number}");
        match self.rng.below(10) {
            0..=2 => self.clock.advance(secs(1 + self.rng.below(9))),
            3 => {
                if let Some(task) = tube.try_take()? {
                    task.ack()?;
                }
            }
            4 => tube.len().map(drop)?,
            5 => queue.tick()?,
            6 => queue.checkpoint()?,
            7 => self.make(queue, tube, number)?,
            8 if self.expected.contains_key(&name) => {
                let every = self.rng.of(&[1, 2, 5, 11]);
                queue.schedule_named(&name).update(|it| it.every(secs(every)))?;
                let now = self.clock.wall();
                self.expected.get_mut(&name).unwrap().change(every, now);
            }
            _ => queue.transact(|tx| tube.put_in(tx, b"own").map(drop))?,
        }
        self.learn(queue)
    }

    /// Notes the schedules that are there by now. After a crash also what the last step has done.
    fn learn(&mut self, queue: &Queue) -> Result<()> {
        for info in queue.schedules() {
            let info = info?;
            let every = info.every.unwrap().as_secs();
            let next = info.created;
            let new = || Expected { every, next, fires: Vec::new() };
            let expected = self.expected.entry(info.name).or_insert_with(new);
            if expected.every != every {
                expected.change(every, self.clock.wall());
            }
        }
        Ok(())
    }

    /// Everything that is due has happened once.
    fn judge(&mut self, queue: &Queue, tube: &Tube) {
        queue.tick().unwrap();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        self.learn(queue).unwrap();
        let mut children: BTreeMap<String, Vec<TaskSummary>> = BTreeMap::new();
        for state in [State::Ready, State::Taken, State::Done] {
            for task in tube.summaries(state) {
                let task = task.unwrap();
                if let Some(by) = task.spawned_from.clone() {
                    children.entry(by).or_default().push(task);
                }
            }
        }
        let now = self.clock.wall();
        for (name, expected) in &mut self.expected {
            expected.fire_until(now);
            let mut made = children.remove(name).unwrap_or_default();
            made.sort_by_key(|task| task.id);
            let info = queue.schedule_named(name).info().unwrap();
            assert_eq!(info.children, made.len() as u64, "{name}: {made:?}");
            let fires = info.children + info.missed_fires;
            assert_eq!(fires, expected.fires.len() as u64, "{name}: {info:?}");
            assert_eq!(info.next, Some(expected.next), "{name}");
            let mut left = expected.fires.iter();
            for (place, task) in made.iter().enumerate() {
                let key = format!("{name}-{}", place + 1);
                assert_eq!(task.key.as_deref(), Some(&*key));
                let nominal = task.nominal.unwrap();
                assert!(left.any(|fire| *fire == nominal), "{name}: {key} at {nominal:?}");
            }
        }
        assert!(children.is_empty(), "children of no schedule: {children:?}");
    }
}

fn play(seed: u64) {
    let (disk, clock, rng) = (SimDisk::new(seed), ManualClock::new(), Rng::new(seed));
    let durability = [Durability::Durable, Durability::Relaxed][(seed % 2) as usize];
    let mut story = Story { disk, clock, rng, expected: BTreeMap::new(), durability };
    for generation in 0..=GENERATIONS {
        story.disk.plan(Fault::None);
        let (queue, tube) = story.open().unwrap();
        // The call that made one may not have returned.
        let there: Vec<_> = queue.schedules().map(|info| info.unwrap().name).collect();
        story.expected.retain(|name, _| there.contains(name));
        story.judge(&queue, &tube);
        if generation == GENERATIONS {
            break;
        }
        let at = 1 + story.rng.below(60);
        story.disk.plan(Fault::Die(at));
        for _ in 0..STEPS {
            if let Err(error) = story.step(&queue, &tube) {
                assert!(story.disk.is_dead(), "seed {seed}: {error}");
                break;
            }
        }
        // A power cut takes back relaxed changes, which the model does not know.
        match durability == Durability::Relaxed || story.rng.one_in(2) {
            true => story.disk.kill(),
            false => story.disk.cut_power(),
        }
        drop((tube, queue));
    }
}

#[test]
fn a_crash_loses_no_fire_and_makes_none_twice() {
    seeds(SEEDS).for_each(play);
}
