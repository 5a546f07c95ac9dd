//! The border that is kept in memory is the one that the rows give, after every verb; and every
//! take gets the best task.

use super::{known, search};
use crate::engine::context::damaged;
use crate::engine::tube_cache::TubeEntry;
use crate::format::layer::steps;
use crate::format::{Met, Range, Tag, Value, View};
use crate::words::clock::ManualClock;
use crate::words::error::Result;
use crate::words::limits::BATCH_TASKS_MAX;
use crate::{Durability, Queue, Release, State, Task, TaskId, Tube};
use std::cell::Cell;
use std::time::Duration;

fn queue() -> (Queue, Tube, ManualClock) {
    let clock = ManualClock::new();
    let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube, clock)
}

const SECOND: Duration = Duration::from_secs(1);

/// Counts the reads of another view.
struct Counted<'a>(&'a dyn View, Cell<usize>);

impl View for Counted<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.1.set(self.1.get() + 1);
        self.0.get(key)
    }

    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        self.1.set(self.1.get() + 1);
        self.0.first(from, to)
    }

    fn count(&self, range: Range) -> u64 {
        self.0.count(range)
    }

    fn durable_bytes(&self) -> u64 {
        self.0.durable_bytes()
    }
}

/// The first fresh task by the kept border, and the first by the rows, with the reads for it.
fn firsts(tube: &Tube) -> (Option<TaskId>, Option<TaskId>, usize) {
    let state = tube.inner.core.state.lock();
    let entry = state.tube(tube.number).unwrap();
    let id = |from: &[u8]| {
        let met = state.store.first(from, &entry.range(Tag::Fresh).end()).unwrap();
        met.map(|(met, _)| crate::format::key::id_of(&met).ok_or_else(|| damaged("fresh")).unwrap())
    };
    let counted = Counted(&state.store, Cell::new(0));
    let kept = id(&known(&state.store, &entry).unwrap());
    let unknown = TubeEntry { border: None, ..entry.clone() };
    let found = id(&search(&counted, &unknown).unwrap());
    (kept, found, counted.1.get())
}

/// The best ready task, from a listing of all.
fn best(tube: &Tube) -> Option<TaskId> {
    tube.tasks(State::Ready).next().map(|task| task.unwrap().id)
}

#[test]
fn the_border_is_the_one_that_the_rows_give_after_every_verb() {
    for seed in 0..40 {
        let (queue, tube, clock) = queue();
        let mut state = seed;
        let mut below = |most: u64| {
            state = u64::wrapping_mul(state, 6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        let (mut held, mut ids): (Vec<Task>, Vec<TaskId>) = (Vec::new(), Vec::new());
        for _ in 0..400 {
            let of = |count: usize, at: u64| at as usize % count.max(1);
            let id = ids.get(of(ids.len(), below(1 << 20))).copied();
            match below(17) {
                0..=4 => {
                    let mut put = tube.task(b"x").priority(below(4) as i64);
                    if below(4) == 0 {
                        put = put.ttl(SECOND * (1 + below(20) as u32)).ttr(SECOND);
                    }
                    ids.push(if below(4) == 0 { put.front() } else { put }.put().unwrap());
                }
                5 => ids.extend(tube.put_many([&b"x"[..]; 3]).unwrap()),
                6..=8 => {
                    let expected = best(&tube);
                    let taken = tube.try_take().unwrap();
                    assert_eq!(taken.as_ref().map(Task::id), expected, "seed {seed}");
                    held.extend(taken);
                }
                9 => held.extend(tube.take_many(2).unwrap()),
                10 => held.extend(id.and_then(|id| tube.claim(id).ok())),
                11 => drop(id.map(|id| tube.bury(id, "no"))),
                12 => drop(id.map(|id| tube.delete(id))),
                13 => drop(tube.kick(1 + below(3))),
                16 => {
                    clock.advance(SECOND);
                    queue.tick().unwrap();
                }
                place if !held.is_empty() => {
                    let task = held.swap_remove(of(held.len(), below(1 << 20)));
                    let done = match (place, below(2)) {
                        (14, _) => task.ack(),
                        (_, 0) => task.release(),
                        _ => task.release_with(Release::new().priority(below(4) as i64)),
                    };
                    assert!(done.is_ok() || done.unwrap_err().is_lease_lost());
                }
                _ => {}
            }
            let (kept, found, _) = firsts(&tube);
            assert_eq!(kept, found, "seed {seed}");
            let ready = tube.tasks(State::Ready).count();
            assert_eq!(tube.stats().unwrap().ready as usize, ready, "seed {seed}");
        }
        drop(held);
        assert_eq!(queue.check().unwrap(), Vec::<String>::new(), "seed {seed}");
    }
}

/// An opening does not know the border, and the first verb searches it under the engine's lock.
#[test]
fn the_border_is_found_in_a_few_reads() {
    let (_queue, tube, _) = queue();
    let tube = tube.durability(Durability::Relaxed);
    for tasks in [10, 100_000] {
        let mut left = tasks;
        while left > 0 {
            let most = left.min(BATCH_TASKS_MAX);
            tube.put_many(vec![&b"x"[..]; most]).unwrap();
            tube.take_many(most).unwrap().into_iter().for_each(|task| _ = task.detach());
            left -= most;
        }
        let id = tube.put(b"x").unwrap();
        let (kept, found, reads) = firsts(&tube);
        assert_eq!((kept, found), (Some(id), Some(id)));
        assert!(reads < 1000, "{reads} reads");
        tube.truncate().unwrap();
    }
}

/// With a ttl there is the row of the deadline, too.
#[test]
fn a_fresh_task_has_one_row() {
    let (queue, tube, _) = queue();
    let rows = |put: &dyn Fn()| {
        let before = queue.space().unwrap().overlay_rows;
        put();
        queue.space().unwrap().overlay_rows - before
    };
    assert_eq!(rows(&|| _ = tube.put(b"x").unwrap()), 1);
    assert_eq!(rows(&|| _ = tube.task(b"x").ttr(SECOND).put().unwrap()), 1);
    assert_eq!(rows(&|| _ = tube.task(b"x").ttl(SECOND).put().unwrap()), 2);
}

/// Regression: a put before the border moved it to the start of the range, and the next take walked
/// over the tombstones of all better tasks.
#[test]
fn a_put_before_the_border_costs_the_next_take_nothing() {
    let steps = [100, 10_000].map(|tasks| {
        let (queue, tube, _) = queue();
        let ack = |count| {
            let taken = tube.take_many(count).unwrap();
            assert_eq!(taken.len(), count);
            tube.ack_many(taken).unwrap();
        };
        for _ in 0..tasks {
            tube.task(b"better").priority(-2).put().unwrap();
        }
        tube.put(b"worse").unwrap();
        // What the base does not hold leaves no tombstone.
        queue.checkpoint().unwrap();
        ack(tasks);
        ack(1);
        let put = tube.task(b"between").priority(-1).put().unwrap();
        steps::during(|| assert_eq!(tube.take().unwrap().detach().id(), put))
    });
    assert_eq!(steps[0], steps[1]);
}
