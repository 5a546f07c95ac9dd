//! Bytes as a program of verbs on a queue in memory, with a manual clock. It checks all that can be
//! checked without a model: ids grow, a removed task stays removed, counts are right, and the
//! queue's own check finds nothing.

use super::{Bytes, fine, play};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};
use tubewell::{
    Backoff, Conflict, Durability, ErrorKind, ManualClock, PutOutcome, Queue, Release, Result,
    State, Task, TaskId, Ticket, Tube, TubeKind, TubeOptions,
};

const STATES: [State; 4] = [State::Delayed, State::Ready, State::Taken, State::Buried];
/// Steps between two looks at everything.
const LOOK_EVERY: usize = 32;
const STEPS_MAX: usize = 512;

pub fn script(bytes: &[u8]) {
    let mut bytes = Bytes::of(bytes);
    let clock = ManualClock::new();
    let builder = Queue::builder().by_hand(true).clock(clock.clone()).payload_bytes_max(70_000);
    let queue = builder.in_memory().unwrap();
    let mut world = World {
        tubes: (0..NAMES.len()).map(|at| make(&queue, at)).collect(),
        clock,
        queue,
        held: Vec::new(),
        tickets: Vec::new(),
        known: BTreeMap::new(),
        gone: BTreeSet::new(),
        newest: 0,
    };
    let limits = (STEPS_MAX, LOOK_EVERY);
    play(&mut world, &mut bytes, limits, World::step, |world| world.look());
    world.queue.tick().unwrap();
    world.look();
    world.queue.close().unwrap();
    // Guards that outlive the queue do nothing.
    world.held.clear();
    assert_eq!(world.queue.tick().unwrap_err().kind(), ErrorKind::Closed);
}

const NAMES: [&str; 5] = ["general", "fifo", "limited", "groups", "passing"];

fn make(queue: &Queue, at: usize) -> Tube {
    let second = Duration::from_secs(1);
    let options = match at {
        0 => TubeOptions::default().max_attempts(3).backoff(Backoff::doubling(second)),
        1 => TubeOptions::new(TubeKind::Fifo),
        2 => TubeOptions::new(TubeKind::LimFifoTtl).capacity(5).ttl(60 * second).ttr(9 * second),
        3 => TubeOptions::new(TubeKind::UtubeTtl).in_flight(2).hold_group_while_delayed(true),
        _ => TubeOptions::default().temporary(true).ttl_spares_buried(true),
    };
    queue.create_tube(NAMES[at], options.if_not_exists()).unwrap()
}

struct World {
    queue: Queue,
    clock: ManualClock,
    tubes: Vec<Tube>,
    held: Vec<Task>,
    /// Of guards that were detached; the ticket may be invalid by now.
    tickets: Vec<(usize, Ticket)>,
    /// Every id that was answered, and the tube it was put into.
    known: BTreeMap<u64, usize>,
    /// What was acked, deleted, replaced, truncated or dropped.
    gone: BTreeSet<u64>,
    newest: u64,
}

/// Times that coincide, zero and without end among them.
fn length(bytes: &mut Bytes<'_>) -> Duration {
    match bytes.byte() % 8 {
        0 => Duration::ZERO,
        1 => Duration::from_micros(1),
        2 => Duration::MAX,
        3 => Duration::from_secs(500 * 365 * 86_400),
        seconds => Duration::from_secs(u64::from(seconds) - 3),
    }
}

impl World {
    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let at = bytes.below(NAMES.len());
        match bytes.byte() % 32 {
            0..=5 => self.put(at, bytes),
            6 => self.put_many(at, bytes),
            7..=11 => self.take(at),
            12 => self.take_many(at, bytes),
            13 => {
                if let Some(id) = self.some_id(bytes) {
                    let claimed = fine(self.tubes[at].claim(id));
                    self.took(at, claimed);
                }
            }
            14..=19 => self.settle(bytes),
            20 => self.extend(bytes),
            21 => self.by_ticket(bytes),
            22 => {
                let all = bytes.below(3);
                let most = self.held.len().min(all);
                let tasks: Vec<Task> = self.held.drain(..most).collect();
                let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
                // Of several tubes: refused, and the guards return what they hold.
                match self.tubes[at].ack_many(tasks) {
                    Ok(()) => ids.iter().for_each(|id| self.goes(*id)),
                    Err(error) if error.kind() == ErrorKind::LeaseLost => {
                        let lost: Vec<TaskId> = error.tasks().to_vec();
                        let acked = ids.iter().filter(|id| !lost.contains(id));
                        acked.for_each(|id| self.goes(*id));
                    }
                    Err(error) => drop(fine::<()>(Err(error))),
                }
            }
            23 => self.by_id(at, bytes),
            24 => drop(fine(self.tubes[at].kick(bytes.below(4) as u64))),
            25 => self.clock(bytes),
            26 => drop(fine(self.queue.tick())),
            27 => self.transact(at, bytes),
            28 => {
                let done = match bytes.byte() % 3 {
                    0 => self.tubes[at].pause(),
                    1 => self.tubes[at].resume(),
                    _ => self.tubes[at].release_all(),
                };
                fine(done);
            }
            29 => {
                if bytes.flag() && fine(self.tubes[at].truncate()).is_some() {
                    self.all_go(at);
                }
            }
            30 => {
                let forced = bytes.flag();
                let dropped = match forced {
                    true => self.queue.force_drop_tube(NAMES[at]),
                    false => self.queue.drop_tube(NAMES[at]),
                };
                if fine(dropped).is_some() {
                    self.all_go(at);
                    self.tubes[at] = make(&self.queue, at);
                }
            }
            _ => {
                if bytes.flag() {
                    fine(self.queue.checkpoint());
                }
            }
        }
    }

    fn put(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        const GROUPS: [&str; 3] = ["x", "y", "a longer name of a group"];
        // In one row, in pieces, and too long.
        let lengths = [0, 300, 3500, 4000, 70_000, 70_001];
        let payload = vec![bytes.byte(); lengths[bytes.below(lengths.len())]];
        let tube = self.tubes[at].clone();
        let mut task = tube.task(&payload);
        let which = bytes.byte();
        if which & 1 != 0 {
            task = task.priority([-1, 0, 1, i64::MIN, i64::MAX][bytes.below(5)]);
        }
        if which & 2 != 0 {
            task = task.group(GROUPS[bytes.below(3)]);
        }
        if which & 4 != 0 {
            task = task.delay(length(bytes));
        }
        if which & 8 != 0 {
            task = task.ttl(length(bytes));
        }
        if which & 16 != 0 {
            task = task.ttr(length(bytes));
        }
        let mut replaced = None;
        if which & 32 != 0 {
            let conflict =
                [Conflict::Keep, Conflict::Reject, Conflict::Replace, Conflict::Debounce]
                    [bytes.below(4)];
            task = task.key(GROUPS[bytes.below(3)]).on_conflict(conflict);
            replaced = Some(conflict);
        }
        if which & 64 != 0 {
            task = task.front();
        }
        if which & 128 != 0 {
            task = match bytes.flag() {
                true => task.durability(Durability::Relaxed),
                false => task.run_at(SystemTime::UNIX_EPOCH + length(bytes).min(YEARS)),
            };
        }
        if let Some(put) = fine(task.put_outcome()) {
            match put.outcome {
                // Of a finished task a new one.
                PutOutcome::Replaced if put.id.get() > self.newest => self.came(at, put.id),
                PutOutcome::Existing | PutOutcome::Replaced => {
                    let gone = self.gone.contains(&put.id.get());
                    assert!(!gone, "a key answers task {}, which is gone", put.id);
                    assert!(replaced.is_some());
                }
                _ => self.came(at, put.id),
            }
        }
    }

    fn put_many(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let payloads: Vec<Vec<u8>> = (0..bytes.below(6)).map(|n| vec![n as u8; n * 50]).collect();
        for id in
            fine(self.tubes[at].put_many(payloads.iter().map(Vec::as_slice))).unwrap_or_default()
        {
            self.came(at, id);
        }
    }

    fn came(&mut self, at: usize, id: TaskId) {
        assert!(id.get() > self.newest, "task {id} after task {}", self.newest);
        self.newest = id.get();
        self.known.insert(id.get(), at);
    }

    fn goes(&mut self, id: TaskId) {
        assert!(self.gone.insert(id.get()), "task {id} went twice");
    }

    fn all_go(&mut self, at: usize) {
        let known = self.known.iter().filter(|(_, tube)| **tube == at);
        self.gone.extend(known.map(|(id, _)| *id));
    }

    fn take(&mut self, at: usize) {
        let taken = fine(self.tubes[at].try_take()).flatten();
        self.took(at, taken);
    }

    fn take_many(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let most = bytes.below(5);
        let taken = fine(self.tubes[at].take_many(most)).unwrap_or_default();
        assert!(taken.len() <= most);
        self.took(at, taken);
    }

    fn took(&mut self, at: usize, tasks: impl IntoIterator<Item = Task>) {
        for task in tasks {
            let id = task.id();
            assert!(!self.gone.contains(&id.get()), "task {id} is handed out and was gone");
            assert_eq!(self.known.get(&id.get()), Some(&at), "task {id} is of another tube");
            assert!(task.deliveries() >= task.attempt() && task.attempt() > 0);
            self.held.push(task);
        }
    }

    fn some_held(&mut self, bytes: &mut Bytes<'_>) -> Option<Task> {
        let at = bytes.below(self.held.len());
        (!self.held.is_empty()).then(|| self.held.swap_remove(at))
    }

    fn some_id(&self, bytes: &mut Bytes<'_>) -> Option<TaskId> {
        let back = bytes.below(self.known.len().min(24));
        self.known.keys().rev().nth(back).map(|id| TaskId::new(*id))
    }

    fn settle(&mut self, bytes: &mut Bytes<'_>) {
        let Some(task) = self.some_held(bytes) else { return };
        let id = task.id();
        match bytes.byte() % 10 {
            0..=2 => {
                if fine(task.ack()).is_some() {
                    self.goes(id);
                }
            }
            3 => drop(fine(task.release())),
            4 => {
                let mut terms = Release::new();
                let which = bytes.byte();
                if which & 1 != 0 {
                    terms = terms.delay(length(bytes));
                }
                if which & 2 != 0 {
                    terms = terms.priority(-7);
                }
                if which & 4 != 0 {
                    terms = terms.to_back();
                }
                if which & 8 != 0 {
                    terms = terms.ttl(length(bytes));
                }
                fine(task.release_with(terms));
            }
            5 => drop(fine(task.retry("failed"))),
            6 => drop(fine(task.retry_after("failed", length(bytes)))),
            7 => drop(fine(task.bury("aside"))),
            8 => drop(fine(task.fail("kind", "failed"))),
            _ => match bytes.flag() {
                true => drop(task),
                false => {
                    let at = self.known.get(&id.get()).copied().unwrap_or_default();
                    self.tickets.push((at, task.detach()));
                }
            },
        }
    }

    fn extend(&mut self, bytes: &mut Bytes<'_>) {
        let at = bytes.below(self.held.len());
        let Some(task) = self.held.get(at) else { return };
        match bytes.byte() % 4 {
            0 => drop(fine(task.touch(length(bytes)))),
            1 => drop(fine(task.renew())),
            2 => drop(fine(task.renew_for(length(bytes)))),
            _ => drop(fine(task.time_left())),
        }
    }

    fn by_ticket(&mut self, bytes: &mut Bytes<'_>) {
        let at = bytes.below(self.tickets.len());
        let Some((tube, ticket)) = self.tickets.get(at).copied() else { return };
        let held = self.tubes[tube].ticket(ticket);
        match bytes.byte() % 7 {
            0 => {
                if fine(held.ack()).is_some() {
                    self.goes(ticket.id());
                }
            }
            1 => drop(fine(held.release())),
            4 => {
                let long = vec![bytes.byte(); usize::from(bytes.byte()) * 300];
                let _ = fine(held.with_payload(&long).renew());
            }
            5 => drop(fine(held.with_payload(&[bytes.byte(); 5000]).retry("failed"))),
            6 => drop(fine(held.with_payload(b"short").release())),
            2 => drop(fine(held.retry("failed"))),
            _ => drop(fine(held.renew())),
        }
    }

    fn by_id(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let Some(id) = self.some_id(bytes) else { return };
        let tube = self.tubes[at].clone();
        match bytes.byte() % 8 {
            0 => {
                if fine(tube.delete(id)).is_some() {
                    self.goes(id);
                }
            }
            1 => drop(fine(tube.bury(id, "by hand"))),
            2 => drop(fine(tube.kick_task(id))),
            4 => {
                let claimed = fine(tube.claim(id));
                self.took(at, claimed);
            }
            5 => self.update(&tube, id, bytes),
            6 => {
                if fine(tube.delete_only_if(id, &[STATES[bytes.below(4)]])).is_some() {
                    self.goes(id);
                }
            }
            7 => {
                let found = fine(self.queue.find(id));
                let is_gone = self.gone.contains(&id.get());
                assert!(found.is_none() || !is_gone, "task {id} is found and was gone");
            }
            _ => {
                if let Some(info) = fine(tube.peek(id)) {
                    assert_eq!(info.id, id);
                    assert!(!self.gone.contains(&id.get()), "task {id} is seen and was gone");
                }
            }
        }
    }

    fn update(&mut self, tube: &Tube, id: TaskId, bytes: &mut Bytes<'_>) {
        let (which, mut update) = (bytes.byte(), tube.update(id));
        if which & 1 != 0 {
            update = update.priority(i64::from(bytes.byte()) - 128);
        }
        if which & 2 != 0 {
            update = update.delay(length(bytes));
        }
        if which & 4 != 0 {
            update = update.run_at(SystemTime::UNIX_EPOCH + length(bytes).min(YEARS));
        }
        if which & 8 != 0 {
            update = update.ttl(length(bytes));
        }
        if which & 16 != 0 {
            update = update.ttr(length(bytes));
        }
        fine(update.apply());
    }

    fn clock(&mut self, bytes: &mut Bytes<'_>) {
        let by = length(bytes).min(YEARS);
        match bytes.byte() % 8 {
            0 => self.clock.suspend(by),
            1 => self.clock.freeze_wall(by),
            2 => self.clock.set_wall(SystemTime::UNIX_EPOCH + by),
            _ => self.clock.advance(by.min(Duration::from_secs(3))),
        }
    }

    /// A put and an ack in one, committed or not.
    fn transact(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let commit = bytes.flag();
        let task = self.some_held(bytes);
        let tube = self.tubes[at].clone();
        let done = self.queue.transact(|tx| {
            let put = tx.put(&tube, b"follow-up");
            let acked = task.as_ref().map(|task| (task.id(), tx.ack(task)));
            match commit {
                true => Ok((put.ok(), acked.filter(|acked| acked.1.is_ok()))),
                false => Err("not this time"),
            }
        });
        if let Some((put, acked)) = fine(done) {
            assert!(commit);
            put.into_iter().for_each(|id| self.came(at, id));
            acked.into_iter().for_each(|(id, _)| self.goes(id));
        }
        self.held.extend(task);
    }

    /// Looks at everything from outside.
    fn look(&self) {
        assert_eq!(self.queue.check().unwrap(), Vec::<String>::new());
        for (at, tube) in self.tubes.iter().enumerate() {
            let stats = tube.stats().unwrap();
            let mut total = 0;
            for state in STATES {
                let tasks: Vec<_> = tube.tasks(state).map(Result::unwrap).collect();
                let counted = match state {
                    State::Delayed => stats.delayed,
                    State::Ready => stats.ready,
                    State::Taken => stats.taken,
                    _ => stats.buried,
                };
                assert_eq!(counted, tasks.len() as u64, "{state:?} of {}", tube.name());
                total += counted;
                for task in tasks {
                    assert_eq!(task.state, state);
                    assert_eq!(self.known.get(&task.id.get()), Some(&at));
                    assert!(!self.gone.contains(&task.id.get()), "task {} is back", task.id);
                }
            }
            assert_eq!(stats.total, total);
            assert!(at != 2 || total <= 5, "more than the capacity");
        }
    }
}

const YEARS: Duration = Duration::from_secs(600 * 365 * 86_400);
