//! The write of a carry: on a full disk all rows of the overlay are journaled once more, so that
//! the ring before them is free. A carry is not valid before its slot in the head is on the medium.

use super::{Ring, WriteFault};
use crate::format::extension::Extension;
use crate::format::key::Run;
use crate::format::layer::Layer;
use crate::store::carry::{CARRY_BYTES, Carry, ROW_PART};
use crate::store::record::RecordMeta;
use crate::store::tables::{Tally, encode_tally};

/// Bytes of a record of carried rows, roughly.
const RECORD_BYTES: u64 = 64 << 10;

impl Ring {
    /// Writes all rows of the overlay once more after the last record, and lets openings begin
    /// there. This frees the ring before them without the base. `serial` is the serial of the base.
    ///
    /// # Errors
    /// Nothing has changed, unless it is `Fatal`.
    pub(crate) fn carry(
        &mut self,
        serial: u64,
        meta: (&RecordMeta, &Extension),
        layer: &Layer,
        counts: &[(Run, Tally)],
    ) -> Result<(), WriteFault> {
        let floor = self.last;
        let carried = self.write_carried(meta, layer, counts).and_then(|()| {
            let sequence = self.carries + 1;
            let slot = Carry { sequence, serial, floor, upto: self.last.link.number };
            self.sync()?;
            let at = slot.at();
            let written = self.file.write_at(at, &slot.encode(self.seed));
            written.map_err(|error| self.undo(at, CARRY_BYTES, error))?;
            self.sync()
        });
        if let Err(fault) = carried {
            // Without the slot an opening ignores the carried records.
            self.last = floor;
            return Err(fault);
        }
        self.carries += 1;
        self.carried_upto = self.last.link.number;
        self.floor = floor;
        self.is_idle = true;
        self.journal.set_written(self.last.link.number);
        self.journal.set_synced(self.last.link.number);
        Ok(())
    }

    fn write_carried(
        &mut self,
        (meta, extension): (&RecordMeta, &Extension),
        layer: &Layer,
        counts: &[(Run, Tally)],
    ) -> Result<(), WriteFault> {
        // Carried records must not prove that other records were synced: they are not valid yet.
        let synced = self.journal.synced().min(self.last.link.number);
        let full = (self.size / ROW_PART / 2).min(RECORD_BYTES);
        // The first record repeats the reserved numbers and the extension of the freed records.
        self.record.begin(meta, true);
        self.record.carried(extension);
        let mut has_rows = false;
        for (run, tally) in counts {
            self.record.counts(*run, &encode_tally(tally));
            has_rows = true;
            self.write_if_full(&mut has_rows, full, meta, synced)?;
        }
        for (key, op) in layer.iter() {
            // A long row gets a record of its own.
            if op.value().is_some_and(|value| value.len() as u64 > full) {
                self.write_if_full(&mut has_rows, 0, meta, synced)?;
            }
            self.record.carried_row(key, op.value().map(|value| &**value));
            has_rows = true;
            self.write_if_full(&mut has_rows, full, meta, synced)?;
        }
        // Also without rows: an opening expects at least one carried record.
        self.write_unpublished(synced, None).map(drop)
    }

    fn write_if_full(
        &mut self,
        has_rows: &mut bool,
        full: u64,
        meta: &RecordMeta,
        synced: u64,
    ) -> Result<(), WriteFault> {
        if *has_rows && self.record.size() >= full {
            self.write_unpublished(synced, None)?;
            self.record.begin(meta, false);
            self.record.carried(&Extension::default());
            *has_rows = false;
        }
        Ok(())
    }
}
