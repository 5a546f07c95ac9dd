//! Books and details: what an application says of a tube or a task beside the payload.

use crate::{close_sound, home, kind, lone, still};
use std::collections::BTreeMap;
use tubewell::{ErrorKind, Queue, State, TubeOptions};

fn map(details: &[(&str, &str)]) -> BTreeMap<String, String> {
    details.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_tasks_own_details_win_over_its_tubes() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let options = TubeOptions::default().book("b").detail("a", "1").detail("c", "3");
    let tube = queue.create_tube("t", options.clone()).unwrap();
    let plain = tube.put(b"x").unwrap();
    let own = tube.task(b"y").book("own").detail("a", "2").detail("b", "0").detail("b", "1");
    let own = own.kind("mail").put().unwrap();
    let large = tube.task(&[7; 100_000]).detail("é", "").put().unwrap();
    drop(tube);
    queue.close().unwrap();

    let queue = still().0.open(&path).unwrap();
    // The same options, or else it would be refused.
    let tube = queue.create_tube("t", options.if_not_exists()).unwrap();
    let seen = |id| {
        let info = tube.peek(id).unwrap();
        (info.book.clone().unwrap(), info.details.clone())
    };
    assert_eq!(seen(plain), ("b".into(), map(&[("a", "1"), ("c", "3")])));
    assert_eq!(seen(own), ("own".into(), map(&[("a", "2"), ("b", "1"), ("c", "3")])));
    assert_eq!(seen(large), ("b".into(), map(&[("a", "1"), ("c", "3"), ("é", "")])));
    assert_eq!(tube.peek(own).unwrap().kind.as_deref(), Some("mail"));
    let summary = tube.summaries(State::Ready).next().unwrap().unwrap();
    assert_eq!(summary.details, map(&[("a", "1"), ("c", "3")]));
    for id in [plain, own, large] {
        let task = tube.take().unwrap();
        assert_eq!((task.book().unwrap().unwrap(), task.details().unwrap()), seen(id));
        let ticket = tube.ticket(task.ticket());
        task.ack().unwrap();
        assert_eq!(kind(ticket.details()), ErrorKind::LeaseLost);
    }
    drop(tube);
    close_sound(queue);
}

#[test]
fn they_go_with_the_task_to_another_tube() {
    let queue = Queue::in_memory().unwrap();
    let from = queue.create_tube("a", TubeOptions::default().book("a").detail("a", "1")).unwrap();
    let to = queue.create_tube("b", TubeOptions::default().detail("b", "2")).unwrap();
    let id = from.task(b"x").detail("own", "3").put().unwrap();
    from.move_to(id, &to).apply().unwrap();
    let info = to.peek(id).unwrap();
    // The tube's are those of the tube in which it is.
    assert_eq!((&info.book, &info.details), (&None, &map(&[("b", "2"), ("own", "3")])));
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn a_batch_gives_each_task_what_it_has_not_itself() {
    let (tube, _) = lone();
    let own = tube.task(b"a").detail("a", "own");
    let tasks = tube.batch_of([own, tube.task(b"b")]).book("all").detail("a", "all").kind("mail");
    let ids: Vec<_> = tasks.put().unwrap();
    let of = |id| {
        let info = tube.peek(id).unwrap();
        (info.kind.clone(), info.book.clone(), info.details["a"].clone())
    };
    assert_eq!(of(ids[0]), (Some("mail".into()), Some("all".into()), "own".into()));
    assert_eq!(of(ids[1]), (Some("mail".into()), Some("all".into()), "all".into()));
}

#[test]
fn what_is_over_its_limit_is_refused() {
    let (tube, _) = lone();
    let long = "x".repeat(256);
    assert_eq!(kind(tube.task(b"x").book("").put()), ErrorKind::Invalid);
    assert_eq!(kind(tube.task(b"x").book(&long).put()), ErrorKind::Invalid);
    assert_eq!(kind(tube.task(b"x").detail("", "x").put()), ErrorKind::Invalid);
    assert_eq!(kind(tube.task(b"x").detail(&long, "x").put()), ErrorKind::Invalid);
    let most = "x".repeat(4096 - 4);
    let id = tube.task(b"x").book(&long[1..]).detail("a", &most).put().unwrap();
    assert_eq!(tube.peek(id).unwrap().details["a"], most);
    assert_eq!(kind(tube.task(b"x").detail("ab", &most).put()), ErrorKind::TooLarge);
    let much = "x".repeat(1 << 20);
    assert_eq!(kind(tube.task(b"x").detail("a", &much).put()), ErrorKind::TooLarge);
    assert_eq!(tube.len().unwrap(), 1);

    let queue = Queue::in_memory().unwrap();
    let refused = |options| kind(queue.create_tube("t", options));
    assert_eq!(refused(TubeOptions::default().book("")), ErrorKind::Invalid);
    assert_eq!(refused(TubeOptions::default().detail("a", much)), ErrorKind::TooLarge);
    assert!(queue.create_tube("t", TubeOptions::default().detail("a", most)).is_ok());
}
