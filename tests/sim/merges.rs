//! Merges on a disk that crashes at each of their calls: the next opening goes on with what was
//! begun. Each task is in one tube, as it was, and each lease waits for its consumer.

use crate::disk::{Fault, SimDisk};
use crate::seeds::seeds;
use crate::trust::builder;
use std::collections::BTreeMap;
use std::time::Duration;
use tubewell::{
    Durability, ErrorKind, ManualClock, Queue, Result, Retention, State, TaskId, Tube, TubeOptions,
};

const HOUR: Duration = Duration::from_secs(3600);
const STATES: [State; 6] =
    [State::Ready, State::Delayed, State::Blocked, State::Taken, State::Buried, State::Done];
/// Leases of a consumer that comes back.
const HELD: usize = 20;
const SEEDS: u64 = 1;

/// What a task has in any tube.
type Kept = (State, Option<String>, Option<String>, u32, i64, Vec<u8>);

struct Stage {
    queue: Queue,
    old: Tube,
    new: Tube,
}

impl Stage {
    fn open(disk: &SimDisk, durability: Durability, clock: &ManualClock) -> Self {
        let queue = builder(disk.lend(), durability).clock(clock.clone()).open_disk().unwrap();
        let [new, old] = ["new", "old"].map(|name| {
            let options = TubeOptions::default().keep_finished(Retention::new()).if_not_exists();
            queue.create_tube(name, options).unwrap()
        });
        Self { queue, old, new }
    }

    /// More tasks than two steps move, in all states.
    fn fill(&self) {
        let tube = &self.old;
        let ada = self.queue.consumer_with_grace("ada", HOUR).unwrap();
        for number in 0..HELD {
            tube.task(&[number as u8; 50]).group(&format!("{}", number % 7)).put().unwrap();
        }
        tube.set("in_flight", HELD as u64).unwrap();
        let held = tube.by(&ada).take_many(HELD).unwrap();
        assert_eq!(held.len(), HELD);
        let first = held[0].id();
        held.into_iter().for_each(|task| _ = task.detach());
        for number in 0..20_u8 {
            let id = tube.task(&[number; 50]).key(&format!("buried {number}")).put().unwrap();
            tube.bury(id, "aside").unwrap();
            let id = tube.put(&[number; 50]).unwrap();
            tube.complete_by_id(id).unwrap();
            tube.task(&[number; 50]).delay(HOUR).priority(i64::from(number)).put().unwrap();
            tube.task(&[number; 5000]).after([first]).put().unwrap();
            tube.task(&[number; 50]).key(&format!("ready {number}")).put().unwrap();
        }
        self.new.put(b"there before").unwrap();
        // The session goes on, as after a kill.
        std::mem::forget(ada);
    }

    /// Every task and its tube.
    fn look(&self) -> BTreeMap<TaskId, (bool, Kept)> {
        let mut found = BTreeMap::new();
        for (is_new, tube) in [(false, &self.old), (true, &self.new)] {
            for task in STATES.into_iter().flat_map(|state| tube.tasks(state)) {
                let task = task.unwrap();
                let kept = (
                    task.state,
                    task.key.clone(),
                    task.group.clone(),
                    task.attempts,
                    task.priority,
                    task.payload.clone(),
                );
                let twice = found.insert(task.id, (is_new, kept));
                assert!(twice.is_none(), "task {} is there twice", task.id);
            }
        }
        found
    }
}

/// A crash at this call of a merge. Returns whether the merge is done after the opening; `None` if
/// it has fewer calls.
fn crash(seed: u64, durability: Durability, is_cut: bool, at: u64) -> Option<bool> {
    let (disk, clock) = (SimDisk::new(seed), ManualClock::new());
    let stage = Stage::open(&disk, durability, &clock);
    stage.fill();
    stage.queue.flush().unwrap();
    let before = stage.look();
    disk.plan(Fault::Die(at));
    let merged = stage.queue.merge("old", "new");
    if !disk.is_dead() {
        assert_eq!(merged.unwrap().moved as usize, before.len() - 1);
        return None;
    }
    if is_cut {
        disk.cut_power()
    } else {
        disk.kill()
    };
    drop(stage);
    disk.plan(Fault::None);
    let stage = Stage::open(&disk, durability, &clock);
    stage.queue.tick().unwrap();
    assert_eq!(stage.queue.check().unwrap(), Vec::<String>::new());
    let after = stage.look();
    let kept = |all: &BTreeMap<TaskId, (bool, Kept)>| {
        all.iter().map(|(id, (_, kept))| (*id, kept.clone())).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(kept(&before), kept(&after), "seed {seed}, call {at}");
    let moved = after.values().filter(|(is_new, _)| *is_new).count();
    assert!([1, after.len()].contains(&moved), "seed {seed}, call {at}: {moved} have moved");
    assert_eq!(stage.old.info().unwrap().merges_into, None);
    let ada = stage.queue.consumer_with_grace("ada", HOUR).unwrap();
    let tube = if moved > 1 { &stage.new } else { &stage.old };
    let held = ada.resume(tube).collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(held.len(), HELD);
    tube.ack_many(held).unwrap();
    // What waited for the first of them goes on.
    assert_eq!(tube.stats().unwrap().blocked, 0);
    let again = stage.queue.merge("old", "new").unwrap();
    assert_eq!(again.moved == 0, moved > 1);
    assert_eq!(stage.queue.check().unwrap(), Vec::<String>::new());
    Some(moved > 1)
}

#[test]
fn a_crash_at_every_call_of_a_merge_loses_and_doubles_nothing() {
    let mut ends = [0; 2];
    for seed in seeds(SEEDS) {
        for durability in [Durability::Durable, Durability::Relaxed] {
            for is_cut in [false, true] {
                for at in 1.. {
                    let Some(is_done) = crash(seed, durability, is_cut, at) else { break };
                    ends[usize::from(is_done)] += 1;
                }
            }
        }
    }
    assert!(ends.iter().all(|end| *end > 0), "{ends:?}");
}

/// What a failing disk has cut off goes on with the next opening.
#[test]
fn a_merge_goes_on_after_a_failure_of_the_disk() {
    for seed in seeds(SEEDS) {
        for at in 1..6 {
            let (disk, clock) = (SimDisk::new(seed), ManualClock::new());
            let stage = Stage::open(&disk, Durability::Relaxed, &clock);
            stage.fill();
            stage.queue.flush().unwrap();
            let before = stage.look();
            disk.plan(Fault::Once(at));
            let merged = stage.queue.merge("old", "new");
            disk.plan(Fault::None);
            match merged.map_err(|error| error.kind()) {
                // The queue has stopped, and the next opening goes on.
                Err(ErrorKind::Broken | ErrorKind::Io) => {}
                merged => assert_eq!(merged.unwrap().moved as usize, before.len() - 1),
            }
            let _closed = stage.queue.close();
            drop(stage);
            let stage = Stage::open(&disk, Durability::Relaxed, &clock);
            stage.queue.tick().unwrap();
            assert_eq!(stage.queue.check().unwrap(), Vec::<String>::new());
            let after = stage.look();
            assert_eq!(before.len(), after.len(), "seed {seed}, call {at}");
            let moved = after.values().filter(|(is_new, _)| *is_new).count();
            assert!([1, after.len()].contains(&moved), "seed {seed}, call {at}: {moved}");
        }
    }
}
