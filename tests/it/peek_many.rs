//! The next tasks, in the order of takes, without a take.

use crate::{counts, lone, lone_with, secs, still};
use tubewell::{State, TaskId, Tube, TubeKind, TubeOptions};

fn peeked(tube: &Tube, most: usize) -> Vec<TaskId> {
    tube.peek_many(most).unwrap().into_iter().map(|task| task.id).collect()
}

fn texts(tube: &Tube) -> String {
    let tasks = tube.peek_many(99).unwrap().into_iter();
    tasks.map(|task| String::from_utf8(task.payload).unwrap()).collect::<Vec<_>>().join(" ")
}

/// Fresh ones, released ones, and ones that were put before and between these.
fn mixed(tube: &Tube) {
    tube.put_many([b"a", b"b", b"c", b"d"].map(|text| text.to_vec())).unwrap();
    let held = tube.take_many(3).unwrap();
    tube.put_front(b"front").unwrap();
    held.into_iter().rev().for_each(|task| task.release().unwrap());
    tube.task(b"late").priority(1).put().unwrap();
    tube.task(b"early").priority(-1).put().unwrap();
    tube.put(b"e").unwrap();
}

#[test]
fn the_next_tasks_are_those_that_takes_hand_out() {
    for options in [TubeOptions::default(), TubeOptions::default().temporary(true)] {
        let (tube, _) = lone_with(options);
        mixed(&tube);
        let all = peeked(&tube, 99);
        assert_eq!(all.len(), 8);
        for most in 0..=8 {
            assert_eq!(peeked(&tube, most), all[..most]);
        }
        assert_eq!(tube.peek_next(State::Ready).unwrap().unwrap().id, all[0]);
        let taken: Vec<TaskId> = tube.take_many(99).unwrap().iter().map(|task| task.id()).collect();
        assert_eq!(all, taken);
    }
}

#[test]
fn higher_priorities_are_first_where_the_tube_says_so() {
    let (tube, _) = lone_with(TubeOptions::default().higher_first(true));
    mixed(&tube);
    assert_eq!(texts(&tube), "late front a b c d e early");
}

#[test]
fn each_group_that_may_be_taken_from_is_there_with_its_first_task() {
    let (tube, _) = lone_with(TubeOptions::default().in_flight(2));
    let put = |text: &str, group: &str| tube.task(text.as_bytes()).group(group).put().unwrap();
    put("locked1", "locked");
    put("locked2", "locked");
    put("locked3", "locked");
    put("begun1", "begun");
    let _held = tube.take_many(4).unwrap();
    put("begun2", "begun");
    put("begun3", "begun");
    tube.put(b"plain1").unwrap();
    put("new1", "new");
    put("new2", "new");
    tube.put(b"plain2").unwrap();
    tube.task(b"new0").priority(-1).group("new").put().unwrap();
    assert_eq!(texts(&tube), "new0 begun2 plain1 plain2");
    tube.try_take_group("new").unwrap().unwrap().ack().unwrap();
    assert_eq!(texts(&tube), "begun2 plain1 new1 plain2");
}

#[test]
fn tasks_of_a_utube_without_a_group_are_one_group() {
    let (tube, _) = lone_with(TubeOptions::new(TubeKind::Utube));
    tube.put(b"a").unwrap();
    tube.put(b"b").unwrap();
    assert_eq!(texts(&tube), "a");
    let _held = tube.take().unwrap();
    assert_eq!(texts(&tube), "");
}

#[test]
fn only_ready_tasks_are_there_and_nothing_changes() {
    let (tube, clock) = lone();
    for text in ["taken", "buried", "ready", "dead"] {
        let task = tube.task(text.as_bytes());
        if text == "dead" { task.ttl(secs(1)).put() } else { task.put() }.unwrap();
    }
    let _held = tube.take().unwrap();
    tube.take().unwrap().bury("no").unwrap();
    tube.task(b"later").delay(secs(1)).put().unwrap();
    tube.task(b"delayed").delay(secs(2)).put().unwrap();
    assert_eq!(texts(&tube), "ready dead");
    clock.advance(secs(1));
    assert_eq!(texts(&tube), "ready later", "what is due was done");
    tube.pause().unwrap();
    let before = tube.stats().unwrap();
    assert_eq!(texts(&tube), "ready later");
    assert_eq!(tube.stats().unwrap(), before);
    assert_eq!(counts(&tube), [2, 1, 1, 1]);
    let seen = tube.peek_many(1).unwrap().remove(0);
    assert_eq!((seen.deliveries, seen.attempts, seen.state), (0, 0, State::Ready));
}

/// More than one page, of each kind of row, and payloads in pieces.
#[test]
fn it_goes_on_over_many_pages() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put_many((0..1000_u32).map(|number| number.to_be_bytes().to_vec())).unwrap();
    let held = tube.take_many(400).unwrap();
    held.into_iter().for_each(|task| task.release().unwrap());
    for group in 0..400 {
        tube.task(b"in a group").group(&group.to_string()).put().unwrap();
    }
    queue.checkpoint().unwrap();
    let large: Vec<TaskId> = (0..3).map(|_| tube.put(&vec![7; 1 << 20]).unwrap()).collect();
    let peeked = tube.peek_many(usize::MAX).unwrap();
    assert_eq!(peeked.len(), 1403);
    for (at, task) in peeked.iter().enumerate() {
        assert_eq!(task.id.get(), at as u64 + 1);
        let expected = match at {
            0..1000 => (at as u32).to_be_bytes().to_vec(),
            1000..1400 => b"in a group".to_vec(),
            _ => vec![7; 1 << 20],
        };
        assert_eq!(task.payload, expected);
    }
    assert_eq!(peeked[1400].id, large[0]);
    assert_eq!(tube.peek_many(1402).unwrap().len(), 1402);
}
