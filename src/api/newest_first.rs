//! The listings of tasks that have ended, the last one first.

use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
use crate::format::key::Key;
use crate::runtime::ended_walk::{EndIndex, EndedWalk};
use crate::store::QueueId;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::task::TaskSummary;

/// Where a listing of tasks that have ended goes on, from [`NewestFirst::cursor`]. It is of one
/// queue, and of one listing of one tube or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedCursor {
    /// The listing that it is of.
    listing: (QueueId, Option<u32>, EndIndex),
    /// The end of the key of the last row that was passed by; none at the beginning.
    place: Option<Key>,
}

/// Tasks that have ended, the last one first, from [`Tube::failed`], [`Queue::failed`],
/// [`Tube::buried`], [`Tube::finished`], [`Queue::finished`] and [`Tube::trashed`].
///
/// ```
/// use tubewell::{Queue, Result};
///
/// # fn main() -> Result<()> {
/// let tube = Queue::in_memory()?.tube("letters")?;
/// let ids = tube.put_many([b"a", b"b", b"c"].map(|text| text.to_vec()))?;
/// for id in &ids {
///     tube.bury(*id, "no stamp")?;
/// }
/// let mut page = tube.buried();
/// assert_eq!(page.next().transpose()?.map(|task| task.id), Some(ids[2]));
/// let cursor = page.cursor();
/// let rest: Vec<_> = tube.buried().after(cursor).map(|task| Ok(task?.id)).collect::<Result<_>>()?;
/// assert_eq!(rest, [ids[1], ids[0]]);
/// # Ok(())
/// # }
/// ```
pub struct NewestFirst {
    inner: Arc<QueueInner>,
    tube: Option<Arc<str>>,
    listing: EndedWalk,
    /// Why the cursor that it was given is refused.
    refused: Option<Error>,
}

impl NewestFirst {
    pub(crate) fn of_queue(queue: &Queue, which: EndIndex) -> Self {
        let listing = EndedWalk::new(None, which);
        Self { inner: queue.inner.clone(), tube: None, listing, refused: None }
    }

    pub(crate) fn of_tube<T: ?Sized>(tube: &Tube<T>, which: EndIndex) -> Self {
        let listing = EndedWalk::new(Some(tube.number), which);
        let (inner, name) = (tube.inner.clone(), Some(tube.name.clone()));
        Self { inner, tube: name, listing, refused: None }
    }

    /// Where it has come to: a page of another listing of the same tasks [goes on](Self::after)
    /// here. Holds nothing of the queue, and is good also after the queue was opened again.
    pub fn cursor(&self) -> EndedCursor {
        EndedCursor { listing: self.listed(), place: self.listing.place().cloned() }
    }

    /// The same listing, from where another one over the same tasks has come to: tasks that ended
    /// later, and those that it has passed by, are left out. With the cursor of another listing,
    /// another tube or another queue its only item is the error
    /// [`Invalid`](crate::ErrorKind::Invalid).
    pub fn after(mut self, cursor: EndedCursor) -> Self {
        if cursor.listing != self.listed() {
            let why = "the cursor is of another listing, another tube or another queue";
            self.refused = Some(Error::new(ErrorKind::Invalid).because(why));
            self.listing = self.listing.ended();
        } else if let Some(place) = cursor.place {
            self.listing = self.listing.after(place);
        }
        self
    }

    fn listed(&self) -> (QueueId, Option<u32>, EndIndex) {
        let (number, which) = self.listing.over();
        (self.inner.core.queue, number, which.clone())
    }
}

impl Iterator for NewestFirst {
    type Item = Result<TaskSummary>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = match self.refused.take() {
            Some(refused) => Err(refused),
            None => self.listing.next(&self.inner.core),
        };
        let found = found.map_err(|error| error.during("list"));
        let found = found.map_err(|error| match &self.tube {
            Some(tube) => error.in_tube(tube),
            None => error,
        });
        found.transpose()
    }
}

debug!([] NewestFirst, "NewestFirst", this, "tube": &this.tube);
