//! Tubes under a prefix of their names.

use crate::{kind, still};
use tubewell::{ErrorKind, Event, Queue, TubeKind, TubeOptions};

fn queue() -> Queue {
    still().0.in_memory().unwrap()
}

#[test]
fn a_scope_puts_its_prefix_before_every_name() {
    let queue = queue();
    let inner = queue.scope("a").scope("b/");
    assert_eq!(inner.prefix(), "ab/");
    assert_eq!(inner.tube("x").unwrap().name(), "ab/x");
    let made = inner.create_tube("y", TubeOptions::new(TubeKind::Fifo)).unwrap();
    assert_eq!(inner.find_tube("y").unwrap(), Some(made));
    assert!(inner.find_tube("ab/y").unwrap().is_none());
    inner.drop_tube("x").unwrap();
    assert_eq!(queue.tubes().unwrap(), ["ab/y"]);
    let error = inner.drop_tube("x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TubeNotFound);
    assert!(error.to_string().contains("\"ab/x\""), "the whole name: {error}");
}

#[test]
fn a_scope_lists_its_own_tubes_and_no_others() {
    let queue = queue();
    for name in ["shop", "shop:", "shop:a", "shop:b:c", "shopping", "sho", "日本:x", "日"] {
        if name != "shop:" {
            queue.tube(name).unwrap();
        }
    }
    assert_eq!(queue.scope("shop:").tubes().unwrap(), ["a", "b:c"]);
    assert_eq!(queue.scope("shop:").scope("b:").tubes().unwrap(), ["c"]);
    assert_eq!(queue.scope("日").tubes().unwrap(), ["", "本:x"], "also the one of this name");
    assert_eq!(queue.scope("").tubes().unwrap(), queue.tubes().unwrap());
    assert_eq!(queue.scope("none").tubes().unwrap(), [""; 0]);
}

/// The name and the prefix together are a name.
#[test]
fn a_scope_that_makes_a_name_too_long_is_refused_by_its_verbs() {
    let queue = queue();
    let long = queue.scope(&"p".repeat(250));
    assert_eq!(long.tube("12345").unwrap().name().len(), 255);
    assert_eq!(kind(long.tube("123456")), ErrorKind::Invalid);
    assert_eq!(kind(long.create_tube("123456", TubeOptions::default())), ErrorKind::Invalid);
    assert_eq!(kind(long.find_tube("123456")), ErrorKind::Invalid);
    assert_eq!(kind(long.drop_tube("123456")), ErrorKind::Invalid);
    assert_eq!(long.tubes().unwrap(), ["12345"]);
    let odd = queue.scope("line\nbreak");
    assert_eq!(kind(odd.tube("x")), ErrorKind::Invalid);
    assert_eq!(odd.tubes().unwrap(), [""; 0]);
    assert_eq!(kind(queue.scope("").tube("")), ErrorKind::Invalid);
}

#[test]
fn a_scope_of_a_closed_queue_is_closed() {
    let queue = queue();
    let scope = queue.scope("a");
    queue.close().unwrap();
    assert_eq!(kind(scope.tube("x")), ErrorKind::Closed);
    assert_eq!(kind(scope.tubes()), ErrorKind::Closed);
}

#[test]
fn a_callback_that_is_replaced_in_a_scope_is_returned() {
    let queue = queue();
    let there = || TubeOptions::default().if_not_exists();
    let made = |name| queue.scope("shop:").create_tube_with(name, there(), |_: &Event| ());
    let (tube, before) = made("mail").unwrap();
    assert!(before.is_none() && tube.name() == "shop:mail");
    let (again, replaced) = made("mail").unwrap();
    assert_eq!(again, tube);
    assert!(replaced.is_some());
    assert!(made("other").unwrap().1.is_none(), "of this tube alone");
}
