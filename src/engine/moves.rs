//! A task goes to another tube, or to the back of its own: by its holder, as the next step of its
//! work, by its id, or by a put that meets its key. It keeps its id, its key, and the payload
//! unless it gets another one: then no piece of it is written again.

use crate::engine::context::{Op, OpContext, damaged};
use crate::engine::dependencies::FoundTasks;
use crate::engine::edge_exchange::EdgeExchange;
use crate::engine::new_row::{Extras, NewRow};
use crate::engine::replace::Replacement;
use crate::engine::settle;
use crate::engine::stored::{self, StoredTask, TaskRef, TaskState};
use crate::engine::tags::Moving;
use crate::engine::tube_cache::{TubeEntry, TubeRef};
use crate::engine::update::Changes;
use crate::engine::{held_in, history, lookup, reports, retry, statistics, task_gates, transition};
use crate::format::feature::MOVES;
use crate::format::key::{self, Direction, Home, Order, Rank};
use crate::format::row::{
    self, BlockedRow, DelayedRow, EdgeCounts, StoredReports, TaskProgress, TaskRow,
    labelled_section, moved_section,
};
use crate::format::{Value, View};
use crate::words::backoff::RetryTerms;
use crate::words::clock::{NEVER, micros};
use crate::words::dependency::After;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::numbers::Numbers;
use crate::words::task::{Cause, TaskId, Ticket};
use crate::words::task_gates::group_in;

mod admission;

pub(crate) use admission::room;

/// Moves a task. What is not given stays as it is.
pub(crate) struct Move<'a> {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) which: Which<'a>,
    pub(crate) changes: Changes,
    /// Puts wait for a place in the other tube, and what there is belongs to them.
    pub(crate) others_wait: bool,
    /// Puts wait for room there, perhaps only for bytes.
    pub(crate) puts_wait: bool,
    /// The tasks that its next step comes after, and where they are.
    pub(crate) after: Option<(&'a After, &'a FoundTasks)>,
}

/// Which task is moved.
#[derive(Clone, Copy)]
pub(crate) enum Which<'a> {
    /// The one of this lease, whose step is done; with the step's result.
    Held(Ticket, Option<&'a [u8]>),
    /// This one, in any state, with the group, the key and the extras of this row, if it has some.
    /// A lease on it is lost.
    ById(TaskId, &'a NewRow<'a>),
    /// This one, which a put of its key has met, with the number of the put and the tasks that it
    /// may come after.
    Again(TaskId, u64, &'a NewRow<'a>, &'a FoundTasks),
}

impl Which<'_> {
    pub(crate) fn id(&self) -> TaskId {
        match self {
            Self::Held(ticket, _) => ticket.id,
            Self::ById(id, _) | Self::Again(id, ..) => *id,
        }
    }

    /// What the caller gives besides the changes.
    fn given(&self) -> Option<&NewRow<'_>> {
        match self {
            Self::Again(_, _, given, _) | Self::ById(_, given) => Some(given),
            Self::Held(..) => None,
        }
    }

    /// Whether a put has met it.
    fn is_again(&self) -> bool {
        matches!(self, Self::Again(..))
    }

    fn cause(&self) -> Cause {
        match self {
            Self::Held(..) => Cause::Advance,
            Self::ById(..) => Cause::Move,
            Self::Again(..) => Cause::Put,
        }
    }

    /// Whether a put by the holder of the task's lease has met it.
    fn is_of_holder(&self, state: &TaskState) -> bool {
        let Self::Again(id, _, given, _) = *self else { return false };
        let holding = given.extras.and_then(|extras| extras.holding);
        let is_of =
            |ticket: Ticket| matches!(state, TaskState::Taken(row) if row.token == ticket.token);
        holding.is_some_and(|ticket| ticket.id == id && is_of(ticket))
    }

    /// Whether what was reported of the work is over: it was of another step or another payload.
    fn ends_reports(&self) -> bool {
        !matches!(self, Self::ById(..))
    }
}

impl Op for Move<'_> {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.from)
    }

    fn numbers(&self) -> Numbers {
        // It stands at the back, for which a number is drawn.
        Numbers::of_ids(1)
    }

    fn adds(&self) -> bool {
        match self.which {
            Which::Held(_, result) => result.is_some(),
            // Each of these has a row in an index.
            Which::ById(_, given) => given.extras.is_some_and(Extras::has_rows),
            Which::Again(..) => false,
        }
    }

    fn grows(&self) -> bool {
        true
    }

    fn in_doubt(&self, _done: &()) -> Vec<TaskId> {
        vec![self.which.id()]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        self.decide_on(ctx, None)
    }
}

impl Move<'_> {
    /// The lease of the task, if its holder moves it.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        match self.which {
            Which::Held(ticket, _) => Some(ticket),
            Which::ById(..) | Which::Again(..) => None,
        }
    }

    /// The group that it is in there, or the line of its gates; and those of its gates that this
    /// does not say.
    fn group<'t>(
        &'t self,
        ctx: &mut OpContext<'_>,
        to: &'t TubeEntry,
        (row, progress): (&TaskRow<'t>, &'t TaskProgress),
    ) -> (Option<&'t str>, Option<&'t str>) {
        let given = self.which.given();
        let group = given.and_then(NewRow::placed_group).or(group_in(row.group));
        let gates = given.and_then(NewRow::gates).or(task_gates::of(row.group, progress));
        let stands = task_gates::stand(to, group, gates);
        task_gates::note(ctx, to, (gates, stands.1));
        stands
    }

    /// The tube of the task.
    pub(crate) fn tube_of_task<'t>(&self, ctx: &OpContext<'t>) -> Result<TubeRef<'t>> {
        match self.ticket() {
            Some(ticket) => held_in::tube(ctx, self.from, ticket),
            None => ctx.tube(self.from),
        }
    }

    /// The task, in its tube.
    pub(crate) fn find(
        &self,
        view: &dyn View,
        from: &TubeEntry,
    ) -> Result<(StoredTask, TaskState)> {
        match self.which {
            Which::Held(ticket, _) => {
                let (stored, taken) = settle::held(view, from, ticket)?;
                Ok((stored, TaskState::Taken(taken)))
            }
            Which::ById(id, _) | Which::Again(id, ..) => lookup::find(view, from, id),
        }
    }

    /// Decides, perhaps on the task with a new payload.
    pub(crate) fn decide_on(
        &self,
        ctx: &mut OpContext<'_>,
        new: Option<&Replacement<'_>>,
    ) -> Result<()> {
        let (from, to) = (&*self.tube_of_task(ctx)?, &*ctx.tube(self.to)?);
        self.check(to)?;
        let (stored, state) = self.find(ctx, from)?;
        let bytes = stored.task(from)?.bytes;
        let id = self.id_after(&state);
        let stored = match new {
            None => stored.whole(ctx, from)?,
            Some(new) => new.of(ctx, from, stored, id)?,
        };
        let task = stored.task(from)?;
        let (_, row) = task.read.ok_or_else(|| damaged("task"))?;
        self.admit((from, to), (&task, &state))?;

        let progress = self.progress(ctx, to, &state, row.lives_since())?;
        let priority = match self.changes.priority {
            Some(priority) => priority,
            None if to.row.options.kind.switches().priority => task.own_priority(state.progress()),
            None => to.row.options.priority,
        };
        let place = Rank { priority: to.row.options.turned(priority), order: self.order(ctx) };
        let mut next = self.state(ctx, to, &state, progress);
        let is_moved = id == task.id && (from.number != to.number || row.is_moved());
        let section = self.section(ctx, &row, is_moved, &next)?;
        let (group, gates) = self.group(ctx, to, (&row, state.progress()));
        task_gates::set(next.progress_mut(), gates)?;
        let key = self.which.given().and_then(|given| given.key).or(row.key);
        let moved = TaskRow { times: None, group, key, extension: &section, ..row };
        let (raw, home) = (moved.encode(), Home { rank: place, is_fresh: false });
        let new = TaskRef::new(to, id, (home, place), &raw, moved);
        // Where it stood it is counted with the bytes of its old payload.
        let old = TaskRef { bytes, ..task };
        let exchange = self.exchange(ctx, &task, (to, id))?;
        if let Some(exchange) = &exchange {
            next = exchange.block(ctx, next)?;
        } else if !next.progress().extension.is_empty() {
            next = self.keep_blocked(ctx, to, &state, next);
        }
        self.ensure_free(ctx, (&old, &state), (&new, &next))?;
        self.carry_out(ctx, (&old, &state), (&new, &mut next))?;
        if let Some(exchange) = exchange {
            exchange.write(ctx, (to, id))?;
            if exchange.new.is_cancelled {
                transition::erase(ctx, &new, &next, Cause::Cancel)?;
            }
        }
        // Without a field an older version finds nothing that it does not know.
        if *section != *row.extension && !to.run().is_temporary() {
            ctx.needs(&MOVES);
        }
        Ok(())
    }

    /// Other edges, if a put or the next step gives some.
    fn exchange<'c>(
        &self,
        ctx: &OpContext<'c>,
        old: &TaskRef<'_>,
        of: (&TubeEntry, TaskId),
    ) -> Result<Option<EdgeExchange<'c>>> {
        let given = match self.which {
            Which::Again(_, _, NewRow { extras: Some(extras), .. }, found) => {
                let after = extras.after.as_ref().filter(|after| after.is_given);
                after.map(|after| (after, found))
            }
            _ => self.after,
        };
        given.map(|given| EdgeExchange::of(ctx, old, of, given)).transpose()
    }

    /// One that waits for others goes on waiting, and for its time if it was put with one.
    #[cold]
    fn keep_blocked(
        &self,
        ctx: &OpContext<'_>,
        to: &TubeEntry,
        state: &TaskState,
        next: TaskState,
    ) -> TaskState {
        if next.progress().edges(Direction::Dependency).open == 0 {
            return next;
        }
        let is_given = self.changes.is_moved()
            || self.which.is_again()
            || !to.row.options.kind.switches().timed;
        match (next.blocked(ctx.now), state) {
            (TaskState::Blocked(row), TaskState::Blocked(before)) if !is_given => {
                let (due, wall) = (before.due, before.wall);
                TaskState::Blocked(BlockedRow { due, wall, ..row })
            }
            (next, _) => next,
        }
    }

    /// The task after the move. An id ends once: a finished task that is put again is a new one.
    fn id_after(&self, state: &TaskState) -> TaskId {
        match (self.which, state) {
            (Which::Again(_, number, ..), TaskState::Done(_)) => TaskId::new(number),
            (which, _) => which.id(),
        }
    }

    /// Writes the rows of the task where it goes, and removes those where it was.
    fn carry_out(
        &self,
        ctx: &mut OpContext<'_>,
        (old, state): (&TaskRef<'_>, &TaskState),
        (new, next): (&TaskRef<'_>, &mut TaskState),
    ) -> Result<()> {
        let (cause, is_new) = (self.which.cause(), old.id != new.id);
        statistics::arrive(ctx, new.tube, next);
        if is_new {
            history::pass_on(ctx, (old, state), new, next.progress_mut())?;
        }
        let tags = Moving::of(ctx, (old, state), next, self.given_tags())?;
        let is_again = self.which.is_again();
        let stays = is_again && old.tube.number == new.tube.number;
        let left = Some(old.tube).filter(|_| !stays);
        let task = if is_new { new } else { old };
        let noted = history::note_move(ctx, task, (state, next), cause, left)?;
        match self.which {
            Which::Again(..) if stays && !is_new => {
                transition::replace(ctx, (old, state), (new, next), cause)?;
            }
            Which::Again(..) => {
                transition::succeed(ctx, (old, state), (new, next), cause)?;
            }
            Which::Held(..) | Which::ById(..) => {
                transition::remove(ctx, old, state, cause)?;
                transition::note_way(ctx, new.tube);
                transition::arrive(ctx, new, next, Cause::Move)?;
            }
        }
        if self.which.is_of_holder(state) {
            transition::note_holder(ctx);
        }
        transition::end_stall(ctx, old.tube, state);
        if self.which.ends_reports() {
            reports::erase(ctx, old, state.progress());
        }
        noted.write(ctx);
        if let Some(tags) = tags {
            tags.write(ctx, old, new)?;
        }
        if is_new && let Some((_, row)) = old.read {
            transition::forget_moved(ctx, (old.tube.run(), old.id), &row)?;
        } else if old.tube.number != new.tube.number {
            let number = row::number(u64::from(new.tube.number));
            ctx.set(key::moved(new.tube.run(), new.id), number)?;
        }
        Ok(())
    }

    /// The tags that are given, perhaps none; `None` if the caller does not speak of tags.
    fn given_tags(&self) -> Option<&[&str]> {
        self.which.given()?.extras?.tags.as_deref()
    }

    /// At the back, unless the put says where.
    fn order(&self, ctx: &mut OpContext<'_>) -> Order {
        match self.which {
            Which::Again(_, number, given, _) => given.order(number),
            Which::Held(..) | Which::ById(..) => Order::back(ctx.id()),
        }
    }
}

impl Move<'_> {
    /// What is known of the task after the move: its attempts are 0, and its ttl begins again. A
    /// step that is done has no failure and no reports.
    fn progress(
        &self,
        ctx: &mut OpContext<'_>,
        to: &TubeEntry,
        state: &TaskState,
        since: u64,
    ) -> Result<TaskProgress> {
        let mut progress = match state {
            TaskState::Delayed(row) => TaskState::undelayed(row, ctx.now),
            state => state.progress().clone(),
        };
        progress.attempts = 0;
        progress.set_kept_until(NEVER);
        progress.end_lease();
        if let TaskState::Done(_) = state {
            // What comes after it comes not after the new one.
            let _shrinks = progress.set_edges(Direction::Dependent, EdgeCounts::default());
        }
        progress.take_own_rank();
        if let Which::Held(..) = self.which {
            progress.clear_failure();
        }
        if self.which.ends_reports() {
            let _shrinks = progress.set_reports(StoredReports::default());
        }
        let is_timed = to.row.options.kind.switches().timed;
        let life = match self.changes.ttl {
            Some(ttl) => micros(ttl),
            None if !is_timed => NEVER,
            None => progress.life(since),
        };
        progress.begin_life(ctx.now.queue, life);
        progress.ttr = match self.changes.ttr {
            Some(ttr) => micros(ttr),
            None if is_timed => progress.ttr,
            None => NEVER,
        };
        if !is_timed {
            // It shortens the row.
            let _fits =
                progress.set_retry_terms(&RetryTerms { backoff: None, ..progress.retry_terms() });
        }
        retry::set(ctx, to, &mut progress, self.changes.retry)?;
        Ok(progress)
    }

    /// Delayed by the delay that is given. Without one a task that is moved by its id keeps the end
    /// of its delay.
    fn state(
        &self,
        ctx: &OpContext<'_>,
        to: &TubeEntry,
        state: &TaskState,
        progress: TaskProgress,
    ) -> TaskState {
        let is_given =
            self.changes.delay.is_some() || self.changes.run_at.is_some() || self.which.is_again();
        let due = match state {
            TaskState::Delayed(row) if !is_given && to.row.options.kind.switches().timed => {
                Some((row.due, row.wall)).filter(|_| stored::wait_left(row, ctx.now) > 0)
            }
            _ => ctx.due(self.changes.delay, self.changes.run_at),
        };
        match due {
            None => TaskState::Ready(progress),
            Some((due, wall)) => {
                let row = DelayedRow { progress, due, wall, holds_group: false };
                TaskState::delayed(row, ctx.now)
            }
        }
    }

    /// The extension section of the task's row after the move.
    fn section(
        &self,
        ctx: &OpContext<'_>,
        row: &TaskRow<'_>,
        is_moved: bool,
        next: &TaskState,
    ) -> Result<Value> {
        let since = Some(ctx.now.queue).filter(|_| next.progress().expires != NEVER);
        let passed = match self.which {
            Which::Held(_, result) => result,
            Which::ById(..) | Which::Again(..) => row.passed(),
        };
        let no_room = || Error::new(ErrorKind::TooLarge).because("its row has no room for it");
        let section = moved_section(row.extension, passed, is_moved, since).ok_or_else(no_room)?;
        match self.which.given().and_then(|given| given.extras) {
            Some(extras) => {
                let text = "its row has no room for its labels, or its details exceed 4 KiB";
                let too_long = || Error::new(ErrorKind::TooLarge).because(text);
                labelled_section(&section, extras.labels()).ok_or_else(too_long)
            }
            None => Ok(section),
        }
    }
}
