//! Failed tasks: what is kept of a failure, and the failure groups with their counts, listings and
//! the way back.

use crate::golden;
use crate::{
    close_sound, counts, drain, exhausted, home, last_error, lone, lone_with, secs, still,
};
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::UNIX_EPOCH;
use tubewell::{
    Backoff, Failure, Queue, Reason, Release, Result, Retry, State, TaskId, TaskSummary, Tube,
    TubeOptions,
};

fn tasks(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|at| at.to_string().into_bytes()).collect()
}

/// The failure groups of a tube with their counts.
fn groups(tube: &Tube) -> BTreeMap<String, u64> {
    let groups = tube.failure_groups().unwrap().into_iter();
    groups.map(|group| (group.group, group.tasks)).collect()
}

fn all_groups(queue: &Queue) -> Vec<(String, u64)> {
    let groups = queue.failure_groups().unwrap().into_iter();
    groups.map(|group| (group.group, group.tasks)).collect()
}

fn ids(listed: impl Iterator<Item = Result<TaskSummary>>) -> Vec<TaskId> {
    listed.map(|task| task.unwrap().id).collect()
}

fn of<const COUNT: usize>(groups: [(&str, u64); COUNT]) -> BTreeMap<String, u64> {
    groups.into_iter().map(|(group, count)| (group.to_owned(), count)).collect()
}

fn failure(tube: &Tube, id: TaskId) -> Failure {
    tube.peek(id).unwrap().last_failure.clone().expect("a failure")
}

#[test]
fn a_retry_keeps_group_message_time_and_consumer() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    let ada = queue.consumer("ada").unwrap();
    clock.advance(secs(5));
    let now = tube.peek(id).unwrap().created + secs(5);
    let task = tube.by(&ada).take().unwrap();
    task.retry_with(Retry::new("no route").group("network").after(secs(0))).unwrap();
    let kept = failure(&tube, id);
    assert_eq!((kept.group.as_deref(), &*kept.message), (Some("network"), "no route"));
    assert_eq!((kept.at, kept.by.as_deref()), (Some(now), Some("ada")));

    // The next failure replaces all of it.
    clock.advance(secs(1));
    tube.take().unwrap().retry_after("busy", secs(0)).unwrap();
    let kept = failure(&tube, id);
    assert_eq!((kept.group, &*kept.message, kept.by), (None, "busy", None));
    assert_eq!(kept.at, Some(now + secs(1)));

    // QL-11: the consumer is kept also where no group is given.
    tube.by(&ada).take().unwrap().retry_after("no answer", secs(0)).unwrap();
    let kept = failure(&tube, id);
    assert_eq!((kept.group, &*kept.message), (None, "no answer"));
    assert_eq!(kept.by.as_deref(), Some("ada"));
}

#[test]
fn a_failure_stays_through_kicks_moves_and_an_opening() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().fail("address", "no such street").unwrap();
    let kept = failure(&tube, id);
    assert!(kept.at.is_some_and(|at| at > UNIX_EPOCH));
    tube.kick_task(id).unwrap();
    tube.take().unwrap().release_with(Release::new().priority(3).delay(secs(9))).unwrap();
    assert_eq!(failure(&tube, id), kept);
    tube.bury(id, "later").unwrap();
    queue.close().unwrap();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    assert_eq!(failure(&tube, id), kept);
    assert_eq!(groups(&tube), of([]), "a bury is no failure");
    let other = queue.tube("other").unwrap();
    tube.move_to(id, &other).apply().unwrap();
    assert_eq!(failure(&other, id), kept);
    close_sound(queue);
}

/// QL-11: a put again begins a new life, and what failed last is still known in it.
#[test]
fn a_failure_stays_through_a_put_again_and_goes_with_a_completion() {
    let kept_ones = TubeOptions::default().keep_finished(tubewell::Retention::new());
    let (tube, _) = lone_with(kept_ones);
    let id = tube.task(b"a").key("k").put().unwrap();
    tube.take().unwrap().fail("address", "no such street").unwrap();
    let kept = failure(&tube, id);
    assert_eq!(tube.task(b"b").key("k").must_exist().put().unwrap(), id);
    assert_eq!((failure(&tube, id), tube.peek(id).unwrap().attempts), (kept, 0));
    tube.take().unwrap().ack().unwrap();
    assert_eq!(tube.peek(id).unwrap().last_failure, None);
}

#[test]
fn an_exhausted_task_stands_in_its_group_or_in_that_of_its_tube() {
    let (tube, _) = lone_with(TubeOptions::default().max_attempts(2).backoff(Backoff::NONE));
    let own = tube.put(b"own").unwrap();
    tube.take().unwrap().retry_with(Retry::new("no route").group("network")).unwrap();
    // Without a word of the second attempt the first failure counts.
    drop(tube.take().unwrap());
    let reason = Reason::Exhausted { group: "network".into(), message: "no route".into() };
    assert_eq!(tube.peek(own).unwrap().reason, Some(reason));

    let silent = tube.put(b"silent").unwrap();
    (0..2).for_each(|_| drop(tube.take().unwrap()));
    assert_eq!(tube.peek(silent).unwrap().reason, Some(exhausted("")));

    // The last failure has no group.
    let other = tube.put(b"other").unwrap();
    tube.take().unwrap().retry_with(Retry::new("no route").group("network")).unwrap();
    tube.take().unwrap().retry_with(Retry::new("no name").group("")).unwrap();
    assert_eq!(tube.peek(other).unwrap().reason, Some(exhausted("no name")));
    assert_eq!(groups(&tube), of([("failed-retries-lone", 2), ("network", 1)]));
}

#[test]
fn a_count_moves_with_every_verb() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().max_attempts(3)).unwrap();
    let sound = || assert_eq!(queue.check().unwrap(), [""; 0]);
    let fail = |group: &str| {
        let id = tube.task(b"x").ttl(secs(1000)).put().unwrap();
        tube.claim(id).unwrap().fail(group, "no").unwrap();
        id
    };
    let a: Vec<_> = (0..6).map(|_| fail("a")).collect();
    let b = fail("b");
    assert_eq!(groups(&tube), of([("a", 6), ("b", 1)]));
    sound();
    tube.kick_task(a[0]).unwrap();
    tube.delete(a[1]).unwrap();
    assert_eq!(tube.claim(a[2]).unwrap().id(), a[2]);
    tube.update(a[3]).priority(7).apply().unwrap();
    assert_eq!(groups(&tube), of([("a", 3), ("b", 1)]));
    sound();
    tube.update(a[4]).ttl(secs(1)).apply().unwrap();
    clock.advance(secs(1));
    assert_eq!(groups(&tube), of([("a", 2), ("b", 1)]));
    tube.kick(1).unwrap();
    tube.delete(b).unwrap();
    assert_eq!(groups(&tube).values().sum::<u64>(), 1);
    sound();
    tube.truncate().unwrap();
    assert_eq!((groups(&tube), all_groups(&queue)), (of([]), vec![]));
    queue.tick().unwrap();
    sound();
}

#[test]
fn the_newest_failures_are_listed_first_over_pages_layers_and_the_base() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let mut failed = tube.put_many(tasks(900)).unwrap();
    for (at, id) in failed.iter().enumerate() {
        // Several fail at one time.
        if at % 3 == 0 {
            clock.advance(secs(1));
        }
        let group = if at % 5 == 4 { "other" } else { "mine" };
        assert!(tube.fail_by_id(*id, group, "no").unwrap());
        if at == 400 {
            queue.checkpoint().unwrap();
        }
    }
    // More than a page of the newest, and some of the oldest, leave in the layer above.
    let gone: Vec<_> = failed.splice(500..850, []).collect();
    assert_eq!(tube.delete_many(&gone).unwrap(), 350);
    let gone: Vec<_> = failed.splice(20..40, []).collect();
    assert_eq!(tube.delete_many(&gone).unwrap(), 20);
    let order = |group: &str| {
        let mut tasks: Vec<TaskId> = Vec::new();
        for state in [State::Buried] {
            for task in tube.summaries(state).map(Result::unwrap) {
                let failed_in = task.last_failure.as_ref().unwrap().group.as_deref();
                tasks.extend((failed_in == Some(group)).then_some(task.id));
            }
        }
        // They were failed in the order of their ids.
        tasks.sort_unstable();
        tasks.reverse();
        tasks
    };
    for _ in 0..2 {
        for group in ["mine", "other"] {
            assert_eq!(ids(tube.failed(group)), order(group));
            assert_eq!(ids(queue.failed(group)), order(group));
            assert_eq!(groups(&tube)[group], order(group).len() as u64);
        }
        queue.checkpoint().unwrap();
    }
    assert_eq!(ids(tube.failed("none")), []);
    close_sound(queue);
}

#[test]
fn a_listing_goes_on_while_its_tasks_leave() {
    let (tube, clock) = lone();
    let ids = tube.put_many(tasks(600)).unwrap();
    for id in &ids {
        clock.advance(secs(1));
        tube.fail_by_id(*id, "g", "no").unwrap();
    }
    let mut listing = tube.failed("g");
    let next = |listing: &mut tubewell::NewestFirst| listing.next().map(|task| task.unwrap().id);
    assert_eq!(next(&mut listing), Some(ids[599]));
    // In the page that was read, and in the one after it.
    tube.delete_many(&ids[100..598]).unwrap();
    assert_eq!(next(&mut listing), Some(ids[598]));
    assert_eq!(next(&mut listing), Some(ids[99]));
    tube.truncate().unwrap();
    assert_eq!(next(&mut listing), None);
}

#[test]
fn groups_of_all_tubes_are_added_and_listed_together() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = TubeOptions::default().temporary(true);
    let tubes = [
        queue.tube("a").unwrap(),
        queue.create_tube("memory", options).unwrap(),
        queue.tube("dropped").unwrap(),
    ];
    let mut failed = Vec::new();
    for round in 0..4 {
        for (at, tube) in tubes.iter().enumerate() {
            clock.advance(secs(1));
            let id = tube.put(format!("{round}{at}").as_bytes()).unwrap();
            tube.take().unwrap().fail("g", "no").unwrap();
            failed.push((at, id));
        }
    }
    assert_eq!(all_groups(&queue), [("g".to_owned(), 12)]);
    queue.force_drop_tube("dropped").unwrap();
    failed.retain(|(at, _)| *at != 2);
    let newest: Vec<_> = failed.iter().rev().map(|(_, id)| *id).collect();
    assert_eq!(ids(queue.failed("g")), newest);
    assert_eq!(all_groups(&queue), [("g".to_owned(), 8)]);

    // The oldest of all tubes come back first, each in its tube.
    assert_eq!(queue.unfail("g", 3).unwrap().kicked, 3);
    assert_eq!((drain(&tubes[0]), drain(&tubes[1])), ("00 10".into(), "01".into()));
    assert_eq!(queue.unfail("g", u64::MAX).unwrap().kicked, 5);
    assert_eq!((queue.unfail("g", 9).unwrap().kicked, all_groups(&queue)), (0, vec![]));
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn the_oldest_of_a_group_come_back_first() {
    let (tube, clock) = lone();
    let failed = tube.put_many(tasks(200)).unwrap();
    // The last one put fails first.
    for id in failed.iter().rev() {
        clock.advance(secs(1));
        tube.fail_by_id(*id, "g", "no").unwrap();
    }
    let aside = tube.put(b"aside").unwrap();
    tube.fail_by_id(aside, "other", "no").unwrap();
    assert_eq!(tube.unfail("g", 130).unwrap().kicked, 130);
    let back: Vec<_> = tube.summaries(State::Ready).map(|task| task.unwrap().id).collect();
    assert_eq!(back, failed[70..]);
    assert_eq!(tube.unfail("g", 0).unwrap().kicked, 0);
    assert_eq!(tube.unfail("g", u64::MAX).unwrap().kicked, 70);
    assert_eq!((tube.unfail("g", 1).unwrap().kicked, counts(&tube)), (0, [200, 0, 0, 1]));
    let first = tube.take().unwrap();
    assert_eq!((first.attempt(), first.deliveries()), (1, 1));
}

#[test]
fn chosen_tasks_are_kicked() {
    let (tube, _) = lone();
    let buried = tube.put_many(tasks(300)).unwrap();
    for id in &buried {
        if id.get() % 2 == 0 {
            tube.bury(*id, "even").unwrap();
        } else {
            tube.fail_by_id(*id, "odd", "no").unwrap();
        }
    }
    let even = |task: &TaskSummary| matches!(&task.reason, Some(Reason::Buried(_)));
    assert_eq!(tube.kick_where(100, even).unwrap().kicked, 100);
    assert_eq!(tube.kick_where(100, even).unwrap().kicked, 50);
    assert_eq!(tube.kick_where(100, even).unwrap().kicked, 0);
    let one =
        tube.kick_where(u64::MAX, |task| task.id == buried[200] && last_error(task) == Some("no"));
    assert_eq!((one.unwrap().kicked, counts(&tube)), (1, [151, 0, 0, 149]));
}

#[test]
fn a_group_is_cut_at_its_bound_and_any_text_names_one() {
    let (tube, _) = lone_with(TubeOptions::default().max_attempts(1));
    let long = "é".repeat(200);
    let cut = "é".repeat(135);
    for name in [&*long, "", "with: any/separator\0\n日本"] {
        tube.put(b"x").unwrap();
        tube.take().unwrap().fail(name, "no").unwrap();
    }
    tube.put(b"x").unwrap();
    tube.take().unwrap().retry_with(Retry::new("no").group(&*long)).unwrap();
    assert_eq!(groups(&tube), of([(&cut, 2), ("", 1), ("with: any/separator\0\n日本", 1)]));
    assert_eq!(ids(tube.failed(&cut)).len(), 2);
    assert_eq!(tube.unfail("", 9).unwrap().kicked, 1);

    let many = tube.put_many(tasks(1000)).unwrap();
    for (at, id) in many.iter().enumerate() {
        tube.fail_by_id(*id, format!("{at:04}"), "no").unwrap();
    }
    let names: Vec<_> = tube.failure_groups().unwrap().into_iter().map(|it| it.group).collect();
    assert_eq!((names.len(), names.contains(&"0999".into())), (1002, true));
}

/// A version before this one wrote no counts. The first verb that needs one counts the tasks.
#[test]
fn a_group_without_a_count_is_counted_when_it_is_needed() {
    let (queue, _, _home) = golden::opened("closed");
    let tube = queue.tube("lines").unwrap();
    let stood = of([("timeouts", 1)]);
    assert_eq!(groups(&tube), stood);
    let id = tube.put(b"another").unwrap();
    tube.fail_by_id(id, "timeouts", "no").unwrap();
    assert_eq!(groups(&tube), of([("timeouts", 2)]));
    assert_eq!(tube.unfail("timeouts", 1).unwrap().kicked, 1);
    assert_eq!(groups(&tube), stood);
    assert_eq!(tube.unfail("timeouts", 9).unwrap().kicked, 1);
    assert_eq!((groups(&tube), queue.check().unwrap()), (of([]), vec![]));

    let (queue, _, _home) = golden::opened("closed");
    let tube = queue.tube("lines").unwrap();
    let id = tube.failed("timeouts").next().unwrap().unwrap().id;
    tube.delete(id).unwrap();
    assert_eq!((groups(&tube), queue.check().unwrap()), (of([]), vec![]));
}

/// It began again after each error, without an end.
#[test]
fn a_listing_of_a_dropped_tube_ends_after_its_error() {
    let (builder, _) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    queue.drop_tube("t").unwrap();
    assert_eq!((tube.failed("g").count(), tube.tasks(State::Buried).count()), (1, 1));
}

/// Two workers fail what comes back at once: it was kicked again and again.
#[test]
fn what_fails_again_meanwhile_is_left() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    for id in tube.put_many(tasks(500)).unwrap() {
        tube.fail_by_id(id, "g", "no").unwrap();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if let Some(task) = tube.try_take().unwrap() {
                        task.fail("g", "again").unwrap();
                    }
                }
            });
        }
        let kicked = [queue.unfail("g", u64::MAX), tube.unfail("g", u64::MAX)];
        stop.store(true, Ordering::Relaxed);
        assert!(kicked.into_iter().all(|done| done.unwrap().kicked <= 500));
    });
}

/// A task that was listed in one group was kicked after it had failed in another.
#[test]
fn what_fails_in_another_group_meanwhile_is_left() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"x").unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                queue.unfail("a", 1).unwrap();
            }
        });
        let mut is_buried = true;
        for _ in 0..300 {
            tube.claim(id).unwrap().fail("a", "no").unwrap();
            tube.claim(id).unwrap().fail("b", "no").unwrap();
            (0..20).for_each(|_| thread::yield_now());
            is_buried &= tube.peek(id).unwrap().state == State::Buried;
        }
        stop.store(true, Ordering::Relaxed);
        assert!(is_buried);
    });
}

/// The call ended with an error, each time.
#[test]
fn a_damaged_index_key_stops_no_unfail() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let ids = tube.put_many(tasks(4)).unwrap();
    for id in &ids {
        tube.fail_by_id(*id, "the group", "no").unwrap();
    }
    close_sound(queue);
    // The id at the end of the second task's row under the tag of failure groups.
    let (file, mut key) = (path.join("base.redb"), vec![0x1d, 0, 0, 0, 1, 0, 9]);
    key.extend(b"the group");
    let mut bytes = fs::read(&file).unwrap();
    let id = ids[1].get().to_be_bytes();
    let is_row = |at: &usize| bytes[*at..].starts_with(&key) && bytes[at + 24..at + 32] == id;
    let at: Vec<_> = (0..bytes.len() - 32).filter(is_row).collect();
    assert!(!at.is_empty());
    at.iter().for_each(|at| bytes[at + 31] ^= 0x20);
    fs::write(file, bytes).unwrap();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    // Its key is not in order, so the walk may pass by others.
    let kicked = tube.unfail("the group", 9).unwrap().kicked;
    assert!((1..4).contains(&kicked));
    assert_eq!((tube.kick(9).unwrap().kicked, counts(&tube)), (4 - kicked, [4, 0, 0, 0]));
}

/// Regression: those of one tube came in the order of the lengths of their names.
#[test]
fn groups_are_listed_by_name() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    for group in ["b", "aa", "c", "abc"] {
        tube.put(b"x").unwrap();
        tube.take().unwrap().fail(group, "no").unwrap();
    }
    for groups in [queue.failure_groups().unwrap(), tube.failure_groups().unwrap()] {
        let names: Vec<_> = groups.iter().map(|group| &group.group[..]).collect();
        assert_eq!(names, ["aa", "abc", "b", "c"]);
    }
}
