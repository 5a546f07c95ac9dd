//! Every verb of a queue and of a tube that can fail, in two lists, for the tests of what a queue
//! refuses that is closed, open read-only or inside a transaction. A test compares the lists with
//! the sources.

use crate::{methods, ok, secs};
use std::ops::ControlFlow;
use std::time::SystemTime;
use tubewell::{
    Event, EventFilter, Filter, PauseTerms, Queue, Result, State, Stop, TaskId, Tube, TubeOptions,
};

/// What a verb answered, without its value.
pub type Said = (&'static str, Result<()>);

/// A list of calls, each named by its text.
macro_rules! calls {
    ($($call:expr),* $(,)?) => {
        vec![$((stringify!($call), Result::map($call, drop))),*]
    };
}

/// All that changes the queue, or waits for a change. The task, and a buried one, are in the tube.
pub fn writing(queue: &Queue, tube: &Tube, id: TaskId) -> Vec<Said> {
    let (stop, batch, wait) = (Stop::new(), || [b"b".to_vec()], secs(1));
    let later = SystemTime::UNIX_EPOCH + secs(1 << 40);
    let (new, name, on_change) = (TubeOptions::default(), tube.name(), |_: &Event| {});
    let puts = calls![
        tube.put(b"b"),
        tube.put(&[7; 3_000_000]),
        tube.put_front(b"b"),
        tube.put_many(batch()),
        tube.put_all(batch()),
        tube.put_receipt(b"b"),
        tube.task(b"b").key("k").put(),
        tube.task(b"b").put_receipt(),
        tube.task(b"b").put_outcome(),
        tube.task(b"b").wait_for_room(wait).put(),
        tube.task(b"b").wait_for_room_until(&stop).put(),
        tube.batch(batch()).put(),
        tube.batch_of([tube.task(b"b")]).put(),
        tube.batch_of([tube.task(b"b")]).put_outcomes(),
        tube.copy_to(id, tube),
    ];
    let all = queue.tubes_with_prefix("").unwrap();
    let takes = calls![
        tube.take(),
        tube.try_take(),
        tube.take_timeout(wait),
        tube.take_until(&stop),
        tube.take_timeout_until(wait, &stop),
        tube.take_many(2),
        tube.take_group("g0"),
        tube.try_take_group("g0"),
        tube.take_group_timeout("g0", wait),
        tube.take_group_until("g0", &stop),
        tube.claim(id),
        all.take(),
        all.try_take(),
        all.take_timeout(wait),
        all.take_until(&stop),
        all.take_timeout_until(wait, &stop),
        all.take_many(2),
        queue.tubes_of(["new"]),
        queue.wait_for(id, wait),
        queue.wait_for_until(id, &stop),
    ];
    let by_id = calls![
        tube.kick(1),
        tube.kick_task(id),
        tube.kick_where(1, |_| true),
        tube.unfail("g", 1),
        tube.unfail_into("g", 1, tube),
        queue.unfail("g", 1),
        queue.unfail_into("g", 1, tube),
        tube.trash(id, "no"),
        tube.restore(id),
        tube.empty_trash(),
        tube.move_to(id, tube).apply(),
        tube.delete(id),
        tube.delete_only_if(id, &[State::Taken]),
        tube.force_delete(id),
        tube.depend(id, [id]),
        tube.undepend(id, [id]),
        tube.undepend_all(id),
        queue.cancel_tree(id),
        queue.delete_many(&[id]),
        tube.delete_many(&[id]),
        tube.complete_by_id(id),
        tube.complete_by_id_with(id, b"r"),
        tube.fail_by_id(id, "g", "no"),
        tube.bury(id, "no"),
        tube.update(id).priority(1).apply(),
        tube.log(id, "line"),
        tube.tag(id, ["a"]),
        tube.untag(id, ["a"]),
        queue.track(id),
        queue.untrack(id),
        tube.release_all(),
        tube.force_timeout(&[id]),
        tube.truncate(),
    ];
    let tubes = calls![
        tube.pause(),
        tube.pause_for(wait),
        tube.pause_until(later),
        tube.pause_with(PauseTerms::new().time_out_running()),
        tube.resume(),
        tube.set("ttr", wait),
        tube.unset("ttr"),
        queue.set("session_grace", wait),
        queue.unset("session_grace"),
        queue.set_condition("c", true),
        queue.set_condition_for_run("d", true),
        queue.remove_condition("c"),
        queue.set_throttle("c", 1),
        queue.set_throttle_for("c", 1, std::time::Duration::from_secs(1)),
        queue.release_throttle("c", &[id]),
        queue.remove_throttle("c"),
        queue.tube("new"),
        queue.create_tube("new", new.clone().temporary(true)),
        queue.create_tube_with("new", new.clone(), on_change),
        queue.schedule("new").every(wait).to(tube).make(),
        queue.schedule_named("s").update(|it| it.every(wait)),
        queue.schedule_named("s").pause(),
        queue.schedule_named("s").resume(),
        queue.schedule_named("s").run_now(),
        queue.schedule_named("s").tag(&["a"]),
        queue.schedule_named("s").untag(&["a"]),
        queue.schedule_named("s").remove(),
        queue.drop_tube(name),
        queue.drop_tube_if_empty(name),
        queue.force_drop_tube(name),
        queue.merge(name, name),
        queue.scope("a").tube("new"),
        queue.scope("a").create_tube("new", new),
        queue.consumer("bob"),
        queue.consumer_with_grace("bob", wait),
        queue.consumer_with("bob", tubewell::ConsumerOptions::new()),
        queue.deregister(&["ada"]),
        queue.repair(),
        queue.checkpoint(),
        queue.compact(),
        queue.compact_with(|_| ControlFlow::Continue(())),
        queue.tick(),
        queue.transact(|_| ok(())),
    ];
    [puts, takes, by_id, tubes].into_iter().flatten().collect()
}

/// All that reads. A task of the tube is ready.
pub fn reading(queue: &Queue, tube: &Tube, id: TaskId) -> Vec<Said> {
    /// The first item of a listing.
    fn first<T>(mut items: impl Iterator<Item = Result<T>>) -> Result<Option<T>> {
        items.next().transpose()
    }
    let all = queue.tubes_with_prefix("").unwrap();
    let (stop, wait, filter) = (Stop::new(), secs(1), Filter::new().state(State::Taken));
    calls![
        tube.wait_ready(wait),
        tube.wait_ready_until(&stop),
        tube.wait_ready_timeout_until(wait, &stop),
        tube.info(),
        tube.stats(),
        tube.len(),
        tube.is_empty(),
        tube.peek(id),
        tube.peek_next(State::Ready),
        tube.peek_many(1),
        first(tube.tasks(State::Ready)),
        first(tube.summaries(State::Ready)),
        first(tube.buried()),
        first(tube.failed("g")),
        first(tube.finished()),
        first(tube.trashed()),
        tube.failure_groups(),
        tube.search(&filter, None, 1),
        tube.history(id),
        tube.last_checkpoint(id),
        tube.statistics(0),
        tube.latencies(),
        tube.days(),
        tube.settings(),
        tube.setting("ttr"),
        queue.find_tube(tube.name()),
        queue.scope("a").find_tube("new"),
        queue.scope("a").tubes(),
        queue.tubes(),
        all.names(),
        queue.stats(),
        queue.overview(),
        queue.waiters(),
        queue.taken(),
        first(queue.finished()),
        first(queue.failed("g")),
        queue.failure_groups(),
        queue.find(id),
        first(queue.find_many([id])),
        queue.dependencies(id),
        queue.explain(id),
        queue.history(id),
        first(queue.tagged("a")),
        first(queue.top_tags()),
        queue.tag_count("a"),
        first(queue.tracked()),
        first(queue.schedules()),
        first(tube.schedules()),
        queue.schedule_named("s").info(),
        queue.schedule_named("s").next(1),
        queue.consumers(),
        queue.taken_by("ada").and_then(first),
        queue.settings(),
        queue.setting("session_grace"),
        queue.conditions(),
        queue.condition("c"),
        first(queue.requiring("c")),
        queue.throttles(),
        queue.throttle("c"),
        first(queue.throttled("c")),
        first(queue.throttle_holders("c")),
        queue.check(),
        queue.space(),
        queue.base_space(),
        queue.flush(),
        queue.read(|_| ok(())),
    ]
}

/// All that sets a callback, which is no step of the queue.
pub fn watching(queue: &Queue, tube: &Tube) -> Vec<Said> {
    let on_change = |_: &Event| {};
    calls![
        queue.on_event(EventFilter::new(), on_change),
        tube.on_task_change(Some(on_change)),
        tube.on_task_change_with_payload(Some(on_change)),
    ]
}

/// Not a verb of a queue or of a tube, or not refused: weights are compared with the list alone,
/// on a closed queue every lease is lost, and a callback may go.
const OTHERS: [&str; 10] = [
    "encode",
    "is_lost",
    "on_lost",
    "open_disk",
    "put_in",
    "set_callback",
    "synced",
    "table",
    "weighted",
    "weighted_by_name",
];

#[test]
fn every_method_that_can_fail_is_in_the_lists() {
    let missing = methods::uncalled(&["it/verbs.rs", "it/refused.rs", "it/main.rs"]);
    assert_eq!(missing, OTHERS.map(str::to_owned).into());
}
