//! A copy of a task: one read of it, and a put. Neither changes the task.

use crate::api::placement::Place;
use crate::api::put::{Common, NewTask, Payloads, one};
use crate::api::tube::Tube;
use crate::engine::copy::Original;
use crate::engine::new_row::NewRow;
use crate::engine::query;
use crate::runtime::staged_put::StagedPut;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::TaskId;
use std::slice;

/// A payload of a task that another put has encoded, in the row of the copy.
struct Copied<'a>(NewRow<'a>);

impl<T: ?Sized> Payloads<T> for Copied<'_> {
    const IS_BATCH: bool = false;

    fn rows<R>(
        &self,
        tube: &Tube<T>,
        (_, extras): Common<'_>,
        then: impl FnOnce(&[NewRow<'_>]) -> Result<R>,
    ) -> Result<R> {
        let mut place: Option<Place> = None;
        let mut row = NewRow { extras, ..self.0 };
        tube.place(&mut row, &mut place);
        then(slice::from_ref(&row))
    }
}

impl<T: ?Sized> Tube<T> {
    /// Puts a new task into a tube, which may be this one, with what another task has been given:
    /// its payload, priority, group, ttl, ttr, limit of attempts, back-off, gates, kind, book and
    /// details.
    /// That task may be in any state and stays as it is. Returns the id of the new one.
    ///
    /// The new task is ready, its ttl begins now, and it has no key and no tags. It has nothing of
    /// what became of the other one: no attempts, history, reports or result. Of a tube without
    /// priorities or without times it has none of them. The payload is copied as it is, also into a
    /// tube of another type of value, which has to decode it. The put is as durable as the handle
    /// of the other tube asks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (letters, drafts) = (queue.tube("letters")?, queue.tube("drafts")?);
    /// let task = letters.task(b"dear ada").key("ada").priority(3);
    /// let id = task.ttr(Duration::from_secs(60)).put()?;
    /// letters.bury(id, "no stamp")?;
    ///
    /// let copy = letters.copy_to(id, &drafts)?;
    /// let task = drafts.peek(copy)?;
    /// assert_eq!((&task.payload[..], task.state), (&b"dear ada"[..], State::Ready));
    /// assert_eq!((task.priority, task.ttr), (3, Some(Duration::from_secs(60))));
    /// assert_eq!(task.key, None);
    /// assert_eq!(letters.peek(id)?.state, State::Buried);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](ErrorKind::TaskNotFound); [`WrongTube`](ErrorKind::WrongTube) if it is in
    /// another tube; [`WrongState`](ErrorKind::WrongState) if it is finished and its payload [was
    /// not kept](crate::TubeOptions::drop_payloads); [`Damaged`](ErrorKind::Damaged) if one of its
    /// rows is damaged; [`Unsupported`](ErrorKind::Unsupported) for a task with a group if the kind
    /// of the other tube has none; [`Invalid`](ErrorKind::Invalid) for a tube of another queue; as
    /// [`Tube::put`] into the other tube.
    pub fn copy_to<U: ?Sized>(&self, id: TaskId, to: &Tube<U>) -> Result<TaskId> {
        let found = to.ensure_of(&self.inner).and_then(|()| {
            self.inner.core.with_payload(self.number, |view, tube, now| {
                Original::of(view, tube, id, now).map(Some)
            })
        });
        let found = found.and_then(|it| it.ok_or_else(|| Error::new(ErrorKind::TaskNotFound)));
        let (original, payload) = self.name_task_errors("copy", id, found)?;
        let kind =
            self.inner.core.look(|view, _| Ok(query::tube(view, to.number)?.row.options.kind));
        let switches = to.name_errors("copy", kind)?.switches();
        let row = self.name_task_errors("copy", id, original.row(&payload, switches))?;
        let mut copy = NewTask::of(to, Copied(row));
        copy.extras = original.extras(switches);
        copy.submit(|to, op| {
            let applied = StagedPut::new(&to.inner.core).apply(op);
            one(&to.inner.core.finish(op, applied, to.durability)?)
        })
        .map(|put| put.id)
    }
}
