//! Takes from several tubes, and the sets of tubes behind them. Where a set has many tubes they are
//! added and left in steps, with the lock passed on between two.

use crate::engine::query;
use crate::engine::take::{FromTube, TakeFrom};
use crate::engine::tube_set::Choice;
use crate::format::View;
use crate::runtime::calls::UnlessStopped;
use crate::runtime::sessions::end_graces;
use crate::runtime::shared::Shared;
use crate::runtime::tube_sets::ListedTube;
use crate::runtime::wake::WaitPlace;
use crate::words::clock::NEVER;
use crate::words::error::Result;
use crate::words::limits::NAMES_OF_STEP;
use crate::words::wait::Wait;

/// The tubes of a set.
#[derive(Clone, Debug)]
pub(crate) enum TubesOf {
    /// These.
    List(Vec<ListedTube>),
    /// All whose names begin with this, also those that are made later.
    Prefix(Box<str>),
}

impl Shared {
    /// Begins a set. Returns its number.
    pub(crate) fn begin_set(&self, of: &TubesOf, choice: Choice) -> Result<u32> {
        self.enter()?;
        let prefix = match of {
            TubesOf::List(_) => None,
            TubesOf::Prefix(prefix) => Some(&**prefix),
        };
        // From now on tubes with the prefix come into it when they are made.
        let set = self.state.lock().derived.begin_set(choice, prefix);
        let filled = match of {
            TubesOf::List(tubes) => {
                let places = tubes.iter().zip(0..);
                self.fill(set, places.map(|(it, place)| (it.tube, place, it.weight)).collect());
                Ok(())
            }
            TubesOf::Prefix(prefix) => self.fill_with(set, prefix),
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

    fn fill_with(&self, set: u32, prefix: &str) -> Result<()> {
        for names in self.names(prefix)?.chunks(NAMES_OF_STEP) {
            let number = |view: &dyn View, name: &String| query::tube_named(view, name);
            let numbers = self.look(|view, _| {
                names.iter().map(|name| number(view, name)).collect::<Result<Vec<_>>>()
            })?;
            // A tube that was dropped since is not added.
            self.fill(set, numbers.into_iter().flatten().map(|tube| (tube, 0, 1)).collect());
        }
        Ok(())
    }

    /// Ends a set that no call waits on any more.
    pub(crate) fn end_set(&self, set: u32) {
        let (ended, seats) = {
            let mut state = self.state.lock();
            (state.derived.end_set(set), state.derived.seats.clone())
        };
        let tubes: Vec<u32> = ended.iter().flat_map(|ended| ended.tubes()).collect();
        for some in tubes.chunks(NAMES_OF_STEP) {
            seats.remove_set(set, some);
        }
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
            None => self.wait_at(&self.takers, (WaitPlace::Set(set), holder), wait, take),
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
                end_graces(self, None)?;
            }
            let taken = self.apply(op)?.0;
            if !taken.tasks.is_empty() || !taken.more {
                return Ok(taken.tasks.into_vec());
            }
            self.state.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::words::sync::yield_now;
    use crate::{Queue, Stop};
    use std::thread;

    /// Beside a call on one tube, one on two gets every second task of it: each takes again as soon
    /// as it has one, and a task is put when both sleep.
    #[test]
    fn a_call_on_two_tubes_and_one_on_one_take_turns() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let tube = queue.tube("a").unwrap().durability(crate::Durability::Relaxed);
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
                while tube.hold.core.takers.asleep().len() < 2 {
                    yield_now();
                }
                tube.put(b"x").unwrap();
                turns.push(of.recv().unwrap());
            }
            stop.stop();
            assert!(turns.windows(2).all(|two| two[0] != two[1]), "{turns:?}");
        });
    }

    /// A handle that is gone, and tubes that are gone, leave nothing in memory.
    #[test]
    fn a_dropped_handle_and_dropped_tubes_leave_nothing_in_memory() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let core = queue.hold.core.clone();
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
        queue.transact(|_| Ok::<_, crate::Error>(drop(again))).unwrap();
        assert!(core.state.lock().derived.sets.is_none());
        assert_eq!(seats.len(), 0);
    }

    /// One take looks at a bounded number of tubes under the lock; the next one goes on.
    #[test]
    fn a_take_looks_at_a_bounded_number_of_tubes_at_once() {
        use crate::engine::take::TakeFrom;
        use crate::words::limits::LOOKS_OF_STEP;
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let names: Vec<String> = (0..3 * LOOKS_OF_STEP).map(|it| format!("{it:04}")).collect();
        let tubes = queue.tubes_of(&names).unwrap();
        for tubes in [tubes.clone(), tubes.by_priority()] {
            let last = queue.tube(names.last().unwrap()).unwrap();
            last.put(b"x").unwrap();
            let set = tubes.list.set().unwrap();
            let take = || last.hold.core.apply(&TakeFrom { set, most: 1, holder: 0 }).unwrap().0;
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
