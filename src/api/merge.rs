//! All tasks of a tube go to another one.

use crate::api::queue::Queue;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::verb::Merged;

/// Merges.
impl Queue {
    /// Moves all tasks of one tube to another one, as they stand: each keeps its id, state, key,
    /// group, attempts, ttl, history and tags, and its rank, so that those that move keep their
    /// order and stand among the others by priority and by the time of their puts. A task that is
    /// taken stays taken: its guard and its ticket settle it in the other tube, by the rules of
    /// that one.
    ///
    /// It goes in steps of at most 64 tasks, and other calls run between them: first the leases,
    /// and the delayed tasks that
    /// [hold their group](crate::TubeOptions::hold_group_while_delayed), then the ready tasks in
    /// the order of takes, those with gates of their own after the other ones, then all that is
    /// left. Until it has ended the tube hands out nothing, also by a claim, and takes of it wait;
    /// what is put into it meanwhile moves too, unless the merge ends first. If the process ends in
    /// the middle, the next opening goes on with the merge. The tube stays, with its options and
    /// schedules; drop it if it is not used any more.
    ///
    /// A task whose key another one has there stays, and is [named](Merged::clashes); so does one
    /// whose rows are damaged. The others of its group do not wait for it. Where the other tube has
    /// no room the merge ends, and [says where](Merged::stopped_at). On a full disk it ends too,
    /// and what has moved stays there. A second call of the same tubes goes on, also beside the
    /// first: each says what it has moved itself. The limits of the other tube hold for what has
    /// come: tasks that have ended and that it does not keep go after the merge.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (old, new) = (queue.tube("old")?, queue.tube("new")?);
    /// old.put_many([*b"a", *b"c"])?;
    /// new.put(b"d")?;
    /// let task = old.take()?;
    /// let merged = queue.merge("old", "new")?;
    /// assert_eq!((merged.moved, merged.clashed, merged.stopped_at), (2, 0, None));
    /// assert_eq!(&new.take()?[..], b"c"); // put before the other
    /// assert_eq!(new.stats()?.taken, 1); // the one in hand
    /// task.ack()?;
    /// queue.drop_tube("old")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeNotFound`](ErrorKind::TubeNotFound); [`Invalid`](ErrorKind::Invalid) for a tube into
    /// itself; [`Unsupported`](ErrorKind::Unsupported) for tubes whose
    /// [kinds](crate::TubeKind) have different switches, of which one is temporary or has its
    /// [higher priorities first](crate::TubeOptions::higher_first) and the other is not, or one of
    /// which has a [`Placement`](crate::Placement); [`TubeBusy`](ErrorKind::TubeBusy) while another
    /// merge concerns the first tube, or goes out of the second; [`DiskFull`](ErrorKind::DiskFull);
    /// [`Closed`](ErrorKind::Closed); [`ReadOnly`](ErrorKind::ReadOnly);
    /// [`InTransaction`](ErrorKind::InTransaction); [`Unknown`](ErrorKind::Unknown) if the sync
    /// failed.
    pub fn merge(&self, from: &str, into: &str) -> Result<Merged> {
        let number = |name: &str| {
            let found = self.find_tube(name).and_then(|tube| {
                tube.map(|tube| tube.number).ok_or_else(|| Error::new(ErrorKind::TubeNotFound))
            });
            found.map_err(|error| error.in_tube(name))
        };
        let merged = number(from)
            .and_then(|from| self.inner.core.merge(from, number(into)?, self.inner.durability()));
        merged.map_err(|error| error.during("merge").in_tube(from))
    }
}
