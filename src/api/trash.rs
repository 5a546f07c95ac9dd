//! The trash of a tube: tasks that have left the board and are kept for review.

use crate::api::newest_first::NewestFirst;
use crate::api::tube::Tube;
use crate::engine::by_id::Verb;
use crate::engine::restore::{EmptyTrash, Restore};
use crate::runtime::ended_walk::EndIndex;
use crate::words::error::Result;
use crate::words::task::{Reason, TaskId};
use std::fmt::Display;

/// The trash.
impl<T: ?Sized> Tube<T> {
    /// Puts a task into the trash, from any state but Done, with a reason cut to 4096 bytes. A
    /// lease on it is lost. A task that is in the trash already keeps its first reason.
    ///
    /// To a reader it is buried with [`Reason::Trashed`]. It is out of the way otherwise: no
    /// listing of a state has it, no [`kick`](Tube::kick) returns it, it does not count against the
    /// [capacity](crate::TubeOptions::capacity), and another task may get its key. Its ttl goes on
    /// as that of a buried task does. [`delete`](Tube::delete), [`update`](Tube::update) and
    /// [`move_to`](Tube::move_to) find it, and a truncate or a drop of the tube removes it.
    ///
    /// ```
    /// use tubewell::{Queue, Reason, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// tube.trash(id, "the address is empty")?;
    /// assert_eq!(tube.kick(10)?.kicked, 0);
    /// let task = tube.peek(id)?;
    /// let reason = Reason::Trashed("the address is empty".into());
    /// assert_eq!((task.state, &task.reason), (State::Buried, &Some(reason)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongState`](crate::ErrorKind::WrongState) if it is finished;
    /// [`DiskFull`](crate::ErrorKind::DiskFull); as [`force_delete`](Tube::force_delete).
    pub fn trash(&self, id: TaskId, reason: impl Display) -> Result<()> {
        self.run_on("trash", id, Verb::Trash(Reason::Trashed(reason.to_string()))).map(drop)
    }

    /// The tasks in its trash, the last one that came to it first, read page by page: a task that
    /// leaves the trash in the meantime is left out, as are damaged ones.
    ///
    /// ```
    /// use tubewell::{Queue, Result};
    ///
    /// # fn main() -> Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let ids = [tube.put(b"to ada")?, tube.put(b"to bob")?];
    /// tube.trash(ids[0], "torn")?;
    /// tube.trash(ids[1], "wet")?;
    /// let newest: Vec<_> = tube.trashed().map(|task| Ok(task?.id)).collect::<Result<_>>()?;
    /// assert_eq!(newest, [ids[1], ids[0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn trashed(&self) -> NewestFirst {
        NewestFirst::of_tube(self, EndIndex::Trashed)
    }

    /// Makes a task in the trash ready again, at its place, with its attempts set to zero, as
    /// [`kick_task`](Tube::kick_task) does with a buried one.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// tube.take()?.trash("by mistake")?;
    /// tube.restore(id)?;
    /// assert_eq!(tube.take()?.id(), id);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) if the tube is at its capacity, or if puts wait for room;
    /// [`KeyExists`](crate::ErrorKind::KeyExists) if another task has its key by now;
    /// [`WrongState`](crate::ErrorKind::WrongState) if it is not in the trash;
    /// [`DiskFull`](crate::ErrorKind::DiskFull); as [`delete`](Tube::delete).
    pub fn restore(&self, id: TaskId) -> Result<()> {
        let others_wait = self.inner.core.place_waits.has(self.number);
        let op = Restore { tube: self.number, id, others_wait };
        self.name_task_errors("restore", id, self.inner.core.run(&op, self.durability))
    }

    /// Removes what is in the trash. Works in steps of at most 64 tasks; other calls run between
    /// them. What comes to the trash meanwhile stays, and so does what others [wait
    /// for](crate::NewTask::after). Returns how many tasks it has removed.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"hello")?;
    /// tube.take()?.trash("no letter")?;
    /// assert_eq!(tube.empty_trash()?, 1);
    /// assert_eq!(tube.stats()?.trashed, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`kick`](Tube::kick).
    pub fn empty_trash(&self) -> Result<u64> {
        let now = self.inner.core.look(|_, now| Ok(now.queue));
        let until = self.name_errors("empty the trash", now)?;
        let (mut removed, mut from) = (0, None);
        loop {
            let op = EmptyTrash { tube: self.number, until, from };
            let (count, next) = self.run("empty the trash", &op)?;
            removed += count;
            if next.is_none() {
                return Ok(removed);
            }
            from = next;
        }
    }
}
