//! Delays for the peers that are stores. A task that is not due lies by due instant and id; one
//! commit moves all that have fallen due to the ready ones, and a taker sleeps until the next due
//! instant: nothing is scanned, and nothing looks again and again. The timers alone use it: what
//! the other workloads are given has no delays and must not pay for them.

use crate::engine::{lock, run};
use crate::{Done, Engine, Folder, Has, Op, Queue, timer};
use std::hint::black_box;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A task that is not ready before an instant, in nanoseconds of the system's clock.
pub struct Delayed {
    pub due: u64,
    pub priority: u8,
    pub task: Vec<u8>,
}

/// What came of moving those that are due.
pub struct Promoted {
    pub tasks: usize,
    /// When the first of those that stay falls due, or has.
    pub next: Option<u64>,
}

/// A store in which tasks may also lie by due instant and id. The place for them is made with the
/// first of them.
pub trait Delays: Engine {
    /// Puts all of them in one commit, synced if the store was opened so.
    fn delay(&mut self, tasks: Vec<Delayed>);

    /// Makes the first that are due ready, up to `most` of them, in one commit. It is not synced:
    /// what the power takes back is due, and is moved again.
    fn promote(&mut self, now: u64, most: usize) -> Promoted;
}

/// What one commit moves at most, so that no call waits long for another one's.
const SWEEP: usize = 1000;
/// While there is something to take, what has been due for less than this stays: a sweep of many
/// costs less than one for each.
const SLACK: u64 = 1_000_000;

/// One call, one commit, and delays.
pub struct Timed<E> {
    state: Mutex<State<E>>,
    put: Condvar,
}

struct State<E> {
    engine: E,
    done: Vec<Done>,
    ready: usize,
    /// When the first of those that are not ready falls due.
    next: Option<u64>,
}

impl<E: Delays> Timed<E> {
    /// In an empty folder: tasks of an earlier process are not looked for.
    pub fn open(folder: &Folder, durable: bool) -> Self {
        let engine = E::open(folder, durable);
        let state = State { engine, done: Vec::new(), ready: 0, next: None };
        Self { state: Mutex::new(state), put: Condvar::new() }
    }
}

impl<E: Delays> State<E> {
    fn take(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        let slack = if self.ready > 0 { SLACK } else { 0 };
        if self.next.is_some_and(|next| next + slack <= now) {
            let promoted = self.engine.promote(now, SWEEP);
            self.ready += promoted.tasks;
            self.next = promoted.next;
        }
        self.ready = self.ready.checked_sub(1)?;
        match run(&mut self.engine, &[Op::Take], &mut self.done) {
            Some(Done::Took(id, task)) => Some((id, task)),
            _ => panic!("what is ready is there"),
        }
    }
}

impl<E: Delays> Queue for Timed<E> {
    type Task = u64;

    const HAS: Has = Has {
        batches: false,
        priorities: false,
        takes: false,
        waiting: false,
        opening: false,
        groups: false,
        delays: true,
    };

    fn put(&self, task: &[u8], priority: u8) {
        let state = &mut *lock(&self.state);
        run(&mut state.engine, &[Op::Put(priority, task.to_vec())], &mut state.done);
        state.ready += 1;
        self.put.notify_one();
    }

    fn take(&self) -> Option<u64> {
        lock(&self.state).take(nanos(SystemTime::now())).map(|(id, _)| id)
    }

    fn ack(&self, task: u64) {
        let state = &mut *lock(&self.state);
        run(&mut state.engine, &[Op::Ack(task)], &mut state.done);
    }

    fn put_due(&self, timers: &[(u64, SystemTime)]) {
        let delayed = |&(number, due): &(u64, SystemTime)| Delayed {
            due: nanos(due),
            priority: 0,
            task: timer(number).to_vec(),
        };
        let state = &mut *lock(&self.state);
        state.engine.delay(timers.iter().map(delayed).collect());
        let first = timers.iter().map(|timer| nanos(timer.1)).min();
        state.next = state.next.into_iter().chain(first).min();
        self.put.notify_one();
    }

    fn wait_due(&self) {
        let mut state = lock(&self.state);
        loop {
            let now = nanos(SystemTime::now());
            if let Some((id, task)) = state.take(now) {
                black_box(task);
                drop(state);
                return self.ack(id);
            }
            let until = state
                .next
                .map_or(Duration::MAX, |next| Duration::from_nanos(next.saturating_sub(now)));
            let woken = self.put.wait_timeout(state, until);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn nanos(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
