//! The audit of what only the rows of some states say: of a lease, of the end of a task, since when
//! it is ready, where it stood, how long its ttl is, and which gates it has beside its group.

use super::Fix;
use super::seen::Audit;
use crate::engine::state_rows;
use crate::engine::stored::{TaskRef, TaskState};
use crate::format::key::Key;
use crate::words::clock::NEVER;
use crate::words::task_gates::is_line;

impl Audit<'_> {
    /// Reports a row that says what its state excludes. Without that it says what it did.
    pub(super) fn fields(&mut self, (task, task_state): (&TaskRef<'_>, &TaskState), met: &Key) {
        if task_state.progress().extension.is_empty() {
            return;
        }
        let (mut right, is_ahead) = (task_state.clone(), task.place.is_ahead());
        let is_taken = matches!(right, TaskState::Taken(_));
        let is_ready = matches!(right, TaskState::Ready(_));
        let has_ended =
            matches!(right, TaskState::Done(_) | TaskState::Buried(_) | TaskState::Trashed(_));
        let progress = right.progress_mut();
        if !is_taken {
            progress.end_lease();
        }
        if !has_ended {
            progress.set_kept_until(NEVER);
        }
        if !is_ready {
            progress.set_ready_since(None);
        }
        if progress.expires == NEVER {
            // Without a ttl there is no length of one.
            progress.begin_life(0, NEVER);
        }
        if is_taken || !is_ahead {
            progress.take_own_rank();
        }
        if task.group.is_none_or(is_line) {
            let _is_unset = progress.set_gates(None);
        }
        if right.progress() == task_state.progress() {
            return;
        }
        // One that is to stand elsewhere is written there first.
        let row = state_rows::state_row(task, &right).filter(|(key, _)| key == met);
        if let Some((key, value)) = row {
            let what = format!("its row says what no task says that is {:?}", right.state());
            self.say_of(task.id, what, Fix::Set(key, value));
        }
    }
}
