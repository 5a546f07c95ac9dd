//! The statistics of days: their rows, and what a record adds to them.

use super::bytes::{Bytes, Read, ensure};
use super::rows::{Rows, State};
use super::tasks::Stored;
use std::collections::BTreeMap;

/// Waits or runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lengths {
    pub(crate) count: u64,
    pub(crate) sum: u128,
    squares: u128,
    /// Those that are not empty.
    pub(crate) buckets: BTreeMap<u8, u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Day {
    pub(crate) begun: u64,
    pub(crate) failures: u64,
    pub(crate) retries: u64,
    pub(crate) waits: Lengths,
    pub(crate) runs: Lengths,
}

/// By run and day.
pub(crate) type Days = BTreeMap<(u32, u32), Day>;

const DAY: u64 = 24 * 60 * 60 * 1_000_000;

impl Lengths {
    fn add(&mut self, micros: u64) {
        let secs = micros / 1_000_000;
        let bucket = match secs {
            0..60 => secs,
            60..3600 => 59 + secs / 60,
            3600..86_400 => 118 + secs / 3600,
            _ => (141 + secs / 86_400).min(147),
        };
        self.count += 1;
        self.sum += u128::from(micros);
        self.squares += u128::from(micros).pow(2);
        *self.buckets.entry(bucket as u8).or_default() += 1;
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.count.to_be_bytes().to_vec();
        bytes.extend(self.sum.to_be_bytes());
        bytes.extend(self.squares.to_be_bytes());
        bytes.push(self.buckets.len() as u8);
        for (index, tasks) in &self.buckets {
            bytes.push(*index);
            bytes.extend(tasks.to_be_bytes());
        }
        bytes
    }
}

impl Bytes<'_> {
    fn wide(&mut self) -> Read<u128> {
        Ok(u128::from(self.u64()?) << 64 | u128::from(self.u64()?))
    }

    fn lengths(&mut self) -> Read<Lengths> {
        let mut of = Lengths { count: self.u64()?, ..Lengths::default() };
        (of.sum, of.squares) = (self.wide()?, self.wide()?);
        for _ in 0..self.u8()? {
            let (index, tasks) = (self.u8()?, self.u64()?);
            let is_next = of.buckets.last_key_value().is_none_or(|(last, _)| *last < index);
            ensure(is_next && index < 148 && tasks > 0, || format!("bucket {index}"))?;
            of.buckets.insert(index, tasks);
        }
        let all: u64 = of.buckets.values().sum();
        ensure(all == of.count, || format!("{all} in buckets, and not {}", of.count))?;
        Ok(of)
    }

    pub(crate) fn day(mut self) -> Read<Day> {
        let row = Day {
            begun: self.u64()?,
            failures: self.u64()?,
            retries: self.u64()?,
            waits: self.lengths()?,
            runs: self.lengths()?,
        };
        self.end()?;
        Ok(row)
    }
}

impl Day {
    fn bytes(&self) -> Vec<u8> {
        let numbers = [self.begun, self.failures, self.retries];
        let numbers = numbers.into_iter().flat_map(u64::to_be_bytes);
        numbers.chain(self.waits.bytes()).chain(self.runs.bytes()).collect()
    }
}

/// Adds the items of a record to the row of this key, if there is one.
pub(crate) fn apply(rows: &mut Rows, key: &[u8], items: &[u8]) -> Read<()> {
    ensure(key.first() == Some(&0x44) && key.len() == 9, || format!("a day {key:02x?}"))?;
    let mut rest = Bytes(items);
    ensure(!items.is_empty(), || "nothing for a day".into())?;
    let mut row = rows.get(key).map(|row| Bytes(row).day()).transpose()?.unwrap_or_default();
    while !rest.0.is_empty() {
        let code = rest.u8()?;
        let number = rest.when([1, 2].contains(&code), |rest| {
            Ok(rest.take(6)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        })?;
        match (code, number.unwrap_or(0)) {
            (1, micros) => row.waits.add(micros),
            (2, micros) => row.runs.add(micros),
            (3, _) => row.failures += 1,
            (4, _) => row.retries += 1,
            (code, _) => return Err(format!("item {code} of a day")),
        }
    }
    if let Some(value) = rows.get_mut(key) {
        *value = row.bytes();
    }
    Ok(())
}

/// Each is of its day, and only a ready task says since when it is that.
pub(crate) fn agree(
    days: &Days,
    tasks: &BTreeMap<(u32, u64), Stored>,
    is_tube: impl Fn(u32) -> bool,
) -> Read<()> {
    for ((_, day), row) in days.iter().filter(|((run, _), _)| is_tube(*run)) {
        ensure(row.begun / DAY == u64::from(*day), || format!("day {day}: {row:?}"))?;
    }
    for ((_, id), task) in tasks {
        let says = task.progress.ready_since;
        let is_right = matches!(task.state, State::Ready) && says >= Some(task.created);
        ensure(says.is_none() || is_right, || {
            format!("task {id}: ready {says:?}, {:?}", task.state)
        })?;
    }
    Ok(())
}

/// How many tasks that were buried on a day, since its row was made, still are.
pub(crate) fn failed(
    tasks: &BTreeMap<(u32, u64), Stored>,
    (run, day): (u32, u32),
    row: &Day,
) -> u64 {
    let of_day = row.begun..(u64::from(day) + 1) * DAY;
    let of_run = tasks.range((run, 0)..=(run, u64::MAX)).map(|(_, task)| task);
    let is_its = |task: &&Stored| match &task.state {
        State::Buried { time, .. } => !task.state.is_trashed() && of_day.contains(time),
        _ => false,
    };
    of_run.filter(is_its).count() as u64
}
