//! Whether this thread is active `transact`, and so holds both locks: a plain verb would wait for
//! itself there. What guards and sessions have to do when they are dropped there is kept, and done
//! once the thread is outside.

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
/// `InTransaction` if this thread is active.
pub(crate) fn ensure_outside() -> Result<()> {
    // A thread whose locals are gone already is active nothing.
    let active = NESTING.try_with(|nest| nest.borrow().active).unwrap_or(false);
    if active { Err(Error::new(ErrorKind::InTransaction)) } else { Ok(()) }
}

/// Does what a drop has to do, now or as soon as the thread is outside.
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

/// ClockMarks this thread as being active, until it is dropped; by then the locks must be released.
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
