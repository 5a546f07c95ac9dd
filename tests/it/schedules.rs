//! Schedules by intervals: nominal times, missed fires, overlap, changes, and what becomes of them
//! over a kill, a drop and a repair.

use crate::{close_sound, counts, drain, home, killed, kind, ok, open, secs, still, until_waiting};
use std::time::{Duration, SystemTime};
use tubewell::{
    Cause, Clock, Conflict, ErrorKind, HistoryEvent, Lapse, ManualClock, Missed, Overlap, Queue,
    Result, ReturnTo, Schedule, State, TaskInfo, Tube, TubeKind, TubeOptions,
};

const MINUTE: Duration = secs(60);
/// As many fires as were missed.
const ALL: Missed = Missed::CatchUp(u32::MAX);

fn queue() -> (Queue, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube, clock)
}

/// A schedule of this interval.
fn every(queue: &Queue, tube: &Tube, interval: Duration, missed: Missed) -> Schedule {
    queue.schedule("s").every(interval).missed(missed).to(tube).payload(b"x").make().unwrap()
}

fn sound(queue: &Queue) {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

/// The ready children, in the order of takes.
fn children(tube: &Tube) -> Vec<TaskInfo> {
    tube.tasks(State::Ready).map(|task| task.unwrap()).collect()
}

/// Their nominal times, in seconds since this one.
fn nominal(tube: &Tube, start: SystemTime) -> Vec<u64> {
    let since = |task: TaskInfo| task.nominal.unwrap().duration_since(start).unwrap().as_secs();
    children(tube).into_iter().map(since).collect()
}

fn keys(tube: &Tube) -> Vec<String> {
    children(tube).into_iter().map(|task| task.summary.key.unwrap()).collect()
}

/// QL-58: the children have all that was given.
#[test]
fn children_have_what_their_schedule_says() {
    let (queue, tube, clock) = queue();
    let made = queue
        .schedule("sweep")
        .every(MINUTE)
        .offset(secs(30))
        .to(&tube)
        .payload(b"attic")
        .priority(-3)
        .group("g")
        .kind("chore")
        .book("house")
        .detail("floor", "2")
        .tag("red")
        .tag("blue")
        .ttl(secs(600))
        .ttr(secs(9))
        .max_attempts(4)
        .make()
        .unwrap();
    assert_eq!(made.info().unwrap().children, 0);
    assert_eq!(tube.len().unwrap(), 0);
    clock.advance(secs(30));
    let child = children(&tube).pop().unwrap();
    assert_eq!((&child.payload[..], child.key.as_deref()), (&b"attic"[..], Some("sweep-1")));
    assert_eq!(child.spawned_from.as_deref(), Some("sweep"));
    assert_eq!((child.priority, child.group.as_deref()), (-3, Some("g")));
    assert_eq!((child.kind.as_deref(), child.book.as_deref()), (Some("chore"), Some("house")));
    assert_eq!(
        (&child.details["floor"][..], &child.tags[..]),
        ("2", &["red", "blue"].map(str::to_owned)[..])
    );
    assert_eq!((child.ttl_left, child.ttr), (Some(secs(600)), Some(secs(9))));
    assert_eq!(child.max_attempts, Some(4));
    let info = made.info().unwrap();
    assert_eq!((info.children, info.missed_fires, info.last), (1, 0, Some(child.id)));
    assert_eq!((info.last_nominal, info.has_tube), (child.nominal, true));
    assert_eq!((info.priority, info.kind.as_deref()), (Some(-3), Some("chore")));
    assert_eq!((info.every, info.offset, info.cron), (Some(MINUTE), secs(30), None));
    sound(&queue);
}

/// Children with gates wait for those, and the others of their tube pass. The schedule has gates or
/// a group, and an update with the one ends the other.
#[test]
fn children_have_gates_of_their_own() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    queue.set_throttle("api", 1).unwrap();
    let sync = |queue: &Queue, tube: &Tube| {
        let sync = queue.schedule("sync").every(MINUTE).missed(ALL).require("online");
        sync.require("paid").throttle("api").to(tube).payload(b"all").make().unwrap()
    };
    sync(&queue, &tube);
    clock.advance(MINUTE);
    let plain = tube.put(b"other").unwrap();
    assert_eq!((tube.take().unwrap().id(), keys(&tube).len()), (plain, 2));
    sound(&queue);
    queue.close().unwrap();
    let queue = still().0.clock(clock.clone()).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let made = sync(&queue, &tube);
    let info = made.info().unwrap();
    assert_eq!((info.children, info.group), (2, None));
    assert_eq!((info.requires, info.throttles), (owned(["online", "paid"]), owned(["api"])));
    tube.delete(plain).unwrap();
    assert!(tube.try_take().unwrap().is_none());
    queue.set_condition("online", true).unwrap();
    queue.set_condition("paid", true).unwrap();
    let first = tube.take().unwrap();
    assert_eq!(tube.peek(first.id()).unwrap().key.as_deref(), Some("sync-1"));
    assert!(tube.try_take().unwrap().is_none(), "the throttle has one slot");
    first.ack().unwrap();
    tube.take().unwrap().ack().unwrap();
    assert_eq!(tube.len().unwrap(), 0);
    // Other gates instead of these.
    made.update(|made| made.require("late")).unwrap();
    let info = made.info().unwrap();
    assert_eq!((info.requires, info.throttles), (owned(["late"]), owned([])));
    clock.advance(MINUTE);
    let child = children(&tube).pop().unwrap();
    assert_eq!((child.requires.clone(), child.throttles.clone()), (owned(["late"]), owned([])));
    // What says nothing of gates leaves them.
    made.update(|made| made.priority(1)).unwrap();
    assert_eq!(made.info().unwrap().requires, owned(["late"]));
    made.update(|made| made.group("g")).unwrap();
    let info = made.info().unwrap();
    assert_eq!((info.group.as_deref(), info.requires), (Some("g"), owned(["late"])));
    clock.advance(MINUTE);
    let is_in_group = |child: &TaskInfo| {
        (child.group.as_deref(), &child.requires) == (Some("g"), &owned(["late"]))
    };
    assert!(children(&tube).iter().any(is_in_group));
    made.update(|made| made.throttle("api")).unwrap();
    let info = made.info().unwrap();
    let gates = (info.requires, info.throttles);
    assert_eq!((info.group.as_deref(), gates), (Some("g"), (owned([]), owned(["api"]))));
    sound(&queue);
    queue.close().unwrap();
    let queue = still().0.clock(clock.clone()).open(&path).unwrap();
    let info = queue.schedules().next().unwrap().unwrap();
    assert_eq!((info.group.as_deref(), info.throttles), (Some("g"), owned(["api"])));
    sound(&queue);
}

fn owned<const COUNT: usize>(names: [&str; COUNT]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// QL-22: a take first does what is due, and of that the ends of leases and of delays before the
/// fires of schedules. The lapsed task goes to the back, so its place says when it lapsed.
#[test]
fn leases_and_delays_end_before_schedules_fire() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = TubeOptions::default().lapse(Lapse::new().to(ReturnTo::Back));
    let tube = queue.create_tube("t", options).unwrap();
    tube.task(b"lapsed").ttr(MINUTE).put().unwrap();
    tube.take().unwrap().detach();
    tube.task(b"delayed").delay(MINUTE).put().unwrap();
    let schedule = queue.schedule("s").every(MINUTE).offset(MINUTE).to(&tube);
    schedule.payload(b"child").make().unwrap();
    let events = queue.events();
    clock.advance(MINUTE);
    let taken = tube.take_many(9).unwrap();
    let texts: Vec<_> = taken.iter().map(|task| &task[..]).collect();
    assert_eq!(texts, [&b"delayed"[..], b"lapsed", b"child"]);
    let causes: Vec<_> = std::iter::from_fn(|| events.try_recv()).map(|it| it.cause).collect();
    let (due, taken) = causes.split_at(3);
    assert!(due[..2].contains(&Cause::Ttr) && due[..2].contains(&Cause::Delay), "{due:?}");
    assert_eq!((due[2], taken), (Cause::Put, &[Cause::Take; 3][..]));
}

/// QL-59, literally: the nominal times of ten fires that are made at once. They are in the history.
#[test]
fn children_carry_nominal_times() {
    let (queue, tube, clock) = queue();
    let start = clock.wall();
    every(&queue, &tube, MINUTE, ALL);
    clock.advance(secs(599));
    let expected: Vec<u64> = (0..10).map(|minute| minute * 60).collect();
    assert_eq!(nominal(&tube, start), expected);
    let entries: Vec<_> = children(&tube)
        .into_iter()
        .map(|task| tube.history(task.id).unwrap().entries.swap_remove(0))
        .collect();
    let put: Vec<_> = entries.iter().map(|entry| (entry.event, entry.nominal)).collect();
    let of = |second: u64| (HistoryEvent::Put, Some(start + secs(second)));
    assert_eq!(put, expected.into_iter().map(of).collect::<Vec<_>>());
    assert!(entries.iter().all(|entry| entry.at == start + secs(599)));
    sound(&queue);
}

/// QL-60, literally: a backlog of 1 after 600 s of 60 s makes two, of which the first is the first.
#[test]
fn a_backlog_of_one_makes_two() {
    let (queue, tube, clock) = queue();
    let start = clock.wall();
    let made = every(&queue, &tube, MINUTE, Missed::CatchUp(1));
    clock.advance(secs(600));
    assert_eq!(keys(&tube), ["s-1", "s-2"]);
    assert_eq!(nominal(&tube, start), [540, 600]);
    assert_eq!(made.info().unwrap().missed_fires, 9);
    sound(&queue);
}

#[test]
fn missed_fires_are_coalesced_or_skipped() {
    for (missed, late, expected, count) in [
        (Missed::Coalesce, 0, vec![600], 10),
        (Missed::Coalesce, 59, vec![600], 10),
        (Missed::Skip, 0, vec![600], 10),
        (Missed::Skip, 59, vec![600], 10),
    ] {
        let (queue, tube, clock) = queue();
        let start = clock.wall();
        let made = every(&queue, &tube, MINUTE, missed);
        clock.advance(secs(600 + late));
        assert_eq!(nominal(&tube, start), expected, "{missed:?}");
        assert_eq!(made.info().unwrap().missed_fires, count);
    }
    let (queue, tube, clock) = queue();
    let start = clock.wall();
    let made = every(&queue, &tube, secs(3600), Missed::Skip);
    assert_eq!(drain(&tube), "x");
    clock.advance(secs(3 * 3600 + 61));
    assert_eq!(tube.len().unwrap(), 0, "it is late by more than a minute");
    assert_eq!(made.info().unwrap().missed_fires, 3);
    clock.advance(secs(3600 - 1));
    assert_eq!(nominal(&tube, start), [4 * 3600]);
    sound(&queue);
}

/// QL-61: made again it is as described then, its children are counted on, and with the same timing
/// its next fire stands.
#[test]
fn it_is_made_again_at_every_start() {
    let (queue, tube, clock) = queue();
    let other = queue.tube("other").unwrap();
    let start = clock.wall();
    let first = every(&queue, &tube, MINUTE, ALL);
    assert_eq!(drain(&tube), "x");
    clock.advance(secs(30));
    every(&queue, &tube, MINUTE, ALL);
    assert_eq!(first.next(2).unwrap(), [start + secs(60), start + secs(120)]);
    queue.schedule("s").every(MINUTE).to(&other).payload(b"y").priority(4).make().unwrap();
    assert_eq!(first.next(1).unwrap(), [start + secs(60)]);
    clock.advance(secs(30));
    assert_eq!(tube.len().unwrap(), 0);
    let child = children(&other).pop().unwrap();
    assert_eq!((child.key.as_deref(), child.priority), (Some("s-2"), 4));
    assert_eq!((&child.payload[..], first.info().unwrap().tube.as_str()), (&b"y"[..], "other"));
    // With another timing it begins at now + offset.
    queue.schedule("s").every(secs(10)).offset(secs(5)).to(&tube).make().unwrap();
    assert_eq!(first.next(2).unwrap(), [start + secs(65), start + secs(75)]);
    assert_eq!(first.info().unwrap().children, 2);
    sound(&queue);
}

/// QL-62, literally: 60 s becomes 10 s, so that six are there after 60 s.
#[test]
fn an_update_of_the_interval_moves_the_next_fire() {
    let (queue, tube, clock) = queue();
    let start = clock.wall();
    let made = every(&queue, &tube, MINUTE, ALL);
    assert_eq!(drain(&tube), "x");
    made.update(|it| it.every(secs(10))).unwrap();
    clock.advance(secs(60));
    assert_eq!(nominal(&tube, start), [10, 20, 30, 40, 50, 60]);
    // A shorter interval makes fires due at once, and a longer one none.
    made.update(|it| it.every(secs(100))).unwrap();
    assert_eq!(made.next(1).unwrap(), [start + secs(160)]);
    clock.advance(secs(59));
    made.update(|it| it.every(secs(30)).missed(Missed::Coalesce)).unwrap();
    assert_eq!(nominal(&tube, start), [10, 20, 30, 40, 50, 60, 90]);
    made.update(|it| it.payload(b"y")).unwrap_err();
    let other = queue.tube("other").unwrap();
    let lines = other.kind("line");
    made.update(|it| it.to(&lines).payload(b"y").max_attempts(2).tag("new")).unwrap();
    clock.advance(secs(1));
    assert_eq!(tube.len().unwrap(), 7);
    let child = children(&other).pop().unwrap();
    assert_eq!((&child.payload[..], child.kind.as_deref()), (&b"y"[..], Some("line")));
    assert_eq!((child.max_attempts, &child.tags[..]), (Some(2), &["new".to_owned()][..]));
    sound(&queue);
}

/// QL-63: tags are of future children, and removing never fails.
#[test]
fn tags_and_removal() {
    let (queue, tube, clock) = queue();
    let made = every(&queue, &tube, MINUTE, ALL);
    assert_eq!(tube.len().unwrap(), 1);
    made.tag(&["a", "b", "a"]).unwrap();
    made.untag(&["b", "absent"]).unwrap();
    clock.advance(MINUTE);
    let tags: Vec<_> = children(&tube).into_iter().map(|task| task.summary.tags).collect();
    assert_eq!(tags, [vec![], vec!["a".to_owned()]]);
    assert!(made.remove().unwrap() && !made.remove().unwrap());
    clock.advance(10 * MINUTE);
    assert_eq!(tube.len().unwrap(), 2, "its children stay");
    let none = ErrorKind::ScheduleNotFound;
    assert_eq!((kind(made.info()), kind(made.pause()), kind(made.run_now())), (none, none, none));
    assert_eq!((kind(made.tag(&["a"])), kind(made.next(1))), (none, none));
    assert_eq!(kind(made.update(|it| it.priority(1))), none);
    assert!(queue.schedules().next().is_none());
    sound(&queue);
}

#[test]
fn a_pause_misses_nothing() {
    let (queue, tube, clock) = queue();
    let start = clock.wall();
    let made = every(&queue, &tube, MINUTE, ALL);
    assert_eq!(drain(&tube), "x");
    assert!(made.pause().unwrap() && !made.pause().unwrap());
    assert_eq!((made.next(3).unwrap(), made.info().unwrap().next), (vec![], None));
    every(&queue, &tube, MINUTE, ALL);
    clock.advance(secs(630));
    assert_eq!(tube.len().unwrap(), 0);
    let id = made.run_now().unwrap();
    assert_eq!((children(&tube)[0].id, drain(&tube).as_str()), (id, "x"));
    assert!(made.resume().unwrap() && !made.resume().unwrap());
    assert_eq!(made.next(1).unwrap(), [start + secs(660)]);
    clock.advance(secs(30));
    assert_eq!(nominal(&tube, start), [660]);
    assert_eq!((keys(&tube), made.info().unwrap().missed_fires), (vec!["s-3".to_owned()], 0));
    sound(&queue);
}

#[test]
fn overlap_looks_at_the_last_child() {
    let (queue, tube, clock) = queue();
    let overlaps = |overlap| {
        queue.schedule("s").every(MINUTE).overlap(overlap).to(&tube).payload(b"x").make().unwrap()
    };
    let made = overlaps(Overlap::Skip);
    assert_eq!(keys(&tube), ["s-1"]);
    let events = queue.events();
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-1"]);
    let event = events.try_recv().unwrap();
    assert_eq!((event.cause, event.schedule.as_deref()), (Cause::MissedFire, Some("s")));
    assert_eq!((&*event.tube, event.task), ("t", None));
    assert!(event.message().unwrap().contains("has not ended"), "{:?}", event.message());
    let task = tube.take().unwrap();
    clock.advance(MINUTE);
    assert_eq!((counts(&tube), made.info().unwrap().missed_fires), ([0, 0, 1, 0], 2));
    task.bury("no").unwrap();
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-2"], "one that is buried has ended");
    tube.take().unwrap().ack().unwrap();
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-3"]);
    // One that has moved to another tube is still the last one.
    let other = queue.tube("other").unwrap();
    tube.move_to(children(&tube)[0].id, &other).apply().unwrap();
    clock.advance(MINUTE);
    assert_eq!((tube.len().unwrap(), other.len().unwrap()), (1, 1));

    overlaps(Overlap::Replace);
    clock.advance(MINUTE);
    assert_eq!((keys(&tube), other.len().unwrap()), (vec!["s-4".to_owned()], 0));
    let task = tube.take().unwrap();
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-5"]);
    assert_eq!(kind(task.ack()), ErrorKind::LeaseLost);
    made.run_now().unwrap();
    assert_eq!(keys(&tube), ["s-6"]);
    overlaps(Overlap::Allow);
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-6", "s-7"]);
    sound(&queue);
}

/// Of many fires that are due at once each replaces the one before it.
#[test]
fn many_fires_at_once_replace_each_other() {
    let (queue, tube, clock) = queue();
    let replace = queue.schedule("s").every(MINUTE).missed(ALL).overlap(Overlap::Replace);
    replace.to(&tube).make().unwrap();
    clock.advance(200 * MINUTE);
    assert_eq!(keys(&tube), ["s-201"]);
    sound(&queue);
}

#[test]
fn a_fire_that_cannot_be_put_is_an_event_and_missed() {
    let (queue, _, clock) = queue();
    let tube = queue.create_tube("small", TubeOptions::default().capacity(1)).unwrap();
    let made = every(&queue, &tube, MINUTE, ALL);
    assert_eq!(keys(&tube), ["s-1"]);
    let events = queue.events();
    clock.advance(10 * MINUTE);
    assert_eq!(keys(&tube), ["s-1"]);
    let missed: Vec<_> = std::iter::from_fn(|| events.try_recv()).collect();
    assert_eq!(missed.len(), 1, "one event for all that are due at once");
    assert!(missed[0].message().unwrap().contains("full"), "{:?}", missed[0].message());
    assert_eq!(made.info().unwrap().missed_fires, 10);
    assert_eq!(kind(made.run_now()), ErrorKind::Full);
    assert_eq!(drain(&tube), "x");
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-2"]);
    assert_eq!(drain(&tube), "x");

    // The key of the next child is taken, and the one after it has another.
    tube.task(b"mine").key("s-3").put().unwrap();
    clock.advance(MINUTE);
    assert_eq!((keys(&tube), made.info().unwrap().missed_fires), (vec!["s-3".to_owned()], 11));
    let last = std::iter::from_fn(|| events.try_recv()).last().unwrap();
    assert!(last.message().unwrap().contains("key"), "{:?}", last.message());
    tube.task(b"mine").key("s-3").on_conflict(Conflict::Replace).put().unwrap();
    assert_eq!(drain(&tube), "mine");
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-4"]);
    sound(&queue);
}

/// The timer misses the fires of a dropped tube, and a schedule that gets another one goes on.
#[test]
fn a_schedule_outlives_its_tube() {
    let (home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let made = every(&queue, &tube, MINUTE, ALL);
    assert_eq!(tube.len().unwrap(), 1);
    queue.force_drop_tube("t").unwrap();
    let events = queue.events();
    clock.advance(10 * MINUTE);
    queue.tick().unwrap();
    let missed: Vec<_> = std::iter::from_fn(|| events.try_recv()).collect();
    assert_eq!(missed.len(), 1);
    assert_eq!((&*missed[0].tube, missed[0].cause), ("t", Cause::MissedFire));
    let info = made.info().unwrap();
    assert_eq!((info.has_tube, info.missed_fires, info.children), (false, 10, 1));
    assert_eq!(kind(made.run_now()), ErrorKind::TubeNotFound);
    drop((events, made, tube));
    close_sound(queue);

    // The same after an opening, and for a tube of the same name.
    let queue = still().0.clock(clock.clone()).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    clock.advance(MINUTE);
    queue.tick().unwrap();
    let made = queue.schedule_named("s");
    let info = made.info().unwrap();
    assert_eq!((info.has_tube, info.missed_fires), (false, 11));
    let next = made.next(1).unwrap();
    every(&queue, &tube, MINUTE, ALL);
    assert_eq!((made.next(1).unwrap(), tube.len().unwrap()), (next, 0));
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-2"]);
    drop((made, tube));
    close_sound(queue);
    drop(home);
}

#[test]
fn truncate_keeps_schedules() {
    let (queue, tube, clock) = queue();
    every(&queue, &tube, MINUTE, ALL);
    assert_eq!(tube.truncate().unwrap(), 1);
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-2"]);
    queue.tick().unwrap();
    sound(&queue);
}

/// Regression: a truncate forgot the next fire of the tube's schedules, unless that was due in the
/// same step, until another deadline of the tube came.
#[test]
fn a_truncate_between_two_fires_keeps_the_next_one() {
    let (queue, tube, clock) = queue();
    every(&queue, &tube, MINUTE, ALL);
    queue.tick().unwrap();
    assert_eq!(tube.truncate().unwrap(), 1);
    clock.advance(MINUTE);
    queue.tick().unwrap();
    assert_eq!(keys(&tube), ["s-2"]);
    sound(&queue);
}

/// A fire is in the record of its child: a kill takes back both or none.
#[test]
fn a_kill_loses_no_fire_and_doubles_none() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    every(&queue, &tube, MINUTE, ALL);
    for step in 0..5_u64 {
        clock.advance(secs(90));
        let (_copy, copied) = killed(&path);
        let other = still().0.clock(clock.clone()).open(&copied).unwrap();
        let there = other.tube("t").unwrap();
        let fires = (step + 1) * 90 / 60 + 1;
        let expected: Vec<_> = (1..=fires).map(|number| format!("s-{number}")).collect();
        assert_eq!(keys(&there), expected);
        drop(there);
        close_sound(other);
        if step % 2 == 0 {
            assert_eq!(keys(&tube), expected);
        }
    }
    drop(tube);
    close_sound(queue);
}

/// A fire wakes a taker, and the timer does not wait for a verb.
#[test]
fn a_fire_wakes_a_taker() {
    let clock = ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    queue.schedule("s").every(MINUTE).offset(MINUTE).to(&tube).payload(b"x").make().unwrap();
    let taker = std::thread::spawn({
        let tube = tube.clone();
        move || tube.take().unwrap().ack()
    });
    until_waiting(&tube, 1);
    clock.advance(MINUTE);
    taker.join().unwrap().unwrap();
}

/// Thousands of fires at once go in small steps, and all are made.
#[test]
fn thousands_of_fires_are_worked_off() {
    let (queue, tube, clock) = queue();
    for number in 0..1000 {
        let name = format!("s{number}");
        queue.schedule(&name).every(MINUTE).offset(MINUTE).to(&tube).make().unwrap();
    }
    every(&queue, &tube, secs(1), ALL);
    assert_eq!(drain(&tube), "x");
    let events = queue.events();
    clock.advance(secs(3600));
    assert_eq!(tube.len().unwrap(), 1000 + 3600);
    let marks: Vec<_> = std::iter::from_fn(|| events.try_recv()).map(|event| event.seq).collect();
    assert_eq!(marks.len(), 4096, "as many as are kept");
    let all = queue.schedules().collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(all.len(), 1001);
    assert!(all.windows(2).all(|two| two[0].name < two[1].name));
    sound(&queue);
}

#[test]
fn temporary_tubes_have_schedules() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().temporary(true)).unwrap();
    every(&queue, &tube, MINUTE, ALL);
    assert_eq!(keys(&tube), ["s-1"]);
    drop(tube);
    close_sound(queue);
    let queue = still().0.clock(clock.clone()).open(&path).unwrap();
    let tube = queue.find_tube("t").unwrap().unwrap();
    assert_eq!(tube.len().unwrap(), 0);
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-2"]);
    drop(tube);
    close_sound(queue);
}

/// The clock of queue time does not go back with the wall clock, and a schedule with it.
#[test]
fn a_wall_clock_that_goes_back_moves_no_interval() {
    let (queue, tube, clock) = queue();
    every(&queue, &tube, MINUTE, ALL);
    assert_eq!(drain(&tube), "x");
    clock.set_wall(clock.wall() - secs(3600));
    clock.advance(MINUTE);
    assert_eq!(keys(&tube), ["s-2"]);
    clock.set_wall(clock.wall() + secs(7200));
    assert_eq!(keys(&tube), ["s-2"]);
}

#[test]
fn verbs_of_a_transaction_see_the_fires_before_them() {
    let (queue, tube, clock) = queue();
    every(&queue, &tube, MINUTE, ALL);
    clock.advance(3 * MINUTE);
    queue.transact(|tx| ok(tube.put_in(tx, b"y")?)).unwrap();
    assert_eq!(keys_of_all(&tube), ["s-1", "s-2", "s-3", "s-4", ""]);
    sound(&queue);
}

fn keys_of_all(tube: &Tube) -> Vec<String> {
    children(tube).into_iter().map(|task| task.summary.key.unwrap_or_default()).collect()
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (queue, tube, _) = queue();
    let other = Queue::in_memory().unwrap().tube("t").unwrap();
    let plain = queue.create_tube("plain", TubeOptions::new(TubeKind::Fifo)).unwrap();
    let of = |name| queue.schedule(name).every(MINUTE);
    let long = "n".repeat(235);
    let many: Vec<String> = (0..65).map(|number| number.to_string()).collect();
    let tagged = many.iter().fold(of("s").to(&tube), |made, tag| made.tag(tag));
    let large = vec![0; (16 << 10) + 1];
    let refused = [
        (queue.schedule("s").to(&tube).make(), ErrorKind::Invalid),
        (of("s").make(), ErrorKind::Invalid),
        (of("s").to(&other).make(), ErrorKind::Invalid),
        (of("").to(&tube).make(), ErrorKind::Invalid),
        (of(&long).to(&tube).make(), ErrorKind::Invalid),
        (of("a\nb").to(&tube).make(), ErrorKind::Invalid),
        (of("s").every(Duration::ZERO).to(&tube).make(), ErrorKind::Invalid),
        (of("s").every(Duration::MAX).to(&tube).make(), ErrorKind::Invalid),
        (of("s").cron("* * * * *").to(&tube).make(), ErrorKind::Invalid),
        (of("s").zone("UTC").to(&tube).make(), ErrorKind::Invalid),
        (of("s").missed(Missed::CatchUp(1001)).to(&tube).make(), ErrorKind::Invalid),
        (of("s").offset(Duration::MAX).to(&tube).make(), ErrorKind::Invalid),
        (of("s").ttl(Duration::ZERO).to(&tube).make(), ErrorKind::Invalid),
        (of("s").kind("").to(&tube).make(), ErrorKind::Invalid),
        (of("s").tag("").to(&tube).make(), ErrorKind::Invalid),
        (of("s").priority(1).to(&plain).make(), ErrorKind::Unsupported),
        (of("s").require("").to(&tube).make(), ErrorKind::Invalid),
        (of("s").throttle("a\u{2}b").to(&tube).make(), ErrorKind::Invalid),
        (of("s").group("\u{1}online").to(&tube).make(), ErrorKind::Invalid),
        (tagged.make(), ErrorKind::TooLarge),
        (of("s").to(&tube).payload(&large).make(), ErrorKind::TooLarge),
    ];
    for (place, (refused, expected)) in refused.into_iter().enumerate() {
        assert_eq!(kind(refused), expected, "case {place}");
    }
    queue.force_drop_tube("t").unwrap();
    assert_eq!(kind(of("s").to(&tube).make()), ErrorKind::TubeNotFound);
    assert!(queue.schedules().next().is_none());
    queue.schedule(&long[1..]).every(MINUTE).to(&plain).make().unwrap();
    assert_eq!(keys(&plain), [format!("{}-1", &long[1..])]);
    sound(&queue);
}

/// A schedule is an event when it is made, changed and removed, and none when nothing changes.
#[test]
fn changes_are_events() {
    let (queue, tube, _) = queue();
    let events = queue.events();
    let made = every(&queue, &tube, MINUTE, ALL);
    every(&queue, &tube, MINUTE, ALL);
    made.update(|it| it.every(MINUTE)).unwrap();
    made.update(|it| it.priority(1)).unwrap();
    made.pause().unwrap();
    made.tag(&["a"]).unwrap();
    made.remove().unwrap();
    let of_schedules = std::iter::from_fn(|| events.try_recv()).filter(|it| it.task.is_none());
    let seen: Vec<_> = of_schedules.map(|it| (it.cause, it.schedule.is_some())).collect();
    let set = (Cause::SetSchedule, true);
    assert_eq!(seen, [set, set, set, set, (Cause::RemoveSchedule, true)]);
}

/// Over a kill and an opening the fires go on, missed ones included.
#[test]
fn it_goes_on_after_an_opening() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let made = every(&queue, &tube, MINUTE, Missed::CatchUp(2));
    assert_eq!(drain(&tube), "x");
    let next = made.next(1).unwrap();
    drop((made, tube));
    queue.close().unwrap();
    let queue = open(&path);
    let made = queue.schedule_named("s");
    assert_eq!(made.next(1).unwrap(), next);
    assert_eq!((made.info().unwrap().children, made.name()), (1, "s"));
    drop(made);
    close_sound(queue);
}

#[cfg(feature = "cron")]
pub(crate) mod by_the_wall_clock {
    use super::*;
    use tubewell::Event;

    /// Seconds since the epoch.
    pub(crate) fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + secs(seconds)
    }

    /// 28 March 2026, 12:00 in Berlin, before the night in which 02:00 to 03:00 does not exist.
    const SATURDAY: u64 = 1_774_695_600;

    fn berlin() -> (Queue, Tube, ManualClock) {
        queue_at(SATURDAY)
    }

    /// A queue by hand, whose wall clock begins there.
    pub(crate) fn queue_at(seconds: u64) -> (Queue, Tube, ManualClock) {
        let clock = ManualClock::at(at(seconds));
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        (queue, tube, clock)
    }

    fn times(tube: &Tube) -> Vec<SystemTime> {
        children(tube).into_iter().map(|task| task.nominal.unwrap()).collect()
    }

    #[test]
    fn fires_at_local_times_over_a_change_of_the_clocks() {
        let (queue, tube, clock) = berlin();
        let made = queue.schedule("s").cron("30 2 * * *").zone("Europe/Berlin").missed(ALL);
        let made = made.to(&tube).make().unwrap();
        // 03:00 is 13 h after 12:00 in this night, and 02:30 is 13.5 + 24 - 1 h after it.
        let first = SATURDAY + 14 * 3600;
        let expected = [at(first), at(first + 23 * 3600 + 1800), at(first + 47 * 3600 + 1800)];
        assert_eq!(made.next(3).unwrap(), expected);
        assert_eq!(tube.len().unwrap(), 0);
        clock.advance(secs(14 * 3600 - 1));
        assert_eq!(tube.len().unwrap(), 0);
        clock.advance(secs(1));
        assert_eq!(times(&tube), [at(first)]);
        clock.advance(secs(48 * 3600));
        assert_eq!(times(&tube), expected);
        let info = made.info().unwrap();
        assert_eq!(
            (info.cron.as_deref(), info.zone.as_deref()),
            (Some("30 2 * * *"), Some("Europe/Berlin"))
        );
        assert!(!info.lacks_feature && info.every.is_none());
        sound(&queue);
    }

    #[test]
    fn missed_fires_by_each_policy() {
        let hour = 3600;
        for (missed, expected, count) in [
            (Missed::Coalesce, vec![100 * hour], 100),
            (Missed::CatchUp(2), vec![98 * hour, 99 * hour, 100 * hour], 98),
            (Missed::CatchUp(1000), (0..=100).map(|it| it * hour).collect(), 0),
            (Missed::Skip, vec![], 101),
        ] {
            let (queue, tube, clock) = berlin();
            let made = queue.schedule("s").cron("0 * * * *").missed(missed).to(&tube).make();
            clock.advance(secs(100 * hour + 61));
            let expected: Vec<_> = expected.into_iter().map(|it| at(SATURDAY + it)).collect();
            assert_eq!(times(&tube), expected, "{missed:?}");
            assert_eq!(made.unwrap().info().unwrap().missed_fires, count, "{missed:?}");
        }
        // More than are counted: every minute of a week.
        let (queue, tube, clock) = berlin();
        let made = queue.schedule("s").cron("* * * * *").to(&tube).make().unwrap();
        clock.advance(secs(7 * 86_400));
        assert_eq!(times(&tube), [at(SATURDAY + 7 * 86_400)]);
        assert_eq!(made.info().unwrap().missed_fires, 200);
        made.update(|it| it.missed(Missed::CatchUp(1))).unwrap();
        clock.advance(secs(7 * 86_400));
        let last = SATURDAY + 14 * 86_400;
        assert_eq!(times(&tube)[1..], [at(last - 60), at(last)]);
    }

    /// The wall clock is compared as it is: set forward it makes fires due, set back it waits.
    #[test]
    fn a_wall_clock_that_is_set_moves_the_fires() {
        let (queue, tube, clock) = berlin();
        queue.schedule("s").cron("0 * * * *").to(&tube).make().unwrap();
        clock.set_wall(at(SATURDAY + 3600));
        assert_eq!(times(&tube), [at(SATURDAY + 3600)]);
        clock.set_wall(at(SATURDAY));
        clock.advance(secs(3600));
        assert_eq!(tube.len().unwrap(), 1);
        clock.advance(secs(3600));
        assert_eq!(tube.len().unwrap(), 2);
    }

    #[test]
    fn texts_and_zones_are_changed_and_checked() {
        let (queue, tube, clock) = berlin();
        let cron = |text| queue.schedule("s").cron(text).to(&tube).make();
        for text in ["", "* * *", "61 * * * *", "0 0 30 2 *", "0 9 * * * *"] {
            assert_eq!(kind(cron(text)), ErrorKind::Invalid, "{text:?}");
        }
        let unknown = queue.schedule("s").cron("0 9 * * *").zone("Nowhere").to(&tube).make();
        assert_eq!(kind(unknown), ErrorKind::Invalid);
        let made = cron("0 9 * * *").unwrap();
        assert_eq!(made.info().unwrap().zone.as_deref(), Some("UTC"));
        let next = made.next(1).unwrap();
        made.update(|it| it.zone("Europe/Berlin")).unwrap();
        assert_eq!(made.next(1).unwrap(), [next[0] - secs(7200)]);
        made.update(|it| it.cron("30 9 * * *")).unwrap();
        assert_eq!(made.next(1).unwrap(), [next[0] - secs(5400)]);
        made.pause().unwrap();
        clock.advance(secs(86_400));
        made.resume().unwrap();
        assert_eq!(made.next(1).unwrap(), [next[0] + secs(86_400 - 5400)]);
        made.update(|it| it.every(MINUTE)).unwrap();
        assert_eq!((tube.len().unwrap(), made.info().unwrap().cron), (1, None));
        // The offset of a cron text: not before.
        let late = queue.schedule("late").cron("0 * * * *").offset(secs(7200)).to(&tube);
        let late = late.make().unwrap();
        assert_eq!(late.next(1).unwrap(), [clock.wall() + secs(7200)]);
        sound(&queue);
    }

    /// The timer sleeps until the fire.
    #[test]
    fn a_fire_wakes_a_taker() {
        let clock = ManualClock::at(at(SATURDAY));
        let queue = Queue::builder().clock(clock.clone()).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        let (sender, received) = std::sync::mpsc::channel();
        let report = move |event: &Event| _ = sender.send(event.cause);
        tube.on_task_change(Some(report)).unwrap();
        queue.schedule("s").cron("0 * * * *").to(&tube).make().unwrap();
        clock.advance_until(|| received.recv().unwrap());
    }
}

fn names(tube: &Tube) -> Vec<String> {
    tube.schedules().map(|it| it.unwrap().name).collect()
}

/// QL-49, QL-51: the schedules of one tube, by their next fires over many pages, and their number.
#[test]
fn a_tube_lists_its_schedules_by_their_next_fires_and_counts_them() {
    let (queue, tube, clock) = queue();
    let other = queue.tube("other").unwrap();
    let make = |name: &str, minutes: u32, to: &Tube| {
        queue.schedule(name).every(MINUTE * minutes).offset(MINUTE * minutes).to(to).make().unwrap()
    };
    let mut expected = Vec::new();
    for number in 0..300 {
        let (own, others) = (format!("own {number:03}"), format!("of other {number:03}"));
        make(&own, 1 + (number * 7) % 300, &tube);
        make(&others, 1 + number, &other);
        expected.push(((number * 7) % 300, own));
    }
    expected.sort();
    let mut expected: Vec<String> = expected.into_iter().map(|(_, name)| name).collect();
    assert_eq!(names(&tube), expected);
    let count = |tube: &Tube| tube.stats().unwrap().schedules;
    assert_eq!([&tube, &other].map(count), [300, 300]);

    // One that does not fire stands after all others.
    let first = queue.schedule_named(&expected.remove(0));
    let name = first.info().unwrap().name;
    first.pause().unwrap();
    expected.push(name);
    assert_eq!((names(&tube), count(&tube)), (expected.clone(), 300));
    sound(&queue);
    first.resume().unwrap();
    expected.rotate_right(1);
    assert_eq!(names(&tube), expected);

    // Beside fires the walk ends, and lists each once, also what stands after all that fire.
    queue.drop_tube("other").unwrap();
    let paused = queue.schedule_named(expected.last().unwrap());
    paused.pause().unwrap();
    let mut walk = tube.schedules();
    let met = std::iter::from_fn(|| {
        clock.advance(MINUTE * 400);
        queue.tick().unwrap();
        walk.next()
    });
    let mut met: Vec<String> = met.map(|schedule| schedule.unwrap().name).collect();
    assert_eq!(met.last(), expected.last());
    met.sort();
    expected.sort();
    assert_eq!(met, expected);
    sound(&queue);
}

/// The count of a tube goes along with every change of its schedules, and over an opening.
#[test]
fn a_tube_counts_its_schedules_whatever_becomes_of_them() {
    let (_home, path) = home();
    let queue = open(&path);
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
    let counts = |queue: &Queue| {
        let of = |name: &str| queue.tube(name).unwrap().stats().unwrap().schedules;
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        [of("t"), of("other")]
    };
    let made = every(&queue, &tube, MINUTE, ALL);
    every(&queue, &tube, MINUTE, ALL);
    queue.schedule("u").every(MINUTE).to(&tube).make().unwrap();
    assert_eq!(counts(&queue), [2, 0]);
    made.update(|it| it.to(&other)).unwrap();
    assert_eq!(counts(&queue), [1, 1]);
    assert_eq!((names(&tube), names(&other)), (vec!["u".to_owned()], vec!["s".to_owned()]));
    tube.truncate().unwrap();
    made.pause().unwrap();
    assert_eq!(counts(&queue), [1, 1]);
    let overview = queue.overview().unwrap();
    assert_eq!(overview.iter().map(|tube| tube.stats.schedules).sum::<u64>(), 2);
    drop((tube, other));
    close_sound(queue);

    let queue = open(&path);
    assert_eq!(counts(&queue), [1, 1]);
    let other = queue.tube("other").unwrap();
    queue.drop_tube("other").unwrap();
    assert_eq!(kind(other.schedules().next().unwrap().map(drop)), ErrorKind::TubeNotFound);
    let again = queue.tube("other").unwrap();
    assert_eq!((counts(&queue), names(&again)), ([1, 0], vec![]));
    queue.schedule_named("s").update(|it| it.to(&again)).unwrap();
    assert_eq!(counts(&queue), [1, 1]);
    assert!(queue.schedule_named("s").remove().unwrap());
    assert!(!queue.schedule_named("s").remove().unwrap());
    assert_eq!(counts(&queue), [1, 0]);
}

/// Regression: they were counted only after each was compared with all before it, under the
/// engine's lock.
#[test]
fn tags_of_a_schedule_are_counted_before_they_are_looked_through() {
    let (queue, tube, _clock) = queue();
    let made = every(&queue, &tube, MINUTE, ALL);
    let same = vec!["a"; 1025];
    assert_eq!(kind(made.tag(&same)), ErrorKind::TooLarge);
    assert_eq!(kind(made.untag(&same)), ErrorKind::TooLarge);
    let many: Vec<String> = (0..200_000).map(|number| format!("{number:06}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(kind(made.tag(&many)), ErrorKind::TooLarge);
}

#[test]
fn a_child_is_within_the_payload_limit_of_its_queue() {
    let queue = still().0.payload_bytes_max(4).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    assert_eq!(kind(tube.put(b"hello")), ErrorKind::TooLarge);
    let made = queue.schedule("s").every(MINUTE).to(&tube).payload(b"hello").make();
    assert_eq!(kind(made), ErrorKind::TooLarge);
    let made = queue.schedule("s").every(MINUTE).to(&tube).payload(b"four").make().unwrap();
    assert_eq!(kind(made.update(|it| it.to(&tube).payload(b"hello"))), ErrorKind::TooLarge);
}

#[cfg(feature = "cron")]
#[test]
fn a_zone_that_is_no_place_is_refused_by_schedules_too() {
    let (builder, _clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    for zone in ["Etc/Unknown", "etc/UNKNOWN"] {
        let made = queue.schedule("s").cron("0 9 * * *").zone(zone).to(&tube).make();
        assert_eq!(kind(made), ErrorKind::Invalid, "{zone}"); // fails: it is made, and fires by UTC
    }
}
