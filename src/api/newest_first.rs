//! The listings of tasks that have ended, the last one first.

use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
use crate::format::key::Key;
use crate::runtime::ended_walk::{EndIndex, EndedWalk};
use crate::words::error::Result;
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::task::TaskSummary;

/// Where a listing of tasks that have ended goes on, from [`NewestFirst::cursor`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedCursor {
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
}

impl NewestFirst {
    pub(crate) fn of_queue(queue: &Queue, which: EndIndex) -> Self {
        let listing = EndedWalk::new(None, which);
        Self { inner: queue.inner.clone(), tube: None, listing }
    }

    pub(crate) fn of_tube<T: ?Sized>(tube: &Tube<T>, which: EndIndex) -> Self {
        let listing = EndedWalk::new(Some(tube.number), which);
        Self { inner: tube.inner.clone(), tube: Some(tube.name.clone()), listing }
    }

    /// Where it has come to: a page of another listing of the same tasks [goes on](Self::after)
    /// here. Holds nothing of the queue, and is good also after the queue was opened again.
    pub fn cursor(&self) -> EndedCursor {
        EndedCursor { place: self.listing.place().cloned() }
    }

    /// The same listing, from where another one over the same tasks has come to: tasks that ended
    /// later, and those that it has passed by, are left out.
    pub fn after(mut self, cursor: EndedCursor) -> Self {
        if let Some(place) = cursor.place {
            self.listing = self.listing.after(place);
        }
        self
    }
}

impl Iterator for NewestFirst {
    type Item = Result<TaskSummary>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.listing.next(&self.inner.core).map_err(|error| error.during("list"));
        let found = found.map_err(|error| match &self.tube {
            Some(tube) => error.in_tube(tube),
            None => error,
        });
        found.transpose()
    }
}

debug!([] NewestFirst, "NewestFirst", this, "tube": &this.tube);
