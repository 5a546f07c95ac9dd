//! The listings of schedules: of the queue by their names, of a tube by their next fires. They are
//! read page by page, and hold nothing between two pages.

use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
use crate::engine::schedules::AfterFire;
use crate::engine::{query, schedules};
use crate::format::key::Key;
use crate::runtime::shared::Shared;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::limits::SCHEDULES_OF_STEP;
use crate::words::macros::debug;
use crate::words::schedule::ScheduleInfo;
use crate::words::sync::Arc;
use std::collections::{BTreeSet, VecDeque};

/// Schedules of all tubes.
impl Queue {
    /// All schedules, sorted by the bytes of their names, also those that are paused. They are read
    /// page by page, each as it is then; damaged ones are left out.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Queue, Result};
    ///
    /// # fn main() -> Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("chores")?;
    /// for name in ["sweep", "dust"] {
    ///     queue.schedule(name).every(Duration::from_secs(60)).to(&tube).make()?;
    /// }
    /// let all = queue.schedules().collect::<Result<Vec<_>>>()?;
    /// assert_eq!(all.iter().map(|it| &it.name[..]).collect::<Vec<_>>(), ["dust", "sweep"]);
    /// assert_eq!((&all[0].tube[..], all[0].every), ("chores", Some(Duration::from_secs(60))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedules(&self) -> Schedules {
        Schedules::from(&self.inner, NextPage::OfQueue(Key::new()))
    }
}

/// Schedules of one tube.
impl<T: ?Sized> Tube<T> {
    /// The schedules whose children are put into this tube, each once, in the order of their next
    /// fires; those that are paused, or fire no more, come last. The times of intervals and of cron
    /// texts are of two clocks, so that their order holds while neither is set. They are read page
    /// by page, each as it is then: one whose next fire is moved to an earlier time meanwhile may
    /// be left out. So are damaged ones. [`TubeStats::schedules`](crate::TubeStats::schedules)
    /// counts them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Queue, Result};
    ///
    /// # fn main() -> Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (chores, reports) = (queue.tube("chores")?, queue.tube("reports")?);
    /// let made = [("dust", 2, &chores), ("sweep", 1, &chores), ("sum", 1, &reports)];
    /// for (name, hours, tube) in made {
    ///     queue.schedule(name).every(Duration::from_secs(hours * 3600)).to(tube).make()?;
    /// }
    /// let of_tube = chores.schedules().collect::<Result<Vec<_>>>()?;
    /// assert_eq!(of_tube.iter().map(|it| &it.name[..]).collect::<Vec<_>>(), ["sweep", "dust"]);
    /// assert_eq!(chores.stats()?.schedules, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if the tube was dropped;
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn schedules(&self) -> Schedules {
        let (tube, after, listed) = (self.number, None, BTreeSet::new());
        Schedules::from(&self.inner, NextPage::OfTube { tube, after, listed })
    }
}

/// All schedules, from [`Queue::schedules`], or those of a tube, from [`Tube::schedules`].
pub struct Schedules {
    inner: Arc<QueueInner>,
    page: VecDeque<ScheduleInfo>,
    /// Where the next page begins; none after the last one.
    next: Option<NextPage>,
}

/// Where a page of a listing begins.
enum NextPage {
    /// At this key.
    OfQueue(Key),
    OfTube {
        tube: u32,
        after: Option<AfterFire>,
        /// The names of those that were listed: one that fires comes after all others again.
        listed: BTreeSet<String>,
    },
}

impl Schedules {
    fn from(inner: &Arc<QueueInner>, page: NextPage) -> Self {
        Self { inner: inner.clone(), page: VecDeque::new(), next: Some(page) }
    }
}

impl NextPage {
    /// The page that begins here, and the next one.
    fn read(self, core: &Shared) -> Result<(Vec<ScheduleInfo>, Option<Self>)> {
        let most = SCHEDULES_OF_STEP;
        match self {
            Self::OfQueue(from) => {
                let (page, next) =
                    core.look(|view, now| schedules::page(view, &from, most, now))?;
                Ok((page, next.map(Self::OfQueue)))
            }
            Self::OfTube { tube, after, mut listed } => {
                let (mut page, after) = core.look(|view, now| {
                    query::tube(view, tube)?;
                    schedules::page_of_tube(view, tube, after.as_ref(), most, now)
                })?;
                page.retain(|schedule| listed.insert(schedule.name.clone()));
                let next = after.map(|after| Self::OfTube { tube, after: Some(after), listed });
                Ok((page, next))
            }
        }
    }
}

impl Iterator for Schedules {
    type Item = Result<ScheduleInfo>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.page.is_empty() {
            // After an error the listing is over.
            let next = self.next.take()?;
            let core = &self.inner.core;
            core.state.pass_on();
            match next.read(core) {
                Ok((page, next)) => (self.page, self.next) = (page.into(), next),
                Err(error) => return Some(Err(error.during("list schedules"))),
            }
        }
        self.page.pop_front().map(Ok)
    }
}

debug!([] Schedules, "Schedules", _this);
