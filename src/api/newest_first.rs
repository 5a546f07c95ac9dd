//! The listings of tasks that have ended, the last one first.

use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
use crate::runtime::ended_walk::{EndIndex, EndedWalk};
use crate::words::error::Result;
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::task::TaskSummary;

/// Tasks that have ended, the last one first, from [`Tube::failed`], [`Queue::failed`],
/// [`Tube::buried`], [`Tube::finished`], [`Queue::finished`] and [`Tube::trashed`].
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
