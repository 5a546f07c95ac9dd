//! Why a task is not running: one reason of each kind, and several at once.

use crate::{secs, still};
use tubewell::{ErrorKind, Queue, Reason, TaskId, TubeKind, TubeOptions, WhyNot};

fn queue() -> Queue {
    still().0.in_memory().unwrap()
}

#[test]
fn a_task_that_is_not_ready_says_its_state() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let ada = queue.consumer("ada").unwrap();
    let why = |id| queue.explain(id).unwrap().reasons;
    let taken = tube.task(b"taken").ttr(secs(60)).put().unwrap();
    let _task = tube.by(&ada).take().unwrap();
    clock.advance(secs(10));
    let (holder, lease_left) = (Some("ada".into()), Some(secs(50)));
    assert_eq!(why(taken), [WhyNot::Running { holder, lease_left }]);
    let delayed = tube.task(b"delayed").delay(secs(9)).put().unwrap();
    assert_eq!(why(delayed), [WhyNot::Delayed { left: Some(secs(9)) }]);
    let never = tube.task(b"never").delay(std::time::Duration::MAX).put().unwrap();
    assert_eq!(why(never), [WhyNot::Delayed { left: None }]);
    let buried = tube.put(b"buried").unwrap();
    tube.bury(buried, "no stamp").unwrap();
    assert_eq!(why(buried), [WhyNot::Buried { reason: Reason::Buried("no stamp".into()) }]);
    clock.advance(secs(9));
    assert_eq!(why(delayed), [WhyNot::IsNext], "what is due was done");
}

#[test]
fn a_ready_task_says_everything_that_is_before_it() {
    let queue = queue();
    let tube = queue.tube("t").unwrap();
    let why = |id| queue.explain(id).unwrap().reasons;
    let first = tube.put(b"first").unwrap();
    let second = tube.put(b"second").unwrap();
    let [a, b] = [b"a", b"b"].map(|text| tube.task(text).group("g").put().unwrap());
    assert_eq!(why(first), [WhyNot::IsNext]);
    assert_eq!(why(second), [WhyNot::Behind { next: first }]);
    assert_eq!(why(a), [WhyNot::Behind { next: first }]);
    let behind = WhyNot::BehindInGroup { group: "g".into(), first: a };
    assert_eq!(why(b), vec![behind.clone()]);
    tube.pause_for(secs(5)).unwrap();
    let paused = WhyNot::TubePaused { left: Some(secs(5)) };
    assert_eq!(why(first), vec![paused.clone()]);
    assert_eq!(why(second), [paused.clone(), WhyNot::Behind { next: first }]);
    assert_eq!(why(b), [paused, behind]);
    tube.pause().unwrap();
    assert_eq!(why(first), [WhyNot::TubePaused { left: None }]);
    tube.resume().unwrap();
    let _held = tube.claim(a).unwrap();
    assert_eq!(why(b), [WhyNot::GroupBusy { group: "g".into(), in_flight: 1 }]);
}

#[test]
fn a_group_of_several_in_flight_is_busy_at_its_number() {
    let queue = queue();
    let options = TubeOptions::new(TubeKind::Utube).in_flight(2);
    let tube = queue.create_tube("t", options).unwrap();
    let ids = tube.put_many([b"a", b"b", b"c"].map(|text| text.to_vec())).unwrap();
    let why = || queue.explain(ids[2]).unwrap().reasons;
    let group = String::new;
    assert_eq!(why(), [WhyNot::BehindInGroup { group: group(), first: ids[0] }]);
    let _one = tube.take().unwrap();
    assert_eq!(why(), [WhyNot::BehindInGroup { group: group(), first: ids[1] }]);
    let two = tube.take().unwrap();
    assert_eq!(why(), [WhyNot::GroupBusy { group: group(), in_flight: 2 }]);
    two.ack().unwrap();
    assert_eq!(why(), [WhyNot::IsNext]);
}

#[test]
fn a_delayed_task_that_holds_its_group_keeps_it_busy() {
    let queue = queue();
    let options = TubeOptions::default().hold_group_while_delayed(true);
    let tube = queue.create_tube("t", options).unwrap();
    let first = tube.task(b"a").group("g").put().unwrap();
    let second = tube.task(b"b").group("g").put().unwrap();
    let why = |id| queue.explain(id).unwrap().reasons;
    tube.take().unwrap().retry_after("no", secs(9)).unwrap();
    assert_eq!(why(first), [WhyNot::Delayed { left: Some(secs(9)) }]);
    assert_eq!(why(second), [WhyNot::GroupBusy { group: "g".into(), in_flight: 1 }]);
    assert!(tube.try_take().unwrap().is_none());
    tube.update(first).delay(secs(0)).apply().unwrap();
    assert_eq!(why(first), [WhyNot::IsNext]);
    assert_eq!(why(second), [WhyNot::BehindInGroup { group: "g".into(), first }]);
}

#[test]
fn it_reads_as_a_sentence() {
    let queue = queue();
    let tube = queue.tube("mail").unwrap();
    let id = tube.put(b"a").unwrap();
    let text = || queue.explain(id).unwrap().to_string();
    let start = format!("task {id} in tube \"mail\" is");
    assert_eq!(text(), format!("{start} Ready: it is the next that is taken"));
    tube.pause_for(secs(5)).unwrap();
    assert_eq!(text(), format!("{start} Ready: its tube is paused, for 5s more"));
    let task = tube.claim(id).unwrap();
    assert_eq!(text(), format!("{start} Taken: a taker holds it, without an end"));
    task.fail("address", "no such street").unwrap();
    assert_eq!(text(), format!("{start} Buried: it was buried (address: no such street); kick it"));
}

#[test]
fn a_task_that_is_gone_or_never_was_is_not_found() {
    let (queue, never) = (queue(), TaskId::new(9_999_999));
    let tube = queue.tube("t").unwrap();
    let gone = tube.put(b"a").unwrap();
    tube.delete(gone).unwrap();
    for id in [gone, never] {
        assert_eq!(queue.explain(id).unwrap_err().kind(), ErrorKind::TaskNotFound);
    }
}
