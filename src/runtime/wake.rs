//! The waiters of a queue. A waiter registers an entry, looks again, then sleeps, so no wake-up can
//! be lost. Entries are woken first come, first served. A waiter that leaves with an unused wake-up
//! passes it on.
//!
//! Takers look at the same time, as many as there are tasks for. Those who wait for room look *in
//! turn*: of each tube only the first, so that no later one gets the room that it waits for.

use crate::words::clock::NEVER;
use crate::words::sync::{AtomicUsize, Mutex, Ordering, Receiver, Sender, bounded};
use crate::words::sync::{ThreadId, current};
use std::collections::BTreeMap;
use std::mem;
use std::ops::RangeInclusive;

/// The waiters for one thing, such as tasks to take or room to put, by tube.
#[derive(Default)]
pub(crate) struct Wake {
    in_turn: bool,
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
    /// Its wake-ups since it last looked: at most one, except in turn. There the first entry of a
    /// tube has all of them, and `usize::MAX` stands for any number.
    wakeups: usize,
    doing: Doing,
    thread: ThreadId,
    signal: Sender,
    waiting: Waiting,
}

/// What a waiter does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Looks,
    /// It was signalled, and has to look before it sleeps.
    LooksAgain,
    Sleeps,
}

/// An entry in the order of waiting. Its drop passes unused wake-ups on.
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

impl WaitLists {
    /// Gives the first waiter of a tube so many wake-ups more.
    fn wake_first(&mut self, tube: u32, count: usize) {
        if let Some((_, first)) = self.entries.range_mut(of(tube)).next() {
            first.wake(count);
        }
    }

    /// Lets the first waiter of each tube look.
    fn wake_each_first(&mut self) {
        let mut from = (0, 0);
        while let Some((&(tube, _), first)) = self.entries.range_mut(from..).next() {
            first.wake(usize::MAX);
            let Some(next) = tube.checked_add(1) else { break };
            from = (next, 0);
        }
    }
}

impl WaitEntry {
    fn wake(&mut self, count: usize) {
        self.wakeups = self.wakeups.saturating_add(count);
        self.signal();
    }

    fn signal(&mut self) {
        self.doing = Doing::LooksAgain;
        // The channel is full only if the waiter was signalled before; then it looks anyway.
        let _ = self.signal.try_send(());
    }
}

impl Wake {
    /// Waiters that look in turn.
    pub(crate) fn in_turn() -> Self {
        Self { in_turn: true, ..Self::default() }
    }

    /// Adds an entry after the others of a tube.
    pub(crate) fn register(&self, waiting: Waiting) -> Registration<'_> {
        let (signal, receiver) = bounded(1);
        let mut lists = self.lists.lock();
        let entry = (waiting.tube, lists.next);
        lists.next += 1;
        // What the first one waits for may be there already, perhaps several times.
        let is_first = lists.entries.range(of(waiting.tube)).next().is_none();
        let wakeups = if self.in_turn && is_first { usize::MAX } else { 0 };
        let (doing, thread) = (Doing::Looks, current().id());
        lists.entries.insert(entry, WaitEntry { wakeups, doing, thread, signal, waiting });
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Registration { wake: self, entry, signal: receiver }
    }

    /// Wakes `count` waiters of the tube, first come, first served.
    #[inline]
    pub(crate) fn wake(&self, tube: u32, count: usize) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake_some(tube, count);
        }
    }

    #[cold]
    fn wake_some(&self, tube: u32, count: usize) {
        let mut lists = self.lists.lock();
        if self.in_turn {
            return lists.wake_first(tube, count);
        }
        let entries = lists.entries.range_mut(of(tube)).map(|(_, entry)| entry);
        for entry in entries.filter(|entry| entry.wakeups == 0).take(count) {
            entry.wake(1);
        }
    }

    /// Lets the first waiter of each tube look, and after it the others in turn.
    pub(crate) fn wake_all_in_turn(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.lists.lock().wake_each_first();
        }
    }

    /// Makes every waiter look again, at the clock or at the end of the queue, without a wake-up.
    pub(crate) fn recheck_all(&self) {
        // Not only if `waiting` says that there are some: what changed, such as the end of the
        // queue, may be protected by no lock. A waiter that registers after this sees the change.
        let mut lists = self.lists.lock();
        if self.in_turn {
            lists.wake_each_first();
        }
        lists.entries.values_mut().for_each(WaitEntry::signal);
    }

    /// The threads that sleep in a wait.
    pub(crate) fn asleep(&self) -> Vec<ThreadId> {
        let lists = self.lists.lock();
        let asleep = lists.entries.values().filter(|entry| entry.doing == Doing::Sleeps);
        asleep.map(|entry| entry.thread).collect()
    }

    /// Lease time at which the first wait ends, or [`NEVER`]. `None` while a waiter looks.
    pub(crate) fn first_end(&self) -> Option<u64> {
        let lists = self.lists.lock();
        lists.entries.values().try_fold(NEVER, |first, entry| {
            (entry.doing == Doing::Sleeps).then(|| first.min(entry.waiting.until))
        })
    }

    /// Whether any wait.
    pub(crate) fn has_any(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Whether any wait for the tube.
    #[inline]
    pub(crate) fn has_waiters(&self, tube: u32) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0 && self.count(tube) > 0
    }

    /// How many wait for the tube.
    #[cold]
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
    /// Uses up the wake-ups: the waiter is about to look. A later one signals again. Returns how
    /// many there were; `None` if it is not to look, because it is not its turn or nothing changed
    /// since it looked.
    pub(crate) fn begin_look(&self) -> Option<usize> {
        let mut lists = self.wake.lists.lock();
        let entry = lists.entries.get_mut(&self.entry)?;
        entry.doing = Doing::Looks;
        let wakeups = mem::take(&mut entry.wakeups);
        (!self.wake.in_turn || wakeups > 0).then_some(wakeups)
    }

    /// Ends the wait, and passes wake-ups on to other waiters.
    pub(crate) fn leave_to_others(self, wakeups: usize) {
        if let Some(entry) = self.wake.lists.lock().entries.get_mut(&self.entry) {
            entry.wakeups = entry.wakeups.saturating_add(wakeups);
        }
    }

    /// The waiter has looked and is about to sleep, unless it was signalled since.
    pub(crate) fn fall_asleep(&self) {
        if let Some(entry) = self.wake.lists.lock().entries.get_mut(&self.entry)
            && entry.doing == Doing::Looks
        {
            entry.doing = Doing::Sleeps;
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut lists = self.wake.lists.lock();
        let entry = lists.entries.remove(&self.entry);
        let before = lists.entries.range((self.entry.0, 0)..self.entry).next();
        let was_first = self.wake.in_turn && before.is_none();
        drop(lists);
        self.wake.waiting.fetch_sub(1, Ordering::SeqCst);
        // For the one behind it there may be what was not enough for the first.
        let left = entry.map_or(0, |entry| entry.wakeups).max(usize::from(was_first));
        if left > 0 {
            self.wake.wake_some(self.entry.0, left);
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
        a.begin_look();
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
        b.begin_look();
        drop(b);
        assert_eq!((wake.count(1), wake.list().len()), (0, 0));
    }

    #[test]
    fn in_turn_only_the_first_looks_and_the_next_after_it() {
        let wake = Wake::in_turn();
        let (a, b, c) = (register(&wake, 1), register(&wake, 1), register(&wake, 2));
        assert_eq!((a.begin_look(), b.begin_look()), (Some(usize::MAX), None));
        assert!(c.begin_look().is_some(), "another tube has a turn of its own");
        wake.wake(1, 1);
        wake.wake(1, 1);
        assert!(is_signalled(&a) && !is_signalled(&b));
        assert_eq!(a.begin_look(), Some(2));
        a.leave_to_others(1); // it found something
        assert!(is_signalled(&b));
        assert_eq!((b.begin_look(), b.begin_look()), (Some(1), None));
    }

    /// Two rooms became free before the second came, and the second waiter did not look because it
    /// was not its turn.
    #[test]
    fn a_wake_up_that_came_before_a_waiter_is_left_to_it() {
        let wake = Wake::in_turn();
        let a = register(&wake, 1);
        assert_eq!(a.begin_look(), Some(usize::MAX));
        wake.wake(1, 2);
        let b = register(&wake, 1);
        assert_eq!((a.begin_look(), b.begin_look()), (Some(2), None));
        a.leave_to_others(1);
        assert_eq!(b.begin_look(), Some(1));
    }

    /// Regression: a large put that waited for room gave up, and a small one behind it slept on
    /// beside the room that was enough for it.
    #[test]
    fn in_turn_a_first_that_gives_up_after_its_look_wakes_the_next() {
        let wake = Wake::in_turn();
        let (first, second) = (register(&wake, 1), register(&wake, 1));
        assert!(first.begin_look().is_some() && second.begin_look().is_none());
        drop(first);
        assert!(is_signalled(&second) && second.begin_look().is_some());
    }

    #[test]
    fn in_turn_a_waiter_that_leaves_without_a_look_passes_its_turn_on() {
        let wake = Wake::in_turn();
        let entries: Vec<_> = (0..10_000).map(|_| register(&wake, 1)).collect();
        wake.wake_all_in_turn();
        for entry in entries {
            assert!(is_signalled(&entry));
        }
        assert_eq!(wake.list().len(), 0);
    }
}
