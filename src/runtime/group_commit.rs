//! Group commit: a leader syncs for all waiting callers. There is no fixed waiting window, and a
//! single caller does not hand over to another thread. It never takes the engine's lock: while one
//! caller syncs, others apply and write, and the next sync covers them all.

use crate::store::{Health, Journal};
use crate::words::clock::machine_now;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::{Arc, AtomicBool, Condvar, Latch, Mutex, Ordering};
use std::time::Duration;

/// The flusher begins at least 1/EARLY_DIVISOR of the interval before its end. Otherwise callers
/// would find the limit passed and sync themselves, each time for as long as a sync takes.
const EARLY_DIVISOR: u32 = 4;
/// The least time between two looks whether another thread's sync has ended.
const IDLE_WAIT_MIN: Duration = Duration::from_millis(1);

/// The number of a record. What a caller has read is synced when this record is. 0 is always
/// synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(pub(crate) u64);

/// Where durable callers wait.
pub(crate) struct GroupCommit {
    /// `None` for a queue in memory, where nothing is synced.
    journal: Option<Arc<Journal>>,
    queue: Mutex<SyncQueue>,
    health: Arc<Health>,
    /// Whether the flusher will look again by itself, so that it need not be woken.
    flusher_awake: AtomicBool,
    flusher: Mutex<Flusher>,
    flusher_condvar: Condvar,
}

/// The callers that wait for a sync.
#[derive(Default)]
struct SyncQueue {
    /// A caller syncs, or its turn has come to do so.
    leading: bool,
    /// Those that have come since the last sync began.
    next: Option<Arc<SyncGroup>>,
}

/// Callers that wait for the same sync. The record of each was written before it joined, so a sync
/// that begins later covers it.
#[derive(Default)]
struct SyncGroup {
    /// The sync before it has ended: the caller that came first leads.
    turn: Latch<()>,
    /// Whether its sync has succeeded.
    synced: Latch<bool>,
}

#[derive(Default)]
struct Flusher {
    closed: bool,
    /// A record was written since the flusher looked.
    woken: bool,
}

impl GroupCommit {
    pub(crate) fn new(journal: Option<Arc<Journal>>, health: Arc<Health>) -> Self {
        Self {
            journal,
            queue: Mutex::default(),
            health,
            flusher_awake: AtomicBool::new(false),
            flusher: Mutex::default(),
            flusher_condvar: Condvar::new(),
        }
    }

    pub(crate) fn is_synced(&self, mark: Mark) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.synced() >= mark.0)
    }

    /// Returns after the mark is synced. If no thread leads a sync, this one does.
    ///
    /// # Errors
    /// `Unknown` if the sync failed, also if another thread led it.
    #[inline]
    pub(crate) fn wait(&self, mark: Mark) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let mut queue = self.queue.lock();
        if journal.synced() >= mark.0 {
            return Ok(());
        }
        // It is unknown what was written since the last good sync.
        if journal.has_failed() {
            return Err(unknown());
        }
        if !queue.leading {
            queue.leading = true;
            drop(queue);
            return self.lead(journal, None);
        }
        if let Some(group) = queue.next.clone() {
            drop(queue);
            return if group.synced.wait() { Ok(()) } else { Err(unknown()) };
        }
        let group = Arc::<SyncGroup>::default();
        queue.next = Some(group.clone());
        drop(queue);
        group.turn.wait();
        let group = self.queue.lock().next.take();
        self.lead(journal, group)
    }

    /// Syncs once, for the leader and its group. Then it gives the next group its turn, and wakes
    /// its own group after that, so that the disk works while many threads are woken.
    fn lead(&self, journal: &Journal, group: Option<Arc<SyncGroup>>) -> Result<()> {
        let synced = journal.sync();
        if let Err(error) = &synced
            && journal.has_failed()
        {
            self.health.break_down(error.to_string(), false);
        }
        let mut queue = self.queue.lock();
        let next = queue.next.clone();
        queue.leading = next.is_some();
        drop(queue);
        if let Some(next) = next {
            next.turn.set(());
        }
        if let Some(group) = group {
            group.synced.set(synced.is_ok());
        }
        synced.map(drop).map_err(|_| unknown())
    }

    /// Notes that a record was written at this lease time. Returns whether the oldest unsynced
    /// record is older than `limit`: then the caller syncs, so that the limit does not depend on
    /// the flusher.
    #[inline]
    pub(crate) fn note_write(&self, lease: u64, limit: u64) -> bool {
        let Some(journal) = &self.journal else { return false };
        // 0 means that there is none, so a record at time 0 counts as written at 1.
        let now = lease.max(1);
        let oldest = journal.oldest.load(Ordering::Acquire);
        if oldest != 0 {
            return now.saturating_sub(oldest) > limit;
        }
        match journal.oldest.compare_exchange(0, now, Ordering::SeqCst, Ordering::Acquire) {
            // A durable caller comes here for every sync. Waking the flusher each time would cost
            // as much as the rest of the verb.
            Ok(_) if self.flusher_awake.load(Ordering::SeqCst) => false,
            Ok(_) => {
                // Under the lock, because otherwise the flusher could miss it between its check and
                // its sleep.
                let mut flusher = self.flusher.lock();
                flusher.woken = true;
                self.flusher_condvar.notify_one();
                drop(flusher);
                false
            }
            Err(oldest) => now.saturating_sub(oldest) > limit,
        }
    }

    /// The flusher's thread: sleeps while everything is synced, otherwise looks once an interval
    /// and syncs what is unsynced. Calls `idle` after an interval without writes, until that
    /// returns that all is synced: a durable caller's own sync may take longer.
    pub(crate) fn flush_until_closed(
        &self,
        interval: impl Fn() -> Duration,
        idle: impl Fn() -> bool,
    ) {
        let Some(journal) = &self.journal else { return };
        // After a failed sync there is nothing left to do.
        let is_synced = || journal.oldest.load(Ordering::SeqCst) == 0 || journal.has_failed();
        let rests = |flusher: &mut Flusher| !flusher.closed && !flusher.woken && is_synced();
        let mut flusher = self.flusher.lock();
        let mut owes_idle = false;
        let (mut took, mut age) = (Duration::ZERO, Duration::ZERO);
        while !flusher.closed {
            // Cleared before `oldest` is read, and a writer sets `oldest` before it reads this: one
            // of the two always sees the other's write.
            self.flusher_awake.store(false, Ordering::SeqCst);
            if !owes_idle {
                self.flusher_condvar.wait_while(&mut flusher, rests);
            } else if rests(&mut flusher) {
                self.flusher_condvar.wait_for(&mut flusher, interval().max(IDLE_WAIT_MIN));
                if rests(&mut flusher) {
                    drop(flusher);
                    owes_idle = !idle();
                    flusher = self.flusher.lock();
                }
                continue;
            }
            if flusher.closed {
                break;
            }
            (flusher.woken, owes_idle) = (false, true);
            self.flusher_awake.store(true, Ordering::SeqCst);
            self.flusher_condvar.wait_for(&mut flusher, wait_before_sync(interval(), took, age));
            age = Duration::ZERO;
            if !flusher.closed && !is_synced() {
                drop(flusher);
                let began = machine_now();
                // The failure is stored, and every later call returns it.
                let _ = self.flush();
                took = began.elapsed();
                // What is unsynced now was written after the sync began.
                age = if is_synced() { Duration::ZERO } else { took };
                flusher = self.flusher.lock();
            }
        }
    }

    /// The interval is another one: the flusher syncs what waits for the end of the former one, and
    /// follows the new one from there on.
    pub(crate) fn change_interval(&self) {
        // Under the lock, because otherwise the flusher could miss it before its sleep.
        let _flusher = self.flusher.lock();
        self.flusher_condvar.notify_one();
    }

    /// Syncs everything that is written at the time of the call.
    ///
    /// # Errors
    /// As [`wait`](GroupCommit::wait).
    pub(crate) fn flush(&self) -> Result<()> {
        // A writer may set `oldest` only after another thread's sync has covered its record.
        // Cleared before the last record is read, because a later writer sets it again.
        if let Some(journal) = &self.journal {
            journal.oldest.swap(0, Ordering::SeqCst);
        }
        self.wait(self.last_written())
    }

    /// Syncs what was written in the journal's head before the call.
    pub(crate) fn sync_head(&self) -> Result<()> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.sync_head())
    }

    /// The last record written so far, and so the last one that a caller can have read.
    pub(crate) fn last_written(&self) -> Mark {
        Mark(self.journal.as_ref().map_or(0, |journal| journal.written()))
    }

    /// Ends the flusher's thread.
    pub(crate) fn close(&self) {
        self.flusher.lock().closed = true;
        self.flusher_condvar.notify_all();
    }
}

/// How long the flusher waits before it syncs records of this age, after a sync that took so long.
/// The next sync may take twice as long, and then no record is older than the interval at its end,
/// if that is possible: while a checkpoint's pages go to the disk, a sync takes 30 ms instead of 1.
fn wait_before_sync(interval: Duration, took: Duration, age: Duration) -> Duration {
    let early = (interval / EARLY_DIVISOR).max(2 * took);
    interval.saturating_sub(early).saturating_sub(age)
}

fn unknown() -> Error {
    Error::new(ErrorKind::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the flusher waited for three quarters of the interval after each sync, also
    /// after one of 20 ms. What was written during that sync then was older than the interval, and
    /// the next caller waited for a sync: 30 ms beside a checkpoint.
    #[test]
    fn records_are_synced_before_they_are_older_than_the_interval() {
        let millis = Duration::from_millis;
        let interval = millis(50);
        assert_eq!(
            wait_before_sync(interval, millis(1), Duration::ZERO),
            millis(37) + millis(1) / 2
        );
        for (took, age) in [(0, 0), (1, 1), (10, 10), (16, 16), (16, 0), (25, 0)] {
            let wait = wait_before_sync(interval, millis(took), millis(age));
            assert!(millis(age) + wait + millis(2 * took) <= interval, "{took} ms, {age} ms old");
        }
        assert_eq!(wait_before_sync(interval, millis(40), millis(40)), Duration::ZERO);
        assert_eq!(wait_before_sync(Duration::ZERO, millis(1), Duration::ZERO), Duration::ZERO);
    }
}
