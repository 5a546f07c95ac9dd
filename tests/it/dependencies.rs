//! Tasks that come after others: what they wait for, what an end of a task does to those that come
//! after it, and what refuses to remove one.

use crate::{home, killed, kind, open, secs, still};
use tubewell::{
    Cause, Clock, ErrorKind, ManualClock, Missing, Orphaned, Queue, Retention, State, TaskId, Tube,
    TubeOptions, WhyNot,
};

fn by_hand() -> (Queue, ManualClock) {
    let (builder, clock) = still();
    (builder.in_memory().unwrap(), clock)
}

fn state(queue: &Queue, id: TaskId) -> Option<State> {
    queue.find(id).ok().map(|task| task.state)
}

/// A tube that keeps finished tasks.
fn keeping(queue: &Queue, name: &str) -> Tube {
    let kept = Retention::new().count(1000);
    queue.create_tube(name, TubeOptions::default().keep_finished(kept)).unwrap()
}

fn is_sound(queue: &Queue) {
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn a_task_waits_for_all_that_it_comes_after() {
    for keeps in [false, true] {
        let (queue, _) = by_hand();
        let tube = if keeps { keeping(&queue, "t") } else { queue.tube("t").unwrap() };
        let ids = [tube.put(b"a").unwrap(), tube.put(b"b").unwrap()];
        let other = queue.tube("other").unwrap();
        let child = other.task(b"c").after(ids).put().unwrap();
        let summary = other.peek(child).unwrap();
        assert_eq!((summary.state, summary.dependencies.count), (State::Blocked, 2));
        assert_eq!(summary.dependencies.first, ids);
        assert_eq!(tube.peek(ids[0]).unwrap().dependents.first, [child]);
        assert_eq!((other.stats().unwrap().blocked, other.stats().unwrap().total), (1, 1));
        assert_eq!(queue.overview().unwrap()[1].stats.blocked, 1);
        let listed: Vec<_> = other.summaries(State::Blocked).map(|it| it.unwrap().id).collect();
        assert_eq!(listed, [child]);
        assert_eq!(other.peek_next(State::Blocked).unwrap().unwrap().id, child);
        assert!(other.try_take().unwrap().is_none());
        is_sound(&queue);

        tube.take().unwrap().ack().unwrap();
        assert_eq!(other.peek(child).unwrap().dependencies.first, ids[1..]);
        assert!(other.try_take().unwrap().is_none());
        is_sound(&queue);
        assert!(tube.complete_by_id(ids[1]).unwrap());
        is_sound(&queue);
        let task = other.try_take().unwrap().unwrap();
        assert_eq!(task.id(), child);
        task.ack().unwrap();
        is_sound(&queue);
    }
}

#[test]
fn what_is_finished_or_gone_has_succeeded_and_what_never_was_is_refused() {
    let (queue, _) = by_hand();
    let (tube, kept) = (queue.tube("t").unwrap(), keeping(&queue, "kept"));
    let (gone, done) = (tube.put(b"a").unwrap(), kept.put(b"b").unwrap());
    tube.delete(gone).unwrap();
    kept.take().unwrap().ack().unwrap();
    let child = tube.task(b"c").after([gone, done]).put().unwrap();
    assert_eq!(state(&queue, child), Some(State::Ready));
    is_sound(&queue);
    for never in [TaskId::new(0), TaskId::new(1000), TaskId::new(u64::MAX)] {
        let refused = tube.task(b"d").after([never]).put().unwrap_err();
        assert_eq!((refused.kind(), refused.task()), (ErrorKind::TaskNotFound, Some(never)));
        let ignored = tube.task(b"d").after([never]).missing(Missing::Ignore).put().unwrap();
        assert_eq!(state(&queue, ignored), Some(State::Ready));
    }
    is_sound(&queue);
}

/// A parent of each way to end, and what becomes of those that come after it, by what they wait
/// for and their policy.
#[test]
fn each_end_of_a_task_does_to_those_after_it_what_their_edges_say() {
    type End = fn(&Queue, &Tube, TaskId);
    let ends: [(&str, bool, End); 12] = [
        ("ack", true, |_, tube, _| tube.take().unwrap().ack().unwrap()),
        ("ack_many", true, |_, tube, _| {
            tube.ack_many(tube.take_many(1).unwrap()).unwrap();
        }),
        ("complete", true, |_, tube, id| assert!(tube.complete_by_id(id).unwrap())),
        ("bury", false, |_, tube, _| tube.take().unwrap().bury("no").unwrap()),
        ("bury by id", false, |_, tube, id| tube.bury(id, "no").unwrap()),
        ("fail", false, |_, tube, _| tube.take().unwrap().fail("g", "no").unwrap()),
        ("fail by id", false, |_, tube, id| assert!(tube.fail_by_id(id, "g", "no").unwrap())),
        ("trash", false, |_, tube, _| tube.take().unwrap().trash("no").unwrap()),
        ("delete", false, |_, tube, id| tube.force_delete(id).unwrap()),
        ("truncate", false, |_, tube, _| assert_eq!(tube.truncate().unwrap(), 1)),
        ("drop", false, |queue, tube, _| queue.force_drop_tube(tube.name()).unwrap()),
        ("release", false, |_, tube, _| tube.take().unwrap().release().unwrap()),
    ];
    for (name, succeeds, end) in ends {
        for keeps in [false, true] {
            let (queue, _) = by_hand();
            let tube = if keeps { keeping(&queue, "t") } else { queue.tube("t").unwrap() };
            let other = queue.tube("other").unwrap();
            let parent = tube.put(b"p").unwrap();
            let policies = [Orphaned::Hold, Orphaned::Cancel, Orphaned::Ignore];
            let mut children = Vec::new();
            for policy in policies {
                let task = || other.task(b"c").orphaned(policy);
                children.push([
                    task().after([parent]).put().unwrap(),
                    task().after_failure([parent]).put().unwrap(),
                    task().after_any_end([parent]).put().unwrap(),
                ]);
            }
            is_sound(&queue);
            end(&queue, &tube, parent);
            queue.tick().unwrap();
            let is_gone = matches!(name, "delete" | "truncate" | "drop");
            let (ready, blocked) = (Some(State::Ready), Some(State::Blocked));
            let by_policy = [blocked, None, ready];
            for ([success, failure, any], by_policy) in children.into_iter().zip(by_policy) {
                let is = [success, failure, any].map(|id| state(&queue, id));
                let expected = match name {
                    "release" => [blocked; 3],
                    _ if succeeds => [ready, by_policy, ready],
                    _ if is_gone => [by_policy, by_policy, ready],
                    _ => [by_policy, ready, ready],
                };
                assert_eq!(is, expected, "{name}, {keeps}");
            }
            is_sound(&queue);
        }
    }
}

/// A drop without force is refused by what is taken, as in any tube, and not by what waits for its
/// tasks elsewhere: that goes by its policy. A finished task has succeeded; as long as it is kept,
/// the tube is not empty.
#[test]
fn a_drop_is_not_refused_by_what_waits_in_other_tubes() {
    let (queue, _) = by_hand();
    let (tube, other) = (keeping(&queue, "t"), queue.tube("other").unwrap());
    let [done, open] = [tube.put(b"a").unwrap(), tube.put(b"b").unwrap()];
    let put = |policy| other.task(b"c").after([done, open]).orphaned(policy).put().unwrap();
    let policies = [Orphaned::Hold, Orphaned::Cancel, Orphaned::Ignore];
    let [held, cancelled, freed] = policies.map(put);
    let released = other.task(b"d").after([done]).put().unwrap();
    let any_end = other.task(b"e").after_any_end([open]).put().unwrap();
    tube.take().unwrap().ack().unwrap();
    let task = tube.take().unwrap();
    assert_eq!(kind(queue.drop_tube("t")), ErrorKind::TubeBusy);
    task.release().unwrap();
    assert_eq!(kind(queue.drop_tube_if_empty("t")), ErrorKind::TubeBusy);
    let all = [held, cancelled, freed, released, any_end];
    let (ready, blocked) = (Some(State::Ready), Some(State::Blocked));
    let before = [blocked, blocked, blocked, ready, blocked];
    assert_eq!(all.map(|id| state(&queue, id)), before, "a refusal ends nothing");
    is_sound(&queue);

    queue.drop_tube("t").unwrap();
    queue.tick().unwrap();
    assert_eq!(all.map(|id| state(&queue, id)), [blocked, None, ready, ready, ready]);
    // It stands there as one that was deleted does.
    assert_eq!(queue.dependencies(released).unwrap(), [done]);
    is_sound(&queue);

    // The tube of those that wait is not empty, and no reason to refuse the drop either.
    let parent = queue.tube("p").unwrap().put(b"p").unwrap();
    other.task(b"f").after([parent]).put().unwrap();
    assert_eq!(kind(queue.drop_tube_if_empty("other")), ErrorKind::TubeBusy);
    queue.drop_tube("other").unwrap();
    queue.tick().unwrap();
    assert_eq!(queue.find(parent).unwrap().dependents.count, 0);
    queue.tube("p").unwrap().delete(parent).unwrap();
    queue.drop_tube_if_empty("p").unwrap();
    is_sound(&queue);
}

/// One that was finished in a tube that keeps nothing is no obstacle, whatever came after it.
#[test]
fn a_tube_is_empty_once_its_tasks_are_gone_though_others_came_after_them() {
    let (queue, _) = by_hand();
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
    let [done, removed] = [tube.put(b"a").unwrap(), tube.put(b"b").unwrap()];
    let child = other.task(b"c").after([done, removed]).put().unwrap();
    tube.take().unwrap().ack().unwrap();
    assert_eq!(kind(queue.drop_tube_if_empty("t")), ErrorKind::TubeBusy);
    tube.force_delete(removed).unwrap();
    queue.drop_tube_if_empty("t").unwrap();
    assert_eq!(state(&queue, child), Some(State::Blocked), "it is held");
    other.undepend_all(child).unwrap();
    assert_eq!(other.take().unwrap().id(), child);
    is_sound(&queue);
}

#[test]
fn a_ttl_and_a_retention_end_a_task_too() {
    let (queue, clock) = by_hand();
    let options = TubeOptions::default().keep_buried(Retention::new().age(secs(60)));
    let tube = queue.create_tube("t", options).unwrap();
    let other = queue.tube("other").unwrap();
    let (short, buried) = (tube.task(b"a").ttl(secs(10)).put().unwrap(), tube.put(b"b").unwrap());
    let cancelled = |id| other.task(b"c").after([id]).orphaned(Orphaned::Cancel).put().unwrap();
    let held = |id| other.task(b"d").after([id]).put().unwrap();
    let of_ttl = (cancelled(short), held(short));
    tube.bury(buried, "no").unwrap();
    let of_retention = (held(buried), other.task(b"e").after_any_end([buried]).put().unwrap());
    assert_eq!(state(&queue, of_retention.1), Some(State::Ready));
    clock.advance(secs(60));
    queue.tick().unwrap();
    assert!(tube.is_empty().unwrap());
    assert_eq!(state(&queue, of_ttl.0), None);
    assert_eq!(state(&queue, of_ttl.1), Some(State::Blocked));
    assert_eq!(state(&queue, of_retention.0), Some(State::Blocked));
    is_sound(&queue);
}

#[test]
fn a_held_task_is_released_by_a_kick_and_a_success() {
    let (queue, _) = by_hand();
    let tube = queue.tube("t").unwrap();
    let parent = tube.put(b"p").unwrap();
    let (child, on_failure) = (
        tube.task(b"c").after([parent]).put().unwrap(),
        tube.task(b"f").after_failure([parent]).put().unwrap(),
    );
    tube.take().unwrap().bury("no").unwrap();
    assert_eq!(state(&queue, child), Some(State::Blocked));
    assert_eq!(state(&queue, on_failure), Some(State::Ready));
    let explained = queue.explain(child).unwrap();
    let (first, tasks) = (parent, 1);
    let waits = WhyNot::WaitsFor { tasks, first, has_ended: true, is_ending: false };
    assert_eq!(explained.reasons, [waits]);
    tube.kick_task(parent).unwrap();
    tube.complete_by_id(parent).unwrap();
    assert_eq!(state(&queue, child), Some(State::Ready));
    assert_eq!(state(&queue, on_failure), Some(State::Ready));
    is_sound(&queue);
}

#[test]
fn a_buried_child_that_is_kicked_waits_again() {
    let (queue, _) = by_hand();
    let tube = queue.tube("t").unwrap();
    let parent = tube.put(b"p").unwrap();
    let child = tube.task(b"c").after([parent]).put().unwrap();
    tube.bury(child, "no").unwrap();
    assert_eq!(kind(tube.claim(child)), ErrorKind::WrongState);
    tube.kick_task(child).unwrap();
    assert_eq!(state(&queue, child), Some(State::Blocked));
    assert_eq!(kind(tube.claim(child)), ErrorKind::WrongState);
    is_sound(&queue);
    tube.trash(child, "no").unwrap();
    tube.complete_by_id(parent).unwrap();
    is_sound(&queue);
    tube.restore(child).unwrap();
    assert_eq!(state(&queue, child), Some(State::Ready));
    is_sound(&queue);
}

#[test]
fn a_delay_goes_on_after_the_wait_and_the_ttl_does_not_run_in_it() {
    let (queue, clock) = by_hand();
    let tube = queue.tube("t").unwrap();
    let parent = tube.put(b"p").unwrap();
    let late = tube.task(b"l").after([parent]).delay(secs(30)).ttl(secs(5)).put().unwrap();
    let soon = tube.task(b"s").after([parent]).delay(secs(10)).ttl(secs(5)).put().unwrap();
    let wall = clock.wall() + secs(30);
    let by_wall = tube.task(b"w").after([parent]).run_at(wall).put().unwrap();
    let plain = tube.task(b"x").after([parent]).ttl(secs(5)).put().unwrap();
    clock.advance(secs(20));
    queue.tick().unwrap();
    for id in [late, soon, by_wall, plain] {
        assert_eq!(state(&queue, id), Some(State::Blocked));
    }
    assert_eq!(tube.peek(plain).unwrap().ttl_left, Some(secs(5)));
    tube.complete_by_id(parent).unwrap();
    let left = |id| queue.find(id).ok().map(|task| (task.state, task.ttl_left));
    assert_eq!(left(late), Some((State::Delayed, Some(secs(5)))));
    assert_eq!(left(soon), Some((State::Ready, Some(secs(5)))));
    assert_eq!(left(plain), Some((State::Ready, Some(secs(5)))));
    assert_eq!(state(&queue, by_wall), Some(State::Delayed));
    clock.advance(secs(10));
    queue.tick().unwrap();
    assert_eq!(left(late), Some((State::Ready, Some(secs(5)))));
    assert_eq!(left(plain), None);
    is_sound(&queue);
}

#[test]
fn a_task_that_others_wait_for_is_deleted_with_them_or_by_force() {
    let (queue, _) = by_hand();
    let tube = queue.tube("t").unwrap();
    let parent = tube.put(b"p").unwrap();
    let child = tube.task(b"c").after([parent]).put().unwrap();
    let grandchild = tube.task(b"g").after([child]).put().unwrap();
    let refused = tube.delete(parent).unwrap_err();
    assert_eq!((refused.kind(), refused.tasks()), (ErrorKind::HasDependents, &[child][..]));
    assert!(refused.to_string().contains(&format!("task {child} waits for it")), "{refused}");
    assert_eq!(kind(tube.delete_many(&[parent, child])), ErrorKind::HasDependents);
    assert_eq!(kind(tube.delete_only_if(parent, &[State::Ready])), ErrorKind::HasDependents);
    assert_eq!(tube.len().unwrap(), 3);
    for order in
        [[parent, child, grandchild], [grandchild, child, parent], [child, grandchild, parent]]
    {
        let copy = tube.put(b"p").unwrap();
        let second = tube.task(b"c").after([copy]).put().unwrap();
        let third = tube.task(b"g").after([second]).put().unwrap();
        let of = |id| match id {
            id if id == parent => copy,
            id if id == child => second,
            _ => third,
        };
        assert_eq!(tube.delete_many(&order.map(of)).unwrap(), 3);
        is_sound(&queue);
    }
    tube.delete(grandchild).unwrap();
    tube.delete(child).unwrap();
    tube.delete(parent).unwrap();
    assert!(tube.is_empty().unwrap());
    is_sound(&queue);
}

#[test]
fn a_cancelled_tree_goes_as_a_whole() {
    let (queue, _) = by_hand();
    let tube = queue.tube("t").unwrap();
    let root = tube.put(b"p").unwrap();
    let mut last = vec![root];
    for _ in 0..3 {
        let task = |parent: &TaskId| tube.task(b"c").after([*parent]).orphaned(Orphaned::Cancel);
        last = last
            .iter()
            .flat_map(|parent| (0..3).map(|_| task(parent).put().unwrap()).collect::<Vec<_>>())
            .collect();
    }
    assert_eq!(tube.len().unwrap(), 1 + 3 + 9 + 27);
    let events = queue.events();
    tube.force_delete(root).unwrap();
    assert!(tube.is_empty().unwrap());
    let causes = std::iter::from_fn(|| events.try_recv()).map(|event| event.cause);
    assert_eq!(causes.filter(|cause| *cause == Cause::Cancel).count(), 39);
    assert_eq!(tube.stats().unwrap().calls.cancel, 39);
    is_sound(&queue);
}

#[test]
fn a_finished_task_is_kept_for_those_after_it_and_then_by_its_retention() {
    let (queue, clock) = by_hand();
    let kept = Retention::new().count(1).age(secs(60));
    let tube = queue.create_tube("t", TubeOptions::default().keep_finished(kept)).unwrap();
    let other = queue.tube("other").unwrap();
    let parents: Vec<_> = (0..3).map(|_| tube.put(b"p").unwrap()).collect();
    let child = other.task(b"c").after(parents.clone()).put().unwrap();
    for _ in 0..3 {
        tube.take().unwrap().ack_with(b"r").unwrap();
    }
    for _ in 0..3 {
        tube.put(b"x").unwrap();
        tube.take().unwrap().ack().unwrap();
    }
    assert_eq!(tube.stats().unwrap().finished, 4, "the child's three, and one");
    assert_eq!(tube.finished().count(), 4);
    clock.advance(secs(100));
    queue.tick().unwrap();
    assert_eq!(tube.stats().unwrap().finished, 3);
    is_sound(&queue);
    let task = other.take().unwrap();
    assert_eq!(task.id(), child);
    for parent in &parents {
        assert_eq!(queue.find(*parent).unwrap().result.as_deref(), Some(&b"r"[..]));
    }
    task.ack().unwrap();
    queue.tick().unwrap();
    assert_eq!(tube.stats().unwrap().finished, 0);
    is_sound(&queue);
}

/// Regression: a finished task that another one holds has no end. Once it was released it had none,
/// although its tube had an age by then: it went with the next work of the tube, or never.
#[test]
fn a_finished_task_that_was_held_goes_by_the_age_that_its_tube_has_then() {
    let (queue, clock) = by_hand();
    let kept = TubeOptions::default().keep_finished(Retention::new());
    let (tube, other) = (queue.create_tube("t", kept).unwrap(), queue.tube("other").unwrap());
    let parent = tube.put(b"p").unwrap();
    other.task(b"c").after([parent]).put().unwrap();
    tube.take().unwrap().ack().unwrap();
    tube.set("keep_finished", Retention::new().age(secs(60))).unwrap();
    clock.advance(secs(10));
    queue.tick().unwrap();
    other.take().unwrap().ack().unwrap();
    for (after, finished) in [(49, 1), (1, 0)] {
        clock.advance(secs(after));
        queue.tick().unwrap();
        assert_eq!(tube.stats().unwrap().finished, finished);
        is_sound(&queue);
    }
}

#[test]
fn a_put_again_keeps_or_replaces_what_it_waits_for() {
    let (queue, _) = by_hand();
    let tube = queue.tube("t").unwrap();
    let parents = [tube.put(b"a").unwrap(), tube.put(b"b").unwrap()];
    let replace = || tube.task(b"c").key("k").must_exist();
    let child = tube.task(b"c").key("k").after([parents[0]]).put().unwrap();
    assert_eq!(replace().put().unwrap(), child);
    assert_eq!(tube.peek(child).unwrap().dependencies.first, [parents[0]], "kept");
    is_sound(&queue);
    replace().after([parents[1]]).put().unwrap();
    assert_eq!(tube.peek(child).unwrap().dependencies.first, [parents[1]], "replaced");
    assert_eq!(tube.peek(parents[0]).unwrap().dependents.count, 0);
    is_sound(&queue);
    replace().after([]).put().unwrap();
    let summary = tube.peek(child).unwrap();
    assert_eq!((summary.state, summary.dependencies.count), (State::Ready, 0));
    assert_eq!(tube.peek(parents[1]).unwrap().dependents.count, 0);
    is_sound(&queue);
    replace().after(parents).put().unwrap();
    assert_eq!(state(&queue, child), Some(State::Blocked));
    assert_eq!(kind(replace().after([child]).put()), ErrorKind::Cycle);
    is_sound(&queue);
}

#[test]
fn no_task_comes_to_wait_for_itself() {
    let (queue, _) = by_hand();
    let tube = keeping(&queue, "t");
    let first = tube.task(b"a").key("a").put().unwrap();
    let second = tube.task(b"b").after([first]).put().unwrap();
    let third = tube.task(b"c").after([second]).put().unwrap();
    for after in [first, second, third] {
        let put = tube.task(b"a").key("a").must_exist().after([after]).put();
        assert_eq!(kind(put), ErrorKind::Cycle);
    }
    is_sound(&queue);
    tube.take().unwrap().ack().unwrap();
    // Finished, it is put again as a new one, which comes after itself as little.
    let again = tube.task(b"a").key("a").on_conflict(tubewell::Conflict::Replace);
    assert_eq!(kind(again.after([first]).put()), ErrorKind::Cycle);
    is_sound(&queue);
    let again = tube.task(b"a").key("a").on_conflict(tubewell::Conflict::Replace).put().unwrap();
    assert!(again > third);
    assert_eq!(state(&queue, second), Some(State::Ready));
    is_sound(&queue);
}

#[test]
fn a_task_that_moves_is_still_found_by_those_before_and_after_it() {
    let (queue, _) = by_hand();
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
    let parent = tube.put(b"p").unwrap();
    let child = tube.task(b"c").after([parent]).put().unwrap();
    tube.move_to(child, &other).apply().unwrap();
    assert_eq!(state(&queue, child), Some(State::Blocked));
    tube.move_to(parent, &other).apply().unwrap();
    assert_eq!(state(&queue, child), Some(State::Blocked), "a move is no end");
    is_sound(&queue);
    let mut task = other.take().unwrap();
    task.advance(&tube).unwrap();
    assert_eq!(state(&queue, child), Some(State::Blocked), "nor is an advance");
    is_sound(&queue);
    tube.take().unwrap().ack().unwrap();
    assert_eq!(other.take().unwrap().id(), child);
    is_sound(&queue);
}

#[test]
fn temporary_tasks_come_after_temporary_ones_only() {
    let (queue, _) = by_hand();
    let tube = queue.tube("t").unwrap();
    let temporary = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
    let (durable, memory) = (tube.put(b"a").unwrap(), temporary.put(b"b").unwrap());
    assert_eq!(kind(tube.task(b"c").after([memory]).put()), ErrorKind::Unsupported);
    assert_eq!(kind(temporary.task(b"c").after([durable]).put()), ErrorKind::Unsupported);
    let child = temporary.task(b"c").after([memory]).put().unwrap();
    assert_eq!(state(&queue, child), Some(State::Blocked));
    is_sound(&queue);
    temporary.take().unwrap().ack().unwrap();
    assert_eq!(temporary.take().unwrap().id(), child);
    is_sound(&queue);
}

#[test]
fn an_invalid_list_is_refused_and_changes_nothing() {
    let (queue, _) = by_hand();
    let tube = queue.tube("t").unwrap();
    let ids: Vec<_> = (0..300).map(|_| tube.put(b"p").unwrap()).collect();
    let id = ids[0];
    assert_eq!(kind(tube.task(b"c").after([id]).after_failure([id]).put()), ErrorKind::Invalid);
    assert_eq!(kind(tube.task(b"c").after(std::iter::repeat(id)).put()), ErrorKind::Invalid);
    let child = tube.task(b"c").after([id, id]).after([id]).put().unwrap();
    assert_eq!(tube.peek(child).unwrap().dependencies.count, 1);
    let batch = tube.batch_of([tube.task(b"d").after([id]), tube.task(b"e").after([child])]);
    let batch = batch.put().unwrap();
    assert_eq!(tube.peek(batch[1]).unwrap().dependencies.first, [child]);
    assert_eq!(tube.peek(batch[0]).unwrap().dependencies.first, [id]);
    let common = tube.batch([b"f".to_vec(), b"g".to_vec()]).after([id]).put().unwrap();
    assert!(common.iter().all(|id| state(&queue, *id) == Some(State::Blocked)));
    is_sound(&queue);
    assert_eq!(tube.len().unwrap(), 305);
}

#[test]
fn edges_outlive_a_kill_and_an_end_after_it_frees_all() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let parent = tube.put(b"p").unwrap();
    let children: Vec<_> =
        (0..300).map(|_| tube.task(b"c").after([parent]).put().unwrap()).collect();
    let (_copy, copy) = killed(&path);
    let again = open(&copy);
    is_sound(&again);
    assert_eq!(again.tube("t").unwrap().stats().unwrap().blocked, 300);
    again.tube("t").unwrap().take().unwrap().ack().unwrap();
    assert_eq!(again.tube("t").unwrap().stats().unwrap().ready, 300);
    is_sound(&again);
    again.close().unwrap();
    // The queue that went on does the same.
    tube.take().unwrap().ack().unwrap();
    assert!(children.iter().all(|id| state(&queue, *id) == Some(State::Ready)));
    queue.checkpoint().unwrap();
    is_sound(&queue);
}

/// A long list is written in groups, and no call sees the task before the last one.
#[test]
fn a_task_may_come_after_very_many() {
    let (queue, _) = by_hand();
    let tube = queue.create_tube("t", TubeOptions::default().capacity(3001)).unwrap();
    let parents = tube.put_many(vec![&b"p"[..]; 3000]).unwrap();
    let (done, rest) = parents.split_at(1);
    tube.complete_by_id(done[0]).unwrap();
    let bytes = vec![7; 2 << 20];
    let child = tube.task(&bytes).after(parents.clone()).put().unwrap();
    let summary = tube.peek(child).unwrap();
    assert_eq!((summary.state, summary.dependencies.count), (State::Blocked, 2999));
    assert_eq!(summary.dependencies.first, rest[..100]);
    assert_eq!(summary.payload, bytes);
    is_sound(&queue);
    tube.put(b"full").unwrap();
    let refused = tube.task(b"c").after(parents.clone()).put();
    assert_eq!(kind(refused), ErrorKind::Full);
    queue.tick().unwrap();
    is_sound(&queue);
    assert_eq!(tube.peek(rest[0]).unwrap().dependents.count, 1);
    let keyed = tube.task(b"c").key("k").after(parents.clone()).put();
    assert_eq!(kind(keyed), ErrorKind::Full);
    tube.ack_many(tube.take_many(2999).unwrap()).unwrap();
    assert_eq!(tube.take_many(9).unwrap().len(), 2);
    queue.tick().unwrap();
    is_sound(&queue);
}

/// One that has very many after it, each way it may end.
#[test]
fn a_task_may_have_very_many_after_it() {
    for keeps in [false, true] {
        let (queue, _) = by_hand();
        let tube = if keeps { keeping(&queue, "t") } else { queue.tube("t").unwrap() };
        let parent = tube.put(b"p").unwrap();
        let children = vec![&b"c"[..]; 5000];
        let children = tube.batch(children).after([parent]).put().unwrap();
        assert_eq!(tube.peek(parent).unwrap().dependents.count, 5000);
        is_sound(&queue);
        tube.complete_by_id(parent).unwrap();
        assert_eq!(tube.stats().unwrap().ready, 5000);
        is_sound(&queue);
        let taken = tube.take_many(5000).unwrap();
        assert_eq!(taken.iter().map(|task| task.id()).collect::<Vec<_>>(), children);
        tube.ack_many(taken).unwrap();
        is_sound(&queue);
    }
}

#[test]
fn what_a_task_waits_for_is_changed_while_it_waits() {
    let (queue, clock) = by_hand();
    let (tube, other) = (keeping(&queue, "t"), queue.tube("other").unwrap());
    let parents: Vec<_> = (0..600).map(|_| tube.put(b"p").unwrap()).collect();
    let child = other.task(b"c").after([parents[0]]).delay(secs(60)).ttl(secs(5)).put().unwrap();
    other.depend(child, parents.clone()).unwrap();
    assert_eq!(other.peek(child).unwrap().dependencies.count, 600);
    other.depend(child, []).unwrap();
    is_sound(&queue);
    tube.complete_by_id(parents[1]).unwrap();
    other.depend(child, [parents[1]]).unwrap();
    assert_eq!(other.peek(child).unwrap().dependencies.count, 599);
    assert_eq!(queue.dependencies(child).unwrap(), parents);
    other.undepend(child, parents[1..300].to_vec()).unwrap();
    assert_eq!(other.peek(child).unwrap().dependencies.count, 301);
    assert_eq!(tube.peek(parents[2]).unwrap().dependents.count, 0);
    is_sound(&queue);
    other.undepend_all(child).unwrap();
    assert_eq!(state(&queue, child), Some(State::Delayed));
    assert!(queue.dependencies(child).unwrap().is_empty());
    is_sound(&queue);
    for refused in [other.depend(child, [parents[5]]), other.undepend_all(child)] {
        assert_eq!(kind(refused), ErrorKind::WrongState);
    }
    clock.advance(secs(60));
    let task = other.take().unwrap();
    assert_eq!(kind(other.depend(child, [parents[5]])), ErrorKind::WrongState);
    task.bury("no").unwrap();
    assert_eq!(kind(other.undepend(child, [parents[5]])), ErrorKind::WrongState);
    assert!(other.depend(TaskId::new(9999), []).unwrap_err().is_not_found());
    is_sound(&queue);
}

#[test]
fn no_edge_that_is_added_makes_a_circle() {
    let (queue, _) = by_hand();
    let tube = queue.tube("t").unwrap();
    let root = tube.put(b"p").unwrap();
    let mut chain = vec![tube.task(b"c").after([root]).put().unwrap()];
    for _ in 0..10 {
        let last = *chain.last().unwrap();
        chain.push(tube.task(b"c").after([last]).put().unwrap());
    }
    for later in &chain {
        assert_eq!(kind(tube.depend(chain[0], [*later])), ErrorKind::Cycle);
    }
    assert_eq!(kind(tube.depend(chain[0], [TaskId::new(7777)])), ErrorKind::TaskNotFound);
    let last = *chain.last().unwrap();
    tube.depend(last, [root, chain[0]]).unwrap();
    is_sound(&queue);
    // A wide set before the task: too many to look at.
    let wide = tube.put_many(vec![&b"w"[..]; 1001]).unwrap();
    let late = tube.task(b"l").after(wide).put().unwrap();
    assert_eq!(kind(tube.depend(last, [late])), ErrorKind::TooDeep);
    is_sound(&queue);
}

/// QL-42: a chain, of which each end releases the next one.
#[test]
fn a_chain_goes_one_by_one() {
    let (queue, _) = by_hand();
    let tube = queue.tube("t").unwrap();
    let mut chain = vec![tube.task(b"c").group("g").put().unwrap()];
    for at in 1..10 {
        let task = tube.task(b"c").after([chain[at - 1]]).group("g").priority(-(at as i64));
        chain.push(task.put().unwrap());
    }
    for id in &chain {
        let task = tube.try_take().unwrap().unwrap();
        assert_eq!(task.id(), *id);
        assert!(tube.try_take().unwrap().is_none());
        task.ack().unwrap();
        is_sound(&queue);
    }
    assert!(tube.is_empty().unwrap());
}

#[test]
fn a_blocked_task_is_changed_finished_found_and_listed_as_any_other() {
    let (queue, clock) = by_hand();
    let tube = keeping(&queue, "t");
    let parent = tube.put(b"p").unwrap();
    let child = tube.task(b"c").key("k").after([parent]).put().unwrap();
    assert_eq!(tube.task(b"d").key("k").put().unwrap(), child, "it has its key");
    let debounced = tube.task(b"e").key("k").on_conflict(tubewell::Conflict::Debounce);
    assert_eq!(debounced.delay(secs(9)).put().unwrap(), child);
    assert_eq!(state(&queue, child), Some(State::Blocked));
    let waits_for = tube.peek(child).unwrap().dependencies.clone();
    assert_eq!((waits_for.count, &waits_for.first[..]), (1, &[parent][..]), "its edge stays");
    assert_eq!(tube.peek(parent).unwrap().dependents.count, 1);
    tube.update(child).priority(-5).ttl(secs(10)).delay(secs(20)).apply().unwrap();
    tube.tag(child, ["red"]).unwrap();
    clock.advance(secs(15));
    let summary = tube.peek(child).unwrap();
    assert_eq!((summary.priority, summary.state), (-5, State::Blocked));
    assert_eq!(summary.ttl_left, Some(secs(10)));
    let filter = tubewell::Filter::new().state(State::Blocked);
    let page = tube.search(&filter, None, 10).unwrap();
    assert_eq!(page.tasks.iter().map(|task| task.id).collect::<Vec<_>>(), [child]);
    is_sound(&queue);
    assert!(tube.complete_by_id(child).unwrap());
    assert_eq!(tube.peek(parent).unwrap().dependents.count, 0);
    assert_eq!(state(&queue, child), Some(State::Done));
    tube.delete(parent).unwrap();
    is_sound(&queue);
}

#[test]
fn a_tree_is_removed_with_all_that_wait_for_it() {
    let (queue, _) = by_hand();
    let (tube, other) = (keeping(&queue, "t"), queue.tube("other").unwrap());
    let (root, beside) = (tube.put(b"p").unwrap(), tube.put(b"b").unwrap());
    let mut last = vec![root];
    for level in 0..3 {
        let at = if level % 2 == 0 { &other } else { &tube };
        let task = |id: &TaskId| at.task(b"c").after([*id, beside]).put().unwrap();
        last = last.iter().flat_map(|id| (0..5).map(|_| task(id)).collect::<Vec<_>>()).collect();
    }
    let gone = other.task(b"any").after_any_end([root]).put().unwrap();
    other.bury(gone, "no").unwrap();
    assert_eq!(queue.cancel_tree(root).unwrap(), 1 + 5 + 25 + 125 + 1);
    assert_eq!((tube.len().unwrap(), other.len().unwrap()), (1, 0));
    assert_eq!(tube.peek(beside).unwrap().dependents.count, 0);
    assert_eq!(kind(queue.cancel_tree(root)), ErrorKind::TaskNotFound);
    is_sound(&queue);
}
