//! The trash: what leaves the board and is kept for review, and the ways out of it.

use crate::{
    close_sound, counts, drain, home, is_gone, killed, kind, listed, lone, lone_with, secs, state,
    still, until,
};
use std::thread;
use tubewell::{
    Cause, Conflict, ErrorKind, Filter, Queue, Reason, State, TaskId, Tube, TubeOptions, WhyNot,
};

fn trash(tube: &Tube) -> Vec<TaskId> {
    tube.trashed().map(|task| task.unwrap().id).collect()
}

fn trashed(reason: &str) -> Option<Reason> {
    Some(Reason::Trashed(reason.into()))
}

/// The tasks at work, and those in the trash.
fn both(tube: &Tube) -> (u64, u64) {
    let stats = tube.stats().unwrap();
    assert_eq!(stats.total, tube.len().unwrap());
    (stats.total, stats.trashed)
}

/// TF-17: one trashed, none on the board.
#[test]
fn a_task_in_hand_leaves_the_board_and_is_kept() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").group("g").put().unwrap();
    let next = tube.task(b"b").group("g").put().unwrap();
    clock.advance(secs(3));
    tube.take().unwrap().trash("torn").unwrap();
    assert_eq!(both(&tube), (1, 1));
    assert_eq!((counts(&tube), trash(&tube)), ([1, 0, 0, 0], vec![id]));
    let task = tube.peek(id).unwrap();
    assert_eq!((task.state, &task.reason, task.buries), (State::Buried, &trashed("torn"), 1));
    assert_eq!(&task.payload[..], b"a");
    assert_eq!(task.reason.as_ref().unwrap().to_string(), "trashed: torn");
    // Its group has gone on.
    assert_eq!(tube.take().unwrap().id(), next);
    // No verb of the buried ones finds it.
    assert_eq!(listed(&tube, State::Buried), "");
    assert!(tube.peek_next(State::Buried).unwrap().is_none());
    assert_eq!(
        (tube.kick(9).unwrap().kicked, tube.kick_where(9, |_| true).unwrap().kicked),
        (0, 0)
    );
    let calls = tube.stats().unwrap().calls;
    assert_eq!((calls.trash, calls.bury, calls.restore), (1, 0, 0));
}

#[test]
fn every_state_can_be_trashed_by_id_and_a_lease_is_lost() {
    let (tube, _) = lone();
    let ready = tube.put(b"ready").unwrap();
    let delayed = tube.task(b"delayed").delay(secs(9)).put().unwrap();
    let taken = tube.put(b"taken").unwrap();
    let buried = tube.put(b"buried").unwrap();
    let held = tube.claim(taken).unwrap();
    tube.claim(buried).unwrap().fail("g", "no").unwrap();
    for id in [ready, delayed, taken, buried] {
        tube.trash(id, "why").unwrap();
        tube.trash(id, "again").unwrap();
        tube.bury(id, "again").unwrap();
        assert_eq!(tube.peek(id).unwrap().reason, trashed("why"));
    }
    assert!(held.ack().unwrap_err().is_lease_lost());
    assert_eq!((both(&tube), tube.failure_groups().unwrap().len()), ((0, 4), 0));
    // One after the other at one instant: by id.
    assert_eq!(trash(&tube), [buried, taken, delayed, ready]);
    assert_eq!(tube.peek(buried).unwrap().last_failure.as_ref().unwrap().message, "no");
    assert_eq!(kind(tube.trash(TaskId::new(99), "no")), ErrorKind::TaskNotFound);
}

#[test]
fn verbs_of_other_states_refuse_it_and_say_what_to_do() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    tube.trash(id, "torn").unwrap();
    for error in [
        tube.kick_task(id).unwrap_err(),
        tube.complete_by_id(id).unwrap_err(),
        tube.fail_by_id(id, "g", "no").unwrap_err(),
        tube.claim(id).unwrap_err(),
        tube.update(id).delay(secs(1)).apply().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::WrongState, "{error}");
    }
    let restores = tube.kick_task(id).unwrap_err().to_string();
    assert!(restores.contains("in the trash, restore it"), "{restores}");
    let why = queue.explain(id).unwrap();
    assert_eq!(why.reasons, [WhyNot::Buried { reason: trashed("torn").unwrap() }]);
    assert!(why.to_string().contains("in the trash (torn); restore it"), "{why}");

    tube.update(id).priority(-3).max_attempts(2).apply().unwrap();
    let task = tube.peek(id).unwrap();
    assert_eq!((task.priority, task.max_attempts, &task.reason), (-3, Some(2), &trashed("torn")));
    let other = tube.put(b"b").unwrap();
    assert_eq!(kind(tube.restore(other)), ErrorKind::WrongState);
    tube.bury(other, "no").unwrap();
    assert_eq!(kind(tube.restore(other)), ErrorKind::WrongState);
    tube.delete_only_if(id, &[State::Buried]).unwrap();
    assert!(is_gone(&tube, id) && trash(&tube).is_empty());
}

#[test]
fn a_restored_task_begins_again_at_its_place() {
    let (builder, _) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let events = queue.events();
    let id = tube.task(b"first").priority(-1).put().unwrap();
    tube.put(b"second").unwrap();
    tube.take().unwrap().retry_after("no", secs(0)).unwrap();
    tube.take().unwrap().trash("torn").unwrap();
    tube.restore(id).unwrap();
    let task = tube.peek(id).unwrap();
    assert_eq!((task.state, task.attempts, &task.reason), (State::Ready, 0, &None));
    assert_eq!(drain(&tube), "first second");
    assert_eq!(kind(tube.restore(id)), ErrorKind::TaskNotFound);
    let mut steps = Vec::new();
    while let Some(event) = events.try_recv() {
        if event.task == Some(id) {
            steps.push((event.cause, event.from, event.to));
        }
    }
    let (taken, buried) = (Some(State::Taken), Some(State::Buried));
    assert!(steps.contains(&(Cause::Trash, taken, buried)), "{steps:?}");
    assert!(steps.contains(&(Cause::Restore, buried, Some(State::Ready))), "{steps:?}");
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn the_trash_takes_no_room_and_a_full_tube_refuses_a_restore() {
    let (tube, _) = lone_with(TubeOptions::default().capacity(2));
    let id = tube.put(b"a").unwrap();
    tube.put(b"b").unwrap();
    assert_eq!(kind(tube.put(b"c")), ErrorKind::Full);
    tube.trash(id, "torn").unwrap();
    tube.put(b"c").unwrap();
    assert_eq!(kind(tube.restore(id)), ErrorKind::Full);
    assert_eq!(both(&tube), (2, 1));
    tube.take().unwrap().ack().unwrap();
    tube.restore(id).unwrap();
    assert_eq!(both(&tube), (2, 0));
    assert_eq!(kind(tube.put(b"d")), ErrorKind::Full);
}

#[test]
fn a_put_that_waits_for_room_gets_that_of_a_trashed_task() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().capacity(1)).unwrap();
    let id = tube.put(b"a").unwrap();
    let waiting = tube.clone();
    let put = thread::spawn(move || waiting.task(b"b").wait_for_room(secs(60)).put());
    until(|| !queue.waiters().unwrap().is_empty());
    tube.take().unwrap().trash("torn").unwrap();
    put.join().unwrap().unwrap();
    assert_eq!(kind(tube.restore(id)), ErrorKind::Full);
}

#[test]
fn a_key_is_free_while_its_task_is_in_the_trash() {
    let (builder, _) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let keyed = |payload| tube.task(payload).key("k").on_conflict(Conflict::Reject).put();
    let id = keyed(b"a").unwrap();
    assert_eq!(kind(keyed(b"b")), ErrorKind::KeyExists);
    tube.trash(id, "torn").unwrap();
    let other = keyed(b"b").unwrap();
    let refused = tube.restore(id).unwrap_err();
    assert_eq!((refused.kind(), trash(&tube)), (ErrorKind::KeyExists, vec![id]));
    // Both in the trash: the first that is restored has the key.
    tube.trash(other, "wet").unwrap();
    tube.restore(id).unwrap();
    assert_eq!(kind(tube.restore(other)), ErrorKind::KeyExists);
    assert_eq!(queue.check().unwrap(), [""; 0]);
    tube.empty_trash().unwrap();
    assert_eq!(kind(keyed(b"c")), ErrorKind::KeyExists, "the other one's row stays");
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// A move out of the trash puts the task again, also into its own tube.
#[test]
fn move_to_takes_it_out_of_the_trash() {
    let (builder, _) = still();
    let queue = builder.in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    let id = a.task(b"x").key("k").put().unwrap();
    a.trash(id, "torn").unwrap();
    let other = a.task(b"y").key("k").put().unwrap();
    assert_eq!(kind(a.move_to(id, &a).apply()), ErrorKind::KeyExists);
    a.move_to(id, &b).apply().unwrap();
    assert_eq!((state(&b, id), trash(&a), both(&a)), (State::Ready, vec![], (1, 0)));
    assert_eq!(queue.find(id).unwrap().tube, "b");
    a.trash(other, "torn").unwrap();
    a.move_to(other, &a).apply().unwrap();
    assert_eq!(
        kind(a.task(b"z").key("k").on_conflict(Conflict::Reject).put()),
        ErrorKind::KeyExists
    );
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn a_ttl_goes_on_as_that_of_a_buried_task() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").ttl(secs(10)).put().unwrap();
    tube.trash(id, "torn").unwrap();
    clock.advance(secs(10));
    assert_eq!((both(&tube), trash(&tube)), ((0, 0), vec![]));

    let (tube, clock) = lone_with(TubeOptions::default().ttl_spares_buried(true));
    let id = tube.task(b"a").ttl(secs(10)).put().unwrap();
    tube.trash(id, "torn").unwrap();
    clock.advance(secs(11));
    assert_eq!(both(&tube), (0, 1));
    tube.restore(id).unwrap();
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(10)));
}

/// In bounded steps, with large payloads; what comes in meanwhile stays.
#[test]
fn the_trash_is_listed_newest_first_and_emptied() {
    let (builder, clock) = still();
    let (_home, path) = home();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let large = tube.put(&vec![7; 700_000]).unwrap();
    let mut ids = vec![large];
    ids.extend((0..600_u32).map(|at| tube.put(&at.to_be_bytes()).unwrap()));
    for id in &ids {
        clock.advance(secs(1));
        tube.trash(*id, "old").unwrap();
    }
    ids.reverse();
    assert_eq!(trash(&tube), ids);
    queue.checkpoint().unwrap();
    let mut listing = tube.trashed();
    assert_eq!(listing.next().unwrap().unwrap().id, ids[0]);
    tube.delete(ids[1]).unwrap();
    tube.restore(ids[2]).unwrap();
    assert_eq!(listing.next().unwrap().unwrap().id, ids[3], "those that have left are left out");
    clock.advance(secs(1));
    assert_eq!((tube.empty_trash().unwrap(), trash(&tube)), (599, vec![]));
    assert!(is_gone(&tube, large));
    assert_eq!(tube.empty_trash().unwrap(), 0);
    assert_eq!((both(&tube), queue.space().unwrap().durable_bytes), ((1, 0), 4));
    queue.tick().unwrap();
    close_sound(queue);
}

#[test]
fn the_trash_outlives_kills_and_goes_with_its_tube() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let ids: Vec<TaskId> = (0..4)
        .map(|at| {
            let id = tube.task(&vec![at; 9000]).key(&at.to_string()).put().unwrap();
            tube.take().unwrap().trash(format!("for {at}")).unwrap();
            id
        })
        .collect();
    let (_copy, copy) = killed(&path);
    let again = still().0.open(&copy).unwrap();
    let there = again.tube("t").unwrap();
    assert_eq!((both(&there), trash(&there).len()), ((0, 4), 4));
    assert_eq!(there.peek(ids[2]).unwrap().reason, trashed("for 2"));
    there.restore(ids[2]).unwrap();
    assert_eq!(&there.take().unwrap()[..], [2; 9000]);
    close_sound(again);

    // A tube with a trash is not empty: only a drop that accepts its tasks takes it.
    assert_eq!(tube.truncate().unwrap(), 4);
    assert_eq!(both(&tube), (0, 0));
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
    let id = tube.put(b"x").unwrap();
    tube.trash(id, "torn").unwrap();
    queue.drop_tube("t").unwrap();
    queue.tick().unwrap();
    assert_eq!(queue.space().unwrap().durable_bytes, 0);
    close_sound(queue);
}

#[test]
fn a_temporary_tube_has_a_trash_too() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().temporary(true)).unwrap();
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().trash("torn").unwrap();
    assert_eq!(trash(&tube), [id]);
    tube.restore(id).unwrap();
    tube.trash(id, "again").unwrap();
    assert_eq!(tube.empty_trash().unwrap(), 1);
    close_sound(queue);
}

/// A transaction trashes with the application's own rows, or not at all.
#[test]
fn a_transaction_trashes() {
    let (_home, path) = home();
    let queue: Queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    queue.transact(|tx| tx.trash(&task, "torn")).unwrap();
    drop(task);
    assert_eq!(trash(&tube), [id]);
    close_sound(queue);
}

/// A filter finds them only if it asks for them, by the time at which they came.
#[test]
fn a_search_looks_at_the_trash_or_at_the_others() {
    let (tube, clock) = lone();
    let mut ids = Vec::new();
    for number in 0..20 {
        let kind = if number % 2 == 0 { "mail" } else { "fax" };
        let key = format!("order/{number}");
        let task = tube.task(b"x").kind(kind).key(&key).priority(-number);
        ids.push(task.put().unwrap());
    }
    for id in &ids[..10] {
        tube.trash(*id, "torn").unwrap();
        clock.advance(secs(1));
    }
    tube.bury(ids[10], "no").unwrap();
    let found = |filter: &Filter, most| {
        let (mut found, mut next) = (Vec::new(), None);
        loop {
            let page = tube.search(filter, next.as_ref(), most).unwrap();
            found.extend(page.tasks.iter().map(|task| task.id));
            next = page.next;
            if next.is_none() {
                return found;
            }
        }
    };
    let any = || Filter::new().trashed(true);
    let fifth = tube.peek(ids[5]).unwrap().buried.unwrap();
    let odd: Vec<TaskId> = ids[..10].iter().copied().skip(1).step_by(2).collect();
    for most in [1, 3, 99] {
        assert_eq!(found(&any(), most), ids[..10]);
        assert_eq!(found(&any().state(State::Buried), most), ids[..10]);
        assert_eq!(found(&any().state(State::Ready), most), []);
        assert_eq!(found(&any().kind("fax"), most), odd);
        assert_eq!(found(&any().key_prefix("order/3"), most), ids[3..4]);
        assert_eq!(found(&any().ended_before(fifth), most), ids[..5]);
        assert_eq!(found(&any().ended_after(fifth).kind("fax"), most), odd[2..]);
        assert_eq!(found(&any().owner("ada"), most), []);
        assert_eq!(found(&Filter::new().trashed(false), most).len(), 10);
        assert_eq!(found(&Filter::new().state(State::Buried), most), ids[10..11]);
    }
    tube.empty_trash().unwrap();
    assert_eq!(found(&any(), 99), []);
}

/// Regression: `empty_trash` stopped before its first row, and returned 0, if the due work of the
/// tube, with which it is one decision, had written 1024 rows or more.
#[test]
fn the_trash_is_emptied_beside_much_due_work() {
    for due in 1..=20 {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        for at in 0..3 {
            let id = tube.put(b"x").unwrap();
            tube.trash(id, format!("no {at}")).unwrap();
        }
        for task in 0..due {
            let tags: Vec<_> = (0..64).map(|tag| format!("{task} {tag}")).collect();
            let put = tube.task(b"y").ttl(secs(10)).tags(tags.iter().map(String::as_str));
            put.put().unwrap();
        }
        clock.advance(secs(10));
        assert_eq!(tube.empty_trash().unwrap(), 3, "beside {due} tasks whose ttl has ended");
        assert_eq!(tube.stats().unwrap().trashed, 0);
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }
}
