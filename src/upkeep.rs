//! What concerns the running queue as a whole and no task: working off, looking after the files.

use crate::engine::audit;
use crate::error::Result;
use crate::live::core::Core;
use crate::live::inside;
use crate::store::Space;

impl Core {
    /// Works off what is due now, and all sweeps.
    pub(crate) fn tick(&self) -> Result<()> {
        inside::refuse()?;
        self.is_open()?;
        self.work_off_all()?;
        // What a failure stopped half-way is not done.
        self.is_open()?;
        self.state.lock().is_open()
    }

    /// Reads the files and every row, and reports each disagreement.
    pub(crate) fn check(&self) -> Result<Vec<String>> {
        inside::refuse()?;
        self.is_open()?;
        let _writer = self.writer.lock();
        let mut state = self.state.lock();
        state.is_open()?;
        let mut lines = Vec::new();
        state.store.check(&mut |line| lines.push(line))?;
        audit::audit(&state.store, &mut |line| lines.push(line))?;
        Ok(lines)
    }

    /// What the queue takes, on the disk and in memory.
    pub(crate) fn space(&self) -> Result<Space> {
        inside::refuse()?;
        self.is_open()?;
        let state = self.state.lock();
        state.is_open()?;
        Ok(state.store.space())
    }

    /// Shrinks the base.
    pub(crate) fn compact(&self) -> Result<()> {
        self.checkpoint()?;
        let _writer = self.writer.lock();
        let mut state = self.state.lock();
        state.is_open()?;
        // Each round frees what the next one can move.
        while state.store.compact()? {}
        Ok(())
    }
}
