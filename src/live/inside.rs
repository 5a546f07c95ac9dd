//! Whether this thread is inside `transact`, and so holds both locks: a plain verb would wait for
//! itself there.

use crate::error::{Error, ErrorKind, Result};
use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// # Errors
/// `InTransaction` if this thread is inside.
pub(crate) fn refuse() -> Result<()> {
    if is_inside() { Err(Error::new(ErrorKind::InTransaction)) } else { Ok(()) }
}

pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

pub(crate) fn enter() {
    INSIDE.set(true);
}

pub(crate) fn leave() {
    INSIDE.set(false);
}
