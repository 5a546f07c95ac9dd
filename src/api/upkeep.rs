//! Calls that concern the running queue and its files, not a task.

use crate::engine::audit;
use crate::runtime::checkpointer::checkpoint;
use crate::runtime::shared::Shared;
use crate::runtime::timer::work_off_all;
use crate::store::{BaseSpace, Progress, Space, Stage};
use crate::words::error::{Error, ErrorKind, Result};
use std::ops::ControlFlow;

/// Handles all that is due now, and all sweeps.
pub(crate) fn tick(core: &Shared) -> Result<()> {
    core.enter()?;
    work_off_all(core)?;
    // After a failure the work may be incomplete.
    core.health.serves()?;
    core.health.runs()
}

/// Reads the files and every row, and returns each disagreement.
pub(crate) fn check(core: &Shared) -> Result<Vec<String>> {
    core.enter()?;
    let _writer = core.writer();
    let mut state = core.running()?;
    let mut lines = Vec::new();
    state.store.check(&mut |line| lines.push(line), audit::audit)?;
    Ok(lines)
}

/// The bytes that the queue uses, on the disk and in memory.
pub(crate) fn space(core: &Shared) -> Result<Space> {
    core.enter()?;
    let state = core.running()?;
    Ok(Space { tasks_put: state.derived.tasks_put, ..state.store.space() })
}

/// What the base's file consists of. Other calls do not wait.
pub(crate) fn base_space(core: &Shared) -> Result<BaseSpace> {
    core.enter()?;
    let opening = core.running()?.store.opening()?;
    BaseSpace::measure(&opening)
}

/// Shrinks the base, and calls `progress` after each round.
pub(crate) fn compact(
    core: &Shared,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<()> {
    checkpoint(core)?;
    let total = core.state.lock().store.space().base_bytes;
    // Each round frees space into which the next one can move pages.
    while let Some(bytes) = compact_once(core)? {
        let done = total.saturating_sub(bytes);
        if progress(Progress { stage: Stage::Compact, done, total }).is_break() {
            return Err(Error::new(ErrorKind::Cancelled));
        }
    }
    Ok(())
}

/// Bytes of the base after one round of compaction, if that made it smaller.
fn compact_once(core: &Shared) -> Result<Option<u64>> {
    let _writer = core.writer();
    let mut state = core.running()?;
    let smaller = state.store.compact()?;
    Ok(smaller.then(|| state.store.space().base_bytes))
}
