//! Reserves the numbers that ops draw, task ids and lease tokens, in blocks. No number is drawn
//! before a synced record contains its reservation: after a power cut it would be drawn again.

use super::{EngineState, Undone};
use crate::runtime::group_commit::{GroupCommit, Mark};
use crate::store::MetaDelta;
use crate::words::clock::Clock;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{NUMBER_BLOCK, TRANSACTION_NUMBERS};
use crate::words::numbers::Numbers;

impl EngineState {
    /// Whether the op's numbers are reserved. Reserves the next block early, so that it is synced
    /// before it is needed.
    #[inline]
    pub(super) fn has_numbers(&mut self, need: Numbers, group_commit: &GroupCommit) -> bool {
        let left = self.numbers.left();
        if left.covers(Numbers::both(NUMBER_BLOCK / 2)) && left.covers(need) {
            return true;
        }
        self.reserve_early(group_commit);
        self.numbers.left().covers(need)
    }

    /// Uses the numbers that a synced record reserves. If these are few, the next record with rows
    /// reserves more. The record that was written last need not have: a note that all is synced and
    /// a carry on a full disk reserve none.
    #[cold]
    fn reserve_early(&mut self, group_commit: &GroupCommit) {
        let (reserved, record) = self.store.reserved();
        if group_commit.is_synced(Mark(record)) {
            self.numbers.end = reserved;
        }
        let is_low = !self.numbers.left().covers(Numbers::both(NUMBER_BLOCK / 2));
        if is_low && self.reserved == self.numbers.end {
            let ahead = self.numbers.next.plus(Numbers::both(2 * NUMBER_BLOCK));
            self.reserved = self.reserved.max(ahead);
        }
    }

    /// The metadata of the next record, with the reservation. Its rows change the stored payload
    /// bytes by `durable_bytes`.
    #[inline]
    pub(crate) fn advance(&self, durable_bytes: i64) -> MetaDelta {
        MetaDelta { marks: self.queue_clock.marks, reserved: self.reserved, durable_bytes }
    }

    /// Makes sure that there are numbers for an op inside a transaction, where nothing can be
    /// written: the reservation must be on the disk before, so it is synced here. It reserves so
    /// many that the journal's spare space for a reservation is needed only once.
    pub(crate) fn draw(&mut self, need: Numbers, group_commit: &GroupCommit) -> Result<()> {
        if self.numbers.left().covers(need) {
            return Ok(());
        }
        match self.reserve(need.plus(Numbers::both(TRANSACTION_NUMBERS))) {
            Ok(mark) => group_commit.wait(mark)?,
            Err(Undone::Refused(error)) => return Err(error),
            Err(_) => {
                return Err(Error::new(ErrorKind::Full)
                    .because("the journal has no space; commit the transaction first"));
            }
        }
        self.numbers.end = self.reserved;
        Ok(())
    }

    /// Writes the reservation as a record of its own, for an op that needs it now.
    pub(super) fn reserve(&mut self, need: Numbers) -> Result<Mark, Undone> {
        let end = self.numbers.next.plus(need).plus(Numbers::both(NUMBER_BLOCK));
        let reserved = self.reserved.max(end);
        let advance = MetaDelta { reserved, ..self.advance(0) };
        let number = self.store.note(advance)?;
        self.reserved = reserved;
        Ok(Mark(number))
    }

    /// Returns unused numbers, before the last checkpoint of a clean close. A later draw reserves
    /// again.
    pub(crate) fn settle(&mut self, clock: &dyn Clock) {
        self.queue_clock.read(clock);
        self.reserved = self.numbers.next;
        self.numbers.end = self.numbers.next;
        self.store.settle(self.reserved, self.queue_clock.marks);
    }
}
