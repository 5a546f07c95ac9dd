//! A take from several tubes: one op, in which the set says whose turn it is and the rules of each
//! tube say what may be taken. It never waits, and looks at a bounded number of tubes in vain.

use super::{Budget, Candidate, Delivery, Lanes, ensure_open, hand_over};
use crate::engine::context::{Op, OpContext, sound};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::tube_set::{TubeTurn, TubeTurns};
use crate::engine::{gates, slots};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{BATCH_TASKS_MAX, LOOKS_OF_STEP};
use crate::words::numbers::Numbers;
use crate::words::sync::Arc;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Takes up to `most` tasks from the tubes of a set. What is due in them is done before.
pub(crate) struct TakeFrom {
    pub(crate) set: u32,
    pub(crate) most: usize,
    /// The named consumer, or 0.
    pub(crate) holder: u32,
}

/// What a take from several tubes has taken.
#[derive(Debug, Default)]
pub(crate) struct TakenFrom {
    pub(crate) tasks: SmallVec<[FromTube; 1]>,
    /// Not all tubes were looked at that may have more.
    pub(crate) more: bool,
}

/// A task, and the tube that it was taken from.
#[derive(Debug)]
pub(crate) struct FromTube {
    pub(crate) tube: u32,
    pub(crate) name: Arc<str>,
    pub(crate) task: Delivery,
}

/// The search in one of the tubes. It goes on at the tube's next turn.
struct Open<'a> {
    tube: &'a TubeEntry,
    lanes: Lanes,
    /// What was found and not taken, because a task of another tube came first.
    found: Option<Candidate>,
    /// How many tasks its gates let through, and how many of them were taken.
    most: usize,
    taken: usize,
}

impl Op for TakeFrom {
    type Done = TakenFrom;

    const OVER_SET: bool = true;

    fn tube_set(&self) -> Option<u32> {
        Some(self.set)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(self.most.min(BATCH_TASKS_MAX) as u64)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<TakenFrom> {
        ensure_open(ctx, self.holder)?;
        let known = ctx.known;
        let set = known.tube_set(self.set).ok_or_else(|| {
            Error::new(ErrorKind::TubeNotFound).because("all tubes of the list were dropped")
        })?;
        let most = self.most.min(BATCH_TASKS_MAX);
        let (open, turns, budget) = (BTreeMap::new(), set.turns(self.set), Budget::ALL);
        let mut search = Search { open, turns, looks: 0, wanted: most, budget };
        let mut taken = TakenFrom::default();
        while taken.tasks.len() < most {
            // The op searches the borders of all its tubes for each task.
            if search.open.len() > LOOKS_OF_STEP && !taken.tasks.is_empty() {
                break;
            }
            let Some((turn, best)) = search.next(ctx)? else { break };
            let Some(Open { tube, lanes, taken: taken_here, .. }) = search.open.get_mut(&turn.tube)
            else {
                break;
            };
            let priority = across(tube, &best);
            if best.is_stopped(ctx, tube, &mut search.budget)? {
                search.turns.put_back(turn);
                continue;
            }
            match hand_over(ctx, tube, &best, self.holder, &mut search.budget.bytes)? {
                Some(task) => {
                    best.close_rest(ctx, tube)?;
                    search.turns.serve(&turn, priority);
                    *taken_here += 1;
                    let (tube, name) = (turn.tube, turn.order.name);
                    taken.tasks.push(FromTube { tube, name, task });
                }
                None => {
                    lanes.skip(best);
                    search.turns.put_back(turn);
                }
            }
        }
        for open in search.open.values().filter(|open| open.taken > 0) {
            slots::note_looks(ctx, open.tube, open.taken);
            gates::count_taken(ctx, open.tube, open.taken)?;
        }
        let is_cut = search.budget.heads == 0;
        taken.more = taken.tasks.len() < most && (is_cut || search.turns.has_next());
        ctx.effects().looked = Some(Box::new(search.turns.seen()));
        Ok(taken)
    }
}

/// The priority of a task among those of other tubes, smaller first. Where higher ones are first,
/// 5 is as good as -5 elsewhere: the number that it has in its tube is one less.
fn across(tube: &TubeEntry, task: &Candidate) -> i64 {
    match task.place.priority {
        own if own > i64::MIN && tube.row.options.higher_first => own.saturating_add(1),
        own => own,
    }
}

/// The searches in all tubes.
struct Search<'a> {
    open: BTreeMap<u32, Open<'a>>,
    turns: TubeTurns<'a>,
    /// How many tubes were looked at in vain.
    looks: usize,
    /// How many tasks the take wants.
    wanted: usize,
    budget: Budget,
}

impl<'a> Search<'a> {
    /// The next task, and the turn of its tube; `None` if there is none, or after too many looks.
    fn next(&mut self, ctx: &mut OpContext<'a>) -> Result<Option<(TubeTurn, Candidate)>> {
        while self.looks < LOOKS_OF_STEP
            && self.budget.heads > 0
            && let Some(turn) = self.turns.next_turn()
        {
            let Some(best) = self.best_of(ctx, turn.tube)? else {
                if self.budget.heads == 0 {
                    // There may be more behind the gates of its tasks.
                    self.turns.put_back(turn);
                    break;
                }
                self.turns.pass(turn);
                self.looks += 1;
                continue;
            };
            let Some(open) = self.open.get_mut(&turn.tube) else { continue };
            if !self.turns.comes_later(&turn, across(open.tube, &best)) {
                return Ok(Some((turn, best)));
            }
            open.found = Some(best);
            self.looks += 1;
        }
        Ok(None)
    }

    /// The best task of a tube that may be taken. A tube whose rows are damaged has none; `check`
    /// reports it.
    fn best_of(&mut self, ctx: &mut OpContext<'a>, number: u32) -> Result<Option<Candidate>> {
        if let Some(open) = self.open.get_mut(&number) {
            if open.taken >= open.most {
                // A slot that another tube leaves brings it back.
                sound(slots::await_slots(ctx, open.tube))?;
                return Ok(None);
            }
            // Tubes that share a throttle share its slots.
            if slots::is_throttled(open.tube)
                && sound(gates::admit(ctx, open.tube))?.unwrap_or(0) == 0
            {
                return Ok(None);
            }
            if let Some(found) = open.found.take() {
                return Ok(Some(found));
            }
            let wanted = (self.wanted, &mut self.budget);
            let next = sound(open.lanes.search(ctx, open.tube, wanted))?.flatten();
            if next.is_none() && open.taken == 0 {
                // What was found could not be taken.
                slots::note_unused(ctx, open.tube);
            }
            return Ok(next);
        }
        let known = ctx.known;
        let Some(tube) = known.known(number) else { return Ok(None) };
        let mut most = usize::MAX;
        if tube.row.may_be_closed() {
            most = sound(gates::admit(ctx, tube))?.unwrap_or(0);
            if most == 0 {
                return Ok(None);
            }
        }
        let Some(mut lanes) = sound(Lanes::of(ctx, tube))? else { return Ok(None) };
        let wanted = (self.wanted, &mut self.budget);
        let best = sound(lanes.search(ctx, tube, wanted))?.flatten();
        match best {
            Some(_) => {
                self.open.insert(number, Open { tube, lanes, found: None, most, taken: 0 });
            }
            // The take goes on.
            None if self.budget.heads == 0 => {}
            None => slots::note_unused(ctx, tube),
        }
        Ok(best)
    }
}
