//! Handles of every kind, dropped in every order and place: the last one closes the queue, and held
//! tasks return.

use crate::{close_sound, counts, home, kind, open, still};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Mutex, mpsc};
use tubewell::{Consumer, ErrorKind, Event, Queue, Result, State, Task, TaskInfo, Tube};

fn is_locked(path: &Path) -> bool {
    still().0.open(path).is_err_and(|error| error.kind() == ErrorKind::Locked)
}

/// Opens the folder again; its one task, ready.
fn found(path: &Path) -> TaskInfo {
    let queue = open(path);
    let tube = queue.tube("t").unwrap();
    assert_eq!(counts(&tube), [1, 0, 0, 0]);
    let task = tube.peek_next(State::Ready).unwrap().unwrap();
    assert_eq!(&tube.take().unwrap()[..], b"a", "and not taken");
    drop(tube);
    close_sound(queue);
    task
}

/// Every order of the numbers below 4.
fn orders() -> Vec<[usize; 4]> {
    let mut orders = Vec::new();
    for code in 0..256 {
        let order = [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6];
        if (0..4).all(|number| order.contains(&number)) {
            orders.push(order);
        }
    }
    orders
}

/// A queue, and a task of it that a consumer holds.
fn held_by_ada(path: &Path) -> (Queue, Tube, Consumer, Task) {
    let queue = open(path);
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let ada = queue.consumer("ada").unwrap();
    let guard = tube.by(&ada).take().unwrap();
    (queue, tube, ada, guard)
}

#[test]
fn queue_tube_consumer_and_guard_go_in_any_order() {
    assert_eq!(orders().len(), 24);
    for order in orders() {
        let (_home, path) = home();
        let (queue, tube, ada, guard) = held_by_ada(&path);
        let id = guard.id();
        let mut handles: [Option<Box<dyn Any>>; 4] = [
            Some(Box::new(queue)),
            Some(Box::new(tube)),
            Some(Box::new(ada)),
            Some(Box::new(guard)),
        ];
        for at in order {
            assert!(is_locked(&path), "{order:?} before {at}");
            handles[at] = None;
        }
        let task = found(&path);
        assert_eq!((task.id, task.attempts), (id, 1), "{order:?}");
    }
}

#[test]
fn a_handle_of_any_kind_may_be_the_last() {
    type Last = fn(&Queue) -> Box<dyn Any>;
    // With the attempts that are charged: a close charges none, a lost guard or session does.
    let lasts: [(&str, u32, Last); 11] = [
        ("queue", 0, |queue| Box::new(queue.clone())),
        ("tube", 0, |queue| Box::new(queue.tube("t").unwrap())),
        ("consumer", 0, |queue| Box::new(queue.consumer("ada").unwrap())),
        ("events", 0, |queue| Box::new(queue.events())),
        ("tasks", 0, |queue| Box::new(queue.tube("t").unwrap().tasks(State::Ready))),
        ("receipt", 0, |queue| Box::new(queue.tube("u").unwrap().put_receipt(b"b").unwrap())),
        ("guard", 1, |queue| Box::new(queue.tube("t").unwrap().take().unwrap())),
        ("lease", 1, |queue| Box::new(queue.tube("t").unwrap().take().unwrap().split().1)),
        ("held", 0, |queue| {
            let tube = queue.tube("t").unwrap();
            let ticket = tube.take().unwrap().detach();
            Box::new(tube.ticket(ticket))
        }),
        ("bound tube", 1, |queue| {
            let tube = queue.tube("t").unwrap().by(&queue.consumer("ada").unwrap());
            tube.take().unwrap().detach();
            Box::new(tube)
        }),
        ("bound lease", 1, |queue| {
            let tube = queue.tube("t").unwrap().by(&queue.consumer("ada").unwrap());
            Box::new(tube.take().unwrap().split().1)
        }),
    ];
    for (name, charged, last) in lasts {
        let (_home, path) = home();
        let queue = open(&path);
        queue.tube("t").unwrap().put(b"a").unwrap();
        let last = last(&queue);
        drop(queue);
        assert!(is_locked(&path), "{name}");
        drop(last);
        assert_eq!(found(&path).attempts, charged, "{name}");
    }
}

#[test]
fn a_listing_goes_on_when_every_other_handle_is_gone() {
    let (_home, path) = home();
    let tube = open(&path).tube("t").unwrap();
    tube.put_many((0..600).map(|_| b"x".to_vec())).unwrap();
    let mut tasks = tube.tasks(State::Ready);
    tasks.next().unwrap().unwrap();
    drop(tube);
    assert_eq!(tasks.filter(|task| task.is_ok()).count(), 599);
    assert_eq!(open(&path).tube("t").unwrap().len().unwrap(), 600);
}

/// Once before all other handles, once after them.
#[test]
fn a_guard_and_a_consumer_go_in_a_callback() {
    for last in [false, true] {
        let (_home, path) = home();
        let queue = Queue::open(&path).unwrap();
        let (tube, other) = (queue.tube("t").unwrap(), queue.tube("u").unwrap());
        let id = tube.put(b"a").unwrap();
        let ada = queue.consumer("ada").unwrap();
        let guard = tube.by(&ada).take().unwrap();
        let ((go, gone), (reported, received)) = (mpsc::channel(), mpsc::channel());
        let owned = Mutex::new(Some((guard, ada, gone)));
        let drop_all = move |_: &Event| {
            let (guard, ada, gone) = owned.lock().unwrap().take().unwrap();
            let () = gone.recv().unwrap();
            drop((guard, ada));
            reported.send(()).unwrap();
        };
        other.on_task_change(Some(drop_all)).unwrap();
        other.put(b"b").unwrap();
        if last {
            drop((queue, tube, other));
            assert!(is_locked(&path));
            go.send(()).unwrap();
        } else {
            go.send(()).unwrap();
            received.recv().unwrap();
            let task = tube.peek(id).unwrap();
            assert_eq!((task.state, task.attempts), (State::Ready, 1));
            drop((queue, tube, other));
        }
        // The callback's thread may be the one that closes.
        crate::until(|| !is_locked(&path));
        let task = found(&path);
        assert_eq!((task.id, task.attempts), (id, 1), "last: {last}");
    }
}

#[test]
fn a_guard_and_a_consumer_go_in_a_tick() {
    let (_home, path) = home();
    let queue = open(&path);
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("u").unwrap());
    let id = tube.put(b"a").unwrap();
    let ada = queue.consumer("ada").unwrap();
    let owned = Mutex::new(Some((tube.by(&ada).take().unwrap(), ada)));
    let drop_all = move |_: &Event| drop(owned.lock().unwrap().take());
    other.on_task_change(Some(drop_all)).unwrap();
    other.put(b"b").unwrap();
    assert_eq!(counts(&tube), [0, 0, 1, 0]);
    queue.tick().unwrap();
    assert_eq!(counts(&tube), [1, 0, 0, 0]);
    drop((queue, tube, other));
    assert_eq!(found(&path).id, id);
}

#[test]
fn a_consumer_goes_while_a_thread_unwinds() {
    for last in [false, true] {
        let (_home, path) = home();
        let queue = open(&path);
        let tube = queue.tube("t").unwrap();
        tube.put(b"a").unwrap();
        let ada = queue.consumer("ada").unwrap();
        tube.by(&ada).take().unwrap().detach();
        let kept = (!last).then(|| tube.clone());
        let others = (queue, tube);
        let unwound = catch_unwind(AssertUnwindSafe(move || {
            let _ada = ada;
            drop(others);
            resume_unwind(Box::new("in the middle of work"));
        }));
        assert!(unwound.is_err());
        if let Some(tube) = kept {
            assert_eq!(counts(&tube), [1, 0, 0, 0]);
        }
        assert_eq!(found(&path).attempts, 1, "last: {last}");
    }
}

#[test]
fn a_transaction_that_panics_drops_what_its_closure_owns() {
    for acked in [false, true] {
        let (_home, path) = home();
        let (queue, tube, ada, guard) = held_by_ada(&path);
        let id = guard.id();
        let own = (queue.clone(), tube.clone());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            queue.transact(move |tx| -> Result<()> {
                let (guard, _ada, _own) = (guard, ada, own);
                if acked {
                    tx.ack(&guard)?;
                }
                resume_unwind(Box::new("a panic of the closure"));
            })
        }));
        let trouble = panicked.unwrap_err();
        assert_eq!(trouble.downcast_ref(), Some(&"a panic of the closure"));
        let task = tube.peek(id).unwrap();
        assert_eq!((task.state, task.attempts), (State::Ready, 1), "acked: {acked}");
        assert_eq!(kind(tube.kick_task(id)), ErrorKind::WrongState, "verbs go on");
        drop((queue, tube));
        assert_eq!(found(&path).id, id);
    }
}

/// The close waits until the thread has left the transaction, also by a panic.
#[test]
fn a_panic_inside_another_queues_transaction_closes_what_its_closure_owns() {
    let (_home, path) = home();
    let (here, there) = (still().0.in_memory().unwrap(), Queue::open(&path).unwrap());
    let tube = there.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    let ada = there.consumer("ada").unwrap();
    let guard = tube.by(&ada).take().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        here.transact(move |_| -> Result<()> {
            let _own = (there, tube, ada, guard);
            resume_unwind(Box::new("a panic of the closure"));
        })
    }));
    assert!(panicked.is_err());
    let task = found(&path);
    assert_eq!((task.id, task.attempts), (id, 1));
    here.tube("t").unwrap().put(b"b").unwrap();
}
