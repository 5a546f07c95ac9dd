//! Many failed tasks go to another tube: the oldest first, in bounded steps, with those named that
//! clash with a key there.

use crate::moves::Last;
use crate::{close_sound, counts, drain, home, kind, secs, still};
use std::thread;
use tubewell::{Clock, ErrorKind, Queue, Result, State, TaskId, Tube, TubeKind, TubeOptions};

/// Puts a task and fails it in the group "g".
fn failed(tube: &Tube, payload: &str) -> TaskId {
    let id = tube.task(payload.as_bytes()).put().unwrap();
    tube.claim(id).unwrap().fail("g", "no").unwrap();
    id
}

fn left(tube: &Tube) -> Vec<TaskId> {
    tube.failed("g").map(|task| Ok(task?.id)).collect::<Result<_>>().unwrap()
}

fn sound(queue: &Queue) {
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn the_oldest_failures_go_to_the_back_of_another_tube() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    b.put(b"before").unwrap();
    let ids: Vec<TaskId> = (0..4).map(|at| a.put(at.to_string().as_bytes()).unwrap()).collect();
    // Not in the order of their ids.
    for at in [2, 0, 3, 1] {
        clock.advance(secs(1));
        a.claim(ids[at]).unwrap().fail("g", "no").unwrap();
    }
    a.bury(a.put(b"buried").unwrap(), "no failure").unwrap();
    let done = a.unfail_into("g", 3, &b).unwrap();
    assert_eq!((done.moved, done.clashes.len(), done.is_full), (3, 0, false));
    assert_eq!((left(&a), counts(&a)), (vec![ids[1]], [0, 0, 0, 2]));
    let first = b.peek(ids[2]).unwrap();
    assert_eq!((first.state, first.attempts, &first.reason), (State::Ready, 0, &None));
    assert!(first.last_failure.is_some());
    assert_eq!(drain(&b), "before 2 0 3");
    assert_eq!(a.unfail_into("g", 9, &b).unwrap().moved, 1);
    assert_eq!(a.unfail_into("g", 9, &b).unwrap().moved, 0);
    sound(&queue);
}

/// In several steps, from many tubes in turn, in the order of all of them.
#[test]
fn failures_of_all_tubes_keep_their_order() {
    let (builder, clock) = still();
    let (_home, path) = home();
    let queue = builder.open(&path).unwrap();
    let tubes: Vec<Tube> = (0..3).map(|at| queue.tube(&format!("t{at}")).unwrap()).collect();
    let to = queue.tube("to").unwrap();
    let mut wanted = Vec::new();
    for at in 0..300_usize {
        clock.advance(secs(1));
        wanted.push(at.to_string());
        failed(&tubes[at % 3], &at.to_string());
    }
    let large = tubes[0].put(&[7; 90_000]).unwrap();
    clock.advance(secs(1));
    tubes[0].claim(large).unwrap().fail("g", "no").unwrap();
    queue.checkpoint().unwrap();
    assert_eq!(queue.unfail_into("g", 200, &to).unwrap().moved, 200);
    assert_eq!(queue.unfail_into("g", u64::MAX, &to).unwrap().moved, 101);
    let payload = to.claim(large).unwrap();
    assert_eq!(&payload[..], [7; 90_000]);
    payload.ack().unwrap();
    assert_eq!(drain(&to), wanted.join(" "));
    assert!(tubes.iter().all(|tube| tube.is_empty().unwrap()));
    close_sound(queue);
}

#[test]
fn those_that_clash_are_named_and_stepped_over() {
    let queue = still().0.in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    let mut ids = Vec::new();
    for at in 0..200 {
        let key = at.to_string();
        let id = a.task(key.as_bytes()).key(&key).put().unwrap();
        a.claim(id).unwrap().fail("g", "no").unwrap();
        ids.push(id);
        if at < 150 {
            b.task(b"there").key(&key).put().unwrap();
        }
    }
    let done = a.unfail_into("g", 20, &b).unwrap();
    assert_eq!((done.moved, &done.clashes[..], done.is_full), (20, &ids[..150], false));
    assert_eq!(counts(&b), [170, 0, 0, 0]);
    let done = a.unfail_into("g", u64::MAX, &b).unwrap();
    assert_eq!((done.moved, done.clashes.len()), (30, 150));
    assert_eq!(left(&a).len(), 150, "they stay in their group");
    sound(&queue);
}

#[test]
fn a_full_tube_ends_it_and_what_it_has_moved_stays() {
    let queue = still().0.in_memory().unwrap();
    let a = queue.tube("a").unwrap();
    let b = queue.create_tube("b", TubeOptions::default().capacity(70)).unwrap();
    for at in 0..100_u32 {
        failed(&a, &at.to_string());
    }
    let done = a.unfail_into("g", u64::MAX, &b).unwrap();
    assert_eq!((done.moved, done.is_full, left(&a).len()), (70, true, 30));
    let done = queue.unfail_into("g", u64::MAX, &b).unwrap();
    assert_eq!((done.moved, done.is_full), (0, true));
    sound(&queue);
}

#[test]
fn what_no_move_may_do_is_refused() {
    let queue = still().0.placement("last", Last).in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    let placed = queue.create_tube("p", TubeOptions::default().placement("last")).unwrap();
    let temporary = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
    let fifo = queue.create_tube("f", TubeOptions::new(TubeKind::Fifo)).unwrap();
    failed(&a, "x");
    for to in [&temporary, &placed] {
        assert_eq!(kind(a.unfail_into("g", 1, to)), ErrorKind::Unsupported);
        assert_eq!(kind(queue.unfail_into("g", 1, to)), ErrorKind::Unsupported);
    }
    let grouped = a.task(b"y").group("own").put().unwrap();
    a.claim(grouped).unwrap().fail("h", "no").unwrap();
    assert_eq!(kind(a.unfail_into("h", 1, &fifo)), ErrorKind::Unsupported);
    let other = Queue::in_memory().unwrap().tube("b").unwrap();
    assert_eq!(kind(a.unfail_into("g", 1, &other)), ErrorKind::Invalid);
    assert_eq!(kind(queue.unfail_into("g", 1, &other)), ErrorKind::Invalid);
    queue.force_drop_tube("b").unwrap();
    assert_eq!(kind(a.unfail_into("g", 1, &b)), ErrorKind::TubeNotFound);
    assert_eq!((left(&a).len(), a.unfail_into("none", 9, &a).unwrap().moved), (1, 0));
}

/// What fails again meanwhile, in the tube that it came to, is left; into the same tube too.
#[test]
fn each_is_moved_once_while_a_worker_fails_it_again() {
    let queue = Queue::in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    for at in 0..500_u32 {
        failed(&a, &at.to_string());
    }
    let worker = b.clone();
    let done = thread::scope(|scope| {
        let fails = scope.spawn(move || {
            for _ in 0..500 {
                worker.take().unwrap().fail("g", "again").unwrap();
            }
        });
        let done = queue.unfail_into("g", u64::MAX, &b).unwrap();
        fails.join().unwrap();
        done
    });
    assert_eq!((done.moved, left(&b).len()), (500, 500));
    assert_eq!(b.unfail_into("g", u64::MAX, &b).unwrap().moved, 500);
    assert_eq!(counts(&b), [500, 0, 0, 0]);
}

/// After a ttl that has ended it is gone, and not moved.
#[test]
fn what_is_due_in_both_tubes_is_done_first() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let a = queue.tube("a").unwrap();
    let b = queue.create_tube("b", TubeOptions::default().capacity(1)).unwrap();
    let mortal = a.task(b"x").ttl(secs(5)).put().unwrap();
    a.claim(mortal).unwrap().fail("g", "no").unwrap();
    failed(&a, "y");
    b.task(b"in the way").ttl(secs(5)).put().unwrap();
    clock.advance(secs(5));
    let done = a.unfail_into("g", 9, &b).unwrap();
    assert_eq!((done.moved, done.is_full), (1, false));
    assert_eq!(drain(&b), "y");
}

/// Regression, seed 8431 of the scripts: without a failed task it did nothing in the other tube. A
/// task that was due there was not due any more when the clock had been set back.
#[test]
fn an_empty_group_also_does_what_is_due_in_the_other_tube() {
    let (builder, clock) = still();
    let queue = builder.by_hand(true).in_memory().unwrap();
    let [a, b] = ["a", "b"].map(|name| queue.tube(name).unwrap());
    let id = b.task(b"x").run_at(clock.wall() + secs(5)).put().unwrap();
    clock.advance(secs(7));
    assert_eq!(a.unfail_into("g", 10, &b).unwrap().moved, 0);
    clock.set_wall(clock.wall() - secs(3));
    assert_eq!(b.peek(id).unwrap().state, State::Ready);
}
