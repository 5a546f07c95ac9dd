//! For the peers that are stores and not queues: a queue is made of them in one place, so that all
//! of them get the same one. A store only runs a list of ops in one commit.

use crate::{Args, Delays, Folder, Has, Queue, Timed, main};
use std::collections::VecDeque;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One thing to do.
pub enum Op {
    Put(u8, Vec<u8>),
    Take,
    /// The first of this priority.
    TakeOf(u8),
    Ack(u64),
}

impl Op {
    /// Whether a power cut may not take it back once it has returned. A lease may be lost: the task
    /// is there again, which is what a lease is for.
    pub fn must_last(&self) -> bool {
        !matches!(self, Self::Take | Self::TakeOf(_))
    }
}

/// What came of it.
pub enum Done {
    Nothing,
    Took(u64, Vec<u8>),
}

/// A store in which tasks lie by priority and id, and taken ones by id.
pub trait Engine: Send + Sized {
    /// Opens what is in the folder, or makes a new store.
    fn open(folder: &Folder, durable: bool) -> Self;

    /// Does all of it in one commit, and says what came of each. The commit is synced if the store
    /// was opened so and one of the ops must last.
    fn run(&mut self, ops: &[Op], done: &mut Vec<Done>);
}

/// Runs a peer that is a store with one commit for each call.
pub fn stored<E: Delays>(args: &Args, durable: bool) -> ExitCode {
    match args.workload.as_str() {
        "groups" => main(args, |_, folder| Strict::<E>::open(folder, durable)),
        "timers" => main(args, |_, folder| Timed::<E>::open(folder, durable)),
        _ => main(args, |_, folder| Alone::<E>::open(folder, durable)),
    }
}

/// One call, one commit; threads take turns.
pub struct Alone<E> {
    state: Mutex<(E, Vec<Done>)>,
    put: Condvar,
}

impl<E: Engine> Alone<E> {
    pub fn open(folder: &Folder, durable: bool) -> Self {
        let state = Mutex::new((E::open(folder, durable), Vec::new()));
        Self { state, put: Condvar::new() }
    }

    fn run(&self, ops: &[Op]) -> Option<Done> {
        let (engine, done) = &mut *lock(&self.state);
        run(engine, ops, done)
    }
}

/// Runs them and answers what came of the last.
pub(crate) fn run<E: Engine>(engine: &mut E, ops: &[Op], done: &mut Vec<Done>) -> Option<Done> {
    done.clear();
    engine.run(ops, done);
    done.pop()
}

impl<E: Engine> Queue for Alone<E> {
    type Task = u64;

    fn put(&self, task: &[u8], priority: u8) {
        self.run(&[Op::Put(priority, task.to_vec())]);
        self.put.notify_one();
    }

    fn put_many(&self, tasks: &[(u8, Vec<u8>)]) {
        let put = |(priority, task): &(u8, Vec<u8>)| Op::Put(*priority, task.clone());
        let ops: Vec<Op> = tasks.iter().map(put).collect();
        self.run(&ops);
    }

    fn take(&self) -> Option<u64> {
        took(self.run(&[Op::Take]))
    }

    fn wait(&self) -> u64 {
        let mut state = lock(&self.state);
        loop {
            let (engine, done) = &mut *state;
            if let Some(id) = took(run(engine, &[Op::Take], done)) {
                return id;
            }
            state = self.put.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn ack(&self, task: u64) {
        self.run(&[Op::Ack(task)]);
    }

    fn take_many(&self, most: usize) -> Vec<u64> {
        let ops: Vec<Op> = (0..most).map(|_| Op::Take).collect();
        let (engine, done) = &mut *lock(&self.state);
        done.clear();
        engine.run(&ops, done);
        done.drain(..).filter_map(|done| took(Some(done))).collect()
    }

    fn ack_many(&self, tasks: Vec<u64>) {
        let ops: Vec<Op> = tasks.into_iter().map(Op::Ack).collect();
        self.run(&ops);
    }
}

/// One call, one commit, and strict groups. A group lies where otherwise a priority does; which
/// groups have a task that may be taken is known in memory, so that no take is a scan.
pub struct Strict<E> {
    state: Mutex<StrictState<E>>,
}

struct StrictState<E> {
    engine: E,
    done: Vec<Done>,
    groups: [StrictGroup; 256],
    /// Those that have tasks, none of them taken; who waits longest is first.
    free: VecDeque<u8>,
}

#[derive(Clone, Copy, Default)]
struct StrictGroup {
    waiting: u64,
    taken: bool,
}

impl<E: Engine> Strict<E> {
    /// In an empty folder: groups of an earlier process are not looked for.
    fn open(folder: &Folder, durable: bool) -> Self {
        let engine = E::open(folder, durable);
        let groups = [StrictGroup::default(); 256];
        let state = StrictState { engine, done: Vec::new(), groups, free: VecDeque::new() };
        Self { state: Mutex::new(state) }
    }
}

impl<E: Engine> StrictState<E> {
    fn change(&mut self, group: u8, change: impl FnOnce(&mut StrictGroup)) {
        let state = &mut self.groups[usize::from(group)];
        let was_free = state.waiting > 0 && !state.taken;
        change(state);
        if !was_free && state.waiting > 0 && !state.taken {
            self.free.push_back(group);
        }
    }
}

impl<E: Engine> Queue for Strict<E> {
    type Task = (u8, u64);

    const HAS: Has = Has {
        batches: false,
        priorities: false,
        takes: false,
        waiting: false,
        opening: false,
        groups: true,
        delays: false,
    };

    fn put(&self, task: &[u8], _: u8) {
        self.put_in(0, task);
    }

    fn put_in(&self, group: u8, task: &[u8]) {
        let state = &mut *lock(&self.state);
        run(&mut state.engine, &[Op::Put(group, task.to_vec())], &mut state.done);
        state.change(group, |group| group.waiting += 1);
    }

    fn take(&self) -> Option<(u8, u64)> {
        let state = &mut *lock(&self.state);
        let group = state.free.pop_front()?;
        let id = took(run(&mut state.engine, &[Op::TakeOf(group)], &mut state.done))?;
        state.change(group, |group| (group.waiting, group.taken) = (group.waiting - 1, true));
        Some((group, id))
    }

    fn ack(&self, (group, id): (u8, u64)) {
        let state = &mut *lock(&self.state);
        run(&mut state.engine, &[Op::Ack(id)], &mut state.done);
        state.change(group, |group| group.taken = false);
    }
}

fn took(done: Option<Done>) -> Option<u64> {
    match done {
        Some(Done::Took(id, payload)) => {
            black_box(payload);
            Some(id)
        }
        _ => None,
    }
}

/// Threads that come while a commit is running gather; the first of them commits for all. Those
/// that take gather by themselves, as their commit need not be synced.
pub struct Grouped<E> {
    lasting: Gathering,
    taking: Gathering,
    engine: Mutex<E>,
}

type Gathering = Mutex<Arc<Group>>;

#[derive(Default)]
struct Group {
    state: Mutex<GroupState>,
    ended: Condvar,
}

#[derive(Default)]
struct GroupState {
    ops: Vec<Op>,
    /// Once they are done.
    done: Option<Vec<Option<Done>>>,
}

impl<E: Engine> Grouped<E> {
    pub fn open(folder: &Folder, durable: bool) -> Self {
        let engine = Mutex::new(E::open(folder, durable));
        Self { lasting: Mutex::default(), taking: Mutex::default(), engine }
    }

    fn run(&self, op: Op) -> Option<Done> {
        let gathering = if op.must_last() { &self.lasting } else { &self.taking };
        let (group, place) = join(gathering, op);
        if place > 0 {
            return group.result(place);
        }
        // The first to come leads: once the commit before this one is over, each that has joined
        // is in, and the next to come are another group.
        let mut engine = lock(&self.engine);
        let group = std::mem::take(&mut *lock(gathering));
        let ops = std::mem::take(&mut lock(&group.state).ops);
        let mut done = Vec::with_capacity(ops.len());
        engine.run(&ops, &mut done);
        drop(engine);
        let mut done: Vec<_> = done.into_iter().map(Some).collect();
        let mine = done[0].take();
        lock(&group.state).done = Some(done);
        group.ended.notify_all();
        mine
    }
}

fn join(gathering: &Gathering, op: Op) -> (Arc<Group>, usize) {
    let group = lock(gathering);
    let mut state = lock(&group.state);
    state.ops.push(op);
    let place = state.ops.len() - 1;
    drop(state);
    (group.clone(), place)
}

impl Group {
    fn result(&self, place: usize) -> Option<Done> {
        let mut state = lock(&self.state);
        loop {
            if let Some(done) = &mut state.done {
                return done[place].take();
            }
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<E: Engine> Queue for Grouped<E> {
    type Task = u64;

    const HAS: Has = Has { batches: false, waiting: false, ..Has::USUAL };

    fn put(&self, task: &[u8], priority: u8) {
        self.run(Op::Put(priority, task.to_vec()));
    }

    fn fill(&self, tasks: &[(u8, Vec<u8>)]) {
        let put = |(priority, task): &(u8, Vec<u8>)| Op::Put(*priority, task.clone());
        let ops: Vec<Op> = tasks.iter().map(put).collect();
        lock(&self.engine).run(&ops, &mut Vec::new());
    }

    fn take(&self) -> Option<u64> {
        took(self.run(Op::Take))
    }

    fn ack(&self, task: u64) {
        self.run(Op::Ack(task));
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
