//! The application's tables and the queue's verbs in one commit: exactly once, or not at all.

use crate::{
    close_sound, counts, drain, home, is_gone, killed, kind, last_error, lone, next, ok, open,
    secs, still,
};
use redb::TableDefinition;
use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use tubewell::{
    Advance, Cause, Clock, Conflict, Error, ErrorKind, ManualClock, Queue, Reason, Release, Result,
    State, Tube, TubeOptions, Unique,
};

pub const DONE: TableDefinition<&str, u64> = TableDefinition::new("done");

fn queue() -> (Queue, Tube) {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube)
}

fn done(queue: &Queue, name: &str) -> Option<u64> {
    let read = queue.read(|r| ok(r.table(DONE)?.get(name)?.map(|row| row.value())));
    match read {
        Ok(done) => done,
        // Before the first write there is no table.
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Rejected);
            None
        }
    }
}

pub fn note(queue: &Queue, name: &str, value: u64) -> Result<()> {
    queue.transact(|tx| {
        tx.table(DONE)?.insert(name, value)?;
        ok(())
    })
}

#[test]
fn an_advance_and_what_the_step_found_are_one_commit() {
    let (_home, path) = home();
    let queue = open(&path);
    let (tube, parse) = (queue.tube("t").unwrap(), queue.tube("parse").unwrap());
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    let refused = queue.transact(|tx| -> Result<(), Box<dyn StdError + Send + Sync>> {
        tx.table(DONE)?.insert("a", 1)?;
        tx.advance(&task, &parse)?;
        Err("no".into())
    });
    assert_eq!(kind(refused), ErrorKind::Rejected);
    assert_eq!((tube.peek(id).unwrap().state, done(&queue, "a")), (State::Taken, None));
    let terms = || Advance::new().result(b"html").priority(-1);
    queue
        .transact(|tx| {
            tx.table(DONE)?.insert("a", 1)?;
            tx.advance_with(&task, &parse, terms())
        })
        .unwrap();

    let (_copy, copy) = killed(&path);
    let after = open(&copy);
    assert_eq!(done(&after, "a"), Some(1));
    let step = after.tube("parse").unwrap().take().unwrap();
    assert_eq!((step.id(), step.priority(), step.deliveries()), (id, -1, 2));
    assert_eq!(step.passed().unwrap().as_deref(), Some(&b"html"[..]));
    assert!(tube.is_empty().unwrap());
    drop(task);
    assert_eq!(parse.peek(id).unwrap().state, State::Ready, "its guard holds nothing any more");
}

#[test]
fn an_advance_in_a_transaction_may_come_after_what_that_puts() {
    let (queue, tube) = queue();
    let next_tube = queue.tube("next").unwrap();
    let whole = tube.put(b"whole").unwrap();
    let task = tube.take().unwrap();
    let part = queue
        .transact(|tx| {
            let part = next_tube.put_in(tx, b"part")?;
            tx.advance_with(&task, &next_tube, Advance::new().after([part]))?;
            ok(part)
        })
        .unwrap();
    assert_eq!(next_tube.peek(whole).unwrap().state, State::Blocked);
    let first = next_tube.take().unwrap();
    assert_eq!(first.id(), part);
    first.ack().unwrap();
    assert_eq!(next_tube.take().unwrap().id(), whole);
}

/// Regression: a put or an advance after a task wrote its row, with one more edge, as it was before
/// the work that is due in its tube. That work went in a commit of its own before a later verb
/// there, and the transaction brought the row back: the task stood in two states.
#[test]
fn what_is_due_where_an_earlier_task_is_joins_the_transaction() {
    for is_advance in [false, true] {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        let tube = |name| queue.tube(name).unwrap();
        let (tube, next_tube, of_earlier) = (tube("t"), tube("next"), tube("earlier"));
        let earlier = of_earlier.task(b"e").delay(secs(1)).put().unwrap();
        tube.put(b"step").unwrap();
        let task = tube.take().unwrap();
        clock.advance(secs(2));
        let beside = queue.transact(|tx| {
            match is_advance {
                true => tx.advance_with(&task, &next_tube, Advance::new().after([earlier]))?,
                false => _ = next_tube.task(b"later").after([earlier]).put_in(tx)?,
            }
            of_earlier.put_in(tx, b"beside")
        });
        let beside = beside.unwrap();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        assert_eq!((counts(&of_earlier), next_tube.stats().unwrap().blocked), ([2, 0, 0, 0], 1));
        let taken = of_earlier.take_many(9).unwrap();
        assert_eq!(taken.iter().map(|task| task.id()).collect::<Vec<_>>(), [earlier, beside]);
        assert!(next_tube.try_take().unwrap().is_none());
        of_earlier.ack_many(taken).unwrap();
        assert!(next_tube.try_take().unwrap().is_some());
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    }
}

/// What a verb of the transaction decides and what is due in the tube of a later one.
type Scene = fn(&Queue, &ManualClock);

/// Regression: a verb decided on rows of another tube than its own, or of the queue, and the work
/// that was due in the tube of a later verb wrote the same rows in a commit of its own, which the
/// transaction then overwrote: tasks stood in two states, were removed twice or stood nowhere.
#[test]
fn due_work_joins_a_transaction_that_has_decided_on_its_rows() {
    let scenes: [(&str, Scene); 4] = [
        ("a put again gives up an edge", |queue, clock| {
            let (of_earlier, tube) = (queue.tube("earlier").unwrap(), queue.tube("t").unwrap());
            let earlier = of_earlier.task(b"e").delay(secs(1)).put().unwrap();
            let other = tube.put(b"other").unwrap();
            tube.task(b"k").key("k").after([earlier]).put().unwrap();
            clock.advance(secs(2));
            let again = || tube.task(b"k").key("k").on_conflict(Conflict::Replace).after([other]);
            queue.transact(|tx| again().put_in(tx).and(of_earlier.put_in(tx, b"x"))).unwrap();
            assert_eq!(counts(&of_earlier), [2, 0, 0, 0]);
        }),
        ("a put again brings a key from another tube", |queue, clock| {
            let options = || TubeOptions::default().unique(Unique::new().in_queue(true));
            let [from, to] = ["from", "to"].map(|name| queue.create_tube(name, options()).unwrap());
            from.task(b"k").key("k").delay(secs(1)).put().unwrap();
            clock.advance(secs(2));
            let again = || to.task(b"k").key("k").on_conflict(Conflict::Replace);
            queue.transact(|tx| again().put_in(tx).and(from.put_in(tx, b"x"))).unwrap();
            assert_eq!(counts(&from)[0], 1);
            assert_eq!(to.len().unwrap(), 1);
        }),
        ("a task in hand is in a tube that took over its own", |queue, clock| {
            let (from, to) = (queue.tube("from").unwrap(), queue.tube("to").unwrap());
            from.task(b"t").group("g").put().unwrap();
            let task = from.take().unwrap();
            queue.merge("from", "to").unwrap();
            to.task(b"u").group("g").delay(secs(1)).put().unwrap();
            clock.advance(secs(2));
            queue.transact(|tx| tx.ack(&task).and(to.put_in(tx, b"x"))).unwrap();
            assert_eq!(to.take_many(9).unwrap().len(), 2);
        }),
        ("a tag is counted", |queue, clock| {
            let (one, other) = (queue.tube("one").unwrap(), queue.tube("other").unwrap());
            other.task(b"b").tag("x").ttl(secs(1)).put().unwrap();
            other.task(b"c").tag("x").put().unwrap();
            clock.advance(secs(2));
            let tagged = || one.task(b"a").tag("x");
            queue.transact(|tx| tagged().put_in(tx).and(other.put_in(tx, b"x"))).unwrap();
            assert_eq!(queue.tag_count("x").unwrap(), 2);
        }),
    ];
    for (name, scene) in scenes {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        scene(&queue, &clock);
        assert_eq!(queue.check().unwrap(), Vec::<String>::new(), "{name}");
        let tubes = queue.tubes().unwrap();
        let takes = queue.tubes_of(&tubes).unwrap();
        while let Some(task) = takes.try_take().unwrap() {
            task.ack().unwrap();
        }
        assert_eq!(queue.check().unwrap(), Vec::<String>::new(), "{name}");
    }
}

/// Regression: a verb had found no task that counts for a key, and what then became due in another
/// tube brought one, in a commit of its own. A later verb did not see it, and two tasks of one key
/// counted.
#[test]
fn a_transaction_sees_what_its_due_work_has_brought() {
    for looks_before in [false, true] {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        let options = || TubeOptions::default().unique(Unique::new().in_queue(true).delayed(false));
        let [a, b] = ["a", "b"].map(|name| queue.create_tube(name, options()).unwrap());
        let task = |of: usize| [&a, &b][of].task(b"k").key("k").on_conflict(Conflict::Reject);
        // It does not count yet, so another one may have the key.
        let delayed = task(1).delay(secs(1)).put().unwrap();
        task(0).put().unwrap();
        let held = a.take().unwrap();
        clock.advance(secs(1));
        let refused = queue.transact(|tx| {
            tx.ack(&held)?;
            if looks_before {
                task(0).delay(secs(9)).put_in(tx)?;
            }
            task(1).put_in(tx)
        });
        let refused = refused.unwrap_err().into_source().unwrap().downcast::<Error>().unwrap();
        assert_eq!((refused.kind(), refused.task()), (ErrorKind::KeyExists, Some(delayed)));
        assert_eq!((b.len().unwrap(), queue.check().unwrap()), (1, Vec::new()));
    }
}

/// What is due in the next tube makes room there, as it does for an advance by itself.
#[test]
fn an_advance_in_a_transaction_is_refused_as_one_by_itself() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let small = queue.create_tube("small", TubeOptions::default().capacity(1)).unwrap();
    small.task(b"there").ttl(secs(9)).put().unwrap();
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    let advance = || queue.transact(|tx| tx.advance(&task, &small));
    let cause = |done: Result<()>| {
        let error = done.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        error.into_source().unwrap().downcast::<Error>().unwrap().kind()
    };
    assert_eq!(cause(advance()), ErrorKind::Full);
    let other = still().0.in_memory().unwrap().tube("small").unwrap();
    let elsewhere = queue.transact(|tx| tx.advance(&task, &other));
    assert_eq!(cause(elsewhere), ErrorKind::Invalid);
    let foreign = other.put(b"foreign").and_then(|_| other.take()).unwrap();
    let elsewhere = queue.transact(|tx| tx.advance(&foreign, &other));
    assert_eq!(cause(elsewhere), ErrorKind::Invalid);
    assert_eq!(tube.peek(id).unwrap().state, State::Taken);
    clock.advance(secs(9));
    advance().unwrap();
    assert_eq!((small.take().unwrap().id(), tube.len().unwrap()), (id, 0));
}

#[test]
fn an_ack_its_result_and_the_follow_up_are_one_commit() {
    let (_home, path) = home();
    let queue = open(&path);
    let (tube, next_tube) = (queue.tube("t").unwrap(), queue.tube("next").unwrap());
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    let follow_up = queue
        .transact(|tx| {
            tx.table(DONE)?.insert("a", 1)?;
            tx.ack(&task)?;
            next_tube.put_in(tx, b"b")
        })
        .unwrap();

    let (_copy, copy) = killed(&path);
    let after = open(&copy);
    assert_eq!(done(&after, "a"), Some(1));
    assert!(is_gone(&after.tube("t").unwrap(), id));
    assert_eq!(after.tube("next").unwrap().take().unwrap().id(), follow_up);
    assert!(is_gone(&tube, id));
    assert_eq!(next(&next_tube), "b");
    drop(task);
    close_sound(queue);
}

#[test]
fn an_error_of_the_closure_undoes_all_and_is_returned() {
    let (queue, tube) = queue();
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    let refused = queue.transact(|tx| {
        tx.table(DONE)?.insert("a", 1)?;
        tx.ack(&task)?;
        tube.put_in(tx, b"b")?;
        Err::<(), Box<dyn std::error::Error + Send + Sync>>("changed my mind".into())
    });
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected);
    assert_eq!(refused.into_source().unwrap().to_string(), "changed my mind");
    assert_eq!((done(&queue, "a"), counts(&tube)), (None, [0, 0, 1, 0]));
    task.ack().unwrap();
}

#[test]
fn a_panic_undoes_all_and_goes_on() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        queue.transact(|tx| -> Result<()> {
            tx.table(DONE)?.insert("a", 1)?;
            tx.ack(&task)?;
            std::panic::resume_unwind(Box::new("a panic of the closure"));
        })
    }));
    let trouble = panicked.unwrap_err();
    assert_eq!(trouble.downcast_ref(), Some(&"a panic of the closure"));
    assert_eq!(done(&queue, "a"), None);
    task.ack().unwrap();
    note(&queue, "b", 2).unwrap();
    close_sound(queue);
    drop(tube);
    assert_eq!(done(&open(&path), "b"), Some(2));
}

#[test]
fn a_guard_dropped_inside_returns_its_task_afterwards() {
    let (queue, tube) = queue();
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    queue
        .transact(|tx| {
            drop(task);
            tx.table(DONE)?.insert("a", 1)?;
            ok(())
        })
        .unwrap();
    assert_eq!(tube.peek(id).unwrap().attempts, 1);
    assert_eq!(next(&tube), "a");
}

#[test]
fn a_guard_acked_inside_and_dropped_inside_stays_acked() {
    let (queue, tube) = queue();
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    queue
        .transact(|tx| {
            tx.ack(&task)?;
            drop(task);
            ok(())
        })
        .unwrap();
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn a_consumer_dropped_inside_leaves_afterwards() {
    let (queue, tube) = queue();
    tube.put(b"a").unwrap();
    let ada = queue.consumer("ada").unwrap();
    tube.by(&ada).take().unwrap().detach();
    queue
        .transact(|_| {
            drop(ada);
            ok(())
        })
        .unwrap();
    assert_eq!(drain(&tube), "a");
}

#[test]
fn every_verdict_can_be_given_inside() {
    let (queue, tube) = queue();
    for text in ["acked", "released", "retried", "buried", "later", "failed", "waits"] {
        tube.put(text.as_bytes()).unwrap();
    }
    let tasks = tube.take_many(7).unwrap();
    queue
        .transact(|tx| {
            tx.ack(&tasks[0])?;
            tx.release(&tasks[1])?;
            tx.retry(&tasks[2], "no")?;
            tx.bury(&tasks[3], "no")?;
            tx.release_with(&tasks[4], Release::new().delay(secs(9)))?;
            tx.fail(&tasks[5], "net", "no")?;
            tx.retry_after(&tasks[6], "no", secs(9))
        })
        .unwrap();
    assert_eq!(counts(&tube), [1, 3, 0, 2]);
    drop(tasks);
    assert_eq!(counts(&tube), [1, 3, 0, 2], "the guards have no tasks any more");
}

#[test]
fn a_failure_inside_keeps_its_reason_its_wait_and_its_attempt() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().max_attempts(2)).unwrap();
    let (failed, busy) = (tube.put(b"failed").unwrap(), tube.put(b"busy").unwrap());
    let tasks = tube.take_many(2).unwrap();
    queue
        .transact(|tx| {
            tx.fail(&tasks[0], "address", "no such street")?;
            tx.retry_after(&tasks[1], "the server is busy", secs(60))
        })
        .unwrap();
    let task = tube.peek(failed).unwrap();
    let (group, message) = ("address".into(), "no such street".into());
    assert_eq!(task.reason, Some(Reason::Failed { group, message }));
    assert_eq!((task.state, task.attempts, task.buries), (State::Buried, 1, 1));

    let task = tube.peek(busy).unwrap();
    assert_eq!((task.state, task.attempts, task.releases), (State::Delayed, 1, 0));
    assert_eq!(last_error(&task), Some("the server is busy"));
    assert_eq!(task.due, Some(clock.wall() + secs(60)), "not the tube's back-off of a second");
    clock.advance(secs(59));
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(secs(1));
    let task = tube.take().unwrap();
    assert_eq!((task.id(), task.attempt()), (busy, 2));
    queue.transact(|tx| tx.retry_after(&task, "still busy", secs(60))).unwrap();
    let task = tube.peek(busy).unwrap();
    let (group, message) = ("failed-retries-t".into(), "still busy".into());
    let reason = Reason::Exhausted { group, message };
    assert_eq!(
        (task.state, task.summary.reason),
        (State::Buried, Some(reason)),
        "its last attempt"
    );
}

#[test]
fn a_second_verdict_inside_finds_the_lease_lost() {
    let (queue, tube) = queue();
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    queue
        .transact(|tx| {
            tx.ack(&task)?;
            assert_eq!(kind(tx.release(&task)), ErrorKind::LeaseLost);
            ok(())
        })
        .unwrap();
    assert_eq!(tube.len().unwrap(), 0, "what was refused undid nothing");
}

#[test]
fn verbs_inside_see_each_other() {
    let (queue, tube) = queue();
    let (first, second) = queue
        .transact(|tx| {
            let first = tube.task(b"a").key("k").put_in(tx)?;
            ok((first, tube.task(b"b").key("k").put_in(tx)?))
        })
        .unwrap();
    assert_eq!(first, second);
    assert_eq!(drain(&tube), "a");
}

/// The work before each later verb ended the pause again, with one more event.
#[test]
fn a_pause_that_ends_inside_ends_once() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.pause_for(secs(5)).unwrap();
    let events = queue.events();
    queue
        .transact(|tx| {
            tx.put(&tube, b"a")?;
            clock.advance(secs(5));
            tx.put(&tube, b"b")?;
            tx.put(&tube, b"c")
        })
        .unwrap();
    let causes: Vec<_> =
        std::iter::from_fn(|| events.try_recv()).map(|event| event.cause).collect();
    assert_eq!(causes.iter().filter(|cause| **cause == Cause::Resume).count(), 1, "{causes:?}");
    assert_eq!(causes.iter().filter(|cause| **cause == Cause::Put).count(), 3);
    assert_eq!(drain(&tube), "a b c");
}

#[test]
fn a_put_inside_has_every_option() {
    let (queue, tube) = queue();
    queue
        .transact(|tx| {
            tube.task(b"later").delay(secs(5)).ttl(secs(9)).put_in(tx)?;
            tube.task(b"b").group("g").put_in(tx)?;
            tube.task(b"a").priority(-1).put_in(tx)?;
            tx.put(&tube, b"c")
        })
        .unwrap();
    assert_eq!(counts(&tube), [3, 1, 0, 0]);
    assert_eq!(drain(&tube), "a b c");
}

#[test]
fn a_refused_put_inside_does_not_end_the_transaction() {
    let (queue, tube) = queue();
    queue
        .transact(|tx| {
            assert_eq!(kind(tube.task(b"a").ttl(secs(0)).put_in(tx)), ErrorKind::Invalid);
            tube.put_in(tx, b"b").map(drop)
        })
        .unwrap();
    assert_eq!(drain(&tube), "b");
}

#[test]
fn tasks_and_tubes_of_another_queue_are_refused() {
    let (queue, _) = queue();
    let (stranger, _) = lone();
    stranger.put(b"a").unwrap();
    let task = stranger.take().unwrap();
    queue
        .transact(|tx| {
            assert_eq!(kind(tx.ack(&task)), ErrorKind::Invalid);
            assert_eq!(kind(stranger.put_in(tx, b"b")), ErrorKind::Invalid);
            ok(())
        })
        .unwrap();
    task.ack().unwrap();
}

#[test]
fn the_queues_own_tables_cannot_be_opened() {
    const RAW: TableDefinition<&[u8], &[u8]> = TableDefinition::new("tubewell.rows");
    const OTHER: TableDefinition<u8, u8> = TableDefinition::new("done");
    let (queue, _) = queue();
    queue
        .transact(|tx| {
            assert_eq!(kind(tx.table(RAW).map(drop)), ErrorKind::Invalid);
            tx.table(DONE)?.insert("a", 1)?;
            assert_eq!(kind(tx.table(OTHER).map(drop)), ErrorKind::Invalid, "of other types");
            let open = tx.table(DONE)?;
            assert_eq!(kind(tx.table(DONE).map(drop)), ErrorKind::Invalid, "open already");
            drop(open);
            ok(())
        })
        .unwrap();
    queue
        .read(|r| {
            assert_eq!(kind(r.table(RAW).map(drop)), ErrorKind::Invalid);
            const NONE: TableDefinition<u8, u8> = TableDefinition::new("none");
            assert_eq!(kind(r.table(NONE).map(drop)), ErrorKind::Invalid);
            ok(())
        })
        .unwrap();
}

#[test]
fn a_read_sees_one_instant() {
    let (queue, tube) = queue();
    note(&queue, "a", 1).unwrap();
    queue
        .read(|r| {
            let table = r.table(DONE)?;
            thread::scope(|scope| {
                let write = scope.spawn(|| note(&queue, "a", 2));
                write.join().unwrap()
            })?;
            tube.put(b"a plain verb inside a read is nothing special")?;
            assert_eq!(table.get("a")?.unwrap().value(), 1);
            ok(())
        })
        .unwrap();
    assert_eq!(done(&queue, "a"), Some(2));
}

#[test]
fn an_error_of_a_read_is_returned() {
    let (queue, _) = queue();
    let refused = queue.read(|_| Err::<(), _>("not now")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected);
    assert_eq!(refused.into_source().unwrap().to_string(), "not now");
}

#[test]
fn a_commit_wakes_waiters_for_its_puts() {
    let (queue, tube) = queue();
    let taker = thread::spawn({
        let tube = tube.clone();
        move || next_waiting(&tube)
    });
    crate::until_waiting(&tube, 1);
    queue.transact(|tx| tube.put_in(tx, b"a")).unwrap();
    assert_eq!(taker.join().unwrap(), b"a");
}

fn next_waiting(tube: &Tube) -> Vec<u8> {
    let task = tube.take().unwrap();
    let payload = task.to_vec();
    task.ack().unwrap();
    payload
}

#[test]
fn a_batch_of_acks_is_one_transaction() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    tube.put_many((0..1000).map(|_| b"x".to_vec())).unwrap();
    while !tube.is_empty().unwrap() {
        let tasks = tube.take_many(100).unwrap();
        queue
            .transact(|tx| {
                for task in &tasks {
                    tx.table(DONE)?.insert(&*task.id().to_string(), 1)?;
                    tx.ack(task)?;
                }
                ok(())
            })
            .unwrap();
    }
    let count = |r: &tubewell::Reading| {
        use redb::ReadableTableMetadata;
        ok(r.table(DONE)?.len()?)
    };
    assert_eq!(queue.read(count).unwrap(), 1000);
    close_sound(queue);
}

#[test]
fn a_temporary_tubes_tasks_take_part() {
    let (queue, _) = queue();
    let tube = queue.create_tube("temporary", TubeOptions::default().temporary(true)).unwrap();
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    let undone: Result<()> = queue.transact(|tx| {
        tx.ack(&task)?;
        tube.put_in(tx, b"b")?;
        Err(Box::<dyn std::error::Error + Send + Sync>::from("no"))
    });
    assert_eq!(kind(undone), ErrorKind::Rejected);
    assert_eq!(counts(&tube), [0, 0, 1, 0]);
    queue
        .transact(|tx| {
            tx.ack(&task)?;
            tube.put_in(tx, b"b")
        })
        .unwrap();
    assert_eq!(drain(&tube), "b");
}

#[test]
fn the_closures_error_may_be_the_librarys_own() {
    let (queue, tube) = queue();
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    tube.delete(task.id()).unwrap();
    let refused = queue.transact(|tx| tx.ack(&task)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected);
    let source = refused.into_source().unwrap();
    assert!(source.downcast_ref::<Error>().unwrap().is_lease_lost());
}

#[test]
fn a_lease_that_lapsed_before_is_lost_inside() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.task(b"a").ttr(secs(1)).put().unwrap();
    let task = tube.take().unwrap();
    clock.advance(secs(1));
    let inside = queue.transact(|tx| {
        assert!(tx.ack(&task).unwrap_err().is_lease_lost());
        ok(())
    });
    inside.unwrap();
    assert_eq!(tube.peek(id).unwrap().state, State::Ready);
}
