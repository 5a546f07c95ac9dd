//! What a repair has done, and what is left. Mends nothing itself.

use crate::words::limits::REPAIR_STEPS;

/// What [`Queue::repair`](crate::Queue::repair) has done. Of a sound queue it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repairs {
    /// One line for each step: what was found, as [`check`](crate::Queue::check) says it, and what
    /// was done about it. The first 10 000.
    pub steps: Vec<String>,
    /// How many steps there were after these.
    pub steps_left_out: u64,
    /// What is still wrong with the rows, as [`check`](crate::Queue::check) says it. The first
    /// 10 000. Of the files only `check` says what is wrong.
    pub left: Vec<String>,
    /// How many lines there were after these.
    pub lines_left_out: u64,
    /// The error that has ended the repair after these steps, if one has. Then it is not known what
    /// is left: repair again when its cause is gone.
    pub stopped_by: Option<String>,
}

impl Repairs {
    /// Whether there was nothing to repair, and nothing is left.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.left.is_empty() && self.stopped_by.is_none()
    }

    pub(crate) fn add(&mut self, steps: Vec<String>) {
        let room = REPAIR_STEPS.saturating_sub(self.steps.len());
        self.steps_left_out += steps.len().saturating_sub(room) as u64;
        self.steps.extend(steps.into_iter().take(room));
    }
}
