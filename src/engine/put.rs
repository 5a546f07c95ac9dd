//! New tasks: ready or delayed, keyed or not, one or many. A batch is all or nothing.

use crate::engine::context::{Op, OpContext, damaged};
use crate::engine::pieces::{self, Staged};
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{fresh, lookup, query, retry, transition};
use crate::format::key::{self, Home, Order, Rank, Run};
use crate::format::piece::Pieces;
use crate::format::row::{
    DelayedRow, Labels, PayloadPlace, TaskProgress, TaskRow, Times, label_section,
};
use crate::format::{Value, View};
use crate::words::backoff::RetryTerms;
use crate::words::clock::{NEVER, micros};
use crate::words::details;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::BATCH_TASKS_MAX;
use crate::words::name;
use crate::words::numbers::Numbers;
use crate::words::options::{Switches, TubeKind, is_nothing};
use crate::words::task::{Cause, TaskId};
use crate::words::verb::{Conflict, Put, PutOutcome};
use smallvec::SmallVec;
use std::time::{Duration, SystemTime};

/// Payloads up to this many bytes stand in the task's own row. With the longest key, group and
/// place it fits a page of 4 KiB, redb's smallest; a longer one would have a page of its own that
/// is rounded up to a power of two.
const INLINE_BYTES_MAX: usize = 3500;

/// Whether a payload stands in the task's own row.
#[inline(always)]
pub(crate) fn is_inline(payload: &[u8]) -> bool {
    payload.len() <= INLINE_BYTES_MAX
}

/// Puts tasks into one tube.
pub(crate) struct PutTasks<'a> {
    pub(crate) tube: u32,
    pub(crate) tasks: &'a [NewRow<'a>],
    /// A refusal names the task by its index.
    pub(crate) is_batch: bool,
    /// Payloads whose pieces are written already.
    pub(crate) staged: &'a [Staged],
    pub(crate) payload_bytes_max: usize,
    /// The limit of all durable tubes together.
    pub(crate) durable_bytes_max: u64,
    /// Earlier puts wait for room in the tube, and what there is belongs to them.
    pub(crate) others_wait: bool,
}

/// One task to be put.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewRow<'a> {
    pub(crate) payload: &'a [u8],
    pub(crate) codec: u8,
    pub(crate) version: u16,
    pub(crate) priority: Option<i64>,
    pub(crate) group: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) conflict: Conflict,
    pub(crate) delay: Option<Duration>,
    pub(crate) run_at: Option<SystemTime>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) front: bool,
    /// Usually none.
    pub(crate) extras: Option<&'a Extras<'a>>,
    pub(crate) placed: Option<Placed<'a>>,
}

/// What few tasks are put with. It is apart, because every put copies its row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras<'a> {
    labels: Labels<'a>,
    /// The extension of the task's row, with the labels.
    section: Option<Value>,
    pub(crate) retry: RetryTerms,
}

impl<'a> Extras<'a> {
    /// Of this kind, and nothing else.
    #[cold]
    pub(crate) fn of_kind(kind: &'a str) -> Box<Self> {
        let mut extras = Box::<Self>::default();
        extras.label(|labels| labels.kind = Some(kind));
        extras
    }

    /// Changes what the caller says of the task.
    pub(crate) fn label(&mut self, change: impl FnOnce(&mut Labels<'a>)) {
        change(&mut self.labels);
        // What `check` will refuse may be too long for a section.
        let is_sound = self.check_labels().is_ok();
        let section = is_sound.then(|| label_section(&self.labels));
        self.section = section.filter(|section| !section.is_empty());
    }

    /// With the options of `common` where it has none.
    pub(crate) fn or(&self, common: &Extras<'a>) -> Self {
        let mut all = self.clone();
        all.retry = self.retry.or(common.retry);
        all.label(|labels| {
            labels.kind = labels.kind.or(common.labels.kind);
            labels.book = labels.book.or(common.labels.book);
            for (name, text) in &common.labels.details {
                labels.details.entry(name).or_insert(text);
            }
        });
        all
    }

    #[cold]
    fn section(&self) -> &[u8] {
        self.section.as_deref().unwrap_or_default()
    }

    /// Refuses what the tube's kind does not allow.
    #[cold]
    fn check(&self, tube: &TubeEntry) -> Result<()> {
        let kind = tube.row.options.kind;
        if self.retry.backoff.is_some() && !kind.switches().timed {
            let text = format!("option backoff with kind {kind:?}");
            return Err(Error::new(ErrorKind::Unsupported).because(text));
        }
        self.check_labels()
    }

    fn check_labels(&self) -> Result<()> {
        let Labels { kind, book, details } = &self.labels;
        kind.map_or(Ok(""), |kind| name::label("kind", kind))?;
        details::check(*book, details.iter().map(|(name, text)| (*name, *text)))
    }

    /// Whether the row of the task's state says more than its times.
    #[cold]
    fn has_terms(&self) -> bool {
        self.retry != RetryTerms::default()
    }

    /// The first state with the terms.
    #[cold]
    fn start(
        &self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        standing: &TaskState,
    ) -> Result<TaskState> {
        let mut standing = standing.clone();
        retry::set(ctx, tube, standing.head_mut(), self.retry)?;
        Ok(standing)
    }
}

/// The answer of a `Placement` for a task, from before the op.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) order: &'a [u8],
    pub(crate) group: Option<&'a str>,
    pub(crate) not_before: Option<SystemTime>,
}

impl<'a> NewRow<'a> {
    /// With the options of `common` where it has none.
    pub(crate) fn or(self, common: &NewRow<'a>) -> Self {
        let is_timed = self.delay.is_some() || self.run_at.is_some();
        let (delay, run_at) = match is_timed {
            true => (self.delay, self.run_at),
            false => (common.delay, common.run_at),
        };
        Self {
            priority: self.priority.or(common.priority),
            group: self.group.or(common.group),
            ttl: self.ttl.or(common.ttl),
            ttr: self.ttr.or(common.ttr),
            extras: self.extras.or(common.extras),
            delay,
            run_at,
            ..self
        }
    }
}

impl Op for PutTasks<'_> {
    type Done = SmallVec<[Put; 1]>;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_ids(self.tasks.len() as u64)
    }

    fn adds(&self) -> bool {
        true
    }

    fn in_doubt(&self, done: &Self::Done) -> Vec<TaskId> {
        done.iter().map(|put| put.id).collect()
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        if self.tasks.len() > BATCH_TASKS_MAX {
            let text = format!("a batch takes at most {BATCH_TASKS_MAX} tasks");
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        let tube = ctx.tube(self.tube)?;
        for (at, task) in self.tasks.iter().enumerate() {
            self.check(&tube, task).map_err(|error| self.at(error, at))?;
        }
        // If pieces are written already, the ids are drawn too.
        let first = self.staged.first().map(|staged| staged.first);
        let mut done = SmallVec::with_capacity(self.tasks.len());
        for (at, task) in self.tasks.iter().enumerate() {
            let staged = self.staged.iter().find(|staged| staged.task == at);
            let id = first.map(|first| first + at as u64);
            let put = self.put(ctx, &tube, task, (staged, id));
            done.push(put.map_err(|error| self.at(error, at))?);
        }
        Ok(done)
    }
}

impl PutTasks<'_> {
    /// Whether a put of this task would be done by now, before its payload is written in turns. The
    /// run that it is put under; `None` if its pieces are not to be written before it.
    #[cold]
    pub(crate) fn admits(&self, ctx: &OpContext<'_>, task: &NewRow<'_>) -> Result<Option<Run>> {
        let tube = ctx.tube(self.tube)?;
        self.check(&tube, task)?;
        let kept = match task.key {
            Some(text) if task.conflict != Conflict::Replace => keyed(ctx, &tube, text)?.is_some(),
            _ => false,
        };
        if kept || tube.run().is_temporary() {
            return Ok(None);
        }
        if task.conflict != Conflict::Replace {
            self.has_room(ctx, &tube, task, false)?;
        }
        Ok(Some(tube.run()))
    }

    /// Names the refused task of a batch.
    #[cold]
    pub(crate) fn at(&self, error: Error, at: usize) -> Error {
        if self.is_batch { error.at_index(at) } else { error }
    }

    #[inline(always)]
    fn check(&self, tube: &TubeEntry, task: &NewRow<'_>) -> Result<()> {
        let options = &tube.row.options;
        if task.payload.len() > self.payload_bytes_max {
            let text =
                format!("{} bytes, the limit is {}", task.payload.len(), self.payload_bytes_max);
            return Err(Error::new(ErrorKind::TooLarge).because(text));
        }
        let off = match options.kind {
            // It allows everything.
            TubeKind::General => None,
            kind => switched_off(kind.switches(), task),
        };
        if let Some(option) = off {
            let text = format!("option {option} with kind {:?}", options.kind);
            return Err(Error::new(ErrorKind::Unsupported).because(text));
        }
        if task.ttl.is_some_and(is_nothing) || task.ttr.is_some_and(is_nothing) {
            let text = "ttl and ttr must be at least one microsecond";
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        if task.delay.is_some() && task.run_at.is_some() {
            let text = "set either delay or run_at, not both";
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        let placed_group = task.placed.and_then(|placed| placed.group);
        task.group.map_or(Ok(""), |group| name::label("group name", group))?;
        task.key.map_or(Ok(""), |key| name::label("key", key))?;
        task.extras.map_or(Ok(()), |extras| extras.check(tube))?;
        placed_group.map_or(Ok(""), |group| name::label("group name", group))?;
        match (&options.placement, task.placed) {
            (Some(_), _) if task.front => {
                let text = "option front with a placement";
                Err(Error::new(ErrorKind::Unsupported).because(text))
            }
            (Some(name), None) => Err(Error::new(ErrorKind::DriverMissing).because(name.as_str())),
            (_, Some(placed)) if Order::placed(placed.order).is_none() => {
                let text = "a placement's order has at most 16 bytes";
                Err(Error::new(ErrorKind::Invalid).because(text))
            }
            _ => Ok(()),
        }
    }

    fn put(
        &self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        task: &NewRow<'_>,
        (staged, id): (Option<&Staged>, Option<u64>),
    ) -> Result<Put> {
        let keyed = match task.key {
            Some(key) => on_conflict(ctx, tube, (task, key), staged)?,
            None => None,
        };
        if let Some(kept) = keyed.filter(|put| put.outcome == PutOutcome::Existing) {
            return Ok(kept);
        }
        let options = &tube.row.options;
        self.has_room(ctx, tube, task, keyed.is_some())?;

        let number = id.unwrap_or_else(|| ctx.id());
        let id = TaskId::new(number);
        let order = match task.placed.and_then(|placed| Order::placed(placed.order)) {
            Some(placed) => placed,
            None if task.front => Order::front(number),
            None => Order::back(number),
        };
        let priority = options.turned(task.priority.unwrap_or(options.priority));
        let place = Rank { priority, order };
        let group = task.placed.and_then(|placed| placed.group).or(task.group);
        let group = group.or(tube.plain_group());
        let standing = first_state(ctx, tube, task, (place, id), group.is_some())?;
        let (is_fresh, times) = match &standing {
            TaskState::Fresh(head) => (true, Times { expires: head.expires, ttr: head.ttr }),
            _ => (false, Times::NONE),
        };
        let row = TaskRow {
            created: ctx.now.queue,
            codec: task.codec,
            version: task.version,
            times: (times != Times::NONE).then_some(times),
            group,
            key: task.key,
            extension: task.extras.map_or(&[], Extras::section),
            payload: match staged {
                Some(staged) => PayloadPlace::Apart(staged.payload.pieces),
                None if is_inline(task.payload) => PayloadPlace::Inline(task.payload),
                None => PayloadPlace::Apart(Pieces::of(task.payload)),
            },
        };
        let termed;
        let standing = match task.extras {
            None => &standing,
            Some(extras) => {
                termed = extras.start(ctx, tube, &standing)?;
                &termed
            }
        };
        // Before the task: its events may read the payload.
        match (staged, row.payload.pieces()) {
            (Some(staged), _) => staged.payload.end(ctx)?,
            (None, Some(pieces)) => {
                pieces::write(ctx, (tube.run(), id), &pieces, task.payload, 0..pieces.count());
            }
            (None, None) => {}
        }
        let (raw, home) = (row.encode(), Home { rank: place, is_fresh });
        let new = TaskRef::new(tube, id, (home, place), &raw, row);
        transition::put(ctx, &new, standing, Cause::Put)?;
        Ok(Put { id, outcome: keyed.map_or(PutOutcome::New, |put| put.outcome) })
    }

    /// Whether there is room for one more task, after those that this op has put and replaced so
    /// far. A task that `replaces` another has the room of that one.
    #[inline(always)]
    fn has_room(
        &self,
        ctx: &OpContext<'_>,
        tube: &TubeEntry,
        task: &NewRow<'_>,
        replaces: bool,
    ) -> Result<()> {
        let full = |text: String| Err(Error::new(ErrorKind::Full).because(text));
        if let Some(capacity) = tube.row.options.capacity
            && query::at_work(ctx, tube) >= capacity
        {
            return full(format!("its capacity is {capacity}"));
        }
        let (held, more) = (ctx.durable_bytes(), task.payload.len() as u64);
        let most = self.durable_bytes_max;
        if !tube.run().is_temporary() && held.saturating_add(more) > most {
            return full(format!(
                "durable_bytes_max is {most}, {held} payload bytes are held, these are {more} more"
            ));
        }
        if self.others_wait && !replaces {
            return full("earlier puts wait for room".to_owned());
        }
        Ok(())
    }
}

/// The first option of a task that its tube does not allow.
fn switched_off(switches: Switches, task: &NewRow<'_>) -> Option<&'static str> {
    match task {
        _ if !switches.priority && task.priority.is_some() => Some("priority"),
        _ if !switches.timed && task.ttl.is_some() => Some("ttl"),
        _ if !switches.timed && task.ttr.is_some() => Some("ttr"),
        _ if !switches.timed && task.delay.is_some() => Some("delay"),
        _ if !switches.timed && task.run_at.is_some() => Some("run_at"),
        _ if !switches.grouped && task.group.is_some() => Some("group"),
        _ => None,
    }
}

/// The state of a new task.
#[inline(always)]
fn first_state(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    task: &NewRow<'_>,
    at: (Rank, TaskId),
    has_group: bool,
) -> Result<TaskState> {
    let (options, now) = (&tube.row.options, ctx.now);
    let ttl = task.ttl.or(options.ttl).map_or(NEVER, micros);
    let ttr = task.ttr.or(options.ttr).map_or(NEVER, micros);
    let head = TaskProgress::fresh(now.queue.saturating_add(ttl), ttr);
    let run_at = task.placed.and_then(|placed| placed.not_before).or(task.run_at);
    if let Some((due, wall)) = ctx.due(task.delay, run_at) {
        let row = DelayedRow { head, due, wall, holds_group: false };
        return Ok(TaskState::delayed(row, now));
    }
    // A fresh task has no row for more than its times.
    if !has_group && !task.extras.is_some_and(Extras::has_terms) && fresh::admits(ctx, tube, at)? {
        return Ok(TaskState::Fresh(head));
    }
    Ok(TaskState::Ready(head))
}

/// What a put does about the task that has its key; `None` if there is none.
#[inline(always)]
fn on_conflict(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (task, key): (&NewRow<'_>, &str),
    staged: Option<&Staged>,
) -> Result<Option<Put>> {
    let Some(id) = keyed(ctx, tube, key)? else { return Ok(None) };
    match task.conflict {
        Conflict::Keep => {
            staged.map_or(Ok(()), |staged| staged.payload.give_up(ctx))?;
            Ok(Some(Put { id, outcome: PutOutcome::Existing }))
        }
        Conflict::Reject => Err(Error::new(ErrorKind::KeyExists).because(key).on_task(id)),
        Conflict::Replace => {
            let (stored, standing) = lookup::find(ctx, tube, id)?;
            transition::erase(ctx, &stored.task(tube)?, &standing, Cause::Delete)?;
            Ok(Some(Put { id, outcome: PutOutcome::Replaced }))
        }
    }
}

/// The task with this key.
pub(crate) fn keyed(ctx: &OpContext<'_>, tube: &TubeEntry, text: &str) -> Result<Option<TaskId>> {
    let from = key::key_of(tube.run(), text);
    let Some((met, _)) = ctx.first(&from, &key::end_of(&from))? else { return Ok(None) };
    key::id_of(&met).map(Some).ok_or_else(|| damaged("key"))
}
