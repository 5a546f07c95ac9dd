//! What a holder reports of its work: that it has begun, how far it is, and a checkpoint. When each
//! of them is forgotten, and what the next holder learns of the one before.

use crate::{close_sound, home, killed, kind, secs, still};
use tubewell::{
    Conflict, Durability, ErrorKind, HistoryEvent, HistoryLimits, Phase, Queue, Retention, State,
    Task, TaskId, Tube, TubeOptions, WorkProgress,
};

fn started(tube: &Tube, id: TaskId) -> Option<String> {
    match tube.peek(id).unwrap().phase.clone() {
        Some(Phase::Started { meta, .. }) => Some(meta),
        _ => None,
    }
}

fn progress(tube: &Tube, id: TaskId) -> Option<u8> {
    tube.peek(id).unwrap().progress.as_ref().map(|progress| progress.percent)
}

fn sound(queue: &Queue) {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

fn in_memory(options: TubeOptions) -> (Queue, Tube) {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.create_tube("t", options).unwrap();
    (queue, tube)
}

fn all_of(task: &Task) {
    task.start("pid 1").unwrap();
    task.progress(10, "ten").unwrap();
    task.checkpoint(b"from here").unwrap();
}

#[test]
fn a_task_is_reserved_then_started_until_its_lease_ends() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().ttr(secs(30))).unwrap();
    let id = tube.put(b"x").unwrap();
    assert_eq!(tube.peek(id).unwrap().phase, None);
    let task = tube.take().unwrap();
    assert_eq!(tube.peek(id).unwrap().phase, Some(Phase::Reserved));
    let at = tube.peek(id).unwrap().created + secs(5);
    clock.advance(secs(5));
    task.start("pid 1").unwrap();
    clock.advance(secs(5));
    // What does the work may change. The time at which it began stays.
    task.start("pid 2").unwrap();
    let phase = Some(Phase::Started { at, meta: "pid 2".to_owned() });
    assert_eq!(tube.peek(id).unwrap().phase, phase);
    task.renew().unwrap();
    assert_eq!(tube.peek(id).unwrap().phase, phase);

    let ends: [&dyn Fn(Task); 4] = [
        &|task| task.release().unwrap(),
        &|task| task.retry_after("no", secs(0)).unwrap(),
        &drop,
        &|task| {
            clock.advance(secs(30));
            assert!(task.is_lost().unwrap());
        },
    ];
    let mut task = task;
    for end in ends {
        end(task);
        assert_eq!(tube.peek(id).unwrap().phase, None);
        task = tube.take().unwrap();
        assert_eq!(tube.peek(id).unwrap().phase, Some(Phase::Reserved));
        task.start("").unwrap();
        assert_eq!(started(&tube, id).as_deref(), Some(""));
    }
    sound(&queue);
}

#[test]
fn the_last_progress_is_seen_until_the_step_is_done() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let [tube, next] = ["a", "b"].map(|name| queue.tube(name).unwrap());
    let id = tube.put(b"x").unwrap();
    let at = tube.peek(id).unwrap().created + secs(2);
    let task = tube.take().unwrap();
    task.progress(0, "").unwrap();
    clock.advance(secs(2));
    task.progress(100, "all but the name").unwrap();
    task.retry_after("no", secs(0)).unwrap();
    let summary = tube.summaries(State::Ready).next().unwrap().unwrap();
    let WorkProgress { percent, text, at: when, .. } = summary.progress.unwrap();
    assert_eq!((percent, &text[..], when), (100, "all but the name", at));
    // A move by id keeps it, as it keeps the task.
    tube.move_to(id, &next).apply().unwrap();
    assert_eq!(progress(&next, id), Some(100));
    let mut task = next.take().unwrap();
    task.checkpoint(b"1").unwrap();
    task.advance(&tube).unwrap();
    assert_eq!(progress(&tube, id), None);
    assert_eq!(tube.last_checkpoint(id).unwrap(), None);
    sound(&queue);
}

#[test]
fn a_checkpoint_survives_attempts_and_openings_and_ends_with_the_work() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let options = TubeOptions::default().keep_finished(Retention::new());
    let tube = queue.create_tube("t", options).unwrap();
    let id = tube.put(b"x").unwrap();
    let task = tube.take().unwrap();
    assert_eq!(task.last_checkpoint().unwrap(), None);
    task.checkpoint(b"").unwrap();
    assert_eq!(task.last_checkpoint().unwrap().as_deref(), Some(&b""[..]));
    task.checkpoint(&[7; 16 << 10]).unwrap();
    task.progress(50, "half").unwrap();
    task.bury("no").unwrap();
    drop(tube);
    queue.close().unwrap();

    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    assert_eq!(tube.last_checkpoint(id).unwrap().unwrap(), [7; 16 << 10]);
    tube.kick_task(id).unwrap();
    let task = tube.take().unwrap();
    assert_eq!(task.last_checkpoint().unwrap().unwrap(), [7; 16 << 10]);
    task.checkpoint(b"nearly").unwrap();
    task.ack().unwrap();
    let done = tube.peek(id).unwrap();
    assert_eq!((done.state, tube.last_checkpoint(id).unwrap()), (State::Done, None));
    assert_eq!(done.progress.as_ref().unwrap().percent, 50);
    tube.delete(id).unwrap();
    drop(tube);
    close_sound(queue);
}

/// A check finds each row that is left without its task.
#[test]
fn reports_go_with_their_task() {
    for temporary in [false, true] {
        let options = TubeOptions::default().temporary(temporary);
        let ways: [fn(&Queue, &Tube, Task); 8] = [
            |_, _, task| task.ack().unwrap(),
            |_, tube, task| tube.delete(task.id()).unwrap(),
            |_, tube, task| assert_eq!(tube.delete_many(&[task.id()]).unwrap(), 1),
            |_, tube, _| {
                let again = tube.task(b"y").key("k").on_conflict(Conflict::Replace);
                let id = again.put().unwrap();
                assert_eq!(tube.peek(id).unwrap().progress, None);
                assert_eq!(tube.last_checkpoint(id).unwrap(), None);
            },
            |_, tube, task| tube.complete_by_id(task.id()).map(drop).unwrap(),
            |_, tube, _| _ = tube.truncate().unwrap(),
            |queue, _, _| queue.force_drop_tube("t").unwrap(),
            |_, tube, task| {
                tube.trash(task.id(), "no").unwrap();
                tube.empty_trash().unwrap();
            },
        ];
        for end in ways {
            let (queue, tube) = in_memory(options.clone());
            tube.task(b"x").key("k").put().unwrap();
            let task = tube.take().unwrap();
            all_of(&task);
            sound(&queue);
            end(&queue, &tube, task);
            queue.tick().unwrap();
            sound(&queue);
        }
    }
}

/// The end of a ttl, and the limit of the finished tasks that a tube keeps.
#[test]
fn reports_go_with_what_a_tube_removes_by_itself() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = TubeOptions::default().keep_finished(Retention::new().count(1));
    let tube = queue.create_tube("t", options).unwrap();
    let ids = [(); 3].map(|()| {
        let id = tube.task(b"x").ttl(secs(9)).put().unwrap();
        all_of(&tube.claim(id).unwrap());
        id
    });
    for id in ids {
        let task = tube.claim(id).unwrap();
        if id == ids[2] {
            task.detach();
        } else {
            task.ack().unwrap();
        }
    }
    assert_eq!(kind(tube.peek(ids[0])), ErrorKind::TaskNotFound);
    assert_eq!(progress(&tube, ids[1]), Some(10));
    clock.advance(secs(9));
    queue.tick().unwrap();
    assert_eq!(kind(tube.peek(ids[2])), ErrorKind::TaskNotFound);
    sound(&queue);
    tube.delete(ids[1]).unwrap();
    sound(&queue);
}

#[test]
fn what_is_over_its_limit_is_refused_and_the_lease_stays() {
    let (queue, tube) = in_memory(TubeOptions::default());
    let id = tube.put(b"x").unwrap();
    let task = tube.take().unwrap();
    assert_eq!(kind(task.progress(101, "")), ErrorKind::Invalid);
    assert_eq!(kind(task.progress(1, &"x".repeat(1025))), ErrorKind::TooLarge);
    assert_eq!(kind(task.start(&"x".repeat(256))), ErrorKind::TooLarge);
    assert_eq!(kind(task.checkpoint(&[0; (16 << 10) + 1])), ErrorKind::TooLarge);
    let seen = tube.peek(id).unwrap();
    assert_eq!((&seen.phase, &seen.progress), (&Some(Phase::Reserved), &None));
    assert_eq!(tube.last_checkpoint(id).unwrap(), None);
    task.start(&"x".repeat(255)).unwrap();
    task.progress(100, &"x".repeat(1024)).unwrap();
    task.checkpoint(&[0; 16 << 10]).unwrap();
    task.ack().unwrap();
    sound(&queue);
}

#[test]
fn a_lost_lease_reports_nothing() {
    let (queue, tube) = in_memory(TubeOptions::default());
    let id = tube.put(b"x").unwrap();
    let old = tube.take().unwrap();
    tube.force_timeout(&[id]).unwrap();
    let task = tube.take().unwrap();
    task.checkpoint(b"mine").unwrap();
    let refused = [old.start("x"), old.progress(1, "x"), old.checkpoint(b"x")];
    for refused in refused {
        assert_eq!(kind(refused), ErrorKind::LeaseLost);
    }
    assert_eq!(kind(old.last_checkpoint()), ErrorKind::LeaseLost);
    assert_eq!(kind(old.previous()), ErrorKind::LeaseLost);
    assert_eq!((started(&tube, id), progress(&tube, id)), (None, None));
    assert_eq!(tube.last_checkpoint(id).unwrap().as_deref(), Some(&b"mine"[..]));
    assert_eq!(kind(tube.last_checkpoint(TaskId::new(99))), ErrorKind::TaskNotFound);
    sound(&queue);
}

/// A dead worker's task comes to the adopter in the phase in which it was.
#[test]
fn an_adopted_task_keeps_its_phase_and_names_the_one_before() {
    for is_killed in [false, true] {
        is_adopted(is_killed);
    }
}

fn is_adopted(is_killed: bool) {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let [first, second] = [tube.put(b"1").unwrap(), tube.put(b"2").unwrap()];
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let task = tube.by(&ada).take().unwrap();
    all_of(&task);
    let tickets = (task.detach(), tube.by(&ada).take().unwrap().detach());
    let copy = is_killed.then(|| {
        queue.flush().unwrap();
        killed(&path)
    });
    drop((tickets, ada, tube));
    queue.close().unwrap();

    let queue = still().0.open(copy.as_ref().map_or(&path, |(_, copy)| copy)).unwrap();
    let tube = queue.tube("t").unwrap();
    let bob = queue.consumer("bob").unwrap();
    let left = bob.adopt("ada").unwrap();
    let tasks: Vec<_> = left.tasks(&tube).map(Result::unwrap).collect();
    assert_eq!(tasks.iter().map(|task| task.id()).collect::<Vec<_>>(), [first, second]);
    assert_eq!(started(&tube, first).as_deref(), Some("pid 1"));
    assert_eq!(tube.peek(second).unwrap().phase, Some(Phase::Reserved));
    assert_eq!(tasks[0].last_checkpoint().unwrap().as_deref(), Some(&b"from here"[..]));
    for task in tasks {
        let previous = task.previous().unwrap().unwrap();
        assert_eq!(previous.event, HistoryEvent::Adopted);
        assert_eq!((previous.by.as_deref(), previous.attempt), (Some("ada"), Some(1)));
        task.ack().unwrap();
    }
    drop((left, bob, tube));
    close_sound(queue);
}

/// In the same process it is known how long the one before held the task.
#[test]
fn an_adoption_is_an_entry_of_the_history_with_the_time_that_the_lease_was_held() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"x").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    drop((tube.by(&ada).take().unwrap().detach(), ada));
    clock.advance(secs(7));
    let bob = queue.consumer("bob").unwrap();
    let task = bob.adopt("ada").unwrap().tasks(&tube).next().unwrap().unwrap();
    let previous = task.previous().unwrap().unwrap();
    assert_eq!((previous.by.as_deref(), previous.held_for), (Some("ada"), Some(secs(7))));
    clock.advance(secs(2));
    task.release().unwrap();
    let events = tube.history(id).unwrap().entries.into_iter().map(|entry| entry.event);
    let wanted = [HistoryEvent::Put, HistoryEvent::Adopted, HistoryEvent::Released];
    assert_eq!(events.collect::<Vec<_>>(), wanted);
    sound(&queue);
}

#[test]
fn a_lease_that_is_resumed_names_no_other_holder() {
    let (queue, tube) = in_memory(TubeOptions::default());
    let id = tube.put(b"1").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let task = tube.by(&ada).take().unwrap();
    task.start("x").unwrap();
    drop((task.detach(), ada));
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let task = ada.resume(&tube).next().unwrap().unwrap();
    assert_eq!(started(&tube, id).as_deref(), Some("x"));
    assert_eq!(task.previous().unwrap(), None);
    task.release().unwrap();
}

#[test]
fn the_next_holder_learns_how_the_attempt_before_ended() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().ttr(secs(30))).unwrap();
    let id = tube.put(b"x").unwrap();
    let task = tube.by(&queue.consumer("ada").unwrap()).take().unwrap();
    assert_eq!(task.previous().unwrap(), None);
    clock.advance(secs(30));
    drop(task);
    let task = tube.take().unwrap();
    // Lines do not end an attempt.
    tube.log(id, "a line").unwrap();
    let previous = task.previous().unwrap().unwrap();
    assert_eq!((previous.event, previous.attempt), (HistoryEvent::TimedOut, Some(1)));
    assert_eq!((previous.by.as_deref(), previous.held_for), (Some("ada"), Some(secs(30))));

    let none = TubeOptions::default().history(HistoryLimits::none());
    let tube = queue.create_tube("without", none).unwrap();
    tube.put(b"x").unwrap();
    drop(tube.take().unwrap());
    assert_eq!(tube.take().unwrap().previous().unwrap(), None);
}

/// As a take: before it is on the disk. A checkpoint as a put.
#[test]
fn only_a_checkpoint_is_synced() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put_many([b"x".to_vec(), b"y".to_vec()]).unwrap();
    let [first, task] = [tube.take().unwrap(), tube.take().unwrap()];
    let syncs = || queue.space().unwrap().syncs;
    // The first report enters the feature.
    first.start("x").unwrap();
    let before = syncs();
    task.start("x").unwrap();
    task.progress(1, "x").unwrap();
    assert_eq!(syncs(), before);
    task.checkpoint(b"x").unwrap();
    assert_eq!(syncs(), before + 1);
    tube.durability(Durability::Relaxed).ticket(task.ticket()).checkpoint(b"y").unwrap();
    assert_eq!(syncs(), before + 1);
}
