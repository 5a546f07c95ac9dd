//! What becomes of edges when tasks are removed together, put again, replaced, or put in a batch.

use crate::{kind, secs, still};
use std::error::Error;
use tubewell::{
    Advance, After, Conflict, ErrorKind, ManualClock, Missing, Orphaned, PutOutcome, Queue,
    Retention, State, TaskId, Tube, TubeKind, TubeOptions,
};

fn queue() -> (Queue, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube, clock)
}

fn state(queue: &Queue, id: TaskId) -> Option<State> {
    queue.find(id).ok().map(|task| task.state)
}

fn is_sound(queue: &Queue) {
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// The ids of a call are those of its tube: one in another tube stays, and waits.
#[test]
fn what_is_named_but_stands_in_another_tube_is_not_removed_together() {
    let (queue, tube, _) = queue();
    let other = queue.tube("other").unwrap();
    for policy in [Orphaned::Hold, Orphaned::Cancel, Orphaned::Ignore] {
        for moves in [false, true] {
            let at = if moves { &tube } else { &other };
            let parent = tube.put(b"p").unwrap();
            let child = at.task(b"c").after([parent]).orphaned(policy).put().unwrap();
            if moves {
                tube.move_to(child, &other).apply().unwrap();
            }
            let refused = tube.delete_many(&[parent, child]).unwrap_err();
            assert_eq!((refused.kind(), refused.tasks()), (ErrorKind::HasDependents, &[child][..]));
            assert_eq!(state(&queue, child), Some(State::Blocked), "{policy:?}, {moves}");
            is_sound(&queue);
            assert_eq!(other.delete_many(&[parent, child]).unwrap(), 1);
            assert_eq!(tube.delete_many(&[parent, child]).unwrap(), 1);
            is_sound(&queue);
        }
    }
    // One that has come to the tube of its parent goes with it.
    let parent = tube.put(b"p").unwrap();
    let child = other.task(b"c").after([parent]).put().unwrap();
    other.move_to(child, &tube).apply().unwrap();
    assert_eq!(tube.delete_many(&[parent, child]).unwrap(), 2);
    is_sound(&queue);
    assert!(tube.is_empty().unwrap() && other.is_empty().unwrap());
}

/// What is named goes together, from whatever tubes and in whatever order it is given; if another
/// one waits for a part of it nothing goes.
#[test]
fn what_is_named_goes_together_from_all_tubes() {
    let (queue, tube, _) = queue();
    let other = queue.tube("other").unwrap();
    for turn in 0..3 {
        let plain = tube.put(b"x").unwrap();
        let held = tube.claim(plain).unwrap();
        let parent = tube.put(b"p").unwrap();
        let child = other.task(b"c").after([parent]).put().unwrap();
        let third = tube.task(b"g").after([child, parent]).orphaned(Orphaned::Cancel);
        let third = third.put().unwrap();
        let mut all = [parent, child, third, plain, parent, TaskId::new(1 << 40)];
        all.rotate_left(turn);
        for missing in [child, third] {
            let some: Vec<_> = all.into_iter().filter(|id| *id != missing).collect();
            let refused = queue.delete_many(&some).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::HasDependents);
            assert!(refused.tasks().contains(&missing), "{refused}");
            assert_eq!((tube.len().unwrap(), other.len().unwrap()), (3, 1), "nothing is removed");
        }
        assert_eq!(queue.delete_many(&all).unwrap(), 4);
        assert!(tube.is_empty().unwrap() && other.is_empty().unwrap());
        assert_eq!(held.ack().unwrap_err().kind(), ErrorKind::LeaseLost);
        assert_eq!(queue.delete_many(&all).unwrap(), 0);
        is_sound(&queue);
    }
    // Nothing goes before another one that waits for it, nor if the call is refused, although a
    // task waits for it whose tube was dropped and not swept.
    for policy in [Orphaned::Hold, Orphaned::Cancel, Orphaned::Ignore] {
        let letters = queue.tube("letters").unwrap();
        let parent = tube.put(b"p").unwrap();
        letters.task(b"x").after([parent]).put().unwrap();
        let child = other.task(b"c").after([parent]).orphaned(policy).put().unwrap();
        let last = tube.task(b"g").after([child]).put().unwrap();
        queue.force_drop_tube("letters").unwrap();
        let refused = queue.delete_many(&[parent, child]).unwrap_err();
        assert_eq!((refused.kind(), refused.tasks()), (ErrorKind::HasDependents, &[last][..]));
        assert_eq!((tube.len().unwrap(), other.len().unwrap()), (2, 1), "{policy:?}");
        assert_eq!(queue.delete_many(&[parent, child, last]).unwrap(), 3, "{policy:?}");
        queue.tick().unwrap();
        is_sound(&queue);
    }
    // Many of each, more than a step has.
    let parents = tube.put_many(vec![b"p".to_vec(); 200]).unwrap();
    let after = |id: &TaskId| other.task(b"c").after([*id]).put().unwrap();
    let children: Vec<_> = parents.iter().map(after).collect();
    assert_eq!(queue.delete_many(&[parents, children].concat()).unwrap(), 400);
    is_sound(&queue);
}

/// A tree of two tubes in which one that was put before another waits for it.
#[test]
fn a_tree_goes_as_a_whole_whatever_the_order_of_its_tasks() {
    let (queue, tube, _) = queue();
    let other = queue.tube("other").unwrap();
    let root = tube.put(b"p").unwrap();
    let first = other.task(b"b").after([root]).put().unwrap();
    let second = tube.task(b"c").after([root]).put().unwrap();
    other.depend(first, [second]).unwrap();
    assert_eq!(queue.cancel_tree(root).unwrap(), 3);
    assert!(tube.is_empty().unwrap() && other.is_empty().unwrap());
    is_sound(&queue);
}

#[test]
fn a_removal_together_looks_at_so_many_edges() {
    let (queue, tube, _) = queue();
    let parent = tube.put(b"p").unwrap();
    let mut all = tube.batch(vec![&b"c"[..]; 4097]).after([parent]).put().unwrap();
    all.push(parent);
    assert_eq!(kind(tube.delete_many(&all)), ErrorKind::Invalid);
    assert_eq!(tube.len().unwrap(), 4098);
    tube.delete(all.remove(0)).unwrap();
    queue.tick().unwrap();
    assert_eq!(tube.delete_many(&all).unwrap(), 4097);
    assert!(tube.is_empty().unwrap());
    queue.tick().unwrap();
    is_sound(&queue);
}

/// The tasks of a batch come after all that the batch names, and each has its own terms where it
/// has some.
#[test]
fn the_tasks_of_a_batch_have_the_edges_of_both() {
    let (queue, tube, _) = queue();
    let [p, q] = [tube.put(b"p").unwrap(), tube.put(b"q").unwrap()];
    let tasks = [
        tube.task(b"none"),
        tube.task(b"cancel").orphaned(Orphaned::Cancel),
        tube.task(b"more").after([q]),
        tube.task(b"nothing more").after([]),
        tube.task(b"other end").after_failure([p]),
        tube.task(b"hold").orphaned(Orphaned::Hold),
    ];
    let batch = tube.batch_of(tasks).after([p]).orphaned(Orphaned::Ignore).put().unwrap();
    let [none, cancel, more, nothing, failure, hold] = batch[..] else { panic!() };
    for id in batch.clone() {
        assert_eq!(state(&queue, id), Some(State::Blocked));
        let expected = if id == more { vec![p, q] } else { vec![p] };
        assert_eq!(tube.peek(id).unwrap().dependencies.first, expected);
    }
    is_sound(&queue);
    tube.force_delete(p).unwrap();
    for (id, expected) in [
        (none, Some(State::Ready)),
        (cancel, None),
        (more, Some(State::Blocked)),
        (nothing, Some(State::Ready)),
        (failure, Some(State::Ready)),
        (hold, Some(State::Blocked)),
    ] {
        assert_eq!(state(&queue, id), expected);
    }
    tube.force_delete(q).unwrap();
    assert_eq!(state(&queue, more), Some(State::Ready));
    is_sound(&queue);
}

#[test]
fn a_batch_of_too_many_edges_is_refused() {
    let (queue, tube, _) = queue();
    let parents = tube.put_many(vec![&b"p"[..]; 257]).unwrap();
    let batch = |tasks: usize, own: bool, parents: &[TaskId]| {
        let task = |_| match own {
            true => tube.task(b"c").orphaned(Orphaned::Cancel),
            false => tube.task(b"c"),
        };
        let tasks: Vec<_> = (0..tasks).map(task).collect();
        tube.batch_of(tasks).after(parents.to_vec()).put()
    };
    for own in [false, true] {
        assert_eq!(kind(batch(2, own, &parents)), ErrorKind::Invalid, "257 of one");
        assert_eq!(kind(batch(101, own, &parents[..100])), ErrorKind::Invalid, "10 100");
        assert_eq!(kind(batch(10_000, own, &parents)), ErrorKind::Invalid);
        assert_eq!(batch(100, own, &parents[..100]).unwrap().len(), 100);
    }
    assert_eq!(tube.len().unwrap(), 257 + 200);
    is_sound(&queue);
}

/// What it goes on to come after is kept with its result, also if its tube would keep it no more.
#[test]
fn a_put_again_after_the_same_task_keeps_its_result() {
    let (queue, _, clock) = queue();
    let kept = Retention::new().count(1).age(secs(60));
    let tube = queue.create_tube("kept", TubeOptions::default().keep_finished(kept)).unwrap();
    let other = queue.tube("other").unwrap();
    let ids: Vec<_> = (0..5).map(|_| tube.put(b"p").unwrap()).collect();
    let replace = || other.task(b"c").key("k").must_exist();
    let child = other.task(b"c").key("k").after([ids[0], ids[1]]).put().unwrap();
    tube.take().unwrap().ack_with(b"result").unwrap();
    replace().after([ids[0], ids[2]]).put().unwrap();
    for _ in 1..5 {
        tube.take().unwrap().ack().unwrap();
    }
    clock.advance(secs(100));
    queue.tick().unwrap();
    assert_eq!(state(&queue, child), Some(State::Ready));
    let result = || queue.find(ids[0]).ok().and_then(|task| task.result.clone());
    for again in 0..3 {
        match again {
            0 => replace().after([ids[0]]).put().unwrap(),
            1 => replace().after_any_end([ids[0]]).put().unwrap(),
            _ => replace().put().unwrap(),
        };
        assert_eq!(result().as_deref(), Some(&b"result"[..]), "{again}");
        assert_eq!(tube.peek(ids[0]).unwrap().state, State::Done);
        assert_eq!(queue.dependencies(child).unwrap(), [ids[0]]);
        is_sound(&queue);
    }
    assert_eq!(state(&queue, ids[2]), None, "it is released");
    replace().after([]).put().unwrap();
    queue.tick().unwrap();
    assert_eq!(state(&queue, ids[0]), None);
    assert_eq!(tube.stats().unwrap().finished, 0);
    is_sound(&queue);
}

/// Edges that stay, with other terms: the new ones count.
#[test]
fn a_put_again_changes_the_terms_of_an_edge_that_stays() {
    let (queue, tube, _) = queue();
    let parents = [tube.put(b"a").unwrap(), tube.put(b"b").unwrap(), tube.put(b"c").unwrap()];
    let child = tube.task(b"c").key("k").after([parents[0], parents[1]]).put().unwrap();
    let again = tube.task(b"c").key("k").must_exist().after_failure([parents[1]]);
    again.after([parents[2]]).orphaned(Orphaned::Ignore).put().unwrap();
    assert_eq!(tube.peek(child).unwrap().dependencies.first, parents[1..]);
    let counts = || parents.map(|id| tube.peek(id).unwrap().dependents.count);
    assert_eq!(counts(), [0, 1, 1]);
    is_sound(&queue);
    tube.bury(parents[1], "no").unwrap();
    assert_eq!(tube.peek(child).unwrap().dependencies.first, parents[2..]);
    assert_eq!(counts(), [0, 0, 1]);
    tube.force_delete(parents[2]).unwrap();
    assert_eq!(state(&queue, child), Some(State::Ready));
    is_sound(&queue);
}

/// A finished task in whose place a new one is put goes with its result; those after it go on.
#[test]
fn a_finished_task_that_is_replaced_goes_also_if_others_come_after_it() {
    let (queue, _, _) = queue();
    let kept = TubeOptions::default().keep_finished(Retention::new().count(9));
    let tube = queue.create_tube("kept", kept).unwrap();
    let other = queue.tube("other").unwrap();
    let first = tube.task(b"p").key("k").put().unwrap();
    let second = tube.put(b"q").unwrap();
    let child = other.task(b"c").after([first, second]).put().unwrap();
    tube.take().unwrap().ack_with(b"result").unwrap();
    let replaced = tube.task(b"r").key("k").on_conflict(Conflict::Replace).put().unwrap();
    assert!(replaced > child);
    assert_eq!(state(&queue, first), None);
    assert_eq!(other.peek(child).unwrap().dependencies.first, [second]);
    is_sound(&queue);
    assert!(tube.complete_by_id(second).unwrap());
    other.take().unwrap().ack().unwrap();
    queue.tick().unwrap();
    is_sound(&queue);
}

/// A kick ends a delay, also that of a task that waits for others first.
#[test]
fn a_kicked_task_has_no_delay_after_its_wait() {
    let (queue, tube, _) = queue();
    let parent = tube.put(b"p").unwrap();
    let child = tube.task(b"c").after([parent]).delay(secs(30)).put().unwrap();
    let alone = tube.task(b"d").delay(secs(30)).put().unwrap();
    for id in [child, alone] {
        tube.bury(id, "no").unwrap();
        tube.kick_task(id).unwrap();
    }
    assert_eq!(state(&queue, alone), Some(State::Ready));
    assert_eq!(state(&queue, child), Some(State::Blocked));
    tube.complete_by_id(parent).unwrap();
    assert_eq!(state(&queue, child), Some(State::Ready));
    is_sound(&queue);
}

/// An end in a transaction counts for those after it once it is committed.
#[test]
fn an_end_in_a_transaction_counts_once_it_is_committed() {
    let (queue, tube, _) = queue();
    let parent = tube.put(b"p").unwrap();
    let child = tube.task(b"c").after([parent]).put().unwrap();
    let failed = tube.task(b"d").after_failure([parent]).orphaned(Orphaned::Cancel).put().unwrap();
    let task = tube.take().unwrap();
    for commits in [false, true] {
        let done = queue.transact(|tx| -> Result<(), Box<dyn Error + Send + Sync>> {
            tx.ack(&task)?;
            if commits { Ok(()) } else { Err("undone".into()) }
        });
        assert_eq!(done.is_ok(), commits);
        let expected = match commits {
            true => [Some(State::Ready), None],
            false => [Some(State::Blocked); 2],
        };
        assert_eq!([child, failed].map(|id| state(&queue, id)), expected);
        is_sound(&queue);
    }
}

/// The last step of an `undepend` found the task ready, because an end and the steps before it had
/// released it: the call was refused after it had done all that it was asked for.
#[test]
fn what_an_earlier_step_has_released_is_no_refusal_of_a_later_one() {
    let (queue, tube, _) = queue();
    let parents = tube.put_many(vec![&b"p"[..]; 300]).unwrap();
    let child = tube.task(b"c").after(parents.clone()).put().unwrap();
    for parent in &parents[256..] {
        assert!(tube.complete_by_id(*parent).unwrap());
    }
    tube.undepend(child, parents.clone()).unwrap();
    assert_eq!(state(&queue, child), Some(State::Ready));
    is_sound(&queue);
    let late = tube.undepend(child, parents.clone()).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::WrongState);
    let many = std::iter::repeat_n(parents[0], 100_001);
    assert_eq!(tube.undepend(child, many).unwrap_err().kind(), ErrorKind::Invalid);
}

/// The trash was emptied of a task that others waited for, which no delete without force does.
#[test]
fn what_others_wait_for_stays_in_the_trash() {
    let (queue, tube, _) = queue();
    let [parent, other] = [tube.put(b"p").unwrap(), tube.put(b"o").unwrap()];
    let child = tube.task(b"c").after([parent]).put().unwrap();
    tube.trash(parent, "no").unwrap();
    tube.trash(other, "no").unwrap();
    assert_eq!(tube.empty_trash().unwrap(), 1);
    assert_eq!(tube.peek(child).unwrap().dependencies.first, [parent]);
    tube.undepend_all(child).unwrap();
    assert_eq!(tube.empty_trash().unwrap(), 1);
    is_sound(&queue);
}

/// A tree was removed level by level: a task of a lower level went by the policy of another one,
/// and was not counted.
#[test]
fn a_tree_goes_from_those_on_for_which_none_waits() {
    let (queue, tube, _) = queue();
    let other = queue.tube("other").unwrap();
    let root = tube.put(b"r").unwrap();
    let late = other.task(b"c").after([root]).put().unwrap();
    let middle = tube.task(b"a").after([late]).put().unwrap();
    let last = other.task(b"b").after([root, middle]).orphaned(Orphaned::Cancel);
    last.put().unwrap();
    assert_eq!(queue.cancel_tree(root).unwrap(), 4);
    assert!(tube.is_empty().unwrap() && other.is_empty().unwrap());
    is_sound(&queue);
}

/// A move kept the delay of a blocked task that it said to end, and took one to a tube that has
/// none.
#[test]
fn a_move_says_when_a_blocked_task_becomes_ready() {
    let (queue, tube, _) = queue();
    let other = queue.tube("other").unwrap();
    let fifo = queue.create_tube("fifo", TubeOptions::new(TubeKind::Fifo)).unwrap();
    let parent = tube.put(b"p").unwrap();
    let put = || tube.task(b"c").after([parent]).delay(secs(60)).put().unwrap();
    let (kept, ended, plain) = (put(), put(), put());
    tube.move_to(kept, &other).apply().unwrap();
    tube.move_to(ended, &other).delay(secs(0)).apply().unwrap();
    tube.move_to(plain, &fifo).apply().unwrap();
    assert!(tube.complete_by_id(parent).unwrap());
    let states = [kept, ended, plain].map(|id| state(&queue, id).unwrap());
    assert_eq!(states, [State::Delayed, State::Ready, State::Ready]);
    is_sound(&queue);
}

/// What a transaction puts may come after what it puts, and after what it ends.
#[test]
fn a_transaction_puts_tasks_after_others() {
    let (queue, tube, _) = queue();
    let other = queue.tube("other").unwrap();
    let done = tube.put(b"done").unwrap();
    let held = tube.take().unwrap();
    let moved = tube.put(b"moved").unwrap();
    tube.move_to(moved, &other).apply().unwrap();
    let (first, second) = queue
        .transact(|tx| {
            let first = tube.put_in(tx, b"first")?;
            let second = other.task(b"second").after([first, done, moved]).put_in(tx)?;
            tx.ack(&held)?;
            Ok::<_, tubewell::Error>((first, second))
        })
        .unwrap();
    assert_eq!(tube.peek(first).unwrap().dependents.first, [second]);
    assert_eq!(other.peek(second).unwrap().dependencies.first, [moved, first]);
    is_sound(&queue);
    assert!(tube.complete_by_id(first).unwrap());
    assert!(other.complete_by_id(moved).unwrap());
    assert_eq!(state(&queue, second), Some(State::Ready));

    // One that is not committed leaves no edge.
    let root = tube.put(b"root").unwrap();
    let refused: tubewell::Result<()> = queue.transact(|tx| {
        tube.task(b"c").after([root]).put_in(tx).unwrap();
        Err("no")
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Rejected);
    assert_eq!(tube.peek(root).unwrap().dependents.count, 0);
    let refused = queue.transact(|tx| {
        let missing = tube.task(b"c").after([TaskId::new(1 << 40)]).put_in(tx).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::TaskNotFound);
        let many = tube.task(b"c").after(vec![root; 257].into_iter().chain([done])).put_in(tx);
        assert!(many.is_ok(), "one id counts once");
        Err::<(), _>("no")
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Rejected);
    is_sound(&queue);
}

/// In one step, also of a task that is put again there.
#[test]
fn a_transaction_puts_tasks_after_thousands() {
    let (queue, tube, _) = queue();
    let parents = tube.put_many(vec![&b"p"[..]; 10_000]).unwrap();
    let next = queue.tube("next").unwrap();
    let child = next.task(b"c").key("k").after(parents[..300].iter().copied()).put().unwrap();
    let again = |tasks: &[TaskId]| {
        let again = next.task(b"c").key("k").on_conflict(Conflict::Replace);
        again.after(tasks.iter().copied())
    };
    assert_eq!(kind(again(&parents[..300]).put()), ErrorKind::Invalid);
    assert_eq!(kind(again(&[]).put()), ErrorKind::TooLarge);
    let done = queue.transact(|tx| {
        assert_eq!(again(&parents).put_in(tx).unwrap(), child);
        next.task(b"d").after(parents.iter().copied()).put_in(tx)
    });
    let other = done.unwrap();
    let refused = queue.transact(|tx| {
        let more = parents.iter().copied().chain([child]);
        let refused = next.task(b"e").after(more).put_in(tx).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        Err::<(), _>("no")
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Rejected);
    let counts = [child, other].map(|id| next.peek(id).unwrap().dependencies.count);
    assert_eq!(counts, [10_000; 2]);
    parents.iter().for_each(|id| assert!(tube.complete_by_id(*id).unwrap()));
    assert_eq!([next.take().unwrap().id(), next.take().unwrap().id()], [child, other]);
    is_sound(&queue);
}

/// A new task with a key is put in turns, as one without; one that its key finds is left as it is.
#[test]
fn a_put_with_a_key_after_many() {
    let (queue, tube, _) = queue();
    let parents = tube.put_many(vec![&b"p"[..]; 600]).unwrap();
    let put = || tube.task(b"c").key("k").after(parents.iter().copied());
    let child = put().put().unwrap();
    assert_eq!(tube.peek(child).unwrap().dependencies.count, 600);
    let outcome = put().put_outcome().unwrap();
    assert_eq!((outcome.id, outcome.outcome), (child, PutOutcome::Existing));
    let rejected = put().on_conflict(Conflict::Reject).put();
    assert_eq!(kind(rejected), ErrorKind::KeyExists);
    assert_eq!(kind(put().on_conflict(Conflict::Replace).put()), ErrorKind::Invalid);
    assert_eq!(kind(put().on_conflict(Conflict::Debounce).put()), ErrorKind::Invalid);
    // One id that is given many times is one.
    let again = tube.task(b"c").key("k").on_conflict(Conflict::Replace).after([parents[0]; 300]);
    assert_eq!(kind(again.put()), ErrorKind::TooLarge, "it replaces 600");
    let single = tube.task(b"c").key("single").after([parents[0]; 300]).put().unwrap();
    assert_eq!(tube.peek(single).unwrap().dependencies.count, 1);
    let again = tube.task(b"c").key("single").on_conflict(Conflict::Replace);
    assert_eq!(again.after([parents[1]; 300]).put().unwrap(), single);
    let missing = tube.task(b"c").key("other").on_conflict(Conflict::Replace).must_exist();
    assert_eq!(kind(missing.after(parents.iter().copied()).put()), ErrorKind::TaskNotFound);
    is_sound(&queue);
    parents.iter().for_each(|id| assert!(tube.complete_by_id(*id).unwrap()));
    let ids = [tube.take().unwrap().id(), tube.take().unwrap().id()];
    assert_eq!(ids, [child, single]);
    is_sound(&queue);
}

/// The lock of a transaction is held while it looks for the tasks.
#[test]
fn a_transaction_looks_for_tasks_in_so_many_tubes() {
    let (queue, tube, _) = queue();
    let gone = tube.put_many(vec![&b"p"[..]; 700]).unwrap();
    assert_eq!(tube.delete_many(&gone).unwrap(), 700);
    for number in 0..100 {
        queue.tube(&format!("t{number}")).unwrap().put(b"x").unwrap();
    }
    let put = |ids: &[TaskId]| {
        queue.transact(|tx| tube.task(b"c").after(ids.iter().copied()).put_in(tx).map(drop))
    };
    put(&gone[..600]).unwrap();
    let refused = put(&gone).unwrap_err().into_source().unwrap();
    let refused = refused.downcast_ref::<tubewell::Error>().unwrap();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    tube.task(b"c").after(gone).put().unwrap();
    assert_eq!(tube.stats().unwrap().ready, 2);

    // Its own tube, and the one of the last search, come before all others.
    let late = queue.tube("late").unwrap();
    let there = late.put_many(vec![&b"p"[..]; 10_000]).unwrap();
    let put = |to: &Tube| {
        queue.transact(|tx| to.task(b"c").after(there.clone()).put_in(tx).map(drop)).unwrap();
    };
    put(&late);
    queue.find(there[0]).unwrap();
    put(&tube);
    assert_eq!(late.stats().unwrap().blocked + tube.stats().unwrap().blocked, 2);
}

/// The terms that a put has, where edges are added to a task and where its next step gets some.
#[test]
fn edges_are_added_on_any_terms() {
    let (queue, tube, _) = queue();
    let next = queue.tube("next").unwrap();
    let [root, good, bad, gone] = [b"r", b"g", b"b", b"x"].map(|it| tube.put(it).unwrap());
    let unknown = TaskId::new(1 << 40);
    let child = tube.task(b"c").after([root]).put().unwrap();

    let both_ways = After::new().success([good]).failure([good]);
    assert_eq!(kind(tube.depend(child, both_ways)), ErrorKind::Invalid);
    tube.depend(child, After::new().success([unknown]).missing(Missing::Ignore)).unwrap();
    let terms = After::new().failure([bad]).any_end([gone]).orphaned(Orphaned::Ignore);
    tube.depend(child, terms.success([good])).unwrap();
    assert_eq!(tube.peek(child).unwrap().dependencies.first, [root, good, bad, gone]);
    tube.bury(bad, "it waits for that").unwrap();
    tube.force_delete(gone).unwrap();
    tube.force_delete(good).unwrap();
    assert_eq!(tube.peek(child).unwrap().dependencies.first, [root], "an ignored end frees it");
    tube.depend(child, After::new().failure([good]).orphaned(Orphaned::Cancel)).unwrap();
    assert_eq!(state(&queue, child), None, "the other one can fail no more");
    is_sound(&queue);

    let ids = [(); 3].map(|()| next.put(b"a step").unwrap());
    let [on_failure, cancelled, free] = ids;
    let advance = |id, after: After| {
        let mut task = next.claim(id).unwrap();
        task.advance_with(&next, Advance::new().after(after)).unwrap();
    };
    advance(on_failure, After::new().failure([root]));
    advance(cancelled, After::new().success([bad]).orphaned(Orphaned::Cancel));
    advance(free, After::new().success([unknown]).missing(Missing::Ignore));
    assert_eq!(state(&queue, on_failure), Some(State::Blocked));
    assert_eq!(state(&queue, cancelled), None);
    assert_eq!(state(&queue, free), Some(State::Ready));
    tube.bury(root, "it fails").unwrap();
    assert_eq!(state(&queue, on_failure), Some(State::Ready));
    is_sound(&queue);
}

/// Regression: the step after the one that removes the task found none.
#[test]
fn a_task_that_is_cancelled_by_many_edges_is_gone() {
    let (queue, tube, _) = queue();
    let parents = tube.put_many(vec![&b"p"[..]; 300]).unwrap();
    tube.bury(parents[0], "no").unwrap();
    let child = tube.task(b"c").after([parents[1]]).put().unwrap();
    let terms = After::from(&parents).orphaned(Orphaned::Cancel);
    tube.depend(child, terms).unwrap();
    assert_eq!(state(&queue, child), None);
    is_sound(&queue);
}

/// The next step of a task waits for others; a refusal leaves the task with its holder.
#[test]
fn the_next_step_of_a_task_may_wait_for_others() {
    let (queue, tube, _) = queue();
    let next = queue.tube("next").unwrap();
    let earlier = tube.put(b"earlier").unwrap();
    assert!(tube.complete_by_id(earlier).unwrap());
    let id = tube.task(b"step").after([earlier]).put().unwrap();
    let mut task = tube.take().unwrap();
    let [first, second] = [tube.put(b"a").unwrap(), tube.put(b"b").unwrap()];
    let later = tube.task(b"later").after([id]).put().unwrap();
    for (after, kind) in [
        (vec![TaskId::new(1 << 40)], ErrorKind::TaskNotFound),
        (vec![id], ErrorKind::Cycle),
        (vec![later], ErrorKind::Cycle),
        ((1..=257).map(TaskId::new).collect(), ErrorKind::Invalid),
    ] {
        let refused = task.advance_with(&next, Advance::new().after(&after)).unwrap_err();
        assert_eq!((refused.kind(), state(&queue, id)), (kind, Some(State::Taken)));
    }
    let both = [first, second];
    let terms = Advance::new().after(both).delay(secs(60)).result(b"r");
    task.advance_with(&next, terms).unwrap();
    let step = next.peek(id).unwrap();
    assert_eq!((step.state, step.dependencies.count), (State::Blocked, 2));
    assert_eq!(state(&queue, later), Some(State::Blocked), "an advance is no end");
    is_sound(&queue);
    assert!(tube.complete_by_id(first).unwrap());
    assert!(tube.complete_by_id(second).unwrap());
    assert_eq!(state(&queue, id), Some(State::Delayed));
    assert!(next.complete_by_id(id).unwrap());
    assert_eq!(state(&queue, later), Some(State::Ready));
    is_sound(&queue);
}
