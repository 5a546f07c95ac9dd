//! The audit of histories: each task has exactly the entries that its progress names.

use crate::engine::audit::Audit;
use crate::format::key::{self};
use crate::format::row::{HistoryRow, TaskProgress};
use crate::words::task::TaskId;

impl Audit<'_> {
    /// The entries of a task.
    pub(super) fn history(&mut self, id: TaskId, head: &TaskProgress) {
        let Some(stored) = head.history() else { return };
        let (mut bytes, mut is_whole) = (0, true);
        for number in stored.first..stored.next {
            let key = key::history(self.tube.run(), id, number);
            match self.view.row(&key) {
                Ok(Some((_, Some(row)))) => {
                    if HistoryRow::decode(&row).is_none() {
                        self.say(format!("task {id}: a damaged entry of its history: {number}"));
                    }
                    bytes += row.len() as u64;
                }
                // The walk of its range reports a damaged row.
                Ok(Some((_, None))) | Err(_) => is_whole = false,
                Ok(None) => {
                    is_whole = false;
                    self.say(format!("task {id}: an entry of its history is missing: {number}"));
                }
            }
            self.led.insert(key);
        }
        if is_whole && bytes != u64::from(stored.bytes) {
            let counted = stored.bytes;
            self.say(format!("task {id}: its history has {bytes} bytes, stored {counted}"));
        }
    }
}
