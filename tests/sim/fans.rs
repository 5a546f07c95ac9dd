//! A put after many tasks, edges that are added later, and the cascade after a parent of many, on a
//! disk that crashes at each of their calls: each takes several steps. What is half done after the
//! next opening is nothing, or goes on.

use crate::disk::{Fault, SimDisk};
use crate::seeds::{are_all, seeds};
use crate::trust::builder;
use tubewell::{Durability, ManualClock, Queue, State, TaskId, Tube};

/// More edges than one step writes, and more dependents than eight steps release.
const MANY: usize = 270;
const SEEDS: u64 = 1;

struct Stage {
    queue: Queue,
    tube: Tube,
    many: Vec<TaskId>,
    one: TaskId,
}

/// What is done while the disk crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// One task is put after many.
    Put,
    /// One that waits is made to wait for many.
    Depend,
    /// Many wait for one, which is finished.
    Release,
    /// The same, and it is deleted with all of them.
    CancelTree,
}

fn open(disk: &SimDisk, durability: Durability, clock: &ManualClock) -> (Queue, Tube) {
    let queue = builder(disk.lend(), durability).clock(clock.clone()).open_disk().unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube)
}

impl Stage {
    fn new(disk: &SimDisk, durability: Durability, clock: &ManualClock, act: Act) -> Self {
        let (queue, tube) = open(disk, durability, clock);
        let one = tube.put(b"one").unwrap();
        let many = match act {
            Act::Put | Act::Depend => tube.put_many(vec![b"x".to_vec(); MANY]).unwrap(),
            Act::Release | Act::CancelTree => {
                let tasks = (0..MANY).map(|_| tube.task(b"x").after([one]));
                tube.batch_of(tasks).put().unwrap()
            }
        };
        let one = match act {
            Act::Depend => tube.task(b"waits").after([one]).put().unwrap(),
            _ => one,
        };
        queue.flush().unwrap();
        Self { queue, tube, many, one }
    }

    fn act(&self, act: Act) -> tubewell::Result<()> {
        match act {
            Act::Put => self.tube.task(b"last").after(self.many.clone()).put().map(drop),
            Act::Depend => self.tube.depend(self.one, self.many.clone()),
            Act::Release => self.tube.complete_by_id(self.one).map(drop),
            Act::CancelTree => self.queue.cancel_tree(self.one).map(drop),
        }
    }
}

/// Whether all of it is done after the opening, which may be only a part of what was asked for.
fn judge(queue: &Queue, tube: &Tube, (act, one, many): (Act, TaskId, &[TaskId])) -> bool {
    let counts = tube.stats().unwrap();
    let (ready, blocked) = (counts.ready as usize, counts.blocked as usize);
    match act {
        Act::Put => {
            let last = tube.tasks(State::Blocked).next().transpose().unwrap();
            assert_eq!((ready, blocked), (MANY + 1, usize::from(last.is_some())));
            for id in many {
                tube.complete_by_id(*id).unwrap();
            }
            queue.tick().unwrap();
            assert_eq!(tube.stats().unwrap().blocked, 0);
            if let Some(last) = &last {
                assert_eq!(last.dependencies.count, MANY as u64);
                assert_eq!(tube.peek(last.id).unwrap().state, State::Ready);
            }
            last.is_some()
        }
        Act::Depend => {
            let waits_for = || tube.peek(one).unwrap().dependencies.count as usize;
            let before = waits_for();
            assert!((1..=MANY + 1).contains(&before), "{before} edges");
            // Steps that were done stay done, and the same call does the rest.
            tube.depend(one, many.to_vec()).unwrap();
            assert_eq!(waits_for(), MANY + 1);
            before == MANY + 1
        }
        Act::Release => {
            let is_done = tube.peek(one).is_err();
            let all = if is_done { (MANY, 0) } else { (1, MANY) };
            assert_eq!((ready, blocked), all);
            is_done
        }
        Act::CancelTree => {
            let is_done = tube.peek(one).is_err();
            assert!(!is_done || counts.total == 0 || blocked > 0, "{counts:?}");
            is_done
        }
    }
}

/// A crash at this call of an act. Returns whether it is done after the opening; `None` if it has
/// fewer calls.
fn crash(seed: u64, (durability, is_cut): (Durability, bool), act: Act, at: u64) -> Option<bool> {
    let (disk, clock) = (SimDisk::new(seed), ManualClock::new());
    let Stage { queue, tube, many, one } = {
        let stage = Stage::new(&disk, durability, &clock, act);
        disk.plan(Fault::Die(at));
        let done = stage.act(act);
        if !disk.is_dead() {
            done.unwrap();
            return None;
        }
        stage
    };
    if is_cut {
        disk.cut_power()
    } else {
        disk.kill()
    };
    drop((queue, tube));
    disk.plan(Fault::None);
    let (queue, tube) = open(&disk, durability, &clock);
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    let is_done = judge(&queue, &tube, (act, one, &many));
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), Vec::<String>::new(), "{act:?}, seed {seed}, call {at}");
    Some(is_done)
}

#[test]
fn a_crash_at_every_call_of_what_concerns_many_edges() {
    for act in [Act::Put, Act::Depend, Act::Release, Act::CancelTree] {
        let mut ends = [0; 2];
        for seed in seeds(SEEDS) {
            for durability in [Durability::Durable, Durability::Relaxed] {
                for is_cut in [false, true] {
                    for at in 1.. {
                        let Some(is_done) = crash(seed, (durability, is_cut), act, at) else {
                            break;
                        };
                        ends[usize::from(is_done)] += 1;
                    }
                }
            }
        }
        // The record of a completion is its first call, which a crash may let through.
        let is_seen = ends[1] > 0 && (ends[0] > 0 || act == Act::Release);
        assert!(!are_all() || is_seen, "{act:?}: {ends:?}");
    }
}
