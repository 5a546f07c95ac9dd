//! Ready → Taken: the best ready task of a tube; or a chosen task, also a delayed or a buried one.
//! The attempt is counted here and written before the task is handed out, so that a task that kills
//! its process is charged.

use crate::engine::context::{Op, OpContext, damaged};
use crate::engine::payload::{Payload, StoredPayload};
use crate::engine::stored::{self, Content, TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{
    fresh, gates, groups, held_in, lines, position, query, settle, slots, task_gates, transition,
};
use crate::format::key::{self, Key, RUN_PREFIX, Range, Rank};
use crate::format::row::{TakenRow, TaskProgress};
use crate::format::{Met, Tag, Value, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{BATCH_TASKS_MAX, LOOKS_OF_MOVE, LOOKS_OF_STEP, SWEEP_BYTES};
use crate::words::numbers::Numbers;
use crate::words::task::{Cause, TaskId, Ticket};
use smallvec::SmallVec;
use std::cell::Cell;

mod chosen;
mod several;

pub(crate) use chosen::{Claim, TakeGroup};
pub(crate) use several::{FromTube, TakeFrom};

/// Takes up to `most` tasks. An empty result is not an error.
pub(crate) struct Take {
    pub(crate) tube: u32,
    pub(crate) most: usize,
    /// The named consumer, or 0.
    pub(crate) holder: u32,
    /// It has met many lines behind closed gates, and not all tasks that it may have.
    pub(crate) is_cut: Cell<bool>,
}

/// What a taker sees of a task without a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AboutTask {
    pub(crate) attempts: u32,
    pub(crate) deliveries: u32,
    pub(crate) priority: i64,
    /// Microseconds, or `NEVER`.
    pub(crate) ttr: u64,
    /// Microseconds between the put and the take, in queue time.
    pub(crate) age: u64,
}

/// A task as it is handed out.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) id: TaskId,
    pub(crate) token: u64,
    pub(crate) about: AboutTask,
    pub(crate) codec: u8,
    pub(crate) version: u16,
    pub(crate) payload: StoredPayload,
}

impl Delivery {
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket { id: self.id, token: self.token }
    }
}

impl Take {
    pub(crate) fn new(tube: u32, most: usize, holder: u32) -> Self {
        Self { tube, most, holder, is_cut: Cell::new(false) }
    }
}

/// How much one op may read and move while it looks for tasks.
struct Budget {
    /// Payload bytes.
    bytes: usize,
    /// Heads that go behind a closed gate, or come back.
    heads: usize,
}

impl Budget {
    const ALL: Self = Self { bytes: SWEEP_BYTES, heads: LOOKS_OF_STEP };
}

impl Op for Take {
    type Done = SmallVec<[Delivery; 1]>;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(self.most.min(BATCH_TASKS_MAX) as u64)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let tube = ctx.tube(self.tube)?;
        ensure_open(ctx, self.holder)?;
        let (mut handed, mut budget) = (SmallVec::new(), Budget::ALL);
        let mut most = self.most.min(BATCH_TASKS_MAX);
        if tube.row.may_be_closed() {
            most = most.min(gates::admit(ctx, &tube)?);
            if most == 0 {
                return Ok(handed);
            }
        }
        // Taken tasks come before the next one in key order, so the scan continues after them and
        // never over rows that this op itself removed.
        let mut lanes = Lanes::of(ctx, &tube)?;
        while handed.len() < most {
            let wanted = most - handed.len();
            let Some(best) = lanes.search(ctx, &tube, (wanted, &mut budget))? else { break };
            if best.is_stopped(ctx, &tube, &mut budget)? {
                if budget.heads == 0 {
                    self.is_cut.set(true);
                    break;
                }
                continue;
            }
            match hand_over(ctx, &tube, &best, self.holder, &mut budget.bytes)? {
                Some(task) => {
                    handed.push(task);
                    best.close_rest(ctx, &tube)?;
                }
                None => lanes.skip(best),
            }
        }
        if lanes.told.is_some() {
            self.is_cut.set(budget.heads == 0 && handed.len() < most);
            // What is kept for a taker that goes on stays kept.
            if !(self.is_cut.get() && handed.is_empty()) {
                slots::note_looks(ctx, &tube, handed.len());
            }
        }
        gates::count_taken(ctx, &tube, handed.len())?;
        Ok(handed)
    }
}

/// Reads the payload of a taken task, in a step in which it keeps its lease. If the payload is
/// damaged, the task is buried.
pub(crate) struct ReadTaken {
    pub(crate) tube: u32,
    pub(crate) ticket: Ticket,
}

impl Op for ReadTaken {
    type Done = Payload;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Payload> {
        let tube = held_in::tube(ctx, self.tube, self.ticket)?;
        let (stored, _) = settle::held(ctx, &tube, self.ticket)?;
        let read = stored.task(&tube).and_then(|task| task.content(ctx)?.payload.read(ctx));
        let at = || key::taken(tube.run(), self.ticket.id);
        let lost = || Error::new(ErrorKind::LeaseLost).on_task(self.ticket.id);
        // If the repair did not help, the task stays taken, and the next one is handed out.
        ctx.or_repair(&tube, at, read)?.ok_or_else(lost)
    }
}

/// Refuses the takes of a consumer that was closed. 0 is none.
#[inline(always)]
fn ensure_open(ctx: &OpContext<'_>, holder: u32) -> Result<()> {
    if holder != 0 {
        query::open_consumer(ctx, holder)?;
    }
    Ok(())
}

/// How far a take has looked behind the gates of a tube that may be open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToOpen {
    /// Not yet.
    All,
    /// As far as it wanted tasks.
    Rest,
    Nothing,
}

/// Where the next ready tasks are: the fresh ones, the other ones without a group, and the groups'
/// heads.
struct Lanes {
    /// If the tube has lines behind gates, or slots are kept for its takers: whether lines are
    /// still to be given their heads. Apart, because most tubes have none.
    told: Option<ToOpen>,
    /// Of the fresh tasks: it continues after this one instead of at the border, because this one
    /// was left where it is.
    skipped: Option<Key>,
    ready: Cursor,
    heads: Cursor,
}

/// A scan that reads each row once. A take of one task builds no key to continue from.
struct Cursor {
    range: Range,
    /// It continues after this row.
    last: Option<Key>,
}

impl Cursor {
    /// The next row. Taken tasks come before it in key order, so the scan never goes over rows that
    /// this op itself removed.
    fn peek(&self, ctx: &OpContext<'_>) -> Result<Option<Met>> {
        if ctx.count(self.range) == 0 {
            return Ok(None);
        }
        let from = self.last.as_ref().map_or_else(|| self.range.start(), |last| key::after(last));
        ctx.first(&from, &self.range.end())
    }
}

impl Lanes {
    fn of(ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<Self> {
        fresh::learn(ctx, tube)?;
        let cursor = |tag| Cursor { range: tube.range(tag), last: None };
        let told = ctx.known.is_told(tube.number).then_some(ToOpen::All);
        Ok(Self { told, skipped: None, ready: cursor(Tag::Ready), heads: cursor(Tag::OpenHead) })
    }

    /// The best task of all, those behind gates among them that are open now. So many are wanted.
    #[inline]
    fn search(
        &mut self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        (wanted, budget): (usize, &mut Budget),
    ) -> Result<Option<Candidate>> {
        if self.told.is_some() {
            return self.open_and_search(ctx, tube, (wanted, budget));
        }
        self.next(ctx, tube)
    }

    /// The same in a tube with lines behind gates. What stands behind an open gate is looked at
    /// before the first task, and again when no other is left.
    #[cold]
    #[inline(never)]
    fn open_and_search(
        &mut self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        (wanted, budget): (usize, &mut Budget),
    ) -> Result<Option<Candidate>> {
        if self.told == Some(ToOpen::All) {
            self.open(ctx, tube, (wanted, budget))?;
        }
        loop {
            let best = self.next(ctx, tube)?;
            if best.is_some() || self.told != Some(ToOpen::Rest) || budget.heads == 0 {
                return Ok(best);
            }
            self.open(ctx, tube, (wanted, budget))?;
        }
    }

    /// Gives heads back. They may come before those that were met.
    fn open(
        &mut self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        (wanted, budget): (usize, &mut Budget),
    ) -> Result<()> {
        self.heads.last = None;
        let is_rest = lines::open_some(ctx, tube, (wanted, &mut budget.heads))?;
        self.told = Some(if is_rest { ToOpen::Rest } else { ToOpen::Nothing });
        Ok(())
    }

    /// The best task of all.
    #[inline(always)]
    fn next(&mut self, ctx: &OpContext<'_>, tube: &TubeEntry) -> Result<Option<Candidate>> {
        let has_other = ctx.count_all(tube.run(), &[Tag::Ready, Tag::OpenHead]) > 0;
        let ready = if has_other { self.ready.peek(ctx)? } else { None };
        let head = if has_other { self.heads.peek(ctx)? } else { None };
        let other = ready.as_ref().or(head.as_ref()).map(|(key, _)| key.as_slice());
        let fresh = fresh::first(ctx, tube, self.skipped.as_deref(), other)?;
        if let Some(head) = head
            && fresh.iter().chain(&ready).all(|free| is_before(&head, free))
        {
            self.heads.last = Some(key::copy(&head.0));
            return of_head(ctx, tube, head).map(Some);
        }
        let is_fresh = match (&fresh, &ready) {
            (Some(fresh), Some(ready)) => is_before(fresh, ready),
            (fresh, _) => fresh.is_some(),
        };
        let Some((key, row)) = (if is_fresh { fresh } else { ready }) else { return Ok(None) };
        if !is_fresh {
            self.ready.last = Some(key::copy(&key));
        }
        let (place, id) = position::in_key(&key, RUN_PREFIX)?;
        let (tag, is_next) =
            if is_fresh { (Tag::Fresh, self.skipped.is_none()) } else { (Tag::Ready, false) };
        Ok(Some(Candidate { tag, id, place, key, row, is_next }))
    }

    /// Continues after a task that was not taken.
    fn skip(&mut self, left: Candidate) {
        if left.tag == Tag::Fresh {
            self.skipped = Some(left.key);
        }
    }
}

fn is_before((one, _): &Met, (other, _): &Met) -> bool {
    one.get(RUN_PREFIX..) < other.get(RUN_PREFIX..)
}

/// The task of a head.
fn of_head(ctx: &OpContext<'_>, tube: &TubeEntry, (key, group): Met) -> Result<Candidate> {
    let (place, id) = position::in_key(&key, RUN_PREFIX)?;
    // A head that leads to no row is damaged itself.
    let (key, row) = groups::at_head(ctx, tube, &key, group)?.unwrap_or((key, None));
    Ok(Candidate { tag: Tag::Line, id, place, key, row, is_next: true })
}

/// What the index rows give of the next task.
struct Candidate {
    tag: Tag,
    id: TaskId,
    place: Rank,
    /// The key of its row.
    key: Key,
    /// Its row; `None` if that is damaged.
    row: Option<Value>,
    /// Whether it is at the border of the fresh tasks, or is the head of its group.
    is_next: bool,
}

impl Candidate {
    /// Whether it has gates of its own that are not all open. Then its head is behind one of them.
    #[inline(always)]
    fn is_stopped(
        &self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        budget: &mut Budget,
    ) -> Result<bool> {
        let at = (&self.key, self.row.as_ref());
        if self.tag != Tag::Line || !lines::stops(ctx, tube, at)? {
            return Ok(false);
        }
        budget.heads = budget.heads.saturating_sub(LOOKS_OF_MOVE);
        Ok(true)
    }

    /// The task was taken: what is left of its line may be behind a gate now.
    #[inline(always)]
    fn close_rest(&self, ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<()> {
        if self.tag == Tag::Line { lines::close_rest(ctx, tube, &self.key) } else { Ok(()) }
    }
}

/// Takes the task. A task that is damaged is skipped if its repair did not help.
fn hand_over(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    Candidate { tag, id, place, key, row, is_next }: &Candidate,
    holder: u32,
    bytes_left: &mut usize,
) -> Result<Option<Delivery>> {
    if *tag == Tag::Fresh && fresh::is_mistaken(ctx, tube, *id)? {
        return Ok(None);
    }
    let row = row.as_ref().ok_or_else(|| damaged("ready"));
    let opened = row.and_then(|row| stored::open_at(ctx, tube, (*tag, *id, Some(*place)), row));
    let at = || key::copy(key);
    // Not `or_repair`: that would move what was read.
    let (stored, state) = match opened {
        Ok(found) => found,
        Err(error) => return ctx.pass_by(tube, at, error).map(|()| None),
    };
    let task = stored.task(tube).and_then(|task| {
        let task = TaskRef { is_next: *is_next, ..task };
        let mut content = task.content(ctx)?;
        content.payload.read_if_short(ctx, bytes_left)?;
        Ok((task, content))
    });
    let (task, content) = match task {
        Ok(read) => read,
        Err(error) => return ctx.pass_by(tube, at, error).map(|()| None),
    };
    let progress = match &state {
        // It has no other progress.
        TaskState::Fresh(progress) => TaskProgress::fresh(progress.expires, progress.ttr),
        state => state.progress().clone(),
    };
    take(ctx, &task, (&state, progress), content, holder).map(Some)
}

#[inline(always)]
fn take(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    (state, mut progress): (&TaskState, TaskProgress),
    content: Content,
    holder: u32,
) -> Result<Delivery> {
    progress.deliveries = progress.deliveries.saturating_add(1);
    progress.attempts = progress.attempts.saturating_add(1);
    hand_out(ctx, task, (state, progress), content, holder, Cause::Take)
}

/// What a new lease ends: the stall of the one before, and the rank ahead of every priority.
/// Returns the task's own rank, if it stood ahead.
#[cold]
fn begin_again(
    ctx: &mut OpContext<'_>,
    (tube, state): (&TubeEntry, &TaskState),
    progress: &mut TaskProgress,
) -> Option<Rank> {
    transition::end_stall(ctx, tube, state);
    progress.end_stall();
    progress.take_own_rank()
}

/// Begins a lease, with a new token.
#[inline]
pub(crate) fn hand_out(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    (state, mut progress): (&TaskState, TaskProgress),
    content: Content,
    holder: u32,
    cause: Cause,
) -> Result<Delivery> {
    let (token, since) = (ctx.token(), ctx.now.lease);
    let deadline = since.saturating_add(progress.ttr);
    let TaskProgress { attempts, deliveries, ttr, .. } = progress;
    // Most tasks have no section.
    let own = match progress.extension.is_empty() {
        true => None,
        false => begin_again(ctx, (task.tube, state), &mut progress),
    };
    let may_hold =
        slots::is_throttled(task.tube) || task_gates::of(task.group, &progress).is_some();
    if may_hold && !matches!(state, TaskState::Taken(_)) {
        slots::begin(ctx, task, &mut progress)?;
    }
    let taken = TaskState::Taken(TakenRow { progress, token, holder, since, deadline });
    let priority = match own {
        None => {
            transition::move_task(ctx, task, state, &taken, cause)?;
            task.priority()
        }
        Some(rank) => leave_ahead(ctx, task, (state, &taken), rank, cause)?,
    };
    let Content { created, codec, version, payload } = content;
    let age = ctx.now.queue.saturating_sub(created);
    let about = AboutTask { attempts, deliveries, priority, ttr, age };
    Ok(Delivery { id: task.id, token, about, codec, version, payload })
}

/// Takes a task that stands ahead of every priority. It has its own rank again. Returns its
/// priority.
#[cold]
fn leave_ahead(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    states: (&TaskState, &TaskState),
    rank: Rank,
    cause: Cause,
) -> Result<i64> {
    // The head of its group is at the rank that it leaves.
    let task = &TaskRef { is_next: false, ..*task };
    transition::move_to_rank(ctx, task, states, rank, cause)?;
    Ok(task.tube.row.options.turned(rank.priority))
}
