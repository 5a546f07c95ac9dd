//! What an event says of a step besides the step: who held the task, why it failed, where it went;
//! what reaches one consumer; and the order of the events of one call.

use crate::{kind, ok, secs, still};
use std::sync::mpsc::{Receiver, channel};
use tubewell::{
    Cause, Conflict, ErrorKind, Event, EventFilter, EventOptions, Events, HistoryEvent, Lapse,
    ManualClock, Queue, Retention, Retry, State, Subscription, Task, Tube, TubeOptions, Unique,
};

const TAKEN: Option<State> = Some(State::Taken);
const READY: Option<State> = Some(State::Ready);

/// The tube, the step, its cause, and who held the task.
type Step = (String, Option<State>, Option<State>, Cause, Option<String>);

fn step(tube: &str, from: Option<State>, to: Option<State>, cause: Cause, by: &str) -> Step {
    (tube.to_owned(), from, to, cause, Some(by.to_owned()).filter(|by| !by.is_empty()))
}

fn step_of(event: &Event) -> Step {
    (event.tube.to_string(), event.from, event.to, event.cause, event.holder().map(str::to_owned))
}

/// Puts the task of the key again.
fn again(tube: &Tube) {
    tube.task(b"new").key("k").on_conflict(Conflict::Replace).put().unwrap();
}

/// Two tubes with the same keys.
fn two() -> (Queue, [Tube; 2]) {
    let queue = still().0.in_memory().unwrap();
    let unique = Unique::new().in_queue(true).done(true);
    let options = TubeOptions::default().unique(unique).keep_finished(Retention::new());
    let tubes = ["a", "b"].map(|name| queue.create_tube(name, options.clone()).unwrap());
    (queue, tubes)
}

fn all(events: &Events) -> Vec<Event> {
    std::iter::from_fn(|| events.try_recv()).collect()
}

/// The put has another payload than the finished task had, which is in no event of that.
#[test]
fn the_end_of_a_finished_task_that_is_put_again_has_no_payload() {
    for to in [0, 1] {
        let (queue, tubes) = two();
        let old = tubes[0].task(b"old").key("k").put().unwrap();
        tubes[0].take().unwrap().ack().unwrap();
        let events = queue.events_with(EventOptions::new().payloads());
        again(&tubes[to]);
        let told = all(&events);
        let of = |it: &Event| (it.task == Some(old), it.cause, it.payload().map(<[u8]>::to_vec));
        let told: Vec<_> = told.iter().map(of).collect();
        assert_eq!(told, [(false, Cause::Put, Some(b"new".to_vec())), (true, Cause::Delete, None)]);
    }
}

#[test]
fn the_history_of_a_task_that_is_put_again_elsewhere_names_the_tube_that_it_left() {
    for is_done in [false, true] {
        let (_queue, [a, b]) = two();
        a.task(b"old").key("k").put().unwrap();
        if is_done {
            a.take().unwrap().ack().unwrap();
        }
        again(&b);
        again(&b);
        let id = b.peek_next(State::Ready).unwrap().unwrap().id;
        let entries = b.history(id).unwrap().entries;
        let puts = entries.into_iter().filter(|it| it.event == HistoryEvent::PutAgain);
        let left: Vec<_> = puts.map(|entry| (entry.tube, entry.group)).collect();
        assert_eq!(left, [(Some("a".to_owned()), None), (None, None)]);
    }
}

/// A queue with a tube whose leases lapse after a grace, and the clock.
fn graced(options: TubeOptions) -> (Queue, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = options.ttr(secs(10)).lapse(Lapse::new().grace(secs(5)));
    let tube = queue.create_tube("t", options).unwrap();
    (queue, tube, clock)
}

/// What `filter` passes, from now on.
fn noticed(queue: &Queue, filter: EventFilter) -> (Subscription, Receiver<Event>) {
    let (sender, received) = channel();
    let report = move |event: &Event| drop(sender.send(event.clone()));
    (queue.on_event(filter, report).unwrap(), received)
}

type End = fn(&Queue, &Tube, Task);

/// Every way in which a lease is got, kept and ended.
const ENDS: [(End, Cause); 20] = [
    (|_, _, task| task.ack().unwrap(), Cause::Ack),
    (|_, _, task| task.release().unwrap(), Cause::Release),
    (|_, _, task| task.retry("no").unwrap(), Cause::Retry),
    (|_, _, task| task.bury("no").unwrap(), Cause::Bury),
    (|_, _, task| task.fail("g", "no").unwrap(), Cause::Bury),
    (|_, _, task| task.trash("no").unwrap(), Cause::Trash),
    (|_, _, task| drop(task), Cause::Lost),
    (|queue, _, mut task| task.advance(&queue.tube("next").unwrap()).unwrap(), Cause::Advance),
    (|_, tube, task| tube.force_timeout(&[task.id()]).unwrap(), Cause::Timeout),
    (|_, tube, task| tube.delete(task.id()).unwrap(), Cause::Delete),
    (|_, tube, task| assert_eq!(tube.delete_many(&[task.id()]).unwrap(), 1), Cause::Delete),
    (|_, tube, task| tube.bury(task.id(), "no").unwrap(), Cause::Bury),
    (|_, tube, task| assert!(tube.fail_by_id(task.id(), "g", "no").unwrap()), Cause::Bury),
    (|_, tube, task| tube.trash(task.id(), "no").unwrap(), Cause::Trash),
    (|_, tube, task| assert!(tube.complete_by_id(task.id()).unwrap()), Cause::Ack),
    (|_, tube, _| again(tube), Cause::Put),
    (
        |queue, tube, task| {
            tube.move_to(task.id(), &queue.tube("next").unwrap()).apply().unwrap();
        },
        Cause::Move,
    ),
    (|_, tube, _| tube.release_all().unwrap(), Cause::Release),
    (
        |queue, _, task| {
            task.touch(secs(1)).unwrap();
            task.detach();
            queue.deregister(&["ada"]).unwrap();
        },
        Cause::Lost,
    ),
    (|queue, _, _| queue.close().unwrap(), Cause::Close),
];

#[test]
fn every_step_of_a_lease_names_its_consumer() {
    for (place, (end, cause)) in ENDS.into_iter().enumerate() {
        for (name, options) in [("ada", false), ("ada", true), ("", false)] {
            let (queue, tube, _clock) = graced(TubeOptions::default().temporary(options));
            queue.tube("next").unwrap();
            let ada = queue.consumer("ada").unwrap();
            tube.task(b"old").key("k").put().unwrap();
            let events = queue.events();
            let by = if name.is_empty() { tube.clone() } else { tube.by(&ada) };
            let task = by.take().unwrap();
            if options && matches!(cause, Cause::Advance | Cause::Move)
                || name.is_empty() && cause == Cause::Lost && place > 6
            {
                // Not between these tubes; not its lease.
                continue;
            }
            end(&queue, &tube, task);
            if cause != Cause::Close {
                queue.tick().unwrap();
            }
            let told = all(&events);
            let told: Vec<_> = told.iter().filter(|event| event.task.is_some()).collect();
            assert_eq!(step_of(told[0]), step("t", READY, TAKEN, Cause::Take, name));
            let held = told.iter().skip(1).filter(|event| event.from == TAKEN);
            let held: Vec<_> = held.map(|event| (event.cause, event.holder())).collect();
            let holder = Some(name).filter(|name| !name.is_empty());
            assert_eq!(held.last(), Some(&(cause, holder)), "end {place} by {name:?}");
            assert!(held.iter().all(|(_, by)| *by == holder));
            let others = told.iter().filter(|event| event.from != TAKEN && event.to != TAKEN);
            assert!(others.into_iter().all(|event| event.holder().is_none()));
        }
    }
}

#[test]
fn a_lapse_and_the_end_of_a_ttl_name_the_consumer() {
    let (queue, tube, clock) = graced(TubeOptions::default());
    let ada = queue.consumer("ada").unwrap();
    let events = queue.events();
    tube.task(b"a").ttl(secs(40)).put().unwrap();
    for _ in 0..2 {
        tube.by(&ada).take().unwrap().detach();
        clock.advance(secs(15));
        queue.tick().unwrap();
    }
    tube.by(&ada).take().unwrap().detach();
    clock.advance(secs(10));
    queue.tick().unwrap();
    let told: Vec<_> = all(&events).iter().map(step_of).collect();
    let lapse = [
        step("t", READY, TAKEN, Cause::Take, "ada"),
        step("t", TAKEN, TAKEN, Cause::Stall, "ada"),
        step("t", TAKEN, READY, Cause::Ttr, "ada"),
    ];
    let put = [step("t", None, READY, Cause::Put, "")];
    let ttl = [step("t", TAKEN, None, Cause::Ttl, "ada")];
    assert_eq!(told, [&put, &lapse[..], &lapse, &lapse[..1], &ttl].concat());
}

#[test]
fn an_adopted_task_is_its_new_consumers() {
    let (queue, tube, _clock) = graced(TubeOptions::default());
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let bob = queue.consumer("bob").unwrap();
    tube.put(b"a").unwrap();
    tube.by(&ada).take().unwrap().detach();
    drop(ada);
    let events = queue.events();
    let adopted = bob.adopt("ada").unwrap();
    let task = adopted.tasks(&tube).next().unwrap().unwrap();
    task.ack().unwrap();
    let told: Vec<_> = all(&events).iter().map(step_of).collect();
    let touch = step("t", TAKEN, TAKEN, Cause::Touch, "bob");
    assert_eq!(told, [touch, step("t", TAKEN, None, Cause::Ack, "bob")]);
}

#[test]
fn a_failure_is_told_with_its_group_and_its_message() {
    let (queue, tube, clock) = graced(TubeOptions::default().max_attempts(3));
    let long = "é".repeat(3000);
    let events = queue.events();
    let seen = |told: (Option<&str>, Option<&str>), cause: Cause| {
        queue.tick().unwrap();
        let all = all(&events);
        let last = all.iter().rfind(|event| event.cause == cause).unwrap();
        assert_eq!((last.failure_group(), last.message()), told, "{last:?}");
        let others = all.iter().filter(|event| event.cause != cause);
        assert!(others.into_iter().all(|it| it.failure_group().or(it.message()).is_none()));
    };
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().retry_after("no answer", secs(0)).unwrap();
    seen((None, Some("no answer")), Cause::Retry);
    let terms = Retry::new(&long).group(&long).after(secs(0));
    tube.take().unwrap().retry_with(terms).unwrap();
    // As they are stored.
    seen((Some(&long[..270]), Some(&long[..4096])), Cause::Retry);
    // The text of an earlier failure is not that of a release.
    tube.take().unwrap().release().unwrap();
    seen((None, None), Cause::Release);
    tube.take().unwrap().detach();
    clock.advance(secs(15));
    seen((Some(&long[..270]), Some(&long[..4096])), Cause::Ttr);
    // It stays buried.
    tube.update(id).priority(1).apply().unwrap();
    seen((None, None), Cause::Update);
    tube.kick_task(id).unwrap();
    seen((None, None), Cause::Kick);
    tube.take().unwrap().fail("network", "gone").unwrap();
    seen((Some("network"), Some("gone")), Cause::Bury);
    tube.trash(id, "old").unwrap();
    seen((None, Some("old")), Cause::Trash);
    tube.restore(id).unwrap();
    seen((None, None), Cause::Restore);
    tube.bury(id, "by hand").unwrap();
    seen((None, Some("by hand")), Cause::Bury);
    tube.delete(id).unwrap();
    seen((None, None), Cause::Delete);
    // An empty text is none.
    tube.put(b"b").unwrap();
    tube.take().unwrap().retry_with(Retry::new("").after(secs(0))).unwrap();
    seen((None, None), Cause::Retry);
}

#[test]
fn who_has_used_up_its_attempts_stands_in_the_group_of_its_tube() {
    let (queue, tube, clock) = graced(TubeOptions::default().max_attempts(1));
    tube.put(b"a").unwrap();
    tube.take().unwrap().detach();
    let (_subscribed, failed) = noticed(&queue, EventFilter::new().to(State::Buried));
    clock.advance(secs(15));
    queue.tick().unwrap();
    let told: Vec<Event> = failed.try_iter().collect();
    let told: Vec<_> = told.iter().map(|it| (it.failure_group(), it.message())).collect();
    assert_eq!(told, [(Some("failed-retries-t"), None)]);
}

#[test]
fn the_generation_of_the_payload_is_the_one_after_the_step() {
    for temporary in [false, true] {
        let (queue, tube, _clock) = graced(TubeOptions::default().temporary(temporary));
        let events = queue.events();
        let mut seen = Vec::new();
        let mut next =
            || seen.extend(all(&events).iter().map(|it| (it.cause, it.payload_generation())));
        tube.task(b"a").key("k").put().unwrap();
        let mut task = tube.take().unwrap();
        task.with_payload(b"b").renew().unwrap();
        task.release().unwrap();
        next();
        again(&tube);
        let id = tube.peek_next(State::Ready).unwrap().unwrap().id;
        assert_eq!(tube.peek(id).unwrap().payload_generation, 2);
        tube.take().unwrap().ack().unwrap();
        next();
        use Cause::*;
        let generations =
            [(Put, 0), (Take, 0), (Touch, 1), (Release, 1), (Put, 2), (Take, 2), (Ack, 2)];
        assert_eq!(seen, generations);
    }
}

#[test]
fn who_leaves_a_tube_is_told_with_the_next_one() {
    let (queue, [a, b]) = two();
    let events = queue.events();
    let id = a.task(b"old").key("k").put().unwrap();
    a.take().unwrap().advance(&b).unwrap();
    b.move_to(id, &a).apply().unwrap();
    a.take().unwrap().advance(&a).unwrap();
    again(&b);
    again(&b);
    let told: Vec<_> = all(&events);
    let ways = told.iter().map(|it| (it.cause, it.to.is_none(), it.to_tube()));
    let ways: Vec<_> = ways.filter(|(cause, ..)| *cause != Cause::Take).collect();
    use Cause::*;
    let (to_a, to_b) = (Some("a"), Some("b"));
    let expected = [
        (Put, false, None),
        (Advance, true, to_b),
        (Move, false, None),
        (Move, true, to_a),
        (Move, false, None),
        (Advance, true, to_a),
        (Move, false, None),
        (Put, false, None),
        (Move, true, to_b),
        (Put, false, None),
    ];
    assert_eq!(ways, expected);
}

/// What a reader and a callback are told of `act`, which must be the same, and what is told to ada.
fn sequence(queue: &Queue, act: impl FnOnce()) -> (Vec<Step>, Vec<Step>) {
    let events = queue.events();
    let (_all, every) = noticed(queue, EventFilter::new());
    let (_hers, hers) = noticed(queue, EventFilter::new().consumer("ada"));
    act();
    queue.tick().unwrap();
    let read: Vec<_> = all(&events).iter().map(step_of).collect();
    let called: Vec<_> = every.try_iter().map(|event| step_of(&event)).collect();
    assert_eq!(read, called);
    (read, hers.try_iter().map(|event| step_of(&event)).collect())
}

#[test]
fn a_put_comes_before_the_loss_of_the_lease_that_it_ends() {
    let (queue, [a, b]) = two();
    let ada = queue.consumer("ada").unwrap();
    a.task(b"old").key("k").put().unwrap();
    let _task = a.by(&ada).take().unwrap();
    // In its tube it is one change, which is both.
    let (told, hers) = sequence(&queue, || again(&a));
    assert_eq!(told, [step("a", TAKEN, READY, Cause::Put, "ada")]);
    assert_eq!(hers, told);

    let _task = a.by(&ada).take().unwrap();
    let (told, hers) = sequence(&queue, || again(&b));
    let lost = step("a", TAKEN, None, Cause::Move, "ada");
    assert_eq!(told, [step("b", None, READY, Cause::Put, ""), lost.clone()]);
    assert_eq!(hers, [lost]);
}

#[test]
fn a_stall_comes_before_the_loss_and_that_before_the_failure() {
    let (queue, tube, clock) = graced(TubeOptions::default().max_attempts(1));
    let ada = queue.consumer("ada").unwrap();
    let bob = queue.consumer("bob").unwrap();
    tube.put(b"a").unwrap();
    let task = tube.by(&ada).take().unwrap();
    // The loss and the failure are one change.
    let expected = [
        step("t", TAKEN, TAKEN, Cause::Stall, "ada"),
        step("t", TAKEN, Some(State::Buried), Cause::Ttr, "ada"),
    ];
    let (told, hers) = sequence(&queue, || {
        clock.advance(secs(15));
    });
    assert_eq!((told, hers), (expected.to_vec(), expected.to_vec()));
    assert!(task.ack().unwrap_err().is_lease_lost());

    // Of two tasks in one sweep: each in its order, and only hers to ada.
    tube.put_many([*b"b", *b"c"]).unwrap();
    let _hers = tube.by(&ada).take().unwrap();
    let _his = tube.by(&bob).take().unwrap();
    let (told, hers) = sequence(&queue, || {
        clock.advance(secs(15));
    });
    let his =
        expected.clone().map(|(tube, from, to, cause, _)| step(&tube, from, to, cause, "bob"));
    let [stall, loss] = expected.clone();
    let [his_stall, his_loss] = his;
    assert_eq!(told, [stall, his_stall, loss, his_loss]);
    assert_eq!(hers, expected);
}

#[test]
fn a_cancelled_task_is_told_once_with_its_holder() {
    let (queue, tube, _clock) = graced(TubeOptions::default());
    let ada = queue.consumer("ada").unwrap();
    let id = tube.put(b"a").unwrap();
    let task = tube.by(&ada).take().unwrap();
    let (told, hers) = sequence(&queue, || {
        tube.delete(id).unwrap();
        drop(task);
    });
    assert_eq!(told, [step("t", TAKEN, None, Cause::Delete, "ada")]);
    assert_eq!(hers, told);
}

#[test]
fn a_transaction_has_the_words_of_each_of_its_steps() {
    let (queue, tube, _clock) = graced(TubeOptions::default());
    let (ada, bob) = (queue.consumer("ada").unwrap(), queue.consumer("bob").unwrap());
    tube.put_many([*b"a", *b"b", *b"c"]).unwrap();
    let hers = tube.by(&ada).take().unwrap();
    let his = tube.by(&bob).take().unwrap();
    let whole = queue.events_with(EventOptions::new().payloads());
    let act = || {
        let done = queue.transact(|tx| {
            tube.put_in(tx, b"d")?;
            tx.ack(&hers)?;
            tube.put_in(tx, b"e")?;
            tx.ack(&his)?;
            ok(())
        });
        done.unwrap();
    };
    let (told, noticed) = sequence(&queue, act);
    let put = step("t", None, READY, Cause::Put, "");
    let ack = |by: &str| step("t", TAKEN, None, Cause::Ack, by);
    assert_eq!(told, [put.clone(), ack("ada"), put, ack("bob")]);
    assert_eq!(noticed, [ack("ada")]);
    let payloads = all(&whole).into_iter().map(|event| event.payload().map(<[u8]>::to_vec));
    assert_eq!(payloads.flatten().collect::<Vec<_>>(), [b"d", b"a", b"e", b"b"]);
}

#[test]
fn a_filter_by_consumers() {
    let (queue, tube, _clock) = graced(TubeOptions::default());
    let names = ["ada", "bob", "eve"];
    let consumers = names.map(|name| queue.consumer(name).unwrap());
    let filter =
        |names: &[&str]| names.iter().fold(EventFilter::new(), |it, name| it.consumer(name));
    let two = filter(&["ada", "eve"]);
    let subscribed = [two.clone(), two.cause(Cause::Ack), filter(&["zoe"])];
    let subscribed = subscribed.map(|filter| noticed(&queue, filter));
    for consumer in &consumers {
        tube.put(b"a").unwrap();
        tube.by(consumer).take().unwrap().ack().unwrap();
    }
    tube.put(b"a").unwrap();
    tube.take().unwrap().ack().unwrap();
    queue.tick().unwrap();
    let told = subscribed.map(|(_, received)| {
        received
            .try_iter()
            .map(|it| (it.cause, it.holder().unwrap().to_owned()))
            .collect::<Vec<_>>()
    });
    let of = |cause, name: &str| (cause, name.to_owned());
    let (ada, eve) = (of(Cause::Ack, "ada"), of(Cause::Ack, "eve"));
    let every = [of(Cause::Take, "ada"), ada.clone(), of(Cause::Take, "eve"), eve.clone()];
    assert_eq!(told, [every.to_vec(), vec![ada, eve], vec![]]);

    let subscribe = |name: &str| queue.on_event(EventFilter::new().consumer(name), |_| ());
    assert!(subscribe(&"n".repeat(255)).is_ok());
    for name in [String::new(), "n".repeat(256), "line\nbreak".to_owned()] {
        let error = subscribe(&name).unwrap_err();
        assert!(error.to_string().contains("on_event: "), "{error}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(kind(queue.consumer(&name)), ErrorKind::Invalid, "as elsewhere");
    }
}

#[test]
fn texts_count_as_bytes_that_a_reader_keeps() {
    let (queue, tube, _clock) = graced(TubeOptions::default());
    let events = queue.events_with(EventOptions::new().bytes_kept(1000));
    for _ in 0..3 {
        tube.put(b"a").unwrap();
        tube.take().unwrap().fail("g", "m".repeat(499)).unwrap();
    }
    assert_eq!(events.dropped(), 3, "two failures fit, and what came after the first");
    assert_eq!(all(&events).len(), 6);
}
