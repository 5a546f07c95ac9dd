//! Whether this thread is inside `transact`, and so holds both locks: a plain verb would wait for
//! itself there. What guards and sessions have to do when they are dropped there is kept, and done
//! once the thread is outside.

use crate::error::{Error, ErrorKind, Result};
use crate::sync::thread_local;
use std::cell::RefCell;

thread_local! {
    static NEST: RefCell<Nest> = const { RefCell::new(Nest { inside: false, later: Vec::new() }) };
}

struct Nest {
    inside: bool,
    later: Vec<Box<dyn FnOnce()>>,
}

/// # Errors
/// `InTransaction` if this thread is inside.
pub(crate) fn refuse() -> Result<()> {
    // A thread whose locals are gone already is inside nothing.
    let inside = NEST.try_with(|nest| nest.borrow().inside).unwrap_or(false);
    if inside { Err(Error::new(ErrorKind::InTransaction)) } else { Ok(()) }
}

/// Does what a drop has to do, now or as soon as the thread is outside.
pub(crate) fn run_outside(work: impl FnOnce() + 'static) {
    let mut work = Some(work);
    let _ = NEST.try_with(|nest| {
        let mut nest = nest.borrow_mut();
        if nest.inside
            && let Some(work) = work.take()
        {
            nest.later.push(Box::new(work));
        }
    });
    if let Some(work) = work {
        work();
    }
}

/// Marks this thread as being inside, until it is dropped; by then the locks must be released.
pub(crate) struct Inside(());

impl Inside {
    pub(crate) fn enter() -> Self {
        NEST.with(|nest| nest.borrow_mut().inside = true);
        Self(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let later = NEST.with(|nest| {
            let mut nest = nest.borrow_mut();
            nest.inside = false;
            std::mem::take(&mut nest.later)
        });
        for work in later {
            work();
        }
    }
}
