//! Ready → Taken: the best ready task of a tube, or a chosen one. The attempt is counted here and
//! written before the task is handed out, so that a task that kills its process is charged.

use crate::engine::context::{Op, OpContext, damaged};
use crate::engine::payload::Payload;
use crate::engine::stored::{self, Content, TaskRef, TaskState};
use crate::engine::transition;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{groups, quarantine};
use crate::format::key::{self, Key, RUN_PREFIX, Range, Rank};
use crate::format::row::TakenRow;
use crate::format::{Met, Tag, Value, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::BATCH_TASKS_MAX;
use crate::words::numbers::Numbers;
use crate::words::task::{Cause, State, TaskId, Ticket};
use smallvec::SmallVec;

/// Takes up to `most` tasks. An empty result is not an error.
pub(crate) struct Take {
    pub(crate) tube: u32,
    pub(crate) most: usize,
    /// The named consumer, or 0.
    pub(crate) holder: u32,
}

/// Takes this task, if it may be taken.
pub(crate) struct Claim {
    pub(crate) tube: u32,
    pub(crate) id: TaskId,
    pub(crate) holder: u32,
}

/// A task as it is handed out.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) id: TaskId,
    pub(crate) token: u64,
    pub(crate) attempts: u32,
    pub(crate) deliveries: u32,
    pub(crate) codec: u8,
    pub(crate) version: u16,
    pub(crate) payload: Payload,
}

impl Delivery {
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket { id: self.id, token: self.token }
    }
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
        ensure_session_open(ctx, self.holder)?;
        let mut handed = SmallVec::new();
        if tube.row.paused {
            return Ok(handed);
        }
        // Taken tasks come before the next one in key order, so the scan continues after them and
        // never over rows that this op itself removed.
        let mut ready = Cursor::new(tube.range(Tag::Ready));
        let mut turn = Cursor::new(tube.range(Tag::Turn));
        while handed.len() < self.most.min(BATCH_TASKS_MAX) {
            let Some(met) = next(ctx, &tube, &mut ready, &mut turn)? else { break };
            if let Some(task) = hand_over(ctx, &tube, met, &mut turn, self.holder)? {
                handed.push(task);
            }
        }
        Ok(handed)
    }
}

impl Op for Claim {
    type Done = Delivery;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(1)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let tube = ctx.tube(self.tube)?;
        ensure_session_open(ctx, self.holder)?;
        let (stored, standing) = transition::find(ctx, &tube, self.id)?;
        let task = stored.task()?;
        let refused =
            |text: String| Error::new(ErrorKind::WrongState).because(text).on_task(self.id);
        if standing.state() != State::Ready {
            return Err(refused(format!("the task is {:?}", standing.state())));
        }
        if tube.row.paused {
            return Err(refused("its tube is paused".to_owned()));
        }
        if let Some(group) = task.group
            && groups::in_flight(ctx, &tube, group)? >= u64::from(tube.row.options.in_flight)
        {
            return Err(refused("its group is locked".to_owned()));
        }
        let content = task.content(ctx, &tube)?;
        take(ctx, &tube, &task, standing, content, self.holder)
    }
}

/// Refuses a take after its consumer's end: no later call would return its tasks.
///
/// # Errors
/// `Closed` if the named consumer no longer exists.
fn ensure_session_open(ctx: &OpContext<'_>, holder: u32) -> Result<()> {
    if holder == 0 || ctx.get(&key::consumer(holder))?.is_some() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Closed).because("the consumer was closed; open it again"))
}

/// A scan over a range that never goes back.
struct Cursor {
    range: Range,
    /// It continues after this row.
    last: Option<Key>,
}

impl Cursor {
    fn new(range: Range) -> Self {
        Self { range, last: None }
    }

    fn peek(&self, ctx: &OpContext<'_>) -> Result<Option<Met>> {
        let from = self.last.as_ref().map_or_else(|| self.range.start(), |last| key::after(last));
        ctx.first(&from, &self.range.end())
    }
}

/// The best of the tasks without a group and of the groups' turns.
fn next(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    ready: &mut Cursor,
    turn: &mut Cursor,
) -> Result<Option<Candidate>> {
    let free = ready.peek(ctx)?;
    // Most tubes have no groups.
    let grouped = if ctx.count(turn.range) == 0 { None } else { turn.peek(ctx)? };
    let (key, row) = match (free, grouped) {
        (Some(free), Some(grouped)) if free.0.get(RUN_PREFIX..) <= grouped.0.get(RUN_PREFIX..) => {
            free
        }
        (_, Some(grouped)) => return in_turn(ctx, tube, turn, grouped).map(Some),
        (Some(free), None) => free,
        (None, None) => return Ok(None),
    };
    let (place, id) = position(tube, &key)?;
    ready.last = Some(key);
    Ok(Some(Candidate { id, place, stands: Stands::Alone, row }))
}

/// The task of a turn.
fn in_turn(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    turn: &mut Cursor,
    (key, group): Met,
) -> Result<Candidate> {
    let (place, id) = position(tube, &key)?;
    turn.last = Some(key);
    let (stands, row) = match groups::whose_turn(ctx, tube, (&place, id), group)? {
        Some((group, row)) => (Stands::InLine(group), row),
        None => (Stands::Nowhere, None),
    };
    Ok(Candidate { id, place, stands, row })
}

#[inline]
fn position(tube: &TubeEntry, key: &[u8]) -> Result<(Rank, TaskId)> {
    let position = key::place_of(key, RUN_PREFIX).zip(key::id_of(key));
    position.ok_or_else(|| damaged("ready").in_tube(&tube.row.name))
}

/// What the index states of the next task.
struct Candidate {
    id: TaskId,
    place: Rank,
    stands: Stands,
    /// Its row among the ready tasks; `None` if that is damaged.
    row: Option<Value>,
}

/// Where the row of a ready task is.
enum Stands {
    Alone,
    /// In the line of this group.
    InLine(String),
    /// There is no task for the turn: the index is damaged.
    Nowhere,
}

/// Takes the task. A damaged one is buried instead, and the next one is served.
fn hand_over(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    mut next: Candidate,
    turn: &mut Cursor,
    holder: u32,
) -> Result<Option<Delivery>> {
    let row = next.row.take().ok_or_else(|| damaged("ready"));
    let at = (Tag::Ready, next.id, Some(next.place));
    let (stored, standing) = match row.and_then(|row| stored::open(ctx, tube, at, &row)) {
        Ok(opened) => opened,
        Err(fault) if fault.kind() == ErrorKind::Damaged => {
            return bury_damaged(ctx, tube, &next, turn, None, &fault);
        }
        Err(error) => return Err(error),
    };
    let task = match stored.task() {
        Ok(task) => task,
        Err(fault) => {
            let known = Some((stored.places().0, standing));
            return bury_damaged(ctx, tube, &next, turn, known, &fault);
        }
    };
    match task.content(ctx, tube) {
        Ok(content) => take(ctx, tube, &task, standing, content, holder).map(Some),
        Err(fault) if fault.kind() == ErrorKind::Damaged => {
            quarantine::set_aside(ctx, tube, &task, &standing, &fault).map(|()| None)
        }
        Err(error) => Err(error),
    }
}

/// Buries a task with a damaged row: its own, or its state row, and then its progress is unknown.
/// If the turn is damaged, there is no such task; then the turns are repaired and their scan begins
/// again.
fn bury_damaged(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    next: &Candidate,
    turn: &mut Cursor,
    known: Option<(Rank, TaskState)>,
    fault: &Error,
) -> Result<Option<Delivery>> {
    let group = match &next.stands {
        Stands::Alone => None,
        Stands::InLine(group) => Some(group.as_str()),
        Stands::Nowhere => {
            *turn = Cursor::new(turn.range);
            return groups::mend_turns(ctx, tube).map(|()| None);
        }
    };
    let (home, from) = match known {
        Some((home, from)) => (Some(home), from),
        None => (None, TaskState::Ready(quarantine::unknown())),
    };
    let at = quarantine::DamagedAt { id: next.id, place: next.place, home, group };
    quarantine::bury_damaged(ctx, tube, at, &from, fault).map(|_| None)
}

fn take(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    task: &TaskRef<'_>,
    standing: TaskState,
    content: Content,
    holder: u32,
) -> Result<Delivery> {
    let Content { codec, version, payload, .. } = content;
    let mut head = standing.head().clone();
    head.deliveries = head.deliveries.saturating_add(1);
    head.attempts = head.attempts.saturating_add(1);
    let token = ctx.token();
    let now = ctx.now;
    let deadline = now.lease.saturating_add(head.ttr);
    let (attempts, deliveries) = (head.attempts, head.deliveries);
    let taken = TaskState::Taken(TakenRow { head, token, holder, since: now.lease, deadline });
    transition::move_task(ctx, tube, task, Some(&standing), Some(&taken), Cause::Take)?;
    Ok(Delivery { id: task.id, token, attempts, deliveries, codec, version, payload })
}
