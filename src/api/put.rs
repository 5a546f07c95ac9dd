//! Putting tasks: the plain verb, the builder with every option, batches, and receipts.

use crate::api::codec::Coding;
use crate::api::placement::{Place, PutView};
use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
use crate::engine::put::{NewRow, PutDone};
use crate::engine::{Op, put};
use crate::runtime::core::Wait;
use crate::runtime::group_commit::Mark;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::BATCH_TASKS_MAX;
use crate::words::options::Durability;
use crate::words::stop::Stop;
use crate::words::sync::Arc;
use crate::words::task::TaskId;
use crate::words::verb::{Conflict, PutOutcome};
use std::borrow::Borrow;
use std::fmt;
use std::slice;
use std::time::{Duration, SystemTime};

/// The result of a put: what it did, and to which task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Put {
    /// The task: the new one, or the existing one that was kept.
    pub id: TaskId,
    /// What the put did.
    pub outcome: PutOutcome,
}

impl<T: ?Sized> Tube<T> {
    /// Puts a task after all others of its priority. The payload is only borrowed, so after a
    /// refusal the caller still has it.
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
    /// # Errors
    /// As [`put`](Tube::put); [`Unsupported`](ErrorKind::Unsupported) if the tube has a placement.
    pub fn put_front(&self, payload: &T) -> Result<TaskId> {
        self.task(payload).front().put()
    }

    /// Puts several tasks in one step, all or none, at most 65 536.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let ids = tube.put_many([b"a".to_vec(), b"b".to_vec(), b"c".to_vec()])?;
    /// assert_eq!((ids.len(), tube.len()?), (3, 3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`put`](Tube::put), and then none was put; [`Invalid`](ErrorKind::Invalid) for more than
    /// 65 536.
    pub fn put_many<B: Borrow<T>>(
        &self,
        payloads: impl IntoIterator<Item = B>,
    ) -> Result<Vec<TaskId>> {
        self.batch(payloads).put()
    }

    /// Puts a task and does not wait for the sync; [`Receipt::wait`] does.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let receipt = tube.put_receipt(b"hello")?; // already to be taken
    /// assert_eq!(receipt.id(), tube.take()?.id());
    /// receipt.wait()?; // from here on no power cut takes the put back
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
        self.begin(payload)
    }

    /// Starts a put of several tasks with common options. `key`, `front` and `wait_for_room` exist
    /// for a single task only: a batch does not wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"one")?;
    /// let urgent = tube
    ///     .batch([b"two".to_vec(), b"three".to_vec()])
    ///     .priority(-1) // smaller first
    ///     .ttr(Duration::from_secs(60))
    ///     .put()?;
    /// assert_eq!(tube.take()?.id(), urgent[0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch<B: Borrow<T>>(
        &self,
        payloads: impl IntoIterator<Item = B>,
    ) -> NewTask<'_, T, Vec<B>> {
        // One more than the limit, so that an endless iterator is refused.
        self.begin(payloads.into_iter().take(BATCH_TASKS_MAX + 1).collect())
    }

    #[inline]
    fn begin<P>(&self, payload: P) -> NewTask<'_, T, P> {
        let row = NewRow::default();
        NewTask { tube: self, payload, row, durability: self.durability, room: Wait::No }
    }

    /// Writes the encoded payload and the codec's number and version into a row.
    #[inline]
    fn fill<'a>(
        &self,
        row: &mut NewRow<'a>,
        payload: &'a T,
        buffer: &'a mut Vec<u8>,
    ) -> Result<()> {
        let Coding { codec, version, encode, .. } = self.coding;
        row.payload = encode(payload, buffer)
            .map_err(|cause| Error::new(ErrorKind::Codec).caused_by(cause))?;
        (row.codec, row.version) = (codec, version);
        Ok(())
    }

    /// Calls the tube's placement, if the tube has one and it is registered.
    #[inline]
    fn place(&self, row: &NewRow<'_>) -> Result<Option<Place>> {
        let Some(name) = &self.at.placement else { return Ok(None) };
        let placement = self.hold.settings.placements.get(&**name);
        Ok(placement.map(|placement| placement.place(&PutView::of(row))))
    }

    #[inline]
    fn op<'a>(&self, tasks: &'a [NewRow<'a>]) -> put::PutTasks<'a> {
        let payload_bytes_max = self.hold.settings.payload_bytes_max;
        let durable_bytes_max = self.hold.core().settings.durable_bytes_max;
        put::PutTasks { tube: self.at.number, tasks, payload_bytes_max, durable_bytes_max }
    }
}

/// A put with options: of one task, from [`Tube::task`], or of a `Vec` of them, from
/// [`Tube::batch`]. Nothing happens before a call of [`put`](NewTask::put),
/// [`put_outcome`](NewTask::put_outcome), [`put_receipt`](NewTask::put_receipt) or
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
/// assert_ne!(again.id, first);
/// assert_eq!(tube.len()?, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is put before `put`"]
pub struct NewTask<'a, T: ?Sized = [u8], P = &'a T> {
    tube: &'a Tube<T>,
    payload: P,
    row: NewRow<'a>,
    durability: Durability,
    room: Wait<'a>,
}

/// Options of a single task and of a batch.
impl<'a, T: ?Sized, P> NewTask<'a, T, P> {
    /// The priority. Smaller first. Default: the tube's, see
    /// [`TubeOptions::priority`](crate::TubeOptions::priority).
    pub fn priority(mut self, priority: i64) -> Self {
        self.row.priority = Some(priority);
        self
    }

    /// Ready after this time, in [queue time](crate#time). Zero: at once. The delay is added to the
    /// ttl. `Duration::MAX`: the delay has no end.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.row.delay = Some(delay);
        self
    }

    /// Ready at this time of day, in [wall time](crate#time). In the past: at once. The time from
    /// the put until then, by the clock at the put, is added to the ttl. If the clock is set
    /// afterwards, that changes when the task becomes ready, but not the end of its ttl.
    pub fn run_at(mut self, time: SystemTime) -> Self {
        self.row.run_at = Some(time);
        self
    }

    /// How long it lives in [queue time](crate#time), delays not counted. At the end it is removed,
    /// in any state. At least one microsecond. Default: the tube's.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.row.ttl = Some(ttl);
        self
    }

    /// How long a taker may hold it in [lease time](crate#time). After that it returns to its
    /// place, and the attempt counts. At least one microsecond. Default: the tube's.
    pub fn ttr(mut self, ttr: Duration) -> Self {
        self.row.ttr = Some(ttr);
        self
    }

    /// Puts it into this group. The tasks of a group are taken in order and one at a time, unless
    /// the tube sets [`in_flight`](crate::TubeOptions::in_flight). 1 to 255 bytes without control
    /// characters.
    pub fn group(mut self, group: &'a str) -> Self {
        self.row.group = Some(group);
        self
    }

    /// With this durability instead of the handle's.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Makes the op and passes it to `run`.
    pub(crate) fn submit<R>(
        self,
        carry_out: impl FnOnce(&Tube<T>, &put::PutTasks<'_>) -> Result<R>,
    ) -> Result<R>
    where
        P: Payloads<T>,
    {
        let Self { tube, payload, row, .. } = self;
        let done = payload.rows(tube, row, |rows| carry_out(tube, &tube.op(rows)));
        tube.name_errors("put", done)
    }
}

/// Options of a single task.
impl<'a, T: ?Sized> NewTask<'a, T> {
    /// Sets the caller's own key. One task of the tube can have it as long as that task exists,
    /// also while it is buried: a task that failed finally keeps its key until it is kicked,
    /// deleted or replaced. 1 to 255 bytes without control characters.
    pub fn key(mut self, key: &'a str) -> Self {
        self.row.key = Some(key);
        self
    }

    /// What to do if a task with the key exists. Default: [`Conflict::Keep`].
    pub fn on_conflict(mut self, conflict: Conflict) -> Self {
        self.row.conflict = conflict;
        self
    }

    /// Before all others of its priority, also before earlier front puts. A tube with a
    /// [placement](crate::TubeOptions::placement) refuses it, because the placement decides the
    /// order.
    pub fn front(mut self) -> Self {
        self.row.front = true;
        self
    }

    /// Waits at most this long, in [lease time](crate#time), while the tube is at its capacity, or
    /// all [durable](crate::Builder::durable_bytes_max) or all
    /// [temporary](crate::Builder::temporary_bytes_max) tubes are at their limit. Default: no wait.
    pub fn wait_for_room(mut self, timeout: Duration) -> Self {
        self.room = Wait::For(timeout);
        self
    }

    /// Waits for room like [`wait_for_room`](NewTask::wait_for_room), until [`stop`](Stop::stop) is
    /// called. After that the put is refused where it would wait.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue, Stop, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().capacity(1))?;
    /// tube.put(b"a")?;
    /// let stop = Stop::new();
    /// let waiting = std::thread::spawn({
    ///     let (tube, stop) = (tube.clone(), stop.clone());
    ///     move || tube.task(b"b").wait_for_room_until(&stop).put()
    /// });
    /// stop.stop();
    /// assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Full);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_for_room_until(mut self, stop: &'a Stop) -> Self {
        self.room = Wait::Until(stop);
        self
    }

    /// Puts the task.
    ///
    /// # Errors
    /// As [`Tube::put`]; [`KeyExists`](ErrorKind::KeyExists) under [`Conflict::Reject`];
    /// [`Unsupported`](ErrorKind::Unsupported) for an option that the tube's kind does not allow,
    /// and for the front of a tube with a placement; [`Invalid`](ErrorKind::Invalid) for a ttl
    /// or ttr of less than a microsecond, delay together with run_at, and a group or key that is
    /// empty, too long or has control characters.
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
            one(&tube.hold.core().finish(op, apply(tube, op, room), durability)?)
        })
    }

    /// Puts the task and does not wait for the sync; [`Receipt::wait`] does, also with relaxed
    /// durability. A refusal is returned at once, as by [`put`](NewTask::put).
    ///
    /// # Errors
    /// As [`put`](NewTask::put).
    pub fn put_receipt(self) -> Result<Receipt> {
        let (durability, room) = (self.durability, self.room);
        self.submit(|tube, op| {
            let core = tube.hold.core();
            let applied = apply(tube, op, room);
            let (done, mark) = applied.or_else(|error| core.refused(error, durability))?;
            Ok(Receipt { hold: tube.hold.clone(), put: one(&done)?, mark })
        })
    }
}

/// The put of a batch.
// A batch does not wait for room. A wake-up is for room of a single task: a batch would use it up
// without a put, and the waiters after it would not be woken.
impl<T: ?Sized, B: Borrow<T>> NewTask<'_, T, Vec<B>> {
    /// Puts the tasks in one step, all or none, at most 65 536. Returns their ids in the batch's
    /// order.
    ///
    /// # Errors
    /// As [`put`](NewTask::put) of one task, and then none was put; [`Invalid`](ErrorKind::Invalid)
    /// for more than 65 536.
    pub fn put(self) -> Result<Vec<TaskId>> {
        let durability = self.durability;
        self.submit(|tube, op| Ok(ids(&tube.hold.core().run(op, durability)?)))
    }
}

/// The payload or payloads of a put.
pub(crate) trait Payloads<T: ?Sized> {
    /// Makes a row of each payload with the common options, and passes them to `then`.
    fn rows<R>(
        &self,
        tube: &Tube<T>,
        common: NewRow<'_>,
        then: impl FnOnce(&[NewRow<'_>]) -> Result<R>,
    ) -> Result<R>;
}

impl<T: ?Sized> Payloads<T> for &T {
    fn rows<R>(
        &self,
        tube: &Tube<T>,
        common: NewRow<'_>,
        then: impl FnOnce(&[NewRow<'_>]) -> Result<R>,
    ) -> Result<R> {
        // A row that lives as long as the payload that it borrows.
        let mut row: NewRow<'_> = common;
        let mut buffer = Vec::new();
        tube.fill(&mut row, self, &mut buffer)?;
        let place = tube.place(&row)?;
        row.placed = place.as_ref().map(Place::placed);
        then(slice::from_ref(&row))
    }
}

impl<T: ?Sized, B: Borrow<T>> Payloads<T> for Vec<B> {
    fn rows<R>(
        &self,
        tube: &Tube<T>,
        common: NewRow<'_>,
        then: impl FnOnce(&[NewRow<'_>]) -> Result<R>,
    ) -> Result<R> {
        let mut buffers: Vec<Vec<u8>> = Vec::new();
        buffers.resize_with(self.len(), Vec::new);
        let mut rows = Vec::with_capacity(self.len());
        for (payload, buffer) in self.iter().zip(&mut buffers) {
            let mut row: NewRow<'_> = common;
            tube.fill(&mut row, payload.borrow(), buffer)?;
            rows.push(row);
        }
        let places = rows.iter().map(|row| tube.place(row)).collect::<Result<Vec<_>>>()?;
        for (row, place) in rows.iter_mut().zip(&places) {
            row.placed = place.as_ref().map(Place::placed);
        }
        then(&rows)
    }
}

/// Runs the put, and again after each wake-up, until it succeeds or its wait ends.
#[inline]
fn apply<T: ?Sized>(
    tube: &Tube<T>,
    op: &put::PutTasks<'_>,
    room: Wait<'_>,
) -> Result<(<put::PutTasks<'static> as Op>::Done, Mark)> {
    let core = tube.hold.core();
    let mut full = None;
    let mut attempt = || match core.apply(op) {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == ErrorKind::Full => {
            full = Some(error);
            Ok(None)
        }
        Err(error) => Err(error),
    };
    let done = match attempt()? {
        Some(done) => Some(done),
        None => core.wait_for(&core.room, tube.at.number, 0, room, attempt)?,
    };
    done.ok_or_else(|| full.unwrap_or_else(|| Error::new(ErrorKind::Full)))
}

#[inline]
pub(crate) fn one(done: &[PutDone]) -> Result<Put> {
    match done.first() {
        Some(PutDone { id, outcome }) => Ok(Put { id: *id, outcome: *outcome }),
        // One row gives one result, so this is not reached.
        None => Err(Error::new(ErrorKind::Broken)),
    }
}

pub(crate) fn ids(done: &[PutDone]) -> Vec<TaskId> {
    done.iter().map(|done| done.id).collect()
}

/// A put that is written and can be taken, but may not be synced yet. Dropping the receipt does not
/// undo the put.
///
/// ```
/// use tubewell::{Queue, Receipt, Result};
///
/// # fn main() -> Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("work.queue");
/// let queue = Queue::open(&path)?;
/// let tube = queue.tube("letters")?;
/// let receipts: Result<Vec<Receipt>> = (0..100).map(|_| tube.put_receipt(b"hello")).collect();
/// let mut receipts = receipts?;
/// receipts.pop().unwrap().wait()?;
/// assert!(receipts.iter().all(Receipt::is_synced)); // one sync covers all that was put before
/// # Ok(())
/// # }
/// ```
#[must_use = "the put is not known to be synced before `wait`"]
pub struct Receipt {
    hold: Arc<QueueInner>,
    put: Put,
    mark: Mark,
}

impl Receipt {
    /// The task.
    pub fn id(&self) -> TaskId {
        self.put.id
    }

    /// What happened to a task with the same key.
    pub fn outcome(&self) -> PutOutcome {
        self.put.outcome
    }

    /// Whether the put is known to be synced.
    pub fn is_synced(&self) -> bool {
        self.hold.core().gate.is_synced(self.mark)
    }

    /// Waits until the put is synced.
    ///
    /// # Errors
    /// [`Unknown`](ErrorKind::Unknown), naming the task, if the sync failed.
    pub fn wait(self) -> Result<TaskId> {
        let id = self.put.id;
        let waited = self.hold.core().wait(self.mark);
        waited.map_err(|error| error.during("put").on_task(id).with_tasks(vec![id]))?;
        Ok(id)
    }
}

impl<T: ?Sized, P> fmt::Debug for NewTask<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewTask").field("tube", &self.tube.at.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("put", &self.put).finish_non_exhaustive()
    }
}
