//! The merge of a tube into another one, as a call: it goes through the steps, one for each turn of
//! the lock. What it leaves, by an error or a panic, is work of the timer.

use crate::engine::merge::{BeginMerge, MergePlace, MergedSome};
use crate::engine::tube_cache::{KnownTubes, TubeEntry};
use crate::runtime::shared::Shared;
use crate::runtime::timer::{MergeFailure, merge_step};
use crate::words::durability::Durability;
use crate::words::error::Result;
use crate::words::verb::{Merged, add_clashes};

/// Leaves a merge to the timer, unless the call has gone through all of it.
struct Driven<'a> {
    parts: &'a Shared,
    tube: u32,
    has_ended: bool,
}

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.parts.left_merges.leave(self.tube, MergePlace::default());
            self.parts.timer.wake();
        }
    }
}

impl Shared {
    /// Moves all tasks of a tube to another one.
    pub(crate) fn merge(&self, from: u32, into: u32, durability: Durability) -> Result<Merged> {
        // What is due in it moves too.
        self.catch_up(from).or_else(|error| self.refused(error, durability))?;
        let begin = BeginMerge { from, into };
        let ((), mut mark) = self.apply(&begin).or_else(|error| self.refused(error, durability))?;
        let mut driven = Driven { parts: self, tube: from, has_ended: false };
        let (mut merged, mut next) = (Merged::default(), Some(MergePlace::default()));
        while let Some(place) = next {
            self.state.pass_on();
            self.enter()?;
            let stepped = merge_step(self, (from, into), place);
            let (done, later) = stepped.map_err(|MergeFailure { error, has_ended }| {
                driven.has_ended = has_ended;
                error
            })?;
            (mark, next) = (later, note(&mut merged, done));
        }
        driven.has_ended = true;
        if matches!(durability, Durability::Durable) {
            self.wait(mark)?;
        }
        Ok(merged)
    }

    /// The timer goes on with all merges that were begun.
    pub(crate) fn find_merges(&self) {
        let merging: Vec<u32> = {
            let derived = &self.state.lock().derived;
            let is_one = |tube: &TubeEntry| tube.row.merges_into().is_some();
            let numbers = derived.numbers().into_iter();
            numbers.filter(|number| derived.known(*number).is_some_and(is_one)).collect()
        };
        for tube in merging {
            self.left_merges.leave(tube, MergePlace::default());
            self.timer.wake();
        }
    }
}

/// Adds a step to what a merge has done. Returns where it goes on.
fn note(merged: &mut Merged, done: MergedSome) -> Option<MergePlace> {
    if done.begins_walk {
        // It meets them again.
        (merged.clashed, merged.clashes) = (0, Vec::new());
    }
    merged.moved += done.moved;
    add_clashes((&mut merged.clashed, &mut merged.clashes), done.clashes);
    (merged.stopped_at, merged.is_cut_short) = (done.stopped_at, done.is_over);
    done.next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::merge::MergeSome;
    use crate::words::limits::SWEEP_TASKS;
    use crate::words::wait::Wait;
    use crate::{Cause, ErrorKind, Queue, State, Tube, TubeOptions, WhyNot};
    use std::collections::BTreeMap;

    const TASKS: usize = 4 * SWEEP_TASKS;

    /// Two tubes, of which the first has tasks, and none of its merge into the other was moved.
    fn begun(queue: &Queue) -> [Tube; 2] {
        let [old, new] = ["old", "new"].map(|name| queue.tube(name).unwrap());
        old.put_many(vec![*b"x"; TASKS]).unwrap();
        let op = BeginMerge { from: old.number, into: new.number };
        old.inner.core.apply(&op).unwrap();
        [old, new]
    }

    /// One step of a call.
    fn step(old: &Tube, new: &Tube, place: MergePlace) -> MergedSome {
        let (from, into) = (old.number, new.number);
        let some = MergeSome { from, into, place, others_wait: false };
        old.inner.core.apply(&some).unwrap().0
    }

    fn ready(tube: &Tube) -> u64 {
        tube.stats().unwrap().ready
    }

    fn sound(queue: &Queue) {
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }

    #[test]
    fn it_goes_in_steps_and_hands_out_nothing_meanwhile() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let events = queue.events_with(crate::EventOptions::new().kept(8 * TASKS));
        let [old, new] = begun(&queue);
        let done = step(&old, &new, MergePlace::default());
        assert_eq!((done.moved, ready(&new)), (SWEEP_TASKS as u64, SWEEP_TASKS as u64));
        assert!(old.try_take().unwrap().is_none());
        assert!(queue.tubes_of(["old"]).unwrap().try_take().unwrap().is_none());
        assert_eq!(old.info().unwrap().merges_into.as_deref(), Some("new"));
        let next = old.peek_next(State::Ready).unwrap().unwrap().id;
        let why = queue.explain(next).unwrap();
        assert_eq!(why.reasons[0], WhyNot::Merging { into: "new".into() });
        assert!(why.to_string().contains("move to tube \"new\""), "{why}");
        // One that is put meanwhile moves too.
        let late = old.put(b"late").unwrap();
        assert_eq!(old.claim(next).unwrap_err().kind(), ErrorKind::WrongState);
        sound(&queue);
        let merged = queue.merge("old", "new").unwrap();
        assert_eq!(merged.moved as usize, TASKS - SWEEP_TASKS + 1);
        assert_eq!(queue.find(late).unwrap().tube, "new");
        new.claim(next).unwrap().ack().unwrap();
        assert_eq!(old.info().unwrap().merges_into, None);
        let mut commits = BTreeMap::new();
        std::iter::from_fn(|| events.try_recv())
            .filter(|event| event.cause == Cause::Merge && event.to.is_some())
            .for_each(|event| *commits.entry(event.mark).or_insert(0) += 1);
        assert!(commits.values().all(|tasks| *tasks <= SWEEP_TASKS), "{commits:?}");
        assert_eq!(commits.values().sum::<usize>(), TASKS + 1);
        sound(&queue);
    }

    /// Beside a call, after one that has failed, and after an opening.
    #[test]
    fn the_timer_goes_on_where_no_call_does() {
        for steps in 0..6 {
            let home = tempfile::tempdir().unwrap();
            let open = || Queue::builder().by_hand(true).open(home.path().join("q")).unwrap();
            let queue = open();
            let [old, new] = begun(&queue);
            let mut place = Some(MergePlace::default());
            for _ in 0..steps {
                place = step(&old, &new, place.unwrap()).next;
            }
            assert!(old.inner.core.left_merges.is_empty());
            queue.close().unwrap();
            drop((old, new));
            let queue = open();
            let [old, new] = ["old", "new"].map(|name| queue.tube(name).unwrap());
            assert!(old.try_take().unwrap().is_none());
            queue.tick().unwrap();
            assert_eq!((ready(&old), ready(&new) as usize), (0, TASKS), "{steps} steps");
            assert_eq!(old.info().unwrap().merges_into, None);
            assert!(old.inner.core.left_merges.is_empty());
            sound(&queue);
        }
        // A call that ends in the middle.
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let [old, new] = begun(&queue);
        drop(Driven { parts: &old.inner.core, tube: old.number, has_ended: false });
        queue.tick().unwrap();
        assert_eq!((ready(&old), ready(&new) as usize), (0, TASKS));
        sound(&queue);
    }

    #[test]
    fn it_ends_with_either_tube() {
        for at in 0..4 {
            let queue = Queue::builder().by_hand(true).in_memory().unwrap();
            let [old, new] = begun(&queue);
            let place = step(&old, &new, MergePlace::default()).next.unwrap();
            match at {
                0 => queue.force_drop_tube("old").unwrap(),
                1 => queue.force_drop_tube("new").unwrap(),
                2 => _ = old.truncate().unwrap(),
                _ => _ = new.truncate().unwrap(),
            }
            let mut next = Some(place);
            while let Some(place) = next {
                next = step(&old, &new, place).next;
            }
            if at > 0 {
                assert_eq!(old.info().unwrap().merges_into, None);
                old.put(b"y").unwrap();
                assert!(old.try_take().unwrap().is_some());
            }
            queue.tick().unwrap();
            sound(&queue);
        }
    }

    /// One goes out of a tube at a time, and none into one that is on its way.
    #[test]
    fn a_tube_is_in_one_merge_at_a_time() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let [_old, _new] = begun(&queue);
        queue.tube("other").unwrap().put(b"y").unwrap();
        let kind = |from, into| queue.merge(from, into).map_err(|error| error.kind());
        let busy = Err(ErrorKind::TubeBusy);
        assert_eq!(kind("old", "other"), busy, "it goes elsewhere");
        assert_eq!(kind("other", "old"), busy, "what came would go on");
        assert_eq!(kind("new", "other"), busy, "others come to it");
        assert_eq!(kind("new", "old"), busy);
        assert_eq!(kind("other", "new").unwrap().moved, 1);
        assert_eq!(kind("old", "new").unwrap().moved as usize, TASKS);
        assert_eq!(kind("new", "old").unwrap().moved as usize, TASKS + 1);
        sound(&queue);
    }

    /// A task that is put before the merge has ended is moved, so those who wait get the next.
    #[test]
    fn takers_wait_for_the_end() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let [old, new] = begun(&queue);
        let core = old.inner.core.clone();
        let (number, stop) = (old.number, crate::Stop::new());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| core.take(number, 0, Wait::until(&stop)).unwrap());
            while core.takers.count(number) == 0 {
                std::thread::yield_now();
            }
            queue.merge("old", "new").unwrap();
            let id = old.put(b"y").unwrap();
            assert_eq!(waits.join().unwrap().map(|taken| taken.id), Some(id));
        });
        // What is ready after the end is handed out.
        let full = queue.create_tube("full", TubeOptions::default().capacity(1)).unwrap();
        std::thread::scope(|scope| {
            let op = BeginMerge { from: new.number, into: full.number };
            core.apply(&op).unwrap();
            let waits = scope.spawn(|| core.take(new.number, 0, Wait::until(&stop)).unwrap());
            while core.takers.count(new.number) == 0 {
                std::thread::yield_now();
            }
            assert!(queue.merge("new", "full").unwrap().stopped_at.is_some());
            assert!(waits.join().unwrap().is_some());
        });
    }

    /// Each lease is where it is known to be, also if it is voided while others move.
    #[test]
    fn leases_that_are_voided_meanwhile_return() {
        for at in 0..4 {
            let queue = Queue::builder().by_hand(true).in_memory().unwrap();
            let [old, new] = ["old", "new"].map(|name| queue.tube(name).unwrap());
            old.put_many(vec![*b"x"; TASKS]).unwrap();
            let (session, bob) = (queue.session(), queue.consumer("bob").unwrap());
            let half = old.by(&session).take_many(TASKS / 2).unwrap();
            let other = old.by(&bob).take_many(TASKS / 2).unwrap();
            let op = BeginMerge { from: old.number, into: new.number };
            old.inner.core.apply(&op).unwrap();
            let place = step(&old, &new, MergePlace::default()).next.unwrap();
            let first = step(&old, &new, place).next.unwrap();
            match at {
                0 => old.release_all().unwrap(),
                1 => new.release_all().unwrap(),
                2 => session.close().unwrap(),
                _ => bob.close().unwrap(),
            }
            let mut next = Some(first);
            while let Some(place) = next {
                next = step(&old, &new, place).next;
            }
            queue.tick().unwrap();
            sound(&queue);
            let (mut settled, mut lost) = (0, 0);
            for task in half.into_iter().chain(other) {
                match task.ack() {
                    Ok(()) => settled += 1,
                    Err(error) if error.kind() == ErrorKind::LeaseLost => lost += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!((settled, lost), (TASKS / 2, TASKS / 2), "case {at}");
            assert_eq!((ready(&old), ready(&new) as usize), (0, TASKS / 2), "case {at}");
            sound(&queue);
        }
    }

    /// Where a merge was is no place in another merge of the tube: between the rows of its old run
    /// and those of its new one stand the rows of other tubes.
    #[test]
    fn an_old_place_ends_with_its_merge() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let [old, new] = begun(&queue);
        let between = queue.tube("between").unwrap();
        between.put_many(vec![*b"b"; TASKS]).unwrap();
        let place = step(&old, &new, MergePlace::default()).next.unwrap();
        old.truncate().unwrap();
        assert!(step(&old, &new, place.clone()).is_over);
        old.put_many(vec![*b"y"; TASKS]).unwrap();
        let op = BeginMerge { from: old.number, into: new.number };
        old.inner.core.apply(&op).unwrap();
        let done = step(&old, &new, place.clone());
        assert!(done.is_over && done.next.is_none());
        old.inner.core.left_merges.leave(old.number, place);
        let merged = queue.merge("old", "new").unwrap();
        assert_eq!((merged.moved as usize, merged.is_cut_short), (TASKS, false));
        queue.tick().unwrap();
        assert_eq!(ready(&between) as usize, TASKS);
        assert_eq!(ready(&new) as usize, TASKS + SWEEP_TASKS);
        sound(&queue);
    }

    /// The end of a session walks over the tubes by their numbers. A lease that goes to a tube
    /// behind it is found by the second walk.
    #[test]
    fn the_end_of_a_session_finds_leases_that_have_moved_behind_it() {
        let clock = crate::ManualClock::new();
        let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory().unwrap();
        let [new, old] = ["new", "old"].map(|name| queue.tube(name).unwrap());
        old.put_many(vec![*b"x"; TASKS]).unwrap();
        let minute = std::time::Duration::from_secs(60);
        let bob = queue.consumer_with_grace("bob", minute).unwrap();
        old.by(&bob).take_many(TASKS).unwrap().into_iter().for_each(|task| _ = task.detach());
        drop(bob);
        let core = &old.inner.core;
        let op = BeginMerge { from: old.number, into: new.number };
        core.apply(&op).unwrap();
        let grace = core.grace_timers.expired(crate::words::clock::NEVER - 1).remove(0);
        let after = crate::runtime::sessions::return_leases(core, grace, None).unwrap();
        assert!(after.is_some());
        // These are not void yet by the clock of the queue, and go with the merge.
        let mut next = Some(MergePlace::default());
        while let Some(place) = next {
            next = step(&old, &new, place).next;
        }
        assert_eq!(new.stats().unwrap().taken as usize, TASKS - SWEEP_TASKS);
        clock.advance(minute);
        queue.tick().unwrap();
        assert_eq!((new.stats().unwrap().taken, ready(&new) as usize), (0, TASKS));
        sound(&queue);
    }

    #[test]
    fn calls_share_a_merge_and_each_says_its_part() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let [old, new] = begun(&queue);
        let first = step(&old, &new, MergePlace::default());
        let rest = queue.merge("old", "new").unwrap();
        assert_eq!(rest.moved as usize, TASKS - SWEEP_TASKS);
        let over = step(&old, &new, first.next.unwrap());
        assert!(over.is_over && over.moved == 0);
        sound(&queue);
    }
}
