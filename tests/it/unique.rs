//! Where keys are unique, and in which states a task counts.

use crate::{close_sound, home, is_gone, killed, kind, lone_with, open, secs, state, still};
use tubewell::{
    Advance, Conflict, Consumer, ErrorKind, Filter, HistoryEvent, Kicked, ManualClock, PutOutcome,
    Queue, Release, Retention, State, Task, TaskId, Tube, TubeOptions, Unique,
};

fn sound(queue: &Queue) {
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

fn with(unique: Unique) -> TubeOptions {
    TubeOptions::default().unique(unique).keep_finished(Retention::new())
}

/// Two tubes whose keys are unique in the queue.
fn two(unique: Unique) -> (Queue, Tube, Tube) {
    let queue = still().0.in_memory().unwrap();
    let [a, b] =
        ["a", "b"].map(|name| queue.create_tube(name, with(unique.in_queue(true))).unwrap());
    (queue, a, b)
}

fn put(tube: &Tube, conflict: Conflict) -> tubewell::Result<(TaskId, PutOutcome)> {
    let put = tube.task(b"x").key("k").on_conflict(conflict).put_outcome();
    put.map(|put| (put.id, put.outcome))
}

/// Whether the key is taken in the tube.
fn is_taken(tube: &Tube) -> bool {
    match put(tube, Conflict::Reject) {
        Ok((id, _)) => {
            tube.delete(id).unwrap();
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::KeyExists);
            true
        }
    }
}

/// Brings the only task of the key into each state, one after the other.
fn in_each_state(tube: &Tube, id: TaskId, mut look: impl FnMut(State)) {
    look(State::Ready);
    let task = tube.claim(id).unwrap();
    look(State::Taken);
    task.release_with(Release::new().delay(secs(60))).unwrap();
    look(State::Delayed);
    tube.bury(id, "").unwrap();
    look(State::Buried);
    tube.claim(id).unwrap().ack().unwrap();
    look(State::Done);
}

#[test]
fn a_task_counts_in_the_states_that_its_tube_says() {
    let all = Unique::new().done(true);
    let choices = [
        Unique::new(),
        all,
        Unique::new().buried(false),
        Unique::new().taken(false).buried(false),
        Unique::new().ready(false).delayed(false),
        all.delayed(false).ready(false).taken(false).buried(false),
    ];
    for unique in choices {
        for in_queue in [false, true] {
            let (_, tube, other) = two(unique);
            let tube = if in_queue { tube } else { lone_with(with(unique)).0 };
            let (id, _) = put(&tube, Conflict::Reject).unwrap();
            in_each_state(&tube, id, |state| {
                assert_eq!(is_taken(&tube), unique.counts(state), "{unique:?} {state:?}");
                assert_eq!(is_taken(&other), in_queue && unique.counts(state), "{state:?}");
            });
        }
    }
}

#[test]
fn a_task_that_waits_for_others_counts_as_a_delayed_one() {
    for (delayed, in_queue) in [(true, true), (true, false), (false, true), (false, false)] {
        let (_, a, other) = two(Unique::new().delayed(delayed));
        let tube = if in_queue { a } else { lone_with(with(Unique::new().delayed(delayed))).0 };
        let parent = tube.put(b"parent").unwrap();
        let child = tube.task(b"child").key("k").after([parent]).put().unwrap();
        assert_eq!(state(&tube, child), State::Blocked);
        assert_eq!((is_taken(&tube), is_taken(&other)), (delayed, delayed && in_queue));
    }
}

#[test]
fn no_choice_brings_a_second_task_of_a_key_in() {
    let unique = Unique::new().buried(false).delayed(false);
    for in_queue in [false, true] {
        let (queue, a, b) = two(unique);
        let (tube, other) = if in_queue {
            (a, b)
        } else {
            let lone = queue.create_tube("lone", with(unique)).unwrap();
            (lone.clone(), lone)
        };
        let (first, _) = put(&tube, Conflict::Reject).unwrap();
        tube.take().unwrap().fail("post", "no").unwrap();
        let (second, outcome) = put(&other, Conflict::Reject).unwrap();
        assert_eq!(outcome, PutOutcome::New);
        let clash = |done: tubewell::Result<()>| {
            assert_eq!(kind(done), ErrorKind::KeyExists);
            assert_eq!(state(&tube, first), State::Buried);
        };
        clash(tube.kick_task(first));
        clash(tube.claim(first).map(drop));
        clash(tube.move_to(first, &other).apply());
        tube.trash(first, "").unwrap();
        assert_eq!(kind(tube.restore(first)), ErrorKind::KeyExists);
        // Regression: there it counts neither before nor after.
        tube.update(first).priority(2).apply().unwrap();
        other.delete(second).unwrap();
        tube.restore(first).unwrap();
        tube.take().unwrap().fail("post", "no").unwrap();
        let (second, _) = put(&other, Conflict::Reject).unwrap();

        // Verbs over several step over it.
        let free = tube.put(b"free").unwrap();
        tube.fail_by_id(free, "post", "no").unwrap();
        let names_it = |done: tubewell::Result<Kicked>, kicked| {
            let done = done.unwrap();
            assert_eq!((done.kicked, done.clashed, done.clashes), (kicked, 1, vec![first]));
        };
        names_it(tube.kick(2), 1);
        assert_eq!((state(&tube, first), state(&tube, free)), (State::Buried, State::Ready));
        names_it(tube.unfail("post", 9), 0);
        names_it(queue.unfail("post", 9), 0);
        names_it(tube.kick_where(9, |_| true), 0);
        let into = queue.unfail_into("post", 9, &other).unwrap();
        assert_eq!((into.moved, into.clashes), (0, vec![first]));
        tube.update(first).priority(3).apply().unwrap();

        // A delayed one does not count, and is not made ready beside another.
        other.delete(second).unwrap();
        tube.kick_task(first).unwrap();
        tube.update(first).delay(secs(60)).apply().unwrap();
        let (second, _) = put(&other, Conflict::Reject).unwrap();
        assert_eq!(kind(tube.update(first).delay(secs(0)).apply()), ErrorKind::KeyExists);
        other.delete(second).unwrap();
        tube.update(first).delay(secs(0)).apply().unwrap();
        sound(&queue);
    }
}

#[test]
fn a_task_that_returns_by_itself_stands_beside_and_the_key_names_the_newest() {
    type Return = fn(Task, &Consumer, &ManualClock);
    let returns: [(&str, Return); 5] = [
        ("release", |task, _, _| task.release().unwrap()),
        ("retry", |task, _, _| task.retry_after("no", secs(0)).unwrap()),
        ("lapse", |task, _, clock| {
            clock.advance(secs(10));
            assert!(task.is_lost().unwrap());
        }),
        ("end of the session", |_task, ada, _| ada.close().unwrap()),
        ("opening", |task, _, _| _ = task.detach()),
    ];
    for (how, give_back) in returns {
        let (_home, path) = home();
        let (builder, clock) = still();
        let queue = builder.open(&path).unwrap();
        let options = with(Unique::new().taken(false).in_queue(true)).ttr(secs(10));
        let [a, b] = ["a", "b"].map(|name| queue.create_tube(name, options.clone()).unwrap());
        let (first, _) = put(&a, Conflict::Reject).unwrap();
        let ada = queue.consumer("ada").unwrap();
        let task = a.by(&ada).take().unwrap();
        let (second, _) = put(&b, Conflict::Reject).unwrap();
        give_back(task, &ada, &clock);
        sound(&queue);
        let (queue, a, b) = match how {
            "opening" => {
                drop((ada, a, b));
                let (_copy, copy) = killed(&path);
                let after = Queue::builder().clock(clock).by_hand(true).open(copy).unwrap();
                let [a, b] = ["a", "b"].map(|name| after.tube(name).unwrap());
                (after, a, b)
            }
            _ => (queue, a, b),
        };
        assert_eq!((state(&a, first), state(&b, second)), (State::Ready, State::Ready), "{how}");
        assert_eq!(put(&a, Conflict::Keep).unwrap(), (second, PutOutcome::Existing), "{how}");
        sound(&queue);
        b.delete(second).unwrap();
        assert_eq!(put(&b, Conflict::Keep).unwrap(), (first, PutOutcome::Existing), "{how}");
        a.delete(first).unwrap();
        sound(&queue);
        assert_eq!(put(&b, Conflict::Keep).unwrap().1, PutOutcome::New, "{how}");
    }
}

#[test]
fn a_put_of_a_finished_task_is_a_new_one_with_its_key_and_history() {
    for (done, large) in [(false, 10), (true, 10), (false, 1 << 20)] {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        let tube = queue.create_tube("t", with(Unique::new().done(done))).unwrap();
        let first = tube.task(b"a").key("k").priority(3).group("g").kind("mail").put().unwrap();
        tube.take().unwrap().retry_after("no", secs(0)).unwrap();
        clock.advance(secs(1));
        tube.take().unwrap().ack_with(b"result").unwrap();
        let must = tube.task(b"b").key("k").must_exist().on_conflict(Conflict::Keep).put();
        assert_eq!(must.is_ok(), done);

        let payload = vec![7; large];
        let again = tube.task(&payload).key("k").must_exist().put_outcome().unwrap();
        assert_eq!(again.outcome, PutOutcome::Replaced);
        assert!(again.id > first && is_gone(&tube, first), "an id ends once");
        let seen = tube.peek(again.id).unwrap();
        assert_eq!((seen.priority, seen.group.as_deref()), (3, Some("g")));
        assert_eq!((seen.kind.as_deref(), seen.attempts), (Some("mail"), 0));
        assert!(seen.payload == payload && seen.result.is_none());
        assert_eq!(seen.payload_generation, 0);
        let history = tube.history(again.id).unwrap().entries;
        let history: Vec<_> = history.iter().map(|entry| entry.event).collect();
        assert_eq!(
            history,
            [HistoryEvent::Put, HistoryEvent::Retried, HistoryEvent::Done, HistoryEvent::PutAgain]
        );
        sound(&queue);
        tube.delete(again.id).unwrap();
        sound(&queue);
        assert_eq!(queue.space().unwrap().durable_bytes, 0);
        assert_eq!(kind(tube.task(b"c").key("k").must_exist().put()), ErrorKind::TaskNotFound);
    }
}

#[test]
fn a_put_takes_a_task_of_the_queues_key_over_from_another_tube() {
    let (_home, path) = home();
    let queue = open(&path);
    let options = with(Unique::new().in_queue(true));
    let a = queue.create_tube("a", options.clone()).unwrap();
    let b = queue.create_tube("b", options.capacity(1)).unwrap();
    let payload = vec![1; 1 << 20];
    let id = a.task(&payload).key("k").detail("to", "ada").put().unwrap();
    let task = a.take().unwrap();
    b.put(b"full").unwrap();
    let again = |tube: &Tube, payload: &[u8]| {
        tube.task(payload).key("k").on_conflict(Conflict::Replace).put_outcome()
    };
    assert_eq!(kind(again(&b, b"y")), ErrorKind::Full);
    assert!(!task.is_lost().unwrap(), "a refused put changes nothing");
    b.take().unwrap().ack().unwrap();
    let payload = vec![2; 1 << 20];
    assert_eq!(again(&b, &payload).unwrap().id, id);
    assert!(task.is_lost().unwrap());
    let seen = queue.find(id).unwrap();
    assert_eq!((&seen.tube[..], &seen.details["to"][..]), ("b", "ada"));
    assert!(seen.payload == payload);
    sound(&queue);

    // Finished there, it is a new one here.
    b.take().unwrap().ack().unwrap();
    let new = again(&a, b"z").unwrap();
    assert!(new.id > id && queue.find(id).is_err());
    sound(&queue);
    let (_copy, copy) = killed(&path);
    let after = open(&copy);
    assert_eq!(put(&after.tube("b").unwrap(), Conflict::Keep).unwrap().0, new.id);
    close_sound(after);
    drop((task, a, b));
    close_sound(queue);
}

#[test]
fn a_tube_that_goes_leaves_its_keys_free() {
    let ends: [fn(&Queue, &Tube); 3] = [
        |_, tube| _ = tube.truncate().unwrap(),
        |queue, tube| queue.force_drop_tube(tube.name()).unwrap(),
        |_, tube| tube.delete(tube.peek_next(State::Ready).unwrap().unwrap().id).unwrap(),
    ];
    for end in ends {
        let (queue, a, b) = two(Unique::new());
        let rows = || queue.check().unwrap();
        for number in 0..3 {
            let key = number.to_string();
            let id = a.task(b"x").key(&key).put().unwrap();
            if number > 0 {
                a.claim(id).unwrap().ack().unwrap();
            }
        }
        end(&queue, &a);
        assert_eq!(rows(), [""; 0], "before the sweep");
        let free = b.task(b"y").key("0").on_conflict(Conflict::Reject).put();
        assert!(free.is_ok(), "also before it");
        sound(&queue);
    }
}

#[test]
fn a_key_of_the_queue_whose_time_is_over_in_another_tube_is_free() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let [a, b] =
        ["a", "b"].map(|name| queue.create_tube(name, with(Unique::new().in_queue(true))).unwrap());
    a.task(b"x").key("k").ttl(secs(5)).put().unwrap();
    clock.advance(secs(4));
    assert!(is_taken(&b));
    clock.advance(secs(1));
    assert!(!is_taken(&b));
    sound(&queue);
}

#[test]
fn moves_bring_a_key_into_a_queues_scope_and_out_of_it() {
    let (queue, a, b) = two(Unique::new());
    let c = queue.tube("c").unwrap();
    let (id, _) = put(&a, Conflict::Reject).unwrap();
    a.move_to(id, &c).apply().unwrap();
    assert!(!is_taken(&a) && !is_taken(&b) && is_taken(&c));
    sound(&queue);
    let (other, _) = put(&b, Conflict::Reject).unwrap();
    assert_eq!(kind(c.move_to(id, &a).apply()), ErrorKind::KeyExists);
    b.move_to(other, &a).apply().unwrap();
    assert!(is_taken(&b), "one of the same scope");
    sound(&queue);
}

#[test]
fn a_search_by_key_finds_those_that_do_not_count() {
    let (queue, a, _) = two(Unique::new().buried(false));
    let ids: Vec<_> =
        ["ka", "kb", "kc"].iter().map(|key| a.task(b"x").key(key).put().unwrap()).collect();
    a.bury(ids[0], "").unwrap();
    a.claim(ids[1]).unwrap().ack().unwrap();
    let found = |filter: Filter| {
        let page = a.search(&filter, None, 9).unwrap();
        let mut ids: Vec<_> = page.tasks.iter().map(|task| task.id).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(found(Filter::new().key_prefix("k")), ids);
    assert_eq!(found(Filter::new().key_prefix("k").state(State::Done)), [ids[1]]);
    assert_eq!(found(Filter::new().key_prefix("kc")), [ids[2]]);
    assert_eq!(found(Filter::new().key("kc")), [ids[2]]);
    sound(&queue);
}

#[test]
fn a_tube_keeps_its_rule_and_wrong_ones_are_refused() {
    let (_home, path) = home();
    let queue = open(&path);
    let rule = Unique::new().in_queue(true).buried(false).done(true);
    let tube = queue.create_tube("t", with(rule)).unwrap();
    assert_eq!(tube.info().unwrap().options.get_unique(), rule);
    let other = queue.create_tube("t", with(Unique::new()).if_not_exists());
    assert_eq!(kind(other), ErrorKind::TubeMismatch);
    let none = Unique::new().delayed(false).ready(false).taken(false).buried(false);
    assert_eq!(kind(queue.create_tube("u", with(none))), ErrorKind::Invalid);
    let temporary = TubeOptions::default().temporary(true).unique(rule);
    assert_eq!(kind(queue.create_tube("u", temporary)), ErrorKind::Unsupported);
    drop(tube);
    close_sound(queue);
    let queue = open(&path);
    assert_eq!(queue.tube("t").unwrap().info().unwrap().options.get_unique(), rule);
    close_sound(queue);
}

#[test]
fn a_key_of_the_queue_and_a_prefix_of_a_key_may_be_as_long_as_a_label() {
    let (queue, a, b) = two(Unique::new());
    let long = "k".repeat(256);
    let put = |tube: &Tube, key: &str| tube.task(b"x").key(key).on_conflict(Conflict::Reject).put();
    assert_eq!(kind(put(&a, &long)), ErrorKind::Invalid);
    let id = put(&a, &long[1..]).unwrap();
    assert_eq!(kind(put(&b, &long[1..])), ErrorKind::KeyExists);
    put(&b, &long[2..]).unwrap();
    put(&a, &format!("{}l", &long[2..])).unwrap();
    let found = |prefix: &str| {
        let page = a.search(&Filter::new().key_prefix(prefix), None, 9).unwrap();
        assert!(page.next.is_none());
        page.tasks.iter().map(|task| task.id).collect::<Vec<_>>()
    };
    assert_eq!((found(&long[1..]), found(&long)), (vec![id], vec![]));
    assert_eq!(found(&long[2..]).len(), 2);
    let exact = |key: &str| {
        let page = a.search(&Filter::new().key(key), None, 9).unwrap();
        page.tasks.iter().map(|task| task.id).collect::<Vec<_>>()
    };
    assert_eq!((exact(&long[1..]), exact(&long), exact(&long[2..])), (vec![id], vec![], vec![]));
    sound(&queue);
}

/// Dead rows of a key are passed by: of a truncated tube, before it is swept.
#[test]
fn a_key_is_found_behind_rows_that_lead_nowhere() {
    let (queue, a, b) = two(Unique::new().taken(false));
    let (id, _) = put(&b, Conflict::Reject).unwrap();
    let held = b.take().unwrap();
    for _ in 0..40 {
        put(&a, Conflict::Reject).unwrap();
        a.take().unwrap().detach();
    }
    a.release_all().unwrap();
    queue.tick().unwrap();
    held.release().unwrap();
    assert!(put(&b, Conflict::Keep).unwrap().0 > id);
    a.truncate().unwrap();
    assert_eq!(put(&b, Conflict::Keep).unwrap(), (id, PutOutcome::Existing));
    sound(&queue);
    assert_eq!(put(&a, Conflict::Keep).unwrap(), (id, PutOutcome::Existing));
}

/// A kick that steps over many tasks reaches the ones behind them, and names the first.
#[test]
fn a_kick_reaches_what_is_behind_many_clashes() {
    let (queue, a, b) = two(Unique::new().buried(false));
    let mut clashing = Vec::new();
    for _ in 0..600 {
        let (id, _) = put(&a, Conflict::Reject).unwrap();
        a.fail_by_id(id, "post", "").unwrap();
        clashing.push(id);
    }
    let (holder, _) = put(&a, Conflict::Reject).unwrap();
    let last = a.put(b"last").unwrap();
    a.bury(last, "").unwrap();
    let names_100 = |done: Kicked, kicked, clashed| {
        assert_eq!((done.kicked, done.clashed), (kicked, clashed));
        assert!(done.clashes.len() == 100 && done.clashes.iter().all(|id| clashing.contains(id)));
    };
    names_100(a.kick(5).unwrap(), 1, 600);
    assert_eq!((state(&a, last), state(&a, holder)), (State::Ready, State::Ready));
    names_100(a.unfail("post", 5).unwrap(), 0, 600);
    names_100(queue.unfail("post", 5).unwrap(), 0, 600);
    names_100(a.kick_where(5, |_| true).unwrap(), 0, 600);
    let into = a.unfail_into("post", u64::MAX, &b).unwrap();
    assert_eq!((into.moved, into.clashes.len()), (0, 600));
    a.delete(holder).unwrap();
    // One of them has the key then.
    names_100(a.kick(5).unwrap(), 1, 599);
    sound(&queue);
}

/// Regression: a task that waits for others and moves is Blocked there, too. Its key was asked for
/// as that of a ready task: two tasks counted for one key, or the move was refused in vain.
#[test]
fn a_move_of_a_task_that_waits_asks_for_its_key_in_the_state_that_it_gets() {
    let queue = still().0.in_memory().unwrap();
    let a = queue.tube("a").unwrap();
    let parent = a.put(b"p").unwrap();

    // A blocked task counts there, a ready one does not.
    let options = TubeOptions::default().unique(Unique::new().ready(false));
    let b = queue.create_tube("b", options).unwrap();
    b.task(b"y").key("k").delay(secs(60)).put().unwrap();
    let waits = a.task(b"x").key("k").after([parent]).put().unwrap();
    assert_eq!(kind(a.move_to(waits, &b).apply()), ErrorKind::KeyExists);
    assert_eq!(a.peek(waits).unwrap().state, State::Blocked);

    // The same of a step that is to wait.
    let step = queue.tube("c").unwrap().task(b"x").key("k").put().unwrap();
    let mut task = queue.tube("c").unwrap().claim(step).unwrap();
    let terms = Advance::new().after([parent]);
    assert_eq!(kind(task.advance_with(&b, terms)), ErrorKind::KeyExists);
    drop(task);

    // A ready one counts there, a blocked one does not: nothing is in its way, as for a kick.
    let options = TubeOptions::default().unique(Unique::new().delayed(false));
    let d = queue.create_tube("d", options).unwrap();
    d.task(b"y").key("k").put().unwrap();
    a.move_to(waits, &d).apply().unwrap();
    assert_eq!(d.peek(waits).unwrap().state, State::Blocked);
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// Regression: a task counted for its key until its delay had ended in the due work of its own
/// tube, although its ttl was over too. The put of another tube was taken for the same work, and
/// lost.
#[test]
fn a_delayed_task_whose_time_is_over_in_another_tube_leaves_its_key_free() {
    for conflict in [Conflict::Keep, Conflict::Reject, Conflict::Replace] {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        let with = || TubeOptions::default().unique(Unique::new().in_queue(true));
        let [a, b] = ["a", "b"].map(|name| queue.create_tube(name, with()).unwrap());
        let put = |tube: &Tube, text: &[u8]| {
            let task = tube.task(text).key("k").delay(secs(5)).ttl(secs(5));
            task.on_conflict(conflict).put_outcome().unwrap()
        };
        let old = put(&a, b"old");
        // At five its delay has ended, and it lives.
        clock.advance(secs(9));
        assert!(b.task(b"x").key("k").on_conflict(Conflict::Reject).put().is_err());
        clock.advance(secs(1));
        let new = put(&b, b"new");
        assert_eq!((new.outcome, new.id != old.id), (PutOutcome::New, true));
        queue.tick().unwrap();
        assert_eq!((a.len().unwrap(), b.len().unwrap()), (0, 1));
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }
}
