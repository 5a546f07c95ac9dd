//! The decisions of an op besides row writes: steps of tasks, wake-ups, deadlines, tubes made and
//! dropped. They are published after the commit, so that no code must derive them from the rows.

use crate::engine::step_notes::StepNotes;
use crate::engine::tube_set::Looked;
use crate::format::Deadline;
use crate::format::key::{Key, Run, Work};
use crate::format::row::TubeRow;
use crate::words::clock::{NEVER, Now};
use crate::words::setting::SettingValue;
use crate::words::task::{Cause, State, TaskId, TaskInfo};
use smallvec::SmallVec;

/// Entries whose memory is kept for the next op.
const KEPT: usize = 1024;

/// A task's step from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) tube: u32,
    pub(crate) task: TaskId,
    pub(crate) from: Option<State>,
    pub(crate) to: Option<State>,
    pub(crate) cause: Cause,
}

/// A change of a tube, or of a setting of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TubeChange {
    pub(crate) number: u32,
    /// Its row; `None` if it was dropped.
    pub(crate) row: Option<Box<TubeRow>>,
    /// Why, if users see the change as an event.
    pub(crate) cause: Option<Cause>,
    /// The setting that has changed, if one has.
    pub(crate) setting: Option<Box<SettingChange>>,
    /// How many more of its tasks are stalled. Then it is no other change.
    pub(crate) stalled: i64,
    /// Whether its run may have tasks that were there before its row.
    pub(crate) is_adopted: bool,
    /// What happened to a schedule of the tube. Then it is no other change.
    pub(crate) schedule: Option<Box<ScheduleChange>>,
}

/// What happened to a schedule, for events alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScheduleChange {
    pub(crate) name: Box<str>,
    /// The name of its tube, which may be gone.
    pub(crate) tube: Box<str>,
    /// Why a fire was missed; else empty.
    pub(crate) message: Box<str>,
}

/// A setting that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingChange {
    pub(crate) name: Box<str>,
    /// `None` if it was unset.
    pub(crate) value: Option<SettingValue>,
}

/// A lower bound of the deadlines of each kind; [`NEVER`] where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextDue {
    /// Also of the end of a pause.
    pub(crate) delay: u64,
    pub(crate) run_at: u64,
    pub(crate) ttl: u64,
    pub(crate) ttr: u64,
}

impl NextDue {
    pub(crate) const NONE: Self = Self { delay: NEVER, run_at: NEVER, ttl: NEVER, ttr: NEVER };
    /// A bound that is lower than every deadline.
    pub(crate) const UNKNOWN: Self = Self { delay: 0, run_at: 0, ttl: 0, ttr: 0 };

    /// The bound of one deadline of this kind.
    pub(crate) fn of(what: Deadline, when: u64) -> Self {
        let mut next = Self::NONE;
        *next.kind_mut(what) = when;
        next
    }

    pub(crate) fn kind(self, what: Deadline) -> u64 {
        let mut next = self;
        *next.kind_mut(what)
    }

    pub(crate) fn kind_mut(&mut self, what: Deadline) -> &mut u64 {
        match what {
            Deadline::Delay => &mut self.delay,
            Deadline::RunAt => &mut self.run_at,
            Deadline::Ttl => &mut self.ttl,
            Deadline::Ttr => &mut self.ttr,
        }
    }

    /// Whether a deadline may have passed, for an op that sees delays or does not.
    #[inline]
    pub(crate) fn is_due(&self, sees_delays: bool, now: Now) -> bool {
        let sees = sees_delays && (self.delay <= now.queue || self.run_at <= now.wall);
        sees || self.ttl <= now.queue || self.ttr <= now.lease
    }

    pub(crate) fn earlier(self, other: Self) -> Self {
        Self {
            delay: self.delay.min(other.delay),
            run_at: self.run_at.min(other.run_at),
            ttl: self.ttl.min(other.ttl),
            ttr: self.ttr.min(other.ttr),
        }
    }
}

/// Where the fresh tasks of a tube begin, see `engine::fresh`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Border {
    pub(crate) at: Key,
    /// The border was searched when the tasks with lower ids were there. If rows are damaged,
    /// another row may still give the state of one after the border.
    pub(crate) unsure_to: u64,
}

/// Work on the edges between tasks that was begun.
#[derive(Debug, Default)]
pub(crate) struct EdgeWork {
    /// The keys of its rows, each with its kind. One may stand here twice.
    pub(crate) rows: Vec<(Work, Key)>,
}

impl EdgeWork {
    /// Takes over the work that was begun later.
    pub(crate) fn append(begun: &mut Option<Box<Self>>, later: Option<Box<Self>>) {
        if let Some(later) = later {
            begun.get_or_insert_default().rows.extend(later.rows);
        }
    }
}

/// What a step means for those who wait for a slot of a throttle. Each names the throttle by its
/// run.
#[derive(Debug, Default)]
pub(crate) struct SlotSteps {
    /// A slot was left.
    pub(crate) left: Vec<Run>,
    /// A taker found this tube closed, waits for what is ready there, or would be woken.
    pub(crate) closed: Vec<(Run, u32)>,
    /// A take of this tube got so many tasks.
    pub(crate) taken: Vec<(Run, u32, usize)>,
    /// Those in this tube whom a slot was left for do not take it.
    pub(crate) unused: Vec<u32>,
    /// So many of them have taken a task, perhaps one that needs no such slot.
    pub(crate) served: Vec<(u32, usize)>,
    pub(crate) lines: LineSteps,
}

/// What a step means for the lines behind gates of their tasks. A gate is named as in the name of a
/// line; each is of a tube.
#[derive(Debug, Default)]
pub(crate) struct LineSteps {
    /// A line stands behind this gate now, the run of which it is if it is a throttle.
    pub(crate) closed: Vec<(u32, String, Option<Run>)>,
    /// A take has looked behind this gate.
    pub(crate) looked: Vec<(u32, String, LookedBehind)>,
    /// It may be open now.
    pub(crate) opened: Vec<(u32, String)>,
    /// The limit of a throttle ends at this queue time behind which lines of the tube stand.
    pub(crate) ends: Vec<(u32, u64)>,
    /// None of them ends before this time.
    pub(crate) next_end: Vec<(u32, u64)>,
    /// No line of this tube stands behind a gate.
    pub(crate) none: Vec<u32>,
}

impl LineSteps {
    fn append(&mut self, later: Self) {
        self.closed.extend(later.closed);
        self.looked.extend(later.looked);
        self.opened.extend(later.opened);
        self.ends.extend(later.ends);
        self.next_end.extend(later.next_end);
        self.none.extend(later.none);
    }
}

/// What a take has found behind a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookedBehind {
    /// No line.
    IsEmpty,
    /// The gate is closed. It is the throttle of this run, if it is one.
    IsClosed(Option<Run>),
}

/// What is published after the commit.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// The steps, in order.
    pub(crate) changes: Vec<Change>,
    /// What events say of them besides, if events are read.
    pub(crate) notes: Option<Box<StepNotes>>,
    /// Tubes in which tasks became takeable, and how many.
    pub(crate) wakes: Vec<(u32, usize)>,
    /// For each tube the earliest of the deadlines that were added.
    pub(crate) deadlines: Vec<(u32, NextDue)>,
    /// A tube whose due work was done, and the bound of its deadlines without those added here.
    pub(crate) worked_off: Option<(u32, NextDue)>,
    /// Where the border of a tube's fresh tasks is now.
    pub(crate) borders: SmallVec<[(u32, Border); 1]>,
    pub(crate) tubes: Vec<TubeChange>,
    /// A work row was written.
    pub(crate) work: bool,
    /// One that the timer handles.
    pub(crate) timer_work: bool,
    /// What of it is work on the edges between tasks, which the caller handles.
    pub(crate) edges: Option<Box<EdgeWork>>,
    /// A part of a repair: a task that it sets aside removes no other one. Not published.
    pub(crate) retires_none: bool,
    /// Payload bytes added to durable tubes, minus those removed.
    pub(crate) durable_bytes: i64,
    /// Tasks that retentions removed and whose ends calls wait for, as they were. They are taken
    /// out by the commit, and after a refusal: a plain op does not look at them.
    pub(crate) retired: Vec<TaskInfo>,
    /// What a take from several tubes has seen of them. It is taken out as the retired ones are.
    pub(crate) looked: Option<Box<Looked>>,
    /// Usually none. They are taken out as the retired ones are.
    pub(crate) slots: Option<Box<SlotSteps>>,
}

impl Effects {
    /// Removes the effects. The memory is kept for the next ones, unless it is much.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.changes.clear();
        self.changes.shrink_to(KEPT);
        self.drop_notes();
        self.wakes.clear();
        self.wakes.shrink_to(KEPT);
        self.deadlines.clear();
        self.deadlines.shrink_to(KEPT);
        self.borders.clear();
        self.worked_off = None;
        if !self.tubes.is_empty() {
            self.tubes = Vec::new();
        }
        if self.work {
            (self.timer_work, self.edges) = (false, None);
        }
        (self.work, self.durable_bytes) = (false, 0);
    }

    /// A work row is written that the timer handles.
    pub(crate) fn begin_timer_work(&mut self) {
        (self.work, self.timer_work) = (true, true);
    }

    /// A work row is written that is about edges.
    pub(crate) fn begin_edge_work(&mut self, kind: Work, row: Key) {
        self.work = true;
        self.edges.get_or_insert_default().rows.push((kind, row));
    }

    /// What the step means for those who wait for a slot.
    pub(crate) fn slot_steps(&mut self) -> &mut SlotSteps {
        self.slots.get_or_insert_default()
    }

    /// The notes, and the index of the last step; `None` without steps.
    pub(crate) fn notes_of_last(&mut self) -> Option<(usize, &mut StepNotes)> {
        let last = self.changes.len().checked_sub(1)?;
        Some((last, self.notes.get_or_insert_default()))
    }

    /// Frees the notes, once the steps are published.
    #[inline]
    pub(crate) fn drop_notes(&mut self) {
        if self.notes.is_some() {
            self.notes = None;
        }
    }

    /// Bytes of the payloads that were read for events, and for calls that wait for an end.
    pub(crate) fn payload_bytes(&self) -> usize {
        let retired = self.retired.iter().map(|task| task.payload.len());
        self.notes.as_ref().map_or(0, |notes| notes.payload_bytes()) + retired.sum::<usize>()
    }

    /// A task of the tube that became takeable in this step is not after all.
    #[cold]
    pub(crate) fn wake_less(&mut self, tube: u32) {
        match self.wakes.last_mut() {
            Some((woken, 1)) if *woken == tube => _ = self.wakes.pop(),
            Some((woken, count)) if *woken == tube && *count < usize::MAX => *count -= 1,
            _ => {}
        }
    }

    /// Adds tasks of the tube that became takeable; `usize::MAX` makes every waiting taker look
    /// again. An op mostly works in one tube, so only the last entry is looked at: a tube may have
    /// more than one.
    #[inline]
    pub(crate) fn wake(&mut self, tube: u32, tasks: usize) {
        match self.wakes.last_mut() {
            Some((woken, count)) if *woken == tube => *count = count.saturating_add(tasks),
            _ => self.wakes.push((tube, tasks)),
        }
    }

    /// Adds deadlines of the tube. As for [`wake`](Self::wake) a tube may have more than one entry.
    #[inline]
    pub(crate) fn deadline(&mut self, tube: u32, next: NextDue) {
        match self.deadlines.last_mut() {
            Some((last, bound)) if *last == tube => *bound = bound.earlier(next),
            _ => self.deadlines.push((tube, next)),
        }
    }

    /// A lower bound of the deadlines of the tube that were added.
    pub(crate) fn added_deadlines(&self, tube: u32) -> NextDue {
        let added = self.deadlines.iter().filter(|(number, _)| *number == tube);
        added.fold(NextDue::NONE, |bound, (_, next)| bound.earlier(*next))
    }

    /// Counts a stall that begins, or with a minus one that ends.
    #[cold]
    pub(crate) fn count_stalled(&mut self, number: u32, stalled: i64) {
        let (row, cause, setting, is_adopted, schedule) = (None, None, None, false, None);
        let change = TubeChange { number, row, cause, setting, stalled, is_adopted, schedule };
        self.tubes.push(change);
    }

    /// Whether a tube itself has changed.
    pub(crate) fn changes_tubes(&self) -> bool {
        self.tubes.iter().any(|change| change.stalled == 0 && change.schedule.is_none())
    }

    /// Moves the border of a tube's fresh tasks.
    #[inline]
    pub(crate) fn set_border(&mut self, tube: u32, border: Border) {
        match self.borders.iter_mut().find(|(moved, _)| *moved == tube) {
            Some((_, moved)) => *moved = border,
            None => self.borders.push((tube, border)),
        }
    }

    /// Where this border is now, if it was moved.
    #[inline]
    pub(crate) fn border(&self, tube: u32) -> Option<&Border> {
        self.borders.iter().find(|(moved, _)| *moved == tube).map(|(_, border)| border)
    }

    /// Counts the payload bytes of a task that is added, or with a minus those of one that is
    /// removed. Temporary tubes have their own limit.
    pub(crate) fn count_bytes(&mut self, run: Run, bytes: i64) {
        if !run.is_temporary() {
            self.durable_bytes = self.durable_bytes.saturating_add(bytes);
        }
    }

    /// Removes what [`clear`](Self::clear) leaves to those who take it out.
    pub(crate) fn clear_rest(&mut self) {
        self.retired = Vec::new();
        (self.looked, self.slots, self.retires_none) = (None, None, false);
    }

    /// Adds the effects of a later decision, and empties it.
    pub(crate) fn append(&mut self, later: &mut Self) {
        let before = self.changes.len();
        if let Some(notes) = later.notes.take() {
            self.notes.get_or_insert_default().merge(before, *notes);
        }
        self.changes.append(&mut later.changes);
        for (tube, tasks) in later.wakes.drain(..) {
            self.wake(tube, tasks);
        }
        for (tube, next) in later.deadlines.drain(..) {
            self.deadline(tube, next);
        }
        for (tube, border) in later.borders.drain(..) {
            self.set_border(tube, border);
        }
        self.tubes.append(&mut later.tubes);
        self.work |= later.work;
        self.timer_work |= later.timer_work;
        EdgeWork::append(&mut self.edges, later.edges.take());
        self.durable_bytes = self.durable_bytes.saturating_add(later.durable_bytes);
        self.retired.append(&mut later.retired);
        self.looked = later.looked.take().or(self.looked.take());
        if let Some(later) = later.slots.take() {
            let slots = self.slot_steps();
            slots.left.extend(later.left);
            slots.closed.extend(later.closed);
            slots.taken.extend(later.taken);
            slots.unused.extend(later.unused);
            slots.served.extend(later.served);
            slots.lines.append(later.lines);
        }
    }
}
