//! The search for tasks by what they are, page by page.

use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
use crate::runtime::search::SearchPlace;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::filter::Filter;
use crate::words::macros::debug;
use crate::words::sync::{Arc, Weak};
use crate::words::task::TaskSummary;

/// A page of a [search](Tube::search).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchPage {
    /// The tasks. There may be none, and yet more pages.
    pub tasks: Vec<TaskSummary>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<SearchCursor>,
}

/// Where a [search](Tube::search) goes on. It is of one tube, of one filter, and of this opening of
/// the queue.
#[derive(Clone)]
pub struct SearchCursor {
    inner: Weak<QueueInner>,
    number: u32,
    /// It chose the index in which the place is.
    filter: Filter,
    place: SearchPlace,
}

impl<T: ?Sized> Tube<T> {
    /// The tasks that meet a [`Filter`], at most `most` of them and at most 256, from the beginning
    /// or from where the page before has ended. A page looks at no more than 4096 rows, so that a
    /// filter that few tasks meet is searched for in bounded steps: a page without a task is not
    /// the last one as long as it has a [`next`](SearchPage::next). With `most` 0 it is empty, and
    /// `next` is where it begins.
    ///
    /// Owner, failure group, key, key prefix, time of the end and state have an index, from which
    /// only what fits is read, and so has the kind in a tube [with such an
    /// index](crate::TubeOptions::index_kinds). Tags have one that all tubes share. Nothing is held
    /// between two pages: a task that changes meanwhile may be missed or found twice. Damaged tasks
    /// are left out.
    ///
    /// ```
    /// use tubewell::{Filter, Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// for name in ["order 1", "order 2", "invoice 1"] {
    ///     tube.task(b"hello").key(name).kind("mail").put()?;
    /// }
    /// let filter = Filter::new().key_prefix("order ").kind("mail").state(State::Ready);
    /// let first = tube.search(&filter, None, 1)?;
    /// assert_eq!(first.tasks[0].key.as_deref(), Some("order 1"));
    /// let rest = tube.search(&filter, first.next.as_ref(), 100)?;
    /// assert_eq!(rest.tasks[0].key.as_deref(), Some("order 2"));
    /// assert!(rest.tasks.len() == 1 && rest.next.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a cursor of another filter, another tube or another
    /// opening, or from before the tube was truncated; [`TubeNotFound`](ErrorKind::TubeNotFound)
    /// if the tube was dropped; [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction).
    pub fn search(
        &self,
        filter: &Filter,
        from: Option<&SearchCursor>,
        most: usize,
    ) -> Result<SearchPage> {
        let page = from.map_or(Ok(()), |from| self.gave(from, filter)).and_then(|()| {
            let place = from.map(|from| &from.place);
            self.inner.core.search(self.number, filter, place, most)
        });
        let (tasks, next) = self.name_errors("search", page)?;
        let (inner, number) = (Arc::downgrade(&self.inner), self.number);
        let next = next.map(|place| SearchCursor { inner, number, filter: filter.clone(), place });
        Ok(SearchPage { tasks, next })
    }

    /// Refuses a cursor of another tube, or of a search for other tasks.
    fn gave(&self, cursor: &SearchCursor, filter: &Filter) -> Result<()> {
        let is_own = cursor.inner.as_ptr() == Arc::as_ptr(&self.inner);
        let why = if !is_own || cursor.number != self.number {
            "the cursor is of another tube, or of another queue"
        } else if cursor.filter != *filter {
            "the cursor is of another filter; go on with its own, or search from the beginning"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Invalid).because(why))
    }
}

debug!([] SearchCursor, "SearchCursor", this, "tube": &this.number);
