//! Merges: all tasks of a tube go to another one as they stand, and their leases with them. The
//! clock is manual, so a taker that wakes was woken.

use crate::{close_sound, counts, home, kind, resumed, secs, still};
use std::sync::mpsc::channel;
use std::thread;
use std::time::UNIX_EPOCH;
use tubewell::{
    Cause, Clock, Conflict, Ended, ErrorKind, Lease, ManualClock, Merged, Place, Placement,
    PutView, Queue, Release, Result, Retention, SettingValue, State, Stop, Task, TaskId, Ticket,
    TicketHandle, Tube, TubeKind, TubeOptions, TubeStats, Unique,
};

fn kept() -> TubeOptions {
    TubeOptions::default().keep_finished(Retention::new()).ttr(secs(60))
}

fn with(options: &TubeOptions) -> (Queue, Tube, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let [old, new] = ["old", "new"].map(|name| queue.create_tube(name, options.clone()).unwrap());
    (queue, old, new, clock)
}

fn two() -> (Queue, Tube, Tube, ManualClock) {
    with(&kept())
}

fn sound(queue: &Queue) {
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// A merge of the whole tube.
fn merged(queue: &Queue) -> u64 {
    let Merged { moved, clashed, clashes, stopped_at, .. } = queue.merge("old", "new").unwrap();
    assert_eq!((clashed, &clashes[..], stopped_at), (0, &[][..], None));
    moved
}

/// What a task keeps.
fn kept_of(tube: &Tube, id: TaskId) -> String {
    let mut seen = tube.peek(id).unwrap();
    assert_eq!(seen.summary.tube, tube.name());
    // The move is an entry of the history.
    let summary = &mut seen.summary;
    (summary.tube, summary.history, summary.updated) = (String::new(), 0, UNIX_EPOCH);
    format!("{seen:?}")
}

/// A task in each state, with whatever a task may have.
fn of_all_kinds(tube: &Tube, clock: &ManualClock) -> (Vec<TaskId>, Task) {
    let payload = vec![7; 100_000];
    let buried = tube.task(b"buried").key("buried").group("g").put().unwrap();
    tube.claim(buried).unwrap().fail("broken", "why").unwrap();
    let done = tube.task(b"done").kind("mail").put().unwrap();
    tube.claim(done).unwrap().ack_with(b"result").unwrap();
    let taken = tube.task(&payload).key("taken").group("h").put().unwrap();
    let held = tube.claim(taken).unwrap();
    held.start("pid 7").unwrap();
    held.checkpoint(b"so far").unwrap();
    let again = tube.task(b"again").priority(5).put().unwrap();
    tube.claim(again).unwrap().retry_after("no", secs(0)).unwrap();
    let trashed = tube.put(b"trashed").unwrap();
    tube.claim(trashed).unwrap().trash("why").unwrap();
    let all = [
        tube.task(b"fresh").ttl(secs(900)).put().unwrap(),
        tube.task(&payload).priority(-5).detail("at", "home").put().unwrap(),
        tube.task(b"behind").group("h").put().unwrap(),
        tube.task(b"delayed").delay(secs(30)).key("delayed").put().unwrap(),
        tube.task(b"later").run_at(clock.wall() + secs(40)).put().unwrap(),
        tube.task(b"blocked").after([taken]).delay(secs(30)).put().unwrap(),
    ];
    let all: Vec<TaskId> = [buried, done, taken, again].into_iter().chain(all).collect();
    all.iter().for_each(|id| drop(tube.tag(*id, ["red", "blue"]).unwrap()));
    (all.into_iter().chain([trashed]).collect(), held)
}

#[test]
fn every_task_stands_in_the_other_tube_as_it_stood() {
    for temporary in [false, true] {
        let (_folder, path) = home();
        let (builder, clock) = still();
        let queue = builder.open(&path).unwrap();
        let options = kept().temporary(temporary);
        let [old, new] =
            ["old", "new"].map(|name| queue.create_tube(name, options.clone()).unwrap());
        let (ids, held) = of_all_kinds(&old, &clock);
        clock.advance(secs(1));
        let before: Vec<_> = ids.iter().map(|id| kept_of(&old, *id)).collect();
        let stats = old.stats().unwrap();
        assert_eq!(merged(&queue), ids.len() as u64);
        let after: Vec<_> = ids.iter().map(|id| kept_of(&new, *id)).collect();
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after);
        }
        let counts = |stats: &TubeStats| {
            let TubeStats { ready, delayed, blocked, taken, buried, finished, trashed, .. } = stats;
            [*ready, *delayed, *blocked, *taken, *buried, *finished, *trashed]
        };
        assert_eq!(counts(&new.stats().unwrap()), counts(&stats));
        assert_eq!(counts(&old.stats().unwrap()), [0; 7]);
        assert_eq!(new.stats().unwrap().calls.merged, ids.len() as u64);
        assert_eq!(queue.tagged("red").count(), ids.len() - 1);
        assert_eq!(new.failure_groups().unwrap().len(), 1);
        sound(&queue);
        // The waits end there, by the clocks that they had.
        held.ack().unwrap();
        clock.advance(secs(40));
        let mut order = Vec::new();
        while let Some(task) = new.try_take().unwrap() {
            order.push(String::from_utf8_lossy(&task[..task.len().min(9)]).into_owned());
            task.ack().unwrap();
        }
        let large = "\u{7}".repeat(9);
        assert_eq!(order, [&large, "fresh", "behind", "delayed", "later", "blocked", "again"]);
        sound(&queue);
        let done = new.peek(ids[1]).unwrap();
        assert_eq!(done.result.as_deref(), Some(&b"result"[..]));
        new.restore(ids[10]).unwrap();
        new.kick_task(ids[0]).unwrap();
        queue.drop_tube("old").unwrap();
        close_sound(queue);
        let queue = still().0.open(&path).unwrap();
        assert_eq!(queue.check().unwrap(), [""; 0]);
        let left = queue.tube("new").unwrap().stats().unwrap().ready;
        assert_eq!(left, if temporary { 0 } else { 2 });
    }
}

/// Regression: a child of a schedule that was due stayed behind, in a tube that was to be dropped.
#[test]
fn what_is_due_moves_too() {
    let (queue, old, new, clock) = two();
    queue.schedule("s").every(secs(60)).offset(secs(60)).to(&old).make().unwrap();
    old.task(b"late").delay(secs(60)).put().unwrap();
    clock.advance(secs(60));
    assert_eq!(queue.merge("old", "new").unwrap().moved, 2);
    assert!(old.is_empty().unwrap());
    assert_eq!(new.stats().unwrap().ready, 2);
    sound(&queue);
}

/// Those that move keep their order, and stand among the others by it.
#[test]
fn ranks_are_kept_among_both_tubes() {
    let (queue, old, new, _) = two();
    let mut ids = Vec::new();
    for number in 0..40 {
        let tube = if number % 3 == 0 { &new } else { &old };
        ids.push((number % 4, tube.task(b"x").priority(number % 4).put().unwrap()));
    }
    // Some have stood elsewhere before, and have other rows.
    for (priority, id) in &mut ids {
        if id.get() % 5 == 0 {
            let tube = queue.find_tube(&queue.find(*id).unwrap().tube).unwrap().unwrap();
            tube.claim(*id).unwrap().release_with(tubewell::Release::new().priority(7)).unwrap();
            *priority = 7;
        }
    }
    ids.sort_unstable();
    merged(&queue);
    let taken: Vec<_> = std::iter::from_fn(|| new.try_take().unwrap()).collect();
    let order: Vec<_> = taken.iter().map(|task| task.id()).collect();
    assert_eq!(order, ids.iter().map(|(_, id)| *id).collect::<Vec<_>>());
    new.ack_many(taken).unwrap();
    drop(old);
    sound(&queue);
}

/// The guard, the lease and the ticket of a task that was taken before the merge.
fn in_hand(queue: &Queue, old: &Tube, drops: bool) -> (Task, Lease, TicketHandle) {
    old.set("limit", 0u64).unwrap();
    old.put_many([*b"x"; 3]).unwrap();
    let [task, lease, ticket] = [(); 3].map(|()| old.take().unwrap());
    let (lease, ticket) = (lease.split().1, old.ticket(ticket.detach()));
    assert_eq!(merged(queue), 3);
    if drops {
        queue.drop_tube("old").unwrap();
    }
    (task, lease, ticket)
}

#[test]
fn every_verdict_reaches_a_task_that_was_taken_before() {
    for drops in [false, true] {
        for at in 0..crate::VERDICTS {
            let (queue, old, new, _) = two();
            let other = queue.create_tube("other", kept()).unwrap();
            // Leases that began before this are void there, but not those that come.
            let (task, lease, ticket) = in_hand(&queue, &old, drops);
            assert!(readings!(&ticket).into_iter().all(|read| read.is_ok()));
            assert!(!task.is_lost().unwrap());
            (verdicts!(Task)[at])(task, &other).unwrap();
            (verdicts!(Lease)[at])(lease, &other).unwrap();
            (verdicts!(TicketHandle)[at])(ticket.clone(), &other).unwrap();
            let calls = new.stats().unwrap().calls;
            assert!(drops || old.stats().unwrap().calls.ack == 0);
            assert_eq!(calls.lost, if new.stats().unwrap().taken == 1 { 2 } else { calls.lost });
            sound(&queue);
        }
    }
}

/// A ticket is as lost in the other tube as in its own.
#[test]
fn a_lease_ends_in_the_other_tube_as_in_its_own() {
    let (queue, old, new, clock) = two();
    let (mut task, lease, ticket) = in_hand(&queue, &old, true);
    let (sender, told) = channel();
    task.on_lost(move |event| sender.send((event.tube.to_string(), event.cause)).unwrap()).unwrap();
    assert_eq!(told.try_recv().ok(), None);
    clock.advance(secs(59));
    lease.renew().unwrap();
    clock.advance(secs(2));
    assert!(task.is_lost().unwrap() && !lease.is_lost().unwrap());
    assert_eq!(kind(ticket.ack()), ErrorKind::LeaseLost);
    queue.tick().unwrap();
    assert_eq!(told.recv().unwrap(), ("new".into(), Cause::Ttr));
    assert_eq!(kind(task.ack()), ErrorKind::LeaseLost);
    drop(lease);
    assert_eq!(new.stats().unwrap().calls.lost, 1);
    new.release_all().unwrap();
    sound(&queue);

    // A void lease there voids none that comes, and those that are void do not come.
    let (queue, old, new, _) = two();
    let ids = old.put_many([*b"x"; 3]).unwrap();
    let early = old.take().unwrap();
    new.put(b"y").unwrap();
    let void = new.take().unwrap();
    new.release_all().unwrap();
    assert_eq!(merged(&queue), 3);
    assert_eq!(kind(void.ack()), ErrorKind::LeaseLost);
    early.ack().unwrap();
    let next = new.take().unwrap();
    assert_eq!(next.id(), ids[1]);
    new.release_all().unwrap();
    assert_eq!(kind(next.ack()), ErrorKind::LeaseLost);
    sound(&queue);
}

#[test]
fn a_holder_is_not_told_of_the_merge_nor_of_the_end_of_its_old_tube() {
    let (queue, old, new, _) = two();
    let id = old.put(b"x").unwrap();
    let mut task = old.take().unwrap();
    let (sender, told) = channel();
    task.on_lost(move |event| sender.send((event.tube.to_string(), event.cause)).unwrap()).unwrap();
    let events = queue.events();
    merged(&queue);
    queue.drop_tube("old").unwrap();
    new.delete(id).unwrap();
    queue.tick().unwrap();
    assert_eq!(told.recv().unwrap(), ("new".into(), Cause::Delete));
    let seen: Vec<_> = std::iter::from_fn(|| events.try_recv())
        .filter(|event| event.task.is_some())
        .map(|event| (event.tube.to_string(), event.from, event.to, event.cause))
        .collect();
    let taken = Some(State::Taken);
    let step = |tube: &str, from, to, cause| (tube.to_owned(), from, to, cause);
    let expected = [
        step("old", taken, None, Cause::Merge),
        step("new", None, taken, Cause::Merge),
        step("new", taken, None, Cause::Delete),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn sessions_and_slots_go_with_their_leases() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    queue.set_throttle("api", 2).unwrap();
    let options = kept().throttle("api").limit(2);
    let [old, new] = ["old", "new"].map(|name| queue.create_tube(name, options.clone()).unwrap());
    let ids = old.put_many([*b"x"; 6]).unwrap();
    let (session, bob) = (queue.session(), queue.consumer_with_grace("bob", secs(9)).unwrap());
    let nameless = old.by(&session).take().unwrap();
    let named = old.by(&bob).take().unwrap();
    assert!(old.try_take().unwrap().is_none());
    merged(&queue);
    let holders = || queue.throttle_holders("api").collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(holders(), ids[..2]);
    assert!(new.try_take().unwrap().is_none());
    assert_eq!(new.peek(ids[1]).unwrap().holder.as_deref(), Some("bob"));
    nameless.detach();
    session.close().unwrap();
    let next = new.take().unwrap();
    assert_eq!((next.id(), next.attempt()), (ids[0], 2));
    named.detach();
    bob.close().unwrap();
    assert_eq!(new.peek(ids[1]).unwrap().state, State::Ready);
    next.ack().unwrap();
    clock.advance(secs(9));
    assert_eq!(holders(), []);
    sound(&queue);
}

#[test]
fn a_group_is_as_busy_there_as_it_was() {
    let (queue, old, new, _) = two();
    let put = |tube: &Tube| tube.task(b"x").group("g").put().unwrap();
    let ids = [put(&old), put(&new), put(&old), put(&old)];
    let task = old.take().unwrap();
    merged(&queue);
    assert!(new.try_take().unwrap().is_none());
    assert!(queue.explain(ids[1]).unwrap().to_string().contains("in flight"));
    task.ack().unwrap();
    for id in &ids[1..] {
        let task = new.take().unwrap();
        assert_eq!(task.id(), *id);
        assert!(new.try_take().unwrap().is_none());
        task.ack().unwrap();
    }
    sound(&queue);
}

/// Regression: delayed tasks came after the others of their group, which were taken meanwhile
/// although one of them held the group.
#[test]
fn a_delayed_task_that_holds_its_group_comes_before_the_others() {
    let held = || TubeOptions::default().hold_group_while_delayed(true);
    let (queue, old, new, clock) = with(&held());
    new.set("capacity", 3u64).unwrap();
    let put = || old.task(b"x").group("g").put().unwrap();
    let ids: Vec<_> = (0..5).map(|_| put()).collect();
    let plain = old.task(b"x").delay(secs(5)).put().unwrap();
    old.take().unwrap().release_with(Release::new().delay(secs(60))).unwrap();
    assert!(old.try_take().unwrap().is_none(), "its group is held");
    let done = queue.merge("old", "new").unwrap();
    assert_eq!((done.moved, done.stopped_at), (3, Some(ids[3])));
    assert_eq!(new.peek(ids[0]).unwrap().state, State::Delayed);
    assert!(new.try_take().unwrap().is_none(), "it is held here too");
    sound(&queue);
    new.set("capacity", SettingValue::Nothing).unwrap();
    assert_eq!(merged(&queue), 3);
    assert_eq!(new.peek(plain).unwrap().state, State::Delayed);
    clock.advance(secs(60));
    for id in ids.iter().chain([&plain]) {
        let task = new.take().unwrap();
        assert_eq!(task.id(), *id);
        task.ack().unwrap();
    }
    sound(&queue);
}

#[test]
fn tasks_whose_keys_others_have_are_named_and_stay() {
    let (queue, old, new, _) = two();
    let keyed = |tube: &Tube, key: &str| tube.task(b"x").key(key).put().unwrap();
    let clash: Vec<_> = (0..130).map(|at| keyed(&old, &format!("{at}"))).collect();
    let free = keyed(&old, "free");
    (0..130).for_each(|at| _ = keyed(&new, &format!("{at}")));
    let done = queue.merge("old", "new").unwrap();
    assert_eq!((done.moved, done.clashed, &done.clashes[..]), (1, 130, &clash[..100]));
    assert_eq!(new.peek(free).unwrap().key.as_deref(), Some("free"));
    assert_eq!(keyed(&new, "free"), free);
    // They are as they were.
    assert_eq!(old.take().unwrap().id(), clash[0]);
    assert_eq!(old.stats().unwrap().total, 130);
    new.truncate().unwrap();
    assert_eq!(queue.merge("old", "new").unwrap().moved, 130);
    sound(&queue);

    // A key that is unique in the queue is no other's.
    let (queue, old, new, _) = with(&kept().unique(Unique::new().in_queue(true)));
    let id = keyed(&old, "k");
    assert_eq!(merged(&queue), 1);
    let again = new.task(b"y").key("k").on_conflict(Conflict::Keep).put().unwrap();
    assert_eq!(again, id);
    sound(&queue);
}

#[test]
fn it_ends_where_the_other_tube_is_full_and_says_where() {
    let (queue, old, new, _) = two();
    new.set("capacity", 3u64).unwrap();
    let ids = old.put_many([*b"x"; 5]).unwrap();
    new.put(b"y").unwrap();
    let done = queue.merge("old", "new").unwrap();
    assert_eq!((done.moved, done.stopped_at), (2, Some(ids[2])));
    assert_eq!(queue.find_tube("old").unwrap().unwrap().info().unwrap().merges_into, None);
    let task = old.take().unwrap();
    assert_eq!(task.id(), ids[2]);
    task.ack().unwrap();
    new.truncate().unwrap();
    // The finished one, too.
    assert_eq!(merged(&queue), 3);
    sound(&queue);
}

#[test]
fn tubes_that_do_not_fit_are_refused_and_left_as_they_are() {
    struct Fixed;
    impl Placement for Fixed {
        fn place(&self, _: &PutView<'_>) -> Place {
            Place::new(&[1])
        }
    }
    let (builder, _clock) = still();
    let queue = builder.placement("fixed", Fixed).in_memory().unwrap();
    let plain = TubeOptions::default();
    let others = [
        ("temporary", plain.clone().temporary(true)),
        ("fifo", TubeOptions::new(TubeKind::Fifo)),
        ("higher", plain.clone().higher_first(true)),
        ("placed", plain.clone().placement("fixed")),
    ];
    let old = queue.create_tube("old", plain).unwrap();
    let id = old.put(b"x").unwrap();
    for (name, options) in others {
        queue.create_tube(name, options).unwrap();
        for (from, into) in [("old", name), (name, "old")] {
            let error = queue.merge(from, into).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}");
        }
    }
    assert_eq!(kind(queue.merge("old", "old")), ErrorKind::Invalid);
    assert_eq!(kind(queue.merge("old", "none")), ErrorKind::TubeNotFound);
    assert_eq!(kind(queue.merge("none", "old")), ErrorKind::TubeNotFound);
    assert_eq!(kind(queue.merge("a\nb", "old")), ErrorKind::Invalid);
    assert_eq!(old.peek(id).unwrap().state, State::Ready);
    let inside = queue.transact(|_| Ok::<_, tubewell::Error>(kind(queue.merge("old", "fifo"))));
    assert_eq!(inside.unwrap(), ErrorKind::InTransaction);
    sound(&queue);
}

/// What waits for a task that moves, or comes after it, follows it.
#[test]
fn dependencies_and_waits_follow() {
    let (queue, old, new, _) = two();
    let elsewhere = queue.tube("elsewhere").unwrap();
    let parent = old.put(b"parent").unwrap();
    let failed = old.put(b"failed").unwrap();
    let child = elsewhere.task(b"child").after([parent]).put().unwrap();
    let inner = old.task(b"inner").after([parent]).put().unwrap();
    let held = old.task(b"held").after([failed]).put().unwrap();
    old.claim(failed).unwrap().bury("no").unwrap();
    let stop = Stop::new();
    let waits = thread::spawn({
        let queue = queue.clone();
        move || queue.wait_for_until(parent, &stop)
    });
    merged(&queue);
    new.claim(parent).unwrap().ack_with(b"r").unwrap();
    let Some(Ended::Done(ended)) = waits.join().unwrap().unwrap() else { panic!("it is done") };
    assert_eq!(ended.result.as_deref(), Some(&b"r"[..]));
    assert_eq!(elsewhere.take().unwrap().id(), child);
    let task = new.take().unwrap();
    assert_eq!(task.id(), inner);
    task.ack().unwrap();
    assert_eq!(queue.find(held).unwrap().state, State::Blocked);
    new.kick_task(failed).unwrap();
    new.claim(failed).unwrap().ack().unwrap();
    assert_eq!(new.take().unwrap().id(), held);
    sound(&queue);
}

/// Regression: one lease that was lost failed all of its call once the old tube was dropped: no
/// other task was acked, and the end of a session failed again before each later call.
#[test]
fn a_lost_lease_does_not_touch_the_others_after_the_old_tube_is_gone() {
    for is_acked in [false, true] {
        let (queue, old, new, clock) = two();
        let ids = old.put_many([*b"x"; 4]).unwrap();
        let session = queue.session();
        let by = old.by(&session);
        let taken: Vec<Ticket> = (0..2).map(|_| by.take().unwrap().detach()).collect();
        let mut pair = vec![old.take().unwrap(), old.take().unwrap()];
        merged(&queue);
        queue.drop_tube("old").unwrap();
        let lost = [taken[0], pair[1].ticket()];
        for ticket in lost {
            if is_acked {
                new.delete(ticket.id()).unwrap();
            } else {
                new.force_timeout(&[ticket.id()]).unwrap();
            }
        }
        let error = old.ack_many(std::mem::take(&mut pair)).unwrap_err();
        assert_eq!((error.kind(), error.tasks()), (ErrorKind::LeaseLost, &ids[3..]));
        assert_eq!(queue.find(ids[2]).unwrap().state, State::Done);
        session.close().unwrap();
        assert_eq!(queue.find(ids[1]).unwrap().state, State::Ready);
        new.put(b"y").unwrap();
        clock.advance(secs(60));
        sound(&queue);
    }
}

#[test]
fn a_holder_that_asks_after_the_merge_is_told_of_the_other_tube() {
    let (queue, old, new, _) = two();
    old.put(b"x").unwrap();
    let mut task = old.take().unwrap();
    merged(&queue);
    let (sender, told) = channel();
    task.on_lost(move |event| sender.send((event.tube.to_string(), event.cause)).unwrap()).unwrap();
    queue.drop_tube("old").unwrap();
    queue.tick().unwrap();
    assert!(told.try_recv().is_err());
    new.truncate().unwrap();
    queue.tick().unwrap();
    assert_eq!(told.recv().unwrap(), ("new".into(), Cause::Truncate));
}

/// A merge removes nothing itself: what the other tube does not keep is due work there.
#[test]
fn what_has_ended_goes_by_the_limits_of_the_other_tube() {
    let few = TubeOptions::default().keep_finished(Retention::new().count(2));
    let (queue, old, new, _) = with(&few);
    let finish = |tube: &Tube| {
        tube.put(b"x").unwrap();
        tube.take().unwrap().ack().unwrap();
    };
    (0..2).for_each(|_| finish(&old));
    (0..2).for_each(|_| finish(&new));
    assert_eq!(merged(&queue), 2);
    assert_eq!(new.stats().unwrap().finished, 2);
    finish(&new);
    assert_eq!(new.stats().unwrap().finished, 2);
    sound(&queue);
}

/// Regression: while the queue is open a grace goes by lease time, which stands still while the
/// machine sleeps. A merge compared its end with queue time, and ended leases that waited.
#[test]
fn a_merge_after_the_machine_has_slept_keeps_the_leases_that_wait_for_their_consumer() {
    for merges in [false, true] {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        let [old, new] = ["old", "new"].map(|name| queue.tube(name).unwrap());
        let id = old.put(b"x").unwrap();
        let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
        old.by(&ada).take().unwrap().detach();
        drop(ada);
        clock.suspend(secs(120));
        queue.tick().unwrap();
        if merges {
            queue.merge("old", "new").unwrap();
        }
        let tube = if merges { &new } else { &old };
        assert_eq!(counts(tube), [0, 0, 1, 0], "merges: {merges}");
        let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
        let resumed = resumed(&ada, tube);
        assert_eq!(resumed.iter().map(|task| task.id()).collect::<Vec<_>>(), [id]);
        assert!(queue.check().unwrap().is_empty());
    }
}
