//! The waiters of a queue. A waiter registers an entry, looks again, then sleeps, so no wake-up can
//! be lost. Entries are woken first come, first served. A waiter that leaves with an unused wake-up
//! passes it on.
//!
//! A call that waits on a set of tubes has one entry for all of them, in the same order of coming.
//! A wake-up of one of the tubes that it did not use goes on to the others that wait for that tube.
//!
//! Takers look at the same time, as many as there are tasks for. A choosy one, which takes only the
//! tasks of a group, passes a wake-up that it has not used on to those that came after it. Those
//! who wait for room look *in turn*: of each tube only the first, so that no later one gets the
//! room that it waits for.

use crate::runtime::seats::Seats;
use crate::words::clock::NEVER;
use crate::words::sync::{Arc, AtomicUsize, Mutex, Ordering, Receiver, Sender, bounded};
use crate::words::sync::{ThreadId, current};
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::iter::once;
use std::mem;
use std::ops::RangeInclusive;

/// The waiters for one thing, such as tasks to take or room to put, by tube.
#[derive(Default)]
pub(crate) struct Wake {
    in_turn: bool,
    lists: Mutex<WaitLists>,
    /// Lets publishing without waiters cost one load.
    waiting: AtomicUsize,
    /// The sets that a tube is in.
    seats: Arc<Seats>,
}

/// What a call waits at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitPlace {
    Tube(u32),
    /// A set of tubes.
    Set(u32),
}

impl From<u32> for WaitPlace {
    fn from(tube: u32) -> Self {
        Self::Tube(tube)
    }
}

#[derive(Default)]
struct WaitLists {
    /// By the place and the number of the entry.
    entries: BTreeMap<(WaitPlace, u64), WaitEntry>,
    next: u64,
}

struct WaitEntry {
    /// Its wake-ups since it last looked: at most one, except in turn. There the first entry of a
    /// tube has all of them, and `usize::MAX` stands for any number.
    wakeups: usize,
    /// The tube of its last wake-up.
    by: u32,
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

/// An entry in the order of waiting. Its end passes unused wake-ups on.
pub(crate) struct Registration<'a> {
    wake: &'a Wake,
    /// Its place and its number.
    entry: (WaitPlace, u64),
    /// The tube of the wake-up that it last used up.
    by: Cell<u32>,
    /// Receives a message for a wake-up, or to look again.
    pub(crate) signal: Receiver,
}

/// The tubes of the wake-ups that a waiter did not use when it left. They were passed on, if others
/// wait for these tubes.
pub(crate) type Unused = [Option<u32>; 2];

/// One waiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) at: WaitPlace,
    pub(crate) holder: u32,
    /// Lease time.
    pub(crate) since: u64,
    /// Lease time.
    pub(crate) until: u64,
    /// It takes only some of the tasks.
    pub(crate) is_choosy: bool,
}

impl WaitLists {
    /// Gives the first waiter of a tube so many wake-ups more.
    fn wake_first(&mut self, tube: u32, count: usize) {
        if let Some((_, first)) = self.entries.range_mut(of(tube)).next() {
            first.wake(tube, count);
        }
    }

    /// Wakes so many of those that wait at these places, in the order in which they came, from this
    /// number on. Returns how many there were.
    #[cold]
    fn wake_of_several(
        &mut self,
        (tube, from): (u32, u64),
        places: &[WaitPlace],
        count: usize,
    ) -> usize {
        let entries = &self.entries;
        let idle = |place: &WaitPlace| {
            let entries = entries.range((*place, from)..=(*place, u64::MAX));
            let idle = entries.filter(|(_, entry)| entry.wakeups == 0);
            idle.map(|((place, number), _)| (*number, *place)).peekable()
        };
        let (mut lines, mut chosen) = (places.iter().map(idle).collect::<Vec<_>>(), Vec::new());
        while chosen.len() < count {
            let first = lines.iter_mut().filter_map(|line| line.peek().copied()).min();
            let Some(first) = first else { break };
            lines.iter_mut().for_each(|line| _ = line.next_if_eq(&first));
            chosen.push(first);
        }
        for (number, place) in &chosen {
            if let Some(entry) = self.entries.get_mut(&(*place, *number)) {
                entry.wake(tube, 1);
            }
        }
        chosen.len()
    }

    /// Lets the first waiter of each tube look.
    fn wake_each_first(&mut self) {
        let mut from = (WaitPlace::Tube(0), 0);
        while let Some((&(WaitPlace::Tube(tube), _), first)) = self.entries.range_mut(from..).next()
        {
            first.wake(tube, usize::MAX);
            let Some(next) = tube.checked_add(1) else { break };
            from = (WaitPlace::Tube(next), 0);
        }
    }
}

impl WaitEntry {
    fn wake(&mut self, tube: u32, count: usize) {
        self.wakeups = self.wakeups.saturating_add(count);
        self.by = tube;
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

    /// Waiters at tubes, and at sets of them.
    pub(crate) fn over(seats: Arc<Seats>) -> Self {
        Self { seats, ..Self::default() }
    }

    /// Adds an entry after the others.
    pub(crate) fn register(&self, waiting: Waiting) -> Registration<'_> {
        let (signal, receiver) = bounded(1);
        let mut lists = self.lists.lock();
        let entry = (waiting.at, lists.next);
        lists.next += 1;
        // What the first one waits for may be there already, perhaps several times.
        let is_first = lists.entries.range(of(waiting.at)).next().is_none();
        let wakeups = if self.in_turn && is_first { usize::MAX } else { 0 };
        let (doing, thread) = (Doing::Looks, current().id());
        let by = waiting.at.tube();
        lists.entries.insert(entry, WaitEntry { wakeups, by, doing, thread, signal, waiting });
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Registration { wake: self, entry, by: Cell::new(by), signal: receiver }
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
        let places = self.places(tube);
        let mut lists = self.lists.lock();
        if self.in_turn {
            return lists.wake_first(tube, count);
        }
        if places.len() > 1 {
            lists.wake_of_several((tube, 0), &places, count);
            return;
        }
        let entries = lists.entries.range_mut(of(tube)).map(|(_, entry)| entry);
        for entry in entries.filter(|entry| entry.wakeups == 0).take(count) {
            entry.wake(tube, 1);
        }
    }

    /// Wakes the first waiter of the tube that has no wake-up, if one of these takes any task: the
    /// wake-up may come to that one. Returns whether there was one.
    pub(crate) fn wake_one(&self, tube: u32) -> bool {
        if !self.has_any() {
            return false;
        }
        let places = self.places(tube);
        let mut lists = self.lists.lock();
        let mut entries = places.iter().flat_map(|place| lists.entries.range(of(*place)));
        let takes_any = entries.any(|(_, entry)| entry.wakeups == 0 && !entry.waiting.is_choosy);
        takes_any && lists.wake_of_several((tube, 0), &places, 1) > 0
    }

    /// Where those wait who wait for this tube.
    fn places(&self, tube: u32) -> SmallVec<[WaitPlace; 2]> {
        let sets = self.seats.of(tube).into_iter().map(|seat| WaitPlace::Set(seat.set));
        once(WaitPlace::Tube(tube)).chain(sets).collect()
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
        let places = self.places(tube);
        let lists = self.lists.lock();
        places.into_iter().map(|place| lists.entries.range(of(place)).count()).sum()
    }

    /// The same without those that wait for all tubes with a prefix.
    pub(crate) fn count_named(&self, tube: u32) -> usize {
        let seats = self.seats.of(tube);
        let named = seats.into_iter().filter(|seat| seat.is_named);
        let places = named.map(|seat| WaitPlace::Set(seat.set)).chain([WaitPlace::Tube(tube)]);
        let lists = self.lists.lock();
        places.map(|place| lists.entries.range(of(place)).count()).sum()
    }

    /// All waiters, in the order of the entries.
    pub(crate) fn list(&self) -> Vec<Waiting> {
        let lists = self.lists.lock();
        let mut entries: Vec<_> = lists.entries.iter().collect();
        entries.sort_unstable_by_key(|((_, number), _)| *number);
        entries.into_iter().map(|(_, entry)| entry.waiting).collect()
    }
}

/// The keys of the entries at a place.
fn of(place: impl Into<WaitPlace>) -> RangeInclusive<(WaitPlace, u64)> {
    let place = place.into();
    (place, 0)..=(place, u64::MAX)
}

impl WaitPlace {
    /// The tube, or 0.
    fn tube(self) -> u32 {
        match self {
            Self::Tube(tube) => tube,
            Self::Set(_) => 0,
        }
    }
}

impl Registration<'_> {
    /// Uses up the wake-ups: the waiter is about to look. A later one signals again. Returns how
    /// many there were; `None` if it is not to look, because it is not its turn or nothing changed
    /// since it looked.
    pub(crate) fn begin_look(&self) -> Option<usize> {
        let mut lists = self.wake.lists.lock();
        let entry = lists.entries.get_mut(&self.entry)?;
        entry.doing = Doing::Looks;
        self.by.set(entry.by);
        let wakeups = mem::take(&mut entry.wakeups);
        (!self.wake.in_turn || wakeups > 0).then_some(wakeups)
    }

    /// Ends the wait of one that has found something, in this tube if it waited on several. Passes
    /// on what it did not use of its wake-ups. Returns their tubes.
    pub(crate) fn leave_served(self, wakeups: usize, found_in: Option<u32>) -> Unused {
        let used = usize::from(found_in.is_none_or(|tube| tube == self.by.get()));
        self.leave_to_others(wakeups.saturating_sub(used))
    }

    /// The same without a find. What it was woken for is still there.
    pub(crate) fn leave_unserved(self, wakeups: usize) -> Unused {
        // One on several tubes that was not woken was woken for none of them.
        let least = usize::from(matches!(self.entry.0, WaitPlace::Tube(_)));
        self.leave_to_others(wakeups.max(least))
    }

    /// Ends the wait, and passes wake-ups on to other waiters. Returns their tubes.
    pub(crate) fn leave_to_others(self, wakeups: usize) -> Unused {
        let unused = Some(self.by.get()).filter(|_| wakeups > 0);
        if let WaitPlace::Set(_) = self.entry.0 {
            // Another tube may have woken it since. If this wakes its own entry, the end passes it
            // on.
            if wakeups > 0 {
                self.wake.wake_some(self.by.get(), wakeups);
            }
        } else if let Some(entry) = self.wake.lists.lock().entries.get_mut(&self.entry) {
            entry.wakeups = entry.wakeups.saturating_add(wakeups);
        }
        [unused, self.end()]
    }

    /// Ends the wait of one that has not looked since it was woken, if it was. Returns the tube of
    /// its wake-up.
    pub(crate) fn leave(self) -> Unused {
        [None, self.end()]
    }

    /// Passes wake-ups that the waiter has not used on to those that came after it. Returns the
    /// tube if there are none to whom all could go.
    #[cold]
    pub(crate) fn pass_on(&self, wakeups: usize) -> Option<u32> {
        let (tube, later) = (self.by.get(), self.entry.1 + 1);
        let places = self.wake.places(tube);
        let passed = self.wake.lists.lock().wake_of_several((tube, later), &places, wakeups);
        (passed < wakeups).then_some(tube)
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

impl Registration<'_> {
    /// Removes the entry, and passes its wake-ups on. Returns their tube.
    fn end(&self) -> Option<u32> {
        let mut lists = self.wake.lists.lock();
        let entry = lists.entries.remove(&self.entry)?;
        let before = lists.entries.range((self.entry.0, 0)..self.entry).next();
        let was_first = self.wake.in_turn && before.is_none();
        drop(lists);
        self.wake.waiting.fetch_sub(1, Ordering::SeqCst);
        // For the one behind it there may be what was not enough for the first.
        let left = entry.wakeups.max(usize::from(was_first));
        if left > 0 {
            self.wake.wake_some(entry.by, left);
        }
        Some(entry.by).filter(|_| left > 0)
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::seats::Seat;

    fn register(wake: &Wake, tube: u32) -> Registration<'_> {
        wake.register(Waiting { at: tube.into(), holder: 0, since: 0, until: 0, is_choosy: false })
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

    /// Tubes 1 and 2 are in set 7, tube 2 is in set 8 too, by its name.
    fn seated() -> Wake {
        let seats = Arc::<Seats>::default();
        seats.add(1, Seat { set: 7, is_named: false });
        seats.add(2, Seat { set: 7, is_named: false });
        seats.add(2, Seat { set: 8, is_named: true });
        Wake::over(seats)
    }

    fn on_set(wake: &Wake, set: u32) -> Registration<'_> {
        wake.register(Waiting {
            at: WaitPlace::Set(set),
            holder: 0,
            since: 0,
            until: 0,
            is_choosy: false,
        })
    }

    #[test]
    fn on_one_tube_or_on_several_first_come_first_served() {
        let wake = seated();
        let (a, b, c) = (register(&wake, 1), on_set(&wake, 7), register(&wake, 1));
        let (d, e) = (on_set(&wake, 8), on_set(&wake, 7));
        assert_eq!((wake.count(1), wake.count(2), wake.count(3)), (4, 3, 0));
        assert_eq!((wake.count_named(1), wake.count_named(2)), (2, 1));
        let signalled = || [&a, &b, &c, &d, &e].map(is_signalled);
        wake.wake(1, 1);
        assert_eq!(signalled(), [true, false, false, false, false]);
        wake.wake(1, 1);
        assert_eq!(signalled(), [false, true, false, false, false]);
        wake.wake(2, 1);
        assert_eq!(signalled(), [false, false, false, true, false], "that one has a wake-up");
        wake.wake(1, usize::MAX);
        assert_eq!(signalled(), [false, false, true, false, true]);
    }

    #[test]
    fn a_wake_up_that_another_tube_has_served_goes_on() {
        let wake = seated();
        let (both, one, two) = (on_set(&wake, 7), register(&wake, 1), register(&wake, 2));
        wake.wake(1, 1);
        assert_eq!(both.begin_look(), Some(1));
        // It found a task of tube 2, and meanwhile tube 2 has woken it too.
        wake.wake(2, 1);
        both.leave_served(1, Some(2));
        assert!(is_signalled(&one), "what woke it is still there");
        assert!(is_signalled(&two), "a later wake-up too");

        for (found_in, goes_on) in [(Some(1), false), (Some(2), true)] {
            let (both, one) = (on_set(&wake, 7), register(&wake, 1));
            wake.recheck_all();
            assert!(is_signalled(&one));
            wake.wake(1, 1);
            wake.wake(1, 1);
            let woken = both.begin_look();
            assert!(is_signalled(&one) || woken == Some(1));
            one.begin_look();
            both.leave_served(woken.unwrap(), found_in);
            assert_eq!(is_signalled(&one), goes_on, "{found_in:?}");
        }
    }

    #[test]
    fn a_waiter_on_several_that_leaves_passes_its_wake_up_on() {
        let wake = seated();
        for looks in [true, false] {
            let (both, one, two) = (on_set(&wake, 7), register(&wake, 1), register(&wake, 2));
            wake.wake(2, 1);
            match looks {
                true => {
                    let wakeups = both.begin_look().unwrap();
                    both.leave_unserved(wakeups);
                }
                false => drop(both),
            }
            assert!(is_signalled(&two) && !is_signalled(&one));
        }
        // One that was not woken leaves nothing.
        let (both, one) = (on_set(&wake, 7), register(&wake, 1));
        both.leave_unserved(0);
        assert!(!is_signalled(&one));
    }
}
