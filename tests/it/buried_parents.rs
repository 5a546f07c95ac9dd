//! What a bury means to the tasks that come after it, and what it does not mean once the task is at
//! work again.

use crate::still;
use tubewell::{After, Conflict, Orphaned, State, TubeOptions};

/// Regression: the work that a bury had left reached edges which were made after the kick, of tasks
/// that were put before the bury. It removed a task whose parent was ready, or let it run too
/// early.
#[test]
fn a_bury_does_not_reach_those_that_come_after_the_task_since_its_kick() {
    for orphaned in [Orphaned::Hold, Orphaned::Cancel] {
        let queue = still().0.in_memory().unwrap();
        let tube = queue.create_tube("t", TubeOptions::default().max_attempts(1)).unwrap();
        let parent = tube.put(b"p").unwrap();
        let root = tube.put(b"r").unwrap();
        let first = tube.task(b"a").after_any_end([parent]).put().unwrap();
        let later = tube.task(b"c").after([root]).put().unwrap();
        // The end of the session buries it, and leaves the work on that to the timer.
        let bob = queue.consumer("bob").unwrap();
        let _ticket = tube.by(&bob).claim(parent).unwrap().detach();
        bob.close().unwrap();
        assert_eq!(tube.peek(parent).unwrap().state, State::Buried);
        tube.kick_task(parent).unwrap();
        assert_eq!(tube.peek(parent).unwrap().state, State::Ready);
        let terms = match orphaned {
            Orphaned::Hold => After::new().any_end([parent]),
            _ => After::new().success([parent]).orphaned(orphaned),
        };
        tube.depend(later, terms).unwrap();
        queue.tick().unwrap();
        assert_eq!(tube.peek(first).unwrap().state, State::Ready, "it came after the bury");
        let seen = tube.peek(later).expect("it is there: the task before it has not failed since");
        assert_eq!((seen.state, seen.dependencies.count), (State::Blocked, 2));
        tube.complete_by_id(root).unwrap();
        assert_eq!(tube.peek(later).unwrap().state, State::Blocked, "it waits for {parent}");
        tube.complete_by_id(parent).unwrap();
        assert_eq!(tube.peek(later).unwrap().state, State::Ready);
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }
}

/// Regression: the same in one call, as a transaction works off its ends after its commit.
#[test]
fn a_bury_in_a_transaction_does_not_reach_what_the_transaction_puts_again_later() {
    for cancels in [false, true] {
        let queue = still().0.in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        let parent = tube.task(b"p").key("p").put().unwrap();
        let first = tube.task(b"a").after_any_end([parent]).put().unwrap();
        let later = tube.task(b"c").key("c").put().unwrap();
        let task = tube.claim(parent).unwrap();
        queue
            .transact(|tx| -> tubewell::Result<()> {
                tx.bury(&task, "no")?;
                let again = tube.task(b"p2").key("p").on_conflict(Conflict::Replace);
                assert_eq!(again.put_in(tx)?, parent);
                let again = tube.task(b"c2").key("c").on_conflict(Conflict::Replace);
                let again = match cancels {
                    false => again.after_any_end([parent]),
                    true => again.after([parent]).orphaned(Orphaned::Cancel),
                };
                assert_eq!(again.put_in(tx)?, later);
                Ok(())
            })
            .unwrap();
        queue.tick().unwrap();
        assert_eq!(tube.peek(parent).unwrap().state, State::Ready);
        assert_eq!(tube.peek(first).unwrap().state, State::Ready);
        let seen = tube.peek(later).expect("it waits for a task that is ready");
        assert_eq!((seen.state, seen.dependencies.count), (State::Blocked, 1));
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }
}

/// Regression: the 257th verb of such a transaction was refused, at each try.
#[test]
fn a_transaction_puts_many_again_after_a_task_that_it_has_buried() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let parent = tube.task(b"p").key("p").put().unwrap();
    tube.task(b"a").after_any_end([parent]).put().unwrap();
    let keys: Vec<String> = (0..300).map(|number| format!("c{number}")).collect();
    keys.iter().for_each(|key| _ = tube.task(b"c").key(key).put().unwrap());
    let task = tube.claim(parent).unwrap();
    queue
        .transact(|tx| -> tubewell::Result<()> {
            tx.bury(&task, "no")?;
            tube.task(b"p").key("p").on_conflict(Conflict::Replace).put_in(tx)?;
            for key in &keys {
                let again = tube.task(b"c").key(key).on_conflict(Conflict::Replace);
                again.after([parent]).put_in(tx)?;
            }
            Ok(())
        })
        .unwrap();
    queue.tick().unwrap();
    assert_eq!(tube.stats().unwrap().blocked, 300);
    tube.complete_by_id(parent).unwrap();
    assert_eq!(tube.stats().unwrap().blocked, 0);
    assert_eq!(queue.check().unwrap(), [""; 0]);
}
