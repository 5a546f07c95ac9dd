//! Typed payloads. A task that cannot be decoded is buried, and the others are served.

use crate::{counts, kind, lone, secs, still};
use serde::{Deserialize, Serialize};
use tubewell::{ErrorKind, Reason, State, Task};

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Mail {
    to: String,
    copies: Vec<u32>,
}

fn mail(to: &str) -> Mail {
    Mail { to: to.into(), copies: vec![1, 2, 3] }
}

#[test]
fn a_value_comes_back_as_it_was() {
    let tube = lone().0.typed::<Mail>();
    tube.put(&mail("ada")).unwrap();
    tube.task(&mail("bob")).priority(-1).put().unwrap();
    tube.put_many([mail("cy"), mail("di")]).unwrap();
    for to in ["bob", "ada", "cy", "di"] {
        let task = tube.take().unwrap();
        assert_eq!(*task, mail(to));
        task.ack().unwrap();
    }
}

#[test]
fn payload_and_lease_of_a_typed_task_come_apart() {
    let tube = lone().0.typed::<Mail>();
    tube.put(&mail("ada")).unwrap();
    let (value, lease) = tube.take().unwrap().split();
    lease.ack().unwrap();
    assert_eq!(*value, mail("ada"));
}

#[test]
fn a_payload_that_does_not_decode_is_buried_and_others_are_served() {
    let (bytes, _) = lone();
    let tube = bytes.typed::<Mail>();
    let plain = bytes.put(b"plain bytes").unwrap();
    let other_type = bytes.typed::<u8>().put(&7).unwrap();
    tube.put(&mail("ada")).unwrap();

    let task = tube.take().unwrap();
    assert_eq!(*task, mail("ada"));
    task.ack().unwrap();
    assert_eq!(counts(&bytes), [0, 0, 0, 2]);
    for id in [plain, other_type] {
        let info = bytes.peek(id).unwrap();
        assert!(matches!(info.reason, Some(Reason::Undecodable(_))), "{:?}", info.reason);
    }
    assert_eq!(bytes.peek(plain).unwrap().payload, b"plain bytes", "nothing is lost");
}

#[test]
fn take_many_replaces_undecodable_tasks() {
    let (bytes, _) = lone();
    let tube = bytes.typed::<Mail>();
    bytes.put(b"plain bytes").unwrap();
    tube.put_many([mail("ada"), mail("bob")]).unwrap();
    let tasks = tube.take_many(2).unwrap();
    assert_eq!(tasks.iter().map(|task| task.to.as_str()).collect::<Vec<_>>(), ["ada", "bob"]);
}

/// Regression: a batch that could not be decoded at all ended the call, which returned nothing.
#[test]
fn take_many_goes_on_after_a_batch_that_does_not_decode() {
    let (bytes, _) = lone();
    bytes.put_many([b"plain".to_vec(), b"bytes".to_vec()]).unwrap();
    let tube = bytes.typed::<Mail>();
    tube.put_many([mail("ada"), mail("bob")]).unwrap();
    let tasks = tube.take_many(2).unwrap();
    assert_eq!(tasks.iter().map(|task| task.to.as_str()).collect::<Vec<_>>(), ["ada", "bob"]);
    assert_eq!(counts(&bytes), [0, 0, 2, 2]);
}

#[test]
fn a_claimed_task_that_does_not_decode_is_buried() {
    let (bytes, _) = lone();
    let id = bytes.put(b"plain bytes").unwrap();
    assert_eq!(kind(bytes.typed::<Mail>().claim(id)), ErrorKind::Codec);
    assert_eq!(bytes.peek(id).unwrap().state, State::Buried);
}

#[test]
fn a_consumer_resumes_values_and_what_does_not_decode_is_buried() {
    let queue = still().0.in_memory().unwrap();
    let bytes = queue.tube("t").unwrap();
    let tube = bytes.typed::<Mail>();
    tube.put(&mail("ada")).unwrap();
    let plain = bytes.put(b"plain bytes").unwrap();
    tube.put(&mail("bob")).unwrap();
    let eve = || queue.consumer_with_grace("eve", secs(60)).unwrap();
    // As bytes, so that she also holds the undecodable one.
    bytes.by(&eve()).take_many(3).unwrap().into_iter().map(Task::detach).for_each(drop);
    assert_eq!(counts(&bytes), [0, 0, 3, 0]);

    let eve = eve();
    let tasks = crate::resumed(&eve, &tube);
    let reported = |task: &Task<Mail>| (task.to.clone(), task.attempt());
    assert_eq!(
        tasks.iter().map(reported).collect::<Vec<_>>(),
        [("ada".to_owned(), 1), ("bob".to_owned(), 1)]
    );
    assert_eq!(counts(&bytes), [0, 0, 2, 1]);
    let info = bytes.peek(plain).unwrap();
    assert!(matches!(info.reason, Some(Reason::Undecodable(_))), "{:?}", info.reason);
    assert_eq!(info.payload, b"plain bytes");
    assert!(crate::resumed(&eve, &tube).is_empty());
    tube.ack_many(tasks).unwrap();
    assert_eq!(counts(&bytes), [0, 0, 0, 1]);
}

#[test]
fn bytes_read_what_any_codec_wrote() {
    let (bytes, _) = lone();
    bytes.typed::<Mail>().put(&mail("ada")).unwrap();
    assert!(bytes.take().unwrap().windows(3).any(|part| part == b"ada"));
}
