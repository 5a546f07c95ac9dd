//! The statistics of one day of a tube, and what one step of a task adds to them. Amounts are whole
//! numbers that are only ever added, so that their order does not matter.

use crate::format::extension::Extension;
use crate::format::key::Run;
use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::statistics::{BUCKETS, Distribution, LENGTH_MAX};

/// Bytes of a distribution without its buckets, and of one bucket.
const FIXED_BYTES: usize = 41;
const BUCKET_BYTES: usize = 9;
/// The most bytes of a row without fields of later versions.
pub(crate) const DAY_ROW_BYTES_MAX: usize = 2 * (FIXED_BYTES + BUCKETS * BUCKET_BYTES) + 3 * 8;

/// The statistics of one day of a tube.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DayRow {
    /// Queue time at which the row was made, on its day.
    pub(crate) begun: u64,
    pub(crate) waits: Distribution,
    pub(crate) runs: Distribution,
    pub(crate) failures: u64,
    pub(crate) retries: u64,
    pub(crate) extension: Extension,
}

impl DayRow {
    pub(crate) fn new(begun: u64) -> Self {
        Self { begun, ..Self::default() }
    }

    /// `begun, failures, retries: u64`, then of waits and of runs `count: u64 · sum,
    /// squares: u128 · buckets: u8`, and of each bucket that is not empty `index: u8 · count: u64`.
    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u64(self.begun).u64(self.failures).u64(self.retries);
        for of in [&self.waits, &self.runs] {
            row.u64(of.count).bytes(&of.sum.to_be_bytes()).bytes(&of.squares.to_be_bytes());
            let used = || of.buckets.iter().enumerate().filter(|(_, tasks)| **tasks > 0);
            row.u8(used().count() as u8);
            for (index, tasks) in used() {
                row.u8(index as u8).u64(*tasks);
            }
        }
        self.extension.end_row(row)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut rest = Unpacker::new(row);
        let (begun, failures, retries) = (rest.u64()?, rest.u64()?, rest.u64()?);
        let (waits, runs) = (distribution(&mut rest)?, distribution(&mut rest)?);
        let extension = Extension::of_rest(rest)?;
        Some(Self { begun, waits, runs, failures, retries, extension })
    }

    /// Adds what was collected.
    pub(crate) fn add(&mut self, more: &DayDelta) {
        self.waits.add_all(&more.waits);
        self.runs.add_all(&more.runs);
        self.failures = self.failures.saturating_add(more.failures);
        self.retries = self.retries.saturating_add(more.retries);
    }
}

fn distribution(rest: &mut Unpacker<'_>) -> Option<Distribution> {
    let mut of = Distribution { count: rest.u64()?, ..Distribution::NONE };
    of.sum = u128::from_be_bytes(*rest.bytes(16)?.first_chunk()?);
    of.squares = u128::from_be_bytes(*rest.bytes(16)?.first_chunk()?);
    let mut last = None;
    for _ in 0..rest.u8()? {
        let (index, tasks) = (rest.u8()?, rest.u64().filter(|tasks| *tasks > 0)?);
        // In order, and each once.
        if last.is_some_and(|last| last >= index) {
            return None;
        }
        *of.buckets.get_mut(usize::from(index))? = tasks;
        last = Some(index);
    }
    let all = of.buckets.iter().try_fold(0_u64, |all, tasks| all.checked_add(*tasks))?;
    (all == of.count).then_some(of)
}

/// What a step of a task adds to the statistics of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DayItem {
    /// A task was taken that was ready for so many microseconds.
    Wait(u64),
    /// A task was finished that was held for so many microseconds.
    Run(u64),
    /// A task was buried.
    Failure,
    /// A task returned with its attempt counted.
    Retry,
    /// The row of the day was written as a whole: what was collected for another one is over. The
    /// record has the row, and nothing else says so.
    Begun,
}

const WAIT: u8 = 1;
const RUN: u8 = 2;
const FAILURE: u8 = 3;
const RETRY: u8 = 4;

impl DayItem {
    /// `code: u8`, and of a wait or a run the microseconds in 6 bytes.
    pub(crate) fn pack(self, to: &mut Vec<u8>) {
        let (code, number) = match self {
            Self::Wait(micros) => (WAIT, Some(micros)),
            Self::Run(micros) => (RUN, Some(micros)),
            Self::Failure => (FAILURE, None),
            Self::Retry => (RETRY, None),
            Self::Begun => return,
        };
        to.push(code);
        if let Some(number) = number {
            let [_, _, number @ ..] = number.min(LENGTH_MAX).to_be_bytes();
            to.extend_from_slice(&number);
        }
    }

    /// The next one; `None` for bytes that are not one.
    pub(crate) fn unpack(rest: &mut Unpacker<'_>) -> Option<Self> {
        let code = rest.u8()?;
        let mut number = || {
            let mut wide = [0; 8];
            wide[2..].copy_from_slice(rest.bytes(6)?);
            Some(u64::from_be_bytes(wide))
        };
        Some(match code {
            WAIT => Self::Wait(number()?),
            RUN => Self::Run(number()?),
            FAILURE => Self::Failure,
            RETRY => Self::Retry,
            _ => return None,
        })
    }
}

/// One such item, with its day, which has a row then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DayEntry {
    /// The number of the tube, which the journal does not say; 0 where a repair does not know it.
    pub(crate) tube: u32,
    pub(crate) run: Run,
    pub(crate) day: u32,
    pub(crate) item: DayItem,
}

/// The most lengths of time of each kind that are kept to be added together.
const KEPT_LENGTHS: usize = 128;

/// Items that are not added up yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct DayItems {
    /// Microseconds.
    pub(crate) waits: Vec<u64>,
    /// Microseconds.
    pub(crate) runs: Vec<u64>,
    failures: u64,
    retries: u64,
}

impl DayItems {
    #[inline]
    pub(crate) fn push(&mut self, item: DayItem) {
        match item {
            DayItem::Wait(micros) => self.waits.push(micros),
            DayItem::Run(micros) => self.runs.push(micros),
            DayItem::Failure => self.failures += 1,
            DayItem::Retry => self.retries += 1,
            DayItem::Begun => {}
        }
    }

    #[inline]
    fn are_enough(&self) -> bool {
        self.waits.len().max(self.runs.len()) >= KEPT_LENGTHS
    }

    fn clear(&mut self) {
        self.waits.clear();
        self.runs.clear();
        (self.failures, self.retries) = (0, 0);
    }
}

/// Items of one day that are kept, to be added to a sum together: each by itself takes twice as
/// long.
#[derive(Clone, Debug)]
pub(crate) struct KeptItems<T> {
    day: Option<T>,
    items: DayItems,
}

impl<T> Default for KeptItems<T> {
    fn default() -> Self {
        Self { day: None, items: DayItems::default() }
    }
}

impl<T: Copy + PartialEq> KeptItems<T> {
    /// Keeps one more. False if the kept ones are of another day, or enough, and of a beginning,
    /// which is not added up.
    #[inline]
    pub(crate) fn keep(&mut self, day: T, item: DayItem) -> bool {
        let is_begun = matches!(item, DayItem::Begun);
        let keeps = self.day == Some(day) && !is_begun && !self.items.are_enough();
        if keeps {
            self.items.push(item);
        }
        keeps
    }

    /// Those that are kept, with their day.
    pub(crate) fn kept(&self) -> Option<(T, &DayItems)> {
        self.day.map(|day| (day, &self.items))
    }

    /// Keeps items of this day from now on. Those that were kept have been added.
    pub(crate) fn restart(&mut self, day: Option<T>) {
        self.day = day;
        self.items.clear();
    }
}

/// Items of one day together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DayDelta {
    waits: Distribution,
    runs: Distribution,
    failures: u64,
    retries: u64,
}

impl DayDelta {
    pub(crate) fn add(&mut self, items: &DayItems) {
        self.waits.extend(&items.waits);
        self.runs.extend(&items.runs);
        self.failures += items.failures;
        self.retries += items.retries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_day() {
        let mut delta = DayDelta::default();
        let items = [
            DayItem::Wait(1_500_000),
            DayItem::Run(61_000_000),
            DayItem::Failure,
            DayItem::Failure,
            DayItem::Retry,
        ];
        let mut packed = Vec::new();
        items.iter().for_each(|item| item.pack(&mut packed));
        let wait = [1, 0, 0, 0, 0x16, 0xe3, 0x60];
        let run = [2, 0, 0, 3, 0xa2, 0xc9, 0x40];
        assert_eq!(packed, [&wait[..], &run, &[3, 3, 4]].concat());
        let (mut rest, mut kept) = (Unpacker::new(&packed), DayItems::default());
        for item in items {
            let read = DayItem::unpack(&mut rest).unwrap();
            assert_eq!(read, item);
            kept.push(read);
        }
        assert_eq!(DayItem::unpack(&mut rest), None);
        delta.add(&kept);
        let mut row = DayRow::new(7);
        row.add(&delta);
        let bytes = row.encode();
        let numbers = |numbers: &[u64]| numbers.iter().flat_map(|it| it.to_be_bytes()).collect();
        let mut expected: Vec<u8> = numbers(&[7, 2, 1]);
        for (micros, index) in [(1_500_000_u64, 1), (61_000_000, 60)] {
            expected.extend(numbers(&[1, 0, micros, 0, micros * micros]));
            expected.extend([1, index]);
            expected.extend(numbers(&[1]));
        }
        assert_eq!(&*bytes, expected);
        assert_eq!(DayRow::decode(&bytes), Some(row.clone()));
        for cut in 0..bytes.len() {
            assert_eq!(DayRow::decode(&bytes[..cut]), None);
        }
        // A count that is not that of its buckets, and a bucket that does not exist.
        let at = 3 * 8 + 7;
        for (place, byte) in [(at, 2), (3 * 8 + 41, 148)] {
            let mut wrong = bytes.to_vec();
            wrong[place] = byte;
            assert_eq!(DayRow::decode(&wrong), None);
        }
        for index in 0..BUCKETS {
            (row.waits.buckets[index], row.runs.buckets[index]) = (1, 1);
        }
        (row.waits.count, row.runs.count) = (BUCKETS as u64, BUCKETS as u64);
        assert_eq!(row.encode().len(), DAY_ROW_BYTES_MAX);
    }
}
