//! Hours of a tube, by the wall clock: what they hold back, and what happens when they begin, end,
//! are changed, or the clock is set. The clock is manual, so a taker that wakes was woken.

use crate::{close_sound, counts, home, killed, kind, secs, still, waiting};
use std::time::{Duration, UNIX_EPOCH};
use tubewell::{Clock, ErrorKind, Hours, ManualClock, Queue, State, Tube, TubeOptions, WhyNot};

const HOUR: u64 = 3600;

fn hours(text: &str) -> Hours {
    text.parse().unwrap()
}

fn within(text: &str) -> TubeOptions {
    TubeOptions::default().hours(hours(text))
}

/// A clock that stands at a minute after a Monday's midnight.
fn monday() -> ManualClock {
    let clock = ManualClock::new();
    let since = clock.wall().duration_since(UNIX_EPOCH).unwrap();
    let week = secs(7 * 24 * HOUR);
    let into = (since + secs(3 * 24 * HOUR)).as_nanos() % week.as_nanos();
    clock.advance(week - Duration::from_nanos(into as u64) + secs(60));
    clock
}

/// A tube with two tasks in a still queue in memory.
fn tube_with(text: &str) -> (Queue, Tube, ManualClock) {
    let clock = monday();
    let queue = still().0.clock(clock.clone()).in_memory().unwrap();
    let tube = queue.create_tube("t", within(text)).unwrap();
    tube.put_many([*b"a", *b"b"]).unwrap();
    (queue, tube, clock)
}

fn is_open(tube: &Tube) -> bool {
    tube.try_take().unwrap().map(|task| task.release().unwrap()).is_some()
}

#[test]
fn tasks_are_taken_within_the_hours() {
    let (queue, tube, clock) = tube_with("Mon-Fri 09:00-17:00");
    let id = tube.peek_next(State::Ready).unwrap().unwrap().id;
    let reasons = || queue.explain(id).unwrap().reasons;
    let closed = |left: u64| WhyNot::OutOfHours { left: secs(left) };
    assert_eq!(reasons(), [closed(9 * HOUR - 60)]);
    let several = queue.tubes_of(["t"]).unwrap();
    assert!(!is_open(&tube) && several.try_take().unwrap().is_none());
    let error = tube.claim(id).unwrap_err();
    assert_eq!((error.kind(), error.task()), (ErrorKind::WrongState, Some(id)));
    assert_eq!((tube.stats().unwrap().limited, tube.stats().unwrap().ready), (2, 2));
    clock.advance(secs(9 * HOUR - 61));
    assert!(!is_open(&tube), "a second before");
    clock.advance(secs(1));
    assert_eq!(reasons(), [WhyNot::IsNext]);
    let task = several.try_take().unwrap().unwrap();
    clock.advance(secs(8 * HOUR));
    assert!(!is_open(&tube));
    task.renew().unwrap();
    task.ack().unwrap();
    clock.advance(secs(16 * HOUR));
    assert!(is_open(&tube), "on Tuesday");
}

/// Each time they begin, also after a truncate, a change, and the end of a pause.
#[test]
fn their_beginning_wakes_those_who_wait() {
    let (queue, tube, clock) = tube_with("09:00-10:00");
    let taker = || waiting(&tube, |tube| tube.take().unwrap().release().unwrap());
    let begin = |wait: u64| {
        let taker = taker();
        clock.advance(secs(wait));
        queue.tick().unwrap();
        taker.join().unwrap();
    };
    begin(9 * HOUR);
    clock.advance(secs(HOUR));
    queue.tick().unwrap();
    begin(23 * HOUR);
    clock.advance(secs(HOUR));
    let before = taker();
    tube.truncate().unwrap();
    tube.put(b"c").unwrap();
    clock.advance(secs(23 * HOUR));
    queue.tick().unwrap();
    before.join().unwrap();
    tube.set("hours", hours("12:00-13:00")).unwrap();
    begin(3 * HOUR);
    clock.advance(secs(HOUR));
    tube.pause().unwrap();
    clock.advance(secs(22 * HOUR));
    tube.resume().unwrap();
    begin(HOUR);
    clock.advance(secs(HOUR));
    let last = taker();
    tube.set("hours", None::<Hours>).unwrap();
    last.join().unwrap();
    assert_eq!(tube.info().unwrap().options.get_hours(), None);
    tube.unset("hours").unwrap();
    assert_eq!(tube.setting("hours").unwrap().value, hours("09:00-10:00").into());
    let both = queue.tubes_of(["t"]).unwrap();
    let taker = waiting(&tube, move |_| both.take().unwrap().ack().unwrap());
    clock.advance(secs(20 * HOUR));
    queue.tick().unwrap();
    taker.join().unwrap();
    assert_eq!(counts(&tube), [0; 4]);
}

/// The clock is set over several beginnings, and back to before one that has been.
#[test]
fn a_clock_that_is_set_forward_or_back() {
    let (queue, tube, clock) = tube_with("09:00-10:00");
    let taker = || waiting(&tube, |tube| tube.take().unwrap().ack().unwrap());
    let set = |to: u64| {
        let since = clock.wall().duration_since(UNIX_EPOCH).unwrap();
        let day = since.as_secs() / (24 * HOUR) * 24 * HOUR;
        clock.set_wall(UNIX_EPOCH + secs(day + to));
        queue.tick().unwrap();
    };
    let first = taker();
    set(49 * HOUR + 1800);
    set(8 * HOUR);
    set(20 * HOUR);
    assert_eq!(tube.info().unwrap().waiters, usize::from(!first.is_finished()));
    set(7 * HOUR);
    set(9 * HOUR);
    first.join().unwrap();
    // A take that finds them closed knows it without a look of the timer before.
    set(20 * HOUR);
    let since = clock.wall().duration_since(UNIX_EPOCH).unwrap();
    clock.set_wall(UNIX_EPOCH + since - secs(13 * HOUR));
    let last = taker();
    clock.advance(secs(2 * HOUR));
    queue.tick().unwrap();
    last.join().unwrap();
}

/// A take from several tubes knows what one of them would give, without a look of the timer before.
#[test]
fn a_clock_that_is_set_back_opens_one_of_several_tubes() {
    let (queue, _tube, clock) = tube_with("09:00-17:00");
    let several = queue.tubes_of(["t"]).unwrap();
    let began = clock.wall();
    clock.set_wall(began + secs(18 * HOUR));
    assert!(several.try_take().unwrap().is_none());
    clock.set_wall(began + secs(10 * HOUR));
    several.try_take().unwrap().unwrap().ack().unwrap();
}

#[test]
fn they_are_stored_and_looked_at_by_an_opening() {
    let (_home, path) = home();
    let clock = monday();
    let open = |path: &std::path::Path| still().0.clock(clock.clone()).open(path).unwrap();
    let queue = open(&path);
    let memory = within("Mon 09:00-10:00 +02:00").temporary(true);
    queue.create_tube("m", memory).unwrap();
    let tube = queue.create_tube("t", within("Mon 09:00-10:00 +02:00")).unwrap();
    tube.put(b"a").unwrap();
    let (_copy, copy) = killed(&path);
    close_sound(queue);
    for path in [path, copy] {
        let queue = open(&path);
        let tube = queue.tube("t").unwrap();
        let options = tube.info().unwrap().options;
        assert_eq!(options.get_hours(), Some(&hours("Mon 09:00-10:00 +02:00")));
        let taker = waiting(&tube, |tube| tube.take().unwrap().ack().unwrap());
        let since = clock.wall().duration_since(UNIX_EPOCH).unwrap();
        clock.advance(secs(7 * HOUR));
        queue.tick().unwrap();
        taker.join().unwrap();
        clock.set_wall(UNIX_EPOCH + since);
    }
}

#[test]
fn many_tubes_whose_hours_begin_at_once() {
    const TUBES: usize = 2000;
    let clock = monday();
    let queue = still().0.clock(clock.clone()).in_memory().unwrap();
    for number in 0..TUBES {
        let tube = queue.create_tube(&number.to_string(), within("Mon 09:00-10:00")).unwrap();
        tube.put(b"x").unwrap();
    }
    let tubes = [0, TUBES / 2, TUBES - 1].map(|at| queue.tube(&at.to_string()).unwrap());
    let takers = tubes.map(|tube| waiting(&tube, |tube| tube.take().unwrap().ack().unwrap()));
    clock.advance(secs(9 * HOUR));
    queue.tick().unwrap();
    takers.into_iter().for_each(|taker| taker.join().unwrap());
}

#[test]
fn what_is_no_text_of_hours_is_refused() {
    let (_queue, tube, _clock) = tube_with("09:00-10:00");
    assert_eq!(kind("9-10".parse::<Hours>()), ErrorKind::Invalid);
    assert_eq!(kind(tube.set("hours", "09:00-10:00")), ErrorKind::Invalid, "a text is no Hours");
}

/// They follow the clocks of the place to the hour of summer time, over a kill, too.
#[cfg(feature = "cron")]
#[test]
fn hours_by_the_clocks_of_a_time_zone() {
    let (home, path) = home();
    let clock = ManualClock::new();
    let open = |path: &std::path::Path| still().0.clock(clock.clone()).open(path).unwrap();
    let queue = open(&path);
    let tube = queue.create_tube("t", within("Mon-Fri 09:00-17:00 Europe/Berlin")).unwrap();
    let id = tube.put(b"a").unwrap();
    // Sunday, 29 March 2026, 12:00 UTC: since 01:00 the clocks in Berlin are two hours ahead.
    clock.set_wall(UNIX_EPOCH + secs(1_774_785_600));
    let reasons = queue.explain(id).unwrap().reasons;
    assert_eq!(reasons, [WhyNot::OutOfHours { left: secs(19 * HOUR) }]);
    // From 02:30 on, in the night in which that comes twice: at 00:30 and at 01:30 UTC.
    let night = queue.create_tube("night", within("02:30-04:00 Europe/Berlin")).unwrap();
    let began = clock.wall();
    night.put_many([*b"a", *b"b"]).unwrap();
    clock.set_wall(UNIX_EPOCH + secs(1_792_882_800)); // 24 October 2026, 23:00 UTC
    for wait in [5400, 1800] {
        let taker = waiting(&night, |tube| tube.take().unwrap().ack().unwrap());
        clock.advance(secs(wait - 1));
        queue.tick().unwrap();
        assert!(!is_open(&night));
        clock.advance(secs(1));
        queue.tick().unwrap();
        taker.join().unwrap();
        // At 01:00 UTC it is 02:00 again.
        clock.advance(secs(1800));
        assert!(!is_open(&night), "before 02:30 comes again, or all are taken");
    }
    clock.set_wall(began);
    let (_copy, copy) = killed(&path);
    close_sound(queue);
    for path in [path, copy] {
        let queue = open(&path);
        let tube = queue.tube("t").unwrap();
        let taker = waiting(&tube, |tube| tube.take().unwrap().ack().unwrap());
        let began = clock.wall();
        clock.advance(secs(19 * HOUR - 1));
        queue.tick().unwrap();
        assert!(!is_open(&tube));
        clock.advance(secs(1));
        queue.tick().unwrap();
        taker.join().unwrap();
        clock.set_wall(began);
    }
    drop(home);
}

/// A take from several tubes knows what the last of many tubes with hours would give.
#[test]
fn a_clock_that_is_set_back_opens_the_last_of_many_tubes() {
    let clock = monday();
    let queue = still().0.clock(clock.clone()).in_memory().unwrap();
    for number in 0..100 {
        queue.create_tube(&number.to_string(), within("09:00-17:00")).unwrap();
    }
    let last = queue.tube("99").unwrap();
    last.put(b"x").unwrap();
    let several = queue.tubes_of(["99"]).unwrap();
    let began = clock.wall(); // Monday, 00:01
    clock.set_wall(began + secs(18 * HOUR));
    assert!(several.try_take().unwrap().is_none());
    clock.set_wall(began + secs(10 * HOUR));
    // Fails: None. The second call, `queue.tick()`, or `last.try_take()` finds it.
    several.try_take().unwrap().unwrap().ack().unwrap();
}
