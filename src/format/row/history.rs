//! The entries of a task's history: each a row of its own, so that one more rewrites none. The
//! progress of the task says which there are.

use crate::format::extension::Extension;
use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::history::HistoryEvent;
use crate::words::limits::HISTORY_ENTRIES_MAX;
use std::ops::Range;

/// The numbers of the events on the disk. A put, the present attempt and the end of the work are
/// read off other rows.
const EVENTS: [(u8, HistoryEvent); 17] = [
    (1, HistoryEvent::Released),
    (2, HistoryEvent::Retried),
    (3, HistoryEvent::TimedOut),
    (4, HistoryEvent::Lost),
    (5, HistoryEvent::ForcedOut),
    (6, HistoryEvent::Closed),
    (7, HistoryEvent::Failed),
    (8, HistoryEvent::Buried),
    (9, HistoryEvent::Trashed),
    (10, HistoryEvent::Kicked),
    (11, HistoryEvent::Restored),
    (12, HistoryEvent::Moved),
    (13, HistoryEvent::Advanced),
    (14, HistoryEvent::Logged),
    (15, HistoryEvent::Adopted),
    (16, HistoryEvent::PutAgain),
    (17, HistoryEvent::Done),
];

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HistoryRow<'a> {
    /// Queue time.
    pub(crate) when: u64,
    pub(crate) event: HistoryEvent,
    /// The attempt that it has ended; 0 is none.
    pub(crate) attempt: u32,
    /// Microseconds of the attempt; `NEVER` if they are not known.
    pub(crate) held: u64,
    /// The named consumer that held the task; empty is none.
    pub(crate) by: &'a str,
    /// The failure group, or of a move the tube that the task has left; empty is none.
    pub(crate) place: &'a str,
    pub(crate) text: &'a str,
    pub(crate) extension: Extension,
}

impl<'a> HistoryRow<'a> {
    pub(crate) fn encode(&self) -> Value {
        let number = EVENTS.iter().find(|(_, event)| *event == self.event);
        let mut row = Packer::new();
        row.u8(number.map_or(0, |(number, _)| *number)).u64(self.when).u32(self.attempt);
        row.u64(self.held).short(self.by).text(self.place).text(self.text);
        self.extension.end_row(row)
    }

    pub(crate) fn decode(row: &'a [u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let number = row.u8()?;
        let event = EVENTS.iter().find(|(known, _)| *known == number)?.1;
        let (when, attempt, held) = (row.u64()?, row.u32()?, row.u64()?);
        let (by, place, text) = (row.short()?, row.text()?, row.text()?);
        let extension = Extension::of_rest(row)?;
        Some(Self { when, event, attempt, held, by, place, text, extension })
    }
}

/// Which entries a task has, in its progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredHistory {
    /// The number of the oldest one: so many were removed.
    pub(crate) first: u32,
    /// The number of the next one. Not 0.
    pub(crate) next: u32,
    /// Of the rows of all.
    pub(crate) bytes: u32,
}

impl StoredHistory {
    /// How many there are.
    pub(crate) fn len(self) -> u32 {
        self.next - self.first
    }

    /// The numbers of the entries, of a damaged row the last of them: no row has more.
    pub(crate) fn numbers(self) -> Range<u32> {
        self.next.saturating_sub(HISTORY_ENTRIES_MAX).max(self.first)..self.next
    }

    pub(super) fn encode(self) -> Value {
        let mut field = Packer::new();
        field.u32(self.first).u32(self.next).u32(self.bytes);
        field.done()
    }

    pub(super) fn decode(field: &[u8]) -> Option<Self> {
        let mut rest = Unpacker::new(field);
        let (first, next, bytes) = (rest.u32()?, rest.u32()?, rest.u32()?);
        rest.end(Self { first, next, bytes }).filter(|it| it.first < it.next)
    }
}
