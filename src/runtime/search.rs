//! A page of a search, in steps that hold the engine's lock for a bounded number of rows each.

use crate::engine::search::{self, StepStart};
use crate::format::key::Run;
use crate::runtime::shared::Shared;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::filter::Filter;
use crate::words::limits::{PAGE_TASKS, SEARCH_ROWS};
use crate::words::task::TaskSummary;

/// Where a search goes on: in this run of the tube.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchPlace {
    run: Run,
    start: StepStart,
}

impl Shared {
    /// The next tasks that meet a filter, at most `most` and as many as a page has, and where to go
    /// on; `None` at the end.
    ///
    /// # Errors
    /// `Invalid` if the tube was truncated since the place was given.
    pub(crate) fn search(
        &self,
        number: u32,
        filter: &Filter,
        from: Option<&SearchPlace>,
        most: usize,
    ) -> Result<(Vec<TaskSummary>, Option<SearchPlace>)> {
        self.catch_up(number)?;
        let most = most.min(PAGE_TASKS);
        let (mut tasks, mut looked, mut place) = (Vec::new(), 0, from.cloned());
        loop {
            let (run, step) = self.look_at(|state, now| {
                let tube = state.tube(number)?;
                let run = tube.run();
                if place.as_ref().is_some_and(|place| place.run != run) {
                    let text = "the cursor is from before the tube was truncated; search again";
                    return Err(Error::new(ErrorKind::Invalid).because(text));
                }
                let from = place.clone().map(|place| place.start).unwrap_or_default();
                let left = most - tasks.len();
                Ok((run, search::step(&state.store, &tube, filter, &from, left, now)?))
            })?;
            tasks.extend(step.tasks);
            looked += step.looked;
            place = step.next.map(|start| SearchPlace { run, start });
            if place.is_none() || tasks.len() >= most || looked >= SEARCH_ROWS {
                return Ok((tasks, place));
            }
        }
    }
}
