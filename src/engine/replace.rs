//! The one rule that replaces the payload of a task in hand, within any op: the new one is written
//! before the verb, which finds the task with it, and the pieces of the old one go with the same
//! commit, or under a work row. No two payloads of a task have a generation in common.

use crate::engine::context::{OpContext, damaged};
use crate::engine::payload::is_inline;
use crate::engine::pieces::{self, StagedPayload};
use crate::engine::stored::StoredTask;
use crate::engine::tube_cache::TubeEntry;
use crate::format::View;
use crate::format::feature::PAYLOADS;
use crate::format::piece::Pieces;
use crate::format::row::{PayloadPlace, TaskRow, replaced_section};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::payload::{NewPayload, fits};
use crate::words::task::TaskId;

/// A new payload, and what limits it.
#[derive(Clone, Copy)]
pub(crate) struct Replacement<'a> {
    pub(crate) payload: NewPayload<'a>,
    pub(crate) payload_bytes_max: usize,
    /// The limit of all durable tubes together.
    pub(crate) durable_bytes_max: u64,
    /// Its pieces, if they are written already.
    pub(crate) staged: Option<StagedPayload>,
}

/// The generation of the pieces of the next payload of a task with this row.
pub(crate) fn generation_after(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    row: &TaskRow<'_>,
) -> Result<u32> {
    let last = row.payload_generation().saturating_add(1);
    pieces::next_generation(view, (tube.run(), id), last)
}

impl Replacement<'_> {
    /// Refuses plain bytes for a task that a codec has encoded, a payload that is too long, and one
    /// for which the durable tubes have no room beside
    /// the others.
    pub(crate) fn check(&self, view: &dyn View, tube: &TubeEntry, old: &TaskRow<'_>) -> Result<()> {
        let bytes = self.payload.bytes.len();
        if self.payload.codec.is_none() && old.codec != 0 {
            let text = "bytes for a task with a codec; pass what the typed tube's encode returns";
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        fits(bytes, self.payload_bytes_max)?;
        let more = (bytes as u64).saturating_sub(old.payload.bytes());
        let (held, most) = (view.durable_bytes(), self.durable_bytes_max);
        if more > 0 && !tube.run().is_temporary() && held.saturating_add(more) > most {
            let text = format!(
                "durable_bytes_max is {most}, {held} payload bytes are held, these are {more} more"
            );
            return Err(Error::new(ErrorKind::Full).because(text));
        }
        Ok(())
    }

    /// The task with this payload instead of its own, of which the pieces are written and those of
    /// the old one removed. With another id the pieces are of a new task, of its first payload. The
    /// caller writes the task's own row, and counts the bytes.
    pub(crate) fn of(
        &self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        stored: StoredTask,
        id: TaskId,
    ) -> Result<StoredTask> {
        let stored = stored.whole(ctx, tube)?;
        let task = stored.task(tube)?;
        let (_, old) = task.read.ok_or_else(|| damaged("task"))?;
        self.check(ctx, tube, &old)?;
        let (run, is_new) = (tube.run(), id != task.id);
        let bytes = self.payload.bytes;
        let (generation, payload) = match self.staged {
            Some(staged) => (staged.pieces.generation, PayloadPlace::Separate(staged.pieces)),
            None => {
                let generation = match is_new {
                    true => 1,
                    false => generation_after(ctx, tube, id, &old)?,
                };
                let payload = match is_inline(bytes) {
                    true => PayloadPlace::Inline(bytes),
                    false => PayloadPlace::Separate(Pieces { generation, ..Pieces::of(bytes) }),
                };
                (generation, payload)
            }
        };
        let replaced = generation.saturating_sub(1);
        if replaced <= old.payload_generation() && !is_new {
            let text = "another call has replaced its payload meanwhile";
            return Err(Error::new(ErrorKind::WrongState).because(text));
        }
        match (&self.staged, payload.pieces()) {
            (Some(staged), _) => staged.end(ctx)?,
            (None, Some(pieces)) => {
                pieces::write(ctx, (run, id), &pieces, bytes, 0..pieces.count());
            }
            (None, None) => {}
        }
        if let Some(pieces) = old.payload.pieces() {
            pieces::remove(ctx, (run, task.id), &pieces)?;
        }
        if !run.is_temporary() && !is_new {
            ctx.needs(&PAYLOADS);
        }
        let no_room = || Error::new(ErrorKind::TooLarge).because("its row has no room for it");
        let section = replaced_section(old.extension, replaced).ok_or_else(no_room)?;
        let (codec, version) = self.payload.codec.unwrap_or((old.codec, old.version));
        let row = TaskRow { codec, version, extension: &section, payload, ..old };
        let raw = row.encode();
        Ok(stored.with_own(raw))
    }
}
