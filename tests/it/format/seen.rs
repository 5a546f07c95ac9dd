//! Compares the content of a folder with what the library shows after opening it.

use super::days;
use super::rows::{Failure, Kept, Progress, Reason, State, TubeRow};
use super::tasks::{Contents, Stored};
use crate::golden::listing;
use crate::secs;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tubewell::{
    Backoff, HistoryLimits, Lapse, Queue, Rate, Retention, ReturnTo, TaskInfo, TubeKind,
    TubeOptions, Unique,
};

const NEVER: u64 = u64::MAX;

/// The kinds of tubes in the order of their numbers.
const KINDS: [TubeKind; 6] = [
    TubeKind::General,
    TubeKind::Fifo,
    TubeKind::FifoTtl,
    TubeKind::LimFifoTtl,
    TubeKind::Utube,
    TubeKind::UtubeTtl,
];

/// A task, as both show it.
#[derive(Debug, PartialEq)]
struct Seen {
    state: tubewell::State,
    payload: Vec<u8>,
    replaced: u32,
    dropped: bool,
    priority: i64,
    created: u64,
    group: Option<String>,
    gates: String,
    key: Option<String>,
    kind: Option<String>,
    book: Option<String>,
    details: BTreeMap<String, String>,
    passed: Option<Vec<u8>>,
    holder: Option<String>,
    due: Option<u64>,
    ttl_left: Option<Duration>,
    ttr: Option<Duration>,
    counts: [u64; 4],
    max_attempts: Option<u32>,
    reason: Option<Reason>,
    failure: Option<(String, Option<u64>, String, String)>,
    finished: Option<u64>,
    result: Option<Vec<u8>>,
}

fn micros(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// When the folder is opened.
fn now() -> u64 {
    micros(listing::written() + secs(60))
}

/// The gates of a task as the name of a line.
fn gates(task: &TaskInfo) -> String {
    let conditions = task.requires.iter().map(|name| format!("\u{1}{name}"));
    let throttles = task.throttles.iter().map(|name| format!("\u{2}{name}"));
    conditions.chain(throttles).collect()
}

/// The group of a stored task and its gates: one that stands in a line of gates is of no group.
fn group_and_gates(task: &Stored) -> (Option<String>, String) {
    match task.group.clone().filter(|group| !group.is_empty()) {
        Some(line) if line.starts_with(['\u{1}', '\u{2}']) => (None, line),
        group => (group, task.progress.gates.clone().unwrap_or_default()),
    }
}

fn shown(task: &TaskInfo) -> Seen {
    let text = |text: &String| text.clone();
    Seen {
        state: task.state,
        payload: task.payload.to_vec(),
        replaced: task.payload_generation,
        dropped: task.payload_dropped,
        priority: task.priority,
        created: micros(task.created),
        group: task.group.clone(),
        gates: gates(task),
        key: task.key.as_ref().map(ToString::to_string),
        kind: task.kind.clone(),
        book: task.book.clone(),
        details: task.details.clone(),
        passed: task.passed.clone(),
        holder: task.holder.as_ref().map(ToString::to_string),
        due: task.due.map(micros),
        ttl_left: task.ttl_left,
        ttr: task.ttr,
        counts: [task.deliveries, task.attempts, task.releases, task.buries].map(u64::from),
        max_attempts: task.max_attempts,
        reason: task.reason.as_ref().map(|reason| match reason {
            tubewell::Reason::Buried(words) => Reason::Buried(text(words)),
            tubewell::Reason::Failed { group, message } => {
                Reason::Failed(text(group), text(message))
            }
            tubewell::Reason::Exhausted { group, message } => {
                Reason::Exhausted(text(group), text(message))
            }
            tubewell::Reason::Undecodable(words) => Reason::Undecodable(text(words)),
            tubewell::Reason::Trashed(words) => Reason::Trashed(text(words)),
            other => panic!("{other:?}"),
        }),
        failure: task.last_failure.as_ref().map(|failure| {
            let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
            let (by, group) = (or_empty(&failure.by), or_empty(&failure.group));
            (failure.message.clone(), failure.at.map(micros), by, group)
        }),
        finished: task.finished.map(micros),
        result: task.result.clone(),
    }
}

/// What an opening does with a task: leases without a holder end, and due work is done. None if its
/// ttl is over.
fn found(task: &Stored, tube: &TubeRow, contents: &Contents) -> Option<Seen> {
    let (progress, (group, gates)) = (&task.progress, group_and_gates(task));
    let max_attempts = progress.max_attempts.unwrap_or(tube.max_attempts);
    let mut buries = progress.buries;
    let (mut due, mut holder, mut reason, mut finished) = (None, None, None, None);
    let (mut state, mut counts_from, mut spared) = (tubewell::State::Ready, now(), false);
    match &task.state {
        State::Ready => {}
        State::Delayed { due: when, .. } if *when <= now() => {}
        State::Delayed { due: when, .. } => {
            state = tubewell::State::Delayed;
            (due, counts_from) = (Some(*when), *when);
        }
        State::Blocked { since, .. } => {
            state = tubewell::State::Blocked;
            counts_from = *since;
        }
        State::Taken { holder: by, .. } => {
            let by = by.map(|by| &contents.consumers[&by]).filter(|by| by.grace > 0);
            if let Some(by) = by.filter(|by| by.until > now()) {
                state = tubewell::State::Taken;
                holder = Some(by.name.clone());
            } else if (1..=progress.attempts).contains(&max_attempts) {
                state = tubewell::State::Buried;
                let group = progress.failure.as_ref().map(|failure| failure.group.clone());
                let group = group.filter(|group| !group.is_empty());
                let group = group.unwrap_or_else(|| format!("failed-retries-{}", tube.name));
                let message = progress.last_error.clone().unwrap_or_default();
                reason = Some(Reason::Exhausted(group, message));
                buries += 1;
            }
        }
        State::Buried { reason: why, .. } => {
            state = tubewell::State::Buried;
            reason = Some(why.clone());
            spared = tube.flags & 8 != 0;
        }
        State::Done { time, result, .. } => {
            state = tubewell::State::Done;
            spared = true;
            finished = Some((*time, result.clone()));
        }
    }
    if progress.kept_until.is_some_and(|until| until <= now()) && !task.is_held() {
        return None;
    }
    if progress.expires.is_some_and(|when| when <= counts_from) && !spared {
        return None;
    }
    let left = |when: u64| Duration::from_micros(when.saturating_sub(counts_from));
    // Ahead of every priority it keeps its own.
    let priority = progress.own.as_ref().unwrap_or(&task.place).priority;
    Some(Seen {
        state,
        payload: task.payload.clone(),
        replaced: task.replaced,
        dropped: task.dropped,
        priority: if tube.flags & 32 != 0 { !priority } else { priority },
        created: task.created,
        group,
        gates,
        key: task.key.clone(),
        kind: task.kind.clone(),
        book: task.book.clone().or(tube.book.clone()),
        details: tube.details.clone().into_iter().chain(task.details.clone()).collect(),
        passed: task.passed.clone(),
        holder,
        due,
        ttl_left: progress.expires.filter(|_| state != tubewell::State::Done).map(left),
        ttr: progress.ttr.map(Duration::from_micros),
        counts: [progress.deliveries, progress.attempts, progress.releases, buries].map(u64::from),
        max_attempts: Some(max_attempts).filter(|most| *most > 0),
        reason,
        failure: last_failure(progress),
        finished: finished.as_ref().map(|(time, _)| *time),
        result: finished.and_then(|(_, result)| result),
    })
}

fn last_failure(progress: &Progress) -> Option<(String, Option<u64>, String, String)> {
    let message = progress.last_error.clone();
    match &progress.failure {
        None => message.map(|message| (message, None, String::new(), String::new())),
        Some(Failure { when, by, group }) => {
            Some((message.unwrap_or_default(), Some(*when), by.clone(), group.clone()))
        }
    }
}

fn options(row: &TubeRow) -> TubeOptions {
    let mut options = TubeOptions::new(KINDS[usize::from(row.kind)])
        .temporary(row.flags & 2 != 0)
        .hold_group_while_delayed(row.flags & 4 != 0)
        .ttl_spares_buried(row.flags & 8 != 0)
        .higher_first(row.flags & 32 != 0)
        .priority(row.priority)
        .max_attempts(row.max_attempts)
        .in_flight(row.in_flight)
        .limit(row.limit);
    if let Some((place, openings)) = &row.hours {
        // As a text that names each opening, of at most a day.
        let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        let time = |minutes: u16| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        let shown = openings.iter().map(|(from, to)| {
            let day = days[usize::from(from / 1440)];
            format!("{day} {}-{}", time(from % 1440), time(to % 1440))
        });
        let text = format!("{} {place}", shown.collect::<Vec<_>>().join(","));
        options = options.hours(text.parse().unwrap());
    }
    for condition in &row.required {
        options = options.require(condition);
    }
    for throttle in &row.throttles {
        options = options.throttle(throttle);
    }
    if let Some((per, tasks, burst)) = row.rate {
        let rate = Rate::new(tasks).per(Duration::from_micros(per));
        options = options.rate(rate.burst(burst));
    }
    if row.ttl != NEVER {
        options = options.ttl(Duration::from_micros(row.ttl));
    }
    if row.ttr != NEVER {
        options = options.ttr(Duration::from_micros(row.ttr));
    }
    if row.capacity != 0 {
        options = options.capacity(row.capacity);
    }
    if !row.placement.is_empty() {
        options = options.placement(&row.placement);
    }
    let retention = |[age, count, bytes]: Kept| {
        let mut kept = Retention::new();
        if age != NEVER {
            kept = kept.age(Duration::from_micros(age));
        }
        if count != NEVER {
            kept = kept.count(count);
        }
        if bytes == NEVER { kept } else { kept.bytes(bytes) }
    };
    let [finished, buried] = row.kept.map(|kept| kept.map(retention));
    if let Some(kept) = finished {
        options = options.keep_finished(kept);
    }
    if let Some(kept) = buried {
        options = options.keep_buried(kept);
    }
    if let Some((entries, bytes)) = row.history {
        options = options.history(HistoryLimits::new().entries(entries).bytes(bytes));
    }
    if let Some(book) = &row.book {
        options = options.book(book);
    }
    for (name, text) in &row.details {
        options = options.detail(name, text);
    }
    let (first, factor, most) = row.backoff;
    let [first, most] = [first, most].map(Duration::from_micros);
    let (step, jitter) = row.grows;
    let grown = match step {
        0 => Backoff::doubling(first),
        step => Backoff::linear(Duration::from_micros(step)),
    };
    if let Some(lapse) = &row.lapse {
        let to = match lapse.to {
            1 => ReturnTo::Place,
            2 => ReturnTo::Front,
            3 => ReturnTo::Back,
            _ => ReturnTo::After(Duration::from_micros(lapse.delay.unwrap_or(0))),
        };
        let grace =
            if lapse.grace == NEVER { Duration::MAX } else { Duration::from_micros(lapse.grace) };
        options = options.lapse(Lapse::new().grace(grace).to(to).charged(!lapse.free));
    }
    let (in_queue, states) = row.unique;
    let counts = |bit: u8| states & bit != 0;
    let unique = Unique::new().delayed(counts(1)).ready(counts(2)).taken(counts(4));
    options
        .unique(unique.buried(counts(8)).done(counts(16)).in_queue(in_queue))
        .drop_payloads(row.drops)
        .index_kinds(row.kinds)
        .keep_days(row.days)
        .backoff(grown.factor(factor).at_most(most).jitter(jitter))
}

/// The queue shows what the rows contain, and nothing else.
pub(crate) fn compare(contents: &Contents, bytes: u64, queue: &Queue) {
    let names: BTreeSet<_> = contents.tubes.values().map(|tube| tube.name.clone()).collect();
    let shown_names: BTreeSet<_> = queue.tubes().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(shown_names, names);
    let conditions = queue.conditions().unwrap().into_iter().map(|it| (it.name, it.is_set));
    assert_eq!(conditions.collect::<BTreeMap<_, _>>(), contents.conditions);
    let throttles = queue.throttles().unwrap();
    assert_eq!(throttles.len(), contents.throttles.len());
    for throttle in throttles {
        let (run, limit, _) = contents.throttles[&throttle.name];
        let held = contents.tasks.values().filter(|task| task.progress.slots.contains(&run));
        assert_eq!(throttle.limit, limit);
        // An opening returns leases that no consumer holds.
        assert!(throttle.in_flight <= held.count() as u64);
    }
    let mut gone = 0;
    for row in contents.tubes.values() {
        let tube = queue.find_tube(&row.name).unwrap().unwrap();
        let info = tube.info().unwrap();
        assert_eq!(info.options, options(row), "{}", row.name);
        assert_eq!(info.paused, row.flags & 1 != 0, "{}", row.name);

        let days = tube.days().unwrap();
        let last = days.last().copied();
        let shown_days = days.into_iter().map(|day| {
            let of = tube.statistics(day).unwrap().unwrap();
            // The opening has returned leases, each of which is a retry.
            let returned = if last == Some(day) { info.stats.calls.lost } else { 0 };
            let waits = (of.waits.count(), of.waits.total().as_micros());
            let runs = (of.runs.count(), of.runs.total().as_micros());
            (day, [of.failures, of.failed, of.retries - returned], waits, runs)
        });
        let of_run = contents.days.range((row.run, 0)..=(row.run, u32::MAX));
        let stored = of_run.map(|((_, day), of)| {
            let waits = (of.waits.count, of.waits.sum);
            let runs = (of.runs.count, of.runs.sum);
            let failed = days::failed(&contents.tasks, (row.run, *day), of);
            (*day, [of.failures, failed, of.retries], waits, runs)
        });
        assert_eq!(shown_days.collect::<Vec<_>>(), stored.collect::<Vec<_>>(), "{}", row.name);

        let mut of_tube = BTreeMap::new();
        for ((_, id), task) in contents.tasks.range((row.run, 0)..=(row.run, NEVER)) {
            match found(task, row, contents) {
                Some(seen) => drop(of_tube.insert(id.to_string(), seen)),
                None => gone += task.payload.len() as u64,
            }
        }
        let mut shown_tasks = BTreeMap::new();
        use tubewell::State::{Blocked, Buried, Delayed, Done, Ready, Taken};
        for state in [Ready, Delayed, Blocked, Taken, Buried, Done] {
            for task in tube.tasks(state) {
                let task = task.unwrap();
                shown_tasks.insert(task.id.to_string(), shown(&task));
                assert_eq!(shown(&tube.peek(task.id).unwrap()), shown(&task));
            }
        }
        for task in tube.trashed() {
            let task = tube.peek(task.unwrap().id).unwrap();
            shown_tasks.insert(task.id.to_string(), shown(&task));
        }
        for id in shown_tasks.keys().chain(of_tube.keys()) {
            assert_eq!(shown_tasks.get(id), of_tube.get(id), "task {id} of {}", row.name);
        }
    }
    assert_eq!(queue.space().unwrap().durable_bytes, bytes - gone);
}
