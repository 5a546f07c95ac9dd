//! Reads that change nothing.

use crate::{counts, kind, listed, lone, secs, still, until};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::mpsc::{TryRecvError, channel};
use std::thread;
use tubewell::{ErrorKind, Filter, Stage, State, Stop, TaskId, TubeOptions};

#[test]
fn the_total_is_all_but_the_done() {
    let (tube, _) = lone();
    let ids = tube.put_many((0..6).map(|_| b"x".to_vec())).unwrap();
    tube.task(b"x").delay(secs(1)).put().unwrap();
    tube.take().unwrap().ack().unwrap();
    tube.delete(ids[1]).unwrap();
    tube.bury(ids[2], "").unwrap();
    let _task = tube.take().unwrap();
    let stats = tube.stats().unwrap();
    assert_eq!((stats.ready, stats.delayed, stats.taken, stats.buried), (2, 1, 1, 1));
    assert_eq!((stats.total, stats.done), (5, 2), "an ack and a delete are done");
}

#[test]
fn every_verb_is_counted_once() {
    let (tube, clock) = lone();
    let ids = tube.put_many((0..4).map(|_| b"x".to_vec())).unwrap();
    let task = tube.take().unwrap();
    task.touch(secs(1)).unwrap();
    task.ack().unwrap();
    tube.take().unwrap().release().unwrap();
    tube.take().unwrap().retry_after("no", secs(1)).unwrap();
    clock.advance(secs(1));
    drop(tube.take().unwrap());
    tube.take().unwrap().bury("no").unwrap();
    assert_eq!(tube.kick(9).unwrap().kicked, 1);
    tube.delete(ids[3]).unwrap();
    tube.task(b"x").ttl(secs(1)).put().unwrap();
    tube.task(b"x").priority(-1).ttr(secs(1)).put().unwrap();
    tube.take().unwrap().detach();
    assert!(tube.try_take().unwrap().is_some_and(|task| task.release().is_ok()));
    clock.advance(secs(1));
    let calls = tube.stats().unwrap().calls;
    assert_eq!((calls.put, calls.take, calls.touch, calls.ack), (6, 7, 1, 1));
    assert_eq!((calls.release, calls.retry, calls.bury, calls.kick), (2, 1, 1, 1));
    assert_eq!((calls.delete, calls.delay, calls.ttl, calls.ttr, calls.lost), (1, 1, 1, 1, 1));
}

#[test]
fn a_take_that_finds_nothing_is_not_counted() {
    let (tube, _) = lone();
    assert!(tube.try_take().unwrap().is_none());
    assert_eq!(tube.stats().unwrap().calls.take, 0);
}

#[test]
fn calls_count_from_the_opening_and_tasks_do_not() {
    let (_home, path) = crate::home();
    let queue = crate::open(&path);
    let tube = queue.tube("t").unwrap();
    tube.put_many((0..3).map(|_| b"x".to_vec())).unwrap();
    tube.take().unwrap().ack().unwrap();
    drop(tube);
    crate::close_sound(queue);
    let stats = crate::open(&path).tube("t").unwrap().stats().unwrap();
    assert_eq!((stats.ready, stats.done, stats.calls.put), (2, 0, 0));
}

#[test]
fn one_read_returns_the_counts_of_all_tubes() {
    let queue = still().0.in_memory().unwrap();
    queue.tube("a").unwrap().put(b"x").unwrap();
    queue.tube("b").unwrap();
    let stats = queue.stats().unwrap();
    let reported: Vec<_> = stats.iter().map(|stats| (stats.tube.as_str(), stats.total)).collect();
    assert_eq!(reported, [("a", 1), ("b", 0)]);
}

/// Regression: each tube was read by itself: a task that moved from one to the next was counted
/// twice, or not at all.
#[test]
fn a_task_that_goes_from_tube_to_tube_is_counted_once() {
    let queue = still().0.in_memory().unwrap();
    let [a, b] = ["a", "b"].map(|name| queue.tube(name).unwrap());
    a.put(b"x").unwrap();
    let (done, is_done) = channel::<()>();
    thread::scope(|scope| {
        let (a, b, queue) = (&a, &b, &queue);
        scope.spawn(move || {
            for (from, to) in [(a, b), (b, a)].into_iter().cycle() {
                // Also when the other one has failed.
                if is_done.try_recv() == Err(TryRecvError::Disconnected) {
                    break;
                }
                let task = from.try_take().unwrap().unwrap();
                let moved = queue.transact(|tx| {
                    tx.ack(&task)?;
                    to.put_in(tx, b"x")
                });
                moved.unwrap();
            }
        });
        for look in 0..2_000 {
            let stats = queue.stats().unwrap();
            let tasks: u64 = stats.iter().map(|stats| stats.total).sum();
            let calls = stats.iter().map(|stats| stats.calls);
            let (put, gone) = calls.fold((0, 0), |sum, tube| (sum.0 + tube.put, sum.1 + tube.ack));
            assert_eq!((tasks, put - gone), (1, 1), "look {look}");
        }
        drop(done);
    });
}

#[test]
fn tasks_are_listed_by_state() {
    let (tube, _) = lone();
    tube.put_many((0..10).map(|at| at.to_string().into_bytes())).unwrap();
    let _tasks = tube.take_many(4).unwrap();
    assert_eq!(listed(&tube, State::Ready), "4 5 6 7 8 9");
    assert_eq!(listed(&tube, State::Taken), "0 1 2 3");
    assert_eq!(listed(&tube, State::Buried), "");
}

#[test]
fn a_listing_goes_over_many_pages() {
    let (tube, _) = lone();
    let ids: BTreeSet<_> =
        tube.put_many((0..700).map(|_| b"x".to_vec())).unwrap().into_iter().collect();
    for group in ["g", "h"] {
        for _ in 0..150 {
            tube.task(b"x").group(group).put().unwrap();
        }
    }
    let listed: Vec<_> = tube.tasks(State::Ready).map(|task| task.unwrap().id).collect();
    assert_eq!(listed.len(), 1000);
    let listed: BTreeSet<_> = listed.into_iter().collect();
    assert!(listed.len() == 1000 && ids.is_subset(&listed));
}

#[test]
fn a_listing_skips_what_has_gone() {
    let (tube, _) = lone();
    let ids = tube.put_many((0..600).map(|_| b"x".to_vec())).unwrap();
    let mut listing = tube.tasks(State::Ready);
    listing.next().unwrap().unwrap();
    for id in &ids[300..] {
        tube.delete(*id).unwrap();
    }
    let left: Vec<_> = listing.map(|task| task.unwrap().id).collect();
    assert_eq!(left, ids[1..300]);
}

#[test]
fn peek_next_returns_the_next_task_of_each_state() {
    let (tube, _) = lone();
    for state in [State::Ready, State::Delayed, State::Taken, State::Buried] {
        assert!(tube.peek_next(state).unwrap().is_none());
    }
    tube.task(b"later").delay(secs(9)).put().unwrap();
    let sooner = tube.task(b"sooner").delay(secs(1)).put().unwrap();
    tube.put(b"b").unwrap();
    let first = tube.task(b"a").priority(-1).put().unwrap();
    assert_eq!(tube.peek_next(State::Delayed).unwrap().unwrap().id, sooner);
    assert_eq!(tube.peek_next(State::Ready).unwrap().unwrap().id, first);
    assert_eq!(counts(&tube), [2, 2, 0, 0], "nothing moved");
}

#[test]
fn peek_changes_nothing() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    let before = format!("{:?}", tube.peek(id).unwrap());
    assert_eq!(format!("{:?}", tube.peek(id).unwrap()), before);
    assert_eq!(tube.peek(id).unwrap().deliveries, 0);
}

#[test]
fn waiters_and_taken_tasks_are_listed() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let ada = queue.consumer("ada").unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    clock.advance(secs(3));
    let taken = queue.taken().unwrap();
    assert_eq!((taken[0].tube.as_str(), taken[0].id, taken[0].held_for), ("t", id, secs(3)));
    assert_eq!(taken[0].holder, None);

    let waiting = thread::spawn({
        let tube = tube.by(&ada);
        move || tube.take_timeout(secs(60)).unwrap().map(|task| task.ack())
    });
    crate::until_waiting(&tube, 1);
    clock.advance(secs(2));
    let waiters = queue.waiters().unwrap();
    assert_eq!(waiters.len(), 1);
    assert_eq!((waiters[0].tube.as_str(), waiters[0].consumer.as_deref()), ("t", Some("ada")));
    assert_eq!((waiters[0].waiting_for, waiters[0].left), (secs(2), Some(secs(58))));
    task.release().unwrap();
    waiting.join().unwrap().unwrap().unwrap();
    assert!(queue.waiters().unwrap().is_empty());
    assert!(queue.taken().unwrap().is_empty());
}

#[test]
fn taken_tasks_are_listed_over_many_pages_by_tube_and_id() {
    let queue = still().0.in_memory().unwrap();
    let mut wanted = Vec::new();
    let mut held = Vec::new();
    for (name, count) in [("b", 600), ("none", 0), ("a", 256), ("c", 1)] {
        let tube = queue.tube(name).unwrap();
        tube.put(b"ready").unwrap();
        // The last put is taken first, so that ids are not in the order of taking.
        for _ in 0..count {
            wanted.push((name.to_owned(), tube.put_front(b"x").unwrap()));
        }
        held.extend(tube.take_many(count).unwrap());
    }
    let reported = || queue.taken().unwrap().into_iter().map(|task| (task.tube, task.id));
    assert_eq!(reported().collect::<Vec<_>>(), wanted);
    held.remove(300).ack().unwrap();
    assert_eq!((reported().count(), reported().collect::<BTreeSet<_>>().len()), (856, 856));
}

#[test]
fn waiters_are_listed_by_how_long_they_wait() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let (late, early) = (queue.tube("late").unwrap(), queue.tube("early").unwrap());
    thread::scope(|threads| {
        threads.spawn(|| early.take().unwrap().ack().unwrap());
        crate::until_waiting(&early, 1);
        clock.advance(secs(2));
        threads.spawn(|| late.take_timeout(secs(60)).unwrap().unwrap().ack().unwrap());
        crate::until_waiting(&late, 1);
        clock.advance(secs(3));
        let waiters = queue.waiters().unwrap();
        let reported: Vec<_> = waiters
            .iter()
            .map(|waiter| (waiter.tube.as_str(), waiter.waiting_for, waiter.left))
            .collect();
        early.put(b"x").unwrap();
        late.put(b"x").unwrap();
        assert_eq!(reported, [("early", secs(5), None), ("late", secs(3), Some(secs(57)))]);
        assert!(waiters.iter().all(|waiter| waiter.consumer.is_none()));
    });
    assert!(queue.waiters().unwrap().is_empty());
}

#[test]
fn a_take_that_waits_until_it_is_stopped_is_listed_until_then() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let (tube, ada) = (queue.tube("t").unwrap(), queue.consumer("ada").unwrap());
    let stop = Stop::new();
    let waiting = thread::spawn({
        let (tube, stop) = (tube.by(&ada), stop.clone());
        move || tube.take_until(&stop).unwrap().is_none()
    });
    crate::until_waiting(&tube, 1);
    clock.advance(secs(7));
    let waiters = queue.waiters().unwrap();
    assert_eq!(waiters.len(), 1);
    assert_eq!((waiters[0].tube.as_str(), waiters[0].consumer.as_deref()), ("t", Some("ada")));
    assert_eq!((waiters[0].waiting_for, waiters[0].left), (secs(7), None));
    stop.stop();
    assert!(waiting.join().unwrap());
    assert!(queue.waiters().unwrap().is_empty());
}

#[test]
fn info_has_options_pause_and_waiters() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().priority(4)).unwrap();
    tube.pause().unwrap();
    let info = tube.info().unwrap();
    assert_eq!(
        (info.name.as_str(), info.paused, info.temporary, info.waiters),
        ("t", true, false, 0)
    );
    assert_eq!(info.options, TubeOptions::default().priority(4));
    assert_eq!(info.stats, tube.stats().unwrap());
}

#[test]
fn an_overview_has_every_tube_with_its_pause_and_its_waiters() {
    let queue = still().0.in_memory().unwrap();
    let busy = queue.create_tube("busy", TubeOptions::default().capacity(9)).unwrap();
    let empty = queue.tube("empty").unwrap();
    busy.put(b"a").unwrap();
    busy.task(b"b").delay(secs(5)).put().unwrap();
    let online = queue.create_tube("online", TubeOptions::default().require("online")).unwrap();
    let ids = online.put_many([*b"c", *b"d", *b"e"]).unwrap();
    online.task(b"f").after([ids[0]]).put().unwrap();
    online.bury(ids[2], "no").unwrap();
    busy.pause_for(secs(7)).unwrap();
    let stop = Stop::new();
    thread::scope(|threads| {
        threads.spawn(|| empty.take_until(&stop).unwrap());
        until(|| empty.info().unwrap().waiters == 1);
        let tubes = queue.overview().unwrap();
        let lines: Vec<_> = tubes
            .iter()
            .map(|tube| (&*tube.name, tube.stats.total, tube.pause_left, tube.waiters))
            .collect();
        assert_eq!(
            lines,
            [("busy", 2, Some(secs(7)), 0), ("empty", 0, None, 1), ("online", 4, None, 0)]
        );
        let of = tubes[2].stats.clone();
        assert_eq!((of.limited, of.ready, of.buried, of.blocked), (2, 2, 1, 1));
        assert_eq!(tubes[0].options, TubeOptions::default().capacity(9));
        let stats: Vec<_> = tubes.into_iter().map(|tube| tube.stats).collect();
        assert_eq!(stats, queue.stats().unwrap());
        stop.stop();
    });
}

#[test]
fn a_dropped_tube_has_no_statistics() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    queue.drop_tube("t").unwrap();
    assert_eq!(kind(tube.stats()), ErrorKind::TubeNotFound);
    assert!(queue.stats().unwrap().is_empty());
}

#[test]
fn a_sound_queue_has_nothing_to_report() {
    let (_home, path) = crate::home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    for number in 0..200_u32 {
        let payload = number.to_be_bytes();
        let put = tube.task(&payload).priority(i64::from(number % 3)).ttl(secs(100)).ttr(secs(9));
        let put = if number % 2 == 0 { put.group("g") } else { put };
        let put = if number % 5 == 0 { put.delay(secs(5)) } else { put };
        put.put().unwrap();
    }
    let tasks = tube.take_many(20).unwrap();
    for (at, task) in tasks.into_iter().enumerate() {
        match at % 4 {
            0 => task.ack().unwrap(),
            1 => task.bury("no").unwrap(),
            2 => task.retry("no").unwrap(),
            _ => drop(task.detach()),
        }
    }
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    queue.checkpoint().unwrap();
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    clock.advance(secs(10));
    queue.tick().unwrap();
    crate::close_sound(queue);
}

/// No read holds the base between two calls, which would keep its old pages and stop a compaction.
#[test]
fn a_listing_and_a_search_that_are_begun_stop_no_compaction() {
    let (_home, path) = crate::home();
    let queue = crate::open(&path);
    let tube = queue.tube("t").unwrap();
    let ids = tube.put_many((0..2000).map(|_| vec![7; 2000])).unwrap();
    queue.checkpoint().unwrap();
    let mut listing = tube.tasks(State::Ready);
    assert_eq!(listing.next().unwrap().unwrap().id, ids[0]);
    let mut found = queue.find_many(ids.clone());
    assert_eq!(found.next().unwrap().unwrap().id, ids[0]);
    let filter = Filter::new().state(State::Ready);
    let page = tube.search(&filter, None, 10).unwrap();
    for id in &ids[..1900] {
        tube.delete(*id).unwrap();
    }
    queue.checkpoint().unwrap();
    let full = std::fs::metadata(path.join("base.redb")).unwrap().len();
    queue.compact().unwrap();
    let rest = std::fs::metadata(path.join("base.redb")).unwrap().len();
    assert!(rest < full / 4, "{full} {rest}");
    let left: Vec<_> = ids[1900..].to_vec();
    let of_the_rest = |id: &TaskId| left.contains(id);
    let listed: Vec<_> = listing.map(|task| task.unwrap().id).filter(of_the_rest).collect();
    assert_eq!(listed, left);
    let found: Vec<_> = found.map(|task| task.unwrap().id).filter(of_the_rest).collect();
    assert_eq!(found, left);
    let page = tube.search(&filter, page.next.as_ref(), 1000).unwrap();
    assert_eq!(page.tasks.iter().map(|task| task.id).collect::<Vec<_>>(), left);
}

#[test]
fn space_shrinks_by_compaction() {
    let (_home, path) = crate::home();
    let queue = crate::open(&path);
    let tube = queue.tube("t").unwrap();
    tube.put_many((0..2000).map(|_| vec![7; 2000])).unwrap();
    queue.checkpoint().unwrap();
    let size = || std::fs::metadata(path.join("base.redb")).unwrap().len();
    let full = size();
    let base = queue.base_space().unwrap();
    assert_eq!((base.bytes, base.live_bytes + base.dead_bytes), (full, full));
    assert!(base.live_bytes > 2000 * 2000 && base.rows > 2000, "{base:?}");
    tube.truncate().unwrap();
    queue.tick().unwrap();
    queue.checkpoint().unwrap();
    let base = queue.base_space().unwrap();
    assert!(base.live_bytes < 10_000 && base.rows < 20, "{base:?}");
    let mut reported = Vec::new();
    let stopped = queue.compact_with(|progress| {
        assert_eq!((progress.stage, progress.total), (Stage::Compact, full));
        reported.push(progress.done);
        ControlFlow::Break(())
    });
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(reported, [full - size()], "stopped after the first round, whose work is kept");
    // Regression: it was called with the engine's lock held, and waited for itself.
    tube.put_many((0..2000).map(|_| vec![7; 2000])).unwrap();
    queue.checkpoint().unwrap();
    tube.truncate().unwrap();
    queue.tick().unwrap();
    let mut rounds = 0;
    let all = queue.compact_with(|progress| {
        rounds += 1;
        assert!(progress.done > 0 && queue.space().unwrap().base_bytes == size());
        ControlFlow::Continue(())
    });
    all.unwrap();
    assert!(rounds > 0 && size() * 4 < full, "{} of {full}", size());
    assert_eq!(queue.space().unwrap().base_bytes, size());
    crate::close_sound(queue);
}

#[test]
fn space_counts_what_goes_to_the_disk() {
    let (_home, path) = crate::home();
    let queue = crate::open(&path);
    let tube = queue.tube("t").unwrap();
    let before = queue.space().unwrap();
    assert_eq!((before.tasks_put, before.written_per_task()), (0, None));
    for _ in 0..10 {
        tube.put(&[7; 300]).unwrap();
    }
    let after = queue.space().unwrap();
    assert_eq!((after.tasks_put, after.checkpoints), (10, before.checkpoints));
    assert!(after.syncs >= before.syncs + 10, "each put is synced");
    let written = after.written_bytes - before.written_bytes;
    assert!((3000..10_000).contains(&written), "{written}");
    assert_eq!(after.written_per_task(), Some(after.written_bytes / 10));
    queue.checkpoint().unwrap();
    let moved = queue.space().unwrap();
    assert_eq!(moved.checkpoints, after.checkpoints + 1);
    assert!(moved.syncs > after.syncs && moved.written_bytes > after.written_bytes);
    crate::close_sound(queue);
}

#[test]
fn a_task_is_found_whatever_its_tube_and_state() {
    let queue = still().0.in_memory().unwrap();
    let tubes: Vec<_> = (0..100).map(|number| queue.tube(&number.to_string()).unwrap()).collect();
    let ids: Vec<_> = tubes.iter().map(|tube| tube.put(tube.name().as_bytes()).unwrap()).collect();
    tubes[40].bury(ids[40], "no").unwrap();
    tubes[41].take().unwrap().detach();
    tubes[42].update(ids[42]).delay(secs(9)).apply().unwrap();
    for (tube, id) in tubes.iter().zip(&ids) {
        let task = queue.find(*id).unwrap();
        assert_eq!(
            (task.id, &*task.tube, &task.payload[..]),
            (*id, tube.name(), tube.name().as_bytes())
        );
    }
    tubes[50].delete(ids[50]).unwrap();
    for gone in [ids[50], TaskId::new(0), TaskId::new(9_999_999), TaskId::new(u64::MAX)] {
        let error = queue.find(gone).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TaskNotFound);
        assert_eq!(error.to_string(), format!("find task {gone}: no such task (in any tube)"));
    }
}

#[test]
fn ages_and_times_to_go_are_durations() {
    let (tube, clock) = crate::lone();
    let id = tube.task(b"a").delay(secs(10)).put().unwrap();
    clock.advance(secs(4));
    let task = tube.peek(id).unwrap();
    assert_eq!((task.age, task.delay_left), (secs(4), Some(secs(6))));
    clock.advance(secs(6));
    let task = tube.take().unwrap();
    assert_eq!(task.age(), secs(10));
    assert_eq!(tube.peek(id).unwrap().delay_left, None);
}
