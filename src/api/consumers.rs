//! The consumers of a queue: their sessions begin here, and who they are and what they hold is
//! listed. A listing is read page by page, and is not one instant.

use crate::api::consumer::Consumer;
use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::engine::owner_leases::{self, OwnerLeasePlace};
use crate::engine::query;
use crate::format::row::ConsumerRow;
use crate::words::clock::{NEVER, Now};
use crate::words::consumer::{ConsumerInfo, ConsumerOptions};
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::{Error, Result};
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::task::TakenInfo;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

impl Queue {
    /// Joins the open session of this name, which keeps its grace. If there is none, begins one
    /// with the [builder's grace](crate::Builder::session_grace), also if an earlier session has
    /// left leases. [`Consumer`] has an example.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let ada = queue.consumer("ada")?;
    /// let task = tube.by(&queue.consumer("ada")?).take()?; // by the same session
    /// assert_eq!(queue.consumers()?.len(), 1);
    /// ada.close()?;
    /// assert!(task.ack().unwrap_err().is_lease_lost());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name that is empty, longer than 255 bytes or has
    /// control characters; [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction).
    pub fn consumer(&self, name: &str) -> Result<Consumer> {
        self.call("open consumer", |_| Consumer::open(&self.inner, name, &ConsumerOptions::new()))
    }

    /// As [`consumer`](Queue::consumer), with this grace from now on. Zero: no grace;
    /// [`Duration::MAX`]: without end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let ada = queue.consumer_with_grace("ada", minute)?;
    /// tube.by(&ada).take()?.detach();
    /// drop(ada);
    /// assert!(tube.try_take()?.is_none()); // the lease is there
    /// clock.advance(minute);
    /// assert_eq!(tube.take()?.attempt(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`consumer`](Queue::consumer).
    pub fn consumer_with_grace(&self, name: &str, grace: Duration) -> Result<Consumer> {
        self.consumer_with(name, ConsumerOptions::new().grace(grace))
    }

    /// As [`consumer`](Queue::consumer), with what it says of itself; [`ConsumerOptions`] has an
    /// example. Of a session that is open it changes what is given.
    ///
    /// ```
    /// use tubewell::{ConsumerOptions, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let about = ConsumerOptions::new().kind("conductor").meta("floor 1");
    /// let ada = queue.consumer_with("ada", about)?;
    /// let moved = queue.consumer_with("ada", ConsumerOptions::new().meta("floor 2"))?;
    /// let known = &queue.consumers()?[0];
    /// assert_eq!(known.kind.as_deref(), Some("conductor"));
    /// assert_eq!(known.meta.as_deref(), Some("floor 2"));
    /// # drop((ada, moved));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`consumer`](Queue::consumer); [`Invalid`](ErrorKind::Invalid) for a kind or a host that
    /// is empty, longer than 255 bytes or has control characters;
    /// [`TooLarge`](ErrorKind::TooLarge) for metadata of more than 4096 bytes.
    pub fn consumer_with(&self, name: &str, about: ConsumerOptions) -> Result<Consumer> {
        self.call("open consumer", |_| Consumer::open(&self.inner, name, &about))
    }

    /// Begins a session without a name, for example one for each connection of a server. It writes
    /// nothing, and nothing of it outlives the process. When its last handle is dropped, or it is
    /// [closed](Consumer::close), the tasks that it still holds return to their places, and their
    /// attempts count.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let connection = queue.session();
    /// let ticket = tube.by(&connection).take()?.detach(); // the other end knows the ticket
    /// drop(connection);
    /// assert!(tube.ticket(ticket).ack().unwrap_err().is_lease_lost());
    /// assert_eq!(tube.take()?.attempt(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(&self) -> Consumer {
        Consumer::nameless(&self.inner)
    }

    /// The named consumers, the last one to be active first: those whose sessions are open, those
    /// whose leases wait for their grace to end, and those that are still
    /// [remembered](ConsumerOptions::keep). They are read, and what each holds is counted, in
    /// steps, so that nothing waits; what changes meanwhile is seen as before or as after.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let (ada, bob) = (queue.consumer("ada")?, queue.consumer("bob")?);
    /// let task = tube.by(&ada).take()?;
    /// let mut all = queue.consumers()?;
    /// all.sort_by(|one, other| one.name.cmp(&other.name));
    /// assert_eq!((&all[0].name[..], all[0].is_open, all[0].taken), ("ada", true, 1));
    /// assert_eq!((&all[1].name[..], all[1].is_open, all[1].taken), ("bob", true, 0));
    /// # drop(bob);
    /// # task.ack()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Damaged`](ErrorKind::Damaged) if a consumer's row is damaged.
    pub fn consumers(&self) -> Result<Vec<ConsumerInfo>> {
        let active = self.inner.core.activities.all();
        let found = self.call("list consumers", |core| {
            let rows = core.consumers()?;
            Ok((rows, core.look(|_, now| Ok(now))?))
        });
        let (rows, now) = found?;
        let mut held: HashMap<u32, (u64, u64)> = HashMap::new();
        if !rows.is_empty() {
            let mut pages = LeasePages::new(&self.inner, None);
            let named = |error: Error| error.during("list consumers");
            while let Some((consumer, lease)) = pages.next().map_err(named)? {
                let (taken, stalled) = held.entry(consumer).or_default();
                *taken += 1;
                *stalled += u64::from(lease.is_stalled);
            }
        }
        let describe = |(number, row): (u32, ConsumerRow)| {
            let active = active.get(&number).copied();
            info(row, active, held.get(&number).copied().unwrap_or_default(), now)
        };
        // One that was forgotten and opened again between two steps has the higher number.
        let rows: HashMap<String, _> =
            rows.into_iter().map(|(number, row)| (row.name.clone(), (number, row))).collect();
        let mut rows: Vec<_> = rows.into_values().collect();
        rows.sort_by_key(|(number, _)| *number);
        let mut consumers: Vec<_> = rows.into_iter().map(describe).collect();
        consumers.sort_by_key(|info| (info.idle.is_none(), info.idle, Reverse(info.is_open)));
        Ok(consumers)
    }

    /// The tasks that a named consumer holds, tube by tube in the order in which the tubes were
    /// made, those of a tube by id; also those that wait for its grace to end. None if no such
    /// consumer is known. They are read some at a time, as the iterator goes on.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let ada = queue.consumer("ada")?;
    /// let task = tube.by(&ada).take()?;
    /// let held: Vec<_> = queue.taken_by("ada")?.collect::<tubewell::Result<_>>()?;
    /// assert_eq!((held.len(), held[0].id), (1, task.id()));
    /// assert_eq!(queue.taken_by("bob")?.count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction). Of an item: the
    /// same, and [`Damaged`](ErrorKind::Damaged).
    pub fn taken_by(&self, name: &str) -> Result<TakenBy> {
        let number = self.call("list taken tasks", |core| {
            core.look(|view, _| query::consumer_named(view, name))
        })?;
        Ok(TakenBy(number.map(|number| LeasePages::new(&self.inner, Some(number)))))
    }

    /// Ends the sessions of these consumers as [`Consumer::close`] does, also of those that are not
    /// open, and forgets the consumers. Names that are not known are fine.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let ada = queue.consumer_with_grace("ada", Duration::MAX)?;
    /// tube.by(&ada).take()?.detach();
    /// drop(ada);
    /// assert_eq!(queue.consumers()?[0].taken, 1); // in its grace
    /// queue.deregister(&["ada", "unknown"])?;
    /// assert!(queue.consumers()?.is_empty());
    /// assert_eq!(tube.take()?.attempt(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Io`](ErrorKind::Io). Those before the one that failed are gone.
    pub fn deregister<N: AsRef<str>>(&self, names: &[N]) -> Result<()> {
        self.call("deregister", |_| {
            names.iter().try_for_each(|name| Consumer::deregister(&self.inner, name.as_ref()))
        })
    }
}

/// What is known of a consumer that holds so many tasks, so many of them stalled.
fn info(
    row: ConsumerRow,
    active: Option<u64>,
    (taken, stalled): (u64, u64),
    now: Now,
) -> ConsumerInfo {
    // Lease time counts only while this process runs, and not at all read-only.
    let idle = match active.filter(|_| now.lease != NEVER) {
        Some(active) => Some(now.lease.saturating_sub(active)),
        None => row.active().map(|active| now.queue.saturating_sub(active)),
    };
    ConsumerInfo {
        kind: row.kind().map(str::to_owned),
        host: row.host().map(str::to_owned),
        pid: row.pid(),
        meta: row.meta().map(str::to_owned),
        is_open: row.until == NEVER,
        idle: idle.map(Duration::from_micros),
        taken,
        stalled,
        name: row.name,
    }
}

/// The tasks that a consumer holds, from [`Queue::taken_by`].
#[must_use = "nothing is read before `next`"]
pub struct TakenBy(Option<LeasePages>);

impl Iterator for TakenBy {
    type Item = Result<TakenInfo>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.0.as_mut()?.next();
        if !matches!(next, Ok(Some(_))) {
            self.0 = None;
        }
        let next = next.map_err(|error| error.during("list taken tasks"));
        next.transpose().map(|lease| lease.map(|(_, lease)| lease))
    }
}

debug!([] TakenBy, "TakenBy", this, "is_over": &this.0.is_none());

/// A walk over leases of named consumers, page by page.
struct LeasePages {
    inner: Arc<QueueInner>,
    of: Option<u32>,
    page: VecDeque<(u32, TakenInfo)>,
    from: Option<OwnerLeasePlace>,
}

impl LeasePages {
    fn new(inner: &Arc<QueueInner>, of: Option<u32>) -> Self {
        let from = Some(OwnerLeasePlace::default());
        Self { inner: inner.clone(), of, page: VecDeque::new(), from }
    }

    fn next(&mut self) -> Result<Option<(u32, TakenInfo)>> {
        while self.page.is_empty()
            && let Some(from) = self.from
        {
            let core = &self.inner.core;
            core.state.pass_on();
            let page = core.look(|view, now| owner_leases::page(view, now, self.of, from))?;
            self.page.extend(page.leases);
            self.from = page.next;
        }
        Ok(self.page.pop_front())
    }
}
