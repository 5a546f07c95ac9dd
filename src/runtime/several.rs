//! Takes from several tubes, and the sets of tubes behind them. Where a set has many tubes they are
//! added and left in steps, with the lock passed on between two.

use crate::engine::query;
use crate::engine::take::{FromTube, TakeFrom};
use crate::engine::tube_set::Choice;
use crate::format::View;
use crate::runtime::sessions::{end_graces, is_any_over, return_all_nameless, return_before_op};
use crate::runtime::shared::Shared;
use crate::runtime::taking::UnlessStopped;
use crate::runtime::tube_sets::{ListedTube, PrefixedTubes};
use crate::runtime::wake::WaitPlace;
use crate::words::clock::NEVER;
use crate::words::error::Result;
use crate::words::limits::NAMES_OF_STEP;
use crate::words::sync::Arc;
use crate::words::wait::Wait;

/// The tubes of a set.
#[derive(Clone, Debug)]
pub(crate) enum TubesOf {
    /// These.
    List(Vec<ListedTube>),
    /// All with a prefix, also those that are made later.
    Prefix(Arc<PrefixedTubes>),
}

impl Shared {
    /// Begins a set. Returns its number.
    pub(crate) fn begin_set(&self, of: &TubesOf, choice: Choice) -> Result<u32> {
        self.enter()?;
        let prefix = match of {
            TubesOf::List(_) => None,
            TubesOf::Prefix(prefixed) => Some(prefixed),
        };
        // From now on tubes with the prefix come into it when they are made.
        let set = self.state.lock().derived.begin_set(choice, prefix);
        let filled = match of {
            TubesOf::List(tubes) => {
                let places = tubes.iter().zip(0..);
                self.fill(set, places.map(|(it, place)| (it.tube, place, it.weight)).collect());
                Ok(())
            }
            TubesOf::Prefix(prefixed) => self.fill_with(set, prefixed),
        };
        filled.inspect_err(|_| self.end_set(set))?;
        Ok(set)
    }

    fn fill(&self, set: u32, tubes: Vec<(u32, u32, u32)>) {
        for some in tubes.chunks(NAMES_OF_STEP) {
            self.state.pass_on();
            let mut state = self.state.lock();
            some.iter().for_each(|tube| state.derived.add_to_set(set, *tube));
        }
    }

    fn fill_with(&self, set: u32, of: &PrefixedTubes) -> Result<()> {
        for names in self.names(&of.prefix)?.chunks(NAMES_OF_STEP) {
            // A tube that was dropped since is not added.
            let member = |view: &dyn View, name: &String| {
                let tube = query::tube_named(view, name)?;
                Ok(tube.map(|tube| (tube, 0, of.weights.of(name))))
            };
            let members = self.look(|view, _| {
                names.iter().filter_map(|name| member(view, name).transpose()).collect()
            })?;
            self.fill(set, members);
        }
        Ok(())
    }

    /// Ends a set that no call waits on any more.
    pub(crate) fn end_set(&self, set: u32) {
        let (ended, seats) = {
            let mut state = self.state.lock();
            (state.derived.end_set(set), state.derived.seats.clone())
        };
        let tubes: Vec<u32> = ended.iter().flat_map(|ended| ended.tubes_from(0)).collect();
        for some in tubes.chunks(NAMES_OF_STEP) {
            seats.remove_set(set, some);
        }
        self.state.lock().derived.free_set(set);
    }

    /// Takes one task from the tubes of a set; waits for one.
    pub(crate) fn take_from(
        &self,
        (set, holder): (u32, u32),
        wait: Wait<'_>,
    ) -> Result<Option<FromTube>> {
        let take = || {
            let take = TakeFrom { set, most: 1, holder };
            let taken = self.take_through(&UnlessStopped { take, wait })?.pop();
            Ok(taken.map(|taken| {
                let tube = taken.tube;
                (taken, Some(tube))
            }))
        };
        match take()? {
            None => self.wait_at(&self.takers, (WaitPlace::Set(set), holder, false), wait, take),
            Some((taken, _)) => Ok(Some(taken)),
        }
    }

    /// Takes up to so many tasks from the tubes of a set, without waiting.
    pub(crate) fn take_many_from(
        &self,
        (set, holder): (u32, u32),
        most: usize,
    ) -> Result<Vec<FromTube>> {
        let wait = Wait::NO;
        self.take_through(&UnlessStopped { take: TakeFrom { set, most, holder }, wait })
    }

    /// Takes, and looks on as long as it has found nothing and not looked at all tubes, with the
    /// lock passed on between two steps.
    fn take_through(&self, op: &UnlessStopped<'_, TakeFrom>) -> Result<Vec<FromTube>> {
        loop {
            if self.grace_timers.next() != NEVER {
                self.enter()?;
                return_before_op(self, || self.end_graces_of_set(op.take.set))?;
            }
            let taken = self.apply(op)?.0;
            if !taken.tasks.is_empty() || !taken.more {
                return Ok(taken.tasks.into_vec());
            }
            self.state.pass_on();
        }
    }

    /// Returns the leases in the tubes of a set whose consumers' grace is over. Those in other
    /// tubes the timer returns.
    #[cold]
    fn end_graces_of_set(&self, set: u32) -> Result<()> {
        if !is_any_over(self) {
            return Ok(());
        }
        return_all_nameless(self)?;
        let mut from = Some(0);
        while let Some(first) = from {
            let (held, next) = self.running()?.held_in_set(set, first);
            held.into_iter().try_for_each(|tube| end_graces(self, Some(tube)))?;
            from = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Op, OpContext};
    use crate::format::{Deadline, Range, Tag, Value, key};
    use crate::runtime::commit::{Attempts, EngineState, Need, Undone};
    use crate::words::durability::Durability;
    use crate::words::error::ErrorKind;
    use crate::words::limits::SWEEP_TASKS;
    use crate::words::sync::yield_now;
    use crate::{ManualClock, Queue, Stop};
    use std::thread;
    use std::time::Duration;

    /// Beside a call on one tube, one on two gets every second task of it: each takes again as soon
    /// as it has one, and a task is put when both sleep.
    #[test]
    fn a_call_on_two_tubes_and_one_on_one_take_turns() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let tube = queue.tube("a").unwrap().durability(Durability::Relaxed);
        let both = queue.tubes_of(["a", "b"]).unwrap();
        let (served, of) = std::sync::mpsc::channel();
        let stop = Stop::new();
        thread::scope(|scope| {
            for on_both in [false, true] {
                let (tube, both, stop, served) = (&tube, &both, &stop, served.clone());
                scope.spawn(move || {
                    let next =
                        || if on_both { both.take_until(stop) } else { tube.take_until(stop) };
                    while let Some(task) = next().unwrap() {
                        served.send(on_both).unwrap();
                        task.ack().unwrap();
                    }
                });
            }
            let mut turns = Vec::new();
            for _ in 0..100 {
                while tube.inner.core.takers.asleep().len() < 2 {
                    yield_now();
                }
                tube.put(b"x").unwrap();
                turns.push(of.recv().unwrap());
            }
            stop.stop();
            assert!(turns.windows(2).all(|two| two[0] != two[1]), "{turns:?}");
        });
    }

    /// Regression: a set that ended gave its number back before its seats. A set that began
    /// meanwhile lost its seats with them, and no put woke its calls any more.
    #[test]
    fn the_number_of_a_set_is_in_use_until_its_seats_are_gone() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let tube = queue.tube("a").unwrap();
        let mut state = tube.inner.core.state.lock();
        let first = state.derived.begin_set(Choice::InOrder, None);
        state.derived.add_to_set(first, (tube.number, 0, 1));
        assert!(state.derived.end_set(first).is_some());
        let second = state.derived.begin_set(Choice::InOrder, None);
        assert_ne!(first, second);
        state.derived.add_to_set(second, (tube.number, 0, 1));
        state.derived.seats.remove_set(first, &[tube.number]);
        assert_eq!(state.derived.seats.of(tube.number).len(), 1);
        for set in [first, second] {
            state.derived.free_set(set);
        }
        assert!(state.derived.sets.is_none());
    }

    /// Regression: each tube of a set had a turn of the lock of its own, and all of them came after
    /// one another under one lock: 64 000 tasks in a prefix of 1000 tubes.
    #[test]
    fn what_is_due_in_many_tubes_is_worked_off_in_turns() {
        const TUBES: usize = 3 * SWEEP_TASKS;
        let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        for number in 0..TUBES {
            let tube = queue.tube(&format!("{number:03}")).unwrap();
            (0..5).for_each(|_| _ = tube.task(b"x").delay(second).put().unwrap());
        }
        let outside = queue.tube("outside").unwrap();
        outside.task(b"x").delay(second).put().unwrap();
        clock.advance(second);
        let core = &queue.inner.core;
        for (several, of) in [("0", 100), ("1", TUBES - 100)] {
            let several = queue.tubes_with_prefix(several).unwrap();
            let take = TakeFrom { set: several.list.set().unwrap(), most: 1, holder: 0 };
            let (mut attempts, mut turns) = (Attempts::default(), 0);
            let left = |state: &EngineState| state.store.count(Range::of(Tag::Delayed));
            loop {
                let mut state = core.state.lock();
                let before = left(&state);
                let step = state.execute(&take, &mut attempts, &core.env());
                assert!(before - left(&state) <= SWEEP_TASKS as u64);
                match step {
                    Err(Undone::TryAfter(Need::Yield)) => turns += 1,
                    Ok((taken, _)) => break assert_eq!(taken.tasks.len(), 1),
                    Err(_) => panic!("it is refused"),
                }
            }
            assert_eq!(turns, (of * 5).div_ceil(SWEEP_TASKS) - 1);
        }
        assert_eq!(core.state.lock().store.count(Range::of(Tag::Delayed)), 1, "not in the sets");
    }

    /// Regression: a take from several tubes returned all leases of a consumer whose grace was
    /// over, in whatever tube, before it looked.
    #[test]
    fn a_take_returns_only_leases_in_its_tubes() {
        let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let tubes = ["a", "b", "other"].map(|name| queue.tube(name).unwrap());
        let ada = queue.consumer_with_grace("ada", minute).unwrap();
        for tube in &tubes {
            tube.put_many([&b"x"[..]; 3]).unwrap();
            let taken = tube.by(&ada).take_many(3).unwrap();
            taken.into_iter().for_each(|task| _ = task.detach());
        }
        drop(ada);
        clock.advance(minute);
        let several = queue.tubes_of(["a", "b"]).unwrap();
        assert_eq!(several.take_many(9).unwrap().len(), 6);
        let core = &queue.inner.core;
        assert_eq!(
            core.state.lock().store.count(Range::of(Tag::OwnerLease)),
            3,
            "in the other tube"
        );
        queue.tick().unwrap();
        assert_eq!(tubes[2].stats().unwrap().ready, 3);
    }

    /// A deadline that cannot be read stops the due work of its tube until a repair, and no take
    /// from others.
    #[test]
    fn a_damaged_tube_stops_no_take_from_the_others() {
        let clock = ManualClock::new();
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let [damaged, sound] = ["a", "b"].map(|name| queue.tube(name).unwrap());
        damaged.task(b"x").delay(Duration::from_secs(1)).put().unwrap();
        damaged.inner.core.run(&Unreadable { tube: damaged.number }, Durability::Durable).unwrap();
        clock.advance(Duration::from_secs(2));
        assert_eq!(damaged.try_take().map(drop).unwrap_err().kind(), ErrorKind::Damaged);
        let several = queue.tubes_of(["a", "b"]).unwrap();
        sound.put(b"y").unwrap();
        let task = several.try_take().unwrap().unwrap();
        assert_eq!(task.tube(), "b");
        task.ack().unwrap();
        assert!(several.try_take().unwrap().is_none());
    }

    /// A deadline whose key is too short, in the place of all that are due by delays.
    struct Unreadable {
        tube: u32,
    }

    impl Op for Unreadable {
        type Done = ();

        fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
            let run = ctx.tube(self.tube)?.run();
            let mut at = key::due_of(run, Deadline::Delay);
            at.push(0);
            ctx.set(at, Value::EMPTY)
        }
    }

    /// A handle that is gone, and tubes that are gone, leave nothing in memory.
    #[test]
    fn a_dropped_handle_and_dropped_tubes_leave_nothing_in_memory() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let core = queue.inner.core.clone();
        let seats = core.state.lock().derived.seats.clone();
        let all = queue.tubes_with_prefix("").unwrap();
        assert!(all.try_take().unwrap().is_none());
        for number in 0..300 {
            queue.tube(&number.to_string()).unwrap();
        }
        assert_eq!(seats.len(), 300);
        for number in 0..200 {
            queue.force_drop_tube(&number.to_string()).unwrap();
        }
        assert_eq!(seats.len(), 100);
        let again = all.round_robin();
        assert!(again.try_take().unwrap().is_none());
        drop(all.clone());
        drop(all);
        assert!(core.state.lock().derived.sets.is_some());
        let dropped = queue.transact(|_| {
            drop(again);
            Ok::<_, crate::Error>(())
        });
        dropped.unwrap();
        assert!(core.state.lock().derived.sets.is_none());
        assert_eq!(seats.len(), 0);
    }

    /// One take looks at a bounded number of tubes under the lock; the next one goes on.
    #[test]
    fn a_take_looks_at_a_bounded_number_of_tubes_at_once() {
        use crate::words::limits::LOOKS_OF_STEP;
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let names: Vec<String> = (0..3 * LOOKS_OF_STEP).map(|it| format!("{it:04}")).collect();
        let tubes = queue.tubes_of(&names).unwrap();
        for tubes in [tubes.clone(), tubes.by_priority()] {
            let last = queue.tube(names.last().unwrap()).unwrap();
            last.put(b"x").unwrap();
            let set = tubes.list.set().unwrap();
            let take = || last.inner.core.apply(&TakeFrom { set, most: 1, holder: 0 }).unwrap().0;
            let steps = [(); 2].map(|()| take());
            assert!(steps.iter().all(|step| step.tasks.is_empty() && step.more));
            let taken = take();
            assert_eq!((taken.tasks.len(), taken.more), (1, false));
            last.truncate().unwrap();
            last.put(b"x").unwrap();
            assert_eq!(take().tasks.len(), 1, "the empty ones are known");
            last.truncate().unwrap();
        }
    }
}
