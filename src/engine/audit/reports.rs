//! The audit of reports: each task has exactly the rows that its progress names.

use super::seen::Audit;
use crate::format::key::{self, ReportPart};
use crate::format::row::{ReportRow, TaskProgress};
use crate::words::limits::CHECKPOINT_BYTES_MAX;
use crate::words::task::TaskId;

impl Audit<'_> {
    /// The reports of a task.
    pub(super) fn reports(&mut self, id: TaskId, progress: &TaskProgress) {
        for part in progress.reports().parts() {
            let key = key::report(self.tube.run(), id, part);
            match self.view.row(&key) {
                Ok(Some((_, Some(row)))) if !is_sound(part, &row) => {
                    self.tell(id, format!("a damaged row of its reports: {part:?}"));
                }
                Ok(None) => {
                    self.tell(id, format!("a row of its reports is missing: {part:?}"));
                }
                Ok(Some((_, None))) => {
                    self.tell(id, format!("a damaged row of its reports: {part:?}"));
                }
                Ok(Some(_)) | Err(_) => {}
            }
            self.led.insert(key);
        }
    }
}

pub(crate) fn is_sound(part: ReportPart, row: &[u8]) -> bool {
    match part {
        ReportPart::Report => ReportRow::decode(row).is_some(),
        ReportPart::Checkpoint => row.len() <= CHECKPOINT_BYTES_MAX,
    }
}
