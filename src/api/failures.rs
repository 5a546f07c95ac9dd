//! Failed tasks by their failure groups: counts, listings, and the verb that makes them ready
//! again.

use crate::api::newest_first::NewestFirst;
use crate::api::queue::Queue;
use crate::api::tube::Tube;
use crate::runtime::ended_walk::EndIndex;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::failure::FailureGroup;
use crate::words::limits::SWEEP_TASKS;
use crate::words::task::{State, TaskId, TaskSummary};
use crate::words::verb::{Kicked, Unfailed};

/// Failed tasks of all tubes.
impl Queue {
    /// The failure groups in which buried tasks stand, with the number of their tasks in all tubes,
    /// by name. The counts are stored; the cost does not depend on the number of tasks. Tubes are
    /// read one after the other.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// for tube in ["letters", "mail"] {
    ///     let tube = queue.tube(tube)?;
    ///     tube.put(b"hello")?;
    ///     tube.take()?.fail("address", "no such street")?;
    /// }
    /// let groups = queue.failure_groups()?;
    /// assert_eq!((&groups[0].group[..], groups[0].tasks), ("address", 2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn failure_groups(&self) -> Result<Vec<FailureGroup>> {
        self.call("list failure groups", |core| core.all_failure_groups())
    }

    /// The buried tasks of a failure group in all tubes, the last one buried first, read page by
    /// page as [`Tube::failed`] does. A tube that is made or truncated after the first one was read
    /// is left out.
    ///
    /// ```
    /// use tubewell::{Queue, Result};
    ///
    /// # fn main() -> Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let mut ids = Vec::new();
    /// for tube in ["letters", "mail"] {
    ///     let tube = queue.tube(tube)?;
    ///     ids.push(tube.put(b"hello")?);
    ///     tube.take()?.fail("address", "no such street")?;
    /// }
    /// ids.reverse();
    /// let newest: Vec<_> =
    ///     queue.failed("address").map(|task| Ok(task?.id)).collect::<Result<_>>()?;
    /// assert_eq!(newest, ids);
    /// # Ok(())
    /// # }
    /// ```
    pub fn failed(&self, group: &str) -> NewestFirst {
        NewestFirst::of_queue(self, EndIndex::Failed(group.to_owned()))
    }

    /// Makes up to `most` tasks of a failure group ready again, each in its tube, in the order in
    /// which they were buried, as [`Tube::unfail`] does. What fails again meanwhile is left.
    /// Returns how many, and names those that it stepped over because of their keys.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// for tube in ["letters", "mail"] {
    ///     let tube = queue.tube(tube)?;
    ///     tube.put(b"hello")?;
    ///     tube.take()?.fail("address", "no such street")?;
    /// }
    /// assert_eq!(queue.unfail("address", 10)?.kicked, 2);
    /// assert_eq!(queue.tube("mail")?.stats()?.ready, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`failure_groups`](Queue::failure_groups); [`Unknown`](ErrorKind::Unknown) if the sync
    /// failed. After an error the steps before it stay done.
    pub fn unfail(&self, group: &str, most: u64) -> Result<Kicked> {
        let durability = self.inner.durability();
        self.call("unfail", |core| core.unfail(group, most, durability))
    }

    /// Puts up to `most` tasks of a failure group into the tube `to`, from all tubes, in the order
    /// in which they were buried, as [`Tube::unfail_into`] does.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// for tube in ["letters", "mail"] {
    ///     let tube = queue.tube(tube)?;
    ///     tube.put(b"hello")?;
    ///     tube.take()?.fail("address", "no such street")?;
    /// }
    /// let by_hand = queue.tube("by hand")?;
    /// assert_eq!(queue.unfail_into("address", 10, &by_hand)?.moved, 2);
    /// assert_eq!(by_hand.stats()?.ready, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tube::unfail_into`].
    pub fn unfail_into<U: ?Sized>(&self, group: &str, most: u64, to: &Tube<U>) -> Result<Unfailed> {
        let durability = self.inner.durability();
        self.call("unfail", |core| {
            to.ensure_of(&self.inner)?;
            core.unfail_into((None, group), most, to.number, durability)
        })
    }
}

/// Failed tasks of one tube.
impl<T: ?Sized> Tube<T> {
    /// Its buried tasks without those in the trash, the last one buried first, read page by page: a
    /// task that is kicked or removed in the meantime is left out, as are damaged ones.
    ///
    /// ```
    /// use tubewell::{Queue, Result};
    ///
    /// # fn main() -> Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let ids = [tube.put(b"to ada")?, tube.put(b"to bob")?];
    /// tube.bury(ids[1], "no stamp")?;
    /// tube.bury(ids[0], "no such street")?;
    /// let newest: Vec<_> = tube.buried().map(|task| Ok(task?.id)).collect::<Result<_>>()?;
    /// assert_eq!(newest, [ids[0], ids[1]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn buried(&self) -> NewestFirst {
        NewestFirst::of_tube(self, EndIndex::Buried)
    }

    /// The failure groups in which its buried tasks stand, with the number of their tasks, by name.
    /// The counts are stored; the cost does not depend on the number of tasks.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().max_attempts(1))?;
    /// tube.put(b"to ada")?;
    /// tube.put(b"to bob")?;
    /// tube.take()?.fail("address", "no such street")?;
    /// tube.take()?.retry("no answer")?; // its last attempt
    ///
    /// let groups = tube.failure_groups()?;
    /// assert_eq!((&groups[0].group[..], groups[0].tasks), ("address", 1));
    /// assert_eq!((&groups[1].group[..], groups[1].tasks), ("failed-retries-letters", 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`info`](Tube::info).
    pub fn failure_groups(&self) -> Result<Vec<FailureGroup>> {
        self.name_errors("list failure groups", self.inner.core.failure_groups(self.number))
    }

    /// Its buried tasks of a failure group, the last one buried first, read page by page: a task
    /// that leaves the group in the meantime is left out, as are damaged ones. A group without
    /// tasks is an empty listing.
    ///
    /// ```
    /// use tubewell::{Queue, Result};
    ///
    /// # fn main() -> Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let ids = [tube.put(b"to ada")?, tube.put(b"to bob")?];
    /// tube.take()?.fail("address", "no such street")?;
    /// tube.take()?.fail("address", "no such town")?;
    /// let newest: Vec<_> =
    ///     tube.failed("address").map(|task| Ok(task?.id)).collect::<Result<_>>()?;
    /// assert_eq!(newest, [ids[1], ids[0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn failed(&self, group: &str) -> NewestFirst {
        NewestFirst::of_tube(self, EndIndex::Failed(group.to_owned()))
    }

    /// Makes up to `most` of its tasks of a failure group ready again, in the order in which they
    /// were buried, as [`kick`](Tube::kick) does. What fails again meanwhile is left. Returns how
    /// many, and names those that it stepped over because of their keys.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"to ada")?;
    /// tube.put(b"to bob")?;
    /// tube.take()?.fail("address", "no such street")?;
    /// tube.take()?.fail("stamp", "none")?;
    /// assert_eq!(tube.unfail("address", 10)?.kicked, 1);
    /// assert_eq!(&tube.take()?[..], b"to ada");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`kick`](Tube::kick).
    pub fn unfail(&self, group: &str, most: u64) -> Result<Kicked> {
        self.kick_in("unfail", Some(group), most)
    }

    /// Puts up to `most` of its tasks of a failure group into another tube, in the order in which
    /// they were buried, each as [`move_to`](Tube::move_to) does: at the back of its priority, with
    /// its attempts 0. A task whose key the other tube has is named and stepped over. Works in
    /// steps of at most 64; other calls run between them.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (letters, by_hand) = (queue.tube("letters")?, queue.tube("by hand")?);
    /// letters.task(b"to ada").key("ada").put()?;
    /// let bob = letters.task(b"to bob").key("bob").put()?;
    /// letters.take()?.fail("address", "no such street")?;
    /// letters.take()?.fail("address", "no such town")?;
    /// by_hand.task(b"again to bob").key("bob").put()?;
    ///
    /// let done = letters.unfail_into("address", 10, &by_hand)?;
    /// assert_eq!((done.moved, done.clashes, done.is_full), (1, vec![bob], false));
    /// assert_eq!(by_hand.stats()?.ready, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for a task that [`move_to`](Tube::move_to) would
    /// refuse so; [`Invalid`](ErrorKind::Invalid) if `to` is of another queue;
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if one of the tubes was dropped;
    /// [`DiskFull`](ErrorKind::DiskFull); [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction); [`Unknown`](ErrorKind::Unknown) if the sync
    /// failed. After an error the steps before it stay done.
    pub fn unfail_into<U: ?Sized>(&self, group: &str, most: u64, to: &Tube<U>) -> Result<Unfailed> {
        let (core, from) = (&self.inner.core, (Some(self.number), group));
        let done = to
            .ensure_of(&self.inner)
            .and_then(|()| core.unfail_into(from, most, to.number, self.durability));
        self.name_errors("unfail", done)
    }

    /// Makes the buried tasks ready again that the filter chooses, up to `most`, as
    /// [`kick`](Tube::kick) does: by the [`Reason`](crate::Reason), the key, the group, the age.
    /// The filter is called without a lock, for each buried task in the order of kicks, until
    /// `most` are chosen. Works in steps of 64. Returns how many, and names the chosen ones that it
    /// stepped over because of their keys.
    ///
    /// ```
    /// use tubewell::{Queue, Reason};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"to ada")?;
    /// tube.put(b"to bob")?;
    /// tube.take()?.fail("address", "no such street")?;
    /// tube.take()?.bury("on the sender's wish")?;
    /// let wished = |reason: &Option<Reason>| matches!(reason, Some(Reason::Buried(_)));
    /// assert_eq!(tube.kick_where(10, |task| wished(&task.reason))?.kicked, 1);
    /// assert_eq!(&tube.take()?[..], b"to bob");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`kick`](Tube::kick).
    pub fn kick_where(
        &self,
        most: u64,
        mut chosen: impl FnMut(&TaskSummary) -> bool,
    ) -> Result<Kicked> {
        let (mut buried, mut all) = (self.summaries(State::Buried), Kicked::default());
        while all.kicked < most {
            let step = (most - all.kicked).min(SWEEP_TASKS as u64) as usize;
            let mut ids: Vec<TaskId> = Vec::new();
            while ids.len() < step {
                match buried.next() {
                    Some(task) => ids.extend(Some(task?).filter(&mut chosen).map(|task| task.id)),
                    None => break,
                }
            }
            if ids.is_empty() {
                break;
            }
            let core = &self.inner.core;
            let done = core.kick_many((self.number, None), &ids, self.durability, &mut all);
            self.name_errors("kick", done)?;
        }
        Ok(all)
    }
}
