//! A queue as text: everything that a user can see of it, and the order in which its tasks are
//! handed out. It wrote the `contents.txt` beside the golden files, so its output must never
//! change.

use crate::secs;
use redb::{ReadableTable, TableDefinition};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tubewell::{
    Backoff, HistoryLimits, Lapse, ManualClock, Queue, Rate, Reason, Result, Retention, ReturnTo,
    State, Task, TaskId, TaskInfo, Tube, TubeKind, TubeOptions, Unique,
};

/// Tables of an application.
pub(crate) const DIGESTS: TableDefinition<&str, u64> = TableDefinition::new("digests");
pub(crate) const NOTES: TableDefinition<u64, &[u8]> = TableDefinition::new("an app's notes");

/// Noon on 2026-01-01, UTC: when every golden file was begun.
pub(crate) fn written() -> SystemTime {
    UNIX_EPOCH + secs(1_767_268_800)
}

/// The names of tubes, each with its options as text.
pub(crate) type Tubes = BTreeMap<String, String>;

/// The options that this text lists.
pub(crate) fn options(words: &str) -> TubeOptions {
    let mut words = words.split(' ');
    let mut options = TubeOptions::new(match words.next().unwrap() {
        "general" => TubeKind::General,
        "fifo" => TubeKind::Fifo,
        "fifottl" => TubeKind::FifoTtl,
        "limfifottl" => TubeKind::LimFifoTtl,
        "utube" => TubeKind::Utube,
        "utubettl" => TubeKind::UtubeTtl,
        kind => panic!("a tube of kind {kind}"),
    });
    for word in words {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse::<u32>().unwrap();
        let time = || secs(number().into());
        options = match word {
            "temporary" => options.temporary(true),
            "priority" => options.priority(value.parse().unwrap()),
            "ttl" => options.ttl(time()),
            "ttr" => options.ttr(time()),
            "capacity" => options.capacity(number().into()),
            "attempts" => options.max_attempts(number()),
            "backoff" => options.backoff(Backoff::doubling(time()).factor(3).at_most(secs(100))),
            "linear" => options.backoff(Backoff::linear(time()).jitter(25)),
            "higher" => options.higher_first(true),
            "kept" => options.keep_finished(Retention::new().count(number().into()).age(secs(900))),
            "aside" => options.keep_buried(Retention::new().bytes(number().into())),
            "in_flight" => options.in_flight(number()),
            "limit" => options.limit(number().into()),
            "holding" => options.hold_group_while_delayed(true),
            "sparing" => options.ttl_spares_buried(true),
            "placement" => options.placement(value),
            "unique" => options.unique(Unique::new().in_queue(true)),
            "grace" => options.lapse(Lapse::new().grace(time()).to(ReturnTo::Back)),
            "few" => options.history(HistoryLimits::new().entries(number())),
            "dropping" => options.drop_payloads(true),
            "kinds" => options.index_kinds(true),
            "book" => options.book(value),
            "days" => options.keep_days(number()),
            "throttle" => options.throttle(value),
            "require" => options.require(value),
            "rate" => options.rate(Rate::new(number()).burst(number())),
            "hours" if value.is_empty() => options.hours("Mon-Sun 06:00-18:00".parse().unwrap()),
            "hours" => options.hours(value.replace('_', " ").parse().unwrap()),
            word => panic!("an option {word}"),
        };
    }
    options
}

/// The tubes that a text lists.
pub(crate) fn tubes_of(text: &str) -> Tubes {
    let tubes = text.lines().filter_map(|line| line.strip_prefix("tube ")?.split_once(": "));
    tubes.map(|(name, words)| (name.to_owned(), words.to_owned())).collect()
}

/// Everything that is visible.
pub(crate) fn describe(queue: &Queue, tubes: &Tubes) -> String {
    let mut text = String::new();
    for name in queue.tubes().unwrap() {
        let tube = queue.find_tube(&name).unwrap().unwrap();
        let info = tube.info().unwrap();
        let words = tubes.get(&name).map_or("unknown", String::as_str);
        if words != "unknown" && options(words) == info.options {
            writeln!(text, "tube {name}: {words}").unwrap();
        } else {
            writeln!(text, "tube {name}: {words}, and it has {:?}", info.options).unwrap();
        }
        match info.pause_left {
            Some(left) => writeln!(text, "  paused, {left:?} left").unwrap(),
            None if info.paused => writeln!(text, "  paused").unwrap(),
            None => {}
        }
        let stats = info.stats;
        for (state, reported, count) in [
            (State::Ready, "ready", stats.ready),
            (State::Delayed, "delayed", stats.delayed),
            (State::Taken, "taken", stats.taken),
            (State::Buried, "buried", stats.buried),
            (State::Done, "done", stats.finished),
        ] {
            let tasks: Vec<_> = tube.tasks(state).map(Result::unwrap).collect();
            assert_eq!(tasks.len() as u64, count, "{reported} tasks of {name}");
            for task in tasks {
                assert_eq!((&*task.tube, task.state), (&*name, state));
                let mut again = tube.peek(task.id).unwrap();
                // A listing does not look for them.
                again.summary.dependencies.first.clear();
                again.summary.dependents.first.clear();
                assert_eq!(format!("{again:?}"), format!("{task:?}"));
                writeln!(text, "  {reported} {}", line(&task)).unwrap();
            }
        }
    }
    for taken in queue.taken().unwrap() {
        let holder = taken.holder.as_deref().unwrap_or("nobody known");
        writeln!(text, "held {} of {} by {holder}", taken.id, taken.tube).unwrap();
    }
    writeln!(text, "payloads: {} bytes", queue.space().unwrap().durable_bytes).unwrap();
    text + &app_rows(queue)
}

/// One task. A field that is not listed is empty, zero or without end.
fn line(task: &TaskInfo) -> String {
    let mut text = format!("{} {}", task.id, payload(&task.payload));
    let mut tell = |part: String| {
        text.push_str(", ");
        text.push_str(&part);
    };
    let at = |time: SystemTime| time.duration_since(written()).unwrap();
    tell(format!("put at {:?}", at(task.created)));
    if task.priority != 0 {
        tell(format!("priority {}", task.priority));
    }
    for (what, name) in [("group", &task.group), ("key", &task.key), ("holder", &task.holder)] {
        name.iter().for_each(|name| tell(format!("{what} {name}")));
    }
    task.due.iter().for_each(|due| tell(format!("due at {:?}", at(*due))));
    let times = [("lives", task.ttl_left), ("ttr", task.ttr), ("lease", task.lease_left)];
    for (what, length) in times {
        length.iter().for_each(|length: &Duration| tell(format!("{what} {length:?}")));
    }
    for (what, count) in [
        ("deliveries", task.deliveries),
        ("attempts", task.attempts),
        ("releases", task.releases),
        ("buries", task.buries),
    ] {
        if count != 0 {
            tell(format!("{what} {count}"));
        }
    }
    match &task.reason {
        None => {}
        Some(Reason::Buried(words)) => tell(format!("because {words:?}")),
        Some(Reason::Failed { group, message }) => tell(format!("failed {group:?} {message:?}")),
        Some(Reason::Exhausted { group, message })
            if group.is_empty() || *group == format!("failed-retries-{}", task.tube) =>
        {
            tell(format!("exhausted {message:?}"));
        }
        Some(Reason::Exhausted { group, message }) => {
            tell(format!("exhausted {group:?} {message:?}"));
        }
        Some(Reason::Undecodable(words)) => tell(format!("undecodable {words:?}")),
        Some(other) => tell(format!("{other:?}")),
    }
    task.passed.iter().for_each(|passed| tell(format!("passed {}", payload(passed))));
    task.result.iter().for_each(|result| tell(format!("result {}", payload(result))));
    task.finished.iter().for_each(|when| tell(format!("finished at {:?}", at(*when))));
    if let Some(failure) = &task.last_failure {
        tell(format!("last error {:?}", failure.message));
        failure.group.iter().for_each(|group| tell(format!("failure group {group:?}")));
        failure.at.iter().for_each(|when| tell(format!("failed at {:?}", at(*when))));
        failure.by.iter().for_each(|by| tell(format!("failed by {by}")));
    }
    text
}

fn payload(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        _ if bytes.len() > 100 && bytes.iter().all(|byte| *byte == bytes[0]) => {
            format!("{} times {:02x}", bytes.len(), bytes[0])
        }
        Ok(text) if text.chars().all(|char| !char.is_control()) => format!("{text:?}"),
        _ if bytes.len() > 100 => {
            format!("{} bytes, checksum {:x}", bytes.len(), xxhash_rust::xxh3::xxh3_64(bytes))
        }
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// The rows of an application's tables, if there are some.
fn app_rows(queue: &Queue) -> String {
    let digests = queue.read(|r| -> Result<String> {
        let mut text = String::new();
        for row in r.table(DIGESTS)?.iter()? {
            let (key, value) = row?;
            writeln!(text, "digests {} = {}", key.value(), value.value()).unwrap();
        }
        Ok(text)
    });
    let notes = queue.read(|r| -> Result<String> {
        let mut text = String::new();
        for row in r.table(NOTES)?.iter()? {
            let (key, value) = row?;
            writeln!(text, "notes {} = {}", key.value(), payload(value.value())).unwrap();
        }
        Ok(text)
    });
    // A queue of an application without tables has none to read.
    digests.unwrap_or_default() + &notes.unwrap_or_default()
}

/// Finishes every task, by every way that a task can be taken, and returns their order.
pub(crate) fn work_off(queue: &Queue, clock: &ManualClock) -> String {
    let mut text = String::new();
    let mut reported = |what: &str, tube: &Tube, tasks: Vec<TaskId>| {
        if !tasks.is_empty() {
            let tasks: Vec<_> = tasks.iter().map(TaskId::to_string).collect();
            writeln!(text, "{what} {}: {}", tube.name(), tasks.join(" ")).unwrap();
        }
    };
    let names = queue.tubes().unwrap();
    let tubes: Vec<_> = names.iter().map(|name| queue.tube(name).unwrap()).collect();
    let mut holders: Vec<_> =
        queue.taken().unwrap().into_iter().filter_map(|taken| taken.holder).collect();
    holders.dedup();
    for holder in holders {
        let consumer = queue.consumer(&holder).unwrap();
        for tube in &tubes {
            let tasks = consumer.resume(tube).map(Result::unwrap);
            reported(&format!("resumed by {holder} from"), tube, acked(tasks));
        }
    }
    for tube in &tubes {
        tube.resume().unwrap();
        reported("taken from", tube, drained(tube));
        tube.kick(u64::MAX).unwrap();
        reported("kicked in", tube, drained(tube));
    }
    for _ in 0..3 {
        clock.advance(secs(86_400));
        queue.tick().unwrap();
        for tube in &tubes {
            reported("later from", tube, drained(tube));
        }
    }
    for tube in &tubes {
        assert!(tube.is_empty().unwrap(), "{} is not empty", tube.name());
        let new = tube.put(b"new").unwrap();
        reported("new in", tube, vec![new]);
        assert_eq!(drained(tube), [new]);
    }
    text
}

/// Lets time pass, and returns when leases stop waiting for their consumer.
pub(crate) fn graces(queue: &Queue, clock: &ManualClock) -> String {
    let mut text = String::new();
    for second in 1..=1000 {
        let before = queue.taken().unwrap();
        if before.is_empty() {
            break;
        }
        clock.advance(secs(1));
        queue.tick().unwrap();
        let after = queue.taken().unwrap();
        for gone in before.iter().filter(|was| after.iter().all(|is| is.id != was.id)) {
            writeln!(text, "let go of {} after {second}s", gone.id).unwrap();
        }
    }
    text
}

fn drained(tube: &Tube) -> Vec<TaskId> {
    acked(std::iter::from_fn(|| tube.try_take().unwrap()))
}

fn acked(tasks: impl IntoIterator<Item = Task>) -> Vec<TaskId> {
    let ack = |task: Task| {
        let id = task.id();
        task.ack().unwrap();
        id
    };
    tasks.into_iter().map(ack).collect()
}
