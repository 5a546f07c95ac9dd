//! A task as its rows store it: the small row of its state, and the task's own row, which the put
//! wrote and which is read only when it is needed.

use crate::engine::context::{OpContext, damaged};
use crate::engine::payload::{Payload, StoredPayload};
use crate::engine::position;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Direction, Home, Rank};
use crate::format::piece::Pieces;
use crate::format::row::{
    Away, BlockedRow, BuriedRow, DelayedRow, DoneRow, Homed, PayloadPlace, PositionRow, TakenRow,
    TaskProgress, TaskRow, Times,
};
use crate::format::{Deadline, Tag, Value, View};
use crate::words::clock::{NEVER, Now};
use crate::words::error::{ErrorKind, Result};
use crate::words::task::{Reason, State, TaskId};

mod waiting;

/// A task's state with its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    /// Ready and untouched since the put, see `engine::fresh`. It has no row of its own.
    Fresh(TaskProgress),
    Ready(TaskProgress),
    Delayed(DelayedRow),
    Blocked(BlockedRow),
    Taken(TakenRow),
    Buried(BuriedRow),
    Done(DoneRow),
    /// In the trash, see `engine::trash`. To users it is buried.
    Trashed(BuriedRow),
}

impl TaskState {
    /// Delayed until the row's `due`. The end of the task's ttl moves by the length of the delay
    /// here, when a call requests the delay. It does not move again when the delay ends.
    pub(crate) fn delayed(mut row: DelayedRow, now: Now) -> Self {
        row.progress.add_wait(wait_left(&row, now));
        Self::Delayed(row)
    }

    /// What is left of a delayed task when its delay ends now instead of later: the rest of the
    /// delay is taken from the end of its ttl again.
    pub(crate) fn undelayed(row: &DelayedRow, now: Now) -> TaskProgress {
        let (mut progress, left) = (row.progress.clone(), wait_left(row, now));
        // After the wall clock was set back, the rest is longer than what was added at the put.
        if progress.expires != NEVER && progress.expires.saturating_sub(left) > now.queue {
            progress.end_wait(left);
        }
        progress
    }

    /// Whether it is finished and kept for the tasks that come after it.
    #[cold]
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, Self::Done(row) if !row.progress.edges(Direction::Dependent).is_empty())
    }

    pub(crate) fn state(&self) -> State {
        match self {
            Self::Fresh(_) | Self::Ready(_) => State::Ready,
            Self::Delayed(_) => State::Delayed,
            Self::Blocked(_) => State::Blocked,
            Self::Taken(_) => State::Taken,
            Self::Buried(_) | Self::Trashed(_) => State::Buried,
            Self::Done(_) => State::Done,
        }
    }

    /// How many entries its history has: the put, those that are stored, and what the state says.
    pub(crate) fn history_entries(&self) -> u64 {
        let stored = self.progress().history().map_or(0, |history| history.len());
        1 + u64::from(stored) + u64::from(matches!(self, Self::Taken(_) | Self::Done(_)))
    }

    /// The consumer that holds it, or 0.
    pub(crate) fn holder(&self) -> u32 {
        match self {
            Self::Taken(row) => row.holder,
            _ => 0,
        }
    }

    pub(crate) fn progress(&self) -> &TaskProgress {
        match self {
            Self::Fresh(progress) | Self::Ready(progress) => progress,
            Self::Delayed(row) => &row.progress,
            Self::Blocked(row) => &row.progress,
            Self::Taken(row) => &row.progress,
            Self::Buried(row) | Self::Trashed(row) => &row.progress,
            Self::Done(row) => &row.progress,
        }
    }

    /// The deadlines of a state: the task's own, and its lease's; [`NEVER`] is none.
    #[inline]
    pub(crate) fn deadlines(&self, tube: &TubeEntry) -> [(Deadline, u64); 2] {
        let (what, when, lease) = match self {
            Self::Fresh(progress) | Self::Ready(progress) => {
                (Deadline::Ttl, progress.expires, NEVER)
            }
            Self::Delayed(row) => (row.deadline(), row.due, NEVER),
            Self::Blocked(_) => (Deadline::Ttl, NEVER, NEVER),
            Self::Taken(row) => (Deadline::Ttl, row.progress.expires, row.deadline),
            Self::Buried(_) | Self::Trashed(_) | Self::Done(_) => {
                (Deadline::Ttl, self.removal(tube), NEVER)
            }
        };
        [(what, when), (Deadline::Ttr, lease)]
    }

    /// Until when a task is kept that has ended: to the end of its ttl, or as its tube keeps it.
    /// The ttl of a finished task ended with it.
    #[cold]
    fn removal(&self, tube: &TubeEntry) -> u64 {
        let progress = self.progress();
        if self.is_held() {
            return NEVER;
        }
        let is_spared = tube.row.options.ttl_spares_buried || matches!(self, Self::Done(_));
        let expires = if is_spared { NEVER } else { progress.expires };
        expires.min(progress.kept_until())
    }

    pub(crate) fn progress_mut(&mut self) -> &mut TaskProgress {
        match self {
            Self::Fresh(progress) | Self::Ready(progress) => progress,
            Self::Delayed(row) => &mut row.progress,
            Self::Blocked(row) => &mut row.progress,
            Self::Taken(row) => &mut row.progress,
            Self::Buried(row) | Self::Trashed(row) => &mut row.progress,
            Self::Done(row) => &mut row.progress,
        }
    }
}

/// Microseconds that a delayed task still waits, by the clock of its delay; [`NEVER`] without end.
pub(crate) fn wait_left(row: &DelayedRow, now: Now) -> u64 {
    let now = if row.wall { now.wall } else { now.queue };
    if row.due == NEVER { NEVER } else { row.due.saturating_sub(now) }
}

/// A task as the row of its state gives it, with its own row as far as that was read.
pub(crate) struct StoredTask {
    id: TaskId,
    pub(crate) home: Home,
    pub(crate) place: Rank,
    own: OwnRow,
}

/// The task's own row, which the put wrote.
enum OwnRow {
    /// It was not read. By the row of the state the task has no key, this group, and a payload of
    /// this many bytes in its own row.
    Plain {
        group: Option<Box<str>>,
        bytes: u64,
    },
    Read(Value),
    /// It is damaged or missing. The group is the one in the row of the state, if that says it.
    Lost(Option<Box<str>>),
}

/// A task, without its state.
#[derive(Clone, Copy)]
pub(crate) struct TaskRef<'a> {
    pub(crate) tube: &'a TubeEntry,
    pub(crate) id: TaskId,
    pub(crate) home: Home,
    /// Its rank among the ready tasks, now or when it becomes ready again.
    pub(crate) place: Rank,
    pub(crate) group: Option<&'a str>,
    /// Bytes of the payload.
    pub(crate) bytes: u64,
    /// Its own row, if it was read.
    pub(crate) read: Option<(&'a Value, TaskRow<'a>)>,
    /// Whether a take found it as the next one: at the border of the fresh tasks, or at the head
    /// of its group.
    pub(crate) is_next: bool,
}

/// What a delivery contains of a task.
pub(crate) struct Content {
    /// When it was put, in queue time.
    pub(crate) created: u64,
    pub(crate) codec: u8,
    pub(crate) version: u16,
    pub(crate) payload: StoredPayload,
}

impl StoredTask {
    /// The task.
    ///
    /// # Errors
    /// `Damaged` if its own row was needed, and is damaged or missing.
    #[inline]
    pub(crate) fn task<'a>(&'a self, tube: &'a TubeEntry) -> Result<TaskRef<'a>> {
        let Self { id, home, place, .. } = *self;
        match &self.own {
            OwnRow::Plain { group, bytes } => {
                let (group, bytes, read) = (group.as_deref(), *bytes, None);
                Ok(TaskRef { tube, id, home, place, group, bytes, read, is_next: false })
            }
            OwnRow::Read(raw) => {
                let row = TaskRow::decode(raw).ok_or_else(|| damaged("task"))?;
                Ok(TaskRef::new(tube, id, (home, place), raw, row))
            }
            OwnRow::Lost(_) => Err(damaged("task")),
        }
    }

    /// The group by the row of the state, or by the task's own row if that was read. `None` if the
    /// row that was read cannot be decoded.
    pub(crate) fn stated_group(&self) -> Option<Option<&str>> {
        match &self.own {
            OwnRow::Plain { group, .. } | OwnRow::Lost(group) => Some(group.as_deref()),
            OwnRow::Read(raw) => TaskRow::decode(raw).map(|row| row.group),
        }
    }

    /// The task's own row, if it was read and is sound.
    pub(crate) fn own(&self) -> Option<TaskRow<'_>> {
        match &self.own {
            OwnRow::Read(raw) => TaskRow::decode(raw),
            OwnRow::Plain { .. } | OwnRow::Lost(_) => None,
        }
    }

    /// The same task with another own row.
    pub(crate) fn with_own(self, raw: Value) -> Self {
        Self { own: OwnRow::Read(raw), ..self }
    }

    /// The same task at another home, where its own row is.
    #[cold]
    pub(crate) fn at_home(self, home: Home, raw: Value) -> Self {
        Self { home, own: OwnRow::Read(raw), ..self }
    }

    /// The same task, with the task's own row read in any case.
    pub(crate) fn whole(mut self, view: &dyn View, tube: &TubeEntry) -> Result<Self> {
        if let OwnRow::Plain { group, .. } = &mut self.own {
            let group = group.take();
            self.own = own_row(view, tube, self.id, &self.home, group)?;
        }
        Ok(self)
    }
}

impl<'a> TaskRef<'a> {
    pub(crate) fn new(
        tube: &'a TubeEntry,
        id: TaskId,
        (home, place): (Home, Rank),
        raw: &'a Value,
        row: TaskRow<'a>,
    ) -> Self {
        let (group, bytes, read) = (row.group, row.payload.bytes(), Some((raw, row)));
        Self { tube, id, home, place, group, bytes, read, is_next: false }
    }

    /// The caller's key. The own row of a task with a key was read.
    #[inline]
    pub(crate) fn key(&self) -> Option<&'a str> {
        self.read.and_then(|(_, row)| row.key)
    }

    /// The pieces of the payload, if it is stored in pieces. The own row of such a task was read.
    #[inline]
    pub(crate) fn pieces(&self) -> Option<Pieces> {
        self.read.and_then(|(_, row)| row.payload.pieces())
    }

    /// Its payload, and how it was encoded. Reads no pieces.
    ///
    /// # Errors
    /// `Damaged` if its own row is damaged or missing.
    #[inline(always)]
    pub(crate) fn content(&self, view: &dyn View) -> Result<Content> {
        let own;
        let (raw, row) = match self.read {
            Some(read) => read,
            None => {
                let row = view.get(&key::task(self.tube.run(), &self.home, self.id))?;
                own = row.ok_or_else(|| damaged("task"))?;
                (&own, TaskRow::decode(&own).ok_or_else(|| damaged("task"))?)
            }
        };
        let payload = match row.payload {
            PayloadPlace::Inline(payload) => {
                StoredPayload::Read(Payload::Inline(raw.clone(), raw.len() - payload.len()))
            }
            PayloadPlace::Separate(pieces) => {
                StoredPayload::Separate(Box::new(((self.tube.run(), self.id), pieces)))
            }
        };
        Ok(Content { created: row.created, codec: row.codec, version: row.version, payload })
    }

    /// The priority that a caller has given it.
    #[inline]
    pub(crate) fn priority(&self) -> i64 {
        self.tube.row.options.turned(self.place.priority)
    }

    /// The same of a task that may stand ahead of every priority.
    pub(crate) fn own_priority(&self, progress: &TaskProgress) -> i64 {
        let rank = progress.own_rank().unwrap_or(self.place);
        self.tube.row.options.turned(rank.priority)
    }

    /// Its rank with another priority, if one is given.
    #[inline]
    pub(crate) fn place_with(&self, priority: Option<i64>) -> Rank {
        let turned = |priority| self.tube.row.options.turned(priority);
        Rank { priority: priority.map_or(self.place.priority, turned), ..self.place }
    }

    /// Whether the task needs a position row.
    #[inline]
    pub(crate) fn has_position(&self) -> bool {
        let plain = position::plain(self.tube, self.id);
        self.home.rank != plain || self.place != plain
    }

    /// The position row of the task.
    pub(crate) fn position_row(&self) -> Value {
        PositionRow { home: self.home.rank, place: self.place }.encode()
    }

    /// The fields of a state row without a rank in its key.
    pub(crate) fn away(&self) -> Away<'a> {
        let plain = position::plain(self.tube, self.id);
        Away {
            place: (self.place != plain).then_some(self.place),
            group: self.group.filter(|group| Some(*group) != self.tube.plain_group()),
            keyed: self.key().is_some(),
            extended: self.read.is_some_and(|(_, row)| !row.extension.is_empty()),
            apart: self.pieces().is_some(),
            bytes: u32::try_from(self.bytes).unwrap_or(u32::MAX),
        }
    }
}

/// Reads the task's own row. The row of the state says this group, or nothing about it.
#[inline(always)]
fn own_row(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    home: &Home,
    group: Option<Box<str>>,
) -> Result<OwnRow> {
    match view.get(&key::task(tube.run(), home, id)) {
        Ok(Some(raw)) => Ok(OwnRow::Read(raw)),
        Err(error) if error.kind() != ErrorKind::Damaged => Err(error),
        Ok(None) | Err(_) => Ok(OwnRow::Lost(group.or(tube.plain_group().map(Box::from)))),
    }
}

/// Reads the state in the state row of this key, and the task with it.
///
/// # Errors
/// `Damaged` if the state cannot be decoded.
pub(crate) fn open(
    view: &dyn View,
    tube: &TubeEntry,
    key: &[u8],
    raw: &Value,
) -> Result<(StoredTask, TaskState)> {
    let tag = key.first().copied().and_then(Tag::of);
    let (tag, id) = tag.zip(key::id_of(key)).ok_or_else(|| damaged("state"))?;
    open_at(view, tube, (tag, id, key::rank_in_state(tag, key)), raw)
}

/// The same, with what the key says: `at` is the rank in it, for states that have it there.
#[inline(always)]
pub(crate) fn open_at(
    view: &dyn View,
    tube: &TubeEntry,
    (tag, id, at): (Tag, TaskId, Option<Rank>),
    raw: &Value,
) -> Result<(StoredTask, TaskState)> {
    if let (Tag::Fresh, Some(place)) = (tag, at) {
        let home = Home { rank: place, is_fresh: true };
        let stored = StoredTask { id, home, place, own: OwnRow::Read(raw.clone()) };
        let Times { expires, ttr } = TaskRow::times(raw).ok_or_else(|| damaged("task"))?;
        let progress = TaskProgress::fresh(expires, ttr);
        return Ok((stored, TaskState::Fresh(progress)));
    }
    let (state, place, home) = match (tag.state(), at) {
        (Some(State::Ready), Some(at)) => {
            let (progress, home) = TaskProgress::decode(raw).ok_or_else(|| damaged("ready"))?;
            (TaskState::Ready(progress), at, home)
        }
        (Some(State::Buried), Some(at)) => {
            let (row, home) = BuriedRow::decode(raw).ok_or_else(|| damaged("buried"))?;
            match (tag == Tag::Trashed, &row.reason) {
                (true, Reason::Trashed(_)) => (TaskState::Trashed(row), at, home),
                (true, _) | (false, Reason::Trashed(_)) => return Err(damaged("buried")),
                (false, _) => (TaskState::Buried(row), at, home),
            }
        }
        (Some(State::Delayed), _) => {
            let (away, homed) = DelayedRow::decode(raw).ok_or_else(|| damaged("delayed"))?;
            let (stored, row) = open_away(view, tube, id, &away, homed)?;
            return Ok((stored, TaskState::Delayed(row)));
        }
        (Some(State::Blocked), _) => {
            let (away, homed) = BlockedRow::decode(raw).ok_or_else(|| damaged("blocked"))?;
            let (stored, row) = open_away(view, tube, id, &away, homed)?;
            return Ok((stored, TaskState::Blocked(row)));
        }
        (Some(State::Taken), _) => {
            let (stored, taken) = lease(view, tube, id, raw)?;
            return Ok((stored, TaskState::Taken(taken)));
        }
        (Some(State::Done), _) => {
            let (away, homed) = DoneRow::decode(raw).ok_or_else(|| damaged("done"))?;
            let (stored, row) = open_away(view, tube, id, &away, homed)?;
            return Ok((stored, TaskState::Done(row)));
        }
        (Some(State::Ready | State::Buried) | None, _) => return Err(damaged("state")),
    };
    let home = home.at(place);
    let own = own_row(view, tube, id, &home, None)?;
    Ok((StoredTask { id, home, place, own }, state))
}

#[inline(always)]
fn open_away<T>(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    away: &Away<'_>,
    (row, home): Homed<T>,
) -> Result<(StoredTask, T)> {
    let place = away.place.unwrap_or_else(|| position::plain(tube, id));
    let home = home.at(place);
    let group = away.group.or(tube.plain_group()).map(Box::from);
    let own = if away.keyed || away.extended || away.apart {
        own_row(view, tube, id, &home, group)?
    } else {
        OwnRow::Plain { group, bytes: u64::from(away.bytes) }
    };
    Ok((StoredTask { id, home, place, own }, row))
}

/// Reads the state in the row of a taken task, and the task with it.
///
/// # Errors
/// `Damaged` if the state does not decode.
#[inline(always)]
pub(crate) fn lease(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    raw: &Value,
) -> Result<(StoredTask, TakenRow)> {
    let (away, homed) = TakenRow::decode(raw).ok_or_else(|| damaged("taken"))?;
    open_away(view, tube, id, &away, homed)
}

/// The same for a row that may be damaged; `None` if its repair did not help.
///
/// # Errors
/// `Damaged`, with the row, if it was not repaired yet.
pub(crate) fn lease_or_repair(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
    row: Result<Option<Value>>,
) -> Result<Option<(StoredTask, TakenRow)>> {
    let opened = row.and_then(|row| {
        let (stored, taken) = lease(ctx, tube, id, &row.ok_or_else(|| damaged("taken"))?)?;
        stored.task(tube)?;
        Ok((stored, taken))
    });
    ctx.or_repair(tube, || key::taken(tube.run(), id), opened)
}
