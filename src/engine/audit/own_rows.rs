//! The audit of what the fields of a task's own row call for, or exclude.

use crate::engine::audit::Audit;
use crate::engine::kinds;
use crate::engine::stored::{TaskRef, TaskState};
use crate::format::Tag;

impl Audit<'_> {
    pub(super) fn own_row(&mut self, task: &TaskRef<'_>, standing: &TaskState) {
        let Some((_, row)) = task.read else { return };
        if row.is_moved() {
            self.led(task.id);
        }
        if let Some(key) = kinds::row_of(task) {
            self.expect(Tag::Kind, key);
        }
        let is_done = matches!(standing, TaskState::Done(_));
        if row.is_payload_dropped() && (!is_done || task.bytes > 0) {
            let (state, bytes) = (standing.state(), task.bytes);
            let what = format!("it is {state:?} and has {bytes} bytes");
            self.say(format!("task {}: its payload was not kept, but {what}", task.id));
        }
    }
}
