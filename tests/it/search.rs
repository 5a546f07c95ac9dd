//! The search for tasks by what they are: against a look at all tasks, in pages, and what it
//! refuses.

use crate::{kind, lone, secs, still};
use std::collections::BTreeSet;
use std::time::Duration;
use tubewell::{
    ErrorKind, Filter, Queue, Retention, SearchCursor, State, TaskId, TaskSummary, Tube,
    TubeOptions,
};

const STATES: [State; 5] = [State::Ready, State::Taken, State::Delayed, State::Buried, State::Done];

/// All pages, each of at most `most` tasks, in their order.
fn found(tube: &Tube, filter: &Filter, most: usize) -> Vec<TaskId> {
    let (mut ids, mut next): (Vec<TaskId>, Option<SearchCursor>) = (Vec::new(), None);
    loop {
        let page = tube.search(filter, next.as_ref(), most).unwrap();
        assert!(page.tasks.len() <= most);
        ids.extend(page.tasks.iter().map(|task| task.id));
        next = page.next;
        if next.is_none() {
            return ids;
        }
    }
}

/// Tasks of every state, kind, key, group, priority and age.
fn filled() -> (Queue, Tube) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = TubeOptions::default().keep_finished(Retention::new());
    let tube = queue.create_tube("t", options).unwrap();
    let ada = queue.consumer("ada").unwrap();
    for number in 0..240_i64 {
        let (name, group) =
            (format!("{}/{number}", ["order", "o", "inv"][number as usize % 3]), "g");
        let mut task = tube.task(b"x").priority(number % 5 - 2);
        if number % 2 == 0 {
            task = task.key(&name);
        }
        if number % 7 < 2 {
            task = task.kind(["mail", "print"][number as usize % 7]);
        }
        if number % 11 == 0 {
            task = task.group(group);
        }
        if number % 6 == 5 {
            task = task.delay(secs(1000));
        }
        let id = task.put().unwrap();
        match number % 6 {
            0 if number % 11 != 0 => drop(tube.by(&ada).claim(id).unwrap().detach()),
            1 if number % 11 != 0 => tube.claim(id).unwrap().fail("smtp", "no").unwrap(),
            2 => tube.bury(id, "no").unwrap(),
            3 if number % 11 != 0 => tube.claim(id).unwrap().ack().unwrap(),
            4 if number % 8 == 4 => tube.trash(id, "no").unwrap(),
            _ => {}
        }
        clock.advance(secs(1));
    }
    std::mem::forget(ada);
    (queue, tube)
}

/// A filter, and what it means.
type Case = (Filter, Box<dyn Fn(&TaskSummary) -> bool>);

#[test]
fn a_search_finds_what_a_look_at_all_tasks_finds() {
    let (queue, tube) = filled();
    let all: Vec<TaskSummary> = STATES
        .into_iter()
        .flat_map(|state| tube.summaries(state))
        .collect::<tubewell::Result<_>>()
        .unwrap();
    assert!(all.len() > 200);
    let any = Filter::new;
    let old = Duration::from_secs(100);
    let key = |task: &TaskSummary| task.key.clone().unwrap_or_default();
    let mut cases: Vec<Case> = vec![
        (any(), Box::new(|_| true)),
        (any().kind("mail"), Box::new(|task| task.kind.as_deref() == Some("mail"))),
        (any().group("g"), Box::new(|task| task.group.as_deref() == Some("g"))),
        (any().older_than(old), Box::new(move |task| task.age > old)),
        (any().younger_than(old), Box::new(move |task| task.age <= old)),
        (any().priorities(-1..=1), Box::new(|task| (-1..=1).contains(&task.priority))),
        (any().owner("ada"), Box::new(|task| task.holder.as_deref() == Some("ada"))),
        (any().owner("eve"), Box::new(|_| false)),
        (any().failure_group("none"), Box::new(|_| false)),
        (any().failure_group("smtp"), {
            Box::new(|task| task.last_failure.is_some() && task.state == State::Buried)
        }),
        (any().owner("ada").kind("mail").state(State::Taken), {
            Box::new(|task| task.holder.is_some() && task.kind.as_deref() == Some("mail"))
        }),
    ];
    for state in STATES {
        cases.push((any().state(state), Box::new(move |task| task.state == state)));
    }
    for prefix in ["o", "order/", "order/1", "inv/", "x", "zzzz"] {
        let is_kept =
            move |task: &TaskSummary| task.state != State::Done && key(task).starts_with(prefix);
        cases.push((any().key_prefix(prefix), Box::new(is_kept)));
    }
    for (filter, meets) in &cases {
        let wanted: BTreeSet<TaskId> =
            all.iter().filter(|task| meets(task)).map(|task| task.id).collect();
        for most in [1, 7, 1000] {
            let ids = found(&tube, filter, most);
            assert_eq!(ids.iter().copied().collect::<BTreeSet<_>>(), wanted, "{filter:?}");
            assert_eq!(ids.len(), wanted.len(), "{filter:?}: twice");
        }
    }
    drop(queue);
}

#[test]
fn the_order_is_that_of_the_index() {
    let (tube, _) = lone();
    let ids = [("b", 1), ("aa", 0), ("a", 2), ("ab", 3)]
        .map(|(key, priority)| tube.task(b"x").key(key).priority(priority).put().unwrap());
    let of = |filter| found(&tube, &filter, 2);
    assert_eq!(of(Filter::new()), [ids[1], ids[0], ids[2], ids[3]]);
    assert_eq!(of(Filter::new().key_prefix("a")), [ids[2], ids[1], ids[3]]);
    assert_eq!(of(Filter::new().key_prefix("")), [ids[2], ids[0], ids[1], ids[3]]);
    for id in [ids[3], ids[0]] {
        tube.claim(id).unwrap().fail("g", "no").unwrap();
    }
    let failed = of(Filter::new().failure_group("g"));
    assert_eq!(failed.into_iter().collect::<BTreeSet<_>>(), [ids[0], ids[3]].into());
}

#[test]
fn a_page_looks_at_a_bounded_number_of_rows() {
    let (tube, _) = lone();
    tube.put_many((0..10_000).map(|_| b"x".to_vec())).unwrap();
    let last = tube.task(b"x").kind("rare").priority(1).put().unwrap();
    let (filter, mut next, mut pages) = (Filter::new().kind("rare"), None, 0);
    loop {
        let page = tube.search(&filter, next.as_ref(), 100).unwrap();
        pages += 1;
        next = page.next;
        if next.is_none() {
            assert_eq!(page.tasks[0].id, last);
            break;
        }
        assert!(page.tasks.is_empty());
    }
    assert_eq!(pages, 3);
    // At most a page of 256 tasks, whatever is asked for.
    assert_eq!(tube.search(&Filter::new(), None, usize::MAX).unwrap().tasks.len(), 256);
    assert!(tube.search(&Filter::new(), None, 0).unwrap().tasks.is_empty());
}

#[test]
fn a_cursor_of_elsewhere_is_refused() {
    let queue = still().0.in_memory().unwrap();
    let [tube, other] = ["a", "b"].map(|name| queue.tube(name).unwrap());
    let (elsewhere, _) = lone();
    for tube in [&tube, &other, &elsewhere] {
        tube.put_many([b"x".to_vec(), b"y".to_vec()]).unwrap();
    }
    let all = Filter::new();
    let first = tube.search(&all, None, 1).unwrap();
    let next = first.next.as_ref();
    assert_eq!(tube.search(&all, next, 9).unwrap().tasks.len(), 1);
    assert_eq!(kind(other.search(&all, next, 9)), ErrorKind::Invalid);
    assert_eq!(kind(elsewhere.search(&all, next, 9)), ErrorKind::Invalid);
    tube.truncate().unwrap();
    assert_eq!(kind(tube.search(&all, next, 9)), ErrorKind::Invalid);
    queue.force_drop_tube("a").unwrap();
    assert_eq!(kind(tube.search(&all, None, 9)), ErrorKind::TubeNotFound);
}
