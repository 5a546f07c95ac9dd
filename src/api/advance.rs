//! Tasks that go on to another tube: by their holder, as the next step of a pipeline, or by their
//! ids.

use crate::api::lease::{Lease, Task};
use crate::api::queue_inner::QueueInner;
use crate::api::ticket_handle::TicketHandle;
use crate::api::tube::Tube;
use crate::engine::dependencies::FoundTasks;
use crate::engine::moves::{Move, Which};
use crate::engine::new_row::{Extras, NewRow};
use crate::engine::update::Changes;
use crate::words::backoff::Backoff;
use crate::words::dependency::After;
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::EDGES_OF_OP;
use crate::words::macros::{debug, setters};
use crate::words::payload::NewPayload;
use crate::words::sync::Arc;
use crate::words::task::TaskId;
use crate::words::verb::Advance;
use std::time::{Duration, SystemTime};

impl<T: ?Sized> Task<T> {
    /// Finishes this step of the task's work: in one commit it leaves its tube and stands at the
    /// back of its priority in `next`, which may be the same tube. Nothing is lost and nothing done
    /// twice between two steps, whatever the moment of a kill.
    ///
    /// The task keeps its id, its key, its group, its priority, its payload, its ttr and its
    /// retries. Its attempts and its last failure are cleared. Its ttl begins again, as long as it
    /// was, delays not counted. A kind of tube without priorities or times takes it without them.
    ///
    /// If it is refused, the task stays taken. Once it is done, the guard holds nothing any more.
    ///
    /// ```
    /// use tubewell::{Advance, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (fetch, parse) = (queue.tube("fetch")?, queue.tube("parse")?);
    /// let id = fetch.put(b"http://example.org")?;
    ///
    /// let mut task = fetch.take()?;
    /// task.advance_with(&parse, Advance::new().result(b"<html>"))?;
    /// assert!(fetch.is_empty()?);
    ///
    /// let task = parse.take()?;
    /// assert_eq!((task.id(), &task[..]), (id, &b"http://example.org"[..]));
    /// assert_eq!(task.passed()?.as_deref(), Some(&b"<html>"[..]));
    /// task.ack()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full) if `next` is at its capacity, or puts wait for room in it;
    /// [`KeyExists`](ErrorKind::KeyExists) if it has another task of this key;
    /// [`Unsupported`](ErrorKind::Unsupported) if one of the two tubes is temporary and the other
    /// is not, if `next` has a placement, or if the task has a group and the kind of `next` has
    /// none; [`Invalid`](ErrorKind::Invalid) if `next` is of another queue;
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if one of the tubes was dropped;
    /// [`DiskFull`](ErrorKind::DiskFull); as [`Lease::ack`].
    pub fn advance<U: ?Sized>(&mut self, next: &Tube<U>) -> Result<()> {
        self.lease.advance(next)
    }

    /// As [`advance`](Task::advance), on these terms.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Advance, Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (drafts, letters) = (queue.tube("drafts")?, queue.tube("letters")?);
    /// let id = drafts.put(b"to ada")?;
    /// let terms = Advance::new().priority(-1).delay(Duration::from_secs(60));
    /// drafts.take()?.advance_with(&letters, terms)?;
    /// let letter = letters.peek(id)?;
    /// assert_eq!((letter.state, letter.priority), (State::Delayed, -1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`advance`](Task::advance); [`Unsupported`](ErrorKind::Unsupported) for a term that the
    /// kind of `next` does not allow; [`TooLarge`](ErrorKind::TooLarge) for a result of more than
    /// 16 KiB. With tasks that it comes [after](Advance::after) also
    /// [`TaskNotFound`](ErrorKind::TaskNotFound) for an id that was never given, unless [that is
    /// ignored](crate::After::missing); [`Cycle`](ErrorKind::Cycle) if one of them is the task or
    /// waits for it; [`TooDeep`](ErrorKind::TooDeep) if more than 1000 edges are before them;
    /// [`Invalid`](ErrorKind::Invalid) for more than 256 of them, and for one by two different
    /// ends.
    pub fn advance_with<U: ?Sized>(&mut self, next: &Tube<U>, terms: Advance<'_>) -> Result<()> {
        self.lease.advance_with(next, terms)
    }
}

impl Lease {
    /// As [`Task::advance`].
    ///
    /// # Errors
    /// As [`Task::advance`].
    pub fn advance<U: ?Sized>(&mut self, next: &Tube<U>) -> Result<()> {
        self.advance_with(next, Advance::new())
    }

    /// As [`Task::advance_with`].
    ///
    /// # Errors
    /// As [`Task::advance_with`].
    pub fn advance_with<U: ?Sized>(&mut self, next: &Tube<U>, terms: Advance<'_>) -> Result<()> {
        self.settle_kept(|held| held.advance_with(next, terms))
    }
}

impl TicketHandle {
    /// As [`Task::advance`].
    ///
    /// # Errors
    /// As [`Task::advance`].
    pub fn advance<U: ?Sized>(&self, next: &Tube<U>) -> Result<()> {
        self.advance_with(next, Advance::new())
    }

    /// As [`Task::advance_with`].
    ///
    /// # Errors
    /// As [`Task::advance_with`].
    pub fn advance_with<U: ?Sized>(&self, next: &Tube<U>, terms: Advance<'_>) -> Result<()> {
        self.advance_by(next, terms, |op, durability| self.inner.core.run(op, durability))
    }

    /// The same through `run`, which passes the op to the queue.
    pub(crate) fn advance_by<U: ?Sized>(
        &self,
        next: &Tube<U>,
        terms: Advance<'_>,
        run: impl FnOnce(&Move<'_>, Durability) -> Result<()>,
    ) -> Result<()> {
        let core = &self.inner.core;
        let looks = (|tube| core.catch_up(tube), |ids: &[TaskId]| core.find_all(ids));
        self.advance_over(next, terms, looks, run)
    }

    /// The same with the looks that it begins with: at what is due in the next tube, which makes
    /// room there, and for the tubes of the tasks that it comes after.
    pub(crate) fn advance_over<U: ?Sized>(
        &self,
        next: &Tube<U>,
        terms: Advance<'_>,
        (catch_up, find): (
            impl FnOnce(u32) -> Result<()>,
            impl FnOnce(&[TaskId]) -> Result<FoundTasks>,
        ),
        run: impl FnOnce(&Move<'_>, Durability) -> Result<()>,
    ) -> Result<()> {
        let Advance { delay, priority, result, after } = terms;
        let done = || {
            next.ensure_of(&self.inner)?;
            let found = match after.tasks.is_empty() {
                true => None,
                false => Some(find(&earlier(&after)?)?),
            };
            catch_up(next.number)?;
            let changes = Changes { delay, priority, ..Changes::default() };
            let which = Which::Held(self.ticket, result);
            let op = next.receiving(self.number, which, changes);
            run(&Move { after: found.as_ref().map(|found| (&after, found)), ..op }, self.durability)
        };
        done().map_err(|error| self.named(error, "advance"))
    }
}

/// The tasks that the next step comes after.
fn earlier(after: &After) -> Result<Vec<TaskId>> {
    after.check()?;
    let ids: Vec<_> = after.each_once().into_iter().map(|(id, _)| id).collect();
    if ids.len() > EDGES_OF_OP {
        let text = format!("a step comes after at most {EDGES_OF_OP} tasks");
        return Err(Error::new(ErrorKind::Invalid).because(text));
    }
    Ok(ids)
}

impl<T: ?Sized> Tube<T> {
    /// Starts a move of a task to another tube, or to the back of this one, in any state but Done.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (letters, parcels) = (queue.tube("letters")?, queue.tube("parcels")?);
    /// let id = letters.put(b"heavy")?;
    /// letters.take()?.bury("too heavy")?;
    /// letters.move_to(id, &parcels).apply()?;
    /// assert!(letters.is_empty()?);
    /// assert_eq!(parcels.take()?.id(), id); // it was buried, and is ready
    /// # Ok(())
    /// # }
    /// ```
    pub fn move_to<'a, U: ?Sized>(&'a self, id: TaskId, to: &'a Tube<U>) -> MoveTask<'a, T, U> {
        let (changes, durability) = (Changes::default(), self.durability);
        let (row, extras, payload) = (NewRow::PLAIN, None, None);
        MoveTask { tube: self, to, id, changes, row, extras, payload, durability }
    }

    /// Refuses a tube of another queue than this.
    pub(crate) fn ensure_of(&self, inner: &Arc<QueueInner>) -> Result<()> {
        inner.ensure_owns(&self.inner, || format!("tube {:?}", self.name))
    }

    /// The op that takes over a task from the tube of this number.
    fn receiving<'a>(&self, from: u32, which: Which<'a>, changes: Changes) -> Move<'a> {
        let core = &self.inner.core;
        let others_wait = core.place_waits.has(self.number);
        let puts_wait = core.room.has_waiters(self.number);
        Move { from, to: self.number, which, changes, others_wait, puts_wait, after: None }
    }
}

/// A move of a task, from [`Tube::move_to`]. Nothing happens before [`apply`](MoveTask::apply),
/// which makes the move and all changes in one step.
///
/// The task keeps its id and everything that is not given: its payload, its key, its group, its
/// kind, its details, its tags, its gates, those it comes after. It stands at the back of its
/// priority. Its attempts are 0, its ttl begins again as by [`Task::advance`], and a lease on it is
/// lost. A taken or buried task is ready afterwards; a delayed one keeps the end of its delay.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Queue, State};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let (letters, parcels) = (queue.tube("letters")?, queue.tube("parcels")?);
/// let id = letters.task(b"heavy").priority(3).group("ada").put()?;
/// let moving = letters.move_to(id, &parcels).delay(Duration::from_secs(60));
/// moving.kind("parcel").key("ada 1").tags(["fragile"]).apply()?;
///
/// let task = parcels.peek(id)?;
/// assert_eq!((task.state, task.priority), (State::Delayed, 3));
/// assert_eq!((task.group.as_deref(), task.key.as_deref()), (Some("ada"), Some("ada 1")));
/// assert_eq!(task.kind.as_deref(), Some("parcel"));
/// assert_eq!(task.tags, ["fragile"]);
/// assert_eq!(queue.find(id)?.tube, "parcels");
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is moved before `apply`"]
pub struct MoveTask<'a, T: ?Sized = [u8], U: ?Sized = [u8]> {
    tube: &'a Tube<T>,
    to: &'a Tube<U>,
    id: TaskId,
    changes: Changes,
    /// Its group and its key are read, and its extras, nothing else.
    row: NewRow<'a>,
    /// Usually none.
    extras: Option<Box<Extras<'a>>>,
    payload: Option<NewPayload<'a>>,
    durability: Durability,
}

setters! {
    ['a, T: ?Sized, U: ?Sized] MoveTask<'a, T, U>;

    /// Another priority. Smaller first.
    priority(priority: i64) => changes.priority = Some(priority);

    /// Not before this time has passed, from now on, in [queue time](crate#time); zero: at once.
    delay(delay: Duration) => changes.delay = Some(delay);

    /// Not before this time of day, in [wall time](crate#time), instead of a delay. In the past: at
    /// once.
    run_at(time: SystemTime) => changes.run_at = Some(time);

    /// A new ttl, from now on, in queue time; a delay is added. A microsecond or more.
    ttl(ttl: Duration) => changes.ttl = Some(ttl);

    /// A new ttr. A microsecond or more.
    ttr(ttr: Duration) => changes.ttr = Some(ttr);

    /// The most attempts of this task instead of its tube's; 0: no limit.
    max_attempts(attempts: u32) => changes.retry.max_attempts = Some(attempts);

    /// How long this task waits after a retry, instead of its tube's back-off.
    backoff(backoff: Backoff) => changes.retry.backoff = Some(backoff);

    /// In this [group](crate::NewTask::group) instead of its own.
    group(group: &'a str) => row.group = Some(group);

    /// With this [key](crate::NewTask::key) instead of its own.
    key(key: &'a str) => row.key = Some(key);

    /// With this durability instead of the handle's.
    durability(durability: Durability) => durability = durability;
}

impl<'a, T: ?Sized, U: ?Sized> MoveTask<'a, T, U> {
    /// Of this [kind](crate::NewTask::kind) instead of its own.
    pub fn kind(mut self, kind: &'a str) -> Self {
        self.extras().label(|labels| labels.kind = Some(kind));
        self
    }

    /// Of this [book](crate::NewTask::book) instead of its own.
    pub fn book(mut self, name: &'a str) -> Self {
        self.extras().label(|labels| labels.book = Some(name));
        self
    }

    /// With this [detail](crate::NewTask::detail) too, or instead of its own of this name. Each
    /// call adds one.
    pub fn detail(mut self, name: &'a str, text: &'a str) -> Self {
        self.extras().label(|labels| _ = labels.details.insert(name, text));
        self
    }

    /// With this payload instead of its own; of a tube with a [codec](crate::Tube::with_codec) it
    /// is what [`Tube::encode`] returns. Then the call returns as a [put](Tube::put) does.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (letters, parcels) = (queue.tube("letters")?, queue.tube("parcels")?);
    /// let id = letters.put(b"to ada")?;
    /// letters.move_to(id, &parcels).payload(b"to ada, 3 kg").detail("by", "bob").apply()?;
    /// let task = parcels.take()?;
    /// assert_eq!((task.id(), &task[..]), (id, &b"to ada, 3 kg"[..]));
    /// assert_eq!(parcels.peek(id)?.payload_generation, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn payload(mut self, payload: impl Into<NewPayload<'a>>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// With these [tags](crate::NewTask::tags) instead of its own, perhaps none; each call adds
    /// some. One that it had keeps its time.
    pub fn tags(mut self, tags: impl IntoIterator<Item = &'a str>) -> Self {
        self.extras().add_tags(tags.into_iter());
        self
    }

    /// Requires this [condition](crate::NewTask::require). The first call of this or of
    /// [`throttle`](MoveTask::throttle) takes all gates of its own from the task, each adds one.
    pub fn require(mut self, condition: &'a str) -> Self {
        self.extras().gate(|gates| _ = gates.required.insert(condition));
        self
    }

    /// With a slot of this [throttle](crate::NewTask::throttle) while it is taken. As
    /// [`require`](MoveTask::require) otherwise.
    pub fn throttle(mut self, name: &'a str) -> Self {
        self.extras().gate(|gates| _ = gates.throttles.insert(name));
        self
    }

    fn extras(&mut self) -> &mut Extras<'a> {
        self.extras.get_or_insert_default()
    }

    /// Makes the move.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let letters = queue.tube("letters")?;
    /// let parcels = queue.create_tube("parcels", TubeOptions::default().capacity(1))?;
    /// parcels.put(b"cake")?;
    /// let id = letters.put(b"heavy")?;
    /// let refused = letters.move_to(id, &parcels).priority(-1).apply().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Full);
    /// assert_eq!(letters.peek(id)?.priority, 0); // it is where and as it was
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Task::advance`], and nothing is changed; [`WrongState`](ErrorKind::WrongState) if it is
    /// finished; [`TaskNotFound`](ErrorKind::TaskNotFound); [`WrongTube`](ErrorKind::WrongTube) if
    /// it is in another tube; [`Unsupported`](ErrorKind::Unsupported) for an option that the kind
    /// of the other tube does not allow; [`Invalid`](ErrorKind::Invalid) for a ttl or ttr of less
    /// than a microsecond, a delay together with a `run_at`, and for a group, key, kind, book,
    /// detail, tag or gate that a put refuses; [`TooLarge`](ErrorKind::TooLarge) if the task's row
    /// has no room for its kind, or its details exceed 4 KiB; with tags or a kind also
    /// [`Full`](ErrorKind::Full) at the limit of the temporary tubes; with a payload as
    /// [`WithPayload`](crate::WithPayload) says.
    pub fn apply(self) -> Result<()> {
        let Self { tube, to, id, changes, row, extras, payload, durability } = self;
        let row = NewRow { extras: extras.as_deref(), ..row };
        let done = || {
            to.ensure_of(&tube.inner)?;
            let core = &to.inner.core;
            core.catch_up(to.number)?;
            let op = to.receiving(tube.number, Which::ById(id, &row), changes);
            match payload {
                Some(payload) => core.run_with_payload(&op, core.replacement(payload), durability),
                None => core.run(&op, durability),
            }
        };
        tube.name_task_errors("move", id, done())
    }
}

debug!([T: ?Sized, U: ?Sized] MoveTask<'_, T, U>, "MoveTask", this, "id": &this.id);
