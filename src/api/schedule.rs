//! Schedules: how one is described, and its handle.

use crate::api::new_schedule::NewSchedule;
use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
#[cfg(doc)]
use crate::api::tube::Tube;
use crate::engine::Op;
use crate::engine::schedule_verbs::{MakeSchedule, PauseSchedule, RemoveSchedule, RunSchedule};
use crate::engine::schedule_verbs::{TagSchedule, UpdateSchedule};
use crate::engine::schedules;
use crate::format::View;
use crate::words::clock::Now;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::limits::NEXT_FIRES_MAX;
use crate::words::macros::debug;
#[cfg(doc)]
use crate::words::schedule::Overlap;
use crate::words::schedule::ScheduleInfo;
use crate::words::sync::Arc;
use crate::words::task::TaskId;
use std::time::SystemTime;

/// Schedules.
impl Queue {
    /// Describes a schedule of this name, which [`make`](NewSchedule::make) makes: it puts a task,
    /// its *child*, into a tube again and again. The name has 1 to 234 bytes without control
    /// characters. Children have the keys `<name>-1`, `<name>-2` and so on, know [who has made
    /// them](crate::TaskSummary::spawned_from), and [when that should have
    /// been](crate::TaskSummary::nominal). The [guide](crate::flows#schedules) has the rules.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tubewell::{Clock, ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory()?;
    /// let tube = queue.tube("chores")?;
    /// let minute = Duration::from_secs(60);
    /// let sweep = queue.schedule("sweep").every(minute).to(&tube).payload(b"attic").make()?;
    ///
    /// let task = tube.take()?; // the first one comes at once
    /// let child = tube.peek(task.id())?;
    /// assert_eq!((&task[..], child.key.as_deref()), (&b"attic"[..], Some("sweep-1")));
    /// assert_eq!(child.spawned_from.as_deref(), Some("sweep"));
    /// task.ack()?;
    /// assert!(tube.try_take()?.is_none());
    /// clock.advance(minute);
    /// tube.take()?.ack()?;
    /// assert_eq!(sweep.info()?.children, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule<'a>(&self, name: &'a str) -> NewSchedule<'a> {
        NewSchedule::new(self.inner.clone(), name)
    }

    /// The handle of the schedule of this name, whether or not there is one: its verbs say so.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("chores")?;
    /// queue.schedule("sweep").every(Duration::from_secs(60)).to(&tube).make()?;
    /// assert_eq!(queue.schedule_named("sweep").info()?.tube, "chores");
    /// let none = queue.schedule_named("other").info();
    /// assert_eq!(none.unwrap_err().kind(), ErrorKind::ScheduleNotFound);
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule_named(&self, name: &str) -> Schedule {
        Schedule { inner: self.inner.clone(), name: name.into() }
    }
}

impl<T: ?Sized> NewSchedule<'_, T> {
    /// Makes the schedule, or makes it again if there is one of this name, as a program does at
    /// every start: it is as described here then, its children are counted on, and if its timing
    /// is the same its next fire stands. With another timing it begins at now + offset. A schedule
    /// that is paused stays so. If nothing changes nothing is written.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Clock, ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory()?;
    /// let tube = queue.tube("chores")?;
    /// let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
    /// let make = |what| queue.schedule("sweep").every(hour).to(&tube).payload(what).make();
    /// let next = make(b"attic" as &[u8])?.info()?.next;
    /// clock.advance(minute);
    /// let again = make(b"cellar")?.info()?;
    /// assert_eq!((again.next, again.left), (next, Some(hour - minute))); // it stands
    /// assert_eq!(tube.len()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) without a tube, without a timing or with two, for a text
    /// that is no cron text or never fires, an unknown zone, an interval of zero, a name that is
    /// empty, too long or has control characters, a tube of another queue, and what a put is
    /// refused for;
    /// [`Unsupported`](ErrorKind::Unsupported) for a cron text without the feature `cron`, for a
    /// tube with a placement, and for an option that its kind does not allow;
    /// [`TooLarge`](ErrorKind::TooLarge) for a payload above 16 KiB or the queue's limit, and for
    /// tags and details above their limits; [`Codec`](ErrorKind::Codec);
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if the tube was dropped;
    /// [`DiskFull`](ErrorKind::DiskFull); [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction); [`Unknown`](ErrorKind::Unknown) if the sync
    /// failed.
    pub fn make(self) -> Result<Schedule> {
        let (inner, name) = (self.inner.clone(), self.name);
        let made = self.into_terms().and_then(|terms| {
            // The tube that it has may be another one.
            catch_up(&inner, name)?;
            inner.core.run(&MakeSchedule { name, terms: &terms }, inner.durability())
        });
        made.map_err(|error| error.during("make schedule"))?;
        Ok(Schedule { inner, name: name.into() })
    }
}

/// Does what is due in the tube of a schedule, if there is one of this name.
fn catch_up(inner: &QueueInner, name: &str) -> Result<()> {
    let core = &inner.core;
    match core.look(|view, _| schedules::tube_of(view, name))? {
        Some((tube, true)) => core.catch_up_dropped(tube),
        Some((tube, false)) => match core.catch_up(tube) {
            // It was dropped in the meantime.
            Err(error) if error.is_not_found() => Ok(()),
            done => done,
        },
        None => Ok(()),
    }
}

/// A schedule, by its name: from [`NewSchedule::make`] and [`Queue::schedule_named`].
/// A clone is a handle of the same one, and the queue stays open while there is one.
#[derive(Clone)]
pub struct Schedule {
    inner: Arc<QueueInner>,
    name: Arc<str>,
}

impl Schedule {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn call<O: Op>(
        &self,
        action: &'static str,
        op: impl FnOnce(Option<u32>) -> O,
    ) -> Result<O::Done> {
        let core = &self.inner.core;
        // What is due in its tube is done before the verb, as before any other.
        let tube = core.look(|view, _| schedules::tube_of(view, &self.name)).and_then(|tube| {
            if let Some((tube, true)) = tube {
                core.catch_up_dropped(tube)?;
            }
            Ok(tube.map(|(tube, _)| tube))
        });
        let done = tube.and_then(|tube| core.run(&op(tube), self.inner.durability()));
        done.map_err(|error| error.during(action))
    }

    /// All that is known of it. What is due in its tube is done first.
    ///
    /// # Errors
    /// [`ScheduleNotFound`](ErrorKind::ScheduleNotFound) if it was removed;
    /// [`Damaged`](ErrorKind::Damaged); [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction).
    pub fn info(&self) -> Result<ScheduleInfo> {
        self.look("look at schedule", |view, now| schedules::info(view, &self.name, now))
    }

    /// The nominal times of its next fires, at most so many, and at most 1000. None while it is
    /// paused or stands still.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Clock, ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory()?;
    /// let tube = queue.tube("chores")?;
    /// let minute = Duration::from_secs(60);
    /// let sweep = queue.schedule("sweep").every(minute).offset(minute).to(&tube).make()?;
    /// let next = sweep.next(2)?;
    /// assert_eq!(next, [clock.wall() + minute, clock.wall() + 2 * minute]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`info`](Schedule::info); [`Unsupported`](ErrorKind::Unsupported) for a cron text without
    /// the feature `cron`.
    pub fn next(&self, most: usize) -> Result<Vec<SystemTime>> {
        let most = most.min(NEXT_FIRES_MAX);
        let next = self.look("list fires", |view, _| schedules::next(view, &self.name))?;
        schedules::ahead(&next, most).map_err(|error| error.during("list fires"))
    }

    fn look<R>(
        &self,
        action: &'static str,
        look: impl Fn(&dyn View, Now) -> Result<R>,
    ) -> Result<R> {
        let core = &self.inner.core;
        let found = catch_up(&self.inner, &self.name).and_then(|()| core.look(look));
        found.map_err(|error| error.during(action))
    }

    /// Changes what the closure says of it; the rest stays, and an option that was given cannot be
    /// cleared: [`make`](NewSchedule::make) it again for that. Another interval moves the next fire
    /// by the difference, so a shorter one may make fires due at once; but the first fire of all
    /// does not come earlier. Another cron text, zone or kind of timing begins now. A new offset
    /// holds from the next [`make`](NewSchedule::make) with another timing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Clock, ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory()?;
    /// let tube = queue.tube("chores")?;
    /// let secs = Duration::from_secs;
    /// let sweep = queue.schedule("sweep").every(secs(60)).to(&tube).make()?;
    /// tube.take()?.ack()?; // the first one
    /// sweep.update(|it| it.every(secs(10)).priority(-1))?;
    /// assert_eq!(sweep.next(1)?, [clock.wall() + secs(10)]);
    /// assert_eq!(sweep.info()?.priority, Some(-1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ScheduleNotFound`](ErrorKind::ScheduleNotFound) if it was removed; as
    /// [`make`](NewSchedule::make).
    pub fn update<'a, T: ?Sized + 'a>(
        &'a self,
        change: impl FnOnce(NewSchedule<'a>) -> NewSchedule<'a, T>,
    ) -> Result<()> {
        let changed = change(NewSchedule::new(self.inner.clone(), &self.name));
        let terms = changed.into_terms().map_err(|error| error.during("update schedule"))?;
        self.call("update schedule", |tube| UpdateSchedule {
            tube,
            name: &self.name,
            terms: &terms,
        })
    }

    /// It fires no more until it is [resumed](Schedule::resume), also over a restart. Returns
    /// whether it was not paused before.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Clock, ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory()?;
    /// let tube = queue.tube("chores")?;
    /// let minute = Duration::from_secs(60);
    /// let sweep = queue.schedule("sweep").every(minute).offset(minute).to(&tube).make()?;
    /// sweep.pause()?;
    /// clock.advance(10 * minute);
    /// assert_eq!((tube.len()?, sweep.info()?.is_paused), (0, true));
    /// sweep.resume()?; // what it did not make in the pause is not missed
    /// assert_eq!(sweep.next(1)?, [clock.wall() + minute]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`info`](Schedule::info); [`Unknown`](ErrorKind::Unknown) if the sync failed.
    pub fn pause(&self) -> Result<bool> {
        self.call("pause schedule", |tube| PauseSchedule {
            tube,
            name: &self.name,
            is_paused: true,
        })
    }

    /// It fires again, at the first of its nominal times after now. Returns whether it was paused.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Clock, ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory()?;
    /// let (tube, secs) = (queue.tube("chores")?, Duration::from_secs);
    /// let sweep = queue.schedule("sweep").every(secs(60)).offset(secs(60)).to(&tube).make()?;
    /// sweep.pause()?;
    /// clock.advance(secs(90));
    /// assert!(sweep.resume()?);
    /// assert_eq!(sweep.next(1)?, [clock.wall() + secs(30)]); // two minutes after it was made
    /// assert!(!sweep.resume()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`pause`](Schedule::pause); [`Unsupported`](ErrorKind::Unsupported) for a cron text
    /// without the feature `cron`.
    pub fn resume(&self) -> Result<bool> {
        self.call("resume schedule", |tube| PauseSchedule {
            tube,
            name: &self.name,
            is_paused: false,
        })
    }

    /// Makes a child now, with this time as its nominal time; also while it is paused, and beside
    /// one that has not ended, unless its overlap is [`Overlap::Replace`], which removes that one.
    /// The next fire stands. Returns the child.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("chores")?;
    /// let hour = Duration::from_secs(3600);
    /// let sweep = queue.schedule("sweep").every(hour).offset(hour).to(&tube).make()?;
    /// let id = sweep.run_now()?;
    /// assert_eq!(tube.take()?.id(), id);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`info`](Schedule::info); [`Full`](ErrorKind::Full); [`KeyExists`](ErrorKind::KeyExists)
    /// if tasks that other puts have brought have the next eight keys;
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if its tube was dropped;
    /// [`DiskFull`](ErrorKind::DiskFull); [`Unknown`](ErrorKind::Unknown) if the sync failed.
    pub fn run_now(&self) -> Result<TaskId> {
        self.call("run schedule", |tube| RunSchedule { tube, name: &self.name })
    }

    /// Adds tags to those of its future children.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("chores")?;
    /// let sweep = queue.schedule("sweep").every(Duration::from_secs(60)).to(&tube).make()?;
    /// sweep.tag(&["attic", "cellar"])?;
    /// sweep.untag(&["cellar"])?;
    /// assert_eq!(sweep.info()?.tags, ["attic"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tube::tag`], and [`info`](Schedule::info).
    pub fn tag(&self, tags: &[&str]) -> Result<()> {
        self.call("tag schedule", |tube| TagSchedule {
            tube,
            name: &self.name,
            tags,
            is_added: true,
        })
    }

    /// Removes tags from those of its future children. One that it does not have is not missed.
    ///
    /// # Errors
    /// As [`pause`](Schedule::pause); [`TooLarge`](ErrorKind::TooLarge) for more than 1024 tags.
    pub fn untag(&self, tags: &[&str]) -> Result<()> {
        self.call("untag schedule", |tube| TagSchedule {
            tube,
            name: &self.name,
            tags,
            is_added: false,
        })
    }

    /// Removes it. Its children stay. Returns whether there was one: removing what is gone is no
    /// error, and it is not refused on a full disk.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("chores")?;
    /// let sweep = queue.schedule("sweep").every(Duration::from_secs(60)).to(&tube).make()?;
    /// assert!(sweep.remove()?);
    /// assert!(!sweep.remove()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Unknown`](ErrorKind::Unknown) if the sync failed.
    pub fn remove(&self) -> Result<bool> {
        self.call("remove schedule", |tube| RemoveSchedule { tube, name: &self.name })
    }
}

debug!([] Schedule, "Schedule", this, "name": &this.name);
