//! Walks over the tasks of one state, page by page. Between two pages nothing is held, so that what
//! changes meanwhile may be missed or met.

use crate::engine::context::sound;
use crate::engine::description;
use crate::engine::fresh;
use crate::engine::query;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Key, RUN_PREFIX, Range};
use crate::format::{Deadline, Met, Tag, View};
use crate::runtime::reads::Gathered;
use crate::runtime::shared::Shared;
use crate::words::clock::Now;
use crate::words::error::{ErrorKind, Result};
use crate::words::limits::PAGE_TASKS;
use crate::words::task::{State, TakenInfo, TaskInfo, TaskSummary};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A walk over the tasks of one state: the ready ones in the order of takes, the delayed ones by
/// when they are due, the taken ones by when their leases end. The fresh tasks among the ready ones
/// are a lane of their own, and so are the delayed ones of each clock and those without an end.
pub(crate) struct Listing {
    lanes: SmallVec<[Lane; 2]>,
    /// When it read its first row. The deadlines of two clocks are compared as of then on every
    /// page, so the order does not change when a clock is set.
    begun: Option<Now>,
}

impl Listing {
    pub(crate) fn new(number: u32, state: State) -> Self {
        let due = Deadline::of_state(state).iter().copied().map(Walked::Due);
        let mut walked: SmallVec<[Walked; 3]> = due.collect();
        match state {
            State::Ready => walked.extend([Walked::Of(state), Walked::Rows(Tag::Fresh)]),
            State::Delayed | State::Taken => walked.push(Walked::Endless(state)),
            State::Blocked | State::Buried | State::Done => walked.push(Walked::Of(state)),
        }
        Self::over(number, &walked, PAGE_TASKS)
    }

    /// A walk over the taken tasks by id, for [`next_taken`](Self::next_taken).
    pub(crate) fn of_taken(number: u32) -> Self {
        Self::over(number, &[Walked::Of(State::Taken)], PAGE_TASKS)
    }

    /// A walk over the ready tasks that may be taken: those in no group, and of each group that may
    /// be taken from the first. No more than `most` rows are read at a time.
    pub(crate) fn of_takeable(number: u32, most: usize) -> Self {
        let walked = [Tag::Ready, Tag::Fresh, Tag::OpenHead].map(Walked::Rows);
        Self::over(number, &walked, most)
    }

    fn over(number: u32, walked: &[Walked], most: usize) -> Self {
        let lanes = walked.iter().map(|of| Lane::new(number, *of, most)).collect();
        Self { lanes, begun: None }
    }

    /// The next task, without its payload.
    pub(crate) fn next_summary(&mut self, core: &Shared) -> Result<Option<TaskSummary>> {
        self.next(core, |rows, tube, row, now| {
            Ok(description::listed(rows, tube, row, now)?.summary)
        })
    }

    /// The next task, with its payload.
    pub(crate) fn next_info(&mut self, core: &Shared) -> Result<Option<TaskInfo>> {
        loop {
            let found = self.next(core, |rows, tube, row, now| {
                let found = description::listed(rows, tube, row, now)?;
                let payload = found.payload(rows, tube)?;
                Ok((found, payload))
            })?;
            let Some((found, payload)) = found else { return Ok(None) };
            if let Some(payload) = sound(core.read_payload(payload))? {
                return Ok(Some(found.with(payload)));
            }
            // Its payload may have been replaced, or it is gone. Another one is left out, as in
            // `next`.
            if let Some(found) = self.again(core, &found.summary)? {
                return Ok(Some(found));
            }
        }
    }

    /// A task that was listed, with the payload that it has now. `None` if it is in another state
    /// or place, or damaged.
    #[cold]
    fn again(&self, core: &Shared, listed: &TaskSummary) -> Result<Option<TaskInfo>> {
        let Some(number) = self.lanes.first().map(|lane| lane.number) else { return Ok(None) };
        let find = |view: &dyn View, tube: &TubeEntry, now| {
            description::info(view, tube, listed.id, now).map(Some)
        };
        let found = match core.peek(number, find) {
            Err(error) if error.is_not_found() => None,
            found => sound(found)?.flatten(),
        };
        Ok(found.filter(|found| found.state == listed.state))
    }

    /// The next taken task of [`of_taken`](Self::of_taken).
    pub(crate) fn next_taken(&mut self, core: &Shared) -> Result<Option<TakenInfo>> {
        self.next(core, |rows, tube, row, now| description::taken(rows, tube, row, now))
    }

    fn next<T>(
        &mut self,
        core: &Shared,
        describe: impl Fn(&Gathered, &TubeEntry, &Met, Now) -> Result<T>,
    ) -> Result<Option<T>> {
        loop {
            let mut best: Option<(&mut Lane, (bool, Key))> = None;
            for lane in &mut self.lanes {
                // They come last, and to find them all tasks of the state are read.
                if best.is_some() && matches!(lane.of, Walked::Endless(_)) {
                    continue;
                }
                if let Some(rank) = lane.rank(core, &mut self.begun)?
                    && best.as_ref().is_none_or(|(_, best)| rank < *best)
                {
                    best = Some((lane, rank));
                }
            }
            let Some((lane, _)) = best else { return Ok(None) };
            if let Some(described) = lane.pop(core, &describe)? {
                return Ok(Some(described));
            }
        }
    }
}

/// Which rows a lane walks over.
#[derive(Clone, Copy)]
enum Walked {
    /// Those that give this state.
    Of(State),
    /// Those of this tag; under [`Tag::Fresh`] only those of fresh tasks.
    Rows(Tag),
    /// The deadlines of one kind.
    Due(Deadline),
    /// Those of the delayed or the taken tasks without an end.
    Endless(State),
}

/// A walk over rows, page by page.
struct Lane {
    number: u32,
    of: Walked,
    /// Rows of a page, at most.
    most: usize,
    /// The tube and the time as of the page; none before the first.
    at: Option<(TubeEntry, Now)>,
    /// What is left of the page.
    page: VecDeque<Met>,
    rows: Gathered,
    /// Where the next page begins; none after the last.
    next: Option<Key>,
    /// How many deadlines are still read: no more than tasks had one at first, because one that is
    /// moved on comes after all the others, and a walk that moves each would not end. None before
    /// the first page, and of other rows.
    left: Option<usize>,
}

impl Lane {
    fn new(number: u32, of: Walked, most: usize) -> Self {
        let (at, page, rows, next) = (None, VecDeque::new(), Gathered::default(), Some(Key::new()));
        Self { number, of, most, at, page, rows, next, left: None }
    }

    /// What orders the next row among those of other lanes; `None` after the last.
    fn rank(&mut self, core: &Shared, begun: &mut Option<Now>) -> Result<Option<(bool, Key)>> {
        while self.page.is_empty() {
            if !self.read_page(core)? {
                return Ok(None);
            }
        }
        let Some(((key, _), (_, now))) = self.page.front().zip(self.at.as_ref()) else {
            return Ok(None);
        };
        let begun = *begun.get_or_insert(*now);
        let rest = Key::from_slice(key.get(RUN_PREFIX..).unwrap_or_default());
        let is_last = match self.of {
            Walked::Due(what) => {
                let due = key::when_of(key).unwrap_or_default();
                let mut rank =
                    Key::from_slice(&due.saturating_sub(what.time_of(begun)).to_be_bytes());
                rank.push(what as u8);
                rank.extend(key::id_of(key).into_iter().flat_map(|id| id.get().to_be_bytes()));
                return Ok(Some((false, rank)));
            }
            Walked::Endless(_) => true,
            Walked::Of(_) | Walked::Rows(_) => key.first() == Some(&(Tag::Line as u8)),
        };
        Ok(Some((is_last, rest)))
    }

    /// The next task of the page; `None` if it is damaged, or at the page's end.
    fn pop<T>(
        &mut self,
        core: &Shared,
        describe: &impl Fn(&Gathered, &TubeEntry, &Met, Now) -> Result<T>,
    ) -> Result<Option<T>> {
        loop {
            let (Some(row), Some((tube, now))) = (self.page.front(), &self.at) else {
                return Ok(None);
            };
            let described = describe(&self.rows, tube, row, *now);
            if self.rows.lacks_some() {
                // The rows of the whole page are read together.
                for row in self.page.iter().skip(1) {
                    if self.rows.lacks_many() {
                        break;
                    }
                    let _ = describe(&self.rows, tube, row, *now);
                }
                core.gather(&mut self.rows)?;
                continue;
            }
            self.page.pop_front();
            match described {
                // A damaged task is skipped; `check` names it. Or the task is gone.
                Err(error) if error.kind() == ErrorKind::Damaged => return Ok(None),
                described => return described.map(Some),
            }
        }
    }

    /// The keys of the next page; `None` if there are no more rows.
    fn range(&self, view: &dyn View, tube: &TubeEntry, from: &Key) -> Result<Option<(Key, Key)>> {
        let has_rows = |start: &Key| Range::holding(start).is_some_and(|it| view.count(it) > 0);
        let mut rest = self.rest(tube, from);
        // A range without rows is not read: the base would read the rows after it.
        while let Some((_, end)) = rest.take_if(|(start, _)| !has_rows(start)) {
            rest = self.rest(tube, &end);
        }
        let Some((start, end)) = rest else { return Ok(None) };
        let is_fresh = matches!(self.of, Walked::Rows(Tag::Fresh));
        let start = if is_fresh { fresh::known(view, tube)?.max(start) } else { start };
        Ok(Some((start, end)))
    }

    /// The keys from `from` on; `None` if there are none.
    fn rest(&self, tube: &TubeEntry, from: &Key) -> Option<(Key, Key)> {
        let (start, end) = match self.of {
            Walked::Of(state) | Walked::Endless(state) => {
                return query::listed_range(tube, state, from);
            }
            Walked::Rows(tag) => (tube.range(tag).start(), tube.range(tag).end()),
            Walked::Due(what) => {
                let start = key::due_of(tube.run(), what);
                let end = key::end_of(&start);
                (start, end)
            }
        };
        Some((start.max(key::copy(from)), end)).filter(|(start, end)| start < end)
    }

    /// Reads the next rows. False if there are no more.
    fn read_page(&mut self, core: &Shared) -> Result<bool> {
        let Some(from) = self.next.take() else { return Ok(false) };
        core.catch_up(self.number)?;
        let (mut page, (tube, now, tasks, tracked), next) = core.read_snapshot(
            |state, now| {
                let tube = state.tube(self.number)?;
                let tasks = match self.of {
                    Walked::Due(Deadline::Ttr) => Some(tube.range(Tag::Taken)),
                    Walked::Due(_) => Some(tube.range(Tag::Delayed)),
                    Walked::Of(_) | Walked::Rows(_) | Walked::Endless(_) => None,
                };
                let tasks = tasks.map(|range| state.store.count(range) as usize);
                let tracked = state.store.count(Range::of(Tag::Tracked));
                let range = self.range(&state.store, &tube, &from)?;
                let is_over = range.is_none();
                let (from, to) = range.unwrap_or_default();
                Ok((
                    state.store.snapshot_range(&from, &to)?,
                    ((TubeEntry::clone(&tube), now, tasks, tracked), is_over),
                ))
            },
            |snapshot, (at, is_over)| {
                let (page, next) = snapshot.page(self.most)?;
                Ok((page, at, (!is_over).then_some(next)))
            },
        )?;
        let left = self.left.or(tasks).unwrap_or(usize::MAX);
        page.truncate(left);
        self.left = tasks.map(|_| left - page.len());
        let next = next.filter(|_| self.left != Some(0));
        self.next = next.and_then(|next| self.rest(&tube, &next)).map(|(next, _)| next);
        (self.page, self.at) = (page, Some((tube, now)));
        self.rows = Gathered::with_tracked(tracked);
        if let Walked::Endless(_) = self.of {
            self.page.retain(query::is_endless);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
