//! Failed tasks go to another tube, step by step. The move of each is that of `moves`.

use crate::engine::context::{Op, OpContext, sound};
use crate::engine::lookup;
use crate::engine::moves::{Move, Which};
use crate::engine::new_row::NewRow;
use crate::engine::stored::TaskState;
use crate::engine::update::Changes;
use crate::words::error::{ErrorKind, Result};
use crate::words::limits::PAGE_BYTES;
use crate::words::numbers::Numbers;
use crate::words::task::TaskId;

/// Moves tasks that were found in a failure group to the back of a tube, in their order, and steps
/// over those that have left the group. Of one op, not more than some bytes of rows.
pub(crate) struct MoveFailed<'a> {
    pub(crate) to: u32,
    pub(crate) group: &'a str,
    /// Each with its tube, where what is due was done.
    pub(crate) tasks: &'a [(u32, TaskId)],
    pub(crate) others_wait: bool,
}

/// What became of them.
#[derive(Default)]
pub(crate) struct MovedFailed {
    /// Of how many tasks; the others are left for the next op.
    pub(crate) looked: usize,
    pub(crate) moved: Vec<TaskId>,
    /// Those whose key the other tube has.
    pub(crate) clashes: Vec<TaskId>,
    /// Whether the other tube has no room for the next one.
    pub(crate) is_full: bool,
}

impl Op for MoveFailed<'_> {
    type Done = MovedFailed;

    fn tube(&self) -> Option<u32> {
        Some(self.to)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_ids(self.tasks.len() as u64)
    }

    fn grows(&self) -> bool {
        true
    }

    fn in_doubt(&self, done: &MovedFailed) -> Vec<TaskId> {
        done.moved.clone()
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<MovedFailed> {
        let (mut done, mut bytes) = (MovedFailed::default(), 0);
        for (from, id) in self.tasks {
            if bytes >= PAGE_BYTES || ctx.is_sweep_long() {
                break;
            }
            let length = self.bytes_of(ctx, *from, *id)?;
            let (which, changes) = (Which::ById(*id, &NewRow::PLAIN), Changes::default());
            let others_wait = self.others_wait;
            let (to, puts_wait, after) = (self.to, false, None);
            let step = Move { from: *from, to, which, changes, others_wait, puts_wait, after };
            match length.map(|length| step.decide(ctx).map(|()| length)) {
                // It has left the group, or is damaged.
                None => {}
                Some(Ok(length)) => {
                    bytes += length;
                    done.moved.push(*id);
                }
                Some(Err(error)) => match error.kind() {
                    ErrorKind::KeyExists => done.clashes.push(*id),
                    ErrorKind::Full => {
                        done.is_full = true;
                        break;
                    }
                    _ => return Err(error.on_task(*id)),
                },
            }
            done.looked += 1;
        }
        Ok(done)
    }
}

impl MoveFailed<'_> {
    /// The bytes of a task's own row, if it still stands in the group and is sound.
    fn bytes_of(&self, ctx: &OpContext<'_>, from: u32, id: TaskId) -> Result<Option<usize>> {
        let tube = match ctx.tube(from) {
            Err(error) if error.is_not_found() => return Ok(None),
            tube => tube?,
        };
        let found = match lookup::find(ctx, &tube, id) {
            Err(error) if error.is_not_found() => None,
            found => sound(found)?,
        };
        let Some((stored, TaskState::Buried(row))) = found else { return Ok(None) };
        let task = sound(stored.task(&tube))?.and_then(|task| task.read);
        let own = task.filter(|_| row.failure_group() == Some(self.group));
        Ok(own.map(|(raw, _)| raw.len()))
    }
}
