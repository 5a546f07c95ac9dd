//! Changes of one field of a row.

use crate::engine::audit::tests::Rows;
use crate::engine::stored::TaskState;
use crate::format::key::{self, Key};
use crate::format::row::{
    self, Away, BlockedRow, BuriedRow, DelayedRow, DoneRow, Homed, StoredHome, TakenRow,
    TaskProgress, TaskRow, TubeRow,
};
use crate::format::{Range, Tag, Value};
use crate::words::task::Reason;

pub(super) fn value(rows: &Rows, at: &Key) -> Option<Value> {
    rows.rows.get(at)?.clone()
}

/// Writes the row again, after a change of what it says.
pub(super) fn change<T>(
    rows: &mut Rows,
    at: &Key,
    decode: impl FnOnce(&[u8]) -> Option<T>,
    to: impl FnOnce(T) -> Option<Value>,
) -> Option<()> {
    let row = to(decode(&value(rows, at)?)?)?;
    rows.set(at.clone(), row);
    Some(())
}

/// One more.
pub(super) fn count(rows: &mut Rows, at: &Key) -> Option<()> {
    change(rows, at, row::read_number, |number| Some(row::number(number + 1)))
}

/// A value where there is to be none.
pub(super) fn fill(rows: &mut Rows, at: &Key) -> Option<()> {
    rows.set(at.clone(), Value::from([7]));
    Some(())
}

/// The row stands under another key.
pub(super) fn rekey(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut Key)) -> Option<()> {
    let mut other = at.clone();
    to(&mut other);
    let row = rows.rows.remove(at)?;
    // Where there is one already, this one stands alone.
    rows.rows.entry(other).or_insert(row);
    Some(())
}

/// The same, with the id of a task that there is not.
pub(super) fn other_id(rows: &mut Rows, at: &Key) -> Option<()> {
    rekey(rows, at, |at| {
        let id = at.len() - 7;
        at[id] ^= 0x10;
    })
}

/// With another byte at this place of the key.
pub(super) fn other_byte(rows: &mut Rows, at: &Key, place: usize) -> Option<()> {
    at.get(place)?;
    rekey(rows, at, |at| at[place] ^= 1)
}

/// With another last byte of the text at this place of the key, which its length stands before.
pub(super) fn other_text(rows: &mut Rows, at: &Key, place: usize) -> Option<()> {
    let length = usize::from(*at.get(place)?);
    other_byte(rows, at, place + length)
}

pub(super) fn tube(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut TubeRow)) -> Option<()> {
    change(rows, at, TubeRow::decode, |mut row| {
        to(&mut row);
        Some(row.encode())
    })
}

/// The same of the tube of this name only.
pub(super) fn tube_named(
    rows: &mut Rows,
    at: &Key,
    name: &str,
    to: impl FnOnce(&mut TubeRow),
) -> Option<()> {
    let row = TubeRow::decode(&value(rows, at)?)?;
    (row.name == name).then_some(())?;
    tube(rows, at, to)
}

/// A task's own row.
pub(super) fn own(
    rows: &mut Rows,
    at: &Key,
    to: impl FnOnce(TaskRow<'_>) -> Option<Value>,
) -> Option<()> {
    let raw = value(rows, at)?;
    let row = to(TaskRow::decode(&raw)?)?;
    rows.set(at.clone(), row);
    Some(())
}

/// What the row of a state says.
pub(super) struct Said<'a> {
    pub(super) state: TaskState,
    pub(super) away: Away<'a>,
    pub(super) home: StoredHome,
}

impl<'a> Said<'a> {
    const NO_AWAY: Away<'static> =
        Away { place: None, group: None, keyed: false, extended: false, apart: false, bytes: 0 };

    fn of<T>((away, (row, home)): (Away<'a>, Homed<T>), state: fn(T) -> TaskState) -> Self {
        Self { state: state(row), away, home }
    }

    fn read(tag: Tag, raw: &'a [u8]) -> Option<Self> {
        let no_away = |homed| (Self::NO_AWAY, homed);
        Some(match tag {
            Tag::Ready | Tag::Line => {
                Self::of(no_away(TaskProgress::decode(raw)?), TaskState::Ready)
            }
            Tag::Delayed => Self::of(DelayedRow::decode(raw)?, TaskState::Delayed),
            Tag::Blocked => Self::of(BlockedRow::decode(raw)?, TaskState::Blocked),
            Tag::Taken => Self::of(TakenRow::decode(raw)?, TaskState::Taken),
            Tag::Done => Self::of(DoneRow::decode(raw)?, TaskState::Done),
            Tag::Buried | Tag::Trashed => {
                let (away, (row, home)) = (Self::NO_AWAY, BuriedRow::decode(raw)?);
                Self { state: TaskState::Buried(row), away, home }
            }
            _ => return None,
        })
    }

    fn encode(&self) -> Option<Value> {
        let Self { state, away, home } = self;
        Some(match state {
            TaskState::Fresh(_) => return None,
            TaskState::Ready(progress) => progress.encode(home),
            TaskState::Delayed(row) => row.encode(away, home),
            TaskState::Blocked(row) => row.encode(away, home),
            TaskState::Taken(row) => row.encode(away, home),
            TaskState::Buried(row) | TaskState::Trashed(row) => row.encode(home),
            TaskState::Done(row) => row.encode(away, home),
        })
    }
}

/// The row of a state.
pub(super) fn said(
    rows: &mut Rows,
    at: &Key,
    to: impl FnOnce(&mut Said<'_>) -> Option<()>,
) -> Option<()> {
    let raw = value(rows, at)?;
    let mut said = Said::read(Tag::of(at[0])?, &raw)?;
    to(&mut said)?;
    let row = said.encode()?;
    assert!(Said::read(Tag::of(at[0])?, &row).is_some(), "it is not well formed: {at:02x?}");
    rows.set(at.clone(), row);
    Some(())
}

pub(super) fn progress(
    rows: &mut Rows,
    at: &Key,
    to: impl FnOnce(&mut TaskProgress) -> Option<()>,
) -> Option<()> {
    said(rows, at, |said| to(said.state.progress_mut()))
}

pub(super) fn delayed(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut DelayedRow)) -> Option<()> {
    said(rows, at, |said| match &mut said.state {
        TaskState::Delayed(row) => {
            to(row);
            Some(())
        }
        _ => None,
    })
}

pub(super) fn blocked(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut BlockedRow)) -> Option<()> {
    said(rows, at, |said| match &mut said.state {
        TaskState::Blocked(row) => {
            to(row);
            Some(())
        }
        _ => None,
    })
}

pub(super) fn taken(
    rows: &mut Rows,
    at: &Key,
    to: impl FnOnce(&mut TakenRow) -> Option<()>,
) -> Option<()> {
    said(rows, at, |said| match &mut said.state {
        TaskState::Taken(row) => to(row),
        _ => None,
    })
}

pub(super) fn done(
    rows: &mut Rows,
    at: &Key,
    to: impl FnOnce(&mut DoneRow) -> Option<()>,
) -> Option<()> {
    said(rows, at, |said| match &mut said.state {
        TaskState::Done(row) => to(row),
        _ => None,
    })
}

pub(super) fn buried(
    rows: &mut Rows,
    at: &Key,
    to: impl FnOnce(&mut BuriedRow) -> Option<()>,
) -> Option<()> {
    said(rows, at, |said| match &mut said.state {
        TaskState::Buried(row) => to(row),
        _ => None,
    })
}

/// The last character of the text is another.
pub(super) fn respell(text: &mut String) -> Option<()> {
    let last = text.pop()?;
    text.push(if last == 'x' { 'y' } else { 'x' });
    Some(())
}

/// The message of a reason.
pub(super) fn message(reason: &mut Reason) -> Option<&mut String> {
    Some(match reason {
        Reason::Failed { message, .. } | Reason::Exhausted { message, .. } => message,
        Reason::Buried(text) | Reason::Undecodable(text) | Reason::Trashed(text) => text,
    })
}

/// The id at the beginning of a key of the queue is that of another task, which there is not.
pub(super) fn other_first_id(rows: &mut Rows, at: &Key) -> Option<()> {
    rekey(rows, at, |at| at[2] ^= 0x10)
}

/// The name of the tube of a row.
pub(super) fn of_tube(rows: &Rows, at: &Key) -> Option<String> {
    let run = Range::holding(at)?.run?;
    let tubes =
        rows.keys(Tag::Tube).into_iter().filter_map(|at| TubeRow::decode(&value(rows, &at)?));
    tubes.into_iter().find(|row| row.run == run).map(|row| row.name)
}

/// The row that gives the state of a task, if it has one.
pub(super) fn state_of(rows: &Rows, own: &Key) -> Option<Tag> {
    let (run, id) = (Range::holding(own)?.run?, key::id_of(own)?);
    Tag::states().find(|tag| {
        rows.keys(*tag).iter().any(|at| {
            Range::holding(at).and_then(|range| range.run) == Some(run)
                && key::id_of(at) == Some(id)
        })
    })
}
