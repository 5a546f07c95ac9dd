//! The values of rows: one struct for each tag, and its bytes. The engine decides what a row means;
//! this file has only the layout. Decoding returns `None` for anything but a whole row.

mod details;
mod task;
mod history;
mod day;
mod report;
mod tags;
mod progress;
mod state;
mod edge;
mod done;
mod consumer;
mod gates;
mod condition;
mod throttle;
mod pending;
mod tube;
mod setting;
mod firing;
mod schedule;

pub(crate) use condition::ConditionRow;
pub(crate) use consumer::ConsumerRow;
pub(crate) use day::{DAY_ROW_BYTES_MAX, DayDelta, DayEntry, DayItem, DayItems, DayRow, KeptItems};
pub(crate) use done::DoneRow;
pub(crate) use edge::{CascadeRow, EdgeRow, LinkingRow, TaskEnds, task_of_work};
pub(crate) use firing::{FiringRow, Gap};
pub(crate) use history::{HistoryRow, StoredHistory};
pub(crate) use pending::{EndedAt, PendingGroups, PendingOptions, PendingSum};
pub(crate) use progress::{EdgeCounts, FailureRow, Homed, Slots, StoredHome, TaskProgress};
pub(crate) use report::{ReportRow, StoredReports};
pub(crate) use schedule::{ChildTerms, ScheduleRow};
pub(crate) use setting::SettingRow;
pub(crate) use state::{Away, BlockedRow, BuriedRow, DelayedRow, TakenRow};
pub(crate) use tags::{StoredTag, TagsRow};
pub(crate) use task::{
    Labels, PayloadPlace, PositionRow, Spawned, TaskRow, Times, dropped_section, label_section,
    labelled_section, moved_section, replaced_section,
};
pub(crate) use throttle::ThrottleRow;
pub(crate) use tube::{Shut, TubeRow};

use crate::format::extension::Extension;
use crate::format::pack::{Packer, Unpacker, Value};
use crate::format::piece::PieceWork;

/// Counters of the whole queue: the last numbers that were assigned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) tube: u32,
    pub(crate) run: u32,
    pub(crate) consumer: u32,
    pub(crate) extension: Extension,
}

impl Counters {
    /// The row's `what` under `Tag::Meta`.
    pub(crate) const WHAT: u8 = 1;

    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u32(self.tube).u32(self.run).u32(self.consumer);
        self.extension.end_row(row)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let (tube, run, consumer) = (row.u32()?, row.u32()?, row.u32()?);
        Some(Self { tube, run, consumer, extension: Extension::of_rest(row)? })
    }
}

/// The work that is left for a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkRow {
    /// The tube that the work belongs to, or 0.
    pub(crate) tube: u32,
    /// The task to continue with; of a merge its number.
    pub(crate) from: u64,
    pub(crate) extension: Extension,
}

impl WorkRow {
    /// Of work on a tube, from its first task on.
    pub(crate) fn of_tube(tube: u32) -> Self {
        Self { tube, ..Self::default() }
    }

    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u32(self.tube).u64(self.from);
        self.extension.end_row(row)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let (tube, from) = (row.u32()?, row.u64()?);
        Some(Self { tube, from, extension: Extension::of_rest(row)? })
    }
}

/// A number as a row: ids, counts, tube and consumer numbers.
pub(crate) fn number(number: u64) -> Value {
    Value::from(number.to_be_bytes())
}

pub(crate) fn read_number(row: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(row.try_into().ok()?))
}

/// Decodes the bytes as every kind of row, and asserts that encoding the result gives the same
/// bytes. For fuzzing.
pub(crate) fn probe(bytes: &[u8]) {
    let same = |encoded: Option<Value>| {
        assert!(encoded.is_none_or(|encoded| *encoded == *bytes), "a row has two encodings");
    };
    same(Counters::decode(bytes).map(|row| row.encode()));
    same(TubeRow::decode(bytes).map(|row| row.encode()));
    same(WorkRow::decode(bytes).map(|row| row.encode()));
    same(PieceWork::decode(bytes).map(|row| row.encode()));
    same(ConsumerRow::decode(bytes).map(|row| row.encode()));
    same(TaskRow::decode(bytes).map(|row| row.encode()));
    same(PositionRow::decode(bytes).map(|row| row.encode()));
    same(TaskProgress::decode(bytes).map(|(row, home)| row.encode(&home)));
    same(BuriedRow::decode(bytes).map(|(row, home)| row.encode(&home)));
    same(HistoryRow::decode(bytes).map(|row| row.encode()));
    same(ReportRow::decode(bytes).map(|row| row.encode()));
    same(TagsRow::decode(bytes).map(|row| row.encode()));
    same(DayRow::decode(bytes).map(|row| row.encode()));
    same(SettingRow::decode(bytes).map(|row| row.encode()));
    same(ScheduleRow::decode(bytes).map(|row| row.encode()));
    same(ConditionRow::decode(bytes).map(|row| row.encode()));
    same(ThrottleRow::decode(bytes).map(|row| row.encode()));
    same(FiringRow::decode(bytes).map(|row| row.encode()));
    same(EdgeRow::decode(bytes).map(|row| row.encode()));
    same(CascadeRow::decode(bytes).map(|row| row.encode()));
    same(LinkingRow::decode(bytes).map(|row| row.encode()));
    let blocked = BlockedRow::decode(bytes);
    same(blocked.map(|(away, (row, home))| row.encode(&away, &home)));
    let taken = TakenRow::decode(bytes);
    same(taken.map(|(away, (row, home))| row.encode(&away, &home)));
    let delayed = DelayedRow::decode(bytes);
    same(delayed.map(|(away, (row, home))| row.encode(&away, &home)));
    let done = DoneRow::decode(bytes);
    same(done.map(|(away, (row, home))| row.encode(&away, &home)));
}

#[cfg(test)]
mod tests;
