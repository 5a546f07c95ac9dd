//! Statistics of days: what each step of a task adds to them, on which day, and that it is there
//! exactly once, whatever ends the process.

use crate::format::assert_sound;
use crate::mending::damage;
use crate::{
    close_sound, home, is_mended, killed, kind, lone_with, next, open, secs, state, still,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tubewell::{
    Advance, Backoff, Clock, Conflict, DayStatistics, Distribution, Durability, ErrorKind, Lapse,
    Latencies, ManualClock, Queue, Retention, State, Task, TaskId, Tube, TubeOptions,
};

const DAY: u64 = 86_400;

fn keeping() -> TubeOptions {
    TubeOptions::default().keep_days(30)
}

/// The statistics of the last day that there is.
fn last(tube: &Tube) -> DayStatistics {
    let day = *tube.days().unwrap().last().expect("a day");
    tube.statistics(day).unwrap().unwrap()
}

/// Of the last day: waits, runs, failures, failed, retries.
fn numbers(tube: &Tube) -> [u64; 5] {
    numbers_of(&last(tube))
}

fn numbers_of(of: &DayStatistics) -> [u64; 5] {
    [of.waits.count(), of.runs.count(), of.failures, of.failed, of.retries]
}

/// All days of a tube.
fn all(tube: &Tube) -> Vec<DayStatistics> {
    tube.days().unwrap().into_iter().map(|day| tube.statistics(day).unwrap().unwrap()).collect()
}

/// The buckets that are not empty.
fn used(of: &Distribution) -> Vec<(usize, u64)> {
    let buckets = of.buckets().iter().copied().enumerate();
    buckets.filter(|(_, tasks)| *tasks > 0).collect()
}

#[test]
fn waits_and_runs_have_count_mean_deviation_and_histogram() {
    let (tube, clock) = lone_with(keeping());
    assert_eq!(tube.days().unwrap(), [0; 0]);
    for wait in [2, 4] {
        tube.put(b"x").unwrap();
        clock.advance(secs(wait));
        let task = tube.take().unwrap();
        clock.advance(secs(wait * 60));
        task.ack().unwrap();
    }
    let of = last(&tube);
    assert_eq!((of.waits.mean(), of.runs.mean()), (secs(3), secs(180)));
    assert_eq!(of.waits.deviation().as_micros(), 1_414_214, "the root of two seconds");
    assert_eq!((used(&of.waits), used(&of.runs)), (vec![(2, 1), (4, 1)], vec![(61, 1), (63, 1)]));
    assert_eq!((of.waits.buckets().len(), of.waits.total()), (148, secs(6)));
    assert_eq!(of.runs.quantile(0.5), Some(secs(180)));
    assert_eq!((of.failures, of.failed, of.retries), (0, 0, 0));
    assert_eq!(DayStatistics::day_of(of.begins()), of.day);
    assert_eq!(tube.statistics(of.day + 1).unwrap(), None);
}

#[test]
fn a_wait_is_of_the_day_of_the_take_and_a_run_of_that_of_the_end() {
    let (tube, clock) = lone_with(keeping());
    tube.put_many([b"a".to_vec(), b"b".to_vec()]).unwrap();
    let a = tube.take().unwrap();
    let first = last(&tube).day;
    clock.advance(secs(DAY));
    let b = tube.take().unwrap();
    a.ack().unwrap();
    clock.advance(secs(DAY));
    b.ack().unwrap();
    let days: Vec<_> = all(&tube).iter().map(|of| (of.day - first, numbers_of(of))).collect();
    assert_eq!(days, [(0, [1, 0, 0, 0, 0]), (1, [1, 1, 0, 0, 0]), (2, [0, 1, 0, 0, 0])]);
    assert_eq!(used(&all(&tube)[1].waits), [(142, 1)]);
}

#[test]
fn a_task_waits_since_it_became_ready() {
    let (tube, clock) = lone_with(keeping().backoff(Backoff::constant(secs(100))));
    let mut seen = Vec::new();
    let mut waited = |tube: &Tube| {
        let before: Vec<_> = used(&last(tube).waits);
        let task = tube.take().unwrap();
        let new = used(&last(tube).waits);
        let bucket = new.iter().find(|it| !before.contains(it)).unwrap().0;
        seen.push(bucket);
        task
    };
    tube.put(b"begins the day").unwrap();
    tube.take().unwrap().ack().unwrap();
    tube.task(b"x").key("k").delay(secs(50)).put().unwrap();
    // The delay ends by itself, and no call looks for 7 seconds.
    clock.advance(secs(57));
    let task = waited(&tube);
    clock.advance(secs(20));
    task.retry("no").unwrap();
    clock.advance(secs(111));
    let task = waited(&tube);
    clock.advance(secs(20));
    task.release().unwrap();
    clock.advance(secs(13));
    let task = waited(&tube);
    clock.advance(secs(20));
    drop(task);
    clock.advance(secs(17));
    let task = waited(&tube);
    task.bury("no").unwrap();
    clock.advance(secs(40));
    tube.kick(1).unwrap();
    clock.advance(secs(19));
    let task = waited(&tube);
    // Put again, it stands at the back.
    let id = task.id();
    clock.advance(secs(50));
    task.release().unwrap();
    clock.advance(secs(25));
    let again = tube.task(b"y").key("k").on_conflict(Conflict::Replace);
    assert_eq!(again.put().unwrap(), id);
    clock.advance(secs(23));
    let task = waited(&tube);
    assert_eq!(seen, [7, 11, 13, 17, 19, 23]);
    // A claim of a task that was not ready is no wait.
    let count = last(&tube).waits.count();
    task.bury("no").unwrap();
    tube.claim(id).unwrap().release_with(tubewell::Release::new().delay(secs(9))).unwrap();
    tube.claim(id).unwrap().ack().unwrap();
    assert_eq!(last(&tube).waits.count(), count);
}

#[test]
fn a_run_ends_with_an_ack_a_completion_or_an_advance() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let (tube, other) =
        (queue.create_tube("t", keeping()).unwrap(), queue.create_tube("o", keeping()).unwrap());
    type End = fn(Task, &Tube, &Tube);
    let ends: [(u64, End); 8] = [
        (1, |task, _, _| task.ack().unwrap()),
        (1, |mut task, _, other| task.advance(other).map(drop).unwrap()),
        (1, |mut task, tube, _| task.advance_with(tube, Advance::new()).map(drop).unwrap()),
        (1, |task, tube, _| tube.complete_by_id(task.id()).map(drop).unwrap()),
        (0, |task, tube, _| tube.delete(task.id()).map(drop).unwrap()),
        (0, |task, tube, other| tube.move_to(task.id(), other).apply().map(drop).unwrap()),
        (0, |task, _, _| task.release().unwrap()),
        (0, |task, _, _| task.fail("g", "no").unwrap()),
    ];
    let mut runs = 0;
    for (number, (counted, end)) in ends.into_iter().enumerate() {
        let id = tube.put(b"x").unwrap();
        let task = tube.claim(id).unwrap();
        clock.advance(secs(5));
        end(task, &tube, &other);
        runs += counted;
        assert_eq!(last(&tube).runs.count(), runs, "{number}");
    }
    assert_eq!(used(&last(&tube).runs), [(5, runs)]);
    assert_eq!(other.days().unwrap(), [0; 0], "what comes is no step of the tube");
    let kept = keeping().keep_finished(Retention::new());
    for options in [kept.clone(), kept.drop_payloads(true)] {
        let (tube, clock) = lone_with(options);
        tube.put(b"x").unwrap();
        let task = tube.take().unwrap();
        clock.advance(secs(70));
        task.ack().unwrap();
        assert_eq!(used(&last(&tube).runs), [(60, 1)]);
    }
}

/// TQ's delete, QL-55: what moves or ends a failed task lowers the day on which it failed.
#[test]
fn whatever_ends_or_moves_a_failed_task_lowers_the_day_it_failed() {
    type Way = fn(&Queue, &Tube, TaskId);
    let ways: [(&str, u64, Way); 20] = [
        ("nothing", 1, |_, _, _| {}),
        ("kick", 0, |_, tube, id| tube.kick_task(id).map(drop).unwrap()),
        ("kick many", 0, |_, tube, _| assert_eq!(tube.kick(1).unwrap().kicked, 1)),
        ("claim", 0, |_, tube, id| tube.claim(id).unwrap().ack().unwrap()),
        ("delete", 0, |_, tube, id| tube.delete(id).map(drop).unwrap()),
        ("unfail", 0, |_, tube, _| assert_eq!(tube.unfail("g", 9).unwrap().kicked, 1)),
        ("unfail into", 0, |queue, tube, _| {
            tube.unfail_into("g", 9, &queue.find_tube("o").unwrap().unwrap()).map(drop).unwrap();
        }),
        ("trash", 0, |_, tube, id| tube.trash(id, "torn").unwrap()),
        ("empty the trash", 0, |_, tube, id| {
            tube.trash(id, "torn").unwrap();
            tube.empty_trash().map(drop).unwrap();
        }),
        ("move", 0, |queue, tube, id| {
            tube.move_to(id, &queue.find_tube("o").unwrap().unwrap()).apply().map(drop).unwrap();
        }),
        ("put again", 0, |_, tube, _| {
            let task = tube.task(b"y").key("k").on_conflict(Conflict::Replace);
            task.put().map(drop).unwrap();
        }),
        ("put again elsewhere", 1, |queue, _, _| {
            queue.find_tube("o").unwrap().unwrap().task(b"y").key("k").put().map(drop).unwrap();
        }),
        ("bury once more", 1, |_, tube, id| tube.bury(id, "again").map(drop).unwrap()),
        ("update", 1, |_, tube, id| tube.update(id).priority(3).apply().map(drop).unwrap()),
        ("retention", 0, |queue, tube, _| {
            tube.set("keep_buried", Retention::new().count(1)).unwrap();
            queue.tick().unwrap();
            tube.put(b"z").unwrap();
            tube.take().unwrap().bury("no").unwrap();
        }),
        ("ttl", 0, |_, tube, id| {
            tube.update(id).ttl(secs(1)).apply().map(drop).unwrap();
        }),
        ("merge", 0, |queue, _, _| assert_eq!(queue.merge("t", "o").unwrap().moved, 1)),
        ("merge there and back", 1, |queue, _, _| {
            assert_eq!(queue.merge("t", "o").unwrap().moved, 1);
            assert_eq!(queue.merge("o", "t").unwrap().moved, 1);
        }),
        // It leaves what waits for it to its policy.
        ("force delete", 0, |queue, tube, id| {
            let waits = tube.task(b"c").after([id]).put().unwrap();
            assert_eq!(kind(tube.delete(id)), ErrorKind::HasDependents);
            tube.force_delete(id).unwrap();
            assert_eq!(queue.find(waits).unwrap().state, State::Blocked);
        }),
        ("cancel tree", 0, |queue, tube, id| {
            let other = queue.find_tube("o").unwrap().unwrap();
            let child = other.task(b"c").after([id]).put().unwrap();
            tube.task(b"d").after([child]).put().unwrap();
            assert_eq!(queue.cancel_tree(id).unwrap(), 3);
        }),
    ];
    for (name, failed, way) in ways {
        let (_home, path) = home();
        let (builder, clock) = still();
        let queue = builder.open(&path).unwrap();
        let tube = queue.create_tube("t", keeping()).unwrap();
        let other = queue.create_tube("o", keeping()).unwrap();
        // Its day has begun when the task fails.
        other.put(b"w").unwrap();
        next(&other);
        let there = u64::from(name == "merge");
        let id = tube.task(b"x").key("k").put().unwrap();
        tube.take().unwrap().fail("g", "no").unwrap();
        assert_eq!(numbers(&tube), [1, 0, 1, 1, 0]);
        clock.advance(secs(DAY));
        way(&queue, &tube, id);
        clock.advance(secs(2));
        let first = |tube: &Tube| numbers_of(&all(tube)[0]);
        let expected = ([1, 0, 1, failed, 0], [1, 1, 0, there, 0]);
        assert_eq!((first(&tube), first(&other)), expected, "{name}");
        let (_copy, copy) = killed(&path);
        drop((tube, other));
        close_sound(queue);
        for path in [path, copy] {
            let queue = open(&path);
            let [tube, other] = ["t", "o"].map(|name| queue.find_tube(name).unwrap().unwrap());
            assert_eq!((first(&tube), first(&other)), expected, "{name}");
            close_sound(queue);
        }
    }
}

/// A merge is no step of a task: what happened stays with the tube in which it happened, and what
/// is still to come is counted in the other one. A task is among the failed ones of the tube in
/// which it is buried, if that tube counted steps when it failed.
#[test]
fn a_merge_counts_no_step_and_what_comes_later_is_counted_there() {
    for began in [false, true] {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        let [old, new] = ["old", "new"].map(|name| queue.create_tube(name, keeping()).unwrap());
        if began {
            new.put(b"begins the day").unwrap();
            next(&new);
        }
        let [failed, taken] = [(); 2].map(|()| old.put(b"x").unwrap());
        old.claim(failed).unwrap().fail("g", "no").unwrap();
        let task = old.claim(taken).unwrap();
        old.put(b"ready").unwrap();
        clock.advance(secs(5));
        let mut after = last(&old);
        assert_eq!(numbers_of(&after), [2, 0, 1, 1, 0]);
        assert_eq!(queue.merge("old", "new").unwrap().moved, 3);
        after.failed = 0;
        assert_eq!(last(&old), after);
        let day: Vec<_> = all(&new).iter().map(numbers_of).collect();
        assert_eq!(day, if began { vec![[1, 1, 0, 1, 0]] } else { vec![] });
        clock.advance(secs(3));
        task.ack().unwrap();
        next(&new);
        let was = u64::from(began);
        assert_eq!(numbers(&new), [1 + was, 2 + was, 0, was, 0]);
        assert_eq!(last(&new).waits.buckets()[8], 1, "it was ready before the merge, too");
        assert_eq!(last(&new).runs.buckets()[8], 1, "and the other one was taken");
        assert_eq!(new.kick(1).unwrap().kicked, 1);
        assert_eq!(numbers(&new)[3], 0);
        assert_eq!(last(&old), after);
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }
}

#[test]
fn each_bury_is_a_failure_and_each_charged_return_a_retry() {
    let options = keeping().max_attempts(3).backoff(Backoff::NONE).ttr(secs(60));
    let (tube, clock) = lone_with(options);
    let id = tube.put(b"x").unwrap();
    let mut expected = [0; 5];
    type Step = fn(Task, &ManualClock);
    let steps: [(usize, Step); 8] = [
        (4, |task, _| task.retry("no").unwrap()),
        (4, |task, _| drop(task)),
        (2, |task, _| task.retry("the last one").unwrap()),
        (4, |task, clock| {
            clock.advance(secs(60));
            drop(task);
        }),
        (0, |task, _| task.release().unwrap()),
        (4, |task, _| task.retry_after("later", secs(1)).unwrap()),
        (2, |task, _| task.bury("no").unwrap()),
        (2, |task, _| task.fail("g", "no").unwrap()),
    ];
    for (number, (counted, step)) in steps.into_iter().enumerate() {
        step(tube.claim(id).unwrap(), &clock);
        expected[counted] += u64::from(counted > 0);
        let seen = numbers(&tube);
        assert_eq!((seen[2], seen[4]), (expected[2], expected[4]), "{number}");
    }
    assert_eq!(state(&tube, id), State::Buried);
    assert_eq!(numbers(&tube)[3], 1, "it has failed three times, and is one task");
    // An uncharged lapse, and a forced timeout.
    let (tube, clock) = lone_with(keeping().ttr(secs(9)).lapse(Lapse::new().charged(false)));
    let id = tube.put(b"x").unwrap();
    let task = tube.take().unwrap();
    clock.advance(secs(9));
    assert!(task.ack().is_err());
    let _task = tube.take().unwrap();
    tube.force_timeout(&[id]).unwrap();
    assert_eq!(numbers(&tube), [2, 0, 0, 0, 0]);
}

/// An opening ends the lease, which is a retry of its day.
#[test]
fn a_kill_between_any_two_steps_loses_and_doubles_nothing() {
    for checkpoint in [usize::MAX, 3, 8] {
        let (_home, path) = home();
        let (builder, clock) = still();
        let queue = builder.durability(Durability::Relaxed).open(&path).unwrap();
        let tube = queue.create_tube("t", keeping()).unwrap();
        let mut kept = Vec::new();
        for step in 0..12 {
            match step % 4 {
                0 => _ = tube.put(b"x").unwrap(),
                1 => tube.take().unwrap().retry_after("no", secs(0)).unwrap(),
                2 => tube.take().unwrap().ack().unwrap(),
                _ => {
                    tube.put(b"y").unwrap();
                    tube.take().unwrap().fail("g", "no").unwrap();
                }
            }
            clock.advance(secs(DAY / 5 + step));
            if step as usize == checkpoint {
                queue.checkpoint().unwrap();
            }
            let (copies, copy) = killed(&path);
            kept.push((copies, copy, all(&tube)));
        }
        for (_copies, copy, before) in kept {
            let shown = |queue: &Queue| all(&queue.find_tube("t").unwrap().unwrap());
            let reader = still().0.read_only(true).open(&copy).unwrap();
            assert_eq!(shown(&reader), before);
            drop(reader);
            // Killed at once, what was read is read once more; then it is closed.
            for is_closed in [false, true] {
                let queue = open(&copy);
                assert_eq!(shown(&queue), before);
                if is_closed {
                    close_sound(queue);
                    continue;
                }
                let (_home, again) = killed(&copy);
                assert_eq!(shown(&open(&again)), before);
                drop(queue);
            }
        }
        drop(tube);
        close_sound(queue);
    }
}

#[test]
fn a_lease_that_a_kill_ends_is_a_retry_and_has_no_run() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", keeping()).unwrap();
    let id = tube.put(b"x").unwrap();
    let _task = tube.take().unwrap();
    let (_copy, copy) = killed(&path);
    let queue = open(&copy);
    let tube = queue.find_tube("t").unwrap().unwrap();
    assert_eq!(numbers(&tube), [1, 0, 0, 0, 1]);
    tube.claim(id).unwrap().ack().unwrap();
    assert_eq!(numbers(&tube), [2, 1, 0, 0, 1]);
    drop(tube);
    close_sound(queue);
}

/// Of a lease that waited for its consumer over an opening it is not known when it began.
#[test]
fn a_run_of_unknown_length_is_left_out() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", keeping()).unwrap();
    tube.put_many([b"x".to_vec(), b"y".to_vec()]).unwrap();
    let ada = queue.consumer_with_grace("ada", secs(600)).unwrap();
    tube.by(&ada).take().unwrap().detach();
    tube.by(&ada).take().unwrap().detach();
    clock.advance(secs(5));
    let (_copy, copy) = killed(&path);
    let queue = Queue::builder().clock(clock.clone()).by_hand(true).open(&copy).unwrap();
    let tube = queue.find_tube("t").unwrap().unwrap();
    let ids: Vec<_> = tube.tasks(State::Taken).map(|task| task.unwrap().id).collect();
    tube.complete_by_id(ids[0]).unwrap();
    assert_eq!(numbers(&tube), [2, 0, 0, 0, 0]);
    // An adoption begins a lease, and says no more of the one before.
    let bob = queue.consumer("bob").unwrap();
    let task = bob.adopt("ada").unwrap().tasks(&tube).next().unwrap().unwrap();
    clock.advance(secs(70));
    task.ack().unwrap();
    assert_eq!(used(&last(&tube).runs), [(60, 1)]);
}

#[test]
fn days_are_removed_when_they_are_too_old() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().keep_days(3)).unwrap();
    let work = || {
        tube.put(b"x").unwrap();
        tube.take().unwrap().ack().unwrap();
    };
    let mut first = 0;
    for day in 0..5 {
        work();
        first = if day == 0 { last(&tube).day } else { first };
        let days: Vec<_> = tube.days().unwrap().iter().map(|day| day - first).collect();
        assert_eq!(days, (day.max(2) - 2..=day).collect::<Vec<_>>());
        clock.advance(secs(DAY));
    }
    // No call comes: the timer removes them.
    clock.advance(secs(DAY));
    queue.tick().unwrap();
    let queue_check = queue.check().unwrap();
    assert_eq!(queue_check, [""; 0]);
    assert_eq!(tube.days().unwrap(), [first + 4]);
    clock.advance(secs(9 * DAY));
    assert_eq!(tube.days().unwrap(), [0; 0]);
    work();
    drop(tube);
    close_sound(queue);
}

#[test]
fn the_number_of_days_is_changed_while_the_queue_is_open() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put_many((0..9).map(|_| b"x".to_vec())).unwrap();
    next(&tube);
    assert_eq!(tube.days().unwrap(), [0; 0]);
    tube.set("keep_days", 200).unwrap();
    assert_eq!(tube.info().unwrap().options.get_keep_days(), 200);
    for _ in 0..150 {
        tube.put(b"x").unwrap();
        next(&tube);
        clock.advance(secs(DAY));
    }
    assert_eq!(tube.days().unwrap().len(), 150);
    // More than one turn of due work.
    tube.set("keep_days", 2).unwrap();
    assert_eq!(tube.days().unwrap().len(), 1);
    tube.take().unwrap().fail("g", "no").unwrap();
    assert_eq!(numbers(&tube), [1, 0, 1, 1, 0]);
    tube.set("keep_days", 0).unwrap();
    assert_eq!(tube.days().unwrap(), [0; 0]);
    assert!(tube.unset("keep_days").unwrap());
    clock.advance(secs(1));
    tube.set("keep_days", 5).unwrap();
    tube.take().unwrap().fail("g", "no").unwrap();
    // The first one failed on a day whose row is gone, and does not lower the new one.
    assert_eq!(numbers(&tube), [1, 0, 1, 1, 0]);
    assert_eq!(tube.kick(1).unwrap().kicked, 1);
    assert_eq!(numbers(&tube), [1, 0, 1, 1, 0]);
    assert_eq!(tube.kick(1).unwrap().kicked, 1);
    assert_eq!(numbers(&tube), [1, 0, 1, 0, 0]);
    for wrong in [3661_i64, -1] {
        assert_eq!(kind(tube.set("keep_days", wrong)), ErrorKind::Invalid);
    }
    assert_eq!(kind(queue.create_tube("w", keeping().keep_days(3661))), ErrorKind::Invalid);
    // A replay adds to the row that was made again, and not what the one before it had.
    let (_copy, copy) = killed(&path);
    let queue_again = open(&copy);
    let again = queue_again.find_tube("t").unwrap().unwrap();
    assert_eq!(all(&again), all(&tube));
    close_sound(queue_again);
    drop(tube);
    close_sound(queue);
}

/// Waits are known or left out, however often the option was off meanwhile.
#[test]
fn a_wait_is_never_that_of_a_time_in_which_nothing_was_kept() {
    type Before = fn(&Tube, &ManualClock);
    let hour = secs(3600);
    type Case = (&'static str, Before, &'static [(usize, u64)]);
    let cases: [Case; 9] = [
        ("fresh", |tube, _| _ = tube.put(b"x").unwrap(), &[(1, 1)]),
        ("in a group", |tube, _| _ = tube.task(b"x").group("g").put().unwrap(), &[]),
        (
            "returned with statistics, and without",
            |tube, clock| {
                tube.set("keep_days", 30).unwrap();
                tube.put(b"x").unwrap();
                tube.take().unwrap().retry_after("no", secs(0)).unwrap();
                tube.set("keep_days", 0).unwrap();
                clock.advance(secs(3600));
                tube.take().unwrap().release().unwrap();
            },
            &[],
        ),
        (
            "a delay that ended",
            |tube, clock| {
                tube.task(b"x").delay(secs(3600)).put().unwrap();
                clock.advance(secs(3600));
                tube.kick(1).unwrap();
            },
            &[],
        ),
        (
            "buried and kicked",
            |tube, clock| {
                let id = tube.put(b"x").unwrap();
                tube.bury(id, "no").unwrap();
                clock.advance(secs(3600));
                tube.kick(1).unwrap();
            },
            &[],
        ),
        (
            "kicked after it",
            |tube, clock| {
                let id = tube.put(b"x").unwrap();
                tube.bury(id, "no").unwrap();
                clock.advance(secs(3600));
                tube.set("keep_days", 30).unwrap();
                tube.kick(1).unwrap();
            },
            &[(1, 1)],
        ),
        (
            "trashed and restored",
            |tube, clock| {
                let id = tube.put(b"x").unwrap();
                tube.trash(id, "no").unwrap();
                clock.advance(secs(3600));
                tube.restore(id).unwrap();
            },
            &[],
        ),
        (
            "put with statistics, in a group",
            |tube, _| {
                tube.set("keep_days", 30).unwrap();
                tube.task(b"x").group("g").put().unwrap();
            },
            &[(1, 1)],
        ),
        (
            "noted and placed again while fresh",
            |tube, _| {
                tube.set("keep_days", 30).unwrap();
                let id = tube.put(b"x").unwrap();
                tube.update(id).priority(3).apply().map(drop).unwrap();
                tube.log(id, "seen").unwrap();
            },
            &[(1, 1)],
        ),
    ];
    for (name, before, waits) in cases {
        let (_home, path) = home();
        let (builder, clock) = still();
        let queue = builder.open(&path).unwrap();
        let tube = queue.create_tube("t", TubeOptions::default()).unwrap();
        before(&tube, &clock);
        tube.set("keep_days", 5).unwrap();
        clock.advance(secs(1));
        let task = tube.take().unwrap();
        task.ack().unwrap();
        assert_eq!(used(&last(&tube).waits), waits, "{name}");
        clock.advance(hour);
        drop(tube);
        close_sound(queue);
    }
}

/// Regression: a row that says since when its task is ready outlived that.
#[test]
fn a_payload_is_dropped_from_a_task_that_was_ready_again() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let options = keeping().keep_finished(Retention::new()).drop_payloads(true);
    let tube = queue.create_tube("t", options).unwrap();
    let id = tube.put(b"x").unwrap();
    tube.take().unwrap().release().unwrap();
    clock.advance(secs(2));
    tube.complete_by_id(id).unwrap();
    drop(tube);
    queue.close().unwrap();
    assert_sound(&path);
}

/// More than are counted in one step.
#[test]
fn the_tasks_that_are_still_buried_are_counted_by_day() {
    let (tube, clock) = lone_with(keeping());
    let mut failed = Vec::new();
    for tasks in [256_usize, 0, 257, 600] {
        for _ in 0..tasks {
            tube.put(b"x").unwrap();
            tube.take().unwrap().bury("no").unwrap();
        }
        if tasks > 0 {
            failed.push(tasks as u64);
        }
        clock.advance(secs(DAY));
    }
    let seen = || all(&tube).iter().map(|of| of.failed).collect::<Vec<_>>();
    assert_eq!(seen(), failed);
    assert_eq!(tube.kick(300).unwrap().kicked, 300);
    let failures: Vec<_> = all(&tube).iter().map(|of| of.failures).collect();
    assert_eq!((seen().iter().sum(), failures), (failed.iter().sum::<u64>() - 300, failed));
}

/// An opening replays the records of very many days.
#[test]
fn a_kill_with_very_many_days_is_replayed() {
    let (_home, path) = home();
    let (builder, _) = still();
    let queue = builder.durability(Durability::Relaxed).open(&path).unwrap();
    let tubes: Vec<_> = (0..2100)
        .map(|number| queue.create_tube(&number.to_string(), keeping()).unwrap())
        .collect();
    queue.checkpoint().unwrap();
    for _ in 0..2 {
        for tube in &tubes {
            tube.put(b"x").unwrap();
            next(tube);
        }
    }
    let (_copy, copy) = killed(&path);
    close_sound(queue);
    let queue = open(&copy);
    for number in 0..2100 {
        let tube = queue.find_tube(&number.to_string()).unwrap().unwrap();
        assert_eq!(numbers(&tube), [2, 2, 0, 0, 0]);
    }
    close_sound(queue);
}

#[test]
fn a_truncated_or_dropped_tube_begins_again_and_leaves_no_row() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", keeping()).unwrap();
    let work = |tube: &Tube| {
        tube.put(b"x").unwrap();
        tube.take().unwrap().fail("g", "no").unwrap();
    };
    work(&tube);
    tube.truncate().unwrap();
    assert_eq!(tube.days().unwrap(), [0; 0]);
    work(&tube);
    assert_eq!(numbers(&tube), [1, 0, 1, 1, 0]);
    clock.advance(secs(DAY));
    work(&tube);
    queue.force_drop_tube("t").unwrap();
    assert_eq!(kind(tube.days()), ErrorKind::TubeNotFound);
    let tube = queue.create_tube("t", keeping()).unwrap();
    assert_eq!(tube.days().unwrap(), [0; 0]);
    let (_copy, copy) = killed(&path);
    close_sound(queue);
    close_sound(open(&copy));
}

#[test]
fn a_transaction_counts_with_its_commit_or_not_at_all() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", keeping()).unwrap();
    tube.put_many((0..4).map(|_| b"x".to_vec())).unwrap();
    let tasks = [tube.take().unwrap(), tube.take().unwrap()];
    for (commits, runs) in [(false, 0), (true, 2)] {
        let done = queue.transact(|tx| {
            for task in &tasks {
                tx.ack(task)?;
            }
            let done: Result<(), Box<dyn std::error::Error + Send + Sync>> =
                if commits { Ok(()) } else { Err("no".into()) };
            done
        });
        assert_eq!((done.is_ok(), numbers(&tube)), (commits, [2, runs, 0, 0, 0]));
    }
    next(&tube);
    let (_copy, copy) = killed(&path);
    let queue = open(&copy);
    assert_eq!(numbers(&queue.find_tube("t").unwrap().unwrap()), [3, 3, 0, 0, 0]);
    close_sound(queue);
}

/// The first steps of a day, in a durable tube and in a temporary one.
#[test]
fn a_transaction_begins_a_day_with_its_commit() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", keeping()).unwrap();
    let other = queue.create_tube("o", keeping().temporary(true)).unwrap();
    tube.put_many([b"a".to_vec(), b"b".to_vec()]).unwrap();
    other.put(b"c").unwrap();
    let tasks = [tube.take().unwrap(), tube.take().unwrap(), other.take().unwrap()];
    clock.advance(secs(DAY));
    let seen = |tube: &Tube| all(tube).iter().map(numbers_of).collect::<Vec<_>>();
    for commits in [false, true] {
        let done = queue.transact(|tx| {
            tx.ack(&tasks[0])?;
            tx.bury(&tasks[1], "no")?;
            tx.ack(&tasks[2])?;
            let done: Result<(), Box<dyn std::error::Error + Send + Sync>> =
                if commits { Ok(()) } else { Err("no".into()) };
            done
        });
        assert_eq!(done.is_ok(), commits);
        let more = if commits { 2 } else { 1 };
        assert_eq!(seen(&tube), [[2, 0, 0, 0, 0], [0, 1, 1, 1, 0]][..more]);
        assert_eq!(seen(&other), [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]][..more]);
    }
    assert_eq!(tube.kick(1).unwrap().kicked, 1);
    let (_copy, copy) = killed(&path);
    assert_eq!(seen(&tube)[1], [0, 1, 1, 0, 0]);
    let reader = Queue::builder().clock(clock.clone()).by_hand(true).read_only(true);
    let reader = reader.open(&copy).unwrap();
    assert_eq!(seen(&reader.find_tube("t").unwrap().unwrap()), seen(&tube));
    drop((tube, other));
    close_sound(queue);
}

/// A record of the journal is bounded; what does not fit goes to the base at once.
#[test]
fn batches_count_each_task() {
    for journal in [64 << 10, 4 << 20] {
        let (_home, path) = home();
        let (builder, _) = still();
        let queue = builder.journal_bytes(journal).open(&path).unwrap();
        let tube = queue.create_tube("t", keeping()).unwrap();
        for round in 1..=3 {
            tube.put_many((0..1000).map(|_| b"x".to_vec())).unwrap();
            let tasks = tube.take_many(1000).unwrap();
            let taken = 1000 * (round - 1) + tasks.len() as u64;
            tube.ack_many(tasks).unwrap();
            while tube.try_take().unwrap().is_some_and(|task| task.ack().is_ok()) {}
            assert!(taken > 0);
            assert_eq!(numbers(&tube), [1000 * round, 1000 * round, 0, 0, 0]);
        }
        let (_copy, copy) = killed(&path);
        drop(tube);
        close_sound(queue);
        for path in [path, copy] {
            let queue = open(&path);
            assert_eq!(numbers(&queue.find_tube("t").unwrap().unwrap()), [3000, 3000, 0, 0, 0]);
            close_sound(queue);
        }
    }
}

/// The rows of days are written to the overlay some at a time.
#[test]
fn many_tubes_keep_days_through_checkpoints_and_a_kill() {
    let (_home, path) = home();
    let (builder, _) = still();
    let queue = builder.durability(Durability::Relaxed).open(&path).unwrap();
    let tubes: Vec<_> =
        (0..257).map(|number| queue.create_tube(&number.to_string(), keeping()).unwrap()).collect();
    let mut copies = Vec::new();
    for round in 1..=3_u64 {
        for tube in &tubes {
            tube.put(b"x").unwrap();
            next(tube);
        }
        copies.push((killed(&path), round));
        queue.checkpoint().unwrap();
        copies.push((killed(&path), round));
    }
    for ((_home, copy), rounds) in copies {
        let queue = open(&copy);
        for number in 0..257 {
            let tube = queue.find_tube(&number.to_string()).unwrap().unwrap();
            assert_eq!(numbers(&tube), [rounds, rounds, 0, 0, 0]);
        }
        close_sound(queue);
    }
    drop(tubes);
    close_sound(queue);
}

#[test]
fn a_temporary_tube_keeps_them_in_memory() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", keeping().temporary(true)).unwrap();
    let id = tube.put(b"x").unwrap();
    next(&tube);
    tube.put(b"x").unwrap();
    tube.take().unwrap().fail("g", "no").unwrap();
    queue.checkpoint().unwrap();
    assert_eq!(numbers(&tube), [2, 1, 1, 1, 0]);
    assert_eq!(tube.kick(1).unwrap().kicked, 1);
    assert_eq!(numbers(&tube), [2, 1, 1, 0, 0]);
    assert!(id.get() > 0);
    let (_copy, copy) = killed(&path);
    drop(tube);
    close_sound(queue);
    for path in [path, copy] {
        let queue = open(&path);
        assert_eq!(queue.find_tube("t").unwrap().unwrap().days().unwrap(), [0; 0]);
        close_sound(queue);
    }
}

/// A plain record has no byte more if another tube of its queue keeps days.
#[test]
fn a_tube_without_them_writes_as_before() {
    let sizes: Vec<_> = [(0, 0), (30, 0), (30, 30)]
        .into_iter()
        .map(|(others, own)| {
            let (_home, path) = home();
            let (builder, clock) = still();
            let queue = builder.durability(Durability::Relaxed).open(&path).unwrap();
            let with = |days| TubeOptions::default().keep_days(days);
            let other = queue.create_tube("t", with(others)).unwrap();
            let plain = queue.create_tube("p", with(own)).unwrap();
            other.put(b"x").unwrap();
            next(&other);
            plain.put(b"x").unwrap();
            next(&plain);
            clock.advance(secs(1));
            let used = || queue.space().unwrap().journal_used;
            let before = used();
            plain.put(b"x").unwrap();
            plain.take().unwrap().release().unwrap();
            next(&plain);
            used() - before
        })
        .collect();
    assert_eq!(sizes[0], sizes[1]);
    assert!(sizes[1] < sizes[2], "{sizes:?}");
    let (tube, _) = lone_with(TubeOptions::default());
    tube.put(b"x").unwrap();
    next(&tube);
    assert_eq!((tube.days().unwrap(), tube.statistics(0).unwrap()), (vec![], None));
}

/// What is too old is shown no more, also where nothing may be removed.
#[test]
fn a_reader_shows_no_day_that_is_too_old() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().keep_days(2)).unwrap();
    for _ in 0..2 {
        tube.put(b"x").unwrap();
        next(&tube);
        clock.advance(secs(DAY));
    }
    let (_copy, copy) = killed(&path);
    let first = DayStatistics::day_of(clock.wall()) - 2;
    let reader = Queue::builder().clock(clock.clone()).by_hand(true).read_only(true);
    let reader = reader.open(&copy).unwrap();
    let tube = reader.find_tube("t").unwrap().unwrap();
    assert_eq!(tube.days().unwrap(), [first + 1]);
    assert_eq!(tube.statistics(first).unwrap(), None);
    assert_eq!(numbers(&tube), [1, 1, 0, 0, 0]);
}

/// What a tube has, counted beside the queue: of each day waits, runs, failures, failed, retries.
#[derive(Default)]
struct Counted {
    days: BTreeMap<u32, [u64; 5]>,
    /// Tasks in hand, and buried ones with their day.
    taken: Vec<Task>,
    buried: BTreeMap<TaskId, u32>,
}

impl Counted {
    fn add(&mut self, day: u32, what: usize) {
        self.days.entry(day).or_default()[what] += 1;
    }

    fn step(&mut self, tube: &Tube, day: u32, step: u64) {
        match step {
            0..4 => _ = tube.put(b"x").unwrap(),
            4..7 => {
                if let Some(task) = tube.try_take().unwrap() {
                    self.taken.push(task);
                    self.add(day, 0);
                }
            }
            7..9 => {
                if let Some(task) = self.taken.pop() {
                    task.ack().unwrap();
                    self.add(day, 1);
                }
            }
            9 => {
                if let Some(task) = self.taken.pop() {
                    task.retry_after("no", secs(0)).unwrap();
                    self.add(day, 4);
                }
            }
            10..12 => {
                if let Some(task) = self.taken.pop() {
                    self.buried.insert(task.id(), day);
                    task.fail("g", "no").unwrap();
                    self.add(day, 2);
                    self.add(day, 3);
                }
            }
            12 => {
                if let Some((id, day)) = self.buried.pop_first() {
                    tube.kick_task(id).unwrap();
                    self.days.get_mut(&day).unwrap()[3] -= 1;
                }
            }
            _ => {
                if let Some((id, day)) = self.buried.pop_last() {
                    tube.delete(id).unwrap();
                    self.days.get_mut(&day).unwrap()[3] -= 1;
                }
            }
        }
    }

    fn compare(&self, tube: &Tube) {
        let found: BTreeMap<_, _> = all(tube).iter().map(|of| (of.day, numbers_of(of))).collect();
        assert_eq!(found, self.days);
    }
}

/// Any steps in any order, over a journal so small that nothing is collected, and over a larger
/// one, with checkpoints and kills between them. After each kill the queue goes on from what is
/// left.
#[test]
fn any_steps_checkpoints_and_kills_are_counted_exactly() {
    [64 << 10, 1 << 20].into_iter().for_each(any_steps);
}

fn any_steps(journal: u64) {
    let mut seed = 7_u64;
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (mut dir, mut path) = home();
    let (_, clock) = still();
    let opened = |path: &std::path::Path| {
        let builder = Queue::builder().clock(clock.clone()).by_hand(true);
        builder.durability(Durability::Relaxed).journal_bytes(journal).open(path).unwrap()
    };
    let options = keeping().max_attempts(0).backoff(Backoff::NONE);
    let mut queue = opened(&path);
    let mut tubes = ["a", "b", "c"].map(|name| queue.create_tube(name, options.clone()).unwrap());
    let mut counted = [(); 3].map(|()| Counted::default());
    for _ in 0..8 {
        for _ in 0..150 {
            let day = DayStatistics::day_of(clock.wall());
            let at = draw(3) as usize;
            counted[at].step(&tubes[at], day, draw(14));
            match draw(60) {
                0 => queue.checkpoint().unwrap(),
                1..8 => clock.advance(secs(draw(4 * 3600))),
                _ => {}
            }
        }
        (0..3).for_each(|at| counted[at].compare(&tubes[at]));
        let (next_dir, copy) = killed(&path);
        let day = DayStatistics::day_of(clock.wall());
        for of in &mut counted {
            // Every lease is over, and each of these tasks returns.
            for task in std::mem::take(&mut of.taken) {
                _ = task.detach();
                of.add(day, 4);
            }
        }
        (dir, path) = (next_dir, copy);
        queue = opened(&path);
        tubes = ["a", "b", "c"].map(|name| queue.find_tube(name).unwrap().unwrap());
    }
    drop(tubes);
    close_sound(queue);
    drop(dir);
}

/// A task that waits for another one said since when it was ready.
#[test]
fn a_wait_begins_when_a_task_waits_for_no_other_one_any_more() {
    let ((_home, path), (builder, clock)) = (home(), still());
    let queue = builder.open(path).unwrap();
    let tube = queue.create_tube("t", keeping()).unwrap();
    let parent = tube.put(b"p").unwrap();
    let child = tube.task(b"c").after([parent]).put().unwrap();
    clock.advance(secs(100));
    assert_eq!(state(&tube, child), State::Blocked);
    queue.flush().unwrap();
    assert!(tube.complete_by_id(parent).unwrap());
    clock.advance(secs(3));
    tube.take().unwrap().ack().unwrap();
    assert_eq!(used(&last(&tube).waits), [(3, 1)]);
    tube.task(b"d").after([tube.put(b"p").unwrap()]).put().unwrap();
    close_sound(queue);
}

/// A record and the rows of the days that it begins fit the journal each by itself and not
/// together. A checkpoint made no room for it, and the take was tried again without end.
#[test]
fn a_take_from_many_tubes_that_begins_their_days_ends() {
    let ((_home, path), (builder, clock)) = (home(), still());
    let builder = builder.durability(Durability::Relaxed);
    let queue = builder.journal_bytes(512 << 10).open(path).unwrap();
    let names: Vec<_> = (0..37).map(|tube| format!("t{tube}")).collect();
    let tubes: Vec<_> =
        names.iter().map(|name| queue.create_tube(name, keeping()).unwrap()).collect();
    for most in (1340..=1470).step_by(26) {
        clock.advance(secs(DAY));
        tubes.iter().for_each(|tube| _ = tube.batch([[b'x'; 40]; 40]).put().unwrap());
        queue.checkpoint().unwrap();
        let taken = queue.tubes_of(&names).unwrap().take_many(most).unwrap();
        assert_eq!(taken.len(), most);
        let waits = tubes.iter().filter(|tube| !tube.days().unwrap().is_empty());
        let waits = waits.map(|tube| last(tube).waits.count()).sum::<u64>();
        assert_eq!(waits, most as u64);
        drop(taken);
        tubes.iter().for_each(|tube| _ = tube.truncate().unwrap());
    }
    drop(tubes);
    close_sound(queue);
}

/// In turns from two tubes, in one record: each has one day.
#[test]
fn a_take_in_turns_from_two_tubes_begins_two_days() {
    let ((_home, path), (builder, _)) = (home(), still());
    let builder = builder.durability(Durability::Relaxed);
    let queue = builder.journal_bytes(1 << 20).open(path).unwrap();
    let tubes = ["a", "b"].map(|name| queue.create_tube(name, keeping()).unwrap());
    tubes.iter().for_each(|tube| _ = tube.batch([[b'x']; 50]).put().unwrap());
    queue.checkpoint().unwrap();
    let before = queue.space().unwrap().checkpoints;
    let taken = queue.tubes_of(["a", "b"]).unwrap().round_robin().take_many(100).unwrap();
    assert_eq!(taken.len(), 100);
    assert_eq!(queue.space().unwrap().checkpoints, before, "there was room for two rows");
    assert_eq!(tubes.each_ref().map(|tube| last(tube).waits.count()), [50, 50]);
    close_sound(queue);
}

/// A task that a repair buries has failed.
#[test]
fn a_task_that_a_repair_buries_is_a_failure() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", keeping()).unwrap();
    let id = tube.put(b"payload one").unwrap();
    queue.checkpoint().unwrap();
    let (_copy, copy) = killed(&path);
    assert!(damage(&copy, b"payload one") > 0);
    let queue = open(&copy);
    queue.repair().unwrap();
    let tube = queue.tube("t").unwrap();
    assert_eq!(state(&tube, id), State::Buried);
    assert_eq!(numbers(&tube), [0, 0, 1, 1, 0]);
    is_mended(&queue);
}

/// Latencies are of this opening, in every tube that keeps days, over a truncate and for tasks in
/// transactions; and a tube that keeps no days has none.
#[test]
fn latencies_are_those_since_the_opening() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", keeping()).unwrap();
    let millis = Duration::from_millis;
    assert_eq!(tube.latencies().unwrap(), Some(Latencies::default()));
    for wait in 1..=9 {
        tube.put(b"x").unwrap();
        clock.advance(millis(wait * 10));
        let task = tube.take().unwrap();
        clock.advance(millis(5));
        match wait {
            1 => queue.transact(|tx| tx.ack(&task)).unwrap(),
            2 => task.bury("no").unwrap(),
            _ => task.ack().unwrap(),
        }
    }
    let so_far = tube.latencies().unwrap().unwrap();
    assert_eq!((so_far.waits.count(), so_far.runs.count()), (9, 8));
    assert_eq!((so_far.waits.longest(), so_far.waits.mean()), (millis(90), millis(50)));
    assert_eq!((so_far.runs.longest(), so_far.runs.mean()), (millis(5), millis(5)));
    let median = so_far.waits.quantile(0.5).unwrap();
    assert!((millis(50)..millis(57)).contains(&median), "{median:?}");
    tube.truncate().unwrap();
    assert_eq!(tube.latencies().unwrap(), Some(so_far));
    tube.set("keep_days", 0u32).unwrap();
    assert_eq!(tube.latencies().unwrap(), None);
    tube.set("keep_days", 1u32).unwrap();
    assert_eq!(tube.latencies().unwrap(), Some(Latencies::default()));
    tube.put(b"x").unwrap();
    tube.take().unwrap().ack().unwrap();
    assert_eq!(tube.latencies().unwrap().unwrap().runs.count(), 1);
    queue.close().unwrap();
    let queue = still().0.clock(clock.clone()).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    assert_eq!(tube.latencies().unwrap(), Some(Latencies::default()));
    queue.drop_tube("t").unwrap();
    assert_eq!(kind(tube.latencies()), ErrorKind::TubeNotFound);
    close_sound(queue);
}

/// What was added last is kept, to be added to the sums together. Every answer has it, also beside
/// another tube, and after more than is kept.
#[test]
fn statistics_have_what_was_added_last() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tubes = ["a", "b"].map(|name| queue.create_tube(name, keeping()).unwrap());
    let mut taken = [0, 0];
    for number in 0..700 {
        // Long and short turns of each, over two days.
        let at = usize::from(number % 300 < 7 || number % 2 == 0 && number > 400);
        if number == 350 {
            clock.advance(Duration::from_secs(86_400));
        }
        tubes[at].put(b"x").unwrap();
        let task = tubes[at].take().unwrap();
        clock.advance(Duration::from_millis(3));
        task.ack().unwrap();
        taken[at] += 1;
        for (tube, taken) in tubes.iter().zip(taken) {
            let latencies = tube.latencies().unwrap().unwrap();
            let counts = (latencies.waits.count(), latencies.runs.count());
            assert_eq!(counts, (taken, taken), "after {number}");
            if number % 97 == 0 {
                let sum: u64 = all(tube).iter().map(|day| day.runs.count()).sum();
                assert_eq!(sum, taken, "the days, after {number}");
            }
        }
    }
}
