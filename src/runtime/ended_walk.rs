//! The walk over the tasks of an index by the time of their ends, backwards and page by page. The
//! engine's lock is held for one bounded step at a time.

use crate::engine::context::{damaged, sound};
use crate::engine::description;
use crate::format::key::{self, Key, Run};
use crate::format::{Range, Tag, View};
use crate::runtime::commit::EngineState;
use crate::runtime::failed::TubesByRun;
use crate::runtime::shared::Shared;
use crate::store::Snapshot;
use crate::words::error::Result;
use crate::words::task::TaskSummary;
use smallvec::{SmallVec, smallvec};
use std::collections::VecDeque;

/// Keys that all pages of a walk have together, unless its indexes are so many that each has only
/// the least number.
const KEYS_MAX: usize = 4096;
const KEYS_LEAST: usize = 4;

/// A key for each side of an index.
type Sides = SmallVec<[Key; 2]>;

/// Which tasks a walk is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndIndex {
    /// The buried ones of a failure group.
    Failed(String),
    /// The buried ones.
    Buried,
    /// The finished ones.
    Finished,
    /// Those in the trash.
    Trashed,
}

/// A walk over tasks that have ended, the last one first.
pub(crate) struct EndedWalk {
    /// None before the first task is asked for.
    lanes: Option<SmallVec<[IndexWalk; 2]>>,
    /// The tube; none for a walk over all tubes.
    number: Option<u32>,
    which: EndIndex,
    /// The tubes of a walk over all tubes, as of its beginning.
    runs: Option<TubesByRun>,
    /// The end of the key of the last row that it passed by: in order in all lanes.
    place: Option<Key>,
}

/// A walk over the rows of an index, backwards and page by page. The row of a task may go from one
/// side to the other meanwhile, so all sides are read at one look.
struct IndexWalk {
    /// The beginnings of the keys; behind them keys of all sides are in one order.
    sides: Sides,
    /// Where the rows of each side that were not read yet end. None once all were read.
    ends: Option<Sides>,
    /// The ends of the keys that were read.
    page: VecDeque<Key>,
    /// Keys of a page.
    most: usize,
}

impl IndexWalk {
    /// One of so many that are walked over side by side, whose pages are in memory together.
    fn over(sides: Sides, lanes: usize) -> Self {
        let most = (KEYS_MAX / lanes.max(1)).max(KEYS_LEAST);
        let ends = sides.iter().map(|side| key::end_of(side)).collect();
        Self { ends: Some(ends), sides, page: VecDeque::new(), most }
    }

    /// Leaves out the rows up to the one whose key ends so.
    fn go_on_after(&mut self, place: &[u8]) {
        self.ends = Some(self.keys_of(place));
    }

    /// The keys of all sides that end so.
    fn keys_of(&self, place: &[u8]) -> Sides {
        let on = |side: &Key| {
            let mut key = key::copy(side);
            key.extend_from_slice(place);
            key
        };
        self.sides.iter().map(on).collect()
    }

    /// The end of the next key.
    fn peek(&mut self, core: &Shared) -> Result<Option<&Key>> {
        while self.page.is_empty() {
            let Some(ends) = self.ends.take() else { return Ok(None) };
            let snapshots = |state: &EngineState, _| {
                let of_side =
                    |(side, end): (&Key, &Key)| state.store.snapshot_range_back(side, end);
                let mut all = self.sides.iter().zip(&ends).map(of_side);
                let first = all.next().ok_or_else(|| damaged("index"))??;
                Ok((first, all.collect::<Result<SmallVec<[Snapshot; 1]>>>()?))
            };
            let (mut keys, place) = core.read_snapshot(snapshots, |first, others| {
                let (mut keys, mut from) = (Vec::new(), None);
                let sides = std::iter::once(first).chain(&others);
                for (side, snapshot) in self.sides.iter().zip(sides) {
                    let (page, unread) = snapshot.keys_back(self.most)?;
                    let place = |key: &Key| Key::from_slice(key.get(side.len()..).unwrap_or(&[]));
                    keys.extend(page.iter().map(place));
                    // What no side has read yet ends where the first of them has stopped.
                    from = from.max((unread > *side).then(|| place(&unread)));
                }
                Ok((keys, from))
            })?;
            keys.sort_unstable_by(|one, other| other.cmp(one));
            keys.retain(|key| place.as_ref().is_none_or(|place| key >= place));
            (self.page, self.ends) = (keys.into(), place.map(|place| self.keys_of(&place)));
        }
        Ok(self.page.front())
    }
}

impl EndIndex {
    /// The beginnings of the keys of the index, of one tube. A finished task has its row on one
    /// side or the other, as long as others come after it.
    fn in_run(&self, run: Run) -> Sides {
        let start = |tag| Range::in_run(tag, run).start();
        match self {
            Self::Failed(group) => smallvec![key::buried_group_of(run, group)],
            Self::Buried => smallvec![start(Tag::BuriedTime)],
            Self::Finished => smallvec![start(Tag::DoneTime), start(Tag::HeldTime)],
            Self::Trashed => smallvec![start(Tag::TrashedTime)],
        }
    }

    /// The same of all tubes, which have these runs. Only failed tasks have an index of all tubes:
    /// the indexes of the others are walked over side by side.
    fn in_queue(&self, runs: &TubesByRun) -> SmallVec<[IndexWalk; 2]> {
        let starts: Vec<_> = match self {
            Self::Failed(group) => {
                Run::BOTH.iter().map(|run| smallvec![key::failed_of(*run, group)]).collect()
            }
            _ => runs.keys().map(|run| self.in_run(*run)).collect(),
        };
        let lanes = starts.iter().map(SmallVec::len).sum();
        starts.into_iter().map(|sides| IndexWalk::over(sides, lanes)).collect()
    }

    /// The tag of the tasks, by which tubes without any are left out.
    fn tag(&self) -> Tag {
        match self {
            Self::Failed(_) | Self::Buried => Tag::Buried,
            Self::Finished => Tag::Done,
            Self::Trashed => Tag::Trashed,
        }
    }

    /// The run of the tube in a key of all tubes.
    fn run_of(&self, key: &[u8]) -> Option<Run> {
        match self {
            Self::Failed(_) => key::run_of_failed(key),
            _ => Range::holding(key).and_then(|range| range.run),
        }
    }
}

impl EndedWalk {
    /// Over those of one tube, or of all.
    pub(crate) fn new(number: Option<u32>, which: EndIndex) -> Self {
        Self { lanes: None, number, which, runs: None, place: None }
    }

    /// The same, from where another walk over the same index has come to.
    pub(crate) fn after(self, place: Key) -> Self {
        Self { place: Some(place), lanes: None, ..self }
    }

    /// One that has no task left.
    pub(crate) fn ended(self) -> Self {
        Self { lanes: Some(SmallVec::new()), ..self }
    }

    /// The tube, none for all tubes, and which tasks of it.
    pub(crate) fn over(&self) -> (Option<u32>, &EndIndex) {
        (self.number, &self.which)
    }

    /// Where it has come to; none at the beginning.
    pub(crate) fn place(&self) -> Option<&Key> {
        self.place.as_ref()
    }

    /// The next task.
    pub(crate) fn next(&mut self, core: &Shared) -> Result<Option<TaskSummary>> {
        if self.lanes.is_none() {
            // After an error there are none, and the walk is over.
            self.lanes = Some(SmallVec::new());
            let mut lanes = self.begin(core)?;
            if let Some(place) = &self.place {
                lanes.iter_mut().for_each(|lane| lane.go_on_after(place));
            }
            self.lanes = Some(lanes);
        }
        loop {
            let Some((place, number, keys)) = self.pop(core)? else { return Ok(None) };
            let Some(number) = number else {
                self.place = Some(place);
                continue;
            };
            let look = |state: &EngineState, now| {
                // It may have left the index since its page was read.
                let Some(id) = keys.first().and_then(|key| key::id_of(key)) else {
                    return Ok(None);
                };
                let mut rows = keys.iter().map(|key| state.store.row(key));
                if !rows.any(|row| !matches!(row, Ok(None))) {
                    return Ok(None);
                }
                let tube = state.tube(number)?;
                sound(description::info(&state.store, &tube, id, now))
                    .map(|it| it.map(|it| it.summary))
            };
            let found = match core.catch_up(number).and_then(|()| core.look_at(look)) {
                Err(error) if error.is_not_found() => None,
                // After an error a cursor stands before it.
                found => found?,
            };
            self.place = Some(place);
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    fn begin(&mut self, core: &Shared) -> Result<SmallVec<[IndexWalk; 2]>> {
        Ok(match self.number {
            Some(number) => {
                let run = core.look_at(|state, _| Ok(state.tube(number)?.run()))?;
                let sides = self.which.in_run(run);
                let lanes = sides.len();
                smallvec![IndexWalk::over(sides, lanes)]
            }
            None => {
                let runs = self.runs.insert(core.tubes_with(self.which.tag())?);
                self.which.in_queue(runs)
            }
        })
    }

    /// The next index row: the end of its key, its tube, if that exists, and the keys that it may
    /// have.
    fn pop(&mut self, core: &Shared) -> Result<Option<(Key, Option<u32>, Sides)>> {
        let mut best: Option<(Key, &mut IndexWalk)> = None;
        for lane in self.lanes.iter_mut().flatten() {
            let Some(place) = lane.peek(core)? else { continue };
            if best.as_ref().is_none_or(|(best, _)| best < place) {
                best = Some((key::copy(place), lane));
            }
        }
        let Some((place, lane)) = best else { return Ok(None) };
        lane.page.pop_front();
        let keys = lane.keys_of(&place);
        let number = match &self.runs {
            None => self.number,
            Some(runs) => keys
                .first()
                .and_then(|key| self.which.run_of(key))
                .and_then(|run| runs.get(&run).copied()),
        };
        Ok(Some((place, number, keys)))
    }
}
