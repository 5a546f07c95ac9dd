//! A walk reads no more rows than it is asked for, and goes on while they change.

use super::Listing;
use crate::words::limits::{PAGE_BYTES, PAGE_TASKS};
use crate::{Filter, ManualClock, Queue, State, TaskId, Tube, TubeOptions};
use std::time::Duration;

/// Also where more rows fit into a page.
#[test]
fn no_more_rows_are_read_than_tasks_are_asked_for() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put_many(vec![&b"x"[..]; 100]).unwrap();
    for group in 0..100 {
        tube.task(b"x").priority(1).group(&group.to_string()).put().unwrap();
    }
    let held = tube.take_many(20).unwrap();
    held.into_iter().for_each(|task| task.release().unwrap());
    let mut listing = Listing::of_takeable(tube.number, 3);
    listing.next_info(&tube.inner.core).unwrap().unwrap();
    let left = listing.lanes.iter().map(|lane| lane.page.len());
    assert_eq!(left.collect::<Vec<_>>(), [2, 3, 3], "of those released, fresh, and in groups");
}

/// Each page of plain tasks looked for the rows of tracked ids, of which there were none, and so
/// read twice.
#[test]
fn a_page_of_plain_tasks_reads_no_row_beside_them() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let ids = tube.put_many(vec![&b"x"[..]; 300]).unwrap();
    let asked = || {
        let mut listing = Listing::new(tube.number, State::Ready);
        let mut tracked = Vec::new();
        for _ in 0..PAGE_TASKS {
            let task = listing.next_summary(&tube.inner.core).unwrap().unwrap();
            tracked.extend(task.tracked.then_some(task.id));
        }
        (tracked, listing.lanes.iter().map(|lane| lane.rows.asked()).sum::<usize>())
    };
    assert_eq!(asked(), (vec![], 0));
    queue.track(ids[7]).unwrap();
    assert_eq!(asked(), (vec![ids[7]], PAGE_TASKS));
    queue.untrack(ids[7]).unwrap();
    assert_eq!(asked(), (vec![], 0));
}

/// A listing goes on over a checkpoint, and shows what has come and what has gone since.
#[test]
fn a_listing_goes_on_over_layers_that_change() {
    for options in [TubeOptions::default(), TubeOptions::default().temporary(true)] {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let tube = queue.create_tube("t", options).unwrap();
        let payload = |number: u32| number.to_string().repeat(600).into_bytes();
        let ids = tube.put_many((0..700).map(payload).collect::<Vec<_>>()).unwrap();
        queue.checkpoint().unwrap();
        let core = &tube.inner.core;
        let mut listing = Listing::new(tube.number, State::Ready);
        let first = listing.next_info(core).unwrap().unwrap();
        assert_eq!((first.id, first.payload), (ids[0], payload(0)));
        // Of the first the page has the task's row and not yet its payload.
        tube.delete(ids[200]).unwrap();
        tube.delete(ids[600]).unwrap();
        let mut checkpoint = core.state.lock().store.freeze().unwrap();
        tube.delete(ids[601]).unwrap();
        let late = tube.put(b"late").unwrap();
        let mut seen = Vec::new();
        while let Some(task) = listing.next_info(core).unwrap() {
            if seen.len() == 300 {
                // Rows of temporary tubes are in no checkpoint.
                if let Some(checkpoint) = checkpoint.take() {
                    let renewed = checkpoint.run(None).ok().unwrap();
                    drop(core.state.lock().store.renew(renewed));
                }
                tube.delete(ids[690]).unwrap();
            }
            seen.push(task.id);
        }
        let gone = [0, 200, 600, 601, 690].map(|at| ids[at]);
        let mut wanted: Vec<_> = ids.iter().copied().filter(|id| !gone.contains(id)).collect();
        wanted.push(late);
        assert_eq!(seen, wanted);
    }
}

/// A walk that moved each deadline which it met on did not end: each came again after the others.
#[test]
fn a_walk_that_moves_deadlines_on_ends() {
    const TASKS: usize = 300;
    for state in [State::Taken, State::Delayed] {
        let clock = ManualClock::new();
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        let day = Duration::from_secs(86_400);
        for _ in 0..TASKS {
            match state {
                State::Taken => tube.task(b"x").ttr(day).put().unwrap(),
                _ => tube.task(b"x").delay(day).put().unwrap(),
            };
        }
        tube.take_many(TASKS).unwrap().into_iter().for_each(|task| _ = task.detach());
        let moves_on = |tube: &Tube, id: TaskId| {
            clock.advance(Duration::from_secs(1));
            match state {
                State::Taken => tube.update(id).ttr(day).apply().unwrap(),
                _ => tube.update(id).delay(day).apply().unwrap(),
            }
        };
        let mut seen = Vec::new();
        for task in tube.summaries(state).take(3 * TASKS) {
            let id = task.unwrap().id;
            moves_on(&tube, id);
            seen.push(id);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), TASKS, "{state:?}: each once");
        let (mut found, mut from) = (0, None);
        loop {
            let page = tube.search(&Filter::new().state(state), from.as_ref(), 64).unwrap();
            page.tasks.iter().for_each(|task| moves_on(&tube, task.id));
            found += page.tasks.len();
            from = page.next;
            if from.is_none() || found > 3 * TASKS {
                break;
            }
        }
        assert_eq!(found, TASKS, "{state:?}: a search");
    }
}

/// Also a page of rows of the base, of which nothing is copied under the engine's lock: that copy
/// has bounds of its own.
#[test]
fn a_page_of_the_base_is_bounded_in_tasks_and_in_bytes() {
    const INLINE: usize = 3000;
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    for (payload, most) in [(1, PAGE_TASKS), (INLINE, PAGE_BYTES.div_ceil(INLINE))] {
        let tube = queue.tube(&payload.to_string()).unwrap();
        tube.put_many(vec![vec![7; payload]; 1000]).unwrap();
        queue.checkpoint().unwrap();
        let mut listing = Listing::new(tube.number, State::Ready);
        listing.next_summary(&tube.inner.core).unwrap().unwrap();
        let left: usize = listing.lanes.iter().map(|lane| lane.page.len()).sum();
        assert!(left < most && left > most / 2, "{left} left of a page, with {payload} bytes each");
        assert_eq!(tube.summaries(State::Ready).count(), 1000);
    }
}
