//! Named conditions of the queue: what they hold back and let through, what ends them, and what is
//! shown of them. The clock is manual, so a taker that wakes was woken.

use crate::{close_sound, counts, home, killed, kind, still, until_waiting, waiting};
use tubewell::{Durability, ErrorKind, Queue, Result, State, Tube, TubeOptions, WhyNot};

fn requiring(names: &[&str]) -> TubeOptions {
    names.iter().fold(TubeOptions::default(), |options, name| options.require(name))
}

/// A tube with two tasks in a still queue in memory.
fn closed(names: &[&str]) -> (Queue, Tube) {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.create_tube("t", requiring(names)).unwrap();
    tube.put_many([*b"a", *b"b"]).unwrap();
    (queue, tube)
}

fn requires(condition: &str, is_declared: bool) -> WhyNot {
    WhyNot::Requires { condition: condition.to_owned(), is_declared }
}

/// All that are declared, as name, whether it is set, and whether it is stored.
fn declared(queue: &Queue) -> Vec<(String, bool, bool)> {
    let all = queue.conditions().unwrap();
    all.into_iter().map(|it| (it.name, it.is_set, it.is_stored)).collect()
}

#[test]
fn a_tube_is_closed_until_all_that_it_requires_is_set() {
    let (queue, tube) = closed(&["online", "approved"]);
    let id = tube.peek_next(State::Ready).unwrap().unwrap().id;
    let reasons = || queue.explain(id).unwrap().reasons;
    let next = WhyNot::IsNext;
    assert_eq!(reasons(), [requires("approved", false), requires("online", false)]);
    let text = queue.explain(id).unwrap().to_string();
    assert!(text.contains("requires the condition \"online\", which was never declared"), "{text}");
    assert!(queue.set_condition("online", false).unwrap());
    assert_eq!(reasons(), [requires("approved", false), requires("online", true)]);
    assert!(queue.set_condition("online", true).unwrap());
    assert!(!queue.set_condition("online", true).unwrap(), "it is");
    assert_eq!(reasons(), [requires("approved", false)]);
    let several = queue.tubes_of(["t"]).unwrap();
    let error = tube.claim(id).unwrap_err();
    assert_eq!((error.kind(), error.task()), (ErrorKind::WrongState, Some(id)));
    assert!(error.to_string().contains("\"approved\""), "{error}");
    assert!(tube.try_take().unwrap().is_none() && several.try_take().unwrap().is_none());
    assert_eq!((tube.stats().unwrap().limited, tube.stats().unwrap().ready), (2, 2));
    assert!(queue.set_condition_for_run("approved", true).unwrap());
    assert_eq!((reasons(), tube.stats().unwrap().limited), (vec![next], 0));
    let running = tube.claim(id).unwrap();

    assert!(queue.remove_condition("online").unwrap());
    assert!(!queue.remove_condition("online").unwrap() && !queue.condition("online").unwrap());
    assert!(tube.try_take().unwrap().is_none());
    running.renew().unwrap();
    running.ack().unwrap();
    assert_eq!(counts(&tube), [1, 0, 0, 0]);
    tube.set("require", ["approved"]).unwrap();
    several.try_take().unwrap().unwrap().ack().unwrap();
    tube.unset("require").unwrap();
    assert_eq!(
        tube.info().unwrap().options.get_require().collect::<Vec<_>>(),
        ["approved", "online"]
    );
}

/// Takers of each tube that requires it, of several tubes, and of a temporary one.
#[test]
fn a_condition_that_is_set_wakes_those_who_wait_for_it() {
    let (queue, tube) = closed(&["online"]);
    let other = queue.create_tube("u", requiring(&["online"]).temporary(true)).unwrap();
    other.put(b"c").unwrap();
    let both = queue.tubes_of(["t", "u"]).unwrap();
    let takers: Vec<_> = [&tube, &other]
        .into_iter()
        .map(|tube| waiting(tube, |tube| tube.take().unwrap().ack().unwrap()))
        .collect();
    let of_both = waiting(&tube, move |_| both.take().unwrap().ack().unwrap());
    queue.set_condition("else", true).unwrap();
    queue.set_condition("online", false).unwrap();
    until_waiting(&tube, 2);
    queue.set_condition("online", true).unwrap();
    takers.into_iter().for_each(|taker| taker.join().unwrap());
    of_both.join().unwrap();
    assert_eq!((counts(&tube), counts(&other)), ([0; 4], [0; 4]));
    let last = waiting(&tube, |tube| tube.take().unwrap().ack().unwrap());
    queue.remove_condition("online").unwrap();
    tube.put(b"d").unwrap();
    until_waiting(&tube, 1);
    queue.set_condition_for_run("online", true).unwrap();
    last.join().unwrap();
}

#[test]
fn one_is_stored_or_for_the_run_as_the_last_call_says() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.create_tube("t", requiring(&["online"])).unwrap();
    tube.put(b"a").unwrap();
    queue.set_condition("approved", true).unwrap();
    queue.set_condition("gone", true).unwrap();
    queue.set_condition_for_run("gone", true).unwrap();
    queue.set_condition_for_run("online", true).unwrap();
    queue.set_condition_for_run("kept", false).unwrap();
    assert!(queue.set_condition("kept", false).unwrap(), "it is stored now");
    let is = |name: &str, is_set, is_stored| (name.to_owned(), is_set, is_stored);
    let stored = [is("approved", true, true), is("kept", false, true)];
    let all =
        [&stored[..1], &[is("gone", true, false)], &stored[1..], &[is("online", true, false)]];
    assert_eq!(declared(&queue), all.concat());
    assert!(queue.condition("online").unwrap() && tube.try_take().unwrap().is_some());
    let (_copy, copy) = killed(&path);
    close_sound(queue);
    for path in [path, copy] {
        let queue = still().0.open(&path).unwrap();
        assert_eq!(declared(&queue), stored);
        let tube = queue.tube("t").unwrap();
        assert!(!queue.condition("online").unwrap() && tube.try_take().unwrap().is_none());
        assert!(queue.check().unwrap().is_empty());
    }
}

#[test]
fn names_and_numbers_at_their_bounds() {
    let (queue, tube) = closed(&["online"]);
    for name in ["", "a\nb", &"n".repeat(256)] {
        assert_eq!(kind(queue.set_condition(name, true)), ErrorKind::Invalid);
        assert_eq!(kind(queue.set_condition_for_run(name, true)), ErrorKind::Invalid);
        assert_eq!(kind(queue.remove_condition(name)), ErrorKind::Invalid);
        assert_eq!(kind(queue.condition(name)), ErrorKind::Invalid);
        assert_eq!(kind(queue.create_tube("u", requiring(&[name]))), ErrorKind::Invalid);
        assert_eq!(kind(tube.set("require", [name])), ErrorKind::Invalid);
    }
    let many: Vec<String> = (0..17).map(|number| format!("{number:02}").repeat(127)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(kind(queue.create_tube("u", requiring(&many))), ErrorKind::Invalid);
    let most: [&str; 16] = std::array::from_fn(|at| many[at]);
    tube.set("require", most).unwrap();
    let made = queue.create_tube("u", requiring(&most)).unwrap();
    assert_eq!(made.info().unwrap().options.get_require().count(), 16);
    assert_eq!(kind(tube.set("require", "online")), ErrorKind::Invalid);

    let set = |number: usize| match number % 2 {
        0 => queue.set_condition(&number.to_string(), true),
        _ => queue.set_condition_for_run(&number.to_string(), true),
    };
    (0..1024).for_each(|number| assert!(set(number).unwrap()));
    assert_eq!(kind(set(1024)), ErrorKind::Full);
    assert_eq!(kind(set(1025)), ErrorKind::Full);
    assert!(queue.set_condition("7", false).unwrap(), "it is declared");
    assert!(queue.remove_condition("0").unwrap() && set(1024).unwrap());
    assert_eq!(declared(&queue).len(), 1024);
}

/// One set behind a million tasks would write no more: no task is looked at.
#[test]
fn a_condition_before_many_tubes_and_tasks() {
    const TUBES: usize = 3000;
    let (_home, path) = home();
    let queue = still().0.durability(Durability::Relaxed).open(&path).unwrap();
    for number in 0..TUBES {
        let tube = queue.create_tube(&number.to_string(), requiring(&["online"])).unwrap();
        tube.put(b"x").unwrap();
    }
    let first = queue.tube("0").unwrap();
    (0..20).for_each(|_| drop(first.put_many(vec![b"x".to_vec(); 1000]).unwrap()));
    let waiting = queue.requiring("online").collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(waiting.len(), TUBES);
    assert!(waiting.contains(&("0".to_owned(), 20_001)) && waiting.contains(&("7".to_owned(), 1)));
    let used = || queue.space().unwrap().journal_used;
    let before = used();
    queue.set_condition("online", true).unwrap();
    let bytes = used() - before;
    assert!((1..500).contains(&bytes), "{bytes} bytes");
    for number in [0, TUBES / 2, TUBES - 1] {
        queue.tube(&number.to_string()).unwrap().try_take().unwrap().unwrap().ack().unwrap();
    }
    queue.force_drop_tube("7").unwrap();
    queue.tube("8").unwrap().set("require", [""; 0]).unwrap();
    assert_eq!(queue.requiring("online").count(), TUBES - 2);
    assert_eq!(queue.requiring("else").count(), 0);
    close_sound(queue);
}

/// A condition is changed by calls of its own, and not in a transaction.
#[test]
fn a_transaction_changes_no_condition() {
    let (queue, tube) = closed(&["online"]);
    let inside = queue.transact(|_| {
        assert_eq!(kind(queue.set_condition("online", true)), ErrorKind::InTransaction);
        crate::ok(())
    });
    inside.unwrap();
    assert!(!queue.condition("online").unwrap() && tube.try_take().unwrap().is_none());
}
