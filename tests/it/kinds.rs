//! The kind of a task: a short name that the caller gives, for handlers and listings.

use crate::{home, kind, lone, secs, still};
use tubewell::{ErrorKind, State};

#[test]
fn a_task_keeps_its_kind_through_every_state_and_an_opening() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let long = "k".repeat(255);
    let kinds = ["mail", "ü", &long];
    let ids = kinds.map(|kind| tube.task(b"x").kind(kind).put().unwrap());
    let plain = tube.put(b"plain").unwrap();
    tube.take().unwrap().retry_after("no", secs(5)).unwrap();
    let task = tube.take().unwrap();
    task.bury("no").unwrap();
    queue.checkpoint().unwrap();
    queue.close().unwrap();
    let queue = still().0.clock(clock.clone()).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    for (id, kind) in ids.into_iter().zip(kinds) {
        assert_eq!(tube.peek(id).unwrap().kind.as_deref(), Some(kind));
    }
    assert_eq!(tube.peek(plain).unwrap().kind, None);
    let kinds_of = |state| -> Vec<_> {
        tube.summaries(state).map(|task| task.unwrap().kind.unwrap_or_default()).collect()
    };
    assert_eq!(kinds_of(State::Ready), [&long, ""]);
    assert_eq!(kinds_of(State::Delayed), ["mail"]);
    assert_eq!(kinds_of(State::Buried), ["ü"]);
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn a_task_in_hand_returns_its_kind_until_its_lease_is_lost() {
    let (tube, _) = lone();
    for (kind, bytes) in [(Some("mail"), 1), (Some("post"), 100_000), (None, 1)] {
        let payload = vec![7; bytes];
        let new = tube.task(&payload);
        match kind {
            Some(kind) => new.kind(kind).put().unwrap(),
            None => new.put().unwrap(),
        };
        let task = tube.take().unwrap();
        assert_eq!(task.kind().unwrap().as_deref(), kind);
        let ticket = tube.ticket(task.ticket());
        assert_eq!(ticket.kind().unwrap().as_deref(), kind);
        task.ack().unwrap();
        assert!(ticket.kind().unwrap_err().is_lease_lost());
    }
}

#[test]
fn a_handle_gives_its_kind_to_what_is_put_through_it() {
    let (tube, _) = lone();
    let mail = tube.kind("mail");
    let of = |id| tube.peek(id).unwrap().kind.clone();
    assert_eq!(of(mail.put(b"a").unwrap()).as_deref(), Some("mail"));
    assert_eq!(of(mail.put_front(b"a").unwrap()).as_deref(), Some("mail"));
    assert_eq!(of(mail.task(b"a").kind("post").put().unwrap()).as_deref(), Some("post"));
    assert_eq!(of(tube.put(b"a").unwrap()), None);
    let batch = tube.batch_of([tube.task(b"a").kind("own"), mail.task(b"b"), tube.task(b"c")]);
    let ids = batch.kind("common").put().unwrap();
    let kinds: Vec<_> = ids.into_iter().map(|id| of(id).unwrap()).collect();
    assert_eq!(kinds, ["own", "mail", "common"]);
    let put = mail.put_all([b"d".to_vec()]).unwrap();
    let last = tube.summaries(State::Ready).last().unwrap().unwrap();
    assert_eq!((put, last.kind.as_deref()), (1, Some("mail")));
    assert_eq!(mail, tube, "handles of one tube");
}

#[test]
fn a_kind_with_a_key_a_group_and_a_large_payload_comes_back() {
    let (tube, _) = lone();
    for bytes in [0, 3500, 3501, 100_000] {
        let payload = vec![7; bytes];
        let long = "x".repeat(255);
        let task = tube.task(&payload).kind(&long).key(&long).group(&long);
        let id = task.ttl(secs(50)).put().unwrap();
        let info = tube.peek(id).unwrap();
        assert_eq!((info.kind.as_deref(), info.payload.len()), (Some(&*long), bytes));
        assert_eq!((info.key.as_deref(), info.group.as_deref()), (Some(&*long), Some(&*long)));
        let task = tube.take().unwrap();
        assert_eq!(task.len(), bytes);
        assert_eq!(tube.peek(id).unwrap().kind.as_deref(), Some(&*long));
        task.ack().unwrap();
    }
}

#[test]
fn a_kind_is_checked() {
    let (tube, _) = lone();
    let long = "k".repeat(256);
    for wrong in ["", "line\nbreak", &long] {
        assert_eq!(kind(tube.task(b"a").kind(wrong).put()), ErrorKind::Invalid);
        assert_eq!(kind(tube.kind(wrong).put(b"a")), ErrorKind::Invalid);
    }
    assert!(tube.is_empty().unwrap());
}
