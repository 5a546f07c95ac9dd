//! The waiters of a queue. A waiter registers an entry, looks again, then sleeps, so no wake-up can
//! be lost. Entries are woken first come, first served. A waiter that leaves with an unused wake-up
//! passes it on.

use crate::words::sync::{AtomicUsize, Mutex, Ordering, Receiver, Sender, bounded};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The waiters for one thing, such as tasks to take or room to put, by tube.
#[derive(Default)]
pub(crate) struct Wake {
    lists: Mutex<WaitLists>,
    /// Lets publishing without waiters cost one load.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct WaitLists {
    /// By the tube and the number of the entry.
    entries: BTreeMap<(u32, u64), WaitEntry>,
    next: u64,
}

struct WaitEntry {
    /// It was woken and has not looked since.
    woken: bool,
    signal: Sender,
    waiting: Waiting,
}

/// An entry in the order of waiting. Its drop passes an unused wake-up on.
pub(crate) struct Registration<'a> {
    wake: &'a Wake,
    /// Its tube and its number.
    entry: (u32, u64),
    /// Receives a message for a wake-up, or to look again.
    pub(crate) signal: Receiver,
}

/// One waiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) tube: u32,
    pub(crate) holder: u32,
    /// Lease time.
    pub(crate) since: u64,
    /// Lease time.
    pub(crate) until: u64,
}

impl Wake {
    /// Adds an entry after the others of a tube.
    pub(crate) fn register(&self, waiting: Waiting) -> Registration<'_> {
        let (sender, signal) = bounded(1);
        let mut lists = self.lists.lock();
        let entry = (waiting.tube, lists.next);
        lists.next += 1;
        lists.entries.insert(entry, WaitEntry { woken: false, signal: sender, waiting });
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Registration { wake: self, entry, signal }
    }

    /// Wakes `count` waiters of the tube, first come, first served.
    pub(crate) fn wake(&self, tube: u32, count: usize) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut lists = self.lists.lock();
        let entries = lists.entries.range_mut(of(tube)).map(|(_, entry)| entry);
        for entry in entries.filter(|entry| !entry.woken).take(count) {
            entry.woken = true;
            // The channel is full only if the waiter was made to look again; then it looks anyway.
            let _ = entry.signal.try_send(());
        }
    }

    /// Makes every waiter look again, at the clock or at the end of the queue, without a wake-up.
    pub(crate) fn recheck_all(&self) {
        // Not only if `waiting` says that there are some: what changed, such as the end of the
        // queue, may be protected by no lock. A waiter that registers after this sees the change.
        for entry in self.lists.lock().entries.values() {
            let _ = entry.signal.try_send(());
        }
    }

    /// How many wait for the tube.
    pub(crate) fn count(&self, tube: u32) -> usize {
        self.lists.lock().entries.range(of(tube)).count()
    }

    /// All waiters, in the order of the entries.
    pub(crate) fn list(&self) -> Vec<Waiting> {
        let lists = self.lists.lock();
        let mut entries: Vec<_> = lists.entries.iter().collect();
        entries.sort_unstable_by_key(|((_, number), _)| *number);
        entries.into_iter().map(|(_, entry)| entry.waiting).collect()
    }
}

/// The keys of a tube's entries.
fn of(tube: u32) -> RangeInclusive<(u32, u64)> {
    (tube, 0)..=(tube, u64::MAX)
}

impl Registration<'_> {
    /// Uses up the wake-up: the waiter is about to look. A later wake-up signals again.
    pub(crate) fn use_wakeup(&self) {
        if let Some(entry) = self.wake.lists.lock().entries.get_mut(&self.entry) {
            entry.woken = false;
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let entry = self.wake.lists.lock().entries.remove(&self.entry);
        self.wake.waiting.fetch_sub(1, Ordering::SeqCst);
        if entry.is_some_and(|entry| entry.woken) {
            self.wake.wake(self.entry.0, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(wake: &Wake, tube: u32) -> Registration<'_> {
        wake.register(Waiting { tube, holder: 0, since: 0, until: 0 })
    }

    fn is_signalled(entry: &Registration<'_>) -> bool {
        entry.signal.try_recv().is_ok()
    }

    #[test]
    fn first_come_first_served_and_one_each() {
        let wake = Wake::default();
        let (a, b, c) = (register(&wake, 1), register(&wake, 1), register(&wake, 2));
        wake.wake(1, 1);
        assert!(is_signalled(&a) && !is_signalled(&b) && !is_signalled(&c));
        wake.wake(1, 1);
        assert!(!is_signalled(&a) && is_signalled(&b), "the first still has its wake-up");
        a.use_wakeup();
        wake.wake(1, 5);
        assert!(is_signalled(&a) && !is_signalled(&b) && !is_signalled(&c));
    }

    #[test]
    fn a_waiter_that_leaves_passes_its_wake_up_on() {
        let wake = Wake::default();
        let (a, b) = (register(&wake, 1), register(&wake, 1));
        wake.wake(1, 1);
        drop(a);
        assert!(is_signalled(&b));
        b.use_wakeup();
        drop(b);
        assert_eq!((wake.count(1), wake.list().len()), (0, 0));
    }
}
