//! The walks over the tasks of a tag, and over the tags that most tasks have, page by page. The
//! engine's lock is held for one bounded step at a time.

use crate::engine::context::sound;
use crate::engine::{description, tag_counts};
use crate::format::key::{self, Key, Range, Run};
use crate::format::{Met, Scan, Tag, View, row};
use crate::runtime::commit::EngineState;
use crate::runtime::shared::Shared;
use crate::words::error::Result;
use crate::words::limits::TAGS_OF_STEP;
use crate::words::tags::TagCount;
use crate::words::task::{TaskId, TaskSummary};
use std::collections::VecDeque;

/// Rows of durable and of temporary tubes, in one order: that of their keys without what they begin
/// with.
struct TagLanes {
    /// The prefix of each, and the key from which it goes on.
    lanes: [(Key, Key); 2],
    is_over: bool,
}

impl TagLanes {
    /// Over the rows whose keys begin so, with equally many bytes.
    fn over(prefixes: [Key; 2]) -> Self {
        Self { lanes: prefixes.map(|prefix| (key::copy(&prefix), prefix)), is_over: false }
    }

    /// The next rows.
    fn step(&self, state: &EngineState) -> Result<Vec<Met>> {
        let mut met: Vec<Met> = Vec::new();
        let mut length = 0;
        for (prefix, from) in &self.lanes {
            length = prefix.len();
            let mut rows = Scan::between(key::copy(from), key::end_of(prefix));
            for _ in 0..TAGS_OF_STEP {
                let Some(row) = rows.next(&state.store)? else { break };
                met.push(row);
            }
        }
        met.sort_by(|(one, _), (other, _)| one.get(length..).cmp(&other.get(length..)));
        met.truncate(TAGS_OF_STEP);
        Ok(met)
    }

    /// Goes on after these rows; without any, or after an error, it is over.
    fn go_on(&mut self, met: &Result<Vec<Met>>) {
        let met = met.as_deref().unwrap_or_default();
        self.is_over = met.is_empty();
        for (key, _) in met {
            let lane = self.lanes.iter_mut().find(|(prefix, _)| key.starts_with(prefix));
            lane.into_iter().for_each(|(_, from)| *from = key::after(key));
        }
    }
}

/// A walk over the tasks of a tag, by the time at which they got it.
pub(crate) struct TagWalk {
    lanes: TagLanes,
    /// Tubes and tasks that come next, each with the row that has led to it.
    page: VecDeque<(u32, TaskId, Key)>,
}

impl TagWalk {
    pub(crate) fn new(tag: &str) -> Self {
        let lanes = TagLanes::over(Run::BOTH.map(|run| key::tagged_of(run, tag)));
        Self { lanes, page: VecDeque::new() }
    }

    /// The next task.
    pub(crate) fn next(&mut self, core: &Shared) -> Result<Option<TaskSummary>> {
        loop {
            let Some((number, id, key)) = self.page.pop_front() else {
                if self.lanes.is_over {
                    return Ok(None);
                }
                let read = core.look_at(|state, _| self.lanes.step(state));
                self.lanes.go_on(&read);
                self.page.extend(read?.into_iter().filter_map(|(key, row)| {
                    let number = row.as_deref().and_then(row::read_number)?;
                    Some((u32::try_from(number).ok()?, key::id_of(&key)?, key))
                }));
                continue;
            };
            let look = |state: &EngineState, now| {
                // It may have lost the tag, or moved, since its page was read.
                let Some((_, row)) = state.store.row(&key)? else { return Ok(None) };
                let row = row.as_deref().and_then(row::read_number);
                let number = row.and_then(|row| u32::try_from(row).ok()).unwrap_or(number);
                let tube = state.tube(number)?;
                let found = sound(description::info(&state.store, &tube, id, now))?;
                Ok(found.map(|found| found.summary))
            };
            match core.catch_up(number).and_then(|()| core.look_at(look)) {
                Err(error) if error.is_not_found() => {}
                Ok(None) => {}
                found => return found,
            }
        }
    }
}

/// A walk over the tags that at least two tasks have, by the number of their tasks.
pub(crate) struct TopWalk {
    lanes: TagLanes,
    page: VecDeque<TagCount>,
}

impl TopWalk {
    pub(crate) fn new() -> Self {
        let starts = [Tag::TopTagged, Tag::TopTaggedTemporary].map(|tag| Range::of(tag).start());
        Self { lanes: TagLanes::over(starts), page: VecDeque::new() }
    }

    /// The next tag.
    pub(crate) fn next(&mut self, core: &Shared) -> Result<Option<TagCount>> {
        while self.page.is_empty() && !self.lanes.is_over {
            let read = core.look_at(|state, _| {
                let (met, mut page) = (self.lanes.step(state)?, Vec::new());
                for (key, _) in &met {
                    let Some((tasks, text)) = key::of_top_tag(key) else { continue };
                    // One whose count is damaged is left out.
                    // A tag that tasks of temporary tubes have stands a second time, with those of
                    // durable ones.
                    if sound(tag_counts::tasks(&state.store, text))? == Some(tasks) {
                        page.push(TagCount { tag: text.to_owned(), tasks });
                    }
                }
                Ok((met, page))
            });
            let (met, page) =
                read.map_or_else(|error| (Err(error), Vec::new()), |it| (Ok(it.0), it.1));
            self.lanes.go_on(&met);
            self.page.extend(page);
            met?;
        }
        Ok(self.page.pop_front())
    }
}
