//! The stream of changes, and callbacks on it.

use crate::{close_sound, home, kind, lone, ok, secs, still};
use std::fs;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use tubewell::{
    Cause, Conflict, ConsumerOptions, ErrorKind, Event, EventOptions, Events, Phase, Queue, State,
    Tube, TubeOptions,
};

fn queue() -> (Queue, Events, Tube) {
    let queue = still().0.in_memory().unwrap();
    let (tube, events) = (queue.tube("t").unwrap(), queue.events());
    (queue, events, tube)
}

fn reported(events: &Events) -> Vec<Cause> {
    std::iter::from_fn(|| events.try_recv()).map(|event| event.cause).collect()
}

/// Round by round, so that the readers wait when the events come.
#[test]
fn waiting_readers_are_woken() {
    let (_queue, events, tube) = queue();
    let (received, of) = mpsc::channel();
    thread::scope(|threads| {
        for _ in 0..2 {
            let (events, received) = (&events, received.clone());
            threads.spawn(move || {
                (0..50).for_each(|_| received.send(events.recv().unwrap().cause).unwrap());
            });
        }
        for _ in 0..50 {
            tube.put_many([b"a".to_vec(), b"b".to_vec()]).unwrap();
            assert_eq!([of.recv().unwrap(), of.recv().unwrap()], [Cause::Put; 2]);
        }
    });
}

#[test]
fn put_take_and_ack_are_three_events() {
    let (_queue, events, tube) = queue();
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().ack().unwrap();
    let all: Vec<Event> = std::iter::from_fn(|| events.try_recv()).collect();
    let steps: Vec<_> = all.iter().map(|event| (event.from, event.to, event.cause)).collect();
    assert_eq!(
        steps,
        [
            (None, Some(State::Ready), Cause::Put),
            (Some(State::Ready), Some(State::Taken), Cause::Take),
            (Some(State::Taken), None, Cause::Ack),
        ]
    );
    assert!(all.iter().all(|event| event.task == Some(id) && &*event.tube == "t"));
    assert!(all.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1));
}

#[test]
fn every_change_of_a_tube_is_an_event_of_no_task() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let events = queue.events();
    let tube = queue.create_tube("t", TubeOptions::default()).unwrap();
    queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    tube.pause().unwrap();
    tube.pause().unwrap();
    tube.pause_for(secs(5)).unwrap();
    clock.advance(secs(5));
    queue.tick().unwrap();
    tube.pause().unwrap();
    tube.resume().unwrap();
    tube.resume().unwrap();
    tube.truncate().unwrap();
    tube.release_all().unwrap();
    assert!(queue.drop_tube("no").is_err());
    queue.drop_tube("t").unwrap();
    let all: Vec<Event> = std::iter::from_fn(|| events.try_recv()).collect();
    assert!(all.iter().all(|event| &*event.tube == "t"));
    assert!(all.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1));
    let of_tubes = all.iter().filter(|event| event.task.is_none());
    assert!(of_tubes.clone().all(|event| event.from.is_none() && event.to.is_none()));
    let causes: Vec<Cause> = of_tubes.map(|event| event.cause).collect();
    assert_eq!(
        causes,
        [
            Cause::CreateTube,
            Cause::Pause,
            Cause::Pause,
            Cause::Resume,
            Cause::Pause,
            Cause::Resume,
            Cause::Truncate,
            Cause::DropTube
        ]
    );
    assert_eq!(all.len(), 9, "and one put");
}

#[test]
fn a_callback_is_returned_when_it_is_replaced() {
    let (queue, _events, tube) = queue();
    let (reported, received) = mpsc::channel();
    let report = |name| {
        let reported = reported.clone();
        Some(move |_: &Event| reported.send(name).unwrap())
    };
    let put = || {
        tube.put(b"a").unwrap();
        queue.tick().unwrap();
    };
    assert!(tube.on_task_change(report("first")).unwrap().is_none());
    put();
    let first = tube.on_task_change(report("second")).unwrap();
    put();
    let second = tube.set_callback(first).unwrap();
    put();
    assert!(tube.set_callback(second).unwrap().is_some());
    put();
    assert!(tube.set_callback(None).unwrap().is_some());
    put();
    assert!(tube.set_callback(None).unwrap().is_none());
    let names: Vec<_> = received.try_iter().collect();
    assert_eq!(names, ["first", "second", "first", "second"]);
}

#[test]
fn a_callback_may_replace_itself_while_it_runs() {
    let (queue, _events, tube) = queue();
    let (reported, received) = mpsc::channel();
    let again = tube.clone();
    tube.on_task_change(Some(move |_: &Event| {
        let later = reported.clone();
        let next = move |_: &Event| later.send("second").unwrap();
        assert!(again.on_task_change(Some(next)).unwrap().is_some(), "the one that runs");
        reported.send("first").unwrap();
    }))
    .unwrap();
    for _ in 0..2 {
        tube.put(b"a").unwrap();
        queue.tick().unwrap();
    }
    assert_eq!(received.try_iter().collect::<Vec<_>>(), ["first", "second"]);
    tube.set_callback(None).unwrap();
}

#[test]
fn a_new_tube_has_its_callback_from_the_first_step() {
    let queue = still().0.in_memory().unwrap();
    let (reported, received) = mpsc::channel();
    let report = |name| {
        let reported = reported.clone();
        move |event: &Event| reported.send((name, event.cause)).unwrap()
    };
    let (tube, before) =
        queue.create_tube_with("t", TubeOptions::default(), report("one")).unwrap();
    assert!(before.is_none());
    tube.put(b"a").unwrap();
    queue.tick().unwrap();
    // What is refused leaves the callback as it was.
    let refused = queue.create_tube_with("t", TubeOptions::default(), report("two"));
    assert_eq!(crate::kind(refused), ErrorKind::TubeExists);
    let wrong = TubeOptions::new(tubewell::TubeKind::Fifo).priority(1);
    assert!(queue.create_tube_with("u", wrong, report("three")).is_err());
    queue.tube("u").unwrap().put(b"a").unwrap();
    tube.take().unwrap().ack().unwrap();
    queue.tick().unwrap();
    let all: Vec<_> = received.try_iter().collect();
    assert_eq!(all, [("one", Cause::Put), ("one", Cause::Take), ("one", Cause::Ack)]);
    let there = TubeOptions::default().if_not_exists();
    let (tube, replaced) = queue.create_tube_with("t", there, report("four")).unwrap();
    tube.put(b"b").unwrap();
    queue.tick().unwrap();
    assert_eq!(received.try_iter().collect::<Vec<_>>(), [("four", Cause::Put)]);
    drop(tube.set_callback(Some(replaced.expect("the first one"))).unwrap());
    tube.put(b"c").unwrap();
    queue.tick().unwrap();
    assert_eq!(received.try_iter().collect::<Vec<_>>(), [("one", Cause::Put)]);
}

/// Regression: the steps before a drop whose calls still waited were discarded and not counted; and
/// an old handle of the tube changed the callback of a later tube of its name.
#[test]
fn a_dropped_tube_has_its_callback_until_its_last_step() {
    let queue = still().0.in_memory().unwrap();
    let (reported, received) = mpsc::channel();
    let report = |name| {
        let (reported, kept) = (reported.clone(), Arc::new(()));
        let weak = Arc::downgrade(&kept);
        let call = move |event: &Event| {
            let _kept = &kept;
            reported.send((name, event.cause)).unwrap();
        };
        (call, weak)
    };
    let ((old, old_kept), (new, new_kept)) = (report("old"), report("new"));
    let tube = queue.tube("t").unwrap();
    tube.on_task_change(Some(old)).unwrap();
    tube.put(b"a").unwrap();
    queue.force_drop_tube("t").unwrap();
    assert_eq!(crate::kind(tube.on_task_change(None::<fn(&Event)>)), ErrorKind::TubeNotFound);
    let options = TubeOptions::default;
    let (again, before) = queue.create_tube_with("t", options(), new).unwrap();
    assert!(before.is_none(), "it is of another tube");
    again.put(b"b").unwrap();
    let none = |_: &Event| panic!("the tube is gone");
    assert_eq!(crate::kind(tube.on_task_change(Some(none))), ErrorKind::TubeNotFound);
    queue.tick().unwrap();
    let all: Vec<_> = received.try_iter().collect();
    assert_eq!(all, [("old", Cause::Put), ("new", Cause::Put)]);
    assert_eq!((old_kept.strong_count(), new_kept.strong_count()), (0, 1));
    again.take().unwrap().ack().unwrap();
    queue.drop_tube("t").unwrap();
    queue.tick().unwrap();
    let all: Vec<_> = received.try_iter().collect();
    assert_eq!(all, [("new", Cause::Take), ("new", Cause::Ack)]);
    assert_eq!((new_kept.strong_count(), queue.callbacks_dropped()), (0, 0));
}

/// With the thread of the callbacks, and so many steps that the drop itself is not kept.
#[test]
fn the_callback_of_a_dropped_tube_goes_also_if_steps_are_dropped() {
    let queue = Queue::in_memory().unwrap();
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
    let kept = Arc::new(());
    let (weak, (go, gone), (came, coming)) =
        (Arc::downgrade(&kept), mpsc::channel::<()>(), mpsc::channel::<()>());
    let gone = Mutex::new(gone);
    tube.on_task_change(Some(move |_: &Event| {
        let _kept = &kept;
        let _ = came.send(());
        let _ = gone.lock().unwrap().recv();
    }))
    .unwrap();
    other.on_task_change(Some(|_: &Event| ())).unwrap();
    tube.put(b"a").unwrap();
    coming.recv().unwrap();
    queue.force_drop_tube("t").unwrap();
    for _ in 0..70 {
        other.put_many(vec![*b"b"; 1000]).unwrap();
    }
    assert!(queue.callbacks_dropped() > 0);
    drop(go);
    crate::until(|| weak.strong_count() == 0);
}

#[test]
fn the_unlocking_of_a_group_makes_no_event() {
    let (_queue, events, tube) = queue();
    tube.task(b"a").group("g").put().unwrap();
    tube.task(b"b").group("g").put().unwrap();
    tube.take().unwrap().ack().unwrap();
    assert_eq!(reported(&events), [Cause::Put, Cause::Put, Cause::Take, Cause::Ack]);
}

/// What a holder or anyone else writes down of a task changes no state, and consumers are no tasks:
/// only the steps of what they hold are events.
#[test]
fn reports_log_lines_and_consumers_make_no_event() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let (tube, events) = (queue.tube("t").unwrap(), queue.events());
    let id = tube.put(b"a").unwrap();
    let keep = ConsumerOptions::new().grace(secs(5)).keep(secs(9));
    let ada = queue.consumer_with("ada", keep.clone().meta("floor 2")).unwrap();
    let task = tube.by(&ada).take().unwrap();
    assert_eq!(reported(&events), [Cause::Put, Cause::Take]);
    task.start("pid 1").unwrap();
    task.progress(40, "halfway").unwrap();
    task.checkpoint(b"so far").unwrap();
    task.log("a line").unwrap();
    tube.log(id, "another one").unwrap();
    let nameless = queue.session();
    drop(queue.consumer_with("ada", ConsumerOptions::new().meta("floor 3")).unwrap());
    drop(queue.consumer_with("bob", keep.clone()).unwrap());
    queue.deregister(&["bob"]).unwrap();
    drop((queue.consumer_with("eve", keep).unwrap(), nameless));
    for length in [5, 9] {
        clock.advance(secs(length));
        queue.tick().unwrap();
    }
    assert_eq!(queue.consumers().unwrap().len(), 1, "eve is forgotten");
    assert!(reported(&events).is_empty());
    let seen = tube.peek(id).unwrap();
    assert!(matches!(seen.phase, Some(Phase::Started { .. })));
    assert_eq!(seen.progress.as_ref().unwrap().percent, 40);
    assert_eq!(tube.history(id).unwrap().entries.len(), 4);
    // The end of a session is seen by what becomes of its tasks.
    task.detach();
    ada.close().unwrap();
    assert_eq!(reported(&events), [Cause::Lost]);
}

#[test]
fn a_refused_call_makes_no_event() {
    let (_queue, events, tube) = queue();
    assert!(tube.task(b"a").ttl(secs(0)).put().is_err());
    assert!(tube.delete(tubewell::TaskId::new(9)).is_err());
    assert!(tube.try_take().unwrap().is_none());
    assert!(reported(&events).is_empty());
}

#[test]
fn a_slow_reader_loses_the_oldest_events_and_reads_how_many() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let events = queue.events_with(EventOptions::new().kept(3));
    let ids: Vec<_> = (0..10).map(|_| tube.put(b"x").unwrap()).collect();
    assert_eq!(events.dropped(), 7);
    let kept: Vec<_> =
        std::iter::from_fn(|| events.try_recv()).filter_map(|event| event.task).collect();
    assert_eq!(kept, ids[7..]);
}

#[test]
fn a_blocked_callback_delays_nothing_and_misses_the_oldest_events() {
    let queue = Queue::in_memory().unwrap();
    let (slow, quick) = (queue.tube("slow").unwrap(), queue.tube("quick").unwrap());
    let (entered, has_entered) = mpsc::channel();
    let (go_on, gone_on) = mpsc::channel();
    let (reported, received) = mpsc::channel();
    let gone_on = std::sync::Mutex::new(gone_on);
    slow.on_task_change(Some(move |event: &Event| {
        entered.send(()).unwrap();
        gone_on.lock().unwrap().recv().unwrap();
        reported.send(event.task.unwrap()).unwrap();
    }))
    .unwrap();
    let first = slow.put(b"a").unwrap();
    has_entered.recv().unwrap();
    let kept = 65_536;
    let batch = |tasks| vec![b"b".to_vec(); tasks];
    let missed = slow.put_many(batch(3)).unwrap();
    let next = slow.put_many(batch(kept)).unwrap();
    quick.put(b"c").unwrap();
    assert_eq!(queue.callbacks_dropped(), missed.len() as u64, "others' tubes do not count");
    (0..2).for_each(|_| go_on.send(()).unwrap());
    assert_eq!([received.recv().unwrap(), received.recv().unwrap()], [first, next[0]]);
    slow.on_task_change(None::<fn(&Event)>).unwrap();
    assert_eq!(queue.callbacks_dropped(), missed.len() as u64, "also once there is no callback");
    drop(go_on);
}

#[test]
fn a_stream_begins_with_its_subscription_and_every_reader_has_its_own() {
    let (queue, early, tube) = queue();
    tube.put(b"a").unwrap();
    let late = queue.events();
    tube.put(b"b").unwrap();
    assert_eq!((reported(&early).len(), reported(&late).len()), (2, 1));
}

#[test]
fn a_stream_ends_with_the_queue() {
    let (queue, events, tube) = queue();
    tube.put(b"a").unwrap();
    queue.close().unwrap();
    assert_eq!(events.map(|event| event.cause).collect::<Vec<_>>(), [Cause::Put]);
}

#[test]
fn a_reader_waits_for_the_next_event() {
    let (queue, events, tube) = queue();
    let reader = std::thread::spawn(move || events.recv().map(|event| event.cause));
    tube.put(b"a").unwrap();
    assert_eq!(reader.join().unwrap(), Some(Cause::Put));
    assert!(queue.events().recv_timeout(std::time::Duration::ZERO).is_none());
}

#[test]
fn an_event_can_be_waited_for_until_it_is_safe() {
    let (_home, path) = crate::home();
    let queue = crate::open(&path);
    let (tube, events) = (queue.tube("t").unwrap(), queue.events());
    let receipt = tube.put_receipt(b"a").unwrap();
    let event = events.recv().unwrap();
    events.synced(&event).unwrap();
    assert!(receipt.is_synced());
}

#[test]
fn a_callback_is_replaced_and_removed() {
    let (queue, _events, tube) = queue();
    let (reported, received) = mpsc::channel();
    for name in ["first", "second"] {
        let reported = reported.clone();
        tube.on_task_change(Some(move |_: &Event| reported.send(name).unwrap())).unwrap();
        tube.put(b"a").unwrap();
        queue.tick().unwrap();
    }
    tube.on_task_change(None::<fn(&Event)>).unwrap();
    tube.put(b"a").unwrap();
    queue.tick().unwrap();
    assert_eq!(received.try_iter().collect::<Vec<_>>(), ["first", "second"]);
}

#[test]
fn a_callback_ends_with_its_tube() {
    type Drop = fn(&Queue, &str) -> tubewell::Result<()>;
    let drops: [Drop; 2] = [Queue::drop_tube, Queue::force_drop_tube];
    for drop in drops {
        let (queue, _events, tube) = queue();
        let (reported, received) = mpsc::channel();
        tube.on_task_change(Some(move |event: &Event| reported.send(event.task.unwrap()).unwrap()))
            .unwrap();
        let id = tube.put(b"a").unwrap();
        queue.tick().unwrap();
        drop(&queue, "t").unwrap();
        assert_eq!(received.try_iter().collect::<Vec<_>>(), [id]);
        let next = queue.tube("t").unwrap();
        next.put(b"b").unwrap();
        queue.tick().unwrap();
        assert_eq!(
            received.try_recv(),
            Err(mpsc::TryRecvError::Disconnected),
            "it is not kept either"
        );

        let (reported, received) = mpsc::channel();
        next.on_task_change(Some(move |event: &Event| reported.send(event.cause).unwrap()))
            .unwrap();
        next.take().unwrap().ack().unwrap();
        queue.tick().unwrap();
        assert_eq!(received.try_iter().collect::<Vec<_>>(), [Cause::Take, Cause::Ack]);
    }
}

#[test]
fn a_callback_gets_the_events_of_its_tube_in_order() {
    let queue = Queue::in_memory().unwrap();
    let (reported, received) = mpsc::channel();
    let tube = queue.tube("t").unwrap();
    tube.on_task_change(Some(move |event: &Event| reported.send(event.cause).unwrap())).unwrap();
    queue.tube("other").unwrap().put(b"b").unwrap();
    tube.put(b"a").unwrap();
    tube.take().unwrap().ack().unwrap();
    let causes: Vec<_> = received.iter().take(3).collect();
    assert_eq!(causes, [Cause::Put, Cause::Take, Cause::Ack]);
}

#[test]
fn a_callback_may_call_any_verb() {
    let queue = Queue::in_memory().unwrap();
    let (tube, next) = (queue.tube("t").unwrap(), queue.tube("next").unwrap());
    let follow_up = next.clone();
    tube.on_task_change(Some(move |event: &Event| {
        if event.cause == Cause::Ack {
            follow_up.put(b"follow-up").unwrap();
        }
    }))
    .unwrap();
    tube.put(b"a").unwrap();
    tube.take().unwrap().ack().unwrap();
    assert_eq!(&*next.take().unwrap(), b"follow-up");
    queue.close().unwrap();
}

/// Regression: it called them inside of the transaction, whose locks they found held.
#[test]
fn a_tick_inside_a_transaction_is_refused_and_calls_no_callback() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let (called, calls) = mpsc::channel();
    let own = tube.clone();
    tube.on_task_change(Some(move |_: &Event| drop(called.send(own.len())))).unwrap();
    tube.put(b"a").unwrap();
    queue
        .transact(|_| {
            assert_eq!(kind(queue.tick()), ErrorKind::InTransaction);
            Ok::<_, tubewell::Error>(())
        })
        .unwrap();
    assert!(calls.try_recv().is_err());
    queue.tick().unwrap();
    assert_eq!(calls.try_recv().unwrap().unwrap(), 1);
}

#[test]
fn a_panic_in_a_callback_stays_there() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let (reported, received) = mpsc::channel();
    tube.on_task_change(Some(move |event: &Event| {
        reported.send(event.cause).unwrap();
        std::panic::resume_unwind(Box::new("a panic of the callback"));
    }))
    .unwrap();
    tube.put(b"a").unwrap();
    tube.take().unwrap().ack().unwrap();
    assert_eq!(received.iter().take(3).count(), 3, "the next event finds it in place");
    queue.close().unwrap();
}

#[test]
fn a_callback_may_close_the_queue() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let (reported, received) = mpsc::channel();
    let own = queue.clone();
    tube.on_task_change(Some(move |_: &Event| reported.send(own.close().is_ok()).unwrap()))
        .unwrap();
    tube.put(b"a").unwrap();
    assert!(received.recv().unwrap());
    crate::until(|| queue.is_closed());
}

#[test]
fn the_handles_in_a_callback_do_not_keep_an_unused_queue_open_after_close() {
    let (_home, path) = crate::home();
    let queue = Queue::open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let own = queue.clone();
    tube.on_task_change(Some(move |_: &Event| drop(own.stats()))).unwrap();
    queue.close().unwrap();
    crate::open(&path).close().unwrap();
}

#[test]
fn a_touch_is_counted_once() {
    let (tube, _) = lone();
    tube.put(b"a").unwrap();
    tube.take().unwrap().touch(secs(1)).unwrap();
    assert_eq!(tube.stats().unwrap().calls.touch, 1);
}

#[test]
fn a_subscription_after_a_close_ends_at_once() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.on_task_change(Some(|_: &Event| {})).unwrap();
    queue.close().unwrap();
    assert_eq!(queue.events().recv(), None);
    let refused = tube.on_task_change(Some(|_: &Event| {})).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
}

/// Events with payloads.
const WHOLE: EventOptions = EventOptions::new().payloads();

/// Payloads in the task's own row, in a row of their own, and in one over many pages.
fn payloads() -> [Vec<u8>; 4] {
    [vec![], vec![1; 3500], vec![2; 3501], vec![3; 100_000]]
}

fn told_whole(events: &Events) -> Vec<(Cause, Option<Vec<u8>>)> {
    let whole = |event: Event| (event.cause, event.payload().map(<[u8]>::to_vec));
    std::iter::from_fn(|| events.try_recv()).map(whole).collect()
}

#[test]
fn every_cause_makes_an_event_with_its_payload_on_request() {
    for options in [TubeOptions::default(), TubeOptions::default().temporary(true)] {
        for payload in payloads() {
            let (builder, clock) = still();
            let queue = builder.in_memory().unwrap();
            let tube = queue.create_tube("t", options.clone()).unwrap();
            let (plain, whole) = (queue.events(), queue.events_with(WHOLE));
            tube.task(&payload).ttr(secs(5)).ttl(secs(1000)).delay(secs(1)).put().unwrap();
            clock.advance(secs(1));
            queue.tick().unwrap();
            let task = tube.take().unwrap();
            task.touch(secs(1)).unwrap();
            task.release_with(tubewell::Release::new().to_back()).unwrap();
            tube.take().unwrap().retry("no").unwrap();
            clock.advance(secs(1));
            drop(tube.take().unwrap());
            tube.take().unwrap().bury("no").unwrap();
            tube.kick(1).unwrap();
            let id = tube.take().unwrap().detach().id();
            tube.update(id).priority(1).apply().unwrap();
            clock.advance(secs(6));
            queue.tick().unwrap();
            clock.advance(secs(2000));
            queue.tick().unwrap();
            tube.delete(tube.put(&payload).unwrap()).unwrap();
            tube.put(&payload).unwrap();
            tube.take().unwrap().ack().unwrap();
            tube.put(&payload).unwrap();
            let _task = tube.take().unwrap();
            queue.close().unwrap();
            use Cause::*;
            let causes = [
                Put, Delay, Take, Touch, Release, Take, Retry, Delay, Take, Lost, Take, Bury, Kick,
                Take, Update, Ttr, Ttl, Put, Delete, Put, Take, Ack, Put, Take, Close,
            ];
            assert_eq!(told_whole(&plain), causes.map(|cause| (cause, None)));
            assert_eq!(told_whole(&whole), causes.map(|cause| (cause, Some(payload.clone()))));
        }
    }
}

#[test]
fn a_batch_makes_events_with_the_payload_of_each_task() {
    let (queue, _, tube) = queue();
    let events = queue.events_with(WHOLE);
    tube.put_many(payloads()).unwrap();
    let tasks = tube.take_many(4).unwrap();
    tube.ack_many(tasks).unwrap();
    let of = |cause| payloads().map(|payload| (cause, Some(payload)));
    assert_eq!(told_whole(&events), [of(Cause::Put), of(Cause::Take), of(Cause::Ack)].concat());
}

#[test]
fn a_transaction_makes_events_with_payloads_of_its_own_puts() {
    let (queue, _, tube) = queue();
    let events = queue.events_with(WHOLE);
    let [_, inline, beside, long] = payloads();
    tube.put(&beside).unwrap();
    let task = tube.take().unwrap();
    let within = queue.transact(|tx| {
        let within = queue.events_with(WHOLE);
        tx.ack(&task)?;
        tube.task(&inline).key("k").put_in(tx)?;
        tube.task(&long).key("k").on_conflict(Conflict::Replace).put_in(tx)?;
        ok(within)
    });
    let ends =
        [(Cause::Ack, Some(beside.clone())), (Cause::Put, Some(inline)), (Cause::Put, Some(long))];
    assert_eq!(told_whole(&within.unwrap()), ends);
    let begins = [(Cause::Put, Some(beside.clone())), (Cause::Take, Some(beside))];
    assert_eq!(told_whole(&events), [&begins[..], &ends].concat());
}

#[test]
fn payloads_are_kept_up_to_their_bound_and_the_newest_whatever_its_size() {
    let (queue, _, tube) = queue();
    let events = queue.events_with(WHOLE.bytes_kept(1000));
    let ids: Vec<_> = (0..5).map(|_| tube.put(&[1; 300]).unwrap()).collect();
    assert_eq!(events.dropped(), 2);
    assert_eq!(events.recv().unwrap().task, Some(ids[2]), "what is read makes room");
    tube.put(&[2; 400]).unwrap();
    assert_eq!(events.dropped(), 2);
    tube.put(&[3; 1001]).unwrap();
    assert_eq!(events.dropped(), 5);
    assert_eq!(told_whole(&events), [(Cause::Put, Some(vec![3; 1001]))]);
}

#[test]
fn a_payload_in_the_base_is_sent_and_a_damaged_one_stops_no_verb() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(&b"hello ".repeat(1000)).unwrap();
    tube.put(&b"needle".repeat(1000)).unwrap();
    tube.task(&b"needle".repeat(1000)).ttl(secs(9)).put().unwrap();
    close_sound(queue);
    drop(tube);
    let base = path.join("base.redb");
    let mut bytes = fs::read(&base).unwrap();
    (0..bytes.len() - 6).for_each(|at| {
        if bytes[at..].starts_with(b"needle") {
            bytes[at] ^= 0x20;
        }
    });
    fs::write(&base, bytes).unwrap();

    let queue = still().0.clock(clock.clone()).open(&path).unwrap();
    let (events, tube) = (queue.events_with(WHOLE), queue.find_tube("t").unwrap().unwrap());
    tube.take().unwrap().ack().unwrap();
    assert!(tube.try_take().unwrap().is_none(), "both are buried");
    tube.kick(1).unwrap();
    clock.advance(secs(9));
    queue.tick().unwrap();
    let hello = Some(b"hello ".repeat(1000));
    use Cause::*;
    assert_eq!(
        told_whole(&events),
        [
            (Take, hello.clone()),
            (Ack, hello),
            (Bury, None),
            (Bury, None),
            (Kick, None),
            (Ttl, None),
        ]
    );
}

#[test]
fn a_callback_gets_the_payload_if_it_asked() {
    let queue = Queue::in_memory().unwrap();
    let (reported, received) = mpsc::channel();
    let watch = |name: &'static str| {
        let reported = reported.clone();
        move |event: &Event| {
            reported.send((name, event.cause, event.payload().map(<[u8]>::to_vec))).unwrap();
        }
    };
    let (plain, whole) = (queue.tube("plain").unwrap(), queue.tube("whole").unwrap());
    plain.on_task_change(Some(watch("plain"))).unwrap();
    whole.on_task_change_with_payload(Some(watch("whole"))).unwrap();
    queue.tube("other").unwrap().put(b"b").unwrap();
    plain.put(b"a").unwrap();
    whole.put(b"a").unwrap();
    whole.take().unwrap().ack().unwrap();
    let a = || Some(b"a".to_vec());
    assert_eq!(
        received.iter().take(4).collect::<Vec<_>>(),
        [
            ("plain", Cause::Put, None),
            ("whole", Cause::Put, a()),
            ("whole", Cause::Take, a()),
            ("whole", Cause::Ack, a()),
        ]
    );
    whole.on_task_change(Some(watch("replaced"))).unwrap();
    whole.put(b"a").unwrap();
    assert_eq!(received.recv().unwrap(), ("replaced", Cause::Put, None));
    whole.on_task_change_with_payload(None::<fn(&Event)>).unwrap();
    whole.put(b"a").unwrap();
    queue.close().unwrap();
    assert_eq!(received.try_iter().count(), 0);
}
