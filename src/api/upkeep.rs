//! What concerns the running queue as a whole and no task: working off, looking after the files.

use crate::engine::audit;
use crate::runtime::checkpointer::checkpoint;
use crate::runtime::core::Core;
use crate::runtime::timer::work_off_all;
use crate::store::{BaseSpace, Progress, Space, Stage};
use crate::words::error::{Error, ErrorKind, Result};
use std::ops::ControlFlow;

/// Works off what is due now, and all sweeps.
pub(crate) fn tick(core: &Core) -> Result<()> {
    core.enter()?;
    work_off_all(core)?;
    // What a failure stopped half-way is not done.
    core.health.serves()?;
    core.health.runs()
}

/// Reads the files and every row, and reports each disagreement.
pub(crate) fn check(core: &Core) -> Result<Vec<String>> {
    core.enter()?;
    let _writer = core.writer();
    let mut state = core.running()?;
    let mut lines = Vec::new();
    state.store.check(&mut |line| lines.push(line), audit::audit)?;
    Ok(lines)
}

/// What the queue takes, on the disk and in memory.
pub(crate) fn space(core: &Core) -> Result<Space> {
    core.enter()?;
    let state = core.running()?;
    Ok(Space { tasks_put: state.derived.tasks_put, ..state.store.space() })
}

/// What the base's file is made of. Nobody waits meanwhile.
pub(crate) fn base_space(core: &Core) -> Result<BaseSpace> {
    core.enter()?;
    let surveyor = core.running()?.store.surveyor()?;
    surveyor.measure()
}

/// Shrinks the base, and tells after each round how far it has come.
pub(crate) fn compact(
    core: &Core,
    mut told: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<()> {
    checkpoint(core)?;
    let total = core.state.lock().store.space().base_bytes;
    // Each round frees what the next one can move.
    while let Some(bytes) = compact_once(core)? {
        let done = total.saturating_sub(bytes);
        if told(Progress { stage: Stage::Compact, done, total }).is_break() {
            return Err(Error::new(ErrorKind::Cancelled));
        }
    }
    Ok(())
}

/// Bytes of the base behind one round of compaction, if they are fewer now.
fn compact_once(core: &Core) -> Result<Option<u64>> {
    let _writer = core.writer();
    let mut state = core.running()?;
    let smaller = state.store.compact()?;
    Ok(smaller.then(|| state.store.space().base_bytes))
}
