//! The search for tasks by what they are: against a look at all tasks, in pages, and what it
//! refuses.

use crate::{close_sound, kind, lone, secs, still};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};
use tubewell::{
    ErrorKind, Filter, ManualClock, NewestFirst, Queue, Retention, SearchCursor, State, TaskId,
    TaskSummary, Tube, TubeOptions,
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

/// Tasks of every state, kind, key, group, priority and age, perhaps with an index of kinds.
fn filled(indexed: bool) -> (Queue, Tube) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = TubeOptions::default().keep_finished(Retention::new()).index_kinds(indexed);
    let tube = queue.create_tube("t", options).unwrap();
    let ada = queue.consumer("ada").unwrap();
    for number in 0..240_i64 {
        let (name, group) =
            (format!("{}/{number}", ["order", "o", "inv"][number as usize % 3]), "g");
        let mut task = tube.task(b"x").priority(number % 5 - 2);
        // Also tasks that will be finished.
        if number % 2 == 0 || number % 12 == 3 {
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

fn end_of(task: &TaskSummary) -> Option<SystemTime> {
    task.finished.or(task.buried)
}

/// A filter, and what it means.
type Case = (Filter, Box<dyn Fn(&TaskSummary) -> bool>);

#[test]
fn a_search_finds_what_a_look_at_all_tasks_finds() {
    for indexed in [false, true] {
        finds_what_a_look_finds(indexed);
    }
}

fn finds_what_a_look_finds(indexed: bool) {
    let (queue, tube) = filled(indexed);
    let all: Vec<TaskSummary> = STATES
        .into_iter()
        .flat_map(|state| tube.summaries(state))
        .collect::<tubewell::Result<_>>()
        .unwrap();
    assert!(all.len() > 200);
    assert!(all.iter().any(|task| task.state == State::Done && task.key.is_some()));
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
        (any().kind("mail").state(State::Done), {
            Box::new(|task| task.kind.as_deref() == Some("mail") && task.state == State::Done)
        }),
        (any().kind("mai"), Box::new(|_| false)),
        (any().owner("ada").kind("mail").state(State::Taken), {
            Box::new(|task| task.holder.is_some() && task.kind.as_deref() == Some("mail"))
        }),
    ];
    let mut ends: Vec<SystemTime> = all.iter().filter_map(end_of).collect();
    ends.sort();
    let (early, late) = (ends[ends.len() / 3], ends[ends.len() / 2]);
    let far = SystemTime::UNIX_EPOCH;
    let within = move |task: &TaskSummary, from, to| {
        end_of(task).is_some_and(|end| (from..to).contains(&end))
    };
    for (from, to) in [(early, late), (far, early), (late, late + secs(10_000)), (early, early)] {
        let filter = any().ended_after(from).ended_before(to);
        for state in STATES {
            let meets = move |task: &TaskSummary| task.state == state && within(task, from, to);
            cases.push((filter.clone().state(state), Box::new(meets)));
        }
        let failed = filter.clone().failure_group("smtp");
        cases.push((filter, Box::new(move |task| within(task, from, to))));
        let meets = move |task: &TaskSummary| task.last_failure.is_some() && within(task, from, to);
        cases.push((failed, Box::new(meets)));
    }
    let (a_part, part) = (Duration::from_nanos(1), late + Duration::from_nanos(1));
    cases.push((any().ended_before(part), Box::new(move |task| within(task, far, late + a_part))));
    cases.push((any().ended_after(part), {
        Box::new(move |task| end_of(task).is_some_and(|end| end >= part))
    }));
    cases.push((any().stalled(true), Box::new(|_| false)));
    cases.push((any().stalled(false), Box::new(|_| true)));
    for state in STATES {
        cases.push((any().state(state), Box::new(move |task| task.state == state)));
    }
    for prefix in ["o", "order/", "order/1", "inv/", "x", "zzzz"] {
        let has_key = move |task: &TaskSummary| task.key.is_some() && key(task).starts_with(prefix);
        cases.push((any().key_prefix(prefix), Box::new(has_key)));
    }
    for name in ["order/1", "order/12", "inv/", "x", ""] {
        let has_key = move |task: &TaskSummary| task.key.as_deref() == Some(name);
        cases.push((any().key(name), Box::new(has_key)));
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
    // The newest failure first.
    assert_eq!(of(Filter::new().failure_group("g")), [ids[0], ids[3]]);
}

/// Regression: the page said that the order is that of the priorities.
#[test]
fn without_an_index_what_was_put_ready_and_without_a_group_is_read_first() {
    let (tube, _) = lone();
    let grouped = [3, 1].map(|at| tube.task(b"x").group("g").priority(at).put().unwrap());
    let delayed = tube.task(b"x").delay(secs(9)).priority(0).put().unwrap();
    let plain = [7, 5, 6].map(|at| tube.task(b"x").priority(at).put().unwrap());
    let of = |filter| found(&tube, &filter, 2);
    let all = [plain[1], plain[2], plain[0], delayed, grouped[1], grouped[0]];
    assert_eq!(of(Filter::new()), all);
    tube.update(plain[0]).priority(-9).apply().unwrap();
    tube.claim(plain[1]).unwrap().release().unwrap();
    let all = [plain[2], delayed, grouped[1], grouped[0], plain[1], plain[0]];
    assert_eq!(of(Filter::new()), all);
    let ready = [plain[2], plain[0], plain[1], grouped[1], grouped[0]];
    assert_eq!(of(Filter::new().state(State::Ready)), ready);
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

/// A place in one index would be some other place in another one: tasks would be skipped.
#[test]
fn a_cursor_goes_on_with_its_own_filter_only() {
    let (tube, _) = lone();
    for key in ["a", "b", "c"] {
        tube.task(b"x").key(key).kind("mail").put().unwrap();
    }
    let filter = Filter::new().kind("mail");
    let next = tube.search(&filter, None, 1).unwrap().next;
    let others = [
        Filter::new(),
        filter.clone().key_prefix(""),
        filter.clone().key("a"),
        filter.clone().state(State::Ready),
        Filter::new().kind("film"),
    ];
    for other in others {
        let refused = tube.search(&other, next.as_ref(), 9).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        let text = refused.to_string();
        assert!(text.contains("another filter; go on with its own"), "{text}");
    }
    let equal = Filter::new().kind("mail");
    assert_eq!(tube.search(&equal, next.as_ref(), 9).unwrap().tasks.len(), 2);
}

#[test]
fn the_ends_of_a_time_are_found_without_a_look_at_the_others() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = TubeOptions::default().keep_finished(Retention::new());
    let tube = queue.create_tube("t", options).unwrap();
    let ids = tube.put_many((0..6000).map(|_| b"x".to_vec())).unwrap();
    tube.ack_many(tube.take_many(3000).unwrap()).unwrap();
    clock.advance(secs(1));
    tube.bury(ids[3000], "no").unwrap();
    let last = tube.take().unwrap();
    let ended = last.id();
    last.ack().unwrap();
    let since = tube.peek(ended).unwrap().finished.unwrap();
    assert_eq!(tube.peek(ids[3000]).unwrap().buried, Some(since));
    // Of one page, which looks at 4096 rows.
    let page = tube.search(&Filter::new().ended_after(since), None, 100).unwrap();
    let found: Vec<TaskId> = page.tasks.iter().map(|task| task.id).collect();
    assert_eq!((found, page.next.is_none()), (vec![ids[3000], ended], true));
    let none = tube.search(&Filter::new().ended_before(since - secs(2)), None, 100).unwrap();
    assert!(none.tasks.is_empty() && none.next.is_none());
}

/// A page looks at 4096 tasks at most: without the index each would find none.
#[test]
fn what_has_an_index_is_found_without_a_look_at_the_others() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let ada = queue.consumer("ada").unwrap();
    let of_others = |number: u32| tube.task(b"x").key(&format!("other/{number}")).put().unwrap();
    let others: Vec<_> = (0..5000).map(of_others).collect();
    tube.take_many(5000).unwrap().into_iter().for_each(|task| _ = task.detach());
    others.iter().for_each(|id| assert!(tube.fail_by_id(*id, "post", "no").unwrap()));
    (0..5000).for_each(|number| drop(tube.task(b"y").key(&format!("more/{number}")).put()));
    let last = tube.task(b"z").key("own/1").priority(-1).put().unwrap();
    let of = |filter: Filter| -> (Vec<TaskId>, bool) {
        let page = tube.search(&filter, None, 10).unwrap();
        (page.tasks.iter().map(|task| task.id).collect(), page.next.is_none())
    };
    let only = (vec![last], true);
    assert_eq!(of(Filter::new().key("own/1")), only);
    assert_eq!(of(Filter::new().key_prefix("own/")), only);
    tube.tag(last, ["red"]).unwrap();
    assert_eq!(of(Filter::new().tag("red")), only);
    tube.by(&ada).take().unwrap().detach();
    assert_eq!(of(Filter::new().owner("ada")), only);
    assert!(tube.fail_by_id(last, "smtp", "no").unwrap());
    assert_eq!(of(Filter::new().failure_group("smtp")), only);
}

#[test]
fn stalled_tasks_are_found_among_the_taken_ones() {
    let (tube, clock) = crate::lone_with(
        TubeOptions::default().ttr(secs(10)).lapse(tubewell::Lapse::new().grace(secs(5))),
    );
    tube.put_many((0..6000).map(|_| b"x".to_vec())).unwrap();
    let stalled = tube.take().unwrap();
    clock.advance(secs(9));
    let running = tube.take().unwrap();
    clock.advance(secs(1));
    let of = |filter: Filter| -> (Vec<TaskId>, bool) {
        let page = tube.search(&filter, None, 100).unwrap();
        (page.tasks.iter().map(|task| task.id).collect(), page.next.is_none())
    };
    assert_eq!(of(Filter::new().stalled(true)), (vec![stalled.id()], true));
    let taken = Filter::new().state(State::Taken);
    assert_eq!(of(taken.clone().stalled(false)), (vec![running.id()], true));
    assert_eq!(of(taken.stalled(true)), (vec![stalled.id()], true));
    assert_eq!(of(Filter::new().state(State::Buried).stalled(true)), (vec![], true));
}

#[test]
fn ended_tasks_are_listed_newest_first_in_a_tube_and_in_all() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let made = |name: &str, options: TubeOptions| queue.create_tube(name, options).unwrap();
    let keeps = || TubeOptions::default().keep_finished(Retention::new());
    let tubes = [made("a", keeps()), made("b", keeps().temporary(true)), made("c", keeps())];
    let idle = made("idle", keeps());
    idle.put(b"x").unwrap();
    let (mut done, mut buried) = (Vec::new(), Vec::new());
    for number in 0..900 {
        let tube = &tubes[number * 7 % 3];
        let id = tube.put(b"x").unwrap();
        if number % 5 == 0 {
            tube.bury(id, "no").unwrap();
            if tube == &tubes[0] {
                buried.push(id);
            }
        } else {
            tube.claim(id).unwrap().ack().unwrap();
            done.push(id);
        }
        clock.advance(Duration::from_millis(10));
    }
    tubes[0].trash(buried.pop().unwrap(), "no").unwrap();
    done.reverse();
    buried.reverse();
    let listed: Vec<TaskId> = queue.finished().map(|task| task.unwrap().id).collect();
    assert_eq!(listed, done);
    let listed: Vec<TaskId> = tubes[0].buried().map(|task| task.unwrap().id).collect();
    assert_eq!(listed, buried);

    // What goes in the meantime is left out, also with its tube.
    let mut listing = queue.finished();
    assert_eq!(listing.next().unwrap().unwrap().id, done[0]);
    queue.force_drop_tube("b").unwrap();
    tubes[2].truncate().unwrap();
    let left: Vec<TaskId> = listing.map(|task| task.unwrap().id).collect();
    let of_a = tubes[0].finished().map(|task| task.unwrap().id);
    assert_eq!(left, of_a.filter(|id| *id != done[0]).collect::<Vec<_>>());
    assert_eq!(idle.buried().count() + idle.finished().count(), 0);
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

type Listing = fn(&Queue) -> NewestFirst;

/// Listings of tasks that have ended, of a queue with tubes `a` and `b`.
const LISTINGS: [Listing; 6] = [
    |queue| queue.failed("g"),
    |queue| queue.finished(),
    |queue| queue.tube("a").unwrap().failed("g"),
    |queue| queue.tube("a").unwrap().finished(),
    |queue| queue.tube("b").unwrap().buried(),
    |queue| queue.tube("b").unwrap().trashed(),
];

/// A page of a listing goes on where the one before has ended: of tasks that ended in one
/// microsecond too, past tasks that are gone, and after the queue was opened again.
#[test]
fn a_listing_of_ended_tasks_goes_on_from_a_cursor() {
    let home = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let open = || Queue::builder().clock(clock.clone()).open(home.path().join("q")).unwrap();
    let mut queue = open();
    let keeps = || TubeOptions::default().keep_finished(Retention::new());
    for name in ["a", "b"] {
        let tube = queue.create_tube(name, keeps()).unwrap();
        for number in 0..40 {
            let id = tube.put(b"x").unwrap();
            match number % 3 {
                0 => tube.claim(id).unwrap().ack().unwrap(),
                1 => assert!(tube.fail_by_id(id, "g", "no").unwrap()),
                _ => tube.trash(id, "no").unwrap(),
            }
            if number % 4 == 0 {
                clock.advance(secs(1));
            }
        }
    }
    for listing in LISTINGS {
        let all: Vec<TaskId> = listing(&queue).map(|task| task.unwrap().id).collect();
        assert!(all.len() > 10);
        let (mut paged, mut cursor) = (Vec::new(), listing(&queue).cursor());
        for round in 0.. {
            let mut page = listing(&queue).after(cursor.clone());
            let ids = page.by_ref().take(3).map(|task| task.unwrap().id);
            paged.extend(ids.collect::<Vec<_>>());
            if page.cursor() == cursor {
                break;
            }
            cursor = page.cursor();
            if round == 2 {
                drop(page);
                close_sound(queue);
                queue = open();
            }
        }
        assert_eq!(paged, all);
    }
    // The task at which it stands goes, and later ones come.
    let mut page = queue.failed("g");
    let ids: Vec<TaskId> = page.by_ref().take(5).map(|task| task.unwrap().id).collect();
    let left: Vec<TaskId> = queue.failed("g").skip(5).map(|task| task.unwrap().id).collect();
    queue.tube("b").unwrap().delete(ids[4]).unwrap();
    clock.advance(secs(1));
    let tube = queue.tube("a").unwrap();
    tube.fail_by_id(tube.put(b"x").unwrap(), "g", "no").unwrap();
    let rest = queue.failed("g").after(page.cursor());
    assert_eq!(rest.map(|task| task.unwrap().id).collect::<Vec<_>>(), left);
}

/// A cursor of another listing names a place that means nothing there: it would leave tasks out.
#[test]
fn a_listing_goes_on_from_its_own_cursor_only() {
    let queue = Queue::in_memory().unwrap();
    let other = Queue::in_memory().unwrap();
    let keeps = || TubeOptions::default().keep_finished(Retention::new());
    for queue in [&queue, &other] {
        for name in ["a", "b"] {
            let tube = queue.create_tube(name, keeps()).unwrap();
            for _ in 0..3 {
                tube.fail_by_id(tube.put(b"x").unwrap(), "g", "no").unwrap();
                tube.put(b"x").unwrap();
                tube.take().unwrap().ack().unwrap();
                tube.trash(tube.put(b"x").unwrap(), "no").unwrap();
            }
        }
    }
    let tube = |queue: &Queue, name| queue.tube(name).unwrap();
    let others: [Listing; 2] =
        [|queue| queue.failed("h"), |queue| queue.tube("a").unwrap().buried()];
    let listings: Vec<Listing> = LISTINGS.into_iter().chain(others).collect();
    for (mine, from) in listings.iter().enumerate() {
        for (its, listing) in listings.iter().enumerate() {
            for (which, queue_of) in [(0, &queue), (1, &other)] {
                let mut page = from(&queue);
                page.next();
                let mut rest = listing(queue_of).after(page.cursor());
                let found = rest.next();
                if mine == its && which == 0 {
                    assert!(found.is_none_or(|task| task.is_ok()));
                    continue;
                }
                assert_eq!(found.unwrap().unwrap_err().kind(), ErrorKind::Invalid);
                assert!(rest.next().is_none());
            }
        }
    }
    // Also one from the beginning, as it is of another listing.
    let cursor = tube(&queue, "a").trashed().cursor();
    assert!(tube(&queue, "b").trashed().after(cursor).next().unwrap().is_err());
}
