//! Tasks that come after others, and merges of tubes: whatever calls meet, each task is handed out
//! once, and each end of a task comes to all that wait for it.

use crate::{acked, below, explore, relaxed, sound};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::sync::mpsc::channel;
use shuttle::thread::{JoinHandle, spawn, yield_now};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tubewell::{ErrorKind, Orphaned, Queue, Retention, State, Stop, Task, TaskId};
use tubewell::{Transaction, Tube, TubeOptions};

/// More than one step of a cascade works off.
const MANY: usize = 34;

/// Two tubes. The first keeps its finished tasks in some of the schedules.
fn two() -> (Queue, [Tube; 2]) {
    let (queue, _clock) = relaxed();
    let options = match below(2) {
        0 => TubeOptions::default(),
        _ => TubeOptions::default().keep_finished(Retention::new().count(9)),
    };
    let first = queue.create_tube("a", options).unwrap();
    let second = queue.tube("b").unwrap();
    (queue, [first, second])
}

/// Acks the next task of a tube. Returns its id.
fn takes(tube: &Tube) -> JoinHandle<TaskId> {
    let tube = tube.clone();
    spawn(move || ack(tube.take().unwrap()))
}

fn ack(task: Task) -> TaskId {
    let id = task.id();
    task.ack().unwrap();
    id
}

/// Whether the verb was in time: while the task waited for others. Later it is ready, taken or
/// gone.
fn was_blocked(done: tubewell::Result<()>) -> bool {
    match done {
        Ok(()) => true,
        Err(error) => {
            assert!(error.is_not_found() || error.kind() == ErrorKind::WrongState, "{error}");
            false
        }
    }
}

/// Nothing of this tube is left to take, nor for any other state in it.
fn is_used_up(tube: &Tube) -> bool {
    tube.try_take().unwrap().is_none() && tube.is_empty().unwrap()
}

#[test]
fn a_put_after_a_task_beside_its_ack() {
    explore(|| {
        let (queue, [a, b]) = two();
        let parent = a.put(b"parent").unwrap();
        let task = a.take().unwrap();
        let acking = spawn(move || task.ack().unwrap());
        let putting = spawn({
            let b = b.clone();
            move || {
                let child = b.task(b"child").after([parent]).put().unwrap();
                (child, b.task(b"both").after([parent, child]).put().unwrap())
            }
        });
        let takers = [takes(&b), takes(&b)];
        acking.join().unwrap();
        let (child, second) = putting.join().unwrap();
        let taken = takers.map(|taker| taker.join().unwrap());
        assert_eq!(BTreeSet::from(taken), BTreeSet::from([child, second]));
        assert!(is_used_up(&b));
        sound(&queue);
        queue.close().unwrap();
    });
}

/// The one end is a part of a transaction, or the put after it is; other calls run in between.
#[test]
fn a_put_after_a_task_beside_its_ack_with_a_transaction() {
    explore(|| {
        let (queue, [a, b]) = two();
        let parent = a.put(b"parent").unwrap();
        let task = a.take().unwrap();
        let ends_in_one = below(2) == 0;
        let transacting = spawn({
            let (queue, b) = (queue.clone(), b.clone());
            move || {
                let work = |tx: &Transaction<'_>| -> tubewell::Result<TaskId> {
                    let first = b.put_in(tx, b"first")?;
                    yield_now();
                    match ends_in_one {
                        true => tx.ack(&task)?,
                        false => return b.task(b"child").after([parent]).put_in(tx),
                    }
                    yield_now();
                    Ok(first)
                };
                let put = queue.transact(work).unwrap();
                if !ends_in_one {
                    task.ack().unwrap();
                }
                put
            }
        });
        let putting = spawn({
            let b = b.clone();
            move || b.task(b"child").after([parent]).put().unwrap()
        });
        let takers = [takes(&b), takes(&b)];
        let (of_transaction, child) = (transacting.join().unwrap(), putting.join().unwrap());
        let mut taken = BTreeSet::from(takers.map(|taker| taker.join().unwrap()));
        while let Some(task) = b.try_take().unwrap() {
            assert!(taken.insert(ack(task)));
        }
        let put = [of_transaction, child];
        assert!(put.iter().all(|id| taken.contains(id)));
        assert_eq!(taken.len(), if ends_in_one { 2 } else { 3 });
        assert!(is_used_up(&b));
        sound(&queue);
        queue.close().unwrap();
    });
}

/// The bury comes before all of the puts, after them or between two of them: what they wait for
/// decides in each case.
#[test]
fn puts_after_a_task_beside_its_bury() {
    explore(|| {
        let (queue, [a, b]) = two();
        let parent = a.put(b"parent").unwrap();
        let task = a.take().unwrap();
        let burying = spawn(move || task.bury("no").unwrap());
        let putting = spawn({
            let b = b.clone();
            move || {
                let held = b.task(b"held").after([parent]).put().unwrap();
                let cancel = b.task(b"cancel").after([parent]).orphaned(Orphaned::Cancel);
                let cancelled = cancel.put().unwrap();
                let failure = b.task(b"failure").after_failure([parent]).put().unwrap();
                (held, cancelled, failure)
            }
        });
        let taker = takes(&b);
        burying.join().unwrap();
        let (held, cancelled, failure) = putting.join().unwrap();
        assert_eq!(taker.join().unwrap(), failure);
        assert!(b.peek(cancelled).unwrap_err().is_not_found());
        assert_eq!(b.peek(held).unwrap().state, State::Blocked);
        assert!(b.try_take().unwrap().is_none());
        sound(&queue);
        a.kick_task(parent).unwrap();
        ack(a.take().unwrap());
        assert_eq!(ack(b.take().unwrap()), held);
        assert!(is_used_up(&b));
        sound(&queue);
        queue.close().unwrap();
    });
}

/// If the depend is in time, the child waits for the second one too, whichever came first.
#[test]
fn a_depend_beside_the_ack_that_would_release() {
    explore(|| {
        let (queue, [a, b]) = two();
        let [first, second] = a.put_many([*b"x", *b"y"]).unwrap()[..] else { panic!("two") };
        let child = b.task(b"child").after([first]).put().unwrap();
        let (task, other) = (a.take().unwrap(), a.take().unwrap());
        let has_begun = Arc::new(AtomicBool::new(false));
        let acking = spawn(move || task.ack().unwrap());
        let depending = spawn({
            let b = b.clone();
            move || was_blocked(b.depend(child, [second]))
        });
        let taker = spawn({
            let (b, has_begun) = (b.clone(), has_begun.clone());
            move || {
                let task = b.take().unwrap();
                let was_second = has_begun.load(Ordering::SeqCst);
                (ack(task), was_second)
            }
        });
        acking.join().unwrap();
        let depends = depending.join().unwrap();
        if depends {
            assert_eq!(b.peek(child).unwrap().dependencies.first, [second]);
        }
        has_begun.store(true, Ordering::SeqCst);
        other.ack().unwrap();
        let (taken, was_second) = taker.join().unwrap();
        assert_eq!(taken, child);
        assert!(was_second || !depends, "it was taken while it waited");
        assert!(is_used_up(&b));
        sound(&queue);
        queue.close().unwrap();
    });
}

#[test]
fn an_undepend_beside_the_ack_of_the_same_task() {
    explore(|| {
        let (queue, [a, b]) = two();
        let [first, second] = a.put_many([*b"x", *b"y"]).unwrap()[..] else { panic!("two") };
        let child = b.task(b"child").after([first, second]).put().unwrap();
        let (task, other) = (a.take().unwrap(), a.take().unwrap());
        let acking = spawn(move || task.ack().unwrap());
        let undepending = spawn({
            let b = b.clone();
            // It waits for the other one all the time.
            move || b.undepend(child, [first]).unwrap()
        });
        let taker = takes(&b);
        acking.join().unwrap();
        undepending.join().unwrap();
        let waiting = b.peek(child).unwrap();
        assert_eq!(waiting.state, State::Blocked);
        assert_eq!(waiting.dependencies.first, [second]);
        sound(&queue);
        let freeing = spawn({
            let b = b.clone();
            move || was_blocked(b.undepend_all(child))
        });
        other.ack().unwrap();
        freeing.join().unwrap();
        assert_eq!(taker.join().unwrap(), child);
        assert!(is_used_up(&b));
        sound(&queue);
        queue.close().unwrap();
    });
}

/// The cancel sees the whole tree or, after the ack, only its root, which is gone then.
#[test]
fn a_tree_is_cancelled_beside_the_ack_of_its_root() {
    explore(|| {
        let (queue, [a, b]) = two();
        let root = b.put(b"root").unwrap();
        let task = b.take().unwrap();
        let middle = b.task(b"middle").after([root]).put().unwrap();
        let leaf = a.task(b"leaf").after([middle]).put().unwrap();
        let acking = spawn(move || acked(task.ack()));
        let cancelling = spawn({
            let queue = queue.clone();
            move || match queue.cancel_tree(root) {
                Ok(removed) => removed,
                Err(error) => {
                    assert!(error.is_not_found(), "{error}");
                    0
                }
            }
        });
        let acked = acking.join().unwrap();
        let removed = cancelling.join().unwrap();
        sound(&queue);
        let seen = (acked, removed, a.len().unwrap(), b.len().unwrap());
        assert!([(false, 3, 0, 0), (true, 2, 0, 0), (true, 0, 1, 1)].contains(&seen), "{seen:?}");
        if removed == 0 {
            assert_eq!(ack(b.take().unwrap()), middle);
            assert_eq!(ack(a.take().unwrap()), leaf);
        }
        assert!(b.try_take().unwrap().is_none() && a.try_take().unwrap().is_none());
        sound(&queue);
        queue.close().unwrap();
    });
}

/// A task that is put after the tree goes with it, or comes after what is gone, or is in the way.
#[test]
fn a_tree_is_cancelled_beside_a_put_after_it() {
    explore(|| {
        let (queue, [_, b]) = two();
        let root = b.put(b"root").unwrap();
        let leaf = b.task(b"leaf").after([root]).put().unwrap();
        let putting = spawn({
            let b = b.clone();
            move || b.task(b"late").after([leaf]).put().unwrap()
        });
        let cancelled = queue.cancel_tree(root);
        let late = putting.join().unwrap();
        sound(&queue);
        match cancelled {
            Ok(2) => assert_eq!(ack(b.try_take().unwrap().unwrap()), late),
            Ok(removed) => assert_eq!(removed, 3),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::HasDependents);
                assert_eq!(error.tasks(), [late]);
                assert_eq!(queue.cancel_tree(root).unwrap(), 3);
            }
        }
        assert!(is_used_up(&b));
        sound(&queue);
        queue.close().unwrap();
    });
}

/// One takes it, whichever end is the last, and the others take nothing.
#[test]
fn two_parents_end_at_once_and_their_child_is_handed_out_once() {
    explore(|| {
        let (queue, [a, b]) = two();
        let [first, second] = a.put_many([*b"x", *b"y"]).unwrap()[..] else { panic!("two") };
        let child = b.task(b"child").after([first, second]).put().unwrap();
        let (task, stop) = (a.take().unwrap(), Stop::new());
        let takers = [(), ()].map(|()| {
            let (b, stop) = (b.clone(), stop.clone());
            spawn(move || b.take_until(&stop).unwrap().map(ack))
        });
        let acking = spawn(move || task.ack().unwrap());
        let completing = spawn(move || assert!(a.complete_by_id(second).unwrap()));
        // It ends only by one of the takers.
        assert!(queue.wait_for(child, Duration::MAX).unwrap().is_some());
        stop.stop();
        let taken = takers.map(|taker| taker.join().unwrap());
        assert_eq!(taken.into_iter().flatten().collect::<Vec<_>>(), [child]);
        acking.join().unwrap();
        completing.join().unwrap();
        assert!(is_used_up(&b));
        sound(&queue);
        queue.close().unwrap();
    });
}

/// Each of two calls finds, once its ack has returned, all that came after its task and that no
/// other has taken: also what the steps after the first release, and beside the steps of the other.
#[test]
fn what_comes_after_is_there_once_the_ack_has_returned() {
    explore(|| {
        let (queue, _clock) = relaxed();
        let parents = queue.tube("parents").unwrap();
        let ids = parents.put_many([*b"x", *b"y"]).unwrap();
        let children = ["a", "b"].map(|name| queue.tube(name).unwrap());
        for (id, tube) in ids.iter().zip(&children) {
            tube.batch([*b"child"; MANY]).after([*id]).put().unwrap();
        }
        let callers = children.clone().map(|tube| {
            let task = parents.take().unwrap();
            spawn(move || {
                task.ack().unwrap();
                let found = tube.take_many(MANY).unwrap();
                let count = found.len();
                tube.ack_many(found).unwrap();
                count
            })
        });
        let early = spawn({
            let [a, _] = children.clone();
            move || a.try_take().unwrap().map(ack).is_some()
        });
        let found = callers.map(|caller| caller.join().unwrap());
        let early = usize::from(early.join().unwrap());
        assert_eq!(found, [MANY - early, MANY]);
        assert!(children.iter().all(is_used_up));
        sound(&queue);
        queue.close().unwrap();
    });
}

/// A task is put into each tube and a lease is ended while all tasks of the one go to the other,
/// also those that come after what the lease is of. What is put after the end of the merge stays
/// where it is.
#[test]
fn a_merge_beside_puts_and_takes_of_both_tubes() {
    explore(|| {
        let (queue, _clock) = relaxed();
        let [from, into] = ["from", "into"].map(|name| queue.tube(name).unwrap());
        let mut put = from.put_many([*b"held", *b"from"]).unwrap();
        put.push(into.put(b"into").unwrap());
        let (held, stop) = (from.take().unwrap(), Stop::new());
        for tube in [&from, &into] {
            put.push(tube.task(b"child").after([held.id()]).put().unwrap());
        }
        let (reported, received) = channel();
        let takers = [from.clone(), into.clone()].map(|tube| {
            let (stop, reported) = (stop.clone(), reported.clone());
            spawn(move || {
                while let Some(task) = tube.take_until(&stop).unwrap() {
                    reported.send(ack(task)).unwrap();
                }
            })
        });
        let merging = spawn({
            let queue = queue.clone();
            move || queue.merge("from", "into").unwrap()
        });
        let putting = spawn({
            let tubes = [from.clone(), into.clone()];
            move || tubes.map(|tube| tube.put(b"late").unwrap())
        });
        reported.send(ack(held)).unwrap();
        put.extend(putting.join().unwrap());
        let merged = merging.join().unwrap();
        assert_eq!((merged.clashed, merged.stopped_at), (0, None));
        let mut taken: Vec<_> = put.iter().map(|_| received.recv().unwrap()).collect();
        stop.stop();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        taken.extend(received.try_iter());
        taken.sort_unstable();
        put.sort_unstable();
        assert_eq!(taken, put);
        assert!(is_used_up(&from) && is_used_up(&into));
        assert_eq!(from.info().unwrap().merges_into, None);
        sound(&queue);
        queue.close().unwrap();
    });
}
