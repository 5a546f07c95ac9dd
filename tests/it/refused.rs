//! Every call that an ended queue refuses, and that a transaction refuses inside: the whole
//! surface, but what cannot fail.

use crate::{kind, ok, secs};
use tubewell::{
    Consumer, ErrorKind, Event, Held, Queue, Release, Result, State, Stop, Task, TaskId, Ticket,
    Tube, TubeOptions,
};

/// What is said of a task in hand; a guard and a ticket say it alike.
const VERDICTS: usize = 11;

pub fn by_ticket() -> [fn(Held) -> Result<()>; VERDICTS] {
    [
        |held| held.ack(),
        |held| held.release(),
        |held| held.release_with(Release::new().delay(secs(1))),
        |held| held.retry("no"),
        |held| held.retry_after("no", secs(1)),
        |held| held.bury("no"),
        |held| held.fail("g", "no"),
        |held| held.touch(secs(1)),
        |held| held.renew(),
        |held| held.renew_for(secs(1)),
        |held| held.left().map(drop),
    ]
}

fn by_guard() -> [fn(Task) -> Result<()>; VERDICTS] {
    [
        |task| task.ack(),
        |task| task.release(),
        |task| task.release_with(Release::new().delay(secs(1))),
        |task| task.retry("no"),
        |task| task.retry_after("no", secs(1)),
        |task| task.bury("no"),
        |task| task.fail("g", "no"),
        |task| task.touch(secs(1)),
        |task| task.renew(),
        |task| task.renew_for(secs(1)),
        |task| task.left().map(drop),
    ]
}

/// Who is called, and with what.
struct Cast {
    queue: Queue,
    tube: Tube,
    ada: Consumer,
    ready: TaskId,
    ticket: Ticket,
    guards: Vec<Task>,
}

impl Cast {
    fn new() -> Self {
        let queue = Queue::in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        let ada = queue.consumer("ada").unwrap();
        // One more, for `ack_many`.
        tube.put_many((0..=VERDICTS as u8).map(|number| [number])).unwrap();
        let guards = tube.take_many(VERDICTS + 1).unwrap();
        tube.put(b"held").unwrap();
        let ticket = tube.take().unwrap().detach();
        let ready = tube.put(b"ready").unwrap();
        Self { queue, tube, ada, ready, ticket, guards }
    }

    /// Calls everything. The guards are used up.
    fn said(&mut self) -> Vec<(&'static str, ErrorKind)> {
        let Self { queue, tube, ada, ready, ticket, guards } = self;
        let (id, stop) = (*ready, Stop::new());
        let batch = || [b"b".to_vec()];
        let mut said = vec![
            ("put", kind(tube.put(b"b"))),
            ("put_front", kind(tube.put_front(b"b"))),
            ("put_many", kind(tube.put_many(batch()))),
            ("put_receipt", kind(tube.put_receipt(b"b"))),
            ("task", kind(tube.task(b"b").put())),
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
            ("space", kind(queue.space())),
            ("base_space", kind(queue.base_space())),
            ("flush", kind(queue.flush())),
            ("tick", kind(queue.tick())),
            ("transact", kind(queue.transact(|_| ok(())))),
            ("read", kind(queue.read(|_| ok(())))),
            ("resume of a consumer", kind(ada.resume(tube))),
            ("close of a consumer", kind(ada.close())),
        ];
        said.extend(by_ticket().map(|say| ("a ticket", kind(say(tube.ticket(*ticket))))));
        assert_eq!(guards.len(), VERDICTS);
        said.extend(
            guards.drain(..).zip(by_guard()).map(|(task, say)| ("a guard", kind(say(task)))),
        );
        said
    }
}

fn all_are(said: Vec<(&'static str, ErrorKind)>, expected: ErrorKind) {
    let others: Vec<_> = said.into_iter().filter(|(_, kind)| *kind != expected).collect();
    assert_eq!(others, [], "all others are {expected:?}");
}

#[test]
fn an_ended_queue_refuses_everything() {
    let mut cast = Cast::new();
    let told = cast.tube.on_task_change(Some(|_: &Event| {}));
    assert!(told.is_ok());
    cast.queue.clone().close().unwrap();
    assert!(cast.queue.is_closed());
    all_are(cast.said(), ErrorKind::Closed);
    assert_eq!(kind(cast.tube.on_task_change(Some(|_: &Event| {}))), ErrorKind::Closed);
}

/// Each would wait for the transaction that it is called in. A receipt may be waited for: what it
/// is of was written before.
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
