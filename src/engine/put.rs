//! New tasks: ready or delayed, keyed or not, one or many. A batch is all or nothing.

use crate::engine::context::{Op, OpContext, damaged};
use crate::engine::keys::KeyedTask;
use crate::engine::linked::Earlier;
use crate::engine::moves::{Move, Which};
use crate::engine::new_row::{Extras, NewRow, Placed};
use crate::engine::payload::is_inline;
use crate::engine::pieces::{self, Staged, StagedPayload};
use crate::engine::replace::{Replacement, generation_after};
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{fresh, keys, lookup, query, statistics, tag_counts, transition};
use crate::format::View;
use crate::format::key::{Home, Order, Rank, Run};
use crate::format::piece::Pieces;
use crate::format::row::{DelayedRow, PayloadPlace, TaskProgress, TaskRow, Times};
use crate::words::clock::{NEVER, micros};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{BATCH_TASKS_MAX, EDGES_OF_OP};
use crate::words::name;
use crate::words::numbers::Numbers;
use crate::words::options::is_nothing;
use crate::words::payload::NewPayload;
use crate::words::task::{Cause, State, TaskId};
use crate::words::tube_kind::{Switches, TubeKind};
use crate::words::verb::{Conflict, Put, PutOutcome};
use smallvec::SmallVec;

mod with_edges;

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
    /// What is known of the tasks that they come after, if there are any.
    pub(crate) earlier: Option<&'a Earlier>,
}

/// What a put with a key meets.
enum Meets {
    /// No task that is in its way.
    Nothing,
    /// A task that is kept.
    Kept(TaskId),
    /// A task that is put again.
    Again(KeyedTask),
    /// A finished task, in whose place a new one is put.
    Ended(KeyedTask),
}

impl Meets {
    fn again(named: KeyedTask, state: State) -> Self {
        if state == State::Done { Self::Ended(named) } else { Self::Again(named) }
    }
}

/// For which task a payload is written in turns.
pub(crate) enum StagedFor {
    /// For a new one, under this run.
    New(Run),
    /// For one that is put again: the run, the task, and the generation of the pieces.
    Again(Run, TaskId, u32),
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
        if self.earlier.is_some() {
            self.check_edges()?;
        }
        for (at, task) in self.tasks.iter().enumerate() {
            self.check(&tube, task).map_err(|error| self.at(error, at))?;
        }
        let counts_tags = self.is_batch && self.tasks.iter().any(has_tags);
        if counts_tags {
            tag_counts::begin_batch(ctx);
        }
        let done = self.put_all(ctx, &tube);
        if counts_tags { tag_counts::end_batch(ctx, done) } else { done }
    }
}

fn has_tags(task: &NewRow<'_>) -> bool {
    task.extras.is_some_and(|extras| !extras.tags().is_empty())
}

impl PutTasks<'_> {
    #[inline(always)]
    fn put_all(&self, ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<SmallVec<[Put; 1]>> {
        let has_begun = !self.staged.is_empty() || self.earlier.is_some();
        let mut done = SmallVec::with_capacity(self.tasks.len());
        for (at, task) in self.tasks.iter().enumerate() {
            let begun = if has_begun { self.begun(at) } else { (None, None) };
            let put = self.put(ctx, tube, task, begun);
            done.push(put.map_err(|error| self.at(error, at))?);
        }
        Ok(done)
    }

    /// The pieces of a task that are written already, and its id, which was drawn with the first
    /// rows of the put.
    #[cold]
    fn begun(&self, at: usize) -> (Option<&Staged>, Option<u64>) {
        let staged = self.staged.iter().find(|staged| staged.task == at);
        let first = self.staged.first().map(|staged| staged.first).or(self.linked_id());
        (staged, first.map(|first| first + at as u64))
    }

    /// For which task the payload of this one is written in turns, before the put. `None` if it is
    /// not to be written before it.
    #[cold]
    pub(crate) fn admits(
        &self,
        ctx: &OpContext<'_>,
        (at, task): (usize, &NewRow<'_>),
    ) -> Result<Option<StagedFor>> {
        let tube = &*ctx.tube(self.tube)?;
        self.check(tube, task)?;
        // What it meets an earlier task of the batch decides, with the whole of which it is
        // written.
        let (earlier, _) = self.tasks.split_at_checked(at).unwrap_or_default();
        if task.key.is_some() && earlier.iter().any(|earlier| earlier.key == task.key) {
            return Ok(None);
        }
        let met = match task.key {
            Some(key) => self.meet(ctx, tube, (task, key))?,
            None => Meets::Nothing,
        };
        let run = tube.run();
        match met {
            Meets::Kept(_) => Ok(None),
            _ if run.is_temporary() => Ok(None),
            Meets::Nothing => {
                self.has_room(ctx, tube, task)?;
                Ok(Some(StagedFor::New(run)))
            }
            Meets::Ended(named) => {
                let _generation = self.generation(ctx, task, named)?;
                Ok(Some(StagedFor::New(run)))
            }
            Meets::Again(named) => {
                let generation = self.generation(ctx, task, named)?;
                Ok(Some(StagedFor::Again(run, named.id, generation)))
            }
        }
    }

    /// Whether a task whose edges are to be written before it will be put; not if its key leads to
    /// one that stays as it is.
    #[cold]
    pub(crate) fn admits_linked(
        &self,
        ctx: &OpContext<'_>,
        tube: &TubeEntry,
        task: &NewRow<'_>,
    ) -> Result<bool> {
        self.check(tube, task)?;
        let met = match task.key {
            Some(key) => self.meet(ctx, tube, (task, key))?,
            None => Meets::Nothing,
        };
        match met {
            Meets::Nothing => self.has_room(ctx, tube, task).map(|()| true),
            Meets::Kept(_) => Ok(false),
            Meets::Again(named) | Meets::Ended(named) => {
                let text = format!("a put again comes after at most {EDGES_OF_OP} tasks");
                Err(Error::new(ErrorKind::Invalid).because(text).on_task(named.id))
            }
        }
    }

    /// The generation of the pieces that a task gets with this payload.
    fn generation(&self, ctx: &OpContext<'_>, task: &NewRow<'_>, named: KeyedTask) -> Result<u32> {
        let tube = &*ctx.tube(named.tube)?;
        let (stored, _) = lookup::find(ctx, tube, named.id)?;
        let stored = stored.whole(ctx, tube)?;
        let (_, row) = stored.task(tube)?.read.ok_or_else(|| damaged("task"))?;
        self.payload_of(task, None).check(ctx, tube, &row)?;
        generation_after(ctx, tube, named.id, &row)
    }

    /// What a put with a key meets.
    fn meet(
        &self,
        ctx: &OpContext<'_>,
        tube: &TubeEntry,
        (task, key): (&NewRow<'_>, &str),
    ) -> Result<Meets> {
        let state_of = |named: KeyedTask| -> Result<State> {
            Ok(lookup::find(ctx, &*ctx.tube(named.tube)?, named.id)?.1.state())
        };
        if let Some(named) = keys::named(ctx, tube, key, true)? {
            return match task.conflict {
                Conflict::Keep => Ok(Meets::Kept(named.id)),
                Conflict::Reject => {
                    Err(Error::new(ErrorKind::KeyExists).because(key).on_task(named.id))
                }
                Conflict::Replace => Ok(Meets::again(named, state_of(named)?)),
                // Its work has not begun.
                Conflict::Debounce => match state_of(named)? {
                    State::Ready | State::Delayed | State::Blocked => Ok(Meets::Again(named)),
                    _ => Ok(Meets::Nothing),
                },
            };
        }
        // One that has ended is brought back, also if it does not count.
        if task.conflict == Conflict::Replace
            && let Some(named) = keys::named(ctx, tube, key, false)?
            && let state @ (State::Buried | State::Done) = state_of(named)?
        {
            return Ok(Meets::again(named, state));
        }
        if task.extras.is_some_and(|extras| extras.must_exist) {
            let text = format!("no task has the key {key:?}");
            return Err(Error::new(ErrorKind::TaskNotFound).because(text));
        }
        Ok(Meets::Nothing)
    }

    /// The payload of a task that is put again.
    fn payload_of<'t>(&self, task: &NewRow<'t>, staged: Option<StagedPayload>) -> Replacement<'t> {
        let codec = Some((task.codec, task.version));
        let payload = NewPayload { bytes: task.payload, codec };
        let Self { payload_bytes_max, durable_bytes_max, .. } = *self;
        Replacement { payload, payload_bytes_max, durable_bytes_max, staged }
    }

    /// Names the refused task of a batch.
    #[cold]
    pub(crate) fn at(&self, error: Error, at: usize) -> Error {
        if self.is_batch { error.at_index(at) } else { error }
    }

    #[inline(always)]
    pub(crate) fn check(&self, tube: &TubeEntry, task: &NewRow<'_>) -> Result<()> {
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
        task.check_names(tube)?;
        match (&options.placement, task.placed) {
            (Some(_), _) if task.front => {
                let text = "option front with a placement";
                Err(Error::new(ErrorKind::Unsupported).because(text))
            }
            (Some(name), None) => Err(Error::new(ErrorKind::DriverMissing).because(name.as_str())),
            (_, Some(placed)) => check_placed(&placed),
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
        if let Some(key) = task.key
            && let Some(put) = self.on_key(ctx, tube, (task, key), (staged, id))?
        {
            return Ok(put);
        }
        let options = &tube.row.options;
        self.has_room(ctx, tube, task)?;

        let number = id.unwrap_or_else(|| ctx.id());
        let id = TaskId::new(number);
        let priority = options.turned(task.priority.unwrap_or(options.priority));
        let place = Rank { priority, order: task.order(number) };
        let group = task.placed_group().or(tube.plain_group());
        let (group, gates) = task.extras.map_or((group, None), |extras| extras.stand(group));
        let mut state = first_state(ctx, tube, task, (place, id), group.is_some())?;
        if options.keep_days > 0 {
            statistics::put(ctx, &mut state);
        }
        let (is_fresh, times) = match &state {
            TaskState::Fresh(progress) => {
                (true, Times { expires: progress.expires, ttr: progress.ttr })
            }
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
                Some(staged) => PayloadPlace::Separate(staged.payload.pieces),
                None if is_inline(task.payload) => PayloadPlace::Inline(task.payload),
                None => PayloadPlace::Separate(Pieces::of(task.payload)),
            },
        };
        let termed;
        let mut is_cancelled = false;
        let state = match task.extras {
            None => &state,
            Some(extras) => {
                (termed, is_cancelled) = self.start(ctx, (tube, id), extras, (&state, gates))?;
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
        transition::put(ctx, &new, state, Cause::Put)?;
        if is_cancelled {
            transition::erase(ctx, &new, state, Cause::Cancel)?;
        }
        Ok(Put { id, outcome: PutOutcome::New })
    }

    /// What a put with a key did to the task that it meets. `None` if a new task is to be put.
    #[inline(never)]
    fn on_key(
        &self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        (task, key): (&NewRow<'_>, &str),
        (staged, number): (Option<&Staged>, Option<u64>),
    ) -> Result<Option<Put>> {
        // The pieces and the edges that are written are of this task.
        let linked = self.earlier.and_then(|earlier| earlier.linked);
        let written = staged.map(|staged| staged.payload.id);
        let changed = || {
            let text = "the task of its key has changed while its payload or edges were written";
            Error::new(ErrorKind::WrongState).because(text)
        };
        let of_new = written.is_none_or(|written| Some(written.get()) == number);
        let (named, is_new) = match self.meet(ctx, tube, (task, key))? {
            Meets::Nothing if of_new => return Ok(None),
            Meets::Nothing => return Err(changed()),
            Meets::Kept(id) => {
                staged.map_or(Ok(()), |staged| staged.payload.give_up(ctx))?;
                linked.map_or(Ok(()), |linked| linked.give_up(ctx))?;
                return Ok(Some(Put { id, outcome: PutOutcome::Existing }));
            }
            // The edges are those of a new task.
            Meets::Again(_) | Meets::Ended(_) if linked.is_some() => return Err(changed()),
            Meets::Again(named) => (named, false),
            Meets::Ended(named) => (named, true),
        };
        let id = named.id;
        let is_right = if is_new { of_new } else { written.is_none_or(|written| written == id) };
        if !is_right {
            return Err(changed().on_task(id));
        }
        let number = number.unwrap_or_else(|| ctx.id());
        let (which, changes) = (Which::Again(id, number, task, self.found()), task.changes());
        let (from, to, after) = (named.tube, self.tube, None);
        let (others_wait, puts_wait) = (self.others_wait, self.others_wait);
        let step = Move { from, to, which, changes, others_wait, puts_wait, after };
        let payload = self.payload_of(task, staged.map(|staged| staged.payload));
        step.decide_on(ctx, Some(&payload))?;
        let id = if is_new { TaskId::new(number) } else { id };
        Ok(Some(Put { id, outcome: PutOutcome::Replaced }))
    }

    /// Whether there is room for one more task, after those that this op has put and replaced so
    /// far.
    #[inline(always)]
    fn has_room(&self, ctx: &OpContext<'_>, tube: &TubeEntry, task: &NewRow<'_>) -> Result<()> {
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
        if self.others_wait {
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

/// Refuses what a placement must not say.
fn check_placed(placed: &Placed<'_>) -> Result<()> {
    if Order::placed(placed.order).is_none() {
        let text = "a placement's order has at most 16 bytes";
        return Err(Error::new(ErrorKind::Invalid).because(text));
    }
    placed.group.map_or(Ok(()), |group| name::label("group name", group).map(drop))
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
    let progress = TaskProgress::fresh(now.queue.saturating_add(ttl), ttr);
    if let Some((due, wall)) = ctx.due(task.delay, task.not_before()) {
        let row = DelayedRow { progress, due, wall, holds_group: false };
        return Ok(TaskState::delayed(row, now));
    }
    // A fresh task has no row for more than its times.
    if !has_group && !task.extras.is_some_and(Extras::has_terms) && fresh::admits(ctx, tube, at)? {
        return Ok(TaskState::Fresh(progress));
    }
    Ok(TaskState::Ready(progress))
}
