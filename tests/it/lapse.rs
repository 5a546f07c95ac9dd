//! What a tube does when the ttr of a lease passes: a grace, where the task returns to, and whether
//! the attempt counts.

use crate::{
    close_sound, counts, drain, home, killed, kind, lone_with, open, resumed, secs, state,
};
use crate::{is_gone, next, still, waiting};
use std::time::Duration;
use tubewell::{
    Cause, ErrorKind, Lapse, ManualClock, Phase, Place, Placement, PutView, Queue, Reason, Release,
    Result, Retention, ReturnTo, State, Task, TaskId, Tube, TubeKind, TubeOptions, WhyNot,
};

fn with(lapse: Lapse) -> (Queue, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = TubeOptions::default().ttr(secs(10)).lapse(lapse);
    let tube = queue.create_tube("lone", options).unwrap();
    (queue, tube, clock)
}

fn graced() -> (Queue, Tube, ManualClock) {
    with(Lapse::new().grace(secs(5)))
}

fn one(tube: &Tube) -> Task {
    tube.put(b"a").unwrap();
    tube.take().unwrap()
}

#[test]
fn a_stalled_task_stays_with_its_holder_until_its_grace_ends() {
    let (_, tube, clock) = graced();
    let task = one(&tube);
    clock.advance(secs(10));
    let info = tube.peek(task.id()).unwrap();
    assert_eq!((info.state, info.is_stalled()), (State::Taken, true));
    assert_eq!((info.lease_left, info.grace_left), (Some(secs(0)), Some(secs(5))));
    assert_eq!(task.time_left().unwrap(), Some(secs(0)));
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(secs(5) - Duration::from_micros(1));
    assert_eq!(task.time_left().unwrap(), Some(secs(0)));
    clock.advance(Duration::from_micros(1));
    assert!(task.time_left().unwrap_err().is_lease_lost());
    assert!(task.ack().unwrap_err().is_lease_lost());
    let info = tube.peek_next(State::Ready).unwrap().unwrap();
    assert_eq!((info.attempts, info.is_stalled()), (1, false));
    let calls = tube.stats().unwrap().calls;
    assert_eq!((calls.stall, calls.ttr, calls.lost), (1, 1, 0));
}

#[test]
fn every_verdict_settles_a_stalled_task() {
    type Verdict = fn(Task, &Tube);
    let verdicts: [(Verdict, [u64; 4]); 12] = [
        (|task, _| task.ack().unwrap(), [0, 0, 0, 0]),
        (|task, _| task.ack_with(b"r").unwrap(), [0, 0, 0, 0]),
        (|task, _| task.release().unwrap(), [1, 0, 0, 0]),
        (|task, _| task.release_with(Release::new().delay(secs(1))).unwrap(), [0, 1, 0, 0]),
        (|task, _| task.retry_after("no", secs(1)).unwrap(), [0, 1, 0, 0]),
        (|task, _| task.bury("no").unwrap(), [0, 0, 0, 1]),
        (|task, _| task.fail("g", "no").unwrap(), [0, 0, 0, 1]),
        (|mut task, tube| task.advance(tube).unwrap(), [1, 0, 0, 0]),
        (|mut task, _| task.with_payload(b"n").ack().unwrap(), [0, 0, 0, 0]),
        (|mut task, _| task.with_payload(b"n").release().unwrap(), [1, 0, 0, 0]),
        (|mut task, _| task.with_payload(b"n").fail("g", "no").unwrap(), [0, 0, 0, 1]),
        (|task, _| drop(task), [1, 0, 0, 0]),
    ];
    for (settle, after) in verdicts {
        let (_, tube, clock) = graced();
        tube.set("keep_finished", Retention::new()).unwrap();
        let task = one(&tube);
        clock.advance(secs(12));
        settle(task, &tube);
        assert_eq!(counts(&tube), after);
        let states = [State::Ready, State::Delayed, State::Buried];
        let left = states.into_iter().find_map(|state| tube.peek_next(state).unwrap());
        assert!(left.is_none_or(|task| !task.is_stalled()));
        clock.advance(secs(60));
        assert_eq!(tube.stats().unwrap().calls.ttr, 0, "its deadline went with the lease");
    }
}

#[test]
fn what_is_reported_in_the_grace_is_kept_and_leaves_the_stall() {
    type Report = fn(&Task);
    let reports: [Report; 4] = [
        |task| task.start("m").unwrap(),
        |task| task.progress(50, "half").unwrap(),
        |task| task.checkpoint(b"c").unwrap(),
        |task| task.log("line").unwrap(),
    ];
    let (_, tube, clock) = graced();
    let task = one(&tube);
    clock.advance(secs(12));
    for report in reports {
        report(&task);
        assert_eq!(tube.peek(task.id()).unwrap().grace_left, Some(secs(3)));
    }
    let info = tube.peek(task.id()).unwrap();
    assert!(matches!(info.phase, Some(Phase::Started { .. })));
    assert_eq!(info.progress.as_ref().map(|progress| progress.percent), Some(50));
    assert_eq!(task.last_checkpoint().unwrap().as_deref(), Some(&b"c"[..]));
    clock.advance(secs(3));
    for refused in [task.start("m"), task.progress(1, ""), task.checkpoint(b"c"), task.log("no")] {
        assert!(refused.unwrap_err().is_lease_lost());
    }
}

#[test]
fn a_renew_or_a_long_touch_ends_the_stall_and_the_next_lapse_has_a_grace_again() {
    type Renewal = fn(&mut Task);
    let renewals: [(Renewal, u64); 4] = [
        (|task| task.renew().unwrap(), 10),
        (|task| task.renew_for(secs(3)).unwrap(), 3),
        (|task| task.touch(secs(9)).unwrap(), 7), // from the end of the ttr on
        (|task| task.with_payload(b"later").renew().unwrap(), 10),
    ];
    for (renew, left) in renewals {
        let (_, tube, clock) = graced();
        let mut task = one(&tube);
        clock.advance(secs(12));
        renew(&mut task);
        let info = tube.peek(task.id()).unwrap();
        assert_eq!((info.is_stalled(), info.lease_left), (false, Some(secs(left))));
        assert_eq!(task.time_left().unwrap(), Some(secs(left)));
        clock.advance(secs(left));
        assert_eq!(tube.peek(task.id()).unwrap().grace_left, Some(secs(5)));
        clock.advance(secs(5));
        assert_eq!(state(&tube, task.id()), State::Ready);
        assert_eq!(tube.stats().unwrap().calls.stall, 2);
    }
}

#[test]
fn a_touch_that_ends_in_the_past_moves_the_grace_with_it() {
    let (_, tube, clock) = graced();
    let task = one(&tube);
    clock.advance(secs(13));
    task.touch(secs(2)).unwrap();
    assert_eq!(tube.peek(task.id()).unwrap().grace_left, Some(secs(4)));
    task.touch(secs(1)).unwrap(); // to this instant
    assert_eq!(tube.peek(task.id()).unwrap().grace_left, Some(secs(5)));
    clock.advance(secs(5));
    assert_eq!(state(&tube, task.id()), State::Ready);
}

#[test]
fn a_new_ttr_ends_the_stall_and_another_change_does_not() {
    let (_, tube, clock) = graced();
    let task = one(&tube);
    clock.advance(secs(12));
    tube.update(task.id()).priority(3).apply().unwrap();
    assert_eq!(tube.peek(task.id()).unwrap().grace_left, Some(secs(3)));
    tube.update(task.id()).ttr(secs(4)).apply().unwrap();
    let info = tube.peek(task.id()).unwrap();
    assert_eq!((info.grace_left, info.lease_left, info.priority), (None, Some(secs(4)), 3));
    task.ack().unwrap();
}

#[test]
fn a_stalled_task_keeps_its_group_locked() {
    let (_, tube, clock) = graced();
    for name in [b"a", b"b"] {
        tube.task(name).group("g").put().unwrap();
    }
    let task = tube.take().unwrap();
    clock.advance(secs(14));
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(secs(1));
    assert_eq!(drain(&tube), "a b");
    drop(task);
}

/// Gates that one task in flight closes: a limit of its tube, a throttle of its tube, and a
/// throttle of its own.
#[derive(Clone, Copy, Debug)]
struct Closing {
    limit: bool,
    of_tube: bool,
    of_task: bool,
}

/// Each alone, so that no other one holds a taker back, and all.
const CLOSING: [Closing; 4] = [
    Closing { limit: true, of_tube: false, of_task: false },
    Closing { limit: false, of_tube: true, of_task: false },
    Closing { limit: false, of_tube: false, of_task: true },
    Closing { limit: true, of_tube: true, of_task: true },
];

impl Closing {
    /// Two tubes behind these gates; the second is temporary.
    fn tubes(self) -> (Queue, [Tube; 2], ManualClock) {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        for name in ["of tube", "of task"] {
            queue.set_throttle(name, 1).unwrap();
        }
        let lapse = Lapse::new().grace(secs(5)).to(ReturnTo::Back);
        let options = TubeOptions::default().ttr(secs(10)).lapse(lapse).limit(self.limit.into());
        let options = if self.of_tube { options.throttle("of tube") } else { options };
        let make = |name, temporary| {
            queue.create_tube(name, options.clone().temporary(temporary)).unwrap()
        };
        let tubes = [make("a", false), make("b", true)];
        (queue, tubes, clock)
    }

    fn put(self, tube: &Tube) -> TaskId {
        let task = tube.task(b"x");
        let task = if self.of_task { task.throttle("of task") } else { task };
        task.put().unwrap()
    }

    fn throttles(self) -> Vec<&'static str> {
        let both = [("of tube", self.of_tube), ("of task", self.of_task)];
        both.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }

    /// This task, and no other one, is in flight: the task that waits finds each gate closed.
    fn are_held_by(self, queue: &Queue, holder: TaskId, waits: TaskId) {
        let why = queue.explain(waits).unwrap().reasons;
        let full = WhyNot::TubeLimit { in_flight: 1, limit: 1 };
        assert_eq!(why.contains(&full), self.limit, "{why:?}");
        for name in self.throttles() {
            let holders: Vec<_> = queue.throttle_holders(name).map(Result::unwrap).collect();
            assert_eq!(holders, [holder], "{name}");
            assert_eq!(queue.throttle(name).unwrap().unwrap().in_flight, 1);
            let full = WhyNot::Throttled { throttle: name.into(), in_flight: 1, limit: 1 };
            assert!(why.contains(&full), "{why:?}");
        }
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }
}

/// A taker of one of the two tubes waits while a lease of the first one is stalled, until the
/// grace has ended or the task is acked in it.
fn waits_for_a_stalled_lease(gates: Closing, at: usize, is_acked: bool) {
    let (queue, tubes, clock) = gates.tubes();
    let of = &tubes[at];
    let (first, second, third) = (gates.put(&tubes[0]), gates.put(of), gates.put(of));
    let task = tubes[0].take().unwrap();
    assert_eq!(task.id(), first);
    let taker = waiting(of, |tube| tube.take().unwrap().detach().id());
    let last = Duration::from_micros(1);
    for passed in [secs(10), secs(5) - last] {
        clock.advance(passed);
        queue.tick().unwrap();
        assert!(tubes[0].peek(first).unwrap().is_stalled());
        gates.are_held_by(&queue, first, second);
        assert!(of.try_take().unwrap().is_none());
        assert_eq!(kind(of.claim(third)), ErrorKind::WrongState);
        assert_eq!(of.info().unwrap().waiters, 1);
    }
    if is_acked {
        task.ack().unwrap();
    } else {
        clock.advance(last);
        queue.tick().unwrap();
        assert!(task.ack().unwrap_err().is_lease_lost());
        assert_eq!(state(&tubes[0], first), State::Ready);
    }
    assert_eq!(taker.join().unwrap(), second);
    gates.are_held_by(&queue, second, third);
    assert!(of.try_take().unwrap().is_none());
}

#[test]
fn a_stalled_lease_holds_its_place_and_its_slots_until_its_grace_ends() {
    for gates in CLOSING {
        for is_acked in [true, false] {
            waits_for_a_stalled_lease(gates, 0, is_acked);
            // The limit is one of a tube, and both tubes have the throttles.
            if !gates.limit {
                waits_for_a_stalled_lease(gates, 1, is_acked);
            }
        }
    }
}

#[test]
fn a_lapse_that_is_noticed_late_ends_the_grace_too() {
    let (queue, tube, clock) = graced();
    let events = queue.events();
    let task = one(&tube);
    while events.try_recv().is_some() {}
    clock.advance(secs(15));
    queue.tick().unwrap();
    let told = std::iter::from_fn(|| events.try_recv());
    let told: Vec<_> = told.map(|event| (event.from, event.to, event.cause)).collect();
    let (ready, taken) = (Some(State::Ready), Some(State::Taken));
    assert_eq!(told, [(taken, taken, Cause::Stall), (taken, ready, Cause::Ttr)]);
    assert!(task.ack().unwrap_err().is_lease_lost());
}

#[test]
fn after_its_last_attempt_a_stalled_task_is_buried_when_its_grace_ends() {
    let lapse = Lapse::new().grace(secs(5)).to(ReturnTo::Back);
    let options = TubeOptions::default().ttr(secs(10)).max_attempts(1);
    let (tube, clock) = lone_with(options.lapse(lapse));
    let task = one(&tube);
    clock.advance(secs(14));
    assert_eq!(counts(&tube), [0, 0, 1, 0]);
    clock.advance(secs(1));
    let buried = tube.peek(task.id()).unwrap();
    assert!(matches!(buried.reason, Some(Reason::Exhausted { .. })), "{buried:?}");
}

#[test]
fn a_free_lapse_uses_no_attempt() {
    let options = TubeOptions::default().ttr(secs(10)).max_attempts(1);
    let (tube, clock) = lone_with(options.lapse(Lapse::new().charged(false)));
    tube.put(b"a").unwrap();
    for deliveries in 1..4 {
        let task = tube.take().unwrap();
        assert_eq!((task.attempt(), task.deliveries()), (1, deliveries));
        clock.advance(secs(10));
    }
    // No lapse: it counts.
    drop(tube.take().unwrap());
    assert_eq!(counts(&tube), [0, 0, 0, 1]);
}

fn order_after(to: ReturnTo) -> (Tube, String) {
    let (queue, tube, clock) = with(Lapse::new().to(to));
    for (name, priority) in [("a", 0), ("b", 0), ("c", 0), ("later", 1), ("first", -1)] {
        tube.task(name.as_bytes()).priority(priority).ttr(secs(60)).put().unwrap();
    }
    let claimed = tube.peek_next(State::Ready).unwrap().unwrap().id;
    tube.claim(claimed).unwrap().ack().unwrap();
    let a = tube.take().unwrap();
    let b = tube.take().unwrap();
    b.renew_for(secs(1)).unwrap();
    clock.advance(secs(1));
    queue.tick().unwrap();
    a.release().unwrap();
    let rest = drain(&tube);
    (tube, rest)
}

#[test]
fn a_lapsed_task_returns_to_its_place_or_the_front_or_the_back_of_its_priority() {
    assert_eq!(order_after(ReturnTo::Place).1, "a b c later");
    assert_eq!(order_after(ReturnTo::Front).1, "b a c later");
    assert_eq!(order_after(ReturnTo::Back).1, "a c b later");
}

#[test]
fn a_lapsed_task_returns_after_a_delay() {
    let (tube, rest) = order_after(ReturnTo::After(secs(7)));
    assert_eq!((&*rest, counts(&tube)), ("a c later", [0, 1, 0, 0]));
    let delayed = tube.peek_next(State::Delayed).unwrap().unwrap();
    assert_eq!((delayed.delay_left, delayed.attempts), (Some(secs(7)), 1));
    let (tube, rest) = order_after(ReturnTo::After(Duration::ZERO));
    assert_eq!((&*rest, counts(&tube)), ("a b c later", [0; 4]));
}

#[test]
fn tasks_that_lapse_together_return_in_the_order_of_their_deadlines() {
    for (to, order) in [(ReturnTo::Back, "d a b c"), (ReturnTo::Front, "c b a d")] {
        let (_, tube, clock) = with(Lapse::new().to(to));
        for name in ["a", "b", "c"] {
            tube.task(name.as_bytes()).put().unwrap();
        }
        let held: Vec<_> = (0..3)
            .map(|_| {
                clock.advance(secs(1));
                tube.take().unwrap()
            })
            .collect();
        tube.put(b"d").unwrap();
        clock.advance(secs(10));
        assert_eq!(drain(&tube), order);
        drop(held);
    }
}

/// The work of a tube that the transaction has made is done in the transaction.
#[test]
fn a_lapse_in_a_transaction_gives_a_rank() {
    let (queue, tube, clock) = with(Lapse::new().to(ReturnTo::Back));
    let held = one(&tube);
    tube.put(b"b").unwrap();
    let done = queue.transact(|tx| {
        tube.task(b"c").put_in(tx)?;
        clock.advance(secs(10));
        tube.task(b"d").put_in(tx)?;
        Ok::<_, tubewell::Error>(())
    });
    done.unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
    assert_eq!(drain(&tube), "b c a d");
    drop(held);
}

#[test]
fn release_all_and_a_ttl_end_a_stalled_lease() {
    let (queue, tube, clock) = graced();
    let task = one(&tube);
    clock.advance(secs(12));
    tube.release_all().unwrap();
    assert!(task.renew().unwrap_err().is_lease_lost());
    queue.tick().unwrap();
    assert_eq!(tube.take().unwrap().attempt(), 1, "uncharged");

    let id = tube.task(b"b").ttl(secs(13)).put().unwrap();
    let task = tube.claim(id).unwrap();
    clock.advance(secs(12));
    assert_eq!((task.time_left().unwrap(), state(&tube, id)), (Some(secs(0)), State::Taken));
    clock.advance(secs(1));
    assert!(task.time_left().unwrap_err().is_lease_lost());
    assert!(is_gone(&tube, id));
}

/// A `release_all` whose sweep has not come to a lease when its ttr passes.
#[test]
fn a_voided_lease_has_no_grace() {
    let (queue, tube, clock) = graced();
    for _ in 0..1000 {
        tube.put(b"x").unwrap();
    }
    let held: Vec<_> = (0..1000).map(|_| tube.take().unwrap()).collect();
    tube.release_all().unwrap();
    clock.advance(secs(10));
    queue.tick().unwrap();
    assert_eq!((counts(&tube), tube.stats().unwrap().calls.stall), ([1000, 0, 0, 0], 0));
    drop(held);
}

#[test]
fn a_grace_without_end_lasts_until_the_holder_or_an_opening_ends_it() {
    let (_, tube, clock) = with(Lapse::new().grace(Duration::MAX));
    let task = one(&tube);
    clock.advance(secs(1_000_000));
    let info = tube.peek(task.id()).unwrap();
    assert_eq!((info.is_stalled(), info.grace_left), (true, Some(Duration::MAX)));
    task.renew().unwrap();
    assert_eq!(task.time_left().unwrap(), Some(secs(10)));
    task.ack().unwrap();
}

#[test]
fn an_opening_ends_a_grace_as_it_ends_a_lease() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let lapse = Lapse::new().grace(secs(5)).to(ReturnTo::Back).charged(false);
    let options = TubeOptions::default().ttr(secs(10)).lapse(lapse);
    let tube = queue.create_tube("lone", options.clone()).unwrap();
    let ada = queue.consumer_with_grace("ada", secs(100)).unwrap();
    for name in ["a", "b", "c"] {
        tube.put(name.as_bytes()).unwrap();
    }
    let mine = tube.take().unwrap();
    let hers = tube.by(&ada).take().unwrap();
    clock.advance(secs(12));
    queue.tick().unwrap();
    assert_eq!(tube.stats().unwrap().calls.stall, 2);
    assert!(queue.taken().unwrap().iter().all(|taken| taken.is_stalled));
    let (_copy, copy) = killed(&path);
    let queue = open(&copy);
    let again = queue.find_tube("lone").unwrap().unwrap();
    assert_eq!(again.info().unwrap().options, options);
    // The crash is no lapse: to its place, charged.
    let back = again.take().unwrap();
    assert_eq!((&*back, back.attempt()), (&b"a"[..], 2));
    let waits = again.peek(hers.id()).unwrap();
    assert_eq!((waits.state, waits.is_stalled()), (State::Taken, false));
    assert_eq!(queue.check().unwrap(), [""; 0]);
    let ada = queue.consumer_with_grace("ada", secs(100)).unwrap();
    let resumed = resumed(&ada, &again);
    assert_eq!(resumed[0].time_left().unwrap(), Some(secs(10)), "its ttr begins again");
    drop((mine, hers, back, resumed, ada));
    close_sound(queue);
}

#[test]
fn a_resumed_lease_is_not_stalled() {
    let (queue, tube, clock) = graced();
    tube.put(b"a").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(100)).unwrap();
    let ticket = tube.by(&ada).take().unwrap().detach();
    drop(ada);
    clock.advance(secs(12));
    assert!(tube.peek(ticket.id()).unwrap().is_stalled());
    let ada = queue.consumer("ada").unwrap();
    let task = resumed(&ada, &tube).pop().unwrap();
    assert_eq!(task.time_left().unwrap(), Some(secs(10)));
    assert!(!tube.peek(ticket.id()).unwrap().is_stalled());
    task.ack().unwrap();
}

#[test]
fn one_deadline_is_stored_for_a_stalled_lease() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let options = TubeOptions::default().ttr(secs(10)).lapse(Lapse::new().grace(secs(5)));
    let tube = queue.create_tube("lone", options).unwrap();
    let held: Vec<_> = (0..50).map(|_| one(&tube)).collect();
    clock.advance(secs(10));
    queue.tick().unwrap();
    // It counts the deadlines that the tasks call for, and those that are there.
    assert_eq!(queue.check().unwrap(), [""; 0]);
    assert_eq!(tube.stats().unwrap().calls.stall, 50);
    drop(held);
    close_sound(queue);
}

#[test]
fn what_a_kind_or_a_placement_does_not_allow_is_refused() {
    struct Any;
    impl Placement for Any {
        fn place(&self, _: &PutView<'_>) -> Place {
            Place::new(b"")
        }
    }
    let queue = Queue::builder().by_hand(true).placement("any", Any).in_memory().unwrap();
    let make = |options: TubeOptions| queue.create_tube("t", options);
    for of in [TubeKind::Fifo, TubeKind::Utube] {
        let options = TubeOptions::new(of).lapse(Lapse::new().grace(secs(1)));
        assert_eq!(kind(make(options)), ErrorKind::Unsupported);
    }
    for to in [ReturnTo::Front, ReturnTo::Back] {
        let options = TubeOptions::default().placement("any").lapse(Lapse::new().to(to));
        assert_eq!(kind(make(options)), ErrorKind::Unsupported);
    }
    let after = Lapse::new().grace(secs(1)).to(ReturnTo::After(secs(1)));
    make(TubeOptions::default().placement("any").lapse(after)).unwrap();
    let terms = TubeOptions::default().placement("any").if_not_exists();
    assert_eq!(kind(make(terms)), ErrorKind::TubeMismatch);
}

#[test]
fn a_stalled_task_is_told_as_running() {
    let (queue, tube, clock) = graced();
    let task = one(&tube);
    clock.advance(secs(12));
    queue.tick().unwrap();
    let why = queue.explain(task.id()).unwrap().reasons;
    let running = WhyNot::Running { holder: None, lease_left: Some(secs(0)) };
    assert_eq!(why, [running, WhyNot::Stalled { grace_left: Some(secs(3)) }]);
    let text = queue.explain(task.id()).unwrap().to_string();
    assert!(text.ends_with("its ttr is over, it is in its grace, for 3s more"), "{text}");
    task.ack().unwrap();
    assert_eq!(tube.try_take().unwrap().map(|_| next(&tube)), None);
}

#[test]
fn stalled_tasks_are_counted_however_their_stall_ends() {
    type End = fn(&Queue, &Tube, Task);
    let ends: [End; 15] = [
        |_, _, task| task.ack().unwrap(),
        |_, _, task| task.release().unwrap(),
        |_, _, task| task.snooze(secs(9)).unwrap(),
        |_, _, task| task.retry("no").unwrap(),
        |_, _, task| task.bury("no").unwrap(),
        |_, _, task| task.trash("no").unwrap(),
        |_, _, task| task.renew().unwrap(),
        |_, _, task| drop(task),
        |_, tube, task| tube.delete(task.id()).unwrap(),
        |_, tube, task| assert!(tube.complete_by_id(task.id()).unwrap()),
        |_, tube, task| tube.force_timeout(&[task.id()]).unwrap(),
        |_, tube, task| tube.move_to(task.id(), tube).apply().unwrap(),
        |queue, tube, task| {
            tube.move_to(task.id(), &queue.tube("other").unwrap()).apply().unwrap();
        },
        // It was counted as stalled until the next opening.
        |_, tube, task| {
            tube.update(task.id()).ttr(secs(60)).apply().unwrap();
            task.detach();
        },
        |_, tube, _task| _ = tube.truncate().unwrap(),
    ];
    for (at, end) in ends.into_iter().enumerate() {
        let (queue, tube, clock) = graced();
        let (task, other) = (one(&tube), one(&tube));
        let stalled = || {
            assert_eq!(queue.check().unwrap(), [""; 0], "end {at}");
            tube.stats().unwrap().stalled
        };
        assert_eq!(stalled(), 0);
        clock.advance(secs(12));
        assert_eq!((stalled(), tube.stats().unwrap().taken), (2, 2));
        let left = u64::from(at < 14);
        end(&queue, &tube, task);
        assert_eq!(stalled(), left, "end {at}");
        assert_eq!(queue.overview().unwrap()[0].stats.stalled, left);
        // The grace of the other one ends.
        clock.advance(secs(3));
        assert_eq!(stalled(), 0, "end {at}");
        drop(other);
    }
}

#[test]
fn a_stall_is_counted_through_consumers_transactions_and_openings() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    // Without an end of the grace there is no deadline.
    let options = TubeOptions::default().ttr(secs(10)).lapse(Lapse::new().grace(Duration::MAX));
    let tube = queue.create_tube("lone", options).unwrap();
    let worker = queue.consumer("worker").unwrap();
    let by = tube.by(&worker);
    let stalled = || {
        assert_eq!(queue.check().unwrap(), [""; 0]);
        tube.stats().unwrap().stalled
    };
    tube.put_many([&b"a"[..]; 4]).unwrap();
    let mut held = by.take_many(4).unwrap();
    clock.advance(secs(10));
    assert_eq!(stalled(), 4);
    let task = held.pop().unwrap();
    task.progress(50, "half").unwrap();
    task.touch(secs(60)).unwrap();
    assert_eq!(stalled(), 3);
    let task = held.pop().unwrap();
    queue.transact(|tx| tx.ack(&task)).unwrap();
    assert_eq!(stalled(), 2);
    let next = queue.consumer("next").unwrap();
    held.into_iter().for_each(|task| _ = task.detach());
    worker.close().unwrap();
    drop(next);
    assert_eq!(stalled(), 0);
    tube.take().unwrap().detach();
    clock.advance(secs(10));
    assert_eq!(stalled(), 1);
    queue.close().unwrap();
    let queue = still().0.open(&path).unwrap();
    assert_eq!(queue.tube("lone").unwrap().stats().unwrap().stalled, 0);
    close_sound(queue);
}
