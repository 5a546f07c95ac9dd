//! What is kept in memory beside the rows: the tubes, their first deadlines, what was counted, and
//! what is still to be told. Learnt from what is committed and from nothing else.

use crate::bytes::key::{self, Run};
use crate::bytes::row::TubeRow;
use crate::bytes::{Deadline, Range, RowOp, Tag};
use crate::engine::draft::{Change, Draft};
use crate::engine::due::NextDue;
use crate::engine::known::Known;
use crate::live::events::Hub;
use crate::live::gate::Mark;
use crate::sync::Arc;
use crate::task::Cause;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Stands under the engine's lock, and agrees with the rows.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) known: Known,
    /// By run: the tube, and a lower bound of its first deadlines.
    pub(crate) due: BTreeMap<Run, (u32, NextDue)>,
    pub(crate) calls: BTreeMap<u32, Counted>,
    /// Committed, and to be told once the lock is released.
    pub(crate) outbox: Outbox,
}

/// What is counted for a tube since the queue was opened.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) name: Arc<str>,
    pub(crate) calls: [u64; CAUSES],
}

/// How many causes there are; the last one is `Close`.
const CAUSES: usize = Cause::Close as usize + 1;

impl Counted {
    pub(crate) fn of(&self, cause: Cause) -> u64 {
        self.calls.get(cause as usize).copied().unwrap_or(0)
    }
}

/// What is told to waiters once the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// One a tube.
    pub(crate) tubes: SmallVec<[Told; 1]>,
    /// Payload bytes went, so any tube may have room under the limit of all together.
    pub(crate) freed: bool,
    /// So did bytes of the temporary tubes for which a put was refused.
    pub(crate) relief: bool,
    /// An earlier deadline than any before came in, or work for a sweep.
    pub(crate) sooner: bool,
    /// Lease time of the last write, if anything was written for the disk.
    pub(crate) wrote: Option<u64>,
}

/// What happened in one tube.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) tube: u32,
    /// How many tasks became takeable.
    pub(crate) ready: usize,
    /// How many tasks went.
    pub(crate) gone: usize,
}

impl Outbox {
    fn tell(&mut self, tube: u32, ready: usize, gone: usize) {
        match self.tubes.iter_mut().find(|told| told.tube == tube) {
            Some(told) => {
                told.ready = told.ready.saturating_add(ready);
                told.gone = told.gone.saturating_add(gone);
            }
            None => self.tubes.push(Told { tube, ready, gone }),
        }
    }
}

impl Notes {
    /// The tube's row is this from now on.
    pub(crate) fn learn(&mut self, number: u32, row: TubeRow, next: NextDue) {
        self.due.entry(row.run).or_insert((number, next));
        self.calls
            .entry(number)
            .or_insert_with(|| Counted { name: row.name.as_str().into(), calls: [0; CAUSES] });
        self.known.learn(number, row);
    }

    /// Takes note of what is committed: deadlines, counts, events, whom to wake, and whether there
    /// is room.
    pub(crate) fn committed(
        &mut self,
        learnt: Vec<Learnt>,
        draft: &mut Draft,
        mark: Mark,
        hub: &Hub,
    ) {
        if !learnt.is_empty() {
            self.outbox.sooner |= self.adopt(learnt);
        }
        self.outbox.freed |= draft.durable_bytes() < 0;
        for change in draft.changes() {
            self.count(change);
        }
        for (tube, tasks) in draft.wakes() {
            self.outbox.tell(*tube, *tasks, 0);
        }
        let calls = &self.calls;
        let name = |tube: u32| calls.get(&tube).map_or_else(|| "".into(), |tube| tube.name.clone());
        hub.tell(name, draft, mark);
        draft.let_go();
    }

    fn count(&mut self, change: &Change) {
        let counted = self.calls.get_mut(&change.tube);
        if let Some(calls) = counted.and_then(|tube| tube.calls.get_mut(change.cause as usize)) {
            *calls += 1;
        }
        if change.to.is_none() {
            self.outbox.tell(change.tube, 0, 1);
        }
    }

    /// Keeps what was learnt from writes that are now committed. Whether the timer must look.
    fn adopt(&mut self, learnt: Vec<Learnt>) -> bool {
        let mut sooner = false;
        for learnt in learnt {
            match learnt {
                Learnt::Due(run, next) => {
                    if let Some((_, bound)) = self.due.get_mut(&run) {
                        let earlier = bound.earlier(next);
                        sooner |= earlier != *bound;
                        *bound = earlier;
                    }
                }
                Learnt::Tube(number, row) => {
                    self.due.retain(|run, (tube, _)| *tube != number || *run == row.run);
                    self.learn(number, row, NextDue::NONE);
                }
                Learnt::Gone(number) => {
                    self.known.forget(number);
                    // A deadline of nobody's would be due for ever, and keep the timer awake.
                    self.due.retain(|_, (tube, _)| *tube != number);
                }
                Learnt::Work => sooner = true,
            }
        }
        sooner
    }
}

/// What a row write tells the threads.
pub(crate) enum Learnt {
    Due(Run, NextDue),
    Tube(u32, TubeRow),
    Gone(u32),
    Work,
}

impl Learnt {
    /// What one write tells, of those that tell something.
    fn of(key: &[u8], op: &RowOp) -> Option<Self> {
        let range = Range::holding(key)?;
        let number = || Some(u32::from_be_bytes(key.get(1..5)?.try_into().ok()?));
        match (range.tag, op) {
            (Tag::Due, RowOp::Add(_)) => {
                let when = key::when_of(key)?;
                let mut next = NextDue::NONE;
                match key.get(5) {
                    Some(what) if *what == Deadline::RunAt as u8 => next.wall = when,
                    Some(what) if *what == Deadline::Ttr as u8 => next.lease = when,
                    _ => next.queue = when,
                }
                Some(Self::Due(range.run?, next))
            }
            (Tag::Tube, RowOp::Add(row) | RowOp::Change(row)) => {
                Some(Self::Tube(number()?, TubeRow::decode(row)?))
            }
            (Tag::Tube, RowOp::Remove) => Some(Self::Gone(number()?)),
            (Tag::Work, RowOp::Add(_) | RowOp::Change(_)) => Some(Self::Work),
            _ => None,
        }
    }
}

/// What the writes tell, before the store consumes them.
pub(crate) fn learnt(draft: &mut Draft) -> Vec<Learnt> {
    if !draft.is_telling() {
        return Vec::new();
    }
    draft.writes().iter().filter_map(|(key, op)| Learnt::of(key, op)).collect()
}
