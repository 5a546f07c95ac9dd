//! The audit of histories: each task has exactly the entries that its progress names.

use super::seen::Audit;
use crate::format::key;
use crate::format::row::{HistoryRow, TaskProgress};
use crate::words::limits::HISTORY_ENTRIES_MAX;
use crate::words::task::TaskId;

impl Audit<'_> {
    /// The entries of a task.
    pub(super) fn history(&mut self, id: TaskId, progress: &TaskProgress) {
        let Some(stored) = progress.history() else { return };
        let (mut bytes, mut is_whole) = (0, true);
        if stored.len() > HISTORY_ENTRIES_MAX {
            self.tell(id, format!("its history has {} entries", stored.len()));
        }
        for number in stored.numbers() {
            let key = key::history(self.tube.run(), id, number);
            match self.view.row(&key) {
                Ok(Some((_, Some(row)))) => {
                    if HistoryRow::decode(&row).is_none() {
                        self.tell(id, format!("a damaged entry of its history: {number}"));
                    }
                    bytes += row.len() as u64;
                }
                Ok(Some((_, None))) => {
                    is_whole = false;
                    self.tell(id, format!("a damaged entry of its history: {number}"));
                }
                Err(_) => is_whole = false,
                Ok(None) => {
                    is_whole = false;
                    self.tell(id, format!("an entry of its history is missing: {number}"));
                }
            }
            self.led.insert(key);
        }
        if is_whole && bytes != u64::from(stored.bytes) {
            let counted = stored.bytes;
            self.tell(id, format!("its history has {bytes} bytes, stored {counted}"));
        }
    }
}
