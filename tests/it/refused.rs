//! Every call that a closed queue refuses, and that a transaction refuses inside: the whole
//! interface, except calls that cannot fail.

use crate::verbs::{Said, reading, watching, writing};
use crate::{VERDICTS, kind, ok};
use tubewell::{Consumer, ErrorKind, Lease, Queue, Task, TaskId, Ticket, TicketHandle, Tube};

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
    fn said(&mut self) -> Vec<Said> {
        let Self { queue, tube, ada, ready, ticket, guards, leases } = self;
        let ticket = || tube.ticket(*ticket);
        let mut said = writing(queue, tube, *ready);
        said.extend(reading(queue, tube, *ready));
        said.extend([
            ("ack_many", tube.ack_many(guards.pop())),
            ("by", tube.by(ada).try_take().map(drop)),
            ("adopt", ada.adopt("bob").map(drop)),
            ("resume of a consumer", ada.resume(tube).next().unwrap().map(drop)),
            ("close of a consumer", ada.close()),
        ]);
        said.extend(verdicts!(TicketHandle).map(|say| ("a ticket", say(ticket(), tube))));
        said.extend(readings!(ticket()).map(|read| ("of a ticket", read)));
        said.extend(readings!(&guards[0]).map(|read| ("of a guard", read)));
        said.extend(readings!(&leases[0]).map(|read| ("of a lease", read)));
        let (guards, leases) = (guards.drain(..), leases.drain(..));
        assert_eq!((guards.len(), leases.len()), (VERDICTS, VERDICTS));
        let by_guard = guards.zip(verdicts!(Task));
        said.extend(by_guard.map(|(task, say)| ("a guard", say(task, tube))));
        let by_lease = leases.zip(verdicts!(Lease));
        said.extend(by_lease.map(|(lease, say)| ("a lease", say(lease, tube))));
        said
    }
}

fn all_are(said: Vec<Said>, expected: ErrorKind) {
    let kinds = said.into_iter().map(|(verb, said)| (verb, said.map_err(|error| error.kind())));
    let others: Vec<_> = kinds.filter(|(_, said)| *said != Err(expected)).collect();
    assert_eq!(others, [], "all others are {expected:?}");
}

#[test]
fn an_ended_queue_refuses_everything() {
    let mut cast = Cast::new();
    cast.queue.clone().close().unwrap();
    assert!(cast.queue.is_closed());
    all_are(cast.said(), ErrorKind::Closed);
    all_are(watching(&cast.queue, &cast.tube), ErrorKind::Closed);
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
