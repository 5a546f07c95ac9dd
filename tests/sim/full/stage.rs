//! A queue at one of its limits, with a task in each state, and what a verb may leave of it.

use crate::disk::{Fault, SimDisk};
use crate::trust::builder;
use std::collections::BTreeSet;
use std::thread::JoinHandle;
use std::time::Duration;
use tubewell::{
    Consumer, Durability, ErrorKind, Events, ManualClock, Orphaned, Queue, Result, Retention,
    State, Stop, Task, TaskId, Ticket, Transaction, Tube, TubeOptions,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Disk,
    Ring,
    DurableBytes,
    TemporaryBytes,
    Capacity,
    /// A capacity with callers that wait for room, and others that wait for tasks.
    Waiters,
}

pub const LIMITS: [Limit; 6] = [
    Limit::Disk,
    Limit::Ring,
    Limit::DurableBytes,
    Limit::TemporaryBytes,
    Limit::Capacity,
    Limit::Waiters,
];
/// Changes to the disk that one verb may make, a checkpoint of the whole overlay included.
pub const CALLS_MAX: usize = 200;
/// The same with what follows the end of a task, which may need another checkpoint.
const FOLLOWED_CALLS_MAX: usize = 250;
/// Callers that wait for room, and as many that wait for a task.
pub const WAITERS: usize = 8;
pub const CAPACITY: u64 = 60;
/// Of payloads; the rows of temporary tubes count whole, and have three times as much.
pub const BYTES: u64 = 20_000;
/// Tasks that fall due together, and as many whose ttl ends then.
pub const WAVE: usize = 20;
pub const WAVE_AT: Duration = Duration::from_secs(10);

/// What a verb adds to the tube and takes from it.
#[derive(Default)]
pub struct Change {
    pub added: Vec<TaskId>,
    pub gone: Vec<TaskId>,
    pub is_dropped: bool,
}

pub type Done = Result<Change>;

pub fn added(id: TaskId) -> Change {
    Change { added: vec![id], ..Change::default() }
}

/// The refusal of a verb inside of a transaction.
pub fn refused_inside<T>(done: Result<T>) -> Result<T> {
    done.map_err(|error| match error.kind() {
        ErrorKind::Rejected => *error.into_source().unwrap().downcast().unwrap(),
        _ => error,
    })
}

pub fn nothing<T>(_: T) -> Change {
    Change::default()
}

pub fn gone(id: TaskId) -> Change {
    Change { gone: vec![id], ..Change::default() }
}

/// A queue at its limit, with a task in each state.
pub struct Stage {
    pub limit: Limit,
    pub disk: SimDisk,
    pub clock: ManualClock,
    pub queue: Queue,
    pub tube: Tube,
    pub side: Tube,
    /// Keeps its finished tasks.
    pub keeper: Tube,
    /// Its task.
    pub sum: Option<Task>,
    /// Has no task.
    pub bare: Tube,
    pub ada: Consumer,
    pub held: Option<Task>,
    pub ticket: Ticket,
    pub keyed: TaskId,
    /// Another task waits for it.
    pub root: TaskId,
    /// Waits for it, and no more once it is gone.
    pub blocked: TaskId,
    pub buried: TaskId,
    /// Their ttl ends with the wave.
    pub mortal: Vec<TaskId>,
    pub there: BTreeSet<TaskId>,
    pub stop: Stop,
    pub putters: Vec<JoinHandle<Result<TaskId>>>,
    pub takers: Vec<JoinHandle<Result<Option<Task>>>>,
    /// Reads nothing, so it keeps as much as it may.
    pub _events: Events,
}

pub fn payload() -> [u8; 100] {
    [7; 100]
}

impl Stage {
    /// Checks the changes to the disk of the last verb.
    pub fn is_bounded(&self, verb: &str) {
        let calls = self.disk.syncs().len();
        // The end of a task that another one waits for makes room on a full disk, and what follows
        // it finds that.
        let is_followed = self.limit == Limit::Disk && self.tube.peek(self.root).is_err();
        let most = if is_followed { FOLLOWED_CALLS_MAX } else { CALLS_MAX };
        assert!(calls <= most, "{verb}, {:?}: {calls} changes to the disk", self.limit);
        self.disk.plan(Fault::None);
    }

    pub fn open(limit: Limit, disk: &SimDisk, clock: &ManualClock) -> (Queue, Tube) {
        let mut builder = builder(disk.lend(), Durability::Durable).clock(clock.clone());
        match limit {
            Limit::DurableBytes => builder = builder.durable_bytes_max(BYTES),
            Limit::TemporaryBytes => builder = builder.temporary_bytes_max(3 * BYTES),
            _ => {}
        }
        let queue = builder.open_disk().unwrap();
        let mut options = TubeOptions::default().if_not_exists();
        match limit {
            Limit::TemporaryBytes => options = options.temporary(true),
            Limit::Capacity | Limit::Waiters => options = options.capacity(CAPACITY),
            _ => {}
        }
        let tube = queue.create_tube("full", options).unwrap();
        (queue, tube)
    }

    /// Fills the queue; `ring` is how many plain puts the ring has room for after the others.
    pub fn new(limit: Limit, ring: usize) -> Self {
        let (disk, clock) = (SimDisk::new(1), ManualClock::new());
        let (queue, tube) = Self::open(limit, &disk, &clock);
        let side = queue.tube("side").unwrap();
        side.set("ttr", WAVE_AT).unwrap();
        let kept = TubeOptions::default().keep_finished(Retention::new().count(3));
        let is_temporary = limit == Limit::TemporaryBytes;
        let keeper = queue.create_tube("keeper", kept.temporary(is_temporary)).unwrap();
        keeper.put(&payload()).unwrap();
        let sum = Some(keeper.take().unwrap());
        let bare = queue.tube("bare").unwrap();
        let ada = queue.consumer("ada").unwrap();
        let events = queue.events();
        let mut there = BTreeSet::new();
        let mut put = || {
            let id = tube.put(&payload()).unwrap();
            there.insert(id);
            id
        };
        put();
        let held = tube.take().unwrap();
        put();
        let ticket = tube.task_to_lapse();
        let buried = put();
        tube.bury(buried, "first").unwrap();
        put();
        // His session has ended, and his lease waits for its grace.
        let bob = queue.consumer_with_grace("bob", 9 * WAVE_AT).unwrap();
        tube.by(&bob).take().unwrap().detach();
        drop(bob);
        let keyed = tube.task(&payload()).key("k").group("g").tag("kept").put().unwrap();
        let root = tube.put(&payload()).unwrap();
        let blocked = tube.task(&payload()).after([root]).orphaned(Orphaned::Ignore).put().unwrap();
        there.extend([keyed, root, blocked]);
        queue.track(buried).unwrap();
        let wave = tube.batch((0..WAVE).map(|_| payload())).delay(WAVE_AT);
        let delayed = wave.put().unwrap();
        let mortal: Vec<_> =
            (0..WAVE).map(|_| tube.task(&payload()).ttl(WAVE_AT).put().unwrap()).collect();
        there.extend(delayed.iter().chain(&mortal));
        side.put(b"beside").unwrap();
        for name in ["plan", "paused"] {
            let plan = queue.schedule(name).every(WAVE_AT * 9).offset(WAVE_AT * 9).to(&tube);
            plan.tag("kept").make().unwrap();
        }
        queue.schedule_named("paused").pause().unwrap();
        match limit {
            Limit::Disk => {
                disk.set_quota(disk.blocks() + 8);
                let mut refused = 0;
                while refused < 3 {
                    match tube.put(&payload()) {
                        Ok(id) => there.extend([id]),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::DiskFull);
                            refused += 1;
                        }
                    }
                }
            }
            Limit::Ring => there.extend((0..ring).map(|_| tube.put(&payload()).unwrap())),
            _ => loop {
                match tube.put(&payload()) {
                    Ok(id) => there.extend([id]),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Full);
                        break;
                    }
                }
            },
        }
        let (stop, mut putters, mut takers) = (Stop::new(), Vec::new(), Vec::new());
        if limit == Limit::Waiters {
            let empty = queue.tube("empty").unwrap();
            for _ in 0..WAITERS {
                let (tube, empty) = (tube.clone(), empty.clone());
                let (room, task) = (stop.clone(), stop.clone());
                putters.push(std::thread::spawn(move || {
                    tube.task(&payload()).wait_for_room_until(&room).put()
                }));
                takers.push(std::thread::spawn(move || empty.take_until(&task)));
            }
        }
        Self {
            limit,
            disk,
            clock,
            queue,
            tube,
            side,
            keeper,
            sum,
            bare,
            ada,
            held: Some(held),
            ticket,
            keyed,
            root,
            blocked,
            buried,
            mortal,
            there,
            stop,
            putters,
            takers,
            _events: events,
        }
    }

    pub fn held(&mut self) -> Task {
        self.held.take().unwrap()
    }

    /// A refused verb leaves the leases of these.
    pub fn are_taken(&self, verb: &str, tasks: &[(Tube, TaskId)]) {
        for (tube, id) in tasks {
            let found = tube.peek(*id).unwrap();
            assert_eq!(found.state, State::Taken, "{verb}, {:?}: {found:?}", self.limit);
        }
    }

    /// What another task has waited for has ended. On a full disk the timer lets it through, once
    /// there is room.
    pub fn is_let_through(&self) {
        let state = self.tube.peek(self.blocked).unwrap().state;
        assert!(state == State::Ready || self.limit == Limit::Disk, "{:?}: {state:?}", self.limit);
    }

    /// The tasks in hand, with their tubes.
    pub fn taken(&self) -> Vec<(Tube, TaskId)> {
        let held = self.held.as_ref().map(|task| (self.tube.clone(), task.id()));
        let sum = self.sum.as_ref().map(|task| (self.keeper.clone(), task.id()));
        held.into_iter().chain(sum).chain([(self.tube.clone(), self.ticket.id())]).collect()
    }

    /// A transaction on a task. A refused one leaves the lease.
    pub fn inside<R>(
        &mut self,
        of: fn(&mut Self) -> &mut Option<Task>,
        work: impl FnOnce(&Transaction<'_>, &Task) -> Result<R>,
    ) -> Result<R> {
        let task = of(self).take().unwrap();
        let done = self.queue.transact(|tx| work(tx, &task));
        if done.is_err() {
            *of(self) = Some(task);
        }
        refused_inside(done)
    }

    /// A verb on the task in hand, with a payload. A refused one leaves the lease and the payload.
    pub fn brings(&mut self, verb: impl FnOnce(&mut Task, &[u8]) -> Result<()>) -> Done {
        let mut task = self.held();
        let done = verb(&mut task, &[5; 16 << 10]);
        let found = self.tube.peek(task.id())?;
        let bytes = if done.is_ok() { 16 << 10 } else { payload().len() };
        assert_eq!((found.payload.len(), task.is_lost()?), (bytes, found.state != State::Taken));
        if done.is_err() {
            assert_eq!(found.state, State::Taken);
            self.held = Some(task);
        }
        done.map(nothing)
    }

    /// The ids that the tube holds, in whatever state.
    pub fn found(queue: &Queue, tube: &Tube) -> BTreeSet<TaskId> {
        if queue.find_tube("full").unwrap().is_none() {
            return BTreeSet::new();
        }
        // A listing works off what is due, and due tasks go to the state that is listed last.
        let states = [State::Delayed, State::Taken, State::Buried, State::Blocked, State::Ready];
        let tasks = states.into_iter().flat_map(|state| tube.tasks(state));
        tasks.map(|task| task.unwrap().id).chain(tube.trashed().map(|it| it.unwrap().id)).collect()
    }

    /// Compares what the tube holds with what was accepted. Callers that wait for room put their
    /// tasks as room comes.
    pub fn look(&self, verb: &str) {
        let found = Self::found(&self.queue, &self.tube);
        let (limit, lost) = (self.limit, &self.there - &found);
        assert!(lost.is_empty(), "{verb}, {limit:?}: lost {lost:?}");
        let mut more = &found - &self.there;
        if limit == Limit::Disk {
            // There, due tasks may wait while others are ready.
            more.retain(|id| !self.mortal.contains(id));
        }
        assert!(more.len() <= self.putters.len(), "{verb}, {limit:?}: {more:?} were refused");
    }

    /// Takes and acks everything, whatever is full; then there is room for a put again.
    pub fn drain(mut self, verb: &str, is_dropped: bool) {
        let limit = self.limit;
        let must = |what: &str, done: Result<()>| {
            done.unwrap_or_else(|error| panic!("{verb}, {limit:?}: {what}: {error}"));
        };
        let putters = self.putters.len();
        if is_dropped {
            self.stop.stop();
        } else {
            drop(self.held.take());
            must("resume", self.tube.resume());
            must("release_all", self.tube.release_all());
            self.clock.advance(WAVE_AT);
            must("tick", self.queue.tick());
            self.there.retain(|id| !self.mortal.contains(id));
            must("kick", self.tube.kick(u64::MAX).map(drop));
            for task in self.tube.trashed() {
                self.there.remove(&task.unwrap().id);
            }
            must("empty_trash", self.tube.empty_trash().map(drop));
            for _ in 0..self.there.len() + putters {
                // On a full disk the timer lets a blocked task through once there is room.
                let task = match self.limit {
                    Limit::Disk => self.tube.try_take().and_then(|task| match task {
                        Some(task) => Ok(task),
                        None => self.queue.tick().and_then(|()| self.tube.take()),
                    }),
                    _ => self.tube.take(),
                };
                must("take and ack", task.and_then(Task::ack));
            }
            assert_eq!(self.tube.len().unwrap(), 0, "{verb}, {limit:?}");
        }
        for putter in self.putters {
            assert_eq!(putter.join().unwrap().is_err(), is_dropped, "{verb}");
        }
        self.stop.stop();
        // A merge has taken its task along.
        let other = self.queue.find_tube("bare").unwrap();
        let beside = other.filter(|bare| !bare.is_empty().unwrap()).unwrap_or(self.side);
        for taker in self.takers {
            assert!(taker.join().unwrap().unwrap().is_none(), "{verb}");
        }
        must("ack beside", beside.take().and_then(Task::ack));
        assert_eq!(self.queue.check().unwrap(), Vec::<String>::new(), "{verb}, {limit:?}");
        if !is_dropped {
            self.disk.set_quota(usize::MAX);
            self.clock.advance(Duration::from_secs(1));
            must("put", self.tube.put(&payload()).map(drop));
        }
        must("close", self.queue.close());
    }
}

pub trait Lapse {
    fn task_to_lapse(&self) -> Ticket;
}

impl Lapse for Tube {
    /// Takes a task whose lease lapses with the wave.
    fn task_to_lapse(&self) -> Ticket {
        let task = self.take().unwrap();
        task.renew_for(WAVE_AT).unwrap();
        task.detach()
    }
}
