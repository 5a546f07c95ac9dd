//! The waiters of a queue. A waiter registers an entry, looks again, then sleeps, so no wake-up can
//! be lost. Entries are woken first come, first served. A waiter that leaves with an unused wake-up
//! passes it on.

use crate::words::clock::NEVER;
use crate::words::sync::{AtomicUsize, Mutex, Ordering, Receiver, Sender, bounded};
use std::collections::{BTreeMap, HashMap};

/// The waiters for one thing, such as tasks to take or room to put, by tube.
#[derive(Default)]
pub(crate) struct Wake {
    lists: Mutex<WaitLists>,
    /// Lets publishing without waiters cost one load.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct WaitLists {
    tubes: HashMap<u32, BTreeMap<u64, WaitEntry>>,
    next: u64,
}

struct WaitEntry {
    woken: bool,
    signal: Sender<()>,
    holder: u32,
    since: u64,
    until: u64,
}

/// An entry in the order of waiting. Its drop passes an unused wake-up on.
pub(crate) struct Registration<'a> {
    wake: &'a Wake,
    tube: u32,
    entry: u64,
    signal: Receiver<()>,
}

/// One waiter, for listings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) tube: u32,
    pub(crate) holder: u32,
    /// Lease time.
    pub(crate) since: u64,
    /// Lease time; [`NEVER`] without a limit.
    pub(crate) until: u64,
}

impl Wake {
    /// Adds an entry after the others of a tube.
    pub(crate) fn register(
        &self,
        tube: u32,
        holder: u32,
        since: u64,
        until: Option<u64>,
    ) -> Registration<'_> {
        let (ring, signal) = bounded(1);
        let mut lists = self.lists.lock();
        let entry = lists.next;
        lists.next += 1;
        let until = until.unwrap_or(NEVER);
        let waiter = WaitEntry { woken: false, signal: ring, holder, since, until };
        lists.tubes.entry(tube).or_default().insert(entry, waiter);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Registration { wake: self, tube, entry, signal }
    }

    /// Wakes `count` waiters of the tube, first come, first served.
    pub(crate) fn wake(&self, tube: u32, count: usize) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(entries) = self.lists.lock().tubes.get_mut(&tube) {
            for entry in entries.values_mut().filter(|entry| !entry.woken).take(count) {
                entry.woken = true;
                // The channel is full only if the waiter was made to look again; then it looks
                // anyway.
                let _ = entry.signal.try_send(());
            }
        }
    }

    /// Makes every waiter look again, at the clock or at the end of the queue, without a wake-up.
    pub(crate) fn recheck_all(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        for entries in self.lists.lock().tubes.values() {
            for entry in entries.values() {
                let _ = entry.signal.try_send(());
            }
        }
    }

    /// How many wait for the tube.
    pub(crate) fn count(&self, tube: u32) -> usize {
        self.lists.lock().tubes.get(&tube).map_or(0, BTreeMap::len)
    }

    /// All waiters, in the order of the entries.
    pub(crate) fn list(&self) -> Vec<Waiting> {
        let lists = self.lists.lock();
        let mut list: Vec<(u64, Waiting)> = Vec::new();
        for (tube, entries) in &lists.tubes {
            for (number, entry) in entries {
                let WaitEntry { holder, since, until, .. } = *entry;
                list.push((*number, Waiting { tube: *tube, holder, since, until }));
            }
        }
        list.sort_unstable_by_key(|(number, _)| *number);
        list.into_iter().map(|(_, waiting)| waiting).collect()
    }
}

impl Registration<'_> {
    /// The signal for this waiter's wake-up, or for looking again.
    pub(crate) fn signal(&self) -> &Receiver<()> {
        &self.signal
    }

    /// Uses up the wake-up: the waiter is about to look. A later wake-up signals again.
    pub(crate) fn look(&self) {
        let mut lists = self.wake.lists.lock();
        if let Some(entry) =
            lists.tubes.get_mut(&self.tube).and_then(|entries| entries.get_mut(&self.entry))
        {
            entry.woken = false;
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut lists = self.wake.lists.lock();
        let mut unused = false;
        if let Some(entries) = lists.tubes.get_mut(&self.tube) {
            unused = entries.remove(&self.entry).is_some_and(|entry| entry.woken);
            if entries.is_empty() {
                lists.tubes.remove(&self.tube);
            }
        }
        self.wake.waiting.fetch_sub(1, Ordering::SeqCst);
        drop(lists);
        if unused {
            self.wake.wake(self.tube, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung(entry: &Registration<'_>) -> bool {
        entry.signal().try_recv().is_ok()
    }

    #[test]
    fn first_come_first_served_and_one_each() {
        let wake = Wake::default();
        let (a, b, c) = (
            wake.register(1, 0, 0, None),
            wake.register(1, 0, 0, None),
            wake.register(2, 0, 0, None),
        );
        wake.wake(1, 1);
        assert!(rung(&a) && !rung(&b) && !rung(&c));
        wake.wake(1, 1);
        assert!(!rung(&a) && rung(&b), "the first still has its wake-up");
        a.look();
        wake.wake(1, 5);
        assert!(rung(&a) && !rung(&b) && !rung(&c));
    }

    #[test]
    fn a_waiter_that_leaves_passes_its_wake_up_on() {
        let wake = Wake::default();
        let (a, b) = (wake.register(1, 0, 0, None), wake.register(1, 0, 0, None));
        wake.wake(1, 1);
        drop(a);
        assert!(rung(&b));
        b.look();
        drop(b);
        assert_eq!((wake.count(1), wake.list().len()), (0, 0));
    }
}
