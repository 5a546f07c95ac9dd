//! The audit of what the fields of a task's own row call for, or exclude.

use super::Fix;
use super::seen::Audit;
use crate::engine::kinds;
use crate::engine::stored::{TaskRef, TaskState};
use crate::format::row::{TaskRow, replaced_section};
use crate::format::{Tag, Value, key};

impl Audit<'_> {
    pub(super) fn own_row(&mut self, task: &TaskRef<'_>, task_state: &TaskState) {
        let Some((_, row)) = task.read else { return };
        if row.is_moved() {
            self.led(task.id);
        }
        if let Some(key) = kinds::row_of(task) {
            self.expect(Tag::Kind, key, Some(Value::EMPTY));
        }
        let is_done = matches!(task_state, TaskState::Done(_));
        if row.is_payload_dropped() && (!is_done || task.bytes > 0) {
            let (state, bytes) = (task_state.state(), task.bytes);
            let what =
                format!("its payload was not kept, but it is {state:?} and has {bytes} bytes");
            self.say_of(task.id, what, kept(task, &row));
        }
    }
}

/// If there is a payload, its row says so again. Without one it is lost.
fn kept(task: &TaskRef<'_>, row: &TaskRow<'_>) -> Fix {
    let section = replaced_section(row.extension, row.payload_generation());
    match section.filter(|_| task.bytes > 0) {
        Some(section) => {
            let own = key::task(task.tube.run(), &task.home, task.id);
            Fix::Set(own, TaskRow { extension: &section, ..*row }.encode())
        }
        None => Fix::Unkept(task.tube.number, task.id),
    }
}
