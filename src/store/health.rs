//! Whether the queue serves: open, for writing or read-only, closing, closed, or broken with a
//! reason. There is one for the whole queue: all code that finds a fatal fault reports it here, and
//! all code reads the state here.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::{AtomicUsize, Mutex, Ordering};

/// Calls are refused; the queue's own work goes on.
const CLOSING: usize = 1;
/// The files are released.
const CLOSED: usize = 2;
/// Nothing is written after this.
const BROKEN: usize = 4;
/// Opened to be read only.
const READ_ONLY: usize = 8;

/// The state of the whole queue.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// 0 while it is open for writing.
    state: AtomicUsize,
    why: Mutex<Option<Why>>,
}

/// What broke the queue first.
#[derive(Debug)]
struct Why {
    text: Box<str>,
    /// The fault is in the bytes of a file, so opening again finds it again.
    in_bytes: bool,
}

/// Exists from the append to the journal until its rows are visible and published. If a panic drops
/// it in between, it breaks the queue: what is on the disk and what is visible may differ.
#[must_use]
pub(crate) struct Armed<'a>(&'a Health);

impl Armed<'_> {
    #[inline]
    pub(crate) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        self.0.break_down("a panic came between a write to the journal and its rows", false);
    }
}

impl Health {
    /// Whether calls are served.
    ///
    /// # Errors
    /// `Closed`, also while the queue closes; `Broken`.
    #[inline]
    pub(crate) fn serves(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) & !READ_ONLY {
            0 => Ok(()),
            state => Err(self.refused(state & (CLOSING | CLOSED) != 0)),
        }
    }

    /// Whether rows may be written. They may while the queue closes.
    ///
    /// # Errors
    /// `Closed`, `Broken` or `ReadOnly`.
    #[inline]
    pub(crate) fn runs(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) & !CLOSING {
            0 => Ok(()),
            state => Err(self.refused_write(state)),
        }
    }

    #[cold]
    fn refused_write(&self, state: usize) -> Error {
        match state {
            READ_ONLY => Error::new(ErrorKind::ReadOnly),
            _ => self.refused(state & BROKEN == 0),
        }
    }

    /// Whether rows may be read. They may while the queue closes.
    ///
    /// # Errors
    /// `Closed` or `Broken`.
    #[inline]
    pub(crate) fn reads(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) & !(CLOSING | READ_ONLY) {
            0 => Ok(()),
            state => Err(self.refused(state & BROKEN == 0)),
        }
    }

    #[cold]
    fn refused(&self, closed: bool) -> Error {
        if closed {
            return Error::new(ErrorKind::Closed);
        }
        let why = self.why.lock();
        let text = why.as_ref().map_or("the queue has failed", |why| &*why.text);
        // The text of the error kind says what to do.
        Error::new(ErrorKind::Broken).because(text)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state.load(Ordering::Acquire) & (CLOSING | CLOSED) != 0
    }

    /// Whether a fault in the bytes of a file broke the queue.
    pub(crate) fn is_broken_in_bytes(&self) -> bool {
        self.why.lock().as_ref().is_some_and(|why| why.in_bytes)
    }

    /// Whether it was opened to be read only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.state.load(Ordering::Acquire) & READ_ONLY != 0
    }

    /// Forbids all writes, at an opening that only reads.
    pub(crate) fn forbid_writes(&self) {
        self.state.fetch_or(READ_ONLY, Ordering::AcqRel);
    }

    /// Begins to close. Returns whether this call was the first.
    pub(crate) fn begin_close(&self) -> bool {
        self.state.fetch_or(CLOSING, Ordering::AcqRel) & CLOSING == 0
    }

    pub(crate) fn close(&self) {
        self.state.fetch_or(CLOSING | CLOSED, Ordering::AcqRel);
    }

    /// Stops the queue permanently. The first reason is kept.
    #[cold]
    pub(crate) fn break_down(&self, why: impl Into<Box<str>>, in_bytes: bool) {
        self.why.lock().get_or_insert_with(|| Why { text: why.into(), in_bytes });
        self.state.fetch_or(BROKEN, Ordering::AcqRel);
    }

    #[inline]
    pub(crate) fn arm(&self) -> Armed<'_> {
        Armed(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_closing_queue_serves_no_calls_and_does_its_own_work() {
        let health = Health::default();
        assert!(health.serves().is_ok() && health.begin_close() && !health.begin_close());
        assert!(health.serves().unwrap_err().is_closed() && health.runs().is_ok());
        health.close();
        assert!(health.runs().unwrap_err().is_closed());
    }

    #[test]
    fn a_queue_that_is_read_only_reads_and_refuses_writes() {
        let health = Health::default();
        assert!(!health.is_read_only());
        health.forbid_writes();
        assert!(health.is_read_only() && health.serves().is_ok() && health.reads().is_ok());
        assert_eq!(health.runs().unwrap_err().kind(), ErrorKind::ReadOnly);
        assert!(health.begin_close());
        assert_eq!(health.runs().unwrap_err().kind(), ErrorKind::ReadOnly, "no last write");
        assert!(health.serves().unwrap_err().is_closed() && health.reads().is_ok());
        health.close();
        assert!(health.runs().unwrap_err().is_closed() && health.reads().unwrap_err().is_closed());
        health.break_down("later", false);
        assert_eq!(health.reads().unwrap_err().kind(), ErrorKind::Broken);
    }

    #[test]
    fn a_panic_between_append_and_publish_breaks_the_queue_and_the_first_reason_stays() {
        let health = Health::default();
        health.arm().disarm();
        assert!(health.runs().is_ok());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _armed = health.arm();
            panic!("between");
        }));
        assert!(panicked.is_err());
        health.break_down("something later", true);
        let error = health.serves().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Broken);
        let text = error.to_string();
        assert!(text.contains("a panic came") && text.contains("open it again"), "{text}");
        assert!(!health.is_broken_in_bytes());
    }
}
