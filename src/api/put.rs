//! Putting a task: the plain verb, and the builder with every option.

use crate::api::codec::{Coding, not_encoded};
use crate::api::placement::{Place, PutView};
use crate::api::receipt::Receipt;
use crate::api::tube::Tube;
use crate::engine::dependencies::FoundTasks;
use crate::engine::linked::Earlier;
use crate::engine::new_row::{Extras, NewRow};
use crate::engine::put::PutTasks;
use crate::runtime::group_commit::Mark;
use crate::runtime::staged_put::{PutsDone, StagedPut};
use crate::words::backoff::Backoff;
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::macros::{debug, setters};
#[cfg(doc)]
use crate::words::options::TubeOptions;
use crate::words::sync::Ordering;
use crate::words::task::TaskId;
#[cfg(doc)]
use crate::words::verb::Conflict;
use crate::words::verb::Put;
use crate::words::wait::Wait;
use std::slice;
use std::time::{Duration, SystemTime};

impl<T: ?Sized> Tube<T> {
    /// Puts a task after all others of its priority. The payload is only borrowed, so after a
    /// refusal the caller still has it.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// assert_eq!(tube.peek(id)?.payload, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) above the queue's payload limit;
    /// [`Full`](ErrorKind::Full) at the tube's capacity, or at the limit of all
    /// [durable](crate::Builder::durable_bytes_max) or
    /// [temporary](crate::Builder::temporary_bytes_max) tubes; [`Codec`](ErrorKind::Codec) if the
    /// value cannot be encoded; [`DriverMissing`](ErrorKind::DriverMissing) without the tube's
    /// placement; [`Invalid`](ErrorKind::Invalid) for a [`Place`](crate::Place) with more than 16
    /// bytes or an invalid group name; [`DiskFull`](ErrorKind::DiskFull);
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if it was dropped; [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction); [`Unknown`](ErrorKind::Unknown) if the sync
    /// failed.
    pub fn put(&self, payload: &T) -> Result<TaskId> {
        self.task(payload).put()
    }

    /// Puts a task before all others of its priority, also before earlier front puts.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"to ada")?;
    /// tube.put_front(b"to bob")?;
    /// assert_eq!(&tube.take()?[..], b"to bob");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`put`](Tube::put); [`Unsupported`](ErrorKind::Unsupported) if the tube has a placement.
    pub fn put_front(&self, payload: &T) -> Result<TaskId> {
        self.task(payload).front().put()
    }

    /// Puts a task and does not wait for the sync; [`Receipt::wait`] does.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let receipt = tube.put_receipt(b"hello")?; // it can be taken already
    /// assert_eq!(receipt.id(), tube.take()?.id());
    /// receipt.wait()?; // from here on no power cut undoes the put
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`NewTask::put_receipt`].
    pub fn put_receipt(&self, payload: &T) -> Result<Receipt> {
        self.task(payload).put_receipt()
    }

    /// Starts a put with options.
    pub fn task<'a>(&'a self, payload: &'a T) -> NewTask<'a, T> {
        NewTask::of(self, payload)
    }
}

impl<T: ?Sized> Tube<T> {
    /// Writes the encoded payload into a row, and its place.
    #[inline]
    pub(super) fn fill<'a>(
        &self,
        row: &mut NewRow<'a>,
        payload: &'a T,
        (buffer, place): (&'a mut Vec<u8>, &'a mut Option<Place>),
    ) -> Result<()> {
        let Coding { codec, version, encode, .. } = self.coding;
        row.payload = encode(payload, buffer).map_err(not_encoded)?;
        (row.codec, row.version) = (codec, version);
        self.place(row, place);
        Ok(())
    }

    /// Writes its place into a row, if the tube has a placement and it is registered.
    #[inline(always)]
    pub(super) fn place<'a>(&self, row: &mut NewRow<'a>, place: &'a mut Option<Place>) {
        if let Some(name) = &self.placement
            && let Some(placement) = self.inner.placements.get(&**name)
        {
            let found = placement.place(&PutView::of(row));
            row.placed = Some(place.insert(found).placed());
        }
    }
}

/// What a row borrows besides the caller's payload.
#[derive(Default)]
pub(super) struct Backing<'a> {
    pub(super) buffer: Vec<u8>,
    pub(super) place: Option<Place>,
    pub(super) extras: Option<Extras<'a>>,
}

/// A put with options: of one task, from [`Tube::task`], of a `Vec` of payloads, from
/// [`Tube::batch`], or of tasks with options of their own, from [`Tube::batch_of`]. Nothing happens
/// before a call of [`put`](NewTask::put), [`put_outcome`](NewTask::put_outcome),
/// [`put_outcomes`](NewTask::put_outcomes), [`put_receipt`](NewTask::put_receipt) or
/// [`put_in`](NewTask::put_in). An option that the tube's kind does not allow is refused.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Conflict, PutOutcome, Queue};
///
/// # fn main() -> tubewell::Result<()> {
/// let tube = Queue::in_memory()?.tube("letters")?;
/// let first = tube.task(b"draft").key("letter to ada").group("ada").put()?;
/// let again = tube
///     .task(b"final")
///     .key("letter to ada")
///     .on_conflict(Conflict::Replace)
///     .priority(-5) // smaller first
///     .delay(Duration::from_secs(30))
///     .ttl(Duration::from_secs(3600)) // the delay is added
///     .ttr(Duration::from_secs(60))
///     .put_outcome()?;
/// assert_eq!(again.outcome, PutOutcome::Replaced);
/// assert_eq!(again.id, first);
/// assert_eq!(tube.len()?, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is put before `put`"]
pub struct NewTask<'a, T: ?Sized = [u8], P = &'a T> {
    pub(super) tube: &'a Tube<T>,
    pub(super) payload: P,
    pub(super) row: NewRow<'a>,
    /// Usually none.
    pub(super) extras: Option<Box<Extras<'a>>>,
    pub(super) durability: Durability,
    pub(super) room: Wait<'a>,
}

// What one task and a batch have in common.
setters! {
    ['a, T: ?Sized, P] NewTask<'a, T, P>;

    /// Smaller first. Default: the tube's, which is 0 unless it was made with another.
    priority(priority: i64) => row.priority = Some(priority);

    /// Not before this time has passed, in [queue time](crate#time). Zero: at once. It is added to
    /// the ttl. `Duration::MAX`: never by itself, and without a ttl.
    delay(delay: Duration) => row.delay = Some(delay);

    /// Not before this time of day, in [wall time](crate#time). In the past: at once. The time from
    /// the put until then, by the clock as it is at the put, is added to the ttl. A clock that is
    /// set afterwards moves the start of the task, not its end.
    run_at(time: SystemTime) => row.run_at = Some(time);

    /// How long it lives in [queue time](crate#time), delays not counted; then it is removed, in
    /// every state. A microsecond or more. Default: the tube's, which is without end unless it was
    /// made with another.
    ttl(ttl: Duration) => row.ttl = Some(ttl);

    /// How long a taker may hold it in [lease time](crate#time); then it returns to its place, and
    /// the attempt counts. A microsecond or more. Default: the tube's, which is without end unless
    /// it was made with another.
    ttr(ttr: Duration) => row.ttr = Some(ttr);

    /// In this group, whose tasks are taken in order and, unless the tube
    /// [says otherwise](crate::TubeOptions::in_flight), one at a time. 1 to 255 bytes without
    /// control characters.
    group(group: &'a str) => row.group = Some(group);

    /// With this durability instead of the handle's.
    durability(durability: Durability) => durability = durability;
}

impl<'a, T: ?Sized, P> NewTask<'a, T, P> {
    /// Without options.
    #[inline(always)]
    pub(super) fn of(tube: &'a Tube<T>, payload: P) -> Self {
        let (row, extras) = (NewRow::PLAIN, tube.kind.as_deref().map(Extras::of_kind));
        Self { tube, payload, row, extras, durability: tube.durability, room: Wait::NO }
    }

    /// Of this kind, a short name by which listings tell tasks apart. 1 to 255 bytes
    /// without control characters. Default: the [handle's](Tube::kind), which is none unless it was
    /// given one.
    pub fn kind(mut self, kind: &'a str) -> Self {
        self.extras.get_or_insert_default().label(|labels| labels.kind = Some(kind));
        self
    }

    /// Belongs to this book: the name of the place where the application keeps what the task works
    /// on. 1 to 255 bytes without control characters. Default: [its tube's](TubeOptions::book).
    pub fn book(mut self, name: &'a str) -> Self {
        self.extras.get_or_insert_default().label(|labels| labels.book = Some(name));
        self
    }

    /// Adds a named text, which [`Task::details`](crate::Task::details) returns beside those [of
    /// its tube](TubeOptions::detail), where there is an example. Of one name the last one counts.
    /// A name has 1 to 255 bytes without control characters; all details of a task have at most
    /// 4 KiB, with three bytes for each.
    pub fn detail(mut self, name: &'a str, text: &'a str) -> Self {
        let extras = self.extras.get_or_insert_default();
        extras.label(|labels| _ = labels.details.insert(name, text));
        self
    }

    /// The most attempts of this task, instead of its tube's: a take counts as one, and after the
    /// last one fails it is buried as exhausted. 0: no limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Backoff, Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.task(b"hello").max_attempts(2).backoff(Backoff::NONE).put()?;
    /// tube.take()?.retry("no answer")?;
    /// tube.take()?.retry("still no answer")?;
    /// assert_eq!(tube.peek_next(State::Buried)?.unwrap().max_attempts, Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.extras.get_or_insert_default().retry.max_attempts = Some(attempts);
        self
    }

    /// How often this task may be tried again after its first attempt: as
    /// [`max_attempts`](NewTask::max_attempts) of one more.
    pub fn retries(self, retries: u32) -> Self {
        self.max_attempts(retries.saturating_add(1))
    }

    /// How long this task waits after a [`retry`](crate::Lease::retry), instead of its tube's
    /// back-off.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.extras.get_or_insert_default().retry.backoff = Some(backoff);
        self
    }

    /// Makes the op and passes it to the function that runs it.
    pub(crate) fn submit<R>(
        self,
        carry_out: impl FnOnce(&Tube<T>, &PutTasks<'_>) -> Result<R>,
    ) -> Result<R>
    where
        P: Payloads<T>,
    {
        let core = &self.tube.inner.core;
        self.submit_after(|ids| core.find_all(ids), carry_out)
    }

    /// The same; the tasks that it comes after are found so.
    pub(crate) fn submit_after<R>(
        self,
        find: impl FnOnce(&[TaskId]) -> Result<FoundTasks>,
        carry_out: impl FnOnce(&Tube<T>, &PutTasks<'_>) -> Result<R>,
    ) -> Result<R>
    where
        P: Payloads<T>,
    {
        let is_own = self.extras.as_deref().is_some_and(Extras::is_after_any);
        let earlier = match is_own || self.payload.is_after_any() {
            false => None,
            true => Some(self.find_earlier(find)?),
        };
        let earlier = earlier.as_deref();
        let Self { tube, payload, row, extras, .. } = self;
        let done = payload.rows(tube, (row, extras.as_deref()), |tasks| {
            let op = PutTasks {
                tube: tube.number,
                tasks,
                is_batch: P::IS_BATCH,
                staged: &[],
                payload_bytes_max: tube.inner.core.live.payload_bytes_max.load(Ordering::Relaxed),
                durable_bytes_max: tube.inner.core.live.durable_bytes_max.load(Ordering::Relaxed),
                others_wait: tube.inner.core.room.has_waiters(tube.number),
                earlier,
            };
            carry_out(tube, &op)
        });
        tube.name_errors("put", done)
    }

    #[cold]
    #[inline(never)]
    fn find_earlier(
        &self,
        find: impl FnOnce(&[TaskId]) -> Result<FoundTasks>,
    ) -> Result<Box<Earlier>>
    where
        P: Payloads<T>,
    {
        // Here, because it looks at all of them, and the engine's lock is not held.
        self.extras.as_deref().map_or(Ok(()), Extras::check_after)?;
        let ids = earlier(self.extras.as_deref(), &self.payload);
        let found = self.tube.name_errors("put", find(&ids))?;
        Ok(Box::new(Earlier { found, linked: None }))
    }
}

/// The tasks that those of a put come after.
#[cold]
fn earlier<T: ?Sized>(common: Option<&Extras<'_>>, own: &impl Payloads<T>) -> Vec<TaskId> {
    let mut ids = Vec::new();
    common.into_iter().for_each(|common| common.add_earlier(&mut ids));
    own.add_earlier(&mut ids);
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl<'a, T: ?Sized> NewTask<'a, T> {
    /// Puts the task.
    ///
    /// # Errors
    /// As [`Tube::put`]; [`KeyExists`](ErrorKind::KeyExists) under [`Conflict::Reject`];
    /// [`TaskNotFound`](ErrorKind::TaskNotFound) if there is no task that [must
    /// exist](NewTask::must_exist); [`WrongState`](ErrorKind::WrongState) for a payload that is too
    /// large for one step, if its key led to another task each time it was written;
    /// [`Unsupported`](ErrorKind::Unsupported) for an option that the tube's kind does not allow,
    /// and, in a tube with a placement, for the front and for a key whose task would come from
    /// another tube; [`Invalid`](ErrorKind::Invalid) for a ttl or ttr of less than a microsecond,
    /// delay together with run_at, a group, key, kind, book, gate or name of a detail that is
    /// empty, too long or has control characters, too many gates, a tag that is no name, and a task
    /// that must exist without a key or with [`Conflict::Debounce`];
    /// [`TooLarge`](ErrorKind::TooLarge) for more [tags](NewTask::tags) than a task may have and
    /// for details above 4 KiB, of a batch also for those of a task with those of the batch, and of
    /// a task that is put again with its own. With tasks that it comes [after](NewTask::after) as
    /// said there.
    pub fn put(self) -> Result<TaskId> {
        self.put_outcome().map(|put| put.id)
    }

    /// Puts the task and returns what happened to a task with its key.
    ///
    /// # Errors
    /// As [`put`](NewTask::put).
    pub fn put_outcome(self) -> Result<Put> {
        let (durability, room) = (self.durability, self.room);
        self.submit(|tube, op| {
            one(&tube.inner.core.finish(op, apply(tube, op, room), durability)?)
        })
    }

    /// Puts the task and does not wait for the sync; [`Receipt::wait`] does, also with relaxed
    /// durability. A refusal is returned at once, as by [`put`](NewTask::put).
    ///
    /// # Errors
    /// As [`put`](NewTask::put).
    pub fn put_receipt(self) -> Result<Receipt> {
        let (durability, room, inner) = (self.durability, self.room, &self.tube.inner);
        let (put, mark) = self.submit(|tube, op| {
            let core = &tube.inner.core;
            let applied = apply(tube, op, room);
            let (done, mark) = applied.or_else(|error| core.refused(error, durability))?;
            Ok((one(&done)?, mark))
        })?;
        Ok(Receipt { inner: inner.clone(), put, mark })
    }
}

/// What the tasks of a put have in common.
pub(super) type Common<'a> = (NewRow<'a>, Option<&'a Extras<'a>>);

/// The payload or payloads of a put.
pub(crate) trait Payloads<T: ?Sized> {
    const IS_BATCH: bool = true;

    /// Whether one of them comes after others by options of its own.
    #[inline]
    fn is_after_any(&self) -> bool {
        false
    }

    /// Adds the tasks that they come after so.
    fn add_earlier(&self, ids: &mut Vec<TaskId>) {
        let _ = ids;
    }

    /// Makes a row of each payload with the common options, and passes them to `then`.
    fn rows<R>(
        &self,
        tube: &Tube<T>,
        common: Common<'_>,
        then: impl FnOnce(&[NewRow<'_>]) -> Result<R>,
    ) -> Result<R>;
}

impl<T: ?Sized> Payloads<T> for &T {
    const IS_BATCH: bool = false;

    fn rows<R>(
        &self,
        tube: &Tube<T>,
        common: Common<'_>,
        then: impl FnOnce(&[NewRow<'_>]) -> Result<R>,
    ) -> Result<R> {
        let mut backing = Backing::default();
        // A row that lives as long as the payload that it borrows.
        let mut row: NewRow<'_> = common.0;
        row.extras = common.1;
        tube.fill(&mut row, self, (&mut backing.buffer, &mut backing.place))?;
        then(slice::from_ref(&row))
    }
}

/// Runs the put. If it finds no room it may wait.
#[inline]
fn apply<T: ?Sized>(tube: &Tube<T>, op: &PutTasks<'_>, room: Wait<'_>) -> Result<(PutsDone, Mark)> {
    let mut put = StagedPut::new(&tube.inner.core);
    match put.apply(op) {
        Err(error) if error.kind() == ErrorKind::Full => put.wait_for_room(op, room, error),
        done => done,
    }
}

#[inline]
pub(crate) fn one(done: &[Put]) -> Result<Put> {
    // One row in, one answer out.
    done.first().copied().ok_or_else(|| Error::new(ErrorKind::Broken))
}

debug!([T: ?Sized, P] NewTask<'_, T, P>, "NewTask", this, "tube": &this.tube.name);
