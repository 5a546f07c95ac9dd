//! The gates of a tube: what they let through, what closes and opens them, and what is shown of
//! them. The clock is manual, so a taker that wakes was woken.

use crate::{close_sound, counts, drain, home, killed, kind, resumed, secs, still, waiting};
use std::thread::JoinHandle;
use std::time::Duration;
use tubewell::WhyNot;
use tubewell::{
    Advance, ErrorKind, ManualClock, Queue, Rate, Retention, State, Task, TaskId, Tube, TubeOptions,
};

fn limited(limit: u64) -> TubeOptions {
    TubeOptions::default().limit(limit)
}

fn fill(tube: &Tube, tasks: usize) {
    tube.put_many((0..tasks).map(|task| task.to_string().into_bytes())).unwrap();
}

/// A tube in a still queue in memory.
fn gated(options: TubeOptions) -> (Queue, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.create_tube("t", options).unwrap();
    (queue, tube, clock)
}

/// Why the first ready task is not running.
fn reasons(queue: &Queue, tube: &Tube) -> Vec<WhyNot> {
    queue.explain(first(tube)).unwrap().reasons
}

fn first(tube: &Tube) -> TaskId {
    tube.peek_next(State::Ready).unwrap().unwrap().id
}

/// Starts a thread that takes a task and keeps the lease.
fn taker(tube: &Tube) -> JoinHandle<()> {
    waiting(tube, |tube| _ = tube.take().unwrap().detach())
}

#[test]
fn every_take_stops_at_the_limit() {
    let (queue, tube, _clock) = gated(limited(3));
    let several = queue.tubes_of(["t"]).unwrap();
    for number in 0..9 {
        tube.task(number.to_string().as_bytes()).group("g").put().unwrap();
    }
    tube.set("in_flight", 9).unwrap();
    let claimed = first(&tube);
    let takes: [&dyn Fn() -> Vec<Task>; 5] = [
        &|| tube.take_many(9).unwrap(),
        &|| several.take_many(9).unwrap(),
        &|| (0..9).map_while(|_| tube.try_take().unwrap()).collect(),
        &|| (0..9).map_while(|_| several.try_take().unwrap()).collect(),
        &|| (0..9).map_while(|_| tube.try_take_group("g").unwrap()).collect(),
    ];
    for take in takes {
        let taken = take();
        assert_eq!(taken.len(), 3);
        let refused = tube.claim(first(&tube)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WrongState);
        assert!(refused.to_string().contains("its limit is 3"), "{refused}");
        assert!(tube.take_many(2).unwrap().is_empty() && several.take_many(2).unwrap().is_empty());
        taken.into_iter().for_each(|task| task.release().unwrap());
    }
    tube.pause().unwrap();
    assert!(tube.try_take().unwrap().is_none());
    let claims: Vec<_> = (0..3).map(|_| tube.claim(first(&tube)).unwrap()).collect();
    assert_eq!(claims[0].id(), claimed, "a claim goes through a pause, and not through a gate");
    assert_eq!(kind(tube.claim(first(&tube))), ErrorKind::WrongState);
}

/// Ends a lease of a task of a tube.
type EndOfLease = fn(&Queue, &Tube, Task, &ManualClock);

/// What ends a lease, in whatever way. The consumer "ada" holds it, and the tube keeps what is
/// finished.
pub(crate) const ENDS_OF_LEASES: [EndOfLease; 18] = [
    |_, _, task, _| task.ack().unwrap(),
    |_, _, task, _| task.ack_with(b"r").unwrap(),
    |_, _, task, _| task.release().unwrap(),
    |_, _, task, _| task.snooze(secs(5)).unwrap(),
    |_, _, task, _| task.retry("no").unwrap(),
    |_, _, task, _| task.bury("no").unwrap(),
    |_, _, task, _| task.fail("g", "no").unwrap(),
    |_, _, task, _| task.trash("no").unwrap(),
    |queue, _, mut task, _| {
        task.advance_with(&queue.tube("other").unwrap(), Advance::new()).unwrap();
    },
    |_, _, task, _| drop(task),
    |_, tube, task, _| tube.delete(task.id()).unwrap(),
    |_, tube, task, _| tube.bury(task.id(), "no").unwrap(),
    |_, tube, task, _| tube.force_timeout(&[task.id()]).unwrap(),
    |queue, tube, task, _| {
        tube.move_to(task.id(), &queue.tube("other").unwrap()).apply().unwrap();
    },
    |_, tube, task, _| assert!(tube.complete_by_id(task.id()).unwrap()),
    |_, tube, _task, _| tube.release_all().unwrap(),
    |queue, _, task, clock| {
        task.renew_for(secs(5)).unwrap();
        task.detach();
        clock.advance(secs(5));
        queue.tick().unwrap();
    },
    |queue, _, _task, _| queue.consumer("ada").unwrap().close().unwrap(),
];

/// What ends a lease, in whatever way, lets the next taker in.
#[test]
fn every_end_of_a_lease_frees_a_place() {
    for (number, end) in ENDS_OF_LEASES.into_iter().enumerate() {
        let keeping = limited(1).keep_finished(Retention::new());
        let (queue, tube, clock) = gated(keeping);
        fill(&tube, 2);
        let ada = queue.consumer("ada").unwrap();
        let task = tube.by(&ada).take().unwrap();
        let taker = taker(&tube);
        end(&queue, &tube, task, &clock);
        taker.join().unwrap();
        assert_eq!(counts(&tube)[2], 1, "end {number}");
        assert!(tube.try_take().unwrap().is_none(), "end {number}");
    }
}

/// As many wait as there are tasks; each that ends lets in one.
#[test]
fn takers_that_wait_are_let_in_one_after_the_other() {
    let (_queue, tube, _clock) = gated(limited(2));
    let takers: Vec<_> = (0..6)
        .map(|_| {
            waiting(&tube, |tube| {
                let task = tube.take().unwrap();
                let taken = counts(tube)[2];
                task.ack().unwrap();
                taken
            })
        })
        .collect();
    fill(&tube, 6);
    for taker in takers {
        let taken = taker.join().unwrap();
        assert!((1..=2).contains(&taken), "{taken} at once");
    }
    assert_eq!(counts(&tube), [0; 4]);
}

#[test]
fn a_limit_is_changed_while_tasks_run() {
    let (queue, tube, _clock) = gated(limited(3));
    fill(&tube, 9);
    let mut running = tube.take_many(9).unwrap();
    tube.set("limit", 1).unwrap();
    assert!(running.iter().all(|task| task.renew().is_ok()), "a lower limit ends no lease");
    running.pop().unwrap().ack().unwrap();
    running.pop().unwrap().ack().unwrap();
    assert!(tube.try_take().unwrap().is_none(), "one is still in flight");
    assert_eq!(reasons(&queue, &tube), [WhyNot::TubeLimit { in_flight: 1, limit: 1 }]);
    let takers = [(); 2].map(|()| taker(&tube));
    tube.set("limit", 3).unwrap();
    takers.into_iter().for_each(|taker| taker.join().unwrap());
    assert_eq!((counts(&tube)[2], tube.try_take().unwrap().is_none()), (3, true));
    let last = taker(&tube);
    tube.set("limit", 0).unwrap();
    last.join().unwrap();
    assert_eq!(tube.info().unwrap().options.get_limit(), None);
    tube.unset("limit").unwrap();
    assert_eq!(tube.setting("limit").unwrap().value, 3.into());
    assert_eq!((tube.stats().unwrap().limited, tube.stats().unwrap().ready), (3, 3));
    tube.set("limit", None::<u64>).unwrap();
    assert_eq!(drain(&tube).split(' ').count(), 3);
}

/// A gate is a field of its tube: no row of a task knows of it.
#[test]
fn a_gate_before_many_tasks_writes_no_row_of_them() {
    const TASKS: usize = 20_000;
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    (0..TASKS / 1000).for_each(|_| fill(&tube, 1000));
    tube.set("limit", 5).unwrap();
    let written = |change: &dyn Fn()| {
        let before = queue.space().unwrap().journal_used;
        change();
        queue.space().unwrap().journal_used - before
    };
    for limit in [1, 7, 0] {
        let bytes = written(&|| tube.set("limit", limit).unwrap());
        assert!(bytes < 500, "{bytes} bytes");
        let taken = tube.take_many(10).unwrap();
        assert_eq!(taken.len() as u64, if limit == 0 { 10 } else { limit });
    }
    close_sound(queue);
}

/// The places in flight are those of the leases that an opening finds.
#[test]
fn leases_in_grace_count_also_after_a_kill() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", limited(3)).unwrap();
    fill(&tube, 9);
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let held = tube.by(&ada).take_many(2).unwrap();
    let plain = tube.take().unwrap();
    assert!(tube.try_take().unwrap().is_none());
    let (_copy, copy) = killed(&path);
    let again = still().0.clock(clock).open(&copy).unwrap();
    let tube = again.tube("t").unwrap();
    let mut taken = tube.take_many(9).unwrap();
    assert_eq!(taken.len(), 1, "the lease without a grace is void");
    let eve = again.consumer("ada").unwrap();
    let back = resumed(&eve, &tube);
    assert_eq!((back.len(), tube.try_take().unwrap().is_none()), (2, true));
    back.into_iter().for_each(|task| task.ack().unwrap());
    taken.extend(tube.take_many(9).unwrap());
    assert_eq!(taken.len(), 3);
    drop((held, plain));
}

/// A take from several tubes passes over one behind a closed gate, and finds it again.
#[test]
fn several_tubes_with_one_behind_a_closed_gate() {
    let (queue, tube, _clock) = gated(limited(1));
    let other = queue.tube("u").unwrap();
    fill(&tube, 3);
    let both = queue.tubes_of(["t", "u"]).unwrap();
    for handle in
        [both.clone(), both.round_robin(), both.by_priority(), both.weighted(&[1, 5]).unwrap()]
    {
        fill(&other, 1);
        let taken = handle.take_many(9).unwrap();
        assert_eq!(taken.iter().filter(|task| task.tube() == "t").count(), 1);
        assert_eq!(taken.len(), 2);
        assert!(handle.try_take().unwrap().is_none());
        let waits = handle.clone();
        let taker = waiting(&tube, move |_| waits.take().unwrap().detach());
        for task in taken {
            if task.tube() == "u" { task.ack() } else { task.release() }.unwrap();
        }
        let ticket = taker.join().unwrap();
        tube.ticket(ticket).release().unwrap();
    }
}

/// Those who wait for room learn of it behind a gate, too.
#[test]
fn a_truncate_makes_room_behind_a_closed_gate() {
    let (queue, tube, _clock) = gated(limited(1).capacity(2));
    fill(&tube, 2);
    let task = tube.take().unwrap();
    let own = tube.clone();
    let put = std::thread::spawn(move || own.task(b"x").wait_for_room(secs(9)).put().map(drop));
    crate::until(|| !queue.waiters().unwrap().is_empty());
    tube.truncate().unwrap();
    put.join().unwrap().unwrap();
    drop(task);
}

fn paced(tasks: u32, burst: u32) -> TubeOptions {
    TubeOptions::default().rate(Rate::new(tasks).per(secs(60)).burst(burst))
}

/// An interval that is longer than a stored time can be was written as one without an end, and the
/// row of the tube could not be read again.
#[test]
fn a_rate_that_cannot_be_stored_is_refused() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    for per in [Duration::MAX, secs(u64::MAX / 2), Duration::ZERO] {
        let rate = Rate::new(1).per(per);
        let made = queue.create_tube("other", TubeOptions::default().rate(rate));
        assert_eq!(kind(made), ErrorKind::Invalid, "{per:?}");
        assert_eq!(kind(tube.set("rate", rate)), ErrorKind::Invalid, "{per:?}");
    }
    let longest = Rate::new(1).per(Duration::from_micros(u64::MAX - 1));
    tube.set("rate", longest).unwrap();
    tube.put(b"a").unwrap();
    tube.put(b"b").unwrap();
    tube.take().unwrap().ack().unwrap();
    assert!(tube.try_take().unwrap().is_none());
    assert_eq!(tube.stats().unwrap().limited, 1);
}

#[test]
fn a_rate_lets_tasks_through_one_after_the_other() {
    let (queue, tube, clock) = gated(paced(6, 2));
    let several = queue.tubes_of(["t"]).unwrap();
    for number in 0..40 {
        tube.task(number.to_string().as_bytes()).group(&number.to_string()).put().unwrap();
    }
    let takes: [&dyn Fn() -> usize; 5] = [
        &|| tube.take_many(9).unwrap().len(),
        &|| several.take_many(9).unwrap().len(),
        &|| (0..9).map_while(|_| tube.try_take().unwrap().map(Task::detach)).count(),
        &|| (0..9).map_while(|_| several.try_take().unwrap().map(Task::detach)).count(),
        &|| (0..9).map_while(|_| tube.claim(first(&tube)).ok().map(Task::detach)).count(),
    ];
    for take in takes {
        assert_eq!(take(), 2);
        assert_eq!(reasons(&queue, &tube), [WhyNot::TubeRate { left: secs(10) }]);
        assert_eq!(tube.stats().unwrap().limited, tube.stats().unwrap().ready);
        assert!(tube.try_take().unwrap().is_none() && several.try_take().unwrap().is_none());
        clock.advance(secs(9));
        assert_eq!((take(), kind(tube.claim(first(&tube)))), (0, ErrorKind::WrongState));
        clock.advance(secs(1));
        assert_eq!(take(), 1, "one each ten seconds");
        clock.advance(secs(600));
        assert_eq!(tube.stats().unwrap().limited, 0);
    }
    let group = tube.peek_next(State::Ready).unwrap().unwrap().group.clone().unwrap();
    tube.try_take_group(&group).unwrap().unwrap().release().unwrap();
    tube.try_take_group(&group).unwrap().unwrap().release().unwrap();
    assert!(tube.try_take_group(&group).unwrap().is_none(), "a release gives no take back");
}

#[test]
fn a_rate_is_changed_and_outlives_a_kill() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", paced(1, 3)).unwrap();
    fill(&tube, 30);
    assert_eq!(tube.take_many(9).unwrap().len(), 3);
    let (_copy, copy) = killed(&path);
    let again = still().0.clock(clock.clone()).open(&copy).unwrap();
    let tube = again.tube("t").unwrap();
    assert!(tube.try_take().unwrap().is_none(), "the takes of the one before count");
    tube.set("rate", Rate::new(60).per(secs(60)).burst(2)).unwrap();
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(secs(1));
    assert_eq!(tube.take_many(9).unwrap().len(), 1, "no further ahead than the new burst");
    tube.truncate().unwrap();
    fill(&tube, 9);
    assert!(tube.try_take().unwrap().is_none(), "nor by a truncate");
    tube.set("rate", None::<Rate>).unwrap();
    assert_eq!(tube.take_many(4).unwrap().len(), 4);
    tube.unset("rate").unwrap();
    assert_eq!(tube.setting("rate").unwrap().value, Rate::new(1).per(secs(60)).burst(3).into());
    assert_eq!(kind(tube.set("rate", Rate::new(0))), ErrorKind::Invalid);
    close_sound(again);
    drop(queue);
}

/// What a close takes back was not used.
#[test]
fn a_close_gives_the_takes_of_its_leases_back() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", paced(1, 3)).unwrap();
    fill(&tube, 9);
    tube.take().unwrap().ack().unwrap();
    let held = tube.take_many(9).unwrap();
    close_sound(queue);
    let queue = still().0.clock(clock).open(&path).unwrap();
    assert_eq!((held.len(), queue.tube("t").unwrap().take_many(9).unwrap().len()), (2, 2));
}

/// Regression: a lease that was older than the time from one task to the next gave a whole one back
/// at a close, and a task was taken 59 seconds early.
#[test]
fn a_close_gives_back_what_time_has_not_made_up_for() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", paced(1, 1)).unwrap();
    fill(&tube, 9);
    let held = tube.take().unwrap();
    clock.advance(secs(60));
    tube.take().unwrap().ack().unwrap();
    clock.advance(secs(1));
    close_sound(queue);
    drop(held);
    let open = || still().0.clock(clock.clone()).open(&path).unwrap();
    let queue = open();
    let tube = queue.tube("t").unwrap();
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(secs(59));
    let _held = tube.try_take().unwrap().unwrap();
    // Of this one half is left.
    clock.advance(secs(30));
    close_sound(queue);
    assert!(open().tube("t").unwrap().try_take().unwrap().is_some());
}

/// Takers wait for the next task of a rate, however many tubes let one through at once.
#[test]
fn forty_rates_that_let_the_next_task_through_at_once_wake_forty_takers() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tubes: Vec<_> = (0..40)
        .map(|number| {
            let tube = queue.create_tube(&number.to_string(), paced(1, 1)).unwrap();
            fill(&tube, 5);
            tube.take().unwrap().ack().unwrap();
            tube
        })
        .collect();
    let takers: Vec<_> = tubes.iter().map(taker).collect();
    clock.advance(secs(60));
    queue.tick().unwrap();
    takers.into_iter().for_each(|taker| taker.join().unwrap());
}

/// Each that takes lets the next one look, if one more came in since it was woken.
#[test]
fn what_came_in_since_the_wake_up_is_taken_too() {
    let (queue, tube, clock) = gated(paced(60, 9));
    tube.set("limit", 100).unwrap();
    fill(&tube, 20);
    tube.take_many(9).unwrap();
    let takers = [(); 3].map(|()| taker(&tube));
    clock.advance(secs(1));
    queue.tick().unwrap();
    clock.advance(secs(2));
    // The first one takes at any of these times; what the clock lets through wakes the others.
    queue.tick().unwrap();
    takers.into_iter().for_each(|taker| taker.join().unwrap());
}

/// A timer, and no second look, wakes those who wait.
#[test]
fn the_timer_thread_lets_them_through() {
    let clock = ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).in_memory().unwrap();
    let tube = queue.create_tube("t", paced(1, 1)).unwrap();
    fill(&tube, 3);
    for _ in 0..3 {
        let own = tube.clone();
        let task = clock.advance_until(move || own.take()).unwrap();
        task.ack().unwrap();
    }
    assert!(tube.is_empty().unwrap());
}

/// Regression: the pace of a rate was nanoseconds since 1970 in 64 bits, which end in the year
/// 2554. A burst that reaches beyond it was never used up.
#[test]
fn a_burst_that_reaches_over_centuries_is_used_up() {
    use tubewell::{Rate, TubeOptions};

    let queue = still().0.in_memory().unwrap();
    let rate = Rate::new(1).per(secs(365 * 86_400)).burst(1000);
    let tube = queue.create_tube("t", TubeOptions::default().rate(rate)).unwrap();
    tube.put_many(vec![*b"x"; 1100]).unwrap();
    let mut taken = 0;
    while let Some(task) = tube.try_take().unwrap() {
        task.ack().unwrap();
        taken += 1;
    }
    assert_eq!(taken, 1000);
}

/// The same with an interval of 600 years and a burst of two.
#[test]
fn a_rate_of_two_in_a_lifetime_lets_two_through() {
    use tubewell::{Rate, TubeOptions};

    let queue = still().0.in_memory().unwrap();
    let rate = Rate::new(1).per(secs(600 * 365 * 86_400)).burst(2);
    let tube = queue.create_tube("t", TubeOptions::default().rate(rate)).unwrap();
    tube.put_many(vec![*b"x"; 9]).unwrap();
    assert_eq!(tube.take_many(9).unwrap().len(), 2);
    assert!(tube.try_take().unwrap().is_none());
}

/// Regression: by a clock that says a year after 2554 no rate held anything back.
#[test]
fn a_rate_holds_by_a_clock_that_is_centuries_ahead() {
    use std::time::UNIX_EPOCH;
    use tubewell::{ManualClock, Rate, TubeOptions};

    let clock = ManualClock::at(UNIX_EPOCH + secs(600 * 366 * 86_400));
    let queue = still().0.clock(clock.clone()).in_memory().unwrap();
    let rate = Rate::new(1).per(secs(60));
    let tube = queue.create_tube("t", TubeOptions::default().rate(rate)).unwrap();
    tube.put_many(vec![*b"x"; 3]).unwrap();
    tube.take().unwrap().ack().unwrap();
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(secs(60));
    tube.take().unwrap().ack().unwrap();
}
