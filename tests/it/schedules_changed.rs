//! Schedules that are changed, held up or set back: what becomes of their fires and of the last
//! child.

use crate::{close_sound, drain, home, kind, secs, still};
use std::time::{Duration, SystemTime};
use tubewell::{
    Cause, Clock, ErrorKind, ManualClock, Missed, Overlap, Queue, Schedule, State, TaskSummary,
    Tube, TubeOptions,
};

const MINUTE: Duration = secs(60);
const ALL: Missed = Missed::CatchUp(u32::MAX);

fn queue() -> (Queue, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube, clock)
}

fn replacing(queue: &Queue, tube: &Tube) -> Schedule {
    let schedule = queue.schedule("s").every(MINUTE).overlap(Overlap::Replace);
    schedule.to(tube).payload(b"x").make().unwrap()
}

fn ready(tube: &Tube) -> impl Iterator<Item = TaskSummary> {
    tube.summaries(State::Ready).map(|task| task.unwrap())
}

fn keys(tube: &Tube) -> Vec<String> {
    ready(tube).map(|task| task.key.unwrap_or_default()).collect()
}

fn nominal(tube: &Tube, start: SystemTime) -> Vec<u64> {
    ready(tube).map(|task| task.nominal.unwrap().duration_since(start).unwrap().as_secs()).collect()
}

/// The room of the last child counts, and it stays if the next one is refused all the same.
#[test]
fn the_last_child_stays_unless_another_replaces_it() {
    let (queue, _, clock) = queue();
    let tube = queue.create_tube("small", TubeOptions::default().capacity(1)).unwrap();
    let made = replacing(&queue, &tube);
    assert_eq!(keys(&tube), ["s-1"]);
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-2"]);
    made.run_now().unwrap();
    assert_eq!(keys(&tube), ["s-3"]);

    // Another task takes the room.
    let other = queue.tube("other").unwrap();
    tube.move_to(ready(&tube).next().unwrap().id, &other).apply().unwrap();
    tube.put(b"mine").unwrap();
    clock.advance(MINUTE);
    assert_eq!((keys(&tube), keys(&other)), (vec![String::new()], vec!["s-3".to_owned()]));
    assert_eq!((kind(made.run_now()), made.info().unwrap().missed_fires), (ErrorKind::Full, 1));
    assert_eq!(keys(&other), ["s-3"]);

    // Another task has the key, and the room.
    assert_eq!(drain(&tube), "mine");
    tube.task(b"mine").key("s-4").put().unwrap();
    assert_eq!(kind(made.run_now()), ErrorKind::Full);
    assert_eq!(keys(&other), ["s-3"]);
    // Its tube is gone.
    queue.force_drop_tube("small").unwrap();
    clock.advance(MINUTE);
    assert_eq!(kind(made.run_now()), ErrorKind::TubeNotFound);
    assert_eq!((keys(&other), made.info().unwrap().children), (vec!["s-3".to_owned()], 3));
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

/// The last child is known where it is, also after the schedule has got another tube.
#[test]
fn the_last_child_of_another_tube_is_not_forgotten() {
    let (home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
    let made = replacing(&queue, &tube);
    assert_eq!(keys(&tube), ["s-1"]);
    made.update(|it| it.to(&other)).unwrap();
    drop((tube, other, made));
    close_sound(queue);
    let queue = still().0.clock(clock.clone()).open(&path).unwrap();
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
    clock.advance(MINUTE);
    assert_eq!((keys(&other), keys(&tube)), (vec!["s-2".to_owned()], vec![]));

    let made = queue.schedule("s").every(MINUTE).overlap(Overlap::Skip).to(&tube).make().unwrap();
    clock.advance(MINUTE);
    assert_eq!((tube.len().unwrap(), made.info().unwrap().missed_fires), (0, 1));
    assert_eq!(drain(&other), "x");
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-3"]);
    drop((tube, other, made));
    close_sound(queue);
    drop(home);
}

/// One task that has the key of a child costs one fire of those that are due.
#[test]
fn a_taken_key_costs_one_fire() {
    let (queue, tube, clock) = queue();
    let made = queue.schedule("s").every(MINUTE).missed(ALL).to(&tube).payload(b"x").make();
    assert_eq!(drain(&tube), "x");
    tube.task(b"mine").key("s-3").put().unwrap();
    clock.advance(4 * MINUTE);
    assert_eq!(keys(&tube), ["s-3", "s-2", "s-4", "s-5"]);
    assert_eq!(made.unwrap().info().unwrap().missed_fires, 1);
}

/// The first fire does not come before the offset, whatever the interval becomes.
#[test]
fn an_update_before_the_first_fire_keeps_it() {
    let (queue, tube, clock) = queue();
    let start = clock.wall();
    let made = queue.schedule("s").every(secs(3600)).offset(secs(30)).missed(ALL).to(&tube);
    let made = made.make().unwrap();
    made.run_now().unwrap();
    made.update(|it| it.every(secs(10))).unwrap();
    assert_eq!(made.next(2).unwrap(), [start + secs(30), start + secs(40)]);
    clock.advance(secs(45));
    assert_eq!(nominal(&tube, start), [0, 30, 40]);
    made.update(|it| it.every(secs(5))).unwrap();
    assert_eq!(made.next(1).unwrap(), [start + secs(50)], "after a fire it is the difference");
    // The same for a timing that was replaced.
    clock.advance(secs(955));
    let made = queue.schedule("s").every(secs(900)).offset(secs(9)).to(&tube).make().unwrap();
    made.update(|it| it.every(secs(2))).unwrap();
    assert_eq!(made.next(1).unwrap(), [start + secs(1009)]);
}

/// What never fires again begins with the next word about it.
#[test]
fn without_a_next_fire_it_begins_again() {
    let (queue, tube, clock) = queue();
    let end = Duration::from_micros(u64::MAX - 1);
    let made = queue.schedule("s").every(end).to(&tube).payload(b"x").make().unwrap();
    assert_eq!(drain(&tube), "x");
    assert_eq!(made.info().unwrap().next, None);
    made.update(|it| it.every(MINUTE)).unwrap();
    assert_eq!((made.info().unwrap().children, drain(&tube).as_str()), (2, "x"));
    made.update(|it| it.every(end)).unwrap();
    made.pause().unwrap();
    made.resume().unwrap();
    assert_eq!(drain(&tube), "x");
    assert_eq!(made.next(9).unwrap(), []);
    clock.advance(MINUTE);
    queue.schedule("s").every(end).to(&tube).payload(b"x").make().unwrap();
    assert_eq!(drain(&tube), "x");
}

/// What was due in the tube that a schedule had is made there.
#[test]
fn a_schedule_that_moves_loses_no_fire() {
    let (queue, tube, clock) = queue();
    let start = clock.wall();
    let other = queue.tube("other").unwrap();
    queue.schedule("s").every(MINUTE).missed(ALL).to(&tube).make().unwrap();
    clock.advance(2 * MINUTE);
    let made = queue.schedule("s").every(secs(50)).missed(ALL).to(&other).make().unwrap();
    assert_eq!((nominal(&tube, start), nominal(&other, start)), (vec![0, 60, 120], vec![120]));

    // Of a tube that was dropped they are missed, and no next fire is in the past.
    queue.force_drop_tube("other").unwrap();
    clock.advance(secs(120));
    let info = made.info().unwrap();
    assert_eq!((info.next, info.missed_fires), (Some(start + secs(270)), 2));
    clock.advance(secs(50));
    let events = queue.events();
    queue.schedule("s").every(MINUTE).to(&tube).make().unwrap();
    assert_eq!(events.try_recv().map(|event| event.cause), Some(Cause::MissedFire));
    assert_eq!(made.info().unwrap().missed_fires, 3);
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

/// A child by hand steps over keys that other puts have brought.
#[test]
fn a_fire_by_hand_steps_over_keys_that_are_taken() {
    let (queue, tube, _) = queue();
    let made = queue.schedule("s").every(MINUTE).to(&tube).make().unwrap();
    for number in 1..=7 {
        tube.task(b"").key(format!("s-{number}").as_str()).put().unwrap();
    }
    made.run_now().unwrap();
    assert_eq!(keys(&tube).last().map(String::as_str), Some("s-8"));
    assert_eq!(made.info().unwrap().children, 8);
    for number in 9..=20 {
        tube.task(b"").key(format!("s-{number}").as_str()).put().unwrap();
    }
    assert_eq!(made.run_now().unwrap_err().kind(), ErrorKind::KeyExists);
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

#[cfg(feature = "cron")]
mod by_the_wall_clock {
    use super::*;
    use crate::schedules::by_the_wall_clock::{at, queue_at};

    /// 1 January 2026, 00:00 in UTC.
    const NEW_YEAR: u64 = 1_767_225_600;
    const DAY: u64 = 86_400;

    fn utc() -> (Queue, Tube, ManualClock) {
        queue_at(NEW_YEAR)
    }

    fn times(tube: &Tube) -> Vec<u64> {
        nominal(tube, at(NEW_YEAR))
    }

    /// The last fires that are due may be far back, and many.
    #[test]
    fn the_last_fires_are_found_however_far_back() {
        for (missed, expected) in [(Missed::Coalesce, 1), (Missed::CatchUp(300), 301)] {
            let (queue, tube, clock) = utc();
            let made = queue.schedule("s").cron("* * * 1 *").missed(missed).to(&tube).make();
            clock.advance(secs(350 * DAY));
            let last = 31 * DAY - 60;
            let expected: Vec<_> = (0..expected).rev().map(|back| last - back * 60).collect();
            assert_eq!(times(&tube), expected);
            let info = made.unwrap().info().unwrap();
            assert_eq!((info.missed_fires, info.next), (200, Some(at(NEW_YEAR + 365 * DAY))));
            assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        }
    }

    /// Those of a gap are counted up to two hundred, and the next one is after now.
    #[test]
    fn many_missed_fires_of_a_full_tube_are_counted() {
        let (queue, _, clock) = utc();
        let tube = queue.create_tube("small", TubeOptions::default().capacity(2)).unwrap();
        let made = queue.schedule("s").cron("*/2 * * * *").missed(ALL).to(&tube).make().unwrap();
        clock.advance(secs(3600));
        assert_eq!(times(&tube), [0, 120]);
        let info = made.info().unwrap();
        assert_eq!((info.missed_fires, info.next), (29, Some(at(NEW_YEAR + 3720))));
        clock.advance(secs(30 * DAY));
        let info = made.info().unwrap();
        let next = Some(at(NEW_YEAR + 30 * DAY + 3720));
        assert_eq!((info.missed_fires, info.next), (29 + 1 + 200, next));
    }

    #[test]
    fn days_from_the_end_of_a_month_are_refused() {
        let (queue, tube, _) = utc();
        for text in ["0 0 L * *", "0 0 * * 5L", "0 0 1W * *", "0 0 * * 5#3"] {
            let made = queue.schedule("s").cron(text).to(&tube).make();
            assert!(made.unwrap_err().to_string().contains("not supported"), "{text:?}");
        }
    }

    /// A wall clock that was ten years ahead for a moment stops no schedule.
    #[test]
    fn a_wall_clock_that_was_wrong_once_stops_nothing() {
        let (queue, tube, clock) = utc();
        let make = |name| queue.schedule(name).cron("0 * * * *").to(&tube).make().unwrap();
        let (made, paused) = (make("a"), make("b"));
        let late = queue.schedule("late").cron("0 * * * *").offset(secs(9 * DAY)).to(&tube);
        let late = late.make().unwrap();
        paused.run_now().unwrap();
        clock.set_wall(at(NEW_YEAR + 3600));
        assert_eq!(tube.len().unwrap(), 5);
        clock.set_wall(at(NEW_YEAR + 3650 * DAY));
        assert_eq!(tube.len().unwrap(), 8);
        clock.set_wall(at(NEW_YEAR + 3650));
        let hours = |hours: u64| [at(NEW_YEAR + hours * 3600)];
        assert_eq!(made.next(1).unwrap(), hours(3650 * 24 + 1));
        assert_eq!(make("a").next(1).unwrap(), hours(2));
        paused.pause().unwrap();
        paused.resume().unwrap();
        assert_eq!(paused.next(1).unwrap(), hours(2));
        late.pause().unwrap();
        late.resume().unwrap();
        assert_eq!(late.next(1).unwrap(), hours(2));
        // One that was set back by a little waits, and makes none twice.
        clock.set_wall(at(NEW_YEAR + 7200));
        assert_eq!(tube.len().unwrap(), 11);
        clock.set_wall(at(NEW_YEAR + 7100));
        assert_eq!(make("a").next(1).unwrap(), hours(3));
        // What has not fired yet begins at its offset.
        let late = queue.schedule("new").cron("0 * * * *").offset(secs(9 * DAY)).to(&tube);
        let next = late.make().unwrap().next(1).unwrap();
        let late = queue.schedule("new").cron("0 * * * *").offset(secs(9 * DAY)).to(&tube);
        assert_eq!(late.make().unwrap().next(1).unwrap(), next);
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    }

    /// The same at an opening, and what has not fired keeps its offset.
    #[test]
    fn an_opening_sets_back_what_a_wrong_clock_has_carried_ahead() {
        let (home, path) = home();
        let clock = ManualClock::at(at(NEW_YEAR));
        let open = || Queue::builder().clock(clock.clone()).by_hand(true).open(&path).unwrap();
        let queue = open();
        let tube = queue.tube("t").unwrap();
        for number in 0..70 {
            let name = format!("s{number}");
            queue.schedule(&name).cron("0 * * * *").to(&tube).make().unwrap();
            queue.schedule(&format!("by{name}")).every(MINUTE).to(&tube).make().unwrap();
        }
        let late = queue.schedule("late").cron("0 * * * *").offset(secs(5000 * DAY)).to(&tube);
        let next = late.make().unwrap().next(1).unwrap();
        clock.set_wall(at(NEW_YEAR + 3650 * DAY));
        assert_eq!(tube.len().unwrap(), 70 * 3);
        drop(tube);
        queue.close().unwrap();
        clock.set_wall(at(NEW_YEAR + 5000));
        let queue = open();
        for number in [0, 30, 69] {
            let made = queue.schedule_named(&format!("s{number}"));
            assert_eq!(made.next(1).unwrap(), [at(NEW_YEAR + 7200)]);
        }
        assert_eq!(queue.schedule_named("late").next(1).unwrap(), next);
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        queue.close().unwrap();
        drop(home);
    }

    /// A machine whose clock begins in 1970, or hours ago, until it has asked the network.
    #[test]
    fn a_wall_clock_that_is_behind_for_a_moment_makes_no_fire_twice() {
        for missed in [Missed::Coalesce, Missed::Skip, Missed::CatchUp(9), ALL] {
            let (home, path) = home();
            let clock = ManualClock::at(at(NEW_YEAR));
            let open = || Queue::builder().clock(clock.clone()).by_hand(true).open(&path).unwrap();
            let mut queue = open();
            let make = |queue: &Queue, name: &str, text: &str| {
                let tube = queue.tube("t").unwrap();
                queue.schedule(name).cron(text).missed(missed).to(&tube).make().unwrap();
            };
            let check = |queue: &Queue, children: u64| {
                assert_eq!(queue.tube("t").unwrap().len().unwrap(), children, "{missed:?}");
                for (name, next) in [("day", DAY + 9 * 3600), ("quarter", 9 * 3600 + 900)] {
                    let info = queue.schedule_named(name).info().unwrap();
                    let expected = (0, Some(at(NEW_YEAR + next)));
                    assert_eq!((info.missed_fires, info.next), expected, "{missed:?} {name}");
                }
                assert_eq!(queue.check().unwrap(), Vec::<String>::new());
            };
            make(&queue, "day", "0 9 * * *");
            make(&queue, "quarter", "*/15 9 * * *");
            make(&queue, "year", "0 0 2 1 *");
            clock.set_wall(at(NEW_YEAR + 9 * 3600));
            check(&queue, 2);
            for wall in [0, 1, NEW_YEAR - 300 * DAY, NEW_YEAR - DAY, NEW_YEAR + 7 * 3600] {
                queue.close().unwrap();
                clock.set_wall(at(wall));
                queue = open();
                make(&queue, "day", "0 9 * * *");
                clock.set_wall(at(NEW_YEAR + 9 * 3600 + 60));
                check(&queue, 2);
            }
            // In steps; and to a little before what it was, as a clock that was fast.
            for wall in [NEW_YEAR - 400 * DAY, NEW_YEAR - 3 * DAY, NEW_YEAR + 9 * 3600 - 300] {
                queue.close().unwrap();
                clock.set_wall(at(0));
                queue = open();
                let other = if missed == ALL { Missed::Skip } else { ALL };
                queue.schedule_named("day").update(|it| it.missed(other)).unwrap();
                queue.schedule_named("day").update(|it| it.missed(missed)).unwrap();
                clock.set_wall(at(wall));
                assert_eq!(queue.tube("t").unwrap().len().unwrap(), 2, "{missed:?} {wall}");
                queue.close().unwrap();
                clock.set_wall(at(1000));
                queue = open();
                clock.set_wall(at(NEW_YEAR + 9 * 3600 + 60));
                check(&queue, 2);
            }
            // Where the clock stays behind, it is by that clock.
            queue.close().unwrap();
            clock.set_wall(at(0));
            queue = open();
            clock.set_wall(at(9 * 3600));
            assert_eq!(queue.tube("t").unwrap().len().unwrap(), 4);
            clock.set_wall(at(NEW_YEAR + 9 * 3600 + 60));
            check(&queue, 4);
            queue.close().unwrap();
            drop(home);
        }
    }

    /// What is first made while the clock is ahead does not wait until then.
    #[test]
    fn one_that_was_made_by_a_clock_that_was_ahead_fires_from_now_on() {
        let (home, path) = home();
        let clock = ManualClock::at(at(NEW_YEAR + 3650 * DAY));
        let open = || Queue::builder().clock(clock.clone()).by_hand(true).open(&path).unwrap();
        let queue = open();
        let tube = queue.tube("t").unwrap();
        queue.schedule("a").cron("0 9 * * *").to(&tube).make().unwrap();
        let late = queue.schedule("b").cron("0 9 * * *").offset(secs(3 * DAY)).to(&tube);
        late.make().unwrap();
        drop(tube);
        queue.close().unwrap();
        clock.set_wall(at(NEW_YEAR));
        let queue = open();
        let hours = |hours: u64| [at(NEW_YEAR + hours * 3600)];
        assert_eq!(queue.schedule_named("a").next(1).unwrap(), hours(9));
        assert_eq!(queue.schedule_named("b").next(1).unwrap(), hours(3 * 24 + 9));
        clock.set_wall(at(NEW_YEAR + 4 * DAY));
        assert_eq!(times(&queue.tube("t").unwrap()), [3 * DAY + 9 * 3600; 2]);
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        queue.close().unwrap();
        drop(home);
    }

    /// The fires of a pause are not missed, also where the clock was ahead before it.
    #[test]
    fn a_pause_over_a_fire_that_was_ahead_misses_nothing() {
        let (queue, tube, clock) = utc();
        let made = queue.schedule("s").cron("0 9 * * *").missed(ALL).to(&tube).make().unwrap();
        clock.set_wall(at(NEW_YEAR + 30 * DAY));
        assert_eq!(tube.len().unwrap(), 30);
        clock.set_wall(at(NEW_YEAR));
        made.pause().unwrap();
        made.resume().unwrap();
        assert_eq!(made.next(1).unwrap(), [at(NEW_YEAR + 9 * 3600)]);
        clock.set_wall(at(NEW_YEAR + 5 * DAY));
        assert_eq!(tube.len().unwrap(), 35);
        made.pause().unwrap();
        clock.set_wall(at(NEW_YEAR + 60 * DAY));
        made.resume().unwrap();
        assert_eq!(made.next(1).unwrap(), [at(NEW_YEAR + 60 * DAY + 9 * 3600)]);
        assert_eq!((tube.len().unwrap(), made.info().unwrap().missed_fires), (35, 0));
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    }

    /// Both clocks, more together than a page has.
    #[test]
    fn a_tube_lists_intervals_and_cron_texts_by_their_next_fires() {
        let (queue, tube, _clock) = utc();
        let mut expected = Vec::new();
        for hour in 0..24 {
            let (cron, every) = (format!("cron {hour}"), format!("every {hour}"));
            let text = format!("30 {hour} * * *");
            queue.schedule(&cron).cron(&text).to(&tube).make().unwrap();
            let first = secs(hour * 3600 + 60);
            queue.schedule(&every).every(secs(DAY)).offset(first).to(&tube).make().unwrap();
            expected.extend([every, cron]);
        }
        let listed: Vec<_> = tube.schedules().map(|it| it.unwrap()).collect();
        assert_eq!(
            listed.iter().map(|it| &it.name).collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>()
        );
        assert!(listed.is_sorted_by_key(|it| it.next));
        assert_eq!(tube.stats().unwrap().schedules, 48);
    }

    /// The fires of a tube that was dropped are passed over to the end.
    #[test]
    fn fires_of_a_dropped_tube_are_all_missed() {
        let (queue, tube, clock) = utc();
        let schedule = queue.schedule("s").cron("* * * * *").missed(Missed::CatchUp(300));
        let made = schedule.to(&tube).make().unwrap();
        queue.drop_tube("t").unwrap();
        clock.advance(secs(30 * DAY));
        queue.tick().unwrap();
        assert_eq!(made.info().unwrap().next, Some(at(NEW_YEAR + 30 * DAY + 60)));
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    }
}

/// Regression: a child in another tube than that of its schedule, whose ttl was over, counted as
/// one that has not ended until the due work of its tube was done. The fire was missed.
#[test]
fn a_child_whose_ttl_is_over_in_another_tube_has_ended() {
    let (queue, tube, clock) = queue();
    let other = queue.tube("other").unwrap();
    let skip = queue.schedule("s").every(MINUTE).overlap(Overlap::Skip).ttl(secs(30));
    let made = skip.to(&tube).payload(b"x").make().unwrap();
    assert_eq!(keys(&tube), ["s-1"]);
    tube.move_to(ready(&tube).next().unwrap().id, &other).apply().unwrap();
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-2"]);
    assert_eq!(made.info().unwrap().missed_fires, 0);
    assert_eq!(other.len().unwrap(), 0);

    // The same of a schedule that has got another tube: the child is in the one that it had.
    made.update(|it| it.to(&other)).unwrap();
    clock.advance(MINUTE);
    assert_eq!(keys(&other), ["s-3"]);
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// Regression: a make with the same timing, after an update of the offset, began again and fired at
/// once. A new offset holds from the next make with another timing.
#[test]
fn another_offset_alone_moves_no_fire() {
    let (queue, tube, clock) = queue();
    let start = clock.wall();
    let make = |offset| {
        queue.schedule("s").every(secs(3600)).offset(offset).to(&tube).payload(b"x").make().unwrap()
    };
    let made = make(secs(0));
    assert_eq!(drain(&tube), "x");
    clock.advance(MINUTE);
    made.update(|it| it.offset(secs(600))).unwrap();
    assert_eq!(made.next(1).unwrap(), [start + secs(3600)]);
    make(secs(0));
    assert_eq!(tube.len().unwrap(), 0);
    assert_eq!(made.next(1).unwrap(), [start + secs(3600)]);
}
