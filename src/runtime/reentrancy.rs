//! Whether this thread is inside `transact` and so holds both locks: a plain verb there would wait
//! for itself. The work of guards and sessions that are dropped inside is deferred until the end of
//! the transaction.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::thread_local;
use std::cell::RefCell;

thread_local! {
    static NESTING: RefCell<Nesting> =
        const { RefCell::new(Nesting { active: false, deferred: Vec::new() }) };
}

struct Nesting {
    active: bool,
    deferred: Vec<Box<dyn FnOnce()>>,
}

/// # Errors
/// `InTransaction` if this thread is inside `transact`.
pub(crate) fn ensure_outside() -> Result<()> {
    // A thread whose locals are destroyed is not inside a transaction.
    let active = NESTING.try_with(|nest| nest.borrow().active).unwrap_or(false);
    if active { Err(Error::new(ErrorKind::InTransaction)) } else { Ok(()) }
}

/// Does the work of a drop now, or after the transaction of this thread.
pub(crate) fn defer_until_outside(work: impl FnOnce() + 'static) {
    let mut work = Some(work);
    let _ = NESTING.try_with(|nest| {
        let mut nest = nest.borrow_mut();
        if nest.active
            && let Some(work) = work.take()
        {
            nest.deferred.push(Box::new(work));
        }
    });
    if let Some(work) = work {
        work();
    }
}

/// Marks this thread as being inside a transaction until the drop. The locks must be released
/// before that.
pub(crate) struct TransactionScope(());

impl TransactionScope {
    pub(crate) fn enter() -> Self {
        NESTING.with(|nest| nest.borrow_mut().active = true);
        Self(())
    }
}

impl Drop for TransactionScope {
    fn drop(&mut self) {
        let deferred = NESTING.with(|nest| {
            let mut nest = nest.borrow_mut();
            nest.active = false;
            std::mem::take(&mut nest.deferred)
        });
        for work in deferred {
            work();
        }
    }
}
