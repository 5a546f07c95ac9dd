//! One task changed by its id, in every state, in one step.

use crate::disk::{Event, Recorder};
use crate::{kind, lone, lone_with, next, secs, still};
use std::time::{Duration, SystemTime};
use tubewell::{Cause, Clock, ErrorKind, Queue, State, TaskId, Tube, TubeKind, TubeOptions};

/// A task in each state.
fn one_each(tube: &Tube) -> [(State, TaskId); 4] {
    let buried = tube.put(b"buried").unwrap();
    tube.bury(buried, "no").unwrap();
    let taken = tube.put(b"taken").unwrap();
    tube.claim(taken).unwrap().detach();
    let delayed = tube.task(b"delayed").delay(secs(100)).put().unwrap();
    let ready = tube.put(b"ready").unwrap();
    [
        (State::Ready, ready),
        (State::Delayed, delayed),
        (State::Taken, taken),
        (State::Buried, buried),
    ]
}

#[test]
fn priority_ttl_and_ttr_change_in_every_state_which_stays() {
    let (tube, clock) = lone();
    for (state, id) in one_each(&tube) {
        clock.advance(secs(1));
        tube.update(id).priority(-3).ttl(secs(50)).ttr(secs(7)).apply().unwrap();
        let task = tube.peek(id).unwrap();
        assert_eq!((task.state, task.priority, task.ttr), (state, -3, Some(secs(7))));
        assert_eq!(task.ttl_left, Some(secs(50)), "{state:?}");
        assert_eq!(task.lease_left, (state == State::Taken).then_some(secs(7)));
    }
    assert_eq!(tube.stats().unwrap().calls.update, 4);
}

/// The row of a delay's end has a copy of the task's state, which changes with the task.
#[test]
fn a_delayed_task_becomes_ready_as_it_was_changed() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let noon = clock.wall();
    for put in [tube.task(b"late").delay(secs(5)), tube.task(b"late").run_at(noon + secs(10))] {
        let id = put.put().unwrap();
        tube.put(b"first").unwrap();
        tube.update(id).priority(-3).ttr(secs(7)).apply().unwrap();
        assert_eq!(queue.check().unwrap(), [""; 0]);
        clock.advance(secs(5));
        let late = tube.take().unwrap();
        assert_eq!((&late[..], late.priority(), late.ttr()), (&b"late"[..], -3, Some(secs(7))));
        late.ack().unwrap();
        tube.take().unwrap().ack().unwrap();
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }
}

#[test]
fn a_new_priority_keeps_the_place_in_the_order_of_puts() {
    let (tube, _) = lone();
    let [a, b, c] = [b"a", b"b", b"c"].map(|text| tube.put(text).unwrap());
    tube.update(c).priority(-1).apply().unwrap();
    tube.update(a).priority(-1).apply().unwrap();
    assert_eq!([next(&tube), next(&tube), next(&tube)], ["a", "c", "b"]);
    assert!(tube.peek(b).is_err());
}

#[test]
fn the_head_of_a_group_changes_with_a_priority() {
    let (tube, _) = lone();
    let put = |text: &[u8]| tube.task(text).group("g").put().unwrap();
    let [a, b, c] = [put(b"a"), put(b"b"), put(b"c")];
    tube.update(c).priority(-1).apply().unwrap();
    let task = tube.take().unwrap();
    assert_eq!(task.id(), c);
    // While the group is locked too.
    tube.update(b).priority(-2).apply().unwrap();
    assert!(tube.try_take().unwrap().is_none());
    task.ack().unwrap();
    tube.update(b).delay(secs(5)).apply().unwrap();
    assert_eq!(tube.take().unwrap().id(), a);
}

#[test]
fn a_task_in_hand_keeps_its_priority_for_its_return() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    tube.put(b"b").unwrap();
    tube.update(id).priority(1).apply().unwrap();
    assert_eq!(task.priority(), 0, "as it was taken");
    task.release().unwrap();
    assert_eq!([next(&tube), next(&tube)], ["b", "a"]);
}

#[test]
fn a_lease_without_a_deadline_gets_one_and_lapses() {
    let (tube, clock) = lone();
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    assert_eq!(task.time_left().unwrap(), None);
    tube.update(id).ttr(secs(5)).apply().unwrap();
    clock.advance(secs(4));
    task.renew().unwrap();
    assert_eq!(task.time_left().unwrap(), Some(secs(5)), "a renewal uses the new ttr");
    clock.advance(secs(5));
    assert!(task.ack().unwrap_err().is_lease_lost());
    tube.update(id).ttr(Duration::MAX).apply().unwrap();
    assert_eq!(tube.take().unwrap().ttr(), None);
}

#[test]
fn a_delay_is_ended_moved_and_given() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").delay(secs(100)).ttl(secs(10)).put().unwrap();
    let seen = || {
        let task = tube.peek(id).unwrap();
        (task.state, task.delay_left, task.ttl_left)
    };
    clock.advance(secs(60));
    assert_eq!(seen(), (State::Delayed, Some(secs(40)), Some(secs(10))));
    tube.update(id).delay(secs(5)).apply().unwrap();
    assert_eq!(seen(), (State::Delayed, Some(secs(5)), Some(secs(10))), "no delay costs ttl");
    tube.update(id).delay(Duration::ZERO).apply().unwrap();
    assert_eq!(seen(), (State::Ready, None, Some(secs(10))));
    clock.advance(secs(1));
    tube.update(id).delay(secs(5)).apply().unwrap();
    assert_eq!(seen(), (State::Delayed, Some(secs(5)), Some(secs(9))), "a ready one is delayed");
    clock.advance(secs(5));
    assert_eq!(next(&tube), "a");
}

#[test]
fn a_start_that_has_passed_is_now() {
    let (tube, clock) = lone();
    clock.set_wall(SystemTime::UNIX_EPOCH + secs(1000));
    let id = tube.task(b"a").delay(secs(100)).put().unwrap();
    tube.update(id).run_at(SystemTime::UNIX_EPOCH + secs(1001)).apply().unwrap();
    assert_eq!(tube.peek(id).unwrap().due, Some(SystemTime::UNIX_EPOCH + secs(1001)));
    assert!(tube.try_take().unwrap().is_none());
    tube.update(id).run_at(SystemTime::UNIX_EPOCH + secs(999)).apply().unwrap();
    assert_eq!(next(&tube), "a");
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let (tube, _) = lone();
    let [(_, ready), _, (_, taken), (_, buried)] = one_each(&tube);
    let gone = tube.put(b"gone").unwrap();
    tube.delete(gone).unwrap();
    let now = SystemTime::UNIX_EPOCH;
    for (refused, why) in [
        (tube.update(gone).priority(1).apply(), ErrorKind::TaskNotFound),
        (tube.update(taken).priority(1).delay(secs(1)).apply(), ErrorKind::WrongState),
        (tube.update(buried).priority(1).run_at(now).apply(), ErrorKind::WrongState),
        (tube.update(ready).priority(1).delay(secs(1)).run_at(now).apply(), ErrorKind::Invalid),
        (tube.update(ready).priority(1).ttl(Duration::ZERO).apply(), ErrorKind::Invalid),
        (tube.update(ready).priority(1).ttr(Duration::ZERO).apply(), ErrorKind::Invalid),
    ] {
        assert_eq!(kind(refused), why);
    }
    for id in [ready, taken, buried] {
        assert_eq!(tube.peek(id).unwrap().priority, 0);
    }
    assert_eq!(tube.stats().unwrap().calls.update, 0);
}

#[test]
fn an_option_is_refused_where_the_kind_does_not_have_it() {
    let (tube, _) = lone_with(TubeOptions::new(TubeKind::Fifo));
    let id = tube.put(b"a").unwrap();
    for refused in [
        tube.update(id).priority(1).apply(),
        tube.update(id).delay(secs(1)).apply(),
        tube.update(id).run_at(SystemTime::now()).apply(),
        tube.update(id).ttl(secs(1)).apply(),
        tube.update(id).ttr(secs(1)).apply(),
    ] {
        assert_eq!(kind(refused), ErrorKind::Unsupported);
    }
    tube.update(id).apply().unwrap();
}

#[test]
fn it_makes_one_event_and_none_if_nothing_changes() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    let events = queue.events();
    tube.update(id).priority(2).delay(secs(1)).apply().unwrap();
    let event = events.try_recv().unwrap();
    assert_eq!(
        (event.task, event.from, event.to, event.cause),
        (Some(id), Some(State::Ready), Some(State::Delayed), Cause::Update)
    );
    tube.update(id).priority(2).apply().unwrap();
    tube.update(id).apply().unwrap();
    assert!(events.try_recv().is_none());
}

#[test]
fn a_waiting_taker_gets_a_task_whose_delay_is_ended() {
    let tube = Queue::in_memory().unwrap().tube("t").unwrap();
    let id = tube.task(b"a").delay(secs(10_000)).put().unwrap();
    let taker = std::thread::spawn({
        let tube = tube.clone();
        move || tube.take().unwrap().id()
    });
    crate::until_waiting(&tube, 1);
    tube.update(id).delay(Duration::ZERO).apply().unwrap();
    assert_eq!(taker.join().unwrap(), id);
}

#[test]
fn an_update_lasts() {
    let (_home, path) = crate::home();
    let open = || crate::open(&path);
    let id = {
        let queue = open();
        let tube = queue.tube("t").unwrap();
        tube.put(b"first").unwrap();
        let id = tube.task(b"second").delay(secs(1000)).put().unwrap();
        tube.update(id).priority(-1).delay(Duration::ZERO).ttr(secs(9)).apply().unwrap();
        queue.close().unwrap();
        id
    };
    let queue = open();
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    let task = queue.tube("t").unwrap().take().unwrap();
    assert_eq!((task.id(), task.priority(), task.ttr()), (id, -1, Some(secs(9))));
}

/// The lease of an earlier process has no deadline before it is resumed; a new ttr gave it one, and
/// its task returned within the grace.
#[test]
fn a_lease_that_waits_for_its_consumer_gets_the_ttr_when_it_is_resumed() {
    let (_home, path) = crate::home();
    let (builder, _clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.task(b"a").ttr(secs(30)).put().unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    tube.by(&ada).take().unwrap().detach();
    let (_copy, path) = crate::killed(&path);
    queue.close().unwrap();

    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.update(id).ttr(secs(5)).apply().unwrap();
    clock.advance(secs(50));
    queue.tick().unwrap();
    assert_eq!(tube.peek(id).unwrap().state, State::Taken);
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let mut resumed = ada.resume(&tube);
    let task = resumed.next().unwrap().unwrap();
    assert_eq!(task.time_left().unwrap(), Some(secs(5)));
    assert!(resumed.next().is_none());
}

/// Two records would be torn apart by a power cut.
#[test]
fn an_update_of_everything_is_one_write_and_one_sync() {
    let disk = Recorder::default();
    let queue = still().0.disk(disk.lend()).open_disk().unwrap();
    let tube = queue.tube("t").unwrap();
    for (state, id) in one_each(&tube) {
        disk.begin();
        let update = tube.update(id).priority(-1).ttr(secs(7)).ttl(secs(50));
        match state {
            State::Ready | State::Delayed => update.delay(secs(5)).apply().unwrap(),
            _ => update.apply().unwrap(),
        }
        let events = disk.events();
        let writes = events.iter().filter(|event| matches!(event, Event::Write(..))).count();
        assert!(events.iter().all(|event| event.file() == 1), "{state:?}: the journal alone");
        assert_eq!((writes, events.len() - writes), (1, 1), "{state:?}");
    }
}

#[test]
fn a_new_ttl_of_a_task_in_hand_ends_its_lease_where_it_comes_first() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").ttr(secs(60)).put().unwrap();
    let task = tube.take().unwrap();
    clock.advance(secs(1));
    tube.update(id).ttl(secs(5)).apply().unwrap();
    assert_eq!(task.time_left().unwrap(), Some(secs(5)));
    tube.update(id).ttl(secs(600)).apply().unwrap();
    assert_eq!(task.time_left().unwrap(), Some(secs(59)), "the ttr comes first again");
    tube.update(id).ttl(secs(5)).apply().unwrap();
    clock.advance(secs(5));
    assert!(task.ack().unwrap_err().is_lease_lost());
    assert!(crate::is_gone(&tube, id), "it does not return");
}

#[test]
fn a_new_priority_moves_a_buried_task_among_those_to_kick() {
    let (tube, _) = lone();
    let [a, b, c] = [b"a", b"b", b"c"].map(|text| tube.put(text).unwrap());
    for id in [a, b, c] {
        tube.bury(id, "").unwrap();
    }
    tube.update(c).priority(-1).apply().unwrap();
    tube.update(a).priority(1).apply().unwrap();
    assert_eq!(crate::listed(&tube, State::Buried), "c b a");
    assert_eq!(tube.kick(1).unwrap().kicked, 1);
    assert_eq!(tube.peek_next(State::Ready).unwrap().unwrap().id, c);
    assert_eq!(tube.kick(2).unwrap().kicked, 2);
    assert_eq!([next(&tube), next(&tube), next(&tube)], ["c", "b", "a"]);
}
