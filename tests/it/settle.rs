//! The verdicts and what each one counts.

use crate::{
    counts, exhausted, is_gone, kind, last_error, lone, lone_with, next, secs, state, still,
};
use std::time::Duration;
use tubewell::{
    Backoff, Error, ErrorKind, Queue, Reason, Release, Result, State, Task, TaskId, TubeOptions,
};

#[test]
fn an_acked_task_is_gone() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().ack().unwrap();
    assert!(is_gone(&tube, id));
    assert!(tube.try_take().unwrap().is_none());
}

#[test]
fn a_release_gives_the_attempt_back_and_is_counted() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().release().unwrap();
    let info = tube.peek(id).unwrap();
    assert_eq!(
        (info.state, info.attempts, info.deliveries, info.releases),
        (State::Ready, 0, 1, 1)
    );
}

#[test]
fn a_retry_keeps_the_attempt_and_the_error_and_waits() {
    let (tube, clock) = lone_with(TubeOptions::default().backoff(Backoff::doubling(secs(1))));
    let id = tube.put(b"a").unwrap();
    for wait in [1, 2, 4] {
        tube.take().unwrap().retry("no route").unwrap();
        assert_eq!(state(&tube, id), State::Delayed);
        clock.advance(secs(wait) - Duration::from_micros(1));
        assert!(tube.try_take().unwrap().is_none());
        clock.advance(Duration::from_micros(1));
    }
    let info = tube.peek(id).unwrap();
    assert_eq!((info.attempts, last_error(&info)), (3, Some("no route")));
}

#[test]
fn a_retry_may_say_its_own_wait() {
    let (tube, clock) = lone();
    tube.put(b"a").unwrap();
    tube.take().unwrap().retry_after("busy", secs(100)).unwrap();
    clock.advance(secs(99));
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(secs(1));
    tube.take().unwrap().retry_after("busy", Duration::ZERO).unwrap();
    assert_eq!(next(&tube), "a");
}

#[test]
fn without_back_off_a_retried_task_is_ready_at_once() {
    let (tube, _) = lone_with(TubeOptions::default().backoff(Backoff::NONE));
    tube.put(b"a").unwrap();
    tube.take().unwrap().retry("again").unwrap();
    assert_eq!(tube.take().unwrap().attempt(), 2);
}

#[test]
fn an_exhausted_task_is_buried_with_its_last_real_error() {
    let (tube, _) = lone_with(TubeOptions::default().max_attempts(2).backoff(Backoff::NONE));
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().retry("disk on fire").unwrap();
    drop(tube.take().unwrap());
    let info = tube.peek(id).unwrap();
    assert_eq!(info.reason, Some(exhausted("disk on fire")));
    assert_eq!((info.state, info.attempts, info.buries), (State::Buried, 2, 1));
}

#[test]
fn the_last_retry_buries_with_its_own_error() {
    let (tube, _) = lone_with(TubeOptions::default().max_attempts(1));
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().retry("out of memory").unwrap();
    assert_eq!(tube.peek(id).unwrap().reason, Some(exhausted("out of memory")));
}

#[test]
fn the_general_kind_has_twenty_attempts() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    for _ in 0..20 {
        assert_eq!(state(&tube, id), State::Ready);
        drop(tube.take().unwrap());
    }
    assert_eq!(state(&tube, id), State::Buried);
}

#[test]
fn a_released_task_is_never_exhausted() {
    let (tube, _) = lone_with(TubeOptions::default().max_attempts(1));
    tube.put(b"a").unwrap();
    for _ in 0..5 {
        tube.take().unwrap().release().unwrap();
    }
    assert_eq!(next(&tube), "a");
}

#[test]
fn a_buried_task_keeps_the_holders_reason() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().bury("no such address").unwrap();
    let info = tube.peek(id).unwrap();
    assert_eq!((info.state, info.buries), (State::Buried, 1));
    assert_eq!(info.reason, Some(Reason::Buried("no such address".into())));
    assert!(tube.try_take().unwrap().is_none());
}

#[test]
fn a_failed_task_is_buried_under_its_group() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().fail("network", "timed out").unwrap();
    let info = tube.peek(id).unwrap();
    let reason = Reason::Failed { group: "network".into(), message: "timed out".into() };
    assert_eq!((info.reason.clone(), last_error(&info)), (Some(reason), Some("timed out")));
}

#[test]
fn a_bury_by_id_works_from_any_state() {
    let (tube, _) = lone();
    let ready = tube.put(b"a").unwrap();
    let delayed = tube.task(b"b").delay(secs(9)).put().unwrap();
    let taken = tube.task(b"c").priority(-1).put().unwrap();
    let task = tube.take().unwrap();
    assert_eq!(task.id(), taken);
    for id in [ready, delayed, taken] {
        tube.bury(id, "by the operator").unwrap();
        assert_eq!(state(&tube, id), State::Buried);
    }
    assert!(task.ack().unwrap_err().is_lease_lost(), "its lease is lost");
    assert_eq!(counts(&tube), [0, 0, 0, 3]);
}

#[test]
fn a_second_bury_changes_nothing() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    tube.bury(id, "first").unwrap();
    tube.bury(id, "second").unwrap();
    let info = tube.peek(id).unwrap();
    assert_eq!((info.reason.clone().unwrap().to_string(), info.buries), ("first".into(), 1));
    assert_eq!(tube.stats().unwrap().calls.bury, 1);
}

#[test]
fn a_task_is_deleted_from_any_state() {
    let (tube, _) = lone();
    let ready = tube.put(b"a").unwrap();
    let delayed = tube.task(b"b").delay(secs(9)).put().unwrap();
    let buried = tube.put(b"c").unwrap();
    tube.bury(buried, "").unwrap();
    let taken = tube.task(b"d").priority(-1).put().unwrap();
    let task = tube.take().unwrap();
    for id in [ready, delayed, buried, taken] {
        tube.delete(id).unwrap();
        assert!(is_gone(&tube, id));
    }
    assert!(task.ack().unwrap_err().is_lease_lost());
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn release_all_returns_every_taken_task_of_every_holder() {
    let (builder, _) = crate::still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    for text in ["a", "b", "c"] {
        tube.put(text.as_bytes()).unwrap();
    }
    let by_name = tube.by(&ada).take().unwrap();
    let nameless = tube.take().unwrap();
    tube.release_all().unwrap();
    assert!(by_name.ack().unwrap_err().is_lease_lost());
    assert!(nameless.ack().unwrap_err().is_lease_lost());
    queue.tick().unwrap();
    assert_eq!(crate::drain(&tube), "a b c");
}

#[test]
fn ids_that_never_existed_are_not_found() {
    let (tube, _) = lone();
    for id in [0, 1, 77, u64::MAX].map(TaskId::new) {
        assert_eq!(kind(tube.peek(id)), ErrorKind::TaskNotFound);
        assert_eq!(kind(tube.bury(id, "")), ErrorKind::TaskNotFound);
        assert_eq!(kind(tube.delete(id)), ErrorKind::TaskNotFound);
        assert_eq!(kind(tube.kick_task(id)), ErrorKind::TaskNotFound);
    }
}

#[test]
fn an_error_names_the_verb_the_task_and_the_tube() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    tube.delete(id).unwrap();
    let text = task.ack().unwrap_err().to_string();
    assert!(text.starts_with(&format!("ack task {id} in tube \"lone\": ")), "{text}");
}

#[test]
fn a_delayed_release_counts_as_a_release() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().release_with(Release::new().delay(secs(5))).unwrap();
    let info = tube.peek(id).unwrap();
    assert_eq!((info.attempts, info.releases, info.state), (0, 1, State::Delayed));
}

/// Settles a new task, and one that was deleted in the meantime. Returns the state of the first and
/// the error of the second.
fn settled(settle: impl Fn(&Queue, Task) -> Result<()>) -> (String, String) {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let (id, lost) = (tube.put(b"a").unwrap(), tube.put(b"b").unwrap());
    settle(&queue, tube.take().unwrap()).unwrap();
    let became = tube.peek(id).map(|task| {
        let counts = (task.attempts, task.releases, task.buries);
        let waits = task.due.map(|due| due.duration_since(task.created).unwrap());
        format!("{:?} {counts:?} {waits:?} {:?}", task.state, (&task.reason, last_error(&task)))
    });
    let task = tube.claim(lost).unwrap();
    tube.delete(lost).unwrap();
    let error: Error = settle(&queue, task).unwrap_err();
    assert_eq!((error.kind(), error.tasks()), (ErrorKind::LeaseLost, &[lost][..]));
    (became.unwrap_or_else(|_| "gone".into()), error.to_string())
}

/// Each verdict is the same on a task, on its lease, by ticket and inside a transaction.
#[test]
fn a_verdict_is_the_same_wherever_it_is_given() {
    macro_rules! everywhere {
        ($verb:ident($($word:expr),*) is $action:literal, $becomes:literal) => {
            let by_guard = settled(|_, task| task.$verb($($word),*));
            let by_lease = settled(|_, task| task.split().1.$verb($($word),*));
            let by_ticket =
                settled(|queue, task| queue.tube("t")?.ticket(task.detach()).$verb($($word),*));
            let inside = settled(|queue, task| {
                let mut error = Ok(());
                let done = queue.transact(|tx| {
                    error = tx.$verb(&task, $($word),*);
                    error.as_ref().map(|()| ()).map_err(|_| "rolled back")
                });
                error.and(done)
            });
            let text = concat!($action, " task 2 in tube \"t\": the lease is no longer held");
            assert_eq!(by_guard.0, $becomes);
            assert!(by_guard.1.starts_with(text), "{}", by_guard.1);
            assert_eq!((&by_guard, &by_guard, &by_guard), (&by_lease, &by_ticket, &inside));
        };
    }
    let later = || Release::new().delay(secs(5));
    everywhere!(ack() is "ack", "gone");
    everywhere!(release() is "release", "Ready (0, 1, 0) None (None, None)");
    everywhere!(release_with(later()) is "release", "Delayed (0, 1, 0) Some(5s) (None, None)");
    everywhere!(retry("no") is "retry", "Delayed (1, 0, 0) Some(1s) (None, Some(\"no\"))");
    everywhere!(
        retry_after("no", secs(9)) is "retry",
        "Delayed (1, 0, 0) Some(9s) (None, Some(\"no\"))"
    );
    everywhere!(bury("no") is "bury", "Buried (1, 0, 1) None (Some(Buried(\"no\")), None)");
    everywhere!(
        fail("g", "no") is "fail",
        "Buried (1, 0, 1) None (Some(Failed { group: \"g\", message: \"no\" }), Some(\"no\"))"
    );
}
