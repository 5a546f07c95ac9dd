//! Who waits for what. A waiter takes a seat, looks again, then sleeps, so no wake-up can be lost;
//! seats are woken first come, first served. Whoever leaves with a wake-up unused passes it on.

use crate::clock::NEVER;
use crate::sync::{AtomicUsize, Mutex, Ordering, Receiver, Sender, bounded};
use std::collections::{BTreeMap, HashMap};

/// The waiters for one thing, such as tasks to take or room to put, by tube.
#[derive(Default)]
pub(crate) struct Wake {
    rooms: Mutex<Rooms>,
    /// So that publishing to nobody costs one load.
    seated: AtomicUsize,
}

#[derive(Default)]
struct Rooms {
    tubes: HashMap<u32, BTreeMap<u64, Seat>>,
    next: u64,
}

struct Seat {
    woken: bool,
    bell: Sender<()>,
    holder: u32,
    since: u64,
    until: u64,
}

/// A place in the order of waiting. Leaving it passes an unused wake-up on.
pub(crate) struct Seated<'a> {
    wake: &'a Wake,
    tube: u32,
    seat: u64,
    bell: Receiver<()>,
}

/// What is known of one waiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) tube: u32,
    pub(crate) holder: u32,
    /// Lease time.
    pub(crate) since: u64,
    /// Lease time; [`NEVER`] for one that waits for ever.
    pub(crate) until: u64,
}

impl Wake {
    /// Takes the last seat of a tube.
    pub(crate) fn sit(&self, tube: u32, holder: u32, since: u64, until: Option<u64>) -> Seated<'_> {
        let (ring, bell) = bounded(1);
        let mut rooms = self.rooms.lock();
        let seat = rooms.next;
        rooms.next += 1;
        let until = until.unwrap_or(NEVER);
        let waiter = Seat { woken: false, bell: ring, holder, since, until };
        rooms.tubes.entry(tube).or_default().insert(seat, waiter);
        self.seated.fetch_add(1, Ordering::SeqCst);
        Seated { wake: self, tube, seat, bell }
    }

    /// Wakes as many waiters of the tube, first come, first served.
    pub(crate) fn wake(&self, tube: u32, count: usize) {
        if self.seated.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(seats) = self.rooms.lock().tubes.get_mut(&tube) {
            for seat in seats.values_mut().filter(|seat| !seat.woken).take(count) {
                seat.woken = true;
                // Full only if it was nudged; then it looks again anyway.
                let _ = seat.bell.try_send(());
            }
        }
    }

    /// Makes everyone look again, at the clock or at the end of the queue, without a turn.
    pub(crate) fn nudge_all(&self) {
        if self.seated.load(Ordering::SeqCst) == 0 {
            return;
        }
        for seats in self.rooms.lock().tubes.values() {
            for seat in seats.values() {
                let _ = seat.bell.try_send(());
            }
        }
    }

    /// How many wait for the tube.
    pub(crate) fn count(&self, tube: u32) -> usize {
        self.rooms.lock().tubes.get(&tube).map_or(0, BTreeMap::len)
    }

    /// Everyone who waits, in the order of the seats.
    pub(crate) fn list(&self) -> Vec<Waiting> {
        let rooms = self.rooms.lock();
        let mut list: Vec<(u64, Waiting)> = Vec::new();
        for (tube, seats) in &rooms.tubes {
            for (number, seat) in seats {
                let Seat { holder, since, until, .. } = *seat;
                list.push((*number, Waiting { tube: *tube, holder, since, until }));
            }
        }
        list.sort_unstable_by_key(|(number, _)| *number);
        list.into_iter().map(|(_, waiting)| waiting).collect()
    }
}

impl Seated<'_> {
    /// The bell that rings when it is this waiter's turn, or when it should look again.
    pub(crate) fn bell(&self) -> &Receiver<()> {
        &self.bell
    }

    /// Uses up the wake-up: the waiter is about to look. A later one rings again.
    pub(crate) fn look(&self) {
        let mut rooms = self.wake.rooms.lock();
        if let Some(seat) =
            rooms.tubes.get_mut(&self.tube).and_then(|seats| seats.get_mut(&self.seat))
        {
            seat.woken = false;
        }
    }
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        let mut rooms = self.wake.rooms.lock();
        let mut unused = false;
        if let Some(seats) = rooms.tubes.get_mut(&self.tube) {
            unused = seats.remove(&self.seat).is_some_and(|seat| seat.woken);
            if seats.is_empty() {
                rooms.tubes.remove(&self.tube);
            }
        }
        self.wake.seated.fetch_sub(1, Ordering::SeqCst);
        drop(rooms);
        if unused {
            self.wake.wake(self.tube, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung(seat: &Seated<'_>) -> bool {
        seat.bell().try_recv().is_ok()
    }

    #[test]
    fn first_come_first_served_and_one_each() {
        let wake = Wake::default();
        let (a, b, c) = (wake.sit(1, 0, 0, None), wake.sit(1, 0, 0, None), wake.sit(2, 0, 0, None));
        wake.wake(1, 1);
        assert!(rung(&a) && !rung(&b) && !rung(&c));
        wake.wake(1, 1);
        assert!(!rung(&a) && rung(&b), "the first has its turn still");
        a.look();
        wake.wake(1, 5);
        assert!(rung(&a) && !rung(&b) && !rung(&c));
    }

    #[test]
    fn a_waiter_that_leaves_passes_its_turn_on() {
        let wake = Wake::default();
        let (a, b) = (wake.sit(1, 0, 0, None), wake.sit(1, 0, 0, None));
        wake.wake(1, 1);
        drop(a);
        assert!(rung(&b));
        b.look();
        drop(b);
        assert_eq!((wake.count(1), wake.list().len()), (0, 0));
    }
}
