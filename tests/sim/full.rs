//! Every verb against everything that can be full: the disk, the ring, the bytes of durable and of
//! temporary tubes, a tube's capacity, and that with callers who wait for room and for tasks. Each
//! verb answers within a bounded number of changes to the disk, only what adds may be refused, and
//! what was accepted is there, also after a power cut, until it is taken and acked.
//!
//! A full temporary tube once refused `take`, `delete` and even `close`, and a put inside a
//! transaction went past the checks of a full disk.

use crate::disk::{Fault, SimDisk};
use crate::seeds::wants_more;
use crate::trust::builder;
use std::collections::BTreeSet;
use std::thread::JoinHandle;
use std::time::Duration;
use tubewell::{
    Advance, Cause, Conflict, Consumer, ConsumerOptions, Durability, ErrorKind, Event, Events,
    Filter, ManualClock, PauseTerms, Queue, Release, Result, Retention, Retry, State, Stop, Task,
    TaskId, Ticket, Tube, TubeOptions,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Disk,
    Ring,
    DurableBytes,
    TemporaryBytes,
    Capacity,
    /// A capacity with callers that wait for room, and others that wait for tasks.
    Waiters,
}

const LIMITS: [Limit; 6] = [
    Limit::Disk,
    Limit::Ring,
    Limit::DurableBytes,
    Limit::TemporaryBytes,
    Limit::Capacity,
    Limit::Waiters,
];
/// Changes to the disk that one verb may make, a checkpoint of the whole overlay included.
const CALLS_MAX: usize = 200;
/// Callers that wait for room, and as many that wait for a task.
const WAITERS: usize = 8;
const CAPACITY: u64 = 60;
/// Of payloads; the rows of temporary tubes count whole, and have three times as much.
const BYTES: u64 = 20_000;
/// Tasks that fall due together, and as many whose ttl ends then.
const WAVE: usize = 20;
const WAVE_AT: Duration = Duration::from_secs(10);

/// What a verb adds to the tube and takes from it.
#[derive(Default)]
struct Change {
    added: Vec<TaskId>,
    gone: Vec<TaskId>,
    is_dropped: bool,
}

type Done = Result<Change>;

fn added(id: TaskId) -> Change {
    Change { added: vec![id], ..Change::default() }
}

fn gone(id: TaskId) -> Change {
    Change { gone: vec![id], ..Change::default() }
}

/// A queue at its limit, with a task in each state.
struct Stage {
    limit: Limit,
    disk: SimDisk,
    clock: ManualClock,
    queue: Queue,
    tube: Tube,
    side: Tube,
    /// Keeps its finished tasks.
    keeper: Tube,
    /// Its task.
    sum: Option<Task>,
    /// Has no task.
    bare: Tube,
    ada: Consumer,
    held: Option<Task>,
    ticket: Ticket,
    keyed: TaskId,
    buried: TaskId,
    /// Their ttl ends with the wave.
    mortal: Vec<TaskId>,
    there: BTreeSet<TaskId>,
    stop: Stop,
    putters: Vec<JoinHandle<Result<TaskId>>>,
    takers: Vec<JoinHandle<Result<Option<Task>>>>,
    /// Reads nothing, so it keeps as much as it may.
    _events: Events,
}

fn payload() -> [u8; 100] {
    [7; 100]
}

impl Stage {
    /// Checks the changes to the disk of the last verb.
    fn is_bounded(&self, verb: &str) {
        let calls = self.disk.syncs().len();
        assert!(calls <= CALLS_MAX, "{verb}, {:?}: {calls} changes to the disk", self.limit);
        self.disk.plan(Fault::None);
    }

    fn open(limit: Limit, disk: &SimDisk, clock: &ManualClock) -> (Queue, Tube) {
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
    fn new(limit: Limit, ring: usize) -> Self {
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
        there.insert(keyed);
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
            buried,
            mortal,
            there,
            stop,
            putters,
            takers,
            _events: events,
        }
    }

    fn held(&mut self) -> Task {
        self.held.take().unwrap()
    }

    /// A refused verb leaves the leases of these.
    fn are_taken(&self, verb: &str, tasks: &[(Tube, TaskId)]) {
        for (tube, id) in tasks {
            let found = tube.peek(*id).unwrap();
            assert_eq!(found.state, State::Taken, "{verb}, {:?}: {found:?}", self.limit);
        }
    }

    /// The tasks in hand, with their tubes.
    fn taken(&self) -> Vec<(Tube, TaskId)> {
        let held = self.held.as_ref().map(|task| (self.tube.clone(), task.id()));
        let sum = self.sum.as_ref().map(|task| (self.keeper.clone(), task.id()));
        held.into_iter().chain(sum).chain([(self.tube.clone(), self.ticket.id())]).collect()
    }

    /// A verb on the task in hand, with a payload. A refused one leaves the lease and the payload.
    fn brings(&mut self, verb: impl FnOnce(&mut Task, &[u8]) -> Result<()>) -> Done {
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
    fn found(queue: &Queue, tube: &Tube) -> BTreeSet<TaskId> {
        if queue.find_tube("full").unwrap().is_none() {
            return BTreeSet::new();
        }
        // A listing works off what is due, and due tasks go to the state that is listed last.
        let states = [State::Delayed, State::Taken, State::Buried, State::Ready];
        let tasks = states.into_iter().flat_map(|state| tube.tasks(state));
        tasks.map(|task| task.unwrap().id).chain(tube.trashed().map(|it| it.unwrap().id)).collect()
    }

    /// Compares what the tube holds with what was accepted. Callers that wait for room put their
    /// tasks as room comes.
    fn look(&self, verb: &str) {
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
    fn drain(mut self, verb: &str, is_dropped: bool) {
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
                let task = self.tube.take().unwrap_or_else(|e| panic!("{verb}, {limit:?}: {e}"));
                must("ack", task.ack());
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

trait Lapse {
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

/// What a verb may answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum May {
    /// Nothing but its work.
    Never,
    /// It writes more than it removes, so a full disk may refuse it.
    Disk,
    /// It adds a row of the queue, of no tube.
    Row,
    /// It adds bytes, but no task.
    Bytes,
    /// It brings a payload, but no task.
    Payload,
    /// It adds a task.
    Always,
}

type Verb = (&'static str, May, fn(&mut Stage) -> Done);

fn nothing<T>(_: T) -> Change {
    Change::default()
}

fn long() -> String {
    "r".repeat(4096)
}

fn verbs() -> Vec<Verb> {
    vec![
        ("put", May::Always, |s| s.tube.put(&payload()).map(added)),
        ("put_front", May::Always, |s| s.tube.put_front(&payload()).map(added)),
        ("put delayed", May::Always, |s| s.tube.task(&payload()).delay(WAVE_AT).put().map(added)),
        ("put of 16 KiB", May::Always, |s| s.tube.put(&[3; 16 << 10]).map(added)),
        ("put of 200 KiB", May::Always, |s| s.tube.put(&[3; 200 << 10]).map(added)),
        ("put_many", May::Always, |s| {
            let ids = s.tube.put_many((0..100).map(|_| payload()))?;
            Ok(Change { added: ids, ..Change::default() })
        }),
        ("batch", May::Always, |s| {
            let ids = s.tube.batch([payload(), payload()]).delay(WAVE_AT).put()?;
            Ok(Change { added: ids, ..Change::default() })
        }),
        ("batch_of", May::Always, |s| {
            let payload = payload();
            let tasks = [s.tube.task(&payload).priority(-1), s.tube.task(&payload).ttr(WAVE_AT)];
            let ids = s.tube.batch_of(tasks).put()?;
            Ok(Change { added: ids, ..Change::default() })
        }),
        ("put_all", May::Always, |s| {
            let before = Stage::found(&s.queue, &s.tube);
            s.tube.put_all((0..100).map(|_| payload()))?;
            let ids = &Stage::found(&s.queue, &s.tube) - &before;
            Ok(Change { added: ids.into_iter().collect(), ..Change::default() })
        }),
        ("put_receipt", May::Always, |s| s.tube.put_receipt(&payload())?.wait().map(added)),
        ("put that replaces", May::Always, |s| {
            let put = s.tube.task(&payload()).key("k").on_conflict(Conflict::Replace).put()?;
            let gone = if put == s.keyed { vec![] } else { vec![s.keyed] };
            Ok(Change { added: vec![put], gone, ..Change::default() })
        }),
        ("put that debounces", May::Always, |s| {
            let payload = payload();
            let put = s.tube.task(&payload).key("k").on_conflict(Conflict::Debounce);
            assert_eq!(put.delay(WAVE_AT).put()?, s.keyed);
            Ok(Change::default())
        }),
        ("put that keeps", May::Always, |s| {
            s.tube.task(&payload()).key("k").on_conflict(Conflict::Keep).put().map(nothing)
        }),
        ("put with a timeout of nothing", May::Always, |s| {
            s.tube.task(&payload()).wait_for_room(Duration::ZERO).put().map(added)
        }),
        ("copy_to", May::Always, |s| s.tube.copy_to(s.keyed, &s.tube).map(added)),
        ("put in a transaction", May::Always, |s| {
            let tube = s.tube.clone();
            let done = s.queue.transact(|tx| tx.put(&tube, &payload()));
            match done {
                Err(error) if error.kind() == ErrorKind::Rejected => {
                    Err(*error.into_source().unwrap().downcast().unwrap())
                }
                done => done.map(added),
            }
        }),
        ("take and ack", May::Never, |s| {
            let task = s.tube.try_take()?.unwrap();
            let id = task.id();
            task.ack().map(|()| gone(id))
        }),
        ("take_many and ack_many", May::Never, |s| {
            let tasks = s.tube.take_many(1000)?;
            s.is_bounded("take_many");
            let ids: Vec<_> = tasks.iter().map(Task::id).collect();
            s.tube.ack_many(tasks)?;
            Ok(Change { gone: ids, ..Change::default() })
        }),
        ("take by a consumer", May::Never, |s| {
            let task = s.tube.by(&s.ada).try_take()?.unwrap();
            task.release().map(nothing)
        }),
        ("take by a session without a name", May::Never, |s| {
            s.tube.by(&s.queue.session()).try_take()?.unwrap().release().map(nothing)
        }),
        ("take from several tubes", May::Never, |s| {
            let tubes = s.queue.tubes_of([s.tube.name()])?.by_priority();
            tubes.by(&s.ada).try_take()?.unwrap().release().map(nothing)
        }),
        ("take_many from several tubes", May::Never, |s| {
            let tasks = s.queue.tubes_of([s.tube.name()])?.round_robin().take_many(1000)?;
            s.is_bounded("take_many");
            let ids: Vec<_> = tasks.iter().map(Task::id).collect();
            s.tube.ack_many(tasks)?;
            Ok(Change { gone: ids, ..Change::default() })
        }),
        ("take of a group", May::Never, |s| {
            let task = s.tube.try_take_group("g")?.unwrap();
            assert_eq!(task.id(), s.keyed);
            task.release().map(nothing)
        }),
        ("claim", May::Never, |s| s.tube.claim(s.keyed)?.release().map(nothing)),
        ("claim of a buried one", May::Never, |s| s.tube.claim(s.buried)?.release().map(nothing)),
        ("update", May::Disk, |s| {
            s.tube.update(s.keyed).priority(-1).ttl(WAVE_AT * 9).apply().map(nothing)
        }),
        ("update of a task in hand", May::Disk, |s| {
            s.tube.update(s.ticket.id()).ttr(WAVE_AT * 2).apply().map(nothing)
        }),
        ("ack", May::Never, |s| {
            let task = s.held();
            let id = task.id();
            task.ack().map(|()| gone(id))
        }),
        ("ack of a kept task", May::Never, |s| {
            let (task, events) = (s.sum.take().unwrap(), s.queue.events());
            let id = task.id();
            task.ack()?;
            // On a full disk it leaves no row, and its event says so.
            let is_kept = s.limit != Limit::Disk;
            assert_eq!(s.keeper.peek(id).is_ok(), is_kept);
            assert_eq!(s.keeper.finished().count(), usize::from(is_kept));
            let step = |event: Event| (event.cause, event.task, event.to);
            let seen: Vec<_> = std::iter::from_fn(|| events.try_recv()).map(step).collect();
            assert_eq!(seen, [(Cause::Ack, Some(id), is_kept.then_some(State::Done))]);
            Ok(Change::default())
        }),
        ("ack with a result", May::Bytes, |s| {
            let ticket = s.sum.as_ref().unwrap().ticket();
            let done = s.keeper.ticket(ticket).ack_with(&[5; 16 << 10]);
            let result = s.keeper.peek(ticket.id())?.result;
            assert_eq!(result.is_some(), done.is_ok());
            done.map(nothing)
        }),
        ("complete_by_id with a result", May::Bytes, |s| {
            let id = s.sum.as_ref().unwrap().id();
            assert!(s.keeper.complete_by_id_with(id, &[5; 16 << 10])?);
            Ok(Change::default())
        }),
        ("complete_by_id", May::Never, |s| {
            s.tube
                .complete_by_id(s.keyed)
                .map(|done| if done { gone(s.keyed) } else { nothing(()) })
        }),
        ("fail_by_id", May::Disk, |s| s.tube.fail_by_id(s.ticket.id(), "g", long()).map(nothing)),
        ("delete_many", May::Never, |s| {
            let ids = [s.keyed, s.buried];
            s.tube.delete_many(&ids)?;
            Ok(Change { gone: ids.to_vec(), ..Change::default() })
        }),
        ("snooze", May::Disk, |s| s.held().snooze(WAVE_AT).map(nothing)),
        ("kick_where", May::Never, |s| s.tube.kick_where(10, |_| true).map(nothing)),
        ("finished", May::Never, |s| {
            assert_eq!(s.keeper.finished().count(), 0);
            Ok(nothing(()))
        }),
        ("ack of a ticket", May::Never, |s| {
            s.tube.ticket(s.ticket).ack().map(|()| gone(s.ticket.id()))
        }),
        ("drop of a guard", May::Never, |s| {
            drop(s.held());
            Ok(Change::default())
        }),
        ("release", May::Never, |s| s.held().release().map(nothing)),
        ("release to the back", May::Disk, |s| {
            s.held().release_with(Release::new().to_back()).map(nothing)
        }),
        ("release delayed", May::Disk, |s| {
            s.held().release_with(Release::new().delay(WAVE_AT)).map(nothing)
        }),
        ("retry", May::Disk, |s| s.held().retry(long()).map(nothing)),
        ("retry in a group", May::Disk, |s| {
            s.held().retry_with(Retry::new(long()).group("g")).map(nothing)
        }),
        ("advance", May::Disk, |s| s.held().advance(&s.tube).map(nothing)),
        ("advance with a result", May::Always, |s| {
            let result = [3; 8 << 10];
            let held = s.held.as_mut().unwrap();
            held.advance_with(&s.tube, Advance::new().result(&result)).map(nothing)
        }),
        ("release with a payload", May::Payload, |s| {
            s.brings(|held, new| held.with_payload(new).release())
        }),
        ("retry with a payload", May::Payload, |s| {
            s.brings(|held, new| held.with_payload(new).retry(long()))
        }),
        ("fail with a payload", May::Payload, |s| {
            s.brings(|held, new| held.with_payload(new).fail("g", long()))
        }),
        ("renew with a payload", May::Payload, |s| {
            s.brings(|held, new| held.with_payload(new).renew())
        }),
        ("touch with a payload in turns", May::Payload, |s| {
            let held = s.tube.ticket(s.ticket);
            held.with_payload(&[3; 200 << 10]).touch(Duration::from_secs(1)).map(nothing)
        }),
        ("advance with a payload", May::Payload, |s| {
            let tube = s.tube.clone();
            s.brings(|held, new| held.with_payload(new).advance(&tube))
        }),
        ("ack with a payload", May::Payload, |s| {
            let ticket = s.sum.as_ref().unwrap().ticket();
            let done = s.keeper.ticket(ticket).with_payload(&[5; 16 << 10]).ack();
            let generation = s.keeper.peek(ticket.id())?.payload_generation;
            assert_eq!(generation, u32::from(done.is_ok()));
            done.map(nothing)
        }),
        ("move_to", May::Disk, |s| s.tube.move_to(s.keyed, &s.tube).apply().map(nothing)),
        ("move_to another tube", May::Disk, |s| {
            s.tube.move_to(s.keyed, &s.keeper).apply().map(|()| gone(s.keyed))
        }),
        ("merge", May::Disk, |s| s.queue.merge(s.side.name(), s.bare.name()).map(nothing)),
        ("bury", May::Disk, |s| s.held().bury(long()).map(nothing)),
        ("fail", May::Disk, |s| s.held().fail("g", long()).map(nothing)),
        ("renew", May::Never, |s| s.held.as_ref().unwrap().renew_for(WAVE_AT * 2).map(nothing)),
        ("touch", May::Never, |s| {
            s.tube.ticket(s.ticket).touch(Duration::from_secs(1)).map(nothing)
        }),
        ("bury with a priority", May::Disk, |s| {
            s.held().bury_with_priority(long(), 3).map(nothing)
        }),
        ("trash", May::Disk, |s| s.held().trash(long()).map(nothing)),
        ("trash by id", May::Disk, |s| s.tube.trash(s.keyed, long()).map(nothing)),
        ("restore", May::Always, |s| {
            s.tube.trash(s.buried, "no")?;
            s.tube.restore(s.buried).map(nothing)
        }),
        ("empty_trash", May::Disk, |s| {
            s.tube.trash(s.buried, "no")?;
            s.tube.empty_trash().map(|_| gone(s.buried))
        }),
        ("bury by id", May::Disk, |s| s.tube.bury(s.keyed, long()).map(nothing)),
        ("kick", May::Never, |s| s.tube.kick(10).map(nothing)),
        ("unfail", May::Never, |s| s.tube.unfail("g", 10).map(nothing)),
        ("unfail_into", May::Disk, |s| {
            s.held().fail("g", "no")?;
            s.queue.unfail_into("g", 10, &s.tube).map(nothing)
        }),
        ("kick_task", May::Never, |s| s.tube.kick_task(s.buried).map(nothing)),
        ("delete", May::Never, |s| s.tube.delete(s.keyed).map(|()| gone(s.keyed))),
        ("delete of a buried one", May::Never, |s| {
            s.tube.delete(s.buried).map(|()| gone(s.buried))
        }),
        ("force_timeout", May::Disk, |s| s.tube.force_timeout(&[s.ticket.id()]).map(nothing)),
        ("release_all", May::Never, |s| s.tube.release_all().map(nothing)),
        ("truncate", May::Never, |s| {
            s.held = None;
            s.tube.truncate()?;
            Ok(Change { gone: s.there.iter().copied().collect(), ..Change::default() })
        }),
        ("delete only if ready", May::Never, |s| {
            s.tube.delete_only_if(s.keyed, &[State::Ready]).map(|()| gone(s.keyed))
        }),
        ("pause", May::Never, |s| s.tube.pause().map(nothing)),
        ("pause with an end", May::Never, |s| s.tube.pause_for(WAVE_AT * 9).map(nothing)),
        ("pause of what runs", May::Never, |s| {
            s.held = None;
            s.tube.pause_with(PauseTerms::new().time_out_running()).map(nothing)
        }),
        ("log", May::Bytes, |s| s.tube.log(s.keyed, &"x".repeat(1024)).map(nothing)),
        ("log of a task in hand", May::Bytes, |s| {
            s.held.as_ref().unwrap().log(&"x".repeat(1024)).map(nothing)
        }),
        ("put with tags", May::Always, |s| {
            s.tube.task(&payload()).tags(["a", "b"]).put().map(added)
        }),
        ("tag", May::Bytes, |s| s.tube.tag(s.keyed, ["x".repeat(255).as_str()]).map(nothing)),
        ("untag", May::Never, |s| s.tube.untag(s.keyed, ["kept"]).map(nothing)),
        ("tag of a task in hand", May::Bytes, |s| {
            s.held.as_ref().unwrap().tag(["y".repeat(255).as_str()]).map(nothing)
        }),
        ("untag of a task in hand", May::Never, |s| {
            s.held.as_ref().unwrap().untag(["absent"]).map(nothing)
        }),
        ("tagged, top_tags and tag_count", May::Never, |s| {
            s.queue.tagged("kept").try_for_each(|task| task.map(drop))?;
            s.queue.top_tags().try_for_each(|top| top.map(drop))?;
            s.queue.tag_count("kept").map(nothing)
        }),
        // Its row is of the queue, so that temporary tubes have no part in it.
        ("track", May::Row, |s| s.queue.track(s.keyed).map(nothing)),
        ("untrack", May::Never, |s| s.queue.untrack(s.buried).map(nothing)),
        ("tracked", May::Never, |s| {
            s.queue.tracked().try_for_each(|task| task.map(drop)).map(nothing)
        }),
        ("make a schedule", May::Disk, |s| {
            s.queue.schedule("new").every(WAVE_AT * 9).offset(WAVE_AT * 9).to(&s.tube).make()?;
            Ok(Change::default())
        }),
        ("update a schedule", May::Disk, |s| {
            s.queue.schedule_named("plan").update(|it| it.priority(1).tag("b")).map(nothing)
        }),
        ("pause a schedule", May::Never, |s| s.queue.schedule_named("plan").pause().map(nothing)),
        ("resume a schedule", May::Never, |s| {
            s.queue.schedule_named("paused").resume().map(nothing)
        }),
        ("run a schedule", May::Always, |s| s.queue.schedule_named("plan").run_now().map(added)),
        ("tag a schedule", May::Disk, |s| {
            s.queue.schedule_named("plan").tag(&["x".repeat(255).as_str()]).map(nothing)
        }),
        ("untag a schedule", May::Never, |s| {
            s.queue.schedule_named("plan").untag(&["kept"]).map(nothing)
        }),
        ("remove a schedule", May::Never, |s| {
            assert!(s.queue.schedule_named("plan").remove()?);
            Ok(Change::default())
        }),
        ("schedules, info and next", May::Never, |s| {
            assert_eq!(s.queue.schedules().count(), 2);
            assert_eq!(s.tube.schedules().count() as u64, s.tube.stats()?.schedules);
            s.queue.schedule_named("plan").info()?;
            s.queue.schedule_named("plan").next(9).map(nothing)
        }),
        ("start", May::Bytes, |s| s.held.as_ref().unwrap().start(&"x".repeat(255)).map(nothing)),
        ("progress", May::Bytes, |s| {
            s.held.as_ref().unwrap().progress(40, &"x".repeat(1024)).map(nothing)
        }),
        ("checkpoint", May::Bytes, |s| {
            s.held.as_ref().unwrap().checkpoint(&[b'x'; 16 << 10]).map(nothing)
        }),
        ("search", May::Never, |s| {
            s.tube.search(&Filter::new().key_prefix("k"), None, 100).map(nothing)
        }),
        ("last_checkpoint", May::Never, |s| s.tube.last_checkpoint(s.keyed).map(nothing)),
        ("history", May::Never, |s| s.tube.history(s.keyed).map(nothing)),
        ("peek", May::Never, |s| s.tube.peek(s.keyed).map(nothing)),
        ("failure groups", May::Never, |s| s.queue.failure_groups().map(nothing)),
        ("peek_many", May::Never, |s| s.tube.peek_many(10).map(nothing)),
        ("peek_next", May::Never, |s| s.tube.peek_next(State::Buried).map(nothing)),
        ("find, find_many and explain", May::Never, |s| {
            s.queue.find(s.keyed)?;
            assert_eq!(s.queue.find_many([s.keyed, s.buried]).count(), 2);
            s.queue.explain(s.keyed).map(nothing)
        }),
        ("wait_for", May::Never, |s| {
            assert!(s.queue.wait_for(s.keyed, Duration::ZERO)?.is_none());
            assert!(s.queue.wait_for(s.buried, Duration::MAX)?.is_some());
            Ok(Change::default())
        }),
        ("overview", May::Never, |s| s.queue.overview().map(nothing)),
        ("stats", May::Never, |s| s.queue.stats().map(nothing)),
        ("waiters", May::Never, |s| s.queue.waiters().map(nothing)),
        ("taken", May::Never, |s| s.queue.taken().map(nothing)),
        ("space", May::Never, |s| s.queue.space().map(nothing)),
        ("check", May::Never, |s| s.queue.check().map(nothing)),
        ("set", May::Disk, |s| s.tube.set("ttl", WAVE_AT * 9).map(nothing)),
        ("set_condition", May::Disk, |s| s.queue.set_condition("paid", true).map(nothing)),
        ("set_condition to false", May::Never, |s| {
            s.queue.set_condition("paid", false).map(nothing)
        }),
        ("set_condition_for_run", May::Never, |s| {
            s.queue.set_condition_for_run("online", true).map(nothing)
        }),
        ("set_throttle", May::Disk, |s| s.queue.set_throttle("api", 2).map(nothing)),
        ("set_throttle_for", May::Disk, |s| {
            s.queue.set_throttle_for("api", 2, Duration::from_secs(60)).map(nothing)
        }),
        ("release_throttle", May::Never, |s| {
            s.queue.release_throttle("api", &[TaskId::new(1)]).map(nothing)
        }),
        ("remove_throttle", May::Never, |s| s.queue.remove_throttle("api").map(nothing)),
        ("remove_condition", May::Never, |s| s.queue.remove_condition("paid").map(nothing)),
        ("set of what rows follow", May::Disk, |s| s.tube.set("in_flight", 2).map(nothing)),
        ("set of a text", May::Disk, |s| s.queue.set("app.text", long()).map(nothing)),
        ("set of what is set", May::Disk, |s| {
            s.side.set("app.text", "old")?;
            s.side.set("app.text", "new").map(nothing)
        }),
        ("unset", May::Never, |s| s.side.unset("ttr").map(nothing)),
        ("settings", May::Never, |s| {
            s.tube.settings()?;
            s.queue.settings().map(nothing)
        }),
        ("repair", May::Never, |s| {
            assert!(s.queue.repair()?.is_empty());
            Ok(Change::default())
        }),
        ("put beside", May::Disk, |s| {
            let id = s.side.put(b"another")?;
            s.side.delete(id).map(nothing)
        }),
        ("create_tube", May::Disk, |s| {
            s.queue.create_tube("new", TubeOptions::default()).map(nothing)
        }),
        ("drop_tube_if_empty", May::Never, |s| {
            assert_eq!(s.queue.drop_tube_if_empty("side").unwrap_err().kind(), ErrorKind::TubeBusy);
            s.queue.drop_tube_if_empty(s.bare.name()).map(nothing)
        }),
        ("force_drop_tube", May::Never, |s| {
            s.held = None;
            s.queue.force_drop_tube("full")?;
            let gone = s.there.iter().copied().collect();
            Ok(Change { gone, is_dropped: true, ..Change::default() })
        }),
        ("consumer", May::Disk, |s| s.queue.consumer("bob").map(nothing)),
        ("consumer with metadata", May::Disk, |s| {
            let about = ConsumerOptions::new().keep(WAVE_AT).meta("m".repeat(4000));
            s.queue.consumer_with("ada", about).map(nothing)
        }),
        ("adopt", May::Disk, |s| {
            let left = s.ada.adopt("bob")?;
            let task = left.tasks(&s.tube).next().unwrap()?;
            task.release().map(nothing)
        }),
        ("resume", May::Disk, |s| {
            let task = s.queue.consumer("bob")?.resume(&s.tube).next().unwrap()?;
            task.release().map(nothing)
        }),
        ("consumers", May::Never, |s| s.queue.consumers().map(nothing)),
        ("deregister", May::Never, |s| {
            s.held = Some(s.tube.by(&s.ada).take()?);
            s.queue.deregister(&["ada"]).map(nothing)
        }),
        ("close of a consumer", May::Never, |s| {
            s.held = Some(s.tube.by(&s.ada).take()?);
            s.ada.close().map(nothing)
        }),
        ("checkpoint", May::Disk, |s| s.queue.checkpoint().map(nothing)),
        ("flush", May::Never, |s| s.queue.flush().map(nothing)),
        ("a wave of what is due", May::Never, |s| {
            s.clock.advance(WAVE_AT);
            s.queue.tick()?;
            Ok(Change { gone: s.mortal.clone(), ..Change::default() })
        }),
    ]
}

/// How many plain puts the ring takes after the others until it begins at its start again.
fn ring_room() -> usize {
    let stage = Stage::new(Limit::Ring, 0);
    let before = stage.queue.space().unwrap().checkpoints;
    let puts = (0..).take_while(|_| {
        stage.tube.put(&payload()).unwrap();
        stage.queue.space().unwrap().checkpoints == before
    });
    puts.count()
}

fn play((verb, may, call): Verb, limit: Limit, ring: usize, is_cut: bool) -> bool {
    let mut stage = Stage::new(limit, ring);
    stage.disk.plan(Fault::None);
    let taken = stage.taken();
    let done = call(&mut stage);
    stage.is_bounded(verb);
    let (is_refused, is_dropped) = match done {
        Ok(change) => {
            stage.there.extend(change.added);
            stage.there.retain(|id| !change.gone.contains(id));
            (false, change.is_dropped)
        }
        Err(error) => {
            let kind = error.kind();
            let is_fair = match (may, limit) {
                (May::Never, _) | (_, Limit::Ring) => false,
                (_, Limit::Disk) => kind == ErrorKind::DiskFull,
                (May::Bytes | May::Payload, Limit::TemporaryBytes)
                | (May::Payload, Limit::DurableBytes) => kind == ErrorKind::Full,
                (May::Bytes | May::Payload, _) => false,
                (May::Always, _) => kind == ErrorKind::Full,
                (May::Disk | May::Row, _) => false,
            };
            assert!(is_fair, "{verb}, {limit:?}: {error}");
            (true, false)
        }
    };
    // What brings bytes and no task is refused where bytes are full.
    let is_full = match may {
        May::Row => limit == Limit::Disk,
        May::Bytes => matches!(limit, Limit::Disk | Limit::TemporaryBytes),
        May::Payload => {
            matches!(limit, Limit::Disk | Limit::TemporaryBytes | Limit::DurableBytes)
        }
        May::Never | May::Disk | May::Always => false,
    };
    assert!(is_refused || !is_full, "{verb}, {limit:?}: was not refused");
    if is_refused {
        stage.are_taken(verb, &taken);
    }
    stage.look(verb);
    if is_cut && !is_dropped && limit != Limit::Waiters {
        stage.held = None;
        stage.disk.cut_power();
        (stage.queue, stage.tube) = Stage::open(limit, &stage.disk, &stage.clock);
        stage.side = stage.queue.tube("side").unwrap();
        if limit == Limit::TemporaryBytes {
            stage.there.clear();
        }
        stage.look(verb);
        stage.drain(verb, false);
    } else {
        stage.drain(verb, is_dropped);
    }
    is_refused
}

#[test]
fn r3_every_verb_against_everything_that_can_be_full() {
    let ring = ring_room();
    assert!(ring > 4, "{ring}");
    for limit in LIMITS {
        let mut refused = 0;
        for (no, verb) in verbs().into_iter().enumerate() {
            for is_cut in [false, true] {
                // A usual run has time for one of them, each at every second limit.
                let is_next = is_cut == (no + limit as usize).is_multiple_of(2);
                if is_next || wants_more() {
                    refused += usize::from(play(verb, limit, ring, is_cut));
                }
            }
        }
        // Else nothing was full.
        assert_eq!(refused == 0, limit == Limit::Ring, "{limit:?}");
    }
}

/// A fire takes room as a put does: on a full disk it waits, and is made when acks have made room.
#[test]
fn r3_schedules_fall_due_when_everything_is_full() {
    let ring = ring_room();
    for limit in LIMITS.into_iter().filter(|limit| *limit != Limit::Waiters) {
        let mut stage = Stage::new(limit, ring);
        let made = stage.queue.schedule_named("plan");
        stage.disk.plan(Fault::None);
        stage.clock.advance(WAVE_AT * 9);
        stage.queue.tick().unwrap();
        stage.is_bounded("fire");
        let info = made.info().unwrap();
        let is_made = info.children == 1;
        assert!(is_made || limit == Limit::Disk, "{limit:?}: {info:?}");
        assert_eq!(info.missed_fires, 0, "{limit:?}");
        stage.held = None;
        while let Some(task) = stage.tube.try_take().unwrap() {
            task.ack().unwrap();
        }
        stage.clock.advance(WAVE_AT);
        stage.queue.tick().unwrap();
        let info = made.info().unwrap();
        assert_eq!((info.children, info.missed_fires), (1, 0), "{limit:?}");
        assert_eq!(stage.queue.check().unwrap(), Vec::<String>::new());
    }
}

/// Workers that fail on a full disk return their tasks one by one, each with a long error, of which
/// little is kept: errors of 4 KiB would use up what a full disk has left for acks. When nothing is
/// left for more rows the verdict is refused, the task is free again with its guard, and the acks
/// go on.
#[test]
fn r3_tasks_in_hand_are_returned_on_a_full_disk() {
    let mut stage = Stage::new(Limit::Disk, ring_room());
    let taken = stage.tube.take_many(1000).unwrap();
    assert!(taken.len() > 200, "{} tasks", taken.len());
    let (mut returned, mut refused) = (0, 0);
    for (at, task) in taken.into_iter().enumerate() {
        let id = task.id();
        let done = match at % 3 {
            0 => task.retry(long()),
            1 => task.bury(long()),
            _ => task.fail("group", long()),
        };
        let found = stage.tube.peek(id).unwrap();
        if let Err(error) = done {
            assert_eq!((error.kind(), found.state), (ErrorKind::DiskFull, State::Ready));
            refused += 1;
        } else {
            let failure = found.last_failure.as_ref();
            let text = failure.map_or(64, |failure| failure.message.len());
            let reason = found.reason.as_ref().map_or(0, |reason| reason.to_string().len());
            assert!(text == 64 && reason < 100, "{text} {reason}");
            returned += 1;
        }
    }
    assert!(returned > 10 && refused > 0, "{returned} returned, {refused} refused");
    // Until here nothing is lost, and takes and acks make room.
    stage.held = None;
    stage.look("returned");
    stage.tube.release_all().unwrap();
    for _ in 0..3 {
        stage.clock.advance(WAVE_AT);
        stage.tube.kick(u64::MAX).unwrap();
        while let Some(task) = stage.tube.try_take().unwrap() {
            task.ack().unwrap();
        }
    }
    stage.tube.empty_trash().unwrap();
    assert_eq!(stage.tube.len().unwrap(), 0);
    assert_eq!(stage.queue.check().unwrap(), Vec::<String>::new());
    stage.queue.close().unwrap();
}
