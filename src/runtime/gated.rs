//! The tubes with gates, which of them require which condition, which have which throttle, and
//! which have hours: derived from the rows of the tubes, so that what opens them finds them
//! without a look at others.

use crate::runtime::closed_lines::ClosedLines;
use crate::words::clock::Now;
use crate::words::gates::{Gates, NamedGate};
use crate::words::limits::NAMES_OF_STEP;
use std::collections::{BTreeMap, BTreeSet};

/// How much the wall clock must go back, in microseconds: clocks that are read one after the other
/// differ a little each time, and one that is corrected goes slowly. What is put in an opening that
/// comes again within this time adds its deadline itself.
const SET_BACK_MIN: i128 = 1_000_000;

/// Tubes by a name.
type ByName = BTreeMap<String, BTreeSet<u32>>;

/// The tubes with gates. Usually none.
#[derive(Debug, Default)]
pub(crate) struct Gated {
    pub(crate) tubes: BTreeSet<u32>,
    /// Those that require a condition, by its name.
    requiring: ByName,
    /// Those with a throttle, by its name.
    throttled: ByName,
    /// Those with hours, by the wall clock.
    with_hours: BTreeSet<u32>,
    /// The lines behind gates of their tasks.
    pub(crate) lines: ClosedLines,
    /// How far the wall clock was ahead of the monotonic one, in microseconds: the most since it
    /// was last set back.
    ahead: i128,
    /// Where the look at tubes with hours goes on that a clock set back has begun.
    looks_from: Option<u32>,
}

impl Gated {
    /// Sets the gates of a tube. It had these before; `None`: none.
    pub(crate) fn set(&mut self, tube: u32, before: Option<&Gates>, gates: Option<&Gates>) {
        // A take that a rate counts writes the row of its tube.
        if before == gates {
            return;
        }
        for (kind, all) in [
            (NamedGate::Condition(""), &mut self.requiring),
            (NamedGate::Throttle(""), &mut self.throttled),
        ] {
            for name in before.iter().flat_map(|gates| gates.names(kind)) {
                if let Some(tubes) = all.get_mut(name) {
                    tubes.remove(&tube);
                    if tubes.is_empty() {
                        all.remove(name);
                    }
                }
            }
            for name in gates.iter().flat_map(|gates| gates.names(kind)) {
                all.entry(name.clone()).or_default().insert(tube);
            }
        }
        match gates.is_some_and(|gates| gates.hours.is_some()) {
            true => self.with_hours.insert(tube),
            false => self.with_hours.remove(&tube),
        };
        match gates {
            Some(_) => self.tubes.insert(tube),
            None => self.tubes.remove(&tube),
        };
    }

    /// Some of the tubes whose hours may begin earlier than it was known, because the wall clock
    /// was set back. Each look goes on where the last one has ended.
    pub(crate) fn set_back(&mut self, now: Now) -> Vec<u32> {
        let ahead = i128::from(now.wall) - i128::from(now.lease);
        if ahead + SET_BACK_MIN <= self.ahead {
            (self.ahead, self.looks_from) = (ahead, Some(0));
        }
        self.ahead = self.ahead.max(ahead);
        let Some(from) = self.looks_from.take() else { return Vec::new() };
        let tubes: Vec<_> = self.with_hours.range(from..).copied().take(NAMES_OF_STEP).collect();
        let last = tubes.last().filter(|_| tubes.len() == NAMES_OF_STEP);
        self.looks_from = last.and_then(|last| last.checked_add(1));
        tubes
    }

    /// Whether it has more of them.
    pub(crate) fn is_looking(&self) -> bool {
        self.looks_from.is_some()
    }

    /// At most so many of the tubes that name this gate, or in which lines stand behind it, from
    /// this number on.
    pub(crate) fn naming(&self, gate: NamedGate<'_>, from: u32, most: usize) -> Vec<u32> {
        let tubes = match gate {
            NamedGate::Condition(name) => self.requiring.get(name),
            NamedGate::Throttle(name) => self.throttled.get(name),
        };
        let own = tubes.into_iter().flat_map(|tubes| tubes.range(from..).copied());
        let of_tasks = self.lines.behind(gate, from);
        let both: BTreeSet<u32> = own.take(most).chain(of_tasks.take(most)).collect();
        both.into_iter().take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::effects::NextDue;
    use crate::format::layer::steps;
    use crate::words::clock::NEVER;
    use crate::{Clock, ManualClock, Queue, Rate, TubeOptions};
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    /// Regression: a truncate forgot the deadlines of the old run, and with them when the next task
    /// of a rate is due: takers that waited for it were not woken.
    #[test]
    fn a_truncate_keeps_the_openings_of_the_gates() {
        let clock = ManualClock::new();
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let day = Duration::from_secs(24 * 3600);
        let rate = Rate::new(1).per(day);
        let options = TubeOptions::default().rate(rate).hours("00:00-23:59".parse().unwrap());
        let tube = queue.create_tube("t", options).unwrap();
        tube.put(b"a").unwrap();
        tube.take().unwrap().ack().unwrap();
        let first = || tube.inner.core.state.lock().derived.first_due();
        let before = first();
        assert!(before.delay != NEVER && before.run_at != NEVER, "{before:?}");
        tube.truncate().unwrap();
        assert_eq!(first(), before);
        tube.unset("hours").unwrap();
        tube.set("hours", None::<crate::Hours>).unwrap();
        tube.set("rate", None::<Rate>).unwrap();
        tube.truncate().unwrap();
        assert_eq!(first(), NextDue::NONE);
    }

    /// A clock that is moved by hand and calls no one, so that a taker looks again only if it is
    /// woken.
    struct QuietClock(ManualClock);

    impl Clock for QuietClock {
        fn monotonic(&self) -> Duration {
            self.0.monotonic()
        }

        fn wall(&self) -> SystemTime {
            self.0.wall()
        }

        fn nap(&self, _left: Duration) -> Option<Duration> {
            None
        }
    }

    #[test]
    fn what_opens_a_tube_wakes_a_taker_that_sleeps() {
        let hour = Duration::from_secs(3600);
        let clock = ManualClock::at(UNIX_EPOCH + 24 * 365 * hour);
        let quiet = QuietClock(clock.clone());
        let queue = Queue::builder().clock(quiet).by_hand(true).in_memory().unwrap();
        let options = TubeOptions::default().require("online");
        let tube = queue.create_tube("t", options.hours("09:00-10:00".parse().unwrap())).unwrap();
        // Time passes, or the wall clock is set back.
        let only_set = |to: u32| {
            let to = UNIX_EPOCH + 24 * 366 * hour + to * hour;
            match to.duration_since(clock.wall()) {
                Ok(by) => clock.advance(by),
                Err(_) => clock.set_wall(to),
            }
        };
        let set = |to: u32| {
            only_set(to);
            queue.tick().unwrap();
        };
        let put = || _ = tube.put(b"x").unwrap();
        let sleeping = || {
            let own = tube.clone();
            let taker = std::thread::spawn(move || own.take().unwrap().ack().unwrap());
            while tube.inner.core.takers.asleep().is_empty() {
                std::thread::yield_now();
            }
            taker
        };
        set(9);
        put();
        let taker = sleeping();
        queue.set_condition("online", true).unwrap();
        taker.join().unwrap();
        // The next beginning.
        set(20);
        put();
        let taker = sleeping();
        set(24 + 9);
        taker.join().unwrap();
        // The one after it: at the next there is no task.
        set(24 + 20);
        let taker = sleeping();
        set(48 + 9);
        set(48 + 20);
        put();
        set(72 + 9);
        taker.join().unwrap();
        // One that has been, after the clock was set back.
        set(72 + 20);
        put();
        let taker = sleeping();
        set(72 + 8);
        set(72 + 9);
        taker.join().unwrap();
        // It was set back, but not to before the last look of the timer.
        set(96 + 7);
        put();
        only_set(96 + 20);
        let taker = sleeping();
        set(96 + 8);
        set(96 + 9);
        taker.join().unwrap();
        // It was set back by so little that the timer does not look: a put does.
        set(120 + 8);
        let taker = sleeping();
        set(120 + 9);
        clock.set_wall(clock.wall() - Duration::from_millis(1));
        put();
        set(120 + 9);
        taker.join().unwrap();
        // Without hours.
        set(120 + 20);
        put();
        let taker = sleeping();
        tube.set("hours", None::<crate::Hours>).unwrap();
        taker.join().unwrap();
    }

    /// Regression: a take of a group that had met a closed gate noted nothing, and a call that
    /// waited for the group slept on when the gate opened.
    #[test]
    fn a_gate_that_opens_wakes_a_call_for_a_group() {
        for case in ["condition", "slot of its own", "slot of the tube", "two gates"] {
            let clock = QuietClock(ManualClock::new());
            let queue = Queue::builder().clock(clock).by_hand(true).in_memory().unwrap();
            queue.set_throttle("gpu", 1).unwrap();
            let shared = TubeOptions::default().throttle("gpu");
            let is_shared = case == "slot of the tube";
            let own = if is_shared { shared.clone() } else { TubeOptions::default() };
            let tube = queue.create_tube("t", own).unwrap();
            let other = queue.create_tube("o", shared).unwrap();
            let task = tube.task(b"x").group("g");
            let task = match case {
                "condition" => task.require("online"),
                "slot of its own" => task.throttle("gpu"),
                "two gates" => task.require("online").throttle("gpu"),
                _ => task,
            };
            task.put().unwrap();
            other.put(b"y").unwrap();
            let held = other.take().unwrap();
            let call = std::thread::spawn({
                let tube = tube.clone();
                move || tube.take_group("g").unwrap().ack().unwrap()
            });
            let asleep = || {
                while tube.inner.core.takers.asleep().is_empty() {
                    std::thread::yield_now();
                }
            };
            asleep();
            queue.set_condition("online", true).unwrap();
            if case != "condition" {
                // It may have looked, and sleeps before the next gate.
                asleep();
            }
            held.ack().unwrap();
            call.join().unwrap();
        }
    }

    #[test]
    fn a_tube_is_found_by_what_it_requires_now() {
        let requires = |names: &[&str]| Gates {
            required: names.iter().map(|&name| name.to_owned()).collect(),
            ..Gates::default()
        };
        let mut gated = Gated::default();
        let (one, two) = (requires(&["a"]), requires(&["a", "b"]));
        gated.set(1, None, Some(&one));
        gated.set(2, None, Some(&two));
        let found = |gated: &Gated, name, from| gated.naming(NamedGate::Condition(name), from, 9);
        assert_eq!((found(&gated, "a", 0), found(&gated, "a", 2)), (vec![1, 2], vec![2]));
        gated.set(2, Some(&two), Some(&requires(&["b"])));
        gated.set(1, Some(&one), None);
        assert_eq!((found(&gated, "a", 0), found(&gated, "b", 0)), (vec![], vec![2]));
        gated.set(2, Some(&requires(&["b"])), None);
        assert!(gated.tubes.is_empty() && gated.requiring.is_empty());
    }

    /// Regression: the end of one limit read every gate behind which lines of the tube stand, of
    /// which a condition for each task makes any number.
    #[test]
    fn the_end_of_a_limit_reads_no_other_gate() {
        let steps = [100, 3000].map(|gates| {
            let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
            let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
            let tube = queue.tube("t").unwrap();
            for number in 0..gates {
                tube.task(b"x").require(&format!("approved {number}")).put().unwrap();
            }
            assert!(tube.try_take().unwrap().is_none(), "each head is behind its gate");
            queue.set_throttle_for("gpu", 1, second).unwrap();
            let gated = || tube.task(b"y").throttle("gpu").put().unwrap();
            let _two = [gated(), gated()];
            let _held = tube.take().unwrap();
            assert!(tube.try_take().unwrap().is_none(), "the line is behind the throttle");
            clock.advance(second);
            steps::during(|| assert!(tube.try_take().unwrap().is_some()))
        });
        assert!(steps[1] < 2 * steps[0], "{steps:?}");
    }
}
