//! A search: the tasks of a tube that meet a filter, from the first index that the filter names. It
//! looks at some rows and says where to go on, so that no search holds the engine's lock for
//! long. Changes nothing.

use crate::engine::context::{damaged, sound};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{description, fresh, query};
use crate::format::key::{self, Key, RUN_PREFIX, after};
use crate::format::{Deadline, Met, Range, Tag, View, row};
use crate::words::clock::{Now, since_epoch};
use crate::words::error::Result;
use crate::words::filter::Filter;
use crate::words::limits::LABEL_BYTES_MAX;
use crate::words::task::{State, TaskSummary};

/// Rows that one step looks at: 50 µs, and 0.1 ms of a cold base.
const STEP_ROWS: usize = 8;

/// Some of the tasks that a search finds.
pub(crate) struct SearchStep {
    pub(crate) tasks: Vec<TaskSummary>,
    /// Rows that were looked at.
    pub(crate) looked: usize,
    /// Where to go on; `None` at the end.
    pub(crate) next: Option<StepStart>,
}

/// Where a step begins. The default is at the first row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepStart {
    key: Key,
    /// How many ends of leases are still looked at: no more than there were at first, because a
    /// lease that is renewed ends after all that were found. `None` before the first step.
    ends_left: Option<u64>,
}

/// Looks at some rows until `most` tasks are found. Damaged tasks are left out.
pub(crate) fn step(
    view: &dyn View,
    tube: &TubeEntry,
    filter: &Filter,
    from: &StepStart,
    most: usize,
    now: Now,
) -> Result<SearchStep> {
    let index = Index::of(view, tube, filter)?;
    let ends = from.ends_left.unwrap_or_else(|| view.count(tube.range(Tag::Taken)));
    let from = StepStart { key: from.key.clone(), ends_left: Some(ends) };
    let mut found = SearchStep { tasks: Vec::new(), looked: 0, next: Some(from) };
    while let Some(StepStart { key, ends_left }) = found.next.take() {
        if found.looked == STEP_ROWS || found.tasks.len() == most {
            found.next = Some(StepStart { key, ends_left });
            break;
        }
        let Some(row) = index.first(view, tube, &key, ends_left != Some(0))? else { break };
        found.looked += 1;
        let is_end = row.0.first() == Some(&(Tag::Due as u8));
        let ends_left = ends_left.map(|left| left.saturating_sub(u64::from(is_end)));
        found.next = Some(StepStart { key: after(&row.0), ends_left });
        // The end of its lease has led to it.
        if row.0.first() == Some(&(Tag::Taken as u8)) && !query::is_endless(&row) {
            continue;
        }
        if filter.tag.is_some() && is_of_other_tube(tube, &row) {
            continue;
        }
        let id = key::id_of(&row.0).ok_or_else(|| damaged("index"))?;
        match sound(description::info(view, tube, id, now)) {
            Ok(Some(task)) if filter.meets(&task.summary) => found.tasks.push(task.summary),
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Whether a row of the index of tags, which is of the whole queue, leads to a task of another
/// tube.
fn is_of_other_tube(tube: &TubeEntry, (key, row): &Met) -> bool {
    let is_of_tags = Range::holding(key)
        .is_some_and(|range| matches!(range.tag, Tag::Tagged | Tag::TaggedTemporary));
    let number = row.as_deref().and_then(row::read_number);
    is_of_tags && number != Some(u64::from(tube.number))
}

/// The rows that a search reads, each of which leads to a task.
enum Index<'a> {
    /// These ranges, one after the other.
    Ranges(Vec<(Key, Key)>),
    /// The rows of the keys that begin so.
    Keys(&'a str),
    /// The ends of leases, whose keys begin so, and then the taken tasks, of which those without
    /// an end are looked for.
    Leases(Key),
}

impl<'a> Index<'a> {
    fn of(view: &dyn View, tube: &TubeEntry, filter: &'a Filter) -> Result<Self> {
        let prefixed = |prefix: Key| Self::Ranges(vec![(prefix.clone(), key::end_of(&prefix))]);
        if filter.trashed {
            return Ok(Self::Ranges(ended(tube, filter)));
        }
        if let Some(owner) = &filter.owner {
            let number = query::consumer_named(view, owner)?;
            let held = number.map(|number| prefixed(key::leases_of(tube.run(), number)));
            return Ok(held.unwrap_or(Self::Ranges(Vec::new())));
        }
        if let Some(group) = &filter.failure_group {
            return Ok(prefixed(key::buried_group_of(tube.run(), group)));
        }
        if let Some(text) = &filter.key {
            let of = |counts| key::key_of(tube.run(), text, counts);
            let mut ranges: Vec<_> = match text.len() {
                1..=LABEL_BYTES_MAX => [of(true), of(false)].into(),
                // No task has it.
                _ => Vec::new(),
            };
            ranges.sort();
            let range = |start: Key| (start.clone(), key::end_of(&start));
            return Ok(Self::Ranges(ranges.into_iter().map(range).collect()));
        }
        if let Some(prefix) = &filter.key_prefix {
            return Ok(Self::Keys(prefix));
        }
        if let Some(tag) = &filter.tag {
            return Ok(match tag.len() {
                1..=LABEL_BYTES_MAX => prefixed(key::tagged_of(tube.run(), tag)),
                // No task has it.
                _ => Self::Ranges(Vec::new()),
            });
        }
        if let Some(kind) = filter.kind.as_ref().filter(|_| tube.row.options.index_kinds) {
            return Ok(match kind.len() {
                1..=LABEL_BYTES_MAX => prefixed(key::kind_of(tube.run(), kind)),
                // No task has it.
                _ => Self::Ranges(Vec::new()),
            });
        }
        if filter.is_by_end() {
            return Ok(Self::Ranges(ended(tube, filter)));
        }
        let state = filter.state.or(filter.stalled.filter(|it| *it).map(|_| State::Taken));
        if state == Some(State::Taken) && view.count(tube.range(Tag::Taken)) > 0 {
            return Ok(Self::Leases(key::due_of(tube.run(), Deadline::Ttr)));
        }
        let tags: Vec<Tag> = match state {
            None => Tag::TASKS.into(),
            Some(State::Ready) => vec![Tag::Fresh, Tag::Ready, Tag::Line],
            Some(state) => query::tags_of(state).collect(),
        };
        let mut ranges = Vec::new();
        for tag in tags.into_iter().filter(|tag| view.count(tube.range(*tag)) > 0) {
            let is_ready = tag == Tag::Fresh && state.is_some();
            let start = if is_ready { fresh::known(view, tube)? } else { tube.range(tag).start() };
            ranges.push((start, tube.range(tag).end()));
        }
        Ok(Self::Ranges(ranges))
    }

    /// The first row from this key on, perhaps without the ends of leases.
    fn first(
        &self,
        view: &dyn View,
        tube: &TubeEntry,
        from: &Key,
        with_ends: bool,
    ) -> Result<Option<Met>> {
        match self {
            Self::Keys(prefix) => {
                for tag in [Tag::Key, Tag::KeyUncounted] {
                    let met = first_key(view, tube.range(tag), prefix, from)?;
                    if met.is_some() {
                        return Ok(met);
                    }
                }
                Ok(None)
            }
            Self::Leases(ends) => {
                let rows = tube.range(Tag::Taken);
                let is_after_ends = (rows.start()..rows.end()).contains(from);
                if with_ends
                    && !is_after_ends
                    && let Some(met) = view.first(ends.max(from), &key::end_of(ends))?
                {
                    return Ok(Some(met));
                }
                let start = rows.start();
                view.first(if is_after_ends { from } else { &start }, &rows.end())
            }
            Self::Ranges(ranges) => {
                for (start, end) in ranges {
                    let start = start.max(from);
                    if start < end
                        && let Some(met) = view.first(start, end)?
                    {
                        return Ok(Some(met));
                    }
                }
                Ok(None)
            }
        }
    }
}

/// The rows of the tasks that have ended at the times of a filter, by the times of their ends.
fn ended(tube: &TubeEntry, filter: &Filter) -> Vec<(Key, Key)> {
    let tags: &[Tag] = match filter.state {
        None | Some(State::Buried) if filter.trashed => &[Tag::TrashedTime],
        _ if filter.trashed => &[],
        None => &[Tag::BuriedTime, Tag::DoneTime, Tag::HeldTime],
        Some(State::Buried) => &[Tag::BuriedTime],
        Some(State::Done) => &[Tag::DoneTime, Tag::HeldTime],
        Some(State::Blocked | State::Ready | State::Delayed | State::Taken) => &[],
    };
    let range_of = |tag: &Tag| {
        let range = tube.range(*tag);
        let start = |time| match since_epoch(time).checked_sub(1) {
            Some(before) => key::after_time(&range.start(), before),
            None => range.start(),
        };
        // The filter looks at parts of a microsecond.
        let end = |time| key::after_time(&range.start(), since_epoch(time));
        (
            filter.ended_after.map_or_else(|| range.start(), start),
            filter.ended_before.map_or_else(|| range.end(), end),
        )
    };
    tags.iter().map(range_of).collect()
}

/// The first row of a key that begins with `prefix`. The length of a key comes before its text, so
/// there is a place for each length.
fn first_key(view: &dyn View, range: Range, prefix: &str, from: &Key) -> Result<Option<Met>> {
    let place = |length: usize| {
        let mut place = range.start();
        place.push(length as u8);
        place.extend_from_slice(prefix.as_bytes());
        place
    };
    let mut from = from.max(&place(prefix.len())).clone();
    // Each round goes to a longer length, or ends.
    while let Some(row) = view.first(&from, &range.end())? {
        let (met, _) = &row;
        let (length, text) =
            met.get(RUN_PREFIX..).and_then(<[u8]>::split_first).unwrap_or((&0, &[]));
        let length = usize::from(*length);
        if length >= prefix.len() && text.starts_with(prefix.as_bytes()) {
            return Ok(Some(row));
        }
        let here = place(length.max(prefix.len()));
        from = if here > *met {
            here
        } else if length < LABEL_BYTES_MAX {
            place(length + 1)
        } else {
            break;
        };
    }
    Ok(None)
}
