//! Putting several tasks: a batch of payloads or of tasks with options of their own, which is one
//! step, and all tasks of an iterator in groups. A batch never waits for room.

use crate::api::codec::not_encoded;
use crate::api::put::{Backing, Common, NewTask, Payloads};
use crate::api::tube::Tube;
use crate::engine::new_row::{Extras, NewRow};
use crate::runtime::staged_put::StagedPut;
use crate::words::dependency::After;
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::BATCH_TASKS_MAX;
use crate::words::task::TaskId;
use crate::words::verb::Put;
use std::borrow::Borrow;
use std::cell::Cell;

/// The most tasks, and payload bytes in memory, of a group of [`Tube::put_all`].
const GROUP_TASKS: usize = 1024;
const GROUP_BYTES: usize = 1 << 20;

impl<T: ?Sized> Tube<T> {
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
        let payload = payloads.into_iter().take(BATCH_TASKS_MAX + 1).collect();
        NewTask::of(self, payload)
    }

    /// Starts a put of several tasks with options of their own, all or none, in one step. The
    /// options of the batch are for those that a task does not set.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let ids = tube
    ///     .batch_of([
    ///         tube.task(b"later").delay(Duration::from_secs(60)),
    ///         tube.task(b"first").priority(-1).key("ada"),
    ///         tube.task(b"second").group("post"),
    ///     ])
    ///     .ttr(Duration::from_secs(60)) // of all three
    ///     .put()?;
    /// assert_eq!(tube.take()?.id(), ids[1]);
    ///
    /// let wrong = [tube.task(b"fine"), tube.task(b"not").ttl(Duration::ZERO)];
    /// let refused = tube.batch_of(wrong).put().unwrap_err();
    /// assert_eq!((refused.kind(), refused.index()), (ErrorKind::Invalid, Some(1)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch_of<'a>(
        &'a self,
        tasks: impl IntoIterator<Item = NewTask<'a, T>>,
    ) -> NewTask<'a, T, TaskList<'a, T>> {
        let payload = TaskList(tasks.into_iter().take(BATCH_TASKS_MAX + 1).collect());
        NewTask::of(self, payload)
    }

    /// Puts all tasks of an iterator, in groups, with bounded memory: a group has up to 1024 tasks
    /// or 1 MiB of payloads, and is put in one step. Returns how many it has put, after the last of
    /// them is as durable as the handle asks.
    ///
    /// The tasks of a group can be taken while the iterator goes on. If the iterator panics, the
    /// groups before that are put.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let put = tube.put_all((0..5000).map(|number: u32| number.to_string().into_bytes()))?;
    /// assert_eq!((put, tube.len()?), (5000, 5000));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`put`](Tube::put). The groups before it stay: [`Error::tasks_put`] returns how many
    /// tasks they have, except after a sync that failed.
    pub fn put_all<B: Borrow<T>>(&self, payloads: impl IntoIterator<Item = B>) -> Result<u64> {
        let core = &self.inner.core;
        let (mut payloads, mut put, mut last) = (payloads.into_iter(), 0, None);
        let ended = loop {
            let group = match self.name_errors("put", self.next_group(&mut payloads)) {
                Ok(group) if group.0.is_empty() => break Ok(()),
                Ok(group) => group,
                Err(error) => break Err(error),
            };
            let tasks = group.0.len() as u64;
            let batch = NewTask::of(self, group);
            match batch.submit(|_, op| StagedPut::new(core).apply(op)) {
                Ok((_, mark)) => (put, last) = (put + tasks, Some(mark)),
                Err(error) => break Err(error),
            }
        };
        let ended = ended.or_else(|error| core.refused(error, self.durability));
        // What is reported as put is synced, also before an error. After a sync that failed nothing
        // is: which groups are on the disk is not known.
        if let Some(mark) = last.filter(|_| self.durability == Durability::Durable) {
            self.name_errors("put", core.wait(mark))?;
        }
        ended.map_err(|error| error.after_puts(put))?;
        Ok(put)
    }

    /// The next payloads of an iterator, up to the bounds of one group.
    fn next_group<B: Borrow<T>>(
        &self,
        payloads: &mut impl Iterator<Item = B>,
    ) -> Result<PutGroup<B>> {
        let (mut group, mut bytes) = (Vec::new(), 0);
        while group.len() < GROUP_TASKS
            && bytes < GROUP_BYTES
            && let Some(payload) = payloads.next()
        {
            let mut buffer = Vec::new();
            let encoded = (self.coding.encode)(payload.borrow(), &mut buffer);
            bytes += encoded.map_err(not_encoded)?.len();
            group.push(match self.coding.codec {
                0 => Grouped::Own(payload),
                _ => Grouped::Encoded(buffer),
            });
        }
        Ok(PutGroup(group))
    }
}

/// A payload of a group.
enum Grouped<B> {
    /// Of a tube of bytes.
    Own(B),
    /// Of a value, which is not kept.
    Encoded(Vec<u8>),
}

/// The payloads of a group of [`Tube::put_all`], each encoded once.
struct PutGroup<B>(Vec<Grouped<B>>);

impl<T: ?Sized, B: Borrow<T>> Payloads<T> for PutGroup<B> {
    fn rows<R>(
        &self,
        tube: &Tube<T>,
        common: Common<'_>,
        then: impl FnOnce(&[NewRow<'_>]) -> Result<R>,
    ) -> Result<R> {
        let mut backings = Vec::new();
        then(&filled(&self.0, common, &mut backings, |payload, row, backing| {
            let Backing { buffer, place, .. } = backing;
            match payload {
                Grouped::Own(payload) => tube.fill(row, payload.borrow(), (buffer, place))?,
                Grouped::Encoded(bytes) => {
                    row.payload = bytes;
                    (row.codec, row.version) = (tube.coding.codec, tube.coding.version);
                    tube.place(row, place);
                }
            }
            Ok(())
        })?)
    }
}

/// The put of a batch.
// A batch does not wait for room: the single puts of its tube would stand behind it until there is
// room for all of its tasks.
impl<T: ?Sized, B: Borrow<T>> NewTask<'_, T, Vec<B>> {
    /// Puts the tasks in one step, all or none, at most 65 536. Returns their ids in the batch's
    /// order.
    ///
    /// # Errors
    /// As [`put`](NewTask::put) of one task, and then none was put; [`Invalid`](ErrorKind::Invalid)
    /// for more than 65 536.
    pub fn put(self) -> Result<Vec<TaskId>> {
        let durability = self.durability;
        self.submit(|tube, op| {
            let applied = StagedPut::new(&tube.inner.core).apply(op);
            Ok(ids(&tube.inner.core.finish(op, applied, durability)?))
        })
    }
}

/// The tasks of a batch, each with options of its own, from [`Tube::batch_of`].
pub struct TaskList<'a, T: ?Sized = [u8]>(Vec<NewTask<'a, T>>);

impl<T: ?Sized> NewTask<'_, T, TaskList<'_, T>> {
    /// Puts the tasks in one step, all or none, at most 65 536. Returns their ids in the batch's
    /// order; the id of a task that was kept, where its [key](NewTask::key) exists.
    ///
    /// # Errors
    /// As [`put`](NewTask::put) of one task, and then none was put: [`Error::index`] returns which
    /// one was refused. [`Invalid`](ErrorKind::Invalid) for more than 65 536, and for a task of
    /// another tube or one that says how long to wait for room or how durable it is.
    pub fn put(self) -> Result<Vec<TaskId>> {
        self.put_outcomes().map(|done| ids(&done))
    }

    /// Puts the tasks as [`put`](Self::put) does, and returns for each of them what happened to a
    /// task with its key.
    ///
    /// ```
    /// use tubewell::{PutOutcome, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let first = tube.task(b"hello").key("ada").put()?;
    /// let puts = tube
    ///     .batch_of([tube.task(b"again").key("ada"), tube.task(b"hello").key("bob")])
    ///     .put_outcomes()?;
    /// assert_eq!((puts[0].id, puts[0].outcome), (first, PutOutcome::Existing));
    /// assert_eq!(puts[1].outcome, PutOutcome::New);
    /// assert_eq!(tube.len()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_outcomes(self) -> Result<Vec<Put>> {
        let durability = self.durability;
        self.submit(|tube, op| {
            let applied = StagedPut::new(&tube.inner.core).apply(op);
            Ok(tube.inner.core.finish(op, applied, durability)?.into_vec())
        })
    }
}

impl<T: ?Sized> NewTask<'_, T> {
    /// Whether it may be a task of a batch of this tube.
    fn listed(&self, tube: &Tube<T>) -> Result<()> {
        let text = match self {
            _ if *self.tube != *tube => "it is of another tube",
            _ if !self.room.is_none() => "only a single put waits for room",
            _ if self.durability != tube.durability => "the batch has one durability",
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::Invalid).because(text))
    }
}

/// A row of each task of a batch: `common`, which `fill` changes for the task. An error names the
/// task by its index.
fn filled<'a, I>(
    tasks: &'a [I],
    (mut common, extras): Common<'a>,
    backings: &'a mut Vec<Backing<'a>>,
    fill: impl Fn(&'a I, &mut NewRow<'a>, &'a mut Backing<'a>) -> Result<()>,
) -> Result<Vec<NewRow<'a>>> {
    common.extras = extras;
    backings.resize_with(tasks.len(), Backing::default);
    let mut rows = Vec::with_capacity(tasks.len());
    for (task, backing) in tasks.iter().zip(backings) {
        let mut row = common;
        fill(task, &mut row, backing).map_err(|error| error.at_index(rows.len()))?;
        rows.push(row);
    }
    Ok(rows)
}

impl<T: ?Sized, B: Borrow<T>> Payloads<T> for Vec<B> {
    fn rows<R>(
        &self,
        tube: &Tube<T>,
        common: Common<'_>,
        then: impl FnOnce(&[NewRow<'_>]) -> Result<R>,
    ) -> Result<R> {
        let mut backings = Vec::new();
        then(&filled(self, common, &mut backings, |payload, row, backing| {
            tube.fill(row, payload.borrow(), (&mut backing.buffer, &mut backing.place))
        })?)
    }
}

impl<T: ?Sized> Payloads<T> for TaskList<'_, T> {
    fn is_after_any(&self) -> bool {
        self.0.iter().any(|task| task.extras.as_deref().is_some_and(Extras::is_after_any))
    }

    fn add_earlier(&self, ids: &mut Vec<TaskId>) {
        let extras = self.0.iter().filter_map(|task| task.extras.as_deref());
        extras.for_each(|extras| extras.add_earlier(ids));
    }

    fn rows<R>(
        &self,
        tube: &Tube<T>,
        common: Common<'_>,
        then: impl FnOnce(&[NewRow<'_>]) -> Result<R>,
    ) -> Result<R> {
        let (mut backings, edges) = (Vec::new(), Cell::new(0));
        then(&filled(&self.0, common, &mut backings, |task, row, backing| {
            task.listed(tube)?;
            let Backing { buffer, place, extras } = backing;
            *row = task.row.or(row);
            let own = task.extras.as_deref();
            row.extras = match (own, row.extras) {
                (Some(own), Some(common)) => {
                    let both = extras.insert(own.or(common));
                    // Each has a copy of the common ones, so that too many are refused before they
                    // are copied.
                    edges.set(edges.get() + both.edges());
                    After::ensure_fit_batch(edges.get())?;
                    Some(both)
                }
                (own, common) => own.or(common),
            };
            if let Some(own) = task.extras.as_deref() {
                own.check_after()?;
            }
            task.tube.fill(row, task.payload, (buffer, place))
        })?)
    }
}

pub(crate) fn ids(done: &[Put]) -> Vec<TaskId> {
    done.iter().map(|done| done.id).collect()
}
