//! Every call that a closed queue refuses, and that a transaction refuses inside: the whole
//! interface, except calls that cannot fail.

use crate::{VERDICTS, kind, ok, secs};
use std::ops::ControlFlow;
use tubewell::{
    Consumer, ErrorKind, Event, Lease, Queue, Result, State, Stop, Task, TaskId, Ticket,
    TicketHandle, Tube, TubeOptions,
};

/// The values that the calls use.
struct Cast {
    queue: Queue,
    tube: Tube,
    ada: Consumer,
    ready: TaskId,
    ticket: Ticket,
    guards: Vec<Task>,
    leases: Vec<Lease>,
}

impl Cast {
    fn new() -> Self {
        let queue = Queue::in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        let ada = queue.consumer("ada").unwrap();
        // One more, for `ack_many`.
        tube.put_many((0..=2 * VERDICTS as u8).map(|number| [number])).unwrap();
        let guards = tube.take_many(VERDICTS + 1).unwrap();
        let leases = tube.take_many(VERDICTS).unwrap().into_iter().map(Lease::from).collect();
        tube.put(b"held").unwrap();
        let ticket = tube.take().unwrap().detach();
        let ready = tube.put(b"ready").unwrap();
        Self { queue, tube, ada, ready, ticket, guards, leases }
    }

    /// Calls everything, and consumes the guards.
    fn said(&mut self) -> Vec<(&'static str, ErrorKind)> {
        let Self { queue, tube, ada, ready, ticket, guards, leases } = self;
        let (id, stop) = (*ready, Stop::new());
        let batch = || [b"b".to_vec()];
        let said = vec![
            ("put", kind(tube.put(b"b"))),
            ("put_front", kind(tube.put_front(b"b"))),
            ("put_many", kind(tube.put_many(batch()))),
            ("put_receipt", kind(tube.put_receipt(b"b"))),
            ("task", kind(tube.task(b"b").put())),
            ("put_receipt of a task", kind(tube.task(b"b").put_receipt())),
            ("put_outcome", kind(tube.task(b"b").put_outcome())),
            ("wait_for_room", kind(tube.task(b"b").wait_for_room(secs(1)).put())),
            ("wait_for_room_until", kind(tube.task(b"b").wait_for_room_until(&stop).put())),
            ("batch", kind(tube.batch(batch()).put())),
            ("take", kind(tube.take())),
            ("try_take", kind(tube.try_take())),
            ("take_timeout", kind(tube.take_timeout(secs(1)))),
            ("take_until", kind(tube.take_until(&stop))),
            ("take_many", kind(tube.take_many(2))),
            ("by", kind(tube.by(ada).try_take())),
            ("claim", kind(tube.claim(id))),
            ("wait_ready", kind(tube.wait_ready(secs(1)))),
            ("wait_ready_until", kind(tube.wait_ready_until(&stop))),
            ("ack_many", kind(tube.ack_many(guards.pop()))),
            ("info", kind(tube.info())),
            ("stats of a tube", kind(tube.stats())),
            ("len", kind(tube.len())),
            ("is_empty", kind(tube.is_empty())),
            ("peek", kind(tube.peek(id))),
            ("peek_next", kind(tube.peek_next(State::Ready))),
            ("peek_many", kind(tube.peek_many(1))),
            ("tasks", kind(tube.tasks(State::Ready).next().unwrap())),
            ("kick", kind(tube.kick(1))),
            ("kick_task", kind(tube.kick_task(id))),
            ("delete", kind(tube.delete(id))),
            ("bury by id", kind(tube.bury(id, "no"))),
            ("release_all", kind(tube.release_all())),
            ("truncate", kind(tube.truncate())),
            ("pause", kind(tube.pause())),
            ("resume a tube", kind(tube.resume())),
            ("tube", kind(queue.tube("t"))),
            ("tube that is new", kind(queue.tube("new"))),
            ("create_tube", kind(queue.create_tube("new", TubeOptions::default()))),
            ("find_tube", kind(queue.find_tube("t"))),
            ("drop_tube", kind(queue.drop_tube("t"))),
            ("force_drop_tube", kind(queue.force_drop_tube("t"))),
            ("tubes", kind(queue.tubes())),
            ("stats", kind(queue.stats())),
            ("consumer", kind(queue.consumer("bob"))),
            ("consumer_with_grace", kind(queue.consumer_with_grace("bob", secs(1)))),
            ("waiters", kind(queue.waiters())),
            ("taken", kind(queue.taken())),
            ("check", kind(queue.check())),
            ("checkpoint", kind(queue.checkpoint())),
            ("compact", kind(queue.compact())),
            ("compact_with", kind(queue.compact_with(|_| ControlFlow::Continue(())))),
            ("space", kind(queue.space())),
            ("base_space", kind(queue.base_space())),
            ("flush", kind(queue.flush())),
            ("tick", kind(queue.tick())),
            ("transact", kind(queue.transact(|_| ok(())))),
            ("read", kind(queue.read(|_| ok(())))),
            ("resume of a consumer", kind(ada.resume(tube).next().unwrap())),
            ("close of a consumer", kind(ada.close())),
        ];
        let by_ticket =
            verdicts!(TicketHandle).map(|say| ("a ticket", kind(say(tube.ticket(*ticket)))));
        let (guards, leases) = (guards.drain(..), leases.drain(..));
        assert_eq!((guards.len(), leases.len()), (VERDICTS, VERDICTS));
        let by_guard = guards.zip(verdicts!(Task)).map(|(task, say)| ("a guard", kind(say(task))));
        let by_lease = leases.zip(verdicts!(Lease)).map(|(it, say)| ("a lease", kind(say(it))));
        said.into_iter().chain(by_ticket).chain(by_guard).chain(by_lease).collect()
    }
}

fn all_are(said: Vec<(&'static str, ErrorKind)>, expected: ErrorKind) {
    let others: Vec<_> = said.into_iter().filter(|(_, kind)| *kind != expected).collect();
    assert_eq!(others, [], "all others are {expected:?}");
}

#[test]
fn an_ended_queue_refuses_everything() {
    let mut cast = Cast::new();
    let watch: [fn(&Tube) -> Result<()>; 2] = [
        |tube| tube.on_task_change(Some(|_: &Event| {})).map(drop),
        |tube| tube.on_task_change_with_payload(Some(|_: &Event| {})).map(drop),
    ];
    for watch in watch {
        watch(&cast.tube).unwrap();
    }
    cast.queue.clone().close().unwrap();
    assert!(cast.queue.is_closed());
    all_are(cast.said(), ErrorKind::Closed);
    for watch in watch {
        assert_eq!(kind(watch(&cast.tube)), ErrorKind::Closed);
    }
}

/// Each would wait for the transaction in which it is called. A receipt may be waited for, because
/// its put was written before.
#[test]
fn a_transaction_refuses_every_verb_that_is_not_its_own() {
    let mut cast = Cast::new();
    let (queue, tube) = (cast.queue.clone(), cast.tube.clone());
    let receipt = tube.put_receipt(b"earlier").unwrap();
    let before = tube.stats().unwrap();
    queue
        .transact(|_| {
            all_are(cast.said(), ErrorKind::InTransaction);
            assert_eq!(kind(queue.close()), ErrorKind::InTransaction);
            assert!(receipt.wait().is_ok());
            ok(())
        })
        .unwrap();
    let after = tube.stats().unwrap();
    assert_eq!(after.ready + after.taken, before.ready + before.taken, "nothing came or went");
    assert_eq!((after.buried, after.delayed), (0, 0));
    assert_eq!(queue.tubes().unwrap(), ["t"]);
}
