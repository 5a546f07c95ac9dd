//! How a holder learns that its lease has lapsed or is lost.

use crate::{home, kind, lone, lone_with, secs, still, until};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use tubewell::{
    Cause, ErrorKind, Lapse, ManualClock, Overlap, PauseTerms, Queue, Task, Tube, TubeOptions,
};

type Told = Receiver<Cause>;

fn watched(task: &mut Task) -> Told {
    let (sender, told) = channel();
    task.on_lost(move |event| sender.send(event.cause).unwrap()).unwrap();
    told
}

fn graced() -> (Queue, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = TubeOptions::default().ttr(secs(10)).lapse(Lapse::new().grace(secs(5)));
    let tube = queue.create_tube("lone", options).unwrap();
    (queue, tube, clock)
}

fn one(tube: &Tube) -> Task {
    tube.put(b"a").unwrap();
    tube.take().unwrap()
}

fn all(told: &Told) -> Vec<Cause> {
    told.try_iter().collect()
}

#[test]
fn a_lease_is_lost_once_a_verdict_would_be_refused() {
    let (queue, tube, clock) = graced();
    let task = one(&tube);
    let ticket = tube.ticket(task.ticket());
    for (seconds, is_lost) in [(9, false), (5, false), (1, true)] {
        clock.advance(secs(seconds));
        let found = (task.is_lost().unwrap(), task.lease().is_lost().unwrap());
        assert_eq!((found, ticket.is_lost().unwrap()), ((is_lost, is_lost), is_lost));
    }
    assert!(task.ack().unwrap_err().is_lease_lost());

    let (task, other) = (tube.take().unwrap(), tube.task(b"b").ttl(secs(3)).put().unwrap());
    let other = tube.claim(other).unwrap();
    clock.advance(secs(3));
    assert_eq!((task.is_lost().unwrap(), other.is_lost().unwrap()), (false, true), "its ttl");
    let inside = queue.transact(|_| Ok::<_, tubewell::Error>(kind(task.is_lost())));
    assert_eq!(inside.unwrap(), ErrorKind::InTransaction);
    queue.force_drop_tube("lone").unwrap();
    assert!(task.is_lost().unwrap());
    queue.close().unwrap();
    assert!(task.is_lost().unwrap());
}

#[test]
fn a_holder_is_told_at_the_lapse_and_at_the_loss() {
    let (queue, tube, clock) = graced();
    let mut task = one(&tube);
    let told = watched(&mut task);
    let after = |seconds| {
        clock.advance(secs(seconds));
        queue.tick().unwrap();
        all(&told)
    };
    assert_eq!(after(9), []);
    assert_eq!(after(1), [Cause::Stall]);
    task.renew().unwrap();
    assert_eq!(after(9), []);
    assert_eq!(after(1), [Cause::Stall], "the next lapse");
    assert_eq!(after(5), [Cause::Ttr]);
    // What becomes of the task from here on is of other leases.
    tube.take().unwrap().ack().unwrap();
    assert_eq!(after(0), []);
    drop(task);
    assert!(told.recv().is_err(), "the callback is gone with its guard");
}

#[test]
fn every_loss_is_told() {
    type Loss = fn(&Queue, &Tube, &Task);
    let losses: [(Loss, Cause); 16] = [
        (|_, tube, task| assert!(tube.fail_by_id(task.id(), "g", "no").unwrap()), Cause::Bury),
        (|_, tube, task| tube.trash(task.id(), "no").unwrap(), Cause::Trash),
        (|queue, _, _| queue.deregister(&["ada"]).unwrap(), Cause::Lost),
        (
            |_, tube, _| tube.pause_with(PauseTerms::new().time_out_running()).unwrap(),
            Cause::Release,
        ),
        (|_, tube, task| tube.bury(task.id(), "no").unwrap(), Cause::Bury),
        (|_, tube, task| tube.delete(task.id()).unwrap(), Cause::Delete),
        (|_, tube, task| tube.force_delete(task.id()).unwrap(), Cause::Delete),
        (|queue, _, task| _ = queue.delete_many(&[task.id()]).unwrap(), Cause::Delete),
        (|queue, _, task| _ = queue.cancel_tree(task.id()).unwrap(), Cause::Delete),
        (|_, tube, task| assert!(tube.complete_by_id(task.id()).unwrap()), Cause::Ack),
        (|_, tube, task| tube.force_timeout(&[task.id()]).unwrap(), Cause::Timeout),
        (|_, tube, _| tube.release_all().unwrap(), Cause::Release),
        (
            |queue, tube, task| {
                let to = queue.tube("to").unwrap();
                tube.move_to(task.id(), &to).apply().unwrap();
            },
            Cause::Move,
        ),
        (|_, tube, _| assert_eq!(tube.truncate().unwrap(), 1), Cause::Truncate),
        (|queue, tube, _| queue.force_drop_tube(tube.name()).unwrap(), Cause::DropTube),
        (|_, tube, task| tube.ticket(task.ticket()).release().unwrap(), Cause::Release),
    ];
    for (lose, cause) in losses {
        let (queue, tube, _clock) = graced();
        let ada = queue.consumer("ada").unwrap();
        let mut task = one(&tube.by(&ada));
        let told = watched(&mut task);
        lose(&queue, &tube, &task);
        queue.tick().unwrap();
        assert_eq!(all(&told), [cause]);
        assert!(task.is_lost().unwrap());
    }
}

/// Of a child that is taken, by the fire that puts the next one in its place.
#[test]
fn a_child_that_is_replaced_is_told_to_its_holder() {
    let (queue, tube, _clock) = graced();
    let made = queue.schedule("s").every(secs(60)).to(&tube).overlap(Overlap::Replace).make();
    let mut task = tube.take().unwrap();
    let told = watched(&mut task);
    made.unwrap().run_now().unwrap();
    queue.tick().unwrap();
    assert_eq!(all(&told), [Cause::Delete]);
}

/// Of a session that is closed, and of a task whose ttl ends.
#[test]
fn a_loss_without_a_verb_on_the_task_is_told() {
    let (queue, tube, clock) = graced();
    let ada = queue.consumer("ada").unwrap();
    let mut of_ada = one(&tube.by(&ada));
    let mortal = tube.task(b"b").ttl(secs(3)).put().unwrap();
    let mut mortal = tube.claim(mortal).unwrap();
    let [closed, over] = [watched(&mut of_ada), watched(&mut mortal)];
    ada.close().unwrap();
    queue.tick().unwrap();
    assert_eq!((all(&closed), all(&over)), (vec![Cause::Lost], vec![]));
    clock.advance(secs(3));
    queue.tick().unwrap();
    assert_eq!((all(&closed), all(&over)), (vec![], vec![Cause::Ttl]));
}

#[test]
fn a_verdict_of_the_guard_is_not_told() {
    let verdicts: [fn(Task, &Tube); 6] = [
        |task, _| task.ack().unwrap(),
        |task, _| task.release().unwrap(),
        |task, _| drop(task),
        |task, tube| tube.ack_many([task]).unwrap(),
        |mut task, tube| task.advance(tube).unwrap(),
        |task, tube| assert!(tube.ticket(task.detach()).renew().is_ok()),
    ];
    for settle in verdicts {
        let (queue, tube, _clock) = graced();
        let mut task = one(&tube);
        let told = watched(&mut task);
        task.touch(secs(1)).unwrap();
        settle(task, &tube);
        queue.tick().unwrap();
        assert_eq!(all(&told), []);
        assert!(told.recv().is_err(), "the callback is gone");
    }
}

/// Regression: a verdict with a payload was told to its own holder, if the thread of the callbacks
/// was faster than the return of the call. After one that is refused a loss is told as before.
#[test]
fn a_verdict_with_a_payload_is_not_told_unless_it_is_refused() {
    let verdicts: [fn(&mut Task, &Tube) -> tubewell::Result<()>; 4] = [
        |task, _| task.with_payload(b"b").release(),
        |task, _| task.with_payload(b"b").retry_after("no", secs(0)),
        |task, _| task.with_payload(b"b").fail("g", "no"),
        |task, tube| task.with_payload(b"b").advance(tube),
    ];
    for settle in verdicts {
        let (_home, path) = home();
        let queue = Queue::open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        for _ in 0..20 {
            let mut task = one(&tube);
            let told = watched(&mut task);
            settle(&mut task, &tube).unwrap();
            drop(task);
            assert_eq!(told.iter().collect::<Vec<_>>(), []);
        }

        let mut task = tube.claim(tube.put(b"c").unwrap()).unwrap();
        let told = watched(&mut task);
        // The tube keeps no finished task.
        assert_eq!(kind(task.with_payload(b"d").ack()), ErrorKind::Unsupported);
        tube.delete(task.id()).unwrap();
        assert_eq!(told.recv(), Ok(Cause::Delete));
    }
}

#[test]
fn another_task_of_the_tube_is_not_told_of_and_a_second_callback_replaces_the_first() {
    let (queue, tube, _clock) = graced();
    let mut task = one(&tube);
    let other = one(&tube);
    let (first, second) = (watched(&mut task), watched(&mut task));
    assert!(first.recv().is_err());
    tube.delete(other.id()).unwrap();
    tube.delete(task.id()).unwrap();
    queue.tick().unwrap();
    assert_eq!(all(&second), [Cause::Delete]);
}

#[test]
fn a_lost_lease_takes_no_callback() {
    let (tube, clock) = lone_with(TubeOptions::default().ttr(secs(10)));
    let mut task = one(&tube);
    clock.advance(secs(10));
    assert_eq!(kind(task.on_lost(|_| panic!("called"))), ErrorKind::LeaseLost);
    let (payload, mut lease) = task.split();
    assert_eq!(kind(lease.on_lost(|_| panic!("called"))), ErrorKind::LeaseLost);
    drop((payload, lease));
}

/// With the threads of the queue: the worker does nothing but look at a flag.
#[test]
fn a_worker_stops_when_its_lease_lapses() {
    let clock = ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().ttr(secs(10))).unwrap();
    tube.put(b"a").unwrap();
    let (ready, is_ready) = channel();
    let worker = thread::spawn(move || {
        let mut task = tube.take().unwrap();
        let told = watched(&mut task);
        ready.send(()).unwrap();
        (told.recv().unwrap(), task.is_lost().unwrap())
    });
    is_ready.recv().unwrap();
    clock.advance(secs(10));
    assert_eq!(worker.join().unwrap(), (Cause::Ttr, true));
}

#[test]
fn a_callback_may_settle_others_and_outlives_no_close() {
    let (tube, _clock) = lone();
    let mut task = one(&tube);
    let own = tube.clone();
    task.on_lost(move |_| assert!(own.put(b"again").is_ok())).unwrap();
    tube.delete(task.id()).unwrap();
    let (builder, _clock) = still();
    let queue = builder.in_memory().unwrap();
    let other = queue.tube("t").unwrap();
    let mut held = one(&other);
    let told = watched(&mut held);
    queue.close().unwrap();
    until(|| told.try_recv().is_err());
    drop(held);
}

/// Regression: an advance by ticket or in a transaction did not call it, and the call stayed armed:
/// it came with the end of another holder's lease.
#[test]
fn an_advance_by_a_ticket_or_in_a_transaction_is_the_last_that_a_guard_learns() {
    type Advance = fn(&Queue, &Tube, &Task);
    let ways: [Advance; 2] = [
        |queue, to, task| queue.transact(|tx| tx.advance(task, to)).unwrap(),
        |queue, to, task| queue.tube("lone").unwrap().ticket(task.ticket()).advance(to).unwrap(),
    ];
    for advance in ways {
        let (queue, tube, _clock) = graced();
        let next = queue.tube("next").unwrap();
        let mut task = one(&tube);
        let told = watched(&mut task);
        advance(&queue, &next, &task);
        queue.tick().unwrap();
        assert_eq!(all(&told), [Cause::Advance]);
        next.take().unwrap().ack().unwrap();
        queue.tick().unwrap();
        assert_eq!(all(&told), []);
    }
    // Through its own guard it is not called, refused or not.
    let (queue, tube, _clock) = graced();
    let full = queue.create_tube("full", TubeOptions::default().capacity(1)).unwrap();
    full.put(b"x").unwrap();
    let next = queue.tube("next").unwrap();
    let mut task = one(&tube);
    let told = watched(&mut task);
    task.advance(&full).unwrap_err();
    assert!(!task.is_lost().unwrap());
    task.advance(&next).unwrap();
    next.take().unwrap().ack().unwrap();
    queue.tick().unwrap();
    assert_eq!(all(&told), []);
}
