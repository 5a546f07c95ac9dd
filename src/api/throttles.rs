//! Throttles of the queue: how many tasks of several tubes may be taken at the same time.

use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::api::tubes_behind::TubesBehind;
use crate::engine::throttles::{self, SetThrottle};
use crate::format::key::Key;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::gates::{NamedGate, ThrottleInfo, throttle_name};
use crate::words::limits::PAGE_TASKS;
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::task::TaskId;
use std::collections::VecDeque;
use std::time::Duration;

/// Throttles.
impl Queue {
    /// Sets how many tasks of all tubes with the [throttle](crate::TubeOptions::throttle) of this
    /// name may be taken at the same time; 0: no limit, but those that are taken are counted. The
    /// first call makes the throttle; a name that was never set lets all tasks through. Returns
    /// whether the call changed anything.
    ///
    /// A taken task holds a *slot* of the throttle until its lease has ended, in whatever way, and
    /// also while it is [stalled](crate::Lapse) or waits for the
    /// [grace](crate::Queue::consumer_with_grace) of its consumer, after a crash too. A slot that
    /// is left goes round the tubes whose takers wait for one and could use it. A limit is in
    /// force at once; a lower one ends no lease. Tasks that were taken before their tube had the
    /// throttle, or before the throttle was made, hold no slot.
    ///
    /// A queue has at most 1024 throttles. The change is one small step, as durable as the queue,
    /// and no event; then the takers of the tubes are woken, of 64 tubes at a time.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions, WhyNot};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.set_throttle("api", 2)?;
    /// let calls = queue.create_tube("calls", TubeOptions::default().throttle("api"))?;
    /// let ids = calls.put_many([*b"a", *b"b", *b"c"])?;
    /// let taken = calls.take_many(3)?;
    /// assert_eq!(taken.len(), 2);
    /// let full = WhyNot::Throttled { throttle: "api".into(), in_flight: 2, limit: 2 };
    /// assert!(queue.explain(ids[2])?.reasons.contains(&full));
    /// queue.set_throttle("api", 3)?;
    /// assert_eq!(calls.take()?.id(), ids[2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name that is empty, longer than 255 bytes, or has
    /// control characters; [`Full`](ErrorKind::Full) for one more than 1024;
    /// [`DiskFull`](ErrorKind::DiskFull); [`Closed`](ErrorKind::Closed);
    /// [`ReadOnly`](ErrorKind::ReadOnly); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Unknown`](ErrorKind::Unknown) if the sync failed.
    pub fn set_throttle(&self, name: &str, limit: u64) -> Result<bool> {
        self.change_throttle(&SetThrottle { name, limit, ttl: None })
    }

    /// As [`set_throttle`](Queue::set_throttle), for this length of [queue time](crate#time); then
    /// there is no limit. For a service that says for how long it wants less.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let calls = queue.create_tube("calls", TubeOptions::default().throttle("api"))?;
    /// calls.put_many([*b"a", *b"b"])?;
    /// queue.set_throttle_for("api", 1, Duration::from_secs(60))?;
    /// let first = calls.take_many(2)?;
    /// clock.advance(Duration::from_secs(60));
    /// let second = calls.take_many(2)?;
    /// assert_eq!((first.len(), second.len()), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`set_throttle`](Queue::set_throttle); [`Invalid`](ErrorKind::Invalid) also for a length
    /// of less than a microsecond.
    pub fn set_throttle_for(&self, name: &str, limit: u64, ttl: Duration) -> Result<bool> {
        self.change_throttle(&SetThrottle { name, limit, ttl: Some(ttl) })
    }

    fn change_throttle(&self, op: &SetThrottle<'_>) -> Result<bool> {
        // A lower limit opens nothing, but it may have an end.
        let opens = Some(NamedGate::Throttle(op.name));
        self.call("set a throttle", |core| core.change_gate(op, opens, self.inner.durability()))
    }

    /// Removes a throttle: it is as one that was never set, and lets all tasks through. Returns
    /// whether there was one.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.set_throttle("api", 1)?;
    /// let calls = queue.create_tube("calls", TubeOptions::default().throttle("api"))?;
    /// calls.put_many([*b"a", *b"b"])?;
    /// let first = calls.take_many(2)?;
    /// assert!(queue.remove_throttle("api")?);
    /// let second = calls.take_many(2)?;
    /// assert_eq!((first.len(), second.len()), (1, 1));
    /// assert!(!queue.remove_throttle("api")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`set_throttle`](Queue::set_throttle), but neither `Full` nor `DiskFull`.
    pub fn remove_throttle(&self, name: &str) -> Result<bool> {
        self.call("remove a throttle", |core| core.remove_throttle(name, self.inner.durability()))
    }

    /// The throttle of this name: its limit, and how many tasks hold a slot of it. `None` if there
    /// is none.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.set_throttle("api", 2)?;
    /// let calls = queue.create_tube("calls", TubeOptions::default().throttle("api"))?;
    /// calls.put(b"a")?;
    /// let task = calls.take()?;
    /// let api = queue.throttle("api")?.unwrap();
    /// assert_eq!((api.limit, api.in_flight), (2, 1));
    /// task.ack()?;
    /// assert_eq!(queue.throttle("api")?.unwrap().in_flight, 0);
    /// assert!(queue.throttle("other")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name that no throttle has; as
    /// [`throttles`](Queue::throttles).
    pub fn throttle(&self, name: &str) -> Result<Option<ThrottleInfo>> {
        self.call("read a throttle", |core| {
            let name = throttle_name(name)?;
            core.look(|view, now| throttles::info(view, name, now))
        })
    }

    /// All throttles, in the order of their names. A damaged one is left out;
    /// [`check`](Queue::check) names it.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.set_throttle("api", 5)?;
    /// let all = queue.throttles()?;
    /// assert_eq!((&all[0].name[..], all[0].limit, all[0].in_flight), ("api", 5, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn throttles(&self) -> Result<Vec<ThrottleInfo>> {
        self.call("list throttles", |core| core.look(throttles::all))
    }

    /// The tasks that hold a slot of a throttle, in the order of their ids, those of temporary
    /// tubes after the others. They are read page by page.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.set_throttle("api", 5)?;
    /// let calls = queue.create_tube("calls", TubeOptions::default().throttle("api"))?;
    /// let ids = calls.put_many([*b"a", *b"b"])?;
    /// let _taken = calls.take_many(2)?;
    /// assert_eq!(queue.throttle_holders("api").collect::<tubewell::Result<Vec<_>>>()?, ids);
    /// # Ok(())
    /// # }
    /// ```
    pub fn throttle_holders(&self, name: &str) -> ThrottleHolders {
        let (page, next) = (VecDeque::new(), Some(None));
        ThrottleHolders { inner: self.inner.clone(), name: name.to_owned(), page, next }
    }

    /// The tubes with a throttle, in the order in which they were made, each with the number of its
    /// ready tasks: what stands in front of the throttle while no slot is free. They are read page
    /// by page; a tube that is dropped in the meantime is left out. A tube in which a take has
    /// found it closed before tasks that have it [themselves](crate::NewTask::throttle) is among
    /// them; which ones these are a search [finds](crate::Filter::throttle).
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let calls = queue.create_tube("calls", TubeOptions::default().throttle("api"))?;
    /// calls.put_many([*b"a", *b"b"])?;
    /// let waiting = queue.throttled("api").collect::<tubewell::Result<Vec<_>>>()?;
    /// assert_eq!(waiting, [("calls".to_owned(), 2)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn throttled(&self, name: &str) -> TubesBehind {
        TubesBehind::new(self, NamedGate::Throttle(name))
    }

    /// Takes the slots of a throttle away from these tasks by force: they stay taken, and others
    /// may be taken in their stead. For a slot that a task holds which needs it no more. Those
    /// that hold none are stepped over. Returns how many held one; 64 are one step.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.set_throttle("api", 1)?;
    /// let calls = queue.create_tube("calls", TubeOptions::default().throttle("api"))?;
    /// calls.put_many([*b"a", *b"b"])?;
    /// let first = calls.take()?;
    /// assert_eq!(queue.release_throttle("api", &[first.id()])?, 1);
    /// let second = calls.take()?;
    /// first.ack()?;
    /// second.ack()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`remove_throttle`](Queue::remove_throttle). Then some of the tasks may have lost their
    /// slots.
    pub fn release_throttle(&self, name: &str, ids: &[TaskId]) -> Result<usize> {
        self.call("release a throttle", |core| {
            core.release_slots(name, ids, self.inner.durability())
        })
    }
}

/// The tasks that hold a slot of a throttle, from [`Queue::throttle_holders`].
pub struct ThrottleHolders {
    inner: Arc<QueueInner>,
    name: String,
    page: VecDeque<TaskId>,
    /// Where the next page begins, and that of the first; none after the last one.
    next: Option<Option<Key>>,
}

impl ThrottleHolders {
    fn read(&mut self) -> Result<Option<TaskId>> {
        while self.page.is_empty() {
            // After an error the listing is over.
            let Some(from) = self.next.take() else { return Ok(None) };
            let name = throttle_name(&self.name)?;
            let (page, next) = self
                .inner
                .core
                .look(|view, _| throttles::holders(view, name, from.as_ref(), PAGE_TASKS))?;
            (self.page, self.next) = (page.into(), next.map(Some));
        }
        Ok(self.page.pop_front())
    }
}

impl Iterator for ThrottleHolders {
    type Item = Result<TaskId>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().map_err(|error| error.during("list")).transpose()
    }
}

debug!([] ThrottleHolders, "ThrottleHolders", _this);
