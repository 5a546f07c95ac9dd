//! A task's payload: at the end of the task's row, or in a row of its own if it is long.

use crate::engine::context::damaged;
use crate::format::key::{self, Run};
use crate::format::row::PayloadPlace;
use crate::format::{Value, View};
use crate::words::error::Result;
use crate::words::task::TaskId;
use std::ops::Deref;

/// A payload inside the row that holds it.
#[derive(Debug)]
pub(crate) struct Payload {
    row: Value,
    from: usize,
}

impl Payload {
    /// Reads the payload of a task whose own row is `row`, from there or from beside it.
    ///
    /// # Errors
    /// `Damaged` if it is, or is gone.
    #[inline]
    pub(crate) fn read(
        view: &dyn View,
        run: Run,
        id: TaskId,
        row: &Value,
        contents: PayloadPlace<'_>,
    ) -> Result<Self> {
        let PayloadPlace::Inline(payload) = contents else {
            let row = view.get(&key::body(run, id))?;
            return Ok(Self { row: row.ok_or_else(|| damaged("payload"))?, from: 0 });
        };
        let from = row.len() - payload.len();
        Ok(Self { row: row.clone(), from })
    }

    /// Its bytes, without a copy if they are many and none else has them.
    pub(crate) fn into_vec(self) -> Vec<u8> {
        if self.from == 0 { self.row.into_vec() } else { self.to_vec() }
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.row.get(self.from..).unwrap_or_default()
    }
}
