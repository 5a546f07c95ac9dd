//! Putting: what a new task is.

use crate::{counts, lone, lone_with, next, secs, state, still};
use tubewell::{
    Advance, Clock, Durability, Phase, Queue, Retention, Retry, State, TaskId, TaskInfo,
    TubeOptions,
};

#[test]
fn ids_grow_in_put_order_from_one() {
    let (tube, _) = lone();
    let ids: Vec<TaskId> = (0..3).map(|_| tube.put(b"x").unwrap()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(ids[0].get() >= 1);
}

#[test]
fn an_id_is_not_reused_when_the_highest_task_is_gone() {
    let (tube, _) = lone();
    let first = tube.put(b"x").unwrap();
    tube.delete(first).unwrap();
    assert!(tube.put(b"y").unwrap() > first);
}

#[test]
fn a_new_task_is_ready_and_a_delayed_one_delayed() {
    let (tube, _) = lone();
    let now = tube.put(b"now").unwrap();
    let later = tube.task(b"later").delay(secs(1)).put().unwrap();
    assert_eq!((state(&tube, now), state(&tube, later)), (State::Ready, State::Delayed));
}

#[test]
fn payloads_come_back_byte_for_byte() {
    let (tube, _) = lone();
    for size in [0, 1, 255, 4095, 4096, 4097, 70_000] {
        let payload: Vec<u8> = (0..size).map(|at| (at * 31 % 251) as u8).collect();
        tube.put(&payload).unwrap();
        let task = tube.take().unwrap();
        assert!(*task == *payload, "{size} bytes");
        task.ack().unwrap();
    }
}

#[test]
fn the_length_counts_every_state() {
    let (tube, _) = lone();
    tube.put(b"taken").unwrap();
    let _task = tube.take().unwrap();
    tube.put(b"ready").unwrap();
    tube.task(b"delayed").delay(secs(1)).put().unwrap();
    let buried = tube.put(b"buried").unwrap();
    tube.bury(buried, "").unwrap();
    assert_eq!(counts(&tube), [1, 1, 1, 1]);
    assert_eq!(tube.len().unwrap(), 4);
}

#[test]
fn without_options_a_task_has_the_tubes() {
    let options = TubeOptions::default().priority(7).ttl(secs(10)).ttr(secs(5));
    let (tube, _) = lone_with(options);
    let plain = tube.peek(tube.put(b"x").unwrap()).unwrap();
    assert_eq!((plain.priority, plain.ttl_left, plain.ttr), (7, Some(secs(10)), Some(secs(5))));
    let own = tube.task(b"x").priority(-1).ttl(secs(1)).ttr(secs(2)).put().unwrap();
    let own = tube.peek(own).unwrap();
    assert_eq!((own.priority, own.ttl_left, own.ttr), (-1, Some(secs(1)), Some(secs(2))));
}

#[test]
fn the_minimal_put_is_the_one_with_all_defaults() {
    let (tube, _) = lone();
    let short = tube.peek(tube.put(b"x").unwrap()).unwrap();
    let long = tube.task(b"x").priority(0).delay(secs(0)).durability(Durability::Durable);
    let long = tube.peek(long.put().unwrap()).unwrap();
    assert_eq!(
        (
            short.state,
            short.priority,
            short.ttl_left,
            short.ttr,
            short.summary.group,
            short.summary.key
        ),
        (long.state, long.priority, long.ttl_left, long.ttr, long.summary.group, long.summary.key)
    );
}

#[test]
fn peek_returns_everything_that_was_asked_for() {
    let (tube, clock) = lone();
    let put = tube.task(b"x").priority(3).group("g").key("k").delay(secs(9)).ttl(secs(60));
    let info = tube.peek(put.ttr(secs(5)).put().unwrap()).unwrap();
    assert_eq!((info.tube.as_str(), info.priority), ("lone", 3));
    assert_eq!((info.group.as_deref(), info.key.as_deref()), (Some("g"), Some("k")));
    assert_eq!((info.ttl_left, info.ttr), (Some(secs(60)), Some(secs(5))));
    assert_eq!(info.created, clock.wall());
    assert_eq!(info.due, Some(clock.wall() + secs(9)));
    assert_eq!((info.deliveries, info.attempts, info.releases, info.buries), (0, 0, 0, 0));
    assert_eq!(
        (info.summary.holder, info.summary.reason, info.summary.last_failure),
        (None, None, None)
    );
}

#[test]
fn a_task_in_hand_and_a_finished_one_are_shown_whole() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = TubeOptions::default().keep_finished(Retention::new()).detail("stamp", "blue");
    let tube = queue.create_tube("t", options).unwrap();
    let [ada, bob] = ["ada", "bob"].map(|name| queue.consumer(name).unwrap());
    let began = clock.wall();
    let at = |seconds| began + secs(seconds);
    let task = tube.task(b"first").priority(3).key("k").group("g").kind("mail").book("b");
    let task = task.detail("to", "eve").ttl(secs(100)).ttr(secs(50)).max_attempts(4);
    let id = task.put().unwrap();
    let same = |seen: &TaskInfo, state| {
        assert_eq!((seen.id, &seen.tube[..], seen.state, seen.priority), (id, "t", state, 3));
        assert_eq!((seen.key.as_deref(), seen.group.as_deref()), (Some("k"), Some("g")));
        assert_eq!((seen.kind.as_deref(), seen.book.as_deref()), (Some("mail"), Some("b")));
        let details =
            [("stamp", "blue"), ("to", "eve")].map(|(name, text)| (name.into(), text.into()));
        assert_eq!(seen.details, details.into());
        let payload = (&seen.payload[..], seen.payload_bytes, seen.payload_generation);
        assert_eq!((payload, seen.payload_dropped), ((&b"newer"[..], 5, 1), false));
        assert_eq!((seen.created, seen.ttr, seen.max_attempts), (at(0), Some(secs(50)), Some(4)));
        assert_eq!((seen.due, seen.delay_left, seen.grace_left), (None, None, None));
        assert_eq!((&seen.reason, seen.buried, seen.releases, seen.buries), (&None, None, 0, 0));
        assert_eq!(seen.history, tube.history(id).unwrap().entries.len() as u64);
    };
    clock.advance(secs(1));
    let task = tube.by(&ada).take().unwrap();
    task.retry_with(Retry::new("no").group("net").after(secs(0))).unwrap();
    clock.advance(secs(1));
    let mut task = tube.by(&bob).take().unwrap();
    task.start("m").unwrap();
    clock.advance(secs(1));
    task.progress(40, "p").unwrap();
    task.with_payload(b"newer").renew().unwrap();
    clock.advance(secs(2));
    let seen = tube.peek(id).unwrap();
    same(&seen, State::Taken);
    assert_eq!((seen.age, seen.updated, seen.finished), (secs(5), at(3), None));
    assert_eq!((seen.ttl_left, seen.lease_left), (Some(secs(95)), Some(secs(48))));
    assert_eq!(
        (seen.holder.as_deref(), seen.previous_holder.as_deref()),
        (Some("bob"), Some("ada"))
    );
    assert_eq!(seen.phase, Some(Phase::Started { at: at(2), meta: "m".to_owned() }));
    let progress = seen.progress.as_ref().unwrap();
    assert_eq!((progress.percent, &progress.text[..], progress.at), (40, "p", at(3)));
    let failure = seen.last_failure.as_ref().unwrap();
    assert_eq!((failure.group.as_deref(), &failure.message[..]), (Some("net"), "no"));
    assert_eq!((failure.at, failure.by.as_deref()), (Some(at(1)), Some("ada")));
    assert_eq!((seen.deliveries, seen.attempts), (2, 2));
    assert_eq!((&seen.passed, &seen.result), (&None, &None));

    task.advance_with(&tube, Advance::new().result(b"passed")).unwrap();
    let task = tube.by(&ada).take().unwrap();
    clock.advance(secs(1));
    task.ack_with(b"result").unwrap();
    clock.advance(secs(1));
    let seen = tube.peek(id).unwrap();
    same(&seen, State::Done);
    assert_eq!((seen.age, seen.updated, seen.finished), (secs(7), at(6), Some(at(6))));
    assert_eq!((seen.ttl_left, seen.lease_left, &seen.holder), (None, None, &None));
    assert_eq!(seen.previous_holder, None, "an ack is not noted");
    assert_eq!((&seen.phase, &seen.progress, &seen.last_failure), (&None, &None, &None));
    assert_eq!((seen.deliveries, seen.attempts), (3, 1));
    let results = (seen.passed.as_deref(), seen.result.as_deref());
    assert_eq!(results, (Some(&b"passed"[..]), Some(&b"result"[..])));
}

#[test]
fn a_relaxed_put_can_be_taken_at_once() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap().durability(Durability::Relaxed);
    tube.put(b"a").unwrap();
    tube.task(b"b").durability(Durability::Durable).put().unwrap();
    assert_eq!((next(&tube), next(&tube)), ("a".into(), "b".into()));
}

#[test]
fn a_task_has_the_time_of_its_last_change_and_who_held_it_before() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let kept = Retention::new();
    let tube = queue.create_tube("t", TubeOptions::default().keep_finished(kept)).unwrap();
    let [ada, bob] = ["ada", "bob"].map(|name| queue.consumer_with_grace(name, secs(60)).unwrap());
    let id = tube.task(b"x").put().unwrap();
    let mut changed = clock.wall();
    let mut look = |change: &str, is_change: bool, holders: (Option<&str>, Option<&str>)| {
        if is_change {
            changed = clock.wall();
        }
        clock.advance(secs(3));
        let found = tube.peek(id).unwrap();
        assert_eq!(found.updated, changed, "{change}");
        let both = (found.holder.as_deref(), found.previous_holder.as_deref());
        assert_eq!(both, holders, "{change}");
    };
    look("put", true, (None, None));
    let task = tube.by(&ada).take().unwrap();
    look("take", true, (Some("ada"), None));
    task.progress(10, "").unwrap();
    look("progress", true, (Some("ada"), None));
    task.retry_after("later", secs(0)).unwrap();
    look("retry", true, (None, Some("ada")));
    let task = tube.by(&bob).take().unwrap();
    look("second take", true, (Some("bob"), Some("ada")));
    tube.log(id, "a line").unwrap();
    look("log", true, (Some("bob"), Some("ada")));
    tube.update(id).priority(4).apply().unwrap();
    look("update", false, (Some("bob"), Some("ada")));
    task.bury("no").unwrap();
    look("bury", true, (None, Some("bob")));
    tube.kick_task(id).unwrap();
    look("kick", true, (None, Some("bob")));
    tube.take().unwrap().release().unwrap();
    look("release by one without a name", true, (None, None));
    tube.by(&ada).take().unwrap().retry_after("again", secs(0)).unwrap();
    look("a retry again", true, (None, Some("ada")));
    // An adopted attempt goes on.
    tube.by(&bob).take().unwrap().detach();
    drop(bob);
    let cid = queue.consumer("cid").unwrap();
    let adopted = cid.adopt("bob").unwrap();
    let task = adopted.tasks(&tube).next().unwrap().unwrap();
    look("adoption", true, (Some("cid"), Some("ada")));
    task.ack().unwrap();
    look("ack, which is not noted", true, (None, None));
}
