//! Tags: given at the put, added and removed, listed, counted, and gone with their task by whatever
//! way it goes.

use crate::{close_sound, home, killed, kind, secs, still};
use tubewell::{
    Cause, Conflict, ErrorKind, Filter, Queue, Retention, State, TaskId, Tube, TubeOptions,
};

fn queue_with(options: TubeOptions) -> (Queue, Tube) {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.create_tube("t", options).unwrap();
    (queue, tube)
}

fn tags(tube: &Tube, id: TaskId) -> Vec<String> {
    tube.peek(id).unwrap().tags.clone()
}

fn tagged(queue: &Queue, tag: &str) -> Vec<TaskId> {
    queue.tagged(tag).map(|task| task.unwrap().id).collect()
}

fn top(queue: &Queue) -> Vec<(String, u64)> {
    queue.top_tags().map(|top| top.unwrap()).map(|top| (top.tag, top.tasks)).collect()
}

fn of(tags: &[(&str, u64)]) -> Vec<(String, u64)> {
    tags.iter().map(|(tag, tasks)| ((*tag).to_owned(), *tasks)).collect()
}

fn sound(queue: &Queue) {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

#[test]
fn tags_are_added_once_in_order_and_removed() {
    for temporary in [false, true] {
        let (queue, tube) = queue_with(TubeOptions::default().temporary(temporary));
        let id = tube.task(b"x").tag("b").tags(["a", "b"]).put().unwrap();
        assert_eq!(tags(&tube, id), ["b", "a"]);
        assert_eq!(tube.tag(id, ["c", "a", "c"]).unwrap(), ["b", "a", "c"]);
        assert_eq!(tags(&tube, id), ["b", "a", "c"]);
        assert_eq!(tube.untag(id, vec!["b".to_owned(), "absent".to_owned()]).unwrap(), ["a", "c"]);
        tube.tag(id, ["b"]).unwrap();
        assert_eq!(tags(&tube, id), ["a", "c", "b"]);
        tube.untag(id, ["a", "b", "c"]).unwrap();
        tube.untag(id, ["a"]).unwrap();
        assert_eq!(tube.tag(id, [""; 0]).unwrap(), [""; 0]);
        assert!(tags(&tube, id).is_empty());
        assert_eq!((tagged(&queue, "a"), queue.tag_count("a").unwrap()), (vec![], 0));
        sound(&queue);
        let missing = tube.tag(TaskId::new(99), ["a"]).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::TaskNotFound);
        assert_eq!(tube.untag(TaskId::new(99), ["a"]).unwrap_err().kind(), missing.kind());
        let other = queue.tube("other").unwrap();
        assert_eq!(other.tag(id, ["a"]).unwrap_err().kind(), ErrorKind::WrongTube);
    }
}

/// A plain task, which has no row of its state, and one in each state.
#[test]
fn a_task_is_tagged_in_every_state() {
    let options = TubeOptions::default().keep_finished(Retention::new().count(10));
    let (queue, tube) = queue_with(options);
    type Brought = (State, fn(&Tube, TaskId));
    let states: [Brought; 6] = [
        (State::Ready, |_, _| {}),
        (State::Delayed, |tube, id| tube.update(id).delay(secs(9)).apply().unwrap()),
        (State::Taken, |tube, id| _ = tube.claim(id).unwrap().detach()),
        (State::Buried, |tube, id| tube.bury(id, "no").unwrap()),
        (State::Buried, |tube, id| tube.trash(id, "no").unwrap()),
        (State::Done, |tube, id| assert!(tube.complete_by_id(id).unwrap())),
    ];
    for (number, (state, bring)) in states.into_iter().enumerate() {
        let id = tube.put(b"x").unwrap();
        bring(&tube, id);
        let wakes = tube.stats().unwrap();
        tube.tag(id, ["a", "b"]).unwrap();
        let task = tube.peek(id).unwrap();
        assert_eq!((task.state, task.tags.clone()), (state, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(tube.stats().unwrap().ready, wakes.ready);
        let mut listed = tube.summaries(state).chain(tube.trashed()).map(|task| task.unwrap());
        assert!(listed.any(|task| task.id == id && task.tags == ["a", "b"]), "{state:?}");
        tube.untag(id, ["b"]).unwrap();
        assert_eq!(queue.tag_count("a").unwrap(), number as u64 + 1);
        sound(&queue);
    }
    assert_eq!(tagged(&queue, "a").len(), 6);
    assert_eq!(queue.tag_count("b").unwrap(), 0);
}

#[test]
fn tags_at_their_limits() {
    let (queue, tube) = queue_with(TubeOptions::default());
    let long = "l".repeat(255);
    let many: Vec<String> = (0..64).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let id = tube.task(b"x").tags(many.iter().copied()).put().unwrap();
    tube.tag(id, &many).unwrap();
    assert_eq!(kind(tube.tag(id, ["one more"])), ErrorKind::TooLarge);
    tube.untag(id, ["7"]).unwrap();
    tube.tag(id, [&long]).unwrap();
    assert_eq!(tags(&tube, id).len(), 64);
    for bad in ["", "a\nb", &"l".repeat(256)] {
        assert_eq!(kind(tube.tag(id, [bad])), ErrorKind::Invalid);
        assert_eq!(kind(tube.task(b"y").tag(bad).put()), ErrorKind::Invalid);
        assert!(tagged(&queue, bad).is_empty());
        assert_eq!(queue.tag_count(bad).unwrap(), 0);
    }
    let wide: Vec<String> = (0..17).map(|number| format!("{number:0>241}")).collect();
    let wide: Vec<&str> = wide.iter().map(String::as_str).collect();
    tube.task(b"y").tags(wide[..16].iter().copied()).put().unwrap();
    assert_eq!(kind(tube.task(b"y").tags(wide).put()), ErrorKind::TooLarge);
    assert_eq!(tube.len().unwrap(), 2);
    sound(&queue);
}

/// By the time at which they got the tag, and of one time by the id, over all tubes.
#[test]
fn tagged_tasks_are_listed_by_time_then_id() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
    let tubes = [&a, &b, &memory];
    let ids: Vec<TaskId> = (0..200).map(|at| tubes[at % 3].put(b"x").unwrap()).collect();
    let mut expected = Vec::new();
    for turn in [1, 0] {
        clock.advance(secs(1));
        for (at, id) in ids.iter().enumerate().rev().filter(|(at, _)| at % 2 == turn) {
            tubes[at % 3].tag(*id, ["red"]).unwrap();
        }
        expected.extend(ids.iter().skip(turn).step_by(2));
    }
    assert_eq!(tagged(&queue, "red"), expected);
    let page: Vec<TaskId> =
        queue.tagged("red").skip(90).take(25).map(|it| it.unwrap().id).collect();
    assert_eq!(page, expected[90..115]);
    assert_eq!(queue.tag_count("red").unwrap(), 200);
    // One that loses the tag while the listing is read is left out, and so is one that is gone.
    let mut listing = queue.tagged("red");
    assert_eq!(listing.next().unwrap().unwrap().id, expected[0]);
    tubes.iter().for_each(|tube| _ = tube.untag(expected[1], ["red"]));
    tubes.iter().for_each(|tube| _ = tube.delete(expected[2]));
    assert_eq!(listing.next().unwrap().unwrap().id, expected[3]);
    assert_eq!(queue.tag_count("red").unwrap(), 198);
    sound(&queue);
}

/// Of the counts 1 to 10 the tag with the count 1 is absent, as in the seed.
#[test]
fn the_most_used_tags_are_those_of_two_tasks_or_more() {
    let (queue, tube) = queue_with(TubeOptions::default());
    let names: Vec<String> = (1..=10).map(|number| format!("t{number:02}")).collect();
    for put in 0..10 {
        let tags = names.iter().skip(put).map(String::as_str);
        tube.task(b"x").tags(tags).put().unwrap();
    }
    let expected: Vec<_> =
        (2..=10).rev().map(|count| (format!("t{count:02}"), count as u64)).collect();
    assert_eq!(top(&queue), expected);
    // Those of temporary tubes count, too: ones that durable tubes have, and others.
    let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
    for _ in 0..3 {
        memory.task(b"x").tags(["t01", "t09", "m"]).put().unwrap();
    }
    let with: Vec<_> = top(&queue);
    assert_eq!(with[..2], of(&[("t09", 12), ("t10", 10)]));
    assert!(with.contains(&("t01".to_owned(), 4)) && with.contains(&("m".to_owned(), 3)));
    assert_eq!(with.len(), 11);
    assert_eq!(queue.tag_count("t09").unwrap(), 12);
    sound(&queue);
    queue.force_drop_tube("m").unwrap();
    queue.tick().unwrap();
    assert_eq!(top(&queue), expected);
    sound(&queue);
}

/// More tags than a step reads.
#[test]
fn many_tags_are_read_page_by_page() {
    let (queue, tube) = queue_with(TubeOptions::default());
    for number in 0..300 {
        let tag = format!("{number:03}");
        for _ in 0..2 + number % 5 {
            tube.task(b"x").tag(&tag).put().unwrap();
        }
    }
    let top = top(&queue);
    assert_eq!(top.len(), 300);
    let sorted = |pair: &[(String, u64)]| {
        pair[0].1 > pair[1].1 || pair[0].1 == pair[1].1 && pair[0].0 < pair[1].0
    };
    assert!(top.windows(2).all(sorted));
}

/// Each way in which a task ends takes its tags with it.
#[test]
fn every_end_of_a_task_removes_its_tags() {
    let ends: [fn(&Queue, &Tube, TaskId); 9] = [
        |_, tube, _| tube.take().unwrap().ack().unwrap(),
        |_, tube, id| tube.delete(id).unwrap(),
        |_, tube, id| assert_eq!(tube.delete_many(&[id]).unwrap(), 1),
        |_, tube, id| assert!(tube.complete_by_id(id).unwrap()),
        |_, tube, id| {
            tube.trash(id, "no").unwrap();
            assert_eq!(tube.empty_trash().unwrap(), 1);
        },
        |queue, tube, _| {
            tube.truncate().unwrap();
            queue.tick().unwrap();
        },
        |queue, _, _| {
            queue.force_drop_tube("t").unwrap();
            queue.tick().unwrap();
        },
        |_, tube, _| tube.ack_many(tube.take_many(1).unwrap()).unwrap(),
        |queue, tube, _| {
            let task = tube.take().unwrap();
            queue.transact(|tx| tx.ack(&task)).unwrap();
        },
    ];
    for (number, end) in ends.into_iter().enumerate() {
        for temporary in [false, true] {
            let (queue, tube) = queue_with(TubeOptions::default().temporary(temporary));
            let other = queue.tube("other").unwrap();
            let kept = other.task(b"y").tags(["a", "b"]).put().unwrap();
            let id = tube.task(b"x").tags(["a", "b", "c"]).put().unwrap();
            assert_eq!(top(&queue), of(&[("a", 2), ("b", 2)]));
            end(&queue, &tube, id);
            assert_eq!((tagged(&queue, "a"), top(&queue)), (vec![kept], vec![]), "{number}");
            assert_eq!(["a", "b", "c"].map(|tag| queue.tag_count(tag).unwrap()), [1, 1, 0]);
            sound(&queue);
        }
    }
}

/// By the ttl, and by the retention of finished and of buried tasks: the seed's counts never shrink
/// so.
#[test]
fn counts_are_right_after_a_retention() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let kept = Retention::new().age(secs(10));
    let options = TubeOptions::default().keep_finished(kept).keep_buried(kept);
    let tube = queue.create_tube("t", options).unwrap();
    let few = TubeOptions::default().keep_finished(Retention::new().count(1));
    let few = queue.create_tube("few", few).unwrap();
    tube.task(b"x").tag("a").put().unwrap();
    tube.take().unwrap().ack().unwrap();
    tube.task(b"x").tag("a").put().unwrap();
    tube.take().unwrap().bury("no").unwrap();
    tube.task(b"x").tag("a").ttl(secs(5)).put().unwrap();
    for _ in 0..3 {
        few.task(b"x").tag("a").put().unwrap();
        few.take().unwrap().ack().unwrap();
    }
    assert_eq!((queue.tag_count("a").unwrap(), tagged(&queue, "a").len()), (4, 4));
    clock.advance(secs(6));
    queue.tick().unwrap();
    assert_eq!(queue.tag_count("a").unwrap(), 3);
    clock.advance(secs(6));
    // Also without the timer a listing has no task that is over.
    assert_eq!(tagged(&queue, "a").len(), 1);
    assert_eq!((queue.tag_count("a").unwrap(), top(&queue)), (1, vec![]));
    sound(&queue);
}

#[test]
fn tags_go_with_a_task_that_moves() {
    let options = TubeOptions::default();
    let (queue, tube) = queue_with(options);
    let to = queue.tube("to").unwrap();
    let id = tube.task(b"x").tags(["a", "b"]).put().unwrap();
    tube.move_to(id, &to).apply().unwrap();
    assert_eq!(tags(&to, id), ["a", "b"]);
    assert_eq!(queue.tagged("a").next().unwrap().unwrap().tube, "to");
    to.take().unwrap().advance(&tube).unwrap();
    assert_eq!((tags(&tube, id), tagged(&queue, "b")), (vec!["a".into(), "b".into()], vec![id]));
    assert_eq!(queue.tag_count("a").unwrap(), 1);
    tube.take().unwrap().advance(&tube).unwrap();
    sound(&queue);
    tube.delete(id).unwrap();
    assert_eq!(tagged(&queue, "a"), []);
    sound(&queue);
}

/// A put of its key keeps the tags of a task, unless it gives others; also of a finished one, in
/// whose place a new one is put.
#[test]
fn a_task_that_is_put_again_keeps_its_tags_unless_it_is_given_others() {
    for is_done in [false, true] {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        let options = TubeOptions::default().keep_finished(Retention::new().count(10));
        let tube = queue.create_tube("t", options).unwrap();
        let put = || tube.task(b"x").key("k").on_conflict(Conflict::Replace);
        let first = put().tags(["a", "b"]).put().unwrap();
        let end = || {
            if is_done {
                tube.take().unwrap().ack().unwrap();
            }
        };
        end();
        let id = put().put().unwrap();
        assert_eq!((id == first, tags(&tube, id)), (!is_done, vec!["a".into(), "b".into()]));
        assert_eq!(tagged(&queue, "a"), [id]);
        end();
        clock.advance(secs(1));
        let id = put().tags(["c", "b"]).put().unwrap();
        assert_eq!(tags(&tube, id), ["c", "b"]);
        // What it had keeps its time.
        let other = tube.task(b"y").tags(["b", "c"]).put().unwrap();
        assert_eq!((tagged(&queue, "b"), tagged(&queue, "a")), (vec![id, other], vec![]));
        assert_eq!(top(&queue), of(&[("b", 2), ("c", 2)]));
        sound(&queue);
        let plain = tube.task(b"z").key("plain").put().unwrap();
        if is_done {
            tube.complete_by_id(plain).unwrap();
        }
        let again = tube.task(b"z").key("plain").on_conflict(Conflict::Replace).tag("n");
        let again = again.put().unwrap();
        assert_eq!(tags(&tube, again), ["n"]);
        sound(&queue);
    }
}

#[test]
fn a_batch_gives_its_tags_to_tasks_without_any() {
    let (queue, tube) = queue_with(TubeOptions::default());
    let own = tube.task(b"a").tag("own");
    let ids = tube.batch_of([own, tube.task(b"b")]).tag("all").put().unwrap();
    assert_eq!([tags(&tube, ids[0]), tags(&tube, ids[1])], [["own"], ["all"]]);
    let ids = queue.transact(|tx| tube.task(b"c").tag("all").put_in(tx)).unwrap();
    assert_eq!(tags(&tube, ids), ["all"]);
    assert_eq!(top(&queue), of(&[("all", 2)]));
    // A batch that is refused leaves none.
    tube.batch_of([tube.task(b"b").tag("x"), tube.task(b"c").tag("")]).put().unwrap_err();
    assert_eq!(queue.tag_count("x").unwrap(), 0);
    sound(&queue);
}

#[test]
fn tags_are_there_after_a_kill_those_of_temporary_tubes_are_not() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
    let id = tube.task(b"x").tags(["a", "b"]).put().unwrap();
    tube.task(b"x").tag("a").put().unwrap();
    memory.task(b"x").tags(["a", "b"]).put().unwrap();
    assert_eq!(top(&queue), of(&[("a", 3), ("b", 2)]));
    for checkpointed in [false, true] {
        if checkpointed {
            queue.checkpoint().unwrap();
        }
        let (_copy, copy) = killed(&path);
        let queue = still().0.open(&copy).unwrap();
        assert_eq!(tags(&queue.tube("t").unwrap(), id), ["a", "b"]);
        assert_eq!(top(&queue), of(&[("a", 2)]));
        close_sound(queue);
    }
}

#[test]
fn a_search_by_tag_reads_its_index() {
    let (queue, tube) = queue_with(TubeOptions::default());
    let other = queue.tube("other").unwrap();
    for at in 0..100 {
        other.task(b"x").tag("red").put().unwrap();
        tube.put(b"plain").unwrap();
        if at % 10 == 0 {
            tube.task(b"x").tags(["red", "blue"]).put().unwrap();
        }
    }
    let ids: Vec<TaskId> =
        tagged(&queue, "blue").into_iter().filter(|id| tube.peek(*id).is_ok()).collect();
    let search = |filter: &Filter| -> Vec<TaskId> {
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let page = tube.search(filter, from.as_ref(), 3).unwrap();
            found.extend(page.tasks.iter().map(|task| task.id));
            from = page.next;
            if from.is_none() {
                return found;
            }
        }
    };
    assert_eq!(ids.len(), 10);
    assert_eq!(search(&Filter::new().tag("red")), ids);
    tube.bury(ids[3], "no").unwrap();
    assert_eq!(search(&Filter::new().tag("blue").state(State::Buried)), [ids[3]]);
    assert_eq!(search(&Filter::new().tag("green")), []);
    assert_eq!(search(&Filter::new().tag("")), []);
    tube.trash(ids[4], "no").unwrap();
    assert_eq!(search(&Filter::new().tag("red").trashed(true)), [ids[4]]);
}

#[test]
fn a_change_of_tags_is_one_event() {
    let (queue, tube) = queue_with(TubeOptions::default());
    let id = tube.put(b"x").unwrap();
    let events = queue.events();
    tube.tag(id, ["a", "b"]).unwrap();
    tube.tag(id, ["a"]).unwrap(); // changes nothing
    tube.untag(id, ["c"]).unwrap(); // nor does this
    tube.untag(id, ["a"]).unwrap();
    queue.close().unwrap();
    let events: Vec<_> = events.map(|it| (it.task, it.from, it.to, it.cause)).collect();
    let tagged = (Some(id), Some(State::Ready), Some(State::Ready), Cause::Tag);
    assert_eq!(events, [tagged, tagged]);
}

/// One tag that was given 65 times was refused, and many were looked through one by one while the
/// queue waited.
#[test]
fn a_call_takes_a_bounded_number_of_tags_and_each_counts_once() {
    let (queue, tube) = queue_with(TubeOptions::default());
    let id = tube.task(b"x").tags(["a"; 65]).put().unwrap();
    assert_eq!(tube.tag(id, ["a"; 1024]).unwrap(), ["a"]);
    let missing = TaskId::new(99);
    // Also an iterator without an end, and before the task is looked for.
    for id in [id, missing] {
        assert_eq!(kind(tube.tag(id, std::iter::repeat("a"))), ErrorKind::TooLarge);
        assert_eq!(kind(tube.untag(id, std::iter::repeat("a"))), ErrorKind::TooLarge);
        assert_eq!(kind(tube.tag(id, (0..65).map(|tag| tag.to_string()))), ErrorKind::TooLarge);
        assert_eq!(kind(tube.tag(id, [""])), ErrorKind::Invalid);
    }
    let refused = tube.untag(id, vec!["a"; 1025]).unwrap_err();
    assert!(refused.to_string().contains("one call takes at most 1024 tags"), "{refused}");
    assert_eq!(kind(tube.task(b"y").tags(std::iter::repeat("a")).put()), ErrorKind::TooLarge);
    assert_eq!((tags(&tube, id), tube.len().unwrap()), (vec!["a".to_owned()], 1));
    sound(&queue);
}

#[test]
fn the_holder_tags_its_task() {
    let (queue, tube) = queue_with(TubeOptions::default());
    tube.task(b"x").tag("a").put().unwrap();
    let task = tube.take().unwrap();
    let handle = tube.ticket(task.ticket());
    assert_eq!(task.tag(["b"]).unwrap(), ["a", "b"]);
    assert_eq!(handle.tag(["c"]).unwrap(), ["a", "b", "c"]);
    let (_, lease) = task.split();
    assert_eq!(lease.tag(["d"]).unwrap(), ["a", "b", "c", "d"]);
    assert_eq!(handle.untag(["a", "absent"]).unwrap(), ["b", "c", "d"]);
    assert_eq!(lease.untag(["b"]).unwrap(), ["c", "d"]);
    assert_eq!(
        (lease.tags().unwrap(), handle.tags().unwrap()),
        (vec!["c".into(), "d".into()], {
            let id = lease.id();
            tags(&tube, id)
        })
    );
    assert_eq!(kind(lease.tag(["", "e"])), ErrorKind::Invalid);
    sound(&queue);
    tube.bury(lease.id(), "no").unwrap();
    for refused in [lease.tag(["e"]), lease.untag(["c"]), handle.tag(["e"]), handle.tags()] {
        assert_eq!(kind(refused), ErrorKind::LeaseLost);
    }
    drop(lease);
    assert_eq!(queue.tag_count("c").unwrap(), 1);
    sound(&queue);
}

/// No tags are others, too.
#[test]
fn a_put_of_its_key_takes_all_tags_of_a_task_if_it_says_so() {
    let options = TubeOptions::default().keep_finished(Retention::new().count(10));
    let (queue, tube) = queue_with(options);
    let put = || tube.task(b"x").key("k").on_conflict(Conflict::Replace);
    for end in [false, true] {
        let id = put().tags(["a", "b"]).put().unwrap();
        if end {
            tube.complete_by_id(id).unwrap();
        }
        let id = put().put().unwrap();
        assert_eq!(tags(&tube, id), ["a", "b"]);
        if end {
            tube.complete_by_id(id).unwrap();
        }
        let id = put().tags([]).put().unwrap();
        assert_eq!((tags(&tube, id), tagged(&queue, "a")), (vec![], vec![]));
        sound(&queue);
    }
    // Of a batch: its tags are for those that do not speak of tags.
    let ids = tube.batch_of([tube.task(b"a").tags([]), tube.task(b"b")]).tag("all").put().unwrap();
    assert_eq!([tags(&tube, ids[0]), tags(&tube, ids[1])], [vec![], vec!["all".to_owned()]]);
    sound(&queue);
}

/// A debounce takes up the task of its key while its work has not begun.
#[test]
fn a_debounce_keeps_the_tags_unless_it_gives_others() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let put = || tube.task(b"x").key("k").on_conflict(Conflict::Debounce).delay(secs(5));
    let id = put().tags(["a", "b"]).put().unwrap();
    clock.advance(secs(1));
    assert_eq!(put().put().unwrap(), id);
    assert_eq!(tags(&tube, id), ["a", "b"]);
    assert_eq!(put().tags(["c", "a"]).put().unwrap(), id);
    assert_eq!(tags(&tube, id), ["c", "a"]);
    sound(&queue);
    clock.advance(secs(6));
    let held = tube.take().unwrap();
    let second = put().tag("a").put().unwrap();
    assert_ne!(second, id);
    assert_eq!(tagged(&queue, "a"), [id, second]);
    assert_eq!((queue.tag_count("b").unwrap(), queue.tag_count("c").unwrap()), (0, 1));
    held.ack().unwrap();
    assert_eq!(tagged(&queue, "a"), [second]);
    sound(&queue);
}

/// A key of the whole queue brings a task from another tube, also a finished one.
#[test]
fn a_put_of_a_key_of_the_queue_brings_the_tags_from_another_tube() {
    for is_done in [false, true] {
        let queue = still().0.in_memory().unwrap();
        let unique = tubewell::Unique::new().in_queue(true);
        let kept = Retention::new().count(9);
        let options = TubeOptions::default().unique(unique).keep_finished(kept);
        let from = queue.create_tube("from", options.clone()).unwrap();
        let to = queue.create_tube("to", options).unwrap();
        let first = from.task(b"x").key("k").tags(["a", "b"]).put().unwrap();
        if is_done {
            from.complete_by_id(first).unwrap();
        }
        let put = || to.task(b"y").key("k").on_conflict(Conflict::Replace);
        let id = put().put().unwrap();
        assert_eq!((id == first, tags(&to, id)), (!is_done, vec!["a".into(), "b".into()]));
        let listed: Vec<_> = queue.tagged("a").map(|task| task.unwrap().tube.clone()).collect();
        assert_eq!((listed, queue.tag_count("a").unwrap()), (vec!["to".to_owned()], 1));
        sound(&queue);
        let back = from.task(b"z").key("k").on_conflict(Conflict::Replace).tag("b");
        let id = back.put().unwrap();
        assert_eq!((tags(&from, id), tagged(&queue, "a")), (vec!["b".into()], vec![]));
        sound(&queue);
    }
}

/// A row in memory that follows from the tags of temporary tubes was held against their limit.
#[test]
fn a_durable_task_is_not_refused_by_the_limit_of_temporary_tubes() {
    let queue = still().0.temporary_bytes_max(4096).in_memory().unwrap();
    let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
    let tube = queue.tube("t").unwrap();
    memory.task(b"x").tag("red").put().unwrap();
    while memory.put(b"x").is_ok() {}
    assert_eq!(kind(memory.task(b"x").tag("blue").put()), ErrorKind::Full);
    let id = tube.task(b"x").tag("red").put().unwrap();
    tube.tag(id, ["blue"]).unwrap();
    queue.transact(|tx| tube.task(b"c").tag("red").put_in(tx)).unwrap();
    assert_eq!(top(&queue), of(&[("red", 3)]));
    sound(&queue);
}

/// Counts of a batch are written once; a later task of it may take the tags of an earlier one.
#[test]
fn a_batch_counts_each_tag_as_single_puts_do() {
    let (queue, tube) = queue_with(TubeOptions::default());
    let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
    memory.batch(vec![*b"x"; 3]).tags(["a", "m"]).put().unwrap();
    let task = |tags: &[&'static str]| {
        let task = tube.task(b"x").key("k").on_conflict(Conflict::Replace);
        task.tags(tags.to_vec())
    };
    let plain = || tube.task(b"x").tags(["a", "b"]);
    tube.batch_of([task(&["a", "b"]), plain(), task(&["b", "c"]), plain()]).put().unwrap();
    assert_eq!(top(&queue), of(&[("a", 5), ("b", 3), ("m", 3)]));
    assert_eq!(queue.tag_count("c").unwrap(), 1);
    sound(&queue);
    tube.batch_of([task(&[]), task(&["c"]), task(&[])]).put().unwrap();
    assert_eq!(["b", "c"].map(|tag| queue.tag_count(tag).unwrap()), [2, 0]);
    sound(&queue);
}

#[test]
fn a_copy_has_no_tags_and_a_moved_task_has_its_own() {
    let (queue, tube) = queue_with(TubeOptions::default());
    let to = queue.tube("to").unwrap();
    let id = tube.task(b"x").tags(["a", "b"]).put().unwrap();
    let copy = tube.copy_to(id, &to).unwrap();
    assert_eq!((tags(&to, copy), tags(&tube, id)), (vec![], vec!["a".into(), "b".into()]));
    assert_eq!((tagged(&queue, "a"), queue.tag_count("b").unwrap()), (vec![id], 1));
    to.tag(copy, ["c"]).unwrap();
    to.move_to(copy, &tube).apply().unwrap();
    assert_eq!((tags(&tube, copy), queue.tag_count("c").unwrap()), (vec!["c".to_owned()], 1));
    sound(&queue);
}

/// Regression: a move that brought tags was held neither to the limit of the temporary tubes nor to
/// a full disk, as a verb that adds tags is.
#[test]
fn a_move_that_brings_tags_is_held_to_the_limit_of_temporary_tubes() {
    let queue = still().0.temporary_bytes_max(4096).in_memory().unwrap();
    let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
    let id = memory.put(b"x").unwrap();
    while memory.put(b"x").is_ok() {}
    let tags: Vec<String> = (0..60).map(|number| format!("{number:060}")).collect();
    let tags = || tags.iter().map(String::as_str);
    assert_eq!(kind(memory.tag(id, tags())), ErrorKind::Full);
    assert_eq!(kind(memory.move_to(id, &memory).tags(tags()).apply()), ErrorKind::Full);
    memory.move_to(id, &memory).tags([]).apply().unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
}
