//! Reads that change nothing: tubes, tasks, counts. Bounded; a listing reads pages.

pub(crate) use crate::engine::context::tube;
use crate::engine::context::{damaged, decoded, sound};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{fresh, lookup};
use crate::format::key::{self, Key, RUN_PREFIX, Range, Run};
use crate::format::row::{ConsumerRow, Counters, DelayedRow, TakenRow};
use crate::format::{Deadline, Met, Scan, Tag, Value, View, row};
use crate::words::clock::{NEVER, Now};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::{State, TaskId};

/// The number of the tube of this name. If the name row is damaged, the tubes are searched.
pub(crate) fn tube_named(view: &dyn View, name: &str) -> Result<Option<u32>> {
    let lost = match numbered(view.get(&key::name(name)), "name") {
        Err(error) if error.kind() == ErrorKind::Damaged => error,
        number => return number,
    };
    for number in numbers(view)? {
        if sound_tube(view, number)?.is_some_and(|tube| tube.row.name == name) {
            return Ok(Some(number));
        }
    }
    Err(lost)
}

/// The number of a tube or a consumer in the row of its name.
pub(crate) fn numbered(row: Result<Option<Value>>, what: &str) -> Result<Option<u32>> {
    decoded(row, |row| row::read_number(row)?.try_into().ok(), what)
}

/// The tube of this number; `None` if its row is damaged. Calls about all tubes leave such a tube
/// out: its own verbs are refused, and those of the others work.
pub(crate) fn sound_tube(view: &dyn View, number: u32) -> Result<Option<TubeEntry>> {
    sound(tube(view, number))
}

/// The counters of the whole queue.
pub(crate) fn counters(view: &dyn View) -> Result<Counters> {
    let row = view.get(&key::meta(Counters::WHAT));
    Ok(decoded(row, Counters::decode, "counters")?.unwrap_or_default())
}

/// Draws the next number of a counter, of which `most` is the last.
///
/// # Errors
/// `Invalid` if no number is left.
pub(crate) fn next_number(counter: &mut u32, most: u32, what: &str) -> Result<u32> {
    let next = counter.checked_add(1).filter(|next| *next <= most);
    *counter = next.ok_or_else(|| {
        Error::new(ErrorKind::Invalid).because(format!("no number is left for another {what}"))
    })?;
    Ok(*counter)
}

/// Draws a run that no tube and no throttle has had.
pub(crate) fn next_run(counters: &mut Counters, temporary: bool) -> Result<Run> {
    let run = next_number(&mut counters.run, Run::TEMPORARY - 1, "run of a tube")?;
    Ok(Run(if temporary { run | Run::TEMPORARY } else { run }))
}

/// The consumer of this number; `None` if it was closed.
pub(crate) fn consumer(view: &dyn View, number: u32) -> Result<Option<ConsumerRow>> {
    decoded(view.get(&key::consumer(number)), ConsumerRow::decode, "consumer")
}

/// The number of the consumer of this name; `None` if no such consumer is known.
pub(crate) fn consumer_named(view: &dyn View, name: &str) -> Result<Option<u32>> {
    numbered(view.get(&key::consumer_name(name)), "consumer")
}

/// The consumer of this number, if it may get leases. No call would return a lease that it got
/// after the end of its session.
///
/// # Errors
/// `Closed` if its session has ended.
pub(crate) fn open_consumer(view: &dyn View, number: u32) -> Result<ConsumerRow> {
    let open = consumer(view, number)?.filter(|row| row.until == NEVER);
    open.ok_or_else(consumer_closed)
}

/// The error of a verb of a consumer that was closed.
pub(crate) fn consumer_closed() -> Error {
    Error::new(ErrorKind::Closed).because("the consumer was closed; open it again")
}

/// The number in the key of a tube or of a consumer.
pub(crate) fn number_in(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.get(1..5)?.try_into().ok()?))
}

/// The numbers of all tubes, in the order in which the tubes were made.
pub(crate) fn numbers(view: &dyn View) -> Result<Vec<u32>> {
    let mut rows = Scan::over(Range::of(Tag::Tube));
    let mut numbers = Vec::new();
    while let Some((met, _)) = rows.next(view)? {
        numbers.push(number_in(&met).ok_or_else(|| damaged("tube"))?);
    }
    Ok(numbers)
}

/// Up to `most` of these numbers, from this one on, and the number to continue with.
pub(crate) fn numbers_from(
    view: &dyn View,
    first: u32,
    most: usize,
) -> Result<(Vec<u32>, Option<u32>)> {
    let mut rows = Scan::over(Range::of(Tag::Tube));
    rows.skip_to(key::tube(first));
    let mut numbers = Vec::new();
    while let Some((met, _)) = rows.next(view)? {
        let number = number_in(&met).ok_or_else(|| damaged("tube"))?;
        if numbers.len() == most {
            return Ok((numbers, Some(number)));
        }
        numbers.push(number);
    }
    Ok((numbers, None))
}

/// Whether the tube has this task.
///
/// # Errors
/// `Damaged` if one of its rows is damaged.
pub(crate) fn has(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<bool> {
    match lookup::find(view, tube, id) {
        Err(error) if error.is_not_found() => Ok(false),
        found => found.map(|_| true),
    }
}

/// The state of a task, if the tube has it.
///
/// # Errors
/// `Damaged` if one of its rows is damaged.
pub(crate) fn state(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<Option<State>> {
    match lookup::find(view, tube, id) {
        Err(error) if error.is_not_found() => Ok(None),
        found => found.map(|(_, state)| Some(state.state())),
    }
}

/// Whether the tube has this task, and the task's rows can be read.
pub(crate) fn has_whole(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<bool> {
    let found = lookup::find(view, tube, id).and_then(|(stored, _)| stored.whole(view, tube));
    match found {
        Err(error) if error.is_not_found() || error.kind() == ErrorKind::Damaged => Ok(false),
        found => found.map(|_| true),
    }
}

/// Whether an id is tracked. Where none is, no row is read.
pub(crate) fn is_tracked(view: &dyn View, id: TaskId) -> Result<bool> {
    if view.count(Range::of(Tag::Tracked)) == 0 {
        return Ok(false);
    }
    // Only by `get`: a listing reads the rows beside a task by their keys.
    Ok(sound(view.get(&key::tracked(id)))?.flatten().is_some())
}

/// The tube that the row of a task which came from another tube leads to.
pub(crate) fn moved_to(view: &dyn View, id: TaskId) -> Result<Option<u32>> {
    for run in Run::BOTH {
        let key = key::moved(run, id);
        if Range::holding(&key).is_some_and(|range| view.count(range) > 0)
            && let Some(number) = sound(numbered(view.get(&key), "moved"))?.flatten()
        {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// The same numbers without those of tubes whose row is damaged.
pub(crate) fn sound_numbers(view: &dyn View) -> Result<Vec<u32>> {
    let mut sound = Vec::new();
    for number in numbers(view)? {
        sound.extend(sound_tube(view, number)?.map(|tube| tube.number));
    }
    Ok(sound)
}

/// The names of all tubes, sorted.
pub(crate) fn names(view: &dyn View) -> Result<Vec<String>> {
    names_from(view, "", "", usize::MAX).map(|(names, _)| names)
}

/// Up to `most` of the tubes' names that begin with `prefix`, sorted, from the name `from` on, and
/// the name to continue with.
pub(crate) fn names_from(
    view: &dyn View,
    prefix: &str,
    from: &str,
    most: usize,
) -> Result<(Vec<String>, Option<String>)> {
    let mut rows = Scan::prefixed(key::name(prefix));
    rows.skip_to(key::name(from));
    let mut names = Vec::new();
    while let Some((met, _)) = rows.next(view)? {
        let name = met.get(1..).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.ok_or_else(|| damaged("name"))?.to_owned();
        if names.len() == most {
            return Ok((names, Some(name)));
        }
        names.push(name);
    }
    Ok((names, None))
}

/// The stored number of a tube's tasks.
pub(crate) fn tasks(view: &dyn View, tube: &TubeEntry) -> u64 {
    view.count_all(tube.run(), &Tag::TASKS)
}

/// The stored number of a tube's tasks in the trash.
pub(crate) fn trashed(view: &dyn View, tube: &TubeEntry) -> u64 {
    view.count(tube.range(Tag::Trashed))
}

/// The stored number of the tasks that count against a tube's capacity: all that are not finished
/// and not in the trash.
pub(crate) fn at_work(view: &dyn View, tube: &TubeEntry) -> u64 {
    let others = trashed(view, tube) + view.count(tube.range(Tag::Done));
    tasks(view, tube).saturating_sub(others)
}

/// Whether a tube has fewer places than so many tasks need.
pub(crate) fn lacks_places(view: &dyn View, number: u32, tasks: usize) -> Result<bool> {
    let tube = tube(view, number)?;
    let after = at_work(view, &tube).saturating_add(tasks as u64);
    Ok(tube.row.options.capacity.is_some_and(|capacity| after > capacity))
}

/// The stored number of a tube's tasks in a state; those in the trash are in none. Fresh tasks have
/// no row that says so: all tasks that are in no other state are ready.
pub(crate) fn count(view: &dyn View, tube: &TubeEntry, state: State) -> u64 {
    let rows = |tags: &mut dyn Iterator<Item = Tag>| -> u64 {
        tags.map(|tag| view.count(tube.range(tag))).sum()
    };
    match state {
        State::Ready => {
            let mut others = Tag::states().filter(|tag| tag.state() != Some(State::Ready));
            tasks(view, tube).saturating_sub(rows(&mut others))
        }
        state => rows(&mut tags_of(state)),
    }
}

/// How many tasks of a tube are stalled, by their rows. Reads all leases.
///
/// # Errors
/// `Damaged` if the row of one is damaged.
pub(crate) fn stalled(view: &dyn View, tube: &TubeEntry) -> Result<u64> {
    let mut rows = Scan::over(tube.range(Tag::Taken));
    let mut stalled = 0;
    while let Some((_, row)) = rows.next(view)? {
        let row = row.as_deref().and_then(TakenRow::decode);
        let (_, (taken, _)) = row.ok_or_else(|| damaged("taken"))?;
        stalled += u64::from(taken.is_stalled());
    }
    Ok(stalled)
}

/// The name of the consumer of this number; `None` for 0.
pub(crate) fn holder(view: &dyn View, number: u32) -> Result<Option<String>> {
    match number {
        0 => Ok(None),
        number => Ok(sound(consumer(view, number))?.flatten().map(|row| row.name)),
    }
}

/// The tags of a state's tasks, in the order of a listing. Those in the trash are left out.
pub(crate) fn tags_of(state: State) -> impl Iterator<Item = Tag> {
    Tag::states().filter(move |tag| tag.state() == Some(state) && *tag != Tag::Trashed)
}

/// The task of a state that the next verb would use first.
pub(crate) fn next(
    view: &dyn View,
    tube: &TubeEntry,
    state: State,
    now: Now,
) -> Result<Option<TaskId>> {
    let start = |tag| tube.range(tag).start();
    Ok(match state {
        State::Ready => first_ready(view, tube)?,
        State::Delayed | State::Taken => match next_due(view, tube, state, now)? {
            // What has no end has no deadline: such a task is next only if there is no other.
            None => first_of(view, tags_of(state).map(start))?,
            id => id,
        },
        state => first_of(view, tags_of(state).map(start))?,
    })
}

/// The ready task that would be taken first. Of the groups only those that may be taken from.
pub(crate) fn first_ready(view: &dyn View, tube: &TubeEntry) -> Result<Option<TaskId>> {
    let mut best: Option<Key> = None;
    for tag in [Tag::Fresh, Tag::Ready, Tag::OpenHead] {
        let range = tube.range(tag);
        let from = if tag == Tag::Fresh { fresh::known(view, tube)? } else { range.start() };
        if let Some((met, _)) = view.first(&from, &range.end())? {
            let rest = Key::from_slice(met.get(RUN_PREFIX..).unwrap_or_default());
            best = best.into_iter().chain([rest]).min();
        }
    }
    best.map(|rest| key::id_of(&rest).ok_or_else(|| damaged("state"))).transpose()
}

/// The delayed or taken task that waits for the shortest time from now on. The deadlines of two
/// clocks cannot be compared, the times that are left can. Of two of one time a delay is first.
fn next_due(view: &dyn View, tube: &TubeEntry, of: State, now: Now) -> Result<Option<TaskId>> {
    let mut best: Option<(u64, TaskId)> = None;
    for what in Deadline::of_state(of).iter().copied() {
        let first = Scan::prefixed(key::due_of(tube.run(), what)).next(view)?;
        let Some((met, _)) = first else { continue };
        let due = key::id_of(&met).zip(key::when_of(&met));
        let (id, when) = due.ok_or_else(|| damaged("due"))?;
        let left = when.saturating_sub(what.time_of(now));
        if best.is_none_or(|(first, _)| left < first) {
            best = Some((left, id));
        }
    }
    Ok(best.map(|(_, id)| id))
}

/// The task with the first key of these prefixes, by what comes after the prefix.
fn first_of(view: &dyn View, prefixes: impl IntoIterator<Item = Key>) -> Result<Option<TaskId>> {
    let mut best: Option<Key> = None;
    for prefix in prefixes {
        if let Some((met, _)) = Scan::prefixed(key::copy(&prefix)).next(view)? {
            let rest = Key::from_slice(met.get(prefix.len()..).unwrap_or_default());
            best = best.into_iter().chain([rest]).min();
        }
    }
    best.map(|rest| key::id_of(&rest).ok_or_else(|| damaged("state"))).transpose()
}

/// The keys from `from` on of the first range in which tasks of a state are left.
pub(crate) fn listed_range(tube: &TubeEntry, state: State, from: &Key) -> Option<(Key, Key)> {
    let mut left = tags_of(state).map(|tag| {
        let range = tube.range(tag);
        (range.start().max(key::copy(from)), range.end())
    });
    left.find(|(start, end)| start < end)
}

/// Whether a row is of a delayed or a taken task without an end, to which no deadline leads.
pub(crate) fn is_endless((met, row): &Met) -> bool {
    let Some(row) = row.as_deref() else { return false };
    let is_of = |tag: Tag| met.first() == Some(&(tag as u8));
    is_of(Tag::Delayed) && DelayedRow::decode(row).is_some_and(|(_, (row, _))| row.due == NEVER)
        || is_of(Tag::Taken)
            && TakenRow::decode(row).is_some_and(|(_, (row, _))| row.deadline == NEVER)
}
