//! Histories: what is written when a task comes back, moves, fails or is logged to, how much of it
//! is kept, and how long.

use crate::{close_sound, home, killed, kind, open, secs, still};
use std::process::Command;
use std::time::Duration;
use tubewell::HistoryEvent::{
    Advanced, Buried, Closed, Done, Failed, ForcedOut, Kicked, Logged, Lost, Moved, Put, Released,
    Restored, Retried, Taken, TimedOut, Trashed,
};
use tubewell::{
    Builder, ErrorKind, History, HistoryEvent, HistoryLimits, ManualClock, Queue, Reason,
    Retention, Retry, State, TaskId, Tube, TubeOptions,
};

fn events(history: &History) -> Vec<HistoryEvent> {
    history.entries.iter().map(|entry| entry.event).collect()
}

fn of(tube: &Tube, id: TaskId) -> Vec<HistoryEvent> {
    let history = tube.history(id).unwrap();
    assert_eq!(tube.peek(id).unwrap().history, history.entries.len() as u64);
    events(&history)
}

fn sound(queue: &Queue) {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

/// A queue in memory with one tube.
fn alone(options: TubeOptions) -> (Queue, Tube) {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.create_tube("t", options).unwrap();
    (queue, tube)
}

/// The whole life of one task.
#[test]
fn each_attempt_says_when_who_what_and_how_long() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = TubeOptions::default().ttr(secs(30)).keep_finished(Retention::new());
    let tube = queue.create_tube("t", options).unwrap();
    let ada = queue.consumer("ada").unwrap();
    let id = tube.put(b"a").unwrap();
    let created = tube.peek(id).unwrap().created;
    assert_eq!(of(&tube, id), [Put]);
    let tube = tube.by(&ada);
    clock.advance(secs(1));
    let task = tube.take().unwrap();
    clock.advance(secs(2));
    let history = tube.history(id).unwrap();
    let now = history.entries.last().unwrap();
    assert_eq!((now.event, now.attempt, now.by.as_deref()), (Taken, Some(1), Some("ada")));
    assert_eq!((now.at, now.held_for), (created + secs(1), Some(secs(2))));
    task.retry_with(Retry::new("no answer").group("network").after(secs(0))).unwrap();
    let task = tube.take().unwrap();
    clock.advance(secs(30));
    assert_eq!(of(&tube, id), [Put, Retried, TimedOut]);
    drop(task);
    drop(tube.take().unwrap());
    tube.take().unwrap().release().unwrap();
    drop(tube.take().unwrap());
    let task = tube.take().unwrap();
    tube.force_timeout(&[id]).unwrap();
    drop(task);
    tube.take().unwrap().fail("address", "no such street").unwrap();
    tube.kick_task(id).unwrap();
    tube.take().unwrap().bury("by hand").unwrap();
    tube.trash(id, "no use").unwrap();
    tube.restore(id).unwrap();
    tube.log(id, "looked at it").unwrap();
    tube.take().unwrap().ack().unwrap();
    sound(&queue);

    let history = tube.history(id).unwrap();
    let all = [
        Put, Retried, TimedOut, Lost, Released, Lost, ForcedOut, Failed, Kicked, Buried, Trashed,
        Restored, Logged, Done,
    ];
    assert_eq!((events(&history), history.dropped), (all.to_vec(), 0));
    let entry = |at: usize| &history.entries[at];
    assert_eq!((entry(0).at, entry(0).attempt), (created, None));
    let retried = entry(1);
    assert_eq!((retried.at, retried.held_for), (created + secs(3), Some(secs(2))));
    assert_eq!((retried.attempt, retried.by.as_deref()), (Some(1), Some("ada")));
    assert_eq!((retried.group.as_deref(), &retried.text[..]), (Some("network"), "no answer"));
    let timed_out = entry(2);
    assert_eq!((timed_out.attempt, timed_out.held_for), (Some(2), Some(secs(30))));
    let failed = entry(7);
    assert_eq!((failed.group.as_deref(), &failed.text[..]), (Some("address"), "no such street"));
    assert_eq!((entry(8).attempt, entry(8).held_for), (None, None));
    assert_eq!((&entry(9).text[..], &entry(10).text[..]), ("by hand", "no use"));
    assert_eq!((&entry(12).text[..], entry(12).by.as_deref()), ("looked at it", None));
    assert!(history.entries.iter().all(|entry| entry.tube.is_none()));
}

/// QL-10: the first entry is kept, then the most recent ones.
#[test]
fn the_first_entry_and_the_newest_are_kept() {
    let (queue, tube) = alone(TubeOptions::default().history(HistoryLimits::new().entries(5)));
    let id = tube.put(b"a").unwrap();
    for line in 0..10 {
        tube.log(id, &format!("line {line}")).unwrap();
        let history = tube.history(id).unwrap();
        assert_eq!(history.entries.len(), 5.min(line + 2));
        assert_eq!(history.dropped, (line as u64 + 1).saturating_sub(4));
    }
    let history = tube.history(id).unwrap();
    let texts: Vec<_> = history.entries.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(texts, ["", "line 6", "line 7", "line 8", "line 9"]);
    assert_eq!(history.entries[0].event, Put);
    sound(&queue);
    tube.delete(id).unwrap();
    sound(&queue);
}

#[test]
fn a_history_has_100_entries_and_4096_bytes_unless_its_tube_says_more() {
    let (queue, tube) = alone(TubeOptions::default());
    let id = tube.put(b"a").unwrap();
    (0..150).for_each(|_| tube.log(id, "x").unwrap());
    let history = tube.history(id).unwrap();
    assert_eq!((history.entries.len(), history.dropped), (100, 51));
    // 28 bytes of a row are not of the text.
    (0..9).for_each(|_| tube.log(id, &"x".repeat(1024)).unwrap());
    let history = tube.history(id).unwrap();
    assert_eq!((history.entries.len(), history.dropped), (4, 156));
    sound(&queue);
    let small = HistoryLimits::new().bytes(0);
    let (queue, tube) = alone(TubeOptions::default().history(small));
    let id = tube.put(b"a").unwrap();
    (0..3).for_each(|_| tube.log(id, "the last is kept").unwrap());
    assert_eq!(of(&tube, id), [Put, Logged]);
    sound(&queue);
}

#[test]
fn a_tube_without_histories_stores_none() {
    for limits in [HistoryLimits::none(), HistoryLimits::new().entries(1)] {
        let (_queue, tube) = alone(TubeOptions::default().history(limits));
        let id = tube.put(b"a").unwrap();
        assert_eq!(kind(tube.log(id, "x")), ErrorKind::Unsupported);
        drop(tube.take().unwrap());
        assert_eq!(of(&tube, id), [Put]);
        let task = tube.take().unwrap();
        assert_eq!(of(&tube, id), [Put, Taken]);
        assert_eq!(kind(task.log("x")), ErrorKind::Unsupported);
    }
    let made = |limits| {
        kind(Queue::in_memory().unwrap().create_tube("t", TubeOptions::default().history(limits)))
    };
    assert_eq!(made(HistoryLimits::new().entries(1001)), ErrorKind::Invalid);
    assert_eq!(made(HistoryLimits::new().bytes(262_145)), ErrorKind::Invalid);
    let most = HistoryLimits::new().entries(1000).bytes(262_144);
    let options = TubeOptions::default().history(most);
    let tube = Queue::in_memory().unwrap().create_tube("t", options).unwrap();
    assert_eq!(tube.info().unwrap().options.get_history(), most);
}

#[test]
fn a_line_at_its_limits() {
    let (queue, tube) = alone(TubeOptions::default());
    let id = tube.put(b"a").unwrap();
    assert_eq!(kind(tube.log(id, "")), ErrorKind::Invalid);
    assert_eq!(kind(tube.log(id, &"x".repeat(1025))), ErrorKind::TooLarge);
    tube.log(id, &"x".repeat(1024)).unwrap();
    assert_eq!(kind(tube.log(TaskId::new(99), "x")), ErrorKind::TaskNotFound);
    let other = queue.tube("other").unwrap();
    assert_eq!(kind(other.log(id, "x")), ErrorKind::WrongTube);
    assert_eq!(kind(other.history(id)), ErrorKind::WrongTube);
    assert_eq!(kind(queue.history(TaskId::new(99))), ErrorKind::TaskNotFound);
    let task = tube.take().unwrap();
    task.log("held").unwrap();
    let ticket = tube.ticket(task.detach());
    ticket.log("by ticket").unwrap();
    tube.bury(id, "by others").unwrap();
    assert!(ticket.log("late").unwrap_err().is_lease_lost());
    assert_eq!(of(&tube, id), [Put, Logged, Logged, Logged, Buried]);
    // A long text of a verdict is cut.
    tube.kick_task(id).unwrap();
    tube.take().unwrap().fail("g", "é".repeat(1000)).unwrap();
    let last = tube.history(id).unwrap().entries.pop().unwrap();
    assert_eq!((last.event, last.text.len()), (Failed, 1024));
    assert_eq!(of(&tube, id).len(), 7);
    sound(&queue);
}

/// A line changes nothing else: in every state, and while a fresh task is before another.
#[test]
fn a_line_in_every_state() {
    let (builder, _) = still();
    let queue = builder.in_memory().unwrap();
    let options = TubeOptions::default().keep_finished(Retention::new());
    let tube = queue.create_tube("t", options).unwrap();
    let ids: Vec<_> = (0..7).map(|_| tube.put(b"x").unwrap()).collect();
    let grouped = tube.task(b"x").group("g").put().unwrap();
    let delayed = tube.task(b"x").delay(secs(9)).ttl(secs(99)).put().unwrap();
    tube.claim(ids[1]).unwrap().ack().unwrap();
    let _held = tube.claim(ids[2]).unwrap();
    tube.claim(ids[3]).unwrap().fail("g", "no").unwrap();
    tube.trash(ids[4], "no").unwrap();
    for id in ids.iter().copied().chain([grouped, delayed]) {
        let before = tube.peek(id).unwrap();
        tube.log(id, "a line").unwrap();
        let after = tube.peek(id).unwrap();
        assert_eq!((after.state, after.reason.clone()), (before.state, before.reason.clone()));
        assert_eq!((after.due, after.ttl_left), (before.due, before.ttl_left));
        assert_eq!(after.history, before.history + 1, "{id}");
        sound(&queue);
    }
    let taken: Vec<_> =
        std::iter::from_fn(|| tube.try_take().unwrap()).map(|task| task.detach().id()).collect();
    assert_eq!(taken, [ids[0], ids[5], ids[6], grouped]);
    sound(&queue);
    tube.truncate().unwrap();
    queue.tick().unwrap();
    sound(&queue);
}

/// It goes with the task through every tube, and queue-wide calls find it.
#[test]
fn a_history_goes_with_its_task() {
    let (_home, path) = home();
    let clock = ManualClock::new();
    let open = || Queue::builder().clock(clock.clone()).by_hand(true).open(&path).unwrap();
    let queue = open();
    let [a, b, c] = ["a", "b", "c"].map(|name| queue.tube(name).unwrap());
    let id = a.put(&vec![7; 100_000]).unwrap();
    a.take().unwrap().retry_after("once", Duration::ZERO).unwrap();
    a.take().unwrap().advance(&b).unwrap();
    b.move_to(id, &c).apply().unwrap();
    c.take().unwrap().fail("g", "no").unwrap();
    c.unfail_into("g", 1, &a).unwrap();
    let history = queue.history(id).unwrap();
    assert_eq!(events(&history), [Put, Retried, Advanced, Moved, Failed, Moved]);
    let left: Vec<_> = history.entries.iter().filter_map(|entry| entry.tube.as_deref()).collect();
    assert_eq!(left, ["a", "b", "c"]);
    assert_eq!(history.entries[2].attempt, Some(2));
    let _held = a.take().unwrap();
    close_sound(queue);

    clock.advance(secs(1));
    let queue = open();
    assert_eq!(queue.history(id).unwrap().entries.last().unwrap().event, Closed);
    queue.drop_tube("a").unwrap();
    queue.tick().unwrap();
    assert_eq!(kind(queue.history(id)), ErrorKind::TaskNotFound);
    close_sound(queue);
}

/// The entries of a task that is removed go with it, in whatever way that is.
#[test]
fn nothing_is_left_of_the_history_of_a_task_that_is_gone() {
    let ways: [fn(&Tube, TaskId); 5] = [
        |tube, _| tube.take().unwrap().ack().unwrap(),
        |tube, id| tube.delete(id).unwrap(),
        |tube, id| assert!(tube.complete_by_id(id).unwrap()),
        |tube, id| {
            tube.trash(id, "x").unwrap();
            assert_eq!(tube.empty_trash().unwrap(), 1);
        },
        |tube, _| assert_eq!(tube.truncate().unwrap(), 1),
    ];
    for way in ways {
        for temporary in [false, true] {
            let options = TubeOptions::default().temporary(temporary);
            let (queue, tube) = alone(options);
            let id = tube.put(b"a").unwrap();
            (0..3).for_each(|_| tube.take().unwrap().release().unwrap());
            tube.log(id, "x").unwrap();
            way(&tube, id);
            queue.tick().unwrap();
            sound(&queue); // it would report an entry without a task
        }
    }
}

/// Set for the child below.
const CHILD: &str = "TUBEWELL_TEST_ABORT";

/// BQ-12, TF-18: a task that ends its process is charged, and buried in the end, with the story.
#[test]
fn a_task_that_aborts_its_process_is_buried_with_its_story() {
    let open = |path: &std::path::Path| -> Queue { Builder::default().open(path).unwrap() };
    if let Some(path) = std::env::var_os(CHILD) {
        let queue = open(path.as_ref());
        let worker = queue.consumer("worker").unwrap();
        let tube = queue.tube("t").unwrap().by(&worker);
        let Some(task) = tube.try_take().unwrap() else { return };
        task.log("it begins").unwrap();
        queue.flush().unwrap();
        std::process::abort();
    }
    let (_home, path) = home();
    let queue = open(&path);
    let options = TubeOptions::default().max_attempts(3);
    let id = queue.create_tube("t", options).unwrap().put(b"poison").unwrap();
    queue.close().unwrap();
    let child = || {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let test = "history::a_task_that_aborts_its_process_is_buried_with_its_story";
        child.args(["--exact", test, "--nocapture"]).env(CHILD, &path).output().unwrap().status
    };
    for _ in 0..3 {
        assert!(!child().success());
    }
    assert!(child().success(), "there is nothing to take any more");
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let buried = tube.peek(id).unwrap();
    assert_eq!((buried.state, buried.attempts), (State::Buried, 3));
    assert!(matches!(buried.reason, Some(Reason::Exhausted { .. })));
    let history = tube.history(id).unwrap();
    let attempt = [Logged, Lost];
    let all = [&[Put][..], &attempt, &attempt, &attempt, &[Buried]].concat();
    assert_eq!(events(&history), all);
    let lost = &history.entries[4];
    assert_eq!((lost.attempt, lost.by.as_deref(), lost.held_for), (Some(2), Some("worker"), None));
    assert_eq!(history.entries.last().unwrap().text, "attempts exhausted");
    close_sound(queue);
}

/// A history is as durable as the step that it reports.
#[test]
fn a_history_survives_a_kill() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().retry_after("no", Duration::ZERO).unwrap();
    let (_copy, copy) = killed(&path);
    let queue = still().0.open(&copy).unwrap();
    assert_eq!(events(&queue.history(id).unwrap()), [Put, Retried]);
    close_sound(queue);
}

/// Regression: of a lease that waits for its consumer after an opening the beginning was the time
/// of the call.
#[test]
fn the_beginning_of_a_lease_that_waits_does_not_move() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"x").unwrap();
    let ada = queue.consumer_with_grace("ada", Duration::MAX).unwrap();
    tube.by(&ada).take().unwrap().detach();
    drop(ada);
    queue.close().unwrap();
    drop(tube);

    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let began = || tube.history(id).unwrap().entries.pop().unwrap();
    let first = began();
    assert_eq!((first.event, first.held_for), (HistoryEvent::Taken, None));
    clock.advance(secs(60));
    assert_eq!(began().at, first.at);
}

/// A merge moves a buried task as it stands: it buries nothing, so its history gets one entry, the
/// move, and the event of its arrival has no failure.
#[test]
fn a_merge_of_a_buried_task_is_one_entry_and_no_failure() {
    let queue = still().0.in_memory().unwrap();
    let options = || TubeOptions::default().max_attempts(1);
    let [old, _new] = ["old", "new"].map(|name| queue.create_tube(name, options()).unwrap());
    let exhausted = old.put(b"x").unwrap();
    old.take().unwrap().retry_after("once", secs(0)).unwrap();
    let failed = old.put(b"y").unwrap();
    old.take().unwrap().fail("g", "no such street").unwrap();
    assert_eq!(events(&queue.history(exhausted).unwrap()), [Put, Retried, Buried]);

    let told = queue.events();
    assert_eq!(queue.merge("old", "new").unwrap().moved, 2);

    // 1. Now: [Put, Retried, Buried, Moved, Buried], one more `Buried` for each merge.
    let history = queue.history(exhausted).unwrap();
    assert_eq!(events(&history), [Put, Retried, Buried, Moved]);
    // 2. Now: "no such street".
    let moved = queue.history(failed).unwrap().entries.pop().unwrap();
    assert_eq!((moved.event, moved.tube.as_deref(), &moved.text[..]), (Moved, Some("old"), ""));
    // 3. Now: the arrival in "new" has the failure group and the message again.
    let told: Vec<_> = std::iter::from_fn(|| told.try_recv()).collect();
    assert!(told.iter().all(|it| it.failure_group().or(it.message()).is_none()), "{told:?}");
    sound(&queue);
}
